"""The matrix of a fleet: every pair of hosts that ran together, coloured by its rate relative to
the others: ``of_fleet``, the share of the median that its slowest run reaches; None where no run has a rate."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from colltool.base.formatting import counted, whole_percent
from colltool.diagnosis.fleet import SLOW
from colltool.diagnosis.results import Fleet, FleetPair
from colltool.extras.pictures.plot.look import GREEN, ORANGE, PALE_GREY, SKY, VERMILION, text_in
from colltool.extras.pictures.plot.panels import Chart, Key, Panel
from colltool.extras.pictures.plot.ticks import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours by the share of the median that a pair reaches at least, in descending order. Pairs within
# 95% differ by no more than runs of one pair do; below 60% most have lost links.
_LEVELS = {0.95: GREEN, SLOW: SKY, 0.6: ORANGE}
_BELOW = VERMILION
_KEYS = (
    *(Key(f"from {whole_percent(level)}", colour) for level, colour in _LEVELS.items()),
    Key(f"below {whole_percent(min(_LEVELS))}", _BELOW),
    Key("failed", PALE_GREY),
)
_MOST_NUMBERED = 24  # hosts whose cells have room for a number
_MOST_LABELS = 40  # hosts named along an axis
_MOST_NAMED = 3  # pairs in the text for screen readers


def fleet_chart(fleet: Fleet) -> Chart:
    """The chart of a fleet; its text for screen readers names the three slowest pairs."""
    count = len(fleet.hosts)
    # inches: a third of an inch a host, within a page
    side = min(12.0, max(3.0, 0.32 * count + 1.0))
    panel_title = "each pair's slowest run, in % of the median of runs like it"
    panel = Panel(partial(_draw_matrix, fleet), side, panel_title)
    rated = [pair for pair in fleet.pairs if pair.of_fleet is not None]
    slow = []
    for pair in sorted(rated, key=attrgetter("of_fleet"))[:_MOST_NAMED]:
        slow.append(f"{pair.a} and {pair.b} {whole_percent(pair.of_fleet or 0.0)}")
    title = f"{counted(count, 'host')} in {counted(fleet.files, 'run')}"
    alt = (
        f"Matrix of pairs, {title}. Slowest: {'; '.join(slow)}. {'. '.join(map(str, fleet.said))}."
    )
    return Chart(title, alt, (panel,), _KEYS, inches=side + 1.5)


def _cell(pair: FleetPair) -> tuple[str, str]:
    """Return the colour of a pair's cell, and the text in it: percent, or an x for a failed pair."""
    share = pair.of_fleet
    if pair.failed or share is None:
        return PALE_GREY, "x"
    colours = (colour for level, colour in _LEVELS.items() if share >= level)
    return next(colours, _BELOW), f"{100 * share:.0f}"


def _draw_matrix(fleet: Fleet, axes: Axes, _inches: float) -> None:
    """Draw a cell for each pair, below the diagonal."""
    names = [host.host for host in fleet.hosts]
    index_of = {name: index for index, name in enumerate(names)}
    for pair in fleet.pairs:
        # a pair has one cell, whose row is the larger index
        column, row = sorted((index_of[pair.a], index_of[pair.b]))
        colour, text = _cell(pair)
        sides = [column - 0.5, column + 0.5]
        axes.fill_between(sides, row - 0.5, row + 0.5, color=colour, linewidth=0)
        if len(names) <= _MOST_NUMBERED:
            text_in(axes, (column, row), colour, len(text), text, fontsize=6)
    ticks = thinned(range(len(names)), _MOST_LABELS)
    labels = [names[tick] for tick in ticks]
    axes.set_xticks(ticks, labels, rotation=90)
    axes.set_yticks(ticks, labels)
    end = len(names) - 0.5
    axes.set(xlim=(-0.5, end), ylim=(end, -0.5))
    axes.grid(visible=False)
