"""Execution plans as MSCCL++ writes them; the first three are published ones, to the last
character."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Place = tuple[str | int, int, int]  # a buffer, or the number of a peer's; offset and chunks


def places(several: Sequence[Place]) -> list[dict[str, Any]]:
    return [
        {"type" if isinstance(buffer, str) else "buffer_id": buffer, "index": index, "size": size}
        for buffer, index, size in several
    ]


def op(
    name: str,
    src: Sequence[Place] = (),
    dst: Sequence[Place] = (),
    *,
    ids: bool = False,
    kind: str = "",
    add: bool = False,
) -> Any:
    found: dict[str, Any] = {"name": name}
    found |= {"src_buff": places(src)} if src else {}
    found |= {"dst_buff": places(dst)} if dst else {}
    found |= {"channel_ids": [0]} if ids else {}
    found |= {"channel_type": kind} if kind else {}
    return found | ({"reduce_op": "sum"} if add else {})


def block(
    number: int, ops: Sequence[Any], kind: str = "", channel: int = 0, buffers: Sequence[int] = ()
) -> Any:
    refs = [{"access_channel_type": kind, "remote_buffer_ids": list(buffers)}] if buffers else []
    channels = [{"channel_type": kind, "channel_ids": [channel]}] if kind else []
    return {"id": number, "ops": list(ops), "channels": channels, "remote_buffer_refs": refs}


def gpu(
    number: int,
    chunks: tuple[int, int, int],
    blocks: Sequence[Any],
    kind: str,
    peers: Sequence[int],
    remote: Sequence[str],
) -> Any:
    keys = ("input_chunks", "output_chunks", "scratch_chunks")
    buffers = [{"rank": peers[0], "type": one, "access_channel_types": [kind]} for one in remote]
    return {
        "id": number,
        **dict(zip(keys, chunks, strict=True)),
        "threadblocks": list(blocks),
        "channels": [{"channel_type": kind, "connected_to": list(peers)}],
        "remote_buffers": buffers,
        "semaphores": [],
    }


def plan(
    name: str, collective: str, protocol: str, gpus: Sequence[Any], *, double: bool = False
) -> str:
    head = {
        "name": name,
        "collective": collective,
        "protocol": protocol,
        "inplace": True,
        "reuse_resources": False,
    }
    tail = {
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": double,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": 2**64 - 1,
    }
    return json.dumps(head | {"gpus": list(gpus)} | tail, indent=2) + "\n"


NOP = op("nop")


def spaced(*ops: Any, first: bool = False) -> list[Any]:
    """Operations with a synchronisation of the threadblock behind each, as the optimiser leaves
    them."""
    return [*([NOP] if first else []), *(one for each in ops for one in (each, NOP))]


def reduce() -> str:
    """test/executor-tests/execution-plans/reduce.json (8,631 characters): an all-reduce by reads,
    writes and a get."""
    signal, wait = (op(name, ids=True, kind="memory") for name in ("signal", "wait"))
    first = [
        *spaced(op("copy", [("i", 2, 2)], [("s", 2, 2)]), signal, wait),
        op("rres", [("i", 0, 1), (0, 0, 1)], [("i", 0, 1), (1, 0, 1)], kind="memory", add=True),
        op("get", [(0, 1, 1)], [("s", 1, 1)], ids=True, kind="memory"),
        NOP,
        *spaced(
            op(
                "res", [("i", 1, 1), ("s", 1, 1)], [("i", 1, 1), (1, 1, 1)], kind="memory", add=True
            ),
            signal,
            wait,
        ),
    ]
    second = spaced(
        op("copy", [("i", 0, 2)], [("s", 0, 2)]),
        signal,
        wait,
        op("rre", [("i", 2, 2), (0, 2, 2)], [("i", 2, 2)], kind="memory", add=True),
        op("copy", [("i", 2, 2)], [("s", 2, 2)]),
        op("put", [("s", 2, 2)], [(0, 2, 2)], kind="memory"),
        signal,
        wait,
    )
    return plan(
        "reduce",
        "allreduce",
        "Simple",
        [
            gpu(0, (4, 4, 4), [block(0, first, "memory", 0, (0, 1))], "memory", [1], ["s", "i"]),
            gpu(1, (4, 4, 4), [block(0, second, "memory", 0, (0,))], "memory", [0], ["i"]),
        ],
    )


def reduce_pack() -> str:
    """reduce_pack.json (6,500 characters): an all-reduce by packets."""

    def blocks(own: int, other: int, reduced: Any) -> list[Any]:
        return [
            block(
                0,
                [op("ppkt", [("i", other, 1)], [(0, other, 1)], kind="memory")],
                "memory",
                0,
                (0,),
            ),
            block(1, [reduced], "memory", 0, (0,)),
            block(2, [op("upkt", [("s", other, 1)], [("i", other, 1)])]),
        ]

    first = op(
        "respkt", [("i", 0, 1), ("s", 0, 1)], [("i", 0, 1), (0, 0, 1)], kind="memory", add=True
    )
    second = op(
        "recspkt",
        [("i", 1, 1), ("s", 1, 1)],
        [("i", 1, 1), ("s", 2, 1), (0, 1, 1)],
        kind="memory",
        add=True,
    )
    gpus = [
        gpu(0, (2, 2, 3), blocks(0, 1, first), "memory", [1], ["s"]),
        gpu(1, (2, 2, 3), blocks(1, 0, second), "memory", [0], ["s"]),
    ]
    return plan("reduce_pack", "allreduce", "LL", gpus, double=True)


def multi_node_transfer() -> str:
    """multi_node_transfer.json (7,827 characters): an all-gather by puts over two port channels."""
    signal, wait, flush = (op(name, ids=True, kind="port") for name in ("signal", "wait", "flush"))

    def put(name: str, first: int, count: int) -> Any:
        return op(name, [("o", first, count)], [(0, first, count)], ids=True, kind="port")

    return plan(
        "multi_node_transfer",
        "allgather",
        "Simple",
        [
            gpu(
                0,
                (2, 4, 0),
                [
                    block(
                        0,
                        spaced(signal, wait, put("put", 0, 1), signal, flush, wait, first=True),
                        "port",
                        0,
                        (0,),
                    ),
                    block(
                        1,
                        spaced(signal, wait, put("pws", 1, 1), flush, first=True),
                        "port",
                        1,
                        (0,),
                    ),
                ],
                "port",
                [1, 1],
                ["o"],
            ),
            gpu(
                1,
                (2, 4, 0),
                [
                    block(
                        0,
                        spaced(signal, wait, put("pwsf", 2, 2), wait, first=True),
                        "port",
                        0,
                        (0,),
                    ),
                    block(1, spaced(signal, wait, wait, first=True), "port", 1),
                ],
                "port",
                [0, 0],
                ["o"],
            ),
        ],
    )


class Plan:
    """A plan of all pairs that :func:`generated` writes, and its variants."""

    def __init__(
        self, way: str, ranks: int, *, chunks: int = 1, group: int = 1, pipeline: int = 0
    ) -> None:
        self.way = way
        self.ranks = ranks
        self.chunks = chunks
        self.group = group
        self.pipeline = pipeline
        self.kind = "port" if way in ("fused", "signalled") else "memory"
        self.buffer = "i" if way in ("two-shot", "switch-sum", "scatter", "packet-sum") else "o"

    def part(self, buffer: str | int, rank: int) -> dict[str, Any]:
        """The chunks of a rank in a buffer, or in that of the peer with this number."""
        key = "type" if isinstance(buffer, str) else "buffer_id"
        return {key: buffer, "index": rank * self.chunks, "size": self.chunks}

    def moved(self, name: str, src: Any, dst: Any, number: int, **keys: Any) -> dict[str, Any]:
        found = {"name": name, "src_buff": src, "dst_buff": dst, "channel_type": self.kind, **keys}
        if self.group > 1:
            found["tbg_info"] = {"tb_id": number, "tbg_size": self.group}
        return found

    def ops(self, rank: int, number: int) -> list[dict[str, Any]]:
        """The operations of a threadblock, which is this one of its group."""
        peers = range(self.ranks - 1)
        others = [other for other in range(self.ranks) if other != rank]
        channels = {"channel_ids": list(peers), "channel_type": self.kind}
        signal = {"name": "signal", **channels}
        wait = {"name": "wait", **channels}
        own = self.part(self.buffer, rank)
        theirs = [self.part(peer, rank) for peer in peers]
        switch = {"switch_channel_id": 0, "index": rank * self.chunks, "size": self.chunks}

        def moved(name: str, src: Any, dst: Any, **keys: Any) -> dict[str, Any]:
            return self.moved(name, src, dst, number, **keys)

        match self.way:
            case "put":
                return [*(moved("put", [own], [to]) for to in theirs), signal, wait]
            case "fused":
                ids = {"channel_ids": list(peers)}
                return [moved("put", [own] * len(theirs), theirs, **ids), signal, wait]
            case "signalled":
                ids = {"channel_ids": list(peers)}
                return [moved("pws", [own] * len(theirs), theirs, **ids), wait]
            case "get":
                src = [self.part(at, other) for at, other in enumerate(others)]
                return [signal, wait, moved("get", src, [self.part("o", at) for at in others])]
            case "packets":
                sent = [moved("ppkt", [own], [to]) for to in theirs]
                pairs = [(self.part("s", other), self.part("o", other)) for other in others]
                return [*sent, *(moved("upkt", [src], [dst]) for src, dst in pairs)]
            case "switch-store":
                return [
                    signal,
                    wait,
                    moved("gstore", [own], [switch], channel_type="switch"),
                    signal,
                    wait,
                ]
            case "switch-sum":
                summed = moved("glres", [switch], [switch], channel_type="switch")
                return [signal, wait, summed, signal, wait]
            case "two-shot":
                summed = moved("rres", [own, *theirs], [own, *theirs])
                return [signal, wait, summed, signal, wait]
            case "scatter":
                return [signal, wait, moved("rre", [own, *theirs], [own])]
            case "packet-sum":
                return self.packet_sum(rank, number, others)
        raise AssertionError(self.way)

    def packet_sum(self, rank: int, number: int, others: Sequence[int]) -> list[dict[str, Any]]:
        """Everyone's part to its owner's scratch, the sum to scratch behind it, and unpacked."""

        def scratch(buffer: str | int, place: int) -> dict[str, Any]:
            return self.part(buffer, place)

        sent = []
        for peer, other in enumerate(others):
            src = self.part("i", other)
            sent.append(self.moved("ppkt", [src], [scratch(peer, rank)], number))
        arrived = [scratch("s", other) for other in others]
        back = [scratch(peer, self.ranks + rank) for peer in range(len(others))]
        own = self.part("i", rank)
        summed = self.moved("respkt", [own, *arrived], [own, *back], number)
        unpacked = []
        for other in others:
            src = scratch("s", self.ranks + other)
            unpacked.append(self.moved("upkt", [src], [self.part("i", other)], number))
        return [*sent, summed, *unpacked]

    def gpu(self, rank: int) -> dict[str, Any]:
        others = [other for other in range(self.ranks) if other != rank]
        count = len(others)
        blocks = []
        for number in range(self.group):
            ops = self.ops(rank, number)
            if self.pipeline:
                context = {"unit_size": self.pipeline, "num_chunks": self.chunks}
                ops = [{"name": "pipeline", "iter_context": context, "ops": ops}]
            ids = list(range(number * count, (number + 1) * count))
            channels = [
                {"channel_type": self.kind, "channel_ids": ids},
                {"channel_type": "switch", "channel_ids": [0]},
            ]
            refs = [
                {"access_channel_type": self.kind, "remote_buffer_ids": list(range(count))},
            ]
            blocks.append(
                {"id": number, "ops": ops, "channels": channels, "remote_buffer_refs": refs}
            )
        group = {"size": self.ranks, "ranks": list(range(self.ranks))}
        remote = "s" if "packet" in self.way else self.buffer
        gathers = self.buffer == "o"
        total = self.ranks * self.chunks
        return {
            "id": rank,
            "input_chunks": self.chunks if gathers else total,
            "output_chunks": self.chunks if self.way == "scatter" else total,
            "scratch_chunks": 2 * total,
            "threadblocks": blocks,
            "channels": [
                {"channel_type": self.kind, "connected_to": others * self.group},
                {"channel_type": "switch", "buffer_type": self.buffer, "rank_groups": [group]},
            ],
            "remote_buffers": [
                {"rank": other, "type": remote, "access_channel_types": [self.kind]}
                for other in others
            ],
            "semaphores": [],
        }

    def data(self) -> dict[str, Any]:
        collective = "allgather" if self.buffer == "o" else "allreduce"
        if self.way == "scatter":
            collective = "reducescatter"
        return {
            "name": self.way,
            "collective": collective,
            "protocol": "LL" if "packet" in self.way else "Simple",
            "inplace": True,
            "gpus": [self.gpu(rank) for rank in range(self.ranks)],
        }


WAYS = (
    *("put", "fused", "signalled", "get", "packets", "switch-store"),
    *("switch-sum", "two-shot", "scatter", "packet-sum"),
)


def staged(ranks: int, *, first: int = 2) -> dict[str, Any]:
    """An all-reduce in three pipelines of a GPU, which hand pieces on by semaphores: copied to
    scratch, summed in the switch, copied back; as plans of 2025 name channels."""
    gpus = []
    for rank in range(ranks):
        others = [other for other in range(ranks) if other != rank]
        peers = list(range(len(others)))
        both = [
            {"name": name, "channel_ids": peers, "channel_type": "memory"}
            for name in ("signal", "wait")
        ]
        switch = {"switch_channel_id": 0, "index": rank, "size": 1}
        into = [op("copy", [("i", at, 1)], [("s", at, 1)]) for at in range(ranks)]
        back = [op("copy", [("s", at, 1)], [("i", at, 1)]) for at in range(ranks)]
        summed = {"name": "glres", "src_buff": [switch], "dst_buff": [switch]}
        summed |= {"channel_ids": [0], "channel_type": "switch"}

        def stage(ops: Sequence[Any], take: int, give: int) -> list[Any]:
            inside = [
                {"name": "sem_acquire", "semaphore_ids": [take]},
                NOP,
                *ops,
                NOP,
                {"name": "sem_release", "semaphore_ids": [give]},
            ]
            context = {"unit_size": 2**19, "num_chunks": 1}
            return [{"name": "pipeline", "iter_context": context, "ops": inside}]

        memory = [{"channel_type": "memory", "channel_ids": peers}]
        later = [{"channel_type": "memory", "channel_ids": [len(peers) + at for at in peers]}]
        gpus.append(
            {
                "id": rank,
                "input_chunks": ranks,
                "output_chunks": 0,
                "scratch_chunks": ranks,
                "threadblocks": [
                    {"id": 0, "ops": stage([*into, *both], 2, 0), "channels": memory},
                    {
                        "id": 1,
                        "ops": stage([summed], 0, 1),
                        "channels": [
                            {"buff": "s", "channel_type": "switch", "channel_ids": [0]},
                        ],
                    },
                    {"id": 2, "ops": stage([*both, *back], 1, 2), "channels": later},
                ],
                "channels": [
                    {
                        "buff": "s",
                        "type": "switch",
                        "rank_groups": [{"size": ranks, "ranks": list(range(ranks))}],
                    },
                    {"type": "memory", "connected_to": others * 2},
                ],
                "remote_buffers": [],
                "semaphores": [{"init_value": at} for at in (0, 0, first)],
            }
        )
    return {
        "name": "staged",
        "collective": "allreduce",
        "protocol": "Simple",
        "inplace": True,
        "reuse_resources": True,
        "gpus": gpus,
    }
