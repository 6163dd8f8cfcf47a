"""The next measurement: the row that would lower the error of a machine's prices most, as the
command to type.

A row lowers sigma of d by what the process of :mod:`colltool.machines.smoother` says, whatever it
measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import log2
from operator import attrgetter
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, AR, NCCL_TESTS, RS, Primitive
from colltool.calibration.serialise import exact_size
from colltool.estimate.spread import by_size, sigma_table
from colltool.machines.factor import INSIDE
from colltool.machines.own import MachineFile, own_smoother
from colltool.machines.smoother import Observation, posterior

SIZES = tuple(float(4**doublings * 2**10) for doublings in range(12))
"""1 KiB to 4 GiB: the sizes whose prices count, and of which rows are offered."""
_ALWAYS = (AR, AG, RS, A2A)
# A row that lowers the mean sigma by a smaller share is not worth a job.
_LEAST = 0.01


class NextRow(NamedTuple):
    """A measurement that was not made.

    Args:
        sigma, sigma_after: the mean standard deviation of ln time over common sizes and
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
        return self.sigma - self.sigma_after

    @property
    def command(self) -> str:
        """The call of nccl-tests, a process a GPU."""
        # nccl-tests write 8M for 8 MiB
        size = exact_size(self.bytes).removesuffix("iB")
        return (
            f"mpirun -np {self.ranks} ./build/{NCCL_TESTS[self.primitive]} -b {size} -e {size} -g 1"
        )


def next_row(file: MachineFile) -> NextRow | None:
    """The row that lowers the mean sigma most at the file's scopes and rank counts; None where none
    lowers it by a hundredth."""
    scopes = dict.fromkeys(row.scope for row in file.rows)
    best = max((_best_in(file, scope) for scope in scopes), key=attrgetter("gain"))
    return best if best.sigma_after <= (1 - _LEAST) * best.sigma else None


def _best_in(file: MachineFile, scope: str) -> NextRow:
    """The row of a scope after which the mean sigma is least."""
    rows = []
    counts = set()
    primitives = list(_ALWAYS)
    for row in file.rows:
        if row.scope == scope:
            rows.append(_observation(row.primitive, scope, row.ranks, row.bytes, row.r))
            counts.add(row.ranks)
            if row.primitive not in primitives:
                primitives.append(row.primitive)
    ranks = sorted(counts)
    now = _mean_sigma(file, scope, rows, primitives, ranks)
    offered = []
    for primitive, count, size in product(primitives, ranks, SIZES):
        more = [*rows, _observation(primitive, scope, count, size)]
        then = _mean_sigma(file, scope, more, primitives, ranks)
        offered.append(NextRow(primitive, scope, count, size, now, then))
    return min(offered, key=attrgetter("sigma_after"))


def _observation(
    primitive: Primitive, scope: str, ranks: int, size: float, ratio: float = 0.0
) -> Observation:
    return Observation(str(primitive), scope, ranks, size, ratio, "own")


def _mean_sigma(
    file: MachineFile,
    scope: str,
    rows: Sequence[Observation],
    primitives: Sequence[Primitive],
    ranks: Sequence[int],
) -> float:
    """Sigma as an interval takes it: at least that of a place with rows."""
    import numpy as np

    smoother = own_smoother(scope, file.smoother)
    where = "inside" if scope == INSIDE else "across"
    base = np.array([by_size(sigma_table(), f"base_{where}", log2(size)) for size in SIZES])
    total = 0.0
    for primitive in primitives:
        place = Observation(str(primitive), scope, 1, 1.0, 0.0, "")
        sigma = posterior(smoother, rows, place, ranks, SIZES).sigma
        total += float(np.maximum(sigma, base).mean())
    return total / len(primitives)
