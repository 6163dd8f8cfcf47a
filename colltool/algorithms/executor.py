"""Runs a schedule: on real state, to judge the result, on link models, to count the loads, and step
by step, to be read.

Every contribution is a random 64-bit number and sums are modulo 2^64, so one that is missing or
counted twice shows, but for a chance of 2^-64. Zero means nothing is held. Loads on links of
capacity 1 are in units of M, else in seconds per byte of M.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from math import lcm, prod
from operator import add as add_up
from typing import Literal, NamedTuple

import numpy as np

from colltool.algorithms.program import Program, Step, step
from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Group
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import LinkModel, tier_of
from colltool.network.tier_links import links_of
from colltool.network.wires import shared

_SEED = 20260401

Carry = Callable[[tuple[Step, ...], Floats], None]


class Outcome(NamedTuple):
    """Whether the collective's post-condition holds, else the first thing wrong; and the number of
    steps."""

    holds: bool
    problem: str
    steps: int


def run(program: Program, carry: Carry | None = None) -> Outcome:
    """Execute a schedule, which is consumed; ``carry`` is called with every batch of steps and the
    chunk sizes."""
    state: _Places | _Sums = _Places(program) if program.primitive in (A2A, P2P) else _Sums(program)
    count = 0
    for batch in program.batches:
        if any(
            (nodes < 0).any() or (nodes >= program.nodes).any()
            for one in batch
            for nodes in (one.src, one.dst)
        ):
            return Outcome(False, f"step {count + 1}: a node outside the group", count)
        if carry is not None:
            carry(program.standing(batch), program.chunk_bytes)
        if problem := state.apply(batch):
            return Outcome(False, f"step {count + 1}: {problem}", count)
        count += 1
    problem = state.verdict()
    return Outcome(not problem, problem, count)


class _Sums:
    """Partial sums: ``held[node, chunk]``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        n, chunks = program.ranks, len(program.chunk_bytes)
        rng = np.random.default_rng(_SEED)
        self.held = np.zeros((program.nodes, chunks), dtype=np.uint64)
        if program.primitive in (AR, RS, REDUCE):
            self.held[:n] = rng.integers(1, 2**63, size=(n, chunks), dtype=np.uint64)
            self.total = self.held[:n].sum(axis=0, dtype=np.uint64)
        else:
            self.total = rng.integers(1, 2**63, size=chunks, dtype=np.uint64)
            self.held[program.home, np.arange(chunks)] = self.total

    def apply(self, batch: tuple[Step, ...]) -> str:
        carried = [self.held[one.src, one.chunk] for one in batch]
        for one, values in zip(batch, carried, strict=True):
            if not values.all():
                late = int(np.flatnonzero(values == 0)[0])
                return f"rank {one.src[late]} sends chunk {one.chunk[late]} before it has it"
            if one.add:
                np.add.at(self.held, (one.dst, one.chunk), values)
            else:
                self.held[one.dst, one.chunk] = values
        return ""

    def verdict(self) -> str:
        home = self.program.home
        if self.program.primitive in (RS, REDUCE):
            wrong = np.flatnonzero(self.held[home, np.arange(len(home))] != self.total)
            return (
                f"chunk {wrong[0]} is not the sum over all ranks at rank {home[wrong[0]]}"
                if len(wrong)
                else ""
            )
        ranks, bad = np.nonzero(self.held[: self.program.ranks] != self.total)
        return f"rank {ranks[0]} does not end with the right chunk {bad[0]}" if len(ranks) else ""


class _Places:
    """Chunks that move and are never copied: ``at[chunk]``."""

    def __init__(self, program: Program) -> None:
        self.target, self.at = program.target, program.home.copy()

    def apply(self, batch: tuple[Step, ...]) -> str:
        src, dst, chunk = joined(batch)
        late = np.flatnonzero(self.at[chunk] != src)
        if len(late):
            return f"rank {src[late[0]]} sends chunk {chunk[late[0]]} that it does not hold"
        if len(np.unique(chunk)) < len(chunk):
            return "a chunk is sent twice in one step"
        self.at[chunk] = dst
        return ""

    def verdict(self) -> str:
        wrong = np.flatnonzero(self.at != self.target)
        return (
            f"chunk {wrong[0]} ends at rank {self.at[wrong[0]]}, not {self.target[wrong[0]]}"
            if len(wrong)
            else ""
        )


def joined(batch: Sequence[Step]) -> tuple[Indices, Indices, Indices]:
    """Senders, receivers and chunks of all steps that run at the same time."""
    src, dst, chunk = (
        np.concatenate(ends)
        for ends in zip(*((one.src, one.dst, one.chunk) for one in batch), strict=True)
    )
    return src, dst, chunk


def links_for(group: Group, ranks: int, inside: int = 1, endpoints: int = 0) -> LinkModel:
    """The links of a group's tier, for the ranks behind its endpoints; a port each where it is no
    lattice, mesh or network."""
    wires = shared(group.wires, inside)
    return links_of(
        group.joined_by,
        ranks,
        inside,
        endpoints,
        axes=group.axes,
        wires=wires,
        stride=group.stride,
        alone=group.alone,
    )


class Network:
    """Adds up loads: ``peak`` sums each step's busiest resource (lock step); ``busiest`` is the
    largest total (streams)."""

    def __init__(self, *tiers: LinkModel) -> None:
        self.tiers, self.hops, self.peak, self.total = tiers, 0, 0.0, np.zeros(1)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """On every resource; a message travels on the outermost tier that separates its ends."""
        on, found = tier_of(self.tiers, src, dst), []
        for number, tier in enumerate(self.tiers):
            a, b, sent = (
                (array[on == number] for array in (src, dst, size))
                if len(self.tiers) > 1
                else (src, dst, size)
            )
            found += [
                load / one.capacity_Bps
                for one, load in zip(tier.classes, tier.loads(a, b, sent), strict=True)
            ]
        return np.concatenate(found)

    def of_ranks(self, loads: Floats) -> Floats:
        """The most that any port or link of each rank carries, either direction, shape (N,); of a
        single tier."""
        (tier,) = self.tiers
        ends = np.cumsum([len(one.exists) for one in tier.classes])
        return tier.of_ranks(np.split(loads, ends[:-1]))

    def distance(self, src: Indices, dst: Indices) -> int:
        """Hops of the longest path; 1 where every pair is joined directly."""
        return int(max(tier.hops(src, dst).max(initial=0) for tier in self.tiers))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        src, dst, chunk = joined(batch)
        loads = self.loads(src, dst, chunk_bytes[chunk])
        self.total = self.total + loads
        self.peak += float(loads.max())
        self.hops += self.distance(src, dst)

    @property
    def busiest(self) -> float:
        return float(self.total.max())


class Tiers(Network):
    """Each tier's ports or links, innermost first, in a network of its own; ``hops`` and ``peak``
    are their sums."""

    def __init__(self, groups: Sequence[Group]) -> None:
        sizes = [group.ranks for group in groups]
        parts = [(prod(sizes), prod(sizes[:k]), sizes[k]) for k in range(len(sizes))]
        super().__init__(*(links_for(group, *of) for group, of in zip(groups, parts, strict=True)))
        self.groups, self.networks = groups, [Network(tier) for tier in self.tiers]

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        on = [tier_of(self.tiers, one.src, one.dst) for one in batch]
        for k, network in enumerate(self.networks):
            pairs = [
                (one, tier == k) for one, tier in zip(batch, on, strict=True) if (tier == k).any()
            ]
            if pairs:
                network.carry(
                    tuple(
                        Step(one.src[at], one.dst[at], one.chunk[at], one.add) for one, at in pairs
                    ),
                    chunk_bytes,
                )
        self.hops, self.peak = (
            sum(one.hops for one in self.networks),
            sum(one.peak for one in self.networks),
        )

    @property
    def busiest(self) -> float:
        return max(network.busiest for network in self.networks)


Values = tuple[float, ...]

Vectors = Sequence[Sequence[float]] | Literal["example"]

"""The numbers that each rank starts with, all of one length; ``example``: small ones to follow by
eye."""

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
    state, steps = _State(program, vectors), []
    start = state.holdings()
    for batch in program.batches:
        before = network.hops, network.peak
        network.carry(program.standing(batch), program.chunk_bytes)
        messages = state.apply(batch)
        steps.append(
            Traced(messages, network.hops - before[0], network.peak - before[1], state.holdings())
        )
    return state.trace(start, steps)


def traced_by_hops(program: Program, lattice: LatticeLinks, vectors: Vectors = ()) -> Trace:
    """Like :func:`traced`, for chunks that a lattice relays: every hop between neighbours is a
    step.

    Axis 1 first, the shorter way round each ring. A chunk with two equally short ways takes both in
    halves; the second half is numbered after all other chunks. Hops of a batch overlap: n_β is what
    each adds to the load of the busiest link.
    """
    batches, sizes, tied = list(program.batches), program.chunk_bytes.copy(), set[int]()
    for src, dst, chunk in map(joined, batches):
        for use in lattice.uses(src, dst):
            tied |= set(chunk[use.message[use.share < 1]].tolist())
    second = {chunk: number for number, chunk in enumerate(sorted(tied), start=len(sizes))}
    sizes[list(second)] /= 2
    parts = [*range(len(sizes)), *second]
    halved = program._replace(
        chunk_bytes=sizes[parts], home=program.home[parts], target=program.target[parts]
    )
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
    """One batch hop by hop: messages set out together and are forwarded at once; second halves go
    down where ways tie."""
    src, dst, chunk = joined(batch)
    ways: list[tuple[list[Hop], list[Hop]]] = [([], []) for _ in src]
    for use in lattice.uses(src, dst):
        axis, down = divmod(use.number, 2)
        size, stride = lattice.sizes[axis], lattice.strides[axis]
        place = use.resource // stride % size
        there = use.resource + ((place + (-1 if down else 1)) % size - place) * stride
        hops = zip(
            use.message.tolist(),
            use.share.tolist(),
            use.resource.tolist(),
            there.tolist(),
            strict=True,
        )
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
            # at least one value in every chunk
            length = lcm(program.ranks, *(round(float(own.sum() / size)) for size in own))
            self.vectors: tuple[Values, ...] = tuple(
                tuple((1, 5, 3, 7)[k % 4] + 8 * (k // 4) + rank for k in range(length))
                for rank in range(program.ranks)
            )
        else:
            self.vectors = tuple(map(tuple, vectors))
        self.held: list[dict[int, tuple[frozenset[int], Values]]] = [
            {} for _ in range(program.nodes)
        ]
        for rank in range(program.ranks):
            chunks = np.arange(len(home)) if self.summed else np.flatnonzero(home == rank)
            if program.primitive is not AR:  # what one rank ends with lies together in its vector
                chunks = chunks[np.argsort(program.target[chunks], kind="stable")]
            vector = self.vectors[rank] if self.vectors else ()
            ends = (
                np.rint(np.cumsum(sizes[chunks]) / sizes[chunks].sum() * len(vector))
                .astype(int)
                .tolist()
            )
            pieces = [vector[first:last] for first, last in pairwise([0, *ends])]
            self.held[rank] = {
                chunk: (frozenset([rank]), piece)
                for chunk, piece in zip(chunks.tolist(), pieces, strict=True)
            }

    def apply(self, batch: tuple[Step, ...]) -> tuple[Message, ...]:
        """Move a batch; all of its messages read what was held before it."""
        ways = [
            (src, dst, chunk, one.add)
            for one in batch
            for src, dst, chunk in zip(
                one.src.tolist(), one.dst.tolist(), one.chunk.tolist(), strict=True
            )
        ]
        carried = [self.held[src][chunk] for src, _, chunk, _ in ways]
        for (src, dst, chunk, add), (ranks, values) in zip(ways, carried, strict=True):
            if self.program.primitive in (A2A, P2P):
                del self.held[src][chunk]
            own_ranks, own = (
                self.held[dst].get(chunk, (frozenset(), ())) if add else (frozenset(), ())
            )
            self.held[dst][chunk] = (
                ranks | own_ranks,
                tuple(map(add_up, values, own)) if own else values,
            )
        return tuple(Message(*way, values) for way, (_, values) in zip(ways, carried, strict=True))

    def holdings(self) -> Holdings:
        nodes = (sorted(node.items()) for node in self.held)
        return tuple(
            tuple(Held(chunk, tuple(sorted(ranks)), values) for chunk, (ranks, values) in node)
            for node in nodes
        )

    def trace(self, start: Holdings, steps: Iterable[Traced]) -> Trace:
        return Trace(
            self.program.ranks,
            tuple(self.program.chunk_bytes.tolist()),
            self.summed,
            start,
            tuple(steps),
            self.vectors,
        )
