"""What a library costs beside a price: the same call ranked for NCCL, with its pick, against all;
and a table of picks.

python tests/benchmarks/bench_library.py
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import colltool

ROUNDS, CALLS = 7, 40
SIZES = [float(1000 * 2 ** (k / 10)) for k in range(300)]


def least(call: Callable[[], object]) -> float:
    """Seconds of one call, the least of several rounds."""
    call()
    found = []
    for _ in range(ROUNDS):
        start = perf_counter()
        for _ in range(CALLS):
            call()
        found.append((perf_counter() - start) / CALLS)
    return min(found)


def main() -> None:
    """Print the ratio and the time of the table."""
    fabric = colltool.load_fabric("dgx-h100")
    every = least(lambda: colltool.price(fabric, "ar", size=1e6, ranks=64, library="all"))
    nccl = least(lambda: colltool.price(fabric, "ar", size=1e6, ranks=64, library="nccl"))
    print(
        f"price --library nccl over price: {nccl / every:.2f} ({nccl * 1e6:.0f} against"
        f" {every * 1e6:.0f} us); bar 1.2"
    )
    start = perf_counter()
    colltool.price_list(fabric, "ar", sizes=SIZES, ranks=64, library="nccl")
    print(f"{len(SIZES)} picks in one call: {perf_counter() - start:.2f} s; bar 0.5")


if __name__ == "__main__":
    main()
