"""Intervals of prices in words and JSON: where nine of ten measurements lie, from ``low_s`` to ``high_s``. In words
they are relative to a price, whose seconds the functions take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.formatting import format_count, whole_percent
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.interval import NO_INTERVAL, Interval
from colltool.render.documents import LEFT_OUT, Document, derived

if TYPE_CHECKING:
    from colltool.analysis.cells import Cell


WIDE = 3.0
"""Intervals with an upper end of this many times the price and more are written as a factor."""


def interval_and_reason(row: AlgorithmEstimate | Interval, seconds: float | None = None) -> str:
    """The interval of a row with its reason: ``-34% to +51%: no measurement beyond 192 ranks``; empty for a row
    without one. An interval alone needs the ``seconds`` that it is relative to.
    """
    interval = row if isinstance(row, Interval) else row.interval
    if interval is None:
        return ""
    if not isinstance(row, Interval):
        seconds = float(row.total_s)
    assert seconds is not None
    return f"{within_words(*interval.around(seconds))}: {interval.reason}"


def nine_in_ten(interval: Interval | None, seconds: float) -> str:
    """``-34% to +51%`` around a price; empty without an interval."""
    if interval is None:
        return ""
    return within_words(*interval.around(seconds))


def within_words(low: float, high: float) -> str:
    """``-34% to +51%``, or ``within a factor of 4 either way``.

    Args:
        low, high: the ends over the price, less 1: -0.34 and 0.51.
    """
    if 1 + high <= WIDE:
        return f"{_signed_percent(low)} to {_signed_percent(high)}"
    factor = f"{1 + high:.0f}"
    # below ten times with two digits
    if high < 9:
        factor = format_count(1 + high, 2)
    # the ends are inverse to each other but for rounding
    if abs((1 + low) * (1 + high) - 1) < 0.02:
        return f"within a factor of {factor} either way"
    return f"{format_count(1 + low, 2)} to {factor} times that"


def _signed_percent(share: float) -> str:
    """``-34%``, ``+51%``, ``+0%``."""
    return f"{'+' if share >= 0 else '-'}{whole_percent(abs(share))}"


def within_several(intervals: Iterable[tuple[Interval, float]]) -> str:
    """The narrowest and the widest of several intervals, each with its seconds. Empty for none."""
    # the wider side of each, by its words: what reads alike is one
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
    """Whether a faster row lies within the interval of ``row``, so that either may win."""
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


def no_cell_interval(cell: Cell) -> Any:
    """Why a cell of a grid has no interval, for its document; left out where it has one."""
    return LEFT_OUT if cell.interval is not None else cell.reason or NO_INTERVAL
