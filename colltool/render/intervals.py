"""Intervals of prices in words and JSON: where nine of ten measurements lie, from ``low_s`` to ``high_s``. In words
they are relative to a price, as ``Interval.around`` gives them: -0.34 is 34% less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.formatting import format_count, whole_percent
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.interval import NO_INTERVAL, Interval
from colltool.render.documents import LEFT_OUT, Document, derived

if TYPE_CHECKING:
    from colltool.analysis.cells import Cell


WIDE = 3.0
"""An interval whose upper end is above this many times the price is written as a factor."""


def interval_and_reason(row: AlgorithmEstimate) -> str:
    """The interval of a row around its total, with its reason; empty for a row without one."""
    if row.interval is None:
        return ""
    return reasoned_interval(row.interval, float(row.total_s))


def reasoned_interval(interval: Interval, seconds: float) -> str:
    """``-34% to +51%: no measurement beyond 192 ranks``, around a price of ``seconds``."""
    return f"{nine_in_ten(interval, seconds)}: {interval.reason}"


def nine_in_ten(interval: Interval | None, seconds: float) -> str:
    """``-34% to +51%`` around a price; empty without an interval."""
    if interval is None:
        return ""
    return within_words(*interval.around(seconds))


def within_words(low: float, high: float) -> str:
    """``-34% to +51%``; beyond :data:`WIDE` ``within a factor of 4 either way`` or ``0.5 to 4 times that``.

    Args:
        low, high: the ends over the price, less 1: -0.34 and 0.51.
    """
    low_factor = 1 + low
    high_factor = 1 + high
    if high_factor <= WIDE:
        return f"{_signed_percent(low)} to {_signed_percent(high)}"
    factor = f"{high_factor:.0f}"
    # below ten times with two digits
    if high_factor < 10:
        factor = format_count(high_factor, 2)
    # a quarter to four times: the ends are inverse to each other, give or take 2%
    if abs(low_factor * high_factor - 1) < 0.02:
        return f"within a factor of {factor} either way"
    return f"{format_count(low_factor, 2)} to {factor} times that"


def _signed_percent(share: float) -> str:
    """``-34%``, ``+51%``, ``+0%``."""
    return f"{'+' if share >= 0 else '-'}{whole_percent(abs(share))}"


def within_several(intervals: Iterable[tuple[Interval, float]]) -> str:
    """The narrowest and the widest of several intervals, by their wider side. Empty for none.

    Args:
        intervals: each with the seconds of its price.
    """
    # The wider side by the words of the interval. Intervals that read alike are one; their sides differ by no
    # more than rounding, so that it does not matter whose is kept.
    sides = {}
    for interval, seconds in intervals:
        sides[nine_in_ten(interval, seconds)] = interval.larger_side(seconds)
    if not sides:
        return ""
    narrow_first = sorted(sides, key=sides.__getitem__)
    if len(sides) == 1:
        return f"90% interval: {narrow_first[0]}"
    return f"90% interval: {narrow_first[0]} at best, {narrow_first[-1]} at worst"


def may_be_as_fast(row: AlgorithmEstimate, faster: AlgorithmEstimate) -> bool:
    """Whether a faster row lies within the interval of ``row``, so that either may win; False without an
    interval."""
    return row.interval is not None and float(faster.total_s) >= row.interval.low_s


class IntervalPart(NamedTuple):
    """A source of error, and its standard deviation of the logarithm of time."""

    name: str
    value: float


class IntervalDocument(Document, of=Interval):
    """Where nine of ten measurements of a price lie."""

    low_s: float
    high_s: float
    share: float
    rows: int
    basis: str
    parts: list[IntervalPart] = derived(
        lambda interval: tuple(IntervalPart(*part) for part in interval.parts)
    )
    nearest: str | None


def no_cell_interval(cell: Cell) -> object:
    """Why a cell of a grid has no interval: its reason, or :data:`NO_INTERVAL` where it states none.
    :data:`LEFT_OUT`, which a document does not write, for a cell with an interval."""
    if cell.interval is not None:
        return LEFT_OUT
    return cell.reason or NO_INTERVAL
