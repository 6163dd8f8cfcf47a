"""``doctor``: from logs and traces to the machine that they name, what is off, why, and what to run next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either, given
from colltool.base.formatting import counted, size_text, whole_percent
from colltool.base.primitives import Primitive
from colltool.calibration.series_prices import MOST_IN_A_HOST, check_fits
from colltool.definitions.reader import Overrides
from colltool.diagnosis.causes import ExperimentMachine, Scoring, SupportedCause, explained, next_experiments, upper_bounds
from colltool.diagnosis.hypotheses import HostFacts, Hypothesis, Scenario, hypotheses, maker_of
from colltool.diagnosis.results import AssumedFabric, Cause, Diagnosis, DiagnosisFinding, LeftOutKernels, SeriesHealth, UpperBound
from colltool.diagnosis.thresholds import EXPECT, FASTER, across_hosts, of_few, size_classes, threshold_of
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import Readings
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.measurements.nccl_tests import LoggedHardware
from colltool.measurements.series import Measurements, Series


def diagnose(seen: Evidence, fabric: Fabric | None = None, *, overrides: Overrides = (), expect: float | None = None,
             readings: Readings | None = None) -> Diagnosis:  # fmt: skip
    if expect is not None and not (isfinite(expect) and 0 < expect <= 1):
        fix = f"write {either(shell='95% or 0.95', python='0.95')}"
        raise ColltoolError(f"must be a share up to 100%, got {expect:g}", argument="expect", fix=fix)
    held, assumed = given_fabric(fabric, seen.named) if fabric else nearest_fabric(seen, overrides)
    base = Scenario(held, readings=readings or Readings())
    measured = seen.on(held)
    judged = validate(held, measured, readings=base.readings).series if measured.series or not seen.bounds else ()
    wires = [check_fits(held, one.series).spans[-1].tier.name for one in judged]
    whole, library = held.tiers[0].endpoints, next((one.library for one in seen.series), "NCCL")  # PyTorch calls RCCL nccl, too
    across = [across_hosts(one.series) for one in judged]
    bars = [expect or threshold_of(one.series.ranks, whole, across=far) for one, far in zip(judged, across, strict=True)]
    bench = Scoring(judged, size_classes(judged, bars, held.launch_overhead), base)
    bounds, measure = upper_bounds(seen.bounds, base, library, wires)
    found, said = _explained(bench, seen, library) if judged else ((), ())
    series = []
    for at, one in enumerate(judged):
        mine = {unit.size: unit for unit in bench.units if unit.at == at}
        large, small, low = mine.get("large"), mine.get("small"), any(unit.low for unit in mine.values())
        series.append(SeriesHealth(one, wires[at], large and large.share, small and small.share, low, bars[at]))
    return Diagnosis(
        assumed=assumed,
        expect=EXPECT if expect is None else expect,
        series=tuple(series),
        findings=found,
        notes=(*(f"{file} is empty: skipped" for file in seen.empty), *said),
        skipped=measured.skipped,
        bounds=bounds,
        measure=measure,
        left_out=seen.left_out,
    )


def _explained(bench: Scoring, seen: Evidence, library: str) -> tuple[tuple[DiagnosisFinding, ...], tuple[str, ...]]:
    widest = max((check_fits(bench.base.fabric, one.series) for one in bench.series), key=lambda one: len(one.spans))
    inside = widest.spans[1].ranks_inside if len(widest.spans) > 1 else 1
    maker = maker_of(seen.named.devices, library, bench.base.fabric.tiers[0].name)
    causes = hypotheses(bench.base, HostFacts(len(widest.spans), inside, library, maker))
    largest = max((one.series for one in bench.series), key=lambda one: one.ranks)
    hosts = largest.nodes or (largest.ranks // inside if inside > 1 else 1)
    on = ExperimentMachine(largest.ranks, max(hosts, 1), largest.library)
    findings = tuple(_finding(bench, sorted(found), why, on) for found, why in explained(bench, causes))
    return findings, tuple(notes(bench, causes))


def _finding(bench: Scoring, found: Sequence[int], why: Sequence[SupportedCause], on: ExperimentMachine) -> DiagnosisFinding:
    units = [bench.units[at] for at in found]
    series = [bench.series[at] for at in sorted({unit.at for unit in units})]
    errors = [bench.error(unit, bench.base) or 0.0 for unit in units]
    hints = () if why else tuple(f"{one.series.title}: {said}" for one in series for said in one.findings)
    return DiagnosisFinding(
        series=tuple(one.series.title for one in series),
        size=" and ".join(sorted({unit.size for unit in units})),
        low=min(unit.share for unit in units),
        high=max(unit.share for unit in units),
        error=sum(errors) / len(errors),
        causes=tuple(Cause(one.cause.name, one.cause.said(one.value), one.cause.look, one.error, one.error_all) for one in why),
        experiments=next_experiments(why, bench.base, on) if why else (),
        hints=hints,
    )


DIP, NEAR = 0.6, 0.9  # a size below this share of what larger ones reach is reported, up to sizes that come near them
# large messages above the bar but below this share are reported where a setting explains them, within this error
SHORT, EXACT = 0.9, 0.06


def notes(bench: Scoring, causes: Sequence[Hypothesis]) -> Iterator[str]:
    yield from filter(None, map(of_few, sorted({one.series.ranks for one in bench.series})))
    settings = [cause for cause in causes if cause.fits == "setting"]
    for unit in bench.units:
        one, share = bench.series[unit.at], whole_percent(unit.share)
        if unit.share > FASTER:
            what = "another algorithm ran, or this is another machine than the fabric"
            yield f"{one.series.title}: {unit.size} messages at {share} of expected: {what}"
        if unit.low or unit.size == "small":
            continue
        plain = bench.error(unit, bench.base) or 0.0
        for cause in settings if unit.share < SHORT else ():  # one that explains what passes but falls short
            error = bench.error(unit, cause.scenario(0.0))
            if error is not None and error <= min(EXACT, plain / 2):
                yield f"{one.series.title}: {share} of expected, as if {cause.said(0.0)}; check {cause.look}"
                break
        below = [point for point in one.points[: min(unit.focus)] if point.bound == "bandwidth"]
        short = [point for point in below if point.of_expected < NEAR * unit.share]
        if short and min(point.of_expected for point in short) < DIP * unit.share:
            first = next(point for point in one.points if point.bytes > short[-1].bytes)
            reached = f"{whole_percent(short[0].of_expected)} of expected at {size_text(short[0].bytes)}"
            yield f"{one.series.title}: {reached}, as expected from {size_text(first.bytes)} on: the link is fine"


class Evidence(NamedTuple):
    """What was measured: ``logs`` of benchmarks, ``traced`` series, ``bounds`` for traced calls known only as upper bounds.
    ``world`` is the traced job's rank count, ``empty`` the files with nothing in them."""

    logs: Measurements
    named: LoggedHardware = LoggedHardware((), ())
    traced: tuple[Series, ...] = ()
    bounds: tuple[UpperBound, ...] = ()
    left_out: tuple[LeftOutKernels, ...] = ()
    world: int | None = None
    empty: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        return (*self.logs.series, *self.traced)

    @property
    def most_ranks(self) -> int:
        return max([self.world or 1, *(one.ranks for one in self.series), *(one.ranks for one in self.bounds)])

    def only(self, primitive: Primitive | None) -> Evidence:
        if primitive is None:
            return self
        there = dict.fromkeys(map(str, [*(one.primitive for one in self.series), *(one.primitive for one in self.bounds)]))
        if there and str(primitive) not in there:
            what = f"the logs hold no {primitive.spoken}"
            raise ColltoolError(what, argument="primitive", fix=f"they hold: {', '.join(there)}")
        kept = tuple(one for one in self.logs.series if one.primitive is primitive)
        traced = tuple(one for one in self.traced if one.primitive is primitive)
        bounds = tuple(one for one in self.bounds if one.primitive is primitive)
        return self._replace(logs=self.logs._replace(series=kept), traced=traced, bounds=bounds)

    def on(self, fabric: Fabric) -> Measurements:
        """All series; traced ones placed on the fewest hosts of this fabric that hold them."""
        inside, found = fabric.tiers[0].endpoints, [*self.logs.series]
        for one in self.traced:
            whole = inside <= MOST_IN_A_HOST and (one.ranks < inside or one.ranks % inside == 0)
            found.append(one._replace(nodes=max(one.ranks // inside, 1)) if whole else one)
        return self.logs._replace(series=tuple(found))


# device name -> bundled fabric of the usual machine around it; the first match counts
_KNOWN: tuple[tuple[str, str], ...] = (
    (r"\bGB300\b", "gb300-nvl72"),
    (r"\bGB200\b", "nvl72"),
    (r"\bB300\b", "dgx-b300"),
    (r"\bB200\b", "dgx-b200"),
    (r"\bH200\b", "hgx-h200"),
    (r"\bH100\b", "dgx-h100"),
    (r"\bH800\b", "hgx-h800"),
    (r"\bH20\b", "hgx-h20"),
    (r"\bA100\b", "dgx-a100"),
    (r"\bA800\b", "hgx-a800"),
    (r"\bMI300X\b", "mi300x"),
    (r"\bMI325X\b", "mi325x"),
    (r"\bMI355X\b", "mi355x"),
)
_CARD = re.compile(r"pcie|\bNVL\b", re.IGNORECASE)  # cards in slots, not joined by NVSwitch


def given_fabric(fabric: Fabric, machine: LoggedHardware) -> tuple[Fabric, AssumedFabric]:
    said = [*_read(machine), f"fabric {fabric.name}, as given"]
    own, nearest = fabric.library_facts, dict.fromkeys(filter(None, map(_name_of, machine.devices)))
    theirs = {name: load_fabric(name).library_facts for name in nearest} if own and own.gpu else {}
    others = [name for name, facts in theirs.items() if own and (facts.gpu if facts else None) != own.gpu]
    said += [f"the devices do not match {fabric.name}: the nearest bundled fabric is {name}" for name in others]
    return fabric, AssumedFabric(fabric.name, fabric.overrides, machine.devices, machine.hosts, tuple(said))


def nearest_fabric(seen: Evidence, overrides: Overrides = ()) -> tuple[Fabric, AssumedFabric]:
    """The bundled fabric nearest to the devices that logs name, resized to what they ran on."""
    machine = seen.named
    cure = f"name the machine: {given('fabric', 'dgx-h100')}, or a file of your own"
    if not machine.devices:
        raise ColltoolError("the logs do not name their devices", argument="fabric", fix=cure)
    found = {device: _name_of(device) for device in machine.devices}
    unknown = next((device for device, name in found.items() if not name), None)
    if unknown is not None:
        raise ColltoolError(f"no bundled fabric has {unknown}", argument="fabric", fix=cure)
    if len(set(found.values())) > 1:
        what = f"the logs come from different machines: {', '.join(found)}"
        raise ColltoolError(what, argument="logs", fix="give the logs of one machine at a time")
    name = found[machine.devices[0]]
    sizes = _sizes(load_fabric(name), seen)
    plain = load_fabric(name, sizes)
    fabric = load_fabric(name, {**dict(plain.overrides), **overrides} if isinstance(overrides, Mapping) else [*sizes, *overrides])
    said = [*_read(machine), f"fabric {name}, the nearest bundled one: assumed from the devices"]
    said += [f"{one}: the size of the measured group" for one in sizes]
    if len(fabric.tiers) > 1 and seen.most_ranks > fabric.tiers[0].endpoints:
        said.append(f"the network of {name} is assumed: the logs do not name NICs ({fabric.tiers[-1].name})")
    return fabric, AssumedFabric(name, fabric.overrides, machine.devices, machine.hosts, tuple(said))


def _read(machine: LoggedHardware) -> list[str]:
    if not machine.devices:
        return []
    on = f" on {counted(len(machine.hosts), 'host')}" if machine.hosts else ""
    return [f"{', '.join(machine.devices)}{on}: read from the logs"]


def _name_of(device: str) -> str:
    return "" if _CARD.search(device) else next((name for pattern, name in _KNOWN if re.search(pattern, device)), "")


def _sizes(fabric: Fabric, seen: Evidence) -> list[str]:
    """Overrides for the innermost and outermost tier where the logs ran on other sizes; traced ranks fill host after host."""
    inner, outer = fabric.tiers[0], fabric.tiers[-1]
    if len(fabric.tiers) == 1 or inner.endpoints > MOST_IN_A_HOST:
        return []
    series = seen.logs.series
    shared = {one.ranks // one.nodes for one in series if one.nodes and one.nodes > 1 and one.ranks % one.nodes == 0}
    if len(shared) > 1:
        return []
    per_host = min(shared.pop() if shared else inner.endpoints, inner.endpoints)
    hosts = max(-(-seen.most_ranks // per_host), *(one.nodes or 1 for one in series), 1)
    out = [f"{inner.name}.size={per_host}"] if per_host < inner.endpoints else []
    return [*out, f"{outer.name}.size={hosts}"] if hosts > outer.endpoints else out
