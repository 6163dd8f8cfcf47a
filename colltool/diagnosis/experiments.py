"""The next experiments: of all that could be run, those whose outcomes the remaining causes foretell most differently."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from math import log
from statistics import fmean
from typing import NamedTuple

from colltool.analysis.benchmark_command import LARGE_SIZES, SMALL_SIZES, BenchmarkSizes, command_line
from colltool.base.primitives import A2A, AR, P2P, Primitive, busbw_factor
from colltool.diagnosis.causes import SupportedCause
from colltool.diagnosis.evidence import BoundedCalls
from colltool.diagnosis.results import Experiment, Prediction, UpperBound
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.thresholds import of_few
from colltool.estimate.groups import PlacedGroup, place
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, with_tiers, without_in_network

GIB = 2.0**30
AS_IS = "as the fabric says"
TELLS = 0.10
"""How far the outcomes of two causes have to be apart to be told: relative."""

EACH_NIC = "and with every GPU of the two hosts in turn: NICs that carry nothing leave the others as the fabric says"
OTHER_HALF = "and on the other half of the devices: a single slow rank leaves one of the two as the fabric says"

_LOUD = {"NCCL_DEBUG": "INFO"}  # NCCL then says what it uses: NVLS, P2P or SHM, NICs, channels
_SMALL_BYTES = 8192.0


class ExperimentMachine(NamedTuple):
    """What experiments can run on."""

    ranks: int
    hosts: int
    library: str


class _Trial(NamedTuple):
    """An experiment before it is priced.

    ``spared`` is what causes call it, ``ringed`` that it forces rings, ``apart`` that every rank is alone on its host.
    """

    primitive: Primitive
    sizes: BenchmarkSizes
    bytes: float
    ranks: int
    hosts: int
    settings: dict[str, str]
    ringed: bool = False
    apart: bool = False
    spared: frozenset[str] = frozenset()
    note: str = ""


class _TrialOutcome(NamedTuple):
    """A trial, and what it takes under each cause."""

    trial: _Trial
    times: tuple[float, ...]

    def tells(self, pair: tuple[int, int]) -> bool:
        """Whether two causes foretell different times."""
        return self.apart(pair) >= TELLS

    def apart(self, pair: tuple[int, int]) -> float:
        """How different they are, by ratio."""
        return abs(log(self.times[pair[0]] / self.times[pair[1]]))


def next_experiments(causes: Sequence[SupportedCause], base: Scenario, on: ExperimentMachine) -> tuple[Experiment, ...]:
    """What to run next, each telling what those before it do not; a single cause is told from the fabric as it is."""
    worlds = [(one.cause.name, one.world, one.cause.spares) for one in causes]
    worlds += [(AS_IS, base, frozenset())] if len(worlds) == 1 else []
    outcomes = []
    for trial in _trials(base, on):
        times = [_time(trial, base if trial.spared & spares else world, on.library) for _, world, spares in worlds]
        if None not in times:
            outcomes.append(_TrialOutcome(trial, tuple(time for time in times if time is not None)))
    untold = set(combinations(range(len(worlds)), 2))
    out = []
    while outcomes and untold:
        best = max(outcomes, key=lambda one: (sum(map(one.tells, untold)), round(fmean(map(one.apart, untold)), 2)))
        told = {pair for pair in untold if best.tells(pair)}
        if not told:
            break
        untold -= told
        foretold = (_foretold(name, best.trial, time) for (name, _, _), time in zip(worlds, best.times, strict=True))
        out.append(Experiment(_command(best.trial, on), best.trial.bytes, tuple(foretold), best.trial.note))
    return tuple(out)


def _trials(base: Scenario, on: ExperimentMachine) -> Iterator[_Trial]:
    """All experiments, the plainest first: it is taken where others tell no more."""
    nccl, per_host = on.library in ("", "NCCL"), on.ranks // on.hosts
    loud = dict(_LOUD) if on.library != "MPI" else {}
    multicast = nccl and capabilities_of(base.fabric.tiers[0]).in_network is not None
    yield _Trial(AR, LARGE_SIZES, GIB, on.ranks, on.hosts, loud)
    if multicast or (nccl and on.hosts > 1):
        yield _Trial(AR, LARGE_SIZES, GIB, on.ranks, on.hosts, {"NCCL_ALGO": "ring", **loud}, ringed=True)
    yield _Trial(A2A, LARGE_SIZES, GIB, on.ranks, on.hosts, loud)
    yield _Trial(AR, SMALL_SIZES, _SMALL_BYTES, on.ranks, on.hosts, loud)
    elsewhere = frozenset({"host"} if on.hosts > 1 else ())
    if on.hosts > 1 and per_host > 1:
        yield _Trial(AR, LARGE_SIZES, GIB, per_host, 1, loud, spared=elsewhere)
        yield _Trial(P2P, LARGE_SIZES, GIB, 2, 2, loud, apart=True, spared=frozenset({"nic"}), note=EACH_NIC)
    if per_host >= 4 and per_host % 2 == 0 and on.library != "MPI":
        visible = "HIP_VISIBLE_DEVICES" if on.library == "RCCL" else "CUDA_VISIBLE_DEVICES"
        half = {visible: ",".join(map(str, range(per_host // 2))), **({"NCCL_NVLS_ENABLE": "0"} if multicast else {}), **loud}
        note = f"on every host, {OTHER_HALF}" if on.hosts > 1 else OTHER_HALF
        yield _Trial(AR, LARGE_SIZES, GIB, per_host // 2, 1, half, ringed=True, spared=elsewhere | {"half"}, note=note)
    yield _Trial(P2P, LARGE_SIZES, GIB, 2, 1, loud)


def _time(trial: _Trial, world: Scenario, library: str) -> float | None:
    if trial.apart:
        world = world._replace(fabric=world.fabric.model_copy(update={"tiers": world.fabric.tiers[1:]}))
    if trial.ringed:
        world = world._replace(fabric=with_tiers(world.fabric, without_in_network, INNERMOST))
        if trial.hosts > 1:
            world = world._replace(only=("multi-rail-ring", "ring"))
    return world.time(trial.primitive, trial.bytes, trial.ranks, library)


def _foretold(cause: str, trial: _Trial, seconds: float) -> Prediction:
    return Prediction(cause, trial.bytes / seconds * busbw_factor(trial.primitive, trial.ranks), seconds)


def _command(trial: _Trial, on: ExperimentMachine) -> str:
    return command_line(trial.primitive, trial.sizes, trial.ranks, trial.hosts, mpi=on.library == "MPI", settings=trial.settings)


def upper_bounds(bounds: Sequence[BoundedCalls], base: Scenario, library: str, judged: Collection[str]) -> tuple[
    tuple[UpperBound, ...], tuple[Experiment, ...]
]:  # fmt: skip
    """What cannot be judged, and a benchmark for each of its wires that no series is ``judged`` on.

    Raises:
        ColltoolError: more ranks than the fabric holds.
    """
    placed = [place(base.fabric, one.ranks) for one in bounds]
    wires = [one.spans[-1].tier.name for one in placed]
    found = tuple(
        UpperBound(one.primitive, one.ranks, one.calls, one.missing, wire) for one, wire in zip(bounds, wires, strict=True)
    )
    first = {wire: at for at, wire in reversed(list(enumerate(wires))) if wire not in judged}
    tests = (
        _measured(bounds[at].primitive, placed[at], base, library) for _, at in sorted(first.items(), key=lambda one: one[1])
    )
    return found, tuple(one for one in tests if one is not None)


def _measured(primitive: Primitive, placed: PlacedGroup, base: Scenario, library: str) -> Experiment | None:
    """The benchmark of a collective on the group that a trace has it on, and what the fabric says of it."""
    ranks, inside = placed.ranks, placed.spans[1].ranks_inside if len(placed.spans) > 1 else placed.ranks
    seconds = base.time(primitive, GIB, ranks, library)
    if seconds is None or primitive is P2P:
        return None
    command = command_line(primitive, LARGE_SIZES, ranks, ranks // inside, settings={"NCCL_DEBUG": "INFO"})
    busbw = GIB / seconds * busbw_factor(primitive, ranks)
    return Experiment(command, GIB, (Prediction(AS_IS, busbw, seconds),), of_few(ranks))
