"""What follows from a route: partners per rank, messages to all peers, edges of double trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, assert_never

from colltool.algorithms.group import Group
from colltool.algorithms.registry import Caveat
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Links,
    Pair,
    Peers,
    Ring,
    Rounds,
    Route,
    Schedule,
    Servers,
    Switch,
    Terms,
    Trees,
)


def most_partners(schedule: Schedule, group: Group) -> int:
    """The most partners that any rank has, over all steps; a switch counts as one.

    >>> from colltool.algorithms.all_reduce import double_binary_tree, rabenseifner
    >>> star = Group(64, "star")
    >>> most_partners((double_binary_tree(star),), star), most_partners(rabenseifner(star), star)
    (4, 6)
    """
    if any(isinstance(terms.route, Peers | AllPeers) or terms.route in (Ring("links"), Chain("links")) for terms in schedule):
        return group.ranks - 1  # everybody: of a million ranks there is no need to list them
    return len(frozenset[int]().union(*(_distances(terms.route, group) for terms in schedule)))


def _distances(route: Route, group: Group) -> frozenset[int]:
    """Whom a rank sends to or takes from, as distances round the group."""
    n = group.ranks
    match route:
        case Ring() | Chain():
            return frozenset({1, n - 1})
        case Peers() | AllPeers():
            return frozenset(range(1, n))
        case Trees():  # a parent and two children in one tree, a parent in the other
            return frozenset(range(1, min(5, n)))
        case Rounds(partner, steps, folded):  # pairs that are folded stand twice as far apart
            ahead = frozenset(stride * (2 if folded else 1) for stride, _ in steps)
            return ahead | {n - stride for stride in ahead} if partner == "shift" else ahead
        case Servers():
            return frozenset(range(1, group.servers + 1))
        case Pair() | Switch():
            return frozenset({1})
        case Links():
            return frozenset(range(sum(min(axis.size - 1, 2) for axis in group.axes)))
        case _:
            assert_never(route)


def to_all(group: Group, each: float, **more: Any) -> Terms:
    """``each``·M to all peers; on a full mesh over all links at once, so that one carries a single message.

    >>> to_all(Group(4, "star"), 0.25)[:2], to_all(Group(4, "full_mesh"), 0.25)[:2]
    ((1, 0.75), (1, 0.25))
    >>> to_all(Group(4, "full_mesh", one_port=True), 0.25)[:2]
    (3, 0.75)
    """
    peers = group.ranks - 1
    if group.one_port:
        return Terms(peers, peers * each, Peers(), **more)
    return Terms(1, each if group.dedicated else peers * each, AllPeers(each), **more)


def many_sends(group: Group) -> Caveat | None:
    """The caveat where all messages leave at once and the fabric does not say what that takes."""
    return (
        None if group.one_port or group.posts_cost else Caveat("shipped", "assumes that a rank posts N-1 messages for one alpha")
    )


def _in_order_parent(rank: int, ranks: int) -> int:
    """The parent in a binary tree whose in-order walk is 0, 1, 2 ...; -1 for the root, which is rank 0.

    The lowest set bit b of a rank is its height. Its parent is at distance b, on the side where the next bit is clear, or on
    the other one when that side lies beyond the last rank.
    """
    if rank == 0:
        return -1
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    return up if up < ranks else rank ^ bit


def _moved(parents: tuple[int, ...], places: Sequence[int]) -> tuple[int, ...]:
    out = [-1] * len(parents)
    for rank, parent in enumerate(parents):
        out[places[rank]] = places[parent] if parent >= 0 else -1
    return tuple(out)


def _in_order(ranks: int) -> tuple[int, ...]:
    return tuple(_in_order_parent(rank, ranks) for rank in range(ranks))


@lru_cache(maxsize=64)
def double_tree(ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parents in two complementary trees: the second is the first mirrored (N even) or shifted (N odd)."""
    places = [ranks - 1 - rank if ranks % 2 == 0 else (rank + 1) % ranks for rank in range(ranks)]
    return _in_order(ranks), _moved(_in_order(ranks), places)


@lru_cache(maxsize=64)
def trees_under_one_root(ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parents with rank 0 at both roots, as one payload needs it: the others mirrored (N odd) or shifted (N even)."""
    places = [0, *(ranks - rank if ranks % 2 else rank % (ranks - 1) + 1 for rank in range(1, ranks))]
    return _in_order(ranks), _moved(_in_order(ranks), places)


@lru_cache(maxsize=256)
def edges_leaving(ranks: int, domain: int, *, both_ways: bool) -> int:
    """The most messages of half the payload that leave or enter any domain of consecutive ranks, over both trees.

    A broadcast sends each out of the parent's domain into the child's, a reduction the other way: the busier direction of the
    uplinks counts. With ``both_ways`` both run at once, and either end's domain sends one.
    """
    above, below = ([0] * -(-ranks // domain) for _ in range(2))
    for parents in double_tree(ranks) if both_ways else trees_under_one_root(ranks):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                above[parent // domain] += 1
                below[child // domain] += 1
    return max(map(sum, zip(above, below, strict=True))) if both_ways else max(*above, *below)
