"""The twisted torus: distances, loads and cuts that follow from its shape alone.

Axes have k or 2k places. The wraparound link of an axis of k leads back to its start, and at the
same time k places further along each axis of 2k, half way round it. So every axis closes after 2k
hops, all links are alike, and shortest paths load them evenly: each link carries what all ranks
send, times the mean distance, over the number of links.

Source: J. M. Camara et al., "Twisted torus topologies for enhanced interconnection
networks", IEEE TPDS 21(12), 2010, 1765-1778; TPU v4 offers k x k x 2k and k x 2k x 2k (Jouppi et
al., "TPU v4", ISCA 2023, section 2.8). ``colltool verify`` executes it on the links of
:mod:`colltool.network.twisted_links`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from colltool.network.arrays import Indices, np
from colltool.network.group import Axis, Group, sizes_of

Shape = tuple[int, ...]
TWISTED_SHAPES = "k x 2k, k x k x 2k or k x 2k x 2k, such as [4, 4, 8]"


def twisted_axes(shape: Shape) -> tuple[Axis, ...] | None:
    """The axes of the twisted torus of a shape. None where no twist is defined.

    >>> twisted_axes((4, 8))
    (Axis(size=4, wrap=False, twist=(0, 4)), Axis(size=8, wrap=True, twist=()))
    """
    k = min(shape)
    if len(shape) not in (2, 3) or k < 2 or set(shape) != {k, 2 * k}:
        return None
    twist = tuple(k if size > k else 0 for size in shape)
    axes = []
    for size in shape:
        axes.append(Axis(size, wrap=True) if size > k else Axis(size, wrap=False, twist=twist))
    return tuple(axes)


def is_twisted(axes: Sequence[Axis]) -> bool:
    """Whether these are the axes of a twisted torus."""
    return any(axis.twist for axis in axes)


class Distances(NamedTuple):
    """Shortest paths from any rank to all ranks, in links."""

    longest: int
    total: int  # the sum over all ranks


@lru_cache(maxsize=256)
def distances(axes: tuple[Axis, ...]) -> Distances:
    """Distances of a twisted torus.

    An odd number of wraparounds of short axes shifts a message by k places along each long ring, so
    that l links along it become k - l.

    >>> axes = twisted_axes((4, 8))
    >>> distances(axes)
    Distances(longest=4, total=84)
    """
    k = min(sizes_of(axes))
    # How many places of the axes so far are at each distance. Along the short axes a distance is a pair:
    # the fewest links with an even number of wraparounds, and with an odd number.
    impossible = 2 * sum(sizes_of(axes))  # longer than any path: no odd number without a hop
    short_places = Counter({(0, impossible): 1})
    long_places = Counter({0: 1})
    for axis in axes:
        if axis.twist:
            longer = Counter[tuple[int, int]]()
            for ((even, odd), count), place in product(short_places.items(), range(k)):
                # The other way round is by the wraparound, so that even becomes odd: to place 1 of 4 it is
                # one link, or three with one wraparound more.
                back = k - place
                longer[min(even + place, odd + back), min(odd + place, even + back)] += count
            short_places = longer
        else:
            along_ring = Counter[int]()
            for (links, count), place in product(long_places.items(), range(axis.size)):
                along_ring[links + min(place, axis.size - place)] += count
            long_places = along_ring
    # an odd number of wraparounds lands k further along every long axis
    shift = k * sum(not axis.twist for axis in axes)
    ranks_at_distance = Counter[int]()
    for ((even, odd), count), (links, times) in product(short_places.items(), long_places.items()):
        ranks_at_distance[min(even + links, odd + shift - links)] += count * times
    total = sum(links * count for links, count in ranks_at_distance.items())
    return Distances(max(ranks_at_distance), total)


def diameter_of(axes: tuple[Axis, ...]) -> int:
    """Links between the two ranks of a lattice that are farthest apart."""
    return distances(axes).longest if is_twisted(axes) else sum(axis.diameter for axis in axes)


def mean_load(axes: tuple[Axis, ...]) -> float:
    """Bytes through each link of a twisted torus in a uniform all-to-all, in units of M: the mean
    distance over the 2n links of a rank, for n axes.

    >>> round(1.0 / mean_load(twisted_axes((4, 4, 8))), 3), round(1.0 / mean_load(twisted_axes((4, 8, 8))), 3)
    (1.745, 1.391)
    """
    return distances(axes).total / prod(sizes_of(axes)) / (2 * len(axes))


def links_across(axes: Sequence[Axis], number: int) -> int:
    """Links between the two halves of a lattice that is cut across the middle of an axis: the
    axis's own, and the wraparounds of other axes that are twisted along it."""
    nodes = prod(sizes_of(axes))
    cut = axes[number]
    lines = nodes // cut.size
    # a closed line is cut twice
    own_links = 2 * lines if cut.closed else lines
    twists = sum(nodes // axis.size for axis in axes if axis.twist and axis.twist[number])
    return own_links + twists


def parts_of(axes: Sequence[Axis]) -> list[list[Axis]]:
    """The axes that each of n parts of a payload passes, in order, for multi-ring; part j begins on
    axis j.

    On a twisted torus every part begins with a ring of 2k. If its first axis is short, that ring
    passes through the twist and covers half of a long axis too: of the last in the part's order,
    which is then an open line of k. Short axes after the first are open lines.
    """
    orders = [list(axes[j:]) + list(axes[:j]) for j in range(len(axes))]
    if not is_twisted(axes):
        return orders
    parts = []
    for first, *others in orders:
        passed = [axis._replace(twist=()) for axis in others]
        ring_size = first.size
        if first.twist:
            last_long = max(number for number, axis in enumerate(others) if not axis.twist)
            passed[last_long] = Axis(first.size, wrap=False)
            ring_size = 2 * first.size
        parts.append([Axis(ring_size, wrap=True), *passed])
    return parts


def ranks_at(walked: Sequence[Indices], axes: Sequence[Axis]) -> Indices:
    """The ranks that are reached from rank 0 by ``walked`` links along each axis, which may be
    negative: an array for each axis."""
    places = [np.array(links) for links in walked]
    # Twists lead along long axes only, which have none, so the order of the axes is free.
    for number, axis in enumerate(axes):
        if axis.twist:
            rounds, places[number] = np.divmod(places[number], axis.size)
            for other, shift in enumerate(axis.twist):
                places[other] = places[other] + rounds * shift
    rank: Indices = np.zeros_like(places[0])
    stride = 1
    for place, axis in zip(places, axes, strict=True):
        rank = rank + place % axis.size * stride
        stride *= axis.size
    return rank


def not_twisted(group: Group) -> str | None:
    """Messages that go several hops along one axis would leave it on a twisted torus."""
    if is_twisted(group.axes):
        return "follows single axes, and shortest paths of a twisted torus do not"
    return None
