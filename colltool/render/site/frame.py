"""What all pages of the site share: head, navigation, sections, tables and commands, each a function that returns
HTML. Texts are escaped here; what is HTML already is called ``body``, ``parts``, ``inside`` or ``summary``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from colltool.render.blocks import Table
from colltool.render.markup import html, unstyled_html


class SiteLink(NamedTuple):
    """A page, by its path from the folder of the site, and its name in menus."""

    path: str
    title: str


HOME = SiteLink("index.html", "colltool")
MACHINES = SiteLink("index.html#machines", "Machines")
SCOREBOARD = SiteLink("scoreboard.html", "Scoreboard")
GUIDES = SiteLink("index.html#guides", "Guides")
PLAYGROUND = SiteLink("playground/index.html", "Ask colltool here")
MENU = (HOME, MACHINES, SCOREBOARD, GUIDES)
"""The navigation of every page, in its order; :data:`PLAYGROUND` follows where the site has one."""


def machine_link(name: str) -> SiteLink:
    return SiteLink(f"machines/{name}.html", name)


def guide_link(topic: str, title: str) -> SiteLink:
    return SiteLink(f"guides/{topic}.html", title)


def page(link: SiteLink, title: str, body: str, menu: Sequence[SiteLink] = MENU) -> str:
    """A whole page with the text of ``<main>``; ``link``: where it is, as its links are relative."""
    up = "../" * link.path.count("/")
    entries = ""
    for item in menu:
        current = ' aria-current="page"' if item.path == link.path else ""
        entries += f'<a href="{up}{item.path}"{current}>{html(item.title)}</a>\n'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="stylesheet" href="{up}style.css">\n</head>\n'
        f"<body>\n<nav>\n{entries}</nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def section(key: str, title: str, parts: Iterable[str]) -> str:
    """A section with a stable address, ``#key``; ``parts`` and ``title`` are HTML."""
    inside = "".join(parts)
    head = f'<h2 id="{key}"><a href="#{key}">{html(title)}</a></h2>\n'
    return f"<section>\n{head}{inside}</section>\n"


def paragraph(text: str, css_class: str = "") -> str:
    """A text as a paragraph."""
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<p{attribute}>{html(text)}</p>\n"


def table(content: Table) -> str:
    """A table with all its rows."""
    return unstyled_html([content], None)


def folded(summary: str, inside: str) -> str:
    """What opens by a click; both as HTML."""
    return f"<details>\n<summary>{summary}</summary>\n{inside}</details>\n"


def commands(lines: Sequence[str]) -> str:
    """Commands to paste."""
    inside = "\n".join(map(html, lines))
    return f'<pre class="again" tabindex="0"><code>{inside}</code></pre>\n'


def anchor(href: str, text: str) -> str:
    """A link to an address, with a text."""
    return f'<a href="{html(href)}">{html(text)}</a>'
