"""One call out of what several ranks saw of it: the kernel of the last to arrive waited for nobody, and is the shortest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from colltool.base.primitives import P2P
from colltool.traces.labels import Described
from colltool.traces.observed import Observations, Observed


class Merged(NamedTuple):
    """A call.

    Args:
        call: what it is.
        seen: its kernels, one for each rank whose trace has it.
        traces: where each of them is from, by the place in the list.
    """

    call: Described
    seen: tuple[Observed, ...]
    traces: tuple[int, ...]

    @property
    def shortest(self) -> Observed:
        """The kernel that waited least."""
        return min(self.seen, key=lambda one: one.seconds)

    @property
    def bound(self) -> bool:
        """Whether the call may take less: a rank without a trace was waited for, or its parts are uneven."""
        return len(self.seen) < self.call.size or self.uneven

    @property
    def uneven(self) -> bool:
        """Whether a rank sends or gets parts of an all-to-all that differ."""
        return any(one.call.uneven for one in self.seen)


def merged(traces: Sequence[Observations]) -> list[Merged]:
    """The calls of all ranks, in the order of the first trace that has each.

    Kernels are of one call where the ranks of the group, primitive, size and the number in the group agree. Where a trace has no
    numbers, calls are counted, if all ranks of a group made the same ones in the same order; else each kernel is a call by
    itself, as it is where the ranks of the group are not known (names of groups are a process's own), and as messages are: their
    two ends count apart.
    """
    alike = _alike(traces)
    found: dict[Any, list[tuple[int, Observed]]] = defaultdict(list)
    for index, trace in enumerate(traces):
        for key, one in _keyed(trace):
            listed = bool(one.call.ranks) and one.call.primitive is not P2P
            known = listed and (one.call.seq is not None or one.call.ranks in alike)
            found[key if known else (*key, index)].append((index, one))
    return [_together(several) for several in found.values()]


def _together(several: Sequence[tuple[int, Observed]]) -> Merged:
    traces, seen = zip(*several, strict=True)
    return Merged(seen[0].call, seen, traces)


def _keyed(trace: Observations) -> Iterator[tuple[tuple[Any, ...], Observed]]:
    """Every call with what tells it from the others of this trace."""
    met: dict[Any, int] = defaultdict(int)
    for one in trace.calls:
        call = one.call
        same = (call.ranks, call.name, call.primitive, call.bytes, call.dtype, call.seq)
        met[same] += 1
        yield (*same, met[same]), one


def _alike(traces: Sequence[Observations]) -> set[tuple[int, ...]]:
    """Groups whose calls have no numbers, and are the same ones in the same order in every trace that has any."""
    orders: dict[tuple[int, ...], list[list[Any]]] = defaultdict(list)
    for trace in traces:
        own: dict[tuple[int, ...], list[Any]] = defaultdict(list)
        for one in trace.calls:
            if one.call.seq is None:
                own[one.call.ranks].append((one.call.primitive, one.call.bytes, one.call.dtype))
        for group, order in own.items():
            orders[group].append(order)
    return {group for group, several in orders.items() if all(order == several[0] for order in several)}
