"""Pricing one algorithm at many sizes in one call, against numpy's own ``a + b*M``:
``python tests/benchmarks/bench_arrays.py``.

Both take turns in every round; medians, and the median of the ratios within a round.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from numpy.typing import NDArray

import colltool

Array = NDArray[np.float64]
CASES = (("ring", 72), ("double-binary-tree", 72), ("hierarchical:ring/ring", 144))


def seconds(run: Callable[[], object]) -> float:
    """Wall clock of one call, its result thrown away outside the clock."""
    start = time.perf_counter()
    result = run()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def compare(algorithm: str, ranks: int, sizes: Array, rounds: int) -> None:
    """Print both medians and their ratio, once some of the prices are known to be those of single
    sizes."""
    fabric = colltool.load_fabric("nvl72")

    def total_s(size: Array | float) -> Array | float:
        priced = colltool.price(fabric, "all_reduce", ranks=ranks, size=size, algorithms=algorithm)
        return priced.results[0].total_s

    def plain() -> Array:
        return 1e-6 + 1e-12 * sizes

    some = sizes[:: max(1, len(sizes) // 20)]
    np.testing.assert_allclose(total_s(some), [total_s(float(size)) for size in some], rtol=1e-9)
    runs = []
    for _ in range(rounds):
        gc.collect()
        runs.append((seconds(lambda: total_s(sizes)), seconds(plain)))
    ours = 1e3 * median(run[0] for run in runs)
    theirs = 1e3 * median(run[1] for run in runs)
    ratio = median(mine / other for mine, other in runs)
    print(f"{algorithm:<24}{ranks:>6}{ours:>12.1f}{theirs:>12.1f}{ratio:>8.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="at least 15 for a number to quote")
    parser.add_argument("--sizes", type=int, default=10_000_000)
    arguments = parser.parse_args()
    sizes = np.geomspace(1e3, 1e9, arguments.sizes)
    print(
        f"all-reduce on nvl72, {arguments.sizes:,} sizes in one call, median of {arguments.rounds}"
        " rounds"
    )
    print(f"{'algorithm':<24}{'ranks':>6}{'colltool ms':>12}{'numpy ms':>12}{'ratio':>8}")
    for algorithm, ranks in CASES:
        compare(algorithm, ranks, sizes, arguments.rounds)


if __name__ == "__main__":
    main()
