"""Blocks as GitHub-flavoured Markdown, as a self-contained HTML page, or as an HTML fragment for a
notebook.

Foreign text (names, notes, paths) is escaped once, as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from colltool.base.errors import printable
from colltool.render.blocks import Block, Column, Headline, Picture, Strips, Table, in_brief
from colltool.render.text import drawn

_MARKDOWN = re.compile(r"([\\`*|<]|\](?=[(\[]))")
MOST_ROWS = 500  # of a table in a notebook, which would choke on a sweep

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
    return escape(printable(text))


def to_html(parts: Sequence[Block]) -> str:
    """A whole page."""
    named = [
        part.instead if isinstance(part, Picture) else part
        for part in parts
        if not isinstance(part, Strips)
    ]
    titles = [
        title
        for part in named
        if (title := part.text.partition(". ")[0] if isinstance(part, Headline) else part.title)
    ]
    return _PAGE.format(
        title=html(titles[0]) if titles else "colltool", style=_STYLE, body=bare(parts, None)
    )


def to_fragment(parts: Sequence[Block]) -> str:
    """A fragment with its own style, at most :data:`MOST_ROWS` rows a table."""
    return f'<div class="colltool">\n<style>\n{_STYLE}</style>\n{bare(parts)}</div>\n'


def bare(parts: Sequence[Block], most: int | None = MOST_ROWS) -> str:
    """The same without a style."""
    return "".join(_html(part, most) for part in parts)


def _html(part: Block, most: int | None) -> str:
    match part:
        case Headline():
            return f'<p class="answer">{html(part.text)}</p>\n'
        case Picture():
            return f'<div class="picture">{part.svg}</div>\n'
        case Table():
            return _html_table(part, most)
        case Strips():
            part = drawn(part)
    title = html(part.title)
    if not part.lines:
        return f"<p>{title}</p>\n"
    if part.as_drawn:
        inside = "\n".join(html(line) for line in part.lines)
        return f"<p>{title}:</p>\n<pre>{inside}</pre>\n"
    items = "".join(f"<li>{html(line)}</li>\n" for line in part.lines if line)
    return f"<p>{title}:</p>\n<ul>\n{items}</ul>\n"


def _html_table(table: Table, most: int | None) -> str:
    title, rows = html(table.title), []
    head = "".join(_cell('th scope="col"', column, column.title) for column in table.shown)
    for number, record in enumerate(table.records[:most]):
        cells = "".join(_cell("td", column, column.text(record)) for column in table.shown)
        best = ' class="best"' if number == table.best else ""
        rows.append(f"<tr{best}>{cells}</tr>\n")
    left = len(table.records) - len(rows)
    more = f"<p>{left} more rows: to_columns() has them all</p>\n" if left else ""
    caption, named = (
        (f"<caption>{title}</caption>\n", f' aria-label="{title}"') if title else ("", "")
    )
    whole = f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n</table>\n"
    return f'<div class="scroll" tabindex="0" role="region"{named}>\n{whole}</div>\n{more}'


def _cell(tag: str, column: Column, text: str) -> str:
    side = ' class="n"' if column.right else ""
    return f"<{tag}{side}>{html(text)}</{tag.partition(' ')[0]}>"


def markdown(text: str) -> str:
    """Printable, with Markdown markup escaped."""
    return _MARKDOWN.sub(r"\\\1", printable(text))


def to_markdown(parts: Sequence[Block], *, everything: bool = True) -> str:
    """Tables as pipe tables, lists as bullets, drawings and commands as code.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds.
    """
    shown, left = (parts, []) if everything else in_brief(parts)
    return "\n".join(
        [*map(_block, shown), *([f"`--all` adds {'; '.join(left)}\n"] if left else [])]
    )


def _block(part: Block) -> str:
    match part:
        case Headline():
            return f"{markdown(part.text)}\n"
        case Table():
            rows = [[markdown(column.title) for column in part.shown]]
            rows.append(["---:" if column.right else ":---" for column in part.shown])
            rows += [
                [markdown(column.text(record)) for column in part.shown] for record in part.records
            ]
            title = f"**{markdown(part.title)}**\n\n" if part.title else ""
            return title + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
        case Strips():
            part = drawn(part)
        case Picture():
            part = part.instead
    title = markdown(part.title)
    if not part.lines:
        return f"{title}\n"
    lines = [f"    {printable(line)}" for line in part.lines]
    if not part.as_drawn:
        lines = [f"- {markdown(line)}" for line in part.lines if line]
    return "\n".join([f"{title}:", "", *lines]) + "\n"
