"""A Gaussian process over (log2 M, log2 N): from ln(measured / price) of rows to d and its
uncertainty on a grid.

A row is r = d + a deviation of its source + noise. Each part of d is smooth over a number of
doublings of size and of ranks; primitives, scopes (media) and machines are correlated. Far from rows d
is 0 and its standard deviation that of the prior. :func:`posterior` is the entry, and
:func:`rank_lines` puts what it returns into the form of a machine's data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import log2, sqrt
from typing import TYPE_CHECKING, NamedTuple

from colltool.machines.factor import SIZES, RankLine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Observation(NamedTuple):
    """One measured row."""

    primitive: str
    scope: str  # ``inside`` a domain, or the outermost medium crossed
    ranks: int
    size: float  # bytes
    r: float  # ln(measured / price of layers 1 to 3: wires, contention, library)
    source: str  # the publication or owner; rows of one deviate together. Empty: none
    machine: str = ""


class Smooth(NamedTuple):
    """A smooth part of d: its standard deviation, and its correlation lengths in doublings of size
    and of ranks.

    With 0.3 and 4 doublings of size, the covariance of 1 MB and 16 MB is 0.3^2 exp(-1/2) = 0.055.
    """

    sd: float
    size_doublings: float
    rank_doublings: float


@dataclass(frozen=True)
class Smoother:
    """The settings of the process.

    Args:
        parts: the parts that d is the sum of.
        source: the deviation of a source from d.
        noise: standard deviation of a row around its source's curve.
        primitives: correlation of d between two primitives that differ: (first, second, correlation).
        other_primitive: correlation of two primitives that are not listed.
        other_scope, other_machine: correlation of two that differ.
    """

    parts: tuple[Smooth, ...]
    source: Smooth
    noise: float
    primitives: tuple[tuple[str, str, float], ...] = ()
    other_primitive: float = 0.5
    other_scope: float = 0.9
    other_machine: float = 0.7

    @property
    def prior(self) -> float:
        """Standard deviation of d far from all rows, for a new source."""
        return sqrt(sum(part.sd**2 for part in (*self.parts, self.source)))

    def between_primitives(self, primitive: str, other: str) -> float:
        """Return the correlation of d between two primitives."""
        if primitive == other:
            return 1.0
        for *pair, correlation in self.primitives:
            if set(pair) == {primitive, other}:
                return correlation
        return self.other_primitive


class Posterior(NamedTuple):
    """d and its standard deviation for a new owner of the machine; shape (ranks, sizes) each."""

    d: Floats
    sigma: Floats


def posterior(
    smoother: Smoother,
    rows: Sequence[Observation],
    target: Observation,
    ranks: Sequence[int],
    sizes: Sequence[float] = SIZES,
) -> Posterior:
    """Return d of the ``target``'s primitive, scope and machine on a grid of ranks and sizes; the
    other fields of ``target`` are ignored."""
    import numpy as np

    # a new owner is no source of rows, so that the deviations of sources do not apply
    new_owner = target._replace(source="")
    grid = [new_owner._replace(ranks=count, size=size) for count, size in product(ranks, sizes)]
    shape = len(ranks), len(sizes)
    if not rows:
        return Posterior(np.zeros(shape), np.full(shape, smoother.prior))
    # noise lets two rows at one place disagree, and keeps the matrix regular
    of_rows = _covariance(smoother, rows, rows) + smoother.noise**2 * np.eye(len(rows))
    grid_to_rows = _covariance(smoother, grid, rows)
    weights = np.linalg.solve(of_rows, grid_to_rows.T).T  # of each row at each grid point
    d = weights @ np.array([row.r for row in rows])
    variance = smoother.prior**2 - (weights * grid_to_rows).sum(axis=1)
    return Posterior(d.reshape(shape), np.sqrt(np.maximum(variance, 0.0)).reshape(shape))


def _covariance(
    smoother: Smoother, first: Sequence[Observation], second: Sequence[Observation]
) -> Floats:
    """The covariance of each of the first with each of the second, without noise; shape (first,
    second)."""
    import numpy as np

    def differences(value: Callable[[Observation], float]) -> Floats:
        """How far apart each two are, shape (first, second)."""
        columns = np.array([value(row) for row in second])
        rows = np.array([value(row) for row in first])
        distance: Floats = rows[:, None] - columns[None, :]
        return distance

    sizes = differences(lambda row: log2(row.size))
    ranks = differences(lambda row: log2(row.ranks))

    def smooth(part: Smooth) -> Floats:
        """The covariance of a part by distance alone."""
        squared_distance = (sizes / part.size_doublings) ** 2 + (ranks / part.rank_doublings) ** 2
        covariance: Floats = part.sd**2 * np.exp(-squared_distance / 2)
        return covariance

    def correlated(field: str, correlation: Callable[[str, str], float]) -> Floats:
        """The correlation of each two by the names in a field."""
        names = [getattr(row, field) for row in first]
        other_names = [getattr(row, field) for row in second]
        return _correlations(names, other_names, correlation)

    scopes = correlated("scope", _equal_or(smoother.other_scope))
    machines = correlated("machine", _equal_or(smoother.other_machine))
    common: Floats = sum(map(smooth, smoother.parts)) * scopes * machines
    of_source = smooth(smoother.source) * correlated("source", _same_source)
    return correlated("primitive", smoother.between_primitives) * (common + of_source)


def _equal_or(other: float) -> Callable[[str, str], float]:
    """A correlation of 1 between equal names, of ``other`` between different ones."""
    return lambda first, second: 1.0 if first == second else other


def _same_source(first: str, second: str) -> float:
    """1 for two rows of one source; 0 for any other two, and for what has none (an empty name)."""
    return float(first == second != "")


def _correlations(
    first: Sequence[str], second: Sequence[str], correlation: Callable[[str, str], float]
) -> Floats:
    """The correlation of each pair of names, computed once per pair of different names."""
    import numpy as np

    rows = {name: number for number, name in enumerate(dict.fromkeys(first))}
    columns = {name: number for number, name in enumerate(dict.fromkeys(second))}
    table = np.array([[correlation(row, column) for column in columns] for row in rows])
    row_numbers = [rows[name] for name in first]
    column_numbers = [columns[name] for name in second]
    correlations: Floats = table[np.ix_(row_numbers, column_numbers)]
    return correlations


def rank_lines(grid: Posterior, ranks: Sequence[int]) -> tuple[RankLine, ...]:
    """Return a posterior as the lines of a :class:`~colltool.machines.factor.MachineFactor`, one for each
    rank count."""
    return tuple(
        RankLine(count, tuple(map(float, d)), tuple(map(float, sigma)))
        for count, d, sigma in zip(ranks, grid.d, grid.sigma, strict=True)
    )
