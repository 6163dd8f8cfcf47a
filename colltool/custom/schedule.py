"""A custom schedule: messages step by step, executed symbolically, and accepted only if every rank
ends with what the primitive promises (:mod:`colltool.custom.postcondition`).

:class:`CustomSchedule` is what all readers of files return. :func:`follow` executes the steps of
colltool's own format, between vectors without scratch; files of other tools have executors of their
own, which use the same states of chunks. :func:`custom_from_program` makes one of a shipped schedule.

A vector of all-to-all has the chunks of all senders, ``chunks`` each; of the others it has ``chunks`` in all. A
state is (chunk, a bit for each rank that is summed in it).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from colltool.algorithms.program import Program, Step, step
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, parse_primitive
from colltool.custom.postcondition import (
    ChunkState,
    PostCondition,
    chunk_text,
    mismatch,
    with_addition,
)

MOST_MOVES = 1_000_000
"""Chunks sent, copied or reduced in a whole schedule: what is executed in seconds."""

Sent = tuple[int, int, int, bool]  # src, dst, chunk, add
Batch = tuple[Step, ...]


class CustomSchedule(NamedTuple):
    """A schedule from a file or a plugin that was executed and found right.

    Args:
        chunks: number of equal parts of M; of an all-to-all for each sender.
        batches: the messages of each step, which are sent at the same time.
        file: its file or plugin, for errors.
        form: the format that it was written in.
        root: of a broadcast or reduction; 0 of the others.
        notes: what its price leaves out.
    """

    name: str
    primitive: Primitive
    ranks: int
    chunks: int
    batches: tuple[Batch, ...]
    file: str = ""
    form: str = ""
    root: int = 0
    notes: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """How many chunks are sent, each a message."""
        return sum(len(sends.src) for sends in chain.from_iterable(self.batches))

    def program(self) -> Program:
        """Return the program that the executor of shipped schedules runs; ``home`` and ``target`` are the ranks
        where each chunk begins and ends. Of a file that uses scratch, only its loads of links are right."""
        chunks = self.chunks * self.ranks if self.primitive is A2A else self.chunks
        number = np.arange(chunks, dtype=np.int64)
        if self.primitive is A2A:
            home = number // self.chunks
            # of a sender's chunks the first chunks / ranks are for rank 0, and so on
            target = (number % self.chunks) * self.ranks // self.chunks
        elif self.primitive in (AG, RS, AR):
            home = target = (number * self.ranks) // self.chunks
        else:
            home = target = np.full(chunks, self.root)
        return Program(
            self.primitive,
            self.ranks,
            self.ranks,
            np.full(chunks, 1 / self.chunks),
            home=home,
            target=target,
            batches=iter(self.batches),
        )


class _Vectors:
    """The state of every rank's vector, whose places are its chunks; there is no scratch."""

    def __init__(self, postcondition: PostCondition) -> None:
        self.postcondition = postcondition
        self.written: dict[tuple[int, int], ChunkState] = {}  # by rank and chunk

    def state(self, rank: int, chunk: int) -> ChunkState | None:
        """Return the state of a chunk at a rank: what was written, else what it began with."""
        if (rank, chunk) in self.written:
            return self.written[rank, chunk]
        postcondition = self.postcondition
        if postcondition.primitive is A2A:  # a chunk lies first with its sender
            owner = chunk // postcondition.chunks
        elif postcondition.primitive is AG:
            owner = chunk * postcondition.ranks // postcondition.chunks
        else:
            return postcondition.initial_state(rank, chunk)
        # its owner alone holds it, summed over itself
        return (chunk, 1 << rank) if owner == rank else None

    def exchange(self, batch: Batch) -> None:
        """Execute one step: senders read the state before it, and of several messages to a place each
        adds to what those before it have left."""
        # receiver, chunk, state at the sender, whether the receiver adds it
        sent: list[tuple[int, int, ChunkState, bool]] = []
        for messages in batch:
            ends = (messages.src.tolist(), messages.dst.tolist(), messages.chunk.tolist())
            for src, dst, chunk in zip(*ends, strict=True):
                piece = self.state(src, chunk)
                if piece is None:
                    name = chunk_text(self.postcondition, chunk)
                    raise ColltoolError(f"rank {src} sends {name} to rank {dst} before it has it")
                sent.append((dst, chunk, piece, messages.add))
        adds: dict[tuple[int, int], bool] = {}  # by place: whether its messages add
        for dst, chunk, piece, add in sent:
            place = (dst, chunk)
            # Sums commute; which of two copies remains would depend on timing.
            if place in adds and not (add and adds[place]):
                what = (
                    f"two messages write {chunk_text(self.postcondition, chunk)} of rank {dst} at once,"
                    " and one of them replaces it"
                )
                raise ColltoolError(what, fix="put them into two steps")
            adds[place] = add
            if add:
                piece = with_addition(self.postcondition, self.state(dst, chunk), piece, dst)
            self.written[place] = piece


def follow(postcondition: PostCondition, batches: Sequence[Batch]) -> None:
    """Execute the messages of all steps between vectors without scratch; ColltoolError names the step
    that fails."""
    vectors = _Vectors(postcondition)
    for number, batch in enumerate(batches, start=1):
        try:
            vectors.exchange(batch)
        except ColltoolError as error:
            raise ColltoolError(f"step {number}: {error.what}", fix=error.fix) from error
    for rank in range(postcondition.ranks):
        for _, expected in postcondition.final_states(rank):
            chunk, _ = expected
            if problem := mismatch(postcondition, rank, expected, vectors.state(rank, chunk)):
                raise ColltoolError(f"after the last of {counted(len(batches), 'step')} {problem}")


def batch_of(sends: Sequence[Sent]) -> Batch:
    """Return the messages of one step as arrays: first those that copy, then those that add."""
    batch = []
    # A step as the executor takes it copies or adds, not both.
    for add in (False, True):
        rows = [(src, dst, chunk) for src, dst, chunk, adds in sends if adds == add]
        if rows:
            # the transposed array is (3, messages): sources, targets, chunks
            batch.append(step(*np.array(rows).T, add=add))
    return tuple(batch)


def custom_from_program(name: str, program: Program) -> CustomSchedule:
    """Return a shipped schedule with its chunks numbered in the order of the vector, as files have
    them; ``program`` is consumed.

    ColltoolError if it is no list of messages among ranks with equal chunks, as where switches or
    servers take part.
    """
    ranks = program.ranks
    count = len(program.chunk_bytes)
    fix = f"take one whose ranks send each other equal parts: {argument_text('algorithm', 'ring')}"
    if program.nodes > ranks:
        raise ColltoolError(f"{name} needs switches, servers or padding besides the ranks", fix=fix)
    if program.primitive is P2P or np.ptp(program.chunk_bytes) > 1e-12:
        raise ColltoolError(f"{name} is no schedule of equal chunks", fix=fix)
    # the new number of each chunk
    place = np.arange(count, dtype=np.int64)
    if program.primitive in (AG, RS, A2A):
        # by owner, in an all-to-all by sender and receiver; otherwise in their order
        order = np.lexsort((program.target, program.home))
        # Files number chunks by rank, equally many for each.
        if np.ptp(np.bincount(program.home, minlength=ranks)):
            raise ColltoolError(f"{name} gives some ranks more chunks than others", fix=fix)
        place[order] = np.arange(count)
    batches = []
    for batch in program.batches:
        batches.append(tuple(sends._replace(chunk=place[sends.chunk]) for sends in batch))
    chunks = count // ranks if program.primitive is A2A else count
    root = int(program.home[0]) if program.primitive in (BC, REDUCE) else 0
    return CustomSchedule(
        name=name,
        primitive=program.primitive,
        ranks=ranks,
        chunks=chunks,
        batches=tuple(batches),
        root=root,
    )


def primitive_named(name: str) -> Primitive | None:
    """Return the primitive that other tools call ``allreduce`` or ``reduce_scatter``. None for a
    collective that colltool does not have."""
    try:
        return parse_primitive(name)
    except ColltoolError:
        return None
