"""Draws panels of measured and modelled time or busbw over message size, each with a strip of the
model's errors below it: :func:`drawn_panels`.

Lines are the model, points what was measured. In a panel with one series the lines are coloured by
the model's algorithm; in one with several by series. All panels of a chart have one legend.

A ``PlotPoint`` has a size, and ``measured``, ``low``, ``high`` (the repeats) and ``model`` in the quantity that
is drawn; ``model`` is NaN and ``modelled`` None where the model has no value. ``left_out`` says why the fit does
not use it; empty where it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import copysign, sqrt
from operator import attrgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.formatting import binary_size, format_rate, format_time
from colltool.extras.pictures.plot.curves import (
    Modelled,
    PlotPoint,
    Quantity,
    SeriesCurve,
    SizePanel,
)
from colltool.extras.pictures.plot.look import INK, LINE, PAPER, SOFT, Pen, letters_that_fit, pen_of
from colltool.extras.pictures.plot.panels import Panel
from colltool.extras.pictures.plot.ticks import decade_ticks, first_of_three

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL_INCHES = 3.7  # height with the strip of errors
_OFF_SCALE_AT = 0.86  # of half the axis of errors: where arrows for those beyond it stand
_SHAPES = ("X", "s", "D", "P", "p", "h")
"""matplotlib's marks for points that the fit leaves out, one per reason; the last for all others."""
_HOLLOW: dict[str, Any] = {"markerfacecolor": PAPER, "markersize": 5.5}
"""The look of a mark without filling: a point that is left out."""
_MARK_SIZE = 3.5  # points: of a measured value
_BANDS_PERCENT = {15: 0.06, 5: 0.08}
"""Bands behind the errors: percent up and down, and their opacity. Both lie on top of each other."""
_SCALES_PERCENT = (20, 30, 50, 100, 200, 500, 1000)
"""Percent where the axis of errors may end: at the first that the worst one fits into."""
_TIME_DIGITS = ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))
"""Digits of the ticks in each decade of time, few to many, see :func:`.ticks.decade_ticks`."""


def drawn_panels(panels: Sequence[SizePanel], columns: int, quantity: Quantity) -> list[Panel]:
    """The panels of a chart that has ``columns`` of them in a row; ``panels`` are one at least."""
    chart = _SizeChart(panels, columns, quantity, _styles(panels))
    return [Panel(partial(chart.draw, index), _PANEL_INCHES) for index in range(len(panels))]


class _Styles(NamedTuple):
    """The looks of lines and points, the same in all panels of a chart."""

    is_shared: bool  # whether some panel has several series, which then have a pen each
    pens: dict[str, Pen]  # by name of the series where shared, else by name of the model
    shapes: dict[str, str]  # matplotlib's marks, by the reason why a point is left out

    def pen_of_model(self, curve: SeriesCurve, modelled: Modelled) -> Pen:
        """The pen of the model's line and errors at a point."""
        return self.pens[curve.name if self.is_shared else modelled.model_name]

    def pen_of_points(self, curve: SeriesCurve) -> Pen:
        """The pen of measured points: of their series, or ink where a panel has a single series."""
        return self.pens[curve.name] if self.is_shared else Pen(INK, "-", "o")


def _styles(panels: Sequence[SizePanel]) -> _Styles:
    """The looks of all series and models of a chart."""
    curves: list[SeriesCurve] = []
    for panel in panels:
        curves += panel.curves
    is_shared = len(curves) > len(panels)
    pens: dict[str, Pen] = {}
    shapes: dict[str, str] = {}
    # Pens are taken in the order of ranks, so that neighbours in the legend are neighbours in size.
    for curve in sorted(curves, key=attrgetter("series.ranks")):
        if is_shared:
            pens.setdefault(curve.name, pen_of(len(pens)))
        for point in curve.points:
            if point.modelled and not is_shared:
                pens.setdefault(point.modelled.model_name, pen_of(len(pens)))
            if point.left_out and point.left_out not in shapes:
                shapes[point.left_out] = _SHAPES[min(len(shapes), len(_SHAPES) - 1)]
    return _Styles(is_shared, pens, shapes)


class _SizeChart(NamedTuple):
    """What the panels of a chart share: the grid that they stand in, and their looks."""

    panels: Sequence[SizePanel]
    columns: int
    quantity: Quantity
    styles: _Styles

    def draw(self, index: int, main: Axes, inches: float) -> None:
        """Draw the values of a panel over sizes, and below them in a quarter of the height the
        errors of the model. Panels are counted row by row."""
        panel = self.panels[index]
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
        if index % self.columns == 0:
            main.set_ylabel(self.quantity)
            strip.set_ylabel("time error")
        if index + self.columns >= len(self.panels):
            strip.set_xlabel("message size")
        # the legend takes the labels of all panels: each entry stands in the first
        if index == 0:
            _add_legend_entries(main, self.panels, self.styles)


def _strip_below(main: Axes) -> Axes:
    """Divide a panel's place in the figure; both parts share the axis of sizes."""
    place = main.get_subplotspec()
    # A panel is always a cell of the figure's grid.
    assert place is not None
    halves = place.subgridspec(2, 1, height_ratios=(3, 1), hspace=0)
    main.set_subplotspec(halves[0])
    return main.figure.add_subplot(halves[1], sharex=main)


def _write_titles(main: Axes, panel: SizePanel, inches: float) -> None:
    """Write the title in bold, and below it the subtitle, each cut to a line."""
    most_letters = letters_that_fit(inches) - 12  # without the labels of the axis
    title = shorten(panel.title, most_letters, placeholder=" ...")
    main.set_title(f"{title}\n", loc="left", fontweight="bold")
    # letters that are not bold are a tenth narrower
    text = shorten(panel.subtitle, int(1.1 * most_letters), placeholder=" ...")
    main.annotate(text, (0, 1), (0, 5), "axes fraction", "offset points", color=SOFT)


def _scale_values(main: Axes, points: Sequence[PlotPoint], quantity: Quantity) -> None:
    """Set the y axis: busbw from 0, times on a log axis with some room at both ends."""
    values = []
    for point in points:
        # a model that is NaN, where there is none, is not above 0 either
        values += [value for value in (point.low, point.high, point.model) if value > 0]
    if quantity == "busbw":
        # a little below 0, so that a point at 0 is drawn whole
        main.set_ylim(-0.03 * max(values), 1.08 * max(values))
        main.yaxis.set_major_formatter(lambda rate, _: format_rate(rate))
        return
    low = min(values) / 1.5
    high = max(values) * 1.5
    ticks = decade_ticks(low, high, _TIME_DIGITS)
    main.set(yscale="log", ylim=(low, high))
    main.set_yticks(ticks, list(map(format_time, ticks)))
    main.minorticks_off()


def _add_legend_entries(main: Axes, panels: Sequence[SizePanel], styles: _Styles) -> None:
    """Add what the legend explains, as labelled plots without any point."""
    add_entry = partial(main.plot, [], [])
    dots: dict[str, Any] = {"color": INK, "linestyle": ""}
    add_entry(label="measured (median)", marker="o", markersize=_MARK_SIZE, **dots)
    points = chain.from_iterable(panel.points for panel in panels)
    if any(point.high > point.low for point in points):
        add_entry(label="fastest to slowest repeat", marker="|", markersize=8, **dots)
    for name, pen in styles.pens.items():
        line: dict[str, Any] = {
            "color": pen.colour,
            "linestyle": pen.dash,
            "markersize": _MARK_SIZE,
        }
        if styles.is_shared:
            add_entry(label=name, marker=pen.mark, **line)
        else:
            add_entry(label=f"model: {name}", marker="", **line)
    if styles.is_shared:
        add_entry(label="model", color=INK, linewidth=1)
    # the last shape may stand for several reasons
    reasons: dict[str, str] = {}
    for reason, shape in styles.shapes.items():
        reasons[shape] = "for other reasons" if shape in reasons else reason
    for shape, reason in reasons.items():
        add_entry(label=f"left out: {reason}", marker=shape, **dots, **_HOLLOW)


def _runs(
    curve: SeriesCurve, styles: _Styles, quantity: Quantity
) -> Iterator[tuple[Pen, list[tuple[float, float]]]]:
    """The model's line in pieces of one pen, which meet half-way between two points.

    Ring up to 1 MB, 10 us, and tree at 4 MB, 40 us: two pieces, which meet at 2 MB and 20 us, half-way
    on logarithmic axes.
    """
    pen = Pen("", "", "")  # of no run yet
    run: list[tuple[float, float]] = []
    for point in curve.points:
        if point.modelled is None:
            continue
        next_pen = styles.pen_of_model(curve, point.modelled)
        if run and next_pen != pen:
            size, value = run[-1]
            middle = sqrt(value * point.model)
            # the axis of busbw is not logarithmic
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
    """Draw the model of a series as a line, in the pens of the algorithms that it goes through."""
    width = 1.0 if styles.is_shared else 1.6
    for pen, run in _runs(curve, styles, quantity):
        sizes, values = zip(*run, strict=True)
        main.plot(sizes, values, color=pen.colour, linestyle=pen.dash, linewidth=width, zorder=2)


def _draw_measured(main: Axes, curve: SeriesCurve, styles: _Styles) -> None:
    """Draw the points, hollow where the fit leaves them out, and a vertical line from the fastest to the
    slowest repeat of each."""
    colour, _, mark = styles.pen_of_points(curve)
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
    main.plot(sizes, values, mark, color=colour, markersize=_MARK_SIZE, zorder=3)


def _draw_errors(strip: Axes, curve: SeriesCurve, styles: _Styles, limit: float) -> None:
    """Draw the model's error at each point, in percent; ``limit`` is the end of the axis."""
    for point in curve.points:
        if point.modelled is None:
            continue
        error = 100 * point.modelled.error
        colour, _, mark = styles.pen_of_model(curve, point.modelled)
        # of a point within the axis that the fit uses
        look: dict[str, Any] = {
            "marker": mark if styles.is_shared else "o",
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
    """Set the axis of errors, which are given as shares; return its end in percent.

    A worst error of 0.25 ends it at 30%, with ticks at 15% up and down; one of 0.4 at 50% with 25%.
    """
    worst = 100 * max(map(abs, errors), default=0.0)
    limit = next((scale for scale in _SCALES_PERCENT if scale >= worst * 1.1), _SCALES_PERCENT[-1])
    # at the edge of the wider band, where the axis ends no farther than at twice that
    tick = 15 if limit <= 30 else limit // 2
    strip.set_ylim(-limit, limit)
    strip.set_yticks([-tick, 0, tick], [f"-{tick}%", "0%", f"+{tick}%"])
    strip.grid(visible=False, axis="y")
    strip.axhline(0, color=LINE, linewidth=0.8, zorder=1)
    for band, opacity in _BANDS_PERCENT.items():
        label = f"error within {band}%"
        strip.axhspan(-band, band, color=INK, alpha=opacity, linewidth=0, zorder=0, label=label)
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
    """Every ``step``-th power of two within the ends of an axis: with 10 these are 1 KiB, 1 MiB, ..."""
    # no message has 2**61 bytes
    sizes = [2**exponent for exponent in range(0, 61, step)]
    return [size for size in sizes if low <= size <= high]
