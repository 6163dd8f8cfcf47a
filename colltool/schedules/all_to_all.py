"""All-to-all: chunk ``src * N + dst``, of M/N, goes from src to dst. A rank's chunk to itself stays."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A
from colltool.schedules.program import Batches, Indices, Program, equal_chunks, schedule, step, strides


def _one_peer_after_the_other(group: Group) -> Batches:
    """Step k: a message to the rank k ahead."""
    n = group.ranks
    src = np.arange(n, dtype=np.int64)
    for k in range(1, n):
        dst = (src + k) % n
        yield (step(src, dst, src * n + dst),)


def _by_the_bits_of_the_way(group: Group) -> Batches:
    """Round k: every chunk whose way (dst - src mod N) has bit k goes 2^k ahead; its lower bits are behind it."""
    n, (src, dst) = group.ranks, _ends(group.ranks)
    way = (dst - src) % n
    for stride in strides(n):
        chunk = np.flatnonzero(way & stride)
        here = (src + way % stride)[chunk] % n
        yield (step(here, (here + stride) % n, chunk),)


def _at_once(group: Group) -> Batches:
    n = group.ranks
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src * n + dst),)


def _ends(n: int) -> tuple[Indices, Indices]:
    return np.divmod(np.arange(n * n, dtype=np.int64), n)


def _axis_moves(group: Group) -> Batches:
    """Every chunk to its destination's place on axis 1, then on axis 2, and so on."""
    here, target = _ends(group.ranks)
    for k, axis in enumerate(group.axes):
        if axis.size > 1:
            stride = prod(one.size for one in group.axes[:k])
            there = here + (target // stride % axis.size - here // stride % axis.size) * stride
            moving = np.flatnonzero(here != there)
            yield (step(here[moving], there[moving], moving),)
            here = there


def _all_to_all(moves: Callable[[Group], Batches], group: Group, _segments: int) -> Program:
    return equal_chunks(A2A, group.ranks, group.ranks**2, moves(group))


schedule("pairwise", A2A, per_pair=1)(partial(_all_to_all, _one_peer_after_the_other))
schedule("bruck", A2A)(partial(_all_to_all, _by_the_bits_of_the_way))
schedule("direct", A2A)(partial(_all_to_all, _at_once))
schedule("shortest-path", A2A)(partial(_all_to_all, _at_once))  # a lattice routes them
schedule("dim-by-dim", A2A)(partial(_all_to_all, _axis_moves))
