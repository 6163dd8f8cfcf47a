"""The look of every plot: colours, pens, hatches, and text in the width that there is."""

from __future__ import annotations

from functools import partial
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import printable
from colltool.base.formatting import format_time
from colltool.extras.pictures.drawing.svg import lines_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that a page replaces by its own, see PAGE_COLOURS of page.py.
INK = "#1a1a1a"  # text and marks
SOFT = "#595959"  # secondary text
LINE = "#666666"  # axes
GRID = "#e6e6e6"
PAPER = "#ffffff"  # the background

Dash = str | tuple[int, tuple[int, ...]]
"""matplotlib's line style: a name, or an offset and lengths of strokes and gaps."""

# For areas: Okabe and Ito's palette, which colour-blind readers can tell apart.
SKY = "#56B4E9"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
DARK_BLUE = "#0072B2"
GREY = "#999999"
COLOURS = (SKY, ORANGE, GREEN, "#F0E442", "#CC79A7", VERMILION, DARK_BLUE, GREY)
PALE_GREY = "#b3b3b3"  # baselines and overheads
# For thin lines: the same hues, darker where needed for a contrast of 3:1 with white and with a
# dark page (WCAG 2.2, 1.4.11).
PENS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B57A00", "#3A8FC4", "#8F6BC0", "#808080")
DASHES: tuple[Dash, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (3, 1)),
    (0, (1, 1)),
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Lines only: dots are a thousand curves in an SVG.
HATCHES = ("", "//", "\\\\", "xx", "--", "||", "++")
# Text on a coloured area, the same on a light and on a dark page.
DARK_TEXT = "#111111"
LIGHT_TEXT = "#fefefe"

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # bundled with matplotlib: the same everywhere
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",
    "svg.hashsalt": "colltool",
    "savefig.dpi": 150,
}
short_time = partial(format_time, digits=3)
"""Seconds as text of a plot."""
HIDDEN_HATCH = "////"  # latency, and what is hidden
_MOST_LINES = 12  # of a name or a title
_LETTER_INCHES = 0.068  # the average letter of 8 points in DejaVu Sans


def letters_that_fit(inches: float) -> int:
    """How many letters of 8 points fit into a width."""
    return int(inches / _LETTER_INCHES)


def wrapped(text: str, inches: float, points: float = 8) -> str:
    """Text in lines that fit a width at a font size of ``points``, without control characters,
    which names from files may have."""
    # an inch has 72 points
    return "\n".join(lines_of(printable(text), 72 * inches, points, _MOST_LINES))


def text_on(colour: str) -> str:
    """A readable text colour on one of :data:`COLOURS`."""
    return LIGHT_TEXT if colour == DARK_BLUE else DARK_TEXT


def text_in(
    axes: Axes, place: tuple[float, float], colour: str, most: int, *texts: str, **style: Any
) -> None:
    """Write into the middle of a coloured area the first text of at most ``most`` letters; nothing
    where none is as short."""
    for text in texts:
        if len(text) <= most:
            axes.text(*place, text, ha="center", va="center", color=text_on(colour), **style)
            return


def letter(index: int) -> str:
    """The letter of a legend entry: ``A``, ``B``, ..., ``Z``, ``AA``."""
    last = ascii_uppercase[index % 26]
    return last if index < 26 else letter(index // 26 - 1) + last


def colour_of(index: int) -> str:
    """The colour of an area by its index in the legend; colours come again after the last."""
    return COLOURS[index % len(COLOURS)]


def hatch_of(index: int) -> str:
    """The hatch of an area: none, then another each time that the colours start again."""
    return HATCHES[index // len(COLOURS) % len(HATCHES)]


class Pen(NamedTuple):
    """The look of a line and of the points on it."""

    colour: str
    dash: Dash
    mark: str


def pen_of(index: int) -> Pen:
    """The pen of a line by its index: a colour that comes again has another dash and mark."""
    # dashes and marks are shifted by one each time the colours start again
    shifted = index + index // len(PENS)
    return Pen(PENS[index % len(PENS)], DASHES[shifted % len(DASHES)], MARKS[shifted % len(MARKS)])
