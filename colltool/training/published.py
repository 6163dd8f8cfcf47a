"""How far steps and memory were off the published runs of sources that no constant was fitted to.

``tests/benchmarks/fit_stacks.py --errors`` leaves each source out in turn and writes
``data/errors.csv``.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "data" / "errors.csv"


class PublishedError(NamedTuple):
    """Over planned runs: |plan / measured - 1|, and what nine runs in ten took as a share of their
    plan."""

    runs: int
    median: float
    mean: float
    low: float
    high: float
    control: float  # the median with a free network

    def spread(self, planned: float) -> tuple[float, float]:
        return self.low * planned, self.high * planned


@cache
def _table() -> dict[str, PublishedError]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return {
            row["class"]: PublishedError(
                int(row["runs"]),
                *(float(row[name]) for name in ("median", "mean", "low", "high", "control")),
            )
            for row in csv.DictReader(file)
        }


def published_error(stack: str, *, moe: bool = False) -> PublishedError | None:
    """None where no published runs were planned under a stack."""
    return _table().get(f"{stack} moe" if moe else stack)


def memory_error() -> PublishedError:
    return _table()["memory"]
