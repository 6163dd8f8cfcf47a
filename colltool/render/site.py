"""The manual as a static site: a page per guide, an index, and drawings of the shipped fabrics.

Pages load no scripts, fonts or anything else from the network, and links are relative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from colltool import __version__
from colltool.base.extras import drawing
from colltool.fabric.model import Fabric
from colltool.guides import TOPICS, about, read_guide

DRAWINGS = "drawings"
_GUIDE = re.compile(r"<code>colltool guide ([a-z]+)</code>")
# the table of the guide to accuracy with rows for all devices together
_SUMMARY = re.compile(r"^\|.*\n\|[-|]+\n(?:\| all .*\n)+", re.MULTILINE)


def site(fabrics: Sequence[Fabric]) -> Iterator[tuple[str, str]]:
    """Yield the path (with ``/``) and text of each file: pages, a style sheet, and a drawing of each
    fabric."""
    yield "style.css", (Path(__file__).parent / "page" / "site.css").read_text(encoding="utf-8")
    yield "index.html", _page("index", "colltool", _index())
    for topic in TOPICS:
        yield f"{topic}.html", _page(topic, _title(topic), _body(read_guide(topic)))
    yield f"{DRAWINGS}.html", _page(DRAWINGS, "Drawings", _drawings(fabrics))
    for fabric in fabrics:
        svg = drawing().fabric_svg(fabric)
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'
        yield f"{DRAWINGS}/{fabric.name}.svg", text


def _title(topic: str) -> str:
    return read_guide(topic).partition("\n")[0].removeprefix("# ")


def _body(markdown: str) -> str:
    """Markdown as HTML, with links to the guides that it names."""
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    return _GUIDE.sub(_linked, html)


def _linked(found: re.Match[str]) -> str:
    """The name of a guide, as a link to its page."""
    name = found[0]
    if found[1] in TOPICS:
        return f'<a href="{found[1]}.html">{name}</a>'
    return name


def _index() -> str:
    """What colltool is for, how far off it is, and what each guide answers."""
    guides = ""
    for topic in TOPICS:
        link = f'<a href="{topic}.html">{escape(_title(topic))}</a>'
        guides += f"<li>{link}: {_inline(about(topic))}</li>"
    accuracy = _SUMMARY.search(read_guide("accuracy"))
    assert accuracy is not None  # tests ensure that the guide has this table
    return (
        f"<h1>colltool {__version__}</h1><p>What an all-reduce, all-gather or all-to-all costs on a"
        " network: which algorithm wins, where the winner changes, where the time goes, and what"
        " would change it.</p><h2>How accurate is it?</h2><p>Median errors on published rows by"
        " the size of the collective, the source of each left out of the fit; in brackets how many"
        f' rows:</p>{_body(accuracy[0])}<p class="soft">All of it: <a href="accuracy.html">accuracy'
        f"</a>.</p><h2>Guides</h2><ul>{guides}</ul>"
    )


def _inline(text: str) -> str:
    return _body(text).strip().removeprefix("<p>").removesuffix("</p>")


def _drawings(fabrics: Sequence[Fabric]) -> str:
    figures = (
        "<h1>Drawings</h1><p>The shipped fabrics, as <code>colltool fabric draw</code> draws"
        " them.</p>"
    )
    for fabric in fabrics:
        name = fabric.name
        figures += (
            f'<figure id="{name}"><figcaption><b>{name}</b>: {escape(fabric.description)}'
            f'</figcaption><img src="{DRAWINGS}/{name}.svg" alt="{name} as colltool draws it"'
            ' loading="lazy"></figure>'
        )
    return figures


def _page(name: str, title: str, body: str) -> str:
    pages = {"index": "colltool", **{topic: _title(topic) for topic in TOPICS}}
    pages[DRAWINGS] = "Drawings"
    menu = ""
    for page, text in pages.items():
        mark = ' aria-current="page"' if page == name else ""
        menu += f'<a href="{page}.html"{mark}>{escape(text)}</a>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet"'
        ' href="style.css"></head>\n'
        f"<body><nav>{menu}</nav>\n<main>\n{body}\n</main></body></html>\n"
    )
