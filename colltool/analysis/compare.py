"""``compare``: fabrics, or variants of one fabric, side by side: where one is faster, slower or the
same, and why.

:func:`compare` makes a :class:`CompareTable` for each collective. A table prices all columns at the
sizes of the table and at many between them in one grid, judges each point against the first column
(:mod:`colltool.analysis.outcomes`) within the error of their ratio
(:mod:`colltool.analysis.ratio_errors`), and gives reasons where a changed value made no difference
(:mod:`colltool.analysis.same_reasons`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import prod, sqrt
from typing import ClassVar, NamedTuple

from colltool.analysis import basis
from colltool.analysis.axes import SweepAxis
from colltool.analysis.basis import BasisDifference
from colltool.analysis.cells import PriceRequest
from colltool.analysis.fitted import AS_IT_IS, Fitted, counts_of_all, noun_of, ranks_of_all
from colltool.analysis.grid import CellParts, FabricLoader, price_grid
from colltool.analysis.outcomes import (
    ColumnDifference,
    CompareLine,
    OnePortWinner,
    OutcomeRange,
    SameReason,
    changed_winners,
    joined_range,
    ranges_of,
    same_ranges,
)
from colltool.analysis.ratio_errors import RatioErrors
from colltool.analysis.same_reasons import reasons_for_same
from colltool.analysis.winners import QuestionVerdict, joined_verdicts, verdict_of
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.result import Result, result, with_progress
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import on_layers
from colltool.estimate.groups import place
from colltool.estimate.machine_factor import as_read
from colltool.estimate.placement import GroupSpec, fits
from colltool.estimate.running import library_of
from colltool.fabric.model import Fabric
from colltool.machines.used import Applied

# Sizes priced between the smallest and the largest of the table, to find where the outcome changes.
POINTS = 200
# Limits of one comparison: more cells or columns than anybody reads.
MOST_CELLS = 20_000
MOST_COLUMNS = 1000


# No column of a comparison shows what would win without contention.
WITH_INTERVALS = CellParts(ideal=False)
SECONDS_ALONE = CellParts(ideal=False, interval=False)


class CompareColumn(NamedTuple):
    """A fabric with the overrides of this column (``set``); ``name`` is its title."""

    name: str
    fabric: str
    set: tuple[tuple[str, str], ...]
    load: FabricLoader  # loads it with further overrides
    fitted: Fitted = AS_IT_IS  # how it differs from its file to hold the ranks


class RanksOffer(NamedTuple):
    """A rank count that not all columns hold."""

    ranks: int
    missing: tuple[str, ...]  # the columns that do not hold it
    nearest: tuple[int, ...]  # counts that all hold
    too_many: bool  # more than they have; else it does not fill whole racks, nodes or domains
    noun: str  # rack, node or domain


@result
class Comparison(Result):
    """Columns compared with each other."""

    subject: ClassVar[str] = "compare"
    columns: tuple[CompareColumn, ...]
    lines: tuple[CompareLine, ...]  # each column beside the first
    findings: tuple[ColumnDifference, ...]  # each column against the first, by size
    ideal: bool  # priced without contention
    ground: tuple[BasisDifference, ...] = ()  # what the prices do not have in common
    readings: ModelOptions = USUAL
    turned: tuple[OnePortWinner, ...] = ()  # lines that another column wins with one port
    libraries: tuple[str, ...] = ()  # one entry per column; empty text: any
    verdicts: tuple[QuestionVerdict, ...] = ()  # who wins
    offers: tuple[RanksOffer, ...] = ()
    # the ranks chosen where none were asked for, the most that all columns can run
    taken: int | None = None

    def not_run(self, column: int) -> tuple[CompareLine, ...]:
        """The lines for which a column's library runs none of the algorithms. Empty for a column of
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
    fabrics = [column.load(()) for column in with_progress(columns)]
    fabrics_differ_in_size = len({fabric.ranks for fabric in fabrics}) > 1
    ranks_chosen = fabrics_differ_in_size and groups[0].ranks is None
    groups = [with_ranks(fabrics, group) for group in groups]
    names = [column.name for column in columns]
    primitives = {request.primitive for request in requests}
    readings, layers = basis.common_layers(names, fabrics, requests[0].readings, primitives)
    requests = [request._replace(readings=readings) for request in requests]
    tables = [CompareTable(request, tuple(columns), fabrics, groups, sizes) for request in requests]
    lines = [line for table in tables for line in table.lines()]
    if all(cell.algorithm is None for line in lines for cell in line.cells):
        place(fabrics[0], groups[0])  # if the group fits nowhere, this error says what does
        raise ColltoolError(
            lines[0].cells[0].reason,
            fix="another number of ranks, another algorithm, or another fabric",
        )
    verdicts = []
    for table in tables:
        verdicts += joined_verdicts(list(table.verdicts()))
    return Comparison(
        columns=tuple(map(partial(_with_machine, readings), columns, fabrics)),
        lines=tuple(lines),
        findings=tuple(finding for table in tables for finding in table.findings()),
        ideal=readings.ideal,
        ground=layers + _basis_differences(names, fabrics, requests, groups, lines),
        readings=readings,
        libraries=tuple(map(library_of, fabrics)),
        turned=tuple(row for table in tables for row in table.one_port_winners()),
        verdicts=tuple(verdicts),
        offers=tuple(_offers(fabrics, names, groups)),
        taken=groups[0].ranks if ranks_chosen else None,
    )


def _check_count(
    requests: Sequence[PriceRequest],
    columns: Sequence[CompareColumn],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
) -> None:
    """Refuse more columns or cells than anybody reads."""
    if len(columns) > MOST_COLUMNS:
        raise ColltoolError(
            f"{len(columns)} columns, more than {MOST_COLUMNS}: each is a fabric of its own",
            argument="vary",
            fix="fewer values or fabrics; a sweep takes more",
        )
    count = prod(map(len, (requests, columns, groups, sizes)))
    if count > MOST_CELLS:
        raise basis.too_many(count, MOST_CELLS)


def with_ranks(fabrics: Sequence[Fabric], group: GroupSpec) -> GroupSpec:
    """The group; if it names no ranks, with the most that all fabrics can run.

    Raises:
        ColltoolError: that would cut domains of different sizes: the difference might lie in these.
    """
    if group.ranks is not None:
        return group
    counts = sorted({fabric.ranks for fabric in fabrics})
    if len(counts) > 1 and any(fabric.domains for fabric in fabrics):
        raise ColltoolError(
            f"the fabrics have {', '.join(map(str, counts))} ranks, and a common number would split"
            " domains of different sizes",
            argument="ranks",
            fix=f"give {argument_text('ranks', counts[0])}, or sweep: it takes all ranks of each",
        )
    return group._replace(ranks=ranks_of_all(fabrics, group))


def sizes_between(sizes: Sequence[float], points: int) -> list[float]:
    """``points`` sizes from the smallest to the largest, each larger by the same factor: of 1 and 100,
    three are 1, 10 and 100. A single size alone."""
    least, most = min(sizes), max(sizes)
    if least == most:
        return [least]
    ratio = most / least
    between = [least * ratio ** (step / (points - 1)) for step in range(1, points - 1)]
    return [least, *between, most]


def _offers(
    fabrics: Sequence[Fabric], names: Sequence[str], groups: Sequence[GroupSpec]
) -> Iterator[RanksOffer]:
    """For each count of ranks that some fabric does not hold, the nearest counts that all hold."""
    for group in groups:
        ranks = group.ranks or 0
        missing = []
        too_many = False
        noun = "domain"
        for fabric, name in zip(fabrics, names, strict=True):
            if group.shape is None and not fits(fabric, ranks, group.stride):
                missing.append(name)
                too_many |= ranks * group.stride > fabric.ranks
                # of several fabrics the last one's
                noun = noun_of(fabric)
        if missing:
            nearest = counts_of_all(fabrics, group)
            yield RanksOffer(ranks, tuple(missing), nearest, too_many, noun)


def _with_machine(readings: ModelOptions, column: CompareColumn, fabric: Fabric) -> CompareColumn:
    """The column, whose overrides also tell the machine and the assumptions that its prices use."""
    used = as_read(fabric, readings).overrides
    return column._replace(set=Applied(column.set, used.machine, used.assumed))


def _basis_differences(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    requests: Sequence[PriceRequest],
    groups: Sequence[GroupSpec],
    lines: Sequence[CompareLine],
) -> tuple[BasisDifference, ...]:
    """The differences in what the prices of the columns include."""
    readings = requests[0].readings
    priced = [on_layers(fabric, readings) for fabric in fabrics]
    differences: list[BasisDifference] = []
    for request in requests:
        differences += basis.group_differences(
            names, priced, request.primitive, groups, ideal=readings.ideal
        )
    software = tuple(basis.software_differences([line.point(names) for line in lines]))
    return basis.joined(differences) + software


class GroupsAlike(NamedTuple):
    """Groups of ranks with the same outcomes at about the same sizes, and the size ranges of each
    group."""

    groups: list[GroupSpec]
    ranges: list[tuple[OutcomeRange, ...]]


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
        """Price all columns at the sizes of the table and at those in between."""
        self.request = request
        self.columns = columns
        self.fabrics = fabrics
        self.groups = groups
        self.sizes = sizes
        # One call prices the sizes of the table, and after them those in between: a price of many
        # sizes costs little more than one. The lines of each group are in this order.
        between = sizes_between(sizes, POINTS)
        self._lines_of_groups = self._priced_lines(request, [*sizes, *between], WITH_INTERVALS)

    def lines(self) -> list[CompareLine]:
        """A line for each group and size of the table."""
        lines_of_table = []
        for lines in self._lines_of_groups:
            lines_of_table += lines[: len(self.sizes)]
        return lines_of_table

    def _priced_lines(
        self, request: PriceRequest, sizes: Sequence[float], parts: CellParts
    ) -> list[list[CompareLine]]:
        """The lines of each group, in the order of the sizes."""
        axes = (
            SweepAxis("fabric", tuple(column.name for column in self.columns)),
            SweepAxis("ranks", tuple(group.ranks for group in self.groups)),
            SweepAxis("bytes", tuple(sizes)),
        )
        loads: list[FabricLoader] = [partial(_without_overrides, fabric) for fabric in self.fabrics]
        cells = price_grid(request, axes, loads, self.groups, parts)
        priced = [on_layers(fabric, request.readings) for fabric in self.fabrics]
        ideal = request.readings.ideal
        cells_per_column = len(self.groups) * len(sizes)
        files = [column.fabric for column in self.columns]
        lines = []
        for group_number, group in enumerate(self.groups):
            bases = [
                basis.basis_or_none(fabric, request.primitive, group, ideal=ideal)
                for fabric in priced
            ]
            missing = tuple(basis.launch_missing(bases))
            ratios = RatioErrors(files, self.fabrics, request, group) if parts.interval else None
            ranks = int(group.ranks or 0)
            group_lines = []
            for index, size in enumerate(sizes, start=group_number * len(sizes)):
                # the grid has one column's cells after the other's, of each group after group
                cells_of_line = tuple(cells[index::cells_per_column])
                # sigmas are 0 where nothing is known of the error
                unknown = (0.0,) * len(cells_of_line)
                line = CompareLine(
                    request.primitive,
                    ranks,
                    size,
                    cells_of_line,
                    missing,
                    unknown,
                    rival_sigmas=unknown,
                )
                group_lines.append(line if ratios is None else ratios.of_line(line))
            lines.append(group_lines)
        return lines

    def findings(self) -> Iterator[ColumnDifference]:
        """Each further column against the first, joining neighbouring rank counts with the same
        ranges."""
        for number, column in enumerate(self.columns[1:], start=1):
            for alike in self._groups_alike(number):
                ranges = []
                # the first range of every group, the second of every group ...
                for of_groups in zip(*alike.ranges, strict=True):
                    joined = joined_range(of_groups)
                    if joined.outcome == "same":
                        joined = self._with_why(joined, number, alike.groups)
                    ranges.append(joined)
                ranks = tuple(group.ranks or 0 for group in alike.groups)
                yield ColumnDifference(column.name, self.request.primitive, ranks, tuple(ranges))

    def verdicts(self) -> Iterator[QuestionVerdict]:
        """Who wins, for each group of ranks, by the sizes in between."""
        names = [column.name for column in self.columns]
        for lines in self._lines_of_groups:
            yield verdict_of(lines[len(self.sizes) :], names)

    def _groups_alike(self, column: int) -> list[GroupsAlike]:
        """Neighbouring groups of ranks whose ranges of a column are the same."""
        joined_groups: list[GroupsAlike] = []
        for group, lines in zip(self.groups, self._lines_of_groups, strict=True):
            ranges = ranges_of(lines[len(self.sizes) :], column)
            if not joined_groups or not same_ranges(joined_groups[-1].ranges[0], ranges):
                joined_groups.append(GroupsAlike([], []))
            joined_groups[-1].groups.append(group)
            joined_groups[-1].ranges.append(ranges)
        return joined_groups

    def _with_why(
        self, equal: OutcomeRange, number: int, groups: Sequence[GroupSpec]
    ) -> OutcomeRange:
        """A range of equal times with the reasons why the values of column ``number`` do not move
        them."""
        set_on_first, set_here = dict(self.columns[0].set), dict(self.columns[number].set)
        # of one file: the values that only this column sets; none between different files
        keys = []
        if self.columns[0].fabric == self.columns[number].fabric:
            keys = [key for key in set_here if set_on_first.get(key) != set_here[key]]
        middle_bytes = sqrt(equal.from_bytes * equal.to_bytes)
        moved = abs(equal.ratio - 1)
        # The same reason for several groups is given once, for the largest: by the reason without
        # its endpoints.
        reasons: dict[SameReason, SameReason] = {}
        for group in groups:
            for reason in reasons_for_same(
                self.fabrics[number], self.request, group, middle_bytes, keys, moved
            ):
                key = reason._replace(endpoints=0)
                larger = reasons.get(key)
                if larger is None or reason.endpoints > larger.endpoints:
                    reasons[key] = reason
        return equal._replace(why=tuple(reasons.values()))

    def one_port_winners(self) -> Iterator[OnePortWinner]:
        """The rows with another fastest column under ``ports="one"``.

        Yields nothing if algorithms or ports were given.
        """
        request = self.request
        if request.only or request.readings.ports != "all":
            return
        one_port = request._replace(readings=request.readings._replace(ports="one"))
        names = [column.name for column in self.columns]
        by_group = self._priced_lines(one_port, self.sizes, SECONDS_ALONE)
        lines = list(chain(*by_group))
        yield from changed_winners(self.lines(), lines, names)


def _without_overrides(fabric: Fabric, _: Sequence[str]) -> Fabric:
    """A loader of a fabric that is loaded already: a comparison varies nothing further."""
    return fabric
