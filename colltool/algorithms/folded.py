"""What schedules for powers of two do off them: fold surplus ranks into partners, or pad with ranks of zeros.

N' = 2^floor(lg N) ranks go on and r = N - N' are folded. MPI folds neighbours: of the first 2r ranks every even one hands its
vector to the next before the rounds, and takes the result after them.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.group import ANY_TO_ANY, SWITCHED, Group
from colltool.algorithms.references import CHAN, RABENSEIFNER, THAKUR_RABENSEIFNER_GROPP
from colltool.algorithms.registry import Caveat, algorithm
from colltool.algorithms.rooted import strides
from colltool.base.primitives import AG, AR, RS, Rounds, Schedule, Terms, totals  # noqa: F401  (totals: of the examples)

_MPI = ("MPICH", "Open MPI")


def off_powers_of_two(group: Group) -> str | None:
    """Powers of two have no surplus ranks to fold, and nothing to pad."""
    if group.ranks & (group.ranks - 1):
        return None
    return f"only for rank counts that are not a power of two; {group.ranks} is one"


def _kept(ranks: int) -> int:
    """N': the largest power of two within N."""
    return 1 << (ranks.bit_length() - 1)


def _neighbours(load: float, label: str) -> Terms:
    return Terms(1, load, Rounds("fanout", ((1, load),)), label=label)


_off_powers_of_two = partial(algorithm, on=ANY_TO_ANY, requires=(off_powers_of_two,))


@_off_powers_of_two(
    "recursive-doubling-fold",
    AR,
    shipped_by=_MPI,
    source=THAKUR_RABENSEIFNER_GROPP,
    equation="t = (lg N' + 2) α + (lg N' + 2) M/BW, N' = 2^floor(lg N)",
)
def recursive_doubling_all_reduce(group: Group) -> Schedule:
    """Recursive doubling off powers of two: the surplus ranks add their vectors to a neighbour's, and receive the result.

    For small messages. What MPI runs when N is not a power of two.

    >>> totals(recursive_doubling_all_reduce(Group(6, "star")))
    (4, 4.0)
    """
    kept = _kept(group.ranks)
    steps = tuple((stride, 1.0) for stride in strides(kept))
    rounds = Terms(len(steps), float(len(steps)), Rounds("xor", steps, group.ranks - kept), label="doubling")
    return _neighbours(1.0, "fold"), rounds, _neighbours(1.0, "unfold")


@_off_powers_of_two(
    "rabenseifner-fold",
    AR,
    shipped_by=("MPICH",),
    source=f"{RABENSEIFNER}; {THAKUR_RABENSEIFNER_GROPP}",
    equation="t = (2 lg N' + 2) α + (2(N'-1)/N' + 2) M/BW, N' = 2^floor(lg N)",
)
def rabenseifner_fold(group: Group) -> Schedule:
    """Rabenseifner off powers of two, folded: the surplus ranks cost two messages of the whole vector.

    What MPICH runs when N is not a power of two: about twice the bytes of a power of two.

    >>> totals(rabenseifner_fold(Group(6, "star")))
    (6, 3.5)
    """
    kept = _kept(group.ranks)
    up, folded = tuple((stride, stride / kept) for stride in strides(kept)), group.ranks - kept
    halving = Terms(len(up), (kept - 1) / kept, Rounds("xor", up[::-1], folded), primitive=RS, label="halving")
    doubling = Terms(len(up), (kept - 1) / kept, Rounds("xor", up, folded), primitive=AG, label="doubling")
    return _neighbours(1.0, "fold"), halving, doubling, _neighbours(1.0, "unfold")


def _idle_ranks(group: Group) -> Caveat:
    whole = 2 * _kept(group.ranks)
    idle = whole - group.ranks
    return Caveat("reference", f"takes {whole} ranks: {idle} beside the group hold zeros, {idle / whole:.0%} of all do no work")


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

    Needs ranks that the group does not have, on idle ports of the same switch: a textbook construction that no library runs.

    >>> totals(rabenseifner_padded(Group(6, "star")))
    (6, 1.75)
    """
    whole = 2 * _kept(group.ranks)
    up = tuple((stride, stride / whole) for stride in strides(whole))
    halving = Terms(len(up), (whole - 1) / whole, Rounds("xor", up[::-1]), primitive=RS, label="halving")
    return halving, Terms(len(up), (whole - 1) / whole, Rounds("xor", up), primitive=AG, label="doubling")


def _blocks(ranks: int) -> tuple[tuple[int, float], ...]:
    """(stride, bytes) of doubling among N' ranks, the first r of which hold two chunks of M/N: the fullest block counts."""
    kept = _kept(ranks)
    return tuple((stride, (stride + min(stride, ranks - kept)) / ranks) for stride in strides(kept))


@_off_powers_of_two(
    "recursive-doubling-fold",
    AG,
    source=THAKUR_RABENSEIFNER_GROPP,
    equation="t = (lg N' + 2) α + (1 + Σ_k (2^k + min(2^k, r))/N) M/BW, N' = 2^floor(lg N), r = N - N', k below lg N'",
)
def recursive_doubling_gather(group: Group) -> Schedule:
    """Recursive doubling off powers of two: the surplus ranks give a neighbour their chunk, and receive all the others' from it.

    The mirror image of the folded reduce-scatter. MPI takes Bruck's rounds instead.

    >>> totals(recursive_doubling_gather(Group(6, "star")))
    (4, 2.0)
    """
    n, steps = group.ranks, _blocks(group.ranks)
    rounds = Terms(len(steps), sum(load for _, load in steps), Rounds("xor", steps, n - _kept(n)), label="doubling")
    return _neighbours(1 / n, "fold"), rounds, _neighbours((n - 1) / n, "unfold")


@_off_powers_of_two(
    "recursive-halving-fold",
    RS,
    shipped_by=_MPI,
    source=THAKUR_RABENSEIFNER_GROPP,
    mirror="recursive-doubling-fold",
    equation="t = (lg N' + 2) α + (1 + Σ_k (2^k + min(2^k, r))/N) M/BW, N' = 2^floor(lg N), r = N - N', k below lg N'",
)
def recursive_halving_scatter(group: Group) -> Schedule:
    """Recursive halving off powers of two: the surplus ranks add their vectors to a neighbour's, and receive their chunk.

    A folded rank keeps its own part of its chunk; MPICH hands over the whole vector, M/N more.

    >>> totals(recursive_halving_scatter(Group(6, "star")))
    (4, 2.0)
    """
    n, steps = group.ranks, _blocks(group.ranks)[::-1]
    rounds = Terms(len(steps), sum(load for _, load in steps), Rounds("xor", steps, n - _kept(n)), label="halving")
    return _neighbours((n - 1) / n, "fold"), rounds, _neighbours(1 / n, "unfold")
