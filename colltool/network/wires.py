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

from colltool.base.primitives import ceil_div
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
    found = {start: 0}
    waiting = deque([start])
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
        """Nodes that have endpoints."""
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
        """The same with bandwidths times a factor."""
        return self._replace(
            edges=tuple(edge._replace(Bps=edge.Bps * factor) for edge in self.edges)
        )

    def slowed(self, factor: float) -> GraphWires:
        """The same with latencies times a factor."""
        return self._replace(
            edges=tuple(edge._replace(alpha_s=edge.alpha_s * factor) for edge in self.edges)
        )

    def of_first(self, endpoints: int) -> GraphWires:
        """What is left to the first endpoints alone, switches included: the others forward
        nothing."""
        if endpoints == self.endpoints:
            return self
        stay = [*range(endpoints), *range(self.endpoints, self.nodes)]
        number = {node: place for place, node in enumerate(stay)}
        kept = []
        for edge in self.edges:
            if edge.a in number and edge.b in number:
                kept.append(edge._replace(a=number[edge.a], b=number[edge.b]))
        return GraphWires(endpoints, len(stay), tuple(kept))

    def joins_all(self) -> bool:
        """Whether every endpoint reaches every other."""
        reached = hops_from(0, self.beside)
        return all(end in reached for end in range(self.endpoints))

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
        """Bytes/s of links from the first endpoints to anywhere else, each switch on the side where
        that is less."""
        ends = self.endpoints
        between_switches = any(edge.a >= ends and edge.b >= ends for edge in self.edges)
        if between_switches and self.nodes <= _FEW_NODES:
            return self._least_cut(after)
        crossing = 0.0
        # into each switch from the first endpoints, and from the others
        into: dict[int, list[float]] = {}
        for edge in self.edges:
            if edge.a < after <= edge.b < ends:
                crossing += edge.Bps
            elif edge.a < ends <= edge.b:
                into.setdefault(edge.b, [0.0, 0.0])[edge.a >= after] += edge.Bps
        if between_switches:
            return crossing + sum(first for first, _ in into.values())  # all on the far side
        return crossing + sum(min(sides) for sides in into.values())

    def _least_cut(self, after: int) -> float:
        """The least over all ways to put switches on one side or the other; to a millionth of the
        slowest link, rounded up."""
        unit = min(edge.Bps for edge in self.edges) / 2**20
        links: Capacities = {node: {} for node in range(self.nodes)}
        for edge in self.edges:
            links[edge.a][edge.b] = links[edge.a].get(edge.b, 0) + ceil(edge.Bps / unit)
        source = -1
        sink = -2
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
        return ceil_div(self.endpoints, max(1, self.hosts))

    @property
    def between_ranks(self) -> GraphWires | None:
        """The links as a graph; None where endpoints are at switches, or beyond one box of nodes.

        The last axis that they fill may be filled in part.
        """
        if self.hosts or self.endpoints > prod(self.shape):
            return None
        edges = []
        stride = 1
        for size, rate, alpha_s in zip(self.shape, self.Bps, self.alpha_s, strict=True):
            for node in range(self.endpoints):
                start = node - node // stride % size * stride
                for other in range(start, start + size * stride, stride):
                    if node != other < self.endpoints:
                        edges.append(Edge(node, other, rate, alpha_s))
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
        hosts = max(1, self.hosts)
        # bytes/s out of a node along each axis
        out_of_node = [(size - 1) * rate for size, rate in zip(self.shape, self.Bps, strict=True)]
        if hosts < self.endpoints:
            yield CutSide(0, hosts, sum(out_of_node))
        below = 1
        for axis, (size, rate) in enumerate(zip(self.shape, self.Bps, strict=True)):
            along_others = sum(out_of_node[axis + 1 :])
            for places in range(1 if axis else 2, size):
                after = hosts * below * places
                if after < self.endpoints:
                    out = places * (size - places) * rate + places * along_others
                    yield CutSide(0, after, below * out)
            below *= size


class DragonflyWires(NamedTuple):
    """Groups of switches: inside each a link between every two, or between every leaf and every
    spine; cables between groups.

    ``endpoints`` are numbered ``hosts`` to a switch, switch by switch. With ``spines`` they are at
    the leaves, and cables between groups end at the spines. ``local_Bps``: of all parallel links
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
        """None: endpoints are at switches."""
        return None

    @property
    def slowest_s(self) -> float:
        return max(self.local_alpha_s, self.global_alpha_s)

    @property
    def occupied(self) -> int:
        """Switches that have endpoints."""
        return ceil_div(self.endpoints, self.hosts)

    @property
    def gateways(self) -> int:
        """Switches of a group that cables to other groups end at."""
        return self.spines or self.switches

    @property
    def met(self) -> int:
        """The first groups, on whose links messages between the endpoints can pass."""
        filled = ceil_div(self.endpoints, self.hosts * self.switches)
        if filled == 1 or self.routing == "minimal":
            return filled
        return self.groups

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
        # a way inside a group, from a switch to a cable, and from one cable to another
        inside = 2 if self.spines else hop
        to_cable = 1 if self.spines else hop
        turn = 2 * min(1, self.spines - 1) if self.spines else hop
        if self.routing != "valiant":
            return (inside, 0), (2 * to_cable, 1)
        if self.switches > 2 and not self.spines:
            inside = 2 * hop
        if self.groups > 2:
            return (inside, 0), (2 * to_cable + turn, 2)
        return (inside, 0), (2 * to_cable, 1)

    def gateway(self, group: int, other: int, cable: int) -> int:
        """The switch of ``group`` at which that cable to the other group ends: ports are dealt out
        evenly, by distance."""
        port = ((other - group) % self.groups - 1) * self.cables + cable
        return port * self.gateways // ((self.groups - 1) * self.cables)

    def scaled(self, factor: float) -> DragonflyWires:
        """The same with bandwidths times a factor."""
        return self._replace(local_Bps=self.local_Bps * factor, global_Bps=self.global_Bps * factor)

    def slowed(self, factor: float) -> DragonflyWires:
        """The same with latencies times a factor."""
        return self._replace(
            local_alpha_s=self.local_alpha_s * factor, global_alpha_s=self.global_alpha_s * factor
        )

    def cuts(self) -> Iterator[CutSide]:
        """Each switch of the first group, runs of them, and runs of groups, while any endpoint
        is on the other side."""
        of_group = self.hosts * self.switches
        ends = [self.hosts * count for count in range(1, self.switches)]
        ends += [of_group * count for count in range(1, self.groups)]
        for after in ends:
            if after < self.endpoints:
                yield CutSide(0, after, self.out_of(after // self.hosts))
        for first in range(self.hosts, min(of_group, self.endpoints), self.hosts):
            after = min(first + self.hosts, self.endpoints)
            yield CutSide(first, after, self._out_of_switch(first // self.hosts))

    def out_of(self, switches: int) -> float:
        """Bytes/s out of the first switches: of whole groups, and of a part of one, its spines on
        the side that saves more."""
        whole, part = divmod(switches, self.switches)
        cables = self.cables * self.global_Bps
        if not part:
            return whole * (self.groups - whole) * cables
        beyond = self.groups - whole - 1
        if self.spines:  # none of them, or all
            up = part * self.spines * self.local_Bps
            up_of_others = (self.switches - part) * self.spines * self.local_Bps
            without_spines = whole * (beyond + 1) * cables + up
            with_spines = (whole + 1) * beyond * cables + up_of_others
            return min(without_spines, with_spines)
        inward, outward = self._cables_at(whole, range(part))
        inside = part * (self.switches - part) * self.local_Bps
        return inside + (whole * (beyond + 1) * self.cables - inward + outward) * self.global_Bps

    @property
    def halved_Bps(self) -> float:
        """Bytes/s out of half of the switches: the first; of an odd number of groups half of the
        others, and of one the switches of their cables."""
        plain = self.out_of(self.switches * self.groups // 2)
        if self.spines or self.groups % 2 == 0 or self.switches == 1:
            return plain
        near = self.groups // 2
        part = range(self.switches // 2)
        # cables of the halved group whose ends are in different halves
        astray = 0
        for apart in range(1, self.groups):
            for cable in range(self.cables):
                astray += (self.gateway(0, apart, cable) in part) != (apart <= near)
        inside = len(part) * (self.switches - len(part)) * self.local_Bps
        return min(plain, inside + (near * near * self.cables + astray) * self.global_Bps)

    def _out_of_switch(self, switch: int) -> float:
        """Bytes/s out of a switch of the first group."""
        if self.spines:
            return self.spines * self.local_Bps
        _, outward = self._cables_at(0, range(switch, switch + 1))
        return (self.switches - 1) * self.local_Bps + outward * self.global_Bps

    def _cables_at(self, group: int, among: range) -> tuple[int, int]:
        """Cables of these switches of a group to the groups before it, and to those after it."""
        before = 0
        after = 0
        for other in range(self.groups):
            if other == group:
                continue
            ends = [self.gateway(group, other, cable) for cable in range(self.cables)]
            cables = sum(end in among for end in ends)
            if other < group:
                before += cables
            else:
                after += cables
        return before, after


Wires = GraphWires | HyperXWires | DragonflyWires


def shared(wires: Wires | None, factor: float) -> Wires | None:
    """Wires with this part of the links that ranks share; those of a rank alone as they are."""
    if wires is None or not wires.has_ports:
        return wires
    return wires.scaled(factor)
