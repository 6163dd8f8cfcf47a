"""The HTML page of a report, from a jinja2 template with autoescape; tables and pictures are inserted
as escaped HTML.

The first two printed pages are for the decision (:func:`_decision`): answer, picture, cost, risks,
date. The exhibits of each section follow as an appendix that folds (:func:`_exhibits`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool import __version__
from colltool.analysis.sweep import Sweep
from colltool.base.errors import displayed
from colltool.base.extras import SharedOutlines, drawing, needs_extra, plot
from colltool.diagnosis.results import Diagnosis
from colltool.fabric.results import FabricShown
from colltool.render.blocks import Block, Lines, Table
from colltool.render.dispatch import blocks, described
from colltool.render.markup import unstyled_html
from colltool.render.text import fitting
from colltool.render.views.doctor import diagnosed
from colltool.render.views.report import report_title
from colltool.render.views.report_decision import answers, chart_of, cost_table, risks, unpriced
from colltool.render.views.sweep import changes

if TYPE_CHECKING:
    from colltool.analysis.report import Report, ReportEntry, ReportSection

# characters of a table on A4 in small print; columns that do not fit are dropped as on a terminal
WIDTH = 132
EXTRA = "report"
_TALL = (
    1.4  # height over width from which a picture gets a printed page to itself: about that of A4
)
_SIDES = re.compile(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"')


def check_page() -> None:
    """Raise a ColltoolError, before any long work, if jinja2 or matplotlib is missing."""
    plot().need_matplotlib("a page", EXTRA, "output")
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise needs_extra(EXTRA, "a page", "jinja2", argument="output") from error


def report_page(report: Report) -> str:
    """The HTML page of a report, self-contained."""
    check_page()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: displayed(value) if type(value) is str else value,
        keep_trailing_newline=True,
    )
    style = _markup((folder / "page.css").read_text(encoding="utf-8"))
    letters = plot().shared_letters()
    # All pictures are drawn before the outlines of their letters are read.
    sections = []
    for section in report.sections:
        exhibits = list(_exhibits(section, letters))
        sections.append({"key": section.key, "title": section.title, "exhibits": exhibits})
    decision = _decision(report, letters)
    return environment.get_template("page.html.jinja").render(
        title=report_title(report),
        names=dict.fromkeys(fabric.name for fabric in report.fabrics),
        description=described(report.fabrics[0]),
        style=style,
        sets=[f"{key}={value}" for key, value in report.overrides],
        letters=_markup(letters.svg),
        sections=sections,
        version=__version__,
        decision=decision,
        date=_today(),
    )


def _decision(report: Report, letters: SharedOutlines) -> dict[str, Any]:
    """Values of the template for the part of the page that leads to a decision."""
    first, *others = list(answers(report)) or [""]
    entry = chart_of(report)
    chart = None
    if entry is not None:
        picture = _markup(_picture(entry, "decision", letters))
        chart = {"title": entry.title, "picture": picture}
    costs, _ = fitting(cost_table(report), WIDTH)
    return {
        "answer": first,
        "others": others,
        "chart": chart,
        "cost": _markup(unstyled_html([costs])),
        "unpriced": unpriced(report),
        "risks": list(risks(report)),
    }


def _today() -> str:
    """The date in UTC; that of SOURCE_DATE_EPOCH if it is set, for reproducible output."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return when.date().isoformat()


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # made by this program, which escaped every name in it


def _exhibits(section: ReportSection, letters: SharedOutlines) -> Iterator[dict[str, Any]]:
    """Values of the template for each exhibit.

    ``plotted`` is the view for the --plot option of its command; None if it has no picture, or not
    exactly one command.
    """
    for at, exhibit in enumerate(section.exhibits, 1):
        key = f"{section.key}-{at}"
        shown = {"key": key, "title": exhibit.title, "commands": exhibit.commands}
        if isinstance(exhibit.result, Diagnosis) and exhibit.result.ok:  # nothing to look into
            yield {**shown, "healthy": diagnosed(exhibit.result), "plotted": None}
            continue
        parts, dropped = _fitted(exhibit.result)
        picture = _picture(exhibit, key, letters)
        sides = _SIDES.search(picture)
        yield {
            **shown,
            "healthy": "",
            "picture": _markup(picture),
            "tall": sides is not None and float(sides[2]) > _TALL * float(sides[1]),
            "tables": _markup(unstyled_html(parts)),
            "dropped": dropped,
            "plotted": exhibit.view if picture and len(exhibit.commands) == 1 else None,
        }


def _fitted(result: Any) -> tuple[list[Block], list[str]]:
    """The blocks of a result with the columns that fit the page, and the titles of the others."""
    parts: list[Block] = []
    dropped: dict[str, None] = {}
    for part in _on_page(result):
        if isinstance(part, Table):
            if not part.records:
                continue
            part, columns = fitting(part, WIDTH)
            dropped |= dict.fromkeys(columns)
        parts.append(part)
    return parts, list(dropped)


def _on_page(result: Any) -> list[Block]:
    """The blocks of a result without what the exhibit's picture or tables already show."""
    parts = blocks(result)
    if isinstance(result, FabricShown):  # the tree is drawn as a picture here
        return [part for part in parts if not (isinstance(part, Lines) and part.as_drawn)]
    pictured = changes(result) if isinstance(result, Sweep) else []
    return [part for part in parts if part not in pictured]


def _picture(exhibit: ReportEntry, key: str, letters: SharedOutlines) -> str:
    if exhibit.view is None:
        return ""
    if isinstance(exhibit.result, FabricShown):
        return drawing().fabric_svg(exhibit.result.fabric, prefix=key, page=True)
    return plot().page_svg(exhibit.result, exhibit.view, prefix=key, extra=EXTRA, letters=letters)
