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
from functools import cache
from math import log
from pathlib import Path
from statistics import mean, median, quantiles
from typing import NamedTuple

import bench_plan as bench
from bench_memory import card_memory

import colltool
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.files.presets import read_device
from colltool.training.memory import memory
from colltool.training.parallel_config import ParallelConfig
from colltool.training.stack import Stack, accelerator_of
from colltool.training.step_time import TrainingStep, step_time

Values = dict[str, float]
Pairs = tuple[tuple[str, float], ...]
ERRORS = Path(colltool.__file__).parent / "training" / "data" / "errors.csv"
START: Values = {
    "bf16 ampere": 0.81,
    "bf16 blackwell": 0.5,
    "fp8 blackwell": 0.5,
    "fp8 blackwell-ultra": 0.6,
    "fp4 blackwell": 0.35,
    "fp4 blackwell-ultra": 0.4,
    "tpu compute": 1.0,
    "tpu memory": 1.2e-3,
    "tpu attention": 0.5,
    "jax permute": 20.0,
    "quantize": 4.0,
    "fsdp attention ampere": 0.33,
    "fsdp attention hopper": 0.27,
    "fsdp elementwise": 12.0,
    "megatron elementwise": 6.0,
    "megatron attention blackwell": 0.47,
    "megatron-eager routing": 50e-6,
    "megatron-graphs routing": 5e-6,
    "megatron-2021 elementwise": 10.0,
    "megatron-2021 attention": 0.5,
    "megatron bf16 hopper": 0.81,
    "megatron fp8 hopper": 0.82,
    "jax bf16 hopper": 0.75,
    "jax fp8 hopper": 0.75,
}
"""Before any run is seen: GEMMs alone, attention as published, kernels counted. What is measured on
a card (GEMMs of an H100, attention, elementwise by width, casts, the optimizer) is not fitted here:
bench_card.py holds it. TPUs have one law for all generations and precisions: 1 / share = compute +
memory x peak FLOPs a byte of memory bandwidth, as a part of the bytes moves beside no GEMM; before
any run the three quarters of PaLM on v4 (arXiv:2204.02311)."""
NEAREST = {
    "fp8 blackwell-ultra": "fp8 blackwell",
    "fp4 blackwell-ultra": "fp4 blackwell",
    "jax fp8 hopper": "jax bf16 hopper",
}
STEPS = (0.7, 0.8, 0.88, 0.94, 1.0, 1.06, 1.13, 1.25, 1.4)
ROUNDS = 2
PULL = 0.1  # towards the start: of a hundred runs, a tenth away costs as much as an error of 0.1%
FEW = 4  # runs, with which a source counts half of one with many
FEWEST = 10  # runs of a class that has errors of its own
ULTRA = {"blackwell-ultra": "blackwell"}  # in 16 bits, and attention


@cache
def flops_a_byte(generation: str, precision: str) -> float:
    """Of a TPU, whose generation is called as its device."""
    device = accelerator_of(read_device(generation, Path()))
    peak = dict(device.peak)
    return peak.get(precision, peak["bf16"]) / device.bandwidth_Bps


def tpu_share(values: Values, generation: str, precision: str) -> float:
    moved = values["tpu memory"] * flops_a_byte(generation, precision)
    return 1 / (values["tpu compute"] + moved)


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

    @property
    def own_kind(self) -> str:
        """The class of experts by how kernels are launched; "" where that makes no class."""
        stack = self.setup.stack
        if stack is None or family(stack) != "megatron" or self.setup.moe is None:
            return ""
        return f"{stack.name} moe"

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


def family(stack: Stack) -> str:
    """The stack whose constants another shares."""
    if stack.name.startswith("megatron-2021") or stack.name == "jax":
        return stack.name
    return "megatron" if stack.name.startswith("megatron") else "fsdp"


def share_name(stack: Stack, precision: str, generation: str) -> str:
    """The constant that is a stack's share of GEMMs."""
    bits = bits_of(precision)
    if bits == "bf16":
        generation = ULTRA.get(generation, generation)
    # XLA and the jobs of Megatron reach less of it than cuBLAS alone on a card of 2026
    own = family(stack)
    if own in ("jax", "megatron") and generation == "hopper":
        return f"{own} {bits} {generation}"
    return f"{bits} {generation}"


def attention_name(stack: Stack, generation: str) -> str:
    name = family(stack)
    if generation.startswith("tpu"):
        return "tpu attention"
    if name == "megatron-2021":
        return f"{name} attention"
    return f"{name} attention {ULTRA.get(generation, generation)}"


def with_values(stack: Stack, values: Values) -> Stack:
    name = family(stack)
    gemm = []
    for precision, table in stack.gemm:
        shares = []
        for generation, share in table:
            if generation.startswith("tpu"):
                share = tpu_share(values, generation, precision)
            shares.append((generation, values.get(share_name(stack, precision, generation), share)))
        gemm.append((precision, tuple(shares)))
    attention = []
    for generation, share in stack.attention:
        attention.append((generation, values.get(attention_name(stack, generation), share)))
    elementwise = values.get(f"{name} elementwise", stack.elementwise)
    return stack._replace(
        gemm=tuple(gemm),
        attention=tuple(attention),
        elementwise=elementwise,
        # reads and writes by width and by hidden size grow together
        elementwise_ffn=elementwise * stack.elementwise_ffn / stack.elementwise,
        routing_expert_s=values.get(f"{stack.name} routing", stack.routing_expert_s),
        permute=values.get(f"{name} permute", stack.permute),
        quantize=values["quantize"],
    )


def touched_by(setup: ParallelConfig) -> tuple[str, ...]:
    """The constants that a run depends on."""
    device, stack, precision = setup.device, setup.stack, setup.precision.compute
    assert device is not None
    assert stack is not None
    names = [
        share_name(stack, precision, device.generation),
        attention_name(stack, device.generation),
        f"{family(stack)} elementwise",
    ]
    if bits_of(precision) != "bf16":
        names.append("quantize")
    if setup.moe is not None:
        names += [f"{stack.name} routing", f"{family(stack)} permute"]
    if device.generation.startswith("tpu"):
        names += ["tpu compute", "tpu memory"]
    return tuple(name for name in names if name in START)


def runs(path: Path = bench.RUNS) -> list[Run]:
    costs: dict[tuple[str, ...], CollectiveCostCache] = {}
    found = []
    for row in bench.rows(path):
        setup = colltool.load_job(bench.job_of(row)).setup(bench.whole(row, "devices"))
        key = (
            bench.MACHINES[row["device"]][0],
            row["devices"],
            row["outer_GBps_dev"],
            str(bench.slices_of(row)),
        )
        if key not in costs:
            costs[key] = CollectiveCostCache(bench.fabric_of(row))
        found.append(Run(row, setup, costs[key], touched_by(setup)))
    return found


def score(found: Iterable[Run], values: Values) -> float:
    by_source: dict[str, list[float]] = defaultdict(list)
    for one in found:
        by_source[one.row["source"]].append(abs(one.off(values)))
    weights = [len(errors) / (len(errors) + FEW) for errors in by_source.values()]
    return sum(
        weight * mean(errors) for weight, errors in zip(weights, by_source.values(), strict=True)
    ) / sum(weights)


def fitted(found: list[Run], names: Iterable[str] = START, before: Values | None = None) -> Values:
    """Constants by name, the others as ``before``."""
    values = START | (before or {})
    names = list(names)
    for name in names:
        values[name] = START[name]
    for number in range(ROUNDS):
        for name in names:
            touched = [one for one in found if name in one.touched]
            if not touched:
                values[name] = values.get(NEAREST.get(name, ""), values[name])
                continue
            tried = {}
            for step in STEPS:
                value = values[name] * (step if number == 0 else step**0.25)
                pull = PULL * abs(log(value / START[name])) / len(touched) ** 0.5
                tried[value] = score(touched, values | {name: value}) + pull
            values[name] = min(tried, key=lambda value: tried[value])
    return values


def left_out(found: list[Run], everything: Values) -> list[tuple[Run, float, float]]:
    """Every run with planned over measured by constants that its source had no part in, and that of
    a free network.

    A source says nothing of constants that none of its runs depend on: these stay as
    ``everything`` has them.
    """
    out = []
    for source in sorted({one.row["source"] for one in found}):
        mine = [one for one in found if one.row["source"] == source]
        others = [one for one in found if one.row["source"] != source]
        names = [name for name in START if any(name in one.touched for one in mine)]
        values = fitted(others, names, everything)
        ratios = []
        for one in mine:
            step = one.planned(values)
            ratios.append((one, step.step_s / one.real_s, step.control_s / one.real_s))
        middle = median(abs(ratio - 1) for _, ratio, _ in ratios)
        constants = " ".join(f"{name} {values[name]:.3g}" for name in names)
        print(
            f"without {source:18} {len(mine):4} runs  median {middle:6.1%}  {constants}", flush=True
        )
        out += ratios
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
    everything = fitted(found)
    print("all", *(f"{name} {value:.4g}" for name, value in everything.items()), flush=True)
    for one, ratio, control in left_out(found, everything):
        for kind in (one.kind, one.own_kind, "all"):
            if kind:
                by_kind[kind].append((ratio, control))
    for one in runs(bench.EFA):
        # no constant is fitted to these
        step = one.planned(everything)
        by_kind[one.own_kind].append((step.step_s / one.real_s, step.control_s / one.real_s))
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
        print(f"{name:28} {value:.4g}")
    by_kind: dict[str, list[float]] = defaultdict(list)
    for one in found:
        for kind in (one.kind, f"{one.kind} {one.row['source']} {one.row['device']}"):
            by_kind[kind].append(one.planned(values).step_s / one.real_s - 1)
    for kind, errors in sorted(by_kind.items()):
        print(bench.said(kind, errors, errors))
    print(f"score {score(found, values):.2%}")


if __name__ == "__main__":
    main()
