"""With how many others a rank exchanges: the links, ports or queue pairs that a schedule needs open, from its routes."""

from __future__ import annotations

from functools import singledispatch

from colltool.algorithms.group import Group
from colltool.base.cost import AllPeers, Chain, Links, Pair, Peers, Ring, Rounds, Route, Schedule, Servers, Switch, Trees

Distances = frozenset[int]
"""To whom a rank sends or from whom it takes, as distances round the group."""


def most_partners(schedule: Schedule, group: Group) -> int:
    """The most that any rank has, over all steps; a switch counts as one.

    >>> from colltool.algorithms.all_reduce import double_binary_tree, rabenseifner
    >>> star = Group(64, "star")
    >>> most_partners((double_binary_tree(star),), star), most_partners(rabenseifner(star), star)
    (4, 6)
    """
    if any(isinstance(terms.route, Peers | AllPeers) or terms.route in (Ring("links"), Chain("links")) for terms in schedule):
        return group.ranks - 1  # everybody: of a million ranks there is no need to list them
    met: set[int] = set()
    for terms in schedule:
        met |= _met(terms.route, group)
    return len(met)


@singledispatch
def _met(route: Route, _group: Group) -> Distances:
    raise TypeError(f"no route {route!r}")


@_met.register(Ring)
@_met.register(Chain)
def _next_and_last(_route: Route, group: Group) -> Distances:
    """A chain of two has one neighbour, a longer one two."""
    return frozenset({1, group.ranks - 1})


@_met.register
def _trees(_route: Trees, group: Group) -> Distances:
    """A parent and two children in one tree, a parent in the other."""
    return frozenset(range(1, min(5, group.ranks)))


@_met.register
def _rounds(route: Rounds, group: Group) -> Distances:
    """``xor`` and ``fanout`` meet one rank at each stride, ``shift`` two; folded pairs stand twice as far apart."""
    ahead = frozenset(stride * (2 if route.folded else 1) for stride, _ in route.steps)
    return ahead | {group.ranks - stride for stride in ahead} if route.partner == "shift" else ahead


@_met.register
def _servers(_route: Servers, group: Group) -> Distances:
    """Every server, none of the other ranks."""
    return frozenset(range(1, group.servers + 1))


@_met.register(Pair)
@_met.register(Switch)
def _one(_route: Route, _group: Group) -> Distances:
    return frozenset({1})


@_met.register
def _links(_route: Links, group: Group) -> Distances:
    """The neighbours on a lattice."""
    return frozenset(range(sum(min(axis.size - 1, 2) for axis in group.axes)))
