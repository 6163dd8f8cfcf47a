"""Blocks as a self-contained HTML page, or as a fragment for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.render.blocks import Block, Column, Headline, Lines, Picture, Strips, Table
from colltool.render.escape import html
from colltool.render.text import drawn

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


def to_html(parts: Sequence[Block]) -> str:
    """A whole page."""
    named = [part.instead if isinstance(part, Picture) else part for part in parts if not isinstance(part, Strips)]
    titles = [title for part in named if (title := part.text.partition(". ")[0] if isinstance(part, Headline) else part.title)]
    body = "".join(_block(part, None) for part in parts)
    return _PAGE.format(title=html(titles[0]) if titles else "colltool", style=_STYLE, body=body)


def to_fragment(parts: Sequence[Block]) -> str:
    """A fragment with its own style, at most :data:`MOST_ROWS` rows a table."""
    return f'<div class="colltool">\n<style>\n{_STYLE}</style>\n{bare(parts)}</div>\n'


def bare(parts: Sequence[Block]) -> str:
    """The same without a style."""
    return "".join(_block(part, MOST_ROWS) for part in parts)


def _block(part: Block, most: int | None) -> str:
    match part:
        case Headline():
            return f'<p class="answer">{html(part.text)}</p>\n'
        case Table():
            return _table(part, most)
        case Lines():
            return _lines(part)
        case Strips():
            return _lines(drawn(part))
        case Picture():
            return f'<div class="picture">{part.svg}</div>\n'


def _table(table: Table, most: int | None) -> str:
    caption = f"<caption>{html(table.title)}</caption>\n" if table.title else ""
    head = "".join(_cell('th scope="col"', column, column.title) for column in table.shown)
    rows = "".join(_row(table, number, record) for number, record in enumerate(table.records[:most]))
    left = 0 if most is None else len(table.records) - most
    more = f"<p>{left} more rows: to_columns() has them all</p>\n" if left > 0 else ""
    whole = f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    named = f' aria-label="{html(table.title)}"' if table.title else ""
    return f'<div class="scroll" tabindex="0" role="region"{named}>\n{whole}</div>\n{more}'


def _row(table: Table, number: int, record: object) -> str:
    cells = "".join(_cell("td", column, column.text(record)) for column in table.shown)
    best = ' class="best"' if number == table.best else ""
    return f"<tr{best}>{cells}</tr>\n"


def _cell(tag: str, column: Column, text: str) -> str:
    side = ' class="n"' if column.right else ""
    return f"<{tag}{side}>{html(text)}</{tag.partition(' ')[0]}>"


def _lines(block: Lines) -> str:
    if not block.lines:
        return f"<p>{html(block.title)}</p>\n"
    if block.as_drawn:
        inside = "\n".join(html(line) for line in block.lines)
        return f"<p>{html(block.title)}:</p>\n<pre>{inside}</pre>\n"
    items = "".join(f"<li>{html(line)}</li>\n" for line in block.lines if line)
    return f"<p>{html(block.title)}:</p>\n<ul>\n{items}</ul>\n"
