"""Blocks as text: drawn for a terminal of some width, or as wide as they need for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from textwrap import fill
from typing import Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from colltool.base.quoting import printable
from colltool.render.parts import Block, Lines, Picture, Strips, Table
from colltool.render.strips import drawn
from colltool.render.widths import Drawn, drawn_columns, kept_columns, total_width


class Screen(NamedTuple):
    """Where text goes: ``width`` None is a pipe or a file."""

    width: int | None = None
    colour: bool = False
    unicode: bool = False


PIPE = Screen()


def to_text(parts: Sequence[Block], screen: Screen = PIPE) -> str:
    """Every block, a blank line between; nothing is cut: columns that do not fit are left out and named."""
    return "\n".join(_block(part, screen) for part in parts)


def _block(part: Block, screen: Screen) -> str:
    match part:
        case Table():
            return _table(part, screen)
        case Lines():
            return _lines(part, screen)
        case Strips():
            return _lines(drawn(part, screen.width, unicode=screen.unicode), screen)
        case Picture():
            return _lines(part.instead, screen)


def console_of(width: int, screen: Screen) -> Console:
    """A console that writes into memory, as a screen shows it."""
    return Console(
        file=StringIO(),
        width=width,
        height=100,
        color_system="standard" if screen.colour else None,
        force_terminal=screen.colour,
        no_color=not screen.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def written(console: Console) -> str:
    """What was printed on such a console, without trailing blanks."""
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _table(table: Table, screen: Screen) -> str:
    everything = drawn_columns(table)
    if screen.width is None:
        return _piped(printable(table.title), everything)
    kept = kept_columns(everything, screen.width)
    width = total_width(kept)
    rich = RichTable(box=box.ROUNDED if screen.unicode else box.ASCII, show_edge=True, pad_edge=True, width=width)
    for one in kept:
        side: Literal["left", "right"] = "right" if one.column.right else "left"
        rich.add_column(Text(printable(one.column.title)), justify=side, no_wrap=True, min_width=one.width)
    for number in range(len(table.records)):
        rich.add_row(*(Text(one.cells[number]) for one in kept), style="bold green" if number == table.best else None)
    console = console_of(max(width, screen.width or 0), screen)
    if table.title:
        console.print(Text(printable(table.title), style="bold"))
    console.print(rich)
    there = {one.column for one in kept}
    dropped = [one.column.title for one in everything if one.column not in there]
    if dropped:
        console.print(Text(f"columns left out for want of width: {'; '.join(dropped)}", style="dim"))
    return written(console)


def _piped(title: str, columns: Sequence[Drawn]) -> str:
    """A table as it stands in a pipe: every column, plain ASCII. Rich takes half a millisecond a row to lay out no colours."""

    def row(cells: Sequence[str]) -> str:
        sides = (
            cell.rjust(one.width) if one.column.right else cell.ljust(one.width) for cell, one in zip(cells, columns, strict=True)
        )
        return f"| {' | '.join(sides)} |"

    edge = f"+{'-' * (total_width(columns) - 2)}+"
    head = row([printable(one.column.title) for one in columns])
    rule = f"|{'+'.join('-' * (one.width + 2) for one in columns)}|"
    body = [row(cells) for cells in zip(*(one.cells for one in columns), strict=True)]
    return "\n".join([*([title] if title else []), edge, head, rule, *body, edge]) + "\n"


def _wrapped(line: str, width: int | None) -> str:
    """Indented; on a terminal its further lines more so, but what is indented already (a tree) stays as it is."""
    if width is None or len(line) + 2 <= width or line.startswith(" "):
        return f"  {line}" if line else ""
    return fill(line, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _lines(block: Lines, screen: Screen) -> str:
    console = console_of(screen.width or 10_000, screen)
    if not block.lines:
        console.print(Text(printable(block.title)))
        return written(console)
    console.print(Text(f"{printable(block.title)}:", style="bold"))
    for line in block.lines:
        shown = _wrapped(printable(line), None if block.verbatim else screen.width)
        console.print(Text(shown), soft_wrap=block.verbatim)
    return written(console)
