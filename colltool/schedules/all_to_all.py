"""All-to-all, message by message: chunk ``src * N + dst``, of M/N, goes from src to dst. A rank's chunk to itself stays."""

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A
from colltool.schedules.gather_scatter import Batches, strides
from colltool.schedules.registry import schedule
from colltool.schedules.step import Program, step


def _program(n: int, batches: Batches) -> Program:
    src, dst = np.divmod(np.arange(n * n, dtype=np.int64), n)
    return Program(primitive=A2A, ranks=n, nodes=n, chunk_bytes=np.full(n * n, 1 / n), home=src, target=dst, batches=batches)


def _one_peer_after_the_other(n: int) -> Batches:
    """Step k: a message to the rank k ahead."""
    src = np.arange(n, dtype=np.int64)
    for k in range(1, n):
        dst = (src + k) % n
        yield (step(src, dst, src * n + dst),)


def _by_the_bits_of_the_way(n: int) -> Batches:
    """Round k: every chunk whose way (dst - src modulo N) has bit k goes 2^k ahead; it has the lower bits behind it."""
    src, dst = np.divmod(np.arange(n * n, dtype=np.int64), n)
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
    """One peer after the other."""
    return _program(group.ranks, _one_peer_after_the_other(group.ranks))


@schedule("bruck", A2A)
def bruck(group: Group, _segments: int) -> Program:
    """Chunks are passed on by powers of two."""
    return _program(group.ranks, _by_the_bits_of_the_way(group.ranks))


@schedule("direct", A2A)
def direct(group: Group, _segments: int) -> Program:
    """All peers at once."""
    return _program(group.ranks, _at_once(group.ranks))
