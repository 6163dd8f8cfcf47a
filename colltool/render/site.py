"""The manual as a site: a page a guide, an index, and the drawings of the shipped fabrics; no
scripts, no fonts, no address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from colltool import __version__
from colltool.base.pictures import drawing
from colltool.fabric.model import Fabric
from colltool.guides import TOPICS, about, read_guide

DRAWINGS = "drawings"
_GUIDE = re.compile(r"<code>colltool guide ([a-z]+)</code>")
_SUMMARY = re.compile(r"^\|.*\n\|[-|]+\n(?:\| all .*\n)+", re.MULTILINE)  # of all devices


def site(fabrics: Sequence[Fabric]) -> Iterator[tuple[str, str]]:
    """Files by name, with ``/`` between folders: pages in HTML, a style sheet, and a picture of
    each fabric."""
    yield "style.css", (Path(__file__).parent / "page" / "site.css").read_text(encoding="utf-8")
    yield "index.html", _page("index", "colltool", _index())
    for topic in TOPICS:
        yield f"{topic}.html", _page(topic, _title(topic), _body(read_guide(topic)))
    yield f"{DRAWINGS}.html", _page(DRAWINGS, "Drawings", _drawings(fabrics))
    for fabric in fabrics:
        yield (
            f"{DRAWINGS}/{fabric.name}.svg",
            f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing().fabric_svg(fabric)}\n',
        )


def _title(topic: str) -> str:
    return read_guide(topic).partition("\n")[0].removeprefix("# ")


def _body(markdown: str) -> str:
    """Markdown as HTML; where a guide is named, its page is behind it."""
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    return _GUIDE.sub(
        lambda found: (
            f'<a href="{found[1]}.html">{found[0]}</a>' if found[1] in TOPICS else found[0]
        ),
        html,
    )


def _index() -> str:
    """What colltool is for, how far off it is, and what each guide answers."""
    listed = "".join(
        f'<li><a href="{topic}.html">{escape(_title(topic))}</a>: {_inline(about(topic))}</li>'
        for topic in TOPICS
    )
    accuracy = _SUMMARY.search(read_guide("accuracy"))
    assert accuracy is not None  # a test keeps that table
    return (
        f"<h1>colltool {__version__}</h1><p>What an all-reduce, all-gather or all-to-all costs on a"
        " network: which algorithm "
        "wins, where the winner changes, where the time goes, and what would change it.</p><h2>How"
        " accurate is it?</h2>"
        "<p>Median errors on published rows by the size of the collective, the source of each left"
        " out of the fit; in brackets "
        f"how many rows:</p>{_body(accuracy[0])}"
        '<p class="soft">All of it: <a'
        f' href="accuracy.html">accuracy</a>.</p><h2>Guides</h2><ul>{listed}</ul>'
    )


def _inline(text: str) -> str:
    return _body(text).strip().removeprefix("<p>").removesuffix("</p>")


def _drawings(fabrics: Sequence[Fabric]) -> str:
    figures = (
        f'<figure id="{fabric.name}"><figcaption><b>{fabric.name}</b>:'
        f' {escape(fabric.description)}</figcaption><img src="{DRAWINGS}/{fabric.name}.svg"'
        f' alt="{fabric.name} as colltool draws it" loading="lazy"></figure>'
        for fabric in fabrics
    )
    return (
        "<h1>Drawings</h1><p>The shipped fabrics, as <code>colltool fabric draw</code> draws"
        " them.</p>" + "".join(figures)
    )


def _page(name: str, title: str, body: str) -> str:
    links = [
        ("index", "colltool"),
        *((topic, _title(topic)) for topic in TOPICS),
        (DRAWINGS, "Drawings"),
    ]
    mark = {True: ' aria-current="page"', False: ""}
    menu = "".join(
        f'<a href="{to}.html"{mark[to == name]}>{escape(text)}</a>' for to, text in links
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta'
        f' charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet"'
        ' href="style.css"></head>\n'
        f"<body><nav>{menu}</nav>\n<main>\n{body}\n</main></body></html>\n"
    )
