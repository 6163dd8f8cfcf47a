"""``report``: its title, the answers and commands of its exhibits; and the provenance of a fabric's
numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from colltool.analysis.report import Assumptions, Report
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
    name, (first, *others) = result.fabrics[0].name, result.titles
    own = name if first == name or not others else f"{name} with {first.removeprefix(name).strip()}"
    against = f" against {', '.join(others)}" if others else ""
    return (
        f"{own}{against}, looked at closely on {result.ranks} ranks at {title_size(result.bytes)}"
    )


def _blocks(result: Report) -> list[Block]:
    first, *others = (*answers(result), report_title(result))
    written = said(either(shell="-o report.html", python="to_html()"))
    out: list[Block] = [Headline(first), *listed("in short", others, first=_MOST_LINES)]
    out += [
        cost_table(result),
        *listed("prices", filter(None, [unpriced(result)])),
        *listed("what it risks", risks(result)),
    ]
    out.append(Lines(f"its pictures and tables on one page: {written}", ()))
    for section in result.sections:
        lines = [
            line
            for exhibit in section.exhibits
            for line in (f"{exhibit.title}:", *(f"  {command}" for command in exhibit.commands))
        ]
        out.append(Lines(section.title, tuple(lines), verbatim=True, first=0))
    return out


_EXHIBITS = (
    label("section", "section", get=lambda line: line[0].title),
    label("title", "title", get=lambda line: line[1].title),
    label("summary", "what follows", get=lambda line: summary(line[1].result).replace("\n", "; ")),
    label("commands", "command", get=lambda line: " && ".join(line[1].commands)),
)


def _table(result: Report) -> Table:
    return Table(
        _EXHIBITS,
        tuple((section, exhibit) for section in result.sections for exhibit in section.exhibits),
    )


def _document(result: Report) -> Document:
    sections = []
    for section in result.sections:
        exhibits = [
            {
                "title": exhibit.title,
                "summary": summary(exhibit.result).replace("\n", "; "),
                "commands": list(exhibit.commands),
            }
            | {"result": document(exhibit.result)}
            for exhibit in section.exhibits
        ]
        sections.append({"section": section.key, "title": section.title, "exhibits": exhibits})
    fabrics = [{"fabric": fabric.name} | set_field(fabric.overrides) for fabric in result.fabrics]
    asked = {"fabrics": fabrics, "ranks": result.ranks, "bytes": whole_bytes(result.bytes)}
    return asked | {
        "verdict": list(answers(result)),
        "decision": _decision(result),
        "sections": sections,
    }


def _decision(result: Report) -> Document:
    chart, costs = chart_of(result), cost_table(result)
    rows = [{column.key: column.value(row) for column in costs.columns} for row in costs.records]
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
    label("value", "value", get=lambda row: _value(row.key, row.value)),
    label("source", "source", get=lambda row: row.source or "the file does not say"),
)


def _value(key: str, value: Any) -> str:
    if isinstance(value, Efficiency):
        return reached_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{_value(key, name)} {_value(key, item)}" for name, item in value.items())
    if isinstance(value, tuple):
        return (" x " if key.endswith("shape") else ", ").join(_value(key, item) for item in value)
    if isinstance(value, float):
        show = _SHOWN.get(key.rsplit(".", 1)[-1])
        return show(value) if show else quantity(key, value)
    return value.spoken if isinstance(value, Primitive) else str(value)


def _assumed_blocks(result: Assumptions) -> list[Block]:
    told = [f"library={result.library}"] if result.library else []
    told += [f"{name}={value}" for name, value in result.readings._asdict().items()]
    title = f"{result.fabric.name}: numbers of its file, and where they come from"
    read = (", ".join(told), "colltool guide model says what each does")
    return [_assumed_table(result)._replace(title=title), Lines("how the model was read", read)]


def _assumed_table(result: Assumptions) -> Table:
    return Table(_STATED, result.stated)


def _assumed_document(result: Assumptions) -> Document:
    rows = []
    for entry in result.stated:
        value = (
            entry.value
            if isinstance(entry.value, float | int | bool | str)
            else _value(entry.key, entry.value)
        )
        rows.append({"key": entry.key, "value": value, "source": entry.source or None})
    head = {"fabric": result.fabric.name, **set_field(result.fabric.overrides)}
    return head | {
        "stated": rows,
        "library": result.library or None,
        "model": result.readings.echo(),
    }


def _assumed_summary(result: Assumptions) -> str:
    unsaid = sum(not entry.source for entry in result.stated)
    return (
        f"{result.fabric.name}: {len(result.stated)} numbers and words,"
        f" {len(result.stated) - unsaid} with a source"
    )


VIEWS = {
    Report: View("report", _blocks, _document, _table, _summary, _page),
    Assumptions: View(
        "assumptions", _assumed_blocks, _assumed_document, _assumed_table, _assumed_summary
    ),
}
