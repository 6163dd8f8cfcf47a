"""The comments that a calibrated file has on its fits: caveats (:func:`notes_of`), and at its head
the errors by size (:func:`head_comments`).

A ``fit`` is a :class:`FittedSeries` here: a measured series with the errors of the written file. Only
:func:`notes_of` takes the fits behind the file too, :class:`SeriesFit`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from textwrap import wrap

from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    size_text,
    whole_percent,
)
from colltool.base.primitives import Primitive
from colltool.calibration.identify import name_findings
from colltool.calibration.results import FittedSeries
from colltool.calibration.sentences import FitFinding, fit_sentences
from colltool.calibration.series_prices import sizes_of
from colltool.calibration.tier import SeriesFit

# Characters of a comment line.
_WIDTH = 118
# Sizes whose errors the file's head lists: in all, and per series at least.
_MOST_LISTED = 300
_FEWEST_LISTED = 3
# The file is reported as worse than its fit if its error exceeds this many times the fit's error on
# unseen sizes plus this share.
_WORSE_FACTOR = 2.0
_WORSE_SHARE = 0.03
# A series of fewer sizes, or with a larger share of sizes left out, gets a caveat.
_FEW_SIZES = 8
_MANY_LEFT_OUT = 0.25


def notes_of(
    results: Sequence[FittedSeries],
    fits: Sequence[SeriesFit],
    line_Bps: float | None,
    unused: int,
) -> list[str]:
    """The caveats of a calibration, each once.

    Args:
        results: what the written file makes of each series.
        fits: the fits that the file was written from, which name the protocols.
        line_Bps: the stated line rate, None without one.
        unused: number of series that span tiers which were not fitted.
    """
    findings = list(_series_findings(results))
    findings += name_findings([(series_fit.member, series_fit.protocols) for series_fit in fits])
    if line_Bps:
        findings += _line_findings(results, line_Bps)
    if unused:
        findings.append(FitFinding("other_tiers", {"count": unused}))
    return list(dict.fromkeys(finding.words for finding in findings))


def _series_findings(results: Sequence[FittedSeries]) -> Iterator[FitFinding]:
    """Caveats of each series, and of all together: rank counts, sizes, collectives and libraries."""
    ranks = defaultdict(set)
    sizes = []
    for fit in results:
        ranks[fit.series.primitive].add(fit.series.ranks)
        sizes += sizes_of(fit.series)
    for fit in results:
        yield from _one_series(fit, single_count=len(ranks[fit.series.primitive]) == 1)
    yield FitFinding(
        "extrapolated", {"first": size_text(min(sizes)), "last": size_text(max(sizes))}
    )
    not_measured = ", ".join(primitive.label for primitive in Primitive if primitive not in ranks)
    if not_measured:
        yield FitFinding("not_measured", {"others": not_measured})
    if not all(fit.series.library for fit in results):
        yield FitFinding("no_library")


def _one_series(fit: FittedSeries, *, single_count: bool) -> Iterator[FitFinding]:
    """Caveats of one series; ``single_count``: its collective was measured on one rank count."""
    title = fit.series.title
    collective = fit.series.primitive.label
    chosen = {
        "spoken": collective,
        "algorithms": " + ".join(fit.algorithms),
        "confidence": fit.confidence,
    }
    yield FitFinding("chosen", chosen)
    # appended to the caveat: another rank count would tell
    advice = fit_sentences()["second_rank_count"] if single_count else ""
    for field in ("alpha_s", "bandwidth_Bps", "launch_overhead_s"):
        names = ", ".join(protocol.name for protocol in fit.protocols if field in protocol.tied)
        if names:
            yield FitFinding(
                f"tied_{field}", {"spoken": collective, "names": names, "cure": advice}
            )
    # mape is the error of the written file, cv_mape that of the fit behind it
    if fit.cv_mape is not None and fit.mape > _WORSE_FACTOR * fit.cv_mape + _WORSE_SHARE:
        errors = {"fit": percent(fit.cv_mape), "file": percent(fit.mape)}
        yield FitFinding("worse_file", {"title": title, **errors})
    count = len(fit.series.points)
    left_out = len(fit.left_out) / count
    if left_out > _MANY_LEFT_OUT:
        yield FitFinding("many_left_out", {"title": title, "share": whole_percent(left_out)})
    if count < _FEW_SIZES:
        yield FitFinding("few_sizes", {"title": title, "count": count})


def _line_findings(results: Sequence[FittedSeries], line_Bps: float) -> Iterator[FitFinding]:
    """The protocols that exceed the stated line rate, bytes/s. They have no eta_beta, and the file
    states their bandwidth instead."""
    rates = {}
    for fit in results:
        for protocol in fit.protocols:
            if protocol.eta_beta is None:
                rates[protocol.name] = protocol.bandwidth_Bps
    line = format_rate(line_Bps)
    for name, rate in rates.items():
        yield FitFinding("above_line_rate", {"name": name, "rate": format_rate(rate), "line": line})


def head_comments(results: Sequence[FittedSeries], notes: Sequence[str]) -> list[str]:
    """Comment lines for the top of the file: the error of each series, by size."""
    lines = [
        "Written by colltool calibrate. Fitted - measured, in percent of the measured time, by"
        " size:"
    ]
    # sizes of a series
    most = max(_FEWEST_LISTED, _MOST_LISTED // max(len(results), 1))
    for fit in results:
        lines += _error_lines(fit, most)
        if fit.left_out:
            lines.append("  off the curve, not in the fit:")
            lines += _outlier_lines(fit, most)
    lines.append("")
    for note in notes:
        # the file's writer puts "# " before each line
        lines += wrap(note, _WIDTH - 2)
    return lines


def _error_lines(fit: FittedSeries, most: int) -> list[str]:
    """The errors of a series: in all, and of up to ``most`` sizes that were fitted."""
    error = f"mean {percent(fit.mape)}, worst {percent(fit.worst, sign='+')}"
    if fit.cv_mape is not None:
        error += f", on unseen sizes {percent(fit.cv_mape)}"
    cells = []
    for residual in fit.residuals:
        if residual.used:
            size = size_text(residual.bytes).replace(" ", "")
            cells.append(f"{size} {100 * residual.relative_error:+.1f}")
    some, line_of_rest = _evenly_chosen(cells, most)
    sizes = _indented(2, [*wrap(", ".join(some), _WIDTH - 4), *line_of_rest])
    return ["", f"{fit.series.title}: {error}", *sizes]


def _outlier_lines(fit: FittedSeries, most: int) -> list[str]:
    """The sizes that were left out of a fit, up to ``most``, and why."""
    times = {row.bytes: format_time(row.measured_s) for row in fit.residuals}
    outliers = [
        f"{size_text(left.bytes)} ({times[left.bytes]}): {left.reason}" for left in fit.left_out
    ]
    some, line_of_rest = _evenly_chosen(outliers, most)
    return _indented(4, [*some, *line_of_rest])


def _indented(width: int, lines: Sequence[str]) -> list[str]:
    """The lines with so many spaces before each."""
    return [" " * width + line for line in lines]


def _evenly_chosen(texts: Sequence[str], most: int) -> tuple[Sequence[str], list[str]]:
    """Up to ``most`` texts (at least 2), evenly spread, and a line with the number of those left out;
    no line where none are."""
    left_out = len(texts) - most
    if left_out <= 0:
        return texts, []
    some = [texts[round(place * (len(texts) - 1) / (most - 1))] for place in range(most)]
    return some, [f"and {counted(left_out, 'size')} between these"]
