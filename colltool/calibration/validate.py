"""``validate``: measured series beside the prices of a fabric, size by size, and what follows from the difference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import isfinite
from statistics import fmean

from colltool.base.errors import ColltoolError, either
from colltool.calibration.case import Case
from colltool.calibration.findings import findings
from colltool.calibration.placement import check_fits
from colltool.calibration.priced import Priced, price_series
from colltool.calibration.results import Checked, Regime, ValidatedSeries, Validation
from colltool.calibration.verdict import verdict
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.measurements.series import Measurements, Point, Series, Skipped

_AGAIN = "measure again, and give the whole output of the benchmark"


def validate(fabric: Fabric, measurements: Measurements, *, max_mape: float | None = None, readings: Readings | None = None,
             algorithms: Sequence[str] = ()) -> Validation:  # fmt: skip
    """Hold every measured size against the fastest price among what the library that ran may have chosen.

    Args:
        fabric: whose prices.
        measurements: the series.
        max_mape: the mean absolute relative error up to which a series holds, a fraction; None: any.
        readings: of the model; the defaults when None.
        algorithms: exactly these; when empty what the fabric lists for its library, else what the library of the log ships.

    Raises:
        ColltoolError: no series, ranks that the fabric does not hold or places elsewhere, a ``max_mape`` that is no positive
            number, an algorithm that cannot run.
    """
    if max_mape is not None and not (isfinite(max_mape) and max_mape > 0):
        fix = f"write {either(shell='15% or 0.15', python='0.15')}"
        raise ColltoolError(f"must be a positive share, got {max_mape}", argument="max_mape", fix=fix)
    if not measurements.series:
        raise _nothing(measurements.skipped)
    reading = readings or Readings()
    judged = tuple(_judged(fabric, series, reading, tuple(algorithms)) for series in measurements.series)
    points = [point for one in judged for point in one.points]
    return Validation(
        fabric=fabric.name,
        series=judged,
        mape=mape(points),
        verdict=verdict(judged),
        skipped=measurements.skipped,
        max_mape=max_mape,
        overrides=fabric.overrides,
        readings=reading,
    )


def _nothing(skipped: Sequence[Skipped]) -> ColltoolError:
    """No series, and why the first rows of the logs are none."""
    what = "nothing to validate: the logs hold no usable series"
    first = next((one for one in skipped if not one.used), None)
    if first is None:
        return ColltoolError(what, fix=_AGAIN)
    what = f"{what}: {first.reason}, {first.rows} row{'s' * (first.rows != 1)}"
    return ColltoolError(what, where=first.where, fix=_AGAIN)


def mape(points: Sequence[Checked]) -> float:
    """The mean absolute relative error."""
    return fmean(abs(point.relative_error) for point in points)


def _judged(fabric: Fabric, series: Series, readings: Readings, algorithms: tuple[str, ...]) -> ValidatedSeries:
    placed = check_fits(fabric, series)
    priced = price_series(fabric, series, readings, algorithms)
    checked = tuple(_checked(series, point, index, priced) for index, point in enumerate(series.points))
    worst = max((point.relative_error for point in checked), key=abs)
    said = findings(
        Case(
            fabric=fabric, placed=placed, series=series, readings=readings, algorithms=algorithms, priced=priced, checked=checked
        )
    )
    return ValidatedSeries(series, checked, mape(checked), worst, _regimes(checked), said)


def _checked(series: Series, point: Point, index: int, priced: Priced) -> Checked:
    best, near = priced.best[index], priced.nearest(index, point.seconds)
    return Checked(
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


def _regimes(points: Sequence[Checked]) -> tuple[Regime, ...]:
    grouped = (list(same) for _, same in groupby(points, key=lambda point: point.bound))
    return tuple(Regime(same[0].bound, same[0].bytes, same[-1].bytes, mape(same)) for same in grouped)
