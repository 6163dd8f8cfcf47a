"""Why traces hold no communication, and what they hold instead.

A trace of one process, of inference on one GPU, of the host alone, or of steps that only compute
is a good trace: nothing of it can be priced, and no other profiler would change that.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError, clipped, printable
from colltool.base.formatting import counted, format_time
from colltool.logs.call_metadata import as_count
from colltool.logs.pytorch_trace import TraceEvents

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


class Held(NamedTuple):
    """What a trace holds."""

    kernels: int
    devices: int
    kinds: tuple[tuple[str, int], ...]  # its events by category
    # its calls by what the host called them: ``nccl:all_reduce``
    announced: tuple[tuple[str, int], ...]
    largest_group: int  # ranks of the largest group that a call names, or 0


def held(found: TraceEvents) -> Held:
    """What the events of a trace are."""
    sizes = [as_count(labels.get("Group size")) or 0 for labels in found.labels.values()]
    return Held(
        found.kernels,
        len(found.busy),
        tuple(found.kinds.most_common()),
        tuple(found.announced.most_common(_NAMED)),
        max(sizes, default=0),
    )


def without_calls(traces: Sequence[RankTrace], reasons: Sequence[LeftOutKernels]) -> ColltoolError:
    """The error for traces without any call: what the first of them holds."""
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
    holds = trace.held
    if trace.graph is not None:
        kinds = Counter(timed.node.type for timed in trace.graph.timed)
        return f"holds no communication node: its graph has {_counts(kinds.most_common(_NAMED))}"
    if holds.kernels:
        text = (
            f"holds no communication kernel: {counted(holds.kernels, 'kernel')} of compute on"
            f" {counted(max(1, holds.devices), 'GPU')}, busy for"
            f" {format_time(trace.activity.compute_s)} of {_window(trace)}"
        )
        if _is_alone(trace):
            text += "; the job is one process (1 rank)"
        return text
    host = all(kind in _HOST for kind, _ in holds.kinds)
    whose = "only what the CPU did" if host else "no GPU kernels at all"
    text = f"holds no communication kernel, {whose}: events of {_counts(holds.kinds[:_NAMED])}"
    if holds.announced:
        text += f"; calls made by the host: {_counts(holds.announced)}"
    return text


def _window(trace: RankTrace) -> str:
    window = format_time(trace.window_s)
    if trace.steps:
        return f"{counted(trace.steps, 'step')} ({window})"
    return window


def _is_alone(trace: RankTrace) -> bool:
    """Whether the job has one process, by its header or by the groups of its calls."""
    return (trace.world or trace.held.largest_group) == 1


def _counts(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{clipped(kind)} ({events:,})" for kind, events in counts)


def _what_to_give(trace: RankTrace) -> str:
    """What to do about it, which is nothing where a job has one process."""
    holds = trace.held
    names = [announced for announced, _ in holds.announced]
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
    if not holds.kernels:
        return (
            "profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on the GPU of"
            " the rank: calls are priced by their kernels"
        )
    if names:
        return "profile until the kernels of the calls have run: only their launches are recorded"
    return "nothing to price, if this is one GPU; else profile whole steps of a rank of the job"
