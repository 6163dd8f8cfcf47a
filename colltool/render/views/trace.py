"""``trace``: the collectives of profiler traces against predicted times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from colltool.base.errors import clipped
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    size_text,
    whole_percent,
)
from colltool.diagnosis.compared import ComparedCalls, compared_totals
from colltool.diagnosis.link_health import ranks_text
from colltool.diagnosis.replay import Replayed
from colltool.diagnosis.trace_results import LinkHealth, TraceComparison
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    listed,
    on_fabric,
    reached_percent,
    set_field,
)
from colltool.training.parallel_config import Axes

_MOST_TOTALS = 8
_CARRIER = (
    "kernels' names tell little: LL stands for any protocol, RING since NCCL 2.19 for all but trees"
    " (colltool guide traces)"
)


def axes_text(axes: Axes) -> str:
    """The stride, or ``4 by 1, 2 by 16`` (size by stride) of a group with several."""
    if len(axes) > 1:
        return ", ".join(f"{size} by {stride}" for size, stride in axes)
    return str(axes[0][1]) if axes else ""


def signed_time(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_time(abs(seconds))}"


_LATE = (
    number("rank", "rank"),
    number("calls", "calls"),
    number("last", "comes last"),
    number("wait_s", "waits", format_time),
)
_WAITS = (
    label("primitive", "primitive", lambda one: one.spoken),
    number("group_size", "ranks"),
    number("calls", "calls"),
    number("wire_s", "on the wire", format_time),
    number("wait_s", "waiting", format_time),
)
_UNPRICED = (
    label("kernel", "kernel", clipped),
    number("calls", "calls"),
    number("total_s", "takes", format_time),
    number("exposed_s", "exposed", format_time),
)
REPLAYED = (
    label("file", "file", clipped, 2),
    number("rank", "rank"),
    number("recorded_s", "as recorded", format_time),
    number("priced_s", "with prices", format_time),
    number("priced", "priced nodes"),
    number("kept", "others", get=lambda one: sum(calls for _, calls in one.kept)),
)
_COMPARED = (
    label("primitive", "primitive", lambda one: one.spoken),
    number("ranks", "ranks"),
    number("bytes", "size", size_text),
    number("then_s", "before", format_time),
    number("now_s", "now", format_time),
    number("change_s", "change", signed_time),
)
_TOTALS = (
    label("group", "group", clipped, 4),
    number("ranks", "ranks", get=lambda one: one.group_size),
    label("stride", "stride", drop=5, get=lambda one: axes_text(one.axes)),
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
    return (
        f"{counted(len(result.calls), 'collective call')} in"
        f" {counted(len(result.files), 'trace')}{of} on {where}"
    )


def _window(result: TraceComparison) -> str:
    return (
        counted(result.steps, "step")
        if result.steps
        else f"the whole trace{'s' * (len(result.files) > 1)}"
    )


def trace_verdict(result: TraceComparison) -> str:
    shown = (
        f"communication is {percent(result.share)} of {_window(result)}, {percent(result.exposed)}"
        " is exposed"
    )
    return f"{shown}; {_speed(result)}"


def _speed(result: TraceComparison) -> str:
    if result.of_expected is None:
        return "no call has a price"
    least = (
        "at least "
        if any(total.bound and total.expected_s is not None for total in result.totals)
        else ""
    )
    return f"it reaches {least}{reached_percent(result.of_expected)} of what is expected"


def _blame(result: TraceComparison) -> Iterator[str]:
    slow, fine, unknown = (
        [one for one in result.wires if one.verdict == verdict]
        for verdict in ("slow", "fine", "unknown")
    )
    if slow:
        lost = ", ".join(
            f"{percent(one.exposed)} of {_window(result)} is exposed on {one.tier}" for one in slow
        )
        yield f"{_named(slow)} slow: {_reached_by(slow + fine)}; {lost}"
        for one in slow:
            if both := [other.tier for other in slow if other.tier in one.beside]:
                yield (
                    f"whether {one.tier} is slow too cannot be told: its calls go over"
                    f" {' and '.join(both)} as well"
                )
    elif fine:
        cleared = (
            f"{' and '.join(one.tier for one in fine)} {'is' if len(fine) == 1 else 'are'} not"
        )
        yield f"{cleared if unknown else 'no tier is'} slow: {_reached_by(fine)}"
    elif not unknown:
        yield from (f"no tier can be named: {why}" for why, _ in _reasons(result).most_common(1))
    for one in unknown:
        who = "no tier can" if len(unknown) == len(result.wires) == 1 else f"{one.tier} cannot"
        waiting = (
            f"all but {format_time(one.expected_s)} of the {format_time(one.measured_s)} measured"
            f" on {one.tier}"
        )
        yield f"{who} be blamed: times are upper bounds, for {one.why}; {waiting} may be waiting"
        cures = [f"record {ranks_text(one.missing)} as well"] if one.missing else []
        cures += [f"measure {one.tier} alone: {one.measure}"] if one.measure else []
        if cures:
            yield f"next: {', or '.join(cures)}"
    yield from (one.note for one in slow + fine if one.note)


def _named(slow: Sequence[LinkHealth]) -> str:
    """``ib is``, ``ib or nvlink is``, ``nvlink and ib are``; tiers whose calls also cross another
    slow tier are not named."""
    known = {one.tier for one in slow}
    names = [" or ".join((one.tier, *one.beside)) for one in slow if not known & set(one.beside)]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _reached_by(wires: Sequence[LinkHealth]) -> str:
    """Such as ``calls that cross ib reach 45% of expected, those inside nvlink 97%``."""
    parts: list[str] = []
    for one in wires:
        where = f"inside {one.tier}" if one.innermost else f"that cross {one.tier}"
        reached = f"{'' if one.clear else 'at least '}{reached_percent(one.of_expected)}"
        parts.append(
            f"those {where} {reached}" if parts else f"calls {where} reach {reached} of expected"
        )
    return ", ".join(parts)


def traced(result: TraceComparison) -> str:
    exposed = f"{percent(result.exposed)} of {_window(result)} is exposed communication"
    share = f"{exposed} ({percent(result.share)} with what is hidden)"
    told = (
        f"{trace_title(result)}: {share}; {_speed(result)}. {'; '.join(_blame(result))}".rstrip(
            ". "
        )
        + "."
    )
    if result.replayed and not result.calls:
        told = f"{trace_title(result)}: none has a duration to compare."
    return " ".join(filter(None, (told, _replayed(result), _waited(result), against(result))))


def _replayed(result: TraceComparison) -> str:
    """The slowest graph of a Chakra trace with prices in place of its collectives' times."""
    if not result.replayed:
        return ""
    slowest = max(result.replayed, key=lambda one: one.priced_s)
    kept = f"; {counted(slowest.unpriced, 'node')} without a price" if slowest.unpriced else ""
    which = graph_name(slowest)
    takes = f"takes {format_time(slowest.priced_s)}, {format_time(slowest.recorded_s)} as recorded"
    return f"With these prices the graph of {which} {takes}{kept}."


def graph_name(one: Replayed) -> str:
    return f"rank {one.rank}" if one.rank is not None else clipped(one.file)


def kept_lines(graphs: Sequence[Replayed]) -> list[Block]:
    """Why calls of graphs keep their recorded durations."""
    whys = Counter[str]()
    for one in graphs:
        whys.update(dict(one.kept))
    return listed(
        "left as recorded",
        (f"{why}: {counted(calls, 'node')}" for why, calls in whys.most_common()),
    )


def graph_document(one: Replayed) -> Document:
    return one._asdict() | {"kept": dict(one.kept)}


def _waited(result: TraceComparison) -> str:
    """Where waiting for a late rank outweighs the wire."""
    wire, wait = (
        sum(getattr(one, key) for one in result.waits.collectives) for key in ("wire_s", "wait_s")
    )
    if not wait or wait < wire * _NOTABLE:
        return ""
    late = max(result.waits.ranks, key=lambda one: one.last)
    who = f"rank {late.rank}" if late.rank is not None else late.file
    often = (
        f"{who} comes last in {late.last} of {late.calls}"
        if late.last * len(result.waits.ranks) > 2 * late.calls
        else ""
    )
    said = f"Beside {format_time(wire)} on the wire a rank waits {format_time(wait)} for the others"
    return f"{said}{': ' if often else ''}{often}."


_NOTABLE = 0.1


def against(result: TraceComparison) -> str:
    """What changed from the other trace: a step, its communication, the collective that changed
    most."""
    other = result.against
    if other is None:
        return ""
    now, then = (one.window_s / max(1, one.steps or len(one.files)) for one in (result, other))
    exposed = result.exposed * now - other.exposed * then
    what = f"Against the other a step takes {format_time(now)}, before {format_time(then)}"
    word = "more" if exposed >= 0 else "less"
    rows = compared_totals(result)
    most = max(rows, key=lambda row: abs(row.change_s), default=None)
    by = (
        f"; most by {most.primitive.spoken} of {size_text(most.bytes)}: {_from_to(most)}"
        if most and most.change_s
        else ""
    )
    return f"{what}: {format_time(abs(exposed))} {word} exposed communication{by}."


def _from_to(row: ComparedCalls) -> str:
    then, now = (format_time(one) if one else "none" for one in (row.then_s, row.now_s))
    return f"{then} to {now} a step"


def _facts(result: TraceComparison) -> Iterator[str]:
    ran = ", ".join(
        filter(None, (clipped(result.device), result.nccl and f"NCCL {clipped(result.nccl)}"))
    )
    each = format_time(result.window_s / (result.steps or len(result.files)))
    spans = (
        f"a step takes {each}"
        if result.steps
        else f"a trace spans {each}: it has no ProfilerStep# annotations"
    )
    yield f"{spans}{f'; {ran}' if ran else ''}"
    if result.rank_map.given:
        yield f"ranks of the job sit on the fabric by {clipped(result.rank_map.given)}"
    for one in result.wires:
        if one.why and one.verdict != "unknown":
            yield (
                f"{one.calls - one.clear} of {one.calls} times on {one.tier} are upper bounds:"
                f" {one.why}"
            )
    hidden = [
        f"rank {one.rank}: {percent(one.overlap)}"
        for one in result.activity
        if one.overlap is not None
    ]
    if result.overlap is not None:
        yield f"compute hides {percent(result.overlap)} of the communication time{_each(hidden)}"
    yield from dict.fromkeys(one.doubt for one in result.activity if one.doubt)
    if any("LL" in total.kernel.split("_") for total in result.totals):
        yield _CARRIER


def _each(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _MOST_TOTALS} more" if len(parts) > _MOST_TOTALS else ""
    return f" ({', '.join(parts[:_MOST_TOTALS])}{more})" if len(parts) > 1 else ""


def _trace_blocks(result: TraceComparison) -> list[Block]:
    reasons = (f"{why}: {counted(calls, 'call')}" for why, calls in _reasons(result).items())
    out: list[Block] = [Lines("the trace", tuple(_facts(result)))]
    if result.against:
        rows = tuple(sorted(compared_totals(result), key=lambda row: -abs(row.change_s)))
        out.append(Table(_COMPARED, rows, None, "a step's calls, before and now", _MOST_TOTALS))
    if result.waits.ranks:
        out += [
            Table(
                _LATE,
                result.waits.ranks,
                None,
                "who comes last: a call's shortest kernel is the wire, the rest waits",
            )
        ]
        out += [Table(_WAITS, result.waits.collectives, None, "wire and waiting, by collective")]
    if result.replayed:
        out.append(
            Table(
                REPLAYED,
                result.replayed,
                None,
                "graphs, as recorded and with these prices",
                _MOST_TOTALS,
            )
        )
        out += kept_lines(result.replayed)
    if result.unpriced:
        out.append(
            Table(
                _UNPRICED,
                result.unpriced,
                None,
                "communication kernels of which no bytes are known",
                _MOST_TOTALS,
            )
        )
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
            yield (
                f"{clipped(file.file)} ends too early or is damaged: what stands before that is"
                " used"
            )
        if not file.calls:
            yield f"{clipped(file.file)} has no collective call that can be told"


def _trace_document(result: TraceComparison) -> Document:
    mapped = bool(result.rank_map.given)
    calls = []
    for one in result.calls:
        known = {
            "algorithm": one.algorithm or None,
            "protocol": one.protocol or None,
            "places": one.places if mapped else None,
        }
        calls.append(one._asdict() | known)
    return (
        {"fabric": result.fabric, **set_field(result.overrides), "library": result.library or None}
        | {
            "map": (
                {"given": result.rank_map.given, "places": result.rank_map.places}
                if mapped
                else None
            )
        }
        | {"world": result.world, "device": result.device or None, "nccl": result.nccl or None}
        | fields(result, "steps window_s share exposed overlap of_expected")
        | {"ranks": [one._asdict() | {"overlap": one.overlap} for one in result.activity]}
        | {
            "waits": {
                "ranks": [one._asdict() for one in result.waits.ranks],
                "collectives": [one._asdict() for one in result.waits.collectives],
            }
        }
        | {"unpriced": [one._asdict() for one in result.unpriced]}
        | (
            {"replayed": [graph_document(one) for one in result.replayed]}
            if result.replayed
            else {}
        )
        | (
            {"against": [one._asdict() for one in compared_totals(result)]}
            if result.against
            else {}
        )
        | {
            "verdict": trace_verdict(result),
            "blame": list(_blame(result)),
            **fields(result, "wires"),
        }
        | {
            "totals": [
                one._asdict() | fields(one, "busbw_Bps of_expected exposed")
                for one in result.totals
            ],
            "calls": calls,
        }
        | fields(result, "findings files left_out")
    )


def _trace_summary(result: TraceComparison) -> str:
    more = filter(None, (_replayed(result), _waited(result), against(result)))
    return "\n".join((trace_title(result), trace_verdict(result), *_blame(result), *more))


VIEWS = {TraceComparison: View("trace", _trace_blocks, _trace_document, _totals, _trace_summary)}
