"""Start-up against what the five core packages cost to import, and a call:
``python tests/benchmarks/bench_startup.py``.

Goals: ``price --format json`` 1.15 of the bare import of the five, ``--version`` 5 of
    ``python -c pass``, a call 60 us, a completion 0.2 s, which is 4 to 8 of ``--version``.

Modules are compiled before the first round, as pip leaves those that it installs. Every round runs
each command once, in turn, so that a busy machine slows all of them alike. Wall clock and CPU
seconds (user and system, of the children) as medians; ratios are medians of the ratios within a
round.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

BARE = "import typer, rich, yaml, numpy, pydantic"
USED = (
    "import typer; import yaml; import numpy; from rich.table import Table; from pydantic import"
    " BaseModel, Field"
)
PRICE = ("price", "ar", "-f", "nvl72", "-n", "144", "-M", "16MB")


COMPLETIONS = {
    "complete -f": "price ar -f nvl",
    "complete -f NAME:": "price ar -f nvl72:ib",
    "complete --set": "price ar -f nvl72 --set ib",
    "complete --job-set": "plan llama3-70b --job-set layout.",
    "complete --engine": "serve llama3-70b --engine v",
    "complete --library": "price ar --library n",
    "complete JOB": "plan ll",
    "complete -a": "price ar -a NV",
}
"""What a shell asks for while these are typed."""


class Cost(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


def programs() -> dict[str, list[str]]:
    """What is compared; colltool as its installed script where there is one."""
    beside = Path(sys.executable).parent / "colltool"
    script = str(beside) if beside.exists() else shutil.which("colltool")
    colltool = [script] if script else [sys.executable, "-m", "colltool"]
    return {
        "price --format json": [*colltool, *PRICE, "--format", "json"],
        "price (table)": [*colltool, *PRICE],
        "--help": [*colltool, "--help"],
        "--version": [*colltool, "--version"],
        "five packages, bare": [sys.executable, "-c", BARE],
        "five packages, as used": [sys.executable, "-c", USED],
        "python -c pass": [sys.executable, "-c", "pass"],
        **{name: ["env", *_asked(typed), *colltool] for name, typed in COMPLETIONS.items()},
    }


def _asked(typed: str) -> list[str]:
    """The environment in which bash asks for the completion of a line."""
    words = ["colltool", *typed.split()]
    return [
        "_COLLTOOL_COMPLETE=complete_bash",
        f"COMP_WORDS={' '.join(words)}",
        f"COMP_CWORD={len(words) - 1}",
    ]


RATIOS = (
    ("price --format json", "five packages, bare"),
    ("price --format json", "five packages, as used"),
    ("price (table)", "five packages, as used"),
    ("--version", "python -c pass"),
    *((name, "--version") for name in COMPLETIONS),
)


def once(command: list[str]) -> Cost:
    """Seconds of one run; a command that fails ends the benchmark."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLLTOOL_DEBUG", "PYTHONDONTWRITEBYTECODE")
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(rounds: int) -> dict[str, list[Cost]]:
    """Every program once a round, after one that fills the caches."""
    commands = programs()
    for command in commands.values():
        once(command)
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            costs[name].append(once(command))
    return costs


def one_price() -> float:
    """CPU seconds of ``colltool.price`` for one schedule on a fabric that is loaded, the least of
    many rounds."""
    import colltool

    fabric = colltool.load_fabric("nvl72")
    times = []
    for _ in range(20):
        start = time.process_time()
        for _ in range(200):
            colltool.price(fabric, "ar", size=16e6, ranks=72, algorithms="ring")
        times.append((time.process_time() - start) / 200)
    return min(times)


def plugin_lookup() -> tuple[float, float]:
    """CPU seconds of a look for plugins where there are none, the least of many: as colltool does
    it, and importlib.metadata."""
    from importlib.metadata import entry_points

    from colltool.base.entry_points import entry_points_of

    def least(look: Callable[[], object]) -> float:
        times = []
        for _ in range(20):
            start = time.process_time()
            look()
            times.append(time.process_time() - start)
        return min(times)

    return least(lambda: entry_points_of("no.such")), least(lambda: entry_points(group="no.such"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21, help="at least 15 for a number to quote")
    costs = measure(parser.parse_args().rounds)
    print(f"{'median of':<24}{'wall ms':>9}{'CPU ms':>9}")
    for name, runs in costs.items():
        print(
            f"{name:<24}{1e3 * median(run.wall for run in runs):>9.1f}{1e3 * median(run.cpu for run in runs):>9.1f}"
        )
    print(f"\n{'ratio':<48}{'wall':>7}{'CPU':>7}")
    for name, against in RATIOS:
        pairs = list(zip(costs[name], costs[against], strict=True))
        wall, cpu = (median(a[i] / b[i] for a, b in pairs) for i in (0, 1))
        print(f"{f'{name} / {against}':<48}{wall:>7.2f}{cpu:>7.2f}")
    print(f"\ncolltool.price of one schedule: {1e6 * one_price():.0f} us")
    quick, full = plugin_lookup()
    print(
        f"a look for plugins: {1e3 * quick:.2f} ms, {quick / full:.2f} of importlib.metadata's"
        f" {1e3 * full:.1f} ms"
    )


if __name__ == "__main__":
    main()
