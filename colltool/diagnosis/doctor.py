"""``doctor``: from logs and traces to the machine that they name, what is off, why, and what to run
next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite, log
from statistics import fmean
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import whole_percent
from colltool.calibration.series_prices import check_fits
from colltool.definitions.reader import Overrides
from colltool.diagnosis.causes import Scoring, SupportedCause, explained
from colltool.diagnosis.cliffs import Collapse, collapse_in
from colltool.diagnosis.declared_causes import declared_causes, weighed
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.experiments import ExperimentMachine, next_experiments, upper_bounds
from colltool.diagnosis.fleet import fleet_of
from colltool.diagnosis.hypotheses import (
    CauseName,
    HostFacts,
    Hypothesis,
    check_of,
    hypotheses,
    maker_of,
)
from colltool.diagnosis.machines import given_fabric, nearest_fabric
from colltool.diagnosis.networks import is_stream, trees_share
from colltool.diagnosis.results import (
    Cause,
    Diagnosis,
    DiagnosisFinding,
    SeriesHealth,
    ValidatedPoint,
    ValidatedSeries,
)
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.sentences import sentence
from colltool.diagnosis.size_classes import SizeClass, size_classes
from colltool.diagnosis.thresholds import (
    FASTER,
    HEALTHY_SHARE,
    across_hosts,
    of_few,
    threshold_of,
)
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.library_numbers import launch_of
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.logs.series import Measurements


def diagnose(
    seen: Evidence,
    fabric: Fabric | None,
    *,
    overrides: Overrides,
    expect: float | None,
    readings: ModelOptions | None,
) -> Diagnosis:
    """Diagnose a machine from its logs and traces, on the nearest bundled fabric by default."""
    if expect is not None and not (isfinite(expect) and 0 < expect <= 1):
        raise ColltoolError(
            f"must be a share up to 100%, got {expect:g}",
            argument="expect",
            fix=f"write {either(shell='95% or 0.95', python='0.95')}",
        )
    if fabric is not None:
        check_even(fabric)
    options = _DiagnosisOptions(fabric, overrides, expect, readings or ModelOptions())
    whole = _together([_diagnosed(part, options) for part in _by_shape(seen)])
    unread = [sentence("empty-file", file=file) for file in seen.empty]
    for failed in seen.failed:
        unread.append(sentence("failed-file", file=failed.file, reason=failed.reason))
    return replace(whole, notes=(*unread, *whole.notes), fleet=fleet_of(seen, whole.series))


class _DiagnosisOptions(NamedTuple):
    fabric: Fabric | None
    overrides: Overrides
    expect: float | None
    readings: ModelOptions


def _by_shape(seen: Evidence) -> list[Evidence]:
    """Split runs across hosts by their ranks per host: each shape is its own machine."""
    shapes = sorted(seen.ranks_per_host, reverse=True)
    if len(shapes) < 2:
        return [seen]
    most, *fewer = shapes
    # runs inside one host go with the whole hosts
    series = tuple(run for run in seen.logs.series if run.ranks_per_host in (most, None))
    parts = [seen._replace(logs=seen.logs._replace(series=series))]
    for shape in fewer:
        series = tuple(run for run in seen.logs.series if run.ranks_per_host == shape)
        parts.append(Evidence(Measurements(series, ()), seen.named, debug=seen.debug))
    return parts


def _together(parts: Sequence[Diagnosis]) -> Diagnosis:
    """Join the diagnoses of several shapes; the fabric is that of the largest."""
    # findings on the largest shape come first
    first, *others = parts
    if not others:
        return first
    said = list(first.assumed.said)
    series = list(first.series)
    findings = list(first.findings)
    notes = dict.fromkeys(first.notes)
    for part in others:
        if part.series:
            ranks = part.series[0].judged.series.ranks_per_host
            values = " ".join(f"{key}={value}" for key, value in part.assumed.overrides)
            fabric = part.assumed.fabric
            said.append(sentence("other-shape", ranks=ranks, fabric=fabric, values=values))
        series += part.series
        findings += part.findings
        notes |= dict.fromkeys(part.notes)
    return replace(
        first,
        assumed=first.assumed._replace(said=tuple(said)),
        series=tuple(series),
        findings=tuple(findings),
        notes=tuple(notes),
    )


def _diagnosed(seen: Evidence, options: _DiagnosisOptions) -> Diagnosis:
    if options.fabric:
        fabric, assumed = given_fabric(options.fabric, seen)
    else:
        fabric, assumed = nearest_fabric(seen, options.overrides)
    base = Scenario(fabric, readings=options.readings)
    measured = seen.on(fabric)
    # PyTorch calls RCCL nccl, too
    library = next((series.library for series in seen.series), "NCCL")
    judged: tuple[ValidatedSeries, ...] = ()
    if measured.series or not (seen.bounds or declared_causes(seen.debug)):
        judged = validate(fabric, measured, readings=base.readings).series
    placed = []
    wires = []  # the outermost tier of each series
    bars = []
    for health in judged:
        group = check_fits(fabric, health.series)
        placed.append(group)
        wires.append(group.spans[-1].tier.name)
        bars.append(_bar(fabric, health, options.expect))
    units = size_classes(judged, bars, launch_of(fabric), assumed=not options.fabric)
    scoring = Scoring(judged, units, base)
    bounds, measure = upper_bounds(seen.bounds, base, library, wires)
    findings = _declared_alone(seen)
    notes: tuple[str, ...] = ()
    if judged:
        causes = _causes(scoring, placed, seen, library)
        findings = _findings(scoring, placed, causes)
        notes = tuple(_notes(scoring, causes))
    return Diagnosis(
        assumed=assumed,
        expect=HEALTHY_SHARE if options.expect is None else options.expect,
        series=tuple(_health(scoring, wires, bars)),
        findings=findings,
        notes=notes,
        skipped=measured.skipped,
        bounds=bounds,
        measure=measure,
        left_out=seen.left_out,
    )


def _bar(fabric: Fabric, judged: ValidatedSeries, expect: float | None) -> float:
    """The share of the expected rate that large messages of a series must reach."""
    if expect is not None:
        return expect
    series = judged.series
    bar = HEALTHY_SHARE
    if not is_stream(series):
        whole = fabric.tiers[0].endpoints
        across = across_hosts(series)
        bar = threshold_of(series.primitive, series.ranks, whole, across=across)
    return bar * trees_share(fabric, judged)


def _health(
    scoring: Scoring, wires: Sequence[str], bars: Sequence[float]
) -> Iterator[SeriesHealth]:
    for index, judged in enumerate(scoring.series):
        # its large messages, its small ones, or both
        mine = [unit for unit in scoring.units if unit.at == index]
        shares = {unit.size: unit.share for unit in mine}
        low = any(unit.low for unit in mine) or collapse_in(judged.series.points) is not None
        yield SeriesHealth(
            judged, wires[index], shares.get("large"), shares.get("small"), low, bars[index]
        )


def _declared_alone(seen: Evidence) -> tuple[DiagnosisFinding, ...]:
    """What lines of NCCL_DEBUG=INFO name where nothing was measured."""
    on = ""
    if seen.named.hosts:
        on = f" on {' and '.join(seen.named.hosts)}"
    causes = []
    for cause, quoted in declared_causes(seen.debug):
        causes.append(_unpriced(cause, sentence("log-says", quoted=quoted, on=on)))
    if not causes:
        return ()
    finding = DiagnosisFinding(
        series=("the log",),
        size="",
        low=None,
        high=None,
        error=None,
        causes=tuple(causes),
        experiments=(),
        hints=(),
    )
    return (finding,)


def _unpriced(cause: CauseName, said: str) -> Cause:
    """A cause that no price is needed to see."""
    return Cause(cause, said, check_of(cause), None, None)


def _causes(
    scoring: Scoring, placed: Sequence[PlacedGroup], seen: Evidence, library: str
) -> tuple[Hypothesis, ...]:
    """All causes that the machine may have, with what the logs say of each."""
    spans = 1
    for group, judged in zip(placed, scoring.series, strict=True):
        # a series across hosts crosses a network, whatever the fabric calls it
        spans = max(spans, len(group.spans), 2 if across_hosts(judged.series) else 1)
    maker = maker_of(seen.named.devices, library, scoring.base.fabric.tiers[0].name)
    small = any(unit.size == "small" for unit in scoring.units)
    host = HostFacts(spans, _ranks_inside(placed), library, maker, small)
    return tuple(weighed(tuple(hypotheses(scoring.base, host)), seen.debug))


def _ranks_inside(placed: Sequence[PlacedGroup]) -> int:
    """Ranks in each innermost domain of the widest group."""
    widest = max(placed, key=lambda group: len(group.spans))
    return widest.spans[1].ranks_inside if len(widest.spans) > 1 else 1


def _findings(
    scoring: Scoring, placed: Sequence[PlacedGroup], causes: Sequence[Hypothesis]
) -> tuple[DiagnosisFinding, ...]:
    largest = max((judged.series for judged in scoring.series), key=lambda series: series.ranks)
    inside = _ranks_inside(placed)
    # logs that list no hosts: those of the fabric that the group spans
    hosts = largest.nodes or (largest.ranks // inside if inside > 1 else 1)
    machine = ExperimentMachine(largest.ranks, max(hosts, 1), largest.library)
    found = []
    for units, supported in explained(scoring, causes):
        found.append(_finding(scoring, sorted(units), supported, machine))
    return tuple(_with_collapses(scoring, found))


def _finding(
    scoring: Scoring,
    found: Sequence[int],
    supported: Sequence[SupportedCause],
    machine: ExperimentMachine,
) -> DiagnosisFinding:
    units = [scoring.units[index] for index in found]
    series = [scoring.series[index] for index in sorted({unit.at for unit in units})]
    shares = [unit.share for unit in units]
    causes = []
    for fitted in supported:
        cause = fitted.cause
        said = cause.said(fitted.value)
        causes.append(Cause(cause.name, said, cause.look, fitted.error, fitted.error_all))
    hints: list[str] = []
    if not supported:
        if all(across_hosts(judged.series) for judged in series):
            causes.append(_congested(units, scoring.base.fabric.tiers[-1].name))
        for judged in series:
            hints += [f"{judged.series.title}: {said}" for said in judged.findings]
    return DiagnosisFinding(
        series=tuple(judged.series.title for judged in series),
        size=" and ".join(sorted({unit.size for unit in units})),
        low=min(shares),
        high=max(shares),
        error=sum(map(scoring.plain_error, units)) / len(units),
        causes=tuple(causes),
        experiments=next_experiments(supported, scoring.base, machine) if supported else (),
        hints=tuple(hints),
    )


def _congested(units: Sequence[SizeClass], network: str) -> Cause:
    """The cause between hosts where no single rate, number of NICs or setting fits all sizes."""
    shares = sorted({units[0].share, units[-1].share})
    reach = " to ".join(dict.fromkeys(map(whole_percent, shares)))
    return _unpriced("network", sentence("congested", network=network, reach=reach))


def _with_collapses(
    scoring: Scoring, findings: Sequence[DiagnosisFinding]
) -> Iterator[DiagnosisFinding]:
    """Put a rate that falls at a size and stays low first among the causes of its series."""
    fell: dict[str, tuple[ValidatedSeries, Collapse]] = {}
    for judged in scoring.series:
        fall = collapse_in(judged.series.points)
        if fall:
            fell[judged.series.title] = (judged, fall)
    for finding in findings:
        mine = [title for title in finding.series if title in fell]
        if mine and "large" in finding.size:
            _, fall = fell.pop(mine[0])
            finding = finding._replace(causes=(_collapse(fall), *finding.causes))
        yield finding
    for title, (judged, fall) in fell.items():
        # all sizes from the fall on
        shares = [point.of_expected for point in judged.points if point.bytes >= fall.after.bytes]
        yield DiagnosisFinding(
            series=(title,),
            size="large",
            low=min(shares),
            high=max(shares),
            error=fmean(abs(log(share)) for share in shares),
            causes=(_collapse(fall),),
            experiments=(),
            hints=(),
        )


def _collapse(fall: Collapse) -> Cause:
    before, after = fall.before.bytes, fall.after.bytes
    said = sentence("collapse", after=after, factor=fall.factor, before=before)
    return _unpriced("collapse", said)


# a size below this share of what larger ones reach is reported, up to sizes that come near them
DIP, NEAR = 0.6, 0.9
# large messages above the bar but below this share are reported where a setting explains them,
# within this error
SHORT, EXACT = 0.9, 0.06


def _notes(scoring: Scoring, causes: Sequence[Hypothesis]) -> Iterator[str]:
    """What is no finding, but worth a look."""
    for ranks in sorted({judged.series.ranks for judged in scoring.series}):
        if of_few(ranks):
            yield of_few(ranks)
    # a setting is there or not, and needs no number that would fit anything
    settings = [cause for cause in causes if cause.fits == "setting"]
    for unit in scoring.units:
        judged = scoring.series[unit.at]
        title = judged.series.title
        if unit.share > FASTER:
            yield sentence("too-fast", title=title, size=unit.size, share=unit.share)
        if unit.low or unit.size == "small":
            continue
        cause = _setting_of(scoring, unit, settings)
        if cause:
            said = cause.said(0.0)
            yield sentence(
                "passes-short", title=title, share=unit.share, cause=said, look=cause.look
            )
        dip = _dip(judged.points, unit)
        if dip:
            first, last = dip
            after = next(point for point in judged.points if point.bytes > last.bytes)
            yield sentence(
                "dip", title=title, share=first.of_expected, size=first.bytes, after=after.bytes
            )


def _setting_of(
    scoring: Scoring, unit: SizeClass, settings: Sequence[Hypothesis]
) -> Hypothesis | None:
    """A setting that explains large messages that pass but fall short."""
    if unit.share >= SHORT:
        return None
    most = min(EXACT, scoring.plain_error(unit) / 2)
    for cause in settings:
        error = scoring.error(unit, cause.scenario(0.0))
        if error is not None and error <= most:
            return cause
    return None


def _dip(
    points: Sequence[ValidatedPoint], unit: SizeClass
) -> tuple[ValidatedPoint, ValidatedPoint] | None:
    """First and last of the smaller sizes that fall short of what the largest reach."""
    short = []
    deep = False
    for point in points[: min(unit.focus)]:
        if point.bound == "bandwidth" and point.of_expected < NEAR * unit.share:
            short.append(point)
            deep = deep or point.of_expected < DIP * unit.share
    return (short[0], short[-1]) if deep else None
