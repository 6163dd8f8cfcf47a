"""Which columns of a table fit a width in characters, and how far their texts are folded for it.

A column with its texts is a :class:`RenderedColumn`. For a screen, :func:`fitting_columns` chooses
and folds columns and :func:`further_tables` has those that it dropped; for a page,
:func:`without_wide_columns` only chooses, because a browser folds texts itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from colltool.base.errors import displayed
from colltool.render.blocks import Column, Table

# widths in characters
_GAP = 3  # what a column adds to its texts: a border and a space on each side
_LEAST_FOLD = 12  # cells folded to less cannot be read
_USUAL_FOLD = 22  # at which an algorithm's name takes two lines
# An option stays on one line with its value, as in "--size 1MB": the space between the two is a NUL
# while text is folded.
_OPTION = re.compile(r"(--[\w-]+) (?=\S)")

Fit = Literal["fold", "drop", "wide"]
"""What becomes of a table that is too wide for its screen, see :class:`~.text.Screen`."""


class RenderedColumn(NamedTuple):
    """A column with the texts of its title and cells, which are several lines each if folded."""

    column: Column[Any]
    title: str
    cells: tuple[str, ...]
    width: int  # characters, without borders

    @property
    def longest_word(self) -> int:
        """Characters of the longest word of the cells; an option and its value are one."""
        words = _joined_options("\n".join(self.cells)).split()
        return max(map(len, words), default=0)

    @property
    def width_with_folded_title(self) -> int:
        return max(map(len, (*self.cells, *self.title.split())), default=1)

    def with_folded_title(self) -> RenderedColumn:
        """The column as narrow as its cells and the longest word of its title allow."""
        width = self.width_with_folded_title
        return self._replace(title=_folded_text(self.title, width), width=width)

    def folded(self, width: int) -> RenderedColumn:
        """The column with title and cells folded to a width."""
        cells = tuple(_folded_text(cell, width) for cell in self.cells)
        return self._replace(title=_folded_text(self.title, width), cells=cells, width=width)


def _joined_options(text: str) -> str:
    """A text with a NUL between an option and its value."""
    return _OPTION.sub("\\1\0", text)


def _folded_text(text: str, width: int) -> str:
    """A text in lines of a width; an option and its value stay on one."""
    words = _joined_options(text.replace("\n", " "))
    return "\n".join(wrap(words, width, break_on_hyphens=False)).replace("\0", " ")


def render_columns(table: Table) -> list[RenderedColumn]:
    """The columns of a table that are not hidden, as wide as their longest text."""
    rendered_columns = []
    for column in table.shown:
        title = displayed(column.title)
        cells = tuple(displayed(column.text(record)) for record in table.records)
        width = max(map(len, (title, *cells)))
        rendered_columns.append(RenderedColumn(column, title, cells, width))
    return rendered_columns


def total_width(columns: Sequence[RenderedColumn]) -> int:
    """Characters of a table of these columns, with borders."""
    return sum(rendered.width + _GAP for rendered in columns) + 1


def fitting_columns(
    columns: Sequence[RenderedColumn], width: int | None, fit: Fit
) -> list[RenderedColumn]:
    """The columns to draw within a width; all as they are where they fit, or for no width.

    Else titles are folded first, then columns are dropped in the order of their ``drop`` (the highest first, 0
    never), then the widest texts are folded. ``fit="drop"`` folds only where dropping alone is not enough;
    ``"wide"`` has the same columns as ``"fold"``, unfolded.
    """
    if width is None or total_width(columns) <= width:
        return list(columns)
    if fit == "drop":
        columns = _without_droppable(columns, width)
        if total_width(columns) <= width:
            return list(columns)
    folded = [rendered.with_folded_title() for rendered in columns]
    needed = _without_droppable(list(map(_narrowest, folded)), width)
    needed_columns = {rendered.column for rendered in needed}
    if fit == "wide":
        return [rendered for rendered in columns if rendered.column in needed_columns]
    remaining = [rendered for rendered in folded if rendered.column in needed_columns]
    # at blanks first, then within words where that was not enough
    _fold_widest(remaining, width, whole_words=True)
    _fold_widest(remaining, width, whole_words=False)
    return remaining


def _narrowest(rendered: RenderedColumn) -> RenderedColumn:
    """The column at the least width at which it can be read."""
    fold = rendered.column.fold
    if not fold:
        return rendered
    least_width = max(fold, rendered.longest_word)
    return rendered._replace(width=min(rendered.width, least_width))


def _without_droppable(columns: Sequence[RenderedColumn], width: int) -> list[RenderedColumn]:
    """The columns that are left when those with the highest ``drop`` are dropped until the others
    fit. Columns that are never dropped may still be too wide."""
    remaining = list(columns)
    while total_width(remaining) > width:
        first_to_drop = max(remaining, key=attrgetter("column.drop"))
        if not first_to_drop.column.drop:
            break
        remaining.remove(first_to_drop)
    return remaining


def _fold_widest(columns: list[RenderedColumn], width: int, *, whole_words: bool) -> None:
    """Fold left-aligned columns in place, from the widest on, until all fit or each was folded as
    far as it may be."""
    for rendered in sorted(columns, key=attrgetter("width"), reverse=True):
        least_width = min(_LEAST_FOLD, rendered.column.fold or _LEAST_FOLD)
        if whole_words:
            least_width = max(least_width, rendered.longest_word)
        excess = total_width(columns) - width
        if excess > 0 and not rendered.column.right and rendered.width > least_width:
            folded_width = max(least_width, rendered.width - excess)
            place = columns.index(rendered)
            columns[place] = rendered.folded(folded_width)


def further_tables(
    key: RenderedColumn, dropped: Sequence[RenderedColumn], width: int
) -> list[list[RenderedColumn]]:
    """The columns of further tables for those that were dropped, each beginning with the key column
    that names its rows."""
    key = key.folded(min(key.width, _USUAL_FOLD))
    tables: list[list[RenderedColumn]] = []
    for rendered in dropped:
        rendered = rendered.with_folded_title()
        if total_width([key, rendered]) > width and not rendered.column.right:
            width_beside_key = width - total_width([key]) - _GAP
            rendered = rendered.folded(max(_LEAST_FOLD, width_beside_key))
        if not tables or total_width([*tables[-1], rendered]) > width:
            tables.append([key])
        tables[-1].append(rendered)
    return tables


def without_wide_columns(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """The table with the columns that fit a width once texts are folded, and the titles of the
    columns that do not."""
    narrow = []
    for rendered in render_columns(table):
        folded_width = rendered.width_with_folded_title
        if not rendered.column.right:
            folded_width = min(folded_width, _USUAL_FOLD)
        narrow.append(rendered._replace(width=folded_width))
    fitting = {rendered.column for rendered in _without_droppable(narrow, width)}
    dropped = [column for column in table.shown if column not in fitting]
    keys = [column.key for column in dropped]
    titles = tuple(column.title for column in dropped)
    return table.without(*keys), titles
