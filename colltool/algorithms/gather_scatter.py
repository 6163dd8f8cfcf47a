"""All-gather, reduce-scatter and all-to-all on any-to-any fabrics, and what schedules for powers of
two do off them.

M is the whole result of an all-gather, the vector a rank starts with in a reduce-scatter (mirror
images, so equal in cost), the whole send buffer of an all-to-all: N chunks of M/N.

Off powers of two surplus ranks are folded into partners, or ranks of zeros fill up. N' = 2^floor(lg
N) ranks go on, r = N - N' are folded. MPI folds neighbours: of the first 2r ranks every even one
hands its vector to the next before the rounds, and takes the result after them.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.all_reduce import (
    doubling,
    each_to_all,
    halving_doubling,
    pairs,
    rings,
    swapped,
)
from colltool.algorithms.partners import many_sends, to_all
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
from colltool.algorithms.registry import (
    BRUCK,
    CHAN,
    MSCCLPP,
    PAT,
    RABENSEIFNER,
    THAKUR_RABENSEIFNER_GROPP,
    Caveat,
    algorithm,
)
from colltool.algorithms.rooted import mpi
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    RS,
    Peers,
    Primitive,
    Ring,
    Rounds,
    Schedule,
    Terms,
    ceil_div,
    step_a_peer,
)
from colltool.network.arrays import Indices, np
from colltool.network.group import ANY_TO_ANY, ONE_TIER, SWITCHED, Group


def one_rank_per_node(group: Group) -> str | None:
    """NCCL runs PAT between nodes only, and only with one rank on each."""
    if group.scale_out:
        return None
    return "runs between nodes only, with one rank on each (NCCL >= 2.23)"


@rings(AG, RS, equation="t = (N-1) α + (N-1)/N M/BW")
def ring(group: Group) -> Terms:
    """Ring: N-1 steps, a chunk of M/N to the next rank in each.

    Bandwidth-optimal on one port per rank.

    >>> ring(Group(4, "star"))[:2]
    (3, 0.75)
    """
    return step_a_peer(group.ranks, Ring())


@pairs("recursive-doubling", AG, usual=True, equation="t = lg N α + (N-1)/N M/BW")
def recursive_doubling(group: Group) -> Terms:
    """Recursive doubling: exchange all that is held with partners at distance 1, 2, 4 ...

    Optimal in latency and bytes on one port. Needs a power of two.

    >>> recursive_doubling(Group(8, "star"))[:2]
    (3, 0.875)
    """
    n = group.ranks
    steps = tuple((stride, stride / n) for stride in strides(n))
    return Terms(len(steps), (n - 1) / n, Rounds("xor", steps))


moves("recursive-doubling", AG)(doubling)


@pairs(
    "recursive-halving",
    RS,
    mirror="recursive-doubling",
    usual=True,
    equation="t = lg N α + (N-1)/N M/BW",
)
def recursive_halving(group: Group) -> Terms:
    """Recursive halving: the all-gather by recursive doubling, run backwards.

    Optimal in latency and bytes on one port. Needs a power of two.

    >>> recursive_halving(Group(8, "star"))[:2]
    (3, 0.875)
    """
    n = group.ranks
    steps = tuple((stride, stride / n) for stride in reversed(strides(n)))
    return Terms(len(steps), (n - 1) / n, Rounds("xor", steps))


moves("recursive-halving", RS)(doubling)


@algorithm(
    "pat",
    AG,
    RS,
    on=ONE_TIER,
    requires=(one_rank_per_node,),
    shipped_by=("NCCL",),
    source=PAT,
    equation="t = lg N α + (N-1)/N M/BW",
)
def pat(group: Group) -> Terms:
    """PAT, parallel aggregated trees: Bruck's distances from far to near, with a bounded buffer,
    for any N.

    NCCL runs it between nodes only, with one rank on each. A round does not carry M/N, as some
    descriptions have it: lg N such rounds could not bring the (N-1)/N M that must arrive. Executed,
    those of 8 ranks carry 1/8, 2/8 and 4/8 of M (verify --trace).

    >>> pat(Group(5, "clos", scale_out=True))[:2]
    (3, 0.8)
    """
    n = group.ranks
    # Before the round of a stride a rank holds the chunks of ranks at every multiple of twice that
    # stride behind it.
    steps = tuple((stride, ceil_div(n - stride, 2 * stride) / n) for stride in reversed(strides(n)))
    return Terms(len(steps), (n - 1) / n, Rounds("shift", steps))


@moves("pat", AG, RS)
def _far_first(n: int) -> Batches:
    """PAT: send the rank at distance N/2 .. 2, 1 ahead every chunk whose offset there stays below
    N.

    A rank holds the chunks at a set of offsets behind it, at first 0 alone; each round adds the set
    shifted by the distance.
    """
    rank = np.arange(n, dtype=np.int64)[:, None]
    offsets = np.zeros(1, dtype=np.int64)
    # Chunks that would pass the rank itself, N places on, stay.
    for stride in reversed(strides(n)):
        sent = offsets[offsets + stride < n]
        yield (step(rank, (rank + stride) % n, (rank - sent) % n),)
        offsets = np.union1d(offsets, sent + stride)


@algorithm(
    "direct",
    AG,
    RS,
    on=ANY_TO_ANY,
    shipped_by=("MSCCL++",),
    source=f"{MSCCLPP}: the halves of the two-shot all-reduce",
    caveat=many_sends,
    equation="t = α + (N-1)/N M/BW; on a full mesh, all links at once: α + 1/N M/BW",
)
def direct(group: Group) -> Terms:
    """Direct: every rank exchanges its chunks with all peers at once.

    Over several tiers the busiest port, link or uplink sets the time: a link between domains of d
    ranks each carries d chunks.

    >>> direct(Group(4, "star"))[:2]
    (1, 0.75)
    >>> direct(Group(4, "full_mesh"))[:2]
    (1, 0.25)
    """
    return to_all(group, 1 / group.ranks)


moves("direct", AG, RS)(each_to_all)


@algorithm(
    "pairwise",
    A2A,
    on=ANY_TO_ANY,
    shipped_by=("NCCL", "RCCL", "MPI"),
    source=f"{THAKUR_RABENSEIFNER_GROPP}; NCCL's grouped send/recv",
    baseline=True,
    usual=True,
    equation=(
        "t = (N-1) α + (N-1)/N M/BW; over several distances the sum over the peers: Σ n_i (α_i +"
        " (M/N)/BW_i)"
    ),
)
def pairwise(group: Group) -> Terms:
    """Pairwise: N-1 messages of M/N, one peer after the other.

    Only the messages that cross an oversubscribed boundary pay for it.

    >>> pairwise(Group(4, "star"))[:2]
    (3, 0.75)
    """
    return step_a_peer(group.ranks, Peers())


@moves("pairwise", A2A, per_pair=1)
def _one_peer_after_the_other(n: int) -> Batches:
    """Step k: a message to the rank k ahead."""
    src = np.arange(n, dtype=np.int64)
    for k in range(1, n):
        yield (step(src, (src + k) % n, src * n + (src + k) % n),)


@mpi(
    "bruck",
    A2A,
    source=BRUCK,
    usual=True,
    equation=(
        "t = lg N α + (1/N) Σ_k (slots with bit k) M/BW, which is (lg N)/2 M/BW for a power of two"
    ),
)
def bruck(group: Group) -> Terms:
    """Bruck: lg N rounds; round k sends every slot whose number has bit k set.

    Trades bytes for latency: for small messages.

    >>> bruck(Group(8, "star"))[:2]
    (3, 1.5)
    >>> bruck(Group(5, "star"))[:2]
    (3, 1.0)
    """
    # slots with a bit set: as many as the bit says in every whole block of twice that, and what is
    # left
    n = group.ranks
    steps = tuple(
        (bit, (n // (2 * bit) * bit + max(0, n % (2 * bit) - bit)) / n) for bit in strides(n)
    )
    return Terms(len(steps), sum(load for _, load in steps), Rounds("shift", steps))


@moves("bruck", A2A)
def _by_the_bits_of_the_way(n: int) -> Batches:
    """Round k: every chunk whose way (dst - src mod N) has bit k goes 2^k ahead; its lower bits are
    behind it."""
    # Chunk src * N + dst; its way is what it has to go in all.
    src, dst = np.divmod(np.arange(n * n), n)
    way = (dst - src) % n
    for stride in strides(n):
        chunk = np.flatnonzero(way & stride)
        # The lower bits of the way are behind it.
        here = (src + way % stride)[chunk] % n
        yield (step(here, (here + stride) % n, chunk),)


@algorithm(
    "direct",
    A2A,
    on=ANY_TO_ANY,
    shipped_by=("NCCL", "RCCL", "MPICH", "Open MPI"),
    source=(
        f"{THAKUR_RABENSEIFNER_GROPP}; grouped sends to all peers (NCCL), Open MPI's linear"
        " all-to-all"
    ),
    caveat=many_sends,
    equation="t = α + (N-1)/N M/BW; on a full mesh, all links at once: α + 1/N M/BW",
)
def direct_to_all(group: Group) -> Terms:
    """Direct: the N-1 messages of M/N to all peers at once.

    Over several tiers the busiest port, link or uplink sets the time: a link between domains of d
    ranks each carries d chunks.

    >>> direct_to_all(Group(4, "star"))[:2]
    (1, 0.75)
    >>> direct_to_all(Group(4, "full_mesh"))[:2]
    (1, 0.25)
    """
    return to_all(group, 1 / group.ranks)


@moves("direct", A2A)
def at_once(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src * n + dst),)


def off_powers_of_two(group: Group) -> str | None:
    """Powers of two have no surplus ranks to fold, and nothing to pad."""
    if group.ranks & (group.ranks - 1) == 0:
        return f"only for rank counts that are not a power of two; {group.ranks} is one"
    return None


def _kept(ranks: int) -> int:
    """N': the largest power of two within N."""
    return 1 << (ranks.bit_length() - 1)


def _folded(there: float, back: float, *rounds: Terms) -> Schedule:
    """Rounds between a message to the neighbour and one back, whose sizes are in units of M."""
    fold = Terms(1, there, Rounds("fanout", ((1, there),)), label="fold")
    unfold = Terms(1, back, Rounds("fanout", ((1, back),)), label="unfold")
    return fold, *rounds, unfold


class _Fold:
    """The first 2r ranks are folded in pairs, and the odd one represents both; the others represent
    themselves."""

    def __init__(self, n: int) -> None:
        self.kept = _kept(n)
        surplus = n - self.kept
        self.extra: Indices = 2 * np.arange(surplus, dtype=np.int64)
        self.rank_of: Indices = np.concatenate([self.extra + 1, np.arange(2 * surplus, n)])

    def on_kept(self, batches: Batches) -> Batches:
        """Batches among N' ranks, sent by the ranks that represent these."""
        for (messages,) in batches:
            src = self.rank_of[messages.src]
            dst = self.rank_of[messages.dst]
            yield (messages._replace(src=src, dst=dst),)

    def folded(self, batches: Batches, chunks: int) -> Batches:
        """Whole vectors in, the rounds, whole results out."""
        # Each surplus rank's neighbour is the next one.
        here = self.extra[:, None]
        chunk = np.arange(chunks)
        yield (step(here, here + 1, chunk, add=True),)
        yield from self.on_kept(batches)
        yield (step(here + 1, here, chunk),)


_folding = partial(
    algorithm, on=ANY_TO_ANY, requires=(off_powers_of_two,), source=THAKUR_RABENSEIFNER_GROPP
)
_MPI = ("MPICH", "Open MPI")


@_folding(
    "recursive-doubling-fold",
    AR,
    shipped_by=_MPI,
    equation="t = (lg N' + 2) α + (lg N' + 2) M/BW, N' = 2^floor(lg N)",
)
def recursive_doubling_all_reduce(group: Group) -> Schedule:
    """Recursive doubling off powers of two: the surplus ranks add their vectors to a neighbour's,
    and receive the result.

    For small messages. What MPI runs when N is not a power of two.

    >>> totals(recursive_doubling_all_reduce(Group(6, "star")))
    (4, 4.0)
    """
    kept = _kept(group.ranks)
    steps = tuple((stride, 1.0) for stride in strides(kept))
    route = Rounds("xor", steps, group.ranks - kept)
    return _folded(1.0, 1.0, Terms(len(steps), float(len(steps)), route, label="doubling"))


@schedule("recursive-doubling-fold", AR)
def _fold_and_swap(primitive: Primitive, group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    return equal_chunks(primitive, group.ranks, 1, fold.folded(swapped(fold.kept), 1))


@_folding(
    "rabenseifner-fold",
    AR,
    shipped_by=("MPICH",),
    source=f"{RABENSEIFNER}; {THAKUR_RABENSEIFNER_GROPP}",
    equation="t = (2 lg N' + 2) α + (2(N'-1)/N' + 2) M/BW, N' = 2^floor(lg N)",
)
def rabenseifner_fold(group: Group) -> Schedule:
    """Rabenseifner off powers of two, folded: the surplus ranks cost two messages of the whole
    vector.

    What MPICH runs when N is not a power of two: about twice the bytes of a power of two.

    >>> totals(rabenseifner_fold(Group(6, "star")))
    (6, 3.5)
    """
    kept = _kept(group.ranks)
    return _folded(1.0, 1.0, *halving_doubling(kept, group.ranks - kept))


@schedule("rabenseifner-fold", AR)
def _fold_and_halve(primitive: Primitive, group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    # Halving is doubling backwards, among the ranks that are kept.
    halved = gathered(primitive, lambda: doubling(fold.kept))
    return equal_chunks(primitive, group.ranks, fold.kept, fold.folded(halved, fold.kept))


def _idle_ranks(group: Group) -> Caveat:
    whole = 2 * _kept(group.ranks)
    idle = whole - group.ranks
    return Caveat(
        "reference",
        f"takes {whole} ranks: {idle} beside the group hold zeros, {idle / whole:.0%} of all do no"
        " work",
    )


@algorithm(
    "rabenseifner-padded",
    AR,
    on=SWITCHED,
    requires=(off_powers_of_two,),
    source=f"{RABENSEIFNER}; padded: {CHAN}",
    caveat=_idle_ranks,
    equation="t = 2 lg N α + 2(N''-1)/N'' M/BW, N'' = 2^lg N",
)
def rabenseifner_padded(group: Group) -> Schedule:
    """Rabenseifner off powers of two, padded: ranks of zeros fill up to the next power of two.

    Needs ranks that the group does not have, on idle ports of the same switch: a textbook
    construction that no library runs.

    >>> totals(rabenseifner_padded(Group(6, "star")))
    (6, 1.75)
    """
    return halving_doubling(2 * _kept(group.ranks))


@schedule("rabenseifner-padded", AR)
def _pad_and_halve(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The padding, ranks N .. N''-1, starts with nothing: it only receives in the first round, only
    sends in the last."""
    n = group.ranks
    whole = 2 * _kept(n)

    def to_the_group() -> Batches:
        """Doubling among all; the last round leaves out what only the padding would receive."""
        *near, (last,) = doubling(whole)
        yield from near
        needed = last.dst < n
        yield (step(last.src[needed], last.dst[needed], last.chunk[needed]),)

    return equal_chunks(primitive, n, whole, gathered(primitive, to_the_group), nodes=whole)


def _blocks(ranks: int) -> tuple[tuple[int, float], ...]:
    """(stride, bytes) of doubling among N' ranks, the first r of which hold two chunks of M/N: the
    fullest block counts."""
    kept = _kept(ranks)
    return tuple((stride, (stride + min(stride, ranks - kept)) / ranks) for stride in strides(kept))


def _block_rounds(ranks: int, steps: tuple[tuple[int, float], ...], label: str) -> Terms:
    """The rounds of these blocks, among the ranks that are not folded."""
    route = Rounds("xor", steps, ranks - _kept(ranks))
    return Terms(len(steps), sum(load for _, load in steps), route, label=label)


@_folding(
    "recursive-doubling-fold",
    AG,
    equation=(
        "t = (lg N' + 2) α + (1 + Σ_k (2^k + min(2^k, r))/N) M/BW, N' = 2^floor(lg N), r = N - N',"
        " k below lg N'"
    ),
)
def recursive_doubling_gather(group: Group) -> Schedule:
    """Recursive doubling off powers of two: the surplus ranks give a neighbour their chunk, and
    receive all the others' from it.

    The mirror image of the folded reduce-scatter. MPI takes Bruck's rounds instead.

    >>> totals(recursive_doubling_gather(Group(6, "star")))
    (4, 2.0)
    """
    n = group.ranks
    return _folded(1 / n, (n - 1) / n, _block_rounds(n, _blocks(n), "doubling"))


@_folding(
    "recursive-halving-fold",
    RS,
    shipped_by=_MPI,
    mirror="recursive-doubling-fold",
    equation=(
        "t = (lg N' + 2) α + (1 + Σ_k (2^k + min(2^k, r))/N) M/BW, N' = 2^floor(lg N), r = N - N',"
        " k below lg N'"
    ),
)
def recursive_halving_scatter(group: Group) -> Schedule:
    """Recursive halving off powers of two: the surplus ranks add their vectors to a neighbour's,
    and receive their chunk.

    A folded rank keeps its own part of its chunk; MPICH hands over the whole vector, M/N more.

    >>> totals(recursive_halving_scatter(Group(6, "star")))
    (4, 2.0)
    """
    n = group.ranks
    return _folded((n - 1) / n, 1 / n, _block_rounds(n, _blocks(n)[::-1], "halving"))


@moves("recursive-doubling-fold", AG)
@moves("recursive-halving-fold", RS)
def _fold_and_gather(n: int) -> Batches:
    """Folded ranks give away their chunk; blocks of one or two chunks a rank double; folded ranks
    get what they lack."""
    fold = _Fold(n)
    yield (step(fold.extra, fold.extra + 1, fold.extra),)
    # A rank that represents two passes on the chunks of both.
    for (messages,) in fold.on_kept(doubling(fold.kept)):
        own = messages._replace(chunk=fold.rank_of[messages.chunk])
        both = messages.chunk < len(fold.extra)  # a rank that represents two has two chunks
        folded = step(messages.src[both], messages.dst[both], fold.extra[messages.chunk[both]])
        yield own, folded
    rank, chunk = np.nonzero(np.arange(n) != fold.extra[:, None])
    yield (step(fold.extra[rank] + 1, fold.extra[rank], chunk),)
