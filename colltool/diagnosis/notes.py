"""Notes of a diagnosis: what passes, and is worth a look (:func:`notes_on`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.base.statements import Statement
from colltool.diagnosis.causes import Scoring
from colltool.diagnosis.cliffs import outliers_in
from colltool.diagnosis.hypotheses import Hypothesis
from colltool.diagnosis.results import ValidatedPoint
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.size_classes import SizeClass
from colltool.diagnosis.thresholds import FASTER, few_ranks_note

# share of what the largest sizes reach below which a smaller one is a dip, and up to which its
# neighbours belong to the dip
DIP = 0.6
DIP_END = 0.9
# large messages above the bar but below this share of the price are noted where a setting explains
# them within this error
BELOW_PRICE = 0.9
SETTING_ERROR = 0.06


def notes_on(scoring: Scoring, causes: Sequence[Hypothesis]) -> Iterator[Statement]:
    """What is no finding, but worth a look: few ranks, odd rates, a setting that costs little."""
    for ranks in sorted({judged.series.ranks for judged in scoring.series}):
        note = few_ranks_note(ranks)
        if note:
            yield note
    # a setting is there or not, and needs no number that would fit anything
    settings = [cause for cause in causes if cause.number == "setting"]
    for judged in scoring.series:
        outliers = outliers_in(judged.series.points)
        if outliers:
            yield statement("stands-out", series=judged.series.title, finding=outliers)
    for size_class in scoring.classes:
        judged = scoring.series[size_class.series_index]
        title = judged.series.title
        if size_class.share > FASTER:
            yield statement("too-fast", title=title, size=size_class.size, share=size_class.share)
        if size_class.low or size_class.size == "small":
            continue
        cause = _setting_of(scoring, size_class, settings)
        if cause:
            yield statement(
                "passes-short",
                title=title,
                share=size_class.share,
                cause=cause.text_at(0.0),
                look=cause.look,
            )
        dip = _dip(judged.points, size_class)
        if dip:
            first, last = dip
            # the largest sizes stand behind it
            after = next(point for point in judged.points if point.bytes > last.bytes)
            yield statement(
                "dip",
                title=title,
                share=first.of_expected,
                size=first.shown_bytes,
                after=after.shown_bytes,
            )


def _setting_of(
    scoring: Scoring, size_class: SizeClass, settings: Sequence[Hypothesis]
) -> Hypothesis | None:
    """A setting that explains large messages that pass but are below the price; None for none."""
    if size_class.share >= BELOW_PRICE:
        return None
    # the error that it may have: at most half of that of the fabric as it is
    most = min(SETTING_ERROR, scoring.plain_error(size_class) / 2)
    for cause in settings:
        error = scoring.error(size_class, cause.scenario(0.0))
        if error is not None and error <= most:
            return cause
    return None


def _dip(
    points: Sequence[ValidatedPoint], size_class: SizeClass
) -> tuple[ValidatedPoint, ValidatedPoint] | None:
    """First and last of the smaller sizes that fall short of what the largest reach; None without a
    deep dip."""
    in_dip = []
    is_deep = False
    for point in points[: min(size_class.focus)]:
        if point.bound == "bandwidth" and point.of_expected < DIP_END * size_class.share:
            in_dip.append(point)
            is_deep = is_deep or point.of_expected < DIP * size_class.share
    return (in_dip[0], in_dip[-1]) if is_deep else None
