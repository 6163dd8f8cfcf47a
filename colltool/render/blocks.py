"""The blocks that rendered results are made of: tables of columns, lists, heat maps and pictures.

Views return blocks; ``text`` and ``markup`` write them. A block's ``first`` is how many of its rows
or lines the default view has; ``--all`` shows everything.

A column names its value by a path of attributes from the record (:func:`attribute_at`), or has a function
that returns it. Values stay numbers in CSV; ``show`` makes text of them for the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from math import ceil
from typing import Any, Generic, NamedTuple, TypeVar

from colltool.base.errors import localize
from colltool.base.formatting import counted, format_rate, format_time, plain_number, whole_bytes

Record = TypeVar("Record")
Value = TypeVar("Value")


def attribute_at(record: Any, path: str) -> Any:
    """Return the attribute at a dotted path such as ``row.slow.total_s``; None where a part of it is None.
    AttributeError where a record lacks one."""
    for name in path.split("."):
        if record is None:
            return None
        record = getattr(record, name)
    return record


class Column(NamedTuple, Generic[Record]):
    """A column of a table of records.

    Its value is what ``get`` returns, else the attribute at ``path``, which is ``key`` by default.
    Columns are made by :func:`number`, :func:`label` and :func:`flag`, so that mypy can compare the
    type that ``get`` returns with the one that ``show`` takes.
    """

    key: str  # in CSV, ``to_columns()`` and ``--columns``, with its SI unit (``total_s``)
    title: str
    show: Callable[[Any], str] = str  # a value, which is not None, as text
    # if not all columns fit, those with the highest number are dropped first; 0: never
    drop: int = 0
    right: bool = True  # aligned to the right
    hidden: bool = False  # in CSV and documents only
    # characters to which texts are folded before any column is dropped; 0: after that
    fold: int = 0
    get: Callable[[Record], object] | None = None  # full value of a record; None or "" for none
    path: str = ""
    whole: bool = False  # a whole number of bytes is an integer, also in CSV

    def value(self, record: Record) -> Any:
        """The full value, for CSV and ``to_columns()``: of an enumeration its text, of an empty text None."""
        value = self._read(record)
        if isinstance(value, StrEnum):
            return value.value
        return plain_number(value)

    def text(self, record: Record) -> str:
        """The value as the screen shows it; ``-`` for None and for an empty text."""
        value = self._read(record)
        return "-" if value is None else self.show(value)

    def _read(self, record: Record) -> Any:
        """The value of a record: that of ``get`` or at the path, in whole bytes or in words where it is a
        text."""
        read = self.get or partial(attribute_at, path=self.path or self.key)
        value = read(record)
        if self.whole:
            return whole_bytes(value)
        if not isinstance(value, str) or isinstance(value, StrEnum):
            return value
        # a statement, which is a str, gets the words of its audience: options for the command line,
        # arguments for Python
        return localize(str(value)) or None


Columns = tuple[Column[Record], ...]
"""The columns of a table of such records."""


def _title(key: str, title: str | None) -> str:
    """The title, which is the key by default."""
    # an empty title is allowed, for a column that needs none
    return key if title is None else title


def _shown_by_unit(key: str) -> Callable[[Any], str]:
    """Return the function that shows a number by default: by the SI unit at the end of its key."""
    if key.endswith("_s"):
        return format_time
    if key.endswith("_Bps"):
        return format_rate
    return str


def number(
    key: str,
    title: str | None = None,
    show: Callable[[Value], str] | None = None,
    drop: int = 0,
    *,
    hidden: bool = False,
    get: Callable[[Record], Value | None] | None = None,
    path: str = "",
    whole: bool = False,
) -> Column[Record]:
    """Return a right-aligned column; its title is the key by default.

    Without ``show``, ``total_s`` is shown as a time and ``busbw_Bps`` as a rate.
    """
    return Column(
        key,
        _title(key, title),
        show or _shown_by_unit(key),
        drop,
        hidden=hidden,
        get=get,
        path=path,
        whole=whole,
    )


def label(
    key: str,
    title: str | None = None,
    show: Callable[[Value], str] = str,
    drop: int = 0,
    *,
    hidden: bool = False,
    fold: int = 0,
    get: Callable[[Record], Value | None] | None = None,
    path: str = "",
) -> Column[Record]:
    """Return a left-aligned column; its title is the key by default."""
    return Column(
        key,
        _title(key, title),
        show,
        drop,
        right=False,
        hidden=hidden,
        fold=fold,
        get=get,
        path=path,
    )


def yes_or_no(value: object) -> str:
    """``yes`` of what is true, else ``no``."""
    return "yes" if value else "no"


def flag(
    key: str,
    title: str | None = None,
    drop: int = 0,
    *,
    hidden: bool = False,
    get: Callable[[Record], object] | None = None,
    path: str = "",
) -> Column[Record]:
    """Return a left-aligned column of booleans, shown as yes and no."""
    return label(key, title, yes_or_no, drop, hidden=hidden, get=get, path=path)


def columns_at(path: str, columns: Columns[Any]) -> Columns[Any]:
    """Columns of a record within the record: ``columns_at("row", (number("total_s"),))`` shows
    ``row.total_s``."""
    return tuple(column._replace(path=f"{path}.{column.path or column.key}") for column in columns)


class Headline(NamedTuple):
    """The answer in a sentence or two: the first block of a result."""

    text: str


class Table(NamedTuple):
    """Records in columns.

    ``best`` is the index of the row to highlight. The default view has the ``first`` rows, all where it is
    None, none where it is 0. With ``spread`` it has at most as many from the whole range, at equal distances
    and the last among them.
    """

    columns: Columns[Any]
    records: Sequence[Any]
    best: int | None = None
    title: str = ""
    first: int | None = None
    spread: bool = False

    @property
    def brief(self) -> Sequence[Any]:
        """The records of the default view: the ``first``, or at most as many at equal distances."""
        most = len(self.records) if self.first is None else self.first
        if not self.spread or most >= len(self.records):
            return self.records[:most]
        step = ceil(len(self.records) / most)
        # begins where steps end at the last record: of 10 by steps of 4, at 1, 5 and 9
        return self.records[(len(self.records) - 1) % step :: step]

    @property
    def shown(self) -> Columns[Any]:
        """The columns that are not hidden."""
        return tuple(column for column in self.columns if not column.hidden)

    def without(self, *keys: str) -> Table:
        """The table with these columns hidden."""
        return self._with_hidden(keys, hidden=True)

    def with_shown(self, *keys: str) -> Table:
        """The table with these columns no longer hidden."""
        return self._with_hidden(keys, hidden=False)

    def without_empty(self, *keys: str) -> Table:
        """The table with those columns hidden that have no value in any row; only ``keys`` where some are
        given."""
        empty = []
        for column in self.columns:
            if not keys or column.key in keys:
                values = map(column.value, self.records)
                if all(value is None for value in values):
                    empty.append(column.key)
        return self.without(*empty)

    def _with_hidden(self, keys: tuple[str, ...], *, hidden: bool) -> Table:
        """The table with these columns hidden, or no longer so."""
        columns = (
            column._replace(hidden=hidden) if column.key in keys else column
            for column in self.columns
        )
        return self._replace(columns=tuple(columns))


class Lines(NamedTuple):
    """A list under a title; without lines the title is a note by itself.

    ``verbatim`` lines are to be pasted and never wrapped. ``first`` as in :class:`Table`.
    """

    title: str
    lines: Sequence[str]
    verbatim: bool = False
    first: int | None = None

    @property
    def as_drawn(self) -> bool:
        """Whether spaces matter: to be pasted, or indented like a tree."""
        return self.verbatim or any(line.startswith(" ") for line in self.lines)


class Strip(NamedTuple):
    """A row of a heat map."""

    name: str
    cells: tuple[float, ...]  # loads as shares of the hottest, from 0 to 1
    per_cell: int  # how many neighbours a cell stands for; it has the load of the busiest


class Strips(NamedTuple):
    """A heat map."""

    what: str  # what the shades mean
    top: str  # what the hottest cell is
    strips: tuple[Strip, ...]


class Picture(NamedTuple):
    """An ``<svg>`` element, and the lines shown instead where there is only text."""

    svg: str
    instead: Lines


Block = Headline | Table | Lines | Strips | Picture


def later(part: Block) -> Block:
    """The block, shown by ``--all`` only."""
    return part._replace(first=0) if isinstance(part, Table | Lines) else part


def in_brief(parts: Iterable[Block]) -> tuple[list[Block], list[str]]:
    """Return the blocks of the default view, and what ``--all`` adds: ``["17 rows", "4 notes"]``. A block
    whose ``first`` is 0 is left out with its title."""
    brief_blocks: list[Block] = []
    # left out; ``rows_between`` of a spread table
    rows = 0
    rows_between = 0
    notes = 0
    for part in parts:
        if not isinstance(part, Table | Lines) or part.first is None:
            brief_blocks.append(part)
            continue
        if isinstance(part, Table):
            cut: Block = part._replace(records=part.brief)
            left_out = len(part.records) - len(part.brief)
            if part.spread:
                rows_between += left_out
            else:
                rows += left_out
        else:
            # max(True, ...) is at least 1: a title without lines counts as a note
            notes += max(not part.lines, len(part.lines) - part.first)
            cut = part._replace(lines=part.lines[: part.first])
        if part.first:
            brief_blocks.append(cut)
    added = []
    if rows_between:
        added.append(f"{counted(rows_between, 'row')} in between")
    if rows:
        added.append(counted(rows, "row"))
    if notes:
        added.append(counted(notes, "note"))
    return brief_blocks, added


def names_by_text(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names of each text, from (text, name) pairs: texts and names as they first come, each once."""
    by_text: dict[str, dict[str, None]] = {}
    for text, name in pairs:
        by_text.setdefault(text, {})[name] = None
    return {text: list(names) for text, names in by_text.items()}


def lines_by_text(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each text of (text, name) pairs: ``shared by a pipe: ring, tree``."""
    return [f"{text}: {', '.join(names)}" for text, names in names_by_text(pairs).items()]


def lines_by_names(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The same with the names before the text: ``ring, tree: shared by a pipe``."""
    return [f"{', '.join(names)}: {text}" for text, names in names_by_text(pairs).items()]


def span_text(first: str, last: str) -> str:
    """``1 us to 2 us``; equal ends are one."""
    if first == last:
        return first
    return f"{first} to {last}"
