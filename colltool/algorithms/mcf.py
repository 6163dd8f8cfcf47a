"""All-to-all over all links of a graph at once: within a hundredth of the most bytes a second that its links can carry.

What a rank has for another is split over several ways, and ranks on a way forward it. The split is a maximum concurrent flow of
many commodities (MCF), by Frank and Wolfe's method in pairs: again and again, of each rank's bytes, some move from the ways that
cost most to those that cost least, while busy links cost most. At the same prices no split costs less than the cheapest ways do,
so how far it is from the best is known.

Sources: Basu et al., arXiv 2309.13541; Shahrokhi and Matula, "The maximum concurrent flow problem", 1990; in pairs:
Lacoste-Julien and Jaggi, arXiv 1511.05932.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from colltool.algorithms.forest import Forest, Tree, fill_of, joined_by_links, rates_of, ring_wires, wires_between  # noqa: F401  (ring_wires: of the example)
from colltool.algorithms.group import Group, Topology, all_ports
from colltool.algorithms.registry import MCF, algorithm
from colltool.algorithms.wires import GraphWires
from colltool.base.primitives import A2A, Links, Terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

MOST_RANKS = 24  # beyond it the search takes seconds
ON_GRAPHS: frozenset[Topology] = frozenset({"graph"})
_CLOSE = 0.004  # a gap to the best that ends the search
_MOST_ROUNDS = 250
_SHARP, _SHARPEST = 20.0, 3000.0  # how fast the price of a link falls as it is less busy than the busiest
_IDLE = 1e-3  # price of a link that carries nothing, the busiest being 1: no way is longer than it has to be
_CRUMB = 1e-9


class _Net(NamedTuple):
    """Links between ``ranks``: from where to where, shape (links, 2), and bytes/s of each."""

    ranks: int
    ends: Indices
    Bps: Floats


def _net(wires: GraphWires) -> _Net:
    import numpy as np  # which prices on other networks do without

    rates = rates_of(wires)
    return _Net(wires.endpoints, np.array(list(rates)), np.array(list(rates.values())))


def _cheapest(net: _Net, price: Floats) -> Indices:
    """At each rank the link towards each other one on the way that costs least (Floyd and Warshall), shape (N, N)."""
    import numpy as np

    cost, first = np.full((net.ranks, net.ranks), np.inf), np.full((net.ranks, net.ranks), -1)
    cost[net.ends[:, 0], net.ends[:, 1]], first[net.ends[:, 0], net.ends[:, 1]] = price, np.arange(len(price))
    np.fill_diagonal(cost, 0.0)
    for by in range(net.ranks):
        round_it = cost[:, by, None] + cost[by]
        less = round_it < cost * (1 - 1e-12)
        cost, first = np.where(less, round_it, cost), np.where(less, first[:, by, None], first)
    return first


def _busy(net: _Net, first: Indices) -> Floats:
    """Seconds of each link while each rank has a byte for every other, shape (N, links)."""
    import numpy as np

    load = np.zeros((net.ranks, len(net.Bps)))
    start, to = np.nonzero(~np.eye(net.ranks, dtype=bool))
    here = start
    while len(here):
        link = first[here, to]
        np.add.at(load, (start, link), 1.0)
        here = net.ends[link, 1]
        on = here != to
        start, here, to = start[on], here[on], to[on]
    return load / net.Bps


class _Portion(NamedTuple):
    """A share of what a rank has for all others: the links it goes by, and seconds of each link for all of it."""

    share: float
    first: Indices
    busy: Floats


def _split(net: _Net) -> list[list[_Portion]]:
    """Of each rank."""
    first = _cheapest(net, 1 / net.Bps)
    alone = _busy(net, first)
    split = [[_Portion(1.0, first, busy)] for busy in alone]
    total: Floats = alone.sum(axis=0)
    bound, sharp = 0.0, _SHARP
    for _ in range(_MOST_ROUNDS):
        price = _prices(total, sharp)
        first = _cheapest(net, price / net.Bps)
        others = _busy(net, first)
        least = float(price @ others.sum(axis=0))
        bound = max(bound, least / float(price.sum()))
        if total.max() <= bound * (1 + _CLOSE):
            break
        for parts, busy in zip(split, others, strict=True):
            total = _moved(parts, _Portion(0.0, first, busy), total, sharp)
        if 1 - least / float(price @ total) < 2 / sharp:
            sharp = min(1.3 * sharp, _SHARPEST)
    return split


def _prices(total: Floats, sharp: float) -> Floats:
    import numpy as np

    prices: Floats = np.exp(sharp * (total / total.max() - 1)) + _IDLE
    return prices


def _moved(parts: list[_Portion], new: _Portion, total: Floats, sharp: float) -> Floats:
    """What all ranks load together after one has moved some of its dearest part to its cheapest, old or new."""
    import numpy as np

    price = _prices(total, sharp)
    costs = [float(price @ one.busy) for one in parts]
    worst, best = parts[int(np.argmax(costs))], parts[int(np.argmin(costs))]
    if float(price @ new.busy) < min(costs):
        parts.append(new)
        best = new
    if best is worst:
        return total
    moves = np.append(0.0, np.geomspace(1e-4, 1, 30)) * worst.share
    tried: Floats = total + moves[:, None] * (best.busy - worst.busy)
    powers = sharp * (tried / total.max() - 1)
    most = powers.max(axis=1)
    at = int((most + np.log(np.exp(powers - most[:, None]).sum(axis=1))).argmin())
    gain = {id(best): float(moves[at]), id(worst): -float(moves[at])}
    parts[:] = [one._replace(share=one.share + gain.get(id(one), 0.0)) for one in parts]
    parts[:] = [one for one in parts if one.share > _CRUMB]
    after: Floats = tried[at]
    return after


def _ways(net: _Net, split: list[list[_Portion]]) -> tuple[Tree, ...]:
    """Every way with its share of what one rank has for another."""
    found: dict[tuple[tuple[int, int], ...], float] = defaultdict(float)
    for start, parts in enumerate(split):
        whole = sum(part.share for part in parts)
        for part in parts:
            for end in range(net.ranks):
                if end != start:
                    found[_way(net, part.first, start, end)] += part.share / whole
    return tuple(Tree(way[0][0], share, way) for way, share in found.items())


def _way(net: _Net, first: Indices, start: int, end: int) -> tuple[tuple[int, int], ...]:
    here, way = start, []
    while here != end:
        a, b = net.ends[first[here, end]].tolist()
        way.append((a, b))
        here = b
    return tuple(way)


@lru_cache(maxsize=32)
def flows_of(wires: GraphWires) -> Forest:
    """Ways from each rank to each other; ``rate``: bytes/s from one to each other rank, all at once."""
    net = _net(wires)
    ways = _ways(net, _split(net))
    load: dict[tuple[int, int], float] = defaultdict(float)
    Bps: dict[int, dict[int, float]] = defaultdict(dict)
    for (a, b), rate in zip(net.ends.tolist(), net.Bps.tolist(), strict=True):
        Bps[a][b] = rate
    for way in ways:
        for a, b in way.links:
            load[a, b] += float(way.share) / Bps[a][b]
    return Forest(1 / max(load.values()), ways, fill_of(ways, Bps))


def few_ranks(group: Group) -> str | None:
    """Links that join ranks, few enough of these to split traffic over."""
    return joined_by_links(group) or (f"traffic is split for {MOST_RANKS} ranks at most" if group.ranks > MOST_RANKS else None)


def flows_on(group: Group) -> Forest:
    wires = wires_between(group)
    assert wires is not None  # few_ranks let nobody else in
    return flows_of(wires)


@algorithm(
    "mcf",
    A2A,
    on=ON_GRAPHS,
    requires=(few_ranks, all_ports),
    source=MCF,
    note="libraries send by the shortest ways alone",
    equation="t = L α + M / (N R), R the bytes/s that every rank can send to each other at once, ranks forwarding",
)
def mcf(group: Group) -> Terms:
    """What ranks have for each other over several ways at once, links of the longest L.

    >>> mcf(Group(3, "graph", wires=ring_wires(3)))[:2]
    (1, 0.3333333333333333)
    """
    found = flows_on(group)
    return Terms(found.depth, 1 / (group.ranks * found.rate), Links(), fill=found.fill)
