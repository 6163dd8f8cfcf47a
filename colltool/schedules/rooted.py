"""Broadcast and reduce, message by message, and a single send. Rank 0 is the root."""

from itertools import chain as joined

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import BC, P2P, REDUCE, Primitive
from colltool.schedules.double_tree import down_the_trees, edges, fired, two_trees_under_one_root
from colltool.schedules.gather_scatter import Batches, backwards, gather_on_ring, strides
from colltool.schedules.registry import schedule
from colltool.schedules.step import Program, step


def _program(primitive: Primitive, n: int, chunks: int, batches: Batches) -> Program:
    """A schedule on equal chunks, all at home on rank 0."""
    root = np.zeros(chunks, dtype=np.int64)
    return Program(
        primitive=primitive, ranks=n, nodes=n, chunk_bytes=np.full(chunks, 1 / chunks), home=root, target=root, batches=batches
    )


def _along_the_chain(n: int, segments: int) -> Batches:
    """Rank r passes segment s on to rank r+1 in step r+s."""
    rank = np.arange(n - 1, dtype=np.int64)
    for moment in range(n - 2 + segments):
        yield (fired(rank, rank + 1, np.zeros_like(rank), rank, segments, moment, add=False),)


def fan_out(n: int) -> Batches:
    """Binomial tree: whoever holds the payload, chunk 0, sends it a stride ahead, to the farthest first; the stride halves."""
    for stride in reversed(strides(n)):
        rank = np.arange(0, n - stride, 2 * stride, dtype=np.int64)
        yield (step(rank, rank + stride, 0),)


def _scattered(n: int) -> Batches:
    """Binomial scatter: a rank that holds a block of chunks gives away the half that starts a stride ahead."""
    chunk = np.arange(n, dtype=np.int64)
    for stride in reversed(strides(n)):
        far = chunk[chunk // stride % 2 == 1]
        home = far // stride * stride
        yield (step(home - stride, home, far),)


@schedule("chain", BC)
def chain_broadcast(group: Group, segments: int) -> Program:
    """From rank to rank, segment behind segment."""
    return _program(BC, group.ranks, segments, _along_the_chain(group.ranks, segments))


@schedule("chain", REDUCE)
def chain_reduce(group: Group, segments: int) -> Program:
    """From the last rank to the first, adding on the way, segment behind segment."""
    return _program(REDUCE, group.ranks, segments, backwards(_along_the_chain(group.ranks, segments)))


@schedule("binomial", BC, per_pair=1)
def binomial_broadcast(group: Group, _segments: int) -> Program:
    """Those who have it double in every round, as in MPICH: the first of each block sends to the middle of it."""
    return _program(BC, group.ranks, 1, fan_out(group.ranks))


@schedule("binomial", REDUCE, per_pair=1)
def binomial_reduce(group: Group, _segments: int) -> Program:
    """Those who still hold a partial sum halve in every round."""
    return _program(REDUCE, group.ranks, 1, backwards(fan_out(group.ranks)))


@schedule("pipelined-tree", BC)
def pipelined_tree_broadcast(group: Group, segments: int) -> Program:
    """Two complementary trees under one root, each with half of the payload in P segments."""
    trees = edges(two_trees_under_one_root(group.ranks))
    return _program(BC, group.ranks, 2 * segments, down_the_trees(trees, segments))


@schedule("pipelined-tree", REDUCE)
def pipelined_tree_reduce(group: Group, segments: int) -> Program:
    """The same two trees, from the leaves to the root."""
    trees = edges(two_trees_under_one_root(group.ranks))
    return _program(REDUCE, group.ranks, 2 * segments, backwards(down_the_trees(trees, segments)))


@schedule("scatter-allgather", BC)
def scatter_allgather(group: Group, _segments: int) -> Program:
    """Binomial scatter of N blocks, then all-gather on a ring; ranks take no notice of the blocks that they have already."""
    n = group.ranks
    return _program(BC, n, n, joined(_scattered(n), gather_on_ring(n)))


@schedule("send", P2P, per_pair=1)
def send(group: Group, _segments: int) -> Program:
    """From rank 0 to the farthest rank: the last one, or on a lattice half round every ring and to the end of every line."""
    far, stride = 0, 1
    for axis in group.axes:
        far += stride * (axis.size // 2 if axis.wrap else axis.size - 1)
        stride *= axis.size
    far = far if group.axes else group.ranks - 1
    return Program(
        primitive=P2P,
        ranks=group.ranks,
        nodes=group.ranks,
        chunk_bytes=np.ones(1),
        home=np.array([0]),
        target=np.array([far]),
        batches=iter([(step(0, far, 0),)]),
    )
