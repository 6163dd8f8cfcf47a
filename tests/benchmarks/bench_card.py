"""Kernels and steps measured on one card beside what plan makes of them: GEMMs by dtype and rows,
grouped GEMMs, and training steps by part.

    python tests/benchmarks/bench_card.py [FOLDER] [--each]

A folder has ``gemms_h100.csv`` and ``steps_h100.jsonl``; without one those of ``tests/data/h100``.
The last line is JSON with the mean errors, and the share of steps inside the printed interval.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import colltool
from colltool.training.compute_times import head_times, layer_times, routing_times, stage_times
from colltool.training.files.presets import read_device, read_stack
from colltool.training.operations import cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.published import published_error
from colltool.training.roofline import Gemm, Roofline, gemm_s, power_limit_factor
from colltool.training.stack import accelerator_of, stack_of
from colltool.training.updates import optimizer_s

Row = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "data" / "h100"
DEVICE = "h100"
ROWS_OF_A_GEMM = (1, 17, 257, 1025, 4097)  # where classes of M begin
# kernels of a step as the profiler names them, by part of a plan; casts and copies are elementwise
PARTS = {
    "gemm": ("gemm",),
    "attention": ("attention",),
    "elementwise, casts, loss": ("elementwise", "copy", "loss"),
    "optimizer": ("optimizer",),
}


def machine(precision: str, stack: str = "fsdp-eager") -> Roofline:
    device = accelerator_of(read_device(DEVICE, Path()), DEVICE)
    return Roofline(device, stack_of(read_stack(stack, Path()), stack), precision)


def gemm_rows(folder: Path) -> list[Row]:
    with (folder / "gemms_h100.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def gemm_of(row: Row) -> Gemm:
    several = row["part"] == "grouped"
    copies = int(row["groups"]) if several else 1
    summed = row["layout"] == "wgrad_fp32acc"
    return Gemm(int(row["m"]), int(row["n"]), int(row["k"]), copies, several, summed)


def kind_of(row: Row) -> str:
    return "grouped" if row["part"] == "grouped" else str(row["dtype"])


def gemm_errors(rows: Iterable[Row], *, sustained: bool = False) -> dict[str, list[float]]:
    """Planned over measured less 1 of GEMMs, by dtype and by its class of M."""
    found = defaultdict(list)
    for row in rows:
        if not row["sustained_us" if sustained else "median_us"]:
            continue
        on, gemm = machine(row["dtype"]), gemm_of(row)
        planned_s = gemm_s(gemm, on)
        real_s = 1e-6 * float(row["median_us"])
        if sustained:
            planned_s *= power_limit_factor(planned_s, 0.0, on)
            real_s = 1e-6 * float(row["sustained_us"])
        first = max(rows for rows in ROWS_OF_A_GEMM if rows <= gemm.m)
        error = planned_s / real_s - 1
        found[kind_of(row)].append(error)
        found[f"{kind_of(row)}, M from {first}"].append(error)
    return found


def step_rows(folder: Path) -> list[Row]:
    text = (folder / "steps_h100.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def job_of(row: Row) -> dict[str, Any]:
    """A job of one card, with its weights in fp32 cast for each micro-batch, or in bf16 alone."""
    model: Row = {
        "layers": row["layers"],
        "hidden": row["hidden"],
        "heads": row["heads"],
        "kv_heads": row["kv"],
        "head_dim": row["head_dim"],
        "ffn": row["ffn"],
        "vocab": row["vocab"],
        "gated": True,
        "tied": False,
    }
    if row["experts"]:
        experts = {"experts": row["experts"], "top_k": row["top_k"], "ffn": row["eff"]}
        model["moe"] = experts | {"imbalance": 1}
    job: Row = {
        "model": model,
        "sequence": row["seq"],
        "batch": {"global": row["micro"] * row["accum"], "micro": row["micro"]},
        "layout": {"dp": 1},
        "precision": {"compute": "bf16", "params": row["params"]},
        "recompute": row["recompute"],
        "device": DEVICE,
        "stack": "fsdp-compiled" if row["compiled"] else "fsdp-eager",
    }
    if row["params"] == "bf16":
        job["precision"]["master"] = "none"
        job["optimizer"] = "adam-bf16"
    return job


class Step(NamedTuple):
    """A step with its planned seconds, by part."""

    row: Row
    config: ParallelConfig
    planned_s: float
    parts: dict[str, float]

    @property
    def error(self) -> float:
        return self.planned_s / float(self.row["step_s"]) - 1

    @property
    def inside(self) -> bool:
        stack = self.config.stack
        assert stack is not None
        error = published_error(stack.name, moe=bool(self.row["experts"]))
        if error is None:
            return False
        low, high = error.spread(self.planned_s)
        return low <= self.row["step_s"] <= high


def planned(row: Row) -> Step:
    config = colltool.load_job(job_of(row)).setup(1)
    [stage] = pipeline_stages(config)
    assert config.stack is not None
    assert config.shape is not None
    experts = bool(row["experts"])
    times, layer = stage_times(config, stage), layer_times(config, experts=experts)
    cut = cut_of(config)
    operations = layer_operations(config.shape, cut, experts=experts)
    sorting_s = routing_times(
        operations, cut.activation_bytes, machine("bf16", config.stack.name)
    ).total_s
    head_s = head_times(config)[0].total_s
    layers, batches = row["layers"], config.micro_batches
    in_a_batch = {
        "gemm": layers * (layer.gemms.total_s + layer.experts.total_s - sorting_s) + head_s,
        "attention": layers * layer.core.total_s,
        "elementwise, casts, loss": layers * (layer.elementwise.total_s + sorting_s)
        + times.ends.total_s
        - head_s,
        "host": times.host.total_s,
    }
    parts = {name: batches * seconds for name, seconds in in_a_batch.items()}
    parts["optimizer"] = optimizer_s(config, stage)
    parts["fixed"] = config.stack.fixed_s
    return Step(row, config, sum(parts.values()), parts)


def summary(name: str, errors: list[float]) -> str:
    sizes = [abs(error) for error in errors]
    return (
        f"{name:44} {len(errors):4}  median |e| {median(sizes):6.1%}  mean |e| {mean(sizes):6.1%} "
        f" bias {mean(errors):+6.1%}"
    )


def part_errors(steps: Iterable[Step]) -> dict[str, list[float]]:
    """Planned over measured less 1 of the parts of steps whose kernels were measured."""
    found = defaultdict(list)
    for step in steps:
        measured = step.row.get("kernel_s") or {}
        for part, names in PARTS.items():
            real_s = sum(measured.get(name, 0.0) for name in names)
            if real_s:
                found[part].append(step.parts[part] / real_s - 1)
    return found


def print_step(step: Step) -> None:
    row = step.row
    kernels = row.get("kernel_s") or {}
    parts = []
    for part, seconds in step.parts.items():
        real_s = sum(kernels.get(name, 0.0) for name in PARTS.get(part, ()))
        parts.append(f"{part} {1e3 * seconds:.1f} ({1e3 * real_s:.1f})")
    print(
        f"{row['model']:12} {row['params']} {row['micro']}x{row['seq']} accum {row['accum']}"
        f" {row['recompute']:4} {'compiled' if row['compiled'] else 'eager':8} {step.error:+6.1%}"
        f"  {'' if step.inside else 'outside '}planned (measured), ms: {', '.join(parts)}"
    )


def main(folder: Path, *, each: bool) -> None:
    rows = gemm_rows(folder)
    alone, without_pause = gemm_errors(rows), gemm_errors(rows, sustained=True)
    for name, errors in sorted(alone.items()):
        print(summary(f"GEMM {name}", errors))
    for name, errors in sorted(without_pause.items()):
        if "," not in name:
            print(summary(f"GEMM {name}, without pause", errors))
    steps = [planned(row) for row in step_rows(folder)]
    if each:
        for step in steps:
            print_step(step)
    for part, errors in part_errors(steps).items():
        print(summary(f"steps: {part}", errors))
    by_stack = defaultdict(list)
    for step in steps:
        by_stack[step.config.stack.name if step.config.stack else ""].append(step.error)
    for stack, errors in sorted(by_stack.items()):
        print(summary(f"steps: {stack}", errors))
    errors = [step.error for step in steps]
    print(summary("steps", errors))
    found = {f"gemm_{name}": alone[name] for name in ("bf16", "fp8", "grouped")} | {"steps": errors}
    figures = {}
    for name, each_error in found.items():
        figures[name] = round(mean(abs(error) for error in each_error), 4)
    figures["steps_inside"] = round(mean(step.inside for step in steps), 4)
    print(json.dumps(figures))


if __name__ == "__main__":
    named = [argument for argument in sys.argv[1:] if argument != "--each"]
    main(Path(named[0]) if named else FOLDER, each="--each" in sys.argv)
