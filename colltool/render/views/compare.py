"""``compare``: fabrics side by side, ratios to the first, conclusions in sentences; and what makes
prices not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, assert_never

from colltool.algorithms.libraries import LIBRARIES
from colltool.analysis.basis import LAYERS, BasisDifference
from colltool.analysis.cells import Cell
from colltool.analysis.compare import CompareColumn, Comparison
from colltool.analysis.outcomes import (
    ColumnDifference,
    CompareLine,
    OnePortWinner,
    OutcomeRange,
    SameReason,
)
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_factor,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
)
from colltool.base.primitives import Primitive
from colltool.estimate.interval import SHARE
from colltool.estimate.results import Accuracy
from colltool.machines.used import user_rows_of
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    attribute_at,
    label,
    number,
    span_text,
)
from colltool.render.chart import BusbwChart, curves
from colltool.render.dispatch import View, listed
from colltool.render.documents import Document, derived, optional
from colltool.render.estimates import ModelDocument, readings_block, running
from colltool.render.intervals import IntervalDocument, no_cell_interval, within_several
from colltool.render.shared_documents import (
    MachineDocument,
    ideal_or_realistic,
    machine_of,
    model_echo,
    whole_size,
)

# --- the table


_WHERE: Columns[CompareLine] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    number("ranks"),
    number("bytes", "size", title_size, get=whole_size),
)


def _cell(line: CompareLine, at: int, name: str) -> Any:
    """An attribute of a column's cell."""
    return attribute_at(line.cells[at], name)


def _columns(result: Comparison, *, people: bool) -> Iterator[Column[CompareLine]]:
    for at, column in enumerate(result.columns):
        cell = partial(_cell, at=at)
        yield number(
            f"{column.name}:total_s", column.name, format_time, get=partial(cell, name="total_s")
        )
        # the first is what the others are compared with
        if at:
            ratio = partial(CompareLine.ratio, column=at)
            yield number(f"{column.name}:ratio", "ratio", format_factor, get=ratio)
        busbw = partial(cell, name="busbw_Bps")
        yield number(f"{column.name}:busbw_Bps", "busbw", format_rate, 3, get=busbw, hidden=people)
        yield label(
            f"{column.name}:algorithm",
            "fastest",
            drop=2 + at,
            get=partial(cell, name="known_as" if people else "algorithm"),
            hidden=people and _same_algorithms(result, at),
        )


def _same_algorithms(result: Comparison, at: int) -> bool:
    """Whether the fastest of a column are those of the column before."""
    if not at:
        return False
    return all(line.cells[at].algorithm == line.cells[at - 1].algorithm for line in result.lines)


def _table(result: Comparison) -> Table:
    return Table((*_WHERE, *_columns(result, people=False)), result.lines)


def _table_for_people(result: Comparison) -> Table:
    several = len({line.primitive for line in result.lines}) > 1
    where = _WHERE if several else _WHERE[1:]
    return Table((*where, *_columns(result, people=True)), result.lines)


def _chart(result: Comparison) -> BusbwChart:
    """Bus bandwidth of each column, for the first primitive and number of ranks."""
    shown = result.lines[0]
    points = []
    for line in result.lines:
        if (line.primitive, line.ranks) != (shown.primitive, shown.ranks):
            continue
        for column, cell in zip(result.columns, line.cells, strict=True):
            if cell.busbw_Bps:
                points.append((column.name, line.bytes, cell.busbw_Bps))
    return BusbwChart(f"{shown.primitive.label}, {shown.ranks} ranks", curves(points))


# --- the answer


def _blocks(result: Comparison) -> list[Block]:
    reasons: dict[str, None] = {}
    for line in result.lines:
        for column, cell in zip(result.columns, line.cells, strict=True):
            if cell.reason:
                reasons[f"{column.name}: {cell.reason}"] = None
    own_rows = user_rows_of((column.name, column.set) for column in result.columns)
    return [
        Headline(_answer(result)),
        _table_for_people(result),
        Lines("what follows", (*verdict(result), *_one_port_lines(result))),
        *readings_block(result.readings),
        *listed("rows of one's own", own_rows),
        *listed("notes", _notes(result), first=0),
        *basis_block(result.ground, _ranks(result)),
        *listed("not priced", reasons),
    ]


def _answer(result: Comparison) -> str:
    brief = _brief(result)
    findings = "; ".join(brief[:2])
    # an answer is a sentence or two
    if len(brief) > 2:
        findings += f"; {len(brief) - 2} more below"
    what = ", ".join(dict.fromkeys(line.primitive.label for line in result.lines))
    question = sentence(f"{what}, against {result.columns[0].name}, {ideal_or_realistic(result)}")
    cells: list[Cell] = []
    for line in result.lines:
        cells += line.cells
    off = cell_intervals(cells)
    answer = f"{layers_prefix(result.ground)}{findings}. {question}."
    if off:
        return f"{answer} {off}."
    return answer


def cell_intervals(cells: Sequence[Cell]) -> str:
    """Narrowest and widest interval of cells; empty without any."""
    priced = [cell for cell in cells if cell.total_s]
    return within_several(
        (cell.interval, cell.total_s or 0.0) for cell in priced if cell.interval is not None
    )


def _notes(result: Comparison) -> Iterator[str]:
    for at, column in enumerate(result.columns):
        found = result.not_run(at)
        if found:
            some = ""
            if len(found) < len(result.lines):
                some = f"{len(found)} of {counted(len(result.lines), 'row')}, "
            yield f"{column.name}: {some}{running(result.libraries[at], leads=False)}"
        for line in extrapolated_notes([line.cells[at] for line in result.lines]):
            yield f"{column.name}: {line}"


def verdict(result: Comparison) -> tuple[str, ...]:
    """A sentence on each column and primitive compared with the first column."""
    return tuple(_sentence(result, finding) for finding in result.findings)


def _brief(result: Comparison) -> list[str]:
    return [_sentence(result, finding.in_short, brief=True) for finding in result.findings]


def _one_port_lines(result: Comparison) -> list[str]:
    """Such as ``all-reduce at 16MB: with --ports one star512 wins``."""
    turned: dict[tuple[Primitive, str], list[OnePortWinner]] = {}
    for winner in result.turned:
        turned.setdefault((winner.primitive, winner.column), []).append(winner)
    wins = f"with {localize(argument_text('ports', 'one'))}"
    return [
        f"{primitive.label}{_where_turned(result, primitive, winners)}: {wins} {column} wins"
        for (primitive, column), winners in turned.items()
    ]


def _where_turned(
    result: Comparison, primitive: Primitive, winners: Sequence[OnePortWinner]
) -> str:
    """Such as `` on 64 ranks at 1MB, 16MB``; empty where it is so on all ranks and at all sizes."""
    lines = [line for line in result.lines if line.primitive is primitive]
    counts = dict.fromkeys(winner.ranks for winner in winners)
    sizes = dict.fromkeys(winner.bytes for winner in winners)
    where = ""
    if set(counts) != {line.ranks for line in lines}:
        where += f" on {', '.join(map(str, counts))} ranks"
    if set(sizes) != {line.bytes for line in lines}:
        where += f" at {', '.join(map(title_size, sizes))}"
    return where


def _ranks(result: Comparison) -> tuple[int, ...]:
    return tuple(dict.fromkeys(line.ranks for line in result.lines))


def _sentence(result: Comparison, finding: ColumnDifference, *, brief: bool = False) -> str:
    """How a column compares with the first over the sizes, with reasons unless ``brief``."""
    ranks = ""
    if finding.ranks != _ranks(result):
        counts = span_text(str(finding.ranks[0]), str(finding.ranks[-1]))
        ranks = f" on {counts} ranks"
    lines = [line for line in result.lines if line.primitive is finding.primitive]
    most = "at most " if sum(line.ranks in finding.ranks for line in lines) > 1 else ""
    ranges = []
    for at, run in enumerate(finding.runs):
        text = _run_sizes(finding.runs, at) + _outcome(run, most, brief=brief)
        ranges.append(text if brief else text + _because(result, finding, run))
    return f"{finding.column}, {finding.primitive.label}{ranks}: {', '.join(ranges)}"


def _run_sizes(runs: Sequence[OutcomeRange], at: int) -> str:
    """Such as ``up to 1 MB``, ``from 1 MB to 4 MB`` or ``from 4 MB on``; empty for all sizes."""
    if len(runs) == 1:
        return ""
    start = f"from {format_bytes(runs[at].from_bytes, 3)} "
    end = f"to {format_bytes(runs[at].to_bytes, 3)} "
    if at == 0:
        return f"up {end}"
    if at == len(runs) - 1:
        return f"{start}on "
    return start + end


_OUTCOMES = {
    "same": "no difference",
    "slower": "{} slower",
    "faster": "{} faster",
    "first": "cannot run it",
    "other": "can run it, which the first cannot",
    "neither": "cannot run it, nor can the first",
    "unlike": "not compared",
}


def _outcome(run: OutcomeRange, most: str, *, brief: bool) -> str:
    # "1.2x slower" and "1.2x faster", never "0.83x faster"
    times = f"{most}{format_factor(max(run.ratio, 1 / run.ratio), 3)}"
    outcome = _OUTCOMES[run.outcome].format(times)
    if run.within is None:
        return outcome
    # run.within is set if the ratio's error is larger than its distance from 1
    if brief:
        return "no sure difference"
    return f"no sure difference ({outcome}, within the error of {percent(run.within)})"


def _because(result: Comparison, finding: ColumnDifference, run: OutcomeRange) -> str:
    if run.outcome == "unlike":
        return f" ({_unlike(result, finding.column)})"
    reasons = dict.fromkeys(map(_reason, run.why))
    if reasons:
        return f" ({'; '.join(reasons)})"
    return ""


def _unlike(result: Comparison, column: str) -> str:
    """Why a column and the first cannot be compared."""
    without: list[str] = []
    for difference in result.ground:
        if difference.code == "launch":
            for value, names in difference.parts:
                without += names if value is None else ()
    for name in (column, result.columns[0].name):
        if name in without:
            return f"{name} has no launch overhead: a lower bound there"
    return "only one of the two pays measured software time there"


def _reason(why: SameReason) -> str:
    """Why two columns take equally long."""
    match why.reason:
        case "tier":
            return f"no two ranks meet on {why.tier}"
        case "level":
            holds = f"one {why.below} holds all {why.endpoints} endpoints"
            return f"nothing reaches the {why.level} of {why.tier}: {holds}"
        case "share":
            level = f"the {why.level} of {why.tier}"
            return f"few enough messages of {why.algorithm} cross {level} at a time"
        case "unpaid":
            if not why.key:
                return f"{why.algorithm} pays the same on both"
            return f"{why.algorithm}, the fastest, pays nothing of {why.key}"
        case "small":
            return f"at most {percent(why.most)}"
        case _:
            assert_never(why.reason)


def _summary(result: Comparison) -> str:
    return "; ".join((*_brief(result), *basis_summary(result.ground)))


# --- what makes columns not comparable


def basis_block(ground: Sequence[BasisDifference], every: Sequence[int] = ()) -> list[Block]:
    """A list of the differences in what prices rest on, without the layers, which the answer names.

    Args:
        every: all rank counts of the result; a difference on all of them names none.
    """
    lines = basis_sentences(
        [difference for difference in ground if difference.code != "layers"], every
    )
    return listed("not alike", lines)


def basis_sentences(
    ground: Sequence[BasisDifference], every: Sequence[int] = ()
) -> tuple[str, ...]:
    """A sentence for each difference in what prices rest on; ``every`` as in :func:`basis_block`."""
    lines = []
    for difference in ground:
        where = ""
        if difference.ranks and set(difference.ranks) != set(every):
            where = f"on {', '.join(map(str, difference.ranks))} ranks: "
        lines.append(where + _basis_sentence(difference))
    return tuple(lines)


def basis_summary(ground: Sequence[BasisDifference]) -> tuple[str, ...]:
    ways = len({difference.code for difference in ground})
    return (f"not alike in {counted(ways, 'way')}",) if ground else ()


def _listed(names: Sequence[str]) -> str:
    """Such as ``a, b and c``."""
    *others, last = names
    if others:
        return f"{', '.join(others)} and {last}"
    return last


class _Subject(NamedTuple):
    """Names of columns as the subject of a sentence."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return _listed(self.names)

    def does(self, singular: str, plural: str) -> str:
        return f"{self} {singular if len(self.names) == 1 else plural}"


def layers_prefix(ground: Sequence[BasisDifference]) -> str:
    """The start of an answer if all columns are priced with fewer layers of the model than some
    could have; else empty."""
    for difference in ground:
        if difference.code == "layers":
            return f"{sentence(_least_layers(difference))}. "
    # all columns have the same layers
    return ""


def _least_layers(difference: BasisDifference) -> str:
    """Which layers all columns are priced by: those of the column with the fewest."""
    layers, columns = min(difference.parts, key=lambda part: LAYERS.index(part[0]))
    has = _Subject(columns).does("has", "have")
    if layers == "library":
        by = "what a library takes on such wires"
        lacking = "no measurement of its own"
    else:
        by = "data sheets, without any library's time"
        lacking = "no library's numbers"
    return f"all are priced by {by}: {has} {lacking}"


def _without_and_having(difference: BasisDifference) -> tuple[_Subject, _Subject]:
    """The columns that lack what others have."""
    without: list[str] = []
    having: list[str] = []
    # a value of None, False or 0 is a lack
    for value, names in difference.parts:
        side = without if value in (None, False) else having
        side += names
    return _Subject(tuple(without)), _Subject(tuple(having))


def _launch_sentence(difference: BasisDifference) -> str:
    without, having = _without_and_having(difference)
    most = format_time(max(value for value, _ in difference.parts if value is not None))
    lacking = f"{without.does('has', 'have')} no launch overhead"
    others = f"{having.does('has', 'have')} ({most})"
    one_for_all = argument_text("overrides", [f"launch_overhead={most.replace(' ', '')}"])
    return localize(
        f"{lacking}, {others}: times in which that is felt cannot be compared. To give all of them"
        f" one: {one_for_all}"
    )


def _software_time_sentence(difference: BasisDifference) -> str:
    ((fitted, total, size), measured), (_, none) = difference.parts
    paid = f"{format_time(fitted)} of {format_time(total)} at {title_size(size)}"
    pays = f"{_Subject(measured).does('pays', 'pay')} measured software time ({paid})"
    lacks = f"{_Subject(none).does('has', 'have')} none measured"
    return f"{pays}, {lacks}: small sizes are not the same kind of number"


def _basis_sentence(difference: BasisDifference) -> str:
    without, having = _without_and_having(difference)
    match difference.code:
        case "layers":
            return _least_layers(difference)
        case "launch":
            return _launch_sentence(difference)
        case "protocols":
            its = "its" if len(without.names) == 1 else "their"
            priced = f"{having.does('is', 'are')} priced by measured protocols"
            return f"{priced}, {without} by {its} tiers' own numbers"
        case "software":
            return (
                f"what the library reaches is in the prices of {having}, not in those of {without}:"
                " no figures there"
            )
        case "contention":
            states = f"{without.does('states', 'state')} no contention (eta) on some tier"
            return f"{states}: 1 there, as if nobody else sent"
        case "library":
            libraries = []
            for name, columns in difference.parts:
                spoken = LIBRARIES[name].label if name else "any library"
                libraries.append(f"{spoken} on {_listed(columns)}")
            return ", ".join(libraries)
        case "group":
            groups = (
                f"{' x '.join(map(str, shape))} on {_listed(columns)}"
                for shape, columns in difference.parts
            )
            return f"ranks in a domain of each tier, innermost first: {', '.join(groups)}"
        case "slice":
            slices = (
                f"{shape} on {_listed(columns)}" for shape, columns in difference.parts if shape
            )
            return f"slices: {', '.join(slices)}"
        case "software_time":
            return _software_time_sentence(difference)
        case _:
            assert_never(difference.code)


def extrapolated_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Notes on cells beyond the measured sizes or ranks, which use the nearest measurement of
    software time."""
    found = Counter(
        cell.extrapolated.partition(" was not measured ")[0] for cell in cells if cell.extrapolated
    )
    every = counted(sum(cell.algorithm is not None for cell in cells), "cell")
    return tuple(
        f"{count} of {every}: {what} was not measured there (size or ranks): held at the nearest"
        for what, count in found.items()
    )


# --- documents


class BasisValue(NamedTuple):
    """A value of what columns differ in, and the columns that have it."""

    value: Any
    columns: list[str]


def _basis_values(difference: BasisDifference) -> tuple[BasisValue, ...]:
    return tuple(BasisValue(value, list(columns)) for value, columns in difference.parts)


class BasisDocument(Document, of=BasisDifference):
    """What makes columns not comparable."""

    code: str
    values: list[BasisValue] = derived(_basis_values)
    primitives: list[str]
    ranks: list[int]
    says: str = derived(_basis_sentence)


class RatioInterval(NamedTuple):
    """Where nine of ten measured ratios to the first column lie."""

    low: float
    high: float
    share: float


class ValueDocument(Document):
    """The fastest of a column at a point."""

    total_s: float | None
    busbw_Bps: float | None
    name: str | None = derived(lambda cell: cell.known_as or None)
    algorithm: str | None
    ratio: float | None
    lower_bound: bool
    leads: bool = derived("selectable")
    accuracy: Accuracy | None
    ratio_interval: RatioInterval | None
    interval: IntervalDocument | None
    no_interval: str = optional(no_cell_interval)
    reason: str = optional("reason")


def _values(line: CompareLine) -> tuple[dict[str, Any], ...]:
    values = []
    for at, cell in enumerate(line.cells):
        ends = line.ratio_interval(at)
        values.append(
            ValueDocument.of(
                cell,
                ratio=line.ratio(at),
                lower_bound=line.is_bound(at),
                ratio_interval=ends and RatioInterval(*ends, SHARE),
            )
        )
    return tuple(values)


class LineDocument(Document, of=CompareLine):
    """All columns at a primitive, number of ranks and size."""

    primitive: str
    ranks: int
    bytes: float = derived(whole_size)
    values: list[ValueDocument] = derived(_values)


class ColumnDocument(Document, of=CompareColumn):
    """A fabric with what was set, and the machine in use."""

    name: str
    fabric: str
    set: dict[str, str] = derived(lambda column: dict(column.set))
    machine: MachineDocument | None = optional(lambda column: machine_of(column.set))


def _primitives(result: Comparison) -> Any:
    """The primitive, or a list of several."""
    found = tuple(dict.fromkeys(line.primitive for line in result.lines))
    return found[0] if len(found) == 1 else found


class CompareDocument(Document):
    """Fabrics side by side."""

    primitive: str | list[str] = derived(_primitives)
    mode: str = derived(ideal_or_realistic)
    model: ModelDocument = derived(model_echo)
    columns: list[ColumnDocument]
    rows: list[LineDocument] = derived("lines")
    verdict: list[str] = derived(verdict)
    findings: list[ColumnDifference]
    ground: list[BasisDocument]
    turned_on_one_port: list[OnePortWinner] = derived("turned")


VIEWS = {Comparison: View("compare", _blocks, CompareDocument.of, _table, _summary, chart=_chart)}
