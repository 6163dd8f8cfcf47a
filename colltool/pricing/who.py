"""Who is in a group: how many ranks, how far apart, and whether the groups between them are at work too."""

from __future__ import annotations

from typing import NamedTuple

from colltool.words import ordinal


class Who(NamedTuple):
    """A group as somebody asks for it: ranks r, r + stride, r + 2·stride ...

    Args:
        ranks: how many; as many as the fabric has at this stride when None.
        stride: from one member to the next, in ranks; the innermost tier's are numbered first.
        alone: the sibling groups, which hold the ranks in between, are idle.
    """

    ranks: int | None = None
    stride: int = 1
    alone: bool = False


AnyGroup = Who | int | None
"""A group, or how many of the first ranks."""


def who_of(group: AnyGroup) -> Who:
    """A group from what stands for one: a number of ranks is so many consecutive ones."""
    return group if isinstance(group, Who) else Who(group)


class Seats(NamedTuple):
    """A group as results echo it.

    Args:
        ranks, stride, alone: as asked; ``ranks`` always a number.
        per_domain: members in one domain of each tier of the fabric, innermost first; 1 where a tier is not used. Of tiers that
            are further in, a domain counts as one.
    """

    ranks: int
    stride: int
    per_domain: tuple[int, ...]
    alone: bool

    @property
    def spoken(self) -> str:
        """``64 ranks, every 8th, alone``: how titles call it."""
        return spoken(self.ranks, self.stride, self.alone)

    @property
    def who(self) -> Who:
        """To ask for the same group again."""
        return Who(self.ranks, self.stride, self.alone)


def spoken(ranks: int, stride: int, alone: bool = False) -> str:
    """A group in words; a group of consecutive ranks has no siblings to be without."""
    apart = f", every {ordinal(stride)}" if stride > 1 else ""
    return f"{ranks} ranks{apart}{', alone' if apart and alone else ''}"
