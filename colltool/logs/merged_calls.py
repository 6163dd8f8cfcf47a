"""The kernels of one call put together: what several ranks of a job saw is one call
(:func:`merged_calls`).

The last rank to arrive does not wait, so its kernel is the shortest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.primitives import P2P
from colltool.logs.call_metadata import CallMetadata
from colltool.logs.traced_calls import ObservedCall, RankTrace


class MergedCall(NamedTuple):
    """A call with its kernels, one per traced rank."""

    call: CallMetadata
    seen: tuple[ObservedCall, ...]  # the call as each of these ranks saw it
    traces: tuple[int, ...]  # the indices of their traces, in the order of ``seen``

    @property
    def shortest(self) -> ObservedCall:
        """The kernel that waited least."""
        return min(self.seen, key=attrgetter("seconds"))

    @property
    def bound(self) -> bool:
        """Whether the time is an upper bound: kernels may wait for an untraced rank, or the parts
        are uneven."""
        return len(self.seen) < self.call.size or any(seen.call.uneven for seen in self.seen)


def merged_calls(traces: Sequence[RankTrace]) -> Iterator[MergedCall]:
    """The calls of all ranks, in the order of the first trace that has each.

    Kernels are one call if ranks, primitive, size and sequence number agree. Without numbers calls
    are counted, if all ranks of a group made the same ones in the same order. Otherwise each kernel
    is a call by itself, as are those of groups with unknown ranks (group names are private to a
    process) and messages, whose two ends count apart.
    """
    agreeing = _groups_that_agree(traces)
    kernels: dict[Any, list[tuple[int, ObservedCall]]] = defaultdict(list)
    for index, trace in enumerate(traces):
        counts: Counter[Any] = Counter()  # how many calls of a kind the trace has had so far
        for observed in trace.calls:
            call = observed.call
            kind = (call.ranks, call.name, call.primitive, call.bytes, call.dtype, call.seq)
            counts[kind] += 1
            may_pair = bool(call.ranks) and call.primitive is not P2P
            is_alone = not may_pair or (call.seq is None and call.ranks not in agreeing)
            # with its trace in the key no kernel of another trace joins it
            key = (kind, counts[kind], index if is_alone else None)
            kernels[key].append((index, observed))
    for of_call in kernels.values():
        indices, seen = zip(*of_call, strict=True)
        yield MergedCall(seen[0].call, seen, indices)


def _groups_that_agree(traces: Sequence[RankTrace]) -> set[tuple[int, ...]]:
    """Groups whose traced ranks all made the same calls without numbers in the same order."""
    first_order: dict[tuple[int, ...], list[Any]] = {}
    differing: set[tuple[int, ...]] = set()
    for trace in traces:
        orders: dict[tuple[int, ...], list[Any]] = defaultdict(list)
        for observed in trace.calls:
            call = observed.call
            if call.seq is None:
                orders[call.ranks].append((call.primitive, call.bytes, call.dtype))
        for group, order in orders.items():
            if first_order.setdefault(group, order) != order:
                differing.add(group)
    return first_order.keys() - differing
