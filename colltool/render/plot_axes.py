"""Drawing one panel on axes that it is given: measured points, model lines, and the strip of errors below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10, sqrt
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.formatting import binary_size, format_rate, format_time
from colltool.render.plot_panels import Curve, Panel, Row, What, every
from colltool.render.plot_style import DASHES, INK, LINE, MARKS, PAPER, PENS, Dash, first_of_three

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHAPES = ("X", "s", "D", "P", "p")  # of points left out, by reason
_OTHER_SHAPE = "h"
_BANDS_PERCENT = {15: 0.06, 5: 0.08}  # how much ink: the inner band lies on the outer one
_SCALES_PERCENT = (20, 30, 50, 100, 200, 500, 1000)
_TIME_DIGITS = ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))


class Pen(NamedTuple):
    """How the lines and the dots of one name look."""

    colour: str
    dash: Dash
    dot: str


class Pens(NamedTuple):
    """How one figure draws: a pen a law, or a pen a curve where curves share panels; a shape a reason to leave out."""

    shared: bool
    pens: dict[str, Pen]
    shapes: dict[str, str]

    def name(self, curve: Curve, row: Row) -> str:
        """What the colour of a model line stands for."""
        return curve.name if self.shared else row.law

    def measured(self, curve: Curve) -> Pen:
        """The pen of the measured points of a curve."""
        return self.pens[curve.name] if self.shared else Pen(INK, "-", "o")


def pens_for(panels: Sequence[Panel]) -> Pens:
    """Pens that mean the same in every panel."""
    curves = sorted((curve for panel in panels for curve in panel.curves), key=lambda curve: curve.ranks)
    shared = len(curves) > len(panels)
    laws = every(spot.row.law for curve in curves for spot in curve.spots if spot.row)
    names = every(curve.name for curve in curves) if shared else laws
    reasons = every(spot.left_out for curve in curves for spot in curve.spots)
    shapes = dict.fromkeys(reasons, _OTHER_SHAPE) | dict(zip(reasons, _SHAPES, strict=False))
    return Pens(shared, {name: _pen(i) for i, name in enumerate(names)}, shapes)


def _pen(i: int) -> Pen:
    turn = i + i // len(PENS)  # names that share a colour share neither dash nor dot
    return Pen(PENS[i % len(PENS)], DASHES[turn % len(DASHES)], MARKS[turn % len(MARKS)])


def explain_pens(main: Axes, panels: Sequence[Panel], pens: Pens) -> None:
    """Label each pen for the legend: on the axes, without a single point."""
    main.plot([], [], "o", color=INK, markersize=3.5, label="measured (median)")
    if any(spot.high > spot.low for panel in panels for curve in panel.curves for spot in curve.spots):
        main.plot([], [], "|", color=INK, markersize=8, label="fastest to slowest repeat")
    for name, pen in pens.pens.items():
        dot, label = (pen.dot, name) if pens.shared else ("", f"model: {name}")
        main.plot([], [], color=pen.colour, linestyle=pen.dash, marker=dot, markersize=3.5, label=label)
    if pens.shared:
        main.plot([], [], color=INK, linewidth=1, label="model")
    for shape in every(pens.shapes.values()):
        reasons = [reason for reason, other in pens.shapes.items() if other == shape]
        text = reasons[0] if len(reasons) == 1 else "for other reasons"
        main.plot([], [], shape, color=INK, markerfacecolor=PAPER, markersize=5.5, label=f"left out: {text}")


def draw_panel(main: Axes, strip: Axes, panel: Panel, pens: Pens, what: What) -> None:
    """Everything over one size axis: the view above, the errors of the model below."""
    spots = [spot for curve in panel.curves for spot in curve.spots]
    _scale_sizes(main, strip, [spot.bytes for spot in spots])
    _SCALE_VALUES[what](main, [value for spot in spots for value in (spot.low, spot.high, spot.model) if value > 0])
    limit = _error_scale(strip, [spot.row.error for spot in spots if spot.row and not spot.left_out])
    for curve in panel.curves:
        _draw_model(main, curve, pens, what)
        _draw_measured(main, curve, pens)
        _draw_errors(strip, curve, pens, limit)


def _draw_model(main: Axes, curve: Curve, pens: Pens, what: What) -> None:
    width = 1.0 if pens.shared else 1.6
    for name, run in _runs(curve, pens, what):
        sizes, values = zip(*run, strict=True)
        main.plot(sizes, values, color=pens.pens[name].colour, linestyle=pens.pens[name].dash, linewidth=width, zorder=2)


def _runs(curve: Curve, pens: Pens, what: What) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """The model line cut where its colour changes: halfway between two points, as the axes draw it."""
    name, run = "", list[tuple[float, float]]()
    for spot in curve.spots:
        if spot.row is None:
            continue
        here = (spot.bytes, spot.model)
        if run and pens.name(curve, spot.row) != name:
            middle = (_geometric_mean(run[-1][0], here[0]), _MIDDLE[what](run[-1][1], here[1]))
            yield name, [*run, middle]
            run = [middle]
        name, run = pens.name(curve, spot.row), [*run, here]
    if run:
        yield name, run


def _mean(a: float, b: float) -> float:
    return (a + b) / 2


def _geometric_mean(a: float, b: float) -> float:
    return sqrt(a * b)


_MIDDLE = {"time": _geometric_mean, "busbw": _mean}


def _draw_measured(main: Axes, curve: Curve, pens: Pens) -> None:
    colour, _, dot = pens.measured(curve)
    used = [spot for spot in curve.spots if not spot.left_out]
    spread = [spot for spot in curve.spots if spot.high > spot.low]
    main.vlines([s.bytes for s in spread], [s.low for s in spread], [s.high for s in spread], colour, linewidth=1, zorder=3)
    main.plot([s.bytes for s in used], [s.measured for s in used], dot, color=colour, markersize=3.5, zorder=3)
    for spot in curve.spots:
        if spot.left_out:
            _hollow(main, spot.bytes, spot.measured, pens.shapes[spot.left_out], colour)


def _hollow(axes: Axes, size: float, value: float, shape: str, colour: str) -> None:
    axes.plot([size], [value], shape, color=colour, markerfacecolor=PAPER, markersize=5.5, zorder=4)


def _draw_errors(strip: Axes, curve: Curve, pens: Pens, limit: float) -> None:
    """Each error in the colour of the model there; one that the strip cannot hold is an arrow at its edge."""
    for spot in curve.spots:
        if spot.row is None:
            continue
        percent = 100 * spot.row.error
        colour, _, dot = pens.pens[pens.name(curve, spot.row)]
        if abs(percent) > limit:
            edge, arrow = (0.86 * limit, "^") if percent > 0 else (-0.86 * limit, "v")
            strip.plot([spot.bytes], [edge], arrow, color=colour, markersize=5, zorder=4, label="error off the scale")
        elif spot.left_out:
            _hollow(strip, spot.bytes, percent, pens.shapes[spot.left_out], colour)
        else:
            strip.plot([spot.bytes], [percent], dot if pens.shared else "o", color=colour, markersize=3, zorder=3)


def _error_scale(strip: Axes, errors: Sequence[float]) -> float:
    """A symmetric scale in percent that holds the errors of the points used, and the bands that people ask about."""
    worst = 100 * max(map(abs, errors), default=0.0)
    limit = next((scale for scale in _SCALES_PERCENT if scale >= worst * 1.1), _SCALES_PERCENT[-1])
    tick = 15 if limit <= 30 else limit // 2
    strip.set_ylim(-limit, limit)
    strip.set_yticks([-tick, 0, tick], [f"-{tick}%", "0%", f"+{tick}%"])
    strip.grid(visible=False, axis="y")
    strip.axhline(0, color=LINE, linewidth=0.8, zorder=1)
    for percent, ink in _BANDS_PERCENT.items():
        strip.axhspan(-percent, percent, color=INK, alpha=ink, linewidth=0, zorder=0, label=f"error within {percent}%")
    return limit


def _scale_sizes(main: Axes, strip: Axes, sizes: Sequence[float]) -> None:
    """Powers of two, labelled every 2^10 where at least three such labels fit, else closer."""
    low, high = min(sizes) / 1.6, max(sizes) * 1.6
    main.set_xscale("log", base=2)  # the strip shares it
    main.set_xlim(low, high)
    steps = ([2**power for power in range(0, 61, step) if low <= 2**power <= high] for step in (10, 5, 2, 1))
    ticks = first_of_three(steps)
    strip.set_xticks(ticks, [binary_size(tick) for tick in ticks])
    strip.minorticks_off()
    main.tick_params(axis="x", labelbottom=False, length=0)


def _scale_times(main: Axes, values: Sequence[float]) -> None:
    low, high = min(values) / 1.5, max(values) * 1.5
    decades = range(floor(log10(low)), ceil(log10(high)))
    steps = ([digit * 10.0**decade for decade in decades for digit in digits] for digits in _TIME_DIGITS)
    ticks = first_of_three([tick for tick in step if low <= tick <= high] for step in steps)
    main.set_yscale("log")
    main.set_ylim(low, high)
    main.set_yticks(ticks, [format_time(tick) for tick in ticks])
    main.minorticks_off()


def _scale_rates(main: Axes, values: Sequence[float]) -> None:
    top = max(values)
    main.set_ylim(-0.03 * top, 1.08 * top)  # a point at the bottom is drawn whole
    main.yaxis.set_major_formatter(lambda rate, _: format_rate(rate))


_SCALE_VALUES = {"time": _scale_times, "busbw": _scale_rates}
