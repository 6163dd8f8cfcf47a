"""Networks whose messages are routed link by link: what a group, a link model and a cut may know of
their wires.

Bandwidths are bytes/s of one direction; latencies are seconds per link. Where endpoints have ports
at switches, links are shared by all ranks behind the endpoints, and latencies come on top of what a
message pays anyway. Elsewhere each of these ranks has the links for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from math import ceil, prod
from typing import Literal, NamedTuple, TypeVar

from colltool.network.max_flow import ENDLESS, Capacities, max_flow

Node = TypeVar("Node", int, int | str)
_FEW_NODES = 128  # of a graph whose cuts between switches are sought one by one

Routing = Literal["minimal", "valiant", "adaptive"]
"""Shortest paths; by way of a random other group; whichever of the two loads the busiest link
less."""


class Edge(NamedTuple):
    """A link from node ``a`` to node ``b``, one direction."""

    a: int
    b: int
    Bps: float
    alpha_s: float


class CutSide(NamedTuple):
    """Endpoints ``first`` up to ``after`` (exclusive) and the bytes/s that can leave them, in
    all."""

    first: int
    after: int
    Bps: float


def hops_from(start: Node, beside: Mapping[Node, Collection[Node]]) -> dict[Node, int]:
    """The nodes that a node reaches, the nearest first, and over how many links."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        for there in beside.get(here, ()):
            if there not in found:
                found[there] = found[here] + 1
                waiting.append(there)
    return found


class GraphWires(NamedTuple):
    """An explicit graph: endpoints are the first nodes, switches follow; ``edges`` in both
    directions."""

    endpoints: int
    nodes: int
    edges: tuple[Edge, ...]

    @property
    def has_ports(self) -> bool:
        """Whether every rank has a port at a switch and all share the links behind; here its links
        are all that it has."""
        return False

    @property
    def links(self) -> int:
        """One-way links that a step's messages are put on."""
        return len(self.edges)

    @property
    def occupied(self) -> int:
        """Nodes that endpoints stand at."""
        return self.endpoints

    @property
    def between_ranks(self) -> GraphWires | None:
        """The links as a graph without switches; None where there are some."""
        return self if self.nodes == self.endpoints else None

    @property
    def slowest_s(self) -> float:
        """The longest latency of a link."""
        return max(edge.alpha_s for edge in self.edges)

    def scaled(self, factor: float) -> GraphWires:
        return self._replace(
            edges=tuple(edge._replace(Bps=edge.Bps * factor) for edge in self.edges)
        )

    def slowed(self, factor: float) -> GraphWires:
        """With latencies times a factor."""
        return self._replace(
            edges=tuple(edge._replace(alpha_s=edge.alpha_s * factor) for edge in self.edges)
        )

    def of_first(self, endpoints: int) -> GraphWires:
        """What is left to the first endpoints alone, switches included: the others forward
        nothing."""
        gone = self.endpoints - endpoints
        if not gone:
            return self
        stay = (*range(endpoints), *range(self.endpoints, self.nodes))
        to = {node: number for number, node in enumerate(stay)}
        kept = (edge for edge in self.edges if edge.a in to and edge.b in to)
        return GraphWires(
            endpoints,
            self.nodes - gone,
            tuple(edge._replace(a=to[edge.a], b=to[edge.b]) for edge in kept),
        )

    def joins_all(self) -> bool:
        """Whether every endpoint reaches every other."""
        met = hops_from(0, self.beside)
        return all(end in met for end in range(self.endpoints))

    @property
    def beside(self) -> dict[int, set[int]]:
        """For each node those that it has links to."""
        found: dict[int, set[int]] = {}
        for edge in self.edges:
            found.setdefault(edge.a, set()).add(edge.b)
        return found

    def cuts(self) -> Iterator[CutSide]:
        """Around every endpoint, and every run of the first endpoints, switches on the side that
        saves most."""
        out = [0.0] * self.nodes
        for edge in self.edges:
            out[edge.a] += edge.Bps
        for end in range(self.endpoints):
            yield CutSide(end, end + 1, out[end])
        for after in range(2, self.endpoints):
            yield CutSide(0, after, self._out_of(after))

    def _out_of(self, after: int) -> float:
        """Links from the first endpoints to anywhere else, each switch on the side where that is
        less."""
        behind = any(edge.a >= self.endpoints and edge.b >= self.endpoints for edge in self.edges)
        if behind and self.nodes <= _FEW_NODES:
            return self._least_cut(after)
        crossing = sum(
            edge.Bps for edge in self.edges if edge.a < after and after <= edge.b < self.endpoints
        )
        ways: dict[int, list[float]] = {}
        for edge in self.edges:
            if edge.b >= self.endpoints > edge.a:
                ways.setdefault(edge.b, [0.0, 0.0])[edge.a >= after] += edge.Bps
        if behind:
            return crossing + sum(here for here, _ in ways.values())  # all of them on the far side
        return crossing + sum(min(both) for both in ways.values())

    def _least_cut(self, after: int) -> float:
        """Of all ways to put switches on one side or the other; to a millionth of the slowest link,
        rounded up."""
        unit = min(edge.Bps for edge in self.edges) / 2**20
        links: Capacities = {node: {} for node in range(self.nodes)}
        for edge in self.edges:
            links[edge.a][edge.b] = links[edge.a].get(edge.b, 0) + ceil(edge.Bps / unit)
        source, sink = -1, -2
        links[source] = dict.fromkeys(range(after), ENDLESS)
        for end in range(after, self.endpoints):
            links[end][sink] = ENDLESS
        return max_flow(links, source, sink)[0] * unit


class HyperXWires(NamedTuple):
    """Along each axis of a grid of nodes a link between every two that differ there alone.

    ``hosts`` endpoints have a port at each node, which is then a switch; 0: the nodes are the
    endpoints. Both are numbered with the first axis fastest. ``Bps``, ``alpha_s``: of a link along
    each axis.
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
    def links(self) -> int:
        return prod(self.shape) * sum(size - 1 for size in self.shape)

    @property
    def occupied(self) -> int:
        return -(-self.endpoints // max(1, self.hosts))

    @property
    def between_ranks(self) -> GraphWires | None:
        """Of whole boxes, of which the last axis that is met may be met in part."""
        if self.hosts or self.endpoints > prod(self.shape):
            return None
        edges, stride = [], 1
        for size, rate, alpha_s in zip(self.shape, self.Bps, self.alpha_s, strict=True):
            for node in range(self.endpoints):
                start = node - node // stride % size * stride
                line = (start + place * stride for place in range(size))
                edges += [
                    Edge(node, other, rate, alpha_s)
                    for other in line
                    if node != other < self.endpoints
                ]
            stride *= size
        return GraphWires(self.endpoints, self.endpoints, tuple(edges))

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


class DragonflyWires(NamedTuple):
    """Groups of switches: inside each a link between every two, or between every leaf and every
    spine; cables between groups.

    ``endpoints`` stand ``hosts`` to a switch, switch by switch. With ``spines`` they stand at the
    leaves, and cables between groups end at the spines. ``local_Bps``: of all parallel links
    between two switches; ``global_Bps``: of one of the ``cables`` between two groups.
    """

    endpoints: int
    hosts: int
    switches: int  # of a group, spines apart
    groups: int
    spines: int
    local_Bps: float
    local_alpha_s: float
    global_Bps: float
    global_alpha_s: float
    cables: int
    routing: Routing

    @property
    def has_ports(self) -> bool:
        return True

    @property
    def between_ranks(self) -> None:
        """Endpoints stand at switches."""
        return None

    @property
    def slowest_s(self) -> float:
        return max(self.local_alpha_s, self.global_alpha_s)

    @property
    def occupied(self) -> int:
        """Switches that endpoints stand at."""
        return -(-self.endpoints // self.hosts)

    @property
    def gateways(self) -> int:
        """Switches of a group that cables to other groups end at."""
        return self.spines or self.switches

    @property
    def met(self) -> int:
        """The first groups, on whose links messages between the endpoints can pass."""
        own = -(-self.endpoints // (self.hosts * self.switches))
        return own if own == 1 or self.routing == "minimal" else self.groups

    @property
    def links(self) -> int:
        """One-way links that a step's messages are put on."""
        inside = 2 * self.switches * self.spines or self.switches * (self.switches - 1)
        return self.met * (inside + (self.met - 1) * self.cables)

    @property
    def longest(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Local and global links that the longest way passes inside a group, and between two.

        Adaptive routing counts as minimal: what is not held up takes the short way.
        """
        hop = min(1, self.switches - 1)
        inside, climbs = (2, 1) if self.spines else (hop, hop)
        if self.routing != "valiant":
            return (inside, 0), (2 * climbs, 1)
        # from the cable that leads into a group to the one out of it
        turn = 2 * min(1, self.spines - 1) if self.spines else hop
        detour = 2 * hop if self.switches > 2 and not self.spines else inside
        return (detour, 0), ((2 * climbs + turn, 2) if self.groups > 2 else (2 * climbs, 1))

    def gateway(self, group: int, other: int, cable: int) -> int:
        """The switch of ``group`` at which that cable to the other group ends: ports are dealt out
        evenly, by distance."""
        port = ((other - group) % self.groups - 1) * self.cables + cable
        return port * self.gateways // ((self.groups - 1) * self.cables)

    def scaled(self, factor: float) -> DragonflyWires:
        return self._replace(local_Bps=self.local_Bps * factor, global_Bps=self.global_Bps * factor)

    def slowed(self, factor: float) -> DragonflyWires:
        """With latencies times a factor."""
        return self._replace(
            local_alpha_s=self.local_alpha_s * factor, global_alpha_s=self.global_alpha_s * factor
        )

    def cuts(self) -> Iterator[CutSide]:
        """Each switch of the first group, runs of them, and runs of groups, while any endpoint
        stands on the other side."""
        a_group = self.hosts * self.switches
        ends = [self.hosts * count for count in range(1, self.switches)] + [
            a_group * count for count in range(1, self.groups)
        ]
        for after in (end for end in ends if end < self.endpoints):
            yield CutSide(0, after, self.out_of(after // self.hosts))
        for first in range(self.hosts, min(a_group, self.endpoints), self.hosts):
            yield CutSide(
                first,
                min(first + self.hosts, self.endpoints),
                self._out_of_one(first // self.hosts),
            )

    def out_of(self, switches: int) -> float:
        """Bytes/s out of the first switches: of whole groups, and of a part of one, its spines on
        the side that saves more."""
        whole, part = divmod(switches, self.switches)
        cables = self.cables * self.global_Bps
        if not part:
            return whole * (self.groups - whole) * cables
        beyond = self.groups - whole - 1
        if self.spines:  # none of them, or all
            leads, stays = (
                part * self.spines * self.local_Bps,
                (self.switches - part) * self.spines * self.local_Bps,
            )
            return min(whole * (beyond + 1) * cables + leads, (whole + 1) * beyond * cables + stays)
        inward, outward = self._cables_at(whole, range(part))
        inside = part * (self.switches - part) * self.local_Bps
        return inside + (whole * (beyond + 1) * self.cables - inward + outward) * self.global_Bps

    @property
    def halved_Bps(self) -> float:
        """Out of half of the switches: the first; of an odd number of groups half of the others,
        and of one the switches of their cables."""
        plain = self.out_of(self.switches * self.groups // 2)
        if self.spines or self.groups % 2 == 0 or self.switches == 1:
            return plain
        near, part = self.groups // 2, range(self.switches // 2)
        ends = [
            [self.gateway(0, apart, cable) in part for cable in range(self.cables)]
            for apart in range(1, self.groups)
        ]
        # cables whose ends part
        astray = sum(end != (apart < near) for apart, row in enumerate(ends) for end in row)
        inside = len(part) * (self.switches - len(part)) * self.local_Bps
        return min(plain, inside + (near * near * self.cables + astray) * self.global_Bps)

    def _out_of_one(self, switch: int) -> float:
        """Of the first group."""
        if self.spines:
            return self.spines * self.local_Bps
        _, outward = self._cables_at(0, range(switch, switch + 1))
        return (self.switches - 1) * self.local_Bps + outward * self.global_Bps

    def _cables_at(self, group: int, among: range) -> tuple[int, int]:
        """Cables of these switches of a group to the groups before it, and to those after it."""
        ends = [
            [self.gateway(group, other, cable) in among for cable in range(self.cables)]
            for other in range(self.groups)
            if other != group
        ]
        return sum(map(sum, ends[:group])), sum(map(sum, ends[group:]))


Wires = GraphWires | HyperXWires | DragonflyWires


def shared(wires: Wires | None, factor: float) -> Wires | None:
    """With this part of the links that ranks share; those of a rank alone as they are."""
    return wires if wires is None or not wires.has_ports else wires.scaled(factor)
