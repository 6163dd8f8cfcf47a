"""Logs of nccl-tests and rccl-tests, of any generation: cut into tests, each with its header and its table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from colltool.errors import ColltoolError
from colltool.measured.nccl.run import Device, Run
from colltool.measured.nccl.settle import Rowless, settle
from colltool.measured.nccl.table import Columns, Pieces, check_unit, columns, looks_like_a_row, row_head
from colltool.measured.rows import Note, Reading, Stated, Timing, Unusable
from colltool.measured.text import clean

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
    re.compile(r"\bsize\s+count\s+type\b|\bbytes\s+N\s+type\b|Collective test starting"),
    _PROCESS,
    re.compile(r"^[ \t]{0,40}\d{1,20}[ \t]{1,40}\d{1,20}[ \t]{1,40}[a-z]\w{0,20}[ \t][^\n]{0,80}\d\.\d", re.MULTILINE),
)
_END = re.compile(r"# *Avg bus bandwidth")


def recognises(text: str) -> bool:
    """Whether the text holds the name line of a table, or what is left of a run: its header, or bare rows."""
    return any(sign.search(text) for sign in _SIGNS)


def read(lines: Sequence[str], file: str, stated: Stated) -> Reading:
    """All rows of a log.

    Raises:
        ColltoolError: no table, or one that cannot be used.
    """
    log = _Log(file)
    for number, line in enumerate(lines, 1):
        log.take(line, number)
    log.flush()
    rows: list[Timing] = []
    notes: list[Note] = list(log.stray)
    other: list[Rowless] = []
    for test in log.tests:
        if not test.lines and not test.bad:
            notes += [Note("a table without rows", file, test.table)] if test.table else []
            continue
        try:
            more = settle(test, stated)
        except Rowless as error:
            other.append(error)
            notes += [test.note(error.what, line) for line in test.lines]
        else:
            rows += more[0]
            notes += more[1]
    if not rows:
        raise other[0] if other else _nothing(log)
    return Reading(tuple(rows), tuple(notes))


def _nothing(log: _Log) -> ColltoolError:
    if log.stray:
        what, line = "rows, but no line above them that names the columns", log.stray[0].line
        return ColltoolError(
            what, where=f"{log.file}:{line}", fix="keep the line '#  size  count  type ...' of nccl-tests: do not grep away '#'"
        )
    table = next((test.table for test in log.tests if test.table), 1)
    return ColltoolError(
        "a log of nccl-tests without any row", where=f"{log.file}:{table}", fix="the run was cut short or failed; run it again"
    )


class _Log:
    """A log on its way from lines to tests."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.tests = [Run(file)]
        self.layout: Columns | None = None
        self.pieces: Pieces | None = None
        self.above = ""
        self.stray: list[Note] = []  # rows without a name line above them
        self.mentions: set[str] = set()  # programs named since the last table ended
        self.header: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], int], None]], ...] = (
            (_STARTED, self._started),
            (_PROCESS, self._process),
            (_RANK, self._rank),
            (_RANK_CUT, self._rank_cut),
            (_TESTS, self._tests),
            (_LIBRARY, self._library),
            (_CONCLUDED, self._concluded),
            (_END, self._end),
        )

    @property
    def test(self) -> Run:
        """The test that the log is in."""
        return self.tests[-1]

    def take(self, line: str, number: int) -> None:
        """The next line."""
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
        for pattern, act in self.header:
            if match := pattern.search(text):
                act(match, number)
                return
        if "#" not in text:
            self.mentions.update(_PROGRAM.findall(text))

    def _fresh(self, *, begun: bool) -> None:
        """Start another test, where what was read belongs to one that has ended or ``begun``."""
        if begun or self.test.closed:
            self.flush()
            self.tests.append(Run(self.file))
            self.layout = None

    def _header(self) -> None:
        self._fresh(begun=bool(self.test.devices or self.test.table))

    def _started(self, match: re.Match[str], _: int) -> None:
        self._header()
        self.test.started = match[1]

    def _process(self, match: re.Match[str], _: int) -> None:
        self._header()
        self.test.per_process = int(match[1]) * int(match[2])

    def _tests(self, match: re.Match[str], _: int) -> None:
        if match[1]:
            self._header()
        library = (match[1] or match[3]).upper()
        self.test.library = library
        self.test.tests_version = f"{library.lower()}-tests {match[2] or match[4]}".strip()
        if code := _LIBRARY_CODE.search(match.string):
            self.test.library_version = spelled(int(code[1]))

    def _library(self, match: re.Match[str], _: int) -> None:
        self._fresh(begun=False)
        self.test.library, self.test.library_version = match[1], match[2]

    def _rank(self, match: re.Match[str], number: int) -> None:
        self._fresh(begun=bool(self.test.table))
        self.test.devices.append(Device(int(match[1]), match[2] or "0", match[3], match[4], number))

    def _rank_cut(self, _match: re.Match[str], _: int) -> None:
        self._fresh(begun=bool(self.test.table))
        self.test.devices_cut = True

    def _concluded(self, match: re.Match[str], _: int) -> None:
        self.flush()
        self.test.started = self.test.started or match[1]
        self.test.closed = True

    def _end(self, _match: re.Match[str], _: int) -> None:
        self.flush()
        self.test.closed = bool(self.test.table)

    def _table(self, layout: Columns) -> None:
        self.flush()
        self._fresh(begun=False)
        self.layout, self.test.time = layout, layout.time
        self.test.table = self.test.table or layout.line
        self.test.mentions |= self.mentions
        self.mentions = set()

    def _row(self, head: re.Match[str], number: int) -> None:
        self.flush()
        if self.layout is None:
            self.stray.append(Note("a row without a line above it that names the columns", self.file, number))
            return
        self.pieces = Pieces(self.layout, number, head)
        if self.pieces.missing <= 0:
            self.flush()

    def _rest(self, text: str, number: int) -> bool:
        """Whether the line belongs to a row: the rest of the one before, or one that is garbled."""
        if self.pieces is not None and self.pieces.add(text):
            if self.pieces.missing <= 0:
                self.flush()
            return True
        if self.layout is not None and looks_like_a_row(text):
            self.flush()
            self.test.bad.append(Note("garbled: no row of this table", self.file, number))
            return True
        return False

    def flush(self) -> None:
        """End the row that is being read."""
        if self.pieces is None:
            return
        try:
            self.test.lines.append(self.pieces.line())
        except Unusable as error:
            self.test.bad.append(Note(str(error), self.file, self.pieces.number))
        self.pieces = None


def spelled(code: int) -> str:
    """NCCL's version code as people write it: 22902 is 2.29.2, and before 2.9 2804 was 2.8.4."""
    major = 10000 if code >= 10000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"
