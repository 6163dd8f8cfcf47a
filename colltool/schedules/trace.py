"""A schedule step by step, for people to read: who sends which chunk to whom, and what each rank then holds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from math import lcm
from operator import add as add_up
from typing import Literal, NamedTuple

import numpy as np

from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.schedules.executor import Network, joined
from colltool.schedules.links import LatticeLinks
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


def traced(program: Program, network: Network, vectors: Vectors = ()) -> Trace:
    """Run a schedule (``program`` is consumed) and record every step; ``network`` counts the loads."""
    state, steps = _State(program, vectors), []
    start = state.holdings()
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
    batches, sizes, tied = list(program.batches), program.chunk_bytes.copy(), set[int]()
    for src, dst, chunk in map(joined, batches):
        for use in lattice.uses(src, dst):
            tied |= set(chunk[use.message[use.share < 1]].tolist())
    second = {chunk: number for number, chunk in enumerate(sorted(tied), start=len(sizes))}
    sizes[list(second)] /= 2
    parts = [*range(len(sizes)), *second]
    halved = program._replace(chunk_bytes=sizes[parts], home=program.home[parts], target=program.target[parts])
    state, steps = _State(halved, vectors), []
    start = state.holdings()
    for batch in batches:
        network = Network(lattice)
        for one in _hops(batch, lattice, second):
            before = network.busiest
            network.carry((one,), halved.chunk_bytes)
            steps.append(Traced(state.apply((one,)), 1, network.busiest - before, state.holdings()))
    return state.trace(start, steps)


def _hops(batch: tuple[Step, ...], lattice: LatticeLinks, second: dict[int, int]) -> Iterator[Step]:
    """One batch hop by hop: messages set out together and are forwarded at once; second halves go down where ways tie."""
    src, dst, chunk = joined(batch)
    ways: list[tuple[list[Hop], list[Hop]]] = [([], []) for _ in src]
    for use in lattice.uses(src, dst):
        axis, down = divmod(use.number, 2)
        size, stride = lattice.sizes[axis], lattice.strides[axis]
        place = use.resource // stride % size
        there = use.resource + ((place + (-1 if down else 1)) % size - place) * stride
        hops = zip(use.message.tolist(), use.share.tolist(), use.resource.tolist(), there.tolist(), strict=True)
        for message, share, here, end in hops:
            one = int(chunk[message])
            if share == 1 or not down:
                ways[message][0].append((here, end, one))
            if one in second and (share == 1 or down):
                ways[message][1].append((here, end, second[one]))
    for moving in zip_longest(*(way for both in ways for way in both)):
        yield step(*np.array([hop for hop in moving if hop]).T)


class _State:
    """``held[node][chunk]``: the ranks whose contributions are in it, and their summed values."""

    def __init__(self, program: Program, vectors: Vectors) -> None:
        self.program, sizes, home = program, program.chunk_bytes, program.home
        self.summed = program.primitive in (AR, RS, REDUCE)
        if vectors == "example":
            own = sizes if self.summed else sizes[home == home[0]]
            length = lcm(program.ranks, *(round(float(own.sum() / size)) for size in own))  # at least one value in every chunk
            self.vectors: tuple[Values, ...] = tuple(
                tuple((1, 5, 3, 7)[k % 4] + 8 * (k // 4) + rank for k in range(length)) for rank in range(program.ranks)
            )
        else:
            self.vectors = tuple(map(tuple, vectors))
        self.held: list[dict[int, tuple[frozenset[int], Values]]] = [{} for _ in range(program.nodes)]
        for rank in range(program.ranks):
            chunks = np.arange(len(home)) if self.summed else np.flatnonzero(home == rank)
            if program.primitive is not AR:  # what one rank ends with lies together in its vector
                chunks = chunks[np.argsort(program.target[chunks], kind="stable")]
            vector = self.vectors[rank] if self.vectors else ()
            ends = np.rint(np.cumsum(sizes[chunks]) / sizes[chunks].sum() * len(vector)).astype(int).tolist()
            pieces = [vector[first:last] for first, last in pairwise([0, *ends])]
            self.held[rank] = {chunk: (frozenset([rank]), piece) for chunk, piece in zip(chunks.tolist(), pieces, strict=True)}

    def apply(self, batch: tuple[Step, ...]) -> tuple[Message, ...]:
        """Move a batch; all of its messages read what was held before it."""
        ways = [
            (src, dst, chunk, one.add)
            for one in batch
            for src, dst, chunk in zip(one.src.tolist(), one.dst.tolist(), one.chunk.tolist(), strict=True)
        ]
        carried = [self.held[src][chunk] for src, _, chunk, _ in ways]
        for (src, dst, chunk, add), (ranks, values) in zip(ways, carried, strict=True):
            if self.program.primitive in (A2A, P2P):
                del self.held[src][chunk]
            own_ranks, own = self.held[dst].get(chunk, (frozenset(), ())) if add else (frozenset(), ())
            self.held[dst][chunk] = ranks | own_ranks, tuple(map(add_up, values, own)) if own else values
        return tuple(Message(*way, values) for way, (_, values) in zip(ways, carried, strict=True))

    def holdings(self) -> Holdings:
        nodes = (sorted(node.items()) for node in self.held)
        return tuple(tuple(Held(chunk, tuple(sorted(ranks)), values) for chunk, (ranks, values) in node) for node in nodes)

    def trace(self, start: Holdings, steps: Iterable[Traced]) -> Trace:
        return Trace(self.program.ranks, tuple(self.program.chunk_bytes.tolist()), self.summed, start, tuple(steps), self.vectors)
