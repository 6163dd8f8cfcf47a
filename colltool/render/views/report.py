"""``report`` on the screen and as JSON: its verdict, costs, risks and exhibits, whose words are in the
modules ``report_*``; and the provenance of a fabric's numbers, which is one of its exhibits.

:data:`VIEWS`, at the end, names what is read for each. A section answers one question by exhibits: results
with the commands that print them.
"""

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
from colltool.render.views.report_decision import answers, chart_of, report_title
from colltool.render.views.report_reference import reference_point
from colltool.render.views.report_risks import risks
from colltool.render.views.sensitivity import quantity

# of the first screen, without --all
_VERDICT_ROWS = 5  # rows of the terminal
_MOST_RISKS = 1  # sentences
_LINE_WIDTH = 74  # letters of a line in a list on a terminal of 80 columns


# --- a report


def _blocks(report: Report) -> list[Block]:
    """Verdict, cost and risk, each as far as a first screen has room; then the exhibits with their commands."""
    page = localize(either(shell="-o report.html", python="to_html()"))
    costs = cost_table(report)
    is_priced = any(column.key == "total_cost" for column in costs.shown)
    if is_priced:
        cost_lines = 0
    else:
        # no amounts for the table: instead the first sentence, which says what to type
        costs = costs._replace(first=0)
        cost_lines = 1
    verdict = list(answers(report))
    blocks: list[Block] = [
        Headline(f"{report_title(report)}."),
        *listed("verdict", verdict, first=_lines_that_fit(verdict)),
        costs,
        *listed("cost", cost_sentences(report), first=cost_lines),
        *listed("risk", risks(report), first=_MOST_RISKS),
        Lines(f"{reference_point(report)}. The page to hand over: {page}", ()),
    ]
    for section in report.sections:
        lines = []
        for exhibit in section.exhibits:
            lines.append(f"{exhibit.title}:")
            lines += [f"  {command}" for command in exhibit.commands]
        blocks.append(Lines(section.title, tuple(lines), verbatim=True, first=0))
    return blocks


def _lines_that_fit(verdict: Sequence[str]) -> int:
    """How many lines of the verdict the first screen has room for, at least one if there is any."""
    rows = 0
    for count, line in enumerate(verdict):
        rows += ceil(len(line) / _LINE_WIDTH)
        if rows > _VERDICT_ROWS:
            return max(1, count)
    return len(verdict)


class _PlacedExhibit(NamedTuple):
    """An exhibit, and the section that it belongs to."""

    section: ReportSection
    exhibit: Exhibit


def _one_line_summary(exhibit: Exhibit) -> str:
    """The summary of a result, of one line or more, as one."""
    return summary(exhibit.result).replace("\n", "; ")


_EXHIBITS: Columns[_PlacedExhibit] = (
    label("section", path="section.title"),
    label("title", path="exhibit.title"),
    label("summary", "what follows", get=lambda placed: _one_line_summary(placed.exhibit)),
    label("commands", "command", get=lambda placed: " && ".join(placed.exhibit.commands)),
)


def _table(report: Report) -> Table:
    """A row for each exhibit, for CSV."""
    exhibits = []
    for section in report.sections:
        exhibits += [_PlacedExhibit(section, exhibit) for exhibit in section.exhibits]
    return Table(_EXHIBITS, tuple(exhibits))


# --- the document


class ReportedFabricDocument(OnFabricDocument):
    """A fabric of the page."""

    fabric: str = derived("name")


def _cost_rows(report: Report) -> list[dict[str, Any]]:
    """The table of costs, by the keys of its columns, those without a value among them."""
    costs = cost_table(report)
    rows = []
    for row in costs.records:
        rows.append({column.key: column.value(row) for column in costs.columns})
    return rows


def _chart_title(report: Report) -> str | None:
    chart = chart_of(report)
    return chart and chart.title


class DecisionDocument(Document):
    """The verdict, what it costs and what it risks."""

    title: str = derived(report_title)
    answer: str = derived(lambda report: next(answers(report), ""))
    chart: str | None = derived(_chart_title)
    cost: list[BoughtDocument] = derived(_cost_rows)
    cost_in_words: list[str] = derived(lambda report: tuple(cost_sentences(report)))
    risks: list[str] = derived(lambda report: tuple(risks(report)))


class ExhibitResultDocument(Document, open=True):
    """The document of another command: these two keys, and that command's own."""

    schema: str
    colltool: str


class ExhibitDocument(Document, of=Exhibit):
    """A result, and the commands that print it."""

    title: str
    summary: str = derived(_one_line_summary)
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
        lambda report: list(map(ReportedFabricDocument.of, report.fabrics))
    )
    ranks: int
    bytes: float = whole("bytes")
    verdict: list[str] = derived(lambda report: tuple(answers(report)))
    decision: DecisionDocument = derived(DecisionDocument.of)
    sections: list[SectionDocument]


def _summary(report: Report) -> str:
    return "\n".join((report_title(report), *answers(report)))


def _page(report: Report) -> str:
    # not at the top: the page imports other views, which need not be loaded for the screen
    from colltool.render.page import report_page

    return report_page(report)


# --- a fabric's numbers, and where they come from


_STATED: Columns[Provenance] = (
    label("key", "number"),
    label("value", get=lambda entry: _value_text(entry.key, entry.value)),
    label("source", get=lambda entry: entry.source or "the file does not say"),
)


# of numbers whose key does not end in a unit that `quantity` knows
_SHOW_BY_KEY: dict[str, Callable[[float], str]] = {
    "cable": format_length,
    "energy": format_bit_energy,
    "smallest": format_bytes,
    "largest": format_bytes,
}


def _value_text(key: str, value: Any) -> str:
    """A number or word of a file as people read it: its ``key`` says the unit."""
    if isinstance(value, Efficiency):
        return reached_text(value)
    # before numbers: a bool is an int to Python
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(
            f"{_value_text(key, word)} {_value_text(key, item)}" for word, item in value.items()
        )
    if isinstance(value, tuple):
        between = " x " if key.endswith("shape") else ", "
        return between.join(_value_text(key, item) for item in value)
    if isinstance(value, float):
        show = _SHOW_BY_KEY.get(key.rpartition(".")[2])
        return show(value) if show else quantity(key, value)
    return value.label if isinstance(value, Primitive) else str(value)


def _assumed_blocks(assumed: Assumptions) -> list[Block]:
    """The numbers of a fabric's file with their sources, and the model options."""
    options = [f"{option}={value}" for option, value in assumed.readings._asdict().items()]
    if assumed.library:
        options.insert(0, f"library={assumed.library}")
    title = f"{assumed.fabric.name}: numbers of its file, and where they come from"
    lines = (", ".join(options), "colltool guide model says what each does")
    return [_assumed_table(assumed)._replace(title=title), Lines("how the model was read", lines)]


def _assumed_table(assumed: Assumptions) -> Table:
    return Table(_STATED, assumed.stated)


def _plain_value(entry: Provenance) -> Any:
    """A number or word as it is, lists and tables as people read them."""
    if isinstance(entry.value, float | int | bool | str):
        return entry.value
    return _value_text(entry.key, entry.value)


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


def _assumed_summary(assumed: Assumptions) -> str:
    sourced = sum(bool(entry.source) for entry in assumed.stated)
    return (
        f"{assumed.fabric.name}: {len(assumed.stated)} numbers and words, {sourced} with a source"
    )


VIEWS = {
    Report: View("report", _blocks, ReportDocument.of, _table, _summary, _page),
    Assumptions: View(
        "assumptions", _assumed_blocks, AssumptionsDocument.of, _assumed_table, _assumed_summary
    ),
}
