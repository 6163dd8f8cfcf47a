"""The matrix of a fleet: every pair of hosts that ran together, coloured by its rate relative to
the others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from colltool.base.formatting import counted, whole_percent
from colltool.diagnosis.fleet import SLOW
from colltool.diagnosis.results import Fleet, FleetPair
from colltool.extras.pictures.plot.chart import COLOURS, GREY, Chart, Key, Panel, text_on, thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# from so much of the median on: green, sky, orange, vermilion
_LEVELS = ((0.95, COLOURS[2]), (SLOW, COLOURS[0]), (0.6, COLOURS[1]), (0.0, COLOURS[5]))
_MOST_NUMBERED = 24  # hosts whose cells have room for a number


def fleet_chart(fleet: Fleet) -> Chart:
    count = len(fleet.hosts)
    side = min(12.0, max(3.0, 0.32 * count + 1.0))
    panel = Panel(
        partial(_matrix, fleet), side, "each pair's slowest run, in % of the median of runs like it"
    )
    worst = sorted(
        (pair for pair in fleet.pairs if pair.of_fleet is not None),
        key=lambda pair: pair.of_fleet or 0.0,
    )[:3]
    slow = "; ".join(
        f"{pair.a} and {pair.b} {whole_percent(pair.of_fleet or 0.0)}" for pair in worst
    )
    title = f"{counted(count, 'host')} in {counted(fleet.files, 'run')}"
    alt = f"Matrix of pairs, {title}. Slowest: {slow}. {'. '.join(fleet.said)}."
    below = [None, *(level for level, _ in _LEVELS)]
    keys = [
        Key(
            f"from {whole_percent(level)}" if level else f"below {whole_percent(below[at] or 1.0)}",
            colour,
        )
        for at, (level, colour) in enumerate(_LEVELS)
    ]
    return Chart(title, alt, (panel,), [*keys, Key("failed", GREY)], 1, side + 1.5)


def _colour(pair: FleetPair) -> str:
    if pair.failed or pair.of_fleet is None:
        return GREY
    return next(colour for level, colour in _LEVELS if pair.of_fleet >= level)


def _matrix(fleet: Fleet, axes: Axes, _inches: float) -> None:
    names = [one.host for one in fleet.hosts]
    at = {name: place for place, name in enumerate(names)}
    for pair in fleet.pairs:
        row, column = max(at[pair.a], at[pair.b]), min(at[pair.a], at[pair.b])
        colour = _colour(pair)
        axes.fill_between(
            [column - 0.5, column + 0.5], row - 0.5, row + 0.5, color=colour, linewidth=0
        )
        if len(names) <= _MOST_NUMBERED:
            said = "x" if pair.failed or pair.of_fleet is None else f"{100 * pair.of_fleet:.0f}"
            axes.text(
                column, row, said, ha="center", va="center", fontsize=6, color=text_on(colour)
            )
    places = thinned(range(len(names)), 40)
    axes.set_xticks(places, [names[place] for place in places], rotation=90)
    axes.set_yticks(places, [names[place] for place in places])
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.grid(visible=False)
