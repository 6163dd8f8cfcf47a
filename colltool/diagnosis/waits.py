"""Which rank arrives last: the shortest kernel of a call is its time on the wire, and whatever the
other ranks' kernels take longer is waiting (:func:`waits_of`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from colltool.base.primitives import P2P, Primitive
from colltool.diagnosis.trace_results import CallWait, RankWait, Waits
from colltool.logs.merged_calls import MergedCall
from colltool.logs.traced_calls import RankTrace


def waits_of(merged: Sequence[MergedCall], traces: Sequence[RankTrace]) -> Waits:
    """Waiting by rank and by collective, of calls that several traced ranks made."""
    # the two ends of a message wait for each other, so that neither is the time on the wire
    shared = [call for call in merged if len(call.seen) > 1 and call.call.primitive is not P2P]
    waits: dict[int, list[float]] = defaultdict(list)  # seconds of each call, by index of the trace
    times_last = [0] * len(traces)  # how often each came last
    for call in shared:
        wire_s = call.shortest.seconds
        # in the order of call.traces, the indices of the traces
        kernels_s = [seen.seconds for seen in call.seen]
        times_last[call.traces[kernels_s.index(wire_s)]] += 1
        for index, kernel_s in zip(call.traces, kernels_s, strict=True):
            waits[index].append(kernel_s - wire_s)
    ranks = []
    for index, trace in enumerate(traces):
        if index in waits:
            waited_s = waits[index]
            ranks.append(
                RankWait(
                    rank=trace.rank,
                    file=trace.file,
                    calls=len(waited_s),
                    last=times_last[index],
                    wait_s=sum(waited_s),
                )
            )
    return Waits(tuple(ranks), tuple(_by_collective(shared)))


def _by_collective(shared: Sequence[MergedCall]) -> Iterator[CallWait]:
    """Time on the wire and of waiting by primitive and group size, mean per rank."""
    alike: dict[tuple[Primitive, int], list[MergedCall]] = defaultdict(list)
    for call in shared:
        alike[call.call.primitive, call.call.size].append(call)
    for (primitive, size), calls in sorted(alike.items()):
        wire_s = 0.0
        kernels_s = 0.0
        for call in calls:
            wire_s += call.shortest.seconds
            kernels_s += sum(seen.seconds for seen in call.seen) / len(call.seen)
        yield CallWait(
            primitive,
            size,
            calls=len(calls),
            wire_s=wire_s,
            wait_s=kernels_s - wire_s,
        )
