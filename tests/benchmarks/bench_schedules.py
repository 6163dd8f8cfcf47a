"""Seconds and peak memory of executing schedules:
``python tests/benchmarks/bench_schedules.py``."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

import colltool
from colltool.algorithms.executor import run
from colltool.algorithms.program import program_maker
from colltool.base.primitives import AR
from colltool.network.group import Axis, Group
from tests.wiring import LatticeNetwork, Ports


def ring_512() -> None:
    make = program_maker(AR, "ring")
    assert make is not None
    assert run(make(Group(512, "star"), 1), Ports(512).carry).holds


def everything_at_64() -> None:
    assert colltool.verify(["star512", "torus512", "mesh512"], ranks=64).holds


def links_of_a_cube() -> None:
    """Every message of an all-to-all of 4096 ranks, a few sources at a time."""
    ranks, at_once = 16**3, 128
    network = LatticeNetwork([Axis(16, True)] * 3)
    total = np.zeros(3 * ranks * 2)
    for first in range(0, ranks, at_once):
        src, dst = np.divmod(np.arange(first * ranks, (first + at_once) * ranks), ranks)
        total += network.loads(src, dst, np.full(len(src), 1 / ranks))
    assert abs(total.max() - 2.0) < 1e-9, "d/8 of M at d = 16"


def measured(work: Callable[[], None]) -> tuple[float, float]:
    """The least seconds of three runs, and the peak MB that Python and numpy held in one more."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak / 1e6


if __name__ == "__main__":
    for title, work in {
        "ring all-reduce, 512 ranks": ring_512,
        "every algorithm, 64 ranks, star + torus + mesh": everything_at_64,
        "all-to-all links, 16x16x16 torus": links_of_a_cube,
    }.items():
        seconds, peak = measured(work)
        print(f"{title:48s} {seconds:8.3f} s  {peak:8.1f} MB peak")
