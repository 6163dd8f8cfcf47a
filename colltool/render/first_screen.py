"""What fits the first screen: a terminal of the usual size, for which the default views of ``compare``
and ``sweep`` are cut. Lengths are in lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

from colltool.render.blocks import Block, Lines

# a terminal of the usual size, in characters and lines
WIDTH = 80
HEIGHT = 24
_MOST_ROWS = 12  # of the table, however short the rest is
_FRAME = 8  # lines: borders and titles of a table, blanks around it, and the one that names --all
_INDENT = 2  # characters before a line of a list
_LIST_FRAME = 2  # lines: the title of a list and the blank before it


def height(text: str, width: int = WIDTH) -> int:
    """The lines of a text that is wrapped to a width."""
    return len(fill(text, width, break_on_hyphens=False).splitlines())


def rows_that_fit(lines_above: int) -> int:
    """How many rows of a table fit below so many lines; one at least."""
    return max(1, min(_MOST_ROWS, HEIGHT - _FRAME - lines_above))


def lists_that_fit(
    lists: Iterable[tuple[str, Sequence[str]]], lines_above: int, rows: int
) -> list[Block]:
    """Lists, each given as title and lines, below the rows of a table; empty lists are left out.

    Each list has as many lines in the default view as the lists before it leave room for; the others
    are for --all.
    """
    room = HEIGHT - _FRAME - lines_above - min(rows, _MOST_ROWS)
    blocks: list[Block] = []
    for title, lines in lists:
        used = _LIST_FRAME
        first = 0
        for line in lines:
            needed = height(line, WIDTH - _INDENT)
            if used + needed > room:
                break
            used += needed
            first += 1
        if first:
            room -= used
        if lines:
            blocks.append(Lines(title, lines, first=first))
    return blocks
