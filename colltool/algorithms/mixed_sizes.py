"""Algorithms for domains of different sizes, whose ranks cannot be paired across domains.

NCCL's tree with a chain in every domain (``multi-rail-tree``), its rings over rails, and an all-gather
that keeps every port of the outer network busy (``multi-rail-direct``). Ranks are numbered domain by
domain; ``domains`` has the ranks of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from colltool.algorithms.binary_trees import (
    double_tree,
    double_tree_arrays,
    edges_of,
    tree_all_reduce,
)
from colltool.algorithms.libraries import nccl_inside
from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    gather_or_reverse,
    schedule,
    step,
)
from colltool.algorithms.registry import MSCCLPP, NCCL_TREES, TWO_TREES, algorithm
from colltool.algorithms.rings import on_rings, paths
from colltool.base.primitives import (
    AG,
    AR,
    RS,
    Primitive,
    ShardExchange,
    Terms,
    Trees,
    log2_ceil,
)
from colltool.network.arrays import Floats, Indices, np
from colltool.network.group import Group, Topology, all_ports

MIXED_SIZES: frozenset[Topology] = frozenset({"uneven_tiers"})
OUTER_ALGORITHMS = ("in-network", "double-binary-tree")
"""What a composition may run between domains of different sizes: switches, which reduce for any
number of ranks, and trees."""
SAME_SIZE_COMPOSITIONS = {"multi-rail-tree": "hierarchical:ring/double-binary-tree"}
"""The composition that an algorithm is equal to where all domains have the same size."""


@algorithm(
    "multi-rail-tree",
    AR,
    on=MIXED_SIZES,
    shipped_by=("NCCL", "RCCL"),
    limits=(nccl_inside,),
    source=f"{TWO_TREES}; {NCCL_TREES}",
    equation=(
        "t = 2(max n_i - 1) α_inner + 2 lg D α_outer + load M/BW of the busiest port (asymptotic)"
    ),
)
def multi_rail_tree(group: Group) -> Terms:
    """NCCL's tree between D domains of different sizes: R times with M/R, R the ranks of the
    smallest.

    In a domain a chain of its ranks, each time from another one on; between those where the chains
    begin a double binary tree.
    Sums up and back down overlap; executed, filling costs no more than F = max n_i - min n_i + lg
    D. Between domains of one size that is hierarchical:ring/double-binary-tree.

    >>> multi_rail_tree(Group(15, "uneven_tiers", domains=(8, 7)))[:2]
    (16, 2.0)
    """
    domains = group.domains
    rails = min(domains)
    trees = double_tree(len(domains))
    deepest = 0  # edges from a root to the end of a chain
    links = 0  # the most edges of both trees at a domain
    for number, ranks in enumerate(domains):
        for parents in trees:
            deepest = max(deepest, ranks - 1 + _depth(parents, number))
        links = max(links, _links_at(trees, number))
    # Each tree carries half of the vector, in R parts of M/R. A rank at which no chain begins sends
    # a part up its chain and one down, 2 in all. The R ranks at which chains begin take turns:
    # such a rank sends 2R - 1 parts along the chains of the others and down its own, and half a
    # part per edge to other domains.
    sent = max(2.0, (2 * rails - 1 + links / 2) / rails)
    fill = max(domains) - rails + log2_ceil(len(domains))
    return Terms(2 * deepest, sent, Trees(both_ways=True, rails=True), fill=fill)


def _links_at(trees: Sequence[tuple[int, ...]], number: int) -> int:
    """The number of edges between a domain and its parents and children, over all trees; a tree has the
    parent of each domain, -1 for its root."""
    links = 0
    for parents in trees:
        links += (parents[number] >= 0) + parents.count(number)
    return links


def walks_over_rails(domains: Sequence[int], *, spread: bool) -> list[Indices]:
    """For each domain, walks through all of its ranks, which begin at as many ranks as the smallest
    domain has; shape (walks, ranks of the domain).

    Walks go round the domain, or with ``spread`` (every two ranks have a link) over different links
    each. If any domain has an odd number of ranks, two walks begin at each rank, as it takes two to
    use its links equally.
    """
    rails = min(domains)
    walks_from_each = 2 if any(ranks % 2 for ranks in domains) else 1
    walks = []
    start = 0
    for ranks in domains:
        if spread:
            all_paths = paths(ranks)
            order = np.argsort(all_paths[:, 0], kind="stable")
            # shape (first rank, paths from it, ranks): one path from each if their number is even, else two
            by_start = all_paths[order].reshape(ranks, -1, ranks)
            from_each = by_start[:rails]
            repeats = walks_from_each // from_each.shape[1]
            in_domain = np.repeat(from_each, repeats, axis=1).reshape(-1, ranks)
        else:
            in_domain = np.add.outer(np.arange(rails), np.arange(ranks)) % ranks
        walks.append(start + in_domain)
        start += ranks
    return walks


def rail_trees(domains: Sequence[int], *, spread: bool) -> Edges:
    """The edges of NCCL's trees: for each walk a double binary tree over the ranks at which it begins
    in each domain, continued by the walk as a chain inside the domain."""
    trees = []
    for walks in zip(*walks_over_rails(domains, spread=spread), strict=True):
        heads = np.array([walk[0] for walk in walks])
        for between in double_tree_arrays(len(domains)):
            parents = np.full(sum(domains), -1)
            parents[heads] = np.where(between >= 0, heads[between], -1)
            for walk in walks:
                parents[walk[1:]] = walk[:-1]
            trees.append(parents)
    return edges_of(trees)


@schedule("multi-rail-ring", AR, AG, RS, per_pair=lambda n: 2 * n)
def _multi_rail_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Rings over rails, for domains of different sizes; between those of one size they are priced
    but not executed."""
    walks = walks_over_rails(group.domains, spread=group.spread)
    return on_rings(primitive, np.concatenate(walks, axis=1))


@schedule("multi-rail-tree", AR)
def _multi_rail_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    """A double binary tree with as many pairs of trees as the smallest domain has ranks."""
    edges = rail_trees(group.domains, spread=group.spread)
    return tree_all_reduce(primitive, group.ranks, edges, segments)


@algorithm(
    "multi-rail-direct",
    AG,
    RS,
    on=MIXED_SIZES,
    requires=(all_ports,),
    source=f"as all-gathers across nodes of one size of {MSCCLPP}",
    note=(
        "no library deals out shards between domains of different sizes; assumes that a rank posts"
        " N-1 messages for one alpha"
    ),
    equation=(
        "t = α_outer + α_inner + max((N-n)/(N n) M/BW_outer of the smallest n, (n-1)/n M/BW_inner"
        " of the largest)"
    ),
)
def multi_rail_direct(group: Group) -> Terms:
    """What comes from other domains is dealt out over all ranks of a domain, each of which sends
    its part on inside.

    Nothing enters a domain twice, and all its ports take as much. Pieces go on as they come, so the
    busier tier's bytes count. A reduce-scatter is that backwards. Between domains of one size that
    is hierarchical:direct/direct.

    >>> multi_rail_direct(Group(15, "uneven_tiers", domains=(8, 7)))[:2]
    (2, 0.9416666666666667)
    """
    ranks = group.ranks
    others = len(group.domains) - 1
    # The shards that a rank sends in all: its own to every other domain and to the other ranks of
    # its domain, and there also its part of the shards that come from outside.
    sent = max(others + size - 1 + (ranks - size) * (size - 1) / size for size in group.domains)
    return Terms(2, max(ranks - 1, sent) / ranks, ShardExchange())


@schedule("multi-rail-direct", AG, RS, per_pair=lambda n: n)
def _multi_rail_direct(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Each rank's shard is cut at the borders of the equal shares that the ranks of any domain take
    of it: piece p of rank r is chunk r * pieces + p."""
    borders = set[float]()
    for ranks in set(group.domains):
        borders.update(share / ranks for share in range(1, ranks + 1))
    # pieces of a shard, in units of it
    sizes = np.diff([0.0, *sorted(borders)])
    middles = np.array(sorted(borders)) - sizes / 2
    home = np.repeat(np.arange(group.ranks), len(sizes))
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        np.tile(sizes / group.ranks, group.ranks),
        home=home,
        target=home,
        batches=gather_or_reverse(primitive, lambda: _exchange_shards(group.domains, middles)),
        streamed=True,
    )


def _exchange_shards(domains: Sequence[int], middles: Floats) -> Batches:
    """Exchange in two steps: every rank sends its pieces to other domains and inside its own; then
    each sends on, inside, what came from outside.

    ``middles`` are the middles of the pieces, in units of a shard. Each other domain receives a
    piece at the rank whose share of the shard it lies in.
    """
    across: list[tuple[int, int, int]] = []  # (sender, receiver, piece)
    inside: list[tuple[int, int, int]] = []
    for rank, part in np.ndindex(sum(domains), len(middles)):
        piece = rank * len(middles) + part
        first = 0
        for ranks in domains:
            members = range(first, first + ranks)
            if rank in members:
                across += [(rank, other, piece) for other in members if other != rank]
            else:
                receiver = first + int(middles[part] * ranks)
                across.append((rank, receiver, piece))
                inside += [(receiver, other, piece) for other in members if other != receiver]
            first += ranks
    for messages in (across, inside):
        if messages:
            yield (step(*np.array(messages).T),)


def _depth(parents: tuple[int, ...], rank: int) -> int:
    """Edges between a rank and its root."""
    depth = 0
    while parents[rank] >= 0:
        rank = parents[rank]
        depth += 1
    return depth
