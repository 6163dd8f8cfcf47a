"""Who arrives last: a call's time on the wire is its shortest kernel, and what the others take
longer they wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from colltool.base.primitives import P2P, Primitive
from colltool.diagnosis.trace_results import CallWait, RankWait, Waits
from colltool.logs.traced_calls import MergedCall, RankTrace


def waits_of(merged: Sequence[MergedCall], traces: Sequence[RankTrace]) -> Waits:
    shared = [one for one in merged if len(one.seen) > 1 and one.call.primitive is not P2P]
    made, last, waited = [0] * len(traces), [0] * len(traces), [0.0] * len(traces)
    for one in shared:
        times = [seen.seconds for seen in one.seen]
        last[one.traces[times.index(min(times))]] += 1
        for at, seconds in zip(one.traces, times, strict=True):
            made[at] += 1
            waited[at] += seconds - min(times)
    by_rank = zip(traces, made, last, waited, strict=True)
    ranks = tuple(
        RankWait(trace.rank, trace.file, calls, late, wait)
        for trace, calls, late, wait in by_rank
        if calls
    )
    return Waits(ranks, tuple(_by_collective(shared)))


def _by_collective(shared: Sequence[MergedCall]) -> Iterator[CallWait]:
    alike: dict[tuple[Primitive, int], list[MergedCall]] = defaultdict(list)
    for one in shared:
        alike[one.call.primitive, one.call.size].append(one)
    for (primitive, size), several in sorted(alike.items()):
        wire = sum(one.shortest.seconds for one in several)
        whole = sum(sum(seen.seconds for seen in one.seen) / len(one.seen) for one in several)
        yield CallWait(primitive, size, len(several), wire, whole - wire)
