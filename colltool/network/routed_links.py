"""Link models of routed networks: which links each message takes between switches, and how it is
spread over equal ways.

A message enters by its sender's port, is routed between the nodes that the two endpoints stand at,
and leaves by the receiver's port. Where there are no ports, every rank behind an endpoint has a
copy of the links. Groups that share the tier at a stride run the same messages at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import assert_never

import numpy as np

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
