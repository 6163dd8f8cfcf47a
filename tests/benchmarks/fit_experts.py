"""Fits the formulas of DeepEP's kernels, and of experts as engines call them, to the rows of a file.

    python tests/benchmarks/fit_experts.py [ROWS.csv[.gz]]

Without a file: tests/data/inference/experts.csv, a subsample of the rows (ai-dynamo/aiconfigurator
0.12.0, Apache-2.0) that the numbers of ``colltool/engines/data`` were fitted to; the whole tables give
those. Prints for each kernel, operation, GPU and format the numbers that fit best, starting from the
shipped ones, and the median errors of both.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from bench_experts import DTYPES, FABRICS, KERNELS, ROWS, call_of, named, rows
from scipy.optimize import least_squares

from colltool.engines.experts import kernel_call
from colltool.engines.files import KernelFile
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.lookup import find_library
from colltool.engines.site import kernel_site
from colltool.fabric.load import load_fabric

# relative errors above this count less
_OUTLIER = 0.05


def kernel_of(row: dict[str, str]) -> KernelFile | None:
    """The shipped kernel that was fitted to rows like this one."""
    library = find_library(KERNELS[row["kernel"]][0])
    gpu = load_fabric(FABRICS[row["gpu"]]).device
    dtype = DTYPES.get(row["dtype"], row["dtype"])
    for kernel in library.kernels:
        same = (kernel.name, kernel.operation) == (named(row), row["operation"])
        formats = kernel.always_sends is not None or not kernel.sends or dtype in kernel.sends
        if same and formats and gpu in kernel.gpus and not kernel.across:
            return kernel
    return None


def errors(
    kernel: KernelFile, parameters: dict[str, float], calls: list[KernelCall], us: Any
) -> Any:
    times = [FORMULAS[kernel.formula].of(parameters, call).total_s * 1e6 for call in calls]
    return np.log(np.array(times) / us)


def fitted(kernel: KernelFile, calls: list[KernelCall], us: Any) -> dict[str, float]:
    """The numbers above 0 that fit best; those that are 0 stay."""
    names = [name for name, value in kernel.parameters.items() if value > 0]

    def off(logarithms: Any) -> Any:
        found = dict(zip(names, np.exp(logarithms), strict=True))
        return errors(kernel, {**kernel.parameters, **found}, calls, us)

    start = np.log([kernel.parameters[name] for name in names])
    solved = least_squares(off, start, loss="soft_l1", f_scale=_OUTLIER)
    return {**kernel.parameters, **dict(zip(names, np.exp(solved.x), strict=True))}


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    groups: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows(path):
        groups[row["kernel"], row["operation"], row["gpu"], row["dtype"]].append(row)
    for key, several in sorted(groups.items()):
        kernel = kernel_of(several[0])
        if kernel is None:
            print(f"{' '.join(key)}: no kernel of its own")
            continue
        calls = []
        for row in several:
            site = kernel_site(load_fabric(FABRICS[row["gpu"]]), int(row["ranks"]))
            call = call_of(row)
            if kernel.always_sends is not None:
                call = call._replace(dtype=kernel.always_sends)
            calls.append(kernel_call(kernel, call, site))
        us = np.array([float(row["time_us"]) for row in several])
        found = fitted(kernel, calls, us)
        medians = []
        for parameters in (dict(kernel.parameters), found):
            medians.append(float(np.median(np.abs(errors(kernel, parameters, calls, us)))))
        numbers = ", ".join(f"{name} = {value:.4g}" for name, value in found.items())
        print(f"{' '.join(key)}, {kernel.formula}: {medians[0]:.1%} -> {medians[1]:.1%}: {numbers}")


if __name__ == "__main__":
    main()
