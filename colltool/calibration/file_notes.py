"""What a calibrated file says of its fits: caveats, and the errors by size."""

from collections import defaultdict
from collections.abc import Sequence
from textwrap import wrap

from colltool.base.formatting import format_rate, format_time, percent, size_text, whole_percent
from colltool.base.primitives import Primitive
from colltool.calibration.identify import notes_on
from colltool.calibration.results import FittedSeries
from colltool.calibration.series_prices import sizes_of
from colltool.calibration.tier import SeriesFit

_WIDTH = 118
# sizes whose errors the file's head lists: in all, and per series at least
_LISTED = 300
_FEWEST_LISTED = 3
# by what the written file may do worse than the fit on unseen sizes before a note says so
_ASTRAY = 2.0
_ASTRAY_BY = 0.03
_FEW_SIZES = 8
_MANY_LEFT_OUT = 0.25

_INSEPARABLE = "these sizes cannot separate alpha from the launch overhead"
# What the data leave open, by the field that is held near the fabric's value.
_TIED = {
    "alpha_s": (
        f"{_INSEPARABLE}: alpha is kept near the fabric's, the launch overhead is the rest{{cure}}"
    ),
    "launch_overhead_s": (
        f"{_INSEPARABLE}, which is kept near the fabric's: alpha is the rest{{cure}}"
    ),
    "bandwidth_Bps": "no size is large enough to determine the bandwidth",
}


def notes_of(
    results: Sequence[FittedSeries],
    fits: Sequence[SeriesFit],
    line_Bps: float | None,
    unused: int,
) -> list[str]:
    """The caveats of a calibration; ``unused``: series that span tiers which were not fitted."""
    notes = _series_notes(results)
    notes += notes_on([(fit.member, fit.protocols) for fit in fits])
    if line_Bps:
        notes += _line_notes(results, line_Bps)
    if unused:
        notes.append(f"{unused} series span other tiers and were left out")
    return notes


def _series_notes(results: Sequence[FittedSeries]) -> list[str]:
    ranks = defaultdict(set)
    sizes = []
    for fit in results:
        ranks[fit.series.primitive].add(fit.series.ranks)
        sizes += sizes_of(fit.series)
    notes = []
    for fit in results:
        notes += _notes_on_series(fit, single=len(ranks[fit.series.primitive]) == 1)
    notes.append(
        f"measured from {size_text(min(sizes))} to {size_text(max(sizes))}: prices beyond are"
        " extrapolated"
    )
    others = ", ".join(primitive.label for primitive in Primitive if primitive not in ranks)
    if others:
        notes.append(f"not measured, priced with each tier's own numbers: {others}")
    if not all(fit.series.library for fit in results):
        notes.append("the logs do not name their library: NCCL's algorithms are assumed")
    return list(dict.fromkeys(notes))


def _notes_on_series(fit: FittedSeries, *, single: bool) -> list[str]:
    """Caveats of one series; ``single``: its collective was measured on one rank count."""
    title = fit.series.title
    spoken = fit.series.primitive.label
    notes = [f"{spoken}: {' + '.join(fit.algorithms)} ({fit.confidence})"]
    cure = "; measure a second rank count to tell them apart" if single else ""
    for field in sorted(_TIED):
        tied = [protocol.name for protocol in fit.protocols if field in protocol.tied]
        if tied:
            notes.append(f"{spoken}, {', '.join(tied)}: {_TIED[field].format(cure=cure)}")
    if fit.cv_mape is not None and fit.mape > _ASTRAY * fit.cv_mape + _ASTRAY_BY:
        notes.append(
            f"{title}: the fit alone is {percent(fit.cv_mape)} off, the written file"
            f" {percent(fit.mape)}: the inner tiers are not what the fit assumes; name what"
            " ran, or calibrate each tier by itself"
        )
    count = len(fit.series.points)
    left_out = len(fit.left_out) / count
    if left_out > _MANY_LEFT_OUT:
        notes.append(
            f"{title}: {whole_percent(left_out)} of the sizes are off any alpha-beta curve and left"
            " out of the fit"
        )
    if count < _FEW_SIZES:
        notes.append(f"{title}: {count} sizes only; trust the fit between them, not beyond")
    return notes


def _line_notes(results: Sequence[FittedSeries], line_Bps: float) -> list[str]:
    above = {}
    for fit in results:
        for protocol in fit.protocols:
            if protocol.eta_beta is None:
                above[protocol.name] = protocol.bandwidth_Bps
    notes = []
    for name, rate in above.items():
        notes.append(
            f"{name} carries {format_rate(rate)}, more than the stated line rate of"
            f" {format_rate(line_Bps)}: its bandwidth is written instead of an eta"
        )
    return notes


def head(results: Sequence[FittedSeries], notes: Sequence[str]) -> list[str]:
    """Comment lines for the top of the file: the error of each series, by size."""
    lines = [
        "Written by colltool calibrate. Fitted - measured, in percent of the measured time, by"
        " size:"
    ]
    most = max(_FEWEST_LISTED, _LISTED // max(len(results), 1))
    for fit in results:
        error = f"mean {percent(fit.mape)}, worst {percent(fit.worst, sign='+')}"
        if fit.cv_mape is not None:
            error += f", on unseen sizes {percent(fit.cv_mape)}"
        lines += ["", f"{fit.series.title}: {error}"]
        cells = []
        for row in fit.residuals:
            if row.used:
                size = size_text(row.bytes).replace(" ", "")
                cells.append(f"{size} {100 * row.relative_error:+.1f}")
        some, rest = _some(cells, most)
        lines += _indented(2, [*wrap(", ".join(some), _WIDTH - 4), *rest])
        if fit.left_out:
            times = {row.bytes: format_time(row.measured_s) for row in fit.residuals}
            outliers = []
            for left in fit.left_out:
                outliers.append(f"{size_text(left.bytes)} ({times[left.bytes]}): {left.reason}")
            some, rest = _some(outliers, most)
            lines.append("  off the curve, not in the fit:")
            lines += _indented(4, [*some, *rest])
    lines.append("")
    for note in notes:
        lines += wrap(note, _WIDTH - 2)
    return lines


def _indented(width: int, lines: Sequence[str]) -> list[str]:
    return [" " * width + line for line in lines]


def _some(texts: Sequence[str], most: int) -> tuple[Sequence[str], list[str]]:
    """Up to ``most`` texts, evenly spread, and a line on how many are between them."""
    left = len(texts) - most
    if left <= 0:
        return texts, []
    some = [texts[round(place * (len(texts) - 1) / (most - 1))] for place in range(most)]
    return some, [f"and {left} size{'s' * (left > 1)} between these"]
