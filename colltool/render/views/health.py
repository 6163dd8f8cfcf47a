"""What measured series reach of their prices, in the words that ``doctor``, ``validate`` and
``trace`` share.

A series is a run of a collective over sizes. It is judged on large messages, by its bus bandwidth, and
on small ones: each a share of what is expected (``large``, ``small``), beside its pass mark (``bar``,
``small_bar``). None where it has no such sizes.
"""

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
from colltool.logs.series import Series, Skipped
from colltool.render.documents import Document, derived, optional
from colltool.render.shared_documents import whole


class SeriesName(NamedTuple):
    """What ran, and on what: ``all-reduce`` on ``64 H200``."""

    collective: str
    ranks: str

    def __str__(self) -> str:
        return f"{self.collective} on {self.ranks}"


class SeriesWords(NamedTuple):
    """Sentences on the series of an answer."""

    series: Sequence[SeriesHealth]
    devices: Sequence[str]  # that ran them, as the logs name them
    fabric: str  # its name and overrides, as people read them

    def name(self, health: SeriesHealth) -> SeriesName:
        """A series, told apart from others of the same collective and ranks."""
        series = health.judged.series
        devices = {short_device(device) for device in self.devices}
        ranks = counted(series.ranks, "rank")
        # one device, which has a short name
        if len(devices) == 1 and devices != {""}:
            ranks = f"{series.ranks} {devices.pop()}"
        alike = []
        for other_health in self.series:
            other = other_health.judged.series
            if (other.primitive, other.ranks) == (series.primitive, series.ranks):
                alike.append(other)
        return SeriesName(series.primitive.label, ranks + _distinction(series, alike))

    def outcome(self, health: SeriesHealth) -> str:
        """How one series passes: ``all-reduce on 64 H200 reaches 103% of expected (pass mark
        80%)``. One that is too fast or not judged says why."""
        verb, rest = self._outcome(health)
        return f"{self.name(health)} {verb} {rest}"

    def _outcome(self, health: SeriesHealth) -> tuple[str, str]:
        """The verb, which depends on the number of series, and what follows it."""
        if health.too_fast:
            factor = format_factor(health.large or 0.0, 2).removesuffix("x")
            return "is", (
                f"{factor} times faster than {self.fabric} allows, so another machine ran it"
            )
        if health.large is not None:
            return "reaches", _share_text(health.large, health.bar)
        if health.small is None or health.small_bar is None:
            return "was", "measured at too few sizes to be judged"
        small = _share_text(health.small, health.small_bar)
        return "reaches", f"{small} on small messages; large ones were not measured"

    def outcomes(self, judged: Sequence[SeriesHealth]) -> str:
        """How a few series pass, in one clause where it is the same of all; ``judged`` is one at least."""
        # the distinct outcomes
        (verb, rest), *others = {self._outcome(health) for health in judged}
        if len(judged) == 1 or others:
            return and_text([self.outcome(health) for health in judged])
        names = [self.name(health) for health in judged]
        return f"{names_on_ranks(names)} {_PLURAL_VERBS[verb]} {rest}"

    def largest(self, health: SeriesHealth) -> str:
        """The busbw at the largest size, and what it should be."""
        point = health.largest
        measured = format_rate(point.busbw_measured_Bps, 3)
        expected = format_rate(point.busbw_expected_Bps, 3)
        size = size_text(whole_bytes(point.shown_bytes))
        return f"Measured: {measured} busbw at {size}; expected of {self.fabric}: {expected}."


_PLURAL_VERBS = {"is": "are", "reaches": "reach", "was": "were"}


def _share_text(share: float, mark: float) -> str:
    """``103% of expected (pass mark 80%)``."""
    return f"{whole_percent(share)} of expected (pass mark {whole_percent(mark)})"


def _distinction(
    series: Series,
    alike: Sequence[Series],
) -> str:
    """What tells a series apart from others of its collective and ranks, ``alike``: `` of 8 nodes``,
    `` (second.log)``."""
    text = ""
    if series.nodes and len({other.nodes for other in alike}) > 1:
        text = f" of {counted(series.nodes, 'node')}"
    if series.run and len(alike) > 1:
        text += f" ({series.run})"
    return text


def names_on_ranks(names: Sequence[SeriesName]) -> str:
    """``all-reduce and all-gather on 8 H100``: ranks that all have are said once."""
    if len({name.ranks for name in names}) > 1:
        return and_text(list(map(str, names)))
    return f"{and_text([name.collective for name in names])} on {names[0].ranks}"


def skipped_text(skip: Skipped) -> str:
    """``no time: 3 rows, first at run.log:12``."""
    return f"{skip.reason}: {counted(skip.rows, 'row')}, first at {skip.where}"


# --- the document


class SeriesHealthDocument(Document, of=SeriesHealth):
    """A series against what the fabric should reach."""

    collective: str = derived("judged.series.primitive")
    ranks: int = derived("judged.series.ranks")
    nodes: int | None = derived("judged.series.nodes")
    run: str = optional("judged.series.run")
    wire: str
    bytes: float = whole("largest.shown_bytes")
    busbw_measured_Bps: float = derived("largest.busbw_measured_Bps")
    busbw_expected_Bps: float = derived("largest.busbw_expected_Bps")
    large: float | None
    small: float | None
    low: bool
    bar: float
    small_bar: float | None
    dtype: str = derived("judged.series.dtype")
    files: list[str] = derived("judged.series.files")
