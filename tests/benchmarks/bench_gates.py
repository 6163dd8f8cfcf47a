"""The gates of prices over thousands of generated fabrics:
``python tests/benchmarks/bench_gates.py [FABRICS]`` (default 2,000).

Each fabric of ``tests/gated.py`` with some of its groups, every primitive at a size and under a
reading of its own; then, one primitive a fabric, more ranks, more bytes, more bandwidth, less
latency, an even spine, any library. What breaks a gate is printed with its seed; the exit status is
1 then.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from gated import READINGS, cases, made
from monotone import fewer_faster, ordered, slower_when_better

from colltool.base.primitives import Primitive
from colltool.estimate.price import price

_DUST = 1e-9


def cut_bound(fabrics: int) -> int:
    """No price below the cut bound; how many are."""
    seen: Counter[str] = Counter()
    start = time.perf_counter()
    for seed, where, who, primitive, size, readings in cases(range(fabrics)):
        seen["prices"] += 1
        for row in price(where, primitive, size, who, readings).results:
            bound = row.lower_bound_s
            if bound is None:
                seen["on other wires"] += 1
                continue
            seen["rows"] += 1
            seen["reach it"] += bool(row.bandwidth_s < bound * (1 + 1e-6))
            if row.total_s < bound * (1 - _DUST):
                seen["below"] += 1
                print(
                    f"seed {seed}: {row.title} of {primitive}, {who}, {size:g} B, {readings}:"
                    f" {row.total_s / bound:.4g}"
                )
    counts = ", ".join(f"{count:,} {what}" for what, count in seen.items())
    print(f"cut bound: {fabrics:,} fabrics, {counts}, {time.perf_counter() - start:.0f} s")
    return seen["below"]


def never_faster(fabrics: int) -> int:
    """Nothing that makes it harder makes it faster; in how many cases it does."""
    seen: Counter[str] = Counter()
    start = time.perf_counter()
    for seed in range(fabrics):
        where, readings = made(seed), READINGS[seed % len(READINGS)]
        primitive = list(Primitive)[seed % len(Primitive)]
        worse, excused = fewer_faster(ordered(where), primitive, readings)
        broken = [*slower_when_better(where, primitive, where.ranks, readings), *worse]
        for line in broken:
            print(f"seed {seed}: {line}, {readings}")
        seen.update(excused)
        seen["broken"] += len(broken)
    excuses = "".join(
        f"\n  {count:,} times: {reason}" for reason, count in seen.items() if reason != "broken"
    )
    print(
        f"never faster: {fabrics:,} fabrics, {seen['broken']} broken,"
        f" {time.perf_counter() - start:.0f} s{excuses}"
    )
    return seen["broken"]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    broken = cut_bound(count) + never_faster(count)
    sys.exit(1 if broken else 0)
