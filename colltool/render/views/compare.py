"""``compare``: fabrics side by side, who wins, and ratios to the first.

Read from :data:`VIEWS`: :func:`_blocks` is the screen, :func:`verdict` and :func:`conclusions` its
headline, which reports repeat; documents come last. What two prices assume differently is worded
in :mod:`colltool.render.assumption_differences`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, assert_never

from colltool.analysis.cells import Cell
from colltool.analysis.compare import CompareColumn, Comparison, RanksOffer
from colltool.analysis.fitted import Fitted
from colltool.analysis.outcomes import (
    ColumnDifference,
    CompareLine,
    OnePortWinner,
    SameReason,
    VerdictKind,
)
from colltool.analysis.winners import QuestionVerdict, RivalRatio, SizeBand
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    counted,
    format_factor,
    percent,
    sentence,
    title_size,
)
from colltool.base.primitives import Primitive
from colltool.estimate.interval import SHARE
from colltool.estimate.results import Accuracy
from colltool.machines.used import Overrides, assumed_of, user_rows_of
from colltool.render.assumption_differences import (
    BasisDocument,
    basis_lines,
    basis_summary,
    layers_sentence,
)
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Table,
    attribute_at,
    label,
    number,
    span_text,
)
from colltool.render.busbw_chart import BusbwChart, curves
from colltool.render.dispatch import View, listed
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.estimates import ModelDocument, readings_block, running
from colltool.render.intervals import IntervalDocument, no_cell_interval, within_several
from colltool.render.shared_documents import (
    MachineDocument,
    assumed_with,
    ideal_or_realistic,
    machine_of,
    model_echo,
    whole_size,
)
from colltool.render.verdicts import (
    headline,
    height,
    lists_that_fit,
    offer_sentence,
    rows_that_fit,
    tail,
    verdict_sentence,
)

# --- the table


_WHERE: Columns[CompareLine] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    number("ranks"),
    number("bytes", "size", title_size, whole=True),
)


def _cell(line: CompareLine, index: int, name: str) -> Any:
    """An attribute of a column's cell."""
    return attribute_at(line.cells[index], name)


def _columns(result: Comparison, *, people: bool) -> Iterator[Column[CompareLine]]:
    """The columns of the long table; ``people`` see the library's names."""
    for index, column in enumerate(result.columns):
        cell = partial(_cell, index=index)
        yield number(f"{column.name}:total_s", column.name, get=partial(cell, name="total_s"))
        # the first is what the others are compared with
        if index:
            ratio = partial(CompareLine.ratio, column=index)
            drop = 0 if len(result.columns) == 2 else 1
            yield number(f"{column.name}:ratio", "ratio", format_factor, drop, get=ratio)
        busbw = partial(cell, name="busbw_Bps")
        yield number(f"{column.name}:busbw_Bps", "busbw", drop=4, get=busbw, hidden=people)
        yield label(
            f"{column.name}:algorithm",
            runs_title(line.cells[index] for line in result.lines),
            drop=3 + index,
            get=partial(cell, name="known_as" if people else "algorithm"),
            hidden=people and _same_algorithms(result, index),
        )
    names = [column.name for column in result.columns]
    call = partial(_call if people else _winner, names=names)
    yield label("winner", drop=2, fold=12, get=call)


def runs_title(cells: Iterable[Cell]) -> str:
    """The title of a column of algorithms: what the library runs is not always the fastest."""
    return "runs" if any(cell.picked for cell in cells) else "fastest"


def _winner(line: CompareLine, names: Sequence[str]) -> str | None:
    winner = line.winner()
    return None if winner is None else names[winner]


_VERDICTS: dict[VerdictKind, str] = {
    "winner": "",
    "behind": "too close",
    "mixed": "",
    "close": "too close",
    "same": "same",
    "unlike": "",
    "alone": "",
    "none": "",
}


def _call(line: CompareLine, names: Sequence[str]) -> str | None:
    return _winner(line, names) or _VERDICTS[line.verdict().kind]


def _same_algorithms(result: Comparison, index: int) -> bool:
    """Whether the fastest of a column are those of the column before."""
    return index > 0 and all(
        line.cells[index].algorithm == line.cells[index - 1].algorithm for line in result.lines
    )


def _table(result: Comparison) -> Table:
    return Table((*_WHERE, *_columns(result, people=False)), result.lines)


def _table_for_people(result: Comparison) -> Table:
    table = Table((*_WHERE, *_columns(result, people=True)), result.lines)
    # what is the same in every row stands in the answer
    for key in ("primitive", "ranks"):
        if len({getattr(line, key) for line in result.lines}) == 1:
            table = table.without(key)
    return table


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


def _named(result: Comparison) -> list[tuple[str, Overrides]]:
    """The columns by name, with what was set and what their files assume."""
    return [(column.name, column.set) for column in result.columns]


def _blocks(result: Comparison) -> list[Block]:
    reasons: dict[str, None] = {}
    for line in result.lines:
        for column, cell in zip(result.columns, line.cells, strict=True):
            if cell.reason:
                reasons[f"{column.name}: {cell.reason}"] = None
    own_rows = user_rows_of(_named(result))
    said = verdict(result)
    # the answer has the first
    more_offers = map(offer_sentence, result.offers[1:])
    answer, shown = headline(result, tail(result, layers_sentence(result.ground)))
    readings = readings_block(result.readings)
    lists: list[tuple[str, Sequence[str]]] = [
        ("Conclusions", (*said[shown:], *more_offers, *conclusions(result))),
        ("Different assumptions", basis_lines(result.ground, _ranks(result))),
        ("Measured rows of your own", tuple(own_rows)),
        ("Assumed in the fabric's file", tuple(assumed_of(_named(result)))),
    ]
    above = height(answer) + 2 * len(readings)
    one_question = len({(line.primitive, line.ranks) for line in result.lines}) == 1
    return [
        Headline(answer),
        _table_for_people(result)._replace(first=rows_that_fit(above), spread=one_question),
        *readings,
        *lists_that_fit(lists, above, len(result.lines)),
        *listed("Notes", _notes(result), first=0),
        *listed("Not priced", reasons, first=0),
    ]


def conclusions(result: Comparison) -> list[str]:
    """Values that make no difference, with the reason, and what turns the order."""
    lines = []
    for finding in result.findings:
        lines += _no_difference(result, finding)
    return list(dict.fromkeys([*lines, *_one_port_lines(result)]))


def cell_intervals(cells: Sequence[Cell]) -> str:
    """Narrowest and widest interval of cells; empty without any."""
    priced = [cell for cell in cells if cell.total_s]
    return within_several(
        (cell.interval, cell.total_s or 0.0) for cell in priced if cell.interval is not None
    )


def _notes(result: Comparison) -> Iterator[str]:
    for index, column in enumerate(result.columns):
        not_run = result.not_run(index)
        if not_run:
            some = ""
            if len(not_run) < len(result.lines):
                some = f"{len(not_run)} of {counted(len(result.lines), 'row')}, "
            yield f"{column.name}: {some}{running(result.libraries[index], leads=False)}"
        for line in extrapolated_notes([line.cells[index] for line in result.lines]):
            yield f"{column.name}: {line}"


def verdict(result: Comparison) -> tuple[str, ...]:
    """A sentence on each question, a collective and rank counts: who wins, or that nobody does."""
    return tuple(verdict_sentence(result, question) for question in result.verdicts)


def _one_port_lines(result: Comparison) -> list[str]:
    """Such as ``All-to-all at 1KB: if a GPU can drive only one port at a time, nvl72 has the
    shorter time``."""
    turned: dict[tuple[Primitive, str], list[OnePortWinner]] = {}
    for winner in result.turned:
        turned.setdefault((winner.primitive, winner.column), []).append(winner)
    option = localize(argument_text("ports", "one"))
    condition = f"if a rank can drive only one port at a time ({option})"
    lines = []
    for (primitive, column), winners in turned.items():
        where = f"{sentence(primitive.label)}{_where_turned(result, primitive, winners)}"
        lines.append(f"{where}: {condition}, {column} has the shorter time")
    return lines


def _where_turned(
    result: Comparison, primitive: Primitive, winners: Sequence[OnePortWinner]
) -> str:
    """Such as `` on 64 ranks at 1MB, 16MB``. Empty where it is so on all ranks and at all sizes."""
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


def _no_difference(result: Comparison, finding: ColumnDifference) -> list[str]:
    """Why the values of a column make no difference to the time, where a value of the fabric is
    the reason."""
    reasons: dict[str, None] = {}
    for run in finding.runs:
        for why in run.why:
            if why.key and why.reason != "small":
                reasons[_reason(why)] = None
    if not reasons:
        return []
    ranks = ""
    if finding.ranks != _ranks(result):
        counts = span_text(str(finding.ranks[0]), str(finding.ranks[-1]))
        ranks = f" on {counts} ranks"
    what = f"{finding.primitive.label}{ranks}"
    some = "" if all(run.outcome == "same" for run in finding.runs) else " at some sizes"
    return [f"{finding.column} makes no difference to {what}{some}: {'; '.join(reasons)}"]


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
            return f"too few messages of {why.algorithm} cross {level} at the same time"
        case "unpaid":
            if not why.key:
                return f"{why.algorithm} takes as long on both"
            return f"{why.algorithm}, the fastest, does not depend on {why.key}"
        case "small":
            return f"at most {percent(why.most)}"
        case _:
            assert_never(why.reason)


def _summary(result: Comparison) -> str:
    return "; ".join((*verdict(result), *basis_summary(result.ground)))


# --- notes on cells beyond what was measured

_NOT_MEASURED = " was not measured "


def _overhead(note: str) -> str:
    """What a note on extrapolated software time is about: ``NCCL overhead of ring``."""
    what = note.partition(_NOT_MEASURED)[0]
    return what.removeprefix("what ").replace(" takes beside the bytes of ", " overhead of ")


def extrapolated_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Notes on cells beyond the measured sizes or ranks, which use the nearest measurement of
    software time."""
    by_text = Counter(_overhead(cell.extrapolated) for cell in cells if cell.extrapolated)
    every = counted(sum(cell.algorithm is not None for cell in cells), "point")
    return tuple(
        f"{count} of {every}: {what} was not measured at these sizes or ranks, nearest measurement"
        " used"
        for what, count in by_text.items()
    )


# --- documents


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


def _values(line: CompareLine) -> Iterator[dict[str, Any]]:
    for index, cell in enumerate(line.cells):
        ends = line.ratio_interval(index)
        yield ValueDocument.of(
            cell,
            ratio=line.ratio(index),
            lower_bound=line.is_bound(index),
            ratio_interval=ends and RatioInterval(*ends, SHARE),
        )


class ClassDocument(Document, of=SizeBand):
    """Sizes with one verdict, and the ratios of the others to the winner, or to the fastest."""

    call: str = derived("kind")
    winner: str | None = derived(lambda size_class: size_class.winner or None)
    from_bytes: float
    to_bytes: float
    rivals: list[RivalRatio]


def _classes(verdict: QuestionVerdict) -> tuple[SizeBand, ...]:
    """The size classes with a winner, then all other sizes."""
    return verdict.claims if verdict.rest is None else (*verdict.claims, verdict.rest)


class QuestionDocument(Document, of=QuestionVerdict):
    """The verdict on a collective and rank counts: a winner where one class holds all sizes."""

    primitive: str
    ranks: list[int]
    winner: str | None = derived("winner")
    classes: list[ClassDocument] = derived(_classes)
    cannot_run: list[str] = derived("idle")


def _overrides_of(change: Fitted) -> dict[str, str]:
    return dict(text.split("=", 1) for text in change.overrides)


class FittedDocument(Document, of=Fitted):
    """How a fabric differs from its file, so that it holds the ranks."""

    nodes: int | None
    per_rack: int | None
    set: dict[str, str] = derived(_overrides_of)


def _fitted(column: CompareColumn) -> Any:
    """How a column's fabric was grown, left out where it was not."""
    return column.fitted if column.fitted.overrides else LEFT_OUT


class LineDocument(Document, of=CompareLine):
    """All columns at a primitive, number of ranks and size."""

    primitive: str
    ranks: int
    bytes: float = derived(whole_size)
    values: list[ValueDocument] = derived(_values)
    call: str = derived(lambda line: line.verdict().kind)


class ColumnDocument(Document, of=CompareColumn):
    """A fabric with what was set, and the machine in use."""

    name: str
    fabric: str
    set: dict[str, str] = derived(lambda column: dict(column.set))
    fitted: FittedDocument | None = optional(_fitted)
    fabric_assumed: list[str] = optional(lambda column: assumed_with(column.set))
    machine: MachineDocument | None = optional(lambda column: machine_of(column.set))


def _primitives(result: Comparison) -> Any:
    """The primitive, or a list of several."""
    primitives = tuple(dict.fromkeys(line.primitive for line in result.lines))
    return primitives[0] if len(primitives) == 1 else primitives


class CompareDocument(Document):
    """Fabrics side by side."""

    primitive: str | list[str] = derived(_primitives)
    mode: str = derived(ideal_or_realistic)
    model: ModelDocument = derived(model_echo)
    columns: list[ColumnDocument]
    rows: list[LineDocument] = derived("lines")
    verdict: list[str] = derived(verdict)
    conclusions: list[str] = derived(conclusions)
    questions: list[QuestionDocument] = derived("verdicts")
    offers: list[RanksOffer]
    ranks_taken: int | None = derived("taken")
    findings: list[ColumnDifference]
    ground: list[BasisDocument]
    turned_on_one_port: list[OnePortWinner] = derived("turned")


VIEWS = {Comparison: View("compare", _blocks, CompareDocument.of, _table, _summary, chart=_chart)}
