"""``compare``: fabrics side by side, ratios to the first, conclusions in sentences; and what makes
prices not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from typing import Any, NamedTuple, assert_never, get_args

from colltool.algorithms.libraries import LIBRARIES
from colltool.analysis.basis import LAYERS, BasisDifference
from colltool.analysis.compare import (
    ColumnDifference,
    CompareLine,
    Comparison,
    OutcomeRange,
    Reason,
    SameReason,
)
from colltool.analysis.grid import Cell
from colltool.base.errors import given, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_factor,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
    whole_bytes,
)
from colltool.estimate.interval import SHARE
from colltool.machines.used import own_rows_of
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.dispatch import Document, View, fields, listed, machine_field, plain
from colltool.render.estimates import model_field, readings_block, running
from colltool.render.intervals import interval_field, none_for, within_several

_WHERE = (
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    number("ranks", "ranks"),
    number("bytes", "size", title_size, get=lambda line: whole_bytes(line.bytes)),
)


def _columns(result: Comparison, *, people: bool) -> Iterator[Column]:
    for at, one in enumerate(result.columns):
        # the fastest are not told again where they are those of the column before
        told = at > 0 and all(
            line.cells[at].algorithm == line.cells[at - 1].algorithm for line in result.lines
        )
        yield number(f"{one.name}:total_s", one.name, format_time, get=_cell(at, "total_s"))
        if at:
            yield number(f"{one.name}:ratio", "ratio", format_factor, get=methodcaller("ratio", at))
        yield number(
            f"{one.name}:busbw_Bps",
            "busbw",
            format_rate,
            3,
            get=_cell(at, "busbw_Bps"),
            hidden=people,
        )
        name = f"{one.name}:algorithm"
        yield label(
            name,
            "fastest",
            drop=2 + at,
            get=_cell(at, "known_as" if people else "algorithm"),
            hidden=people and told,
        )


def _cell(at: int, field: str) -> Callable[[Any], Any]:
    return lambda line: getattr(line.cells[at], field)


def _table(result: Comparison, title: str = "", *, people: bool = False) -> Table:
    several = len({line.primitive for line in result.lines}) > 1
    where = _WHERE if several or not people else _WHERE[1:]
    return Table((*where, *_columns(result, people=people)), result.lines, None, title)


def _blocks(result: Comparison) -> list[Block]:
    brief = [_sentence(result, one.in_short, brief=True) for one in result.findings]
    told = "; ".join(brief[:2]) + (f"; {len(brief) - 2} more below" if len(brief) > 2 else "")
    spoken = ", ".join(dict.fromkeys(line.primitive.spoken for line in result.lines))
    asked = sentence(
        f"{spoken}, against {result.columns[0].name}, {'ideal' if result.ideal else 'realistic'}"
    )
    reasons = dict.fromkeys(
        f"{result.columns[at].name}: {cell.reason}"
        for line in result.lines
        for at, cell in enumerate(line.cells)
        if cell.reason
    )
    cells = [cell for line in result.lines for cell in line.cells]
    off = within_several(
        [(cell.interval, cell.total_s) for cell in cells if cell.interval and cell.total_s]
    )
    return [
        Headline(f"{layers_first(result.ground)}{told}. {asked}.{f' {off}.' if off else ''}"),
        _table(result, people=True),
        Lines("what follows", (*verdict(result), *_one_port_lines(result))),
        *readings_block(result.readings),
        *listed(
            "rows of one's own", own_rows_of((column.name, column.set) for column in result.columns)
        ),
        *listed("notes", _notes(result), first=0),
        *ground_block(result.ground, _ranks(result)),
        *listed("not priced", reasons),
    ]


def _notes(result: Comparison) -> Iterator[str]:
    for at, column in enumerate(result.columns):
        if found := result.not_run(at):
            some = (
                ""
                if len(found) == len(result.lines)
                else f"{len(found)} of {counted(len(result.lines), 'row')}, "
            )
            yield f"{column.name}: {some}{running(result.libraries[at], leads=False)}"
        yield from (
            f"{column.name}: {one}" for one in held_lines([line.cells[at] for line in result.lines])
        )


def verdict(result: Comparison) -> tuple[str, ...]:
    return tuple(_sentence(result, one) for one in result.findings)


def _one_port_lines(result: Comparison) -> tuple[str, ...]:
    """Such as ``all-reduce at 16MB: with --ports one star512 wins``."""
    out = []
    for primitive in dict.fromkeys(one.primitive for one in result.turned):
        mine = [line for line in result.lines if line.primitive is primitive]
        for column in dict.fromkeys(
            one.column for one in result.turned if one.primitive is primitive
        ):
            rows = [
                one for one in result.turned if (one.primitive, one.column) == (primitive, column)
            ]
            sizes, counts = (
                list(dict.fromkeys(getattr(one, key) for one in rows)) for key in ("bytes", "ranks")
            )
            where = (
                f" on {', '.join(map(str, counts))} ranks"
                if set(counts) != {line.ranks for line in mine}
                else ""
            )
            where += (
                f" at {', '.join(map(title_size, sizes))}"
                if set(sizes) != {line.bytes for line in mine}
                else ""
            )
            out.append(
                f"{primitive.spoken}{where}: with {said(given('ports', 'one'))} {column} wins"
            )
    return tuple(out)


def _ranks(result: Comparison) -> tuple[int, ...]:
    return tuple(dict.fromkeys(line.ranks for line in result.lines))


def _sentence(result: Comparison, one: ColumnDifference, *, brief: bool = False) -> str:
    counts = f"{one.ranks[0]} to {one.ranks[-1]}" if len(one.ranks) > 1 else str(one.ranks[0])
    ranks = "" if one.ranks == _ranks(result) else f" on {counts} ranks"
    told = []
    points = [
        line for line in result.lines if line.primitive is one.primitive and line.ranks in one.ranks
    ]
    most = "at most " if len(points) > 1 else ""
    for at, run in enumerate(one.runs):
        since = "" if at == 0 else f"from {format_bytes(run.from_bytes, 3)} "
        to = (
            "on "
            if at == len(one.runs) - 1
            else f"{'to' if at else 'up to'} {format_bytes(run.to_bytes, 3)} "
        )
        sizes = since + to if len(one.runs) > 1 else ""
        times = f"{most}{format_factor(max(run.ratio, 1 / run.ratio), 3)}"
        outcome = _OUTCOMES[run.outcome].format(times)
        if run.within is not None:
            outcome = "no sure difference" + (
                "" if brief else f" ({outcome}, within the error of {percent(run.within)})"
            )
        told.append(f"{sizes}{outcome}{'' if brief else _because(result, one, run)}")
    return f"{one.column}, {one.primitive.spoken}{ranks}: {', '.join(told)}"


def _because(result: Comparison, one: ColumnDifference, run: OutcomeRange) -> str:
    if run.outcome == "unlike":
        lacks = [uneven for uneven in result.ground if uneven.code == "launch"]
        without = [
            name
            for uneven in lacks
            for value, names in uneven.parts
            for name in names
            if value is None
        ]
        lacking = next(
            (name for name in (one.column, result.columns[0].name) if name in without), ""
        )
        if not lacking:
            return " (only one of the two pays measured software time there)"
        return f" ({lacking} has no launch overhead: a lower bound there)"
    reasons = dict.fromkeys(_REASONS[why.reason](why) for why in run.why)
    return f" ({'; '.join(reasons)})" if reasons else ""


_REASONS: dict[Reason, Callable[[SameReason], str]] = {
    "tier": lambda why: f"no two ranks meet on {why.tier}",
    "level": lambda why: (
        f"nothing reaches the {why.level} of {why.tier}: one {why.below} holds all {why.endpoints}"
        " endpoints"
    ),
    "share": lambda why: (
        f"few enough messages of {why.algorithm} cross the {why.level} of {why.tier} at a time"
    ),
    "unpaid": lambda why: (
        f"{why.algorithm}, the fastest, pays nothing of {why.key}"
        if why.key
        else f"{why.algorithm} pays the same on both"
    ),
    "small": lambda why: f"at most {percent(why.most)}",
}

assert set(_REASONS) == set(get_args(Reason))

_OUTCOMES = {
    "same": "no difference",
    "slower": "{} slower",
    "faster": "{} faster",
    "first": "cannot run it",
    "other": "can run it, which the first cannot",
    "neither": "cannot run it, nor can the first",
    "unlike": "not compared",
}


def _document(result: Comparison) -> Document:
    primitives = list(dict.fromkeys(str(line.primitive) for line in result.lines))
    rows = []
    for line in result.lines:
        values = [
            fields(cell, "total_s busbw_Bps algorithm")
            | {"ratio": line.ratio(at), "lower_bound": line.is_bound(at), "leads": cell.selectable}
            | {
                "accuracy": cell.accuracy and cell.accuracy._asdict(),
                "ratio_interval": _ratio_interval(line, at),
            }
            | interval_field(cell.interval, none_for(cell))
            | ({"reason": cell.reason} if cell.reason else {})
            for at, cell in enumerate(line.cells)
        ]
        rows.append(
            fields(line, "primitive ranks") | {"bytes": whole_bytes(line.bytes), "values": values}
        )
    return (
        {
            "primitive": primitives[0] if len(primitives) == 1 else primitives,
            "mode": "ideal" if result.ideal else "realistic",
        }
        | model_field(result.readings)
        | {
            "columns": [
                {
                    "name": one.name,
                    "fabric": one.fabric,
                    "set": dict(one.set),
                    **machine_field(one.set),
                }
                for one in result.columns
            ]
        }
        | {"rows": rows, "verdict": list(verdict(result)), "findings": plain(result.findings)}
        | {"ground": ground_field(result.ground), "turned_on_one_port": plain(result.turned)}
    )


def _ratio_interval(line: CompareLine, at: int) -> Document | None:
    found = line.ratio_interval(at)
    return found and {"low": found[0], "high": found[1], "share": SHARE}


def _summary(result: Comparison) -> str:
    brief = (_sentence(result, one.in_short, brief=True) for one in result.findings)
    return "; ".join((*brief, *ground_summary(result.ground)))


def ground_block(ground: Sequence[BasisDifference], every: Sequence[int] = ()) -> list[Block]:
    return listed("not alike", ground_lines([one for one in ground if one.code != "layers"], every))


def ground_lines(ground: Sequence[BasisDifference], every: Sequence[int] = ()) -> tuple[str, ...]:
    """A sentence each; ``every`` is all rank counts, which are not named."""
    ranks = (
        (
            ""
            if not one.ranks or set(one.ranks) == set(every)
            else f"on {', '.join(map(str, one.ranks))} ranks: "
        )
        for one in ground
    )
    return tuple(where + _said(one) for one, where in zip(ground, ranks, strict=True))


def ground_summary(ground: Sequence[BasisDifference]) -> tuple[str, ...]:
    ways = len({one.code for one in ground})
    return (f"not alike in {counted(ways, 'way')}",) if ground else ()


def ground_field(ground: Sequence[BasisDifference]) -> list[Document]:
    found = []
    for one in ground:
        values = [{"value": value, "columns": list(columns)} for value, columns in one.parts]
        found.append(
            {
                "code": one.code,
                "values": values,
                **fields(one, "primitives ranks"),
                "says": _said(one),
            }
        )
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class _Subject(NamedTuple):
    """Names of columns as the subject of a sentence."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return _listed(self.names)

    def does(self, singular: str, plural: str) -> str:
        return f"{self} {singular if len(self.names) == 1 else plural}"


def layers_first(ground: Sequence[BasisDifference]) -> str:
    """What all columns are priced by where that is less than some have, for the start of an answer;
    else empty."""
    found = [_least_layers(one) for one in ground if one.code == "layers"]
    return f"{sentence(found[0])}. " if found else ""


def _least_layers(one: BasisDifference) -> str:
    """All columns stand on the layers of the one that is known least."""
    layers, columns = min(one.parts, key=lambda part: LAYERS.index(part[0]))
    by = (
        "what a library takes on such wires"
        if layers == "library"
        else "data sheets, without any library's time"
    )
    least = _Subject(columns)
    lacking = "no measurement of its own" if layers == "library" else "no library's numbers"
    return f"all are priced by {by}: {least.does('has', 'have')} {lacking}"


def _said(one: BasisDifference) -> str:
    parts = [(value not in (None, False), name) for value, names in one.parts for name in names]
    without, having = (
        _Subject(tuple(name for has, name in parts if has is wanted)) for wanted in (False, True)
    )
    match one.code:
        case "layers":
            return _least_layers(one)
        case "launch":
            most = format_time(max(value for value, _ in one.parts if value is not None))
            lacking = (
                f"{without.does('has', 'have')} no launch overhead, {having.does('has', 'have')}"
                f" ({most})"
            )
            one_for_all = given("overrides", [f"launch_overhead={most.replace(' ', '')}"])
            return said(
                f"{lacking}: times in which that is felt cannot be compared. To give all of them"
                f" one: {one_for_all}"
            )
        case "protocols":
            its = "its" if len(without.names) == 1 else "their"
            return (
                f"{having.does('is', 'are')} priced by measured protocols, {without} by {its}"
                " tiers' own numbers"
            )
        case "software":
            return (
                f"what the library reaches is in the prices of {having}, not in those of {without}:"
                " no figures there"
            )
        case "contention":
            return (
                f"{without.does('states', 'state')} no contention (eta) on some tier: 1 there, as"
                " if nobody else sent"
            )
        case "library":
            spoken = (
                (LIBRARIES[name].spoken if name else "any library", columns)
                for name, columns in one.parts
            )
            return ", ".join(f"{library} on {_listed(columns)}" for library, columns in spoken)
        case "group":
            sits = (
                f"{' x '.join(map(str, shape))} on {_listed(columns)}"
                for shape, columns in one.parts
            )
            return f"ranks in a domain of each tier, innermost first: {', '.join(sits)}"
        case "slice":
            return (
                "slices:"
                f" {', '.join(f'{shape} on {_listed(columns)}' for shape, columns in one.parts if shape)}"
            )
        case "software_time":
            ((fitted, total, size), measured), (_, none) = one.parts
            paid = f"{format_time(fitted)} of {format_time(total)} at {title_size(size)}"
            what = f"{_Subject(measured).does('pays', 'pay')} measured software time ({paid})"
            return (
                f"{what}, {_Subject(none).does('has', 'have')} none measured: small sizes are not"
                " the same kind of number"
            )
        case _:
            assert_never(one.code)


def held_lines(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Notes on cells beyond the measured sizes or ranks, whose software time is held at the nearest
    measured one."""
    found = Counter(cell.held.partition(" was not measured ")[0] for cell in cells if cell.held)
    every = counted(sum(cell.algorithm is not None for cell in cells), "cell")
    return tuple(
        f"{count} of {every}: {what} was not measured there (size or ranks): held at the nearest"
        for what, count in found.items()
    )


VIEWS = {Comparison: View("compare", _blocks, _document, _table, _summary)}
