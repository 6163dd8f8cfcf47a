"""Runs a schedule on real state and judges the result.

Every contribution is a random 64-bit number and sums are modulo 2^64, so one that is missing or counted twice shows, but for a
chance of 2^-64. Zero means nothing is held.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.schedules.program import Program, Step

_SEED = 20260401
Carry = Callable[[tuple[Step, ...], NDArray[np.float64]], None]


class Outcome(NamedTuple):
    """Whether the collective's post-condition holds, else the first thing wrong; and the number of steps."""

    holds: bool
    problem: str
    steps: int


def run(program: Program, carry: Carry | None = None) -> Outcome:
    """Execute a schedule, which is consumed; ``carry`` is called with every batch of steps and the chunk sizes."""
    moved = program.primitive in (A2A, P2P)
    state: _Places | _Sums = _Places(program) if moved else _Sums(program)
    count = 0
    for batch in program.batches:
        if any((nodes < 0).any() or (nodes >= program.nodes).any() for one in batch for nodes in (one.src, one.dst)):
            return Outcome(False, f"step {count + 1}: a node outside the group", count)
        if carry is not None:
            carry(batch, program.chunk_bytes)
        problem = state.apply(batch)
        if problem:
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
        self.total = np.zeros(chunks, dtype=np.uint64)
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
        n, chunks = self.program.ranks, np.arange(len(self.total))
        if self.program.primitive in (RS, REDUCE):
            wrong = np.flatnonzero(self.held[self.program.home, chunks] != self.total)
            return f"chunk {wrong[0]} is not the sum over all ranks at rank {self.program.home[wrong[0]]}" if len(wrong) else ""
        ranks, bad = np.nonzero(self.held[:n] != self.total)
        return f"rank {ranks[0]} does not end with the right chunk {bad[0]}" if len(ranks) else ""


class _Places:
    """Chunks that move and are never copied: ``at[chunk]``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.at = program.home.copy()

    def apply(self, batch: tuple[Step, ...]) -> str:
        moves = [(one.src, one.dst, one.chunk) for one in batch]
        src, dst, chunk = (np.concatenate(parts) for parts in zip(*moves, strict=True))
        late = np.flatnonzero(self.at[chunk] != src)
        if len(late):
            return f"rank {src[late[0]]} sends chunk {chunk[late[0]]} that it does not hold"
        if len(np.unique(chunk)) < len(chunk):
            return "a chunk is sent twice in one step"
        self.at[chunk] = dst
        return ""

    def verdict(self) -> str:
        wrong = np.flatnonzero(self.at != self.program.target)
        return f"chunk {wrong[0]} ends at rank {self.at[wrong[0]]}, not {self.program.target[wrong[0]]}" if len(wrong) else ""
