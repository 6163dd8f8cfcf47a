"""Charts of measured and modelled time or busbw over size, a panel per series or per collective,
each with a strip of the model's errors below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import nan, sqrt
from textwrap import shorten
from typing import TYPE_CHECKING, Literal, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import binary_size, format_rate, format_time, percent, whole_percent
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.results import Diagnosis, ValidatedSeries, Validation
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
from colltool.measurements.series import Point, Series
from colltool.render.dispatch import on_fabric
from colltool.render.views.doctor import verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

What = Literal["time", "busbw"]

MAX_PANELS = 12  # in a file; a page has room for fewer
MAX_CURVES = 8  # in the panel of a collective; more only where there would be too many panels
_COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 3, 8: 4, 9: 3}
_SHAPES = ("X", "s", "D", "P", "p")  # of points left out, one per reason; "h" for further ones
_BANDS_PERCENT = {15: 0.06, 5: 0.08}  # opacity of the error bands, the inner one on top
_SCALES_PERCENT = (20, 30, 50, 100, 200, 500, 1000)
_TIME_DIGITS = ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))


class Modelled(NamedTuple):
    """The model's time for a point; ``error`` is modelled/measured time - 1, ``law`` its algorithm
    and protocol."""

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
    """``name`` tells a series from the others of its collective, ``law`` names the algorithms of
    its model."""

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


def calibration_panels(
    result: Calibration, what: What, most: int = MAX_PANELS
) -> tuple[SizePanel, ...]:
    curves = []
    for one, extra in zip(
        result.series, _extras([one.series for one in result.series]), strict=True
    ):
        rows = {
            row.bytes: Modelled(row.fitted_s, row.relative_error, _law(row.algorithm, row.protocol))
            for row in one.residuals
        }
        reasons = {row.bytes: "no reason given" for row in one.residuals if not row.used}
        reasons |= {skipped.bytes: skipped.reason for skipped in one.left_out}
        spots = tuple(_spot(one.series, point, rows, reasons, what) for point in one.series.points)
        curves.append(
            SeriesCurve(
                one.series,
                one.series.who + extra,
                " + ".join(one.algorithms),
                one.mape,
                one.worst,
                spots,
            )
        )
    return _panels(curves, most)


def judged_panels(
    judged: Sequence[ValidatedSeries], what: What, most: int = MAX_PANELS
) -> tuple[SizePanel, ...]:
    curves = []
    for one, extra in zip(judged, _extras([one.series for one in judged]), strict=True):
        rows = {
            row.bytes: Modelled(
                row.predicted_s, row.relative_error, _law(row.algorithm, row.protocol)
            )
            for row in one.points
        }
        law = ", ".join(dict.fromkeys(row.algorithm for row in one.points))
        spots = tuple(_spot(one.series, point, rows, {}, what) for point in one.series.points)
        curves.append(
            SeriesCurve(one.series, one.series.who + extra, law, one.mape, one.worst, spots)
        )
    return _panels(curves, most)


def _law(algorithm: str, protocol: str) -> str:
    return f"{algorithm}, {protocol}" if protocol else algorithm


def _spot(
    series: Series,
    point: Point,
    rows: Mapping[float, Modelled],
    reasons: Mapping[float, str],
    what: What,
) -> PlotPoint:
    def value(seconds: float) -> float:
        return seconds if what == "time" else series.busbw_Bps(point, seconds)

    row, reason = rows.get(point.bytes), reasons.get(point.bytes, "")
    low, high = sorted((value(point.low_s), value(point.high_s)))
    model, why = (value(row.seconds), reason) if row else (nan, reason or "no model at this size")
    return PlotPoint(point.bytes, value(point.seconds), low, high, row, model=model, left_out=why)


def _extras(all_series: Sequence[Series]) -> list[str]:
    """For series of one title, what tells them apart."""
    extras = []
    for series in all_series:
        twins = [_marks(other) for other in all_series if other.title == series.title]
        several = zip(_marks(series), zip(*twins, strict=True), strict=True)
        extras.append(
            "".join(f", {mark}" for mark, column in several if mark and len(set(column)) > 1)
        )
    return extras


def _marks(series: Series) -> tuple[str, ...]:
    return series.library, series.version, series.dtype, " ".join(series.files)


def _panels(curves: Sequence[SeriesCurve], most: int) -> tuple[SizePanel, ...]:
    if len(curves) <= most:
        return tuple(_size_panel((curve,)) for curve in curves)
    collectives: dict[str, tuple[SeriesCurve, ...]] = {}
    for curve in curves:
        name = curve.series.primitive.spoken
        collectives[name] = (*collectives.get(name, ()), curve)
    size = MAX_CURVES
    while sum(-(-len(group) // size) for group in collectives.values()) > max(
        most, len(collectives)
    ):
        size += 1
    return tuple(
        _size_panel(group[i : i + size])
        for group in collectives.values()
        for i in range(0, len(group), size)
    )


def _size_panel(curves: tuple[SeriesCurve, ...]) -> SizePanel:
    ranks = [curve.series.ranks for curve in curves]
    name = (
        curves[0].name
        if len(curves) == 1
        else f"{' to '.join(every((str(min(ranks)), str(max(ranks)))))} ranks"
    )
    errors = "no point has a model"
    if modelled := [
        curve for curve in curves if any(spot.row and not spot.left_out for spot in curve.spots)
    ]:
        means = [curve.mape for curve in modelled]
        worst = max((curve.worst for curve in modelled), key=abs)
        errors = (
            f"mean error {' to '.join(every(map(percent, (min(means), max(means)))))}, worst"
            f" {percent(worst, sign='+')}"
        )
    laws = ", ".join(every(curve.law for curve in curves))
    return SizePanel(f"{curves[0].series.primitive.spoken}, {name}", f"{errors}; {laws}", curves)


def every(items: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(items) if name]


def calibration_chart(result: Calibration, paged: bool, what: What) -> Chart:
    title = f"{result.fabric.name}, tier {result.tier}: measured and fitted"
    return _chart(calibration_panels(result, what, _most(paged)), title, paged, what)


def validation_chart(result: Validation, paged: bool, what: What) -> Chart:
    title = f"{result.fabric}: measured and predicted, mean error {percent(result.mape)}"
    return _chart(judged_panels(result.series, what, _most(paged)), title, paged, what)


def diagnosis_chart(result: Diagnosis, paged: bool) -> Chart:
    """Of a fleet the matrix of its pairs, else the busbw of each series."""
    if result.fleet and result.fleet.pairs:
        return fleet_chart(result.fleet)
    title = f"{on_fabric(result.assumed.fabric, result.assumed.overrides)}: {verdict(result)}"
    found = _chart(
        judged_panels([one.judged for one in result.series], "busbw", _most(paged)),
        title,
        paged,
        "busbw",
    )
    reached = []
    for one in result.series:
        kinds = (("large", one.large), ("small", one.small))
        shares = [
            f"{kind} messages {whole_percent(share)} of expected"
            for kind, share in kinds
            if share is not None
        ]
        reached.append(f"{one.judged.series.title}: {', '.join(shares) or 'not judged'}")
    return found._replace(
        alt=(
            f"Measured busbw beside what is expected, over message size: {'; '.join(reached)}."
            f" {title}."
        )
    )


def _most(paged: bool) -> int:
    return 4 if paged else MAX_PANELS


def _chart(panels: Sequence[SizePanel], title: str, paged: bool, what: What) -> Chart:
    if not panels:
        raise ColltoolError(
            "there is no series to plot", argument="plot", fix="give logs with at least one row"
        )
    columns = 1 if paged else _COLUMNS.get(len(panels), 4)
    styles = _styles(panels)
    drawn = tuple(
        Panel(partial(_panel, panel, panels, styles, what, (at, columns)), 3.7)
        for at, panel in enumerate(panels)
    )
    alt = f"{title}. {what} over message size: " + "; ".join(
        f"{panel.title}: {panel.subtitle}" for panel in panels
    )
    return Chart(title, alt, drawn, columns=columns)


class _Styles(NamedTuple):
    """Lines by series where panels share several (``shared``), else by the law of the model; marks
    of what is left out."""

    shared: bool
    lines: dict[str, Pen]
    shapes: dict[str, str]

    def modelled(self, curve: SeriesCurve, row: Modelled) -> Pen:
        return self.lines[curve.name if self.shared else row.law]

    def measured(self, curve: SeriesCurve) -> Pen:
        return self.lines[curve.name] if self.shared else Pen(INK, "-", "o")


def _styles(panels: Sequence[SizePanel]) -> _Styles:
    curves = sorted(
        (curve for panel in panels for curve in panel.curves), key=lambda curve: curve.series.ranks
    )
    shared = len(curves) > len(panels)
    laws = every(spot.row.law for curve in curves for spot in curve.spots if spot.row)
    names = every(curve.name for curve in curves) if shared else laws
    reasons = every(spot.left_out for curve in curves for spot in curve.spots)
    shapes = dict.fromkeys(reasons, "h") | dict(zip(reasons, _SHAPES, strict=False))
    return _Styles(shared, {name: pen_of(i) for i, name in enumerate(names)}, shapes)


def _panel(
    panel: SizePanel,
    panels: Sequence[SizePanel],
    pens: _Styles,
    what: What,
    place: tuple[int, int],
    main: Axes,
    inches: float,
) -> None:
    at, columns = place
    spec = main.get_subplotspec()
    assert spec is not None
    halves = spec.subgridspec(2, 1, height_ratios=(3, 1), hspace=0)
    main.set_subplotspec(halves[0])
    strip = main.figure.add_subplot(halves[1], sharex=main)
    spots = [spot for curve in panel.curves for spot in curve.spots]
    _scale_sizes(main, strip, [spot.bytes for spot in spots])
    values = [value for spot in spots for value in (spot.low, spot.high, spot.model) if value > 0]
    if what == "time":
        low, high = min(values) / 1.5, max(values) * 1.5
        ticks = decade_ticks(low, high, _TIME_DIGITS)
        main.set(yscale="log", ylim=(low, high))
        main.set_yticks(ticks, [format_time(tick) for tick in ticks])
        main.minorticks_off()
    else:
        # so that a point at 0 is drawn whole
        main.set_ylim(-0.03 * max(values), 1.08 * max(values))
        main.yaxis.set_major_formatter(lambda rate, _: format_rate(rate))
    limit = _error_scale(
        strip, [spot.row.error for spot in spots if spot.row and not spot.left_out]
    )
    for curve in panel.curves:
        for pen, run in _runs(curve, pens, what):
            width = 1.0 if pens.shared else 1.6
            main.plot(
                *zip(*run, strict=True),
                color=pen.colour,
                linestyle=pen.dash,
                linewidth=width,
                zorder=2,
            )
        _draw_measured(main, curve, pens)
        _draw_errors(strip, curve, pens, limit)
    room = letters(inches) - 12
    main.set_title(
        f"{shorten(panel.title, room, placeholder=' ...')}\n", loc="left", fontweight="bold"
    )
    text = shorten(panel.subtitle, int(1.1 * room), placeholder=" ...")
    main.annotate(text, (0, 1), (0, 5), "axes fraction", "offset points", color=SOFT)
    main.set_ylabel("" if at % columns else what)
    strip.set_ylabel("" if at % columns else "time error")
    strip.set_xlabel("message size" if at + columns >= len(panels) else "")
    if at == 0:
        _explain(main, panels, pens)


def _explain(main: Axes, panels: Sequence[SizePanel], pens: _Styles) -> None:
    # legend entries: labelled plots without any point
    main.plot([], [], "o", color=INK, markersize=3.5, label="measured (median)")
    if any(
        spot.high > spot.low for panel in panels for curve in panel.curves for spot in curve.spots
    ):
        main.plot([], [], "|", color=INK, markersize=8, label="fastest to slowest repeat")
    for name, pen in pens.lines.items():
        dot, label = (pen.mark, name) if pens.shared else ("", f"model: {name}")
        main.plot(
            [], [], color=pen.colour, linestyle=pen.dash, marker=dot, markersize=3.5, label=label
        )
    if pens.shared:
        main.plot([], [], color=INK, linewidth=1, label="model")
    for shape in every(pens.shapes.values()):
        reasons = [reason for reason, other in pens.shapes.items() if other == shape]
        text = reasons[0] if len(reasons) == 1 else "for other reasons"
        main.plot(
            [],
            [],
            shape,
            color=INK,
            markerfacecolor=PAPER,
            markersize=5.5,
            label=f"left out: {text}",
        )


def _runs(
    curve: SeriesCurve, pens: _Styles, what: What
) -> Iterator[tuple[Pen, list[tuple[float, float]]]]:
    """The model's line in pieces of one pen, which meet half-way between two points."""
    pen, run = Pen("", "", ""), list[tuple[float, float]]()
    for spot in curve.spots:
        if spot.row is None:
            continue
        here, own = (spot.bytes, spot.model), pens.modelled(curve, spot.row)
        if run and own != pen:
            (size, value), straight = run[-1], what == "busbw"
            middle = (
                sqrt(size * here[0]),
                (value + here[1]) / 2 if straight else sqrt(value * here[1]),
            )
            yield pen, [*run, middle]
            run = [middle]
        pen, run = own, [*run, here]
    if run:
        yield pen, run


def _draw_measured(main: Axes, curve: SeriesCurve, pens: _Styles) -> None:
    colour, _, dot = pens.measured(curve)
    used = [spot for spot in curve.spots if not spot.left_out]
    spread = [spot for spot in curve.spots if spot.high > spot.low]
    main.vlines(
        [s.bytes for s in spread],
        [s.low for s in spread],
        [s.high for s in spread],
        colour,
        linewidth=1,
        zorder=3,
    )
    main.plot(
        [s.bytes for s in used],
        [s.measured for s in used],
        dot,
        color=colour,
        markersize=3.5,
        zorder=3,
    )
    for spot in curve.spots:
        if spot.left_out:
            _hollow(main, spot.bytes, spot.measured, pens.shapes[spot.left_out], colour)


def _hollow(axes: Axes, size: float, value: float, shape: str, colour: str) -> None:
    axes.plot([size], [value], shape, color=colour, markerfacecolor=PAPER, markersize=5.5, zorder=4)


def _draw_errors(strip: Axes, curve: SeriesCurve, pens: _Styles, limit: float) -> None:
    for spot in curve.spots:
        if spot.row is None:
            continue
        off = 100 * spot.row.error
        colour, _, dot = pens.modelled(curve, spot.row)
        if abs(off) > limit:
            edge, arrow = (0.86 * limit, "^") if off > 0 else (-0.86 * limit, "v")
            strip.plot(
                [spot.bytes],
                [edge],
                arrow,
                color=colour,
                markersize=5,
                zorder=4,
                label="error off the scale",
            )
        elif spot.left_out:
            _hollow(strip, spot.bytes, off, pens.shapes[spot.left_out], colour)
        else:
            strip.plot(
                [spot.bytes],
                [off],
                dot if pens.shared else "o",
                color=colour,
                markersize=3,
                zorder=3,
            )


def _error_scale(strip: Axes, errors: Sequence[float]) -> float:
    worst = 100 * max(map(abs, errors), default=0.0)
    limit = next((scale for scale in _SCALES_PERCENT if scale >= worst * 1.1), _SCALES_PERCENT[-1])
    tick = 15 if limit <= 30 else limit // 2
    strip.set_ylim(-limit, limit)
    strip.set_yticks([-tick, 0, tick], [f"-{tick}%", "0%", f"+{tick}%"])
    strip.grid(visible=False, axis="y")
    strip.axhline(0, color=LINE, linewidth=0.8, zorder=1)
    for band, ink in _BANDS_PERCENT.items():
        strip.axhspan(
            -band, band, color=INK, alpha=ink, linewidth=0, zorder=0, label=f"error within {band}%"
        )
    return limit


def _scale_sizes(main: Axes, strip: Axes, sizes: Sequence[float]) -> None:
    low, high = min(sizes) / 1.6, max(sizes) * 1.6
    main.set_xscale("log", base=2)  # the strip shares it
    main.set_xlim(low, high)
    steps = (
        [2**power for power in range(0, 61, step) if low <= 2**power <= high]
        for step in (10, 5, 2, 1)
    )
    ticks = first_of_three(steps)
    strip.set_xticks(ticks, [binary_size(tick) for tick in ticks])
    strip.minorticks_off()
    main.tick_params(axis="x", labelbottom=False, length=0)
