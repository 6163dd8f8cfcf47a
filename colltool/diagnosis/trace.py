"""``trace``: what ran, call by call, against what a fabric predicts, and which tier's links are
slow by the bar of ``doctor``."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import groupby, pairwise
from math import ceil, floor, log2
from statistics import median

from colltool.analysis.benchmark_command import BenchmarkSizes, command_line
from colltool.base.errors import ColltoolError, given, printable, said
from colltool.base.files import AnyPath
from colltool.base.formatting import counted, ordinal
from colltool.base.primitives import A2A, P2P, SHORT, Primitive
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.definitions.field_types import MAX_LISTED
from colltool.diagnosis.rank_map import AnyMap, CallPrices, load_map
from colltool.diagnosis.replay import priced_nodes, replay
from colltool.diagnosis.thresholds import FASTER, FEW, HEALTHY_SHARE, SLACK, threshold_of
from colltool.diagnosis.trace_results import (
    CallTotal,
    LinkHealth,
    TraceComparison,
    TracedCall,
    TraceFile,
    TraceFinding,
    UnpricedKernels,
)
from colltool.diagnosis.validate import validate
from colltool.diagnosis.waits import waits_of
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.logs.series import Measurements
from colltool.logs.traced_calls import (
    MergedCall,
    RankTrace,
    left_out,
    merged_calls,
    missing,
    read_traces,
    series_of,
    world_of,
)


def trace(
    fabric: Fabric,
    files: Sequence[AnyPath],
    readings: Readings | None = None,
    placed: AnyMap | None = None,
) -> TraceComparison:
    rank_map = load_map(placed, fabric)
    traces = read_traces(files)
    reading = readings or Readings()
    world = world_of(traces)
    rank_map = rank_map.of(fabric, world)
    prices = CallPrices(fabric, reading, rank_map)
    merged = merged_calls(traces)
    calls = tuple(_call(one, prices) for one in merged)
    window_s = sum(one.window_s for one in traces)
    totals = _totals(calls, traces, window_s)
    return TraceComparison(
        fabric=fabric.name,
        overrides=fabric.overrides,
        library=fabric.library_facts.name if fabric.library_facts else "",
        rank_map=rank_map,
        files=tuple(
            TraceFile(one.file, one.rank, one.steps, one.window_s, len(one.calls), one.broken)
            for one in traces
        ),
        world=world,
        device=next((one.device for one in traces if one.device), ""),
        nccl=next((one.nccl for one in traces if one.nccl), ""),
        window_s=window_s,
        totals=totals,
        calls=calls,
        wires=wires_of(fabric, calls, totals, traces),
        left_out=left_out(traces),
        findings=_judged(fabric, calls, traces, reading),
        job=job_text(totals, calls, world),
        activity=tuple(one.activity for one in traces),
        waits=waits_of(merged, traces),
        unpriced=_unpriced(traces),
        replayed=tuple(
            replay(one.graph, priced_nodes(one.graph, prices.seconds))[0]
            for one in traces
            if one.graph
        ),
    )


def _unpriced(traces: Sequence[RankTrace]) -> tuple[UnpricedKernels, ...]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for trace in traces:
        for name, lasts, hidden in trace.others:
            found[name].append((lasts * 1e-6, (lasts - hidden) * 1e-6))
    rows = (
        UnpricedKernels(
            name, len(times), sum(lasts for lasts, _ in times), sum(exposed for _, exposed in times)
        )
        for name, times in found.items()
    )
    return tuple(sorted(rows, key=lambda one: -one.total_s))


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
        inside=tuple(
            trace for trace, seen in zip(one.traces, one.seen, strict=True) if seen.inside
        ),
        expected_s=expected.seconds,
        latency_s=expected.latency_s,
        runs=expected.algorithm,
        tiers=expected.tiers,
        reason=expected.reason,
    )


def _totals(
    calls: Sequence[TracedCall], traces: Sequence[RankTrace], window_s: float
) -> tuple[CallTotal, ...]:
    alike: dict[object, list[TracedCall]] = defaultdict(list)
    for call in calls:
        kind = (
            call.group,
            call.group_size,
            call.axes,
            call.primitive,
            call.bytes,
            call.dtype,
            call.coalesced,
            call.reason,
        )
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
            share=(
                sum(call.measured_s * len(call.inside) for call in several) / window_s
                if window_s
                else 0.0
            ),
            a_step=max(
                (number / max(1, traces[trace].steps) for trace, number in made.items()),
                default=0.0,
            ),
        )
        totals.append(total)
    return tuple(
        sorted(totals, key=lambda one: (-one.share, -one.total_s, one.primitive, one.bytes))
    )


def job_text(totals: Sequence[CallTotal], calls: Sequence[TracedCall], world: int | None) -> str:
    """A job file of one step's ``calls``; what a job file cannot express stands in comments."""
    last = max((call.places[-1] for call in calls if call.places), default=1)
    ranks = max(world or 0, last + 1)
    lines = [
        "# the collectives of a step, from traces, for colltool plan",
        "schema: colltool.job/1",
    ]
    lines += ["name: traced", f"layout: {{dp: {ranks}}}", "calls:"]
    can = [total for total in totals if not _why_not(total)]
    for total in can[:MAX_LISTED]:
        count = max(1, round(total.a_step))
        ((size, stride),) = total.axes
        near = "" if count == total.a_step else f"  # {total.a_step:.4g} in a step"
        group = f"{{ranks: {size}, stride: {stride}}}"
        lines.append(
            f"  - {{primitive: {SHORT[total.primitive]}, group: {group}, size: {total.bytes}B,"
            f" count: {count}}}{near}"
        )
    if not can:
        lines[-1] = "calls: []"
    for total in [one for one in totals if one not in can] + can[MAX_LISTED:]:
        why = printable(_why_not(total)) or f"a job lists at most {MAX_LISTED}"
        lines.append(
            f"# left out: {counted(total.calls, 'call')}, {total.primitive.spoken} of {total.bytes}"
            f" B: {why}"
        )
    return "\n".join([*lines, ""])


def _why_not(total: CallTotal) -> str:
    if total.reason:
        return total.reason
    if len(total.axes) > 1:
        return "its group has several strides"
    return "" if total.a_step > 0 else "outside the steps"


HEALTHY_SMALL_A2A = 0.40
"""Small all-to-alls depend on how the library posts them to peers: healthy machines reach 40 to
160%."""
WAITS = "a kernel waits for the slowest rank"
MOST_RUNS = 3  # runs of ranks that a sentence names


def wires_of(
    fabric: Fabric,
    calls: Sequence[TracedCall],
    totals: Sequence[CallTotal],
    traces: Sequence[RankTrace],
) -> tuple[LinkHealth, ...]:
    crossing: dict[str, list[TracedCall]] = defaultdict(list)
    for call in calls:
        if call.expected_s is not None and call.tiers:
            crossing[call.tiers[-1]].append(call)
    found: list[LinkHealth] = []
    for tier in fabric.tiers:
        if mine := crossing.get(tier.name):
            fine = {one.tier for one in found if one.verdict == "fine"}
            rows = [
                total
                for total in totals
                if total.expected_s is not None and total.tiers[-1:] == (tier.name,)
            ]
            found.append(_wire(fabric, mine, rows, traces, fine))
    return tuple(found)


def _wire(
    fabric: Fabric,
    calls: Sequence[TracedCall],
    rows: Sequence[CallTotal],
    traces: Sequence[RankTrace],
    fine: Collection[str],
) -> LinkHealth:
    clear = [call for call in calls if not call.bound]
    judged = clear or calls
    slow = _reach(judged) < _bar(fabric, judged)
    groups = {call.ranks for call in calls if call.bound and call.primitive is not P2P}
    lacking = {unseen for group in groups if (unseen := missing(group, traces))}
    unseen = min(lacking, key=lambda ranks: (len(ranks), ranks), default=())
    return LinkHealth(
        tier=calls[0].tiers[-1],
        innermost=calls[0].tiers[-1] == fabric.tiers[0].name,
        calls=len(calls),
        clear=len(clear),
        measured_s=sum(call.measured_s for call in calls),
        exposed_s=sum(call.exposed_s for call in calls),
        expected_s=sum(call.expected_s or 0.0 for call in calls),
        of_expected=_reach(judged),
        share=sum(row.share for row in rows),
        exposed=sum(row.share * row.exposed for row in rows),
        bar=_bar(fabric, judged),
        verdict="fine" if not slow else "slow" if clear else "unknown",
        beside=_beside(fabric, judged, fine) if slow else (),
        missing=unseen,
        why=_why([call for call in calls if call.bound], unseen),
        measure=_measure(fabric, calls),
        note=_note(fabric, judged),
    )


def _reach(calls: Sequence[TracedCall]) -> float:
    """Expected over measured time, with the median of like calls, since the first may set up
    connections."""
    alike: dict[object, list[TracedCall]] = defaultdict(list)
    for call in calls:
        alike[call.primitive, call.bytes, call.axes, call.coalesced].append(call)
    measured = sum(
        len(several) * median(call.measured_s for call in several) for several in alike.values()
    )
    return sum(call.expected_s or 0.0 for call in calls) / measured


def _bar(fabric: Fabric, calls: Sequence[TracedCall]) -> float:
    """The mean of ``doctor``'s bars, weighted by expected time: lower on part of a host, and where
    most of it is latency."""
    inner, bars = fabric.tiers[0], []
    for call in calls:
        bar = threshold_of(
            call.primitive, len(call.ranks), inner.endpoints, across=call.tiers[-1] != inner.name
        )
        bars.append(
            bar if not _small(call) else HEALTHY_SMALL_A2A if call.primitive is A2A else bar - SLACK
        )
    due = [call.expected_s or 0.0 for call in calls]
    return sum(share * bar for share, bar in zip(due, bars, strict=True)) / sum(due)


def _small(call: TracedCall) -> bool:
    return 2 * (call.latency_s or 0.0) > (call.expected_s or 0.0)


def _beside(fabric: Fabric, calls: Sequence[TracedCall], fine: Collection[str]) -> tuple[str, ...]:
    """Inner tiers that slow calls cross and no others clear; none if calls over the outermost tier
    alone are slow too."""
    own = calls[0].tiers[-1]
    crossed = {
        places: _crossed(fabric, places) - {own, *fine}
        for places in {call.places for call in calls}
    }
    alone = [call for call in calls if not crossed[call.places]]
    if alone and _reach(alone) < _bar(fabric, alone):
        return ()
    return tuple(
        tier.name for tier in fabric.tiers if any(tier.name in some for some in crossed.values())
    )


def _crossed(fabric: Fabric, places: Sequence[int]) -> set[str]:
    """Tiers in which some domain has members in several parts, so that traffic may use its
    links."""
    found, inside = set(), 1
    for tier in fabric.tiers:
        parts = {place // inside for place in places}
        if len(parts) > len({part // tier.endpoints for part in parts}):
            found.add(tier.name)
        inside *= tier.endpoints
    return found


def _note(fabric: Fabric, calls: Sequence[TracedCall]) -> str:
    reach, ranks = _reach(calls), max(len(call.ranks) for call in calls)
    if _bar(fabric, calls) <= reach < HEALTHY_SHARE and ranks < FEW:
        return (
            f"{ranks} ranks: healthy nodes also reach only 55-85% of the price on so few; larger"
            " groups tell more"
        )
    if reach > FASTER and not any(map(_small, calls)):
        what = f"{calls[0].tiers[-1]} of {fabric.name} cannot be so fast"
        return said(f"{what}: another fabric, or ranks that sit elsewhere ({given('placed')})")
    return ""


def _why(calls: Sequence[TracedCall], unseen: Sequence[int]) -> str:
    if not calls:
        return ""
    if unseen:
        return f"{WAITS}, and there is no trace of {ranks_text(unseen)}"
    if all(call.primitive is P2P for call in calls):
        return "the two ends of a message are measured apart, and either may wait for the other"
    if all(call.seen == call.group_size for call in calls):
        return "the parts of these all-to-alls are uneven, while the price assumes even ones"
    return f"{WAITS}, and the calls of the ranks do not pair off"


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 1``, ``ranks 1 to 7``, ``every 8th rank from 8 to 56``,
    ``ranks 1 to 3, 8, 10 and 3 more``."""
    apart = {after - before for before, after in pairwise(ranks)}
    if len(ranks) > MOST_RUNS and len(apart) == 1 and apart != {1}:
        return f"every {ordinal(apart.pop())} rank from {ranks[0]} to {ranks[-1]}"
    runs = [
        [rank for _, rank in run]
        for _, run in groupby(enumerate(ranks), key=lambda one: one[1] - one[0])
    ]
    told = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:MOST_RUNS]]
    left = sum(map(len, runs[MOST_RUNS:]))
    return f"rank{'s' * (len(ranks) != 1)} {', '.join(told)}{f' and {left} more' if left else ''}"


def _measure(fabric: Fabric, calls: Sequence[TracedCall]) -> str:
    """A benchmark for this tier alone, of the primitive that takes most of its time, over the sizes
    of the run: inside a host the call's ranks, between hosts one rank on each."""
    taken: dict[Primitive, float] = defaultdict(float)
    for call in calls:
        taken[call.primitive] += call.measured_s
    primitive = max(taken, key=taken.__getitem__)
    largest = max(
        (call for call in calls if call.primitive is primitive),
        key=lambda call: (len(call.places), call.bytes),
    )
    inner = fabric.tiers[0]
    hosts = len({place // inner.endpoints for place in largest.places})
    within = largest.tiers[-1] == inner.name
    if capabilities_of(inner).axes or (within and len(largest.places) > MOST_IN_A_HOST):
        return ""
    sizes = [call.bytes for call in calls if call.primitive is primitive]
    first, last = 2 ** floor(log2(min(sizes))), 2 ** ceil(log2(max(sizes)))
    units = (("G", 2**30), ("M", 2**20), ("K", 2**10), ("", 1))
    low, high = (
        next(f"{size // unit}{letter}" for letter, unit in units if size >= unit)
        for size in (first, last)
    )
    ranks, nodes = (len(largest.places), 1) if within else (hosts, hosts)
    return command_line(
        primitive, BenchmarkSizes(f"-b {low} -e {high} -f 2", f"{first}:{last}"), ranks, nodes
    )


def _judged(
    fabric: Fabric, calls: Sequence[TracedCall], traces: Sequence[RankTrace], readings: Readings
) -> tuple[TraceFinding, ...]:
    found = []
    usable = (
        call for call in calls if not call.bound and not call.reason and call.primitive is not P2P
    )
    packed = (call for call in usable if call.axes == ((call.group_size, 1),))
    measured = [(call.primitive, call.group_size, call.bytes, call.measured_s) for call in packed]
    for series in series_of(measured, traces):
        try:
            (one,) = validate(fabric, Measurements((series,), ()), readings=readings).series
        except ColltoolError:  # impossible times, or nothing shipped runs here
            continue
        if one.findings:
            found.append(TraceFinding(series.title, tuple(one.findings)))
    return tuple(found)
