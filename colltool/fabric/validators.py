"""What ties the values of a fabric together: names that differ, protocols in common, levels that nest.

Each check raises ``Slips``: every mistake that does not follow from another, at its own key below the validated part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, nearest
from colltool.base.primitives import SHORT, Primitive
from colltool.definitions.field_types import MAX_RANKS, MAX_RATIO
from colltool.definitions.schema_hints import Slip, Slips

if TYPE_CHECKING:  # the model's validators call these
    from colltool.fabric.model import Fabric, LatticeTier, TierBase
    from colltool.fabric.tier_parts import InNetwork, Level, Protocol


def known_algorithm(primitive: Primitive, name: str) -> str:
    """A name that ``--algorithm`` takes for a primitive, a composition with its choices included."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import compositions
    from colltool.algorithms.registry import every_algorithm, find, on_request

    composed = [row.name for row in compositions(primitive)]
    base, colon, choice = name.partition(":")
    if base not in composed:
        row = find(primitive, base if base in {one.name for one in on_request()} else name, composed)
        if colon and not (choice.isascii() and choice.isdecimal() and int(choice[:9])):
            raise ColltoolError(f"'{name}' has no number of {row.counts} behind its name", fix=f"such as {base}:8")
        return name
    known = sorted({row.name for row in every_algorithm()})
    unknown = [part for part in choice.split("/") if part not in known] if colon else []
    if unknown:
        fix = nearest(unknown[0], known) or f"known: {', '.join(known)}"
        raise ColltoolError(f"no algorithm '{unknown[0]}' in '{name}'", fix=fix)
    return name


def check_algorithms(listed: Mapping[Primitive, Sequence[str]], keys: Sequence[str]) -> None:
    """Every algorithm exists for its primitive, and stands there once.

    Args:
        listed: names by primitive.
        keys: the primitives as the file spells them, in the same order.

    Raises:
        Slips: one does not, or stands twice.
    """
    slips = []
    for key, (primitive, names) in zip(keys, listed.items(), strict=True):
        for index, name in enumerate(names):
            at = (key, index)
            if name in names[:index]:
                slips.append(Slip(f"'{name}' is named twice", "once is enough", at))
                continue
            try:
                known_algorithm(primitive, name)
            except ColltoolError as error:
                slips.append(Slip(error.what, error.fix, at))
    _raise(slips)


def check_named_once(keys: Sequence[str]) -> None:
    """A mapping by primitive gives each once, whatever its spelling.

    Raises:
        Slips: one is there under two names.
    """
    words = [key.lower().replace("-", "_") for key in keys]
    names = [primitive for word in words for primitive, short in SHORT.items() if word in (short, primitive)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Slips(Slip(f"gives {twice[0]} twice, under two of its names", "keep one of the two"))


def check_axes(tier: LatticeTier) -> LatticeTier:
    """A lattice is not too large, says what it says of its axes of every one, and has wraparound only as a torus.

    Raises:
        Slips: too many endpoints, ``wrap`` or a slice of another number of axes, or wraparound on a mesh.
    """
    slips, axes = [], len(tier.shape)
    if tier.endpoints > MAX_RANKS:
        slips.append(Slip(f"{tier.endpoints} endpoints are more than {MAX_RANKS}", "shorten an axis", ("shape",)))
    if tier.wrap is not None and len(tier.wrap) != axes:
        slips.append(Slip(f"says it of {len(tier.wrap)} axes, the shape has {axes}", "give one for each axis", ("wrap",)))
    elif any(tier.wrap or ()) and not tier.closes:
        slips.append(Slip("a mesh has no wraparound", "write topology: torus, or leave out wrap", ("wrap",)))
    for index, shape in enumerate(tier.slices or ()):
        if len(shape) != axes:
            slips.append(Slip(f"has {len(shape)} axes, the shape has {axes}", "one number for each axis", ("slices", index)))
    _raise(slips)
    return tier


def check_tiers(fabric: Fabric) -> None:
    """The tiers of a fabric differ in name, share a protocol, and are those that ``prices`` speak of.

    Raises:
        Slips: they do not.
    """
    check_tier_names(fabric.tiers)
    check_common_protocols(fabric)
    check_priced(fabric)


def check_tier_names(tiers: Sequence[TierBase]) -> None:
    """Tiers have names that differ.

    Raises:
        Slips: two have the same.
    """
    names = [tier.name for tier in tiers]
    if (second := _repeated(names)) is not None:
        at = ("tiers", second, "name")
        raise Slips(Slip(f"two tiers have the same name: {', '.join(names)}", "give each a name of its own", at))


def check_protocols(listed: Sequence[Protocol]) -> None:
    """A primitive finds one protocol of a name.

    Raises:
        Slips: it finds two.
    """
    slips = []
    for index, one in enumerate(listed):
        for other in listed[:index]:
            both = set(one.primitives or ()) & set(other.primitives or ())
            if one.name == other.name and (both or one.primitives is other.primitives is None):
                what = f"for {min(both)}" if both else "for all primitives"
                fix = "give each a name of its own, or primitives that differ"
                slips.append(Slip(f"two protocols are called '{one.name}' {what}", fix, ("protocols", index)))
                break
    _raise(slips)


def check_switch(switch: InNetwork | None, listed: Sequence[Protocol]) -> None:
    """The switches compute under protocols that the tier lists.

    Raises:
        Slips: it does not list one of them.
    """
    names = [one.name for one in listed]
    known = ", ".join(names) or "none"
    _raise(
        [
            Slip(f"names '{name}', protocols lists {known}", "name a protocol of this tier", ("in_network", "protocols", index))
            for index, name in enumerate((switch.protocols or ()) if switch else ())
            if name not in names
        ]
    )


def check_levels(alpha: float | None, levels: Sequence[Level] | None, size: int) -> None:
    """A Clos has one alpha, or levels that nest, the last one around all endpoints.

    Raises:
        Slips: both or neither, names that are equal, groups that do not nest or hold too few, a ratio where no uplinks are.
    """
    if levels is None:
        if alpha is None:
            raise Slips(Slip("needs alpha, or levels", "alpha: 2us, or levels: [{name: leaf, group: 4, alpha: 2us}]"))
        return
    slips = []
    if alpha is not None:
        slips.append(Slip("has both alpha and levels: give each level its own alpha", "remove this one", ("alpha",)))
    first, last = levels[0], levels[-1]
    names = [level.name for level in levels]
    if (second := _repeated(names)) is not None:
        what = f"two levels have the same name: {', '.join(names)}"
        slips.append(Slip(what, "give each a name of its own", ("levels", second, "name")))
    if first.oversubscription != 1:
        what = f"oversubscription has no meaning on the first level '{first.name}': no uplinks enter it from below"
        slips.append(Slip(what, "give it to the level above", ("levels", 0, "oversubscription")))
    for index, (below, above) in enumerate(pairwise(levels), start=1):
        if above.group % below.group or above.group <= below.group:
            what = (
                f"groups do not nest: '{above.name}' has {above.group} endpoints, "
                f"which is not a larger multiple of the {below.group} of '{below.name}'"
            )
            near = max(2, -(-above.group // below.group)) * below.group
            slips.append(Slip(what, f"the next that does: group: {near}", ("levels", index, "group")))
    if last.group < size:
        what = f"the last level '{last.name}' joins {last.group} endpoints, the tier has {size}"
        fix = f"give it a group of {size} or more, or add a level above it"
        slips.append(Slip(what, fix, ("levels", len(levels) - 1, "group")))
    _raise(slips)


def check_totals(totals: Sequence[float]) -> None:
    """Hops of oversubscription multiply to no more than one level may give.

    Raises:
        Slips: at the first that does.
    """
    for index, total in enumerate(totals):
        if total > MAX_RATIO:
            fix = f"hops multiply from the endpoints up: at most {MAX_RATIO} in all"
            raise Slips(Slip(f"oversubscribed {total:g}:1 against the endpoints", fix, ("levels", index, "oversubscription")))


def check_common_protocols(fabric: Fabric) -> None:
    """A collective runs under one protocol throughout, so the tiers that list any need one in common.

    Raises:
        Slips: they have none for a primitive.
    """
    for primitive in Primitive:
        lists = {tier.name: list(own) for tier in fabric.tiers if (own := tier.protocols_for(primitive))}
        common = set.intersection(*map(set, lists.values())) if lists else {""}
        if not common:
            listed = "; ".join(f"{tier}: {', '.join(own)}" for tier, own in lists.items())
            what = f"the tiers share no protocol for {primitive.spoken} ({listed}): a call runs under one throughout"
            raise Slips(Slip(what, "give the tiers a protocol of the same name", ("tiers",)))


def check_priced(fabric: Fabric) -> None:
    """``prices`` speak of tiers and levels that are there.

    Raises:
        Slips: they do not.
    """
    if fabric.prices is None:
        return
    tiers = [tier.name for tier in fabric.tiers]
    levels = [name for tier in fabric.tiers for name in tier.level_names]
    known = {"tiers": (fabric.prices.tiers, tiers), "copper": (fabric.prices.copper, [*tiers, *levels])}
    _raise(
        [
            Slip(f"there is no '{name}'", f"{nearest(name, names)} known: {', '.join(names)}".strip(), ("prices", key, index))
            for key, (given, names) in known.items()
            for index, name in enumerate(given or ())
            if name not in names
        ]
    )


def _repeated(names: Sequence[str]) -> int | None:
    """The first that was there before."""
    return next((index for index, name in enumerate(names) if name in names[:index]), None)


def _raise(slips: Sequence[Slip]) -> None:
    if slips:
        raise Slips(*slips)
