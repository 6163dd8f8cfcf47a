"""Many fabrics as one whose values are arrays: what pricing works out of it holds for each of them, element by element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from colltool.fabric.model import Fabric

Place = tuple[str | int, ...]
"""Where a value stands in a fabric: ``("tiers", 0, "eta", "beta")``."""

_WORDS = frozenset({"source", "notes", "description", "name"})  # never priced


def values_of(fabric: Fabric) -> dict[Place, Any]:
    """Every value of a fabric that a price may depend on, by its place."""
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
    """The numbers in which fabrics differ, each with its value in all of them; None where they differ in more than numbers."""
    every = [values_of(fabric) for fabric in fabrics]
    first = every[0]
    if any(other.keys() != first.keys() for other in every[1:]):
        return None
    found: dict[Place, list[float]] = {}
    for place, value in first.items():
        several = [one[place] for one in every]
        if all(one == value for one in several):
            continue
        if not all(isinstance(one, float) for one in several):
            return None
        found[place] = several
    return found


def with_values(fabric: Fabric, values: Mapping[Place, Any]) -> Fabric:
    """The fabric with other numbers at some places, unchecked: numbers, or arrays of one length."""
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
