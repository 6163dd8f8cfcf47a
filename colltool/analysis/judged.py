"""Cells of a grid with how far off they are; a single price gets the same in
:mod:`colltool.estimate.user_price`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import inf
from typing import TYPE_CHECKING

from colltool.estimate.accuracy import SMALLEST, accuracy_of, size_class
from colltool.estimate.groups import place
from colltool.estimate.interval import error_model
from colltool.estimate.placement import GroupSpec
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.analysis.grid import Cell, PriceRequest

Seconds = Mapping[tuple[str, float], float]
"""By schedule and size."""


def with_intervals(
    cells: Sequence[Cell],
    fabric: Fabric,
    group: GroupSpec,
    asked: PriceRequest,
    sizes: Sequence[float],
    before: Seconds | None,
) -> Iterator[Cell]:
    """Cells of one group with their intervals; ``before``: seconds without what was changed, None
    where nothing was."""
    if asked.readings.ideal or all(cell.total_s is None for cell in cells):
        yield from cells
        return
    ground = error_model(fabric, asked.primitive, place(fabric, group), 1.0, asked.readings)

    @cache
    def how_far(at: int, held: bool) -> Accuracy | None:
        """Accuracy by size class, and whether the software time is held."""
        return accuracy_of(
            fabric, asked.primitive, group, SMALLEST[at], asked.readings, extrapolated=held
        )

    for cell, size in zip(cells, sizes, strict=True):
        if cell.total_s is None:
            yield cell
            continue
        base = None if before is None else before.get((str(cell.algorithm), size), inf)
        interval = ground.interval(size, cell.total_s, base_total_s=base, runs=cell.selectable)
        accuracy = how_far(size_class(size), bool(cell.held))
        accuracy = accuracy and accuracy._replace(p90=interval.larger_side(cell.total_s))
        yield cell._replace(interval=interval, accuracy=accuracy)
