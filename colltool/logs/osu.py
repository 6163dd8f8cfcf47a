"""OSU micro-benchmarks, versions 3 to 7.5: latency of collectives and of messages, and bandwidth of
one or several pairs.

A test begins with ``# OSU MPI-CUDA Allreduce Latency Test v7.4`` (NCCL and RCCL in the place of
MPI; ``-CUDA``, ``-ROCM``, ``-SYCL``, ``-OPENACC``, ``MANAGED`` behind it: buffers on devices),
followed by its column names: the size, the average, and by options ``Min``, ``Max`` and
``Iterations`` (``-f``), ``Validation`` (``-c``), percentiles (``-u``: ``P50 Tail Lat(us)``),
``Transmit Size`` (``-D``). Version 7.3 forgets the names of what ``-f`` adds. Non-blocking tests
give the time without overlap as ``Pure Comm.(us)``. Bandwidths are of a window of messages, 64
where the test does not say.

Hosts and ranks stand in the launch line alone, see :mod:`colltool.logs.launch_line`. :func:`read`
cuts a log into tests, and reads latencies and bandwidths by a function each, which add to the lists
of records and of notes that it hands them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, P2P, Primitive
from colltool.logs.collective_names import collectives_of
from colltool.logs.launch_line import Launch, Launches
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import UnusableRow, looks_like_a_row, rounding_interval
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints, no_usable_row
from colltool.logs.sentences import statement
from colltool.logs.tables import (
    STREAM,
    LogTable,
    MeasuredRow,
    add_records,
    recognised_by,
    row_words,
)

_MOST_VALUES = 20  # of a row
_PER_PEER = (AG, A2A)  # their size is per rank, ours the total
# "# OSU MPI-CUDA Allreduce Latency Test v7.4"
_SIGN = re.compile(rb"# {0,9}OSU [^\n]{0,100}Test")
# "# OSU NCCL Allreduce Latency Test v7.4" with one space in a row
_TITLE = re.compile(
    r"# ?OSU (?:(?P<library>MPI(?:-[A-Z]+)?|[A-Za-z]*CCL)[\w-]*[ _]+)?(?P<test>.{0,80}?) ?Test"
    r"(?: v?(?P<version>\d[\w.]*))?$"
)
# where buffers are and how the call is made, which change no price
_MANNER = re.compile(r"\b(?:managed|persistent|non-?blocking|fused)\b", re.IGNORECASE)
# "Non-blocking Allreduce"
_NON_BLOCKING = re.compile(r"\bnon-?blocking\b", re.IGNORECASE)
# "# Size       Avg Latency(us)   Min Latency(us)", "# Size      Bandwidth (MB/s)"
_NAMES = re.compile(r"# *(Size\b.*(?:\(us\)|B/s).*)")
# "# Datatype: MPI_FLOAT"
_DTYPE = re.compile(r"# *Datatype: *([\w-]+)")
# what separates column names: two blanks, or one behind "(us)" or "Size"
_BETWEEN = re.compile(r"\s{2,}|(?<=\))\s+|(?<=^Size)\s+")
# names of the column of times, in lower case without blanks; the first that is there counts
_TIMES = ("purecomm.(us)", "avglatency(us)", "latency(us)")
# "# [ pairs: 4 ] [ window size: 64 ]"
_PAIRS = re.compile(r"\[ *pairs: *(\d{1,6}) *\]")
_WINDOW = re.compile(r"window size: *(\d{1,6})", re.IGNORECASE)
_USUAL_WINDOW = 64  # messages in flight of a bandwidth test
# titles of bandwidth tests, as _Test.plain_title has them
_BANDWIDTHS = frozenset(
    (
        "bandwidth",
        "bidirectionalbandwidth",
        "multiplebandwidth/messagerate",
        "putbandwidth",
        "getbandwidth",
    )
)


@dataclass
class _Test:
    """A test of a log: its title, columns and rows, and how it was launched."""

    title: str  # "Allreduce Latency"
    library: str  # "MPI-CUDA"; empty where the title names none
    version: str  # "OSU v7.4"
    line: int  # of the title
    launch: Launch
    dtype: str = ""  # "MPI_FLOAT"
    pairs: int = 1  # that share a bandwidth
    window: int = _USUAL_WINDOW  # messages in flight of a bandwidth test
    names: list[str] = field(default_factory=list)  # of columns, in lower case without blanks
    rows: list[tuple[int, str]] = field(default_factory=list)  # line number and text

    @property
    def plain_title(self) -> str:
        """The title in lower case without the manner, spaces and hyphens."""
        return re.sub(r"[\s_-]", "", _MANNER.sub("", self.title)).lower()

    @property
    def is_bandwidth(self) -> bool:
        """Whether it measures the bandwidth of a stream of messages."""
        return self.plain_title in _BANDWIDTHS

    @property
    def primitive(self) -> Primitive | None:
        """The collective of a latency test; None of any other test, and where it is not
        modelled."""
        if not self.plain_title.endswith("latency"):
            return None
        return collectives_of("osu").get(self.plain_title.removesuffix("latency"))


def read(log: Log, hints: UserHints) -> ParsedLog:
    """Read all tests of a log. Tests that have no price become notes where any test is usable.

    Raises:
        ColltoolError: no test is usable, or a latency test has no usable row.
    """
    records: list[Record] = []
    notes: list[Note] = []
    unusable: list[ColltoolError] = []
    tests = _tests(log, notes)
    # the caller's ranks are those of collectives, if there are any; messages are between two
    pair_hints = hints
    if any(test.primitive not in (None, P2P) for test in tests):
        pair_hints = hints._replace(ranks=None, nodes=None)
    for test in tests:
        primitive = test.primitive
        if test.is_bandwidth:
            error = _add_bandwidths(test, log, pair_hints, records, notes)
            if error:
                unusable.append(error)
        elif primitive is None or not test.names:
            error = _unreadable(test, log)
            unusable.append(error)
            reason = statement("refused", error=error.what)
            notes += [Note(reason, log.file, number) for number, _ in test.rows]
        elif test.rows:
            test_hints = pair_hints if primitive is P2P else hints
            _add_latencies(test, primitive, log, test_hints, records, notes)
        else:
            notes.append(Note(statement("empty-table"), log.file, test.line))
    if records:
        return ParsedLog(records, notes)
    if unusable:
        raise unusable[0]
    raise ColltoolError(
        "an OSU log without rows",
        where=f"{log.file}:{notes[0].line if notes else 1}",
        fix="the run was cut short or failed; run it again",
    )


def _unreadable(test: _Test, log: Log) -> ColltoolError:
    """The error for a test that is neither bandwidth nor a latency with its column names."""
    if test.primitive is None:
        what = f"'OSU {test.title} Test' is not the latency of a modelled primitive"
        # the empty name is that of "# OSU MPI Latency Test", between two ranks
        fix = f"known: {', '.join(filter(None, collectives_of('osu')))}, and bandwidths"
    else:
        what = "an OSU test without its column names"
        fix = "keep the line '# Size  Avg Latency(us)'"
    return ColltoolError(what, where=f"{log.file}:{test.line}", fix=fix)


def _tests(log: Log, notes: list[Note]) -> list[_Test]:
    """The tests of a log in order; garbled rows become notes."""
    tests: list[_Test] = []
    launches = Launches()
    for number, text in log.clean_lines():
        title = _TITLE.search(" ".join(text.split())) if "OSU" in text else None
        if title:
            version = f"OSU {title['version'] or ''}".rstrip()
            library = title["library"] or ""
            tests.append(_Test(title["test"], library, version, number, launches.launch))
            continue
        launches.take(text)
        if tests:
            _take_line(tests[-1], text, number, log.file, notes)
    return tests


def _take_line(test: _Test, text: str, number: int, file: str, notes: list[Note]) -> None:
    """Add a line to the test above it: a header, a row or a garbled row; other lines say nothing."""
    if "#" in text:
        _take_header(test, text)
        return
    # the last of so many words is the rest of the line: such a line is no row
    words = text.split(None, _MOST_VALUES)
    if words and words[0][0].isdigit() and len(words) < _MOST_VALUES:
        test.rows.append((number, text))
    elif looks_like_a_row(text):
        notes.append(Note(statement("garbled-row"), file, number))


def _take_header(test: _Test, text: str) -> None:
    """Read a line above the rows; it may say several things."""
    dtype = _DTYPE.search(text)
    names = _NAMES.search(text)
    pairs = _PAIRS.search(text)
    window = _WINDOW.search(text)
    if dtype:
        test.dtype = dtype[1]
    elif names:
        columns = _BETWEEN.split(names[1].strip())
        test.names = ["".join(column.lower().split()) for column in columns]
    if pairs:
        test.pairs = max(int(pairs[1]), 1)
    if window:
        test.window = max(int(window[1]), 1)


def _add_latencies(
    test: _Test,
    primitive: Primitive,
    log: Log,
    hints: UserHints,
    records: list[Record],
    notes: list[Note],
) -> None:
    """Add the records of a latency test; ColltoolError where none of its rows is usable."""
    # ping-pong is between two, whatever was launched
    ranks = 2 if primitive is P2P else test.launch.ranks
    table = LogTable(primitive, ranks, test.library, test.version, test.line)
    table.nodes = test.launch.nodes_of(ranks or hints.ranks)
    table.benchmark = "an OSU log"
    table.dtype = test.dtype
    table.per_peer = primitive in _PER_PEER
    if _NON_BLOCKING.search(test.title):
        table.note = statement("non-blocking")
    row_notes: list[Note] = []  # also on rows that are used
    for number, text in test.rows:
        try:
            table.rows.append(_row(test.names, number, text.split()))
        except UnusableRow as error:
            row_notes.append(Note(error.reason, log.file, number))
    count_before = len(records)
    add_records(table, log.file, hints, records, row_notes)
    if len(records) == count_before:
        raise no_usable_row(row_notes, test.line)
    notes += row_notes


def _row(names: list[str], line: int, words: list[str]) -> MeasuredRow:
    """The size and the average time of a row, the time empty where no column is one of _TIMES.
    UnusableRow where it has too few cells or too many, or validation failed."""
    if len(words) < len(names):
        raise UnusableRow("truncated")
    is_longer = len(words) > len(names) and "iterations" not in names[-1]
    if is_longer and not _has_unnamed_columns(names, words):
        raise UnusableRow("too-many-values")
    cells = dict(zip(names, words, strict=False))
    if "fail" in cells.get("validation", "").lower() or "Fail" in words:
        raise UnusableRow("validation-failed")
    time = next((cells[column] for column in _TIMES if column in cells), "")
    return MeasuredRow(line, words[0], time)


def _has_unnamed_columns(names: list[str], words: list[str]) -> bool:
    """Whether a row goes on with minimum, maximum and iterations that its header does not name, as
    those of version 7.3."""
    # size and average under their names; size, average, minimum, maximum and iterations in the row
    if len(names) != 2 or len(words) < 5:
        return False
    _, *times, iterations = words[:5]
    average, least, most = map(rounding_interval, times)
    if average is None or least is None or most is None or not iterations.isdigit():
        return False
    return least.value <= average.value <= most.value


def _add_bandwidths(
    test: _Test, log: Log, hints: UserHints, records: list[Record], notes: list[Note]
) -> ColltoolError | None:
    """Add the records of a bandwidth test; the error where none of its rows is usable."""
    table = LogTable(P2P, 2, test.library or "MPI", test.version, test.line, note=STREAM)
    table.nodes = test.launch.nodes_of(2)
    if test.pairs > 1:
        # pairs are of one rank of either half
        table.nodes = test.launch.nodes
        if table.nodes != 2:
            table.nodes = None
    ways = 2 if "Bi-Directional" in test.title else 1
    for number, text in test.rows:
        words = row_words(text, 2)
        if "Fail" in words:
            notes.append(Note(statement("validation-failed"), log.file, number))
        elif words:
            size, rate_text, *_ = words
            rate = rounding_interval(rate_text)  # MB/s of all pairs and both ways
            if rate:
                rate_Bps = rate.value * 1e6 / (test.pairs * ways)
                table.add_stream(number, size, test.window, rate_Bps)
    if table.rows:
        add_records(table, log.file, hints, records, notes)
        return None
    what = "a bandwidth test without usable rows"
    # the line of a message that is too short to fill a link
    if table.short:
        what += ": messages below 64 KiB do not fill a link, so their rate is no bandwidth"
    return ColltoolError(
        what,
        where=f"{log.file}:{table.short or test.line}",
        fix="measure sizes from 64 KiB on (-m 65536:4194304)",
    )


FORMAT = Format(
    "OSU",
    "OSU ('# OSU MPI Allreduce Latency Test', '# OSU MPI Bandwidth Test')",
    recognised_by(_SIGN),
    read,
    shares=True,
    versions="3 to 7.5",
)
