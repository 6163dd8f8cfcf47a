"""``sweep``: the winner over fabrics, ranks, sizes and any other value, and where it changes.

:func:`sweep` prices the grid; a :class:`Sweep` keeps its cells in one flat tuple, the last axis
fastest, and :func:`pivot_tables` cuts it into tables of two axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple

from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import (
    BasisDifference,
    PointTimes,
    common_layers,
    group_differences,
    joined,
    software_differences,
    too_many,
)
from colltool.analysis.cells import Cell, PriceRequest, point_times
from colltool.analysis.fitted import AS_IT_IS, Fitted
from colltool.analysis.grid import FabricLoader, price_grid
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.result import Result, result
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import on_layers
from colltool.estimate.groups import place
from colltool.estimate.machine_factor import as_read
from colltool.estimate.placement import GroupSpec, everybody
from colltool.estimate.running import library_of
from colltool.fabric.model import Fabric
from colltool.machines.used import common

# A runner-up within this share of the winner's time may win: default contention is no better known
# (Collectives Explainer Series 05 section 7).
CLOSE = 0.20
# Cells of a sweep unless the user sets another limit.
MOST_CELLS = 100_000

# Keys of some axes, each with one of its values.
AxisSettings = tuple[tuple[str, Any], ...]


class Pivot(NamedTuple):
    """A table of two axes: what its cells show, and the keys of the axes for rows and columns."""

    value: Literal["busbw", "total", "algorithm"]
    rows: str
    cols: str


class WinnerChange(NamedTuple):
    """The winner changes between two neighbours on an axis; ``before`` and ``after`` are titles."""

    axis: str
    at: AxisSettings  # the other axes' values
    last: Any  # value with the winner before
    first: Any  # value with the winner after
    before: str
    after: str


@result
class Sweep(Result):
    """The winner at every grid point."""

    subject: ClassVar[str] = "sweep"
    primitive: Primitive
    axes: tuple[SweepAxis, ...]  # fabric, ranks, bytes, then what is varied
    cells: tuple[Cell, ...]  # the last axis fastest
    overrides: tuple[tuple[str, str], ...]
    library: str
    ideal: bool
    pivot: Pivot | None = None
    ground: tuple[BasisDifference, ...] = ()
    readings: ModelOptions = USUAL
    # by fabric, how it differs from its file to hold the ranks
    fitted: tuple[tuple[str, Fitted], ...] = ()

    @property
    def varied(self) -> tuple[SweepAxis, ...]:
        """The axes of several values."""
        return tuple(axis for axis in self.axes if len(axis.values) > 1)

    def pivoted(
        self, value: Literal["busbw", "total", "algorithm"], rows: str = "", cols: str = ""
    ) -> Sweep:
        """The sweep to be shown as tables of two axes, chosen by :func:`default_sides` unless
        named."""
        pivot = Pivot(value, *default_sides(self.axes, rows, cols))
        keys = [axis.key for axis in self.axes]
        for argument, name in (("rows", pivot.rows), ("cols", pivot.cols)):
            if name not in keys:
                raise ColltoolError(
                    f"no axis is called '{name}'",
                    argument=argument,
                    fix=f"the axes: {', '.join(keys)}",
                )
        if pivot.rows == pivot.cols:
            others = ", ".join(key for key in keys if key != pivot.rows)
            raise ColltoolError(
                f"'{pivot.rows}' are the rows already", argument="cols", fix=f"one of {others}"
            )
        return replace(self, pivot=pivot)

    @property
    def changes(self) -> tuple[WinnerChange, ...]:
        """Changes of winner along axes with an order: fabrics and options of the model have
        none."""
        lengths = [len(axis.values) for axis in self.axes]
        changes = []
        for index, axis in enumerate(self.axes):
            if axis.key == "fabric" or axis.is_option:
                continue
            # from a cell to its neighbour on this axis: of lengths 1, 2 and 3 a step of 3 on the
            # second one, on which cells 3 to 5 are the last
            step = prod(lengths[index + 1 :])
            for start, cell in enumerate(self.cells):
                if start // step % lengths[index] == lengths[index] - 1:
                    continue
                neighbour = self.cells[start + step]
                if cell.algorithm and neighbour.algorithm and cell.algorithm != neighbour.algorithm:
                    change = WinnerChange(
                        axis.key,
                        at=tuple(self._other_axes(index, cell)),
                        last=cell.at[index],
                        first=neighbour.at[index],
                        before=cell.algorithm,
                        after=neighbour.algorithm,
                    )
                    changes.append(change)
        return tuple(changes)

    def _other_axes(self, index: int, cell: Cell) -> Iterator[tuple[str, Any]]:
        """The keys and values of a cell on all other axes that have several values."""
        for number, (axis, value) in enumerate(zip(self.axes, cell.at, strict=True)):
            if number != index and len(axis.values) > 1:
                yield (axis.key, value)

    @property
    def priced(self) -> tuple[Cell, ...]:
        """The cells that have a price."""
        return tuple(cell for cell in self.cells if cell.algorithm)

    @property
    def differing(self) -> tuple[Cell, ...]:
        """Cells with another winner without contention."""
        return tuple(cell for cell in self.cells if cell.ideal != cell.algorithm)

    @property
    def close(self) -> tuple[Cell, ...]:
        """The cells whose runner-up may win."""
        return tuple(cell for cell in self.cells if is_close(cell))


def fastest_name(cell: Cell) -> str | None:
    """The library's name of the fastest algorithm, which is not always what the library picks; None in
    a cell without a price."""
    return cell.runner_up_known_as if _runner_up_leads(cell) else cell.known_as or None


def fastest_s(cell: Cell) -> float | None:
    """Seconds of the fastest algorithm; None in a cell without a price."""
    return cell.runner_up_s if _runner_up_leads(cell) else cell.total_s


def _runner_up_leads(cell: Cell) -> bool:
    """Whether the runner-up is faster than the winner, which then is what the library picks."""
    if cell.runner_up_s is None or cell.total_s is None:
        return False
    return cell.runner_up_s < cell.total_s


def is_surely_beaten(cell: Cell) -> bool:
    """Whether another algorithm is faster than what runs, by more than that price may be off."""
    if not _runner_up_leads(cell) or cell.runner_up_s is None:
        return False
    return cell.interval is None or cell.runner_up_s < cell.interval.low_s


def is_close(cell: Cell) -> bool:
    """Whether the runner-up is within :data:`CLOSE` of the winner, and so may win."""
    if cell.runner_up_s is None or cell.total_s is None:
        return False
    return cell.runner_up_s <= (1 + CLOSE) * cell.total_s


class SweepFabric(NamedTuple):
    """A fabric of the sweep, under the name that its axis shows."""

    name: str
    load: FabricLoader
    fitted: Fitted = AS_IT_IS


def sweep(
    request: PriceRequest,
    swept: Sequence[SweepFabric],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
    vary: Sequence[SweepAxis],
    most: int = MOST_CELLS,
) -> Sweep:
    """The winner at every point of fabrics x ranks x sizes (bytes as in nccl-tests) x further axes,
    at most ``most`` cells.

    Raises:
        ColltoolError: more cells, or none of them can be priced.
    """
    fabrics = [fabric.load(()) for fabric in swept]
    first = fabrics[0]
    names = tuple(fabric.name for fabric in swept)
    axes = (
        SweepAxis("fabric", names),
        SweepAxis("ranks", _rank_counts(fabrics, groups)),
        SweepAxis("bytes", tuple(sizes)),
        *vary,
    )
    readings, layers = common_layers(names, fabrics, request.readings, {request.primitive})
    request = request._replace(readings=readings)
    count = prod(len(axis.values) for axis in axes)
    if count > most:
        raise too_many(count, most)
    cells = price_grid(request, axes, [fabric.load for fabric in swept], groups)
    if all(cell.algorithm is None for cell in cells):
        place(first, groups[0])  # if the group does not fit, this error says what does
        raise ColltoolError(cells[0].reason, fix="another number of ranks, or another fabric")
    priced = [on_layers(fabric, readings) for fabric in fabrics]
    differences = tuple(
        group_differences(names, priced, request.primitive, groups, ideal=readings.ideal)
    )
    software = tuple(software_differences(_points(request, names, cells)))
    return Sweep(
        primitive=request.primitive,
        axes=axes,
        cells=tuple(cells),
        overrides=common([as_read(fabric, readings).overrides for fabric in fabrics]),
        library=library_of(first),
        ideal=readings.ideal,
        readings=readings,
        ground=layers + joined(differences) + software,
        fitted=tuple((fabric.name, fabric.fitted) for fabric in swept),
    )


def _rank_counts(fabrics: Sequence[Fabric], groups: Sequence[GroupSpec]) -> tuple[Any, ...]:
    """The values of the axis of ranks: those of the groups, on the first fabric where a group names
    none; ``all`` where each of several fabrics is taken whole."""
    if any(group.ranks is not None or group.shape for group in groups):
        counts = []
        for group in groups:
            is_everybody = group.ranks is None
            counts.append(everybody(fabrics[0], group) if is_everybody else group.ranks)
        return tuple(counts)
    return (fabrics[0].ranks if len(fabrics) == 1 else "all",)


def _points(request: PriceRequest, names: Sequence[str], cells: Sequence[Cell]) -> list[PointTimes]:
    """The times of all fabrics at each point; empty for a single fabric."""
    if len(names) == 1:
        return []
    cells_per_fabric = len(cells) // len(names)
    points = []
    for index, cell in enumerate(cells[:cells_per_fabric]):
        # in the order of GRID_AXES; ranks may be ``all``
        _, ranks, size, *_ = cell.at
        of_fabrics = cells[index::cells_per_fabric]
        count = ranks if isinstance(ranks, int) else 0
        points.append(point_times(request.primitive, count, size, names, of_fabrics))
    return points


class PivotTable(NamedTuple):
    """Cells by row and column, and the keys and values of all other axes."""

    fixed: AxisSettings
    rows: list[list[Cell]]


def pivot_tables(sweep: Sweep, pivot: Pivot) -> Iterator[PivotTable]:
    """One table for each combination of the remaining axes' values."""
    keys = [axis.key for axis in sweep.axes]
    lengths = [len(axis.values) for axis in sweep.axes]
    strides = [prod(lengths[index + 1 :]) for index in range(len(lengths))]
    down, across = keys.index(pivot.rows), keys.index(pivot.cols)
    others = [index for index in range(len(keys)) if index not in (down, across)]
    for chosen in product(*(range(lengths[index]) for index in others)):
        fixed = []
        start = 0
        for index, step in zip(others, chosen, strict=True):
            fixed.append((keys[index], sweep.axes[index].values[step]))
            start += step * strides[index]
        table = []
        for row in range(lengths[down]):
            first = start + row * strides[down]
            columns = range(lengths[across])
            table.append([sweep.cells[first + column * strides[across]] for column in columns])
        yield PivotTable(tuple(fixed), table)


def default_sides(axes: Sequence[SweepAxis], rows: str, cols: str) -> tuple[str, str]:
    """The keys for rows and columns, each as named; where empty, sizes across and the first other
    axis of several values down."""
    several = [axis.key for axis in axes if len(axis.values) > 1 and axis.key not in (rows, cols)]
    if not cols:
        cols = "bytes" if "bytes" in several or not several else several[-1]
    other_axes = [axis.key for axis in axes if axis.key != cols]
    if not rows:
        rows = next((key for key in several if key != cols), other_axes[0])
    return rows, cols
