"""The data of charts over size: measured and modelled time or busbw, a panel per series or per collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from colltool.base.formatting import percent
from colltool.calibration.calibrate import Calibration, FittedSeries
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
    """A series; ``name`` tells it from the others of its collective, ``law`` names the algorithms of its model."""

    collective: str
    ranks: int
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
    extras = _extras([one.series for one in result.series])
    return _panels([_fitted_curve(one, extra, what) for one, extra in zip(result.series, extras, strict=True)], most)


def judged_panels(judged: Sequence[ValidatedSeries], what: What, most: int = MAX_PANELS) -> tuple[SizePanel, ...]:
    extras = _extras([one.series for one in judged])
    return _panels([_checked_curve(one, extra, what) for one, extra in zip(judged, extras, strict=True)], most)


def _fitted_curve(one: FittedSeries, extra: str, what: What) -> SeriesCurve:
    rows = {row.bytes: Modelled(row.fitted_s, row.relative_error, _law(row.algorithm, row.protocol)) for row in one.residuals}
    unused = {row.bytes: "no reason given" for row in one.residuals if not row.used}
    reasons = unused | {skipped.bytes: skipped.reason for skipped in one.left_out}
    law = " + ".join(one.algorithms)
    return SeriesCurve(*_names(one.series, extra), law, one.mape, one.worst, _spots(one.series, rows, reasons, what))


def _checked_curve(one: ValidatedSeries, extra: str, what: What) -> SeriesCurve:
    rows = {row.bytes: Modelled(row.predicted_s, row.relative_error, _law(row.algorithm, row.protocol)) for row in one.points}
    law = ", ".join(dict.fromkeys(row.algorithm for row in one.points))
    return SeriesCurve(*_names(one.series, extra), law, one.mape, one.worst, _spots(one.series, rows, {}, what))


def _law(algorithm: str, protocol: str) -> str:
    return f"{algorithm}, {protocol}" if protocol else algorithm


def _spots(series: Series, rows: Mapping[float, Modelled], reasons: Mapping[float, str], what: What) -> tuple[PlotPoint, ...]:
    return tuple(_spot(series, point, rows.get(point.bytes), reasons.get(point.bytes, ""), what) for point in series.points)


def _spot(series: Series, point: Point, row: Modelled | None, reason: str, what: What) -> PlotPoint:
    def value(seconds: float) -> float:
        return seconds if what == "time" else series.busbw_Bps(point, seconds)

    low, high = sorted((value(point.low_s), value(point.high_s)))
    model = value(row.seconds) if row else float("nan")
    left_out = reason if row else reason or "no model at this size"
    measured = value(point.seconds)
    return PlotPoint(bytes=point.bytes, measured=measured, low=low, high=high, row=row, model=model, left_out=left_out)


def _names(series: Series, extra: str) -> tuple[str, int, str]:
    return series.primitive.spoken, series.ranks, series.who + extra


def _extras(all_series: Sequence[Series]) -> list[str]:
    extras = []
    for series in all_series:
        twins = [other for other in all_series if other.title == series.title]
        marks = zip(*((one.library, one.version, one.dtype, " ".join(one.files)) for one in twins), strict=True)
        own = (series.library, series.version, series.dtype, " ".join(series.files))
        extras.append("".join(f", {mark}" for mark, column in zip(own, marks, strict=True) if mark and len(set(column)) > 1))
    return extras


def _panels(curves: Sequence[SeriesCurve], most: int) -> tuple[SizePanel, ...]:
    if len(curves) <= most:
        return tuple(_panel((curve,)) for curve in curves)
    collectives = [tuple(one for one in curves if one.collective == name) for name in every(one.collective for one in curves)]
    size = MAX_CURVES
    while sum(-(-len(group) // size) for group in collectives) > max(most, len(collectives)):
        size += 1
    return tuple(_panel(group[i : i + size]) for group in collectives for i in range(0, len(group), size))


def _panel(curves: tuple[SeriesCurve, ...]) -> SizePanel:
    ranks = sorted({curve.ranks for curve in curves})
    name = curves[0].name if len(curves) == 1 else f"{' to '.join(every((str(ranks[0]), str(ranks[-1]))))} ranks"
    laws = ", ".join(every(curve.law for curve in curves))
    return SizePanel(f"{curves[0].collective}, {name}", f"{_errors(curves)}; {laws}", curves)


def _errors(curves: Sequence[SeriesCurve]) -> str:
    modelled = [curve for curve in curves if any(spot.row and not spot.left_out for spot in curve.spots)]
    if not modelled:
        return "no point has a model"
    means = sorted(curve.mape for curve in modelled)
    mean = " to ".join(every((percent(means[0]), percent(means[-1]))))
    return f"mean error {mean}, worst {percent(max((curve.worst for curve in modelled), key=abs), sign='+')}"


def every(items: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(items) if name]
