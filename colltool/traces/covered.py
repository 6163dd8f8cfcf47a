"""What of a stretch of time is covered by others: communication that compute kernels of the same device hide."""

from __future__ import annotations

from array import array

import numpy as np


class Covered:
    """The union of intervals, to be asked how much of another it covers; all in one unit."""

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
        """How much of this interval is covered."""
        return max(0.0, self._until(end) - self._until(start))

    def _until(self, time: float) -> float:
        """How much is covered before a time."""
        index = int(np.searchsorted(self._starts, time, side="right"))
        if index == 0:
            return 0.0
        return float(self._before[index] - max(0.0, self._ends[index - 1] - time))
