"""Stacked bars of time: the phases of a collective, a training step and its memory, the calls of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colltool.analysis.jobs import Plans
from colltool.base.formatting import format_bytes, format_factor, format_time, percent, size_text
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Breakdown
from colltool.render.dispatch import on_fabric
from colltool.render.estimates import heading
from colltool.render.plot.chart import ACROSS, GREY, Bar, BarPiece, Chart, Key, bars_panel, colour_of, hatch_of
from colltool.render.plot.style import COLOURS, letter
from colltool.render.views.doctor import trace_title
from colltool.render.views.doctor import trace_verdict as judged
from colltool.render.views.plan import plan_title
from colltool.render.views.price import streams
from colltool.traces.results import CallTotal, TraceComparison
from colltool.training.memory import Memory
from colltool.training.plan import Plan
from colltool.training.step_time import StepPart

_SOFTWARE = "--"  # not dots: as SVG curves they take 10 KB per colour
_MOST_TIMES = 2.5  # times the estimate: where the axis ends; longer baselines get an arrow
_MOST_BARS = 16
_CALL = COLOURS[0]


def _short(seconds: Any) -> str:
    return format_time(float(seconds), 3)


def breakdown_chart(result: Breakdown, _paged: bool) -> Chart:
    row = result.price.results[0]
    bars = [Bar(row.title, _whole(row), _short(row.total_s)), *(_streamed(row) if streams(row) else ())]
    bars += [_baseline(one, row) for one in result.baselines]
    keys = [Key(f"{letter(at)}  {_phase(phase)}", colour_of(at)) for at, phase in enumerate(row.phases)]
    keys += [Key(f"launch overhead {_short(row.overhead_s)}", GREY, "xx")] if row.overhead_s else []
    keys += [Key(f"software {_short(row.software_s)}", GREY, _SOFTWARE)] if row.software_s else []
    keys += [Key("hatched: latency (alpha)", GREY, ACROSS), Key("plain: bandwidth", GREY)]
    title = f"{row.title}: {heading(result.price)}"
    phases = "; ".join(f"{_phase(phase)} ({percent(float(phase.total_s / row.total_s))})" for phase in row.phases)
    beside = ", ".join(f"{one.title} {_short(one.total_s)}" for one in result.baselines)
    alt = f"{title}, {_short(row.total_s)} in all. {phases}." + (f" Flat baselines: {beside}." if beside else "")
    return Chart(title, alt, (bars_panel(bars, _short, "", _MOST_TIMES * float(row.total_s), "time"),), keys)


def _phase(phase: PhaseCost) -> str:
    where = " ".join(dict.fromkeys(filter(None, (phase.tier, phase.level))))
    return f"{where}: {phase.primitive.spoken}, {phase.algorithm} {_short(phase.alpha_s)} + {_short(phase.bandwidth_s)}"


def _whole(row: AlgorithmEstimate) -> tuple[BarPiece, ...]:
    # phases that stream through each other share one bandwidth piece, that of the busiest tier
    pieces: list[BarPiece] = []
    for at, phase in enumerate(row.phases):
        pieces.append(BarPiece(float(phase.alpha_s), letter(at), colour_of(at), ACROSS))
        if not streams(row):
            pieces.append(BarPiece(float(phase.bandwidth_s), f"{letter(at)} {_short(phase.bandwidth_s)}", colour_of(at)))
    if streams(row):
        pieces.append(BarPiece(float(row.bandwidth_s), "at once", GREY))
    return (*pieces, BarPiece(float(row.overhead_s), "launch", GREY, "xx"), BarPiece(float(row.software_s), "", GREY, _SOFTWARE))


def _streamed(row: AlgorithmEstimate) -> list[Bar]:
    bars = []
    for at, phase in enumerate(row.phases):
        latency = BarPiece(float(phase.alpha_s), "", colour_of(at), ACROSS)
        bandwidth = BarPiece(float(phase.bandwidth_s), letter(at), colour_of(at))
        bars.append(Bar(f"{letter(at)}, streamed", (latency, bandwidth), _short(phase.total_s)))
    return bars


def _baseline(one: AlgorithmEstimate, row: AlgorithmEstimate) -> Bar:
    parts = ((one.alpha_s, ACROSS), (one.bandwidth_s, ""), (one.overhead_s, "xx"), (one.software_s, _SOFTWARE))
    pieces = tuple(BarPiece(float(amount), "", GREY, hatch) for amount, hatch in parts)
    return Bar(one.title, pieces, f"{_short(one.total_s)}, {format_factor(float(one.total_s / row.total_s), 3)}")


def plan_chart(result: Plan, _paged: bool) -> Chart:
    names = [part.name for part in result.parts]
    step = Bar("step", _pieces(result.parts, names), _short(result.step_s))
    free = Bar("free network", (BarPiece(result.control_step_s, "", GREY),), _short(result.control_step_s))
    panels = [bars_panel([step, free], _short, "the step, and the same with a free network")]
    keys = [_step_key(at, part, result.step_s) for at, part in enumerate(result.parts)]
    sent = {one.sent.call.dimension for one in result.collectives if one.paces}
    bars = [_dimension(part, at) for at, part in enumerate(result.parts) if part.name in sent]
    if bars:
        panels.append(bars_panel(bars, _short, "communication: hidden under compute (hatched), exposed (plain)"))
    if result.memory is not None and (kept := _kept(result.memory)):
        at = range(len(names), len(names) + len(kept))
        looks = [(letter(i), colour_of(i), hatch_of(i)) for i in at]
        pieces = tuple(
            BarPiece(size, f"{name} {format_bytes(size, 2)}", colour, hatch)
            for (_, size), (name, colour, hatch) in zip(kept, looks, strict=True)
        )
        bar = Bar(f"stage {result.memory.worst_stage}", pieces, mark=result.memory.capacity_bytes)
        title = f"memory of the worst stage: {_room(result.memory)}"
        panels.append(bars_panel([bar], lambda size: format_bytes(size, 3), title))
        keys += [
            Key(f"{name}  {part} {format_bytes(size, 3)}", colour, hatch)
            for (part, size), (name, colour, hatch) in zip(kept, looks, strict=True)
        ]
        keys += [Key("memory of the device")] if result.memory.capacity_bytes else []
    most = sorted(result.parts, key=lambda part: -part.exposed_s)[:4]
    parts = ", ".join(f"{part.name} {_short(part.exposed_s)}" for part in most)
    memory = f" Memory {_room(result.memory)}." if result.memory else ""
    steps = f"a step of {_short(result.step_s)}, {_short(result.control_step_s)} with a free network"
    return Chart(plan_title(result), f"{plan_title(result)}: {steps}. Most of it: {parts}.{memory}", tuple(panels), keys)


def _pieces(parts: Sequence[StepPart], names: Sequence[str]) -> tuple[BarPiece, ...]:
    placed = ((names.index(part.name), part.exposed_s) for part in parts)
    return tuple(BarPiece(exposed, f"{letter(at)} {_short(exposed)}", colour_of(at), hatch_of(at)) for at, exposed in placed)


def _step_key(at: int, part: StepPart, step_s: float) -> Key:
    share = f" ({percent(part.exposed_s / step_s)})" if step_s else ""
    return Key(f"{letter(at)}  {part.name} {_short(part.exposed_s)}{share}", colour_of(at), hatch_of(at))


def _dimension(part: StepPart, at: int) -> Bar:
    pieces = (BarPiece(part.hidden_s, "hidden", colour_of(at), ACROSS), BarPiece(part.exposed_s, "exposed", colour_of(at)))
    said = [f"{_short(seconds)} {how}" for seconds, how in ((part.hidden_s, "hidden"), (part.exposed_s, "exposed")) if seconds]
    return Bar(f"{letter(at)}  {part.name}", pieces, ", ".join(said))


def _kept(memory: Memory) -> list[tuple[str, float]]:
    found: dict[str, float] = {}
    for part in memory.parts:
        if part.stage == memory.worst_stage:
            found[part.part] = found.get(part.part, 0.0) + part.bytes
    return sorted(((name, size) for name, size in found.items() if size), key=lambda one: -one[1])


def _room(memory: Memory) -> str:
    room = f" of {format_bytes(memory.capacity_bytes, 3)}" if memory.capacity_bytes else ""
    fits = {True: ": fits", False: ": DOES NOT FIT", None: ""}[memory.fits]
    return f"{format_bytes(memory.bytes, 3)}{room}{fits}"


def plans_chart(result: Plans, _paged: bool) -> Chart:
    names = list(dict.fromkeys(part.name for plan in result.plans for part in plan.parts))
    took = [
        _short(plan.step_s) + (f", {format_factor(result.ratio(at), 3)}" if at else "") for at, plan in enumerate(result.plans)
    ]
    bars = [
        Bar(result.titles[at], _pieces(plan.parts, names), took[at], plan.control_step_s) for at, plan in enumerate(result.plans)
    ]
    keys = [Key(f"{letter(at)}  {name}", colour_of(at), hatch_of(at)) for at, name in enumerate(names)]
    first = result.plans[0]
    title = f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks"
    steps = ", ".join(f"{result.titles[at]} {text}" for at, text in enumerate(took))
    alt = f"A step of {first.job.name} on {first.ranks} ranks: {steps}."
    return Chart(title, alt, (bars_panel(bars, _short, along="time of a step"),), (*keys, Key("the end with a free network")))


def trace_chart(result: TraceComparison, _paged: bool) -> Chart:
    totals = longest(result)
    rest = f" (the {len(totals)} of {len(result.totals)} that took most)" if len(totals) < len(result.totals) else ""
    keys = (
        Key("hatched: hidden under compute", _CALL, ACROSS), Key("plain: exposed", _CALL), Key("expected of the fabric"),
    )  # fmt: skip
    most = "; ".join(f"{_call(one)}: {_took(one)}" for one in totals[:3])
    alt = f"{trace_title(result)}: {judged(result)}. Longest: {most}."
    panel = bars_panel(list(map(_total, totals)), _short, along="time of all calls, on all ranks with a trace")
    return Chart(f"{trace_title(result)}{rest}: {judged(result)}", alt, (panel,), keys, points=9)


def longest(result: TraceComparison) -> list[CallTotal]:
    return sorted(result.totals, key=lambda one: -one.total_s)[:_MOST_BARS]


def _total(one: CallTotal) -> Bar:
    pieces = (BarPiece(one.total_s - one.exposed_s, "hidden", _CALL, ACROSS), BarPiece(one.exposed_s, "exposed", _CALL))
    return Bar(_call(one), pieces, _took(one), None if one.expected_s is None else one.expected_s * one.calls)


def _call(one: CallTotal) -> str:
    calls = f"{one.calls} x " if one.calls > 1 else ""
    return f"{calls}{one.primitive.spoken} {size_text(one.bytes)}, {one.group_size} ranks"


def _took(one: CallTotal) -> str:
    return _short(one.total_s) + ("" if one.of_expected is None else f", {percent(one.of_expected, 0)} of expected")
