"""How an algorithm's traffic is known: by its formula where possible, else by its schedule."""

from __future__ import annotations

from colltool.algorithms.composed import composition_names
from colltool.algorithms.names import specs_called
from colltool.base.primitives import Primitive
from colltool.congestion.traffic import TrafficRow
from colltool.congestion.traffic_by_formula import row_by_formula, unmodelled_error
from colltool.congestion.traffic_by_schedule import row_by_schedule


def traffic_row(primitive: Primitive, algorithm: str) -> TrafficRow:
    """The row of an algorithm by any of its names, its own first.

    Raises:
        ColltoolError: no algorithm has this name, or its traffic is not known; it lists whose is.
    """
    for spec in (algorithm, *specs_called(algorithm, primitive, composition_names(primitive))):
        row = row_by_formula(primitive, spec) or row_by_schedule(primitive, spec)
        if row is not None:
            return row
    raise unmodelled_error(primitive, algorithm)
