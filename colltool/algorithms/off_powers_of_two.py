"""Recursive halving and doubling for rank counts that are no power of two.

N' = 2^floor(lg N) ranks take part in the rounds, the other r = N - N' are surplus. MPI folds them:
of the first 2r ranks every even one sends its vector to the next before the rounds, and receives
the result after them. The textbook alternative pads the group with ranks of zeros to the next power
of two, N'' = 2 N'.

Each formula stands above the program that verifies it; :class:`_Fold` numbers the ranks of all folded
programs.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.all_reduce import doubling, exchanged_vectors, halving_doubling
from colltool.algorithms.program import (
    Batches,
    Program,
    equal_chunks,
    gather_or_reverse,
    moves,
    schedule,
    step,
    strides,
)
from colltool.algorithms.registry import (
    CHAN,
    RABENSEIFNER,
    THAKUR_RABENSEIFNER_GROPP,
    Caveat,
    algorithm,
)
from colltool.base.primitives import AG, AR, RS, Primitive, Rounds, Schedule, Terms
from colltool.network.arrays import Indices, np
from colltool.network.group import ANY_TO_ANY, SWITCHED, Group


def off_powers_of_two(group: Group) -> str | None:
    """Powers of two have no surplus ranks to fold, and nothing to pad."""
    if group.ranks & (group.ranks - 1) == 0:
        return f"only for rank counts that are not a power of two; {group.ranks} is one"
    return None


def _largest_power_of_two(ranks: int) -> int:
    """N', the ranks that take part in the rounds: the largest power of two up to N."""
    return 1 << (ranks.bit_length() - 1)


def _with_fold(before: float, after: float, *rounds: Terms) -> Schedule:
    """The schedule of folded ranks: the rounds, with a message of ``before``·M to the neighbour before
    them and one of ``after``·M back after them."""
    # a fanout of stride 1: of each pair of neighbours the first sends, all pairs at the same time
    fold = Terms(1, before, Rounds("fanout", ((1, before),)), label="fold")
    unfold = Terms(1, after, Rounds("fanout", ((1, after),)), label="unfold")
    return fold, *rounds, unfold


class _Fold:
    """Which of N ranks act in the rounds: the first 2r are folded in pairs, in which the odd rank acts
    for both; every other rank acts for itself.

    Of 6 ranks 0 and 2 are surplus, and 1, 3, 4 and 5 act.
    """

    def __init__(self, n: int) -> None:
        self.kept = _largest_power_of_two(n)
        surplus = n - self.kept
        # The folded ranks, shape (r,); the partner of each is the next rank.
        self.surplus: Indices = 2 * np.arange(surplus, dtype=np.int64)
        # The ranks that act in the rounds, shape (N',): first the r that act for two, then those
        # that act for themselves.
        self.rank_of: Indices = np.concatenate([self.surplus + 1, np.arange(2 * surplus, n)])

    def renumbered(self, batches: Batches) -> Batches:
        """Batches of a schedule for N' ranks, between the ranks that act in it."""
        for (messages,) in batches:
            src = self.rank_of[messages.src]
            dst = self.rank_of[messages.dst]
            yield (messages._replace(src=src, dst=dst),)

    def with_surplus(self, batches: Batches, chunks: int) -> Batches:
        """An all-reduce of all ranks from the batches of one of N' ranks: surplus ranks send their
        whole vectors before them and receive the whole result after them."""
        surplus = self.surplus[:, None]
        chunk = np.arange(chunks)
        yield (step(surplus, surplus + 1, chunk, add=True),)
        yield from self.renumbered(batches)
        yield (step(surplus + 1, surplus, chunk),)


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
    kept = _largest_power_of_two(group.ranks)
    steps = tuple((stride, 1.0) for stride in strides(kept))
    route = Rounds("xor", steps, folded=group.ranks - kept)
    return _with_fold(1.0, 1.0, Terms(len(steps), float(len(steps)), route, label="doubling"))


@schedule("recursive-doubling-fold", AR)
def _fold_and_swap(primitive: Primitive, group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    return equal_chunks(
        primitive, group.ranks, chunks=1, batches=fold.with_surplus(exchanged_vectors(fold.kept), 1)
    )


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
    kept = _largest_power_of_two(group.ranks)
    return _with_fold(1.0, 1.0, *halving_doubling(kept, group.ranks - kept))


@schedule("rabenseifner-fold", AR)
def _fold_and_halve(primitive: Primitive, group: Group, _segments: int) -> Program:
    fold = _Fold(group.ranks)
    # Halving is doubling reversed.
    halved = gather_or_reverse(primitive, lambda: doubling(fold.kept))
    return equal_chunks(primitive, group.ranks, fold.kept, fold.with_surplus(halved, fold.kept))


def _idle_ranks(group: Group) -> Caveat:
    """The caveat of the padded algorithm, with how many ranks are padding."""
    whole = 2 * _largest_power_of_two(group.ranks)
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
    equation="t = 2 lg N'' α + 2(N''-1)/N'' M/BW, N'' = 2^ceil(lg N)",
)
def rabenseifner_padded(group: Group) -> Schedule:
    """Rabenseifner off powers of two, padded: ranks of zeros fill up to the next power of two.

    Needs ranks that the group does not have, on idle ports of the same switch: a textbook
    construction that no library runs.

    >>> totals(rabenseifner_padded(Group(6, "star")))
    (6, 1.75)
    """
    return halving_doubling(2 * _largest_power_of_two(group.ranks))


@schedule("rabenseifner-padded", AR)
def _pad_and_halve(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The padding, ranks N .. N''-1, only receives in the first round and only sends in the last."""
    n = group.ranks
    whole = 2 * _largest_power_of_two(n)

    def to_the_group() -> Batches:
        """Doubling among all ranks, without the messages to the padding in the last round."""
        *all_but_last, (last_step,) = doubling(whole)
        yield from all_but_last
        needed = last_step.dst < n
        yield (step(last_step.src[needed], last_step.dst[needed], last_step.chunk[needed]),)

    return equal_chunks(
        primitive, n, whole, gather_or_reverse(primitive, to_the_group), nodes=whole
    )


def _doubling_rounds(ranks: int) -> tuple[tuple[int, float], ...]:
    """The stride and bytes (in units of M) of each round of doubling among N' ranks, of which the
    first r hold two chunks of M/N. Bytes are those of the rank that sends most."""
    kept = _largest_power_of_two(ranks)
    return tuple((stride, (stride + min(stride, ranks - kept)) / ranks) for stride in strides(kept))


def _round_terms(ranks: int, steps: tuple[tuple[int, float], ...], label: str) -> Terms:
    """The terms of such rounds, in doubling or halving order."""
    route = Rounds("xor", steps, folded=ranks - _largest_power_of_two(ranks))
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
    return _with_fold(1 / n, (n - 1) / n, _round_terms(n, _doubling_rounds(n), "doubling"))


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
    return _with_fold((n - 1) / n, 1 / n, _round_terms(n, _doubling_rounds(n)[::-1], "halving"))


@moves("recursive-doubling-fold", AG)
@moves("recursive-halving-fold", RS)
def _fold_and_gather(n: int) -> Batches:
    """Surplus ranks send their chunk to their neighbour; doubling among N' ranks; surplus ranks
    receive all other chunks from their neighbour."""
    fold = _Fold(n)
    surplus = fold.surplus
    yield (step(surplus, surplus + 1, surplus),)
    for (messages,) in fold.renumbered(doubling(fold.kept)):
        acting = messages._replace(chunk=fold.rank_of[messages.chunk])
        # Chunks have the number of the acting rank k that they come from. Those below r act for two:
        # their chunk goes together with that of surplus rank k.
        of_two = messages.chunk < len(surplus)
        folded = surplus[messages.chunk[of_two]]
        yield acting, step(messages.src[of_two], messages.dst[of_two], folded)
    # every surplus rank with every chunk but its own
    index, chunk = np.nonzero(np.arange(n) != surplus[:, None])
    yield (step(surplus[index] + 1, surplus[index], chunk),)
