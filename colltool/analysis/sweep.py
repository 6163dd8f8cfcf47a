"""``sweep``: the winner over fabrics, ranks, sizes and any other value, and where it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple

from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import (
    BasisDifference,
    common_layers,
    group_differences,
    joined,
    software_differences,
    too_many,
)
from colltool.analysis.grid import Cell, FabricLoader, PriceRequest, cells, point_of
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.candidates import on_layers
from colltool.estimate.groups import as_read, library_of, place
from colltool.estimate.placement import GroupSpec, everybody
from colltool.machines.used import common

# default contention is no better known: a closer runner-up may win (Collectives Explainer Series 05
# section 7)
CLOSE = 0.20
MOST_CELLS = 100_000


class Pivot(NamedTuple):
    """A table of two axes: what its cells show, and the axis for rows and for columns."""

    value: Literal["busbw", "total", "algorithm"]
    rows: str
    cols: str


class WinnerChange(NamedTuple):
    """The winner changes between neighbours ``last`` and ``first`` on an axis; ``at``: the other
    axes' values."""

    axis: str
    at: tuple[tuple[str, Any], ...]
    last: Any
    first: Any
    before: str
    after: str


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Result):
    """The winner at every grid point. ``axes``: fabric, ranks, bytes, then what is varied; the last
    is fastest in ``cells``."""

    subject: ClassVar[str] = "sweep"
    primitive: Primitive
    axes: tuple[SweepAxis, ...]
    cells: tuple[Cell, ...]
    overrides: tuple[tuple[str, str], ...]
    library: str
    ideal: bool
    pivot: Pivot | None = None
    ground: tuple[BasisDifference, ...] = ()
    readings: Readings = USUAL

    @property
    def varied(self) -> tuple[SweepAxis, ...]:
        return tuple(axis for axis in self.axes if len(axis.values) > 1)

    def pivoted(
        self, value: Literal["busbw", "total", "algorithm"], rows: str = "", cols: str = ""
    ) -> Sweep:
        """Shown as tables of two axes, chosen by :func:`default_sides` unless named."""
        usual = default_sides(self.axes, rows, cols)
        pivot = Pivot(value, rows or usual[0], cols or usual[1])
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
        """Changes of winner along numeric axes (fabrics and readings have no order)."""
        lengths, found = [len(axis.values) for axis in self.axes], []
        for index, axis in enumerate(self.axes):
            if axis.key == "fabric" or axis.is_reading:
                continue
            step = prod(lengths[index + 1 :])
            for start, one in enumerate(self.cells):
                other = (
                    self.cells[start + step]
                    if start // step % lengths[index] < lengths[index] - 1
                    else one
                )
                if one.algorithm and other.algorithm and one.algorithm != other.algorithm:
                    at = tuple(
                        (two.key, value)
                        for two, value in zip(self.axes, one.at, strict=True)
                        if two is not axis and len(two.values) > 1
                    )
                    ends = one.at[index], other.at[index], one.algorithm, other.algorithm
                    found.append(WinnerChange(axis.key, at, *ends))
        return tuple(found)

    @property
    def priced(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.algorithm)

    @property
    def differing(self) -> tuple[Cell, ...]:
        """Cells with another winner without contention."""
        return tuple(cell for cell in self.cells if cell.ideal != cell.algorithm)

    @property
    def close(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if is_close(cell))


def is_close(cell: Cell) -> bool:
    return (
        cell.runner_up_s is not None
        and cell.total_s is not None
        and cell.runner_up_s <= (1 + CLOSE) * cell.total_s
    )


class SweepFabric(NamedTuple):
    name: str
    load: FabricLoader


def sweep(
    asked: PriceRequest,
    where: Sequence[SweepFabric],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
    vary: Sequence[SweepAxis],
    most: int = MOST_CELLS,
) -> Sweep:
    """The winner at every point of fabrics x ranks x sizes (bytes as in nccl-tests) x further axes,
    at most ``most`` cells."""
    fabrics = [one.load(()) for one in where]
    first = fabrics[0]
    said = any(group.ranks is not None or group.shape for group in groups)
    whole = first.ranks if len(where) == 1 else "all"
    ranks = (
        tuple(everybody(first, group) if group.ranks is None else group.ranks for group in groups)
        if said
        else (whole,)
    )
    own = (
        SweepAxis("fabric", tuple(one.name for one in where)),
        SweepAxis("ranks", ranks),
        SweepAxis("bytes", tuple(sizes)),
    )
    axes = (*own, *vary)
    readings, layers = common_layers(own[0].values, fabrics, asked.readings, {asked.primitive})
    asked = asked._replace(readings=readings)
    count = prod(len(axis.values) for axis in axes)
    if count > most:
        raise too_many(count, most)
    found = cells(asked, axes, [one.load for one in where], groups)
    if all(cell.algorithm is None for cell in found):
        place(first, groups[0])  # if the group does not fit, this error says what does
        raise ColltoolError(found[0].reason, fix="another number of ranks, or another fabric")
    names, each, ideal = own[0].values, len(found) // len(where), asked.readings.ideal
    points = (
        [
            point_of(
                asked.primitive,
                one.at[1] if isinstance(one.at[1], int) else 0,
                one.at[2],
                names,
                found[at::each],
            )
            for at, one in enumerate(found[:each])
        ]
        if len(where) > 1
        else []
    )
    priced = [on_layers(fabric, readings) for fabric in fabrics]
    ground = joined(
        group_differences(names, priced, asked.primitive, groups, ideal=ideal)
    ) + software_differences(points)
    return Sweep(
        primitive=asked.primitive,
        axes=axes,
        cells=tuple(found),
        overrides=common([as_read(fabric, asked.readings).overrides for fabric in fabrics]),
        library=library_of(first),
        ideal=ideal,
        readings=asked.readings,
        ground=layers + ground,
    )


At = tuple[tuple[str, Any], ...]


def pivot_tables(sweep: Sweep, pivot: Pivot) -> Iterator[tuple[At, list[list[Cell]]]]:
    """One table for each combination of the remaining axes' values."""
    keys = [axis.key for axis in sweep.axes]
    sides = (keys.index(pivot.rows), keys.index(pivot.cols))
    down, across = (range(len(sweep.axes[side].values)) for side in sides)
    by_index = dict(
        zip(product(*(range(len(axis.values)) for axis in sweep.axes)), sweep.cells, strict=True)
    )
    others = [index for index in range(len(keys)) if index not in sides]
    for chosen in product(*(range(len(sweep.axes[index].values)) for index in others)):
        fixed = dict(zip(others, chosen, strict=True))
        at = tuple((keys[index], sweep.axes[index].values[step]) for index, step in fixed.items())
        spots = [[fixed | {sides[0]: i, sides[1]: j} for j in across] for i in down]
        yield (
            at,
            [
                [by_index[tuple(spot[index] for index in range(len(keys)))] for spot in row]
                for row in spots
            ],
        )


def default_sides(axes: Sequence[SweepAxis], rows: str = "", cols: str = "") -> tuple[str, str]:
    """Default rows and columns among axes of several values: sizes across, the first other axis
    down."""
    several = [axis.key for axis in axes if len(axis.values) > 1 and axis.key not in (rows, cols)]
    cols = cols or ("bytes" if "bytes" in several or not several else several[-1])
    left = [axis.key for axis in axes if axis.key != cols]
    return rows or next((key for key in several if key != cols), left[0]), cols
