"""Published measurements that predictors are scored on: ``published.csv``, a line for each series
of a source, and ``published_sources.csv``, where each comes from.

``tests/benchmarks/bench_score.py --write`` makes both. Each row also has colltool's own price and
interval, made without the row's source where another source of its machine is left.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent


class PublishedSource(NamedTuple):
    """Where rows come from."""

    source: str
    url: str
    hardware: str
    machine: str  # as ``--fabric`` takes it
    vendor: str
    library: str  # with its version, where it is stated


class PublishedRow(NamedTuple):
    """One measurement in seconds and bytes as nccl-tests count them."""

    source: PublishedSource
    nodes: int
    ranks: int
    collective: str
    bytes: int
    time_s: float
    price_s: float  # colltool's own price
    low_s: float  # the ends of its interval
    high_s: float
    unseen: bool  # no number of the price was fitted to the row's source

    @property
    def fabric(self) -> str:
        """The shipped fabric, without what was changed for the machine."""
        return self.source.machine.partition(":")[0]


def _table(name: str) -> Iterator[dict[str, str]]:
    """The lines of a file beside this one, by column."""
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@cache
def published_sources() -> dict[str, PublishedSource]:
    """The sources by name."""
    return {row["source"]: PublishedSource(**row) for row in _table("published_sources.csv")}


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """All rows, in the order of the file."""
    sources = published_sources()
    rows = []
    for series in _table("published.csv"):
        # each a number for every size of the series, separated by spaces
        columns = [
            series[column].split()
            for column in ("bytes", "time_us", "price_us", "low_us", "high_us")
        ]
        for size, *times_us in zip(*columns, strict=True):
            time_s, price_s, low_s, high_s = (float(value) / 1e6 for value in times_us)
            rows.append(
                PublishedRow(
                    source=sources[series["source"]],
                    nodes=int(series["nodes"]),
                    ranks=int(series["ranks"]),
                    collective=series["collective"],
                    bytes=int(size),
                    time_s=time_s,
                    price_s=price_s,
                    low_s=low_s,
                    high_s=high_s,
                    unseen=series["unseen"] == "yes",
                )
            )
    return tuple(rows)
