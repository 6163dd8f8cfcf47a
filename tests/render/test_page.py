"""The page of a report, read as a browser reads it: one file, nothing from elsewhere, every figure
with words and a table."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import reports

import colltool
from colltool.analysis.report import Report
from colltool.base.errors import ColltoolError
from colltool.render.column_fit import render_columns, total_width, without_wide_columns
from colltool.render.dispatch import rendered
from colltool.render.page import WIDTH

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str | None]
    above: tuple[str, ...]


class Reader(HTMLParser):
    """Every element of a page with those around it; refuses what does not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[str] = []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(self.open)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.fixture(scope="module")
def elements(page: str) -> list[Element]:
    return Reader(page).elements


def test_a_page_needs_nothing_from_elsewhere(elements: list[Element], page: str) -> None:
    assert not {one.tag for one in elements} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "foreignobject",
    }
    for one in elements:
        for name, value in one.attributes.items():
            assert not name.startswith("on"), one
            assert name not in ("src", "srcset", "action"), one
            if name in ("href", "xlink:href"):
                assert value is not None
                assert value.startswith("#"), one
    assert not re.search(r"url\((?!#)|@import", page)


def test_every_link_leads_somewhere_and_no_id_stands_twice(
    elements: list[Element], page: str
) -> None:
    ids = [one.attributes["id"] for one in elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    links = [
        str(one.attributes["href"])[1:] for one in elements if "href" in one.attributes
    ] + re.findall(r"url\(#([^)]+)\)", page)
    assert set(links) <= set(ids)
    named = [
        name
        for one in elements
        for name in str(one.attributes.get("aria-labelledby") or "").split()
    ]
    assert set(named) <= set(ids)


def test_every_picture_has_words_a_table_and_its_command(
    elements: list[Element], page: str
) -> None:
    pictures = [one for one in elements if one.tag == "svg" and one.attributes.get("role") == "img"]
    # two drawings, the lines of the verdict and of the sweep, and a trace
    assert len(pictures) == page.count("<figure") == 5
    assert all(
        one.attributes.get("aria-label") or one.attributes.get("aria-labelledby")
        for one in pictures
    )
    for article in page.split("<article")[1:]:
        assert ("<table>" in article) != ("<p>Healthy: " in article)
        assert '<pre class="again"><code>colltool ' in article


def test_the_answer_its_picture_cost_risk_and_date_come_before_what_folds(
    elements: list[Element], page: str, report: Report
) -> None:
    first, appendix = page.split('<section id="appendix"')
    risks = ("<h2>What it risks</h2>", "<li>All-reduce: between 0.", "is most sensitive to ")
    for words in (
        "llama3-70b",
        "<h2>What it costs</h2>",
        "tokens/s",
        "add price={&#x27;gpu",
        *risks,
    ):
        assert words in first
    assert first.count("<figure") == 1
    assert not re.search(
        "double-binary-tree|multi-rail-ring", re.sub(r"<svg.*?</svg>", "", first, flags=re.S)
    )
    assert "<article" not in first
    assert appendix.count("<details") == len(report.sections)
    assert all("details" in one.above for one in elements if one.tag == "article")
    assert ", 1970-01-02</p>" in page


def test_logs_of_a_healthy_machine_are_a_line(page: str) -> None:
    (article,) = (one for one in page.split("<article")[1:] if "What benchmarks measured" in one)
    assert "<p>Healthy: " in article
    assert "<figure" not in article.split("</article>")[0]


def test_headings_go_down_by_single_steps(elements: list[Element]) -> None:
    levels = [int(one.tag[1]) for one in elements if re.fullmatch("h[1-6]", one.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.thorough
def test_a_page_is_the_same_again_and_small(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert reports.page(tmp_path).to_html().replace(str(tmp_path), "") == re.sub(
        r"/\S*?/page\d+", "", page
    )
    assert len(page.encode()) < 1_200_000


def test_texts_of_files_are_data(hostile_page: str) -> None:
    elements = Reader(hostile_page).elements
    assert not {one.tag for one in elements} & {"script", "img"}
    assert not [one for one in elements if any(name.startswith("on") for name in one.attributes)]
    drawn_out = re.sub(r"<svg.*?</svg>", "", hostile_page, flags=re.S)
    assert "49" not in drawn_out.split("&lt;script&gt;")[1][:60]  # no template in a text
    assert "\u202e" not in hostile_page
    for words in (
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "{{ 7*7 }}",
        "&lt;b onclick=alert(3)&gt;",
    ):
        assert words in hostile_page


def test_tables_are_as_wide_as_paper(report: Report) -> None:
    from colltool.render.blocks import Table
    from colltool.render.dispatch import blocks

    for section in report.sections:
        for one in section.exhibits:
            for part in blocks(one.result):
                if isinstance(part, Table) and part.records:
                    kept, dropped = without_wide_columns(part, WIDTH)
                    assert [
                        column.title for column in part.shown if column not in kept.shown
                    ] == list(dropped)
                    assert (
                        sum(
                            max(map(len, one.cells))
                            for one in render_columns(kept)
                            if one.column.right
                        )
                        < WIDTH
                    )
                    assert not dropped or total_width(render_columns(part)) > WIDTH


def test_the_terminal_has_the_sentences_and_the_commands(report: Report) -> None:
    text = rendered(report, "table", everything=True)
    assert text.startswith(report.summary().split("\n")[0])
    for line in report.summary().split("\n")[1:]:
        assert line in text
    for section in report.sections:
        assert all(command in text for one in section.exhibits for command in one.commands)


def test_a_document_holds_every_result(report: Report) -> None:
    from colltool.render.dispatch import document

    told = document(report)
    assert told["schema"] == "colltool.report/1"
    assert told["decision"]["answer"] == told["verdict"][0]
    assert [one["fabric"] for one in told["decision"]["cost"]] == list(report.titles)
    assert told["decision"]["title"] == report.summary().split("\n")[0]
    assert told["decision"]["chart"] == "Side by side"
    assert any(
        "no source" in one or "measurements of such machines" in one
        for one in told["decision"]["risks"]
    )
    assert [one["section"] for one in told["sections"]] == [
        section.key for section in report.sections
    ]
    for section, shown in zip(report.sections, told["sections"], strict=True):
        assert [one["result"]["schema"] for one in shown["exhibits"]] == [
            document(one.result)["schema"] for one in section.exhibits
        ]


def test_columns_are_of_tables_not_of_pages(report: Report) -> None:
    with pytest.raises(ColltoolError, match="columns"):
        rendered(report, "html", names=["algorithm"])


def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the plain installation."""
    import sys

    for package in ("jinja2", "markupsafe", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, package, None)


def test_a_page_needs_no_extra_and_says_which_pictures_it_lacks(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_extras(monkeypatch)
    page = report.to_html()
    Reader(page)
    decision, appendix = page.split('<section id="appendix"')
    assert decision.count('<svg class="lines"') == 1
    assert "More pictures need matplotlib: <code>" in appendix
    assert "[report]&#x27;</code>" in appendix


def test_a_page_without_measurements_has_all_its_pictures_without_an_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_extras(monkeypatch)
    page = colltool.report("mi300x", against="dgx-h100", ranks=8, primitives="ar").to_html()
    assert "need matplotlib" not in page
    assert page.count("<figure") == 4  # two drawings, the lines of the verdict and of the sweep


def test_with_the_extra_nothing_is_said_to_be_missing(page: str) -> None:
    assert "need matplotlib" not in page


def test_a_report_in_a_notebook_is_its_sentences() -> None:
    assert (
        "all-reduce of 64MB on 8 GPUs" in colltool.report("mi300x", primitives="ar")._repr_html_()
    )
