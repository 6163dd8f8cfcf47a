"""Curves of time over size, and the time that measurements took beyond wires and latencies.

:class:`Curve` is a price of one form, :data:`Pieces` one that changes its form; :class:`SoftwareTime` is
the measured time, as numbers at a size or as pieces. :func:`mixed` interpolates it between rank counts.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from math import inf, sqrt
from operator import itemgetter
from typing import Any, NamedTuple

from colltool.base.arrays import anywhere, is_array, largest, least
from colltool.base.formatting import format_bytes
from colltool.base.primitives import Number


class Curve(NamedTuple):
    """``t(M) = a + b·M + c·sqrt(M)``, seconds and bytes; exact except that a segment count P is not
    rounded. Any of the three may be an array, for many fabrics at once."""

    a: float
    b: float
    c: float = 0.0

    def at(self, size: Any) -> Any:
        """Seconds at a size in bytes, or at each of an array."""
        return self.a + self.b * size + self.c * size**0.5

    def plus(self, other: Curve) -> Curve:
        """The sum of two curves."""
        return Curve(self.a + other.a, self.b + other.b, self.c + other.c)

    @property
    def balance(self) -> float | None:
        """n* = a/b, bytes: where the bandwidth term equals all fixed time (launch included). None
        with a sqrt term.

        Without a launch overhead n_α·α·BW/n_β, and α·BW for one message.

        >>> round(Curve(18 * 0.5e-6, 2 / 900e9).balance)
        4050000
        """
        return self.a / self.b if self.c == 0 and self.b > 0 else None

    def slope(self, size: float) -> float:
        """Seconds per byte at a size above 0."""
        return self.b + self.c / (2 * sqrt(size))


Pieces = tuple[tuple[float, Curve], ...]
"""A piecewise curve: (first byte, curve), ascending from 0."""
Knots = tuple[tuple[float, Any], ...]
"""(bytes, seconds), ascending in bytes; seconds may be arrays."""


def ends(size: Number) -> tuple[float, float]:
    """The least and the largest of the sizes: of a float or of an array."""
    return (size, size) if isinstance(size, float) else (float(size.min()), float(size.max()))


class SoftwareTime(NamedTuple):
    """Measured seconds besides wires and latencies, by size.

    Args:
        knots: interpolated linearly, constant outside.
        rise: seconds per sqrt(byte): adds ``rise * sqrt(min(max(M, smallest), largest))``.
        smallest, largest: the sizes at which the rise was measured, bytes.
        what: the library and its schedule, for notes.
        beyond: a note on the measured rank counts if the group's is outside them, else empty.
    """

    knots: Knots = ()
    rise: Any = 0.0
    smallest: float = 0.0
    largest: float = inf
    what: str = ""
    beyond: str = ""

    def at(self, size: Any) -> Any:
        """Seconds at a size in bytes, or at each of an array."""
        seconds = self._between(size)
        if anywhere(self.rise != 0):
            # outside the measured sizes, that of the nearest
            seconds = seconds + self.rise * least(largest(size, self.smallest), self.largest) ** 0.5
        return seconds

    def _between(self, size: Any) -> Any:
        """Seconds between the knots, constant outside."""
        knots = self.knots
        if not knots:
            return 0.0
        first_s = knots[0][1]
        largest_size, last_s = knots[-1]
        if is_array(size):
            import numpy as np

            # each pair of knots in turn, for all sizes from its lower one on
            seconds = first_s
            for (low, before), (high, after) in pairwise(knots):
                seconds = np.where(
                    size < low, seconds, before + (after - before) * ((size - low) / (high - low))
                )
            return seconds if len(knots) == 1 else np.where(size < largest_size, seconds, last_s)
        # a single number needs no numpy
        above = bisect_right(knots, size, key=itemgetter(0))
        if above == 0:
            return first_s
        if above == len(knots):
            return last_s
        (low, before), (high, after) = knots[above - 1], knots[above]
        return before + (after - before) * ((size - low) / (high - low))

    def pieces(self) -> Pieces:
        """The sizes at which the form of the curve changes, ascending from 0, each with the curve from
        there on. Not for arrays of fabrics."""
        bounds = {size for size, _ in self.knots}
        if self.rise:
            bounds |= {self.smallest, self.largest}
        starts = [0.0, *sorted(size for size in bounds if 0 < size < inf)]
        return tuple((start, self._from(start)) for start in starts)

    def _from(self, start: float) -> Curve:
        """The curve from a size on, up to the next one at which its form changes: between knots of
        10 us at 1 MB and 30 us at 3 MB it rises by 10 us a MB, b = 1e-11."""
        # a constant, to which what grows from the start on is added
        curve = Curve(float(self.at(start)), 0.0)
        if self.rise and self.smallest <= start < self.largest:
            curve = Curve(curve.a - float(self.rise) * start**0.5, 0.0, float(self.rise))
        for (low, before), (high, after) in pairwise(self.knots):
            if low <= start < high:
                slope = float(after - before) / (high - low)
                curve = curve.plus(Curve(-slope * start, slope))
        return curve

    def notes(self, size: Any) -> tuple[str, ...]:
        """A note where sizes or ranks were not measured."""
        low, high = self.smallest, self.largest
        if len(self.knots) > 1:
            (low, _), *_, (high, _) = self.knots
        smallest, biggest = ends(size)
        outside = []
        if smallest < low:
            outside.append(f"below {format_bytes(low)}")
        if biggest > high:
            outside.append(f"above {format_bytes(high)}")
        if self.beyond:
            outside.append(self.beyond)
        if not outside:
            return ()
        return (f"{self.what} was not measured {' and '.join(outside)}: nearest measurement used",)


def mixed(fewer: Knots, more: Knots, share: Any) -> Knots:
    """The knots between those of two rank counts: ``share`` of the times of the higher count, the
    rest of the lower."""
    on_fewer = SoftwareTime(fewer)
    on_more = SoftwareTime(more)
    sizes = sorted({size for size, _ in (*fewer, *more)})
    return tuple(
        (size, (1 - share) * on_fewer.at(size) + share * on_more.at(size)) for size in sizes
    )
