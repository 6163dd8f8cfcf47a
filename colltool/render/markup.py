"""Blocks as GitHub-flavoured Markdown (:func:`to_markdown`), a self-contained HTML page
(:func:`to_html`), or an HTML fragment for a notebook (:func:`to_fragment`).

Text from files and users (names, notes, paths) is escaped where it is written, once: by :func:`html` or
:func:`markdown`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from colltool.base.errors import displayed
from colltool.render.blocks import Block, Column, Headline, Picture, Strips, Table, in_brief
from colltool.render.heat_map import heat_map_lines

# characters to escape; a "]" is markup only where it would end a link
_MARKDOWN = re.compile(r"([\\`*|<]|\](?=[(\[]))")
MOST_ROWS = 500  # of a table in a notebook: a browser is slow with the rows of a large sweep

_STYLE = """\
.colltool .scroll { overflow-x: auto; }
.colltool table { border-collapse: collapse; margin: 0.5em 0 1em; font-variant-numeric: tabular-nums; }
.colltool caption { text-align: left; font-weight: bold; padding-bottom: 0.3em; }
.colltool th, .colltool td { border: 1px solid #bbb; padding: 0.2em 0.6em; white-space: nowrap; text-align: left; }
.colltool .answer { font-weight: bold; }
.colltool .n { text-align: right; }
.colltool .best { font-weight: bold; }
.colltool .picture { width: fit-content; max-width: 100%; background: #fff; }
.colltool svg { max-width: 100%; height: auto; }
"""
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
{style}</style>
</head>
<body class="colltool">
{body}</body>
</html>
"""


def html(text: str) -> str:
    """Return a text on one line, in the audience's words, without control characters and with HTML escaped."""
    return escape(displayed(text))


def to_html(blocks: Sequence[Block]) -> str:
    """Return a whole page with all rows; its title is the first that a block gives."""
    titles = filter(None, map(_title, blocks))
    title = html(next(titles, "colltool"))
    return _PAGE.format(title=title, style=_STYLE, body=unstyled_html(blocks, most=None))


def _title(block: Block) -> str:
    """The title that a block gives to a page; may be empty."""
    match block:
        case Headline():
            return block.text.partition(". ")[0]
        case Strips():
            return ""
        case Picture():
            return block.instead.title
    return block.title


def to_fragment(blocks: Sequence[Block]) -> str:
    """Return a fragment with its own style, with at most :data:`MOST_ROWS` rows of each table."""
    return f'<div class="colltool">\n<style>\n{_STYLE}</style>\n{unstyled_html(blocks)}</div>\n'


def unstyled_html(blocks: Sequence[Block], most: int | None = MOST_ROWS) -> str:
    """The blocks as HTML without a style sheet, tables with at most ``most`` rows."""
    return "".join(_block_html(block, most) for block in blocks)


def _block_html(block: Block, most: int | None) -> str:
    """A block as HTML."""
    match block:
        case Headline():
            return f'<p class="answer">{html(block.text)}</p>\n'
        case Picture():
            return f'<div class="picture">{block.svg}</div>\n'
        case Table():
            return _html_table(block, most)
        case Strips():
            block = heat_map_lines(block)
    # what is left is a list
    title = html(block.title)
    if not block.lines:
        return f"<p>{title}</p>\n"
    if block.as_drawn:
        inside = "\n".join(map(html, block.lines))
        return f"<p>{title}:</p>\n<pre>{inside}</pre>\n"
    items = "".join(f"<li>{html(line)}</li>\n" for line in block.lines if line)
    return f"<p>{title}:</p>\n<ul>\n{items}</ul>\n"


def _html_table(table: Table, most: int | None) -> str:
    """A table as HTML."""
    head = "".join(_html_cell('th scope="col"', column, column.title) for column in table.shown)
    rows = ""
    for row, record in enumerate(table.records[:most]):
        best = ' class="best"' if row == table.best else ""
        cells = "".join(_html_cell("td", column, column.text(record)) for column in table.shown)
        rows += f"<tr{best}>{cells}</tr>\n"
    title = html(table.title)
    # the table scrolls in its own region, which the keyboard and screen readers can reach
    caption = f"<caption>{title}</caption>\n" if title else ""
    aria_label = f' aria-label="{title}"' if title else ""
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>"
    out = f'<div class="scroll" tabindex="0" role="region"{aria_label}>\n'
    out += f"<table>\n{caption}{body}\n</table>\n</div>\n"
    more = len(table.records) - len(table.records[:most])
    if more:
        out += f"<p>{more} more rows: to_columns() has them all</p>\n"
    return out


def _html_cell(tag: str, column: Column[Any], text: str) -> str:
    """A cell as HTML; ``tag`` is its element, which may have attributes."""
    side = ' class="n"' if column.right else ""
    return f"<{tag}{side}>{html(text)}</{tag.partition(' ')[0]}>"


def markdown(text: str) -> str:
    """Return a text as :func:`html` does, with Markdown's markup escaped instead."""
    return _MARKDOWN.sub(r"\\\1", displayed(text))


def to_markdown(blocks: Sequence[Block], *, everything: bool = True) -> str:
    """Tables as pipe tables, lists as bullets, drawings and commands as code.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds.
    """
    if everything:
        return "\n".join(map(_block_markdown, blocks))
    brief_blocks, left_out = in_brief(blocks)
    texts = list(map(_block_markdown, brief_blocks))
    if left_out:
        texts.append(f"`--all` adds {'; '.join(left_out)}\n")
    return "\n".join(texts)


def _block_markdown(block: Block) -> str:
    """A block as Markdown."""
    match block:
        case Headline():
            return f"{markdown(block.text)}\n"
        case Table():
            return _markdown_table(block)
        case Strips():
            block = heat_map_lines(block)
        case Picture():
            block = block.instead
    title = markdown(block.title)
    if not block.lines:
        return f"{title}\n"
    if block.as_drawn:
        lines = [f"    {displayed(line)}" for line in block.lines]
    else:
        lines = [f"- {markdown(line)}" for line in block.lines if line]
    return "\n".join([f"{title}:", "", *lines]) + "\n"


def _markdown_table(table: Table) -> str:
    """A table as a pipe table, under its title in bold."""
    rows = [
        [markdown(column.title) for column in table.shown],
        ["---:" if column.right else ":---" for column in table.shown],
    ]
    for record in table.records:
        rows.append([markdown(column.text(record)) for column in table.shown])
    title = f"**{markdown(table.title)}**\n\n" if table.title else ""
    return title + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
