"""Splits an all-to-all over all links of a network at once, within 1% of the most bytes/s that they can
carry: :func:`flows_of`.

What a rank has for another is split over several ways, and ranks on a way forward it. On a graph a
way goes from link to link, through switches too; on a dragonfly from rank to rank, each time along
the network's own route. The split is a maximum concurrent multicommodity flow (MCF), found by the
pairwise Frank-Wolfe method (:func:`_split`): links have prices, which rise with their load, and in
each round some bytes of every rank move from its dearest ways to the cheapest ones. The cheapest ways
at given prices also bound the optimum from below, which ends the search.

A linear programme has the same optimum with other ways; recorded prices are those of this method.

An arc is where a way may go next: a link of a graph, a route of a dragonfly, which uses several links. Loads
are seconds of a link for one byte from each rank to each other.

Sources: Basu et al., arXiv 2309.13541; Shahrokhi and Matula, "The maximum concurrent flow problem",
1990; in pairs: Lacoste-Julien and Jaggi, arXiv 1511.05932.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from colltool.extras.synthesis.packing import Forest, Tree, fill_of, rates_of
from colltool.network.arrays import Floats, Indices, np
from colltool.network.dragonfly import minimal_path_loads
from colltool.network.wires import DragonflyWires, GraphWires

_GAP = 0.004  # relative distance to the lower bound that ends the search
_MOST_ROUNDS = 250  # ends the search otherwise
# How fast the price of a link falls with its load relative to the busiest link's, exponentially: at
# first, and at most.
_FIRST_SHARPNESS = 20.0
_LAST_SHARPNESS = 3000.0
# Price of an idle link, where the busiest has 1: above 0, so that ways are not longer than needed.
_IDLE_PRICE = 1e-3
_LEAST_SHARE = 1e-9  # smaller portions are dropped


class _Net(NamedTuple):
    """A network as arrays. Arcs are numbered as :func:`_arcs` lists them, links as they come up
    there.

    Args:
        ranks: how many; they are the first nodes.
        nodes: how many, switches too.
        ends: from which node to which each arc leads, shape (arcs, 2).
        link_s: seconds that a byte along an arc takes of every link, shape (arcs, links).
    """

    ranks: int
    nodes: int
    ends: Indices
    link_s: Floats


ArcUse = dict[tuple[int, int], dict[Hashable, float]]  # arc -> link -> seconds a byte


def _arcs(wires: GraphWires | DragonflyWires) -> ArcUse:
    """The arcs of a network, with seconds per byte of every link that they use.

    These are the links of a graph, or the routes between all ranks of a dragonfly, which use ports,
    local and global links.
    """
    if isinstance(wires, GraphWires):
        return {ends: {ends: 1 / Bps} for ends, Bps in rates_of(wires).items()}
    return {
        (a, b): minimal_path_loads(wires, a, b) for a, b in permutations(range(wires.endpoints), 2)
    }


def _net(wires: GraphWires | DragonflyWires, arcs: ArcUse) -> _Net:
    """The arrays of a network with these arcs."""
    column: dict[Hashable, int] = {}
    for use in arcs.values():
        for link in use:
            column.setdefault(link, len(column))
    link_s = np.zeros((len(arcs), len(column)))
    for row, use in enumerate(arcs.values()):
        for link, seconds in use.items():
            link_s[row, column[link]] = seconds
    nodes = wires.nodes if isinstance(wires, GraphWires) else wires.endpoints
    return _Net(wires.endpoints, nodes, np.array(list(arcs)), link_s)


def _cheapest(net: _Net, price: Floats) -> Indices:
    """The first arc of the cheapest way from each node to each other (Floyd-Warshall), shape
    (nodes, nodes); -1 from a node to itself.

    In a ring of four whose arc 0 leads from 0 to 1, arc 7 from 0 to 3, all of one price, row 0 is
    ``-1, 0, 0, 7``: the way to 2 begins with arc 0 too.

    Args:
        price: price of a second of each link, shape (links,).
    """
    start, end = net.ends.T
    cost = np.full((net.nodes, net.nodes), np.inf)
    first_arcs = np.full((net.nodes, net.nodes), -1)
    cost[start, end] = net.link_s @ price
    first_arcs[start, end] = np.arange(len(net.ends))
    np.fill_diagonal(cost, 0.0)
    for via in range(net.nodes):
        detour = cost[:, via, None] + cost[via]
        is_cheaper = detour < cost * (1 - 1e-12)
        cost = np.where(is_cheaper, detour, cost)
        first_arcs = np.where(is_cheaper, first_arcs[:, via, None], first_arcs)
    return first_arcs


def _busy_s(net: _Net, first_arcs: Indices) -> Floats:
    """Seconds of each link for a byte from a rank to every other one, shape (ranks, links).

    Rank 0 of that ring, with links of 1 byte/s: 2 s on link 0, which carries the bytes for 1 and 2,
    1 s on the link from 1 to 2, 1 s on link 7.

    Args:
        first_arcs: the first arc of the way from each node to each other.
    """
    passed = np.zeros((net.ranks, len(net.ends)))
    start, to = np.nonzero(~np.eye(net.ranks, dtype=bool))
    node = start
    while len(node):
        arc = first_arcs[node, to]
        np.add.at(passed, (start, arc), 1.0)
        node = net.ends[arc, 1]
        under_way = node != to
        start = start[under_way]
        node = node[under_way]
        to = to[under_way]
    busy_s: Floats = passed @ net.link_s
    return busy_s


class _Portion(NamedTuple):
    """A share of what a rank has for all others, which takes the same ways.

    Args:
        first_arcs: the first arc of the way from each node to each other.
        busy_s: seconds of each link for a byte to every rank, shape (links,).
    """

    share: float
    first_arcs: Indices
    busy_s: Floats


def _split(net: _Net) -> list[list[_Portion]]:
    """Search for the best split; return the portions of each rank, whose shares add up to about 1."""
    # at first all that a rank has takes the ways that keep links busy least, one for each rank
    first_arcs = _cheapest(net, np.ones(net.link_s.shape[1]))
    straight = _busy_s(net, first_arcs)
    split = [[_Portion(1.0, first_arcs, busy_s)] for busy_s in straight]
    load_s: Floats = straight.sum(axis=0)  # of each link, shape (links,)
    bound = 0.0  # seconds of the busiest link that no split goes below
    sharpness = _FIRST_SHARPNESS
    for _ in range(_MOST_ROUNDS):
        price = _prices(load_s, sharpness)
        first_arcs = _cheapest(net, price)
        others = _busy_s(net, first_arcs)
        # The lower bound: at these prices no split costs less than the cheapest ways, and the busiest
        # link takes at least the average over links, weighted by price.
        least_cost = float(price @ others.sum(axis=0))
        bound = max(bound, least_cost / float(price.sum()))
        if load_s.max() <= bound * (1 + _GAP):
            break
        for portions, busy_s in zip(split, others, strict=True):
            load_s = _move_portion(portions, _Portion(0.0, first_arcs, busy_s), load_s, sharpness)
        # The cost at these prices is near the least, within what a change of sharpness makes: go on with
        # sharper ones, which fall off faster from the busiest link.
        if 1 - least_cost / float(price @ load_s) < 2 / sharpness:
            sharpness = min(1.3 * sharpness, _LAST_SHARPNESS)
    return split


def _prices(load_s: Floats, sharpness: float) -> Floats:
    """The price of each link by its load; about 1 for the busiest. Both have the shape (links,)."""
    prices: Floats = np.exp(sharpness * (load_s / load_s.max() - 1)) + _IDLE_PRICE
    return prices


def _move_portion(
    portions: list[_Portion], new: _Portion, load_s: Floats, sharpness: float
) -> Floats:
    """Move some of a rank's dearest portion to its cheapest, one of the old ones or ``new``.

    Returns:
        Seconds of each link for all ranks after the move.
    """
    price = _prices(load_s, sharpness)
    costs = [float(price @ portion.busy_s) for portion in portions]
    dearest = int(np.argmax(costs))
    cheapest = int(np.argmin(costs))
    if float(price @ new.busy_s) < costs[cheapest]:
        cheapest = len(portions)
        portions.append(new)
    if cheapest == dearest:
        return load_s
    worst = portions[dearest]
    best = portions[cheapest]
    # Of 31 sizes of the step, 0 among them, take the one with the least soft maximum (log-sum-exp) of
    # the links' loads; the largest power is taken out so that none overflows.
    moves = np.append(0.0, np.geomspace(1e-4, 1, 30)) * worst.share
    tried: Floats = load_s + moves[:, None] * (best.busy_s - worst.busy_s)  # shape (moves, links)
    powers = sharpness * (tried / load_s.max() - 1)
    largest = powers.max(axis=1)
    soft_maxima = largest + np.log(np.exp(powers - largest[:, None]).sum(axis=1))
    chosen = int(soft_maxima.argmin())
    move = float(moves[chosen])
    portions[cheapest] = best._replace(share=best.share + move)
    portions[dearest] = worst._replace(share=worst.share - move)
    portions[:] = [portion for portion in portions if portion.share > _LEAST_SHARE]
    after_s: Floats = tried[chosen]
    return after_s


def _ways(net: _Net, split: list[list[_Portion]]) -> tuple[Tree, ...]:
    """Every way from a rank to another, with the share of that pair's bytes that takes it."""
    shares: dict[tuple[tuple[int, int], ...], float] = defaultdict(float)  # by the links of a way
    for start, portions in enumerate(split):
        # not quite 1: portions too small were dropped
        all_shares = sum(portion.share for portion in portions)
        for portion in portions:
            for end in range(net.ranks):
                if end != start:
                    way = _way(net, portion.first_arcs, start, end)
                    shares[way] += portion.share / all_shares
    return tuple(Tree(way[0][0], share, way) for way, share in shares.items())


def _way(net: _Net, first_arcs: Indices, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The arcs from one rank to another."""
    node = start
    way = []
    while node != end:
        a, b = net.ends[first_arcs[node, end]].tolist()
        way.append((a, b))
        node = b
    return tuple(way)


@lru_cache(maxsize=32)
def flows_of(wires: GraphWires | DragonflyWires) -> Forest:
    """Return the ways from each rank to each other as trees without branches; the ``rate`` is the bytes/s of
    each pair of ranks, all at once."""
    arcs = _arcs(wires)
    net = _net(wires, arcs)
    ways = _ways(net, _split(net))
    # seconds of each link for a byte from each rank to each other
    load_s: dict[Hashable, float] = defaultdict(float)
    for way in ways:
        for arc in way.links:
            for link, seconds in arcs[arc].items():
                load_s[link] += float(way.share) * seconds
    return Forest(1 / max(load_s.values()), ways, fill_of(ways, arcs))
