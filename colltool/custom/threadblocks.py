"""Executes the threadblocks of an algorithm file, each as far as it can go, and records what was sent.

A step may wait for an event: a message, a signal, the end of another step. A race between steps gives
other results in another order, so a file is executed in two opposite orders. A message belongs to a
round: one more than the latest of what had to arrive before it was sent. The formats of MSCCL and
MSCCL++ have a subclass each, which executes one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

from colltool.custom.buffers import Buffers
from colltool.custom.postcondition import ChunkState, with_addition
from colltool.custom.schedule import Batch, Sent, batch_of

# What a threadblock waits for, its kind first: the end of a step of another one, ("step", threadblock,
# step), or an event of the format, such as ("message", sender, receiver, channel).
Event = tuple[str | int, ...]


class Threadblocks(ABC):
    """The state of an execution; subclasses know what a step does. Threadblocks are named by their number, the
    index in ``steps``.
    """

    def __init__(self, buffers: Buffers, steps: Sequence[int]) -> None:
        self.buffers = buffers
        self.postcondition = buffers.postcondition
        # By the number of a threadblock: how many steps it has, its next one, and the round of the
        # latest message that it depends on, which is 0 before any.
        self.steps = steps
        self.position = [0] * len(steps)
        self.round = [0] * len(steps)
        self.ready = deque(range(len(steps)))  # threadblocks that may go on
        self.blocked: dict[Event, list[int]] = {}  # those that wait, by what they wait for
        self.sent: dict[int, list[Sent]] = {}  # messages by round

    @abstractmethod
    def execute(self, number: int) -> Event | None:
        """Execute the next step of a threadblock, or return the event that it has to wait for."""

    @abstractmethod
    def check_end(self) -> None:
        """Raise an error if threadblocks wait for ever, or a message was not received."""

    def run(self, file: str, *, backwards: bool) -> tuple[Batch, ...]:
        """Return what is sent, round by round; ColltoolError names the step that fails.

        ``backwards``: the last threadblock first, and of those that can go on the latest.
        """
        while self.ready:
            self._advance(self.ready.pop() if backwards else self.ready.popleft())
        self.check_end()
        self.buffers.check_postcondition(file)
        return tuple(batch_of(self.sent[number]) for number in sorted(self.sent))

    def _advance(self, number: int) -> None:
        """Run a threadblock as far as it can go."""
        while self.has_steps_left(number):
            missing = self.execute(number)
            if missing is not None:
                self.blocked.setdefault(missing, []).append(number)
                return
            self.notify(("step", number, self.position[number]))
            self.position[number] += 1

    def has_steps_left(self, number: int) -> bool:
        """Whether a threadblock still has steps to execute."""
        return self.position[number] < self.steps[number]

    def not_before(self, number: int, earliest: int) -> None:
        """Raise the round of a threadblock to that of what it depends on."""
        self.round[number] = max(self.round[number], earliest)

    def notify(self, event: Event) -> None:
        """Let the threadblocks go on that wait for an event."""
        self.ready.extend(self.blocked.pop(event, ()))

    def record(
        self, sent_in: int, src: int, dst: int, pieces: Iterable[ChunkState], *, add: bool
    ) -> None:
        """Record a message that is sent in this round, chunk by chunk; ``add``: the receiver adds it."""
        sends = self.sent.setdefault(sent_in, [])
        sends.extend((src, dst, chunk, add) for chunk, _ in pieces)

    def added(
        self, current: Sequence[ChunkState | None], arrived: Sequence[ChunkState], rank: int
    ) -> list[ChunkState]:
        """Return the states after a rank adds pieces to what it holds."""
        pairs = zip(current, arrived, strict=True)
        return [with_addition(self.postcondition, state, piece, rank) for state, piece in pairs]
