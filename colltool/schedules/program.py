"""A schedule as steps of messages, each a chunk that the receiver adds or copies."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A, BC, REDUCE, Primitive

Indices = NDArray[np.int64]


class Step(NamedTuple):
    """Messages sent at the same time; all read the state before the step. Arrays have shape (m,)."""

    src: Indices
    dst: Indices
    chunk: Indices
    add: bool  # sum into what the receiver holds, else overwrite


Batches = Iterator[tuple[Step, ...]]


class Program(NamedTuple):
    """A schedule for one group of N ranks."""

    primitive: Primitive
    ranks: int
    nodes: int  # the ranks, then switches, servers or padding
    chunk_bytes: NDArray[np.float64]  # in units of M, shape (chunks,)
    home: Indices  # who holds each chunk at first (AG, A2A, BC, P2P) or must hold it at the end (RS, REDUCE); AR ignores it
    target: Indices  # who must hold each chunk at the end (A2A, P2P)
    batches: Batches  # steps in order; those of one item run at the same time
    streamed: bool = False  # steps overlap (segments or cut-through): the busiest port's total counts, not each step's
    servers: int = 0  # nodes after the ranks with one port each


def step(src: object, dst: object, chunk: object, *, add: bool = False) -> Step:
    """A step from array-likes, broadcast against each other."""
    arrays = np.broadcast_arrays(*(np.asarray(one, dtype=np.int64) for one in (src, dst, chunk)))
    s, d, c = (np.ravel(one) for one in arrays)
    return Step(s, d, c, add)


def equal_chunks(primitive: Primitive, ranks: int, chunks: int, batches: Batches, *, nodes: int = 0, streamed: bool = False,
                 servers: int = 0) -> Program:  # fmt: skip
    """A program on equal chunks in their usual places.

    Chunk c belongs to rank c mod N; a broadcast's or reduction's to rank 0. An all-to-all's chunk ``src * N + dst``, of M/N, goes
    from src to dst.
    """
    number = np.arange(chunks, dtype=np.int64)
    home, target = np.divmod(number, ranks) if primitive is A2A else (number % ranks, number % ranks)
    if primitive in (BC, REDUCE):
        home = target = np.zeros_like(number)
    sizes = np.full(chunks, 1 / (ranks if primitive is A2A else chunks))
    return Program(primitive, ranks, nodes or ranks, sizes, home=home, target=target, batches=batches, streamed=streamed,
                   servers=servers)  # fmt: skip


def backwards(batches: Batches) -> Batches:
    """A gather reversed into a reduction: last step first, messages turned round, sums for copies."""
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

    ``per_pair``, a number or a function of N, is about how many chunks move per pair of ranks, for :func:`effort`.
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
    """Rough cost of executing a schedule, in messages; ``segments`` for a pipelined one."""
    if segments is not None:
        return _MANY * ranks * segments
    per_pair = _PER_PAIR[primitive, name]
    return ranks**2 * (per_pair(ranks) if callable(per_pair) else per_pair)
