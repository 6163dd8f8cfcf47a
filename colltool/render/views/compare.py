"""``compare``: fabrics side by side, ratios to the first, and conclusions in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

from colltool.analysis.compare import ColumnDifference, CompareLine, Comparison, OutcomeRange, Reason, SameReason
from colltool.base.errors import given, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_factor,
    format_rate,
    format_time,
    percent,
    plain_number,
    sentence,
    title_size,
    whole_bytes,
)
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.estimate_columns import readings_block, running
from colltool.render.estimate_fields import model_field
from colltool.render.grounds import ground_block, ground_field, ground_summary, held_lines
from colltool.render.view import Document, View

_WHERE = (
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    number("ranks", "ranks"),
    number("bytes", "size", title_size, get=lambda line: whole_bytes(line.bytes)),
)


def _columns(result: Comparison, *, people: bool) -> Iterator[Column]:
    for at, one in enumerate(result.columns):
        yield number(f"{one.name}:total_s", one.name, format_time, get=_of(at, "total_s"))
        if at:
            yield number(f"{one.name}:ratio", "ratio", format_factor, get=lambda line, at=at: line.ratio(at))  # type: ignore[misc]
        yield number(f"{one.name}:busbw_Bps", "busbw", format_rate, 3, get=_of(at, "busbw_Bps"), hidden=people)
        yield label(
            f"{one.name}:algorithm", "fastest", drop=2 + at, get=_of(at, "algorithm"), hidden=people and _told(result, at)
        )


def _of(at: int, field: str) -> Any:
    return lambda line: getattr(line.cells[at], field)


def _told(result: Comparison, at: int) -> bool:
    # not if they are those of the column before
    return at > 0 and all(line.cells[at].algorithm == line.cells[at - 1].algorithm for line in result.lines)


def _table(result: Comparison, title: str = "", *, people: bool = False) -> Table:
    several = len({line.primitive for line in result.lines}) > 1
    where = _WHERE if several or not people else _WHERE[1:]
    return Table((*where, *_columns(result, people=people)), result.lines, None, title)


def _blocks(result: Comparison) -> list[Block]:
    brief = [_sentence(result, one.in_short, brief=True) for one in result.findings]
    said = "; ".join(brief[:2]) + (f"; {len(brief) - 2} more below" if len(brief) > 2 else "")
    out: list[Block] = [Headline(f"{said}. {sentence(_title(result))}."), _table(result, people=True)]
    out.append(Lines("what follows", (*verdict(result), *one_port_lines(result))))
    out += readings_block(result.readings) + _notes(result) + ground_block(result.ground, _ranks(result))
    reasons = dict.fromkeys(f"{result.columns[at].name}: {cell.reason}" for line in result.lines
                            for at, cell in enumerate(line.cells) if cell.reason)  # fmt: skip
    return [*out, *([Lines("not priced", tuple(reasons))] if reasons else [])]


def _notes(result: Comparison) -> list[Block]:
    lines = []
    for at, column in enumerate(result.columns):
        if found := result.not_run(at):
            some = "" if len(found) == len(result.lines) else f"{len(found)} of {counted(len(result.lines), 'row')}, "
            lines.append(f"{column.name}: {some}{running(result.libraries[at], leads=False)}")
        lines += [f"{column.name}: {one}" for one in held_lines([line.cells[at] for line in result.lines])]
    return [Lines("notes", tuple(lines), first=0)] if lines else []


def _title(result: Comparison) -> str:
    spoken = dict.fromkeys(line.primitive.spoken for line in result.lines)
    return f"{', '.join(spoken)}, against {result.columns[0].name}, {'ideal' if result.ideal else 'realistic'}"


def verdict(result: Comparison) -> tuple[str, ...]:
    return tuple(_sentence(result, one) for one in result.findings)


def one_port_lines(result: Comparison) -> tuple[str, ...]:
    """Such as ``all-reduce at 16MB: with --ports one star512 wins``."""
    out = []
    for primitive in dict.fromkeys(one.primitive for one in result.turned):
        mine = [line for line in result.lines if line.primitive is primitive]
        for column in dict.fromkeys(one.column for one in result.turned if one.primitive is primitive):
            rows = [one for one in result.turned if (one.primitive, one.column) == (primitive, column)]
            sizes, counts = (list(dict.fromkeys(getattr(one, key) for one in rows)) for key in ("bytes", "ranks"))
            where = f" on {', '.join(map(str, counts))} ranks" if set(counts) != {line.ranks for line in mine} else ""
            where += f" at {', '.join(map(title_size, sizes))}" if set(sizes) != {line.bytes for line in mine} else ""
            out.append(f"{primitive.spoken}{where}: with {said(given('ports', 'one'))} {column} wins")
    return tuple(out)


def _ranks(result: Comparison) -> tuple[int, ...]:
    return tuple(dict.fromkeys(line.ranks for line in result.lines))


def _sentence(result: Comparison, one: ColumnDifference, *, brief: bool = False) -> str:
    every = _ranks(result)
    counts = f"{one.ranks[0]} to {one.ranks[-1]}" if len(one.ranks) > 1 else str(one.ranks[0])
    ranks = "" if one.ranks == every else f" on {counts} ranks"
    return f"{one.column}, {one.primitive.spoken}{ranks}: {', '.join(_runs(result, one, brief=brief))}"


def _runs(result: Comparison, one: ColumnDifference, *, brief: bool) -> Iterator[str]:
    for at, run in enumerate(one.runs):
        here = _sizes(run, first=at == 0, last=at == len(one.runs) - 1)
        within = f" (within the model's error, {percent(run.within)})" if run.within is not None else ""
        more = "" if brief else f"{within}{_because(result, one, run)}"
        yield f"{here}{_SAID[run.outcome].format(_times(run))}{more}"


def _because(result: Comparison, one: ColumnDifference, run: OutcomeRange) -> str:
    if run.outcome == "unlike":
        lacks = [uneven for uneven in result.ground if uneven.code == "launch"]
        without = [name for uneven in lacks for value, names in uneven.parts for name in names if value is None]
        lacking = next((name for name in (one.column, result.columns[0].name) if name in without), "")
        if not lacking:
            return " (only one of the two pays measured software time there)"
        return f" ({lacking} has no launch overhead: a lower bound there)"
    reasons = dict.fromkeys(_REASONS[why.reason](why) for why in run.why)
    return f" ({'; '.join(reasons)})" if reasons else ""


_REASONS: dict[Reason, Callable[[SameReason], str]] = {
    "tier": lambda why: f"no two ranks meet on {why.tier}",
    "level": lambda why: f"nothing reaches the {why.level} of {why.tier}: one {why.below} holds all {why.endpoints} endpoints",
    "share": lambda why: f"few enough messages of {why.algorithm} cross the {why.level} of {why.tier} at a time",
    "unpaid": lambda why: (
        f"{why.algorithm}, the fastest, pays nothing of {why.key}" if why.key else f"{why.algorithm} pays the same on both"
    ),
    "small": lambda why: f"at most {percent(why.most)}",
}
assert set(_REASONS) == set(get_args(Reason))


_SAID = {
    "same": "no difference",
    "slower": "{} slower",
    "faster": "{} faster",
    "first": "cannot run it",
    "other": "can run it, which the first cannot",
    "neither": "cannot run it, nor can the first",
    "unlike": "not compared",
}


def _times(run: OutcomeRange) -> str:
    times = run.ratio if run.ratio > 1 else 1 / run.ratio
    return f"at most {format_factor(times, 3)}"


def _sizes(run: OutcomeRange, *, first: bool, last: bool) -> str:
    if first and last:
        return ""
    if first:
        return f"up to {format_bytes(run.to_bytes, 3)} "
    since = f"from {format_bytes(run.from_bytes, 3)} "
    return f"{since}on " if last else f"{since}to {format_bytes(run.to_bytes, 3)} "


def _document(result: Comparison) -> Document:
    primitives = list(dict.fromkeys(str(line.primitive) for line in result.lines))
    return {
        "primitive": primitives[0] if len(primitives) == 1 else primitives,
        "mode": "ideal" if result.ideal else "realistic",
        **model_field(result.readings),
        "columns": [{"name": one.name, "fabric": one.fabric, "set": dict(one.set)} for one in result.columns],
        "rows": [_row(line) for line in result.lines],
        "verdict": list(verdict(result)),
        "findings": [one._asdict() | {"primitive": str(one.primitive), "runs": [_run(run) for run in one.runs]}
                     for one in result.findings],
        "ground": ground_field(result.ground),
        "turned_on_one_port": [one._asdict() | {"primitive": str(one.primitive)} for one in result.turned],
    }  # fmt: skip


def _run(run: OutcomeRange) -> Document:
    return run._asdict() | {"why": [one._asdict() for one in run.why]}


def _row(line: CompareLine) -> Document:
    values = [
        {"total_s": plain_number(cell.total_s), "busbw_Bps": plain_number(cell.busbw_Bps), "algorithm": cell.algorithm,
         "ratio": line.ratio(at), "lower_bound": line.is_bound(at), "leads": cell.selectable}
        | ({"reason": cell.reason} if cell.reason else {})
        for at, cell in enumerate(line.cells)
    ]  # fmt: skip
    return {"primitive": str(line.primitive), "ranks": line.ranks, "bytes": whole_bytes(line.bytes), "values": values}


def _summary(result: Comparison) -> str:
    brief = (_sentence(result, one.in_short, brief=True) for one in result.findings)
    return "; ".join((*brief, *ground_summary(result.ground)))


VIEWS = {Comparison: View("compare", _blocks, _document, _table, _summary)}
