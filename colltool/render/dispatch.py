"""Renders any result in any format: the interface of a view, and helpers that views share.

A result's class names its module in :mod:`colltool.render.views`, which is imported on first use.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from importlib import import_module
from io import StringIO
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool import __version__
from colltool.base.errors import ColltoolError, given, nearest, printable
from colltool.base.formatting import percent, plain_number, shape_text, title_size, whole_percent
from colltool.estimate.placement import GroupPlacement
from colltool.machines.used import Applied, Overrides, machine_used
from colltool.render.blocks import Block, Column, Lines, Table, flag, label, number

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric
    from colltool.render.text import Screen


FORMATS = ("table", "json", "csv", "markdown", "html")


def view_of(result: Any) -> View:
    """The view of a result's type."""
    kind = type(result)
    if (name := getattr(kind, "subject", None)) is None:
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
    return {
        column.key: [column.value(record) for record in main.records] for column in main.columns
    }


def summary(result: Any) -> str:
    """The answer in a line or two, safe to print."""
    return "\n".join(map(printable, view_of(result).summary(result).split("\n")))


def fragment(result: Any) -> str:
    """A result as an HTML fragment, for a notebook."""
    from colltool.render.markup import to_fragment

    return to_fragment(_for_people(result))


def rendered(
    result: Any,
    form: str,
    screen: Screen | None = None,
    names: Sequence[str] = (),
    *,
    everything: bool = False,
) -> str:
    """A result in one of :data:`FORMATS`.

    ``screen``: the terminal; a pipe when None. ``names``: ``--columns``; all when empty.
    ``everything``: ``--all``; only text and Markdown have a shorter default view. Raises a
    ColltoolError if no table has such a column, or the format has no columns.
    """
    if form == "json":
        choose([], names, form)
        return to_json(document(result))
    if form == "csv":
        (main,) = choose([table(result)], names, form)
        return to_csv(main)  # type: ignore[arg-type]
    if form == "html" and (page := view_of(result).page) is not None:
        without_columns(names)
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


def without_columns(names: Sequence[str]) -> None:
    """Refuse a choice of columns for a page."""
    if names:
        raise ColltoolError(
            "a page has the columns that fit",
            argument="columns",
            fix=f"leave {given('columns')} out",
        )


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
    writer.writerows(
        [_exact(column.value(record)) for column in table.columns] for record in table.records
    )
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
    r"""JSON with what is not printable as ``\uXXXX``; a lone surrogate, which UTF-8 cannot hold,
    becomes the text ``\udc80``."""
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

    Names are keys or titles of columns, hidden ones too, in any case. Raises a ColltoolError for a
    name that no table has.
    """
    if not names:
        return list(parts)
    known = [column for part in parts if isinstance(part, Table) for column in part.columns]
    if not any(isinstance(part, Table) for part in parts):
        what = "a document has all fields" if form == "json" else "this result has no table"
        raise ColltoolError(
            f"nothing to choose columns of: {what}",
            argument="columns",
            fix=f"leave {given('columns')} out",
        )
    for name in names:
        if not any(_called(column, name) for column in known):
            keys = list(dict.fromkeys(column.key for column in known))
            hint = nearest(name, [*keys, *dict.fromkeys(column.title for column in known)])
            fix = f"{hint} columns: {', '.join(keys)}".strip()
            raise ColltoolError(f"no column '{name}'", argument="columns", fix=fix)
    chosen = []
    for part in parts:
        if isinstance(part, Table):
            found = dict.fromkeys(
                column for name in names for column in part.columns if _called(column, name)
            )
            # first named, last dropped
            kept = [column._replace(hidden=False, drop=place) for place, column in enumerate(found)]
            part = part._replace(columns=tuple(kept))
        if not isinstance(part, Table) or part.columns:
            chosen.append(part)
    return chosen


def _called(column: Column, name: str) -> bool:
    return name.lower() in (column.key.lower(), column.title.lower())


Document = dict[str, Any]


class View(NamedTuple):
    """How results of one type are rendered; ``VIEWS`` of a module has one per type."""

    schema: str  # of the JSON document, as in ``colltool.price/1``
    blocks: Callable[[Any], list[Block]]
    document: Callable[[Any], Document]
    table: Callable[[Any], Table]  # the main table, for CSV and ``to_columns()``
    summary: Callable[[Any], str]
    # its own HTML page, where that is more than its blocks
    page: Callable[[Any], str] | None = None


def on_fabric(name: str, overrides: Overrides) -> str:
    """Such as ``nvl72``, ``nvl72 with ib.size=64``, or
    ``mine with 3 rows of mine.machine.yaml``."""
    changed = [f"{key}={value}" for key, value in overrides]
    used = machine_used(overrides)
    if used is not None and used.own:
        changed.append(used.spoken)
    return f"{name} with {', '.join(changed)}" if changed else name


def described(fabric: Fabric) -> str:
    """The description of a fabric on one line, marked as the file's where numbers are
    overridden."""
    text = " ".join(fabric.description.split())
    return f"in its file: {text}" if text and fabric.overrides else text


signed_percent = partial(percent, sign="+")


def reached_percent(share: float) -> str:
    """A share of the expected: ``94%``, above ten times ``12 times``."""
    return percent(share) if share > 10 else whole_percent(share)


def plain(value: Any) -> Any:
    """A value for JSON: named tuples as dicts, tuples as lists, enums as text."""
    if isinstance(value, tuple):
        fields_of = getattr(value, "_asdict", None)
        return (
            [plain(one) for one in value]
            if fields_of is None
            else {key: plain(one) for key, one in fields_of().items()}
        )
    return value.value if isinstance(value, StrEnum) else plain_number(value)


def fields(record: Any, names: str) -> Document:
    """These fields and properties of a record, for JSON."""
    return {name: plain(getattr(record, name)) for name in names.split()}


def set_field(overrides: Overrides) -> Document:
    """What was set, if anything, and of a fabric its machine."""
    found: Document = {"set": dict(overrides)} if overrides else {}
    return found | machine_field(overrides)


def machine_field(overrides: Overrides) -> Document:
    used = machine_used(overrides)
    if not isinstance(overrides, Applied):
        return {}
    return {"machine": None if used is None else {"file": used.file, "rows": used.rows}}


def group_field(group: GroupPlacement) -> Document:
    more = {
        name: list(own) for name, own in (("shape", group.shape), ("domains", group.domains)) if own
    }
    if any(group.open_axes):
        more["open_axes"] = list(group.open_axes)
    return {
        "ranks": group.ranks,
        "stride": group.stride,
        "per_domain": list(group.per_domain),
        "alone": group.alone,
    } | more


def group_columns(
    group: GroupPlacement | None, get: Callable[[Any], GroupPlacement | None]
) -> tuple[Column, ...]:
    """Hidden columns that tell groups of equal size apart: stride, or shape."""
    if group is None or group.stride == 1:
        shape = label(
            "shape",
            "shape",
            get=lambda one: (seats := get(one)) and shape_text(seats.shape),
            hidden=True,
        )
        return (shape,) if group and group.shape else ()
    return (
        number(
            "stride", "stride", get=lambda one: (seats := get(one)) and seats.stride, hidden=True
        ),
        flag("alone", "alone", get=lambda one: (seats := get(one)) and seats.alone, hidden=True),
    )


def set_text(overrides: Overrides) -> str:
    return " ".join(f"{key}={value}" for key, value in overrides)


def context(overrides: Overrides = (), **values: Any) -> tuple[Column, ...]:
    """Hidden columns with one value in all rows, for rows of several runs to be put together;
    ``set`` only with overrides."""
    return tuple(
        starmap(
            _same_in_all, (values | ({"set": set_text(overrides)} if overrides else {})).items()
        )
    )


def _same_in_all(key: str, value: Any) -> Column:
    kind = number if isinstance(value, int | float) else label
    title, show = ("size", title_size) if key == "bytes" else (key, str)
    return kind(key, title, show, get=lambda _: value, hidden=True)


def listed(title: str, lines: Iterable[str], first: int | None = None) -> list[Block]:
    """A list; no block without lines."""
    return [Lines(title, found, first=first)] if (found := tuple(lines)) else []
