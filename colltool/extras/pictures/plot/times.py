"""Stacked bars of time: the phases of a collective, a training step and its memory, the calls of a
trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

from colltool.analysis.jobs import Plans
from colltool.base.formatting import (
    format_bytes,
    format_factor,
    format_time,
    percent,
    size_text,
)
from colltool.diagnosis.trace_results import CallTotal, TraceComparison
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Breakdown
from colltool.extras.pictures.plot.look import (
    HIDDEN_HATCH,
    PALE_GREY,
    SKY,
    colour_of,
    hatch_of,
    letter,
)
from colltool.extras.pictures.plot.panels import (
    Bar,
    BarPiece,
    Chart,
    Key,
    Panel,
    bars_panel,
    lettered_keys,
)
from colltool.render.dispatch import on_fabric
from colltool.render.estimates import heading
from colltool.render.views.plan import plan_title
from colltool.render.views.trace_answer import trace_title, trace_verdict
from colltool.training.memory import Memory
from colltool.training.plan import Plan
from colltool.training.step_time import StepPart

# Hatches of software time (not dots: as SVG curves they take 10 KB per colour) and of launches.
_SOFTWARE = "--"
_LAUNCH = "xx"
_AXIS_END_FACTOR = 2.5  # times the estimate: where the axis ends; longer baselines get an arrow
_MOST_BARS = 16  # calls of a trace
_CALL = SKY  # one colour for all calls of a trace

_short = partial(format_time, digits=3)
_bytes = partial(format_bytes, digits=3)


def breakdown_chart(result: Breakdown, _paged: bool) -> Chart:
    """The phases of an algorithm as one bar, each split into latency and bandwidth, above the bars of
    flat algorithms."""
    row = result.price.results[0]
    total_s = float(row.total_s)
    bars = [Bar(row.title, _total_pieces(row), _short(total_s))]
    if row.streams:
        for number, phase in enumerate(row.phases):
            latency = _piece(phase.alpha_s, colour_of(number), HIDDEN_HATCH)
            bandwidth = _piece(phase.bandwidth_s, colour_of(number), text=letter(number))
            title = f"{letter(number)}, streamed"
            bars.append(Bar(title, (latency, bandwidth), _short(float(phase.total_s))))
    baselines = []
    for baseline in result.baselines:
        bars.append(_baseline_bar(baseline, total_s))
        baselines.append(f"{baseline.title} {_short(float(baseline.total_s))}")
    title = f"{row.title}: {heading(result.price)}"
    alt = f"{title}, {_short(total_s)} in all. {_phase_shares(row)}."
    if baselines:
        alt += f" Flat baselines: {', '.join(baselines)}."
    panel = bars_panel(bars, _short, axis_end=_AXIS_END_FACTOR * total_s, along="time")
    return Chart(title, alt, (panel,), _phase_keys(row))


def _baseline_bar(baseline: AlgorithmEstimate, total_s: float) -> Bar:
    """The bar of a flat algorithm, and how many times the ``total_s`` of the estimate it takes."""
    pieces = (
        _piece(baseline.steps_s, PALE_GREY, HIDDEN_HATCH),
        _piece(baseline.moved_s, PALE_GREY),
        _piece(baseline.overhead_s, PALE_GREY, _LAUNCH),
        _piece(max(0.0, baseline.rest_s), PALE_GREY, _SOFTWARE),
    )
    took_s = float(baseline.total_s)
    return Bar(baseline.title, pieces, f"{_short(took_s)}, {format_factor(took_s / total_s, 3)}")


def _phase_keys(estimate: AlgorithmEstimate) -> list[Key]:
    """The legend: a colour per phase, then what is no phase, then what hatching means."""
    keys = lettered_keys(map(_phase, estimate.phases))
    if estimate.overhead_s:
        keys.append(
            Key(f"launch overhead {_short(float(estimate.overhead_s))}", PALE_GREY, _LAUNCH)
        )
    if estimate.rest_s > 0:
        keys.append(Key(f"software {_short(float(estimate.rest_s))}", PALE_GREY, _SOFTWARE))
    return [
        *keys,
        Key("hatched: latency (alpha)", PALE_GREY, HIDDEN_HATCH),
        Key("plain: bandwidth", PALE_GREY),
    ]


def _phase_shares(estimate: AlgorithmEstimate) -> str:
    """Each phase, and its share of the time."""
    texts = []
    for phase in estimate.phases:
        share = float(phase.total_s / estimate.total_s)
        texts.append(f"{_phase(phase)} ({percent(share)})")
    return "; ".join(texts)


def _phase(phase: PhaseCost) -> str:
    """A phase in the legend: where it runs, what it is, and its latency and bandwidth time."""
    place = phase.tier
    if phase.level and phase.level != place:
        place = f"{place} {phase.level}" if place else phase.level
    how = f"{phase.primitive.label}, {phase.algorithm}"
    return f"{place}: {how} {_short(float(phase.alpha_s))} + {_short(float(phase.bandwidth_s))}"


def _piece(seconds: Any, colour: str, hatch: str = "", text: str = "") -> BarPiece:
    return BarPiece(float(seconds), text, colour, hatch)


def _total_pieces(estimate: AlgorithmEstimate) -> list[BarPiece]:
    """The pieces of a total: its phases, one after the other. Phases that stream through each other
    have their latencies and one bandwidth, that of the busiest tier."""
    pieces = []
    for number, phase in enumerate(estimate.phases):
        pieces.append(_piece(phase.alpha_s, colour_of(number), HIDDEN_HATCH, letter(number)))
        if not estimate.streams:
            seconds = float(phase.bandwidth_s)
            pieces.append(
                _piece(seconds, colour_of(number), text=f"{letter(number)} {_short(seconds)}")
            )
    if estimate.streams:
        pieces.append(_piece(estimate.moved_s, PALE_GREY, text="at once"))
    # a library may take less than the wires' α, which has no piece
    rest_s = max(0.0, estimate.rest_s)
    pieces.append(_piece(estimate.overhead_s, PALE_GREY, _LAUNCH, "launch"))
    pieces.append(_piece(rest_s, PALE_GREY, _SOFTWARE))
    return pieces


def plan_chart(result: Plan, _paged: bool) -> Chart:
    """The parts of a training step, how much of its communication is hidden, and its memory."""
    names = [part.name for part in result.parts]
    step = Bar("step", _pieces(result.parts, names), _short(result.step_s))
    control_step = _short(result.control_step_s)
    free = Bar("free network", (_piece(result.control_step_s, PALE_GREY),), control_step)
    panels = [bars_panel([step, free], _short, "the step, and the same with a free network")]
    paces = {found.sent.call.dimension for found in result.collectives if found.paces}
    bars = [_hiding(at, part) for at, part in enumerate(result.parts) if part.name in paces]
    if bars:
        title = "communication: hidden under compute (hatched), exposed (plain)"
        panels.append(bars_panel(bars, _short, title))
    longest_parts = sorted(result.parts, key=lambda part: -part.exposed_s)[:4]
    most = ", ".join(f"{part.name} {_short(part.exposed_s)}" for part in longest_parts)
    title = plan_title(result)
    alt = (
        f"{title}: a step of {_short(result.step_s)}, {control_step} with a free network. Most of"
        f" it: {most}."
    )
    memory = result.memory
    labels = list(_part_labels(result))
    if memory is None:
        return Chart(title, alt, panels, lettered_keys(labels, hatched=True))
    alt += f" Memory {_room(memory)}."
    sizes = _sizes(memory)
    # Letters and colours go on from the parts of the step to those of its memory.
    labels += [f"{part} {_bytes(size)}" for part, size in sizes.items()]
    keys = lettered_keys(labels, hatched=True)
    if sizes:
        panels.append(_memory_panel(memory, sizes, len(names)))
        if memory.capacity_bytes:
            keys.append(Key("memory of the device"))
    return Chart(title, alt, panels, keys)


def _part_labels(result: Plan) -> Iterator[str]:
    """Each part of a step, with its exposed time and share."""
    for part in result.parts:
        label = f"{part.name} {_short(part.exposed_s)}"
        if result.step_s:
            label += f" ({percent(part.exposed_s / result.step_s)})"
        yield label


def _hiding(at: int, part: StepPart) -> Bar:
    """The bar of a kind of communication: how much of it compute hides."""
    pieces = []
    texts = []
    for seconds, how, hatch in (
        (part.hidden_s, "hidden", HIDDEN_HATCH),
        (part.exposed_s, "exposed", ""),
    ):
        pieces.append(BarPiece(seconds, how, colour_of(at), hatch))
        if seconds:
            texts.append(f"{_short(seconds)} {how}")
    return Bar(f"{letter(at)}  {part.name}", pieces, ", ".join(texts))


def _pieces(parts: Sequence[StepPart], names: Sequence[str]) -> list[BarPiece]:
    pieces = []
    for part in parts:
        at = names.index(part.name)
        text = f"{letter(at)} {_short(part.exposed_s)}"
        pieces.append(BarPiece(part.exposed_s, text, colour_of(at), hatch_of(at)))
    return pieces


def _sizes(memory: Memory) -> dict[str, float]:
    """What fills the memory of the worst stage, the largest first."""
    sizes: dict[str, float] = {}
    for part in memory.parts:
        if part.stage == memory.worst_stage and part.bytes:
            sizes[part.part] = sizes.get(part.part, 0.0) + part.bytes
    return dict(sorted(sizes.items(), key=itemgetter(1), reverse=True))


def _memory_panel(memory: Memory, sizes: dict[str, float], first: int) -> Panel:
    """One bar, whose colours go on after those of the ``first`` parts of the step."""
    pieces = []
    for at, size in enumerate(sizes.values(), first):
        text = f"{letter(at)} {format_bytes(size, 2)}"
        pieces.append(BarPiece(size, text, colour_of(at), hatch_of(at)))
    bar = Bar(f"stage {memory.worst_stage}", pieces, mark=memory.capacity_bytes)
    return bars_panel([bar], _bytes, f"memory of the worst stage: {_room(memory)}")


def _room(memory: Memory) -> str:
    text = _bytes(memory.bytes)
    if memory.capacity_bytes:
        text += f" of {_bytes(memory.capacity_bytes)}"
    if memory.fits is None:
        return text
    if memory.tight:
        return f"{text}: fits, tight"
    return f"{text}: fits" if memory.fits else f"{text}: DOES NOT FIT"


def plans_chart(result: Plans, _paged: bool) -> Chart:
    """The steps of several plans as bars of the same parts; a mark where each ends with a free
    network."""
    parts = chain.from_iterable(plan.parts for plan in result.plans)
    names = list(dict.fromkeys(part.name for part in parts))
    bars = []
    for at, plan in enumerate(result.plans):
        took = _short(plan.step_s)
        if at:
            took += f", {format_factor(result.ratio(at), 3)}"
        bars.append(Bar(result.titles[at], _pieces(plan.parts, names), took, plan.control_step_s))
    first = result.plans[0]
    title = f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks"
    times = ", ".join(f"{bar.name} {bar.end_text}" for bar in bars)
    alt = f"A step of {first.job.name} on {first.ranks} ranks: {times}."
    keys = [*lettered_keys(names, hatched=True), Key("the end with a free network")]
    return Chart(title, alt, (bars_panel(bars, _short, along="time of a step"),), keys)


def trace_chart(result: TraceComparison, _paged: bool) -> Chart:
    """The calls of a trace that took longest, hidden and exposed, with a mark at what is expected."""
    totals = longest(result)
    bars = list(map(_call_bar, totals))
    keys = (
        Key("hatched: hidden under compute", _CALL, HIDDEN_HATCH),
        Key("plain: exposed", _CALL),
        Key("expected of the fabric"),
    )
    title = trace_title(result)
    verdict = trace_verdict(result)
    most = "; ".join(f"{bar.name}: {bar.end_text}" for bar in bars[:3])
    alt = f"{title}: {verdict}. Longest: {most}."
    if len(totals) < len(result.totals):
        title += f" (the {len(totals)} of {len(result.totals)} that took most)"
    panel = bars_panel(bars, _short, along="time of all calls, on all ranks with a trace")
    return Chart(f"{title}: {verdict}", alt, (panel,), keys, points=9)


def _call_bar(call: CallTotal) -> Bar:
    name = f"{call.primitive.label} {size_text(call.bytes)}, {call.group_size} ranks"
    if call.calls > 1:
        name = f"{call.calls} x {name}"
    took = _short(call.total_s)
    if call.of_expected is not None:
        took += f", {percent(call.of_expected, 0)} of expected"
    hidden = BarPiece(call.total_s - call.exposed_s, "hidden", _CALL, HIDDEN_HATCH)
    exposed = BarPiece(call.exposed_s, "exposed", _CALL)
    expected = None if call.expected_s is None else call.expected_s * call.calls
    return Bar(name, (hidden, exposed), took, expected)


def longest(result: TraceComparison) -> list[CallTotal]:
    """The calls that took most in all, as many as a chart has bars."""
    return sorted(result.totals, key=lambda call: -call.total_s)[:_MOST_BARS]
