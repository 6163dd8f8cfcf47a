"""All-to-all over all links of a network at once: within a hundredth of the most bytes a second
that these can carry.

What a rank has for another is split over several ways, and ranks on a way forward it. On a graph a
way goes from link to link, through switches too; on a dragonfly from rank to rank, each time along
the network's own route. The split is a maximum concurrent flow of many commodities (MCF), by Frank
and Wolfe's method in pairs: again and again, of each rank's bytes, some move from the ways that
cost most to those that cost least, while busy links cost most. At the same prices no split costs
less than the cheapest ways do, so how far it is from the best is known.

A linear programme has the same optimum at a corner, with other ways: recorded prices are of these.

Sources: Basu et al., arXiv 2309.13541; Shahrokhi and Matula, "The maximum concurrent flow problem",
1990; in pairs: Lacoste-Julien and Jaggi, arXiv 1511.05932.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from colltool.algorithms.program import (
    Program,
    schedule,
)
from colltool.algorithms.registry import MCF, algorithm
from colltool.base.primitives import A2A, Links, Primitive, Terms
from colltool.extras.synthesis.forest import (
    MOST_SWITCHES,
    Forest,
    Tree,
    chunk_sizes,
    down,
    fill_of,
    rates_of,
)
from colltool.network.arrays import Floats, Indices, np
from colltool.network.dragonfly import minimal_path_loads
from colltool.network.group import Group, Topology, all_ports
from colltool.network.wires import DragonflyWires, GraphWires

MOST_RANKS = 24  # beyond it the search takes seconds
ON_WIRES: frozenset[Topology] = frozenset({"graph", "dragonfly"})
_CLOSE = 0.004  # a gap to the best that ends the search
_MOST_ROUNDS = 250
# How fast the price of a link falls as it is less busy than the busiest: at first, and at most.
_SHARP = 20.0
_SHARPEST = 3000.0
# Price of a link that carries nothing, the busiest being 1: no way is longer than it has to be.
_IDLE = 1e-3
_CRUMB = 1e-9


class _Net(NamedTuple):
    """Arcs between nodes, the ``ranks`` first: from where to where, shape (arcs, 2), and what a
    byte along each takes of every link, in seconds, shape (arcs, links)."""

    ranks: int
    nodes: int
    ends: Indices
    takes: Floats


Taken = dict[tuple[int, int], dict[Hashable, float]]  # arc -> link -> seconds a byte


def _arcs(wires: GraphWires | DragonflyWires) -> Taken:
    """Links of a graph; on a dragonfly a route between every two ranks, and what it takes of ports,
    local and global links."""
    if isinstance(wires, GraphWires):
        return {ends: {ends: 1 / Bps} for ends, Bps in rates_of(wires).items()}
    return {
        (a, b): minimal_path_loads(wires, a, b) for a, b in permutations(range(wires.endpoints), 2)
    }


def _net(wires: GraphWires | DragonflyWires, arcs: Taken) -> _Net:
    column: dict[Hashable, int] = {}
    for taken in arcs.values():
        for link in taken:
            column.setdefault(link, len(column))
    takes = np.zeros((len(arcs), len(column)))
    for row, taken in enumerate(arcs.values()):
        for link, seconds in taken.items():
            takes[row, column[link]] = seconds
    nodes = wires.nodes if isinstance(wires, GraphWires) else wires.endpoints
    return _Net(wires.endpoints, nodes, np.array(list(arcs)), takes)


def _cheapest(net: _Net, price: Floats) -> Indices:
    """The arc at each node towards each other one on the way that costs least (Floyd and Warshall),
    shape (nodes, nodes); ``price`` is that of a second of each link."""
    start, end = net.ends.T
    cost = np.full((net.nodes, net.nodes), np.inf)
    first = np.full((net.nodes, net.nodes), -1)
    cost[start, end] = net.takes @ price
    first[start, end] = np.arange(len(net.ends))
    np.fill_diagonal(cost, 0.0)
    for by in range(net.nodes):
        round_it = cost[:, by, None] + cost[by]
        less = round_it < cost * (1 - 1e-12)
        cost = np.where(less, round_it, cost)
        first = np.where(less, first[:, by, None], first)
    return first


def _busy(net: _Net, first: Indices) -> Floats:
    """Seconds of each link while each rank has a byte for every other, shape (N, links)."""
    passed = np.zeros((net.ranks, len(net.ends)))
    start, to = np.nonzero(~np.eye(net.ranks, dtype=bool))
    here = start
    while len(here):
        arc = first[here, to]
        np.add.at(passed, (start, arc), 1.0)
        here = net.ends[arc, 1]
        going = here != to
        start = start[going]
        here = here[going]
        to = to[going]
    busy: Floats = passed @ net.takes
    return busy


class _Portion(NamedTuple):
    """A share of what a rank has for all others: the arcs it goes by, and seconds of each link for
    all of it."""

    share: float
    first: Indices
    busy: Floats


def _split(net: _Net) -> list[list[_Portion]]:
    """The portions of each rank."""
    first = _cheapest(net, np.ones(net.takes.shape[1]))
    minimal_path_loads = _busy(net, first)
    split = [[_Portion(1.0, first, busy)] for busy in minimal_path_loads]
    total: Floats = minimal_path_loads.sum(axis=0)
    bound = 0.0
    sharp = _SHARP
    for _ in range(_MOST_ROUNDS):
        price = _prices(total, sharp)
        first = _cheapest(net, price)
        others = _busy(net, first)
        # At these prices no split costs less: the busiest link is at least so busy in any.
        least = float(price @ others.sum(axis=0))
        bound = max(bound, least / float(price.sum()))
        if total.max() <= bound * (1 + _CLOSE):
            break
        for portions, busy in zip(split, others, strict=True):
            total = _moved(portions, _Portion(0.0, first, busy), total, sharp)
        if 1 - least / float(price @ total) < 2 / sharp:
            sharp = min(1.3 * sharp, _SHARPEST)
    return split


def _prices(total: Floats, sharp: float) -> Floats:
    prices: Floats = np.exp(sharp * (total / total.max() - 1)) + _IDLE
    return prices


def _moved(portions: list[_Portion], new: _Portion, total: Floats, sharp: float) -> Floats:
    """Move some of a rank's dearest portion to its cheapest, old or new; what all ranks load
    together then."""
    price = _prices(total, sharp)
    costs = [float(price @ portion.busy) for portion in portions]
    dearest = int(np.argmax(costs))
    cheapest = int(np.argmin(costs))
    if float(price @ new.busy) < costs[cheapest]:
        cheapest = len(portions)
        portions.append(new)
    if cheapest == dearest:
        return total
    worst = portions[dearest]
    best = portions[cheapest]
    # Of 30 steps, and none, the one after which the busiest links are least busy: the least soft
    # maximum, its largest power taken out so that none overflows.
    moves = np.append(0.0, np.geomspace(1e-4, 1, 30)) * worst.share
    tried: Floats = total + moves[:, None] * (best.busy - worst.busy)
    powers = sharp * (tried / total.max() - 1)
    most = powers.max(axis=1)
    at = int((most + np.log(np.exp(powers - most[:, None]).sum(axis=1))).argmin())
    move = float(moves[at])
    portions[cheapest] = best._replace(share=best.share + move)
    portions[dearest] = worst._replace(share=worst.share - move)
    portions[:] = [portion for portion in portions if portion.share > _CRUMB]
    after: Floats = tried[at]
    return after


def _ways(net: _Net, split: list[list[_Portion]]) -> tuple[Tree, ...]:
    """Every way with its share of what one rank has for another."""
    found: dict[tuple[tuple[int, int], ...], float] = defaultdict(float)
    for start, portions in enumerate(split):
        whole = sum(portion.share for portion in portions)
        for portion in portions:
            for end in range(net.ranks):
                if end != start:
                    found[_way(net, portion.first, start, end)] += portion.share / whole
    return tuple(Tree(way[0][0], share, way) for way, share in found.items())


def _way(net: _Net, first: Indices, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The arcs from one rank to another."""
    here = start
    way = []
    while here != end:
        a, b = net.ends[first[here, end]].tolist()
        way.append((a, b))
        here = b
    return tuple(way)


@lru_cache(maxsize=32)
def flows_of(wires: GraphWires | DragonflyWires) -> Forest:
    """Ways from each rank to each other; ``rate``: bytes/s from one to each other rank, all at
    once."""
    arcs = _arcs(wires)
    net = _net(wires, arcs)
    ways = _ways(net, _split(net))
    load: dict[Hashable, float] = defaultdict(float)
    for way in ways:
        for arc in way.links:
            for link, seconds in arcs[arc].items():
                load[link] += float(way.share) * seconds
    return Forest(1 / max(load.values()), ways, fill_of(ways, arcs))


def few_ranks(group: Group) -> str | None:
    """Consecutive ranks, few enough to split traffic over ways that the network lets them take."""
    wires = group.wires
    if wires is None or wires.endpoints != group.ranks:
        return "needs consecutive ranks"
    if group.ranks > MOST_RANKS:
        return f"traffic is split for {MOST_RANKS} ranks at most"
    if isinstance(wires, GraphWires) and wires.nodes - wires.endpoints > MOST_SWITCHES:
        return f"traffic is split over {MOST_SWITCHES} switches at most"
    if isinstance(wires, DragonflyWires) and wires.routing != "minimal":
        return (
            f"needs minimal routing: what {wires.routing} routes load is no sum of what each loads"
            " alone"
        )
    return None


def flows_on(group: Group) -> Forest:
    assert isinstance(group.wires, GraphWires | DragonflyWires)  # few_ranks requires it
    return flows_of(group.wires)


@algorithm(
    "mcf",
    A2A,
    on=ON_WIRES,
    requires=(few_ranks, all_ports),
    source=MCF,
    note="libraries send by the shortest ways alone",
    equation=(
        "t = L α + M / (N R), R the bytes/s that every rank can send to each other at once, ranks"
        " forwarding"
    ),
)
def mcf(group: Group) -> Terms:
    """What ranks have for each other over several ways at once, messages of the longest L.

    >>> from colltool.extras.synthesis.forest import ring_wires
    >>> mcf(Group(3, "graph", wires=ring_wires(3)))[:2]
    (1, 0.3333333333333333)
    """
    found = flows_on(group)
    sends = () if isinstance(group.wires, GraphWires) else _sends(found, group.ranks)
    return Terms(found.depth, 1 / (group.ranks * found.rate), Links(sends), fill=found.fill)


def _sends(found: Forest, ranks: int) -> tuple[tuple[int, int, float], ...]:
    """Bytes between each two ranks that are ends of some hop, in units of M."""
    total: dict[tuple[int, int], float] = defaultdict(float)
    for way in found.trees:
        for hop in way.links:
            total[hop] += float(way.share) / ranks
    return tuple((a, b, size) for (a, b), size in total.items())


@schedule("mcf", A2A)
def _mcf(primitive: Primitive, group: Group, segments: int) -> Program:
    """Segment after segment along every way at once."""
    found = flows_on(group)
    nodes = group.wires.nodes if isinstance(group.wires, GraphWires) else group.ranks
    return Program(
        primitive,
        group.ranks,
        nodes,
        chunk_sizes(found, group.ranks, segments),
        home=np.repeat([way.links[0][0] for way in found.trees], segments),
        target=np.repeat([way.links[-1][-1] for way in found.trees], segments),
        batches=down(found, segments),
        node_places=np.arange(nodes) if nodes > group.ranks else None,
    )
