"""What a calibration says of itself: sources of its numbers, notes for its reader, and the head of its file."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import basename
from textwrap import wrap
from typing import TypeVar

from colltool.base.formatting import format_rate, format_time, percent, size_text, whole_percent
from colltool.base.primitives import Primitive
from colltool.calibration.results import FittedSeries
from colltool.measurements.series import Series

_T = TypeVar("_T")

_WIDTH = 118

_LISTED, _FEWEST_LISTED = 300, 3
"""Sizes whose errors the head of a file lists, in all and of each series at least; with thousands it is too large to be read."""

_NAMED = 10
"""Logs that a source names."""


def source_of(series: Sequence[Series], algorithms: Sequence[str]) -> str:
    """Where the numbers of a protocol come from."""
    logs = list(dict.fromkeys(_readable(basename(file)) for one in series for file in one.files))
    files = ", ".join(logs[:_NAMED]) + (f" and {len(logs) - _NAMED} more" if len(logs) > _NAMED else "")
    what = "; ".join(dict.fromkeys(one.primitive.spoken for one in series))
    ranks = ", ".join(str(n) for n in sorted({one.ranks for one in series}))
    points = sum(len(one.points) for one in series)
    ran = f", as {' + '.join(algorithms)}" if algorithms else ""
    return f"colltool calibrate: {what} on {ranks} ranks{ran}, {points} sizes" + (f" from {files}" if files else "")


def _readable(name: str) -> str:
    """A file's name in characters that a file can hold: bytes that are no UTF-8, and what no screen shows, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


_ASTRAY, _ASTRAY_BY = 2.0, 0.03
"""By what a file may meet its own points worse than the fit met unseen ones before somebody is told."""


def series_notes(results: Sequence[FittedSeries]) -> list[str]:
    """What a reader should know before trusting the numbers, each once."""
    notes = []
    for one in results:
        sure = f"{one.series.primitive.spoken}: {' + '.join(one.algorithms)} ({one.confidence})"
        tied = sorted({field for protocol in one.protocols for field in protocol.tied})
        alone = len({other.series.ranks for other in results if other.series.primitive is one.series.primitive}) == 1
        notes += [sure] + [_tied(one, field, alone=alone) for field in tied]
        if one.cv_mape is not None and one.mape > _ASTRAY * one.cv_mape + _ASTRAY_BY:
            notes.append(
                f"{one.series.title}: the fit alone is {percent(one.cv_mape)} off, the written file {percent(one.mape)}: the"
                " inner tiers are not what the fit assumes; name what ran, or calibrate each tier by itself"
            )
        far = len(one.left_out) / len(one.series.points)
        if far > 0.25:
            notes.append(
                f"{one.series.title}: {whole_percent(far)} of the sizes are off any alpha-beta curve and left out of the fit"
            )
        if len(one.series.points) < 8:
            notes.append(f"{one.series.title}: {len(one.series.points)} sizes only; trust the fit between them, not beyond")
    return list(dict.fromkeys([*notes, *_reach_notes(results)]))


def _reach_notes(results: Sequence[FittedSeries]) -> list[str]:
    sizes = [point.bytes for one in results for point in one.series.points]
    measured = {one.series.primitive for one in results}
    others = ", ".join(primitive.spoken for primitive in Primitive if primitive not in measured)
    notes = [f"measured from {size_text(min(sizes))} to {size_text(max(sizes))}: prices beyond are extrapolated"]
    notes += [f"not measured, priced with each tier's own numbers: {others}"] if others else []
    if not all(one.series.library for one in results):
        notes.append("the logs do not name their library: NCCL's algorithms are assumed")
    return notes


def line_notes(results: Sequence[FittedSeries], line_Bps: float) -> list[str]:
    """Protocols that carry more than the stated line rate, each once."""
    above = {p.name: p.bandwidth_Bps for one in results for p in one.protocols if p.eta_beta is None}
    return [
        f"{name} carries {format_rate(rate)}, more than the stated line rate of {format_rate(line_Bps)}: "
        "its bandwidth is written instead of an eta"
        for name, rate in above.items()
    ]


def _tied(one: FittedSeries, field: str, *, alone: bool) -> str:
    where = ", ".join(protocol.name for protocol in one.protocols if field in protocol.tied)
    inseparable = "these sizes cannot separate alpha from the launch overhead"
    cure = "; measure a second rank count to tell them apart" if alone else ""
    what = {
        "alpha_s": f"{inseparable}: alpha is kept near the fabric's, the launch overhead is the rest{cure}",
        "launch_overhead_s": f"{inseparable}, which is kept near the fabric's: alpha is the rest{cure}",
        "bandwidth_Bps": "no size is large enough to determine the bandwidth",
    }[field]
    return f"{one.series.primitive.spoken}, {where}: {what}"


def head(results: Sequence[FittedSeries], notes: Sequence[str]) -> list[str]:
    """Comment lines for the top of the file: how well each series is met, size by size, of many sizes by some among them."""
    lines = ["Written by colltool calibrate. Fitted - measured, in percent of the measured time, by size:"]
    most = max(_FEWEST_LISTED, _LISTED // max(len(results), 1))
    for one in results:
        unseen = f", on unseen sizes {percent(one.cv_mape)}" if one.cv_mape is not None else ""
        lines += ["", f"{one.series.title}: mean {percent(one.mape)}, worst {percent(one.worst, sign='+')}{unseen}"]
        used = [residual for residual in one.residuals if residual.used]
        cells = [f"{size_text(r.bytes).replace(' ', '')} {100 * r.relative_error:+.1f}" for r in _some(used, most)]
        lines += [f"  {line}" for line in wrap(", ".join(cells), _WIDTH - 4)] + _rest("  ", used, most)
        if one.left_out:
            measured = {r.bytes: r.measured_s for r in one.residuals}
            lines.append("  off the curve, not in the fit:")
            lines += [
                f"    {size_text(left.bytes)} ({format_time(measured[left.bytes])}): {left.reason}"
                for left in _some(one.left_out, most)
            ]
            lines += _rest("    ", one.left_out, most)
    noted = [line for note in notes for line in wrap(note, _WIDTH - 2)]
    return [*lines, "", *noted]


def _some(sizes: Sequence[_T], most: int) -> Sequence[_T]:
    if len(sizes) <= most:
        return sizes
    return [sizes[round(i * (len(sizes) - 1) / (most - 1))] for i in range(most)]


def _rest(margin: str, sizes: Sequence[object], most: int) -> list[str]:
    left = len(sizes) - most
    return [f"{margin}and {left} size{'s' * (left > 1)} between these"] if left > 0 else []
