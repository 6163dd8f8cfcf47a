"""Runs a schedule: on real state, to judge the result, and on link models, to count the loads.

Every contribution is a random 64-bit number and sums are modulo 2^64, so one that is missing or
counted twice shows, but for a chance of 2^-64. Zero means nothing is held. Loads on links of
capacity 1 are in units of M, else in seconds per byte of M.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.algorithms.program import Program, Step
from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Group
from colltool.network.links import LinkModel, TierRanks, tier_of
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
    # All-to-alls and sends move their chunks; the others copy and add them.
    moves_only = program.primitive in (A2A, P2P)
    state: _Places | _Sums = _Places(program) if moves_only else _Sums(program)
    count = 0
    for batch in program.batches:
        if _leaves_the_group(batch, program.nodes):
            return Outcome(False, f"step {count + 1}: a node outside the group", count)
        if carry is not None:
            carry(program.standing(batch), program.chunk_bytes)
        if problem := state.apply(batch):
            return Outcome(False, f"step {count + 1}: {problem}", count)
        count += 1
    problem = state.verdict()
    return Outcome(not problem, problem, count)


def _leaves_the_group(batch: tuple[Step, ...], nodes: int) -> bool:
    """Whether a message has an end that is no node."""
    for step in batch:
        for ends in (step.src, step.dst):
            if ((ends < 0) | (ends >= nodes)).any():
                return True
    return False


class _Sums:
    """Partial sums: ``held[node, chunk]``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        ranks = program.ranks
        chunks = len(program.chunk_bytes)
        generator = np.random.default_rng(_SEED)
        self.held = np.zeros((program.nodes, chunks), dtype=np.uint64)
        if program.primitive in (AR, RS, REDUCE):
            own = generator.integers(1, 2**63, size=(ranks, chunks), dtype=np.uint64)
            self.held[:ranks] = own
            self.total = own.sum(axis=0, dtype=np.uint64)
        else:
            self.total = generator.integers(1, 2**63, size=chunks, dtype=np.uint64)
            self.held[program.home, np.arange(chunks)] = self.total

    def apply(self, batch: tuple[Step, ...]) -> str:
        """Send a batch, all of which reads what was held before it; return what is wrong."""
        # Read before anything is written: all messages of a batch are sent at once.
        sent = [self.held[step.src, step.chunk] for step in batch]
        for step, values in zip(batch, sent, strict=True):
            if not values.all():
                early = int(np.flatnonzero(values == 0)[0])
                return f"rank {step.src[early]} sends chunk {step.chunk[early]} before it has it"
            if step.add:
                # Not +=, which counts several sums into one place once.
                np.add.at(self.held, (step.dst, step.chunk), values)
            else:
                self.held[step.dst, step.chunk] = values
        return ""

    def verdict(self) -> str:
        """What is wrong at the end."""
        home = self.program.home
        if self.program.primitive in (RS, REDUCE):
            wrong = np.flatnonzero(self.held[home, np.arange(len(home))] != self.total)
            if len(wrong):
                return f"chunk {wrong[0]} is not the sum over all ranks at rank {home[wrong[0]]}"
            return ""
        ranks, chunks = np.nonzero(self.held[: self.program.ranks] != self.total)
        if len(ranks):
            return f"rank {ranks[0]} does not end with the right chunk {chunks[0]}"
        return ""


class _Places:
    """Chunks that move and are never copied: ``at[chunk]``."""

    def __init__(self, program: Program) -> None:
        self.target = program.target
        self.at = program.home.copy()

    def apply(self, batch: tuple[Step, ...]) -> str:
        """Move the chunks of a batch; return what is wrong."""
        src, dst, chunk = joined(batch)
        elsewhere = np.flatnonzero(self.at[chunk] != src)
        if len(elsewhere):
            first = elsewhere[0]
            return f"rank {src[first]} sends chunk {chunk[first]} that it does not hold"
        if len(np.unique(chunk)) < len(chunk):
            return "a chunk is sent twice in one step"
        self.at[chunk] = dst
        return ""

    def verdict(self) -> str:
        """What is wrong at the end."""
        wrong = np.flatnonzero(self.at != self.target)
        if len(wrong):
            first = wrong[0]
            return f"chunk {first} ends at rank {self.at[first]}, not {self.target[first]}"
        return ""


def joined(batch: Sequence[Step]) -> tuple[Indices, Indices, Indices]:
    """Senders, receivers and chunks of all steps that run at the same time."""
    src = np.concatenate([step.src for step in batch])
    dst = np.concatenate([step.dst for step in batch])
    chunk = np.concatenate([step.chunk for step in batch])
    return src, dst, chunk


def links_for(group: Group, ranks: int, inside: int = 1, endpoints: int = 0) -> LinkModel:
    """The links of a group's tier, for the ranks behind its endpoints; a port each where it is no
    lattice, mesh or network."""
    return links_of(
        group.joined_by,
        TierRanks(ranks, inside, endpoints),
        axes=group.axes,
        wires=shared(group.wires, inside),
        stride=group.stride,
        alone=group.alone,
    )


class Network:
    """Adds up loads: ``peak`` sums each step's busiest resource (lock step); ``busiest`` is the
    largest total (streams)."""

    def __init__(self, *tiers: LinkModel) -> None:
        self.tiers = tiers
        self.hops = 0
        self.peak = 0.0
        self.total = np.zeros(1)

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """The load on every resource; a message travels on the outermost tier that separates its
        ends."""
        found = []
        outermost = tier_of(self.tiers, src, dst)
        for number, tier in enumerate(self.tiers):
            # On one tier nothing has to be picked out, which takes longer than to count it.
            if len(self.tiers) == 1:
                loads = tier.loads(src, dst, size)
            else:
                here = outermost == number
                loads = tier.loads(src[here], dst[here], size[here])
            for link_class, load in zip(tier.classes, loads, strict=True):
                found.append(load / link_class.capacity_Bps)
        return np.concatenate(found)

    def of_ranks(self, loads: Floats) -> Floats:
        """The most that any port or link of each rank carries, either direction, shape (N,); of a
        single tier."""
        (tier,) = self.tiers
        # The resources of all classes lie one after the other, as in loads().
        ends = np.cumsum([len(link_class.exists) for link_class in tier.classes])
        return tier.of_ranks(np.split(loads, ends[:-1]))

    def distance(self, src: Indices, dst: Indices) -> int:
        """Hops of the longest path; 1 where every pair is joined directly."""
        return int(max(tier.hops(src, dst).max(initial=0) for tier in self.tiers))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        """Add the loads of a batch of steps, which run at the same time."""
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
        ranks = prod(group.ranks for group in groups)
        inside = 1
        tiers = []
        for group in groups:
            tiers.append(links_for(group, ranks, inside, group.ranks))
            inside *= group.ranks
        super().__init__(*tiers)
        self.groups = groups
        self.networks = [Network(tier) for tier in self.tiers]

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        for number, network in enumerate(self.networks):
            steps = []
            for step in batch:
                here = tier_of(self.tiers, step.src, step.dst) == number
                if here.any():
                    steps.append(Step(step.src[here], step.dst[here], step.chunk[here], step.add))
            if steps:
                network.carry(tuple(steps), chunk_bytes)
        self.hops = sum(network.hops for network in self.networks)
        self.peak = sum(network.peak for network in self.networks)

    @property
    def busiest(self) -> float:
        return max(network.busiest for network in self.networks)
