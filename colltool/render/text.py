"""Blocks as plain text for a terminal, a pipe or a file (:func:`to_text`), which is what
``--format table`` prints.

Read from :func:`to_text`: it writes block after block, tables as grids of the columns that
:mod:`colltool.render.column_fit` leaves them, and a chart below them if there is room.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import fill
from typing import NamedTuple

from colltool.base.errors import displayed
from colltool.render.blocks import Block, Headline, Picture, Strips, Table, in_brief
from colltool.render.busbw_chart import FURNITURE, LEAST_ROWS, MOST_ROWS, BusbwChart, ChartPen, draw
from colltool.render.column_fit import (
    Fit,
    RenderedColumn,
    fitting_columns,
    further_tables,
    render_columns,
)
from colltool.render.heat_map import heat_map_lines

_LEAST_WIDTH = 20  # characters; a COLUMNS below it is no width that anybody reads
PLAIN_WIDTH = 80  # characters of the default view in a pipe or file
# ANSI styles
_BOLD = "1"
_DIM = "2"
_BEST_ROW = "1;32"  # bold green


class Screen(NamedTuple):
    """Where text goes: a terminal, or a pipe or file.

    ``fit`` says what becomes of a table that is too wide. ``fold``, for a terminal, folds texts and drops
    columns. In a pipe each row is a line, so that grep and awk find it whole: with ``wide`` a table has the
    columns that a terminal of this width would show, as wide as they are; with ``drop``, where COLUMNS
    states a width, it drops columns until it fits.
    """

    width: int | None = None  # characters of a line; None: as wide as the text
    colour: bool = False  # by ANSI escapes
    unicode: bool = False  # lines and shades beyond ASCII
    fit: Fit = "fold"
    height: int | None = None  # lines of a terminal; None in a pipe or file

    def paint(self, text: str, style: str) -> str:
        """The text in an ANSI style such as ``1;32``; as it is without colour or style."""
        if not (self.colour and text and style):
            return text
        return f"\x1b[{style}m{text}\x1b[0m"


PIPE = Screen()


def stated_width() -> int | None:
    """The characters of a line that the variable COLUMNS states, for output that no terminal
    measures. None if it states none, or fewer than can be read."""
    stated = os.environ.get("COLUMNS", "")
    if not (stated.isascii() and stated.isdecimal()):
        return None
    # six digits are enough, and Python refuses to read thousands of them
    width = int(stated[:6])
    return width if width >= _LEAST_WIDTH else None


def to_text(
    blocks: Sequence[Block],
    screen: Screen = PIPE,
    *,
    everything: bool = True,
    chart: BusbwChart | None = None,
    chart_requested: bool = False,
) -> str:
    """Write all blocks, a blank line between; columns that do not fit follow in further tables.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds. The
    chart stands between the blocks and that line: if it was requested, or if all fits on the screen.
    """
    left_out: list[str] = []
    if everything:
        texts = [_block_text(block, screen, dropped_titles=None) for block in blocks]
    else:
        brief_blocks, left_out = in_brief(blocks)
        dropped_titles: list[str] = []
        texts = [_block_text(block, screen, dropped_titles) for block in brief_blocks]
        if dropped_titles:
            left_out.append(f"columns: {', '.join(dict.fromkeys(dropped_titles))}")
    closing = []
    if left_out:
        closing.append(_painted_lines(f"--all adds {'; '.join(left_out)}", screen, _DIM))
    if chart is not None:
        lines_above = "\n".join([*texts, *closing]).count("\n")
        rows = _chart_rows(lines_above, screen, is_requested=chart_requested)
        if rows:
            pen = ChartPen(screen.unicode, screen.colour)
            lines = draw(chart, screen.width or PLAIN_WIDTH, rows, pen)
            texts.append("\n".join([*lines, ""]))
    return "\n".join([*texts, *closing])


def _chart_rows(lines_above: int, screen: Screen, *, is_requested: bool) -> int:
    """The rows of a chart's area below so many lines of text: as many as the screen has room for;
    0 for no chart."""
    if screen.height is None:
        return MOST_ROWS if is_requested else 0
    # an empty line before the chart, and the line of the next prompt
    room = screen.height - lines_above - FURNITURE - 2
    if is_requested:
        room = max(room, LEAST_ROWS)
    return min(room, MOST_ROWS) if room >= LEAST_ROWS else 0


def _block_text(block: Block, screen: Screen, dropped_titles: list[str] | None) -> str:
    """A block as lines of text; ``dropped_titles`` as in :func:`_table_text`."""
    match block:
        case Headline():
            return _painted_lines(displayed(block.text), screen, _BOLD)
        case Table():
            return _table_text(block, screen, dropped_titles)
        case Strips():
            block = heat_map_lines(block, screen.width, unicode=screen.unicode)
        case Picture():
            block = block.instead
            if not screen.unicode:
                block = block._replace(lines=[line.translate(_TO_ASCII) for line in block.lines])
    # what is left is a list; one without lines is a sentence
    title = displayed(block.title)
    if not block.lines:
        return _painted_lines(title, screen, "")
    width = None if block.verbatim else screen.width
    lines = "".join(f"{_list_line(displayed(line), width)}\n" for line in block.lines)
    return _painted_lines(f"{title}:", screen, _BOLD) + lines


def _painted_lines(text: str, screen: Screen, style: str) -> str:
    """A text in a style as one or more whole lines, wrapped to the screen."""
    lines = [text]
    if screen.width:
        lines = fill(text, screen.width, break_on_hyphens=False).splitlines()
    return "".join(f"{screen.paint(line, style)}\n" for line in lines)


_TRUNK = " |+-│├└─"  # characters that lines of a tree begin with: its trunk and branches
# what is blank where an entry of a tree goes on in a further line: "│ ├─ " becomes "│    "
_BRANCH = re.compile(r"[^ |│]")
_LEAST_TEXT = 20  # characters beside the trunk, even where the line is then too wide


def _list_line(line: str, width: int | None) -> str:
    """A line of a list, indented; the lines that continue one of a tree keep its trunk."""
    if width is None or len(line) + 2 <= width:
        return f"  {line}".rstrip()
    text = line.lstrip(_TRUNK)
    trunk = line[: len(line) - len(text)]
    indent = "  " + (_BRANCH.sub(" ", trunk) or "  ")
    return fill(
        text,
        max(width, len(indent) + _LEAST_TEXT),
        initial_indent=f"  {trunk}",
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


# --- tables


def _table_text(table: Table, screen: Screen, dropped_titles: list[str] | None) -> str:
    """A table as text.

    Columns that do not fit follow in further tables; with a list of ``dropped_titles`` they are left
    out, and their titles are added to it.
    """
    all_columns = render_columns(table)
    columns = fitting_columns(all_columns, screen.width, screen.fit)
    fitting = {rendered.column for rendered in columns}
    dropped = [rendered for rendered in all_columns if rendered.column not in fitting]
    grids = [columns]
    if dropped_titles is not None:
        dropped_titles += [rendered.column.title for rendered in dropped]
    else:
        # without a width nothing is dropped
        grids += further_tables(all_columns[0], dropped, screen.width or 0)
    text = ""
    if table.title:
        text = _painted_lines(displayed(table.title), screen, _BOLD)
    for grid in grids:
        text += _grid(grid, screen, table.best)
    return text


class _Border(NamedTuple):
    """The characters of a table: of each rule the left end, the crossing and the right end."""

    bar: str
    dash: str
    top: str
    middle: str
    bottom: str


_ASCII_BORDER = _Border("|", "-", "+-+", "|+|", "+-+")
_UNICODE_BORDER = _Border("│", "─", "╭┬╮", "├┼┤", "╰┴╯")
# lines of drawings, for a screen without Unicode
_TO_ASCII = str.maketrans("╭╮╰╯─│═", "++++-|=")


def _grid(columns: Sequence[RenderedColumn], screen: Screen, best_row: int | None) -> str:
    """Columns with borders and titles, as wide as they are; the best row is highlighted."""
    border = _UNICODE_BORDER if screen.unicode else _ASCII_BORDER
    dashes = [border.dash * (rendered.width + 2) for rendered in columns]
    titles = [rendered.title for rendered in columns]
    lines = [
        _rule(border.top, dashes),
        *_row_lines(titles, columns, border.bar, screen, _BOLD),
        _rule(border.middle, dashes),
    ]
    rows = zip(*[rendered.cells for rendered in columns], strict=True)
    for number, cells in enumerate(rows):
        style = _BEST_ROW if number == best_row else ""
        lines += _row_lines(cells, columns, border.bar, screen, style)
    lines += [_rule(border.bottom, dashes), ""]
    return "\n".join(lines)


def _rule(ends: str, dashes: Sequence[str]) -> str:
    """A line between rows; ``ends`` as in :class:`_Border`."""
    return ends[0] + ends[1].join(dashes) + ends[2]


def _row_lines(
    cells: Sequence[str], columns: Sequence[RenderedColumn], bar: str, screen: Screen, style: str
) -> Iterator[str]:
    """The lines of a table row, as many as its highest cell has."""
    # not splitlines, which has no line for an empty cell
    lines_of_cells = [cell.split("\n") for cell in cells]
    for texts in zip_longest(*lines_of_cells, fillvalue=""):
        painted = []
        for text, rendered in zip(texts, columns, strict=True):
            adjust = str.rjust if rendered.column.right else str.ljust
            painted.append(screen.paint(adjust(text, rendered.width), style))
        yield f"{bar} {f' {bar} '.join(painted)} {bar}"
