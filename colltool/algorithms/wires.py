"""Networks whose messages are routed link by link: what a group, a link model and a cut may know of their wires.

Bandwidths are bytes/s of one direction; latencies are seconds per link. Where endpoints have ports at switches, links are shared
by all ranks behind the endpoints, and latencies come on top of what a message pays anyway. Elsewhere each of these ranks has the
links for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

Routing = Literal["minimal", "valiant", "adaptive"]
"""Shortest paths; by way of a random other group; whichever of the two loads the busiest link less."""


class Edge(NamedTuple):
    """A link from node ``a`` to node ``b``, one direction."""

    a: int
    b: int
    Bps: float
    alpha_s: float


class CutSide(NamedTuple):
    """Endpoints ``first`` up to ``after`` (exclusive) and the bytes/s that can leave them, in all."""

    first: int
    after: int
    Bps: float


class GraphWires(NamedTuple):
    """An explicit graph: endpoints are the first nodes, switches follow; ``edges`` in both directions."""

    endpoints: int
    nodes: int
    edges: tuple[Edge, ...]

    @property
    def has_ports(self) -> bool:
        """Whether every rank has a port at a switch and all share the links behind; here its links are all that it has."""
        return False

    @property
    def slowest_s(self) -> float:
        """The longest latency of a link."""
        return max(edge.alpha_s for edge in self.edges)

    def scaled(self, factor: float) -> GraphWires:
        return self._replace(edges=tuple(edge._replace(Bps=edge.Bps * factor) for edge in self.edges))

    def slowed(self, factor: float) -> GraphWires:
        """With latencies times a factor."""
        return self._replace(edges=tuple(edge._replace(alpha_s=edge.alpha_s * factor) for edge in self.edges))

    def of_first(self, endpoints: int) -> GraphWires:
        """What is left to the first endpoints alone, switches included: the others forward nothing."""
        gone = self.endpoints - endpoints
        if not gone:
            return self
        stay = (*range(endpoints), *range(self.endpoints, self.nodes))
        to = {node: number for number, node in enumerate(stay)}
        kept = (edge for edge in self.edges if edge.a in to and edge.b in to)
        return GraphWires(endpoints, self.nodes - gone, tuple(edge._replace(a=to[edge.a], b=to[edge.b]) for edge in kept))

    def joins_all(self) -> bool:
        """Whether every endpoint reaches every other."""
        beside: dict[int, list[int]] = {}
        for edge in self.edges:
            beside.setdefault(edge.a, []).append(edge.b)
        met, waiting = {0}, [0]
        while waiting:
            new = set(beside.get(waiting.pop(), ())) - met
            met |= new
            waiting += new
        return all(end in met for end in range(self.endpoints))

    def cuts(self) -> Iterator[CutSide]:
        """Around every endpoint, and every run of the first endpoints, switches on the side that saves most."""
        out = [0.0] * self.nodes
        for edge in self.edges:
            out[edge.a] += edge.Bps
        for end in range(self.endpoints):
            yield CutSide(end, end + 1, out[end])
        for after in range(2, self.endpoints):
            yield CutSide(0, after, self._out_of(after))

    def _out_of(self, after: int) -> float:
        """Links from the first endpoints to anywhere else, each switch on the side where that is less."""
        crossing = sum(edge.Bps for edge in self.edges if edge.a < after and after <= edge.b < self.endpoints)
        ways: dict[int, list[float]] = {}
        for edge in self.edges:
            if edge.b >= self.endpoints > edge.a:
                ways.setdefault(edge.b, [0.0, 0.0])[edge.a >= after] += edge.Bps
        if any(edge.a >= self.endpoints and edge.b >= self.endpoints for edge in self.edges):
            return crossing + sum(here for here, _ in ways.values())  # switches behind switches: all of them on the far side
        return crossing + sum(min(both) for both in ways.values())


class HyperXWires(NamedTuple):
    """Along each axis of a grid of nodes a link between every two that differ there alone.

    ``hosts`` endpoints have a port at each node, which is then a switch; 0: the nodes are the endpoints. Both are numbered with
    the first axis fastest. ``Bps``, ``alpha_s``: of a link along each axis.
    """

    endpoints: int
    hosts: int
    shape: tuple[int, ...]
    Bps: tuple[float, ...]
    alpha_s: tuple[float, ...]

    @property
    def has_ports(self) -> bool:
        return self.hosts > 0

    @property
    def slowest_s(self) -> float:
        return max(self.alpha_s)

    def scaled(self, factor: float) -> HyperXWires:
        return self._replace(Bps=tuple(rate * factor for rate in self.Bps))

    def slowed(self, factor: float) -> HyperXWires:
        return self._replace(alpha_s=tuple(alpha_s * factor for alpha_s in self.alpha_s))

    def cuts(self) -> Iterator[CutSide]:
        """Around the first node and the first j of each axis in turn, all axes before it whole."""
        below = 1
        each = max(1, self.hosts)
        beyond = [(size - 1) * rate for size, rate in zip(self.shape, self.Bps, strict=True)]
        if each < self.endpoints:
            yield CutSide(0, each, sum(beyond))
        for axis, (size, rate) in enumerate(zip(self.shape, self.Bps, strict=True)):
            for some in range(1 if axis else 2, size):
                after = each * below * some
                if after < self.endpoints:
                    out = some * (size - some) * rate + some * sum(beyond[axis + 1 :])
                    yield CutSide(0, after, below * out)
            below *= size


Wires = GraphWires | HyperXWires


def shared(wires: Wires | None, factor: float) -> Wires | None:
    """With this part of the links that ranks share; those of a rank alone as they are."""
    return wires if wires is None or not wires.has_ports else wires.scaled(factor)
