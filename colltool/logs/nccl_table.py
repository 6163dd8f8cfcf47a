"""The table of a run of nccl-tests: its columns by the header line, and a row's cells by half.

``1048576 262144 float sum -1 45.12 23.24 43.58 0 44.98 23.31 43.71 0`` is size, count, type, redop
and root, then time, algbw, busbw and #wrong out-of-place, and the same in-place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from colltool.logs.printed_numbers import (
    rounding_interval,
)

OUT, IN, EITHER = "out-of-place", "in-place", "one half"
"""Labels of halves; EITHER of one that the row does not tell."""
Half = Mapping[str, str]
"""Columns of half a row, in-place or out-of-place, and their text."""


class Cells(NamedTuple):
    """A row's cells as printed."""

    size: str
    dtype: str
    halves: dict[str, Half]  # by label
    before: Mapping[str, str]  # the columns before the halves: count, redop, root


class TableRow(Protocol):
    """A row, cut into cells only when used, so that a log of a million rows takes no more memory
    than its text.

    ``number``: of its line. ``joined``: pieced together from several lines. ``item``: its path in a
    JSON report.
    """

    @property
    def number(self) -> int: ...
    @property
    def joined(self) -> bool: ...
    @property
    def item(self) -> str: ...
    def cells(self) -> Cells:
        """Its cells by column."""
        ...


# spaces from which on a half was left blank: printed columns are at most 8 spaces apart
_WIDE_GAP = 20
_GAP = re.compile(rf"(?<!\s)\s{{{_WIDE_GAP},}}+[\d.]")


class Columns(NamedTuple):
    """A table's columns.

    Of ``size count type redop root time algbw busbw wrong time algbw busbw wrong`` the halves start
    at 5 and 9 (``starts``), where ``time`` stands, and each has 4 columns (``width``).
    """

    line: int  # of the header
    names: tuple[str, ...]
    labels: tuple[str, ...]  # of the halves, one for each of ``starts``: out-of-place, in-place
    starts: tuple[int, ...]  # where each half starts in ``names``: one or two
    width: int  # columns of a half
    values: int  # cells of a full row, where a timestamp counts as two
    without_redop: bool  # rows may leave the redop cell blank, as old tests without a reduction do

    def words(self, text: str) -> list[str]:
        """The words of a row, with an empty one for a blank redop cell. Of a row with more than it
        should have, the last one is all the rest."""
        words = text.split(None, self.values + 1)
        # where a redop was left blank, the root stands in its place
        if self.without_redop and len(words) > 3 and rounding_interval(words[3]) is not None:
            words.insert(3, "")
        return words

    def cut(self, text: str) -> Cells:
        """The cells of a row's text. Of a row with one half of two, the blanks tell which it is:
        in-place behind a wide gap, else EITHER."""
        words = self.words(text)
        first = self.starts[0]
        halves: dict[str, Half] = {}
        if len(words) == self.values:
            for label, start in zip(self.labels, self.starts, strict=True):
                halves[label] = self._half(words[start:])
        else:
            label = IN if _GAP.search(text) else EITHER
            halves[label] = self._half(words[first:])
        return Cells(words[0], words[2], halves, dict(zip(self.names[:first], words, strict=False)))

    def _half(self, words: list[str]) -> Half:
        """The columns of a half that begins with these words."""
        first = self.starts[0]
        return dict(zip(self.names[first : first + self.width], words, strict=False))


class TextRow(NamedTuple):
    """A row of a printed table, a :class:`TableRow`."""

    number: int
    text: str
    columns: Columns
    joined: bool
    item: str = ""

    def cells(self) -> Cells:
        return self.columns.cut(self.text)
