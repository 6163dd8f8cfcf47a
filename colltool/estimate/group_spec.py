"""Who is in a group: how many ranks, how far apart, and whether the groups between them are active."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from colltool.base.formatting import Shape, ordinal, shape_text


class GroupSpec(NamedTuple):
    """A group as requested: ranks r, r + stride, r + 2·stride ...

    Args:
        ranks: None: as many as the fabric has at this stride.
        stride: in ranks, which are numbered innermost tier first.
        alone: sibling groups (the ranks in between) are idle.
        shape: ranks along each lattice axis; None: the best that fits.
        in_order: the group is part of a larger job, so it fills lattice axes in rank order.
    """

    ranks: int | None = None
    stride: int = 1
    alone: bool = False
    shape: Shape | None = None
    in_order: bool = False


AnyGroup = GroupSpec | int | None
"""A group, or the number of its consecutive ranks."""


def tiers_spanned(per_domain: Iterable[int]) -> int:
    """How many tiers carry traffic of a group: those with more than one member per domain."""
    return sum(count > 1 for count in per_domain)


class GroupPlacement(NamedTuple):
    """A group as results echo it.

    Args:
        per_domain: members per domain of each tier, innermost first; 1 if a tier is not used. Inner domains count as one member.
        slices: name of each lattice, and members along each of its axes.
    """

    ranks: int
    stride: int
    per_domain: tuple[int, ...]
    alone: bool
    slices: tuple[tuple[str, Shape], ...] = ()
    in_order: bool = False

    @property
    def shape(self) -> Shape:
        """Members along each lattice axis, innermost first, as ``--shape`` takes them; empty without lattices."""
        return tuple(size for _, shape in self.slices for size in shape)

    @property
    def spoken(self) -> str:
        """For titles: ``64 ranks, every 8th, alone`` or ``64 ranks (4x4x4)``."""
        words = spoken(self.ranks, self.stride, self.alone)
        several = len(self.per_domain) > 1
        boxes = [f"{tier} " * several + shape_text(shape) for tier, shape in self.slices if max(shape) > 1]
        return f"{words} ({', '.join(boxes)})" if boxes and self.stride == 1 else words

    @property
    def spec(self) -> GroupSpec:
        whole = self.in_order or self.stride > 1
        return GroupSpec(self.ranks, self.stride, self.alone, None if whole else self.shape or None, self.in_order)


def spoken(ranks: int, stride: int, alone: bool = False) -> str:
    apart = f", every {ordinal(stride)}" if stride > 1 else ""
    return f"{ranks} ranks{apart}{', alone' if apart and alone else ''}"


class Occupancy(NamedTuple):
    """How the members of a group sit on a tier's endpoints.

    Args:
        stride: from one member's endpoint to the next; so many groups are interleaved.
        beside: ranks behind an endpoint per member behind it, where their ports share uplinks.
        alone: the other groups' ports are idle.
    """

    stride: int = 1
    beside: int = 1
    alone: bool = False

    def members(self, endpoints: int) -> int:
        return max(1, endpoints // self.stride)

    def ports(self, endpoints: int) -> int:
        """Ports that each of the group's endpoints in such a domain can use, including those of idle siblings."""
        return endpoints // self.members(endpoints) * self.beside if self.alone else 1


PACKED = Occupancy()
"""Every endpoint from the first on, with all its ranks."""
