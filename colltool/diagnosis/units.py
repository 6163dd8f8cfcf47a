"""The parts of measured series that can be off: their large and their small messages, each beside its prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.fitting.case import LARGE
from colltool.fitting.results import ValidatedSeries

EXPECT = 0.80
"""The bar where nobody sets one: healthy nodes of eight reach 85 to 107% of the prices of their shipped fabric."""

SLACK = 0.20
"""How much lower the bar of small messages is: launch and hops differ more between healthy hosts than rates do."""

PLATEAU = 16
"""Sizes down to this part of the largest speak for the rate."""

SMALL = 5
"""How many of the smallest sizes speak for the time of a call; fewer than three say nothing."""


class Unit(NamedTuple):
    """Large or small messages of a series.

    Args:
        at: the index of the series.
        size: which messages.
        focus: the indices of their points.
        share: of the expected rate, their median.
        low: whether that is below the bar.
    """

    at: int
    size: Literal["large", "small"]
    focus: tuple[int, ...]
    share: float
    low: bool


def units_of(series: Sequence[ValidatedSeries], expect: float) -> tuple[Unit, ...]:
    """The units of all series, large messages first."""
    large = (_unit(at, one, "large", _plateau(one), expect) for at, one in enumerate(series))
    small = (_unit(at, one, "small", _floor(one), max(expect - SLACK, 0.0)) for at, one in enumerate(series))
    return tuple(unit for unit in (*large, *small) if unit is not None)


def _unit(at: int, one: ValidatedSeries, size: Literal["large", "small"], focus: Iterable[int], bar: float) -> Unit | None:
    chosen = tuple(focus)
    if not chosen:
        return None
    share = median(one.points[index].of_expected for index in chosen)
    return Unit(at, size, chosen, share, share < bar)


def _plateau(one: ValidatedSeries) -> Iterable[int]:
    """The last few points that bandwidth bounds, of sizes near the largest."""
    points, count = one.points, len(one.points)
    wide = next((index for index in reversed(range(count)) if points[index].bound != "bandwidth"), -1) + 1
    near = [index for index in range(wide, count) if points[index].bytes * PLATEAU >= points[-1].bytes]
    return near[-LARGE:]


def _floor(one: ValidatedSeries) -> Iterable[int]:
    """The smallest points, below the first that bandwidth bounds."""
    end = next((index for index, point in enumerate(one.points) if point.bound == "bandwidth"), len(one.points))
    return range(min(end, SMALL)) if end > 2 else ()


def off(measured: Sequence[float], priced: Sequence[float], focus: Iterable[int]) -> float:
    """How far prices are from times on average, by ratio: 0.1 is 10% either way."""
    return fmean(abs(log(priced[index] / measured[index])) for index in focus)
