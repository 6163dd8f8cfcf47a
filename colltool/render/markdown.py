"""Blocks as GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import printable
from colltool.render.blocks import Block, Headline, Lines, Picture, Strips, Table, in_brief
from colltool.render.escape import markdown
from colltool.render.text import drawn


def to_markdown(parts: Sequence[Block], *, everything: bool = True) -> str:
    """Tables as pipe tables, lists as bullets, drawings and commands as code.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds.
    """
    shown, left = (parts, []) if everything else in_brief(parts)
    return "\n".join([*map(_block, shown), *([f"`--all` adds {'; '.join(left)}\n"] if left else [])])


def _block(part: Block) -> str:
    match part:
        case Headline():
            return f"{markdown(part.text)}\n"
        case Table():
            return _table(part)
        case Lines():
            return _lines(part)
        case Strips():
            return _lines(drawn(part))
        case Picture():
            return _lines(part.instead)


def _table(table: Table) -> str:
    columns = table.shown
    lines = [f"**{markdown(table.title)}**", ""] if table.title else []
    lines.append(_line([markdown(column.title) for column in columns]))
    lines.append(_line(["---:" if column.right else ":---" for column in columns]))
    lines += [_line([markdown(column.text(record)) for column in columns]) for record in table.records]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(block: Lines) -> str:
    title = markdown(block.title)
    if not block.lines:
        return f"{title}\n"
    if block.as_drawn:
        return "\n".join([f"{title}:", "", *(f"    {printable(line)}" for line in block.lines)]) + "\n"
    return "\n".join([f"{title}:", "", *(f"- {markdown(line)}" for line in block.lines if line)]) + "\n"
