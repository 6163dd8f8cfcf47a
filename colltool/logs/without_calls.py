"""Why traces hold no communication, and what they hold instead: the error :func:`without_calls`.

A trace of one process, of inference on one GPU, of the host alone, or of steps that only compute
is a good trace: nothing of it can be priced, and no other profiler would change that.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError, clipped, printable
from colltool.base.formatting import counted, format_time
from colltool.logs.call_metadata import as_count
from colltool.logs.trace_events import TraceEvents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colltool.logs.traced_calls import LeftOutKernels, RankTrace

# categories of what the host does: Kineto's ActivityType, and the names before 1.12
_HOST = frozenset(
    [
        "cpu_op",
        "Operator",
        "user_annotation",
        "cpu_instant_event",
        "python_function",
        "cuda_runtime",
        "Runtime",
        "cuda_driver",
        "Trace",
        "overhead",
        "ac2g",
        "fwdbwd",
        "async_cpu_to_gpu",
        "forward_backward",
    ]
)
_NAMED = 3  # categories and calls that a sentence lists


class TraceContents(NamedTuple):
    """What a trace holds at all."""

    kernels: int  # of communication and compute
    devices: int  # that compute
    kinds: tuple[tuple[str, int], ...]  # its events by category
    # its calls by what the host called them: ``nccl:all_reduce``
    announced: tuple[tuple[str, int], ...]
    largest_group: int  # ranks of the largest group that a call names, or 0


def contents_of(events: TraceEvents) -> TraceContents:
    """What the events of a trace are."""
    sizes = [as_count(labels.get("Group size")) or 0 for labels in events.labels.values()]
    return TraceContents(
        events.kernels,
        len(events.busy),
        tuple(events.kinds.most_common()),
        tuple(events.announced.most_common(_NAMED)),
        max(sizes, default=0),
    )


def without_calls(traces: Sequence[RankTrace], reasons: Sequence[LeftOutKernels]) -> ColltoolError:
    """The error for traces without any call: what the first of them holds, and what to give.

    Args:
        reasons: why communication kernels are no calls, the commonest first; empty where there are
            no such kernels.
    """
    trace = traces[0]
    what = _what_it_holds(trace)
    if reasons:
        # any of them may communicate
        left_out = counted(reasons[0].kernels, "kernel")
        what = f"holds no communication kernel with a time: {left_out}: {reasons[0].reason}"
    if len(traces) > 1:
        what += f"; nor do the other {counted(len(traces) - 1, 'trace')} hold any"
    fix = _what_to_give(trace)
    if any(other.broken for other in traces):
        what += "; the file ends too early or is damaged, and what stands before that was read"
        fix = f"copy the file again, or profile again; {fix}"
    return ColltoolError(what, where=printable(trace.file), fix=fix)


def _what_it_holds(trace: RankTrace) -> str:
    """``holds no communication kernel: 60 kernels of compute on 1 GPU, busy for 2.3 ms of 4
    steps``."""
    contents = trace.contents
    if trace.graph is not None:
        kinds = Counter(timed.node.type for timed in trace.graph.timed)
        return f"holds no communication node: its graph has {_counts(kinds.most_common(_NAMED))}"
    if contents.kernels:
        text = (
            f"holds no communication kernel: {counted(contents.kernels, 'kernel')} of compute on"
            f" {counted(max(1, contents.devices), 'GPU')}, busy for"
            f" {format_time(trace.activity.compute_s)} of {_window(trace)}"
        )
        if _is_alone(trace):
            text += "; the job is one process (1 rank)"
        return text
    is_host_alone = all(kind in _HOST for kind, _ in contents.kinds)
    instead = "only what the CPU did" if is_host_alone else "no GPU kernels at all"
    text = f"holds no communication kernel, {instead}: events of {_counts(contents.kinds[:_NAMED])}"
    if contents.announced:
        text += f"; calls made by the host: {_counts(contents.announced)}"
    return text


def _window(trace: RankTrace) -> str:
    """``4 steps (12 ms)``, or the time alone without steps."""
    window = format_time(trace.window_s)
    if trace.steps:
        return f"{counted(trace.steps, 'step')} ({window})"
    return window


def _is_alone(trace: RankTrace) -> bool:
    """Whether the job has one process, by its header or by the groups of its calls."""
    return (trace.world or trace.contents.largest_group) == 1


def _counts(counts: Sequence[tuple[str, int]]) -> str:
    """``cpu_op (1,204), Trace (3)``."""
    return ", ".join(f"{clipped(kind)} ({events:,})" for kind, events in counts)


def _what_to_give(trace: RankTrace) -> str:
    """What to do about it, which is nothing where a job has one process."""
    names = [announced for announced, _ in trace.contents.announced]
    if trace.graph is not None:
        return "give a graph with COMM_COLL_NODE, COMM_SEND_NODE or COMM_RECV_NODE"
    if trace.left_out:
        return (
            "profile again: ts and dur of an event are its begin and its duration in microseconds"
        )
    if _is_alone(trace):
        return "nothing to price: one process sends to nobody; give a rank of a larger job"
    if names and all(announced.startswith(("gloo:", "mpi:")) for announced in names):
        return "nothing to price: gloo and MPI run on the CPU; give a trace with NCCL or RCCL"
    if not trace.contents.kernels:
        return (
            "profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on the GPU of"
            " the rank: calls are priced by their kernels"
        )
    if names:
        return "profile until the kernels of the calls have run: only their launches are recorded"
    return "nothing to price, if this is one GPU; else profile whole steps of a rank of the job"
