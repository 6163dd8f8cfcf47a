"""Which causes the times support: each hypothesis is priced, and the one that explains most comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.diagnosis.hypotheses import Fitted, Hypothesis
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.thresholds import SizeClass, off

BETTER = 0.6  # a cause must bring the fabric's own error down to this share
ACCURACY = 0.13
"""How far an uncalibrated fabric's prices are from published times: causes closer than this are not told apart. Also the handicap
of a cause whose number is fitted to the times, against a setting, which has none."""

# message sizes that determine a cause's number, tried in this order
FOLLOWS: dict[Fitted, tuple[Literal["large", "small"], ...]] = {
    "setting": (),
    "share": ("large",),
    "factor": ("large", "small"),
    "extra": ("small", "large"),
}
STEPS, SETTLED = 6, 0.003  # iterations of a fitted number, and the relative change that ends them


class SupportedCause(NamedTuple):
    """A hypothesis at the value that explains most: ``units`` are the size classes it explains, ``error`` its mean error there,
    ``error_all`` over all sizes."""

    cause: Hypothesis
    value: float
    scenario: Scenario
    units: frozenset[int]
    error: float
    error_all: float

    @property
    def fit(self) -> float:
        return (self.error + self.error_all) / 2

    @property
    def score(self) -> float:
        """Fit, with a handicap for a free number."""
        return self.fit + (ACCURACY if self.cause.free else 0.0)

    @property
    def rank(self) -> tuple[int, float]:
        return -len(self.units), self.score


class Scoring(NamedTuple):
    """The series, their size classes, and the fabric as it is."""

    series: tuple[ValidatedSeries, ...]
    units: tuple[SizeClass, ...]
    base: Scenario

    def error(self, unit: SizeClass, scenario: Scenario, *, everywhere: bool = False) -> float | None:
        one = self.series[unit.at]
        priced = scenario.times(one.series)
        if priced is None:
            return None
        measured = [point.measured_s for point in one.points]
        return off(measured, priced, unit.trusted if everywhere else unit.focus)

    def supported(self, cause: Hypothesis, left: Sequence[int]) -> SupportedCause | None:
        """The value of a cause that explains most of the ``left`` size classes; None where none explains any."""
        found: list[SupportedCause] = []
        for values in self._fitted(cause, left) if cause.fits != "setting" else [(0.0,)]:
            found += [one for value in values if (one := self._tried(cause, value, left)) is not None]
            if any(len(one.units) == len(left) for one in found):
                break  # other numbers explain no more
        return min(found, key=lambda one: one.rank, default=None)

    def _tried(self, cause: Hypothesis, value: float, left: Sequence[int]) -> SupportedCause | None:
        scenario = cause.scenario(value)
        errors = {at: error for at in left if (error := self._explained(self.units[at], scenario)) is not None}
        runs = {self.series[self.units[at].at].series.run for at in errors}  # what ails one host leaves the others as they are
        beside = (unit for unit in self.units if not unit.low and self.series[unit.at].series.run in runs)
        if not errors or any(self._spoilt(unit, scenario) for unit in beside):
            return None
        return self.over(cause, value, frozenset(errors))

    def over(self, cause: Hypothesis, value: float, units: frozenset[int]) -> SupportedCause:
        """A cause scored over these size classes."""
        scenario = cause.scenario(value)
        errors = [self.error(self.units[at], scenario) or 0.0 for at in units]
        everywhere = [self.error(self.units[at], scenario, everywhere=True) or 0.0 for at in units]
        return SupportedCause(cause, value, scenario, units, fmean(errors), fmean(everywhere))

    def _explained(self, unit: SizeClass, scenario: Scenario, times: float = 1.0) -> float | None:
        error, plain = self.error(unit, scenario), self.error(unit, self.base)
        return error if error is not None and plain and error <= min(times * unit.within, BETTER * plain) else None

    def in_part(self, unit: SizeClass, scenario: Scenario) -> bool:
        """Whether a scenario explains most of a unit's error; the rest is smaller than another cause's would be."""
        return self._explained(unit, scenario, times=2) is not None

    def _spoilt(self, unit: SizeClass, scenario: Scenario) -> bool:
        error, plain = self.error(unit, scenario), self.error(unit, self.base)
        return error is None or error > max(unit.within, 1.2 * (plain or 0.0))

    def _fitted(self, cause: Hypothesis, left: Sequence[int]) -> Iterator[tuple[float, ...]]:
        for size in FOLLOWS[cause.fits]:
            units = [self.units[at] for at in left if self.units[at].size == size]
            for centre in (median, _middle) if len(units) > 1 else (median,):
                if units and (value := self._met(cause, units, centre)) is not None:
                    yield _counted(value, cause.of) if cause.of else (value,)

    def _met(self, cause: Hypothesis, units: Sequence[SizeClass], centre: Callable[[Iterable[float]], float]) -> float | None:
        value = 0.0 if cause.fits == "extra" else 1.0
        for _ in range(STEPS):
            pairs = [found for unit in units if (found := self._pairs(cause.at_share(value), unit))]
            if not pairs:
                return None
            last = value
            if cause.fits == "extra":
                asked = centre(median(time - price for time, price in unit) for unit in pairs)
                value = min(max(value + asked, 0.0), cause.most)
            else:
                asked = centre(median(price / time for time, price in unit) for unit in pairs)
                value = min(max(value * asked, cause.least), cause.most)
            if abs(value - last) <= SETTLED * last:
                break
        return value

    def _pairs(self, scenario: Scenario, unit: SizeClass) -> list[tuple[float, float]]:
        one = self.series[unit.at]
        times = scenario.times(one.series)
        return [(one.points[index].measured_s, times[index]) for index in unit.focus] if times else []


def _middle(values: Iterable[float]) -> float:
    several = list(values)
    return (min(several) + max(several)) / 2


def _counted(share: float, of: int) -> tuple[float, ...]:
    """The whole counts next to a share, at least one short of all."""
    below = int(share * of)
    return tuple(float(count) for count in (below, below + 1) if 0 < count < of)


def explained(bench: Scoring, causes: Sequence[Hypothesis]) -> list[tuple[frozenset[int], list[SupportedCause]]]:
    """What is off, split into as few parts as causes can explain, each with all causes that explain it about equally; none for
    the rest."""
    left = [at for at, unit in enumerate(bench.units) if unit.low]
    out: list[tuple[frozenset[int], list[SupportedCause]]] = []
    while left:
        found = sorted((one for cause in causes if (one := bench.supported(cause, left))), key=lambda one: one.rank)
        if not found:
            out.append((frozenset(left), []))
            break
        best = found[0]
        same = [one for one in found if all(bench.in_part(bench.units[at], one.scenario) for at in best.units)]
        same = sorted((bench.over(one.cause, one.value, best.units) for one in same), key=lambda one: one.rank)
        alike = [one for one in same if one.score <= min(other.fit for other in same) + 2 * ACCURACY]
        found_here = best.units | {at for at in left if bench.in_part(bench.units[at], best.scenario)}
        out.append((frozenset(found_here), alike))
        left = [at for at in left if at not in found_here]
    return out
