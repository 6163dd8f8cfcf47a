"""Renders any result in any format.

A result's class names its module in :mod:`colltool.render.views`, which is imported on first use.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

from colltool import __version__
from colltool.base.errors import ColltoolError, given, nearest, printable
from colltool.render.blocks import Block, Column, Table
from colltool.render.view import Document, View

if TYPE_CHECKING:
    from colltool.render.text import Screen


FORMATS = ("table", "json", "csv", "markdown", "html")


def view_of(result: Any) -> View:
    """The view of a result's type."""
    kind = type(result)
    name = getattr(kind, "subject", None)
    if name is None:
        raise TypeError(f"{kind.__name__} is no result of colltool")
    views: dict[type, View] = import_module(f"colltool.render.views.{name}").VIEWS
    return views[kind]


def blocks(result: Any) -> list[Block]:
    return view_of(result).blocks(result)


def document(result: Any) -> Document:
    """A result as plain JSON values: seconds, bytes, bytes/s, at full precision."""
    view = view_of(result)
    return {"schema": f"colltool.{view.schema}/1", "colltool": __version__} | view.document(result)


def table(result: Any) -> Table:
    """A result's main table, with all columns and rows."""
    return view_of(result).table(result)


def columns(result: Any) -> dict[str, list[Any]]:
    main = table(result)
    return {column.key: [column.value(record) for record in main.records] for column in main.columns}


def summary(result: Any) -> str:
    """The answer in a line or two, safe to print."""
    return "\n".join(map(printable, view_of(result).summary(result).split("\n")))


def fragment(result: Any) -> str:
    """A result as an HTML fragment, for a notebook."""
    from colltool.render.markup import to_fragment

    return to_fragment(_for_people(result))


def rendered(result: Any, form: str, screen: Screen | None = None, names: Sequence[str] = (), *, everything: bool = False) -> str:
    """A result in one of :data:`FORMATS`.

    Args:
        result: any result.
        form: the format.
        screen: the terminal; a pipe when None.
        names: ``--columns``; all when empty.
        everything: ``--all``; only text and Markdown have a shorter default view.

    Raises:
        ColltoolError: no table has such a column, or the format has no columns.
    """
    if form == "json":
        choose([], names, form)
        return to_json(document(result))
    if form == "csv":
        (main,) = choose([table(result)], names, form)
        return to_csv(main)  # type: ignore[arg-type]
    if form == "html" and (page := view_of(result).page) is not None:
        if names:
            raise ColltoolError("a page has the columns that fit", argument="columns", fix=f"leave {given('columns')} out")
        return page(result)
    parts = choose(_for_people(result), names, form)
    if form == "markdown":
        from colltool.render.markup import to_markdown

        return to_markdown(parts, everything=everything)
    if form == "html":
        from colltool.render.markup import to_html

        return to_html(parts)
    from colltool.render.text import PIPE, PLAIN_WIDTH, to_text

    screen = screen or PIPE
    if screen.width is None and not (everything or names):
        screen = screen._replace(width=PLAIN_WIDTH)
    return to_text(parts, screen, everything=everything)


def _for_people(result: Any) -> list[Block]:
    # without empty tables, of which only CSV keeps the header
    return [part for part in blocks(result) if not isinstance(part, Table) or part.records]


def csv_text(text: str) -> str:
    """Printable, and with an apostrophe before what a spreadsheet would run as a formula."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) and len(shown) > 1 else shown


def to_csv(table: Table) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.key for column in table.columns)
    writer.writerows([_exact(column.value(record)) for column in table.columns] for record in table.records)
    return out.getvalue()


def _exact(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int) else csv_text(str(value))


def json_text(text: str) -> str:
    r"""JSON with what is not printable as ``\uXXXX``; a lone surrogate, which UTF-8 cannot hold, becomes the text ``\udc80``."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else _in_json(char) for char in text)


def _in_json(char: str) -> str:
    if "\ud800" <= char <= "\udfff":
        return f"\\\\u{ord(char):04x}"
    pairs = char.encode("utf-16-be")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))


def to_json(content: Document) -> str:
    return json_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def choose(parts: Sequence[Block], names: Sequence[str], form: str) -> list[Block]:
    """The blocks with only the named columns; tables that have none of them are dropped.

    Names are keys or titles of columns, hidden ones too, in any case. Raises a ColltoolError for a name that no table has.
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
    kept = [column._replace(hidden=False, drop=place) for place, column in enumerate(found)]  # first named, last dropped
    return part._replace(columns=tuple(kept))


def _called(column: Column, name: str) -> bool:
    return name.lower() in (column.key.lower(), column.title.lower())


def _unknown(name: str, known: Sequence[Column]) -> ColltoolError:
    keys = list(dict.fromkeys(column.key for column in known))
    hint = nearest(name, [*keys, *dict.fromkeys(column.title for column in known)])
    return ColltoolError(f"no column '{name}'", argument="columns", fix=f"{hint} columns: {', '.join(keys)}".strip())
