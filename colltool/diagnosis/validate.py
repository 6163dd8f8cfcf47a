"""``validate``: measured series against a fabric's prices, size by size, and what follows from the difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import isfinite
from statistics import fmean, median

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import counted, percent, range_text, size_text, whole_percent
from colltool.calibration.series_prices import check_fits, price_series
from colltool.diagnosis.findings import SeriesContext, findings
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.measurements.series import Measurements, Series


def validate(fabric: Fabric, measurements: Measurements, *, max_mape: float | None = None, readings: Readings | None = None,
             algorithms: Sequence[str] = ()) -> Validation:  # fmt: skip
    """Hold every measured size against the fastest price among what the library may have chosen."""
    if max_mape is not None and not (isfinite(max_mape) and max_mape > 0):
        fix = f"write {either(shell='15% or 0.15', python='0.15')}"
        raise ColltoolError(f"must be a positive share, got {max_mape}", argument="max_mape", fix=fix)
    if not measurements.series:
        first = next((one for one in measurements.skipped if not one.used), None)
        what, fix = (
            "nothing to validate: the logs hold no usable series",
            "measure again, and give the whole output of the benchmark",
        )
        if first is None:
            raise ColltoolError(what, fix=fix)
        raise ColltoolError(f"{what}: {first.reason}, {counted(first.rows, 'row')}", where=first.where, fix=fix)
    reading = readings or Readings()
    judged = tuple(_judged(fabric, series, reading, tuple(algorithms)) for series in measurements.series)
    points = [point for one in judged for point in one.points]
    said, skipped = verdict(judged), measurements.skipped
    return Validation(fabric.name, judged, mape(points), said, skipped, max_mape, overrides=fabric.overrides, readings=reading)


def mape(points: Sequence[ValidatedPoint]) -> float:
    """Mean absolute relative error."""
    return fmean(map(_error, points))


def _judged(fabric: Fabric, series: Series, readings: Readings, algorithms: tuple[str, ...]) -> ValidatedSeries:
    placed = check_fits(fabric, series)
    priced, checked = price_series(fabric, series, readings, algorithms), []
    for index, point in enumerate(series.points):
        best, near = priced.best[index], priced.nearest(index, point.seconds)
        judged = ValidatedPoint(
            bytes=point.bytes,
            measured_s=point.seconds,
            predicted_s=best.seconds,
            relative_error=best.seconds / point.seconds - 1,
            algorithm=best.algorithm,
            protocol=best.protocol,
            busbw_measured_Bps=series.busbw_Bps(point),
            busbw_expected_Bps=series.busbw_Bps(point, best.seconds),
            bound=best.bound,
            nearest=near.algorithm,
            nearest_error=near.seconds / point.seconds - 1,
            spec=best.spec,
            nearest_spec=near.spec,
        )
        checked.append(judged)
    worst = max((point.relative_error for point in checked), key=abs)
    grouped = [list(same) for _, same in groupby(checked, key=lambda point: point.bound)]
    regimes = tuple(Regime(same[0].bound, same[0].bytes, same[-1].bytes, mape(same)) for same in grouped)
    said = findings(SeriesContext(fabric, placed, series, readings, algorithms, priced, checked=tuple(checked)))
    return ValidatedSeries(series, tuple(checked), mape(checked), worst, regimes, said)


TRUSTED = 0.10  # mean error of prices worth planning with
FEWEST = 3  # points that make a mean worth reporting
STRAY = 0.25  # error of single sizes that are named although the rest can be trusted
_NOWHERE = f"on no range of sizes within {whole_percent(TRUSTED)}"
Trusted = Callable[[ValidatedPoint], bool]


def verdict(judged: Sequence[ValidatedSeries]) -> str:
    """``12% off on average over 84 sizes; trust it from 1 MiB on (4%), not below (25%)``, and exceptions."""
    points = _pooled(judged)
    off = f"{_percent(points)} off on average over {counted(len(points), 'size')}"
    if len({point.bytes for point in points}) < FEWEST:
        return f"{off}; too few sizes to judge"
    good = [one for one in judged if _good(one.points)]
    said, trusted = _trust(points) or (2 * len(good) >= len(judged) > 1 and _trust(_pooled(good))) or (_NOWHERE, lambda _: False)
    inside = [(one.series, [point for point in one.points if trusted(point)]) for one in judged if len(judged) > 1]
    apart = [f"{_named(series, judged)} ({_percent(mine)})" for series, mine in inside if mine and not _good(mine)]
    apart = apart or _strays([point for point in points if trusted(point)])
    return f"{off}; {said}{', but for ' if apart else ''}{', '.join(apart)}"


def _pooled(judged: Sequence[ValidatedSeries]) -> list[ValidatedPoint]:
    return sorted((point for one in judged for point in one.points), key=lambda point: point.bytes)


def _trust(points: list[ValidatedPoint]) -> tuple[str, Trusted] | None:
    """Where the mean error is small: everywhere, or on one side of the size where it changes most; None for nowhere. A side
    counts as bad only if most of its sizes are off."""
    below, from_on = _parted(points)
    if below and _good(below) != _good(from_on) and _mostly_off(from_on if _good(below) else below):
        change, left, right = from_on[0].bytes, _percent(below), _percent(from_on)
        if _good(from_on):
            return f"trust it from {size_text(change)} on ({right}), not below ({left})", lambda point: point.bytes >= change
        return f"trust it below {size_text(change)} ({left}), not from there on ({right})", lambda point: point.bytes < change
    others = [point for point in points if _error(point) <= STRAY]
    if _good(points) or (not _mostly_off(points) and _good(others) and _strays(points)):
        return "trust it", lambda _: True
    return None


def _strays(points: Sequence[ValidatedPoint]) -> list[str]:
    runs = [list(run) for far, run in groupby(points, key=lambda point: _error(point) > STRAY) if far]
    named = [f"{range_text(run[0].bytes, run[-1].bytes)} ({_percent(run)})" for run in runs]
    return named if len(named) < FEWEST else []


def _named(series: Series, among: Sequence[ValidatedSeries]) -> str:
    alike = sum((one.series.primitive, one.series.ranks) == (series.primitive, series.ranks) for one in among) > 1
    what = f" of {series.dtype}" if series.dtype and alike else ""
    where = f" on {counted(series.nodes, 'node')}" if series.nodes and alike else ""
    return f"{series.primitive.spoken}{what} on {series.ranks} ranks{where}"


def _parted(points: list[ValidatedPoint]) -> tuple[list[ValidatedPoint], list[ValidatedPoint]]:
    """Points split at the size that minimises the scatter of errors within the two parts; empty if too few."""
    cuts = [i for i in range(FEWEST, len(points) - FEWEST + 1) if points[i].bytes > points[i - 1].bytes]
    if not cuts:
        return [], []
    errors = [min(_error(point), 1.0) for point in points]  # capped: one outlier is no regime
    below, above = _scatters(errors), _scatters(errors[::-1])
    cut = min(cuts, key=lambda i: below[i] + above[len(points) - i])
    return points[:cut], points[cut:]


def _scatters(values: Sequence[float]) -> list[float]:
    """Sums of squared deviations from the mean of the first 0, 1, 2 ... values (Welford 1962)."""
    mean, found = 0.0, [0.0]
    for count, value in enumerate(values, start=1):
        apart = value - mean
        mean += apart / count
        found.append(found[-1] + apart * (value - mean))
    return found


def _error(point: ValidatedPoint) -> float:
    return abs(point.relative_error)


def _mostly_off(points: Sequence[ValidatedPoint]) -> bool:
    return median(map(_error, points)) > TRUSTED


def _good(points: Sequence[ValidatedPoint]) -> bool:
    return mape(points) <= TRUSTED


def _percent(points: Sequence[ValidatedPoint]) -> str:
    mean = mape(points)
    return percent(mean, 1 if mean < 0.0995 else 0)
