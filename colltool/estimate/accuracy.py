"""How far off prices are: ``accuracy.csv``, the errors on measured rows that no fit had seen.

``tests/benchmarks/bench_accuracy.py`` makes the table: by device, wire (``inside`` a node or
``across`` nodes), collective and size class. :func:`accuracy_of` reads it for a price. Where a group of
rows is small the next wider one is taken, and its error grows.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric

CLASSES = ("<=64 KiB", "64 KiB-8 MiB", "8-128 MiB", ">=128 MiB")
SMALLEST = (1.0, 64 * 2**10 + 1.0, 8 * 2**20 + 1.0, 128.0 * 2**20)
"""The least bytes of each class."""
# the most bytes of each class but the last
_ENDS = (64 * 2**10, 8 * 2**20, 128 * 2**20 - 1)
# each class in a sentence
_IN_WORDS = ("up to 64 KiB", "64 KiB to 8 MiB", "8 to 128 MiB", "from 128 MiB on")
ENOUGH = 4
"""Fewest measured rows whose median is taken."""
WIDER = 1.5
"""Factor on the error of rows that are extrapolated to other ranks or sizes than were measured."""
DATASHEET = (0.23, 0.40, 0.26, 0.11)
"""Median |price / measured - 1| by size class, for fabrics not fitted to any log. Source: 1,463
published rows of nccl-tests, rccl-tests and OSU, 8 B to 16 GiB, on 2 to 3,072 ranks, none of which
a coefficient of a shipped fabric was read from.
"""
ALL = "all"
"""In the table: the headline's rows, over all devices and collectives."""
NO_ROW = "no measured row"
FROM_DATASHEET = "datasheet"


class MeasuredError(NamedTuple):
    """Errors of one kind of price, a row of the table.

    Args:
        wire: ``inside`` or ``across``.
        size: an index of :data:`CLASSES`.
        rows, sources: how many measured rows, of how many publications.
        median, p90: of |price / measured - 1|.
    """

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
def table() -> tuple[MeasuredError, ...]:
    """The rows of ``accuracy.csv``."""
    path = Path(__file__).parent / "accuracy.csv"
    errors = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            errors.append(
                MeasuredError(
                    device=row["device"],
                    wire=row["wire"],
                    collective=row["collective"],
                    size=int(row["size"]),
                    rows=int(row["rows"]),
                    sources=int(row["sources"]),
                    median=float(row["median"]),
                    p90=float(row["p90"]),
                )
            )
    return tuple(errors)


class ComparableRows(NamedTuple):
    """Rows of the table that are comparable with a price; ``like`` says in words what they are.

    ``same_device``: they are of the device that is priced. Median and p90 are means of the rows'
    own, weighted by how much was measured; there must be any.
    """

    group: Sequence[MeasuredError]
    like: str
    same_device: bool

    @property
    def rows(self) -> int:
        """How many measured rows stand behind the group."""
        return sum(row.rows for row in self.group)

    @property
    def median(self) -> float:
        return sum(row.rows * row.median for row in self.group) / self.rows

    @property
    def p90(self) -> float:
        return sum(row.rows * row.p90 for row in self.group) / self.rows


def accuracy_of(
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    size: float,
    readings: ModelOptions,
    *,
    extrapolated: bool = False,
) -> Accuracy | None:
    """Typical relative error of a price at a size in bytes, by the nearest rows of which there are
    :data:`ENOUGH`. None for an ideal one.

    ``extrapolated``: its software time was not measured on so many ranks or at this size.
    """
    if readings.ideal:
        return None
    placed = place(fabric, group)
    class_number = size_class(size)
    # a tier with protocols has a library's measured numbers
    fitted = any(span.tier.protocols_for(primitive) for span in placed.spans)
    if readings.numbers == "datasheet" or not fitted:
        return Accuracy(DATASHEET[class_number], p90=None, rows=0, like=FROM_DATASHEET)
    wire = "across" if len(placed.spans) > 1 else "inside"
    for comparable in _from_near_to_far(fabric.device or "", wire, str(primitive), class_number):
        if comparable.rows < ENOUGH:
            continue
        other_machine = bool(fabric.measured_on) and wire == "across"
        # What nine of ten rows of all devices keep is typical of a device that has no rows; nor has
        # anybody measured domains of different sizes.
        if not comparable.same_device or placed.domains or other_machine:
            return Accuracy(comparable.p90, p90=None, rows=0, like=NO_ROW)
        if extrapolated:
            return Accuracy(comparable.median * WIDER, comparable.p90 * WIDER, rows=0, like=NO_ROW)
        return Accuracy(comparable.median, comparable.p90, comparable.rows, comparable.like)
    return Accuracy(DATASHEET[class_number], p90=None, rows=0, like=NO_ROW)


def unmeasured(size: float, readings: ModelOptions) -> Accuracy | None:
    """The error of a schedule that nobody measured, taken from fabrics that no log was fitted to.
    None for an ideal price."""
    if readings.ideal:
        return None
    return Accuracy(DATASHEET[size_class(size)], p90=None, rows=0, like=NO_ROW)


def _from_near_to_far(
    device: str, wire: str, collective: str, class_number: int
) -> Iterator[ComparableRows]:
    """Rows comparable with a price, the nearest first: of its own device and collective, its device,
    its collective, any. Some of these may be empty."""
    any_device = [
        row for row in table() if (row.wire, row.size) == (wire, class_number) and row.device != ALL
    ]
    where = "inside a node" if wire == "inside" else "across nodes"
    collective_words = collective.replace("_", "-")
    size = _IN_WORDS[class_number]
    for same_device, group, name in (
        (True, [row for row in any_device if row.device == device], device),
        (False, any_device, "any device"),
    ):
        of_collective = [row for row in group if row.collective == collective]
        like = f"{name} {where}, {collective_words}, {size}"
        yield ComparableRows(of_collective, like, same_device)
        collectives = "any collective, " if same_device else ""
        yield ComparableRows(group, f"{name} {where}, {collectives}{size}", same_device)
