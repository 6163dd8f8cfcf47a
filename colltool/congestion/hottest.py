"""The hottest links, the load of every link, and lines of links for a heat strip."""

from collections.abc import Sequence

import numpy as np

from colltool.congestion.arrays import Floats, Indices
from colltool.congestion.links import Wires
from colltool.congestion.loads import LineTotals
from colltool.congestion.results import LineLoad, LinkLoad

HOTTEST = 10
CELLS = 64


class Heat:
    """The links of all lines, filled line by line.

    Args:
        wires: of every tier.
        ideal_s: the ideal of each group, shape (groups,).
        per_link: keep every loaded resource, not only the hottest.

    Attributes:
        loaded, shared: resources with a load, and those with loads of several groups.
        tiers: those in use.
    """

    def __init__(self, wires: Sequence[Wires], ideal_s: Floats, *, per_link: bool) -> None:
        self.wires, self.ideal_s, self.per_link = wires, ideal_s, per_link
        self._links: list[tuple[float, LinkLoad]] = []
        self.loaded = self.shared = 0
        self.tiers: set[int] = set()
        self._hottest_s = 0.0
        self._strips: list[tuple[LineLoad, Floats]] = []

    def add(self, line: LineTotals) -> None:
        """One more line."""
        seconds = line.load / line.kind.capacity_Bps
        used = np.flatnonzero(line.users)
        self.tiers.add(line.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(line.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        kept = used if self.per_link else np.sort(used[np.argsort(-seconds[used].round(18), kind="stable")[:HOTTEST]])
        self._keep(line, seconds, kept)
        self._strip(line)

    def _keep(self, line: LineTotals, seconds: Floats, kept: Indices) -> None:
        starts, ends = (np.searchsorted(line.resource, kept, side) for side in ("left", "right"))
        name, of_tier, rate = _name(line), self.wires[line.tier], line.kind.capacity_Bps
        for one, start, end in zip(kept.tolist(), starts, ends, strict=True):
            load, shortest_s = float(line.load[one]), float(self.ideal_s[line.group[start:end]].min())
            link = LinkLoad(
                link=of_tier.name(line.line, one),
                line=name,
                load=load,
                capacity_Bps=rate,
                over_ideal=float(f"{load / rate / shortest_s:.10g}"),
                groups=int(line.users[one]),
            )
            self._links.append((float(seconds[one]), link))

    def _strip(self, line: LineTotals) -> None:
        load = line.load[line.kind.exists]
        if not len(load):
            return
        per_cell = -(-len(load) // CELLS)
        cells = np.maximum.reduceat(load, np.arange(0, len(load), per_cell)) / line.kind.capacity_Bps
        loaded = load[load > 0]
        one = LineLoad(
            line=_name(line),
            links=len(load),
            loaded=len(loaded),
            busiest=float(load.max()),
            mean=float(loaded.mean()) if len(loaded) else 0.0,
            per_cell=per_cell,
            cells=(),
        )
        self._strips.append((one, cells))

    def hottest(self) -> tuple[LinkLoad, ...]:
        """The hottest resources, hottest first; of equals the first of the wiring."""
        ordered = sorted(self._links, key=lambda one: -float(f"{one[0]:.9e}"))
        return tuple(link for _, link in ordered[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded resource in the order of the wiring, where it was asked for."""
        return tuple(link for _, link in self._links) if self.per_link else ()

    def lines(self) -> tuple[LineLoad, ...]:
        """Every line of the tiers in use, cut in cells for a strip, 1 the hottest."""
        return tuple(one._replace(cells=tuple((cells / self._hottest_s).tolist())) for one, cells in self._strips)


def _name(line: LineTotals) -> str:
    """``torus axis 1 +``."""
    return f"{line.kind.tier} {line.kind.name}"
