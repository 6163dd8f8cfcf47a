"""``doctor``: finds from logs and traces which machine ran, what is off, why, and what to run next.

:func:`diagnose` is the entry; it splits the evidence by ranks per host. For each part
:func:`_diagnose_part` finds the fabric (:mod:`~colltool.diagnosis.machines`), prices the series
(:mod:`~colltool.diagnosis.validate`), groups their sizes (:mod:`~colltool.diagnosis.size_classes`),
and makes findings of those that are below their bar, each with its causes and what to run next
(:mod:`~colltool.diagnosis.explained_findings`); :mod:`~colltool.diagnosis.fleet` compares the hosts
of many runs.

Logs of one machine may hold runs on whole hosts and on parts of them, such as 8 and 4 ranks on each
of several hosts: each part is a machine of its own, with a fabric of that host size.

``judged`` series are those with prices beside their times. Times of traced calls may be upper bounds
only (``bounds``), which are not judged. What lines of the logs say themselves, such as an error, is
``stated``: it is an answer also where no machine can be named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.statements import Statement
from colltool.definitions.overrides import Overrides
from colltool.diagnosis.causes import Scoring
from colltool.diagnosis.declared_causes import weighted_by_log
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.experiments import upper_bounds
from colltool.diagnosis.explained_findings import explained_findings
from colltool.diagnosis.fleet import fleet_of
from colltool.diagnosis.hypotheses import HostFacts, hypotheses, maker_of
from colltool.diagnosis.logged_channels import TopologyCompared
from colltool.diagnosis.machines import (
    devices_read,
    fabrics_that_fit,
    given_fabric,
    nearest_fabric,
)
from colltool.diagnosis.notes import notes_on
from colltool.diagnosis.reading import read_series
from colltool.diagnosis.results import (
    AssumedFabric,
    Diagnosis,
    DiagnosisFinding,
    ValidatedSeries,
)
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.stated_findings import (
    answers_alone,
    stated_findings,
    without_expected_causes,
    wrong_results,
)
from colltool.diagnosis.thresholds import (
    HEALTHY_SHARE,
    across_hosts,
)
from colltool.diagnosis.topology import dumped_topology, topology_findings
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.logs.series import Measurements
from colltool.logs.stated import StatedLine


class _DiagnosisOptions(NamedTuple):
    """What the user gave."""

    fabric: Fabric | None  # None to look for one
    overrides: Overrides
    expect: float | None  # the share of the expected rate that is healthy, None for the usual one
    readings: ModelOptions

    @property
    def pass_mark(self) -> float:
        """The share of the expected rate that large messages must reach as a rule."""
        return HEALTHY_SHARE if self.expect is None else self.expect


def diagnose(
    seen: Evidence,
    fabric: Fabric | None,
    *,
    overrides: Overrides,
    expect: float | None,
    readings: ModelOptions | None,
    topology: TopologyCompared | None = None,
) -> Diagnosis:
    """Diagnose a machine from its logs and traces, on the nearest bundled fabric by default.

    Args:
        seen: what the logs and traces hold.
        fabric: the machine that ran; None to look for the nearest bundled one.
        overrides: of the bundled fabric that is found; ``fabric`` has its own already.
        expect: the share of the expected rate that is healthy, None for the usual one.
        readings: how prices are worked out; None for the usual way.
        topology: NCCL's channels in the logs beside those of a topology file; None without one.

    Raises:
        ColltoolError: ``expect`` is no share, or the fabric is uneven; no machine can be named and
            the logs state nothing that answers alone.
    """
    if expect is not None and not (isfinite(expect) and 0 < expect <= 1):
        raise ColltoolError(
            f"must be a share up to 100%, got {expect:g}",
            argument="expect",
            fix=f"write {either(shell='95% or 0.95', python='0.95')}",
        )
    if fabric is not None:
        check_even(fabric)
    options = _DiagnosisOptions(fabric, overrides, expect, readings or ModelOptions())
    stated = (*wrong_results(seen), *seen.stated)
    if fabric is not None:
        stated = without_expected_causes(fabric, stated)
    diagnosis = _judged_or_stated(seen, options, stated)
    notes = [statement("empty-file", file=file) for file in seen.empty]
    # a file that states something was read, also without times
    stating_files = {line.file for line in stated}
    for failed in seen.failed:
        if failed.file not in stating_files:
            notes.append(statement("failed-file", file=failed.file, reason=failed.reason))
    findings_before, findings_after = stated_findings(
        stated, judged=bool(diagnosis.series or diagnosis.bounds)
    )
    if topology is not None:
        findings_before = (*topology_findings(topology, seen.debug), *findings_before)
        notes += topology.notes
    else:
        notes += dumped_topology(seen.debug)
    return replace(
        diagnosis,
        findings=(*findings_before, *diagnosis.findings, *findings_after),
        notes=(*notes, *diagnosis.notes),
        topology=topology,
        fleet=fleet_of(seen, diagnosis.series),
        # a share above what is possible says nothing of health: it is another machine's
        fits=fabrics_that_fit(seen) if diagnosis.too_fast else (),
        stated=stated,
    )


def _judged_or_stated(
    seen: Evidence, options: _DiagnosisOptions, stated: Sequence[StatedLine]
) -> Diagnosis:
    """The diagnosis of the times. One that compares nothing where there are none, or where an error
    keeps them from being judged and what the logs state answers alone."""
    if not seen.series and not seen.bounds:
        return _without_times(seen, options, "")
    try:
        return _join([_diagnose_part(part, options) for part in _by_ranks_per_host(seen)])
    except ColltoolError as error:
        if not answers_alone(stated, error):
            raise
        # "give the logs of one machine at a time" helps nobody here: one failed run may well have
        # several kinds of GPU
        fix = f" ({error.fix})" if error.fix and error.argument != "logs" else ""
        return _without_times(seen, options, f"{error.what}{fix}")


def _without_times(seen: Evidence, options: _DiagnosisOptions, unjudged: str) -> Diagnosis:
    """A diagnosis that compares nothing; ``unjudged``: why, where there are times, else empty."""
    return Diagnosis(
        assumed=AssumedFabric(
            options.fabric.name if options.fabric else "",
            overrides=(),
            devices=seen.named.devices,
            hosts=seen.named.hosts,
            said=tuple(devices_read(seen)),
        ),
        expect=options.pass_mark,
        series=(),
        findings=(),
        notes=(),
        skipped=seen.logs.skipped,
        unjudged=unjudged,
    )


def _by_ranks_per_host(seen: Evidence) -> list[Evidence]:
    """Split runs across hosts by their ranks per host, the most first: runs on 8 and on 4 ranks of
    each host are two machines."""
    counts = sorted(seen.ranks_per_host, reverse=True)
    if len(counts) < 2:
        return [seen]
    most, *fewer = counts
    # runs inside one host (None) go with the whole hosts
    series = tuple(run for run in seen.logs.series if run.ranks_per_host in (most, None))
    parts = [seen._replace(logs=seen.logs._replace(series=series))]
    # what is no benchmark's series, such as traces and failed files, stays with the first part
    for count in fewer:
        series = tuple(run for run in seen.logs.series if run.ranks_per_host == count)
        parts.append(Evidence(logs=Measurements(series, ()), named=seen.named, debug=seen.debug))
    return parts


def _join(parts: Sequence[Diagnosis]) -> Diagnosis:
    """Join the diagnoses of several parts, the one of most ranks per host first: the fabric is its
    own, of the others' only the host size is said."""
    largest, *others = parts
    if not others:
        return largest
    said = list(largest.assumed.said)
    series = list(largest.series)
    findings = list(largest.findings)
    notes = dict.fromkeys(largest.notes)  # each once, in order
    for part in others:
        if part.series:
            said.append(
                statement(
                    "other-shape",
                    ranks=part.series[0].judged.series.ranks_per_host,
                    fabric=part.assumed.fabric,
                    values=" ".join(f"{key}={value}" for key, value in part.assumed.overrides),
                )
            )
        series += part.series
        findings += part.findings
        notes |= dict.fromkeys(part.notes)
    return replace(
        largest,
        assumed=largest.assumed._replace(said=tuple(said)),
        series=tuple(series),
        findings=tuple(findings),
        notes=tuple(notes),
    )


def _diagnose_part(seen: Evidence, options: _DiagnosisOptions) -> Diagnosis:
    """Diagnose runs that all have the same number of ranks per host, by their times."""
    if options.fabric:
        fabric, assumed = given_fabric(options.fabric, seen)
    else:
        fabric, assumed = nearest_fabric(seen, options.overrides)
    base = Scenario(fabric, readings=options.readings)
    measured = seen.on(fabric)
    # one machine has one maker, so that any series names its library; without series there are
    # traces alone, and PyTorch calls RCCL nccl, too
    library = next((series.library for series in seen.series), "NCCL")
    judged: tuple[ValidatedSeries, ...] = ()
    # without series and bounds this is the error that says so
    if measured.series or not seen.bounds:
        judged = validate(fabric, measured, readings=base.readings).series
    read = read_series(fabric, judged, expect=options.expect, assumed=not options.fabric)
    scoring = Scoring(judged, read.classes, base)
    bounds, tests = upper_bounds(seen.bounds, base, library, read.wires)
    findings: tuple[DiagnosisFinding, ...] = ()
    notes: tuple[Statement, ...] = ()
    if judged:
        host = _host_facts(scoring, read.placed, seen, library)
        causes = tuple(weighted_by_log(tuple(hypotheses(base, host)), seen.debug))
        findings = explained_findings(scoring, host, causes)
        notes = tuple(notes_on(scoring, causes))
    return Diagnosis(
        assumed=assumed,
        expect=options.pass_mark,
        series=read.health,
        findings=findings,
        notes=notes,
        skipped=measured.skipped,
        bounds=bounds,
        measure=tests,
        left_out=seen.left_out,
    )


def _host_facts(
    scoring: Scoring, placed: Sequence[PlacedGroup], seen: Evidence, library: str
) -> HostFacts:
    """What decides which causes the machine may have."""
    widest = max(placed, key=lambda group: len(group.spans))
    tiers_crossed = len(widest.spans)
    # a series across hosts crosses a network, whatever the fabric calls it
    if any(across_hosts(judged.series) for judged in scoring.series):
        tiers_crossed = max(tiers_crossed, 2)
    return HostFacts(
        tiers_crossed,
        ranks_inside=widest.spans[1].members_inside if len(widest.spans) > 1 else 1,
        library=library,
        maker=maker_of(seen.named.devices, library, scoring.base.fabric.tiers[0].name),
        has_small_messages=any(size_class.size == "small" for size_class in scoring.classes),
    )
