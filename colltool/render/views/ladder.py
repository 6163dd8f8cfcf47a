"""``ladder`` and ``diff``: a fixed list of prices to compare over time, and what changed between
two JSON documents.

Read from :data:`VIEWS`, at the end: the ladder (:func:`_answer`, :func:`_blocks`) is the first
half, ``diff`` (``_diff_*``) the second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.analysis.diff import Diff, ValueChange
from colltool.analysis.document_winners import TotalChange
from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_gap,
    format_rate,
    format_time,
    sentence,
    short_percent,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.base.primitives import SHORT, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL
from colltool.estimate.results import Infeasible, Ladder, Rung
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    gathered,
    label,
    number,
    span_text,
)
from colltool.render.dispatch import View, listed
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.estimates import ModelDocument, change_text, readings_block
from colltool.render.shared_documents import whole_size


def _eta_alpha(rung: Rung) -> float:
    return float(rung.realistic.phases[0].eta_alpha)


def _eta_beta(rung: Rung) -> float:
    return float(rung.realistic.phases[0].eta_beta)


def _compression(rung: Rung) -> float:
    """The distance from the fastest with contention, relative to that without."""
    return rung.gap_realistic / rung.gap_ideal


_COLUMNS: Columns[Rung] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    label("fabric"),
    label("name", path="realistic.name"),
    label("algorithm"),
    label("protocol", drop=4, path="realistic.protocol"),
    number("ranks", drop=7),
    number(
        "bytes", "size", title_size, hidden=True, get=lambda rung: whole_bytes(rung.realistic.bytes)
    ),
    number("n_alpha", "n_alpha", format_count, drop=5, path="ideal.n_alpha"),
    number("n_beta", "n_beta", format_count, drop=6, path="ideal.n_beta"),
    number("ideal_s", "ideal", format_time, path="ideal.total_s"),
    number("eta_alpha", "eta_a", format_count, drop=8, get=_eta_alpha),
    number("eta_beta", "eta_b", format_count, drop=9, get=_eta_beta),
    number("realistic_s", "realistic", format_time, path="realistic.total_s"),
    number("gap_ideal", "gap ideal", format_gap, drop=4),
    number("gap_realistic", "gap real", format_gap, drop=1),
    number("compression", "contention's share", format_gap, drop=4, get=_compression),
    number("ideal_alpha_s", "ideal alpha", format_time, drop=2, path="ideal.alpha_s"),
    number("ideal_bandwidth_s", "ideal BW", format_time, drop=2, path="ideal.bandwidth_s"),
    label("spec", drop=10, hidden=True, path="realistic.spec"),
)


def _short_name(primitive: Primitive) -> str:
    return SHORT[primitive]


# columns as people read them, where CSV has longer names
_FOR_PEOPLE: dict[str, Column[Rung]] = {
    "primitive": label("primitive", "PRIM", _short_name),
    "name": label("algorithm", path="realistic.name"),
    "ideal_s": number("ideal_s", "without contention", format_time, path="ideal.total_s"),
    "realistic_s": number("realistic_s", "with contention", format_time, path="realistic.total_s"),
    "gap_ideal": number("gap_ideal", "times the fastest without", format_gap, drop=4),
    "gap_realistic": number("gap_realistic", "times the fastest", format_gap),
}
_PARTS: dict[str, Columns[Rung]] = {
    "ideal_s": (
        number("ideal_alpha_s", "alpha without", format_time, drop=3, path="ideal.alpha_s"),
        number("ideal_bandwidth_s", "BW without", format_time, drop=3, path="ideal.bandwidth_s"),
    ),
    "realistic_s": (
        number("alpha_s", "alpha with", format_time, drop=2, path="realistic.alpha_s"),
        number("bandwidth_s", "BW with", format_time, drop=2, path="realistic.bandwidth_s"),
    ),
}
"""The parts of a total, by its column."""
_LEGEND = (
    "times the fastest: of its primitive and size; contention's share: that with contention over"
    " that without, below 1 where contention brings the rows closer; with and without: contention"
)
_FIRST_ROWS = 10  # shown without --all


def _table(result: Ladder) -> Table:
    table = Table(_COLUMNS, result.rows)
    if any(rung.realistic.protocol for rung in result.rows):
        return table
    return table.without("protocol")


def _table_for_people(result: Ladder) -> Table:
    table = _table(result)
    columns: list[Column[Rung]] = []
    for column in table.columns:
        # its own name is for CSV, and parts stand beside their total
        if column.key in ("algorithm", "ideal_alpha_s", "ideal_bandwidth_s"):
            continue
        columns.append(_FOR_PEOPLE.get(column.key, column))
        columns += _PARTS.get(column.key, ())
    table = table._replace(columns=tuple(columns))
    return table.with_shown("bytes") if _several_sizes(result) else table


def _several_sizes(result: Ladder) -> bool:
    return len({rung.realistic.bytes for rung in result.rows}) > 1


def _blocks(result: Ladder) -> list[Block]:
    left_out: dict[str, list[str]] = {}
    for rung in result.skipped:
        left_out.setdefault(localize(rung.reason), []).append(rung.algorithm)
    table = _table_for_people(result)._replace(first=_FIRST_ROWS)
    out: list[Block] = [Headline(_answer(result)), table]
    if result.description:
        out.append(Lines(result.description, (), first=0))
    out += readings_block(result.readings)
    out += listed("left out", (f"{', '.join(rungs)}: {why}" for why, rungs in left_out.items()))
    return [*out, Lines(_LEGEND, (), first=0)]


_MOST_NAMED = 3  # collectives that a sentence lists


def _answer(result: Ladder) -> str:
    """Who is the fastest of most primitives and sizes, and what contention costs."""
    several = _several_sizes(result)
    wins = []
    for rung in result.rows:
        # exactly 1: the fastest is divided by itself
        if rung.gap_realistic == 1:
            what = rung.primitive.label
            if several:
                what += f" of {title_size(float(rung.realistic.bytes))}"
            wins.append((f"{rung.algorithm} on {rung.fabric}", what))
    (name, won), *others = sorted(gathered(wins).items(), key=lambda win: -len(win[1]))
    places = "sizes" if several else "primitives"
    fastest = f"{sentence(name)} is the fastest for {', '.join(won)}"
    if len(won) > _MOST_NAMED:
        fastest = f"{sentence(name)} is the fastest for {len(won)} of {len(wins)} {places}"
    if others:
        second, where = others[0]
        fastest += f", {second} for {', '.join(where[:_MOST_NAMED])}"
    if len(others) > 1:
        fastest += f" and {len(others) - 1} more for the others"
    paid = [float(rung.realistic.total_s / rung.ideal.total_s) - 1 for rung in result.rows]
    adds = span_text(whole_percent(min(paid)), whole_percent(max(paid)))
    at = "" if several else f" at {title_size(result.bytes)} per rank"
    rows = counted(len(result.rows), "row")
    return f"{fastest}. Contention adds {adds} to the time. Ladder {result.name}, {rows}{at}."


def _summary(result: Ladder) -> str:
    rows = counted(len(result.rows), "row")
    return f"ladder {result.name}, {title_size(result.bytes)} per rank, {rows}"


class IdealDocument(Document):
    """The price of a row without contention."""

    alpha_s: float
    bandwidth_s: float
    total_s: float
    lower_bound_s: float | None
    overhead_s: float = optional(lambda row: row.overhead_s or LEFT_OUT)
    software_s: float = optional(lambda row: row.software_s or LEFT_OUT)
    protocol: str = optional("protocol")


def _shared(row: AlgorithmEstimate, name: str) -> Any:
    """A number of the phases; None where they differ."""
    first, *others = {getattr(phase, name) for phase in row.phases}
    return None if others else first


class RealisticDocument(IdealDocument):
    """The price of a row with contention."""

    eta_alpha: float | None = derived(lambda row: _shared(row, "eta_alpha"))
    eta_beta: float | None = derived(lambda row: _shared(row, "eta_beta"))


class RungDocument(Document):
    """A row of a ladder; its size where that is not the ladder's."""

    primitive: str
    fabric: str
    name: str = derived("realistic.name")
    algorithm: str
    spec: str = derived("realistic.spec")
    ranks: int
    bytes: float = optional("bytes")
    n_alpha: float | None = derived("ideal.n_alpha")
    n_beta: float | None = derived("ideal.n_beta")
    ideal: IdealDocument = derived(lambda rung: IdealDocument.of(rung.ideal))
    realistic: RealisticDocument = derived(lambda rung: RealisticDocument.of(rung.realistic))
    gap_ideal: float
    gap_realistic: float
    compression: float = derived(_compression)


def _rungs(result: Ladder) -> tuple[dict[str, Any], ...]:
    rungs = []
    for rung in result.rows:
        size = rung.realistic.bytes
        own = LEFT_OUT if size == result.bytes else whole_bytes(size)
        rungs.append(RungDocument.of(rung, bytes=own))
    return tuple(rungs)


def _unusual_model(result: Ladder) -> Any:
    """Left out if usual: kept documents are compared."""
    return result.readings.echo() if result.readings.unlike(USUAL) else LEFT_OUT


def _skipped(result: Ladder) -> Any:
    skipped = tuple(Infeasible(rung.algorithm, localize(rung.reason)) for rung in result.skipped)
    return skipped or LEFT_OUT


class LadderDocument(Document):
    """Prices to follow."""

    ladder: str = derived("name")
    description: str
    bytes: float = derived(whole_size)
    model: ModelDocument = optional(_unusual_model)
    rows: list[RungDocument] = derived(_rungs)
    skipped: list[Infeasible] = optional(_skipped)


# --- diff

_LONGEST = 24  # characters of a cell: an algorithm's name fits, a list of notes is cut
_MOST_FIELDS = 5  # changed fields without --all
_MOST_WINNERS = 3  # moved winners that the answer names, the farthest first


class _Moved(NamedTuple):
    """A value that changed, or one that only one of the documents has."""

    kind: str
    where: str
    old: Any = None
    new: Any = None
    relative: float | None = None


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 3]}..."


def _relative(share: float) -> str:
    return short_percent(share, 3, "+")


_MOVED: Columns[_Moved] = (
    label("where"),
    number("old", "old", _short),
    number("new", "new", _short),
    number("relative", "change", _relative),
    label("kind", hidden=True),
)


def _changed(result: Diff) -> list[_Moved]:
    return [_Moved("changed", *change) for change in result.changed]


def _moved(result: Diff) -> Table:
    rows = _changed(result)
    for kind, places in _only(result).items():
        rows += [_Moved(kind, where) for where in places]
    return Table(_MOVED, tuple(rows))


class _Field(NamedTuple):
    """All changes of one field."""

    name: str
    rows: int
    range: str
    largest: ValueChange

    @property
    def largest_in(self) -> str:
        return _row(self.largest)

    @property
    def before(self) -> str:
        return _value(self.name, self.largest.old)

    @property
    def after(self) -> str:
        return _value(self.name, self.largest.new)


def _row(change: ValueChange) -> str:
    """The row of the document that changed: ``all_reduce star512 ring 512``."""
    head, _, rest = change.where.partition("[")
    return rest.partition("]")[0] or head


def _value(name: str, value: Any) -> str:
    """A value in the unit that its field's name carries."""
    if isinstance(value, int | float):
        for suffix, show in {"_s": format_time, "_Bps": format_rate, "bytes": format_bytes}.items():
            if name.endswith(suffix):
                return show(value)
    return _short(value)


_FIELDS: Columns[_Field] = (
    label("field", "what", path="name"),
    number("rows"),
    label("range", "change"),
    label("largest", "largest in", drop=1, fold=20, path="largest_in"),
    number("from", path="before"),
    number("to", path="after"),
)
_FORMULA = "a formula (n_alpha, n_beta)"
_BANDWIDTH = "bandwidth of the fabric"
# causes of a change, by the fields that show it
_CAUSES = {
    _FORMULA: {"n_alpha", "n_beta"},
    "contention (eta) of the fabric": {"eta_alpha", "eta_beta"},
    _BANDWIDTH: {"bandwidth_Bps"},
    "library overhead": {"software_s"},
    "launch overhead of the fabric": {"overhead_s"},
    "the size": {"bytes"},
    "the number of ranks": {"ranks"},
}
_ACCEPT = either(
    shell=(
        "To accept it, write the new document over the old one: cp NEW OLD, or ladder --format json"
        " -o FILE."
    ),
    python="To accept it, write the new document over the old one.",
)


def _size_of(change: ValueChange) -> float:
    """How far a value moved; 0 where it is no number."""
    return abs(change.relative or 0.0)


def _diff_answer(result: Diff, found: list[_Field]) -> str:
    if not result.moved:
        return f"Nothing changed by more than {100 * result.rtol:g}%."
    sentences = []
    if result.winners:
        sentences.append(_winner_moves(result))
    if result.readings and found:
        sentences.append(_made_under(result))
    if found:
        sentences.append(_largest_move(result, found))
    only = [f"{counted(len(places), 'value')} {name}" for name, places in _only(result).items()]
    if only:
        sentences.append(f"{', '.join(only)}.".capitalize())
    return " ".join((*sentences, localize(_ACCEPT)))


def _largest_move(result: Diff, found: list[_Field]) -> str:
    """Such as ``3 rows changed (the size), most of all total_s of ..., 1 us -> 2 us (+100%).``"""
    reasons = f" ({', '.join(_causes(found))})"
    # under other model options, the causes cannot be separated
    if result.readings:
        reasons = ""
    # the total if it moved: the causes already name its parts
    times = [field for field in found if field.name == "total_s"]
    most = max(times or found, key=lambda field: _size_of(field.largest))
    own = {_row(change) for change in result.changed if change not in result.readings}
    values = _arrow(most.before, most.after)
    if most.largest.relative is not None:
        values += f" ({_relative(most.largest.relative)})"
    rows = counted(len(own), "row")
    return f"{rows} changed{reasons}, most of all {most.name} of {most.largest_in}: {values}."


def _arrow(before: str, after: str) -> str:
    """Such as ``538 -> 529 us``: an equal unit stands once."""
    number, _, unit = before.partition(" ")
    if unit and after.endswith(f" {unit}"):
        before = number
    return f"{before} -> {after}"


def _winner_moves(result: Diff) -> str:
    """How the totals of the winners changed, largest first."""
    ordered = sorted(result.winners, key=lambda change: -abs(change.relative))
    moves = "; ".join(map(_winner_move, ordered[:_MOST_WINNERS]))
    more = len(ordered) - _MOST_WINNERS
    return f"{moves}; {more} more of the least times moved." if more > 0 else f"{moves}."


def _winner_move(change: TotalChange) -> str:
    """Such as ``all-reduce 16MB: 538 -> 529 us (-1.6%)``; another winner is named."""
    sizes = [title_size(size) for size in (change.old_bytes, change.new_bytes) if size]
    where = " ".join((change.what, " -> ".join(dict.fromkeys(sizes)))).strip()
    before = format_time(change.old_s)
    after = format_time(change.new_s)
    values = _arrow(before, after)
    if change.old_name != change.new_name:
        values = f"{before} ({change.old_name}) -> {after} ({change.new_name})"
    return f"{where}: {values} ({change_text(change.relative)})"


def _causes(found: list[_Field]) -> list[str]:
    names = {field.name for field in found}
    causes = [cause for cause, shown_by in _CAUSES.items() if names & shown_by]
    # the lower bound knows neither contention nor a library, whose numbers follow the bandwidth
    if "lower_bound_s" in names and not names & {"bytes", "ranks"}:
        causes = [_BANDWIDTH, *(cause for cause in causes if cause == _FORMULA)]
    if not causes:
        causes.append("latency of the fabric" if "alpha_s" in names else "numbers")
    return causes


def _made_under(result: Diff) -> str:
    """Such as
    ``Made with other model options: tree_beta=2 in the old document, tree_beta=1 in the new one.``"""
    old = []
    new = []
    for change in result.readings:
        name = change.where.removeprefix("model.")
        old.append(f"{name}={_short(change.old)}")
        new.append(f"{name}={_short(change.new)}")
    return (
        f"Made with other model options: {', '.join(old)} in the old document, {', '.join(new)} in"
        " the new one."
    )


def _only(result: Diff) -> dict[str, tuple[str, ...]]:
    """What only one of the documents has."""
    places = {"added": result.added, "removed": result.removed}
    return {kind: found for kind, found in places.items() if found}


def _fields(result: Diff) -> list[_Field]:
    """The changes by field."""
    by_name: dict[str, list[ValueChange]] = {}
    for change in result.changed:
        by_name.setdefault(change.where.rpartition(".")[2], []).append(change)
    found = []
    for name, changes in by_name.items():
        shares = sorted(change.relative for change in changes if change.relative is not None)
        ends = dict.fromkeys(map(_relative, (*shares[:1], *shares[-1:])))
        rows = len(set(map(_row, changes)))
        found.append(_Field(name, rows, " to ".join(ends), max(changes, key=_size_of)))
    return sorted(found, key=lambda field: field.name != "total_s")


def _diff_blocks(result: Diff) -> list[Block]:
    found = _fields(result)
    title = f"changed by more than {result.rtol:g}"
    return [
        Headline(_diff_answer(result, found)),
        Table(_FIELDS, tuple(found), first=_MOST_FIELDS),
        Table(_MOVED, tuple(_changed(result)), title=title, first=0),
        *(Lines(kind, places, first=3) for kind, places in _only(result).items()),
    ]


def _diff_summary(result: Diff) -> str:
    than = f"by more than {result.rtol:g}"
    if not result.moved:
        return f"nothing changed {than}"
    only = f"{len(result.added)} added, {len(result.removed)} removed"
    return f"{len(result.changed)} changed {than}, {only}"


class DiffDocument(Document):
    """What changed between two documents."""

    rtol: float
    changed: list[ValueChange]
    added: list[str]
    removed: list[str]
    winners: list[TotalChange]


VIEWS = {
    Ladder: View("ladder", _blocks, LadderDocument.of, _table, _summary),
    Diff: View("diff", _diff_blocks, DiffDocument.of, _moved, _diff_summary),
}
