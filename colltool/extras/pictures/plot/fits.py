"""Charts of measured and modelled time or busbw over size, a panel per series or per collective,
each with a strip of the model's errors below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import copysign, nan, sqrt
from operator import attrgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import binary_size, format_rate, format_time, percent, whole_percent
from colltool.calibration.calibrate import Calibration
from colltool.calibration.results import FittedSeries
from colltool.diagnosis.results import Diagnosis, SeriesHealth, ValidatedSeries, Validation
from colltool.extras.pictures.plot.chart import (
    INK,
    LINE,
    PAPER,
    SOFT,
    Chart,
    Panel,
    Pen,
    decade_ticks,
    first_of_three,
    letters,
    pen_of,
)
from colltool.extras.pictures.plot.fleet import fleet_chart
from colltool.logs.series import Point, Series
from colltool.render.dispatch import on_fabric
from colltool.render.views.doctor_answer import diagnosed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = Literal["time", "busbw"]
"""What the y axis shows: seconds, or bus bandwidth in bytes/s."""

MAX_PANELS = 12  # in a file; a page has room for fewer
MAX_CURVES = 8  # in the panel of a collective; more only where there would be too many panels
_COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 3, 8: 4, 9: 3}
"""Columns of panels by the number of panels; 4 for more."""
_SHAPES = ("X", "s", "D", "P", "p", "h")
"""matplotlib's marks for points that the fit leaves out, one per reason; the last for all others."""
_HOLLOW: dict[str, Any] = {"markerfacecolor": PAPER, "markersize": 5.5}
_BANDS_PERCENT = {15: 0.06, 5: 0.08}
"""Opacity of the bands behind the errors by half their height; both lie on top of each other."""
_SCALES_PERCENT = (20, 30, 50, 100, 200, 500, 1000)
"""Where the axis of errors may end: at the first that the worst one fits into."""
_TIME_DIGITS = ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))
"""Digits of the ticks in each decade of time, few to many, see :func:`.chart.decade_ticks`."""


class Modelled(NamedTuple):
    """The model's time for a point; ``error`` is modelled/measured time - 1, ``model_name`` its
    algorithm and protocol."""

    seconds: float
    error: float
    model_name: str


class PlotPoint(NamedTuple):
    """A measured size; ``measured``, ``low``, ``high`` and ``model`` are in the unit of the y axis."""

    bytes: float
    measured: float
    low: float
    high: float
    row: Modelled | None
    model: float  # NaN without a row
    left_out: str  # why the fit does not use it; empty where it does

    @property
    def fitted(self) -> Modelled | None:
        """The model where the point counts in its error."""
        return None if self.left_out else self.row


class SeriesCurve(NamedTuple):
    """A measured series with its model.

    ``name`` distinguishes it from the others of its collective; ``model_name`` has all algorithms
    of its model; ``mape`` and ``worst`` are errors as shares.
    """

    series: Series
    name: str
    model_name: str
    mape: float
    worst: float
    points: tuple[PlotPoint, ...]

    @property
    def marks(self) -> tuple[str, ...]:
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
        rows = {}
        reasons = {}
        for residual in fit.residuals:
            model_name = _model_name(residual.algorithm, residual.protocol)
            rows[residual.bytes] = Modelled(residual.fitted_s, residual.relative_error, model_name)
            if not residual.used:
                reasons[residual.bytes] = "no reason given"
        for excluded in fit.left_out:
            reasons[excluded.bytes] = excluded.reason
        curves.append(_curve(fit, " + ".join(fit.algorithms), rows, reasons, quantity))
    return _panels(curves, most)


def judged_panels(
    judged: Iterable[ValidatedSeries], quantity: Quantity, most: int = MAX_PANELS
) -> tuple[SizePanel, ...]:
    """The same of series that were compared with a prediction."""
    curves = []
    for fit in judged:
        rows = {}
        for point in fit.points:
            model_name = _model_name(point.algorithm, point.protocol)
            rows[point.bytes] = Modelled(point.predicted_s, point.relative_error, model_name)
        model_names = ", ".join(distinct(row.algorithm for row in fit.points))
        curves.append(_curve(fit, model_names, rows, {}, quantity))
    return _panels(curves, most)


def _curve(
    fit: FittedSeries | ValidatedSeries,
    model_name: str,
    rows: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    quantity: Quantity,
) -> SeriesCurve:
    """A series with the model (``rows``) and the reason for leaving a point out, by bytes."""
    series = fit.series
    points = tuple(_plot_point(series, point, rows, reasons, quantity) for point in series.points)
    return SeriesCurve(series, series.who, model_name, fit.mape, fit.worst, points)


def _model_name(algorithm: str, protocol: str) -> str:
    return f"{algorithm}, {protocol}" if protocol else algorithm


def _plot_point(
    series: Series,
    point: Point,
    rows: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    quantity: Quantity,
) -> PlotPoint:
    """A measured point with its model's value and why it is left out, in the unit of the y axis."""

    def value(seconds: float) -> float:
        """A time in the unit of the y axis."""
        return seconds if quantity == "time" else series.busbw_Bps(point, seconds)

    row = rows.get(point.bytes)
    reason = reasons.get(point.bytes, "")
    model = nan
    if row is not None:
        model = value(row.seconds)
    elif not reason:
        reason = "no model at this size"
    low, high = sorted((value(point.low_s), value(point.high_s)))
    return PlotPoint(
        point.bytes, value(point.seconds), low, high, row, model=model, left_out=reason
    )


def _disambiguated(curves: Sequence[SeriesCurve]) -> Iterator[SeriesCurve]:
    """The curves, each named by what distinguishes it from others of the same title."""
    for curve in curves:
        twins = [other.marks for other in curves if other.series.title == curve.series.title]
        name = curve.name
        for mark, column in zip(curve.marks, zip(*twins, strict=True), strict=True):
            if mark and len(set(column)) > 1:
                name += f", {mark}"
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


def calibration_chart(result: Calibration, paged: bool, quantity: Quantity) -> Chart:
    title = f"{result.fabric.name}, tier {result.tier}: measured and fitted"
    return _chart(calibration_panels(result, quantity, _max_panels(paged)), title, paged, quantity)


def validation_chart(result: Validation, paged: bool, quantity: Quantity) -> Chart:
    title = f"{result.fabric}: measured and predicted, mean error {percent(result.mape)}"
    return _chart(
        judged_panels(result.series, quantity, _max_panels(paged)), title, paged, quantity
    )


def diagnosis_chart(result: Diagnosis, paged: bool) -> Chart:
    """The matrix of a fleet's pairs; without pairs the busbw of each series."""
    if result.fleet and result.fleet.pairs:
        return fleet_chart(result.fleet)
    title = f"{on_fabric(result.assumed.fabric, result.assumed.overrides)}: {diagnosed(result)}"
    panels = judged_panels([health.judged for health in result.series], "busbw", _max_panels(paged))
    reached = "; ".join(map(_reached, result.series))
    alt = f"Measured busbw beside what is expected, over message size: {reached}. {title}."
    return _chart(panels, title, paged, "busbw")._replace(alt=alt)


def _reached(health: SeriesHealth) -> str:
    shares = []
    for kind, share in (("large", health.large), ("small", health.small)):
        if share is not None:
            shares.append(f"{kind} messages {whole_percent(share)} of expected")
    return f"{health.judged.series.title}: {', '.join(shares) or 'not judged'}"


def _max_panels(paged: bool) -> int:
    return 4 if paged else MAX_PANELS


def _chart(panels: Sequence[SizePanel], title: str, paged: bool, quantity: Quantity) -> Chart:
    """The chart of the panels, whose alt text has the titles of all."""
    if not panels:
        raise ColltoolError(
            "there is no series to plot", argument="plot", fix="give logs with at least one row"
        )
    columns = 1 if paged else _COLUMNS.get(len(panels), 4)
    drawing = _SizeChart(panels, columns, quantity, _styles(panels))
    drawn = [Panel(partial(drawing.draw, at), 3.7) for at in range(len(panels))]
    texts = "; ".join(f"{panel.title}: {panel.subtitle}" for panel in panels)
    return Chart(title, f"{title}. {quantity} over message size: {texts}", drawn, columns=columns)


class _Styles(NamedTuple):
    """Lines are coloured by series where a panel has several (``shared``), else by the model's
    name. A point that is left out has a mark by the reason."""

    shared: bool
    lines: dict[str, Pen]
    shapes: dict[str, str]

    def modelled(self, curve: SeriesCurve, row: Modelled) -> Pen:
        return self.lines[curve.name if self.shared else row.model_name]

    def measured(self, curve: SeriesCurve) -> Pen:
        return self.lines[curve.name] if self.shared else Pen(INK, "-", "o")


def _styles(panels: Sequence[SizePanel]) -> _Styles:
    """The looks of all panels of a chart, which have one legend."""
    curves: list[SeriesCurve] = []
    for panel in panels:
        curves += panel.curves
    shared = len(curves) > len(panels)
    lines: dict[str, Pen] = {}
    shapes: dict[str, str] = {}
    # Pens are taken in the order of ranks, so that neighbours in the legend are neighbours in size.
    for curve in sorted(curves, key=attrgetter("series.ranks")):
        if shared:
            lines.setdefault(curve.name, pen_of(len(lines)))
        for point in curve.points:
            if point.row and not shared:
                lines.setdefault(point.row.model_name, pen_of(len(lines)))
            if point.left_out and point.left_out not in shapes:
                shapes[point.left_out] = _SHAPES[min(len(shapes), len(_SHAPES) - 1)]
    return _Styles(shared, lines, shapes)


class _SizeChart(NamedTuple):
    """What the panels of a chart share: their rows of ``columns`` panels, and their looks."""

    panels: Sequence[SizePanel]
    columns: int
    quantity: Quantity
    styles: _Styles

    def draw(self, at: int, main: Axes, inches: float) -> None:
        """Draw the values of a panel over sizes, and below them in a quarter of the height the
        errors of the model."""
        panel = self.panels[at]
        strip = _strip_below(main)
        points = panel.points
        _scale_sizes(main, strip, [point.bytes for point in points])
        _scale_values(main, points, self.quantity)
        limit = _error_scale(strip, [point.fitted.error for point in points if point.fitted])
        for curve in panel.curves:
            _draw_model(main, curve, self.styles, self.quantity)
            _draw_measured(main, curve, self.styles)
            _draw_errors(strip, curve, self.styles, limit)
        _write_titles(main, panel, inches)
        # Only the panels on the left, and those with none below them, name their axes.
        if at % self.columns == 0:
            main.set_ylabel(self.quantity)
            strip.set_ylabel("time error")
        if at + self.columns >= len(self.panels):
            strip.set_xlabel("message size")
        if at == 0:
            _explain(main, self.panels, self.styles)


def _strip_below(main: Axes) -> Axes:
    """Divide a panel's place in the figure; both parts share the axis of sizes."""
    place = main.get_subplotspec()
    # A panel is always a cell of the figure's grid.
    assert place is not None
    halves = place.subgridspec(2, 1, height_ratios=(3, 1), hspace=0)
    main.set_subplotspec(halves[0])
    return main.figure.add_subplot(halves[1], sharex=main)


def _write_titles(main: Axes, panel: SizePanel, inches: float) -> None:
    room = letters(inches) - 12  # without the labels of the axis
    title = shorten(panel.title, room, placeholder=" ...")
    main.set_title(f"{title}\n", loc="left", fontweight="bold")
    text = shorten(panel.subtitle, int(1.1 * room), placeholder=" ...")
    main.annotate(text, (0, 1), (0, 5), "axes fraction", "offset points", color=SOFT)


def _scale_values(main: Axes, points: Sequence[PlotPoint], quantity: Quantity) -> None:
    """Set the y axis: busbw from 0, times on a log axis with some room at both ends."""
    values = []
    for point in points:
        # NaN, where there is no model, is no value either
        values += [value for value in (point.low, point.high, point.model) if value > 0]
    if quantity == "busbw":
        # so that a point at 0 is drawn whole
        main.set_ylim(-0.03 * max(values), 1.08 * max(values))
        main.yaxis.set_major_formatter(lambda rate, _: format_rate(rate))
        return
    low = min(values) / 1.5
    high = max(values) * 1.5
    ticks = decade_ticks(low, high, _TIME_DIGITS)
    main.set(yscale="log", ylim=(low, high))
    main.set_yticks(ticks, list(map(format_time, ticks)))
    main.minorticks_off()


def _explain(main: Axes, panels: Sequence[SizePanel], pens: _Styles) -> None:
    """Add the legend entries: labelled plots without any point."""

    def entry(label: str, **look: Any) -> None:
        main.plot([], [], color=look.pop("color", INK), label=label, **look)

    entry("measured (median)", marker="o", linestyle="", markersize=3.5)
    points = chain.from_iterable(panel.points for panel in panels)
    if any(point.high > point.low for point in points):
        entry("fastest to slowest repeat", marker="|", linestyle="", markersize=8)
    for name, pen in pens.lines.items():
        look: dict[str, Any] = {"color": pen.colour, "linestyle": pen.dash, "markersize": 3.5}
        if pens.shared:
            entry(name, marker=pen.mark, **look)
        else:
            entry(f"model: {name}", marker="", **look)
    if pens.shared:
        entry("model", linewidth=1)
    reasons: dict[str, str] = {}
    for reason, shape in pens.shapes.items():
        reasons[shape] = "for other reasons" if shape in reasons else reason
    for shape, reason in reasons.items():
        entry(f"left out: {reason}", marker=shape, linestyle="", **_HOLLOW)


def _runs(
    curve: SeriesCurve, pens: _Styles, quantity: Quantity
) -> Iterator[tuple[Pen, list[tuple[float, float]]]]:
    """The model's line in pieces of one pen, which meet half-way between two points."""
    pen = Pen("", "", "")
    run: list[tuple[float, float]] = []
    for point in curve.points:
        if point.row is None:
            continue
        next_pen = pens.modelled(curve, point.row)
        if run and next_pen != pen:
            size, value = run[-1]
            middle = sqrt(value * point.model)
            if quantity == "busbw":  # whose axis is not logarithmic
                middle = (value + point.model) / 2
            border = (sqrt(size * point.bytes), middle)
            yield pen, [*run, border]
            run = [border]
        pen = next_pen
        run.append((point.bytes, point.model))
    if run:
        yield pen, run


def _draw_model(main: Axes, curve: SeriesCurve, pens: _Styles, quantity: Quantity) -> None:
    width = 1.0 if pens.shared else 1.6
    for pen, run in _runs(curve, pens, quantity):
        sizes, values = zip(*run, strict=True)
        main.plot(sizes, values, color=pen.colour, linestyle=pen.dash, linewidth=width, zorder=2)


def _draw_measured(main: Axes, curve: SeriesCurve, pens: _Styles) -> None:
    """Draw the points, hollow where the fit leaves them out, and a line from the fastest to the
    slowest repeat of each."""
    colour, _, dot = pens.measured(curve)
    sizes: list[float] = []
    values: list[float] = []
    repeated: list[float] = []
    lows: list[float] = []
    highs: list[float] = []
    for point in curve.points:
        if point.left_out:
            shape = pens.shapes[point.left_out]
            main.plot([point.bytes], [point.measured], shape, color=colour, zorder=4, **_HOLLOW)
        else:
            sizes.append(point.bytes)
            values.append(point.measured)
        if point.high > point.low:
            repeated.append(point.bytes)
            lows.append(point.low)
            highs.append(point.high)
    main.vlines(repeated, lows, highs, colour, linewidth=1, zorder=3)
    main.plot(sizes, values, dot, color=colour, markersize=3.5, zorder=3)


def _draw_errors(strip: Axes, curve: SeriesCurve, pens: _Styles, limit: float) -> None:
    """Draw the model's error at each point, in percent; ``limit`` is the end of the axis."""
    for point in curve.points:
        if point.row is None:
            continue
        error = 100 * point.row.error
        colour, _, dot = pens.modelled(curve, point.row)
        look: dict[str, Any] = {"marker": dot if pens.shared else "o", "markersize": 3, "zorder": 3}
        if abs(error) > limit:
            # an arrow at the edge towards where the point would be
            look = {"markersize": 5, "zorder": 4, "label": "error off the scale"}
            look["marker"] = "^" if error > 0 else "v"
            error = copysign(0.86 * limit, error)
        elif point.left_out:
            look = {"marker": pens.shapes[point.left_out], "zorder": 4, **_HOLLOW}
        strip.plot([point.bytes], [error], color=colour, linestyle="", **look)


def _error_scale(strip: Axes, errors: Sequence[float]) -> float:
    """Set the axis of errors, which are shares; return its end in percent."""
    worst = 100 * max(map(abs, errors), default=0.0)
    limit = next((scale for scale in _SCALES_PERCENT if scale >= worst * 1.1), _SCALES_PERCENT[-1])
    tick = 15 if limit <= 30 else limit // 2
    strip.set_ylim(-limit, limit)
    strip.set_yticks([-tick, 0, tick], [f"-{tick}%", "0%", f"+{tick}%"])
    strip.grid(visible=False, axis="y")
    strip.axhline(0, color=LINE, linewidth=0.8, zorder=1)
    for band, ink in _BANDS_PERCENT.items():
        label = f"error within {band}%"
        strip.axhspan(-band, band, color=INK, alpha=ink, linewidth=0, zorder=0, label=label)
    return limit


def _scale_sizes(main: Axes, strip: Axes, sizes: Sequence[float]) -> None:
    """Set the axis of bytes that the panel and its strip share; the labels are below the strip."""
    low = min(sizes) / 1.6
    high = max(sizes) * 1.6
    main.set_xscale("log", base=2)  # the strip shares it
    main.set_xlim(low, high)
    ticks = first_of_three(_powers_of_two(low, high, step) for step in (10, 5, 2, 1))
    strip.set_xticks(ticks, list(map(binary_size, ticks)))
    strip.minorticks_off()
    main.tick_params(axis="x", labelbottom=False, length=0)


def _powers_of_two(low: float, high: float, step: int) -> list[int]:
    """Every ``step``-th power within the ends of an axis."""
    powers = [2**power for power in range(0, 61, step)]
    return [power for power in powers if low <= power <= high]
