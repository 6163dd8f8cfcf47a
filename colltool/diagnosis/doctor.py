"""``doctor``: from logs and traces to the machine that they name, what is off, why, and what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import size_text, whole_percent
from colltool.calibration.series_prices import check_fits
from colltool.definitions.reader import Overrides
from colltool.diagnosis.causes import ExperimentMachine, Scoring, SupportedCause, explained, next_experiments, upper_bounds
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.hypotheses import HostFacts, Hypothesis, Scenario, hypotheses, maker_of
from colltool.diagnosis.machines import given_fabric, nearest_fabric
from colltool.diagnosis.networks import trees_share
from colltool.diagnosis.results import Cause, Diagnosis, DiagnosisFinding, SeriesHealth
from colltool.diagnosis.thresholds import EXPECT, FASTER, across_hosts, of_few, size_classes, threshold_of
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric


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
    if expect is None:
        bars = [bar * trees_share(held, one) for bar, one in zip(bars, judged, strict=True)]
    bench = Scoring(judged, size_classes(judged, bars, held.launch_overhead, assumed=not fabric), base)
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
    small = any(unit.size == "small" for unit in bench.units)
    causes = hypotheses(bench.base, HostFacts(len(widest.spans), inside, library, maker, small))
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
