"""Writes a schedule as MSCCL's XML, which the MSCCL runtime and RCCL run and
:mod:`colltool.custom.msccl_file` reads back. :func:`msccl_xml` is the entry.

Every rank has a threadblock for each peer that it sends to and each that it receives from, and one
more channel for each further run of chunks of the same message. A step waits for whatever wrote or
read its chunks before, and a send for the rank's step before it; of several such dependencies all
but the last are no-ops, as the format has room for one.

All-reduce, all-gather, reduce-scatter, broadcast and reduction are in place; an all-to-all has its
input, its output, and scratch for chunks on their way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, RS, Primitive
from colltool.base.xml_tree import Element
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.schedule import Batch, CustomSchedule

# Channels to one peer, the limit of MSCCL's runtime; further runs of chunks share them.
MOST_CHANNELS = 32
_NAMES = {
    Primitive.ALL_REDUCE: "allreduce",
    Primitive.ALL_GATHER: "allgather",
    Primitive.REDUCE_SCATTER: "reduce_scatter",
    Primitive.ALL_TO_ALL: "alltoall",
}

Place = tuple[str, int]  # buffer, offset
Wait = tuple[int, int]  # threadblock, step


@dataclass
class _Line:
    """A step of a threadblock as it is written."""

    kind: str
    source: Place
    target: Place
    chunks: int
    after: Wait | None = None
    awaited: bool = False


@dataclass
class _Rank:
    """The threadblocks of a rank, and which of their steps last wrote and read each place."""

    # (send, recv, channel) -> number
    blocks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    lines: list[list[_Line]] = field(default_factory=list)
    wrote: dict[Place, Wait] = field(default_factory=dict)
    read: dict[Place, list[Wait]] = field(default_factory=dict)
    # A step of this round, and of an earlier one: a receive if there is one, else a send.
    now: Wait | None = None
    before: Wait | None = None
    scratch: dict[int, int] = field(default_factory=dict)  # places of chunks on their way

    def block(self, send: int, recv: int, channel: int) -> int:
        number = self.blocks.setdefault((send, recv, channel), len(self.lines))
        if number == len(self.lines):
            self.lines.append([])
        return number

    def next_round(self) -> None:
        self.before = self.now or self.before
        self.now = None

    def writers(self, places: list[Place]) -> list[Wait]:
        """Return the steps that last wrote these places."""
        return [self.wrote[place] for place in places if place in self.wrote]

    def add(self, block: int, line: _Line, waits: list[Wait]) -> Wait:
        """Add a step that waits for the latest steps of other threadblocks, and return it."""
        latest: dict[int, int] = {}
        for number, step in waits:
            if number != block:
                latest[number] = max(step, latest.get(number, -1))
        waited = list(latest.items())
        for wait in waited[:-1]:
            self.lines[block].append(_Line("nop", (INPUT, -1), (OUTPUT, -1), chunks=0, after=wait))
        line.after = waited[-1] if waited else None
        self.lines[block].append(line)
        for number, step in latest.items():
            self.lines[number][step].awaited = True
        return block, len(self.lines[block]) - 1


class _Run(NamedTuple):
    """Consecutive chunks of one message."""

    src: int
    dst: int
    channel: int
    source: Place
    target: Place
    chunks: int
    add: bool


def msccl_xml(schedule: CustomSchedule) -> str:
    """Return the text of an XML file; ColltoolError if the root is not rank 0, as MSCCL has no other."""
    if schedule.root:
        raise ColltoolError("MSCCL has rank 0 as the root", fix="a schedule with root 0")
    ranks = [_Rank() for _ in range(schedule.ranks)]
    if schedule.primitive is A2A:
        own = schedule.chunks // schedule.ranks
        for rank, state in enumerate(ranks):
            line = _Line("cpy", (INPUT, rank * own), (OUTPUT, rank * own), own)
            state.add(state.block(-1, -1, 0), line, [])
    for batch in schedule.batches:
        for state in ranks:
            state.next_round()
        runs = _runs(schedule, batch, ranks)
        # All sends before any receive: the messages of a round do not wait for each other.
        sends = [_send(ranks[run.src], run) for run in runs]
        for run, sent in zip(runs, sends, strict=True):
            ranks[run.src].now = sent
        for run in runs:
            ranks[run.dst].now = _receive(ranks[run.dst], run)
    return _text(schedule, ranks)


def _send(state: _Rank, run: _Run) -> Wait:
    """Add the send of a run to the sender, and return the step."""
    places = _places(run.source, run.chunks)
    waits = state.writers(places)
    if state.before:
        waits.append(state.before)
    line = _Line("s", run.source, run.target, run.chunks)
    sent = state.add(state.block(run.dst, -1, run.channel), line, waits)
    for place in places:
        state.read.setdefault(place, []).append(sent)
    return sent


def _receive(state: _Rank, run: _Run) -> Wait:
    """Add the receive of a run to the receiver, and return the step."""
    places = _places(run.target, run.chunks)
    waits = state.writers(places)
    for place in places:
        waits += state.read.pop(place, ())
    if run.add:
        line = _Line("rrc", run.target, run.target, run.chunks)
    else:
        line = _Line("r", run.source, run.target, run.chunks)
    received = state.add(state.block(-1, run.src, run.channel), line, waits)
    state.wrote.update(dict.fromkeys(places, received))
    return received


def _places(first: Place, count: int) -> list[Place]:
    buffer, offset = first
    return [(buffer, offset + number) for number in range(count)]


def _runs(schedule: CustomSchedule, batch: Batch, ranks: list[_Rank]) -> list[_Run]:
    """The messages of a round as runs of chunks that are consecutive at both ends."""
    channels: dict[tuple[int, int], int] = {}
    found: list[_Run] = []
    for step in batch:
        ends = zip(step.src.tolist(), step.dst.tolist(), step.chunk.tolist(), strict=True)
        last = None  # the run of this step that a chunk may continue
        for src, dst, chunk in sorted(ends):
            source = _place(schedule, ranks, src, chunk)
            target = _place(schedule, ranks, dst, chunk)
            if last is not None and _follows(last, src, dst, source, target):
                last = found[-1] = last._replace(chunks=last.chunks + 1)
                continue
            channel = channels[src, dst] = channels.get((src, dst), -1) + 1
            last = _Run(src, dst, channel % MOST_CHANNELS, source, target, chunks=1, add=step.add)
            found.append(last)
    return found


def _follows(run: _Run, src: int, dst: int, source: Place, target: Place) -> bool:
    """Whether a chunk continues a run at both ends."""
    beyond = [(buffer, offset + run.chunks) for buffer, offset in (run.source, run.target)]
    return run[:2] == (src, dst) and beyond == [source, target]


def _place(schedule: CustomSchedule, ranks: list[_Rank], rank: int, chunk: int) -> Place:
    """The buffer and offset of a chunk on a rank."""
    if schedule.primitive is not A2A:
        return (OUTPUT if schedule.primitive is AG else INPUT), chunk
    own = schedule.chunks // schedule.ranks
    src, at = divmod(chunk, schedule.chunks)
    dst, part = divmod(at, own)
    if rank == src:
        return INPUT, at
    if rank == dst:
        return OUTPUT, src * own + part
    scratch = ranks[rank].scratch
    return SCRATCH, scratch.setdefault(chunk, len(scratch))


def _text(schedule: CustomSchedule, ranks: list[_Rank]) -> str:
    """The XML text of the algorithm."""
    own = schedule.chunks // schedule.ranks
    inputs = own if schedule.primitive is AG else schedule.chunks
    outputs = own if schedule.primitive is RS else schedule.chunks
    channels = 1
    for state in ranks:
        for _, _, channel in state.blocks:
            channels = max(channels, channel + 1)
    in_place = schedule.primitive is not A2A
    document = Element("", {}, 0, 0)
    algo = document.add(
        "algo",
        name=re.sub(r"[^\w.-]", "-", schedule.name),
        proto="Simple",
        nchannels=channels,
        nchunksperloop=schedule.chunks,
        ngpus=schedule.ranks,
        coll=_NAMES.get(schedule.primitive, schedule.primitive),
        inplace=int(in_place),
        outofplace=int(not in_place),
    )
    for rank, state in enumerate(ranks):
        gpu = algo.add(
            "gpu", id=rank, i_chunks=inputs, o_chunks=outputs, s_chunks=len(state.scratch)
        )
        for (send, recv, channel), number in state.blocks.items():
            block = gpu.add("tb", id=number, send=send, recv=recv, chan=channel)
            for step, line in enumerate(state.lines[number]):
                _add_step(block, step, line)
    return algo.text()


def _add_step(block: Element, number: int, line: _Line) -> None:
    source, source_at = line.source
    target, target_at = line.target
    depends_on, its_step = line.after or (-1, -1)
    block.add(
        "step",
        s=number,
        type=line.kind,
        srcbuf=source,
        srcoff=source_at,
        dstbuf=target,
        dstoff=target_at,
        cnt=line.chunks,
        depid=depends_on,
        deps=its_step,
        hasdep=int(line.awaited),
    )
