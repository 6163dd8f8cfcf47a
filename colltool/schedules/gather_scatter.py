"""All-gather and reduce-scatter: N chunks of M/N; rank c starts or ends with chunk c."""

from collections.abc import Callable
from functools import partial

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import AG, RS, Primitive
from colltool.schedules.lattice import embedded_ring
from colltool.schedules.program import Batches, Program, backwards, equal_chunks, schedule, step, strides


def gather_on_ring(n: int) -> Batches:
    """Step k: every rank passes on the chunk of the rank k places behind it."""
    rank = np.arange(n, dtype=np.int64)
    for k in range(n - 1):
        yield (step(rank, (rank + 1) % n, (rank - k) % n),)


def scatter_on_ring(n: int) -> Batches:
    """Step k: every rank passes on its partial sum of the chunk that belongs k+1 places behind it."""
    rank = np.arange(n, dtype=np.int64)
    for k in range(n - 1):
        yield (step(rank, (rank + 1) % n, (rank - k - 1) % n, add=True),)


def gather_by_doubling(n: int) -> Batches:
    """Swap all that is held, an aligned block, with partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)[:, None]
    for stride in strides(n):
        held = rank // stride * stride + np.arange(stride)
        yield (step(*np.broadcast_arrays(rank, rank ^ stride, held)),)


def gather_far_first(n: int) -> Batches:
    """PAT: send the rank at distance N/2 .. 2, 1 ahead every chunk whose offset there stays below N.

    A rank holds the chunks at a set of offsets behind it, at first 0 alone; each round adds the set shifted by the distance.
    """
    rank, offsets = np.arange(n, dtype=np.int64)[:, None], np.zeros(1, dtype=np.int64)
    for stride in reversed(strides(n)):
        sent = offsets[offsets + stride < n]
        yield (step(*np.broadcast_arrays(rank, (rank + stride) % n, (rank - sent) % n)),)
        offsets = np.union1d(offsets, sent + stride)


def gather_direct(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src),)


@schedule("ring", AG, per_pair=1)
def ring_gather(group: Group, _segments: int) -> Program:
    return embedded_ring(AG, group) if group.axes else equal_chunks(AG, group.ranks, group.ranks, gather_on_ring(group.ranks))


@schedule("ring", RS, per_pair=1)
def ring_scatter(group: Group, _segments: int) -> Program:
    return embedded_ring(RS, group) if group.axes else equal_chunks(RS, group.ranks, group.ranks, scatter_on_ring(group.ranks))


def _gathered(primitive: Primitive, gather: Callable[[int], Batches], group: Group, _segments: int) -> Program:
    n = group.ranks
    return equal_chunks(primitive, n, n, backwards(gather(n)) if primitive is RS else gather(n))


schedule("recursive-doubling", AG)(partial(_gathered, AG, gather_by_doubling))
schedule("recursive-halving", RS)(partial(_gathered, RS, gather_by_doubling))
for _primitive in (AG, RS):
    schedule("pat", _primitive)(partial(_gathered, _primitive, gather_far_first))
    schedule("direct", _primitive)(partial(_gathered, _primitive, gather_direct))
