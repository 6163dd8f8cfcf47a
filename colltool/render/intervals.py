"""Intervals of prices in words and JSON: where nine of ten measurements lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from colltool.base.formatting import (
    format_count,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.interval import NO_INTERVAL, Interval
from colltool.render.dispatch import Document, fields

if TYPE_CHECKING:
    from colltool.analysis.grid import Cell


WIDE = 3.0
"""Times the price from which an interval is told as a factor."""


def within(row: AlgorithmEstimate | Interval, seconds: float | None = None) -> str:
    """Nine of ten measurements: ``-34% to +51%: no measurement beyond 192 ranks``; empty without an
    interval."""
    interval = row if isinstance(row, Interval) else row.interval
    if interval is None:
        return ""
    took = float(row.total_s) if isinstance(row, AlgorithmEstimate) else seconds
    assert took is not None
    return f"{within_words(*interval.around(took))}: {interval.reason}"


def within_words(low: float, high: float) -> str:
    """``-34% to +51%``, or ``within a factor of 4 either way``, of ends relative to a price."""
    if 1 + high <= WIDE:
        return f"{_signed(low)} to {_signed(high)}"
    factor = format_count(1 + high, 2) if high < 9 else f"{1 + high:.0f}"
    if abs((1 + low) * (1 + high) - 1) < 0.02:
        return f"within a factor of {factor} either way"
    return f"{format_count(1 + low, 2)} to {factor} times that"


def _signed(share: float) -> str:
    return f"{'+' if share >= 0 else '-'}{whole_percent(abs(share))}"


def within_several(intervals: Iterable[tuple[Interval, float]]) -> str:
    """Narrowest and widest of several prices, each with its seconds; empty without any."""
    found = sorted(
        {_told(one, seconds): one.larger_side(seconds) for one, seconds in intervals}.items(),
        key=lambda pair: pair[1],
    )
    if not found:
        return ""
    (least, _), (most, _) = found[0], found[-1]
    return (
        f"{NINE_OF_TEN} {least}"
        if least == most
        else f"{NINE_OF_TEN} {least} where most is known, {most} where least is"
    )


NINE_OF_TEN = "Nine of ten measurements:"


def _told(interval: Interval, seconds: float) -> str:
    return within_words(*interval.around(seconds))


def interval_field(interval: Interval | None, why_none: str) -> Document:
    """``interval`` of a JSON row, and where it is null the reason; nothing where none was asked
    for."""
    if interval is None:
        return {"interval": None, "no_interval": why_none} if why_none else {}
    parts = [{"name": name, "value": value} for name, value in interval.parts]
    return {
        "interval": (
            fields(interval, "low_s high_s share rows basis")
            | {
                "parts": parts,
                "nearest": interval.nearest,
            }
        )
    }


def none_for(cell: Cell) -> str:
    """Why a cell of a grid has no interval."""
    return cell.reason or NO_INTERVAL


def may_be_as_fast(row: AlgorithmEstimate, faster: AlgorithmEstimate) -> bool:
    """Whether no more can be said of a faster way: it is inside the interval of what runs."""
    return row.interval is not None and float(faster.total_s) >= row.interval.low_s
