"""What the ranks of a custom schedule begin with and have to end with (:class:`PostCondition`), and the
states of chunks by which that is executed and checked.

A state is ``(chunk, ranks)``: which chunk of the vector a place holds, and a bit for each rank whose
part is summed in it. So a part that is missing or counted twice is found at the step where it
happens, by name, and not as a wrong number at the end.

Chunks are equal parts of M. Of an all-gather and a reduce-scatter, chunk c belongs to rank
``c // (chunks / N)``; of an all-to-all, chunk ``src * chunks + dst * (chunks / N) + k`` goes from
src to dst; a broadcast and a reduction have a root.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive

# Limits of what is executed in seconds and in memory.
MOST_RANKS = 4096
MOST_CHUNKS = 65_536
MOST_HELD = 2**22
"""Chunks that all ranks together end with."""

PRIMITIVES = (AR, AG, RS, A2A, BC, REDUCE)

ChunkState = tuple[int, int]  # a chunk, and a bit for each rank summed in it


class PostCondition(NamedTuple):
    """What each rank begins and has to end with, by primitive and size."""

    primitive: Primitive
    ranks: int
    chunks: int  # of M; of an all-to-all for each sender
    root: int = 0
    parts: int = 1  # each chunk of the file is followed as so many chunks

    def initial_state(self, rank: int, offset: int) -> ChunkState | None:
        """Return the state of a place of a rank's input; None for nothing."""
        if not 0 <= offset < self.chunks:
            return None
        rank_bit = 1 << rank
        if self.primitive is AG:
            own = self.chunks // self.ranks
            if offset >= own:
                return None
            return rank * own + offset, rank_bit
        if self.primitive is A2A:
            return rank * self.chunks + offset, rank_bit
        if self.primitive is BC and rank != self.root:
            return None
        return offset, rank_bit

    def final_states(self, rank: int) -> Iterator[tuple[int, ChunkState]]:
        """Yield the offset of every place of a rank's output, and the state that it has to end with."""
        # The bits of all ranks: the whole sum.
        all_ranks = (1 << self.ranks) - 1
        # chunks of a rank, in an all-to-all of a pair
        own = self.chunks // self.ranks
        if self.primitive is REDUCE and rank != self.root:
            return
        places = own if self.primitive is RS else self.chunks
        for offset in range(places):
            match self.primitive:
                case Primitive.ALL_REDUCE | Primitive.REDUCE:
                    yield offset, (offset, all_ranks)
                case Primitive.ALL_GATHER:
                    yield offset, (offset, 1 << (offset // own))
                case Primitive.REDUCE_SCATTER:
                    yield offset, (rank * own + offset, all_ranks)
                case Primitive.ALL_TO_ALL:
                    src, k = divmod(offset, own)
                    first_of_pair = src * self.chunks + rank * own
                    yield offset, (first_of_pair + k, 1 << src)
                case Primitive.BROADCAST:
                    yield offset, (offset, 1 << self.root)


def postcondition_of(
    primitive: Primitive,
    ranks: int,
    chunks: int,
    root: int = 0,
    parts: int = 1,
) -> PostCondition:
    """Return the postcondition of a schedule of this size; ColltoolError beyond the limits."""
    if primitive not in PRIMITIVES:
        fix = f"one of {', '.join(PRIMITIVES)}"
        raise ColltoolError(
            f"a schedule of {primitive.label} is not read: it has no steps to choose", fix=fix
        )
    _check_count(ranks, 2, MOST_RANKS, "ranks")
    _check_count(chunks, 1, MOST_CHUNKS, "chunks")
    if primitive in (AG, RS, A2A) and chunks % ranks:
        fix = f"{ranks} chunks, or a multiple of it"
        raise ColltoolError(
            f"{chunks} chunks do not divide among {ranks} ranks of {primitive.label}", fix=fix
        )
    if not 0 <= root < ranks:
        what = f"the root is one of the ranks, got {root}"
        raise ColltoolError(what, fix=f"0 to {ranks - 1}")
    held = ranks * chunks
    if held > MOST_HELD:
        what = f"{ranks} ranks of {chunks} chunks are more than the {MOST_HELD} that are followed"
        raise ColltoolError(what, fix="fewer chunks")
    return PostCondition(primitive, ranks, chunks, root, parts)


def _check_count(count: int, least: int, most: int, noun: str) -> None:
    """Raise ColltoolError for a count of ranks or chunks outside of its limits."""
    if not least <= count <= most:
        what = f"{least} to {most} {noun} are followed, got {count}"
        raise ColltoolError(what, fix=f"fewer {noun}")


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
    name += f", from rank {src} to {dst}"
    if chunks > postcondition.ranks:
        name += f" (part {of_pair})"
    return name


def ranks_text(bits: int) -> str:
    """Return the ranks of a bit set as text: ``rank 3``, ``ranks 0, 2, 3, 5 and 5 more``."""
    ranks = [rank for rank in range(bits.bit_length()) if bits >> rank & 1]
    text = ", ".join(map(str, ranks[:4]))
    if len(ranks) > 4:
        text += f" and {len(ranks) - 4} more"
    if len(ranks) == 1:
        return f"rank {text}"
    return f"ranks {text}"


def with_addition(
    postcondition: PostCondition, current: ChunkState | None, arrived: ChunkState, rank: int
) -> ChunkState:
    """Return the state after a rank adds what arrived to what it has. Raises ColltoolError if the
    chunks differ, or a rank's part would be in the sum twice."""
    chunk, added = arrived
    name = chunk_text(postcondition, chunk)
    if current is None:
        raise ColltoolError(f"rank {rank} adds {name} to a place where it holds nothing")
    current_chunk, summed = current
    if current_chunk != chunk:
        current_name = chunk_text(postcondition, current_chunk)
        raise ColltoolError(f"rank {rank} adds {name} to {current_name}")
    if twice := summed & added:
        parts = f"{ranks_text(twice)} would be in it two times"
        raise ColltoolError(f"{name} is reduced twice at rank {rank}: {parts}")
    return chunk, summed | added


def mismatch(
    postcondition: PostCondition, rank: int, expected: ChunkState, current: ChunkState | None
) -> str:
    """Return what is wrong with the final state of a place of a rank's output, as words that follow "after the
    last step"; empty if it is right."""
    if current == expected:
        return ""
    chunk, whole = expected
    name = chunk_text(postcondition, chunk)
    if current is None:
        return f"rank {rank} ends without {name}"
    current_chunk, summed = current
    if current_chunk != chunk:
        other_name = chunk_text(postcondition, current_chunk)
        return f"rank {rank} ends with {other_name} in the place of {name}"
    # The same chunk, so parts are missing: a part too many was refused when it was added.
    missing = whole & ~summed
    return f"rank {rank} ends with {name} without the part of {ranks_text(missing)}"
