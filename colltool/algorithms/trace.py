"""Runs a schedule step by step, to be read.

Every chunk knows which ranks' contributions it holds and, on request, the numbers in it.
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
"""The numbers that each rank starts with, all of one length; ``example``: small ones to follow by
eye."""

_EXAMPLE = (1, 5, 3, 7)

Hop = tuple[int, int, int]  # src, dst, chunk


class Message(NamedTuple):
    """A chunk sent, to be summed (``add``) or copied; ``values`` are the numbers in it."""

    src: int
    dst: int
    chunk: int
    add: bool
    values: Values = ()


class Held(NamedTuple):
    """A chunk that a rank holds, the ranks summed in it and, in a run on numbers, its values."""

    chunk: int
    ranks: tuple[int, ...]
    values: Values = ()


Holdings = tuple[tuple[Held, ...], ...]  # of every node: ranks, then switches


class Traced(NamedTuple):
    """A step: its messages, what it adds to n_α and n_β, and what ranks hold after it."""

    messages: tuple[Message, ...]
    n_alpha: float
    n_beta: float
    holds: Holdings


class Trace(NamedTuple):
    """An executed schedule; ``start`` is what ranks hold before the first step."""

    ranks: int  # N; nodes beyond are switches or padding
    chunk_bytes: tuple[float, ...]  # in units of M
    summed: bool  # chunks are sums over ranks, not pieces with one owner
    start: Holdings
    steps: tuple[Traced, ...]
    vectors: tuple[Values, ...] = ()  # each rank's input; empty in a run without numbers


def traced(program: Program, network: Network, vectors: Vectors = ()) -> Trace:
    """Run a schedule (``program`` is consumed) and record every step; ``network`` counts the
    loads."""
    state = _State(program, vectors)
    start = state.holdings()
    steps = []
    for batch in program.batches:
        hops = network.hops
        peak = network.peak
        network.carry(program.at_places(batch), program.chunk_bytes)
        messages = state.apply(batch)
        added = (network.hops - hops, network.peak - peak)
        steps.append(Traced(messages, *added, state.holdings()))
    return state.trace(start, steps)


def traced_by_hops(program: Program, lattice: LatticeLinks, vectors: Vectors) -> Trace:
    """Like :func:`traced`, for chunks that a lattice relays: every hop between neighbours is a
    step.

    Axis 1 first, the shorter way round each ring. A chunk with two equally short ways takes both in
    halves; the second half is numbered after all other chunks. Hops of a batch overlap: n_β is what
    each adds to the load of the busiest link.
    """
    batches = list(program.batches)
    sizes = program.chunk_bytes.copy()
    tied = set[int]()
    for batch in batches:
        src, dst, chunk = concatenated(batch)
        for use in lattice.uses(src, dst):
            tied.update(chunk[use.message[use.share < 1]].tolist())
    # Chunks with two equally short ways are cut in halves, the second of which are new chunks.
    second = {chunk: number for number, chunk in enumerate(sorted(tied), start=len(sizes))}
    sizes[list(second)] /= 2
    parts = [*range(len(sizes)), *second]
    halved = program._replace(
        chunk_bytes=sizes[parts], home=program.home[parts], target=program.target[parts]
    )
    state = _State(halved, vectors)
    start = state.holdings()
    steps = []
    for batch in batches:
        # Hops of a batch overlap: what they load together counts from batch to batch.
        network = Network(lattice)
        for hop in _hops(batch, lattice, second):
            before = network.busiest
            network.carry((hop,), halved.chunk_bytes)
            messages = state.apply((hop,))
            steps.append(Traced(messages, 1, network.busiest - before, state.holdings()))
    return state.trace(start, steps)


def _hops(batch: tuple[Step, ...], lattice: LatticeLinks, second: dict[int, int]) -> Iterator[Step]:
    """One batch hop by hop: messages set out together and are forwarded at once; second halves go
    down where ways tie."""
    src, dst, chunk = concatenated(batch)
    first_halves: list[list[Hop]] = [[] for _ in src]
    second_halves: list[list[Hop]] = [[] for _ in src]
    for use in lattice.uses(src, dst):
        axis, down = divmod(use.number, 2)
        size = lattice.sizes[axis]
        stride = lattice.strides[axis]
        place = use.resource // stride % size
        turn = -1 if down else 1
        there = use.resource + ((place + turn) % size - place) * stride
        columns = (use.message, use.share, use.resource, there)
        hops = zip(*(column.tolist() for column in columns), strict=True)
        for message, share, here, end in hops:
            moved = int(chunk[message])
            if share == 1 or not down:
                first_halves[message].append((here, end, moved))
            if moved in second and (share == 1 or down):
                second_halves[message].append((here, end, second[moved]))
    # Both halves of every message set out together.
    ways = chain.from_iterable(zip(first_halves, second_halves, strict=True))
    for moving in zip_longest(*ways):
        yield step(*np.array([hop for hop in moving if hop]).T)


class _State:
    """``held[node][chunk]``: the ranks whose contributions are in it, and their summed values."""

    def __init__(self, program: Program, vectors: Vectors) -> None:
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
        """Vectors long enough that every chunk has a value."""
        program = self.program
        own = program.chunk_bytes
        if not self.summed:
            own = own[program.home == program.home[0]]
        length = lcm(program.ranks, *(round(float(own.sum() / size)) for size in own))
        for rank in range(program.ranks):
            yield tuple(_EXAMPLE[k % 4] + 8 * (k // 4) + rank for k in range(length))

    def _chunks_of(self, rank: int) -> Indices:
        """The chunks that a rank starts with, in the order in which they lie in its vector."""
        program = self.program
        if self.summed:
            chunks = np.arange(len(program.home))
        else:
            chunks = np.flatnonzero(program.home == rank)
        if program.primitive is not AR:  # what one rank ends with lies together
            chunks = chunks[np.argsort(program.target[chunks], kind="stable")]
        return chunks

    def _pieces(self, rank: int, sizes: Floats) -> list[Values]:
        """A rank's vector cut into chunks of these sizes."""
        vector = self.vectors[rank] if self.vectors else ()
        # Rounded, so that chunks of any size are cut out of whole numbers of values.
        ends = np.rint(np.cumsum(sizes) / sizes.sum() * len(vector)).astype(int).tolist()
        return [vector[first:last] for first, last in pairwise([0, *ends])]

    def apply(self, batch: tuple[Step, ...]) -> tuple[Message, ...]:
        """Move a batch; all of its messages read what was held before it."""
        sent = []
        for sends in batch:
            ends = (sends.src.tolist(), sends.dst.tolist(), sends.chunk.tolist())
            for src, dst, chunk in zip(*ends, strict=True):
                ranks, values = self.held[src][chunk]
                sent.append((Message(src, dst, chunk, sends.add, values), ranks))
        for message, ranks in sent:
            # These move their chunks, the others leave a copy.
            if self.program.primitive in (A2A, P2P):
                del self.held[message.src][message.chunk]
            values = message.values
            here = self.held[message.dst]
            if message.add and message.chunk in here:
                own_ranks, own_values = here[message.chunk]
                ranks = ranks | own_ranks
                values = tuple(map(add, values, own_values))
            here[message.chunk] = (ranks, values)
        return tuple(message for message, _ in sent)

    def holdings(self) -> Holdings:
        """What every node holds now."""
        found = []
        for node in self.held:
            chunks = [
                Held(chunk, tuple(sorted(ranks)), values)
                for chunk, (ranks, values) in sorted(node.items())
            ]
            found.append(tuple(chunks))
        return tuple(found)

    def trace(self, start: Holdings, steps: Iterable[Traced]) -> Trace:
        return Trace(
            self.program.ranks,
            tuple(self.program.chunk_bytes.tolist()),
            self.summed,
            start,
            tuple(steps),
            self.vectors,
        )
