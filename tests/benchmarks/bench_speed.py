"""What colltool takes, as ratios within one run, each beside its goal and the best so far.

    python tests/benchmarks/bench_speed.py            the short ones, as CI shows them
    python tests/benchmarks/bench_speed.py --all      also those that take a minute
    ... --write                                       keep better ratios in tests/data/speed.csv

Three measures: the bare import of the five packages (a process), one ``price ... --format json`` (a
process), and one price of all algorithms on nvl72 (a call, once all is loaded). Seconds are those
of the CPU, user and system, and the least of several rounds; machines here are shared and noisy, so
nothing fails on them.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import NamedTuple

TESTS = Path(__file__).parent.parent
sys.path.append(str(TESTS))
BEST = TESTS / "data" / "speed.csv"
BARE = "import typer, rich, yaml, numpy, pydantic"
PRICE = ("price", "ar", "-f", "nvl72", "-M", "16MB", "--format", "json")
FOUR = ("-f", "nvl72", "-f", "dgx-h100", "-f", "dgx-b200", "-f", "mi300x-cluster")
LOGS = 400
MOE_CONFIG = """{"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
 "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
 "num_hidden_layers": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}
"""


class Ratio(NamedTuple):
    """One figure: seconds (or MB) of ``name`` as a multiple of ``of``."""

    name: str
    of: str
    value: float
    goal: float


def children_s(*args: str, rounds: int, env: dict[str, str] | None = None) -> float:
    """CPU seconds of a process, the least of some rounds; it must not have refused its input."""
    least = float("inf")
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            args, capture_output=True, check=False, text=True, env=os.environ | (env or {})
        )
        # 1: a check failed, as the doctor's do
        assert done.returncode in (0, 1), f"{' '.join(args[:9])}: {done.stderr}"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        least = min(least, spent)
    return least


def call_s(call: Callable[[], object], rounds: int) -> float:
    """CPU seconds of a call, the least of some rounds after one that warms up."""
    call()
    least = float("inf")
    for _ in range(rounds):
        begun = process_time()
        call()
        least = min(least, process_time() - begun)
    return least


def start_up() -> Iterator[Ratio]:
    """Whole processes against the bare import of the five packages."""
    ours = (sys.executable, "-m", "colltool")
    bare = children_s(sys.executable, "-c", BARE, rounds=7)
    completion = {
        "_COLLTOOL_COMPLETE": "complete_bash",
        "COMP_WORDS": "colltool pr",
        "COMP_CWORD": "1",
    }
    rounds = 7
    yield Ratio("price, JSON", "bare imports", children_s(*ours, *PRICE, rounds=rounds) / bare, 1.1)
    yield Ratio("--help", "bare imports", children_s(*ours, "--help", rounds=rounds) / bare, 0.7)
    completed = children_s(*ours, rounds=rounds, env=completion)
    yield Ratio("completion of a command", "bare imports", completed / bare, 0.7)


def arrays() -> Iterator[Ratio]:
    """Ten million sizes in a process of their own, against numpy's multiply-add on as many."""
    program = """
import resource, sys
from time import process_time
import numpy as np
import colltool
sizes = np.linspace(1e3, 1e9, int(float(sys.argv[1])))
fabric = colltool.load_fabric("nvl72")
def priced():
    return colltool.price(fabric, "ar", size=sizes, algorithms="ring").results[0].total_s
colltool.price(fabric, "ar", size=sizes[:10], algorithms="ring").results[0].total_s
times = []
for call in (lambda: 1e-6 + sizes * 2e-9, priced):
    best = 9e9
    for _ in range(3):
        begun = process_time(); call(); best = min(best, process_time() - begun)
    times.append(best)
print(times[1] / times[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "1e7"], capture_output=True, text=True, check=True
    )
    ratio, megabytes = map(float, done.stdout.split())
    yield Ratio("1e7 sizes on nvl72, total_s", "numpy's multiply-add", ratio, 15)
    yield Ratio("1e7 sizes on nvl72, peak", "MB", megabytes, 600)


def many_prices() -> Iterator[Ratio]:
    """Calls that price often, against one price of all algorithms."""
    import colltool

    nvl72 = colltool.load_fabric("nvl72")
    price = call_s(lambda: colltool.price(nvl72, "ar", size="16MB"), rounds=50)
    bandwidths = ["ib.bandwidth=50GB/s,100GB/s"]
    compared = call_s(lambda: colltool.compare("nvl72", "ar", vary=bandwidths), rounds=3)
    yield Ratio("compare, two bandwidths", "prices", compared / price, 60)
    numbers = ["ib.eta.beta=0.4:1"]
    sampled = call_s(
        lambda: colltool.sensitivity("nvl72", "ar", size="32MB", vary=numbers, samples=2000),
        rounds=2,
    )
    yield Ratio("sensitivity, 2,000 samples", "prices", sampled / price, 120)
    ranks = [72 * count for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)]
    sizes = [1e3 * 1.15**step for step in range(100)]
    values = ["ib.bandwidth=25GB/s:100GB/s:100"]
    swept = call_s(
        lambda: colltool.sweep("nvl72", "ar", ranks=ranks, sizes=sizes, vary=values), rounds=1
    )
    yield Ratio("sweep, 1e5 cells", "prices", swept / price, 2500)


def frontier() -> Iterator[Ratio]:
    """The first price of a network whose messages are put on links, against one of a star."""
    ours = (sys.executable, "-m", "colltool")
    price = children_s(*ours, *PRICE, rounds=5)
    first = children_s(*ours, "price", "ar", "-f", "frontier", "-M", "16MB", rounds=2)
    yield Ratio("frontier's first price", "price commands", first / price, 2.4)


def documents() -> Iterator[Ratio]:
    """Reports and fleets of logs, against one price command."""
    from machine_logs import log, time_on

    ours = (sys.executable, "-m", "colltool")
    price = children_s(*ours, *PRICE, rounds=5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = str(folder / "page.html")
        report = (*ours, "report", *FOUR, "-o", page)
        took = children_s(*report, "--job", "llama3-70b", rounds=2)
        yield Ratio("report of four fabrics", "price commands", took / price, 10)
        config = folder / "config.json"
        config.write_text(MOE_CONFIG, encoding="utf-8")
        took = children_s(*report, "--job", str(config), rounds=1)
        yield Ratio("report, a config.json of experts", "price commands", took / price, 10)
        healthy = time_on()
        for number in range(LOGS):
            slowed = 1 + 0.5 * (number % 8 == 0)
            log(folder / f"{number:03}.log", lambda p, size, by=slowed: healthy(p, size) * by)
        logs = sorted(map(str, folder.glob("*.log")))
        took = children_s(*ours, "doctor", *logs, rounds=1)
        yield Ratio(f"doctor, {LOGS} logs", "price commands", took / price, 20)


def best_so_far() -> dict[str, float]:
    if not BEST.exists():
        return {}
    with BEST.open(encoding="utf-8", newline="") as rows:
        return {row["name"]: float(row["best"]) for row in csv.DictReader(rows)}


def write(ratios: Sequence[Ratio], best: dict[str, float]) -> None:
    """Keep the better of each ratio and its best so far."""
    for ratio in ratios:
        best[ratio.name] = round(min(ratio.value, best.get(ratio.name, ratio.value)), 3)
    with BEST.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["name", "best"])
        writer.writerows(sorted(best.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="also what takes a minute")
    parser.add_argument("--write", action="store_true", help="keep better ratios")
    asked = parser.parse_args()
    parts = [start_up, arrays, many_prices]
    if asked.all:
        parts += [frontier, documents]
    best = best_so_far()
    ratios = []
    print(f"{'ratio':34} {'now':>9} {'best':>9} {'goal':>7}  of")
    for part in parts:
        for ratio in part():
            ratios.append(ratio)
            known = best.get(ratio.name)
            before = "-" if known is None else f"{known:.3g}"
            print(
                f"{ratio.name:34} {ratio.value:9.3g} {before:>9} {ratio.goal:7.3g}  {ratio.of}",
                flush=True,
            )
    if asked.write:
        write(ratios, best)


if __name__ == "__main__":
    main()
