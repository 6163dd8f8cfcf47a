"""The input, output and scratch buffers of every rank, and the state of each of their places: which chunk it
holds, summed over which ranks (``ChunkState``)."""

from __future__ import annotations

from collections.abc import Mapping

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, RS
from colltool.custom.postcondition import ChunkState, PostCondition, mismatch

# names of buffers in files of MSCCL and MSCCL++
INPUT = "i"
OUTPUT = "o"
SCRATCH = "s"

Where = tuple[int, str, int]
"""Rank, buffer, and offset in chunks; of an MSCCL++ plan in parts of chunks."""


class Buffers:
    """The buffers of all ranks.

    Args:
        postcondition: what the ranks begin with, and have to end with.
        sizes: chunks by rank and buffer.
        in_place: input and output share memory; the smaller one is the rank's part of the larger one.
    """

    def __init__(
        self, postcondition: PostCondition, sizes: Mapping[tuple[int, str], int], *, in_place: bool
    ) -> None:
        self.postcondition = postcondition
        self.sizes = sizes
        self.in_place = in_place
        self.memory: dict[Where, ChunkState] = {}  # what was written

    def place(self, rank: int, buffer: str, offset: int) -> Where:
        """Return the place of a chunk; in place, input and output are one buffer. ColltoolError if it
        is outside of the buffer."""
        size = self.sizes[rank, buffer]
        if not 0 <= offset < size:
            parts = self.postcondition.parts
            raise ColltoolError(
                f"place {offset // parts} of buffer {buffer} is outside: it has {size // parts} chunks"
            )
        return self._alias(rank, buffer, offset)

    def _alias(self, rank: int, buffer: str, offset: int) -> Where:
        """The place by which memory that two buffers share is known: in the output."""
        # Scratch is never shared.
        if not self.in_place or buffer == SCRATCH:
            return rank, buffer, offset
        primitive = self.postcondition.primitive
        # The smaller of the two buffers is the rank's own part of the larger one.
        is_part = (primitive is AG and buffer == INPUT) or (primitive is RS and buffer == OUTPUT)
        if is_part:
            offset += self._first_of(rank)
        return rank, OUTPUT, offset

    def _first_of(self, rank: int) -> int:
        """The first chunk of a rank's part of the whole."""
        return rank * (self.postcondition.chunks // self.postcondition.ranks)

    def state(self, where: Where) -> ChunkState | None:
        """Return the state of a place: what was written, else the rank's input. None for nothing."""
        if where in self.memory:
            return self.memory[where]
        rank, buffer, offset = where
        if buffer != (OUTPUT if self.in_place else INPUT):
            return None
        # The input of an all-gather lies offset the rank's own part of the output.
        if self.in_place and self.postcondition.primitive is AG:
            offset -= self._first_of(rank)
        return self.postcondition.initial_state(rank, offset)

    def read(self, where: Where) -> ChunkState:
        """Return the state of a place; ColltoolError if it holds nothing."""
        current = self.state(where)
        if current is None:
            rank, buffer, offset = where
            number = offset // self.postcondition.parts
            raise ColltoolError(
                f"place {number} of buffer {buffer} of rank {rank} holds nothing yet"
            )
        return current

    def check_postcondition(self, file: str) -> None:
        """Raise an error if some rank does not end with what the primitive promises."""
        way = "in place" if self.in_place else "out of place"
        for rank in range(self.postcondition.ranks):
            for offset, expected in self.postcondition.final_states(rank):
                current = self.state(self._alias(rank, OUTPUT, offset))
                if problem := mismatch(self.postcondition, rank, expected, current):
                    raise ColltoolError(f"after the last step, {way}, {problem}", where=file)
