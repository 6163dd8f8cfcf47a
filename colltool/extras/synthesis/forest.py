"""Trees packed over all links of a graph or lattice at once, at the highest rate that any all-gather
or broadcast can reach there.

Edmonds: trees from given roots, which use each link no more than it carries, exist if and only if
every set of ranks can send out what its roots owe the other ranks. So the best rate follows from cuts
alone (:func:`_best_rate`), and the trees can be built one link at a time (:func:`_packed`). Switches
are removed before (``splitting``), and come back as nodes of the trees. Below are the algorithms that
run on the trees, then their messages.

Sources: Edmonds, "Edge-disjoint branchings", 1973; Bérczi and Frank, "Packing arborescences", 2009;
ForestColl, arXiv 2402.06787.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    edges_at,
    gather_or_reverse,
    schedule,
)
from colltool.algorithms.registry import FORESTCOLL, NCCL_RINGS, Caveat, algorithm
from colltool.base.primitives import (
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Links,
    Primitive,
    Schedule,
    Terms,
)
from colltool.extras.synthesis.canonical import canonical_order
from colltool.extras.synthesis.splitting import SwitchCopies, by_ways, split_off
from colltool.network.arrays import Floats, np
from colltool.network.group import LATTICE, Axis, Group, Topology, all_ports
from colltool.network.max_flow import ENDLESS, Capacities, FlowNetwork, max_flow
from colltool.network.wires import Edge, GraphWires

if TYPE_CHECKING:
    from fractions import Fraction

ON_LINKS = LATTICE | frozenset[Topology](("graph", "hyperx"))
# Limits beyond which packing takes seconds: ranks with trees from every rank; ranks, and links, with
# trees from one root; ranks and switches of a graph with switches.
MOST_RANKS = 24
MOST_FROM_ROOT = 256
MOST_LINKS = 480
MOST_AT_SWITCHES = 16
MOST_SWITCHES = 16
NO_LINKS = "needs links between the ranks themselves, without switches"
# Rates become whole numbers of a unit: of a part of the slowest rate, at most one of _MAX_PARTS, if
# all are multiples of it; else they are rounded down to multiples of a _FALLBACK_PARTS-th.
_MAX_PARTS = 60
_FALLBACK_PARTS = 1024
# relative tolerance for multiples of a unit
_ROUNDING = 1e-6


class Tree(NamedTuple):
    """A tree from a root to all ranks, or a way from a rank to another one.

    Args:
        share: the share of the root's bytes that it carries.
        links: from node to node, parents first.
    """

    root: int
    share: Fraction | float
    links: tuple[tuple[int, int], ...]

    @property
    def depths(self) -> dict[int, int]:
        """Links from the root to each rank."""
        return _depths(self.root, self.links)


def _depths(root: int, links: Sequence[tuple[int, int]]) -> dict[int, int]:
    depths = {root: 0}
    for a, b in links:
        depths[b] = depths[a] + 1
    return depths


class Forest(NamedTuple):
    """Trees that use a network together.

    Args:
        rate: bytes/s of every root at once.
        fill: segments by which a pipeline down the trees is longer than its P segments.
        switches: the switch of each node after the ranks; a tree that passes a switch several times
            has a node for each time.
    """

    rate: float
    trees: tuple[Tree, ...]
    fill: float
    switches: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        return max(max(tree.depths.values()) for tree in self.trees)


@lru_cache(maxsize=128)
def forest_of(wires: GraphWires, roots: tuple[int, ...], *, numbered: bool = False) -> Forest:
    """The best packing of trees from these roots to all ranks, through switches too.

    ``numbered``: the ranks' numbers follow from their places on a lattice. Those of a graph are
    anyone's choice, and the trees must not depend on it.
    """
    from fractions import Fraction  # prices on other networks need not load it

    ranks = wires.endpoints
    rates = rates_of(wires)
    unit = common_unit(rates.values(), _MAX_PARTS) or min(rates.values()) / _FALLBACK_PARTS
    links: Capacities = {node: {} for node in range(wires.nodes)}
    for (a, b), rate_Bps in rates.items():
        links[a][b] = int(rate_Bps / unit + _ROUNDING)
    # Trees are found under numbers that follow from the links, and renamed at the end.
    order = list(links)
    if not numbered:
        order = canonical_order(links, [_kind(node, ranks, roots) for node in links])
        links, roots = _renumbered(links, roots, order)
    rate = _best_rate(links, ranks, roots)
    # Units finer by the rate's denominator make whole trees; the common divisor keeps them few.
    fine = rate.denominator
    common = rate.numerator
    for neighbours in links.values():
        common = gcd(common, *(units * fine for units in neighbours.values()))
    scaled: Capacities = {}
    for node, row in links.items():
        scaled[node] = {to: units * fine // common for to, units in row.items()}
    trees_per_root = rate.numerator // common
    rank_links, ways = split_off(scaled, ranks, roots, trees_per_root)
    copies = SwitchCopies(ranks)
    trees = []
    for batch in _packed(rank_links, roots, trees_per_root):
        for count, link_ways in by_ways(batch.links, batch.trees, ways):
            trees.append(Tree(batch.root, Fraction(count, trees_per_root), copies.hops(link_ways)))
    switches = tuple(switch for switch, _ in copies)
    node_of = (*range(ranks), *switches)
    link_use: dict[tuple[int, int], dict[Hashable, float]] = {}
    for tree in trees:
        for a, b in tree.links:
            link = (node_of[a], node_of[b])
            link_use[a, b] = {link: 1 / scaled[link[0]][link[1]]}
    fill = fill_of(trees, link_use)
    renamed = tuple(_renamed(tree, order, ranks) for tree in trees)
    return Forest(float(rate) * unit, renamed, fill, tuple(order[switch] for switch in switches))


def _kind(node: int, ranks: int, roots: Collection[int]) -> int:
    """Roots come first in a network's order, then the other ranks, then switches."""
    if node in roots:
        return 0
    return 1 if node < ranks else 2


def _renumbered(
    links: Capacities, roots: Sequence[int], order: Sequence[int]
) -> tuple[Capacities, tuple[int, ...]]:
    """The links and roots under each node's place in an order."""
    place = {node: number for number, node in enumerate(order)}
    found: Capacities = {}
    for number, node in enumerate(order):
        row = {place[to]: units for to, units in links[node].items()}
        found[number] = dict(sorted(row.items()))
    return found, tuple(sorted(place[root] for root in roots))


def _renamed(tree: Tree, order: Sequence[int], ranks: int) -> Tree:
    """The tree with ranks by their own numbers; switches are counted after them."""
    name = {node: order[node] for node in range(ranks)}
    links = tuple((name.get(a, a), name.get(b, b)) for a, b in tree.links)
    return Tree(name[tree.root], tree.share, links)


def rates_of(wires: GraphWires) -> dict[tuple[int, int], float]:
    """Bytes/s from node to node; parallel links are added up."""
    rates = defaultdict[tuple[int, int], float](float)
    for edge in wires.edges:
        rates[edge.src, edge.dst] += edge.Bps
    return rates


def common_unit(rates: Collection[float], most_parts: int) -> float | None:
    """The largest rate of which all are whole multiples. None if that is less than the
    ``most_parts``-th part of the slowest."""
    slowest = min(rates)
    for parts in range(1, most_parts + 1):
        multiples = [rate / slowest * parts for rate in rates]
        if all(abs(multiple - round(multiple)) < _ROUNDING for multiple in multiples):
            return slowest / parts
    return None


def fill_of(
    trees: Sequence[Tree], link_use: Mapping[tuple[int, int], dict[Hashable, float]]
) -> float:
    """F of a pipeline down the trees: its steps beyond P, in segments of the busiest link.

    In moment m a hop of depth d of a tree carries segment m - d + 1. While the pipeline fills and
    drains, for L - 1 moments each, links are less busy. Valid for P of at least L.

    Args:
        link_use: what a hop takes of each link.
    """
    # link -> depth of a hop -> load
    loads: dict[Hashable, dict[int, float]] = {}
    for tree in trees:
        depths = tree.depths
        for a, b in tree.links:
            depth = depths[b]
            for link, part in link_use[a, b].items():
                load = loads.setdefault(link, {})
                load[depth] = load.get(depth, 0.0) + float(tree.share) * part
    busiest = max(sum(load.values()) for load in loads.values())
    deepest = max(max(load) for load in loads.values())
    filling = 0.0
    for moment in range(deepest - 1):
        early = 0.0  # load of the busiest link at a moment of filling
        late = 0.0  # and at the moment of draining when the other segments are through
        for load in loads.values():
            early = max(early, sum(part for depth, part in load.items() if depth - 1 <= moment))
            late = max(late, sum(part for depth, part in load.items() if depth - 1 > moment))
        filling += (early + late) / busiest
    return filling - deepest + 2


def _best_rate(links: Capacities, ranks: int, roots: Sequence[int]) -> Fraction:
    """The most units of each root with which no set of ranks owes the others more than it can send.

    Starts at a rank's incoming or outgoing rate, and lowers it to that of a violated cut until no
    cut is violated.
    """
    from fractions import Fraction  # prices on other networks need not load it

    rate = Fraction(min(sum(links[rank].values()) for rank in range(ranks)))
    while True:
        side = _violated_cut(links, ranks, roots, rate)
        if side is None:
            return rate
        out = 0
        for node in side:
            out += sum(units for to, units in links[node].items() if to not in side)
        rate = Fraction(out, sum(root in side for root in roots))


def _violated_cut(
    links: Capacities, ranks: int, roots: Sequence[int], rate: Fraction
) -> set[int] | None:
    """The nodes on the roots' side of a cut that cannot carry a rate. None if all cuts can."""
    source = -1
    capacity: Capacities = {source: dict.fromkeys(roots, rate.numerator)}
    for node, neighbours in links.items():
        capacity[node] = {to: units * rate.denominator for to, units in neighbours.items()}
    network = FlowNetwork(capacity)
    for rank in range(ranks):
        reached, side = network.max_flow(source, rank)
        if reached < rate.numerator * len(roots):
            return side - {source}
    return None


class _Batch(NamedTuple):
    """Trees from a root that have the same links so far; ``trees`` is how many."""

    root: int
    trees: int
    reached: frozenset[int]
    links: tuple[tuple[int, int], ...]


def _packed(links: Capacities, roots: Sequence[int], trees_per_root: int) -> list[_Batch]:
    """Trees grown link by link, such that all others can still be completed (Bérczi and Frank)."""
    unused = {rank: dict(neighbours) for rank, neighbours in links.items()}
    growing = [_Batch(root, trees_per_root, frozenset({root}), ()) for root in roots]
    done: list[_Batch] = []
    while growing:
        batch = growing.pop()
        if len(batch.reached) == len(links):
            done.append(batch)
            continue
        a, b, count = _next_link(unused, batch, growing)
        unused[a][b] -= count
        if count < batch.trees:
            growing.append(batch._replace(trees=batch.trees - count))
        growing.append(_Batch(batch.root, count, batch.reached | {b}, (*batch.links, (a, b))))
    return done


def _next_link(unused: Capacities, batch: _Batch, others: Sequence[_Batch]) -> tuple[int, int, int]:
    """The next link of a batch, from the rank nearest its root, and how many of its trees take it."""
    depths = _depths(batch.root, batch.links)
    for a in sorted(batch.reached, key=lambda rank: (depths[rank], rank)):
        for b, units in unused[a].items():
            if not units or b in batch.reached:
                continue
            count = _trees_for_link(unused, a, b, batch, others)
            if count:
                return a, b, count
    raise AssertionError("by Edmonds' theorem some link can always be taken")


def _trees_for_link(
    unused: Capacities, a: int, b: int, batch: _Batch, others: Sequence[_Batch]
) -> int:
    """How many trees of a batch may take the link from ``a`` to ``b``.

    Every set of ranks with ``a`` and without ``b`` must still be able to send what the other batches
    owe the ranks outside.
    """
    network: Capacities = {rank: dict(neighbours) for rank, neighbours in unused.items()}
    owed = 0
    for number, other in enumerate(others):
        if b not in other.reached:
            node = -2 - number
            network[a][node] = other.trees
            network[node] = dict.fromkeys(other.reached, ENDLESS)
            owed += other.trees
    most = min(unused[a][b], batch.trees)
    moved, _ = max_flow(network, a, b, enough=owed + most)
    return max(0, min(most, moved - owed))


@lru_cache(maxsize=32)
def lattice_wires(axes: tuple[Axis, ...]) -> GraphWires:
    """The links of a torus, mesh or twisted torus, each of rate 1: prices on a lattice are relative
    to the rate of a link."""
    # ranks count along the first axis first
    places = [place[::-1] for place in product(*(range(axis.size) for axis in reversed(axes)))]
    number = {place: rank for rank, place in enumerate(places)}
    edges = []
    for rank, place in enumerate(places):
        for above in _neighbours_up(place, axes):
            edges.append(Edge(rank, number[above], Bps=1.0, alpha_s=0.0))
            edges.append(Edge(number[above], rank, Bps=1.0, alpha_s=0.0))
    return GraphWires(len(places), len(places), tuple(edges))


def _neighbours_up(place: tuple[int, ...], axes: Sequence[Axis]) -> Iterator[tuple[int, ...]]:
    """The next place along each axis, round a closed one with its twist."""
    for number, axis in enumerate(axes):
        above = list(place)
        above[number] += 1
        if above[number] == axis.size:
            if not axis.closed:
                continue
            above[number] = 0
            for other, by in enumerate(axis.twist):
                above[other] = (above[other] + by) % axes[other].size
        yield tuple(above)


def wires_between(group: Group) -> GraphWires | None:
    """The links of a group whose ranks are joined directly. None with switches or other ranks in
    between."""
    if group.topology in LATTICE:
        return lattice_wires(group.axes)
    wires = group.wires.between_ranks if group.wires is not None else None
    if wires is None or wires.endpoints != group.ranks:
        return None
    return wires


def joined_by_links(group: Group) -> str | None:
    """Links that join its ranks, without switches or other ranks between."""
    if group.topology in LATTICE:
        return None
    if group.wires is None or not group.wires.joins_ranks:
        return NO_LINKS
    if group.wires.endpoints != group.ranks:
        return "needs consecutive ranks: links between these lead through others"
    return None


def wires_of(group: Group) -> GraphWires | None:
    """The links of a group's ranks, and of a graph's switches. None where ranks have ports at
    switches."""
    wires = group.wires
    if isinstance(wires, GraphWires) and wires.endpoints == group.ranks:
        return wires
    return wires_between(group)


def links_between_ranks(group: Group) -> str | None:
    """Links that join ranks, of a graph through switches too, and few enough ranks to pack trees
    over."""
    return _too_many(group, MOST_RANKS)


def links_from_root(group: Group) -> str | None:
    """Links that join ranks, of a graph through switches too, and few enough of these to pack trees
    from one rank over."""
    why_not = _too_many(group, MOST_FROM_ROOT)
    if why_not or group.ranks <= MOST_RANKS:
        return why_not
    wires = wires_of(group)
    if wires is None or len(wires.edges) > MOST_LINKS:
        return f"trees from one rank are packed over {MOST_LINKS} links at most"
    return None


def _too_many(group: Group, most: int) -> str | None:
    """Why a group is too large to pack trees for; None if it is not."""
    # a lattice needs no list of its links to tell
    wires = None if group.topology in LATTICE else group.wires
    through_switches = isinstance(wires, GraphWires) and wires.endpoints == group.ranks
    if wires is not None and not through_switches:
        why_not = joined_by_links(group)
        if why_not:
            return why_not
    switches = wires.nodes - wires.endpoints if isinstance(wires, GraphWires) else 0
    if switches and (group.ranks > MOST_AT_SWITCHES or switches > MOST_SWITCHES):
        return (
            f"through switches trees are packed for {MOST_AT_SWITCHES} ranks and {MOST_SWITCHES}"
            " switches at most"
        )
    if group.ranks > most:
        return f"trees are packed for {most} ranks at most"
    return None


_AS_RINGS = (
    "on a graph NCCL's and RCCL's rings are as fast where they use all links, as on DGX-1, and"
    " nowhere faster"
)


def _who_runs(group: Group) -> Caveat:
    if group.topology in LATTICE:
        return Caveat("reference", "no library is known to pack trees on a torus or mesh")
    if isinstance(group.wires, GraphWires) and not group.wires.joins_ranks:
        return Caveat("reference", "no library is known to pack trees through switches")
    return Caveat("shipped", _AS_RINGS)


_over_all_links = partial(
    algorithm,
    "forest",
    on=ON_LINKS,
    caveat=_who_runs,
    shipped_by=("NCCL", "RCCL", "MSCCL++"),
    source=f"{FORESTCOLL}; NCCL and RCCL search for rings over all links: {NCCL_RINGS}",
)
_from_every_rank = partial(_over_all_links, requires=(links_between_ranks, all_ports))


@_from_every_rank(
    AR,
    equation=(
        "t = 2L α + 2/N M / R, R the most that every rank can send to all others at once (cuts)"
    ),
)
def forest_all_reduce(group: Group) -> Schedule:
    """Trees from every rank over all links: sums up to their roots, then down again.

    >>> totals(forest_all_reduce(Group(4, "graph", wires=ring_wires(4))))
    (6, 0.75)
    """
    there = _trees(group, tuple(range(group.ranks)))._replace(primitive=RS, label="up")
    return there, there._replace(primitive=AG, label="down")


@_from_every_rank(
    AG,
    RS,
    equation=(
        "t = L α + 1/N M / R, R the most that every rank can send to all others at once (cuts)"
    ),
)
def forest(group: Group) -> Terms:
    """Trees from every rank over all links at once, as deep as L.

    >>> forest(Group(4, "graph", wires=ring_wires(4)))[:2]
    (3, 0.375)
    """
    return _trees(group, tuple(range(group.ranks)))


@_over_all_links(
    BC,
    REDUCE,
    requires=(links_from_root, all_ports),
    equation="t = L α + M / R, R the least cut between the root and any rank",
)
def forest_from_root(group: Group) -> Terms:
    """Trees from the root over all links at once, as deep as L.

    >>> forest_from_root(Group(4, "graph", wires=ring_wires(4)))[:2]
    (3, 0.5)
    """
    return _trees(group, (0,))


def ring_wires(ranks: int) -> GraphWires:
    """A ring of links of 1 byte/s, for the examples."""
    edges = []
    for rank in range(ranks):
        following = (rank + 1) % ranks
        edges.append(Edge(rank, following, Bps=1.0, alpha_s=0.0))
        edges.append(Edge(following, rank, Bps=1.0, alpha_s=0.0))
    return GraphWires(ranks, ranks, tuple(edges))


def roots_of(primitive: Primitive, group: Group) -> tuple[int, ...]:
    return (0,) if primitive in (BC, REDUCE) else tuple(range(group.ranks))


def forest_on(group: Group, roots: tuple[int, ...]) -> Forest:
    wires = wires_of(group)
    assert wires is not None  # links_between_ranks requires it
    return forest_of(wires, roots, numbered=not isinstance(group.wires, GraphWires))


def _trees(group: Group, roots: tuple[int, ...]) -> Terms:
    found = forest_on(group, roots)
    return Terms(found.depth, 1 / (len(roots) * found.rate), Links(), fill=found.fill)


# Messages: tree or way t has P chunks, t * P + s, of its share of what its root sends.


@schedule("forest", AR, AG, RS, BC, REDUCE)
def _forest(primitive: Primitive, group: Group, segments: int) -> Program:
    roots = roots_of(primitive, group)
    found = forest_on(group, roots)
    root = np.repeat([tree.root for tree in found.trees], segments)
    node_of = None
    if found.switches:
        node_of = np.array([*range(group.ranks), *found.switches])
    return Program(
        primitive,
        group.ranks,
        group.ranks + len(found.switches),
        chunk_sizes(found, len(roots), segments),
        home=root,
        target=root,
        batches=gather_or_reverse(primitive, lambda: down_trees(found, segments)),
        node_places=node_of,
    )


def chunk_sizes(found: Forest, parts: int, segments: int) -> Floats:
    """Bytes of each chunk in units of M, of which each root has one of ``parts``; shape (chunks,)."""
    return np.repeat([float(tree.share) / parts / segments for tree in found.trees], segments)


def down_trees(found: Forest, segments: int) -> Batches:
    """The steps that send segment after segment down all trees at once."""
    rows = []
    for number, tree in enumerate(found.trees):
        depths = tree.depths
        rows += [(b, a, number, depths[b]) for a, b in tree.links]
    edges = Edges(*np.array(rows, dtype=np.int64).T)
    for moment in range(found.depth + segments - 1):
        yield (edges_at(edges, edges.depth - 1, segments, moment),)
