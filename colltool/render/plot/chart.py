"""Charts as data (panels, legend, alt text), and how they are drawn on a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.render.plot.style import COLOURS, DARK_TEXT, HATCHES, INK, letters, text_on, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES_WIDE = 0.24  # share of the width for the names of rows
GREY = "#b3b3b3"  # baselines and overheads
ACROSS = "////"
_MARK = 1.6  # line width in points


class Panel(NamedTuple):
    """``draw`` gets empty axes and their width in inches; ``inches`` is the height of the panel."""

    draw: Callable[[Axes, float], None]
    inches: float
    title: str = ""


class Key(NamedTuple):
    """A legend entry: a coloured square, or without a colour the mark drawn across bars."""

    label: str
    colour: str = ""
    hatch: str = ""


class Chart(NamedTuple):
    title: str  # not drawn on a page, which has its own headings
    alt: str
    panels: tuple[Panel, ...]  # row by row
    keys: Sequence[Key] = ()  # legend entries before those the panels label themselves
    columns: int = 1
    inches: float = 0.0  # width; 0 for the usual one
    points: float = 11.0  # font size of the title


def draw_chart(chart: Chart, figure: Figure, *, paged: bool = False) -> None:
    """Draw on an empty figure; a paged one is narrower, so that its text comes out larger on the page."""
    columns, panels = chart.columns, chart.panels
    width = chart.inches or (5.2 if paged else 6.8 if columns == 1 else 4.4 * columns)
    tall = [max(panel.inches for panel in panels[at : at + columns]) for at in range(0, len(panels), columns)]
    grid = figure.add_gridspec(len(tall), columns, height_ratios=tall)
    for at, panel in enumerate(panels):
        axes = figure.add_subplot(grid[divmod(at, columns)])
        panel.draw(axes, width / columns)
        if panel.title:
            axes.set_title(wrapped(panel.title, 0.65 * width / columns, 9), loc="left", fontweight="bold")
    found = {key.label: _swatch(figure.axes[0], key) for key in chart.keys}
    for axes in list(figure.axes):
        handles, names = axes.get_legend_handles_labels()
        found |= {str(name): handle for handle, name in zip(handles, names, strict=True)}
    under = _legend(figure, width, found)
    if not paged:
        figure.suptitle(wrapped(chart.title, 0.92 * width, chart.points), fontsize=chart.points)
    figure.set_size_inches(width, sum(tall) + 0.7 + 0.18 * under)


def _legend(figure: Figure, width: float, found: dict[str, Any]) -> int:
    # below the panels, in as many columns as the longest label allows; returns its number of lines
    labels = [wrapped(label, width - 0.8) for label in found]
    longest = max((len(line) for label in labels for line in label.splitlines()), default=0)
    columns = max(1, min(len(labels), letters(width) // (longest + 9)))
    if labels:
        figure.legend(list(found.values()), labels, loc="outside lower center", ncols=columns, handlelength=3.2)
    return sum(1 + label.count("\n") for label in labels[::columns])


def _swatch(axes: Axes, key: Key) -> Any:
    if key.colour:
        return axes.fill([], [], **_look(key.colour, key.hatch))[0]
    return axes.plot([], [], "|", color=INK, markersize=10, markeredgewidth=_MARK)[0]


def _look(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": DARK_TEXT, "linewidth": 0.4}


class BarPiece(NamedTuple):
    """A segment of a stacked bar; its text is drawn if it fits."""

    amount: float
    text: str
    colour: str
    hatch: str = ""


class Bar(NamedTuple):
    """A stacked bar: ``behind`` is the text after its end, ``mark`` where a line is drawn across it."""

    name: str
    pieces: tuple[BarPiece, ...]
    behind: str = ""
    mark: float | None = None

    @property
    def length(self) -> float:
        return sum(piece.amount for piece in self.pieces)


def colour_of(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def hatch_of(at: int) -> str:
    return HATCHES[at // len(COLOURS) % len(HATCHES)]


def bars_panel(bars: Sequence[Bar], show: Callable[[float], str], title: str = "", most: float = 0.0, along: str = "") -> Panel:
    """Stacked horizontal bars, the first on top; the axis ends at ``most`` (0: the longest bar), longer bars get an arrow."""
    return Panel(partial(_bars, bars, show, most, along), 0.5 * len(bars) + 0.5, title)


def _bars(bars: Sequence[Bar], show: Callable[[float], str], most: float, along: str, axes: Axes, inches: float) -> None:
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
    name_rows(axes, [bar.name for bar in bars], NAMES_WIDE * inches)
    axes.set_xlim(0, scale)
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: show(value))
    axes.set_xlabel(along)


def name_rows(axes: Axes, names: Sequence[str], inches: float) -> None:
    axes.set_yticks(range(len(names)), [wrapped(name, inches) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _piece(axes: Axes, row: int, left: float, shown: float, piece: BarPiece, room: int) -> None:
    if not shown:
        return
    axes.barh(row, shown, left=left, height=0.62, **_look(piece.colour, piece.hatch))
    # the whole text, just its letter, or nothing
    text = next((text for text in (piece.text, piece.text.partition(" ")[0]) if len(text) + 1 <= room), "")
    if text:
        box = {"facecolor": piece.colour, "edgecolor": "none", "pad": 1} if piece.hatch else None
        axes.text(left + shown / 2, row, text, ha="center", va="center", color=text_on(piece.colour), bbox=box)
