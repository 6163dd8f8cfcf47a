"""The look of every plot (colours, ticks, wrapped text), and charts as data (panels, legend, alt
text) that are drawn on a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil, floor, log10
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from colltool.base.errors import printable
from colltool.extras.pictures.drawing.svg import lines_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that a page replaces by its own, see PAGE_COLOURS.
INK = "#1a1a1a"  # text and marks
SOFT = "#595959"  # secondary text
LINE = "#666666"  # axes
GRID = "#e6e6e6"
PAPER = "#ffffff"  # the background

Dash = str | tuple[int, tuple[int, ...]]
"""matplotlib's line style: a name, or an offset and lengths of strokes and gaps."""
# For areas: Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#999999")
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
NAMES_WIDE = 0.24  # share of the width for the names of rows
GREY = "#b3b3b3"  # baselines and overheads
ACROSS = "////"  # hatch of latency and of what is hidden
PAGED = 9.4
"""Inches of a picture on a page: its text is then as large as the page's on a screen of 1280
pixels."""
_MARK = 1.6  # points: width of a line across a bar
_SLANTED = 0.3  # inches from one slanted label to the next
_MOST_LINES = 12  # of a name or a title
_LETTER = 0.068  # inches: the average letter of 8 points in DejaVu Sans


def letters(inches: float) -> int:
    """How many letters of 8 points fit into a width."""
    return int(inches / _LETTER)


def wrapped(text: str, inches: float, points: float = 8) -> str:
    """Text in lines that fit a width at a font size of ``points``, without control characters,
    which names from files may have."""
    return "\n".join(lines_of(printable(text), 72 * inches, points, _MOST_LINES))


def text_on(colour: str) -> str:
    """A readable text colour on one of :data:`COLOURS`."""
    return LIGHT_TEXT if colour == COLOURS[6] else DARK_TEXT


def text_in(
    axes: Axes, place: tuple[float, float], colour: str, most: int, *texts: str, **style: Any
) -> None:
    """Write into the middle of a coloured area the first text of at most ``most`` letters; nothing
    where none is as short."""
    for text in texts:
        if len(text) <= most:
            axes.text(*place, text, ha="center", va="center", color=text_on(colour), **style)
            return


def letter(at: int) -> str:
    """The letter of a legend entry: ``A``, ``B``, ..., ``Z``, ``AA``."""
    last = ascii_uppercase[at % 26]
    return last if at < 26 else letter(at // 26 - 1) + last


def colour_of(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def hatch_of(at: int) -> str:
    return HATCHES[at // len(COLOURS) % len(HATCHES)]


class Pen(NamedTuple):
    """The look of a line and of the points on it."""

    colour: str
    dash: Dash
    mark: str


def pen_of(at: int) -> Pen:
    """The pen of line ``at``: a colour that comes again has another dash and mark."""
    turn = at + at // len(PENS)
    return Pen(PENS[at % len(PENS)], DASHES[turn % len(DASHES)], MARKS[turn % len(MARKS)])


def decade_ticks(low: float, high: float, steps: Iterable[Iterable[float]]) -> list[float]:
    """Round ticks of a log axis from ``low`` to ``high``: the first of the digits in a decade that
    give three."""
    return first_of_three(_multiples(low, high, digits) for digits in steps)


def _multiples(low: float, high: float, digits: Iterable[float]) -> list[float]:
    """These digits times each power of ten within the ends of an axis."""
    ticks = []
    for decade in range(floor(log10(low)), ceil(log10(high)) + 1):
        ticks += [digit * 10.0**decade for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


def first_of_three(choices: Iterable[list[Any]]) -> list[Any]:
    """The first choice with at least three ticks, else the last."""
    ticks: list[Any] = []
    for ticks in choices:
        if len(ticks) >= 3:
            break
    return ticks


def thinned(ticks: Sequence[Any], most: int = 12) -> list[Any]:
    """Every n-th tick, so that at most ``most`` are left."""
    step = ceil(len(ticks) / most) or 1
    return list(ticks[::step])


def apart(places: Sequence[float], inches: float, *, logs: bool = False) -> list[int]:
    """Indices of those of the ascending places on an axis that have room for a slanted label."""
    if logs:
        places = list(map(log10, places))
    length = (places[-1] - places[0]) or 1.0
    indices: list[int] = []
    for index, place in enumerate(places):
        if not indices or (place - places[indices[-1]]) / length * inches >= _SLANTED:
            indices.append(index)
    return indices


def log_scale(
    axes: Axes, which: Literal["x", "y"], ends: tuple[float, float], show: Callable[[float], str]
) -> None:
    """Ticks at decades, else 1-2-5, else every digit."""
    ticks = thinned(decade_ticks(*ends, ((1,), (1, 2, 5), range(1, 10))))
    axes.minorticks_off()
    axes.set(**{f"{which}scale": "log", f"{which}lim": ends})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(ticks, list(map(show, ticks)))
    axis.set_ticks([], minor=True)


def in_first_column(axes: Axes) -> bool:
    """Whether a panel is at the left edge of its figure."""
    place = axes.get_subplotspec()
    return place is not None and place.is_first_col()


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


def lettered_keys(labels: Iterable[str], *, hatched: bool = False) -> list[Key]:
    """Legend entries with a letter and a colour each; ``hatched``: with a hatch where a colour
    comes again."""
    keys = []
    for at, label in enumerate(labels):
        hatch = hatch_of(at) if hatched else ""
        keys.append(Key(f"{letter(at)}  {label}", colour_of(at), hatch))
    return keys


class Chart(NamedTuple):
    """A picture as data: panels in rows, the legend below them, and a text in place of it all."""

    title: str  # not drawn on a page, which has its own headings
    alt: str
    panels: Sequence[Panel]  # row by row
    keys: Sequence[Key] = ()  # legend entries before those the panels label themselves
    columns: int = 1
    inches: float = 0.0  # width; 0 for the usual one
    points: float = 11.0  # font size of the title


def draw_chart(chart: Chart, figure: Figure, *, paged: bool = False) -> None:
    """Draw on an empty figure; a paged one is as wide as the page."""
    columns = chart.columns
    width = chart.inches or _usual_width(columns, paged)
    heights = []
    for start in range(0, len(chart.panels), columns):
        row = chart.panels[start : start + columns]
        heights.append(max(panel.inches for panel in row))
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for at, panel in enumerate(chart.panels):
        axes = figure.add_subplot(grid[divmod(at, columns)])
        panel.draw(axes, width / columns)
        if panel.title:
            title = wrapped(panel.title, 0.65 * width / columns, points=9)
            axes.set_title(title, loc="left", fontweight="bold")
    under = _draw_legend(chart.keys, figure, width)
    if not paged:
        figure.suptitle(wrapped(chart.title, 0.92 * width, chart.points), fontsize=chart.points)
    figure.set_size_inches(width, sum(heights) + 0.7 + 0.18 * under)


def _usual_width(columns: int, paged: bool) -> float:
    if paged:
        return PAGED
    return 6.8 if columns == 1 else 4.4 * columns


def _draw_legend(keys: Sequence[Key], figure: Figure, width: float) -> int:
    """Draw the legend below the panels, in as many columns as the longest label allows; return its
    number of lines."""
    handles: dict[str, Any] = {key.label: _handle(key, figure.axes[0]) for key in keys}
    for axes in list(figure.axes):
        axes_handles, names = axes.get_legend_handles_labels()
        handles |= zip(map(str, names), axes_handles, strict=True)
    if not handles:
        return 0
    labels = [wrapped(label, width - 0.8) for label in handles]
    longest = max(map(len, "\n".join(labels).splitlines()))
    across = max(1, min(len(labels), letters(width) // (longest + 9)))
    figure.legend(
        list(handles.values()), labels, loc="outside lower center", ncols=across, handlelength=3.2
    )
    return sum(1 + label.count("\n") for label in labels[::across])


def _handle(key: Key, axes: Axes) -> Any:
    """What the legend shows before a label: drawn on the axes, but without any point."""
    if key.colour:
        (handle,) = axes.fill([], [], **_area_style(key.colour, key.hatch))
        return handle
    (mark,) = axes.plot([], [], "|", color=INK, markersize=10, markeredgewidth=_MARK)
    return mark


def _area_style(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": DARK_TEXT, "linewidth": 0.4}


class BarPiece(NamedTuple):
    """A segment of a stacked bar; its text is drawn if it fits."""

    amount: float
    text: str
    colour: str
    hatch: str = ""


class Bar(NamedTuple):
    """A stacked bar: ``end_text`` is the text after its end, ``mark`` where a line is drawn across
    it."""

    name: str
    pieces: Sequence[BarPiece]
    end_text: str = ""
    mark: float | None = None

    @property
    def length(self) -> float:
        return sum(piece.amount for piece in self.pieces)

    @property
    def reach(self) -> float:
        """Where its last part ends, bar or mark."""
        return max(self.length, self.mark or 0.0)


def bars_panel(
    bars: Sequence[Bar],
    show: Callable[[float], str],
    title: str = "",
    most: float = 0.0,
    along: str = "",
) -> Panel:
    """Stacked horizontal bars, the first on top.

    ``show`` writes a value of the axis, ``along`` is its label. It ends at ``most`` (0: the longest
    bar); longer bars get an arrow.
    """
    return Panel(partial(_bars, bars, show, most, along), 0.5 * len(bars) + 0.5, title)


def _bars(
    bars: Sequence[Bar],
    show: Callable[[float], str],
    most: float,
    along: str,
    axes: Axes,
    inches: float,
) -> None:
    """Draw the bars of :func:`bars_panel` on axes that are ``inches`` wide, names included."""
    longest = max((bar.reach for bar in bars), default=0.0)
    end = min(most or longest, longest) or 1.0
    end_text = max((len(bar.end_text) for bar in bars), default=0)
    room = (1 - NAMES_WIDE) * inches - 0.2
    # The axis goes on past the longest bar, so that the text behind it is not cut off.
    scale = end / max(0.35, 1 - (end_text + 2) / letters(room))
    for row, bar in enumerate(bars):
        stop = _draw_pieces(axes, row, bar.pieces, end, (room, scale))
        if bar.mark is not None:
            axes.plot([bar.mark, bar.mark], [row - 0.42, row + 0.42], color=INK, linewidth=_MARK)
        # a bar that is cut off gets an arrow; the factor is for rounding
        arrow = "> " if bar.length > end * (1 + 1e-9) else ""
        axes.text(max(stop, bar.mark or 0.0), row, f" {arrow}{bar.end_text}", va="center")
    name_rows(axes, [bar.name for bar in bars], NAMES_WIDE * inches)
    axes.set_xlim(0, scale)
    value_axis(axes, show)
    axes.set_xlabel(along)


def _draw_pieces(
    axes: Axes,
    row: int,
    pieces: Iterable[BarPiece],
    end: float,
    inches_per_unit: tuple[float, float],
) -> float:
    """Draw the pieces of a bar, cut at ``end``; return where the last one stops.

    ``inches_per_unit``: a length in inches, and what it stands for on the axis.
    """
    inches, units = inches_per_unit
    left = 0.0
    for piece in pieces:
        shown = min(left + piece.amount, end) - left
        if not shown:
            continue
        axes.barh(row, shown, left=left, height=0.62, **_area_style(piece.colour, piece.hatch))
        # the whole text, just its letter, or nothing
        most = letters(inches * abs(shown) / units) - 1
        texts = filter(None, (piece.text, piece.text.partition(" ")[0]))
        box = {"facecolor": piece.colour, "edgecolor": "none", "pad": 1} if piece.hatch else None
        text_in(axes, (left + shown / 2, row), piece.colour, most, *texts, bbox=box)
        left += shown
    return left


def name_rows(axes: Axes, names: Sequence[str], inches: float) -> None:
    axes.set_yticks(range(len(names)), [wrapped(name, inches) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def value_axis(axes: Axes, show: Callable[[float], str]) -> None:
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: show(value))
