"""Charts as data: panels, a legend, and a text in place of them. :func:`draw_chart` draws one on a
figure; :func:`bars_panel` makes a panel of stacked bars, which several charts have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.extras.pictures.plot.look import (
    DARK_TEXT,
    INK,
    colour_of,
    hatch_of,
    letter,
    letters_that_fit,
    text_in,
    wrapped,
)
from colltool.extras.pictures.plot.ticks import name_rows, value_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# All in inches.
PAGED = 9.4
"""A picture on a page: its text is then as large as the page's on a screen of 1280 pixels."""
ONE_COLUMN = 6.8  # a picture with one column of panels
_OF_SEVERAL = 4.4  # each of several columns
_BAR_INCHES = 0.5  # a bar with the gap to the next, and the axis below all
_LEGEND_LINE_INCHES = 0.18
_TITLE_INCHES = 0.7  # above the panels, with the margin at the foot
NAMES_WIDE = 0.24  # not inches: share of the width for the names of rows
_MARK_POINTS = 1.6  # width of a line across a bar
_BAR_HEIGHT = 0.62  # of the distance from bar to bar
_MARK_REACH = 0.42  # of a line across a bar, up and down, of the same distance
_MOST_PANELS = 6  # in a file
_MOST_PANELS_PAGED = 3


class Panel(NamedTuple):
    """A part of a chart with axes of its own."""

    draw: Callable[[Axes, float], None]  # gets empty axes and their width in inches
    inches: float  # height
    title: str = ""


class Key(NamedTuple):
    """A legend entry: a coloured square, or without a colour the mark drawn across bars."""

    label: str
    colour: str = ""
    hatch: str = ""


def lettered_keys(labels: Iterable[str], *, hatched: bool = False) -> list[Key]:
    """Legend entries with a letter and a colour each; ``hatched``: with a hatch where a colour
    comes again."""
    keys = []
    for index, label in enumerate(labels):
        hatch = hatch_of(index) if hatched else ""
        keys.append(Key(f"{letter(index)}  {label}", colour_of(index), hatch))
    return keys


class Chart(NamedTuple):
    """A picture as data: panels in rows, the legend below them, and a text in place of it all."""

    title: str  # not drawn on a page, which has its own headings
    alt: str  # what it shows, for those who do not see it
    panels: Sequence[Panel]  # row by row
    keys: Sequence[Key] = ()  # legend entries before those the panels label themselves
    columns: int = 1
    inches: float = 0.0  # width; 0 for the usual one
    points: float = 11.0  # font size of the title


def chart_of_tables(
    title: str, alt: str, panels: Sequence[Panel], paged: bool, **more: Any
) -> Chart:
    """Make a chart of as many panels as it may have, each for a table of a result. If that leaves some out, its
    title says so. ``more``: further fields of :class:`Chart`."""
    most_panels = _MOST_PANELS_PAGED if paged else _MOST_PANELS
    if len(panels) > most_panels:
        title = f"{title} ({most_panels} of {len(panels)} tables)"
    return Chart(title, alt, panels[:most_panels], columns=columns_of(len(panels), paged), **more)


def columns_of(panels: int, paged: bool) -> int:
    """Columns in which :func:`chart_of_tables` puts this many panels."""
    return 1 if paged else min(2, panels)


def draw_chart(chart: Chart, figure: Figure, *, paged: bool = False) -> None:
    """Draw on an empty figure; a paged one is as wide as the page."""
    columns = chart.columns
    width = chart.inches or _usual_width(columns, paged)
    heights = []
    for start in range(0, len(chart.panels), columns):
        row = chart.panels[start : start + columns]
        heights.append(max(panel.inches for panel in row))
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for index, panel in enumerate(chart.panels):
        axes = figure.add_subplot(grid[divmod(index, columns)])
        panel.draw(axes, width / columns)
        if panel.title:
            # bold letters are wider, and the names of rows take some of the width
            title = wrapped(panel.title, 0.65 * width / columns, points=9)
            axes.set_title(title, loc="left", fontweight="bold")
    legend_lines = _draw_legend(chart.keys, figure, width)
    if not paged:
        figure.suptitle(wrapped(chart.title, 0.92 * width, chart.points), fontsize=chart.points)
    figure.set_size_inches(width, sum(heights) + _TITLE_INCHES + _LEGEND_LINE_INCHES * legend_lines)


def _usual_width(columns: int, paged: bool) -> float:
    """Inches of a picture that states no width."""
    if paged:
        return PAGED
    return ONE_COLUMN if columns == 1 else _OF_SEVERAL * columns


def _draw_legend(keys: Sequence[Key], figure: Figure, width: float) -> int:
    """Draw the legend below the panels, in as many columns as the longest label allows; return its number of
    lines, 0 without entries. Entries are the ``keys``, then what the panels label, each label once."""
    handles: dict[str, Any] = {key.label: _handle(key, figure.axes[0]) for key in keys}
    for axes in list(figure.axes):
        axes_handles, names = axes.get_legend_handles_labels()
        handles |= zip(map(str, names), axes_handles, strict=True)
    if not handles:
        return 0
    # 0.8 inches, or 9 letters, are for what stands before a label
    labels = [wrapped(label, width - 0.8) for label in handles]
    longest = max(map(len, "\n".join(labels).splitlines()))
    columns = max(1, min(len(labels), letters_that_fit(width) // (longest + 9)))
    figure.legend(
        list(handles.values()), labels, loc="outside lower center", ncols=columns, handlelength=3.2
    )
    return sum(1 + label.count("\n") for label in labels[::columns])


def _handle(key: Key, axes: Axes) -> Any:
    """What the legend shows before a label: drawn on the axes, but without any point."""
    if key.colour:
        (handle,) = axes.fill([], [], **_area_style(key.colour, key.hatch))
        return handle
    (mark,) = axes.plot([], [], "|", color=INK, markersize=10, markeredgewidth=_MARK_POINTS)
    return mark


def _area_style(colour: str, hatch: str) -> dict[str, Any]:
    """matplotlib's arguments for a filled area."""
    return {"facecolor": colour, "hatch": hatch, "edgecolor": DARK_TEXT, "linewidth": 0.4}


class BarPiece(NamedTuple):
    """A segment of a stacked bar."""

    amount: float  # in the unit of the axis
    text: str  # drawn where it fits, else its first word where that does
    colour: str
    hatch: str = ""


class Bar(NamedTuple):
    """A stacked bar."""

    name: str
    pieces: Sequence[BarPiece]
    end_text: str = ""  # behind its end
    mark: float | None = None  # value of the axis where a line is drawn across it

    @property
    def length(self) -> float:
        """All pieces together."""
        return sum(piece.amount for piece in self.pieces)

    @property
    def reach(self) -> float:
        """Where its last part ends, bar or mark."""
        return max(self.length, self.mark or 0.0)


def bars_panel(
    bars: Sequence[Bar],
    show: Callable[[float], str],
    title: str = "",
    axis_end: float = 0.0,
    along: str = "",
) -> Panel:
    """Stacked horizontal bars, the first on top.

    ``show`` writes a value of the axis, ``along`` is the axis' label. It ends at ``axis_end``, or at the longest
    bar or mark where that is shorter (0: there); longer bars are cut and get an arrow.
    """
    return Panel(
        partial(_draw_bars, bars, show, axis_end, along),
        _BAR_INCHES * (len(bars) + 1),
        title,
    )


def _draw_bars(
    bars: Sequence[Bar],
    show: Callable[[float], str],
    axis_end: float,
    along: str,
    axes: Axes,
    inches: float,
) -> None:
    """Draw the bars of :func:`bars_panel` on axes that are ``inches`` wide, names included."""
    longest = max((bar.reach for bar in bars), default=0.0)
    # where bars are cut; 1 where all of them are empty, so that the axis has a length
    end = min(axis_end or longest, longest) or 1.0
    end_letters = max((len(bar.end_text) for bar in bars), default=0)
    # inches for the axis, which the names and a margin leave
    room = (1 - NAMES_WIDE) * inches - 0.2
    # The axis goes on past the longest bar, so that the text behind it is not cut off: where 10 of 40
    # letters are the text's, the longest bar has 0.7 of the axis.
    axis_stop = end / max(0.35, 1 - (end_letters + 2) / letters_that_fit(room))
    for row, bar in enumerate(bars):
        stop = _draw_pieces(axes, row, bar.pieces, end, room / axis_stop)
        if bar.mark is not None:
            ends = [row - _MARK_REACH, row + _MARK_REACH]
            axes.plot([bar.mark, bar.mark], ends, color=INK, linewidth=_MARK_POINTS)
        # a bar that is cut off gets an arrow, one that is too long by rounding does not
        arrow = "> " if bar.length > end * (1 + 1e-9) else ""
        axes.text(max(stop, bar.mark or 0.0), row, f" {arrow}{bar.end_text}", va="center")
    name_rows(axes, [bar.name for bar in bars], NAMES_WIDE * inches)
    axes.set_xlim(0, axis_stop)
    value_axis(axes, show)
    axes.set_xlabel(along)


def _draw_pieces(
    axes: Axes, row: int, pieces: Iterable[BarPiece], end: float, inches_per_unit: float
) -> float:
    """Draw the pieces of a bar, cut at ``end``, a value of the axis; return where the last stops."""
    left = 0.0
    for piece in pieces:
        shown = min(left + piece.amount, end) - left
        if not shown:
            continue
        axes.barh(
            row,
            shown,
            left=left,
            height=_BAR_HEIGHT,
            **_area_style(piece.colour, piece.hatch),
        )
        # the whole text, just its first word, or nothing
        most_letters = letters_that_fit(abs(shown) * inches_per_unit) - 1
        texts = filter(None, (piece.text, piece.text.partition(" ")[0]))
        # text on a hatch has a plain background
        box = {"facecolor": piece.colour, "edgecolor": "none", "pad": 1} if piece.hatch else None
        text_in(axes, (left + shown / 2, row), piece.colour, most_letters, *texts, bbox=box)
        left += shown
    return left
