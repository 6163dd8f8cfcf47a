"""Axes of plots: which ticks have room, how they are labelled, and scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Literal

from colltool.extras.pictures.plot.look import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SLANTED = 0.3  # inches from one slanted label to the next


def decade_ticks(low: float, high: float, steps: Iterable[Iterable[float]]) -> list[float]:
    """Round ticks of a log axis from ``low`` to ``high``.

    ``steps`` are digits of the ticks in each decade, few to many, such as ``((1,), (1, 2, 5))``; the
    first that give three ticks are taken.
    """
    return first_of_three(_multiples(low, high, digits) for digits in steps)


def _multiples(low: float, high: float, digits: Iterable[float]) -> list[float]:
    """These digits times each power of ten within the ends of an axis."""
    ticks = []
    for decade in range(floor(log10(low)), ceil(log10(high)) + 1):
        ticks += [digit * 10.0**decade for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


def first_of_three(choices: Iterable[list[Any]]) -> list[Any]:
    """The first choice with at least three ticks, else the last."""
    ticks: list[Any] = []
    for ticks in choices:
        if len(ticks) >= 3:
            break
    return ticks


def thinned(ticks: Sequence[Any], most: int = 12) -> list[Any]:
    """Every n-th tick, so that at most ``most`` are left."""
    step = ceil(len(ticks) / most) or 1
    return list(ticks[::step])


def slant(labels: Sequence[Any], most: int) -> int:
    """The angle of tick labels in degrees: more than ``most`` of them would overlap if level."""
    return 45 if len(labels) > most else 0


def indices_with_room(places: Sequence[float], inches: float, *, logs: bool = False) -> list[int]:
    """Indices of those places on an axis that have room for a slanted label.

    ``places``: ascending values of the axis, one at least; ``inches``: its length; ``logs``: whether
    it is logarithmic.
    """
    if logs:
        places = list(map(log10, places))
    # any length will do for a single place
    length = (places[-1] - places[0]) or 1.0
    indices = [0]
    for index, place in enumerate(places):
        distance = place - places[indices[-1]]
        if distance / length * inches >= _SLANTED:
            indices.append(index)
    return indices


def log_scale(
    axes: Axes, which: Literal["x", "y"], ends: tuple[float, float], show: Callable[[float], str]
) -> None:
    """Make an axis logarithmic from end to end, with ticks at decades where these are three, else at 1,
    2 and 5 of each, else at every digit."""
    ticks = thinned(decade_ticks(*ends, ((1,), (1, 2, 5), range(1, 10))))
    axes.minorticks_off()
    axes.set(**{f"{which}scale": "log", f"{which}lim": ends})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(ticks, list(map(show, ticks)))
    axis.set_ticks([], minor=True)


def in_first_column(axes: Axes) -> bool:
    """Whether a panel is at the left edge of its figure."""
    place = axes.get_subplotspec()
    return place is not None and place.is_first_col()


def name_rows(axes: Axes, names: Sequence[str], inches: float) -> None:
    """Label the rows of a panel, at 0, 1, ... from the top, with names that take so many inches."""
    axes.set_yticks(range(len(names)), [wrapped(name, inches) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def value_axis(axes: Axes, show: Callable[[float], str]) -> None:
    """Label the x axis with values as ``show`` writes them."""
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: show(value))
