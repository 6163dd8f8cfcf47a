"""``sweep``: the winner at every point, as a long table or as pivot tables, and where it
changes.

Read from :data:`VIEWS`: :func:`_answer` is the headline, :func:`_blocks` the screen,
:func:`_table` the rows of CSV and :func:`_pivots` the tables of ``--pivot``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from colltool.analysis.axes import GRID_AXES, SweepAxis
from colltool.analysis.cells import Cell
from colltool.analysis.sweep import (
    CLOSE,
    AxisSettings,
    Pivot,
    Sweep,
    WinnerChange,
    fastest_name,
    fastest_s,
    is_close,
    is_surely_beaten,
    pivot_tables,
)
from colltool.base.formatting import (
    counted,
    format_factor,
    format_rate,
    format_time,
    or_text,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.results import Accuracy
from colltool.machines.used import Applied, Overrides, assumed_in, machine_used
from colltool.render.assumption_differences import BasisDocument, basis_lines, layers_sentence
from colltool.render.blocks import Block, Column, Columns, Headline, Table, flag, label, number
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import Document, derived, optional, or_null
from colltool.render.estimates import ModelDocument, readings_block, running
from colltool.render.intervals import IntervalDocument, no_cell_interval
from colltool.render.shared_documents import OverridesDocument, ideal_or_realistic
from colltool.render.verdicts import (
    fitted_sentences,
    height,
    lists_that_fit,
    rows_that_fit,
)
from colltool.render.views.compare import (
    FittedDocument,
    cell_intervals,
    extrapolated_notes,
    runs_title,
)

_MOST_CHANGES = 12  # changes of the algorithm; JSON has them all
_MOST_NAMES = 3  # algorithms that a sentence names
# The axis of sizes in a cell's values.
_BYTES = GRID_AXES.index("bytes")
CHANGES = "Where the algorithm changes"


def shown(key: str, value: Any) -> str:
    """A value of an axis as people read it."""
    if key == "bytes":
        return title_size(float(value))
    text = str(value)
    if isinstance(value, bool):
        return text.lower()
    return text


def axis_title(key: str) -> str:
    return "size" if key == "bytes" else key


def _spoken(key: str, value: Any) -> str:
    """A value of an axis in a sentence: ``64 ranks``, ``16MB``, ``ib.bandwidth 25GB/s``."""
    if key == "ranks":
        return f"{value} ranks"
    if key in GRID_AXES:
        return shown(key, value)
    return f"{key} {shown(key, value)}"


def axis_values(result: Sweep, key: str) -> tuple[Any, ...]:
    return next(axis.values for axis in result.axes if axis.key == key)


def _place(at: AxisSettings) -> str:
    """Such as ``64 ranks, ib.bandwidth 25GB/s``."""
    return ", ".join(_spoken(key, value) for key, value in at)


def pivot_title(result: Sweep, fixed: AxisSettings) -> str:
    """What sets one of several tables apart: ``64 ranks, ib.bandwidth 25GB/s``."""
    varied = [pair for pair in fixed if len(axis_values(result, pair[0])) > 1]
    return _place(tuple(varied))


# --- the long table


def _exact(key: str, value: Any) -> Any:
    return whole_bytes(value) if key == "bytes" else value


def _axis(index: int, axis: SweepAxis) -> Column[Cell]:
    def value(cell: Cell) -> Any:
        return _exact(axis.key, cell.at[index])

    kind = number if axis.key in ("ranks", "bytes") else label
    show = partial(shown, axis.key)
    hidden = len(axis.values) == 1
    return kind(axis.key, axis_title(axis.key), show, get=value, hidden=hidden)


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
"""Columns that people read with the library's names, and where these are."""

_HOW: Column[Cell] = label("how", "how (inside / across)", drop=2, fold=20)


def _for_people(result: Sweep) -> Table:
    """The long table with the library's names, without columns that say nothing."""
    table = _table(result)
    renamed = any(cell.known_as.lower() != cell.algorithm for cell in result.priced)
    columns: list[Column[Any]] = []
    for column in table.columns:
        if column.key == "name":  # CSV has it beside our own name
            continue
        column = column._replace(path=_LIBRARY_NAMES.get(column.key, column.path))
        if column.key == "algorithm":
            column = column._replace(title=runs_title(result.cells))
        # where nothing is picked, the algorithm is the fastest
        if column.key in ("fastest", "fastest_s") and not any(cell.picked for cell in result.cells):
            column = column._replace(hidden=True)
        columns.append(column)
        if renamed and column.key == "algorithm":
            columns.append(_HOW)
    return table._replace(columns=tuple(columns))


def _table(result: Sweep) -> Table:
    axes = [_axis(index, axis) for index, axis in enumerate(result.axes)]
    columns = (*context(result.overrides, primitive=result.primitive), *axes, *_CELL)
    table = Table(columns, result.cells)
    # columns that say nothing of any cell are for those who name them
    for key in ("protocol", "reason"):
        if not any(getattr(cell, key) for cell in result.cells):
            table = table.without(key)
    if not result.differing:
        table = table.without("ideal_algorithm")
    return table if result.close else table.without("close")


# --- the answer


def _blocks(result: Sweep) -> list[Block]:
    ranks = [value for value in axis_values(result, "ranks") if isinstance(value, int)]
    answer = _answer(result)
    readings = readings_block(result.readings, _keys(result))
    lists: list[tuple[str, Sequence[str]]] = [
        (CHANGES, _change_lines(result)),
        ("Different assumptions", basis_lines(result.ground, ranks)),
    ]
    above = height(answer) + 2 * len(readings)
    if result.pivot is None:
        varied = [axis for axis in result.axes if len(axis.values) > 1]
        table = _for_people(result)
        first = rows_that_fit(above)
        along_one_axis = len(varied) == 1
        tables = [table._replace(first=first, spread=along_one_axis)]
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


def _answer(result: Sweep) -> str:
    parts = [
        f"{sentence(_question(result))}: {_what_runs(result)}",
        *_faster(result),
        _none_implemented(result),
        cell_intervals(result.priced),
        *fitted_sentences(result.fitted),
        layers_sentence(result.ground),
    ]
    return f"{'. '.join(filter(None, parts))}."


def _none_implemented(result: Sweep) -> str:
    """That the library runs none of the algorithms. Empty where it runs some."""
    if not result.library or any(cell.selectable for cell in result.priced):
        return ""
    return sentence(running(result.library, leads=False))


def _faster(result: Sweep) -> Iterator[str]:
    """Where another algorithm is faster than what runs, and where that is too close to call."""
    points = counted(len(result.cells), "point")
    beaten = [cell for cell in result.priced if is_surely_beaten(cell)]
    if beaten:
        names = list(dict.fromkeys(cell.runner_up_known_as for cell in beaten))
        most = max((cell.total_s or 0.0) / (cell.runner_up_s or 1.0) for cell in beaten)
        which = or_text(names) if len(names) <= _MOST_NAMES else "others"
        yield f"{sentence(which)} would be up to {format_factor(most, 3)} faster in {len(beaten)} of {points}"
    close = [cell for cell in result.close if not is_surely_beaten(cell)]
    if close:
        where = f"In {len(close)} of {points} two" if len(result.cells) > 1 else "Two"
        yield f"{where} algorithms are too close to call"


def _what_runs(result: Sweep) -> str:
    """``NCCL runs Ring (8 ranks) or Tree up to 1MB, NVLSTree from 16MB``."""
    if not result.priced:
        return f"none of {counted(len(result.cells), 'point')} can be priced"
    picked = any(cell.picked for cell in result.priced)
    runs = "the fastest is"
    if picked:
        # of several fabrics the first may have none
        library = running(result.library, leads=True) if result.library else "the library"
        runs = f"{library} runs"
    lower, upper = _size_classes(result)
    if not upper:
        return f"{runs} {_names_in(result, lower)}"
    until = f"up to {shown('bytes', lower[-1])}"
    since = f"from {shown('bytes', upper[0])}"
    return f"{runs} {_names_in(result, lower)} {until}, {_names_in(result, upper)} {since}"


def _size_classes(result: Sweep) -> tuple[Sequence[float], Sequence[float]]:
    """All sizes in at most two classes, cut where each has the fewest algorithms."""
    sizes = sorted(axis_values(result, "bytes"))
    names: dict[float, set[str]] = {size: set() for size in sizes}
    for cell in result.priced:
        names[cell.at[_BYTES]].add(cell.known_as)

    def algorithms(cut: int) -> int:
        count = 0
        for some in (sizes[:cut], sizes[cut:]):
            together = set().union(*(names[size] for size in some))
            count += len(some) * len(together)
        return count

    cut = min(range(len(sizes), 0, -1), key=algorithms)
    return sizes[:cut], sizes[cut:]


def _names_in(result: Sweep, sizes: Sequence[float]) -> str:
    """The algorithms at some sizes, commonest first, each with the value of the axis that sets it
    apart: ``Tree or Ring (8 ranks)``."""
    cells = [cell for cell in result.priced if cell.at[_BYTES] in sizes]
    counts = Counter(cell.known_as for cell in cells)
    texts = []
    for name, _ in counts.most_common(_MOST_NAMES):
        where = _apart(result, cells, name) if len(counts) > 1 else ""
        texts.append(name + where)
    if len(counts) > _MOST_NAMES:
        texts.append("others")
    return or_text(texts)


def _apart(result: Sweep, cells: Sequence[Cell], name: str) -> str:
    """The one value of an axis at which an algorithm runs, and no other runs there: `` (8 ranks)``.
    Empty if no axis has one."""
    for index, axis in enumerate(result.axes):
        if axis.key == "bytes" or len(axis.values) == 1:
            continue
        values = {cell.at[index] for cell in cells if cell.known_as == name}
        others = {cell.at[index] for cell in cells if cell.known_as != name}
        if len(values) == 1 and not values & others:
            return f" ({_spoken(axis.key, next(iter(values)))})"
    return ""


def sweep_title(result: Sweep) -> str:
    """The question as a title, without the axes that vary."""
    parts = [_question(result)]
    if result.library:
        leads = any(cell.selectable for cell in result.priced)
        parts.append(running(result.library, leads=leads))
    if "ideal" not in _keys(result):
        parts.append("without contention" if result.ideal else "with contention")
    return ", ".join(parts)


def _question(result: Sweep) -> str:
    """What is asked, without the axes that vary."""
    single = {axis.key: axis.values[0] for axis in result.axes if len(axis.values) == 1}
    what = result.primitive.label
    where = on_fabric(str(single.get("fabric", "")), _typed_overrides(result)).strip()
    if where:
        what += f" on {where}"
    parts = [what]
    if "ranks" in single:
        parts.append(f"{single['ranks']} ranks")
    if "bytes" in single:
        parts.append(f"{shown('bytes', single['bytes'])} per rank")
    for key, value in single.items():
        if key not in GRID_AXES:
            parts.append(f"{key}={shown(key, value)}")
    return ", ".join(parts)


def _typed_overrides(result: Sweep) -> Overrides:
    """The overrides without those that made a fabric hold the ranks, which the answer says."""
    changes = {text for _, change in result.fitted for text in change.overrides}
    pairs = [(key, value) for key, value in result.overrides if f"{key}={value}" not in changes]
    used = result.overrides
    return Applied(pairs, machine_used(used), assumed_in(used))


def changes(result: Sweep) -> list[Block]:
    """Where the algorithm changes along an axis."""
    return listed(CHANGES, _change_lines(result), first=4)


def _change_lines(result: Sweep) -> list[str]:
    names = {cell.algorithm: cell.known_as for cell in result.priced}
    lines = [_change(change, names) for change in result.changes[:_MOST_CHANGES]]
    left = len(result.changes) - _MOST_CHANGES
    if left > 0:
        lines.append(f"and {left} more in JSON")
    return lines


def _change(change: WinnerChange, names: dict[str | None, str]) -> str:
    then = f"{names[change.before]}, then {names[change.after]}"
    # where the library has one name for two schedules, ours distinguish them
    if names[change.before] == names[change.after]:
        then = f"{change.before}, then {change.after}"
    between = f"{shown(change.axis, change.last)} to {shown(change.axis, change.first)}"
    text = f"{axis_title(change.axis)} {between}"
    if change.at:
        text += f" at {_place(change.at)}"
    return f"{text}: {then}"


def _notes(result: Sweep) -> Iterator[str]:
    """What to know of the cells: other winners without contention, close ones, those without a
    price."""
    every = counted(len(result.cells), "point")
    if result.differing:
        yield f"{len(result.differing)} of {every}: another algorithm wins without contention"
    if result.close:
        yield (
            f"{len(result.close)} of {every}: the runner-up is within {CLOSE:.0%}, the uncertainty"
            " of contention"
        )
    others = sum(not cell.selectable for cell in result.priced)
    if result.library and 0 < others < len(result.priced):
        yield f"{others} of {every}: the library implements none of these algorithms"
    yield from extrapolated_notes(result.cells)
    reasons = dict.fromkeys(cell.reason for cell in result.cells)
    for reason in filter(None, reasons):
        yield f"not priced: {reason}"


def _summary(result: Sweep) -> str:
    names = ", ".join(dict.fromkeys(cell.known_as for cell in result.priced))
    return f"{sweep_title(result)}: {counted(len(result.cells), 'point')}, {names}"


# --- pivot tables

_SHOWN: dict[str, tuple[str, Callable[[Any], str]]] = {
    "busbw": ("busbw_Bps", format_rate),
    "total": ("total_s", format_time),
    "algorithm": ("known_as", str),
}
"""What a pivot table can show: the attribute of a cell, and its format."""


def _pivots(result: Sweep, pivot: Pivot) -> list[Table]:
    """A table for each combination of the axes that neither go down nor across."""
    name, show = _SHOWN[pivot.value]
    down = axis_values(result, pivot.rows)
    columns: list[Column[Any]] = [
        label(pivot.rows, axis_title(pivot.rows), partial(shown, pivot.rows), path="value")
    ]
    for at, value in enumerate(axis_values(result, pivot.cols)):
        title = shown(pivot.cols, value)
        kind = label if pivot.value == "algorithm" else number
        columns.append(kind(title, title, show, get=partial(_pivot_cell, at=at, name=name)))
    tables = []
    for fixed, rows in pivot_tables(result, pivot):
        title = f"{pivot.value} of {sweep_title(result)}"
        apart = pivot_title(result, fixed)
        if apart:
            title += f", {apart}"
        records = tuple(map(_PivotRow, down, rows))
        tables.append(Table(tuple(columns), records, title=title))
    return tables


class _PivotRow(NamedTuple):
    """A value of the axis that goes down, and the cells beside it."""

    value: Any
    cells: Sequence[Cell]


def _pivot_cell(row: _PivotRow, at: int, name: str) -> Any:
    return getattr(row.cells[at], name)


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
    keys = _keys(result)
    cells = []
    for cell in result.cells:
        at = dict(zip(keys, map(_exact, keys, cell.at), strict=True))
        cells.append(at | CellDocument.of(cell))
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


def _fitted(result: Sweep) -> dict[str, Any]:
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
    fitted: dict[str, FittedDocument] = derived(_fitted)
    ground: list[BasisDocument]
    changes: list[ChangeDocument]


VIEWS = {Sweep: View("sweep", _blocks, SweepDocument.of, _table, _summary)}
