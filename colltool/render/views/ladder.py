"""``ladder`` and ``diff``: a fixed list of prices to compare over time, and what changed between
two JSON documents."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.analysis.diff import Diff, ValueChange
from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_factor,
    format_gap,
    format_rate,
    format_time,
    short_percent,
    title_size,
    whole_bytes,
)
from colltool.base.primitives import SHORT
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL
from colltool.estimate.results import Ladder, Rung
from colltool.render.blocks import Block, Column, Headline, Lines, Table, gathered, label, number
from colltool.render.dispatch import Document, View, fields, listed
from colltool.render.estimates import model_field, readings_block, under

_COLUMNS = (
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    label("fabric", "fabric"),
    label("algorithm", "algorithm"),
    label("protocol", "protocol", drop=4, get=lambda one: one.realistic.protocol),
    number("ranks", "ranks", drop=7),
    number(
        "bytes", "size", title_size, get=lambda one: whole_bytes(one.realistic.bytes), hidden=True
    ),
    number("n_alpha", "n_alpha", format_count, 5, get=lambda one: one.ideal.n_alpha),
    number("n_beta", "n_beta", format_count, 6, get=lambda one: one.ideal.n_beta),
    number("ideal_s", "ideal", format_time, get=lambda one: float(one.ideal.total_s)),
    number(
        "eta_alpha", "eta_a", format_count, 8, get=lambda one: one.realistic.phases[0].eta_alpha
    ),
    number("eta_beta", "eta_b", format_count, 9, get=lambda one: one.realistic.phases[0].eta_beta),
    number("realistic_s", "realistic", format_time, get=lambda one: float(one.realistic.total_s)),
    number("gap_ideal", "gap ideal", format_gap, 2),
    number("gap_realistic", "gap real", format_gap, 1),
    number(
        "compression", "margin", format_gap, 3, get=lambda one: one.gap_realistic / one.gap_ideal
    ),
    label("spec", "spec", drop=10, get=lambda one: one.realistic.spec, hidden=True),
)
_FOR_PEOPLE = {
    "primitive": (label("primitive", "PRIM", lambda primitive: SHORT[primitive]),),
    "gap_realistic": (number("gap_realistic", "gap", format_gap),),
    "realistic_s": (
        next(column for column in _COLUMNS if column.key == "realistic_s"),
        number("alpha_s", "alpha", format_time, 2, get=lambda one: float(one.realistic.alpha_s)),
        number(
            "bandwidth_s", "BW", format_time, 2, get=lambda one: float(one.realistic.bandwidth_s)
        ),
    ),
}
_LEGEND = (
    "gap: times the fastest of its primitive and size; margin: realistic / ideal gap, below 1 where"
    " contention shrinks it"
)


def _table(result: Ladder) -> Table:
    table = Table(_COLUMNS, result.rows)
    return (
        table if any(rung.realistic.protocol for rung in result.rows) else table.without("protocol")
    )


def _blocks(result: Ladder) -> list[Block]:
    table = _table(result)
    table = table._replace(
        columns=tuple(
            new for column in table.columns for new in _FOR_PEOPLE.get(column.key, (column,))
        )
    )
    several = len({rung.realistic.bytes for rung in result.rows}) > 1
    described = [Lines(result.description, (), first=0)] if result.description else []
    shown = table.with_shown("bytes") if several else table
    return [
        Headline(_answer(result, several)),
        shown,
        *described,
        *readings_block(result.readings),
        *_left_out(result),
        Lines(_LEGEND, ()),
    ]


def _left_out(result: Ladder) -> list[Block]:
    reasons: dict[str, list[str]] = {}
    for rung in result.skipped:
        reasons.setdefault(rung.reason, []).append(rung.algorithm)
    return listed(
        "left out", (f"{', '.join(rungs)}: {said(reason)}" for reason, rungs in reasons.items())
    )


def _answer(result: Ladder, several: bool) -> str:
    wins = []
    for rung in (rung for rung in result.rows if rung.gap_realistic == 1):
        of = f" of {title_size(float(rung.realistic.bytes))}" if several else ""
        wins.append((f"{rung.algorithm} on {rung.fabric}", f"{rung.primitive.spoken}{of}"))
    most = sorted(gathered(wins).items(), key=lambda one: -len(one[1]))
    fastest = "; ".join(f"{name} for {', '.join(what)}" for name, what in most[:2])
    more = f"; {len(most) - 2} more with gap 1x" if len(most) > 2 else ""
    paid = [float(rung.realistic.total_s / rung.ideal.total_s) for rung in result.rows]
    costs = " to ".join(dict.fromkeys(format_factor(end(paid), 3) for end in (min, max)))
    what = (
        f"Contention costs {costs} of the ideal time. Ladder {result.name},"
        f" {counted(len(result.rows), 'rung')}"
    )
    return (
        f"Fastest: {fastest}{more}."
        f" {what}{'' if several else f' at {title_size(result.bytes)} per rank'}."
    )


def _document(result: Ladder) -> Document:
    head = {
        "ladder": result.name,
        "description": result.description,
        "bytes": whole_bytes(result.bytes),
    }
    # left out if usual: kept documents are compared
    told = model_field(result.readings) if result.readings.unlike(USUAL) else {}
    left_out = (
        {"skipped": [rung._asdict() | {"reason": said(rung.reason)} for rung in result.skipped]}
        if result.skipped
        else {}
    )
    return head | told | {"rows": [_rung(rung, result.bytes) for rung in result.rows]} | left_out


def _rung(rung: Rung, usual: float) -> Document:
    size, etas = rung.realistic.bytes, {}
    for name in ("eta_alpha", "eta_beta"):  # None where phases differ
        first, *others = {getattr(phase, name) for phase in rung.realistic.phases}
        etas[name] = None if others else first
    return {
        **fields(rung, "primitive fabric algorithm"),
        "spec": rung.realistic.spec,
        "ranks": rung.ranks,
        **({} if size == usual else {"bytes": whole_bytes(size)}),
        **fields(rung.ideal, "n_alpha n_beta"),
        "ideal": _seconds(rung.ideal),
        "realistic": _seconds(rung.realistic) | etas,
        **fields(rung, "gap_ideal gap_realistic"),
        "compression": rung.gap_realistic / rung.gap_ideal,
    }


def _seconds(row: AlgorithmEstimate) -> Document:
    paid = {name: getattr(row, name) for name in ("overhead_s", "software_s") if getattr(row, name)}
    return fields(row, "alpha_s bandwidth_s total_s lower_bound_s") | paid | under(row.protocol)


def _summary(result: Ladder) -> str:
    return (
        f"ladder {result.name}, {title_size(result.bytes)} per rank,"
        f" {counted(len(result.rows), 'rung')}"
    )


_LONGEST = 24  # characters of a cell: an algorithm's name fits, a list of notes is cut
_MOST_FIELDS = 10


class _Moved(NamedTuple):
    kind: str
    where: str
    old: Any = None
    new: Any = None
    relative: float | None = None


def _short(value: Any) -> str:
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    return (
        f"{value:.9g}"
        if isinstance(value, float)
        else text
        if len(text) <= _LONGEST
        else f"{text[: _LONGEST - 3]}..."
    )


def _relative(share: float) -> str:
    return short_percent(share, 3, "+")


_MOVED = (
    label("where", "where"),
    number("old", "old", _short),
    number("new", "new", _short),
    number("relative", "change", _relative),
    label("kind", "kind", hidden=True),
)


def _moved(result: Diff) -> Table:
    rows = (_Moved("changed", *change) for change in result.changed)
    return Table(
        _MOVED,
        (*rows, *(_Moved(kind, where) for kind, places in _only(result) for where in places)),
    )


class _Field(NamedTuple):
    """All changes of one field."""

    name: str
    rows: int
    range: str
    largest: ValueChange


def _row(one: ValueChange) -> str:
    """The row of the document that changed: ``all_reduce star512 ring 512``."""
    head, _, rest = one.where.partition("[")
    return rest.partition("]")[0] or head


def _value(name: str, value: Any) -> str:
    shows = {"_s": format_time, "_Bps": format_rate, "bytes": format_bytes}
    show = next((show for end, show in shows.items() if name.endswith(end)), None)
    return show(value) if show and isinstance(value, int | float) else _short(value)


_FIELDS: tuple[Column, ...] = (
    label("field", "what", get=lambda one: one.name),
    number("rows", "rows"),
    label("range", "change", get=lambda one: one.range),
    label("largest", "largest in", get=lambda one: _row(one.largest), fold=20),
    number("from", "from", get=lambda one: _value(one.name, one.largest.old)),
    number("to", "to", get=lambda one: _value(one.name, one.largest.new)),
)
_CAUSES = {  # of a change, by the fields that show it
    "a formula (n_alpha, n_beta)": ("n_alpha", "n_beta"),
    "contention (eta) of the fabric": ("eta_alpha", "eta_beta"),
    "bandwidth of the fabric": ("bandwidth_Bps",),
    "the library's overhead": ("software_s",),
    "launch overhead of the fabric": ("overhead_s",),
    "the size": ("bytes",),
    "the number of ranks": ("ranks",),
}
_ACCEPT = either(
    shell=(
        "To accept it, write the new document over the old one: cp NEW OLD, or ladder --format json"
        " -o FILE."
    ),
    python="To accept it, write the new document over the old one.",
)


def _diff_answer(result: Diff, found: list[_Field]) -> str:
    if not result.moved:
        return f"Nothing moved by more than {result.rtol:g}."
    sentences = []
    if found:
        names = {one.name for one in found}
        why = [cause for cause, shown_by in _CAUSES.items() if names & set(shown_by)]
        why = why or ["latency of the fabric" if "alpha_s" in names else "numbers"]
        reasons = f": {', '.join(why)}"
        if result.readings:
            sentences.append(_made_under(result))
            reasons = ""  # what else moved cannot be told apart
        times = [one for one in found if one.name == "total_s"] or found
        name, one = max(
            ((one.name, one.largest) for one in times),
            key=lambda pair: abs(pair[1].relative or 0.0),
        )
        share = "" if one.relative is None else f" ({_relative(one.relative)})"
        rows = counted(
            len({_row(change) for change in result.changed if change not in result.readings}), "row"
        )
        values = f"{_value(name, one.old)} to {_value(name, one.new)}{share}"
        sentences.append(f"{rows} moved{reasons}. Largest: {name} of {_row(one)}, {values}.")
    only = [f"{counted(len(lines), 'value')} {name}" for name, lines in _only(result)]
    return " ".join(
        (*sentences, *([f"{', '.join(only)}.".capitalize()] if only else []), said(_ACCEPT))
    )


def _made_under(result: Diff) -> str:
    """Such as
    ``Made under other readings: tree_beta=2 in the old document, tree_beta=1 in the new one.``"""
    old, new = [], []
    for change in result.readings:
        name = change.where.removeprefix("model.")
        old.append(f"{name}={_short(change.old)}")
        new.append(f"{name}={_short(change.new)}")
    return (
        f"Made under other readings: {', '.join(old)} in the old document, {', '.join(new)} in the"
        " new one."
    )


def _only(result: Diff) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (name, lines)
        for name, lines in (("added", result.added), ("removed", result.removed))
        if lines
    ]


def _diff_blocks(result: Diff) -> list[Block]:
    by_name: dict[str, list[ValueChange]] = {}
    for change in result.changed:
        by_name.setdefault(change.where.rpartition(".")[2], []).append(change)
    found = []
    for name, changes in by_name.items():
        shares = sorted(one.relative for one in changes if one.relative is not None)
        ends = dict.fromkeys(map(_relative, (*shares[:1], *shares[-1:])))
        largest = max(changes, key=lambda one: abs(one.relative or 0.0))
        found.append(_Field(name, len(set(map(_row, changes))), " to ".join(ends), largest))
    moved = (_Moved("changed", *change) for change in result.changed)
    tables = [
        Table(_FIELDS, tuple(found), None, "", first=_MOST_FIELDS),
        Table(_MOVED, tuple(moved), None, f"changed by more than {result.rtol:g}", 0),
    ]
    return [
        Headline(_diff_answer(result, found)),
        *tables,
        *(Lines(name, lines, first=5) for name, lines in _only(result)),
    ]


def _diff_document(result: Diff) -> Document:
    return fields(result, "rtol changed added removed")


def _diff_summary(result: Diff) -> str:
    if not result.moved:
        return f"nothing moved by more than {result.rtol:g}"
    return (
        f"{len(result.changed)} changed by more than {result.rtol:g}, {len(result.added)} added,"
        f" {len(result.removed)} removed"
    )


VIEWS = {
    Ladder: View("ladder", _blocks, _document, _table, _summary),
    Diff: View("diff", _diff_blocks, _diff_document, _moved, _diff_summary),
}
