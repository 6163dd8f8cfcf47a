"""The HTML page of a report, made by the plain installation: one file, nothing from elsewhere.

The first printed pages are for the decision (:func:`_decision`): verdict, chart, cost and risk. The
exhibits of each section follow as an appendix that folds on a screen (:func:`_appendix`). Every
text is escaped where it is written. Lines are drawn here (:mod:`colltool.render.page.lines`), other
pictures by matplotlib where that is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool import __version__
from colltool.analysis.cells import Cell
from colltool.analysis.compare import Comparison
from colltool.analysis.sweep import Sweep, pivot_tables
from colltool.base.errors import ColltoolError
from colltool.base.extras import SharedOutlines, drawing, install_command, plot
from colltool.base.formatting import format_bytes, format_rate
from colltool.base.primitives import Primitive
from colltool.diagnosis.results import Diagnosis
from colltool.fabric.results import FabricShown
from colltool.render.blocks import Block, Lines, Table
from colltool.render.dispatch import blocks, described
from colltool.render.markup import html, unstyled_html
from colltool.render.page.lines import AxisWords, ChartLine, ChartPoint, chart_style, line_chart
from colltool.render.text import fitting
from colltool.render.views.doctor_answer import diagnosed
from colltool.render.views.report_costs import cost_sentences, cost_table
from colltool.render.views.report_decision import answers, chart_of, report_title
from colltool.render.views.report_reference import reference_point, reference_ranks
from colltool.render.views.report_risks import risks
from colltool.render.views.sweep import changes_block
from colltool.render.views.sweep_words import shown

if TYPE_CHECKING:
    from colltool.analysis.report import Exhibit, Report

# characters of a table on A4 in small print; columns that do not fit are dropped as on a terminal
WIDTH = 132
EXTRA = "report"
_EXPAND = "Click a section to expand it; print expands all."
_FOOTER = (
    "Times are modelled, not measured, unless a table says so: alpha-beta costs of real schedules,"
    " with the contention that the fabric file gives. <code>colltool guide model</code> explains the"
    " model, <code>colltool verify</code> executes the schedules."
)


class _Pictures(NamedTuple):
    """How pictures other than drawings and lines are drawn.

    Args:
        wanted: whether the page has any.
        letters: that they share; None where matplotlib is missing, and they are left out.
    """

    wanted: bool
    letters: SharedOutlines | None


def report_page(report: Report) -> str:
    """The HTML page of a report, self-contained."""
    pictures = _pictures(report)
    title = html(report_title(report))
    style = chart_style() + (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    # all pictures are drawn before the outlines of their letters are read
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


def _pictures(report: Report) -> _Pictures:
    """Loads matplotlib only where the page has a picture that needs it."""
    if not any(_is_plotted(exhibit) for part in report.sections for exhibit in part.exhibits):
        return _Pictures(wanted=False, letters=None)
    try:
        plot().need_matplotlib("a picture", EXTRA, "output")
    except ColltoolError:
        return _Pictures(wanted=True, letters=None)
    return _Pictures(wanted=True, letters=plot().shared_letters())


def _is_plotted(exhibit: Exhibit) -> bool:
    """Whether the picture of an exhibit is drawn by matplotlib."""
    result = exhibit.result
    healthy = isinstance(result, Diagnosis) and result.ok
    by_core = isinstance(result, FabricShown | Sweep | Comparison)
    return exhibit.view is not None and not healthy and not by_core


def _today() -> str:
    """The date in UTC; that of SOURCE_DATE_EPOCH if it is set, for reproducible output."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return when.date().isoformat()


def _subjects(report: Report) -> Iterator[str]:
    """What the page is about: each fabric in a line, the values it was read with, and the reference
    point."""
    lines = []
    for fabric in dict.fromkeys(report.fabrics):
        words = described(fabric)
        if words:
            lines.append(html(f"{fabric.name}: {words}"))
    sets = "".join(f"; <code>{html(key)}={html(value)}</code>" for key, value in report.overrides)
    lines.append(f"{html(reference_point(report))}{sets}")
    yield f'<p class="aside">{"<br>".join(lines)}</p>\n'


def _decision(report: Report) -> Iterator[str]:
    """The part of the page that leads to a decision."""
    first, *others = list(answers(report)) or [""]
    yield f'<p class="lead">{html(first)}</p>\n'
    yield _list(others)
    entry = chart_of(report)
    chart = _lines(report, entry) if entry else ""
    if entry and chart:
        yield f"<h2>{html(_chart_title(report, entry))}</h2>\n<figure>\n{chart}\n"
        if "ct-band" in chart:
            yield "<figcaption>Nine of ten measurements lie within a line's band.</figcaption>\n"
        yield "</figure>\n"
    costs, _ = fitting(cost_table(report), WIDTH)
    yield "<h2>What it costs</h2>\n"
    yield _list(cost_sentences(report))
    yield unstyled_html([costs])
    yield "<h2>What it risks</h2>\n"
    yield _list(risks(report))


def _list(lines: Sequence[str] | Iterator[str]) -> str:
    items = "".join(f"<li>{html(line)}</li>\n" for line in lines)
    return f"<ul>\n{items}</ul>\n" if items else ""


def _appendix(report: Report, pictures: _Pictures) -> Iterator[str]:
    yield f'<p class="aside">{_EXPAND}</p>\n'
    if pictures.wanted and pictures.letters is None:
        command = html(install_command(EXTRA))
        yield f'<p class="aside">More pictures need matplotlib: <code>{command}</code></p>\n'
    for section in report.sections:
        yield f'<details id="{html(section.key)}">\n'
        yield f"<summary><h3>{html(section.title)}</h3></summary>\n"
        for at, exhibit in enumerate(section.exhibits, 1):
            yield from _exhibit(report, exhibit, f"{section.key}-{at}", pictures)
        yield "</details>\n"


def _exhibit(report: Report, exhibit: Exhibit, key: str, pictures: _Pictures) -> Iterator[str]:
    """A result: its picture, its tables, and the commands that give it."""
    yield f'<article id="{html(key)}">\n<h4>{html(exhibit.title)}</h4>\n'
    picture = ""
    result = exhibit.result
    if isinstance(result, Diagnosis) and result.ok:  # nothing to look into
        yield f"<p>{html(diagnosed(result))}.</p>\n"
    else:
        picture = _picture(report, exhibit, key, pictures)
        parts, dropped = _fitted(result)
        yield f'<div class="shown{_layout(result, picture)}">\n'
        if picture:
            yield f"<figure>\n{picture}\n</figure>\n"
        yield f'<div class="tables">\n{unstyled_html(parts)}</div>\n</div>\n'
        if dropped:
            names = html("; ".join(dropped))
            yield f'<p class="aside">Only in the command\'s CSV and JSON: {names}.</p>\n'
    if exhibit.commands:
        commands = "\n".join(map(html, exhibit.commands))
        yield f'<pre class="again"><code>{commands}</code></pre>\n'
    yield "</article>\n"


def _layout(result: Any, picture: str) -> str:
    """Where the picture of a result stands: drawings and lines beside its tables."""
    if isinstance(result, FabricShown):
        return " beside drawn"
    beside = picture and isinstance(result, Sweep | Comparison)
    return " beside" if beside else ""


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
    pictured = changes_block(result) if isinstance(result, Sweep) else []
    return [part for part in parts if part not in pictured]


def _picture(report: Report, exhibit: Exhibit, key: str, pictures: _Pictures) -> str:
    if exhibit.view is None:
        return ""
    result = exhibit.result
    if isinstance(result, FabricShown):
        return drawing().fabric_svg(result.fabric, prefix=key, page=True)
    if isinstance(result, Sweep | Comparison):
        # that of the verdict is at the top
        return "" if exhibit == chart_of(report) else _lines(report, exhibit)
    if pictures.letters is None:
        return ""
    letters = pictures.letters
    return plot().page_svg(result, exhibit.view, prefix=key, extra=EXTRA, letters=letters)


# --- lines of bus bandwidth


def _lines(report: Report, entry: Exhibit) -> str:
    """Bus bandwidth over size: a line for each fabric, or for each number of ranks."""
    result = entry.result
    lines: list[ChartLine] = []
    if isinstance(result, Comparison):
        lines = _lines_of_fabrics(report, result)
    elif isinstance(result, Sweep):
        lines = list(_lines_of_ranks(result))
    names = ", ".join(line.name for line in lines)
    alt = f"{_chart_title(report, entry)}: a line for each of {names}"
    return line_chart(lines, alt, _SIZE, _RATE)


def _chart_title(report: Report, entry: Exhibit) -> str:
    result = entry.result
    if isinstance(result, Comparison):
        return f"{_bandwidth_of(result.lines[0].primitive)} on {reference_ranks(report)}"
    if isinstance(result, Sweep):
        return f"{_bandwidth_of(result.primitive)} by number of ranks"
    return entry.title


def _bandwidth_of(primitive: Primitive) -> str:
    return f"Bus bandwidth of {primitive.label}"


def _lines_of_fabrics(report: Report, result: Comparison) -> list[ChartLine]:
    """The lines on the ranks of the reference point."""
    lines = [line for line in result.lines if line.ranks == report.ranks]
    found = []
    for at, title in enumerate(report.titles):
        points = [_point(line.bytes, line.cells[at]) for line in lines]
        found.append(ChartLine(title, list(filter(None, points))))
    return found


def _lines_of_ranks(result: Sweep) -> Iterator[ChartLine]:
    pivot = result.pivot
    if pivot is None:
        return
    sizes = next(axis for axis in result.axes if axis.key == "bytes").values
    counts = next(axis for axis in result.axes if axis.key == "ranks").values
    for _, cells in pivot_tables(result, pivot):
        # sizes down, ranks across
        for at, count in enumerate(counts):
            points = [_point(float(size), row[at]) for size, row in zip(sizes, cells, strict=True)]
            name = f"{shown('ranks', count)} ranks"
            yield ChartLine(name, list(filter(None, points)))


def _point(size: float, cell: Cell) -> ChartPoint | None:
    """Bus bandwidth at a size, with its interval; None where nothing runs."""
    rate, total_s = cell.busbw_Bps, cell.total_s
    if not rate or not total_s:
        return None
    interval = cell.interval
    if interval is None:
        return ChartPoint(size, rate)
    return ChartPoint(size, rate, rate * total_s / interval.high_s, rate * total_s / interval.low_s)


_SIZE = AxisWords("size", partial(format_bytes, digits=3))
_RATE = AxisWords("bus bandwidth", partial(format_rate, digits=3))
