"""``doctor``: the most likely cause of slow collectives, the next experiment, and the evidence."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    sentence,
    short_percent,
    size_text,
    whole_bytes,
    whole_percent,
)
from colltool.diagnosis.results import Diagnosis, DiagnosisFinding, Experiment, SeriesHealth, UpperBound
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.view import Document, View, fields, on_fabric, plain, set_field, set_text

BOUND = "not judged: times are upper bounds, a kernel waits for the slowest rank"
_MOST_SERIES, _MOST_NOTES = 10, 2

_SERIES = (
    label("fabric", "fabric", get=lambda of: of[0].assumed.fabric, hidden=True),
    label("collective", "collective", lambda primitive: primitive.spoken, get=lambda of: of[1].judged.series.primitive),
    number("ranks", "ranks", get=lambda of: of[1].judged.series.ranks),
    number("nodes", "nodes", drop=4, get=lambda of: of[1].judged.series.nodes),
    label("run", "run", get=lambda of: of[1].judged.series.run),
    label("wire", "tier", drop=1, get=lambda of: of[1].wire),
    number("bytes", "largest", size_text, 3, get=lambda of: whole_bytes(of[1].judged.points[-1].bytes)),
    number("busbw_measured_Bps", "busbw", format_rate, 2, get=lambda of: of[1].judged.points[-1].busbw_measured_Bps),
    number("busbw_expected_Bps", "expected", format_rate, 5, get=lambda of: of[1].judged.points[-1].busbw_expected_Bps),
    number("large", "large messages", whole_percent, get=lambda of: of[1].large),
    number("small", "small messages", whole_percent, get=lambda of: of[1].small),
    label("state", "is", get=lambda of: _state(of[1])),
    label("causes", "causes", get=lambda of: _causes_of(*of), hidden=True),
    label("set", "set", get=lambda of: set_text(of[0].assumed.overrides), hidden=True),
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


def _state(one: SeriesHealth) -> str:
    if one.low:
        return "off"
    return "as expected" if _judged(one) else "not judged"


def _judged(one: SeriesHealth) -> bool:
    return one.large is not None or one.small is not None


def _causes_of(result: Diagnosis, one: SeriesHealth) -> str:
    title = one.judged.series.title
    names = (cause.name for finding in result.findings if title in finding.series for cause in finding.causes)
    return " ".join(dict.fromkeys(names))


def _table(result: Diagnosis) -> Table:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    idle = [key for key in ("large", "small") if all(getattr(one, key) is None for one in result.series)]
    idle += [] if any(one.judged.series.run for one in result.series) else ["run"]
    title = f"{len(result.series)} series, share of what {where} should reach"
    return Table(_SERIES, tuple((result, one) for one in result.series), None, title, _MOST_SERIES).without(*idle)


def _share(finding: DiagnosisFinding) -> str:
    low, high = whole_percent(finding.low), whole_percent(finding.high)
    return low if low == high else f"{low} to {high}"


def _reached(finding: DiagnosisFinding) -> str:
    who = finding.series[0] if len(finding.series) == 1 else f"{len(finding.series)} series"
    return f"{finding.size} messages of {who} reach {_share(finding)} of expected"


def _main(result: Diagnosis) -> DiagnosisFinding | None:
    # the first finding that a cause explains, else the first
    return next((one for one in result.findings if one.causes), result.findings[0] if result.findings else None)


def answer(result: Diagnosis) -> str:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    main = _main(result)
    if main is None:
        if not any(map(_judged, result.series)):
            return f"Not judged against {where}: {verdict(result)}."
        bar = " or ".join(short_percent(bar) for bar in sorted({one.bar for one in result.series}))
        return f"Healthy: {len(result.series)} series reach at least {bar} of what {where} should."
    what = _reached(main)
    what = f"{sentence(what)} ({where})."
    more = len(result.findings) - 1
    also = f" {counted(more, 'more finding')}{said(either(shell=' with --all', python=''))}." if more else ""
    if not main.causes:
        return f"{what} No cause that can be priced explains it: calibrate a healthy machine and give that with -f.{also}"
    first, *others = main.causes
    fit = f"times {percent(first.error)} off under it, {percent(main.error)} without"
    or_ = f" Fit as well: {', '.join(one.name for one in others)}." if others else ""
    return f"{what} Most likely {first.name}: {first.said} ({fit}).{or_}{also}"


def _blocks(result: Diagnosis) -> list[Block]:
    main = _main(result)
    series: list[Block] = [_table(result)] if result.series else []
    out: list[Block] = [Headline(answer(result))]
    if main is None:
        out += [block for one in result.measure for block in _test("next, to measure these tiers", one)]
        out += series
    else:
        next_, *then = _experiments(main) if main.experiments else [[]]
        out += [*next_[:1], *([_causes(main)] if main.causes else series), *map(later, next_[1:])]
        out += [later(block) for test in then for block in test]
        out += map(later, [*(series if main.causes else []), *_details(main)])
        for one in (one for one in result.findings if one is not main):
            tests = (block for test in _experiments(one) for block in test)
            out += map(later, [*([_causes(one)] if one.causes else []), *_details(one), *tests])
        out += [later(block) for one in result.measure for block in _test("to measure these tiers", one)]
    left_out = [f"{one.reason}: {counted(one.rows, 'row')}, first at {one.where}" for one in result.skipped]
    left_out += [f"{one.reason}: {counted(one.kernels, 'kernel')}, first in {one.file}" for one in result.left_out]
    detail = [Lines(BOUND, tuple(map(_bound, result.bounds)))] if result.bounds else []
    detail += [Lines("left out, or used with a reservation", tuple(left_out))] if left_out else []
    roomy = main is None or not main.causes
    out.append(Lines("the machine", result.assumed.said, first=None if roomy else 0))
    out += [Lines("notes", result.notes, first=_MOST_NOTES if roomy else 0)] if result.notes else []
    return [*out, *map(later, detail)]


def _causes(finding: DiagnosisFinding) -> Table:
    title = f"causes, best first; without any the times are {percent(finding.error)} off"
    return Table(_CAUSES, finding.causes, None, title)


def _details(finding: DiagnosisFinding) -> Iterator[Block]:
    yield Lines(_reached(finding), finding.series if len(finding.series) > 1 else ())
    if finding.hints:
        yield Lines("what the numbers say", finding.hints)
    if finding.causes:
        yield Lines("look at", tuple(f"{one.name}: {one.look}" for one in finding.causes))


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
    bar = " or ".join(short_percent(bar) for bar in sorted({one.bar for one in result.series}))
    if result.ok:
        if not any(map(_judged, result.series)):
            return "nothing can be said: too few sizes, none of which is large"
        tiers = ", ".join(dict.fromkeys(one.wire for one in result.series))
        return f"as expected: nothing is below {bar}; what there is to gain is in the fabric itself ({tiers})"
    first = next((finding for finding in result.findings if finding.causes), None)
    if first is None:
        tiers = ", ".join(dict.fromkeys(one.wire for one in result.series if one.low))
        unknown = "no cause that can be priced explains it: calibrate a healthy machine, and give that with -f"
        return f"below {bar} over {tiers}, and {unknown}"
    cause, *others = first.causes
    or_ = f", or {', '.join(one.name for one in others)}" if others else ""
    more = len(result.findings) - 1
    return f"below {bar}: {cause.said}{or_}" + (f"; and {counted(more, 'finding')} more" if more else "")


def _document(result: Diagnosis) -> Document:
    assumed = result.assumed
    return {"fabric": assumed.fabric} | set_field(assumed.overrides) | {
        **fields(result, "expect ok"),
        "hardware": {"devices": list(assumed.devices), "hosts": list(assumed.hosts), "assumed": list(assumed.said)},
        "series": [_health(one) for one in result.series],
        "findings": [_finding(one) for one in result.findings],
        **fields(result, "notes bounds"),
        "measure": [_experiment(one) for one in result.measure],
        **fields(result, "left_out skipped"),
        "verdict": verdict(result),
    }  # fmt: skip


def _health(one: SeriesHealth) -> Document:
    series, last = one.judged.series, one.judged.points[-1]
    run = {"run": series.run} if series.run else {}
    head = {"collective": str(series.primitive)} | fields(series, "ranks nodes") | run
    last_point = {"bytes": whole_bytes(last.bytes)} | fields(last, "busbw_measured_Bps busbw_expected_Bps")
    return head | {"wire": one.wire} | last_point | fields(one, "large small low bar") | fields(series, "dtype files")


def _finding(one: DiagnosisFinding) -> Document:
    return fields(one, "series size") | {
        "of_expected": {"low": one.low, "high": one.high},
        **fields(one, "error causes"),
        "experiments": [_experiment(experiment) for experiment in one.experiments],
        "hints": list(one.hints),
    }


def _experiment(one: Experiment) -> Document:
    return plain(one) | {"bytes": whole_bytes(one.bytes)}  # type: ignore[no-any-return]


VIEWS = {Diagnosis: View("doctor", _blocks, _document, _table, answer)}
