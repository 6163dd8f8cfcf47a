"""Which causes the times support, each hypothesis priced, best first; and the experiments that tell
those apart.

The next experiment is the one for which the remaining causes predict the most different times.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations
from math import log
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.analysis.benchmark_command import (
    LARGE_SIZES,
    SMALL_SIZES,
    BenchmarkSizes,
    command_line,
)
from colltool.base.primitives import A2A, AR, P2P, Primitive, busbw_factor
from colltool.diagnosis.hypotheses import Fitted, Hypothesis, Scenario
from colltool.diagnosis.results import Experiment, Prediction, ValidatedSeries
from colltool.diagnosis.thresholds import SizeClass, of_few, off
from colltool.estimate.groups import place
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, without_in_network
from colltool.logs.series import LogLibrary, log_library
from colltool.logs.traced_calls import UpperBound

BETTER = 0.6  # a cause must bring the fabric's own error down to this share
ACCURACY = 0.13
"""How far an uncalibrated fabric's prices are from published times: causes closer than this are not
told apart. Also the handicap of a cause whose number is fitted to the times, against a setting,
which has none."""

# error up to which a setting between hosts leads: it has no number to fit, so it is there or not
EXACT = 0.045

# message sizes that determine a cause's number, tried in this order
FOLLOWS: dict[Fitted, tuple[Literal["large", "small"], ...]] = {
    "setting": (),
    "share": ("large",),
    "factor": ("large", "small"),
    "extra": ("small", "large"),
}
STEPS, SETTLED = 6, 0.003  # iterations of a fitted number, and the relative change that ends them


class SupportedCause(NamedTuple):
    """A hypothesis at the value that explains most: ``units`` are the size classes it explains,
    ``error`` its mean error there, ``error_all`` over all sizes."""

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
        loose = self.cause.exact and self.error > EXACT
        return self.fit + self.cause.handicap + (ACCURACY if self.cause.free or loose else 0.0)

    @property
    def rank(self) -> tuple[int, float]:
        return -len(self.units), self.score


class Scoring(NamedTuple):
    """The series, their size classes, and the fabric as it is."""

    series: tuple[ValidatedSeries, ...]
    units: tuple[SizeClass, ...]
    base: Scenario

    def error(
        self, unit: SizeClass, scenario: Scenario, *, everywhere: bool = False
    ) -> float | None:
        one = self.series[unit.at]
        priced = scenario.times(one.series)
        if priced is None:
            return None
        measured = [point.measured_s for point in one.points]
        return off(measured, priced, unit.trusted if everywhere else unit.focus)

    def supported(self, cause: Hypothesis, left: Sequence[int]) -> SupportedCause | None:
        """The value of a cause that explains most of the ``left`` size classes; None where none
        explains any."""
        found: list[SupportedCause] = []
        for values in self._fitted(cause, left) if cause.fits != "setting" else [(0.0,)]:
            found += [
                one for value in values if (one := self._tried(cause, value, left)) is not None
            ]
            if any(len(one.units) == len(left) for one in found):
                break  # other numbers explain no more
        return min(found, key=lambda one: one.rank, default=None)

    def _tried(self, cause: Hypothesis, value: float, left: Sequence[int]) -> SupportedCause | None:
        scenario = cause.scenario(value)
        errors = {
            at: error
            for at in left
            if (error := self._explained(self.units[at], scenario)) is not None
        }
        # what ails one host leaves the others as they are
        runs = {self.series[self.units[at].at].series.run for at in errors}
        beside = (
            unit for unit in self.units if not unit.low and self.series[unit.at].series.run in runs
        )
        if not errors or any(self._spoilt(unit, scenario) for unit in beside):
            return None
        return self.over(cause, value, frozenset(errors))

    def over(self, cause: Hypothesis, value: float, units: frozenset[int]) -> SupportedCause:
        scenario = cause.scenario(value)
        errors = [self.error(self.units[at], scenario) or 0.0 for at in units]
        everywhere = [self.error(self.units[at], scenario, everywhere=True) or 0.0 for at in units]
        return SupportedCause(cause, value, scenario, units, fmean(errors), fmean(everywhere))

    def _explained(self, unit: SizeClass, scenario: Scenario, times: float = 1.0) -> float | None:
        error, plain = self.error(unit, scenario), self.error(unit, self.base)
        return (
            error
            if error is not None and plain and error <= min(times * unit.within, BETTER * plain)
            else None
        )

    def in_part(self, unit: SizeClass, scenario: Scenario) -> bool:
        """Whether a scenario explains most of a unit's error; the rest is smaller than another
        cause's would be."""
        return self._explained(unit, scenario, times=2) is not None

    def _spoilt(self, unit: SizeClass, scenario: Scenario) -> bool:
        error, plain = self.error(unit, scenario), self.error(unit, self.base)
        return error is None or error > max(unit.within, 1.2 * (plain or 0.0))

    def _fitted(self, cause: Hypothesis, left: Sequence[int]) -> Iterator[tuple[float, ...]]:
        for size in FOLLOWS[cause.fits]:
            units = [self.units[at] for at in left if self.units[at].size == size]
            for centre in (median, _midrange) if len(units) > 1 else (median,):
                if units and (value := self._met(cause, units, centre)) is not None:
                    # counted: the whole counts next to a share, at least one short of all
                    below = int(value * cause.of)
                    yield (
                        tuple(float(n) for n in (below, below + 1) if 0 < n < cause.of)
                        if cause.of
                        else (value,)
                    )

    def _met(
        self,
        cause: Hypothesis,
        units: Sequence[SizeClass],
        centre: Callable[[Sequence[float]], float],
    ) -> float | None:
        value = 0.0 if cause.fits == "extra" else 1.0
        for _ in range(STEPS):
            scenario, asked = cause.scenario(value * (cause.of or 1)), []
            for unit in units:
                one = self.series[unit.at]
                if times := scenario.times(one.series):
                    pairs = [(one.points[index].measured_s, times[index]) for index in unit.focus]
                    extra = cause.fits == "extra"
                    asked.append(
                        median(time - price if extra else price / time for time, price in pairs)
                    )
            if not asked:
                return None
            last, more = value, centre(asked)
            value = (
                max(value + more, 0.0) if cause.fits == "extra" else max(value * more, cause.least)
            )
            value = min(value, cause.most)
            if abs(value - last) <= SETTLED * last:
                break
        return value


def _midrange(values: Sequence[float]) -> float:
    return (min(values) + max(values)) / 2


def explained(
    bench: Scoring, causes: Sequence[Hypothesis]
) -> list[tuple[frozenset[int], list[SupportedCause]]]:
    """What is off, split into as few parts as causes can explain, each with all causes that explain
    it about equally; none for the rest."""
    left = [at for at, unit in enumerate(bench.units) if unit.low]
    out: list[tuple[frozenset[int], list[SupportedCause]]] = []
    while left:
        found = sorted(
            (one for cause in causes if (one := bench.supported(cause, left))),
            key=lambda one: one.rank,
        )
        if not found:
            out.append((frozenset(left), []))
            break
        best = found[0]
        same = [
            one
            for one in found
            if all(bench.in_part(bench.units[at], one.scenario) for at in best.units)
        ]
        same = sorted(
            (bench.over(one.cause, one.value, best.units) for one in same), key=lambda one: one.rank
        )
        alike = [
            one for one in same if one.score <= min(other.fit for other in same) + 2 * ACCURACY
        ]
        found_here = best.units | {
            at for at in left if bench.in_part(bench.units[at], best.scenario)
        }
        out.append((frozenset(found_here), alike))
        left = [at for at in left if at not in found_here]
    return out


GIB = 2.0**30
AS_IS = "as the fabric says"
# relative difference of predicted times from which on a measurement tells causes apart
TELLS = 0.10
EACH_NIC = (
    "repeat with each GPU of the two hosts in turn: if only some NICs carry nothing, the others run"
    " as the fabric says"
)
OTHER_HALF = (
    "repeat on the other half of the devices: if a single rank is slow, one of the two halves runs"
    " as the fabric says"
)
_LOUD = {"NCCL_DEBUG": "INFO"}  # NCCL then says what it uses: NVLS, P2P or SHM, NICs, channels
_SMALL_BYTES = 8192.0


class ExperimentMachine(NamedTuple):
    ranks: int
    hosts: int
    library: str


class _Trial(NamedTuple):
    """An experiment before it is priced: ``spared`` runs that some causes leave unaffected,
    ``ringed`` forces rings, ``apart`` puts each rank alone on its host."""

    primitive: Primitive
    ranks: int
    hosts: int
    settings: dict[str, str]
    sizes: BenchmarkSizes = LARGE_SIZES
    bytes: float = GIB
    ringed: bool = False
    apart: bool = False
    spared: frozenset[Literal["half", "nic", "host"]] = frozenset()
    note: str = ""

    def seconds(self, scenario: Scenario, library: str) -> float | None:
        if self.apart:
            scenario = scenario._replace(
                fabric=scenario.fabric.model_copy(update={"tiers": scenario.fabric.tiers[1:]})
            )
        if self.ringed:
            only = ("multi-rail-ring", "ring") if self.hosts > 1 else scenario.only
            scenario = scenario.on(without_in_network, INNERMOST)._replace(only=only)
        return scenario.time(self.primitive, self.bytes, self.ranks, library)

    def experiment(self, library: str, outcomes: Sequence[tuple[str, float]]) -> Experiment:
        mpi = log_library(library) is LogLibrary.MPI
        command = command_line(
            self.primitive, self.sizes, self.ranks, self.hosts, mpi=mpi, settings=self.settings
        )
        factor = busbw_factor(self.primitive, self.ranks)
        predictions = tuple(
            Prediction(cause, self.bytes / seconds * factor, seconds) for cause, seconds in outcomes
        )
        return Experiment(command, self.bytes, predictions, self.note)


def next_experiments(
    causes: Sequence[SupportedCause], base: Scenario, on: ExperimentMachine
) -> tuple[Experiment, ...]:
    """What to run next, each telling apart what those before do not; a single cause is told from
    the healthy fabric."""
    plain = [base] if len(causes) == 1 else []
    names = [*(one.cause.name for one in causes), *(AS_IS for _ in plain)]
    outcomes: list[tuple[_Trial, list[float]]] = []
    for trial in _trials(base, on):
        scenarios = [
            *(base if trial.spared & one.cause.unaffected else one.scenario for one in causes),
            *plain,
        ]
        times = [trial.seconds(scenario, on.library) for scenario in scenarios]
        if None not in times:
            outcomes.append((trial, [time for time in times if time is not None]))
    untold, found = set(combinations(range(len(names)), 2)), []
    while outcomes and untold:
        apart = [
            {(i, j): abs(log(times[i] / times[j])) for i, j in untold} for _, times in outcomes
        ]
        scores = [
            (sum(one >= TELLS for one in each.values()), round(fmean(each.values()), 2))
            for each in apart
        ]
        best = scores.index(max(scores))
        told = {pair for pair, one in apart[best].items() if one >= TELLS}
        if not told:
            break
        untold -= told
        trial, times_told = outcomes[best]
        found.append(trial.experiment(on.library, list(zip(names, times_told, strict=True))))
    return tuple(found)


def _trials(base: Scenario, on: ExperimentMachine) -> Iterator[_Trial]:
    ran, per_host = log_library(on.library), on.ranks // on.hosts
    loud = dict(_LOUD) if ran.launches_kernels else {}
    multicast = ran.may_be_nccl and capabilities_of(base.fabric.tiers[0]).in_network is not None
    yield _Trial(AR, on.ranks, on.hosts, loud)
    if multicast or (ran.may_be_nccl and on.hosts > 1):
        yield _Trial(AR, on.ranks, on.hosts, {"NCCL_ALGO": "ring", **loud}, ringed=True)
    yield _Trial(A2A, on.ranks, on.hosts, loud)
    yield _Trial(AR, on.ranks, on.hosts, loud, SMALL_SIZES, _SMALL_BYTES)
    elsewhere: frozenset[Literal["half", "nic", "host"]] = frozenset(
        {"host"} if on.hosts > 1 else ()
    )
    if on.hosts > 1 and per_host > 1:
        yield _Trial(AR, per_host, 1, loud, spared=elsewhere)
        yield _Trial(P2P, 2, 2, loud, apart=True, spared=frozenset({"nic"}), note=EACH_NIC)
    if per_host >= 4 and per_host % 2 == 0 and ran.launches_kernels:
        visible = "HIP_VISIBLE_DEVICES" if ran is LogLibrary.RCCL else "CUDA_VISIBLE_DEVICES"
        half = {
            visible: ",".join(map(str, range(per_host // 2))),
            **({"NCCL_NVLS_ENABLE": "0"} if multicast else {}),
            **loud,
        }
        note = f"on every host; {OTHER_HALF}" if on.hosts > 1 else OTHER_HALF
        yield _Trial(
            AR, per_host // 2, 1, half, ringed=True, spared=elsewhere | {"half"}, note=note
        )
    yield _Trial(P2P, 2, 1, loud)


def upper_bounds(
    bounds: Sequence[UpperBound], base: Scenario, library: str, judged: Collection[str]
) -> tuple[tuple[UpperBound, ...], tuple[Experiment, ...]]:
    """What cannot be judged, and a benchmark for each link that no series is ``judged`` on."""
    found: list[UpperBound] = []
    tests: dict[str, Experiment | None] = {}
    for one in bounds:
        spans = place(base.fabric, one.ranks).spans
        link, inside = spans[-1].tier.name, spans[1].ranks_inside if len(spans) > 1 else one.ranks
        found.append(one._replace(wire=link))
        if link not in judged and link not in tests:
            trial = _Trial(
                one.primitive, one.ranks, one.ranks // inside, _LOUD, note=of_few(one.ranks)
            )
            seconds = None if one.primitive is P2P else trial.seconds(base, library)
            tests[link] = trial.experiment("", [(AS_IS, seconds)]) if seconds is not None else None
    return tuple(found), tuple(one for one in tests.values() if one is not None)
