"""Reads the operations of a threadblock of an MSCCL++ plan (:class:`OperationReader`): their places in
chunks, the channels and semaphores that they name, and pipelines cut into pieces.

An operation names a channel or buffer by its index in a list of its threadblock, whose entries are numbers in
lists of the GPU (``GpuReach``: what a rank can reach). Threadblocks may share an operation as a group, of which
each does an equal part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

from colltool.base.errors import clipped
from colltool.custom.execution_plan import (
    IN_SWITCH,
    MOST_STEPS,
    NAMES,
    PIPELINE,
    SWITCH,
    UNCUT,
    Chunks,
    PlanOp,
    PlanPlace,
)
from colltool.custom.plan_channels import GpuReach
from colltool.custom.plan_mapping import PlanMapping
from colltool.custom.postcondition import MOST_CHUNKS


class PlanPipeline(NamedTuple):
    """Operations that run in turn on one piece of their chunks after another."""

    unit_bytes: int  # of a piece
    chunks: int  # that each of the operations moves

    @classmethod
    def of(cls, entry: PlanMapping) -> PlanPipeline:
        """Return the pipeline that an entry of the name ``pipeline`` states."""
        context = entry.inner("iter_context")
        pipeline = cls(context.number("unit_size"), context.number("num_chunks", MOST_CHUNKS))
        if not pipeline.unit_bytes or not pipeline.chunks:
            raise context.error("unit_size and num_chunks are 1 or more")
        return pipeline

    def pieces(self, chunk_bytes: int) -> Iterator[tuple[Chunks, Chunks]]:
        """Yield the begin and the end of every piece, in chunks: with pieces of 64 KiB and chunks of
        96 KiB, 0 to 2/3, 2/3 to 4/3 and so on. For chunks of 0 bytes all are one piece."""
        if not chunk_bytes:
            yield 0, self.chunks
            return
        size = Fraction(self.unit_bytes, chunk_bytes)
        for number in count():
            begin = number * size
            if begin >= self.chunks:
                return
            yield begin, begin + size


class OperationReader:
    """Reads the operations of a threadblock, whose own lists number channels and buffers."""

    def __init__(
        self,
        block: PlanMapping,
        reaches: Sequence[GpuReach],
        rank: int,
        semaphores: int,
        chunk_bytes: int,
    ) -> None:
        """Read the threadblock's own lists.

        Args:
            reaches: what each rank can reach.
            rank: the threadblock's GPU.
            semaphores: how many this GPU has.
            chunk_bytes: of a chunk, by which pipelines are cut; 0: into a single piece.
        """
        self.reaches = reaches
        self.rank = rank
        self.semaphores = range(semaphores)
        self.chunk_bytes = chunk_bytes
        # numbers of the GPU's channels, and of its buffers of peers, by type of channel
        self.channels: dict[str, list[Any]] = {}
        self.buffers: dict[str, list[Any]] = {}
        for entry in block.listed("channels"):
            ids = self.channels.setdefault(entry.text("channel_type"), [])
            ids.extend(entry.items("channel_ids"))
        for entry in block.listed("remote_buffer_refs"):
            ids = self.buffers.setdefault(entry.text("access_channel_type"), [])
            ids.extend(entry.items("remote_buffer_ids"))

    def ops(self, entry: PlanMapping) -> Iterator[PlanOp]:
        """Yield an operation of the threadblock, or those of a pipeline piece by piece."""
        if entry.text("name") != PIPELINE:
            yield self._op(entry)
            return
        pipeline = PlanPipeline.of(entry)
        ops = []
        for inner in entry.listed("ops", MOST_STEPS):
            if inner.data.get("name") == PIPELINE:
                raise inner.error(
                    "a pipeline in a pipeline, which MSCCL++ does not run", "one behind the other"
                )
            ops.append(self._op(inner, pipeline))
        for begin, end in pipeline.pieces(self.chunk_bytes):
            for op in ops:
                yield op if op.name in UNCUT else _piece(op, begin, end)

    def _op(self, entry: PlanMapping, pipeline: PlanPipeline | None = None) -> PlanOp:
        """Return an operation of a plan, with its places and channels; ``pipeline`` is the pipeline that it
        stands in, if any. ColltoolError for one that MSCCL++ does not run, or that names what is not there."""
        name = entry.text("name")
        if name not in NAMES:
            known = ", ".join(sorted(NAMES | {PIPELINE}))
            raise entry.error(
                f"the operation '{clipped(name)}' is none that MSCCL++'s executor runs",
                f"one of {known}",
            )
        kind = entry.text("channel_type") if "channel_type" in entry.data else ""
        sources = self._places(entry, "src_buff", kind, name, pipeline)
        targets = self._places(entry, "dst_buff", kind, name, pipeline)
        channels = []
        # The channels of a switch are named by the places.
        if kind != SWITCH:
            of_block = self.channels.get(kind, ())
            of_gpu = self.reaches[self.rank].channels.get(kind, ())
            for index in entry.items("channel_ids"):
                number = entry.item(of_block, index, "channel")
                channels.append(entry.item(of_gpu, number, "channel"))
        semaphores = []
        for index in entry.items("semaphore_ids"):
            semaphores.append(entry.item(self.semaphores, index, "semaphore"))
        barrier = entry.number("barrier_id") if name == "barrier" else -1
        # of a barrier: how many threadblocks have it, where the file says so
        members = entry.number("num_threadblocks") if "num_threadblocks" in entry.data else 0
        return PlanOp(
            name=name,
            sources=sources,
            targets=targets,
            channels=tuple(channels),
            barrier=barrier,
            barrier_members=members,
            semaphores=tuple(semaphores),
            group=_group_key(entry),
            where=f"{entry.path} ({name})",
        )

    def _places(
        self, entry: PlanMapping, key: str, kind: str, name: str, pipeline: PlanPipeline | None
    ) -> tuple[PlanPlace, ...]:
        """Return the sources or targets of an operation, which ``key`` lists: of an operation of a
        group of threadblocks the part of this one."""
        part, parts = _part_of_group(entry)
        places: list[PlanPlace] = []
        for place_entry in entry.listed(key):
            # all of the same size
            whole = self._whole_place(place_entry, kind, name)
            size = whole[0].chunks
            if pipeline and name not in UNCUT:
                _check_size(place_entry, size, parts, pipeline.chunks)
            begin = Fraction(size * part, parts)
            end = Fraction(size * (part + 1), parts)
            places += [place.part(begin, end) for place in whole]
        return tuple(places)

    def _whole_place(self, entry: PlanMapping, kind: str, name: str) -> list[PlanPlace]:
        """Return the place that an entry states, as a list of one; through a switch one at each rank
        of the channel."""
        first = entry.number("index", MOST_CHUNKS)
        chunks = entry.number("size", MOST_CHUNKS)
        if "switch_channel_id" in entry.data:
            if name not in IN_SWITCH:
                raise entry.error("a switch is for glres and gstore alone")
            of_block = self.channels.get(SWITCH, ())
            number = entry.item(of_block, entry.data["switch_channel_id"], "switch channel")
            of_gpu = self.reaches[self.rank].switch_channels
            members, _ = entry.item(of_gpu, number, "switch channel")
            return self._places_at_members(members, number, first, chunks)
        if "buffer_id" in entry.data:
            of_block = self.buffers.get(kind, ())
            number = entry.item(of_block, entry.data["buffer_id"], "remote buffer")
            peer_buffers = self.reaches[self.rank].peer_buffers
            owner, buffer = entry.item(peer_buffers, number, "remote buffer")
        else:
            owner = self.rank
            buffer = entry.buffer("type")
        return [PlanPlace(owner, buffer, first, chunks)]

    def _places_at_members(
        self, members: tuple[int, ...], number: int, first: int, chunks: int
    ) -> list[PlanPlace]:
        """Return the place behind this GPU's switch channel ``number``, at each of its ranks."""
        # Channels of the same ranks are set up in the order in which each rank lists them.
        order = self.reaches[self.rank].switch_numbers(members).index(number)
        places = []
        for member in members:
            member_number = self.reaches[member].switch_numbers(members)[order]
            _, buffer = self.reaches[member].switch_channels[member_number]
            places.append(PlanPlace(member, buffer, first, chunks))
        return places


def _check_size(place: PlanMapping, size: Chunks, parts: int, chunks: int) -> None:
    """Raise an error if an operation in a pipeline over so many chunks has a place of another size. A
    group of threadblocks may move them together, or as many each."""
    if size not in (chunks, chunks * parts):
        raise place.error(
            f"{size} chunks in a pipeline over {chunks}: of messages longer than a piece it moves too"
            " few or too many",
            f"num_chunks {size}, or places of {chunks}",
        )


def _part_of_group(entry: PlanMapping) -> tuple[int, int]:
    """Return which part of an operation this threadblock does, and of how many: the first of one
    without a group."""
    if "tbg_info" not in entry.data:
        return 0, 1
    group = entry.inner("tbg_info")
    size = group.number("tbg_size", MOST_CHUNKS)
    number = group.number("tb_id", MOST_CHUNKS)
    if number >= size:
        raise group.error(f"tb_id {number} of a group of {size}", "tb_id from 0 to tbg_size - 1")
    return number, size


def _group_key(entry: PlanMapping) -> tuple[str, int] | None:
    """Return a text that an operation has in common with those of its group, and which part it does.
    None without a group."""
    part, size = _part_of_group(entry)
    if size == 1:
        return None
    keys = ("name", "src_buff", "dst_buff")
    return f"{size} {[entry.data.get(key) for key in keys]}", part


def _piece(op: PlanOp, begin: Chunks, end: Chunks) -> PlanOp:
    """Return an operation on the piece from ``begin`` to ``end`` of its places."""
    return op._replace(sources=_cut(op.sources, begin, end), targets=_cut(op.targets, begin, end))


def _cut(places: Sequence[PlanPlace], begin: Chunks, end: Chunks) -> tuple[PlanPlace, ...]:
    """Return the piece of each place; it is empty behind the end of the place."""
    pieces = []
    for place in places:
        piece_end = min(end, place.chunks)
        pieces.append(place.part(min(begin, piece_end), piece_end))
    return tuple(pieces)
