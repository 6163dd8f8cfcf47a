"""Pictures of choices, drawn on a figure that they are given: winners over two axes, columns over size, what numbers move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from colltool.errors import ColltoolError
from colltool.render.subjects.compare import verdict as compared
from colltool.render.subjects.sensitivity import quantity
from colltool.render.subjects.sensitivity import verdict as safe
from colltool.render.subjects.sweep import shown, sweep_title
from colltool.study.compare import Comparison, Line
from colltool.study.grid import Cell
from colltool.study.sensitivity import Sensitivity
from colltool.study.sweep import Pivot, Sweep, pivot_tables
from colltool.words import format_rate, format_time, percent, title_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by colour-blind readers too; each cell of a map also has a letter.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#999999")
_PENS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # those that are seen as thin lines
_DASHES = ("-", "--", ":", "-.")
_MOST_PANELS = 6
_MOST_BARS = 12


def _sweep(result: Sweep, figure: Figure) -> None:
    """Who wins over two axes: a colour and a letter for each schedule."""
    if not result.varied:
        raise ColltoolError("one value on every axis makes no map", argument="plot", fix="several sizes or ranks")
    pivot = result.pivot or result.pivoted("algorithm").pivot
    assert pivot is not None
    tables = list(pivot_tables(result, pivot))[:_MOST_PANELS]
    names = list(dict.fromkeys(cell.algorithm for cell in result.cells if cell.algorithm))
    columns = min(2, len(tables))
    rows = -(-len(tables) // columns)
    for at, (fixed, cells) in enumerate(tables):
        axes = figure.add_subplot(rows, columns, at + 1)
        _map(axes, result, pivot, cells, names)
        several = [f"{key} {shown(key, value)}" for key, value in fixed if len(_axis(result, key)) > 1]
        axes.set_title(", ".join(several), loc="left")
    width = max(6.5, 0.55 * len(_axis(result, pivot.cols)) * columns + 2)
    handles = [figure.axes[0].plot([], [], "s", color=_colour(names, name), markersize=8)[0] for name in names]
    labels = [f"{_letter(names, name)}  {name}" for name in names]
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, int(width // 3.6)))
    figure.suptitle(fill(f"fastest: {sweep_title(result)}", int(12 * width)), fontsize=11)
    figure.set_size_inches(width, rows * (0.4 * len(_axis(result, pivot.rows)) + 1.2) + 1.2)


def _map(axes: Axes, result: Sweep, pivot: Pivot, cells: list[list[Cell]], names: list[str]) -> None:
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            if cell.algorithm is not None:
                here = [column - 0.5, column + 0.5]
                axes.fill_between(here, row - 0.5, row + 0.5, color=_colour(names, cell.algorithm), linewidth=0)
                axes.text(column, row, _letter(names, cell.algorithm), ha="center", va="center", color="0.1")
    across, down = ([shown(key, value) for value in _axis(result, key)] for key in (pivot.cols, pivot.rows))
    axes.set_xticks(range(len(across)), across, rotation=45 if len(across) > 6 else 0)
    axes.set_yticks(range(len(down)), down)
    axes.set_xlabel("size" if pivot.cols == "bytes" else pivot.cols)
    axes.set_ylabel("size" if pivot.rows == "bytes" else pivot.rows)
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(len(down) - 0.5, -0.5)
    axes.grid(visible=False)


def _axis(result: Sweep, key: str) -> tuple[Any, ...]:
    return next(axis.values for axis in result.axes if axis.key == key)


def _colour(names: list[str], name: str) -> str:
    return COLOURS[names.index(name) % len(COLOURS)]


def _letter(names: list[str], name: str) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[names.index(name) % 26]


def _comparison(result: Comparison, figure: Figure) -> None:
    """Bus bandwidth of every column over size, a panel for each primitive and group; the band ends without contention."""
    panels = list(dict.fromkeys((line.primitive, line.ranks) for line in result.lines))[:_MOST_PANELS]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    for at, (primitive, ranks) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, at + 1)
        lines = [line for line in result.lines if (line.primitive, line.ranks) == (primitive, ranks)]
        for column, one in enumerate(result.columns):
            _line(axes, lines, column, one.name)
        _over_size(axes, [line.bytes for line in lines])
        axes.set_title(f"{primitive.spoken}, {ranks} ranks", loc="left", fontweight="bold")
        axes.set_ylabel("busbw" if at % columns == 0 else "")
    width = 4.4 * columns if columns > 1 else 6.5
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=max(1, int(width // 2.5)))
    said = "; ".join(compared(result)[:3])
    figure.suptitle(fill(f"{said} (bands: up to no contention)", int(13 * width)), fontsize=9)
    figure.set_size_inches(width, 3.2 * rows + 0.9)


def _line(axes: Axes, lines: Sequence[Line], column: int, name: str) -> None:
    colour = _PENS[column % len(_PENS)]
    cells = [(line.bytes, line.cells[column]) for line in lines]
    points = [(size, cell.busbw_Bps, cell.busbw_Bps * cell.total_s / cell.ideal_s)
              for size, cell in cells if cell.busbw_Bps and cell.total_s and cell.ideal_s]  # fmt: skip
    sizes, rates, quiet = ([point[part] for point in points] for part in range(3))
    dash = _DASHES[column % len(_DASHES)]
    axes.plot(sizes, rates, color=colour, linestyle=dash, marker="o", markersize=3, label=name)
    axes.fill_between(sizes, rates, quiet, color=colour, alpha=0.15, linewidth=0)


def _over_size(axes: Axes, sizes: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [title_size(size) for size in sizes], rotation=45 if len(sizes) > 5 else 0)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda rate, _: format_rate(rate, 3))


def _sensitivity(result: Sensitivity, figure: Figure) -> None:
    """Above what each schedule takes over all samples, below what each number moves by itself."""
    moves = [one for one in result.moves if one.low_s != one.high_s][:_MOST_BARS]
    rows = result.rows[:_MOST_BARS]
    above, below = figure.subplots(2, 1, height_ratios=[len(rows) + 1, len(moves) + 1])
    for at, row in enumerate(rows):
        colour = COLOURS[6] if row.algorithm == result.winner else COLOURS[7]
        above.plot([row.p5_s, row.p95_s], [at, at], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.5)
        above.plot([row.p50_s], [at], "|", color="0.1", markersize=9)
        above.text(row.p95_s, at, f"  wins {percent(row.wins)}", va="center")
    _bars(above, [row.algorithm for row in rows], "5th to 95th percentile and median over all samples")
    today = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for at, one in enumerate(moves):
        for end, value, colour in ((one.low_s, one.low, COLOURS[0]), (one.high_s, one.high, COLOURS[1])):
            below.barh(at, end - today, left=today, color=colour, height=0.6)
            side = "left" if end > today else "right"
            below.text(end, at, f" {quantity(one.key, value)} ", va="center", ha=side, fontsize=7)
    below.axvline(today, color="0.2", linewidth=0.8)
    _bars(below, [one.key for one in moves], f"{result.winner} where one number is other")
    figure.suptitle(fill(safe(result), 95), fontsize=9)
    figure.set_size_inches(7.5, 0.32 * (len(rows) + len(moves)) + 2.6)


def _bars(axes: Axes, names: list[str], title: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.2)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda seconds, _: format_time(seconds, 3))
    axes.set_title(title, loc="left")


_DRAWN: dict[type, Callable[[Any, Figure], None]] = {Sweep: _sweep, Comparison: _comparison, Sensitivity: _sensitivity}


def draw_choice(result: Any, figure: Figure) -> None:
    """Draw a sweep, a comparison or a sensitivity on an empty figure.

    Raises:
        ColltoolError: a sweep with one value on every axis.
    """
    _DRAWN[type(result)](result, figure)
