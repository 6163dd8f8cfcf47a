"""The links of a torus or mesh."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from colltool.network.arrays import Floats, Indices
from colltool.network.group import Axis
from colltool.network.links import LinkClass, LinkModel, LinkUse

_DUST = 1e-12  # of the busiest link: rounding that a running sum leaves where nothing passes


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
        self.axes, self.sizes = tuple(axes), [axis.size for axis in axes]
        super().__init__(
            ranks or inside * prod(self.sizes), inside, prod(self.sizes), tier, capacity_Bps
        )
        self.strides = [prod(self.sizes[:axis]) for axis in range(len(self.sizes))]
        self.hop_alpha_s = self.alpha_s = alpha_s
        self.classes = []
        for number, (axis, stride) in enumerate(zip(axes, self.strides, strict=True), start=1):
            place = np.arange(self.endpoints) // stride % axis.size
            for sign, edge in (("+", axis.size - 1), ("-", 0)):
                exists = np.tile((place != edge) | axis.is_ring, self.copies)
                self.classes.append(LinkClass(tier, f"axis {number} {sign}", exists, capacity_Bps))

    def _legs(self, src: Indices, dst: Indices) -> Iterator[tuple[int, Indices, Indices, Indices]]:
        """Per axis: its number, where each message enters it, and its hops if it goes up or
        down."""
        here, copy = self.split(src)
        there = self.split(dst)[0]
        for number, (axis, stride) in enumerate(zip(self.axes, self.strides, strict=True)):
            a, b = here // stride % axis.size, there // stride % axis.size
            up, down = (b - a) % axis.size, (a - b) % axis.size
            if not axis.is_ring:
                up, down = np.where(b >= a, up, axis.size), np.where(b <= a, down, axis.size)
            yield number, copy * self.endpoints + here, up, down
            here = here + (b - a) * stride

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Walks every message hop by hop."""
        for axis, entry, up, down in self._legs(src, dst):
            size, stride = self.sizes[axis], self.strides[axis]
            for way, (hops, other) in enumerate(((up, down), (down, up))):
                taken = np.flatnonzero((hops <= other) & (hops > 0))
                message = np.repeat(taken, hops[taken])
                step = np.arange(len(message)) - np.repeat(
                    np.cumsum(hops[taken]) - hops[taken], hops[taken]
                )
                start = entry[message]
                place = start // stride % size
                at = (place + step) % size if way == 0 else (place - step) % size
                share = np.where(hops[message] == other[message], 0.5, 1.0)
                yield LinkUse(2 * axis + way, start + (at - place) * stride, message, share)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """The sums of :meth:`uses` without walking, so that all-to-alls of thousands of ranks stay
        fast."""
        loads = []
        for axis, entry, up, down in self._legs(src, dst):
            places, stride = self.sizes[axis], self.strides[axis]
            start = entry // stride % places
            foot = entry - start * stride
            for first, hops, other in ((start, up, down), ((start - down + 1) % places, down, up)):
                share = np.where(hops < other, 1.0, np.where(hops == other, 0.5, 0.0)) * (hops > 0)
                loads.append(self._arcs(axis, foot, first, (first + hops) % places, size * share))
        return loads

    def _arcs(
        self, axis: int, foot: Indices, first: Indices, after: Indices, size: Floats
    ) -> Floats:
        """Add each size to places ``first`` up to ``after`` (exclusive) of its line, wrapping where
        it must.

        A difference array: plus where an arc begins, minus where it has ended, and a running sum
        along the line.
        """
        places, stride = self.sizes[axis], self.strides[axis]
        wraps = (after <= first) & (size > 0)
        begun, ended = (
            np.bincount(foot + place * stride, size, self.ranks) for place in (first, after)
        )
        steps = np.bincount(foot[wraps], size[wraps], self.ranks) + begun - ended
        lines = (
            np.flatnonzero(np.arange(self.ranks) // stride % places == 0)[:, None]
            + np.arange(places) * stride
        )
        loads = np.zeros(self.ranks)
        loads[lines] = np.cumsum(steps[lines], axis=1)
        return np.where(loads > _DUST * loads.max(initial=0.0), loads, 0.0)

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        """The busiest link into or out of each rank."""
        busiest, ranks = np.zeros(self.ranks), np.arange(self.ranks)
        for axis, (places, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            up, down = loads[2 * axis], loads[2 * axis + 1]
            place = ranks // stride % places
            below, above = (ranks + ((place + step) % places - place) * stride for step in (-1, 1))
            busiest = np.maximum.reduce([busiest, up, down, up[below], down[above]])
        return busiest

    def hops(self, src: Indices, dst: Indices) -> Indices:
        hops: Indices = sum(
            (np.minimum(up, down) for _, _, up, down in self._legs(src, dst)),
            np.zeros(len(src), np.int64),
        )
        return hops

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        hops = self.hops(src, dst)
        return np.asarray(hops * self.alpha_s, dtype=np.float64), hops

    def name(self, number: int, resource: int) -> str:
        """``torus (0, 2, 1) -> (1, 2, 1)``."""
        axis, way = divmod(number, 2)
        copy, node = divmod(resource, self.endpoints)
        place = [
            node // stride % size for size, stride in zip(self.sizes, self.strides, strict=True)
        ]
        there = list(place)
        there[axis] = (there[axis] + (-1 if way else 1)) % self.sizes[axis]
        return f"{self._of(copy)} ({', '.join(map(str, place))}) -> ({', '.join(map(str, there))})"
