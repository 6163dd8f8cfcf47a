"""Schedules of rings: a single ring of all ranks, or several that share the links of a full mesh.

Rank c's chunk has number c and size M/N; with several rings chunk c of ring j has number j * N + c.
"""

from __future__ import annotations

from itertools import chain

from colltool.algorithms.program import Batches, Program, equal_chunks, gather_or_reverse, step
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
    """An all-gather, reduce-scatter or all-reduce on a ring, given by its ranks in order."""
    batches: Batches
    if primitive is AG:
        batches = gather_on_ring(ring)
    elif primitive is RS:
        batches = _scatter_on_ring(ring)
    else:
        batches = chain(_scatter_on_ring(ring), gather_on_ring(ring))
    return equal_chunks(primitive, len(ring), len(ring), batches)


def on_rings(primitive: Primitive, rings: Indices) -> Program:
    """Run an all-gather, reduce-scatter or all-reduce on several rings at once, which share the
    payload evenly. ``rings`` has the ranks of each in order, shape (rings, N)."""
    ranks = rings.shape[1]

    def gather() -> Batches:
        following = np.roll(rings, -1, axis=1)
        first_chunk = np.arange(len(rings))[:, None] * ranks
        for k in range(ranks - 1):
            yield (step(rings, following, first_chunk + np.roll(rings, k, axis=1)),)

    return equal_chunks(primitive, ranks, rings.size, gather_or_reverse(primitive, gather))


def zigzag(n: int) -> Indices:
    """0, 1, -1, 2, -2 ... modulo n, shape (n,); for even n all differences between neighbours are
    different."""
    place = np.arange(n, dtype=np.int64)
    return np.where(place % 2, (place + 1) // 2, -(place // 2)) % n


def rings(n: int) -> Indices:
    """Rings through all ranks, from rank 0, that load all links of a full mesh equally; shape (rings,
    n).

    Walecki's decomposition (Lucas, Récréations mathématiques II, 1892): place all ranks but rank 0
    on a circle and visit them in a zigzag; rank 0 closes the zigzag to a ring. All rotations of it
    use each link once for odd N; for even N the rotations and their reverses use each link twice.
    """
    # the zigzag of the n - 1 others, from each of them on; shape (n - 1, n - 1)
    rotations = 1 + (zigzag(n - 1) + np.arange(n - 1)[:, None]) % (n - 1)
    if n % 2 == 0:
        rotations = np.concatenate([rotations, rotations[:, ::-1]])
    # rank 0 goes before all the others
    return np.insert(rotations, 0, 0, axis=1)


def paths(n: int) -> Indices:
    """Paths through all ranks of a full mesh, equally many from each rank, that load all links
    equally; shape (paths, n). The part of a domain in rings over all NICs."""
    # As in rings(), with all ranks on the circle and the zigzag left open.
    rotations = (zigzag(n) + np.arange(n)[:, None]) % n
    if n % 2:
        rotations = np.concatenate([rotations, rotations[:, ::-1]])
    return rotations
