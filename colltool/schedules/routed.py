"""Link models of routed networks: which links each message takes between switches, and how it is
spread over equal ways.

A message enters by its sender's port, is routed between the nodes that the two endpoints stand at,
and leaves by the receiver's port. Where there are no ports, every rank behind an endpoint has a
copy of the links. Groups that share the tier at a stride run the same messages at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, assert_never

import numpy as np

from colltool.algorithms.wires import DragonflyWires, GraphWires, HyperXWires, Wires
from colltool.schedules.links import Floats, Indices, LinkClass, LinkModel, LinkUse


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


@lru_cache(maxsize=16)
def router_of(wires: Wires) -> Router:
    match wires:
        case GraphWires():
            return GraphRouter(wires)
        case HyperXWires():
            return HyperXRouter(wires)
        case DragonflyWires():
            from colltool.schedules.dragonfly import DragonflyRouter  # which builds on this module

            return DragonflyRouter(wires)
        case _:
            assert_never(wires)


class RoutedLinks(LinkModel):
    """Ports of every rank, where its network has any, and the links between nodes.

    ``alpha_s``: what any message pays. ``scale``: the part of each link's bandwidth that a copy
    has. ``stride``: from one endpoint of the group to the next; the groups in between run alike
    unless ``alone``.
    """

    def __init__(
        self,
        wires: Wires,
        ranks: int,
        inside: int = 1,
        endpoints: int = 0,
        tier: str = "",
        capacity_Bps: float = 1.0,
        *,
        alpha_s: float = 0.0,
        stride: int = 1,
        alone: bool = False,
    ) -> None:
        super().__init__(ranks, inside, endpoints, tier, capacity_Bps)
        self.router, self.stride = router_of(wires), stride
        self.alpha_s = alpha_s if wires.has_ports else 0.0  # without ports the links have it all
        self.slower = [  # a link of less bandwidth counts for more of the fastest
            np.divide(
                wire.Bps.max(initial=0.0), wire.Bps, out=np.zeros_like(wire.Bps), where=wire.Bps > 0
            )
            for wire in self.router.wires
        ]
        self.offsets = np.arange(1 if alone else stride)
        every = np.ones(ranks, dtype=bool)
        self.ports = 2 if wires.has_ports else 0
        self.classes = [
            LinkClass(tier, f"ports {way}", every, capacity_Bps)
            for way in ("out", "in")[: self.ports]
        ]
        self.networks = -(-ranks // (inside * self.endpoints)) if self.ports else self.copies
        for wire in self.router.wires:
            fastest, exists = (
                float(wire.Bps.max(initial=0.0)) or 1.0,
                np.tile(wire.Bps > 0, self.networks),
            )
            self.classes.append(
                LinkClass(tier, wire.name, exists, fastest, endpoint=not self.ports)
            )

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """All that a step sends over a network at once."""
        found: list[Floats] = []
        for ranks in (src, dst)[: self.ports]:
            found.append(
                np.bincount(ranks[ranks < self.ranks], size[ranks < self.ranks], self.ranks).astype(
                    np.float64
                )
            )
        (a, copy), (b, _) = self.split(src), self.split(dst)
        a, b = (np.add.outer(self.offsets, ends * self.stride) for ends in (a, b))
        network, sums = src // (self.inside * self.endpoints) if self.ports else copy, []
        for number in range(self.networks):
            some = network == number
            start, end = (self.router.node_of(ends[:, some].ravel()) for ends in (a, b))
            sums.append(self.router.loads(start, end, np.tile(size[some], len(self.offsets))))
        return found + [
            np.concatenate([one * slower for one in load])
            for slower, *load in zip(self.slower, *sums, strict=True)
        ]

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        for way, ranks in enumerate((src, dst)[: self.ports]):
            own = np.flatnonzero(ranks < self.ranks)
            yield LinkUse(way, ranks[own], own, np.ones(len(own)))
        (a, copy), (b, _) = self.split(src), self.split(dst)
        network = src // (self.inside * self.endpoints) if self.ports else copy
        for offset in self.offsets:
            ends = (self.router.node_of(end * self.stride + offset) for end in (a, b))
            for use in self.router.uses(*ends):
                slower = self.slower[use.number]
                resource = network[use.message] * len(slower) + use.resource
                yield LinkUse(
                    self.ports + use.number, resource, use.message, use.share * slower[use.resource]
                )

    def to_all(self) -> list[Floats]:
        """Summed by the switches that endpoints stand at."""
        endpoints = np.bincount(self.router.node_of(np.arange(self.endpoints)))
        loads = self.router.to_all(endpoints.astype(np.float64) * self.inside)
        ports = [np.full(self.ranks, float(self.ranks - self.inside))] * self.ports
        return ports + [load * slower for load, slower in zip(loads, self.slower, strict=True)]

    def slowness(self, number: int, resource: Indices) -> Floats:
        if number < self.ports:
            return super().slowness(number, resource)
        slower: Floats = self.slower[number - self.ports]
        return np.take(slower, resource % len(slower))

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        if self.ports:
            return np.maximum(loads[0], loads[1])
        busiest = np.zeros(self.ranks)
        for number, load in enumerate(loads):
            for ends in self.router.ends(number):
                ours = ends < self.ranks
                np.maximum.at(busiest, ends[ours], load[ours])
        return busiest

    def hops(self, src: Indices, dst: Indices) -> Indices:
        """1 for every message: latencies are by :meth:`latency`."""
        return super().hops(src, dst)

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        ends = (self.router.node_of(self.split(ranks)[0] * self.stride) for ranks in (src, dst))
        seconds, links = self.router.latency(*ends)
        return self.alpha_s + seconds, links + self.ports

    def name(self, number: int, resource: int) -> str:
        if number < self.ports:
            return f"{self.tier} rank {resource} {('out', 'in')[number]}"
        copy, link = divmod(resource, len(self.router.wires[number - self.ports].Bps))
        return f"{self._of(copy)} {self.router.name(number - self.ports, link)}"
