"""All-reduce; off powers of two, ranks are folded into neighbours or padded with ranks of zeros."""

from itertools import chain as joined

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import AG, AR, RS
from colltool.schedules.gather_scatter import gather_by_doubling, gather_direct, gather_on_ring, scatter_on_ring
from colltool.schedules.lattice import embedded_ring
from colltool.schedules.program import Batches, Indices, Program, backwards, equal_chunks, schedule, step, strides
from colltool.schedules.rooted import edges, fan_out, two_trees, up_and_down_the_trees


def exchanged(n: int) -> Batches:
    """Swap the whole vector, chunk 0, with the partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)
    for stride in strides(n):
        yield (step(rank, rank ^ stride, 0, add=True),)


@schedule("ring", AR, per_pair=1)
def ring(group: Group, _segments: int) -> Program:
    n = group.ranks
    return embedded_ring(AR, group) if group.axes else equal_chunks(AR, n, n, joined(scatter_on_ring(n), gather_on_ring(n)))


@schedule("tree", AR)
def tree(group: Group, _segments: int) -> Program:
    return equal_chunks(AR, group.ranks, 1, joined(backwards(fan_out(group.ranks)), fan_out(group.ranks)))


@schedule("double-binary-tree", AR)
def double_binary_tree(group: Group, segments: int) -> Program:
    """Half of the vector on each tree, in P segments; up and down overlap."""
    trees = edges(two_trees(group.ranks))
    return equal_chunks(AR, group.ranks, 2 * segments, up_and_down_the_trees(trees, segments))


@schedule("recursive-doubling", AR)
def recursive_doubling(group: Group, _segments: int) -> Program:
    return equal_chunks(AR, group.ranks, 1, exchanged(group.ranks))


def halved_and_doubled(n: int) -> Batches:
    return joined(backwards(gather_by_doubling(n)), gather_by_doubling(n))


@schedule("rabenseifner", AR)
def rabenseifner(group: Group, _segments: int) -> Program:
    return equal_chunks(AR, group.ranks, group.ranks, halved_and_doubled(group.ranks))


@schedule("one-shot", AR)
def one_shot(group: Group, _segments: int) -> Program:
    src, dst = np.nonzero(~np.eye(group.ranks, dtype=bool))
    return equal_chunks(AR, group.ranks, 1, iter([(step(src, dst, 0, add=True),)]))


@schedule("two-shot", AR)
def two_shot(group: Group, _segments: int) -> Program:
    n = group.ranks
    return equal_chunks(AR, n, n, joined(backwards(gather_direct(n)), gather_direct(n)))


class _Fold:
    """The first 2r ranks are folded in pairs, the odd one standing for both; the others stand for themselves."""

    def __init__(self, n: int) -> None:
        self.kept = 1 << (n.bit_length() - 1)
        self.extra: Indices = 2 * np.arange(n - self.kept, dtype=np.int64)
        self.rank_of: Indices = np.concatenate([self.extra + 1, np.arange(2 * (n - self.kept), n)])

    def on_kept(self, batches: Batches) -> Batches:
        for batch in batches:
            yield tuple(step(self.rank_of[one.src], self.rank_of[one.dst], one.chunk, add=one.add) for one in batch)

    def folded(self, batches: Batches, chunks: int) -> Batches:
        """Whole vectors in, the rounds, whole results out."""
        here, chunk = self.extra[:, None], np.arange(chunks)
        yield (step(*np.broadcast_arrays(here, here + 1, chunk), add=True),)
        yield from self.on_kept(batches)
        yield (step(*np.broadcast_arrays(here + 1, here, chunk)),)


@schedule("recursive-doubling-fold", AR)
def recursive_doubling_fold(group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    return equal_chunks(AR, group.ranks, 1, fold.folded(exchanged(fold.kept), 1))


@schedule("rabenseifner-fold", AR)
def rabenseifner_fold(group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    return equal_chunks(AR, group.ranks, fold.kept, fold.folded(halved_and_doubled(fold.kept), fold.kept))


def _gathered(n: int) -> Batches:
    """Folded ranks give away their chunk; blocks of one or two chunks a rank double; folded ranks get what they lack."""
    fold = _Fold(n)
    yield (step(fold.extra, fold.extra + 1, fold.extra),)
    for (one,) in fold.on_kept(gather_by_doubling(fold.kept)):
        both = one.chunk < len(fold.extra)  # a rank that stands for two has two chunks
        own = step(one.src, one.dst, fold.rank_of[one.chunk])
        yield own, step(one.src[both], one.dst[both], fold.extra[one.chunk[both]])
    missing = np.arange(n) != fold.extra[:, None]
    folded, chunk = np.nonzero(missing)
    yield (step(fold.extra[folded] + 1, fold.extra[folded], chunk),)


@schedule("recursive-doubling-fold", AG)
def gather_folded(group: Group, _segments: int) -> Program:
    return equal_chunks(AG, group.ranks, group.ranks, _gathered(group.ranks))


@schedule("recursive-halving-fold", RS)
def scatter_folded(group: Group, _segments: int) -> Program:
    return equal_chunks(RS, group.ranks, group.ranks, backwards(_gathered(group.ranks)))


def _to_the_group(n: int, whole: int) -> Batches:
    """Doubling among group and padding; the last round leaves out what only the padding would receive."""
    *near, (last,) = gather_by_doubling(whole)
    yield from near
    needed = last.dst < n
    yield (step(last.src[needed], last.dst[needed], last.chunk[needed]),)


@schedule("rabenseifner-padded", AR)
def rabenseifner_padded(group: Group, _segments: int) -> Program:
    """The padding, ranks N .. N''-1, starts with nothing: it only receives in the first round, only sends in the last."""
    n, whole = group.ranks, 1 << (group.ranks - 1).bit_length()
    batches = joined(backwards(_to_the_group(n, whole)), _to_the_group(n, whole))
    return equal_chunks(AR, n, whole, batches, nodes=whole)
