"""How wide tables are, and which of their columns fit a width: the least needed go first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from colltool.base.quoting import printable
from colltool.render.blocks import Column, Table

_GAP = 3  # a border and two spaces
_LEAST_FOLD = 12
"""Characters: a cell folded to less cannot be read."""
_USUAL_FOLD = 22
"""Characters: what an algorithm's name takes on two lines."""


_TYPED = re.compile(r"(--[\w-]+) (?=\S)")
"""An option before its value: what is to be typed is never torn apart."""


class Drawn(NamedTuple):
    """A column with its heading and the texts of its cells as they are drawn, and how wide."""

    column: Column
    title: str
    cells: tuple[str, ...]
    width: int


def drawn_columns(table: Table) -> list[Drawn]:
    """The columns that people see, as wide as their widest cell."""
    found = []
    for column in table.shown:
        title, cells = printable(column.title), tuple(printable(column.text(record)) for record in table.records)
        found.append(Drawn(column, title, cells, max(map(len, (title, *cells)))))
    return found


def total_width(columns: Sequence[Drawn]) -> int:
    """Characters that they take with their borders."""
    return sum(one.width + _GAP for one in columns) + 1


def kept_columns(columns: Sequence[Drawn], width: int | None) -> list[Drawn]:
    """The columns that fit: headings folded between words, then the least needed dropped, then the texts of the widest folded."""
    if width is None or total_width(columns) <= width:
        return list(columns)
    folded = [_with_folded_title(one) for one in columns]
    there = {one.column for one in _needed([one._replace(width=_least(one)) for one in folded], width)}
    kept = [one for one in folded if one.column in there]
    for one in sorted(kept, key=lambda one: -one.width):
        over = total_width(kept) - width
        if over > 0 and not one.column.right and one.width > _LEAST_FOLD:
            kept[kept.index(one)] = _folded(one, max(_LEAST_FOLD, one.width - over))
    return kept


def _least(one: Drawn) -> int:
    """The width to which a column is folded before another is dropped."""
    return min(one.width, one.column.fold) if one.column.fold else one.width


def continued(key: Drawn, rest: Sequence[Drawn], width: int) -> list[list[Drawn]]:
    """Columns that found no room, a list for each further table, all beginning with the key that tells rows apart."""
    key = _folded(key, min(key.width, _USUAL_FOLD))
    tables: list[list[Drawn]] = []
    for one in map(_with_folded_title, rest):
        if total_width([key, one]) > width and not one.column.right:
            one = _folded(one, max(_LEAST_FOLD, width - total_width([key]) - _GAP))
        if not tables or total_width([*tables[-1], one]) > width:
            tables.append([key])
        tables[-1].append(one)
    return tables


def _needed(columns: Sequence[Drawn], width: int) -> list[Drawn]:
    """Without the least needed, until they fit."""
    kept = list(columns)
    while total_width(kept) > width and any(one.column.drop for one in kept):
        kept.remove(max(kept, key=lambda one: one.column.drop))
    return kept


def _with_folded_title(one: Drawn) -> Drawn:
    width = max(map(len, (*one.cells, *one.title.split())), default=1)
    return one._replace(title=_broken(one.title, width), width=width)


def _folded(one: Drawn, width: int) -> Drawn:
    return one._replace(title=_broken(one.title, width), cells=tuple(_broken(cell, width) for cell in one.cells), width=width)


def _broken(text: str, width: int) -> str:
    kept = _TYPED.sub("\\1\0", text.replace("\n", " "))
    return "\n".join(wrap(kept, width, break_on_hyphens=False)).replace("\0", " ")


def fitting(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """A table with the columns that fit so many characters once headings and long texts are folded; the titles of the others."""
    kept = [one.column for one in _needed([_as_narrow(one) for one in drawn_columns(table)], width)]
    dropped = [column for column in table.shown if column not in kept]
    return table.without(*(column.key for column in dropped)), tuple(column.title for column in dropped)


def _as_narrow(one: Drawn) -> Drawn:
    """A column as wide as it has to be: numbers stay whole, headings are folded between words, texts where they are long."""
    widest = max(map(len, (*one.cells, *one.column.title.split())), default=1)
    return one._replace(width=widest if one.column.right else min(widest, _USUAL_FOLD))
