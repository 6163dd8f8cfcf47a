"""What people read of a plan first: the step in a few lines."""

from __future__ import annotations

from colltool.base.formatting import format_bytes, format_duration, format_energy, format_time, percent
from colltool.render.views.job import layout_text
from colltool.training.assumptions import MEMORY, published_error
from colltool.training.compression import GradientCompression
from colltool.training.memory import Memory
from colltool.training.plan import MFU_CONVENTION, Plan
from colltool.training.step_time import BELIEVED


def facts(result: Plan) -> list[str]:
    """The step in lines: what it takes and why, what the figures rest on, memory, what was measured, energy and compression."""
    lines = [f"step {format_time(result.step_s)}; with a free network {format_time(result.control_step_s)}: "
             f"{percent(result.network_share)} of the step is network"]  # fmt: skip
    if result.collectives:
        lines.append(f"communication: {format_time(result.exposed_s)} exposed, {format_time(result.hidden_s)} hidden")
    if (wire := result.wire) is not None:
        lines.append(f"the wires of {wire} make it slow: {_said_exposed(result, wire)}")
    lines.append(layout_text(result.setup))
    if result.tokens_per_s is not None and result.setup.sequence > 1:
        lines.append(f"{result.tokens_per_s:.4g} tokens/s, {result.tokens_per_s / result.ranks:.4g} a rank")
    if result.mfu is not None:
        lines.append(f"MFU {percent(result.mfu)} ({MFU_CONVENTION})")
    if (stack := result.setup.stack) is not None:
        lines.append(f"compute rests on the kernels of stack {stack.name}: {_how_far_off(result, stack.name)}")
    lines += result.grounds
    kept = result.memory
    if kept is not None:
        room = "" if kept.capacity_bytes is None else f" of {format_bytes(kept.capacity_bytes, 3)}"
        lines.append(
            f"memory: {format_bytes(kept.bytes, 3)}{room} on stage {kept.worst_stage}, the worst{_fits(kept)}; see job show"
        )
    return [*lines, *_measured(result), *_run(result)]


def _fits(kept: Memory) -> str:
    """Whether it fits, and where that is closer than such figures are known."""
    if kept.fits is None or kept.capacity_bytes is None:
        return ""
    close = abs(kept.bytes / kept.capacity_bytes - 1) <= MEMORY.median_error
    off = f", by less than such figures were off ({percent(MEMORY.median_error)})" if close else ""
    if not kept.fits:
        return f": DOES NOT FIT{off}"
    return f": fits{off}" if close else ""


def _how_far_off(result: Plan, stack: str) -> str:
    """What published runs say of steps and memory like these."""
    model = result.setup.model
    moe = bool(model and model.moe_layers)
    found = published_error(stack, moe=moe)
    if found is None:
        return "no run beside it"
    kind = "with experts, evenly loaded," if moe else "of dense models"
    return (f"{found.runs} published runs {kind} were off by {percent(found.median_error)}, "
            f"memory of {MEMORY.runs} by {percent(MEMORY.median_error)} (medians)")  # fmt: skip


def _measured(result: Plan) -> list[str]:
    """What was measured, how far the plan was off, and what makes it meet the measured step."""
    lines, job, anchor = [], result.job, result.anchor
    if job.measured_step_s is not None and result.measured_error is not None:
        off = percent(result.measured_error, sign="+")
        planned = "" if anchor is None else f", it says {format_time(anchor.before_s)}"
        lines.append(f"measured {format_time(job.measured_step_s)}: the plan is off by {off}{planned}")
    if anchor is not None and result.setup.stack is not None:
        says = f"{anchor.factor:.4g} times as long as stack {result.setup.stack.name} says"
        lines.append(f"everything computes {says}, which makes it the measured step")
        lines.append(f"at that speed another layout or fabric: slower: {anchor.factor:.6g} in the place of measured.step")
        if not anchor.believable:
            beyond = "stacks are off by less: look for another reason in the layout, the device, or what was measured"
            lines.append(f"{anchor.factor:.3g} is beyond {BELIEVED[0]:g} to {BELIEVED[1]:g}: {beyond}")
    if job.measured_memory_bytes is not None and result.memory_error is not None:
        measured = format_bytes(job.measured_memory_bytes, 3)
        lines.append(f"measured memory {measured}: the plan is off by {percent(result.memory_error, sign='+')}")
    return lines


def _run(result: Plan) -> list[str]:
    """Energy, compression, and the time of all steps."""
    lines, small, steps = [], result.compression, result.job.steps
    if result.energy_J is not None:
        lines.append(f"energy on the wires: {format_energy(result.energy_J)} a step")
    if small is not None:
        lines += _compression(small)
    if steps is not None and result.run_s is not None:
        run = f"{steps:,} steps take {format_duration(result.run_s)}"
        if small is not None:
            more = f"with {percent(small.given.extra_steps)} more steps counted"
            run += f" {more}, and {format_duration(small.plain_run_s(steps))} without compression"
        lines.append(run)
    return lines


def _compression(small: GradientCompression) -> list[str]:
    """What a call and a step gain by it, and what would make it gain nothing."""
    given = small.given
    blocks = f" in blocks of {given.block}" if given.block else ""
    lines = [f"{given.scheme}{blocks} on {given.on}: {small.times_fewer:.4g} times fewer bytes on the wires "
             f"({small.ratio:.4g} against 4-byte elements)"]  # fmt: skip
    took = f"{format_time(small.each_s)} instead of {format_time(small.plain_each_s)}"
    verdict = "pays" if small.pays else "does not pay"
    lines.append(f"a call takes {took}: an overhead of {format_time(given.overhead_s)} {verdict}, "
                 f"below {format_time(small.largest_overhead_s)} it does")  # fmt: skip
    change = percent(small.step_s / small.plain_step_s - 1, sign="+") if small.plain_step_s else "0%"
    sooner = "is reached sooner" if small.gains else "is not reached sooner"
    lines.append(f"a step takes {format_time(small.step_s)} instead of {format_time(small.plain_step_s)} ({change}): with "
                 f"{percent(given.extra_steps)} more steps the same accuracy {sooner}, "
                 f"it gains up to {percent(small.break_even_extra_steps)}")  # fmt: skip
    return lines


def _said_exposed(result: Plan, wire: str) -> str:
    by: dict[str, float] = {}
    for one in result.collectives:
        if one.paces and one.sent.cost.wire == wire and one.sent.exposed_s:
            by[one.sent.call.dimension] = by.get(one.sent.call.dimension, 0.0) + one.sent.exposed_s
    most = sorted(by, key=lambda name: -by[name])[:3]
    return ", ".join(f"{name} {format_time(by[name])} exposed" for name in most)
