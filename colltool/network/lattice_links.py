"""The link model of a torus or mesh: shortest paths, axis by axis."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.network.arrays import Floats, Indices
from colltool.network.group import Axis, sizes_of
from colltool.network.links import LinkClass, LinkModel, LinkUse, TierRanks

# Loads below this part of the largest are rounding errors of a running sum, on links that nothing
# passes.
_ROUNDING = 1e-12


class _Leg(NamedTuple):
    """The part of every message's path along one axis."""

    axis: int
    entry: Indices  # the endpoint, over all copies, at which each message enters the axis
    # Hops in each direction. A direction that ends at an open line's end before the destination has as
    # many as the axis has places: more than the other.
    up: Indices
    down: Indices


class LatticeLinks(LinkModel):
    """A torus or mesh: shortest paths in dimension order from axis 1, with the bytes divided over
    both directions of a ring where they tie.

    A link has the number of the rank that sends on it. Classes are axis 1 up, axis 1 down, axis 2
    up ...
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        tier: TierRanks,
        *,
        alpha_s: float = 0.0,
    ) -> None:
        self.axes = tuple(axes)
        self.sizes = sizes_of(axes)
        super().__init__(tier._replace(endpoints=prod(self.sizes)))
        self.strides = [prod(self.sizes[:axis]) for axis in range(len(self.sizes))]
        self.hop_alpha_s = self.alpha_s = alpha_s
        self.classes = []
        for number, axis in enumerate(axes):
            place = self._place(np.arange(self.endpoints), number)
            for sign, edge in (("+", axis.size - 1), ("-", 0)):
                exists = np.tile((place != edge) | axis.is_ring, self.copies)
                name = f"axis {number + 1} {sign}"
                self.classes.append(LinkClass(self.tier, name, exists, tier.capacity_Bps))

    def _place(self, nodes: Indices, axis: int) -> Indices:
        """The place of each node (endpoints, numbered over all copies) on an axis."""
        place: Indices = nodes // self.strides[axis] % self.sizes[axis]
        return place

    def _legs(self, src: Indices, dst: Indices) -> Iterator[_Leg]:
        """The paths of all messages, axis by axis; each enters an axis where it left the one before."""
        here, copy = self.split(src)
        there, _ = self.split(dst)
        for number, axis in enumerate(self.axes):
            start = self._place(here, number)
            end = self._place(there, number)
            up = (end - start) % axis.size
            down = (start - end) % axis.size
            if not axis.is_ring:
                up = np.where(end >= start, up, axis.size)
                down = np.where(end <= start, down, axis.size)
            yield _Leg(number, copy * self.endpoints + here, up, down)
            here = here + (end - start) * self.strides[number]

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The links that each message loads, an element per hop."""
        for leg in self._legs(src, dst):
            size = self.sizes[leg.axis]
            # hops this way, hops the other way, step from place to place
            directions = ((leg.up, leg.down, 1), (leg.down, leg.up, -1))
            for direction, (hops, other, sign) in enumerate(directions):
                travelling = np.flatnonzero((hops <= other) & (hops > 0))
                # an element per hop: its message, and its number on the way
                message = np.repeat(travelling, hops[travelling])
                first_hop = np.cumsum(hops[travelling]) - hops[travelling]
                hop = np.arange(len(message)) - np.repeat(first_hop, hops[travelling])
                start = leg.entry[message]
                place = self._place(start, leg.axis)
                sends_at = (place + sign * hop) % size
                link = start + (sends_at - place) * self.strides[leg.axis]
                share = np.where(hops[message] == other[message], 0.5, 1.0)
                yield LinkUse(2 * leg.axis + direction, link, message, share)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes on each link, without an element per hop, so that all-to-alls of thousands of ranks
        stay fast."""
        loads = []
        for leg in self._legs(src, dst):
            places = self.sizes[leg.axis]
            start = self._place(leg.entry, leg.axis)
            origin = leg.entry - start * self.strides[leg.axis]
            # On the way down a message also loads a range of places, the last hop's first.
            lowest = (start - leg.down + 1) % places
            for first, hops, other in ((start, leg.up, leg.down), (lowest, leg.down, leg.up)):
                # all of it the shorter way: 1 or 0; half of it either way where they tie
                share = (1 + np.sign(other - hops)) / 2 * (hops > 0)
                after = (first + hops) % places
                loads.append(self._range_sums(leg.axis, origin, first, after, size * share))
        return loads

    def _range_sums(
        self, axis: int, origin: Indices, first: Indices, after: Indices, size: Floats
    ) -> Floats:
        """The load of each link of one direction of an axis, shape (N,).

        Message m loads the places ``first[m]`` up to ``after[m]`` (exclusive, with wraparound) of
        the line that begins at node ``origin[m]`` with ``size[m]``. It is added as a difference
        array: plus at the first place, minus after the last, then a running sum along the line. On a
        line of 5, 8 bytes over places 1 and 2, and 2 bytes over 4 and, wrapped, 0::

            steps    2   8-2  0   -8   2
            loads    2    8   8    0   2
        """
        places = self.sizes[axis]
        stride = self.strides[axis]
        begins = np.bincount(origin + first * stride, size, self.ranks)
        ends = np.bincount(origin + after * stride, size, self.ranks)
        # A range that wraps also covers the first places of its line.
        wraps = (after <= first) & (size > 0)
        steps = np.bincount(origin[wraps], size[wraps], self.ranks) + begins - ends
        origins = np.flatnonzero(self._place(np.arange(self.ranks), axis) == 0)
        lines = origins[:, None] + np.arange(places) * stride
        loads = np.zeros(self.ranks)
        loads[lines] = np.cumsum(steps[lines], axis=1)
        return np.where(loads > _ROUNDING * loads.max(initial=0.0), loads, 0.0)

    def _along(self, nodes: Indices, axis: int, links: int) -> Indices:
        """The endpoints that are this many links further along an axis, round it if need be."""
        place = self._place(nodes, axis)
        return nodes + ((place + links) % self.sizes[axis] - place) * self.strides[axis]

    def busiest_of_ranks(self, loads: Sequence[Floats]) -> Floats:
        """The load of the busiest link into or out of each rank, shape (N,)."""
        # out: links have their sender's number; in: of each the rank at its other end
        busiest = np.array(np.max(loads, axis=0), dtype=np.float64)
        copy, node = np.divmod(np.arange(self.ranks), self.endpoints)
        for number, load in enumerate(loads):
            axis, down = divmod(number, 2)
            there = copy * self.endpoints + self._along(node, axis, -1 if down else 1)
            busiest[there] = np.maximum(busiest[there], load)
        return busiest

    def hops(self, src: Indices, dst: Indices) -> Indices:
        """Links on the shortest path of each message."""
        hops: Indices = np.zeros(len(src), np.int64)
        for leg in self._legs(src, dst):
            hops = hops + np.minimum(leg.up, leg.down)
        return hops

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Seconds of latency of each message, and its hops."""
        hops = self.hops(src, dst)
        return np.asarray(hops * self.alpha_s, dtype=np.float64), hops

    def name(self, number: int, resource: int) -> str:
        """``torus (0, 2, 1) -> (1, 2, 1)``."""
        axis, down = divmod(number, 2)
        copy, node = divmod(resource, self.endpoints)
        here = np.array([node])
        ends = []
        for end in (here, self._along(here, axis, -1 if down else 1)):
            places = [str(self._place(end, number)[0]) for number in range(len(self.axes))]
            ends.append(f"({', '.join(places)})")
        return f"{self._copy_name(copy)} {' -> '.join(ends)}"
