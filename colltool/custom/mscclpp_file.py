"""MSCCL++'s execution plans, JSON: read strictly.

Each GPU has threadblocks of operations on its buffers and, through channels, on those of its peers:
puts, gets, reductions that read or write a peer, packets, signals and waits. What needs switches
that compute (``gstore``, ``glre``), semaphores or loops is refused by name. Source of the format:
microsoft/mscclpp, python/mscclpp/language/internal/operations.py and test/executor-tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.schedule import MOST_CHUNKS, MOST_MOVES

MOST_STEPS = 200_000

# Operations by what they do: copy their source, or add up their sources, to all targets.
COPIES = frozenset(("copy", "put", "pws", "pwsf", "get", "ppkt", "rppkt", "cpkt", "upkt"))
SUMS = frozenset(("re", "rre", "rres", "res", "repkt", "respkt", "recspkt", "recpkt"))
SIGNALS = frozenset(("signal", "rlxsignal", "pws", "pwsf"))
WAITS = frozenset(("wait", "rlxwait"))
NOTHING = frozenset(("nop", "flush"))
# They wait for packets in their sources in scratch.
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


def plan_of(gpus: list[PlanMapping], file: str) -> ExecutionPlan:
    """Return the plan of the GPUs of a file."""
    plan = ExecutionPlan({}, [], file)
    moves = 0
    steps = 0
    for rank, gpu in enumerate(gpus):
        if gpu.number("id") != rank:
            raise gpu.refused(f"expected id {rank}")
        plan.sizes[rank, INPUT] = gpu.number("input_chunks", MOST_CHUNKS)
        plan.sizes[rank, OUTPUT] = gpu.number("output_chunks", MOST_CHUNKS)
        plan.sizes[rank, SCRATCH] = gpu.number("scratch_chunks", MOST_CHUNKS)
        peers = _Reachable(gpu, len(gpus))
        for block in gpu.listed("threadblocks"):
            reader = _Operations(block, peers, rank)
            ops = [reader.op(entry) for entry in block.listed("ops", MOST_STEPS)]
            plan.blocks.append((rank, ops))
            steps += len(ops)
            for op in ops:
                moves += sum(place.chunks for place in (*op.sources, *op.targets))
            if steps > MOST_STEPS or moves > MOST_MOVES:
                what = (
                    f"more than {MOST_STEPS} operations, or {MOST_MOVES} chunks moved, are not"
                    " followed"
                )
                raise ColltoolError(what, where=file, fix="fewer threadblocks or chunks")
    return plan


class PlanMapping:
    """A mapping of the file, checked key by key, with its path for errors."""

    def __init__(self, data: Any, file: str, path: str) -> None:
        self.data = data
        self.file = file
        self.path = path
        if not isinstance(data, dict):
            raise self.refused(f"expected a mapping, got {quote(data)}")

    def refused(self, what: str, fix: str = "") -> ColltoolError:
        where = f"{self.file}: {self.path}" if self.path else self.file
        return ColltoolError(what, where=where, fix=fix)

    def number(self, key: str, most: int = 2**31) -> int:
        value = self.data.get(key)
        if type(value) is not int or not 0 <= value <= most:
            raise self.refused(f"{key} is a whole number from 0 to {most}, got {quote(value)}")
        return value

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str):
            raise self.refused(
                f"{key} is a text, got {quote(value)}",
                "older plans name their parts otherwise: write it anew with MSCCL++'s language",
            )
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
    """What a GPU can reach: its channels by type, each as the peer and the number of the channel to
    it; and buffers of peers."""

    def __init__(self, gpu: PlanMapping, ranks: int) -> None:
        self.channels: dict[object, list[tuple[int, int]]] = {}
        for entry in gpu.listed("channels"):
            counts = Counter[int]()
            channels = self.channels.setdefault(entry.data.get("channel_type"), [])
            for peer in entry.items("connected_to"):
                if type(peer) is not int or not 0 <= peer < ranks:
                    raise entry.refused(f"a channel is connected to {quote(peer)}, which is no GPU")
                channels.append((peer, counts[peer]))
                counts[peer] += 1
        self.buffers: list[tuple[int, str]] = []
        for entry in gpu.listed("remote_buffers"):
            self.buffers.append((entry.number("rank", ranks - 1), entry.text("type")))


class _Operations:
    """Reads the operations of a threadblock, whose own lists number channels and buffers."""

    def __init__(self, block: PlanMapping, peers: _Reachable, rank: int) -> None:
        self.peers = peers
        self.rank = rank
        self.channels: dict[object, Sequence[Any]] = {}
        for entry in block.listed("channels"):
            self.channels[entry.data.get("channel_type")] = entry.items("channel_ids")
        self.buffers: dict[object, Sequence[Any]] = {}
        for entry in block.listed("remote_buffer_refs"):
            kind = entry.data.get("access_channel_type")
            self.buffers[kind] = entry.items("remote_buffer_ids")

    def op(self, entry: PlanMapping) -> PlanOp:
        """Return an operation of the threadblock."""
        name = entry.text("name")
        kind = entry.data.get("channel_type")
        if name not in NAMES:
            known = ", ".join(sorted(NAMES))
            raise entry.refused(
                f"the operation '{clipped(name)}' is not followed", f"known: {known}"
            )
        sources = tuple(self._place(place, kind) for place in entry.listed("src_buff"))
        targets = tuple(self._place(place, kind) for place in entry.listed("dst_buff"))
        own = self.channels.get(kind, ())
        numbers = [entry.item(own, index, "channel") for index in entry.items("channel_ids")]
        every = self.peers.channels.get(kind, ())
        channels = tuple(entry.item(every, number, "channel") for number in numbers)
        barrier = entry.number("barrier_id") if name == "barrier" else -1
        return PlanOp(name, sources, targets, channels, barrier, f"{entry.path} ({name})")

    def _place(self, entry: PlanMapping, kind: object) -> PlanPlace:
        first = entry.number("index", MOST_CHUNKS)
        chunks = entry.number("size", MOST_CHUNKS)
        if "buffer_id" in entry.data:
            own = self.buffers.get(kind, ())
            number = entry.item(own, entry.data["buffer_id"], "remote buffer")
            owner, buffer = entry.item(self.peers.buffers, number, "remote buffer")
        else:
            owner = self.rank
            buffer = entry.text("type")
        if buffer not in (INPUT, OUTPUT, SCRATCH):
            raise entry.refused(f"a buffer is i, o or s, got '{clipped(buffer)}'")
        return PlanPlace(owner, buffer, first, chunks)
