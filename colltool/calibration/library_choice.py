"""What the library that ran would have run, size by size: NCCL by its own cost model, MPI by MPICH's published rules.

A fit starts from it; :func:`colltool.calibration.select.choose` drops it where other algorithms meet the times clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, Primitive
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric
from colltool.measurements.series import LogLibrary, Series, log_library
from colltool.nccl.algorithm_map import spec_of
from colltool.nccl.hardware import Hardware
from colltool.nccl.model import picks
from colltool.nccl.topology_inputs import hardware_of

# From so many bytes a rank on (all-reduce: of the vector; all-to-all: to each peer), for powers of two. MPICH, src/mpi/coll:
# ALLREDUCE_SHORT_MSG_SIZE, ALLGATHER_LONG_MSG_SIZE (of the total), ALLTOALL_SHORT_MSG_SIZE; R. Thakur, R. Rabenseifner, W. Gropp,
# Optimization of Collective Communication Operations in MPICH, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
_MPICH = {
    AR: ("recursive-doubling", 2048, "rabenseifner"),
    AG: ("recursive-doubling", 524288, "ring"),
    A2A: ("bruck", 256, "pairwise"),
}


class Authority(NamedTuple):
    """Who says what is run, in words, and by what factor other algorithms have to predict unseen sizes better to be believed."""

    said: str
    worth: float


BY_MPICH = Authority("MPICH's rules pick", 1.2)  # other MPIs have rules of their own


class LibraryRun(NamedTuple):
    """One call: the schedule of ours that is run, and NCCL's protocol (``ll``, ``ll128``, ``simple``; empty of another)."""

    spec: str
    protocol: str = ""


class LibraryRuns(NamedTuple):
    """What is run: ``by`` whose word and how, ``runs`` of each series at each of its points."""

    by: Authority
    runs: tuple[tuple[LibraryRun, ...], ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """All that is run, each once, small sizes first."""
        return tuple(dict.fromkeys(run.spec for runs in self.runs for run in runs))


def nccl_on(fabric: Fabric, placed: Sequence[PlacedGroup], library: str) -> tuple[Hardware, ...]:
    """What NCCL ran on, group by group; empty where another library ran, or the fabric lacks what NCCL's model needs."""
    facts = fabric.library_facts
    if not log_library(library).may_be_nccl or facts is None or facts.name != "nccl":
        return ()
    try:
        return tuple(hardware_of(group) for group in placed)
    except ColltoolError:  # facts are missing, or NCCL's model knows no such fabric
        return ()


def library_runs_of(series: Sequence[Series], on: Sequence[Hardware]) -> LibraryRuns | None:
    """What a library would have run of one collective; None where nothing says."""
    primitive, library = series[0].primitive, series[0].library
    if log_library(library) is LogLibrary.MPI:
        return _mpich(primitive, series)
    return _nccl(primitive, series, on) if on and primitive in on[0].constants.algorithms else None


def _nccl(primitive: Primitive, series: Sequence[Series], on: Sequence[Hardware]) -> LibraryRuns | None:
    runs = []
    for hardware, one in zip(on, series, strict=True):
        chosen = picks(hardware, primitive, [max(point.bytes, 1.0) for point in one.points])
        runs.append(tuple(LibraryRun(spec_of(pick.algorithm, primitive, hardware), pick.protocol) for pick in chosen))
    found = LibraryRuns(Authority(f"NCCL {on[0].version}'s own model picks", 1.5), tuple(runs))
    return found if all(found.algorithms) else None  # one that no schedule of ours is


def _mpich(primitive: Primitive, series: Sequence[Series]) -> LibraryRuns | None:
    if primitive not in _MPICH:
        return None
    low, limit, high = _MPICH[primitive]
    runs = []
    for one in series:
        of_limit = one.ranks if primitive is A2A else 1
        runs.append(tuple(LibraryRun(high if point.bytes > limit * of_limit else low) for point in one.points))
    return LibraryRuns(BY_MPICH, tuple(runs))
