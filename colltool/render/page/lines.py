"""A line chart as inline SVG for the pages of reports and machines (:func:`line_chart`). Axes are
logarithmic unless the upright one is to be linear; each line has its name at its end and the band
of its interval behind it; measured points lead to their sources.

A :class:`ChartAxis` turns values into coordinates; the rest writes elements. ``x`` and ``y`` of a point are
values, as ``low`` and ``high`` are; of a place they are coordinates. Colours are CSS classes (``ct-line-0`` and on,
in ``chart.css``), so that the chart is readable in light, dark and on paper.
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
# lengths in the units of the SVG, which are pixels at its natural size; y grows downward
WIDTH = 480
HEIGHT = 320
# margins around the area of the lines
_LEFT = 72
_TOP = 28
_BOTTOM = 48
_RIGHT = 6  # beside the longest name
_LETTER = 8.0  # width of a bold letter of a name
_LINE_HEIGHT = 16  # of text
_BASELINE = 4  # from the middle of a line of text down to its feet
_NAME_GAP = 8  # between the end of a line and its name
_LABEL_GAP = 8  # between the upright axis and its labels
_TICK_DISTANCE = 58  # of two sizes under the axis, at least
# counts
_LONGEST_NAME = 18  # characters
_MOST_TICKS = 6  # along the upright axis

Show = Callable[[float], str]


class AxisWords(NamedTuple):
    """The title of an axis, and how its numbers are written."""

    title: str
    show: Show


class ChartPoint(NamedTuple):
    """A point of a line; ``low`` and ``high`` are where nine of ten measurements lie, None without
    interval."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class ChartLine(NamedTuple):
    """A line and its name; all its numbers are positive."""

    name: str
    points: Sequence[ChartPoint]


class ChartDots(NamedTuple):
    """Measured points of a source, which lead to ``url``."""

    points: Sequence[ChartPoint]
    line: int | None  # the index of the line whose colour they have; None for a colour of their own
    title: str  # what they are, in a few words
    url: str


class ChartAxis(NamedTuple):
    """An axis of values, and where it is drawn."""

    title: str
    show: Show
    # the values at its ends, and the coordinates of these in the SVG
    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[float] = ()  # values with a label; none: round decimal numbers
    linear: bool = False  # else logarithmic

    def at(self, value: float) -> float:
        """The coordinate of a value."""
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
    """Return the chart as one ``<svg>``; empty without a line of at least two points.

    Args:
        lines: of these only the ones with two points or more are drawn.
        alt: what the chart shows, for those who do not see it.
        dots: drawn as far as their sizes are among the lines'.
        ticks: values with a label across; none: round decimal numbers.
        linear: whether the upright axis goes from zero in equal steps.
    """
    lines = [line for line in lines if len(line.points) > 1]
    if not lines:
        return ""
    names = [_short_name(line.name) for line in lines]
    points: list[ChartPoint] = []
    for line in lines:
        points += line.points
    xs = [point.x for point in points]
    right = WIDTH - _RIGHT - _NAME_GAP - max(map(len, names)) * _LETTER
    across = ChartAxis(*x, low=min(xs), high=max(xs), start=_LEFT, end=right, ticks=ticks)
    dots_inside = [_dots_within(source, across) for source in dots]
    for source in dots_inside:
        points += source.points
    upright = _upright_axis(y, _all_heights(points), linear=linear)
    elements = [*_grid(across, upright)]
    for number, line in enumerate(lines):
        elements += _line_and_band(line, number % COLOURS, across, upright)
    elements += [_dots_link(source, across, upright) for source in dots_inside if source.points]
    elements += _name_texts(names, [upright.at(line.points[-1].y) for line in lines], right)
    drawn = "\n".join(elements)
    return (
        f'<svg class="lines" role="img" aria-label="{html(alt)}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}">\n{drawn}\n</svg>'
    )


def _name_texts(names: Sequence[str], ends: Sequence[float], right: float) -> Iterator[str]:
    """The names of lines near the heights at which these end, in their colours."""
    for number, (name, y) in enumerate(zip(names, _spread(ends), strict=True)):
        colour = number % COLOURS
        place = f'x="{right + _NAME_GAP:.1f}" y="{y + _BASELINE:.1f}"'
        yield f'<text class="ct-name-{colour}" {place}>{html(name)}</text>'


def _upright_axis(y: AxisWords, values: Sequence[float], *, linear: bool) -> ChartAxis:
    """The axis that holds all values."""
    low, high = _whole_steps(values)
    axis = ChartAxis(*y, low=low, high=high, start=HEIGHT - _BOTTOM, end=_TOP)
    if not linear:
        return axis
    scale = Scale.up_to(max(values), _MOST_TICKS)
    steps = round(scale.top / scale.step)
    ticks = [scale.step * step for step in range(steps + 1)]
    return axis._replace(low=0.0, high=scale.top, ticks=ticks, linear=True)


def _dots_within(dots: ChartDots, across: ChartAxis) -> ChartDots:
    """Those of the dots that lie between the ends of the axis."""
    inside = [point for point in dots.points if across.low <= point.x <= across.high]
    return dots._replace(points=inside)


def _dots_link(dots: ChartDots, across: ChartAxis, upright: ChartAxis) -> str:
    """The dots of a source as one path within a link."""
    path = ""
    for point in dots.points:
        # a line of no length, whose round ends are a dot
        path += f"M{across.at(point.x):.0f} {upright.at(point.y):.1f}h0"
    colour = "none" if dots.line is None else str(dots.line % COLOURS)
    drawn = f'<path class="ct-dots-{colour}" d="{path}"/>'
    return f'<a href="{html(dots.url)}"><title>{html(dots.title)}</title>{drawn}</a>'


def _short_name(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _all_heights(points: Iterable[ChartPoint]) -> list[float]:
    """The values of points and of the ends of their intervals."""
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
    """Round values along a logarithmic axis, ``most`` or fewer: 1, 2 and 5 times powers of ten; where those
    are too many, powers of ten alone, or every second, third and so on of them."""
    steps = _steps(axis.low, axis.high)
    if len(steps) <= most:
        return steps
    tens = [step for step in steps if abs(log10(step) - round(log10(step))) < 1e-9]
    return tens[:: max(1, ceil(len(tens) / most))]


def _grid(across: ChartAxis, upright: ChartAxis) -> Iterable[str]:
    """A line and a label for each tick, and the titles of the axes."""
    label_x = across.start - _LABEL_GAP
    for tick in upright.ticks or _ticks(upright, _MOST_TICKS):
        y = upright.at(tick)
        yield f'<path class="ct-grid" d="M{across.start} {y:.1f}H{across.end:.1f}"/>'
        yield _text(label_x, y + _BASELINE, upright.show(tick), "end")
    for tick in across.ticks or _ticks(across, (across.end - across.start) / _TICK_DISTANCE):
        x = across.at(tick)
        yield f'<path class="ct-grid" d="M{x:.1f} {upright.start}V{upright.end}"/>'
        yield _text(x, upright.start + 17, across.show(tick), "middle")
    middle = (across.start + across.end) / 2
    yield _text(middle, HEIGHT - 8, across.title, "middle")
    yield _text(label_x, upright.end - 14, upright.title, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    """A text in the soft colour; ``anchor``: which part of it is at ``x``."""
    place = f'text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="ct-soft" {place}>{html(text)}</text>'


def _line_and_band(
    line: ChartLine, colour: int, across: ChartAxis, upright: ChartAxis
) -> Iterable[str]:
    """The band of a line's intervals, where two points have one, and the line over it."""
    above = []
    below = []
    for point in line.points:
        if point.low is not None and point.high is not None:
            x = across.at(point.x)
            above.append((x, upright.at(point.high)))
            below.append((x, upright.at(point.low)))
    if len(above) > 1:
        # around the band: its upper edge to the right, its lower edge back
        yield f'<path class="ct-band-{colour}" d="M{_path(above + below[::-1])}Z"/>'
    places = [(across.at(point.x), upright.at(point.y)) for point in line.points]
    yield f'<path class="ct-line-{colour}" d="M{_path(places)}"/>'


def _path(places: Iterable[tuple[float, float]]) -> str:
    """Places joined by lines, as in an SVG path after its ``M``."""
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _spread(ends: Sequence[float]) -> list[float]:
    """The y of each name, near the end of its line, none on another and none below the axis.

    Ends at 30, 32 and 100: from the top down each is at least a line of text below the one before,
    30, 46 and 100; then from the bottom up each as far above, and none under the axis.
    """
    downward = sorted(range(len(ends)), key=ends.__getitem__)
    name_ys = list(ends)
    above: float = _TOP - _LINE_HEIGHT
    for index in downward:
        above = max(name_ys[index], above + _LINE_HEIGHT)
        name_ys[index] = above
    below: float = HEIGHT - _BOTTOM + _LINE_HEIGHT
    for index in reversed(downward):
        below = min(name_ys[index], below - _LINE_HEIGHT)
        name_ys[index] = below
    return name_ys
