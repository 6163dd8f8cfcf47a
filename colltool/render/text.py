"""Blocks as plain text (:func:`to_text`), and guides for a terminal (:func:`to_guide`).

Tables are fitted to the terminal: titles are folded, the least needed columns dropped, wide texts
folded (:func:`fitting_columns`). Heat maps become lines of characters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from io import StringIO
from itertools import chain, zip_longest
from math import ceil
from operator import attrgetter
from textwrap import fill, wrap
from typing import Any, Literal, NamedTuple

from colltool.base.errors import displayed
from colltool.render.blocks import Block, Column, Headline, Lines, Picture, Strips, Table, in_brief
from colltool.render.busbw_chart import FURNITURE, LEAST_ROWS, MOST_ROWS, BusbwChart, ChartPen, draw

_LEAST_WIDTH = 20  # less is no width that anybody reads
PLAIN_WIDTH = 80  # characters of the default view in a pipe or file
_TRUNK = " |+-│├└─"  # characters that lines of a tree begin with
_BRANCH = re.compile(r"[^ |│]")
# ANSI styles
_BOLD = "1"
_DIM = "2"
_BEST = "1;32"
_COMMAND = "1;36"
_OUTPUT = "36"


class Screen(NamedTuple):
    """The output; a ``width`` of None is a pipe or file, and so is a ``height`` of None.

    ``fit``: what becomes of a table that is too wide. On a terminal it folds texts and drops
    columns. In a pipe each row is a line, so that grep and awk find it whole: it has the columns
    that a terminal of this width would show, ``wide`` as they are, or, where COLUMNS states a width,
    it drops columns until it fits.
    """

    width: int | None = None
    colour: bool = False
    unicode: bool = False
    fit: Literal["fold", "drop", "wide"] = "fold"
    height: int | None = None

    def paint(self, text: str, style: str) -> str:
        if not (self.colour and text and style):
            return text
        return f"\x1b[{style}m{text}\x1b[0m"


PIPE = Screen()


def stated_width() -> int | None:
    """The width that COLUMNS states, for output that no terminal measures. None for none."""
    stated = os.environ.get("COLUMNS", "")
    if not (stated.isascii() and stated.isdecimal()) or int(stated[:6]) < _LEAST_WIDTH:
        return None
    return int(stated[:6])


def to_text(
    parts: Sequence[Block],
    screen: Screen = PIPE,
    *,
    everything: bool = True,
    chart: BusbwChart | None = None,
    asked: bool = False,
) -> str:
    """All blocks, a blank line between; columns that do not fit follow in a second table.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds. The
    chart stands below the blocks: if it was ``asked`` for, or if both fit on the screen.
    """
    closing = ""
    if everything:
        out = [_block(part, screen, dropped=None) for part in parts]
    else:
        shown, left = in_brief(parts)
        dropped: list[str] = []
        out = [_block(part, screen, dropped) for part in shown]
        if dropped:
            left.append(f"columns: {', '.join(dict.fromkeys(dropped))}")
        if left:
            closing = _painted(f"--all adds {'; '.join(left)}", screen, _DIM)
    texts = [*out, closing] if closing else out
    rows = 0 if chart is None else chart_rows("\n".join(texts), screen, asked=asked)
    if chart is not None and rows:
        pen = ChartPen(screen.unicode, screen.colour)
        drawn = draw(chart, screen.width or PLAIN_WIDTH, rows, pen)
        texts.insert(len(out), "".join(f"{line}\n" for line in drawn))
    return "\n".join(texts)


def chart_rows(text: str, screen: Screen, *, asked: bool) -> int:
    """The rows of a chart below a text: as many as the screen has left; 0 for no chart."""
    if screen.height is None:
        return MOST_ROWS if asked else 0
    # an empty line before the chart, and the line of the next prompt
    left = screen.height - text.count("\n") - FURNITURE - 2
    if asked:
        left = max(left, LEAST_ROWS)
    return min(left, MOST_ROWS) if left >= LEAST_ROWS else 0


def _block(part: Block, screen: Screen, dropped: list[str] | None) -> str:
    """A block as lines of text."""
    match part:
        case Headline():
            return _painted(displayed(part.text), screen, _BOLD)
        case Table():
            return _table(part, screen, dropped)
        case Strips():
            part = heat_map_lines(part, screen.width, unicode=screen.unicode)
        case Picture():
            part = part.instead
            if not screen.unicode:
                part = part._replace(lines=[line.translate(_PLAIN_LINES) for line in part.lines])
    title = displayed(part.title)
    if not part.lines:
        return _painted(title, screen, "")
    width = None if part.verbatim else screen.width
    lines = "".join(f"{_wrapped(displayed(line), width)}\n" for line in part.lines)
    return _painted(f"{title}:", screen, _BOLD) + lines


def _painted(text: str, screen: Screen, style: str) -> str:
    lines = [text]
    if screen.width:
        lines = fill(text, screen.width, break_on_hyphens=False).splitlines()
    return "".join(f"{screen.paint(line, style)}\n" for line in lines)


def _wrapped(line: str, width: int | None) -> str:
    """A line of a list; the lines that continue a tree keep its trunk."""
    if width is None or len(line) + 2 <= width:
        return f"  {line}".rstrip()
    trunk = line[: len(line) - len(line.lstrip(_TRUNK))]
    indent = "  " + (_BRANCH.sub(" ", trunk) or "  ")
    return fill(
        line[len(trunk) :],
        max(width, len(indent) + 20),
        initial_indent=f"  {trunk}",
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


# --- tables: columns as drawn, those that fit, and their grid


def _table(table: Table, screen: Screen, dropped: list[str] | None) -> str:
    """A table as text.

    Columns that do not fit follow in further tables; with ``dropped`` they are left out, and their
    titles are added to it.
    """
    all_columns = render_columns(table)
    kept = fitting_columns(all_columns, screen.width, screen.fit)
    fitted = {rendered.column for rendered in kept}
    rest = [rendered for rendered in all_columns if rendered.column not in fitted]
    grids = [kept]
    if dropped is None:
        grids += continued(all_columns[0], rest, screen.width or 0)
    else:
        dropped += [rendered.column.title for rendered in rest]
    text = ""
    if table.title:
        text = _painted(displayed(table.title), screen, _BOLD)
    for columns in grids:
        text += _grid(columns, screen, table.best)
    return text


class _Border(NamedTuple):
    """The characters of a table: of each rule the left end, the crossing and the right end."""

    bar: str
    dash: str
    top: str
    middle: str
    bottom: str


_ASCII_BORDER = _Border("|", "-", "+-+", "|+|", "+-+")
_PLAIN_LINES = str.maketrans("╭╮╰╯─│═", "++++-|=")
"""A drawing in text for a screen without Unicode."""
_UNICODE_BORDER = _Border("│", "─", "╭┬╮", "├┼┤", "╰┴╯")


def _grid(columns: Sequence[RenderedColumn], screen: Screen, best: int | None) -> str:
    """A table with borders, as wide as its columns."""
    border = _UNICODE_BORDER if screen.unicode else _ASCII_BORDER
    dashes = [border.dash * (column.width + 2) for column in columns]
    titles = [column.title for column in columns]
    lines = [
        _rule(border.top, dashes),
        *_row(titles, columns, border.bar, screen, _BOLD),
        _rule(border.middle, dashes),
    ]
    rows = zip(*[column.cells for column in columns], strict=True)
    for row, cells in enumerate(rows):
        style = _BEST if row == best else ""
        lines += _row(cells, columns, border.bar, screen, style)
    lines += [_rule(border.bottom, dashes), ""]
    return "\n".join(lines)


def _rule(ends: str, dashes: Sequence[str]) -> str:
    return ends[0] + ends[1].join(dashes) + ends[2]


def _row(
    cells: Sequence[str], columns: Sequence[RenderedColumn], bar: str, screen: Screen, style: str
) -> Iterator[str]:
    """The lines of a table row, as many as its highest cell has."""
    # not splitlines, which has no line for an empty cell
    lines = [cell.split("\n") for cell in cells]
    for texts in zip_longest(*lines, fillvalue=""):
        sides = []
        for text, rendered in zip(texts, columns, strict=True):
            adjust = str.rjust if rendered.column.right else str.ljust
            sides.append(screen.paint(adjust(text, rendered.width), style))
        yield f"{bar} {f' {bar} '.join(sides)} {bar}"


_GAP = 3  # a border and two spaces
_LEAST_FOLD = 12  # characters; cells folded to less cannot be read
_USUAL_FOLD = 22  # characters of an algorithm's name on two lines
# An option stays on one line with its value: the space between is a NUL while text is wrapped.
_OPTION = re.compile(r"(--[\w-]+) (?=\S)")


class RenderedColumn(NamedTuple):
    """A column with the texts of its title and cells."""

    column: Column[Any]
    title: str
    cells: tuple[str, ...]
    width: int

    @property
    def longest_word(self) -> int:
        words = _OPTION.sub("\\1\0", "\n".join(self.cells)).split()
        return max(map(len, words), default=0)

    @property
    def width_with_folded_title(self) -> int:
        return max(map(len, (*self.cells, *self.title.split())), default=1)

    def with_folded_title(self) -> RenderedColumn:
        width = self.width_with_folded_title
        return self._replace(title=_folded_text(self.title, width), width=width)

    def folded(self, width: int) -> RenderedColumn:
        cells = tuple(_folded_text(cell, width) for cell in self.cells)
        return self._replace(title=_folded_text(self.title, width), cells=cells, width=width)


def _folded_text(text: str, width: int) -> str:
    kept = _OPTION.sub("\\1\0", text.replace("\n", " "))
    return "\n".join(wrap(kept, width, break_on_hyphens=False)).replace("\0", " ")


def render_columns(table: Table) -> list[RenderedColumn]:
    rendered = []
    for column in table.shown:
        title = displayed(column.title)
        cells = tuple(displayed(column.text(record)) for record in table.records)
        rendered.append(RenderedColumn(column, title, cells, max(map(len, (title, *cells)))))
    return rendered


def total_width(columns: Sequence[RenderedColumn]) -> int:
    """Characters with borders."""
    return sum(column.width + _GAP for column in columns) + 1


def fitting_columns(
    columns: Sequence[RenderedColumn], width: int | None, fit: str = "fold"
) -> list[RenderedColumn]:
    """The columns that fit a width. First titles are folded, then columns are dropped in the order
    of their ``drop``, then the widest texts are folded. For a pipe see :class:`Screen`."""
    if width is None or total_width(columns) <= width:
        return list(columns)
    if fit == "drop":
        columns = _needed(columns, width)
        if total_width(columns) <= width:
            return list(columns)
    folded = [column.with_folded_title() for column in columns]
    needed = _needed(list(map(_narrowest, folded)), width)
    fitted = {column.column for column in needed}
    if fit == "wide":
        return [column for column in columns if column.column in fitted]
    remaining = [column for column in folded if column.column in fitted]
    _fold_widest(remaining, width, whole_words=True)
    _fold_widest(remaining, width, whole_words=False)
    return remaining


def _narrowest(column: RenderedColumn) -> RenderedColumn:
    """The column at the least width at which it can be read."""
    fold = column.column.fold
    least = max(fold, column.longest_word) if fold else column.width
    return column._replace(width=min(column.width, least))


def _fold_widest(remaining: list[RenderedColumn], width: int, *, whole_words: bool) -> None:
    """Fold the widest texts in place until the columns fit, or nothing more can be folded."""
    for column in sorted(remaining, key=lambda column: -column.width):
        fewest = min(_LEAST_FOLD, column.column.fold or _LEAST_FOLD)
        if whole_words:
            fewest = max(fewest, column.longest_word)
        over = total_width(remaining) - width
        if over > 0 and not column.column.right and column.width > fewest:
            remaining[remaining.index(column)] = column.folded(max(fewest, column.width - over))


def continued(
    key: RenderedColumn, rest: Sequence[RenderedColumn], width: int
) -> list[list[RenderedColumn]]:
    """Further tables for the columns that did not fit, each beginning with the key column."""
    key = key.folded(min(key.width, _USUAL_FOLD))
    tables: list[list[RenderedColumn]] = []
    for column in rest:
        column = column.with_folded_title()
        if total_width([key, column]) > width and not column.column.right:
            column = column.folded(max(_LEAST_FOLD, width - total_width([key]) - _GAP))
        if not tables or total_width([*tables[-1], column]) > width:
            tables.append([key])
        tables[-1].append(column)
    return tables


def _needed(columns: Sequence[RenderedColumn], width: int) -> list[RenderedColumn]:
    """The columns that are left when those to drop first are dropped until the others fit."""
    remaining = list(columns)
    while total_width(remaining) > width and any(column.column.drop for column in remaining):
        remaining.remove(max(remaining, key=attrgetter("column.drop")))
    return remaining


def fitting(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """The table with the columns that fit a width after folding, and the titles of the others."""
    narrow = []
    for column in render_columns(table):
        widest = column.width_with_folded_title
        if not column.column.right:
            widest = min(widest, _USUAL_FOLD)
        narrow.append(column._replace(width=widest))
    kept = {column.column for column in _needed(narrow, width)}
    dropped = [column for column in table.shown if column not in kept]
    keys = [column.key for column in dropped]
    titles = [column.title for column in dropped]
    return table.without(*keys), tuple(titles)


# --- heat maps

ASCII = ".:-=+*#%@"
BLOCKS = "·▁▂▃▄▅▆▇█"
_WIDE = 200  # characters in a pipe or a file


def heat_map_lines(block: Strips, width: int | None = None, *, unicode: bool = False) -> Lines:
    """A heat map as lines with a legend; a character shows the busiest of the cells it stands for."""
    shades = BLOCKS if unicode else ASCII
    width = width or _WIDE
    names = [strip.name for strip in block.strips]
    label = max(map(len, names), default=0)
    room = max(8, width - label - 6)
    lines = []
    for strip in block.strips:
        merged = ceil(len(strip.cells) / room)
        text = f"{strip.name:<{label}}  "
        for start in range(0, len(strip.cells), merged):
            text += _shade(max(strip.cells[start : start + merged]), shades)
        links = strip.per_cell * merged
        each = f"  {links} links per character"
        if links > 1 and len(text + each) + 2 <= width:
            text += each
        lines.append(text)
    scale = f"'{shades[0]}' none, '{shades[1]}' to '{shades[-1]}' the hottest"
    return Lines(f"{block.what}, {scale} ({block.top})", lines, verbatim=True)


def _shade(cell: float, shades: str) -> str:
    if cell <= 0:
        return shades[0]
    # a share at the border of two steps belongs to the lower one, whatever its rounding
    step = int(cell * (len(shades) - 1) - 1e-9)
    return shades[1 + min(len(shades) - 2, step)]


# --- guides

_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
_GUIDE_WIDTH = 120  # characters; longer lines are hard to read


def to_guide(text: str, screen: Screen) -> str:
    """Markdown rendered for a terminal; unchanged on one without Unicode.

    Long commands are wrapped with a backslash, so that they can still be pasted.
    """
    if not screen.unicode:
        return text
    parts = _FENCED.split(_COMMENT.sub(r"`\1`:", text))
    shown = []
    for number, part in enumerate(parts):
        # the parts are prose and fenced in turn
        rendered_part = _verbatim(part, screen) if number % 2 else _prose(part, screen)
        if rendered_part.strip():
            shown.append(rendered_part)
    return "\n".join(shown)


def _prose(part: str, screen: Screen) -> str:
    """Markdown as text for a terminal."""
    # rich for Markdown alone: our tables drop and fold columns, which its tables do not
    from rich.console import Console
    from rich.markdown import Markdown

    file = StringIO()
    console = Console(
        file=file,
        width=min(screen.width or _GUIDE_WIDTH, _GUIDE_WIDTH),
        height=100,
        color_system="standard" if screen.colour else None,
        force_terminal=screen.colour,
        no_color=not screen.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Markdown(part))
    lines = map(str.rstrip, file.getvalue().splitlines())
    return "\n".join(lines).strip("\n") + "\n"


def _verbatim(part: str, screen: Screen) -> str:
    """Commands and their output; commands that are too long are wrapped."""
    lines = part.splitlines()
    indent = "  "
    if screen.width:
        room = screen.width - len(indent)
        # without a command it is the text of a file, which is not wrapped
        if any(line.startswith("$ ") for line in lines):
            lines = list(chain.from_iterable(map(partial(_in_pieces, width=room), lines)))
        if max(map(len, lines), default=0) > room:
            indent = ""
    out = ""
    for line in lines:
        style = _COMMAND if line.startswith("$ ") else _OUTPUT
        out += screen.paint(f"{indent}{line}".rstrip(), style) + "\n"
    return out


def _in_pieces(line: str, width: int) -> list[str]:
    """A command or output line in pieces that fit; table rows stay whole."""
    rest = line.lstrip()
    if len(line) <= width or rest[:1] in ("|", "+"):
        return [line]
    before = line[: len(line) - len(rest)]
    is_command = line.startswith("$ ")
    pieces = wrap(
        rest,
        width - 2 if is_command else width,
        initial_indent=before,
        subsequent_indent=f"{before}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not is_command:
        return pieces
    # so that the pieces can be pasted
    return [f"{piece} \\" for piece in pieces[:-1]] + pieces[-1:]
