"""Memory of training steps on one H100 beside what plan makes of it.

    python tests/benchmarks/bench_memory.py

Runs of ``tests/data/card_memory.csv`` were measured on one H100 SXM, torch 2.11, 2026-11: eager and
compiled PyTorch, fp32 weights under autocast or all of it in bf16. ``peak_alloc_GB`` are tensors,
``peak_reserved_GB`` what the allocator held, ``used_GB`` what the device said.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import colltool
from colltool.training.memory import memory

Row = dict[str, str]
RUNS = Path(__file__).parents[1] / "data" / "card_memory.csv"


class CardMemory(NamedTuple):
    """A run, and plan / measured - 1 of its tensors and of all that the device had in use."""

    row: Row
    tensors: float
    used: float

    @property
    def name(self) -> str:
        row = self.row
        words = [row["model"], row["params"], f"{row['micro']}x{row['seq']}", f"m{row['accum']}"]
        return " ".join([*words, row["recompute"], "compiled" if row["compiled"] == "1" else ""])


def job_of(row: Row) -> dict[str, Any]:
    """A row as a job file. PyTorch updates what it stores: there are no master weights, and moments
    are in the precision of the weights."""
    sizes = {"kv_heads": "kv"}
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    model: dict[str, Any] = {name: int(row[sizes.get(name, name)]) for name in names}
    if row["experts"] != "0":
        experts = {"experts": "experts", "top_k": "top_k", "ffn": "eff"}
        model["moe"] = {key: int(row[column]) for key, column in experts.items()}
        model["moe"]["imbalance"] = 1
    params = row["params"]
    return {
        "model": model,
        "sequence": int(row["seq"]),
        "batch": {"global": int(row["micro"]) * int(row["accum"]), "micro": int(row["micro"])},
        "recompute": row["recompute"],
        "optimizer": "adam" if params == "fp32" else "adam-bf16",
        "precision": {"params": params, "grads": params, "master": "none"},
        "device": "h100",
        "stack": "fsdp",
    }


def card_memory() -> list[CardMemory]:
    """All runs with their errors."""
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = []
    for row in rows:
        kept = memory(colltool.load_job(job_of(row)).setup(1))
        outside = ("allocator", "runtime")
        tensors = sum(part.bytes for part in kept.parts if part.part not in outside)
        found.append(
            CardMemory(
                row,
                tensors / 1e9 / float(row["peak_alloc_GB"]) - 1,
                kept.bytes / 1e9 / float(row["used_GB"]) - 1,
            )
        )
    return found


def main() -> None:
    found = card_memory()
    for run in found:
        print(f"{run.name:50} tensors {run.tensors:+6.1%}  in use {run.used:+6.1%}")
    for name in ("tensors", "used"):
        off = [abs(getattr(run, name)) for run in found]
        near = sum(error <= 0.1 for error in off)
        print(
            f"{name}: mean |e| {mean(off):.1%}, worst {max(off):.1%}, {near} of {len(off)} within 10%"
        )


if __name__ == "__main__":
    main()
