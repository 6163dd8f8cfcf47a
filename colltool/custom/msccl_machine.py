"""Executes an MSCCL algorithm, message by message: :func:`read_msccl` is the entry.

A receive waits for its message, a step for the one that it depends on; sends never wait for a free
slot. A connection carries one message per round.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.custom.buffers import Buffers, Where
from colltool.custom.msccl_file import RECEIVES, SENDS, Algo, Block, Op, algo_of
from colltool.custom.schedule import (
    Batch,
    ChunkState,
    CustomSchedule,
    PostCondition,
    postcondition_of,
    primitive_named,
)
from colltool.custom.threadblocks import Event, Threadblocks

FORM = "MSCCL XML"
_OTHER_COLLECTIVES = {"reducescatter": "reduce_scatter"}

Wire = tuple[int, int, int]  # sender, receiver, channel


def read_msccl(text: str, file: str, name: str) -> CustomSchedule:
    """Return the schedule of an XML text, executed in place, out of place, or both, as the text
    allows. A ColltoolError names what is wrong, and where."""
    algo = algo_of(text, file, name)
    primitive = primitive_named(_OTHER_COLLECTIVES.get(algo.collective, algo.collective))
    if primitive is None:
        what = f"the collective '{clipped(algo.collective)}' promises nothing that can be checked"
        raise algo.refused(
            what, 1, "allreduce, allgather, reduce_scatter, alltoall, broadcast or reduce"
        )
    try:
        postcondition = postcondition_of(primitive, algo.ranks, algo.chunks, algo.root)
    except ColltoolError as error:
        error.where = error.where or f"{file}:1"
        raise
    # The schedule is of the first way that the file allows; the other one is only checked.
    first, *_ = [execute(algo, postcondition, in_place=in_place) for in_place in algo.in_place]
    try:
        for in_place in algo.in_place:
            execute(algo, postcondition, in_place=in_place, backwards=True)
    except ColltoolError as error:
        what = (
            f"{error.what}, though not in every order of its threadblocks: a dependency is missing"
        )
        raise ColltoolError(what, where=error.where, fix=error.fix) from error
    return CustomSchedule(
        algo.name, primitive, algo.ranks, algo.chunks, first, file=file, form=FORM, root=algo.root
    )


def execute(
    algo: Algo, postcondition: PostCondition, *, in_place: bool, backwards: bool = False
) -> tuple[Batch, ...]:
    """Return what was sent, round by round; ColltoolError names the step that fails. ``backwards``:
    threadblocks in the opposite order."""
    buffers = Buffers(postcondition, algo.buffers, in_place=in_place)
    return _MscclRun(algo, buffers).run(algo.file, backwards=backwards)


class _SentMessage(NamedTuple):
    """A message that was sent and not yet received."""

    pieces: list[ChunkState]
    round: int
    sender: Block
    step: int


class _MscclRun(Threadblocks):
    """The execution of an algorithm.

    ``ended``: the round in which each step of a threadblock ended; ``number``: threadblocks by GPU
    and id; ``wires``: messages on their way; ``receiver``: the threadblock at the end of a wire.
    """

    def __init__(self, algo: Algo, buffers: Buffers) -> None:
        super().__init__(buffers, [len(block.ops) for block in algo.blocks])
        self.algo = algo
        self.ended: list[list[int]] = [[] for _ in algo.blocks]
        self.number = {(block.gpu, block.id): number for number, block in enumerate(algo.blocks)}
        self.wires: dict[Wire, deque[_SentMessage]] = {}
        self.receiver: dict[Wire, int] = {}
        self._connect()

    def _connect(self) -> None:
        """Find the threadblock at the end of every connection; an error if there are two at an
        end."""
        senders: set[Wire] = set()
        for number, block in enumerate(self.algo.blocks):
            # A threadblock without steps has no line of its own.
            line = block.ops[0].line if block.ops else 1
            for way, peer in (("sends to", block.send), ("receives from", block.recv)):
                if peer >= self.postcondition.ranks or peer == block.gpu:
                    what = f"tb {block.id} of gpu {block.gpu} {way} gpu {peer}"
                    raise self.algo.refused(what, line)
            occupied = ""
            if block.send >= 0 and block.out in senders:
                occupied = f"to gpu {block.send}"
            elif block.recv >= 0 and block.into in self.receiver:
                occupied = f"from gpu {block.recv}"
            if occupied:
                what = (
                    f"two threadblocks of gpu {block.gpu} have channel {block.channel} {occupied}"
                )
                raise self.algo.refused(what, line)
            if block.send >= 0:
                senders.add(block.out)
            if block.recv >= 0:
                self.receiver[block.into] = number

    def execute(self, number: int) -> Event | None:
        """Execute the next step of a threadblock, or return what it has to wait for."""
        block = self.algo.blocks[number]
        step = self.position[number]
        op = block.ops[step]
        if op.after is not None:
            missing = self._wait_for_step(number, op.after)
            if missing is not None:
                return missing
        arrived = None
        if op.type in RECEIVES:
            if block.recv < 0:
                raise self.algo.refused(
                    f"{block.label(step)}: its tb receives from nobody", op.line
                )
            waiting = self.wires.get(block.into)
            if not waiting:
                return block.into
            arrived = waiting.popleft()
        try:
            self._execute(number, block, op, arrived)
        except ColltoolError as error:
            what = f"{block.label(step)}: {error.what}"
            raise self.algo.refused(what, op.line, error.fix) from error
        self.ended[number].append(self.round[number])
        return None

    def _wait_for_step(self, number: int, after: tuple[int, int]) -> Event | None:
        """The step of another threadblock of the GPU that this one depends on, if it has not
        ended."""
        block = self.algo.blocks[number]
        step = self.position[number]
        tb, depends_on = after
        other = self.number.get((block.gpu, tb))
        if other is None or not 0 <= depends_on < self.steps[other]:
            what = (
                f"{block.label(step)}: waits for step {depends_on} of tb {tb}, which is not there"
            )
            raise self.algo.refused(what, block.ops[step].line)
        if self.position[other] <= depends_on:
            return other, depends_on
        self.round[number] = max(self.round[number], self.ended[other][depends_on])
        return None

    def _execute(self, number: int, block: Block, op: Op, arrived: _SentMessage | None) -> None:
        """Execute one step whose message has arrived."""
        if op.type == "nop":
            return
        pieces: list[ChunkState] = []
        if arrived:
            pieces = arrived.pieces
            self.round[number] = max(self.round[number], arrived.round)
            reduces = op.type.startswith("rr")
            self.record(arrived.round, arrived.sender.gpu, block.gpu, pieces, add=reduces)
            if len(pieces) != op.chunks:
                sender = arrived.sender.label(arrived.step)
                raise ColltoolError(f"receives {op.chunks} chunks, and {sender} sent {len(pieces)}")
        # These read the rank's own memory, the others what has arrived.
        if op.type in ("s", "cpy", "re"):
            pieces = [self.buffers.read(where) for where in self._places(block, op, op.source)]
        elif op.type.startswith("rr"):
            pieces = self._added(block, op, op.source, pieces)
        if op.type == "re":
            pieces = self._added(block, op, op.target, pieces)
        if op.type not in ("s", "rrs"):
            self.buffers.memory.update(zip(self._places(block, op, op.target), pieces, strict=True))
        if op.type in SENDS:
            self._send(number, block, pieces)

    def _added(
        self, block: Block, op: Op, place: tuple[str, int], pieces: list[ChunkState]
    ) -> list[ChunkState]:
        current = [self.buffers.state(where) for where in self._places(block, op, place)]
        return self.added(current, pieces, block.gpu)

    def _places(self, block: Block, op: Op, first: tuple[str, int]) -> list[Where]:
        buffer, offset = first
        return [self.buffers.place(block.gpu, buffer, offset + at) for at in range(op.chunks)]

    def _send(self, number: int, block: Block, pieces: list[ChunkState]) -> None:
        if block.send < 0:
            raise ColltoolError("its tb has no peer to send to")
        if block.out not in self.receiver:
            raise ColltoolError(
                f"no tb of gpu {block.send} receives from gpu {block.gpu} on channel"
                f" {block.channel}"
            )
        self.round[number] += 1
        message = _SentMessage(pieces, self.round[number], block, self.position[number])
        self.wires.setdefault(block.out, deque()).append(message)
        # The receiver checks again, whatever it waits for.
        self.ready.append(self.receiver[block.out])

    def check_end(self) -> None:
        """Raise an error if threadblocks wait for ever, or a message was not received."""
        stuck = [number for number in range(len(self.steps)) if self.has_steps_left(number)]
        if stuck:
            block = self.algo.blocks[stuck[0]]
            step = self.position[stuck[0]]
            op = block.ops[step]
            waits = f"a message from gpu {block.recv} on channel {block.channel}"
            if (
                op.after is not None
                and self.position[self.number[block.gpu, op.after[0]]] <= op.after[1]
            ):
                waits = f"step {op.after[1]} of tb {op.after[0]}"
            what = (
                f"{block.label(step)} waits for {waits} for ever: {len(stuck)} threadblocks are in"
                " a deadlock"
            )
            raise self.algo.refused(what, op.line)
        for messages in self.wires.values():
            if messages:
                sender = messages[0].sender
                step = messages[0].step
                what = f"{sender.label(step)} sends what gpu {sender.send} never receives"
                raise self.algo.refused(what, sender.ops[step].line)
