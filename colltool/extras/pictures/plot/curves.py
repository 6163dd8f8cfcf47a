"""Measured series and their models as panels of curves over message size: what :mod:`.fits` puts
into charts and :mod:`.size_panels` draws.

:func:`calibration_panels` and :func:`judged_panels` make a curve of each series (:func:`_curve`) and
distribute the curves over panels (:func:`_panels`). Models and reasons to leave a point out are looked up by the
point's size in bytes.
"""

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
    # the next four in the unit of the y axis
    measured: float  # median of all repeats
    low: float  # lowest of them
    high: float
    model: float  # NaN where there is none
    modelled: Modelled | None  # the same in seconds
    left_out: str  # why the fit does not use the size; empty where it does

    @property
    def fitted(self) -> Modelled | None:
        """The model where the point counts in its error."""
        return None if self.left_out else self.modelled


class SeriesCurve(NamedTuple):
    """A measured series with its model."""

    series: Series
    name: str  # distinguishes it from the others of its collective
    model_name: str  # all algorithms of its model
    mape: float  # mean error without sign, as a share
    worst: float  # error with its sign, as a share
    points: tuple[PlotPoint, ...]

    @property
    def distinctions(self) -> tuple[str, ...]:
        """What may distinguish the series from another one of the same title, in fixed order; texts
        may be empty."""
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
    """Make the panels of fitted series, at most ``most`` unless there are more collectives."""
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
                # replaced below by the reason of the fit, where it has one
                reasons[residual.bytes] = "no reason given"
        for excluded in fit.left_out:
            reasons[excluded.bytes] = excluded.reason
        curves.append(_curve(fit, " + ".join(fit.algorithms), models, reasons, quantity))
    return _panels(curves, most)


def judged_panels(
    judged: Iterable[ValidatedSeries], quantity: Quantity, most: int = MAX_PANELS
) -> tuple[SizePanel, ...]:
    """Make the panels of series that were compared with predictions, as many as
    :func:`calibration_panels` does."""
    curves = []
    for series in judged:
        models = {}
        for point in series.points:
            model_name = _model_name(point.algorithm, point.protocol)
            models[point.bytes] = Modelled(point.predicted_s, point.relative_error, model_name)
        model_names = ", ".join(distinct(point.algorithm for point in series.points))
        curves.append(_curve(series, model_names, models, {}, quantity))
    return _panels(curves, most)


def _curve(
    fit: FittedSeries | ValidatedSeries,
    model_name: str,
    models: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    quantity: Quantity,
) -> SeriesCurve:
    """A series with its model (``models``) and the ``reasons`` for leaving points out, both by
    bytes."""
    series = fit.series
    points = tuple(_plot_point(series, point, models, reasons, quantity) for point in series.points)
    return SeriesCurve(series, series.who, model_name, fit.mape, fit.worst, points)


def _model_name(algorithm: str, protocol: str) -> str:
    """``ring, LL128``."""
    return f"{algorithm}, {protocol}" if protocol else algorithm


def _plot_point(
    series: Series,
    point: Point,
    models: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    quantity: Quantity,
) -> PlotPoint:
    """A measured point with its model's value and why it is left out, in the unit of the y axis."""

    def on_axis(seconds: float) -> float:
        return seconds if quantity == "time" else series.busbw_Bps(point, seconds)

    modelled = models.get(point.bytes)
    reason = reasons.get(point.bytes, "")
    model = nan
    if modelled is not None:
        model = on_axis(modelled.seconds)
    elif not reason:
        reason = "no model at this size"
    # the shortest time is the highest busbw
    low, high = sorted((on_axis(point.low_s), on_axis(point.high_s)))
    return PlotPoint(
        point.bytes, on_axis(point.seconds), low, high, model, modelled=modelled, left_out=reason
    )


def _disambiguated(curves: Sequence[SeriesCurve]) -> Iterator[SeriesCurve]:
    """The curves, each named by what distinguishes it from others of the same title."""
    for curve in curves:
        title = curve.series.title
        alike = [other.distinctions for other in curves if other.series.title == title]
        name = curve.name
        for index, distinction in enumerate(curve.distinctions):
            if distinction and len({distinctions[index] for distinctions in alike}) > 1:
                name += f", {distinction}"
        yield curve._replace(name=name)


def _panels(curves: Sequence[SeriesCurve], most: int) -> tuple[SizePanel, ...]:
    """Distribute curves over panels: one in each; where those are more than ``most``, up to :data:`MAX_CURVES` of
    one collective in each, or more where that is still too many panels."""
    curves = list(_disambiguated(curves))
    if len(curves) <= most:
        return tuple(_size_panel([curve]) for curve in curves)
    collectives: dict[str, list[SeriesCurve]] = {}
    for curve in curves:
        collectives.setdefault(curve.series.primitive.label, []).append(curve)
    # never two collectives in a panel, so at least one panel each: this ends the loop below
    most = max(most, len(collectives))
    per_panel = MAX_CURVES
    parts = _in_parts(collectives.values(), per_panel)
    while len(parts) > most:
        per_panel += 1
        parts = _in_parts(collectives.values(), per_panel)
    return tuple(map(_size_panel, parts))


def _in_parts(collectives: Iterable[list[SeriesCurve]], per_panel: int) -> list[list[SeriesCurve]]:
    """The curves of each collective, cut into parts of at most ``per_panel``."""
    parts = []
    for curves in collectives:
        for start in range(0, len(curves), per_panel):
            parts.append(curves[start : start + per_panel])
    return parts


def _size_panel(curves: Sequence[SeriesCurve]) -> SizePanel:
    """A panel of series of one collective: its title names the series, or of several the span of
    ranks; its subtitle has the errors and the model's algorithms."""
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
