"""The grid behind ``sweep`` and ``compare``: the winner at every point of fabrics x ranks x sizes x
varied values.

An axis whose values only change numbers of a fabric is priced as an array, in one call together
with the sizes. All other axes (fabrics, ranks, model options, values that change a fabric's shape)
are loops: each point of theirs loads, places and prices anew. :mod:`colltool.analysis.cells` prices
the arrays, :mod:`colltool.analysis.cell_intervals` adds how far off the prices are.

:func:`price_grid` is the entry. An axis is known by its index here; ``at`` and ``fixed`` say at which
position of its values a point is on each axis. The *grid index* of a cell counts all points, the last
axis fastest.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.analysis.axes import GRID_AXES, SweepAxis
from colltool.analysis.cell_intervals import CellErrors
from colltool.analysis.cells import (
    BLOCK,
    Cell,
    Floats,
    GridQuestion,
    PriceRequest,
    UnchangedPrices,
    library_picks,
    priced_cells,
)
from colltool.base.errors import ColltoolError, rename_for_both
from colltool.base.result import with_progress
from colltool.estimate.interval import before_dials
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.topology import routed
from colltool.fabric.values import Place, differences, with_values

FabricLoader = Callable[[Sequence[str]], Fabric]
"""Loads a fabric with further overrides such as ``ib.bandwidth=50GB/s``; a ColltoolError if it cannot
have them."""

# Axes whose values are numbers alone: by the axis' index, for each place of the fabric that the axis
# fills the number of each of its values.
NumericAxes = dict[int, dict[Place, list[float]]]


class CellParts(NamedTuple):
    """What cells carry beside the winner and its seconds; each costs as much as a price."""

    ideal: bool = True
    interval: bool = True


EVERYTHING = CellParts()

# The axes that every grid has, by index: those of GRID_AXES.
_FABRIC, _RANKS, _BYTES = range(3)


class VariedRequest(NamedTuple):
    """A request with model options of a point of the grid; ``at`` has the position on each of these
    axes, by axis index."""

    request: PriceRequest
    at: dict[int, int]


class LoadedFabric(NamedTuple):
    """A fabric with values of the axes that are loaded one by one."""

    fabric: Fabric
    at: dict[int, int]  # the position on each of these, by axis index
    numeric: NumericAxes  # the axes that are priced as arrays


def price_grid(
    request: PriceRequest,
    axes: Sequence[SweepAxis],
    loads: Sequence[FabricLoader],
    groups: Sequence[GroupSpec],
    parts: CellParts = EVERYTHING,
) -> list[Cell]:
    """Every cell of the grid, the last axis fastest.

    Args:
        axes: fabric, ranks and bytes, then what is varied.
        loads: one for each value of the first axis.
        groups: one for each value of the second.
    """
    grid: list[Cell | None] = [None] * prod(len(axis.values) for axis in axes)
    unchanged = UnchangedPrices()
    requests = list(_varied_requests(request, axes))
    for fabric_at, load in enumerate(loads):
        for loaded in _loaded_fabrics(load, axes):
            for varied, group_at in product(requests, range(len(groups))):
                fixed = {_FABRIC: fabric_at, _RANKS: group_at} | loaded.at | varied.at
                question = GridQuestion(loaded.fabric, groups[group_at], varied.request)
                cells = _array_cells(question, axes, loaded.numeric, fixed, parts, unchanged)
                for grid_index, cell in cells:
                    grid[grid_index] = cell
    return [cell for cell in grid if cell is not None]


def _varied_requests(request: PriceRequest, axes: Sequence[SweepAxis]) -> Iterator[VariedRequest]:
    """The request under each combination of the values of axes that are model options."""
    options = [index for index, axis in enumerate(axes) if axis.is_option]
    for chosen in product(*(range(len(axes[index].values)) for index in options)):
        at = dict(zip(options, chosen, strict=True))
        values = {axes[index].key: axes[index].values[step] for index, step in at.items()}
        yield VariedRequest(request._replace(readings=request.readings._replace(**values)), at)


def _loaded_fabrics(load: FabricLoader, axes: Sequence[SweepAxis]) -> Iterator[LoadedFabric]:
    """One fabric for each combination of values that cannot be priced as arrays of numbers."""
    numeric: NumericAxes = {}
    loops: list[int] = []
    variants_of_loop: list[Fabric] = []

    def loaded_with(overrides: Sequence[str]) -> Fabric:
        with rename_for_both(overrides="vary"):
            return load(overrides)

    for index, axis in enumerate(axes):
        if axis.is_option or axis.key in GRID_AXES:
            continue
        variants = [loaded_with([f"{axis.key}={value}"]) for value in with_progress(axis.values)]
        # the numbers in which the variants differ, by place; None where they differ in more than
        # numbers, or where there is but one of them
        numbers = differences(variants) if len(variants) > 1 else None
        if numbers == {}:
            raise ColltoolError(
                f"{axis.key} changes nothing that is priced",
                argument="vary",
                fix="a value of a tier, such as ib.bandwidth=50GB/s,100GB/s",
            )
        # Where messages are put on links (domains that differ, routed tiers), arrays of numbers are
        # not priced: a load for each value.
        if numbers is None or variants[0].domains or routed(variants[0].tiers):
            loops.append(index)
            variants_of_loop = variants
        else:
            numeric[index] = numbers
    for chosen in with_progress(
        list(product(*(range(len(axes[index].values)) for index in loops)))
    ):
        at = dict(zip(loops, chosen, strict=True))
        # of a single loop every fabric is loaded already
        if len(loops) == 1:
            fabric = variants_of_loop[chosen[0]]
        else:
            fabric = loaded_with(
                [
                    f"{axes[axis_index].key}={axes[axis_index].values[step]}"
                    for axis_index, step in at.items()
                ]
            )
        yield LoadedFabric(fabric, at, numeric)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector, which would look through a block's cells, tuples without cycles,
    again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _array_cells(
    question: GridQuestion,
    axes: Sequence[SweepAxis],
    numeric: NumericAxes,
    fixed: dict[int, int],
    parts: CellParts,
    unchanged: UnchangedPrices,
) -> Iterator[tuple[int, Cell]]:
    """The cells over all sizes and numeric axes, each with its index in the whole grid; ``fixed``:
    the position on every other axis."""
    # Of the axes fabric (2), ranks (1), bytes (3) and ib.bandwidth (2), the last two are arrays of
    # 6 elements; with the second fabric (fixed) these are the cells 6 to 11 of the grid.
    fabric, group, request = question
    array_axes = [_BYTES, *sorted(numeric)]
    lengths = [len(axes[index].values) for index in array_axes]
    shape = [len(axis.values) for axis in axes]
    all_sizes = np.array(axes[_BYTES].values, dtype=np.float64)
    # in blocks, to keep arrays small; ``flat`` numbers the elements over all array axes
    for start in with_progress(range(0, prod(lengths), BLOCK)):
        flat = np.arange(start, min(start + BLOCK, prod(lengths)))
        # by array axis, the position of each element on it
        indices = dict(zip(array_axes, np.unravel_index(flat, lengths), strict=True))
        values: dict[Place, Floats] = {}
        for index, places in numeric.items():
            for place, numbers in places.items():
                values[place] = np.array(numbers)[indices[index]]
        # by axis, of each element: its position, and the value there
        steps = []
        columns = []
        for index, axis in enumerate(axes):
            on_axis = indices[index] if index in indices else np.full(len(flat), fixed[index])
            steps.append(on_axis)
            columns.append([axis.values[step] for step in on_axis.tolist()])
        axis_values = list(zip(*columns, strict=True))
        sizes = all_sizes[indices[_BYTES]]
        varied = question._replace(fabric=with_values(fabric, values))
        errors = None
        if parts.interval and not request.readings.ideal:
            # where the user set no number, varied ones are measured against the fabric as loaded
            before = before_dials(fabric) or (fabric if values else None)
            before_s = None if before is None else unchanged.seconds(question, before, sizes)
            errors = CellErrors(fabric, group, request.primitive, request.readings, before_s)
        picks = library_picks(question, values, sizes)
        with _without_collector():
            cells = priced_cells(varied, axis_values, sizes, picks, errors, ideal=parts.ideal)
        grid_indices = np.ravel_multi_index(tuple(steps), shape).tolist()
        yield from zip(grid_indices, cells, strict=True)
