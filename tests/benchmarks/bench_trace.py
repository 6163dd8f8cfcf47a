"""How long a large trace takes to read, and how much memory: ``colltool trace`` in a process of its
own.

    python tests/benchmarks/bench_trace.py [MB]

Writes a trace of that size (1024 MB of JSON) beside its gzipped half, as the profiler mixes them:
operators of the host, flows between host and device, kernels, an all-reduce in every hundred.
Promised are 60 s and 500 MB for 1 GB.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from tracing import RING_LL, START, labels

HEAD = (
    '{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},'
    ' "traceEvents": [\n'
)
MEASURED = """
import json, resource, sys, time
import colltool
start = time.perf_counter()
found = colltool.trace("dgx-h100", sys.argv[1])
print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(found.calls)]))
"""


def events() -> Iterator[str]:
    """Events without end, about 400 bytes each."""
    number = 0
    common = {
        "queued": 0,
        "device": 0,
        "context": 1,
        "registers per thread": 96,
        "shared memory": 87568,
        "blocks per SM": 0.074,
        "warps per SM": 1.259,
        "grid": [8, 1, 1],
        "block": [544, 1, 1],
        "est. achieved occupancy %": 0,
    }
    while True:
        at, about = START + 20 * number, {"External id": number, "correlation": number}
        host = {
            "ph": "X",
            "cat": "cpu_op",
            "pid": 99,
            "tid": 99,
            "ts": at,
            "dur": 9.5,
            "name": "aten::linear_backward",
        }
        yield json.dumps(
            host
            | {
                "args": (
                    about
                    | {
                        "Input Dims": [[4096, 4096], [4096, 11008]],
                        "Input type": ["float", "float"],
                    }
                )
            }
        )
        yield json.dumps(
            {"ph": "s", "id": number, "pid": 99, "tid": 99, "ts": at, "cat": "ac2g", "name": "ac2g"}
        )
        device = {"ph": "X", "cat": "kernel", "pid": 0, "ts": at + 5}
        if number % 100:
            name = "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nt_align8>(Params)"
            yield json.dumps(
                device
                | {
                    "tid": 7,
                    "dur": 15.25,
                    "name": name,
                    "args": about | common | {"stream": 7},
                }
            )
        else:
            args = about | common | {"stream": 20} | labels(list(range(8)), elements=2**24)
            yield json.dumps(device | {"tid": 20, "dur": 650.5, "name": RING_LL, "args": args})
        number += 1


def write(path: Path, size: int) -> None:
    """A trace of so many bytes of JSON, gzipped where its name says so."""
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        written = file.write(HEAD)
        for event in events():
            if written > size:
                break
            written += file.write(event + ",\n")
        file.write("{}]}\n")


def main(megabytes: int) -> None:
    """Write, read, tell."""
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("trace.json", 1), ("trace.json.gz", 2)):
            path = Path(folder) / name
            write(path, megabytes * 2**20 // part)
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            seconds, memory, calls = json.loads(done.stdout)
            print(
                f"{name}, {megabytes // part} MB of JSON: {seconds:.1f} s, {memory:.0f} MB, {calls}"
                " calls"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
