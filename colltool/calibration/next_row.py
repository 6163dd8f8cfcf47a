"""The next measurement: the row that would lower the error of a machine's prices most, as the
command to run.

A row lowers the uncertainty of prices, sigma of ln(measured / priced), by what the Gaussian process
of :mod:`colltool.machines.smoother` says, whatever its time turns out to be: each possible row is
tried. :func:`next_row` is the entry.

A scope is where a row's group lies: ``inside`` a memory domain, or else the name of the outermost
medium that it crosses, such as ``efa``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import log2
from operator import attrgetter
from typing import Literal, NamedTuple

from colltool.base.formatting import format_size
from colltool.base.primitives import A2A, AG, AR, NCCL_TESTS, RS, Primitive
from colltool.estimate.spread import by_size, sigma_table
from colltool.machines.factor import INSIDE
from colltool.machines.machine_file import MachineFile, machine_smoother
from colltool.machines.smoother import Observation, posterior

# 1 KiB to 4 GiB: the sizes whose prices count, and at which measurements are proposed.
SIZES = tuple(float(4**step * 2**10) for step in range(12))
# Collectives whose prices count even where none was measured: those of training.
_COMMON = (AR, AG, RS, A2A)
# A row that lowers the mean sigma by a smaller share than this is not worth a job.
_LEAST_SHARE = 0.01


class NextRow(NamedTuple):
    """A measurement that was not made yet.

    Args:
        ranks, bytes: the group, and M of the call.
        sigma, sigma_after: the mean standard deviation of ln time in the scope, over common sizes and
            collectives, without it and with it.
    """

    primitive: Primitive
    scope: str
    ranks: int
    bytes: float
    sigma: float
    sigma_after: float

    @property
    def gain(self) -> float:
        """What it takes off the mean sigma."""
        return self.sigma - self.sigma_after

    @property
    def command(self) -> str:
        """The call of nccl-tests, with one process per GPU."""
        # nccl-tests writes 8M for 8 MiB
        size = format_size(self.bytes).removesuffix("iB")
        return (
            f"mpirun -np {self.ranks} ./build/{NCCL_TESTS[self.primitive]} -b {size} -e {size} -g 1"
        )


def next_row(file: MachineFile) -> NextRow | None:
    """The row that would lower the mean sigma of its scope most, in absolute terms, among the file's
    scopes and rank counts. None where this one lowers it by a share below :data:`_LEAST_SHARE`."""
    # the model of a machine file requires a row, so that there is a scope
    scopes = dict.fromkeys(measured.scope for measured in file.rows)
    best = max((_best_in(file, scope) for scope in scopes), key=attrgetter("gain"))
    return best if best.sigma_after <= (1 - _LEAST_SHARE) * best.sigma else None


def _best_in(file: MachineFile, scope: str) -> NextRow:
    """The row of a scope after which the mean sigma is least."""
    rows = []
    measured_ranks = set()
    primitives = list(_COMMON)
    for measured in file.rows:
        if measured.scope == scope:
            rows.append(
                _observation(measured.primitive, scope, measured.ranks, measured.bytes, measured.r)
            )
            measured_ranks.add(measured.ranks)
            if measured.primitive not in primitives:
                primitives.append(measured.primitive)
    rank_counts = sorted(measured_ranks)
    sigma = _mean_sigma(file, scope, rows, primitives, rank_counts)
    proposals = []
    for primitive, ranks, size in product(primitives, rank_counts, SIZES):
        with_proposal = [*rows, _observation(primitive, scope, ranks, size)]
        sigma_after = _mean_sigma(file, scope, with_proposal, primitives, rank_counts)
        proposals.append(NextRow(primitive, scope, ranks, size, sigma, sigma_after))
    return min(proposals, key=attrgetter("sigma_after"))


def _observation(
    primitive: Primitive, scope: str, ranks: int, size: float, log_ratio: float = 0.0
) -> Observation:
    """A row as the smoother takes it; of one that was not made only the place counts, and its ratio
    is left at 0."""
    # any name of a source will do: in the process of one machine sources do not deviate
    return Observation(str(primitive), scope, ranks, size, log_ratio, "own")


def _mean_sigma(
    file: MachineFile,
    scope: str,
    rows: Sequence[Observation],
    primitives: Sequence[Primitive],
    rank_counts: Sequence[int],
) -> float:
    """The mean sigma of ln time over sizes, collectives and rank counts. Each is at least the sigma
    that such prices have where rows were measured, as in an interval."""
    import numpy as np

    smoother = machine_smoother(scope, file.smoother)
    # one for each of SIZES
    least_sigma = np.array(_least_sigma("inside" if scope == INSIDE else "across"))
    total = 0.0
    for primitive in primitives:
        # posterior() reads its primitive and scope alone
        place = Observation(str(primitive), scope, ranks=1, size=1.0, r=0.0, source="")
        # (ranks, sizes)
        sigma = posterior(smoother, rows, place, rank_counts, SIZES).sigma
        total += float(np.maximum(sigma, least_sigma).mean())
    return total / len(primitives)


@cache
def _least_sigma(scope: Literal["inside", "across"]) -> list[float]:
    """The sigma of prices where rows were measured, at each of :data:`SIZES`: the part ``base_inside``
    or ``base_across`` of the table of :mod:`colltool.estimate.spread`, between its knots by log2 of
    the size."""
    return [by_size(sigma_table(), f"base_{scope}", log2(size)) for size in SIZES]
