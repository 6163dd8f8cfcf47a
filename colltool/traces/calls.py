"""The calls of one trace: each communication kernel with its metadata, and how much of it compute hides."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, printable
from colltool.base.formatting import format_time
from colltool.traces.events import LaunchedKernel, TraceEvents
from colltool.traces.metadata import CallMetadata, KernelName, call_metadata, count, kernel_name, text

LONGEST_S = 86_400.0  # NCCL's watchdog ends a call after minutes
MOST_TIMES = 1000  # the steps' time: several streams at once, and kernels that outlast the step that launched them
MOST_LISTED = 2**20  # ranks in all groups of a trace: a hundred bytes may name a million


class ObservedCall(NamedTuple):
    """A call as one rank saw it; ``inside``: it began in a step."""

    call: CallMetadata
    kernel: KernelName
    seconds: float
    exposed_s: float
    inside: bool


class RankTrace(NamedTuple):
    """One trace. ``steps``: annotated ones. ``window_s``: all steps together, or first to last kernel without steps. ``nccl``:
    library version. ``left_out``: counts of communication kernels without a call, by reason. ``broken``: truncated or damaged."""

    file: str
    rank: int | None
    world: int | None
    calls: tuple[ObservedCall, ...]
    steps: int
    window_s: float
    device: str
    nccl: str
    left_out: dict[str, int]
    broken: bool


def observe(found: TraceEvents) -> RankTrace:
    windows = found.steps or ([(found.first_us, found.last_us)] if found.kernels else [])
    starts = [start for start, _ in windows]
    covered = {device: BusyIntervals(*times) for device, times in found.busy.items()}
    calls: list[ObservedCall] = []
    left_out = Counter(found.left_out)
    for one, call in _described(found, left_out):
        lasts, hidden = one.end_us - one.start_us, 0.0
        if one.device in covered:
            hidden = min(lasts, covered[one.device].of(one.start_us, one.end_us))
        at = bisect_right(starts, one.start_us) - 1
        inside = at >= 0 and one.start_us <= windows[at][1]
        calls.append(ObservedCall(call, kernel_name(one.name), lasts * 1e-6, (lasts - hidden) * 1e-6, inside))
    about = found.header.get("distributedInfo")
    about = about if isinstance(about, dict) else {}
    window_s = sum(end - start for start, end in windows) * 1e-6
    _possible(found.name, calls, window_s)
    return RankTrace(
        found.name, count(about.get("rank")), count(about.get("world_size")), tuple(calls), len(found.steps), window_s,
        device=_device(found), nccl=text(about.get("nccl_version")), left_out=dict(left_out), broken=found.broken,
    )  # fmt: skip


def _possible(file: str, calls: Sequence[ObservedCall], window_s: float) -> None:
    """Refuse impossible times."""
    longest = max((one.seconds for one in calls), default=0.0)
    busy = sum(one.seconds for one in calls if one.inside)
    if longest > LONGEST_S:
        what = f"a call lasts {longest:.3g} s, longer than any call can"
    elif 0 < MOST_TIMES * window_s < busy:
        what = f"calls take {format_time(busy)} of steps of {format_time(window_s)}, which is impossible"
    else:
        return
    raise ColltoolError(what, where=printable(file), fix="profile again: ts and dur of an event are microseconds")


def _described(found: TraceEvents, left_out: Counter[str]) -> list[tuple[LaunchedKernel, CallMetadata]]:
    """Calls with their kernels in order of start; other kernels are counted. A coalesced call may be several kernels, each
    labelled with all its tensors: they are merged."""
    calls: list[tuple[LaunchedKernel, CallMetadata]] = []
    first: dict[tuple[Any, int], int] = {}
    groups: set[Any] = set()
    listed = 0
    for one in sorted(found.launched, key=lambda kernel: kernel.start_us):
        call = call_metadata(found.labels.get(one.external, {}) | one.labels, found.header, kernel_name(one.name).primitives)
        if isinstance(call, str):
            left_out[call] += 1
            continue
        group = (len(call.ranks), call.ranks[:2], call.ranks[-1:])
        listed += 0 if group in groups else len(call.ranks)
        groups.add(group)
        if listed > MOST_LISTED:
            what = f"names groups of more than {MOST_LISTED} ranks in all"
            raise ColltoolError(what, where=printable(found.name), fix="profile fewer ranks, or a rank of fewer groups")
        at = len(calls)
        if call.coalesced and one.external is not None:
            at = first.setdefault((one.external, one.device), at)
        if at == len(calls):
            calls.append((one, call))
        else:
            begun = calls[at][0]
            calls[at] = begun._replace(end_us=max(begun.end_us, one.end_us)), call
    return calls


def _device(found: TraceEvents) -> str:
    listed = found.header.get("deviceProperties")
    names = [text(one.get("name")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return names[0] if names else ""


class BusyIntervals:
    """The union of intervals, to ask how much of another interval it covers."""

    def __init__(self, starts: array[float], ends: array[float]) -> None:
        first, last = (np.frombuffer(one, dtype=np.float64) if one else np.zeros(0) for one in (starts, ends))
        order = np.argsort(first, kind="stable")
        first, reached = first[order], np.maximum.accumulate(last[order])
        begins = np.ones(len(first), dtype=bool)
        begins[1:] = first[1:] > reached[:-1]
        self._starts = first[begins]
        self._ends = reached[np.append(begins[1:], True)] if len(first) else reached
        self._before = np.concatenate(([0.0], np.cumsum(self._ends - self._starts)))

    def of(self, start: float, end: float) -> float:
        return max(0.0, self._until(end) - self._until(start))

    def _until(self, time: float) -> float:
        index = int(np.searchsorted(self._starts, time, side="right"))
        if index == 0:
            return 0.0
        return float(self._before[index] - max(0.0, self._ends[index - 1] - time))
