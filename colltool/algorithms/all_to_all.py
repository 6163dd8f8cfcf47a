"""All-to-all on any-to-any fabrics.

M is the send buffer of a rank, N chunks of M/N; chunk ``src * N + dst`` goes from src to dst.
"""

from __future__ import annotations

from colltool.algorithms.broadcast import mpi_algorithm
from colltool.algorithms.partners import posting_caveat, to_all
from colltool.algorithms.program import Batches, moves, step, strides
from colltool.algorithms.registry import BRUCK, THAKUR_RABENSEIFNER_GROPP, algorithm
from colltool.base.primitives import A2A, Peers, Rounds, Terms, step_a_peer
from colltool.network.arrays import np
from colltool.network.group import ANY_TO_ANY, Group


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
    """Every rank sends to the rank k ahead in step k."""
    src = np.arange(n, dtype=np.int64)
    for k in range(1, n):
        yield (step(src, (src + k) % n, src * n + (src + k) % n),)


@mpi_algorithm(
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
    # Slots below N with a bit set: ``bit`` of them in every whole block of 2 * bit, and those of the
    # last, partial block.
    n = group.ranks
    steps = tuple(
        (bit, (n // (2 * bit) * bit + max(0, n % (2 * bit) - bit)) / n) for bit in strides(n)
    )
    return Terms(len(steps), sum(load for _, load in steps), Rounds("shift", steps))


@moves("bruck", A2A)
def _by_distance_bits(n: int) -> Batches:
    """Round k moves every chunk whose distance (dst - src mod N) has bit k set 2^k ranks ahead."""
    src, dst = np.divmod(np.arange(n * n), n)
    distance = (dst - src) % n
    for stride in strides(n):
        chunk = np.flatnonzero(distance & stride)
        # The chunk has covered the lower bits of its distance.
        here = (src + distance % stride)[chunk] % n
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
    caveat=posting_caveat,
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
def all_pairs_at_once(n: int) -> Batches:
    """Every chunk to its destination in a single step."""
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src * n + dst),)
