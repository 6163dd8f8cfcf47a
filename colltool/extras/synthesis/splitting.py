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
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import NamedTuple

from colltool.network.max_flow import Capacities, max_flow

_SOURCE = -1


class Way(NamedTuple):
    """From rank to rank, switches between, for so many units."""

    nodes: tuple[int, ...]
    units: int


Ways = dict[tuple[int, int], list[Way]]


@dataclass
class _Shrinking:
    """Links that are ``left``, switches among them, and where each leads: at the end between the
    ``ranks`` alone."""

    left: Capacities
    ranks: int
    roots: Sequence[int]
    each: int  # units that a root sends to every rank
    ways: Ways = field(default_factory=lambda: defaultdict(list))

    def take_out(self, switch: int) -> None:
        """Join what enters a switch with what leaves it; back where it came from last of all, which
        is nowhere."""
        self._join_evenly(switch)
        while into := [node for node, row in self.left.items() if row.get(switch)]:
            out = [node for node, units in self.left[switch].items() if units]
            pairs = [(a, b) for a in into for b in out if a != b] + [
                (a, a) for a in into if a in out
            ]
            joined = [self._join(a, switch, b) for a, b in pairs]
            assert any(joined), "as much leaves a switch as enters it"
        del self.left[switch]
        for row in self.left.values():
            row.pop(switch, None)

    def _join_evenly(self, switch: int) -> None:
        """As much of every two as of any other, if that spoils nothing: trees stay flat."""
        beside = [
            node
            for node, units in self.left[switch].items()
            if units and self.left[node].get(switch)
        ]
        least = min(
            (self.left[a][b] for node in beside for a, b in ((node, switch), (switch, node))),
            default=0,
        )
        if units := least // max(1, len(beside) - 1):
            pairs = list(permutations(beside, 2))
            for a, b in pairs:
                self._move(a, switch, b, units)
            if self._lacking():
                for a, b in pairs:
                    self._move(a, switch, b, -units)
            else:
                for a, b in pairs:
                    self._lay(a, switch, b, units)

    def _join(self, a: int, switch: int, b: int) -> int:
        """How many units became a link from ``a`` to ``b``: every cut between ranks keeps what it
        has to carry."""
        units = min(self.left[a][switch], self.left[switch][b])
        if units:
            self._move(a, switch, b, units)
            spoilt = min(units, self._lacking())
            self._move(a, switch, b, -spoilt)
            units -= spoilt
            self._lay(a, switch, b, units)
        return units

    def _lay(self, a: int, switch: int, b: int, units: int) -> None:
        first, then = (_taken(self.ways[ends], units) for ends in ((a, switch), (switch, b)))
        if a != b:
            self.ways[a, b] += _in_line(first, then)

    def _move(self, a: int, switch: int, b: int, units: int) -> None:
        self.left[a][switch] -= units
        self.left[switch][b] -= units
        if a != b:
            self.left[a][b] = self.left[a].get(b, 0) + units

    def _lacking(self) -> int:
        """Units that some rank no longer gets."""
        owed = self.each * len(self.roots)
        network = {**self.left, _SOURCE: dict.fromkeys(self.roots, self.each)}
        return max(
            owed - min(owed, max_flow(network, _SOURCE, rank, enough=owed)[0])
            for rank in range(self.ranks)
        )


def split_off(
    links: Capacities, ranks: int, roots: Sequence[int], each: int
) -> tuple[Capacities, Ways]:
    """Links between ranks over which every root still reaches all of them with so many units, and
    the ways behind each link."""
    split = _Shrinking({node: dict(row) for node, row in links.items()}, ranks, roots, each)
    for a, row in links.items():
        for b, units in row.items():
            split.ways[a, b].append(Way((a, b), units))
    for switch in range(ranks, len(links)):
        split.take_out(switch)
    return split.left, split.ways


def _taken(ways: list[Way], units: int) -> list[Way]:
    """So many units of what a link has, taken from its end."""
    taken = []
    while units:
        way = ways.pop()
        some = min(units, way.units)
        taken.append(way._replace(units=some))
        if some < way.units:
            ways.append(way._replace(units=way.units - some))
        units -= some
    return taken


def _in_line(first: list[Way], then: list[Way]) -> Iterable[Way]:
    """Of as many units both: the ways of one, each followed by one of the other."""
    while first:
        units = min(first[-1].units, then[-1].units)
        (one,), (other,) = _taken(first, units), _taken(then, units)
        yield Way(one.nodes + other.nodes[1:], units)


def through(
    links: Sequence[tuple[int, int]], units: int, ways: Ways
) -> Iterable[tuple[int, Sequence[Way]]]:
    """So many trees alike, taken apart by the ways that each of their links goes: how many, and of
    each link its way."""
    while units:
        some = min(units, *(ways[ends][-1].units for ends in links))
        yield some, [_taken(ways[ends], some)[0] for ends in links]
        units -= some


class Standing(dict[tuple[int, int], int]):
    """Numbers after the ranks for switches, another one for each time that a tree passes one."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def hops(self, ways: Iterable[Way]) -> tuple[tuple[int, int], ...]:
        """The hops of a tree, by the ways of its links."""
        passed, found = Counter[int](), list[tuple[int, int]]()
        for way in ways:
            nodes = [way.nodes[0]]
            for switch in way.nodes[1:-1]:
                nodes.append(self.setdefault((switch, passed[switch]), self.ranks + len(self)))
                passed[switch] += 1
            found += pairwise([*nodes, way.nodes[-1]])
        return tuple(found)
