"""``doctor``: what the machine is, whether it is healthy, the cause and the next experiment."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.base.errors import either, said
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
    Diagnosis,
    DiagnosisFinding,
    Experiment,
    Fleet,
    SeriesHealth,
    UpperBound,
)
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    listed,
    on_fabric,
    set_field,
    set_text,
)

_BOUND = "not judged: times are upper bounds, a kernel waits for the slowest rank"
_MOST_SERIES, _MOST_NOTES = 10, 2

_SERIES = (
    label(
        "collective",
        "collective",
        attrgetter("spoken"),
        get=attrgetter("judged.series.primitive"),
    ),
    number("ranks", "ranks", get=attrgetter("judged.series.ranks")),
    number("nodes", "nodes", drop=4, get=attrgetter("judged.series.nodes")),
    label("run", "run", get=attrgetter("judged.series.run")),
    label("wire", "tier", drop=1),
    number(
        "bytes", "largest", size_text, 3, get=lambda row: whole_bytes(row.judged.points[-1].bytes)
    ),
    number(
        "busbw_measured_Bps",
        "busbw",
        format_rate,
        2,
        get=lambda row: row.judged.points[-1].busbw_measured_Bps,
    ),
    number(
        "busbw_expected_Bps",
        "expected",
        format_rate,
        5,
        get=lambda row: row.judged.points[-1].busbw_expected_Bps,
    ),
    number("large", "large messages", whole_percent),
    number("small", "small messages", whole_percent),
    label(
        "state",
        "is",
        get=lambda row: "off" if row.low else "as expected" if _judged(row) else "not judged",
    ),
)
_FORETOLD = (
    label("cause", "if the cause is"),
    number("busbw_Bps", "busbw would be", format_rate),
    number("seconds", "time", format_time),
)
_CAUSES = (
    label("name", "cause"),
    number("error", "off by", percent),
    number("error_all", "over all sizes", percent, 1),
    label("said", "what it is"),
)


def _judged(health: SeriesHealth) -> bool:
    return health.large is not None or health.small is not None


def _table(result: Diagnosis) -> Table:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    idle = [
        key
        for key in ("large", "small")
        if all(getattr(health, key) is None for health in result.series)
    ]
    idle += [] if any(health.judged.series.run for health in result.series) else ["run"]
    title = f"{len(result.series)} series, share of what {where} should reach"

    def causes(health: SeriesHealth) -> str:
        about = (
            finding for finding in result.findings if health.judged.series.title in finding.series
        )
        return " ".join(dict.fromkeys(cause.name for finding in about for cause in finding.causes))

    told = (
        label("causes", "causes", get=causes, hidden=True),
        label("set", "set", get=lambda _: set_text(result.assumed.overrides), hidden=True),
    )
    columns = (*context(fabric=result.assumed.fabric), *_SERIES, *told)
    return Table(columns, result.series, None, title, _MOST_SERIES).without(*idle)


def _reached(finding: DiagnosisFinding) -> str:
    if finding.low is None or finding.high is None:
        return "nothing was measured"
    share = " to ".join(dict.fromkeys((whole_percent(finding.low), whole_percent(finding.high))))
    who = finding.series[0] if len(finding.series) == 1 else f"{len(finding.series)} series"
    return f"{finding.size} messages of {who} reach {share} of expected"


def _main(result: Diagnosis) -> DiagnosisFinding | None:
    # the first finding that a cause explains, else the first
    return next(
        (finding for finding in result.findings if finding.causes),
        result.findings[0] if result.findings else None,
    )


def _bars(result: Diagnosis) -> str:
    return " or ".join(
        dict.fromkeys(whole_percent(bar) for bar in sorted(health.bar for health in result.series))
    )


def diagnosed(result: Diagnosis) -> str:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    main = _main(result)
    if main is None:
        if result.fleet and not result.ok:
            return f"{_fleet_said(result.fleet)} The others reach what {where} should."
        if not any(map(_judged, result.series)):
            return f"Not judged against {where}: {verdict(result)}."
        healthy = (
            f"{len(result.series)} series reach at least {_bars(result)} of what {where} should."
        )
        if result.assumed.network or result.assumed.guessed:
            return f"{_matches(result.assumed)} Then it is healthy: {healthy}"
        return f"Healthy: {healthy}"
    hosts = (
        f"{_fleet_said(result.fleet)} "
        if result.fleet and any(host.bad for host in result.fleet.hosts)
        else ""
    )
    what = f"{hosts}{sentence(_reached(main))} ({where})."
    more = len(result.findings) - 1
    also = (
        f" {counted(more, 'more finding')}{said(either(shell=' with --all', python=''))}."
        if more
        else ""
    )
    if not main.causes:
        return (
            f"{what} No cause that can be priced explains it: calibrate a healthy machine and give"
            f" that with -f.{also}"
        )
    first, *others = main.causes
    or_ = f" {_others(main)}" if others else ""
    if main.low is None:
        return (
            f"{sentence(first.name)}: {first.said}; there are no times to hold it"
            f" against.{or_}{also}"
        )
    fitted = first.error is not None and main.error is not None
    fit = (
        f" (times {percent(first.error or 0.0)} off under it, {percent(main.error or 0.0)} without)"
        if fitted
        else ""
    )
    return f"{what} Most likely {first.name}: {first.said}{fit}.{or_}{also}"


def _others(main: DiagnosisFinding) -> str:
    names = ", ".join(cause.name for cause in main.causes[1:])
    return f"Fit as well: {names}." if main.causes[0].error is not None else f"Else: {names}."


def _matches(assumed: AssumedFabric) -> str:
    if not assumed.network:
        nics = f" with {assumed.own} a host" if assumed.own else ""
        return f"Matches {assumed.fabric}{nics}: is that yours?"
    own = (
        f"If its NICs are {assumed.own}, the network is slow: NICs at a lower speed or unused, or"
        " congested uplinks."
    )
    return f"Matches {assumed.fabric} with {assumed.network}: is that yours? {own}"


def _blocks(result: Diagnosis) -> list[Block]:
    main = _main(result)
    series: list[Block] = [_table(result)] if result.series else []
    out: list[Block] = [
        Headline(diagnosed(result)),
        *(_fleet(result.fleet) if result.fleet else ()),
    ]
    if main is None:
        out += [
            block
            for experiment in result.measure
            for block in _test("next, to measure these tiers", experiment)
        ]
        out += series
    else:
        next_, *then = _experiments(main) or [[]]
        out += [*next_[:1], *(_causes(main) or series), *map(later, next_[1:])]
        out += [later(block) for test in then for block in test]
        out += map(later, [*(series if main.causes else []), *_details(main)])
        for finding in (finding for finding in result.findings if finding is not main):
            tests = (block for test in _experiments(finding) for block in test)
            out += map(later, [*_causes(finding), *_details(finding), *tests])
        out += [
            later(block)
            for experiment in result.measure
            for block in _test("to measure these tiers", experiment)
        ]
    left_out = [
        f"{skip.reason}: {counted(skip.rows, 'row')}, first at {skip.where}"
        for skip in result.skipped
    ]
    left_out += [
        f"{excluded.reason}: {counted(excluded.kernels, 'kernel')}, first in {excluded.file}"
        for excluded in result.left_out
    ]
    roomy = main is None or not main.causes
    out.append(Lines("the machine", result.assumed.said, first=None if roomy else 0))
    out += listed("notes", result.notes, first=_MOST_NOTES if roomy else 0)
    out += listed(_BOUND, map(_bound, result.bounds), first=0)
    return [*out, *listed("left out, or used with a reservation", left_out, first=0)]


_HOSTS = (
    label("host", "host"),
    number("runs", "runs"),
    number("slow", "slow"),
    number("failed", "failed"),
    number("of_fleet", "of the median", whole_percent),
    label("state", "is"),
)
_MOST_HOSTS, _WIDEST_MATRIX = 5, 24


def _fleet_said(fleet: Fleet) -> str:
    """What names hosts; the rest stands below."""
    return f"{'. '.join(fleet.said[: 1 + _MOST_NOTES]) or f'{len(fleet.hosts)} hosts are alike'}."


def _fleet(fleet: Fleet) -> Iterator[Block]:
    worst = tuple(
        sorted(fleet.hosts, key=lambda row: (not row.bad, -row.failed, row.of_fleet or 0.0))
    )
    title = f"{len(fleet.hosts)} hosts in {counted(fleet.files, 'run')}"
    yield Lines("the fleet", fleet.said or (f"{title}: all alike",))
    yield Table(_HOSTS, worst, None, title, max(_MOST_HOSTS, sum(host.bad for host in worst)))
    if fleet.pairs and len(fleet.hosts) <= _WIDEST_MATRIX:
        yield later(
            Lines("pairs, in % of the median; x failed", tuple(_matrix(fleet)), verbatim=True)
        )


def _matrix(fleet: Fleet) -> Iterator[str]:
    names = [host.host for host in fleet.hosts]
    width = max(len(name) for name in names)
    cells = {
        frozenset((pair.a, pair.b)): "x" if pair.failed else f"{100 * (pair.of_fleet or 0.0):.0f}"
        for pair in fleet.pairs
    }
    for at, name in enumerate(names):
        yield f"{name:{width}}" + "".join(
            f"{cells.get(frozenset((name, other)), '.'):>4}" for other in names[:at]
        )


def _fleet_document(fleet: Fleet) -> Document:
    hosts, pairs = ([record._asdict() for record in some] for some in (fleet.hosts, fleet.pairs))
    return {"runs": fleet.files, "said": list(fleet.said), "hosts": hosts, "pairs": pairs}


def _causes(finding: DiagnosisFinding) -> list[Block]:
    without = (
        f"; without any the times are {percent(finding.error)} off"
        if finding.error is not None
        else ""
    )
    title = f"causes, best first{without}"
    return [Table(_CAUSES, finding.causes, None, title)] if finding.causes else []


def _details(finding: DiagnosisFinding) -> list[Block]:
    look = listed("look at", (f"{cause.name}: {cause.look}" for cause in finding.causes))
    series = Lines(_reached(finding), finding.series if len(finding.series) > 1 else ())
    return [series, *listed("what the numbers say", finding.hints), *look]


def _experiments(finding: DiagnosisFinding) -> list[list[Block]]:
    purpose = "to tell these causes apart" if len(finding.causes) > 1 else "to be sure"
    return [
        _test(f"{'then' if at else 'next'}, {purpose}", experiment)
        for at, experiment in enumerate(finding.experiments)
    ]


def _test(title: str, experiment: Experiment) -> list[Block]:
    foretold = ", ".join(filter(None, (f"at {size_text(experiment.bytes)}", experiment.note)))
    return [
        Lines(title, (experiment.command,), verbatim=True),
        Table(_FORETOLD, experiment.foretold, None, foretold),
    ]


def _bound(bound: UpperBound) -> str:
    """``15 calls of all-reduce, 2 ranks, over nvlink: 1 of 2 ranks has a trace``."""
    what = (
        f"{counted(bound.calls, 'call')} of {bound.primitive.spoken}, {bound.ranks} ranks, over"
        f" {bound.wire}"
    )
    if not bound.missing:
        return f"{what}: the calls of the ranks do not pair off"
    seen = bound.ranks - len(bound.missing)
    return f"{what}: {seen} of {bound.ranks} ranks {'has' if seen == 1 else 'have'} a trace"


def verdict(result: Diagnosis) -> str:
    if not result.series:
        tiers = ", ".join(dict.fromkeys(bound.wire for bound in result.bounds))
        return f"nothing can be said of {tiers}: give the traces of all ranks, or measure it"
    tiers = ", ".join(
        dict.fromkeys(health.wire for health in result.series if health.low or result.ok)
    )
    if result.ok:
        if not any(map(_judged, result.series)):
            return "nothing can be said: too few sizes, none of which is large"
        return (
            f"as expected: nothing is below {_bars(result)}; what there is to gain is in the fabric"
            f" itself ({tiers})"
        )
    first = next((finding for finding in result.findings if finding.causes), None)
    if first is None:
        unknown = (
            "no cause that can be priced explains it: calibrate a healthy machine, and give that"
            " with -f"
        )
        return f"below {_bars(result)} over {tiers}, and {unknown}"
    cause, *others = first.causes
    or_ = f", or {', '.join(other.name for other in others)}" if others else ""
    more = len(result.findings) - 1
    return f"below {_bars(result)}: {cause.said}{or_}" + (
        f"; and {counted(more, 'finding')} more" if more else ""
    )


def _document(result: Diagnosis) -> Document:
    assumed = result.assumed
    machine: Document = {
        "devices": list(assumed.devices),
        "hosts": list(assumed.hosts),
        "assumed": list(assumed.said),
    }
    machine |= {"network": assumed.network or None, "guessed": assumed.guessed}
    return (
        {
            "fabric": assumed.fabric,
            **set_field(assumed.overrides),
            **fields(result, "expect ok"),
            "hardware": machine,
        }
        | {
            "series": [_health(health) for health in result.series],
            "findings": [_finding(finding) for finding in result.findings],
        }
        | fields(result, "notes bounds")
        | {"measure": [_experiment(experiment) for experiment in result.measure]}
        | fields(result, "left_out skipped")
        | {"fleet": result.fleet and _fleet_document(result.fleet), "verdict": verdict(result)}
    )


def _health(health: SeriesHealth) -> Document:
    series, last = health.judged.series, health.judged.points[-1]
    run = {"run": series.run} if series.run else {}
    head = {"collective": str(series.primitive)} | fields(series, "ranks nodes") | run
    last_point = {"bytes": whole_bytes(last.bytes)} | fields(
        last, "busbw_measured_Bps busbw_expected_Bps"
    )
    return (
        head
        | {"wire": health.wire}
        | last_point
        | fields(health, "large small low bar")
        | fields(series, "dtype files")
    )


def _finding(finding: DiagnosisFinding) -> Document:
    head = (
        fields(finding, "series size")
        | {"of_expected": {"low": finding.low, "high": finding.high}}
        | fields(finding, "error causes")
    )
    return head | {
        "experiments": [_experiment(each) for each in finding.experiments],
        "hints": list(finding.hints),
    }


def _experiment(experiment: Experiment) -> Document:
    return fields(experiment, "command bytes foretold note") | {
        "bytes": whole_bytes(experiment.bytes)
    }


VIEWS = {Diagnosis: View("doctor", _blocks, _document, _table, diagnosed)}
