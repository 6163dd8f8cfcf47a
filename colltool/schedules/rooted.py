"""Broadcast, reduce and a single send. Rank 0 is the root."""

from collections.abc import Callable
from functools import partial
from itertools import chain as joined
from typing import NamedTuple

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import BC, P2P, REDUCE, Primitive
from colltool.schedules.gather_scatter import gather_on_ring
from colltool.schedules.program import Batches, Indices, Program, Step, backwards, equal_chunks, schedule, step, strides


class Edges(NamedTuple):
    """The edges of both trees, shape (2(n-1),) each."""

    child: Indices
    parent: Indices
    tree: Indices  # 0 or 1
    depth: Indices  # of the child; a root has depth 0


def in_order_parents(n: int) -> Indices:
    """Each rank's parent in a binary tree whose in-order walk is 0, 1, 2 ...; -1 for the root, which is rank 0.

    A rank of lowest set bit b stands midway between two multiples of 2b; the odd multiple is its parent, or the other one where
    that lies beyond the last rank.
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
    out = np.full_like(parents, -1)
    out[places] = np.where(parents >= 0, places[parents], -1)
    return out


def two_trees(n: int) -> tuple[Indices, Indices]:
    """The parents in NCCL's two trees, each with its own root: the second is the first mirrored (n even) or shifted (n odd)."""
    rank = np.arange(n, dtype=np.int64)
    first = in_order_parents(n)
    return first, moved(first, n - 1 - rank if n % 2 == 0 else (rank + 1) % n)


def two_trees_under_one_root(n: int) -> tuple[Indices, Indices]:
    """The parents with rank 0 at both roots; the n-1 others are mirrored (n odd) or shifted among themselves (n even)."""
    rank = np.arange(n, dtype=np.int64)
    first = in_order_parents(n)
    places = n - rank if n % 2 else rank % (n - 1) + 1
    places[0] = 0
    return first, moved(first, places)


def edges(trees: tuple[Indices, Indices]) -> Edges:
    found = []
    for number, parents in enumerate(trees):
        child = np.flatnonzero(parents >= 0)
        found.append((child, parents[child], np.full(len(child), number), depths(parents)[child]))
    return Edges(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def fired(src: Indices, dst: Indices, stream: Indices, first: Indices, segments: int, moment: int, *, add: bool) -> Step:
    """What edges send at a moment: edge e sends segment s of its stream, chunk ``stream * segments + s``, at ``first[e] + s``."""
    segment = moment - first
    live = (segment >= 0) & (segment < segments)
    return step(src[live], dst[live], (stream * segments + segment)[live], add=add)


def down_the_trees(found: Edges, segments: int) -> Batches:
    """Broadcast: the edge to a child of depth d carries segment s in step d-1+s."""
    for moment in range(int(found.depth.max()) + segments - 1):
        yield (fired(found.parent, found.child, found.tree, found.depth - 1, segments, moment, add=False),)


def up_and_down_the_trees(found: Edges, segments: int) -> Batches:
    """Reduce and broadcast, overlapped: with D the deepest, segment s leaves depth d upwards in step D-d+s.

    It is complete at the root after step D-1+s, and reaches depth d again in step D+d-1+s.
    """
    deepest = int(found.depth.max())
    for moment in range(2 * deepest + segments - 1):
        up = fired(found.child, found.parent, found.tree, deepest - found.depth, segments, moment, add=True)
        down = fired(found.parent, found.child, found.tree, deepest + found.depth - 1, segments, moment, add=False)
        yield tuple(one for one in (up, down) if len(one.src))


def _along_the_chain(n: int, segments: int) -> Batches:
    """Rank r sends segment s to rank r+1 in step r+s."""
    rank = np.arange(n - 1, dtype=np.int64)
    for moment in range(n - 2 + segments):
        yield (fired(rank, rank + 1, np.zeros_like(rank), rank, segments, moment, add=False),)


def fan_out(n: int) -> Batches:
    """Binomial tree: every holder of the payload, chunk 0, sends it a stride ahead; the stride halves every round."""
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


def _down_two_trees(n: int, segments: int) -> Batches:
    return down_the_trees(edges(two_trees_under_one_root(n)), segments)


def _from_the_root(primitive: Primitive, streams: int, moves: Callable[[int, int], Batches], group: Group,
                   segments: int) -> Program:  # fmt: skip
    """A broadcast of ``streams`` times P segments, or the reduction that is the same backwards."""
    batches = moves(group.ranks, segments)
    return equal_chunks(primitive, group.ranks, streams * segments, backwards(batches) if primitive is REDUCE else batches)


for _primitive in (BC, REDUCE):
    schedule("chain", _primitive)(partial(_from_the_root, _primitive, 1, _along_the_chain))
    schedule("pipelined-tree", _primitive)(partial(_from_the_root, _primitive, 2, _down_two_trees))


@schedule("binomial", BC, per_pair=1)
def binomial_broadcast(group: Group, _segments: int) -> Program:
    return equal_chunks(BC, group.ranks, 1, fan_out(group.ranks))


@schedule("binomial", REDUCE, per_pair=1)
def binomial_reduce(group: Group, _segments: int) -> Program:
    return equal_chunks(REDUCE, group.ranks, 1, backwards(fan_out(group.ranks)))


@schedule("scatter-allgather", BC)
def scatter_allgather(group: Group, _segments: int) -> Program:
    """Binomial scatter of N blocks, then a ring all-gather that sends ranks even the blocks they have."""
    n = group.ranks
    return equal_chunks(BC, n, n, joined(_scattered(n), gather_on_ring(n)))


@schedule("send", P2P, per_pair=1)
def send(group: Group, _segments: int) -> Program:
    """To the farthest rank: the last one, or on a lattice half round every ring and to the end of every line."""
    far, stride = 0, 1
    for axis in group.axes:
        far += stride * (axis.size // 2 if axis.wrap else axis.size - 1)
        stride *= axis.size
    far = far if group.axes else group.ranks - 1
    return equal_chunks(P2P, group.ranks, 1, iter([(step(0, far, 0),)]))._replace(target=np.array([far]))
