"""What of a fabric a job takes: of a torus or mesh the slice that so many ranks rent, not as many of its lines."""

from __future__ import annotations

from itertools import permutations

from colltool.base.formatting import Shape
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.training.layout import Group


def taken(fabric: Fabric, ranks: int) -> Fabric:
    """The fabric with the lattice that so many ranks end on cut to their slice; itself where they take all of it or none fits.

    Every group of the job lies in that slice: a slice of 256 chips is 4x8x8, and tensor groups are no lines of 16 in it.
    """
    at, inside = _last(fabric, ranks)
    if at is None:
        return fabric
    tier = fabric.tiers[at]
    if ranks == inside * tier.endpoints or ranks % inside:
        return fabric
    part = capabilities_of(tier).slice(ranks // inside)
    if part is None:
        return fabric
    return fabric.model_copy(update={"tiers": (*fabric.tiers[:at], part, *fabric.tiers[at + 1 :])})


def slice_of(fabric: Fabric, cut: Fabric) -> tuple[Tier, Shape] | None:
    """The lattice that was cut, as the file has it, and the shape of its slice; None where none was."""
    for tier, part in zip(fabric.tiers, cut.tiers, strict=True):
        if tier != part:
            return tier, tuple(axis.size for axis in capabilities_of(part).axes)
    return None


def turned(fabric: Fabric, group: Group) -> str:
    """The same lattice with its axes in an order in which a group is a box, as ``--set`` takes it; empty where there is none.

    Every 8th of 4x8x8 is none, of 8x8x4 it is.
    """
    tier = fabric.tiers[0]
    if len(fabric.tiers) > 1 or len(group.axes) > 1:
        return ""
    (size, stride), shape = group.axes[0], [axis.size for axis in capabilities_of(tier).axes]
    for other in sorted(set(permutations(shape)), reverse=True):
        kind = capabilities_of(tier.model_copy(update={"shape": other, "wrap": None}))
        if kind.takes_stride(stride) and kind.part(size, stride) is not None:
            return f"{tier.name}.shape=[{','.join(map(str, other))}]"
    return ""


def _last(fabric: Fabric, ranks: int) -> tuple[int | None, int]:
    """The first tier that holds so many ranks, where it is a lattice, and the ranks of an endpoint of it."""
    inside = 1
    for at, tier in enumerate(fabric.tiers):
        if inside * tier.endpoints >= ranks:
            return (at if capabilities_of(tier).axes else None), inside
        inside *= tier.endpoints
    return None, inside
