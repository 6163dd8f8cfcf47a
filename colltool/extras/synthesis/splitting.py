"""Switches taken out of a graph of links: what passes them becomes links between ranks, each with
its way through them.

A link into a switch and one out of it are joined, as much of both as no rank needs apart to be
reached, until none is left. Where as much enters a switch as leaves it, that always goes on to the
end.

Sources: Bang-Jensen, Frank, Jackson, "Preserving and increasing local edge-connectivity in mixed
graphs", 1995; ForestColl.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations, product
from typing import NamedTuple

from colltool.network.max_flow import Capacities, FlowNetwork

_SOURCE = -1


class Way(NamedTuple):
    """A way from rank to rank, with the switches between, and how many units take it."""

    nodes: tuple[int, ...]
    units: int


Ways = dict[tuple[int, int], list[Way]]


class _Supply:
    """What every root owes each rank, as a flow to each that is kept while links change."""

    def __init__(self, links: Capacities, ranks: int, roots: Sequence[int], each: int) -> None:
        self.owed = each * len(roots)
        self.network = FlowNetwork({})
        self.arcs: dict[tuple[int, int], int] = {}
        for root in roots:
            self.network.add(_SOURCE, root, each)
        for node, row in links.items():
            for to, units in row.items():
                self.arcs[node, to] = self.network.add(node, to, units)
        # what the flow to each rank leaves of every arc; None: it has to be found anew
        self.left: list[list[int] | None] = [None] * ranks

    def move(self, a: int, switch: int, b: int, units: int) -> None:
        """Take units from the links a -> switch -> b, and add as many to a -> b."""
        first = self.arcs[a, switch]
        then = self.arcs[switch, b]
        direct = self._direct(a, b)
        capacity = self.network.capacity
        capacity[first] -= units
        capacity[then] -= units
        capacity[direct] += units
        for rank, left in enumerate(self.left):
            if left is None:
                continue
            # The flow moves as well, as far as it passes both links: arc ^ 1 has what flows.
            if units > 0:
                flow = min(units, left[first ^ 1], left[then ^ 1])
            else:
                flow = -min(-units, left[direct ^ 1])
            for arc, sign in ((first, -1), (then, -1), (direct, 1)):
                left[arc ^ 1] += sign * flow
                left[arc] += sign * (units - flow)
            if left[first] < 0 or left[then] < 0:
                self.left[rank] = None

    def _direct(self, a: int, b: int) -> int:
        if (a, b) not in self.arcs:
            self.arcs[a, b] = self.network.add(a, b, 0)
            for left in self.left:
                if left is not None:
                    left += [0, 0]
        return self.arcs[a, b]

    def lacking(self, most: int) -> int:
        """The most units that some rank no longer gets, ``most`` at most."""
        lacking = 0
        for rank, kept in enumerate(self.left):
            if kept is not None:
                continue
            left = self.network.capacity.copy()
            reached, _ = self.network.fill(left, _SOURCE, rank, enough=self.owed)
            if reached >= self.owed:
                self.left[rank] = left
            lacking = max(lacking, self.owed - reached)
            if lacking >= most:
                return most
        return lacking


class _Shrinking:
    """Links that are ``left``, switches among them, and where each leads: at the end between ranks
    alone."""

    def __init__(self, links: Capacities, ranks: int, roots: Sequence[int], each: int) -> None:
        self.left: Capacities = {node: dict(row) for node, row in links.items()}
        self.supply = _Supply(links, ranks, roots, each)
        self.ways: Ways = defaultdict(list)
        for a, row in links.items():
            for b, units in row.items():
                self.ways[a, b].append(Way((a, b), units))

    def take_out(self, switch: int) -> None:
        """Join what enters a switch with what leaves it; back where it came from last of all, which
        is nowhere."""
        self._join_evenly(switch)
        while into := [node for node, row in self.left.items() if row.get(switch)]:
            out = [node for node, units in self.left[switch].items() if units]
            pairs = [(a, b) for a, b in product(into, out) if a != b]
            pairs += [(node, node) for node in into if node in out]
            joined = [self._join(a, switch, b) for a, b in pairs]
            assert any(joined), "as much leaves a switch as enters it"
        del self.left[switch]
        for row in self.left.values():
            row.pop(switch, None)

    def _join_evenly(self, switch: int) -> None:
        """Join as much of every two neighbours as of any other two, if that spoils nothing: trees
        stay flat."""
        neighbours = []
        capacities = []
        for node, units in self.left[switch].items():
            back = self.left[node].get(switch)
            if units and back:
                neighbours.append(node)
                capacities += [units, back]
        units = min(capacities, default=0) // max(1, len(neighbours) - 1)
        if not units:
            return
        pairs = list(permutations(neighbours, 2))
        for a, b in pairs:
            self._move(a, switch, b, units)
        spoils = self.supply.lacking(1) > 0
        for a, b in pairs:
            if spoils:
                self._move(a, switch, b, -units)
            else:
                self._lay(a, switch, b, units)

    def _join(self, a: int, switch: int, b: int) -> int:
        """How many units became a link from ``a`` to ``b``: every cut between ranks keeps what it
        has to carry."""
        units = min(self.left[a][switch], self.left[switch][b])
        if units:
            self._move(a, switch, b, units)
            spoilt = self.supply.lacking(units)
            self._move(a, switch, b, -spoilt)
            units -= spoilt
            self._lay(a, switch, b, units)
        return units

    def _lay(self, a: int, switch: int, b: int, units: int) -> None:
        """Note the ways of a new link."""
        first = _taken(self.ways[a, switch], units)
        then = _taken(self.ways[switch, b], units)
        if a != b:
            self.ways[a, b] += _in_line(first, then)

    def _move(self, a: int, switch: int, b: int, units: int) -> None:
        self.left[a][switch] -= units
        self.left[switch][b] -= units
        if a != b:
            self.left[a][b] = self.left[a].get(b, 0) + units
        self.supply.move(a, switch, b, units)


def split_off(
    links: Capacities, ranks: int, roots: Sequence[int], each: int
) -> tuple[Capacities, Ways]:
    """Links between ranks over which every root still reaches all of them with ``each`` units, and
    the ways behind each link."""
    shrinking = _Shrinking(links, ranks, roots, each)
    for switch in range(ranks, len(links)):
        shrinking.take_out(switch)
    return shrinking.left, shrinking.ways


def _taken(ways: list[Way], units: int) -> list[Way]:
    """Take units from the end of what a link has."""
    taken = []
    while units:
        way = ways.pop()
        part = min(units, way.units)
        taken.append(way._replace(units=part))
        if part < way.units:
            ways.append(way._replace(units=way.units - part))
        units -= part
    return taken


def _in_line(first: list[Way], then: list[Way]) -> Iterable[Way]:
    """The ways of one link, each followed by one of another that has as many units."""
    while first:
        units = min(first[-1].units, then[-1].units)
        (before,) = _taken(first, units)
        (after,) = _taken(then, units)
        yield Way(before.nodes + after.nodes[1:], units)


def through(
    links: Sequence[tuple[int, int]], units: int, ways: Ways
) -> Iterable[tuple[int, Sequence[Way]]]:
    """Trees that are alike, taken apart by the ways that their links go: how many, and the way of each
    link."""
    while units:
        alike = min(units, *(ways[ends][-1].units for ends in links))
        taken: list[Way] = []
        for ends in links:
            taken += _taken(ways[ends], alike)
        yield alike, taken
        units -= alike


class SwitchCopies(dict[tuple[int, int], int]):
    """Numbers after the ranks for switches, another one for each time that a tree passes one."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def hops(self, ways: Iterable[Way]) -> tuple[tuple[int, int], ...]:
        """The hops of a tree, by the ways of its links."""
        passed = Counter[int]()
        hops: list[tuple[int, int]] = []
        for way in ways:
            first, *switches, last = way.nodes
            nodes = [first]
            for switch in switches:
                nodes.append(self.setdefault((switch, passed[switch]), self.ranks + len(self)))
                passed[switch] += 1
            hops += pairwise([*nodes, last])
        return tuple(hops)
