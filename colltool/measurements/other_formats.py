"""OSU micro-benchmarks: latency tests of collectives and of messages; and CSV written by people.

A CSV has a row per measurement and columns by header name; any bad row is an error.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf, nan

from colltool.base.errors import ColltoolError, ManyErrors, given
from colltool.base.formatting import counted, parse_size
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, parse_primitive
from colltool.measurements.busbw_ratio import (
    RANKS_N,
    SAY_RANKS,
    UnusableRow,
    looks_like_a_row,
    message_size,
    positive_time,
)
from colltool.measurements.series import (
    MAX_LINE,
    Format,
    Log,
    Note,
    ParsedLog,
    Record,
    UserHints,
    agree,
    clean,
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


@dataclass
class _Test:
    title: str
    library: str
    version: str
    line: int
    dtype: str = ""
    names: list[str] = field(default_factory=list)
    rows: list[tuple[int, str]] = field(default_factory=list)


def is_osu(log: Log) -> bool:
    return _SIGN.search(log.content) is not None


def read_osu(log: Log, stated: UserHints) -> ParsedLog:
    timings: list[Record] = []
    notes: list[Note] = []
    unusable: list[ColltoolError] = []
    for test in _tests(log, notes):
        title, latency, rest = test.title.partition("Latency")
        primitive = (
            _TITLES.get(re.sub(r"[\s_-]", "", title).lower())
            if latency and not rest.strip()
            else None
        )
        if primitive is None or not test.names:
            what, fix = (
                "an OSU test without its column names",
                "keep the line '# Size  Avg Latency(us)'",
            )
            if primitive is None:
                what = f"'OSU {test.title} Test' is not the latency of a modelled primitive"
                fix = f"known: {', '.join(title for title in _TITLES if title)}"
            unusable.append(ColltoolError(what, where=f"{log.file}:{test.line}", fix=fix))
            notes += [Note(what, log.file, number) for number, _ in test.rows]
        elif test.rows:
            timings += _timings(test, primitive, log.file, stated, notes)
        else:
            notes.append(Note("a table without rows", log.file, test.line))
    if timings:
        return ParsedLog(tuple(timings), tuple(notes))
    if unusable:
        raise unusable[0]
    where = f"{log.file}:{notes[0].line if notes else 1}"
    raise ColltoolError(
        "an OSU log without rows", where=where, fix="the run was cut short or failed; run it again"
    )


def _tests(log: Log, notes: list[Note]) -> Iterator[_Test]:
    test: _Test | None = None
    for number, line in enumerate(log.lines(), 1):
        text = clean(line)
        if "OSU" in text and (title := _TITLE.search(" ".join(text.split()))):
            if test is not None:
                yield test
            test = _Test(
                title=title[2],
                library=title[1] or "",
                version=f"OSU {title[3]}" if title[3] else "OSU",
                line=number,
            )
        elif test is not None:
            _take(test, text, number, log.file, notes)
    if test is not None:
        yield test


def _take(test: _Test, text: str, number: int, file: str, notes: list[Note]) -> None:
    if "#" in text:
        if dtype := _DTYPE.search(text):
            test.dtype = dtype[1]
        elif "(us)" in text and (names := _NAMES.search(text)):
            test.names = [
                "".join(name.lower().split()) for name in _BETWEEN.split(names[1].strip())
            ]
    elif (
        (words := text.split(None, _MOST_VALUES))
        and words[0][0].isdigit()
        and len(words) < _MOST_VALUES
    ):
        test.rows.append((number, text))
    elif looks_like_a_row(text):
        notes.append(Note("garbled: no row of this table", file, number))


def _timings(
    test: _Test, primitive: Primitive, file: str, stated: UserHints, notes: list[Note]
) -> list[Record]:
    where = f"{file}:{test.line}"
    agree(primitive, stated.primitive, "the collective is", "primitive", where)
    # Ping-pong is between two, whatever was launched.
    ranks = agree(2 if primitive is P2P else None, stated.ranks, "ranks:", "ranks", where)
    if ranks is None:
        raise ColltoolError(
            "an OSU log does not say on how many ranks it ran", where=where, fix=SAY_RANKS
        )
    timings: list[Record] = []
    bad: list[Note] = []
    per_peer = ranks if primitive in _PER_PEER else 1
    for number, text in test.rows:
        try:
            size, seconds = _values(test.names, text.split())
        except UnusableRow as error:
            bad.append(Note(str(error), file, number))
            continue
        timings.append(
            Record(
                primitive,
                ranks,
                stated.nodes,
                size * per_peer,
                seconds,
                test.dtype,
                library=test.library,
                version=test.version,
                file=file,
                line=number,
            )
        )
    if not timings:
        what = f"no row of this table can be used; the first: {bad[0].reason}"
        raise ColltoolError(
            what,
            where=f"{file}:{bad[0].line}",
            fix=f"the table starts at line {test.line}; measure it again",
        )
    notes += bad
    return timings


def _values(names: list[str], words: list[str]) -> tuple[float, float]:
    if len(words) < len(names):
        raise UnusableRow("truncated: fewer values than columns")
    if len(words) > len(names) and "iterations" not in names[-1]:
        raise UnusableRow("more values than columns")
    cells = dict(zip(names, words, strict=False))
    if "fail" in cells.get("validation", "").lower():
        raise UnusableRow("the result is wrong: validation failed")
    time = next((cells[name] for name in ("avglatency(us)", "latency(us)") if name in cells), "")
    return message_size(words[0]), positive_time(time).value / 1e6


OSU = Format("OSU ('# OSU MPI Allreduce Latency Test')", is_osu, read_osu, shares=True)
_MOST_ERRORS, _MOST_KINDS = 20, 1000
_COLUMNS = {
    "collective": ("collective", "primitive", "operation", "coll"),
    "ranks": ("ranks", "n", "nranks", "n_ranks", "num_ranks", "world_size", "gpus"),
    "size": ("bytes", "size", "size_bytes", "message_size", "size(b)", "bytes(b)"),
    "nodes": ("nodes", "nnodes", "n_nodes", "num_nodes", "hosts"),
    "dtype": ("dtype", "datatype", "type"),
    "library": ("library",),
}
_MACHINES = ("source_id", "source", "hardware", "machine", "cluster", "system")
_TIME = re.compile(
    r"(?:(?:time|latency|avg_latency|mean|median|duration|t)[_"
    r" ]?)?\(?(s|sec|seconds|ms|us|µs|μs|ns)\)?(?:_(?:avg|mean|median))?"
)
_PER_SECOND = {
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": 1e3,
    "us": 1e6,
    "µs": 1e6,
    "μs": 1e6,
    "ns": 1e9,
}
_WORD = re.compile(r"[\w.+-]{0,32}")
_NUMBER = re.compile(r"\d[\d.,]*")
_COMMA = re.compile(r"([+-]?\d*),(\d+)([^,]*)")
_ZERO = re.compile(r"0+(\.0*)?")
_WHOLE = re.compile(r"(\d{1,9})(?:\.0*)?")
_SECONDS = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LIBRARIES = ("NCCL", "RCCL", "MPI")
_SEPARATORS = ",;\t"
_EXAMPLE = "the header is, for example: collective,ranks,bytes,time_us"


def is_csv(log: Log) -> bool:
    _, header = _header(log)
    known = {name for column in _COLUMNS.values() for name in column}
    return sum(name in known or _like_time(name) for name in _names(header)) > 1


def read_csv(log: Log, stated: UserHints) -> ParsedLog:
    at, header = _header(log)
    table = _CsvTable(header, f"{log.file}:{at}", log.file, stated)
    timings: list[Record] = []
    # the first row of each kind, and how many rows have it
    mistakes: dict[str, tuple[ColltoolError, int]] = {}
    for number, cells in _records(log, at, table.separator):
        table.same_machine(cells, number)
        try:
            timing = table.timing(cells, number)
        except ColltoolError as error:
            kind = _NUMBER.sub("0", error.what)  # quoted numbers do not tell kinds apart
            if kind not in mistakes and len(mistakes) > _MOST_KINDS:
                kind = next(reversed(mistakes))
            first, count = mistakes.get(
                kind, (ColltoolError(error.what, where=f"{log.file}:{number}", fix=error.fix), 0)
            )
            mistakes[kind] = first, count + 1
            continue
        timings += [timing] if timing else []
    if mistakes:
        raise _refused(list(mistakes.values()))
    if not timings:
        raise ColltoolError("no rows below the header", where=f"{log.file}:{at}", fix=_EXAMPLE)
    return ParsedLog(tuple(timings), tuple(table.notes))


def _refused(mistakes: list[tuple[ColltoolError, int]]) -> ColltoolError:
    found = []
    for first, rows in mistakes:
        more = f" (and {counted(rows - 1, 'more row')})" if rows > 1 else ""
        found.append(ColltoolError(first.what + more, where=first.where, fix=first.fix))
    if (beyond := len(found) - _MOST_ERRORS) > 0:
        found[_MOST_ERRORS:] = [
            ColltoolError(f"and {beyond} more mistakes", fix="correct these first")
        ]
    return found[0] if len(found) == 1 else ManyErrors(found)


def _header(log: Log) -> tuple[int, str]:
    first = islice(enumerate(log.lines(), 1), 1000)
    return next(
        (one for one in first if one[1].strip() and not one[1].lstrip().startswith("#")), (1, "")
    )


def _separator(header: str) -> str:
    return max(_SEPARATORS, key=header.count)


def _names(header: str) -> list[str]:
    header = header[:MAX_LINE].lstrip("\ufeff").rstrip("\r")
    try:
        cells = next(csv.reader([header], delimiter=_separator(header), skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def _like_time(name: str) -> bool:
    return _TIME.fullmatch(name) is not None or name.startswith(("time", "latency"))


def _records(log: Log, header: int, separator: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in islice(enumerate(log.lines(), 1), header, None):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{log.file}:{number}"
        if len(line) > MAX_LINE:
            raise ColltoolError(
                f"a line of more than {MAX_LINE} characters is not a row", where=where, fix=_EXAMPLE
            )
        try:
            cells = next(
                csv.reader(
                    [line.rstrip("\r")], delimiter=separator, skipinitialspace=True, strict=True
                )
            )
        except (csv.Error, StopIteration) as error:
            raise ColltoolError(
                f"is not valid CSV: {error}", where=where, fix="a cell with quotes ends on its line"
            ) from error
        yield number, [cell.strip() for cell in cells]


class _CsvTable:
    def __init__(self, header: str, where: str, file: str, stated: UserHints) -> None:
        self.separator = _separator(header)
        self.names = _names(header)
        self.where, self.file, self.stated = where, file, stated
        self.at = {
            column: at
            for column, names in _COLUMNS.items()
            if (at := self._only(column, names)) is not None
        }
        self.time_at, self.per_second = self._time()
        needs = {
            "size": ("bytes", None, ""),
            "collective": ("collective", stated.primitive, "primitive"),
        }
        for column, (name, found, argument) in (
            needs | {"ranks": ("ranks", stated.ranks, "ranks")}
        ).items():
            if column not in self.at and found is None:
                fix = (
                    f"add it, or say it for the whole file: {given(argument)}; {_EXAMPLE}"
                    if argument
                    else _EXAMPLE
                )
                raise ColltoolError(f"no column '{name}'", where=where, fix=fix)
        self.machines = {at: name for at, name in enumerate(self.names) if name in _MACHINES}
        self.machine: dict[int, str] = {}
        self.notes: list[Note] = []
        self.primitives: dict[str, Primitive] = {}  # parsed once per spelling

    def _time(self) -> tuple[int, float]:
        times = {
            at: match[1] for at, name in enumerate(self.names) if (match := _TIME.fullmatch(name))
        }
        if len(times) == 1:
            return next((at, _PER_SECOND[unit]) for at, unit in times.items())
        found = ", ".join(name for name in self.names if _like_time(name))
        what = (
            f"several times: {found}"
            if times
            else f"'{found}' has no unit"
            if found
            else "no column of times"
        )
        fix = "one column, with the unit in its name: time_us, time_ms, time_s or time_ns"
        raise ColltoolError(what, where=self.where, fix=fix)

    def _only(self, column: str, names: tuple[str, ...]) -> int | None:
        found = [at for at, name in enumerate(self.names) if name in names]
        if len(found) > 1:
            what = (
                f"{len(found)} columns could be the {column}:"
                f" {', '.join(self.names[at] for at in found)}"
            )
            raise ColltoolError(what, where=self.where, fix="keep one, rename the others")
        return found[0] if found else None

    def timing(self, cells: list[str], number: int) -> Record | None:
        if len(cells) != len(self.names):
            fix = "give every column a cell, quote cells with separators"
            raise ColltoolError(f"{len(cells)} cells under {len(self.names)} columns", fix=fix)
        self._check_commas(cells)
        primitive, ranks = self._primitive(cells), self._count(cells, "ranks", self.stated.ranks, 2)
        nodes = self._count(cells, "nodes", self.stated.nodes, 1)
        assert ranks is not None
        if nodes is not None and nodes > ranks:
            raise ColltoolError(f"{nodes} nodes for {ranks} ranks", fix="a rank runs on one node")
        text = cells[self.time_at]
        seconds = (
            float(text) / self.per_second if len(text) <= 60 and _SECONDS.fullmatch(text) else nan
        )
        if not 0 < seconds < inf:
            fix = f"a number above 0, in the unit of '{self.names[self.time_at]}'"
            raise ColltoolError(f"'{text[:60]}' is not a time", fix=fix)
        if _ZERO.fullmatch(self._cell(cells, "size")):
            self.notes.append(Note("size 0: nothing is sent", self.file, number))
            return None
        size, dtype, library = (
            parse_size(self._cell(cells, "size")),
            self._cell(cells, "dtype"),
            self._cell(cells, "library"),
        )
        if not _WORD.fullmatch(dtype):
            self.notes.append(
                Note(
                    "used without its dtype, which is a sentence, not a type",
                    self.file,
                    number,
                    used=True,
                )
            )
            dtype = ""
        if library and library.upper() not in _LIBRARIES:
            raise ColltoolError(
                f"'{library[:60]}' is not a known library", fix=f"known: {', '.join(_LIBRARIES)}"
            )
        library, file = library.upper(), self.file
        return Record(
            primitive,
            ranks,
            nodes,
            size,
            seconds,
            dtype,
            library=library,
            version="",
            file=file,
            line=number,
        )

    def _cell(self, cells: list[str], column: str) -> str:
        return cells[self.at[column]] if column in self.at else ""

    def same_machine(self, cells: list[str], number: int) -> None:
        for at, name in self.machines.items():
            cell = cells[at] if at < len(cells) else ""
            first = self.machine.setdefault(at, cell)
            if cell != first:
                what = f"{name} changes from {first!r} to {cell!r}"
                fix = "a median across machines means nothing: split the file, one machine each"
                raise ColltoolError(what, where=f"{self.file}:{number}", fix=fix)

    def _check_commas(self, cells: list[str]) -> None:
        for at in (
            self.time_at,
            *(self.at[column] for column in ("size", "ranks", "nodes") if column in self.at),
        ):
            if "," in cells[at] and (match := _COMMA.fullmatch(cells[at][:60])):
                fix = f"decimal comma: write {match[1]}.{match[2]}{match[3]}"
                if len(match[2]) == 3:
                    fix += f", or {match[1]}{match[2]}{match[3]} if the comma separates thousands"
                raise ColltoolError(f"'{match[0]}' has a comma", fix=fix)

    def _primitive(self, cells: list[str]) -> Primitive:
        word = self._cell(cells, "collective")
        if word in self.primitives:
            return self.primitives[word]
        found = parse_primitive(word) if "collective" in self.at else None
        agreed = agree(found, self.stated.primitive, "the collective is", "primitive", "")
        assert agreed is not None
        self.primitives[word] = agreed
        return agreed

    def _count(self, cells: list[str], column: str, stated: int | None, least: int) -> int | None:
        text = self._cell(cells, column)
        match = _WHOLE.fullmatch(text)
        if text and (match is None or int(match[1]) < least):
            raise ColltoolError(
                f"'{text}' is not a number of {column}", fix=f"a whole number, {least} or more"
            )
        found = agree(int(match[1]) if match else None, stated, f"{column}:", column, "")
        if found is None and column == "ranks":
            raise ColltoolError(
                "no number of ranks", fix=f"fill the cell, or say it for the whole file: {RANKS_N}"
            )
        return found


CSV = Format("CSV ('collective,ranks,bytes,time_us')", is_csv, read_csv)
