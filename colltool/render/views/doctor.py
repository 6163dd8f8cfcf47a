"""``doctor``: what is off, the causes that prices support, and the next experiment."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    short_percent,
    size_text,
    whole_bytes,
    whole_percent,
)
from colltool.diagnosis.results import Diagnosis, DiagnosisFinding, Experiment, SeriesHealth, UpperBound
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.view import Document, View, on_fabric, set_field, set_text

BOUND = "not judged: times are upper bounds, a kernel waits for the slowest rank"

_SERIES = (
    label("fabric", "fabric", get=lambda of: of[0].assumed.fabric, hidden=True),
    label("collective", "collective", lambda primitive: primitive.spoken, get=lambda of: of[1].judged.series.primitive),
    number("ranks", "ranks", get=lambda of: of[1].judged.series.ranks),
    number("nodes", "nodes", drop=4, get=lambda of: of[1].judged.series.nodes),
    label("run", "run", get=lambda of: of[1].judged.series.run),
    label("wire", "wire", drop=1, get=lambda of: of[1].wire),
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
    return "as expected" if one.large is not None or one.small is not None else "not judged"


def _causes_of(result: Diagnosis, one: SeriesHealth) -> str:
    title = one.judged.series.title
    names = (cause.name for finding in result.findings if title in finding.series for cause in finding.causes)
    return " ".join(dict.fromkeys(names))


def _table(result: Diagnosis) -> Table:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    title = f"{_counted(result)} against {where}, of expected"
    idle = [key for key in ("large", "small") if all(getattr(one, key) is None for one in result.series)]
    idle += [] if any(one.judged.series.run for one in result.series) else ["run"]
    return Table(_SERIES, tuple((result, one) for one in result.series), None, title).without(*idle)


def _counted(result: Diagnosis) -> str:
    """``1 series``, ``5 series``."""
    return f"{len(result.series)} series"


def _share(finding: DiagnosisFinding) -> str:
    low, high = whole_percent(finding.low), whole_percent(finding.high)
    return low if low == high else f"{low} to {high}"


def _heading(finding: DiagnosisFinding) -> str:
    """What is off, of which series, and how many causes explain it."""
    several = len(finding.series)
    who = finding.series[0] if several == 1 else f"{several} series"
    what = f"{finding.size} messages of {who}: {_share(finding)} of expected"
    if not finding.causes:
        return f"{what}; no cause that can be priced explains it"
    return f"{what}; {'one cause explains' if len(finding.causes) == 1 else f'{len(finding.causes)} causes explain'} it"


def _blocks(result: Diagnosis) -> list[Block]:
    out: list[Block] = [_table(result)] if result.series else []
    out.append(Lines("the machine", result.assumed.said))
    for index, finding in enumerate(result.findings, 1):
        out += _of_finding(f"finding {index}" if len(result.findings) > 1 else "finding", finding)
    out += [Lines("notes", result.notes)] if result.notes else []
    if result.bounds:
        out.append(Lines(BOUND, tuple(map(_bound, result.bounds))))
    for one in result.measure:
        out += _test("next, to measure these wires", one)
    left_out = [f"{one.reason}: {counted(one.rows, 'row')}, first at {one.where}" for one in result.skipped]
    left_out += [f"{one.reason}: {counted(one.kernels, 'kernel')}, first in {one.file}" for one in result.left_out]
    out += [Lines("left out, or used with a reservation", tuple(left_out))] if left_out else []
    return [*out, Lines(f"verdict: {verdict(result)}", ())]


def _of_finding(name: str, finding: DiagnosisFinding) -> Iterator[Block]:
    lines = finding.series if len(finding.series) > 1 else ()
    yield Lines(f"{name}: {_heading(finding)}", lines)
    if finding.hints:
        yield Lines("what the numbers say", finding.hints)
    if not finding.causes:
        return
    title = f"causes, best first; as the fabric says would be off by {percent(finding.error)}"
    yield Table(_CAUSES, finding.causes, None, title)
    yield Lines("look at", tuple(f"{one.name}: {one.look}" for one in finding.causes))
    for index, one in enumerate(finding.experiments):
        yield from _test(f"{'then' if index else 'next'}, {_purpose(finding)}", one)


def _test(title: str, one: Experiment) -> Iterator[Block]:
    """A command line, and what would come of it."""
    yield Lines(title, (one.command,), verbatim=True)
    yield Table(_FORETOLD, one.foretold, None, ", ".join(filter(None, (f"at {size_text(one.bytes)}", one.note))))


def _bound(one: UpperBound) -> str:
    """``15 calls of all-reduce, 2 ranks, over nvlink: 1 of 2 ranks has a trace``."""
    what = f"{counted(one.calls, 'call')} of {one.primitive.spoken}, {one.ranks} ranks, over {one.wire}"
    if not one.missing:
        return f"{what}: the calls of the ranks do not pair off"
    seen = one.ranks - len(one.missing)
    return f"{what}: {seen} of {one.ranks} ranks {'has' if seen == 1 else 'have'} a trace"


def _purpose(finding: DiagnosisFinding) -> str:
    return "to tell these causes apart" if len(finding.causes) > 1 else "to be sure"


def verdict(result: Diagnosis) -> str:
    """Whether all is well; what to think of first where it is not."""
    if not result.series:
        wires = ", ".join(dict.fromkeys(one.wire for one in result.bounds))
        return f"nothing can be said of {wires}: give the traces of all ranks, or measure it"
    bar = " or ".join(short_percent(bar) for bar in sorted({one.bar for one in result.series}))
    if result.ok:
        judged = any(one.large is not None or one.small is not None for one in result.series)
        if not judged:
            return "nothing can be said: too few sizes, none of which is large"
        wires = ", ".join(dict.fromkeys(one.wire for one in result.series))
        return f"as expected: nothing is below {bar}; what there is to gain is in the fabric itself ({wires})"
    known = [finding.causes[0] for finding in result.findings if finding.causes]
    if not known:
        wires = ", ".join(dict.fromkeys(one.wire for one in result.series if one.low))
        return (
            f"below {bar} over {wires}, and no cause that can be priced explains it: "
            "calibrate a healthy machine, and give that with -f"
        )
    more = len(result.findings) - 1
    first = next(finding for finding in result.findings if finding.causes)
    or_ = f", or {', '.join(one.name for one in first.causes[1:])}" if len(first.causes) > 1 else ""
    also = f"; and {counted(more, 'finding')} more" if more else ""
    return f"below {bar}: {known[0].said}{or_}{also}"


def _document(result: Diagnosis) -> Document:
    assumed = result.assumed
    return {"fabric": assumed.fabric} | set_field(assumed.overrides) | {
        "expect": result.expect,
        "ok": result.ok,
        "hardware": {"devices": list(assumed.devices), "hosts": list(assumed.hosts), "assumed": list(assumed.said)},
        "series": [_health(one) for one in result.series],
        "findings": [_finding(one) for one in result.findings],
        "notes": list(result.notes),
        "bounds": [one._asdict() | {"primitive": str(one.primitive), "missing": list(one.missing)} for one in result.bounds],
        "measure": [_experiment(one) for one in result.measure],
        "left_out": [one._asdict() for one in result.left_out],
        "skipped": [one._asdict() for one in result.skipped],
        "verdict": verdict(result),
    }  # fmt: skip


def _health(one: SeriesHealth) -> Document:
    series, last = one.judged.series, one.judged.points[-1]
    return {
        "collective": str(series.primitive),
        "ranks": series.ranks,
        "nodes": series.nodes,
        **({"run": series.run} if series.run else {}),
        "wire": one.wire,
        "bytes": whole_bytes(last.bytes),
        "busbw_measured_Bps": last.busbw_measured_Bps,
        "busbw_expected_Bps": last.busbw_expected_Bps,
        "large": one.large,
        "small": one.small,
        "low": one.low,
        "bar": one.bar,
        "dtype": series.dtype,
        "files": list(series.files),
    }


def _finding(one: DiagnosisFinding) -> Document:
    return {
        "series": list(one.series),
        "size": one.size,
        "of_expected": {"low": one.low, "high": one.high},
        "error": one.error,
        "causes": [cause._asdict() for cause in one.causes],
        "experiments": [_experiment(experiment) for experiment in one.experiments],
        "hints": list(one.hints),
    }


def _experiment(one: Experiment) -> Document:
    fields = one._asdict() | {"bytes": whole_bytes(one.bytes)}
    return fields | {"foretold": [foretold._asdict() for foretold in one.foretold]}


def _summary(result: Diagnosis) -> str:
    where = on_fabric(result.assumed.fabric, result.assumed.overrides)
    return f"{_counted(result)} against {where}\nverdict: {verdict(result)}"


VIEWS = {Diagnosis: View("doctor", _blocks, _document, _table, _summary)}
