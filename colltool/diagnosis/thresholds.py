"""What share of the price healthy machines reach: the bars of ``doctor`` and ``trace``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.base.primitives import A2A
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.diagnosis.results import ValidatedSeries
from colltool.measurements.series import Series, log_library

EXPECT = 0.80  # on whole hosts: healthy nodes of eight reach 85 to 107% of the prices of their bundled fabric
FEW, EXPECT_FEW, EXPECT_PART = 4, 0.55, 0.75
"""On fewer ranks than FEW, and on part of a host: healthy machines reach 56 to 85%, and 80 to 100%. NCCL 2.27 to 2.29 on 2 and 4
GPUs of NVSwitch nodes (A100, H100, B200), ai-dynamo/aiconfigurator."""

OF_FEW = "healthy nodes also reach only 55-85% of the price on so few; measure all GPUs of a host"

SLACK = 0.20  # the bar of small messages is lower: launch and hops vary more between healthy hosts than rates do
FASTER = 1.2  # share of the price of large messages above which the machine is not the fabric


def threshold_of(ranks: int, whole: int, *, across: bool) -> float:
    """The share of the expected rate that large messages of a healthy machine reach; ``whole``: ranks of a host."""
    if across or ranks >= min(whole, MOST_IN_A_HOST):
        return EXPECT
    return EXPECT_FEW if ranks < FEW else EXPECT_PART


def of_few(ranks: int) -> str:
    return f"{ranks} ranks: {OF_FEW}" if ranks < FEW else ""


CLOSE = 0.10  # relative error up to which one of several prices explains a time
LARGE = 3  # largest sizes that represent the bandwidth-bound ones
WITHIN, WITHIN_ACROSS = 0.15, 0.30
"""Mean relative error up to which a cause's prices explain times; the second for small messages between hosts, which depend on
NICs and proxies that no log names."""

PLATEAU = 16  # sizes down to 1/16 of the largest represent the rate
SMALL = 5  # smallest sizes that represent the time of a call; fewer than three say nothing


class SizeClass(NamedTuple):
    """Large or small messages of series ``at``: the indices ``focus`` represent them, ``trusted`` are all whose prices a healthy
    machine meets. ``share``: median of the expected rate; ``within``: error up to which prices explain them; ``low``: below the
    bar."""

    at: int
    size: Literal["large", "small"]
    focus: tuple[int, ...]
    trusted: tuple[int, ...]
    share: float
    within: float
    low: bool


def bar_for(series: Series, whole: int, expect: float | None) -> float:
    """The bar of a series on hosts of ``whole`` ranks: as set, else what a healthy machine reaches."""
    return threshold_of(series.ranks, whole, across=_across(series)) if expect is None else expect


def size_classes(series: Sequence[ValidatedSeries], bars: Sequence[float], launch_s: float) -> tuple[SizeClass, ...]:
    """The size classes of all series, large messages first; ``launch_s`` is the fabric's launch overhead."""
    large = (_unit(at, one, "large", _plateau(one), bars[at], launch_s) for at, one in enumerate(series))
    small = (_unit(at, one, "small", _floor(one), max(bars[at] - SLACK, 0.0), launch_s) for at, one in enumerate(series))
    return tuple(unit for unit in (*large, *small) if unit is not None)


def small_told(series: Series, launch_s: float) -> bool:
    """Whether the fabric can price small messages. Not all-to-all, which depends on how the library gathers (NCCL_PXN_DISABLE)
    and posts messages: healthy machines reach 40 to 160%. Not MPI, which launches no kernels, nor without a launch overhead."""
    return series.primitive is not A2A and log_library(series.library).launches_kernels and launch_s > 0


def _unit(at: int, one: ValidatedSeries, size: Literal["large", "small"], focus: Iterable[int], bar: float,
          launch_s: float) -> SizeClass | None:  # fmt: skip
    told = small_told(one.series, launch_s)
    chosen = tuple(focus) if told or size == "large" else ()
    if not chosen:
        return None
    share = median(one.points[index].of_expected for index in chosen)
    within = WITHIN_ACROSS if size == "small" and _across(one.series) else WITHIN
    trusted = tuple(index for index, point in enumerate(one.points) if told or point.bound == "bandwidth")
    return SizeClass(at=at, size=size, focus=chosen, trusted=trusted, share=share, within=within, low=share < bar)


def _across(series: Series) -> bool:
    return (series.nodes or 1) > 1 or series.ranks > MOST_IN_A_HOST


def _plateau(one: ValidatedSeries) -> Iterable[int]:
    points, count = one.points, len(one.points)
    wide = next((index for index in reversed(range(count)) if points[index].bound != "bandwidth"), -1) + 1
    near = [index for index in range(wide, count) if points[index].bytes * PLATEAU >= points[-1].bytes]
    return near[-LARGE:]


def _floor(one: ValidatedSeries) -> Iterable[int]:
    end = next((index for index, point in enumerate(one.points) if point.bound == "bandwidth"), len(one.points))
    return range(min(end, SMALL)) if end > 2 else ()


def off(measured: Sequence[float], priced: Sequence[float], focus: Iterable[int]) -> float:
    """Mean distance of prices from times, by log ratio: 0.1 is about 10% either way."""
    return fmean(abs(log(priced[index] / measured[index])) for index in focus)
