"""Blocks as text: drawn for a terminal of some width, or as wide as they need for a pipe."""

from collections.abc import Sequence
from io import StringIO
from textwrap import fill
from typing import Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from colltool.render.parts import Block, Lines, Table


class Screen(NamedTuple):
    """Where text goes: ``width`` None is a pipe or a file."""

    width: int | None = None
    colour: bool = False
    unicode: bool = False


PIPE = Screen()
_GAP = 3  # a border and two spaces


def to_text(parts: Sequence[Block], screen: Screen = PIPE) -> str:
    """Every block, a blank line between; nothing is cut: columns that do not fit are left out and named."""
    drawn = [_table(part, screen) if isinstance(part, Table) else _lines(part, screen) for part in parts]
    return "\n".join(drawn)


def _console(width: int, screen: Screen) -> Console:
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


def _written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _widths(table: Table) -> list[int]:
    return [
        max(len(column.title), *(len(row[index].text) for row in table.rows), 1) for index, column in enumerate(table.columns)
    ]


def _kept(table: Table, width: int | None) -> list[int]:
    """The columns that fit, the least needed dropped first."""
    widths, kept = _widths(table), [i for i, column in enumerate(table.columns) if not column.hidden]
    while width is not None and sum(widths[i] + _GAP for i in kept) + 1 > width:
        droppable = [i for i in kept if table.columns[i].drop]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda i: table.columns[i].drop))
    return kept


def _table(table: Table, screen: Screen) -> str:
    kept, widths = _kept(table, screen.width), _widths(table)
    width = sum(widths[i] + _GAP for i in kept) + 1
    rich = RichTable(box=box.ROUNDED if screen.unicode else box.ASCII, show_edge=True, pad_edge=True, width=width)
    for index in kept:
        column = table.columns[index]
        side: Literal["left", "right"] = "right" if column.right else "left"
        rich.add_column(Text(column.title), justify=side, no_wrap=True, min_width=widths[index])
    for number, row in enumerate(table.rows):
        rich.add_row(*(Text(row[index].text) for index in kept), style="bold green" if number == table.best else None)
    console = _console(max(width, screen.width or 0), screen)
    if table.title:
        console.print(Text(table.title, style="bold"), soft_wrap=screen.width is None)
    console.print(rich)
    dropped = [column.title for index, column in enumerate(table.columns) if index not in kept and not column.hidden]
    if dropped:
        console.print(Text(f"columns left out for want of width: {'; '.join(dropped)}", style="dim"))
    return _written(console)


def _wrapped(line: str, width: int | None) -> str:
    """Indented; on a terminal its further lines more so, but what is indented already (a tree) stays as it is."""
    if width is None or len(line) + 2 <= width or line.startswith(" "):
        return f"  {line}" if line else ""
    return fill(line, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _lines(block: Lines, screen: Screen) -> str:
    console = _console(screen.width or 10_000, screen)
    if not block.lines:
        console.print(Text(block.title))
        return _written(console)
    console.print(Text(f"{block.title}:", style="bold"))
    for line in block.lines:
        console.print(Text(_wrapped(line, None if block.verbatim else screen.width)), soft_wrap=block.verbatim)
    return _written(console)
