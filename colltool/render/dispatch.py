"""Renders any result in any format (:func:`rendered`). Also the interface of a view
(:class:`View`), and columns and texts that views share.

The class of a result names the module of its view (``subject``), which is imported on first use.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple

from colltool import __version__
from colltool.base.errors import ColltoolError, argument_text, displayed, nearest
from colltool.base.formatting import percent, shape_text, title_size, whole_percent
from colltool.estimate.placement import GroupPlacement
from colltool.machines.used import Overrides, assumed_text, machine_used
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Lines,
    Table,
    attribute_at,
    flag,
    label,
    number,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from colltool.fabric.model import Fabric
    from colltool.render.busbw_chart import BusbwChart
    from colltool.render.text import Screen

    ResultType = TypeVar("ResultType", default=Any)
else:
    from typing import TypeVar

    ResultType = TypeVar("ResultType")


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
    return list(view_of(result).blocks(result))


def document(result: Any) -> Document:
    """A result as plain JSON values: seconds, bytes, bytes/s, at full precision."""
    view = view_of(result)
    return {"schema": f"colltool.{view.schema}/1", "colltool": __version__} | view.document(result)


def table(result: Any) -> Table:
    """A result's main table, with all columns and rows."""
    return view_of(result).table(result)


def columns(result: Any) -> dict[str, list[Any]]:
    """A result's main table by column, at full precision."""
    main = table(result)
    return {column.key: list(map(column.value, main.records)) for column in main.columns}


def summary(result: Any) -> str:
    """The answer in a line or two, safe to print."""
    return "\n".join(map(displayed, view_of(result).summary(result).split("\n")))


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
    chart: bool | None = None,
) -> str:
    """A result in one of :data:`FORMATS`.

    ``screen``: the terminal; a pipe when None. ``names``: ``--columns``; all when empty.
    ``everything``: ``--all``; only text and Markdown have a shorter default view. ``chart``:
    ``--chart`` or ``--no-chart``; None draws one on a terminal that has room for it. Raises a
    ColltoolError if no table has such a column, or the format has no columns or chart.
    """
    if chart and form != "table":
        fix = f"leave it out, or {argument_text('form', 'table')}"
        raise ColltoolError(f"{form} has no chart", argument="chart", fix=fix)
    # each format imports its own module: a JSON answer needs no table
    match form:
        case "json":
            choose([], names, form)
            return to_json(document(result))
        case "csv":
            main = table(result)
            _check_columns([main], names)
            return to_csv(_with_columns(main, names))
        case "markdown":
            from colltool.render.markup import to_markdown

            return to_markdown(choose(_for_people(result), names, form), everything=everything)
        case "html":
            page = view_of(result).page
            if page is not None:
                without_columns(names)
                return page(result)
            from colltool.render.markup import to_html

            return to_html(choose(_for_people(result), names, form))
    from colltool.render.text import PIPE, PLAIN_WIDTH, stated_width, to_text

    screen = screen or PIPE
    if screen.width is None and not (everything or names):
        stated = stated_width()
        fit: Literal["drop", "wide"] = "drop" if stated else "wide"
        screen = screen._replace(width=stated or PLAIN_WIDTH, fit=fit)
    shown = choose(_for_people(result), names, form)
    # the work of a chart only where one may be drawn
    drawn = None
    if chart or (chart is None and screen.height):
        drawn = _chart(result, asked=bool(chart))
    return to_text(shown, screen, everything=everything, chart=drawn, asked=bool(chart))


def _chart(result: Any, *, asked: bool) -> BusbwChart | None:
    """The chart of a result; None without sizes enough to draw. ColltoolError for one that was
    asked for and cannot be drawn."""
    from colltool.render.busbw_chart import FEWEST_SIZES

    makes = view_of(result).chart
    chart = makes(result) if makes is not None else None
    if not asked:
        return chart if chart and len(chart.sizes) >= FEWEST_SIZES else None
    if chart is None:
        what = "there is no bandwidth over size to draw"
        raise ColltoolError(what, argument="chart", fix="leave it out")
    if len(chart.sizes) < 2:
        fix = f"add {argument_text('sizes', '1K-1G')}"
        raise ColltoolError("a chart needs at least two sizes", argument="chart", fix=fix)
    return chart


def without_columns(names: Sequence[str]) -> None:
    """Raise ColltoolError for a choice of columns: an HTML page has none."""
    if names:
        raise ColltoolError(
            "a page has the columns that fit",
            argument="columns",
            fix=f"leave {argument_text('columns')} out",
        )


def _for_people(result: Any) -> list[Block]:
    """The blocks of a result without empty tables."""
    return [part for part in blocks(result) if not isinstance(part, Table) or part.records]


def csv_text(text: str) -> str:
    """Printable text, with an apostrophe before what a spreadsheet would run as a formula."""
    shown = displayed(text)
    if shown.startswith(("=", "+", "-", "@")) and len(shown) > 1:
        return f"'{shown}"
    return shown


def to_csv(table: Table) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.key for column in table.columns)
    for record in table.records:
        writer.writerow([_csv_cell(column.value(record)) for column in table.columns])
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    """A full value; None is an empty cell."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return repr(value)
        case int():
            return value
    return csv_text(str(value))


def json_text(text: str) -> str:
    r"""JSON with unprintable characters as ``\uXXXX``.

    A lone surrogate, which UTF-8 cannot encode, becomes text such as ``\udc80``.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(map(_json_character, text))


def _json_character(char: str) -> str:
    if char == "\n" or char.isprintable():
        return char
    if "\ud800" <= char <= "\udfff":
        return f"\\\\u{ord(char):04x}"
    # a character beyond 16 bits takes two escapes
    code = char.encode("utf-16-be").hex()
    return "".join(f"\\u{code[start : start + 4]}" for start in range(0, len(code), 4))


def to_json(content: Document) -> str:
    return json_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def choose(parts: Sequence[Block], names: Sequence[str], form: str) -> list[Block]:
    """The blocks with only the named columns; tables that have none of them are dropped.

    Names are keys or titles of columns, hidden ones too, in any case. Raises a ColltoolError for a
    name that no table has.
    """
    if not names:
        return list(parts)
    tables = [part for part in parts if isinstance(part, Table)]
    if not tables:
        what = "a document has all fields" if form == "json" else "this result has no table"
        raise ColltoolError(
            f"nothing to choose columns of: {what}",
            argument="columns",
            fix=f"leave {argument_text('columns')} out",
        )
    _check_columns(tables, names)
    chosen: list[Block] = []
    for part in parts:
        if isinstance(part, Table):
            part = _with_columns(part, names)
        if not isinstance(part, Table) or part.columns:
            chosen.append(part)
    return chosen


def _check_columns(tables: Sequence[Table], names: Sequence[str]) -> None:
    """Raise ColltoolError for a name that is no column of any table."""
    known: list[Column[Any]] = []
    for table in tables:
        known += table.columns
    for name in names:
        if not any(_matches(column, name) for column in known):
            keys = list(dict.fromkeys(column.key for column in known))
            titles = list(dict.fromkeys(column.title for column in known))
            hint = nearest(name, keys + titles)
            fix = f"{hint} columns: {', '.join(keys)}".strip()
            raise ColltoolError(f"no column '{name}'", argument="columns", fix=fix)


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    """The table with only the named columns, in that order; with all for no names."""
    if not names:
        return table
    chosen: dict[Column[Any], None] = {}
    for name in names:
        chosen |= dict.fromkeys(column for column in table.columns if _matches(column, name))
    # the first name is dropped last
    columns = (column._replace(hidden=False, drop=place) for place, column in enumerate(chosen))
    return table._replace(columns=tuple(columns))


def _matches(column: Column[Any], name: str) -> bool:
    return name.lower() in (column.key.lower(), column.title.lower())


Document = dict[str, Any]


class View(NamedTuple, Generic[ResultType]):
    """How results of one type are rendered; ``VIEWS`` of a module has one per type."""

    schema: str  # of the JSON document, as in ``colltool.price/1``
    blocks: Callable[[ResultType], Iterable[Block]]
    document: Callable[[ResultType], Document]
    table: Callable[[ResultType], Table]  # the main table, for CSV and ``to_columns()``
    summary: Callable[[ResultType], str]
    # its own HTML page, where that is more than its blocks
    page: Callable[[ResultType], str] | None = None
    # bus bandwidth over size, for the terminal; None from it if there is nothing to draw
    chart: Callable[[ResultType], BusbwChart | None] | None = None


def on_fabric(name: str, overrides: Overrides) -> str:
    """The name of a fabric with what changes it and what its file assumes: ``nvl72 with
    ib.size=64``, ``mine with 3 rows of mine.machine.yaml (assumed: NICs of 200 Gb/s)``."""
    changed = [f"{key}={value}" for key, value in overrides]
    used = machine_used(overrides)
    if used is not None and used.own:
        changed.append(used.label)
    text = f"{name} with {', '.join(changed)}" if changed else name
    assumed = assumed_text(overrides)
    return f"{text} ({assumed})" if assumed else text


def one_line(text: str) -> str:
    return " ".join(text.split())


def fabric_of(result: Any) -> str:
    """The fabric of a result, as :func:`on_fabric` has it."""
    return on_fabric(result.fabric, result.overrides)


def described(fabric: Fabric) -> str:
    """The description of a fabric on one line; with overrides it is marked as the file's."""
    text = one_line(fabric.description)
    if text and fabric.overrides:
        return f"in its file: {text}"
    return text


signed_percent = partial(percent, sign="+")


def reached_percent(share: float) -> str:
    """A share of the expected rate, such as ``94%``. Above 10 times it is written as
    :func:`percent` does."""
    return percent(share) if share > 10 else whole_percent(share)


def group_columns(
    group: GroupPlacement | None, get: Callable[[Any], GroupPlacement | None]
) -> Columns[Any]:
    """Hidden columns that distinguish groups of equal size: stride, or shape."""

    if group is None:
        return ()
    if group.stride > 1:
        return (
            number("stride", hidden=True, get=lambda record: attribute_at(get(record), "stride")),
            flag("alone", hidden=True, get=lambda record: attribute_at(get(record), "alone")),
        )
    if not group.shape:
        return ()

    def shape(record: Any) -> str:
        return shape_text(attribute_at(get(record), "shape") or ())

    return (label("shape", hidden=True, get=shape),)


def set_text(overrides: Overrides) -> str:
    return " ".join(f"{key}={value}" for key, value in overrides)


def context(overrides: Overrides = (), **values: Any) -> Columns[Any]:
    """Hidden columns with the same value in all rows, so that CSV rows of several runs can be merged.

    The column ``set`` has the overrides, if there are any.
    """
    if overrides:
        values["set"] = set_text(overrides)
    return tuple(_constant_column(key, value) for key, value in values.items())


def _constant_column(key: str, value: Any) -> Column[Any]:
    kind = number if isinstance(value, int | float) else label
    if key == "bytes":
        return kind(key, "size", title_size, hidden=True, get=lambda _: value)
    return kind(key, key, hidden=True, get=lambda _: value)


def listed(title: str, lines: Iterable[str], first: int | None = None) -> list[Block]:
    """A list block, as a list of one; empty without lines."""
    found = tuple(lines)
    return [Lines(title, found, first=first)] if found else []
