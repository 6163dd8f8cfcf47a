"""A report's words on collectives: which fabric is faster, over which sizes, and how sure that is.

``report_decision`` puts the first three functions into the title of the page, and what
:func:`compared_collectives` and :func:`reference_time` yield into its verdict. Two fabrics are
compared over all sizes, three or more at the reference point alone.

A column is a fabric, by its index in ``report.titles``; the cells of a :class:`CompareLine` are in
the same order. A cell's ``total_s`` is None where the fabric cannot run the collective.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.analysis.cells import Cell
from colltool.analysis.compare import Comparison
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.report import Report
from colltool.base.formatting import (
    and_text,
    format_factor,
    format_rate,
    format_time,
    sentence,
    title_size,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.interval import Interval
from colltool.estimate.results import Breakdown
from colltool.render.intervals import nine_in_ten
from colltool.render.verdicts import claims_text, verdict_in_title
from colltool.render.views.report_reference import (
    reference_collective,
    reference_line,
    reference_ranks,
    reference_verdict,
)

# --- in the title


def priced_in_title(report: Report, breakdown: Breakdown) -> str:
    """``all-reduce of 64 MB on 1152 GPUs takes 538 us (-34% to +51%)``."""
    collective = reference_collective(report, breakdown.price.primitive)
    time = _total_text(breakdown.price.best)
    return f"{collective} takes {time}"


def compared_in_title(
    report: Report,
    comparison: Comparison,
) -> str:
    """``all-reduce up to 1.9x faster than dgx-b200 above 329 MB``: the first of two fabrics, in the
    first primitive. Empty without a verdict on it."""
    verdict = reference_verdict(report, comparison, comparison.lines[0].primitive)
    if verdict is None:
        return ""
    return verdict_in_title(comparison, verdict, report.titles[0])


def fastest_in_title(report: Report, comparison: Comparison) -> str:
    """``all-reduce of 64 MB fastest on nvl72, 1.9x ahead of dgx-b200``: of three fabrics and more,
    in the first primitive. Empty where fewer than two can run it."""
    line = reference_line(report, comparison, comparison.lines[0].primitive)
    if line is None:
        return ""
    ranking = _ranking(line)
    if len(ranking) < 2:
        return ""
    collective = f"{line.primitive.label} of {title_size(line.bytes)}"
    best_s, best = ranking[0]
    rival_s, rival = ranking[1]
    fastest = report.titles[best]
    second = report.titles[rival]
    if _too_close(line, best, rival):
        return f"{collective}: too close to call between {fastest} and {second}"
    lead = format_factor(rival_s / best_s, 3)
    return f"{collective} fastest on {fastest}, {lead} ahead of {second}"


# --- in the verdict


def reference_time(report: Report, breakdown: Breakdown) -> Iterator[str]:
    """``All-reduce of 64 MB on 1152 GPUs takes 538 us (-34% to +51%): 212 GB/s bus bandwidth,
    latency-bound.``"""
    price = breakdown.price.best
    collective = sentence(reference_collective(report, breakdown.price.primitive))
    rate = format_rate(float(price.busbw_Bps), 3)
    time = _total_text(price)
    yield f"{collective} takes {time}: {rate} bus bandwidth, {price.bound}-bound."


def compared_collectives(report: Report, comparison: Comparison) -> Iterator[str]:
    """A line for each primitive. Of two fabrics: which wins over which sizes, and their times at the
    reference point; of more: their order there."""
    for primitive in dict.fromkeys(line.primitive for line in comparison.lines):
        line = reference_line(report, comparison, primitive)
        if len(comparison.columns) > 2:
            if line is not None:
                yield _order_text(report, line)
            continue
        verdict = reference_verdict(report, comparison, primitive)
        if verdict is None:
            continue
        claims = claims_text(comparison, verdict)
        collective = sentence(primitive.label)
        text = f"{collective}, {reference_ranks(report)}: {claims}."
        if line is not None:
            size = title_size(line.bytes)
            times = _times_text(report, line)
            text += f" At {size}: {times}."
        yield text


def _order_text(report: Report, line: CompareLine) -> str:
    """``All-reduce of 64 MB on 64 GPUs is fastest on nvl72: 202 us (-22% to +29%). dgx-b200 takes
    3.3x, dgx-h100 3.4x as long.``"""
    collective = sentence(reference_collective(report, line.primitive))
    ranking = _ranking(line)
    if not ranking:
        return f"{collective} cannot run on any of them."
    text = f"{collective} is {_fastest_text(report, line, ranking)}."
    factors: list[str] = []
    for total_s, column in ranking[1:]:
        # the verb once: dgx-b200 takes 3.3x, dgx-h100 3.4x as long
        verb = "" if factors else " takes"
        factor = format_factor(total_s / ranking[0][0], 2)
        factors.append(f"{report.titles[column]}{verb} {factor}")
    if factors:
        text += f" {', '.join(factors)} as long."
    absent = []
    for title, cell in zip(report.titles, line.cells, strict=True):
        if cell.total_s is None:
            absent.append(title)
    if absent:
        text += f" It cannot run on {', '.join(absent)}."
    return text


def _fastest_text(report: Report, line: CompareLine, ranking: Sequence[tuple[float, int]]) -> str:
    """``fastest on nvl72: 202 us (-22% to +29%)``, or between which fabrics it is too close to call."""
    (best_s, best), *slower = ranking
    fastest = report.titles[best]
    time = _time_text(best_s, line.cells[best].interval)
    close = []
    for _, column in slower:
        if _too_close(line, best, column):
            close.append(report.titles[column])
    if close:
        among = and_text([fastest, *close])
        return f"too close to call between {among}: {time} on {fastest}"
    return f"fastest on {fastest}: {time}"


def _times_text(report: Report, line: CompareLine) -> str:
    """``538 us (-34% to +51%) on nvl72, cannot run on dgx-b200``."""
    texts = []
    for title, cell in zip(report.titles, line.cells, strict=True):
        if cell.total_s is None:
            texts.append(f"cannot run on {title}")
        else:
            time = _time_text(cell.total_s, cell.interval)
            texts.append(f"{time} on {title}")
    return ", ".join(texts)


def _total_text(price: AlgorithmEstimate) -> str:
    return _time_text(float(price.total_s), price.interval)


def _time_text(seconds: float, interval: Interval | None) -> str:
    """``538 us (-34% to +51%)``; the time alone without an interval."""
    time = format_time(seconds, 3)
    around = nine_in_ten(interval, seconds)
    if around:
        return f"{time} ({around})"
    return time


# --- who is ahead


def _ranking(line: CompareLine) -> list[tuple[float, int]]:
    """(Seconds, column) of the fabrics that can run it, the fastest first."""
    ranking = []
    for column, cell in enumerate(line.cells):
        if cell.total_s is not None:
            ranking.append((cell.total_s, column))
    return sorted(ranking)


def _too_close(line: CompareLine, best: int, rival: int) -> bool:
    """Whether the lead of one column over another is within the error of comparing them.

    That error is known of comparisons with column 0, where what both err in alike is left out. Of
    two other columns all that can be asked is whether their intervals overlap.
    """
    if best != 0 and rival != 0:
        return _overlap(line.cells[best], line.cells[rival])
    best_s = line.cells[best].total_s
    rival_s = line.cells[rival].total_s
    if best_s is None or rival_s is None:
        return False
    lead = rival_s / best_s - 1
    # one of the two is column 0
    return lead <= line.ratio_error(max(best, rival))


def _overlap(cell: Cell, rival: Cell) -> bool:
    """Whether the intervals of two prices overlap; not where one of them has none."""
    if cell.interval is None or rival.interval is None:
        return False
    if cell.interval.low_s > rival.interval.high_s:
        return False
    return rival.interval.low_s <= cell.interval.high_s
