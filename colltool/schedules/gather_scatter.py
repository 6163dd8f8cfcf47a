"""All-gather, reduce-scatter, all-reduce and all-to-all among equals, on rings, by doubling and at
once.

Rank c's chunk is number c, of M/N; an all-to-all's chunk ``src * N + dst`` goes from src to dst, a
rank's own stays. Off powers of two, ranks are folded into neighbours or padded with ranks of zeros.
"""

from itertools import chain
from math import prod

import numpy as np

from colltool.algorithms.program import (
    Batches,
    Program,
    equal_chunks,
    gathered,
    moves,
    schedule,
    step,
    strides,
)
from colltool.base.primitives import A2A, AG, AR, RS, Primitive
from colltool.network.arrays import (
    Indices,
)
from colltool.network.group import Group
from colltool.schedules.lattice import embedded_ring


def gather_on_ring(ring: Indices) -> Batches:
    """Step k: every rank passes on the chunk of the rank k places behind it."""
    for k in range(len(ring) - 1):
        yield (step(ring, np.roll(ring, -1), np.roll(ring, k)),)


def _scatter_on_ring(ring: Indices) -> Batches:
    """Step k: every rank passes on its partial sum of the chunk that belongs k+1 places behind
    it."""
    for k in range(len(ring) - 1):
        yield (step(ring, np.roll(ring, -1), np.roll(ring, k + 1), add=True),)


@schedule("ring", AR, AG, RS, per_pair=1)
def _ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    return (
        embedded_ring(primitive, group)
        if group.axes
        else on_ring(primitive, np.arange(group.ranks, dtype=np.int64))
    )


def on_ring(primitive: Primitive, ring: Indices) -> Program:
    """All that a ring can do; ``ring``: the ranks in their order round it."""
    around = {AG: gather_on_ring(ring), RS: _scatter_on_ring(ring)}
    batches = around.get(primitive) or chain(around[RS], around[AG])
    return equal_chunks(primitive, len(ring), len(ring), batches)


@moves("recursive-doubling", AG)
@moves("recursive-halving", RS)
@moves("rabenseifner", AR)
def _doubling(n: int) -> Batches:
    """Swap all that is held, an aligned block, with partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)[:, None]
    for stride in strides(n):
        yield (step(rank, rank ^ stride, rank // stride * stride + np.arange(stride)),)


@moves("pat", AG, RS)
def _far_first(n: int) -> Batches:
    """PAT: send the rank at distance N/2 .. 2, 1 ahead every chunk whose offset there stays below
    N.

    A rank holds the chunks at a set of offsets behind it, at first 0 alone; each round adds the set
    shifted by the distance.
    """
    rank, offsets = np.arange(n, dtype=np.int64)[:, None], np.zeros(1, dtype=np.int64)
    for stride in reversed(strides(n)):
        sent = offsets[offsets + stride < n]
        yield (step(rank, (rank + stride) % n, (rank - sent) % n),)
        offsets = np.union1d(offsets, sent + stride)


@moves("direct", AG, RS)
@moves("two-shot", AR)
def _each_to_all(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src),)


@schedule("one-shot", AR)
def _one_shot(primitive: Primitive, group: Group, _segments: int) -> Program:
    src, dst = np.nonzero(~np.eye(group.ranks, dtype=bool))
    return equal_chunks(primitive, group.ranks, 1, iter([(step(src, dst, 0, add=True),)]))


def _swapped(n: int) -> Batches:
    """Swap the whole vector, chunk 0, with the partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)
    for stride in strides(n):
        yield (step(rank, rank ^ stride, 0, add=True),)


@schedule("recursive-doubling", AR)
def _recursive_doubling(primitive: Primitive, group: Group, _segments: int) -> Program:
    return equal_chunks(primitive, group.ranks, 1, _swapped(group.ranks))


class _Fold:
    """The first 2r ranks are folded in pairs, the odd one standing for both; the others stand for
    themselves."""

    def __init__(self, n: int) -> None:
        self.kept = 1 << (n.bit_length() - 1)
        self.extra: Indices = 2 * np.arange(n - self.kept, dtype=np.int64)
        self.rank_of: Indices = np.concatenate([self.extra + 1, np.arange(2 * (n - self.kept), n)])

    def on_kept(self, batches: Batches) -> Batches:
        for batch in batches:
            yield tuple(
                one._replace(src=self.rank_of[one.src], dst=self.rank_of[one.dst]) for one in batch
            )

    def folded(self, batches: Batches, chunks: int) -> Batches:
        """Whole vectors in, the rounds, whole results out."""
        here, chunk = self.extra[:, None], np.arange(chunks)
        yield (step(here, here + 1, chunk, add=True),)
        yield from self.on_kept(batches)
        yield (step(here + 1, here, chunk),)


@schedule("recursive-doubling-fold", AR)
def _recursive_doubling_fold(primitive: Primitive, group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    return equal_chunks(primitive, group.ranks, 1, fold.folded(_swapped(fold.kept), 1))


@schedule("rabenseifner-fold", AR)
def _rabenseifner_fold(primitive: Primitive, group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    halved = gathered(primitive, lambda: _doubling(fold.kept))
    return equal_chunks(primitive, group.ranks, fold.kept, fold.folded(halved, fold.kept))


@moves("recursive-doubling-fold", AG)
@moves("recursive-halving-fold", RS)
def _folded(n: int) -> Batches:
    """Folded ranks give away their chunk; blocks of one or two chunks a rank double; folded ranks
    get what they lack."""
    fold = _Fold(n)
    yield (step(fold.extra, fold.extra + 1, fold.extra),)
    for (one,) in fold.on_kept(_doubling(fold.kept)):
        both = one.chunk < len(fold.extra)  # a rank that stands for two has two chunks
        own = one._replace(chunk=fold.rank_of[one.chunk])
        yield own, step(one.src[both], one.dst[both], fold.extra[one.chunk[both]])
    folded, chunk = np.nonzero(np.arange(n) != fold.extra[:, None])
    yield (step(fold.extra[folded] + 1, fold.extra[folded], chunk),)


@schedule("rabenseifner-padded", AR)
def _rabenseifner_padded(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The padding, ranks N .. N''-1, starts with nothing: it only receives in the first round, only
    sends in the last."""
    n, whole = group.ranks, 1 << (group.ranks - 1).bit_length()

    def to_the_group() -> Batches:
        """Doubling among all; the last round leaves out what only the padding would receive."""
        *near, (last,) = _doubling(whole)
        yield from near
        needed = last.dst < n
        yield (step(last.src[needed], last.dst[needed], last.chunk[needed]),)

    return equal_chunks(primitive, n, whole, gathered(primitive, to_the_group), nodes=whole)


@moves("pairwise", A2A, per_pair=1)
def _one_peer_after_the_other(n: int) -> Batches:
    """Step k: a message to the rank k ahead."""
    src = np.arange(n, dtype=np.int64)
    for k in range(1, n):
        yield (step(src, (src + k) % n, src * n + (src + k) % n),)


@moves("bruck", A2A)
def _by_the_bits_of_the_way(n: int) -> Batches:
    """Round k: every chunk whose way (dst - src mod N) has bit k goes 2^k ahead; its lower bits are
    behind it."""
    src, dst = np.divmod(np.arange(n * n), n)
    way = (dst - src) % n
    for stride in strides(n):
        chunk = np.flatnonzero(way & stride)
        here = (src + way % stride)[chunk] % n
        yield (step(here, (here + stride) % n, chunk),)


@moves("direct", A2A)
@moves("shortest-path", A2A)  # a lattice routes them
def _at_once(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src * n + dst),)


@schedule("dim-by-dim", A2A)
def _dim_by_dim(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Every chunk to its destination's place on axis 1, then on axis 2, and so on."""

    def along_the_axes() -> Batches:
        here, target = np.divmod(np.arange(group.ranks**2), group.ranks)
        for k, axis in enumerate(group.axes):
            stride = prod(one.size for one in group.axes[:k])
            there = here + (target // stride % axis.size - here // stride % axis.size) * stride
            moving = np.flatnonzero(here != there)
            if axis.size > 1:
                yield (step(here[moving], there[moving], moving),)
            here = there

    return equal_chunks(primitive, group.ranks, group.ranks**2, along_the_axes())


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
    turned = (zigzag(n) + np.arange(n)[:, None]) % n
    return np.concatenate([turned, turned[:, ::-1]]) if n % 2 else turned


@schedule("multi-link-ring", AR, AG, RS, per_pair=lambda n: 2 * n)  # about one on every ring
def _multi_link_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    return on_rings(primitive, rings(group.ranks))


def on_rings(primitive: Primitive, around: Indices) -> Program:
    """Rings through all ranks at once, shape (rings, N): chunk c of ring j is number j * N + c.

    Step k: on every ring each rank passes on the chunk from k places behind.
    """
    n = around.shape[1]

    def passed_on() -> Batches:
        first = np.arange(len(around))[:, None] * n
        for k in range(n - 1):
            yield (step(around, np.roll(around, -1, axis=1), first + np.roll(around, k, axis=1)),)

    return equal_chunks(primitive, n, around.size, gathered(primitive, passed_on))
