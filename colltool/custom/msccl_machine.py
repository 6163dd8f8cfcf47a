"""Executes an MSCCL algorithm, message by message: :func:`read_msccl` is the entry.

A receive waits for its message, a step for the one that it depends on; sends never wait for a free
slot. A connection carries one message per round.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.custom.buffers import Buffers, Where
from colltool.custom.msccl_file import RECEIVES, SENDS, Algo, Block, Dependency, Op, algo_of
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
    ways = []
    for in_place in algo.in_place:
        ways.append(execute(algo, postcondition, in_place=in_place))
    try:
        for in_place in algo.in_place:
            execute(algo, postcondition, in_place=in_place, backwards=True)
    except ColltoolError as error:
        what = (
            f"{error.what}, though not in every order of its threadblocks: a dependency is missing"
        )
        raise ColltoolError(what, where=error.where, fix=error.fix) from error
    return CustomSchedule(
        name=algo.name,
        primitive=primitive,
        ranks=algo.ranks,
        chunks=algo.chunks,
        batches=ways[0],
        file=file,
        form=FORM,
        root=algo.root,
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
    """The execution of an algorithm."""

    def __init__(self, algo: Algo, buffers: Buffers) -> None:
        super().__init__(buffers, [len(block.ops) for block in algo.blocks])
        self.algo = algo
        # the round in which each step of a threadblock ended
        self.ended: list[list[int]] = [[] for _ in algo.blocks]
        # threadblocks by GPU and id
        self.number = {(block.gpu, block.id): number for number, block in enumerate(algo.blocks)}
        self.wires: dict[Wire, deque[_SentMessage]] = {}  # messages on their way
        self.receiver: dict[Wire, int] = {}  # the threadblock at the end of a wire
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
            if block.send >= 0:
                if block.out in senders:
                    raise self._occupied(block, f"to gpu {block.send}", line)
                senders.add(block.out)
            if block.recv >= 0:
                if block.into in self.receiver:
                    raise self._occupied(block, f"from gpu {block.recv}", line)
                self.receiver[block.into] = number

    def _occupied(self, block: Block, connected: str, line: int) -> ColltoolError:
        what = f"two threadblocks of gpu {block.gpu} have channel {block.channel} {connected}"
        return self.algo.refused(what, line)

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
                return ("message", *block.into)
            arrived = waiting.popleft()
        try:
            self._execute(number, block, op, arrived)
        except ColltoolError as error:
            what = f"{block.label(step)}: {error.what}"
            raise self.algo.refused(what, op.line, error.fix) from error
        self.ended[number].append(self.round[number])
        return None

    def _wait_for_step(self, number: int, after: Dependency) -> Event | None:
        """The step that the next one of a threadblock depends on, if it has not ended."""
        block = self.algo.blocks[number]
        step = self.position[number]
        other = self.number.get((block.gpu, after.block))
        if other is None or not 0 <= after.step < self.steps[other]:
            waits = f"waits for step {after.step} of tb {after.block}"
            what = f"{block.label(step)}: {waits}, which is not there"
            raise self.algo.refused(what, block.ops[step].line)
        if self.position[other] <= after.step:
            return "step", other, after.step
        ended = self.ended[other][after.step]
        self.not_before(number, ended)
        return None

    def _execute(self, number: int, block: Block, op: Op, arrived: _SentMessage | None) -> None:
        """Execute one step whose message has arrived."""
        if op.type == "nop":
            return
        pieces: list[ChunkState] = []
        if arrived:
            pieces = arrived.pieces
            self.not_before(number, arrived.round)
            reduces = op.type.startswith("rr")
            self.record(arrived.round, arrived.sender.gpu, block.gpu, pieces, add=reduces)
            if len(pieces) != op.chunks:
                sender = arrived.sender.label(arrived.step)
                what = f"receives {op.chunks} chunks, and {sender} sent {len(pieces)}"
                raise ColltoolError(what)
        # These read the rank's own memory, the others what has arrived.
        if op.type in ("s", "cpy", "re"):
            source = self._places(block, op, op.source)
            pieces = list(map(self.buffers.read, source))
        elif op.type.startswith("rr"):
            pieces = self._added(block, op, op.source, pieces)
        if op.type == "re":
            pieces = self._added(block, op, op.target, pieces)
        if op.type not in ("s", "rrs"):
            target = self._places(block, op, op.target)
            self.buffers.memory.update(zip(target, pieces, strict=True))
        if op.type in SENDS:
            self._send(number, block, pieces)

    def _added(
        self, block: Block, op: Op, place: tuple[str, int], pieces: list[ChunkState]
    ) -> list[ChunkState]:
        places = self._places(block, op, place)
        current = list(map(self.buffers.state, places))
        return self.added(current, pieces, block.gpu)

    def _places(self, block: Block, op: Op, first: tuple[str, int]) -> list[Where]:
        buffer, offset = first
        offsets = range(offset, offset + op.chunks)
        return [self.buffers.place(block.gpu, buffer, at) for at in offsets]

    def _send(self, number: int, block: Block, pieces: list[ChunkState]) -> None:
        if block.send < 0:
            raise ColltoolError("its tb has no peer to send to")
        if block.out not in self.receiver:
            wire = f"from gpu {block.gpu} on channel {block.channel}"
            raise ColltoolError(f"no tb of gpu {block.send} receives {wire}")
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
            if op.after is not None:
                other = self.number[block.gpu, op.after.block]
                if self.position[other] <= op.after.step:
                    waits = f"step {op.after.step} of tb {op.after.block}"
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
