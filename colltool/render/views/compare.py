"""``compare``: fabrics side by side, who wins, and ratios to the first.

Read from :data:`VIEWS`: :func:`_blocks` is the screen under the headline of
:mod:`colltool.render.verdicts`, :func:`_table` the rows of CSV; documents come last. Conclusions beside
the verdicts are in :mod:`colltool.render.views.compare_conclusions`, what prices assume differently in
:mod:`colltool.render.assumption_differences`.

A line is a collective, rank count and size; its ``cells`` are in the order of the result's ``columns``, the
fabrics. A cell without a price has a ``reason``, and None for its numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from colltool.analysis.cells import Cell
from colltool.analysis.compare import CompareColumn, Comparison, RanksOffer
from colltool.analysis.fitted import Fitted
from colltool.analysis.outcomes import (
    ColumnDifference,
    CompareLine,
    OnePortWinner,
    VerdictKind,
)
from colltool.analysis.winners import QuestionVerdict, RivalRatio, SizeBand
from colltool.base.formatting import counted, format_factor, title_size
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
)
from colltool.render.busbw_chart import BusbwChart, curves
from colltool.render.dispatch import View, listed
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.estimates import ModelDocument, library_in_title, readings_block
from colltool.render.first_screen import height, lists_that_fit, rows_that_fit
from colltool.render.fitted_words import offer_sentence
from colltool.render.intervals import IntervalDocument, no_cell_interval, within_several
from colltool.render.shared_documents import (
    MachineDocument,
    assumed_with,
    ideal_or_realistic,
    machine_of,
    model_echo,
    whole_size,
)
from colltool.render.verdicts import closing_sentences, headline, verdict_sentence
from colltool.render.views.compare_conclusions import conclusions, rank_counts

# --- the table


_POINT: Columns[CompareLine] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    number("ranks"),
    number("bytes", "size", title_size, whole=True),
)


def _cell(line: CompareLine, index: int, name: str) -> Any:
    """An attribute of the cell of a column, by the column's index."""
    return attribute_at(line.cells[index], name)


def _columns(result: Comparison, *, people: bool) -> Iterator[Column[CompareLine]]:
    """Four columns for each fabric (time, ratio to the first, busbw, algorithm; three for the first, which has
    no ratio), and the winner.

    Args:
        people: whether for people, who see the library's names, and a word where nobody wins.
    """
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
            # of a narrow table the last fabric's goes first
            drop=3 + index,
            get=partial(cell, name="known_as" if people else "algorithm"),
            hidden=people and _same_algorithms(result, index),
        )
    names = [column.name for column in result.columns]
    winner = partial(_winner_or_verdict if people else _winner, names=names)
    yield label("winner", drop=2, fold=12, get=winner)


def runs_title(cells: Iterable[Cell]) -> str:
    """The title of a column of algorithms: what the library runs is not always the fastest."""
    return "runs" if any(cell.picked for cell in cells) else "fastest"


def _winner(line: CompareLine, names: Sequence[str]) -> str | None:
    """The name of the column that wins at a point; None where none does."""
    winner = line.winner()
    return None if winner is None else names[winner]


# the verdicts that a table says in place of a winner; of the others the cells speak for themselves
_WITHOUT_WINNER: dict[VerdictKind, str] = {
    "behind": "too close",
    "close": "too close",
    "same": "same",
}


def _winner_or_verdict(line: CompareLine, names: Sequence[str]) -> str | None:
    return _winner(line, names) or _WITHOUT_WINNER.get(line.verdict().kind, "")


def _same_algorithms(result: Comparison, index: int) -> bool:
    """Whether the algorithms of a fabric are in every row those of the fabric before."""
    return index > 0 and all(
        line.cells[index].algorithm == line.cells[index - 1].algorithm for line in result.lines
    )


def _table(result: Comparison) -> Table:
    """A row for each collective, rank count and size."""
    return Table((*_POINT, *_columns(result, people=False)), result.lines)


def _table_for_people(result: Comparison) -> Table:
    """The table that people see, without columns that say the same in every row."""
    table = Table((*_POINT, *_columns(result, people=True)), result.lines)
    # what is the same in every row stands in the answer
    for key in ("primitive", "ranks"):
        if len({getattr(line, key) for line in result.lines}) == 1:
            table = table.without(key)
    return table


def _chart(result: Comparison) -> BusbwChart:
    """Bus bandwidth of each column, for the first primitive and number of ranks."""
    primitive = result.lines[0].primitive
    ranks = result.lines[0].ranks
    points = []
    for line in result.lines:
        if (line.primitive, line.ranks) != (primitive, ranks):
            continue
        for column, cell in zip(result.columns, line.cells, strict=True):
            if cell.busbw_Bps:
                points.append((column.name, line.bytes, cell.busbw_Bps))
    return BusbwChart(f"{primitive.label}, {ranks} ranks", curves(points))


# --- the answer


def _names_and_overrides(result: Comparison) -> list[tuple[str, Overrides]]:
    """The columns by name, with what was set and what their files assume."""
    return [(column.name, column.set) for column in result.columns]


def _blocks(result: Comparison) -> list[Block]:
    """The answer, the table, then lists; without ``--all`` as much as a terminal of the usual size
    has room for."""
    reasons: dict[str, None] = {}
    for line in result.lines:
        for column, cell in zip(result.columns, line.cells, strict=True):
            if cell.reason:
                reasons[f"{column.name}: {cell.reason}"] = None
    closing = closing_sentences(result, layers_sentence(result.ground))
    answer, verdicts_in_answer = headline(result, closing)
    more_verdicts = verdict(result)[verdicts_in_answer:]
    # the answer has the first
    more_offers = map(offer_sentence, result.offers[1:])
    readings = readings_block(result.readings)
    overrides = _names_and_overrides(result)
    lists: list[tuple[str, Sequence[str]]] = [
        ("Conclusions", (*more_verdicts, *more_offers, *conclusions(result))),
        ("Different assumptions", basis_lines(result.ground, rank_counts(result))),
        ("Measured rows of your own", tuple(user_rows_of(overrides))),
        ("Assumed in the fabric's file", tuple(assumed_of(overrides))),
    ]
    # each of these blocks is a line and a blank
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


def cell_intervals(cells: Sequence[Cell]) -> str:
    """The narrowest and the widest interval of cells in words; empty without any."""
    priced = [cell for cell in cells if cell.total_s]
    return within_several(
        (cell.interval, cell.total_s or 0.0) for cell in priced if cell.interval is not None
    )


def _notes(result: Comparison) -> Iterator[str]:
    """For each column, at how many points its library implements no algorithm, and at how many the
    nearest measurement of its overhead was used."""
    for index, column in enumerate(result.columns):
        not_run = result.not_run(index)
        if not_run:
            points = ""
            if len(not_run) < len(result.lines):
                points = f"{len(not_run)} of {counted(len(result.lines), 'row')}, "
            yield f"{column.name}: {points}{library_in_title(result.libraries[index], leads=False)}"
        for note in extrapolated_notes([line.cells[index] for line in result.lines]):
            yield f"{column.name}: {note}"


def verdict(result: Comparison) -> tuple[str, ...]:
    """A sentence on each question (a collective and its rank counts): who wins, or that nobody does."""
    return tuple(verdict_sentence(result, question) for question in result.verdicts)


def _summary(result: Comparison) -> str:
    return "; ".join((*verdict(result), *basis_summary(result.ground)))


# --- notes on cells beyond what was measured


def _overhead_name(note: str) -> str:
    """What a note on extrapolated software time is about: ``NCCL overhead of ring``.

    The note is a sentence of ``colltool.estimate``, which begins with ``what NCCL takes beside the bytes of
    ring was not measured``.
    """
    subject = note.partition(" was not measured ")[0]
    return subject.removeprefix("what ").replace(" takes beside the bytes of ", " overhead of ")


def extrapolated_notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Notes on cells beyond the measured sizes or ranks, which use the nearest measurement of
    software time."""
    by_name = Counter(_overhead_name(cell.extrapolated) for cell in cells if cell.extrapolated)
    priced_points = counted(sum(cell.algorithm is not None for cell in cells), "point")
    return tuple(
        f"{count} of {priced_points}: {overhead} was not measured at these sizes or ranks, nearest"
        " measurement used"
        for overhead, count in by_name.items()
    )


# --- documents


class RatioInterval(NamedTuple):
    """Where nine of ten measured ratios to the first column lie."""

    low: float
    high: float
    share: float


class ValueDocument(Document):
    """The fastest of a column at a point; ``ratio``: its time over the first column's."""

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
    """The cells of a line, each with its ratio to the first."""
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
    """The size classes with a winner, then that of all other sizes, if there are any."""
    return verdict.claims if verdict.rest is None else (*verdict.claims, verdict.rest)


class QuestionDocument(Document, of=QuestionVerdict):
    """The verdict on a collective and rank counts: a winner where one class holds all sizes."""

    primitive: str
    ranks: list[int]
    winner: str | None = derived("winner")
    classes: list[ClassDocument] = derived(_classes)
    cannot_run: list[str] = derived("idle")


def _overrides_of(change: Fitted) -> dict[str, str]:
    """``{"ib.size": "144"}`` of ``ib.size=144``."""
    return dict(text.split("=", 1) for text in change.overrides)


class FittedDocument(Document, of=Fitted):
    """How a fabric differs from its file, so that it holds the ranks."""

    nodes: int | None
    per_rack: int | None
    set: dict[str, str] = derived(_overrides_of)


def _growth(column: CompareColumn) -> Any:
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
    fitted: FittedDocument | None = optional(_growth)
    fabric_assumed: list[str] = optional(lambda column: assumed_with(column.set))
    machine: MachineDocument | None = optional(lambda column: machine_of(column.set))


def _primitives(result: Comparison) -> Any:
    """The primitive; a list where there are several."""
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
