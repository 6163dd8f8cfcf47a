"""The numbers of engines' all-reduce kernels, from rows of tests/data/inference/engines.csv
(aiconfigurator, Apache-2.0).

    python tests/benchmarks/fit_engines.py [--check]

Each row belongs to the kernel that the library's own table takes at its version, GPU, ranks and
size; rows of one CUDA kernel are fitted together, whichever engine ran them. Writes the numbers into
colltool/engines/data, or with --check says where they differ by more than a thousandth.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fit_kernels import fitted

from colltool.engines.dispatch import pick_at, rules_for
from colltool.engines.files import EITHER, KernelFile
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.lookup import find_library, read_library
from colltool.engines.shipped import FOLDER, version_key
from colltool.engines.site import kernel_site
from colltool.fabric.load import load_fabric

ROWS = Path(__file__).parent.parent / "data" / "inference" / "engines.csv"
FABRICS = {
    "a100-80gb": "dgx-a100",
    "h100": "dgx-h100",
    "h200": "hgx-h200",
    "b200": "dgx-b200",
    "b300": "dgx-b300",
    "gb200": "nvl72",
    "gb300": "gb300-nvl72",
    "l40s": "l40s-pcie",
    "rtx-pro-6000": "rtx-pro-6000-pcie",
    "b60": "b60-pcie",
}
FILES = ("vllm-0.27.0", "sglang-0.5.14", "trtllm-1.3.0rc20", "flashinfer-2026.8")
# Rows of another GB200 than the rest, see the files.
OTHER_BOX = {("sglang", "0.5.9"), ("vllm", "0.19.0"), ("vllm", "0.24.0")}
# Kernels whose numbers stay as they are: fitted with rows that are not here, as their files say.
KEPT = {"symm_mem two-shot"}
MNNVL = "mnnvl-two-shot"
# Ranks up to which its port decides: FlashInfer's published 2, 4 and 8 ranks have one rate, 16 has not.
BY_PORT = 8


class EngineRow(NamedTuple):
    """A measured all-reduce of an engine; ``kernel`` where the source says which."""

    engine: str
    version: str
    gpu: str
    mode: str
    ranks: int
    bytes: int
    kernel: str
    us: float

    @property
    def ill(self) -> bool:
        return self.gpu == "gb200" and (self.engine, self.version) in OTHER_BOX


def engine_rows(path: Path = ROWS) -> list[EngineRow]:
    with path.open(encoding="utf-8") as file:
        return [
            EngineRow(
                *(one[key] for key in ("engine", "version", "gpu", "mode")),
                int(one["ranks"]),
                int(one["bytes"]),
                one["kernel"],
                float(one["time_us"]),
            )
            for one in csv.DictReader(file)
        ]


def picked(row: EngineRow) -> str:
    """The kernel that the library's table takes for a row; of two both, by their names."""
    library = find_library(f"{row.engine}@{row.version}")
    site = kernel_site(load_fabric(FABRICS[row.gpu]), row.ranks)
    rule = pick_at(rules_for(library, "all_reduce", site), row.bytes)
    return rule.kernel if rule is not None else ""


def features(kernel: KernelFile, rows: Sequence[EngineRow]) -> Any:
    """A column for each fitted parameter: base, per_rank, bytes, and the passes of some; of the
    two-shot over a rack base, and bytes by its port or by the waits for every rank."""
    step = kernel.parameters.get("pass_KiB", 0) * 1024
    table = []
    for row in rows:
        others = row.ranks - 1
        if kernel.formula == MNNVL:
            moved, waited = (2 - 1 / row.ranks) * row.bytes / 1e3, row.ranks * row.bytes / 1e6
            by_port = row.ranks <= BY_PORT
            table.append([1.0, moved if by_port else 0.0, 0.0 if by_port else waited])
            continue
        moved = {
            "one-shot": others,
            "one-shot-passes": others,
            "two-shot": 2 * others / row.ranks,
            "two-shot-passes": 2 * others / row.ranks,
            "multimem": 1 + 1 / row.ranks,
        }
        line = [1.0, others, moved[kernel.formula] * row.bytes / 1e3]
        if kernel.formula == "one-shot-passes":
            line.append(ceil(row.bytes / step) - 1)
        if kernel.formula == "two-shot-passes":
            line.append(others * ceil(row.bytes / row.ranks / step))
        table.append(line)
    return np.array(table)


# Two-shots and multimem have no term a rank: their rows have one or two rank counts.
FREE = {
    "one-shot": (0, 1, 2),
    "one-shot-passes": (0, 1, 2, 3),
    "two-shot-passes": (0, 2, 3),
    MNNVL: (0, 1, 2),
}
# up to here bytes take next to no time, so that more ranks show what each of them costs
SMALL_BYTES = 4096
ByKernel = dict[tuple[str, str], list[EngineRow]]


def peer_us(by_kernel: ByKernel, name: str, gpu: str) -> float:
    """What one more rank adds to a one-shot: the median of the same kernel on other GPUs, or of all
    one-shots there. Rows of one number of ranks cannot tell it from the start."""
    same: list[float] = []
    others: list[float] = []
    for (kernel, measured_on), rows in by_kernel.items():
        if measured_on == gpu or "one-shot" not in kernel:
            continue
        (same if kernel == name else others).extend(_gaps_us(rows))
    return float(np.median(same or others))


def _gaps_us(rows: Sequence[EngineRow]) -> list[float]:
    """us a rank between the fewest and the most ranks, for each small size and version."""
    times: dict[tuple[str, str, int], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.bytes <= SMALL_BYTES:
            times[row.engine, row.version, row.bytes][row.ranks] = row.us
    found = []
    for by_ranks in times.values():
        fewest, most = min(by_ranks), max(by_ranks)
        if most > fewest:
            found.append((by_ranks[most] - by_ranks[fewest]) / (most - fewest))
    return found


def parameters(
    kernel: KernelFile, rows: Sequence[EngineRow], each_us: float = 0.0
) -> dict[str, float]:
    """The parameters of a kernel that fit rows; ``each_us``: what a rank adds, where all rows have one
    number of ranks."""
    table = features(kernel, rows)
    us = np.array([row.us for row in rows])
    free = list(FREE.get(kernel.formula, (0, 2)))
    held = 0.0
    if 1 in free and len({row.ranks for row in rows}) == 1:
        free.remove(1)
        held = each_us
    own = np.zeros(table.shape[1])
    offset = held * table[:, 1]
    own[free] = fitted(table[:, free], us - offset)
    own[1] += held
    if kernel.formula == MNNVL:
        named = {"base_us": own[0], "GBps": 1 / own[1], "rank_MB_us": own[2]}
        return _rounded(named)
    named = {"base_us": own[0], "per_rank_us": own[1], "GBps": 1 / max(own[2], 1e-6)}
    if len(own) > 3:
        named |= {"pass_us": own[3], "pass_KiB": kernel.parameters["pass_KiB"]}
    return _rounded(named)


def _rounded(named: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in named.items()}


def predicted_us(kernel: KernelFile, own: dict[str, float], row: EngineRow) -> float:
    times = FORMULAS[kernel.formula].of(own, KernelCall(row.ranks, row.bytes))
    return times.total_s * 1e6


def two_kernels(
    pair: Sequence[KernelFile], rows: Sequence[EngineRow], each_us: float = 0.0
) -> tuple[dict[str, float], dict[str, float]]:
    """Both kernels of which a library takes the faster: the sizes from which the second runs, for
    each number of ranks, are those that fit best."""
    counts = sorted({row.ranks for row in rows})
    sizes = sorted({row.bytes for row in rows})
    best, least = None, np.inf
    starts: list[dict[int, float]] = [{}]
    for count in counts:
        starts = [{**one, count: size} for one in starts for size in (*sizes[6:], np.inf)]
    for start in starts:
        first = [row for row in rows if row.bytes < start[row.ranks]]
        second = [row for row in rows if row.bytes >= start[row.ranks]]
        if len(first) < 4 or len(second) < 3:
            continue
        own = parameters(pair[0], first, each_us), parameters(pair[1], second)
        off = [
            abs(
                min(predicted_us(pair[0], own[0], row), predicted_us(pair[1], own[1], row)) / row.us
                - 1
            )
            for row in rows
        ]
        if np.mean(off) < least:
            best, least = own, float(np.mean(off))
    assert best is not None
    return best


def fitted_laws(
    kernels: Sequence[KernelFile], rows: Sequence[EngineRow], each_us: float
) -> Sequence[dict[str, float]]:
    """The parameters of one kernel, or of two of which the faster runs."""
    if len(kernels) == 1:
        return [parameters(kernels[0], rows, each_us)]
    return two_kernels(kernels, rows, each_us)


def assigned(rows: Sequence[EngineRow]) -> ByKernel:
    """Rows by kernel and GPU; SGLang's version 1 is vLLM's kernel."""
    found: ByKernel = defaultdict(list)
    for row in rows:
        if row.mode == "graph" and not row.ill and row.gpu in FABRICS:
            found[picked(row), row.gpu].append(row)
    return found


def laws(rows: Sequence[EngineRow]) -> dict[tuple[str, int], dict[str, float]]:
    """Parameters by file and the place of the kernel in it."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    by_kernel = assigned(rows)
    for file in FILES:
        kernels = every_kernel(file)
        engine = file.partition("-")[0]
        for place, kernel in enumerate(kernels):
            # vLLM's FlashInfer repeats the design of TensorRT-LLM's
            name = kernel.name.replace("flashinfer", "mnnvl")
            own = by_kernel.get((name, kernel.gpus[0]), [])
            own = [row for row in own if kernel.ranks[0] <= row.ranks <= kernel.ranks[1]]
            if len({row.bytes for row in own}) >= 2 and kernel.name not in KEPT:
                each_us = peer_us(by_kernel, name, kernel.gpus[0])
                found[file, place] = parameters(kernel, own, each_us)
        for (names, gpu), own in by_kernel.items():
            if EITHER in names and own[0].engine == engine:
                each_us = peer_us(by_kernel, names, gpu)
                found |= _of_pairs(file, kernels, names.split(EITHER), own, each_us)
    return found


def _of_pairs(
    file: str,
    kernels: Sequence[KernelFile],
    names: Sequence[str],
    rows: Sequence[EngineRow],
    each_us: float,
) -> dict[tuple[str, int], dict[str, float]]:
    """Parameters of two kernels of which the faster runs, for each range of versions that has its
    own; of a kernel that is in several, the newest."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    by_places: dict[tuple[int, ...], list[EngineRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: version_key(row.version)):
        places = [
            place
            for place, kernel in enumerate(kernels)
            if kernel.name in names and row.gpu in kernel.gpus and kernel.holds_in(row.version)
        ]
        by_places[tuple(places)].append(row)
    for places, own in by_places.items():
        fits = fitted_laws([kernels[place] for place in places], own, each_us)
        for place, numbers in zip(places, fits, strict=True):
            found[file, place] = numbers
    return found


def every_kernel(file: str) -> tuple[KernelFile, ...]:
    return read_library((FOLDER / f"{file}.toml").read_text(encoding="utf-8"), file).kernels


def main(check: bool, say: Callable[[str], None] = print) -> int:
    stale = 0
    found = laws(engine_rows())
    for file in FILES:
        path = FOLDER / f"{file}.toml"
        parts = re.split(r"(?m)^parameters = \{.*\}$", path.read_text(encoding="utf-8"))
        kernels = every_kernel(file)
        text = parts[0]
        for place, kernel in enumerate(kernels):
            own = found.get((file, place), kernel.parameters)
            differ = [
                name
                for name, value in own.items()
                if abs(value - kernel.parameters[name]) > 1e-3 * max(1.0, abs(value))
            ]
            stale += bool(differ)
            if differ and check:
                say(f"{path.name}, {kernel.name} of {kernel.gpus[0]}: {differ} would change")
            words = ", ".join(f"{name} = {value!r}" for name, value in own.items())
            text += f"parameters = {{ {words} }}{parts[place + 1]}"
        if not check:
            path.write_text(text, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    raise SystemExit(main("--check" in sys.argv[1:]))
