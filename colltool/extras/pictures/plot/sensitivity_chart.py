"""The chart of sensitivity to uncertain numbers: the spread of each algorithm's time, and the numbers
that move the winner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from colltool.analysis.sensitivity import Sensitivity, Spread, TornadoBar
from colltool.base.formatting import format_time, percent
from colltool.extras.pictures.plot.look import DARK_BLUE, GREY, INK, ORANGE, SKY
from colltool.extras.pictures.plot.panels import Chart, Panel
from colltool.extras.pictures.plot.ticks import name_rows, value_axis
from colltool.render.views.sensitivity import quantity, sensitivity_title
from colltool.render.views.sensitivity import verdict as sensitivity_verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 12  # of spreads and of moved numbers
# Inches of a panel's height: a bar with the gap to the next, and the title with the axis.
_BAR_INCHES = 0.32
_FRAME_INCHES = 1.0
# The share of a panel's width that names of bars may take.
_NAMES_SHARE = 0.28
# Room beside the bars for the texts at their ends, as a share of the axis.
_TEXT_MARGIN = 0.2


def sensitivity_chart(result: Sensitivity, _paged: bool) -> Chart:
    """The spread of each algorithm's time over all samples, and a tornado chart of the numbers that
    move the winner. Screens and pages get the same: ``_paged``, which all charts take, is not used."""
    influential = [bar for bar in result.moves if bar.low_s != bar.high_s]
    rows = result.rows[:_MOST_BARS]
    bars = influential[:_MOST_BARS]
    above = _bar_panel(
        partial(_spreads, result, rows), rows, "5th to 95th percentile and median over all samples"
    )
    below = _bar_panel(
        partial(_tornado, result, bars), bars, f"{result.winner} with one number changed"
    )
    win_counts = ", ".join(f"{row.algorithm} {percent(row.wins)}" for row in result.rows[:3])
    title = sensitivity_title(result)
    alt = f"{title}. Of all samples these win: {win_counts}."
    if influential:
        alt += f" {influential[0].key} moves it most."
    return Chart(f"{title}: {sensitivity_verdict(result)}", alt, (above, below), points=9)


def _bar_panel(
    draw: Callable[[Axes, float], None], rows: Sequence[Spread] | Sequence[TornadoBar], title: str
) -> Panel:
    return Panel(draw, _BAR_INCHES * len(rows) + _FRAME_INCHES, title)


def _spreads(result: Sensitivity, rows: Sequence[Spread], axes: Axes, inches: float) -> None:
    """Draw each algorithm's times over the samples as a bar, with a mark at the median."""
    for at, row in enumerate(rows):
        colour = DARK_BLUE if row.algorithm == result.winner else GREY
        ends = [row.p5_s, row.p95_s]
        axes.plot(ends, [at, at], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.5)
        axes.plot([row.p50_s], [at], "|", color=INK, markersize=9)
        axes.text(row.p95_s, at, f"  wins {percent(row.wins)}", va="center")
    _time_rows(axes, [row.algorithm for row in rows], inches)


def _tornado(result: Sensitivity, bars: Sequence[TornadoBar], axes: Axes, inches: float) -> None:
    """Draw the winner's time with each number at its low and its high end, from the nominal time."""
    nominal_s = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for at, bar in enumerate(bars):
        ends = ((bar.low_s, bar.low, SKY), (bar.high_s, bar.high, ORANGE))
        for end_s, value, colour in ends:
            axes.barh(at, end_s - nominal_s, left=nominal_s, color=colour, height=0.6)
            side = "left" if end_s > nominal_s else "right"
            text = f" {quantity(bar.key, value)} "
            axes.text(end_s, at, text, va="center", ha=side, fontsize=7)
    axes.axvline(nominal_s, color=INK, linewidth=0.8)
    _time_rows(axes, [bar.key for bar in bars], inches)


def _time_rows(axes: Axes, names: list[str], inches: float) -> None:
    name_rows(axes, names, _NAMES_SHARE * inches)
    axes.margins(x=_TEXT_MARGIN)
    value_axis(axes, partial(format_time, digits=3))
