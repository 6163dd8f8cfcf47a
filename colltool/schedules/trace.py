"""A schedule step by step, for people to read: who sends which chunk to whom, and what each rank then holds."""

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.primitives import A2A, AR, P2P, REDUCE, RS
from colltool.schedules.network import Network
from colltool.schedules.step import Program, Step


class Message(NamedTuple):
    """One chunk from a rank to another, summed into what is there or put in its place."""

    src: int
    dst: int
    chunk: int
    add: bool


class Held(NamedTuple):
    """A chunk that a rank holds, and over whose contributions it is summed."""

    chunk: int
    ranks: tuple[int, ...]


Holdings = tuple[tuple[Held, ...], ...]
"""What each rank holds; those of switches come after the ranks'."""


class Traced(NamedTuple):
    """One step: its messages, what it adds to n_α and n_β, and what ranks hold after it."""

    messages: tuple[Message, ...]
    n_alpha: float
    n_beta: float
    holds: Holdings


class Trace(NamedTuple):
    """A schedule as executed.

    Args:
        ranks: N; nodes beyond are switches, or ranks beside the group.
        chunk_bytes: in units of M.
        summed: whether chunks are sums over ranks, or pieces that somebody owns.
        start: what ranks hold before the first step.
        steps: in order.
    """

    ranks: int
    chunk_bytes: tuple[float, ...]
    summed: bool
    start: Holdings
    steps: tuple[Traced, ...]


def traced(program: Program, network: Network) -> Trace:
    """Run a schedule and write down every step; ``program`` is consumed, ``network`` counts what the steps load."""
    state = State(program)
    start, steps = state.holdings(), []
    for batch in program.batches:
        before = network.hops, network.peak
        network.carry(batch, program.chunk_bytes)
        messages = messages_of(batch)
        state.apply(messages)
        steps.append(Traced(messages, network.hops - before[0], network.peak - before[1], state.holdings()))
    return Trace(program.ranks, tuple(program.chunk_bytes.tolist()), state.summed, start, tuple(steps))


def messages_of(batch: tuple[Step, ...]) -> tuple[Message, ...]:
    """The messages of a batch, one by one."""
    columns = [(one.src.tolist(), one.dst.tolist(), one.chunk.tolist(), [one.add] * len(one.src)) for one in batch]
    return tuple(Message(*each) for one in columns for each in zip(*one, strict=True))


class State:
    """``held[node][chunk]``: the ranks whose contributions are in it."""

    def __init__(self, program: Program) -> None:
        self.summed = program.primitive in (AR, RS, REDUCE)
        self.moved = program.primitive in (A2A, P2P)
        self.held: list[dict[int, frozenset[int]]] = [{} for _ in range(program.nodes)]
        for chunk, home in enumerate(program.home.tolist()):
            for rank in range(program.ranks) if self.summed else [home]:
                self.held[rank][chunk] = frozenset([rank])

    def apply(self, messages: Sequence[Message]) -> None:
        """All messages read what was held before the step."""
        carried = [self.held[one.src][one.chunk] for one in messages]
        for one, ranks in zip(messages, carried, strict=True):
            if self.moved:
                del self.held[one.src][one.chunk]
            own = self.held[one.dst].get(one.chunk, frozenset()) if one.add else frozenset()
            self.held[one.dst][one.chunk] = ranks | own

    def holdings(self) -> Holdings:
        """What every node holds now, by chunk."""
        return tuple(tuple(Held(chunk, tuple(sorted(node[chunk]))) for chunk in sorted(node)) for node in self.held)
