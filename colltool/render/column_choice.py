"""``--columns``: which columns tables show, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError, given, nearest
from colltool.render.blocks import Block, Column, Table


def choose(parts: Sequence[Block], names: Sequence[str], form: str) -> list[Block]:
    """The blocks with the named columns of each table; a table that has none of them stays out.

    Args:
        parts: any blocks.
        names: keys or titles, any case; all columns when empty. Hidden columns can be named.
        form: the format, for the error.

    Raises:
        ColltoolError: a name that no table has, or a format without columns.
    """
    if not names:
        return list(parts)
    tables = [part for part in parts if isinstance(part, Table)]
    if not tables:
        what = "a document has all fields" if form == "json" else "this result has no table"
        raise ColltoolError(f"nothing to choose columns of: {what}", argument="columns", fix=f"leave {given('columns')} out")
    known = [column for table in tables for column in table.columns]
    for name in names:
        if not any(_called(column, name) for column in known):
            raise _unknown(name, known)
    return [part for part in (_chosen(part, names) for part in parts) if part is not None]


def _chosen(part: Block, names: Sequence[str]) -> Block | None:
    if not isinstance(part, Table):
        return part
    found = dict.fromkeys(column for name in names for column in part.columns if _called(column, name))
    if not found:
        return None
    kept = [column._replace(hidden=False, drop=place) for place, column in enumerate(found)]  # what is named first stays longest
    return part._replace(columns=tuple(kept))


def _called(column: Column, name: str) -> bool:
    return name.lower() in (column.key.lower(), column.title.lower())


def _unknown(name: str, known: Sequence[Column]) -> ColltoolError:
    keys = list(dict.fromkeys(column.key for column in known))
    hint = nearest(name, [*keys, *dict.fromkeys(column.title for column in known)])
    return ColltoolError(f"no column '{name}'", argument="columns", fix=f"{hint} columns: {', '.join(keys)}".strip())
