"""``doctor``: what the machine is, whether it is healthy, the cause and the next experiment.

Read from :data:`VIEWS`: :func:`_blocks` is the screen in its order, under the answer of
:mod:`colltool.render.views.doctor_answer`. A finding has :func:`_finding_blocks`, what lines of a log
state outright :func:`_stated_blocks`; fleets of hosts and NCCL's channels have modules of their own.

A finding has the ``causes`` that prices support, the best first, and ``experiments`` that would tell them
apart, in the order to run them; an experiment's ``foretold`` are the times under each cause. The shares of
a finding (``low`` to ``high``) are None where a log states it in words; the ``low`` of a series is a flag: it misses
one of its pass marks.

The default screen has a block's ``first`` rows or lines; 0, and what :func:`later` marks, are for ``--all`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose
from operator import attrgetter

from colltool.base.formatting import (
    and_text,
    counted,
    format_time,
    percent,
    size_text,
    whole_percent,
)
from colltool.diagnosis.results import (
    AssumedFabric,
    Cause,
    Diagnosis,
    DiagnosisFinding,
    Experiment,
    Prediction,
    SeriesHealth,
)
from colltool.logs.series import Skipped
from colltool.logs.stated import Kind, StatedLine
from colltool.logs.traced_calls import LeftOutKernels
from colltool.logs.traced_series import UpperBound
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    columns_at,
    label,
    later,
    number,
)
from colltool.render.busbw_chart import BusbwChart, series_chart
from colltool.render.dispatch import View, context, listed, set_text
from colltool.render.documents import Document, derived, optional, or_null
from colltool.render.shared_documents import (
    MachineDocument,
    assumed_by_file,
    machine_in_use,
    values_set,
    whole,
)
from colltool.render.views.doctor_answer import (
    diagnosed,
    judged_fabric,
    main_finding,
    reached,
    stated_finding,
)
from colltool.render.views.doctor_fleet import FleetDocument, fleet_blocks
from colltool.render.views.doctor_topology import TopologyDocument, topology_blocks
from colltool.render.views.health import SeriesHealthDocument, skipped_text

_BOUNDS_TITLE = "not judged: these times are upper bounds, as a kernel waits for the slowest rank"
# shown without --all
_MOST_SERIES = 10
_MOST_NOTES = 2
_MOST_LINES = 5  # that a log states


def _state(health: SeriesHealth) -> str:
    """The word of CSV for how a series passes its marks."""
    if health.low:
        return "off"
    if health.too_fast:
        return "too fast"
    return "as expected" if health.judgeable else "not judged"


# what people see in place of some of the words of CSV
_STATES = {"off": "slow", "as expected": "passes"}


def _state_text(state: str) -> str:
    return _STATES.get(state, state)


_SERIES: Columns[SeriesHealth] = (
    *columns_at(
        "judged.series",
        (
            label("collective", "collective", attrgetter("label"), path="primitive"),
            number("ranks"),
            number("nodes", drop=4),
            label("run"),
        ),
    ),
    label("wire", "tier", drop=1),
    *columns_at(
        "largest",
        (
            number("bytes", "largest", size_text, drop=3, path="shown_bytes", whole=True),
            number("busbw_measured_Bps", "busbw", drop=2),
            number("busbw_expected_Bps", "expected", drop=5),
        ),
    ),
    number("large", "of expected", whole_percent),
    number("bar", "pass mark", whole_percent),
    number("small", "small messages", whole_percent, drop=6),
    number("small_bar", "their pass mark", whole_percent, drop=7),
    label("state", "is", _state_text, get=_state),
)
_OUTCOMES: Columns[Prediction] = (
    label("cause", "if the cause is"),
    number("busbw_Bps", "busbw would be"),
    number("seconds", "time", format_time),
)
_CAUSES: Columns[Cause] = (
    label("name", "cause"),
    number("error", "fit error", percent),
    number("error_all", "over all sizes", percent, drop=1),
    label("said", "what it is"),
)


def _table(result: Diagnosis) -> Table:
    """The series beside what they should reach; columns that none has a value for are hidden."""
    # the names of causes by series: keys without values, as a name counts once and their order stays
    causes_by_title: dict[str, dict[str, None]] = {}
    for finding in result.findings:
        for title in finding.series:
            names = causes_by_title.setdefault(title, {})
            names.update((cause.name, None) for cause in finding.causes)

    hidden: Columns[SeriesHealth] = (
        label(
            "causes",
            get=lambda health: " ".join(causes_by_title.get(health.judged.series.title, ())),
            hidden=True,
        ),
        *context(set=set_text(result.assumed.overrides)),
    )
    columns = (*context(fabric=result.assumed.fabric), *_SERIES, *hidden)
    title = f"share of what {judged_fabric(result)} should reach"
    table = Table(columns, result.series, title=title, first=_MOST_SERIES)
    table = table.without_empty("run", "large", "small", "small_bar")
    # the mark of large messages is known of a series without any
    if all(health.large is None for health in result.series):
        table = table.without("bar")
    return table


def _blocks(result: Diagnosis) -> Iterator[Block]:
    """The screen: the answer, hosts of a fleet, and the main finding with what to run next, or the series where
    nothing is off; then what the judgement rests on: channels, lines of logs, the machine, notes, rows not judged."""
    main = main_finding(result)
    series = [_table(result)] if result.series else []
    yield Headline(diagnosed(result))
    if result.fleet:
        yield from fleet_blocks(result.fleet)
    if main is None:
        for experiment in result.measure:
            yield from _experiment_blocks("next, to measure these tiers", experiment)
        yield from series
    else:
        yield from _finding_blocks(main, series, result)
        yield from map(later, _further_blocks(main, result))
    # an answer without causes is short, and leaves room for the machine and the first notes
    has_room = main is None or not main.causes
    if result.topology is not None:
        yield from topology_blocks(result.topology)
    yield from _stated_blocks(main, result)
    yield from listed("the machine", result.assumed.said, first=None if has_room else 0)
    yield from _note_blocks(result, has_room=has_room)
    yield from listed(_BOUNDS_TITLE, map(_bound_text, result.bounds), first=0)
    title = "rows left out, or used with a reservation"
    yield from listed(title, _left_out_lines(result), first=0)


def _further_blocks(main: DiagnosisFinding, result: Diagnosis) -> Iterator[Block]:
    """The findings beside the main one, then what would measure further tiers: all for ``--all``."""
    for finding in result.findings:
        if finding is not main:
            yield from _cause_blocks(finding)
            yield from _detail_blocks(finding, result)
            yield from _next_experiment_blocks(finding, result)
    for experiment in result.measure:
        yield from _experiment_blocks("to measure these tiers", experiment)


def _note_blocks(result: Diagnosis, *, has_room: bool) -> list[Block]:
    """The notes, sizes that stand out first. Without ``--all`` a few where there is room, else those sizes alone."""
    outliers = sum(note.code == "stands-out" for note in result.notes)
    # False sorts before True
    notes = sorted(result.notes, key=lambda note: note.code != "stands-out")
    return listed("notes", notes, first=_MOST_NOTES if has_room else outliers)


def _stated_blocks(main: DiagnosisFinding | None, result: Diagnosis) -> Iterator[Block]:
    """What the log states, line by line: what is off with what to type, then mere facts.

    Without ``--all`` it is shown where it is the main finding.
    """
    troubles = []
    facts = []
    for stated in result.stated:
        if stated.kind == "fact":
            facts.append(_stated_text(stated))
        else:
            troubles.append(_stated_text(stated))
    is_main = main is not None and main is stated_finding(result)
    yield from listed("what the log states", troubles, first=_MOST_LINES if is_main else 0)
    yield from listed("what it says of the machine", facts, first=0)


def _stated_text(stated: StatedLine) -> str:
    """``debug.log:3 (4 times): Using network Socket: TCP sockets and not RDMA. Next: ...``."""
    times = f" ({stated.times} times)" if stated.times > 1 else ""
    action = f". Next: {stated.do}" if stated.do else ""
    return f"{stated.where}{times}: {stated.quoted}: {stated.means}{action}"


def _left_out_lines(result: Diagnosis) -> Iterator[str]:
    """Rows of logs, then kernels of traces."""
    yield from map(skipped_text, result.skipped)
    for kernels in result.left_out:
        count = counted(kernels.kernels, "kernel")
        yield f"{kernels.reason}: {count}, first in {kernels.file}"


def _finding_blocks(
    main: DiagnosisFinding, series: Sequence[Block], result: Diagnosis
) -> Iterator[Block]:
    """The main finding: the next command to run, then the causes, or the ``series`` without any.

    Args:
        series: the table of all series as a list of one; empty without series.
    """
    next_blocks = _next_experiment_blocks(main, result)
    # the command of the first experiment alone: what it would give, and further ones, are for --all
    yield from next_blocks[:1]
    # a log states this finding: its lines are listed further below, by _stated_blocks
    if main.low is None:
        yield from series
        return
    evidence = _cause_blocks(main) or series
    yield from evidence
    causes = _indistinguishable_causes(main)
    if len(causes) > 1:
        yield from listed("no run tells these apart; look at", map(_look_text, causes), first=0)
    yield from map(later, next_blocks[1:])
    # without causes the series stand above in their place
    if main.causes:
        yield from map(later, series)
    yield from map(later, _detail_blocks(main, result))


def _cause_blocks(finding: DiagnosisFinding) -> list[Block]:
    """The table of causes, as a list of one; empty without any. Causes that no price is needed to see
    have no fit error."""
    if not finding.causes:
        return []
    table = Table(_CAUSES, finding.causes, title="possible causes (fit error)")
    if all(cause.error is None for cause in finding.causes):
        return [table.without("error", "error_all")._replace(title="possible causes")]
    return [table]


def _detail_blocks(finding: DiagnosisFinding, result: Diagnosis) -> list[Block]:
    """What is reached, with the series if they are several, the hints, and where to look."""
    series = finding.series if len(finding.series) > 1 else ()
    return [
        Lines(reached(finding, result), series),
        *listed("what the numbers say", finding.hints),
        *listed("look at", map(_look_text, finding.causes)),
    ]


def _next_experiment_blocks(finding: DiagnosisFinding, result: Diagnosis) -> list[Block]:
    """What to run next, and what each cause would make of it: two blocks for each experiment."""
    names = [cause.name for cause in _indistinguishable_causes(finding)]
    # there is a single cause, or no experiment tells any of them from the best
    if len(finding.causes) in (1, len(names)):
        purpose = "to be sure"
    elif len(names) > 1:
        purpose = f"to tell {and_text(names)} from the others"
    else:
        purpose = "to tell these causes apart"
    is_across_hosts = any((health.judged.series.nodes or 1) > 1 for health in result.series)
    blocks: list[Block] = []
    when = "next"
    for experiment in finding.experiments:
        if is_across_hosts and experiment.hosts == 1:
            when += ", on one host"
        blocks += _experiment_blocks(f"{when}, {purpose}", experiment)
        when = "then"
    return blocks


def _look_text(cause: Cause) -> str:
    return f"{cause.name}: {cause.look}"


def _indistinguishable_causes(finding: DiagnosisFinding) -> list[Cause]:
    """The best cause, and those that all experiments foretell the same times for; empty without
    experiments.

    A cause that no price is needed to see, such as a collapse of the rate, has no times; it counts as one of them,
    and where it is the best so do all others.
    """
    # Seconds by cause, in the order of the experiments. A single cause has the machine as it should be beside it,
    # which is none of the finding's causes.
    times: dict[str, list[float]] = {cause.name: [] for cause in finding.causes}
    for experiment in finding.experiments:
        for outcome in experiment.foretold:
            times.setdefault(outcome.cause, []).append(outcome.seconds)
    causes = []
    if finding.experiments:
        for cause in finding.causes:
            if all(map(isclose, times[cause.name], times[finding.causes[0].name])):
                causes.append(cause)
    return causes


def _experiment_blocks(title: str, experiment: Experiment) -> list[Block]:
    """The command of an experiment, and what each cause would give."""
    outcomes_title = f"what it gives at {size_text(experiment.bytes)}"
    if experiment.note:
        outcomes_title += f", {experiment.note}"
    return [
        Lines(title, (experiment.command,), verbatim=True),
        Table(_OUTCOMES, experiment.foretold, title=outcomes_title),
    ]


def _bound_text(bound: UpperBound) -> str:
    """``15 calls of all-reduce, 2 ranks, over nvlink: 1 of 2 ranks has a trace``."""
    calls = (
        f"{counted(bound.calls, 'call')} of {bound.primitive.label}, {bound.ranks} ranks, over"
        f" {bound.wire}"
    )
    if not bound.missing:
        return f"{calls}: the calls of the ranks do not pair off"
    traced = bound.ranks - len(bound.missing)
    verb = "has" if traced == 1 else "have"
    return f"{calls}: {traced} of {bound.ranks} ranks {verb} a trace"


# --- the document
#
# A key is the attribute of that name, but ``derived`` is another attribute or computed, ``optional`` is left out
# where it is empty, ``or_null`` is null where it is an empty text, ``whole`` is an integer for whole bytes.


class HardwareDocument(Document, of=AssumedFabric):
    """The machine that was read from the logs, and what of it was assumed."""

    devices: list[str]
    hosts: list[str]
    assumed: list[str] = derived("said")
    network: str | None = or_null("network")
    guessed: bool


class ExperimentDocument(Document, extends=Experiment):
    """What to run next, and what each cause would give."""

    bytes: float = whole("bytes")


class ReachedDocument(Document):
    """The least and the largest share of the expected rate; null where a log states the finding."""

    low: float | None
    high: float | None


class FindingDocument(Document, of=DiagnosisFinding):
    """Something that is off."""

    series: list[str]
    size: str
    of_expected: ReachedDocument = derived(ReachedDocument.of)
    error: float | None
    causes: list[Cause]
    experiments: list[ExperimentDocument]
    hints: list[str]


class StatedDocument(Document, of=StatedLine):
    """What a line of a log states: its kind, where it stands, what it means and what to type."""

    kind: Kind
    code: str
    quoted: str
    file: str
    line: int
    times: int
    cause: str | None = or_null("cause")
    host: str | None = or_null("host")
    means: str
    do: str | None = or_null("do")


class DoctorDocument(Document):
    """What a machine is, whether it is healthy, and the causes if not."""

    fabric: str | None = or_null("assumed.fabric")
    set: dict[str, str] = optional(lambda result: values_set(result.assumed))
    fabric_assumed: list[str] = optional(lambda result: assumed_by_file(result.assumed))
    machine: MachineDocument | None = optional(lambda result: machine_in_use(result.assumed))
    expect: float
    ok: bool
    hardware: HardwareDocument = derived("assumed")
    series: list[SeriesHealthDocument]
    findings: list[FindingDocument]
    notes: list[str]
    bounds: list[UpperBound]
    measure: list[ExperimentDocument]
    left_out: list[LeftOutKernels]
    skipped: list[Skipped]
    fleet: FleetDocument | None
    verdict: str = derived(diagnosed)
    fits: list[str] = optional("fits")
    stated: list[StatedDocument] = optional("stated")
    unjudged: str | None = optional("unjudged")
    topology: TopologyDocument | None = optional("topology")


def _chart(result: Diagnosis) -> BusbwChart | None:
    """The chart of the series with the largest mean error of its model (``mape``), among those that are too slow
    if there are any; None without series."""
    series = [health for health in result.series if health.low] or result.series
    if not series:
        return None
    worst = max(series, key=attrgetter("judged.mape"))
    return series_chart(worst.judged)


VIEWS = {Diagnosis: View("doctor", _blocks, DoctorDocument.of, _table, diagnosed, chart=_chart)}
