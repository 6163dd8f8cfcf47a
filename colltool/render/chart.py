"""Bus bandwidth over size as characters: braille on a terminal, plain ASCII elsewhere.

A view says what is drawn (:class:`BusbwChart`); :func:`draw` draws it in a given width and height. Sizes
go across on a logarithmic axis, bandwidth goes up from zero, and each curve has its name where it
ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, floor, log2, log10
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.formatting import title_size

if TYPE_CHECKING:
    from colltool.diagnosis.results import ValidatedSeries

MOST_CURVES = 4
"""More cannot be told apart."""
FEWEST_SIZES = 5
"""A chart of fewer sizes is drawn only where it is asked for."""
LEAST_ROWS = 5
MOST_ROWS = 14
"""Rows of the area in which curves are drawn."""
FURNITURE = 3
"""Lines of a chart beside those rows: its title, the axis, and the sizes under it."""
_LEAST_WIDTH = 20
_MARKS = "*o+x"
_STYLES = ("1;32", "36", "33", "35")
_PREFIXES = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_STEPS = (1, 2, 2.5, 5, 10)
# bits of a braille character, by row and column of its dots
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE = 0x2800


class BusbwCurve(NamedTuple):
    """Bandwidths in bytes/s over sizes in bytes, by rising size."""

    name: str
    points: tuple[tuple[float, float], ...]


class BusbwChart(NamedTuple):
    """Curves under a title; only the first :data:`MOST_CURVES` are drawn."""

    title: str
    curves: tuple[BusbwCurve, ...]

    @property
    def sizes(self) -> list[float]:
        """All sizes that have a point."""
        found: set[float] = set()
        for curve in self.curves:
            found.update(size for size, _ in curve.points)
        return sorted(found)


def curves(points: Iterable[tuple[str, float, float]]) -> tuple[BusbwCurve, ...]:
    """Curves from a name, a size and a bandwidth each, in the order in which names come first."""
    found: dict[str, dict[float, float]] = {}
    for name, size, value in points:
        # the first of equal sizes: rows of a price are best first
        found.setdefault(name, {}).setdefault(float(size), float(value))
    return tuple(BusbwCurve(name, tuple(sorted(values.items()))) for name, values in found.items())


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

    def paint(self, text: str, number: int) -> str:
        """Text in the colour of a curve."""
        if not self.colour or not text.strip():
            return text
        return f"\x1b[{_STYLES[number]}m{text}\x1b[0m"


class Scale(NamedTuple):
    """The scale of bandwidths: from zero to ``top``, labelled in multiples of ``unit``."""

    top: float
    step: float
    unit: float
    unit_name: str

    @classmethod
    def up_to(cls, most: float, ticks: int) -> Scale:
        """A scale with at most ``ticks`` round steps that has room for ``most``."""
        unit, name = next((row for row in _PREFIXES if most >= row[0]), _PREFIXES[-1])
        rough = most / unit / max(1, ticks)
        power = 10.0 ** floor(log10(rough))
        # the last of the steps is a power of ten further: one of them fits
        step = next(each * power for each in _STEPS if each * power >= rough * (1 - 1e-9))
        count = max(1, ceil(most / unit / step - 1e-9))
        return cls(count * step * unit, step * unit, unit, name)

    def height(self, value: float, dots: int) -> int:
        """The dot of a value, from 0 at the bottom to ``dots - 1``."""
        share = min(1.0, max(0.0, value / self.top))
        return round(share * (dots - 1))

    def labels(self, rows: int) -> dict[int, str]:
        """The label of each row that has one, from the top."""
        found = {}
        for tick in range(round(self.top / self.step), -1, -1):
            value = tick * self.step
            found[rows - 1 - self.height(value, rows)] = f"{value / self.unit:.4g}"
        return found


class Across(NamedTuple):
    """The scale of sizes, over ``dots`` dots."""

    least: float
    most: float
    dots: int

    def at(self, size: float) -> int:
        """The dot of a size, from 0 at the left."""
        if self.most <= self.least:
            return 0
        share = log2(size / self.least) / log2(self.most / self.least)
        return round(min(1.0, max(0.0, share)) * (self.dots - 1))


Dot = tuple[int, int]
"""The column of a dot from the left, and its row from the bottom."""


def dots_of(curve: BusbwCurve, across: Across, scale: Scale, height: int) -> list[Dot]:
    """The dots of a curve: one in each column, and those that join neighbours with a gap between
    them."""
    ends = [(across.at(size), scale.height(value, height)) for size, value in curve.points]
    found = ends[:1]
    for (left, low), (right, high) in pairwise(ends):
        before = low
        for column in range(left + 1, right + 1):
            row = round(low + (high - low) * (column - left) / (right - left))
            step = 1 if row >= before else -1
            found += [(column, between) for between in range(before + step, row, step)]
            found.append((column, row))
            before = row
        if left == right:
            found.append((right, high))
    return found


def draw(chart: BusbwChart, width: int, rows: int, pen: ChartPen = ChartPen()) -> list[str]:  # noqa: B008
    """The lines of a chart, at most ``width`` characters wide, with ``rows`` rows of curves."""
    width = max(width, _LEAST_WIDTH)
    drawn_curves = [curve for curve in chart.curves if curve.points][:MOST_CURVES]
    most = max((value for curve in drawn_curves for _, value in curve.points), default=0.0)
    scale = Scale.up_to(most or 1.0, max(1, (rows - 1) // 3))
    labels = scale.labels(rows)
    left = max(map(len, labels.values()))
    names = _names(drawn_curves, width, pen)
    right = max(map(len, names), default=0)
    columns = max(4, width - left - 2 - right - 1)
    by_column, by_row = (2, 4) if pen.unicode else (1, 1)
    sizes = chart.sizes
    across = Across(sizes[0], sizes[-1], columns * by_column)
    drawn = [dots_of(curve, across, scale, rows * by_row) for curve in drawn_curves]
    cells = _braille(drawn, rows, pen) if pen.unicode else _marked(drawn, rows, pen)
    ends = [rows - 1 - each[-1][1] // by_row for each in drawn]
    named = _placed(ends, rows)
    tick, bar, corner, line = "┤│└─" if pen.unicode else "+|+-"
    out = [f"busbw in {scale.unit_name}, {chart.title}"[:width]]
    for row in range(rows):
        label = labels.get(row, "")
        edge = tick if label else bar
        text = "".join(cells.get((column, row), " ") for column in range(columns))
        if row in named:
            number = named[row]
            text += f" {pen.paint(names[number], number)}"
        out.append(f"{label:>{left}} {edge}{text}".rstrip())
    out.append(f"{'':>{left}} {corner}{line * columns}")
    under = _size_labels(sizes, across, by_column, columns, width - left - 2)
    out.append(f"{'':>{left}}  {under}".rstrip())
    return out


def _names(drawn_curves: Sequence[BusbwCurve], width: int, pen: ChartPen) -> list[str]:
    """The names of curves, clipped to a third of the width, with their marks in ASCII."""
    found = []
    for number, curve in enumerate(drawn_curves):
        name = curve.name if pen.unicode else f"{_MARKS[number]} {curve.name}"
        found.append(name[: max(4, width // 3)].rstrip())
    return found


def _placed(ends: Sequence[int], rows: int) -> dict[int, int]:
    """The curve whose name stands in each row: from the top in the order of their ends."""
    found: dict[int, int] = {}
    row = -1
    for place, number in enumerate(sorted(range(len(ends)), key=lambda each: ends[each])):
        # room for the names that follow
        last = rows - (len(ends) - place)
        row = min(max(ends[number], row + 1), max(last, row + 1))
        found[row] = number
    return found


def _braille(
    drawn: Sequence[Sequence[Dot]], rows: int, pen: ChartPen
) -> dict[tuple[int, int], str]:
    """Braille characters by column and row from the top; the first curve colours what it shares."""
    bits: dict[tuple[int, int], int] = {}
    owners: dict[tuple[int, int], int] = {}
    for number, dots in enumerate(drawn):
        for column, height in dots:
            below_top = rows * 4 - 1 - height
            cell = (column // 2, below_top // 4)
            bits[cell] = bits.get(cell, 0) | _DOTS[below_top % 4][column % 2]
            owners.setdefault(cell, number)
    return {cell: pen.paint(chr(_BRAILLE + bits[cell]), owners[cell]) for cell in bits}


def _marked(drawn: Sequence[Sequence[Dot]], rows: int, pen: ChartPen) -> dict[tuple[int, int], str]:
    """The marks of curves by column and row from the top; the first curve keeps what it shares."""
    found: dict[tuple[int, int], str] = {}
    for number, dots in enumerate(drawn):
        for column, height in dots:
            found.setdefault((column, rows - 1 - height), pen.paint(_MARKS[number], number))
    return found


def _size_labels(
    sizes: Sequence[float], across: Across, by_column: int, columns: int, room: int
) -> str:
    """Sizes under the axis, as many as fit: the first, the last, and those between in order."""
    placed: list[tuple[int, str]] = []
    first, *between = sizes
    last = between.pop() if between else None
    taken_to = -2
    last_text = "" if last is None else title_size(last)
    last_at = max(0, min(columns - (len(last_text) + 1) // 2, room - len(last_text)))
    for size in (first, *between):
        text = title_size(size)
        at = max(0, across.at(size) // by_column - len(text) // 2)
        ends_at = at + len(text)
        limit = last_at - 1 if last_text else room
        if at >= taken_to + 2 and ends_at < limit:
            placed.append((at, text))
            taken_to = ends_at
    if last_text:
        placed.append((last_at, last_text))
    line = ""
    for at, text in placed:
        line = f"{line:<{at}}{text}"
    return line
