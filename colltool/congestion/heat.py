"""The hottest links of a layout, and strips that show how the load of each class is spread:
:class:`Heat`.

A *link* is here what :mod:`colltool.congestion.loads` calls a resource: a port, link or uplink, numbered
within its class, a :class:`~colltool.network.links.LinkClass`: the links of one kind and direction of a tier.
Each class has one strip. Output calls the class a ``line``, as its strip takes one line of the text. Loads are
bytes, or multiples of M where no size was given (``Contention.unit``).
"""

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
CELLS = 64  # in a heat strip, at most


class LinkLoad(NamedTuple):
    """Load of one link."""

    link: str  # its name: ``ib leaf 3 uplinks``
    line: str  # the name of its class, which has a heat strip: ``ib leaf uplinks``
    load: float
    capacity_Bps: float
    over_ideal: float  # load/capacity over the ideal time of the group that it hurts most
    groups: int  # how many groups load it


class LinkClassLoad(NamedTuple):
    """The load of a class of links, with its heat strip."""

    line: str  # the name of the class
    links: int  # how many there are
    loaded: int  # how many of them carry anything
    busiest: float  # the largest load of a link
    mean: float  # load of the links that carry anything; 0 where none does
    per_cell: int  # links in a cell of the strip; the last cell may have fewer
    # load/capacity of the busiest link of each cell, over that of the hottest link of all classes
    cells: tuple[float, ...]


class Heat:
    """The hottest links and the heat strips: :meth:`add` fills them class by class, then the other methods
    read them.

    Args:
        models: the links of each tier, innermost first; they name links.
        ideal_s: the ideal time of each group, shape (groups,).
        per_link: keep every loaded link for :meth:`every`, not only those that may be the hottest.
    """

    def __init__(self, models: Sequence[LinkModel], ideal_s: Floats, *, per_link: bool) -> None:
        self.loaded = 0  # links that carry anything
        self.shared = 0  # links that several groups load
        self.tiers: set[int] = set()  # numbers of the tiers in use
        self._models = models
        self._ideal_s = ideal_s
        self._per_link = per_link
        self._links: list[LinkLoad] = []
        self._hottest_s = 0.0  # load/capacity of the hottest link so far
        # As lines() returns them, but with cells in seconds: the hottest link of all is known only at the end.
        self._strips_in_seconds: list[LinkClassLoad] = []

    def add(self, loads: ClassTotals) -> None:
        """Add the loads of a class of links; each class is added once, in the order of the wiring."""
        seconds = loads.load / loads.link_class.capacity_Bps
        used = np.flatnonzero(loads.users)
        self.tiers.add(loads.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(loads.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        listed = used
        if not self._per_link:
            # The HOTTEST of this class are enough for the HOTTEST of all. Rounded to 1e-18 s, so that of
            # links that are equal but for rounding the first are listed.
            hottest_first = np.argsort(-seconds[used].round(18), kind="stable")
            listed = np.sort(used[hottest_first[:HOTTEST]])
        self._links += [self._link_load(loads, resource) for resource in listed.tolist()]
        self._add_strip(loads)

    def _link_load(self, loads: ClassTotals, resource: int) -> LinkLoad:
        """The load of the link with number ``resource``, and how much it hurts the group that it hurts most."""
        capacity_Bps = loads.link_class.capacity_Bps
        load = float(loads.load[resource])
        # Every link with each group that loads it, arrays of shape (pairs,) ordered by link: those of this
        # one are at start to before end, at least one.
        start = np.searchsorted(loads.pairs.resource, resource, "left")
        end = np.searchsorted(loads.pairs.resource, resource, "right")
        # its time is the same for all groups, so that it hurts the one with the shortest ideal most
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
        """Add the heat strip of a class, cut into at most :data:`CELLS` cells; none of a class without links."""
        # arrays have places for links that the fabric lacks
        of_links = loads.load[loads.link_class.exists]
        if not len(of_links):
            return
        per_cell = ceil_div(len(of_links), CELLS)
        # the largest load of each cell: reduceat() starts a new one at every per_cell-th link
        of_cells = np.maximum.reduceat(of_links, np.arange(0, len(of_links), per_cell))
        loaded = of_links[of_links > 0]
        strip = LinkClassLoad(
            line=_line_name(loads.link_class),
            links=len(of_links),
            loaded=len(loaded),
            busiest=float(of_links.max()),
            mean=float(loaded.mean()) if len(loaded) else 0.0,
            per_cell=per_cell,
            cells=tuple((of_cells / loads.link_class.capacity_Bps).tolist()),
        )
        self._strips_in_seconds.append(strip)

    def hottest(self) -> tuple[LinkLoad, ...]:
        """The :data:`HOTTEST` links with the most load/capacity, the hottest first; equal ones in the order
        of the wiring."""

        def seconds(link: LinkLoad) -> float:
            return ten_digits(link.load / link.capacity_Bps)

        # sorted() keeps the order of equal ones, also in reverse.
        return tuple(sorted(self._links, key=seconds, reverse=True)[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded link in the order of the wiring; empty without ``per_link``."""
        return tuple(self._links) if self._per_link else ()

    def lines(self) -> tuple[LinkClassLoad, ...]:
        """The heat strip of every class that was added and has links, in the order of the wiring."""
        lines = []
        for strip in self._strips_in_seconds:
            cells = tuple(cell / self._hottest_s for cell in strip.cells)
            lines.append(strip._replace(cells=cells))
        return tuple(lines)


def _line_name(link_class: LinkClass) -> str:
    """The name of a class in output, its tier first: ``ib leaf uplinks``."""
    return f"{link_class.tier} {link_class.name}"
