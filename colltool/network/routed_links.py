"""The link model of routed networks: ports of ranks, and the links that a router chooses.

A message enters through its sender's port, is routed between the nodes of the two endpoints, and
leaves through the receiver's port. Where ranks have no ports, every rank behind an endpoint has a
copy of the links. Groups that share the tier at a stride send the same messages at the same time.

:class:`RoutedLinks` fills in :class:`colltool.network.links.LinkModel`, whose words it uses:

- class: ports or links of one kind; a ``number`` counts classes, first ports, then the router's;
- resource: one port or link, numbered within its class, network by network;
- copy: the tier as the ranks at one place behind the endpoints see it;
- network: what messages of one router call share: a domain where ranks have ports, else a copy;
- slowness: how many times as long a byte takes on a resource as on the fastest of its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import assert_never

import numpy as np

from colltool.base.primitives import ceil_div
from colltool.network.arrays import Floats, Indices
from colltool.network.dragonfly_router import DragonflyRouter
from colltool.network.links import LinkClass, LinkModel, LinkUse, TierRanks
from colltool.network.routers import GraphRouter, HyperXRouter, Router
from colltool.network.wires import DragonflyWires, GraphWires, HyperXWires, Wires


@lru_cache(maxsize=16)
def router_of(wires: Wires) -> Router:
    """The router of a network; cached, as it computes distances or gateways once."""
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
    """A port in each direction per rank, where the network has ports, and the links between nodes.

    Hops of a message are 1, as in the base class: :meth:`latency` counts the links between switches.

    Args:
        alpha_s: latency of the ports, which every message pays.
        stride: distance between two consecutive endpoints of the group. The groups in between send
            the same messages.
        alone: the groups in between are idle.
    """

    def __init__(
        self,
        wires: Wires,
        tier: TierRanks,
        *,
        alpha_s: float = 0.0,
        stride: int = 1,
        alone: bool = False,
    ) -> None:
        super().__init__(tier)
        self.router = router_of(wires)
        self.stride = stride
        # Without ports all latency is that of the links.
        self.alpha_s = alpha_s if wires.has_ports else 0.0
        # The first endpoint of each group that sends at the same time.
        self.offsets = np.arange(1 if alone else stride)
        self.ports = 2 if wires.has_ports else 0  # classes of ports: out and in
        self.classes = []
        if self.ports:
            self.classes += self._port_classes()
        domains = ceil_div(self.ranks, self.inside * self.endpoints)
        self.networks = domains if self.ports else self.copies
        # By class of links: the bandwidth of the fastest over that of each. Loads are multiplied by
        # it, so that one capacity per class is enough. 0 where no link is, which nothing is routed over.
        self.slower: list[Floats] = []
        for wire in self.router.wires:
            exists = wire.Bps > 0
            fastest_Bps = wire.Bps.max(initial=0.0)
            slower = np.divide(fastest_Bps, wire.Bps, out=np.zeros_like(wire.Bps), where=exists)
            self.slower.append(slower)
            in_every_network = np.tile(exists, self.networks)
            # of a class without links any rate will do: nothing loads it
            capacity_Bps = float(fastest_Bps) or 1.0
            self.classes.append(
                LinkClass(
                    self.tier, wire.name, in_every_network, capacity_Bps, endpoint=not self.ports
                )
            )

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes on each resource, an array per class; all messages of a network are routed in one
        call, since a router may spread them by the load."""
        loads: list[Floats] = []
        for ranks in (src, dst)[: self.ports]:  # both or none
            # Nodes numbered beyond the ranks are switches or servers, which have no port.
            has_port = ranks < self.ranks
            load = np.bincount(ranks[has_port], size[has_port], self.ranks)
            loads.append(load.astype(np.float64))
        sender, receiver, network = self._endpoints(src, dst)
        # of every group at the same time, shape (offsets, m)
        sender = np.add.outer(self.offsets, sender)
        receiver = np.add.outer(self.offsets, receiver)
        # Of each network the loads of every class.
        by_network = []
        for number in range(self.networks):
            inside = network == number
            start = self.router.node_of(sender[:, inside].ravel())
            end = self.router.node_of(receiver[:, inside].ravel())
            sizes = np.tile(size[inside], len(self.offsets))
            by_network.append(self.router.loads(start, end, sizes))
        # of each class of links its slowness, and its loads in every network
        for slower, *of_class in zip(self.slower, *by_network, strict=True):
            loads.append(np.concatenate([load * slower for load in of_class]))
        return loads

    def _endpoints(self, src: Indices, dst: Indices) -> tuple[Indices, Indices, Indices]:
        """The endpoints that send and receive each message, and the number of its network."""
        sender, copy = self.split(src)
        # With ports the ranks behind an endpoint share its links: a domain is one network.
        receiver, _ = self.split(dst)
        network = src // (self.inside * self.endpoints) if self.ports else copy
        return sender * self.stride, receiver * self.stride, network

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        if self.ports:
            yield from self._port_uses(src, dst)
        sender, receiver, network = self._endpoints(src, dst)
        for offset in self.offsets:
            start = self.router.node_of(sender + offset)
            end = self.router.node_of(receiver + offset)
            for use in self.router.uses(start, end):
                slower = self.slower[use.number]
                resource = network[use.message] * len(slower) + use.resource
                share = use.share * slower[use.resource]
                yield LinkUse(self.ports + use.number, resource, use.message, share)

    def to_all(self) -> list[Floats]:
        """Bytes as in the base class; summed up by switch, of which there are fewer than ranks."""
        endpoints = np.bincount(self.router.node_of(np.arange(self.endpoints)))
        loads = self.router.to_all(endpoints.astype(np.float64) * self.inside)
        # a byte to every rank but those behind the same endpoint
        ports = [np.full(self.ranks, float(self.ranks - self.inside))] * self.ports
        return ports + [load * slower for load, slower in zip(loads, self.slower, strict=True)]

    def slowness(self, number: int, resource: Indices) -> Floats:
        if number < self.ports:
            return super().slowness(number, resource)
        slower: Floats = self.slower[number - self.ports]
        return np.take(slower, resource % len(slower))

    def busiest_of_ranks(self, loads: Sequence[Floats]) -> Floats:
        if self.ports:
            return np.maximum(loads[0], loads[1])
        busiest = np.zeros(self.ranks)
        for number, load in enumerate(loads):
            for ends in self.router.ends(number):
                of_rank = ends < self.ranks  # else the link ends at a switch
                np.maximum.at(busiest, ends[of_rank], load[of_rank])
        return busiest

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        sender, receiver, _ = self._endpoints(src, dst)
        node_of = self.router.node_of
        seconds, links = self.router.latency(node_of(sender), node_of(receiver))
        return self.alpha_s + seconds, links + self.ports

    def name(self, number: int, resource: int) -> str:
        if number < self.ports:
            return self._port_name(number, resource)
        wire = number - self.ports
        copy, link = divmod(resource, len(self.slower[wire]))
        return f"{self._copy_name(copy)} {self.router.name(wire, link)}"
