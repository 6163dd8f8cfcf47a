"""``report``: the conclusions and commands of its exhibits; and the provenance of a fabric's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from colltool.analysis.report import Assumptions, Report, ReportEntry, ReportSection
from colltool.base.errors import either, said
from colltool.base.formatting import format_bit_energy, format_bytes, format_length, whole_bytes
from colltool.base.primitives import Primitive
from colltool.fabric.library import Efficiency
from colltool.fabric.variants import Provenance
from colltool.render.blocks import Block, Headline, Lines, Table, label
from colltool.render.dispatch import document, summary
from colltool.render.page import report_page
from colltool.render.summary import headlines, report_title
from colltool.render.view import Document, View, set_field
from colltool.render.views.fabric_parts import reached_text
from colltool.render.views.sweep import quantity

_MOST_LINES = 12
UNSAID = "the file does not say"
_SHOWN: dict[str, Callable[[float], str]] = {
    "cable": format_length,
    "energy": format_bit_energy,
    "smallest": format_bytes,
    "largest": format_bytes,
}


def _blocks(result: Report) -> list[Block]:
    first, *others = (*headlines(result), report_title(result))
    out: list[Block] = [Headline(first), *([Lines("in short", tuple(others), first=_MOST_LINES)] if others else [])]
    out.append(Lines(f"its pictures and tables on one page: {said(either(shell='-o report.html', python='to_html()'))}", ()))
    for section in result.sections:
        lines = [line for one in section.exhibits for line in (f"{one.title}:", *(f"  {command}" for command in one.commands))]
        out.append(Lines(section.title, tuple(lines), verbatim=True, first=0))
    return out


def _told(one: ReportEntry) -> str:
    return summary(one.result).replace("\n", "; ")


class _ExhibitLine(NamedTuple):
    section: ReportSection
    exhibit: ReportEntry


_EXHIBITS = (
    label("section", "section", get=lambda line: line.section.title),
    label("title", "title", get=lambda line: line.exhibit.title),
    label("summary", "what follows", get=lambda line: _told(line.exhibit)),
    label("commands", "command", get=lambda line: " && ".join(line.exhibit.commands)),
)


def _table(result: Report) -> Table:
    return Table(_EXHIBITS, tuple(_ExhibitLine(section, one) for section in result.sections for one in section.exhibits))


def _document(result: Report) -> Document:
    return {
        "fabrics": [{"fabric": one.name} | set_field(one.overrides) for one in result.fabrics],
        "ranks": result.ranks,
        "bytes": whole_bytes(result.bytes),
        "verdict": list(headlines(result)),
        "sections": [
            {
                "section": section.key,
                "title": section.title,
                "exhibits": [
                    {"title": one.title, "summary": _told(one), "commands": list(one.commands), "result": document(one.result)}
                    for one in section.exhibits
                ],
            }
            for section in result.sections
        ],
    }


def _summary(result: Report) -> str:
    return "\n".join((report_title(result), *headlines(result)))


_STATED = (
    label("key", "number"),
    label("value", "value", get=lambda one: _value(one.key, one.value)),
    label("source", "source", get=lambda one: one.source or UNSAID),
)


def _value(key: str, value: Any) -> str:
    if isinstance(value, Efficiency):
        return reached_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{_value(key, name)} {_value(key, one)}" for name, one in value.items())
    if isinstance(value, tuple):
        return (" x " if key.endswith("shape") else ", ").join(_value(key, one) for one in value)
    if isinstance(value, float):
        show = _SHOWN.get(key.rsplit(".", 1)[-1])
        return show(value) if show else quantity(key, value)
    return value.spoken if isinstance(value, Primitive) else str(value)


def _assumed_blocks(result: Assumptions) -> list[Block]:
    return [_assumed_table(result, f"{result.fabric.name}: numbers of its file, and where they come from"), *_readings(result)]


def _assumed_table(result: Assumptions, title: str = "") -> Table:
    return Table(_STATED, result.stated, None, title)


def _readings(result: Assumptions) -> Iterator[Block]:
    told = [f"library={result.library}"] if result.library else []
    told += [f"{name}={value}" for name, value in result.readings._asdict().items()]
    yield Lines("how the model was read", (", ".join(told), "colltool guide model says what each does"))


def _assumed_document(result: Assumptions) -> Document:
    rows = [{"key": one.key, "value": _plain(one), "source": one.source or None} for one in result.stated]
    stated = {"stated": rows, "library": result.library or None, "model": result.readings.echo()}
    return {"fabric": result.fabric.name} | set_field(result.fabric.overrides) | stated


def _plain(one: Provenance) -> Any:
    return one.value if isinstance(one.value, float | int | bool | str) else _value(one.key, one.value)


def _assumed_summary(result: Assumptions) -> str:
    unsaid = sum(not one.source for one in result.stated)
    return f"{result.fabric.name}: {len(result.stated)} numbers and words, {len(result.stated) - unsaid} with a source"


VIEWS = {
    Report: View("report", _blocks, _document, _table, _summary, report_page),
    Assumptions: View("assumptions", _assumed_blocks, _assumed_document, _assumed_table, _assumed_summary),
}
