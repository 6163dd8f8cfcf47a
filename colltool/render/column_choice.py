"""``--columns``: the blocks of a result with the columns that a user names (:func:`choose`).

A name is a column's key or its title, also of a hidden column, in any case. Errors are of the
argument ``columns``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colltool.base.errors import ColltoolError, argument_text, nearest
from colltool.render.blocks import Block, Column, Table


def choose(blocks: Sequence[Block], names: Sequence[str], form: str) -> list[Block]:
    """The blocks with only the named columns; tables that have none of them are dropped.

    All blocks as they are for no names. Raises a ColltoolError for a name that no table has, and for
    any name where no block is a table, such as the document of a ``form`` json.
    """
    if not names:
        return list(blocks)
    tables = [block for block in blocks if isinstance(block, Table)]
    if not tables:
        reason = "a document has all fields" if form == "json" else "this result has no table"
        raise _needless_choice(f"nothing to choose columns of: {reason}")
    check_columns(tables, names)
    chosen: list[Block] = []
    for block in blocks:
        if isinstance(block, Table):
            block = with_columns(block, names)
        if not isinstance(block, Table) or block.columns:
            chosen.append(block)
    return chosen


def without_columns(names: Sequence[str]) -> None:
    """Raise ColltoolError for a choice of columns: an HTML page has none."""
    if names:
        raise _needless_choice("a page has the columns that fit")


def _needless_choice(what: str) -> ColltoolError:
    """Return the error of a choice of columns where there is nothing to choose."""
    return ColltoolError(what, argument="columns", fix=f"leave {argument_text('columns')} out")


def check_columns(tables: Sequence[Table], names: Sequence[str]) -> None:
    """Raise ColltoolError for a name that is no column of any table."""
    columns: list[Column[Any]] = []
    for table in tables:
        columns += table.columns
    for name in names:
        if any(_is_named(column, name) for column in columns):
            continue
        keys = list(dict.fromkeys(column.key for column in columns))
        titles = list(dict.fromkeys(column.title for column in columns))
        hint = nearest(name, keys + titles)
        fix = f"{hint} columns: {', '.join(keys)}".strip()
        raise ColltoolError(f"no column '{name}'", argument="columns", fix=fix)


def with_columns(table: Table, names: Sequence[str]) -> Table:
    """The table with only the named columns, in the order of the names; with all for no names."""
    if not names:
        return table
    chosen: dict[Column[Any], None] = {}
    for name in names:
        for column in table.columns:
            if _is_named(column, name):
                chosen[column] = None
    columns = []
    # on a narrow screen the column that is named first is dropped last
    for place, column in enumerate(chosen):
        columns.append(column._replace(hidden=False, drop=place))
    return table._replace(columns=tuple(columns))


def _is_named(column: Column[Any], name: str) -> bool:
    return name.lower() in (column.key.lower(), column.title.lower())
