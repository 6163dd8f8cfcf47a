"""The traces of one job, one a rank: read, refused where they do not belong together, and what of them is no call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted
from colltool.base.inputs import AnyPath
from colltool.traces.collected import collect
from colltool.traces.observed import Observations, observe
from colltool.traces.results import LeftOut

AGAIN = "profile with torch.profiler on CUDA devices, PyTorch 2.1 or newer, and NCCL's process group"


def read_traces(files: Sequence[AnyPath]) -> list[Observations]:
    """The traces of a job, in the order given.

    Raises:
        ColltoolError: a file that is no trace, two of one rank or of jobs of different size, no call that can be told.
    """
    traces = [observe(collect(file)) for file in files]
    _of_one_job(traces)
    if not any(one.calls for one in traces):
        raise _nothing(traces)
    return traces


def world_of(traces: Sequence[Observations]) -> int | None:
    """The ranks of the job, as the traces say."""
    return next((one.world for one in traces if one.world), None)


def missing(ranks: Sequence[int], traces: Sequence[Observations]) -> tuple[int, ...]:
    """Those of some ranks that have no trace; none where a trace does not say whose it is."""
    there = {one.rank for one in traces}
    return () if None in there else tuple(rank for rank in ranks if rank not in there)


def left_out(traces: Sequence[Observations]) -> tuple[LeftOut, ...]:
    """Why kernels are no calls, the commonest reason first."""
    counts: dict[str, int] = defaultdict(int)
    first: dict[str, str] = {}
    for one in traces:
        for reason, kernels in one.left_out.items():
            counts[reason] += kernels
            first.setdefault(reason, one.file)
    found = [LeftOut(reason, kernels, first[reason]) for reason, kernels in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.kernels, one.reason)))


def _of_one_job(traces: Sequence[Observations]) -> None:
    """Refuse two traces of one rank, and of jobs of different size."""
    ranks: dict[int, str] = {}
    for one in traces:
        if one.rank is not None and one.rank in ranks:
            what = f"is of rank {one.rank}, and so is {ranks[one.rank]}"
            raise ColltoolError(what, where=one.file, fix="give one file a rank")
        if one.rank is not None:
            ranks[one.rank] = one.file
        first = next((other for other in traces if other.world), one)
        if one.world and one.world != first.world:
            what = f"is of a job of {one.world} ranks, and {first.file} of one of {first.world}"
            raise ColltoolError(what, where=one.file, fix="give the traces of one job")


def _nothing(traces: Sequence[Observations]) -> ColltoolError:
    """No call at all, and why the first kernel is none."""
    found = left_out(traces)
    why = f": {counted(found[0].kernels, 'kernel')}: {found[0].reason}" if found else ""
    if any(one.broken for one in traces):
        why += ", and the file ends too early or is damaged"
    return ColltoolError(f"no collective call can be told{why}", where=found[0].file if found else traces[0].file, fix=AGAIN)
