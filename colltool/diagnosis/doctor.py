"""``doctor``: from logs and traces to the machine that they name, what is off, why, and what to run
next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite, log
from statistics import fmean
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import size_text, whole_percent
from colltool.calibration.series_prices import check_fits
from colltool.definitions.reader import Overrides
from colltool.diagnosis.causes import (
    ExperimentMachine,
    Scoring,
    SupportedCause,
    explained,
    next_experiments,
    upper_bounds,
)
from colltool.diagnosis.declared_causes import told, weighed
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.fleet import fleet_of
from colltool.diagnosis.hypotheses import (
    CHECKS,
    HostFacts,
    Hypothesis,
    Scenario,
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
    ValidatedSeries,
)
from colltool.diagnosis.thresholds import (
    EXPECT,
    FASTER,
    Collapse,
    SizeClass,
    across_hosts,
    collapse_in,
    of_few,
    size_classes,
    threshold_of,
)
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import Readings
from colltool.fabric.ground import launch_of
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.logs.series import Measurements, Series


def diagnose(
    seen: Evidence,
    fabric: Fabric | None = None,
    *,
    overrides: Overrides = (),
    expect: float | None = None,
    readings: Readings | None = None,
) -> Diagnosis:
    if expect is not None and not (isfinite(expect) and 0 < expect <= 1):
        fix = f"write {either(shell='95% or 0.95', python='0.95')}"
        raise ColltoolError(
            f"must be a share up to 100%, got {expect:g}", argument="expect", fix=fix
        )
    if fabric is not None:
        check_even(fabric)
    asked = _HowAsked(fabric, overrides, expect, readings or Readings())
    parts = [_diagnosed(part, asked) for part in _by_shape(seen)]
    whole = _together(parts)
    unread = [f"{file} is empty: skipped" for file in seen.empty] + [
        f"{one.file}: {one.reason}: skipped" for one in seen.failed
    ]
    return replace(whole, notes=(*unread, *whole.notes), fleet=fleet_of(seen, whole.series))


class _HowAsked(NamedTuple):
    fabric: Fabric | None
    overrides: Overrides
    expect: float | None
    readings: Readings


def _by_shape(seen: Evidence) -> list[Evidence]:
    """Runs across hosts apart by their ranks a host, for each is a machine of its own; most
    first."""
    shapes: dict[int, list[Series]] = {}
    for one in seen.logs.series:
        if one.nodes and one.nodes > 1 and one.ranks % one.nodes == 0:
            shapes.setdefault(one.ranks // one.nodes, []).append(one)
    if len(shapes) < 2:
        return [seen]
    most = max(shapes)
    others = {id(one) for shape, series in shapes.items() if shape != most for one in series}
    first = tuple(one for one in seen.logs.series if id(one) not in others)
    bare = Evidence(seen.logs, seen.named, debug=seen.debug)
    return [
        seen._replace(logs=seen.logs._replace(series=first)),
        *(
            bare._replace(logs=Measurements(tuple(shapes[shape]), ()))
            for shape in sorted(shapes, reverse=True)
            if shape != most
        ),
    ]


def _together(parts: Sequence[Diagnosis]) -> Diagnosis:
    """One diagnosis of several shapes: what the whole hosts are held against stands for all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    said = [
        f"runs of {one.series[0].judged.series.ranks // (one.series[0].judged.series.nodes or 1)}"
        f" ranks a host: {one.assumed.fabric}, with"
        f" {' '.join(f'{key}={value}' for key, value in one.assumed.overrides)}"
        for one in parts[1:]
        if one.series
    ]
    return replace(
        first,
        assumed=first.assumed._replace(said=(*first.assumed.said, *said)),
        series=tuple(one for part in parts for one in part.series),
        findings=tuple(one for part in parts for one in part.findings),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _diagnosed(seen: Evidence, asked: _HowAsked) -> Diagnosis:
    held, assumed = (
        given_fabric(asked.fabric, seen) if asked.fabric else nearest_fabric(seen, asked.overrides)
    )
    base = Scenario(held, readings=asked.readings)
    # PyTorch calls RCCL nccl, too
    measured, library = seen.on(held), next((one.library for one in seen.series), "NCCL")
    judge = measured.series or not (seen.bounds or told(seen.debug))
    judged = validate(held, measured, readings=base.readings).series if judge else ()
    wires = [check_fits(held, one.series).spans[-1].tier.name for one in judged]
    bars = _bars(held, judged, asked.expect)
    bench = Scoring(
        judged, size_classes(judged, bars, launch_of(held), assumed=not asked.fabric), base
    )
    bounds, measure = upper_bounds(seen.bounds, base, library, wires)
    found, said = _explained(bench, seen, library) if judged else (_told_alone(seen), ())
    collapsed = tuple(_collapsed(bench, found)) if judged else ()
    return Diagnosis(
        assumed=assumed,
        expect=EXPECT if asked.expect is None else asked.expect,
        series=tuple(_health(bench, wires, bars)),
        findings=collapsed or found,
        notes=said,
        skipped=measured.skipped,
        bounds=bounds,
        measure=measure,
        left_out=seen.left_out,
    )


def _bars(held: Fabric, judged: Sequence[ValidatedSeries], expect: float | None) -> list[float]:
    """The share of the expected rate that large messages of each series must reach."""
    if expect is not None:
        return [expect] * len(judged)
    whole = held.tiers[0].endpoints
    far = [across_hosts(one.series) for one in judged]
    of = [
        threshold_of(one.series.primitive, one.series.ranks, whole, across=out)
        for one, out in zip(judged, far, strict=True)
    ]
    of = [EXPECT if is_stream(one.series) else bar for bar, one in zip(of, judged, strict=True)]
    return [bar * trees_share(held, one) for bar, one in zip(of, judged, strict=True)]


def _health(bench: Scoring, wires: Sequence[str], bars: Sequence[float]) -> Iterator[SeriesHealth]:
    for at, one in enumerate(bench.series):
        mine = {unit.size: unit for unit in bench.units if unit.at == at}
        large, small, low = (
            mine.get("large"),
            mine.get("small"),
            any(unit.low for unit in mine.values()),
        )
        low = low or collapse_in(one.series.points) is not None
        yield SeriesHealth(
            one, wires[at], large and large.share, small and small.share, low, bars[at]
        )


def _told_alone(seen: Evidence) -> tuple[DiagnosisFinding, ...]:
    """What lines of NCCL_DEBUG=INFO name where nothing was measured."""
    on = f" on {' and '.join(seen.named.hosts)}" if seen.named.hosts else ""
    causes = [
        Cause(one.cause, f"the log says '{one.quoted}'{on}", CHECKS[one.cause][0], None, None)
        for one in told(seen.debug)
    ]
    if not causes:
        return ()
    return (_finding_of("the log", "", None, None, None, tuple(causes)),)


def _finding_of(
    series: str,
    size: str,
    low: float | None,
    high: float | None,
    error: float | None,
    causes: tuple[Cause, ...],
) -> DiagnosisFinding:
    return DiagnosisFinding(
        series=(series,),
        size=size,
        low=low,
        high=high,
        error=error,
        causes=causes,
        experiments=(),
        hints=(),
    )


def _collapsed(bench: Scoring, found: Sequence[DiagnosisFinding]) -> Iterator[DiagnosisFinding]:
    """The findings, with a rate that falls at a size and stays low as the first cause of its
    series; empty where none does."""
    fell = {
        one.series.title: fall for one in bench.series if (fall := collapse_in(one.series.points))
    }
    if not fell:
        return
    by_title = {one.series.title: one for one in bench.series}
    for one in found:
        mine = (
            next((fell.pop(title) for title in one.series if title in fell), None)
            if "large" in one.size
            else None
        )
        yield one._replace(causes=(_collapse(mine), *one.causes)) if mine else one
    for title, fall in fell.items():
        at = [point for point in by_title[title].points if point.bytes >= fall.after.bytes]
        shares = [point.of_expected for point in at]
        error = fmean(abs(log(point.of_expected)) for point in at)
        yield _finding_of(title, "large", min(shares), max(shares), error, (_collapse(fall),))


def _collapse(fall: Collapse) -> Cause:
    return Cause("collapse", fall.said, CHECKS["collapse"][0], None, None)


def _explained(
    bench: Scoring, seen: Evidence, library: str
) -> tuple[tuple[DiagnosisFinding, ...], tuple[str, ...]]:
    widest = max(
        (check_fits(bench.base.fabric, one.series) for one in bench.series),
        key=lambda one: len(one.spans),
    )
    inside = widest.spans[1].ranks_inside if len(widest.spans) > 1 else 1
    maker = maker_of(seen.named.devices, library, bench.base.fabric.tiers[0].name)
    small = any(unit.size == "small" for unit in bench.units)
    spans = max(
        len(widest.spans), 2 if any(across_hosts(one.series) for one in bench.series) else 1
    )
    causes = weighed(
        hypotheses(bench.base, HostFacts(spans, inside, library, maker, small)), seen.debug
    )
    largest = max((one.series for one in bench.series), key=lambda one: one.ranks)
    hosts = largest.nodes or (largest.ranks // inside if inside > 1 else 1)
    on = ExperimentMachine(largest.ranks, max(hosts, 1), largest.library)
    findings = tuple(
        _finding(bench, sorted(found), why, on) for found, why in explained(bench, causes)
    )
    return findings, tuple(notes(bench, causes))


def _finding(
    bench: Scoring, found: Sequence[int], why: Sequence[SupportedCause], on: ExperimentMachine
) -> DiagnosisFinding:
    units = [bench.units[at] for at in found]
    series = [bench.series[at] for at in sorted({unit.at for unit in units})]
    errors = [bench.error(unit, bench.base) or 0.0 for unit in units]
    causes = tuple(
        Cause(one.cause.name, one.cause.said(one.value), one.cause.look, one.error, one.error_all)
        for one in why
    )
    if not why and all(across_hosts(one.series) for one in series):
        causes = (_uneven(units, bench.base.fabric.tiers[-1].name),)
    hints = (
        ()
        if why
        else tuple(f"{one.series.title}: {said}" for one in series for said in one.findings)
    )
    return DiagnosisFinding(
        series=tuple(one.series.title for one in series),
        size=" and ".join(sorted({unit.size for unit in units})),
        low=min(unit.share for unit in units),
        high=max(unit.share for unit in units),
        error=sum(errors) / len(errors),
        causes=causes,
        experiments=next_experiments(why, bench.base, on) if why else (),
        hints=hints,
    )


def _uneven(units: Sequence[SizeClass], network: str) -> Cause:
    """Between hosts, where no single rate, number of NICs or setting fits all sizes."""
    reach = " to ".join(
        dict.fromkeys(whole_percent(share) for share in sorted({units[0].share, units[-1].share}))
    )
    said = (
        f"{network} at {reach} of its bandwidth, differently at each size: congestion, drops or a"
        " link that flaps"
    )
    return Cause("network", said, CHECKS["network"][0], None, None)


# a size below this share of what larger ones reach is reported, up to sizes that come near them
DIP, NEAR = 0.6, 0.9
# large messages above the bar but below this share are reported where a setting explains them,
# within this error
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
        # one that explains what passes but falls short
        for cause in settings if unit.share < SHORT else ():
            error = bench.error(unit, cause.scenario(0.0))
            if error is not None and error <= min(EXACT, plain / 2):
                yield (
                    f"{one.series.title}: {share} of expected, as if {cause.said(0.0)}; check"
                    f" {cause.look}"
                )
                break
        below = [point for point in one.points[: min(unit.focus)] if point.bound == "bandwidth"]
        short = [point for point in below if point.of_expected < NEAR * unit.share]
        if short and min(point.of_expected for point in short) < DIP * unit.share:
            first = next(point for point in one.points if point.bytes > short[-1].bytes)
            reached = (
                f"{whole_percent(short[0].of_expected)} of expected at {size_text(short[0].bytes)}"
            )
            yield (
                f"{one.series.title}: {reached}, as expected from {size_text(first.bytes)} on: the"
                " link is fine"
            )
