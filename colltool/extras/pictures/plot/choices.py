"""Charts of sweeps, of fabric comparisons, and of sensitivity to uncertain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from math import nan, sqrt
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from colltool.analysis.cells import Cell
from colltool.analysis.compare import Comparison
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.sensitivity import Sensitivity, Spread
from colltool.analysis.sweep import Pivot, Sweep, pivot_tables
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, format_time, percent, size_text
from colltool.extras.pictures.plot.chart import (
    COLOURS,
    INK,
    PAGED,
    PAPER,
    Chart,
    Panel,
    apart,
    colour_of,
    in_first_column,
    letter,
    lettered_keys,
    log_scale,
    name_rows,
    pen_of,
    text_in,
    thinned,
    value_axis,
    wrapped,
)
from colltool.render.views.compare import verdict as comparison_verdict
from colltool.render.views.sensitivity import quantity, sensitivity_title
from colltool.render.views.sensitivity import verdict as sensitivity_verdict
from colltool.render.views.sweep import axis_title, axis_values, pivot_title, shown, sweep_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[["Axes", float], None]
"""Draws on axes of a width in inches."""

_MOST_BARS = 12  # of spreads and of moved numbers
_MOST_LINES = 8  # of a panel: as many pens as can be told apart
_MOST_MARKS = 12  # per line
_LETTER_WIDE = 0.17  # inches of the narrowest cell with a letter
_PANEL_HIGH = 2.9  # inches of a panel of lines
# Marks of a change, larger than those of the lines and without filling.
_HOLLOW: dict[str, Any] = {
    "marker": "o",
    "linestyle": "",
    "markerfacecolor": PAPER,
    "markersize": 7,
}


def _pivot(result: Sweep) -> Pivot:
    """The axes of the sweep's own table; by default sizes across and the first other axis down."""
    pivot = result.pivot or result.pivoted("algorithm").pivot
    if not result.varied or pivot is None:
        raise ColltoolError(
            "one value on every axis makes no map", argument="plot", fix="several sizes or ranks"
        )
    return pivot


def _several(title: str, alt: str, panels: Sequence[Panel], paged: bool, **more: Any) -> Chart:
    """A chart of the first panels; its title says how many tables were left out."""
    most = 3 if paged else 6
    if len(panels) > most:
        title = f"{title} ({most} of {len(panels)} tables)"
    return Chart(title, alt, panels[:most], columns=_columns(len(panels), paged), **more)


def _columns(panels: int, paged: bool) -> int:
    return 1 if paged else min(2, panels)


def _fastest_everywhere(result: Sweep) -> list[str]:
    """The fastest algorithm of each cell that has one."""
    return [cell.algorithm for cell in result.cells if cell.algorithm]


def map_chart(result: Sweep, paged: bool) -> Chart:
    """A map of the fastest algorithm over two axes of a sweep."""
    pivot = _pivot(result)
    fastest = _fastest_everywhere(result)
    names = list(dict.fromkeys(fastest))
    tables = list(pivot_tables(result, pivot))
    across = len(axis_values(result, pivot.cols)) * _columns(len(tables), paged)
    width = PAGED if paged else min(16.0, max(6.8, 0.42 * across + 2))
    # 1.2 inches are taken by the labels of the rows
    lettered = (width - 1.2) / across > _LETTER_WIDE
    height = min(8.0, max(0.8, 0.3 * len(axis_values(result, pivot.rows)))) + 0.9
    panels = []
    for fixed, cells in tables:
        draw = partial(_map, result, pivot, cells, names, lettered)
        panels.append(Panel(draw, height, pivot_title(result, fixed)))
    win_counts = Counter(fastest).most_common()
    counts = ", ".join(f"{name} in {cells}" for name, cells in win_counts[:6])
    if len(win_counts) > 6:
        counts += " and others"
    axes = f"{axis_title(pivot.cols)} across and {axis_title(pivot.rows)} down"
    title = sweep_title(result)
    alt = f"Map of the fastest schedule, {axes}: {title}. Of {len(result.cells)} cells {counts}."
    keys = lettered_keys(names)
    return _several(f"fastest: {title}", alt, panels, paged, keys=keys, inches=width)


def _map(
    result: Sweep,
    pivot: Pivot,
    cells: list[list[Cell]],
    names: list[str],
    lettered: bool,
    axes: Axes,
    _inches: float,
) -> None:
    """Draw a table of cells in the colours of their fastest algorithms, which ``names`` has in the
    order of the legend."""
    for row, line in enumerate(cells):
        end = 0
        for name, run in groupby(line, key=attrgetter("algorithm")):
            start = end
            end = start + len(list(run))
            if name is None:
                continue
            at = names.index(name)
            ends = (start - 0.5, end - 0.5)
            axes.fill_between(ends, row - 0.5, row + 0.5, color=colour_of(at), linewidth=0)
            # the letter in each cell, or once in the middle where cells are too narrow
            columns = range(start, end) if lettered else [sum(ends) / 2]
            for column in columns:
                text_in(axes, (column, row), colour_of(at), 2, letter(at))
    across = _tick_labels(result, pivot.cols)
    places = thinned(range(len(across)), 14)
    axes.set_xticks(places, [across[place] for place in places], rotation=_slant(places, 6))
    down = _tick_labels(result, pivot.rows)
    places = thinned(range(len(down)), 20)
    axes.set_yticks(places, [wrapped(down[place], 1.6) for place in places])
    axes.set(xlabel=axis_title(pivot.cols), xlim=(-0.5, len(across) - 0.5))
    axes.set(ylabel=axis_title(pivot.rows), ylim=(len(down) - 0.5, -0.5))
    axes.grid(visible=False)


def _tick_labels(result: Sweep, axis: str) -> list[str]:
    values = axis_values(result, axis)
    if axis == "bytes":
        return list(map(size_text, map(float, values)))
    return [shown(axis, value) for value in values]


def _slant(places: Sequence[Any], most: int) -> int:
    """The angle of tick labels, of which more than ``most`` would overlap."""
    return 45 if len(places) > most else 0


def lines_chart(result: Sweep, paged: bool) -> Chart:
    """Bus bandwidth of the fastest algorithm along an axis of a sweep; hollow marks where the
    fastest one changes."""
    pivot = _pivot(result)
    # message size goes along the axis, whatever the table has
    if pivot.rows == "bytes":
        pivot = pivot._replace(rows=pivot.cols, cols=pivot.rows)
    panels = []
    for fixed, cells in pivot_tables(result, pivot):
        title = pivot_title(result, fixed)
        drawn = _drawn_rows(cells)
        if len(drawn) < len(cells):
            drawn_share = f"{len(drawn)} of {len(cells)} lines"
            title = f"{title}, {drawn_share}" if title else drawn_share
        panels.append(Panel(partial(_lines, result, pivot, cells), _PANEL_HIGH, title))
    alt = f"Bus bandwidth over {axis_title(pivot.cols)}"
    if len(axis_values(result, pivot.rows)) > 1:
        alt += f", a line for each of {axis_title(pivot.rows)}"
    title = sweep_title(result)
    alt += f": {title}. {_range_text(result)}; fastest: "
    alt += ", ".join(list(dict.fromkeys(_fastest_everywhere(result)))[:6])
    return _several(f"busbw of the fastest: {title}", f"{alt}.", panels, paged)


def _range_text(result: Sweep) -> str:
    rates = [cell.busbw_Bps for cell in result.cells if cell.busbw_Bps]
    if not rates:
        return "Nothing runs"
    return f"It goes from {format_rate(min(rates), 3)} to {format_rate(max(rates), 3)}"


def _drawn_rows(cells: Sequence[Sequence[Cell]]) -> list[int]:
    """The rows with a price; an even selection where there are too many to distinguish."""
    priced = [row for row, line in enumerate(cells) if any(cell.busbw_Bps for cell in line)]
    if len(priced) <= _MOST_LINES:
        return priced
    stride = len(priced) - 1
    return [priced[round(step * stride / (_MOST_LINES - 1))] for step in range(_MOST_LINES)]


def _lines(result: Sweep, pivot: Pivot, cells: list[list[Cell]], axes: Axes, inches: float) -> None:
    """Draw a line for each row of a table, of the busbw of the fastest algorithm in its cells."""
    over = axis_values(result, pivot.cols)
    down = axis_values(result, pivot.rows)
    places = _places(pivot.cols, over)
    every: list[float] = []
    drawn = _drawn_rows(cells)
    for pen, row in enumerate(drawn):
        # NaN leaves a gap where nothing can be priced
        rates = [cell.busbw_Bps or nan for cell in cells[row]]
        name = f"{axis_title(pivot.rows)} {shown(pivot.rows, down[row])}"
        _pen_line(axes, places, rates, pen, name if len(down) > 1 else None)
        for size, rate in _change_points(places, cells[row]):
            axes.plot([size], [rate], color=pen_of(pen).colour, zorder=4, **_HOLLOW)
        every += filter(None, map(attrgetter("busbw_Bps"), cells[row]))
    if any(any(_changes(cells[row])) for row in drawn):
        axes.plot([], [], color=INK, label="the fastest schedule changes", **_HOLLOW)
    _over_size(axes, places, every, inches - 1)
    if pivot.cols != "bytes":
        _relabel(axes, pivot.cols, places, over, inches - 1)


def _places(axis: str, values: Sequence[Any]) -> list[float]:
    """Where the values of an axis are drawn: at themselves if they are numbers, else at 1, 2, ..."""
    numbers = all(isinstance(value, int | float) for value in values)
    if numbers and axis in ("bytes", "ranks"):
        return list(map(float, values))
    return list(map(float, range(1, len(values) + 1)))


def _changes(line: Sequence[Cell]) -> Iterator[bool]:
    """Whether the fastest algorithm of a cell is another than that of the next one."""
    for cell, after in pairwise(line):
        yield bool(cell.algorithm and after.algorithm and cell.algorithm != after.algorithm)


def _change_points(places: Sequence[float], line: Sequence[Cell]) -> Iterator[tuple[float, float]]:
    """Points half-way, on log axes, between two cells where the fastest algorithm changes."""
    for at, changes in enumerate(_changes(line)):
        before = line[at].busbw_Bps
        after = line[at + 1].busbw_Bps
        if changes and before and after:
            yield sqrt(places[at] * places[at + 1]), sqrt(before * after)


def _relabel(
    axes: Axes, axis: str, places: Sequence[float], values: Sequence[Any], inches: float
) -> None:
    """Label an axis that is not message size, with as many of its values as have room."""
    logs = axis == "ranks" and len(set(places)) == len(values) > 1
    indices = apart(places, inches, logs=logs)
    axes.set_xscale("log" if logs else "linear")
    names = [shown(axis, values[at]) for at in indices]
    axes.set_xticks([places[at] for at in indices], names, rotation=_slant(indices, 5))
    axes.set_xticks([], minor=True)
    axes.set_xlabel(axis_title(axis))


def _pen_line(
    axes: Axes, places: Sequence[float], rates: Sequence[float], pen: int, name: str | None
) -> None:
    """Draw rates as a line with pen number ``pen``; without a name it is not in the legend."""
    colour, dash, mark = pen_of(pen)
    axes.plot(
        places,
        rates,
        color=colour,
        linestyle=dash,
        marker=mark,
        markersize=4,
        markevery=max(1, len(places) // _MOST_MARKS),
        label=name,
    )


def _over_size(axes: Axes, sizes: Sequence[float], rates: Sequence[float], inches: float) -> None:
    """Set log axes of busbw over message size, with a tick at each size that has room."""
    if rates:
        ends = (min(rates) / 1.4, max(rates) * 1.4)
        log_scale(axes, "y", ends, partial(format_rate, digits=3))
    axes.set_xscale("log")
    ordered = sorted(sizes)
    ticks = [ordered[at] for at in apart(ordered, inches, logs=True)]
    axes.set_xticks(ticks, list(map(size_text, ticks)), rotation=_slant(ticks, 5))
    axes.set_xticks([], minor=True)
    axes.set(xlabel="message size", ylabel="busbw" if in_first_column(axes) else "")


def comparison_chart(result: Comparison, paged: bool) -> Chart:
    """Bus bandwidth of each fabric over size, a panel per primitive and rank count; the band
    reaches to no contention."""
    groups: dict[tuple[str, int], list[CompareLine]] = {}
    for line in result.lines:
        groups.setdefault((line.primitive.label, line.ranks), []).append(line)
    panels = []
    where = []
    for (primitive, ranks), lines in groups.items():
        title = f"{primitive}, {ranks} ranks"
        panels.append(Panel(partial(_compared, result, lines), _PANEL_HIGH, title))
        where.append(f"{primitive} on {ranks} ranks")
    names = ", ".join(column.name for column in result.columns)
    verdict = "; ".join(comparison_verdict(result)[:3])
    alt = f"Bus bandwidth over message size of {names}: {', '.join(where)}. {verdict}."
    return _several(f"{verdict} (bands: up to no contention)", alt, panels, paged, points=9)


def _compared(result: Comparison, lines: list[CompareLine], axes: Axes, inches: float) -> None:
    """Draw the busbw of each fabric, and a band from there to that without contention."""
    every: list[float] = []
    for at, column in enumerate(result.columns):
        sizes = []
        rates = []
        without_contention = []
        for line in lines:
            cell = line.cells[at]
            if cell.busbw_Bps and cell.total_s:
                # a measured machine has no time without contention, and so no band
                ideal_s = cell.ideal_s or cell.total_s
                sizes.append(line.bytes)
                rates.append(cell.busbw_Bps)
                without_contention.append(cell.busbw_Bps * cell.total_s / ideal_s)
        _pen_line(axes, sizes, rates, at, column.name)
        axes.fill_between(
            sizes, rates, without_contention, color=pen_of(at).colour, alpha=0.15, linewidth=0
        )
        every += rates + without_contention
    _over_size(axes, [line.bytes for line in lines], every, inches - 1)


def sensitivity_chart(result: Sensitivity, _paged: bool) -> Chart:
    """The spread of each algorithm's time over all samples, and a tornado chart of the numbers that
    move the winner."""
    moved = [move for move in result.moves if move.low_s != move.high_s]
    rows = result.rows[:_MOST_BARS]
    moves = moved[:_MOST_BARS]
    above = _bar_panel(
        partial(_spreads, result, rows), rows, "5th to 95th percentile and median over all samples"
    )
    below = _bar_panel(
        partial(_tornado, result, moves), moves, f"{result.winner} with one number changed"
    )
    win_counts = ", ".join(f"{row.algorithm} {percent(row.wins)}" for row in result.rows[:3])
    title = sensitivity_title(result)
    alt = f"{title}. Of all samples these win: {win_counts}."
    if moved:
        alt += f" {moved[0].key} moves it most."
    return Chart(f"{title}: {sensitivity_verdict(result)}", alt, (above, below), points=9)


def _bar_panel(draw: Draw, rows: Sequence[Any], title: str) -> Panel:
    return Panel(draw, 0.32 * len(rows) + 1, title)


def _spreads(result: Sensitivity, rows: Sequence[Spread], axes: Axes, inches: float) -> None:
    """Draw each algorithm's times over the samples as a bar, with a mark at the median."""
    for at, row in enumerate(rows):
        colour = COLOURS[6] if row.algorithm == result.winner else COLOURS[7]
        ends = [row.p5_s, row.p95_s]
        axes.plot(ends, [at, at], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.5)
        axes.plot([row.p50_s], [at], "|", color=INK, markersize=9)
        axes.text(row.p95_s, at, f"  wins {percent(row.wins)}", va="center")
    _time_rows(axes, [row.algorithm for row in rows], inches)


def _tornado(result: Sensitivity, moves: Sequence[Any], axes: Axes, inches: float) -> None:
    """Draw the winner's time with each number at its low and its high end, from the nominal time."""
    nominal_s = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for at, move in enumerate(moves):
        ends = ((move.low_s, move.low, COLOURS[0]), (move.high_s, move.high, COLOURS[1]))
        for end, value, colour in ends:
            axes.barh(at, end - nominal_s, left=nominal_s, color=colour, height=0.6)
            side = "left" if end > nominal_s else "right"
            text = f" {quantity(move.key, value)} "
            axes.text(end, at, text, va="center", ha=side, fontsize=7)
    axes.axvline(nominal_s, color=INK, linewidth=0.8)
    _time_rows(axes, [move.key for move in moves], inches)


def _time_rows(axes: Axes, names: list[str], inches: float) -> None:
    name_rows(axes, names, 0.28 * inches)
    axes.margins(x=0.2)
    value_axis(axes, partial(format_time, digits=3))
