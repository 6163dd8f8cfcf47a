"""The hottest links of a layout, and strips that show how the load of each class is spread:
:class:`Heat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.base.primitives import ceil_div
from colltool.congestion.loads import ClassTotals
from colltool.congestion.rounding import ten_digits
from colltool.network.arrays import Floats
from colltool.network.links import LinkClass, LinkModel

HOTTEST = 10  # links in the table
CELLS = 64  # cells in a heat strip, at most


class LinkLoad(NamedTuple):
    """Load of one resource."""

    link: str  # its name: ``ib leaf 3 uplinks``
    line: str  # the name of its class, which has a heat strip: ``ib leaf uplinks``
    load: float  # in the unit of the result
    capacity_Bps: float
    over_ideal: float  # its load/capacity over the ideal of the group that it hurts most
    groups: int  # that load it


class LinkClassLoad(NamedTuple):
    """Resources of one kind and direction, for a heat strip."""

    line: str  # the name of the class
    links: int
    loaded: int  # links that carry anything
    busiest: float  # the largest load, in the unit of the result
    mean: float  # of the links that carry anything
    per_cell: int  # links in a cell of the strip
    cells: tuple[float, ...]  # the busiest of ``per_cell`` links each; 1 is the hottest link of all


class Heat:
    """The hottest links and the heat strips: :meth:`add` fills them class by class, then the other methods
    read them.

    Args:
        models: of all tiers.
        ideal_s: the ideal of each group, shape (groups,).
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
        listed = used
        if not self._per_link:
            # No more of a class can be among the hottest of all. Rounded to 1e-18 s, so that of links
            # that are equal but for rounding the first are listed.
            hottest_first = np.argsort(-seconds[used].round(18), kind="stable")
            listed = np.sort(used[hottest_first[:HOTTEST]])
        self._links += [self._link_load(loads, resource) for resource in listed.tolist()]
        self._add_strip(loads)

    def _link_load(self, loads: ClassTotals, resource: int) -> LinkLoad:
        """The load of one resource, and how much it hurts the group that it hurts most."""
        capacity_Bps = loads.link_class.capacity_Bps
        load = float(loads.load[resource])
        # pairs are ordered by resource: those of this one follow each other
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
        """Add the heat strip of a class, cut into cells; none of a class without links."""
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
        """The :data:`HOTTEST` links with the most load/capacity, the hottest first; equal ones in the order
        of the wiring."""

        def seconds(link: LinkLoad) -> float:
            return ten_digits(link.load / link.capacity_Bps)

        # sorted() keeps the order of equal ones, also in reverse.
        return tuple(sorted(self._links, key=seconds, reverse=True)[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded resource in the order of the wiring; empty without ``per_link``."""
        return tuple(self._links) if self._per_link else ()

    def lines(self) -> tuple[LinkClassLoad, ...]:
        """The heat strip of every class of the tiers in use, in the order of the wiring; in its cells 1 is
        the hottest link of all."""
        lines = []
        for strip in self._strips:
            cells = tuple(cell / self._hottest_s for cell in strip.cells)
            lines.append(strip._replace(cells=cells))
        return tuple(lines)


def _line_name(kind: LinkClass) -> str:
    """The name of a class in output: ``ib leaf uplinks``."""
    return f"{kind.tier} {kind.name}"
