"""Between domains of different sizes, whose shards do not match across, so that few compositions
run.

NCCL's tree, and an all-gather that keeps every port outside busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from colltool.algorithms.libraries import nccl_inside
from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    gathered,
    schedule,
    step,
)
from colltool.algorithms.registry import MSCCLPP, NCCL_TREES, TWO_TREES, algorithm
from colltool.algorithms.rings import on_rings, paths
from colltool.algorithms.trees import (
    both_ways,
    double_tree,
    edges_of,
    two_trees,
)
from colltool.base.primitives import (
    AG,
    AR,
    RS,
    Dealt,
    Primitive,
    Terms,
    Trees,
    log2_ceil,
)
from colltool.network.arrays import Floats, Indices, np
from colltool.network.group import Group, Topology, all_ports

UNEVEN: frozenset[Topology] = frozenset({"uneven_tiers"})
IN_SWITCHES = ("in-network", "double-binary-tree")
"""What a composition may have between domains of different sizes: switches that reduce, whoever
keeps a share, and trees."""
STANDS_FOR = {"multi-rail-tree": "hierarchical:ring/double-binary-tree"}
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
    domains, rails = group.domains, min(group.domains)
    trees = double_tree(len(domains))
    depth = max(
        own - 1 + _depth(parents, at) for parents in trees for at, own in enumerate(domains)
    )
    beside = max(
        sum((parents[at] >= 0) + parents.count(at) for parents in trees)
        for at in range(len(domains))
    )
    # where a chain begins halves go to other domains and not up the chain
    sent = max(2.0, (2 * rails - 1 + beside / 2) / rails)
    return Terms(
        2 * depth,
        sent,
        Trees(both_ways=True, rails=True),
        fill=max(domains) - rails + log2_ceil(len(domains)),
    )


def walks_over_rails(domains: Sequence[int], *, spread: bool) -> list[Indices]:
    """Of each domain walks through all its ranks, one from each of as many as the smallest has,
    shape (walks, ranks of it).

    Round it, or where these are to ``spread`` over its links over different ones: of an odd number
    two from each share them out.
    """
    rails, found, start, ways = min(domains), [], 0, 1 + any(own % 2 for own in domains)
    for own in domains:
        if spread:
            every = paths(own)
            from_each = every[np.argsort(every[:, 0], kind="stable")].reshape(own, -1, own)[:rails]
            found.append(
                start + np.repeat(from_each, ways // from_each.shape[1], axis=1).reshape(-1, own)
            )
        else:
            found.append(start + np.add.outer(np.arange(rails), np.arange(own)) % own)
        start += own
    return found


def rail_trees(domains: Sequence[int], *, spread: bool) -> Edges:
    """NCCL's trees between domains of such sizes: both over the ranks where walks start, behind
    each of which one is a chain."""
    between, found = two_trees(len(domains)), []
    for walks in zip(*walks_over_rails(domains, spread=spread), strict=True):
        heads = np.array([walk[0] for walk in walks])
        for tree in between:
            parents = np.full(sum(domains), -1)
            parents[heads] = np.where(tree >= 0, heads[tree], -1)
            for walk in walks:
                parents[walk[1:]] = walk[:-1]
            found.append(parents)
    return edges_of(found)


@schedule("multi-rail-ring", AR, AG, RS, per_pair=lambda n: 2 * n)
def _multi_rail_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Between domains of one size that is as prices have it, and not executed."""
    return on_rings(
        primitive, np.concatenate(walks_over_rails(group.domains, spread=group.spread), axis=1)
    )


@schedule("multi-rail-tree", AR)
def _multi_rail_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    """As a double binary tree, of as many pairs of trees as the smallest domain has ranks."""
    return both_ways(
        primitive, group.ranks, rail_trees(group.domains, spread=group.spread), segments
    )


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
    ranks, others = group.ranks, len(group.domains) - 1
    # as all were to leave by one port
    sent = max(others + own - 1 + (ranks - own) * (own - 1) / own for own in group.domains)
    return Terms(2, max(ranks - 1, sent) / ranks, Dealt())


Ends = tuple[int, int, int]  # from a rank to another a piece


@schedule("multi-rail-direct", AG, RS, per_pair=lambda n: n)
def _multi_rail_direct(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Each rank's shard in pieces, cut wherever a domain has a share that ends: piece ``p`` of rank
    ``r`` is r * pieces + p."""
    ends = sorted({at / own for own in set(group.domains) for at in range(1, own + 1)})
    sizes = np.diff([0.0, *ends])
    home = np.repeat(np.arange(group.ranks), len(sizes))
    batches = gathered(primitive, lambda: _dealt(group.domains, np.array(ends) - sizes / 2))
    chunk_bytes = np.tile(sizes / group.ranks, group.ranks)
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        chunk_bytes,
        home=home,
        target=home,
        batches=batches,
        streamed=True,
    )


def _dealt(domains: Sequence[int], middles: Floats) -> Batches:
    """Across, and one's own inside; then inside what has come. ``middles``: of the pieces, as
    shares of a shard."""
    start = [0, *accumulate(domains)]
    across, inside = list[Ends](), list[Ends]()
    for rank, piece in np.ndindex(start[-1], len(middles)):
        for first, own in zip(start, domains, strict=False):
            taker = rank if first <= rank < first + own else first + int(middles[piece] * own)
            others = [one for one in range(first, first + own) if one != taker]
            if taker == rank:
                across += [(rank, one, rank * len(middles) + piece) for one in others]
            else:
                across.append((rank, taker, rank * len(middles) + piece))
                inside += [(taker, one, rank * len(middles) + piece) for one in others]
    for moved in (across, inside):
        if moved:
            yield (step(*np.array(moved).T),)


def _depth(parents: tuple[int, ...], rank: int) -> int:
    depth = 0
    while parents[rank] >= 0:
        rank, depth = parents[rank], depth + 1
    return depth
