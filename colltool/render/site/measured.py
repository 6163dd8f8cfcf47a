"""Published measurements of a machine, as its page shows them: dots of a chart and a list of their
sources."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from colltool.base.formatting import counted, format_rate, title_size
from colltool.base.primitives import Primitive, busbw_factor
from colltool.calibration.published import PublishedRow, PublishedSource, published_rows
from colltool.render.markup import html
from colltool.render.page.lines import ChartDots, ChartPoint
from colltool.render.site.frame import anchor, folded, paragraph


class MeasuredCurve(NamedTuple):
    """The rows of a source on so many ranks."""

    source: PublishedSource
    ranks: int
    primitive: Primitive
    rows: Sequence[PublishedRow]  # by size

    def busbw_Bps(self, measured: PublishedRow) -> float:
        """The bus bandwidth of one of its rows."""
        rate = measured.bytes / measured.time_s
        return rate * busbw_factor(self.primitive, self.ranks)

    @property
    def title(self) -> str:
        """``64 ranks, NCCL 2.27.3``."""
        text = counted(self.ranks, "rank")
        if self.source.library:
            text += f", {self.source.library}"
        return text

    def dots(self, line: int | None) -> ChartDots:
        """The dots of its bus bandwidth in a chart. ``line``: number of the line whose colour they take;
        None: of no line."""
        points = []
        for measured in self.rows:
            points.append(ChartPoint(measured.bytes, self.busbw_Bps(measured)))
        source = self.source
        title = f"{source.source}: {self.title}"
        return ChartDots(points, line, title, source.url)

    def item(self, machine: str) -> str:
        """A line of the list as HTML (``<li>``), all its values folded in. ``machine``: whose page it is."""
        source = self.source
        values = []
        for measured in self.rows:
            size = title_size(measured.bytes)
            rate = format_rate(self.busbw_Bps(measured), 3)
            values.append(f"{size} {rate}")
        sizes = title_size(self.rows[0].bytes)
        if len(self.rows) > 1:
            last = title_size(self.rows[-1].bytes)
            sizes += f" to {last}"
        best = max(map(self.busbw_Bps, self.rows))
        text = f"{self.title}, {source.hardware}; {sizes}: up to {format_rate(best, 3)}"
        if source.machine != machine:
            text += f"; a variant, {source.machine}"
        link = anchor(source.url, source.source)
        every = paragraph("; ".join(values))
        inside = folded(f"{link}: {html(text)}", every)
        return f"<li>{inside}</li>\n"


def measured_curves(machine: str, primitive: Primitive) -> list[MeasuredCurve]:
    """The published series of a shipped machine in a collective, in the order of the file."""
    series: dict[tuple[PublishedSource, int], list[PublishedRow]] = {}
    for measured in published_rows():
        if measured.fabric == machine and measured.collective == primitive:
            series.setdefault((measured.source, measured.ranks), []).append(measured)
    curves = []
    by_size = attrgetter("bytes")
    for (source, ranks), rows in series.items():
        rows.sort(key=by_size)
        curves.append(MeasuredCurve(source, ranks, primitive, rows))
    return curves
