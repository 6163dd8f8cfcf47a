"""A line chart as inline SVG for the pages of reports and machines. Axes are logarithmic; each line
has its name at its end and its measurements' band behind it; measured points lead to their sources.

Colours are CSS classes (``ct-line-0`` and on, in ``chart.css``), so that the chart is readable in
light, dark and on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import NamedTuple

from colltool.render.busbw_chart import Scale
from colltool.render.markup import html

COLOURS = 6
"""Colours of lines in ``chart.css``."""
WIDTH = 480
HEIGHT = 320
_LEFT, _TOP, _BOTTOM = 72, 28, 48
_LETTER = 8.0  # width of a bold letter of a name
_LINE = 16  # height of a line of text
_LONGEST_NAME = 18
_TICK_APART = 58  # of two sizes under the axis
_MOST_TICKS = 6  # along the upright axis

_NAME_GAP = 8  # between the end of a line and its name
_MARGIN = 6  # right of the longest name
_MIDDLE = 4  # from the middle of a line of text down to its feet

Show = Callable[[float], str]


class AxisWords(NamedTuple):
    """The title of an axis, and how its numbers are written."""

    title: str
    show: Show


class ChartPoint(NamedTuple):
    """A point of a line; ``low`` and ``high`` are where nine of ten measurements lie."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class ChartLine(NamedTuple):
    """A line and its name; all its numbers are positive."""

    name: str
    points: Sequence[ChartPoint]


class ChartDots(NamedTuple):
    """Measured points of a source, which lead to ``url``.

    Args:
        line: of which line they have the colour; None for that of none.
        title: what they are, in a few words.
    """

    points: Sequence[ChartPoint]
    line: int | None
    title: str
    url: str


class ChartAxis(NamedTuple):
    """An axis from ``low`` to ``high``, drawn from ``start`` to ``end``; logarithmic unless
    ``linear``. ``ticks``: default are round decimal numbers."""

    title: str
    show: Show
    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[float] = ()
    linear: bool = False

    def at(self, value: float) -> float:
        if self.linear:
            share = (value - self.low) / (self.high - self.low)
        else:
            share = log10(value / self.low) / log10(self.high / self.low)
        return self.start + share * (self.end - self.start)


def chart_style() -> str:
    """The style sheet of charts and drawings, and the colours of pages."""
    return (Path(__file__).parent / "chart.css").read_text(encoding="utf-8")


def line_chart(
    lines: Sequence[ChartLine],
    alt: str,
    x: AxisWords,
    y: AxisWords,
    *,
    dots: Sequence[ChartDots] = (),
    ticks: Sequence[float] = (),
    linear: bool = False,
) -> str:
    """The chart as one ``<svg>``. Empty without a line of at least two points.

    Args:
        dots: drawn as far as their sizes are among the lines'.
        ticks: across; default: round decimal numbers.
        linear: upward from zero, in equal steps.
    """
    lines = [line for line in lines if len(line.points) > 1]
    if not lines:
        return ""
    names = [_clipped(line.name) for line in lines]
    points: list[ChartPoint] = []
    for line in lines:
        points += line.points
    xs = [point.x for point in points]
    right = WIDTH - _MARGIN - _NAME_GAP - max(map(len, names)) * _LETTER
    across = ChartAxis(*x, low=min(xs), high=max(xs), start=_LEFT, end=right, ticks=ticks)
    inside = [_within(source, across) for source in dots]
    for source in inside:
        points += source.points
    up = _upright(y, _heights(points), linear=linear)
    body = [*_grid(across, up)]
    for number, line in enumerate(lines):
        body += _drawn(line, number % COLOURS, across, up)
    body += [_dotted(source, across, up) for source in inside if source.points]
    body += _named(names, [up.at(line.points[-1].y) for line in lines], right)
    drawn = "\n".join(body)
    return (
        f'<svg class="lines" role="img" aria-label="{html(alt)}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}">\n{drawn}\n</svg>'
    )


def _named(names: Sequence[str], ends: Sequence[float], right: float) -> Iterator[str]:
    """The names of lines at the heights of their ends, in their colours."""
    for number, (name, y) in enumerate(zip(names, _apart(ends), strict=True)):
        colour = number % COLOURS
        place = f'x="{right + _NAME_GAP:.1f}" y="{y + _MIDDLE:.1f}"'
        yield f'<text class="ct-name-{colour}" {place}>{html(name)}</text>'


def _upright(y: AxisWords, values: Sequence[float], *, linear: bool) -> ChartAxis:
    """The axis that holds all values."""
    low, high = _whole_steps(values)
    axis = ChartAxis(*y, low=low, high=high, start=HEIGHT - _BOTTOM, end=_TOP)
    if not linear:
        return axis
    scale = Scale.up_to(max(values), _MOST_TICKS)
    steps = round(scale.top / scale.step)
    ticks = [scale.step * step for step in range(steps + 1)]
    return axis._replace(low=0.0, high=scale.top, ticks=ticks, linear=True)


def _within(dots: ChartDots, across: ChartAxis) -> ChartDots:
    inside = [point for point in dots.points if across.low <= point.x <= across.high]
    return dots._replace(points=inside)


def _dotted(dots: ChartDots, across: ChartAxis, up: ChartAxis) -> str:
    """The points as one path of round dots, a link."""
    path = ""
    for point in dots.points:
        # a line of no length, whose round ends are a dot
        path += f"M{across.at(point.x):.0f} {up.at(point.y):.1f}h0"
    colour = "none" if dots.line is None else str(dots.line % COLOURS)
    drawn = f'<path class="ct-dots-{colour}" d="{path}"/>'
    return f'<a href="{html(dots.url)}"><title>{html(dots.title)}</title>{drawn}</a>'


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _heights(points: Iterable[ChartPoint]) -> list[float]:
    heights = []
    for point in points:
        heights += [value for value in (point.y, point.low, point.high) if value is not None]
    return heights


def _whole_steps(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that holds all values: 20 and 500 of 23 to 410."""
    low = min(values)
    high = max(values)
    steps = _steps(low / 10, high * 10)
    below = max(step for step in steps if step <= low)
    above = min(step for step in steps if step >= high)
    return below, above


def _steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten from ``low`` to ``high``: 20, 50, 100 of 15 to 100."""
    steps = []
    for power in range(floor(log10(low)), ceil(log10(high)) + 1):
        steps += [times * 10.0**power for times in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def _ticks(axis: ChartAxis, most: float) -> list[float]:
    """The ticks, at most ``most``: 1, 2 and 5, else powers of ten, else powers of a hundred and on."""
    steps = _steps(axis.low, axis.high)
    if len(steps) <= most:
        return steps
    tens = [step for step in steps if abs(log10(step) - round(log10(step))) < 1e-9]
    return tens[:: max(1, ceil(len(tens) / most))]


def _grid(across: ChartAxis, up: ChartAxis) -> Iterable[str]:
    for tick in up.ticks or _ticks(up, _MOST_TICKS):
        y = up.at(tick)
        yield f'<path class="ct-grid" d="M{across.start} {y:.1f}H{across.end:.1f}"/>'
        yield _text(across.start - 8, y + _MIDDLE, up.show(tick), "end")
    for tick in across.ticks or _ticks(across, (across.end - across.start) / _TICK_APART):
        x = across.at(tick)
        yield f'<path class="ct-grid" d="M{x:.1f} {up.start}V{up.end}"/>'
        yield _text(x, up.start + 17, across.show(tick), "middle")
    middle = (across.start + across.end) / 2
    yield _text(middle, HEIGHT - 8, across.title, "middle")
    yield _text(across.start - 8, up.end - 14, up.title, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    place = f'text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="ct-soft" {place}>{html(text)}</text>'


def _drawn(line: ChartLine, colour: int, across: ChartAxis, up: ChartAxis) -> Iterable[str]:
    """The band of a line, and the line."""
    known = [point for point in line.points if point.low is not None and point.high is not None]
    if len(known) > 1:
        above = [(across.at(point.x), up.at(point.high or point.y)) for point in known]
        below = [(across.at(point.x), up.at(point.low or point.y)) for point in reversed(known)]
        yield f'<path class="ct-band-{colour}" d="M{_joined(above + below)}Z"/>'
    places = [(across.at(point.x), up.at(point.y)) for point in line.points]
    yield f'<path class="ct-line-{colour}" d="M{_joined(places)}"/>'


def _joined(places: Iterable[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _apart(ends: Sequence[float]) -> list[float]:
    """Heights of names near the ends of their lines, none on another and none below the axis.

    Ends at 30, 32 and 100: from the top down each is at least a line of text below the one before,
    30, 46 and 100; then from the bottom up each as far above, and none under the axis.
    """
    order = sorted(range(len(ends)), key=ends.__getitem__)
    placed = list(ends)
    lowest: float = _TOP - _LINE
    for at in order:
        placed[at] = lowest = max(placed[at], lowest + _LINE)
    highest: float = HEIGHT - _BOTTOM + _LINE
    for at in reversed(order):
        placed[at] = highest = min(placed[at], highest - _LINE)
    return placed
