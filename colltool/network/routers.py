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


class Wire(NamedTuple):
    """Links of one kind: how many, and bytes/s of each, one direction, in all."""

    name: str
    Bps: Floats  # shape (links,)


class Router(ABC):
    """Routes between the nodes of a network; ``node_of`` says where an endpoint stands."""

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
        found = []
        for wire, some in zip(self.wires, parts, strict=True):
            link, sent = (
                map(np.concatenate, zip(*some, strict=True))
                if some
                else (np.zeros(0, dtype=np.int64), np.zeros(0))
            )
            found.append(np.bincount(link, sent, len(wire.Bps)).astype(np.float64))
        return found

    def to_all(self, there: Floats) -> list[Floats]:
        """As :meth:`loads`, of a byte from each rank to each at another node, with so many ranks at
        the first nodes."""
        src, dst = np.nonzero(~np.eye(len(there), dtype=bool))
        return self.loads(src, dst, there[src] * there[dst])

    @abstractmethod
    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Seconds between nodes, on top of an endpoint's own, and the links passed."""

    def ends(self, number: int) -> tuple[Indices, Indices]:
        """Of each link of a kind the node that it leaves and the one where it ends; asked where
        ranks have no ports."""
        raise NotImplementedError

    @abstractmethod
    def name(self, number: int, resource: int) -> str:
        """A link for people: ``2 -> 5``."""


class GraphRouter(Router):
    """Shortest paths in links, spread over all next hops that lie on one, by their bandwidth."""

    def __init__(self, wires: GraphWires) -> None:
        self.nodes, edges = wires.nodes, sorted(wires.edges)
        ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
        self.src, self.dst = ends[:, 0], ends[:, 1]
        self.Bps = np.array([edge.Bps for edge in edges])
        self.alpha_s = np.array([edge.alpha_s for edge in edges])
        self.wires = [Wire("links", self.Bps)]
        self.apart = _distances(self.nodes, self.src, self.dst)
        self.first = np.searchsorted(self.src, np.arange(self.nodes + 1))  # of each node's links

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        message = np.flatnonzero(src != dst)
        here, share = src[message], np.ones(len(message))
        while len(message):
            count = self.first[here + 1] - self.first[here]
            pair = np.repeat(np.arange(len(message)), count)
            link = np.arange(len(pair)) + np.repeat(
                self.first[here] - np.cumsum(count) + count, count
            )
            to = dst[message[pair]]
            on = self.apart[self.dst[link], to] < self.apart[here[pair], to]
            pair, link = pair[on], link[on]
            weight = self.Bps[link]
            part = share[pair] * weight / np.bincount(pair, weight, len(message))[pair]
            yield LinkUse(0, link, message[pair], part)
            message, here, share = _merged(message[pair], self.dst[link], part, self.nodes)
            left = here != dst[message]
            message, here, share = message[left], here[left], share[left]

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Of many messages all that a node has for one destination at once."""
        if len(src) <= self.nodes:
            return super().loads(src, dst, size)
        due, load = np.zeros((self.nodes, self.nodes)), np.zeros(len(self.Bps))
        np.add.at(due, (src, dst), size)
        for link, to, share in self._levels:
            sent = due[self.src[link], to] * share
            load += np.bincount(link, sent, len(load))
            np.add.at(due, (self.dst[link], to), sent)
        return [load]

    @cached_property
    def _levels(self) -> list[tuple[Indices, Indices, Floats]]:
        """Links and destinations with the share of a node's bytes that takes that link, the
        farthest nodes first."""
        closer = self.apart[self.dst] < self.apart[self.src]  # shape (links, destinations)
        weight = np.zeros((self.nodes, self.nodes))
        link, to = np.nonzero(closer)
        np.add.at(weight, (self.src[link], to), self.Bps[link])
        share, far = self.Bps[link] / weight[self.src[link], to], self.apart[self.src[link], to]
        levels = (
            (link[at], to[at], share[at])
            for at in (far == hops for hops in range(int(far.max(initial=0)), 0, -1))
        )
        return list(levels)

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
    joined = np.zeros((nodes, nodes), dtype=np.float32)
    joined[src, dst] = 1
    apart = np.where(np.eye(nodes, dtype=bool), 0, -1).astype(np.int32)
    reached, hops = np.eye(nodes, dtype=np.float32), 0
    while True:
        hops += 1
        reached = np.minimum(reached @ joined, 1)
        new = (reached > 0) & (apart < 0)
        if not new.any():
            return apart
        apart[new] = hops


def _orders(axes: int) -> list[list[int]]:
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
        self.hosts, self.shape = max(1, wires.hosts), np.array(wires.shape)
        self.strides = np.concatenate([[1], np.cumprod(self.shape)])[:-1]
        self.alpha_s = wires.alpha_s
        self.node = np.arange(self.shape.prod())
        self.wires = []
        for axis, (size, rate) in enumerate(zip(wires.shape, wires.Bps, strict=True)):
            own = self._place(self.node, axis)[:, None] == np.arange(size)
            self.wires.append(Wire(f"axis {axis + 1}", np.where(own, 0.0, rate).ravel()))

    def _place(self, node: Indices, axis: int) -> Indices:
        place: Indices = node // self.strides[axis] % self.shape[axis]
        return place

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints // self.hosts

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        axes = len(self.shape)
        orders = _orders(axes)
        for order in orders:
            here = src
            for axis in order:
                to = self._place(dst, axis)
                moving = np.flatnonzero(self._place(here, axis) != to)
                yield LinkUse(
                    axis,
                    here[moving] * self.shape[axis] + to[moving],
                    moving,
                    np.full(len(moving), 1 / len(orders)),
                )
                here = here + (to - self._place(here, axis)) * self.strides[axis]

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        took, links = np.zeros(len(src)), np.zeros(len(src), dtype=np.int64)
        for axis, alpha_s in enumerate(self.alpha_s):
            moves = self._place(src, axis) != self._place(dst, axis)
            took, links = took + moves * alpha_s, links + moves
        return took, links

    def ends(self, number: int) -> tuple[Indices, Indices]:
        node, place = np.divmod(np.arange(len(self.wires[number].Bps)), self.shape[number])
        return node, node + (place - self._place(node, number)) * self.strides[number]

    def name(self, number: int, resource: int) -> str:
        a, b = (ends[resource] for ends in self.ends(number))
        return f"axis {number + 1} {a} -> {b}"
