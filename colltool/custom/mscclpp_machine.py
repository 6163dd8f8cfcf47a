"""Executes an MSCCL++ plan: :func:`read_mscclpp` is the entry, :class:`_PlanRun` the execution. Puts and
gets move data at once; threadblocks wait for signals and packets.

A round counts messages that depend on each other: a message's round is one more than the latest of what
its threadblock has waited for. A threadblock sends one message per round to each peer. A signal carries
the round of what was put before it; a packet is waited for where it is read.

A plan is executed twice, in opposite orders of threadblocks, so that a race shows as a wrong result. An
operation that cannot go on returns the event that it waits for, and is executed again after that
(``threadblocks``); so it must change nothing before it returns one.
"""

from __future__ import annotations

import json
from collections import deque

from colltool.base.errors import ColltoolError, clipped, printable
from colltool.base.formatting import size_text
from colltool.base.primitives import AG, Primitive
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH, Buffers, Where
from colltool.custom.execution_plan import (
    COPIES,
    IN_SWITCH,
    PACKETS,
    PAIRED,
    SEMAPHORES,
    SIGNALS,
    SUMS,
    WAITS,
    ExecutionPlan,
    PlanOp,
    PlanPlace,
)
from colltool.custom.mscclpp_file import PlanFile, plan_file_of
from colltool.custom.plan_mapping import PlanMapping
from colltool.custom.postcondition import MOST_RANKS, ChunkState, PostCondition, postcondition_of
from colltool.custom.schedule import Batch, CustomSchedule, primitive_named
from colltool.custom.threadblocks import Event, Threadblocks

FORM = "MSCCL++ plan"
_ANY_BYTES = 2**64  # of a plan without limit


def read_mscclpp(text: str, file: str, name: str) -> CustomSchedule:
    """Return the schedule of a plan, executed in two opposite orders.

    Args:
        text: the plan, as JSON.
        file: its path, for errors.
        name: of the schedule, where the plan has none.

    Raises:
        ColltoolError: no plan, a collective that cannot be checked, an operation that is unknown or
            waits for ever, or a wrong result.
    """
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
    plan_file = plan_file_of(gpus, file)
    in_place = head.data.get("inplace") is True
    plan = plan_file.plan()
    postcondition = _postcondition(primitive, plan)
    notes = []
    # Plans of MSCCL++'s language may be right only if the threadblocks of a group wait for each other,
    # which they do not: such a plan is read, with a note.
    in_step = False
    try:
        batches = _executed_in_both_orders(plan, postcondition, in_place=in_place)
    except ColltoolError as race:
        batches = _executed_in_step(plan, postcondition, race, in_place=in_place)
        in_step = True
        notes.append(
            "right only if the threadblocks of a group run in step, which MSCCL++ does not see to:"
            f" {race.what}"
        )
    piece_bytes = (
        plan_file.least_unit_bytes
    )  # of the pipeline with the shortest pieces; 0 without one
    # Where the longest message has chunks of a piece or less, no pipeline begins a second piece.
    longest_bytes = _ANY_BYTES
    if "max_message_size" in head.data:
        longest_bytes = head.number("max_message_size", _ANY_BYTES)
    if piece_bytes and longest_bytes * plan.parts > piece_bytes * postcondition.chunks:
        _check_pieces(plan_file, primitive, piece_bytes, in_place=in_place, in_step=in_step)
        notes.append(
            f"pipelines run in one piece: beyond {size_text(piece_bytes)} a chunk each further piece adds"
            " its latency"
        )
    if IN_SWITCH & plan.names():
        notes.append(
            "what a switch sums or multiplies is priced as messages between the ranks, an upper bound"
        )
    title = printable(str(head.data.get("name") or name))[:100]
    return CustomSchedule(
        name=title,
        primitive=primitive,
        ranks=len(gpus),
        chunks=postcondition.chunks,
        batches=batches,
        file=file,
        form=FORM,
        notes=tuple(notes),
    )


def _postcondition(primitive: Primitive, plan: ExecutionPlan) -> PostCondition:
    """Return what the ranks of a plan have to end with. How many chunks there are is the size of a buffer
    that has them all: the output of an all-gather, the input of the others."""
    buffer = OUTPUT if primitive is AG else INPUT
    sizes = [size for (_, name), size in plan.sizes.items() if name == buffer]
    try:
        return postcondition_of(primitive, len(sizes), max(sizes, default=0), parts=plan.parts)
    except ColltoolError as error:
        error.where = error.where or plan.file
        raise


def _executed_in_both_orders(
    plan: ExecutionPlan, postcondition: PostCondition, *, in_place: bool, in_step: bool = False
) -> tuple[Batch, ...]:
    """Return what was sent, round by round. The second execution, in the opposite order, only looks for
    races: it raises ColltoolError where the result is wrong."""
    batches = execute(plan, postcondition, in_place=in_place, in_step=in_step)
    execute(plan, postcondition, in_place=in_place, in_step=in_step, backwards=True)
    return batches


def _executed_in_step(
    plan: ExecutionPlan, postcondition: PostCondition, race: ColltoolError, *, in_place: bool
) -> tuple[Batch, ...]:
    """Return what is sent if the threadblocks of a group wait for each other, as authors of plans
    assume. If that fails too, raise the error of the execution in which they did not wait."""
    if not plan.has_groups:
        raise race
    try:
        return _executed_in_both_orders(plan, postcondition, in_place=in_place, in_step=True)
    except ColltoolError:
        raise race from None


def _check_pieces(
    plan_file: PlanFile, primitive: Primitive, piece_bytes: int, *, in_place: bool, in_step: bool
) -> None:
    """Execute the plan with chunks of two pieces, to find what goes wrong where a pipeline runs twice, or
    another one not as often. ColltoolError then says so."""
    plan = plan_file.plan(2 * piece_bytes)
    postcondition = _postcondition(primitive, plan)
    try:
        execute(plan, postcondition, in_place=in_place, in_step=in_step)
    except ColltoolError as error:
        error.what += (
            f", with chunks of {size_text(2 * piece_bytes)}, more than one piece of a pipeline"
        )
        raise


def execute(
    plan: ExecutionPlan,
    postcondition: PostCondition,
    *,
    in_place: bool,
    in_step: bool = False,
    backwards: bool = False,
) -> tuple[Batch, ...]:
    """Return what was sent, round by round; ColltoolError names the operation that fails.

    Args:
        in_place: input and output share memory.
        in_step: the threadblocks of a group begin their operations together.
        backwards: the last threadblock goes first.
    """
    run = _PlanRun(plan, Buffers(postcondition, plan.sizes, in_place=in_place), in_step=in_step)
    return run.run(plan.file, backwards=backwards)


class _PlanRun(Threadblocks):
    """The execution of a plan.

    Its events: ("signal", from, to, channel), ("packet", rank, buffer, offset), ("barrier", rank, its
    id), ("semaphore", rank, its number), and ("together", its number) of an operation of a group. The
    last one is a barrier too. Threadblocks are named by their number in the plan, ``number``.
    """

    def __init__(self, plan: ExecutionPlan, buffers: Buffers, *, in_step: bool) -> None:
        super().__init__(buffers, [len(ops) for _, ops in plan.blocks])
        self.plan = plan
        # the round of the last message, by (threadblock, from, to)
        self.last_round: dict[tuple[int, int, int], int] = {}
        self.arrived: dict[Where, int] = {}  # the round in which a place was written
        self.signals: dict[Event, deque[int]] = {}  # the rounds of signals not yet waited for
        # threadblocks of a barrier, those that have reached it, and those that waited and may pass
        self.barrier_members: dict[Event, set[int]] = {}
        self.at_barrier: dict[Event, set[int]] = {}
        self.released: set[int] = set()
        # How often a semaphore can still be taken of what it began with, and the rounds of what was
        # released to it; both by rank and number.
        self.free_at_start = dict(plan.semaphores)
        self.freed: dict[tuple[int, int], deque[int]] = {}
        for number, (rank, ops) in enumerate(plan.blocks):
            for op in ops:
                if op.name == "barrier":
                    self.barrier_members.setdefault(("barrier", rank, op.barrier), set()).add(
                        number
                    )
        for rank, ops in plan.blocks:
            for op in ops:
                members = len(self.barrier_members.get(("barrier", rank, op.barrier), ()))
                if op.barrier_members and op.barrier_members != members:
                    what = f"is for {op.barrier_members} threadblocks, and {members} have it"
                    raise self._error(op, what)
        # The barrier before an operation that a threadblock begins together with others of its group,
        # by the numbers of both.
        self.group_starts: dict[tuple[int, int], Event] = {}
        if in_step:
            self._join_groups()

    def _join_groups(self) -> None:
        """Give the operations of groups their barriers: the n-th of each part begin together."""
        # (threadblock, position) by rank and operation, then by part
        groups: dict[tuple[int, str], dict[int, list[tuple[int, int]]]] = {}
        for number, (rank, ops) in enumerate(self.plan.blocks):
            for position, op in enumerate(ops):
                if op.group:
                    common, part = op.group
                    steps = groups.setdefault((rank, common), {}).setdefault(part, [])
                    steps.append((number, position))
        for steps_by_part in groups.values():
            for together in zip(*steps_by_part.values(), strict=False):
                event = ("together", len(self.group_starts))
                self.barrier_members[event] = {number for number, _ in together}
                self.group_starts |= dict.fromkeys(together, event)

    def execute(self, number: int) -> Event | None:
        """Execute the next operation; an error names it."""
        rank, ops = self.plan.blocks[number]
        op = ops[self.position[number]]
        try:
            return self._execute(number, rank, op)
        except ColltoolError as error:
            raise self._error(op, error.what) from error

    def check_end(self) -> None:
        """Raise ColltoolError for a threadblock that still waits."""
        for number, (_, ops) in enumerate(self.plan.blocks):
            if self.has_steps_left(number):
                what = "waits forever: what it needs is never signalled or sent"
                raise self._error(ops[self.position[number]], what)

    def _error(self, op: PlanOp, what: str) -> ColltoolError:
        """Return the error of an operation, with its place in the file."""
        return ColltoolError(what, where=f"{self.plan.file}: {op.where}")

    def _execute(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Execute one operation, or return the event that it has to wait for."""
        step = (number, self.position[number])
        if step in self.group_starts:
            missing = self._barrier(number, self.group_starts[step])
            if missing is not None:
                return missing
            # It may have to wait for packets, and begins only once.
            del self.group_starts[step]
        if op.name == "barrier":
            return self._barrier(number, ("barrier", rank, op.barrier))
        if op.name in SEMAPHORES:
            return self._semaphores(number, rank, op)
        if op.name in WAITS:
            return self._wait(number, rank, op)
        if op.name in COPIES | SUMS:
            missing = self._move(number, rank, op)
            if missing is not None:
                return missing
        if op.name in SIGNALS:
            for peer, channel in op.channels:
                last_round = self.last_round.get((number, rank, peer), 0)
                signal = ("signal", rank, peer, channel)
                signal_round = max(self.round[number], last_round)
                self.signals.setdefault(signal, deque()).append(signal_round)
                self.notify(signal)
        return None

    def _wait(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Consume a signal of every channel, if all have one; else return the event to wait for."""
        queues = []
        for peer, channel in op.channels:
            signal = ("signal", peer, rank, channel)
            rounds = self.signals.get(signal)
            if not rounds:
                return signal
            queues.append(rounds)
        # Only now: a wait for several channels consumes all signals at once.
        for rounds in queues:
            self.not_before(number, rounds.popleft())
        return None

    def _barrier(self, number: int, event: Event) -> Event | None:
        """Return None once all threadblocks that share a barrier have reached it, else the barrier's event."""
        # Those that waited pass once the last one has arrived.
        if number in self.released:
            self.released.remove(number)
            return None
        waiting = self.at_barrier.setdefault(event, set())
        waiting.add(number)
        if waiting != self.barrier_members[event]:
            return event
        # What they send from now on is later than what any of them has sent.
        latest = max(self.round[member] for member in waiting)
        for member in waiting:
            self.round[member] = latest
        self.released |= waiting - {number}
        self.at_barrier[event] = set()
        self.notify(event)
        return None

    def _semaphores(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Add one to every semaphore, or take one of each if all have one; else return the event of one that
        has none."""
        keys = [(rank, semaphore) for semaphore in op.semaphores]
        if op.name == "sem_release":
            for key in keys:
                self.freed.setdefault(key, deque()).append(self.round[number])
                self.notify(("semaphore", *key))
            return None
        for key in keys:
            if not self.free_at_start[key] and not self.freed.get(key):
                return ("semaphore", *key)
        for key in keys:
            if self.free_at_start[key]:
                self.free_at_start[key] -= 1
            else:
                self.not_before(number, self.freed[key].popleft())
        return None

    def _move(self, number: int, rank: int, op: PlanOp) -> Event | None:
        """Copy or add up the sources, and write all targets; or return the packet to wait for."""
        sizes = {place.chunks for place in (*op.sources, *op.targets)}
        if len(sizes) != 1 or not op.sources or not op.targets:
            raise ColltoolError("names places of different sizes, or none")
        # An operation in pieces has nothing to do in those behind its end.
        if sizes == {0}:
            return None
        is_paired = op.name in PAIRED and len(op.sources) > 1
        if op.name in COPIES and len(op.sources) > 1 and not is_paired:
            raise ColltoolError(f"copies one place, and names {len(op.sources)}")
        if is_paired and len(op.sources) != len(op.targets):
            what = f"names {len(op.sources)} sources for {len(op.targets)} targets"
            raise ColltoolError(what, fix="one source, or one for each target")
        sources = [self._places(place) for place in op.sources]
        targets = [self._places(place) for place in op.targets]
        if op.name in PACKETS:
            missing = self._wait_for_packets(number, rank, sources)
            if missing is not None:
                return missing
        values = self._read(number, rank, op, sources)
        if not is_paired:
            total = values[0]
            for states in values[1:]:
                total = self.added(total, states, rank)
            values = [total] * len(targets)
        self._write(number, rank, op, targets, values)
        return None

    def _read(
        self, number: int, rank: int, op: PlanOp, sources: list[list[Where]]
    ) -> list[list[ChunkState]]:
        """Return what each source holds, chunk by chunk; those of peers are messages, for which the
        threadblock waits."""
        values = []
        arrival = self.round[number]
        messages = _OpMessages(self, number)
        for place, wheres in zip(op.sources, sources, strict=True):
            states = list(map(self.buffers.read, wheres))
            if place.rank != rank:
                sent = messages.message(place.rank, rank, states, add=op.name in SUMS)
                arrival = max(arrival, sent)
            values.append(states)
        self.round[number] = arrival
        return values

    def _write(
        self,
        number: int,
        rank: int,
        op: PlanOp,
        targets: list[list[Where]],
        values: list[list[ChunkState]],
    ) -> None:
        """Write a list of values to each target; those of peers are messages."""
        messages = _OpMessages(self, number)
        for place, wheres, states in zip(op.targets, targets, values, strict=True):
            self.buffers.memory.update(zip(wheres, states, strict=True))
            written = self.round[number]
            if place.rank != rank:
                written = messages.message(rank, place.rank, states, add=False)
            for where in wheres:
                self.arrived[where] = written
                self.notify(("packet", *where))

    def _wait_for_packets(self, number: int, rank: int, sources: list[list[Where]]) -> Event | None:
        """The first packet in the rank's own scratch that has not arrived. None if all have; what the
        threadblock sends from then on is later than these."""
        packets = []
        for wheres in sources:
            packets += [where for where in wheres if where[:2] == (rank, SCRATCH)]
        for where in packets:
            if where not in self.arrived:
                return ("packet", *where)
        for where in packets:
            self.not_before(number, self.arrived[where])
        return None

    def _places(self, place: PlanPlace) -> list[Where]:
        """Return where each part of a chunk of a place lies; ``in_parts`` has made its numbers whole counts of
        these."""
        first = int(place.first)
        numbers = range(first, first + int(place.chunks))
        return [self.buffers.place(place.rank, place.buffer, number) for number in numbers]


class _OpMessages:
    """The messages of one operation of a threadblock: those to the same peer are one message."""

    def __init__(self, run: _PlanRun, number: int) -> None:
        self.run = run
        self.number = number
        self.rounds: dict[tuple[int, int], int] = {}

    def message(self, src: int, dst: int, pieces: list[ChunkState], *, add: bool) -> int:
        """Record what is sent and return its round: one after the latest of what the threadblock
        depends on and of what it has sent there."""
        run = self.run
        if (src, dst) not in self.rounds:
            before = run.last_round.get((self.number, src, dst), 0)
            self.rounds[src, dst] = max(run.round[self.number], before) + 1
        sent_in = self.rounds[src, dst]
        run.last_round[self.number, src, dst] = sent_in
        run.record(sent_in, src, dst, pieces, add=add)
        return sent_in
