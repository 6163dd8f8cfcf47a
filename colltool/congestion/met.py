"""What each group meets on the resources that it uses, all groups together."""

import numpy as np

from colltool.congestion.arrays import SMALL, Floats, Indices
from colltool.congestion.loads import LineTotals

_TIE = 1e-12


class Met:
    """Filled line by line; shape (groups,) each.

    Attributes:
        busiest_s: load/capacity of the group's busiest resource.
        alone_s: the same in the same places, with nobody else there.
        mean_s: over the resources that the group uses of the line of its busiest.
        tier, line, resource: the busiest; of equal ones that of the line that comes first, and the first there.
    """

    def __init__(self, groups: int) -> None:
        self.busiest_s, self.alone_s, self.mean_s = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        self.tier, self.line, self.resource = (np.zeros(groups, dtype=SMALL) for _ in range(3))

    def add(self, line: LineTotals) -> None:
        """What groups meet on one more line."""
        groups, capacity = len(self.busiest_s), line.kind.capacity_Bps
        by = line.group.astype(np.intp)  # what ``at`` is fast with
        np.maximum.at(self.alone_s, by, line.own / capacity)
        load = line.load[line.resource]
        most = np.zeros(groups)
        np.maximum.at(most, by, load)
        mean = np.bincount(by, load / capacity, groups) / np.maximum(np.bincount(by, minlength=groups), 1)
        busier = most / capacity > self.busiest_s * (1 + _TIE)
        self.busiest_s[busier], self.mean_s[busier] = most[busier] / capacity, mean[busier]
        self.tier[busier], self.line[busier] = line.tier, line.line
        self.resource[busier] = _first_with(most, line, load)[busier]


def _first_with(most: Floats, line: LineTotals, load: Floats) -> Indices:
    """For each group the first resource that carries the most of those it uses."""
    top = np.flatnonzero(load == most[line.group])[::-1]  # from the last resource to the first, so that it stays
    first = np.zeros(len(most), dtype=SMALL)
    first[line.group[top]] = line.resource[top]
    return first
