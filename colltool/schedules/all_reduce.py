"""All-reduce, message by message."""

from itertools import chain as joined

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import AR
from colltool.schedules.double_tree import edges, two_trees, up_and_down_the_trees
from colltool.schedules.gather_scatter import (
    Batches,
    backwards,
    gather_by_doubling,
    gather_direct,
    gather_on_ring,
    scatter_on_ring,
    strides,
)
from colltool.schedules.lattice_flat import embedded_ring
from colltool.schedules.registry import schedule
from colltool.schedules.rooted import fan_out
from colltool.schedules.step import Program, step


def _program(n: int, chunks: int, batches: Batches) -> Program:
    """A schedule on equal chunks."""
    nowhere = np.zeros(chunks, dtype=np.int64)
    return Program(
        primitive=AR, ranks=n, nodes=n, chunk_bytes=np.full(chunks, 1 / chunks), home=nowhere, target=nowhere, batches=batches
    )


def exchanged(n: int) -> Batches:
    """The whole vector, chunk 0, swapped with the partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)
    for stride in strides(n):
        yield (step(rank, rank ^ stride, 0, add=True),)


@schedule("ring", AR, per_pair=1)
def ring(group: Group, _segments: int) -> Program:
    """Twice around the ring, once adding, once copying; on a lattice along its links."""
    n = group.ranks
    return embedded_ring(AR, group) if group.axes else _program(n, n, joined(scatter_on_ring(n), gather_on_ring(n)))


@schedule("tree", AR)
def tree(group: Group, _segments: int) -> Program:
    """Up one binomial tree with sums, and down again with the result."""
    return _program(group.ranks, 1, joined(backwards(fan_out(group.ranks)), fan_out(group.ranks)))


@schedule("double-binary-tree", AR)
def double_binary_tree(group: Group, segments: int) -> Program:
    """Half of the vector up and down each of two complementary trees, in P segments; both directions overlap."""
    trees = edges(two_trees(group.ranks))
    return _program(group.ranks, 2 * segments, up_and_down_the_trees(trees, segments))


@schedule("recursive-doubling", AR)
def recursive_doubling(group: Group, _segments: int) -> Program:
    """Everybody swaps and adds; N a power of two."""
    return _program(group.ranks, 1, exchanged(group.ranks))


@schedule("rabenseifner", AR)
def rabenseifner(group: Group, _segments: int) -> Program:
    """Reduce-scatter by halving, all-gather by doubling; N a power of two."""
    n = group.ranks
    return _program(n, n, joined(backwards(gather_by_doubling(n)), gather_by_doubling(n)))


@schedule("one-shot", AR)
def one_shot(group: Group, _segments: int) -> Program:
    """Every rank's whole vector to every other rank."""
    src, dst = np.nonzero(~np.eye(group.ranks, dtype=bool))
    return _program(group.ranks, 1, iter([(step(src, dst, 0, add=True),)]))


@schedule("two-shot", AR)
def two_shot(group: Group, _segments: int) -> Program:
    """Every rank adds up one chunk and hands it to all others."""
    n = group.ranks
    return _program(n, n, joined(backwards(gather_direct(n)), gather_direct(n)))
