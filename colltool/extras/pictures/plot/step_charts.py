"""Charts of training steps as stacked bars: of one ``plan`` with its memory, and of several plans of a
job beside each other.

A part of the step is a kind of compute or of communication. Its index in the legend gives its colour, its letter
and its hatch, in all bars. ``exposed_s`` of a part adds to the step, ``hidden_s`` runs under compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter

from colltool.analysis.jobs import Plans
from colltool.base.formatting import format_bytes, format_factor, percent
from colltool.extras.pictures.plot.look import (
    HIDDEN_HATCH,
    PALE_GREY,
    colour_of,
    hatch_of,
    letter,
    short_time,
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
from colltool.render.views.plan_answer import plan_title
from colltool.training.memory import Memory
from colltool.training.plan import Plan
from colltool.training.step_time import StepPart

_MOST_NAMED_PARTS = 4  # in the text in place of the picture

_bytes = partial(format_bytes, digits=3)


# --- one plan


def plan_chart(plan: Plan, _paged: bool) -> Chart:
    """The parts of a training step, how much of its communication is hidden, and its memory."""
    panels = [_step_panel(plan)]
    hidden_bars = list(_hidden_bars(plan))
    if hidden_bars:
        title = "communication: hidden under compute (hatched), exposed (plain)"
        panels.append(bars_panel(hidden_bars, short_time, title))
    labels = list(_part_labels(plan))
    has_capacity = False
    if plan.memory is not None:
        sizes = _memory_sizes(plan.memory)
        if sizes:
            # letters and colours go on from the parts of the step to those of its memory
            panels.append(_memory_panel(plan.memory, sizes, first=len(labels)))
            labels += [f"{part} {_bytes(size)}" for part, size in sizes.items()]
            has_capacity = bool(plan.memory.capacity_bytes)
    keys = lettered_keys(labels, hatched=True)
    if has_capacity:
        keys.append(Key("memory of the device"))
    return Chart(plan_title(plan), _plan_alt(plan), panels, keys)


def _plan_alt(plan: Plan) -> str:
    """The text in place of the picture."""
    longest = sorted(plan.parts, key=attrgetter("exposed_s"), reverse=True)[:_MOST_NAMED_PARTS]
    parts = ", ".join(f"{part.name} {short_time(part.exposed_s)}" for part in longest)
    text = (
        f"{plan_title(plan)}: a step of {short_time(plan.step_s)}, {short_time(plan.control_step_s)} with a"
        f" free network. Most of it: {parts}."
    )
    if plan.memory is None:
        return text
    return f"{text} Memory {_memory_text(plan.memory)}."


def _step_panel(plan: Plan) -> Panel:
    """Two bars: the step by its parts, and as long as it would be with a free network."""
    names = [part.name for part in plan.parts]
    step = Bar("step", _step_pieces(plan.parts, names), short_time(plan.step_s))
    control = BarPiece(plan.control_step_s, "", PALE_GREY)
    free = Bar("free network", (control,), short_time(plan.control_step_s))
    return bars_panel([step, free], short_time, "the step, and the same with a free network")


def _hidden_bars(plan: Plan) -> Iterator[Bar]:
    """A bar for each kind of communication that the step waits for: how much of it compute hides."""
    kinds = {planned.sent.call.dimension for planned in plan.collectives if planned.paces}
    for index, part in enumerate(plan.parts):
        if part.name not in kinds:
            continue
        pieces = (
            BarPiece(part.hidden_s, "hidden", colour_of(index), HIDDEN_HATCH),
            BarPiece(part.exposed_s, "exposed", colour_of(index)),
        )
        times = [f"{short_time(piece.amount)} {piece.text}" for piece in pieces if piece.amount]
        yield Bar(f"{letter(index)}  {part.name}", pieces, ", ".join(times))


def _part_labels(plan: Plan) -> Iterator[str]:
    """Each part of a step, with its exposed time and share."""
    for part in plan.parts:
        label = f"{part.name} {short_time(part.exposed_s)}"
        if plan.step_s:
            label += f" ({percent(part.exposed_s / plan.step_s)})"
        yield label


def _step_pieces(parts: Sequence[StepPart], names: Sequence[str]) -> list[BarPiece]:
    """The exposed times of parts as pieces of a bar; ``names``: those of the legend, in its order."""
    pieces = []
    for part in parts:
        index = names.index(part.name)
        text = f"{letter(index)} {short_time(part.exposed_s)}"
        pieces.append(BarPiece(part.exposed_s, text, colour_of(index), hatch_of(index)))
    return pieces


# --- its memory


def _memory_sizes(memory: Memory) -> dict[str, float]:
    """Bytes of what fills the memory of the worst stage, by name, the largest first."""
    sizes: dict[str, float] = {}
    for part in memory.parts:
        if part.stage == memory.worst_stage and part.bytes:
            sizes[part.part] = sizes.get(part.part, 0.0) + part.bytes
    return dict(sorted(sizes.items(), key=itemgetter(1), reverse=True))


def _memory_panel(memory: Memory, sizes: dict[str, float], first: int) -> Panel:
    """One bar, with a mark at the memory of the device; ``first``: the index of its first piece in
    the legend."""
    pieces = []
    for index, size in enumerate(sizes.values(), first):
        text = f"{letter(index)} {format_bytes(size, 2)}"
        pieces.append(BarPiece(size, text, colour_of(index), hatch_of(index)))
    bar = Bar(f"stage {memory.worst_stage}", pieces, mark=memory.capacity_bytes)
    return bars_panel([bar], _bytes, f"memory of the worst stage: {_memory_text(memory)}")


def _memory_text(memory: Memory) -> str:
    """``71.2 GB of 80 GB: fits, tight``."""
    text = _bytes(memory.bytes)
    if memory.capacity_bytes:
        text += f" of {_bytes(memory.capacity_bytes)}"
    if memory.fits is None:
        return text
    if memory.tight:
        return f"{text}: fits, tight"
    return f"{text}: fits" if memory.fits else f"{text}: DOES NOT FIT"


# --- several plans


def plans_chart(plans: Plans, _paged: bool) -> Chart:
    """The steps of several plans as bars of the same parts; a mark where each ends with a free
    network."""
    parts = chain.from_iterable(plan.parts for plan in plans.plans)
    names = list(dict.fromkeys(part.name for part in parts))
    bars = []
    for index, plan in enumerate(plans.plans):
        time = short_time(plan.step_s)
        # plans are compared with the first
        if index > 0:
            time += f", {format_factor(plans.ratio(index), 3)}"
        pieces = _step_pieces(plan.parts, names)
        bars.append(Bar(plans.titles[index], pieces, time, plan.control_step_s))
    job = plans.first.job
    ranks = plans.first.ranks
    title = f"{on_fabric(job.name, job.overrides)} on {ranks} ranks"
    times = ", ".join(f"{bar.name} {bar.end_text}" for bar in bars)
    alt = f"A step of {job.name} on {ranks} ranks: {times}."
    keys = [*lettered_keys(names, hatched=True), Key("the end with a free network")]
    return Chart(title, alt, (bars_panel(bars, short_time, along="time of a step"),), keys)
