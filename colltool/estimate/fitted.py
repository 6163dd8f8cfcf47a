"""What a library takes beside wires and latencies, as somebody measured it: used where it was measured, held outside.

A law fitted between 0.5 and 16 GiB says nothing of 16 MB. Between measured sizes a term runs straight from one to the next; below
the smallest and above the largest it is that of the nearest.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from colltool.base.arrays import anywhere, largest, least
from colltool.base.formatting import format_bytes
from colltool.estimate.curve import Curve, Pieces

Knots = tuple[tuple[float, Any], ...]
"""(bytes, seconds), ascending in bytes; seconds may be arrays."""


class Fitted(NamedTuple):
    """Seconds beside wires and latencies, by size.

    Args:
        knots: measured (bytes, seconds), straight between two, held outside.
        rise: times sqrt(M) from ``smallest`` to ``largest`` bytes, held outside; seconds over the root of a byte.
        smallest, largest: of the sizes that ``rise`` was measured at.
        what: the library and its schedule, for people; empty for no term.
        beyond: of which rank counts the term is where the group has another; empty where it has one of them.
    """

    knots: Knots = ()
    rise: Any = 0.0
    smallest: float = 0.0
    largest: float = inf
    what: str = ""
    beyond: str = ""

    def at(self, size: Any) -> Any:
        """Seconds at one size, or at many."""
        seconds = self.knots[0][1] if self.knots else 0.0
        for (low, before), (high, after) in pairwise(self.knots):
            seconds = seconds + (after - before) * least(1.0, largest(0.0, (size - low) / (high - low)))
        if anywhere(self.rise != 0):
            seconds = seconds + self.rise * least(largest(size, self.smallest), self.largest) ** 0.5
        return seconds

    def pieces(self) -> Pieces:
        """The same as curves."""
        bounds = [size for size, _ in self.knots]
        bounds += [self.smallest, self.largest] if self.rise else []
        starts = sorted({0.0, *(size for size in bounds if 0 < size < inf)})
        return tuple((start, self._from(start)) for start in starts)

    def _from(self, start: float) -> Curve:
        """The curve that holds from a bound on."""
        found = Curve(float(self.at(start)), 0.0)
        if self.rise:
            rising = self.smallest <= start < self.largest
            root = float(self.rise) * min(max(start, self.smallest), self.largest) ** 0.5
            found = Curve(found.a - root, 0.0, float(self.rise)) if rising else found
        for (low, before), (high, after) in pairwise(self.knots):
            if low <= start < high:
                slope = float(after - before) / (high - low)
                found = found.plus(Curve(-slope * start, slope))
        return found

    def notes(self, size: Any) -> tuple[str, ...]:
        """What a price rests on that lies outside of what was measured."""
        ends = [self.knots[0][0], self.knots[-1][0]] if len(self.knots) > 1 else [self.smallest, self.largest]
        few, many = (size, size) if isinstance(size, float) else (float(size.min()), float(size.max()))
        outside = [f"below {format_bytes(ends[0])}"] if few < ends[0] else []
        outside += [f"above {format_bytes(ends[1])}"] if many > ends[1] else []
        outside += [self.beyond] if self.beyond else []
        return (f"{self.what} was not measured {' and '.join(outside)}: held at the nearest",) if outside else ()


NOTHING = Fitted()


def mixed(first: Knots, second: Knots, share: Any) -> Knots:
    """The knots of two terms, so much of the second: of rank counts between two that were measured."""
    one, other = Fitted(first), Fitted(second)
    sizes = sorted({size for size, _ in (*first, *second)})
    return tuple((size, (1 - share) * one.at(size) + share * other.at(size)) for size in sizes)
