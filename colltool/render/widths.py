"""How wide tables are, and which of their columns fit a width: the least needed go first."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from colltool.base.quoting import printable
from colltool.render.parts import Column, Table

_GAP = 3  # a border and two spaces
_LEAST_FOLD = 12
"""Characters: a cell folded to less cannot be read."""
_USUAL_FOLD = 22
"""Characters: what an algorithm's name takes on two lines."""


class Drawn(NamedTuple):
    """A column with the texts of its cells, and how wide it is drawn."""

    column: Column
    cells: tuple[str, ...]
    width: int


def drawn_columns(table: Table) -> list[Drawn]:
    """The columns that people see, as wide as their widest cell."""
    found = []
    for column in table.shown:
        cells = tuple(printable(column.text(record)) for record in table.records)
        found.append(Drawn(column, cells, max(map(len, (printable(column.title), *cells)))))
    return found


def total_width(columns: Sequence[Drawn]) -> int:
    """Characters that they take with their borders."""
    return sum(one.width + _GAP for one in columns) + 1


def kept_columns(columns: Sequence[Drawn], width: int | None) -> list[Drawn]:
    """The columns that fit: the least needed dropped first, then the texts of the widest folded."""
    kept = _needed(columns, width)
    for one in sorted(kept, key=lambda one: -one.width):
        over = 0 if width is None else total_width(kept) - width
        if over > 0 and not one.column.right and one.width > _LEAST_FOLD:
            kept[kept.index(one)] = _folded(one, max(_LEAST_FOLD, one.width - over))
    return kept


def _needed(columns: Sequence[Drawn], width: int | None) -> list[Drawn]:
    """Without the least needed, until they fit."""
    kept = list(columns)
    while width is not None and total_width(kept) > width and any(one.column.drop for one in kept):
        kept.remove(max(kept, key=lambda one: one.column.drop))
    return kept


def _folded(one: Drawn, width: int) -> Drawn:
    cells = ("\n".join(wrap(cell, width, break_on_hyphens=False)) for cell in one.cells)
    return one._replace(cells=tuple(cells), width=width)


def fitting(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """A table with the columns that fit so many characters once headings and long texts are folded; the titles of the others."""
    kept = [one.column for one in _needed([_as_narrow(one) for one in drawn_columns(table)], width)]
    dropped = [column for column in table.shown if column not in kept]
    return table.without(*(column.key for column in dropped)), tuple(column.title for column in dropped)


def _as_narrow(one: Drawn) -> Drawn:
    """A column as wide as it has to be: numbers stay whole, headings are folded between words, texts where they are long."""
    widest = max(map(len, (*one.cells, *one.column.title.split())), default=1)
    return one._replace(width=widest if one.column.right else min(widest, _USUAL_FOLD))
