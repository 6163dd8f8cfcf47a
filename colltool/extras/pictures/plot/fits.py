"""Charts of measured and modelled time or busbw over size, a panel per series or per collective,
each with a strip of the model's errors below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import copysign, sqrt
from operator import attrgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import binary_size, format_rate, format_time, percent, whole_percent
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.results import Diagnosis, SeriesHealth, Validation
from colltool.extras.pictures.plot.curves import (
    MAX_PANELS,
    Modelled,
    PlotPoint,
    Quantity,
    SeriesCurve,
    SizePanel,
    calibration_panels,
    judged_panels,
)
from colltool.extras.pictures.plot.fleet import fleet_chart
from colltool.extras.pictures.plot.look import INK, LINE, PAPER, SOFT, Pen, letters, pen_of
from colltool.extras.pictures.plot.panels import Chart, Panel
from colltool.extras.pictures.plot.ticks import decade_ticks, first_of_three
from colltool.render.dispatch import on_fabric
from colltool.render.views.doctor_answer import diagnosed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL_INCHES = 3.7  # height with the strip of errors
_OFF_SCALE_AT = 0.86  # of the axis of errors: where arrows for those beyond it stand
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
"""Digits of the ticks in each decade of time, few to many, see :func:`.ticks.decade_ticks`."""


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
    drawn = [Panel(partial(drawing.draw, at), _PANEL_INCHES) for at in range(len(panels))]
    texts = "; ".join(f"{panel.title}: {panel.subtitle}" for panel in panels)
    return Chart(title, f"{title}. {quantity} over message size: {texts}", drawn, columns=columns)


class _Styles(NamedTuple):
    """Lines are coloured by series where a panel has several (``shared``), else by the model's
    name. A point that is left out has a mark by the reason."""

    shared: bool
    lines: dict[str, Pen]
    shapes: dict[str, str]

    def pen_of_model(self, curve: SeriesCurve, modelled: Modelled) -> Pen:
        return self.lines[curve.name if self.shared else modelled.model_name]

    def pen_of_points(self, curve: SeriesCurve) -> Pen:
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
            if point.modelled and not shared:
                lines.setdefault(point.modelled.model_name, pen_of(len(lines)))
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


def _explain(main: Axes, panels: Sequence[SizePanel], styles: _Styles) -> None:
    """Add the legend entries: labelled plots without any point."""

    def entry(label: str, **look: Any) -> None:
        main.plot([], [], color=look.pop("color", INK), label=label, **look)

    entry("measured (median)", marker="o", linestyle="", markersize=3.5)
    points = chain.from_iterable(panel.points for panel in panels)
    if any(point.high > point.low for point in points):
        entry("fastest to slowest repeat", marker="|", linestyle="", markersize=8)
    for name, pen in styles.lines.items():
        look: dict[str, Any] = {"color": pen.colour, "linestyle": pen.dash, "markersize": 3.5}
        if styles.shared:
            entry(name, marker=pen.mark, **look)
        else:
            entry(f"model: {name}", marker="", **look)
    if styles.shared:
        entry("model", linewidth=1)
    reasons: dict[str, str] = {}
    for reason, shape in styles.shapes.items():
        reasons[shape] = "for other reasons" if shape in reasons else reason
    for shape, reason in reasons.items():
        entry(f"left out: {reason}", marker=shape, linestyle="", **_HOLLOW)


def _runs(
    curve: SeriesCurve, styles: _Styles, quantity: Quantity
) -> Iterator[tuple[Pen, list[tuple[float, float]]]]:
    """The model's line in pieces of one pen, which meet half-way between two points.

    Ring up to 1 MB, 10 us, and tree at 4 MB, 40 us: two pieces, which meet at 2 MB and 20 us, half-way
    on logarithmic axes.
    """
    pen = Pen("", "", "")
    run: list[tuple[float, float]] = []
    for point in curve.points:
        if point.modelled is None:
            continue
        next_pen = styles.pen_of_model(curve, point.modelled)
        if run and next_pen != pen:
            size, value = run[-1]
            middle = sqrt(value * point.model)
            # its axis is not logarithmic
            if quantity == "busbw":
                middle = (value + point.model) / 2
            border = (sqrt(size * point.bytes), middle)
            yield pen, [*run, border]
            run = [border]
        pen = next_pen
        run.append((point.bytes, point.model))
    if run:
        yield pen, run


def _draw_model(main: Axes, curve: SeriesCurve, styles: _Styles, quantity: Quantity) -> None:
    width = 1.0 if styles.shared else 1.6
    for pen, run in _runs(curve, styles, quantity):
        sizes, values = zip(*run, strict=True)
        main.plot(sizes, values, color=pen.colour, linestyle=pen.dash, linewidth=width, zorder=2)


def _draw_measured(main: Axes, curve: SeriesCurve, styles: _Styles) -> None:
    """Draw the points, hollow where the fit leaves them out, and a line from the fastest to the
    slowest repeat of each."""
    colour, _, dot = styles.pen_of_points(curve)
    sizes: list[float] = []
    values: list[float] = []
    repeated: list[float] = []
    lows: list[float] = []
    highs: list[float] = []
    for point in curve.points:
        if point.left_out:
            shape = styles.shapes[point.left_out]
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


def _draw_errors(strip: Axes, curve: SeriesCurve, styles: _Styles, limit: float) -> None:
    """Draw the model's error at each point, in percent; ``limit`` is the end of the axis."""
    for point in curve.points:
        if point.modelled is None:
            continue
        error = 100 * point.modelled.error
        colour, _, dot = styles.pen_of_model(curve, point.modelled)
        look: dict[str, Any] = {
            "marker": dot if styles.shared else "o",
            "markersize": 3,
            "zorder": 3,
        }
        if abs(error) > limit:
            # an arrow at the edge towards where the point would be
            look = {"markersize": 5, "zorder": 4, "label": "error off the scale"}
            look["marker"] = "^" if error > 0 else "v"
            error = copysign(_OFF_SCALE_AT * limit, error)
        elif point.left_out:
            look = {"marker": styles.shapes[point.left_out], "zorder": 4, **_HOLLOW}
        strip.plot([point.bytes], [error], color=colour, linestyle="", **look)


def _error_scale(strip: Axes, errors: Sequence[float]) -> float:
    """Set the axis of errors, which are shares; return its end in percent.

    A worst error of 0.25 ends it at 30%, with ticks at 15% up and down; one of 0.4 at 50 with 25.
    """
    worst = 100 * max(map(abs, errors), default=0.0)
    limit = next((scale for scale in _SCALES_PERCENT if scale >= worst * 1.1), _SCALES_PERCENT[-1])
    # at the edge of the wider band, as long as that is not too near zero
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
