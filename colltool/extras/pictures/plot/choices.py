"""Charts of sweeps, of fabric comparisons, and of sensitivity to uncertain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby, pairwise
from math import nan, sqrt
from typing import TYPE_CHECKING, Any

from colltool.analysis.compare import CompareLine, Comparison
from colltool.analysis.grid import Cell
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
    Key,
    Panel,
    apart,
    colour_of,
    letter,
    log_scale,
    name_rows,
    pen_of,
    text_on,
    thinned,
    value_axis,
    wrapped,
)
from colltool.render.views.compare import verdict as compared
from colltool.render.views.sensitivity import quantity, sensitivity_title
from colltool.render.views.sensitivity import verdict as safe
from colltool.render.views.sweep import axis_title, axis_values, pivot_title, shown, sweep_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 12
_MOST_LINES = 8
_MOST_MARKS = 12  # per line
_LETTER_WIDE = 0.17  # inches of the narrowest cell with a letter


def _pivot(result: Sweep) -> Pivot:
    # the axes of its own table, or by default sizes across and the first other axis down
    if not result.varied:
        raise ColltoolError(
            "one value on every axis makes no map", argument="plot", fix="several sizes or ranks"
        )
    pivot = result.pivot or result.pivoted("algorithm").pivot
    assert pivot is not None
    return pivot


def _room(panels: int, paged: bool) -> tuple[int, int, str]:
    """How many panels are drawn, in how many columns, and what the title says of the others."""
    most = 3 if paged else 6
    return (
        most,
        1 if paged else min(2, panels),
        f" ({most} of {panels} tables)" if panels > most else "",
    )


def _winners(result: Sweep) -> list[str]:
    return list(dict.fromkeys(cell.algorithm for cell in result.cells if cell.algorithm))


def map_chart(result: Sweep, paged: bool) -> Chart:
    """A map of the fastest algorithm over two axes of a sweep."""
    pivot, names = _pivot(result), _winners(result)
    tables = list(pivot_tables(result, pivot))
    most, columns, fewer = _room(len(tables), paged)
    across = len(axis_values(result, pivot.cols)) * columns
    width = PAGED if paged else min(16.0, max(6.8, 0.42 * across + 2))
    lettered = (width - 1.2) / across > _LETTER_WIDE
    height = min(8.0, max(0.8, 0.3 * len(axis_values(result, pivot.rows)))) + 0.9
    panels = tuple(
        Panel(
            partial(_map, result, pivot, cells, names, lettered), height, pivot_title(result, fixed)
        )
        for fixed, cells in tables[:most]
    )
    won = [cell.algorithm for cell in result.cells if cell.algorithm]
    often = sorted(names, key=lambda name: -won.count(name))
    counts = ", ".join(f"{name} in {won.count(name)}" for name in often[:6]) + (
        " and others" if len(often) > 6 else ""
    )
    axes = f"{axis_title(pivot.cols)} across and {axis_title(pivot.rows)} down"
    alt = (
        f"Map of the fastest schedule, {axes}: {sweep_title(result)}. Of {len(result.cells)} cells"
        f" {counts}."
    )
    keys = [Key(f"{letter(at)}  {name}", colour_of(at)) for at, name in enumerate(names)]
    return Chart(f"fastest: {sweep_title(result)}{fewer}", alt, panels, keys, columns, width)


def _map(
    result: Sweep,
    pivot: Pivot,
    cells: list[list[Cell]],
    names: list[str],
    lettered: bool,
    axes: Axes,
    _inches: float,
) -> None:
    for row, line in enumerate(cells):
        for name, same in groupby(range(len(line)), key=lambda column: line[column].algorithm):
            if name is not None:
                # its letter in each cell, or once in the middle where cells are too narrow
                run, colour = list(same), colour_of(names.index(name))
                ends = [run[0] - 0.5, run[-1] + 0.5]
                axes.fill_between(ends, row - 0.5, row + 0.5, color=colour, linewidth=0)
                for column in run if lettered else [sum(ends) / 2]:
                    axes.text(
                        column,
                        row,
                        letter(names.index(name)),
                        ha="center",
                        va="center",
                        color=text_on(colour),
                    )
    across, down = (
        [
            size_text(float(value)) if key == "bytes" else shown(key, value)
            for value in axis_values(result, key)
        ]
        for key in (pivot.cols, pivot.rows)
    )
    places = thinned(range(len(across)), 14)
    axes.set_xticks(
        places, [across[place] for place in places], rotation=45 if len(places) > 6 else 0
    )
    places = thinned(range(len(down)), 20)
    axes.set_yticks(places, [wrapped(down[place], 1.6) for place in places])
    axes.set(xlabel=axis_title(pivot.cols), xlim=(-0.5, len(across) - 0.5))
    axes.set(ylabel=axis_title(pivot.rows), ylim=(len(down) - 0.5, -0.5))
    axes.grid(visible=False)


def lines_chart(result: Sweep, paged: bool) -> Chart:
    """Bus bandwidth of the fastest algorithm along an axis of a sweep; hollow marks where the
    fastest one changes."""
    pivot = _pivot(result)
    if pivot.rows == "bytes":
        pivot = pivot._replace(rows=pivot.cols, cols=pivot.rows)
    tables = list(pivot_tables(result, pivot))
    most, columns, fewer = _room(len(tables), paged)
    panels = []
    for at, (fixed, cells) in enumerate(tables[:most]):
        drawn = _drawn_rows(cells)
        left = f"{len(drawn)} of {len(cells)} lines" if len(drawn) < len(cells) else ""
        title = ", ".join(filter(None, (pivot_title(result, fixed), left)))
        panels.append(Panel(partial(_lines, result, pivot, cells, at % columns == 0), 2.9, title))
    rates = [cell.busbw_Bps for cell in result.cells if cell.busbw_Bps]
    per = (
        f", a line for each of {axis_title(pivot.rows)}"
        if len(axis_values(result, pivot.rows)) > 1
        else ""
    )
    reached = (
        f"It goes from {format_rate(min(rates), 3)} to {format_rate(max(rates), 3)}"
        if rates
        else "Nothing runs"
    )
    fastest = ", ".join(_winners(result)[:6])
    alt = (
        f"Bus bandwidth over {axis_title(pivot.cols)}{per}: {sweep_title(result)}. {reached};"
        f" fastest: {fastest}."
    )
    return Chart(
        f"busbw of the fastest: {sweep_title(result)}{fewer}", alt, tuple(panels), columns=columns
    )


def _drawn_rows(cells: Sequence[Sequence[Cell]]) -> list[int]:
    # rows with a price; of too many, an even selection of as many as can be told apart
    priced = [row for row, line in enumerate(cells) if any(cell.busbw_Bps for cell in line)]
    if len(priced) <= _MOST_LINES:
        return priced
    return [
        priced[round(step * (len(priced) - 1) / (_MOST_LINES - 1))] for step in range(_MOST_LINES)
    ]


def _lines(
    result: Sweep, pivot: Pivot, cells: list[list[Cell]], first: bool, axes: Axes, inches: float
) -> None:
    over, down = axis_values(result, pivot.cols), axis_values(result, pivot.rows)
    numbers = pivot.cols in ("bytes", "ranks") and all(
        isinstance(value, int | float) for value in over
    )
    places = [float(value) if numbers else float(place + 1) for place, value in enumerate(over)]
    every: list[float] = []
    for pen, row in enumerate(_drawn_rows(cells)):
        # NaN leaves a gap where nothing can be priced
        rates = [cell.busbw_Bps or nan for cell in cells[row]]
        name = f"{axis_title(pivot.rows)} {shown(pivot.rows, down[row])}"
        _pen_line(axes, places, rates, pen, name if len(down) > 1 else None)
        for at, (one, other) in enumerate(pairwise(cells[row])):
            if _changed(one, other) and one.busbw_Bps and other.busbw_Bps:
                middle = (
                    [sqrt(places[at] * places[at + 1])],
                    [sqrt(one.busbw_Bps * other.busbw_Bps)],
                )
                axes.plot(
                    *middle,
                    "o",
                    color=pen_of(pen).colour,
                    markerfacecolor=PAPER,
                    markersize=7,
                    zorder=4,
                )
        every += [rate for rate in rates if rate == rate]
    if any(_changed(one, other) for line in cells for one, other in pairwise(line)):
        axes.plot(
            [],
            [],
            "o",
            color=INK,
            markerfacecolor=PAPER,
            markersize=7,
            label="the fastest schedule changes",
        )
    _over_size(axes, places, every, inches - 1, first=first)
    if pivot.cols != "bytes":
        logs = pivot.cols == "ranks" and len(set(places)) == len(over) > 1
        kept = apart(places, inches - 1, logs=logs)
        axes.set_xscale("log" if logs else "linear")
        names = [shown(pivot.cols, over[at]) for at in kept]
        axes.set_xticks([places[at] for at in kept], names, rotation=45 if len(kept) > 5 else 0)
        axes.set_xticks([], minor=True)
        axes.set_xlabel(axis_title(pivot.cols))


def _pen_line(
    axes: Axes, places: Sequence[float], rates: Sequence[float], pen: int, name: str | None
) -> None:
    colour, dash, mark = pen_of(pen)
    every = max(1, len(places) // _MOST_MARKS)
    axes.plot(
        places,
        rates,
        color=colour,
        linestyle=dash,
        marker=mark,
        markersize=4,
        markevery=every,
        label=name,
    )


def _changed(one: Cell, other: Cell) -> bool:
    return bool(one.algorithm and other.algorithm and one.algorithm != other.algorithm)


def _over_size(
    axes: Axes, sizes: Sequence[float], rates: Sequence[float], inches: float, *, first: bool
) -> None:
    if rates:
        log_scale(
            axes, "y", (min(rates) / 1.4, max(rates) * 1.4), lambda rate: format_rate(rate, 3)
        )
    axes.set_xscale("log")
    ticks = sorted(sizes)
    ticks = [ticks[at] for at in apart(ticks, inches, logs=True)]
    axes.set_xticks(
        ticks, [size_text(size) for size in ticks], rotation=45 if len(ticks) > 5 else 0
    )
    axes.set_xticks([], minor=True)
    axes.set(xlabel="message size", ylabel="busbw" if first else "")


def comparison_chart(result: Comparison, paged: bool) -> Chart:
    """Bus bandwidth of each fabric over size, a panel per primitive and rank count; the band
    reaches to no contention."""
    every = list(dict.fromkeys((line.primitive, line.ranks) for line in result.lines))
    most, columns, fewer = _room(len(every), paged)
    panels = []
    for at, (primitive, ranks) in enumerate(every[:most]):
        lines = [
            line for line in result.lines if (line.primitive, line.ranks) == (primitive, ranks)
        ]
        panels.append(
            Panel(
                partial(_compared, result, lines, at % columns == 0),
                2.9,
                f"{primitive.spoken}, {ranks} ranks",
            )
        )
    names = ", ".join(one.name for one in result.columns)
    where = ", ".join(f"{primitive.spoken} on {ranks} ranks" for primitive, ranks in every)
    said = "; ".join(compared(result)[:3])
    alt = f"Bus bandwidth over message size of {names}: {where}. {said}."
    return Chart(
        f"{said} (bands: up to no contention){fewer}", alt, tuple(panels), columns=columns, points=9
    )


def _compared(
    result: Comparison, lines: list[CompareLine], first: bool, axes: Axes, inches: float
) -> None:
    rates: list[float] = []
    for column, one in enumerate(result.columns):
        cells = [(line.bytes, line.cells[column]) for line in lines]
        points = [
            (size, cell.busbw_Bps, cell.busbw_Bps * cell.total_s / cell.ideal_s)
            for size, cell in cells
            if cell.busbw_Bps and cell.total_s and cell.ideal_s
        ]
        sizes, own, quiet = ([point[part] for point in points] for part in range(3))
        _pen_line(axes, sizes, own, column, one.name)
        axes.fill_between(sizes, own, quiet, color=pen_of(column).colour, alpha=0.15, linewidth=0)
        rates += [*own, *quiet]
    _over_size(axes, [line.bytes for line in lines], rates, inches - 1, first=first)


def sensitivity_chart(result: Sensitivity, _paged: bool) -> Chart:
    """The spread of each algorithm's time over all samples, and a tornado chart of the numbers that
    move the winner."""
    moved = [one for one in result.moves if one.low_s != one.high_s]
    rows, moves = result.rows[:_MOST_BARS], moved[:_MOST_BARS]
    above = Panel(
        partial(_spreads, result, rows),
        0.32 * len(rows) + 1,
        "5th to 95th percentile and median over all samples",
    )
    below = Panel(
        partial(_tornado, result, moves),
        0.32 * len(moves) + 1,
        f"{result.winner} with one number changed",
    )
    often = ", ".join(f"{row.algorithm} {percent(row.wins)}" for row in result.rows[:3])
    most = f" {moved[0].key} moves it most." if moved else ""
    title = sensitivity_title(result)
    alt = f"{title}. Of all samples these win: {often}.{most}"
    return Chart(f"{title}: {safe(result)}", alt, (above, below), points=9)


def _spreads(result: Sensitivity, rows: Sequence[Spread], axes: Axes, inches: float) -> None:
    for at, row in enumerate(rows):
        colour = COLOURS[6] if row.algorithm == result.winner else COLOURS[7]
        axes.plot(
            [row.p5_s, row.p95_s],
            [at, at],
            color=colour,
            linewidth=7,
            solid_capstyle="butt",
            alpha=0.5,
        )
        axes.plot([row.p50_s], [at], "|", color=INK, markersize=9)
        axes.text(row.p95_s, at, f"  wins {percent(row.wins)}", va="center")
    _time_rows(axes, [row.algorithm for row in rows], inches)


def _tornado(result: Sensitivity, moves: Sequence[Any], axes: Axes, inches: float) -> None:
    today = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for at, one in enumerate(moves):
        for end, value, colour in (
            (one.low_s, one.low, COLOURS[0]),
            (one.high_s, one.high, COLOURS[1]),
        ):
            axes.barh(at, end - today, left=today, color=colour, height=0.6)
            side = "left" if end > today else "right"
            axes.text(end, at, f" {quantity(one.key, value)} ", va="center", ha=side, fontsize=7)
    axes.axvline(today, color=INK, linewidth=0.8)
    _time_rows(axes, [one.key for one in moves], inches)


def _time_rows(axes: Axes, names: list[str], inches: float) -> None:
    name_rows(axes, names, 0.28 * inches)
    axes.margins(x=0.2)
    value_axis(axes, lambda seconds: format_time(seconds, 3))
