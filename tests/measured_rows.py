"""Measured collectives that others published: ``tests/data/measured``, the rows that shipped
fabrics are made from and judged by.

A row's role, or its source's: ``fit``, a fabric may be made from it (and is judged by it with its
source left out); ``check``, it only judges: odd wires, forced algorithms, processes that drive
eight GPUs.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "data" / "measured"


class Source(NamedTuple):
    """Where rows come from, and the shipped fabric with the overrides that describe the machine.

    ``stride``: from one rank to the next, where it is not 1. ``medium``: between its nodes, where
    the fabric's is neither it nor near it.
    """

    source_id: str
    url: str
    hardware: str
    fabric: str
    set: str
    library: str
    role: str
    note: str
    stride: str = ""
    medium: str = ""

    @property
    def overrides(self) -> list[str]:
        return self.set.split()


class Row(NamedTuple):
    """One measurement; ``nodes`` as the fabric counts domains, ``bytes`` nccl-tests' size,
    ``algorithm`` where one was forced."""

    source: Source
    nodes: int
    ranks: int
    collective: str
    bytes: int
    time_s: float
    algorithm: str
    role: str


@cache
def sources() -> dict[str, Source]:
    with (FOLDER / "sources.csv").open(encoding="utf-8", newline="") as file:
        return {row["source_id"]: Source(**row) for row in csv.DictReader(file)}


@cache
def rows() -> tuple[Row, ...]:
    known = sources()
    with (FOLDER / "rows.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Row(
                source=(source := known[row["source_id"]]),
                nodes=int(row["nodes"]),
                ranks=int(row["ranks"]),
                collective=row["collective"],
                bytes=int(row["bytes"]),
                time_s=float(row["time_us"]) / 1e6,
                algorithm=row["algorithm"],
                role=row["role"] or source.role,
            )
            for row in csv.DictReader(file)
        )
