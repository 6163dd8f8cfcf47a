"""The data of charts over size: measured and modelled time or busbw, a panel per series or per collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Literal, NamedTuple

from colltool.base.formatting import percent
from colltool.calibration.results import Calibration
from colltool.diagnosis.results import ValidatedSeries
from colltool.measurements.series import Point, Series

What = Literal["time", "busbw"]

MAX_PANELS = 12  # in a file; a page has room for fewer
MAX_CURVES = 8  # in the panel of a collective; more only where there would be too many panels


class Modelled(NamedTuple):
    """The model's time for a point; ``error`` is modelled/measured time - 1, ``law`` its algorithm and protocol."""

    seconds: float
    error: float
    law: str


class PlotPoint(NamedTuple):
    """A point; its values are in the unit of the y axis."""

    bytes: float
    measured: float
    low: float
    high: float
    row: Modelled | None
    model: float  # NaN without a row
    left_out: str  # why the fit does not use it; empty where it does


class SeriesCurve(NamedTuple):
    """``name`` tells a series from the others of its collective, ``law`` names the algorithms of its model."""

    series: Series
    name: str
    law: str
    mape: float
    worst: float
    spots: tuple[PlotPoint, ...]


class SizePanel(NamedTuple):
    title: str
    subtitle: str
    curves: tuple[SeriesCurve, ...]


def calibration_panels(result: Calibration, what: What, most: int = MAX_PANELS) -> tuple[SizePanel, ...]:
    curves = []
    for one, extra in zip(result.series, _extras([one.series for one in result.series]), strict=True):
        rows = {row.bytes: Modelled(row.fitted_s, row.relative_error, _law(row.algorithm, row.protocol)) for row in one.residuals}
        reasons = {row.bytes: "no reason given" for row in one.residuals if not row.used}
        reasons |= {skipped.bytes: skipped.reason for skipped in one.left_out}
        spots = tuple(_spot(one.series, point, rows, reasons, what) for point in one.series.points)
        curves.append(SeriesCurve(one.series, one.series.who + extra, " + ".join(one.algorithms), one.mape, one.worst, spots))
    return _panels(curves, most)


def judged_panels(judged: Sequence[ValidatedSeries], what: What, most: int = MAX_PANELS) -> tuple[SizePanel, ...]:
    curves = []
    for one, extra in zip(judged, _extras([one.series for one in judged]), strict=True):
        rows = {row.bytes: Modelled(row.predicted_s, row.relative_error, _law(row.algorithm, row.protocol)) for row in one.points}
        law = ", ".join(dict.fromkeys(row.algorithm for row in one.points))
        spots = tuple(_spot(one.series, point, rows, {}, what) for point in one.series.points)
        curves.append(SeriesCurve(one.series, one.series.who + extra, law, one.mape, one.worst, spots))
    return _panels(curves, most)


def _law(algorithm: str, protocol: str) -> str:
    return f"{algorithm}, {protocol}" if protocol else algorithm


def _spot(series: Series, point: Point, rows: Mapping[float, Modelled], reasons: Mapping[float, str], what: What) -> PlotPoint:
    def value(seconds: float) -> float:
        return seconds if what == "time" else series.busbw_Bps(point, seconds)

    row, reason = rows.get(point.bytes), reasons.get(point.bytes, "")
    low, high = sorted((value(point.low_s), value(point.high_s)))
    return PlotPoint(
        bytes=point.bytes,
        measured=value(point.seconds),
        low=low,
        high=high,
        row=row,
        model=value(row.seconds) if row else nan,
        left_out=reason if row else reason or "no model at this size",
    )


def _extras(all_series: Sequence[Series]) -> list[str]:
    """For series of one title, what tells them apart."""
    extras = []
    for series in all_series:
        twins = [_marks(other) for other in all_series if other.title == series.title]
        several = zip(_marks(series), zip(*twins, strict=True), strict=True)
        extras.append("".join(f", {mark}" for mark, column in several if mark and len(set(column)) > 1))
    return extras


def _marks(series: Series) -> tuple[str, ...]:
    return series.library, series.version, series.dtype, " ".join(series.files)


def _panels(curves: Sequence[SeriesCurve], most: int) -> tuple[SizePanel, ...]:
    if len(curves) <= most:
        return tuple(_panel((curve,)) for curve in curves)
    collectives: dict[str, tuple[SeriesCurve, ...]] = {}
    for curve in curves:
        name = curve.series.primitive.spoken
        collectives[name] = (*collectives.get(name, ()), curve)
    size = MAX_CURVES
    while sum(-(-len(group) // size) for group in collectives.values()) > max(most, len(collectives)):
        size += 1
    return tuple(_panel(group[i : i + size]) for group in collectives.values() for i in range(0, len(group), size))


def _panel(curves: tuple[SeriesCurve, ...]) -> SizePanel:
    ranks = [curve.series.ranks for curve in curves]
    name = curves[0].name if len(curves) == 1 else f"{' to '.join(every((str(min(ranks)), str(max(ranks)))))} ranks"
    errors = "no point has a model"
    if modelled := [curve for curve in curves if any(spot.row and not spot.left_out for spot in curve.spots)]:
        means = [curve.mape for curve in modelled]
        worst = max((curve.worst for curve in modelled), key=abs)
        errors = f"mean error {' to '.join(every(map(percent, (min(means), max(means)))))}, worst {percent(worst, sign='+')}"
    laws = ", ".join(every(curve.law for curve in curves))
    return SizePanel(f"{curves[0].series.primitive.spoken}, {name}", f"{errors}; {laws}", curves)


def every(items: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(items) if name]
