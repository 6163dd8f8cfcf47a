"""Measured series and their models as panels of curves over message size: what :mod:`.fits` draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import nan
from typing import Literal, NamedTuple

from colltool.base.formatting import percent
from colltool.calibration.calibrate import Calibration
from colltool.calibration.results import FittedSeries
from colltool.diagnosis.results import ValidatedSeries
from colltool.logs.series import Point, Series

Quantity = Literal["time", "busbw"]
"""What the y axis shows: seconds, or bus bandwidth in bytes/s."""

MAX_PANELS = 12  # in a file; a page has room for fewer
MAX_CURVES = 8  # in the panel of a collective; more only where there would be too many panels


class Modelled(NamedTuple):
    """The model's time for a point."""

    seconds: float
    error: float  # modelled/measured time - 1
    model_name: str  # its algorithm and protocol


class PlotPoint(NamedTuple):
    """A measured size."""

    bytes: float
    # in the unit of the y axis: the median of all repeats, the lowest and highest, and the model,
    # NaN where there is none
    measured: float
    low: float
    high: float
    model: float
    modelled: Modelled | None
    left_out: str  # why the fit does not use it; empty where it does

    @property
    def fitted(self) -> Modelled | None:
        """The model where the point counts in its error."""
        return None if self.left_out else self.modelled


class SeriesCurve(NamedTuple):
    """A measured series with its model."""

    series: Series
    name: str  # distinguishes it from the others of its collective
    model_name: str  # all algorithms of its model
    mape: float  # mean and worst error, as shares
    worst: float
    points: tuple[PlotPoint, ...]

    @property
    def distinctions(self) -> tuple[str, ...]:
        """What may distinguish the series from another one of the same title."""
        series = self.series
        return series.library, series.version, series.dtype, " ".join(series.files)


class SizePanel(NamedTuple):
    """The series that share a panel, with its title and a line on the model's errors."""

    title: str
    subtitle: str
    curves: Sequence[SeriesCurve]

    @property
    def points(self) -> list[PlotPoint]:
        return list(chain.from_iterable(curve.points for curve in self.curves))


def calibration_panels(
    result: Calibration, quantity: Quantity, most: int = MAX_PANELS
) -> tuple[SizePanel, ...]:
    """The panels of the fitted series, at most ``most`` unless there are more collectives."""
    curves = []
    for fit in result.series:
        models = {}
        reasons = {}
        for residual in fit.residuals:
            model_name = _model_name(residual.algorithm, residual.protocol)
            models[residual.bytes] = Modelled(
                residual.fitted_s, residual.relative_error, model_name
            )
            if not residual.used:
                reasons[residual.bytes] = "no reason given"
        for excluded in fit.left_out:
            reasons[excluded.bytes] = excluded.reason
        curves.append(_curve(fit, " + ".join(fit.algorithms), models, reasons, quantity))
    return _panels(curves, most)


def judged_panels(
    judged: Iterable[ValidatedSeries], quantity: Quantity, most: int = MAX_PANELS
) -> tuple[SizePanel, ...]:
    """The same of series that were compared with a prediction."""
    curves = []
    for fit in judged:
        models = {}
        for point in fit.points:
            model_name = _model_name(point.algorithm, point.protocol)
            models[point.bytes] = Modelled(point.predicted_s, point.relative_error, model_name)
        model_names = ", ".join(distinct(row.algorithm for row in fit.points))
        curves.append(_curve(fit, model_names, models, {}, quantity))
    return _panels(curves, most)


def _curve(
    fit: FittedSeries | ValidatedSeries,
    model_name: str,
    models: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    quantity: Quantity,
) -> SeriesCurve:
    """A series with the model (``models``) and the reason for leaving a point out, by bytes."""
    series = fit.series
    points = tuple(_plot_point(series, point, models, reasons, quantity) for point in series.points)
    return SeriesCurve(series, series.who, model_name, fit.mape, fit.worst, points)


def _model_name(algorithm: str, protocol: str) -> str:
    return f"{algorithm}, {protocol}" if protocol else algorithm


def _plot_point(
    series: Series,
    point: Point,
    models: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    quantity: Quantity,
) -> PlotPoint:
    """A measured point with its model's value and why it is left out, in the unit of the y axis."""

    def value(seconds: float) -> float:
        """A time in the unit of the y axis."""
        return seconds if quantity == "time" else series.busbw_Bps(point, seconds)

    modelled = models.get(point.bytes)
    reason = reasons.get(point.bytes, "")
    model = nan
    if modelled is not None:
        model = value(modelled.seconds)
    elif not reason:
        reason = "no model at this size"
    low, high = sorted((value(point.low_s), value(point.high_s)))
    return PlotPoint(
        point.bytes, value(point.seconds), low, high, model, modelled=modelled, left_out=reason
    )


def _disambiguated(curves: Sequence[SeriesCurve]) -> Iterator[SeriesCurve]:
    """The curves, each named by what distinguishes it from others of the same title."""
    for curve in curves:
        twins = [other.distinctions for other in curves if other.series.title == curve.series.title]
        name = curve.name
        for own, of_all in zip(curve.distinctions, zip(*twins, strict=True), strict=True):
            if own and len(set(of_all)) > 1:
                name += f", {own}"
        yield curve._replace(name=name)


def _panels(curves: Sequence[SeriesCurve], most: int) -> tuple[SizePanel, ...]:
    """A panel per series, or where those are too many a panel per collective, of up to
    ``MAX_CURVES`` series or as many as it takes."""
    named = list(_disambiguated(curves))
    if len(named) <= most:
        return tuple(_size_panel([curve]) for curve in named)
    groups: dict[str, list[SeriesCurve]] = {}
    for curve in named:
        groups.setdefault(curve.series.primitive.label, []).append(curve)
    # As few panels as are allowed, but never two collectives in one.
    size = MAX_CURVES
    parts = _in_parts(groups.values(), size)
    while len(parts) > max(most, len(groups)):
        size += 1
        parts = _in_parts(groups.values(), size)
    return tuple(map(_size_panel, parts))


def _in_parts(groups: Iterable[list[SeriesCurve]], size: int) -> list[list[SeriesCurve]]:
    """The groups, each cut into parts of at most ``size``."""
    parts = []
    for group in groups:
        for start in range(0, len(group), size):
            parts.append(group[start : start + size])
    return parts


def _size_panel(curves: Sequence[SeriesCurve]) -> SizePanel:
    """A panel of series of one collective: its title names the series, or the span of ranks."""
    name = curves[0].name
    if len(curves) > 1:
        ranks = [curve.series.ranks for curve in curves]
        name = f"{_span(str(min(ranks)), str(max(ranks)))} ranks"
    errors = "no point has a model"
    means = []
    worsts = []
    for curve in curves:
        if any(point.fitted for point in curve.points):
            means.append(curve.mape)
            worsts.append(curve.worst)
    if means:
        mean = _span(percent(min(means)), percent(max(means)))
        errors = f"mean error {mean}, worst {percent(max(worsts, key=abs), sign='+')}"
    model_names = ", ".join(distinct(curve.model_name for curve in curves))
    return SizePanel(
        f"{curves[0].series.primitive.label}, {name}", f"{errors}; {model_names}", curves
    )


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def distinct(items: Iterable[str]) -> list[str]:
    """The texts without duplicates and empty ones, in order."""
    return list(dict.fromkeys(filter(None, items)))
