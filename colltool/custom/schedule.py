"""A custom schedule: messages step by step, executed symbolically, and accepted only if every rank
ends with what the primitive promises.

The state of a place is ``(chunk, ranks)``: which chunk of the vector it holds, and a bit for each
rank whose part is summed in it. So a part that is missing or counted twice is found at the step
where it happens, by name, and not as a wrong number at the end. :class:`PostCondition` says what
ranks begin and end with, :func:`follow` executes steps, and files of other tools have executors of
their own, which use the same state.

Chunks are equal parts of M. Of an all-gather and a reduce-scatter, chunk c belongs to rank
``c // (chunks / N)``; of an all-to-all, chunk ``src * chunks + dst * (chunks / N) + k`` goes from
src to dst; a broadcast and a reduction have a root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from colltool.algorithms.program import Program, Step, step
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, parse_primitive

# Limits of what is executed in seconds and in memory.
MOST_RANKS = 4096
MOST_CHUNKS = 65_536
MOST_MOVES = 1_000_000
"""Chunks sent, copied or reduced in a whole schedule."""
MOST_HELD = 2**22
"""Chunks that all ranks together end with."""

PRIMITIVES = (AR, AG, RS, A2A, BC, REDUCE)

ChunkState = tuple[int, int]  # a chunk, and a bit for each rank summed in it
Sent = tuple[int, int, int, bool]  # src, dst, chunk, add
Batch = tuple[Step, ...]


class CustomSchedule(NamedTuple):
    """A schedule from a file or a plugin that was executed and found right.

    Args:
        chunks: number of equal parts of M.
        batches: the messages of each step, which are sent at the same time.
        file: its file or plugin, for errors.
        form: the format that it was written in.
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
        return sum(len(sends.src) for sends in chain.from_iterable(self.batches))

    def program(self) -> Program:
        """Return the program that the executor of shipped schedules runs. Of a file that uses
        scratch, only its loads of links are right."""
        chunks = self.chunks * self.ranks if self.primitive is A2A else self.chunks
        number = np.arange(chunks, dtype=np.int64)
        if self.primitive is A2A:
            home = number // self.chunks
            target = number % self.chunks * self.ranks // self.chunks
        elif self.primitive in (AG, RS, AR):
            home = target = number * self.ranks // self.chunks
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


class PostCondition(NamedTuple):
    """What each rank begins and has to end with, by primitive and size; ``parts``: how many of its
    chunks are one of the file's."""

    primitive: Primitive
    ranks: int
    chunks: int
    root: int = 0
    parts: int = 1

    def first(self, rank: int, at: int) -> ChunkState | None:
        """Return the state of place ``at`` of a rank's input; None for nothing."""
        if not 0 <= at < self.chunks:
            return None
        part = 1 << rank
        if self.primitive is AG:
            own = self.chunks // self.ranks
            return (rank * own + at, part) if at < own else None
        if self.primitive is A2A:
            return rank * self.chunks + at, part
        if self.primitive is BC and rank != self.root:
            return None
        return at, part

    def last(self, rank: int) -> Iterator[tuple[int, ChunkState]]:
        """Yield every place of a rank's output and the state that it has to end with."""
        # The bits of all ranks: the whole sum.
        all_ranks = (1 << self.ranks) - 1
        own = self.chunks // self.ranks
        if self.primitive is REDUCE and rank != self.root:
            return
        for at in range(own if self.primitive is RS else self.chunks):
            match self.primitive:
                case Primitive.ALL_REDUCE | Primitive.REDUCE:
                    yield at, (at, all_ranks)
                case Primitive.ALL_GATHER:
                    yield at, (at, 1 << at // own)
                case Primitive.REDUCE_SCATTER:
                    yield at, (rank * own + at, all_ranks)
                case Primitive.ALL_TO_ALL:
                    src, k = divmod(at, own)
                    yield at, (src * self.chunks + rank * own + k, 1 << src)
                case Primitive.BROADCAST:
                    yield at, (at, 1 << self.root)


def postcondition_of(
    primitive: Primitive, ranks: int, chunks: int, root: int = 0, parts: int = 1
) -> PostCondition:
    """Return the postcondition of a schedule of this size; ColltoolError beyond the limits."""
    if primitive not in PRIMITIVES:
        fix = f"one of {', '.join(PRIMITIVES)}"
        raise ColltoolError(
            f"a schedule of {primitive.label} is not read: it has no steps to choose", fix=fix
        )
    limits = ((ranks, 2, MOST_RANKS, "ranks"), (chunks, 1, MOST_CHUNKS, "chunks"))
    for value, least, most, what in limits:
        if not least <= value <= most:
            raise ColltoolError(
                f"{least} to {most} {what} are followed, got {value}", fix=f"fewer {what}"
            )
    if primitive in (AG, RS, A2A) and chunks % ranks:
        fix = f"{ranks} chunks, or a multiple of it"
        raise ColltoolError(
            f"{chunks} chunks do not divide among {ranks} ranks of {primitive.label}", fix=fix
        )
    if not 0 <= root < ranks:
        raise ColltoolError(f"the root is one of the ranks, got {root}", fix=f"0 to {ranks - 1}")
    if ranks * chunks > MOST_HELD:
        what = f"{ranks} ranks of {chunks} chunks are more than the {MOST_HELD} that are followed"
        raise ColltoolError(what, fix="fewer chunks")
    return PostCondition(primitive, ranks, chunks, root, parts)


def chunk_text(postcondition: PostCondition, chunk: int) -> str:
    """Return a chunk as errors name it: by its number in the file, in an all-to-all with sender and
    receiver."""
    number, part = divmod(chunk, postcondition.parts)
    name = f"chunk {number}"
    if postcondition.parts > 1:
        name += f" (part {part + 1} of {postcondition.parts})"
    if postcondition.primitive is not A2A:
        return name
    chunks = postcondition.chunks // postcondition.parts
    src, of_sender = divmod(number, chunks)
    dst, of_pair = divmod(of_sender, chunks // postcondition.ranks)
    part_text = f" (part {of_pair})" if chunks > postcondition.ranks else ""
    return f"{name}, from rank {src} to {dst}{part_text}"


def ranks_text(bits: int) -> str:
    """Return the ranks of a bit set as text: ``rank 3``, ``ranks 0, 2 and 5 more``."""
    found = [rank for rank in range(bits.bit_length()) if bits >> rank & 1]
    text = ", ".join(map(str, found[:4]))
    if len(found) > 4:
        text += f" and {len(found) - 4} more"
    return f"ranks {text}" if len(found) > 1 else f"rank {text}"


def with_addition(
    postcondition: PostCondition, current: ChunkState | None, arrived: ChunkState, rank: int
) -> ChunkState:
    """Return the state after a rank adds what arrived to what it has. Raises ColltoolError if the
    chunks differ, or a rank's part would be in the sum twice."""
    chunk, added = arrived
    name = chunk_text(postcondition, chunk)
    if current is None:
        raise ColltoolError(f"rank {rank} adds {name} to a place where it holds nothing")
    held_chunk, held = current
    if held_chunk != chunk:
        raise ColltoolError(f"rank {rank} adds {name} to {chunk_text(postcondition, held_chunk)}")
    if twice := held & added:
        raise ColltoolError(
            f"{name} is reduced twice at rank {rank}: {ranks_text(twice)} would be in it two times"
        )
    return chunk, held | added


def mismatch(
    postcondition: PostCondition, rank: int, expected: ChunkState, current: ChunkState | None
) -> str:
    """Return what is wrong with the final state of a place of a rank's output. Empty if it is
    right."""
    if current == expected:
        return ""
    chunk, whole = expected
    name = chunk_text(postcondition, chunk)
    if current is None:
        return f"rank {rank} ends without {name}"
    held_chunk, held = current
    if held_chunk != chunk:
        return (
            f"rank {rank} ends with {chunk_text(postcondition, held_chunk)} in the place of {name}"
        )
    # The same chunk, so parts are missing: a part too many was refused when it was added.
    return f"rank {rank} ends with {name} without the part of {ranks_text(whole & ~held)}"


class _Vectors:
    """The state of every rank's vector; there is no scratch."""

    def __init__(self, postcondition: PostCondition) -> None:
        self.postcondition = postcondition
        self.written: dict[tuple[int, int], ChunkState] = {}

    def at(self, rank: int, chunk: int) -> ChunkState | None:
        """Return the state of a chunk at a rank: what was written, else what it began with."""
        if (rank, chunk) in self.written:
            return self.written[rank, chunk]
        postcondition = self.postcondition
        if postcondition.primitive is A2A:  # a chunk lies first with its sender
            owner = chunk // postcondition.chunks
        elif postcondition.primitive is AG:
            owner = chunk * postcondition.ranks // postcondition.chunks
        else:
            return postcondition.first(rank, chunk)
        return (chunk, 1 << rank) if owner == rank else None

    def exchange(self, batch: Batch) -> None:
        """Execute one step: all of its messages read the state before it."""
        sent: list[tuple[int, int, ChunkState, bool]] = []
        for messages in batch:
            ends = (messages.src.tolist(), messages.dst.tolist(), messages.chunk.tolist())
            for src, dst, chunk in zip(*ends, strict=True):
                piece = self.at(src, chunk)
                if piece is None:
                    name = chunk_text(self.postcondition, chunk)
                    raise ColltoolError(f"rank {src} sends {name} to rank {dst} before it has it")
                sent.append((dst, chunk, piece, messages.add))
        adds: dict[tuple[int, int], bool] = {}
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
                piece = with_addition(self.postcondition, self.at(dst, chunk), piece, dst)
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
        for _, expected in postcondition.last(rank):
            if problem := mismatch(postcondition, rank, expected, vectors.at(rank, expected[0])):
                raise ColltoolError(f"after the last of {counted(len(batches), 'step')} {problem}")


def batch_of(sends: Sequence[Sent]) -> Batch:
    """Return the messages of one step as arrays: first those that copy, then those that add."""
    batch = []
    # A step as the executor takes it copies or adds, not both.
    for add in (False, True):
        chosen = [send[:3] for send in sends if send[3] == add]
        if chosen:
            batch.append(step(*np.array(chosen).T, add=add))
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
    chunks = count
    if program.primitive is A2A:
        chunks = count // ranks
    root = 0
    if program.primitive in (BC, REDUCE):
        root = int(program.home[0])
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
