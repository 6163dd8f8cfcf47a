"""Logs of nccl-tests and rccl-tests: text of any generation, cut into runs with header and
table.

:func:`recognises` and :func:`read` are the entries. :class:`_Runs` walks the lines: those of tables
it reads by :mod:`colltool.logs.nccl_table_lines`, those above and below them by :data:`_HEADERS`,
whose functions ``on_`` stand below it. What becomes of a run is said in
:mod:`colltool.logs.nccl_runs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.logs.log_file import Log, clean
from colltool.logs.nccl_rows import Device, TestRun
from colltool.logs.nccl_runs import NotModelled, records_of
from colltool.logs.nccl_table import Columns
from colltool.logs.nccl_table_lines import PartialRow, check_unit, columns_of, row_head, untagged
from colltool.logs.printed_numbers import UnusableRow, looks_like_a_row
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints
from colltool.logs.sentences import statement

# "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) ..."
_PROCESS = re.compile(r"nThread (?P<threads>\d{1,6}) nGpus (?P<gpus>\d{1,6}) ")
# "NCCL version 2.28.9+cuda12.9"
_LIBRARY = re.compile(r"\b(?P<library>NCCL|RCCL) version *:? *(?P<version>\d[\w.+:-]*)")
# "# nccl-tests version 2.17.8 nccl-headers=22807 nccl-library=22809"
_LIBRARY_CODE = re.compile(r"nccl-library=(?P<code>\d{4,6})\b")
# "./build/all_reduce_perf -b 8 -e 128M", "reduce_scatter_perf_mpi"
_PROGRAM = re.compile(
    r"\b((?:all_?reduce|all_?gather|reduce_?scatter|alltoallv?|broadcast|reduce|sendrecv|gather|scatter|hypercube)_perf)(?:_mpi)?\b"
)
# a header of a table, today's or an old one, or of a run; a setting; a row
_SIGNS = (
    re.compile(
        rb"\bsize\s{1,99}count\s{1,99}type\b|\bbytes\s{1,99}N\s{1,99}type\b|Collective test"
        rb" starting"
    ),
    re.compile(_PROCESS.pattern.encode()),
    re.compile(
        rb"^[ \t]{0,40}\d{1,20}[ \t]{1,40}\d{1,20}[ \t]{1,40}[a-z]\w{0,20}[ \t][^\n]{0,80}\d\.\d",
        re.MULTILINE,
    ),
)


def recognises(log: Log) -> bool:
    """Whether a log has a header or a row of nccl-tests."""
    return any(sign.search(log.content) for sign in _SIGNS)


def read(log: Log, hints: UserHints) -> ParsedLog:
    """All runs of a log; runs of collectives that are not modelled become notes where any run is
    usable.

    Raises:
        ColltoolError: no run is usable.
    """
    runs = _Runs(log.file)
    for number, line in enumerate(log.lines(), 1):
        runs.take(line, number)
    runs.finish_row()
    records: list[Record] = []
    notes: list[Note] = list(runs.stray)
    not_modelled: list[NotModelled] = []
    for run in runs.all:
        if not run.rows and not run.bad:
            if run.table:
                notes.append(Note(statement("empty-table"), log.file, run.table))
            continue
        try:
            run_records, run_notes = records_of(run, hints)
        except NotModelled as error:
            not_modelled.append(error)
            notes += [run.note(statement("refused", error=error.what), row) for row in run.rows]
        else:
            records += run_records
            notes += run_notes
    if records:
        return ParsedLog(records, notes)
    if not_modelled:
        raise not_modelled[0]
    raise _without_rows(runs)


def _without_rows(runs: _Runs) -> ColltoolError:
    """The error for a log in which no run has a row."""
    if runs.stray:
        return ColltoolError(
            "rows without a header line that names the columns",
            where=f"{runs.file}:{runs.stray[0].line}",
            fix="keep the line '#  size  count  type ...' of nccl-tests: do not grep away '#'",
        )
    tables = [run.table for run in runs.all if run.table]
    return ColltoolError(
        "an nccl-tests log without rows",
        where=f"{runs.file}:{tables[0] if tables else 1}",
        fix="the run was cut short or failed; run it again",
    )


class _Runs:
    """The runs of a log, line by line. Logs of several runs may follow each other in one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.all = [TestRun(file)]  # in order; the last one is being read
        self.columns: Columns | None = None  # of the table that is being read, None above one
        self.row: PartialRow | None = None  # that is being read, None between rows
        self.number = 0  # of the line
        self.above = ""  # the line before, if not blank
        self.stray: list[Note] = []  # rows without a name line above them
        self.mentions: set[str] = set()  # programs named since the last table ended

    @property
    def run(self) -> TestRun:
        """The run that is being read."""
        return self.all[-1]

    def take(self, line: str, number: int) -> None:
        """Read the next line."""
        self.number = number
        # a message of NCCL, which is cut off with all others
        if "NCCL version" in line:
            version = _LIBRARY.search(line)
            if version:
                on_library_version(self, version)
        text = untagged(clean(line))
        if not text.strip():
            return
        self._take_text(text, number)
        self.above = text

    def _take_text(self, text: str, number: int) -> None:
        """Read a line as the first of these that it is: the start of a row, the header of a table,
        the rest of a row, a header of a run, a command line."""
        head = row_head(text)
        if head:
            self._start_row(head, number)
            return
        columns = columns_of(text, self.above, number, self.file)
        if columns:
            self._start_table(columns)
        elif not self._is_rest_of_row(text, number):
            check_unit(text, number, self.file)
            for header in _HEADERS:
                match = header.pattern.search(text) if header.word in text else None
                if match:
                    header.on_header(self, match)
                    return
            if "_perf" in text and "#" not in text:
                self.mentions.update(_PROGRAM.findall(text))

    def begin_run_if_past_header(self, *, after_devices: bool = False) -> None:
        """Begin a run if this one has a table or has ended; with ``after_devices`` also if it has
        Rank lines, which come after what announces a run."""
        run = self.run
        if run.table or run.closed or (after_devices and run.devices):
            self.begin_run()

    def begin_run(self) -> None:
        """Begin a run, whose table is yet to come."""
        self.finish_row()
        self.all.append(TestRun(self.file))
        self.columns = None

    def _start_table(self, columns: Columns) -> None:
        """Begin a table below its header line; a closed run is followed by a new one."""
        self.finish_row()
        if self.run.closed:
            self.begin_run()
        self.columns = columns
        run = self.run
        run.time = columns.names[columns.starts[0]]
        run.table = run.table or columns.line
        run.mentions |= self.mentions
        self.mentions = set()

    def _start_row(self, head: str, number: int) -> None:
        """Begin a row; one that has all of its columns is finished at once."""
        self.finish_row()
        if self.columns is None:
            self.stray.append(Note(statement("no-header"), self.file, number))
            return
        self.row = PartialRow(self.columns, number, head)
        if self.row.missing <= 0 or self.row.error:
            self.finish_row()

    def _is_rest_of_row(self, text: str, number: int) -> bool:
        """Whether a line continues the row that is being read, or is a garbled row."""
        if self.row is not None and self.row.add(text):
            if self.row.missing <= 0:
                self.finish_row()
            return True
        if self.columns is not None and looks_like_a_row(text):
            self.finish_row()
            self.run.bad.append(Note(statement("garbled-row"), self.file, number))
            return True
        return False

    def finish_row(self) -> None:
        """Keep the row that is being read, or note why it cannot be used."""
        if self.row is None:
            return
        try:
            self.run.rows.append(self.row.row())
        except UnusableRow as error:
            self.run.bad.append(Note(error.reason, self.file, self.row.line))
        self.row = None


def on_start(runs: _Runs, match: re.Match[str]) -> None:
    """The line that begins a run."""
    runs.begin_run_if_past_header(after_devices=True)
    runs.run.started = match["time"]


def on_processes(runs: _Runs, match: re.Match[str]) -> None:
    """The line that says how many ranks each process drives."""
    runs.begin_run_if_past_header(after_devices=True)
    runs.run.per_process = int(match["threads"]) * int(match["gpus"])


def on_rank(runs: _Runs, match: re.Match[str]) -> None:
    """A line that lists a rank, its process and its host."""
    runs.begin_run_if_past_header()
    rank, group, process, host = match.groups()
    device = Device(int(rank), group or "0", process, host, runs.number)
    runs.run.devices.append(device)


def on_broken_rank(runs: _Runs, _: re.Match[str]) -> None:
    """A line of a rank that was cut: their number is unknown."""
    runs.begin_run_if_past_header()
    runs.run.devices_cut = True


def on_library_version(runs: _Runs, match: re.Match[str]) -> None:
    """A line in which NCCL or RCCL names its version."""
    # NCCL says its version in the middle of a run, too
    if runs.run.closed:
        runs.begin_run()
    runs.run.library = match["library"]
    runs.run.library_version = match["version"]


def on_tests_version(runs: _Runs, match: re.Match[str]) -> None:
    """A line in which nccl-tests or rccl-tests names its version."""
    library = match["above"]
    version = match["version"]
    if library:
        runs.begin_run_if_past_header(after_devices=True)
    else:
        # rccl-tests says its version after the Rank lines
        library = match["below"]
        version = match["rccl_version"]
    run = runs.run
    run.library = library.upper()
    run.tests_version = f"{library}-tests {version}".strip()
    stated = _LIBRARY_CODE.search(match.string)
    if stated:
        run.library_version = version_text(int(stated["code"]))


def on_end(runs: _Runs, match: re.Match[str]) -> None:
    """The line that ends a run."""
    runs.finish_row()
    runs.run.started = runs.run.started or match["time"]
    runs.run.closed = True


def on_average(runs: _Runs, _: re.Match[str]) -> None:
    """The line below a table."""
    runs.finish_row()
    runs.run.closed = bool(runs.run.table)


class _Header(NamedTuple):
    """A line of a run outside of its table, and what is done with it; ``word`` must be in it, which
    is far cheaper to look for than the pattern."""

    word: str
    pattern: re.Pattern[str]
    on_header: Callable[[_Runs, re.Match[str]], None]


# the first that matches a line takes it
_HEADERS = (
    # "# Collective test starting: all_reduce_perf"
    _Header("starting", re.compile(r"Collective test starting: *(?P<time>\S+)"), on_start),
    _Header("nThread", _PROCESS, on_processes),
    # "#  Rank  0 Group  0 Pid   4711 on     node1 device  0 [0000:07:00] NVIDIA H100 80GB HBM3"
    _Header(
        "Rank",
        re.compile(r"Rank +(\d{1,9}) +(?:Group +(-?\d+) +)?Pid +(\d+) +on +(\S+) +device"),
        on_rank,
    ),
    _Header("Rank", re.compile(r"# *Rank +\d"), on_broken_rank),
    _Header(
        "ccl-tests",
        re.compile(
            r"# *(?P<above>nccl|rccl)-tests version (?P<version>\S+)"
            r"|\b(?P<below>rccl)-tests: Version *(?P<rccl_version>\S*)"
        ),
        on_tests_version,
    ),
    _Header("version", _LIBRARY, on_library_version),
    # "# Collective test concluded: all_reduce_perf"
    _Header("concluded", re.compile(r"Collective test concluded: *(?P<time>\S+)"), on_end),
    # "# Avg bus bandwidth    : 380.2"
    _Header("Avg bus", re.compile(r"# *Avg bus bandwidth"), on_average),
)


def version_text(code: int) -> str:
    """NCCL's version code as text: 22902 is 2.29.2, and 2804, of four digits before 2.9, 2.8.4."""
    major = 10000 if code >= 10000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"


FORMAT = Format(
    "nccl-tests",
    "nccl-tests and rccl-tests text ('#  size  count  type ...')",
    recognises,
    read,
    shares=True,
)
