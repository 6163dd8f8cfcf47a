"""How far off the kernels of experts are, by kernel, GPU and mode, on the rows of a file.

    python tests/benchmarks/bench_experts.py [ROWS.csv[.gz]]

Without a file: the subsample of tests/data/inference/experts.csv. A file has the columns of that one
(tables of aiconfigurator, Apache-2.0, with bytes and times in us). Prints the median and the 90th
percentile of |predicted / measured - 1|, the bias, the share of rows inside the printed interval, and
which factors of the formula hold nine of ten rows.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.engines.experts import price_experts
from colltool.engines.lookup import find_library
from colltool.engines.tokens import Tokens
from colltool.fabric.load import load_fabric

ROWS = Path(__file__).parent.parent / "data" / "inference" / "experts.csv"
FABRICS = {
    "H100-SXM": "dgx-h100",
    "H200-SXM": "hgx-h200",
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "nvl72",
    "GB200 NVL72": "nvl72",
    "GB300": "gb300-nvl72",
}
# kernels of the tables: the library, the kernel in it, and the mode
KERNELS = {
    "DeepEP normal": ("deepep@1", "normal", "graph"),
    "DeepEP low-latency": ("deepep@1", "low-latency", "graph"),
    "deepep_ht": ("vllm@0.24.0", "DeepEP normal", "eager"),
    "deepep_ll": ("vllm@0.24.0", "DeepEP low-latency", "eager"),
    "deepep_v2_context": ("vllm@0.24.0", "DeepEP v2 prefill", "eager"),
    "deepep_v2_generation": ("vllm@0.24.0", "DeepEP v2 decode", "eager"),
    "trtllm_deepep_ht": ("trtllm@1.3.0rc20", "DeepEP normal", "eager"),
    "trtllm_deepep_ll": ("trtllm@1.3.0rc20", "DeepEP low-latency", "eager"),
    "NVLinkOneSided": ("trtllm@1.3.0rc20", "NVLinkOneSided", "graph"),
    "NVLinkTwoSided": ("trtllm@1.3.0rc20", "NVLinkTwoSided", "graph"),
    "NVLinkTwoSided low-precision": ("trtllm@1.3.0rc20", "NVLinkTwoSided low-precision", "graph"),
}
DTYPES = {"bfloat16": "bf16", "fp4": "nvfp4", "default": "bf16"}


class Found(NamedTuple):
    """Predicted over measured time of a row, and whether the interval holds the measured one."""

    ratio: float
    inside: bool | None


def rows(path: Path) -> Iterator[dict[str, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["tokens"] and row["kernel"] in KERNELS and row["gpu"] in FABRICS:
                yield row


def named(row: dict[str, str]) -> str:
    """The name of a row's kernel in its library."""
    if row["operation"] == "prepare":
        return "NVLinkTwoSided"
    name = KERNELS[row["kernel"]][1]
    if row["kernel"] == "trtllm_deepep_ll" and row["dtype"] == "fp4":
        name += " low-precision"
    return name


def call_of(row: dict[str, str]) -> Tokens:
    return Tokens(
        tokens=int(row["tokens"]),
        top_k=int(row["topk"]),
        hidden=int(row["hidden"]),
        experts=int(row["experts"]),
        dtype=DTYPES.get(row["dtype"], row["dtype"]),
        # rows across nodes limit routing to four of them
        groups=4 if int(row["nodes"] or 1) > 4 else 0,
        sms=int(row["sms"] or 0) if row["kernel"] == "DeepEP normal" else 0,
    )


def found(row: dict[str, str]) -> Found:
    library, _, mode = KERNELS[row["kernel"]]
    operation = row["operation"]
    call = call_of(row)
    asked: Any = mode
    priced = price_experts(
        find_library(library),
        load_fabric(FABRICS[row["gpu"]]),
        operation,
        call,
        int(row["ranks"]),
        asked,
    )
    estimate = next(one for one in priced.results if one.kernel == named(row))
    measured_s = float(row["time_us"]) * 1e-6
    inside = None
    if estimate.interval is not None:
        inside = estimate.interval.low_s <= measured_s <= estimate.interval.high_s
    return Found(estimate.total_s / measured_s, inside)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    groups: dict[tuple[str, ...], list[Found]] = defaultdict(list)
    refused: dict[str, int] = defaultdict(int)
    for row in rows(path):
        key = (row["kernel"], row["operation"], row["gpu"], row["ranks"], row["dtype"])
        try:
            groups[key].append(found(row))
        except (ColltoolError, StopIteration) as error:
            refused[f"{' '.join(key)}: {error}"] += 1
    for key in sorted(groups):
        show(" ".join(key), groups[key])
    for mode in ("graph", "eager"):
        every: list[Found] = []
        for key, several in groups.items():
            if KERNELS[key[0]][2] == mode:
                every += several
        if every:
            show(f"all, {mode}", every)
    for why, count in refused.items():
        print(f"refused {count}: {why}")


def show(title: str, several: list[Found]) -> None:
    ratios = sorted(one.ratio for one in several)
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    last = len(ratios) - 1
    held = [one.inside for one in several if one.inside is not None]
    share = f"{sum(held) / len(held):4.0%} inside" if held else "no interval"
    low = 1 / ratios[round(0.95 * last)]
    high = 1 / ratios[round(0.05 * last)]
    print(
        f"{title:62} {len(ratios):5} rows {median(errors):6.1%} median {errors[round(0.9 * last)]:6.1%}"
        f" p90 {median(ratios) - 1:+6.1%} bias, {share}, [{low:.3g}, {high:.3g}]"
    )


if __name__ == "__main__":
    main()
