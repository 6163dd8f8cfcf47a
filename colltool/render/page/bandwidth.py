"""The charts of a report: bus bandwidth over size, a line for each fabric of a
comparison, or for each number of ranks of a sweep.

The page draws one for the verdict and one for each exhibit of these kinds (:func:`bandwidth_chart`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from colltool.analysis.cells import Cell
from colltool.analysis.compare import Comparison
from colltool.analysis.sweep import Sweep, pivot_tables
from colltool.base.formatting import format_bytes, format_rate
from colltool.render.page.lines import AxisWords, ChartLine, ChartPoint, line_chart
from colltool.render.views.report_reference import reference_ranks
from colltool.render.views.sweep_words import value_text

if TYPE_CHECKING:
    from colltool.analysis.report import Exhibit, Report

_SIZE = AxisWords("size", partial(format_bytes, digits=3))
_RATE = AxisWords("bus bandwidth", partial(format_rate, digits=3))


def bandwidth_chart(report: Report, exhibit: Exhibit) -> str:
    """The chart of an exhibit as ``<svg>``; empty if it has no line of two points."""
    result = exhibit.result
    lines: list[ChartLine] = []
    if isinstance(result, Comparison):
        lines = _lines_of_fabrics(report, result)
    elif isinstance(result, Sweep):
        lines = list(_lines_of_ranks(result))
    names = ", ".join(line.name for line in lines)
    alt = f"{bandwidth_title(report, exhibit)}: a line for each of {names}"
    return line_chart(lines, alt, _SIZE, _RATE)


def bandwidth_title(report: Report, exhibit: Exhibit) -> str:
    """``Bus bandwidth of all-reduce on 64 ranks``."""
    result = exhibit.result
    if isinstance(result, Comparison):
        primitive = result.lines[0].primitive
        return f"Bus bandwidth of {primitive.label} on {reference_ranks(report)}"
    if isinstance(result, Sweep):
        return f"Bus bandwidth of {result.primitive.label} by number of ranks"
    return exhibit.title


def _lines_of_fabrics(report: Report, comparison: Comparison) -> list[ChartLine]:
    """A line for each fabric, at the ranks of the reference point."""
    chart_lines = []
    # the report's titles are in the order of the comparison's columns
    for column, title in enumerate(report.titles):
        points = []
        for line in comparison.lines:
            if line.ranks == report.ranks:
                points.append(_point(line.bytes, line.cells[column]))
        chart_lines.append(_chart_line(title, points))
    return chart_lines


def _lines_of_ranks(sweep: Sweep) -> Iterator[ChartLine]:
    """A line for each number of ranks, where the sweep has sizes beside them."""
    pivot = sweep.pivot
    if pivot is None:
        return
    values = {axis.key: axis.values for axis in sweep.axes}
    # a report's sweep has sizes down and ranks across
    for _, cells in pivot_tables(sweep, pivot):
        for column, ranks in enumerate(values["ranks"]):
            points = []
            for size, cells_of_size in zip(values["bytes"], cells, strict=True):
                points.append(_point(float(size), cells_of_size[column]))
            name = f"{value_text('ranks', ranks)} ranks"
            yield _chart_line(name, points)


def _chart_line(name: str, points: Sequence[ChartPoint | None]) -> ChartLine:
    """A line through the points at which something runs."""
    return ChartLine(name, list(filter(None, points)))


def _point(size: float, cell: Cell) -> ChartPoint | None:
    """Bus bandwidth at a size in bytes, with its interval; None where nothing runs."""
    rate = cell.busbw_Bps
    total_s = cell.total_s
    if not rate or not total_s:
        return None
    interval = cell.interval
    if interval is None:
        return ChartPoint(size, rate)
    # the rate is these bytes over the time: the longest time is the lowest rate
    bus_bytes = rate * total_s
    return ChartPoint(size, rate, bus_bytes / interval.high_s, bus_bytes / interval.low_s)
