"""A rank's partners: how many it has, and messages to all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, assert_never

from colltool.algorithms.registry import Caveat
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Links,
    Pair,
    Partner,
    Peers,
    Ring,
    Rounds,
    Schedule,
    Servers,
    ShardExchange,
    Switch,
    Terms,
    Trees,
)
from colltool.network.arrays import Indices, np
from colltool.network.group import Group
from colltool.network.wires import GraphWires


def most_partners(phases: Schedule, group: Group) -> int:
    """The most partners that any rank has, over all steps; a switch counts as one.

    >>> from colltool.algorithms.all_reduce import double_binary_tree, rabenseifner
    >>> star = Group(64, "star")
    >>> most_partners((double_binary_tree(star),), star), most_partners(rabenseifner(star), star)
    (4, 6)
    """
    for terms in phases:
        route = terms.route
        if isinstance(route, Peers | AllPeers) or route in (Ring("links"), Chain("links")):
            # Everybody: of a million ranks there is no need to list them.
            return group.ranks - 1
    n = group.ranks
    partners: set[int] = set()  # as distances round the group
    for terms in phases:
        match terms.route:
            case Ring() | Chain():
                partners |= {1, n - 1}
            case Peers() | AllPeers() | ShardExchange():
                partners |= {*range(1, n)}
            case Trees(rails=True):  # two in a chain, and where it begins those of other domains
                partners |= {1, n - 1, *range(2, 2 + min(4, len(group.domains) - 1))}
            case Trees():  # a parent and two children in one tree, a parent in the other
                partners |= {*range(1, min(5, n))}
            case Rounds(partner, steps, folded):  # pairs that are folded are twice as far apart
                for stride, _ in steps:
                    ahead = 2 * stride if folded else stride
                    match partner:
                        case "xor" | "fanout":
                            partners.add(ahead)
                        case "shift":
                            partners |= {ahead, n - ahead}
                        case _:
                            assert_never(partner)
            case Servers():
                partners |= {*range(1, group.servers + 1)}
            case Pair() | Switch():
                partners.add(1)
            case Links(sends):
                partners |= {*range(_most_partners_in(sends) if sends else _neighbours(group))}
            case _:
                assert_never(terms.route)
    return len(partners)


def pairs_of_round(partner: Partner, stride: int, ranks: int) -> tuple[Indices, Indices]:
    """Who sends to whom in a round (:class:`colltool.base.primitives.Rounds`).

    >>> [ends.tolist() for ends in pairs_of_round("fanout", 1, 5)]
    [[0, 2], [1, 3]]
    """
    rank = np.arange(ranks)
    match partner:
        case "xor":
            return rank, rank ^ stride
        case "shift":
            return rank, (rank + stride) % ranks
        case "fanout":
            src = rank[(rank % (2 * stride) == 0) & (rank + stride < ranks)]
            return src, src + stride
        case _:
            assert_never(partner)


def _most_partners_in(sends: Sequence[tuple[int, int, float]]) -> int:
    """The most other ranks that a rank sends to or hears from."""
    pairs = {frozenset((a, b)) for a, b, _ in sends}
    return max(Counter(chain.from_iterable(pairs)).values())


def _neighbours(group: Group) -> int:
    """The most other ranks and switches that a rank has links to; 0 where ranks have ports."""
    if group.axes:
        return sum(2 if axis.closed else min(axis.size - 1, 2) for axis in group.axes)
    wires = group.wires
    if wires is not None and not isinstance(wires, GraphWires):
        wires = wires.between_ranks
    if wires is None:
        return 0
    return max(len(ends) for node, ends in wires.beside.items() if node < wires.endpoints)


def to_all(group: Group, each: float, **more: Any) -> Terms:
    """``each``·M to all peers; on a full mesh over all links at once, so that one carries a single
    message.

    >>> to_all(Group(4, "star"), 0.25)[:2], to_all(Group(4, "full_mesh"), 0.25)[:2]
    ((1, 0.75), (1, 0.25))
    >>> to_all(Group(4, "full_mesh", one_port=True), 0.25)[:2]
    (3, 0.75)
    """
    peers = group.ranks - 1
    if group.one_port:
        return Terms(peers, peers * each, Peers(), **more)
    sent = each if group.dedicated else peers * each
    return Terms(1, sent, AllPeers(each), **more)


def many_sends(group: Group) -> Caveat | None:
    """The caveat where all messages leave at once and the fabric does not say what that takes."""
    if group.one_port or group.posts_cost:
        return None
    return Caveat("shipped", "assumes that a rank posts N-1 messages for one alpha")
