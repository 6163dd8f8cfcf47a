"""Which causes the times support.

Each hypothesis (:mod:`colltool.diagnosis.hypotheses`) is priced at the value of its number that
comes nearest to the times, and scored by the size classes that it explains and by how well.
:func:`split_by_causes` is the entry: it splits what is slow into as few parts as causes can explain,
best causes first, by what :class:`Scoring` says of each cause.

A size class is large or small messages of a series (:mod:`colltool.diagnosis.size_classes`), and an
index of ``Scoring.classes`` here. An error is a mean distance of prices from times, by log ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.diagnosis.hypotheses import Hypothesis, NumberKind
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.size_classes import SizeClass, mean_log_error

# a cause explains a size class if it brings the error down to this share of that of the fabric as
# it is
MUCH_BETTER = 0.6
# times the usual error of an explained size class, up to which a cause explains most of it
LEEWAY_OF_MOST = 2.0
ACCURACY = 0.13
"""Relative error of an uncalibrated fabric's prices against published times. Causes whose errors
differ by less count as equally good. It is also the handicap of a cause whose number is fitted to
the times, against a setting, which has none."""

# error up to which a setting between hosts leads: it has no number to fit, so it is there or not
CLOSE_FIT = 0.045

# message sizes that determine a cause's number, tried in this order
FITTED_TO: dict[NumberKind, tuple[Literal["large", "small"], ...]] = {
    "setting": (),
    "share": ("large",),
    "factor": ("large", "small"),
    "extra": ("small", "large"),
}
# difference of two causes' fits up to which either may lead: the scatter of repeats, and what a
# fitted number gains by following that
SAME_FIT = 0.015
TELLING = 4  # sizes from which on fits tell causes apart: a fitted number meets any few
FIT_STEPS = 6  # iterations of a fitted number
FIT_TOLERANCE = 0.003  # relative change of the number that ends them
# factor of the error of the fabric as it is from which on a cause makes a size class worse
WORSE = 1.2
Centre = Callable[[Sequence[float]], float]
"""What becomes of the corrections of several size classes: their median, or the middle of their
range."""


class SupportedCause(NamedTuple):
    """A hypothesis at the value of its number that explains most size classes."""

    cause: Hypothesis
    value: float  # of its number
    scenario: Scenario  # at that value
    classes: frozenset[int]  # indices of the size classes that it explains
    error: float  # its mean error there
    error_all: float  # its mean error over all sizes of their series

    @property
    def fit(self) -> float:
        """Mean of the two errors: a cause must also leave the other sizes as they are."""
        return (self.error + self.error_all) / 2

    @property
    def score(self) -> float:
        """Its error with handicaps, smaller is better."""
        fits_loosely = self.cause.must_fit_closely and self.error > CLOSE_FIT
        score = self.fit + self.cause.handicap
        if self.cause.any_value or fits_loosely:
            score += ACCURACY
        return score

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key: most explained size classes first, then the best score."""
        return -len(self.classes), self.score


class Scoring(NamedTuple):
    """Measured series, their size classes, and the fabric as it is, on which causes are scored."""

    series: tuple[ValidatedSeries, ...]
    classes: tuple[SizeClass, ...]
    base: Scenario

    def error(
        self, size_class: SizeClass, scenario: Scenario, *, everywhere: bool = False
    ) -> float | None:
        """Error of a scenario's prices on a size class, or ``everywhere``: on all trusted sizes of
        its series. None where nothing runs."""
        judged = self.series[size_class.series_index]
        priced = scenario.times(judged.series)
        if priced is None:
            return None
        measured = [point.measured_s for point in judged.points]
        sizes = size_class.trusted if everywhere else size_class.focus
        return mean_log_error(measured, priced, sizes)

    def plain_error(self, size_class: SizeClass) -> float:
        """Error of the fabric as it is, on which its series was priced."""
        return self.error(size_class, self.base) or 0.0

    def at_best_value(self, cause: Hypothesis, unexplained: Sequence[int]) -> SupportedCause | None:
        """A cause at the value that explains most of the ``unexplained`` size classes (indices);
        None where no value explains any."""
        at_values: list[SupportedCause] = []
        for values in self._candidate_values(cause, unexplained):
            for value in values:
                supported = self._at_value(cause, value, unexplained)
                if supported:
                    at_values.append(supported)
            if any(len(supported.classes) == len(unexplained) for supported in at_values):
                break  # other values explain no more
        return min(at_values, key=attrgetter("rank"), default=None)

    def _at_value(
        self, cause: Hypothesis, value: float, unexplained: Sequence[int]
    ) -> SupportedCause | None:
        """The cause at a value of its number; None where it explains nothing, or makes size classes
        of the same runs worse that are well without it."""
        scenario = cause.scenario(value)
        classes = frozenset(
            index for index in unexplained if self._explains(scenario, self.classes[index])
        )
        if not classes:
            return None
        # a cause on one host leaves the runs of others as they are
        runs = {self._run(self.classes[index]) for index in classes}
        for size_class in self.classes:
            if size_class.low or self._run(size_class) not in runs:
                continue
            if self._worsens(scenario, size_class):
                return None
        return self.with_errors(cause, value, classes)

    def _run(self, size_class: SizeClass) -> str:
        """The run that a size class is of; empty where runs are not kept apart."""
        return self.series[size_class.series_index].series.run

    def with_errors(
        self, cause: Hypothesis, value: float, classes: frozenset[int]
    ) -> SupportedCause:
        """A cause at a value, with its errors on these size classes."""
        scenario = cause.scenario(value)
        # where the cause shows most, and on all sizes of these series
        errors = []
        errors_everywhere = []
        for index in classes:
            size_class = self.classes[index]
            errors.append(self.error(size_class, scenario) or 0.0)
            errors_everywhere.append(self.error(size_class, scenario, everywhere=True) or 0.0)
        return SupportedCause(
            cause,
            value,
            scenario,
            classes,
            error=fmean(errors),
            error_all=fmean(errors_everywhere),
        )

    def _explains(self, scenario: Scenario, size_class: SizeClass, leeway: float = 1.0) -> bool:
        """Whether a scenario's prices are near enough to the times of a size class (``leeway``
        times as far as usual), and much nearer than those of the fabric as it is."""
        error = self.error(size_class, scenario)
        most = min(leeway * size_class.within, MUCH_BETTER * self.plain_error(size_class))
        return error is not None and error <= most

    def explains_most(self, index: int, scenario: Scenario) -> bool:
        """Whether a scenario explains so much of a size class that no other cause is needed."""
        return self._explains(scenario, self.classes[index], leeway=LEEWAY_OF_MOST)

    def _worsens(self, scenario: Scenario, size_class: SizeClass) -> bool:
        """Whether a scenario's prices miss a size class that the fabric as it is meets."""
        error = self.error(size_class, scenario)
        return error is None or error > max(size_class.within, WORSE * self.plain_error(size_class))

    def _candidate_values(
        self, cause: Hypothesis, unexplained: Sequence[int]
    ) -> Iterator[tuple[float, ...]]:
        """Values of a cause's number to try, the likeliest first, in tuples of which all values are
        tried before the next."""
        if cause.number == "setting":
            yield (0.0,)  # it has no number
        for size in FITTED_TO[cause.number]:
            classes = [
                self.classes[index] for index in unexplained if self.classes[index].size == size
            ]
            centres: tuple[Centre, ...] = (median, _midrange) if len(classes) > 1 else (median,)
            for centre in centres:
                value = self._fitted_value(cause, classes, centre)
                if value is None:
                    continue
                if cause.parts:
                    # counted, as links are: a share of 0.73 of 18 is 13 or 14, but never all
                    below = int(value * cause.parts)
                    counts = (below, below + 1)
                    yield tuple(float(count) for count in counts if 0 < count < cause.parts)
                else:
                    yield (value,)

    def _fitted_value(
        self, cause: Hypothesis, classes: Sequence[SizeClass], centre: Centre
    ) -> float | None:
        """The number at which a cause's prices are the times, by repeated correction; of a count its
        share of the parts. None where no class has a price.

        A share begins at 1: prices of 10 us where 20 were measured correct it by 0.5. Extra seconds
        begin at 0: the same times correct them by +10 us.
        """
        is_extra = cause.number == "extra"
        value = 0.0 if is_extra else 1.0
        least = 0.0 if is_extra else cause.least
        # prices follow a share of bandwidth nearly in proportion, so few steps are enough
        for _ in range(FIT_STEPS):
            corrections = list(self._corrections(cause, value, classes))
            if not corrections:
                return None
            value_before = value
            if is_extra:
                value += centre(corrections)
            else:
                value *= centre(corrections)
            value = min(max(value, least), cause.most)
            if abs(value - value_before) <= FIT_TOLERANCE * value_before:
                break
        return value

    def _corrections(
        self, cause: Hypothesis, value: float, classes: Sequence[SizeClass]
    ) -> Iterator[float]:
        """The change of a cause's number that each size class needs: seconds, or a factor."""
        # a count is fitted as a share, and priced as a count
        scenario = cause.scenario(value * (cause.parts or 1))
        for size_class in classes:
            judged = self.series[size_class.series_index]
            priced_s = scenario.times(judged.series)
            if not priced_s:
                continue
            needed = []
            for index in size_class.focus:
                measured_s = judged.points[index].measured_s
                if cause.number == "extra":
                    needed.append(measured_s - priced_s[index])
                else:
                    needed.append(priced_s[index] / measured_s)
            yield median(needed)


def _midrange(values: Sequence[float]) -> float:
    """The middle between the least and the largest."""
    return (min(values) + max(values)) / 2


class ExplainedClasses(NamedTuple):
    """Size classes that are off, with all causes that explain them about equally."""

    classes: frozenset[int]
    causes: list[SupportedCause]


def split_by_causes(scoring: Scoring, causes: Sequence[Hypothesis]) -> list[ExplainedClasses]:
    """What is off, split into as few parts as causes can explain: each part is what the cause that
    explains most of the rest explains. Size classes that none explains are the last part, without
    causes. Empty where nothing is off."""
    unexplained = [index for index, size_class in enumerate(scoring.classes) if size_class.low]
    parts: list[ExplainedClasses] = []
    while unexplained:
        best_of_each = [scoring.at_best_value(cause, unexplained) for cause in causes]
        # without those that explain nothing (None)
        supported = sorted(filter(None, best_of_each), key=attrgetter("rank"))
        if not supported:
            parts.append(ExplainedClasses(frozenset(unexplained), []))
            break
        best = _widest(scoring, supported, unexplained)
        # what it explains in part has no cause of its own
        classes = best.classes | _mostly_explained(scoring, best, unexplained)
        causes_alike = _equally_good(scoring, supported, best, unexplained)
        parts.append(ExplainedClasses(classes, causes_alike))
        unexplained = [index for index in unexplained if index not in classes]
    return parts


def _mostly_explained(
    scoring: Scoring, cause: SupportedCause, unexplained: Sequence[int]
) -> set[int]:
    """Indices of the size classes of which a cause explains most, or all."""
    return {index for index in unexplained if scoring.explains_most(index, cause.scenario)}


def _widest(
    scoring: Scoring, supported: Sequence[SupportedCause], unexplained: Sequence[int]
) -> SupportedCause:
    """The cause that explains most size classes; of several the one that explains most others in
    part. ``supported`` has those first that explain most."""
    most = len(supported[0].classes)
    widest = [cause for cause in supported if len(cause.classes) == most]
    return max(widest, key=lambda cause: len(_mostly_explained(scoring, cause, unexplained)))


def _equally_good(
    scoring: Scoring,
    supported: Sequence[SupportedCause],
    widest: SupportedCause,
    unexplained: Sequence[int],
) -> list[SupportedCause]:
    """The widest cause and those that explain the same size classes about as well, the likeliest
    first. Each is scored anew on just these classes."""
    classes = widest.classes
    widest_count = len(_mostly_explained(scoring, widest, unexplained))
    alike = []
    for cause in supported:
        if all(scoring.explains_most(index, cause.scenario) for index in classes):
            alike.append(scoring.with_errors(cause.cause, cause.value, classes))
    best_fit = min(cause.fit for cause in alike)
    series = [scoring.series[scoring.classes[index].series_index] for index in classes]
    most_sizes = max(len(judged.points) for judged in series)

    def likeliest_first(cause: SupportedCause) -> tuple[bool, bool, tuple[int, float]]:
        # what explains less or fits worse follows, however likely it is, unless the log states it
        if cause.cause.quoted:
            return False, False, cause.rank
        explains_less = len(_mostly_explained(scoring, cause, unexplained)) < widest_count
        fits_worse = cause.fit > best_fit + SAME_FIT and most_sizes >= TELLING
        return explains_less, fits_worse, cause.rank

    alike.sort(key=likeliest_first)
    return [cause for cause in alike if cause.score <= best_fit + 2 * ACCURACY]
