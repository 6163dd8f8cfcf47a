"""Runs a schedule: on real state, to judge the result, and on link models, to count the loads.

Every contribution is a random 64-bit number and sums are modulo 2^64, so one that is missing or counted twice shows, but for a
chance of 2^-64. Zero means nothing is held. Loads on links of capacity 1 are in units of M, else in seconds per byte of M.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.schedules.links import Floats, Indices, LinkModel, links_of, tier_of
from colltool.schedules.program import Program, Step

_SEED = 20260401
Carry = Callable[[tuple[Step, ...], Floats], None]


class Outcome(NamedTuple):
    """Whether the collective's post-condition holds, else the first thing wrong; and the number of steps."""

    holds: bool
    problem: str
    steps: int


def run(program: Program, carry: Carry | None = None) -> Outcome:
    """Execute a schedule, which is consumed; ``carry`` is called with every batch of steps and the chunk sizes."""
    state: _Places | _Sums = _Places(program) if program.primitive in (A2A, P2P) else _Sums(program)
    count = 0
    for batch in program.batches:
        if any((nodes < 0).any() or (nodes >= program.nodes).any() for one in batch for nodes in (one.src, one.dst)):
            return Outcome(False, f"step {count + 1}: a node outside the group", count)
        if carry is not None:
            carry(batch, program.chunk_bytes)
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
            return f"chunk {wrong[0]} is not the sum over all ranks at rank {home[wrong[0]]}" if len(wrong) else ""
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
        return f"chunk {wrong[0]} ends at rank {self.at[wrong[0]]}, not {self.target[wrong[0]]}" if len(wrong) else ""


def joined(batch: Sequence[Step]) -> tuple[Indices, Indices, Indices]:
    """Senders, receivers and chunks of all steps that run at the same time."""
    src, dst, chunk = (np.concatenate(ends) for ends in zip(*((one.src, one.dst, one.chunk) for one in batch), strict=True))
    return src, dst, chunk


class Network:
    """Adds up loads: ``peak`` sums each step's busiest resource (lock step); ``busiest`` is the largest total (streams)."""

    def __init__(self, *tiers: LinkModel) -> None:
        self.tiers, self.hops, self.peak, self.total = tiers, 0, 0.0, np.zeros(1)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """On every resource; a message travels on the outermost tier that separates its ends."""
        on, found = tier_of(self.tiers, src, dst), []
        for number, tier in enumerate(self.tiers):
            a, b, sent = (array[on == number] for array in (src, dst, size)) if len(self.tiers) > 1 else (src, dst, size)
            found += [load / one.capacity_Bps for one, load in zip(tier.classes, tier.loads(a, b, sent), strict=True)]
        return np.concatenate(found)

    def of_ranks(self, loads: Floats) -> Floats:
        """The most that any port or link of each rank carries, either direction, shape (N,); of a single tier."""
        (tier,) = self.tiers
        return tier.of_ranks(np.split(loads, len(tier.classes)))

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
    """Each tier's ports or links, innermost first, in a network of its own; ``hops`` and ``peak`` are their sums."""

    def __init__(self, groups: Sequence[Group]) -> None:
        sizes = [group.ranks for group in groups]
        parts = [(prod(sizes), prod(sizes[:k]), sizes[k]) for k in range(len(sizes))]
        super().__init__(*(links_of(group.joined_by, *of, axes=group.axes) for group, of in zip(groups, parts, strict=True)))
        self.groups, self.networks = groups, [Network(tier) for tier in self.tiers]

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        on = [tier_of(self.tiers, one.src, one.dst) for one in batch]
        for k, network in enumerate(self.networks):
            pairs = [(one, tier == k) for one, tier in zip(batch, on, strict=True) if (tier == k).any()]
            if pairs:
                network.carry(tuple(Step(one.src[at], one.dst[at], one.chunk[at], one.add) for one, at in pairs), chunk_bytes)
        self.hops, self.peak = sum(one.hops for one in self.networks), sum(one.peak for one in self.networks)

    @property
    def busiest(self) -> float:
        return max(network.busiest for network in self.networks)
