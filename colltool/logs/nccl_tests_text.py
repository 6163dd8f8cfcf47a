"""Logs of nccl-tests and rccl-tests: text of any generation, cut into runs with header and
table.

:func:`recognises` and :func:`read` are the entries; :class:`_Runs` walks the lines, and reads the
header and the table of each run by the functions below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.logs.log_file import Log, clean
from colltool.logs.nccl_rows import Device, TestRun
from colltool.logs.nccl_runs import NotModelled, records_of
from colltool.logs.nccl_table import IN, OUT, Columns, TextRow
from colltool.logs.printed_numbers import UnusableRow, looks_like_a_row, rounding_interval
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
_TIMES = ("time", "cputime")
_AFTER_THE_HALVES = ("timestamp", "algo", "proto", "nchannels")
# "     1048576        262144     float     sum      -1    45.12   23.24   43.58      0"
_ROW = re.compile(r"(?:^|\s)(\d+)\s+\d+\s+[a-z]\w*(?=\s|$)")
# "[0]" between the cells of a row
_TAG = re.compile(r"\[\d{1,5}\](?=\s|$)")
# printed into the line of a row that was not finished: who says it, then what
_ERROR = re.compile(
    r"(?:[\w.-]+: )?(?:\.\. )?(?:Test (?:NCCL |CUDA |HIP )?[Ff]ailure|NCCL failure|Cuda failure|CUDA error|HIP error"
    r"|terminate called|Segmentation fault|Bus error|Killed|\*\*\* |slurmstepd|srun: |mpirun|Traceback"
    r"|\[[\w.-]+:\d+\] )"
)
_MOST_QUOTED = 160  # characters of an error that are quoted
# "#       (B)    (elements)                               (ms)  (GB/s)  (GB/s)"
_OTHER_UNIT = re.compile(r"\((ms|s|ns)\)")
_AGAIN = "measure again with a current nccl-tests"


def recognises(log: Log) -> bool:
    """Whether a log has a header or a row of nccl-tests."""
    return any(sign.search(log.content) for sign in _SIGNS)


def read(log: Log, hints: UserHints) -> ParsedLog:
    """All runs of a log; runs of other collectives are notes where any run is usable."""
    runs = _Runs(log.file)
    for number, line in enumerate(log.lines(), 1):
        runs.take(line, number)
    runs.finish_row()
    records: list[Record] = []
    notes: list[Note] = list(runs.stray)
    other: list[NotModelled] = []
    for run in runs.all:
        if not run.rows and not run.bad:
            if run.table:
                notes.append(Note(statement("empty-table"), log.file, run.table))
            continue
        try:
            found, doubts = records_of(run, hints)
        except NotModelled as error:
            other.append(error)
            notes += [run.note(statement("refused", error=error.what), call) for call in run.rows]
        else:
            records += found
            notes += doubts
    if records:
        return ParsedLog(records, notes)
    if other:
        raise other[0]
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
        self.all = [TestRun(file)]
        self.columns: Columns | None = None
        self.pieces: Pieces | None = None
        self.number = 0  # of the line
        self.above = ""
        self.stray: list[Note] = []  # rows without a name line above them
        self.mentions: set[str] = set()  # programs named since the last table ended

    @property
    def run(self) -> TestRun:
        return self.all[-1]

    def take(self, line: str, number: int) -> None:
        self.number = number
        # a message of NCCL, which is cut off with all others
        if "NCCL version" in line:
            version = _LIBRARY.search(line)
            if version:
                library_version(self, version)
        text = untagged(clean(line))
        if not text.strip():
            return
        self._take_text(text, number)
        self.above = text

    def _take_text(self, text: str, number: int) -> None:
        """Read a line as the start of a row, the header of a table, the rest of a row, or a header
        of a run."""
        head = row_head(text)
        if head:
            self._start_row(head, number)
            return
        columns = columns_of(text, self.above, number, self.file)
        if columns:
            self._start_table(columns)
        elif not self._is_rest_of_row(text, number):
            check_unit(text, number, self.file)
            for header in HEADERS:
                match = header.pattern.search(text) if header.word in text else None
                if match:
                    header.take(self, match)
                    return
            if "_perf" in text and "#" not in text:
                self.mentions.update(_PROGRAM.findall(text))

    def begin_run_after(self, *, devices: bool = False) -> None:
        """Begin a run if this one has a table, has ended, or has Rank lines: those come after what
        announces a run."""
        run = self.run
        if run.table or run.closed or (devices and run.devices):
            self.begin_run()

    def begin_run(self) -> None:
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
        self.pieces = Pieces(self.columns, number, head)
        if self.pieces.missing <= 0 or self.pieces.error:
            self.finish_row()

    def _is_rest_of_row(self, text: str, number: int) -> bool:
        """Whether a line continues the row that is being read, or is a garbled row."""
        if self.pieces is not None and self.pieces.add(text):
            if self.pieces.missing <= 0:
                self.finish_row()
            return True
        if self.columns is not None and looks_like_a_row(text):
            self.finish_row()
            self.run.bad.append(Note(statement("garbled-row"), self.file, number))
            return True
        return False

    def finish_row(self) -> None:
        """Keep the row that is being read, or note why it cannot be used."""
        if self.pieces is None:
            return
        try:
            self.run.rows.append(self.pieces.row())
        except UnusableRow as error:
            self.run.bad.append(Note(error.reason, self.file, self.pieces.number))
        self.pieces = None


class Header(NamedTuple):
    """A header line of a run; ``word`` must be in it, which is far cheaper to look for than the
    pattern."""

    word: str
    pattern: re.Pattern[str]
    take: Callable[[_Runs, re.Match[str]], None]


def started(runs: _Runs, match: re.Match[str]) -> None:
    """The line that begins a run."""
    runs.begin_run_after(devices=True)
    runs.run.started = match["time"]


def processes(runs: _Runs, match: re.Match[str]) -> None:
    """The line that says how many ranks each process drives."""
    runs.begin_run_after(devices=True)
    runs.run.per_process = int(match["threads"]) * int(match["gpus"])


def rank_line(runs: _Runs, match: re.Match[str]) -> None:
    """A line that lists a rank, its process and its host."""
    runs.begin_run_after()
    rank, group, process, host = match.groups()
    device = Device(int(rank), group or "0", process, host, runs.number)
    runs.run.devices.append(device)


def broken_rank_line(runs: _Runs, _: re.Match[str]) -> None:
    """A line of a rank that was cut: their number is unknown."""
    runs.begin_run_after()
    runs.run.devices_cut = True


def library_version(runs: _Runs, match: re.Match[str]) -> None:
    """A line in which NCCL or RCCL names its version."""
    # NCCL says its version in the middle of a run, too
    if runs.run.closed:
        runs.begin_run()
    runs.run.library = match["library"]
    runs.run.library_version = match["version"]


def tests_version(runs: _Runs, match: re.Match[str]) -> None:
    """A line in which nccl-tests or rccl-tests names its version."""
    library = match["above"]
    version = match["version"]
    if library:
        runs.begin_run_after(devices=True)
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


def concluded(runs: _Runs, match: re.Match[str]) -> None:
    """The line that ends a run."""
    runs.finish_row()
    runs.run.started = runs.run.started or match["time"]
    runs.run.closed = True


def average_line(runs: _Runs, _: re.Match[str]) -> None:
    """The line below a table."""
    runs.finish_row()
    runs.run.closed = bool(runs.run.table)


# the first that matches a line takes it
HEADERS = (
    # "# Collective test starting: all_reduce_perf"
    Header("starting", re.compile(r"Collective test starting: *(?P<time>\S+)"), started),
    Header("nThread", _PROCESS, processes),
    # "#  Rank  0 Group  0 Pid   4711 on     node1 device  0 [0000:07:00] NVIDIA H100 80GB HBM3"
    Header(
        "Rank",
        re.compile(r"Rank +(\d{1,9}) +(?:Group +(-?\d+) +)?Pid +(\d+) +on +(\S+) +device"),
        rank_line,
    ),
    Header("Rank", re.compile(r"# *Rank +\d"), broken_rank_line),
    Header(
        "ccl-tests",
        re.compile(
            r"# *(?P<above>nccl|rccl)-tests version (?P<version>\S+)"
            r"|\b(?P<below>rccl)-tests: Version *(?P<rccl_version>\S*)"
        ),
        tests_version,
    ),
    Header("version", _LIBRARY, library_version),
    # "# Collective test concluded: all_reduce_perf"
    Header("concluded", re.compile(r"Collective test concluded: *(?P<time>\S+)"), concluded),
    # "# Avg bus bandwidth    : 380.2"
    Header("Avg bus", re.compile(r"# *Avg bus bandwidth"), average_line),
)


def untagged(text: str) -> str:
    """Remove the [0] that a launcher puts before each piece that a rank printed, also between the
    cells of a row."""
    return _TAG.sub(" ", text) if "]" in text and "Rank" not in text else text


def columns_of(text: str, above: str, line: int, file: str) -> Columns | None:
    """The columns of a header line, None for any other line; ``above`` is the line before, which
    labels the halves."""
    if "algbw" not in text:
        return None
    words = [word.lstrip("#") for word in text.split()]
    if "bytes" in words and "time" in words and "size" not in words:
        raise ColltoolError(
            "a table of nccl-tests 2.0 or older, whose times are in ms, rounded to 1 us",
            where=f"{file}:{line}",
            fix=_AGAIN,
        )
    if "size" not in words or "type" not in words:
        return None
    names = tuple(filter(None, words[words.index("size") :]))
    starts = tuple(place for place, name in enumerate(names) if name in _TIMES)
    if len(starts) not in (1, 2) or names[:3] != ("size", "count", "type") or starts[0] < 3:
        return None
    end = len(names)
    for place, name in enumerate(names):
        if name in _AFTER_THE_HALVES:
            end = place
            break
    labels: tuple[str, ...] = (OUT, IN)
    if len(starts) == 2:
        end = starts[1]
    else:
        labels = (IN,) if IN in above and OUT not in above else (OUT,)
    return Columns(
        line,
        names,
        labels,
        starts,
        width=end - starts[0],
        values=len(names) + names.count("timestamp"),
        without_redop="redop" in names,
    )


def check_unit(text: str, line: int, file: str) -> None:
    """Raise ColltoolError if the line below the names gives times in another unit than us."""
    unit = _OTHER_UNIT.search(text.partition("(B)")[2])
    if unit:
        raise ColltoolError(f"times in {unit[1]}, not us", where=f"{file}:{line}", fix=_AGAIN)


def row_head(text: str) -> str | None:
    """A row from its size on; None for other lines."""
    head = _ROW.search(text)
    if head is None or "#" in text[: head.start(1)]:
        return None
    return text[head.start(1) :]


def cells_and_error(text: str, columns: Columns) -> tuple[str, str]:
    """The cells of a row, and the error that a process printed into its line. Empty without one."""
    error = _ERROR.search(text)
    # behind the size, the count and the type, whose words are no error's
    if error is None or len(text[: error.start()].split()) < columns.starts[0] - 2:
        return text, ""
    return text[: error.start()], text[error.start() :].strip()[:_MOST_QUOTED]


class Pieces:
    """The row being read: NCCL messages may break it in the middle, and the rest follows on a later
    line."""

    def __init__(self, columns: Columns, number: int, head: str) -> None:
        self.columns = columns
        self.number = number
        self.text, self.error = cells_and_error(head, columns)
        self.joined = False
        self.missing = columns.values - len(columns.words(self.text))  # negative: too many

    def add(self, text: str) -> bool:
        """Whether a line is the next piece of the row."""
        words = text.split(None, max(self.missing, 0))
        if not words or len(words) > self.missing:
            return False
        if words[0] != "N/A" and not rounding_interval(words[0]):
            return False
        self.text += f" {' '.join(words)}"
        self.missing -= len(words)
        self.joined = True
        return True

    def row(self) -> TextRow:
        if self.error and self.missing:
            raise UnusableRow("run-failed", error=self.error)
        if self.missing < 0:
            raise UnusableRow("too-many-values")
        # a whole half may be missing: one of the two was not measured
        one_half = len(self.columns.starts) == 2 and self.missing == self.columns.width
        if self.missing and not one_half:
            raise UnusableRow("truncated")
        return TextRow(self.number, self.text, self.columns, self.joined)


def version_text(code: int) -> str:
    """NCCL's version code as text: 22902 is 2.29.2, and before 2.9 2804 was 2.8.4."""
    major = 10000 if code >= 10000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"


FORMAT = Format(
    "nccl-tests",
    "nccl-tests and rccl-tests text ('#  size  count  type ...')",
    recognises,
    read,
    shares=True,
)
