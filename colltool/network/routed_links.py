"""Link models of routed networks: which links each message takes between switches, and how it is
spread over equal ways.

A message enters by its sender's port, is routed between the nodes of the two endpoints,
and leaves by the receiver's port. Where there are no ports, every rank behind an endpoint has a
copy of the links. Groups that share the tier at a stride run the same messages at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import assert_never

import numpy as np

from colltool.base.primitives import ceil_div
from colltool.network.arrays import Floats, Indices
from colltool.network.dragonfly_router import DragonflyRouter
from colltool.network.links import LinkClass, LinkModel, LinkUse
from colltool.network.routers import GraphRouter, HyperXRouter, Router
from colltool.network.wires import DragonflyWires, GraphWires, HyperXWires, Wires


@lru_cache(maxsize=16)
def router_of(wires: Wires) -> Router:
    match wires:
        case GraphWires():
            return GraphRouter(wires)
        case HyperXWires():
            return HyperXRouter(wires)
        case DragonflyWires():
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
        self.router = router_of(wires)
        self.stride = stride
        self.alpha_s = alpha_s if wires.has_ports else 0.0  # without ports the links have it all
        self.offsets = np.arange(1 if alone else stride)
        self.ports = 2 if wires.has_ports else 0
        every = np.ones(ranks, dtype=bool)
        self.classes = []
        for way in ("out", "in")[: self.ports]:
            self.classes.append(LinkClass(tier, f"ports {way}", every, capacity_Bps))
        outer_domains = ceil_div(ranks, inside * self.endpoints)
        self.networks = outer_domains if self.ports else self.copies
        # a byte on a link of less bandwidth counts for more of the fastest
        self.slower: list[Floats] = []
        for wire in self.router.wires:
            exists = wire.Bps > 0
            fastest = wire.Bps.max(initial=0.0)
            slower = np.divide(fastest, wire.Bps, out=np.zeros_like(wire.Bps), where=exists)
            self.slower.append(slower)
            everywhere = np.tile(exists, self.networks)
            links = LinkClass(
                tier, wire.name, everywhere, float(fastest) or 1.0, endpoint=not self.ports
            )
            self.classes.append(links)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """All that a step sends over a network at once."""
        loads: list[Floats] = []
        for ranks in (src, dst)[: self.ports]:
            own = ranks < self.ranks
            load = np.bincount(ranks[own], size[own], self.ranks)
            loads.append(load.astype(np.float64))
        a, b, network = self._ends(src, dst)
        a = np.add.outer(self.offsets, a)
        b = np.add.outer(self.offsets, b)
        sums = []
        for number in range(self.networks):
            here = network == number
            start = self.router.node_of(a[:, here].ravel())
            end = self.router.node_of(b[:, here].ravel())
            sums.append(self.router.loads(start, end, np.tile(size[here], len(self.offsets))))
        for slower, *over_networks in zip(self.slower, *sums, strict=True):
            loads.append(np.concatenate([load * slower for load in over_networks]))
        return loads

    def _ends(self, src: Indices, dst: Indices) -> tuple[Indices, Indices, Indices]:
        """The endpoints between which each message goes, and the number of its network."""
        a, copy = self.split(src)
        b, _ = self.split(dst)
        network = src // (self.inside * self.endpoints) if self.ports else copy
        return a * self.stride, b * self.stride, network

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        for way, ranks in enumerate((src, dst)[: self.ports]):
            own = np.flatnonzero(ranks < self.ranks)
            yield LinkUse(way, ranks[own], own, np.ones(len(own)))
        a, b, network = self._ends(src, dst)
        for offset in self.offsets:
            start = self.router.node_of(a + offset)
            end = self.router.node_of(b + offset)
            for use in self.router.uses(start, end):
                slower = self.slower[use.number]
                resource = network[use.message] * len(slower) + use.resource
                share = use.share * slower[use.resource]
                yield LinkUse(self.ports + use.number, resource, use.message, share)

    def to_all(self) -> list[Floats]:
        """The loads, summed by the switches of the endpoints."""
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
        a, b, _ = self._ends(src, dst)
        seconds, links = self.router.latency(self.router.node_of(a), self.router.node_of(b))
        return self.alpha_s + seconds, links + self.ports

    def name(self, number: int, resource: int) -> str:
        if number < self.ports:
            way = ("out", "in")[number]
            return f"{self.tier} rank {resource} {way}"
        kind = number - self.ports
        copy, link = divmod(resource, len(self.slower[kind]))
        return f"{self._of(copy)} {self.router.name(kind, link)}"
