"""``doctor`` and ``trace``: the cause of slow collectives and the next experiment; those of a trace against predicted times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from colltool.base.errors import clipped, either, said
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
from colltool.diagnosis.results import AssumedFabric, Diagnosis, DiagnosisFinding, Experiment, SeriesHealth, UpperBound
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import Document, View, context, fields, listed, on_fabric, reached_percent, set_field, set_text
from colltool.traces.results import LinkHealth, TraceComparison
from colltool.traces.trace import ranks_text
from colltool.training.parallel_config import Axes

_BOUND = "not judged: times are upper bounds, a kernel waits for the slowest rank"
_MOST_SERIES, _MOST_NOTES = 10, 2

_SERIES = (
    label("collective", "collective", lambda primitive: primitive.spoken, get=lambda one: one.judged.series.primitive),
    number("ranks", "ranks", get=lambda one: one.judged.series.ranks),
    number("nodes", "nodes", drop=4, get=lambda one: one.judged.series.nodes),
    label("run", "run", get=lambda one: one.judged.series.run),
    label("wire", "tier", drop=1),
    number("bytes", "largest", size_text, 3, get=lambda one: whole_bytes(one.judged.points[-1].bytes)),
    number("busbw_measured_Bps", "busbw", format_rate, 2, get=lambda one: one.judged.points[-1].busbw_measured_Bps),
    number("busbw_expected_Bps", "expected", format_rate, 5, get=lambda one: one.judged.points[-1].busbw_expected_Bps),
    number("large", "large messages", whole_percent),
    number("small", "small messages", whole_percent),
    label("state", "is", get=lambda one: "off" if one.low else "as expected" if _judged(one) else "not judged"),
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


def _judged(one: SeriesHealth) -> bool:
    return one.large is not None or one.small is not None


def _table(result: Diagnosis) -> Table:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    idle = [key for key in ("large", "small") if all(getattr(one, key) is None for one in result.series)]
    idle += [] if any(one.judged.series.run for one in result.series) else ["run"]
    title = f"{len(result.series)} series, share of what {where} should reach"

    def causes(one: SeriesHealth) -> str:
        about = (finding for finding in result.findings if one.judged.series.title in finding.series)
        return " ".join(dict.fromkeys(cause.name for finding in about for cause in finding.causes))

    told = (label("causes", "causes", get=causes, hidden=True),
            label("set", "set", get=lambda _: set_text(result.assumed.overrides), hidden=True))  # fmt: skip
    columns = (*context(fabric=result.assumed.fabric), *_SERIES, *told)
    return Table(columns, result.series, None, title, _MOST_SERIES).without(*idle)


def _reached(finding: DiagnosisFinding) -> str:
    share = " to ".join(dict.fromkeys((whole_percent(finding.low), whole_percent(finding.high))))
    who = finding.series[0] if len(finding.series) == 1 else f"{len(finding.series)} series"
    return f"{finding.size} messages of {who} reach {share} of expected"


def _main(result: Diagnosis) -> DiagnosisFinding | None:
    # the first finding that a cause explains, else the first
    return next((one for one in result.findings if one.causes), result.findings[0] if result.findings else None)


def _bars(result: Diagnosis) -> str:
    return " or ".join(dict.fromkeys(whole_percent(bar) for bar in sorted(one.bar for one in result.series)))


def diagnosed(result: Diagnosis) -> str:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    main = _main(result)
    if main is None:
        if not any(map(_judged, result.series)):
            return f"Not judged against {where}: {verdict(result)}."
        healthy = f"{len(result.series)} series reach at least {_bars(result)} of what {where} should."
        if result.assumed.network or result.assumed.guessed:
            return f"{_matches(result.assumed)} Then it is healthy: {healthy}"
        return f"Healthy: {healthy}"
    what = f"{sentence(_reached(main))} ({where})."
    more = len(result.findings) - 1
    also = f" {counted(more, 'more finding')}{said(either(shell=' with --all', python=''))}." if more else ""
    if not main.causes:
        return f"{what} No cause that can be priced explains it: calibrate a healthy machine and give that with -f.{also}"
    first, *others = main.causes
    fit = f"times {percent(first.error)} off under it, {percent(main.error)} without"
    or_ = f" Fit as well: {', '.join(one.name for one in others)}." if others else ""
    return f"{what} Most likely {first.name}: {first.said} ({fit}).{or_}{also}"


def _matches(assumed: AssumedFabric) -> str:
    if not assumed.network:
        return f"Matches {assumed.fabric}: is that yours?"
    own = f"If its NICs are {assumed.own}, the network is slow: NICs at a lower speed or unused, or congested uplinks."
    return f"Matches {assumed.fabric} with {assumed.network}: is that yours? {own}"


def _blocks(result: Diagnosis) -> list[Block]:
    main = _main(result)
    series: list[Block] = [_table(result)] if result.series else []
    out: list[Block] = [Headline(diagnosed(result))]
    if main is None:
        out += [block for one in result.measure for block in _test("next, to measure these tiers", one)]
        out += series
    else:
        next_, *then = _experiments(main) or [[]]
        out += [*next_[:1], *(_causes(main) or series), *map(later, next_[1:])]
        out += [later(block) for test in then for block in test]
        out += map(later, [*(series if main.causes else []), *_details(main)])
        for one in (one for one in result.findings if one is not main):
            tests = (block for test in _experiments(one) for block in test)
            out += map(later, [*_causes(one), *_details(one), *tests])
        out += [later(block) for one in result.measure for block in _test("to measure these tiers", one)]
    left_out = [f"{one.reason}: {counted(one.rows, 'row')}, first at {one.where}" for one in result.skipped]
    left_out += [f"{one.reason}: {counted(one.kernels, 'kernel')}, first in {one.file}" for one in result.left_out]
    roomy = main is None or not main.causes
    out.append(Lines("the machine", result.assumed.said, first=None if roomy else 0))
    out += listed("notes", result.notes, first=_MOST_NOTES if roomy else 0)
    out += listed(_BOUND, map(_bound, result.bounds), first=0)
    return [*out, *listed("left out, or used with a reservation", left_out, first=0)]


def _causes(finding: DiagnosisFinding) -> list[Block]:
    title = f"causes, best first; without any the times are {percent(finding.error)} off"
    return [Table(_CAUSES, finding.causes, None, title)] if finding.causes else []


def _details(finding: DiagnosisFinding) -> list[Block]:
    look = listed("look at", (f"{one.name}: {one.look}" for one in finding.causes))
    series = Lines(_reached(finding), finding.series if len(finding.series) > 1 else ())
    return [series, *listed("what the numbers say", finding.hints), *look]


def _experiments(finding: DiagnosisFinding) -> list[list[Block]]:
    purpose = "to tell these causes apart" if len(finding.causes) > 1 else "to be sure"
    return [_test(f"{'then' if at else 'next'}, {purpose}", one) for at, one in enumerate(finding.experiments)]


def _test(title: str, one: Experiment) -> list[Block]:
    foretold = ", ".join(filter(None, (f"at {size_text(one.bytes)}", one.note)))
    return [Lines(title, (one.command,), verbatim=True), Table(_FORETOLD, one.foretold, None, foretold)]


def _bound(one: UpperBound) -> str:
    """``15 calls of all-reduce, 2 ranks, over nvlink: 1 of 2 ranks has a trace``."""
    what = f"{counted(one.calls, 'call')} of {one.primitive.spoken}, {one.ranks} ranks, over {one.wire}"
    if not one.missing:
        return f"{what}: the calls of the ranks do not pair off"
    seen = one.ranks - len(one.missing)
    return f"{what}: {seen} of {one.ranks} ranks {'has' if seen == 1 else 'have'} a trace"


def verdict(result: Diagnosis) -> str:
    if not result.series:
        tiers = ", ".join(dict.fromkeys(one.wire for one in result.bounds))
        return f"nothing can be said of {tiers}: give the traces of all ranks, or measure it"
    tiers = ", ".join(dict.fromkeys(one.wire for one in result.series if one.low or result.ok))
    if result.ok:
        if not any(map(_judged, result.series)):
            return "nothing can be said: too few sizes, none of which is large"
        return f"as expected: nothing is below {_bars(result)}; what there is to gain is in the fabric itself ({tiers})"
    first = next((finding for finding in result.findings if finding.causes), None)
    if first is None:
        unknown = "no cause that can be priced explains it: calibrate a healthy machine, and give that with -f"
        return f"below {_bars(result)} over {tiers}, and {unknown}"
    cause, *others = first.causes
    or_ = f", or {', '.join(one.name for one in others)}" if others else ""
    more = len(result.findings) - 1
    return f"below {_bars(result)}: {cause.said}{or_}" + (f"; and {counted(more, 'finding')} more" if more else "")


def _document(result: Diagnosis) -> Document:
    assumed = result.assumed
    machine: Document = {"devices": list(assumed.devices), "hosts": list(assumed.hosts), "assumed": list(assumed.said)}
    machine |= {"network": assumed.network or None, "guessed": assumed.guessed}
    return (
        {"fabric": assumed.fabric, **set_field(assumed.overrides), **fields(result, "expect ok"), "hardware": machine}
        | {"series": [_health(one) for one in result.series], "findings": [_finding(one) for one in result.findings]}
        | fields(result, "notes bounds")
        | {"measure": [_experiment(one) for one in result.measure]}
        | fields(result, "left_out skipped")
        | {"verdict": verdict(result)}
    )


def _health(one: SeriesHealth) -> Document:
    series, last = one.judged.series, one.judged.points[-1]
    run = {"run": series.run} if series.run else {}
    head = {"collective": str(series.primitive)} | fields(series, "ranks nodes") | run
    last_point = {"bytes": whole_bytes(last.bytes)} | fields(last, "busbw_measured_Bps busbw_expected_Bps")
    return head | {"wire": one.wire} | last_point | fields(one, "large small low bar") | fields(series, "dtype files")


def _finding(one: DiagnosisFinding) -> Document:
    head = fields(one, "series size") | {"of_expected": {"low": one.low, "high": one.high}} | fields(one, "error causes")
    return head | {"experiments": [_experiment(each) for each in one.experiments], "hints": list(one.hints)}


def _experiment(one: Experiment) -> Document:
    return fields(one, "command bytes foretold note") | {"bytes": whole_bytes(one.bytes)}


_MOST_TOTALS = 8
_CARRIER = (
    "kernels' names tell little: LL stands for any protocol, RING since NCCL 2.19 for all but trees (colltool guide traces)"
)


def _axes(axes: Axes) -> str:
    """The stride, or ``4 by 1, 2 by 16`` (size by stride) of a group with several."""
    if len(axes) > 1:
        return ", ".join(f"{size} by {stride}" for size, stride in axes)
    return str(axes[0][1]) if axes else ""


_TOTALS = (
    label("group", "group", clipped, 4),
    number("ranks", "ranks", get=lambda one: one.group_size),
    label("stride", "stride", drop=5, get=lambda one: _axes(one.axes)),
    label("tiers", "on", drop=6, get=lambda one: ", ".join(one.tiers)),
    label("primitive", "primitive", lambda one: one.spoken),
    number("bytes", "size", size_text),
    label("dtype", "dtype", clipped, hidden=True),
    label("coalesced", "", get=lambda one: "coalesced" if one.coalesced else "", hidden=True),
    number("calls", "calls"),
    label("kernel", "kernel", drop=8),
    number("each_s", "measured", format_time),
    label("bound", "", get=lambda one: "at most" if one.bound else "", hidden=True),
    number("busbw_Bps", "busbw", format_rate, 3),
    number("expected_s", "expected", format_time, 1),
    label("algorithm", "by", drop=7, get=lambda one: one.runs),
    number("of_expected", "of expected", reached_percent),
    number("share", "of the step", percent, 2),
    number("exposed", "exposed", whole_percent, 3),
    number("total_s", "total", format_time, hidden=True),
    number("exposed_s", "exposed", format_time, hidden=True),
    label("reason", "no price", hidden=True),
)


def _totals(result: TraceComparison) -> Table:
    columns = (*context(fabric=result.fabric), *_TOTALS, *context(result.overrides))
    table = Table(columns, result.totals)
    return table if any(total.group for total in result.totals) else table.without("group")


def trace_title(result: TraceComparison) -> str:
    where = on_fabric(result.fabric, result.overrides)
    of = f" of {result.world} ranks" if result.world else ""
    return f"{counted(len(result.calls), 'collective call')} in {counted(len(result.files), 'trace')}{of} on {where}"


def _window(result: TraceComparison) -> str:
    return counted(result.steps, "step") if result.steps else f"the whole trace{'s' * (len(result.files) > 1)}"


def trace_verdict(result: TraceComparison) -> str:
    shown = f"communication is {percent(result.share)} of {_window(result)}, {percent(result.exposed)} is exposed"
    return f"{shown}; {_speed(result)}"


def _speed(result: TraceComparison) -> str:
    if result.of_expected is None:
        return "no call has a price"
    least = "at least " if any(total.bound and total.expected_s is not None for total in result.totals) else ""
    return f"it reaches {least}{reached_percent(result.of_expected)} of what is expected"


def _blame(result: TraceComparison) -> Iterator[str]:
    slow, fine, unknown = ([one for one in result.wires if one.verdict == verdict] for verdict in ("slow", "fine", "unknown"))
    if slow:
        lost = ", ".join(f"{percent(one.exposed)} of {_window(result)} is exposed on {one.tier}" for one in slow)
        yield f"{_named(slow)} slow: {_reached_by(slow + fine)}; {lost}"
        for one in slow:
            if both := [other.tier for other in slow if other.tier in one.beside]:
                yield f"whether {one.tier} is slow too cannot be told: its calls go over {' and '.join(both)} as well"
    elif fine:
        cleared = f"{' and '.join(one.tier for one in fine)} {'is' if len(fine) == 1 else 'are'} not"
        yield f"{cleared if unknown else 'no tier is'} slow: {_reached_by(fine)}"
    elif not unknown:
        yield from (f"no tier can be named: {why}" for why, _ in _reasons(result).most_common(1))
    for one in unknown:
        who = "no tier can" if len(unknown) == len(result.wires) == 1 else f"{one.tier} cannot"
        waiting = f"all but {format_time(one.expected_s)} of the {format_time(one.measured_s)} measured on {one.tier}"
        yield f"{who} be blamed: times are upper bounds, for {one.why}; {waiting} may be waiting"
        cures = [f"record {ranks_text(one.missing)} as well"] if one.missing else []
        cures += [f"measure {one.tier} alone: {one.measure}"] if one.measure else []
        if cures:
            yield f"next: {', or '.join(cures)}"
    yield from (one.note for one in slow + fine if one.note)


def _named(slow: Sequence[LinkHealth]) -> str:
    """``ib is``, ``ib or nvlink is``, ``nvlink and ib are``; tiers whose calls also cross another slow tier are not named."""
    known = {one.tier for one in slow}
    names = [" or ".join((one.tier, *one.beside)) for one in slow if not known & set(one.beside)]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _reached_by(wires: Sequence[LinkHealth]) -> str:
    """Such as ``calls that cross ib reach 45% of expected, those inside nvlink 97%``."""
    parts: list[str] = []
    for one in wires:
        where = f"inside {one.tier}" if one.innermost else f"that cross {one.tier}"
        reached = f"{'' if one.clear else 'at least '}{reached_percent(one.of_expected)}"
        parts.append(f"those {where} {reached}" if parts else f"calls {where} reach {reached} of expected")
    return ", ".join(parts)


def traced(result: TraceComparison) -> str:
    exposed = f"{percent(result.exposed)} of {_window(result)} is exposed communication"
    share = f"{exposed} ({percent(result.share)} with what is hidden)"
    return f"{trace_title(result)}: {share}; {_speed(result)}. {'; '.join(_blame(result))}".rstrip(". ") + "."


def _facts(result: TraceComparison) -> Iterator[str]:
    ran = ", ".join(filter(None, (clipped(result.device), result.nccl and f"NCCL {clipped(result.nccl)}")))
    each = format_time(result.window_s / (result.steps or len(result.files)))
    spans = f"a step takes {each}" if result.steps else f"a trace spans {each}: it has no ProfilerStep# annotations"
    yield f"{spans}{f'; {ran}' if ran else ''}"
    if result.rank_map.given:
        yield f"ranks of the job sit on the fabric by {clipped(result.rank_map.given)}"
    for one in result.wires:
        if one.why and one.verdict != "unknown":
            yield f"{one.calls - one.clear} of {one.calls} times on {one.tier} are upper bounds: {one.why}"
    if any("LL" in total.kernel.split("_") for total in result.totals):
        yield _CARRIER


def _trace_blocks(result: TraceComparison) -> list[Block]:
    reasons = (f"{why}: {counted(calls, 'call')}" for why, calls in _reasons(result).items())
    out: list[Block] = [Lines("the trace", tuple(_facts(result)))]
    out += [Lines(f"findings: {one.series}", one.findings) for one in result.findings]
    out += [*listed("without a price", reasons), *listed("left out", _left_out(result))]
    table = _totals(result)._replace(title="by group, primitive and size", first=_MOST_TOTALS)
    return [Headline(traced(result)), table, *map(later, out)]


def _reasons(result: TraceComparison) -> Counter[str]:
    found: Counter[str] = Counter()
    for total in result.totals:
        if total.reason:
            found[total.reason] += total.calls
    return found


def _left_out(result: TraceComparison) -> Iterator[str]:
    for one in result.left_out:
        yield f"{one.reason}: {counted(one.kernels, 'kernel')}, first in {clipped(one.file)}"
    for file in result.files:
        if file.broken:
            yield f"{clipped(file.file)} ends too early or is damaged: what stands before that is used"
        if not file.calls:
            yield f"{clipped(file.file)} has no collective call that can be told"


def _trace_document(result: TraceComparison) -> Document:
    mapped = bool(result.rank_map.given)
    calls = []
    for one in result.calls:
        known = {"algorithm": one.algorithm or None, "protocol": one.protocol or None, "places": one.places if mapped else None}
        calls.append(one._asdict() | known)
    return (
        {"fabric": result.fabric, **set_field(result.overrides), "library": result.library or None}
        | {"map": {"given": result.rank_map.given, "places": result.rank_map.places} if mapped else None}
        | {"world": result.world, "device": result.device or None, "nccl": result.nccl or None}
        | fields(result, "steps window_s share exposed of_expected")
        | {"verdict": trace_verdict(result), "blame": list(_blame(result)), **fields(result, "wires")}
        | {"totals": [one._asdict() | fields(one, "busbw_Bps of_expected exposed") for one in result.totals], "calls": calls}
        | fields(result, "findings files left_out")
    )


def _trace_summary(result: TraceComparison) -> str:
    return "\n".join((trace_title(result), trace_verdict(result), *_blame(result)))


VIEWS = {
    Diagnosis: View("doctor", _blocks, _document, _table, diagnosed),
    TraceComparison: View("trace", _trace_blocks, _trace_document, _totals, _trace_summary),
}
