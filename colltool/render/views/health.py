"""What measured series reach of their prices, in the words that ``doctor``, ``validate`` and
``trace`` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.formatting import (
    and_text,
    counted,
    format_factor,
    format_rate,
    size_text,
    whole_bytes,
    whole_percent,
)
from colltool.diagnosis.results import SeriesHealth
from colltool.fabric.bundled_for import short_device
from colltool.render.documents import Document, derived, optional


class Spoken(NamedTuple):
    """The series of an answer, and the devices that ran them: what sentences need to name one."""

    series: Sequence[SeriesHealth]
    devices: Sequence[str]
    fabric: str  # with what changes it

    def who(self, health: SeriesHealth) -> str:
        """What ran, and on what: ``all-reduce on 64 H200``."""
        series = health.judged.series
        names = {short_device(device) for device in self.devices}
        device = names.pop() if len(names) == 1 else ""
        ranks = f"{series.ranks} {device}" if device else counted(series.ranks, "rank")
        who = f"{series.primitive.label} on {ranks}"
        # where these words do not tell series apart
        kind = (series.primitive, series.ranks)
        alike = [
            other.judged.series
            for other in self.series
            if (other.judged.series.primitive, other.judged.series.ranks) == kind
        ]
        if series.nodes and len({other.nodes for other in alike}) > 1:
            who += f" of {counted(series.nodes, 'node')}"
        if series.run and len(alike) > 1:
            who += f" ({series.run})"
        return who

    def passes(self, health: SeriesHealth) -> str:
        """Say how a series passes: ``all-reduce on 64 H200 reaches 103% of expected (pass mark
        80%)``. One that is too fast or not judged says why."""
        who = self.who(health)
        if health.too_fast:
            return f"{who} {self.too_fast(health)}"
        if health.large is not None:
            return f"{who} {reaches(health.large, health.bar)}"
        if health.small is None or health.small_bar is None:
            return f"{who} was measured at too few sizes to be judged"
        small = reaches(health.small, health.small_bar)
        return f"{who} {small} on small messages; large ones were not measured"

    def too_fast(self, health: SeriesHealth) -> str:
        """``is 5.8 times faster than dgx-h100 allows, so another machine ran it``."""
        times = format_factor(health.large or 0.0, 2).removesuffix("x")
        return f"is {times} times faster than {self.fabric} allows, so another machine ran it"

    def measured(self, health: SeriesHealth) -> str:
        """The busbw at the largest size, and what it should be."""
        last = health.judged.points[-1]
        got = format_rate(last.busbw_measured_Bps, 3)
        due = format_rate(last.busbw_expected_Bps, 3)
        at = size_text(whole_bytes(last.shown_bytes))
        return f"Measured: {got} busbw at {at}; expected of {self.fabric}: {due}."

    def passing(self, judged: Sequence[SeriesHealth]) -> str:
        """What few series reach, in one clause where it is the same."""
        alike = {self.passes(health).partition(" reaches ")[2] for health in judged}
        if len(judged) == 1 or len(alike) > 1:
            return and_text([self.passes(health) for health in judged])
        return f"{together([self.who(health) for health in judged])} reach {alike.pop()}"


def reaches(share: float, mark: float) -> str:
    return f"reaches {whole_percent(share)} of expected (pass mark {whole_percent(mark)})"


def together(names: Sequence[str]) -> str:
    """``all-reduce and all-gather on 8 H100``: what all names end with is said once."""
    ends = {name.partition(" on ")[2] for name in names}
    if len(names) == 1 or len(ends) > 1:
        return and_text(names)
    return f"{and_text([name.partition(' on ')[0] for name in names])} on {ends.pop()}"


# --- the document


class _MeasuredSeriesDocument(Document, at="judged.series"):
    collective: str = derived("judged.series.primitive")
    ranks: int
    nodes: int | None
    run: str = optional("judged.series.run")


class SeriesHealthDocument(_MeasuredSeriesDocument, of=SeriesHealth):
    """A series against what the fabric should reach."""

    wire: str
    bytes: float = derived(lambda health: whole_bytes(health.judged.points[-1].shown_bytes))
    busbw_measured_Bps: float = derived(lambda health: health.judged.points[-1].busbw_measured_Bps)
    busbw_expected_Bps: float = derived(lambda health: health.judged.points[-1].busbw_expected_Bps)
    large: float | None
    small: float | None
    low: bool
    bar: float
    small_bar: float | None
    dtype: str = derived("judged.series.dtype")
    files: list[str] = derived("judged.series.files")
