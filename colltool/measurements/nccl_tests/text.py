"""Text logs of nccl-tests and rccl-tests, of any generation, cut into runs with header and table."""

from __future__ import annotations

import re
from collections.abc import Callable

from colltool.base.errors import ColltoolError
from colltool.measurements.busbw_ratio import UnusableRow, looks_like_a_row
from colltool.measurements.log import Format, Log, Note, ParsedLog, Record, UserHints, clean
from colltool.measurements.nccl_tests.records import NotModelled, records_of
from colltool.measurements.nccl_tests.table import Columns, Device, Pieces, TestRun, check_unit, columns, row_head, spelled

_STARTED = re.compile(r"Collective test starting: *(\S+)")
_CONCLUDED = re.compile(r"Collective test concluded: *(\S+)")
_PROCESS = re.compile(r"nThread (\d{1,6}) nGpus (\d{1,6}) ")
_RANK = re.compile(r"Rank +(\d{1,9}) +(?:Group +(-?\d+) +)?Pid +(\d+) +on +(\S+) +device")
_RANK_CUT = re.compile(r"# *Rank +\d")
_TESTS = re.compile(r"# *(nccl|rccl)-tests version (\S+)|\b(rccl)-tests: Version *(\S*)")
_LIBRARY = re.compile(r"\b(NCCL|RCCL) version *:? *(\d[\w.+:-]*)")
_LIBRARY_CODE = re.compile(r"nccl-library=(\d{4,6})\b")
_PROGRAM = re.compile(
    r"\b((?:all_?reduce|all_?gather|reduce_?scatter|alltoallv?|broadcast|reduce|sendrecv|gather|scatter|hypercube)_perf)\b"
)
_SIGNS = (
    re.compile(rb"\bsize\s{1,99}count\s{1,99}type\b|\bbytes\s{1,99}N\s{1,99}type\b|Collective test starting"),
    re.compile(_PROCESS.pattern.encode()),
    re.compile(rb"^[ \t]{0,40}\d{1,20}[ \t]{1,40}\d{1,20}[ \t]{1,40}[a-z]\w{0,20}[ \t][^\n]{0,80}\d\.\d", re.MULTILINE),
)
_END = re.compile(r"# *Avg bus bandwidth")


def recognises(log: Log) -> bool:
    return any(sign.search(log.content) for sign in _SIGNS)


def read(log: Log, stated: UserHints) -> ParsedLog:
    runs = _Runs(log.file)
    for number, line in enumerate(log.lines(), 1):
        runs.take(line, number)
    runs.flush()
    timings: list[Record] = []
    notes: list[Note] = list(runs.stray)
    other: list[NotModelled] = []
    for run in runs.all:
        if not run.rows and not run.bad:
            notes += [Note("a table without rows", log.file, run.table)] if run.table else []
            continue
        try:
            more = records_of(run, stated)
        except NotModelled as error:
            other.append(error)
            notes += [run.note(error.what, row) for row in run.rows]
        else:
            timings += more[0]
            notes += more[1]
    if not timings:
        raise other[0] if other else _nothing(runs)
    return ParsedLog(tuple(timings), tuple(notes))


def _nothing(runs: _Runs) -> ColltoolError:
    if runs.stray:
        what, line = "rows without a header line that names the columns", runs.stray[0].line
        return ColltoolError(
            what, where=f"{runs.file}:{line}", fix="keep the line '#  size  count  type ...' of nccl-tests: do not grep away '#'"
        )
    table = next((run.table for run in runs.all if run.table), 1)
    return ColltoolError(
        "an nccl-tests log without rows", where=f"{runs.file}:{table}", fix="the run was cut short or failed; run it again"
    )


class _Runs:
    def __init__(self, file: str) -> None:
        self.file = file
        self.all = [TestRun(file)]
        self.layout: Columns | None = None
        self.pieces: Pieces | None = None
        self.above = ""
        self.stray: list[Note] = []  # rows without a name line above them
        self.mentions: set[str] = set()  # programs named since the last table ended
        # a word that a line must contain, far cheaper to look for than the pattern
        self.header: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str], int], None]], ...] = (
            ("starting", _STARTED, self._started),
            ("nThread", _PROCESS, self._process),
            ("Rank", _RANK, self._rank),
            ("Rank", _RANK_CUT, self._rank_cut),
            ("ccl-tests", _TESTS, self._tests),
            ("version", _LIBRARY, self._library),
            ("concluded", _CONCLUDED, self._concluded),
            ("Avg bus", _END, self._end),
        )

    @property
    def run(self) -> TestRun:
        return self.all[-1]

    def take(self, line: str, number: int) -> None:
        if "NCCL version" in line and (version := _LIBRARY.search(line)):
            self._library(version, number)
        text = clean(line)
        if not text.strip():
            return
        if head := row_head(text):
            self._row(head, number)
        elif layout := columns(text, self.above, number, self.file):
            self._table(layout)
        elif not self._rest(text, number):
            self._other(text, number)
        self.above = text

    def _other(self, text: str, number: int) -> None:
        check_unit(text, number, self.file)
        for word, pattern, act in self.header:
            if word in text and (match := pattern.search(text)):
                act(match, number)
                return
        if "_perf" in text and "#" not in text:
            self.mentions.update(_PROGRAM.findall(text))

    def _fresh(self, *, begun: bool) -> None:
        if begun or self.run.closed:
            self.flush()
            self.all.append(TestRun(self.file))
            self.layout = None

    def _header(self) -> None:
        self._fresh(begun=bool(self.run.devices or self.run.table))

    def _started(self, match: re.Match[str], _: int) -> None:
        self._header()
        self.run.started = match[1]

    def _process(self, match: re.Match[str], _: int) -> None:
        self._header()
        self.run.per_process = int(match[1]) * int(match[2])

    def _tests(self, match: re.Match[str], _: int) -> None:
        if match[1]:
            self._header()
        library = (match[1] or match[3]).upper()
        self.run.library = library
        self.run.tests_version = f"{library.lower()}-tests {match[2] or match[4]}".strip()
        if code := _LIBRARY_CODE.search(match.string):
            self.run.library_version = spelled(int(code[1]))

    def _library(self, match: re.Match[str], _: int) -> None:
        self._fresh(begun=False)
        self.run.library, self.run.library_version = match[1], match[2]

    def _rank(self, match: re.Match[str], number: int) -> None:
        self._fresh(begun=bool(self.run.table))
        self.run.devices.append(Device(int(match[1]), match[2] or "0", match[3], match[4], number))

    def _rank_cut(self, _match: re.Match[str], _: int) -> None:
        self._fresh(begun=bool(self.run.table))
        self.run.devices_cut = True

    def _concluded(self, match: re.Match[str], _: int) -> None:
        self.flush()
        self.run.started = self.run.started or match[1]
        self.run.closed = True

    def _end(self, _match: re.Match[str], _: int) -> None:
        self.flush()
        self.run.closed = bool(self.run.table)

    def _table(self, layout: Columns) -> None:
        self.flush()
        self._fresh(begun=False)
        self.layout, self.run.time = layout, layout.time
        self.run.table = self.run.table or layout.line
        self.run.mentions |= self.mentions
        self.mentions = set()

    def _row(self, head: str, number: int) -> None:
        self.flush()
        if self.layout is None:
            self.stray.append(Note("a row without a header line above it", self.file, number))
            return
        self.pieces = Pieces(self.layout, number, head)
        if self.pieces.missing <= 0:
            self.flush()

    def _rest(self, text: str, number: int) -> bool:
        if self.pieces is not None and self.pieces.add(text):
            if self.pieces.missing <= 0:
                self.flush()
            return True
        if self.layout is not None and looks_like_a_row(text):
            self.flush()
            self.run.bad.append(Note("garbled: no row of this table", self.file, number))
            return True
        return False

    def flush(self) -> None:
        if self.pieces is None:
            return
        try:
            self.run.rows.append(self.pieces.row())
        except UnusableRow as error:
            self.run.bad.append(Note(str(error), self.file, self.pieces.number))
        self.pieces = None


FORMAT = Format("nccl-tests and rccl-tests text ('#  size  count  type ...')", recognises, read, shares=True)
