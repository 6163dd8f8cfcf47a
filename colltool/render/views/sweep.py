"""``sweep``: the winner at every point, as a long table or as pivot tables, and where it
changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from colltool.analysis.axes import OWN_AXES, SweepAxis
from colltool.analysis.grid import Cell
from colltool.analysis.sweep import At, Pivot, Sweep, is_close, pivot_tables
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.render.blocks import Block, Column, Headline, Table, flag, label, number
from colltool.render.dispatch import Document, View, context, fields, listed, on_fabric, set_field
from colltool.render.estimates import model_field, readings_block, running
from colltool.render.intervals import interval_field, none_for, within_several
from colltool.render.views.compare import ground_block, ground_field, held_lines, layers_first

_MOST_ROWS = 12  # of the default view
_MOST_TOLD = 12  # changes of the winner; JSON has them all


def shown(key: str, value: Any) -> str:
    if key == "bytes":
        return title_size(float(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def axis_title(key: str) -> str:
    return "size" if key == "bytes" else key


def axis_values(result: Sweep, key: str) -> tuple[Any, ...]:
    return next(axis.values for axis in result.axes if axis.key == key)


def pivot_title(result: Sweep, fixed: At) -> str:
    """What sets one of several tables apart: ``ranks 64, ib.bandwidth 25GB/s``."""
    return ", ".join(
        f"{axis_title(key)} {shown(key, value)}"
        for key, value in fixed
        if len(axis_values(result, key)) > 1
    )


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
    label(
        "ideal_algorithm",
        "without contention",
        drop=2,
        get=lambda cell: cell.ideal if cell.ideal != cell.algorithm else "",
    ),
    label("spec", "spec", hidden=True),
    label("reason", "why not", drop=8),
)


_PEOPLE = {
    "algorithm": label("algorithm", "fastest", fold=22, get=lambda cell: cell.known_as),
    "runner_up": label(
        "runner_up", "runner-up", drop=3, fold=22, get=lambda cell: cell.runner_up_known_as
    ),
}
"""Columns as people read them: the library's names."""

_HOW = label("how", "how (inside / across)", drop=2, fold=20)


def _for_people(result: Sweep) -> Table:
    table = _table(result)
    columns = [_PEOPLE.get(column.key, column) for column in table.columns]
    if any(cell.known_as.lower() != cell.algorithm for cell in result.priced):
        columns.insert([column.key for column in columns].index("algorithm") + 1, _HOW)
    return table._replace(columns=tuple(columns), first=_MOST_ROWS)


def _table(result: Sweep) -> Table:
    axes = [
        _axis(index, axis, hidden=len(axis.values) == 1) for index, axis in enumerate(result.axes)
    ]
    told = {key: any(getattr(cell, key) for cell in result.cells) for key in ("protocol", "reason")}
    told |= {"ideal_algorithm": bool(result.differing), "close": bool(result.close)}
    columns = (*context(result.overrides, primitive=result.primitive), *axes, *_CELL)
    return Table(columns, result.cells).without(*(key for key, found in told.items() if not found))


def _blocks(result: Sweep) -> list[Block]:
    tables: list[Block] = (
        [_for_people(result)] if result.pivot is None else _pivots(result, result.pivot)
    )
    every = [one for one in axis_values(result, "ranks") if isinstance(one, int)]
    told = readings_block(result.readings, [axis.key for axis in result.axes])
    notes = listed("notes", _notes(result))
    return [
        Headline(f"{layers_first(result.ground)}{_answer(result)}"),
        *tables,
        *told,
        *changes(result),
        *notes,
        *ground_block(result.ground, every),
    ]


def _answer(result: Sweep) -> str:
    wins = Counter(cell.known_as for cell in result.priced).most_common()
    every = counted(len(result.cells), "cell")
    if wins:
        all_of_them = len(wins) == 1 and wins[0][1] == len(result.cells) > 1
        leads = (
            "is NCCL's pick in"
            if any(cell.picked for cell in result.cells)
            else "is the fastest in"
        )
        told = (
            f"{wins[0][0]} {leads} {f'all {every}' if all_of_them else f'{wins[0][1]} of {every}'}"
        )
        told += "".join(f", {name} in {count}" for name, count in wins[1:3])
        told += f", {len(wins) - 3} more in the others" if len(wins) > 3 else ""
    else:
        told = f"None of {every} can be priced"
    close = (
        f" In {len(result.close)} of them the runner-up is within 20%: either may win."
        if result.close
        else ""
    )
    off = within_several(
        [(cell.interval, cell.total_s) for cell in result.priced if cell.interval and cell.total_s]
    )
    return f"{told}. {sentence(sweep_title(result))}.{f' {off}.' if off else ''}{close}"


def sweep_title(result: Sweep) -> str:
    """What was asked, without the axes that vary."""
    single = {axis.key: axis.values[0] for axis in result.axes if len(axis.values) == 1}
    where = on_fabric(str(single.get("fabric", "")), result.overrides).strip()
    parts = [f"{result.primitive.spoken} on {where}" if where else result.primitive.spoken]
    parts += [f"{single['ranks']} ranks"] if "ranks" in single else []
    parts += [f"{shown('bytes', single['bytes'])} per rank"] if "bytes" in single else []
    parts += [f"{key}={shown(key, value)}" for key, value in single.items() if key not in OWN_AXES]
    parts += (
        [running(result.library, leads=any(cell.selectable for cell in result.priced))]
        if result.library
        else []
    )
    mode = (
        []
        if any(axis.key == "ideal" for axis in result.axes)
        else ["ideal" if result.ideal else "realistic"]
    )
    return ", ".join([*parts, *mode])


_SHOWN: dict[str, tuple[Callable[[Cell], Any], Callable[[Any], str]]] = {
    "busbw": (lambda cell: cell.busbw_Bps, format_rate),
    "total": (lambda cell: cell.total_s, format_time),
    "algorithm": (lambda cell: cell.known_as, str),
}


def _pivots(result: Sweep, pivot: Pivot) -> list[Block]:
    down, across = (
        next(axis for axis in result.axes if axis.key == key) for key in (pivot.rows, pivot.cols)
    )
    head = label(
        pivot.rows,
        axis_title(pivot.rows),
        lambda value: shown(pivot.rows, value),
        get=lambda row: row[0],
    )
    columns = [_across(pivot, at, value) for at, value in enumerate(across.values)]
    found: list[Block] = []
    for at, rows in pivot_tables(result, pivot):
        title = ", ".join(
            filter(None, (f"{pivot.value} of {sweep_title(result)}", pivot_title(result, at)))
        )
        found.append(
            Table((head, *columns), tuple(zip(down.values, rows, strict=True)), None, title)
        )
    return found


def _across(pivot: Pivot, at: int, value: Any) -> Column:
    get, show = _SHOWN[pivot.value]
    title = shown(pivot.cols, value)
    return Column(
        title, title, show, right=pivot.value != "algorithm", get=lambda row: get(row[1][at])
    )


def changes(result: Sweep) -> list[Block]:
    lines = []
    names = {cell.algorithm: cell.known_as for cell in result.priced}
    for one in result.changes[:_MOST_TOLD]:
        before, after = names[one.before], names[one.after]
        if before == after:  # two schedules under one name
            before, after = one.before, one.after
        at = ", ".join(f"{axis_title(key)} {shown(key, value)}" for key, value in one.at)
        between = (
            f"{axis_title(one.axis)} {shown(one.axis, one.last)} to {shown(one.axis, one.first)}"
        )
        lines.append(f"{at + ': ' if at else ''}{between}: {before}, then {after}")
    more = (
        [f"and {len(result.changes) - _MOST_TOLD} more in JSON"]
        if len(result.changes) > _MOST_TOLD
        else []
    )
    return listed("where the winner changes", (*lines, *more), first=4)


def _notes(result: Sweep) -> Iterator[str]:
    every = counted(len(result.cells), "cell")
    if result.differing:
        yield f"{len(result.differing)} of {every}: another winner without contention"
    if result.close:
        yield (
            f"{len(result.close)} of {every}: the runner-up is within 20%, the uncertainty of"
            " contention"
        )
    others = sum(not cell.selectable for cell in result.priced)
    if result.library and 0 < others < len(result.priced):
        yield f"{others} of {every}: the library implements none of these algorithms"
    yield from held_lines(result.cells)
    yield from (
        f"not priced: {reason}"
        for reason in dict.fromkeys(cell.reason for cell in result.cells if cell.reason)
    )


def _document(result: Sweep) -> Document:
    keys = [axis.key for axis in result.axes]
    cells = [
        {key: _exact(key, value) for key, value in zip(keys, cell.at, strict=True)}
        | fields(cell, "algorithm spec total_s busbw_Bps alpha_share runner_up runner_up_s")
        | {
            "close": is_close(cell),
            "ideal_algorithm": cell.ideal,
            "ideal_s": cell.ideal_s,
            "leads": cell.selectable,
        }
        | {"accuracy": cell.accuracy and cell.accuracy._asdict()}
        | interval_field(cell.interval, none_for(cell))
        | {name: value for name, value in fields(cell, "protocol reason").items() if value}
        for cell in result.cells
    ]
    return (
        set_field(result.overrides)
        | {"primitive": str(result.primitive), "mode": "ideal" if result.ideal else "realistic"}
        | model_field(result.readings, keys)
        | {"library": result.library or None}
        | {
            "axes": {
                axis.key: [_exact(axis.key, value) for value in axis.values] for axis in result.axes
            }
        }
        | {"cells": cells, "ground": ground_field(result.ground)}
        | {"changes": [one._asdict() | {"at": dict(one.at)} for one in result.changes]}
    )


def _exact(key: str, value: Any) -> Any:
    return whole_bytes(value) if key == "bytes" else value


def _summary(result: Sweep) -> str:
    names = dict.fromkeys(cell.known_as for cell in result.priced)
    return (
        f"{sweep_title(result)}: {counted(len(result.cells), 'cell')}, fastest {', '.join(names)}"
    )


VIEWS = {
    Sweep: View("sweep", _blocks, _document, _table, _summary),
}
