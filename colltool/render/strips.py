"""Strips of shades as lines of characters: one a cell, or one for several neighbours where a line is too long."""

from __future__ import annotations

from math import ceil

from colltool.render.blocks import Lines, Strip, Strips

ASCII = ".:-=+*#%@"
BLOCKS = "·▁▂▃▄▅▆▇█"
_WIDE = 200
"""Columns where nobody says how wide it is: a pipe or a file."""


def drawn(block: Strips, width: int | None = None, *, unicode: bool = False) -> Lines:
    """The strips as lines, and what the shades mean, whether the screen is dark or light."""
    shades = BLOCKS if unicode else ASCII
    scale = f"'{shades[0]}' none, '{shades[1]}' to '{shades[-1]}' the hottest"
    return Lines(f"{block.what}, {scale} ({block.top})", tuple(_lines(block.strips, width, shades)), verbatim=True)


def _lines(strips: tuple[Strip, ...], width: int | None, shades: str) -> list[str]:
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
