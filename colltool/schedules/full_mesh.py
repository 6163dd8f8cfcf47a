"""Rings over all links of a full mesh, message by message, and the chains that they are when cut at rank 0.

Walecki's decomposition (Lucas, Récréations mathématiques II, 1892): the ranks but one stand on a circle, and a zigzag 0, 1, -1,
2, -2 ... visits them all; with rank 0 between its ends it is a ring. Turned by every angle it uses each link once for odd N; for
even N the rings and their reverses use each link twice.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain as joined

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.schedules.program import Batches, Indices, Program, backwards, equal_chunks, schedule, step


def zigzag(n: int) -> Indices:
    """0, 1, -1, 2, -2 ... on a circle of n places; for even n all steps are different turns."""
    place = np.arange(n, dtype=np.int64)
    return np.where(place % 2, (place + 1) // 2, -(place // 2)) % n


def rings(n: int) -> Indices:
    """Rings through all ranks from rank 0 that load all links of a full mesh alike, shape (rings, n)."""
    turned = 1 + (zigzag(n - 1) + np.arange(n - 1)[:, None]) % (n - 1)
    if n % 2 == 0:
        turned = np.concatenate([turned, turned[:, ::-1]])
    return np.insert(turned, 0, 0, axis=1)


def paths(n: int) -> Indices:
    """Paths through all ranks, equally many from each, that load all links alike: a domain's part of rings over all NICs."""
    turned = (zigzag(n) + np.arange(n)[:, None]) % n
    return np.concatenate([turned, turned[:, ::-1]]) if n % 2 else turned


def _ring_of(n: int) -> int:
    """Chunks that move per pair of ranks: about one on every ring."""
    return 2 * n


def _gathered(around: Indices) -> Batches:
    """Chunk c of ring j is number j * N + c. Step k: on every ring each rank passes on the chunk from k places behind."""
    n = around.shape[1]
    first = np.arange(len(around), dtype=np.int64)[:, None] * n
    for k in range(n - 1):
        yield (step(around, np.roll(around, -1, axis=1), first + np.roll(around, k, axis=1)),)


def _shared(primitive: Primitive, group: Group, _segments: int) -> Program:
    n, around = group.ranks, rings(group.ranks)
    batches = {AG: _gathered(around), RS: backwards(_gathered(around))}
    moves = joined(batches[RS], batches[AG]) if primitive is AR else batches[primitive]
    return equal_chunks(primitive, n, around.size, moves)


def _down_the_chains(around: Indices, segments: int) -> Iterator[tuple[object, object, object]]:
    """Segment s of ring j, number j * P + s, leaves place p in step p + s."""
    ring, place = (one.ravel() for one in np.indices((len(around), around.shape[1] - 1)))
    for moment in range(around.shape[1] - 2 + segments):
        segment = moment - place
        here = (segment >= 0) & (segment < segments)
        j, p = ring[here], place[here]
        yield around[j, p], around[j, p + 1], j * segments + segment[here]


def _cut(primitive: Primitive, group: Group, segments: int) -> Program:
    around = rings(group.ranks)
    moves: Batches = ((step(*one),) for one in _down_the_chains(around, segments))
    chunks = len(around) * segments
    return equal_chunks(primitive, group.ranks, chunks, backwards(moves) if primitive is REDUCE else moves)


for _primitive in (AR, AG, RS):
    schedule("multi-link-ring", _primitive, per_pair=_ring_of)(partial(_shared, _primitive))
for _primitive in (BC, REDUCE):
    schedule("multi-link-chain", _primitive, per_pair=_ring_of)(partial(_cut, _primitive))
