"""How many of NCCL's graphs of topology files we find, and how long it takes.

    python tests/benchmarks/bench_graphs.py [FOLDER] [--class NAME]

FOLDER has ``golden.jsonl`` and the XML files, plain or packed; by default the part of them that the
tests have. Printed by class and number of nodes: equal shares of the numbers and orders of all
graphs, the communicator's channels, the cost model's tables and picks, the rings over two nodes; then
the seconds of CPU a file.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parent.parent)]

import golden_graphs  # noqa: E402

LEVELS = ("numbers", "orders", "channels", "tuner", "picks", "rings")


def main() -> int:
    asked = golden_graphs.arguments().parse_args()
    equal: Counter[tuple[str, str, str]] = Counter()
    every: Counter[tuple[str, str, str]] = Counter()
    seconds = {}
    wrong = []
    for row, file in golden_graphs.files(asked):
        start = time.process_time()
        for level, side, same in golden_graphs.judged(row, file):
            for kind in ("all", row["class"]):
                every[kind, level, side] += 1
                equal[kind, level, side] += same
            if not same:
                wrong.append(f"{row['id']} {level} {side}")
        seconds[row["id"]] = time.process_time() - start
    for kind, level, side in sorted(every, key=lambda key: (key[0], LEVELS.index(key[1]), key[2])):
        key = (kind, level, side)
        print(f"{kind:<14} {level:<8} {side:<8} {equal[key]:>4} of {every[key]:<4}")
    slowest = max(seconds, key=seconds.__getitem__)
    print(f"seconds a file: median {median(seconds.values()):.2f}, most {seconds[slowest]:.2f}")
    print(f"  ({slowest}; one and two nodes, with the cost model)")
    for name in wrong:
        print(f"differs: {name}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
