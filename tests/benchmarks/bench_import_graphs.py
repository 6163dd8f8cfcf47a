"""What ``fabric import nccl-topo`` makes of topology files, against NCCL's own graphs and picks.

    python tests/benchmarks/bench_import_graphs.py [FOLDER] [--class NAME] [--all]

FOLDER has ``golden.jsonl`` and the XML files, plain or packed; by default the part of them that the
tests have. Each file is imported for two nodes, and judged on one and on both. Printed by class: imported and refused
files; of how many the fabric's ring has NCCL's channels and bandwidth, and how many pick as NCCL does
at every size; and the bandwidth of a large all-reduce by rings as a share of NCCL's own number,
least, median and most. Cards in PCIe slots reach each other's memory there, as NCCL's search takes
it. ``--all``: a line a file.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parent.parent)]

import golden_graphs  # noqa: E402


def main() -> int:
    parser = golden_graphs.arguments()
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    shares: dict[str, list[float]] = defaultdict(list)
    seconds = []
    for row, file in golden_graphs.files(asked):
        start = time.process_time()
        for found in golden_graphs.imported(row, file):
            if asked.all or found.refused or not (found.same_ring and found.same_picks):
                print(found.line)
            for kind in ("all", row["class"]):
                counts[kind, "all"] += 1
                counts[kind, "refused"] += bool(found.refused)
                counts[kind, "ring"] += found.same_ring
                counts[kind, "picks"] += found.same_picks
                if found.share:
                    shares[kind].append(found.share)
        seconds.append(time.process_time() - start)
    print(
        f"{'class':<14} imports refused  ring  picks  priced: least median   most of NCCL's number"
    )
    for kind in sorted({kind for kind, _ in counts}):
        row_counts = [counts[kind, column] for column in ("all", "refused", "ring", "picks")]
        numbers = "{:>7} {:>7} {:>5} {:>6}".format(*row_counts)
        own = shares[kind] or [0.0]
        rates = f"{min(own):>13.2f} {median(own):>6.2f} {max(own):>6.2f}"
        print(f"{kind:<14} {numbers} {rates}")
    print(f"seconds a file, imported and priced: {median(seconds):.2f}, most {max(seconds):.2f}")
    return int(counts["all", "picks"] + counts["all", "refused"] < counts["all", "all"])


if __name__ == "__main__":
    sys.exit(main())
