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
