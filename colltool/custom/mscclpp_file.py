"""MSCCL++'s execution plans, JSON: read strictly.

Each GPU has threadblocks of operations on its buffers and, through channels, on those of its peers.
What is read is what MSCCL++'s executor runs (microsoft/mscclpp, src/core/executor/execution_plan.cc
and src/core/include/execution_kernel.hpp; its language writes python/mscclpp/language/internal):

- copies, puts, gets, reductions that read or write a peer, packets, signals, waits, barriers;
- ``tbg_info``: an operation of a group of threadblocks, of which each moves its equal part of the
  whole place. MSCCL++ does not make them wait for each other;
- ``pipeline``: operations that run in turn on pieces of ``unit_size`` bytes of a chunk. Packets are
  not cut: each turn sends all of them;
- switch channels: ``glres`` reads the sum over a group's ranks and stores it to all of them,
  ``gstore`` stores to all;
- semaphores between the threadblocks of a GPU.

``glre``, which the language can write and the executor does not know, is refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count
from math import lcm
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.execution_plan import (
    IN_SWITCH,
    MOST_STEPS,
    NAMES,
    PIPELINE,
    SWITCH,
    UNCUT,
    Chunks,
    ExecutionPlan,
    PlanOp,
    PlanPlace,
    in_parts,
    too_long,
)
from colltool.custom.schedule import MOST_CHUNKS


class PlanFile(NamedTuple):
    """The GPUs of a file, its channels checked."""

    gpus: list[PlanMapping]
    peers: list[_Reachable]
    file: str

    @property
    def least_unit(self) -> int:
        """The smallest piece of a pipeline, in bytes; 0 without pipelines."""
        units = [0]
        for gpu in self.gpus:
            for block in gpu.listed("threadblocks"):
                for entry in block.listed("ops", MOST_STEPS):
                    if entry.data.get("name") == PIPELINE:
                        units.append(_PieceContext.of(entry).unit_bytes)
        return min(units[1:], default=0)

    def plan(self, chunk_bytes: int = 0) -> ExecutionPlan:
        """Return the plan for chunks of so many bytes, which say into how many pieces pipelines cut
        them; 0: a single piece."""
        sizes: dict[tuple[int, str], Chunks] = {}
        semaphores: dict[tuple[int, int], int] = {}
        blocks: list[tuple[int, list[PlanOp]]] = []
        steps = 0
        parts = 1
        for rank, gpu in enumerate(self.gpus):
            sizes[rank, INPUT] = gpu.number("input_chunks", MOST_CHUNKS)
            sizes[rank, OUTPUT] = gpu.number("output_chunks", MOST_CHUNKS)
            sizes[rank, SCRATCH] = gpu.number("scratch_chunks", MOST_CHUNKS)
            starts = [entry.number("init_value") for entry in gpu.listed("semaphores")]
            for number, start in enumerate(starts):
                semaphores[rank, number] = start
            for block in gpu.listed("threadblocks"):
                reader = _Operations(block, self.peers, rank, len(starts), chunk_bytes)
                ops = []
                for entry in block.listed("ops", MOST_STEPS):
                    for op in reader.ops(entry):
                        ops.append(op)
                        steps += 1
                        if steps > MOST_STEPS:
                            raise too_long(self.file)
                        for place in (*op.sources, *op.targets):
                            ends = (place.first.denominator, place.chunks.denominator)
                            parts = lcm(parts, *ends)
                blocks.append((rank, ops))
        if parts > MOST_CHUNKS:
            what = f"its groups and pipelines cut a chunk into {clipped(str(parts))} parts"
            fix = f"sizes of groups with a common multiple up to {MOST_CHUNKS}"
            raise ColltoolError(what, where=self.file, fix=fix)
        return in_parts(ExecutionPlan(parts, {}, blocks, semaphores, self.file), sizes)


def gpus_of(gpus: list[PlanMapping], file: str) -> PlanFile:
    """Return the GPUs of a file with what they reach."""
    peers = []
    for rank, gpu in enumerate(gpus):
        if gpu.number("id") != rank:
            raise gpu.refused(f"expected id {rank}")
        peers.append(_Reachable(gpu, len(gpus)))
    for rank, reachable in enumerate(peers):
        for members, _ in reachable.groups:
            _check_group(rank, members, peers, gpus)
    return PlanFile(gpus, peers, file)


def _check_group(
    rank: int, members: tuple[int, ...], peers: list[_Reachable], gpus: list[PlanMapping]
) -> None:
    """Raise an error if a rank of a switch channel does not take part in it: its set-up is a
    collective call."""
    named = f"of ranks {', '.join(map(str, members))}"
    if rank not in members:
        raise gpus[rank].refused(f"its switch channel {named} is without itself")
    for member in members:
        if len(peers[member].same_group(members)) != len(peers[rank].same_group(members)):
            raise gpus[rank].refused(
                f"its switch channel {named} waits for rank {member}, which has none like it",
                "the same rank_groups at every rank of a group",
            )


class PlanMapping:
    """A mapping of the file, checked key by key, with its path for errors."""

    def __init__(self, data: Any, file: str, path: str) -> None:
        self.data = data
        self.file = file
        self.path = path
        if not isinstance(data, dict):
            raise self.refused(f"expected a mapping, got {quote(data)}")

    def refused(self, what: str, fix: str = "") -> ColltoolError:
        where = self.file
        if self.path:
            where += f": {self.path}"
        return ColltoolError(what, where=where, fix=fix)

    def number(self, key: str, most: int = 2**31) -> int:
        value = self.data.get(key)
        if type(value) is not int or not 0 <= value <= most:
            raise self.refused(f"{key} is a whole number from 0 to {most}, got {quote(value)}")
        return value

    def text(self, key: str, older: str = "") -> str:
        """Return a text, by the key that ``older`` plans had where that stands alone."""
        value = self.data.get(key, self.data.get(older))
        if not isinstance(value, str):
            raise self.refused(
                f"{key} is a text, got {quote(value)}",
                "older plans name their parts otherwise: write it anew with MSCCL++'s language",
            )
        return value

    def buffer(self, key: str, older: str = "") -> str:
        name = self.text(key, older)
        if name not in (INPUT, OUTPUT, SCRATCH):
            raise self.refused(f"a buffer is i, o or s, got '{clipped(name)}'")
        return name

    def peer(self, value: object, ranks: int) -> int:
        if type(value) is not int or not 0 <= value < ranks:
            raise self.refused(f"a channel is connected to {quote(value)}, which is no GPU")
        return value

    def items(self, key: str, most: int = 2**31) -> Sequence[Any]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or len(value) > most:
            raise self.refused(f"{key} is a list of at most {most}, got {quote(value)}")
        return value

    def listed(self, key: str, most: int = 2**31) -> list[PlanMapping]:
        """Return the mappings in a list."""
        found = []
        for number, item in enumerate(self.items(key, most)):
            path = f"{self.path}.{key}.{number}".lstrip(".")
            found.append(PlanMapping(item, self.file, path))
        return found

    def item(self, items: Sequence[Any], index: object, what: str) -> Any:
        """Return the item of a list at an index that this mapping states."""
        if type(index) is not int or not 0 <= index < len(items):
            raise self.refused(f"there is no {what} {quote(index)}: it has {len(items)}")
        return items[index]


class _Reachable:
    """What a GPU can reach."""

    def __init__(self, gpu: PlanMapping, ranks: int) -> None:
        # by type, each as the peer and the number of the channel to it
        self.channels: dict[str, list[tuple[int, int]]] = {}
        # the switch channels, each as its ranks and this GPU's buffer in it
        self.groups: list[tuple[tuple[int, ...], str]] = []
        for entry in gpu.listed("channels"):
            # Plans of 2025 say "type" and "buff".
            kind = entry.text("channel_type", "type")
            if kind == SWITCH:
                buffer = entry.buffer("buffer_type", "buff")
                for group in entry.listed("rank_groups"):
                    members = tuple(entry.peer(peer, ranks) for peer in group.items("ranks"))
                    self.groups.append((members, buffer))
                continue
            counts = Counter[int]()
            channels = self.channels.setdefault(kind, [])
            for item in entry.items("connected_to"):
                peer = entry.peer(item, ranks)
                channels.append((peer, counts[peer]))
                counts[peer] += 1
        self.buffers: list[tuple[int, str]] = []  # of peers
        for entry in gpu.listed("remote_buffers"):
            self.buffers.append((entry.number("rank", ranks - 1), entry.buffer("type")))

    def same_group(self, members: tuple[int, ...]) -> list[int]:
        """Return the numbers of the switch channels of these ranks."""
        return [number for number, group in enumerate(self.groups) if group[0] == members]


class _PieceContext(NamedTuple):
    """Operations that run in turn on pieces of ``unit_bytes`` of so many chunks."""

    unit_bytes: int
    chunks: int

    @classmethod
    def of(cls, entry: PlanMapping) -> _PieceContext:
        context = PlanMapping(
            entry.data.get("iter_context"), entry.file, f"{entry.path}.iter_context"
        )
        found = cls(context.number("unit_size"), context.number("num_chunks", MOST_CHUNKS))
        if not found.unit_bytes or not found.chunks:
            raise context.refused("unit_size and num_chunks are 1 or more")
        return found

    def pieces(self, chunk_bytes: int) -> Iterator[tuple[Chunks, Chunks]]:
        """Yield the begin and the end of every piece, in chunks: with pieces of 64 KiB and chunks of
        96 KiB, 0 to 2/3, 2/3 to 4/3 and so on."""
        if not chunk_bytes:
            yield 0, self.chunks
            return
        size = Fraction(self.unit_bytes, chunk_bytes)
        for number in count():
            begin = number * size
            if begin >= self.chunks:
                return
            yield begin, begin + size


class _Operations:
    """Reads the operations of a threadblock, whose own lists number channels and buffers."""

    def __init__(
        self,
        block: PlanMapping,
        peers: list[_Reachable],
        rank: int,
        semaphores: int,
        chunk_bytes: int,
    ) -> None:
        self.peers = peers
        self.rank = rank
        self.semaphores = range(semaphores)
        self.chunk_bytes = chunk_bytes
        self.channels: dict[str, list[Any]] = {}
        for entry in block.listed("channels"):
            of_type = self.channels.setdefault(entry.text("channel_type"), [])
            of_type.extend(entry.items("channel_ids"))
        self.buffers: dict[str, list[Any]] = {}
        for entry in block.listed("remote_buffer_refs"):
            ids = self.buffers.setdefault(entry.text("access_channel_type"), [])
            ids.extend(entry.items("remote_buffer_ids"))

    def ops(self, entry: PlanMapping) -> Iterator[PlanOp]:
        """Yield an operation of the threadblock, or those of a pipeline piece by piece."""
        if entry.text("name") != PIPELINE:
            yield self._op(entry)
            return
        pipeline = _PieceContext.of(entry)
        inside = []
        for inner in entry.listed("ops", MOST_STEPS):
            if inner.data.get("name") == PIPELINE:
                raise inner.refused(
                    "a pipeline in a pipeline, which MSCCL++ does not run", "one behind the other"
                )
            inside.append(self._op(inner, pipeline))
        for begin, end in pipeline.pieces(self.chunk_bytes):
            for op in inside:
                yield op if op.name in UNCUT else _piece(op, begin, end)

    def _op(self, entry: PlanMapping, pipeline: _PieceContext | None = None) -> PlanOp:
        """An operation of a plan, with its places and channels; ``pipeline`` is the pipeline that
        it stands in."""
        name = entry.text("name")
        if name not in NAMES:
            known = ", ".join(sorted(NAMES | {PIPELINE}))
            raise entry.refused(
                f"the operation '{clipped(name)}' is none that MSCCL++'s executor runs",
                f"one of {known}",
            )
        kind = entry.text("channel_type") if "channel_type" in entry.data else ""
        sources = self._places(entry, "src_buff", kind, name, pipeline)
        targets = self._places(entry, "dst_buff", kind, name, pipeline)
        channels = []
        # The channels of a switch are named by the places.
        if kind != SWITCH:
            own = self.channels.get(kind, ())
            every = self.peers[self.rank].channels.get(kind, ())
            for index in entry.items("channel_ids"):
                number = entry.item(own, index, "channel")
                channels.append(entry.item(every, number, "channel"))
        semaphores = []
        for index in entry.items("semaphore_ids"):
            semaphores.append(entry.item(self.semaphores, index, "semaphore"))
        barrier = entry.number("barrier_id") if name == "barrier" else -1
        members = entry.number("num_threadblocks") if "num_threadblocks" in entry.data else 0
        return PlanOp(
            name=name,
            sources=sources,
            targets=targets,
            channels=tuple(channels),
            number=barrier,
            members=members,
            semaphores=tuple(semaphores),
            group=_common(entry),
            where=f"{entry.path} ({name})",
        )

    def _places(
        self, entry: PlanMapping, key: str, kind: str, name: str, pipeline: _PieceContext | None
    ) -> tuple[PlanPlace, ...]:
        """Return the sources or targets of an operation: of a group of threadblocks its own part."""
        share, shares = _group_of(entry)
        places: list[PlanPlace] = []
        for place in entry.listed(key):
            whole = self._place(place, kind, name)
            size = whole[0].chunks
            if (
                pipeline
                and name not in UNCUT
                and size not in (pipeline.chunks, pipeline.chunks * shares)
            ):
                raise place.refused(
                    f"{size} chunks in a pipeline over {pipeline.chunks}: of messages longer than a"
                    " piece it moves too few or too many",
                    f"num_chunks {size}, or places of {pipeline.chunks}",
                )
            for at_rank in whole:
                begin = Fraction(size * share, shares)
                places.append(at_rank.part(begin, Fraction(size * (share + 1), shares)))
        return tuple(places)

    def _place(self, entry: PlanMapping, kind: str, name: str) -> list[PlanPlace]:
        """Return a place, through a switch one at each rank of the channel."""
        first = entry.number("index", MOST_CHUNKS)
        chunks = entry.number("size", MOST_CHUNKS)
        if "switch_channel_id" in entry.data:
            if name not in IN_SWITCH:
                raise entry.refused("a switch is for glres and gstore alone")
            own = self.channels.get(SWITCH, ())
            number = entry.item(own, entry.data["switch_channel_id"], "switch channel")
            groups = self.peers[self.rank].groups
            members, _ = entry.item(groups, number, "switch channel")
            return self._at_members(members, number, first, chunks)
        if "buffer_id" in entry.data:
            own = self.buffers.get(kind, ())
            number = entry.item(own, entry.data["buffer_id"], "remote buffer")
            reached = self.peers[self.rank].buffers
            owner, buffer = entry.item(reached, number, "remote buffer")
        else:
            owner = self.rank
            buffer = entry.buffer("type")
        return [PlanPlace(owner, buffer, first, chunks)]

    def _at_members(
        self, members: tuple[int, ...], number: int, first: int, chunks: int
    ) -> list[PlanPlace]:
        # Channels of the same ranks are set up in the order in which each rank lists them.
        nth = self.peers[self.rank].same_group(members).index(number)
        places = []
        for member in members:
            theirs = self.peers[member].same_group(members)[nth]
            _, buffer = self.peers[member].groups[theirs]
            places.append(PlanPlace(member, buffer, first, chunks))
        return places


def _group_of(entry: PlanMapping) -> tuple[int, int]:
    """Return which part of an operation this threadblock does, and of how many."""
    if "tbg_info" not in entry.data:
        return 0, 1
    group = PlanMapping(entry.data["tbg_info"], entry.file, f"{entry.path}.tbg_info")
    size = group.number("tbg_size", MOST_CHUNKS)
    number = group.number("tb_id", MOST_CHUNKS)
    if number >= size:
        raise group.refused(f"tb_id {number} of a group of {size}", "tb_id from 0 to tbg_size - 1")
    return number, size


def _common(entry: PlanMapping) -> tuple[str, int] | None:
    """Return what an operation has in common with those of its group, and which part it does."""
    part, size = _group_of(entry)
    if size == 1:
        return None
    keys = ("name", "src_buff", "dst_buff")
    return f"{size} {[entry.data.get(key) for key in keys]}", part


def _piece(op: PlanOp, begin: Chunks, end: Chunks) -> PlanOp:
    """Return an operation on a piece of its places; nothing lies behind their ends."""
    cut = []
    for places in (op.sources, op.targets):
        pieces = []
        for place in places:
            last = min(end, place.chunks)
            pieces.append(place.part(min(begin, last), last))
        cut.append(tuple(pieces))
    return op._replace(sources=cut[0], targets=cut[1])
