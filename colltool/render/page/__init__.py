"""The HTML page of a report, made by the plain installation: one file, nothing from elsewhere.

:func:`report_page` is the page. Its first printed pages are for the decision (:func:`_decision`):
verdict, chart, cost and risk. The exhibits of each section follow as an appendix that folds on a
screen (:func:`_appendix`). Every text is escaped where it is written. Charts of bandwidth are drawn
here (:mod:`colltool.render.page.bandwidth`), fabrics by :mod:`colltool.extras.pictures`, other
pictures by matplotlib where that is installed.

An exhibit is a result with its title and the commands that make it again; ``view`` names its picture, and is
None where it has none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from colltool import __version__
from colltool.analysis.compare import Comparison
from colltool.analysis.sweep import Sweep
from colltool.base.errors import ColltoolError
from colltool.base.extras import SharedOutlines, drawing, install_command, plot
from colltool.diagnosis.results import Diagnosis
from colltool.fabric.results import FabricShown
from colltool.render.blocks import Block, Lines, Table
from colltool.render.column_fit import without_wide_columns
from colltool.render.dispatch import blocks, description_line
from colltool.render.markup import html, unstyled_html
from colltool.render.page.bandwidth import bandwidth_chart, bandwidth_title
from colltool.render.page.lines import chart_style
from colltool.render.views.doctor_answer import diagnosed
from colltool.render.views.report_costs import cost_sentences, cost_table
from colltool.render.views.report_decision import answers, chart_of, report_title
from colltool.render.views.report_reference import reference_point
from colltool.render.views.report_risks import risks
from colltool.render.views.sweep import changes_block

if TYPE_CHECKING:
    from colltool.analysis.report import Exhibit, Report

# characters of a table on A4 in small print; columns that do not fit are dropped as on a terminal
WIDTH = 132
EXTRA = "report"  # the extra of the package that installs matplotlib
_EXPAND = "Click a section to expand it; print expands all."
_FOOTER = (
    "Times are modelled, not measured, unless a table says so: alpha-beta costs of real schedules,"
    " with the contention that the fabric file gives. <code>colltool guide model</code> explains the"
    " model, <code>colltool verify</code> executes the schedules."
)


class _Pictures(NamedTuple):
    """How the pictures that need matplotlib are drawn."""

    are_needed: bool  # whether the page has any
    # outlines of letters that they share; None where matplotlib is missing, and they are left out
    letters: SharedOutlines | None


def report_page(report: Report) -> str:
    """The HTML text of a report's page."""
    pictures = _picture_means(report)
    title = html(report_title(report))
    style = chart_style() + (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    # pictures add the letters that they use: all are drawn before the outlines are read
    decision = "".join(_decision(report))
    appendix = "".join(_appendix(report, pictures))
    letters = pictures.letters.svg if pictures.letters else ""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="colltool {html(__version__)}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
{letters}
<header>
<p class="kicker">colltool {html(__version__)}, {_today()}</p>
<h1>{title}</h1>
{"".join(_subjects(report))}</header>
<main class="colltool">
<section id="decision" aria-label="The verdict">
{decision}</section>
<section id="appendix" aria-labelledby="appendix-title">
<h2 id="appendix-title">Appendix</h2>
{appendix}</section>
</main>
<footer>
<p>{_FOOTER}</p>
</footer>
</body>
</html>
"""


def _picture_means(report: Report) -> _Pictures:
    """Find out how the page's pictures can be drawn; matplotlib is loaded only where one needs it."""
    exhibits = chain.from_iterable(section.exhibits for section in report.sections)
    if not any(map(_is_plotted, exhibits)):
        return _Pictures(are_needed=False, letters=None)
    try:
        plot().need_matplotlib("a picture", EXTRA, "output")
    except ColltoolError:
        return _Pictures(are_needed=True, letters=None)
    return _Pictures(are_needed=True, letters=plot().shared_letters())


def _is_plotted(exhibit: Exhibit) -> bool:
    """Whether the picture of an exhibit is drawn by matplotlib."""
    result = exhibit.result
    if exhibit.view is None or _is_healthy(result):
        return False
    return not isinstance(result, FabricShown | Sweep | Comparison)


def _is_healthy(result: Any) -> TypeGuard[Diagnosis]:
    """Whether it is a diagnosis that found nothing: a sentence on the page, without picture."""
    return isinstance(result, Diagnosis) and result.ok


def _today() -> str:
    """The date in UTC; that of SOURCE_DATE_EPOCH if it is set, for reproducible output."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return now.date().isoformat()


def _subjects(report: Report) -> Iterator[str]:
    """What the page is about: each fabric in a line, the values it was read with, and the reference
    point."""
    lines = []
    for fabric in dict.fromkeys(report.fabrics):
        description = description_line(fabric)
        if description:
            lines.append(html(f"{fabric.name}: {description}"))
    overrides = ""
    for key, value in report.overrides:
        overrides += f"; <code>{html(key)}={html(value)}</code>"
    lines.append(f"{html(reference_point(report))}{overrides}")
    yield f'<p class="aside">{"<br>".join(lines)}</p>\n'


def _decision(report: Report) -> Iterator[str]:
    """The verdict in sentences, then the chart, the cost and the risks behind it."""
    verdict, *further_answers = list(answers(report)) or [""]
    yield f'<p class="lead">{html(verdict)}</p>\n'
    yield _html_list(further_answers)
    exhibit = chart_of(report)
    chart = bandwidth_chart(report, exhibit) if exhibit else ""
    if exhibit and chart:
        yield f"<h2>{html(bandwidth_title(report, exhibit))}</h2>\n<figure>\n{chart}\n"
        # the class of a band: a chart of prices without interval has none
        if "ct-band" in chart:
            yield "<figcaption>Nine of ten measurements lie within a line's band.</figcaption>\n"
        yield "</figure>\n"
    costs, _ = without_wide_columns(cost_table(report), WIDTH)
    yield "<h2>What it costs</h2>\n"
    yield _html_list(cost_sentences(report))
    yield unstyled_html([costs])
    yield "<h2>What it risks</h2>\n"
    yield _html_list(risks(report))


def _html_list(lines: Sequence[str] | Iterator[str]) -> str:
    """Lines as an HTML list; empty without any."""
    items = "".join(f"<li>{html(line)}</li>\n" for line in lines)
    return f"<ul>\n{items}</ul>\n" if items else ""


def _appendix(report: Report, pictures: _Pictures) -> Iterator[str]:
    """The exhibits of all sections, each section folded under its title."""
    yield f'<p class="aside">{_EXPAND}</p>\n'
    if pictures.are_needed and pictures.letters is None:
        command = html(install_command(EXTRA))
        yield f'<p class="aside">More pictures need matplotlib: <code>{command}</code></p>\n'
    for section in report.sections:
        yield f'<details id="{html(section.key)}">\n'
        yield f"<summary><h3>{html(section.title)}</h3></summary>\n"
        for number, exhibit in enumerate(section.exhibits, 1):
            yield from _exhibit(report, exhibit, f"{section.key}-{number}", pictures)
        yield "</details>\n"


def _exhibit(report: Report, exhibit: Exhibit, anchor: str, pictures: _Pictures) -> Iterator[str]:
    """A result: its picture, its tables, and the commands that give it."""
    yield f'<article id="{html(anchor)}">\n<h4>{html(exhibit.title)}</h4>\n'
    if _is_healthy(exhibit.result):
        yield f"<p>{html(diagnosed(exhibit.result))}.</p>\n"
    else:
        picture = _picture_svg(report, exhibit, anchor, pictures)
        yield from _picture_and_tables(exhibit.result, picture)
    if exhibit.commands:
        commands = "\n".join(map(html, exhibit.commands))
        yield f'<pre class="again"><code>{commands}</code></pre>\n'
    yield "</article>\n"


def _picture_and_tables(result: Any, picture: str) -> Iterator[str]:
    """A box with the picture, if there is one, and the blocks of a result; then which columns had no room."""
    page_blocks, dropped_titles = _fitted_blocks(result)
    yield f'<div class="shown{_layout(result, picture)}">\n'
    if picture:
        yield f"<figure>\n{picture}\n</figure>\n"
    yield f'<div class="tables">\n{unstyled_html(page_blocks)}</div>\n</div>\n'
    if dropped_titles:
        titles = html("; ".join(dropped_titles))
        yield f'<p class="aside">Only in the command\'s CSV and JSON: {titles}.</p>\n'


def _layout(result: Any, picture: str) -> str:
    """The further CSS classes of a result's box: whether its picture stands beside its tables, and
    whether it is the drawing of a fabric."""
    if isinstance(result, FabricShown):
        return " beside drawn"
    if picture and isinstance(result, Sweep | Comparison):
        return " beside"
    return ""


def _fitted_blocks(result: Any) -> tuple[list[Block], list[str]]:
    """The blocks of a result with the columns that fit the page, and the titles of the others."""
    fitted: list[Block] = []
    dropped_titles: dict[str, None] = {}
    for block in _page_blocks(result):
        if isinstance(block, Table):
            if not block.records:
                continue
            block, titles = without_wide_columns(block, WIDTH)
            dropped_titles |= dict.fromkeys(titles)
        fitted.append(block)
    return fitted, list(dropped_titles)


def _page_blocks(result: Any) -> list[Block]:
    """The blocks of a result without what the exhibit's picture or tables already show."""
    all_blocks = blocks(result)
    # the page has a picture in place of the tree of lines
    if isinstance(result, FabricShown):
        return [block for block in all_blocks if not (isinstance(block, Lines) and block.as_drawn)]
    changes = changes_block(result) if isinstance(result, Sweep) else []
    return [block for block in all_blocks if block not in changes]


def _picture_svg(report: Report, exhibit: Exhibit, anchor: str, pictures: _Pictures) -> str:
    """The picture of an exhibit as ``<svg>``, whose ids begin with its anchor. Empty for one without
    picture, or that needs matplotlib where it is missing."""
    if exhibit.view is None:
        return ""
    result = exhibit.result
    if isinstance(result, FabricShown):
        return drawing().fabric_svg(result.fabric, prefix=anchor, page=True)
    if isinstance(result, Sweep | Comparison):
        # the chart of the verdict is at the top of the page
        return "" if exhibit == chart_of(report) else bandwidth_chart(report, exhibit)
    if pictures.letters is None:
        return ""
    letters = pictures.letters
    return plot().page_svg(result, exhibit.view, prefix=anchor, extra=EXTRA, letters=letters)
