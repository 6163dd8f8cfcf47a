"""``doctor``: what the machine is, whether it is healthy, the cause and the next experiment."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    sentence,
    size_text,
    whole_bytes,
    whole_percent,
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
    ValidatedPoint,
)
from colltool.logs.series import Skipped
from colltool.logs.traced_calls import LeftOutKernels, UpperBound
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    later,
    number,
    span_text,
)
from colltool.render.chart import BusbwChart, series_chart
from colltool.render.dispatch import View, context, listed, on_fabric, set_text
from colltool.render.documents import Document, derived, optional, or_null
from colltool.render.shared_documents import MachineDocument, machine_in_use, values_set, whole

_BOUND = "not judged: times are upper bounds, a kernel waits for the slowest rank"
_MOST_SERIES, _MOST_NOTES = 10, 2


def _last(health: SeriesHealth) -> ValidatedPoint:
    """The largest size of a series."""
    return health.judged.points[-1]


def _state(health: SeriesHealth) -> str:
    if health.low:
        return "off"
    return "as expected" if _judged(health) else "not judged"


def _judged(health: SeriesHealth) -> bool:
    return health.large is not None or health.small is not None


_SERIES: Columns[SeriesHealth] = (
    label("collective", "collective", attrgetter("label"), path="judged.series.primitive"),
    number("ranks", path="judged.series.ranks"),
    number("nodes", drop=4, path="judged.series.nodes"),
    label("run", path="judged.series.run"),
    label("wire", "tier", drop=1),
    number("bytes", "largest", size_text, 3, get=lambda health: whole_bytes(_last(health).bytes)),
    number(
        "busbw_measured_Bps",
        "busbw",
        format_rate,
        2,
        get=lambda health: _last(health).busbw_measured_Bps,
    ),
    number(
        "busbw_expected_Bps",
        "expected",
        format_rate,
        5,
        get=lambda health: _last(health).busbw_expected_Bps,
    ),
    number("large", "large messages", whole_percent),
    number("small", "small messages", whole_percent),
    label("state", "is", get=_state),
)
_PREDICTED: Columns[Prediction] = (
    label("cause", "if the cause is"),
    number("busbw_Bps", "busbw would be", format_rate),
    number("seconds", "time", format_time),
)
_CAUSES: Columns[Cause] = (
    label("name", "cause"),
    number("error", "off by", percent),
    number("error_all", "over all sizes", percent, 1),
    label("said", "what it is"),
)


def _where(result: Diagnosis) -> str:
    return on_fabric(result.assumed.fabric, result.assumed.overrides)


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
        label("set", get=lambda _: set_text(result.assumed.overrides), hidden=True),
    )
    columns = (*context(fabric=result.assumed.fabric), *_SERIES, *hidden)
    title = f"{len(result.series)} series, share of what {_where(result)} should reach"
    table = Table(columns, result.series, None, title, _MOST_SERIES)
    # without columns in which no series has a value
    for key in ("large", "small"):
        if all(getattr(health, key) is None for health in result.series):
            table = table.without(key)
    if not any(health.judged.series.run for health in result.series):
        table = table.without("run")
    return table


def _reached(finding: DiagnosisFinding) -> str:
    if finding.low is None or finding.high is None:
        return "nothing was measured"
    share = span_text(whole_percent(finding.low), whole_percent(finding.high))
    who = f"{len(finding.series)} series"
    if len(finding.series) == 1:
        who = finding.series[0]
    return f"{finding.size} messages of {who} reach {share} of expected"


def _main(result: Diagnosis) -> DiagnosisFinding | None:
    """The first finding that a cause explains, else the first."""
    explained = [finding for finding in result.findings if finding.causes]
    return next(iter([*explained, *result.findings]), None)


def _bars(result: Diagnosis) -> str:
    bars = sorted(health.bar for health in result.series)
    return " or ".join(dict.fromkeys(map(whole_percent, bars)))


def diagnosed(result: Diagnosis) -> str:
    """The answer: what is below expectation, the most likely cause, and how well it explains the
    times."""
    main = _main(result)
    if main is None:
        return _healthy(result)
    what = f"{sentence(_reached(main))} ({_where(result)})."
    if result.fleet and any(host.bad for host in result.fleet.hosts):
        what = f"{_fleet_text(result.fleet)} {what}"
    also = ""
    more = len(result.findings) - 1
    if more:
        also = (
            f" {counted(more, 'more finding')}{localize(either(shell=' with --all', python=''))}."
        )
    # a cause that no price supports is not guessed at
    if not main.causes:
        return (
            f"{what} No cause that can be priced explains it: calibrate a healthy machine and give"
            f" that with -f.{also}"
        )
    first = main.causes[0]
    if len(main.causes) > 1:
        also = f" {_others(main)}{also}"
    if main.low is None:
        return f"{sentence(first.name)}: {first.said}; there are no times to hold it against.{also}"
    fit = ""
    if first.error is not None and main.error is not None:
        fit = f" (times {percent(first.error)} off under it, {percent(main.error)} without)"
    return f"{what} Most likely {first.name}: {first.said}{fit}.{also}"


def _healthy(result: Diagnosis) -> str:
    """The answer where nothing was found."""
    where = _where(result)
    if result.fleet and not result.ok:
        return f"{_fleet_text(result.fleet)} The others reach what {where} should."
    if not any(map(_judged, result.series)):
        return f"Not judged against {where}: {verdict(result)}."
    healthy = f"{len(result.series)} series reach at least {_bars(result)} of what {where} should."
    if result.assumed.network or result.assumed.guessed:
        return f"{_matches(result.assumed)} Then it is healthy: {healthy}"
    return f"Healthy: {healthy}"


def _others(main: DiagnosisFinding) -> str:
    names = ", ".join(cause.name for cause in main.causes[1:])
    if main.causes[0].error is not None:
        return f"Fit as well: {names}."
    return f"Else: {names}."


def _matches(assumed: AssumedFabric) -> str:
    if not assumed.network:
        machine = assumed.fabric
        if assumed.own:
            machine += f" with {assumed.own} a host"
        return f"Matches {machine}: is that yours?"
    own = (
        f"If its NICs are {assumed.own}, the network is slow: NICs at a lower speed or unused, or"
        " congested uplinks."
    )
    return f"Matches {assumed.fabric} with {assumed.network}: is that yours? {own}"


def _blocks(result: Diagnosis) -> list[Block]:
    """The answer, the main finding and its causes first; further findings after them."""
    main = _main(result)
    series: list[Block] = []
    if result.series:
        series.append(_table(result))
    out: list[Block] = [Headline(diagnosed(result))]
    if result.fleet:
        out += _fleet(result.fleet)
    if main is None:
        for experiment in result.measure:
            out += _test("next, to measure these tiers", experiment)
        out += series
    else:
        out += _finding_blocks(main, series)
        # the others are for --all, and so is what would measure further tiers
        for finding in result.findings:
            if finding is not main:
                out += map(later, [*_causes(finding), *_details(finding)])
                out += map(later, _experiments(finding))
        for experiment in result.measure:
            out += map(later, _test("to measure these tiers", experiment))
    # a short answer leaves room for the machine and the first notes
    roomy = main is None or not main.causes
    out.append(
        Lines("the machine", tuple(map(str, result.assumed.said)), first=None if roomy else 0)
    )
    out += listed("notes", result.notes, first=_MOST_NOTES if roomy else 0)
    out += listed(_BOUND, map(_bound, result.bounds), first=0)
    title = "left out, or used with a reservation"
    return [*out, *listed(title, _left_out(result), first=0)]


def _left_out(result: Diagnosis) -> Iterator[str]:
    """Rows of logs, then kernels of traces."""
    for skip in result.skipped:
        yield f"{skip.reason}: {counted(skip.rows, 'row')}, first at {skip.where}"
    for kernels in result.left_out:
        count = counted(kernels.kernels, "kernel")
        yield f"{kernels.reason}: {count}, first in {kernels.file}"


def _finding_blocks(main: DiagnosisFinding, series: list[Block]) -> Iterator[Block]:
    """The main finding: the next command to run, then the causes, or the series without any."""
    experiments = _experiments(main)
    yield from experiments[:1]
    yield from _causes(main) or series
    yield from map(later, experiments[1:])
    if main.causes:
        yield from map(later, series)
    yield from map(later, _details(main))


_HOSTS: Columns[FleetHost] = (
    label("host"),
    number("runs"),
    number("slow"),
    number("failed"),
    number("of_fleet", "of the median", whole_percent),
    label("state", "is"),
)
_MOST_HOSTS, _WIDEST_MATRIX = 5, 24


def _fleet_text(fleet: Fleet) -> str:
    """The sentences that name hosts; a list below the answer has all."""
    named = ". ".join(map(str, fleet.said[: 1 + _MOST_NOTES]))
    return f"{named or f'{len(fleet.hosts)} hosts are alike'}."


def _fleet(fleet: Fleet) -> Iterator[Block]:
    worst = sorted(fleet.hosts, key=lambda host: (not host.bad, -host.failed, host.of_fleet or 0.0))
    title = f"{len(fleet.hosts)} hosts in {counted(fleet.files, 'run')}"
    yield Lines("the fleet", tuple(map(str, fleet.said)) or (f"{title}: all alike",))
    bad = sum(host.bad for host in worst)
    yield Table(_HOSTS, tuple(worst), None, title, max(_MOST_HOSTS, bad))
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
    for at, name in enumerate(names):
        line = f"{name:{width}}"
        for other in names[:at]:
            line += f"{cells.get(frozenset((name, other)), '.'):>4}"
        yield line


def _causes(finding: DiagnosisFinding) -> list[Block]:
    if not finding.causes:
        return []
    title = "causes, best first"
    if finding.error is not None:
        title += f"; without any the times are {percent(finding.error)} off"
    return [Table(_CAUSES, finding.causes, None, title)]


def _details(finding: DiagnosisFinding) -> list[Block]:
    look = listed("look at", (f"{cause.name}: {cause.look}" for cause in finding.causes))
    series = Lines(_reached(finding), finding.series if len(finding.series) > 1 else ())
    return [series, *listed("what the numbers say", finding.hints), *look]


def _experiments(finding: DiagnosisFinding) -> list[Block]:
    purpose = "to tell these causes apart" if len(finding.causes) > 1 else "to be sure"
    out: list[Block] = []
    for experiment in finding.experiments:
        out += _test(f"{'then' if out else 'next'}, {purpose}", experiment)
    return out


def _test(title: str, experiment: Experiment) -> list[Block]:
    """The command of an experiment, and what each cause would give."""
    foretold = f"at {size_text(experiment.bytes)}"
    if experiment.note:
        foretold += f", {experiment.note}"
    return [
        Lines(title, (experiment.command,), verbatim=True),
        Table(_PREDICTED, experiment.foretold, None, foretold),
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


def verdict(result: Diagnosis) -> str:
    """The answer in a clause, for titles and reports."""
    if not result.series:
        tiers = ", ".join(dict.fromkeys(bound.wire for bound in result.bounds))
        return f"nothing can be said of {tiers}: give the traces of all ranks, or measure it"
    wires = [health.wire for health in result.series if health.low or result.ok]
    tiers = ", ".join(dict.fromkeys(wires))
    if result.ok:
        if not any(map(_judged, result.series)):
            return "nothing can be said: too few sizes, none of which is large"
        return (
            f"as expected: nothing is below {_bars(result)}; what there is to gain is in the fabric"
            f" itself ({tiers})"
        )
    main = _main(result)
    if main is None or not main.causes:
        return (
            f"below {_bars(result)} over {tiers}, and no cause that can be priced explains it:"
            " calibrate a healthy machine, and give that with -f"
        )
    cause, *others = main.causes
    text = f"below {_bars(result)}: {cause.said}"
    if others:
        text += f", or {', '.join(other.name for other in others)}"
    more = len(result.findings) - 1
    if more:
        return f"{text}; and {counted(more, 'finding')} more"
    return text


# --- the document


class HardwareDocument(Document, of=AssumedFabric):
    """The machine that was read from the logs, and what of it was assumed."""

    devices: list[str]
    hosts: list[str]
    assumed: list[str] = derived("said")
    network: str | None = or_null("network")
    guessed: bool


class _MeasuredSeriesDocument(Document, at="judged.series"):
    collective: str = derived("judged.series.primitive")
    ranks: int
    nodes: int | None
    run: str = optional("judged.series.run")


class SeriesHealthDocument(_MeasuredSeriesDocument, of=SeriesHealth):
    """A series against what the fabric should reach."""

    wire: str
    bytes: float = derived(lambda health: whole_bytes(_last(health).bytes))
    busbw_measured_Bps: float = derived(lambda health: _last(health).busbw_measured_Bps)
    busbw_expected_Bps: float = derived(lambda health: _last(health).busbw_expected_Bps)
    large: float | None
    small: float | None
    low: bool
    bar: float
    dtype: str = derived("judged.series.dtype")
    files: list[str] = derived("judged.series.files")


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


class DoctorDocument(Document):
    """What a machine is, whether it is healthy, and the causes if not."""

    fabric: str = derived("assumed.fabric")
    set: dict[str, str] = optional(lambda result: values_set(result.assumed))
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
    verdict: str = derived(verdict)


def _chart(result: Diagnosis) -> BusbwChart | None:
    """The series that is furthest off, among those that are too slow if there are any."""
    judged = [health.judged for health in result.series if health.low]
    judged = judged or [health.judged for health in result.series]
    if not judged:
        return None
    return series_chart(max(judged, key=lambda fit: fit.mape))


VIEWS = {Diagnosis: View("doctor", _blocks, DoctorDocument.of, _table, diagnosed, chart=_chart)}
