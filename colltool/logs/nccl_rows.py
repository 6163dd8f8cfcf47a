"""What one run of nccl-tests printed (:class:`TestRun`), and of each row the half that is used
(:func:`used_rows`): out-of-place or in-place, with its result, its time and its rate checked
against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from colltool.base.statements import Statement
from colltool.logs.busbw_ratio import RowRange, busbw_over_algbw
from colltool.logs.nccl_table import EITHER, IN, OUT, Cells, Half, TableRow
from colltool.logs.printed_numbers import (
    RoundingInterval,
    UnusableRow,
    message_size,
    positive_time,
    rounding_interval,
)
from colltool.logs.records import (
    Note,
    no_usable_row,
    place,
)
from colltool.logs.sentences import statement

# What the `error` column of old versions may reach: rounding, by the element type, and of all other
# types (nccl-tests' own limits).
_ROUNDING = {"double": 1e-12, "float64": 1e-12, "float": 1e-5, "float32": 1e-5}
_ROUGH_ROUNDING = 1e-2
_AGREES = 0.05  # share by which size/algbw and the time may differ beyond rounding
# share of algbw that half its last digit may be, to check a time by it, and to take its place
_CHECKS = 0.1
_REPLACES = 0.01


class UsedRow(NamedTuple):
    """The half of a row (in-place or out-of-place) that is used."""

    row: TableRow
    dtype: str
    size: float
    seconds: float  # as the row prints it
    algbw_seconds: float | None  # size/algbw; None where algbw has too few digits
    # whether these agree within rounding; None where algbw has too few digits
    consistent: bool | None
    ratio: RowRange | None  # busbw/algbw; None where one is missing


def used_rows(run: TestRun, in_place: bool) -> tuple[list[UsedRow], list[Note]]:
    """The wanted half of every row, or the other one where that was not printed; and notes on rows
    that are left out or doubted.

    Raises:
        ColltoolError: no row can be used.
    """
    wanted, other = (IN, OUT) if in_place else (OUT, IN)
    # One half in every row and no blank: rccl-tests -O 0. In one row alone it is where the log was
    # cut.
    only_half = len(run.rows) > 1 and all(EITHER in row.cells().halves for row in run.rows)
    used: list[UsedRow] = []
    notes = list(run.bad)
    for row in run.rows:
        cells = row.cells()
        halves = {IN: cells.halves[EITHER]} if only_half else cells.halves
        label = wanted if wanted in halves else other
        if label not in halves:
            notes.append(run.note(statement("truncated"), row))
            continue
        try:
            used.append(_used_half(run, row, cells, halves[label]))
        except UnusableRow as error:
            notes.append(run.note(error.reason, row))
            continue
        if label != wanted:
            reason = statement("other-half", used=label, wanted=wanted)
            notes.append(run.note(reason, row, used=True))
    used = _with_call_times(run, used, notes)
    if not used:
        raise no_usable_row(notes, run.table)
    return used, notes


def _used_half(run: TestRun, row: TableRow, cells: Cells, half: Half) -> UsedRow:
    """One half of a row, with size, time, result and rate checked; UnusableRow for wrong ones."""
    size = message_size(cells.size)
    time = positive_time(half.get("time") or half.get("cputime") or "")
    _check_result(half, cells.dtype)
    algbw = printed_cell(half, "algbw")
    consistent = None
    algbw_seconds = None
    if algbw and algbw.value > 0:
        # GB/s times us is 1,000 bytes
        if algbw.half_digit <= _CHECKS * algbw.value:
            least_bytes = algbw.low * time.low * 1e3 * (1 - _AGREES)
            most_bytes = algbw.high * time.high * 1e3 * (1 + _AGREES)
            consistent = least_bytes <= size <= most_bytes
        if algbw.half_digit <= _REPLACES * algbw.value:
            algbw_seconds = size / algbw.value / 1e3 / 1e6
    if row.joined and "time" in half and consistent is False:
        raise UnusableRow("garbled-time")
    return UsedRow(
        row,
        cells.dtype,
        size,
        time.value / 1e6,
        algbw_seconds,
        consistent,
        ratio=busbw_over_algbw(algbw, printed_cell(half, "busbw"), run.place(row)),
    )


def _check_result(half: Half, dtype: str) -> None:
    """Refuse a half with a wrong result, or one that cannot be read."""
    # `#wrong` counts wrong elements; `error`, before 2.12, is the largest deviation, where rounding
    # is allowed
    limits = {"wrong": 0.0, "error": _ROUNDING.get(dtype, _ROUGH_ROUNDING)}
    for column, limit in limits.items():
        # a check that was not made is no error
        result = rounding_interval(half.get(column, "0").replace("N/A", "0"))
        if result is None:
            raise UnusableRow("unreadable-result", column=column)
        if result.value > limit:
            raise UnusableRow("wrong-result", column=column)


def _with_call_times(run: TestRun, rows: list[UsedRow], notes: list[Note]) -> list[UsedRow]:
    """Rows with the collective's own time; what is doubted or left out is added to ``notes``.

    ``cputime`` (-C 1) is only the launch; algbw still gives the real time. Where it is consistent
    with algbw in all rows, it is the real time, too.
    """
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


@dataclass
class TestRun:
    """What the report of one run says."""

    file: str
    started: str = ""  # the program as it announces itself, such as all_reduce_perf
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
        """Its table stands."""
        return f"{self.file}:{self.table}"

    @property
    def where_devices(self) -> str:
        """Its Rank lines begin; only of a run that has some."""
        return f"{self.file}:{self.devices[0].line}"

    @property
    def groups(self) -> set[str]:
        """Names of the groups that ran at once."""
        return {device.group for device in self.devices}

    def place(self, row: TableRow) -> str:
        return place(self.file, row.number, row.item)

    def note(self, reason: Statement, row: TableRow, *, used: bool = False) -> Note:
        return Note(reason, self.file, row.number, row.item, used)


class Device(NamedTuple):
    """A Rank line: one rank, and the process that drives it."""

    rank: int
    group: str
    pid: str
    host: str
    line: int


def printed_cell(cells: Mapping[str, str], name: str) -> RoundingInterval | None:
    """The number of a column; None where it is missing or is none."""
    return rounding_interval(cells.get(name, ""))
