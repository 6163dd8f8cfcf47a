"""The look of every plot: colours, line styles, ticks and wrapped text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Literal

from colltool.base.errors import printable
from colltool.render.drawing.svg import lines_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, LINE, GRID, PAPER = "#1a1a1a", "#595959", "#666666", "#e6e6e6", "#ffffff"
"""Text and marks; secondary text; axes; their grid; the background. A page replaces these five by its own colours."""

Dash = str | tuple[int, tuple[int, ...]]
# For areas: Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#999999")
# For thin lines: the same hues, darker where needed for a contrast of 3:1 with white and with a dark page (WCAG 2.2, 1.4.11).
PENS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B57A00", "#3A8FC4", "#8F6BC0", "#808080")
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1)), (0, (1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "//", "\\\\", "xx", "--", "||", "++")  # lines only: dots are a thousand curves in an SVG
DARK_TEXT, LIGHT_TEXT = "#111111", "#fefefe"  # on a colour, on any page
_HARD_TO_READ_DARK = ("#0072B2",)

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
_INCHES_A_LETTER = 0.068  # at 8 points
_SLANTED = 0.3  # inches from one slanted label to the next
_MOST_TICKS = 12
_MOST_LINES = 12  # of a name or a title


def letters(inches: float) -> int:
    """How many letters of 8 points fit."""
    return int(inches / _INCHES_A_LETTER)


def wrapped(text: str, inches: float, points: float = 8) -> str:
    """Text in lines that fit, without control characters, which names from files may have."""
    return "\n".join(lines_of(printable(text), 72 * inches, points, _MOST_LINES))


def text_on(colour: str) -> str:
    """A readable text colour on one of :data:`COLOURS`."""
    return LIGHT_TEXT if colour in _HARD_TO_READ_DARK else DARK_TEXT


def letter(at: int) -> str:
    """The letter of a legend entry: ``A``, ``B``, ..., ``Z``, ``AA``."""
    return (letter(at // 26 - 1) if at >= 26 else "") + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[at % 26]


def log_ticks(low: float, high: float) -> list[float]:
    """Round ticks of a log axis: decades, else 1-2-5, else every digit, the first that gives three ticks."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    choices = ([digit * 10.0**decade for decade in decades for digit in digits] for digits in ((1,), (1, 2, 5), range(1, 10)))
    return thinned(first_of_three([tick for tick in ticks if low <= tick <= high] for ticks in choices))


def first_of_three(choices: Iterable[list[Any]]) -> list[Any]:
    """The first choice with at least three ticks, else the last."""
    ticks: list[Any] = []
    for ticks in choices:
        if len(ticks) >= 3:
            break
    return ticks


def thinned(ticks: Sequence[Any], most: int = _MOST_TICKS) -> list[Any]:
    """Every n-th tick, so that at most ``most`` are left."""
    return list(ticks[:: -(-len(ticks) // most)]) if ticks else []


def apart(places: Sequence[float], inches: float, *, logs: bool = False) -> list[int]:
    """Indices of those of the ascending places on an axis that have room for a slanted label."""
    at = [log10(place) if logs else place for place in places]
    whole = (at[-1] - at[0]) or 1.0
    kept: list[int] = []
    for index, place in enumerate(at):
        if not kept or (place - at[kept[-1]]) / whole * inches >= _SLANTED:
            kept.append(index)
    return kept


def log_scale(axes: Axes, which: Literal["x", "y"], ends: tuple[float, float], show: Callable[[float], str]) -> None:
    ticks = log_ticks(*ends)
    names = [show(tick) for tick in ticks]
    axes.minorticks_off()
    if which == "x":
        axes.set_xscale("log")
        axes.set_xlim(*ends)
        axes.set_xticks(ticks, names)
        axes.set_xticks([], minor=True)
    else:
        axes.set_yscale("log")
        axes.set_ylim(*ends)
        axes.set_yticks(ticks, names)
        axes.set_yticks([], minor=True)
