"""Routers: which links each message takes between two nodes, and with which share of its bytes.

:class:`Router` is the interface; :class:`GraphRouter` and :class:`HyperXRouter` take shortest paths,
:class:`~colltool.network.dragonfly_router.DragonflyRouter` also others.
:class:`~colltool.network.routed_links.RoutedLinks` asks them for the messages of a tier, as arrays
``src``, ``dst`` and ``size`` of shape (m,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkUse
from colltool.network.wires import GraphWires, HyperXWires


class Wire(NamedTuple):
    """All links of one kind, such as those of an axis; a link has a number, its place in ``Bps``."""

    name: str
    Bps: Floats  # bytes/s of each, one direction, shape (links,); 0: no such link


class Router(ABC):
    """Routes between the nodes of a network; all arguments but endpoints are numbers of nodes."""

    wires: list[Wire]  # by kind of link

    @abstractmethod
    def node_of(self, endpoints: Indices) -> Indices:
        """The switch at which each endpoint has its port, or the endpoint itself."""

    @abstractmethod
    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The links that each message passes, with the share of its bytes; ``number`` of a use is
        the index in :attr:`wires`."""

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes on each link, an array for each of :attr:`wires`."""
        loads: list[Floats] = [np.zeros(len(wire.Bps)) for wire in self.wires]
        for use in self.uses(src, dst):
            # Added one after the other: all uses together would take a GB for a thousand ranks.
            np.add.at(loads[use.number], use.resource, size[use.message] * use.share)
        return loads

    def to_all(self, ranks: Floats) -> list[Floats]:
        """:meth:`loads` when every rank sends a byte to each rank at another node.

        ``ranks``: how many there are at each of the first nodes, shape (nodes with ranks,).
        """
        src, dst = np.nonzero(~np.eye(len(ranks), dtype=bool))
        return self.loads(src, dst, ranks[src] * ranks[dst])

    @abstractmethod
    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Latency of the links between two nodes in seconds, without ports, and how many links they
        are; shape (m,) each."""

    def ends(self, number: int) -> tuple[Indices, Indices]:
        """The nodes at both ends of each link of a kind, sender first; only for networks whose
        ranks have no ports."""
        raise NotImplementedError

    @abstractmethod
    def name(self, number: int, resource: int) -> str:
        """The name of a link in output: ``2 -> 5``."""


class GraphRouter(Router):
    """Paths of fewest links; at each node the bytes are divided over all next links that lie on
    such a path, in proportion to their bandwidth."""

    def __init__(self, wires: GraphWires) -> None:
        self.nodes = wires.nodes
        edges = sorted(wires.edges)
        ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
        self.src = ends[:, 0]
        self.dst = ends[:, 1]
        self.Bps = np.array([edge.Bps for edge in edges])
        self.alpha_s = np.array([edge.alpha_s for edge in edges])
        self.wires = [Wire("links", self.Bps)]
        self.distance = _distances(self.nodes, self.src, self.dst)
        # Links are sorted by sender: node n has those from first[n] up to first[n + 1].
        self.first = np.searchsorted(self.src, np.arange(self.nodes + 1))

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Yield the links of all messages, moving each one link further per iteration."""
        message = np.flatnonzero(src != dst)
        here = src[message]
        share = np.ones(len(message))
        while len(message):
            # Every link out of the node where a message is, and the message's index. Of two messages at
            # nodes with links 3 to 5 and 9 to 10, index is 0 0 0 1 1 and link 3 4 5 9 10.
            count = self.first[here + 1] - self.first[here]
            index = np.repeat(np.arange(len(message)), count)
            skipped = self.first[here] - np.cumsum(count) + count
            link = np.arange(len(index)) + np.repeat(skipped, count)
            # Only links that lead closer to the destination.
            target = dst[message[index]]
            closer = self.distance[self.dst[link], target] < self.distance[here[index], target]
            index = index[closer]
            link = link[closer]
            weight = self.Bps[link]
            part = share[index] * weight / np.bincount(index, weight, len(message))[index]
            yield LinkUse(0, link, message[index], part)
            message, here, share = _merge_parts(message[index], self.dst[link], part, self.nodes)
            on_the_way = here != dst[message]
            message = message[on_the_way]
            here = here[on_the_way]
            share = share[on_the_way]

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes on each link. Many messages are not followed one by one: all bytes at a node with
        the same destination move together."""
        if len(src) <= self.nodes:
            return super().loads(src, dst, size)
        waiting = np.zeros((self.nodes, self.nodes))  # bytes at each node by destination
        np.add.at(waiting, (src, dst), size)
        load = np.zeros(len(self.Bps))
        for link, target, share in self._levels:
            sent = waiting[self.src[link], target] * share
            load += np.bincount(link, sent, len(load))
            np.add.at(waiting, (self.dst[link], target), sent)
        return [load]

    @cached_property
    def _levels(self) -> list[tuple[Indices, Indices, Floats]]:
        """For each distance to the destination, the largest first: links, destinations, and the
        share of a node's bytes for that destination that takes the link; shape (k,) each, with an element
        for every link that leads closer to a destination."""
        # All pairs of a link and a destination that it leads closer to; the comparison has the shape
        # (links, destinations).
        link, target = np.nonzero(self.distance[self.dst] < self.distance[self.src])
        weight = np.zeros((self.nodes, self.nodes))
        np.add.at(weight, (self.src[link], target), self.Bps[link])
        share = self.Bps[link] / weight[self.src[link], target]
        distance = self.distance[self.src[link], target]
        levels = []
        for hops in range(int(distance.max(initial=0)), 0, -1):
            so_far = distance == hops
            levels.append((link[so_far], target[so_far], share[so_far]))
        return levels

    @cached_property
    def _longest_s(self) -> Floats:
        """Latency in seconds over the slowest path taken, shape (nodes, destinations)."""
        longest_s = np.zeros((self.nodes, self.nodes))
        for link, target, _ in reversed(self._levels):
            path_s = self.alpha_s[link] + longest_s[self.dst[link], target]
            np.maximum.at(longest_s, (self.src[link], target), path_s)
        return longest_s

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        return self._longest_s[src, dst], self.distance[src, dst].astype(np.int64)

    def ends(self, number: int) -> tuple[Indices, Indices]:  # noqa: ARG002
        return self.src, self.dst

    def name(self, number: int, resource: int) -> str:  # noqa: ARG002
        return f"{self.src[resource]} -> {self.dst[resource]}"


def _merge_parts(
    message: Indices, node: Indices, share: Floats, nodes: int
) -> tuple[Indices, Indices, Floats]:
    """Messages, their nodes and their shares, with the parts of a message at one node added up."""
    # message 5 at node 2 of 8 nodes: 5 * 8 + 2
    pair, index = np.unique(message.astype(np.int64) * nodes + node, return_inverse=True)
    merged = np.bincount(index, share).astype(np.float64)
    return pair // nodes, pair % nodes, merged


def _distances(nodes: int, src: Indices, dst: Indices) -> Indices:
    """The fewest links between any two nodes, -1 where there is no path; shape (nodes, nodes)."""
    # Breadth first from all nodes at once, as a product with the adjacency matrix per hop.
    itself = np.eye(nodes, dtype=bool)
    adjacent = np.zeros((nodes, nodes), dtype=np.float32)
    adjacent[src, dst] = 1
    distance = np.where(itself, 0, -1).astype(np.int32)
    reached = itself.astype(np.float32)
    hops = 0
    while True:
        hops += 1
        reached = np.minimum(reached @ adjacent, 1)
        new = (reached > 0) & (distance < 0)
        if not new.any():
            return distance
        distance[new] = hops


def _axis_orders(axes: int) -> list[list[int]]:
    """A few orders of the axes, such that of any two axes each comes first in half of them: of two
    0 1 and 1 0, of four 0 1 2 3, 1 0 3 2, 2 3 0 1 and 3 2 1 0."""
    if axes & (axes - 1) == 0:  # a power of two
        return [[place ^ turn for place in range(axes)] for turn in range(axes)]
    around = [[(first + step) % axes for step in range(axes)] for first in range(axes)]
    return around + [order[::-1] for order in around]


class HyperXRouter(Router):
    """Shortest paths, one hop per axis; a message is divided over several orders of the axes.

    The links of an axis are numbered by sender and by the receiver's place on the axis; the number
    of a node's own place is unused.
    """

    def __init__(self, wires: HyperXWires) -> None:
        self.hosts = max(1, wires.hosts)
        self.shape = np.array(wires.shape)
        self.strides = np.cumprod(self.shape) // self.shape
        self.alpha_s = wires.alpha_s
        self.wires = []
        node = np.arange(self.shape.prod())
        for axis, (size, rate) in enumerate(zip(wires.shape, wires.Bps, strict=True)):
            itself = self._place(node, axis)[:, None] == np.arange(size)
            self.wires.append(Wire(f"axis {axis + 1}", np.where(itself, 0.0, rate).ravel()))

    def _place(self, node: Indices, axis: int) -> Indices:
        """The place of each node on an axis."""
        place: Indices = node // self.strides[axis] % self.shape[axis]
        return place

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints // self.hosts

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        orders = _axis_orders(len(self.shape))
        for order in orders:
            here = src
            for axis in order:
                place = self._place(here, axis)
                target_place = self._place(dst, axis)
                moving = np.flatnonzero(place != target_place)
                link = here[moving] * self.shape[axis] + target_place[moving]
                yield LinkUse(axis, link, moving, np.full(len(moving), 1 / len(orders)))
                here = here + (target_place - place) * self.strides[axis]

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        seconds = np.zeros(len(src))
        links = np.zeros(len(src), dtype=np.int64)
        for axis, alpha_s in enumerate(self.alpha_s):
            moves = self._place(src, axis) != self._place(dst, axis)
            seconds += moves * alpha_s
            links += moves
        return seconds, links

    def ends(self, number: int) -> tuple[Indices, Indices]:
        node, place = np.divmod(np.arange(len(self.wires[number].Bps)), self.shape[number])
        return node, node + (place - self._place(node, number)) * self.strides[number]

    def name(self, number: int, resource: int) -> str:
        senders, receivers = self.ends(number)
        return f"axis {number + 1} {senders[resource]} -> {receivers[resource]}"
