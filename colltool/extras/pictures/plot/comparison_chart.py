"""The chart of a comparison of fabrics: lines of bus bandwidth over message size, which
:mod:`colltool.extras.pictures.plot.sweep_charts` draws too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from colltool.analysis.compare import Comparison
from colltool.analysis.outcomes import CompareLine
from colltool.base.formatting import format_rate, size_text
from colltool.extras.pictures.plot.look import pen_of
from colltool.extras.pictures.plot.panels import Chart, Panel, chart_of_tables
from colltool.extras.pictures.plot.ticks import in_first_column, indices_with_room, log_scale, slant
from colltool.render.views.compare import verdict as comparison_verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_INCHES = 2.9
"""Height of a panel of lines."""
_MOST_MARKS = 12  # per line
_MOST_VERDICTS = 3  # in the title


def comparison_chart(result: Comparison, paged: bool) -> Chart:
    """Bus bandwidth of each fabric over size, a panel a primitive and rank count; a band above each
    line reaches to what it would be without contention."""
    groups: dict[tuple[str, int], list[CompareLine]] = {}
    for line in result.lines:
        groups.setdefault((line.primitive.label, line.ranks), []).append(line)
    panels = []
    questions = []
    for (primitive, ranks), lines in groups.items():
        title = f"{primitive}, {ranks} ranks"
        panels.append(Panel(partial(_draw_compared, result, lines), PANEL_INCHES, title))
        questions.append(f"{primitive} on {ranks} ranks")
    names = ", ".join(column.name for column in result.columns)
    verdict = "; ".join(comparison_verdict(result)[:_MOST_VERDICTS])
    alt = f"Bus bandwidth over message size of {names}: {', '.join(questions)}. {verdict}."
    return chart_of_tables(f"{verdict} (bands: up to no contention)", alt, panels, paged, points=9)


def _draw_compared(result: Comparison, lines: list[CompareLine], axes: Axes, inches: float) -> None:
    """Draw the busbw of each fabric, and a band from there to that without contention; ``lines``: one
    a size."""
    all_rates: list[float] = []
    for index, column in enumerate(result.columns):
        sizes = []
        rates = []
        without_contention = []
        for line in lines:
            cell = line.cells[index]
            if cell.busbw_Bps and cell.total_s:
                # a measured machine has no time without contention, and so no band
                ideal_s = cell.ideal_s or cell.total_s
                sizes.append(line.bytes)
                rates.append(cell.busbw_Bps)
                without_contention.append(cell.busbw_Bps * cell.total_s / ideal_s)
        pen_line(axes, sizes, rates, index, column.name)
        colour = pen_of(index).colour
        axes.fill_between(sizes, rates, without_contention, color=colour, alpha=0.15, linewidth=0)
        all_rates += rates + without_contention
    # an inch is for the labels at the side
    over_size(axes, [line.bytes for line in lines], all_rates, inches - 1)


def pen_line(
    axes: Axes, places: Sequence[float], rates: Sequence[float], pen: int, name: str | None
) -> None:
    """Draw rates over places of the x axis as a line with pen number ``pen``; without a name it is not
    in the legend."""
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


def over_size(axes: Axes, sizes: Sequence[float], rates: Sequence[float], inches: float) -> None:
    """Set log axes of busbw over message size, with a tick at each size that has room on an axis of so
    many inches."""
    if rates:
        ends = (min(rates) / 1.4, max(rates) * 1.4)
        log_scale(axes, "y", ends, partial(format_rate, digits=3))
    axes.set_xscale("log")
    ordered = sorted(sizes)
    ticks = [ordered[index] for index in indices_with_room(ordered, inches, logs=True)]
    axes.set_xticks(ticks, list(map(size_text, ticks)), rotation=slant(ticks, 5))
    axes.set_xticks([], minor=True)
    axes.set(xlabel="message size", ylabel="busbw" if in_first_column(axes) else "")
