"""Collectives by trees, chains and switches, and a single send. Rank 0 is the root."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    backwards,
    equal_chunks,
    fired,
    moves,
    pipelined,
    schedule,
    step,
    strides,
)
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.network.arrays import (
    Indices,
)
from colltool.network.group import Group
from colltool.network.twisted_links import farthest_rank
from colltool.schedules.gather_scatter import gather_on_ring, rings


def in_order_parents(n: int) -> Indices:
    """Each rank's parent in a binary tree whose in-order walk is 0, 1, 2 ...; -1 for the root,
    which is rank 0.

    A rank of lowest set bit b stands midway between two multiples of 2b; the odd multiple is its
    parent, or the other one where that lies beyond the last rank.
    """
    rank = np.arange(n, dtype=np.int64)
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    parents: Indices = np.where(up < n, up, rank ^ bit)
    parents[0] = -1
    return parents


def depths(parents: Indices) -> Indices:
    depth, at = np.zeros_like(parents), parents.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parents[at], -1)
    return depth


def moved(parents: Indices, places: Indices) -> Indices:
    """The same tree over other ranks: ``places[r]`` stands where r stood."""
    out = np.full_like(parents, -1)
    out[places] = np.where(parents >= 0, places[parents], -1)
    return out


def two_trees(n: int) -> tuple[Indices, Indices]:
    """The parents in NCCL's two trees, each with its own root: the second is the first mirrored (n
    even) or shifted (n odd)."""
    rank, first = np.arange(n, dtype=np.int64), in_order_parents(n)
    return first, moved(first, n - 1 - rank if n % 2 == 0 else (rank + 1) % n)


def two_trees_under_one_root(n: int) -> tuple[Indices, Indices]:
    """The parents with rank 0 at both roots; the n-1 others are mirrored (n odd) or shifted among
    themselves (n even)."""
    rank, first = np.arange(n, dtype=np.int64), in_order_parents(n)
    places = n - rank if n % 2 else rank % (n - 1) + 1
    places[0] = 0
    return first, moved(first, places)


def edges_of(trees: Sequence[Indices]) -> Edges:
    """The edges of trees, each a stream of its own, from the parent of every rank; -1 for a
    root."""
    child = [np.flatnonzero(parents >= 0) for parents in trees]
    ends = [
        (some, parents[some], depths(parents)[some])
        for some, parents in zip(child, trees, strict=True)
    ]
    child_, parent, depth = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return Edges(
        child_, parent, np.repeat(np.arange(len(trees)), [len(some) for some in child]), depth
    )


@schedule("pipelined-tree", BC, REDUCE)
def _pipelined_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    return pipelined(
        primitive, group.ranks, segments, edges_of(two_trees_under_one_root(group.ranks))
    )


@schedule("double-binary-tree", AR)
def _double_binary_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    """Half of the vector on each tree, in P segments; up and down overlap.

    With D the deepest, segment s leaves depth d upwards in step D-d+s. It is complete at the root
    after step D-1+s, and reaches depth d again in step D+d-1+s.
    """
    return both_ways(primitive, group.ranks, edges_of(two_trees(group.ranks)), segments)


def both_ways(primitive: Primitive, ranks: int, edges: Edges, segments: int) -> Program:
    deepest = int(edges.depth.max())

    def up_and_down() -> Batches:
        for moment in range(2 * deepest + segments - 1):
            up = fired(edges, deepest - edges.depth, segments, moment, up=True)
            down = fired(edges, deepest + edges.depth - 1, segments, moment)
            yield tuple(one for one in (up, down) if len(one.src))

    return equal_chunks(primitive, ranks, (int(edges.stream.max()) + 1) * segments, up_and_down())


@schedule("chain", BC, REDUCE)
def _chain(primitive: Primitive, group: Group, segments: int) -> Program:
    return in_line(primitive, np.arange(group.ranks), segments)


def in_line(primitive: Primitive, line: Indices, segments: int) -> Program:
    """Segment behind segment from rank to rank in this order, the root first."""
    place = np.arange(1, len(line))
    return pipelined(primitive, len(line), segments, Edges(line[1:], line[:-1], 0 * place, place))


@schedule("multi-link-chain", BC, REDUCE, per_pair=lambda n: 2 * n)
def _multi_link_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    """The rings, cut at rank 0."""
    around = rings(group.ranks)
    ring, place = (one.ravel() for one in np.indices((len(around), group.ranks - 1)))
    return pipelined(
        primitive,
        group.ranks,
        segments,
        Edges(around[ring, place + 1], around[ring, place], ring, place + 1),
    )


@moves("binomial", BC, REDUCE, chunks=1, per_pair=1)
@moves("tree", AR, chunks=1)
def _fan_out(n: int) -> Batches:
    """Binomial tree: every holder of the payload, chunk 0, sends it a stride ahead; the stride
    halves every round."""
    for stride in reversed(strides(n)):
        rank = np.arange(0, n - stride, 2 * stride, dtype=np.int64)
        yield (step(rank, rank + stride, 0),)


def _scattered(n: int) -> Batches:
    """Binomial scatter: every holder of a block gives away the half that starts a stride ahead."""
    chunk = np.arange(n, dtype=np.int64)
    for stride in reversed(strides(n)):
        far = chunk[chunk // stride % 2 == 1]
        home = far // stride * stride
        yield (step(home - stride, home, far),)


@moves("scatter-allgather", BC)
def _scatter_allgather(n: int) -> Batches:
    """Binomial scatter of N blocks, then a ring all-gather that sends ranks even the blocks they
    have."""
    return chain(_scattered(n), gather_on_ring(np.arange(n, dtype=np.int64)))


@schedule("send", P2P, per_pair=1)
def _send(primitive: Primitive, group: Group, _segments: int) -> Program:
    """To the farthest rank: the last one, or on a lattice half round every ring and to the end of
    every line.

    On a twisted torus, the rank with the longest way.
    """
    far, stride = 0, 1
    for axis in group.axes:
        far += stride * (axis.size // 2 if axis.wrap else axis.size - 1)
        stride *= axis.size
    far = (
        farthest_rank(group.axes)
        if any(axis.twist for axis in group.axes)
        else far
        if group.axes
        else group.ranks - 1
    )
    return equal_chunks(primitive, group.ranks, 1, iter([(step(0, far, 0),)]))._replace(
        target=np.array([far])
    )


@schedule("in-network", *(AR, AG, RS, BC, REDUCE, A2A))
def _in_network(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Inside one switch, node N, cut through: up from the ranks and down to them, but for what a
    rank can keep."""
    n = group.ranks
    chunks = {A2A: n * n, AG: n, RS: n}.get(primitive, 1)
    rank, chunk = np.arange(n), np.arange(chunks)
    if primitive is AR:
        up, down = step(rank, n, 0, add=True), step(n, rank, 0)
    elif primitive is A2A:
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        up, down = step(src, n, src * n + dst), step(n, dst, src * n + dst)
    else:  # a multicast: every chunk up once from its home, and down to all other ranks
        dst, of = np.nonzero(rank[:, None] != chunk)
        up, down = step(chunk, n, chunk), step(n, dst, of)
    batches: Batches = iter([(up,), (down,)])
    if primitive in (RS, REDUCE):
        batches = backwards(batches)
    return equal_chunks(primitive, n, chunks, batches, nodes=n + 1, streamed=True)


@schedule("parameter-server", AR)
def _through_servers(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Every rank sends 1/K of its vector to each of K servers and gets that part of the sum
    back."""
    n, k = group.ranks, group.servers
    rank, part = (ends.ravel() for ends in np.meshgrid(np.arange(n), np.arange(k)))
    there_and_back: Batches = iter(
        [(step(rank, n + part, part, add=True),), (step(n + part, rank, part),)]
    )
    return equal_chunks(primitive, n, k, there_and_back, nodes=n + k, streamed=True, servers=k)
