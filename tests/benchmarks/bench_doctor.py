"""How long ``doctor`` thinks about machines that ail: the ratio to ``validate`` of the same log, in
one process.

    python tests/benchmarks/bench_doctor.py

Five series of 23 sizes on 1, 2, 8 and 32 hosts of eight, with links, NICs or both at a share of
their rate. ``validate`` prices every series once; a diagnosis prices it in every world that may
explain it. Priced worlds are forgotten between the rounds.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.append(str(Path(__file__).parents[1]))
from machine_logs import Time, log, time_on

import colltool
from colltool.diagnosis.scenario import forget_prices

FIVE = ("ar", "ag", "rs", "a2a", "p2p")
SIZES = [2.0**k for k in range(10, 33)]
ROUNDS = 3
AILMENTS: dict[str, tuple[str, ...]] = {
    "healthy": (),
    "links at 2/3": ("nvlink.bandwidth=300GB/s",),
    "NICs at half": ("ib.bandwidth=25GB/s",),
    "links at 1/3, NICs at 1/4": ("nvlink.bandwidth=150GB/s", "ib.bandwidth=12.5GB/s"),
}


def shaken(time: Time) -> Time:
    """As measurements scatter."""
    draw = random.Random(1)
    return lambda primitive, size: time(primitive, size) * draw.uniform(0.97, 1.03)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        for hosts in (1, 2, 8, 32):
            for name, values in AILMENTS.items():
                ranks, path = 8 * hosts, Path(folder) / "a.log"
                log(path, shaken(time_on(ranks=ranks, set_=values)), FIVE, SIZES, ranks=ranks)
                runs = []
                for _ in range(ROUNDS):
                    forget_prices()
                    begun = perf_counter()
                    colltool.validate("dgx-h100", path)
                    between = perf_counter()
                    colltool.doctor(path)
                    runs.append((perf_counter() - between, between - begun))
                took, ratio = (
                    median(run[0] for run in runs),
                    median(run[0] / run[1] for run in runs),
                )
                print(f"{hosts:3} hosts, {name:26} {took:5.2f} s, {ratio:5.1f} x validate")


if __name__ == "__main__":
    main()
