"""CSV written by people: a row per measurement and columns by header name; any bad row is an
error."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from math import inf, nan
from pathlib import Path

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, ManyErrors, argument_text
from colltool.base.formatting import counted, parse_size
from colltool.base.primitives import Primitive, parse_primitive
from colltool.logs.busbw_ratio import RANKS_N, RanksNotStated
from colltool.logs.log_file import MAX_LINE, Log
from colltool.logs.records import (
    Format,
    Note,
    ParsedLog,
    Record,
    UserHints,
    agree,
    agreed_primitive,
)
from colltool.logs.sentences import statement

_MOST_ERRORS = 20  # mistakes that are listed
_MOST_KINDS = 1000  # kinds of mistakes that are counted
_MOST_ABOVE = 1000  # lines among which the header is searched
_MACHINES = ("source_id", "source", "hardware", "machine", "cluster", "system")
# "time_us", "avg_latency(us)", "time (ms)", "ms_avg"
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
# "2.28.9+cuda12.9"
_VERSION = re.compile(r"\d[\w.+-]{0,32}")
_WORD = re.compile(r"[\w.+-]{0,32}")
# "1,024.5" within an error
_NUMBER = re.compile(r"\d[\d.,]*")
# "3,25" or "1,024"
_COMMA = re.compile(r"(?P<before>[+-]?\d*),(?P<after>\d+)(?P<rest>[^,]*)")
# "0", "0.0"
_ZERO = re.compile(r"0+(\.0*)?")
# "8", "8.0"
_WHOLE = re.compile(r"(\d{1,9})(?:\.0*)?")
# "12.5", ".5", "1.2e-3"
_SECONDS = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LONGEST = 60  # characters of a cell that is a number, or that an error names
_LIBRARIES = ("NCCL", "RCCL", "MPI")
# "NCCL 2.28.9+cuda12.9", "rccl-2.22.3", "Open MPI 4.1.6"
_LIBRARY = re.compile(
    r"(nccl|rccl|(?:(?:open|intel|cray|hpc-x)[ -]?)?mpi(?:ch)?|mvapich2?|hpc-x)"
    r"(?:[ _/:@-]*v?(\d[\w.+-]*))?",
    re.IGNORECASE,
)
_SEPARATORS = ",;\t"
_EXAMPLE = "the header is, for example: collective,ranks,bytes,time_us"


@cache
def _columns() -> Mapping[str, Sequence[str]]:
    """The names that a column may have, by what it holds."""
    columns: Mapping[str, Sequence[str]] = packaged_toml(
        Path(__file__).with_name("csv_columns.toml")
    )
    return columns


def is_csv(log: Log) -> bool:
    """Whether the first line names two columns that are understood."""
    _, header = _header(log)
    known = set(chain.from_iterable(_columns().values()))
    understood = [name for name in _names(header) if name in known or _like_time(name)]
    return len(understood) > 1


def read_csv(log: Log, hints: UserHints) -> ParsedLog:
    """All rows; ColltoolError with every kind of mistake otherwise."""
    header_line, header = _header(log)
    table = _CsvTable(header, f"{log.file}:{header_line}", log.file, hints)
    records: list[Record] = []
    mistakes = _Mistakes(log.file)
    # all mistakes are reported at once, so that a file is corrected once
    for number, cells in _rows(log, header_line, table.separator):
        table.check_machine(cells, number)
        try:
            record = table.record(cells, number)
        except ColltoolError as error:
            mistakes.add(error, number)
            continue
        if record:
            records.append(record)
    mistakes.refuse()
    if not records:
        raise ColltoolError(
            "no rows below the header", where=f"{log.file}:{header_line}", fix=_EXAMPLE
        )
    return ParsedLog(records, table.notes)


class _Mistakes:
    """The first row of each kind of mistake, and how many rows have it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.errors: dict[str, ColltoolError] = {}
        self.rows: Counter[str] = Counter()

    def add(self, error: ColltoolError, line: int) -> None:
        kind = _NUMBER.sub("0", error.what)  # quoted numbers do not tell kinds apart
        if kind not in self.errors and len(self.errors) > _MOST_KINDS:
            kind = next(reversed(self.errors))
        if kind not in self.errors:
            # of the same class: a missing rank count may be stated by the caller
            self.errors[kind] = type(error)(error.what, where=f"{self.file}:{line}", fix=error.fix)
        self.rows[kind] += 1

    def refuse(self) -> None:
        """Raise all mistakes at once."""
        found = []
        for kind, first in self.errors.items():
            more = self.rows[kind] - 1
            what = f"{first.what} (and {counted(more, 'more row')})" if more else first.what
            found.append(type(first)(what, where=first.where, fix=first.fix))
        beyond = len(found) - _MOST_ERRORS
        if beyond > 0:
            last = ColltoolError(f"and {beyond} more mistakes", fix="correct these first")
            found = [*found[:_MOST_ERRORS], last]
        if len(found) == 1:
            raise found[0]
        if found:
            raise ManyErrors(found)


def _header(log: Log) -> tuple[int, str]:
    """The first line that is no comment, by number."""
    for number, line in islice(enumerate(log.lines(), 1), _MOST_ABOVE):
        if not _is_comment(line):
            return number, line
    return 1, ""


def _is_comment(line: str) -> bool:
    text = line.lstrip()
    return not text or text.startswith("#")


def _separator(header: str) -> str:
    return max(_SEPARATORS, key=header.count)


def _names(header: str) -> list[str]:
    """The column names of a header line, in lower case. Empty for what is no CSV."""
    header = header[:MAX_LINE].lstrip("\ufeff").rstrip("\r")
    try:
        cells = next(csv.reader([header], delimiter=_separator(header), skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def _like_time(name: str) -> bool:
    return _TIME.fullmatch(name) is not None or name.startswith(("time", "latency"))


def _rows(log: Log, header: int, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row below the header."""
    for number, line in islice(enumerate(log.lines(), 1), header, None):
        if _is_comment(line):
            continue
        where = f"{log.file}:{number}"
        if len(line) > MAX_LINE:
            raise ColltoolError(
                f"a line of more than {MAX_LINE} characters is not a row", where=where, fix=_EXAMPLE
            )
        line = line.rstrip("\r")
        reader = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
        try:
            cells = next(reader)
        except (csv.Error, StopIteration) as error:
            raise ColltoolError(
                f"is not valid CSV: {error}", where=where, fix="a cell with quotes ends on its line"
            ) from error
        yield number, [cell.strip() for cell in cells]


class _CsvTable:
    """What the header line says, and the cells of rows by it."""

    def __init__(self, header: str, where: str, file: str, hints: UserHints) -> None:
        """Find the columns of the header, and refuse one that says too little."""
        self.separator = _separator(header)
        self.names = _names(header)
        self.where = where
        self.file = file
        self.hints = hints
        self.columns: dict[str, int] = {}
        for column, names in _columns().items():
            self._find(column, names)
        self.time_column, self.per_second = self._time()
        self._require("size", "bytes")
        self._require("collective", "collective", stated=hints.primitive, argument="primitive")
        self._require("ranks", "ranks", stated=hints.ranks, argument="ranks")
        # columns that name the machine, and the machine of the first row
        self.machine_columns = {
            place: name for place, name in enumerate(self.names) if name in _MACHINES
        }
        self.first_machine: dict[int, str] = {}
        self.notes: list[Note] = []
        self.primitives: dict[str, Primitive] = {}  # parsed once per spelling

    def _find(self, column: str, names: Sequence[str]) -> None:
        """Find the one column with any of these names, if there is one."""
        found = [place for place, name in enumerate(self.names) if name in names]
        if len(found) > 1:
            listed = ", ".join(self.names[place] for place in found)
            raise ColltoolError(
                f"{len(found)} columns could be the {column}: {listed}",
                where=self.where,
                fix="keep one, rename the others",
            )
        if found:
            self.columns[column] = found[0]

    def _time(self) -> tuple[int, float]:
        """The column of times, and its unit."""
        times = {}
        for place, column in enumerate(self.names):
            match = _TIME.fullmatch(column)
            if match:
                times[place] = _PER_SECOND[match[1]]
        if len(times) == 1:
            return times.popitem()
        found = ", ".join(filter(_like_time, self.names))
        if times:
            what = f"several times: {found}"
        elif found:
            what = f"'{found}' has no unit"
        else:
            what = "no column of times"
        raise ColltoolError(
            what,
            where=self.where,
            fix="one column, with the unit in its name: time_us, time_ms, time_s or time_ns",
        )

    def _require(
        self, column: str, name: str, *, stated: object = None, argument: str = ""
    ) -> None:
        """Refuse a table without a column that the caller does not make up for."""
        if column in self.columns or stated is not None:
            return
        fix = _EXAMPLE
        if argument:
            fix = f"add it, or say it for the whole file: {argument_text(argument)}; {_EXAMPLE}"
        raise ColltoolError(f"no column '{name}'", where=self.where, fix=fix)

    def record(self, cells: list[str], number: int) -> Record | None:
        """The record of a row; None for a size of 0. Errors name no place yet."""
        if len(cells) != len(self.names):
            raise ColltoolError(
                f"{len(cells)} cells under {len(self.names)} columns",
                fix="give every column a cell, quote cells with separators",
            )
        self._check_commas(cells)
        primitive = self._primitive(cells)
        ranks = self._ranks(cells)
        nodes = self._count(cells, "nodes", stated=self.hints.nodes, least=1)
        if nodes is not None and nodes > ranks:
            raise ColltoolError(f"{nodes} nodes for {ranks} ranks", fix="a rank runs on one node")
        seconds = self._seconds(cells)
        if _ZERO.fullmatch(self._cell(cells, "size")):
            self.notes.append(Note(statement("size-zero"), self.file, number))
            return None
        size = parse_size(self._cell(cells, "size"))
        dtype = self._cell(cells, "dtype")
        if not _WORD.fullmatch(dtype):
            self.notes.append(Note(statement("no-type"), self.file, number, used=True))
            dtype = ""
        library, version = self._library(cells)
        return Record(
            primitive,
            ranks=ranks,
            nodes=nodes,
            bytes=size,
            seconds=seconds,
            dtype=dtype,
            library=library,
            version=version,
            file=self.file,
            line=number,
        )

    def _cell(self, cells: list[str], column: str) -> str:
        return cells[self.columns[column]] if column in self.columns else ""

    def check_machine(self, cells: list[str], number: int) -> None:
        """Refuse a file of several machines."""
        for place, name in self.machine_columns.items():
            cell = cells[place] if place < len(cells) else ""
            first = self.first_machine.setdefault(place, cell)
            if cell != first:
                raise ColltoolError(
                    f"{name} changes from {first!r} to {cell!r}",
                    where=f"{self.file}:{number}",
                    fix="a median across machines means nothing: split the file, one machine each",
                )

    def _check_commas(self, cells: list[str]) -> None:
        """Refuse numbers with a comma, which may be decimal or separate thousands."""
        columns = [self.columns.get(column) for column in ("size", "ranks", "nodes")]
        for place in (self.time_column, *columns):
            match = None if place is None else _COMMA.fullmatch(cells[place][:_LONGEST])
            if match:
                before, after, rest = match.groups()
                fix = f"decimal comma: write {before}.{after}{rest}"
                if len(after) == 3:
                    fix += f", or {before}{after}{rest} if the comma separates thousands"
                raise ColltoolError(f"'{match[0]}' has a comma", fix=fix)

    def _seconds(self, cells: list[str]) -> float:
        text = cells[self.time_column]
        seconds = nan
        if len(text) <= _LONGEST and _SECONDS.fullmatch(text):
            seconds = float(text) / self.per_second
        if not 0 < seconds < inf:
            raise ColltoolError(
                f"'{text[:_LONGEST]}' is not a time",
                fix=f"a number above 0, in the unit of '{self.names[self.time_column]}'",
            )
        return seconds

    def _library(self, cells: list[str]) -> tuple[str, str]:
        """The library of a row, and its version by the same cell or by its own."""
        library = self._cell(cells, "library")
        version = self._cell(cells, "version")
        if not _VERSION.fullmatch(version):
            version = ""
        if not library:
            return "", version
        match = _LIBRARY.fullmatch(library) if len(library) <= _LONGEST else None
        if match is None:
            raise ColltoolError(
                f"'{library[:_LONGEST]}' is not a known library",
                fix=f"known: {', '.join(_LIBRARIES)}, with or without a version: NCCL 2.28.9",
            )
        name = match[1].upper()
        return name if name in _LIBRARIES else "MPI", match[2] or version

    def _primitive(self, cells: list[str]) -> Primitive:
        """The collective of a row, as the cell or the caller names it."""
        word = self._cell(cells, "collective")
        if word not in self.primitives:
            found = parse_primitive(word) if "collective" in self.columns else None
            agreed = agreed_primitive(found, self.hints, "")
            assert agreed is not None  # a table without the column needs the caller's
            self.primitives[word] = agreed
        return self.primitives[word]

    def _ranks(self, cells: list[str]) -> int:
        ranks = self._count(cells, "ranks", stated=self.hints.ranks, least=2)
        if ranks is None:
            raise RanksNotStated(
                "no number of ranks", fix=f"fill the cell, or say it for the whole file: {RANKS_N}"
            )
        return ranks

    def _count(
        self, cells: list[str], column: str, *, stated: int | None, least: int
    ) -> int | None:
        """A whole number of at least ``least``; the caller's where the cell is empty."""
        text = self._cell(cells, column)
        if not text:
            return stated
        match = _WHOLE.fullmatch(text)
        if match is None or int(match[1]) < least:
            raise ColltoolError(
                f"'{text}' is not a number of {column}", fix=f"a whole number, {least} or more"
            )
        return agree(int(match[1]), stated, f"{column}:", column, "")


FORMAT = Format("CSV", "CSV ('collective,ranks,bytes,time_us')", is_csv, read_csv)
