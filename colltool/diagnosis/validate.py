"""``validate``: measured series against a fabric's prices, size by size.

:func:`validate` prices each series and compares it point by point. Which sizes the prices can be
trusted for is summed up in :mod:`colltool.diagnosis.verdict`; what the differences of one series
say of the machine, in :mod:`colltool.diagnosis.findings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import isfinite
from operator import attrgetter

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import counted
from colltool.calibration.log_fits import check_fits
from colltool.calibration.series_prices import Priced, price_series
from colltool.diagnosis.findings import SeriesContext, findings
from colltool.diagnosis.reading import read_series
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.diagnosis.scenario import prices_of
from colltool.diagnosis.verdict import mape, pooled, verdict
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.logs.series import Measurements, Series


def validate(
    fabric: Fabric,
    measurements: Measurements,
    *,
    max_mape: float | None = None,
    readings: ModelOptions | None = None,
    algorithms: Sequence[str] = (),
) -> Validation:
    """Hold every measured size against the fastest price among what the library may have chosen.

    Args:
        max_mape: the mean absolute relative error of a series up to which the prices hold; None for
            no limit.
        algorithms: those that may run; empty for any.

    Raises:
        ColltoolError: nothing was measured, or it does not fit the fabric; ``max_mape`` is no
            share.
    """
    if max_mape is not None and not (isfinite(max_mape) and max_mape > 0):
        raise ColltoolError(
            f"must be a positive share, got {max_mape}",
            argument="max_mape",
            fix=f"write {either(shell='15% or 0.15', python='0.15')}",
        )
    if not measurements.series:
        raise _nothing_measured(measurements)
    check_even(fabric)
    reading = readings or ModelOptions()
    names = tuple(algorithms)
    judged = tuple(
        _validated_series(fabric, series, reading, names) for series in measurements.series
    )
    return Validation(
        fabric=fabric.name,
        series=judged,
        mape=mape(pooled(judged)),
        verdict=verdict(judged),
        skipped=measurements.skipped,
        max_mape=max_mape,
        overrides=fabric.overrides,
        readings=reading,
        health=read_series(fabric, judged).health,
    )


def _nothing_measured(measurements: Measurements) -> ColltoolError:
    """The error for logs without a series, with the reason why rows were left out."""
    what = "nothing to validate: the logs hold no usable series"
    fix = "measure again, and give the whole output of the benchmark"
    for rows in measurements.skipped:
        if not rows.used:
            what += f": {rows.reason}, {counted(rows.rows, 'row')}"
            return ColltoolError(what, where=rows.where, fix=fix)
    return ColltoolError(what, fix=fix)


def _validated_series(
    fabric: Fabric, series: Series, readings: ModelOptions, algorithms: tuple[str, ...]
) -> ValidatedSeries:
    """A series priced and compared point by point, with its regimes and findings."""
    placed = check_fits(fabric, series)
    priced = prices_of(fabric, series, readings, algorithms)
    if priced is None:
        # again, for the error that names this series
        priced = price_series(fabric, series, readings, algorithms)
    points = tuple(_validated_points(series, priced))
    # neighbouring sizes of one bound are one regime
    regimes = []
    for bound, neighbours in groupby(points, key=attrgetter("bound")):
        sizes = list(neighbours)
        regimes.append(Regime(bound, sizes[0].shown_bytes, sizes[-1].shown_bytes, mape(sizes)))
    context = SeriesContext(
        fabric, placed, series, readings, algorithms, priced=priced, points=points
    )
    return ValidatedSeries(
        series,
        points,
        mape=mape(points),
        worst=max(map(attrgetter("relative_error"), points), key=abs),
        regimes=tuple(regimes),
        findings=findings(context),
    )


def _validated_points(series: Series, priced: Priced) -> Iterator[ValidatedPoint]:
    """Each measured size beside the fastest price and the nearest one."""
    for index, point in enumerate(series.points):
        best = priced.best[index]
        near = priced.nearest(index, point.seconds)
        yield ValidatedPoint(
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
            message=point.message,
        )
