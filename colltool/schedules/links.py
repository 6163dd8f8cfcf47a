"""What carries a schedule: ports of an any-to-any fabric, links of a lattice, links of a full mesh.

A network adds up the bytes (in units of M) on each of its resources, step by step. ``peak`` is the sum over steps of the
busiest resource, what a schedule in lock step waits for; ``busiest`` is the largest total, what a stream of segments waits for.
"""

from collections.abc import Sequence
from math import prod
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from colltool.algorithms.group import Axis, Group, JoinedBy
from colltool.schedules.program import Indices, Step

Loads = NDArray[np.float64]

_DUST = 1e-12  # of the busiest link: what a running sum leaves where nothing passes


class Network:
    """Counts loads; what the resources are, :meth:`loads` of a subclass says."""

    def __init__(self) -> None:
        self.hops = 0
        self.peak = 0.0
        self.total: Loads | None = None

    def loads(self, src: Indices, dst: Indices, size: Loads) -> Loads:
        """Bytes on every resource, for messages that leave together."""
        raise NotImplementedError

    def of_ranks(self, loads: Loads) -> Loads:
        """Of every rank the most that any of its own ports or links carries of such loads, either way, shape (N,)."""
        raise NotImplementedError

    def distance(self, src: Indices, dst: Indices) -> int:
        """Hops of the longest way among messages; 1 where every pair is joined."""
        return int((src != dst).any())

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Loads) -> None:
        """Load one batch of steps."""
        src = np.concatenate([one.src for one in batch])
        dst = np.concatenate([one.dst for one in batch])
        size = chunk_bytes[np.concatenate([one.chunk for one in batch])]
        loads = self.loads(src, dst, size)
        self.total = loads if self.total is None else self.total + loads
        self.peak += float(loads.max())
        self.hops += self.distance(src, dst)

    @property
    def busiest(self) -> float:
        """The largest total on one resource."""
        return 0.0 if self.total is None else float(self.total.max())


class Ports(Network):
    """One full-duplex port per rank: what it sends and what it takes count apart. Switches have as many as they need."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks

    def loads(self, src: Indices, dst: Indices, size: Loads) -> Loads:
        """Bytes out of each rank, then into each."""
        n = self.ranks
        out, into = src < n, dst < n
        return np.concatenate([np.bincount(src[out], size[out], n), np.bincount(dst[into], size[into], n)])

    def of_ranks(self, loads: Loads) -> Loads:
        """The busier direction of each port."""
        return np.maximum(loads[: self.ranks], loads[self.ranks : 2 * self.ranks])


class MeshLinks(Network):
    """A full-duplex link for every pair of ranks."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks

    def loads(self, src: Indices, dst: Indices, size: Loads) -> Loads:
        """Bytes on every link and direction, by src * N + dst."""
        return np.asarray(np.bincount(src * self.ranks + dst, size, self.ranks * self.ranks), dtype=np.float64)

    def of_ranks(self, loads: Loads) -> Loads:
        """The busiest link from or to each."""
        square = loads.reshape(self.ranks, self.ranks)
        busiest: Loads = np.maximum(square.max(axis=1), square.max(axis=0))
        return busiest


class LatticeLinks(Network):
    """Links between neighbours; dimension-ordered shortest paths, axis 1 first, ties split over both ways.

    Rank r has coordinates by its mixed-radix digits, the first axis fastest. Links are numbered
    ``(axis, rank they leave, direction)``, direction 0 upwards.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.sizes = [axis.size for axis in axes]
        self.strides = np.cumprod([1, *self.sizes[:-1]])
        self.ranks = int(np.prod(self.sizes))

    def coordinates(self, ranks: Indices) -> list[Indices]:
        """A rank's place on each axis."""
        return [ranks // stride % size for stride, size in zip(self.strides, self.sizes, strict=True)]

    def loads(self, src: Indices, dst: Indices, size: Loads) -> Loads:
        """Bytes on every link, shape (axes * ranks * 2,)."""
        here, out = src, []
        for axis, stride in zip(self.axes, self.strides, strict=True):
            start, end = here // stride % axis.size, dst // stride % axis.size
            foot = here - start * stride  # the rank at the foot of the line
            out.append(self._axis_loads(axis, stride, foot, start, end, size))
            here = foot + end * stride
        return np.concatenate(out).ravel()

    def _axis_loads(self, axis: Axis, stride: int, foot: Indices, start: Indices, end: Indices, size: Loads) -> Loads:
        """Bytes that leave every rank of the axis upwards and downwards, shape (ranks, 2)."""
        up, down = (end - start) % axis.size, (start - end) % axis.size
        if axis.is_ring:
            upwards: Loads = np.where(up < down, 1.0, np.where(up == down, 0.5, 0.0)) * (up > 0)
            downwards: Loads = (1.0 - upwards) * (down > 0)
        else:
            upwards, downwards = (end > start).astype(np.float64), (end < start).astype(np.float64)
        first_down = np.where(down > 0, (end + 1) % axis.size, 0)
        ways = ((upwards, start, end), (downwards, first_down, (start + 1) % axis.size))
        return np.stack([self._arcs(axis, stride, foot, a, b, size * share) for share, a, b in ways], axis=1)

    def _arcs(self, axis: Axis, stride: int, foot: Indices, first: Indices, after: Indices, size: Loads) -> Loads:
        """Adds each size to the ranks first, first+1 .. before ``after`` of its line, round the corner where it must.

        By differences: plus where an arc begins, minus where it has ended, and a running sum along the line.
        """
        wraps = (after <= first) & (size > 0)
        begun, ended = (np.bincount(foot + place * stride, size, self.ranks) for place in (first, after))
        steps = np.bincount(foot[wraps], size[wraps], self.ranks) + begun - ended
        lines = np.flatnonzero(np.arange(self.ranks) // stride % axis.size == 0)[:, None] + np.arange(axis.size) * stride
        loads = np.zeros(self.ranks)
        loads[lines] = np.cumsum(steps[lines], axis=1)
        return np.where(loads > _DUST * loads.max(initial=0.0), loads, 0.0)

    def of_ranks(self, loads: Loads) -> Loads:
        """The busiest link that leaves a rank, or comes to it from a neighbour."""
        busiest, ranks = np.zeros(self.ranks), np.arange(self.ranks)
        for links, size, stride in zip(loads.reshape(-1, self.ranks, 2), self.sizes, self.strides, strict=True):
            place = ranks // stride % size
            below, above = (ranks + ((place + step) % size - place) * stride for step in (-1, 1))
            busiest = np.maximum.reduce([busiest, links[:, 0], links[:, 1], links[below, 0], links[above, 1]])
        return busiest

    def distance(self, src: Indices, dst: Indices) -> int:
        """The most hops of any message."""
        hops = np.zeros(len(src), dtype=np.int64)
        for axis, a, b in zip(self.axes, self.coordinates(src), self.coordinates(dst), strict=True):
            apart = np.abs(a - b)
            hops += np.minimum(apart, axis.size - apart) if axis.is_ring else apart
        return int(hops.max(initial=0))


def network_of(joined_by: JoinedBy, ranks: int, axes: Sequence[Axis]) -> Network:
    """What carries messages between so many ranks: links of a lattice or of a full mesh, else a port for each."""
    match joined_by:
        case "switches" | "tiers":
            return Ports(ranks)
        case "pair_links":
            return MeshLinks(ranks)
        case "neighbour_links":
            return LatticeLinks(axes)
        case _:
            assert_never(joined_by)


class Tiers(Network):
    """A network for every tier of a group, innermost first.

    Ranks are numbered innermost fastest. A message travels on the outermost tier on which its ends stand apart, from the
    sender's own port there to the receiver's: every rank has a port, or a set of links, on every tier. ``tiers[k]`` holds
    the counts of tier k; ``hops`` and ``peak`` here are their sums.

    Args:
        groups: one for each tier; its ranks are the tier's endpoints.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = tuple(groups)
        self.sizes = [group.ranks for group in groups]
        self.strides = [prod(self.sizes[:k]) for k in range(len(groups))]
        self.tiers = [network_on(groups, k) for k in range(len(groups))]

    def tier_of(self, src: Indices, dst: Indices) -> Indices:
        """The outermost tier on which the ends stand apart; -1 for a message to oneself."""
        tier = np.full(len(src), -1)
        for k, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            tier[src // stride % size != dst // stride % size] = k
        return tier

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Loads) -> None:
        """Load one batch of steps, every message on its tier."""
        of_step = [self.tier_of(one.src, one.dst) for one in batch]
        for k, network in enumerate(self.tiers):
            here = tuple(_only(one, tier == k) for one, tier in zip(batch, of_step, strict=True) if (tier == k).any())
            if here:
                network.carry(here, chunk_bytes)
        self.hops = sum(network.hops for network in self.tiers)
        self.peak = sum(network.peak for network in self.tiers)

    @property
    def busiest(self) -> float:
        """The largest total on one resource of any tier."""
        return max(network.busiest for network in self.tiers)


def _only(one: Step, wanted: Indices) -> Step:
    return Step(one.src[wanted], one.dst[wanted], one.chunk[wanted], one.add)


def network_on(groups: Sequence[Group], k: int) -> Network:
    """Tier k's ports or links, for all of its domains and all parallel instances in them."""
    sizes = [group.ranks for group in groups]
    # every domain of a lattice is one: axes between instances are there, and carry nothing
    axes = [Axis(prod(sizes[:k]), False), *groups[k].axes, Axis(prod(sizes[k + 1 :]), False)]
    return network_of(groups[k].joined_by, prod(sizes), axes)
