"""How far off engines' all-reduces are, by engine, version, GPU, ranks and size.

    python tests/benchmarks/bench_engines.py [FILE.csv.gz] [--mode graph|eager] [--rows]

Without a file: the development rows (tests/data/inference/engines.csv), then the laws fitted again
with 2 or 8 ranks left out, and each row asked of the numbers fitted without its size. FILE has the
columns gpu, engine, engine_version, kernel, operation, mode, ranks, nodes, bytes and time_us, GPUs by
the names of their makers. Prints the median and the ninth decile of |predicted / measured - 1|, and
how many rows lie inside the printed interval.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from fit_engines import (
    FABRICS,
    KEPT,
    EngineRow,
    assigned,
    engine_rows,
    every_kernel,
    parameters,
    predicted_us,
)

from colltool.base.errors import ColltoolError
from colltool.engines.files import EITHER, Mode, find_library
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
}
OVERRIDES = {"l40s": ["library.p2p=false"]}
# GB/s of the copy that the source's eager loop makes of its input before each call (half of the
# memory's bandwidth or so); an engine makes none, so it is taken off those rows.
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
}
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
        row = row._replace(us=row.us - row.bytes / COPY_GBPS[row.gpu] / 1e3)
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
    print("laws fitted without 2 or 8 ranks, asked of these; and without each size:")
    for (names, gpu), rows in sorted(assigned(engine_rows()).items()):
        kernels = [
            kernel
            for file in ("vllm-0.27.0", "sglang-0.5.14")
            for kernel in every_kernel(file)
            if kernel.name == names and gpu in kernel.gpus and names not in KEPT
        ]
        if not kernels or EITHER in names:
            continue
        kernel = kernels[0]
        for what in ("ranks", "bytes"):
            offs = []
            for value in sorted({getattr(row, what) for row in rows}):
                seen = [row for row in rows if getattr(row, what) != value]
                if len(seen) < 4 or (what == "ranks" and len({row.ranks for row in rows}) < 2):
                    continue
                law = parameters(kernel, seen)
                unseen = [row for row in rows if getattr(row, what) == value]
                offs += [abs(predicted_us(kernel, law, row) / row.us - 1) for row in unseen]
            if offs:
                line(f"{names}, {gpu}, {what}", offs)


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
