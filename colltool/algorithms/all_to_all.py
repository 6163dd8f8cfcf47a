"""All-to-all on any-to-any fabrics. M is the whole send buffer of a rank: N chunks of M/N."""

from __future__ import annotations

from colltool.algorithms.group import ANY_TO_ANY, Group
from colltool.algorithms.libraries import rccl_sends
from colltool.algorithms.references import BRUCK, THAKUR_RABENSEIFNER_GROPP
from colltool.algorithms.registry import algorithm
from colltool.algorithms.rooted import strides
from colltool.algorithms.routes import many_sends, to_all
from colltool.base.primitives import A2A, Peers, Rounds, Terms


@algorithm(
    "pairwise",
    A2A,
    on=ANY_TO_ANY,
    shipped_by=("NCCL", "RCCL", "MPI"),
    source=f"{THAKUR_RABENSEIFNER_GROPP}; NCCL's grouped send/recv",
    baseline=True,
    usual=True,
    equation="t = (N-1) α + (N-1)/N M/BW; over several distances the sum over the peers: Σ n_i (α_i + (M/N)/BW_i)",
)
def pairwise(group: Group) -> Terms:
    """Pairwise: N-1 messages of M/N, one peer after the other.

    Only the messages that cross an oversubscribed boundary pay for it.

    >>> pairwise(Group(4, "star"))[:2]
    (3, 0.75)
    """
    n = group.ranks
    return Terms(n - 1, (n - 1) / n, Peers())


@algorithm(
    "bruck",
    A2A,
    on=ANY_TO_ANY,
    shipped_by=("MPICH", "Open MPI"),
    source=BRUCK,
    usual=True,
    equation="t = lg N α + (1/N) Σ_k (slots with bit k) M/BW, which is (lg N)/2 M/BW for a power of two",
)
def bruck(group: Group) -> Terms:
    """Bruck: lg N rounds; round k sends every slot whose number has bit k set.

    Trades bytes for latency: for small messages.

    >>> bruck(Group(8, "star"))[:2]
    (3, 1.5)
    >>> bruck(Group(5, "star"))[:2]
    (3, 1.0)
    """
    n = group.ranks
    steps = tuple((stride, _slots_with(stride, n) / n) for stride in strides(n))
    return Terms(len(steps), sum(load for _, load in steps), Rounds("shift", steps))


def _slots_with(bit: int, ranks: int) -> int:
    whole, rest = divmod(ranks, 2 * bit)
    return whole * bit + max(0, rest - bit)


@algorithm(
    "direct",
    A2A,
    on=ANY_TO_ANY,
    shipped_by=("NCCL", "RCCL", "MPICH", "Open MPI"),
    limits=(rccl_sends,),
    source=f"{THAKUR_RABENSEIFNER_GROPP}; grouped sends to all peers (NCCL), Open MPI's linear all-to-all",
    caveat=many_sends,
    equation="t = α + (N-1)/N M/BW; on a full mesh, all links at once: α + 1/N M/BW",
)
def direct(group: Group) -> Terms:
    """Direct: the N-1 messages of M/N to all peers at once.

    Over several tiers the busiest port, link or uplink sets the time: a link between domains of d ranks each carries d chunks.

    >>> direct(Group(4, "star"))[:2]
    (1, 0.75)
    >>> direct(Group(4, "full_mesh"))[:2]
    (1, 0.25)
    """
    return to_all(group, 1 / group.ranks)
