"""What the devices of a rank did: how long they communicated and computed, and how much of it at
once.

Overlap is the share of communication time that compute covers, of all kernels of a trace, as
Holistic Trace Analysis counts it. :func:`believed_steps` finds the steps of a trace,
:func:`activity_of` the times, both by :class:`BusyIntervals`.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from colltool.base.statements import NOTHING, Statement
from colltool.logs.sentences import statement
from colltool.logs.trace_events import LaunchedKernel, TraceEvents, Window

# share of the kernels' time that step annotations must cover to be the steps of the devices
BELIEVED = 0.8


class BusyIntervals:
    """The union of intervals, to ask how much of another interval it covers."""

    # Of intervals 0-4, 5-10, 6-8 and 20-30 the union is 0-4, 5-10, 20-30 (_starts, _ends), with 0,
    # 4, 9 and 19 covered before each and in all (_before). Until 7 there are 9 less the 3 from 7 to
    # 10: 6.

    def __init__(self, starts: Sequence[float], ends: Sequence[float]) -> None:
        # arrays of an entry an interval, by start; later ones may lie within earlier ones
        all_starts = np.asarray(starts, dtype=np.float64)
        order = np.argsort(all_starts, kind="stable")
        all_starts = all_starts[order]
        reached = np.maximum.accumulate(np.asarray(ends, dtype=np.float64)[order])
        # the union has a start where all intervals before have ended, and an end before the next
        opens = np.append(True, all_starts[1:] > reached[:-1])[: len(all_starts)]
        closes = np.append(opens[1:], True)[: len(all_starts)]
        self._starts = all_starts[opens]
        self._ends = reached[closes]
        self._before = np.concatenate(([0.0], np.cumsum(self._ends - self._starts)))

    @property
    def total(self) -> float:
        """How much they cover in all."""
        return float(self._before[-1])

    def covered(self, start: float, end: float) -> float:
        """How much of an interval is covered."""
        return max(0.0, self._until(end) - self._until(start))

    def covered_in(self, windows: Iterable[Window]) -> float:
        """How much of several intervals is covered, where two overlap once for each."""
        return sum(self.covered(start, end) for start, end in windows)

    def _until(self, time: float) -> float:
        """How much is covered before a time."""
        index = int(np.searchsorted(self._starts, time, side="right"))
        if index == 0:
            return 0.0
        return float(self._before[index] - max(0.0, self._ends[index - 1] - time))


Busy = dict[int, BusyIntervals]  # by device


class RankActivity(NamedTuple):
    """Seconds of one trace: of all its kernels, and of its steps."""

    file: str
    rank: int | None
    comm_s: float  # communication, of all kernels
    compute_s: float  # compute, of all kernels
    both_s: float  # both at once, of all kernels
    window_s: float  # of all steps, times the devices that communicate
    comm_in_steps_s: float  # communication in steps
    exposed_in_steps_s: float  # the part of it that no compute covers
    doubt: Statement = NOTHING  # why step annotations are not believed

    @property
    def overlap(self) -> float | None:
        """The share of communication that compute hides; None without any."""
        return self.both_s / self.comm_s if self.comm_s else None


class Steps(NamedTuple):
    """Windows of a trace that count as steps, in us, in order of start; the whole trace as one where
    none are annotated, and none at all in a trace without times."""

    windows: list[Window]
    annotated: int  # how many of them are annotated; 0 for the whole trace
    doubt: Statement = NOTHING  # why annotated steps are not believed

    @property
    def window_us(self) -> float:
        """All windows together."""
        return sum(end - start for start, end in self.windows)


def believed_steps(events: TraceEvents) -> Steps:
    """The annotated steps that cover the kernels; the whole trace where none do, with a doubt if
    there are any."""
    kernels = _busy(events.launched, events.busy)
    kernels_us = sum(busy.total for busy in kernels.values())
    annotated = events.step_windows()
    largest_share = 0.0
    for windows in annotated:
        covered_us = sum(busy.covered_in(windows) for busy in kernels.values())
        share = covered_us / (kernels_us or 1.0)
        if share >= BELIEVED or not kernels:
            return Steps(windows, len(windows))
        largest_share = max(largest_share, share)
    doubt = statement("steps-not-believed", share=largest_share) if annotated else NOTHING
    whole_trace = []
    # kernels without a time have neither first nor last
    if events.first_us < events.last_us:
        whole_trace.append((events.first_us, events.last_us))
    return Steps(whole_trace, 0, doubt)


def activity_of(events: TraceEvents, steps: Steps, rank: int | None) -> RankActivity:
    """How long the devices of a rank communicated and computed."""
    compute = _busy((), events.busy)
    communication = _busy(events.launched, {})
    everything = _busy(events.launched, events.busy)
    comm_s = _total_s(communication)
    compute_s = _total_s(compute)
    comm_in_steps_s = _within_s(communication, steps)
    exposed_s = max(0.0, _within_s(everything, steps) - _within_s(compute, steps))
    return RankActivity(
        file=events.name,
        rank=rank,
        comm_s=comm_s,
        compute_s=compute_s,
        both_s=max(0.0, comm_s + compute_s - _total_s(everything)),
        window_s=steps.window_us * 1e-6 * max(1, len(communication)),
        comm_in_steps_s=comm_in_steps_s,
        exposed_in_steps_s=min(exposed_s, comm_in_steps_s),
        doubt=steps.doubt,
    )


def _total_s(devices: Busy) -> float:
    """Time in which devices were busy, each by itself."""
    return sum(busy.total for busy in devices.values()) * 1e-6


def _within_s(devices: Busy, steps: Steps) -> float:
    """The part of that time which lies in steps."""
    return sum(busy.covered_in(steps.windows) for busy in devices.values()) * 1e-6


def _busy(
    launched: Iterable[LaunchedKernel], compute: dict[int, tuple[array[float], array[float]]]
) -> Busy:
    """When each device ran one of these kernels: of communication, and the starts and ends of
    compute by device."""
    starts: dict[int, array[float]] = defaultdict(lambda: array("d"))
    ends: dict[int, array[float]] = defaultdict(lambda: array("d"))
    for device, (compute_starts, compute_ends) in compute.items():
        starts[device].extend(compute_starts)
        ends[device].extend(compute_ends)
    for kernel in launched:
        starts[kernel.device].append(kernel.start_us)
        ends[kernel.device].append(kernel.end_us)
    return {device: BusyIntervals(starts[device], ends[device]) for device in starts}
