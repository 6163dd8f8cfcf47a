"""OSU micro-benchmarks: latency of collectives and of messages, and bandwidth of one or several
pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.busbw_ratio import UnusableRow, looks_like_a_row
from colltool.logs.log_file import Log, clean
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints, nothing_usable
from colltool.logs.sentences import statement
from colltool.logs.tables import (
    STREAM,
    LogTable,
    MeasuredRow,
    add_records,
    has,
    numbers,
    reader_of,
)

# By the title without spaces and hyphens. A reduce-scatter's size is what a rank sends in all, as
# in nccl-tests.
_TITLES = {
    "allreduce": AR,
    "allgather": AG,
    "alltoall": A2A,
    "alltoallpersonalizedexchange": A2A,
    "broadcast": BC,
    "bcast": BC,
    "reduce": REDUCE,
    "reducescatter": RS,
    "reducescatterblock": RS,
    "": P2P,
}
_MOST_VALUES = 20  # of a row
_PER_PEER = (AG, A2A)  # their size is per rank, ours the total
_SIGN = re.compile(rb"# {0,9}OSU [^\n]{0,100}Test")
# one space in a row
_TITLE = re.compile(r"# ?OSU (?:(MPI|[A-Za-z]*CCL)[\w-]*[ _]+)?(.{0,80}?) ?Test(?: v?(\d[\w.]*))?$")
_NAMES = re.compile(r"# *(Size\b.*\(us\).*)")
_DTYPE = re.compile(r"# *Datatype: *([\w-]+)")
_BETWEEN = re.compile(r"\s{2,}|(?<=\))\s+|(?<=^Size)\s+")
_AVERAGES = ("avglatency(us)", "latency(us)")


@dataclass
class _Test:
    """A test of a log: its title, columns and rows."""

    title: str
    library: str
    version: str
    line: int
    dtype: str = ""
    names: list[str] = field(default_factory=list)
    rows: list[tuple[int, str]] = field(default_factory=list)

    @property
    def primitive(self) -> Primitive | None:
        """None for a test of anything but the latency of a modelled primitive."""
        title, latency, rest = self.title.partition("Latency")
        if not latency or rest.strip():
            return None
        return _TITLES.get(re.sub(r"[\s_-]", "", title).lower())


def read_latency(log: Log, hints: UserHints) -> ParsedLog:
    """All latency tests of a log; other tests are notes where any test is usable."""
    records: list[Record] = []
    notes: list[Note] = []
    unusable: list[ColltoolError] = []
    for test in _tests(log, notes):
        primitive = test.primitive
        if primitive is not None and test.names:
            if test.rows:
                _add_test(test, primitive, log, hints, records, notes)
            else:
                notes.append(Note(statement("empty-table"), log.file, test.line))
            continue
        if primitive is None:
            what = f"'OSU {test.title} Test' is not the latency of a modelled primitive"
            fix = f"known: {', '.join(filter(None, _TITLES))}"
        else:
            what = "an OSU test without its column names"
            fix = "keep the line '# Size  Avg Latency(us)'"
        reason = statement("refused", error=what)
        unusable.append(ColltoolError(what, where=f"{log.file}:{test.line}", fix=fix))
        notes += [Note(reason, log.file, number) for number, _ in test.rows]
    if records:
        return ParsedLog(records, notes)
    if unusable:
        raise unusable[0]
    raise ColltoolError(
        "an OSU log without rows",
        where=f"{log.file}:{notes[0].line if notes else 1}",
        fix="the run was cut short or failed; run it again",
    )


def _tests(log: Log, notes: list[Note]) -> list[_Test]:
    """The tests of a log in order; garbled rows become notes."""
    tests: list[_Test] = []
    for number, line in enumerate(log.lines(), 1):
        text = clean(line)
        title = _TITLE.search(" ".join(text.split())) if "OSU" in text else None
        if title:
            version = f"OSU {title[3]}" if title[3] else "OSU"
            tests.append(_Test(title[2], title[1] or "", version, number))
        elif tests:
            _take(tests[-1], text, number, log.file, notes)
    return tests


def _take(test: _Test, text: str, number: int, file: str, notes: list[Note]) -> None:
    """Add a line to the test above it."""
    if "#" in text:
        dtype = _DTYPE.search(text)
        names = _NAMES.search(text)
        if dtype:
            test.dtype = dtype[1]
        elif names:
            columns = _BETWEEN.split(names[1].strip())
            test.names = ["".join(column.lower().split()) for column in columns]
        return
    words = text.split(None, _MOST_VALUES)
    if words and words[0][0].isdigit() and len(words) < _MOST_VALUES:
        test.rows.append((number, text))
    elif looks_like_a_row(text):
        notes.append(Note(statement("garbled-row"), file, number))


def _add_test(
    test: _Test,
    primitive: Primitive,
    log: Log,
    hints: UserHints,
    records: list[Record],
    notes: list[Note],
) -> None:
    """Add the records of a latency test; ColltoolError where none of its rows is usable."""
    # Ping-pong is between two, whatever was launched.
    ranks = 2 if primitive is P2P else None
    table = LogTable(primitive, ranks, test.library, test.version, test.line)
    table.called = "an OSU log"
    table.dtype = test.dtype
    table.per_peer = primitive in _PER_PEER
    bad: list[Note] = []
    for number, text in test.rows:
        try:
            table.rows.append(_row(test.names, number, text.split()))
        except UnusableRow as error:
            bad.append(Note(error.reason, log.file, number))
    before = len(records)
    add_records(table, log.file, hints, records, bad)
    if len(records) == before:
        first = min(bad, key=attrgetter("line"))
        raise nothing_usable(
            f"no row of this table can be used; the first: {first.reason}",
            bad,
            first.where,
            f"the table starts at line {test.line}; measure it again",
        )
    notes += bad


def _row(names: list[str], line: int, words: list[str]) -> MeasuredRow:
    """The size and the average time of a row; UnusableRow where cells are missing."""
    if len(words) < len(names):
        raise UnusableRow("truncated")
    if len(words) > len(names) and "iterations" not in names[-1]:
        raise UnusableRow("too-many-values")
    cells = dict(zip(names, words, strict=False))
    if "fail" in cells.get("validation", "").lower():
        raise UnusableRow("validation-failed")
    time = next((cells[name] for name in _AVERAGES if name in cells), "")
    return MeasuredRow(line, words[0], time)


_RATE_TITLE = re.compile(rb"# {0,9}OSU [^\n]{0,60}(?:Bandwidth|Message Rate)[^\n]{0,40}Test")
_PAIRS = re.compile(r"\[ *pairs: *(\d{1,6}) *\]")
_WINDOW = 64  # messages in flight of OSU's bandwidth tests


def _rates(log: Log) -> Iterator[LogTable]:
    """A table per bandwidth test."""
    table = None
    pairs = 1
    ways = 1
    for number, text in log.clean_lines():
        found = _PAIRS.search(text)
        if "OSU" in text and "Test" in text:
            library = next((name for name in ("NCCL", "RCCL") if name in text), "MPI")
            ways = 2 if "Bi-Directional" in text else 1
            table = LogTable(P2P, 2, library, "OSU bandwidth test", number, note=STREAM)
            yield table
        elif found:
            pairs = int(found[1])
        elif table:
            words = numbers(text, 2)
            if words:
                rate_Bps = float(words[1]) * 1e6 / (pairs * ways)
                table.add_stream(number, words[0], _WINDOW, rate_Bps)


LATENCY = Format(
    "OSU", "OSU ('# OSU MPI Allreduce Latency Test')", has(_SIGN), read_latency, shares=True
)
RATES = Format(
    "OSU", "OSU bandwidth ('# OSU MPI Bandwidth Test')", has(_RATE_TITLE), reader_of(_rates)
)
