"""``trace``: compares what ran, call by call, with what a fabric predicts, and says which tier's
links are slow by the bar of ``doctor``.

:func:`trace` reads the traces of a job, prices each call (:class:`~.call_prices.CallPrices`), sums
calls of one kind, and judges links (:mod:`~colltool.diagnosis.link_health`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from colltool.base.errors import ColltoolError
from colltool.base.files import AnyPath
from colltool.base.primitives import P2P
from colltool.diagnosis.call_prices import CallPrices
from colltool.diagnosis.link_health import links_of
from colltool.diagnosis.rank_map import AnyMap, load_map
from colltool.diagnosis.replay import Replayed, priced_nodes, replay
from colltool.diagnosis.trace_results import (
    CallTotal,
    TraceComparison,
    TracedCall,
    TraceFile,
    TraceFinding,
    UnpricedKernels,
)
from colltool.diagnosis.traced_job import job_text
from colltool.diagnosis.validate import validate
from colltool.diagnosis.waits import waits_of
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.logs.merged_calls import MergedCall, merged_calls
from colltool.logs.series import Measurements
from colltool.logs.traced_calls import RankTrace, left_out_kernels, read_traces, world_of
from colltool.logs.traced_series import MeasuredCall, series_of


def trace(
    fabric: Fabric,
    files: Sequence[AnyPath],
    readings: ModelOptions | None = None,
    placed: AnyMap | None = None,
) -> TraceComparison:
    """The collectives of traces against a fabric's prices.

    Args:
        files: traces of one job, a rank each.
        placed: which fabric rank each rank is; None for the fabric's order.

    Raises:
        ColltoolError: files that are no such traces, a map that does not fit, or ranks that the
            fabric does not have.
    """
    rank_map = load_map(placed, fabric)
    traces = read_traces(files, fabric.ranks)
    reading = readings or ModelOptions()
    world = world_of(traces)
    rank_map = rank_map.of(fabric, world)
    prices = CallPrices(fabric, reading, rank_map)
    merged = list(merged_calls(traces))
    calls = tuple(_priced_call(call, prices) for call in merged)
    window_s = sum(rank_trace.window_s for rank_trace in traces)
    totals = _totals_by_kind(calls, traces, window_s)
    return TraceComparison(
        fabric=fabric.name,
        overrides=fabric.overrides,
        library=fabric.library_facts.name if fabric.library_facts else "",
        rank_map=rank_map,
        files=tuple(map(_trace_file, traces)),
        world=world,
        device=next((rank_trace.device for rank_trace in traces if rank_trace.device), ""),
        nccl=next((rank_trace.nccl for rank_trace in traces if rank_trace.nccl), ""),
        window_s=window_s,
        totals=totals,
        calls=calls,
        wires=links_of(fabric, calls, totals, traces),
        left_out=left_out_kernels(traces),
        findings=tuple(_findings(fabric, calls, traces, reading)),
        job=job_text(totals, calls, world),
        activity=tuple(rank_trace.activity for rank_trace in traces),
        waits=waits_of(merged, traces),
        unpriced=_unpriced_kernels(traces),
        replayed=tuple(_replays(traces, prices)),
        assumed=tuple(
            dict.fromkeys(rank_trace.assumed for rank_trace in traces if rank_trace.assumed)
        ),
    )


def _trace_file(rank_trace: RankTrace) -> TraceFile:
    """A trace as a file: whose it is, how long, and whether it is whole."""
    return TraceFile(
        file=rank_trace.file,
        rank=rank_trace.rank,
        steps=rank_trace.steps,
        window_s=rank_trace.window_s,
        calls=len(rank_trace.calls),
        broken=rank_trace.broken,
    )


def _replays(traces: Sequence[RankTrace], prices: CallPrices) -> Iterator[Replayed]:
    """The graph of each Chakra trace, walked with prices."""
    for rank_trace in traces:
        if rank_trace.graph:
            replayed, _ = replay(rank_trace.graph, priced_nodes(rank_trace.graph, prices))
            yield replayed


def _unpriced_kernels(traces: Sequence[RankTrace]) -> tuple[UnpricedKernels, ...]:
    """Communication kernels of which no bytes are known, a row a name, what takes longest first."""
    rows: dict[str, UnpricedKernels] = {}
    for rank_trace in traces:
        for name, lasts_us, hidden_us in rank_trace.others:
            row = rows.get(name) or UnpricedKernels(name, calls=0, total_s=0.0, exposed_s=0.0)
            rows[name] = row._replace(
                calls=row.calls + 1,
                total_s=row.total_s + lasts_us * 1e-6,
                exposed_s=row.exposed_s + (lasts_us - hidden_us) * 1e-6,
            )
    return tuple(sorted(rows.values(), key=lambda row: -row.total_s))


def _priced_call(merged: MergedCall, prices: CallPrices) -> TracedCall:
    """A call of the job with its price, by the kernel that waited least (``shortest``)."""
    call = merged.call
    shortest = merged.shortest
    expected = prices.of(call)
    # merged.seen has the kernel of each rank that made the call, merged.traces their trace's index
    inside = [file for file, seen in zip(merged.traces, merged.seen, strict=True) if seen.inside]
    return TracedCall(
        primitive=call.primitive,
        bytes=call.bytes,
        dtype=call.dtype,
        group=call.group,
        group_size=call.size,
        ranks=call.ranks,
        places=expected.places,
        axes=expected.axes,
        kernel=shortest.kernel.says,
        algorithm=shortest.kernel.algorithm,
        protocol=shortest.kernel.protocol,
        coalesced=call.coalesced,
        measured_s=shortest.seconds,
        bound=merged.bound,
        longest_s=max(seen.seconds for seen in merged.seen),
        exposed_s=shortest.exposed_s,
        seen=len(merged.seen),
        inside=tuple(inside),
        expected_s=expected.seconds,
        latency_s=expected.latency_s,
        runs=expected.algorithm,
        tiers=expected.tiers,
        reason=expected.reason,
    )


def _kind(call: TracedCall) -> tuple[object, ...]:
    """What the calls of one row have alike."""
    group = (call.group, call.group_size, call.axes)
    return (*group, call.primitive, call.bytes, call.dtype, call.coalesced, call.reason)


def _totals_by_kind(
    calls: Sequence[TracedCall], traces: Sequence[RankTrace], window_s: float
) -> tuple[CallTotal, ...]:
    """Calls of one kind as one row, those that take most of a step first."""
    alike: dict[object, list[TracedCall]] = defaultdict(list)
    for call in calls:
        alike[_kind(call)].append(call)
    totals = [_total_of(of_kind, traces, window_s) for of_kind in alike.values()]
    totals.sort(key=lambda total: (-total.share, -total.total_s, total.primitive, total.bytes))
    return tuple(totals)


def _total_of(
    calls: Sequence[TracedCall], traces: Sequence[RankTrace], window_s: float
) -> CallTotal:
    """Calls that are alike as one row; ``window_s``: all steps of all ranks."""
    first = calls[0]
    in_steps: Counter[int] = Counter()  # calls in steps, by trace
    in_steps_s = 0.0
    for call in calls:
        in_steps.update(call.inside)
        in_steps_s += call.measured_s * len(call.inside)
    a_step = 0.0
    for index, count in in_steps.items():
        a_step = max(a_step, count / max(1, traces[index].steps))
    return CallTotal(
        group=first.group,
        group_size=first.group_size,
        axes=first.axes,
        primitive=first.primitive,
        bytes=first.bytes,
        dtype=first.dtype,
        coalesced=first.coalesced,
        kernel=", ".join(sorted({call.kernel for call in calls if call.kernel})),
        calls=len(calls),
        each_s=median(call.measured_s for call in calls),
        bound=any(call.bound for call in calls),
        total_s=sum(call.measured_s for call in calls),
        exposed_s=sum(call.exposed_s for call in calls),
        expected_s=first.expected_s,
        runs=first.runs,
        tiers=first.tiers,
        reason=first.reason,
        share=in_steps_s / window_s if window_s else 0.0,
        a_step=a_step,
    )


def _findings(
    fabric: Fabric, calls: Sequence[TracedCall], traces: Sequence[RankTrace], readings: ModelOptions
) -> Iterator[TraceFinding]:
    """What ``validate`` says of calls that a benchmark could have made: of consecutive ranks, with a
    price, and no upper bounds."""
    measured: list[MeasuredCall] = []
    for call in calls:
        is_consecutive = call.axes == ((call.group_size, 1),)
        is_measured = not call.bound and not call.reason
        if is_consecutive and is_measured and call.primitive is not P2P:
            measured.append(
                MeasuredCall(call.primitive, call.group_size, call.bytes, call.measured_s)
            )
    for series in series_of(measured, traces):
        try:
            validation = validate(fabric, Measurements((series,), ()), readings=readings)
        except ColltoolError:  # impossible times, or nothing shipped runs here
            continue
        (judged,) = validation.series  # one series was given
        (health,) = validation.health
        if judged.findings or health.judgeable:
            yield TraceFinding(series.title, judged.findings, health)
