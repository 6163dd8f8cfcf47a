"""The table of nccl-tests and rccl-tests: columns by the name line, and the cells of a row under them."""

from __future__ import annotations

import re
from typing import NamedTuple

from colltool.errors import ColltoolError
from colltool.measured.rows import Unusable, printed

OUT, IN, EITHER = "out-of-place", "in-place", "one half"

_TIMES = ("time", "cputime")
_AFTER_THE_HALVES = ("timestamp", "algo", "proto", "nchannels")
_WIDE_GAP = 20  # spaces where a half was left blank; columns that are printed are at most 8 apart
_HEAD = re.compile(r"(?:^|\s)(\d+)\s+(\d+)\s+([a-z]\w*)(?=\s|$)(.*)")


class Line(NamedTuple):
    """A row of a table: its half or halves by label, each a cell by column name.

    Args:
        number: of its line.
        joined: of pieces on several lines.
        item: what tells it from other rows of the same line, in JSON.
    """

    number: int
    size: str
    dtype: str
    halves: dict[str, dict[str, str]]
    joined: bool = False
    item: str = ""


class Columns(NamedTuple):
    """The columns of a table, as its name line lists them.

    Args:
        line: of the name line.
        names: from ``size`` on, without ``#``.
        labels: of the halves, in order.
        starts: where each half starts in ``names``.
        width: columns of a half.
    """

    line: int
    names: tuple[str, ...]
    labels: tuple[str, ...]
    starts: tuple[int, ...]
    width: int

    @property
    def values(self) -> int:
        """Values of a full row: a timestamp is a date and a time of day."""
        return len(self.names) + self.names.count("timestamp")

    @property
    def time(self) -> str:
        """What the time column is called."""
        return self.names[self.starts[0]]


def columns(text: str, above: str, line: int, file: str) -> Columns | None:
    """The columns that a name line lists, or None for any other line. ``above`` is the line before, which labels the halves.

    Raises:
        ColltoolError: a table of nccl-tests 2.0 or older, whose times are in ms.
    """
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
    return Columns(line, names, _labels(above, len(starts)), starts, width)


def _labels(above: str, halves: int) -> tuple[str, ...]:
    if halves == 2:
        return (OUT, IN)
    return (IN,) if IN in above and OUT not in above else (OUT,)


def check_unit(text: str, line: int, file: str) -> None:
    """Refuse a table that gives its times in another unit than us, by the line of units below the names.

    Raises:
        ColltoolError: ``(ms)`` or ``(s)``.
    """
    unit = re.search(r"\(B\).*?\((ms|s|ns)\)", text)
    if unit:
        raise ColltoolError(f"times in {unit[1]}, not us", where=f"{file}:{line}", fix="measure again with a current nccl-tests")


class Pieces:
    """The row that is being read: NCCL's messages break rows in the middle, and the rest follows on a later line."""

    def __init__(self, layout: Columns, number: int, head: re.Match[str]) -> None:
        self.layout = layout
        self.number = number
        self.joined = False
        self.words = [head[1], head[2], head[3], *head[4].split()]
        self.gap = bool(re.match(rf".*?\s{{{_WIDE_GAP},}}[\d.]", head[4]))
        if "redop" in layout.names and len(self.words) > 3 and printed(self.words[3]) is not None:
            self.words.insert(3, "")  # old tests without a reduction leave the cell blank

    @property
    def missing(self) -> int:
        """How many values the row still lacks; negative for too many."""
        return self.layout.values - len(self.words)

    def add(self, text: str) -> bool:
        """Take the rest of the row from a later line, if that is what the line holds."""
        words = text.split()
        if not words or len(words) > self.missing or not (words[0] == "N/A" or printed(words[0])):
            return False
        self.words += words
        self.joined = True
        return True

    def line(self) -> Line:
        """The row under its columns.

        Raises:
            Unusable: too few values, or too many.
        """
        layout, words = self.layout, self.words
        if self.missing < 0:
            raise Unusable("more values than columns")
        if self.missing == 0:
            halves = {label: _cells(layout, words[at:]) for label, at in zip(layout.labels, layout.starts, strict=True)}
        elif len(layout.starts) == 2 and self.missing == layout.width:
            halves = {IN if self.gap else EITHER: _cells(layout, words[layout.starts[0] :])}
        else:
            raise Unusable("truncated: fewer values than columns")
        return Line(self.number, words[0], words[2], halves, self.joined)


def _cells(layout: Columns, words: list[str]) -> dict[str, str]:
    first = layout.starts[0]
    return dict(zip(layout.names[first : first + layout.width], words, strict=False))


def row_head(text: str) -> re.Match[str] | None:
    """The first three cells of a row, wherever in the line a launcher's prefix lets them start."""
    head = _HEAD.search(text)
    return head if head and "#" not in text[: head.start()] else None


def looks_like_a_row(text: str) -> bool:
    """Whether a line was a row, or the rest of one, before something garbled it."""
    if "#" in text or "<" in text:
        return False
    words = text.split()
    return len(words) >= 4 and sum(printed(word) is not None or word == "N/A" for word in words) >= max(4, len(words) // 2)
