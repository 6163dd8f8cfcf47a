"""The next experiments: those for which the remaining causes predict the most different times."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from math import log
from statistics import fmean
from typing import Literal, NamedTuple

from colltool.analysis.benchmark_command import LARGE_SIZES, SMALL_SIZES, BenchmarkSizes, command_line
from colltool.base.primitives import A2A, AR, P2P, Primitive, busbw_factor
from colltool.diagnosis.causes import SupportedCause
from colltool.diagnosis.results import BoundedCalls, Experiment, Prediction, UpperBound
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.thresholds import of_few
from colltool.estimate.groups import place
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, with_tiers, without_in_network
from colltool.measurements.series import LogLibrary, log_library

GIB = 2.0**30
AS_IS = "as the fabric says"
TELLS = 0.10  # relative difference of predicted times from which on a measurement tells causes apart
EACH_NIC = "repeat with each GPU of the two hosts in turn: if only some NICs carry nothing, the others run as the fabric says"
OTHER_HALF = "repeat on the other half of the devices: if a single rank is slow, one of the two halves runs as the fabric says"

_LOUD = {"NCCL_DEBUG": "INFO"}  # NCCL then says what it uses: NVLS, P2P or SHM, NICs, channels
_SMALL_BYTES = 8192.0


class ExperimentMachine(NamedTuple):
    ranks: int
    hosts: int
    library: str


class _Trial(NamedTuple):
    """An experiment before it is priced: ``spared`` runs that some causes leave unaffected, ``ringed`` forces rings, ``apart``
    puts each rank alone on its host."""

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
            scenario = scenario._replace(fabric=scenario.fabric.model_copy(update={"tiers": scenario.fabric.tiers[1:]}))
        if self.ringed:
            only = ("multi-rail-ring", "ring") if self.hosts > 1 else scenario.only
            scenario = scenario._replace(fabric=with_tiers(scenario.fabric, without_in_network, INNERMOST), only=only)
        return scenario.time(self.primitive, self.bytes, self.ranks, library)

    def experiment(self, library: str, outcomes: Sequence[tuple[str, float]]) -> Experiment:
        mpi = log_library(library) is LogLibrary.MPI
        command = command_line(self.primitive, self.sizes, self.ranks, self.hosts, mpi=mpi, settings=self.settings)
        factor = busbw_factor(self.primitive, self.ranks)
        predictions = tuple(Prediction(cause, self.bytes / seconds * factor, seconds) for cause, seconds in outcomes)
        return Experiment(command, self.bytes, predictions, self.note)


def next_experiments(causes: Sequence[SupportedCause], base: Scenario, on: ExperimentMachine) -> tuple[Experiment, ...]:
    """What to run next, each telling apart what those before do not; a single cause is told from the healthy fabric."""
    plain = [base] if len(causes) == 1 else []
    names = [*(one.cause.name for one in causes), *(AS_IS for _ in plain)]
    outcomes: list[tuple[_Trial, list[float]]] = []
    for trial in _trials(base, on):
        scenarios = [*(base if trial.spared & one.cause.unaffected else one.scenario for one in causes), *plain]
        times = [trial.seconds(scenario, on.library) for scenario in scenarios]
        if None not in times:
            outcomes.append((trial, [time for time in times if time is not None]))
    untold, found = set(combinations(range(len(names)), 2)), []
    while outcomes and untold:
        apart = [{(i, j): abs(log(times[i] / times[j])) for i, j in untold} for _, times in outcomes]
        scores = [(sum(one >= TELLS for one in each.values()), round(fmean(each.values()), 2)) for each in apart]
        best = scores.index(max(scores))
        told = {pair for pair, one in apart[best].items() if one >= TELLS}
        if not told:
            break
        untold -= told
        trial, times_told = outcomes[best]
        found.append(trial.experiment(on.library, list(zip(names, times_told, strict=True))))
    return tuple(found)


def _trials(base: Scenario, on: ExperimentMachine) -> Iterator[_Trial]:
    """All experiments, the plainest first, which wins ties."""
    ran, per_host = log_library(on.library), on.ranks // on.hosts
    loud = dict(_LOUD) if ran.launches_kernels else {}
    multicast = ran.may_be_nccl and capabilities_of(base.fabric.tiers[0]).in_network is not None
    yield _Trial(AR, on.ranks, on.hosts, loud)
    if multicast or (ran.may_be_nccl and on.hosts > 1):
        yield _Trial(AR, on.ranks, on.hosts, {"NCCL_ALGO": "ring", **loud}, ringed=True)
    yield _Trial(A2A, on.ranks, on.hosts, loud)
    yield _Trial(AR, on.ranks, on.hosts, loud, SMALL_SIZES, _SMALL_BYTES)
    elsewhere: frozenset[Literal["half", "nic", "host"]] = frozenset({"host"} if on.hosts > 1 else ())
    if on.hosts > 1 and per_host > 1:
        yield _Trial(AR, per_host, 1, loud, spared=elsewhere)
        yield _Trial(P2P, 2, 2, loud, apart=True, spared=frozenset({"nic"}), note=EACH_NIC)
    if per_host >= 4 and per_host % 2 == 0 and ran.launches_kernels:
        visible = "HIP_VISIBLE_DEVICES" if ran is LogLibrary.RCCL else "CUDA_VISIBLE_DEVICES"
        half = {visible: ",".join(map(str, range(per_host // 2))), **({"NCCL_NVLS_ENABLE": "0"} if multicast else {}), **loud}
        note = f"on every host; {OTHER_HALF}" if on.hosts > 1 else OTHER_HALF
        yield _Trial(AR, per_host // 2, 1, half, ringed=True, spared=elsewhere | {"half"}, note=note)
    yield _Trial(P2P, 2, 1, loud)


def upper_bounds(bounds: Sequence[BoundedCalls], base: Scenario, library: str, judged: Collection[str]) -> tuple[
    tuple[UpperBound, ...], tuple[Experiment, ...]
]:  # fmt: skip
    """What cannot be judged, and a benchmark for each link that no series is ``judged`` on."""
    found: list[UpperBound] = []
    tests: dict[str, Experiment | None] = {}
    for one in bounds:
        spans = place(base.fabric, one.ranks).spans
        link, inside = spans[-1].tier.name, spans[1].ranks_inside if len(spans) > 1 else one.ranks
        found.append(UpperBound(one.primitive, one.ranks, one.calls, one.missing, link))
        if link not in judged and link not in tests:
            trial = _Trial(one.primitive, one.ranks, one.ranks // inside, _LOUD, note=of_few(one.ranks))
            seconds = None if one.primitive is P2P else trial.seconds(base, library)
            tests[link] = trial.experiment("", [(AS_IS, seconds)]) if seconds is not None else None
    return tuple(found), tuple(one for one in tests.values() if one is not None)
