"""A schedule as MSCCL's XML, which the MSCCL runtime and RCCL run, and
:mod:`colltool.custom.msccl_file` reads back.

Every rank has a threadblock for each peer that it sends to and each that it receives from, and one
more channel for each further run of chunks of the same message. A step waits for whatever wrote or
read its chunks before, and a send for the rank's step before it; of several such dependencies all
but the last are no-ops, as the format has room for one.

All-reduce, all-gather, reduce-scatter, broadcast and reduction are in place; an all-to-all has its
input, its output, and scratch for chunks on their way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from colltool.algorithms.program import Step
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, RS, Primitive
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.schedule import OwnSchedule

# of a peer, as MSCCL's runtime has them; further runs of chunks follow each other
MOST_CHANNELS = 32
_NAMES = {
    Primitive.ALL_REDUCE: "allreduce",
    Primitive.ALL_GATHER: "allgather",
    Primitive.REDUCE_SCATTER: "reduce_scatter",
    Primitive.ALL_TO_ALL: "alltoall",
}

Spot = tuple[str, int]  # buffer, offset
Wait = tuple[int, int]  # threadblock, step


@dataclass
class _Line:
    """A step of a threadblock as it is written."""

    kind: str
    source: Spot
    target: Spot
    chunks: int
    after: Wait | None = None
    awaited: bool = False


@dataclass
class _Rank:
    """What a rank has done so far."""

    # (send, recv, channel) -> number
    blocks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    lines: list[list[_Line]] = field(default_factory=list)
    wrote: dict[Spot, Wait] = field(default_factory=dict)
    read: dict[Spot, list[Wait]] = field(default_factory=dict)
    before: Wait | None = None  # a step of the rank's last round, a receive where there is one
    now: Wait | None = None
    scratch: dict[int, int] = field(default_factory=dict)  # places of chunks on their way

    def block(self, send: int, recv: int, channel: int) -> int:
        number = self.blocks.setdefault((send, recv, channel), len(self.lines))
        if number == len(self.lines):
            self.lines.append([])
        return number

    def do(self, block: int, line: _Line, waits: list[Wait]) -> Wait:
        """Add a step behind all that it waits for, but for its own threadblock."""
        latest: dict[int, int] = {}
        for number, step in waits:
            if number != block:
                latest[number] = max(step, latest.get(number, -1))
        waited = list(latest.items())
        for wait in waited[:-1]:
            self.lines[block].append(_Line("nop", (INPUT, -1), (OUTPUT, -1), 0, wait))
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
    source: Spot
    target: Spot
    chunks: int
    add: bool


def msccl_xml(schedule: OwnSchedule) -> str:
    """The text of an XML file; ColltoolError where chunks wait in a place that only a file of its
    own knows."""
    if schedule.root:
        raise ColltoolError("MSCCL has rank 0 as the root", fix="a schedule with root 0")
    ranks = [_Rank() for _ in range(schedule.ranks)]
    if schedule.primitive is A2A:
        own = schedule.chunks // schedule.ranks
        for rank, state in enumerate(ranks):
            state.do(
                state.block(-1, -1, 0),
                _Line("cpy", (INPUT, rank * own), (OUTPUT, rank * own), own),
                [],
            )
    for batch in schedule.batches:
        channels: dict[tuple[int, int], int] = {}
        runs = [run for one in batch for run in _runs(schedule, one, ranks, channels)]
        for state in ranks:
            state.before, state.now = state.now or state.before, None
        sent = [_send(ranks[run.src], run) for run in runs]
        for run, wait in zip(runs, sent, strict=True):
            ranks[run.src].now = wait
        for run in runs:
            ranks[run.dst].now = _receive(ranks[run.dst], run)
    return _text(schedule, ranks)


def _send(state: _Rank, run: _Run) -> Wait:
    spots = _spots(run.source, run.chunks)
    waits = [state.wrote[spot] for spot in spots if spot in state.wrote] + (
        [state.before] if state.before else []
    )
    wait = state.do(
        state.block(run.dst, -1, run.channel), _Line("s", run.source, run.target, run.chunks), waits
    )
    for spot in spots:
        state.read.setdefault(spot, []).append(wait)
    return wait


def _receive(state: _Rank, run: _Run) -> Wait:
    spots = _spots(run.target, run.chunks)
    waits = [state.wrote[spot] for spot in spots if spot in state.wrote]
    waits += [wait for spot in spots for wait in state.read.pop(spot, ())]
    line = _Line(
        "rrc" if run.add else "r", run.target if run.add else run.source, run.target, run.chunks
    )
    wait = state.do(state.block(-1, run.src, run.channel), line, waits)
    state.wrote.update(dict.fromkeys(spots, wait))
    return wait


def _spots(first: Spot, count: int) -> list[Spot]:
    return [(first[0], first[1] + at) for at in range(count)]


def _runs(
    schedule: OwnSchedule, step: Step, ranks: list[_Rank], channels: dict[tuple[int, int], int]
) -> list[_Run]:
    """The chunks of each message of a step as runs that are consecutive at both ends."""
    found: list[_Run] = []
    for src, dst, chunk in sorted(
        zip(step.src.tolist(), step.dst.tolist(), step.chunk.tolist(), strict=True)
    ):
        source, target = _place(schedule, ranks, src, chunk), _place(schedule, ranks, dst, chunk)
        last = found[-1] if found and found[-1][:2] == (src, dst) else None
        if last is not None and (
            _beyond(last.source, last.chunks),
            _beyond(last.target, last.chunks),
        ) == (source, target):
            found[-1] = last._replace(chunks=last.chunks + 1)
            continue
        channel = channels[src, dst] = channels.get((src, dst), -1) + 1
        found.append(
            _Run(src, dst, channel % MOST_CHANNELS, source, target, chunks=1, add=step.add)
        )
    return found


def _beyond(spot: Spot, count: int) -> Spot:
    return spot[0], spot[1] + count


def _place(schedule: OwnSchedule, ranks: list[_Rank], rank: int, chunk: int) -> Spot:
    if schedule.primitive is not A2A:
        return (OUTPUT if schedule.primitive is AG else INPUT), chunk
    src, at = divmod(chunk, schedule.chunks)
    dst, part = divmod(at, schedule.chunks // schedule.ranks)
    if rank == src:
        return INPUT, at
    if rank == dst:
        return OUTPUT, src * (schedule.chunks // schedule.ranks) + part
    scratch = ranks[rank].scratch
    return SCRATCH, scratch.setdefault(chunk, len(scratch))


def _text(schedule: OwnSchedule, ranks: list[_Rank]) -> str:
    own = schedule.chunks // schedule.ranks
    sizes = {AG: (own, schedule.chunks), RS: (schedule.chunks, own)}.get(
        schedule.primitive, (schedule.chunks, schedule.chunks)
    )
    channels = 1 + max(channel for state in ranks for _, _, channel in state.blocks)
    in_place = schedule.primitive is not A2A
    name = "".join(one if one.isalnum() or one in "-_." else "-" for one in schedule.name)
    collective = _NAMES.get(schedule.primitive, str(schedule.primitive))
    lines = [
        f'<algo name="{name}" proto="Simple" nchannels="{channels}"'
        f' nchunksperloop="{schedule.chunks}" ngpus="{schedule.ranks}" coll="{collective}"'
        f' inplace="{int(in_place)}" outofplace="{int(not in_place)}">'
    ]
    for rank, state in enumerate(ranks):
        lines.append(
            f'  <gpu id="{rank}" i_chunks="{sizes[0]}" o_chunks="{sizes[1]}"'
            f' s_chunks="{len(state.scratch)}">'
        )
        for (send, recv, channel), number in state.blocks.items():
            lines.append(f'    <tb id="{number}" send="{send}" recv="{recv}" chan="{channel}">')
            lines += [_step(at, one) for at, one in enumerate(state.lines[number])]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _step(number: int, line: _Line) -> str:
    block, step = line.after or (-1, -1)
    return (
        f'      <step s="{number}" type="{line.kind}" srcbuf="{line.source[0]}"'
        f' srcoff="{line.source[1]}" dstbuf="{line.target[0]}" dstoff="{line.target[1]}"'
        f' cnt="{line.chunks}" depid="{block}" deps="{step}" hasdep="{int(line.awaited)}"/>'
    )
