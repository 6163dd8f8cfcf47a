"""``doctor``: what the machine is, whether it is healthy, the cause and the next experiment.

Read from :data:`VIEWS`: :func:`_blocks` is the screen in its order, under the answer of
:mod:`colltool.render.views.doctor_answer`. A finding of a benchmark has :func:`_finding_blocks`,
what lines of a log state outright :func:`_stated_blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose
from operator import attrgetter
from typing import NamedTuple

from colltool.base.formatting import (
    and_text,
    counted,
    format_time,
    percent,
    size_text,
    whole_percent,
)
from colltool.diagnosis.logged_channels import (
    ComparedNode,
    GraphDifference,
    TopologyCompared,
)
from colltool.diagnosis.results import (
    AssumedFabric,
    Cause,
    Diagnosis,
    DiagnosisFinding,
    Experiment,
    Fleet,
    FleetHost,
    FleetPair,
    Prediction,
    SeriesHealth,
)
from colltool.libraries.nccl.topology.damages import Damage
from colltool.logs.nccl_graph_lines import GraphFigures
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
from colltool.render.views.health import (
    SeriesHealthDocument,
    skipped_text,
)

_BOUND = "not judged: these times are upper bounds, as a kernel waits for the slowest rank"
# shown without --all
_MOST_SERIES = 10
_MOST_NOTES = 2
_MOST_LINES = 5  # that a log states


def _state(health: SeriesHealth) -> str:
    if health.low:
        return "off"
    if health.too_fast:
        return "too fast"
    return "as expected" if health.judgeable else "not judged"


# as a table says it; CSV keeps the words that scripts know
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
_PREDICTED: Columns[Prediction] = (
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
    causes: dict[str, dict[str, None]] = {}
    for finding in result.findings:
        for title in finding.series:
            names = causes.setdefault(title, {})
            names.update((cause.name, None) for cause in finding.causes)
    hidden: Columns[SeriesHealth] = (
        label(
            "causes",
            get=lambda health: " ".join(causes.get(health.judged.series.title, ())),
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
    """The answer, the main finding and its causes first; further findings after them."""
    main = main_finding(result)
    series = [_table(result)] if result.series else []
    yield Headline(diagnosed(result))
    if result.fleet:
        yield from _fleet(result.fleet)
    if main is None:
        for experiment in result.measure:
            yield from _test("next, to measure these tiers", experiment)
        yield from series
    else:
        yield from _finding_blocks(main, series, result)
        # the others are for --all, and so is what would measure further tiers
        for finding in result.findings:
            if finding is not main:
                yield from map(later, [*_causes(finding), *_details(finding, result)])
                yield from map(later, _experiments(finding, result))
        for experiment in result.measure:
            yield from map(later, _test("to measure these tiers", experiment))
    # a short answer leaves room for the machine and the first notes
    roomy = main is None or not main.causes
    yield from _topology_blocks(result)
    yield from _stated_blocks(main, result)
    yield from listed("the machine", result.assumed.said, first=None if roomy else 0)
    # a size that stands out is shown beside any answer
    outliers = sum(note.code == "stands-out" for note in result.notes)
    notes = sorted(result.notes, key=lambda note: note.code != "stands-out")
    yield from listed("notes", notes, first=_MOST_NOTES if roomy else outliers)
    yield from listed(_BOUND, map(_bound, result.bounds), first=0)
    title = "rows left out, or used with a reservation"
    yield from listed(title, _left_out(result), first=0)


class _GraphRow(NamedTuple):
    """A graph of the hosts of a log beside what a topology file allows."""

    hosts: str
    graph: GraphDifference


_DIFFERS = {
    "pattern": "pattern",
    "cross_nic": "crossNic",
    "channels": "channels",
    "inside_Bps": "inside",
    "across_Bps": "across",
    "between_gpus": "GPUs",
    "to_nics": "NICs",
    "order": "order",
}
# the first sentence has what a narrow screen drops
_CHANNELS: Columns[_GraphRow] = (
    label("hosts"),
    label("graph", path="graph.graph"),
    number("channels", path="graph.found.channels"),
    number("allowed_channels", "allowed", path="graph.allowed.channels"),
    number("inside_Bps", "inside", drop=1, path="graph.found.inside_Bps"),
    number("allowed_inside_Bps", "allowed", drop=2, path="graph.allowed.inside_Bps"),
    number("across_Bps", "across", path="graph.found.across_Bps"),
    number("allowed_across_Bps", "allowed", path="graph.allowed.across_Bps"),
    label("types", "GPUs/NICs", drop=3, get=lambda row: _types(row.graph.found)),
    label("allowed_types", "allowed", drop=4, get=lambda row: _types(row.graph.allowed)),
    label("differs", get=lambda row: " ".join(_DIFFERS[word] for word in row.graph.differs)),
)


def _types(figures: GraphFigures | None) -> str:
    return "" if figures is None else f"{figures.between_gpus}/{figures.to_nics}"


def _topology_blocks(result: Diagnosis) -> Iterator[Block]:
    """The graphs of the log beside those of a topology file; without a difference for --all."""
    topology = result.topology
    if topology is None:
        return
    rows = []
    for node in topology.compared:
        rows += [_GraphRow(" ".join(node.hosts), graph) for graph in node.graphs]
    if rows:
        title = f"NCCL's channels beside what {topology.file} allows"
        table = Table(_CHANNELS, rows, title=title).without_empty("hosts")
        yield later(table) if topology.agrees else table


def _stated_blocks(main: DiagnosisFinding | None, result: Diagnosis) -> Iterator[Block]:
    """What the log states, line by line: what is off with what to type, then mere facts."""
    off = []
    facts = []
    for stated in result.stated:
        if stated.kind == "fact":
            facts.append(_line(stated))
        else:
            off.append(_line(stated))
    leads = main is not None and main is stated_finding(result)
    yield from listed("what the log states", off, first=_MOST_LINES if leads else 0)
    yield from listed("what it says of the machine", facts, first=0)


def _line(stated: StatedLine) -> str:
    """``debug.log:3 (4 times): Using network Socket: TCP sockets and not RDMA. Next: ...``."""
    times = f" ({stated.times} times)" if stated.times > 1 else ""
    todo = f". Next: {stated.do}" if stated.do else ""
    return f"{stated.where}{times}: {stated.quoted}: {stated.means}{todo}"


def _left_out(result: Diagnosis) -> Iterator[str]:
    """Rows of logs, then kernels of traces."""
    yield from map(skipped_text, result.skipped)
    for kernels in result.left_out:
        count = counted(kernels.kernels, "kernel")
        yield f"{kernels.reason}: {count}, first in {kernels.file}"


def _finding_blocks(
    main: DiagnosisFinding, series: Sequence[Block], result: Diagnosis
) -> Iterator[Block]:
    """The main finding: the next command to run, then the causes, or the series without any."""
    experiments = _experiments(main, result)
    yield from experiments[:1]
    # what the log states is listed with its lines
    if main.low is None:
        yield from series
        return
    yield from _causes(main) or series
    alike = _alike(main)
    if len(alike) > 1:
        yield from listed("no run tells these apart; look at", map(_check, alike), first=0)
    yield from map(later, experiments[1:])
    if main.causes:
        yield from map(later, series)
    yield from map(later, _details(main, result))


_HOSTS: Columns[FleetHost] = (
    label("host"),
    number("runs"),
    number("slow"),
    number("failed"),
    number("of_fleet", "of the median", whole_percent),
    label("state", "is"),
)
_MOST_HOSTS = 5  # rows without --all
_WIDEST_MATRIX = 24  # hosts that a matrix of text has room for
_MOST_SAID = 3  # sentences on a fleet without --all


def _fleet(fleet: Fleet) -> Iterator[Block]:
    worst = sorted(fleet.hosts, key=lambda host: (not host.bad, -host.failed, host.of_fleet or 0.0))
    title = f"{len(fleet.hosts)} hosts in {counted(fleet.files, 'run')}"
    said = list(map(str, fleet.said)) or [f"{title}: all alike"]
    yield Lines("the fleet", said, first=_MOST_SAID)
    bad = sum(host.bad for host in worst)
    yield Table(_HOSTS, worst, title=title, first=max(_MOST_HOSTS, bad))
    if fleet.pairs and len(fleet.hosts) <= _WIDEST_MATRIX:
        matrix = Lines("pairs, in % of the median; x failed", tuple(_matrix(fleet)), verbatim=True)
        yield later(matrix)


def _matrix(fleet: Fleet) -> Iterator[str]:
    """A line per host: its name, then a cell for each host before it."""
    names = [host.host for host in fleet.hosts]
    width = max(map(len, names))
    # by the two names in either order
    cells = {}
    for pair in fleet.pairs:
        text = "x" if pair.failed else f"{100 * (pair.of_fleet or 0.0):.0f}"
        cells[frozenset((pair.a, pair.b))] = text
    for before, name in enumerate(names):
        line = f"{name:{width}}"
        for other in names[:before]:
            line += f"{cells.get(frozenset((name, other)), '.'):>4}"
        yield line


def _causes(finding: DiagnosisFinding) -> list[Block]:
    if not finding.causes:
        return []
    table = Table(_CAUSES, finding.causes, title="possible causes (fit error)")
    if all(cause.error is None for cause in finding.causes):
        return [table.without("error", "error_all")._replace(title="possible causes")]
    return [table]


def _details(finding: DiagnosisFinding, result: Diagnosis) -> list[Block]:
    look = listed("look at", map(_check, finding.causes))
    series = Lines(reached(finding, result), finding.series if len(finding.series) > 1 else ())
    return [series, *listed("what the numbers say", finding.hints), *look]


def _experiments(finding: DiagnosisFinding, result: Diagnosis) -> list[Block]:
    """What to run next, and what each cause would make of it."""
    alike = [cause.name for cause in _alike(finding)]
    if len(finding.causes) in (1, len(alike)):
        purpose = "to be sure"
    elif len(alike) > 1:
        purpose = f"to tell {and_text(alike)} from the others"
    else:
        purpose = "to tell these causes apart"
    across = any((health.judged.series.nodes or 1) > 1 for health in result.series)
    blocks: list[Block] = []
    when = "next"
    for experiment in finding.experiments:
        if across and experiment.hosts == 1:
            when += ", on one host"
        blocks += _test(f"{when}, {purpose}", experiment)
        when = "then"
    return blocks


def _check(cause: Cause) -> str:
    return f"{cause.name}: {cause.look}"


def _alike(finding: DiagnosisFinding) -> list[Cause]:
    """The leading cause, and those whose times no experiment tells from its own."""
    times: dict[str, list[float]] = {cause.name: [] for cause in finding.causes}
    for experiment in finding.experiments:
        for outcome in experiment.foretold:
            times.setdefault(outcome.cause, []).append(outcome.seconds)
    alike = []
    if finding.experiments:
        for cause in finding.causes:
            if all(map(isclose, times[cause.name], times[finding.causes[0].name])):
                alike.append(cause)
    return alike


def _test(title: str, experiment: Experiment) -> list[Block]:
    """The command of an experiment, and what each cause would give."""
    foretold = f"what it gives at {size_text(experiment.bytes)}"
    if experiment.note:
        foretold += f", {experiment.note}"
    return [
        Lines(title, (experiment.command,), verbatim=True),
        Table(_PREDICTED, experiment.foretold, title=foretold),
    ]


def _bound(bound: UpperBound) -> str:
    """``15 calls of all-reduce, 2 ranks, over nvlink: 1 of 2 ranks has a trace``."""
    what = (
        f"{counted(bound.calls, 'call')} of {bound.primitive.label}, {bound.ranks} ranks, over"
        f" {bound.wire}"
    )
    if not bound.missing:
        return f"{what}: the calls of the ranks do not pair off"
    seen = bound.ranks - len(bound.missing)
    verb = "has" if seen == 1 else "have"
    return f"{what}: {seen} of {bound.ranks} ranks {verb} a trace"


# --- the document


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
    """The least and the largest share of the expected rate."""

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


class FleetDocument(Document, of=Fleet):
    """Runs of several sets of hosts beside each other."""

    runs: int = derived("files")
    said: list[str]
    hosts: list[FleetHost]
    pairs: list[FleetPair]


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


class DamageDocument(Document, of=Damage):
    """What makes the file's node give the log's channels: of which parts, and links or MB/s."""

    kind: str
    names: list[str]
    now: int
    was: int
    all: bool
    together: list[str] = derived(lambda damage: [part.kind for part in damage.together])


class ComparedNodeDocument(Document, of=ComparedNode):
    """Hosts with the same channels."""

    hosts: list[str]
    where: str
    gpus: int | None = or_null("gpus_used")
    differs: bool
    graphs: list[GraphDifference]
    damages: list[DamageDocument] = derived(
        lambda node: node.explained.damages if node.explained else ()
    )
    exact: bool = derived(lambda node: node.explained is None or node.explained.exact)


class TopologyDocument(Document, of=TopologyCompared):
    """A log's channels beside those that a topology file allows."""

    file: str
    nccl: str | None = or_null("release")
    nodes: int
    agrees: bool
    missing: list[str]
    compared: list[ComparedNodeDocument]
    notes: list[str]


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
    """The series that is furthest off, among those that are too slow if there are any."""
    judged = [health.judged for health in result.series if health.low]
    judged = judged or [health.judged for health in result.series]
    if not judged:
        return None
    return series_chart(max(judged, key=attrgetter("mape")))


VIEWS = {Diagnosis: View("doctor", _blocks, DoctorDocument.of, _table, diagnosed, chart=_chart)}
