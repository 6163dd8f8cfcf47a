"""Trees packed over all links of a graph or lattice at once, at the highest rate that any all-gather
or broadcast can reach there: :func:`forest_of`.

Edmonds: trees from given roots, which use each link no more than it carries, exist if and only if
every set of ranks can send out what its roots owe the other ranks. So the best rate follows from cuts
alone (:func:`_best_rate`), and the trees can be built one link at a time (:func:`_packed_batches`). Switches
are removed before (``splitting``), and come back as nodes of the trees.

Nodes are numbers, ranks before switches. ``Capacities`` are whole numbers by node and next node: rates in
units of bytes/s, then, scaled to the best rate, how many trees a link carries.

Sources: Edmonds, "Edge-disjoint branchings", 1973; Bérczi and Frank, "Packing arborescences", 2009;
ForestColl, arXiv 2402.06787.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from colltool.algorithms.program import Batches, Edges, down_batches
from colltool.extras.synthesis.canonical import canonical_order
from colltool.extras.synthesis.splitting import SwitchCopies, by_ways, split_off
from colltool.network.arrays import Floats, np
from colltool.network.max_flow import ENDLESS, Capacities, FlowNetwork, max_flow
from colltool.network.wires import GraphWires

# Rates become whole numbers of a unit: the slowest rate divided by at most _MAX_PARTS, if all rates are
# multiples of that; else the slowest by _FALLBACK_PARTS, and rates are rounded down to multiples of it.
_MAX_PARTS = 60
_FALLBACK_PARTS = 1024
# relative tolerance for multiples of a unit
_ROUNDING = 1e-6


class Tree(NamedTuple):
    """A tree from a root to all ranks, or a way from a rank to another one.

    Args:
        share: the part of the root's bytes that it carries; those of a root's trees add up to 1.
        links: (from, to), those of parents first.
    """

    root: int
    share: Fraction | float
    links: tuple[tuple[int, int], ...]

    @property
    def depths(self) -> dict[int, int]:
        """Links from the root to each node."""
        return _depths(self.root, self.links)


def _depths(root: int, links: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Links from the root to each node of a tree, whose links stand parents first."""
    depths = {root: 0}
    for a, b in links:
        depths[b] = depths[a] + 1
    return depths


class Forest(NamedTuple):
    """Trees that use a network together.

    Args:
        rate: bytes/s that every root sends at once.
        trees: over nodes that are the ranks, then those of ``switches``.
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
        """Links of the longest way from a root."""
        return max(max(tree.depths.values()) for tree in self.trees)


@lru_cache(maxsize=128)
def forest_of(wires: GraphWires, roots: tuple[int, ...], *, numbered: bool = False) -> Forest:
    """Return the best packing of trees from these roots to all ranks, through switches too.

    ``numbered``: the ranks' numbers follow from their places on a lattice, and are used as they are. Those
    of a graph are anyone's choice, on which the trees must not depend.
    """
    ranks = wires.endpoints
    links, unit_Bps = _links_in_units(wires)
    # Trees are found under numbers that follow from the links, and renamed at the end.
    order = list(links)
    if not numbered:
        order = canonical_order(links, [_kind(node, ranks, roots) for node in links])
        links, roots = _renumbered_links(links, roots, order)
    rate = _best_rate(links, ranks, roots)
    tree_links, trees_per_root = _links_in_trees(links, rate)
    rank_links, ways = split_off(tree_links, ranks, roots, trees_per_root)
    # the nodes of trees after the ranks: a switch, or another passage of one
    copies = SwitchCopies(ranks)
    trees = []
    for batch in _packed_batches(rank_links, roots, trees_per_root):
        for count, link_ways in by_ways(batch.links, batch.trees, ways):
            trees.append(Tree(batch.root, Fraction(count, trees_per_root), copies.hops(link_ways)))
    switches = tuple(switch for switch, _ in copies)
    node_of = (*range(ranks), *switches)  # of the network, for each node of the trees
    link_use: dict[tuple[int, int], dict[Hashable, float]] = {}
    for tree in trees:
        for a, b in tree.links:
            src = node_of[a]
            dst = node_of[b]
            # the more trees a link carries, the smaller the part of its time that each takes
            link_use[a, b] = {(src, dst): 1 / tree_links[src][dst]}
    fill = fill_of(trees, link_use)
    renamed = tuple(_tree_by_own_numbers(tree, order, ranks) for tree in trees)
    return Forest(
        float(rate) * unit_Bps, renamed, fill, tuple(order[switch] for switch in switches)
    )


def _links_in_units(wires: GraphWires) -> tuple[Capacities, float]:
    """The rates of all links in whole units, and the bytes/s of a unit."""
    rates = rates_of(wires)
    unit_Bps = common_unit(rates.values(), _MAX_PARTS) or min(rates.values()) / _FALLBACK_PARTS
    links: Capacities = {node: {} for node in range(wires.nodes)}
    for (a, b), rate_Bps in rates.items():
        # rounded down, but for what is a hair below a whole number
        links[a][b] = int(rate_Bps / unit_Bps + _ROUNDING)
    return links, unit_Bps


def _links_in_trees(links: Capacities, rate: Fraction) -> tuple[Capacities, int]:
    """How many trees each link carries at a rate of each root in units, and how many a root has.

    Units finer by the rate's denominator make whole trees; the common divisor keeps them few. At a
    rate of 3/2 and links of 2 and 1 units: 3 trees a root, links of 4 and 2.
    """
    finer = rate.denominator
    divisor = rate.numerator
    for row in links.values():
        divisor = gcd(divisor, *(units * finer for units in row.values()))
    tree_links: Capacities = {}
    for node, row in links.items():
        tree_links[node] = {to: units * finer // divisor for to, units in row.items()}
    return tree_links, rate.numerator // divisor


def _kind(node: int, ranks: int, roots: Collection[int]) -> int:
    """The kind of a node: 0 for roots, 1 for other ranks, 2 for switches, as they follow in an order."""
    if node in roots:
        return 0
    return 1 if node < ranks else 2


def _renumbered_links(
    links: Capacities, roots: Sequence[int], order: Sequence[int]
) -> tuple[Capacities, tuple[int, ...]]:
    """The links and roots under each node's place in an order."""
    place = {node: number for number, node in enumerate(order)}
    # sorted, so that trees do not depend on the order of edges either
    renumbered: Capacities = {}
    for number, node in enumerate(order):
        row = {place[to]: units for to, units in links[node].items()}
        renumbered[number] = dict(sorted(row.items()))
    return renumbered, tuple(sorted(place[root] for root in roots))


def _tree_by_own_numbers(tree: Tree, order: Sequence[int], ranks: int) -> Tree:
    """The tree with ranks by their own numbers: ``order`` has at each place the node that was renumbered to
    it. Nodes for switches, from ``ranks`` on, stay."""
    own = {node: order[node] for node in range(ranks)}
    links = tuple((own.get(a, a), own.get(b, b)) for a, b in tree.links)
    return Tree(own[tree.root], tree.share, links)


def rates_of(wires: GraphWires) -> dict[tuple[int, int], float]:
    """Bytes/s from node to node; parallel links are added up."""
    rates: dict[tuple[int, int], float] = defaultdict(float)
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
    """F of a pipeline down the trees: P segments take P + F - 1 times as long as one takes on the
    busiest link.

    In moment m a hop of depth d of a tree carries segment m - d + 1. While the pipeline fills and
    drains, for L - 1 moments each, links are less busy. Valid for P of at least L.

    A chain 0 -> 1 -> 2 has L = 2. In the one moment of filling only its first link is busy, in the
    one of draining only its second, each as much as the busiest ever is: F = 1 + 1 - 2 + 2 = 2.

    Args:
        link_use: by hop of a tree, which links of the network it takes, and the time of each that all of a
            root's bytes would take there.
    """
    loads: dict[Hashable, dict[int, float]] = {}  # of a link, by the depth of hops on it
    for tree in trees:
        depths = tree.depths
        for a, b in tree.links:
            depth = depths[b]
            for link, use in link_use[a, b].items():
                load = loads.setdefault(link, {})
                load[depth] = load.get(depth, 0.0) + float(tree.share) * use
    busiest = max(sum(load.values()) for load in loads.values())
    deepest = max(max(load) for load in loads.values())
    filling = 0.0
    for moment in range(deepest - 1):
        early = 0.0  # load of the busiest link at a moment of filling
        late = 0.0  # and at the moment of draining when the other segments are through
        for load in loads.values():
            early = max(early, sum(of_depth for d, of_depth in load.items() if d - 1 <= moment))
            late = max(late, sum(of_depth for d, of_depth in load.items() if d - 1 > moment))
        filling += (early + late) / busiest
    # P - L + 1 moments are full, and filling and draining take ``filling``: so P + F - 1 of them in all
    return filling - deepest + 2


def _best_rate(links: Capacities, ranks: int, roots: Sequence[int]) -> Fraction:
    """Return the most units of each root with which no set of ranks owes the others more than it can send.

    Starts at the least rate at which a rank sends, and lowers it to that of a violated cut until no cut is
    violated.
    """
    rate = Fraction(min(sum(links[rank].values()) for rank in range(ranks)))
    while True:
        side = _violated_cut(links, ranks, roots, rate)
        if side is None:
            return rate
        cut_units = 0
        for node in side:
            cut_units += sum(units for to, units in links[node].items() if to not in side)
        rate = Fraction(cut_units, sum(root in side for root in roots))


def _violated_cut(
    links: Capacities, ranks: int, roots: Sequence[int], rate: Fraction
) -> set[int] | None:
    """Return the nodes on the roots' side of a cut that cannot carry a rate; None if all cuts can."""
    # a source that feeds every root; in units finer by the rate's denominator all are whole
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
    """Trees from a root that have the same links so far."""

    root: int
    trees: int  # how many
    reached: frozenset[int]  # ranks that they reach
    links: tuple[tuple[int, int], ...]  # parents first


def _packed_batches(links: Capacities, roots: Sequence[int], trees_per_root: int) -> list[_Batch]:
    """Grow trees link by link, such that all others can still be completed (Bérczi and Frank); ``links``
    are those between ranks, with the number of trees each carries."""
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
    """The next link of a batch, (from, to), from the rank nearest its root, and how many of its trees
    take it."""
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
    """Return how many trees of a batch may take the link from ``a`` to ``b``; 0 for none.

    Every set of ranks with ``a`` and without ``b`` must still be able to send what the other batches
    owe the ranks outside.
    """
    # Beside the links a node for each other batch, through which ``a`` feeds all that have its trees: a
    # flow from a to b then measures what passes beyond what is owed.
    network: Capacities = {rank: dict(neighbours) for rank, neighbours in unused.items()}
    owed = 0
    for number, other in enumerate(others):
        if b not in other.reached:
            # below -1, which is the source of other flows here
            node = -2 - number
            network[a][node] = other.trees
            network[node] = dict.fromkeys(other.reached, ENDLESS)
            owed += other.trees
    most = min(unused[a][b], batch.trees)
    moved, _ = max_flow(network, a, b, enough=owed + most)
    return max(0, min(most, moved - owed))


def chunk_sizes(forest: Forest, parts: int, segments: int) -> Floats:
    """Bytes of each chunk in units of M, tree by tree and segment by segment, where each root has one of
    ``parts`` of M; shape (trees x segments,)."""
    return np.repeat([float(tree.share) / parts / segments for tree in forest.trees], segments)


def down_trees(forest: Forest, segments: int) -> Batches:
    """The steps that send segment after segment down all trees at once."""
    rows = []  # in the order of ``Edges``: child, parent, tree, depth of the child
    for number, tree in enumerate(forest.trees):
        depths = tree.depths
        rows += [(b, a, number, depths[b]) for a, b in tree.links]
    return down_batches(Edges(*np.array(rows, dtype=np.int64).T), segments)
