"""Writes a schedule as MSCCL's XML, which the MSCCL runtime and RCCL run and
:mod:`colltool.custom.msccl_file` reads back. :func:`msccl_xml` is the entry.

Every rank has a threadblock for each peer that it sends to and each that it receives from, and one
more channel for each further run of chunks of the same message. A step waits for whatever wrote or
read its chunks before, and a send for the rank's step before it; of several such dependencies all
but the last are no-ops, as the format has room for one.

All-reduce, all-gather, reduce-scatter, broadcast and reduction are in place; an all-to-all has its
input, its output, and scratch for chunks on their way. Channels are numbered for each pair of ranks.
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
# of the others MSCCL's word is ours
_COLLECTIVES = {
    Primitive.ALL_REDUCE: "allreduce",
    Primitive.ALL_GATHER: "allgather",
    Primitive.REDUCE_SCATTER: "reduce_scatter",
    Primitive.ALL_TO_ALL: "alltoall",
}

Place = tuple[str, int]  # buffer, offset in chunks
StepId = tuple[int, int]  # of a rank: threadblock, step


@dataclass
class _StepLine:
    """A step of a threadblock as it is written; ``after`` and ``is_awaited`` are set when it is added."""

    kind: str  # MSCCL's type: s, r, rrc, cpy or nop
    source: Place
    target: Place
    chunks: int
    after: StepId | None = None  # what it waits for
    is_awaited: bool = False  # by another step


@dataclass
class _RankSteps:
    """The threadblocks of a rank, and which of their steps last wrote and read each place."""

    # the number of each threadblock, by the peers that it sends to and receives from, and the channel
    blocks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    lines: list[list[_StepLine]] = field(default_factory=list)  # steps by threadblock
    last_writer: dict[Place, StepId] = field(default_factory=dict)
    readers: dict[Place, list[StepId]] = field(default_factory=dict)  # since it was written
    # The last step of this round, and of the rounds before: a receive if there is one, else a send.
    latest: StepId | None = None
    previous: StepId | None = None
    scratch: dict[int, int] = field(default_factory=dict)  # offsets of chunks on their way

    def block(self, send: int, recv: int, channel: int) -> int:
        """Return the number of a threadblock, a new one if there is none."""
        number = self.blocks.setdefault((send, recv, channel), len(self.lines))
        if number == len(self.lines):
            self.lines.append([])
        return number

    def next_round(self) -> None:
        """Begin a round, whose steps have to wait for those of earlier ones."""
        self.previous = self.latest or self.previous
        self.latest = None

    def writers(self, places: list[Place]) -> list[StepId]:
        """Return the steps that last wrote these places."""
        return [self.last_writer[place] for place in places if place in self.last_writer]

    def add(self, block: int, line: _StepLine, waits: list[StepId]) -> StepId:
        """Add a step that waits for others of the rank, and return it.

        Of each other threadblock only the latest step is waited for; this one runs in order.
        """
        latest_steps: dict[int, int] = {}
        for number, step in waits:
            if number != block:
                latest_steps[number] = max(step, latest_steps.get(number, -1))
        lines = self.lines[block]
        for dependency in latest_steps.items():
            # the step has room for one dependency: what it has so far goes to a no-op before it
            if line.after is not None:
                lines.append(_StepLine("nop", (INPUT, -1), (OUTPUT, -1), 0, after=line.after))
            line.after = dependency
        lines.append(line)
        for number, step in latest_steps.items():
            self.lines[number][step].is_awaited = True
        return block, len(lines) - 1


class _ChunkRun(NamedTuple):
    """Consecutive chunks of one message, from rank ``src`` to rank ``dst``."""

    src: int
    dst: int
    channel: int
    source: Place  # of the first chunk at the sender
    target: Place  # of the first chunk at the receiver
    chunks: int
    add: bool  # whether the receiver adds them to what it has


def msccl_xml(schedule: CustomSchedule) -> str:
    """Return the text of an XML file; ColltoolError if the root is not rank 0, as MSCCL has no other."""
    if schedule.root:
        raise ColltoolError("MSCCL has rank 0 as the root", fix="a schedule with root 0")
    ranks = [_RankSteps() for _ in range(schedule.ranks)]
    if schedule.primitive is A2A:
        # chunks of a rank for each rank, itself too: those it copies
        own = schedule.chunks // schedule.ranks
        for rank, state in enumerate(ranks):
            line = _StepLine("cpy", (INPUT, rank * own), (OUTPUT, rank * own), own)
            state.add(state.block(-1, -1, 0), line, [])
    for batch in schedule.batches:
        for state in ranks:
            state.next_round()
        runs = _runs(schedule, batch, ranks)
        # All sends before any receive: the messages of a round do not wait for each other.
        for run in runs:
            ranks[run.src].latest = _send(ranks[run.src], run)
        for run in runs:
            ranks[run.dst].latest = _receive(ranks[run.dst], run)
    return _xml_text(schedule, ranks)


def _send(state: _RankSteps, run: _ChunkRun) -> StepId:
    """Add the send of a run to the sender, and return the step."""
    places = _places(run.source, run.chunks)
    waits = state.writers(places)
    if state.previous:
        waits.append(state.previous)
    line = _StepLine("s", run.source, run.target, run.chunks)
    sent = state.add(state.block(run.dst, -1, run.channel), line, waits)
    for place in places:
        state.readers.setdefault(place, []).append(sent)
    return sent


def _receive(state: _RankSteps, run: _ChunkRun) -> StepId:
    """Add the receive of a run to the receiver, and return the step."""
    places = _places(run.target, run.chunks)
    waits = state.writers(places)
    for place in places:
        waits += state.readers.pop(place, ())
    if run.add:
        line = _StepLine("rrc", run.target, run.target, run.chunks)
    else:
        line = _StepLine("r", run.source, run.target, run.chunks)
    received = state.add(state.block(-1, run.src, run.channel), line, waits)
    state.last_writer.update(dict.fromkeys(places, received))
    return received


def _places(first: Place, count: int) -> list[Place]:
    """The places of so many consecutive chunks."""
    buffer, offset = first
    return [(buffer, offset + number) for number in range(count)]


def _runs(schedule: CustomSchedule, batch: Batch, ranks: list[_RankSteps]) -> list[_ChunkRun]:
    """The messages of a round as runs of chunks that are consecutive at both ends."""
    channels: dict[tuple[int, int], int] = {}  # how many each pair of ranks uses by now
    runs: list[_ChunkRun] = []
    for step in batch:
        messages = zip(step.src.tolist(), step.dst.tolist(), step.chunk.tolist(), strict=True)
        last = None  # the run of this step that a chunk may continue
        for src, dst, chunk in sorted(messages):
            source = _place(schedule, ranks, src, chunk)
            target = _place(schedule, ranks, dst, chunk)
            if last is not None and _follows(last, src, dst, source, target):
                last = last._replace(chunks=last.chunks + 1)
                runs[-1] = last
                continue
            channel = channels.get((src, dst), 0)
            channels[src, dst] = channel + 1
            last = _ChunkRun(
                src, dst, channel % MOST_CHANNELS, source, target, chunks=1, add=step.add
            )
            runs.append(last)
    return runs


def _follows(run: _ChunkRun, src: int, dst: int, source: Place, target: Place) -> bool:
    """Whether a chunk continues a run at both ends."""
    beyond = [(buffer, offset + run.chunks) for buffer, offset in (run.source, run.target)]
    return run[:2] == (src, dst) and beyond == [source, target]


def _place(schedule: CustomSchedule, ranks: list[_RankSteps], rank: int, chunk: int) -> Place:
    """The buffer and offset of a chunk on a rank: in place those in the larger buffer. An all-to-all has its
    chunks numbered by sender, then receiver; on any other rank a chunk gets the next place in scratch."""
    if schedule.primitive is not A2A:
        return (OUTPUT if schedule.primitive is AG else INPUT), chunk
    own = schedule.chunks // schedule.ranks
    src, offset = divmod(chunk, schedule.chunks)
    dst, part = divmod(offset, own)
    if rank == src:
        return INPUT, offset
    if rank == dst:
        return OUTPUT, src * own + part
    scratch = ranks[rank].scratch
    return SCRATCH, scratch.setdefault(chunk, len(scratch))


def _xml_text(schedule: CustomSchedule, ranks: list[_RankSteps]) -> str:
    """The XML text of the algorithm, from the steps of all ranks."""
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
        coll=_COLLECTIVES.get(schedule.primitive, schedule.primitive),
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


def _add_step(block: Element, number: int, line: _StepLine) -> None:
    """Add the element of a step to that of its threadblock."""
    source_buffer, source_offset = line.source
    target_buffer, target_offset = line.target
    after_block, after_step = line.after or (-1, -1)
    block.add(
        "step",
        s=number,
        type=line.kind,
        srcbuf=source_buffer,
        srcoff=source_offset,
        dstbuf=target_buffer,
        dstoff=target_offset,
        cnt=line.chunks,
        depid=after_block,
        deps=after_step,
        hasdep=int(line.is_awaited),
    )
