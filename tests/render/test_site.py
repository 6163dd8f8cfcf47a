"""The manual as a site: every guide is there, every link leads somewhere, pages are whole and load
nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from colltool.fabric.load import load_fabric
from colltool.guides import TOPICS
from colltool.render.site import site
from tests.commands.conftest import run

VOID = {"meta", "link", "img", "br", "hr"}


@cache
def files() -> dict[str, str]:
    """The site of two fabrics by the names of its files."""
    return dict(site([load_fabric("nvl72"), load_fabric("frontier")]))


class Page(HTMLParser):
    """Links, pictures and headings of a page; tags that are not closed are a failure."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.refs: list[str] = []
        self.ids: set[str] = set()
        self.tables = 0
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.refs += [ref for key in ("href", "src") if (ref := own.get(key))]
        self.ids |= {str(own["id"])} if "id" in own else set()
        self.tables += tag == "table"
        assert tag != "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def pages() -> Iterator[tuple[str, Page]]:
    yield from ((name, Page(text)) for name, text in files().items() if name.endswith(".html"))


def test_every_guide_has_a_page_that_the_others_lead_to() -> None:
    for name, page in pages():
        assert {f"{topic}.html" for topic in TOPICS} <= set(page.refs), name
        assert "index.html" in page.refs


def test_every_link_leads_somewhere() -> None:
    for name, page in pages():
        for ref in page.refs:
            assert ref in files() or ref.startswith("https://"), (name, ref)


def test_guides_that_are_named_are_links() -> None:
    assert '<a href="fabrics.html"><code>colltool guide fabrics</code></a>' in "".join(
        files().values()
    )


def test_the_front_page_says_how_accurate_it_is() -> None:
    assert Page(files()["index.html"]).tables == 1


@pytest.mark.parametrize("name", ["nvl72", "frontier"])
def test_fabrics_are_drawn(name: str) -> None:
    assert ET.fromstring(files()[f"drawings/{name}.svg"].partition("\n")[2]).tag.endswith("svg")
    assert name in Page(files()["drawings.html"]).ids


def test_it_is_written_into_a_folder(tmp_path: Path) -> None:
    done = run("guide", "--html", str(tmp_path / "site"))
    assert done.code == 0, done.err
    assert done.out.strip().endswith("index.html")
    assert {f"{topic}.html" for topic in TOPICS} <= {
        one.name for one in (tmp_path / "site").iterdir()
    }
    assert (tmp_path / "site" / "drawings" / "dgx-1v.svg").is_file()
