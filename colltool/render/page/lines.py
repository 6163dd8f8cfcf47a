"""A line chart as inline SVG for the pages of reports and machines. Axes are logarithmic; each line
has its name at its end and its measurements' band behind it; measured points lead to their sources.

Colours are CSS classes (``ct-line-0`` and on, in ``chart.css``), so that the chart is readable in
light, dark and on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

Show = Callable[[float], str]


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
    x: tuple[str, Show],
    y: tuple[str, Show],
    *,
    dots: Sequence[ChartDots] = (),
    ticks: Sequence[float] = (),
    linear: bool = False,
) -> str:
    """The chart as one ``<svg>``; ``x`` and ``y`` are the title of each axis and how its numbers
    are written. Empty without a line of at least two points.

    Args:
        dots: drawn as far as their sizes are among the lines'.
        ticks: across; default: round decimal numbers.
        linear: upward from zero, in equal steps.
    """
    lines = [line for line in lines if len(line.points) > 1]
    if not lines:
        return ""
    names = [_clipped(line.name) for line in lines]
    right = WIDTH - max(map(len, names)) * _LETTER - 14
    points = [point for line in lines for point in line.points]
    xs = [point.x for point in points]
    across = ChartAxis(*x, min(xs), max(xs), _LEFT, right, ticks)
    shown = [_within(several, across) for several in dots]
    for several in shown:
        points += several.points
    up = _upright(y, _heights(points), linear=linear)
    body = [*_grid(across, up)]
    for number, line in enumerate(lines):
        body += _drawn(line, number % COLOURS, across, up)
    body += [_dotted(several, across, up) for several in shown if several.points]
    ends = [up.at(line.points[-1].y) for line in lines]
    for number, (name, end) in enumerate(zip(names, _apart(ends), strict=True)):
        place = f'x="{right + 8:.1f}" y="{end + 4:.1f}"'
        body.append(f'<text class="ct-name-{number % COLOURS}" {place}>{html(name)}</text>')
    head = f'<svg class="lines" role="img" aria-label="{html(alt)}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'{head} width="{WIDTH}" height="{HEIGHT}">\n' + "\n".join(body) + "\n</svg>"


def _upright(y: tuple[str, Show], values: Sequence[float], *, linear: bool) -> ChartAxis:
    """The axis that holds all values."""
    place = (HEIGHT - _BOTTOM, _TOP)
    if not linear:
        return ChartAxis(*y, *_whole_steps(values), *place)
    scale = Scale.up_to(max(values), _MOST_TICKS)
    ticks = [scale.step * step for step in range(round(scale.top / scale.step) + 1)]
    return ChartAxis(*y, 0.0, scale.top, *place, ticks, linear=True)


def _within(dots: ChartDots, across: ChartAxis) -> ChartDots:
    inside = [point for point in dots.points if across.low <= point.x <= across.high]
    return dots._replace(points=inside)


def _dotted(dots: ChartDots, across: ChartAxis, up: ChartAxis) -> str:
    """The points as one path of round dots, a link."""
    path = "".join(f"M{across.at(point.x):.0f} {up.at(point.y):.1f}h0" for point in dots.points)
    colour = "none" if dots.line is None else str(dots.line % COLOURS)
    drawn = f'<path class="ct-dots-{colour}" d="{path}"/>'
    return f'<a href="{html(dots.url)}"><title>{html(dots.title)}</title>{drawn}</a>'


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _heights(points: Iterable[ChartPoint]) -> list[float]:
    found = []
    for point in points:
        found += [value for value in (point.y, point.low, point.high) if value is not None]
    return found


def _whole_steps(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that holds all values: whole steps of 1, 2, 5 and 10."""
    low, high = min(values), max(values)
    steps = _steps(low / 10, high * 10)
    return max(step for step in steps if step <= low), min(step for step in steps if step >= high)


def _steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten from ``low`` to ``high``."""
    found = []
    for power in range(floor(log10(low)), ceil(log10(high)) + 1):
        found += [times * 10.0**power for times in (1, 2, 5)]
    return [step for step in found if low <= step <= high]


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
        yield _text(across.start - 8, y + 4, up.show(tick), "end")
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
    """Heights of names near the ends of their lines, none on another and none below the axis."""
    order = sorted(range(len(ends)), key=ends.__getitem__)
    placed = list(ends)
    lowest: float = _TOP - _LINE
    for at in order:
        placed[at] = lowest = max(placed[at], lowest + _LINE)
    highest: float = HEIGHT - _BOTTOM + _LINE
    for at in reversed(order):
        placed[at] = highest = min(placed[at], highest - _LINE)
    return placed
