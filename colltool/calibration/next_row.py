"""The next measurement: the row that would lower the error of a machine's prices most, as the
command to type.

A row lowers sigma of d by what the process of :mod:`colltool.machines.smoother` says, whatever it
measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.estimate.spread import by_size, law
from colltool.machines.factor import INSIDE
from colltool.machines.own import MachineFile, own_smoother
from colltool.machines.smoother import Observation, posterior

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZES = tuple(float(4**doublings * 2**10) for doublings in range(12))
"""1 KiB to 4 GiB, where prices are asked and rows are offered."""
_ASKED = (AR, AG, RS, A2A)
_PROGRAMS = {
    AR: "all_reduce_perf",
    AG: "all_gather_perf",
    RS: "reduce_scatter_perf",
    A2A: "alltoall_perf",
    BC: "broadcast_perf",
    REDUCE: "reduce_perf",
    P2P: "sendrecv_perf",
}
_LEAST = 0.01  # of the mean sigma: a row that lowers it by less is not worth a job


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
    def command(self) -> str:
        """Of nccl-tests, a process a GPU."""
        size = _short(self.bytes)
        return (
            f"mpirun -np {self.ranks} ./build/{_PROGRAMS[self.primitive]} -b {size} -e {size} -g 1"
        )


def next_row(file: MachineFile) -> NextRow | None:
    """The row that lowers the mean sigma most at the file's scopes and rank counts; None where none
    lowers it by a hundredth."""
    best: NextRow | None = None
    for scope in dict.fromkeys(row.scope for row in file.rows):
        found = _best_in(file, scope)
        if best is None or found.sigma - found.sigma_after > best.sigma - best.sigma_after:
            best = found
    return None if best is None or best.sigma_after > (1 - _LEAST) * best.sigma else best


def _best_in(file: MachineFile, scope: str) -> NextRow:
    measured = [row for row in file.rows if row.scope == scope]
    rows = [
        Observation(str(row.primitive), scope, row.ranks, row.bytes, row.r, "own")
        for row in measured
    ]
    ranks = sorted({row.ranks for row in measured})
    asked = tuple(dict.fromkeys((*_ASKED, *(row.primitive for row in measured))))
    now = _mean_sigma(file, scope, rows, asked, ranks)
    offered = [
        NextRow(primitive, scope, count, size, now, now)
        for primitive in asked
        for count in ranks
        for size in SIZES
    ]
    tried = []
    for row in offered:
        more = Observation(str(row.primitive), scope, row.ranks, row.bytes, 0.0, "own")
        tried.append(
            row._replace(sigma_after=_mean_sigma(file, scope, [*rows, more], asked, ranks))
        )
    return min(tried, key=lambda row: row.sigma_after)


def _mean_sigma(
    file: MachineFile,
    scope: str,
    rows: Sequence[Observation],
    asked: Sequence[Primitive],
    ranks: Sequence[int],
) -> float:
    """Sigma as an interval takes it: at least that of a place with rows."""
    import numpy as np

    smoother = own_smoother(scope, file.smoother)
    where = "inside" if scope == INSIDE else "across"
    base = np.array([by_size(law(), f"base_{where}", log2(size)) for size in SIZES])
    total = 0.0
    for primitive in asked:
        found = posterior(
            smoother, rows, Observation(str(primitive), scope, 1, 1.0, 0.0, ""), ranks, SIZES
        )
        total += float(np.maximum(found.sigma, base).mean())
    return total / len(asked)


def _short(size: float) -> str:
    """As nccl-tests takes sizes: 8M."""
    for unit, bytes_ in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size >= bytes_:
            return f"{size / bytes_:.0f}{unit}"
    return f"{size:.0f}"
