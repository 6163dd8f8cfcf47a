"""Executes an MSCCL algorithm, message by message: :func:`read_msccl` is the entry,
:class:`_MscclRun` the execution.

A receive waits for its message, a step for the one that it depends on; sends never wait for a free
slot. A connection carries one message per round: a message's round is one more than the latest of what its
threadblock has waited for, or sent.

An algorithm is executed twice, in opposite orders of threadblocks, so that a race shows as a wrong result.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.custom.buffers import Buffers, Where
from colltool.custom.msccl_file import (
    RECEIVES,
    SENDS,
    Algo,
    Block,
    Connection,
    Dependency,
    Op,
    algo_of,
)
from colltool.custom.postcondition import ChunkState, PostCondition, postcondition_of
from colltool.custom.schedule import Batch, CustomSchedule, primitive_named
from colltool.custom.threadblocks import Event, Threadblocks

FORM = "MSCCL XML"
# MSCCL's words for collectives where colltool does not know them
_OTHER_COLLECTIVES = {"reducescatter": "reduce_scatter"}


def read_msccl(text: str, file: str, name: str) -> CustomSchedule:
    """Return the schedule of an XML text, executed in place, out of place, or both, as the text allows;
    ``name`` is the schedule's where the text has none. A ColltoolError names what is wrong, and where."""
    algo = algo_of(text, file, name)
    primitive = primitive_named(_OTHER_COLLECTIVES.get(algo.collective, algo.collective))
    if primitive is None:
        what = f"the collective '{clipped(algo.collective)}' promises nothing that can be checked"
        raise algo.error_at_line(
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
    # a race between steps shows in another order
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
    round: int  # in which it was sent
    sender: Block
    step: int  # of the sender


class _MscclRun(Threadblocks):
    """The execution of an algorithm. Threadblocks are named by their index in the file, ``number``."""

    def __init__(self, algo: Algo, buffers: Buffers) -> None:
        super().__init__(buffers, [len(block.ops) for block in algo.blocks])
        self.algo = algo
        # the round in which each step of a threadblock ended
        self.ended: list[list[int]] = [[] for _ in algo.blocks]
        # the number of each threadblock by GPU and id
        self.numbers = {(block.gpu, block.id): number for number, block in enumerate(algo.blocks)}
        self.in_flight: dict[Connection, deque[_SentMessage]] = {}
        self.receivers: dict[Connection, int] = {}  # the threadblock at the end of a connection
        self._connect()

    def _connect(self) -> None:
        """Find the threadblock at the end of every connection; an error if there are two at an
        end."""
        senders: set[Connection] = set()
        for number, block in enumerate(self.algo.blocks):
            # A threadblock without steps has no line of its own.
            line = block.ops[0].line if block.ops else 1
            for verb, peer in (("sends to", block.send), ("receives from", block.recv)):
                if peer >= self.postcondition.ranks or peer == block.gpu:
                    what = f"tb {block.id} of gpu {block.gpu} {verb} gpu {peer}"
                    raise self.algo.error_at_line(what, line)
            if block.send >= 0:
                if block.send_connection in senders:
                    raise self._occupied_connection(block, f"to gpu {block.send}", line)
                senders.add(block.send_connection)
            if block.recv >= 0:
                if block.recv_connection in self.receivers:
                    raise self._occupied_connection(block, f"from gpu {block.recv}", line)
                self.receivers[block.recv_connection] = number

    def _occupied_connection(self, block: Block, direction: str, line: int) -> ColltoolError:
        """The error for a connection that another threadblock has already."""
        what = f"two threadblocks of gpu {block.gpu} have channel {block.channel} {direction}"
        return self.algo.error_at_line(what, line)

    def execute(self, number: int) -> Event | None:
        """Execute the next step of a threadblock, or return what it has to wait for."""
        block = self.algo.blocks[number]
        step = self.position[number]
        op = block.ops[step]
        if op.after is not None:
            missing = self._wait_for_step(number, op.after)
            if missing is not None:
                return missing
        message = None
        if op.type in RECEIVES:
            if block.recv < 0:
                raise self.algo.error_at_line(
                    f"{block.label(step)}: its tb receives from nobody", op.line
                )
            messages = self.in_flight.get(block.recv_connection)
            if not messages:
                return ("message", *block.recv_connection)
            message = messages.popleft()
        try:
            self._execute(number, block, op, message)
        except ColltoolError as error:
            what = f"{block.label(step)}: {error.what}"
            raise self.algo.error_at_line(what, op.line, error.fix) from error
        self.ended[number].append(self.round[number])
        return None

    def _wait_for_step(self, number: int, after: Dependency) -> Event | None:
        """Return the end of the step that the next one of a threadblock depends on, as the event to
        wait for. None if it has ended."""
        block = self.algo.blocks[number]
        step = self.position[number]
        after_number = self.numbers.get((block.gpu, after.block))
        if after_number is None or not 0 <= after.step < self.steps[after_number]:
            dependency = f"waits for step {after.step} of tb {after.block}"
            what = f"{block.label(step)}: {dependency}, which is not there"
            raise self.algo.error_at_line(what, block.ops[step].line)
        if self.position[after_number] <= after.step:
            return "step", after_number, after.step
        self.not_before(number, self.ended[after_number][after.step])
        return None

    def _execute(self, number: int, block: Block, op: Op, message: _SentMessage | None) -> None:
        """Execute one step; ``message``: what has arrived for it, None if it receives nothing."""
        if op.type == "nop":
            return
        pieces: list[ChunkState] = []
        if message:
            pieces = message.pieces
            self.not_before(number, message.round)
            # types that begin with rr receive and reduce
            adds = op.type.startswith("rr")
            self.record(message.round, message.sender.gpu, block.gpu, pieces, add=adds)
            if len(pieces) != op.chunks:
                sender = message.sender.label(message.step)
                what = f"receives {op.chunks} chunks, and {sender} sent {len(pieces)}"
                raise ColltoolError(what)
        # What is moved: the rank's own memory, what has arrived, or the sum of both; "re" adds to its target.
        if op.type in ("s", "cpy", "re"):
            source = self._places(block, op, op.source)
            pieces = list(map(self.buffers.read, source))
        elif op.type.startswith("rr"):
            pieces = self._added(block, op, op.source, pieces)
        if op.type == "re":
            pieces = self._added(block, op, op.target, pieces)
        # all others write it, too
        if op.type not in ("s", "rrs"):
            target = self._places(block, op, op.target)
            self.buffers.memory.update(zip(target, pieces, strict=True))
        if op.type in SENDS:
            self._send(number, block, pieces)

    def _added(
        self, block: Block, op: Op, place: tuple[str, int], pieces: list[ChunkState]
    ) -> list[ChunkState]:
        """Return the states after pieces are added to a place of the rank."""
        places = self._places(block, op, place)
        current = list(map(self.buffers.state, places))
        return self.added(current, pieces, block.gpu)

    def _places(self, block: Block, op: Op, first: tuple[str, int]) -> list[Where]:
        """Return the place of each chunk of a step, from the first on."""
        buffer, offset = first
        offsets = range(offset, offset + op.chunks)
        return [self.buffers.place(block.gpu, buffer, offset) for offset in offsets]

    def _send(self, number: int, block: Block, pieces: list[ChunkState]) -> None:
        """Put a message on the way, one round after what the threadblock depends on."""
        if block.send < 0:
            raise ColltoolError("its tb has no peer to send to")
        if block.send_connection not in self.receivers:
            connection = f"from gpu {block.gpu} on channel {block.channel}"
            raise ColltoolError(f"no tb of gpu {block.send} receives {connection}")
        self.round[number] += 1
        step = self.position[number]
        message = _SentMessage(pieces, self.round[number], block, step)
        self.in_flight.setdefault(block.send_connection, deque()).append(message)
        # without an event: the receiver checks again, whatever it waits for
        self.ready.append(self.receivers[block.send_connection])

    def check_end(self) -> None:
        """Raise an error if threadblocks wait for ever, or a message was not received."""
        stuck = [number for number in range(len(self.steps)) if self.has_steps_left(number)]
        if stuck:
            block = self.algo.blocks[stuck[0]]
            step = self.position[stuck[0]]
            op = block.ops[step]
            missing = f"a message from gpu {block.recv} on channel {block.channel}"
            if op.after is not None:
                after_number = self.numbers[block.gpu, op.after.block]
                if self.position[after_number] <= op.after.step:
                    missing = f"step {op.after.step} of tb {op.after.block}"
            what = (
                f"{block.label(step)} waits for {missing} for ever: {len(stuck)} threadblocks are in"
                " a deadlock"
            )
            raise self.algo.error_at_line(what, op.line)
        for messages in self.in_flight.values():
            if messages:
                sender = messages[0].sender
                step = messages[0].step
                what = f"{sender.label(step)} sends what gpu {sender.send} never receives"
                raise self.algo.error_at_line(what, sender.ops[step].line)
