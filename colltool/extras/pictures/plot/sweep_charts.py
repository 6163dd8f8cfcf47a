"""Charts of sweeps: a map of the fastest algorithm over two axes (:func:`map_chart`), and lines of its bus
bandwidth along one (:func:`lines_chart`).

A ``Pivot`` names the axes of a table: ``cols`` runs across, ``rows`` down; ``pivot_tables`` gives one table
of cells for each combination of values on all other axes. A ``Cell`` has the title of the fastest
``algorithm`` and its ``busbw_Bps``, both None where nothing can be priced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from math import nan, sqrt
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from colltool.analysis.cells import Cell
from colltool.analysis.sweep import Pivot, Sweep, pivot_tables
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, size_text
from colltool.extras.pictures.plot.comparison_chart import PANEL_INCHES, over_size, pen_line
from colltool.extras.pictures.plot.look import (
    INK,
    PAPER,
    colour_of,
    letter,
    pen_of,
    text_in,
    wrapped,
)
from colltool.extras.pictures.plot.panels import (
    ONE_COLUMN,
    PAGED,
    Chart,
    Panel,
    chart_of_tables,
    columns_of,
    lettered_keys,
)
from colltool.extras.pictures.plot.ticks import indices_with_room, slant, thinned
from colltool.render.views.sweep_words import (
    axis_title,
    axis_values,
    pivot_title,
    sweep_title,
    value_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All in inches.
_WIDEST_MAP = 16.0
_CELL_WIDTH = 0.42  # of a column of cells, where there is room
_LETTER_WIDTH = 0.17  # of the narrowest cell with a letter
_CELL_HEIGHT = 0.3  # of a row of cells
_LOWEST_MAP = 0.8  # of all rows
_HIGHEST_MAP = 8.0
_ROW_LABELS = 1.2  # at the left of a map
_COLUMN_LABELS = 0.9  # below it

_MOST_COLUMN_LABELS = 14
_MOST_ROW_LABELS = 20
_MOST_LINES = 8  # of a panel: as many pens as can be told apart
_MOST_NAMED = 6  # algorithms that the alt text names
# Marks of a change, larger than those of the lines and without filling.
_HOLLOW: dict[str, Any] = {
    "marker": "o",
    "linestyle": "",
    "markerfacecolor": PAPER,
    "markersize": 7,
}


def map_chart(result: Sweep, paged: bool) -> Chart:
    """A map of the fastest algorithm over two axes of a sweep, a panel for each combination of values
    on further axes; ``paged``: for a page of HTML.

    Raises:
        ColltoolError: every axis has one value.
    """
    pivot = _pivot(result)
    fastest = _fastest_of_cells(result)
    names = list(dict.fromkeys(fastest))
    tables = list(pivot_tables(result, pivot))
    cells_across = len(axis_values(result, pivot.cols)) * columns_of(len(tables), paged)
    width = PAGED
    if not paged:
        # two inches are for labels and margins
        width = min(_WIDEST_MAP, max(ONE_COLUMN, _CELL_WIDTH * cells_across + 2))
    lettered = (width - _ROW_LABELS) / cells_across > _LETTER_WIDTH
    rows_height = max(_LOWEST_MAP, _CELL_HEIGHT * len(axis_values(result, pivot.rows)))
    height = min(_HIGHEST_MAP, rows_height) + _COLUMN_LABELS
    panels = []
    for fixed, cells in tables:
        draw = partial(
            _draw_map, result=result, pivot=pivot, cells=cells, names=names, lettered=lettered
        )
        panels.append(Panel(draw, height, pivot_title(result, fixed)))
    win_counts = Counter(fastest).most_common()
    wins = ", ".join(f"{name} in {count}" for name, count in win_counts[:_MOST_NAMED])
    if len(win_counts) > _MOST_NAMED:
        wins += " and others"
    axes_text = f"{axis_title(pivot.cols)} across and {axis_title(pivot.rows)} down"
    title = sweep_title(result)
    alt = f"Map of the fastest schedule, {axes_text}: {title}. Of {len(result.cells)} cells {wins}."
    keys = lettered_keys(names)
    return chart_of_tables(f"fastest: {title}", alt, panels, paged, keys=keys, inches=width)


def _pivot(result: Sweep) -> Pivot:
    """The axes of the sweep's own table; where it has none, those that a table of algorithms gets by
    default. ColltoolError where only one value was asked for on every axis."""
    pivot = result.pivot or result.pivoted("algorithm").pivot
    if not result.varied or pivot is None:
        raise ColltoolError(
            "one value on every axis makes no map", argument="plot", fix="several sizes or ranks"
        )
    return pivot


def _fastest_of_cells(result: Sweep) -> list[str]:
    """The fastest algorithm of each cell that has one."""
    return [cell.algorithm for cell in result.cells if cell.algorithm]


def _draw_map(
    axes: Axes,
    _inches: float,
    *,
    result: Sweep,
    pivot: Pivot,
    cells: list[list[Cell]],
    names: list[str],
    lettered: bool,
) -> None:
    """Draw a table of cells in the colours of their fastest algorithms. A cell is one unit wide and high,
    with its middle at (column, row), rows downwards.

    Args:
        cells: row by row; one without an algorithm stays empty.
        names: the algorithms in the order of the legend.
        lettered: whether a cell is wide enough for a letter.
    """
    for row, row_cells in enumerate(cells):
        end = 0
        # neighbours with the same algorithm are one area
        for name, run in groupby(row_cells, key=attrgetter("algorithm")):
            start = end
            end = start + len(list(run))
            if name is None:
                continue
            index = names.index(name)
            sides = (start - 0.5, end - 0.5)
            axes.fill_between(sides, row - 0.5, row + 0.5, color=colour_of(index), linewidth=0)
            # the letter in each cell, or once in the middle where cells are too narrow
            columns = range(start, end) if lettered else [sum(sides) / 2]
            for column in columns:
                # AA follows Z, so that two letters are the most
                text_in(axes, (column, row), colour_of(index), 2, letter(index))
    column_labels = _tick_labels(result, pivot.cols)
    ticks = thinned(range(len(column_labels)), _MOST_COLUMN_LABELS)
    axes.set_xticks(ticks, [column_labels[tick] for tick in ticks], rotation=slant(ticks, 6))
    row_labels = _tick_labels(result, pivot.rows)
    # labels may be as wide as is left beside the cells, in inches
    ticks = thinned(range(len(row_labels)), _MOST_ROW_LABELS)
    axes.set_yticks(ticks, [wrapped(row_labels[tick], 1.6) for tick in ticks])
    axes.set(xlabel=axis_title(pivot.cols), xlim=(-0.5, len(column_labels) - 0.5))
    axes.set(ylabel=axis_title(pivot.rows), ylim=(len(row_labels) - 0.5, -0.5))
    axes.grid(visible=False)


def _tick_labels(result: Sweep, axis: str) -> list[str]:
    """The values of an axis in words."""
    values = axis_values(result, axis)
    if axis == "bytes":
        return list(map(size_text, map(float, values)))
    return [value_text(axis, value) for value in values]


def lines_chart(result: Sweep, paged: bool) -> Chart:
    """Bus bandwidth of the fastest algorithm along an axis of a sweep, a line for each value of another;
    hollow marks where the fastest one changes. Raises as :func:`map_chart`."""
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
        panels.append(Panel(partial(_draw_lines, result, pivot, cells), PANEL_INCHES, title))
    alt = f"Bus bandwidth over {axis_title(pivot.cols)}"
    if len(axis_values(result, pivot.rows)) > 1:
        alt += f", a line for each of {axis_title(pivot.rows)}"
    title = sweep_title(result)
    alt += f": {title}. {_range_text(result)}; fastest: "
    alt += ", ".join(list(dict.fromkeys(_fastest_of_cells(result)))[:_MOST_NAMED])
    return chart_of_tables(f"busbw of the fastest: {title}", f"{alt}.", panels, paged)


def _range_text(result: Sweep) -> str:
    """``It goes from 1.2 GB/s to 360 GB/s``."""
    rates = [cell.busbw_Bps for cell in result.cells if cell.busbw_Bps]
    if not rates:
        return "Nothing runs"
    return f"It goes from {format_rate(min(rates), 3)} to {format_rate(max(rates), 3)}"


def _drawn_rows(cells: Sequence[Sequence[Cell]]) -> list[int]:
    """Indices of the rows with a price; where those are too many to distinguish, of an even selection
    with the first and the last."""
    priced = []
    for row, row_cells in enumerate(cells):
        if any(cell.busbw_Bps for cell in row_cells):
            priced.append(row)
    if len(priced) <= _MOST_LINES:
        return priced
    step = (len(priced) - 1) / (_MOST_LINES - 1)
    return [priced[round(number * step)] for number in range(_MOST_LINES)]


def _draw_lines(
    result: Sweep, pivot: Pivot, cells: list[list[Cell]], axes: Axes, inches: float
) -> None:
    """Draw a line for each row of a table: the busbw of the fastest algorithm in its cells. The axes are
    ``inches`` wide, labels included."""
    values = axis_values(result, pivot.cols)
    row_values = axis_values(result, pivot.rows)
    places = _places(pivot.cols, values)
    all_rates: list[float] = []
    has_changes = False
    for pen, row in enumerate(_drawn_rows(cells)):
        # NaN leaves a gap where nothing can be priced
        rates = [cell.busbw_Bps or nan for cell in cells[row]]
        name = f"{axis_title(pivot.rows)} {value_text(pivot.rows, row_values[row])}"
        pen_line(axes, places, rates, pen, name if len(row_values) > 1 else None)
        for place, rate in _change_points(places, cells[row]):
            axes.plot([place], [rate], color=pen_of(pen).colour, zorder=4, **_HOLLOW)
            has_changes = True
        all_rates += filter(None, map(attrgetter("busbw_Bps"), cells[row]))
    # a line without points, for the legend
    if has_changes:
        axes.plot([], [], color=INK, label="the fastest schedule changes", **_HOLLOW)
    # an inch is for the labels at the side; what is not message size is labelled anew
    over_size(axes, places, all_rates, inches - 1)
    if pivot.cols != "bytes":
        _relabel(axes, pivot.cols, places, values, inches - 1)


def _places(axis: str, values: Sequence[Any]) -> list[float]:
    """Where the values of an axis are drawn: a size or a number of ranks at itself, others at 1, 2, ..."""
    numbers = all(isinstance(value, int | float) for value in values)
    if numbers and axis in ("bytes", "ranks"):
        return list(map(float, values))
    return list(map(float, range(1, len(values) + 1)))


def _change_points(places: Sequence[float], cells: Sequence[Cell]) -> Iterator[tuple[float, float]]:
    """Points (place, rate) half-way, on log axes, between two cells of a line where the fastest
    algorithm changes."""
    for (start, end), (cell, after) in zip(pairwise(places), pairwise(cells), strict=True):
        if cell.busbw_Bps and after.busbw_Bps and cell.algorithm != after.algorithm:
            yield sqrt(start * end), sqrt(cell.busbw_Bps * after.busbw_Bps)


def _relabel(
    axes: Axes, axis: str, places: Sequence[float], values: Sequence[Any], inches: float
) -> None:
    """Label an axis that is not message size, with as many of its values as have room."""
    # a log axis needs two places or more, all different
    logs = axis == "ranks" and len(set(places)) == len(values) > 1
    indices = indices_with_room(places, inches, logs=logs)
    axes.set_xscale("log" if logs else "linear")
    names = [value_text(axis, values[index]) for index in indices]
    axes.set_xticks([places[index] for index in indices], names, rotation=slant(indices, 5))
    axes.set_xticks([], minor=True)
    axes.set_xlabel(axis_title(axis))
