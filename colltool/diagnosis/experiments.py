"""The experiments that separate causes.

The next experiment is the one for which the remaining causes predict the most different times:
:func:`next_experiments`. Where nothing could be judged, :func:`upper_bounds` proposes benchmarks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from math import log
from statistics import fmean
from typing import NamedTuple

from colltool.analysis.benchmark_command import (
    LARGE_SIZES,
    SMALL_SIZES,
    BenchmarkSizes,
    command_line,
)
from colltool.base.primitives import A2A, AR, P2P, Primitive, busbw_factor
from colltool.base.statements import NOTHING, Statement
from colltool.diagnosis.causes import SupportedCause
from colltool.diagnosis.hypotheses import Unaffected
from colltool.diagnosis.results import Experiment, Prediction
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.thresholds import few_ranks_note
from colltool.estimate.groups import place
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, without_in_network
from colltool.logs.series import LogLibrary, log_library
from colltool.logs.traced_series import UpperBound

GIB = 2.0**30  # bytes of large trials, which bandwidth bounds on any fabric
AS_IS = "as the fabric says"  # in place of a cause: the machine is healthy
# log ratio of predicted times from which on a measurement separates causes
SEPARATES = 0.10
_DEBUG = {"NCCL_DEBUG": "INFO"}  # NCCL then prints what it uses: NVLS, P2P or SHM, NICs, channels
_SMALL_BYTES = 8192.0  # latency takes nearly all of such a message on any fabric
_LEAST_TO_HALVE = 4  # ranks of a host, of which either half can run by itself


class ExperimentMachine(NamedTuple):
    """What experiments run on: as much as the largest series did."""

    ranks: int
    hosts: int
    library: str


class _Trial(NamedTuple):
    """An experiment before it is priced."""

    primitive: Primitive
    ranks: int
    hosts: int
    settings: dict[str, str]  # of the environment
    sizes: BenchmarkSizes = LARGE_SIZES
    bytes: float = GIB  # the one of ``sizes`` at which times are compared
    rings_only: bool = False  # it forces rings, and so no switch reduces
    rank_per_host: bool = False  # each rank is alone on its host
    # kinds of experiments that it is one of: a cause with one of them in ``unaffected`` does not
    # change its time
    unaffected_by: frozenset[Unaffected] = frozenset()
    note: Statement = NOTHING  # what to do or to mind beside it

    def seconds(self, scenario: Scenario, library: str) -> float | None:
        """What the experiment takes under a scenario; None where it cannot run."""
        if self.rank_per_host:
            outer = scenario.fabric.tiers[1:]
            scenario = scenario._replace(fabric=scenario.fabric.model_copy(update={"tiers": outer}))
        if self.rings_only:
            scenario = scenario.with_tiers_changed(without_in_network, INNERMOST)
            if self.hosts > 1:
                scenario = scenario._replace(only=("multi-rail-ring", "ring"))
        return scenario.time(self.primitive, self.bytes, self.ranks, library)

    def experiment(self, library: str, outcomes: Sequence[tuple[str, float]]) -> Experiment:
        """The command to run, with what it measures under each cause; ``outcomes``: the names of
        causes and seconds."""
        command = command_line(
            self.primitive,
            self.sizes,
            self.ranks,
            self.hosts,
            mpi=log_library(library) is LogLibrary.MPI,
            settings=self.settings,
        )
        factor = busbw_factor(self.primitive, self.ranks)
        foretold = [
            Prediction(cause, self.bytes / seconds * factor, seconds) for cause, seconds in outcomes
        ]
        return Experiment(command, self.bytes, tuple(foretold), self.note, self.hosts)


Pairs = set[tuple[int, int]]
"""Causes that are not separated yet, by index."""


class _PricedTrial(NamedTuple):
    """A trial with its seconds under each cause, in the order of the causes."""

    trial: _Trial
    times: list[float]

    def distances(self, pairs: Pairs) -> dict[tuple[int, int], float]:
        """How far the times of each pair of causes are from each other, by log ratio."""
        times = self.times
        return {(first, second): abs(log(times[first] / times[second])) for first, second in pairs}

    def score(self, pairs: Pairs) -> tuple[int, float]:
        """How many of the pairs it separates, and how far on average, rounded: of trials that do
        about as well the first is taken."""
        distances = self.distances(pairs).values()
        return sum(distance >= SEPARATES for distance in distances), round(fmean(distances), 2)


def next_experiments(
    causes: Sequence[SupportedCause], base: Scenario, machine: ExperimentMachine
) -> tuple[Experiment, ...]:
    """What to run next: each experiment separates causes that those before it do not.

    Each step takes the trial that separates most of the pairs of causes that are left. A single
    cause is separated from a healthy machine. Empty where no trial separates any.
    """
    names: list[str] = [cause.cause.name for cause in causes]
    if len(causes) == 1:
        names.append(AS_IS)
    trials = []
    for trial in _trials(base, machine):
        times = _times(trial, causes, base, machine.library)
        # a trial has to run under all of them
        if len(times) == len(names):
            trials.append(_PricedTrial(trial, times))
    pairs: Pairs = set(combinations(range(len(names)), 2))
    experiments = []
    while trials and pairs:
        best = max(trials, key=lambda trial: trial.score(pairs))
        separated = {
            pair for pair, distance in best.distances(pairs).items() if distance >= SEPARATES
        }
        if not separated:
            break
        pairs -= separated
        outcomes = list(zip(names, best.times, strict=True))
        experiments.append(best.trial.experiment(machine.library, outcomes))
    return tuple(experiments)


def _times(
    trial: _Trial, causes: Sequence[SupportedCause], base: Scenario, library: str
) -> list[float]:
    """Seconds of a trial under each cause, and of a single cause also on the fabric as it is; fewer
    where the trial cannot run."""
    scenarios = []
    for cause in causes:
        is_unaffected = trial.unaffected_by & cause.cause.unaffected
        scenarios.append(base if is_unaffected else cause.scenario)
    if len(causes) == 1:
        scenarios.append(base)
    times = (trial.seconds(scenario, library) for scenario in scenarios)
    return [time for time in times if time is not None]


def _trials(base: Scenario, machine: ExperimentMachine) -> Iterator[_Trial]:
    """Every experiment that the machine can run, the most telling kinds first."""
    ran = log_library(machine.library)
    ranks, hosts, _ = machine
    per_host = ranks // hosts  # of uneven hosts the mean, rounded down
    debug = _DEBUG if ran.launches_kernels else {}
    inner = capabilities_of(base.fabric.tiers[0])
    has_nvls = ran.may_be_nccl and inner.in_network is not None
    inside_host: frozenset[Unaffected] = frozenset()
    # the order decides where several separate the causes equally well
    yield _Trial(AR, ranks, hosts, debug)
    if has_nvls or (ran.may_be_nccl and hosts > 1):
        yield _Trial(AR, ranks, hosts, {"NCCL_ALGO": "ring", **debug}, rings_only=True)
    yield _Trial(A2A, ranks, hosts, debug)
    yield _Trial(AR, ranks, hosts, debug, sizes=SMALL_SIZES, bytes=_SMALL_BYTES)
    if hosts > 1:
        inside_host = frozenset({"host"})
        if per_host > 1:
            yield _Trial(AR, per_host, hosts=1, settings=debug, unaffected_by=inside_host)
            yield _Trial(
                P2P,
                2,
                hosts=2,
                settings=debug,
                rank_per_host=True,
                unaffected_by=frozenset({"nic"}),
                note=statement("each-nic"),
            )
    has_halves = per_host >= _LEAST_TO_HALVE and per_host % 2 == 0
    if has_halves and ran.launches_kernels:
        visible = "HIP_VISIBLE_DEVICES" if ran is LogLibrary.RCCL else "CUDA_VISIBLE_DEVICES"
        half = {visible: ",".join(map(str, range(per_host // 2)))}
        if has_nvls:
            half["NCCL_NVLS_ENABLE"] = "0"
        note = statement("other-half" if hosts == 1 else "other-half-of-hosts")
        yield _Trial(
            AR,
            per_host // 2,
            hosts=1,
            settings=half | debug,
            rings_only=True,
            unaffected_by=inside_host | {"half"},
            note=note,
        )
    yield _Trial(P2P, 2, hosts=1, settings=debug)


def upper_bounds(
    bounds: Sequence[UpperBound], base: Scenario, library: str, judged: Collection[str]
) -> tuple[tuple[UpperBound, ...], tuple[Experiment, ...]]:
    """Traced calls known only as upper bounds, and what to measure in their place.

    Args:
        base: the fabric as it is.
        judged: names of the outermost tiers of the series that were judged.

    Returns:
        The bounds with the outermost tier that each crosses; and a benchmark for each such tier that
        no series was judged on, without messages and what cannot run.
    """
    with_tier: list[UpperBound] = []
    known = set(judged)
    tests: list[Experiment] = []
    for bound in bounds:
        spans = place(base.fabric, bound.ranks).spans
        tier = spans[-1].tier.name
        with_tier.append(bound._replace(wire=tier))
        if tier in known:
            continue
        known.add(tier)
        inside = spans[1].members_inside if len(spans) > 1 else bound.ranks
        hosts = bound.ranks // inside
        trial = _Trial(
            bound.primitive, bound.ranks, hosts, _DEBUG, note=few_ranks_note(bound.ranks)
        )
        seconds = None if bound.primitive is P2P else trial.seconds(base, library)
        if seconds is not None:
            # traces are of devices, never of MPI: no library has to be named
            tests.append(trial.experiment("", [(AS_IS, seconds)]))
    return tuple(with_tier), tuple(tests)
