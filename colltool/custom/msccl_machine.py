"""Runs the threadblocks of an MSCCL algorithm on buffers that hold pieces, message by message, and
keeps what was sent.

Threadblocks go on as far as they can: a receive waits for its message, a step for the one that it
depends on; sends never wait for a free slot. Steps that follow each other only by luck give other
results in another order, so a file is run in two opposite ones. A message belongs to a round: one
more than whatever had to arrive before it was sent, and one a round on each connection.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.custom.buffers import Buffers, Where
from colltool.custom.msccl_file import RECEIVES, SENDS, Algo, Block, Op
from colltool.custom.schedule import Batch, Piece, Promise, batch_of, summed


class _OnTheWire(NamedTuple):
    pieces: list[Piece]
    round: int
    sender: Block
    step: int


def execute(
    algo: Algo, promise: Promise, *, in_place: bool, backwards: bool = False
) -> tuple[Batch, ...]:
    """What was sent, round by round; ColltoolError names the step that fails. ``backwards``: in the
    opposite order."""
    return _Threadblocks(algo, promise, in_place=in_place).run(backwards=backwards)


class _Threadblocks:
    def __init__(self, algo: Algo, promise: Promise, *, in_place: bool) -> None:
        self.algo, self.promise = algo, promise
        self.buffers = Buffers(promise, algo.buffers, in_place=in_place)
        self.at = [0] * len(algo.blocks)  # the next step of each threadblock
        self.round = [0] * len(algo.blocks)
        # the round in which each step was done
        self.ended: list[list[int]] = [[] for _ in algo.blocks]
        self.number = {(block.gpu, block.id): number for number, block in enumerate(algo.blocks)}
        self.wires: dict[tuple[int, int, int], deque[_OnTheWire]] = {}
        self.receiver: dict[tuple[int, int, int], int] = {}
        # (threadblock, step) -> those that wait for it
        self.waiting: dict[tuple[int, int], list[int]] = {}
        self.sent: dict[int, list[tuple[int, int, int, bool]]] = {}
        self._connect()

    def _connect(self) -> None:
        senders: set[tuple[int, int, int]] = set()
        for number, block in enumerate(self.algo.blocks):
            line = block.ops[0].line if block.ops else 1
            for way, peer in (("sends to", block.send), ("receives from", block.recv)):
                if peer >= self.promise.ranks or peer == block.gpu:
                    raise self.algo.refused(
                        f"tb {block.id} of gpu {block.gpu} {way} gpu {peer}", line
                    )
            out, into = (
                (block.gpu, block.send, block.channel),
                (block.recv, block.gpu, block.channel),
            )
            if (block.send >= 0 and out in senders) or (block.recv >= 0 and into in self.receiver):
                way = (
                    f"to gpu {block.send}"
                    if block.send >= 0 and out in senders
                    else f"from gpu {block.recv}"
                )
                raise self.algo.refused(
                    f"two threadblocks of gpu {block.gpu} have channel {block.channel} {way}", line
                )
            if block.send >= 0:
                senders.add(out)
            if block.recv >= 0:
                self.receiver[into] = number

    def run(self, *, backwards: bool) -> tuple[Batch, ...]:
        ready = deque(range(len(self.algo.blocks)))
        if backwards:
            ready.reverse()
        while ready:
            number = ready.pop() if backwards else ready.popleft()
            ready.extend(self._advance(number))
        self._stuck()
        self.buffers.judge(self.algo.file)
        return tuple(batch_of(self.sent[round_]) for round_ in sorted(self.sent))

    def _advance(self, number: int) -> list[int]:
        """Run a threadblock as far as it can go; the ones that need not wait any longer."""
        block, woken = self.algo.blocks[number], list[int]()
        while (step := self.at[number]) < len(block.ops):
            op, wire = block.ops[step], self.wires.get((block.recv, block.gpu, block.channel))
            if op.after is not None and not self._done(number, op, block, step):
                return woken
            if op.type in RECEIVES and not wire:
                if block.recv < 0:
                    raise self.algo.refused(
                        f"{block.spoken(step)}: its tb receives from nobody", op.line
                    )
                return woken  # its sender wakes it
            try:
                woken += self._do(
                    number, block, op, wire.popleft() if wire and op.type in RECEIVES else None
                )
            except ColltoolError as error:
                raise self.algo.refused(
                    f"{block.spoken(step)}: {error.what}", op.line, error.fix
                ) from error
            self.ended[number].append(self.round[number])
            self.at[number] += 1
            woken += self.waiting.pop((number, step), ())
        return woken

    def _done(self, number: int, op: Op, block: Block, step: int) -> bool:
        assert op.after is not None
        other = self.number.get((block.gpu, op.after[0]))
        if other is None or not 0 <= op.after[1] < len(self.algo.blocks[other].ops):
            what = (
                f"{block.spoken(step)}: waits for step {op.after[1]} of tb {op.after[0]}, which is"
                " not there"
            )
            raise self.algo.refused(what, op.line)
        if self.at[other] <= op.after[1]:
            self.waiting.setdefault((other, op.after[1]), []).append(number)
            return False
        self.round[number] = max(self.round[number], self.ended[other][op.after[1]])
        return True

    def _do(self, number: int, block: Block, op: Op, arrived: _OnTheWire | None) -> list[int]:
        """One step; the threadblock that its message wakes."""
        if op.type == "nop":
            return []
        pieces = arrived.pieces if arrived else []
        if arrived:
            self.round[number] = max(self.round[number], arrived.round)
            self._record(arrived, block, add=op.type.startswith("rr"))
            if len(pieces) != op.chunks:
                sender = arrived.sender.spoken(arrived.step)
                raise ColltoolError(f"receives {op.chunks} chunks, and {sender} sent {len(pieces)}")
        if op.type in ("s", "cpy", "re"):
            pieces = [self.buffers.read(where) for where in self._places(block, op, op.source)]
        elif op.type.startswith("rr"):
            own = [self.buffers.held(where) for where in self._places(block, op, op.source)]
            pieces = [
                summed(self.promise, held, piece, block.gpu)
                for held, piece in zip(own, pieces, strict=True)
            ]
        if op.type == "re":
            own = [self.buffers.held(where) for where in self._places(block, op, op.target)]
            pieces = [
                summed(self.promise, held, piece, block.gpu)
                for held, piece in zip(own, pieces, strict=True)
            ]
        if op.type not in ("s", "rrs"):
            self.buffers.memory.update(zip(self._places(block, op, op.target), pieces, strict=True))
        return self._send(number, block, pieces) if op.type in SENDS else []

    def _send(self, number: int, block: Block, pieces: list[Piece]) -> list[int]:
        if block.send < 0:
            raise ColltoolError("its tb sends to nobody")
        wire = (block.gpu, block.send, block.channel)
        if wire not in self.receiver:
            raise ColltoolError(
                f"no tb of gpu {block.send} receives from gpu {block.gpu} on channel"
                f" {block.channel}"
            )
        self.round[number] += 1
        self.wires.setdefault(wire, deque()).append(
            _OnTheWire(pieces, self.round[number], block, self.at[number])
        )
        return [self.receiver[wire]]

    def _record(self, message: _OnTheWire, receiver: Block, *, add: bool) -> None:
        sends = self.sent.setdefault(message.round, [])
        sends += [(message.sender.gpu, receiver.gpu, chunk, add) for chunk, _ in message.pieces]

    def _places(self, block: Block, op: Op, first: tuple[str, int]) -> list[Where]:
        buffer, offset = first
        return [self.buffers.place(block.gpu, buffer, offset + at) for at in range(op.chunks)]

    def _stuck(self) -> None:
        """Refuse threadblocks that wait for ever, and messages that nobody takes."""
        stuck = [
            number
            for number, block in enumerate(self.algo.blocks)
            if self.at[number] < len(block.ops)
        ]
        if stuck:
            block, step = self.algo.blocks[stuck[0]], self.at[stuck[0]]
            op = block.ops[step]
            waits = f"a message from gpu {block.recv} on channel {block.channel}"
            if op.after is not None and self.at[self.number[block.gpu, op.after[0]]] <= op.after[1]:
                waits = f"step {op.after[1]} of tb {op.after[0]}"
            what = (
                f"{block.spoken(step)} waits for {waits} for ever: {len(stuck)} threadblocks are in"
                " a deadlock"
            )
            raise self.algo.refused(what, op.line)
        for wire in self.wires.values():
            if wire:
                sender, step = wire[0].sender, wire[0].step
                raise self.algo.refused(
                    f"{sender.spoken(step)} sends what gpu {sender.send} never receives",
                    sender.ops[step].line,
                )
