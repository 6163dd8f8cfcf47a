"""The table of nccl-tests and rccl-tests: columns by the header line, and the cells of a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.measurements.busbw_ratio import UnusableRow, rounding_interval
from colltool.measurements.series import Note, place

OUT, IN, EITHER = "out-of-place", "in-place", "one half"
_TIMES = ("time", "cputime")
_AFTER_THE_HALVES = ("timestamp", "algo", "proto", "nchannels")
_WIDE_GAP = 20  # spaces where a half was left blank; columns that are printed are at most 8 apart
_HEAD = re.compile(r"(?:^|\s)(\d+)\s+\d+\s+[a-z]\w*(?=\s|$)")
_GAP = re.compile(rf"(?<!\s)\s{{{_WIDE_GAP},}}+[\d.]")
_OTHER_UNIT = re.compile(r"\((ms|s|ns)\)")


class Cells(NamedTuple):
    """A row's size and dtype as printed, and for each half, by label, its columns and their text."""

    size: str
    dtype: str
    halves: dict[str, Iterable[tuple[str, str]]]


class TableRow(NamedTuple):
    """A row, cut into cells only when used, so that a log of a million rows takes no more memory than its text. ``joined``:
    pieced together from several lines. ``item``: its path in a JSON report."""

    number: int
    content: Any
    cut: Callable[[Any], Cells]
    joined: bool = False
    item: str = ""

    def cells(self) -> Cells:
        return self.cut(self.content)


class Columns(NamedTuple):
    """A table's columns. ``starts``: where each half starts in ``names``, ``width``: its columns. ``values``: of a full row,
    where a timestamp counts as two. ``without_redop``: rows may leave the redop cell blank, as old tests without a reduction
    do."""

    line: int
    names: tuple[str, ...]
    labels: tuple[str, ...]
    starts: tuple[int, ...]
    width: int
    values: int
    without_redop: bool

    @property
    def time(self) -> str:
        return self.names[self.starts[0]]

    def words(self, text: str) -> list[str]:
        """A row's values, one per column."""
        words = text.split(None, self.values + 1)
        if self.without_redop and len(words) > 3 and rounding_interval(words[3]) is not None:
            words.insert(3, "")
        return words

    def cut(self, text: str) -> Cells:
        words = self.words(text)
        if len(words) == self.values:
            halves = {label: self._half(words[at:]) for label, at in zip(self.labels, self.starts, strict=True)}
        else:
            halves = {IN if _GAP.search(text) else EITHER: self._half(words[self.starts[0] :])}
        return Cells(words[0], words[2], halves)

    def _half(self, words: list[str]) -> Iterable[tuple[str, str]]:
        first = self.starts[0]
        return zip(self.names[first : first + self.width], words, strict=False)


def columns(text: str, above: str, line: int, file: str) -> Columns | None:
    """The columns of a header line, None for any other line; ``above`` is the line before, which labels the halves."""
    if "algbw" not in text:
        return None
    words = [word.lstrip("#") for word in text.split()]
    if "bytes" in words and "time" in words and "size" not in words:
        what = "a table of nccl-tests 2.0 or older, whose times are in ms, rounded to 1 us"
        raise ColltoolError(what, where=f"{file}:{line}", fix="measure again with a current nccl-tests")
    if "size" not in words or "type" not in words or not any(name in words for name in _TIMES):
        return None
    names = tuple(word for word in words[words.index("size") :] if word)
    starts = tuple(at for at, name in enumerate(names) if name in _TIMES)
    end = next((at for at, name in enumerate(names) if name in _AFTER_THE_HALVES), len(names))
    if len(starts) not in (1, 2) or names[:3] != ("size", "count", "type") or starts[0] < 3:
        return None
    width = (starts[1] if len(starts) == 2 else end) - starts[0]
    values = len(names) + names.count("timestamp")
    labels = (OUT, IN) if len(starts) == 2 else (IN,) if IN in above and OUT not in above else (OUT,)
    return Columns(line, names, labels, starts, width, values, without_redop="redop" in names)


def check_unit(text: str, line: int, file: str) -> None:
    """Refuse a table whose unit line gives times in another unit than us."""
    _, bytes_, units = text.partition("(B)")
    unit = _OTHER_UNIT.search(units) if bytes_ else None
    if unit:
        raise ColltoolError(f"times in {unit[1]}, not us", where=f"{file}:{line}", fix="measure again with a current nccl-tests")


class Pieces:
    """The row being read: NCCL messages may break it in the middle, and the rest follows on a later line."""

    def __init__(self, layout: Columns, number: int, head: str) -> None:
        self.layout = layout
        self.number = number
        self.text = head
        self.joined = False
        self.missing = layout.values - len(layout.words(head))  # negative: too many

    def add(self, text: str) -> bool:
        words = text.split(None, max(self.missing, 0))
        if not words or len(words) > self.missing or not (words[0] == "N/A" or rounding_interval(words[0])):
            return False
        self.text += f" {' '.join(words)}"
        self.missing -= len(words)
        self.joined = True
        return True

    def row(self) -> TableRow:
        if self.missing < 0:
            raise UnusableRow("more values than columns")
        if self.missing and (len(self.layout.starts) == 1 or self.missing != self.layout.width):  # other than a whole half
            raise UnusableRow("truncated: fewer values than columns")
        return TableRow(self.number, self.text, self.layout.cut, self.joined)


def row_head(text: str) -> str | None:
    """A row from its first cell on, behind any launcher prefix; None for any other line."""
    head = _HEAD.search(text)
    return text[head.start(1) :] if head and "#" not in text[: head.start(1)] else None


class Device(NamedTuple):
    """A Rank line: one rank, and the process that drives it."""

    rank: int
    group: str
    pid: str
    host: str
    line: int


@dataclass
class TestRun:
    """What the report of one run says.

    ``started``: the program as it announces itself; ``mentions``: programs named above the table. ``devices_cut``: a Rank line is
    broken, so their number is unknown. ``per_process``: nThread x nGpus, 0 if unknown. ``table``: line of the header, 0 without
    one.
    """

    file: str
    started: str = ""
    mentions: set[str] = field(default_factory=set)
    per_process: int = 0
    devices: list[Device] = field(default_factory=list)
    devices_cut: bool = False
    library: str = ""
    library_version: str = ""
    tests_version: str = ""
    table: int = 0
    time: str = "time"
    closed: bool = False
    rows: list[TableRow] = field(default_factory=list)
    bad: list[Note] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.file}:{self.table}"

    def place(self, row: TableRow) -> str:
        return place(self.file, row.number, row.item)

    def note(self, reason: str, row: TableRow, *, used: bool = False) -> Note:
        return Note(reason, self.file, row.number, row.item, used)


def spelled(code: int) -> str:
    """NCCL's version code as text: 22902 is 2.29.2, and before 2.9 2804 was 2.8.4."""
    major = 10000 if code >= 10000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"
