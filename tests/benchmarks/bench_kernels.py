"""How far off the kernels of experts are on rows that their numbers were not taken from.

    python tests/benchmarks/bench_kernels.py [ROWS.csv]

Without a file: the development rows, with numbers of ranks left out. Engines' all-reduces:
bench_engines.py.
With a file of the same columns (``gpu`` by colltool's names), every row of it against the shipped
files. Prints the median of |predicted / measured - 1| of each group.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import fit_kernels as fit
import numpy as np
from fit_engines import FABRICS as ENGINES_ON
from fit_experts import errors, fitted
from fit_kernels import Row, rows

from colltool.base.errors import ColltoolError
from colltool.engines.experts import kernel_call, price_experts
from colltool.engines.lookup import find_library
from colltool.engines.site import kernel_site
from colltool.fabric.load import load_fabric

# MI350X, which no fabric has, is MI355X with less power
FABRICS = ENGINES_ON | {"mi300x": "mi300x-cluster", "mi350x": "mi355x", "mi355x": "mi355x"}
EXPERTS = {
    "deepep": "deepep",
    "mori-ep": "mori",
    "nccl-ep": "nccl-ep",
    "trtllm": "trtllm",
    "pplx": "pplx",
}


def predicted(row: Row) -> float | None:
    """Microseconds by the shipped files; None for what they have no kernel for."""
    fabric = load_fabric(FABRICS[row.gpu]) if row.gpu in FABRICS else None
    if fabric is None:
        return None
    try:
        library = EXPERTS[row.kernel.split()[0]]
        operation, what = row.operation.removeprefix("moe-"), fit.tokens_of(row)
        if library == "trtllm" and operation == "combine":
            what = what._replace(dtype="bf16")  # however it went out
        found = price_experts(find_library(library), fabric, operation, what, row.ranks)
        return next((one.total_s * 1e6 for one in found.results if one.kernel in row.kernel), None)
    except (ColltoolError, KeyError):
        return None


def line(title: str, errors: Iterable[float]) -> None:
    found = sorted(errors)
    if found:
        print(
            f"  {title:58} {median(found):6.1%} median, {found[int(0.9 * (len(found) - 1))]:6.1%}"
            f" p90, {len(found)} rows"
        )


def grouped(
    several: Iterable[Row], key: Callable[[Row], str], of: Callable[[Row], float | None] = predicted
) -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    for row in several:
        if (us := of(row)) is not None:
            errors[key(row)].append(abs(us / row.us - 1))
    for name in sorted(errors):
        line(name, errors[name])


def against(path: Path) -> None:
    fit.ROWS = path
    every = [row for row in rows() if row.operation.startswith("moe-")]
    grouped(
        every,
        lambda row: f"{row.operation}, {row.kernel}, {row.version}, {row.gpu}, {row.ranks} ranks",
    )


def experts_left_out() -> None:
    print("DeepEP low latency across nodes, EP 64 of H100 (the law is of EP 16 to 64):")
    grouped(rows(kernel="deepep low-latency", ranks=64), lambda row: row.operation)
    print("NCCL EP on 2 to 8 nodes, which DeepEP's law had not seen:")
    grouped(
        [row for row in rows(kernel="nccl-ep low-latency") if row.ranks > 8],
        lambda row: row.operation,
    )
    print("NVL72, TensorRT-LLM, a number of ranks left out:")
    fabric = load_fabric(FABRICS["gb200"])
    for kernel in find_library("trtllm").kernels:
        own = rows(kernel=f"trtllm {kernel.name}", operation=f"moe-{kernel.operation}")
        if kernel.always_sends:
            # of two-sided combine the rows of nvfp4 are two kernels', not told apart
            own = [row for row in own if "OneSided" in kernel.name or row.dtype != "nvfp4"]
        if not kernel.name.startswith("NVLink") or not own:
            continue
        calls = []
        for row in own:
            what = fit.tokens_of(row)
            what = what._replace(dtype=kernel.always_sends or what.dtype)
            calls.append(kernel_call(kernel, what, kernel_site(fabric, row.ranks)))
        us = np.array([row.us for row in own])
        for left in sorted({row.ranks for row in own}):
            seen = np.array([row.ranks != left for row in own])
            law = fitted(
                kernel, [one for one, kept in zip(calls, seen, strict=True) if kept], us[seen]
            )
            offs = np.abs(np.expm1(errors(kernel, law, calls, us)))
            line(f"{kernel.name}, {kernel.operation}, EP {left}", offs[~seen])


def main() -> None:
    if len(sys.argv) > 1:
        against(Path(sys.argv[1]))
        return
    experts_left_out()
    print("the rows that the files were fitted to:")
    experts = rows(source="aiconfigurator", operation=("moe-dispatch", "moe-combine"))
    grouped(experts, lambda row: f"{row.kernel}, {row.operation}, {row.gpu}, EP {row.ranks}")


if __name__ == "__main__":
    main()
