"""Runs the threadblocks of an algorithm file, each as far as it can go, and keeps what was sent.

A step waits for an event: a message, a signal, another step. Steps that follow each other only by
luck give other results in another order, so a file is run in two opposite ones. A message belongs
to a round: one more than whatever had to arrive before it was sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

from colltool.custom.buffers import Buffers
from colltool.custom.schedule import Batch, ChunkState, Sent, batch_of, summed

# What a threadblock waits for: the end of a step of another one, or an event of the format.
Event = tuple[int, int] | tuple[int, int, int] | tuple[int, str, int]


class Threadblocks(ABC):
    """The state of a run; what a step does is up to the format."""

    def __init__(self, buffers: Buffers, steps: Sequence[int]) -> None:
        self.buffers = buffers
        self.promise = buffers.promise
        self.steps = steps  # how many each threadblock has
        self.at = [0] * len(steps)  # the next step of each threadblock
        self.round = [0] * len(steps)
        self.ready = deque(range(len(steps)))
        self.blocked: dict[Event, list[int]] = {}
        self.sent: dict[int, list[Sent]] = {}

    @abstractmethod
    def do(self, number: int) -> Event | None:
        """Take the next step of a threadblock, or return what it has to wait for."""

    @abstractmethod
    def check_end(self) -> None:
        """Refuse threadblocks that wait for ever, and what is never received."""

    def run(self, file: str, *, backwards: bool) -> tuple[Batch, ...]:
        """What is sent, round by round; ColltoolError names the step that fails."""
        # Orders that luck would hide: the last threadblock first, and the latest that can go on.
        if backwards:
            self.ready.reverse()
        while self.ready:
            self._advance(self.ready.pop() if backwards else self.ready.popleft())
        self.check_end()
        self.buffers.judge(file)
        return tuple(batch_of(self.sent[number]) for number in sorted(self.sent))

    def _advance(self, number: int) -> None:
        """Run a threadblock as far as it can go."""
        while self.is_waiting(number):
            # What it waits for may have happened before: then it goes on at once.
            missing = self.do(number)
            if missing is not None:
                self.blocked.setdefault(missing, []).append(number)
                return
            done = self.at[number]
            self.at[number] += 1
            self.happens((number, done))

    def is_waiting(self, number: int) -> bool:
        """Whether a threadblock has not come to its end."""
        return self.at[number] < self.steps[number]

    def happens(self, event: Event) -> None:
        """Let those go on that wait for an event."""
        self.ready.extend(self.blocked.pop(event, ()))

    def record(
        self, number: int, src: int, dst: int, pieces: Iterable[ChunkState], *, add: bool
    ) -> None:
        """Note a message of a round."""
        sends = self.sent.setdefault(number, [])
        sends.extend((src, dst, chunk, add) for chunk, _ in pieces)

    def added(
        self, held: Sequence[ChunkState | None], arrived: Sequence[ChunkState], rank: int
    ) -> list[ChunkState]:
        """What a rank has after it adds pieces to what it holds."""
        pairs = zip(held, arrived, strict=True)
        return [summed(self.promise, own, piece, rank) for own, piece in pairs]
