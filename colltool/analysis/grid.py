"""Prices for every cell of a grid: numeric axes at once as arrays, the others in loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from math import inf, isfinite, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.axes import OWN_AXES, SweepAxis
from colltool.analysis.basis import PointTimes
from colltool.analysis.judged import Seconds, with_intervals
from colltool.base.arrays import first_least
from colltool.base.errors import ColltoolError, localize, taken_from
from colltool.base.primitives import Primitive
from colltool.base.result import followed
from colltool.estimate.algorithm_estimate import NO_SOFTWARE_TIME, AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates, by_title, on_layers
from colltool.estimate.groups import library_of, place
from colltool.estimate.interval import Interval, before_dials
from colltool.estimate.leading import best_class, may_lead
from colltool.estimate.library_pick import MODELLED_LIBRARIES, SIMPLE, Picked, picked_at
from colltool.estimate.placement import GroupSpec
from colltool.estimate.protocols import best_protocol
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric
from colltool.fabric.topology import routed
from colltool.fabric.variants import Place, differences, with_values
from colltool.libraries.nccl.rules import name_on

BLOCK = 8192  # cells priced at once, to keep arrays small
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
FabricLoader = Callable[[Sequence[str]], Fabric]
"""Loads a fabric with overrides."""


# The values of a cell on all axes.
AxisValues = tuple[Any, ...]


class Cell(NamedTuple):
    """One point of a grid: its axis values, the winner and the runner-up; all None, with a
    ``reason``, if nothing can be priced.

    Args:
        known_as: the library's name of the winner, ours where it has none; ``how`` it runs;
            ``runner_up_known_as`` likewise.
        alpha_share: latency's share of the total.
        ideal: the winner without contention, and ``ideal_s`` its seconds; None where they were not
            asked for.
        selectable: whether the user can run the winner.
        fitted_s: measured software time in the total, None if not measured; ``held``: where it is
            extrapolated.
        accuracy: how far off such a price is.
        picked: whether the winner is what the library picks.
        interval: where nine of ten measurements of the winner lie; None under the ideal reading.
    """

    at: AxisValues
    algorithm: str | None = None
    known_as: str = ""
    how: str = ""
    spec: str | None = None
    protocol: str = ""
    total_s: float | None = None
    busbw_Bps: float | None = None
    alpha_share: float | None = None
    runner_up: str | None = None
    runner_up_known_as: str = ""
    runner_up_s: float | None = None
    ideal: str | None = None
    ideal_s: float | None = None
    reason: str = ""
    selectable: bool = True
    fitted_s: float | None = None
    held: str = ""
    accuracy: Accuracy | None = None
    picked: bool = False
    interval: Interval | None = None


class PriceRequest(NamedTuple):
    """A primitive and how it is priced; ``only``: the algorithms to choose from, all if empty."""

    primitive: Primitive
    readings: ModelOptions
    only: tuple[str, ...] = ()


class CellParts(NamedTuple):
    """What cells carry beside the winner and its seconds; each costs as much as a price."""

    ideal: bool = True
    interval: bool = True


EVERYTHING = CellParts()

# Axes whose values are numbers alone: by the axis' index, the places of the fabric that they fill.
NumericAxes = dict[int, dict[Place, list[float]]]


def cells(
    request: PriceRequest,
    axes: Sequence[SweepAxis],
    loads: Sequence[FabricLoader],
    groups: Sequence[GroupSpec],
    parts: CellParts = EVERYTHING,
) -> list[Cell]:
    """Every cell, the last axis fastest: fabric (a load each), ranks (a group each) and bytes, then
    what is varied."""
    shape = tuple(len(axis.values) for axis in axes)
    options = [index for index, axis in enumerate(axes) if axis.is_reading]
    found: list[Cell | None] = [None] * prod(shape)
    unchanged = UnchangedPrices()
    for number, load in enumerate(loads):
        for fabric, loaded_at, numeric in _fabrics(load, axes):
            for chosen in product(*(range(shape[index]) for index in options)):
                option_at = dict(zip(options, chosen, strict=True))
                values = {
                    axes[index].key: axes[index].values[at] for index, at in option_at.items()
                }
                own_request = request._replace(readings=request.readings._replace(**values))
                for group_at, group in enumerate(groups):
                    fixed = {0: number, 1: group_at} | loaded_at | option_at
                    question = GridQuestion(fabric, group, own_request)
                    for at, cell in _block(question, axes, numeric, fixed, parts, unchanged):
                        found[at] = cell
    return [cell for cell in found if cell is not None]


def _fabrics(
    load: FabricLoader, axes: Sequence[SweepAxis]
) -> Iterator[tuple[Fabric, dict[int, int], NumericAxes]]:
    """The fabrics that need a load of their own, at which values of the axes, and the axes that are
    left to arrays of numbers."""
    numeric: NumericAxes = {}
    loops: list[int] = []
    loaded: list[Fabric] = []

    def loaded_with(overrides: Sequence[str]) -> Fabric:
        with taken_from(overrides="vary"):
            return load(overrides)

    for index, axis in enumerate(axes):
        if axis.is_reading or axis.key in OWN_AXES:
            continue
        several = [loaded_with([f"{axis.key}={value}"]) for value in followed(axis.values)]
        numbers = differences(several) if len(several) > 1 else None
        if numbers == {}:
            raise ColltoolError(
                f"{axis.key} changes nothing that is priced",
                argument="vary",
                fix="a value of a tier, such as ib.bandwidth=50GB/s,100GB/s",
            )
        # Where messages are put on links, arrays of numbers are not priced: a load for each value.
        if numbers is None or several[0].domains or routed(several[0].tiers):
            loops.append(index)
            loaded = several
        else:
            numeric[index] = numbers
    for chosen in followed(list(product(*(range(len(axes[index].values)) for index in loops)))):
        at = dict(zip(loops, chosen, strict=True))
        if len(loops) == 1:
            fabric = loaded[chosen[0]]
        else:
            fabric = loaded_with(
                [f"{axes[i].key}={axes[i].values[step]}" for i, step in at.items()]
            )
        yield fabric, at, numeric


class GridQuestion(NamedTuple):
    """What is priced at many sizes and numbers."""

    fabric: Fabric
    group: GroupSpec
    request: PriceRequest

    @property
    def readings(self) -> ModelOptions:
        return self.request.readings

    @property
    def primitive(self) -> Primitive:
        return self.request.primitive

    def candidates(self) -> Candidates:
        placed = place(on_layers(self.fabric, self.readings), self.group)
        return Candidates(placed, self.primitive, self.readings)

    def without_contention(self) -> GridQuestion:
        ideal = self.readings._replace(ideal=True)
        return self._replace(request=self.request._replace(readings=ideal))


def _block(
    question: GridQuestion,
    axes: Sequence[SweepAxis],
    numeric: NumericAxes,
    fixed: dict[int, int],
    parts: CellParts,
    unchanged: UnchangedPrices,
) -> Iterator[tuple[int, Cell]]:
    """The cells where some axes are fixed, over the sizes and what is varied by numbers, each with
    its number in the whole grid."""
    fabric, group, request = question
    loose = [2, *sorted(numeric)]
    lengths = [len(axes[index].values) for index in loose]
    shape = [len(axis.values) for axis in axes]
    all_sizes = np.array(axes[2].values, dtype=np.float64)
    for start in followed(range(0, prod(lengths), BLOCK)):
        flat = np.arange(start, min(start + BLOCK, prod(lengths)))
        indices = dict(zip(loose, np.unravel_index(flat, lengths), strict=True))
        values: dict[Place, Floats] = {}
        for index, places in numeric.items():
            for spot, numbers in places.items():
                values[spot] = np.array(numbers)[indices[index]]
        steps = []
        columns = []
        for index, axis in enumerate(axes):
            on_axis = indices[index] if index in indices else np.full(len(flat), fixed[index])
            steps.append(on_axis)
            columns.append([axis.values[step] for step in on_axis.tolist()])
        where = list(zip(*columns, strict=True))
        sizes = all_sizes[indices[2]]
        picks = _picks(question, values, sizes)
        varied = question._replace(fabric=with_values(fabric, values))
        priced: Sequence[Cell] = _priced(varied, where, sizes, picks, ideal=parts.ideal)
        if parts.interval:
            before = before_dials(fabric) or (fabric if values else None)
            base = None if before is None else unchanged.seconds(question, before, sizes)
            priced = list(with_intervals(priced, fabric, group, request, sizes.tolist(), base))
        places = np.ravel_multi_index(tuple(steps), shape).tolist()
        yield from zip(places, priced, strict=True)


# A row for an array of sizes, and a mask of the sizes at which a single price would list it (True:
# all of them).
Listed = tuple[AlgorithmEstimate, Any]


def leading_rows(
    fabric: Fabric, group: GroupSpec, request: PriceRequest, sizes: Floats
) -> list[AlgorithmEstimate]:
    """The schedules that may be called the fastest, or those that were named, each under its
    fastest protocol."""
    return [row for row, _ in _leading(GridQuestion(fabric, group, request), sizes)]


def winner(
    fabric: Fabric, request: PriceRequest, group: GroupSpec, size: float
) -> AlgorithmEstimate:
    """The fastest row at a size in bytes."""
    rows = _leading(GridQuestion(fabric, group, request), np.array([size]))
    return rows[int(first_least(list(_totals(rows, 1)))[0])][0]


def _leading(question: GridQuestion, sizes: Floats) -> list[Listed]:
    only = question.request.only
    costs = []
    where: dict[str, Any] = {}
    for cost, at in question.candidates().shown(only, [sizes]):
        costs.append(cost)
        where[cost.title] = where.get(cost.title, False) | at
    leading = may_lead(costs, only) or best_class(costs)
    found = []
    for title, protocols in by_title(leading).items():
        found.append((best_protocol([cost.at(sizes) for cost in protocols]), where[title]))
    return found


# What the library picks at each element; None where that is not known.
Picks = list[Picked | None]


def _picks(question: GridQuestion, values: dict[Place, Floats], sizes: Floats) -> Picks:
    """The leader of each element, as ``price`` has it; of named algorithms the fastest leads."""
    fabric, group, request = question
    found: Picks = [None] * len(sizes)
    if request.only or fabric.library_name not in MODELLED_LIBRARIES:
        return found
    for combination, at in _alike(len(sizes), values):
        varied = with_values(fabric, combination)
        # a group that does not fit has its reason in the cell
        with suppress(ColltoolError):
            picked = picked_at(varied, group, request.primitive, sizes[at].tolist()) or []
            for number, pick in zip(at.tolist(), picked, strict=False):
                found[number] = pick
    return found


def _alike(count: int, values: dict[Place, Floats]) -> Iterator[tuple[dict[Place, float], Indices]]:
    """Each different combination of values, and the elements that have it."""
    table = np.stack([np.zeros(count), *values.values()], axis=1)
    rows, number_of = np.unique(table, axis=0, return_inverse=True)
    for number, row in enumerate(rows):
        combination = dict(zip(values, row[1:].tolist(), strict=True))
        yield combination, np.flatnonzero(number_of.reshape(-1) == number)


def _with_picks(
    question: GridQuestion, sizes: Floats, listed: list[Listed], picks: Picks
) -> tuple[list[Listed], Indices]:
    """The rows, those under Simple that a pick is priced as, and for each element the row that its
    pick is (-1: the fastest)."""
    row_of = {row.spec: at for at, (row, _) in reversed(list(enumerate(listed)))}
    simple_specs = {pick.spec for pick in picks if pick and pick.simple} & set(row_of)
    simple_row_of: dict[str, int] = {}
    if simple_specs:
        nowhere = np.zeros(len(sizes), dtype=bool)
        for cost in question.candidates().named(sorted(simple_specs), [sizes]):
            spec = cost.choice.spec
            under_simple = cost.protocol.lower() == SIMPLE
            leads = cost.rank_class == listed[0][0].rank_class
            if under_simple and leads and spec not in simple_row_of:
                simple_row_of[spec] = len(listed)
                listed = [*listed, (best_protocol([cost.at(sizes)]), nowhere)]
    at = np.full(len(picks), -1)
    for number, pick in enumerate(picks):
        if pick and pick.simple and pick.spec in simple_row_of:
            at[number] = simple_row_of[pick.spec]
        elif pick:
            at[number] = row_of.get(pick.spec, -1)
    return listed, at


def _totals(rows: Sequence[Listed], count: int) -> Floats:
    """Seconds by row and element; inf where a price would not list the row."""
    return np.stack([np.where(at, _broadcast(row.total_s, count), np.inf) for row, at in rows])


def _broadcast(value: Any, count: int) -> Floats:
    return np.broadcast_to(value, (count,))


def _known_as(rows: Sequence[Listed], question: GridQuestion) -> list[str]:
    """The library's name of each row, ours where it has none."""
    library = library_of(question.fabric)
    placement = place(question.fabric, question.group).placement
    return [
        name_on(library, question.primitive, placement, row.spec) or row.title for row, _ in rows
    ]


def _of_leaders(rows: Sequence[Listed], name: str, first: Indices) -> Floats:
    """A number of the row that leads each element."""
    table = np.stack([_broadcast(getattr(row, name), len(first)) for row, _ in rows])
    leaders: Floats = table[first, np.arange(len(first))]
    return leaders


class IdealWinners(NamedTuple):
    """The fastest row of each element without contention, and its seconds."""

    titles: list[str]
    seconds: list[float]


def _ideal_winners(question: GridQuestion, sizes: Floats) -> IdealWinners:
    listed = _leading(question.without_contention(), sizes)
    first = first_least(list(_totals(listed, len(sizes))))
    titles = [listed[at][0].title for at in first.tolist()]
    return IdealWinners(titles, _of_leaders(listed, "total_s", first).tolist())


def _priced(
    question: GridQuestion,
    where: Sequence[AxisValues],
    sizes: Floats,
    picks: Picks,
    *,
    ideal: bool = True,
) -> list[Cell]:
    """A cell for each element, without its interval."""
    try:
        listed = _leading(question, sizes)
    except ColltoolError as error:
        return [Cell(at, reason=localize(error.what)) for at in where]
    return _cells_of(question, where, sizes, listed, picks, ideal=ideal)


def _cells_of(
    question: GridQuestion,
    where: Sequence[AxisValues],
    sizes: Floats,
    listed: list[Listed],
    picks: Picks,
    *,
    ideal: bool,
) -> list[Cell]:
    """A cell for each element, of the rows that a price would list there."""
    count = len(sizes)
    ideal_winners = _ideal_winners(question, sizes) if ideal else None
    listed, picked_row = _with_picks(question, sizes, listed, picks)
    listable = _totals(listed, count)
    first = np.where(picked_row >= 0, picked_row, first_least(list(listable)))
    titles = [row.title for row, _ in listed]
    # The runner-up is the fastest of another name: protocols of one algorithm do not compete.
    number_of = np.unique(titles, return_inverse=True)[1]
    others = np.where(number_of[:, None] == number_of[first][None, :], np.inf, listable)
    second = first_least(list(others))
    names = _known_as(listed, question)
    how = [row.how for row, _ in listed]
    total_s = _of_leaders(listed, "total_s", first).tolist()
    alpha_s = _of_leaders(listed, "alpha_s", first).tolist()
    busbw = _of_leaders(listed, "busbw_Bps", first).tolist()
    later_s = others[second, np.arange(count)].tolist()
    fitted: dict[int, Floats] = {}
    protocols = []
    for at, (row, _) in enumerate(listed):
        same = isinstance(row.protocol, str)
        protocols.append([row.protocol] * count if same else row.protocol.tolist())
        if row.software_time is not NO_SOFTWARE_TIME:
            fitted[at] = _broadcast(row.fitted_s, count)
    found = []
    for n, (at, next_at) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        row = listed[at][0]
        later = later_s[n]
        has_runner_up = isfinite(later)
        found.append(
            Cell(
                at=where[n],
                algorithm=titles[at],
                known_as=names[at],
                how=how[at],
                spec=row.spec,
                protocol=str(protocols[at][n]),
                total_s=total_s[n],
                busbw_Bps=busbw[n],
                alpha_share=alpha_s[n] / total_s[n],
                runner_up=titles[next_at] if has_runner_up else None,
                runner_up_known_as=names[next_at] if has_runner_up else "",
                runner_up_s=later if has_runner_up else None,
                ideal=ideal_winners and ideal_winners.titles[n],
                ideal_s=ideal_winners and ideal_winners.seconds[n],
                selectable=row.selectable,
                fitted_s=float(fitted[at][n]) if at in fitted else None,
                held="; ".join(row.software_time.notes(float(row.bytes[n]))),
                picked=int(picked_row[n]) >= 0,
            )
        )
    return found


class UnchangedPrices:
    """Seconds on fabrics before their numbers were changed, each priced once: the columns of a
    comparison mostly come from one file."""

    def __init__(self) -> None:
        self._known: dict[tuple[GridQuestion, bytes], Seconds] = {}

    def seconds(self, question: GridQuestion, before: Fabric, sizes: Floats) -> Seconds:
        """Seconds of each schedule by size, as picked, else under its fastest protocol; nothing
        where the group does not fit ``before``."""
        unchanged = question._replace(fabric=before)
        each = np.unique(sizes)
        key = unchanged, each.tobytes()
        if key not in self._known:
            self._known[key] = _seconds_by_schedule(unchanged, each)
        return self._known[key]


def _seconds_by_schedule(question: GridQuestion, sizes: Floats) -> Seconds:
    try:
        listed = _leading(question, sizes)
    except ColltoolError:
        return {}
    each = sizes.tolist()
    where = [(size,) for size in each]
    picks = _picks(question, {}, sizes)
    picked = _cells_of(question, where, sizes, listed, picks, ideal=False)
    seconds: dict[tuple[str, float], float] = {}
    for row, _ in listed:
        took = _broadcast(row.total_s, len(sizes)).tolist()
        for size, total_s in zip(each, took, strict=True):
            seconds[row.title, size] = total_s
    for size, cell in zip(each, picked, strict=True):
        seconds[str(cell.algorithm), size] = cell.total_s or inf
    return seconds


def point_of(
    primitive: Primitive, ranks: int, size: float, names: Sequence[str], columns: Sequence[Cell]
) -> PointTimes:
    """Times of the columns that have a price, except those priced by measured protocols."""
    took = []
    for name, cell in zip(names, columns, strict=True):
        if cell.total_s is not None and not cell.protocol:
            took.append((name, cell.total_s, cell.fitted_s))
    return PointTimes(primitive, ranks, size, tuple(took))
