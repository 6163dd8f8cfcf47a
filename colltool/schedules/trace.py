"""A schedule step by step, for people to read: who sends which chunk to whom, and what each rank then holds."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from math import lcm
from operator import add as add_up
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.algorithms.group import Axis
from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.schedules.lattice_links import LatticeLinks
from colltool.schedules.network import Network
from colltool.schedules.program import Program, Step, step

Values = tuple[float, ...]
Vectors = Sequence[Sequence[float]] | Literal["example"]
"""The numbers that each rank starts with, all of one length; ``example``: small ones to follow by eye."""
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


def example_vectors(ranks: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Small numbers to follow by eye: on four ranks 1 5 3 7, 2 6 4 8, 3 7 5 9 and 4 8 6 10, whose sum is 10 26 18 34."""
    return tuple(tuple((1, 5, 3, 7)[k % 4] + 8 * (k // 4) + rank for k in range(length)) for rank in range(ranks))


def traced(program: Program, network: Network, vectors: Vectors = ()) -> Trace:
    """Run a schedule (``program`` is consumed) and record every step; ``network`` counts the loads."""
    state = State(program, vectors)
    start, steps = state.holdings(), []
    for batch in program.batches:
        before = network.hops, network.peak
        network.carry(batch, program.chunk_bytes)
        messages = state.apply(batch)
        steps.append(Traced(messages, network.hops - before[0], network.peak - before[1], state.holdings()))
    return state.trace(start, steps)


def traced_by_hops(program: Program, lattice: LatticeLinks, vectors: Vectors = ()) -> Trace:
    """Like :func:`traced`, for chunks that a lattice relays: every hop between neighbours is a step.

    Axis 1 first, the shorter way round each ring. A chunk with two equally short ways takes both in halves; the second half is
    numbered after all other chunks. Hops of a batch overlap: n_β is what each adds to the load of the busiest link.
    """
    batches = list(program.batches)
    whole, second = _halved(program, batches, lattice)
    state = State(whole, vectors)
    start, steps = state.holdings(), []
    for batch in batches:
        carried, load = 0.0, np.zeros(1)
        for one in _hops(batch, lattice, second):
            load = load + np.concatenate(lattice.loads(one.src, one.dst, whole.chunk_bytes[one.chunk]))
            steps.append(Traced(state.apply((one,)), 1, float(load.max()) - carried, state.holdings()))
            carried = float(load.max())
    return state.trace(start, steps)


class State:
    """``held[node][chunk]``: the ranks whose contributions are in it, and their summed values."""

    def __init__(self, program: Program, vectors: Vectors) -> None:
        self.program = program
        self.summed = program.primitive in (AR, RS, REDUCE)
        self.moved = program.primitive in (A2A, P2P)
        self.vectors = self._example() if vectors == "example" else tuple(map(tuple, vectors))
        self.held: list[dict[int, tuple[frozenset[int], Values]]] = [{} for _ in range(program.nodes)]
        for rank in range(program.ranks):
            own = np.arange(len(program.home)) if self.summed else np.flatnonzero(program.home == rank)
            if program.primitive is not AR:  # what one rank ends with lies together in its vector
                own = own[np.argsort(program.target[own], kind="stable")]
            pieces = _pieces(self.vectors[rank] if self.vectors else (), program.chunk_bytes[own])
            self.held[rank] = {chunk: (frozenset([rank]), piece) for chunk, piece in zip(own.tolist(), pieces, strict=True)}

    def _example(self) -> tuple[Values, ...]:
        """Long enough for at least one value in every chunk."""
        own = self.program.chunk_bytes if self.summed else self.program.chunk_bytes[self.program.home == self.program.home[0]]
        length = lcm(self.program.ranks, *(round(float(own.sum() / size)) for size in own))
        return example_vectors(self.program.ranks, length)

    def apply(self, batch: tuple[Step, ...]) -> tuple[Message, ...]:
        """Move a batch; all of its messages read what was held before it."""
        ways = [(src, dst, chunk, one.add) for one in batch for src, dst, chunk in _messages(one)]
        carried = [self.held[src][chunk] for src, _, chunk, _ in ways]
        for (src, dst, chunk, add), (ranks, values) in zip(ways, carried, strict=True):
            if self.moved:
                del self.held[src][chunk]
            own_ranks, own = self.held[dst].get(chunk, (frozenset(), ())) if add else (frozenset(), ())
            self.held[dst][chunk] = ranks | own_ranks, tuple(map(add_up, values, own)) if own else values
        return tuple(Message(*way, values) for way, (_, values) in zip(ways, carried, strict=True))

    def holdings(self) -> Holdings:
        nodes = (sorted(node.items()) for node in self.held)
        return tuple(tuple(Held(chunk, tuple(sorted(ranks)), values) for chunk, (ranks, values) in node) for node in nodes)

    def trace(self, start: Holdings, steps: Sequence[Traced]) -> Trace:
        return Trace(self.program.ranks, tuple(self.program.chunk_bytes.tolist()), self.summed, start, tuple(steps), self.vectors)


def _pieces(vector: Values, sizes: NDArray[np.float64]) -> list[Values]:
    ends = np.rint(np.cumsum(sizes) / sizes.sum() * len(vector)).astype(int).tolist()
    return [vector[first:last] for first, last in pairwise([0, *ends])]


def _halved(program: Program, batches: Sequence[tuple[Step, ...]], lattice: LatticeLinks) -> tuple[Program, dict[int, int]]:
    """Split every chunk that ever takes two ways into halves; also maps each to the number of its second half."""
    every = [message for batch in batches for one in batch for message in _messages(one)]
    tied = sorted({chunk for src, dst, chunk in every if _ties(lattice, src, dst)})
    count = len(program.chunk_bytes)
    size = program.chunk_bytes.copy()
    size[tied] /= 2
    parts = np.concatenate([np.arange(count), np.array(tied, dtype=np.int64)])
    halved = program._replace(chunk_bytes=size[parts], home=program.home[parts], target=program.target[parts])
    return halved, {chunk: count + index for index, chunk in enumerate(tied)}


def _messages(one: Step) -> Iterator[Hop]:
    return zip(one.src.tolist(), one.dst.tolist(), one.chunk.tolist(), strict=True)


def _hops(batch: tuple[Step, ...], lattice: LatticeLinks, second: dict[int, int]) -> Iterator[Step]:
    """One batch hop by hop: messages set out together and are forwarded at once."""
    ways: list[list[Hop]] = []
    for one in batch:
        for src, dst, chunk in _messages(one):
            ways.append([(*hop, chunk) for hop in _way(lattice, src, dst, up=True)])
            if chunk in second:
                ways.append([(*hop, second[chunk]) for hop in _way(lattice, src, dst, up=False)])
    for moving in zip_longest(*ways):
        yield step(*np.array([hop for hop in moving if hop]).T)


def _way(lattice: LatticeLinks, src: int, dst: int, *, up: bool) -> Iterator[tuple[int, int]]:
    """The hops between two ranks; ``up`` breaks ties."""
    here = src
    for axis, stride in zip(lattice.axes, lattice.strides, strict=True):
        place, ahead = here // stride % axis.size, _ahead(axis, src // stride, dst // stride)
        turn = 1 if ahead > 0 or (up and _halfway(axis, ahead)) else -1
        for _ in range(abs(ahead)):
            there = here + ((place + turn) % axis.size - place) * stride
            yield here, there
            here, place = there, (place + turn) % axis.size


def _ties(lattice: LatticeLinks, src: int, dst: int) -> bool:
    strides = zip(lattice.axes, lattice.strides, strict=True)
    return any(_halfway(axis, _ahead(axis, src // stride, dst // stride)) for axis, stride in strides)


def _halfway(axis: Axis, ahead: int) -> bool:
    return axis.is_ring and 2 * abs(ahead) == axis.size


def _ahead(axis: Axis, start: int, end: int) -> int:
    """Signed hops of the shorter way, negative down; a tie on a ring goes down."""
    apart = end % axis.size - start % axis.size
    if not axis.is_ring:
        return apart
    up = apart % axis.size
    return up if 2 * up < axis.size else up - axis.size
