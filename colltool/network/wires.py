"""The wiring of networks whose messages are routed link by link: explicit graphs, HyperX and
dragonflies.

Bandwidths are bytes/s of one direction; latencies are seconds per link. Where endpoints have ports
at switches, links are shared by all ranks behind the endpoints, and latencies are added to that of
the ports. Elsewhere each of these ranks has a copy of the links.

The three kinds answer the same questions (:data:`Wires`): how many links, which latency, which cuts
bound the bandwidth. What an answer means is said at :class:`GraphWires`, the first, and again only
where another kind counts differently. :mod:`colltool.network.routers` and
:mod:`colltool.network.dragonfly_router` decide which links a message takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from math import ceil, prod
from typing import Literal, NamedTuple, TypeVar

from colltool.base.primitives import ceil_div
from colltool.network.max_flow import ENDLESS, Capacities, max_flow

Node = TypeVar("Node", int, int | str)
# Nodes of a graph up to which the least cut between its switches is computed as a maximum flow, each
# of which takes milliseconds up to here. Larger graphs get a bound that is quick to compute.
_MOST_FLOW_NODES = 128

Routing = Literal["minimal", "valiant", "adaptive"]
"""``minimal``: shortest paths. ``valiant``: through a random other group. ``adaptive``: whichever of
the two loads the busiest link less."""


class Edge(NamedTuple):
    """A link between two nodes, one direction."""

    src: int
    dst: int
    Bps: float
    alpha_s: float


class CutSide(NamedTuple):
    """Consecutive endpoints, and the bandwidth of all links that leave them."""

    first: int
    after: int  # the first endpoint beyond them
    Bps: float


def hops_from(start: Node, neighbours: Mapping[Node, Collection[Node]]) -> dict[Node, int]:
    """The number of links to each node that can be reached from a node, the nearest first."""
    hops = {start: 0}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there in neighbours.get(here, ()):
            if there not in hops:
                hops[there] = hops[here] + 1
                queue.append(there)
    return hops


class GraphWires(NamedTuple):
    """An explicit graph: endpoints are the first nodes, switches follow.

    Args:
        nodes: endpoints and switches.
        edges: a link both ways is two.
    """

    endpoints: int
    nodes: int
    edges: tuple[Edge, ...]

    @property
    def has_ports(self) -> bool:
        """Whether every rank has a port at a switch, and shares the links between switches; in a graph it
        has only the links themselves."""
        return False

    @property
    def links(self) -> int:
        """The number of one-way links."""
        return len(self.edges)

    @property
    def occupied(self) -> int:
        """The number of nodes that have endpoints; they are the first nodes."""
        return self.endpoints

    @property
    def joins_ranks(self) -> bool:
        """Whether links lead from rank to rank, without switches."""
        return self.nodes == self.endpoints

    @property
    def between_ranks(self) -> GraphWires | None:
        """The links as a graph without switches; None where there are switches."""
        return self if self.joins_ranks else None

    @property
    def longest_alpha_s(self) -> float:
        """The longest latency of any link, in seconds."""
        return max(edge.alpha_s for edge in self.edges)

    def scaled(self, factor: float) -> GraphWires:
        """The same wiring with bandwidths times a factor."""
        return self._replace(
            edges=tuple(edge._replace(Bps=edge.Bps * factor) for edge in self.edges)
        )

    def slowed(self, factor: float) -> GraphWires:
        """The same wiring with latencies times a factor."""
        return self._replace(
            edges=tuple(edge._replace(alpha_s=edge.alpha_s * factor) for edge in self.edges)
        )

    def restricted_to(self, endpoints: int) -> GraphWires:
        """The graph of the first endpoints and all switches: the other endpoints forward
        nothing."""
        if endpoints == self.endpoints:
            return self
        nodes = [*range(endpoints), *range(self.endpoints, self.nodes)]
        number = {node: place for place, node in enumerate(nodes)}
        edges = []
        for edge in self.edges:
            if edge.src in number and edge.dst in number:
                edges.append(edge._replace(src=number[edge.src], dst=number[edge.dst]))
        return GraphWires(endpoints, len(nodes), tuple(edges))

    def is_connected(self) -> bool:
        """Whether every endpoint reaches every other."""
        reached = hops_from(0, self.neighbours)
        return all(endpoint in reached for endpoint in range(self.endpoints))

    @property
    def neighbours(self) -> dict[int, set[int]]:
        """The nodes that each node has links to."""
        neighbours: dict[int, set[int]] = {}
        for edge in self.edges:
            neighbours.setdefault(edge.src, set()).add(edge.dst)
        return neighbours

    def cuts(self) -> Iterator[CutSide]:
        """Cuts around each endpoint, and around the first 2, 3 ... endpoints."""
        leaving_Bps = [0.0] * self.nodes
        for edge in self.edges:
            leaving_Bps[edge.src] += edge.Bps
        for endpoint in range(self.endpoints):
            yield CutSide(endpoint, endpoint + 1, leaving_Bps[endpoint])
        for after in range(2, self.endpoints):
            yield CutSide(0, after, self._cut_Bps(after))

    def _cut_Bps(self, after: int) -> float:
        """Bytes/s from the endpoints before ``after`` to all others, with each switch on the side
        where that is least. A bound from above where switches join switches in a large graph."""
        ends = self.endpoints
        between_switches = any(edge.src >= ends and edge.dst >= ends for edge in self.edges)
        if between_switches and self.nodes <= _MOST_FLOW_NODES:
            return self._least_cut_Bps(after)
        direct = 0.0
        # Bandwidth into each switch: [from the endpoints before ``after``, from the others].
        into_switches: dict[int, list[float]] = {}
        for edge in self.edges:
            if edge.src < after <= edge.dst < ends:
                direct += edge.Bps
            elif edge.src < ends <= edge.dst:
                side = 0 if edge.src < after else 1
                into_switches.setdefault(edge.dst, [0.0, 0.0])[side] += edge.Bps
        if between_switches:
            # Any placing of switches bounds the least cut; with all of them on the far side no link
            # between them crosses.
            return direct + sum(near_Bps for near_Bps, _ in into_switches.values())
        return direct + sum(min(sides) for sides in into_switches.values())

    def _least_cut_Bps(self, after: int) -> float:
        """Bytes/s over the least cut between the endpoints before ``after`` and all others: by a maximum
        flow, exact but for rounding up by less than a millionth of the slowest link each."""
        # Flows are whole numbers: a millionth of the slowest link, rounded up.
        unit = min(edge.Bps for edge in self.edges) / 2**20
        links: Capacities = {node: {} for node in range(self.nodes)}
        for edge in self.edges:
            from_node = links[edge.src]
            from_node[edge.dst] = from_node.get(edge.dst, 0) + ceil(edge.Bps / unit)
        # Two nodes more, which no link limits: nodes are numbered from 0 on.
        source = -1
        sink = -2
        links[source] = dict.fromkeys(range(after), ENDLESS)
        for end in range(after, self.endpoints):
            links[end][sink] = ENDLESS
        return max_flow(links, source, sink)[0] * unit


class HyperXWires(NamedTuple):
    """A grid of nodes with a link between every two that differ along a single axis.

    Nodes and endpoints are numbered with the first axis fastest.
    """

    endpoints: int
    hosts: int  # endpoints with a port at each node, a switch; 0: the nodes are the endpoints
    shape: tuple[int, ...]  # nodes along each axis
    Bps: tuple[float, ...]  # of a link along each axis
    alpha_s: tuple[float, ...]  # of a link along each axis

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
    def joins_ranks(self) -> bool:
        return not self.hosts and self.endpoints <= prod(self.shape)

    @property
    def between_ranks(self) -> GraphWires | None:
        """The links between endpoints as a graph; None where they have ports at switches or are
        more than the nodes. It lists every link: ask :attr:`links` first how many they are."""
        if not self.joins_ranks:
            return None
        edges = []
        stride = 1  # nodes from one place of the axis to the next
        for size, rate, alpha_s in zip(self.shape, self.Bps, self.alpha_s, strict=True):
            for node in range(self.endpoints):
                place = node // stride % size
                start = node - place * stride  # the first node of its line
                for other in range(start, start + size * stride, stride):
                    if node != other < self.endpoints:
                        edges.append(Edge(node, other, rate, alpha_s))
            stride *= size
        return GraphWires(self.endpoints, self.endpoints, tuple(edges))

    @property
    def longest_alpha_s(self) -> float:
        return max(self.alpha_s)

    def scaled(self, factor: float) -> HyperXWires:
        return self._replace(Bps=tuple(rate * factor for rate in self.Bps))

    def slowed(self, factor: float) -> HyperXWires:
        return self._replace(alpha_s=tuple(alpha_s * factor for alpha_s in self.alpha_s))

    def cuts(self) -> Iterator[CutSide]:
        """Cuts around the first node, and around the first 1, 2 ... slices across each axis; only those
        with endpoints on both sides."""
        hosts = max(1, self.hosts)
        # Bytes/s out of a node along each axis.
        node_Bps = [(size - 1) * rate for size, rate in zip(self.shape, self.Bps, strict=True)]
        if hosts < self.endpoints:
            yield CutSide(0, hosts, sum(node_Bps))
        slice_nodes = 1  # nodes of a slice across the axis: all places on the axes before it
        for axis, (size, rate) in enumerate(zip(self.shape, self.Bps, strict=True)):
            later_axes_Bps = sum(node_Bps[axis + 1 :])
            # A slice of the first axis is a node, whose cut is there.
            fewest_slices = 1 if axis else 2
            for slices in range(fewest_slices, size):
                after = hosts * slice_nodes * slices
                if after < self.endpoints:
                    # Links of this axis to the other slices, and of later axes to other lines.
                    cut_Bps = slices * (size - slices) * rate + slices * later_axes_Bps
                    yield CutSide(0, after, slice_nodes * cut_Bps)
            slice_nodes *= size


class DragonflyWires(NamedTuple):
    """Groups of switches, with cables between every two groups.

    In a dragonfly every two switches of a group have a link. In a dragonfly+ (``spines`` above 0)
    every leaf has a link to every spine of its group; endpoints are at the leaves, and cables to
    other groups end at the spines. Endpoints are numbered switch by switch.
    """

    endpoints: int
    hosts: int  # endpoints at each switch
    switches: int  # per group, without spines
    groups: int
    spines: int  # per group; 0: a dragonfly
    local_Bps: float  # of all parallel links between two switches of a group
    local_alpha_s: float
    global_Bps: float  # of one cable between two groups
    global_alpha_s: float
    cables: int  # between two groups
    routing: Routing

    @property
    def has_ports(self) -> bool:
        return True

    @property
    def joins_ranks(self) -> bool:
        return False

    @property
    def between_ranks(self) -> None:
        """None: endpoints are at switches."""
        return None

    @property
    def longest_alpha_s(self) -> float:
        return max(self.local_alpha_s, self.global_alpha_s)

    @property
    def occupied(self) -> int:
        """The number of switches that have endpoints."""
        return ceil_div(self.endpoints, self.hosts)

    @property
    def gateways(self) -> int:
        """The number of switches of a group at which cables to other groups end."""
        return self.spines or self.switches

    @property
    def groups_in_use(self) -> int:
        """How many of the first groups messages between the endpoints may pass through."""
        filled = ceil_div(self.endpoints, self.hosts * self.switches)
        if filled == 1 or self.routing == "minimal":
            return filled
        return self.groups

    @property
    def links(self) -> int:
        """The number of one-way links in the groups in use."""
        inside = self.switches * (self.switches - 1)
        if self.spines:
            inside = 2 * self.switches * self.spines
        groups = self.groups_in_use
        return groups * (inside + (groups - 1) * self.cables)

    @property
    def longest_path_links(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(local, global) links on the longest path inside a group, and between two groups.

        Adaptive routing counts as minimal, the path it takes without congestion.
        """
        # Local links between two switches of a group, from a switch to a cable, and in a group on the way
        # from one cable to another. With a single switch, or a single spine, there are none to change to.
        inside = to_cable = between_cables = min(1, self.switches - 1)
        if self.spines:
            inside = 2
            to_cable = 1
            between_cables = 2 * min(1, self.spines - 1)
        if self.routing != "valiant":
            return (inside, 0), (2 * to_cable, 1)
        # by way of another switch of the group
        if self.switches > 2 and not self.spines:
            inside = 2
        # by way of another group
        if self.groups > 2:
            return (inside, 0), (2 * to_cable + between_cables, 2)
        return (inside, 0), (2 * to_cable, 1)

    def gateway(self, group: int, other: int, cable: int) -> int:
        """The switch of ``group``, numbered there, at which a cable to another group ends: of a
        dragonfly+ the spine.

        The cables of a group are distributed evenly over its gateways, in the order of the distance
        to the other group, counted upwards. The two groups are different.
        """
        port = ((other - group) % self.groups - 1) * self.cables + cable
        return port * self.gateways // ((self.groups - 1) * self.cables)

    def scaled(self, factor: float) -> DragonflyWires:
        """The same wiring with bandwidths times a factor."""
        return self._replace(local_Bps=self.local_Bps * factor, global_Bps=self.global_Bps * factor)

    def slowed(self, factor: float) -> DragonflyWires:
        """The same wiring with latencies times a factor."""
        return self._replace(
            local_alpha_s=self.local_alpha_s * factor, global_alpha_s=self.global_alpha_s * factor
        )

    def cuts(self) -> Iterator[CutSide]:
        """Cuts around the first switches of the first group, around the first groups, and around each
        further switch of the first group; only those with endpoints on both sides."""
        group_endpoints = self.hosts * self.switches
        ends = [self.hosts * count for count in range(1, self.switches)]
        ends += [group_endpoints * count for count in range(1, self.groups)]
        for after in ends:
            if after < self.endpoints:
                yield CutSide(0, after, self.leaving_Bps(after // self.hosts))
        for first in range(self.hosts, min(group_endpoints, self.endpoints), self.hosts):
            after = min(first + self.hosts, self.endpoints)
            yield CutSide(first, after, self._leaving_switch_Bps(first // self.hosts))

    def leaving_Bps(self, switches: int) -> float:
        """Bytes/s of all links that leave the first ``switches`` of the network (leaves where there are
        spines). These are whole groups and part of the next one, whose spines count on the side where
        that gives least."""
        whole, part = divmod(switches, self.switches)
        pair_Bps = self.cables * self.global_Bps  # between two groups
        if not part:
            return whole * (self.groups - whole) * pair_Bps
        later = self.groups - whole - 1  # groups after the split one
        if self.spines:
            # Either none of the spines is on this side, or all are.
            up_Bps = part * self.spines * self.local_Bps
            others_up_Bps = (self.switches - part) * self.spines * self.local_Bps
            without_spines_Bps = whole * (later + 1) * pair_Bps + up_Bps
            with_spines_Bps = (whole + 1) * later * pair_Bps + others_up_Bps
            return min(without_spines_Bps, with_spines_Bps)
        to_earlier, to_later = self._cables_at(whole, range(part))
        inside_Bps = part * (self.switches - part) * self.local_Bps
        # Cables of the whole groups, but for those to this part, and cables of this part.
        crossing = whole * (later + 1) * self.cables - to_earlier + to_later
        return inside_Bps + crossing * self.global_Bps

    @property
    def bisection_Bps(self) -> float:
        """Bytes/s between two halves of the switches.

        The first half of all switches against the others; with an odd number of groups also the
        better choice of which switches of the split group go with which half of the other groups.
        """
        first_half = self.leaving_Bps(self.switches * self.groups // 2)
        if self.spines or self.groups % 2 == 0 or self.switches == 1:
            return first_half
        # Group 0 is split: its first switches go with the groups from 1 to half_groups.
        half_groups = self.groups // 2
        first_switches = range(self.switches // 2)
        crossing = half_groups * half_groups * self.cables
        for other in range(1, self.groups):
            for cable in range(self.cables):
                is_first = self.gateway(0, other, cable) in first_switches
                crossing += is_first != (other <= half_groups)
        inside = len(first_switches) * (self.switches - len(first_switches)) * self.local_Bps
        return min(first_half, inside + crossing * self.global_Bps)

    def _leaving_switch_Bps(self, switch: int) -> float:
        """Bytes/s out of a switch of the first group."""
        if self.spines:
            return self.spines * self.local_Bps
        _, cables = self._cables_at(0, range(switch, switch + 1))
        return (self.switches - 1) * self.local_Bps + cables * self.global_Bps

    def _cables_at(self, group: int, among: range) -> tuple[int, int]:
        """How many cables these switches of a group have to groups before it, and after it."""
        before = 0
        after = 0
        for other in range(self.groups):
            if other == group:
                continue
            gateways = [self.gateway(group, other, cable) for cable in range(self.cables)]
            cables = sum(gateway in among for gateway in gateways)
            if other < group:
                before += cables
            else:
                after += cables
        return before, after


Wires = GraphWires | HyperXWires | DragonflyWires


def shared(wires: Wires | None, factor: float) -> Wires | None:
    """The wiring with bandwidths times a factor where ranks share its links, unchanged where each
    rank has a copy of them; None stays None."""
    if wires is None or not wires.has_ports:
        return wires
    return wires.scaled(factor)
