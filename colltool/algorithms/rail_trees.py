"""NCCL's tree between domains of different sizes, where no composition runs: shards do not match across."""

from __future__ import annotations

from colltool.algorithms.group import Group, Topology
from colltool.algorithms.libraries import nccl_inside
from colltool.algorithms.registry import NCCL_TREES, TWO_TREES, algorithm
from colltool.base.primitives import AR, Terms, Trees, log2_ceil

UNEVEN: frozenset[Topology] = frozenset({"uneven_tiers"})
IN_SWITCHES = ("in-network", "double-binary-tree")
"""What a composition may have between domains of different sizes: switches that reduce, whoever keeps a share, and trees."""
STANDS_FOR = {"multi-rail-tree": "hierarchical:ring/double-binary-tree"}
"""Between domains of different sizes, and the composition that it is between those of one."""


@algorithm(
    "multi-rail-tree",
    AR,
    on=UNEVEN,
    shipped_by=("NCCL", "RCCL"),
    limits=(nccl_inside,),
    source=f"{TWO_TREES}; {NCCL_TREES}",
    equation="t = 2(max n_i - 1) α_inner + 2 lg D α_outer + load M/BW of the busiest port (asymptotic)",
)
def multi_rail_tree(group: Group) -> Terms:
    """NCCL's tree between D domains of different sizes: R times with M/R, R the ranks of the smallest.

    In a domain a chain of its ranks, each time from another one on; between those where the chains begin a double binary tree.
    Sums up and back down overlap; executed, filling costs no more than F = max n_i - min n_i + lg D. Between domains of one size
    that is hierarchical:ring/double-binary-tree.

    >>> multi_rail_tree(Group(15, "uneven_tiers", domains=(8, 7)))[:2]
    (16, 2.0)
    """
    depth = max(
        own - 1 + in_tree
        for depths in two_tree_depths(len(group.domains))
        for own, in_tree in zip(group.domains, depths, strict=True)
    )
    fill = max(group.domains) - min(group.domains) + log2_ceil(len(group.domains))
    return Terms(2 * depth, 2.0, Trees(both_ways=True, rails=True), fill=fill)


def two_tree_depths(ranks: int) -> tuple[list[int], list[int]]:
    """How deep each rank is in both of NCCL's trees: in order, and that mirrored or, of an odd number, shifted."""
    first = [_depth(rank, ranks) for rank in range(ranks)]
    return first, first[::-1] if ranks % 2 == 0 else first[-1:] + first[:-1]


def _depth(rank: int, ranks: int) -> int:
    """In the binary tree that is 0, 1, 2 ... in order, below rank 0."""
    depth = 0
    while rank:
        bit = rank & -rank
        up = rank ^ bit | bit << 1
        rank, depth = up if up < ranks else rank ^ bit, depth + 1
    return depth
