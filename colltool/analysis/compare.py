"""``compare``: fabrics, or one fabric under several values, side by side; and what follows from it in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from math import prod, sqrt
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import (
    LAUNCH_SHARE,
    BasisDifference,
    PointTimes,
    PriceBasis,
    basis_or_none,
    group_differences,
    joined,
    launch_missing,
    model_error,
    software_differences,
)
from colltool.analysis.grid import Cell, FabricLoader, PriceRequest, cells, point_of, too_many
from colltool.analysis.outcomes import (
    OnePortWinner,
    Outcome,
    OutcomeRange,
    SameReason,
    alike,
    farthest,
    merged,
    one_port_winners,
    why_same,
)
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.progress import followed
from colltool.base.result import Result
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.group_spec import GroupSpec
from colltool.estimate.groups import place
from colltool.estimate.library_selection import library_of
from colltool.estimate.placement import everybody
from colltool.fabric.model import Fabric

SAME = 0.02  # a smaller difference is none: prices are not known better
POINTS = 200  # of the sizes between those that are asked for
MOST_CELLS = 20_000
MOST_COLUMNS = 1000


class CompareColumn(NamedTuple):
    """One column: what it is called, its fabric, what is other about it, and how it is loaded."""

    name: str
    fabric: str
    set: tuple[tuple[str, str], ...]
    load: FabricLoader


class CompareLine(NamedTuple):
    """One row: the cells of all columns at a primitive, a number of ranks and a size.

    ``missing``: of each column the launch, seconds, that its time leaves out and others have. ``errors``: what the model may be
    off by on each, as a share.
    """

    primitive: Primitive
    ranks: int
    bytes: float
    cells: tuple[Cell, ...]
    missing: tuple[float, ...]
    errors: tuple[float, ...]

    def ratio(self, column: int) -> float | None:
        """A column's time over the first one's; None where either has none, or a launch that one leaves out would be felt."""
        first, other = self.cells[0].total_s, self.cells[column].total_s
        if first is None or other is None or launch_felt((first, other), (self.missing[0], self.missing[column])):
            return None
        if time_felt(self.cells[0], self.cells[column]):
            return None
        return other / first

    def point(self, names: Sequence[str]) -> PointTimes:
        """What each column takes."""
        return point_of(self.primitive, self.ranks, self.bytes, names, self.cells)

    def is_bound(self, column: int) -> bool:
        """Whether a column's time leaves out a launch that would be a tenth of it or more."""
        total = self.cells[column].total_s
        return total is not None and self.missing[column] > LAUNCH_SHARE * total


class ColumnDifference(NamedTuple):
    """What a column does to a primitive on some numbers of ranks: runs of sizes, that are alike for all of them."""

    column: str
    primitive: Primitive
    ranks: tuple[int, ...]
    runs: tuple[OutcomeRange, ...]

    @property
    def in_short(self) -> ColumnDifference:
        """The same without the model's error, which cuts runs of one outcome in parts."""
        parts = [list(run) for _, run in groupby(self.runs, key=lambda run: run.outcome)]
        joined = (OutcomeRange(part[0].outcome, part[0].from_bytes, part[-1].to_bytes, farthest([run.ratio for run in part]))
                  for part in parts)  # fmt: skip
        return self._replace(runs=tuple(joined))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Columns beside each other, the first of them what the others are held against; ``libraries``: of each column."""

    subject: ClassVar[str] = "compare"
    columns: tuple[CompareColumn, ...]
    lines: tuple[CompareLine, ...]
    findings: tuple[ColumnDifference, ...]
    ideal: bool
    ground: tuple[BasisDifference, ...] = ()
    readings: Readings = USUAL
    turned: tuple[OnePortWinner, ...] = ()
    libraries: tuple[str, ...] = ()

    def not_run(self, column: int) -> tuple[CompareLine, ...]:
        """The lines in which a column's library runs none of what is priced; of a column for any library none."""
        return tuple(line for line in self.lines if self.libraries[column] and not line.cells[column].selectable)


def compare(
    asked: Sequence[PriceRequest], columns: Sequence[CompareColumn], groups: Sequence[GroupSpec], sizes: Sequence[float]
) -> Comparison:
    """Prices side by side.

    Args:
        asked: what is priced, one for each primitive.
        columns: at least two.
        groups: who takes part.
        sizes: bytes by nccl-tests' convention.

    Raises:
        ColltoolError: too many cells, a fabric or an algorithm that cannot be used.
    """
    if len(columns) > MOST_COLUMNS:
        what = f"{len(columns)} columns, more than {MOST_COLUMNS}: each is a fabric of its own"
        raise ColltoolError(what, argument="vary", fix="fewer values or fabrics; a sweep takes more")
    count = prod(map(len, (asked, columns, groups, sizes)))
    if count > MOST_CELLS:
        raise too_many(count, MOST_CELLS)
    fabrics = [column.load(()) for column in followed(columns)]
    smallest = min(fabrics, key=lambda fabric: fabric.ranks)
    who = [one if one.ranks is not None else one._replace(ranks=everybody(smallest, one._replace(stride=1))) for one in groups]
    tables = [_Compared(one, tuple(columns), fabrics, who) for one in asked]
    lines = [line for one in tables for line in one.lines(sizes)]
    if all(cell.algorithm is None for line in lines for cell in line.cells):
        place(fabrics[0], who[0])  # where the group fits nowhere, its error says what does
        raise ColltoolError(lines[0].cells[0].reason, fix="another number of ranks, another algorithm, or another fabric")
    least, most = min(sizes), max(sizes)
    fine = [float(size) for size in np.geomspace(least, most, POINTS)] if most > least else [least]
    found = tuple(finding for one in tables for finding in one.findings(fine))
    ground = joined([one for table in tables for one in table.uneven()])
    ground += software_differences([line.point([one.name for one in columns]) for line in lines])
    return Comparison(columns=tuple(columns), lines=tuple(lines), findings=found, ideal=asked[0].readings.ideal, ground=ground,
                      readings=asked[0].readings, libraries=tuple(map(library_of, fabrics)),
                      turned=tuple(row for one in tables for row in one.one_port_winners(sizes)))  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Compared:
    asked: PriceRequest
    columns: tuple[CompareColumn, ...]
    fabrics: Sequence[Fabric]
    groups: Sequence[GroupSpec]

    @cached_property
    def grounds(self) -> list[list[PriceBasis | None]]:
        """For each group what each column rests on; None where the group does not fit."""
        primitive, ideal = self.asked.primitive, self.asked.readings.ideal
        return [[basis_or_none(fabric, primitive, group, ideal=ideal) for fabric in self.fabrics] for group in self.groups]

    def uneven(self) -> tuple[BasisDifference, ...]:
        """What is not the same everywhere, for each group."""
        names, ideal = [column.name for column in self.columns], self.asked.readings.ideal
        return group_differences(names, self.fabrics, self.asked.primitive, self.groups, ideal=ideal)

    def lines(self, sizes: Sequence[float]) -> Iterator[CompareLine]:
        """One for each group and size."""
        axes = (SweepAxis("fabric", tuple(one.name for one in self.columns)),
                SweepAxis("ranks", tuple(group.ranks for group in self.groups)), SweepAxis("bytes", tuple(sizes)))  # fmt: skip
        found = cells(self.asked, axes, [partial(_as_it_is, fabric) for fabric in self.fabrics], self.groups)
        a_column = len(self.groups) * len(sizes)
        for row in range(a_column):
            number, size = row // len(sizes), sizes[row % len(sizes)]
            mine = tuple(found[row + a_column * at] for at in range(len(self.columns)))
            grounds = self.grounds[number]
            missing = launch_missing(grounds)
            errors = tuple(_error(one, size) for one in grounds)
            yield CompareLine(self.asked.primitive, int(self.groups[number].ranks or 0), size, mine, missing, errors)

    def one_port_winners(self, sizes: Sequence[float]) -> Iterator[OnePortWinner]:
        """Where the fastest column is another one on one port."""
        return one_port_winners(
            self.asked, lambda asked: replace(self, asked=asked).lines(sizes), [one.name for one in self.columns], SAME
        )

    def findings(self, sizes: Sequence[float]) -> Iterator[ColumnDifference]:
        """Of every column but the first, numbers of ranks that meet the same joined."""
        lines = list(self.lines(sizes))
        for at, column in enumerate(self.columns[1:], start=1):
            one_file = column.fabric == self.columns[0].fabric
            each = [(group.ranks or 0, _runs([line for line in lines if line.ranks == group.ranks], at, one_file=one_file))
                    for group in self.groups]  # fmt: skip
            for same in alike(each):
                ranks = tuple(ranks for ranks, _ in same)
                runs = tuple(self._with_why(run, at, ranks) for run in merged([runs for _, runs in same]))
                yield ColumnDifference(column.name, self.asked.primitive, ranks, runs)

    def _with_why(self, run: OutcomeRange, at: int, ranks: Sequence[int]) -> OutcomeRange:
        if run.outcome != "same":
            return run
        first, other = dict(self.columns[0].set), dict(self.columns[at].set)
        keys = [key for key in other if first.get(key) != other[key]] if self.columns[0].fabric == self.columns[at].fabric else []
        middle = sqrt(run.from_bytes * run.to_bytes)
        groups = [group for group in self.groups if group.ranks in ranks]
        reasons = (why_same(self.fabrics[at], self.asked, group, middle, keys, abs(run.ratio - 1)) for group in groups)
        found: dict[SameReason, SameReason] = {}
        for one in (one for several in reasons for one in several):
            alike = one._replace(endpoints=0)
            found[alike] = max(one, found.get(alike, one), key=lambda why: why.endpoints)
        return run._replace(why=tuple(found.values()))


def _as_it_is(fabric: Fabric, _: Sequence[str]) -> Fabric:
    return fabric


def _error(ground: PriceBasis | None, size: float) -> float:
    if ground is None:
        return 0.0
    return model_error(size, measured=ground.protocols, several_tiers=sum(count > 1 for count in ground.group) > 1)


def _runs(lines: Sequence[CompareLine], column: int, *, one_file: bool) -> tuple[OutcomeRange, ...]:
    runs = []
    for (outcome, near), run in groupby(lines, key=lambda line: _judged(line, column, one_file=one_file)):
        several = list(run)
        ratios = [ratio for line in several if (ratio := line.ratio(column)) is not None] or [1.0]
        error = max(max(line.errors[0], line.errors[column]) for line in several)
        runs.append(OutcomeRange(outcome, several[0].bytes, several[-1].bytes, farthest(ratios), error if near else None))
    return tuple(runs)


def _judged(line: CompareLine, column: int, *, one_file: bool) -> tuple[Outcome, bool]:
    """How a column compares, and whether the model may be off by as much.

    Values of one file share the model and nearly all numbers, so that its error is in both times; that of two files is not.
    """
    outcome, ratio = _outcome(line, column), line.ratio(column)
    if ratio is None or one_file or outcome == "same":
        return outcome, False
    return outcome, max(ratio, 1 / ratio) - 1 <= max(line.errors[0], line.errors[column])


def _outcome(line: CompareLine, column: int) -> Outcome:
    """How a column compares; ``first``, ``other``, ``neither``: which of the two can run it at all."""
    ratio, runs = line.ratio(column), [line.cells[at].total_s is not None for at in (0, column)]
    if ratio is None:
        return "unlike" if all(runs) else "first" if runs[0] else "other" if runs[1] else "neither"
    return told(ratio)


def launch_felt(seconds: tuple[float, float], missing: tuple[float, float]) -> bool:
    """Whether a launch that one of two times leaves out is a tenth of it, or would turn which is faster."""
    if missing[0] == missing[1]:
        return False
    share = max(lacking / total for lacking, total in zip(missing, seconds, strict=True))
    filled = (seconds[1] + missing[1]) / (seconds[0] + missing[0])
    return share > LAUNCH_SHARE or told(filled) != told(seconds[1] / seconds[0])


def time_felt(first: Cell, other: Cell) -> bool:
    """Whether measured time beside the bytes, in one of two times alone, is a tenth of either and would turn which is faster."""
    totals = first.total_s or 0.0, other.total_s or 0.0
    lacks = [one.fitted_s is None and not one.protocol for one in (first, other)]
    missing = [(two.fitted_s or 0.0) if lacking else 0.0 for lacking, two in zip(lacks, (other, first), strict=True)]
    filled = (totals[1] + missing[1]) / (totals[0] + missing[0])
    return max(missing) >= LAUNCH_SHARE * min(totals) and told(filled) != told(totals[1] / totals[0])


def told(ratio: float) -> Literal["same", "slower", "faster"]:
    """What a ratio is called."""
    return "same" if abs(ratio - 1) <= SAME else "slower" if ratio > 1 else "faster"
