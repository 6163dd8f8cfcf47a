"""Shapes a grid of d so that prices stay monotonic: none falls as the message or the group grows, and
no bus bandwidth falls by a tenth as the message doubles.

A price is t exp(d), with t the time of layers 1 to 3 (wires, contention, library), so the bounds of
d's step between two grid points depend on the step of t: the price rises if d falls less than ln t
rises, and the bus bandwidth holds if d does not rise too much. :func:`room_of` works out these bounds
from prices, :func:`shaped` finds the nearest d within them by ADMM (alternating direction method of
multipliers).

Grids have the shape (ranks, sizes), sizes doubling. Steps along sizes are (ranks, sizes - 1), along
ranks (ranks - 1, sizes).
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Share of the bus bandwidth that may be lost as the message doubles.
MOST_FALL = 0.1
# Margin of a step of d, for rounding to three decimals and for stopping within the tolerance.
_MARGIN = 1.2e-3
# Iterations of ADMM at most, and the excess over the bounds at which it stops.
_MOST_ROUNDS = 4000
_TOLERANCE = 1e-4
# ADMM's penalty parameter, for weights of 1 in the mean.
_PENALTY = 3.0
# ADMM's over-relaxation, usually 1.5 to 1.8 (Boyd et al. 2011, section 3.4.3).
_RELAXATION = 1.6
# Smallest sigma for the weight of a point, so that no point is fixed altogether.
_LEAST_SIGMA = 0.05


class Room(NamedTuple):
    """Bounds of the step of d from a grid point to the next: along sizes from below and above, along
    ranks from below. A bound is infinite where prices set none."""

    least_by_size: Floats
    most_by_size: Floats
    least_by_ranks: Floats


def room_of(best: Floats, curves: list[Floats]) -> Room:
    """Return the bounds that prices set on d: with it, times must not fall as sizes grow. Where the
    price itself falls, as when the library picks another algorithm, d does not correct it.

    Where a message of twice the size takes 18 us instead of 10, d may fall by ln 1.8 = 0.588, and rise by
    ln 2 - ln 1.8 - ln 0.9 = 0.211, less the margin.

    Args:
        best: ln t of what runs, by (ranks, sizes), which rises along both; NaN where it has no
            price.
        curves: ln t of each algorithm whose price must rise along sizes too; NaN where it need not.
    """
    import numpy as np

    def least(steps: list[Floats]) -> Floats:
        """The lowest step of d: as deep as the flattest of these steps of ln t rises."""
        rises = np.stack(steps)
        rises = np.where(np.isnan(rises), np.inf, np.maximum(rises, 0.0))
        lowest: Floats = -rises.min(axis=0) + _MARGIN
        return lowest

    most = -log(1 - MOST_FALL) + log(2) - np.diff(best, axis=1) - _MARGIN
    most = np.where(np.isnan(most), np.inf, most)
    by_size = least([np.diff(curve, axis=1) for curve in (best, *curves)])
    return Room(by_size, np.maximum(most, by_size), least([np.diff(best, axis=0)]))


def shaped(d: Floats, sigma: Floats, room: Room) -> Floats:
    """Return the grid within the bounds that is nearest to d, by ADMM: the one with the least sum of
    (grid - d)^2 / sigma^2. All are of the shape (ranks, sizes). It is off the bounds by the tolerance at
    most, unless the rounds do not suffice.

    Two copies of the steps of d are kept: those of the grid, and the same clipped to their bounds. A
    round finds the grid near d whose steps are near the clipped ones, clips its steps again, and adds
    what is left between the two to the multipliers, which pull them together.
    """
    import numpy as np

    if _beyond(_steps(d), room) <= _TOLERANCE:
        return d
    weight = 1 / np.maximum(sigma, _LEAST_SIGMA) ** 2
    weight = weight / weight.mean()
    # the grid of each round solves one linear system, of which only the right side changes
    inverse = np.linalg.inv(np.diag(weight.ravel()) + _PENALTY * _normal_matrix(*d.shape))
    weighted_d = weight * d
    bounds = _bounds(room)
    # steps within the bounds and their scaled multipliers, along sizes and along ranks
    clipped = list(map(_clip, _steps(d), bounds))
    multipliers = [np.zeros_like(step) for step in clipped]
    for _ in range(_MOST_ROUNDS):
        targets = [step - owed for step, owed in zip(clipped, multipliers, strict=True)]
        pulled = _PENALTY * _transposed_steps(targets)
        grid: Floats = (inverse @ (weighted_d + pulled).ravel()).reshape(d.shape)
        steps = _steps(grid)
        if _beyond(steps, room) <= _TOLERANCE:
            break
        for axis, step in enumerate(steps):
            relaxed = _RELAXATION * step + (1 - _RELAXATION) * clipped[axis]
            clipped[axis] = _clip(relaxed + multipliers[axis], bounds[axis])
            multipliers[axis] = multipliers[axis] + relaxed - clipped[axis]
    return grid


# The lowest and the highest step.
Bounds = tuple["Floats | float", "Floats | float"]


def _bounds(room: Room) -> tuple[Bounds, Bounds]:
    """The bounds of steps along sizes and along ranks."""
    return (room.least_by_size, room.most_by_size), (room.least_by_ranks, float("inf"))


def _clip(step: Floats, bounds: Bounds) -> Floats:
    """The steps, those beyond a bound at the bound."""
    import numpy as np

    clipped: Floats = np.clip(step, *bounds)
    return clipped


def _steps(d: Floats) -> tuple[Floats, Floats]:
    """Steps from each point to the next, along sizes and along ranks."""
    import numpy as np

    return np.diff(d, axis=1), np.diff(d, axis=0)


def _transposed_steps(steps: list[Floats]) -> Floats:
    """The transpose of :func:`_steps`, applied to steps along sizes and along ranks."""
    import numpy as np

    by_size, by_ranks = steps
    along_sizes = -np.diff(by_size, axis=1, prepend=0, append=0)
    return along_sizes - np.diff(by_ranks, axis=0, prepend=0, append=0)


def _normal_matrix(ranks: int, sizes: int) -> Floats:
    """The matrix that applies :func:`_steps` and then :func:`_transposed_steps`, on flattened
    grids."""
    import numpy as np

    def along_a_line(count: int) -> Floats:
        """The same on a line of points."""
        steps = np.diff(np.eye(count), axis=0)
        normal: Floats = steps.T @ steps
        return normal

    along_sizes = np.kron(np.eye(ranks), along_a_line(sizes))
    return along_sizes + np.kron(along_a_line(ranks), np.eye(sizes))


def _beyond(steps: tuple[Floats, Floats], room: Room) -> float:
    """The largest excess of a step over its bounds; 0 if all are within."""
    pairs = zip(steps, map(_clip, steps, _bounds(room)), strict=True)
    return max(float(abs(step - inside).max(initial=0.0)) for step, inside in pairs)
