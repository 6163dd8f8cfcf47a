"""The table of a CSV written by people: what its header line says, and records of its rows.

Which names a column may have stands in ``csv_columns.toml``; a time has its unit in its name.
:mod:`colltool.logs.csv_log` cuts the file into lines and cells.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from math import inf, nan
from pathlib import Path

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import parse_size
from colltool.base.primitives import Primitive, parse_primitive
from colltool.logs.busbw_ratio import RANKS_N, RanksNotStated
from colltool.logs.log_file import MAX_LINE
from colltool.logs.records import Note, Record, UserHints, agree, agreed_primitive
from colltool.logs.sentences import statement

# columns that name the machine
_MACHINES = ("source_id", "source", "hardware", "machine", "cluster", "system")
# "time_us", "avg_latency(us)", "time (ms)", "ms_avg"
_TIME = re.compile(
    r"(?:(?:time|latency|avg_latency|mean|median|duration|t)[_ ]?)?"
    r"\(?(s|sec|seconds|ms|us|µs|μs|ns)\)?(?:_(?:avg|mean|median))?"
)
# units of a time in a second
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
# "float", "bfloat16"
_DTYPE = re.compile(r"[\w.+-]{0,32}")
# "3,25", "1,024" or "1,5 MiB"
_COMMA = re.compile(r"(?P<before>[+-]?\d*),(?P<after>\d+)(?P<unit>[^,]*)")
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
EXAMPLE = "the header is, for example: collective,ranks,bytes,time_us"


@cache
def _known_names() -> Mapping[str, Sequence[str]]:
    """The names that a column may have, by what it holds: collective, ranks, size, nodes, dtype,
    library, version."""
    names: Mapping[str, Sequence[str]] = packaged_toml(Path(__file__).with_name("csv_columns.toml"))
    return names


def is_known_column(name: str) -> bool:
    """Whether a column's name, in lower case, is understood."""
    return name in chain.from_iterable(_known_names().values()) or _is_like_time(name)


def _is_like_time(name: str) -> bool:
    """Whether a column seems to hold times, with a unit or without."""
    return _TIME.fullmatch(name) is not None or name.startswith(("time", "latency"))


def column_names(header: str) -> list[str]:
    """The column names of a header line, in lower case; empty for what is no CSV."""
    header = header[:MAX_LINE].lstrip("\ufeff").rstrip("\r")
    try:
        cells = next(csv.reader([header], delimiter=_separator(header), skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def _separator(header: str) -> str:
    """The separator that stands in a header most often."""
    return max(_SEPARATORS, key=header.count)


class CsvTable:
    """A header line, and what is known of the rows below it.

    Attributes:
        separator: comma, semicolon or tab.
        names: of the columns, in lower case.
        columns: where each column that is understood stands (from 0), by what it holds: collective,
            ranks, size, nodes, dtype, library, version.
        time_column: where the times stand; ``units_per_second``: 1e6 where they are us.
        notes: on rows that were left out or doubted so far.
    """

    def __init__(self, header: str, where: str, file: str, hints: UserHints) -> None:
        """Find the columns of a header.

        Args:
            where: the header stands, for errors.
            hints: what the caller says in place of a column.

        Raises:
            ColltoolError: the header says too little, or something twice.
        """
        self.separator = _separator(header)
        self.names = column_names(header)
        self.where = where
        self.file = file
        self.hints = hints
        self.columns: dict[str, int] = {}
        for column, names in _known_names().items():
            self._find(column, names)
        self.time_column, self.units_per_second = self._find_time()
        self._require("size", "bytes")
        if hints.primitive is None:
            self._require("collective", "collective", argument="primitive")
        if hints.ranks is None:
            self._require("ranks", "ranks", argument="ranks")
        self.machine_columns = {
            place: name for place, name in enumerate(self.names) if name in _MACHINES
        }
        self.first_machine: dict[int, str] = {}  # cells of the first row, by column
        self.notes: list[Note] = []
        self.primitives: dict[str, Primitive] = {}  # by spelling: each is parsed once

    def _find(self, column: str, names: Sequence[str]) -> None:
        """Find the one column with any of these names, if there is one."""
        places = [place for place, name in enumerate(self.names) if name in names]
        if len(places) > 1:
            listed = ", ".join(self.names[place] for place in places)
            raise ColltoolError(
                f"{len(places)} columns could be the {column}: {listed}",
                where=self.where,
                fix="keep one, rename the others",
            )
        if places:
            self.columns[column] = places[0]

    def _find_time(self) -> tuple[int, float]:
        """Where the one column of times stands, and how many of its units are a second."""
        times = {}
        for place, column in enumerate(self.names):
            match = _TIME.fullmatch(column)
            if match:
                times[place] = _PER_SECOND[match[1]]
        if len(times) == 1:
            return times.popitem()
        listed = ", ".join(filter(_is_like_time, self.names))
        if times:
            what = f"several times: {listed}"
        elif listed:
            what = f"'{listed}' has no unit"
        else:
            what = "no column of times"
        raise ColltoolError(
            what,
            where=self.where,
            fix="one column, with the unit in its name: time_us, time_ms, time_s or time_ns",
        )

    def _require(self, column: str, name: str, *, argument: str = "") -> None:
        """Refuse a table without a column; ``name``: an example of its names, ``argument``: what
        the caller may say in its place."""
        if column in self.columns:
            return
        fix = EXAMPLE
        if argument:
            fix = f"add it, or say it for the whole file: {argument_text(argument)}; {EXAMPLE}"
        raise ColltoolError(f"no column '{name}'", where=self.where, fix=fix)

    def check_machine(self, cells: list[str], line: int) -> None:
        """Refuse a row of another machine than the first row's."""
        for place, name in self.machine_columns.items():
            cell = cells[place] if place < len(cells) else ""
            first_cell = self.first_machine.setdefault(place, cell)
            if cell != first_cell:
                raise ColltoolError(
                    f"{name} changes from {first_cell!r} to {cell!r}",
                    where=f"{self.file}:{line}",
                    fix="a median across machines means nothing: split the file, one machine each",
                )

    def record(self, cells: list[str], line: int) -> Record | None:
        """The record of a row, by its cells (without blanks at their ends); None for a size of 0,
        which is noted. ColltoolError for a mistake; it names no place, as the caller gathers the rows
        that have it."""
        if len(cells) != len(self.names):
            raise ColltoolError(
                f"{len(cells)} cells under {len(self.names)} columns",
                fix="give every column a cell, quote cells with separators",
            )
        self._check_commas(cells)
        primitive = self._primitive(cells)
        ranks = self._ranks(cells)
        nodes = self._count(cells, "nodes", hint=self.hints.nodes, least=1)
        if nodes is not None and nodes > ranks:
            raise ColltoolError(f"{nodes} nodes for {ranks} ranks", fix="a rank runs on one node")
        seconds = self._seconds(cells)
        if _ZERO.fullmatch(self._cell(cells, "size")):
            self.notes.append(Note(statement("size-zero"), self.file, line))
            return None
        size = parse_size(self._cell(cells, "size"))
        dtype = self._cell(cells, "dtype")
        if not _DTYPE.fullmatch(dtype):
            self.notes.append(Note(statement("no-type"), self.file, line, used=True))
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
            line=line,
        )

    def _cell(self, cells: list[str], column: str) -> str:
        """The cell of a column; empty where the table has no such column."""
        return cells[self.columns[column]] if column in self.columns else ""

    def _check_commas(self, cells: list[str]) -> None:
        """Refuse numbers with a comma, which may be decimal or separate thousands."""
        columns = [self.columns.get(column) for column in ("size", "ranks", "nodes")]
        for place in (self.time_column, *columns):
            match = None if place is None else _COMMA.fullmatch(cells[place][:_LONGEST])
            if match:
                before, after, unit = match.groups()
                fix = f"decimal comma: write {before}.{after}{unit}"
                if len(after) == 3:
                    fix += f", or {before}{after}{unit} if the comma separates thousands"
                raise ColltoolError(f"'{match[0]}' has a comma", fix=fix)

    def _seconds(self, cells: list[str]) -> float:
        """The time of a row; ColltoolError unless it is a finite number above 0."""
        text = cells[self.time_column]
        seconds = nan
        if len(text) <= _LONGEST and _SECONDS.fullmatch(text):
            seconds = float(text) / self.units_per_second
        if not 0 < seconds < inf:
            raise ColltoolError(
                f"'{text[:_LONGEST]}' is not a time",
                fix=f"a number above 0, in the unit of '{self.names[self.time_column]}'",
            )
        return seconds

    def _library(self, cells: list[str]) -> tuple[str, str]:
        """The library of a row (NCCL, RCCL, MPI) and its version, by the same cell or by its own;
        each empty where the row does not say it."""
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
        if name not in _LIBRARIES:
            name = "MPI"  # Open MPI, MVAPICH2, HPC-X
        return name, match[2] or version

    def _primitive(self, cells: list[str]) -> Primitive:
        """The collective of a row, as the cell or the caller names it."""
        word = self._cell(cells, "collective")
        if word not in self.primitives:
            in_cell = parse_primitive(word) if "collective" in self.columns else None
            agreed = agreed_primitive(in_cell, self.hints, "")
            assert agreed is not None  # a table without the column needs the caller's
            self.primitives[word] = agreed
        return self.primitives[word]

    def _ranks(self, cells: list[str]) -> int:
        """The rank count of a row, by its cell or the caller; ColltoolError without either."""
        ranks = self._count(cells, "ranks", hint=self.hints.ranks, least=2)
        if ranks is None:
            raise RanksNotStated(
                "no number of ranks", fix=f"fill the cell, or say it for the whole file: {RANKS_N}"
            )
        return ranks

    def _count(self, cells: list[str], column: str, *, hint: int | None, least: int) -> int | None:
        """A whole number of at least ``least``; where the cell is empty, the caller's ``hint``,
        which may be None."""
        text = self._cell(cells, column)
        if not text:
            return hint
        match = _WHOLE.fullmatch(text)
        if match is None or int(match[1]) < least:
            raise ColltoolError(
                f"'{text}' is not a number of {column}", fix=f"a whole number, {least} or more"
            )
        return agree(int(match[1]), hint, f"{column}:", column, "")
