"""Guides as HTML, with links to the guides that they name and stable addresses of their headings: a
page each (:func:`guide_files`), and passages of them on other pages (:func:`body_of`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from colltool.guides import TOPICS, read_guide
from colltool.render.site.frame import SiteLink, guide_link, page

# level and text of <h2>What a price counts</h2>
_HEADING = re.compile(r"<h([2-4])>(.*?)</h\1>")
# what an address leaves out of a heading: tags, entities such as &amp;, punctuation
_MARKUP = re.compile(r"<[^>]+>|&\w+;|[^\w\s-]")


def guide_title(topic: str) -> str:
    """The heading that a guide begins with."""
    text = read_guide(topic)
    first, _, _ = text.partition("\n")
    return first.removeprefix("# ")


def guide_files(menu: Sequence[SiteLink]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of the page of each guide."""
    for topic in TOPICS:
        title = guide_title(topic)
        link = guide_link(topic, title)
        # guides are beside each other
        body = body_of(read_guide(topic), "")
        text = page(link, title, body, menu)
        yield link.path, text


def body_of(markdown: str, up: str = "guides/") -> str:
    """Markdown as HTML; ``up``: the relative address of the folder of the guides, empty within it."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True})
    parser.enable("table")
    text = parser.render(markdown)
    for topic in TOPICS:
        # a guide that is named is a link to it
        name = f"<code>colltool guide {topic}</code>"
        link = f'<a href="{up}{topic}.html">{name}</a>'
        text = text.replace(name, link)
    # a wide table scrolls by itself
    text = text.replace("<table>", '<div class="scroll" tabindex="0">\n<table>')
    text = text.replace("</table>", "</table>\n</div>")
    return _HEADING.sub(_heading_with_address, text)


def _heading_with_address(heading: re.Match[str]) -> str:
    """A heading with an address, as GitHub gives it one: ``#what-a-price-counts``."""
    level, text = heading.groups()
    plain = _MARKUP.sub("", text)
    words = plain.lower().split()
    key = "-".join(words)
    return f'<h{level} id="{key}">{text}</h{level}>'
