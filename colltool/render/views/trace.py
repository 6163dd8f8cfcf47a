"""``trace``: the collectives of profiler traces against predicted times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

from colltool.base.errors import clipped
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    size_text,
    whole_percent,
)
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
from colltool.traces.chakra import Replayed
from colltool.traces.compared import ComparedCalls, compared_totals
from colltool.traces.results import LinkHealth, TraceComparison
from colltool.traces.trace import ranks_text
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
    label("primitive", "primitive", attrgetter("spoken")),
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
    number("kept", "others", get=lambda row: sum(calls for _, calls in row.kept)),
)
_COMPARED = (
    label("primitive", "primitive", attrgetter("spoken")),
    number("ranks", "ranks"),
    number("bytes", "size", size_text),
    number("then_s", "before", format_time),
    number("now_s", "now", format_time),
    number("change_s", "change", signed_time),
)
_TOTALS = (
    label("group", "group", clipped, 4),
    number("ranks", "ranks", get=attrgetter("group_size")),
    label("stride", "stride", drop=5, get=lambda row: axes_text(row.axes)),
    label("tiers", "on", drop=6, get=lambda row: ", ".join(row.tiers)),
    label("primitive", "primitive", attrgetter("spoken")),
    number("bytes", "size", size_text),
    label("dtype", "dtype", clipped, hidden=True),
    label("coalesced", "", get=lambda row: "coalesced" if row.coalesced else "", hidden=True),
    number("calls", "calls"),
    label("kernel", "kernel", drop=8),
    number("each_s", "measured", format_time),
    label("bound", "", get=lambda row: "at most" if row.bound else "", hidden=True),
    number("busbw_Bps", "busbw", format_rate, 3),
    number("expected_s", "expected", format_time, 1),
    label("algorithm", "by", drop=7, get=attrgetter("runs")),
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
        [wire for wire in result.wires if wire.verdict == verdict]
        for verdict in ("slow", "fine", "unknown")
    )
    if slow:
        lost = ", ".join(
            f"{percent(wire.exposed)} of {_window(result)} is exposed on {wire.tier}"
            for wire in slow
        )
        yield f"{_named(slow)} slow: {_reached_by(slow + fine)}; {lost}"
        for wire in slow:
            if both := [other.tier for other in slow if other.tier in wire.beside]:
                yield (
                    f"whether {wire.tier} is slow too cannot be told: its calls go over"
                    f" {' and '.join(both)} as well"
                )
    elif fine:
        cleared = (
            f"{' and '.join(wire.tier for wire in fine)} {'is' if len(fine) == 1 else 'are'} not"
        )
        yield f"{cleared if unknown else 'no tier is'} slow: {_reached_by(fine)}"
    elif not unknown:
        yield from (f"no tier can be named: {why}" for why, _ in _reasons(result).most_common(1))
    for wire in unknown:
        who = "no tier can" if len(unknown) == len(result.wires) == 1 else f"{wire.tier} cannot"
        waiting = (
            f"all but {format_time(wire.expected_s)} of the {format_time(wire.measured_s)} measured"
            f" on {wire.tier}"
        )
        yield f"{who} be blamed: times are upper bounds, for {wire.why}; {waiting} may be waiting"
        cures = [f"record {ranks_text(wire.missing)} as well"] if wire.missing else []
        cures += [f"measure {wire.tier} alone: {wire.measure}"] if wire.measure else []
        if cures:
            yield f"next: {', or '.join(cures)}"
    yield from (wire.note for wire in slow + fine if wire.note)


def _named(slow: Sequence[LinkHealth]) -> str:
    """``ib is``, ``ib or nvlink is``, ``nvlink and ib are``; tiers whose calls also cross another
    slow tier are not named."""
    known = {wire.tier for wire in slow}
    names = [
        " or ".join((wire.tier, *wire.beside)) for wire in slow if not known & set(wire.beside)
    ]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _reached_by(wires: Sequence[LinkHealth]) -> str:
    """Such as ``calls that cross ib reach 45% of expected, those inside nvlink 97%``."""
    parts: list[str] = []
    for wire in wires:
        where = f"inside {wire.tier}" if wire.innermost else f"that cross {wire.tier}"
        reached = f"{'' if wire.clear else 'at least '}{reached_percent(wire.of_expected)}"
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
    slowest = max(result.replayed, key=lambda row: row.priced_s)
    kept = f"; {counted(slowest.unpriced, 'node')} without a price" if slowest.unpriced else ""
    which = graph_name(slowest)
    takes = f"takes {format_time(slowest.priced_s)}, {format_time(slowest.recorded_s)} as recorded"
    return f"With these prices the graph of {which} {takes}{kept}."


def graph_name(graph: Replayed) -> str:
    return f"rank {graph.rank}" if graph.rank is not None else clipped(graph.file)


def kept_lines(graphs: Sequence[Replayed]) -> list[Block]:
    """Why calls of graphs keep their recorded durations."""
    whys = Counter[str]()
    for graph in graphs:
        whys.update(dict(graph.kept))
    return listed(
        "left as recorded",
        (f"{why}: {counted(calls, 'node')}" for why, calls in whys.most_common()),
    )


def graph_document(graph: Replayed) -> Document:
    return graph._asdict() | {"kept": dict(graph.kept)}


def _waited(result: TraceComparison) -> str:
    """Where waiting for a late rank outweighs the wire."""
    wire, wait = (
        sum(getattr(wait, key) for wait in result.waits.collectives) for key in ("wire_s", "wait_s")
    )
    if not wait or wait < wire * _NOTABLE:
        return ""
    late = max(result.waits.ranks, key=lambda row: row.last)
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
    now, then = (
        comparison.window_s / max(1, comparison.steps or len(comparison.files))
        for comparison in (result, other)
    )
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
    then, now = (format_time(time) if time else "none" for time in (row.then_s, row.now_s))
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
    for wire in result.wires:
        if wire.why and wire.verdict != "unknown":
            yield (
                f"{wire.calls - wire.clear} of {wire.calls} times on {wire.tier} are upper bounds:"
                f" {wire.why}"
            )
    hidden = [
        f"rank {device.rank}: {percent(device.overlap)}"
        for device in result.activity
        if device.overlap is not None
    ]
    if result.overlap is not None:
        yield f"compute hides {percent(result.overlap)} of the communication time{_each(hidden)}"
    yield from dict.fromkeys(device.doubt for device in result.activity if device.doubt)
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
    out += [Lines(f"findings: {finding.series}", finding.findings) for finding in result.findings]
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
    for excluded in result.left_out:
        yield f"{excluded.reason}: {counted(excluded.kernels, 'kernel')}, first in {clipped(excluded.file)}"
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
    for call in result.calls:
        known = {
            "algorithm": call.algorithm or None,
            "protocol": call.protocol or None,
            "places": call.places if mapped else None,
        }
        calls.append(call._asdict() | known)
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
        | {"ranks": [device._asdict() | {"overlap": device.overlap} for device in result.activity]}
        | {
            "waits": {
                "ranks": [rank._asdict() for rank in result.waits.ranks],
                "collectives": [wait._asdict() for wait in result.waits.collectives],
            }
        }
        | {"unpriced": [call._asdict() for call in result.unpriced]}
        | (
            {"replayed": [graph_document(graph) for graph in result.replayed]}
            if result.replayed
            else {}
        )
        | (
            {"against": [total._asdict() for total in compared_totals(result)]}
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
                total._asdict() | fields(total, "busbw_Bps of_expected exposed")
                for total in result.totals
            ],
            "calls": calls,
        }
        | fields(result, "findings files left_out")
    )


def _trace_summary(result: TraceComparison) -> str:
    more = filter(None, (_replayed(result), _waited(result), against(result)))
    return "\n".join((trace_title(result), trace_verdict(result), *_blame(result), *more))


VIEWS = {TraceComparison: View("trace", _trace_blocks, _trace_document, _totals, _trace_summary)}
