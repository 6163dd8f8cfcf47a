"""What ties the values of a fabric together: names that differ, protocols in common, levels that nest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from colltool.errors import ColltoolError, nearest
from colltool.primitives import SHORT, Primitive

if TYPE_CHECKING:  # the model's validators call these
    from colltool.fabric.model import Fabric, InNetwork, Level, Protocol


def known_algorithm(primitive: Primitive, name: str) -> str:
    """A name that ``--algorithm`` takes for a primitive, a composition with its choices included."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import compositions
    from colltool.algorithms.registry import every_algorithm, find

    composed = [row.name for row in compositions(primitive)]
    base, colon, choice = name.partition(":")
    if base not in composed:
        return find(primitive, name, composed).name
    known = {row.name for row in every_algorithm()}
    unknown = [part for part in choice.split("/") if part not in known] if colon else []
    if unknown:
        raise ColltoolError(f"no algorithm '{unknown[0]}' in '{name}'", fix=nearest(unknown[0], sorted(known)))
    return name


def check_named_once(keys: Sequence[str]) -> None:
    """A mapping by primitive gives each once, whatever its spelling.

    Raises:
        ValueError: one is there under two names.
    """
    words = [key.lower().replace("-", "_") for key in keys]
    names = [primitive for word in words for primitive, short in SHORT.items() if word in (short, primitive)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"gives {twice[0]} twice, under two of its names")


def check_protocols(listed: Sequence[Protocol]) -> None:
    """A primitive finds one protocol of a name.

    Raises:
        ValueError: it finds two.
    """
    for index, one in enumerate(listed):
        for other in listed[:index]:
            both = set(one.primitives or ()) & set(other.primitives or ())
            if one.name == other.name and (both or one.primitives is other.primitives is None):
                what = f"for {min(both)}" if both else "for all primitives"
                raise ValueError(f"two protocols are called '{one.name}' {what}")


def check_switch(switch: InNetwork | None, listed: Sequence[Protocol]) -> None:
    """The switches compute under protocols that the tier lists.

    Raises:
        ValueError: it does not list one of them.
    """
    names = [one.name for one in listed]
    for name in (switch.protocols or ()) if switch else ():
        if name not in names:
            raise ValueError(f"in_network.protocols names '{name}', protocols lists {', '.join(names) or 'none'}")


def check_levels(levels: Sequence[Level], size: int) -> None:
    """Levels nest, the last one around all endpoints.

    Raises:
        ValueError: names that are equal, groups that do not nest or hold too few, a ratio where no uplinks are.
    """
    first, last = levels[0], levels[-1]
    if len({level.name for level in levels}) < len(levels):
        raise ValueError(f"two levels have the same name: {', '.join(level.name for level in levels)}")
    if first.oversubscription != 1:
        raise ValueError(f"oversubscription has no meaning on the first level '{first.name}': no uplinks enter it from below")
    for below, above in pairwise(levels):
        if above.group % below.group or above.group <= below.group:
            raise ValueError(
                f"groups do not nest: '{above.name}' has {above.group} endpoints, "
                f"which is not a larger multiple of the {below.group} of '{below.name}'"
            )
    if last.group < size:
        raise ValueError(f"the last level '{last.name}' joins {last.group} endpoints, the tier has {size}")


def check_common_protocols(fabric: Fabric) -> None:
    """A collective runs under one protocol throughout, so the tiers that list any need one in common.

    Raises:
        ValueError: they have none for a primitive.
    """
    for primitive in Primitive:
        lists = {tier.name: list(own) for tier in fabric.tiers if (own := tier.protocols_for(primitive))}
        common = set.intersection(*map(set, lists.values())) if lists else {""}
        if not common:
            listed = "; ".join(f"{tier}: {', '.join(own)}" for tier, own in lists.items())
            what = f"the tiers share no protocol for {primitive.spoken} ({listed}): a call runs under one throughout"
            raise ValueError(what)
