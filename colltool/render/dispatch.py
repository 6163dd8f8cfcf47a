"""Renders any result in any format (:func:`rendered`, which commands and results call). Also the
interface of a view (:class:`View`), and the columns, blocks and texts that views share.

The class of a result names the module of its view (``subject``: ``price`` for ``render.views.price``), which
is imported on first use and has a :class:`View` for the class in ``VIEWS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from colltool import __version__
from colltool.base.errors import ColltoolError, argument_text, displayed
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
from colltool.render.column_choice import check_columns, choose, with_columns, without_columns

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from colltool.fabric.model import Fabric
    from colltool.render.busbw_chart import BusbwChart
    from colltool.render.column_fit import Fit
    from colltool.render.text import Screen

    ResultType = TypeVar("ResultType", default=Any)
else:
    from typing import TypeVar

    ResultType = TypeVar("ResultType")


FORMATS = ("table", "json", "csv", "markdown", "html")


def view_of(result: Any) -> View:
    """The view of a result's type. Raises TypeError for what is no result."""
    kind = type(result)
    subject = getattr(kind, "subject", None)
    if subject is None:
        raise TypeError(f"{kind.__name__} is no result of colltool")
    views: dict[type, View] = import_module(f"colltool.render.views.{subject}").VIEWS
    return views[kind]


def blocks(result: Any) -> list[Block]:
    """All blocks of a result, empty tables too, in the order of the screen."""
    return list(view_of(result).blocks(result))


def document(result: Any) -> Document:
    """A result as plain JSON values: seconds, bytes, bytes/s, at full precision."""
    view = view_of(result)
    return {"schema": f"colltool.{view.schema}/1", "colltool": __version__} | view.document(result)


def table(result: Any) -> Table:
    """A result's main table, with all columns and rows."""
    return view_of(result).table(result)


def columns(result: Any) -> dict[str, list[Any]]:
    """A result's main table by column, as key and values, at full precision."""
    main = table(result)
    return {column.key: list(map(column.value, main.records)) for column in main.columns}


def summary(result: Any) -> str:
    """The answer in a line or two, safe to print."""
    return "\n".join(map(displayed, view_of(result).summary(result).split("\n")))


def fragment(result: Any) -> str:
    """A result as an HTML fragment, for a notebook."""
    from colltool.render.markup import to_fragment

    return to_fragment(_blocks_with_rows(result))


def rendered(
    result: Any,
    form: str,
    screen: Screen | None = None,
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    chart: bool | None = None,
) -> str:
    """Write a result in one of :data:`FORMATS`.

    Raises:
        ColltoolError: no table has such a column, the format has no columns or no chart, or there is
            nothing that a requested chart could draw.

    Args:
        form: one of the formats; ``table`` is plain text.
        screen: the terminal; a pipe when None.
        names: the columns of ``--columns``; all when empty.
        everything: ``--all``; only text and Markdown have a shorter default view.
        chart: True for ``--chart``, False for ``--no-chart``; None draws one on a terminal that has
            room for it.
    """
    if chart and form != "table":
        fix = f"leave it out, or {argument_text('form', 'table')}"
        raise ColltoolError(f"{form} has no chart", argument="chart", fix=fix)
    # each format imports its own module: a JSON answer needs no table
    match form:
        case "json":
            from colltool.render.data_formats import to_json

            # a document has no columns: any name is an error
            choose([], names, form)
            return to_json(document(result))
        case "csv":
            from colltool.render.data_formats import to_csv

            main = table(result)
            check_columns([main], names)
            return to_csv(with_columns(main, names))
        case "markdown":
            from colltool.render.markup import to_markdown

            chosen = choose(_blocks_with_rows(result), names, form)
            return to_markdown(chosen, everything=everything)
        case "html":
            page = view_of(result).page
            if page is not None:
                without_columns(names)
                return page(result)
            from colltool.render.markup import to_html

            return to_html(choose(_blocks_with_rows(result), names, form))
    return _plain_text(result, screen, names, everything=everything, chart=chart)


def _plain_text(
    result: Any,
    screen: Screen | None,
    names: Sequence[str],
    *,
    everything: bool,
    chart: bool | None,
) -> str:
    """A result as text; arguments as of :func:`rendered`."""
    from colltool.render.text import PIPE, PLAIN_WIDTH, stated_width, to_text

    screen = screen or PIPE
    # the default view has the same columns in a pipe as on a terminal of the usual width
    if screen.width is None and not (everything or names):
        columns_width = stated_width()
        fit: Fit = "drop" if columns_width else "wide"
        screen = screen._replace(width=columns_width or PLAIN_WIDTH, fit=fit)
    chosen = choose(_blocks_with_rows(result), names, "table")
    # the work of a chart only where one may be drawn
    drawn = None
    if chart or (chart is None and screen.height):
        drawn = _chart(result, is_requested=bool(chart))
    return to_text(chosen, screen, everything=everything, chart=drawn, chart_requested=bool(chart))


def _chart(result: Any, *, is_requested: bool) -> BusbwChart | None:
    """The chart of a result; None where it has too few sizes. ColltoolError for one that was requested and
    cannot be drawn."""
    from colltool.render.busbw_chart import FEWEST_SIZES

    chart_of = view_of(result).chart
    chart = chart_of(result) if chart_of is not None else None
    if not is_requested:
        return chart if chart and len(chart.sizes) >= FEWEST_SIZES else None
    if chart is None:
        what = "there is no bandwidth over size to draw"
        raise ColltoolError(what, argument="chart", fix="leave it out")
    if len(chart.sizes) < 2:
        fix = f"add {argument_text('sizes', '1K-1G')}"
        raise ColltoolError("a chart needs at least two sizes", argument="chart", fix=fix)
    return chart


def _blocks_with_rows(result: Any) -> list[Block]:
    """The blocks of a result without empty tables."""
    return [block for block in blocks(result) if not isinstance(block, Table) or block.records]


Document = dict[str, Any]


class View(NamedTuple, Generic[ResultType]):
    """How results of one type are rendered; ``VIEWS`` of a module has one per type."""

    schema: str  # of the JSON document: ``price`` of ``colltool.price/1``
    blocks: Callable[[ResultType], Iterable[Block]]  # the screen, the headline first
    document: Callable[[ResultType], Document]  # for JSON, without schema and version
    table: Callable[[ResultType], Table]  # the main table, for CSV and ``to_columns()``
    summary: Callable[[ResultType], str]  # the answer in a line or two
    # its own HTML page, where that is more than its blocks
    page: Callable[[ResultType], str] | None = None
    # bus bandwidth over size, for the terminal; None from it if there is nothing to draw
    chart: Callable[[ResultType], BusbwChart | None] | None = None


def on_fabric(name: str, overrides: Overrides) -> str:
    """The name of a fabric with what changes it and what its file assumes: ``nvl72 with
    ib.size=64``, ``mine with 3 rows of mine.machine.yaml (assumed: NICs of 200 Gb/s)``."""
    changes = [f"{key}={value}" for key, value in overrides]
    machine = machine_used(overrides)
    if machine is not None and machine.own:
        changes.append(machine.label)
    text = f"{name} with {', '.join(changes)}" if changes else name
    assumed = assumed_text(overrides)
    return f"{text} ({assumed})" if assumed else text


def one_line(text: str) -> str:
    """The text with each line break and run of spaces as one space."""
    return " ".join(text.split())


def fabric_of(result: Any) -> str:
    """The fabric of a result that has ``fabric`` and ``overrides``, as :func:`on_fabric` has it."""
    return on_fabric(result.fabric, result.overrides)


def description_line(fabric: Fabric) -> str:
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
    """Hidden columns that distinguish groups of equal size: stride, or shape.

    Args:
        group: one of the table, which says which columns there are; none for None.
        get: the group of a record; None leaves its cells empty.
    """
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
    """``ib.size=64 nvlink.size=8``."""
    return " ".join(f"{key}={value}" for key, value in overrides)


def context(overrides: Overrides = (), **values: Any) -> Columns[Any]:
    """Hidden columns with the same value in all rows, so that CSV rows of several runs can be merged.

    The column ``set`` has the overrides, if there are any.
    """
    if overrides:
        values["set"] = set_text(overrides)
    return tuple(_constant_column(key, value) for key, value in values.items())


def _constant_column(key: str, value: Any) -> Column[Any]:
    """A hidden column with this value in every row."""
    make_column = number if isinstance(value, int | float) else label
    if key == "bytes":
        return make_column(key, "size", title_size, hidden=True, get=lambda _: value)
    return make_column(key, key, hidden=True, get=lambda _: value)


def listed(title: str, lines: Iterable[str], first: int | None = None) -> list[Block]:
    """A list block, as a list of one; empty without lines.

    Args:
        first: how many lines the default view has; all for None, 0 for ``--all`` only.
    """
    gathered = tuple(lines)
    return [Lines(title, gathered, first=first)] if gathered else []
