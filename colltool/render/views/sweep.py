"""``sweep`` and ``sensitivity``: the winner at every point; whether it holds if numbers are off, and what to measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from colltool.analysis.compare import SAME
from colltool.analysis.contest import Beats, Contest
from colltool.analysis.grid import OWN_AXES, Cell, SweepAxis
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import At, Pivot, Sweep, is_close, pivot_tables
from colltool.base.formatting import (
    counted,
    format_factor,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.render.blocks import Block, Column, Headline, Lines, Table, flag, label, number
from colltool.render.dispatch import Document, View, context, fields, group_field, listed, on_fabric, set_field
from colltool.render.estimates import model_field, readings_block, running
from colltool.render.views.compare import ground_block, ground_field, ground_summary, held_lines

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


def _table(result: Sweep) -> Table:
    axes = [_axis(index, axis, hidden=len(axis.values) == 1) for index, axis in enumerate(result.axes)]
    told = {key: any(getattr(cell, key) for cell in result.cells) for key in ("protocol", "reason")}
    told |= {"ideal_algorithm": bool(result.differing), "close": bool(result.close)}
    columns = (*context(result.overrides, primitive=result.primitive), *axes, *_CELL)
    return Table(columns, result.cells).without(*(key for key, found in told.items() if not found))


def _blocks(result: Sweep) -> list[Block]:
    tables: list[Block] = [_table(result)._replace(first=_MOST_ROWS)] if result.pivot is None else _pivots(result, result.pivot)
    every = [one for one in axis_values(result, "ranks") if isinstance(one, int)]
    told = readings_block(result.readings, [axis.key for axis in result.axes])
    notes = listed("notes", _notes(result))
    return [Headline(_answer(result)), *tables, *told, *changes(result), *notes, *ground_block(result.ground, every)]


def _answer(result: Sweep) -> str:
    wins = Counter(cell.algorithm for cell in result.priced).most_common()
    every = counted(len(result.cells), "cell")
    if wins:
        all_of_them = len(wins) == 1 and wins[0][1] == len(result.cells) > 1
        told = f"{wins[0][0]} is the fastest in {f'all {every}' if all_of_them else f'{wins[0][1]} of {every}'}"
        told += "".join(f", {name} in {count}" for name, count in wins[1:3])
        told += f", {len(wins) - 3} more in the others" if len(wins) > 3 else ""
    else:
        told = f"None of {every} can be priced"
    close = f" In {len(result.close)} of them the runner-up is within 20%: either may win." if result.close else ""
    return f"{told}. {sentence(sweep_title(result))}.{close}"


def sweep_title(result: Sweep) -> str:
    """What was asked, without the axes that vary."""
    single = {axis.key: axis.values[0] for axis in result.axes if len(axis.values) == 1}
    where = on_fabric(str(single.get("fabric", "")), result.overrides).strip()
    parts = [f"{result.primitive.spoken} on {where}" if where else result.primitive.spoken]
    parts += [f"{single['ranks']} ranks"] if "ranks" in single else []
    parts += [f"{shown('bytes', single['bytes'])} per rank"] if "bytes" in single else []
    parts += [f"{key}={shown(key, value)}" for key, value in single.items() if key not in OWN_AXES]
    parts += [running(result.library, leads=any(cell.selectable for cell in result.priced))] if result.library else []
    mode = [] if any(axis.key == "ideal" for axis in result.axes) else ["ideal" if result.ideal else "realistic"]
    return ", ".join([*parts, *mode])


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
    lines = []
    for one in result.changes[:_MOST_TOLD]:
        at = ", ".join(f"{axis_title(key)} {shown(key, value)}" for key, value in one.at)
        between = f"{axis_title(one.axis)} {shown(one.axis, one.last)} to {shown(one.axis, one.first)}"
        lines.append(f"{at + ': ' if at else ''}{between}: {one.before}, then {one.after}")
    more = [f"and {len(result.changes) - _MOST_TOLD} more in JSON"] if len(result.changes) > _MOST_TOLD else []
    return listed("where the winner changes", (*lines, *more), first=4)


def _notes(result: Sweep) -> Iterator[str]:
    every = counted(len(result.cells), "cell")
    if result.differing:
        yield f"{len(result.differing)} of {every}: another winner without contention"
    if result.close:
        yield f"{len(result.close)} of {every}: the runner-up is within 20%, the uncertainty of contention"
    others = sum(not cell.selectable for cell in result.priced)
    if result.library and 0 < others < len(result.priced):
        yield f"{others} of {every}: the library implements none of these algorithms"
    yield from held_lines(result.cells)
    yield from (f"not priced: {reason}" for reason in dict.fromkeys(cell.reason for cell in result.cells if cell.reason))


def _document(result: Sweep) -> Document:
    keys = [axis.key for axis in result.axes]
    cells = [
        {key: _exact(key, value) for key, value in zip(keys, cell.at, strict=True)}
        | fields(cell, "algorithm spec total_s busbw_Bps alpha_share runner_up runner_up_s")
        | {"close": is_close(cell), "ideal_algorithm": cell.ideal, "ideal_s": cell.ideal_s, "leads": cell.selectable}
        | {name: value for name, value in fields(cell, "protocol reason").items() if value}
        for cell in result.cells
    ]
    return (
        set_field(result.overrides)
        | {"primitive": str(result.primitive), "mode": "ideal" if result.ideal else "realistic"}
        | model_field(result.readings, keys)
        | {"library": result.library or None}
        | {"axes": {axis.key: [_exact(axis.key, value) for value in axis.values] for axis in result.axes}}
        | {"cells": cells, "ground": ground_field(result.ground)}
        | {"changes": [one._asdict() | {"at": dict(one.at)} for one in result.changes]}
    )


def _exact(key: str, value: Any) -> Any:
    return whole_bytes(value) if key == "bytes" else value


def _summary(result: Sweep) -> str:
    names = dict.fromkeys(cell.algorithm for cell in result.cells if cell.algorithm)
    return f"{sweep_title(result)}: {counted(len(result.cells), 'cell')}, fastest {', '.join(names)}"


_FLIPS = (
    label("key", "number"),
    label("value", "turns at", get=lambda one: quantity(one.key, one.value)),
    number("factor", "of nominal", format_factor),
    label("winner", "then fastest", fold=22),
)
_TELLING = (
    label("key", "number"),
    label("range", "between", get=lambda one: f"{quantity(one.key, one.low)} and {quantity(one.key, one.high)}"),
    number("gain_s", "gain on average", format_time),
)


def quantity(key: str, value: float) -> str:
    """A number of a fabric in its unit."""
    last = key.rsplit(".", 1)[-1]
    if last in ("alpha_switch", "post", "launch_overhead") or (last == "alpha" and not key.endswith("eta.alpha")):
        return format_time(value)
    return format_rate(value) if last in ("bandwidth", "local_copy") else f"{value:.4g}"


def verdict(result: Sensitivity) -> str:
    ranges = {one.key: one for one in result.numbers}
    near = any(ranges[flip.key].low <= flip.value <= ranges[flip.key].high for flip in result.flips)
    told = f"the fastest in {percent(result.holds)} of the samples"
    if result.holds > 0.9995 and not near:
        told = f"a safe choice: {told}"
    elif result.regret_p95 < 0.01:
        told = f"{told}, and nearly so in the others"
    lost = f"; in 95 of 100 it loses at most {percent(result.regret_p95)}" if result.regret_p95 >= 0.0005 else ""
    if result.flips:
        flip = result.flips[0]
        at = f"{flip.key} {quantity(flip.key, flip.value)} ({format_factor(flip.factor)} of the file's)"
        return f"{result.winner} is {told}{lost}; {flip.winner} takes over at {at}"
    all_sought = result.flips_sought == len(result.numbers)
    none = "no single number" if all_sought else f"none of the {result.flips_sought} numbers that move times most"
    return f"{result.winner} is {told}{lost}; {none} turns it within a factor of 100"


def _drawn(result: Sensitivity | Contest) -> str:
    told, asked = counted(result.samples, "sample"), result.samples_asked
    return told if result.samples == asked else f"{told} (not {asked}: the numbers are too many)"


def _sensitivity_blocks(result: Sensitivity) -> list[Block]:
    whose = "ranges assumed: none given" if result.assumed else "ranges as given"
    facts = [f"{_drawn(result)} of {counted(len(result.numbers), 'number')}, seed {result.seed}; {whose}"]
    facts += [f"  {one.key} {quantity(one.key, one.value)}: {quantity(one.key, one.low)} to {quantity(one.key, one.high)}"
              for one in result.numbers[:12]] + ["  ..."] * (len(result.numbers) > 12)  # fmt: skip
    out: list[Block] = [Headline(f"{verdict(result)}. {sentence(sensitivity_title(result))}."), _samples(result)]
    out += [Lines("samples", tuple(facts), first=1), *readings_block(result.readings), *listed("notes", result.held, first=0)]
    if result.flips:
        out.append(Table(_FLIPS, result.flips, None, "the smallest change of one number that turns it", first=3))
    if result.telling:
        out.append(Table(_TELLING, result.telling[:5], None, "what knowing one number would gain", first=2))
    if result.experiment:
        out.append(Lines(f"to know {result.telling[0].key}", (result.experiment,), verbatim=True))
    return out


_TIMES = (
    number("nominal_s", "nominal", format_time, 1),
    number("p5_s", "5% below", format_time, 3),
    number("p50_s", "median", format_time, 2),
    number("p95_s", "95% below", format_time, 3),
)


def _samples(result: Sensitivity) -> Table:
    asked = context(fabric=result.fabric, primitive=result.primitive, ranks=result.group.ranks, bytes=whole_bytes(result.bytes))
    columns = (
        label("algorithm", "algorithm", fold=22),
        *_TIMES,
        number("wins", "wins", percent),
        label("spec", "spec", hidden=True),
    )
    return Table((*asked, *columns), result.rows)


def sensitivity_title(result: Sensitivity) -> str:
    library = f", {running(result.library, leads=result.library_leads)}" if result.library else ""
    mode = "ideal" if result.ideal else "realistic"
    where = on_fabric(result.fabric, result.overrides)
    return f"{result.primitive.spoken} on {where}, {result.group.spoken}, {title_size(result.bytes)} per rank{library}, {mode}"


def _sensitivity_document(result: Sensitivity) -> Document:
    return (
        {"fabric": result.fabric, **set_field(result.overrides), "primitive": str(result.primitive)}
        | {"ranks": result.group.ranks, "group": group_field(result.group), "bytes": whole_bytes(result.bytes)}
        | {"mode": "ideal" if result.ideal else "realistic", **model_field(result.readings)}
        | fields(result, "winner spec holds regret_mean seed samples samples_asked rows")
        | fields(result, "regret_p95 flips flips_sought moves telling")
        | {"experiment": result.experiment or None, "ranges": [fields(one, "key value low high") for one in result.numbers]}
        | {"assumed": result.assumed, "verdict": verdict(result)}
    )


def _sensitivity_summary(result: Sensitivity) -> str:
    return f"{sensitivity_title(result)}: {verdict(result)}"


_BEATS: dict[str, tuple[str, Callable[[float], str], int]] = {
    "faster": ("faster", percent, 0),
    "same": (f"same to {SAME:.0%}", percent, 2),
    "slower": ("slower", percent, 2),
    "ratio_p5": ("ratio, 5% below", format_factor, 2),
    "ratio_p50": ("median ratio", format_factor, 0),
    "ratio_p95": ("95% below", format_factor, 2),
}


def _against(key: str) -> Column:
    title, show, drop = _BEATS[key]
    return number(key, title, show, drop, get=lambda row: getattr(row[1], key, None))


_CONTEST = (
    label("name", "fabric", get=lambda row: row[0].name),
    label("algorithm", "fastest, nominal", drop=4, get=lambda row: row[0].algorithm),
    number("nominal_s", "nominal", format_time, 1, get=lambda row: row[0].nominal_s),
    number("p5_s", "5% below", format_time, 3, get=lambda row: row[0].p5_s),
    number("p50_s", "median", format_time, get=lambda row: row[0].p50_s),
    number("p95_s", "95% below", format_time, 3, get=lambda row: row[0].p95_s),
    *map(_against, _BEATS),
)


def _contest_table(result: Contest) -> Table:
    return Table(_CONTEST, tuple(zip(result.sides, (None, *result.beats), strict=True)))


def _contest_blocks(result: Contest) -> list[Block]:
    first = result.sides[0].name
    asked = f"{result.primitive.spoken} against {first}, {result.ranks} ranks, {title_size(result.bytes)} per rank"
    lines = [f"{_drawn(result)}, seed {result.seed}"]
    for side in result.sides:
        whose = "assumed: none given" if side.assumed else "as given"
        ranges = (f"{one.key} {quantity(one.key, one.low)} to {quantity(one.key, one.high)}" for one in side.numbers)
        lines.append(f"  {side.name}, ranges {whose}: {', '.join(ranges) or 'none'}")
    for one in result.beats:
        shared = ", ".join(one.shared) or "nothing"
        lines.append(f"  drawn once for {first} and {one.name}: {shared}; all else for each by itself")
    opening = f"{'; '.join(contest_verdict(result))}. {sentence(asked)}, {'ideal' if result.ideal else 'realistic'}."
    samples = Lines("samples", tuple(lines), first=1)
    return [Headline(opening), _contest_table(result), samples, *ground_block(result.ground, [result.ranks])]


def contest_verdict(result: Contest) -> tuple[str, ...]:
    return tuple(_beaten(result.sides[0].name, one) for one in result.beats)


def _beaten(first: str, one: Beats) -> str:
    if one.faster is None or one.same is None or one.ratio_p5 is None or one.ratio_p50 is None or one.ratio_p95 is None:
        return f"{one.name}: not compared with {first}: one of the two has no launch overhead, and it would be felt"
    how = f"{one.name} is faster than {first} in {percent(one.faster)} of the samples"
    same = f", the same to {SAME:.0%} in {percent(one.same)}" if one.same else ""
    low, middle, high = (format_factor(ratio) for ratio in (one.ratio_p5, one.ratio_p50, one.ratio_p95))
    return f"{how}{same}; it takes {middle} of its time in the median, in 90 of 100 between {low} and {high}"


def _contest_document(result: Contest) -> Document:
    rows = []
    for side, one in zip(result.sides, (None, *result.beats), strict=True):
        seen = {key: value for key, value in side._asdict().items() if key != "numbers"}
        own = {key: getattr(one, key, None) for key in _BEATS}
        against = {"shared": list(one.shared) if one else [], "compared": one.compared if one else True}
        rows.append(seen | own | against | {"ranges": [fields(number, "key value low high") for number in side.numbers]})
    return (
        {"primitive": str(result.primitive), "ranks": result.ranks, "bytes": whole_bytes(result.bytes)}
        | {"mode": "ideal" if result.ideal else "realistic", **fields(result, "samples samples_asked seed")}
        | {"rows": rows, "verdict": list(contest_verdict(result)), "ground": ground_field(result.ground)}
    )


def _contest_summary(result: Contest) -> str:
    return "; ".join((*contest_verdict(result), *ground_summary(result.ground)))


VIEWS = {
    Sweep: View("sweep", _blocks, _document, _table, _summary),
    Sensitivity: View("sensitivity", _sensitivity_blocks, _sensitivity_document, _samples, _sensitivity_summary),
    Contest: View("sensitivity-compare", _contest_blocks, _contest_document, _contest_table, _contest_summary),
}
