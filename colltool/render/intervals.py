"""Intervals of prices in words and JSON: where nine of ten measurements lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.formatting import format_count, whole_percent
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.interval import NO_INTERVAL, Interval
from colltool.render.documents import LEFT_OUT, Document, derived

if TYPE_CHECKING:
    from colltool.analysis.cells import Cell


WIDE = 3.0  # factor from which on an interval is said as a factor
"""Upper ends of this many times the price and more are written as a factor, not in percent."""


def within(row: AlgorithmEstimate | Interval, seconds: float | None = None) -> str:
    """The interval with its reason: ``-34% to +51%: no measurement beyond 192 ranks``.

    Empty without an interval. An interval alone needs the ``seconds`` that it is relative to.
    """
    interval = row if isinstance(row, Interval) else row.interval
    if interval is None:
        return ""
    took = seconds if isinstance(row, Interval) else float(row.total_s)
    assert took is not None
    return f"{within_words(*interval.around(took))}: {interval.reason}"


def nine_in_ten(interval: Interval | None, seconds: float) -> str:
    """``-34% to +51%`` around a price; empty without an interval."""
    if interval is None:
        return ""
    return within_words(*interval.around(seconds))


def within_words(low: float, high: float) -> str:
    """``-34% to +51%``, or ``within a factor of 4 either way``, of ends relative to a price."""
    if 1 + high <= WIDE:
        return f"{_signed(low)} to {_signed(high)}"
    factor = f"{1 + high:.0f}"
    if high < 9:
        factor = format_count(1 + high, 2)
    # the ends are inverse to each other but for rounding
    if abs((1 + low) * (1 + high) - 1) < 0.02:
        return f"within a factor of {factor} either way"
    return f"{format_count(1 + low, 2)} to {factor} times that"


def _signed(share: float) -> str:
    return f"{'+' if share >= 0 else '-'}{whole_percent(abs(share))}"


def within_several(intervals: Iterable[tuple[Interval, float]]) -> str:
    """The narrowest and the widest of several intervals, each with its seconds. Empty for none."""
    sides = {
        nine_in_ten(interval, seconds): interval.larger_side(seconds)
        for interval, seconds in intervals
    }
    if not sides:
        return ""
    by_width = sorted(sides, key=lambda words: sides[words])
    least = by_width[0]
    most = by_width[-1]
    if least == most:
        return f"90% interval: {least}"
    return f"90% interval: {least} at best, {most} at worst"


def may_be_as_fast(row: AlgorithmEstimate, faster: AlgorithmEstimate) -> bool:
    """Whether a faster row lies within the interval of ``row``, so that either may win."""
    return row.interval is not None and float(faster.total_s) >= row.interval.low_s


class IntervalPart(NamedTuple):
    """A source of error and its standard deviation of ln t."""

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


def no_cell_interval(cell: Cell) -> Any:
    """Why a cell of a grid has no interval, for its document."""
    return LEFT_OUT if cell.interval is not None else cell.reason or NO_INTERVAL
