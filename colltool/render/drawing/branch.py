"""Which switches and endpoints of a tier are drawn: all where there is room, else the first and the last of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

MOST_SLOTS = 27
_MOST_OF_ONE = {1: 9, 2: 4}
"""Slots of a group by the levels of switches; 3 from three levels on: a first, a gap, a last."""


@dataclass(frozen=True)
class Branch:
    """A switch, or at level -1 an endpoint, and what is drawn below it.

    ``below``: None for those left out; empty for an endpoint, and for a switch of which nothing below is drawn.
    """

    level: int
    below: tuple[Branch | None, ...] = ()

    @property
    def slots(self) -> int:
        """Its width, in those of an endpoint."""
        return sum(one.slots if one else 1 for one in self.below) or 1

    @property
    def endpoints(self) -> int:
        """How many are drawn below it."""
        return 1 if self.level < 0 else sum(one.endpoints for one in self.below if one)


def grown(groups: Sequence[int], endpoints: int) -> Branch:
    """What is drawn of a tier whose levels join groups of so many endpoints, bottom up; its top one joins all.

    >>> tree = grown([4, 32], 32)
    >>> [one and one.endpoints for one in tree.below], tree.endpoints
    ([4, 4, None, 4], 12)
    """
    most = _MOST_OF_ONE.get(len(groups), 3)
    return _grown(groups, len(groups) - 1, endpoints, most, most ** len(groups) <= MOST_SLOTS)


def _grown(groups: Sequence[int], level: int, endpoints: int, most: int, everywhere: bool) -> Branch:
    """With too many levels for all of them, only the first switch of each is drawn with what is below it."""
    if level < 0:
        return Branch(-1)
    each = groups[level - 1] if level else 1
    count = ceil(endpoints / each)
    return Branch(
        level,
        tuple(
            None
            if number is None
            else _grown(groups, level - 1, min(each, endpoints - number * each), most, everywhere)
            if everywhere or number == 0 or level == 0
            else Branch(level - 1)
            for number in _shown(count, most)
        ),
    )


def _shown(count: int, most: int) -> Iterator[int | None]:
    """Which of so many are drawn, and where the others are missing."""
    if count <= most:
        yield from range(count)
    else:
        yield from (*range(most - 2), None, count - 1)
