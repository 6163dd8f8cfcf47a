"""The smallest change of one number of a fabric that changes the winner."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from colltool.analysis.grid import Floats, PriceRequest, leading_rows
from colltool.analysis.grid import winner as fastest_one
from colltool.base.arrays import first_least
from colltool.base.result import followed
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.variants import ParameterRange, with_values

FARTHEST = 100.0  # factor up or down: beyond it the number is another machine's
POINTS = 401
ROUNDS = 5  # each zooms in between two neighbours: beyond the twelfth digit
AT_ONCE = 10  # directions priced in one go: shared work is done once, and arrays stay small
MANY = 100  # numbers: beyond, pricing slows down with each, so only some are examined
FEW = 10


class Direction(NamedTuple):
    number: ParameterRange
    values: Floats


class BreakEven(NamedTuple):
    """The value of a number nearest to the file's (``factor`` times it) at which another schedule wins."""

    key: str
    value: float
    factor: float
    winner: str


def at_both_ends(fabric: Fabric, numbers: Sequence[ParameterRange]) -> Fabric:
    """Two array elements per number: at its low and at its high end, with all others as in the file."""
    varied = {one.place: np.full(2 * len(numbers), one.value) for one in numbers}
    for at, one in enumerate(numbers):
        varied[one.place][2 * at : 2 * at + 2] = one.low, one.high
    return with_values(fabric, varied)


def foremost(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, numbers: Sequence[ParameterRange]
) -> Sequence[ParameterRange]:
    """At most :data:`MANY` numbers as they are; of more, only those that move some schedule's time most."""
    if len(numbers) <= MANY:
        return numbers
    rows = leading_rows(at_both_ends(fabric, numbers), group, asked, np.full(2 * len(numbers), size))
    totals = np.stack([np.broadcast_to(row.total_s, (2 * len(numbers),)) for row in rows])
    low, high = totals[:, ::2], totals[:, 1::2]
    order = np.argsort(-np.abs(np.log(high / low)).max(axis=0), kind="stable")[: max(FEW, MANY**2 // len(numbers))]
    return [numbers[at] for at in sorted(order)]


def break_evens(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, numbers: Sequence[ParameterRange]
) -> tuple[BreakEven, ...]:
    """The nearest change of winner for each number, up or down; nearest first, numbers that never change it left out."""
    sides = [Direction(one, values) for one in numbers if one.value for values in _away(one)]
    found: dict[str, BreakEven] = {}
    for start in followed(range(0, len(sides), AT_ONCE)):
        some = sides[start : start + AT_ONCE]
        for side, names in zip(some, _winners(fabric, asked, group, size, some), strict=True):
            flip = _first(fabric, asked, group, size, side, names)
            if flip is not None:
                found[flip.key] = min(found.get(flip.key, flip), flip, key=_distance)
    return tuple(sorted(found.values(), key=_distance))


def _distance(flip: BreakEven) -> float:
    return abs(log(flip.factor))


def _away(one: ParameterRange) -> tuple[Floats, Floats]:
    least, most = one.limits
    up = np.geomspace(1, FARTHEST, POINTS)
    return np.clip(one.value * up, least, most), np.clip(one.value / up, least, most)


def _first(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, side: Direction, names: Sequence[str]
) -> BreakEven | None:
    """The first change of winner, zooming in; ``names``: the winners at ``side.values``, which lead away from the file's."""
    before = winner = ""
    for left in reversed(range(ROUNDS)):
        other = next((index for index, name in enumerate(names) if name != names[0]), None)
        if other is None:
            break
        before, winner = names[0], names[other]
        side = side._replace(values=np.linspace(side.values[other - 1], side.values[other], POINTS))
        if left:
            (names,) = _winners(fabric, asked, group, size, [side])
    last = before, float(side.values[0]), float(side.values[-1])
    return _settled(fabric, asked, group, size, side.number, last) if winner else None


def _settled(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, one: ParameterRange, last: tuple[str, float, float]
) -> BreakEven:
    """The first value past a change at which a scalar price names another winner too (at the change both tie up to rounding).

    ``last``: the winner before, the last value where it wins, the first where it does not.
    """
    before, inside, value = last
    least, most = one.limits
    for away in (0.0, *(10.0**power for power in range(-15, -9))):
        tried = min(most, max(least, value * (1 + away if value > inside else 1 - away)))
        winner = fastest_one(with_values(fabric, {one.place: tried}), asked, group, size).title
        if winner != before:
            break
    return BreakEven(one.key, tried, tried / one.value, winner)


def _winners(fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, sides: Sequence[Direction]) -> list[list[str]]:
    count = POINTS * len(sides)
    varied = {side.number.place: np.full(count, side.number.value) for side in sides}
    for at, side in enumerate(sides):
        varied[side.number.place][POINTS * at : POINTS * (at + 1)] = side.values
    rows = leading_rows(with_values(fabric, varied), group, asked, np.full(count, size))
    first = first_least([np.broadcast_to(row.total_s, (count,)) for row in rows])
    names = [rows[index].title for index in first]
    return [names[start : start + POINTS] for start in range(0, count, POINTS)]
