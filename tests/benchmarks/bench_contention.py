"""``contention`` of half a million pairs on a Clos of a million ranks, against the arrays that it
cannot do without:
``python tests/benchmarks/bench_contention.py``.

Each run is a process of its own, in turn with one that only makes a few arrays of the same lengths
with numpy (a sort and a count for each of the lines that are loaded): the peak of memory and the
seconds of both, and their ratios.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import median

FABRIC = """
name: clos
tiers:
  - name: net
    topology: clos
    size: {ranks}
    bandwidth: 50GB/s
    levels:
      - {{name: leaf, group: 8, alpha: 2us}}
      - {{name: pod, group: {pod}, alpha: 4us}}
      - {{name: spine, group: {ranks}, alpha: 8us, oversubscription: 4}}
"""
CASES = (("block", 2), ("cyclic", 2), ("random", 2))
# ports, and the uplinks and downlinks of leaves and pods
LINES = {"block": 2, "cyclic": 6, "random": 6}


def contention(kind: str, group: int, ranks: int) -> object:
    """The library's own run."""
    import colltool
    from colltool.fabric.load import read_fabric

    fabric = read_fabric(FABRIC.format(ranks=ranks, pod=ranks // 1000), "clos.yaml")
    return colltool.contention(fabric, {"kind": kind, "group": group})


def arrays(kind: str, ranks: int) -> object:
    """Load and users of every resource of every line: what an answer needs at the least."""
    import numpy as np

    resource_of, size = np.random.default_rng(1).permutation(ranks).astype(np.int32), np.ones(ranks)
    out = []
    for _ in range(LINES[kind]):
        order = np.argsort(resource_of, kind="stable")
        out.append((np.bincount(resource_of[order], size), np.bincount(resource_of)))
    return out


def measured(what: str, kind: str, group: int, ranks: int) -> None:
    """In a process of its own: print seconds and MiB as JSON."""
    start = time.perf_counter()
    kept = contention(kind, group, ranks) if what == "colltool" else arrays(kind, ranks)
    seconds = time.perf_counter() - start
    del kept
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def process(*arguments: object) -> tuple[float, float]:
    """Seconds and MiB of one run."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    seconds, peak = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return seconds, peak


def compare(kind: str, group: int, ranks: int, rounds: int) -> None:
    """Medians of both, and the medians of the ratios within a round."""
    runs = [
        (process("colltool", kind, group, ranks), process("arrays", kind, group, ranks))
        for _ in range(rounds)
    ]
    columns = [median(ours[i] for ours, _ in runs) for i in (0, 1)]
    ratios = [median(ours[i] / theirs[i] for ours, theirs in runs) for i in (0, 1)]
    print(
        f"{kind:<10}{group:>6}{columns[0]:>10.2f}{ratios[0]:>8.1f}{columns[1]:>10.0f}{ratios[1]:>8.1f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        what, kind, group, ranks = arguments.one
        measured(what, kind, int(group), int(ranks))
        return
    print(
        f"contention on a Clos of {arguments.ranks:,} ranks, median of {arguments.rounds} rounds;"
        " ratios to bare arrays"
    )
    print(f"{'pattern':<10}{'group':>6}{'seconds':>10}{'ratio':>8}{'MiB':>10}{'ratio':>8}")
    for kind, group in CASES:
        compare(kind, group, arguments.ranks, arguments.rounds)


if __name__ == "__main__":
    main()
