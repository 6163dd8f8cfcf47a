"""Messages round rings: one ring of all ranks, or several that share out the links of a full mesh.

Rank c's chunk is number c, of M/N; with several rings chunk c of ring j is number j * N + c.
"""

from __future__ import annotations

from itertools import chain

from colltool.algorithms.program import Batches, Program, equal_chunks, gathered, step
from colltool.base.primitives import AG, RS, Primitive
from colltool.network.arrays import Indices, np


def gather_on_ring(ring: Indices) -> Batches:
    """Step k: every rank passes on the chunk of the rank k places behind it."""
    for k in range(len(ring) - 1):
        yield (step(ring, np.roll(ring, -1), np.roll(ring, k)),)


def _scatter_on_ring(ring: Indices) -> Batches:
    """Step k: every rank passes on its partial sum of the chunk that belongs k+1 places behind
    it."""
    for k in range(len(ring) - 1):
        yield (step(ring, np.roll(ring, -1), np.roll(ring, k + 1), add=True),)


def on_ring(primitive: Primitive, ring: Indices) -> Program:
    """An all-gather, reduce-scatter or all-reduce; ``ring``: the ranks in their order round it."""
    batches: Batches
    if primitive is AG:
        batches = gather_on_ring(ring)
    elif primitive is RS:
        batches = _scatter_on_ring(ring)
    else:
        batches = chain(_scatter_on_ring(ring), gather_on_ring(ring))
    return equal_chunks(primitive, len(ring), len(ring), batches)


def on_rings(primitive: Primitive, rings: Indices) -> Program:
    """The same on rings through all ranks at once, shape (rings, N)."""
    ranks = rings.shape[1]

    def gather() -> Batches:
        first = np.arange(len(rings))[:, None] * ranks
        for k in range(ranks - 1):
            yield (step(rings, np.roll(rings, -1, axis=1), first + np.roll(rings, k, axis=1)),)

    return equal_chunks(primitive, ranks, rings.size, gathered(primitive, gather))


def zigzag(n: int) -> Indices:
    """0, 1, -1, 2, -2 ... on a circle of n places; for even n all steps are different turns."""
    place = np.arange(n, dtype=np.int64)
    return np.where(place % 2, (place + 1) // 2, -(place // 2)) % n


def rings(n: int) -> Indices:
    """Rings through all ranks from rank 0 that load all links of a full mesh alike, shape (rings,
    n).

    Walecki's decomposition (Lucas, Récréations mathématiques II, 1892): the ranks but one stand on
    a circle, and a zigzag visits them all; with rank 0 between its ends it is a ring. Turned by
    every angle it uses each link once for odd N; for even N the rings and their reverses use each
    link twice.
    """
    turned = 1 + (zigzag(n - 1) + np.arange(n - 1)[:, None]) % (n - 1)
    if n % 2 == 0:
        turned = np.concatenate([turned, turned[:, ::-1]])
    return np.insert(turned, 0, 0, axis=1)


def paths(n: int) -> Indices:
    """Paths through all ranks, equally many from each, that load all links alike: a domain's part
    of rings over all NICs."""
    # As in rings(), with all ranks on the circle and open ends.
    turned = (zigzag(n) + np.arange(n)[:, None]) % n
    if n % 2:
        turned = np.concatenate([turned, turned[:, ::-1]])
    return turned
