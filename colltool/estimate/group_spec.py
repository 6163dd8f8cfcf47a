"""Who is in a group: how many ranks, how far apart, and whether the groups between them are at work too."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import Shape, ordinal, shape_text


class GroupSpec(NamedTuple):
    """A group as somebody asks for it: ranks r, r + stride, r + 2·stride ...

    Args:
        ranks: how many; as many as the fabric has at this stride when None.
        stride: from one member to the next, in ranks; the innermost tier's are numbered first.
        alone: the sibling groups, which hold the ranks in between, are idle.
        shape: of the slice on a lattice, its ranks along each axis; the best that fits when None.
        in_order: its ranks are those of a larger job, so that they fill the axes of a lattice in the order of their numbers.
    """

    ranks: int | None = None
    stride: int = 1
    alone: bool = False
    shape: Shape | None = None
    in_order: bool = False


AnyGroup = GroupSpec | int | None
"""A group, or how many of the first ranks."""


def who_of(group: AnyGroup) -> GroupSpec:
    """A group from what stands for one: a number of ranks is so many consecutive ones."""
    return group if isinstance(group, GroupSpec) else GroupSpec(group)


class GroupPlacement(NamedTuple):
    """A group as results echo it.

    Args:
        ranks, stride, alone, in_order: as asked; ``ranks`` always a number.
        per_domain: members in one domain of each tier of the fabric, innermost first; 1 where a tier is not used. Of tiers that
            are further in, a domain counts as one.
        slices: of each lattice its name, and the members along each of its axes.
    """

    ranks: int
    stride: int
    per_domain: tuple[int, ...]
    alone: bool
    slices: tuple[tuple[str, Shape], ...] = ()
    in_order: bool = False

    @property
    def shape(self) -> Shape:
        """Members along each axis of its lattices, innermost first, as ``shape`` takes them; empty where there is none."""
        return tuple(size for _, shape in self.slices for size in shape)

    @property
    def spoken(self) -> str:
        """``64 ranks, every 8th, alone`` or ``64 ranks (4x4x4)``: how titles call it."""
        words = spoken(self.ranks, self.stride, self.alone)
        several = len(self.per_domain) > 1
        boxes = [f"{tier} " * several + shape_text(shape) for tier, shape in self.slices if max(shape) > 1]
        return f"{words} ({', '.join(boxes)})" if boxes and self.stride == 1 else words

    @property
    def spec(self) -> GroupSpec:
        whole = self.in_order or self.stride > 1
        return GroupSpec(self.ranks, self.stride, self.alone, None if whole else self.shape or None, self.in_order)


def spoken(ranks: int, stride: int, alone: bool = False) -> str:
    """A group in words; a group of consecutive ranks has no siblings to be without."""
    apart = f", every {ordinal(stride)}" if stride > 1 else ""
    return f"{ranks} ranks{apart}{', alone' if apart and alone else ''}"


class Occupancy(NamedTuple):
    """How the members of a group sit on the endpoints of a tier.

    Args:
        stride: from one member's endpoint to the next: so many groups are interleaved there.
        beside: ranks behind an endpoint for each member behind it, where their ports share uplinks.
        alone: the ports of those other groups are idle.
    """

    stride: int = 1
    beside: int = 1
    alone: bool = False

    def members(self, endpoints: int) -> int:
        return max(1, endpoints // self.stride)

    def ports(self, endpoints: int) -> int:
        """Ports of such a domain that each endpoint of the group's may count as its own, those of idle siblings included."""
        return endpoints // self.members(endpoints) * self.beside if self.alone else 1


PACKED = Occupancy()
"""Every endpoint from the first on, and all ranks behind each."""
