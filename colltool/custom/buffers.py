"""The input, output and scratch buffers of every rank, and the pieces of data that lie in them."""

from __future__ import annotations

from collections.abc import Mapping

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, RS
from colltool.custom.schedule import ChunkState, PostCondition, shortfall

INPUT = "i"
OUTPUT = "o"
SCRATCH = "s"

Where = tuple[int, str, int]  # rank, buffer, offset in chunks


class Buffers:
    """Places and what they hold; ``in_place``: the input is the output, or a rank's part of it, or
    the other way round."""

    def __init__(
        self, promise: PostCondition, sizes: Mapping[tuple[int, str], int], *, in_place: bool
    ) -> None:
        self.promise = promise
        self.sizes = sizes
        self.in_place = in_place
        self.memory: dict[Where, ChunkState] = {}

    def place(self, rank: int, buffer: str, at: int) -> Where:
        """Where a chunk lies; in place, input and output are one buffer."""
        size = self.sizes[rank, buffer]
        if not 0 <= at < size:
            raise ColltoolError(f"place {at} of buffer {buffer} is outside: it has {size} chunks")
        return self._alias(rank, buffer, at)

    def _alias(self, rank: int, buffer: str, at: int) -> Where:
        # Scratch is never shared.
        if not self.in_place or buffer == SCRATCH:
            return rank, buffer, at
        primitive = self.promise.primitive
        # The smaller of the two buffers is the rank's own part of the larger one.
        is_part = (primitive is AG and buffer == INPUT) or (primitive is RS and buffer == OUTPUT)
        return rank, OUTPUT, at + self._first_of(rank) if is_part else at

    def _first_of(self, rank: int) -> int:
        """Where a rank's own part of the whole begins."""
        return rank * (self.promise.chunks // self.promise.ranks)

    def held(self, where: Where) -> ChunkState | None:
        """What lies there: what was written, else the rank's own input."""
        if where in self.memory:
            return self.memory[where]
        rank, buffer, at = where
        if buffer != (OUTPUT if self.in_place else INPUT):
            return None
        # The input of an all-gather lies at the rank's own part of the output.
        if self.in_place and self.promise.primitive is AG:
            at -= self._first_of(rank)
        return self.promise.first(rank, at)

    def read(self, where: Where) -> ChunkState:
        """What lies there; ColltoolError where that is nothing."""
        held = self.held(where)
        if held is None:
            rank, buffer, at = where
            raise ColltoolError(f"place {at} of buffer {buffer} of rank {rank} holds nothing yet")
        return held

    def judge(self, file: str) -> None:
        """Refuse an end at which some rank has not what the primitive promises."""
        how = "in place" if self.in_place else "out of place"
        for rank in range(self.promise.ranks):
            for at, wanted in self.promise.last(rank):
                held = self.held(self._alias(rank, OUTPUT, at))
                if problem := shortfall(self.promise, rank, wanted, held):
                    raise ColltoolError(f"after the last step, {how}, {problem}", where=file)
