"""Steps and memory of measured training runs beside what plan makes of them, by source, device and
stack, dense and MoE apart.

    python tests/benchmarks/bench_plan.py [RUNS.csv] [SOURCE] [--each]

Without a file the runs of ``tests/data/training_runs.csv``; ``SOURCES`` says where they are
published. ``tests/data/training_efa.csv`` has experts on EFA. Every run is planned from its own
layout. Regret: of the runs of one job on one number of devices, how much longer the one took that
plan calls the fastest.
Growth: of runs that differ in their replicas alone, how much faster or slower steps grow, a
    doubling of devices.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from math import log2
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import yaml

import colltool
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.dispatchers import DISPATCHERS
from colltool.training.group_fit import job_slice
from colltool.training.memory import memory
from colltool.training.step_time import step_time

Row = dict[str, str]
RUNS = Path(__file__).parents[1] / "data" / "training_runs.csv"
# experts on EFA by three dispatchers, the same jobs: https://github.com/awslabs/awsome-distributed-ai,
# 3.test_cases/megatron/megatron-bridge, dsv3 and qwen3-235b, benchmarks/RESULTS.md (2026)
EFA = RUNS.with_name("training_efa.csv")
WITHOUT_GRAPHS = ("awslabs-moe-ep",)
BRIDGE = "https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/0a25f91/docs/performance-summary-archive.md"
SOURCES = {
    "dgxc": (
        "https://github.com/NVIDIA/dgxc-benchmarking (README of nemotron, llama3.1, nemo_megatron,"
        " grok1, deepseek_v3)"
    ),
    "nemo-24.07": (
        "https://github.com/NVIDIA/NeMo/blob/070a0bb/docs/source/performance/performance_summary.md"
    ),
    "megatron-lm": (
        "https://github.com/NVIDIA/Megatron-LM/blob/core_r0.12.0/examples/llama/README.md"
    ),
    "mbridge-blackwell": f"{BRIDGE}, 25.11",
    "mbridge-moe": (
        f"{BRIDGE}, 25.09, 25.11, 26.02; DeepEP and overlap as scripts/performance/configs has them"
    ),
    "mbridge-26.02": (
        "https://github.com/NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, 26.02.01 NeMo"
        " Container"
    ),
    "mbridge-26.04": (
        "https://github.com/NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, 26.04.01 NeMo"
        " Container"
    ),
    "automodel": (
        "https://github.com/NVIDIA-NeMo/Automodel/blob/01926a5/docs/performance-summary.md"
    ),
    "torchtitan": (
        "https://github.com/pytorch/torchtitan (docs/performance.md,"
        " benchmarks/llama3_h100_202412_torchtitan.md)"
    ),
    "mosaic": "https://github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md",
    "vtrain-multi": "https://github.com/VIA-Research/vTrain, data/ground_truth_multi.csv",
    "korthikanti": (
        "https://arxiv.org/abs/2205.05198 table 5, as https://github.com/calculon-ai/calculon"
        " has it"
    ),
    "mbridge": (
        "https://github.com/NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary-archive.md"
    ),
    "simumax-b200": (
        "https://github.com/MooreThreads/SimuMax, docs/b200/b200_release_v1.2_summary.json"
    ),
    "maxtext-v5e": (
        "https://github.com/AI-Hypercomputer/maxtext, src/maxtext/configs/tpu/v5e/README.md"
    ),
    "maxtext-v5p": (
        "https://github.com/AI-Hypercomputer/maxtext/blob/0ed7bd5, MaxText/configs/v5p/README.md and"
        " the scripts beside it"
    ),
    "tpu-trillium": "https://github.com/AI-Hypercomputer/tpu-recipes, training/trillium",
    "tpu-v5p": "https://github.com/AI-Hypercomputer/tpu-recipes, training/v5p",
    "tpu-ironwood": (
        "https://github.com/AI-Hypercomputer/tpu-recipes/blob/0797d9c, training/ironwood"
    ),
    "narayanan": (
        "https://arxiv.org/abs/2104.04473 table 1; micro-batches from Megatron-LM"
        " examples/sc21/run_table_1.sh"
    ),
}
"""Where the shipped runs are published."""

GRAND_TETON = {
    "name": "h100-96gb",
    "generation": "hopper",
    "peak": {"bf16": "989.4TFLOP/s", "fp8": "1978.9TFLOP/s"},
    "memory": "96GiB",
    "bandwidth": "2.4TB/s",
}
MACHINES: dict[str, tuple[str, Any]] = {
    "A100-40GB": ("dgx-a100", "a100-40gb"),
    "A100-80GB": ("dgx-a100", "a100-80gb"),
    "H100": ("dgx-h100", "h100"),
    "H100-80GB": ("dgx-h100", "h100"),
    "H100-96GB-500W": ("dgx-h100", GRAND_TETON),
    "H200": ("hgx-h200", "h200"),
    "B200": ("dgx-b200", "b200"),
    "B300": ("dgx-b300", "b300"),
    "B300-EFA": ("aws-p6-b200", "b300"),
    "GB200": ("nvl72", "gb200"),
    "GB300": ("nvl72", "gb300"),
    "MI300X": ("mi300x", "mi300x"),
    "TPU v5e": ("tpu-v5e", "tpu-v5e"),
    "TPU v5p": ("tpu-v5p", "tpu-v5p"),
    "TPU v6e": ("tpu-v6e", "tpu-v6e"),
    "TPU7x": ("tpu7x", "tpu7x"),
}
"""The fabric and the device of a platform; the NICs are the platform's usual ones."""

OLD = ("korthikanti", "vtrain-multi", "narayanan")  # Megatron-LM before flash attention
STACKS = dict.fromkeys(OLD, "megatron-2021") | {
    "mosaic": "fsdp",
    "torchtitan": "fsdp",
}
RACK = 64  # of an NVL72 as jobs use it
# chips of the largest slice
POD = {"tpu-v5e": 256, "tpu-v6e": 256, "tpu-v5p": 6144, "tpu7x": 9216}
# a chip's share of its host's NICs: 100G of four chips, 200G of four, 4 x 200G of eight
DCN = {"tpu-v5e": "3.125GB/s", "tpu-v5p": "6.25GB/s", "tpu-v6e": "12.5GB/s"}
# nodes under the spines of the shipped fabrics; a multiple of what stands under their leaves
LARGEST, LEAVES = 128, 160
# the tier between nodes, where it is not ib
OUTER = {"hgx-h200": "roce", "aws-p6-b200": "efa"}
DEEPSEEK = {"q_rank": 1536, "kv_rank": 512, "nope": 128, "rope": 64, "value": 128}
RECOMPUTED: dict[str, Any] = {word: word for word in ("selective", "full")}
RECOMPUTED |= {word: {"modules": [word]} for word in ("core_attn", "mla_up_proj")}
# policies of MaxText and PaxML that keep q, k and v; a layer's input, or these, on the host
QKV_KEPT = ("save_qkv_proj", "custom", "qkv_proj_offloaded")
RECOMPUTED |= {word: {"modules": ["core_attn", "mlp", "layernorm"]} for word in QKV_KEPT}
ON_THE_HOST = ("custom", "qkv_proj_offloaded", "full_offloaded")
RECOMPUTED["full_offloaded"] = "full"
# attention's output is kept too
RECOMPUTED["save_context"] = {"modules": ["mlp", "layernorm"]}
GRAPHS = {"1": True, "0": False}
SERIES = (
    "source",
    "model",
    "layers",
    "seq",
    "mbs",
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "zero",
    "recompute",
    "precision",
    "device",
)


class Judged(NamedTuple):
    """A run and its plan: step / measured - 1, the same of the control, and of memory where that
    was published."""

    row: Row
    step_s: float
    fits: bool
    error: float
    control: float
    memory: float | None

    @property
    def kind(self) -> str:
        """dense; moe with its tokens dealt out evenly by force; or "moe routed", where the router
        decides."""
        if not whole(self.row, "experts", 0):
            return "dense"
        return "moe" if self.row.get("balanced") else "moe routed"


def whole(row: Row, key: str, default: int = 1) -> int:
    return int(float(row[key])) if row.get(key) else default


def stack_of(row: Row) -> str:
    if row["device"].startswith("TPU") or row["run"].endswith(("maxtext", "paxml")):
        return "jax"
    return STACKS.get(row["source"], "megatron")


@cache
def fused_loss() -> dict[str, Any]:
    """The fsdp stack of llm-foundry: its loss is flash-attention's kernel, which writes the
    gradient over the logits."""
    text = (
        Path(colltool.__file__).parent / "training" / "data" / "stacks" / "fsdp.yaml"
    ).read_text(encoding="utf-8")
    return {key: value for key, value in yaml.safe_load(text).items() if key != "source"} | {
        "loss_bytes": 1,
        "loss_moves": 4,
    }


def rows(path: Path | str = RUNS, source: str = "") -> list[Row]:
    """The runs of a table, on machines that have a shipped fabric."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            row
            for row in csv.DictReader(file)
            if source in row["source"]
            and row["device"] in MACHINES
            and row["layers"]
            and not row["model"].startswith("nemotron-h")
        ]  # of Mamba layers


def model_of(row: Row) -> dict[str, Any]:
    model: dict[str, Any] = {
        key: whole(row, key)
        for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    }
    model |= {
        "ffn": model["ffn"] or whole(row, "moe_ffn"),
        "gated": row["gated"] == "1",
        "tied": row["tied"] == "1",
    }
    if whole(row, "experts", 0):
        named = {
            "experts": "experts",
            "topk": "top_k",
            "moe_ffn": "ffn",
            "shared_ffn": "shared_ffn",
            "dense_layers": "dense_layers",
        }
        model["moe"] = {key: whole(row, column, 0) for column, key in named.items()}
        model["moe"] |= {"imbalance": 1} if forced_even(row) else {}
    kind, _, window = row.get("attn", "").partition(" ")
    if kind == "mla":
        model["mla"] = DEEPSEEK
        del model["head_dim"], model["kv_heads"]
    if window:
        # keys that a query sees / layers where it does
        model["window"], model["windowed_layers"] = map(int, window.split("/"))
    return model


def forced_even(row: Row) -> bool:
    """Whether tokens were dealt out evenly, by the router's test mode or a capacity of 1."""
    return bool(row.get("balanced"))


def layout_of(row: Row) -> dict[str, Any]:
    tp = whole(row, "tp")
    layout: dict[str, Any] = {key: whole(row, key) for key in ("cp", "pp", "ep", "dp")}
    layout |= {"tp": tp, "sp": row.get("sp") == "1" and tp > 1, "virtual": whole(row, "vpp")}
    if row.get("etp"):
        layout["etp"] = whole(row, "etp")
    # 1, or the name of a dispatcher
    named = row.get("deepep") or ""
    if named in DISPATCHERS:
        layout["dispatcher"] = named
    else:
        layout["deduplicate"] = bool(named)
    if row.get("stages"):
        layout["stages"] = [int(count) for count in row["stages"].split()]
    return layout


def job_of(row: Row) -> dict[str, Any]:
    named, stack = row["precision"].lower(), stack_of(row)
    fsdp = row["zero"].startswith("fsdp")
    mode = (
        "fsdp"
        if fsdp
        else next((known for known in ("zero1", "hsdp") if row["zero"].startswith(known)), "ddp")
    )
    group = {"group": int(row["zero"].split("-")[1])} if mode == "hsdp" else {}
    if mode == "fsdp" and slices_of(row) > 1:
        mode, group = "hsdp", {"group": whole(row, "dp") // slices_of(row)}
    halves = row["source"] not in (
        "korthikanti",
        "narayanan",
        "torchtitan",
        "simumax-b200",
    )  # the others sum gradients in 16 bits
    plain = row["source"] in (*OLD, "simumax-b200")  # with overlap off
    new, dense = stack == "megatron" and not fsdp, not whole(row, "experts", 0)
    splits = new and row.get("sp") == "1" and (dense or row.get("tp_hides") == "1")
    return {
        "model": model_of(row),
        "sequence": whole(row, "seq"),
        "batch": {"global": whole(row, "gbs"), "micro": whole(row, "mbs")},
        "layout": layout_of(row),
        "shard": {"mode": mode} | group | ({"grad_bytes": 2} if halves else {}),
        "recompute": RECOMPUTED.get(row["recompute"], "none"),
        "precision": {
            "compute": next(
                (known for known in ("fp8", "int8", "fp4", "fp16") if known in named), "bf16"
            )
        },
        "offload": {"activations": 1 if row["recompute"] in ON_THE_HOST else 0},
        "device": MACHINES[row["device"]][1],
        "cuda_graphs": GRAPHS.get(
            row.get("graphs") or ("0" if row["source"] in WITHOUT_GRAPHS else "")
        ),
        "stack": fused_loss() if row["source"] == "mosaic" else stack,
        "overlap": (
            {"dp": None if whole(row, "dp") > 1 and not plain else False}
            | ({"tp": "bulk" if plain else True} if splits else {})
            | ({"ep": True} if row.get("ep_hides") == "batch" else {})
        ),
    }


def slices_of(row: Row) -> int:
    """Slices of TPUs, joined by the network of the data center: as the row says, else as few as
    may be."""
    pod = POD.get(MACHINES[row["device"]][0])
    if pod is None:
        return 1
    return whole(row, "slices", -(-whole(row, "devices") // pod))


def fabric_of(row: Row) -> Any:
    name, ranks = MACHINES[row["device"]][0], whole(row, "devices")
    if name in POD:
        return slices(name, ranks, slices_of(row))
    return fabric(name, ranks, row.get("outer_GBps_dev") or "")


@cache
def slices(name: str, ranks: int, count: int) -> Any:
    """So many slices of TPUs of the same shape."""
    if count == 1:
        return job_slice(colltool.load_fabric(name), ranks)
    more = {
        "name": "dcn",
        "topology": "star",
        "size": count,
        "alpha": "10us",
        "bandwidth": DCN[name],
    }
    changes = []
    if name not in ("tpu-v5e", "tpu-v6e"):  # of 256 chips, as shipped
        changes.append(f"ici.shape={cubes(ranks // count)}")
    return colltool.load_fabric({"name": "slices", "like": name, "tiers": [more]}, changes)


def cubes(chips: int) -> list[int]:
    """The sides of a slice of cubes of 4 x 4 x 4, as even as may be."""
    sides = [4, 4, 4]
    while sides[0] * sides[1] * sides[2] < chips:
        sides.sort()
        sides[0] *= 2
    return sorted(sides)


@cache
def fabric(name: str, ranks: int, rate: str) -> Any:
    """A shipped fabric for so many ranks, with NICs of another rate where the run had them."""
    nodes, outer = (
        max(2, -(-ranks // (RACK if name == "nvl72" else 8))),
        OUTER.get(name, "ib"),
    )
    changes = [f"{outer}.size={nodes}"]
    changes += (
        [f"{outer}.levels.spine.group={-(-nodes // LEAVES) * LEAVES}"] if nodes > LARGEST else []
    )
    changes += [f"nvlink.size={RACK}"] if name == "nvl72" else []
    return colltool.load_fabric(name, changes + ([f"{outer}.bandwidth={rate}GB/s"] if rate else []))


def judge(row: Row) -> Judged:
    """A run beside its plan.

    Raises:
        ColltoolError: the plan refuses it.
    """
    setup, real = (
        colltool.load_job(job_of(row)).setup(whole(row, "devices")),
        float(row["t_step_s"]),
    )
    step, kept = step_time(setup, CollectiveCostCache(fabric_of(row))), memory(setup)
    off = kept.bytes / (float(row["mem_GB"]) * 1e9) - 1 if row["mem_GB"] else None
    return Judged(
        row, step.step_s, bool(kept.fits), step.step_s / real - 1, step.control_s / real - 1, off
    )


def judged(table: Iterable[Row]) -> tuple[list[Judged], list[str]]:
    """All runs that can be planned, and what was refused."""
    found, refused = [], []
    for row in table:
        try:
            found.append(judge(row))
        except colltool.ColltoolError as error:
            refused.append(f"{row['source']} {row['run']}: {str(error).splitlines()[0]}")
    return found, refused


def regret(found: Iterable[Judged]) -> list[float]:
    """What the layout of the least plan lost to the fastest, where one stack ran one job in
    several; a layout at its best run."""
    groups: dict[tuple[str, ...], dict[tuple[str, ...], tuple[float, float]]] = defaultdict(dict)
    for one in found:
        key = tuple(
            one.row[name]
            for name in ("source", "model", "seq", "gbs", "devices", "device", "precision")
        )
        layout = tuple(
            one.row[name] for name in ("tp", "pp", "vpp", "ep", "cp", "mbs", "zero", "recompute")
        )
        runs, real = groups[(stack_of(one.row), *key)], float(one.row["t_step_s"])
        if layout not in runs or real < runs[layout][1]:
            runs[layout] = one.step_s, real
    several = [list(runs.values()) for runs in groups.values() if len(runs) > 2]
    return [min(runs)[1] / min(real for _, real in runs) - 1 for runs in several]


def growth(found: Iterable[Judged]) -> dict[str, float]:
    """By series: how much more a step grows in the plan than it did, a doubling of devices."""
    series: dict[tuple[str, ...], list[Judged]] = defaultdict(list)
    for one in found:
        if whole(one.row, "dp") and not one.row["source"].startswith("vtrain"):
            share = f"{whole(one.row, 'gbs') / whole(one.row, 'dp'):g}"
            series[(*(one.row.get(name) or "" for name in SERIES), share)].append(one)
    out = {}
    for runs in series.values():
        first, last = (pick(runs, key=lambda one: whole(one.row, "devices")) for pick in (min, max))
        doublings = log2(whole(last.row, "devices") / whole(first.row, "devices"))
        if doublings >= 1:
            name = f"{first.row['source']} {first.row['run']} to {last.row['devices']}"
            out[name] = ((1 + last.error) / (1 + first.error)) ** (1 / doublings) - 1
    return out


def said(name: str, errors: list[float], control: list[float]) -> str:
    off, free = list(map(abs, errors)), list(map(abs, control))
    return (
        f"{name:40} {len(errors):4} runs  median |e| {median(off):6.1%}  mean |e| {mean(off):6.1%} "
        f" bias {mean(errors):+6.1%}  control: median |e| {median(free):6.1%}, bias"
        f" {mean(control):+6.1%}"
    )


def main(path: str = str(RUNS), source: str = "", each: bool = False) -> None:
    found, refused = judged(rows(path, source))
    print(f"{len(found)} planned, {len(refused)} refused", *refused, sep="\n  ")
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in found:
        if each:
            memory = "" if one.memory is None else f"  memory {one.memory:+.1%}"
            print(
                f"{one.row['source']:18} {one.row['device']:10} {one.row['run']:32}"
                f" {one.error:+7.1%}{memory}"
            )
        groups[f"{one.row['source']} {one.row['device']} {one.kind}"].append(one)
        groups[f"stack {stack_of(one.row)} {one.kind}"].append(one)
    for name, runs in sorted(groups.items()):
        print(said(name, [one.error for one in runs], [one.control for one in runs]))
    if grown := growth(found):
        size = [abs(off) for off in grown.values()]
        print(
            f"growth, {len(grown)} series: median {median(size):.2%} a doubling, worst"
            f" {max(size):.2%}"
        )
        if each:
            print(*(f"  {name}: {off:+.2%}" for name, off in grown.items()), sep="\n")
    if lost := regret(found):
        print(
            f"regret of the chosen layout, {len(lost)} jobs: median {median(lost):.1%}, mean"
            f" {mean(lost):.1%}"
        )
    if kept := [one for one in found if one.memory is not None]:
        off = [one.memory for one in kept if one.memory is not None]
        print(
            f"memory, {len(kept)} runs: median |e| {median(map(abs, off)):.1%}, bias"
            f" {mean(off):+.1%}"
        )
    wrong = [f"{one.row['source']} {one.row['run']}" for one in found if not one.fits]
    print(
        f"{len(found) - len(wrong)} of {len(found)} are said to fit, and all ran",
        *wrong * each,
        sep="\n  ",
    )


if __name__ == "__main__":
    main(*(one for one in sys.argv[1:] if one != "--each"), each="--each" in sys.argv)
