"""Between domains of different sizes, whose shards do not match across, so that few compositions
run.

NCCL's tree, and an all-gather that keeps every port outside busy.
"""

from __future__ import annotations

from colltool.algorithms.libraries import nccl_inside
from colltool.algorithms.registry import MSCCLPP, NCCL_TREES, TWO_TREES, algorithm
from colltool.algorithms.rooted import double_tree
from colltool.base.primitives import AG, AR, RS, Dealt, Terms, Trees, log2_ceil
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


def _depth(parents: tuple[int, ...], rank: int) -> int:
    depth = 0
    while parents[rank] >= 0:
        rank, depth = parents[rank], depth + 1
    return depth
