"""The link model of a twisted torus: each message is divided evenly over all of its shortest paths.

Derived from the cables alone, independently of the formulas of :mod:`colltool.network.twisted`,
which it verifies.
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
from colltool.network.links import LinkUse, TierRanks
from colltool.network.twisted import ranks_at


class _ShortestPaths(NamedTuple):
    """The shortest paths from rank 0 to every rank, as signed links along each axis: (1, -2) is one
    link up the first axis and two down the second."""

    links: (
        Indices  # shape (most paths to a rank, N, axes); rows from a rank's count on are unused, 0
    )
    counts: Indices  # paths to each rank, shape (N,)


@lru_cache(maxsize=16)
def _shortest_paths(axes: tuple[Axis, ...]) -> _ShortestPaths:
    """The shortest paths of a twisted torus: of all walks of at most k links along each axis, those that
    are as short as any to the same rank. 2k links along an axis lead back, so none needs more."""
    k = min(sizes_of(axes))
    ranks = prod(sizes_of(axes))
    walks = np.array(list(product(range(-k, k + 1), repeat=len(axes))))
    ends = ranks_at([*walks.T], axes)
    length = np.abs(walks).sum(axis=1)
    shortest = np.full(ranks, length.max())
    np.minimum.at(shortest, ends, length)
    # indices of the shortest walks, by the rank where they end
    walk = np.flatnonzero(length == shortest[ends])
    walk = walk[np.argsort(ends[walk], kind="stable")]
    count = np.bincount(ends[walk], minlength=ranks)
    # The index of each walk among those to the same rank: 0 1 0 0 1 2 of ranks with 2, 1 and 3 walks.
    number = np.arange(len(walk)) - np.repeat(np.cumsum(count) - count, count)
    links = np.zeros((count.max(), ranks, len(axes)), dtype=np.int64)
    links[number, ends[walk]] = walks[walk]
    return _ShortestPaths(links, count)


def farthest_rank(axes: tuple[Axis, ...]) -> int:
    """A rank that is as far from rank 0 as any."""
    return int(np.abs(_shortest_paths(axes).links[0]).sum(axis=1).argmax())


class TwistedLinks(LatticeLinks):
    """A twisted torus: bytes are divided evenly over all shortest paths, and each path goes axis by
    axis."""

    def __init__(
        self,
        axes: Sequence[Axis],
        tier: TierRanks,
        *,
        alpha_s: float = 0.0,
    ) -> None:
        super().__init__(axes, tier, alpha_s=alpha_s)
        # No axis has an end.
        exists = np.ones_like(self.classes[0].exists)
        self.classes = [link_class._replace(exists=exists) for link_class in self.classes]

    def _along(self, nodes: Indices, axis: int, links: Indices | int) -> Indices:
        """The endpoints that are this many links further along an axis."""
        walked = [self._place(nodes, number) for number in range(len(self.axes))]
        walked[axis] = walked[axis] + links
        return ranks_at(walked, self.axes)

    def _relative(self, src: Indices, dst: Indices) -> Indices:
        """The rank that lies relative to rank 0 as each destination to its source; the paths are
        the same, as all ranks are alike."""
        here, _ = self.split(src)
        there, _ = self.split(dst)
        walked = []
        for number in range(len(self.axes)):
            walked.append(self._place(there, number) - self._place(here, number))
        return ranks_at(walked, self.axes)

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        # each begins with a use of nothing, as there is nothing to concatenate in an empty list
        nothing = np.zeros(0, dtype=np.int64)
        by_class = [
            [LinkUse(number, nothing, nothing, np.zeros(0))] for number in range(len(self.classes))
        ]
        for use in self._hop_by_hop(src, dst):
            by_class[use.number].append(use)
        for number, uses in enumerate(by_class):
            resource = np.concatenate([use.resource for use in uses])
            message = np.concatenate([use.message for use in uses])
            share = np.concatenate([use.share for use in uses])
            yield LinkUse(number, resource, message, share)

    def _hop_by_hop(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The links of all messages, path by path; on each path all messages move one link further
        at a time."""
        start, copy = self.split(src)
        target = self._relative(src, dst)
        paths = _shortest_paths(self.axes)
        for number, path in enumerate(paths.links):
            here = start.copy()
            # messages to a rank with fewer paths stay where they are
            has_path = number < paths.counts[target]
            for axis in range(len(self.axes)):
                links = np.where(has_path, path[target, axis], 0)
                for hop in range(int(np.abs(links).max(initial=0))):
                    moving = np.flatnonzero(np.abs(links) > hop)
                    up = moving[links[moving] > 0]
                    down = moving[links[moving] < 0]
                    for direction, message in enumerate((up, down)):
                        resource = copy[message] * self.endpoints + here[message]
                        share = 1 / paths.counts[target[message]]
                        yield LinkUse(2 * axis + direction, resource, message, share)
                    here[moving] = self._along(here[moving], axis, np.sign(links[moving]))

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        loads = [np.zeros(self.ranks) for _ in self.classes]
        # Added up hop by hop: all hops of an all-to-all at once would not fit in memory.
        for use in self._hop_by_hop(src, dst):
            sent = size[use.message] * use.share
            loads[use.number] += np.bincount(use.resource, sent, self.ranks)
        return loads

    def hops(self, src: Indices, dst: Indices) -> Indices:
        hops: Indices = np.abs(_shortest_paths(self.axes).links[0, self._relative(src, dst)]).sum(
            axis=1
        )
        return hops
