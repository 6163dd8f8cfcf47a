"""Bus bandwidth over size as characters: braille on a terminal, plain ASCII elsewhere.

A view says what is drawn (:class:`BusbwChart`); :func:`draw` draws it in a given width and height. Sizes
go across on a logarithmic axis, bandwidth goes up from zero, and each curve has its name where it
ends.

Curves are drawn in dots, of which a braille character has 2 x 4 and one of ASCII a single one: a
:class:`SizeAxis` and a :class:`Scale` turn values into dots, :func:`dots_of` joins the dots of a curve,
and :func:`_characters` puts them together into characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, log2, log10
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.formatting import title_size

if TYPE_CHECKING:
    from colltool.diagnosis.results import ValidatedSeries

MOST_CURVES = 4  # more cannot be told apart
FEWEST_SIZES = 5  # a chart of fewer is drawn only where it is asked for
# rows of the area in which curves are drawn
LEAST_ROWS = 5
MOST_ROWS = 14
FURNITURE = 3  # lines of a chart besides those rows: the title, the axis, and the sizes under it
_LEAST_WIDTH = 20
_MARKS = "*o+x"  # of curves in ASCII
_STYLES = ("1;32", "36", "33", "35")  # ANSI: bold green, cyan, yellow, magenta
_PREFIXES = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_ROUND_STEPS = (1, 2, 2.5, 5, 10)  # between labels of the axis, times a power of ten
# bits of a braille character, by row and column of its dots
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE = 0x2800  # the code point of the empty one


class BusbwCurve(NamedTuple):
    """Bandwidths in bytes/s over sizes in bytes, by rising size."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def highest(self) -> float:
        return max(value for _, value in self.points)


class BusbwChart(NamedTuple):
    """Curves under a title; only the first :data:`MOST_CURVES` are drawn."""

    title: str
    curves: tuple[BusbwCurve, ...]

    @property
    def sizes(self) -> list[float]:
        """All sizes that have a point."""
        sizes: set[float] = set()
        for curve in self.curves:
            sizes.update(size for size, _ in curve.points)
        return sorted(sizes)


def curves(points: Iterable[tuple[str, float, float]]) -> tuple[BusbwCurve, ...]:
    """Make curves of points (name, bytes, bytes/s), in the order in which names first come."""
    by_name: dict[str, dict[float, float]] = {}
    for name, size, value in points:
        # the first of equal sizes: rows of a price are best first
        by_name.setdefault(name, {}).setdefault(float(size), float(value))
    return tuple(
        BusbwCurve(name, tuple(sorted(values.items()))) for name, values in by_name.items()
    )


def series_chart(fit: ValidatedSeries) -> BusbwChart:
    """Measured and expected bus bandwidth of a series."""
    points = []
    for point in fit.points:
        points.append(("measured", point.bytes, point.busbw_measured_Bps))
        points.append(("expected", point.bytes, point.busbw_expected_Bps))
    return BusbwChart(fit.series.title, curves(points))


class ChartPen(NamedTuple):
    """How characters are drawn: in Unicode or ASCII, in colour or not."""

    unicode: bool = False
    colour: bool = False

    @property
    def dots(self) -> tuple[int, int]:
        """Dots of a character, across and down."""
        return (2, 4) if self.unicode else (1, 1)

    def paint(self, text: str, number: int) -> str:
        """Text in the colour of a curve."""
        if not self.colour or not text.strip():
            return text
        return f"\x1b[{_STYLES[number]}m{text}\x1b[0m"


class Scale(NamedTuple):
    """The scale of bandwidths: from zero to ``top``, labelled in multiples of ``unit``."""

    # in bytes/s
    top: float
    step: float  # between labels
    unit: float
    unit_name: str

    @classmethod
    def up_to(cls, most: float, ticks: int) -> Scale:
        """A scale with at most ``ticks`` round steps that has room for ``most`` bytes/s."""
        unit, name = next((prefix for prefix in _PREFIXES if most >= prefix[0]), _PREFIXES[-1])
        least_step = most / unit / ticks
        power = 10.0 ** floor(log10(least_step))
        # the last step is the first of the next power of ten, so one is large enough; the tolerance is for
        # rounding
        steps = [step * power for step in _ROUND_STEPS]
        step = next(step for step in steps if step >= least_step * (1 - 1e-9))
        count = max(1, ceil(most / unit / step - 1e-9))
        return cls(count * step * unit, step * unit, unit, name)

    def height(self, value: float, dots: int) -> int:
        """The dot of a value from zero to the top, from 0 at the bottom to ``dots - 1``."""
        return round(value / self.top * (dots - 1))

    def labels(self, rows: int) -> dict[int, str]:
        """The label of each row that has one, from the top."""
        labels = {}
        # from the top: where two fall on a row, the lower one stays
        for tick in range(round(self.top / self.step), -1, -1):
            value = tick * self.step
            labels[rows - 1 - self.height(value, rows)] = f"{value / self.unit:.4g}"
        return labels


class SizeAxis(NamedTuple):
    """The logarithmic axis of sizes, over ``dots`` dots."""

    least: float  # bytes at its left
    most: float  # bytes at its right
    dots: int

    def dot(self, size: float) -> int:
        """The dot of a size between its ends, from 0 at the left to ``dots - 1``."""
        if self.most <= self.least:
            return 0
        share = log2(size / self.least) / log2(self.most / self.least)
        return round(share * (self.dots - 1))


Dot = tuple[int, int]
"""The column of a dot from the left, and its row from the bottom."""


def dots_of(curve: BusbwCurve, axis: SizeAxis, scale: Scale, height: int) -> list[Dot]:
    """The dots of a curve, from left to right: one in each column, and those that join neighbours
    with a gap between them.

    Args:
        height: dots of the area from bottom to top.
    """
    ends = [(axis.dot(size), scale.height(value, height)) for size, value in curve.points]
    dots = ends[:1]
    for (left, low), (right, high) in pairwise(ends):
        before = low
        for column in range(left + 1, right + 1):
            row = round(low + (high - low) * (column - left) / (right - left))
            # the dots of this column between its row and that of the column before
            step = 1 if row >= before else -1
            dots += [(column, between) for between in range(before + step, row, step)]
            dots.append((column, row))
            before = row
        if left == right:
            dots.append((right, high))
    return dots


def draw(chart: BusbwChart, width: int, rows: int, pen: ChartPen = ChartPen()) -> list[str]:  # noqa: B008
    """Return the lines of a chart, at most ``width`` characters wide, with ``rows`` rows of curves. ``chart`` has
    a curve with a point."""
    width = max(width, _LEAST_WIDTH)
    drawable = [curve for curve in chart.curves if curve.points][:MOST_CURVES]
    highest = max(map(attrgetter("highest"), drawable))
    # a label for every third row
    scale = Scale.up_to(highest or 1.0, max(1, (rows - 1) // 3))
    labels = scale.labels(rows)
    label_width = max(map(len, labels.values()))
    names = _names(drawable, width, pen)
    # beside the labels a blank and the axis, before the names a blank
    columns = max(4, width - label_width - 2 - max(map(len, names)) - 1)
    dots_across, dots_up = pen.dots
    axis = SizeAxis(chart.sizes[0], chart.sizes[-1], columns * dots_across)
    drawn = [dots_of(curve, axis, scale, rows * dots_up) for curve in drawable]
    tick, bar, corner, line = "┤│└─" if pen.unicode else "+|+-"
    lines = [f"busbw in {scale.unit_name}, {chart.title}"[:width]]
    for row, text in enumerate(_area(drawn, names, columns, rows, pen)):
        label = labels.get(row, "")
        lines.append(f"{label:>{label_width}} {tick if label else bar}{text}".rstrip())
    lines.append(f"{'':>{label_width}} {corner}{line * columns}")
    sizes = _size_labels(chart.sizes, axis, dots_across, width - label_width - 2)
    lines.append(f"{'':>{label_width}}  {sizes}")
    return lines


def _names(curves: Sequence[BusbwCurve], width: int, pen: ChartPen) -> list[str]:
    """The names of curves, clipped to a third of the width, with their marks in ASCII."""
    names = []
    for number, curve in enumerate(curves):
        name = curve.name if pen.unicode else f"{_MARKS[number]} {curve.name}"
        names.append(name[: max(4, width // 3)].rstrip())
    return names


def _area(
    drawn: Sequence[Sequence[Dot]], names: Sequence[str], columns: int, rows: int, pen: ChartPen
) -> Iterator[str]:
    """The rows of the area from the top, each with the name of the curve that ends there."""
    characters = _characters(drawn, rows, pen)
    ends = [rows - 1 - dots[-1][1] // pen.dots[1] for dots in drawn]
    named = _name_rows(ends, rows)
    for row in range(rows):
        text = "".join(characters.get((column, row), " ") for column in range(columns))
        if row in named:
            number = named[row]
            text += f" {pen.paint(names[number], number)}"
        yield text


def _characters(
    drawn: Sequence[Sequence[Dot]], rows: int, pen: ChartPen
) -> dict[tuple[int, int], str]:
    """The characters of the area by column and row from the top. One that several curves share has
    the colour, and in ASCII the mark, of the first."""
    dots_across, dots_up = pen.dots
    bits: dict[tuple[int, int], int] = {}
    owners: dict[tuple[int, int], int] = {}
    for number, dots in enumerate(drawn):
        for column, height in dots:
            below_top = rows * dots_up - 1 - height
            place = (column // dots_across, below_top // dots_up)
            bits[place] = bits.get(place, 0) | _DOTS[below_top % dots_up][column % dots_across]
            owners.setdefault(place, number)
    characters = {}
    for place, number in owners.items():
        character = chr(_BRAILLE + bits[place]) if pen.unicode else _MARKS[number]
        characters[place] = pen.paint(character, number)
    return characters


def _name_rows(ends: Sequence[int], rows: int) -> dict[int, int]:
    """The curve whose name stands in each row: in the row where it ends, or as near as the others
    leave room.

    Of 5 rows, curves that end in rows 2, 2 and 3 have their names in 2, 3 and 4. Two that both end
    in the last row, 4, have them in 3 and 4: the upper one leaves room for the lower.
    """
    named = {}
    row = -1
    by_end = sorted(range(len(ends)), key=ends.__getitem__)
    for place, number in enumerate(by_end):
        last = rows - (len(ends) - place)
        row = min(max(ends[number], row + 1), last)
        named[row] = number
    return named


def _size_labels(sizes: Sequence[float], axis: SizeAxis, dots_across: int, room: int) -> str:
    """Sizes under the axis, as many as fit: the last, the first, and those between in order.

    Args:
        dots_across: of a character.
        room: characters of the line.
    """
    *others, last = sizes
    last_text = title_size(last)
    centred_at = axis.dots // dots_across - (len(last_text) + 1) // 2
    last_at = max(0, min(centred_at, room - len(last_text)))
    line = ""
    for size in others:
        text = title_size(size)
        starts_at = max(0, axis.dot(size) // dots_across - len(text) // 2)
        free_from = len(line) + 2 if line else 0
        if starts_at >= free_from and starts_at + len(text) < last_at - 1:
            line = f"{line:<{starts_at}}{text}"
    return f"{line:<{last_at}}{last_text}"
