"""Axes of plots: which ticks have room, and scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Literal

from colltool.extras.pictures.plot.look import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SLANTED = 0.3  # inches from one slanted label to the next


def decade_ticks(low: float, high: float, steps: Iterable[Iterable[float]]) -> list[float]:
    """Round ticks of a log axis from ``low`` to ``high``: the first of the digits in a decade that
    give three."""
    return first_of_three(_multiples(low, high, digits) for digits in steps)


def _multiples(low: float, high: float, digits: Iterable[float]) -> list[float]:
    """These digits times each power of ten within the ends of an axis."""
    ticks = []
    for decade in range(floor(log10(low)), ceil(log10(high)) + 1):
        ticks += [digit * 10.0**decade for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


def first_of_three(choices: Iterable[list[Any]]) -> list[Any]:
    """The first choice with at least three ticks, else the last."""
    several = list(choices)
    return next((ticks for ticks in several if len(ticks) >= 3), several[-1])


def thinned(ticks: Sequence[Any], most: int = 12) -> list[Any]:
    """Every n-th tick, so that at most ``most`` are left."""
    step = ceil(len(ticks) / most) or 1
    return list(ticks[::step])


def slant(labels: Sequence[Any], most: int) -> int:
    """The angle of tick labels, of which more than ``most`` would overlap."""
    return 45 if len(labels) > most else 0


def apart(places: Sequence[float], inches: float, *, logs: bool = False) -> list[int]:
    """Indices of those of the ascending places on an axis that have room for a slanted label."""
    if logs:
        places = list(map(log10, places))
    length = (places[-1] - places[0]) or 1.0
    indices: list[int] = []
    for index, place in enumerate(places):
        if not indices or (place - places[indices[-1]]) / length * inches >= _SLANTED:
            indices.append(index)
    return indices


def log_scale(
    axes: Axes, which: Literal["x", "y"], ends: tuple[float, float], show: Callable[[float], str]
) -> None:
    """Ticks at decades, else 1-2-5, else every digit."""
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
    axes.set_yticks(range(len(names)), [wrapped(name, inches) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def value_axis(axes: Axes, show: Callable[[float], str]) -> None:
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: show(value))
