"""Whether nine of ten measurements lie inside the printed interval, on rows whose source no fit has seen.

    python tests/benchmarks/bench_spread.py [--write] [--again]

Each source is left out in turn: its rows are priced on its machine's fabric made without them (:func:`left_out`), their distance
is to rows of other sources, and the law is fitted without them. Printed: rows and sources inside, and the median half-width, by
size class, scope, shipped or own machine, vendor and collective. Exit 1 below 87% of rows or 83% by source, above 95%, or where a
class of at least eight sources is below 80%.

``--write``: the law and the index that ship, ``colltool/estimate/spread.csv`` and ``rows.csv``. ``--again``: prices anew; they are
kept in ``.pytest_cache`` until the package or the rows change.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from math import exp, inf, log, log2
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as students

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import bench_accuracy  # noqa: E402
import fit_across  # noqa: E402
import fit_fabrics  # noqa: E402
import measured_rows  # noqa: E402
from measured_rows import Row, rows  # noqa: E402

import colltool  # noqa: E402
from colltool.analysis.accuracy import CLASSES, size_class  # noqa: E402
from colltool.base.errors import ColltoolError  # noqa: E402
from colltool.base.primitives import parse_primitive  # noqa: E402
from colltool.estimate import spread  # noqa: E402
from colltool.estimate.assumptions import Readings  # noqa: E402
from colltool.estimate.groups import place  # noqa: E402
from colltool.estimate.interval import before_dials, ground_of  # noqa: E402
from colltool.estimate.placement import GroupSpec  # noqa: E402

SPREAD, INDEX = (Path(spread.__file__).parent / name for name in ("spread.csv", "rows.csv"))
KEPT = Path(__file__).parent.parent.parent / ".pytest_cache" / "bench_spread.json"
SAME_MACHINE = ("mi350x-2n", "mi350x-2n-2.30"), ("azure-h200-vm", "azure-h200-vm-2"), ("nccl-1801", "nccl-1801-2")
"""Sources that are left out together: one machine, or one thread."""
CPU_ONLY = frozenset({"clariden-osu-a2a", "alcf-polaris-osu"})
FEWEST_SOURCES, LEAST_OF_A_CLASS = 8, 0.80
LEAST_ROWS, LEAST_SOURCES, MOST_ROWS = 0.87, 0.83, 0.95


def where_of(row: Row) -> spread.Question:
    """The row as the law asks for it; the medium is the machine's own, where its fabric is of another one."""
    fabric = colltool.load_fabric(row.source.fabric, row.source.overrides)
    primitive = parse_primitive(row.collective)
    placed = place(fabric, group_of(row))
    asked = ground_of(fabric, primitive, placed, float(row.bytes), Readings()).asked
    if row.source.medium and asked.place.across:
        asked = asked._replace(place=asked.place._replace(medium=row.source.medium))
    return asked._replace(one_process="-g 8" in row.source.hardware)


def group_of(row: Row) -> GroupSpec:
    return GroupSpec(row.ranks, int(row.source.stride or 1))


def index_rows(several: Iterable[Row]) -> list[dict[str, str]]:
    """The distance index: a line for each source, collective and number of ranks of a place."""
    found: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for row in several:
        asked = where_of(row)
        scope = "across" if asked.place.across else "inside"
        key = (asked.place.generation, asked.place.medium, scope, row.collective, str(row.ranks), row.source.source_id)
        found[key].add(row.bytes)
    names = ("generation", "medium", "scope", "collective", "ranks", "source")
    return [
        dict(zip(names, key, strict=True)) | {"bytes": " ".join(map(str, sorted(sizes)))} for key, sizes in sorted(found.items())
    ]


def write_index(lines: Sequence[dict[str, str]]) -> None:
    with INDEX.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def speaks(row: Row) -> bool:
    """Whether a row is near others of its kind: forced algorithms, hosts without GPUs and single messages are not."""
    return not row.algorithm and row.source.source_id not in CPU_ONLY and row.collective != "p2p"
