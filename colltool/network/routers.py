"""Routers: the links that each message takes between the nodes of a graph or a HyperX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkUse
from colltool.network.wires import GraphWires, HyperXWires

_NONE: Indices = np.zeros(0, dtype=np.int64)


class Wire(NamedTuple):
    """Links of one kind: how many, and bytes/s of each, one direction, in all."""

    name: str
    Bps: Floats  # shape (links,)


class Router(ABC):
    """Routes between the nodes of a network; ``node_of`` is the node of an endpoint."""

    wires: list[Wire]

    @abstractmethod
    def node_of(self, endpoints: Indices) -> Indices:
        """The switch that an endpoint has its port at, or the endpoint itself."""

    @abstractmethod
    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The links between two nodes, with the share of each message; ``number`` counts
        :attr:`wires`."""

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes on each of :attr:`wires`, the same as by :meth:`uses`."""
        parts: list[list[tuple[Indices, Floats]]] = [[] for _ in self.wires]
        for use in self.uses(src, dst):
            parts[use.number].append((use.resource, size[use.message] * use.share))
        loads = []
        for wire, shares in zip(self.wires, parts, strict=True):
            link = np.concatenate([resource for resource, _ in shares] or [_NONE])
            sent = np.concatenate([share for _, share in shares] or [np.zeros(0)])
            loads.append(np.bincount(link, sent, len(wire.Bps)).astype(np.float64))
        return loads

    def to_all(self, there: Floats) -> list[Floats]:
        """:meth:`loads` of a byte from each rank to each at another node, with ``there`` ranks at
        each of the first nodes."""
        src, dst = np.nonzero(~np.eye(len(there), dtype=bool))
        return self.loads(src, dst, there[src] * there[dst])

    @abstractmethod
    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Seconds between nodes, on top of an endpoint's own, and the links passed."""

    def ends(self, number: int) -> tuple[Indices, Indices]:
        """The node that each link of a kind leaves and the one where it ends; for networks whose
        ranks have no ports."""
        raise NotImplementedError

    @abstractmethod
    def name(self, number: int, resource: int) -> str:
        """A link for people: ``2 -> 5``."""


class GraphRouter(Router):
    """Shortest paths in links, spread over all next hops that lie on one, by their bandwidth."""

    def __init__(self, wires: GraphWires) -> None:
        self.nodes = wires.nodes
        edges = sorted(wires.edges)
        ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
        self.src = ends[:, 0]
        self.dst = ends[:, 1]
        self.Bps = np.array([edge.Bps for edge in edges])
        self.alpha_s = np.array([edge.alpha_s for edge in edges])
        self.wires = [Wire("links", self.Bps)]
        self.apart = _distances(self.nodes, self.src, self.dst)
        self.first = np.searchsorted(self.src, np.arange(self.nodes + 1))  # of each node's links

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """All messages a link further at a time."""
        message = np.flatnonzero(src != dst)
        here = src[message]
        share = np.ones(len(message))
        while len(message):
            # every link out of the node of every message
            count = self.first[here + 1] - self.first[here]
            pair = np.repeat(np.arange(len(message)), count)
            skipped = self.first[here] - np.cumsum(count) + count
            link = np.arange(len(pair)) + np.repeat(skipped, count)
            # of these the ones that lead closer
            to = dst[message[pair]]
            closer = self.apart[self.dst[link], to] < self.apart[here[pair], to]
            pair = pair[closer]
            link = link[closer]
            weight = self.Bps[link]
            part = share[pair] * weight / np.bincount(pair, weight, len(message))[pair]
            yield LinkUse(0, link, message[pair], part)
            message, here, share = _merged(message[pair], self.dst[link], part, self.nodes)
            left = here != dst[message]
            message = message[left]
            here = here[left]
            share = share[left]

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Add up what a node has for one destination, where there are many messages."""
        if len(src) <= self.nodes:
            return super().loads(src, dst, size)
        due = np.zeros((self.nodes, self.nodes))
        np.add.at(due, (src, dst), size)
        load = np.zeros(len(self.Bps))
        for link, to, share in self._levels:
            sent = due[self.src[link], to] * share
            load += np.bincount(link, sent, len(load))
            np.add.at(due, (self.dst[link], to), sent)
        return [load]

    @cached_property
    def _levels(self) -> list[tuple[Indices, Indices, Floats]]:
        """Links and destinations with the share of a node's bytes that takes that link, the
        farthest nodes first."""
        # shape (links, destinations): whether a link leads closer
        link, to = np.nonzero(self.apart[self.dst] < self.apart[self.src])
        weight = np.zeros((self.nodes, self.nodes))
        np.add.at(weight, (self.src[link], to), self.Bps[link])
        share = self.Bps[link] / weight[self.src[link], to]
        far = self.apart[self.src[link], to]
        levels = []
        for hops in range(int(far.max(initial=0)), 0, -1):
            at = far == hops
            levels.append((link[at], to[at], share[at]))
        return levels

    @cached_property
    def _longest_s(self) -> Floats:
        """Seconds from each node to each destination by the slowest of the ways that are taken."""
        took = np.zeros((self.nodes, self.nodes))
        for link, to, _ in reversed(self._levels):
            np.maximum.at(took, (self.src[link], to), self.alpha_s[link] + took[self.dst[link], to])
        return took

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        return self._longest_s[src, dst], self.apart[src, dst].astype(np.int64)

    def ends(self, number: int) -> tuple[Indices, Indices]:  # noqa: ARG002
        return self.src, self.dst

    def name(self, number: int, resource: int) -> str:  # noqa: ARG002
        return f"{self.src[resource]} -> {self.dst[resource]}"


def _merged(
    message: Indices, node: Indices, share: Floats, nodes: int
) -> tuple[Indices, Indices, Floats]:
    """Parts of a message that meet at a node go on as one."""
    key, at = np.unique(message.astype(np.int64) * nodes + node, return_inverse=True)
    merged = np.bincount(at, share).astype(np.float64)
    return key // nodes, key % nodes, merged


def _distances(nodes: int, src: Indices, dst: Indices) -> Indices:
    """Links between any two nodes, -1 where there is no way; breadth first from all at once."""
    itself = np.eye(nodes, dtype=bool)
    joined = np.zeros((nodes, nodes), dtype=np.float32)
    joined[src, dst] = 1
    apart = np.where(itself, 0, -1).astype(np.int32)
    reached = itself.astype(np.float32)
    hops = 0
    while True:
        hops += 1
        reached = np.minimum(reached @ joined, 1)
        new = (reached > 0) & (apart < 0)
        if not new.any():
            return apart
        apart[new] = hops


def _orders(axes: int) -> list[list[int]]:
    """Orders of the axes in which each of two is before the other as often."""
    if axes & (axes - 1) == 0:  # a power of two
        return [[place ^ turn for place in range(axes)] for turn in range(axes)]
    around = [[(first + step) % axes for step in range(axes)] for first in range(axes)]
    return around + [order[::-1] for order in around]


class HyperXRouter(Router):
    """Shortest paths, axis after axis; a message is spread over orders in which each of two axes is
    first as often.

    Links of an axis: from a node to each place on it, its own left free.
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
        place: Indices = node // self.strides[axis] % self.shape[axis]
        return place

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints // self.hosts

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        orders = _orders(len(self.shape))
        for order in orders:
            here = src
            for axis in order:
                place = self._place(here, axis)
                to = self._place(dst, axis)
                moving = np.flatnonzero(place != to)
                link = here[moving] * self.shape[axis] + to[moving]
                yield LinkUse(axis, link, moving, np.full(len(moving), 1 / len(orders)))
                here = here + (to - place) * self.strides[axis]

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
        a, b = (ends[resource] for ends in self.ends(number))
        return f"axis {number + 1} {a} -> {b}"
