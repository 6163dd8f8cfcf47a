"""One root: broadcast, reduce, and the single message of point-to-point. M is the payload."""

from __future__ import annotations

from colltool.algorithms.group import ANY_TO_ANY, LATTICE, SEVERAL_TIERS, Group
from colltool.algorithms.libraries import nccl_inside, nccl_links, nccl_rails
from colltool.algorithms.references import CHAN, HOCKNEY, NCCL_RINGS, THAKUR_RABENSEIFNER_GROPP, TWO_TREES
from colltool.algorithms.registry import algorithm
from colltool.base.errors import given
from colltool.base.primitives import BC, P2P, REDUCE, Chain, Pair, Ring, Rounds, Schedule, Terms, Trees, log2_ceil, totals  # noqa: F401  (totals: of the examples)


def strides(ranks: int) -> tuple[int, ...]:
    """1, 2, 4 ... below N: the partner distances of lg N rounds."""
    return tuple(1 << k for k in range(log2_ceil(ranks)))


@algorithm(
    "chain",
    BC,
    REDUCE,
    on=ANY_TO_ANY | {"lattice_tiers"},
    shipped_by=("NCCL", "RCCL", "Open MPI"),
    limits=(nccl_inside, nccl_rails, nccl_links),
    source=f"{CHAN}; NCCL's ring broadcast and reduce: {NCCL_RINGS}",
    baseline=True,
    usual=True,
    equation=(
        "t = (N-1) α + M/BW, with the filling of the pipeline left out (asymptotic reading)\n"
        "t(P) = (L+P-1) (α + M/(P BW)) with L = N-1 for P segments"
    ),
)
def chain(group: Group) -> Terms:
    """Pipelined chain: the payload walks from rank to rank, segment behind segment.

    Assumes full-duplex ports: a rank passes one segment on while it receives the next.

    >>> chain(Group(8, "star"))[:2]
    (7, 1)
    """
    depth = group.ranks - 1
    return Terms(depth, 1, Chain(), fill=depth)


@algorithm(
    "binomial",
    BC,
    REDUCE,
    on=ANY_TO_ANY,
    shipped_by=("MPICH", "Open MPI"),
    source=THAKUR_RABENSEIFNER_GROPP,
    usual=True,
    equation="t = lg N α + lg N M/BW",
)
def binomial(group: Group) -> Terms:
    """Binomial tree, whole payload in every round.

    The root alone sends lg N copies through its one port, so cutting the payload in segments gains nothing: the log-depth
    broadcast that keeps n_β at 1 is the pipelined tree. For small messages.

    >>> binomial(Group(8, "star"))[:2]
    (3, 3)
    """
    steps = tuple((stride, 1.0) for stride in strides(group.ranks))
    return Terms(len(steps), len(steps), Rounds("fanout", steps))


@algorithm(
    "pipelined-tree",
    BC,
    REDUCE,
    on=ANY_TO_ANY,
    source=TWO_TREES,
    usual=True,
    equation="t = lg N α + M/BW (asymptotic); t(P) = (L+P-1) (α + M/(P BW)) with L = lg N",
)
def pipelined_tree(group: Group) -> Terms:
    """Two complementary binary trees, each carrying half of the payload, pipelined.

    Both hang from the root, and every other rank is interior in at most one of them: with half of the payload each, no port
    sends more than M.

    >>> pipelined_tree(Group(8, "star"))[:2]
    (3, 1)
    """
    depth = log2_ceil(group.ranks)
    return Terms(depth, 1, Trees(both_ways=False), fill=depth)


@algorithm(
    "scatter-allgather",
    BC,
    on=ANY_TO_ANY,
    shipped_by=("MPICH", "Open MPI"),
    source=f"{THAKUR_RABENSEIFNER_GROPP}; {CHAN}",
    equation="t = (lg N + N-1) α + 2 (N-1)/N M/BW",
)
def scatter_allgather(group: Group) -> Schedule:
    """Van de Geijn broadcast: a binomial scatter, then a ring all-gather.

    For large payloads where no pipelined broadcast is available.

    >>> totals(scatter_allgather(Group(8, "star")))
    (10, 1.75)
    """
    n = group.ranks
    blocks = tuple((stride, min(stride, n - stride) / n) for stride in reversed(strides(n)))
    scatter = Terms(len(blocks), (n - 1) / n, Rounds("fanout", blocks), label="scatter")
    return scatter, Terms(n - 1, (n - 1) / n, Ring(), label="all-gather")


@algorithm(
    "send",
    P2P,
    on=ANY_TO_ANY | LATTICE | SEVERAL_TIERS,
    shipped_by=("NCCL", "RCCL", "MPI"),
    limits=(nccl_inside,),
    source=HOCKNEY,
    note=f"between the two ranks of the group that are farthest apart; {given('ranks', 2)} for neighbours",
    baseline=True,
    equation="t = α + M/BW; on a lattice every hop of the shortest path costs an α",
)
def send(group: Group) -> Terms:
    """One message between the two ranks of the group that are farthest apart.

    Assumes cut-through: the bytes are paid once, whatever the number of hops.

    >>> from colltool.algorithms.group import Axis
    >>> send(Group(8, "star"))[:2]
    (1, 1)
    >>> send(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True))))[:2]
    (4, 1)
    """
    hops = sum(axis.size // 2 if axis.wrap else axis.size - 1 for axis in group.axes)
    return Terms(max(1, hops), 1, Pair())
