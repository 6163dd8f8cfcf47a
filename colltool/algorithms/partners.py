"""The other ranks that a rank exchanges messages with, its partners.

:func:`most_partners` counts them, which ``explain`` prints. :func:`to_all` is the cost of a message
to each of them in a single step, and :func:`posting_caveat` the caveat of algorithms that rely on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from typing import assert_never

from colltool.algorithms.registry import Caveat
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Links,
    Pair,
    Partner,
    Peers,
    Primitive,
    Ring,
    Rounds,
    Route,
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

# In the double binary tree a rank has a parent and two children in one tree, where it is an
# interior node, and a parent in the other, where it is a leaf.
_TREE_PARTNERS = 4


def most_partners(phases: Schedule, group: Group) -> int:
    """The most partners that any rank has, over all phases; a switch counts as one.

    >>> from colltool.algorithms.all_reduce import double_binary_tree, rabenseifner
    >>> star = Group(64, "star")
    >>> most_partners((double_binary_tree(star),), star), most_partners(rabenseifner(star), star)
    (4, 6)
    """
    partners: set[int] = set()
    for terms in phases:
        in_phase = _partners(terms.route, group)
        if len(in_phase) == group.ranks - 1:
            # Every other rank: a group may have a million, which need not be listed.
            return group.ranks - 1
        partners.update(in_phase)
    return len(partners)


def _partners(route: Route, group: Group) -> Collection[int]:
    """The partners of the rank that has most of them, as distances modulo N from that rank.

    Partners in trees, servers and along links have no such distance: as many numbers from 0 or 1 on
    stand for them, which is enough to count them.
    """
    n = group.ranks
    match route:
        case Peers() | AllPeers() | ShardExchange() | Ring("links") | Chain("links"):
            return range(1, n)
        case Ring() | Chain():
            return {1, n - 1}  # the next and the one before
        case Trees(rails=True):
            # Neighbours in a chain; where the chain begins also partners in other domains.
            in_other_domains = min(_TREE_PARTNERS, len(group.domains) - 1)
            return {1, n - 1, *range(2, 2 + in_other_domains)}
        case Trees():
            return range(1, min(1 + _TREE_PARTNERS, n))
        case Rounds():
            return _round_partners(route, n)
        case Servers():
            return range(1, group.servers + 1)
        case Pair() | Switch():
            return {1}
        case Links(sends):
            return range(_most_partners_in(sends) if sends else _most_neighbours(group))
        case _:
            assert_never(route)


def _round_partners(rounds: Rounds, ranks: int) -> set[int]:
    """The distances to a rank's partners over all rounds."""
    distances: set[int] = set()
    for stride, _ in rounds.steps:
        # Two folded ranks act as one: the next that acts is twice as far.
        distance = 2 * stride if rounds.folded else stride
        match rounds.partner:
            case "xor" | "fanout":
                distances.add(distance)
            case "shift":
                distances |= {distance, ranks - distance}
            case _:
                assert_never(rounds.partner)
    return distances


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
    """The most other ranks that any rank sends to or receives from; ``sends`` are (sender,
    receiver, size)."""
    pairs = {frozenset((src, dst)) for src, dst, _ in sends}
    return max(Counter(chain.from_iterable(pairs)).values())


def _most_neighbours(group: Group) -> int:
    """The most ranks and switches that any rank has links to; 0 where ranks have ports instead."""
    if group.axes:
        return sum(2 if axis.closed else min(axis.size - 1, 2) for axis in group.axes)
    wires = group.wires
    if wires is not None and not isinstance(wires, GraphWires):
        wires = wires.between_ranks
    if wires is None:
        return 0
    return max(len(ends) for node, ends in wires.neighbours.items() if node < wires.endpoints)


def to_all(
    group: Group, per_peer: float, primitive: Primitive | None = None, label: str = ""
) -> Terms:
    """The cost of a message of ``per_peer``·M to each other rank, all of them in one step.

    On a full mesh each message has a link of its own. A rank that drives one port at a time sends
    them one after the other.

    >>> to_all(Group(4, "star"), 0.25)[:2], to_all(Group(4, "full_mesh"), 0.25)[:2]
    ((1, 0.75), (1, 0.25))
    >>> to_all(Group(4, "full_mesh", one_port=True), 0.25)[:2]
    (3, 0.75)
    """
    peers = group.ranks - 1
    if group.one_port:
        return Terms(peers, peers * per_peer, Peers(), primitive=primitive, label=label)
    busiest = per_peer if group.dedicated else peers * per_peer
    return Terms(1, busiest, AllPeers(per_peer), primitive=primitive, label=label)


def posting_caveat(group: Group) -> Caveat | None:
    """The caveat on fabrics that do not say what each further message of a step costs."""
    if group.one_port or group.posts_cost:
        return None
    return Caveat("shipped", "assumes that a rank posts N-1 messages for one alpha")
