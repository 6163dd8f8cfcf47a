"""``trace``: what ran, call by call, and what a fabric says that it should take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from colltool.base.inputs import AnyPath
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.traces.job import job_text
from colltool.traces.judged import judged
from colltool.traces.merged import Merged, merged
from colltool.traces.observed import Observations
from colltool.traces.placed import Prices
from colltool.traces.rank_map import AnyMap, load_map
from colltool.traces.ranks import left_out, read_traces, world_of
from colltool.traces.results import Call, File, Total, Trace
from colltool.traces.wires import wires_of


def trace(fabric: Fabric, files: Sequence[AnyPath], readings: Readings | None = None, placed: AnyMap | None = None) -> Trace:
    """Hold the collectives of traces against the prices of a fabric.

    Args:
        fabric: where they ran.
        files: of one rank each, of one job.
        readings: of the model; the defaults when None.
        placed: which rank of the fabric each rank of the job is, as :func:`colltool.traces.rank_map.load_map`; when None the
            same.

    Raises:
        ColltoolError: a file that is no trace, two of one rank, no call that can be told, a rank that the fabric does not have,
            a map that is none.
    """
    rank_map = load_map(placed, fabric)
    traces = read_traces(files)
    reading = readings or Readings()
    world = world_of(traces)
    rank_map = rank_map.of(fabric, world)
    prices = Prices(fabric, reading, rank_map)
    calls = tuple(_call(one, prices) for one in merged(traces))
    window_s = sum(one.window_s for one in traces)
    totals = _totals(calls, traces, window_s)
    return Trace(
        fabric=fabric.name,
        overrides=fabric.overrides,
        library=fabric.library_facts.name if fabric.library_facts else "",
        rank_map=rank_map,
        files=tuple(File(one.file, one.rank, one.steps, one.window_s, len(one.calls), one.broken) for one in traces),
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


def _call(one: Merged, prices: Prices) -> Call:
    call, least, expected = one.call, one.shortest, prices.of(one.call)
    return Call(
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


def _totals(calls: Sequence[Call], traces: Sequence[Observations], window_s: float) -> tuple[Total, ...]:
    """What takes most of the steps first."""
    alike: dict[object, list[Call]] = defaultdict(list)
    for call in calls:
        kind = (call.group, call.group_size, call.axes, call.primitive, call.bytes, call.dtype, call.coalesced, call.reason)
        alike[kind].append(call)
    steps = [max(1, one.steps) for one in traces]
    totals = [_total(several, window_s, steps) for several in alike.values()]
    return tuple(sorted(totals, key=lambda one: (-one.share, -one.total_s, one.primitive, one.bytes)))


def _total(calls: Sequence[Call], window_s: float, steps: Sequence[int]) -> Total:
    first = calls[0]
    return Total(
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
        share=sum(call.measured_s * len(call.inside) for call in calls) / window_s if window_s else 0.0,
        a_step=_a_step(calls, steps),
    )


def _a_step(calls: Sequence[Call], steps: Sequence[int]) -> float:
    """Calls in a step of the rank that makes most."""
    made = Counter(trace for call in calls for trace in call.inside)
    return max((number / steps[trace] for trace, number in made.items()), default=0.0)
