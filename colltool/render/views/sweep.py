"""``sweep``: the winner at every point, as a long table or as pivot tables, and where it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from colltool.analysis.axes import SweepAxis
from colltool.analysis.grid import Cell
from colltool.analysis.sweep import OWN_AXES, At, Pivot, Sweep, WinnerChange, is_close, pivot_tables
from colltool.base.formatting import counted, format_rate, format_time, sentence, title_size, whole_bytes, whole_percent
from colltool.render.blocks import Block, Column, Headline, Lines, Table, flag, label, number
from colltool.render.estimate_columns import NONE_RUNS, readings_block, running
from colltool.render.estimate_fields import model_field
from colltool.render.grounds import ground_block, ground_field, held_lines
from colltool.render.view import Document, View, fields, on_fabric, set_field, set_text

_MOST_ROWS = 12  # of the default view
_MOST_TOLD = 12  # changes of the winner; JSON has them all
_TITLES = {"bytes": "size"}


def shown(key: str, value: Any) -> str:
    if key == "bytes":
        return title_size(float(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def axis_title(key: str) -> str:
    return _TITLES.get(key, key)


def axis_values(result: Sweep, key: str) -> tuple[Any, ...]:
    return next(axis.values for axis in result.axes if axis.key == key)


def pivot_title(result: Sweep, fixed: At) -> str:
    """What sets one of several tables apart: ``ranks 64, ib.bandwidth 25GB/s``."""
    return ", ".join(f"{axis_title(key)} {shown(key, value)}" for key, value in fixed if len(axis_values(result, key)) > 1)


def _axis(index: int, axis: SweepAxis, *, hidden: bool) -> Column:
    def get(cell: Cell) -> Any:
        return whole_bytes(cell.at[index]) if axis.key == "bytes" else cell.at[index]

    title, kind = axis_title(axis.key), number if axis.key in ("ranks", "bytes") else label
    return kind(axis.key, title, lambda value: shown(axis.key, value), get=get, hidden=hidden)


_CELL = (
    label("algorithm", "fastest", fold=22),
    label("protocol", "protocol", drop=7),
    number("total_s", "total", format_time),
    number("busbw_Bps", "busbw", format_rate, 1),
    number("alpha_share", "alpha%", whole_percent, 6),
    label("runner_up", "runner-up", drop=3, fold=22),
    number("runner_up_s", "its total", format_time, 4),
    flag("close", "close", drop=5, get=is_close),
    label("ideal_algorithm", "without contention", drop=2, get=lambda cell: cell.ideal if cell.ideal != cell.algorithm else ""),
    label("spec", "spec", hidden=True),
    label("reason", "why not", drop=8),
)


def _table(result: Sweep, title: str = "") -> Table:
    single = {axis.key for axis in result.axes if len(axis.values) == 1}
    axes = [_axis(index, axis, hidden=axis.key in single) for index, axis in enumerate(result.axes)]
    extra = (
        label("primitive", "primitive", get=lambda _: result.primitive, hidden=True),
        *((label("set", "set", get=lambda _: set_text(result.overrides), hidden=True),) if result.overrides else ()),
    )
    idle = [key for key, found in _told(result).items() if not found]
    return Table((*extra, *axes, *_CELL), result.cells, None, title).without(*idle)


def _told(result: Sweep) -> dict[str, bool]:
    """Which mostly empty columns have any value."""
    return {
        "protocol": any(cell.protocol for cell in result.cells),
        "ideal_algorithm": bool(result.differing),
        "close": bool(result.close),
        "reason": any(cell.reason for cell in result.cells),
    }


def _blocks(result: Sweep) -> list[Block]:
    tables: list[Block] = [_table(result)._replace(first=_MOST_ROWS)] if result.pivot is None else _pivots(result, result.pivot)
    every = [one for one in axis_values(result, "ranks") if isinstance(one, int)]
    told = readings_block(result.readings, _axis_keys(result))
    return [Headline(_answer(result)), *tables, *told, *changes(result), *_notes(result), *ground_block(result.ground, every)]


def _answer(result: Sweep) -> str:
    wins = Counter(cell.algorithm for cell in result.priced).most_common()
    every = counted(len(result.cells), "cell")
    if not wins:
        said = f"None of {every} can be priced"
    elif len(wins) == 1:
        where = f"all {every}" if wins[0][1] == len(result.cells) > 1 else f"{wins[0][1]} of {every}"
        said = f"{wins[0][0]} is the fastest in {where}"
    else:
        head = ", ".join(f"{name} in {count}" for name, count in wins[1:3])
        more = f", {len(wins) - 3} more in the others" if len(wins) > 3 else ""
        said = f"{wins[0][0]} is the fastest in {wins[0][1]} of {every}, {head}{more}"
    close = f" In {len(result.close)} of them the runner-up is within 20%: either may win." if result.close else ""
    return f"{said}. {sentence(sweep_title(result))}.{close}"


def _axis_keys(result: Sweep) -> list[str]:
    return [axis.key for axis in result.axes]


def sweep_title(result: Sweep) -> str:
    """What was asked, without the axes that vary."""
    single = {axis.key: axis.values[0] for axis in result.axes if len(axis.values) == 1}
    where = on_fabric(str(single["fabric"]), result.overrides) if "fabric" in single else on_fabric("", result.overrides).strip()
    parts = [f"{result.primitive.spoken} on {where}" if where else result.primitive.spoken]
    if "ranks" in single:
        parts.append(f"{single['ranks']} ranks")
    if "bytes" in single:
        parts.append(f"{shown('bytes', single['bytes'])} per rank")
    parts += [f"{key}={shown(key, value)}" for key, value in single.items() if key not in OWN_AXES]
    parts += [running(result.library, leads=any(cell.selectable for cell in result.priced))] if result.library else []
    return ", ".join(
        [*parts, *([] if any(axis.key == "ideal" for axis in result.axes) else ["ideal" if result.ideal else "realistic"])]
    )


_SHOWN: dict[str, tuple[Callable[[Cell], Any], Callable[[Any], str]]] = {
    "busbw": (lambda cell: cell.busbw_Bps, format_rate),
    "total": (lambda cell: cell.total_s, format_time),
    "algorithm": (lambda cell: cell.algorithm, str),
}


def _pivots(result: Sweep, pivot: Pivot) -> list[Block]:
    down, across = (next(axis for axis in result.axes if axis.key == key) for key in (pivot.rows, pivot.cols))
    head = label(pivot.rows, axis_title(pivot.rows), lambda value: shown(pivot.rows, value), get=lambda row: row[0])
    columns = [_across(pivot, at, value) for at, value in enumerate(across.values)]
    found: list[Block] = []
    for at, rows in pivot_tables(result, pivot):
        title = ", ".join(filter(None, (f"{pivot.value} of {sweep_title(result)}", pivot_title(result, at))))
        found.append(Table((head, *columns), tuple(zip(down.values, rows, strict=True)), None, title))
    return found


def _across(pivot: Pivot, at: int, value: Any) -> Column:
    get, show = _SHOWN[pivot.value]
    title = shown(pivot.cols, value)
    return Column(title, title, show, right=pivot.value != "algorithm", get=lambda row: get(row[1][at]))


def changes(result: Sweep) -> list[Block]:
    found = result.changes
    if not found:
        return []
    lines = [_changed(one) for one in found[:_MOST_TOLD]]
    more = [f"and {len(found) - _MOST_TOLD} more in JSON"] if len(found) > _MOST_TOLD else []
    return [Lines("where the winner changes", (*lines, *more), first=4)]


def _changed(one: WinnerChange) -> str:
    at = ", ".join(f"{axis_title(key)} {shown(key, value)}" for key, value in one.at)
    title = axis_title(one.axis)
    between = f"{title} {shown(one.axis, one.last)} to {shown(one.axis, one.first)}"
    return f"{at + ': ' if at else ''}{between}: {one.before}, then {one.after}"


def _notes(result: Sweep) -> list[Block]:
    total, lines = len(result.cells), []
    if result.differing:
        lines.append(f"{len(result.differing)} of {counted(total, 'cell')}: another winner without contention")
    if result.close:
        lines.append(
            f"{len(result.close)} of {counted(total, 'cell')}: the runner-up is within 20%, the uncertainty of contention"
        )
    others = sum(not cell.selectable for cell in result.priced)
    if result.library and 0 < others < len(result.priced):
        lines.append(f"{others} of {counted(total, 'cell')}: {NONE_RUNS}")
    lines += held_lines(result.cells)
    reasons = dict.fromkeys(cell.reason for cell in result.cells if cell.reason)
    lines += [f"not priced: {reason}" for reason in reasons]
    return [Lines("notes", tuple(lines))] if lines else []


def _document(result: Sweep) -> Document:
    return set_field(result.overrides) | {
        "primitive": str(result.primitive),
        "mode": "ideal" if result.ideal else "realistic",
        **model_field(result.readings, _axis_keys(result)),
        "library": result.library or None,
        "axes": {axis.key: [whole_bytes(one) if axis.key == "bytes" else one for one in axis.values] for axis in result.axes},
        "cells": [_cell(result, cell) for cell in result.cells],
        "ground": ground_field(result.ground),
        "changes": [one._asdict() | {"at": dict(one.at)} for one in result.changes],
    }


def _cell(result: Sweep, cell: Cell) -> Document:
    at = zip(result.axes, cell.at, strict=True)
    return {
        **{axis.key: whole_bytes(value) if axis.key == "bytes" else value for axis, value in at},
        **fields(cell, "algorithm spec total_s busbw_Bps alpha_share runner_up runner_up_s"),
        "close": is_close(cell),
        "ideal_algorithm": cell.ideal,
        "ideal_s": cell.ideal_s,
        "leads": cell.selectable,
        **{name: value for name, value in fields(cell, "protocol reason").items() if value},
    }


def _summary(result: Sweep) -> str:
    names = list(dict.fromkeys(cell.algorithm for cell in result.cells if cell.algorithm))
    return f"{sweep_title(result)}: {counted(len(result.cells), 'cell')}, fastest {', '.join(names)}"


VIEWS = {Sweep: View("sweep", _blocks, _document, _table, _summary)}
