"""What many prices beside each other take: seconds of a call and the peak memory of a process of
its own.

    python tests/benchmarks/bench_choices.py

A sweep of 10,000 cells by sizes, ranks and two numbers; one of 10,000 sizes; 100,000 samples of
every row. Beside each, as a ratio in the same run, one price as JSON on the command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "price": ["price", "ar", "-f", "dgx-h100", "-n", "64", "-M", "1GB", "--format", "json"],
    "sweep, 10,000 cells": [
        "sweep",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "8,16,64,256",
        "--vary",
        "ib.bandwidth=25GB/s:100GB/s:20",
        "--vary",
        "nvlink.eta.beta=0.6:0.9:21",
        "--format",
        "json",
    ],
    "sweep, two numbers": [
        "sweep",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "16MB,64MB,256MB,1GB",
        "--vary",
        "ib.eta.beta=0.5:1:50",
        "--vary",
        "ib.bandwidth=25GB/s:100GB/s:50",
        "--format",
        "json",
    ],
    "compare, 4 columns": [
        "compare",
        "ar,a2a",
        "-f",
        "dgx-h100",
        "-n",
        "64,256",
        "--vary",
        "ib.eta.beta=0.6,0.7,0.8,0.9",
    ],
    "sensitivity, 100,000 samples": [
        "sensitivity",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "32MB",
        "--format",
        "json",
    ],
    "sensitivity, 72 numbers": [
        "sensitivity",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "8",
        "-M",
        "4MB",
        "--format",
        "json",
    ],
}


def taken(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of a command in a process of its own."""
    begun = time.perf_counter()
    with (
        Path(os.devnull).open("w") as nowhere,
        subprocess.Popen([sys.executable, "-m", "colltool", *arguments], stdout=nowhere) as process,
    ):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def main() -> None:
    base = min(taken(COMMANDS["price"])[0] for _ in range(3))
    for name, arguments in COMMANDS.items():
        runs = [taken(arguments) for _ in range(3)]
        seconds, peak = min(run[0] for run in runs), max(run[1] for run in runs)
        print(f"{name:30} {seconds:6.2f} s  {seconds / base:5.1f} x price  {peak:6.0f} MiB")


if __name__ == "__main__":
    main()
