"""``doctor``: from logs alone to what is off, why, and what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import size_text, whole_percent
from colltool.calibration.series_prices import check_fits
from colltool.definitions.reader import Overrides
from colltool.diagnosis.causes import Scoring, SupportedCause, explained
from colltool.diagnosis.evidence import Evidence, given_fabric, nearest_fabric
from colltool.diagnosis.experiments import ExperimentMachine, next_experiments, upper_bounds
from colltool.diagnosis.hypotheses import HostFacts, Hypothesis, hypotheses, maker_of
from colltool.diagnosis.results import Cause, Diagnosis, DiagnosisFinding, SeriesHealth, ValidatedSeries
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.thresholds import EXPECT, FASTER, SizeClass, bar_for, of_few, size_classes
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric


def diagnose(seen: Evidence, fabric: Fabric | None = None, *, overrides: Overrides = (), expect: float | None = None,
             readings: Readings | None = None) -> Diagnosis:  # fmt: skip
    """Hold every series against the prices of a machine, and price every cause of what is off."""
    if expect is not None and not (isfinite(expect) and 0 < expect <= 1):
        fix = f"write {either(shell='95% or 0.95', python='0.95')}"
        raise ColltoolError(f"must be a share up to 100%, got {expect:g}", argument="expect", fix=fix)
    held, assumed = given_fabric(fabric, seen.named) if fabric else nearest_fabric(seen, overrides)
    base = Scenario(held, readings=readings or Readings())
    measured = seen.on(held)
    judged = validate(held, measured, readings=base.readings).series if measured.series or not seen.bounds else ()
    wires = [check_fits(held, one.series).spans[-1].tier.name for one in judged]
    bars = [bar_for(one.series, held.tiers[0].endpoints, expect) for one in judged]
    bench = Scoring(judged, size_classes(judged, bars, held.launch_overhead), base)
    bounds, measure = upper_bounds(seen.bounds, base, _library(seen), wires)
    found, said = _explained(bench, seen) if judged else ((), ())
    return Diagnosis(
        assumed=assumed,
        expect=EXPECT if expect is None else expect,
        series=tuple(_health(at, one, wires[at], bench.units, bars[at]) for at, one in enumerate(judged)),
        findings=found,
        notes=(*(f"{file} is empty: skipped" for file in seen.empty), *said),
        skipped=measured.skipped,
        bounds=bounds,
        measure=measure,
        left_out=seen.left_out,
    )


def _library(seen: Evidence) -> str:
    """NCCL if only traces: PyTorch calls RCCL nccl, too."""
    return next((one.library for one in seen.series), "NCCL")


def _explained(bench: Scoring, seen: Evidence) -> tuple[tuple[DiagnosisFinding, ...], tuple[str, ...]]:
    widest = max((check_fits(bench.base.fabric, one.series) for one in bench.series), key=lambda one: len(one.spans))
    inside = widest.spans[1].ranks_inside if len(widest.spans) > 1 else 1
    maker = maker_of(seen.named.devices, _library(seen), bench.base.fabric.tiers[0].name)
    causes = hypotheses(bench.base, HostFacts(len(widest.spans), inside, _library(seen), maker))
    on = _machine(bench.series, inside)
    findings = tuple(_finding(bench, sorted(found), why, on) for found, why in explained(bench, causes))
    return findings, tuple(notes(bench, causes))


def _machine(series: Sequence[ValidatedSeries], inside: int) -> ExperimentMachine:
    largest = max((one.series for one in series), key=lambda one: one.ranks)
    hosts = largest.nodes or (largest.ranks // inside if inside > 1 else 1)
    return ExperimentMachine(largest.ranks, max(hosts, 1), largest.library)


def _health(at: int, one: ValidatedSeries, wire: str, units: Sequence[SizeClass], bar: float) -> SeriesHealth:
    mine = {unit.size: unit for unit in units if unit.at == at}
    large, small = mine.get("large"), mine.get("small")
    low = any(unit.low for unit in mine.values())
    return SeriesHealth(one, wire, large and large.share, small and small.share, low, bar)


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
        one = bench.series[unit.at]
        found = (_faster(unit), *((_as_if(bench, unit, settings), _dip(one, unit)) if unit.size == "large" else ()))
        yield from (f"{one.series.title}: {said}" for said in found if said)


def _faster(unit: SizeClass) -> str:
    if unit.share <= FASTER:
        return ""
    what = "another algorithm ran, or this is another machine than the fabric"
    return f"{unit.size} messages at {whole_percent(unit.share)} of expected: {what}"


def _as_if(bench: Scoring, unit: SizeClass, settings: Sequence[Hypothesis]) -> str:
    """A setting that explains a unit which passes but falls short."""
    plain = bench.error(unit, bench.base) or 0.0
    if unit.low or unit.share >= SHORT:
        return ""
    for cause in settings:
        error = bench.error(unit, cause.scenario(0.0))
        if error is not None and error <= min(EXACT, plain / 2):
            return f"{whole_percent(unit.share)} of expected, as if {cause.said(0.0)}; check {cause.look}"
    return ""


def _dip(one: ValidatedSeries, unit: SizeClass) -> str:
    below = [point for point in one.points[: min(unit.focus)] if point.bound == "bandwidth"]
    short = [point for point in below if point.of_expected < NEAR * unit.share]
    if unit.low or not short or min(point.of_expected for point in short) >= DIP * unit.share:
        return ""
    first = next(point for point in one.points if point.bytes > short[-1].bytes)
    reached = f"{whole_percent(short[0].of_expected)} of expected at {size_text(short[0].bytes)}"
    return f"{reached}, as expected from {size_text(first.bytes)} on: the link is fine"
