"""Replaces the switches of a graph by links between ranks, each with its way through the switches
(:func:`split_off`). Trees are then packed over links between ranks, and :func:`by_ways` and
:class:`SwitchCopies` bring the switches back.

A link into a switch and one out of it are joined (split off), as many units of both as leave every
rank reachable at the full rate, until the switch has no links. This always succeeds if as much enters
a switch as leaves it.

Nodes are numbers: ranks from 0, then switches. A link's capacity is in whole units, one for each tree that
may use it. :class:`_RootFlows` tells whether all ranks are still reached, :class:`_SwitchRemoval` joins links
and keeps the ways behind them, :func:`split_off` is the entry.

Sources: Bang-Jensen, Frank, Jackson, "Preserving and increasing local edge-connectivity in mixed
graphs", 1995; ForestColl.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations, product
from typing import NamedTuple

from colltool.network.max_flow import Capacities, FlowNetwork

_SOURCE = -1  # the node that feeds all roots


class Way(NamedTuple):
    """A way from a node to another; from rank to rank once all switches are split off."""

    nodes: tuple[int, ...]  # both ends, and the switches in between
    units: int  # how many take it


Ways = dict[tuple[int, int], list[Way]]  # of each link between two nodes; units sum to the link's


class _RootFlows:
    """Flows of all roots to each rank, kept up to date while links change.

    A link change usually leaves the flow to a rank intact; only broken flows are computed anew.

    Attributes:
        owed: units that a rank must get, ``units_each`` of every root.
        arcs: the arc of a link in the :class:`FlowNetwork`, by the link's two nodes. ``arc ^ 1`` is its
            reverse, whose residual capacity is what flows along the arc.
        residual: by rank, the capacity left on every arc under the flow to that rank; None: that flow is
            to be computed anew.
    """

    def __init__(
        self, links: Capacities, ranks: int, roots: Sequence[int], units_each: int
    ) -> None:
        self.owed = units_each * len(roots)
        self.network = FlowNetwork({})
        self.arcs: dict[tuple[int, int], int] = {}
        for root in roots:
            self.network.add(_SOURCE, root, units_each)
        for node, neighbours in links.items():
            for to, units in neighbours.items():
                self.arcs[node, to] = self.network.add(node, to, units)
        self.residual: list[list[int] | None] = [None] * ranks

    def move(self, a: int, switch: int, b: int, units: int) -> None:
        """Take units from the links a -> switch -> b, and add as many to a -> b; negative ones are
        given back."""
        into = self.arcs[a, switch]
        out = self.arcs[switch, b]
        direct = self._direct(a, b)
        capacity = self.network.capacity
        capacity[into] -= units
        capacity[out] -= units
        capacity[direct] += units
        for rank, residual in enumerate(self.residual):
            if residual is None:
                continue
            # Move flow as well: as much as passes both links; or back, as much as passes the direct one.
            if units > 0:
                flow = min(units, residual[into ^ 1], residual[out ^ 1])
            else:
                flow = -min(-units, residual[direct ^ 1])
            for arc, sign in ((into, -1), (out, -1), (direct, 1)):
                residual[arc ^ 1] += sign * flow
                residual[arc] += sign * (units - flow)
            # more flows over a link than it has left
            if residual[into] < 0 or residual[out] < 0:
                self.residual[rank] = None

    def _direct(self, a: int, b: int) -> int:
        """The arc from ``a`` to ``b``, added with no capacity if there is none."""
        if (a, b) not in self.arcs:
            self.arcs[a, b] = self.network.add(a, b, 0)
            for residual in self.residual:
                if residual is not None:
                    residual += [0, 0]
        return self.arcs[a, b]

    def lacking(self, most: int) -> int:
        """Return how many units the rank that gets least lacks, but ``most`` at most, where it stops. Flows
        that broke are computed anew."""
        worst = 0
        for rank, residual in enumerate(self.residual):
            if residual is not None:
                continue
            unused = self.network.capacity.copy()
            reached, _ = self.network.fill(unused, _SOURCE, rank, enough=self.owed)
            if reached >= self.owed:
                self.residual[rank] = unused
            worst = max(worst, self.owed - reached)
            if worst >= most:
                return most
        return worst


class _SwitchRemoval:
    """Removes switches one by one.

    Attributes:
        links: units from node to node that are left; in the end between ranks alone.
        flows: the flows over these links.
        ways: the ways that each link stands for; the list of a link is used from its end.
    """

    def __init__(
        self, links: Capacities, ranks: int, roots: Sequence[int], units_each: int
    ) -> None:
        self.links: Capacities = {node: dict(row) for node, row in links.items()}
        self.flows = _RootFlows(links, ranks, roots, units_each)
        self.ways: Ways = defaultdict(list)
        for a, neighbours in links.items():
            for b, units in neighbours.items():
                self.ways[a, b].append(Way((a, b), units))

    def remove(self, switch: int) -> None:
        """Join all links into a switch with links out of it.

        Links back to where they come from are joined last: that drops them.
        """
        self._join_evenly(switch)
        # until no link leads into the switch
        while sources := [node for node, row in self.links.items() if row.get(switch)]:
            sinks = [node for node, units in self.links[switch].items() if units]
            pairs = [(a, b) for a, b in product(sources, sinks) if a != b]
            pairs += [(node, node) for node in sources if node in sinks]
            joined = [self._join(a, switch, b) for a, b in pairs]
            assert any(joined), "as much leaves a switch as enters it"
        del self.links[switch]
        for neighbours in self.links.values():
            neighbours.pop(switch, None)

    def _join_evenly(self, switch: int) -> None:
        """Join the same number of units between every two neighbours, if all ranks stay reachable.

        Trees over such links are flatter.
        """
        neighbours = []
        capacities = []
        for node, units in self.links[switch].items():
            back = self.links[node].get(switch)
            if units and back:
                neighbours.append(node)
                capacities += [units, back]
        # a neighbour's link is shared by its links to all others
        units = min(capacities, default=0) // max(1, len(neighbours) - 1)
        if not units:
            return
        pairs = list(permutations(neighbours, 2))
        for a, b in pairs:
            self._move(a, switch, b, units)
        # all or nothing: if any rank lacks a unit, all is given back
        is_too_much = self.flows.lacking(1) > 0
        for a, b in pairs:
            if is_too_much:
                self._move(a, switch, b, -units)
            else:
                self._record_ways(a, switch, b, units)

    def _join(self, a: int, switch: int, b: int) -> int:
        """Join as many units as leave every rank reachable at the full rate; return how many."""
        units = min(self.links[a][switch], self.links[switch][b])
        if units:
            self._move(a, switch, b, units)
            # each unit given back restores one unit to the rank that lacks most
            lacking = self.flows.lacking(units)
            self._move(a, switch, b, -lacking)
            units -= lacking
            self._record_ways(a, switch, b, units)
        return units

    def _record_ways(self, a: int, switch: int, b: int, units: int) -> None:
        """Make the ways of a new link from those of the two links that were joined."""
        before = _take_units(self.ways[a, switch], units)
        after = _take_units(self.ways[switch, b], units)
        # a way back to where it came from is dropped
        if a != b:
            self.ways[a, b] += _joined_ways(before, after)

    def _move(self, a: int, switch: int, b: int, units: int) -> None:
        """Take units from the links a -> switch -> b, and add as many to a -> b, in the links and in
        the flows; negative ones are given back."""
        self.links[a][switch] -= units
        self.links[switch][b] -= units
        if a != b:
            self.links[a][b] = self.links[a].get(b, 0) + units
        self.flows.move(a, switch, b, units)


def split_off(
    links: Capacities, ranks: int, roots: Sequence[int], units_each: int
) -> tuple[Capacities, Ways]:
    """Replace the switches: return links between ranks over which every root still reaches all ranks with
    ``units_each`` units, and the ways behind each link. Switches are the nodes from ``ranks`` on."""
    removal = _SwitchRemoval(links, ranks, roots, units_each)
    for switch in range(ranks, len(links)):
        removal.remove(switch)
    return removal.links, removal.ways


def _take_units(ways: list[Way], units: int) -> list[Way]:
    """Remove units from the end of a link's ways, which are changed, and return them as ways."""
    parts = []
    while units:
        way = ways.pop()
        part_units = min(units, way.units)
        parts.append(way._replace(units=part_units))
        if part_units < way.units:
            ways.append(way._replace(units=way.units - part_units))
        units -= part_units
    return parts


def _joined_ways(before: list[Way], after: list[Way]) -> Iterable[Way]:
    """The ways of one link continued by those of another, unit by unit: 2 units of 0-8-1 by 1 unit each
    of 1-9-2 and 1-7-2 make 0-8-1-9-2 and 0-8-1-7-2."""
    while before:
        units = min(before[-1].units, after[-1].units)
        (way,) = _take_units(before, units)
        (continued,) = _take_units(after, units)
        yield Way(way.nodes + continued.nodes[1:], units)


def by_ways(
    links: Sequence[tuple[int, int]], units: int, ways: Ways
) -> Iterable[tuple[int, Sequence[Way]]]:
    """Split ``units`` equal trees over these links by the ways of the links: yield how many trees are alike,
    and the way of each link in them. What they use is taken from ``ways``.

    Three trees of two links, of which the second has 2 units of one way and 1 of another, are two alike
    and one.
    """
    while units:
        count = min(units, *(ways[ends][-1].units for ends in links))
        parts: list[Way] = []
        for ends in links:
            parts += _take_units(ways[ends], count)
        yield count, parts
        units -= count


class SwitchCopies(dict[tuple[int, int], int]):
    """Node numbers of switches, from the number of ranks on. A tree that passes a switch twice gets a copy
    for the second time, as a node of a tree has one parent.

    Keys are (switch, how often the tree has passed it before); trees share the copies.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def hops(self, ways: Iterable[Way]) -> tuple[tuple[int, int], ...]:
        """Return the hops (from, to) of a tree over ranks and copies of switches, from the ways of its
        links in the tree's order."""
        passed = Counter[int]()
        hops: list[tuple[int, int]] = []
        for way in ways:
            start, *switches, end = way.nodes
            nodes = [start]
            for switch in switches:
                nodes.append(self.setdefault((switch, passed[switch]), self.ranks + len(self)))
                passed[switch] += 1
            hops += pairwise([*nodes, end])
        return tuple(hops)
