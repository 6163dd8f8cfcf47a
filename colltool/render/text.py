"""Blocks as plain text, fitted to a terminal or as wide as they need; guides likewise, with
commands and output as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from itertools import zip_longest
from math import ceil
from textwrap import fill, wrap
from typing import NamedTuple

from colltool.base.errors import printable
from colltool.render.blocks import Block, Column, Headline, Lines, Picture, Strips, Table, in_brief

PLAIN_WIDTH = 80  # characters of the default view in a pipe or file
_TRUNK, _BRANCH = re.compile(r"[ |+\-│├└─]*"), re.compile(r"[^ |│]")
_BOLD, _DIM, _BEST = "1", "2", "1;32"


class Screen(NamedTuple):
    """The output; a ``width`` of None is a pipe or file."""

    width: int | None = None
    colour: bool = False
    unicode: bool = False

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and text and style else text


PIPE = Screen()


def to_text(parts: Sequence[Block], screen: Screen = PIPE, *, everything: bool = True) -> str:
    """All blocks, a blank line between; columns that do not fit follow in a second table.

    Without ``everything`` it is the default view, whose last line says what ``--all`` adds.
    """
    if everything:
        return "\n".join(_block(part, screen, None) for part in parts)
    shown, left = in_brief(parts)
    columns: list[str] = []
    out = [_block(part, screen, columns) for part in shown]
    left += [f"columns: {', '.join(dict.fromkeys(columns))}"] if columns else []
    return "\n".join(
        [*out, *([_painted(f"--all adds {'; '.join(left)}", screen, _DIM)] if left else [])]
    )


def _block(part: Block, screen: Screen, dropped: list[str] | None) -> str:
    match part:
        case Headline():
            return _painted(printable(part.text), screen, _BOLD)
        case Table():
            return _table(part, screen, dropped)
        case Strips():
            part = drawn(part, screen.width, unicode=screen.unicode)
        case Picture():
            part = part.instead
    title = printable(part.title)
    if not part.lines:
        return _painted(title, screen, "")
    wrapped = (
        _wrapped(printable(line), None if part.verbatim else screen.width) for line in part.lines
    )
    return _painted(f"{title}:", screen, _BOLD) + "".join(f"{line}\n" for line in wrapped)


def _painted(text: str, screen: Screen, style: str) -> str:
    lines = (
        fill(text, screen.width, break_on_hyphens=False).splitlines() if screen.width else [text]
    )
    return "".join(f"{screen.paint(line, style)}\n" for line in lines)


def _table(table: Table, screen: Screen, dropped: list[str] | None) -> str:
    every = drawn_columns(table)
    kept = kept_columns(every, screen.width)
    there = {one.column for one in kept}
    rest = [one for one in every if one.column not in there]
    grids = [kept]
    if dropped is None:
        grids += continued(every[0], rest, screen.width or 0)
    else:
        dropped += [one.column.title for one in rest]
    title = _painted(printable(table.title), screen, _BOLD) if table.title else ""
    return title + "".join(_grid(columns, screen, table.best) for columns in grids)


def _grid(columns: Sequence[Drawn], screen: Screen, best: int | None) -> str:
    bar, dash, (left, down, right), (first, cross, last), (low_left, up, low_right) = (
        ("│", "─", "╭┬╮", "├┼┤", "╰┴╯") if screen.unicode else ("|", "-", "+-+", "|+|", "+-+")
    )

    def row(cells: Sequence[str], style: str) -> list[str]:
        lines = []
        for texts in zip_longest(*(cell.split("\n") for cell in cells), fillvalue=""):
            sides = (
                text.rjust(one.width) if one.column.right else text.ljust(one.width)
                for text, one in zip(texts, columns, strict=True)
            )
            lines.append(
                f"{bar} {f' {bar} '.join(screen.paint(side, style) for side in sides)} {bar}"
            )
        return lines

    def rule(start: str, between: str, end: str) -> str:
        return start + between.join(dash * (one.width + 2) for one in columns) + end

    rows = enumerate(zip(*(one.cells for one in columns), strict=True))
    body = [line for at, cells in rows for line in row(cells, _BEST if at == best else "")]
    head = row([one.title for one in columns], _BOLD)
    return (
        "\n".join(
            [
                rule(left, down, right),
                *head,
                rule(first, cross, last),
                *body,
                rule(low_left, up, low_right),
            ]
        )
        + "\n"
    )


def _wrapped(line: str, width: int | None) -> str:
    # continuation lines of a tree keep its trunk
    if width is None or len(line) + 2 <= width:
        return f"  {line}".rstrip()
    lead = _TRUNK.match(line)[0]  # type: ignore[index]
    indent = "  " + _BRANCH.sub(" ", lead) + ("" if lead else "  ")
    return fill(
        line[len(lead) :],
        max(width, len(indent) + 20),
        initial_indent=f"  {lead}",
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


_GAP = 3  # a border and two spaces
_LEAST_FOLD = 12  # characters; cells folded to less cannot be read
_USUAL_FOLD = 22  # characters of an algorithm's name on two lines
_TYPED = re.compile(r"(--[\w-]+) (?=\S)")  # an option, which stays on one line with its value


class Drawn(NamedTuple):
    """A column with the texts of its title and cells."""

    column: Column
    title: str
    cells: tuple[str, ...]
    width: int


def drawn_columns(table: Table) -> list[Drawn]:
    found = []
    for column in table.shown:
        title, *cells = map(
            printable, (column.title, *(column.text(record) for record in table.records))
        )
        found.append(Drawn(column, title, tuple(cells), max(map(len, (title, *cells)))))
    return found


def total_width(columns: Sequence[Drawn]) -> int:
    """Characters with borders."""
    return sum(one.width + _GAP for one in columns) + 1


def kept_columns(columns: Sequence[Drawn], width: int | None) -> list[Drawn]:
    """The columns that fit: first titles are folded, then columns dropped in their order, then the
    widest texts folded."""
    if width is None or total_width(columns) <= width:
        return list(columns)
    folded = [_with_folded_title(one) for one in columns]
    least = (
        max(one.column.fold, _longest_word(one)) if one.column.fold else one.width for one in folded
    )
    narrowest = [
        one._replace(width=min(one.width, width)) for one, width in zip(folded, least, strict=True)
    ]
    there = {one.column for one in _needed(narrowest, width)}
    kept = [one for one in folded if one.column in there]
    for whole in (True, False):  # words are broken only if nothing else helps
        for one in sorted(kept, key=lambda one: -one.width):
            floor = min(_LEAST_FOLD, one.column.fold or _LEAST_FOLD)
            over, fewest = total_width(kept) - width, max(floor, _longest_word(one) if whole else 0)
            if over > 0 and not one.column.right and one.width > fewest:
                kept[kept.index(one)] = _folded(one, max(fewest, one.width - over))
    return kept


def _longest_word(one: Drawn) -> int:
    return max(
        (len(word) for cell in one.cells for word in _TYPED.sub("\\1\0", cell).split()), default=0
    )


def continued(key: Drawn, rest: Sequence[Drawn], width: int) -> list[list[Drawn]]:
    """Further tables for the columns that did not fit, each beginning with the key column."""
    key = _folded(key, min(key.width, _USUAL_FOLD))
    tables: list[list[Drawn]] = []
    for one in map(_with_folded_title, rest):
        if total_width([key, one]) > width and not one.column.right:
            one = _folded(one, max(_LEAST_FOLD, width - total_width([key]) - _GAP))
        if not tables or total_width([*tables[-1], one]) > width:
            tables.append([key])
        tables[-1].append(one)
    return tables


def _needed(columns: Sequence[Drawn], width: int) -> list[Drawn]:
    kept = list(columns)
    while total_width(kept) > width and any(one.column.drop for one in kept):
        kept.remove(max(kept, key=lambda one: one.column.drop))
    return kept


def _with_folded_title(one: Drawn) -> Drawn:
    width = max(map(len, (*one.cells, *one.title.split())), default=1)
    return one._replace(title=_broken(one.title, width), width=width)


def _folded(one: Drawn, width: int) -> Drawn:
    return one._replace(
        title=_broken(one.title, width),
        cells=tuple(_broken(cell, width) for cell in one.cells),
        width=width,
    )


def _broken(text: str, width: int) -> str:
    kept = _TYPED.sub("\\1\0", text.replace("\n", " "))
    return "\n".join(wrap(kept, width, break_on_hyphens=False)).replace("\0", " ")


def fitting(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """The table with the columns that fit a width after folding, and the titles of the others."""
    narrow = []
    for one in drawn_columns(table):
        widest = max(map(len, (*one.cells, *one.column.title.split())), default=1)
        narrow.append(one._replace(width=widest if one.column.right else min(widest, _USUAL_FOLD)))
    kept = [one.column for one in _needed(narrow, width)]
    dropped = [column for column in table.shown if column not in kept]
    return table.without(*(column.key for column in dropped)), tuple(
        column.title for column in dropped
    )


ASCII = ".:-=+*#%@"
BLOCKS = "·▁▂▃▄▅▆▇█"
_WIDE = 200  # characters in a pipe or a file


def drawn(block: Strips, width: int | None = None, *, unicode: bool = False) -> Lines:
    """Strips as lines, with a legend of the shades; cells that share a character show the busiest
    of them."""
    shades = BLOCKS if unicode else ASCII
    label = max((len(strip.name) for strip in block.strips), default=0)
    room = max(8, (width or _WIDE) - label - 6)
    lines = []
    for strip in block.strips:
        merged = ceil(len(strip.cells) / room)
        cells = [
            max(strip.cells[start : start + merged]) for start in range(0, len(strip.cells), merged)
        ]
        text = f"{strip.name:<{label}}  {''.join(_shade(cell, shades) for cell in cells)}"
        each = (
            f"  {strip.per_cell * merged} links a character" if strip.per_cell * merged > 1 else ""
        )
        lines.append(text + each if len(text + each) + 2 <= (width or _WIDE) else text)
    scale = f"'{shades[0]}' none, '{shades[1]}' to '{shades[-1]}' the hottest"
    return Lines(f"{block.what}, {scale} ({block.top})", tuple(lines), verbatim=True)


def _shade(cell: float, shades: str) -> str:
    return (
        shades[0]
        if cell <= 0
        else shades[1 + min(len(shades) - 2, int(cell * (len(shades) - 1) - 1e-9))]
    )


_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
_GUIDE_WIDTH = 120  # characters; longer lines are hard to read
_COMMAND, _OUTPUT = "1;36", "36"


def to_guide(text: str, screen: Screen) -> str:
    """Markdown rendered for a terminal; unchanged on one without Unicode.

    Long commands are wrapped with a backslash, so that they can still be pasted.
    """
    if not screen.unicode:
        return text
    parts = _FENCED.split(_COMMENT.sub(r"`\1`:", text))  # prose and fenced in turn
    drawn = [
        _verbatim(part, screen) if number % 2 else _prose(part, screen)
        for number, part in enumerate(parts)
    ]
    return "\n".join(part for part in drawn if part.strip())


def _prose(part: str, screen: Screen) -> str:
    from rich.console import Console
    from rich.markdown import Markdown

    file, width = StringIO(), min(screen.width or _GUIDE_WIDTH, _GUIDE_WIDTH)
    console = Console(
        file=file,
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
    console.print(Markdown(part))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n") + "\n"


def _verbatim(part: str, screen: Screen) -> str:
    lines = part.splitlines()
    if screen.width and any(line.startswith("$ ") for line in lines):
        lines = [piece for line in lines for piece in _in_pieces(line, screen.width - 2)]
    indent = "" if screen.width and max(map(len, lines), default=0) > screen.width - 2 else "  "
    painted = (
        screen.paint(f"{indent}{line}".rstrip(), _COMMAND if line.startswith("$ ") else _OUTPUT)
        for line in lines
    )
    return "".join(f"{line}\n" for line in painted)


def _in_pieces(line: str, width: int) -> list[str]:
    """A command or output line in pieces that fit; table rows stay whole."""
    if len(line) <= width or line.lstrip()[:1] in ("|", "+"):
        return [line]
    command, rest = line.startswith("$ "), line.lstrip()
    before = line[: len(line) - len(rest)]
    more = f"{before}    "
    pieces = wrap(
        rest,
        width - 2 * command,
        initial_indent=before,
        subsequent_indent=more,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [f"{piece} \\" for piece in pieces[:-1]] + pieces[-1:] if command else pieces
