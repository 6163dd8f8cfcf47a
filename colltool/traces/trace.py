"""``trace``: what ran, call by call, against what a fabric predicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from colltool.base.errors import printable
from colltool.base.files import AnyPath
from colltool.base.formatting import counted
from colltool.base.primitives import SHORT
from colltool.definitions.field_types import MAX_LISTED
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.traces.calls import MergedCall, RankTrace, left_out, merged_calls, read_traces, world_of
from colltool.traces.links import wires_of
from colltool.traces.measurements import judged
from colltool.traces.rank_map import AnyMap, CallPrices, load_map
from colltool.traces.results import CallTotal, TraceComparison, TracedCall, TraceFile


def trace(
    fabric: Fabric, files: Sequence[AnyPath], readings: Readings | None = None, placed: AnyMap | None = None
) -> TraceComparison:
    """Hold the collectives of traces against the prices of a fabric."""
    rank_map = load_map(placed, fabric)
    traces = read_traces(files)
    reading = readings or Readings()
    world = world_of(traces)
    rank_map = rank_map.of(fabric, world)
    prices = CallPrices(fabric, reading, rank_map)
    calls = tuple(_call(one, prices) for one in merged_calls(traces))
    window_s = sum(one.window_s for one in traces)
    totals = _totals(calls, traces, window_s)
    return TraceComparison(
        fabric=fabric.name,
        overrides=fabric.overrides,
        library=fabric.library_facts.name if fabric.library_facts else "",
        rank_map=rank_map,
        files=tuple(TraceFile(one.file, one.rank, one.steps, one.window_s, len(one.calls), one.broken) for one in traces),
        world=world,
        device=next((one.device for one in traces if one.device), ""),
        nccl=next((one.nccl for one in traces if one.nccl), ""),
        window_s=window_s,
        totals=totals,
        calls=calls,
        wires=wires_of(fabric, calls, totals, traces),
        left_out=left_out(traces),
        findings=judged(fabric, calls, traces, reading),
        job=job_text(totals, calls, world),
    )


def _call(one: MergedCall, prices: CallPrices) -> TracedCall:
    call, least, expected = one.call, one.shortest, prices.of(one.call)
    return TracedCall(
        primitive=call.primitive,
        bytes=call.bytes,
        dtype=call.dtype,
        group=call.group,
        group_size=call.size,
        ranks=call.ranks,
        places=expected.places,
        axes=expected.axes,
        kernel=least.kernel.says,
        algorithm=least.kernel.algorithm,
        protocol=least.kernel.protocol,
        coalesced=call.coalesced,
        measured_s=least.seconds,
        bound=one.bound,
        longest_s=max(seen.seconds for seen in one.seen),
        exposed_s=least.exposed_s,
        seen=len(one.seen),
        inside=tuple(trace for trace, seen in zip(one.traces, one.seen, strict=True) if seen.inside),
        expected_s=expected.seconds,
        latency_s=expected.latency_s,
        runs=expected.algorithm,
        tiers=expected.tiers,
        reason=expected.reason,
    )


def _totals(calls: Sequence[TracedCall], traces: Sequence[RankTrace], window_s: float) -> tuple[CallTotal, ...]:
    alike: dict[object, list[TracedCall]] = defaultdict(list)
    for call in calls:
        kind = (call.group, call.group_size, call.axes, call.primitive, call.bytes, call.dtype, call.coalesced, call.reason)
        alike[kind].append(call)
    totals = []
    for several in alike.values():
        first, made = several[0], Counter(trace for call in several for trace in call.inside)
        total = CallTotal(
            group=first.group,
            group_size=first.group_size,
            axes=first.axes,
            primitive=first.primitive,
            bytes=first.bytes,
            dtype=first.dtype,
            coalesced=first.coalesced,
            kernel=", ".join(sorted({call.kernel for call in several if call.kernel})),
            calls=len(several),
            each_s=median(call.measured_s for call in several),
            bound=any(call.bound for call in several),
            total_s=sum(call.measured_s for call in several),
            exposed_s=sum(call.exposed_s for call in several),
            expected_s=first.expected_s,
            runs=first.runs,
            tiers=first.tiers,
            reason=first.reason,
            share=sum(call.measured_s * len(call.inside) for call in several) / window_s if window_s else 0.0,
            a_step=max((number / max(1, traces[trace].steps) for trace, number in made.items()), default=0.0),
        )
        totals.append(total)
    return tuple(sorted(totals, key=lambda one: (-one.share, -one.total_s, one.primitive, one.bytes)))


def job_text(totals: Sequence[CallTotal], calls: Sequence[TracedCall], world: int | None) -> str:
    """A job file of one step's ``calls``; what a job file cannot express stands in comments."""
    last = max((call.places[-1] for call in calls if call.places), default=1)
    ranks = max(world or 0, last + 1)
    lines = [
        "# the collectives of a step, from traces, for colltool plan",
        "schema: colltool.job/1",
        "name: traced",
        f"layout: {{dp: {ranks}}}",
        "calls:",
    ]
    can = [total for total in totals if not _why_not(total)]
    for total in can[:MAX_LISTED]:
        count = max(1, round(total.a_step))
        ((size, stride),) = total.axes
        near = "" if count == total.a_step else f"  # {total.a_step:.4g} in a step"
        group = f"{{ranks: {size}, stride: {stride}}}"
        lines.append(f"  - {{primitive: {SHORT[total.primitive]}, group: {group}, size: {total.bytes}B, count: {count}}}{near}")
    if not can:
        lines[-1] = "calls: []"
    for total in [one for one in totals if one not in can] + can[MAX_LISTED:]:
        why = printable(_why_not(total)) or f"a job lists at most {MAX_LISTED}"
        lines.append(f"# left out: {counted(total.calls, 'call')}, {total.primitive.spoken} of {total.bytes} B: {why}")
    return "\n".join([*lines, ""])


def _why_not(total: CallTotal) -> str:
    if total.reason:
        return total.reason
    if len(total.axes) > 1:
        return "its group has several strides"
    return "" if total.a_step > 0 else "outside the steps"
