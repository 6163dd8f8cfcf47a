"""Copies of a fabric with other numbers, unchecked.

Numbers may be arrays, of which pricing works out every element: many fabrics are priced at once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

Place = tuple[str | int, ...]
"""Path of a value in a fabric: ``("tiers", 0, "eta", "beta")``."""

_WORDS = frozenset({"source", "notes", "description", "name"})  # never priced


INNERMOST = (0,)


def with_tiers(fabric: Fabric, change: Callable[[Tier], Tier], only: Container[int] | None = None) -> Fabric:
    """Change all tiers, or those of ``only``, where the innermost is 0."""
    tiers = (change(tier) if only is None or at in only else tier for at, tier in enumerate(fabric.tiers))
    return fabric.model_copy(update={"tiers": tuple(tiers)})


def scaled_bandwidth(tier: Tier, share: float) -> Tier:
    """Scale the bandwidth of a tier, under every protocol."""
    protocols = tier.protocols and tuple(
        one.model_copy(update={"bandwidth": one.bandwidth * share}) if one.bandwidth else one for one in tier.protocols
    )
    return tier.model_copy(update={"bandwidth": tier.bandwidth * share, "protocols": protocols})


def without_in_network(tier: Tier) -> Tier:
    return tier.model_copy(update=dict(capabilities_of(tier).with_switch(None)))


def non_blocking(tier: Tier) -> Tier:
    """A tier without oversubscription."""
    levels = tuple(one.model_copy(update={"oversubscription": 1.0}) for one in capabilities_of(tier).levels)
    return tier.model_copy(update={"levels": levels}) if levels else tier


def values_of(fabric: Fabric) -> dict[Place, Any]:
    """Every value that a price may depend on."""
    return dict(_values(fabric, ()))


def _values(part: Any, at: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(part, BaseModel):
        for name in type(part).model_fields:
            if name not in _WORDS:
                yield from _values(getattr(part, name), (*at, name))
    elif isinstance(part, tuple):
        for index, one in enumerate(part):
            yield from _values(one, (*at, index))
        yield (*at, "length"), len(part)
    elif isinstance(part, dict):
        for key, one in part.items():
            yield from _values(one, (*at, str(key)))
    else:
        yield at, part


def differences(fabrics: Sequence[Fabric]) -> dict[Place, list[float]] | None:
    """The numbers in which fabrics differ, with their values in each; None where they differ in more than numbers."""
    first, *others = [values_of(fabric) for fabric in fabrics]
    if any(other.keys() != first.keys() for other in others):
        return None
    found: dict[Place, list[float]] = {}
    for place, value in first.items():
        several = [value, *(one[place] for one in others)]
        if all(one == value for one in several):
            continue
        if not all(isinstance(one, float) for one in several):
            return None
        found[place] = several
    return found


def with_values(fabric: Fabric, values: Mapping[Place, Any]) -> Fabric:
    """Put values, or arrays of one length, at places of a fabric."""
    for place, value in values.items():
        fabric = _put(fabric, place, value)
    return fabric


def _put(part: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    step, *rest = place
    if isinstance(part, tuple):
        return tuple(_put(one, tuple(rest), value) if index == step else one for index, one in enumerate(part))
    if isinstance(part, dict):
        return {key: _put(one, tuple(rest), value) if str(key) == step else one for key, one in part.items()}
    return part.model_copy(update={str(step): _put(getattr(part, str(step)), tuple(rest), value)})
