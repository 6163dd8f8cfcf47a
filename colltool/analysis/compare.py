"""``compare``: fabrics, or variants of one fabric, side by side: where one is faster, slower or the
same, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import exp, prod, sqrt
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from colltool.analysis import basis
from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import LAUNCH_SHARE, BasisDifference, PointTimes
from colltool.analysis.grid import (
    Cell,
    CellParts,
    FabricLoader,
    PriceRequest,
    cells,
    point_of,
    winner,
)
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.base.result import Result, followed, result
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import on_layers
from colltool.estimate.groups import PlacedGroup, as_read, library_of, place
from colltool.estimate.interval import error_model, ratio_sigma
from colltool.estimate.path_classes import tier_paths
from colltool.estimate.placement import GroupSpec, everybody
from colltool.estimate.spread import sigma_table
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.machines.used import Applied

POINTS = 200  # sizes between the smallest and the largest of the table
MOST_CELLS = 20_000
MOST_COLUMNS = 1000
SAME = 0.02  # relative difference below which times count as equal
NEAR = 1.25  # sizes within this factor share a sentence

# A relative difference below this is rounding.
ROUNDING = 1e-9

# Winners and their intervals: nobody sees here what would win without contention.
WITH_INTERVALS = CellParts(ideal=False)
SECONDS_ALONE = CellParts(ideal=False, interval=False)

Outcome = Literal["same", "slower", "faster", "unlike", "first", "other", "neither"]


class OutcomeRange(NamedTuple):
    """A size range with one outcome; ``ratio`` is the one farthest from 1.

    ``unlike``: only one of the two states a launch overhead. ``within``: how far the ratio may be
    off, if that is more than its distance from 1. ``why``: reasons for ``same``.
    """

    outcome: Outcome
    from_bytes: float
    to_bytes: float
    ratio: float
    within: float | None = None
    why: tuple[SameReason, ...] = ()


Reason = Literal["tier", "level", "share", "unpaid", "small"]


class SameReason(NamedTuple):
    """Why a value makes no difference.

    ``reason``: ``tier``, no two ranks meet on it; ``level``, one domain of the level ``below``
    holds all ``endpoints``; ``share``, too few messages cross it at once; ``unpaid``, the fastest
    ``algorithm`` does not pay it; ``small``, it moves the time by at most ``most``, a share.
    ``key`` is empty between different fabrics.
    """

    reason: Reason
    key: str = ""
    tier: str = ""
    level: str = ""
    below: str = ""
    endpoints: int = 0
    algorithm: str = ""
    most: float = 0.0


class CompareLine(NamedTuple):
    """The cells of all columns for a primitive, rank count and size.

    ``missing``: launch seconds that a column does not state but others do. ``sigmas``: of ln of
    each column's time over the first's, without what is the same for both; 0 where nothing is known
    of it.
    """

    primitive: Primitive
    ranks: int
    bytes: float
    cells: tuple[Cell, ...]
    missing: tuple[float, ...]
    sigmas: tuple[float, ...]

    def ratio(self, column: int) -> float | None:
        """A column's time over the first's; None if one is missing or they contain different terms
        that matter."""
        first, other = self.cells[0].total_s, self.cells[column].total_s
        if first is None or other is None:
            return None
        if launch_felt((first, other), (self.missing[0], self.missing[column])):
            return None
        if time_felt(self.cells[0], self.cells[column]):
            return None
        return other / first

    def ratio_interval(self, column: int) -> tuple[float, float] | None:
        """Where nine of ten measured ratios lie; None without a ratio, or where nothing is known of
        its error."""
        ratio = self.ratio(column)
        if ratio is None or self.cells[column].interval is None or column == 0:
            return None
        factor = 1 + self.ratio_error(column)
        return ratio / factor, ratio * factor

    def ratio_error(self, column: int) -> float:
        """How far nine of ten measured ratios are from ours at most, as a share."""
        return exp(sigma_table()["kappa"] * self.sigmas[column]) - 1

    def outcome(self, column: int) -> tuple[Outcome, bool]:
        """How a column does against the first, and whether the difference is within the ratio's own
        error; where not both have a price, which of the two can run it."""
        ratio = self.ratio(column)
        if ratio is not None:
            outcome = told(ratio)
            apart = max(ratio, 1 / ratio) - 1
            return outcome, outcome != "same" and apart <= self.ratio_error(column)
        first_runs = self.cells[0].total_s is not None
        other_runs = self.cells[column].total_s is not None
        if first_runs and other_runs:
            return "unlike", False
        if first_runs:
            return "first", False
        return "other" if other_runs else "neither", False

    def fastest(self) -> int | None:
        """The column with the least seconds, the first of equals."""
        priced = [
            (cell.total_s, at) for at, cell in enumerate(self.cells) if cell.total_s is not None
        ]
        return min(priced)[1] if priced else None

    def point(self, names: Sequence[str]) -> PointTimes:
        return point_of(self.primitive, self.ranks, self.bytes, names, self.cells)

    def is_bound(self, column: int) -> bool:
        """Whether a column's time is a lower bound: its launch is missing, and would be felt."""
        total = self.cells[column].total_s
        return total is not None and self.missing[column] > LAUNCH_SHARE * total


class OnePortWinner(NamedTuple):
    """A row where another column wins if each rank drives only one port."""

    primitive: Primitive
    ranks: int
    bytes: float
    column: str
    instead_of: str


class CompareColumn(NamedTuple):
    name: str
    fabric: str
    set: tuple[tuple[str, str], ...]
    load: FabricLoader


class ColumnDifference(NamedTuple):
    """How a column compares with the first for a primitive: size ranges that apply to all the rank
    counts."""

    column: str
    primitive: Primitive
    ranks: tuple[int, ...]
    runs: tuple[OutcomeRange, ...]

    @property
    def in_short(self) -> ColumnDifference:
        """Ranges without reasons, neighbours with one outcome joined: what is within the error is no
        difference."""
        parts = []
        for _, alike in groupby(self.runs, key=_outcome_beyond_error):
            parts.append(_joined(list(alike))._replace(why=()))
        return self._replace(runs=tuple(parts))


def _outcome_beyond_error(run: OutcomeRange) -> Outcome:
    return run.outcome if run.within is None else "same"


@result
class Comparison(Result):
    """Columns compared with the first one; ``libraries`` has one entry per column."""

    subject: ClassVar[str] = "compare"
    columns: tuple[CompareColumn, ...]
    lines: tuple[CompareLine, ...]
    findings: tuple[ColumnDifference, ...]
    ideal: bool
    ground: tuple[BasisDifference, ...] = ()
    readings: ModelOptions = USUAL
    turned: tuple[OnePortWinner, ...] = ()
    libraries: tuple[str, ...] = ()

    def not_run(self, column: int) -> tuple[CompareLine, ...]:
        """The lines for which a column's library runs none of the algorithms; empty for a column of
        any library."""
        if not self.libraries[column]:
            return ()
        return tuple(line for line in self.lines if not line.cells[column].selectable)


def compare(
    requests: Sequence[PriceRequest],
    columns: Sequence[CompareColumn],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
) -> Comparison:
    """Price every request, group and size (bytes as in nccl-tests) on every column.

    Raises:
        ColltoolError: more cells or columns than anybody reads, or nothing that can be priced.
    """
    _check_count(requests, columns, groups, sizes)
    fabrics = [column.load(()) for column in followed(columns)]
    groups = [_with_ranks(fabrics, group) for group in groups]
    names = [column.name for column in columns]
    primitives = {request.primitive for request in requests}
    readings, layers = basis.common_layers(names, fabrics, requests[0].readings, primitives)
    requests = [request._replace(readings=readings) for request in requests]
    tables = []
    for request in requests:
        tables.append(CompareTable(request, tuple(columns), fabrics, groups, sizes))
    lines = [line for table in tables for line in table.lines()]
    if all(cell.algorithm is None for line in lines for cell in line.cells):
        place(fabrics[0], groups[0])  # if the group fits nowhere, this error says what does
        raise ColltoolError(
            lines[0].cells[0].reason,
            fix="another number of ranks, another algorithm, or another fabric",
        )
    return Comparison(
        columns=tuple(map(partial(_with_machine, readings), columns, fabrics)),
        lines=tuple(lines),
        findings=tuple(finding for table in tables for finding in table.findings()),
        ideal=readings.ideal,
        ground=layers + _grounds(names, fabrics, requests, groups, lines),
        readings=readings,
        libraries=tuple(map(library_of, fabrics)),
        turned=tuple(row for table in tables for row in table.one_port_winners()),
    )


def _check_count(
    requests: Sequence[PriceRequest],
    columns: Sequence[CompareColumn],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
) -> None:
    if len(columns) > MOST_COLUMNS:
        raise ColltoolError(
            f"{len(columns)} columns, more than {MOST_COLUMNS}: each is a fabric of its own",
            argument="vary",
            fix="fewer values or fabrics; a sweep takes more",
        )
    count = prod(map(len, (requests, columns, groups, sizes)))
    if count > MOST_CELLS:
        raise basis.too_many(count, MOST_CELLS)


def _with_ranks(fabrics: Sequence[Fabric], group: GroupSpec) -> GroupSpec:
    """A group of all ranks of the smallest fabric, unless it has a number of its own.

    Raises:
        ColltoolError: that would cut domains of different sizes: the difference might lie in these.
    """
    if group.ranks is not None:
        return group
    smallest = min(fabrics, key=lambda fabric: fabric.ranks)
    counts = sorted({fabric.ranks for fabric in fabrics})
    if len(counts) > 1 and any(fabric.domains for fabric in fabrics):
        what = (
            f"the fabrics have {', '.join(map(str, counts))} ranks, and one number for all cuts"
            " domains of different sizes"
        )
        raise ColltoolError(
            what,
            argument="ranks",
            fix=f"give {argument_text('ranks', counts[0])}, or sweep: it takes all ranks of each",
        )
    return group._replace(ranks=everybody(smallest, group._replace(stride=1)))


def _with_machine(readings: ModelOptions, column: CompareColumn, fabric: Fabric) -> CompareColumn:
    return column._replace(set=Applied(column.set, as_read(fabric, readings).overrides.machine))


def _grounds(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    requests: Sequence[PriceRequest],
    groups: Sequence[GroupSpec],
    lines: Sequence[CompareLine],
) -> tuple[BasisDifference, ...]:
    """What the prices of the columns rest on, where they differ."""
    readings = requests[0].readings
    priced = [on_layers(fabric, readings) for fabric in fabrics]
    found: list[BasisDifference] = []
    for request in requests:
        found += basis.group_differences(
            names, priced, request.primitive, groups, ideal=readings.ideal
        )
    software = tuple(basis.software_differences([line.point(names) for line in lines]))
    return basis.joined(found) + software


class CompareTable:
    """One request on all columns, groups and sizes, and on many sizes in between."""

    def __init__(
        self,
        request: PriceRequest,
        columns: tuple[CompareColumn, ...],
        fabrics: Sequence[Fabric],
        groups: Sequence[GroupSpec],
        sizes: Sequence[float],
    ) -> None:
        self.request = request
        self.columns = columns
        self.fabrics = fabrics
        self.groups = groups
        self.sizes = sizes
        least, most = min(sizes), max(sizes)
        between = np.geomspace(least, most, POINTS).tolist() if most > least else [least]
        # One call prices the sizes of the table and those in between: a price of many sizes costs
        # little more than one.
        self._at_sizes = self._lines(request, [*sizes, *between], WITH_INTERVALS)

    def lines(self) -> list[CompareLine]:
        """A line for each group and size of the table."""
        found = []
        for lines in self._at_sizes:
            found += lines[: len(self.sizes)]
        return found

    def _lines(
        self, request: PriceRequest, sizes: Sequence[float], parts: CellParts
    ) -> list[list[CompareLine]]:
        """Lines by group, and in it by size."""
        axes = (
            SweepAxis("fabric", tuple(column.name for column in self.columns)),
            SweepAxis("ranks", tuple(group.ranks for group in self.groups)),
            SweepAxis("bytes", tuple(sizes)),
        )
        loads: list[FabricLoader] = [partial(_without_overrides, fabric) for fabric in self.fabrics]
        found = cells(request, axes, loads, self.groups, parts)
        priced = [on_layers(fabric, request.readings) for fabric in self.fabrics]
        a_column = len(self.groups) * len(sizes)
        lines = []
        for group_at, group in enumerate(self.groups):
            grounds = [
                basis.basis_or_none(fabric, request.primitive, group, ideal=request.readings.ideal)
                for fabric in priced
            ]
            missing = tuple(basis.launch_missing(grounds))
            ratios = RatioErrors(self, group) if parts.interval else None
            of_group = []
            for at, size in enumerate(sizes, start=group_at * len(sizes)):
                row = tuple(found[at::a_column])
                sigmas = (0.0,) * len(row) if ratios is None else ratios.sigmas(row)
                of_group.append(
                    CompareLine(
                        request.primitive, int(group.ranks or 0), size, row, missing, sigmas
                    )
                )
            lines.append(of_group)
        return lines

    def findings(self) -> Iterator[ColumnDifference]:
        """Each further column against the first, joining neighbouring rank counts with the same
        ranges."""
        for at, column in enumerate(self.columns[1:], start=1):
            alike: list[tuple[list[GroupSpec], list[tuple[OutcomeRange, ...]]]] = []
            for group, lines in zip(self.groups, self._at_sizes, strict=True):
                runs = ranges_of(lines[len(self.sizes) :], at)
                if alike and _same_runs(alike[-1][1][0], runs):
                    alike[-1][0].append(group)
                    alike[-1][1].append(runs)
                else:
                    alike.append(([group], [runs]))
            for groups, several in alike:
                merged = []
                for same in zip(*several, strict=True):
                    run = _joined(same)
                    merged.append(self._with_why(run, at, groups) if run.outcome == "same" else run)
                ranks = tuple(group.ranks or 0 for group in groups)
                yield ColumnDifference(column.name, self.request.primitive, ranks, tuple(merged))

    def _with_why(self, run: OutcomeRange, at: int, groups: Sequence[GroupSpec]) -> OutcomeRange:
        """A range of equal times with the reasons why the column's values do not move them."""
        first, other = dict(self.columns[0].set), dict(self.columns[at].set)
        keys = []
        if self.columns[0].fabric == self.columns[at].fabric:
            keys = [key for key in other if first.get(key) != other[key]]
        middle = sqrt(run.from_bytes * run.to_bytes)
        moved = abs(run.ratio - 1)
        # The same reason for several groups is told once, for the largest.
        found: dict[SameReason, SameReason] = {}
        for group in groups:
            for reason in _why_same(self.fabrics[at], self.request, group, middle, keys, moved):
                alike = reason._replace(endpoints=0)
                known = found.get(alike)
                if known is None or reason.endpoints > known.endpoints:
                    found[alike] = reason
        return run._replace(why=tuple(found.values()))

    def one_port_winners(self) -> Iterator[OnePortWinner]:
        """The rows with another fastest column under ``ports="one"``, by more than :data:`SAME`.

        Yields nothing if algorithms or ports were given.
        """
        request = self.request
        if request.only or request.readings.ports != "all":
            return
        one_port = request._replace(readings=request.readings._replace(ports="one"))
        names = [column.name for column in self.columns]
        by_group = self._lines(one_port, self.sizes, SECONDS_ALONE)
        lines = [line for of_group in by_group for line in of_group]
        yield from turned_winners(self.lines(), lines, names, SAME)


def turned_winners(
    all_ports: Iterable[CompareLine],
    one_port: Iterable[CompareLine],
    names: Sequence[str],
    least: float,
) -> Iterator[OnePortWinner]:
    """Rows whose fastest column differs between two readings, by a margin of more than ``least`` (a
    share) under the second."""
    for now, then in zip(all_ports, one_port, strict=True):
        here, there = now.fastest(), then.fastest()
        if here is None or there is None or here == there:
            continue
        before, after = then.cells[here].total_s, then.cells[there].total_s
        if before is None or after is None or before > after * (1 + least):
            yield OnePortWinner(now.primitive, now.ranks, now.bytes, names[there], names[here])


class RatioErrors:
    """How far off the ratios of a group's columns to the first are.

    The same device and medium err alike: only what differs between the two stays.
    """

    def __init__(self, table: CompareTable, group: GroupSpec) -> None:
        self._table = table
        self._group = group
        self._alike: dict[int, tuple[bool, bool]] = {}

    def sigmas(self, row: Sequence[Cell]) -> tuple[float, ...]:
        """Sigma of ln of each column's ratio; 0 for the first, and where nothing is known."""
        found = [0.0]
        first = row[0].interval
        for at, cell in enumerate(row[1:], start=1):
            if first is None or cell.interval is None:
                found.append(0.0)
                continue
            same_device, one_file = self._compared(at)
            alike = same_device or one_file
            found.append(ratio_sigma(first, cell.interval, alike=alike, one_file=one_file))
        return tuple(found)

    def _compared(self, at: int) -> tuple[bool, bool]:
        """Whether a column has the first one's device and place, and whether both are one file."""
        if at not in self._alike:
            table = self._table
            grounds = []
            for fabric in (table.fabrics[0], table.fabrics[at]):
                placed = place(fabric, self._group)
                request = table.request
                grounds.append(
                    error_model(fabric, request.primitive, placed, 1.0, request.readings)
                )
            first, other = grounds
            same_place = (first.device, first.request.place) == (other.device, other.request.place)
            one_file = table.columns[0].fabric == table.columns[at].fabric
            self._alike[at] = bool(first.device) and same_place, one_file
        return self._alike[at]


def _without_overrides(fabric: Fabric, _: Sequence[str]) -> Fabric:
    return fabric


def _same_runs(some: Sequence[OutcomeRange], others: Sequence[OutcomeRange]) -> bool:
    """Whether two lists of ranges have the same outcomes, at nearly the same sizes."""
    if len(some) != len(others):
        return False
    for run, other in zip(some, others, strict=True):
        if (run.outcome, run.within is None) != (other.outcome, other.within is None):
            return False
        ends = run.to_bytes, other.to_bytes
        if max(ends) > NEAR * min(ends):
            return False
    return True


def _farthest(ratios: Sequence[float]) -> float:
    """The ratio farthest from 1 in either direction."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def _joined(same: Sequence[OutcomeRange]) -> OutcomeRange:
    """Ranges of one outcome as one: the widest sizes, the farthest ratio."""
    return OutcomeRange(
        same[0].outcome,
        min(run.from_bytes for run in same),
        max(run.to_bytes for run in same),
        _farthest([run.ratio for run in same]),
        max((run.within for run in same if run.within is not None), default=None),
    )


def _why_same(
    fabric: Fabric,
    request: PriceRequest,
    group: GroupSpec,
    size: float,
    keys: Sequence[str],
    most: float,
) -> Iterator[SameReason]:
    """Why the values of ``keys`` (empty between two files) make no difference; ``most``: the
    largest relative difference seen."""
    algorithm = winner(fabric, request, group, size).title
    if most > ROUNDING or not keys:
        reason: Reason = "small" if most > ROUNDING else "unpaid"
        yield SameReason(reason, " and ".join(keys), algorithm=algorithm, most=most)
        return
    placed = place(fabric, group)
    for key in keys:
        yield _why_key(fabric, placed, request.readings, key)._replace(algorithm=algorithm)


def _why_key(fabric: Fabric, placed: PlacedGroup, readings: ModelOptions, key: str) -> SameReason:
    """Why a key such as ``ib.levels.spine.oversubscription`` makes no difference to a group."""
    tier_name, *path = key.removeprefix("tiers.").split(".")
    tiers = [tier for at, tier in enumerate(fabric.tiers) if tier_name in (tier.name, str(at))]
    if not tiers:
        return SameReason("unpaid", key)
    tier = tiers[0]
    spans = [span for span in placed.spans if span.tier.name == tier.name]
    if not spans:
        return SameReason("tier", key, tier.name)
    span = spans[0]
    if path[:1] != ["levels"] or len(path) < 2:
        return SameReason("unpaid", key, tier.name)
    names = [level.name for level in capabilities_of(span.tier).levels]
    at = names.index(path[1]) if path[1] in names else int(path[1])
    reason = SameReason("unpaid", key, tier.name, names[at])
    met = [level.name for level in tier_paths(span.position, readings).used]
    if names[at] not in met and at:
        return reason._replace(reason="level", below=names[at - 1], endpoints=span.endpoints)
    if path[-1] in ("oversubscription", "uplinks"):
        return reason._replace(reason="share")
    return reason


def ranges_of(lines: Sequence[CompareLine], column: int) -> tuple[OutcomeRange, ...]:
    """Sizes with one outcome; what is no larger than the ratio's own error is ``within`` it."""
    runs = []
    for (outcome, near), alike in groupby(lines, key=lambda line: line.outcome(column)):
        several = list(alike)
        ratios = []
        for line in several:
            ratio = line.ratio(column)
            if ratio is not None:
                ratios.append(ratio)
        runs.append(
            OutcomeRange(
                outcome,
                several[0].bytes,
                several[-1].bytes,
                _farthest(ratios or [1.0]),
                max(line.ratio_error(column) for line in several) if near else None,
            )
        )
    return tuple(runs)


def launch_felt(seconds: tuple[float, float], missing: tuple[float, float]) -> bool:
    """Whether a launch missing from one of two times exceeds :data:`LAUNCH_SHARE` of it or would
    change the outcome."""
    if missing[0] == missing[1]:
        return False
    share = max(lacking / total for lacking, total in zip(missing, seconds, strict=True))
    filled = (seconds[1] + missing[1]) / (seconds[0] + missing[0])
    return share > LAUNCH_SHARE or told(filled) != told(seconds[1] / seconds[0])


def time_felt(first: Cell, other: Cell) -> bool:
    """Whether software time that only one side has is a tenth of the shorter time or more, and
    would change the outcome."""
    totals = first.total_s or 0.0, other.total_s or 0.0
    missing = _missing_software(first, other), _missing_software(other, first)
    filled = (totals[1] + missing[1]) / (totals[0] + missing[0])
    if max(missing) < LAUNCH_SHARE * min(totals):
        return False
    return told(filled) != told(totals[1] / totals[0])


def _missing_software(cell: Cell, other: Cell) -> float:
    """Software seconds that the other cell has and this one does not know of; protocols include
    theirs."""
    if cell.fitted_s is None and not cell.protocol:
        return other.fitted_s or 0.0
    return 0.0


def told(ratio: float) -> Literal["same", "slower", "faster"]:
    """The outcome that a ratio of times is called."""
    if abs(ratio - 1) <= SAME:
        return "same"
    return "slower" if ratio > 1 else "faster"
