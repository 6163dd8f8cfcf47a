"""The hottest links of a layout, and strips that show how the load of each class is spread:
:class:`Heat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.base.primitives import ceil_div
from colltool.congestion.loads import ClassTotals, ten_digits
from colltool.network.arrays import Floats
from colltool.network.links import LinkClass, LinkModel

HOTTEST = 10  # links in the table
CELLS = 64  # cells in a heat strip, at most


class LinkLoad(NamedTuple):
    """Load of one resource."""

    link: str
    line: str
    load: float  # in the unit of the result
    capacity_Bps: float
    over_ideal: float  # its load/capacity over the ideal of the group that it hurts most
    groups: int


class LinkClassLoad(NamedTuple):
    """Resources of one kind and direction, for a heat strip."""

    line: str
    links: int
    loaded: int
    busiest: float
    mean: float
    per_cell: int
    cells: tuple[float, ...]  # the busiest of ``per_cell`` links each; 1 is the hottest link of all


class Heat:
    """The hottest links and the heat strips, filled class by class.

    Args:
        ideal_s: the ideal of each group.
        per_link: keep every loaded resource.
    """

    def __init__(self, models: Sequence[LinkModel], ideal_s: Floats, *, per_link: bool) -> None:
        self.loaded = 0  # resources that carry anything
        self.shared = 0  # resources that several groups load
        self.tiers: set[int] = set()  # tiers in use
        self._models = models
        self._ideal_s = ideal_s
        self._per_link = per_link
        self._links: list[LinkLoad] = []
        self._hottest_s = 0.0
        self._strips: list[LinkClassLoad] = []  # cells in seconds

    def add(self, loads: ClassTotals) -> None:
        """Add the loads of a class of links."""
        seconds = loads.load / loads.link_class.capacity_Bps
        used = np.flatnonzero(loads.users)
        self.tiers.add(loads.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(loads.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        kept = used
        if not self._per_link:
            # To 1e-18 s, so that of links that are equal but for rounding the first are kept.
            hottest_first = np.argsort(-seconds[used].round(18), kind="stable")
            kept = np.sort(used[hottest_first[:HOTTEST]])
        self._links += [self._link_load(loads, resource) for resource in kept.tolist()]
        self._add_strip(loads)

    def _link_load(self, loads: ClassTotals, resource: int) -> LinkLoad:
        """The load of one resource, and how much it hurts the group that it hurts most."""
        capacity_Bps = loads.link_class.capacity_Bps
        load = float(loads.load[resource])
        start = np.searchsorted(loads.pairs.resource, resource, "left")
        end = np.searchsorted(loads.pairs.resource, resource, "right")
        # the group that its time hurts most is the one with the shortest ideal
        ideal_s = float(self._ideal_s[loads.pairs.group[start:end]].min())
        return LinkLoad(
            link=self._models[loads.tier].name(loads.class_number, resource),
            line=_line_name(loads.link_class),
            load=load,
            capacity_Bps=capacity_Bps,
            over_ideal=ten_digits(load / capacity_Bps / ideal_s),
            groups=int(loads.users[resource]),
        )

    def _add_strip(self, loads: ClassTotals) -> None:
        """Add the heat strip of a class, cut into cells."""
        of_links = loads.load[loads.link_class.exists]
        if not len(of_links):
            return
        per_cell = ceil_div(len(of_links), CELLS)
        busiest = np.maximum.reduceat(of_links, np.arange(0, len(of_links), per_cell))
        loaded = of_links[of_links > 0]
        strip = LinkClassLoad(
            line=_line_name(loads.link_class),
            links=len(of_links),
            loaded=len(loaded),
            busiest=float(of_links.max()),
            mean=float(loaded.mean()) if len(loaded) else 0.0,
            per_cell=per_cell,
            cells=tuple((busiest / loads.link_class.capacity_Bps).tolist()),
        )
        self._strips.append(strip)

    def hottest(self) -> tuple[LinkLoad, ...]:
        """Hottest first; equal ones in the order of the wiring."""

        def seconds(link: LinkLoad) -> float:
            return ten_digits(link.load / link.capacity_Bps)

        # sorted() keeps the order of equal ones, also in reverse.
        return tuple(sorted(self._links, key=seconds, reverse=True)[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded resource in the order of the wiring; empty without ``per_link``."""
        return tuple(self._links) if self._per_link else ()

    def lines(self) -> tuple[LinkClassLoad, ...]:
        """Every class of the tiers in use, cut in cells for a strip, 1 the hottest."""
        lines = []
        for strip in self._strips:
            cells = tuple(cell / self._hottest_s for cell in strip.cells)
            lines.append(strip._replace(cells=cells))
        return tuple(lines)


def _line_name(kind: LinkClass) -> str:
    return f"{kind.tier} {kind.name}"
