"""Executes an MSCCL++ plan: :func:`read_mscclpp` is the entry. Puts and gets move data at once;
threadblocks wait for signals and packets.

A threadblock sends one message per round to each peer. A signal carries the round of what was put
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
    postcondition_of,
    primitive_named,
)
from colltool.custom.threadblocks import Event, Threadblocks

FORM = "MSCCL++ plan"


def read_mscclpp(text: str, file: str, name: str) -> CustomSchedule:
    """Return the schedule of a plan, executed in two opposite orders; ColltoolError names the
    operation that is wrong or unknown."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ColltoolError(f"not valid JSON: {printable(what)}", where=file) from error
    head = PlanMapping(data, file, "")
    collective = head.text("collective")
    primitive = primitive_named(collective)
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
        postcondition = postcondition_of(primitive, len(gpus), chunks)
    except ColltoolError as error:
        error.where = error.where or file
        raise
    in_place = head.data.get("inplace") is True
    # The second execution, in the opposite order, is only a check for races.
    batches = execute(plan, postcondition, in_place=in_place)
    execute(plan, postcondition, in_place=in_place, backwards=True)
    title = printable(str(head.data.get("name") or name))[:100]
    return CustomSchedule(title, primitive, len(gpus), chunks, batches, file=file, form=FORM)


def execute(
    plan: ExecutionPlan, postcondition: PostCondition, *, in_place: bool, backwards: bool = False
) -> tuple[Batch, ...]:
    """Return what was sent, round by round; ColltoolError names the operation that fails."""
    run = _PlanRun(plan, Buffers(postcondition, plan.sizes, in_place=in_place))
    return run.run(plan.file, backwards=backwards)


class _PlanRun(Threadblocks):
    """The execution of a plan.

    An event is a signal (from, to, channel), a packet at a place, or a barrier of a rank (rank, its
    id, -1).
    """

    def __init__(self, plan: ExecutionPlan, buffers: Buffers) -> None:
        super().__init__(buffers, [len(ops) for _, ops in plan.blocks])
        self.plan = plan
        # threadblock, from, to: the round of its last message
        self.last: dict[tuple[int, int, int], int] = {}
        self.arrived: dict[Where, int] = {}  # the round in which a place was written
        self.signals: dict[Event, deque[int]] = {}
        self.members: dict[Event, set[int]] = {}  # threadblocks of a barrier
        self.at_barrier: dict[Event, set[int]] = {}
        self.released: set[int] = set()
        for number, (rank, ops) in enumerate(plan.blocks):
            for op in ops:
                if op.name == "barrier":
                    self.members.setdefault((rank, op.barrier, -1), set()).add(number)

    def execute(self, number: int) -> Event | None:
        rank, ops = self.plan.blocks[number]
        op = ops[self.position[number]]
        try:
            return self._execute(number, rank, op)
        except ColltoolError as error:
            raise self._refused(op, error.what) from error

    def check_end(self) -> None:
        for number, (_, ops) in enumerate(self.plan.blocks):
            if self.is_waiting(number):
                what = "waits forever: what it needs is never signalled or sent"
                raise self._refused(ops[self.position[number]], what)

    def _refused(self, op: PlanOp, what: str) -> ColltoolError:
        return ColltoolError(what, where=f"{self.plan.file}: {op.where}")

    def _execute(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Execute one operation, or return the event that it has to wait for."""
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
                self.notify((rank, peer, channel))
        return None

    def _wait(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Consume a signal of every channel, if all have one; else return the event to wait for."""
        signals = []
        for peer, channel in op.channels:
            waiting = self.signals.get((peer, rank, channel))
            if not waiting:
                return peer, rank, channel
            signals.append(waiting)
        # Not before: a wait for several channels consumes all signals at once.
        for waiting in signals:
            self.round[number] = max(self.round[number], waiting.popleft())
        return None

    def _barrier(self, number: int, event: Event) -> Event | None:
        """Wait until all threadblocks of a GPU that share a barrier have reached it."""
        # Those that waited pass once the last one has arrived.
        if number in self.released:
            self.released.remove(number)
            return None
        waiting = self.at_barrier.setdefault(event, set())
        waiting.add(number)
        if waiting != self.members[event]:
            return event
        # What they send from now on is later than what any of them has sent.
        latest = max(self.round[other] for other in waiting)
        for other in waiting:
            self.round[other] = latest
        self.released |= waiting - {number}
        self.at_barrier[event] = set()
        self.notify(event)
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
                self.notify(where)
        return None

    def _wait_for_packets(self, number: int, rank: int, sources: list[list[Where]]) -> Event | None:
        """The first packet in the rank's own scratch that has not arrived; None if all have."""
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
        """Record a message and return the round in which it is sent."""
        sent = max(self.round[number], self.last.get((number, src, dst), 0)) + 1
        self.last[number, src, dst] = sent
        self.record(sent, src, dst, pieces, add=add)
        return sent
