"""Blocks as text: fitted to a width, or as wide as they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from math import ceil
from textwrap import fill, wrap
from typing import NamedTuple

from colltool.base.quoting import printable
from colltool.render.blocks import Block, Column, Headline, Lines, Picture, Strip, Strips, Table, in_brief

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


_GAP = 3  # a border and two spaces
_LEAST_FOLD = 12
"""Characters: a cell folded to less cannot be read."""
_USUAL_FOLD = 22
"""Characters: what an algorithm's name takes on two lines."""


_TYPED = re.compile(r"(--[\w-]+) (?=\S)")
"""An option before its value: what is to be typed is never torn apart."""


class Drawn(NamedTuple):
    """A column with its heading and the texts of its cells as they are drawn, and how wide."""

    column: Column
    title: str
    cells: tuple[str, ...]
    width: int


def drawn_columns(table: Table) -> list[Drawn]:
    """The columns that people see, as wide as their widest cell."""
    found = []
    for column in table.shown:
        title, cells = printable(column.title), tuple(printable(column.text(record)) for record in table.records)
        found.append(Drawn(column, title, cells, max(map(len, (title, *cells)))))
    return found


def total_width(columns: Sequence[Drawn]) -> int:
    """Characters that they take with their borders."""
    return sum(one.width + _GAP for one in columns) + 1


def kept_columns(columns: Sequence[Drawn], width: int | None) -> list[Drawn]:
    """The columns that fit: headings folded between words, then the least needed dropped, then the texts of the widest folded."""
    if width is None or total_width(columns) <= width:
        return list(columns)
    folded = [_with_folded_title(one) for one in columns]
    there = {one.column for one in _needed([one._replace(width=_least(one)) for one in folded], width)}
    kept = [one for one in folded if one.column in there]
    for whole in (True, False):  # words are torn only where nothing else helps
        for one in sorted(kept, key=lambda one: -one.width):
            floor = min(_LEAST_FOLD, one.column.fold or _LEAST_FOLD)
            over, least = total_width(kept) - width, max(floor, _longest_word(one) if whole else 0)
            if over > 0 and not one.column.right and one.width > least:
                kept[kept.index(one)] = _folded(one, max(least, one.width - over))
    return kept


def _longest_word(one: Drawn) -> int:
    return max((len(word) for cell in one.cells for word in _TYPED.sub("\\1\0", cell).split()), default=0)


def _least(one: Drawn) -> int:
    """The width to which a column is folded before another is dropped."""
    return min(one.width, max(one.column.fold, _longest_word(one))) if one.column.fold else one.width


def continued(key: Drawn, rest: Sequence[Drawn], width: int) -> list[list[Drawn]]:
    """Columns that found no room, a list for each further table, all beginning with the key that tells rows apart."""
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
    """Without the least needed, until they fit."""
    kept = list(columns)
    while total_width(kept) > width and any(one.column.drop for one in kept):
        kept.remove(max(kept, key=lambda one: one.column.drop))
    return kept


def _with_folded_title(one: Drawn) -> Drawn:
    width = max(map(len, (*one.cells, *one.title.split())), default=1)
    return one._replace(title=_broken(one.title, width), width=width)


def _folded(one: Drawn, width: int) -> Drawn:
    return one._replace(title=_broken(one.title, width), cells=tuple(_broken(cell, width) for cell in one.cells), width=width)


def _broken(text: str, width: int) -> str:
    kept = _TYPED.sub("\\1\0", text.replace("\n", " "))
    return "\n".join(wrap(kept, width, break_on_hyphens=False)).replace("\0", " ")


def fitting(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """A table with the columns that fit so many characters once headings and long texts are folded; the titles of the others."""
    kept = [one.column for one in _needed([_as_narrow(one) for one in drawn_columns(table)], width)]
    dropped = [column for column in table.shown if column not in kept]
    return table.without(*(column.key for column in dropped)), tuple(column.title for column in dropped)


def _as_narrow(one: Drawn) -> Drawn:
    """A column as wide as it has to be: numbers stay whole, headings are folded between words, texts where they are long."""
    widest = max(map(len, (*one.cells, *one.column.title.split())), default=1)
    return one._replace(width=widest if one.column.right else min(widest, _USUAL_FOLD))


ASCII = ".:-=+*#%@"
BLOCKS = "·▁▂▃▄▅▆▇█"
_WIDE = 200
"""Columns where nobody says how wide it is: a pipe or a file."""


def drawn(block: Strips, width: int | None = None, *, unicode: bool = False) -> Lines:
    """The strips as lines, and what the shades mean, whether the screen is dark or light."""
    shades = BLOCKS if unicode else ASCII
    scale = f"'{shades[0]}' none, '{shades[1]}' to '{shades[-1]}' the hottest"
    return Lines(f"{block.what}, {scale} ({block.top})", tuple(_strip_lines(block.strips, width, shades)), verbatim=True)


def _strip_lines(strips: tuple[Strip, ...], width: int | None, shades: str) -> list[str]:
    """Where neighbouring cells share a character, the busiest is seen."""
    label = max((len(strip.name) for strip in strips), default=0)
    room = max(8, (width or _WIDE) - label - 6)
    out = []
    for strip in strips:
        merged = ceil(len(strip.cells) / room)
        cells = [max(strip.cells[start : start + merged]) for start in range(0, len(strip.cells), merged)]
        text = f"{strip.name:<{label}}  {''.join(_shade(cell, shades) for cell in cells)}"
        each = f"  {strip.per_cell * merged} links a character" if strip.per_cell * merged > 1 else ""
        out.append(text + each if len(text + each) + 2 <= (width or _WIDE) else text)
    return out


def _shade(cell: float, shades: str) -> str:
    """The first shade is no load at all, the last the hottest."""
    return shades[0] if cell <= 0 else shades[1 + min(len(shades) - 2, int(cell * (len(shades) - 1) - 1e-9))]
