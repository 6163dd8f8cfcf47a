"""A heat map as lines of characters (:func:`heat_map_lines`), wherever there is only text: on a
terminal, in Markdown and in HTML."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from colltool.render.blocks import Lines, Strips

# shades from none to the hottest
ASCII = ".:-=+*#%@"
BLOCKS = "·▁▂▃▄▅▆▇█"
_PLAIN_WIDTH = 200  # characters of a line in a pipe or a file
_LEAST_CELLS = 8  # characters of a strip, however long the names are
_MARGIN = 6  # characters: the indent of a list, two blanks after the name, two at the end


def heat_map_lines(
    heat_map: Strips,
    width: int | None = None,
    *,
    unicode: bool = False,
) -> Lines:
    """Write each strip as a line with its name, under a legend.

    Of a strip with more cells than fit, a character stands for several, and shows the busiest of them.
    ``width`` is in characters; None is a pipe or a file.
    """
    shades = BLOCKS if unicode else ASCII
    width = width or _PLAIN_WIDTH
    name_width = max((len(strip.name) for strip in heat_map.strips), default=0)
    most_characters = max(_LEAST_CELLS, width - name_width - _MARGIN)
    lines = []
    for strip in heat_map.strips:
        merged = ceil(len(strip.cells) / most_characters)
        line = f"{strip.name:<{name_width}}  "
        line += _characters(strip.cells, merged, shades)
        links = strip.per_cell * merged
        scale = f"  {links} links per character"
        # a list indents its lines by two
        if links > 1 and len(line + scale) + 2 <= width:
            line += scale
        lines.append(line)
    legend = f"'{shades[0]}' none, '{shades[1]}' to '{shades[-1]}' the hottest"
    title = f"{heat_map.what}, {legend} ({heat_map.top})"
    return Lines(title, lines, verbatim=True)


def _characters(cells: Sequence[float], merged: int, shades: str) -> str:
    """Cells from 0 to 1, the share of the hottest, as characters: one for so many ``merged`` cells.

    Only idle cells have the first shade.
    """
    idle = shades[0]
    busy = shades[1:]
    characters = ""
    for start in range(0, len(cells), merged):
        share = max(cells[start : start + merged])
        if share > 0:
            # a share at the border of two steps belongs to the lower one, whatever its rounding
            step = int(share * len(busy) - 1e-9)
            characters += busy[step]
        else:
            characters += idle
    return characters
