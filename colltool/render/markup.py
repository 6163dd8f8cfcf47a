"""Blocks as GitHub-flavoured Markdown, a self-contained HTML page, or an HTML fragment for a
notebook.

Text from files and users (names, notes, paths) is escaped where it is written, once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from colltool.base.errors import displayed
from colltool.render.blocks import Block, Column, Headline, Picture, Strips, Table, in_brief
from colltool.render.heat_map import heat_map_lines

# a "]" is markup only where it would end a link
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
    """Printable, with HTML escaped."""
    return escape(displayed(text))


def to_html(parts: Sequence[Block]) -> str:
    """A whole page."""
    titles = filter(None, map(_title, parts))
    title = html(next(titles, "colltool"))
    return _PAGE.format(title=title, style=_STYLE, body=unstyled_html(parts, most=None))


def _title(part: Block) -> str:
    """The title that a block gives to a page; may be empty."""
    match part:
        case Headline():
            return part.text.partition(". ")[0]
        case Strips():
            return ""
        case Picture():
            return part.instead.title
    return part.title


def to_fragment(parts: Sequence[Block]) -> str:
    """A fragment with its own style, at most :data:`MOST_ROWS` rows a table."""
    return f'<div class="colltool">\n<style>\n{_STYLE}</style>\n{unstyled_html(parts)}</div>\n'


def unstyled_html(parts: Sequence[Block], most: int | None = MOST_ROWS) -> str:
    """The blocks as HTML without a style sheet, tables with at most ``most`` rows."""
    return "".join(_html(part, most) for part in parts)


def _html(part: Block, most: int | None) -> str:
    """A block as HTML."""
    match part:
        case Headline():
            return f'<p class="answer">{html(part.text)}</p>\n'
        case Picture():
            return f'<div class="picture">{part.svg}</div>\n'
        case Table():
            return _html_table(part, most)
        case Strips():
            part = heat_map_lines(part)
    # what is left is a list
    title = html(part.title)
    if not part.lines:
        return f"<p>{title}</p>\n"
    if part.as_drawn:
        inside = "\n".join(map(html, part.lines))
        return f"<p>{title}:</p>\n<pre>{inside}</pre>\n"
    items = "".join(f"<li>{html(line)}</li>\n" for line in part.lines if line)
    return f"<p>{title}:</p>\n<ul>\n{items}</ul>\n"


def _html_table(table: Table, most: int | None) -> str:
    """A table as HTML."""
    head = "".join(_cell('th scope="col"', column, column.title) for column in table.shown)
    rows = ""
    for row, record in enumerate(table.records[:most]):
        best = ' class="best"' if row == table.best else ""
        cells = "".join(_cell("td", column, column.text(record)) for column in table.shown)
        rows += f"<tr{best}>{cells}</tr>\n"
    title = html(table.title)
    # the table scrolls in its own region, which the keyboard and screen readers can reach
    caption = f"<caption>{title}</caption>\n" if title else ""
    named = f' aria-label="{title}"' if title else ""
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>"
    out = f'<div class="scroll" tabindex="0" role="region"{named}>\n'
    out += f"<table>\n{caption}{body}\n</table>\n</div>\n"
    left = len(table.records) - len(table.records[:most])
    if left:
        out += f"<p>{left} more rows: to_columns() has them all</p>\n"
    return out


def _cell(tag: str, column: Column[Any], text: str) -> str:
    side = ' class="n"' if column.right else ""
    return f"<{tag}{side}>{html(text)}</{tag.partition(' ')[0]}>"


def markdown(text: str) -> str:
    """Printable, with Markdown markup escaped."""
    return _MARKDOWN.sub(r"\\\1", displayed(text))


def to_markdown(parts: Sequence[Block], *, everything: bool = True) -> str:
    """Tables as pipe tables, lists as bullets, drawings and commands as code.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds.
    """
    if everything:
        return "\n".join(map(_block, parts))
    shown, left = in_brief(parts)
    out = list(map(_block, shown))
    if left:
        out.append(f"`--all` adds {'; '.join(left)}\n")
    return "\n".join(out)


def _block(part: Block) -> str:
    """A block as Markdown."""
    match part:
        case Headline():
            return f"{markdown(part.text)}\n"
        case Table():
            return _markdown_table(part)
        case Strips():
            part = heat_map_lines(part)
        case Picture():
            part = part.instead
    title = markdown(part.title)
    if not part.lines:
        return f"{title}\n"
    if part.as_drawn:
        lines = [f"    {displayed(line)}" for line in part.lines]
    else:
        lines = [f"- {markdown(line)}" for line in part.lines if line]
    return "\n".join([f"{title}:", "", *lines]) + "\n"


def _markdown_table(table: Table) -> str:
    rows = [
        [markdown(column.title) for column in table.shown],
        ["---:" if column.right else ":---" for column in table.shown],
    ]
    for record in table.records:
        rows.append([markdown(column.text(record)) for column in table.shown])
    title = f"**{markdown(table.title)}**\n\n" if table.title else ""
    return title + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
