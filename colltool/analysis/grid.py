"""Prices for every cell of a grid: numeric axes at once as arrays, the others in loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import PointTimes
from colltool.base.arrays import first_least
from colltool.base.errors import ColltoolError, given, said, taken_from
from colltool.base.primitives import Primitive
from colltool.base.result import followed
from colltool.estimate.algorithm_estimate import NO_SOFTWARE_TIME, AlgorithmEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, by_title
from colltool.estimate.groups import place
from colltool.estimate.placement import GroupSpec
from colltool.estimate.protocols import best_protocol
from colltool.fabric.model import Fabric
from colltool.fabric.variants import Place, differences, with_values

BLOCK = 8192  # cells priced at once, to keep arrays small

FabricLoader = Callable[[Sequence[str]], Fabric]
"""Loads a fabric with overrides."""

Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """One point of a grid: its axis values, the winner and the runner-up; all None, with a ``reason``, if nothing can be priced.

    ``alpha_share``: latency's share of the total. ``ideal``: the winner without contention. ``selectable``: the user can run the
    winner. ``fitted_s``: measured software time in the total, None if not measured; ``held``: where it is extrapolated.
    """

    at: tuple[Any, ...]
    algorithm: str | None = None
    spec: str | None = None
    protocol: str = ""
    total_s: float | None = None
    busbw_Bps: float | None = None
    alpha_share: float | None = None
    runner_up: str | None = None
    runner_up_s: float | None = None
    ideal: str | None = None
    ideal_s: float | None = None
    reason: str = ""
    selectable: bool = True
    fitted_s: float | None = None
    held: str = ""


class PriceRequest(NamedTuple):
    primitive: Primitive
    readings: Readings
    only: tuple[str, ...] = ()


def cells(
    asked: PriceRequest, axes: Sequence[SweepAxis], loads: Sequence[FabricLoader], groups: Sequence[GroupSpec]
) -> list[Cell]:
    """Every cell, the last axis fastest.

    Args:
        axes: fabric, ranks and bytes first, then what is varied.
        loads, groups: one per value of the first and second axis.
    """
    shape = tuple(len(axis.values) for axis in axes)
    found: list[Cell | None] = [None] * prod(shape)
    strides = [prod(shape[index + 1 :]) for index in range(len(shape))]
    for number, load in enumerate(loads):
        for fabric, placed_at in _fabrics(load, axes):
            for readings, read_at in _readings(asked.readings, axes):
                for index, group in enumerate(groups):
                    fixed = {0: number, 1: index} | placed_at.fixed | read_at
                    block = _Block(fabric, group, asked._replace(readings=readings), axes, placed_at.varied)
                    for at, cell in block.cells(fixed):
                        found[sum(step * stride for step, stride in zip(at, strides, strict=True))] = cell
    return [cell for cell in found if cell is not None]


class _Varied(NamedTuple):
    fixed: dict[int, int]
    varied: dict[int, dict[Place, list[float]]]


def _fabrics(load: FabricLoader, axes: Sequence[SweepAxis]) -> Iterator[tuple[Fabric, _Varied]]:
    varied: dict[int, dict[Place, list[float]]] = {}
    loops: list[tuple[int, SweepAxis]] = []
    loaded: list[Fabric] = []
    for index, axis in enumerate(axes):
        if axis.of_fabric:
            several = [_varied(load, [f"{axis.key}={value}"]) for value in followed(axis.values)]
            numbers = differences(several) if len(several) > 1 else None
            if numbers == {}:
                what = f"{axis.key} changes nothing that is priced"
                raise ColltoolError(what, argument="vary", fix="a value of a tier, such as ib.bandwidth=50GB/s,100GB/s")
            if numbers is None:
                loops.append((index, axis))
                loaded = several
            else:
                varied[index] = numbers
    for chosen in followed(list(product(*(range(len(axis.values)) for _, axis in loops)))):
        overrides = [f"{axis.key}={axis.values[at]}" for (_, axis), at in zip(loops, chosen, strict=True)]
        fabric = loaded[chosen[0]] if len(loops) == 1 else _varied(load, overrides)
        yield fabric, _Varied({index: at for (index, _), at in zip(loops, chosen, strict=True)}, varied)


def _varied(load: FabricLoader, overrides: Sequence[str]) -> Fabric:
    with taken_from(overrides="vary"):
        return load(overrides)


def _readings(readings: Readings, axes: Sequence[SweepAxis]) -> Iterator[tuple[Readings, dict[int, int]]]:
    mine = [(index, axis) for index, axis in enumerate(axes) if axis.is_reading]
    for chosen in product(*(range(len(axis.values)) for _, axis in mine)):
        parts = {axis.key: axis.values[at] for (_, axis), at in zip(mine, chosen, strict=True)}
        yield readings._replace(**parts), {index: at for (index, _), at in zip(mine, chosen, strict=True)}


class _Block:
    def __init__(
        self,
        fabric: Fabric,
        group: GroupSpec,
        asked: PriceRequest,
        axes: Sequence[SweepAxis],
        varied: dict[int, dict[Place, list[float]]],
    ):
        self.fabric, self.group, self.asked, self.axes, self.varied = fabric, group, asked, axes, varied
        self.loose = [2, *sorted(varied)]  # sizes, and what is varied by numbers

    def cells(self, fixed: dict[int, int]) -> Iterator[tuple[tuple[int, ...], Cell]]:
        lengths = [len(self.axes[axis].values) for axis in self.loose]
        for start in followed(range(0, prod(lengths), BLOCK)):
            flat = np.arange(start, min(start + BLOCK, prod(lengths)))
            indices = dict(zip(self.loose, np.unravel_index(flat, lengths), strict=True))
            priced = self._priced(indices)
            for number in range(len(flat)):
                at = tuple(fixed[axis] if axis in fixed else int(indices[axis][number]) for axis in range(len(self.axes)))
                yield at, priced[number]._replace(at=tuple(axis.values[step] for axis, step in zip(self.axes, at, strict=True)))

    def _priced(self, indices: dict[int, NDArray[np.intp]]) -> list[Cell]:
        sizes = np.array(self.axes[2].values, dtype=np.float64)[indices[2]]
        values = {
            spot: np.array(numbers)[indices[axis]] for axis, places in self.varied.items() for spot, numbers in places.items()
        }
        fabric = with_values(self.fabric, values)
        try:
            rows = _leading(fabric, self.group, self.asked, sizes)
        except ColltoolError as error:
            return [Cell((), reason=said(error.what))] * len(sizes)
        ideal = self.asked.readings._replace(ideal=True)
        without = _leading(fabric, self.group, self.asked._replace(readings=ideal), sizes)
        return _winners(rows, without, len(sizes))


Listed = tuple[AlgorithmEstimate, Any]
"""A row for an array of sizes, and a mask of the sizes at which a single price would list it (True: all)."""


def leading_rows(fabric: Fabric, group: GroupSpec, asked: PriceRequest, sizes: Floats) -> list[AlgorithmEstimate]:
    """The schedules that may be called the fastest, each under its fastest protocol.

    Raises:
        ColltoolError: the group does not fit, nothing runs, or an algorithm is unknown.
    """
    return [row for row, _ in _leading(fabric, group, asked, sizes)]


def winner(fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float) -> AlgorithmEstimate:
    rows = _leading(fabric, group, asked, np.array([size]))
    return rows[int(first_least(list(_totals(rows, 1)))[0])][0]


def _leading(fabric: Fabric, group: GroupSpec, asked: PriceRequest, sizes: Floats) -> list[Listed]:
    candidates = Candidates(place(fabric, group), asked.primitive, asked.readings).shown(asked.only, [sizes])
    best = min(one.rank_class for one, _ in candidates)
    where: dict[str, Any] = {}
    for one, at in candidates:
        where[one.title] = where.get(one.title, False) | at
    mine = by_title([one for one, _ in candidates if one.rank_class == best])
    return [(best_protocol([one.at(sizes) for one in same]), where[title]) for title, same in mine.items()]


def _winners(listed: Sequence[Listed], ideal: Sequence[Listed], count: int) -> list[Cell]:
    rows = [row for row, _ in listed]
    totals = _totals(listed, count)
    each = np.arange(count)
    first = first_least(list(totals))
    behind = totals.copy()
    behind[first, each] = np.inf
    second = first_least(list(behind))
    latency = np.stack([np.broadcast_to(row.alpha_s, (count,)) for row in rows])[first, each] / totals[first, each]
    busbw = np.stack([np.broadcast_to(row.busbw_Bps, (count,)) for row in rows])[first, each]
    without = _totals(ideal, count)
    quiet = first_least(list(without))
    several = np.isfinite(behind[second, each])
    fitted = _fitted(rows, [int(at) for at in first], count)
    return [
        Cell(
            at=(),
            algorithm=rows[first[n]].title,
            spec=rows[first[n]].spec,
            protocol=_protocol(rows[first[n]], n),
            total_s=float(totals[first[n], n]),
            busbw_Bps=float(busbw[n]),
            alpha_share=float(latency[n]),
            runner_up=rows[second[n]].title if several[n] else None,
            runner_up_s=float(behind[second[n], n]) if several[n] else None,
            ideal=ideal[quiet[n]][0].title,
            ideal_s=float(without[quiet[n], n]),
            selectable=rows[first[n]].selectable,
            fitted_s=float(fitted[first[n]][n]) if first[n] in fitted else None,
            held="; ".join(rows[first[n]].software_time.notes(float(rows[first[n]].bytes[n]))),
        )
        for n in range(count)
    ]


def _fitted(rows: Sequence[AlgorithmEstimate], winners: Sequence[int], count: int) -> dict[int, Floats]:
    known = (at for at in set(winners) if rows[at].software_time is not NO_SOFTWARE_TIME)
    return {at: np.broadcast_to(rows[at].fitted_s, (count,)) for at in known}


def _totals(rows: Sequence[Listed], count: int) -> Floats:
    """Seconds by row and element; inf where a price would not list the row."""
    return np.stack([np.where(at, np.broadcast_to(row.total_s, (count,)), np.inf) for row, at in rows])


def _protocol(row: AlgorithmEstimate, number: int) -> str:
    return str(row.protocol if isinstance(row.protocol, str) else row.protocol[number])


def point_of(primitive: Primitive, ranks: int, size: float, names: Sequence[str], columns: Sequence[Cell]) -> PointTimes:
    """Times of the columns that have a price, except those priced by measured protocols."""
    took = ((name, cell.total_s, cell.fitted_s) for name, cell in zip(names, columns, strict=True) if not cell.protocol)
    return PointTimes(primitive, ranks, size, tuple((name, total, fitted) for name, total, fitted in took if total is not None))


def too_many(count: int, most: int) -> ColltoolError:
    fix = f"fewer values on an axis, or {given('limit', count)}"
    return ColltoolError(f"{count} cells, more than {most}", argument="limit", fix=fix)
