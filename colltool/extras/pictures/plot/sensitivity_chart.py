"""The chart of sensitivity to uncertain numbers: the spread of each algorithm's time, and the numbers
that move the winner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from colltool.analysis.sensitivity import Sensitivity, Spread
from colltool.base.formatting import format_time, percent
from colltool.extras.pictures.plot.look import DARK_BLUE, GREY, INK, ORANGE, SKY
from colltool.extras.pictures.plot.panels import Chart, Panel
from colltool.extras.pictures.plot.ticks import name_rows, value_axis
from colltool.render.views.sensitivity import quantity, sensitivity_title
from colltool.render.views.sensitivity import verdict as sensitivity_verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 12  # of spreads and of moved numbers


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


def _bar_panel(draw: Callable[[Axes, float], None], rows: Sequence[Any], title: str) -> Panel:
    return Panel(draw, 0.32 * len(rows) + 1, title)


def _spreads(result: Sensitivity, rows: Sequence[Spread], axes: Axes, inches: float) -> None:
    """Draw each algorithm's times over the samples as a bar, with a mark at the median."""
    for at, row in enumerate(rows):
        colour = DARK_BLUE if row.algorithm == result.winner else GREY
        ends = [row.p5_s, row.p95_s]
        axes.plot(ends, [at, at], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.5)
        axes.plot([row.p50_s], [at], "|", color=INK, markersize=9)
        axes.text(row.p95_s, at, f"  wins {percent(row.wins)}", va="center")
    _time_rows(axes, [row.algorithm for row in rows], inches)


def _tornado(result: Sensitivity, moves: Sequence[Any], axes: Axes, inches: float) -> None:
    """Draw the winner's time with each number at its low and its high end, from the nominal time."""
    nominal_s = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for at, move in enumerate(moves):
        ends = ((move.low_s, move.low, SKY), (move.high_s, move.high, ORANGE))
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
