"""The traces of a job: each communication kernel with its metadata, and how much of it compute
hides.

:func:`read_traces` reads the files of a job, a rank each, by :func:`observe`. What several ranks
saw of one call is put together in :mod:`colltool.logs.merged_calls`; what a benchmark would have
measured is :mod:`colltool.logs.traced_series`'s to say.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import AnyPath
from colltool.base.formatting import format_time
from colltool.base.statements import NOTHING, Statement
from colltool.logs.activity import BusyIntervals, RankActivity, Steps, activity_of, believed_steps
from colltool.logs.call_metadata import MOST_MEMBERS, CallMetadata, as_count, as_text, call_metadata
from colltool.logs.chakra import ChakraTrace
from colltool.logs.kernel_names import KernelName, kernel_name, short_name
from colltool.logs.pytorch_trace import collect
from colltool.logs.sentences import statement
from colltool.logs.trace_events import LaunchedKernel, TraceEvents, events_of_chakra
from colltool.logs.without_calls import TraceContents, contents_of, without_calls

LONGEST_S = 86_400.0  # of a call, a day: NCCL's watchdog ends one after minutes
# calls in steps may take this many times the steps' time: several streams at once, and kernels that
# outlast the step that launched them
MOST_TIMES = 1000
MOST_LISTED = 2**20  # ranks in all groups of a trace: a hundred bytes of labels may name a million


class LeftOutKernels(NamedTuple):
    """Communication kernels of which no call is known."""

    reason: Statement
    kernels: int  # how many
    file: str  # the first that has one


class ObservedCall(NamedTuple):
    """A call as one rank saw it."""

    call: CallMetadata
    kernel: KernelName
    seconds: float  # of its kernel, waiting included
    exposed_s: float  # the part of that which no compute covers
    inside: bool  # it began in a step


class OtherKernel(NamedTuple):
    """A communication kernel of which no bytes are known."""

    name: str
    lasts_us: float
    hidden_us: float  # that compute hides


class RankTrace(NamedTuple):
    """One trace: what a rank did."""

    file: str
    rank: int | None
    world: int | None  # ranks of the job, None where it does not say
    calls: tuple[ObservedCall, ...]
    steps: int  # annotated ones
    window_s: float  # all steps together, or first to last kernel without steps
    device: str  # name of the GPU, empty where the header lists none
    nccl: str  # library version, empty where the header does not say it
    left_out: dict[Statement, int]  # communication kernels without a call, by reason
    broken: bool  # truncated or damaged
    activity: RankActivity
    contents: TraceContents  # what the trace holds at all
    others: tuple[OtherKernel, ...] = ()
    graph: ChakraTrace | None = None  # of a Chakra trace
    assumed: Statement = NOTHING  # what was assumed of its groups

    @property
    def communicates(self) -> bool:
        """Whether it has any communication."""
        return bool(self.calls or self.others or (self.graph and self.graph.communicates))


def observe(events: TraceEvents) -> RankTrace:
    """Work out the calls of one trace, and what its devices did.

    Raises:
        ColltoolError: times that no job takes, or too many ranks in its groups.
    """
    steps = believed_steps(events)
    compute = {device: BusyIntervals(*times) for device, times in events.busy.items()}
    left_out = Counter(events.left_out)
    known_calls, unknown = _known_calls(events, left_out)
    calls = []
    for kernel, call in known_calls:
        exposed_us = kernel.lasts_us - _hidden_us(kernel, compute)
        calls.append(
            ObservedCall(
                call,
                kernel_name(kernel.name),
                seconds=kernel.lasts_us * 1e-6,
                exposed_s=exposed_us * 1e-6,
                inside=_is_inside(kernel, steps),
            )
        )
    others = [
        OtherKernel(short_name(kernel.name), kernel.lasts_us, _hidden_us(kernel, compute))
        for kernel in unknown
    ]
    window_s = steps.window_us * 1e-6
    _check_times(events, calls, window_s)
    job = events.about
    rank = as_count(job.get("rank"))
    return RankTrace(
        file=events.name,
        rank=rank,
        world=as_count(job.get("world_size")),
        calls=tuple(calls),
        steps=steps.annotated,
        window_s=window_s,
        device=events.device,
        nccl=as_text(job.get("nccl_version")),
        left_out=dict(left_out),
        broken=events.broken,
        activity=activity_of(events, steps, rank),
        contents=contents_of(events),
        others=tuple(others),
        graph=events.graph,
    )


def _hidden_us(kernel: LaunchedKernel, compute: dict[int, BusyIntervals]) -> float:
    """Time of a kernel that compute on its device covers."""
    if kernel.device not in compute:
        return 0.0
    return min(kernel.lasts_us, compute[kernel.device].covered(kernel.start_us, kernel.end_us))


def _is_inside(kernel: LaunchedKernel, steps: Steps) -> bool:
    """Whether a kernel began in a step."""
    # the last step that began before it
    step = bisect_right(steps.windows, kernel.start_us, key=itemgetter(0)) - 1
    return step >= 0 and kernel.start_us <= steps.windows[step][1]


def _check_times(events: TraceEvents, calls: Sequence[ObservedCall], window_s: float) -> None:
    """Refuse times that no job takes: their unit is another one."""
    longest_s = max((call.seconds for call in calls), default=0.0)
    in_steps_s = sum(call.seconds for call in calls if call.inside)
    if longest_s > LONGEST_S:
        what = f"a call lasts {longest_s:.3g} s, longer than any call can"
    elif 0 < MOST_TIMES * window_s < in_steps_s:
        steps = format_time(window_s)
        what = f"calls take {format_time(in_steps_s)} of steps of {steps}, which is impossible"
    else:
        return
    raise ColltoolError(
        what,
        where=printable(events.name),
        fix="profile again: ts and dur of an event are microseconds",
    )


def _known_calls(
    events: TraceEvents, left_out: Counter[Statement]
) -> tuple[list[tuple[LaunchedKernel, CallMetadata]], list[LaunchedKernel]]:
    """Calls with their kernels in order of start, and the kernels of which no call is known, which
    are counted in ``left_out`` by reason. A coalesced call may be several kernels, each labelled
    with all its tensors: they are merged."""
    calls: list[tuple[LaunchedKernel, CallMetadata]] = []
    coalesced: dict[tuple[Any, int], int] = {}  # place of a call in ``calls``
    groups: set[Any] = set()
    listed = 0  # ranks in all groups
    unknown: list[LaunchedKernel] = []
    for kernel in sorted(events.launched, key=attrgetter("start_us")):
        labels = events.labels.get(kernel.external, {}) | kernel.labels
        call = call_metadata(labels, events.header, kernel_name(kernel.name).primitives)
        if isinstance(call, Statement):
            left_out[call] += 1
            unknown.append(kernel)
            continue
        # enough to tell groups apart, without hashing all ranks of each call
        group = (len(call.ranks), call.ranks[:2], call.ranks[-1:])
        if group not in groups:
            groups.add(group)
            listed += len(call.ranks)
            _check_listed(events, listed)
        place = len(calls)
        if call.coalesced and kernel.external is not None:
            place = coalesced.setdefault((kernel.external, kernel.device), place)
        if place == len(calls):
            calls.append((kernel, call))
        else:
            first, _ = calls[place]
            calls[place] = first._replace(end_us=max(first.end_us, kernel.end_us)), call
    return calls, unknown


def _check_listed(events: TraceEvents, ranks: int) -> None:
    """Refuse traces whose groups list too many ranks."""
    if ranks > MOST_LISTED:
        raise ColltoolError(
            f"names groups of more than {MOST_LISTED} ranks in all",
            where=printable(events.name),
            fix="profile fewer ranks, or a rank of fewer groups",
        )


def read_traces(files: Sequence[AnyPath], everyone: int = 0) -> list[RankTrace]:
    """The traces of one job, a file a rank, in the order of the files.

    Args:
        everyone: ranks of the fabric, all of which a single Chakra trace that names no group is
            taken to be of; 0 for none.

    Raises:
        ColltoolError: a file is none, two are of one rank or of different jobs, or none of them
            communicates.
    """
    traces = [observe(collect(file)) for file in files]
    traces = _in_one_job(traces, everyone)
    file_of_rank: dict[int, str] = {}
    first = next((trace for trace in traces if trace.world), traces[0])
    for trace in traces:
        if trace.rank in file_of_rank:
            raise ColltoolError(
                f"is a trace of rank {trace.rank}, and so is {file_of_rank[trace.rank]}",
                where=trace.file,
                fix="give one file per rank",
            )
        if trace.rank is not None:
            file_of_rank[trace.rank] = trace.file
        if trace.world and trace.world != first.world:
            raise ColltoolError(
                f"comes from a job of {trace.world} ranks, but {first.file} from one of {first.world}",
                where=trace.file,
                fix="give the traces of one job",
            )
    if not any(trace.communicates for trace in traces):
        raise without_calls(traces, left_out_kernels(traces))
    return traces


def _in_one_job(traces: list[RankTrace], everyone: int) -> list[RankTrace]:
    """Traces of which Chakra's, whose calls do not say how many ranks they have, are taken to be of
    all ranks of the job: as many as files were given, or ``everyone`` for a single file."""
    if not any(trace.graph and trace.graph.lacks_world for trace in traces):
        return traces
    last_rank = max((trace.rank for trace in traces if trace.rank is not None), default=0)
    world = world_of(traces) or max(len(traces), last_rank + 1)
    assumed = statement("group-by-files", world=world)
    if world == 1 or len(traces) == 1:
        if everyone < 2:
            return traces
        world = max(everyone, last_rank + 1)
        assumed = statement("group-by-fabric", world=world)
    in_job = []
    for trace in traces:
        if trace.graph and trace.graph.lacks_world and world <= MOST_MEMBERS:
            graph = trace.graph.in_job(world)
            trace = observe(events_of_chakra(graph.name, graph))._replace(assumed=assumed)
        in_job.append(trace)
    return in_job


def world_of(traces: Sequence[RankTrace]) -> int | None:
    """Number of ranks of the job; None where no trace says it."""
    return next((trace.world for trace in traces if trace.world), None)


def untraced_ranks(ranks: Sequence[int], traces: Sequence[RankTrace]) -> tuple[int, ...]:
    """Those of ``ranks`` without a trace; empty if a trace does not say whose it is."""
    traced = {trace.rank for trace in traces}
    return () if None in traced else tuple(rank for rank in ranks if rank not in traced)


def left_out_kernels(traces: Sequence[RankTrace]) -> tuple[LeftOutKernels, ...]:
    """The kernels that are no calls by reason, the commonest first."""
    counts: Counter[Statement] = Counter()
    first_file: dict[Statement, str] = {}
    for trace in traces:
        counts.update(trace.left_out)
        for reason in trace.left_out:
            first_file.setdefault(reason, trace.file)
    left_out = [
        LeftOutKernels(reason, kernels, first_file[reason]) for reason, kernels in counts.items()
    ]
    return tuple(sorted(left_out, key=lambda kernels: (-kernels.kernels, str(kernels.reason))))
