"""``compare``: fabrics, or variants of one fabric, side by side: where one is faster, slower or the
same, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, repeat
from math import exp, prod, sqrt
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from colltool.analysis import basis
from colltool.analysis.basis import LAUNCH_SHARE, BasisDifference, PointTimes
from colltool.analysis.grid import (
    Cell,
    FabricLoader,
    PriceRequest,
    SweepAxis,
    cells,
    point_of,
    winner,
)
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive
from colltool.base.result import Result, followed
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.candidates import on_layers
from colltool.estimate.groups import as_read, library_of, place
from colltool.estimate.interval import ground_of, ratio_sigma
from colltool.estimate.path_classes import tier_paths
from colltool.estimate.placement import GroupSpec, everybody
from colltool.estimate.spread import law
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.machines.used import Applied

POINTS = 200  # sizes between the smallest and largest asked for
MOST_CELLS = 20_000
MOST_COLUMNS = 1000
SAME = 0.02  # relative difference below which times count as equal
NEAR = 1.25  # sizes within this factor share a sentence

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
        if (
            first is None
            or other is None
            or launch_felt((first, other), (self.missing[0], self.missing[column]))
        ):
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
        return exp(law()["kappa"] * self.sigmas[column]) - 1

    def point(self, names: Sequence[str]) -> PointTimes:
        return point_of(self.primitive, self.ranks, self.bytes, names, self.cells)

    def is_bound(self, column: int) -> bool:
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


def _with_machine(column: CompareColumn, fabric: Fabric, readings: Readings) -> CompareColumn:
    return column._replace(set=Applied(column.set, as_read(fabric, readings).overrides.machine))


class ColumnDifference(NamedTuple):
    """How a column compares with the first for a primitive: size ranges that apply to all the rank
    counts."""

    column: str
    primitive: Primitive
    ranks: tuple[int, ...]
    runs: tuple[OutcomeRange, ...]

    @property
    def in_short(self) -> ColumnDifference:
        """Without reasons, joining neighbouring ranges that are told alike: what is within the
        error is no difference."""
        parts = [
            list(run)
            for _, run in groupby(
                self.runs, key=lambda run: run.outcome if run.within is None else "same"
            )
        ]
        return self._replace(runs=tuple(_spanned(part)._replace(why=()) for part in parts))


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
        """The lines for which a column's library runs none of the algorithms; empty for a column of
        any library."""
        return tuple(
            line
            for line in self.lines
            if self.libraries[column] and not line.cells[column].selectable
        )


def compare(
    asked: Sequence[PriceRequest],
    columns: Sequence[CompareColumn],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
) -> Comparison:
    """Price every request, group and size (bytes as in nccl-tests) on every column."""
    if len(columns) > MOST_COLUMNS:
        what = f"{len(columns)} columns, more than {MOST_COLUMNS}: each is a fabric of its own"
        raise ColltoolError(
            what, argument="vary", fix="fewer values or fabrics; a sweep takes more"
        )
    count = prod(map(len, (asked, columns, groups, sizes)))
    if count > MOST_CELLS:
        raise basis.too_many(count, MOST_CELLS)
    fabrics = [column.load(()) for column in followed(columns)]
    who = [
        (
            one
            if one.ranks is not None
            else one._replace(ranks=_on_all(fabrics, one._replace(stride=1)))
        )
        for one in groups
    ]
    names = [column.name for column in columns]
    readings, layers = basis.common_layers(
        names, fabrics, asked[0].readings, {one.primitive for one in asked}
    )
    asked = [one._replace(readings=readings) for one in asked]
    tables = [_Compared(one, tuple(columns), fabrics, who) for one in asked]
    lines = [line for table in tables for line in table.lines(table.asked, sizes)]
    if all(cell.algorithm is None for line in lines for cell in line.cells):
        place(fabrics[0], who[0])  # if the group fits nowhere, this error says what does
        raise ColltoolError(
            lines[0].cells[0].reason,
            fix="another number of ranks, another algorithm, or another fabric",
        )
    least, most, ideal = min(sizes), max(sizes), asked[0].readings.ideal
    fine = [float(size) for size in np.geomspace(least, most, POINTS)] if most > least else [least]
    found = tuple(finding for one in tables for finding in one.findings(fine))
    priced = [on_layers(fabric, readings) for fabric in fabrics]
    uneven = (
        basis.group_differences(names, priced, one.primitive, who, ideal=one.readings.ideal)
        for one in asked
    )
    times = basis.software_differences([line.point(names) for line in lines])
    ground = layers + basis.joined([*chain.from_iterable(uneven)]) + times
    turned = (
        row
        for one in tables
        for row in one_port_winners(one.asked, partial(one.lines, sizes=sizes), names, SAME)
    )
    return Comparison(
        columns=tuple(map(_with_machine, columns, fabrics, repeat(asked[0].readings))),
        lines=tuple(lines),
        findings=found,
        ideal=ideal,
        ground=ground,
        readings=asked[0].readings,
        libraries=tuple(map(library_of, fabrics)),
        turned=tuple(turned),
    )


def _on_all(fabrics: Sequence[Fabric], who: GroupSpec) -> int:
    """All ranks of the smallest. ColltoolError where that cuts domains of different sizes: the
    difference might lie in these."""
    smallest, counts = (
        min(fabrics, key=lambda fabric: fabric.ranks),
        sorted({fabric.ranks for fabric in fabrics}),
    )
    if len(counts) > 1 and any(fabric.domains for fabric in fabrics):
        what = (
            f"the fabrics have {', '.join(map(str, counts))} ranks, and one number for all cuts"
            " domains of different sizes"
        )
        raise ColltoolError(
            what,
            argument="ranks",
            fix=f"give {given('ranks', counts[0])}, or sweep: it takes all ranks of each",
        )
    return everybody(smallest, who)


class _Compared(NamedTuple):
    asked: PriceRequest
    columns: tuple[CompareColumn, ...]
    fabrics: Sequence[Fabric]
    groups: Sequence[GroupSpec]

    def lines(self, asked: PriceRequest, sizes: Sequence[float]) -> Iterator[CompareLine]:
        axes = (
            SweepAxis("fabric", tuple(one.name for one in self.columns)),
            SweepAxis("ranks", tuple(group.ranks for group in self.groups)),
            SweepAxis("bytes", tuple(sizes)),
        )
        found = cells(asked, axes, [partial(_as_it_is, one) for one in self.fabrics], self.groups)
        a_column = len(self.groups) * len(sizes)
        for row in range(a_column):
            group, size = self.groups[row // len(sizes)], sizes[row % len(sizes)]
            if row % len(sizes) == 0:
                priced = [on_layers(fabric, asked.readings) for fabric in self.fabrics]
                grounds = [
                    basis.basis_or_none(one, asked.primitive, group, ideal=asked.readings.ideal)
                    for one in priced
                ]
            mine = tuple(found[row + a_column * at] for at in range(len(self.columns)))
            sigmas = tuple(self._ratio_sigma(asked, group, mine, at) for at in range(len(mine)))
            yield CompareLine(
                asked.primitive,
                int(group.ranks or 0),
                size,
                mine,
                basis.launch_missing(grounds),
                sigmas,
            )

    def _ratio_sigma(
        self, asked: PriceRequest, group: GroupSpec, cells: Sequence[Cell], at: int
    ) -> float:
        """The same device and medium err alike: only what differs between the two stays."""
        first, other = cells[0].interval, cells[at].interval
        if first is None or other is None or at == 0:
            return 0.0
        one, two = (
            ground_of(fabric, asked.primitive, place(fabric, group), 1.0, asked.readings)
            for fabric in (self.fabrics[0], self.fabrics[at])
        )
        same_device = one.device and (one.device, one.asked.place) == (two.device, two.asked.place)
        one_file = self.columns[0].fabric == self.columns[at].fabric
        return ratio_sigma(first, other, alike=bool(same_device) or one_file, one_file=one_file)

    def findings(self, sizes: Sequence[float]) -> Iterator[ColumnDifference]:
        """Each further column against the first, joining neighbouring rank counts with the same
        ranges."""
        lines = list(self.lines(self.asked, sizes))
        for at, column in enumerate(self.columns[1:], start=1):
            alike: list[list[tuple[GroupSpec, tuple[OutcomeRange, ...]]]] = []
            for group in self.groups:
                one = group, ranges_of([line for line in lines if line.ranks == group.ranks], at)
                if alike and _same_runs(alike[-1][0][1], one[1]):
                    alike[-1].append(one)
                else:
                    alike.append([one])
            for same in alike:
                groups = [group for group, _ in same]
                merged = (
                    _spanned(several) for several in zip(*(runs for _, runs in same), strict=True)
                )
                runs = tuple(
                    run if run.outcome != "same" else self._with_why(run, at, groups)
                    for run in merged
                )
                yield ColumnDifference(
                    column.name,
                    self.asked.primitive,
                    tuple(group.ranks or 0 for group in groups),
                    runs,
                )

    def _with_why(self, run: OutcomeRange, at: int, groups: Sequence[GroupSpec]) -> OutcomeRange:
        first, other = dict(self.columns[0].set), dict(self.columns[at].set)
        keys = (
            [key for key in other if first.get(key) != other[key]]
            if self.columns[0].fabric == self.columns[at].fabric
            else []
        )
        middle = sqrt(run.from_bytes * run.to_bytes)
        found: dict[SameReason, SameReason] = {}
        for group in groups:
            for one in _why_same(
                self.fabrics[at], self.asked, group, middle, keys, abs(run.ratio - 1)
            ):
                alike = one._replace(endpoints=0)
                found[alike] = max(one, found.get(alike, one), key=lambda why: why.endpoints)
        return run._replace(why=tuple(found.values()))


def _as_it_is(fabric: Fabric, _: Sequence[str]) -> Fabric:
    return fabric


def _same_runs(some: Sequence[OutcomeRange], others: Sequence[OutcomeRange]) -> bool:
    if [(run.outcome, run.within is None) for run in some] != [
        (run.outcome, run.within is None) for run in others
    ]:
        return False
    edges = ((one.to_bytes, other.to_bytes) for one, other in zip(some, others, strict=True))
    return all(max(pair) <= NEAR * min(pair) for pair in edges)


def _farthest(ratios: Sequence[float]) -> float:
    """The ratio farthest from 1 in either direction."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def _spanned(same: Sequence[OutcomeRange]) -> OutcomeRange:
    """Ranges of one outcome joined: the widest sizes, the farthest ratio."""
    within = max((run.within for run in same if run.within is not None), default=None)
    least, most = min(run.from_bytes for run in same), max(run.to_bytes for run in same)
    return OutcomeRange(
        same[0].outcome, least, most, _farthest([run.ratio for run in same]), within
    )


def _why_same(
    fabric: Fabric,
    asked: PriceRequest,
    group: GroupSpec,
    size: float,
    keys: Sequence[str],
    most: float,
) -> Iterator[SameReason]:
    """Why the values of ``keys`` (empty between two files) make no difference; ``most``: the
    largest relative difference seen."""
    algorithm = winner(fabric, asked, group, size).title
    if most > 1e-9 or not keys:
        yield SameReason(
            "small" if most > 1e-9 else "unpaid", " and ".join(keys), algorithm=algorithm, most=most
        )
        return
    placed = place(fabric, group)
    for key in keys:
        parts = key.removeprefix("tiers.").split(".")
        tier = next(
            (one for at, one in enumerate(fabric.tiers) if parts[0] in (one.name, str(at))), None
        )
        span = next(
            (one for one in placed.spans if tier is not None and one.tier.name == tier.name), None
        )
        where = SameReason("unpaid", key, tier.name if tier else "", algorithm=algorithm)
        if tier is not None and span is None:
            where = where._replace(reason="tier")
        if span is not None and parts[1:2] == ["levels"] and len(parts) > 2:
            names = [level.name for level in capabilities_of(span.tier).levels]
            at = names.index(parts[2]) if parts[2] in names else int(parts[2])
            met = [level.name for level in tier_paths(span.seat, asked.readings).used]
            where = where._replace(level=names[at])
            if names[at] not in met and at:
                where = where._replace(
                    reason="level", below=names[at - 1], endpoints=span.endpoints
                )
            elif parts[-1] in ("oversubscription", "uplinks"):
                where = where._replace(reason="share")
        yield where


def one_port_winners(
    asked: PriceRequest,
    rows: Callable[[PriceRequest], Iterable[CompareLine]],
    columns: Sequence[str],
    least: float,
) -> Iterator[OnePortWinner]:
    """The rows with another fastest column under ``ports="one"``, by a margin of more than
    ``least`` (a share).

    Yields nothing if algorithms or ports were given.
    """
    if asked.only or asked.readings.ports != "all":
        return
    one_port = asked._replace(readings=asked.readings._replace(ports="one"))

    def fastest(cells: Sequence[Cell]) -> int | None:
        priced = [(one.total_s, at) for at, one in enumerate(cells) if one.total_s is not None]
        return min(priced)[1] if priced else None

    for now, then in zip(rows(asked), rows(one_port), strict=True):
        here, there = fastest(now.cells), fastest(then.cells)
        if here is None or there is None or here == there:
            continue
        before, after = then.cells[here].total_s, then.cells[there].total_s
        if before is None or after is None or before > after * (1 + least):
            yield OnePortWinner(now.primitive, now.ranks, now.bytes, columns[there], columns[here])


def ranges_of(lines: Sequence[CompareLine], column: int) -> tuple[OutcomeRange, ...]:
    """Sizes with one outcome; what is no larger than the ratio's own error is ``within`` it."""

    def judged(line: CompareLine) -> tuple[Outcome, bool]:
        """The outcome, and whether it is within the error; where not both have a price, which of
        the two can run it."""
        ratio, runs = line.ratio(column), [line.cells[at].total_s is not None for at in (0, column)]
        if ratio is None:
            return (
                "unlike" if all(runs) else "first" if runs[0] else "other" if runs[1] else "neither"
            ), False
        return told(ratio), told(ratio) != "same" and max(ratio, 1 / ratio) - 1 <= line.ratio_error(
            column
        )

    runs = []
    for (outcome, near), run in groupby(lines, key=judged):
        several = list(run)
        ratios = [ratio for line in several if (ratio := line.ratio(column)) is not None] or [1.0]
        error = max(line.ratio_error(column) for line in several)
        runs.append(
            OutcomeRange(
                outcome,
                several[0].bytes,
                several[-1].bytes,
                _farthest(ratios),
                error if near else None,
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
    lacks = [one.fitted_s is None and not one.protocol for one in (first, other)]
    missing = [
        (two.fitted_s or 0.0) if lacking else 0.0
        for lacking, two in zip(lacks, (other, first), strict=True)
    ]
    filled = (totals[1] + missing[1]) / (totals[0] + missing[0])
    return max(missing) >= LAUNCH_SHARE * min(totals) and told(filled) != told(
        totals[1] / totals[0]
    )


def told(ratio: float) -> Literal["same", "slower", "faster"]:
    return "same" if abs(ratio - 1) <= SAME else "slower" if ratio > 1 else "faster"
