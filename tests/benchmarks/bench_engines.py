"""How far off engines' all-reduces are, by engine, version, GPU, ranks and size.

    python tests/benchmarks/bench_engines.py [FILE.csv.gz] [--mode graph|eager] [--rows]

Without a file: the development rows (tests/data/inference/engines.csv), then the laws fitted again
with one number of ranks left out, and each row asked of the numbers fitted without its size. FILE has the
columns gpu, engine, engine_version, kernel, operation, mode, ranks, nodes, bytes and time_us, GPUs by
the names of their makers. Prints the median and the ninth decile of |predicted / measured - 1|, and
how many rows lie inside the printed interval.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from fit_engines import (
    FABRICS,
    FILES,
    KEPT,
    MNNVL,
    EngineRow,
    assigned,
    engine_rows,
    every_kernel,
    fitted_laws,
    peer_us,
    predicted_us,
)
from fit_kernels import rows as rows_of
from kernel_files import NVLS, fit

from colltool.base.errors import ColltoolError
from colltool.engines.files import EITHER, KernelFile, Mode
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.lookup import find_library
from colltool.engines.price import price_kernels
from colltool.fabric.load import load_fabric

GPUS = {
    "A100-SXM4-80GB": "a100-80gb",
    "H100-SXM": "h100",
    "H200-SXM": "h200",
    "B200": "b200",
    "B300": "b300",
    "GB200": "gb200",
    "GB200 NVL72": "gb200",
    "GB300": "gb300",
    "L40S": "l40s",
    "RTX PRO 6000 server": "rtx-pro-6000",
    "Arc B60": "b60",
}
OVERRIDES = {"l40s": ["library.p2p=false"]}
# GB/s of the copy that the source's eager loop makes of its input before each call (half of the
# memory's bandwidth or so); an engine does not make that one, so it is taken off those rows.
COPY_US = {"a100-80gb": 1.5, "h100": 2.0, "h200": 2.0, "b200": 4.0, "b300": 4.0}
COPY_GBPS = {
    "a100-80gb": 870,
    "h100": 1500,
    "h200": 2110,
    "b200": 3280,
    "b300": 3280,
    "gb200": 3300,
    "gb300": 3300,
    "rtx-pro-6000": 740,
    "l40s": 320,
    "b60": 190,
}
# vllm-project/vllm pull request 53318: ranks, bytes and us, GB300, of no fit
PUBLISHED = (
    (2, 67_106_767, 146.95),
    (4, 83_879_788, 209.26),
    (8, 67_106_767, 180.87),
    (16, 8_386_511, 36.92),
)
SIZES = ((2**16, "to 64 KiB"), (2**23, "to 8 MiB"), (2**27, "to 128 MiB"), (2**60, "larger"))


class Answer(NamedTuple):
    row: EngineRow
    us: float
    kernel: str
    inside: bool | None

    @property
    def off(self) -> float:
        return abs(self.us / self.row.us - 1)


def answer(row: EngineRow) -> Answer | str:
    """What the shipped files say of a row, or why they refuse it."""
    if row.gpu not in FABRICS:
        return f"no fabric of {row.gpu}"
    fabric = load_fabric(FABRICS[row.gpu], OVERRIDES.get(row.gpu, ()))
    mode: Mode = "eager" if row.mode == "eager" else "graph"
    try:
        library = find_library(f"{row.engine}@{row.version}")
        best = price_kernels(library, fabric, "all_reduce", row.bytes, row.ranks, mode).best
    except ColltoolError as error:
        return error.what
    if mode == "eager" and "takes" not in " ".join(best.notes):
        copied_us = COPY_US.get(row.gpu, 0.0) + row.bytes / COPY_GBPS[row.gpu] / 1e3
        row = row._replace(us=row.us - copied_us)
    inside = None
    if best.interval is not None:
        inside = best.interval.low_s <= row.us * 1e-6 <= best.interval.high_s
    return Answer(row, best.total_s * 1e6, best.kernel, inside)


def read_file(path: Path) -> list[EngineRow]:
    rows = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for one in csv.DictReader(file):
            if one["operation"] == "all-reduce" and one["engine"] not in ("nccl", "oneccl"):
                gpu = GPUS.get(one["gpu"], one["gpu"])
                rows.append(
                    EngineRow(
                        one["engine"],
                        one["engine_version"],
                        gpu,
                        one["mode"],
                        int(one["ranks"]),
                        int(float(one["bytes"])),
                        one["kernel"],
                        float(one["time_us"]),
                    )
                )
    return rows


def size_class(row: EngineRow) -> str:
    return next(words for most, words in SIZES if row.bytes <= most)


def line(title: str, offs: Iterable[float], inside: Iterable[bool | None] = ()) -> None:
    found = sorted(offs)
    kept = [one for one in inside if one is not None]
    share = f", {sum(kept) / len(kept):4.0%} inside" if kept else ""
    tail = found[int(0.9 * (len(found) - 1))]
    print(f"  {title:46} {median(found):6.1%} median, {tail:6.1%} p90, {len(found):5} rows{share}")


def grouped(answers: Sequence[Answer], title: str, key: Callable[[Answer], str]) -> None:
    print(f"{title}:")
    by: dict[str, list[Answer]] = defaultdict(list)
    for one in answers:
        by[key(one)].append(one)
    for name in sorted(by):
        line(name, [one.off for one in by[name]], [one.inside for one in by[name]])


def report(rows: Sequence[EngineRow], mode: str) -> None:
    """All tables of some rows in a mode."""
    answers: list[Answer] = []
    refused: Counter[str] = Counter()
    for row in rows:
        if row.mode == mode:
            found = answer(row)
            if isinstance(found, Answer):
                answers.append(found)
            else:
                refused[found] += 1
    grouped(answers, f"{mode}, all", lambda one: "all")
    small = [one for one in answers if 1024 <= one.row.bytes <= 2**23]
    grouped(small, f"{mode}, 1 KiB to 8 MiB", lambda one: "all")
    grouped(small, "by GPU and ranks", lambda one: f"{one.row.gpu}, {one.row.ranks} ranks")
    grouped(small, "by version", lambda one: f"{one.row.engine} {one.row.version}")
    grouped(answers, "by size", lambda one: size_class(one.row))
    grouped(answers, "by kernel", lambda one: one.kernel)
    told = [one for one in answers if one.row.kernel.lower().startswith("mnnvl")]
    if told:
        right = sum(one.kernel == one.row.kernel for one in told)
        print(f"kernels that the source names: {right} of {len(told)} as named")
    for why, count in refused.most_common():
        print(f"  refused, {count} rows: {why}")


def left_out() -> None:
    """Laws fitted again without one number of ranks, or without one size, and asked of that."""
    by_kernel = assigned(engine_rows())
    for what, title in (("ranks", "one number of ranks"), ("bytes", "each size")):
        print(f"laws fitted without {title}, asked of it:")
        found: dict[str, list[float]] = {}
        for (names, gpu), rows in sorted(by_kernel.items()):
            each_us = peer_us(by_kernel, names, gpu)
            for kernels, own in laws_of(names, rows):
                found |= _errors_without(kernels, own, each_us, what)
        if what == "ranks":
            found |= windows_left_out() | flashinfer_published()
        by_family: dict[str, list[float]] = defaultdict(list)
        for name, offs in sorted(found.items()):
            line(name, offs)
            by_family[name.partition(",")[0]] += offs
        print("by kernel:")
        for name, offs in by_family.items():
            line(name, offs)


def laws_of(
    names: str, rows: Sequence[EngineRow]
) -> Iterator[tuple[list[KernelFile], list[EngineRow]]]:
    """The kernels that some rows are of, and the rows, by versions that have their own numbers."""
    by_kernels: dict[tuple[int, ...], list[EngineRow]] = defaultdict(list)
    every: list[KernelFile] = []
    for file in FILES:
        every += every_kernel(file)
    for row in rows:
        own: dict[str, int] = {}
        for place, kernel in enumerate(every):
            fits = row.gpu in kernel.gpus and kernel.holds_in(row.version)
            if fits and kernel.name in names.split(EITHER) and kernel.name not in KEPT:
                own.setdefault(kernel.name, place)
        by_kernels[tuple(own.values())].append(row)
    for places, of_these in by_kernels.items():
        if places:
            yield [every[place] for place in places], of_these


def _errors_without(
    kernels: Sequence[KernelFile], rows: Sequence[EngineRow], each_us: float, what: str
) -> dict[str, list[float]]:
    """Errors of rows by laws fitted to those that have other ``what``: ranks or bytes."""
    found: dict[str, list[float]] = defaultdict(list)
    one_count = len({row.ranks for row in rows}) < 2
    # over a rack 8 ranks show one of its numbers and 16 another
    apart = kernels[0].formula == MNNVL
    if (len(kernels) > 1) if what == "bytes" else (one_count or apart):
        return found
    for value in sorted({getattr(row, what) for row in rows}):
        seen = [row for row in rows if getattr(row, what) != value]
        if len(seen) < 4:
            continue
        # on 2 ranks two shots move as much as one and are never faster: those rows show one alone
        shown = kernels[:1] if {row.ranks for row in seen} == {2} else kernels
        fits = fitted_laws(shown, seen, each_us)
        where = f"{rows[0].gpu}, not {value}" if what == "ranks" else rows[0].gpu
        for row in rows:
            if getattr(row, what) == value:
                us, name = min(
                    (predicted_us(kernel, own, row), kernel.name)
                    for kernel, own in zip(shown, fits, strict=True)
                )
                found[f"{name}, {where}"].append(abs(us / row.us - 1))
    return found


def flashinfer_published() -> dict[str, list[float]]:
    """The two-shot over a rack, fitted to TensorRT-LLM's 8 and 16 ranks, on 2 to 16 of FlashInfer's."""
    library = find_library("flashinfer")
    found = {}
    for ranks, size, us in PUBLISHED:
        best = price_kernels(library, load_fabric("gb300-nvl72"), "all_reduce", size, ranks).best
        found[f"{best.kernel}, gb300, {ranks} ranks of FlashInfer"] = [
            abs(best.total_s * 1e6 / us - 1)
        ]
    return found


def windows_left_out() -> dict[str, list[float]]:
    """NCCL's kernels on windows without 4 or 8 ranks."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, free in NVLS.items():
        every = rows_of(kernel=name, operation="all-reduce", gpu="gb200")
        for ranks in sorted({row.ranks for row in every}):
            seen = [row for row in every if row.ranks != ranks]
            law = fit(
                free[0], "switch", seen, ["gb200"], (4, 8), ("1KiB", "1MiB"), "", free=free[1]
            )
            for row in every:
                if row.ranks == ranks:
                    took_s = FORMULAS["switch"].of(law.own, KernelCall(ranks, row.bytes)).total_s
                    found[f"{free[0]}, gb200, not {ranks}"].append(abs(took_s * 1e6 / row.us - 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--mode", choices=("graph", "eager"))
    parser.add_argument("--rows", action="store_true", help="the twenty worst rows as well")
    given = parser.parse_args()
    rows = engine_rows() if given.file is None else read_file(given.file)
    for mode in (given.mode,) if given.mode else ("graph", "eager"):
        report(rows, mode)
    if given.rows:
        found = [answer(row) for row in rows if given.mode in (None, row.mode)]
        worst = sorted((one for one in found if isinstance(one, Answer)), key=lambda one: -one.off)
        for one in worst[:40]:
            print(f"{one.row} {one.us:.4g} us by {one.kernel}, {one.us / one.row.us - 1:+.0%}")
    if given.file is None:
        left_out()


if __name__ == "__main__":
    main()
