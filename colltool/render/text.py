"""Blocks as text: fitted to a width, or as wide as they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from textwrap import fill
from typing import NamedTuple

from colltool.base.quoting import printable
from colltool.render.blocks import Block, Headline, Lines, Picture, Strips, Table, in_brief
from colltool.render.strips import drawn
from colltool.render.widths import Drawn, continued, drawn_columns, kept_columns

PLAIN_WIDTH = 80
"""Columns that the default view takes in a pipe or file."""
_TRUNK, _BRANCH = re.compile(r"[ |+\-│├└─]*"), re.compile(r"[^ |│]")
_BOLD, _DIM, _BEST = "1", "2", "1;32"


class Screen(NamedTuple):
    """Where text goes: ``width`` None is a pipe or a file."""

    width: int | None = None
    colour: bool = False
    unicode: bool = False

    def paint(self, text: str, style: str) -> str:
        """A line in an ANSI style, where there are colours."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and text and style else text


PIPE = Screen()


def to_text(parts: Sequence[Block], screen: Screen = PIPE, *, everything: bool = True) -> str:
    """Every block, a blank line between. Nothing is cut: columns that do not fit stand in a second table below.

    Without ``everything`` the default view: its last line says what ``--all`` adds, columns that do not fit among it.
    """
    if everything:
        return "\n".join(_block(part, screen, None) for part in parts)
    shown, left = in_brief(parts)
    columns: list[str] = []
    out = [_block(part, screen, columns) for part in shown]
    left += [f"columns: {', '.join(dict.fromkeys(columns))}"] if columns else []
    return "\n".join([*out, *([_painted(f"--all adds {'; '.join(left)}", screen, _DIM)] if left else [])])


def _block(part: Block, screen: Screen, dropped: list[str] | None) -> str:
    match part:
        case Headline():
            return _painted(printable(part.text), screen, _BOLD)
        case Table():
            return _table(part, screen, dropped)
        case Lines():
            return _lines(part, screen)
        case Strips():
            return _lines(drawn(part, screen.width, unicode=screen.unicode), screen)
        case Picture():
            return _lines(part.instead, screen)


def _painted(text: str, screen: Screen, style: str) -> str:
    """Prose, wrapped to the width."""
    lines = fill(text, screen.width, break_on_hyphens=False).splitlines() if screen.width else [text]
    return "".join(f"{screen.paint(line, style)}\n" for line in lines)


def _table(table: Table, screen: Screen, dropped: list[str] | None) -> str:
    """A table with its title; columns that do not fit go to ``dropped``, or below where that is None."""
    every = drawn_columns(table)
    kept = kept_columns(every, screen.width)
    there = {one.column for one in kept}
    rest = [one for one in every if one.column not in there]
    best = table.best
    out = [_painted(printable(table.title), screen, _BOLD), _grid(kept, screen, best)]
    if dropped is None:
        out += [_grid(part, screen, best) for part in continued(every[0], rest, screen.width or 0)]
    else:
        dropped += [one.column.title for one in rest]
    return "".join(out[not table.title :])


def _grid(columns: Sequence[Drawn], screen: Screen, best: int | None) -> str:
    bar, dash, (left, down, right), (first, cross, last), (low_left, up, low_right) = (
        ("│", "─", "╭┬╮", "├┼┤", "╰┴╯") if screen.unicode else ("|", "-", "+-+", "|+|", "+-+")
    )

    def row(cells: Sequence[str], style: str) -> list[str]:
        """A row of cells, on as many lines as its highest cell."""
        lines = []
        for texts in zip_longest(*(cell.split("\n") for cell in cells), fillvalue=""):
            sides = (text.rjust(one.width) if one.column.right else text.ljust(one.width)
                     for text, one in zip(texts, columns, strict=True))  # fmt: skip
            lines.append(f"{bar} {f' {bar} '.join(screen.paint(side, style) for side in sides)} {bar}")
        return lines

    def rule(start: str, between: str, end: str) -> str:
        return start + between.join(dash * (one.width + 2) for one in columns) + end

    body = [
        line
        for at, cells in enumerate(zip(*(one.cells for one in columns), strict=True))
        for line in row(cells, _BEST if at == best else "")
    ]
    head = row([one.title for one in columns], _BOLD)
    return "\n".join([rule(left, down, right), *head, rule(first, cross, last), *body, rule(low_left, up, low_right)]) + "\n"


def _lines(block: Lines, screen: Screen) -> str:
    title = printable(block.title)
    if not block.lines:
        return _painted(title, screen, "")
    wrapped = (_wrapped(printable(line), None if block.verbatim else screen.width) for line in block.lines)
    return _painted(f"{title}:", screen, _BOLD) + "".join(f"{line}\n" for line in wrapped)


def _wrapped(line: str, width: int | None) -> str:
    """Indented, its further lines more so; those of a tree stay beside its trunk."""
    if width is None or len(line) + 2 <= width:
        return f"  {line}".rstrip()
    lead = _TRUNK.match(line)[0]  # type: ignore[index]
    indent = "  " + _BRANCH.sub(" ", lead) + ("" if lead else "  ")
    return fill(line[len(lead) :], max(width, len(indent) + 20), initial_indent=f"  {lead}", subsequent_indent=indent,
                break_on_hyphens=False)  # fmt: skip
