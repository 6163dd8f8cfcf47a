"""The input, output and scratch buffers of every rank, and the state of each of their places."""

from __future__ import annotations

from collections.abc import Mapping

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, RS
from colltool.custom.schedule import ChunkState, PostCondition, mismatch

INPUT = "i"
OUTPUT = "o"
SCRATCH = "s"

Where = tuple[int, str, int]  # rank, buffer, offset in chunks


class Buffers:
    """The buffers of all ranks.

    ``sizes``: chunks by rank and buffer. ``in_place``: input and output share memory; the smaller one
    is the rank's part of the larger one.
    """

    def __init__(
        self, postcondition: PostCondition, sizes: Mapping[tuple[int, str], int], *, in_place: bool
    ) -> None:
        self.postcondition = postcondition
        self.sizes = sizes
        self.in_place = in_place
        self.memory: dict[Where, ChunkState] = {}

    def place(self, rank: int, buffer: str, at: int) -> Where:
        """Return the place of a chunk; in place, input and output are one buffer."""
        size = self.sizes[rank, buffer]
        if not 0 <= at < size:
            parts = self.postcondition.parts
            raise ColltoolError(
                f"place {at // parts} of buffer {buffer} is outside: it has {size // parts} chunks"
            )
        return self._alias(rank, buffer, at)

    def _alias(self, rank: int, buffer: str, at: int) -> Where:
        # Scratch is never shared.
        if not self.in_place or buffer == SCRATCH:
            return rank, buffer, at
        primitive = self.postcondition.primitive
        # The smaller of the two buffers is the rank's own part of the larger one.
        is_part = (primitive is AG and buffer == INPUT) or (primitive is RS and buffer == OUTPUT)
        return rank, OUTPUT, at + self._first_of(rank) if is_part else at

    def _first_of(self, rank: int) -> int:
        """The first chunk of a rank's part of the whole."""
        return rank * (self.postcondition.chunks // self.postcondition.ranks)

    def state(self, where: Where) -> ChunkState | None:
        """Return the state of a place: what was written, else the rank's input. None for nothing."""
        if where in self.memory:
            return self.memory[where]
        rank, buffer, at = where
        if buffer != (OUTPUT if self.in_place else INPUT):
            return None
        # The input of an all-gather lies at the rank's own part of the output.
        if self.in_place and self.postcondition.primitive is AG:
            at -= self._first_of(rank)
        return self.postcondition.first(rank, at)

    def read(self, where: Where) -> ChunkState:
        """Return the state of a place; ColltoolError if it holds nothing."""
        current = self.state(where)
        if current is None:
            rank, buffer, at = where
            number = at // self.postcondition.parts
            raise ColltoolError(
                f"place {number} of buffer {buffer} of rank {rank} holds nothing yet"
            )
        return current

    def check_postcondition(self, file: str) -> None:
        """Raise an error if some rank does not end with what the primitive promises."""
        how = "in place" if self.in_place else "out of place"
        for rank in range(self.postcondition.ranks):
            for at, expected in self.postcondition.last(rank):
                current = self.state(self._alias(rank, OUTPUT, at))
                if problem := mismatch(self.postcondition, rank, expected, current):
                    raise ColltoolError(f"after the last step, {how}, {problem}", where=file)
