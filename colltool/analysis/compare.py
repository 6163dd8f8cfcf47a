"""``compare``: fabrics, or variants of one fabric, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from math import prod, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import (
    BasisDifference,
    PriceBasis,
    basis_or_none,
    group_differences,
    joined,
    launch_missing,
    model_error,
    software_differences,
)
from colltool.analysis.grid import FabricLoader, PriceRequest, cells, too_many
from colltool.analysis.outcomes import (
    SAME,
    CompareLine,
    OnePortWinner,
    OutcomeRange,
    SameReason,
    alike,
    farthest,
    merged,
    one_port_winners,
    ranges_of,
    why_same,
)
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.result import Result, followed
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.groups import library_of, place
from colltool.estimate.placement import GroupSpec, everybody, tiers_spanned
from colltool.fabric.model import Fabric

POINTS = 200  # sizes between the smallest and largest asked for
MOST_CELLS = 20_000
MOST_COLUMNS = 1000


class CompareColumn(NamedTuple):
    name: str
    fabric: str
    set: tuple[tuple[str, str], ...]
    load: FabricLoader


class ColumnDifference(NamedTuple):
    """How a column compares with the first for a primitive: size ranges that apply to all the rank counts."""

    column: str
    primitive: Primitive
    ranks: tuple[int, ...]
    runs: tuple[OutcomeRange, ...]

    @property
    def in_short(self) -> ColumnDifference:
        """Ignores the model's error, joining neighbouring ranges of the same outcome."""
        parts = [list(run) for _, run in groupby(self.runs, key=lambda run: run.outcome)]
        joined = (OutcomeRange(part[0].outcome, part[0].from_bytes, part[-1].to_bytes, farthest([run.ratio for run in part]))
                  for part in parts)  # fmt: skip
        return self._replace(runs=tuple(joined))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Columns compared with the first one; ``libraries`` has one entry per column."""

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
        """The lines for which a column's library runs none of the algorithms; empty for a column of any library."""
        return tuple(line for line in self.lines if self.libraries[column] and not line.cells[column].selectable)


def compare(
    asked: Sequence[PriceRequest], columns: Sequence[CompareColumn], groups: Sequence[GroupSpec], sizes: Sequence[float]
) -> Comparison:
    """Price every request, group and size (bytes as in nccl-tests) on every column.

    Raises:
        ColltoolError: too many cells, or nothing can be priced.
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
        place(fabrics[0], who[0])  # if the group fits nowhere, this error says what does
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
        """Per group, the basis of each column; None where the group does not fit."""
        primitive, ideal = self.asked.primitive, self.asked.readings.ideal
        return [[basis_or_none(fabric, primitive, group, ideal=ideal) for fabric in self.fabrics] for group in self.groups]

    def uneven(self) -> tuple[BasisDifference, ...]:
        names, ideal = [column.name for column in self.columns], self.asked.readings.ideal
        return group_differences(names, self.fabrics, self.asked.primitive, self.groups, ideal=ideal)

    def lines(self, sizes: Sequence[float]) -> Iterator[CompareLine]:
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
        return one_port_winners(
            self.asked, lambda asked: replace(self, asked=asked).lines(sizes), [one.name for one in self.columns], SAME
        )

    def findings(self, sizes: Sequence[float]) -> Iterator[ColumnDifference]:
        """Each further column against the first, joining rank counts with the same ranges."""
        lines = list(self.lines(sizes))
        for at, column in enumerate(self.columns[1:], start=1):
            one_file = column.fabric == self.columns[0].fabric
            each = [(group.ranks or 0, ranges_of([line for line in lines if line.ranks == group.ranks], at, one_file=one_file))
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
    return model_error(size, measured=ground.protocols, several_tiers=tiers_spanned(ground.group) > 1)
