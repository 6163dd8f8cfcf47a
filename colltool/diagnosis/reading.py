"""How ``doctor``, ``validate`` and ``trace`` judge measured series: what share of its fabric's
price each reaches, and the bar that a healthy machine passes ("pass mark" in what users read).

:func:`read_series` takes series that :mod:`colltool.diagnosis.validate` has priced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.calibration.log_fits import check_fits
from colltool.diagnosis.cliffs import collapse_in
from colltool.diagnosis.networks import is_stream
from colltool.diagnosis.results import SeriesHealth, ValidatedSeries
from colltool.diagnosis.size_classes import SizeClass, size_classes
from colltool.diagnosis.thresholds import HEALTHY_SHARE, LEAST_PASS, across_hosts, threshold_of
from colltool.diagnosis.trees import share_of_rings
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.library_numbers import launch_of
from colltool.fabric.model import Fabric


class SeriesReading(NamedTuple):
    """Where each series sits, its size classes, and its health, in the order of the series."""

    placed: tuple[PlacedGroup, ...]
    classes: tuple[SizeClass, ...]
    health: tuple[SeriesHealth, ...]

    @property
    def wires(self) -> list[str]:
        """The outermost tier of each series."""
        return [health.wire for health in self.health]


def read_series(
    fabric: Fabric,
    judged: Sequence[ValidatedSeries],
    *,
    expect: float | None = None,
    assumed: bool = False,
) -> SeriesReading:
    """What each series reaches of its prices, and its bar.

    Args:
        expect: the share that is healthy, in place of the usual one.
        assumed: the user did not name the fabric.
    """
    placed = tuple(check_fits(fabric, compared.series) for compared in judged)
    bars = [_bar(fabric, compared, expect) for compared in judged]
    classes = size_classes(judged, bars, launch_of(fabric), assumed=assumed)
    return SeriesReading(placed, classes, tuple(_health(judged, placed, bars, classes)))


def _bar(fabric: Fabric, judged: ValidatedSeries, expect: float | None) -> float:
    """The share of the expected rate that large messages of a series must reach."""
    if expect is not None:
        return expect
    series = judged.series
    bar = HEALTHY_SHARE
    if not is_stream(series):
        ranks_of_host = fabric.tiers[0].endpoints
        across = across_hosts(series)
        bar = threshold_of(series.primitive, series.ranks, ranks_of_host, across=across)
    return max(bar * share_of_rings(fabric, judged), LEAST_PASS)


def _health(
    series: Sequence[ValidatedSeries],
    placed: Sequence[PlacedGroup],
    bars: Sequence[float],
    classes: Sequence[SizeClass],
) -> Iterator[SeriesHealth]:
    """How each series compares with the fabric; ``placed`` and ``bars`` are in their order."""
    for index, judged in enumerate(series):
        # its large messages, its small ones, or both
        of_series = [size_class for size_class in classes if size_class.series_index == index]
        shares = {size_class.size: size_class.share for size_class in of_series}
        bar_of = {size_class.size: size_class.bar for size_class in of_series}
        is_low = any(size_class.low for size_class in of_series)
        yield SeriesHealth(
            judged=judged,
            wire=placed[index].spans[-1].tier.name,
            large=shares.get("large"),
            small=shares.get("small"),
            low=is_low or collapse_in(judged.series.points) is not None,
            bar=bars[index],
            small_bar=bar_of.get("small"),
        )
