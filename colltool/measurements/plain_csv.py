"""CSV written by people: one row per measurement, columns by header name. Any bad row is an error."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice

from colltool.base.errors import ColltoolError, ManyErrors, given
from colltool.base.formatting import parse_size
from colltool.base.primitives import Primitive, parse_primitive
from colltool.measurements.busbw_ratio import RANKS_N
from colltool.measurements.log import MAX_LINE, Format, Log, Note, ParsedLog, Record, UserHints, agree

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
    r"(?:(?:time|latency|avg_latency|mean|median|duration|t)[_ ]?)?\(?(s|sec|seconds|ms|us|µs|μs|ns)\)?(?:_(?:avg|mean|median))?"
)
_PER_SECOND = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "μs": 1e6, "ns": 1e9}
_WORD = re.compile(r"[\w.+-]{0,32}")
_NUMBER = re.compile(r"\d[\d.,]*")
_COMMA = re.compile(r"([+-]?\d*),(\d+)([^,]*)")
_ZERO = re.compile(r"0+(\.0*)?")
_WHOLE = re.compile(r"(\d{1,9})(?:\.0*)?")
_SECONDS = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LIBRARIES = ("NCCL", "RCCL", "MPI")
_SEPARATORS = ",;\t"
_EXAMPLE = "the header is, for example: collective,ranks,bytes,time_us"


def recognises(log: Log) -> bool:
    _, header = _header(log)
    known = {name for column in _COLUMNS.values() for name in column}
    return sum(name in known or _like_time(name) for name in _names(header)) > 1


def read(log: Log, stated: UserHints) -> ParsedLog:
    at, header = _header(log)
    table = _CsvTable(header, f"{log.file}:{at}", log.file, stated)
    timings: list[Record] = []
    mistakes = _Mistakes()
    for number, cells in _records(log, at, table.separator):
        table.same_machine(cells, number)
        try:
            timing = table.timing(cells, number)
        except ColltoolError as error:
            mistakes.add(error, f"{log.file}:{number}")
            continue
        timings += [timing] if timing else []
    if mistakes:
        raise mistakes.error()
    if not timings:
        raise ColltoolError("no rows below the header", where=f"{log.file}:{at}", fix=_EXAMPLE)
    return ParsedLog(tuple(timings), tuple(table.notes))


class _Mistakes:
    """The first row of each kind of mistake, and how many rows have it; quoted numbers do not tell kinds apart."""

    def __init__(self) -> None:
        self.kinds: dict[str, tuple[ColltoolError, int]] = {}

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def add(self, error: ColltoolError, where: str) -> None:
        kind = _NUMBER.sub("0", error.what)
        if kind not in self.kinds and len(self.kinds) > _MOST_KINDS:
            kind = next(reversed(self.kinds))
        first, count = self.kinds.get(kind, (ColltoolError(error.what, where=where, fix=error.fix), 0))
        self.kinds[kind] = first, count + 1

    def error(self) -> ColltoolError:
        found = [_counted(first, count - 1) for first, count in self.kinds.values()]
        if len(found) == 1:
            return found[0]
        more = len(found) - _MOST_ERRORS
        rest = ColltoolError(f"and {more} more mistakes", fix="correct these first")
        return ManyErrors(found[:_MOST_ERRORS] + ([rest] if more > 0 else []))


def _counted(first: ColltoolError, more: int) -> ColltoolError:
    rows = f" (and {more} more row{'s' * (more > 1)})" if more else ""
    return ColltoolError(first.what + rows, where=first.where, fix=first.fix)


def _header(log: Log) -> tuple[int, str]:
    first = islice(enumerate(log.lines(), 1), 1000)
    return next((one for one in first if one[1].strip() and not one[1].lstrip().startswith("#")), (1, ""))


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
            raise ColltoolError(f"a line of more than {MAX_LINE} characters is not a row", where=where, fix=_EXAMPLE)
        try:
            cells = next(csv.reader([line.rstrip("\r")], delimiter=separator, skipinitialspace=True, strict=True))
        except (csv.Error, StopIteration) as error:
            raise ColltoolError(f"is not valid CSV: {error}", where=where, fix="a cell with quotes ends on its line") from error
        yield number, [cell.strip() for cell in cells]


class _CsvTable:
    def __init__(self, header: str, where: str, file: str, stated: UserHints) -> None:
        self.separator = _separator(header)
        self.names = _names(header)
        self.where, self.file, self.stated = where, file, stated
        self.at = {column: at for column, names in _COLUMNS.items() if (at := self._only(column, names)) is not None}
        self.time_at, self.per_second = self._time()
        needs = {"size": ("bytes", None, ""), "collective": ("collective", stated.primitive, "primitive")}
        for column, (name, found, argument) in (needs | {"ranks": ("ranks", stated.ranks, "ranks")}).items():
            if column not in self.at and found is None:
                fix = f"add it, or say it for the whole file: {given(argument)}; {_EXAMPLE}" if argument else _EXAMPLE
                raise ColltoolError(f"no column '{name}'", where=where, fix=fix)
        self.machines = {at: name for at, name in enumerate(self.names) if name in _MACHINES}
        self.machine: dict[int, str] = {}
        self.notes: list[Note] = []
        self.primitives: dict[str, Primitive] = {}  # parsed once per spelling

    def _time(self) -> tuple[int, float]:
        times = {at: match[1] for at, name in enumerate(self.names) if (match := _TIME.fullmatch(name))}
        if len(times) == 1:
            return next((at, _PER_SECOND[unit]) for at, unit in times.items())
        found = ", ".join(name for name in self.names if _like_time(name))
        what = f"several times: {found}" if times else f"'{found}' has no unit" if found else "no column of times"
        fix = "one column, with the unit in its name: time_us, time_ms, time_s or time_ns"
        raise ColltoolError(what, where=self.where, fix=fix)

    def _only(self, column: str, names: tuple[str, ...]) -> int | None:
        found = [at for at, name in enumerate(self.names) if name in names]
        if len(found) > 1:
            what = f"{len(found)} columns could be the {column}: {', '.join(self.names[at] for at in found)}"
            raise ColltoolError(what, where=self.where, fix="keep one, rename the others")
        return found[0] if found else None

    def timing(self, cells: list[str], number: int) -> Record | None:
        if len(cells) != len(self.names):
            raise ColltoolError(
                f"{len(cells)} cells under {len(self.names)} columns", fix="give every column a cell, quote cells with separators"
            )
        self._check_commas(cells)
        primitive, ranks = self._primitive(cells), self._count(cells, "ranks", self.stated.ranks, 2)
        nodes = self._count(cells, "nodes", self.stated.nodes, 1)
        assert ranks is not None
        if nodes is not None and nodes > ranks:
            raise ColltoolError(f"{nodes} nodes for {ranks} ranks", fix="a rank runs on one node")
        seconds = self._seconds(cells[self.time_at])
        text = cells[self.at["size"]]
        if _ZERO.fullmatch(text):
            self.notes.append(Note("size 0: nothing is sent", self.file, number))
            return None
        size = parse_size(text)
        dtype = cells[self.at["dtype"]] if "dtype" in self.at else ""
        if not _WORD.fullmatch(dtype):
            self.notes.append(Note("used without its dtype, which is a sentence, not a type", self.file, number, used=True))
            dtype = ""
        library = self._library(cells)
        return Record(primitive, ranks, nodes, size, seconds, dtype, library=library, version="", file=self.file, line=number)

    def same_machine(self, cells: list[str], number: int) -> None:
        for at, name in self.machines.items():
            cell = cells[at] if at < len(cells) else ""
            first = self.machine.setdefault(at, cell)
            if cell != first:
                what = f"{name} changes from {first!r} to {cell!r}"
                fix = "a median across machines means nothing: split the file, one machine each"
                raise ColltoolError(what, where=f"{self.file}:{number}", fix=fix)

    def _check_commas(self, cells: list[str]) -> None:
        for at in (self.time_at, *(self.at[column] for column in ("size", "ranks", "nodes") if column in self.at)):
            if "," in cells[at] and (match := _COMMA.fullmatch(cells[at][:60])):
                fix = f"decimal comma: write {match[1]}.{match[2]}{match[3]}"
                if len(match[2]) == 3:
                    fix += f", or {match[1]}{match[2]}{match[3]} if the comma separates thousands"
                raise ColltoolError(f"'{match[0]}' has a comma", fix=fix)

    def _library(self, cells: list[str]) -> str:
        text = cells[self.at["library"]] if "library" in self.at else ""
        if text and text.upper() not in _LIBRARIES:
            raise ColltoolError(f"'{text[:60]}' is not a known library", fix=f"known: {', '.join(_LIBRARIES)}")
        return text.upper()

    def _primitive(self, cells: list[str]) -> Primitive:
        word = cells[self.at["collective"]] if "collective" in self.at else ""
        if word in self.primitives:
            return self.primitives[word]
        found = parse_primitive(word) if "collective" in self.at else None
        agreed = agree(found, self.stated.primitive, "the collective is", "primitive", "")
        assert agreed is not None
        self.primitives[word] = agreed
        return agreed

    def _count(self, cells: list[str], column: str, stated: int | None, least: int) -> int | None:
        text = cells[self.at[column]] if column in self.at else ""
        match = _WHOLE.fullmatch(text)
        if text and (match is None or int(match[1]) < least):
            raise ColltoolError(f"'{text}' is not a number of {column}", fix=f"a whole number, {least} or more")
        found = agree(int(match[1]) if match else None, stated, f"{column}:", column, "")
        if found is None and column == "ranks":
            raise ColltoolError("no number of ranks", fix=f"fill the cell, or say it for the whole file: {RANKS_N}")
        return found

    def _seconds(self, text: str) -> float:
        match = _SECONDS.fullmatch(text[:60])
        time = float(text) / self.per_second if match and len(text) <= 60 else float("nan")
        if not 0 < time < float("inf"):
            raise ColltoolError(
                f"'{text[:60]}' is not a time", fix=f"a number above 0, in the unit of '{self.names[self.time_at]}'"
            )
        return time


FORMAT = Format("CSV ('collective,ranks,bytes,time_us')", recognises, read)
