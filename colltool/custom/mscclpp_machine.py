"""Runs the threadblocks of an MSCCL++ plan: puts and gets move pieces at once, signals and packets
are what others wait for.

A message belongs to a round, as in :mod:`msccl_machine`: one more than whatever its threadblock had
waited for, and one a round to each peer. A signal carries the round of what was put before it; a
packet is waited for where it is read.
"""

from __future__ import annotations

from collections import deque

from colltool.base.errors import ColltoolError
from colltool.custom.buffers import SCRATCH, Buffers, Where
from colltool.custom.mscclpp_file import (
    COPIES,
    PACKETS,
    SIGNALS,
    SUMS,
    WAITS,
    ExecutionPlan,
    PlanOp,
    PlanPlace,
)
from colltool.custom.schedule import Batch, Piece, Promise, batch_of, summed

# a signal from, to, of a channel; a packet at a place; a barrier of a rank (its id, -1)
Event = tuple[int, int, int] | Where


def execute(
    plan: ExecutionPlan, promise: Promise, *, in_place: bool, backwards: bool = False
) -> tuple[Batch, ...]:
    """What was sent, round by round; ColltoolError names the operation that fails."""
    return _PlanRun(plan, promise, in_place=in_place).run(backwards=backwards)


class _PlanRun:
    def __init__(self, plan: ExecutionPlan, promise: Promise, *, in_place: bool) -> None:
        self.plan, self.promise = plan, promise
        self.buffers = Buffers(promise, plan.sizes, in_place=in_place)
        self.at = [0] * len(plan.blocks)
        self.round = [0] * len(plan.blocks)
        # threadblock, from, to: the round of its last message
        self.last: dict[tuple[int, int, int], int] = {}
        self.arrived: dict[Where, int] = {}  # the round in which a place was written
        self.signals: dict[Event, deque[int]] = {}
        self.members: dict[Event, set[int]] = {}  # threadblocks of a barrier
        self.came: dict[Event, set[int]] = {}
        self.passed: set[int] = set()
        self.sent: dict[int, list[tuple[int, int, int, bool]]] = {}
        self.ready: deque[int] = deque()
        self.blocked: dict[Event, list[int]] = {}
        for number, (rank, ops) in enumerate(plan.blocks):
            for op in ops:
                if op.name == "barrier":
                    self.members.setdefault((rank, op.barrier, -1), set()).add(number)

    def run(self, *, backwards: bool) -> tuple[Batch, ...]:
        self.ready.extend(range(len(self.plan.blocks)))
        if backwards:
            self.ready.reverse()
        while self.ready:
            self._advance(self.ready.pop() if backwards else self.ready.popleft())
        for number, (_, ops) in enumerate(self.plan.blocks):
            if self.at[number] < len(ops):
                raise self._refused(
                    ops[self.at[number]], "waits for ever: nobody signals or sends what it needs"
                )
        self.buffers.judge(self.plan.file)
        return tuple(batch_of(self.sent[round_]) for round_ in sorted(self.sent))

    def _advance(self, number: int) -> None:
        """Run a threadblock as far as it can go."""
        rank, ops = self.plan.blocks[number]
        while self.at[number] < len(ops):
            op = ops[self.at[number]]
            try:
                missing = self._do(number, rank, op)
            except ColltoolError as error:
                raise self._refused(op, error.what) from error
            if missing is not None:
                self.blocked.setdefault(missing, []).append(number)
                return
            self.at[number] += 1

    def _refused(self, op: PlanOp, what: str) -> ColltoolError:
        return ColltoolError(what, where=f"{self.plan.file}: {op.where}")

    def _happens(self, event: Event) -> None:
        self.ready.extend(self.blocked.pop(event, ()))

    def _do(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """One operation, or what it has to wait for."""
        if op.name == "barrier":
            return self._barrier(number, (rank, op.barrier, -1))
        missing = self._wait(number, rank, op) if op.name in WAITS else None
        if missing is None and op.name in COPIES | SUMS:
            missing = self._move(number, rank, op)
        if missing is None and op.name in SIGNALS:
            for peer, channel in op.channels:
                round_ = max(self.round[number], self.last.get((number, rank, peer), 0))
                self.signals.setdefault((rank, peer, channel), deque()).append(round_)
                self._happens((rank, peer, channel))
        return missing

    def _wait(self, number: int, rank: int, op: PlanOp) -> Event | None:
        wires: list[Event] = [(peer, rank, channel) for peer, channel in op.channels]
        if missing := [wire for wire in wires if not self.signals.get(wire)]:
            return missing[0]
        self.round[number] = max(
            [self.round[number], *(self.signals[wire].popleft() for wire in wires)]
        )
        return None

    def _barrier(self, number: int, event: Event) -> Event | None:
        """The threadblocks of a GPU that share a barrier wait for each other."""
        if number in self.passed:
            self.passed.remove(number)
            return None
        waiting = self.came.setdefault(event, set())
        waiting.add(number)
        if waiting != self.members[event]:
            return event
        latest = max(self.round[other] for other in waiting)
        for other in waiting:
            self.round[other] = latest
        self.passed |= waiting - {number}
        self.came[event] = set()
        self._happens(event)
        return None

    def _move(self, number: int, rank: int, op: PlanOp) -> Event | None:
        if (
            len({place.chunks for place in (*op.sources, *op.targets)}) != 1
            or not op.sources
            or not op.targets
        ):
            raise ColltoolError("names places of different sizes, or none")
        if op.name in COPIES and len(op.sources) > 1:
            raise ColltoolError(f"copies one place, and names {len(op.sources)}")
        sources, targets = (
            [self._places(place) for place in several] for several in (op.sources, op.targets)
        )
        if op.name in PACKETS:
            packets = [
                where
                for places in sources
                for where in places
                if where[1] == SCRATCH and where[0] == rank
            ]
            if missing := [where for where in packets if where not in self.arrived]:
                return missing[0]
            self.round[number] = max(
                [self.round[number], *(self.arrived[where] for where in packets)]
            )
        pieces: list[Piece] = []
        arrives = self.round[number]
        # element by element: all sources are read at once
        for place, places in zip(op.sources, sources, strict=True):
            read = [self.buffers.read(where) for where in places]
            if place.rank != rank:
                arrives = max(
                    arrives, self._message(number, place.rank, rank, read, add=op.name in SUMS)
                )
            pieces = (
                [summed(self.promise, a, b, rank) for a, b in zip(pieces, read, strict=True)]
                if pieces
                else read
            )
        self.round[number] = arrives
        for place, places in zip(op.targets, targets, strict=True):
            self.buffers.memory.update(zip(places, pieces, strict=True))
            away = place.rank != rank
            round_ = (
                self._message(number, rank, place.rank, pieces, add=False)
                if away
                else self.round[number]
            )
            self.arrived.update(dict.fromkeys(places, round_))
            for where in places:
                self._happens(where)
        return None

    def _places(self, place: PlanPlace) -> list[Where]:
        return [
            self.buffers.place(place.rank, place.buffer, place.first + at)
            for at in range(place.chunks)
        ]

    def _message(self, number: int, src: int, dst: int, pieces: list[Piece], *, add: bool) -> int:
        """Note a message; the round in which it is sent."""
        round_ = max(self.round[number], self.last.get((number, src, dst), 0)) + 1
        self.last[number, src, dst] = round_
        self.sent.setdefault(round_, []).extend((src, dst, chunk, add) for chunk, _ in pieces)
        return round_
