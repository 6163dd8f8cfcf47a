"""The nearest grid of d that keeps prices in order: none falls as the message or the group grows, no bus bandwidth by a tenth.

d multiplies a price, so what it may do between two grid points depends on what the price does there: with t the time of layers 1
to 3, t exp(d) rises where d falls less than ln t rises, and the bus bandwidth holds where d rises less than it leaves room for.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_FALL = 0.1
"""Share of the bus bandwidth that may go as the message doubles."""
_MARGIN = 4e-4  # of a step: what rounding to four decimals and an early end of the iteration may take
_MOST_ROUNDS = 4000
_CLOSE = 5e-5
_PULL = 0.05  # sigma below which a point is not held any tighter


class Room(NamedTuple):
    """How much d may change from a grid point to the next: along sizes at least and at most, along ranks at least."""

    least_by_size: Floats
    most_by_size: Floats
    least_by_ranks: Floats


def room_of(best: Floats, ways: list[Floats]) -> Room:
    """The room that prices leave.

    Args:
        best: ln t of what runs, by (ranks, sizes); not a number where it has no price.
        ways: ln t of each way that is held to rise, not a number where it is not (at either end of a step).
    """
    import numpy as np

    def least(axis: int) -> Floats:
        rises = np.stack([np.diff(way, axis=axis) for way in (best, *ways)])
        rises = np.where(np.isnan(rises), np.inf, rises)
        found: Floats = -rises.min(axis=0) + _MARGIN
        return found

    most = -log(1 - MOST_FALL) + log(2) - np.diff(best, axis=1) - _MARGIN
    most = np.where(np.isnan(most), np.inf, most)
    by_size = least(1)
    return Room(by_size, np.maximum(most, by_size), least(0))


def allowing(room: Room, steps: list[tuple[int, int]]) -> Room:
    """The room with no bound on the bus bandwidth at (ranks, size) steps where measured rows show its fall."""
    most = room.most_by_size.copy()
    for at in steps:
        most[at] = float("inf")
    return room._replace(most_by_size=most)


def shaped(d: Floats, sigma: Floats, room: Room) -> Floats:
    """The grid within the room that differs least from d, each point weighing 1/sigma^2: alternating direction multipliers."""
    import numpy as np

    if _within(d, room):
        return d
    weight = 1 / np.maximum(sigma, _PULL) ** 2
    weight = weight / weight.mean()
    steps = _steps(*d.shape)
    low = np.concatenate([room.least_by_size.ravel(), room.least_by_ranks.ravel()])
    high = np.concatenate([room.most_by_size.ravel(), np.full(room.least_by_ranks.size, np.inf)])
    inverse = np.linalg.inv(np.diag(weight.ravel()) + steps.T @ steps)
    pulled = weight.ravel() * d.ravel()
    held, owed = np.clip(steps @ d.ravel(), low, high), np.zeros(len(low))
    for _ in range(_MOST_ROUNDS):
        values = inverse @ (pulled + steps.T @ (held - owed))
        taken = steps @ values
        held = np.clip(taken + owed, low, high)
        owed += taken - held
        if np.abs(taken - held).max() < _CLOSE:
            break
    found: Floats = values.reshape(d.shape)
    return found


def _within(d: Floats, room: Room) -> bool:
    import numpy as np

    by_size, by_ranks = np.diff(d, axis=1), np.diff(d, axis=0)
    kept = (by_size >= room.least_by_size).all() and (by_size <= room.most_by_size).all()
    return bool(kept and (by_ranks >= room.least_by_ranks).all())


def _steps(ranks: int, sizes: int) -> Floats:
    """The matrix that takes a flattened grid to its steps along sizes, then along ranks."""
    import numpy as np

    along_sizes = np.kron(np.eye(ranks), np.diff(np.eye(sizes), axis=0))
    along_ranks = np.kron(np.diff(np.eye(ranks), axis=0), np.eye(sizes))
    found: Floats = np.concatenate([along_sizes, along_ranks])
    return found
