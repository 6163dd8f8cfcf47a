"""Where time goes, as stacked bars: the phases of a collective, and the parts of a training step with its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colltool.base.formatting import format_bytes, format_factor, format_time, percent
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Breakdown
from colltool.render.plot_bars import ACROSS, GREY, Bar, Piece, colour_of, draw_bars, hatch_of, mark_swatch, swatch
from colltool.render.plot_style import Sheet, add_legend, entitle, letter
from colltool.render.rows import heading
from colltool.render.subject import on_fabric
from colltool.render.subjects.breakdown import streams
from colltool.render.subjects.plan import plan_title
from colltool.render.subjects.plan_choices import apart
from colltool.training.memory import Memory
from colltool.training.plan import Plan
from colltool.training.step.whole import StepPart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from colltool.analysis.jobs import Plans

_SOFTWARE = "--"  # lines: dots are curves, 10 KB for each colour
_MOST_TIMES = 2.5  # a baseline that takes longer ends at the edge, with an arrow and its time


def draw_breakdown(result: Breakdown, sheet: Sheet) -> None:
    """The phases of a schedule one after the other, latency hatched and bandwidth plain; the flat baselines below."""
    row = result.price.results[0]
    bars = [Bar(row.title, _whole(row), _short(row.total_s)), *(_phases(row) if streams(row) else ())]
    bars += [_baseline(one, row) for one in result.baselines]
    axes = sheet.figure.add_subplot()
    draw_bars(axes, bars, _short, sheet.width, _MOST_TIMES * float(row.total_s))
    axes.set_xlabel("time")
    found = {f"{letter(at)}  {_phase(phase)}": swatch(axes, colour_of(at)) for at, phase in enumerate(row.phases)}
    if row.overhead_s:
        found[f"launch overhead {_short(row.overhead_s)}"] = swatch(axes, GREY, "xx")
    if row.software_s:
        found[f"software {_short(row.software_s)}"] = swatch(axes, GREY, _SOFTWARE)
    found["hatched: latency (alpha)"] = swatch(axes, GREY, ACROSS)
    found["plain: bandwidth"] = swatch(axes, GREY)
    under = add_legend(sheet.figure, sheet.width, found)
    entitle(sheet.figure, f"{row.title}: {heading(result.price)}", sheet.width)
    sheet.figure.set_size_inches(sheet.width, 0.5 * len(bars) + 1.2 + 0.18 * under)


def say_breakdown(result: Breakdown) -> str:
    """The bars in words: every phase with its share, and the baselines."""
    row = result.price.results[0]
    phases = "; ".join(f"{_phase(phase)} ({percent(float(phase.total_s / row.total_s))})" for phase in row.phases)
    beside = ", ".join(f"{one.title} {_short(one.total_s)}" for one in result.baselines)
    flat = f" Flat baselines: {beside}." if beside else ""
    return f"{row.title}: {heading(result.price)}, {_short(row.total_s)} in all. {phases}.{flat}"


def _short(seconds: Any) -> str:
    return format_time(float(seconds), 3)


def _phase(phase: PhaseCost) -> str:
    where = " ".join(dict.fromkeys(filter(None, (phase.tier, phase.level))))
    return f"{where}: {phase.primitive.spoken}, {phase.algorithm} {_short(phase.alpha_s)} + {_short(phase.bandwidth_s)}"


def _whole(row: AlgorithmEstimate) -> tuple[Piece, ...]:
    """All of a schedule; of phases that stream through each other the bandwidth of the busiest tier alone."""
    pieces: list[Piece] = []
    for at, phase in enumerate(row.phases):
        pieces.append(Piece(float(phase.alpha_s), letter(at), colour_of(at), ACROSS))
        if not streams(row):
            pieces.append(Piece(float(phase.bandwidth_s), f"{letter(at)} {_short(phase.bandwidth_s)}", colour_of(at)))
    if streams(row):
        pieces.append(Piece(float(row.bandwidth_s), "at once", GREY))
    return (*pieces, Piece(float(row.overhead_s), "launch", GREY, "xx"), Piece(float(row.software_s), "", GREY, _SOFTWARE))


def _phases(row: AlgorithmEstimate) -> list[Bar]:
    """Each of the phases that stream through each other."""
    bars = []
    for at, phase in enumerate(row.phases):
        parts = (
            Piece(float(phase.alpha_s), "", colour_of(at), ACROSS),
            Piece(float(phase.bandwidth_s), letter(at), colour_of(at)),
        )
        bars.append(Bar(f"{letter(at)}, streamed", parts, _short(phase.total_s)))
    return bars


def _baseline(one: AlgorithmEstimate, row: AlgorithmEstimate) -> Bar:
    parts = ((one.alpha_s, ACROSS), (one.bandwidth_s, ""), (one.overhead_s, "xx"), (one.software_s, _SOFTWARE))
    times = format_factor(float(one.total_s / row.total_s), 3)
    return Bar(
        one.title, tuple(Piece(float(amount), "", GREY, hatch) for amount, hatch in parts), f"{_short(one.total_s)}, {times}"
    )


def draw_plan(result: Plan, sheet: Sheet) -> None:
    """The step by parts beside the one with a free network; what of each dimension is hidden; what a rank keeps in memory."""
    names = [part.name for part in result.parts]
    dimensions = sent_parts(result)
    kept = _kept(result.memory)
    heights = [rows + 0.8 for rows in (2, len(dimensions), 1 if kept else 0) if rows]
    panels = list(sheet.figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat)
    step = Bar("step", pieces_of(result.parts, names), _short(result.step_s))
    free = Bar("free network", (Piece(result.control_step_s, "", GREY),), _short(result.control_step_s))
    draw_bars(panels[0], [step, free], _short, sheet.width)
    panels[0].set_title("the step, and the same with a free network", loc="left")
    found = {_part(at, part, result.step_s): _swatch(panels[0], at) for at, part in enumerate(result.parts)}
    if dimensions:
        bars = [_dimension(part, names.index(part.name)) for part in dimensions]
        draw_bars(panels[1], bars, _short, sheet.width)
        panels[1].set_title("communication: hidden under compute (hatched), exposed (plain)", loc="left")
    if kept and result.memory:
        found |= _draw_memory(panels[-1], result.memory, len(names), sheet.width)
    under = add_legend(sheet.figure, sheet.width, found)
    entitle(sheet.figure, plan_title(result), sheet.width)
    sheet.figure.set_size_inches(sheet.width, 0.42 * sum(heights) + 0.4 * len(heights) + 0.7 + 0.18 * under)


def say_plan(result: Plan) -> str:
    """The bars in words: the step, the parts that take most of it, the memory."""
    most = sorted(result.parts, key=lambda part: -part.exposed_s)[:4]
    parts = ", ".join(f"{part.name} {_short(part.exposed_s)}" for part in most)
    memory = f" Memory {_room(result.memory)}." if result.memory else ""
    free = f"{_short(result.control_step_s)} with a free network"
    return f"{plan_title(result)}: a step of {_short(result.step_s)}, {free}. Most of it: {parts}.{memory}"


def sent_parts(result: Plan) -> list[StepPart]:
    """The parts of a step that are communication."""
    sent = {one.sent.call.dimension for one in result.collectives if one.paces}
    return [part for part in result.parts if part.name in sent]


def pieces_of(parts: Sequence[StepPart], names: Sequence[str]) -> tuple[Piece, ...]:
    """What of a step each part takes; the letter and the colour are those of its name."""
    at = [names.index(part.name) for part in parts]
    return tuple(
        Piece(part.exposed_s, f"{letter(i)} {_short(part.exposed_s)}", colour_of(i), hatch_of(i))
        for i, part in zip(at, parts, strict=True)
    )


def _swatch(axes: Axes, at: int) -> Any:
    return swatch(axes, colour_of(at), hatch_of(at))


def _part(at: int, part: StepPart, step_s: float) -> str:
    share = f" ({percent(part.exposed_s / step_s)})" if step_s else ""
    return f"{letter(at)}  {part.name} {_short(part.exposed_s)}{share}"


def _dimension(part: StepPart, at: int) -> Bar:
    pieces = (Piece(part.hidden_s, "hidden", colour_of(at), ACROSS), Piece(part.exposed_s, "exposed", colour_of(at)))
    said = [f"{_short(seconds)} {how}" for seconds, how in ((part.hidden_s, "hidden"), (part.exposed_s, "exposed")) if seconds]
    return Bar(f"{letter(at)}  {part.name}", pieces, ", ".join(said))


def _kept(memory: Memory | None) -> dict[str, float]:
    """The parts of the worst stage, largest first."""
    if memory is None:
        return {}
    found: dict[str, float] = {}
    for part in memory.parts:
        if part.stage == memory.worst_stage:
            found[part.part] = found.get(part.part, 0.0) + part.bytes
    return {name: found[name] for name in sorted(found, key=lambda name: -found[name]) if found[name]}


def _room(memory: Memory) -> str:
    room = f" of {format_bytes(memory.capacity_bytes, 3)}" if memory.capacity_bytes else ""
    fits = {True: ": fits", False: ": DOES NOT FIT", None: ""}[memory.fits]
    return f"{format_bytes(memory.bytes, 3)}{room}{fits}"


def _draw_memory(axes: Axes, memory: Memory, first: int, width: float) -> dict[str, Any]:
    """The memory of the worst stage against the device's; what its legend adds, letters from ``first`` on."""
    kept = _kept(memory)
    parts = [(letter(first + at), colour_of(first + at), hatch_of(first + at)) for at in range(len(kept))]
    pieces = tuple(
        Piece(size, f"{name} {format_bytes(size, 2)}", colour, hatch)
        for size, (name, colour, hatch) in zip(kept.values(), parts, strict=True)
    )
    bar = Bar(f"stage {memory.worst_stage}", pieces, mark=memory.capacity_bytes)
    draw_bars(axes, [bar], lambda size: format_bytes(size, 3), width)
    axes.set_title(f"memory of the worst stage: {_room(memory)}", loc="left")
    found = {
        f"{name}  {part} {format_bytes(kept[part], 3)}": swatch(axes, colour, hatch)
        for part, (name, colour, hatch) in zip(kept, parts, strict=True)
    }
    if memory.capacity_bytes:
        found["memory of the device"] = mark_swatch(axes)
    return found


def draw_plans(result: Plans, sheet: Sheet) -> None:
    """The step on each fabric by parts, one time axis for all, with a mark where it would end with a free network."""
    names = list(dict.fromkeys(part.name for plan in result.plans for part in plan.parts))
    bars = [
        Bar(apart(result, at), pieces_of(plan.parts, names), _against(result, at), plan.control_step_s)
        for at, plan in enumerate(result.plans)
    ]
    axes = sheet.figure.add_subplot()
    draw_bars(axes, bars, _short, sheet.width)
    axes.set_xlabel("time of a step")
    found = {f"{letter(at)}  {name}": _swatch(axes, at) for at, name in enumerate(names)}
    found["the end with a free network"] = mark_swatch(axes)
    under = add_legend(sheet.figure, sheet.width, found)
    first = result.plans[0]
    entitle(sheet.figure, f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks", sheet.width)
    sheet.figure.set_size_inches(sheet.width, 0.5 * len(bars) + 1.2 + 0.18 * under)


def say_plans(result: Plans) -> str:
    """The bars in words: the step on each fabric."""
    steps = ", ".join(f"{apart(result, at)} {_against(result, at)}" for at in range(len(result.plans)))
    return f"A step of {result.plans[0].job.name} on {result.plans[0].ranks} ranks: {steps}."


def _against(result: Plans, at: int) -> str:
    ratio = f", {format_factor(result.ratio(at), 3)}" if at else ""
    return f"{_short(result.plans[at].step_s)}{ratio}"
