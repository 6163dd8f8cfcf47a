"""Constants of the shipped stacks, fitted to published training runs, and how far off they are on
sources left out.

    python tests/benchmarks/fit_stacks.py            # the fit to all runs, beside what the stacks
    say python tests/benchmarks/fit_stacks.py --errors   # each source left out in turn; writes
    colltool/training/data/errors.csv

A source counts as much as any other, unless it has but few runs. The share of peak of a generation
is one for all stacks:
they run the same cuBLAS. What a source left out leaves without any run keeps the value of the
nearest generation.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from statistics import mean, median, quantiles
from typing import NamedTuple

import bench_plan as bench
from bench_memory import card_memory

import colltool
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.memory import memory
from colltool.training.model import Stack
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import TrainingStep, step_time

Values = dict[str, float]
Pairs = tuple[tuple[str, float], ...]
ERRORS = Path(colltool.__file__).parent / "training" / "data" / "errors.csv"
START: Values = {
    "bf16 ampere": 0.82,
    "bf16 hopper": 0.68,
    "bf16 blackwell": 0.5,
    "fp8 hopper": 0.6,
    "fp8 blackwell": 0.5,
    "fp8 blackwell-ultra": 0.6,
    "fp4 blackwell": 0.35,
    "fp4 blackwell-ultra": 0.4,
    "bf16 tpu-v5e": 0.75,
    "bf16 tpu-v6e": 0.75,
    "fsdp attention ampere": 0.3,
    "fsdp attention hopper": 0.3,
    "fsdp elementwise": 43.0,
    "megatron routing": 0.5e-3,
}
"""Before any run is seen: GEMMs alone, attention as published, kernels counted; TPUs as v4 in PaLM
(arXiv:2204.02311)."""
NEAREST = {"fp8 blackwell-ultra": "fp8 blackwell", "fp4 blackwell-ultra": "fp4 blackwell"}
STEPS = [exp(0.03 * step) for step in range(-8, 9)]
ROUNDS = 2
FEW = 4  # runs, with which a source counts half of one with many
FEWEST = 10  # runs of a class that has errors of its own


class Run(NamedTuple):
    row: bench.Row
    setup: ParallelConfig
    costs: CollectiveCostCache
    touched: tuple[str, ...]  # the constants that it depends on

    @property
    def real_s(self) -> float:
        return float(self.row["t_step_s"])

    @property
    def kind(self) -> str:
        """The class that errors are told by."""
        stack = bench.stack_of(self.row)
        return f"{stack} moe" if bench.whole(self.row, "experts", 0) else stack

    def planned(self, values: Values) -> TrainingStep:
        assert self.setup.stack is not None
        return step_time(
            self.setup._replace(stack=with_values(self.setup.stack, values)), self.costs
        )

    def off(self, values: Values) -> float:
        """log(planned / measured)."""
        return log(self.planned(values).step_s / self.real_s)


def bits_of(precision: str) -> str:
    """The precision whose share another has too."""
    return {"int8": "fp8", "fp8": "fp8", "fp4": "fp4"}.get(precision, "bf16")


def with_values(stack: Stack, values: Values) -> Stack:
    def table(precision: str, old: Pairs) -> Pairs:
        eight = bits_of(precision)
        return tuple((name, values.get(f"{eight} {name}", share)) for name, share in old)

    stack = stack._replace(
        gemm=tuple((precision, table(precision, old)) for precision, old in stack.gemm)
    )
    if not stack.name.startswith("megatron") and stack.name != "jax":
        attention = tuple(
            (name, values.get(f"fsdp attention {name}", share)) for name, share in stack.attention
        )
        stack = stack._replace(attention=attention, elementwise=values["fsdp elementwise"])
    return (
        stack._replace(routing_s=values["megatron routing"]) if stack.name == "megatron" else stack
    )


def runs() -> list[Run]:
    costs: dict[tuple[str, ...], CollectiveCostCache] = {}
    found = []
    for row in bench.rows():
        setup = colltool.load_job(bench.job_of(row)).setup(bench.whole(row, "devices"))
        key = (bench.MACHINES[row["device"]][0], row["devices"], row["outer_GBps_dev"])
        assert setup.device is not None
        assert setup.stack is not None
        kind = bits_of(setup.precision.compute)
        eager = not setup.stack.name.startswith("megatron") and setup.stack.name != "jax"
        touched = [f"{kind} {setup.device.generation}"] + ["megatron routing"] * (
            setup.moe is not None and setup.stack.name == "megatron"
        )
        touched += (
            ["fsdp elementwise", f"fsdp attention {setup.device.generation}"] if eager else []
        )
        if key not in costs:
            costs[key] = CollectiveCostCache(bench.fabric_of(row))
        found.append(Run(row, setup, costs[key], tuple(touched)))
    return found


def score(found: Iterable[Run], values: Values) -> float:
    by_source: dict[str, list[float]] = defaultdict(list)
    for one in found:
        by_source[one.row["source"]].append(abs(one.off(values)))
    weights = [len(errors) / (len(errors) + FEW) for errors in by_source.values()]
    return sum(
        weight * mean(errors) for weight, errors in zip(weights, by_source.values(), strict=True)
    ) / sum(weights)


def fitted(found: list[Run]) -> Values:
    values = dict(START)
    for number in range(ROUNDS):
        for name in START:
            touched = [one for one in found if name in one.touched]
            if not touched:
                values[name] = values.get(NEAREST.get(name, ""), values[name])
                continue
            tried = [values[name] * (step if number == 0 else step**0.25) for step in STEPS]
            values[name] = min(
                tried,
                key=lambda value, name=name, touched=touched: score(
                    touched, values | {name: value}
                ),
            )
    return values


def left_out(found: list[Run]) -> list[tuple[Run, float, float]]:
    """Every run with planned over measured by constants that its source had no part in, and that of
    a free network."""
    out = []
    for source in sorted({one.row["source"] for one in found}):
        values = fitted([one for one in found if one.row["source"] != source])
        planned = [(one, one.planned(values)) for one in found if one.row["source"] == source]
        mine = [
            (one, step.step_s / one.real_s, step.control_s / one.real_s) for one, step in planned
        ]
        print(
            f"without {source:18} {len(mine):4} runs  median"
            f" {median(abs(ratio - 1) for _, ratio, _ in mine):6.1%}  ",
            " ".join(f"{value:.3g}" for value in values.values()),
            flush=True,
        )
        out += mine
    return out


def summary(name: str, ratios: list[float], control: list[float]) -> dict[str, str]:
    """``low`` to ``high``: measured over planned of nine runs in ten."""
    errors, free = [abs(ratio - 1) for ratio in ratios], [abs(ratio - 1) for ratio in control]
    twentieth = quantiles([1 / ratio for ratio in ratios], n=20)
    figures = {
        "median": median(errors),
        "mean": mean(errors),
        "low": twentieth[0],
        "high": twentieth[-1],
        "control": median(free),
    }
    return {"class": name, "runs": str(len(ratios))} | {
        key: f"{value:.3f}" for key, value in figures.items()
    }


def write_errors(found: list[Run]) -> None:
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one, *ratios in left_out(found):
        for kind in (one.kind, "all"):
            by_kind[kind].append((ratios[0], ratios[1]))
    lines = []
    for kind, mine in sorted((kind, mine) for kind, mine in by_kind.items() if len(mine) >= FEWEST):
        lines.append(summary(kind, [ratio for ratio, _ in mine], [free for _, free in mine]))
    kept = [
        (memory(one.setup).bytes / (float(one.row["mem_GB"]) * 1e9))
        for one in found
        if one.row["mem_GB"]
    ]
    kept += [1 + run.used for run in card_memory()]
    lines.append(summary("memory", kept, kept))
    with ERRORS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(ERRORS.read_text(encoding="utf-8"))


def main() -> None:
    found = runs()
    if "--errors" in sys.argv:
        write_errors(found)
        return
    values = fitted(found)
    for name, value in values.items():
        print(f"{name:26} {value:.4g}")
    print(f"score {score(found, values):.2%}")


if __name__ == "__main__":
    main()
