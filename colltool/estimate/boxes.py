"""The slice that ``shape`` asks for: a box on each lattice of a fabric, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import Shape, shape_text
from colltool.estimate.who import Who
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

Boxes = tuple[Tier | None, ...]
"""Of each tier its slice as a lattice of its own; None of what is no lattice."""


def boxes_of(fabric: Fabric, who: Who) -> Boxes:
    """The boxes of a shape, which goes through the axes of all lattices, innermost first; those it leaves out are 1.

    Raises:
        ColltoolError: no lattice, more axes than there are, a stride beside it, or a box that does not fit.
    """
    lattices = [tier for tier in fabric.tiers if capabilities_of(tier).axes]
    axes = sum(len(capabilities_of(tier).axes) for tier in lattices)
    shape = who.shape or ()
    if not lattices:
        fix = f"leave it out: {given('ranks', prod(shape))} takes so many ranks"
        raise ColltoolError(f"{fabric.name} has no torus and no mesh, so that a group has no shape", argument="shape", fix=fix)
    if len(shape) > axes:
        what = f"{shape_text(shape)} has {len(shape)} axes, {fabric.name} has {axes} ({_extents(lattices)})"
        raise ColltoolError(what, argument="shape", fix=f"write {_asked(_axes(lattices))}, or less along an axis")
    if who.stride > 1:
        what = f"{shape_text(shape)} is a slice of consecutive ranks, without a stride"
        raise ColltoolError(what, argument="shape", fix=f"leave out {given('shape')} or {given('stride')}")
    left = list(shape) + [1] * (axes - len(shape))
    boxes: list[Tier | None] = []
    for tier in fabric.tiers:
        own = tuple(left.pop(0) for _ in capabilities_of(tier).axes)
        boxes.append(_box(tier, own) if own else None)
    return tuple(boxes)


def _box(tier: Tier, shape: Shape) -> Tier:
    kind, ranks = capabilities_of(tier), prod(shape)
    found = kind.slice(ranks, shape)
    if found is not None:
        return found
    best = kind.slice(ranks) if ranks <= tier.endpoints else None
    fix = f"write {_asked(_axes([best]))}" if best is not None else f"at most {kind.extent}"
    raise ColltoolError(f"{shape_text(shape)} does not fit {tier.name} {kind.extent}", argument="shape", fix=fix)


def ranks_of(fabric: Fabric, boxes: Boxes) -> int:
    """Ranks of the slice: the boxes, and all of the tiers that are further in than the last of more than one endpoint."""
    used = max((at for at, box in enumerate(boxes) if box is not None and box.endpoints > 1), default=-1)
    return prod((box or tier).endpoints for tier, box in zip(fabric.tiers[: used + 1], boxes[: used + 1], strict=True))


def contradiction(fabric: Fabric, boxes: Boxes, who: Who, usual: Sequence[Tier]) -> ColltoolError:
    """A shape that holds other ranks than were asked for: what to write in its place."""
    ranks, asked = ranks_of(fabric, boxes), who.ranks or 0
    what = f"{shape_text(who.shape or ())} holds {ranks} ranks, not {asked}"
    return ColltoolError(what, argument="shape", fix=f"write {given('ranks', ranks)}, or {_asked(_axes(usual))}")


def _asked(shape: Shape) -> str:
    return given("shape", shape, text=shape_text(shape))


def _axes(tiers: Sequence[Tier]) -> Shape:
    return tuple(axis.size for tier in tiers for axis in capabilities_of(tier).axes)


def _extents(lattices: Sequence[Tier]) -> str:
    return ", ".join(f"{tier.name} {capabilities_of(tier).extent}" for tier in lattices)
