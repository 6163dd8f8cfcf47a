"""The nearest grid of d that keeps prices in order: none falls as the message or the group grows,
no bus bandwidth by a tenth.

d multiplies a price, so what it may do between two grid points depends on what the price does
there: with t the time of layers 1 to 3, t exp(d) rises where d falls less than ln t rises, and the
bus bandwidth holds where d rises less than it leaves room for.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Share of the bus bandwidth that may go as the message doubles.
MOST_FALL = 0.1
# of a step: what rounding to three decimals and an early end of the iteration may take
_MARGIN = 1.2e-3
_MOST_ROUNDS = 4000
_CLOSE = 1e-4
# the multipliers' penalty, where weights are 1 in the mean
_STIFF = 3.0
# over-relaxation
_AHEAD = 1.6
# sigma below which a point is not held any tighter
_PULL = 0.05


class Room(NamedTuple):
    """How much d may change from a grid point to the next: along sizes at least and at most, along
    ranks at least."""

    least_by_size: Floats
    most_by_size: Floats
    least_by_ranks: Floats


def room_of(best: Floats, ways: list[Floats]) -> Room:
    """The room that prices leave: d makes no fall; a fall of the price itself, as where the pick
    changes, it does not mend.

    Args:
        best: ln t of what runs, by (ranks, sizes), which rises along both; not a number where it
            has no price.
        ways: ln t of each way that rises along sizes though another may run there; not a number
            where it need not.
    """
    import numpy as np

    def least(steps: list[Floats]) -> Floats:
        rises = np.stack(steps)
        rises = np.where(np.isnan(rises), np.inf, np.maximum(rises, 0.0))
        found: Floats = -rises.min(axis=0) + _MARGIN
        return found

    most = -log(1 - MOST_FALL) + log(2) - np.diff(best, axis=1) - _MARGIN
    most = np.where(np.isnan(most), np.inf, most)
    by_size = least([np.diff(way, axis=1) for way in (best, *ways)])
    return Room(by_size, np.maximum(most, by_size), least([np.diff(best, axis=0)]))


def shaped(d: Floats, sigma: Floats, room: Room) -> Floats:
    """The grid within the room that differs least from d, a point weighing 1/sigma^2: alternating
    directions with multipliers."""
    import numpy as np

    if _beyond(_steps(d), room) <= _CLOSE:
        return d
    weight = 1 / np.maximum(sigma, _PULL) ** 2
    weight = weight / weight.mean()
    inverse = np.linalg.inv(np.diag(weight.ravel()) + _STIFF * _normal_matrix(*d.shape))
    pulled = weight * d
    bounds = _bounds(room)
    # steps within the room, and what they still have to give back, along sizes and along ranks
    held = list(map(_clipped, _steps(d), bounds))
    owed = [np.zeros_like(step) for step in held]
    for _ in range(_MOST_ROUNDS):
        wanted = [keep - owe for keep, owe in zip(held, owed, strict=True)]
        found: Floats = (inverse @ (pulled + _STIFF * _gathered(wanted)).ravel()).reshape(d.shape)
        steps = _steps(found)
        if _beyond(steps, room) <= _CLOSE:
            break
        for way, step in enumerate(steps):
            ahead = _AHEAD * step + (1 - _AHEAD) * held[way]
            held[way] = _clipped(ahead + owed[way], bounds[way])
            owed[way] = owed[way] + ahead - held[way]
    return found


Bounds = tuple["Floats | float", "Floats | float"]


def _bounds(room: Room) -> tuple[Bounds, Bounds]:
    return (room.least_by_size, room.most_by_size), (room.least_by_ranks, float("inf"))


def _clipped(step: Floats, bounds: Bounds) -> Floats:
    import numpy as np

    found: Floats = np.clip(step, *bounds)
    return found


def _steps(d: Floats) -> tuple[Floats, Floats]:
    """Steps from each point to the next, along sizes and along ranks."""
    import numpy as np

    return np.diff(d, axis=1), np.diff(d, axis=0)


def _gathered(steps: list[Floats]) -> Floats:
    """The transpose of :func:`_steps`: what the steps that meet in a point add up to."""
    import numpy as np

    by_size, by_ranks = steps
    along_sizes = -np.diff(by_size, axis=1, prepend=0, append=0)
    return along_sizes - np.diff(by_ranks, axis=0, prepend=0, append=0)


def _normal_matrix(ranks: int, sizes: int) -> Floats:
    """Steps after their transpose, on flattened grids."""
    import numpy as np

    def chain(count: int) -> Floats:
        steps = np.diff(np.eye(count), axis=0)
        found: Floats = steps.T @ steps
        return found

    return np.kron(np.eye(ranks), chain(sizes)) + np.kron(chain(ranks), np.eye(sizes))


def _beyond(steps: tuple[Floats, Floats], room: Room) -> float:
    """The farthest that a step is out of its room."""
    ways = zip(steps, map(_clipped, steps, _bounds(room)), strict=True)
    return max(float(abs(step - inside).max(initial=0.0)) for step, inside in ways)
