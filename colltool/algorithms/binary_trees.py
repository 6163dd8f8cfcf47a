"""Pairs of binary trees in which no rank is an interior node of both, and pipelines over their edges.

A tree is given by the parent of every rank, -1 for its root: as a tuple for prices, which load no
numpy, and as an array for schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from colltool.algorithms.program import Batches, Edges, Program, edges_at, equal_chunks, pipelined
from colltool.base.primitives import Primitive, ceil_div
from colltool.network.arrays import Indices, np

Parents = tuple[int, ...]  # the parent of each rank


def _in_order_tree(ranks: int) -> Parents:
    """The binary tree whose in-order traversal is 1, 2, 3 ..., below rank 0 as its root.

    The lowest set bit b of a rank gives its height. Its parent is at distance b: on the side that
    clears b and sets the next bit, or on the other side if that is beyond the last rank.
    """
    parents = [-1]
    for rank in range(1, ranks):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        if parent >= ranks:
            parent = rank ^ bit
        parents.append(parent)
    return tuple(parents)


def _relabel(parents: Parents, new: Sequence[int]) -> Parents:
    """Make a tree with rank r replaced by rank ``new[r]``; :func:`relabelled_array` does it to arrays."""
    relabelled = [-1] * len(parents)
    for rank, parent in enumerate(parents):
        if parent >= 0:
            relabelled[new[rank]] = new[parent]
    return tuple(relabelled)


@lru_cache(maxsize=64)
def double_tree(ranks: int) -> tuple[Parents, Parents]:
    """NCCL's double binary tree: two trees with different roots, the second of which is the first
    mirrored (N even) or shifted by one rank (N odd)."""
    first = _in_order_tree(ranks)
    if ranks % 2 == 0:
        new = [ranks - 1 - rank for rank in range(ranks)]
    else:
        new = [(rank + 1) % ranks for rank in range(ranks)]
    return first, _relabel(first, new)


@lru_cache(maxsize=64)
def one_root_trees(ranks: int) -> tuple[Parents, Parents]:
    """Two trees that both have rank 0 as root, for a broadcast or reduction: in the second the other
    ranks are mirrored (N odd) or shifted by one (N even)."""
    first = _in_order_tree(ranks)
    if ranks % 2:
        others = [ranks - rank for rank in range(1, ranks)]
    else:
        others = [rank % (ranks - 1) + 1 for rank in range(1, ranks)]
    return first, _relabel(first, [0, *others])


@lru_cache(maxsize=256)
def most_edges_leaving(ranks: int, domain: int, *, both_ways: bool) -> int:
    """The most edges of both trees that cross the border of any domain, in its busier direction.

    Each edge carries half of the payload. Domains are ``domain`` consecutive ranks; the last may
    have fewer. A broadcast passes an edge out of the parent's domain into the child's, a reduction
    the other way. With ``both_ways`` both run at once, and each edge is used in both directions.
    """
    domains = ceil_div(ranks, domain)
    sent = [0] * domains
    received = [0] * domains
    for parents in double_tree(ranks) if both_ways else one_root_trees(ranks):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                sent[parent // domain] += 1
                received[child // domain] += 1
    if both_ways:
        return max(map(sum, zip(sent, received, strict=True)))
    return max(*sent, *received)


def double_tree_arrays(ranks: int) -> list[Indices]:
    """:func:`double_tree` as arrays of shape (N,)."""
    return list(map(np.array, double_tree(ranks)))


def one_root_tree_arrays(ranks: int) -> list[Indices]:
    """:func:`one_root_trees` as arrays of shape (N,)."""
    return list(map(np.array, one_root_trees(ranks)))


def relabelled_array(parents: Indices, new: Indices) -> Indices:
    """A tree with rank r replaced by rank ``new[r]``."""
    relabelled = np.full_like(parents, -1)
    relabelled[new] = np.where(parents >= 0, new[parents], -1)
    return relabelled


def depths(parents: Indices) -> Indices:
    """The number of edges between each rank and its root, shape (N,)."""
    ancestor = parents.copy()
    depth = np.where(parents >= 0, 1, 0)
    # each round looks twice as far up
    while len(below := np.flatnonzero(ancestor >= 0)):
        depth[below] += depth[ancestor[below]]
        ancestor[below] = ancestor[ancestor[below]]
    return depth


def edges_of(trees: Sequence[Indices]) -> Edges:
    """The edges of all trees, tree by tree; the stream of each is the number of its tree. Every tree is
    given by its parents."""
    edges = []
    for number, parents in enumerate(trees):
        child = np.flatnonzero(parents >= 0)
        stream = np.full(len(child), number)
        edges.append(Edges(child, parents[child], stream, depths(parents)[child]))
    return Edges(*(np.concatenate(column) for column in zip(*edges, strict=True)))


def tree_all_reduce(primitive: Primitive, ranks: int, edges: Edges, segments: int) -> Program:
    """An all-reduce up and down each of several trees, which share the vector evenly.

    With D the largest depth, segment s leaves depth d upwards in step D-d+s. It is complete at the root
    after step D-1+s, and reaches depth d again in step D+d-1+s.
    """
    deepest = int(edges.depth.max())
    streams = int(edges.stream.max()) + 1

    def up_and_down() -> Batches:
        for time in range(2 * deepest + segments - 1):
            up = edges_at(edges, deepest - edges.depth, segments, time, up=True)
            down = edges_at(edges, deepest + edges.depth - 1, segments, time)
            # In the first steps nothing goes down yet, in the last ones nothing goes up.
            yield tuple(step for step in (up, down) if len(step.src))

    return equal_chunks(primitive, ranks, streams * segments, up_and_down())


def chain_program(primitive: Primitive, line: Indices, segments: int) -> Program:
    """A pipelined broadcast or reduction along a chain of ranks, the root first."""
    depth = np.arange(1, len(line))
    edges = Edges(line[1:], line[:-1], np.zeros_like(depth), depth)
    return pipelined(primitive, len(line), segments, edges)
