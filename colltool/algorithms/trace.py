"""Executes a schedule on a few ranks and records every step, for people to follow.

:func:`traced` records the messages of each step and what every node has after it: for each chunk
the ranks whose contributions are in it and, on request, its numbers. :func:`traced_by_hops` also
shows the hops of messages that a lattice forwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, zip_longest
from math import lcm
from operator import add
from typing import Literal, NamedTuple

import numpy as np

from colltool.algorithms.executor import Network, concatenated
from colltool.algorithms.program import Program, Step, step
from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.network.arrays import Floats, Indices
from colltool.network.lattice_links import LatticeLinks

Values = tuple[float, ...]

Vectors = Sequence[Sequence[float]] | Literal["example"]
"""The numbers that each rank starts with, as many at every rank; ``example``: small numbers that are
easy to follow."""

_EXAMPLE = (1, 5, 3, 7)  # the first values of rank 0 in ``example``; those of rank r are r more

Hop = tuple[int, int, int]  # src, dst, chunk


class Message(NamedTuple):
    """A chunk sent, to be summed (``add``) or copied; ``values`` are the numbers in it."""

    src: int
    dst: int
    chunk: int
    add: bool
    values: Values = ()


class TracedChunk(NamedTuple):
    """A chunk at a node."""

    chunk: int
    ranks: tuple[int, ...]  # whose contributions are summed in it
    values: Values = ()  # its numbers; empty in a run without numbers


Holdings = tuple[tuple[TracedChunk, ...], ...]  # the chunks at every node: ranks, then switches


class TracedStep(NamedTuple):
    """A step of a trace: its messages, and what every node has after them."""

    messages: tuple[Message, ...]
    n_alpha: float  # what it adds to n_α
    n_beta: float  # what it adds to n_β
    holds: Holdings  # after the step


class Trace(NamedTuple):
    """An executed schedule."""

    ranks: int  # N; further nodes are switches or padding
    chunk_bytes: tuple[float, ...]  # in units of M
    summed: bool  # chunks are sums over ranks, not copies of one rank's data
    start: Holdings  # before the first step
    steps: tuple[TracedStep, ...]
    vectors: tuple[Values, ...] = ()  # each rank's input; empty in a run without numbers


def traced(program: Program, network: Network, vectors: Vectors = ()) -> Trace:
    """Execute a schedule, whose batches are consumed, and record every step.

    Args:
        network: counts the loads, from which n_α and n_β of each step are.
        vectors: the ranks' numbers, by default none: who contributed is recorded all the same.
    """
    state = _State(program, vectors)
    start = state.holdings()
    steps = []
    for batch in program.batches:
        hops = network.hops
        peak = network.peak
        network.carry(program.at_places(batch), program.chunk_bytes)
        messages = state.apply(batch)
        added = (network.hops - hops, network.peak - peak)
        steps.append(TracedStep(messages, *added, state.holdings()))
    return state.trace(start, steps)


def traced_by_hops(program: Program, lattice: LatticeLinks, vectors: Vectors) -> Trace:
    """Record a schedule whose messages a lattice forwards, every hop between neighbours as a step.

    Paths are those of the link model: axis 1 first, the shorter direction of each ring. Where both
    directions are equally short a chunk is sent in two halves; the second half is numbered after all
    other chunks. Hops of a batch overlap: n_β is what each adds to the load of the busiest link.
    """
    batches = list(program.batches)
    sizes = program.chunk_bytes.copy()
    tied = set[int]()
    for batch in batches:
        src, dst, chunk = concatenated(batch)
        for use in lattice.uses(src, dst):
            tied.update(chunk[use.message[use.share < 1]].tolist())
    # By each chunk that is cut in two, the number of its second half.
    second_half_of = {chunk: number for number, chunk in enumerate(sorted(tied), start=len(sizes))}
    sizes[list(second_half_of)] /= 2
    # of each chunk and second half, the chunk that it is or is part of
    parts = [*range(len(sizes)), *second_half_of]
    halved = program._replace(
        chunk_bytes=sizes[parts], home=program.home[parts], target=program.target[parts]
    )
    state = _State(halved, vectors)
    start = state.holdings()
    steps = []
    for batch in batches:
        # A new network per batch: hops of a batch overlap, batches do not.
        network = Network(lattice)
        for hop in _split_into_hops(batch, lattice, second_half_of):
            before = network.busiest
            network.carry((hop,), halved.chunk_bytes)
            messages = state.apply((hop,))
            steps.append(TracedStep(messages, 1, network.busiest - before, state.holdings()))
    return state.trace(start, steps)


def _split_into_hops(
    batch: tuple[Step, ...], lattice: LatticeLinks, second_half_of: dict[int, int]
) -> Iterator[Step]:
    """Split the messages of a batch into hops: step k has the k-th hop of every message and half.

    Where both directions are equally short, second halves go downwards; ``second_half_of`` has the numbers of
    second halves by chunk. A lattice's links have the number of the rank that sends on them, and its
    classes are axis 1 up, axis 1 down, axis 2 up ...
    """
    src, dst, chunk = concatenated(batch)
    first_halves: list[list[Hop]] = [[] for _ in src]
    second_halves: list[list[Hop]] = [[] for _ in src]
    for use in lattice.uses(src, dst):
        axis, down = divmod(use.number, 2)
        size = lattice.sizes[axis]
        stride = lattice.strides[axis]
        place = use.resource // stride % size
        direction = -1 if down else 1
        there = use.resource + ((place + direction) % size - place) * stride
        columns = (use.message, use.share, use.resource, there)
        hops = zip(*(column.tolist() for column in columns), strict=True)
        for message, share, here, end in hops:
            sent = int(chunk[message])
            if share == 1 or not down:
                first_halves[message].append((here, end, sent))
            if sent in second_half_of and (share == 1 or down):
                second_halves[message].append((here, end, second_half_of[sent]))
    paths = chain.from_iterable(zip(first_halves, second_halves, strict=True))
    for hops_at_once in zip_longest(*paths):  # None after the end of a shorter path
        yield step(*np.array([hop for hop in hops_at_once if hop]).T)


class _State:
    """The chunks at every node: ``held[node][chunk]`` is (ranks whose contributions are in it, their
    summed values)."""

    def __init__(self, program: Program, vectors: Vectors) -> None:
        """Give every rank the chunks that it starts with, and their numbers where there are
        vectors."""
        self.program = program
        self.summed = program.primitive in (AR, RS, REDUCE)
        if vectors == "example":
            self.vectors = tuple(self._example())
        else:
            self.vectors = tuple(tuple(vector) for vector in vectors)
        self.held: list[dict[int, tuple[frozenset[int], Values]]] = [
            {} for _ in range(program.nodes)
        ]
        for rank in range(program.ranks):
            chunks = self._chunks_of(rank)
            pieces = self._pieces(rank, program.chunk_bytes[chunks])
            for chunk, piece in zip(chunks.tolist(), pieces, strict=True):
                self.held[rank][chunk] = (frozenset([rank]), piece)

    def _example(self) -> Iterator[Values]:
        """A vector for each rank, as short as possible with whole numbers of values per chunk."""
        program = self.program
        sizes = program.chunk_bytes
        # what a rank starts with: all chunks, or its own, which are as many at every rank
        if not self.summed:
            sizes = sizes[program.home == program.home[0]]
        length = lcm(program.ranks, *(round(float(sizes.sum() / size)) for size in sizes))
        for rank in range(program.ranks):
            yield tuple(_EXAMPLE[k % 4] + 8 * (k // 4) + rank for k in range(length))

    def _chunks_of(self, rank: int) -> Indices:
        """The chunks that a rank starts with, in the order of its vector."""
        program = self.program
        if self.summed:
            chunks = np.arange(len(program.home))
        else:
            chunks = np.flatnonzero(program.home == rank)
        # The chunks that a rank ends with are consecutive in the vector.
        if program.primitive is not AR:
            chunks = chunks[np.argsort(program.target[chunks], kind="stable")]
        return chunks

    def _pieces(self, rank: int, sizes: Floats) -> list[Values]:
        """A rank's vector cut into pieces in proportion to these sizes."""
        vector = self.vectors[rank] if self.vectors else ()
        # Rounded to whole numbers of values.
        ends = np.rint(np.cumsum(sizes) / sizes.sum() * len(vector)).astype(int).tolist()
        return [vector[first:last] for first, last in pairwise([0, *ends])]

    def apply(self, batch: tuple[Step, ...]) -> tuple[Message, ...]:
        """Execute a batch and return its messages. All of them are read before the first is received."""
        sent = []
        for sends in batch:
            ends = (sends.src.tolist(), sends.dst.tolist(), sends.chunk.tolist())
            for src, dst, chunk in zip(*ends, strict=True):
                ranks, values = self.held[src][chunk]
                sent.append((Message(src, dst, chunk, sends.add, values), ranks))
        for message, ranks in sent:
            # All-to-alls and sends move their chunks; the others leave a copy.
            if self.program.primitive in (A2A, P2P):
                del self.held[message.src][message.chunk]
            values = message.values
            here = self.held[message.dst]
            if message.add and message.chunk in here:
                ranks_here, values_here = here[message.chunk]
                ranks = ranks | ranks_here
                values = tuple(map(add, values, values_here))
            here[message.chunk] = (ranks, values)
        return tuple(message for message, _ in sent)

    def holdings(self) -> Holdings:
        """The chunks at every node now."""
        holdings = []
        for node in self.held:
            chunks = [
                TracedChunk(chunk, tuple(sorted(ranks)), values)
                for chunk, (ranks, values) in sorted(node.items())
            ]
            holdings.append(tuple(chunks))
        return tuple(holdings)

    def trace(self, start: Holdings, steps: Iterable[TracedStep]) -> Trace:
        """The trace of these steps."""
        return Trace(
            self.program.ranks,
            tuple(self.program.chunk_bytes.tolist()),
            self.summed,
            start,
            tuple(steps),
            self.vectors,
        )
