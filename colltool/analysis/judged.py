"""Prices with how far off they are: an interval for each row, the table's accuracy for the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import inf
from typing import TYPE_CHECKING

from colltool.analysis.accuracy import SMALLEST, accuracy_of, size_class, unmeasured
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import place
from colltool.estimate.interval import NO_INTERVAL, SEVERAL, before_dials, ground_of, interval_of
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price as priced
from colltool.estimate.results import Accuracy, Price
from colltool.fabric.model import Fabric
from colltool.nccl.nccl_choice import with_library_choice

if TYPE_CHECKING:
    from colltool.analysis.grid import Cell, PriceRequest


def judged(price: Price, fabric: Fabric, group: GroupSpec, readings: Readings) -> Price:
    """A price whose rows carry their intervals; unchanged without rows."""
    if not price.results:
        return price
    runs = price.library.runs if price.library else None
    rows = {id(row): row for row in price.results}
    if runs is not None:
        rows[id(runs)] = runs
    if readings.ideal or not isinstance(price.bytes, float):
        why = NO_INTERVAL if readings.ideal else SEVERAL
        known = {key: replace(row, no_interval=why) for key, row in rows.items()}
    else:
        before = _before(price, fabric, group, readings)
        known = {}
        for key, row in rows.items():
            known[key] = _with_interval(row, price.primitive, fabric, group, readings, before)
    library = price.library
    if library is not None and runs is not None:
        library = library._replace(runs=known[id(runs)])
    results = tuple(known[id(row)] for row in price.results)
    found = replace(price, results=results, library=library)
    return replace(found, accuracy=_accuracy(found, fabric, group, readings))


def judged_row(
    row: AlgorithmEstimate,
    primitive: Primitive,
    fabric: Fabric,
    group: GroupSpec,
    readings: Readings,
) -> AlgorithmEstimate:
    """A row of one size with its interval."""
    if readings.ideal:
        return replace(row, no_interval=NO_INTERVAL)
    before: Before = None
    unchanged = before_dials(fabric)
    if unchanged is not None:
        size = float(row.bytes)
        before = seconds_by_schedule(unchanged, primitive, size, group, readings, (row.spec,))
    return _with_interval(row, primitive, fabric, group, readings, before)


def larger_side(accuracy: Accuracy | None, row: AlgorithmEstimate) -> Accuracy | None:
    """An accuracy whose ``p90`` is the larger side of the row's interval."""
    if accuracy is None or row.interval is None:
        return accuracy
    return accuracy._replace(p90=row.interval.larger_side(float(row.total_s)))


def _accuracy(
    price: Price, fabric: Fabric, group: GroupSpec, readings: Readings
) -> Accuracy | None:
    if not isinstance(price.bytes, float):
        return None
    if price.best.status == "own":
        return larger_side(unmeasured(price.bytes, readings), price.best)
    held = bool(price.best.software_time.notes(price.bytes))
    accuracy = accuracy_of(fabric, price.primitive, group, price.bytes, readings, held=held)
    return larger_side(accuracy, price.best)


Before = Mapping[tuple[str, str], float] | None
"""Seconds by schedule and protocol without what the user changed; None where nothing was."""


def _with_interval(
    row: AlgorithmEstimate,
    primitive: Primitive,
    fabric: Fabric,
    group: GroupSpec,
    readings: Readings,
    before: Before,
) -> AlgorithmEstimate:
    base = None
    if before is not None:
        under_fastest = before.get((row.title, ""), inf)
        base = before.get((row.title, str(row.protocol)), under_fastest)
    interval = interval_of(
        fabric,
        primitive,
        group,
        float(row.bytes),
        readings,
        total_s=float(row.total_s),
        base_total_s=base,
        runs=row.status == "shipped" and row.selectable,
    )
    return replace(row, interval=interval)


def _before(price: Price, fabric: Fabric, group: GroupSpec, readings: Readings) -> Before:
    """The same schedules on the fabric before its dials moved."""
    unchanged = before_dials(fabric)
    if unchanged is None:
        return None
    size = float(price.bytes)
    return seconds_by_schedule(unchanged, price.primitive, size, group, readings, price.asked)


def seconds_by_schedule(
    fabric: Fabric,
    primitive: Primitive,
    size: float,
    group: GroupSpec,
    readings: Readings,
    only: tuple[str, ...] = (),
) -> Mapping[tuple[str, str], float]:
    """Seconds of each schedule, under its own protocol and, with an empty one, under its
    fastest."""
    try:
        found = priced(fabric, primitive, size, group, readings, only)
    except ColltoolError:  # the group needs what the user changed
        return {}
    (chosen,) = with_library_choice([found], fabric, readings, asked=False, lead=False)
    rows = list(found.results)
    if chosen.library and chosen.library.runs:
        rows.append(chosen.library.runs)
    seconds: dict[tuple[str, str], float] = {}
    for row in rows:
        seconds.setdefault((row.title, ""), float(row.total_s))
        seconds[row.title, str(row.protocol)] = float(row.total_s)
    return seconds


Seconds = Mapping[tuple[str, float], float]
"""By schedule and size."""


def with_intervals(
    cells: Sequence[Cell],
    fabric: Fabric,
    group: GroupSpec,
    request: PriceRequest,
    sizes: Sequence[float],
    before: Seconds | None,
) -> Iterator[Cell]:
    """Cells of one group with their intervals; ``before``: seconds without what was changed, None
    where nothing was."""
    if request.readings.ideal or all(cell.total_s is None for cell in cells):
        yield from cells
        return
    ground = ground_of(fabric, request.primitive, place(fabric, group), 1.0, request.readings)

    @cache
    def how_far(at: int, held: bool) -> Accuracy | None:
        """Accuracy by size class, and whether the software time is held."""
        return accuracy_of(
            fabric, request.primitive, group, SMALLEST[at], request.readings, held=held
        )

    for cell, size in zip(cells, sizes, strict=True):
        if cell.total_s is None:
            yield cell
            continue
        base = None if before is None else before.get((str(cell.algorithm), size), inf)
        interval = ground.interval(size, cell.total_s, base_total_s=base, runs=cell.selectable)
        accuracy = how_far(size_class(size), bool(cell.held))
        if accuracy is not None:
            accuracy = accuracy._replace(p90=interval.larger_side(cell.total_s))
        yield cell._replace(interval=interval, accuracy=accuracy)
