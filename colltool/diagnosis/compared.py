"""Two traces of one job compared: what each kind of call takes of a step, before and now."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from colltool.base.primitives import Primitive
from colltool.diagnosis.trace_results import TraceComparison


class ComparedCalls(NamedTuple):
    """Calls of one primitive, size and group size."""

    primitive: Primitive
    ranks: int
    bytes: int
    then_s: float  # of a step on a rank, in the other trace; 0 where it has none
    now_s: float  # the same in this trace

    @property
    def change_s(self) -> float:
        """How much longer they take now."""
        return self.now_s - self.then_s


def compared_totals(result: TraceComparison) -> tuple[ComparedCalls, ...]:
    """What each kind of call took and takes, first the kinds of this trace; empty without another
    trace."""
    if result.against is None:
        return ()
    then = _per_step(result.against)
    now = _per_step(result)
    kinds = dict.fromkeys((*now, *then))  # each once, in order
    return tuple(ComparedCalls(*kind, then_s=then[kind], now_s=now[kind]) for kind in kinds)


def _per_step(result: TraceComparison) -> dict[tuple[Primitive, int, int], float]:
    """Seconds of a step by primitive, group size and bytes, in the order of the first three fields
    of :class:`ComparedCalls`; 0 for all others."""
    # of a trace without steps, which is taken for one step of each file
    step_s = result.window_s / max(1, result.steps or len(result.files))
    seconds: dict[tuple[Primitive, int, int], float] = defaultdict(float)
    for total in result.totals:
        seconds[total.primitive, total.group_size, total.bytes] += total.share * step_s
    return seconds
