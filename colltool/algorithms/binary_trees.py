"""Pairs of binary trees in which no rank is interior twice, and the messages that pass their edges.

A tree is the parent of every rank, -1 for a root.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from colltool.algorithms.program import Batches, Edges, Program, equal_chunks, fired, pipelined
from colltool.base.primitives import Primitive, ceil_div
from colltool.network.arrays import Indices, np

Parents = tuple[int, ...]


def _in_order(ranks: int) -> Parents:
    """The binary tree whose in-order walk is 0, 1, 2 ..., with rank 0 as its root.

    The lowest set bit b of a rank is its height. Its parent is at distance b, on the side where the
    next bit is clear, or on the other one when that side lies beyond the last rank.
    """
    parents = [-1]
    for rank in range(1, ranks):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        if parent >= ranks:
            parent = rank ^ bit
        parents.append(parent)
    return tuple(parents)


def _relabelled(parents: Parents, places: Sequence[int]) -> Parents:
    """The same tree over other ranks: ``places[r]`` takes the place of rank r."""
    relabelled = [-1] * len(parents)
    for rank, parent in enumerate(parents):
        if parent >= 0:
            relabelled[places[rank]] = places[parent]
    return tuple(relabelled)


@lru_cache(maxsize=64)
def double_tree(ranks: int) -> tuple[Parents, Parents]:
    """NCCL's two complementary trees, each with a root of its own: the second is the first mirrored
    (N even) or shifted by one (N odd)."""
    first = _in_order(ranks)
    if ranks % 2 == 0:
        places = [ranks - 1 - rank for rank in range(ranks)]
    else:
        places = [(rank + 1) % ranks for rank in range(ranks)]
    return first, _relabelled(first, places)


@lru_cache(maxsize=64)
def trees_under_one_root(ranks: int) -> tuple[Parents, Parents]:
    """Two trees with rank 0 at both roots, as one payload needs it: the other ranks are mirrored (N
    odd) or shifted among themselves (N even)."""
    first = _in_order(ranks)
    if ranks % 2:
        others = [ranks - rank for rank in range(1, ranks)]
    else:
        others = [rank % (ranks - 1) + 1 for rank in range(1, ranks)]
    return first, _relabelled(first, [0, *others])


@lru_cache(maxsize=256)
def edges_leaving(ranks: int, domain: int, *, both_ways: bool) -> int:
    """The most messages of half the payload that leave or enter any domain of consecutive ranks,
    over both trees.

    A broadcast sends each out of the parent's domain into the child's, a reduction the other way:
    the busier direction of the uplinks counts. With ``both_ways`` both run at once, and either
    end's domain sends one.
    """
    # The last domain may be filled in part.
    domains = ceil_div(ranks, domain)
    sent = [0] * domains
    received = [0] * domains
    for parents in double_tree(ranks) if both_ways else trees_under_one_root(ranks):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                sent[parent // domain] += 1
                received[child // domain] += 1
    if both_ways:
        return max(map(sum, zip(sent, received, strict=True)))
    return max(*sent, *received)


def two_trees(ranks: int) -> tuple[Indices, Indices]:
    """:func:`double_tree` as arrays."""
    first, second = double_tree(ranks)
    return np.array(first), np.array(second)


def two_trees_under_one_root(ranks: int) -> tuple[Indices, Indices]:
    """:func:`trees_under_one_root` as arrays."""
    first, second = trees_under_one_root(ranks)
    return np.array(first), np.array(second)


def moved(parents: Indices, places: Indices) -> Indices:
    """The same tree over other ranks: ``places[r]`` takes the place of rank r."""
    relabelled = np.full_like(parents, -1)
    relabelled[places] = np.where(parents >= 0, places[parents], -1)
    return relabelled


def depths(parents: Indices) -> Indices:
    """The number of edges between each rank and its root."""
    depth = np.zeros_like(parents)
    ancestor = parents.copy()
    while (ancestor >= 0).any():
        depth += ancestor >= 0
        ancestor = np.where(ancestor >= 0, parents[ancestor], -1)
    return depth


def edges_of(trees: Sequence[Indices]) -> Edges:
    """The edges of trees, each of them a stream of its own."""
    edges = []
    for number, parents in enumerate(trees):
        child = np.flatnonzero(parents >= 0)
        stream = np.full(len(child), number)
        edges.append(Edges(child, parents[child], stream, depths(parents)[child]))
    return Edges(*(np.concatenate(column) for column in zip(*edges, strict=True)))


def both_ways(primitive: Primitive, ranks: int, edges: Edges, segments: int) -> Program:
    """An all-reduce up and down trees at once, each with its part of the vector.

    With D the deepest, segment s leaves depth d upwards in step D-d+s. It is complete at the root
    after step D-1+s, and reaches depth d again in step D+d-1+s.
    """
    deepest = int(edges.depth.max())
    streams = int(edges.stream.max()) + 1

    def up_and_down() -> Batches:
        for moment in range(2 * deepest + segments - 1):
            up = fired(edges, deepest - edges.depth, segments, moment, up=True)
            down = fired(edges, deepest + edges.depth - 1, segments, moment)
            # At the first moments nothing goes down yet, at the last ones nothing up.
            yield tuple(step for step in (up, down) if len(step.src))

    return equal_chunks(primitive, ranks, streams * segments, up_and_down())


def in_line(primitive: Primitive, line: Indices, segments: int) -> Program:
    """Segment behind segment from rank to rank in this order, the root first."""
    depth = np.arange(1, len(line))
    edges = Edges(line[1:], line[:-1], np.zeros_like(depth), depth)
    return pipelined(primitive, len(line), segments, edges)
