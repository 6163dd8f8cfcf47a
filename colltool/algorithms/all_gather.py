"""All-gather and reduce-scatter on any-to-any fabrics.

M is the whole result of an all-gather, and the vector that each rank starts with in a
reduce-scatter. A reduce-scatter is the all-gather of the same name run backwards, so both cost the
same. What runs on rank counts that are no power of two is in
:mod:`colltool.algorithms.off_powers_of_two`.
"""

from __future__ import annotations

from colltool.algorithms.all_reduce import (
    direct_steps,
    doubling,
    power_of_two_algorithm,
    ring_algorithm,
)
from colltool.algorithms.partners import posting_caveat, to_all
from colltool.algorithms.program import Batches, moves, step, strides
from colltool.algorithms.registry import MSCCLPP, PAT, algorithm
from colltool.base.primitives import (
    AG,
    RS,
    Ring,
    Rounds,
    Terms,
    ceil_div,
    step_a_peer,
)
from colltool.network.arrays import np
from colltool.network.group import ANY_TO_ANY, ONE_TIER, Group


def one_rank_per_node(group: Group) -> str | None:
    """NCCL runs PAT between nodes only, and only with one rank on each."""
    if group.scale_out:
        return None
    return "runs between nodes only, with one rank on each (NCCL >= 2.23)"


@ring_algorithm(AG, RS, equation="t = (N-1) α + (N-1)/N M/BW")
def ring(group: Group) -> Terms:
    """Ring: N-1 steps, a chunk of M/N to the next rank in each.

    Bandwidth-optimal on one port per rank.

    >>> ring(Group(4, "star"))[:2]
    (3, 0.75)
    """
    return step_a_peer(group.ranks, Ring())


@power_of_two_algorithm("recursive-doubling", AG, usual=True, equation="t = lg N α + (N-1)/N M/BW")
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


@power_of_two_algorithm(
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
    # Before the round of a stride a rank has the chunks of the ranks at every multiple of twice that
    # stride behind it.
    steps = tuple((stride, ceil_div(n - stride, 2 * stride) / n) for stride in reversed(strides(n)))
    return Terms(len(steps), (n - 1) / n, Rounds("shift", steps))


@moves("pat", AG, RS)
def _far_first(n: int) -> Batches:
    """The rounds of PAT, to the rank ..., 4, 2, 1 ahead.

    A rank has the chunks at a set of offsets behind it, at first offset 0 alone; each round adds the
    same set shifted by the distance of the round, as far as offsets stay below N.
    """
    rank = np.arange(n, dtype=np.int64)[:, None]
    offsets = np.zeros(1, dtype=np.int64)
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
    caveat=posting_caveat,
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


moves("direct", AG, RS)(direct_steps)
