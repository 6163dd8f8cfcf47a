"""What a schedule is: steps of messages, each carrying a chunk from one node to another, to be added or copied."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A, BC, REDUCE, Primitive

Indices = NDArray[np.int64]


class Step(NamedTuple):
    """Messages that leave together; all read the state before the step.

    Args:
        src, dst: node numbers, shape (m,).
        chunk: chunk numbers, shape (m,).
        add: True: summed into what the receiver holds; False: put in its place.
    """

    src: Indices
    dst: Indices
    chunk: Indices
    add: bool


Batches = Iterator[tuple[Step, ...]]


class Program(NamedTuple):
    """A schedule for one group of N ranks.

    Args:
        primitive: what it computes.
        ranks: N; nodes 0 .. N-1.
        nodes: with the switches, which come after the ranks.
        chunk_bytes: size of every chunk in units of M, shape (chunks,).
        home: shape (chunks,): who holds a chunk at first (all-gather, all-to-all, broadcast, p2p) or who must hold it at the
            end (reduce-scatter, reduce); ignored by all-reduce.
        target: shape (chunks,): who must hold a chunk at the end (all-to-all, p2p); ignored elsewhere.
        batches: the steps in order; each item is a tuple of the messages that leave together (a copy and an add may).
        streamed: the steps overlap (segments or cut-through), so that the busiest port's total counts, not each step's.
        servers: nodes behind the ranks that have one port each, as ranks do.
    """

    primitive: Primitive
    ranks: int
    nodes: int
    chunk_bytes: NDArray[np.float64]
    home: Indices
    target: Indices
    batches: Batches
    streamed: bool = False
    servers: int = 0


def step(src: object, dst: object, chunk: object, *, add: bool = False) -> Step:
    """A step from anything array-like; scalars are stretched to the longest."""
    arrays = np.broadcast_arrays(*(np.asarray(one, dtype=np.int64) for one in (src, dst, chunk)))
    s, d, c = (np.ravel(one) for one in arrays)
    return Step(s, d, c, add)


def equal_chunks(primitive: Primitive, ranks: int, chunks: int, batches: Batches, *, nodes: int = 0, streamed: bool = False,
                 servers: int = 0) -> Program:  # fmt: skip
    """A schedule on equal chunks.

    At home: chunk c on rank c, and on from rank 0 where there are more of them; of a broadcast or reduction all on rank 0; of an
    all-to-all chunk ``src * N + dst`` goes from src to dst, N of a rank's are M.
    """
    number = np.arange(chunks, dtype=np.int64)
    home, target = np.divmod(number, ranks) if primitive is A2A else (number % ranks, number % ranks)
    if primitive in (BC, REDUCE):
        home = target = np.zeros_like(number)
    sizes = np.full(chunks, 1 / (ranks if primitive is A2A else chunks))
    return Program(primitive, ranks, nodes or ranks, sizes, home=home, target=target, batches=batches, streamed=streamed,
                   servers=servers)  # fmt: skip


def backwards(batches: Batches) -> Batches:
    """A gathering run backwards with sums for copies: what fanned out from a rank comes in to it."""
    for batch in reversed(list(batches)):
        yield tuple(step(one.dst, one.src, one.chunk, add=True) for one in batch)


def strides(n: int) -> list[int]:
    """1, 2, 4 ... below n."""
    found = [1]
    while found[-1] * 2 < n:
        found.append(found[-1] * 2)
    return found


Maker = Callable[[Group, int], Program]

_MAKERS: dict[tuple[Primitive, str], Maker] = {}
_PER_PAIR: dict[tuple[Primitive, str], int | Callable[[int], int]] = {}

_MANY = 16


def schedule(name: str, *primitives: Primitive, per_pair: int | Callable[[int], int] = _MANY) -> Callable[[Maker], Maker]:
    """Register a maker: (group, segments P) -> program. P matters to pipelined algorithms only.

    ``per_pair``: about how many chunks move for each pair of ranks, or that of N, so that nobody waits for hours.
    """

    def register(maker: Maker) -> Maker:
        for primitive in primitives:
            if (primitive, name) in _MAKERS:
                raise ValueError(f"a schedule of {name} is registered twice for {primitive}")
            _MAKERS[primitive, name] = maker
            _PER_PAIR[primitive, name] = per_pair
        return maker

    return register


def maker(primitive: Primitive, name: str) -> Maker | None:
    return _MAKERS.get((primitive, name))


def effort(primitive: Primitive, name: str, ranks: int, segments: int | None) -> int:
    """About how much work an execution is, in messages moved at once; ``segments`` of a pipelined one go step by step."""
    if segments is not None:
        return _MANY * ranks * segments
    per_pair = _PER_PAIR[primitive, name]
    return ranks**2 * (per_pair(ranks) if callable(per_pair) else per_pair)
