"""Blocks as GitHub-flavoured Markdown, for a merge request or a design note."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.render.parts import Block, Lines, Table


def to_markdown(parts: Sequence[Block]) -> str:
    """Every block: tables as pipe tables, lists as bullets."""
    return "\n".join(_table(part) if isinstance(part, Table) else _lines(part) for part in parts)


def _table(table: Table) -> str:
    lines = [f"**{table.title}**", ""] if table.title else []
    shown = [index for index, column in enumerate(table.columns) if not column.hidden]
    lines.append(_line([_escape(table.columns[index].title) for index in shown]))
    lines.append(_line(["---:" if table.columns[index].right else ":---" for index in shown]))
    lines += [_line([_escape(row[index].text) for index in shown]) for row in table.rows]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _lines(block: Lines) -> str:
    if not block.lines:
        return f"{block.title}\n"
    bullets = [f"- {line}" for line in block.lines if line]
    return "\n".join([f"{block.title}:", "", *bullets]) + "\n"
