"""The blocks that rendered results are made of: tables, lists, strips and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.formatting import counted


class Column(NamedTuple):
    """A column of a table; its value is the field ``key`` of a record unless ``get`` is given."""

    key: str  # in CSV, ``to_columns()`` and ``--columns``, with its SI unit (``total_s``)
    title: str
    show: Callable[[Any], str] = str
    drop: int = 0  # columns that do not fit are dropped highest first, 0 never
    right: bool = True
    hidden: bool = False  # only in CSV, so that rows of several runs can be put together
    # characters to which texts are folded before any column is dropped; 0: only after that
    fold: int = 0
    get: Callable[[Any], Any] | None = None  # full value of a record; None or empty for none

    def value(self, record: Any) -> Any:
        """The full value, for CSV and ``to_columns()``."""
        value = self.get(record) if self.get else attrgetter(self.key)(record)
        if isinstance(value, StrEnum):
            return value.value
        return None if isinstance(value, str) and not value else value

    def text(self, record: Any) -> str:
        """The value as people read it; ``-`` for none."""
        value = self.get(record) if self.get else attrgetter(self.key)(record)
        return "-" if value is None or (isinstance(value, str) and not value) else self.show(value)


number = Column
"""A right-aligned column."""
label = partial(Column, right=False)
"""A left-aligned column."""
flag = partial(Column, show=lambda value: "yes" if value else "no", right=False)
"""A column of booleans, shown as yes and no."""


class Headline(NamedTuple):
    """The answer in a sentence or two: the first block of a result."""

    text: str


class Table(NamedTuple):
    """Records in columns; ``best`` is the row to highlight. The default view has the ``first``
    rows, all when None."""

    columns: tuple[Column, ...]
    records: tuple[Any, ...]
    best: int | None = None
    title: str = ""
    first: int | None = None

    @property
    def shown(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if not column.hidden)

    def without(self, *keys: str) -> Table:
        """The table with these columns hidden."""
        return self._replace(
            columns=tuple(c._replace(hidden=c.hidden or c.key in keys) for c in self.columns)
        )

    def with_shown(self, *keys: str) -> Table:
        """The table with these columns no longer hidden."""
        return self._replace(
            columns=tuple(c._replace(hidden=c.hidden and c.key not in keys) for c in self.columns)
        )


class Lines(NamedTuple):
    """A list under a title; ``verbatim`` lines are to be pasted and never wrapped. ``first`` as in
    :class:`Table`."""

    title: str
    lines: tuple[str, ...]
    verbatim: bool = False
    first: int | None = None

    @property
    def as_drawn(self) -> bool:
        """Whether spaces matter: to be pasted, or indented like a tree."""
        return self.verbatim or any(line.startswith(" ") for line in self.lines)


class Strip(NamedTuple):
    """A row of a heat map: ``cells`` from 0 to 1, each the busiest of ``per_cell`` neighbours."""

    name: str
    cells: tuple[float, ...]
    per_cell: int


class Strips(NamedTuple):
    """A heat map: ``what`` its shades mean, and ``top``, what the hottest is."""

    what: str
    top: str
    strips: tuple[Strip, ...]


class Picture(NamedTuple):
    """An ``<svg>`` element, and the lines shown instead where there is only text."""

    svg: str
    instead: Lines


Block = Headline | Table | Lines | Strips | Picture


def later(part: Block) -> Block:
    """The block for ``--all`` only."""
    return part._replace(first=0) if isinstance(part, Table | Lines) else part


def in_brief(parts: Iterable[Block]) -> tuple[list[Block], list[str]]:
    """The blocks of the default view, and what ``--all`` adds: ``["17 rows", "4 notes"]``."""
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
    return shown, [
        counted(number, what) for number, what in ((rows, "row"), (lines, "note")) if number
    ]


def gathered(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names by text of (text, name) pairs, without duplicates, in order."""
    by_text: dict[str, list[str]] = {}
    for text, name in pairs:
        names = by_text.setdefault(text, [])
        if name not in names:
            names.append(name)
    return by_text
