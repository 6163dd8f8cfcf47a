"""``report``: its title, the answers and commands of its exhibits; and the provenance of a fabric's
numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

from colltool.analysis.report import Assumptions, Exhibit, Report, ReportSection
from colltool.base.errors import either, localize
from colltool.base.formatting import format_bit_energy, format_bytes, format_length
from colltool.base.primitives import Primitive
from colltool.fabric.library import Efficiency
from colltool.fabric.provenance import Provenance
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label
from colltool.render.dispatch import View, document, listed, summary
from colltool.render.documents import Document, derived, or_null
from colltool.render.estimates import ModelDocument
from colltool.render.shared_documents import FabricFileDocument, OnFabricDocument, model_echo, whole
from colltool.render.views.fabric_parts import reached_text
from colltool.render.views.report_costs import BoughtDocument, cost_sentences, cost_table
from colltool.render.views.report_decision import answers, chart_of, reference_point, report_title
from colltool.render.views.report_risks import risks
from colltool.render.views.sensitivity import quantity

# of the first screen
_VERDICT_ROWS = 5
_MOST_RISKS = 1  # shown without --all
_WRAPPED = 74  # letters of a line in a list on 80 columns
_SHOWN: dict[str, Callable[[float], str]] = {
    "cable": format_length,
    "energy": format_bit_energy,
    "smallest": format_bytes,
    "largest": format_bytes,
}


def _blocks(result: Report) -> list[Block]:
    written = localize(either(shell="-o report.html", python="to_html()"))
    costs = cost_table(result)
    # the table has what a price gives; without any the sentence says what to type
    priced = any(column.key == "total_cost" for column in costs.shown)
    verdict = list(answers(result))
    out: list[Block] = [
        Headline(f"{report_title(result)}."),
        *listed("verdict", verdict, first=_on_first_screen(verdict)),
        costs if priced else costs._replace(first=0),
        *listed("cost", cost_sentences(result), first=0 if priced else 1),
        *listed("risk", risks(result), first=_MOST_RISKS),
        Lines(f"{reference_point(result)}. The page to hand over: {written}", ()),
    ]
    for section in result.sections:
        lines = []
        for exhibit in section.exhibits:
            lines.append(f"{exhibit.title}:")
            lines += [f"  {command}" for command in exhibit.commands]
        out.append(Lines(section.title, tuple(lines), verbatim=True, first=0))
    return out


def _on_first_screen(lines: Sequence[str]) -> int:
    """How many lines of the verdict the first screen has room for, at least one."""
    rows = 0
    for at, line in enumerate(lines):
        rows += ceil(len(line) / _WRAPPED)
        if rows > _VERDICT_ROWS:
            return max(1, at)
    return len(lines)


class _PlacedExhibit(NamedTuple):
    """An exhibit, and the section that it belongs to."""

    section: ReportSection
    exhibit: Exhibit


def _in_a_line(exhibit: Exhibit) -> str:
    return summary(exhibit.result).replace("\n", "; ")


_EXHIBITS: Columns[_PlacedExhibit] = (
    label("section", path="section.title"),
    label("title", path="exhibit.title"),
    label("summary", "what follows", get=lambda line: _in_a_line(line.exhibit)),
    label("commands", "command", get=lambda line: " && ".join(line.exhibit.commands)),
)


def _table(result: Report) -> Table:
    lines = []
    for section in result.sections:
        lines += [_PlacedExhibit(section, exhibit) for exhibit in section.exhibits]
    return Table(_EXHIBITS, tuple(lines))


# --- the document


class ReportedFabricDocument(OnFabricDocument):
    """A fabric of the page."""

    fabric: str = derived("name")


def _cost_rows(result: Report) -> list[dict[str, Any]]:
    """The table of costs, by the keys of its columns."""
    costs = cost_table(result)
    rows = []
    for row in costs.records:
        rows.append({column.key: column.value(row) for column in costs.columns})
    return rows


def _chart_title(result: Report) -> str | None:
    chart = chart_of(result)
    return chart and chart.title


class DecisionDocument(Document):
    """The verdict, what it costs and what it risks."""

    title: str = derived(report_title)
    answer: str = derived(lambda result: next(answers(result), ""))
    chart: str | None = derived(_chart_title)
    cost: list[BoughtDocument] = derived(_cost_rows)
    cost_in_words: list[str] = derived(lambda result: tuple(cost_sentences(result)))
    risks: list[str] = derived(lambda result: tuple(risks(result)))


class ExhibitResultDocument(Document, open=True):
    """The document of another command."""

    schema: str
    colltool: str


class ExhibitDocument(Document, of=Exhibit):
    """A result, and the commands that print it."""

    title: str
    summary: str = derived(_in_a_line)
    commands: list[str]
    result: ExhibitResultDocument = derived(lambda exhibit: document(exhibit.result))


class SectionDocument(Document, of=ReportSection):
    """Results that answer one question."""

    section: str = derived("key")
    title: str
    exhibits: list[ExhibitDocument]


class ReportDocument(Document):
    """A page about a fabric."""

    fabrics: list[ReportedFabricDocument] = derived(
        lambda result: list(map(ReportedFabricDocument.of, result.fabrics))
    )
    ranks: int
    bytes: float = whole("bytes")
    verdict: list[str] = derived(lambda result: tuple(answers(result)))
    decision: DecisionDocument = derived(DecisionDocument.of)
    sections: list[SectionDocument]


def _summary(result: Report) -> str:
    return "\n".join((report_title(result), *answers(result)))


def _page(result: Report) -> str:
    # here, as the page imports this module for its title
    from colltool.render.page import report_page

    return report_page(result)


_STATED: Columns[Provenance] = (
    label("key", "number"),
    label("value", get=lambda entry: _value(entry.key, entry.value)),
    label("source", get=lambda entry: entry.source or "the file does not say"),
)


def _value(key: str, value: Any) -> str:
    """A number or word of a file as people read it."""
    if isinstance(value, Efficiency):
        return reached_text(value)
    # before numbers: a bool is an int to Python
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{_value(key, name)} {_value(key, item)}" for name, item in value.items())
    if isinstance(value, tuple):
        between = " x " if key.endswith("shape") else ", "
        return between.join(_value(key, item) for item in value)
    if isinstance(value, float):
        show = _SHOWN.get(key.rpartition(".")[2])
        return show(value) if show else quantity(key, value)
    return value.label if isinstance(value, Primitive) else str(value)


def _assumed_blocks(result: Assumptions) -> list[Block]:
    words = [f"{reading}={value}" for reading, value in result.readings._asdict().items()]
    if result.library:
        words.insert(0, f"library={result.library}")
    title = f"{result.fabric.name}: numbers of its file, and where they come from"
    read = (", ".join(words), "colltool guide model says what each does")
    return [_assumed_table(result)._replace(title=title), Lines("how the model was read", read)]


def _assumed_table(result: Assumptions) -> Table:
    return Table(_STATED, result.stated)


def _plain_value(entry: Provenance) -> Any:
    """A number or word as it is, lists and tables as people read them."""
    if isinstance(entry.value, float | int | bool | str):
        return entry.value
    return _value(entry.key, entry.value)


class ProvenanceDocument(Document, of=Provenance):
    """A number or word of a fabric's file, and where it comes from."""

    key: str
    value: float | bool | str = derived(_plain_value)
    source: str | None = or_null("source")


class AssumptionsDocument(FabricFileDocument):
    """What the prices of a fabric rest on."""

    stated: list[ProvenanceDocument]
    library: str | None = or_null("library")
    model: ModelDocument = derived(model_echo)


def _assumed_summary(result: Assumptions) -> str:
    sourced = sum(bool(entry.source) for entry in result.stated)
    return f"{result.fabric.name}: {len(result.stated)} numbers and words, {sourced} with a source"


VIEWS = {
    Report: View("report", _blocks, ReportDocument.of, _table, _summary, _page),
    Assumptions: View(
        "assumptions", _assumed_blocks, AssumptionsDocument.of, _assumed_table, _assumed_summary
    ),
}
