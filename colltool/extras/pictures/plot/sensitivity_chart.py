"""The chart of sensitivity to uncertain numbers: the spread of each algorithm's time, and the numbers
that move the winner.

``result.rows`` are the algorithms' times over the samples, ``result.moves`` the winner's times with one number at
the low and at the high end of its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from colltool.analysis.sensitivity import Sensitivity, Spread, TornadoBar
from colltool.base.formatting import percent
from colltool.extras.pictures.plot.look import DARK_BLUE, GREY, INK, ORANGE, SKY, short_time
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
_NAMES_SHARE = 0.28  # of a panel's width that names of bars may take
_TEXT_MARGIN = 0.2  # beside the bars for the texts at their ends, as a share of the axis
_MOST_NAMED = 3  # algorithms in the text in place of the picture


def sensitivity_chart(result: Sensitivity, _paged: bool) -> Chart:
    """The spread of each algorithm's time over all samples, and a tornado chart of the numbers that
    move the winner. Screens and pages get the same: ``_paged``, which all charts take, is not used."""
    spreads = result.rows[:_MOST_BARS]
    # `moves` has the number that moves the winner most first
    influential = [bar for bar in result.moves if bar.low_s != bar.high_s]
    bars = influential[:_MOST_BARS]
    panels = (
        Panel(
            partial(_draw_spreads, result, spreads),
            _height(len(spreads)),
            "5th to 95th percentile and median over all samples",
        ),
        Panel(
            partial(_draw_tornado, result, bars),
            _height(len(bars)),
            f"{result.winner} with one number changed",
        ),
    )
    named = result.rows[:_MOST_NAMED]
    wins = ", ".join(f"{spread.algorithm} {percent(spread.wins)}" for spread in named)
    title = sensitivity_title(result)
    alt = f"{title}. Of all samples these win: {wins}."
    if influential:
        alt += f" {influential[0].key} moves it most."
    return Chart(f"{title}: {sensitivity_verdict(result)}", alt, panels, points=9)


def _height(bars: int) -> float:
    """Inches of a panel with so many bars."""
    return _BAR_INCHES * bars + _FRAME_INCHES


def _draw_spreads(
    result: Sensitivity, spreads: Sequence[Spread], axes: Axes, inches: float
) -> None:
    """Draw each algorithm's times over the samples as a bar, with a mark at the median."""
    for row, spread in enumerate(spreads):
        colour = DARK_BLUE if spread.algorithm == result.winner else GREY
        ends = [spread.p5_s, spread.p95_s]
        axes.plot(ends, [row, row], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.5)
        axes.plot([spread.p50_s], [row], "|", color=INK, markersize=9)
        axes.text(spread.p95_s, row, f"  wins {percent(spread.wins)}", va="center")
    _time_rows(axes, [spread.algorithm for spread in spreads], inches)


def _draw_tornado(
    result: Sensitivity, bars: Sequence[TornadoBar], axes: Axes, inches: float
) -> None:
    """Draw the winner's time with each number at its low and its high end, from the nominal time."""
    nominal_s = next(row.nominal_s for row in result.rows if row.algorithm == result.winner)
    for row, bar in enumerate(bars):
        ends = ((bar.low_s, bar.low, SKY), (bar.high_s, bar.high, ORANGE))
        for end_s, value, colour in ends:
            axes.barh(row, end_s - nominal_s, left=nominal_s, color=colour, height=0.6)
            side = "left" if end_s > nominal_s else "right"
            text = f" {quantity(bar.key, value)} "
            axes.text(end_s, row, text, va="center", ha=side, fontsize=7)
    axes.axvline(nominal_s, color=INK, linewidth=0.8)
    _time_rows(axes, [bar.key for bar in bars], inches)


def _time_rows(axes: Axes, names: list[str], inches: float) -> None:
    """Name the bars, and label the axis of times."""
    name_rows(axes, names, _NAMES_SHARE * inches)
    axes.margins(x=_TEXT_MARGIN)
    value_axis(axes, short_time)
