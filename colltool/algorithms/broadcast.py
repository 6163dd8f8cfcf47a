"""Broadcast, reduce and point-to-point: collectives with a root, rank 0. M is the payload."""

from __future__ import annotations

from functools import partial
from itertools import chain as concatenated

from colltool.algorithms.binary_trees import (
    chain_program,
    edges_of,
    one_root_tree_arrays,
)
from colltool.algorithms.libraries import nccl_inside, nccl_links, nccl_rails
from colltool.algorithms.program import (
    Batches,
    Program,
    equal_chunks,
    moves,
    pipelined,
    schedule,
    step,
    strides,
)
from colltool.algorithms.registry import (
    CHAN,
    HOCKNEY,
    NCCL_RINGS,
    THAKUR_RABENSEIFNER_GROPP,
    TWO_TREES,
    algorithm,
)
from colltool.algorithms.rings import gather_on_ring
from colltool.base.errors import argument_text
from colltool.base.primitives import (
    BC,
    P2P,
    REDUCE,
    Chain,
    Pair,
    Primitive,
    Ring,
    Rounds,
    Schedule,
    Terms,
    Trees,
    log2_ceil,
    step_a_peer,
)
from colltool.network.arrays import np
from colltool.network.group import ANY_TO_ANY, LATTICE, SEVERAL_TIERS, Group
from colltool.network.twisted import diameter_of, is_twisted

mpi_algorithm = partial(
    algorithm, on=ANY_TO_ANY, shipped_by=("MPICH", "Open MPI"), source=THAKUR_RABENSEIFNER_GROPP
)


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


@schedule("chain", BC, REDUCE)
def _chain(primitive: Primitive, group: Group, segments: int) -> Program:
    return chain_program(primitive, np.arange(group.ranks), segments)


@mpi_algorithm("binomial", BC, REDUCE, usual=True, equation="t = lg N α + lg N M/BW")
def binomial(group: Group) -> Terms:
    """Binomial tree, whole payload in every round.

    The root alone sends lg N copies through its one port, so cutting the payload in segments gains
    nothing: the log-depth broadcast that keeps n_β at 1 is the pipelined tree. For small messages.

    >>> binomial(Group(8, "star"))[:2]
    (3, 3)
    """
    steps = tuple((stride, 1.0) for stride in strides(group.ranks))
    return Terms(len(steps), len(steps), Rounds("fanout", steps))


@moves("binomial", BC, REDUCE, chunks=1, per_pair=1)
def binomial_steps(n: int) -> Batches:
    """Binomial tree: every rank that has the payload, chunk 0, sends it a stride ahead; the stride
    halves every round."""
    # The ranks that have it by now are at every second multiple of the stride.
    for stride in reversed(strides(n)):
        rank = np.arange(0, n - stride, 2 * stride, dtype=np.int64)
        yield (step(rank, rank + stride, chunk=0),)


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

    Both hang from the root, and every other rank is interior in at most one of them: with half of
    the payload each, no port sends more than M.

    >>> pipelined_tree(Group(8, "star"))[:2]
    (3, 1)
    """
    depth = log2_ceil(group.ranks)
    return Terms(depth, 1, Trees(both_ways=False), fill=depth)


@schedule("pipelined-tree", BC, REDUCE)
def _pipelined_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    return pipelined(primitive, group.ranks, segments, edges_of(one_root_tree_arrays(group.ranks)))


@mpi_algorithm(
    "scatter-allgather",
    BC,
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
    # The last block is smaller where N is not a power of two.
    blocks = tuple((stride, min(stride, n - stride) / n) for stride in reversed(strides(n)))
    scatter = Terms(len(blocks), (n - 1) / n, Rounds("fanout", blocks), label="scatter")
    return scatter, step_a_peer(n, Ring(), "all-gather")


def _scatter_blocks(n: int) -> Batches:
    """Binomial scatter: every rank that has a block sends on the half that starts a stride ahead."""
    chunk = np.arange(n, dtype=np.int64)
    for stride in reversed(strides(n)):
        # The second half of every block of two strides.
        far = chunk[chunk // stride % 2 == 1]
        home = far // stride * stride
        yield (step(home - stride, home, far),)


@moves("scatter-allgather", BC)
def _scatter_allgather(n: int) -> Batches:
    """Binomial scatter of N blocks, then a ring all-gather, which also sends ranks blocks that they
    have from the scatter."""
    return concatenated(_scatter_blocks(n), gather_on_ring(np.arange(n, dtype=np.int64)))


@algorithm(
    "send",
    P2P,
    on=ANY_TO_ANY | LATTICE | SEVERAL_TIERS,
    shipped_by=("NCCL", "RCCL", "MPI"),
    limits=(nccl_inside,),
    source=HOCKNEY,
    note=(
        f"between the two ranks of the group that are farthest apart; {argument_text('ranks', 2)} for"
        " neighbours"
    ),
    baseline=True,
    equation="t = α + M/BW; on a lattice every hop of the shortest path costs an α",
)
def send(group: Group) -> Terms:
    """One message between the two ranks of the group that are farthest apart.

    Assumes cut-through: the bytes are paid once, whatever the number of hops. Where messages are
    routed link by link, α is of the longest way over the outermost tier, and the bytes take the
    narrowest: over several ways some pairs are faster.

    >>> from colltool.network.group import Axis
    >>> send(Group(8, "star"))[:2]
    (1, 1)
    >>> send(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True))))[:2]
    (4, 1)
    """
    return Terms(max(group.hops, diameter_of(group.axes)), 1, Pair())


@schedule("send", P2P, per_pair=1)
def _send(primitive: Primitive, group: Group, _segments: int) -> Program:
    farthest = _farthest_rank(group)
    program = equal_chunks(
        primitive, group.ranks, chunks=1, batches=iter([(step(0, farthest, chunk=0),)])
    )
    return program._replace(target=np.array([farthest]))


def _farthest_rank(group: Group) -> int:
    """The rank that is farthest from rank 0. On a lattice it lies half way round every ring and at
    the end of every line; elsewhere it is the last one."""
    if not group.axes:
        return group.ranks - 1
    if is_twisted(group.axes):
        from colltool.network.twisted_links import farthest_rank  # on arrays

        return farthest_rank(group.axes)
    # Ranks are numbered with the first axis fastest.
    farthest = 0
    stride = 1
    for axis in group.axes:
        hops = axis.size // 2 if axis.wrap else axis.size - 1
        farthest += stride * hops
        stride *= axis.size
    return farthest
