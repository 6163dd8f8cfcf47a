"""What a rendered result is made of: tables and lists. How they are drawn is for each format's own file."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """What a person reads, and the full value that CSV carries."""

    text: str
    value: Any


def plain(value: Any) -> Cell:
    """A cell that reads as its value."""
    return Cell(str(value), value)


def gathered(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by what is said of them, each once, both in the order met: (what, name) pairs in."""
    by_text: dict[str, list[str]] = {}
    for text, name in pairs:
        names = by_text.setdefault(text, [])
        if name not in names:
            names.append(name)
    return by_text


class Column(NamedTuple):
    """``key`` names it in CSV; the highest ``drop`` goes first where a terminal is too narrow, 0 never.

    ``hidden`` columns are in CSV alone, so that rows of several runs can be put together.
    """

    key: str
    title: str
    drop: int = 0
    right: bool = True
    hidden: bool = False


class Table(NamedTuple):
    """Rows of cells; ``best`` is the row to point out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: int | None = None
    title: str = ""


class Lines(NamedTuple):
    """A list under a heading; ``verbatim`` lines are to be pasted and never broken."""

    title: str
    lines: tuple[str, ...]
    verbatim: bool = False


Block = Table | Lines
