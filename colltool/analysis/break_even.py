"""Break-evens: the value of a number, nearest to the file's, at which another schedule wins.

:func:`break_evens` is the entry: each number is moved up and down from the file's value until the
winner changes, and the change is closed in on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from colltool.analysis.cells import Floats, winner
from colltool.analysis.what_if import WhatIf, seconds_by_title
from colltool.base.arrays import first_least
from colltool.base.result import with_progress
from colltool.fabric.ranges import ParameterRange
from colltool.fabric.values import Place, with_values

# Factor up or down to which a break-even is sought: beyond it the number is another machine's.
FARTHEST = 100.0
# Values tried in each direction and round; five rounds of closing in settle the twelfth digit.
POINTS = 401
ROUNDS = 5
# Directions priced in one go: shared work is done once, and arrays stay small.
DIRECTIONS_AT_ONCE = 10


class BreakEven(NamedTuple):
    """The value of a number nearest to the file's (``factor`` times it) at which another schedule
    wins."""

    key: str
    value: float
    factor: float
    winner: str


@dataclass
class Direction:
    """A number, and values that lead away from the file's, nearest first; ``winner`` wins at the
    first of them, and is set once a change is known to lie between the first and the last."""

    number: ParameterRange
    values: Floats
    winner: str = ""


def break_evens(question: WhatIf, numbers: Sequence[ParameterRange]) -> tuple[BreakEven, ...]:
    """The nearest change of winner for each number, up or down; nearest first, numbers that never
    change it left out."""
    factors = np.geomspace(1, FARTHEST, POINTS)
    directions = []
    for number in numbers:
        # there is no factor of 0
        if not number.value:
            continue
        for values in (number.value * factors, number.value / factors):
            within = np.clip(values, *number.limits)
            directions.append(Direction(number, within))
    both_ways: list[BreakEven] = []
    for start in with_progress(range(0, len(directions), DIRECTIONS_AT_ONCE)):
        batch = directions[start : start + DIRECTIONS_AT_ONCE]
        both_ways += [
            _first_other_winner(question, direction) for direction in _close_in(question, batch)
        ]
    # of a number that changes the winner upwards and downwards the nearer one stays
    both_ways.sort(key=lambda change: abs(log(change.factor)))
    nearest: dict[str, BreakEven] = {}
    for change in both_ways:
        nearest.setdefault(change.key, change)
    return tuple(nearest.values())


def _close_in(question: WhatIf, directions: Sequence[Direction]) -> list[Direction]:
    """The directions in which the winner changes, closed in on their first change.

    All are priced together in each round. Where a closer look shows no change any more, it lies
    within rounding, and the last values stay.
    """
    directions_left = list(directions)
    for _ in range(ROUNDS):
        changing = []
        for direction, names in zip(
            directions_left, _winners(question, directions_left), strict=True
        ):
            # ring, ring, tree, ...: the change lies between the second value and the third
            changed = next((index for index, name in enumerate(names) if name != names[0]), None)
            if changed is None:
                continue
            before, after = direction.values[changed - 1 : changed + 1]
            direction.values = np.linspace(before, after, POINTS)
            direction.winner = names[0]
            changing.append(direction)
        directions_left = changing
        if not directions_left:
            break
    return [direction for direction in directions if direction.winner]


def _first_other_winner(question: WhatIf, direction: Direction) -> BreakEven:
    """The first value past a change at which a single price names another winner too: at the change
    itself both tie up to rounding."""
    number = direction.number
    before = float(direction.values[0])
    after = float(direction.values[-1])
    least, most = number.limits
    sign = 1 if after > before else -1
    # the change itself, then 1e-15, 1e-14 ... beyond it; the last where none names another
    for distance in (0.0, *(10.0**power for power in range(-15, -9))):
        moved = after * (1 + sign * distance)
        value = min(most, max(least, moved))
        fabric = with_values(question.fabric, {number.place: value})
        fastest = winner(fabric, question.request, question.group, question.size)
        if fastest.title != direction.winner:
            break
    return BreakEven(
        number.key,
        value,
        factor=value / number.value,
        winner=fastest.title,
    )


def _winners(question: WhatIf, directions: Sequence[Direction]) -> list[list[str]]:
    """The winner's title at each value of each direction."""
    # Each number has its own values, while those of other directions are priced with the file's: of
    # a (2) upwards and b (20) downwards, with two values each, a is 2, 200, 2, 2 and b 20, 20, 20,
    # 0.2.
    count = POINTS * len(directions)
    varied: dict[Place, Floats] = {}
    for direction in directions:
        number = direction.number
        varied[number.place] = np.full(count, number.value)
    for index, direction in enumerate(directions):
        start = POINTS * index
        varied[direction.number.place][start : start + POINTS] = direction.values
    seconds = seconds_by_title(question.rows(varied, count), count)
    titles = list(seconds)
    fastest = first_least(list(seconds.values()))
    names = [titles[index] for index in fastest]
    return [names[start : start + POINTS] for start in range(0, count, POINTS)]
