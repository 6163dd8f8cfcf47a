"""Executes a schedule: on numbers, to check its result, and on link models, to count its loads.

:func:`run` checks the result. Every contribution is a random 64-bit number and sums are modulo 2^64,
so a contribution that is missing or counted twice goes unnoticed with a probability of 2^-64. Zero
means that a node has no such chunk.

:class:`Network` adds up loads. They are in units of M where links have capacity 1, and otherwise in
seconds per byte of M.
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

_SEED = 20260401  # any fixed number: two runs of a schedule have the same result

# Called with a batch and the chunk sizes, shape (chunks,), in units of M: Network.carry is one.
Carry = Callable[[tuple[Step, ...], Floats], None]


class Outcome(NamedTuple):
    """The result of an execution."""

    holds: bool  # the collective's post-condition
    problem: str  # the first violation; empty where there is none
    steps: int  # batches that were executed


def run(program: Program, carry: Carry | None = None) -> Outcome:
    """Execute a schedule, whose batches are consumed, up to the first violation; ``carry`` is called with
    every batch, between places, and the chunk sizes."""
    # All-to-alls and sends move their chunks; the others copy and add them.
    moves_only = program.primitive in (A2A, P2P)
    state: _Locations | _Sums = _Locations(program) if moves_only else _Sums(program)
    count = 0
    for batch in program.batches:
        if _leaves_the_group(batch, program.nodes):
            return Outcome(False, f"step {count + 1}: a node outside the group", count)
        if carry is not None:
            carry(program.at_places(batch), program.chunk_bytes)
        if problem := state.apply(batch):
            return Outcome(False, f"step {count + 1}: {problem}", count)
        count += 1
    problem = state.verdict()
    return Outcome(not problem, problem, count)


def _leaves_the_group(batch: tuple[Step, ...], nodes: int) -> bool:
    """Whether the sender or receiver of a message is not a node of the program."""
    for step in batch:
        for ends in (step.src, step.dst):
            if ((ends < 0) | (ends >= nodes)).any():
                return True
    return False


class _Sums:
    """The partial sum of each chunk at each node, ``values[node, chunk]``, 0 for none; ``total`` is the
    sum that each chunk must come to, shape (chunks,)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        ranks = program.ranks
        chunks = len(program.chunk_bytes)
        generator = np.random.default_rng(_SEED)
        self.values = np.zeros((program.nodes, chunks), dtype=np.uint64)
        if program.primitive in (AR, RS, REDUCE):
            inputs = generator.integers(1, 2**63, size=(ranks, chunks), dtype=np.uint64)
            self.values[:ranks] = inputs
            self.total = inputs.sum(axis=0, dtype=np.uint64)
        else:
            self.total = generator.integers(1, 2**63, size=chunks, dtype=np.uint64)
            self.values[program.home, np.arange(chunks)] = self.total

    def apply(self, batch: tuple[Step, ...]) -> str:
        """Send the messages of a batch; returns the first violation, empty where there is none."""
        # All are read before any is written, as they are sent at the same time.
        sent = [self.values[step.src, step.chunk] for step in batch]
        for step, values in zip(batch, sent, strict=True):
            if not values.all():
                first = int(np.flatnonzero(values == 0)[0])
                return f"rank {step.src[first]} sends chunk {step.chunk[first]} before it has it"
            if step.add:
                # Not +=, which would add only one of several values for the same chunk.
                np.add.at(self.values, (step.dst, step.chunk), values)
            else:
                self.values[step.dst, step.chunk] = values
        return ""

    def verdict(self) -> str:
        """The first violation of the post-condition; empty where there is none."""
        home = self.program.home
        if self.program.primitive in (RS, REDUCE):
            wrong = np.flatnonzero(self.values[home, np.arange(len(home))] != self.total)
            if len(wrong):
                return f"chunk {wrong[0]} is not the sum over all ranks at rank {home[wrong[0]]}"
            return ""
        ranks, chunks = np.nonzero(self.values[: self.program.ranks] != self.total)
        if len(ranks):
            return f"rank {ranks[0]} does not end with the right chunk {chunks[0]}"
        return ""


class _Locations:
    """The node that holds each chunk, where chunks move and are never copied."""

    def __init__(self, program: Program) -> None:
        self.target = program.target
        self.node = program.home.copy()

    def apply(self, batch: tuple[Step, ...]) -> str:
        """Move the chunks of a batch; returns the first violation, empty where there is none."""
        src, dst, chunk = concatenated(batch)
        elsewhere = np.flatnonzero(self.node[chunk] != src)
        if len(elsewhere):
            first = elsewhere[0]
            return f"rank {src[first]} sends chunk {chunk[first]} that it does not hold"
        if len(np.unique(chunk)) < len(chunk):
            return "a chunk is sent twice in one step"
        self.node[chunk] = dst
        return ""

    def verdict(self) -> str:
        """The first violation of the post-condition; empty where there is none."""
        wrong = np.flatnonzero(self.node != self.target)
        if len(wrong):
            first = wrong[0]
            return f"chunk {first} ends at rank {self.node[first]}, not {self.target[first]}"
        return ""


def concatenated(batch: Sequence[Step]) -> tuple[Indices, Indices, Indices]:
    """Senders, receivers and chunks of all messages of a batch, shape (m,) each."""
    src = np.concatenate([step.src for step in batch])
    dst = np.concatenate([step.dst for step in batch])
    chunk = np.concatenate([step.chunk for step in batch])
    return src, dst, chunk


def group_links(group: Group, ranks: int, inside: int = 1, endpoints: int = 0) -> LinkModel:
    """The link model of a group, as a tier with ``inside`` ranks behind each of its endpoints; ports
    where it is no lattice, full mesh or routed network."""
    return links_of(
        group.joined_by,
        TierRanks(ranks, inside, endpoints),
        axes=group.axes,
        wires=shared(group.wires, inside),
        stride=group.stride,
        alone=group.alone,
    )


class Network:
    """Adds up the loads of a schedule's steps on the link models of one or more tiers, innermost first."""

    def __init__(self, *tiers: LinkModel) -> None:
        self.tiers = tiers
        self.hops = 0  # the longest path of each step, added up
        # The busiest resource of each step, added up: the time if steps wait for each other.
        self.peak = 0.0
        self.total = np.zeros(1)  # the load of each resource over all steps

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """The load on every resource over its capacity, class by class of each tier in turn; a message
        travels on the outermost tier that separates its ends."""
        loads = []
        travels_on = tier_of(self.tiers, src, dst)
        for number, tier in enumerate(self.tiers):
            # Selecting messages takes longer than counting them: not needed on a single tier.
            if len(self.tiers) == 1:
                by_class = tier.loads(src, dst, size)
            else:
                here = travels_on == number
                by_class = tier.loads(src[here], dst[here], size[here])
            for link_class, load in zip(tier.classes, by_class, strict=True):
                loads.append(load / link_class.capacity_Bps)
        return np.concatenate(loads)

    def busiest_of_ranks(self, loads: Floats) -> Floats:
        """The largest of these loads on any port or link of each rank, in either direction, shape
        (N,); only for a single tier."""
        (tier,) = self.tiers
        # Split into classes, in the order of loads().
        ends = np.cumsum([len(link_class.exists) for link_class in tier.classes])
        return tier.busiest_of_ranks(np.split(loads, ends[:-1]))

    def distance(self, src: Indices, dst: Indices) -> int:
        """Hops of the longest path of these messages; 1 where every pair is joined directly."""
        return int(max(tier.hops(src, dst).max(initial=0) for tier in self.tiers))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        """Add the loads of a batch of steps."""
        src, dst, chunk = concatenated(batch)
        loads = self.loads(src, dst, chunk_bytes[chunk])
        self.total = self.total + loads
        self.peak += float(loads.max())
        self.hops += self.distance(src, dst)

    @property
    def busiest(self) -> float:
        """The largest load of a resource over all steps: the time if steps overlap."""
        return float(self.total.max())


class TierNetworks(Network):
    """The tiers of a composition, innermost first, with the loads of each counted apart.

    ``hops`` and ``peak`` are sums over the tiers, as phases on different tiers follow each other;
    ``networks`` has those of each tier. ``busiest`` is that of the busiest tier.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        ranks = prod(group.ranks for group in groups)
        inside = 1
        tiers = []
        for group in groups:
            tiers.append(group_links(group, ranks, inside, group.ranks))
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
