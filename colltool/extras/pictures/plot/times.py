"""Stacked bars of time (the phases of a collective, a training step and its memory, the calls of a
trace), and the crossover
chart: which algorithm is fastest at which size, as ribbons over sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.analysis.jobs import Plans
from colltool.base.formatting import (
    format_bytes,
    format_factor,
    format_time,
    percent,
    size_text,
    title_size,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import AlgorithmPair, Breakdown, Crossover
from colltool.extras.pictures.plot.chart import (
    ACROSS,
    COLOURS,
    DARK_TEXT,
    GREY,
    NAMES_WIDE,
    Bar,
    BarPiece,
    Chart,
    Key,
    Panel,
    bars_panel,
    colour_of,
    hatch_of,
    letter,
    letters,
    log_scale,
    text_on,
    wrapped,
)
from colltool.render.dispatch import on_fabric
from colltool.render.estimates import heading
from colltool.render.views.explain import crossover_title, library_title
from colltool.render.views.plan import plan_title
from colltool.render.views.trace import trace_title
from colltool.render.views.trace import trace_verdict as judged
from colltool.traces.results import CallTotal, TraceComparison
from colltool.training.memory import Memory
from colltool.training.plan import Plan
from colltool.training.step_time import StepPart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SOFTWARE = "--"  # not dots: as SVG curves they take 10 KB per colour
_MOST_TIMES = 2.5  # times the estimate: where the axis ends; longer baselines get an arrow
_MOST_BARS = 16
_CALL = COLOURS[0]


def _short(seconds: Any) -> str:
    return format_time(float(seconds), 3)


def breakdown_chart(result: Breakdown, _paged: bool) -> Chart:
    row = result.price.results[0]
    bars = [Bar(row.title, _whole(row), _short(row.total_s))]
    for at, phase in enumerate(row.phases if row.streams else ()):
        latency = BarPiece(float(phase.alpha_s), "", colour_of(at), ACROSS)
        bandwidth = BarPiece(float(phase.bandwidth_s), letter(at), colour_of(at))
        bars.append(Bar(f"{letter(at)}, streamed", (latency, bandwidth), _short(phase.total_s)))
    for one in result.baselines:
        parts = (
            (one.steps_s, ACROSS),
            (one.moved_s, ""),
            (one.overhead_s, "xx"),
            (max(0.0, one.rest_s), _SOFTWARE),
        )
        pieces = tuple(BarPiece(float(amount), "", GREY, hatch) for amount, hatch in parts)
        bars.append(
            Bar(
                one.title,
                pieces,
                f"{_short(one.total_s)}, {format_factor(float(one.total_s / row.total_s), 3)}",
            )
        )
    keys = [
        Key(f"{letter(at)}  {_phase(phase)}", colour_of(at)) for at, phase in enumerate(row.phases)
    ]
    keys += [Key(f"launch overhead {_short(row.overhead_s)}", GREY, "xx")] if row.overhead_s else []
    keys += [Key(f"software {_short(row.rest_s)}", GREY, _SOFTWARE)] if row.rest_s > 0 else []
    keys += [Key("hatched: latency (alpha)", GREY, ACROSS), Key("plain: bandwidth", GREY)]
    title = f"{row.title}: {heading(result.price)}"
    phases = "; ".join(
        f"{_phase(phase)} ({percent(float(phase.total_s / row.total_s))})" for phase in row.phases
    )
    beside = ", ".join(f"{one.title} {_short(one.total_s)}" for one in result.baselines)
    alt = f"{title}, {_short(row.total_s)} in all. {phases}." + (
        f" Flat baselines: {beside}." if beside else ""
    )
    return Chart(
        title, alt, (bars_panel(bars, _short, "", _MOST_TIMES * float(row.total_s), "time"),), keys
    )


def _phase(phase: PhaseCost) -> str:
    where = " ".join(dict.fromkeys(filter(None, (phase.tier, phase.level))))
    return (
        f"{where}: {phase.primitive.spoken}, {phase.algorithm} {_short(phase.alpha_s)} +"
        f" {_short(phase.bandwidth_s)}"
    )


def _whole(row: AlgorithmEstimate) -> tuple[BarPiece, ...]:
    # phases that stream through each other share one bandwidth piece, that of the busiest tier
    pieces: list[BarPiece] = []
    for at, phase in enumerate(row.phases):
        pieces.append(BarPiece(float(phase.alpha_s), letter(at), colour_of(at), ACROSS))
        if not row.streams:
            pieces.append(
                BarPiece(
                    float(phase.bandwidth_s),
                    f"{letter(at)} {_short(phase.bandwidth_s)}",
                    colour_of(at),
                )
            )
    if row.streams:
        pieces.append(BarPiece(float(row.moved_s), "at once", GREY))
    rest = BarPiece(max(0.0, float(row.rest_s)), "", GREY, _SOFTWARE)
    return (*pieces, BarPiece(float(row.overhead_s), "launch", GREY, "xx"), rest)


def plan_chart(result: Plan, _paged: bool) -> Chart:
    names = [part.name for part in result.parts]
    step = Bar("step", _pieces(result.parts, names), _short(result.step_s))
    free = Bar(
        "free network", (BarPiece(result.control_step_s, "", GREY),), _short(result.control_step_s)
    )
    panels = [bars_panel([step, free], _short, "the step, and the same with a free network")]
    keys, bars = [], []
    sent = {one.sent.call.dimension for one in result.collectives if one.paces}
    for at, part in enumerate(result.parts):
        share = f" ({percent(part.exposed_s / result.step_s)})" if result.step_s else ""
        keys.append(
            Key(
                f"{letter(at)}  {part.name} {_short(part.exposed_s)}{share}",
                colour_of(at),
                hatch_of(at),
            )
        )
        if part.name in sent:
            ways = ((part.hidden_s, "hidden", ACROSS), (part.exposed_s, "exposed", ""))
            pieces = tuple(
                BarPiece(seconds, how, colour_of(at), hatch) for seconds, how, hatch in ways
            )
            said = ", ".join(f"{_short(seconds)} {how}" for seconds, how, _ in ways if seconds)
            bars.append(Bar(f"{letter(at)}  {part.name}", pieces, said))
    if bars:
        panels.append(
            bars_panel(
                bars, _short, "communication: hidden under compute (hatched), exposed (plain)"
            )
        )
    memory = result.memory
    if memory is not None and (kept := _kept(memory)):
        looks = [
            (part, size, letter(at), colour_of(at), hatch_of(at))
            for at, (part, size) in enumerate(kept, len(names))
        ]
        pieces = tuple(
            BarPiece(size, f"{name} {format_bytes(size, 2)}", *colours)
            for _, size, name, *colours in looks
        )
        bar = Bar(f"stage {memory.worst_stage}", pieces, mark=memory.capacity_bytes)
        panels.append(
            bars_panel(
                [bar],
                lambda size: format_bytes(size, 3),
                f"memory of the worst stage: {_room(memory)}",
            )
        )
        keys += [
            Key(f"{name}  {part} {format_bytes(size, 3)}", *colours)
            for part, size, name, *colours in looks
        ]
        keys += [Key("memory of the device")] if memory.capacity_bytes else []
    most = sorted(result.parts, key=lambda part: -part.exposed_s)[:4]
    parts = ", ".join(f"{part.name} {_short(part.exposed_s)}" for part in most)
    steps = (
        f"a step of {_short(result.step_s)}, {_short(result.control_step_s)} with a free network"
    )
    alt = f"{plan_title(result)}: {steps}. Most of it: {parts}." + (
        f" Memory {_room(memory)}." if memory else ""
    )
    return Chart(plan_title(result), alt, tuple(panels), keys)


def _pieces(parts: Sequence[StepPart], names: Sequence[str]) -> tuple[BarPiece, ...]:
    placed = ((names.index(part.name), part.exposed_s) for part in parts)
    return tuple(
        BarPiece(exposed, f"{letter(at)} {_short(exposed)}", colour_of(at), hatch_of(at))
        for at, exposed in placed
    )


def _kept(memory: Memory) -> list[tuple[str, float]]:
    found: dict[str, float] = {}
    for part in memory.parts:
        if part.stage == memory.worst_stage:
            found[part.part] = found.get(part.part, 0.0) + part.bytes
    return sorted(((name, size) for name, size in found.items() if size), key=lambda one: -one[1])


def _room(memory: Memory) -> str:
    room = f" of {format_bytes(memory.capacity_bytes, 3)}" if memory.capacity_bytes else ""
    return (
        format_bytes(memory.bytes, 3)
        + room
        + {True: ": fits", False: ": DOES NOT FIT", None: ""}[memory.fits]
    )


def plans_chart(result: Plans, _paged: bool) -> Chart:
    names = list(dict.fromkeys(part.name for plan in result.plans for part in plan.parts))
    bars = []
    for at, plan in enumerate(result.plans):
        took = _short(plan.step_s) + (f", {format_factor(result.ratio(at), 3)}" if at else "")
        bars.append(Bar(result.titles[at], _pieces(plan.parts, names), took, plan.control_step_s))
    keys = [
        Key(f"{letter(at)}  {name}", colour_of(at), hatch_of(at)) for at, name in enumerate(names)
    ]
    first = result.plans[0]
    title = f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks"
    alt = (
        f"A step of {first.job.name} on {first.ranks} ranks:"
        f" {', '.join(f'{bar.name} {bar.behind}' for bar in bars)}."
    )
    return Chart(
        title,
        alt,
        (bars_panel(bars, _short, along="time of a step"),),
        (*keys, Key("the end with a free network")),
    )


def trace_chart(result: TraceComparison, _paged: bool) -> Chart:
    totals = longest(result)
    rest = (
        f" (the {len(totals)} of {len(result.totals)} that took most)"
        if len(totals) < len(result.totals)
        else ""
    )
    bars = []
    for one in totals:
        calls = f"{one.calls} x " if one.calls > 1 else ""
        took = _short(one.total_s) + (
            "" if one.of_expected is None else f", {percent(one.of_expected, 0)} of expected"
        )
        pieces = (
            BarPiece(one.total_s - one.exposed_s, "hidden", _CALL, ACROSS),
            BarPiece(one.exposed_s, "exposed", _CALL),
        )
        name = f"{calls}{one.primitive.spoken} {size_text(one.bytes)}, {one.group_size} ranks"
        bars.append(
            Bar(name, pieces, took, None if one.expected_s is None else one.expected_s * one.calls)
        )
    keys = (
        Key("hatched: hidden under compute", _CALL, ACROSS),
        Key("plain: exposed", _CALL),
        Key("expected of the fabric"),
    )
    title, most = trace_title(result), "; ".join(f"{bar.name}: {bar.behind}" for bar in bars[:3])
    panel = bars_panel(bars, _short, along="time of all calls, on all ranks with a trace")
    alt = f"{title}: {judged(result)}. Longest: {most}."
    return Chart(f"{title}{rest}: {judged(result)}", alt, (panel,), keys, points=9)


def longest(result: TraceComparison) -> list[CallTotal]:
    return sorted(result.totals, key=lambda one: -one.total_s)[:_MOST_BARS]


_USUAL = (1e3, 1e9)
_BEYOND = 30.0  # factor by which the axis goes past the outermost change
_MOST_PAIRS = 6
_TALL = 0.27  # half the height of a ribbon, as a share of its row


class Stretch(NamedTuple):
    """The algorithm that wins from one size to another (None: without end), with its protocol where
    known."""

    from_bytes: float
    to_bytes: float | None
    name: str
    protocol: str = ""


class Ribbon(NamedTuple):
    title: str
    stretches: tuple[Stretch, ...]


def ribbons_of(result: Crossover) -> list[Ribbon]:
    """A ribbon for each pair of algorithms, for all of them, and for the library's own picks."""
    found = [
        Ribbon(f"{pair.a} or {pair.b}", tuple(_of_pair(pair)))
        for pair in result.pairs[:_MOST_PAIRS]
    ]
    for title, winners in (
        ("fastest of all", result.winners),
        (f"what {library_title(result)} picks", result.picks),
    ):
        found.append(
            Ribbon(
                title,
                tuple(
                    Stretch(one.from_bytes, one.to_bytes, one.algorithm, one.protocol)
                    for one in winners
                ),
            )
        )
    return [one for one in found if one.stretches]


def _of_pair(pair: AlgorithmPair) -> Iterator[Stretch]:
    if pair.crossings:
        begins = [1.0, *(one.bytes for one in pair.crossings)]
        for (start, end), one in zip(pairwise(begins), pair.crossings, strict=True):
            yield Stretch(start, end, one.faster_below)
        yield Stretch(begins[-1], None, pair.crossings[-1].faster_above)
    elif pair.dominates is not None:
        yield Stretch(1.0, None, pair.dominates)


def crossover_chart(result: Crossover, _paged: bool) -> Chart:
    ribbons = ribbons_of(result)
    names = list(dict.fromkeys(one.name for ribbon in ribbons for one in ribbon.stretches))
    keys = [Key(f"{letter(at)}  {name}", colour_of(at)) for at, name in enumerate(names)]
    steps = ", ".join(
        f"{one.algorithm} from {format_bytes(one.from_bytes, 3)}" for one in result.winners
    )
    pairs = "; ".join(f"{pair.a} or {pair.b}: {_said(pair)}" for pair in result.pairs[:_MOST_PAIRS])
    alt = (
        f"Who is fastest over message size: {crossover_title(result)}. Of all:"
        f" {steps}.{f' {pairs}.' if pairs else ''}"
    )
    panel = Panel(partial(_ribbons, ribbons, names), 0.62 * len(ribbons) + 0.5)
    return Chart(crossover_title(result), alt, (panel,), keys)


def _said(pair: AlgorithmPair) -> str:
    if not pair.crossings:
        return f"always {pair.dominates}" if pair.dominates else "the same"
    return ", ".join(
        f"{one.faster_above} from {format_bytes(one.bytes, 3)}" for one in pair.crossings
    )


def _ribbons(ribbons: Sequence[Ribbon], names: Sequence[str], axes: Axes, inches: float) -> None:
    changes = [[one.from_bytes for one in ribbon.stretches[1:]] for ribbon in ribbons]
    low = max(1.0, min([_USUAL[0], *(size / _BEYOND for sizes in changes for size in sizes)]))
    high = max([_USUAL[1], *(size * _BEYOND for sizes in changes for size in sizes)])
    a_step = ((1 - NAMES_WIDE) * inches - 0.2) / log(high / low)  # inches per factor of e
    for row, ribbon in enumerate(ribbons):
        for one in ribbon.stretches:
            start, end = max(one.from_bytes, low), min(one.to_bytes or high, high)
            if start < end:
                at = names.index(one.name)
                colour = colour_of(at)
                axes.fill_between(
                    (start, end),
                    row - _TALL,
                    row + _TALL,
                    facecolor=colour,
                    edgecolor=DARK_TEXT,
                    linewidth=0.4,
                )
                fits, full = (
                    letters(a_step * log(end / start)),
                    " ".join(filter(None, (letter(at), one.protocol))),
                )
                text = next((text for text in (full, letter(at)) if len(text) <= fits), "")
                axes.text(
                    (start * end) ** 0.5, row, text, ha="center", va="center", color=text_on(colour)
                )
        free = low
        for size in changes[row]:  # one too close to the last is left out: the table has it
            text = format_bytes(size, 3)
            if size > low and a_step * log(size / free) >= 0.065 * len(text):
                axes.text(size, row - _TALL - 0.05, text, ha="center", va="bottom", fontsize=7)
                free = size
    log_scale(axes, "x", (low, high), title_size)
    axes.set_xlabel("message size")
    axes.set_yticks(
        range(len(ribbons)), [wrapped(ribbon.title, NAMES_WIDE * inches) for ribbon in ribbons]
    )
    axes.set_ylim(len(ribbons) - 0.5, -0.6)
    axes.grid(visible=False, axis="y")
