"""Algorithms between domains of different sizes, whose shards do not match across: NCCL's tree, and
an all-gather that keeps every port outside busy."""

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

UNEVEN: frozenset[Topology] = frozenset({"uneven_tiers"})
OUTER_ALGORITHMS = ("in-network", "double-binary-tree")
"""What a composition may have between domains of different sizes: switches that reduce, whoever
keeps a share, and trees."""
SAME_SIZE_COMPOSITIONS = {"multi-rail-tree": "hierarchical:ring/double-binary-tree"}
"""Between domains of different sizes, and the composition that it is between those of one."""


@algorithm(
    "multi-rail-tree",
    AR,
    on=UNEVEN,
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
    deepest = 0  # from a root to the end of a chain
    links = 0  # of both trees at a domain
    for number, ranks in enumerate(domains):
        for parents in trees:
            deepest = max(deepest, ranks - 1 + _depth(parents, number))
        links = max(links, _links_at(trees, number))
    # where a chain begins halves go to other domains and not up the chain
    sent = max(2.0, (2 * rails - 1 + links / 2) / rails)
    fill = max(domains) - rails + log2_ceil(len(domains))
    return Terms(2 * deepest, sent, Trees(both_ways=True, rails=True), fill=fill)


def _links_at(trees: Sequence[tuple[int, ...]], number: int) -> int:
    """Edges to a domain's parents and children, over all trees."""
    links = 0
    for parents in trees:
        links += (parents[number] >= 0) + parents.count(number)
    return links


def walks_over_rails(domains: Sequence[int], *, spread: bool) -> list[Indices]:
    """Walks through all ranks of each domain, one from each of as many as the smallest has, shape
    (walks, ranks of it).

    Round it, or where these are to ``spread`` over its links over different ones: of an odd number
    two from each share them out.
    """
    rails = min(domains)
    walks_from_each = 2 if any(ranks % 2 for ranks in domains) else 1
    walks = []
    start = 0
    for ranks in domains:
        if spread:
            every = paths(ranks)
            by_start = every[np.argsort(every[:, 0], kind="stable")].reshape(ranks, -1, ranks)
            from_each = by_start[:rails]
            repeats = walks_from_each // from_each.shape[1]
            walk = np.repeat(from_each, repeats, axis=1).reshape(-1, ranks)
        else:
            walk = np.add.outer(np.arange(rails), np.arange(ranks)) % ranks
        walks.append(start + walk)
        start += ranks
    return walks


def rail_trees(domains: Sequence[int], *, spread: bool) -> Edges:
    """NCCL's trees between domains of such sizes: both over the ranks where walks start, behind
    each of which a walk is a chain."""
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
    """Rings over rails; between domains of one size they are priced, and not executed."""
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
    on=UNEVEN,
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
    # what a rank sends, in shards, as if all left by one port: its own shard, and on inside its
    # part of the others'
    sent = max(others + own - 1 + (ranks - own) * (own - 1) / own for own in group.domains)
    return Terms(2, max(ranks - 1, sent) / ranks, ShardExchange())


@schedule("multi-rail-direct", AG, RS, per_pair=lambda n: n)
def _multi_rail_direct(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Each rank's shard in pieces, cut wherever a domain has a share that ends: piece ``p`` of rank
    ``r`` is r * pieces + p."""
    ends = set[float]()
    for own in set(group.domains):
        ends.update(at / own for at in range(1, own + 1))
    sizes = np.diff([0.0, *sorted(ends)])
    middles = np.array(sorted(ends)) - sizes / 2
    home = np.repeat(np.arange(group.ranks), len(sizes))
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        np.tile(sizes / group.ranks, group.ranks),
        home=home,
        target=home,
        batches=gather_or_reverse(primitive, lambda: _dealt_out(group.domains, middles)),
        streamed=True,
    )


def _dealt_out(domains: Sequence[int], middles: Floats) -> Batches:
    """Across, and one's own inside; then inside what has come.

    ``middles``: of the pieces, as shares of a shard. A piece goes to the rank of each other domain
    whose share it lies in.
    """
    across: list[tuple[int, int, int]] = []  # from a rank to another a piece
    inside: list[tuple[int, int, int]] = []
    for rank, part in np.ndindex(sum(domains), len(middles)):
        piece = rank * len(middles) + part
        first = 0
        for ranks in domains:
            members = range(first, first + ranks)
            if rank in members:
                across += [(rank, other, piece) for other in members if other != rank]
            else:
                taker = first + int(middles[part] * ranks)
                across.append((rank, taker, piece))
                inside += [(taker, other, piece) for other in members if other != taker]
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
