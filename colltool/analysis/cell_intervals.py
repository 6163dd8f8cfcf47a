"""Intervals and accuracies of the cells of a grid; a single price gets the same in
:mod:`colltool.estimate.user_price`.

An interval depends on the fabric, the group and the size, but not on the price of another cell:
what depends on fabric and group alone is found once for all cells of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import inf

from colltool.analysis.cells import Cell, PriceRequest, SecondsBySchedule
from colltool.estimate.accuracy import SMALLEST, accuracy_of, size_class
from colltool.estimate.groups import place
from colltool.estimate.interval import error_model
from colltool.estimate.placement import GroupSpec
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric


def with_intervals(
    cells: Sequence[Cell],
    fabric: Fabric,
    group: GroupSpec,
    request: PriceRequest,
    sizes: Sequence[float],
    unchanged_s: SecondsBySchedule | None,
) -> Iterator[Cell]:
    """Yield the cells of one group with their intervals and accuracies, where these are known.

    Args:
        sizes: the size of each cell, bytes.
        unchanged_s: prices before the user changed numbers of the fabric; None without changes.
    """
    options = request.readings
    if options.ideal or all(cell.total_s is None for cell in cells):
        yield from cells
        return
    ground = error_model(
        fabric, request.primitive, place(fabric, group), size=1.0, readings=options
    )

    @cache
    def class_accuracy(class_number: int, extrapolated: bool) -> Accuracy | None:
        """Accuracy of a size class; ``extrapolated``: its software time was measured elsewhere."""
        size = SMALLEST[class_number]
        return accuracy_of(
            fabric, request.primitive, group, size, options, extrapolated=extrapolated
        )

    for cell, size in zip(cells, sizes, strict=True):
        if cell.total_s is None:
            yield cell
            continue
        base_s = None
        if unchanged_s is not None:
            # a schedule that did not run before is infinitely slow there
            base_s = unchanged_s.get((str(cell.algorithm), size), inf)
        interval = ground.interval(size, cell.total_s, base_total_s=base_s, runs=cell.selectable)
        accuracy = class_accuracy(size_class(size), bool(cell.extrapolated))
        if accuracy is not None:
            accuracy = accuracy._replace(p90=interval.larger_side(cell.total_s))
        yield cell._replace(interval=interval, accuracy=accuracy)
