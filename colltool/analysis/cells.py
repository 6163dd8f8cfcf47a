"""Cells of a grid: the winner, the runner-up and what runs them, for arrays of sizes and numbers.

An *element* is a point of the grid: one size, with one value of each number that is varied. A *row* is
one schedule priced at all elements at once; protocols of one algorithm are one row, under the fastest.
The cell of an element belongs to the row that the library picks there, where its choice is known, else
to the fastest row.

:func:`priced_cells` makes the cells for :mod:`colltool.analysis.grid`; :func:`leading_rows` and
:func:`winner` are what other analyses ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.basis import ColumnTime, PointTimes
from colltool.analysis.cell_intervals import CellErrors, SecondsBySchedule
from colltool.base.arrays import first_least
from colltool.base.errors import ColltoolError, localize
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import NO_SOFTWARE_TIME, AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates, by_title, on_layers
from colltool.estimate.groups import place
from colltool.estimate.interval import Interval
from colltool.estimate.leading import best_class, may_lead
from colltool.estimate.library_pick import SIMPLE, Picked, picked_at
from colltool.estimate.nccl_hardware import MODELLED_LIBRARIES
from colltool.estimate.placement import GroupSpec
from colltool.estimate.protocols import best_protocol
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric
from colltool.fabric.values import Place, with_values

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The values of a cell on all axes.
AxisValues = tuple[Any, ...]

# What the library picks at each element; None where that is not known.
Picks = list[Picked | None]

# Elements priced at once, to keep the arrays of a price small.
BLOCK = 16384


class Cell(NamedTuple):
    """One point of a grid: its axis values, the winner and the runner-up; all None, with a
    ``reason``, if nothing can be priced.

    Args:
        at: a value on each axis of the grid.
        algorithm: the winner's title.
        known_as: the library's name of the winner, ours where it has none; ``how`` it runs;
            ``runner_up_known_as`` likewise.
        spec: the winner as ``--algorithm`` takes it.
        protocol: empty where the fabric lists none.
        alpha_share: latency's share of the total.
        ideal: the winner without contention, and ``ideal_s`` its seconds; None where they were not
            requested.
        selectable: whether the user can run the winner.
        fitted_s: measured software time in the total, None if not measured.
        extrapolated: where software time was measured, if not at these ranks and sizes; else empty.
        accuracy: how far off such a price is.
        picked: whether the winner is what the library picks.
        interval: where nine of ten measurements of the winner lie; None without contention.
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
    extrapolated: str = ""
    accuracy: Accuracy | None = None
    picked: bool = False
    interval: Interval | None = None


class PriceRequest(NamedTuple):
    """A primitive and how it is priced; ``only``: the algorithms to choose from (names or specs), all
    if empty."""

    primitive: Primitive
    readings: ModelOptions
    only: tuple[str, ...] = ()


class GridQuestion(NamedTuple):
    """What is priced at many sizes and numbers; the fabric may have arrays of the numbers."""

    fabric: Fabric
    group: GroupSpec
    request: PriceRequest

    def candidates(self) -> Candidates:
        """The schedules of the request on the group."""
        primitive, readings, _ = self.request
        placed = place(on_layers(self.fabric, readings), self.group)
        return Candidates(placed, primitive, readings)

    def without_contention(self) -> GridQuestion:
        """The same question of an ideal fabric."""
        readings = self.request.readings._replace(ideal=True)
        return self._replace(request=self.request._replace(readings=readings))


class ListedRow(NamedTuple):
    """A row for an array of sizes, and a mask of the sizes at which a single price would list it
    (True: all of them)."""

    row: AlgorithmEstimate
    listed_at: Any


class IdealWinners(NamedTuple):
    """The fastest row of each element without contention, and its seconds."""

    titles: list[str]
    seconds: list[float]


def leading_rows(
    fabric: Fabric, group: GroupSpec, request: PriceRequest, sizes: Floats
) -> list[AlgorithmEstimate]:
    """The schedules that may be called the fastest, or those that were named, each under its
    fastest protocol."""
    return [row for row, _ in _listed_rows(GridQuestion(fabric, group, request), sizes)]


def winner(
    fabric: Fabric, request: PriceRequest, group: GroupSpec, size: float
) -> AlgorithmEstimate:
    """The fastest row at a size in bytes."""
    listed = _listed_rows(GridQuestion(fabric, group, request), np.array([size]))
    return listed[int(first_least(list(_totals(listed, 1)))[0])].row


def priced_cells(
    question: GridQuestion,
    axis_values: Sequence[AxisValues],
    sizes: Floats,
    picks: Picks,
    errors: CellErrors | None,
    *,
    ideal: bool = True,
) -> list[Cell]:
    """A cell for each element, without an interval unless ``errors`` give one; a reason in each
    where nothing can run."""
    try:
        listed = _listed_rows(question, sizes)
    except ColltoolError as error:
        return [Cell(values, reason=localize(error.what)) for values in axis_values]
    return _cells_of_rows(question, axis_values, sizes, listed, picks, errors, ideal=ideal)


def library_picks(question: GridQuestion, values: dict[Place, Floats], sizes: Floats) -> Picks:
    """The library's choice at each element, as ``price`` has it; ``values``: those of the varied
    numbers, an array each. All None where algorithms were named: of these the fastest leads."""
    fabric, group, request = question
    picks_found: Picks = [None] * len(sizes)
    if request.only or fabric.library_name not in MODELLED_LIBRARIES:
        return picks_found
    for combination, elements in _value_combinations(len(sizes), values):
        varied = with_values(fabric, combination)
        # a group that does not fit has its reason in the cell
        with suppress(ColltoolError):
            picked = picked_at(varied, group, request.primitive, sizes[elements].tolist()) or []
            for element, pick in zip(elements.tolist(), picked, strict=False):
                picks_found[element] = pick
    return picks_found


def _value_combinations(
    count: int, values: dict[Place, Floats]
) -> Iterator[tuple[dict[Place, float], Indices]]:
    """Each different combination of values, and the elements that have it; ``count``: of all
    elements."""
    # Bandwidths 1, 2, 1 of three elements: 1 at elements 0 and 2, 2 at element 1. A column of zeros
    # makes one combination where nothing is varied.
    table = np.stack([np.zeros(count), *values.values()], axis=1)
    rows, row_of = np.unique(table, axis=0, return_inverse=True)
    for number, row in enumerate(rows):
        combination = dict(zip(values, row[1:].tolist(), strict=True))
        yield combination, np.flatnonzero(row_of.reshape(-1) == number)


def _listed_rows(question: GridQuestion, sizes: Floats) -> list[ListedRow]:
    """The rows that may lead, each under its fastest protocol; of the best class if none may."""
    only = question.request.only
    costs = []
    listed_at: dict[str, Any] = {}
    for cost, mask in question.candidates().with_masks(only, [sizes]):
        costs.append(cost)
        listed_at[cost.title] = listed_at.get(cost.title, False) | mask
    leading = may_lead(costs, only) or best_class(costs)
    rows = []
    for title, protocols in by_title(leading).items():
        row = best_protocol([cost.at(sizes) for cost in protocols])
        rows.append(ListedRow(row, listed_at[title]))
    return rows


def _with_picks(
    question: GridQuestion, sizes: Floats, listed: list[ListedRow], picks: Picks
) -> tuple[list[ListedRow], Indices]:
    """Find the row that the library picks at each element: its index, or -1 where the fastest
    leads. A row stands for the fastest protocol of its algorithm, but some picks are priced under
    Simple, whichever is faster (``pick.simple``): rows are added for those, listed nowhere."""
    # of rows with one spec the first
    row_of = {row.spec: number for number, (row, _) in reversed(list(enumerate(listed)))}
    simple_specs = {pick.spec for pick in picks if pick and pick.simple} & set(row_of)
    simple_row_of: dict[str, int] = {}
    if simple_specs:
        nowhere = np.zeros(len(sizes), dtype=bool)
        for cost in question.candidates().named(sorted(simple_specs), [sizes]):
            spec = cost.choice.spec
            under_simple = cost.protocol.lower() == SIMPLE
            # all listed rows are of one class
            leads = cost.rank_class == listed[0].row.rank_class
            if under_simple and leads and spec not in simple_row_of:
                simple_row_of[spec] = len(listed)
                listed = [*listed, ListedRow(best_protocol([cost.at(sizes)]), nowhere)]
    # rows ring, tree, ring under Simple; picks tree, none, ring under Simple: 1, -1, 2
    picked_row = np.full(len(picks), -1)
    for element, pick in enumerate(picks):
        if pick and pick.simple and pick.spec in simple_row_of:
            picked_row[element] = simple_row_of[pick.spec]
        elif pick:
            picked_row[element] = row_of.get(pick.spec, -1)
    return listed, picked_row


def _totals(listed: Sequence[ListedRow], count: int) -> Floats:
    """Seconds, shape (rows, elements); inf where a price would not list the row."""
    return np.stack(
        [np.where(mask, _broadcast(row.total_s, count), np.inf) for row, mask in listed]
    )


def _broadcast(value: Any, count: int) -> Floats:
    """A number, or one for each element, as an array of all elements."""
    return np.broadcast_to(value, (count,))


def _of_leaders(listed: Sequence[ListedRow], name: str, leader: Indices) -> list[float]:
    """A number of the row that leads each element, such as its ``total_s``."""
    # (rows, elements), of which each element takes its leader's
    numbers = np.stack([_broadcast(getattr(row, name), len(leader)) for row, _ in listed])
    of_leaders: list[float] = numbers[leader, np.arange(len(leader))].tolist()
    return of_leaders


def _ideal_winners(question: GridQuestion, sizes: Floats) -> IdealWinners:
    """Who would win without contention, and in what time."""
    listed = _listed_rows(question.without_contention(), sizes)
    leader = first_least(list(_totals(listed, len(sizes))))
    titles = [listed[number].row.title for number in leader.tolist()]
    return IdealWinners(titles, _of_leaders(listed, "total_s", leader))


def _runners_up(
    titles: Sequence[str], totals: Floats, leader: Indices
) -> tuple[Indices, list[float]]:
    """The index of the row behind the leader of each element, and its seconds, inf where there is
    none: the fastest of another title, as protocols of one algorithm do not compete.

    Of the titles ring, tree, ring, where the first row leads, only the tree is left. ``totals``: as
    :func:`_totals` has them.
    """
    _, title_of_row = np.unique(titles, return_inverse=True)
    same_title = title_of_row[:, None] == title_of_row[leader][None, :]
    totals_of_others = np.where(same_title, np.inf, totals)
    runner_up = first_least(list(totals_of_others))
    return runner_up, totals_of_others[runner_up, np.arange(len(leader))].tolist()


def _protocols(row: AlgorithmEstimate, count: int) -> list[str]:
    """The protocol of a row at each element; the row has one name, or an array of them."""
    if isinstance(row.protocol, str):
        return [row.protocol] * count
    names: list[str] = row.protocol.tolist()
    return names


def _cells_of_rows(
    question: GridQuestion,
    axis_values: Sequence[AxisValues],
    sizes: Floats,
    listed: list[ListedRow],
    picks: Picks,
    errors: CellErrors | None,
    *,
    ideal: bool,
) -> list[Cell]:
    """A cell for each element, of the rows that a price would list there; ``ideal``: also with the
    winner without contention."""
    # None where they are not asked for
    ideal_winners = _ideal_winners(question, sizes) if ideal else None
    listed, picked_row = _with_picks(question, sizes, listed, picks)
    # who leads each element, by index of the row: the library's pick, else the fastest
    totals = _totals(listed, len(sizes))
    leader = np.where(picked_row >= 0, picked_row, first_least(list(totals)))
    titles = [row.title for row, _ in listed]
    runner_up, runner_up_seconds = _runners_up(titles, totals, leader)
    # a cell reads plain lists: by row ...
    names = [row.name for row, _ in listed]
    hows = [row.how for row, _ in listed]
    specs = [row.spec for row, _ in listed]
    selectable = [row.selectable for row, _ in listed]
    has_software = [row.software_time is not NO_SOFTWARE_TIME for row, _ in listed]
    # ... by row, then by element ...
    protocols = [_protocols(row, len(sizes)) for row, _ in listed]
    # ... or by element, of its leader
    picked = (picked_row >= 0).tolist()
    total_s = _of_leaders(listed, "total_s", leader)
    alpha_s = _of_leaders(listed, "alpha_s", leader)
    busbw_Bps = _of_leaders(listed, "busbw_Bps", leader)
    software_s = _of_leaders(listed, "fitted_s", leader) if any(has_software) else []

    @cache
    def where_measured(number: int, payload: float) -> str:
        """Where a row's software time was measured, if not at this payload in bytes; else empty."""
        return "; ".join(listed[number].row.software_time.notes(payload))

    cells = []
    elements = zip(leader.tolist(), runner_up.tolist(), sizes.tolist(), strict=True)
    for element, (leading, behind, size) in enumerate(elements):
        runner_up_s = runner_up_seconds[element]
        # infinite where no other schedule runs
        has_runner_up = isfinite(runner_up_s)
        extrapolated = where_measured(leading, float(listed[leading].row.bytes[element]))
        interval = accuracy = None
        if errors is not None:
            interval, accuracy = errors.error(
                titles[leading],
                size,
                total_s[element],
                selectable=selectable[leading],
                extrapolated=bool(extrapolated),
            )
        cells.append(
            Cell(
                at=axis_values[element],
                algorithm=titles[leading],
                known_as=names[leading],
                how=hows[leading],
                spec=specs[leading],
                protocol=str(protocols[leading][element]),
                total_s=total_s[element],
                busbw_Bps=busbw_Bps[element],
                alpha_share=alpha_s[element] / total_s[element],
                runner_up=titles[behind] if has_runner_up else None,
                runner_up_known_as=names[behind] if has_runner_up else "",
                runner_up_s=runner_up_s if has_runner_up else None,
                ideal=ideal_winners and ideal_winners.titles[element],
                ideal_s=ideal_winners and ideal_winners.seconds[element],
                selectable=selectable[leading],
                fitted_s=software_s[element] if has_software[leading] else None,
                extrapolated=extrapolated,
                accuracy=accuracy,
                picked=picked[element],
                interval=interval,
            )
        )
    return cells


class UnchangedPrices:
    """Seconds on fabrics before their numbers were changed, each priced once: the columns of a
    comparison mostly come from one file."""

    def __init__(self) -> None:
        self._known: dict[tuple[GridQuestion, tuple[float, ...]], SecondsBySchedule] = {}

    def seconds(self, question: GridQuestion, before: Fabric, sizes: Floats) -> SecondsBySchedule:
        """Seconds of each schedule by size, as picked, else under its fastest protocol; nothing
        where the group does not fit ``before``."""
        unchanged = question._replace(fabric=before)
        distinct = np.unique(sizes)
        key = unchanged, tuple(distinct.tolist())
        if key not in self._known:
            self._known[key] = _seconds_by_schedule(unchanged, distinct)
        return self._known[key]


def _seconds_by_schedule(question: GridQuestion, sizes: Floats) -> SecondsBySchedule:
    """Seconds of each schedule by title and size; those of the cell's winner as its pick runs. Empty
    where nothing is priced."""
    try:
        listed = _listed_rows(question, sizes)
    except ColltoolError:
        return {}
    size_list = sizes.tolist()
    picks = library_picks(question, {}, sizes)
    cells = _cells_of_rows(
        question, [(size,) for size in size_list], sizes, listed, picks, None, ideal=False
    )
    seconds: dict[tuple[str, float], float] = {}
    for row, _ in listed:
        row_s = _broadcast(row.total_s, len(sizes)).tolist()
        for size, total_s in zip(size_list, row_s, strict=True):
            seconds[row.title, size] = total_s
    for size, cell in zip(size_list, cells, strict=True):
        seconds[str(cell.algorithm), size] = cell.total_s or inf
    return seconds


def point_times(
    primitive: Primitive, ranks: int, size: float, names: Sequence[str], columns: Sequence[Cell]
) -> PointTimes:
    """The time of each column of a comparison, by name and cell, that has a price by formula: neither
    a cell without a price, nor one under a protocol, whose numbers are measured."""
    times = [
        ColumnTime(name, cell.total_s, cell.fitted_s)
        for name, cell in zip(names, columns, strict=True)
        if cell.total_s is not None and not cell.protocol
    ]
    return PointTimes(primitive, ranks, size, tuple(times))
