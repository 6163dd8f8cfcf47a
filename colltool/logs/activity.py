"""What the devices of a rank did: intervals of communication and compute, exact whatever the bytes
were.

Overlap is the share of communication time that compute covers, of all kernels of a trace, as
Holistic Trace Analysis counts it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from colltool.logs.pytorch_trace import LaunchedKernel, TraceEvents

BELIEVED = 0.8  # of the kernels' time that step annotations must hold to be steps


class BusyIntervals:
    """The union of intervals, to ask how much of another interval it covers."""

    def __init__(self, starts: array[float], ends: array[float]) -> None:
        first, last = (
            np.frombuffer(one, dtype=np.float64) if one else np.zeros(0) for one in (starts, ends)
        )
        order = np.argsort(first, kind="stable")
        first, reached = first[order], np.maximum.accumulate(last[order])
        begins = np.ones(len(first), dtype=bool)
        begins[1:] = first[1:] > reached[:-1]
        self._starts = first[begins]
        self._ends = reached[np.append(begins[1:], True)] if len(first) else reached
        self._before = np.concatenate(([0.0], np.cumsum(self._ends - self._starts)))

    @property
    def total(self) -> float:
        return float(self._before[-1])

    def of(self, start: float, end: float) -> float:
        return max(0.0, self._until(end) - self._until(start))

    def within(self, windows: Iterable[tuple[float, float]]) -> float:
        return sum(self.of(start, end) for start, end in windows)

    def _until(self, time: float) -> float:
        index = int(np.searchsorted(self._starts, time, side="right"))
        if index == 0:
            return 0.0
        return float(self._before[index] - max(0.0, self._ends[index - 1] - time))


class RankActivity(NamedTuple):
    """Seconds of one trace: communication, compute, both at once, of all its kernels; ``window_s``
    of its steps, and in these communication and what of it no compute covers. ``doubt``: why step
    annotations are not believed."""

    file: str
    rank: int | None
    comm_s: float
    compute_s: float
    both_s: float
    window_s: float
    comm_in_steps_s: float
    exposed_in_steps_s: float
    doubt: str = ""

    @property
    def overlap(self) -> float | None:
        """The share of communication that compute hides; None without any."""
        return self.both_s / self.comm_s if self.comm_s else None


class Steps(NamedTuple):
    windows: list[tuple[float, float]]
    steps: int
    doubt: str = ""


def believed_steps(found: TraceEvents) -> Steps:
    """The annotated steps that hold the kernels; the whole trace where none do."""
    whole = [(found.first_us, found.last_us)] if found.kernels else []
    kernels = _union(found.launched, found.busy)
    most, count = 0.0, 0
    for windows in found.step_windows():
        held = sum(one.within(windows) for one in kernels.values()) / (
            sum(one.total for one in kernels.values()) or 1.0
        )
        if held >= BELIEVED or not kernels:
            return Steps(windows, len(windows))
        most, count = max(most, held), count or len(windows)
    doubt = (
        f"step annotations hold {most:.0%} of the kernels' time: the whole trace is taken"
        if count
        else ""
    )
    return Steps(whole, 0, doubt)


def activity_of(found: TraceEvents, steps: Steps, rank: int | None) -> RankActivity:
    compute, comm = _union((), found.busy), _union(found.launched, {})
    everything = _union(found.launched, found.busy)
    windows = steps.windows

    def seconds(
        unions: dict[int, BusyIntervals], inside: Sequence[tuple[float, float]] | None = None
    ) -> float:
        return (
            sum(one.total if inside is None else one.within(inside) for one in unions.values())
            * 1e-6
        )

    return RankActivity(
        file=found.name,
        rank=rank,
        comm_s=seconds(comm),
        compute_s=seconds(compute),
        both_s=max(0.0, seconds(comm) + seconds(compute) - seconds(everything)),
        window_s=sum(end - start for start, end in windows) * 1e-6 * max(1, len(comm)),
        comm_in_steps_s=seconds(comm, windows),
        exposed_in_steps_s=min(
            max(0.0, seconds(everything, windows) - seconds(compute, windows)),
            seconds(comm, windows),
        ),
        doubt=steps.doubt,
    )


def _union(
    launched: Iterable[LaunchedKernel], busy: dict[int, tuple[array[float], array[float]]]
) -> dict[int, BusyIntervals]:
    """By device."""
    times: dict[int, tuple[array[float], array[float]]] = defaultdict(
        lambda: (array("d"), array("d"))
    )
    for device, (starts, ends) in busy.items():
        times[device][0].extend(starts)
        times[device][1].extend(ends)
    for one in launched:
        times[one.device][0].append(one.start_us)
        times[one.device][1].append(one.end_us)
    return {device: BusyIntervals(*both) for device, both in times.items()}
