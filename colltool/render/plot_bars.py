"""Stacked horizontal bars: pieces told apart by colour, hatching and letter, with what they take written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.render.plot_style import COLOURS, DARK_TEXT, HATCHES, INK, letters, text_on, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES_WIDE = 0.24  # of the width, for the names of bars
GREY = "#b3b3b3"  # of what is beside the thing itself
ACROSS = "////"
_MARK = 1.6  # points wide


class Piece(NamedTuple):
    """Part of a bar: how much, the text that stands in it where there is room, its colour, and lines across it."""

    amount: float
    text: str
    colour: str
    hatch: str = ""


class Bar(NamedTuple):
    """One bar: its name beside it, its pieces from the left, what is written behind its end, and a mark across it."""

    name: str
    pieces: tuple[Piece, ...]
    behind: str = ""
    mark: float | None = None

    @property
    def length(self) -> float:
        """Where it ends."""
        return sum(piece.amount for piece in self.pieces)


def colour_of(at: int) -> str:
    """The colour of the piece with the letter of this number."""
    return COLOURS[at % len(COLOURS)]


def hatch_of(at: int) -> str:
    """The lines across it: other ones in each round of colours."""
    return HATCHES[at // len(COLOURS) % len(HATCHES)]


def draw_bars(axes: Axes, bars: Sequence[Bar], show: Callable[[float], str], inches: float, most: float = 0.0) -> None:
    """Bars one below the other, on one axis from 0.

    Args:
        axes: empty.
        bars: the first on top.
        show: how the axis writes a number.
        inches: how wide the picture is.
        most: where the axis ends, for bars that are longer; 0 for the longest.
    """
    longest = max((max(bar.length, bar.mark or 0.0) for bar in bars), default=0.0)
    end = min(most or longest, longest) or 1.0
    behind = max((len(bar.behind) for bar in bars), default=0)
    room = (1 - NAMES_WIDE) * inches - 0.2
    scale = end / max(0.35, 1 - (behind + 2) / letters(room))
    for row, bar in enumerate(bars):
        left = 0.0
        for piece in bar.pieces:
            shown = min(left + piece.amount, end) - left
            _piece(axes, row, left, shown, piece, letters(room * abs(shown) / scale))
            left += shown
        arrow = "> " if bar.length > end * (1 + 1e-9) else ""
        if bar.mark is not None:
            axes.plot([bar.mark] * 2, [row - 0.42, row + 0.42], color=INK, linewidth=_MARK)
        axes.text(max(left, bar.mark or 0.0), row, f" {arrow}{bar.behind}", va="center")
    axes.set_yticks(range(len(bars)), [wrapped(bar.name, NAMES_WIDE * inches) for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, scale)
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: show(value))
    axes.grid(visible=False, axis="y")


def _piece(axes: Axes, row: int, left: float, shown: float, piece: Piece, room: int) -> None:
    """One piece, with as much of its text as there is room for so many letters: all, its letter, or nothing."""
    if not shown:
        return
    look = _look(piece.colour, piece.hatch)
    axes.barh(row, shown, left=left, height=0.62, **look)
    text = next((text for text in (piece.text, piece.text.partition(" ")[0]) if len(text) + 1 <= room), "")
    if text:
        box = {"facecolor": piece.colour, "edgecolor": "none", "pad": 1} if piece.hatch else None
        axes.text(left + shown / 2, row, text, ha="center", va="center", color=text_on(piece.colour), bbox=box)


def swatch(axes: Axes, colour: str, hatch: str = "") -> Any:
    """A square for a legend: drawn nowhere else."""
    return axes.fill([], [], **_look(colour, hatch))[0]


def mark_swatch(axes: Axes) -> Any:
    """The mark of bars for a legend."""
    return axes.plot([], [], "|", color=INK, markersize=10, markeredgewidth=_MARK)[0]


def _look(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": DARK_TEXT, "linewidth": 0.4}
