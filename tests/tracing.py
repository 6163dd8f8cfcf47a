"""Small traces as the PyTorch profiler writes them, made of what a test says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

RING_LL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
START = 4_458_677_000_000.0  # us, as large as they are


def labels(
    ranks: list[int], called: str = "allreduce", elements: int = 2**20, **more: Any
) -> dict[str, Any]:
    """The metadata of a call."""
    return {
        "Collective name": called,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Group size": len(ranks),
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": str(ranks),
    } | more


def kernel(
    at: float, lasts: float, name: str = "gemm", stream: int = 7, **args: Any
) -> dict[str, Any]:
    """A kernel that begins at so many us."""
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": START + at,
        "dur": lasts,
        "args": {"device": 0, "stream": stream} | args,
    }


def call(
    at: float, lasts: float, ranks: list[int], name: str = RING_LL, **about: Any
) -> dict[str, Any]:
    """A communication kernel with its metadata; ``about`` as :func:`labels`."""
    return kernel(at, lasts, name, 20, **labels(ranks, **about))


def step(number: int, at: float, lasts: float) -> dict[str, Any]:
    """An annotated step."""
    name = f"ProfilerStep#{number}"
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": START + at,
        "dur": lasts,
    }


def text(events: list[Any], rank: int | None = 0, world: int = 2, **more: Any) -> str:
    """A trace as a file holds it."""
    header = (
        {}
        if rank is None
        else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}
    )
    return json.dumps({"schemaVersion": 1} | header | more | {"traceEvents": events})


def write(path: Path, events: list[Any], rank: int | None = 0, world: int = 2, **more: Any) -> Path:
    """Write a trace, gzipped where the name says so."""
    content = text(events, rank, world, **more).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
