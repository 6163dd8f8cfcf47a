"""plan --search: layouts a second on one core, seconds and peak memory; each search in a process of
its own.

    python tests/benchmarks/bench_search.py [JOB FABRIC RANKS [KEY=VALUE of the fabric ...]]

``held`` layouts fill the ranks and fit together; each is weighed against the memory. ``fit`` are
those that fit it; each has a step of its own, but ZeRO-2 takes ZeRO-1's. Rates are by processor
time, which says what one core does on a busy machine too.
Loading is not timed.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

CASES = (
    ("llama3-70b", "dgx-h100", "512", "ib.size=64"),
    ("gpt3-175b", "dgx-a100", "512", "ib.size=64"),
    ("mixtral-8x7b", "dgx-h100", "512", "ib.size=64"),
    ("deepseek-v3", "dgx-h100", "1024", "ib.size=128"),
    ("deepseek-v3", "dgx-h100", "2048", "ib.size=256", "ib.levels.spine.group=256"),
)


def one(job: str, fabric: str, ranks: str, *values: str) -> None:
    import colltool

    loaded, on = colltool.load_job(job), colltool.load_fabric(fabric, values)
    start, worked = time.perf_counter(), time.process_time()
    found = colltool.search_layouts(loaded, on, int(ranks), top=10)
    took, worked = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{job:>14} {ranks:>6} {found.valid:>8} {found.fit:>8} {found.priced:>8} {took:>7.1f}"
        f" {worked:>7.1f} {found.valid / worked:>9,.0f} {found.priced / worked:>9,.0f} {peak:>9.0f}"
    )


def main() -> None:
    if len(sys.argv) > 3:
        one(*sys.argv[1:])
        return
    print(
        f"{'job':>14} {'ranks':>6} {'held':>8} {'fit':>8} {'priced':>8} {'seconds':>7}"
        f" {'of CPU':>7} {'held/s':>9} {'priced/s':>9} {'peak MiB':>9}",
        flush=True,
    )
    for case in CASES:
        subprocess.run([sys.executable, __file__, *case], check=True)


if __name__ == "__main__":
    main()
