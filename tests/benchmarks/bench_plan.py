"""Steps of measured training runs against what plan makes of them, by source and device, beside the control.

    python tests/benchmarks/bench_plan.py TRAINING.csv [SOURCE]

The columns: source, device, layers, hidden, heads, kv_heads, head_dim, ffn, gated, vocab, tied, seq, gbs, mbs, tp, sp, pp, vpp,
dp, cp, zero, recompute, precision, devices, outer_GBps_dev, t_step_s. Rows of experts and of other devices are left out.
The regret: of the runs of one job on one number of devices, how much longer the one took that plan calls the fastest.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from statistics import mean, median
from typing import Any

import colltool

Row = dict[str, str]
Found = tuple[Row, Any]
FABRICS = {"A100-40GB": "dgx-a100", "A100-80GB": "dgx-a100", "H100-80GB": "dgx-h100", "H100": "dgx-h100"}
DEVICES = {"A100-40GB": "a100-40gb", "A100-80GB": "a100-80gb", "H100-80GB": "h100", "H100": "h100"}
STACKS = {"mosaic": "fsdp", "mbridge": "megatron", "korthikanti": "megatron-2021", "vtrain-multi": "megatron-2021"}


def whole(row: Row, key: str, default: int = 1) -> int:
    return int(float(row[key])) if row.get(key) else default


def job_of(row: Row) -> dict[str, Any]:
    shape = {key: whole(row, key) for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")}
    tp, vpp, fsdp = whole(row, "tp"), whole(row, "vpp"), row["zero"].startswith("fsdp")
    mode = "fsdp" if fsdp else "zero1" if row["zero"].startswith("zero1") else "ddp"
    named = row["precision"].lower()
    precision = "fp8" if "fp8" in named else "fp16" if named == "fp16" else "bf16"
    halves = fsdp or row["source"] == "vtrain-multi"  # DeepSpeed sums gradients in the precision of the weights
    return {
        "model": shape | {"gated": row["gated"] == "1", "tied": row["tied"] == "1"},
        "sequence": whole(row, "seq"),
        "batch": {"global": whole(row, "gbs"), "micro": whole(row, "mbs")},
        "layout": {"tp": tp, "sp": row.get("sp") == "1" and tp > 1, "cp": whole(row, "cp"), "pp": whole(row, "pp"),
                   "virtual": vpp, "dp": whole(row, "dp")},
        "shard": {"mode": mode} | ({"grad_bytes": 2} if halves else {}),
        "recompute": row["recompute"] if row["recompute"] in ("none", "selective", "full") else "none",
        "precision": {"compute": precision},
        "device": DEVICES[row["device"]],
        "stack": STACKS[row["source"]],
        "overlap": {"dp": row["source"] not in ("vtrain-multi", "korthikanti"), "tp": row["source"] == "mbridge" and tp > 1},
    }  # fmt: skip


def fabric_of(row: Row) -> Any:
    nodes = max(2, -(-whole(row, "devices") // 8))
    rate = row.get("outer_GBps_dev")
    return colltool.load_fabric(FABRICS[row["device"]], [f"ib.size={nodes}"] + ([f"ib.bandwidth={rate}GB/s"] if rate else []))


def planned(rows: list[Row]) -> list[Found]:
    found, refused = [], 0
    for row in rows:
        if row["device"] not in FABRICS or row["source"] not in STACKS or whole(row, "experts", 0):
            continue
        try:
            found.append((row, colltool.plan(job_of(row), fabric_of(row), whole(row, "devices"))))
        except colltool.ColltoolError as error:
            refused += 1
            print("refused:", row["run"], str(error).splitlines()[0])
    print(f"{len(found)} planned, {refused} refused")
    return found


def regret(found: list[Found]) -> list[float]:
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for row, plan in found:
        key = tuple(row[name] for name in ("source", "model", "seq", "gbs", "devices", "device", "precision"))
        groups[key].append((plan.step_s, float(row["t_step_s"])))
    several = [runs for runs in groups.values() if len(runs) > 2]
    return [min(runs)[1] / min(real for _, real in runs) - 1 for runs in several]


def main(path: str, source: str = "") -> None:
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if source in row["source"]]
    found = planned(rows)
    groups: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row, plan in found:
        real = float(row["t_step_s"])
        groups["stack", STACKS[row["source"]]].append((plan.step_s / real - 1, plan.control_step_s / real - 1))
        groups[row["source"], row["device"]].append((plan.step_s / real - 1, plan.control_step_s / real - 1))
    for key, errors in sorted(groups.items()):
        whole_, free = [one for one, _ in errors], [one for _, one in errors]
        print(f"{' '.join(key):26} {len(errors):4} runs  median |e| {median(map(abs, whole_)):6.1%}  mean |e| "
              f"{mean(map(abs, whole_)):6.1%}  bias {mean(whole_):+6.1%}  control: median |e| {median(map(abs, free)):6.1%}, "
              f"bias {mean(free):+6.1%}")  # fmt: skip
    lost = regret(found)
    if lost:
        print(f"regret of the chosen layout, {len(lost)} jobs: median {median(lost):.1%}, mean {mean(lost):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
