"""``report``: its title, the answers and commands of its exhibits; and the provenance of a fabric's
numbers."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.analysis.report import Assumptions, Report, ReportEntry, ReportSection
from colltool.base.errors import either, said
from colltool.base.formatting import (
    format_bit_energy,
    format_bytes,
    format_length,
    title_size,
    whole_bytes,
)
from colltool.base.primitives import Primitive
from colltool.fabric.library import Efficiency
from colltool.render.blocks import Block, Headline, Lines, Table, label
from colltool.render.dispatch import Document, View, document, listed, set_field, summary
from colltool.render.views.fabric_parts import reached_text
from colltool.render.views.report_decision import answers, chart_of, cost_table, risks, unpriced
from colltool.render.views.sensitivity import quantity

_MOST_LINES = 12
_SHOWN: dict[str, Callable[[float], str]] = {
    "cable": format_length,
    "energy": format_bit_energy,
    "smallest": format_bytes,
    "largest": format_bytes,
}


def report_title(result: Report) -> str:
    name = result.fabrics[0].name
    first, *others = result.titles
    if others:
        if first != name:
            name += f" with {first.removeprefix(name).strip()}"
        name += f" against {', '.join(others)}"
    size = title_size(result.bytes)
    return f"{name}, looked at closely on {result.ranks} ranks at {size}"


def _blocks(result: Report) -> list[Block]:
    first, *others = (*answers(result), report_title(result))
    written = said(either(shell="-o report.html", python="to_html()"))
    out: list[Block] = [
        Headline(first),
        *listed("in short", others, first=_MOST_LINES),
        cost_table(result),
        *listed("prices", filter(None, [unpriced(result)])),
        *listed("what it risks", risks(result)),
        Lines(f"its pictures and tables on one page: {written}", ()),
    ]
    for section in result.sections:
        lines = []
        for exhibit in section.exhibits:
            lines.append(f"{exhibit.title}:")
            lines += [f"  {command}" for command in exhibit.commands]
        out.append(Lines(section.title, tuple(lines), verbatim=True, first=0))
    return out


class _PlacedExhibit(NamedTuple):
    """An exhibit, and the section that it belongs to."""

    section: ReportSection
    exhibit: ReportEntry


def _in_a_line(exhibit: ReportEntry) -> str:
    return summary(exhibit.result).replace("\n", "; ")


_EXHIBITS = (
    label("section", "section", get=attrgetter("section.title")),
    label("title", "title", get=attrgetter("exhibit.title")),
    label("summary", "what follows", get=lambda line: _in_a_line(line.exhibit)),
    label("commands", "command", get=lambda line: " && ".join(line.exhibit.commands)),
)


def _table(result: Report) -> Table:
    lines = []
    for section in result.sections:
        lines += [_PlacedExhibit(section, exhibit) for exhibit in section.exhibits]
    return Table(_EXHIBITS, tuple(lines))


def _document(result: Report) -> Document:
    sections = []
    for section in result.sections:
        exhibits = list(map(_exhibit, section.exhibits))
        sections.append({"section": section.key, "title": section.title, "exhibits": exhibits})
    return {
        "fabrics": [{"fabric": file.name, **set_field(file.overrides)} for file in result.fabrics],
        "ranks": result.ranks,
        "bytes": whole_bytes(result.bytes),
        "verdict": list(answers(result)),
        "decision": _decision(result),
        "sections": sections,
    }


def _exhibit(exhibit: ReportEntry) -> Document:
    return {
        "title": exhibit.title,
        "summary": _in_a_line(exhibit),
        "commands": list(exhibit.commands),
        "result": document(exhibit.result),
    }


def _decision(result: Report) -> Document:
    chart = chart_of(result)
    costs = cost_table(result)
    rows = []
    for row in costs.records:
        rows.append({column.key: column.value(row) for column in costs.columns})
    return {
        "answer": next(answers(result), ""),
        "chart": chart and chart.title,
        "cost": rows,
        "risks": list(risks(result)),
    }


def _summary(result: Report) -> str:
    return "\n".join((report_title(result), *answers(result)))


def _page(result: Report) -> str:
    from colltool.render.page import report_page  # it has the title of this module

    return report_page(result)


_STATED = (
    label("key", "number"),
    label("value", "value", get=lambda entry: _value(entry.key, entry.value)),
    label("source", "source", get=lambda entry: entry.source or "the file does not say"),
)


def _value(key: str, value: Any) -> str:
    """A number or word of a file as people read it."""
    if isinstance(value, Efficiency):
        return reached_text(value)
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
    return value.spoken if isinstance(value, Primitive) else str(value)


def _assumed_blocks(result: Assumptions) -> list[Block]:
    words = [f"{name}={value}" for name, value in result.readings._asdict().items()]
    if result.library:
        words.insert(0, f"library={result.library}")
    title = f"{result.fabric.name}: numbers of its file, and where they come from"
    read = (", ".join(words), "colltool guide model says what each does")
    return [_assumed_table(result)._replace(title=title), Lines("how the model was read", read)]


def _assumed_table(result: Assumptions) -> Table:
    return Table(_STATED, result.stated)


def _assumed_document(result: Assumptions) -> Document:
    rows = []
    for entry in result.stated:
        value = entry.value
        if not isinstance(value, float | int | bool | str):
            value = _value(entry.key, value)
        rows.append({"key": entry.key, "value": value, "source": entry.source or None})
    return {
        "fabric": result.fabric.name,
        **set_field(result.fabric.overrides),
        "stated": rows,
        "library": result.library or None,
        "model": result.readings.echo(),
    }


def _assumed_summary(result: Assumptions) -> str:
    sourced = sum(bool(entry.source) for entry in result.stated)
    return f"{result.fabric.name}: {len(result.stated)} numbers and words, {sourced} with a source"


VIEWS = {
    Report: View("report", _blocks, _document, _table, _summary, _page),
    Assumptions: View(
        "assumptions", _assumed_blocks, _assumed_document, _assumed_table, _assumed_summary
    ),
}
