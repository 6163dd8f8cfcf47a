"""The links of a twisted torus, where each message takes all of its shortest paths alike.

Written from the cables, not from the formulas of :mod:`colltool.network.twisted`: it is what
those are held against.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.network.arrays import Floats, Indices
from colltool.network.group import Axis
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import LinkUse
from colltool.network.twisted import ranks_at


class _Ways(NamedTuple):
    """The shortest ways from rank 0 to every rank, as links along each axis, below 0 down."""

    links: Indices  # shape (ways, N, axes); rows beyond a rank's own count are not used
    many: Indices  # how many a rank has, shape (N,)


@lru_cache(maxsize=16)
def _ways(axes: tuple[Axis, ...]) -> _Ways:
    """Of all walks of at most k links along each axis, the shortest to each rank: 2k along any axis
    lead back."""
    k, ranks = min(axis.size for axis in axes), prod(axis.size for axis in axes)
    walks = np.array(list(product(range(-k, k + 1), repeat=len(axes))))
    ends, length = ranks_at([*walks.T], axes), np.abs(walks).sum(axis=1)
    shortest = np.full(ranks, length.max())
    np.minimum.at(shortest, ends, length)
    kept = np.flatnonzero(length == shortest[ends])
    kept = kept[np.argsort(ends[kept], kind="stable")]
    count = np.bincount(ends[kept], minlength=ranks)
    number = np.arange(len(kept)) - np.repeat(np.cumsum(count) - count, count)
    links = np.zeros((count.max(), ranks, len(axes)), dtype=np.int64)
    links[number, ends[kept]] = walks[kept]
    return _Ways(links, count)


def farthest_rank(axes: tuple[Axis, ...]) -> int:
    """A rank with the longest way from rank 0."""
    return int(np.abs(_ways(axes).links[0]).sum(axis=1).argmax())


class TwistedLinks(LatticeLinks):
    """A twisted torus: bytes split evenly over all shortest ways to turn along each axis, each way
    by dimension order."""

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
        super().__init__(axes, ranks, inside, tier, capacity_Bps, alpha_s=alpha_s)
        self.classes = [one._replace(exists=np.ones_like(one.exists)) for one in self.classes]

    def _moved(self, at: Indices, axis: int, by: Indices | int) -> Indices:
        """So many links along an axis from each endpoint."""
        walked = [
            at // stride % size for stride, size in zip(self.strides, self.sizes, strict=True)
        ]
        walked[axis] = walked[axis] + by
        return ranks_at(walked, self.axes)

    def _apart(self, src: Indices, dst: Indices) -> Indices:
        """The rank that is as far from rank 0 as each destination from its source."""
        here, there = self.split(src)[0], self.split(dst)[0]
        steps = zip(self.strides, self.sizes, strict=True)
        return ranks_at(
            [there // stride % size - here // stride % size for stride, size in steps], self.axes
        )

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        none = np.zeros(0, dtype=np.int64)
        found = [[LinkUse(number, none, none, np.zeros(0))] for number in range(len(self.classes))]
        for use in self._hop_by_hop(src, dst):
            found[use.number].append(use)
        for number, several in enumerate(found):
            _, resources, messages, shares = zip(*several, strict=True)
            yield LinkUse(
                number, np.concatenate(resources), np.concatenate(messages), np.concatenate(shares)
            )

    def _hop_by_hop(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """All messages a link further at a time, way by way."""
        (here, copy), ways, apart = self.split(src), _ways(self.axes), self._apart(src, dst)
        for number, way in enumerate(ways.links):
            at, taken = here.copy(), number < ways.many[apart]
            for axis in range(len(self.axes)):
                links = np.where(taken, way[apart, axis], 0)
                for step in range(int(np.abs(links).max(initial=0))):
                    going = np.flatnonzero(np.abs(links) > step)
                    for down, message in enumerate(
                        (going[links[going] > 0], going[links[going] < 0])
                    ):
                        resource = copy[message] * self.endpoints + at[message]
                        yield LinkUse(
                            2 * axis + down, resource, message, 1 / ways.many[apart[message]]
                        )
                    at[going] = self._moved(at[going], axis, np.sign(links[going]))

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        loads = [np.zeros(self.ranks) for _ in self.classes]
        for use in self._hop_by_hop(src, dst):  # never holds all hops of an all-to-all
            loads[use.number] += np.bincount(
                use.resource, size[use.message] * use.share, self.ranks
            )
        return loads

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        busiest = np.max(loads, axis=0)
        copy, at = np.divmod(np.arange(self.ranks), self.endpoints)
        for number, load in enumerate(loads):
            axis, down = divmod(number, 2)
            np.maximum.at(
                busiest, copy * self.endpoints + self._moved(at, axis, -1 if down else 1), load
            )
        return np.asarray(busiest, dtype=np.float64)

    def hops(self, src: Indices, dst: Indices) -> Indices:
        hops: Indices = np.abs(_ways(self.axes).links[0, self._apart(src, dst)]).sum(axis=1)
        return hops

    def name(self, number: int, resource: int) -> str:
        """``ici (3, 0, 1) -> (0, 0, 5)``."""
        axis, down = divmod(number, 2)
        copy, node = divmod(resource, self.endpoints)
        ends = (node, int(self._moved(np.array(node), axis, -1 if down else 1)))
        places = (
            ", ".join(
                str(end // stride % size)
                for stride, size in zip(self.strides, self.sizes, strict=True)
            )
            for end in ends
        )
        return f"{self._of(copy)} ({') -> ('.join(places)})"
