"""The calls of a job: each communication kernel of a trace with its metadata, and how much of it
compute hides.

What several ranks saw is one call: the last to arrive waits for nobody, so its kernel is the
shortest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from os import PathLike
from statistics import median
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import AnyPath
from colltool.base.formatting import counted, format_time
from colltool.base.primitives import P2P, Primitive
from colltool.logs.activity import BusyIntervals, RankActivity, activity_of, believed_steps
from colltool.logs.call_metadata import (
    CallMetadata,
    KernelName,
    call_metadata,
    count,
    kernel_name,
    short_name,
    text,
)
from colltool.logs.chakra import ChakraTrace
from colltool.logs.pytorch_trace import LaunchedKernel, TraceEvents, collect
from colltool.logs.series import Measurements, Point, Series

LONGEST_S = 86_400.0  # NCCL's watchdog ends a call after minutes
# the steps' time: several streams at once, and kernels that outlast the step that launched them
MOST_TIMES = 1000
MOST_LISTED = 2**20  # ranks in all groups of a trace: a hundred bytes may name a million


class LeftOutKernels(NamedTuple):
    """Communication kernels that are in no row; ``file`` is the first with one."""

    reason: str
    kernels: int
    file: str


class UpperBound(NamedTuple):
    """Calls known only as upper bounds: a kernel waits for the slowest rank, and not all ranks were
    traced. ``missing``: ranks without a trace; empty where unknown, or where all are there but
    their calls do not pair off. ``wire``: the outermost tier that they cross on the fabric."""

    primitive: Primitive
    ranks: int
    calls: int
    missing: tuple[int, ...]
    wire: str = ""


class ObservedCall(NamedTuple):
    """A call as one rank saw it; ``inside``: it began in a step."""

    call: CallMetadata
    kernel: KernelName
    seconds: float
    exposed_s: float
    inside: bool


class RankTrace(NamedTuple):
    """One trace. ``steps``: annotated ones. ``window_s``: all steps together, or first to last
    kernel without steps. ``nccl``:
    library version. ``left_out``: counts of communication kernels without a call, by reason.
    ``broken``: truncated or damaged.
    ``others``: communication kernels of which no bytes are known: name, us, and us that compute
    hides."""

    file: str
    rank: int | None
    world: int | None
    calls: tuple[ObservedCall, ...]
    steps: int
    window_s: float
    device: str
    nccl: str
    left_out: dict[str, int]
    broken: bool
    activity: RankActivity
    others: tuple[tuple[str, float, float], ...] = ()
    graph: ChakraTrace | None = None


def observe(found: TraceEvents) -> RankTrace:
    steps = believed_steps(found)
    windows = steps.windows
    starts = [start for start, _ in windows]
    covered = {device: BusyIntervals(*times) for device, times in found.busy.items()}

    def hidden_us(one: LaunchedKernel) -> float:
        return (
            min(one.end_us - one.start_us, covered[one.device].of(one.start_us, one.end_us))
            if one.device in covered
            else 0.0
        )

    calls: list[ObservedCall] = []
    left_out = Counter(found.left_out)
    described, others = _described(found, left_out)
    for one, call in described:
        lasts, hidden = one.end_us - one.start_us, hidden_us(one)
        at = bisect_right(starts, one.start_us) - 1
        inside = at >= 0 and one.start_us <= windows[at][1]
        calls.append(
            ObservedCall(call, kernel_name(one.name), lasts * 1e-6, (lasts - hidden) * 1e-6, inside)
        )
    window_s = sum(end - start for start, end in windows) * 1e-6
    longest, busy = (
        max((one.seconds for one in calls), default=0.0),
        sum(one.seconds for one in calls if one.inside),
    )
    if longest > LONGEST_S or 0 < MOST_TIMES * window_s < busy:
        what = (
            f"calls take {format_time(busy)} of steps of {format_time(window_s)}, which is"
            " impossible"
        )
        what = (
            f"a call lasts {longest:.3g} s, longer than any call can"
            if longest > LONGEST_S
            else what
        )
        raise ColltoolError(
            what,
            where=printable(found.name),
            fix="profile again: ts and dur of an event are microseconds",
        )
    about, listed = found.header.get("distributedInfo"), found.header.get("deviceProperties")
    about = about if isinstance(about, dict) else {}
    names = (
        [text(one.get("name")) for one in listed if isinstance(one, dict)]
        if isinstance(listed, list)
        else []
    )
    return RankTrace(
        found.name,
        count(about.get("rank")),
        count(about.get("world_size")),
        tuple(calls),
        steps.steps,
        window_s,
        device=names[0] if names else "",
        nccl=text(about.get("nccl_version")),
        left_out=dict(left_out),
        broken=found.broken,
        activity=activity_of(found, steps, count(about.get("rank"))),
        others=tuple(
            (short_name(one.name), one.end_us - one.start_us, hidden_us(one)) for one in others
        ),
        graph=found.graph,
    )


def _described(
    found: TraceEvents, left_out: Counter[str]
) -> tuple[list[tuple[LaunchedKernel, CallMetadata]], list[LaunchedKernel]]:
    """Calls with their kernels in order of start, and the other kernels, which are counted. A
    coalesced call may be several kernels, each labelled with all its tensors: they are merged."""
    calls: list[tuple[LaunchedKernel, CallMetadata]] = []
    first: dict[tuple[Any, int], int] = {}
    groups: set[Any] = set()
    others: list[LaunchedKernel] = []
    listed = 0
    for one in sorted(found.launched, key=lambda kernel: kernel.start_us):
        call = call_metadata(
            found.labels.get(one.external, {}) | one.labels,
            found.header,
            kernel_name(one.name).primitives,
        )
        if isinstance(call, str):
            left_out[call] += 1
            others.append(one)
            continue
        group = (len(call.ranks), call.ranks[:2], call.ranks[-1:])
        listed += 0 if group in groups else len(call.ranks)
        groups.add(group)
        if listed > MOST_LISTED:
            what = f"names groups of more than {MOST_LISTED} ranks in all"
            raise ColltoolError(
                what,
                where=printable(found.name),
                fix="profile fewer ranks, or a rank of fewer groups",
            )
        at = len(calls)
        if call.coalesced and one.external is not None:
            at = first.setdefault((one.external, one.device), at)
        if at == len(calls):
            calls.append((one, call))
        else:
            begun = calls[at][0]
            calls[at] = begun._replace(end_us=max(begun.end_us, one.end_us)), call
    return calls, others


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
        """Whether the time is an upper bound: an untraced rank may have been waited for, or parts
        are uneven."""
        return len(self.seen) < self.call.size or any(one.call.uneven for one in self.seen)


def merged_calls(traces: Sequence[RankTrace]) -> list[MergedCall]:
    """The calls of all ranks, in the order of the first trace that has each.

    Kernels are one call if ranks, primitive, size and sequence number agree. Without numbers calls
    are counted, if all ranks of a group made the same ones in the same order. Otherwise each kernel
    is a call by itself, as are those of groups with unknown ranks (group names are private to a
    process) and messages, whose two ends count apart.
    """
    alike = _alike(traces)
    found: dict[Any, list[tuple[int, ObservedCall]]] = defaultdict(list)
    for index, trace in enumerate(traces):
        met: Counter[Any] = Counter()
        for one in trace.calls:
            call = one.call
            same = (call.ranks, call.name, call.primitive, call.bytes, call.dtype, call.seq)
            met[same] += 1
            listed = bool(call.ranks) and call.primitive is not P2P
            known = listed and (call.seq is not None or call.ranks in alike)
            found[(*same, met[same]) if known else (*same, met[same], index)].append((index, one))
    groups = (tuple(zip(*several, strict=True)) for several in found.values())
    return [MergedCall(seen[0].call, seen, files) for files, seen in groups]


def _alike(traces: Sequence[RankTrace]) -> set[tuple[int, ...]]:
    orders: dict[tuple[int, ...], list[list[Any]]] = defaultdict(list)
    for trace in traces:
        own: dict[tuple[int, ...], list[Any]] = defaultdict(list)
        for one in trace.calls:
            if one.call.seq is None:
                own[one.call.ranks].append((one.call.primitive, one.call.bytes, one.call.dtype))
        for group, order in own.items():
            orders[group].append(order)
    return {
        group for group, several in orders.items() if all(order == several[0] for order in several)
    }


def read_traces(files: Sequence[AnyPath]) -> list[RankTrace]:
    traces = [observe(collect(file)) for file in files]
    ranks: dict[int, str] = {}
    first = next((one for one in traces if one.world), traces[0])
    for one in traces:
        if one.rank in ranks:
            what = f"is of rank {one.rank}, and so is {ranks[one.rank]}"
            raise ColltoolError(what, where=one.file, fix="give one file a rank")
        if one.rank is not None:
            ranks[one.rank] = one.file
        if one.world and one.world != first.world:
            what = f"is of a job of {one.world} ranks, and {first.file} of one of {first.world}"
            raise ColltoolError(what, where=one.file, fix="give the traces of one job")
    if any(one.calls or one.others or (one.graph and one.graph.communicates) for one in traces):
        return traces
    found = left_out(traces)
    why = f": {counted(found[0].kernels, 'kernel')}: {found[0].reason}" if found else ""
    if any(one.broken for one in traces):
        why += ", and the file ends too early or is damaged"
    fix = (
        "profile with torch.profiler on CUDA devices, PyTorch 2.1 or newer, and NCCL's process"
        " group"
    )
    raise ColltoolError(
        f"no collective call can be told{why}",
        where=found[0].file if found else traces[0].file,
        fix=fix,
    )


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


MESSAGE = "messages: their two ends are measured apart"
SPREAD = (
    "groups of other than consecutive ranks, or that do not begin at a multiple of their size: no"
    " benchmark runs on them"
)


class TracedSeries(NamedTuple):
    """What traces measure: ``measurements`` of calls with every rank traced, ``bounds`` for those
    with upper bounds only, most calls first, ``left_out`` for the rest."""

    measurements: Measurements
    devices: tuple[str, ...]
    world: int | None
    bounds: tuple[UpperBound, ...]
    left_out: tuple[LeftOutKernels, ...]


Path = str | PathLike[str]
# number of ranks, which start at a multiple of it; bytes, seconds
MeasuredCall = tuple[Primitive, int, int, float]


def measured_calls(files: Sequence[AnyPath]) -> TracedSeries:
    traces = read_traces(files)
    calls: list[MeasuredCall] = []
    bounds: Counter[tuple[Primitive, int, tuple[int, ...]]] = Counter()
    unseen = lru_cache(maxsize=None)(lambda ranks: missing(ranks, traces))
    others: dict[str, list[str]] = defaultdict(list)
    for one in merged_calls(traces):
        call, first = one.call, one.call.ranks[0] if one.call.ranks else 0
        spread = call.ranks and (call.ranks[-1] - first >= call.size or first % call.size)
        if why := MESSAGE if call.primitive is P2P else SPREAD if spread else "":
            others[why].append(traces[one.traces[0]].file)
        elif one.bound:
            bounds[call.primitive, call.size, unseen(call.ranks)] += 1
        else:
            calls.append((call.primitive, call.size, call.bytes, one.shortest.seconds))
    devices = tuple(dict.fromkeys(one.device for one in traces if one.device))
    apart = (
        *left_out(traces),
        *(LeftOutKernels(why, len(where), where[0]) for why, where in others.items()),
    )
    upper = tuple(
        UpperBound(primitive, ranks, n, who) for (primitive, ranks, who), n in bounds.most_common()
    )
    return TracedSeries(
        Measurements(series_of(calls, traces), ()),
        devices,
        world_of(traces),
        bounds=upper,
        left_out=apart,
    )


def series_of(calls: Iterable[MeasuredCall], traces: Sequence[RankTrace]) -> tuple[Series, ...]:
    times: dict[tuple[Primitive, int], dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for primitive, ranks, size, seconds in calls:
        times[primitive, ranks][size].append(seconds)
    files = tuple(one.file for one in traces)
    # PyTorch calls RCCL nccl, its kernels too
    amd = any(one.device.startswith("AMD") for one in traces)
    library, version = "RCCL" if amd else "NCCL", next((one.nccl for one in traces if one.nccl), "")
    found = []
    for (primitive, ranks), by_size in sorted(times.items()):
        sizes = sorted(by_size.items())
        points = (
            Point(float(size), median(some), min(some), max(some), len(some), files[0])
            for size, some in sizes
        )
        found.append(Series(primitive, ranks, None, tuple(points), library, version, files=files))
    return tuple(found)
