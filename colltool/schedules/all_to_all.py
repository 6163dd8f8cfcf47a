"""All-to-all: chunk ``src * N + dst``, of M/N, goes from src to dst. A rank's chunk to itself stays."""

from math import prod

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A
from colltool.schedules.program import Batches, Indices, Program, Step, equal_chunks, schedule, step, strides


def _one_peer_after_the_other(n: int) -> Batches:
    """Step k: a message to the rank k ahead."""
    src = np.arange(n, dtype=np.int64)
    for k in range(1, n):
        dst = (src + k) % n
        yield (step(src, dst, src * n + dst),)


def _by_the_bits_of_the_way(n: int) -> Batches:
    """Round k: every chunk whose way (dst - src mod N) has bit k goes 2^k ahead; its lower bits are behind it."""
    src, dst = _ends(n)
    way = (dst - src) % n
    for stride in strides(n):
        chunk = np.flatnonzero(way & stride)
        here = (src + way % stride)[chunk] % n
        yield (step(here, (here + stride) % n, chunk),)


def _at_once(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src * n + dst),)


@schedule("pairwise", A2A, per_pair=1)
def pairwise(group: Group, _segments: int) -> Program:
    return equal_chunks(A2A, group.ranks, group.ranks**2, _one_peer_after_the_other(group.ranks))


@schedule("bruck", A2A)
def bruck(group: Group, _segments: int) -> Program:
    return equal_chunks(A2A, group.ranks, group.ranks**2, _by_the_bits_of_the_way(group.ranks))


@schedule("direct", A2A)
def direct(group: Group, _segments: int) -> Program:
    return equal_chunks(A2A, group.ranks, group.ranks**2, _at_once(group.ranks))


def _ends(n: int) -> tuple[Indices, Indices]:
    return np.divmod(np.arange(n * n, dtype=np.int64), n)


def _move(before: Indices, after: Indices) -> tuple[Step, ...]:
    """Every chunk that is not yet in place, at once."""
    moving = np.flatnonzero(before != after)
    return (step(before[moving], after[moving], moving),)


@schedule("shortest-path", A2A)
def shortest_path(group: Group, _segments: int) -> Program:
    """All messages at once; the lattice routes them."""
    return equal_chunks(A2A, group.ranks, group.ranks**2, iter([_move(*_ends(group.ranks))]))


@schedule("dim-by-dim", A2A)
def dim_by_dim(group: Group, _segments: int) -> Program:
    """Every chunk to its destination's place on axis 1, then on axis 2, and so on."""
    return equal_chunks(A2A, group.ranks, group.ranks**2, _axis_moves(group))


def _axis_moves(group: Group) -> Batches:
    here, target = _ends(group.ranks)
    for k, axis in enumerate(group.axes):
        if axis.size > 1:
            stride = prod(one.size for one in group.axes[:k])
            there = here + (target // stride % axis.size - here // stride % axis.size) * stride
            yield _move(here, there)
            here = there
