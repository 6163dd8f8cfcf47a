"""What a benchmark would have measured, out of the traces of a job: :func:`measured_calls` gives
series of the calls that all ranks were traced of, and upper bounds of the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from colltool.base.files import AnyPath
from colltool.base.primitives import P2P, Primitive
from colltool.base.statements import NOTHING, Statement
from colltool.logs.call_metadata import CallMetadata
from colltool.logs.merged_calls import merged_calls
from colltool.logs.sentences import statement
from colltool.logs.series import Measurements, Series, point_of
from colltool.logs.traced_calls import (
    LeftOutKernels,
    RankTrace,
    left_out_kernels,
    read_traces,
    untraced_ranks,
    world_of,
)

MESSAGE = statement("message")
SPREAD = statement("spread-group")


class UpperBound(NamedTuple):
    """Calls known only as upper bounds: a kernel waits for the slowest rank, and not all ranks were
    traced."""

    primitive: Primitive
    ranks: int
    calls: int
    # ranks without a trace; empty where unknown, or where all are there but their calls do not pair
    # off
    missing: tuple[int, ...]
    wire: str = ""  # the outermost tier that they cross on the fabric


class TracedSeries(NamedTuple):
    """What traces measure."""

    measurements: Measurements  # of calls with every rank traced
    devices: tuple[str, ...]  # names, each once
    world: int | None  # ranks of the job, None where no trace says it
    bounds: tuple[UpperBound, ...]  # of calls with upper bounds only, most calls first
    left_out: tuple[LeftOutKernels, ...]  # the rest


class MeasuredCall(NamedTuple):
    """A call as a benchmark would have made it: its ranks start at a multiple of their number."""

    primitive: Primitive
    ranks: int
    bytes: int
    seconds: float


def measured_calls(files: Sequence[AnyPath]) -> TracedSeries:
    """What a benchmark would have measured, out of the traces of a job; ColltoolError as
    :func:`~colltool.logs.traced_calls.read_traces`."""
    traces = read_traces(files)
    calls: list[MeasuredCall] = []
    bounds: Counter[UpperBound] = Counter()  # each with one call
    untraced = cache(lambda ranks: untraced_ranks(ranks, traces))  # most calls are of few groups
    unmeasured: dict[Statement, list[str]] = defaultdict(list)  # files by reason
    for merged in merged_calls(traces):
        call = merged.call
        reason = _not_measured(call)
        if reason:
            unmeasured[reason].append(traces[merged.traces[0]].file)
        elif merged.bound:
            bound = UpperBound(call.primitive, call.size, 1, untraced(call.ranks))
            bounds[bound] += 1
        else:
            shortest_s = merged.shortest.seconds
            calls.append(MeasuredCall(call.primitive, call.size, call.bytes, shortest_s))
    others = [LeftOutKernels(reason, len(files), files[0]) for reason, files in unmeasured.items()]
    devices = dict.fromkeys(trace.device for trace in traces if trace.device)
    return TracedSeries(
        Measurements(series_of(calls, traces), ()),
        tuple(devices),
        world_of(traces),
        bounds=tuple(bound._replace(calls=times) for bound, times in bounds.most_common()),
        left_out=(*left_out_kernels(traces), *others),
    )


def _not_measured(call: CallMetadata) -> Statement:
    """Why no benchmark measures a call: a message, or a group that is not of consecutive ranks from
    a multiple of their number on; NOTHING where one does."""
    if call.primitive is P2P:
        return MESSAGE
    if call.ranks:
        first = call.ranks[0]
        if call.ranks[-1] - first >= call.size or first % call.size:
            return SPREAD
    return NOTHING


def series_of(calls: Iterable[MeasuredCall], traces: Sequence[RankTrace]) -> tuple[Series, ...]:
    """A series per primitive and rank count."""
    times: dict[tuple[Primitive, int], dict[int, list[float]]] = defaultdict(dict)
    for primitive, ranks, size, seconds in calls:
        times[primitive, ranks].setdefault(size, []).append(seconds)
    files = tuple(trace.file for trace in traces)
    # PyTorch calls RCCL nccl, its kernels too
    is_amd = any(trace.device.startswith("AMD") for trace in traces)
    library = "RCCL" if is_amd else "NCCL"
    version = next((trace.nccl for trace in traces if trace.nccl), "")
    series = []
    for (primitive, ranks), by_size in sorted(times.items()):
        sizes = sorted(by_size.items())
        series.append(
            Series(
                primitive,
                ranks,
                nodes=None,
                points=tuple(point_of(float(size), repeats, files[0]) for size, repeats in sizes),
                library=library,
                version=version,
                files=files,
            )
        )
    return tuple(series)
