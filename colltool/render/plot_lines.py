"""A sweep as lines: bus bandwidth over sizes, ranks or a value, a line for each value of another axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any

from colltool.analysis.grid import Cell
from colltool.analysis.sweep import Pivot, Sweep, pivot_tables
from colltool.base.formatting import format_rate
from colltool.render.plot_choices import every_point, fewer, over_size, pivot_of, winners
from colltool.render.plot_style import DASHES, INK, MARKS, PAPER, PENS, Sheet, add_legend, apart, entitle, labelled, wrapped
from colltool.render.views.sweep import axis_title, axis_values, pivot_title, shown, sweep_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 8
_CHANGES = "the fastest schedule changes"


def _over_sizes(result: Sweep) -> Pivot:
    """As it is pivoted, but over sizes rather than a line for each."""
    pivot = pivot_of(result)
    return pivot._replace(rows=pivot.cols, cols=pivot.rows) if pivot.rows == "bytes" else pivot


def draw_lines(result: Sweep, sheet: Sheet) -> None:
    """Bus bandwidth of the fastest schedule, over sizes where they are several; a hollow mark where another one takes over.

    Raises:
        ColltoolError: one value on every axis.
    """
    pivot, figure = _over_sizes(result), sheet.figure
    tables = list(pivot_tables(result, pivot))
    columns = sheet.columns(len(tables))
    rows = -(-len(tables[: sheet.panels]) // columns)
    width = 4.4 * columns if columns > 1 else sheet.width
    for at, (fixed, cells) in enumerate(tables[: sheet.panels]):
        axes = figure.add_subplot(rows, columns, at + 1)
        _panel(axes, result, pivot, cells, width / columns - 1)
        left = f"{len(drawn_rows(cells))} of {len(cells)} lines" if len(drawn_rows(cells)) < len(cells) else ""
        title = ", ".join(filter(None, (pivot_title(result, fixed), left)))
        axes.set_title(wrapped(title, 3.5), loc="left", fontweight="bold")
        axes.set_ylabel("busbw" if at % columns == 0 else "")
    under = add_legend(figure, width, labelled(figure))
    entitle(figure, f"busbw of the fastest: {sweep_title(result)}{fewer(len(tables), sheet)}", width)
    figure.set_size_inches(width, 2.9 * rows + 0.9 + 0.18 * under)


def say_lines(result: Sweep) -> str:
    """The lines in words: over what, from which rate to which, and who is fastest somewhere."""
    pivot = _over_sizes(result)
    rates = [cell.busbw_Bps for cell in result.cells if cell.busbw_Bps]
    per = f", a line for each of {axis_title(pivot.rows)}" if len(axis_values(result, pivot.rows)) > 1 else ""
    reached = f"It goes from {format_rate(min(rates), 3)} to {format_rate(max(rates), 3)}" if rates else "Nothing runs"
    fastest = ", ".join(winners(result)[:6])
    return f"Bus bandwidth over {axis_title(pivot.cols)}{per}: {sweep_title(result)}. {reached}; fastest: {fastest}."


def drawn_rows(cells: Sequence[Sequence[Cell]]) -> list[int]:
    """Which rows are drawn: those with a price, or of too many as many as can be told apart, evenly spread."""
    priced = [row for row, line in enumerate(cells) if any(cell.busbw_Bps for cell in line)]
    if len(priced) <= MOST_LINES:
        return priced
    return [priced[round(step * (len(priced) - 1) / (MOST_LINES - 1))] for step in range(MOST_LINES)]


def _panel(axes: Axes, result: Sweep, pivot: Pivot, cells: list[list[Cell]], inches: float) -> None:
    over, down = axis_values(result, pivot.cols), axis_values(result, pivot.rows)
    places = _places(pivot.cols, over)
    rates: list[float] = []
    for pen, row in enumerate(drawn_rows(cells)):
        name = f"{axis_title(pivot.rows)} {shown(pivot.rows, down[row])}"
        rates += _line(axes, places, cells[row], pen, name if len(down) > 1 else None)
    if any(_changed(one, other) for line in cells for one, other in pairwise(line)):
        axes.plot([], [], "o", color=INK, markerfacecolor=PAPER, markersize=7, label=_CHANGES)
    over_size(axes, places, rates, inches)
    if pivot.cols != "bytes":
        logs = pivot.cols == "ranks" and len(set(places)) == len(over) > 1
        kept = apart(places, inches, logs=logs)
        axes.set_xscale("log" if logs else "linear")
        names = [shown(pivot.cols, over[at]) for at in kept]
        axes.set_xticks([places[at] for at in kept], names, rotation=45 if len(kept) > 5 else 0)
        axes.set_xticks([], minor=True)
    axes.set_xlabel("message size" if pivot.cols == "bytes" else axis_title(pivot.cols))


def _places(key: str, values: Sequence[Any]) -> list[float]:
    """Where the values of an axis stand: sizes and ranks as they are, texts one beside the other."""
    numbers = key in ("bytes", "ranks") and all(isinstance(value, int | float) for value in values)
    return [float(value) for value in values] if numbers else [float(place + 1) for place in range(len(values))]


def _line(axes: Axes, places: Sequence[float], cells: Sequence[Cell], pen: int, name: str | None) -> list[float]:
    """One line, a gap where nothing can be priced; every rate of it."""
    colour, dash, mark = PENS[pen], DASHES[pen], MARKS[pen]
    rates = [cell.busbw_Bps or float("nan") for cell in cells]
    axes.plot(places, rates, color=colour, linestyle=dash, marker=mark, markersize=4, markevery=every_point(places), label=name)
    for at, (one, other) in enumerate(pairwise(cells)):
        if _changed(one, other) and one.busbw_Bps and other.busbw_Bps:
            middle = (sqrt(places[at] * places[at + 1]), sqrt(one.busbw_Bps * other.busbw_Bps))
            axes.plot(*([end] for end in middle), "o", color=colour, markerfacecolor=PAPER, markersize=7, zorder=4)
    return [rate for rate in rates if rate == rate]


def _changed(one: Cell, other: Cell) -> bool:
    return bool(one.algorithm and other.algorithm and one.algorithm != other.algorithm)
