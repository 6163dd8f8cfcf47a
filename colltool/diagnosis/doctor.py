"""``doctor``: logs alone to hardware, what is off, why, and what to run next."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from colltool.base.errors import ColltoolError, either
from colltool.calibration.bars import EXPECT
from colltool.calibration.placement import check_fits
from colltool.calibration.results import ValidatedSeries
from colltool.calibration.validate import validate
from colltool.definitions.overrides import Overrides
from colltool.diagnosis.bounds import upper_bounds
from colltool.diagnosis.causes import Bench, Supported, explained
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.experiments import Machine, next_experiments
from colltool.diagnosis.hardware import given_fabric, nearest_fabric
from colltool.diagnosis.hypotheses import Host, hypotheses
from colltool.diagnosis.look import maker_of
from colltool.diagnosis.notes import notes
from colltool.diagnosis.results import Cause, Diagnosis, Finding, Health
from colltool.diagnosis.units import Unit, bar_for, units_of
from colltool.diagnosis.worlds import World
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric


def diagnose(seen: Evidence, fabric: Fabric | None = None, *, overrides: Overrides = (), expect: float | None = None,
             readings: Readings | None = None) -> Diagnosis:  # fmt: skip
    """Hold every series against the prices of a machine, and price every cause of what is off.

    Args:
        seen: what was measured, and where.
        fabric: in place of the nearest shipped one.
        overrides: of the shipped one.
        expect: the share of the expected rate below which large messages are off; of a healthy machine when None, which is
            :data:`colltool.calibration.bars.EXPECT`, and less of few ranks. For small messages it is
            lower by :data:`colltool.calibration.bars.SLACK`.
        readings: of the model; the defaults when None.

    Raises:
        ColltoolError: nothing measured, hardware that is not known, ranks that the fabric does not hold, a bar that is none.
    """
    if expect is not None and not (isfinite(expect) and 0 < expect <= 1):
        fix = f"write {either(shell='95% or 0.95', python='0.95')}"
        raise ColltoolError(f"must be a share up to 100%, got {expect:g}", argument="expect", fix=fix)
    held, assumed = given_fabric(fabric, seen.named) if fabric else nearest_fabric(seen, overrides)
    base = World(held, readings=readings or Readings())
    measured = seen.on(held)
    judged = validate(held, measured, readings=base.readings).series if measured.series or not seen.bounds else ()
    wires = [check_fits(held, one.series).spans[-1].tier.name for one in judged]
    bars = [bar_for(one.series, held.tiers[0].endpoints, expect) for one in judged]
    bench = Bench(judged, units_of(judged, bars, held.launch_overhead), base)
    bounds, measure = upper_bounds(seen.bounds, base, _library(seen), wires)
    found, said = _explained(bench, seen) if judged else ((), ())
    return Diagnosis(
        assumed=assumed,
        expect=EXPECT if expect is None else expect,
        series=tuple(_health(at, one, wires[at], bench.units, bars[at]) for at, one in enumerate(judged)),
        findings=found,
        notes=(*(f"{file} is empty: not judged" for file in seen.empty), *said),
        skipped=measured.skipped,
        bounds=bounds,
        measure=measure,
        left_out=seen.left_out,
    )


def _library(seen: Evidence) -> str:
    """Who ran; of traces that measure nothing NCCL, as PyTorch calls RCCL too."""
    return next((one.library for one in seen.series), "NCCL")


def _explained(bench: Bench, seen: Evidence) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """What is off, with its causes, and what is odd."""
    widest = max((check_fits(bench.base.fabric, one.series) for one in bench.series), key=lambda one: len(one.spans))
    inside = widest.spans[1].ranks_inside if len(widest.spans) > 1 else 1
    maker = maker_of(seen.named.devices, _library(seen), bench.base.fabric.tiers[0].name)
    causes = hypotheses(bench.base, Host(len(widest.spans), inside, _library(seen), maker))
    on = _machine(bench.series, inside)
    findings = tuple(_finding(bench, sorted(found), why, on) for found, why in explained(bench, causes))
    return findings, tuple(notes(bench, causes))


def _machine(series: Sequence[ValidatedSeries], inside: int) -> Machine:
    """What experiments run on: the largest group of the logs."""
    largest = max((one.series for one in series), key=lambda one: one.ranks)
    hosts = largest.nodes or (largest.ranks // inside if inside > 1 else 1)
    return Machine(largest.ranks, max(hosts, 1), largest.library)


def _health(at: int, one: ValidatedSeries, wire: str, units: Sequence[Unit], bar: float) -> Health:
    mine = {unit.size: unit for unit in units if unit.at == at}
    large, small = mine.get("large"), mine.get("small")
    low = any(unit.low for unit in mine.values())
    return Health(one, wire, large and large.share, small and small.share, low, bar)


def _finding(bench: Bench, found: Sequence[int], why: Sequence[Supported], on: Machine) -> Finding:
    units = [bench.units[at] for at in found]
    series = [bench.series[at] for at in sorted({unit.at for unit in units})]
    errors = [bench.error(unit, bench.base) or 0.0 for unit in units]
    hints = () if why else tuple(f"{one.series.title}: {said}" for one in series for said in one.findings)
    return Finding(
        series=tuple(one.series.title for one in series),
        size=" and ".join(sorted({unit.size for unit in units})),
        low=min(unit.share for unit in units),
        high=max(unit.share for unit in units),
        error=sum(errors) / len(errors),
        causes=tuple(_cause(one) for one in why),
        experiments=next_experiments(why, bench.base, on) if why else (),
        hints=hints,
    )


def _cause(one: Supported) -> Cause:
    return Cause(one.cause.name, one.cause.said(one.value), one.cause.look, one.error, one.error_all)
