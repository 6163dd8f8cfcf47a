"""Pictures of choices: winners over two axes, fabrics over size, what numbers that may be off move."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from colltool.analysis.compare import CompareLine, Comparison
from colltool.analysis.grid import Cell
from colltool.analysis.sensitivity import Sensitivity, Spread
from colltool.analysis.sweep import Pivot, Sweep, pivot_tables
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, format_time, percent, size_text
from colltool.base.primitives import Primitive
from colltool.render.plot_style import (
    COLOURS,
    DASHES,
    INK,
    MARKS,
    PENS,
    Sheet,
    add_legend,
    apart,
    entitle,
    labelled,
    letter,
    log_scale,
    text_on,
    thinned,
    wrapped,
)
from colltool.render.subjects.compare import verdict as compared
from colltool.render.subjects.sensitivity import quantity, sensitivity_title
from colltool.render.subjects.sensitivity import verdict as safe
from colltool.render.subjects.sweep import axis_title, axis_values, pivot_title, shown, sweep_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 12
_MOST_MARKS = 12  # on a line
_LETTER_WIDE = 0.17  # inches of a cell that holds a letter


def pivot_of(result: Sweep) -> Pivot:
    """The two axes that a picture of a sweep has: those of its table, or sizes across and the first other axis down.

    Raises:
        ColltoolError: one value on every axis.
    """
    if not result.varied:
        raise ColltoolError("one value on every axis makes no map", argument="plot", fix="several sizes or ranks")
    pivot = result.pivot or result.pivoted("algorithm").pivot
    assert pivot is not None
    return pivot


def draw_map(result: Sweep, sheet: Sheet) -> None:
    """Who wins over two axes: a colour and a letter for each schedule.

    Raises:
        ColltoolError: one value on every axis.
    """
    pivot, figure = pivot_of(result), sheet.figure
    tables = list(pivot_tables(result, pivot))
    names = winners(result)
    columns = sheet.columns(len(tables))
    rows = -(-len(tables[: sheet.panels]) // columns)
    across = len(axis_values(result, pivot.cols)) * columns
    width = sheet.width if sheet.paged else min(16.0, max(sheet.width, 0.42 * across + 2))
    for at, (fixed, cells) in enumerate(tables[: sheet.panels]):
        axes = figure.add_subplot(rows, columns, at + 1)
        _map(axes, result, pivot, cells, names, lettered=(width - 1.2) / across > _LETTER_WIDE)
        axes.set_title(wrapped(pivot_title(result, fixed), 3.5), loc="left")
    found = {f"{letter(at)}  {name}": _swatch(figure.axes[0], at) for at, name in enumerate(names)}
    lines = add_legend(figure, width, found)
    entitle(figure, f"fastest: {sweep_title(result)}{fewer(len(tables), sheet)}", width)
    height = min(8.0, max(0.8, 0.3 * len(axis_values(result, pivot.rows)))) + 0.9
    figure.set_size_inches(width, rows * height + 0.7 + 0.18 * lines)


def axis_label(key: str, value: Any) -> str:
    """A value of an axis in few letters."""
    return size_text(float(value)) if key == "bytes" else shown(key, value)


def fewer(tables: int, sheet: Sheet) -> str:
    """What a title says where not every table has a panel."""
    return f" ({sheet.panels} of {tables} tables)" if tables > sheet.panels else ""


def winners(result: Sweep) -> list[str]:
    """Every schedule that wins somewhere, in the order of the cells."""
    return list(dict.fromkeys(cell.algorithm for cell in result.cells if cell.algorithm))


def say_map(result: Sweep) -> str:
    """The map in words: who wins how many cells."""
    pivot = pivot_of(result)
    won = [cell.algorithm for cell in result.cells if cell.algorithm]
    most = sorted(winners(result), key=lambda name: -won.count(name))
    counts = ", ".join(f"{name} in {won.count(name)}" for name in most[:6]) + (" and others" if len(most) > 6 else "")
    axes = f"{axis_title(pivot.cols)} across and {axis_title(pivot.rows)} down"
    return f"Map of the fastest schedule, {axes}: {sweep_title(result)}. Of {len(result.cells)} cells {counts}."


def _swatch(axes: Axes, at: int) -> object:
    return axes.plot([], [], "s", color=COLOURS[at % len(COLOURS)], markersize=8)[0]


def _map(axes: Axes, result: Sweep, pivot: Pivot, cells: list[list[Cell]], names: list[str], *, lettered: bool) -> None:
    for row, line in enumerate(cells):
        for name, run in groupby(range(len(line)), key=lambda column: line[column].algorithm):
            if name is not None:
                _won(axes, row, list(run), names.index(name), lettered=lettered)
    across, down = ([axis_label(key, value) for value in axis_values(result, key)] for key in (pivot.cols, pivot.rows))
    places = thinned(range(len(across)), 14)
    axes.set_xticks(places, [across[place] for place in places], rotation=45 if len(places) > 6 else 0)
    places = thinned(range(len(down)), 20)
    axes.set_yticks(places, [wrapped(down[place], 1.6) for place in places])
    axes.set_xlabel(axis_title(pivot.cols))
    axes.set_ylabel(axis_title(pivot.rows))
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(len(down) - 0.5, -0.5)
    axes.grid(visible=False)


def _won(axes: Axes, row: int, run: list[int], at: int, *, lettered: bool) -> None:
    """Neighbouring cells with one winner: its letter in each, or where cells are too narrow for that once in the middle."""
    colour, ends = COLOURS[at % len(COLOURS)], [run[0] - 0.5, run[-1] + 0.5]
    axes.fill_between(ends, row - 0.5, row + 0.5, color=colour, linewidth=0)
    for column in run if lettered else [sum(ends) / 2]:
        axes.text(column, row, letter(at), ha="center", va="center", color=text_on(colour))


def draw_comparison(result: Comparison, sheet: Sheet) -> None:
    """Bus bandwidth of every column over size, a panel for each primitive and group; the band ends without contention."""
    every, figure = _panels(result), sheet.figure
    panels = every[: sheet.panels]
    columns = sheet.columns(len(panels))
    rows = -(-len(panels) // columns)
    width = 4.4 * columns if columns > 1 else sheet.width
    for at, (primitive, ranks) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, at + 1)
        lines = [line for line in result.lines if (line.primitive, line.ranks) == (primitive, ranks)]
        tops = [_line(axes, lines, column, one.name) for column, one in enumerate(result.columns)]
        over_size(axes, [line.bytes for line in lines], [rate for rates in tops for rate in rates], width / columns - 1)
        axes.set_title(f"{primitive.spoken}, {ranks} ranks", loc="left", fontweight="bold")
        axes.set_xlabel("message size")
        axes.set_ylabel("busbw" if at % columns == 0 else "")
    under = add_legend(figure, width, labelled(figure))
    said = "; ".join(compared(result)[:3])
    entitle(figure, f"{said} (bands: up to no contention){fewer(len(every), sheet)}", width, 9)
    figure.set_size_inches(width, 2.9 * rows + 0.9 + 0.18 * under)


def _panels(result: Comparison) -> list[tuple[Primitive, int]]:
    return list(dict.fromkeys((line.primitive, line.ranks) for line in result.lines))


def say_comparison(result: Comparison) -> str:
    """The lines in words: what is beside what, and what follows."""
    names = ", ".join(one.name for one in result.columns)
    where = ", ".join(f"{primitive.spoken} on {ranks} ranks" for primitive, ranks in _panels(result))
    return f"Bus bandwidth over message size of {names}: {where}. {'; '.join(compared(result)[:3])}."


def _line(axes: Axes, lines: Sequence[CompareLine], column: int, name: str) -> list[float]:
    """A column with its band; every rate that is drawn."""
    cells = [(line.bytes, line.cells[column]) for line in lines]
    points = [(size, cell.busbw_Bps, cell.busbw_Bps * cell.total_s / cell.ideal_s)
              for size, cell in cells if cell.busbw_Bps and cell.total_s and cell.ideal_s]  # fmt: skip
    sizes, rates, quiet = ([point[part] for point in points] for part in range(3))
    again = column // len(PENS)  # from the second round on a colour goes with another dash and mark
    colour = PENS[column % len(PENS)]
    dash, mark = (pens[(column + again) % len(pens)] for pens in (DASHES, MARKS))
    axes.plot(sizes, rates, color=colour, linestyle=dash, marker=mark, markersize=4, markevery=every_point(sizes), label=name)
    axes.fill_between(sizes, rates, quiet, color=colour, alpha=0.15, linewidth=0)
    return [*rates, *quiet]


def every_point(places: Sequence[float]) -> int:
    """Every how many points of a line have a mark."""
    return max(1, len(places) // _MOST_MARKS)


def over_size(axes: Axes, sizes: Sequence[float], rates: Sequence[float], inches: float) -> None:
    """Rates over the sizes that were asked for, both by equal factors, on so many inches."""
    if rates:
        log_scale(axes, "y", (min(rates) / 1.4, max(rates) * 1.4), lambda rate: format_rate(rate, 3))
    axes.set_xscale("log")
    ticks = sorted(sizes)
    ticks = [ticks[at] for at in apart(ticks, inches, logs=True)]
    axes.set_xticks(ticks, [size_text(size) for size in ticks], rotation=45 if len(ticks) > 5 else 0)
    axes.set_xticks([], minor=True)


def draw_sensitivity(result: Sensitivity, sheet: Sheet) -> None:
    """Above what each schedule takes over all samples, below what each number moves by itself."""
    moves = [one for one in result.moves if one.low_s != one.high_s][:_MOST_BARS]
    rows = result.rows[:_MOST_BARS]
    figure = sheet.figure
    above, below = figure.subplots(2, 1, height_ratios=[len(rows) + 1, len(moves) + 1])
    for at, row in enumerate(rows):
        _spread(above, at, row, COLOURS[6] if row.algorithm == result.winner else COLOURS[7])
    _bars(above, [row.algorithm for row in rows], "5th to 95th percentile and median over all samples", sheet.width)
    today = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for at, one in enumerate(moves):
        for end, value, colour in ((one.low_s, one.low, COLOURS[0]), (one.high_s, one.high, COLOURS[1])):
            below.barh(at, end - today, left=today, color=colour, height=0.6)
            side = "left" if end > today else "right"
            below.text(end, at, f" {quantity(one.key, value)} ", va="center", ha=side, fontsize=7)
    below.axvline(today, color=INK, linewidth=0.8)
    _bars(below, [one.key for one in moves], f"{result.winner} where one number is other", sheet.width)
    entitle(figure, f"{sensitivity_title(result)}: {safe(result)}", sheet.width, 9)
    figure.set_size_inches(sheet.width, 0.32 * (len(rows) + len(moves)) + 2.8)


def _spread(axes: Axes, at: int, row: Spread, colour: str) -> None:
    axes.plot([row.p5_s, row.p95_s], [at, at], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.5)
    axes.plot([row.p50_s], [at], "|", color=INK, markersize=9)
    axes.text(row.p95_s, at, f"  wins {percent(row.wins)}", va="center")


def say_sensitivity(result: Sensitivity) -> str:
    """The bars in words: how often who wins, and which number moves most."""
    often = ", ".join(f"{row.algorithm} {percent(row.wins)}" for row in result.rows[:3])
    moved = [one for one in result.moves if one.low_s != one.high_s]
    most = f" {moved[0].key} moves it most." if moved else ""
    return f"{sensitivity_title(result)}. Of all samples these win: {often}.{most}"


def _bars(axes: Axes, names: list[str], title: str, width: float) -> None:
    axes.set_yticks(range(len(names)), [wrapped(name, 0.28 * width) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.2)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda seconds, _: format_time(seconds, 3))
    axes.set_title(wrapped(title, 0.6 * width), loc="left")
