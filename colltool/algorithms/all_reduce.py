"""All-reduce on any-to-any fabrics. M is the vector that each rank holds.

Some of the schedules here are halves of others: recursive doubling (:func:`doubling`) and the
direct exchange (:func:`direct_steps`) are also all-gathers.
"""

from __future__ import annotations

from functools import partial
from math import log2

from colltool.algorithms.binary_trees import (
    double_tree_arrays,
    edges_of,
    tree_all_reduce,
)
from colltool.algorithms.broadcast import binomial_steps, mpi_algorithm
from colltool.algorithms.libraries import (
    kernels_inside,
    nccl_inside,
    nccl_links,
    nccl_rails,
    nccl_tree,
)
from colltool.algorithms.lines import (
    embedded_ring,
)
from colltool.algorithms.partners import posting_caveat, to_all
from colltool.algorithms.program import (
    Batches,
    Program,
    equal_chunks,
    moves,
    schedule,
    step,
    strides,
)
from colltool.algorithms.registry import (
    APPROXIMATIONS,
    CHAN,
    MSCCLPP,
    NCCL_TREES,
    PATARASUK_YUAN,
    RABENSEIFNER,
    THAKUR_RABENSEIFNER_GROPP,
    TWO_TREES,
    Caveat,
    algorithm,
)
from colltool.algorithms.rings import on_ring
from colltool.base.primitives import (
    AG,
    AR,
    RS,
    Primitive,
    Ring,
    Rounds,
    Schedule,
    Terms,
    Trees,
    log2_ceil,
)
from colltool.network.arrays import np
from colltool.network.group import ANY_TO_ANY, LATTICE, SEVERAL_TIERS, Group, power_of_two

ring_algorithm = partial(
    algorithm,
    "ring",
    on=ANY_TO_ANY | LATTICE | SEVERAL_TIERS,
    shipped_by=("NCCL", "RCCL", "MPI", "Gloo"),
    limits=(nccl_inside, nccl_rails, nccl_links),
    source=PATARASUK_YUAN,
    baseline=True,
    usual=True,
)
power_of_two_algorithm = partial(mpi_algorithm, requires=(power_of_two,))
_kernel_algorithm = partial(
    algorithm,
    on=ANY_TO_ANY,
    shipped_by=("vLLM", "TensorRT-LLM", "MSCCL++", "RCCL (MSCCL)"),
    limits=(kernels_inside,),
    caveat=posting_caveat,
)


@ring_algorithm(AR, equation="t = 2(N-1) α + 2(N-1)/N M/BW")
def ring(group: Group) -> Terms:
    """Ring all-reduce: a reduce-scatter and an all-gather around one ring of all ranks.

    Bandwidth-optimal on one port per rank. Already pipelined, with P = N chunks. On a lattice the
    ring is embedded: every hop is a link. On several tiers it is packed: it leaves each domain
    once.

    >>> ring(Group(4, "star"))[:2]
    (6, 1.5)
    """
    n = group.ranks
    return Terms(2 * (n - 1), 2 * (n - 1) / n, Ring())


@schedule("ring", AR, AG, RS, per_pair=1)
def _ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    if group.axes:
        return embedded_ring(primitive, group)
    return on_ring(primitive, np.arange(group.ranks, dtype=np.int64))


@algorithm(
    "tree",
    AR,
    on=ANY_TO_ANY,
    source=f"{CHAN}: reduce, then broadcast, on one minimum spanning tree",
    usual=True,
    equation="t = 2 lg N α + 2 lg N M/BW",
)
def tree(group: Group) -> Terms:
    """One tree, not pipelined: reduce to the root, then broadcast.

    The tree of the textbooks. What NCCL calls Tree is the double binary tree.

    >>> tree(Group(4, "star"))[:2]
    (4, 4)
    """
    # A reduction from the leaves up, near partners first; then the broadcast back down.
    steps = tuple((stride, 1.0) for stride in strides(group.ranks))
    return Terms(2 * len(steps), 2 * len(steps), Rounds("fanout", steps + steps[::-1]))


moves("tree", AR, chunks=1)(binomial_steps)


def ring_against_tree(ranks: int, alpha_s: float, bandwidth_Bps: float) -> dict[str, float]:
    """The textbook approximations of the size from which a ring is faster than a tree, in bytes by
    formula.

    The exact size is αBW((N-1) - lg N)/(lg N - (N-1)/N). Textbooks drop some of its terms:
    N·α·BW/log2 N, N·α·BW/(log2 N - 1), or just N·α·BW as a rule of thumb.

    >>> {name: round(size / 1e6, 2) for name, size in ring_against_tree(64, 1e-6, 1e11).items()}
    {'N*alpha*BW/log2N': 1.07, 'N*alpha*BW/(log2N-1)': 1.28, 'N*alpha*BW': 6.4}
    """
    scale = ranks * alpha_s * bandwidth_Bps
    doublings = log2(ranks)
    sizes = {"N*alpha*BW/log2N": scale / doublings}
    if ranks > 2:
        sizes["N*alpha*BW/(log2N-1)"] = scale / (doublings - 1)
    return sizes | {"N*alpha*BW": scale}


APPROXIMATIONS[AR, "ring", "tree"] = ring_against_tree


def counted_c(ranks: int) -> float:
    """c of the double binary tree, counted on its edges: bytes through the busiest port in each
    direction, in units of M.

    >>> [counted_c(ranks) for ranks in (2, 3, 4, 512)]
    [1.0, 1.5, 2.0, 2.0]
    """
    # With two or three ranks no rank has enough edges for 2M.
    return min(2.0, ranks / 2)


def two_ports(group: Group) -> Caveat | None:
    """The caveat where the user's c is below the counted one: it needs two ports, and no known rank
    drives two at full bandwidth.

    On routed tiers c is not used: the bytes are counted link by link.
    """
    if group.links or group.tree_beta >= counted_c(group.ranks):
        return None
    return Caveat(
        "hypothetical",
        f"c = {group.tree_beta:g}: a rank that drives two or more full-bandwidth ports at once",
    )


@algorithm(
    "double-binary-tree",
    AR,
    on=ANY_TO_ANY,
    shipped_by=("NCCL", "RCCL"),
    limits=(nccl_tree,),
    source=f"{TWO_TREES}; {NCCL_TREES}",
    usual=True,
    caveat=two_ports,
    equation=(
        "t = 2 lg N α + c M/BW (asymptotic); c = 2, 1.5 on 3 ranks, 1 on 2\n"
        "t(P) = (L+P-1) α + c (F+P-1)/P M/BW with L = 2 lg N and F = lg N - 1/2"
    ),
)
def double_binary_tree(group: Group) -> Terms:
    """Double binary tree: two complementary trees, each reducing and broadcasting half of the
    vector, pipelined.

    A rank with two children in one tree has at most one in the other, so from 4 ranks on each port
    carries 2M each way. The way up and the way down use a port's two directions, so it fills in
    half of the depth: executed, the port carries (2P + 2 lg N - 3)/P for P = 1 and from P = 2 lg N
    - 1 on, a little less between. c = 1 (--tree-beta 1) is a rank that drives two ports at full
      rate at once, with F = lg N; on one port it would break the lower bound.

    >>> double_binary_tree(Group(8, "star"))[:2]
    (6, 2.0)
    """
    rounds = log2_ceil(group.ranks)
    c = min(group.tree_beta, counted_c(group.ranks))
    fill = rounds - 0.5 if c == 2 else rounds
    return Terms(2 * rounds, c, Trees(both_ways=True), fill=fill)


@schedule("double-binary-tree", AR)
def _double_binary_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    """Half of the vector on each tree, in P segments; up and down overlap."""
    return tree_all_reduce(
        primitive, group.ranks, edges_of(double_tree_arrays(group.ranks)), segments
    )


@power_of_two_algorithm("recursive-doubling", AR, equation="t = lg N α + lg N M/BW")
def recursive_doubling(group: Group) -> Terms:
    """Recursive doubling: in each round exchange the whole vector with the partner at twice the
    distance.

    Least latency on one port, most bytes. Needs a power of two. Partners change, so it cannot be
    pipelined.

    >>> recursive_doubling(Group(8, "star"))[:2]
    (3, 3)
    """
    steps = tuple((stride, 1.0) for stride in strides(group.ranks))
    return Terms(len(steps), len(steps), Rounds("xor", steps))


def exchanged_vectors(n: int) -> Batches:
    """Exchange the whole vector, chunk 0, with the partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)
    for stride in strides(n):
        yield (step(rank, rank ^ stride, chunk=0, add=True),)


@schedule("recursive-doubling", AR)
def _recursive_doubling(primitive: Primitive, group: Group, _segments: int) -> Program:
    return equal_chunks(primitive, group.ranks, chunks=1, batches=exchanged_vectors(group.ranks))


def halving_doubling(kept: int, folded: int = 0) -> Schedule:
    """The terms of both halves of Rabenseifner's all-reduce among ``kept`` ranks, into which
    ``folded`` others were folded."""
    rounds = tuple((stride, stride / kept) for stride in strides(kept))
    # Halving sends 1/2, 1/4 ... of the vector, to the farthest partner first; doubling is that
    # reversed.
    n_beta = (kept - 1) / kept
    halving = Rounds("xor", rounds[::-1], folded=folded)
    doubling = Rounds("xor", rounds, folded=folded)
    return (
        Terms(len(rounds), n_beta, halving, primitive=RS, label="halving"),
        Terms(len(rounds), n_beta, doubling, primitive=AG, label="doubling"),
    )


@power_of_two_algorithm(
    "rabenseifner",
    AR,
    source=f"{RABENSEIFNER}; {THAKUR_RABENSEIFNER_GROPP}",
    equation="t = 2 lg N α + 2(N-1)/N M/BW",
)
def rabenseifner(group: Group) -> Schedule:
    """Rabenseifner: reduce-scatter by recursive halving, then all-gather by recursive doubling.

    Optimal in bytes and within a factor of two in latency. Needs a power of two. Partners change,
    so it cannot be pipelined.

    >>> totals(rabenseifner(Group(8, "star")))
    (6, 1.75)
    """
    return halving_doubling(group.ranks)


@moves("rabenseifner", AR)
def doubling(n: int) -> Batches:
    """Exchange all chunks so far, an aligned block, with the partners at distance 1, 2, 4 ..."""
    rank = np.arange(n, dtype=np.int64)[:, None]
    # Before the round of a stride each rank has the aligned block of that many chunks around it.
    for stride in strides(n):
        yield (step(rank, rank ^ stride, rank // stride * stride + np.arange(stride)),)


@_kernel_algorithm(
    "one-shot",
    AR,
    source=f"{MSCCLPP}: inference kernels in which every rank reads every other",
    equation="t = α + (N-1) M/BW; on a full mesh, all links at once: α + M/BW",
)
def one_shot(group: Group) -> Terms:
    """One-shot: every rank reads the vectors of all others and adds them up itself.

    For small messages on few ranks.

    >>> one_shot(Group(4, "star"))[:2]
    (1, 3.0)
    >>> one_shot(Group(4, "full_mesh"))[:2]
    (1, 1.0)
    """
    return to_all(group, 1.0)


@schedule("one-shot", AR)
def _one_shot(primitive: Primitive, group: Group, _segments: int) -> Program:
    # Every ordered pair of two ranks.
    src, dst = np.nonzero(~np.eye(group.ranks, dtype=bool))
    return equal_chunks(
        primitive, group.ranks, chunks=1, batches=iter([(step(src, dst, chunk=0, add=True),)])
    )


@_kernel_algorithm(
    "two-shot",
    AR,
    source=f"{MSCCLPP}: direct reduce-scatter, then direct all-gather",
    equation="t = 2 α + 2(N-1)/N M/BW; on a full mesh, all links at once: 2 α + 2/N M/BW",
)
def two_shot(group: Group) -> Schedule:
    """Two-shot: a direct reduce-scatter with all peers at once, then a direct all-gather.

    >>> totals(two_shot(Group(4, "star")))
    (2, 1.5)
    >>> totals(two_shot(Group(4, "full_mesh")))
    (2, 0.5)
    """
    scatter = to_all(group, 1 / group.ranks, primitive=RS, label="reduce-scatter")
    return scatter, to_all(group, 1 / group.ranks, primitive=AG, label="all-gather")


@moves("two-shot", AR)
def direct_steps(n: int) -> Batches:
    """Every rank sends its chunk to all others in one step."""
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, dst, src),)
