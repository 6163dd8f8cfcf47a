"""``sweep``: the winner at every point, as a long table or as pivot tables, and where it
changes.

:func:`_blocks` is the screen, :func:`_table` the rows of CSV and :func:`_pivots` the tables of
``--pivot``. The headline is in ``sweep_answer``, the axes in words in ``sweep_words``.

A cell is a point of the grid, with the winner there: ``algorithm`` is its title and ``known_as`` the library's
name for it, both empty or None where nothing can be priced; ``picked`` tells that it is what the library runs,
which need not be the fastest. ``cell.at`` has the cell's values on all axes, in their order. Of the result,
``priced`` are the cells with a price, ``differing`` those with another winner without contention, ``close``
those whose runner-up is nearly as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from colltool.analysis.axes import SweepAxis
from colltool.analysis.cells import Cell
from colltool.analysis.sweep import (
    CLOSE,
    Pivot,
    Sweep,
    WinnerChange,
    fastest_name,
    fastest_s,
    is_close,
    pivot_tables,
)
from colltool.base.formatting import counted, format_rate, format_time, whole_bytes, whole_percent
from colltool.estimate.results import Accuracy
from colltool.render.assumption_differences import BasisDocument, basis_lines
from colltool.render.blocks import Block, Column, Columns, Headline, Table, flag, label, number
from colltool.render.dispatch import View, context, listed
from colltool.render.documents import Document, derived, optional, or_null
from colltool.render.estimates import ModelDocument, readings_block
from colltool.render.first_screen import height, lists_that_fit, rows_that_fit
from colltool.render.intervals import IntervalDocument, no_cell_interval
from colltool.render.shared_documents import OverridesDocument, ideal_or_realistic
from colltool.render.views.compare import FittedDocument, extrapolated_notes, runs_title
from colltool.render.views.sweep_answer import sweep_answer
from colltool.render.views.sweep_words import (
    axis_title,
    axis_values,
    pivot_title,
    settings_in_words,
    sweep_title,
    value_text,
)

_MOST_CHANGES = 12  # changes of the algorithm; JSON has them all
_FIRST_CHANGES = 4  # on a page that shows a part
_CHANGES_TITLE = "Where the algorithm changes"


# --- the long table


def _exact(key: str, value: Any) -> Any:
    """A value of an axis in CSV and JSON: sizes as whole bytes."""
    return whole_bytes(value) if key == "bytes" else value


def _axis_column(index: int, axis: SweepAxis) -> Column[Cell]:
    """The column of an axis, by its index among the axes; hidden where it has one value."""

    def value(cell: Cell) -> Any:
        return _exact(axis.key, cell.at[index])

    column = number if axis.key in ("ranks", "bytes") else label
    show = partial(value_text, axis.key)
    hidden = len(axis.values) == 1
    return column(axis.key, axis_title(axis.key), show, get=value, hidden=hidden)


def _other_without_contention(cell: Cell) -> str | None:
    """The winner without contention where it is another one."""
    return None if cell.ideal == cell.algorithm else cell.ideal


_CELL: Columns[Cell] = (
    label("name", fold=22, path="known_as"),
    label("algorithm", "runs", fold=22),
    label("protocol", drop=7),
    number("total_s", "total", format_time),
    number("busbw_Bps", "busbw", format_rate, drop=1),
    label("fastest", drop=1, fold=22, get=fastest_name),
    number("fastest_s", "takes", format_time, drop=1, get=fastest_s),
    number("alpha_share", "alpha%", whole_percent, drop=6),
    label("runner_up", "runner-up", drop=3, fold=22),
    number("runner_up_s", "its total", format_time, drop=4),
    flag("close", drop=5, get=is_close),
    label("ideal_algorithm", "without contention", drop=2, get=_other_without_contention),
    label("spec", hidden=True),
    label("reason", "why not", drop=8),
)
_LIBRARY_NAMES = {"algorithm": "known_as", "runner_up": "runner_up_known_as"}
"""Columns that people read with the library's names, and the attributes that hold these; they have no
``get``, which would win over a path."""

_HOW: Column[Cell] = label("how", "how (inside / across)", drop=2, fold=20)


def _for_people(result: Sweep) -> Table:
    """The long table with the library's names, without columns that say nothing."""
    table = _table(result)
    is_renamed = any(cell.known_as.lower() != cell.algorithm for cell in result.priced)
    is_picked = any(cell.picked for cell in result.cells)
    columns: list[Column[Any]] = []
    for column in table.columns:
        # CSV has it beside our own name
        if column.key == "name":
            continue
        column = column._replace(path=_LIBRARY_NAMES.get(column.key, column.path))
        if column.key == "algorithm":
            column = column._replace(title=runs_title(result.cells))
        # where nothing is picked, the algorithm is the fastest
        if column.key in ("fastest", "fastest_s") and not is_picked:
            column = column._replace(hidden=True)
        columns.append(column)
        if is_renamed and column.key == "algorithm":
            columns.append(_HOW)
    return table._replace(columns=tuple(columns))


def _table(result: Sweep) -> Table:
    """The long table, a row for each cell, without columns that say nothing here."""
    axes = [_axis_column(index, axis) for index, axis in enumerate(result.axes)]
    columns = (*context(result.overrides, primitive=result.primitive), *axes, *_CELL)
    table = Table(columns, result.cells)
    table = table.without_empty("protocol", "reason")
    if not result.differing:
        table = table.without("ideal_algorithm")
    if not result.close:
        table = table.without("close")
    return table


# --- the screen


def _blocks(result: Sweep) -> list[Block]:
    """The answer, the long table or the pivot tables, and lists as far as a first screen has room."""
    ranks = [value for value in axis_values(result, "ranks") if isinstance(value, int)]
    answer = sweep_answer(result)
    readings = readings_block(result.readings, _keys(result))
    lists: list[tuple[str, Sequence[str]]] = [
        (_CHANGES_TITLE, _change_lines(result)),
        ("Different assumptions", basis_lines(result.ground, ranks)),
    ]
    # lines above the table: a block of options is a line and a blank one
    above = height(answer) + 2 * len(readings)
    if result.pivot is None:
        along_one_axis = len(result.varied) == 1
        table = _for_people(result)
        tables = [table._replace(first=rows_that_fit(above), spread=along_one_axis)]
    else:
        tables = _pivots(result, result.pivot)
    return [
        Headline(answer),
        *tables,
        *readings,
        *lists_that_fit(lists, above, len(result.cells)),
        *listed("Notes", _notes(result), first=0),
    ]


def _keys(result: Sweep) -> list[str]:
    return [axis.key for axis in result.axes]


def changes_block(result: Sweep) -> list[Block]:
    """Where the algorithm changes along an axis, for a page."""
    return listed(_CHANGES_TITLE, _change_lines(result), first=_FIRST_CHANGES)


def _change_lines(result: Sweep) -> list[str]:
    """The first changes of the winner, in the library's names."""
    names = {cell.algorithm: cell.known_as for cell in result.priced}
    lines = [_change_text(change, names) for change in result.changes[:_MOST_CHANGES]]
    more = len(result.changes) - _MOST_CHANGES
    if more > 0:
        lines.append(f"and {more} more in JSON")
    return lines


def _change_text(change: WinnerChange, names: dict[str | None, str]) -> str:
    """``size 1MB to 4MB at 64 ranks: Tree, then Ring``: between the last value of the old winner and the
    first of the new one. ``names``: the library's, by ours."""
    winners = f"{names[change.before]}, then {names[change.after]}"
    # where the library has one name for two schedules, ours distinguish them
    if names[change.before] == names[change.after]:
        winners = f"{change.before}, then {change.after}"
    values = f"{value_text(change.axis, change.last)} to {value_text(change.axis, change.first)}"
    place = f"{axis_title(change.axis)} {values}"
    if change.at:
        place += f" at {settings_in_words(change.at)}"
    return f"{place}: {winners}"


def _notes(result: Sweep) -> Iterator[str]:
    """What to know of the cells: other winners without contention, close ones, those without a
    price."""
    points = counted(len(result.cells), "point")
    if result.differing:
        yield f"{len(result.differing)} of {points}: another algorithm wins without contention"
    if result.close:
        yield (
            f"{len(result.close)} of {points}: the runner-up is within {CLOSE:.0%}, the uncertainty"
            " of contention"
        )
    # where the library runs none at all, the answer says it
    foreign = sum(not cell.selectable for cell in result.priced)
    if result.library and 0 < foreign < len(result.priced):
        yield f"{foreign} of {points}: the library implements none of these algorithms"
    yield from extrapolated_notes(result.cells)
    reasons = dict.fromkeys(cell.reason for cell in result.cells)
    for reason in filter(None, reasons):
        yield f"not priced: {reason}"


def _summary(result: Sweep) -> str:
    names = ", ".join(dict.fromkeys(cell.known_as for cell in result.priced))
    return f"{sweep_title(result)}: {counted(len(result.cells), 'point')}, {names}"


# --- pivot tables


class _PivotValue(NamedTuple):
    """What a pivot table shows of a cell, and how."""

    attribute: str
    show: Callable[[Any], str]
    column: Callable[..., Column[Any]] = number


_PIVOT_VALUES = {
    "busbw": _PivotValue("busbw_Bps", format_rate),
    "total": _PivotValue("total_s", format_time),
    "algorithm": _PivotValue("known_as", str, label),
}


class _PivotRow(NamedTuple):
    """A value of the axis that goes down, and the cells beside it."""

    value: Any
    cells: Sequence[Cell]

    def get(self, index: int, attribute: str) -> Any:
        """An attribute of a cell, by the cell's index in the row."""
        return getattr(self.cells[index], attribute)


def _pivots(result: Sweep, pivot: Pivot) -> list[Table]:
    """A table for each combination of the axes that neither go down nor across."""
    pivot_value = _PIVOT_VALUES[pivot.value]
    down = axis_values(result, pivot.rows)
    columns: list[Column[_PivotRow]] = [
        label(pivot.rows, axis_title(pivot.rows), partial(value_text, pivot.rows), path="value")
    ]
    for index, value in enumerate(axis_values(result, pivot.cols)):
        title = value_text(pivot.cols, value)
        value_at = partial(_PivotRow.get, index=index, attribute=pivot_value.attribute)
        columns.append(pivot_value.column(title, title, pivot_value.show, get=value_at))
    tables = []
    for fixed, rows in pivot_tables(result, pivot):
        title = f"{pivot.value} of {sweep_title(result)}"
        distinction = pivot_title(result, fixed)
        if distinction:
            title += f", {distinction}"
        records = tuple(map(_PivotRow, down, rows))
        tables.append(Table(tuple(columns), records, title=title))
    return tables


# --- documents


class CellDocument(Document, open=True):
    """The winner at a point; its further keys are the axes."""

    name: str = derived("known_as")
    algorithm: str
    spec: str
    total_s: float
    busbw_Bps: float
    alpha_share: float | None
    runner_up: str | None
    runner_up_s: float | None
    fastest: str | None = derived(fastest_name)
    fastest_s: float | None = derived(fastest_s)
    close: bool = derived(is_close)
    ideal_algorithm: str | None = derived("ideal")
    ideal_s: float | None
    leads: bool = derived("selectable")
    accuracy: Accuracy | None
    interval: IntervalDocument | None
    no_interval: str = optional(no_cell_interval)
    protocol: str = optional("protocol")
    reason: str = optional("reason")


def _cells(result: Sweep) -> list[dict[str, Any]]:
    """The cells, each with a key for every axis."""
    keys = _keys(result)
    cells = []
    for cell in result.cells:
        axis_keys = dict(zip(keys, map(_exact, keys, cell.at), strict=True))
        cells.append(axis_keys | CellDocument.of(cell))
    return cells


def _axes(result: Sweep) -> dict[str, list[Any]]:
    axes = {}
    for axis in result.axes:
        axes[axis.key] = [_exact(axis.key, value) for value in axis.values]
    return axes


class ChangeDocument(Document, extends=WinnerChange):
    """A change of the winner along an axis."""

    at: dict[str, Any] = derived(lambda change: dict(change.at))


def _unvaried_model(result: Sweep) -> dict[str, Any]:
    """The options of the model but those that are axes."""
    varied = _keys(result)
    options = result.readings.echo()
    return {option: value for option, value in options.items() if option not in varied}


def _grown(result: Sweep) -> dict[str, Any]:
    """The fabrics that were grown, by name."""
    return {name: FittedDocument.of(change) for name, change in result.fitted if change.overrides}


class SweepDocument(OverridesDocument):
    """The winner at every point of a grid."""

    primitive: str
    mode: str = derived(ideal_or_realistic)
    model: ModelDocument = derived(_unvaried_model)
    library: str | None = or_null("library")
    axes: dict[str, Any] = derived(_axes)
    cells: list[CellDocument] = derived(_cells)
    fitted: dict[str, FittedDocument] = derived(_grown)
    ground: list[BasisDocument]
    changes: list[ChangeDocument]


VIEWS = {Sweep: View("sweep", _blocks, SweepDocument.of, _table, _summary)}
