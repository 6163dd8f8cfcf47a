"""How far off prices like one are: ``accuracy.csv``, the errors on measured rows that no fit had
seen.

``tests/benchmarks/bench_accuracy.py`` makes the table: by device, wire, collective and size class.
Where a cell is thin the next wider one is taken, and its error grows.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric

CLASSES = ("<=64 KiB", "64 KiB-8 MiB", "8-128 MiB", ">=128 MiB")
SMALLEST = (1.0, 64 * 2**10 + 1.0, 8 * 2**20 + 1.0, 128.0 * 2**20)
"""A size of each class."""
_ENDS = (64 * 2**10, 8 * 2**20, 128 * 2**20 - 1)
_SPOKEN = ("up to 64 KiB", "64 KiB to 8 MiB", "8 to 128 MiB", "from 128 MiB on")
ENOUGH = 4
"""Rows that a cell needs to speak for itself."""
WIDER = 1.5
"""Factor on a cell's error where it is used for more ranks or other sizes than were measured."""
# the first cells of _wider are of the device itself; for another one, what 9 of 10 rows of all
# devices keep is typical
_MINE = 2

DATASHEET = (0.23, 0.40, 0.26, 0.11)
"""Median |price / measured - 1| by size class, for fabrics not fitted to any log. Source: 1,463
published rows of nccl-tests, rccl-tests and OSU, 8 B to 16 GiB, on 2 to 3,072 ranks, none of which
a coefficient of a shipped fabric was read from.
"""
ALL = "all"
"""In the table: the headline's rows, over all devices and collectives."""
NO_ROW = "no measured row"
FROM_DATASHEET = "datasheet"


class Judged(NamedTuple):
    """Errors of a kind of price; ``size``: place in :data:`CLASSES`."""

    device: str
    wire: str
    collective: str
    size: int
    rows: int
    sources: int
    median: float
    p90: float


def size_class(size: float) -> int:
    """The place of a message's size class in :data:`CLASSES`."""
    return bisect_left(_ENDS, size)


@cache
def table() -> tuple[Judged, ...]:
    with (Path(__file__).parent / "accuracy.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Judged(
                device=row["device"],
                wire=row["wire"],
                collective=row["collective"],
                size=int(row["size"]),
                rows=int(row["rows"]),
                sources=int(row["sources"]),
                median=float(row["median"]),
                p90=float(row["p90"]),
            )
            for row in csv.DictReader(file)
        )


def accuracy_of(
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    size: float,
    readings: Readings,
    *,
    held: bool = False,
) -> Accuracy | None:
    """How far off the price of a size (bytes) is; None for an ideal one.

    ``held``: its software time was not measured on so many ranks or at this size.
    """
    if readings.ideal:
        return None
    placed = place(fabric, group)
    at = size_class(size)
    fitted = any(span.tier.protocols_for(primitive) for span in placed.spans)
    if readings.numbers == "datasheet" or not fitted:
        return Accuracy(DATASHEET[at], None, 0, FROM_DATASHEET)
    wire = "across" if len(placed.spans) > 1 else "inside"
    for number, (cells, like) in enumerate(_wider(fabric.device or "", wire, str(primitive), at)):
        rows = sum(cell.rows for cell in cells)
        # too few rows to speak for themselves: the next wider cells are looked at
        if rows < ENOUGH:
            continue
        median = sum(cell.rows * cell.median for cell in cells) / rows
        p90 = sum(cell.rows * cell.p90 for cell in cells) / rows
        # no row is of domains that differ in size
        if number >= _MINE or placed.domains or (fabric.measured_on and wire == "across"):
            return Accuracy(p90, None, 0, NO_ROW)
        if held:
            return Accuracy(median * WIDER, p90 * WIDER, 0, NO_ROW)
        return Accuracy(median, p90, rows, like)
    return Accuracy(DATASHEET[at], None, 0, NO_ROW)


def unmeasured(size: float, readings: Readings) -> Accuracy | None:
    """Accuracy of a schedule without measurements: the error of fabrics that no log was fitted to;
    None for an ideal price."""
    return None if readings.ideal else Accuracy(DATASHEET[size_class(size)], None, 0, NO_ROW)


def _wider(
    device: str, wire: str, collective: str, at: int
) -> Iterator[tuple[Sequence[Judged], str]]:
    """The cells that may speak for a price, from its own to all of its wire."""
    here = [cell for cell in table() if (cell.wire, cell.size) == (wire, at) and cell.device != ALL]
    mine = [cell for cell in here if cell.device == device]
    where = "inside a node" if wire == "inside" else "across nodes"
    spoken = collective.replace("_", "-")

    def alike(cells: Sequence[Judged]) -> list[Judged]:
        return [cell for cell in cells if cell.collective == collective]

    yield alike(mine), f"{device} {where}, {spoken}, {_SPOKEN[at]}"
    yield mine, f"{device} {where}, any collective, {_SPOKEN[at]}"
    yield alike(here), f"any device {where}, {spoken}, {_SPOKEN[at]}"
    yield here, f"any device {where}, {_SPOKEN[at]}"
