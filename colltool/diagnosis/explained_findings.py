"""What is off by the measured times: a :class:`~colltool.diagnosis.results.DiagnosisFinding` for each
group of size classes (large or small messages of a series) that the same causes explain.

:func:`explained_findings` takes the causes that the times support
(:func:`colltool.diagnosis.causes.split_by_causes`), adds the experiments that separate them, and puts a
collapse (:mod:`colltool.diagnosis.cliffs`), which needs no price to be seen, before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from colltool.base.statements import Statement
from colltool.diagnosis.causes import Scoring, SupportedCause, split_by_causes
from colltool.diagnosis.cliffs import Collapse, collapse_in
from colltool.diagnosis.experiments import ExperimentMachine, next_experiments
from colltool.diagnosis.hypotheses import CauseName, HostFacts, Hypothesis, check_of
from colltool.diagnosis.results import Cause, DiagnosisFinding, ValidatedSeries
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.size_classes import SizeClass
from colltool.diagnosis.thresholds import across_hosts


def explained_findings(
    scoring: Scoring, host: HostFacts, causes: Sequence[Hypothesis]
) -> tuple[DiagnosisFinding, ...]:
    """What is off, with those of ``causes`` that explain it and the experiments that separate them;
    empty where every size class reaches its bar and no rate collapses."""
    largest = max((judged.series for judged in scoring.series), key=attrgetter("ranks"))
    hosts = largest.nodes
    if not hosts:
        # the logs list no hosts: as many as the ranks fill on this fabric
        hosts = largest.ranks // host.ranks_inside if host.ranks_inside > 1 else 1
    machine = ExperimentMachine(largest.ranks, max(hosts, 1), largest.library)
    findings = [
        _finding_of(scoring, sorted(indices), supported, machine)
        for indices, supported in split_by_causes(scoring, causes)
    ]
    return tuple(_with_collapses(scoring, findings))


def _finding_of(
    scoring: Scoring,
    indices: Sequence[int],
    supported: Sequence[SupportedCause],
    machine: ExperimentMachine,
) -> DiagnosisFinding:
    """What is off in the size classes with these indices, with the causes that explain it. Where
    none does, the findings of ``validate`` are its hints, and between hosts congestion its cause."""
    size_classes = [scoring.classes[index] for index in indices]
    # a series may be off in its large and in its small messages
    series_indices = sorted({size_class.series_index for size_class in size_classes})
    series = [scoring.series[index] for index in series_indices]
    shares = [size_class.share for size_class in size_classes]
    causes = []
    for fitted in supported:
        cause = fitted.cause
        causes.append(
            Cause(
                cause.name,
                cause.text_at(fitted.value),
                cause.look,
                fitted.error,
                fitted.error_all,
            )
        )
    hints: list[Statement] = []
    if not supported:
        if all(across_hosts(judged.series) for judged in series):
            causes.append(_congested(size_classes, scoring.base.fabric.tiers[-1].name))
        for judged in series:
            for finding in judged.findings:
                hints.append(statement("hint", series=judged.series.title, finding=finding))
    return DiagnosisFinding(
        series=tuple(judged.series.title for judged in series),
        size=" and ".join(sorted({size_class.size for size_class in size_classes})),
        low=min(shares),
        high=max(shares),
        error=sum(map(scoring.plain_error, size_classes)) / len(size_classes),
        causes=tuple(causes),
        experiments=next_experiments(supported, scoring.base, machine) if supported else (),
        hints=tuple(hints),
    )


def _congested(classes: Sequence[SizeClass], network: str) -> Cause:
    """The cause between hosts where no single rate, number of NICs or setting fits all sizes."""
    # one share where the first and the last class reach as much, else the range
    shares = tuple(sorted({classes[0].share, classes[-1].share}))
    return _unpriced("network", statement("congested", network=network, shares=shares))


def _unpriced(cause: CauseName, text: Statement) -> Cause:
    """A cause that is seen without a price, and so has no error; ``text`` says it."""
    return Cause(cause, text, check_of(cause), error=None, error_all=None)


class _CollapsedSeries(NamedTuple):
    """A series whose rate falls at a size and stays low."""

    judged: ValidatedSeries
    collapse: Collapse

    @property
    def cause(self) -> Cause:
        """The collapse as a cause: the size, and the rates before and behind it."""
        before, after, _ = self.collapse
        series = self.judged.series
        rates = (series.busbw_Bps(before), series.busbw_Bps(after))
        return _unpriced("collapse", statement("collapse", size=after.shown_bytes, rates=rates))

    @property
    def finding(self) -> DiagnosisFinding:
        """The finding of a series that has no other one: all sizes from the collapse on."""
        least = self.collapse.after.bytes
        shares = [point.of_expected for point in self.judged.points if point.bytes >= least]
        return DiagnosisFinding(
            series=(self.judged.series.title,),
            size="large",
            low=min(shares),
            high=max(shares),
            error=fmean(abs(log(share)) for share in shares),
            causes=(self.cause,),
            experiments=(),
            hints=(),
        )


def _with_collapses(
    scoring: Scoring, findings: Sequence[DiagnosisFinding]
) -> Iterator[DiagnosisFinding]:
    """Findings, with a collapse first among the causes of its series' large messages. Where no
    finding is of these, it follows as a finding of its own."""
    collapsed: dict[str, _CollapsedSeries] = {}  # by title
    for judged in scoring.series:
        collapse = collapse_in(judged.series.points)
        if collapse:
            collapsed[judged.series.title] = _CollapsedSeries(judged, collapse)
    for finding in findings:
        titles = [title for title in finding.series if title in collapsed]
        if titles and "large" in finding.size:
            # one collapse is enough for a finding; that of its other series stays a finding
            finding = finding._replace(causes=(collapsed.pop(titles[0]).cause, *finding.causes))
        yield finding
    for collapsed_series in collapsed.values():
        yield collapsed_series.finding
