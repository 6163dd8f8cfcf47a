"""The smallest change of one number of a fabric that changes the winner."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from colltool.elementwise import first_least
from colltool.fabric.many import with_values
from colltool.fabric.model import Fabric
from colltool.fabric.uncertain import Uncertain
from colltool.pricing.who import Who
from colltool.study.grid import Asked, Floats, leading_rows
from colltool.study.grid import winner as fastest_one

FARTHEST = 100.0  # times and a hundredth: beyond it the number is another machine's
POINTS = 401
ROUNDS = 5  # of 401 points between two neighbours: beyond the twelfth digit


class Flip(NamedTuple):
    """The value of a number nearest to the file's at which another schedule becomes the fastest; ``factor`` of the file's."""

    key: str
    value: float
    factor: float
    winner: str


def flips(fabric: Fabric, asked: Asked, group: Who, size: float, numbers: Sequence[Uncertain]) -> tuple[Flip, ...]:
    """Of each number the nearest change of the winner, up or down, the nearest number first; none where it never changes."""
    found = [flip for one in numbers for flip in [_nearest(fabric, asked, group, size, one)] if flip is not None]
    return tuple(sorted(found, key=lambda flip: abs(log(flip.factor))))


def _nearest(fabric: Fabric, asked: Asked, group: Who, size: float, one: Uncertain) -> Flip | None:
    if not one.value:
        return None
    least, most = one.limits
    up = np.geomspace(1, FARTHEST, POINTS)
    sides = [np.clip(one.value * up, least, most), np.clip(one.value / up, least, most)]
    found = [flip for side in sides for flip in [_first(fabric, asked, group, size, one, side)] if flip is not None]
    return min(found, key=lambda flip: abs(log(flip.factor)), default=None)


def _first(fabric: Fabric, asked: Asked, group: Who, size: float, one: Uncertain, values: Floats) -> Flip | None:
    """The first change of the winner along values that go away from the file's."""
    before = winner = ""
    for _ in range(ROUNDS):
        names = _winners(fabric, asked, group, size, one, values)
        other = next((index for index, name in enumerate(names) if name != names[0]), None)
        if other is None:
            break
        before, winner = names[0], names[other]
        values = np.linspace(values[other - 1], values[other], POINTS)
    return _settled(fabric, asked, group, size, one, (before, float(values[0]), float(values[-1]))) if winner else None


def _settled(fabric: Fabric, asked: Asked, group: Who, size: float, one: Uncertain, last: tuple[str, float, float]) -> Flip:
    """The first value behind a change at which a price, too, names another winner: the two are equals but for rounding there.

    ``last``: the winner before the change, the last value at which it is, and the first at which it is no more.
    """
    before, inside, value = last
    least, most = one.limits
    for away in (0.0, *(10.0**power for power in range(-15, -9))):
        tried = min(most, max(least, value * (1 + away if value > inside else 1 - away)))
        winner = fastest_one(with_values(fabric, {one.place: tried}), asked, group, size).title
        if winner != before:
            break
    return Flip(one.key, tried, tried / one.value, winner)


def _winners(fabric: Fabric, asked: Asked, group: Who, size: float, one: Uncertain, values: Floats) -> list[str]:
    rows = leading_rows(with_values(fabric, {one.place: values}), group, asked, np.full(len(values), size))
    first = first_least([np.broadcast_to(row.total_s, (len(values),)) for row in rows])
    return [rows[index].title for index in first]
