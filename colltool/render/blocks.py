"""What a rendered result is made of: tables, lists, strips and pictures. How they are drawn is for each format's own file.

A table holds records and columns; a column says once how its value is taken from a record and how it is shown. CSV and
``to_columns()`` take the values, everything for people the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.formatting import counted


class Column(NamedTuple):
    """One column of a table.

    Args:
        key: its name in CSV, in ``to_columns()`` and for ``--columns``; SI units are part of it (``total_s``).
        title: its heading for people.
        get: the full value of a record; None or empty where there is nothing to say.
        show: a value as people read it.
        drop: where there is no room the highest goes first, 0 never.
        right: on which side numbers and texts line up.
        hidden: in CSV alone, so that rows of several runs can be put together.
        fold: characters to which its texts are folded before any column is dropped; 0: only after that.
    """

    key: str
    title: str
    get: Callable[[Any], Any]
    show: Callable[[Any], str] = str
    drop: int = 0
    right: bool = True
    hidden: bool = False
    fold: int = 0

    def value(self, record: Any) -> Any:
        """The full value; names of an enumeration as machine output spells them, nothing as None."""
        value = self.get(record)
        if isinstance(value, StrEnum):
            return value.value
        return None if isinstance(value, str) and not value else value

    def text(self, record: Any) -> str:
        """What a person reads; ``-`` where there is nothing."""
        value = self.get(record)
        return "-" if value is None or (isinstance(value, str) and not value) else self.show(value)


def number(key: str, title: str, show: Callable[[Any], str] = str, drop: int = 0, *, get: Callable[[Any], Any] | None = None,
           hidden: bool = False) -> Column:  # fmt: skip
    """A column that lines up on the right; its value is the field named by ``key`` unless ``get`` says otherwise."""
    return Column(key, title, get or attrgetter(key), show, drop, right=True, hidden=hidden)


def label(key: str, title: str, show: Callable[[Any], str] = str, drop: int = 0, *, get: Callable[[Any], Any] | None = None,
          hidden: bool = False, fold: int = 0) -> Column:  # fmt: skip
    """A column that lines up on the left."""
    return Column(key, title, get or attrgetter(key), show, drop, right=False, hidden=hidden, fold=fold)


def flag(key: str, title: str, drop: int = 0, *, get: Callable[[Any], Any] | None = None, hidden: bool = False) -> Column:
    """A column of True and False, for people of yes and no; None where it cannot be said."""
    return Column(key, title, get or attrgetter(key), lambda value: "yes" if value else "no", drop, right=False, hidden=hidden)


class Headline(NamedTuple):
    """What was asked for, in a plain sentence or two: the first block of a result."""

    text: str


class Table(NamedTuple):
    """Records in columns; ``best`` is the record to point out. The default view has the ``first`` records, all when None."""

    columns: tuple[Column, ...]
    records: tuple[Any, ...]
    best: int | None = None
    title: str = ""
    first: int | None = None

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns for people."""
        return tuple(column for column in self.columns if not column.hidden)

    def without(self, *keys: str) -> Table:
        """The same with these columns in CSV alone."""
        return self._replace(columns=tuple(c._replace(hidden=c.hidden or c.key in keys) for c in self.columns))

    def with_shown(self, *keys: str) -> Table:
        """The same with these columns for people too."""
        return self._replace(columns=tuple(c._replace(hidden=c.hidden and c.key not in keys) for c in self.columns))


class Lines(NamedTuple):
    """A list under a heading; ``verbatim`` lines are to be pasted and never broken. ``first`` as in :class:`Table`."""

    title: str
    lines: tuple[str, ...]
    verbatim: bool = False
    first: int | None = None

    @property
    def as_drawn(self) -> bool:
        """Whether blanks and characters count: to be pasted, or indented like a tree."""
        return self.verbatim or any(line.startswith(" ") for line in self.lines)


class Strip(NamedTuple):
    """A line of shades: ``cells`` from 0 to 1, each the busiest of ``per_cell`` neighbours."""

    name: str
    cells: tuple[float, ...]
    per_cell: int


class Strips(NamedTuple):
    """Strips under a heading: ``what`` the shades say, and ``top``, what the darkest or fullest of them is."""

    what: str
    top: str
    strips: tuple[Strip, ...]


class Picture(NamedTuple):
    """A drawing: an ``<svg>`` element, and the lines that stand for it where there are only letters."""

    svg: str
    instead: Lines


Block = Headline | Table | Lines | Strips | Picture


def later(part: Block) -> Block:
    """The same for ``--all`` alone."""
    return part._replace(first=0) if isinstance(part, Table | Lines) else part


def in_brief(parts: Iterable[Block]) -> tuple[list[Block], list[str]]:
    """The blocks of the default view, and what ``--all`` adds to them: ``["17 rows", "4 notes"]``."""
    shown: list[Block] = []
    rows = lines = 0
    for part in parts:
        if isinstance(part, Table) and part.first is not None:
            rows += max(0, len(part.records) - part.first)
            shown += [part._replace(records=part.records[: part.first])] if part.first else []
        elif isinstance(part, Lines) and part.first is not None:
            lines += max(not part.lines, len(part.lines) - part.first)
            shown += [part._replace(lines=part.lines[: part.first])] if part.first else []
        else:
            shown.append(part)
    return shown, [counted(number, what) for number, what in ((rows, "row"), (lines, "note")) if number]


def gathered(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by what is said of them, each once, both in the order met: (what, name) pairs in."""
    by_text: dict[str, list[str]] = {}
    for text, name in pairs:
        names = by_text.setdefault(text, [])
        if name not in names:
            names.append(name)
    return by_text


class TextLine(NamedTuple):
    """A line of text with the heading it stands under: the record of :func:`lines_table`."""

    title: str
    line: str


_LINE = (label("title", "title"), label("line", "line"))


def lines_table(parts: Iterable[Block]) -> Table:
    """Lists as a table, for CSV of what has no table of its own."""
    return Table(_LINE, tuple(_each_line(parts)))


def _each_line(parts: Iterable[Block]) -> Iterator[TextLine]:
    for part in parts:
        if isinstance(part, Lines):
            yield from (TextLine(part.title, line) for line in [one for one in part.lines if one] or [""])
