"""A machine's factor: d on a grid of sizes and rank counts, interpolated between its points.

A price is that of wires, contention and library (layers 1 to 3) times exp(d). d is linear in
(log2 M, log2 N) between the points, and constant beyond the edges, where it is nearly 0.
:class:`MeasuredMachine` is what prices ask; it has a :class:`MachineFactor` for each primitive and
scope that was measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log2, sqrt
from typing import Any, NamedTuple

from colltool.base.arrays import is_array, logarithm
from colltool.base.primitives import Number

# The scope of a group that stays in one innermost domain; other scopes are named by the outermost
# medium crossed.
INSIDE = "inside"
# Smallest size of the grid.
FIRST_BYTES = 8
# Sizes of the grid: 8 B to 32 GiB.
SIZES = tuple(FIRST_BYTES * 2**doubling for doubling in range(33))
_FIRST = log2(FIRST_BYTES)


class RankLine(NamedTuple):
    """The factor of one rank count at each of :data:`SIZES`. ``sigma`` is the posterior standard
    deviation of d."""

    ranks: int
    d: tuple[float, ...]
    sigma: tuple[float, ...]


class GridCell(NamedTuple):
    """The grid cell of a value along one axis: index of its lower corner, and how far into it the
    value is (0 to 1). 12 bytes are in the first cell of sizes, 8 to 16, at log2(12/8) = 0.58."""

    corner: int
    fraction: float


@dataclass(frozen=True)
class MachineFactor:
    """d and sigma of one primitive in one scope; ``lines`` ascend in ranks, and there is at least
    one."""

    primitive: str
    scope: str
    lines: tuple[RankLine, ...]

    @cached_property
    def doublings(self) -> tuple[float, ...]:
        """log2 of the rank counts."""
        return tuple(log2(line.ranks) for line in self.lines)

    def d(self, ranks: int, size: Any) -> Any:
        """Return d at a rank count and a size, or an array of sizes, in bytes."""
        return self._read(ranks, size, "d")

    def sigma(self, ranks: int, size: Any) -> Any:
        """Return the standard deviation of d there."""
        return self._read(ranks, size, "sigma")

    def _read(self, ranks: int, size: Any, field_name: str) -> Any:
        """``d`` or ``sigma`` of the lines, interpolated along both axes."""
        by_ranks = _cell(self.doublings, log2(ranks))
        lower = getattr(self.lines[by_ranks.corner], field_name)
        upper = getattr(self.lines[min(by_ranks.corner + 1, len(self.lines) - 1)], field_name)
        if is_array(size):
            return _between_lines(lower, upper, by_ranks.fraction, size)
        by_size = _size_cell(size)
        left = by_size.corner
        right = left + 1
        at_left = lower[left] + (upper[left] - lower[left]) * by_ranks.fraction
        at_right = lower[right] + (upper[right] - lower[right]) * by_ranks.fraction
        return at_left + (at_right - at_left) * by_size.fraction


def _cell(points: Sequence[float], value: float) -> GridCell:
    """The cell of a value among ascending points; beyond them it is at the first or last point."""
    index = bisect_right(points, value) - 1
    if index < 0:
        return GridCell(0, 0.0)
    if index >= len(points) - 1:
        return GridCell(len(points) - 1, 0.0)
    return GridCell(index, (value - points[index]) / (points[index + 1] - points[index]))


def _size_cell(size: float) -> GridCell:
    """The cell of a size in :data:`SIZES`, whose points are doublings of :data:`FIRST_BYTES`; beyond them
    it is at the first or last point."""
    doublings = min(max(log2(size) - _FIRST, 0.0), len(SIZES) - 1.0)
    index = min(int(doublings), len(SIZES) - 2)
    return GridCell(index, doublings - index)


def _between_lines(
    lower: Sequence[float], upper: Sequence[float], fraction: float, sizes: Any
) -> Any:
    """Values at an array of sizes, on the line that is ``fraction`` of the way between two."""
    import numpy as np

    line = np.asarray(lower) + (np.asarray(upper) - np.asarray(lower)) * fraction
    doublings = logarithm(np.asarray(sizes, dtype=float)) - _FIRST
    return np.interp(doublings, np.arange(len(SIZES)), line)


class Borrowed(NamedTuple):
    """What a primitive that was not measured gets: a share of the d of another one."""

    primitive: str
    share: float


class CustomProtocol(NamedTuple):
    """Launch and time per step (seconds) and share of the wire of one algorithm under one protocol, as
    a user measured them."""

    primitive: str
    scope: str
    algorithm: str
    protocol: str
    launch_s: float
    step_s: float
    share: float


@dataclass(frozen=True)
class MeasuredMachine:
    """What is known of one kind of machine beyond wires, contention and library.

    Args:
        devices: names of its accelerator, as fabric files have them.
        generation: of its accelerator, such as hopper; empty in a user's machine.
        inside: the medium of its innermost tier.
        outside: the media between its domains that were measured; each is a scope.
        factors: by (primitive, scope).
        borrowed: for primitives that were not measured.
        prior: the standard deviation of d where no row is near, by scope.
        sources: number of rows by the id of their source.
        exceptions: falls of the bus bandwidth by more than a tenth that rows show, as the data file
            lists them.
        file: path of the user's machine file; empty for a machine that ships.
        idle: scopes of the file that the fabric does not have.
        protocols: a library's numbers that the file states for an algorithm and protocol.
    """

    name: str
    devices: tuple[str, ...]
    generation: str
    inside: str
    outside: tuple[str, ...]
    factors: dict[tuple[str, str], MachineFactor]
    borrowed: dict[str, Borrowed] = field(default_factory=dict)
    prior: dict[str, float] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    exceptions: tuple[dict[str, Any], ...] = ()
    file: str = ""
    idle: tuple[str, ...] = ()
    protocols: tuple[CustomProtocol, ...] = ()

    @property
    def rows(self) -> int:
        """How many measured rows it was made of."""
        return sum(self.sources.values())

    @property
    def user_rows(self) -> int:
        """Rows of a user's file; 0 for a machine that ships."""
        return self.rows if self.file else 0

    def d(self, primitive: str, scope: str, ranks: int, size: Number) -> Number:
        """Return ln of the machine's time over that of layers 1 to 3; 0 where nothing was measured.
        ``size``: bytes, or an array."""
        factor, share = self._factor(primitive, scope)
        if factor is None:
            return 0.0 * size if is_array(size) else 0.0
        d: Number = share * factor.d(ranks, size)
        return d

    def sigma(self, primitive: str, scope: str, ranks: int, size: Number) -> Number | None:
        """Return the standard deviation of d, with the scatter between machines of different owners;
        None where nothing was measured."""
        factor, share = self._factor(primitive, scope)
        if factor is None:
            return None
        sigma: Number = factor.sigma(ranks, size)
        if share == 1.0:
            return sigma
        # the variance that the other primitive does not explain
        unexplained = (1 - share**2) * self.prior[scope] ** 2
        variance = unexplained + (share * sigma) ** 2
        root: Number = variance**0.5 if is_array(variance) else sqrt(variance)
        return root

    def _factor(self, primitive: str, scope: str) -> tuple[MachineFactor | None, float]:
        """The factor for a primitive, its own or a borrowed one, and the share of d to take."""
        measured = self.factors.get((primitive, scope))
        if measured:
            return measured, 1.0
        other = self.borrowed.get(primitive)
        if other:
            return self.factors.get((other.primitive, scope)), other.share
        return None, 0.0
