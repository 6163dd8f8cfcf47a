"""Runs the threadblocks of an MSCCL++ plan: puts and gets move pieces at once, signals and packets
are what others wait for.

A threadblock sends one message a round to each peer. A signal carries the round of what was put
before it; a packet is waited for where it is read.
"""

from __future__ import annotations

import json
from collections import deque

from colltool.base.errors import ColltoolError, clipped, printable
from colltool.base.primitives import AG
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH, Buffers, Where
from colltool.custom.mscclpp_file import (
    COPIES,
    PACKETS,
    SIGNALS,
    SUMS,
    WAITS,
    ExecutionPlan,
    PlanMapping,
    PlanOp,
    PlanPlace,
    plan_of,
)
from colltool.custom.schedule import (
    MOST_RANKS,
    Batch,
    ChunkState,
    CustomSchedule,
    PostCondition,
    primitive_called,
    promise_of,
)
from colltool.custom.threadblocks import Event, Threadblocks

FORM = "MSCCL++ plan"


def read_mscclpp(text: str, file: str, name: str) -> CustomSchedule:
    """The schedule of a plan, executed in two opposite orders; ColltoolError names the operation
    that is wrong or unknown."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ColltoolError(f"not valid JSON: {printable(what)}", where=file) from error
    head = PlanMapping(data, file, "")
    collective = head.text("collective")
    primitive = primitive_called(collective)
    if primitive is None:
        what = f"the collective '{clipped(collective)}' promises nothing that can be checked"
        raise ColltoolError(
            what, where=file, fix="allreduce, allgather, reducescatter, alltoall or broadcast"
        )
    gpus = head.listed("gpus", MOST_RANKS)
    plan = plan_of(gpus, file)
    buffer = OUTPUT if primitive is AG else INPUT
    chunks = max((plan.sizes[rank, buffer] for rank in range(len(gpus))), default=0)
    try:
        promise = promise_of(primitive, len(gpus), chunks)
    except ColltoolError as error:
        error.where = error.where or file
        raise
    in_place = head.data.get("inplace") is True
    # The second run, in the opposite order, is a check alone.
    batches = execute(plan, promise, in_place=in_place)
    execute(plan, promise, in_place=in_place, backwards=True)
    title = printable(str(head.data.get("name") or name))[:100]
    return CustomSchedule(title, primitive, len(gpus), chunks, batches, file=file, form=FORM)


def execute(
    plan: ExecutionPlan, promise: PostCondition, *, in_place: bool, backwards: bool = False
) -> tuple[Batch, ...]:
    """What was sent, round by round; ColltoolError names the operation that fails."""
    run = _PlanRun(plan, Buffers(promise, plan.sizes, in_place=in_place))
    return run.run(plan.file, backwards=backwards)


class _PlanRun(Threadblocks):
    """An event is a signal (from, to, channel), a packet at a place, or a barrier of a rank (rank,
    its id, -1)."""

    def __init__(self, plan: ExecutionPlan, buffers: Buffers) -> None:
        super().__init__(buffers, [len(ops) for _, ops in plan.blocks])
        self.plan = plan
        # threadblock, from, to: the round of its last message
        self.last: dict[tuple[int, int, int], int] = {}
        self.arrived: dict[Where, int] = {}  # the round in which a place was written
        self.signals: dict[Event, deque[int]] = {}
        self.members: dict[Event, set[int]] = {}  # threadblocks of a barrier
        self.came: dict[Event, set[int]] = {}
        self.passed: set[int] = set()
        for number, (rank, ops) in enumerate(plan.blocks):
            for op in ops:
                if op.name == "barrier":
                    self.members.setdefault((rank, op.barrier, -1), set()).add(number)

    def do(self, number: int) -> Event | None:
        rank, ops = self.plan.blocks[number]
        op = ops[self.at[number]]
        try:
            return self._take(number, rank, op)
        except ColltoolError as error:
            raise self._refused(op, error.what) from error

    def check_end(self) -> None:
        for number, (_, ops) in enumerate(self.plan.blocks):
            if self.is_waiting(number):
                what = "waits for ever: nobody signals or sends what it needs"
                raise self._refused(ops[self.at[number]], what)

    def _refused(self, op: PlanOp, what: str) -> ColltoolError:
        return ColltoolError(what, where=f"{self.plan.file}: {op.where}")

    def _take(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Take one operation, or return what it has to wait for."""
        if op.name == "barrier":
            return self._barrier(number, (rank, op.barrier, -1))
        if op.name in WAITS:
            return self._wait(number, rank, op)
        if op.name in COPIES | SUMS:
            missing = self._move(number, rank, op)
            if missing is not None:
                return missing
        if op.name in SIGNALS:
            for peer, channel in op.channels:
                sent = max(self.round[number], self.last.get((number, rank, peer), 0))
                self.signals.setdefault((rank, peer, channel), deque()).append(sent)
                self.happens((rank, peer, channel))
        return None

    def _wait(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Take a signal of every channel, where all are there."""
        signals = []
        for peer, channel in op.channels:
            waiting = self.signals.get((peer, rank, channel))
            if not waiting:
                return peer, rank, channel
            signals.append(waiting)
        # Only now, as a wait for several channels takes all signals at once.
        for waiting in signals:
            self.round[number] = max(self.round[number], waiting.popleft())
        return None

    def _barrier(self, number: int, event: Event) -> Event | None:
        """The threadblocks of a GPU that share a barrier wait for each other."""
        # The others that waited pass where the last one has come.
        if number in self.passed:
            self.passed.remove(number)
            return None
        waiting = self.came.setdefault(event, set())
        waiting.add(number)
        if waiting != self.members[event]:
            return event
        # What they send from now on comes after what any of them has sent.
        latest = max(self.round[other] for other in waiting)
        for other in waiting:
            self.round[other] = latest
        self.passed |= waiting - {number}
        self.came[event] = set()
        self.happens(event)
        return None

    def _move(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Copy or add up the sources, and write all targets."""
        sizes = {place.chunks for place in (*op.sources, *op.targets)}
        if len(sizes) != 1 or not op.sources or not op.targets:
            raise ColltoolError("names places of different sizes, or none")
        if op.name in COPIES and len(op.sources) > 1:
            raise ColltoolError(f"copies one place, and names {len(op.sources)}")
        sources = [self._places(place) for place in op.sources]
        targets = [self._places(place) for place in op.targets]
        if op.name in PACKETS:
            missing = self._wait_for_packets(number, rank, sources)
            if missing is not None:
                return missing
        pieces: list[ChunkState] = []
        arrives = self.round[number]
        # element by element: all sources are read at once
        for place, places in zip(op.sources, sources, strict=True):
            read = [self.buffers.read(where) for where in places]
            if place.rank != rank:
                sent = self._message(number, place.rank, rank, read, add=op.name in SUMS)
                arrives = max(arrives, sent)
            pieces = self.added(pieces, read, rank) if pieces else read
        self.round[number] = arrives
        for place, places in zip(op.targets, targets, strict=True):
            self.buffers.memory.update(zip(places, pieces, strict=True))
            written = self.round[number]
            if place.rank != rank:
                written = self._message(number, rank, place.rank, pieces, add=False)
            for where in places:
                self.arrived[where] = written
                self.happens(where)
        return None

    def _wait_for_packets(self, number: int, rank: int, sources: list[list[Where]]) -> Event | None:
        """The first packet in the rank's own scratch that has not come."""
        packets = []
        for places in sources:
            packets += [where for where in places if where[:2] == (rank, SCRATCH)]
        for where in packets:
            if where not in self.arrived:
                return where
        for where in packets:
            self.round[number] = max(self.round[number], self.arrived[where])
        return None

    def _places(self, place: PlanPlace) -> list[Where]:
        numbers = range(place.first, place.first + place.chunks)
        return [self.buffers.place(place.rank, place.buffer, number) for number in numbers]

    def _message(
        self, number: int, src: int, dst: int, pieces: list[ChunkState], *, add: bool
    ) -> int:
        """Note a message; the round in which it is sent."""
        sent = max(self.round[number], self.last.get((number, src, dst), 0)) + 1
        self.last[number, src, dst] = sent
        self.record(sent, src, dst, pieces, add=add)
        return sent
