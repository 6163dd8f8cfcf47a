"""A run of nccl-tests: its table, by the header line, and its timings, checked against its own
numbers and the caller's.

Readers of text and JSON fill a :class:`TestRun`; :func:`records_of` makes records of it: it finds
the program and the collective, picks the half of each row to use (:func:`used_rows`), and checks
rank count and times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, Protocol

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive, parse_primitive
from colltool.base.statements import Statement
from colltool.logs.busbw_ratio import (
    Ratio,
    RoundingInterval,
    UnusableRow,
    message_size,
    positive_time,
    ranks_of,
    ratio,
    rounding_interval,
)
from colltool.logs.records import (
    Note,
    Record,
    UserHints,
    agreed_nodes,
    agreed_primitive,
    agreed_ranks,
    nothing_usable,
    place,
)
from colltool.logs.sentences import statement
from colltool.logs.which_collective import SeenRow, collective_of


class NotModelled(ColltoolError):
    """A run of something other than the seven primitives; an error only if the file holds nothing
    else."""


OUT, IN, EITHER = "out-of-place", "in-place", "one half"
Half = Mapping[str, str]
"""Columns of half a row, in-place or out-of-place, and their text."""


class Cells(NamedTuple):
    """A row's cells as printed."""

    size: str
    dtype: str
    halves: dict[str, Half]  # by label
    before: Mapping[str, str]  # the columns before the halves: count, redop, root


class TableRow(Protocol):
    """A row, cut into cells only when used, so that a log of a million rows takes no more memory
    than its text.

    ``joined``: pieced together from several lines. ``item``: its path in a JSON report.
    """

    @property
    def number(self) -> int: ...
    @property
    def joined(self) -> bool: ...
    @property
    def item(self) -> str: ...
    def cells(self) -> Cells: ...


# spaces from which on a half was left blank: printed columns are at most 8 spaces apart
_WIDE_GAP = 20
_GAP = re.compile(rf"(?<!\s)\s{{{_WIDE_GAP},}}+[\d.]")


class Columns(NamedTuple):
    """A table's columns. Such as names = size count type redop root time algbw busbw wrong time
    algbw busbw wrong, of which time stands at 5 and 9 (starts), and each half has 4 (width)."""

    line: int  # of the header
    names: tuple[str, ...]
    labels: tuple[str, ...]  # of the halves: out-of-place, in-place
    starts: tuple[int, ...]  # where each half starts in names
    width: int  # columns of a half
    values: int  # cells of a full row, where a timestamp counts as two
    without_redop: bool  # rows may leave the redop cell blank, as old tests without a reduction do

    def words(self, text: str) -> list[str]:
        words = text.split(None, self.values + 1)
        if self.without_redop and len(words) > 3 and rounding_interval(words[3]) is not None:
            words.insert(3, "")
        return words

    def cut(self, text: str) -> Cells:
        """The cells of a row's text; a row with one half has it by its blanks."""
        words = self.words(text)
        first = self.starts[0]
        halves: dict[str, Half] = {}
        if len(words) == self.values:
            for label, start in zip(self.labels, self.starts, strict=True):
                halves[label] = self._half(words[start:])
        else:
            label = IN if _GAP.search(text) else EITHER
            halves[label] = self._half(words[first:])
        return Cells(words[0], words[2], halves, dict(zip(self.names[:first], words, strict=False)))

    def _half(self, words: list[str]) -> Half:
        first = self.starts[0]
        return dict(zip(self.names[first : first + self.width], words, strict=False))


class TextRow(NamedTuple):
    """A row of a printed table."""

    number: int
    text: str
    columns: Columns
    joined: bool
    item: str = ""

    def cells(self) -> Cells:
        return self.columns.cut(self.text)


class Device(NamedTuple):
    """A Rank line: one rank, and the process that drives it."""

    rank: int
    group: str
    pid: str
    host: str
    line: int


@dataclass
class TestRun:
    """What the report of one run says."""

    file: str
    started: str = ""  # the program as it announces itself
    mentions: set[str] = field(default_factory=set)  # programs named above the table
    per_process: int = 0  # nThread x nGpus, 0 if unknown
    devices: list[Device] = field(default_factory=list)
    devices_cut: bool = False  # a Rank line is broken, so their number is unknown
    library: str = ""
    library_version: str = ""
    tests_version: str = ""
    table: int = 0  # line of the header, 0 without one
    time: str = "time"  # the column of times: time, or cputime
    closed: bool = False  # its last line was read
    rows: list[TableRow] = field(default_factory=list)
    bad: list[Note] = field(default_factory=list)  # rows that cannot be used

    @property
    def where(self) -> str:
        return f"{self.file}:{self.table}"

    @property
    def where_devices(self) -> str:
        return f"{self.file}:{self.devices[0].line}"

    @property
    def groups(self) -> set[str]:
        return {device.group for device in self.devices}

    def place(self, row: TableRow) -> str:
        return place(self.file, row.number, row.item)

    def note(self, reason: Statement, row: TableRow, *, used: bool = False) -> Note:
        return Note(reason, self.file, row.number, row.item, used)


def records_of(run: TestRun, hints: UserHints) -> tuple[list[Record], list[Note]]:
    """The usable rows of a run, with everything checked that can be, and notes on the others."""
    name = _program(run, hints)
    primitive = _primitive(name, run, hints)
    rows, notes = used_rows(run, hints.in_place)
    ratios = [row.ratio for row in rows if row.ratio]
    listed = _listed_ranks(run)
    nodes = None
    source = f"{argument_text('ranks')} is"
    where = run.where
    if listed:
        source = "the Rank lines list"
        where = run.where_devices
        group = run.devices[0].group
        nodes = len({device.host for device in run.devices if device.group == group})
    agreed = agreed_ranks(listed, hints, where)
    ranks, garbled = ranks_of(primitive, ratios, agreed, source, run.where, named=bool(name))
    _check_ranks(run, ranks, where)
    nodes = agreed_nodes(nodes, hints, where)
    groups = len(run.groups)
    records = []
    for used in rows:
        row = used.row
        if garbled and run.place(row) in garbled:
            notes.append(run.note(statement("garbled-busbw"), row))
            continue
        record = Record(
            primitive,
            ranks,
            nodes,
            used.size,
            used.seconds,
            used.dtype,
            library=run.library,
            version=run.library_version or run.tests_version,
            file=run.file,
            line=row.number,
            item=row.item,
        )
        records.append(record)
        if groups > 1:
            notes.append(run.note(statement("groups-at-once", groups=groups), row, used=True))
    return records, notes


def _program(run: TestRun, hints: UserHints) -> str:
    """The collective's name as the program announced itself, else as the only command line above
    names it, else by the columns. Empty where nothing says it or the caller does."""
    if run.started:
        return run.started
    if len(run.mentions) == 1:
        (mentioned,) = run.mentions
        return mentioned
    if hints.primitive is not None:
        return ""
    return str(collective_of(_seen(run)) or "")


def _seen(run: TestRun) -> Iterator[SeenRow]:
    """The columns of each row that show which collective ran."""
    for call in run.rows:
        cells = call.cells()
        before = cells.before
        first: Half = next(iter(cells.halves.values()), {})
        shown = ratio(_cell(first, "algbw"), _cell(first, "busbw"), run.place(call))
        size = rounding_interval(cells.size)
        count = _cell(before, "count")
        yield SeenRow(
            size=size.value if size else 0.0,
            elements=count.value if count else 0.0,
            dtype=cells.dtype,
            redop=before.get("redop", ""),
            root=before.get("root", ""),
            ratio=(shown.low + shown.high) / 2 if shown else None,
            in_place_wrong=cells.halves.get(IN, {}).get("wrong", ""),
        )


def _cell(cells: Mapping[str, str], name: str) -> RoundingInterval | None:
    return rounding_interval(cells.get(name, ""))


def _primitive(name: str, run: TestRun, hints: UserHints) -> Primitive:
    """The collective of a run by its program's name or the caller; ColltoolError without either."""
    found = None
    if name:
        try:
            found = parse_primitive(name.rpartition("/")[2])
        except ColltoolError as error:
            what = f"'{name}' is not one of the seven modelled primitives"
            raise NotModelled(what, where=run.where, fix=error.fix) from error
    agreed = agreed_primitive(found, hints, run.where)
    if agreed is None:
        what = "the log does not say which collective this table measures"
        raise ColltoolError(
            what, where=run.where, fix=f"say it: {argument_text('primitive', 'all_reduce')}"
        )
    return agreed


def _listed_ranks(run: TestRun) -> int | None:
    """Ranks of the first group by the Rank lines. None where they are not all there."""
    owners: dict[int, Device] = {}
    for device in run.devices:
        first = owners.setdefault(device.rank, device)
        if (first.pid, first.host) != (device.pid, device.host):
            raise ColltoolError(
                f"Rank {device.rank} is listed twice, by process {first.pid} and {device.pid}",
                where=f"{run.file}:{device.line}",
                fix=(
                    "either logs ran together: split them; or nccl-tests was built without MPI=1"
                    " and measured no communication"
                ),
            )
    complete = bool(owners) and not run.devices_cut and max(owners) == len(owners) - 1
    if not complete or len(owners) % (run.per_process or 1):
        return None
    sizes = Counter(device.group for device in owners.values())
    if len(set(sizes.values())) > 1:
        listed = ", ".join(map(str, sorted(sizes.values())))
        raise ColltoolError(
            f"groups of different sizes ran at once: {listed} ranks",
            where=run.where_devices,
            fix="the table does not say whose times it prints; measure equal groups",
        )
    return sizes[run.devices[0].group]


def _check_ranks(run: TestRun, ranks: int, where: str) -> None:
    """Refuse runs on one rank, and rank counts that contradict the Rank lines."""
    if ranks < 2:
        fix = "run nccl-tests on two ranks or more, built with MPI=1 across processes"
        raise ColltoolError(f"{ranks} rank: nothing was communicated", where=where, fix=fix)
    listed = {device.rank for device in run.devices}
    if len(listed) > ranks and len(run.groups) == 1:
        fix = f"leave {argument_text('ranks')} out, or correct it"
        raise ColltoolError(
            f"the log lists {len(run.devices)} ranks, {argument_text('ranks')} says {ranks}",
            where=run.where_devices,
            fix=fix,
        )


# What the `error` column of old versions may reach: rounding, by the element type (nccl-tests' own
# limits).
_ROUNDING = {"double": 1e-12, "float64": 1e-12, "float": 1e-5, "float32": 1e-5}
_ROUGH_ROUNDING = 1e-2
_AGREES = 0.05  # share by which size/algbw and the time may differ beyond rounding


class UsedRow(NamedTuple):
    """The half of a row (in-place or out-of-place) that is used."""

    row: TableRow
    dtype: str
    size: float
    seconds: float  # as the row prints it
    algbw_seconds: float | None  # size/algbw; None where algbw has too few digits
    # whether these agree within rounding; None where algbw has too few digits
    consistent: bool | None
    ratio: Ratio | None  # busbw/algbw; None where one is missing


def used_rows(run: TestRun, in_place: bool) -> tuple[list[UsedRow], list[Note]]:
    """The wanted half of every row, or the other one where that was not printed."""
    wanted, other = (IN, OUT) if in_place else (OUT, IN)
    # One half in every row and no blank: rccl-tests -O 0. In one row alone it is where the log was
    # cut.
    only_half = len(run.rows) > 1 and all(EITHER in row.cells().halves for row in run.rows)
    used: list[UsedRow] = []
    notes = list(run.bad)
    for call in run.rows:
        cells = call.cells()
        halves = {IN: cells.halves[EITHER]} if only_half else cells.halves
        label = wanted if wanted in halves else other
        if label not in halves:
            notes.append(run.note(statement("truncated"), call))
            continue
        try:
            used.append(_used_half(run, call, cells, halves[label]))
        except UnusableRow as error:
            notes.append(run.note(error.reason, call))
            continue
        if label != wanted:
            notes.append(
                run.note(statement("other-half", used=label, wanted=wanted), call, used=True)
            )
    used = _timed(run, used, notes)
    if not used:
        first = min(notes, key=attrgetter("line"))
        raise nothing_usable(
            f"no row of this table can be used; the first: {first.reason}",
            notes,
            first.where,
            f"the table starts at line {run.table}; measure it again",
        )
    return used, notes


def _used_half(run: TestRun, row: TableRow, cells: Cells, half: Half) -> UsedRow:
    """One half of a row, with size, time, result and rate checked; UnusableRow for wrong ones."""
    size = message_size(cells.size)
    time = positive_time(half.get("time") or half.get("cputime") or "")
    # `#wrong` counts wrong elements; `error`, before 2.12, is the largest deviation, where rounding
    # is allowed
    limits = {"wrong": 0.0, "error": _ROUNDING.get(cells.dtype, _ROUGH_ROUNDING)}
    for name, limit in limits.items():
        count = rounding_interval(half.get(name, "0").replace("N/A", "0"))
        if count is None:
            raise UnusableRow("unreadable-result", column=name)
        if count.value > limit:
            raise UnusableRow("wrong-result", column=name)
    algbw = _cell(half, "algbw")
    consistent = by_rate = None
    if algbw and algbw.value > 0:
        # GB/s times us is 1,000 bytes
        if algbw.half <= 0.1 * algbw.value:
            least = algbw.low * time.low * 1e3 * (1 - _AGREES)
            consistent = least <= size <= algbw.high * time.high * 1e3 * (1 + _AGREES)
        if algbw.half <= 0.01 * algbw.value:
            by_rate = size / algbw.value / 1e3 / 1e6
    if row.joined and "time" in half and consistent is False:
        raise UnusableRow("garbled-time")
    shown = ratio(algbw, _cell(half, "busbw"), run.place(row))
    return UsedRow(row, cells.dtype, size, time.value / 1e6, by_rate, consistent, ratio=shown)


def _timed(run: TestRun, rows: list[UsedRow], notes: list[Note]) -> list[UsedRow]:
    """Rows with the collective's own time. ``cputime`` (-C 1) is only the launch; algbw still gives
    the real time."""
    verdicts = {row.consistent for row in rows}
    if run.time == "time" or (True in verdicts and False not in verdicts):
        for used in rows:
            if used.consistent is False:
                notes.append(run.note(statement("time-not-as-rate"), used.row, used=True))
        return rows
    timed = []
    for used in rows:
        if used.algbw_seconds is None:
            notes.append(run.note(statement("cputime-alone"), used.row))
            continue
        timed.append(used._replace(seconds=used.algbw_seconds))
        notes.append(run.note(statement("time-from-rate"), used.row, used=True))
    return timed
