"""Intervals and accuracies of the cells of a grid; a single price gets the same in
:mod:`colltool.estimate.user_price`.

An interval depends on the fabric, the group and the size, but not on the price of another cell:
what depends on fabric and group alone is found once for all cells of a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from math import inf
from typing import NamedTuple

from colltool.base.primitives import Primitive
from colltool.estimate.accuracy import SMALLEST, accuracy_of, size_class
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.interval import ErrorAtSize, ErrorModel, Interval, error_model
from colltool.estimate.placement import GroupSpec
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric

# Keys are a schedule's title and a size in bytes.
SecondsBySchedule = Mapping[tuple[str, float], float]


class CellError(NamedTuple):
    """How far the price of a cell is off; ``accuracy`` None for an ideal one."""

    interval: Interval
    accuracy: Accuracy | None


class CellErrors:
    """How far the prices of a primitive on one group are off, at any size.

    Args:
        unchanged_s: prices before the user changed numbers of the fabric; None without changes.
    """

    def __init__(
        self,
        fabric: Fabric,
        group: GroupSpec,
        primitive: Primitive,
        readings: ModelOptions,
        unchanged_s: SecondsBySchedule | None,
    ) -> None:
        self._fabric = fabric
        self._group = group
        self._primitive = primitive
        self._readings = readings
        self._unchanged_s = unchanged_s
        # of a sweep's cells many differ in bandwidths alone
        self._at_size = cache(self._find_at_size)
        self._of_class = cache(self._find_of_class)

    def error(
        self, title: str, size: float, total_s: float, *, selectable: bool, extrapolated: bool
    ) -> CellError:
        """The error of a schedule's price.

        Args:
            selectable: whether the user can run the schedule.
            extrapolated: whether its software time was measured elsewhere.
        """
        base_s = None
        if self._unchanged_s is not None:
            # a schedule that did not run before is infinitely slow there
            base_s = self._unchanged_s.get((title, size), inf)
        interval = self._at_size(size, selectable and base_s != inf).interval(total_s, base_s)
        usual = self._of_class(size_class(size), extrapolated)
        if usual is None:
            return CellError(interval, None)
        p90 = interval.larger_side(total_s)
        return CellError(interval, Accuracy(usual.median, p90, usual.rows, usual.like))

    @cached_property
    def _model(self) -> ErrorModel:
        """The errors on the group; the size of 1 byte is replaced by that of each cell."""
        placed = place(self._fabric, self._group)
        return error_model(self._fabric, self._primitive, placed, 1.0, self._readings)

    def _find_at_size(self, size: float, measurable: bool) -> ErrorAtSize:
        """The errors at a size, of a schedule that may have been measured or not."""
        return self._model.at(size, measurable=measurable)

    def _find_of_class(self, class_number: int, extrapolated: bool) -> Accuracy | None:
        """Accuracy of a size class, by its number and least bytes; None for an ideal price."""
        return accuracy_of(
            self._fabric,
            self._primitive,
            self._group,
            SMALLEST[class_number],
            self._readings,
            extrapolated=extrapolated,
        )
