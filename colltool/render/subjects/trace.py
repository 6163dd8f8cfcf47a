"""``trace``: the collectives of profiler traces beside the prices of a fabric."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.render.parts import Block, Column, Lines, Table, label, number
from colltool.render.subject import Document, Subject, on_fabric, set_field, set_text
from colltool.shown import clipped
from colltool.traces.results import Call, File, Total, Trace
from colltool.words import counted, format_rate, format_time, percent, size_text, whole_percent
from colltool.workload.layout import Axes

CARRIER = "kernels' names tell little: LL stands for any protocol, RING since NCCL 2.19 for all but trees (colltool guide traces)"
BOUND = "measured times are upper bounds: a kernel waits for the slowest rank, and not every rank has a trace"


def _axes(axes: Axes) -> str:
    """``8``, ``8 every 4th``, ``4 x 2`` for what has several strides."""
    if not axes:
        return ""
    if len(axes) > 1:
        return ", ".join(f"{size} by {stride}" for size, stride in axes)
    return str(axes[0][1])


def _reached(share: float) -> str:
    return percent(share) if share > 10 else whole_percent(share)


_TOTALS: tuple[Column, ...] = (
    label("fabric", "fabric", get=lambda of: of[0].fabric, hidden=True),
    label("group", "group", clipped, 4, get=lambda of: of[1].group),
    number("ranks", "ranks", get=lambda of: of[1].group_size),
    label("stride", "stride", drop=5, get=lambda of: _axes(of[1].axes)),
    label("tiers", "on", drop=6, get=lambda of: ", ".join(of[1].tiers)),
    label("primitive", "primitive", lambda one: one.spoken, get=lambda of: of[1].primitive),
    number("bytes", "size", size_text, get=lambda of: of[1].bytes),
    label("dtype", "dtype", clipped, get=lambda of: of[1].dtype, hidden=True),
    label("coalesced", "", get=lambda of: "coalesced" if of[1].coalesced else "", hidden=True),
    number("calls", "calls", get=lambda of: of[1].calls),
    label("kernel", "kernel", drop=8, get=lambda of: of[1].kernel),
    number("each_s", "measured", format_time, get=lambda of: of[1].each_s),
    label("bound", "", get=lambda of: "at most" if of[1].bound else "", hidden=True),
    number("busbw_Bps", "busbw", format_rate, 3, get=lambda of: of[1].busbw_Bps),
    number("expected_s", "expected", format_time, 1, get=lambda of: of[1].expected_s),
    label("algorithm", "by", drop=7, get=lambda of: of[1].runs),
    number("of_expected", "of expected", _reached, get=lambda of: of[1].of_expected),
    number("share", "of the step", percent, 2, get=lambda of: of[1].share),
    number("exposed", "exposed", whole_percent, 3, get=lambda of: of[1].exposed),
    number("total_s", "total", format_time, get=lambda of: of[1].total_s, hidden=True),
    number("exposed_s", "exposed", format_time, get=lambda of: of[1].exposed_s, hidden=True),
    label("reason", "no price", get=lambda of: of[1].reason, hidden=True),
)
_SET = label("set", "set", get=lambda of: set_text(of[0].overrides), hidden=True)


def _table(result: Trace, title: str = "") -> Table:
    columns = (*_TOTALS, _SET) if result.overrides else _TOTALS
    table = Table(columns, tuple((result, total) for total in result.totals), None, title)
    return table if any(total.group for total in result.totals) else table.without("group")


def _title(result: Trace) -> str:
    """``15 calls of 2 traces on dgx-a100``."""
    where = on_fabric(result.fabric, result.overrides)
    of = f" of {result.world} ranks" if result.world else ""
    return f"{counted(len(result.calls), 'collective call')} in {counted(len(result.files), 'trace')}{of} on {where}"


def _window(result: Trace) -> str:
    several = len(result.files) > 1
    return counted(result.steps, "step") if result.steps else f"the whole trace{'s' * several}"


def _verdict(result: Trace) -> str:
    """What communication takes of the steps, and whether that is what it should."""
    shown = f"communication is {percent(result.share)} of {_window(result)}, {percent(result.exposed)} is exposed"
    reached = result.of_expected
    if reached is None:
        return f"{shown}; no call has a price"
    least = "at least " if any(total.bound and total.expected_s is not None for total in result.totals) else ""
    return f"{shown}; it reaches {least}{_reached(reached)} of what is expected"


def _facts(result: Trace) -> Iterator[str]:
    yield _verdict(result)
    ran = ", ".join(filter(None, (clipped(result.device), result.nccl and f"NCCL {clipped(result.nccl)}")))
    each = format_time(result.window_s / (result.steps or len(result.files)))
    spans = f"a step takes {each}" if result.steps else f"a trace spans {each}: it has no ProfilerStep# annotations"
    yield f"{spans}{f'; {ran}' if ran else ''}"
    if result.rank_map.given:
        yield f"ranks of the job sit on the fabric by {clipped(result.rank_map.given)}"
    if any(total.bound for total in result.totals):
        yield BOUND
    if any("LL" in total.kernel.split("_") for total in result.totals):
        yield CARRIER


def _blocks(result: Trace) -> list[Block]:
    out: list[Block] = [Lines(_title(result), tuple(_facts(result))), _table(result, "by group, primitive and size")]
    out += [Lines(f"findings: {one.series}", one.findings) for one in result.findings]
    reasons: dict[str, int] = {}
    for total in result.totals:
        if total.reason:
            reasons[total.reason] = reasons.get(total.reason, 0) + total.calls
    if reasons:
        out.append(Lines("without a price", tuple(f"{why}: {counted(calls, 'call')}" for why, calls in reasons.items())))
    if left := tuple(_left_out(result)):
        out.append(Lines("left out", left))
    return out


def _left_out(result: Trace) -> Iterator[str]:
    for one in result.left_out:
        yield f"{one.reason}: {counted(one.kernels, 'kernel')}, first in {clipped(one.file)}"
    for file in result.files:
        if file.broken:
            yield f"{clipped(file.file)} ends too early or is damaged: what stands before that is used"
        if not file.calls:
            yield f"{clipped(file.file)} has no collective call that can be told"


def _document(result: Trace) -> Document:
    return {"fabric": result.fabric} | set_field(result.overrides) | {
        "library": result.library or None,
        "map": {"given": result.rank_map.given, "places": result.rank_map.places} if result.rank_map.given else None,
        "world": result.world,
        "device": result.device or None,
        "nccl": result.nccl or None,
        "steps": result.steps,
        "window_s": result.window_s,
        "share": result.share,
        "exposed": result.exposed,
        "of_expected": result.of_expected,
        "verdict": _verdict(result),
        "totals": [_total(one) for one in result.totals],
        "calls": [_call(one) for one in result.calls],
        "findings": [one._asdict() for one in result.findings],
        "files": [_file(one) for one in result.files],
        "left_out": [one._asdict() for one in result.left_out],
    }  # fmt: skip


def _total(one: Total) -> Document:
    return one._asdict() | {"busbw_Bps": one.busbw_Bps, "of_expected": one.of_expected, "exposed": one.exposed}


def _call(one: Call) -> Document:
    return one._asdict() | {"algorithm": one.algorithm or None, "protocol": one.protocol or None}


def _file(one: File) -> Document:
    return one._asdict()


def _summary(result: Trace) -> str:
    return f"{_title(result)}\n{_verdict(result)}"


SUBJECTS = {Trace: Subject("trace", _blocks, _document, _table, _summary)}
