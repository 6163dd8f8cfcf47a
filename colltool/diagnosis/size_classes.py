"""Large and small messages of measured series: which sizes represent each, and whether they reach
the bar (:func:`size_classes`). An index is of a size in its series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.base.primitives import A2A
from colltool.diagnosis.results import ValidatedPoint, ValidatedSeries
from colltool.diagnosis.thresholds import WITHIN, WITHIN_ACROSS, across_hosts, small_bar
from colltool.logs.series import log_library

LARGE = 3  # largest sizes that represent the bandwidth-bound ones
PLATEAU = 16  # sizes down to 1/16 of the largest represent the rate
SMALL = 5  # smallest sizes that represent the time of a call
FEWEST_SMALL = 3  # sizes below those that bandwidth bounds; fewer show nothing


class SizeClass(NamedTuple):
    """Large or small messages of a series."""

    series_index: int
    size: Literal["large", "small"]
    focus: tuple[int, ...]  # indices of the sizes that represent them
    trusted: tuple[int, ...]  # indices of all sizes whose prices a healthy machine meets
    share: float  # median share of the expected rate that they reach
    within: float  # mean relative error up to which prices explain them
    bar: float  # the share that a healthy machine reaches

    @property
    def low(self) -> bool:
        """Whether the share is below the bar."""
        return self.share < self.bar


def size_classes(
    series: Sequence[ValidatedSeries],
    bars: Sequence[float],
    launch_s: float,
    *,
    assumed: bool,
) -> tuple[SizeClass, ...]:
    """The size classes of all series: all that are of large messages, then all of small ones.

    Small messages have no class in all-to-alls, whose time depends on how the library gathers
    (NCCL_PXN_DISABLE) and posts messages: healthy machines reach 40 to 160%. Nor have they one with
    MPI, which launches no kernels, or on a fabric without a launch overhead.

    Args:
        bars: the share that large messages must reach, for each series.
        launch_s: the fabric's launch overhead.
        assumed: the user did not name the fabric.
    """
    large: list[SizeClass] = []
    small: list[SizeClass] = []
    for index, (judged, bar) in enumerate(zip(series, bars, strict=True)):
        points = judged.points
        measured = judged.series
        bandwidth_bound = [
            place for place, point in enumerate(points) if point.bound == "bandwidth"
        ]
        launches_kernels = log_library(measured.library).launches_kernels
        has_small = measured.primitive is not A2A and launches_kernels and launch_s > 0
        # without a class of small messages their prices are not trusted either
        trusted = tuple(range(len(points)) if has_small else bandwidth_bound)
        is_large_low = False
        focus_of_large = plateau(points)
        if focus_of_large:
            of_large = SizeClass(
                series_index=index,
                size="large",
                focus=focus_of_large,
                trusted=trusted,
                share=_median_share(points, focus_of_large),
                within=WITHIN,
                bar=bar,
            )
            is_large_low = of_large.low
            large.append(of_large)
        # small messages are those below the first size that bandwidth bounds
        first_large = min(bandwidth_bound, default=len(points))
        if has_small and first_large >= FEWEST_SMALL:
            focus_of_small = tuple(range(min(first_large, SMALL)))
            small.append(
                SizeClass(
                    series_index=index,
                    size="small",
                    focus=focus_of_small,
                    trusted=trusted,
                    share=_median_share(points, focus_of_small),
                    within=WITHIN_ACROSS if across_hosts(measured) else WITHIN,
                    bar=small_bar(measured, bar, alone=assumed and not is_large_low),
                )
            )
    return (*large, *small)


def bandwidth_bound_sizes(points: Sequence[ValidatedPoint]) -> range:
    """Indices of the sizes from which on bandwidth takes most of every price."""
    first = len(points)
    while first and points[first - 1].bound == "bandwidth":
        first -= 1
    return range(first, len(points))


def plateau(points: Sequence[ValidatedPoint]) -> tuple[int, ...]:
    """Indices of the LARGE largest sizes that bandwidth bounds, within PLATEAU of the largest."""
    least = points[-1].bytes / PLATEAU
    near = [index for index in bandwidth_bound_sizes(points) if points[index].bytes >= least]
    return tuple(near[-LARGE:])


def _median_share(points: Sequence[ValidatedPoint], focus: Iterable[int]) -> float:
    """The median share of the expected rate, of these sizes."""
    return median(points[index].of_expected for index in focus)


def mean_log_error(
    measured: Sequence[float], priced: Sequence[float], focus: Iterable[int]
) -> float:
    """Mean distance of prices from times, by log ratio: 0.1 is about 10% either way. Both are
    seconds by size; ``focus``: indices of the sizes that count."""
    return fmean(abs(log(priced[index] / measured[index])) for index in focus)
