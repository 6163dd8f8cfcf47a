"""MSCCL++'s execution plans, JSON: read strictly, then run by :mod:`mscclpp_machine`.

Each GPU has threadblocks of operations on its buffers and, through channels, on those of its peers:
puts, gets, reductions that read or write a peer, packets, signals and waits. What needs switches
that compute (``gstore``, ``glre``), semaphores or loops is refused by name. Source of the format:
microsoft/mscclpp, python/mscclpp/language/internal/operations.py and test/executor-tests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, printable, shown
from colltool.base.primitives import AG
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.schedule import MOST_CHUNKS, MOST_MOVES, MOST_RANKS, OwnSchedule, promise_of

FORM = "MSCCL++ plan"
MOST_STEPS = 200_000

# what an operation does with the places that it names: copies the one source, or adds the sources
# up, and writes all targets
COPIES = frozenset(("copy", "put", "pws", "pwsf", "get", "ppkt", "rppkt", "cpkt", "upkt"))
SUMS = frozenset(("re", "rre", "rres", "res", "repkt", "respkt", "recspkt", "recpkt"))
SIGNALS = frozenset(("signal", "rlxsignal", "pws", "pwsf"))
WAITS = frozenset(("wait", "rlxwait"))
NOTHING = frozenset(("nop", "flush"))
# sources in scratch are waited for
PACKETS = frozenset(("upkt", "rppkt", "repkt", "respkt", "recspkt", "recpkt"))
NAMES = COPIES | SUMS | SIGNALS | WAITS | NOTHING | {"barrier"}


class PlanPlace(NamedTuple):
    """Consecutive chunks of a buffer, maybe a peer's."""

    rank: int
    buffer: str
    first: int
    chunks: int


class PlanOp(NamedTuple):
    """An operation; ``channels`` are the peer and the number of the channel to it."""

    name: str
    sources: tuple[PlanPlace, ...]
    targets: tuple[PlanPlace, ...]
    channels: tuple[tuple[int, int], ...]
    barrier: int
    where: str


class ExecutionPlan(NamedTuple):
    """A plan; ``blocks``: the rank and the operations of each threadblock."""

    sizes: dict[tuple[int, str], int]
    blocks: list[tuple[int, list[PlanOp]]]
    file: str


def is_plan(text: str) -> bool:
    return '"gpus"' in text and text.lstrip("\ufeff \t\r\n").startswith("{")


def read_mscclpp(text: str, file: str, name: str) -> OwnSchedule:
    """The schedule of a plan, executed in two opposite orders; ColltoolError names the operation
    that is wrong or unknown."""
    from colltool.custom.file import primitive_called
    from colltool.custom.mscclpp_machine import execute

    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ColltoolError(f"not valid JSON: {printable(what)}", where=file) from error
    head = _Mapping(data, file, "")
    collective = head.text("collective")
    primitive = primitive_called(collective)
    if primitive is None:
        what = f"the collective '{clipped(collective)}' promises nothing that can be checked"
        raise ColltoolError(
            what, where=file, fix="allreduce, allgather, reducescatter, alltoall or broadcast"
        )
    gpus = head.listed("gpus", MOST_RANKS)
    plan = _plan(gpus, file)
    buffer = OUTPUT if primitive is AG else INPUT
    chunks = max((plan.sizes[rank, buffer] for rank in range(len(gpus))), default=0)
    try:
        promise = promise_of(primitive, len(gpus), chunks)
    except ColltoolError as error:
        error.where = error.where or file
        raise
    in_place = head.data.get("inplace") is True
    batches, _ = (
        execute(plan, promise, in_place=in_place, backwards=backwards)
        for backwards in (False, True)
    )
    title = printable(str(head.data.get("name") or name))[:100]
    return OwnSchedule(title, primitive, len(gpus), chunks, batches, file=file, form=FORM)


def _plan(gpus: list[_Mapping], file: str) -> ExecutionPlan:
    plan, moves, steps = ExecutionPlan({}, [], file), 0, 0
    for rank, gpu in enumerate(gpus):
        if gpu.number("id") != rank:
            raise gpu.refused(f"expected id {rank}")
        sizes = ("input_chunks", INPUT), ("output_chunks", OUTPUT), ("scratch_chunks", SCRATCH)
        plan.sizes.update({(rank, buffer): gpu.number(key, MOST_CHUNKS) for key, buffer in sizes})
        peers = _Reachable(gpu, len(gpus))
        for block in gpu.listed("threadblocks"):
            reader = _Operations(block, peers, rank)
            ops = [reader.op(one) for one in block.listed("ops", MOST_STEPS)]
            plan.blocks.append((rank, ops))
            steps += len(ops)
            moves += sum(place.chunks for op in ops for place in (*op.sources, *op.targets))
            if steps > MOST_STEPS or moves > MOST_MOVES:
                what = (
                    f"more than {MOST_STEPS} operations, or {MOST_MOVES} chunks moved, are not"
                    " followed"
                )
                raise ColltoolError(what, where=file, fix="fewer threadblocks or chunks")
    return plan


class _Mapping:
    """A mapping of the file with its path, for errors."""

    def __init__(self, data: Any, file: str, path: str) -> None:
        self.data, self.file, self.path = data, file, path
        if not isinstance(data, dict):
            raise self.refused(f"expected a mapping, got {shown(data)}")

    def refused(self, what: str, fix: str = "") -> ColltoolError:
        return ColltoolError(
            what, where=f"{self.file}: {self.path}" if self.path else self.file, fix=fix
        )

    def number(self, key: str, most: int = 2**31) -> int:
        value = self.data.get(key)
        if type(value) is not int or not 0 <= value <= most:
            raise self.refused(f"{key} is a whole number from 0 to {most}, got {shown(value)}")
        return value

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str):
            raise self.refused(
                f"{key} is a text, got {shown(value)}",
                "older plans name their parts otherwise: write it anew with MSCCL++'s language",
            )
        return value

    def listed(self, key: str, most: int = 2**31) -> list[_Mapping]:
        return [
            _Mapping(one, self.file, f"{self.path}.{key}.{at}".lstrip("."))
            for at, one in enumerate(self.items(key, most))
        ]

    def items(self, key: str, most: int = 2**31) -> Sequence[Any]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or len(value) > most:
            raise self.refused(f"{key} is a list of at most {most}, got {shown(value)}")
        return value


class _Reachable:
    """What a GPU reaches: its channels of each type, as the peer and the how many-th to it; and
    buffers of peers."""

    def __init__(self, gpu: _Mapping, ranks: int) -> None:
        self.channels: dict[object, list[tuple[int, int]]] = {}
        for every in gpu.listed("channels"):
            counts: dict[int, int] = {}
            found = self.channels.setdefault(every.data.get("channel_type"), [])
            for peer in every.items("connected_to"):
                if type(peer) is not int or not 0 <= peer < ranks:
                    raise every.refused(f"a channel is connected to {shown(peer)}, which is no GPU")
                counts[peer] = counts.get(peer, -1) + 1
                found.append((peer, counts[peer]))
        self.buffers = [
            (one.number("rank", ranks - 1), one.text("type"))
            for one in gpu.listed("remote_buffers")
        ]


class _Operations:
    """Reads the operations of a threadblock, with what its own lists say of channels and
    buffers."""

    def __init__(self, block: _Mapping, peers: _Reachable, rank: int) -> None:
        self.peers, self.rank = peers, rank
        self.channels = {
            one.data.get("channel_type"): one.items("channel_ids")
            for one in block.listed("channels")
        }
        self.buffers = {
            one.data.get("access_channel_type"): one.items("remote_buffer_ids")
            for one in block.listed("remote_buffer_refs")
        }

    def op(self, one: _Mapping) -> PlanOp:
        name, kind = one.text("name"), one.data.get("channel_type")
        if name not in NAMES:
            known = ", ".join(sorted(NAMES))
            raise one.refused(f"the operation '{clipped(name)}' is not followed", f"known: {known}")
        places = [
            tuple(self._place(place, kind) for place in one.listed(key))
            for key in ("src_buff", "dst_buff")
        ]
        numbers = [
            _item(self.channels.get(kind, ()), at, one, "channel")
            for at in one.items("channel_ids")
        ]
        channels = tuple(
            _item(self.peers.channels.get(kind, ()), number, one, "channel") for number in numbers
        )
        barrier = one.number("barrier_id") if name == "barrier" else -1
        return PlanOp(name, places[0], places[1], channels, barrier, f"{one.path} ({name})")

    def _place(self, one: _Mapping, kind: object) -> PlanPlace:
        first, chunks = one.number("index", MOST_CHUNKS), one.number("size", MOST_CHUNKS)
        if "buffer_id" in one.data:
            number = _item(self.buffers.get(kind, ()), one.data["buffer_id"], one, "remote buffer")
            owner, buffer = _item(self.peers.buffers, number, one, "remote buffer")
        else:
            owner, buffer = self.rank, one.text("type")
        if buffer not in (INPUT, OUTPUT, SCRATCH):
            raise one.refused(f"a buffer is i, o or s, got '{clipped(buffer)}'")
        return PlanPlace(owner, buffer, first, chunks)


def _item(items: Sequence[Any], index: object, one: _Mapping, what: str) -> Any:
    """An item of a list by its number."""
    if type(index) is not int or not 0 <= index < len(items):
        raise one.refused(f"there is no {what} {shown(index)}: it has {len(items)}")
    return items[index]
