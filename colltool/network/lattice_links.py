"""The links of a torus or mesh."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.network.arrays import Floats, Indices
from colltool.network.group import Axis, sizes_of
from colltool.network.links import LinkClass, LinkModel, LinkUse

_DUST = 1e-12  # of the busiest link: rounding that a running sum leaves where nothing passes


class _Leg(NamedTuple):
    """The way of every message along one axis."""

    axis: int
    entry: Indices  # the endpoint, over all copies, at which each message enters the axis
    # hops if it goes up or down; the number of places where it cannot
    up: Indices
    down: Indices


class LatticeLinks(LinkModel):
    """A torus or mesh, on shortest paths by dimension order from axis 1; ties split over both ways.

    A link has the number of the rank that it leaves; classes are axis 1 up, axis 1 down, axis 2 up
    ...
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        ranks: int = 0,
        inside: int = 1,
        tier: str = "",
        capacity_Bps: float = 1.0,
        *,
        alpha_s: float = 0.0,
    ) -> None:
        self.axes = tuple(axes)
        self.sizes = sizes_of(axes)
        endpoints = prod(self.sizes)
        super().__init__(ranks or inside * endpoints, inside, endpoints, tier, capacity_Bps)
        self.strides = [prod(self.sizes[:axis]) for axis in range(len(self.sizes))]
        self.hop_alpha_s = self.alpha_s = alpha_s
        self.classes = []
        for number, axis in enumerate(axes):
            place = self._place(np.arange(self.endpoints), number)
            for sign, edge in (("+", axis.size - 1), ("-", 0)):
                exists = np.tile((place != edge) | axis.is_ring, self.copies)
                name = f"axis {number + 1} {sign}"
                self.classes.append(LinkClass(tier, name, exists, capacity_Bps))

    def _place(self, nodes: Indices, axis: int) -> Indices:
        """The place on an axis of endpoints, over all copies."""
        place: Indices = nodes // self.strides[axis] % self.sizes[axis]
        return place

    def _legs(self, src: Indices, dst: Indices) -> Iterator[_Leg]:
        here, copy = self.split(src)
        there, _ = self.split(dst)
        for number, axis in enumerate(self.axes):
            a = self._place(here, number)
            b = self._place(there, number)
            up = (b - a) % axis.size
            down = (a - b) % axis.size
            if not axis.is_ring:
                up = np.where(b >= a, up, axis.size)
                down = np.where(b <= a, down, axis.size)
            yield _Leg(number, copy * self.endpoints + here, up, down)
            here = here + (b - a) * self.strides[number]

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Walks every message hop by hop."""
        for leg in self._legs(src, dst):
            size = self.sizes[leg.axis]
            ways = ((leg.up, leg.down, 1), (leg.down, leg.up, -1))
            for way, (hops, other, sign) in enumerate(ways):
                taken = np.flatnonzero((hops <= other) & (hops > 0))
                message = np.repeat(taken, hops[taken])
                first_hop = np.cumsum(hops[taken]) - hops[taken]
                hop = np.arange(len(message)) - np.repeat(first_hop, hops[taken])
                start = leg.entry[message]
                place = self._place(start, leg.axis)
                at = (place + sign * hop) % size
                link = start + (at - place) * self.strides[leg.axis]
                share = np.where(hops[message] == other[message], 0.5, 1.0)
                yield LinkUse(2 * leg.axis + way, link, message, share)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """The sums of :meth:`uses` without walking, so that all-to-alls of thousands of ranks stay
        fast."""
        loads = []
        for leg in self._legs(src, dst):
            places = self.sizes[leg.axis]
            start = self._place(leg.entry, leg.axis)
            foot = leg.entry - start * self.strides[leg.axis]
            lowest = (start - leg.down + 1) % places  # of the links that a way down takes
            for first, hops, other in ((start, leg.up, leg.down), (lowest, leg.down, leg.up)):
                share = np.where(hops < other, 1.0, np.where(hops == other, 0.5, 0.0)) * (hops > 0)
                after = (first + hops) % places
                loads.append(self._arcs(leg.axis, foot, first, after, size * share))
        return loads

    def _arcs(
        self, axis: int, foot: Indices, first: Indices, after: Indices, size: Floats
    ) -> Floats:
        """Add each size to places ``first`` up to ``after`` (exclusive) of its line, wrapping where
        it must.

        A difference array: plus where an arc begins, minus where it has ended, and a running sum
        along the line.
        """
        places = self.sizes[axis]
        stride = self.strides[axis]
        begun = np.bincount(foot + first * stride, size, self.ranks)
        ended = np.bincount(foot + after * stride, size, self.ranks)
        # An arc that wraps also covers the first places of its line.
        wraps = (after <= first) & (size > 0)
        steps = np.bincount(foot[wraps], size[wraps], self.ranks) + begun - ended
        feet = np.flatnonzero(self._place(np.arange(self.ranks), axis) == 0)
        lines = feet[:, None] + np.arange(places) * stride
        loads = np.zeros(self.ranks)
        loads[lines] = np.cumsum(steps[lines], axis=1)
        return np.where(loads > _DUST * loads.max(initial=0.0), loads, 0.0)

    def _moved(self, at: Indices, axis: int, by: int) -> Indices:
        """The endpoint that is ``by`` links further along an axis."""
        place = self._place(at, axis)
        return at + ((place + by) % self.sizes[axis] - place) * self.strides[axis]

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        """The busiest link into or out of each rank."""
        busiest = np.array(np.max(loads, axis=0), dtype=np.float64)
        copy, at = np.divmod(np.arange(self.ranks), self.endpoints)
        for number, load in enumerate(loads):
            axis, down = divmod(number, 2)
            there = copy * self.endpoints + self._moved(at, axis, -1 if down else 1)
            busiest[there] = np.maximum(busiest[there], load)
        return busiest

    def hops(self, src: Indices, dst: Indices) -> Indices:
        hops: Indices = np.zeros(len(src), np.int64)
        for leg in self._legs(src, dst):
            hops = hops + np.minimum(leg.up, leg.down)
        return hops

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        hops = self.hops(src, dst)
        return np.asarray(hops * self.alpha_s, dtype=np.float64), hops

    def name(self, number: int, resource: int) -> str:
        """``torus (0, 2, 1) -> (1, 2, 1)``."""
        axis, down = divmod(number, 2)
        copy, node = divmod(resource, self.endpoints)
        here = np.array([node])
        ends = []
        for at in (here, self._moved(here, axis, -1 if down else 1)):
            places = [str(self._place(at, number)[0]) for number in range(len(self.axes))]
            ends.append(f"({', '.join(places)})")
        return f"{self._of(copy)} {' -> '.join(ends)}"
