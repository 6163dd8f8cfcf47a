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
from colltool.network.group import Axis, sizes_of
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import LinkUse
from colltool.network.twisted import ranks_at


class _Ways(NamedTuple):
    """The shortest ways from rank 0 to every rank, as links along each axis, below 0 down."""

    links: Indices  # shape (ways, N, axes); rows beyond a rank's own count are not used
    many: Indices  # how many a rank has, shape (N,)


@lru_cache(maxsize=16)
def _ways(axes: tuple[Axis, ...]) -> _Ways:
    """The shortest of all walks of at most k links along each axis: 2k along any axis lead back."""
    k = min(sizes_of(axes))
    ranks = prod(sizes_of(axes))
    walks = np.array(list(product(range(-k, k + 1), repeat=len(axes))))
    ends = ranks_at([*walks.T], axes)
    length = np.abs(walks).sum(axis=1)
    shortest = np.full(ranks, length.max())
    np.minimum.at(shortest, ends, length)
    kept = np.flatnonzero(length == shortest[ends])
    kept = kept[np.argsort(ends[kept], kind="stable")]
    count = np.bincount(ends[kept], minlength=ranks)
    # of the ways to its rank, which each kept walk is
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
        # no axis has an end
        self.classes = [every._replace(exists=np.ones_like(every.exists)) for every in self.classes]

    def _moved(self, at: Indices, axis: int, by: Indices | int) -> Indices:
        """The endpoint that is ``by`` links further along an axis."""
        walked = [self._place(at, number) for number in range(len(self.axes))]
        walked[axis] = walked[axis] + by
        return ranks_at(walked, self.axes)

    def _apart(self, src: Indices, dst: Indices) -> Indices:
        """The rank that is as far from rank 0 as each destination from its source."""
        here, _ = self.split(src)
        there, _ = self.split(dst)
        walked = []
        for number in range(len(self.axes)):
            walked.append(self._place(there, number) - self._place(here, number))
        return ranks_at(walked, self.axes)

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        none = np.zeros(0, dtype=np.int64)
        hops = [[LinkUse(number, none, none, np.zeros(0))] for number in range(len(self.classes))]
        for use in self._hop_by_hop(src, dst):
            hops[use.number].append(use)
        for number, several in enumerate(hops):
            resource = np.concatenate([use.resource for use in several])
            message = np.concatenate([use.message for use in several])
            share = np.concatenate([use.share for use in several])
            yield LinkUse(number, resource, message, share)

    def _hop_by_hop(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """All messages a link further at a time, way by way."""
        here, copy = self.split(src)
        apart = self._apart(src, dst)
        ways = _ways(self.axes)
        for number, way in enumerate(ways.links):
            at = here.copy()
            taken = number < ways.many[apart]
            for axis in range(len(self.axes)):
                links = np.where(taken, way[apart, axis], 0)
                for step in range(int(np.abs(links).max(initial=0))):
                    going = np.flatnonzero(np.abs(links) > step)
                    up = going[links[going] > 0]
                    down = going[links[going] < 0]
                    for direction, message in enumerate((up, down)):
                        resource = copy[message] * self.endpoints + at[message]
                        share = 1 / ways.many[apart[message]]
                        yield LinkUse(2 * axis + direction, resource, message, share)
                    at[going] = self._moved(at[going], axis, np.sign(links[going]))

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        loads = [np.zeros(self.ranks) for _ in self.classes]
        # Hop by hop: all hops of an all-to-all are never held at once.
        for use in self._hop_by_hop(src, dst):
            sent = size[use.message] * use.share
            loads[use.number] += np.bincount(use.resource, sent, self.ranks)
        return loads

    def hops(self, src: Indices, dst: Indices) -> Indices:
        hops: Indices = np.abs(_ways(self.axes).links[0, self._apart(src, dst)]).sum(axis=1)
        return hops
