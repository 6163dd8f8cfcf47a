"""One call out of what several ranks saw: the last to arrive waits for nobody, so its kernel is the shortest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.files import AnyPath
from colltool.base.formatting import counted
from colltool.base.primitives import P2P
from colltool.diagnosis.results import LeftOutKernels
from colltool.traces.calls import ObservedCall, RankTrace, observe
from colltool.traces.events import collect
from colltool.traces.metadata import CallMetadata


class MergedCall(NamedTuple):
    """A call with its kernels, one per traced rank; ``traces`` are the indices of their files."""

    call: CallMetadata
    seen: tuple[ObservedCall, ...]
    traces: tuple[int, ...]

    @property
    def shortest(self) -> ObservedCall:
        return min(self.seen, key=lambda one: one.seconds)

    @property
    def bound(self) -> bool:
        """Whether the time is an upper bound: an untraced rank may have been waited for, or parts are uneven."""
        return len(self.seen) < self.call.size or self.uneven

    @property
    def uneven(self) -> bool:
        return any(one.call.uneven for one in self.seen)


def merged_calls(traces: Sequence[RankTrace]) -> list[MergedCall]:
    """The calls of all ranks, in the order of the first trace that has each.

    Kernels are one call if ranks, primitive, size and sequence number agree. Without numbers calls are counted, if all ranks of a
    group made the same ones in the same order. Otherwise each kernel is a call by itself, as are those of groups with unknown
    ranks (group names are private to a process) and messages, whose two ends count apart.
    """
    alike = _alike(traces)
    found: dict[Any, list[tuple[int, ObservedCall]]] = defaultdict(list)
    for index, trace in enumerate(traces):
        for key, one in _keyed(trace):
            listed = bool(one.call.ranks) and one.call.primitive is not P2P
            known = listed and (one.call.seq is not None or one.call.ranks in alike)
            found[key if known else (*key, index)].append((index, one))
    return [_together(several) for several in found.values()]


def _together(several: Sequence[tuple[int, ObservedCall]]) -> MergedCall:
    traces, seen = zip(*several, strict=True)
    return MergedCall(seen[0].call, seen, traces)


def _keyed(trace: RankTrace) -> Iterator[tuple[tuple[Any, ...], ObservedCall]]:
    met: dict[Any, int] = defaultdict(int)
    for one in trace.calls:
        call = one.call
        same = (call.ranks, call.name, call.primitive, call.bytes, call.dtype, call.seq)
        met[same] += 1
        yield (*same, met[same]), one


def _alike(traces: Sequence[RankTrace]) -> set[tuple[int, ...]]:
    """Groups without sequence numbers whose calls are the same in every trace."""
    orders: dict[tuple[int, ...], list[list[Any]]] = defaultdict(list)
    for trace in traces:
        own: dict[tuple[int, ...], list[Any]] = defaultdict(list)
        for one in trace.calls:
            if one.call.seq is None:
                own[one.call.ranks].append((one.call.primitive, one.call.bytes, one.call.dtype))
        for group, order in own.items():
            orders[group].append(order)
    return {group for group, several in orders.items() if all(order == several[0] for order in several)}


AGAIN = "profile with torch.profiler on CUDA devices, PyTorch 2.1 or newer, and NCCL's process group"


def read_traces(files: Sequence[AnyPath]) -> list[RankTrace]:
    """The traces of one job, in the order given."""
    traces = [observe(collect(file)) for file in files]
    _of_one_job(traces)
    if not any(one.calls for one in traces):
        raise _nothing(traces)
    return traces


def world_of(traces: Sequence[RankTrace]) -> int | None:
    return next((one.world for one in traces if one.world), None)


def missing(ranks: Sequence[int], traces: Sequence[RankTrace]) -> tuple[int, ...]:
    """Those of ``ranks`` without a trace; none if a trace does not say whose it is."""
    there = {one.rank for one in traces}
    return () if None in there else tuple(rank for rank in ranks if rank not in there)


def left_out(traces: Sequence[RankTrace]) -> tuple[LeftOutKernels, ...]:
    """Why kernels are no calls, the commonest reason first."""
    counts: dict[str, int] = defaultdict(int)
    first: dict[str, str] = {}
    for one in traces:
        for reason, kernels in one.left_out.items():
            counts[reason] += kernels
            first.setdefault(reason, one.file)
    found = [LeftOutKernels(reason, kernels, first[reason]) for reason, kernels in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.kernels, one.reason)))


def _of_one_job(traces: Sequence[RankTrace]) -> None:
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


def _nothing(traces: Sequence[RankTrace]) -> ColltoolError:
    found = left_out(traces)
    why = f": {counted(found[0].kernels, 'kernel')}: {found[0].reason}" if found else ""
    if any(one.broken for one in traces):
        why += ", and the file ends too early or is damaged"
    return ColltoolError(f"no collective call can be told{why}", where=found[0].file if found else traces[0].file, fix=AGAIN)
