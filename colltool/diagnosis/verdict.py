"""Which sizes a fabric's prices can be trusted for: :func:`verdict` of all validated series, such
as ``12% off on average over 84 sizes; trust it from 1 MiB on (4%), not below (25%)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf
from operator import attrgetter
from statistics import fmean, median
from typing import NamedTuple

from colltool.base.statements import NOTHING, Statement
from colltool.diagnosis.results import ValidatedPoint, ValidatedSeries
from colltool.diagnosis.sentences import statement
from colltool.logs.series import Series

TRUSTED = 0.10  # mean error of prices worth planning with
FEWEST = 3  # points that make a mean worth reporting
OUTLIER = 0.25  # error of single sizes that are named although the rest can be trusted


class Trust(NamedTuple):
    """The sizes whose prices can be trusted, from ``least`` to below ``below``."""

    statement: Statement
    least: float = 0.0  # bytes, from which on
    below: float = inf  # bytes, below which

    def among(self, points: Sequence[ValidatedPoint]) -> list[ValidatedPoint]:
        """Those of these points that can be trusted."""
        return [point for point in points if self.least <= point.bytes < self.below]


def verdict(judged: Sequence[ValidatedSeries]) -> Statement:
    """``12% off on average over 84 sizes; trust it from 1 MiB on (4%), not below (25%)``, and the
    exceptions: series that are off, or where none is, single sizes."""
    # the mean is over all sizes of all series, and the exceptions are single series or sizes
    points = pooled(judged)
    error = mape(points)
    count = len(points)
    if len({point.bytes for point in points}) < FEWEST:
        return statement("too-few-sizes", error=error, sizes=count)
    trust = _trust(points)
    good_series = [series for series in judged if _is_good(series.points)]
    if trust is None and 2 * len(good_series) >= len(judged) > 1:
        # most series are good: those that are not become exceptions
        trust = _trust(pooled(good_series))
    if trust is None:
        trust = Trust(statement("trust-nowhere", share=TRUSTED), least=inf)
    exceptions = []
    if len(judged) > 1:
        exceptions = list(_off_series(judged, trust))
    exceptions = exceptions or _outliers(trust.among(points))
    return statement(
        "verdict-but-for" if exceptions else "verdict",
        error=error,
        sizes=count,
        trust=trust.statement,
        exceptions=tuple(exceptions),
    )


def _off_series(judged: Sequence[ValidatedSeries], trust: Trust) -> Iterator[Statement]:
    """A statement for each series that is off where prices can be trusted."""
    for series in judged:
        trusted = trust.among(series.points)
        if trusted and not _is_good(trusted):
            yield statement(
                "exception", what=_series_name(series.series, judged), error=mape(trusted)
            )


def _trust(points: list[ValidatedPoint]) -> Trust | None:
    """Where the mean error is small: everywhere, or on one side of the size where it changes most;
    None for nowhere. A side counts as bad only if most of its sizes are off. ``points``: by size."""
    smaller, larger = _split_by_error(points)
    if smaller and _is_good(smaller) != _is_good(larger):
        change = larger[0].bytes
        sides = {
            "size": larger[0].shown_bytes,
            "below": mape(smaller),
            "above": mape(larger),
        }
        if _is_good(larger) and _is_mostly_off(smaller):
            return Trust(statement("trust-above", **sides), least=change)
        if _is_good(smaller) and _is_mostly_off(larger):
            return Trust(statement("trust-below", **sides), below=change)
    if _is_good(points):
        return Trust(statement("trust"))
    if _is_mostly_off(points):
        return None
    # all but a few sizes, which the verdict names
    others = [point for point in points if _error(point) <= OUTLIER]
    if _is_good(others) and _outliers(points):
        return Trust(statement("trust"))
    return None


def _outliers(points: Sequence[ValidatedPoint]) -> list[Statement]:
    """Ranges of sizes that are far off; empty where they are too many to be named."""
    ranges = []
    for is_outlier, neighbours in groupby(points, key=lambda point: _error(point) > OUTLIER):
        if is_outlier:
            sizes = list(neighbours)
            ends = (sizes[0].shown_bytes, sizes[-1].shown_bytes)
            ranges.append(statement("exception-of-sizes", sizes=ends, error=mape(sizes)))
    return ranges if len(ranges) < FEWEST else []


def _series_name(series: Series, among: Sequence[ValidatedSeries]) -> Statement:
    """A series as the verdict names it, apart from others of its primitive and ranks."""
    # the type and the nodes are named only where they tell series apart
    kind = (series.primitive, series.ranks)
    alike = sum((other.series.primitive, other.series.ranks) == kind for other in among)
    dtype = NOTHING
    nodes = NOTHING
    if series.dtype and alike > 1:
        dtype = statement("series-type", dtype=series.dtype)
    if series.nodes and alike > 1:
        nodes = statement("series-nodes", nodes=series.nodes)
    return statement(
        "series",
        collective=series.primitive.label,
        dtype=dtype,
        ranks=series.ranks,
        nodes=nodes,
    )


def _split_by_error(
    points: list[ValidatedPoint],
) -> tuple[list[ValidatedPoint], list[ValidatedPoint]]:
    """Points split at the size that minimises the scatter of errors within the two parts; both
    empty if there are too few."""
    # errors of 0.02 0.03 0.02 0.20 0.25 0.22: the parts before and from the fourth one scatter
    # least
    middle = range(FEWEST, len(points) - FEWEST + 1)
    # a size stays on one side
    cuts = [cut for cut in middle if points[cut].bytes > points[cut - 1].bytes]
    if not cuts:
        return [], []
    # capped: one outlier is no regime
    errors = [min(_error(point), 1.0) for point in points]
    scatter_before = _running_scatter(errors)
    scatter_behind = _running_scatter(errors[::-1])
    best = min(cuts, key=lambda cut: scatter_before[cut] + scatter_behind[len(points) - cut])
    return points[:best], points[best:]


def _running_scatter(values: Sequence[float]) -> list[float]:
    """Sums of squared deviations from the mean of the first 0, 1, 2 ... values (Welford 1962): 0, 0,
    2 and 8 for 1, 3, 5."""
    mean = 0.0
    sums = [0.0]
    for count, value in enumerate(values, start=1):
        deviation = value - mean
        mean += deviation / count
        sums.append(sums[-1] + deviation * (value - mean))
    return sums


def _is_mostly_off(points: Sequence[ValidatedPoint]) -> bool:
    """Whether half of the sizes or more are off."""
    return median(map(_error, points)) > TRUSTED


def _is_good(points: Sequence[ValidatedPoint]) -> bool:
    """Whether prices are worth planning with, in the mean."""
    return mape(points) <= TRUSTED


def pooled(judged: Sequence[ValidatedSeries]) -> list[ValidatedPoint]:
    """The points of all series, by size."""
    points: list[ValidatedPoint] = []
    for series in judged:
        points += series.points
    return sorted(points, key=attrgetter("bytes"))


def _error(point: ValidatedPoint) -> float:
    """Relative error of a price, of either sign."""
    return abs(point.relative_error)


def mape(points: Sequence[ValidatedPoint]) -> float:
    """Mean absolute error, as a fraction."""
    return fmean(map(_error, points))
