"""How reading and validating grow with a log: ratios of CPU time in one run, and the peak memory of
the largest.

    python tests/benchmarks/bench_validate.py

Ten times the sizes or lines should take about ten times as long, never a hundred.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

FABRIC = "dgx-h100"
HEAD = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: all_reduce_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""


def csv_log(path: Path, sizes: int) -> None:
    """As many distinct sizes, 1 KiB to 1 GiB, an all-reduce of 8 ranks each."""
    chance = random.Random(sizes)
    rows = ["collective,ranks,bytes,time_us"]
    for at in range(sizes):
        size = int(1024 * 2 ** (20 * at / sizes)) + at
        rows.append(
            f"all_reduce,8,{size},{(29 + 1.75 * size / 360e3) * (1 + 0.01 * chance.gauss(0, 1)):.4f}"
        )
    path.write_text("\n".join([*rows, ""]))


def nccl_log(path: Path, lines: int) -> None:
    """As many rows of nccl-tests, over 24 sizes again and again."""
    with path.open("w") as log:
        log.write(HEAD)
        for at in range(lines):
            size = 1024 << at % 24
            us = 29 + 1.75 * size / 360e3
            half = f"{us:8.2f}  {size / us / 1e3:6.2f}  {1.75 * size / us / 1e3:6.2f}      0"
            log.write(f"{size:12d} {size // 4:12d}     float     sum      -1  {half}  {half}\n")


def wide_log(path: Path, lines: int) -> None:
    """A short table among lines of numbers that are no rows."""
    nccl_log(path, 24)
    with path.open("a") as log:
        log.writelines("1.5 2.25 " * 66 + "\n" for _ in range(lines))


def measure(path: Path, command: str) -> tuple[float, float]:
    """CPU seconds and MB of one command in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, command, str(path)], capture_output=True, text=True, check=True
    )
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def alone(command: str, path: str) -> None:
    """The command in this process, imports left out."""

    import colltool

    work = {"validate": colltool.validate, "calibrate": colltool.calibrate}[command]
    start = process_time()
    work(FABRIC, [path])
    print(
        json.dumps(
            [process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
        )
    )


def main() -> None:
    cases = {
        "distinct sizes": (csv_log, 400, 4_000),
        "lines of nccl-tests": (nccl_log, 10_000, 100_000),
        "wide lines": (wide_log, 10_000, 100_000),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (write, few, many) in cases.items():
            for command in ("validate", "calibrate"):
                took = {}
                for count in (few, many):
                    path = Path(folder) / f"{count}.log"
                    write(path, count)
                    took[count] = measure(path, command)
                (first, _), (last, memory) = took[few], took[many]
                print(
                    f"{command} {many} {name}: {last:.2f} s, {memory:.0f} MB; {last / first:.1f}"
                    f" times {few}"
                )


if __name__ == "__main__":
    alone(*sys.argv[1:]) if len(sys.argv) == 3 else main()
