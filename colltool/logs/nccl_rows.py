"""What one run of nccl-tests printed (:class:`TestRun`), and of each row the half that is used
(:func:`used_rows`): out-of-place or in-place, with its result, its time and its rate checked
against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from colltool.base.statements import Statement
from colltool.logs.busbw_ratio import Ratio, ratio
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
        raise no_usable_row(notes, run.table)
    return used, notes


def _used_half(run: TestRun, row: TableRow, cells: Cells, half: Half) -> UsedRow:
    """One half of a row, with size, time, result and rate checked; UnusableRow for wrong ones."""
    size = message_size(cells.size)
    time = positive_time(half.get("time") or half.get("cputime") or "")
    # `#wrong` counts wrong elements; `error`, before 2.12, is the largest deviation, where rounding
    # is allowed
    limits = {"wrong": 0.0, "error": _ROUNDING.get(cells.dtype, _ROUGH_ROUNDING)}
    for name, limit in limits.items():
        wrong = rounding_interval(half.get(name, "0").replace("N/A", "0"))
        if wrong is None:
            raise UnusableRow("unreadable-result", column=name)
        if wrong.value > limit:
            raise UnusableRow("wrong-result", column=name)
    algbw = printed_cell(half, "algbw")
    consistent = by_rate = None
    if algbw and algbw.value > 0:
        # GB/s times us is 1,000 bytes
        if algbw.half_digit <= 0.1 * algbw.value:
            least_bytes = algbw.low * time.low * 1e3 * (1 - _AGREES)
            most_bytes = algbw.high * time.high * 1e3 * (1 + _AGREES)
            consistent = least_bytes <= size <= most_bytes
        if algbw.half_digit <= 0.01 * algbw.value:
            by_rate = size / algbw.value / 1e3 / 1e6
    if row.joined and "time" in half and consistent is False:
        raise UnusableRow("garbled-time")
    shown = ratio(algbw, printed_cell(half, "busbw"), run.place(row))
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


class Device(NamedTuple):
    """A Rank line: one rank, and the process that drives it."""

    rank: int
    group: str
    pid: str
    host: str
    line: int


def printed_cell(cells: Mapping[str, str], name: str) -> RoundingInterval | None:
    return rounding_interval(cells.get(name, ""))
