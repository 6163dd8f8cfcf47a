"""The details of a plan: step, throughput, memory, measurements, energy, compression."""

from __future__ import annotations

from colltool.base.formatting import format_bytes, format_duration, format_energy, format_time, percent
from colltool.render.views.job import layout_text
from colltool.training.memory import Memory
from colltool.training.overlap import GradientCompression
from colltool.training.plan import MFU_CONVENTION, Plan
from colltool.training.step_time import BELIEVED, MEMORY, published_error


def facts(result: Plan) -> list[str]:
    free = f"{format_time(result.control_step_s)} with a free network"
    lines = [f"step {format_time(result.step_s)}; {free}: {percent(result.network_share)} of the step is network"]
    if result.collectives:
        lines.append(f"communication: {format_time(result.exposed_s)} exposed, {format_time(result.hidden_s)} hidden")
    lines.append(layout_text(result.setup))
    if result.tokens_per_s is not None and result.setup.sequence > 1:
        lines.append(f"{result.tokens_per_s:.4g} tokens/s, {result.tokens_per_s / result.ranks:.4g} a rank")
    if result.mfu is not None:
        lines.append(f"MFU {percent(result.mfu)} ({MFU_CONVENTION})")
    if (stack := result.setup.stack) is not None:
        lines.append(f"compute: kernel efficiencies of stack {stack.name}; {_how_far_off(result)}")
    lines += result.grounds
    kept = result.memory
    if kept is not None:
        room = "" if kept.capacity_bytes is None else f" of {format_bytes(kept.capacity_bytes, 3)}"
        lines.append(f"memory: {format_bytes(kept.bytes, 3)}{room} on the worst stage, {kept.worst_stage}{_fits(kept)}")
    return [*lines, *_measured(result), *_run(result)]


def known_error(result: Plan) -> str:
    """The error of the step time: against the measured step, else the median over published runs like it; may be empty."""
    if result.measured_error is not None and result.job.measured_step_s is not None:
        off = percent(result.measured_error, sign="+")
        return f"{off} off the measured step" if result.anchor is None else f"as measured; compute as modelled is {off} off"
    found = _against(result)
    return f"{found[1]} published runs like it: median error {percent(found[0])}" if found else ""


def _against(result: Plan) -> tuple[float, int, bool] | None:
    stack, model = result.setup.stack, result.setup.model
    moe = bool(model and model.moe_layers)
    found = published_error(stack.name, moe=moe) if stack is not None else None
    return (found.median_error, found.runs, moe) if found else None


def _how_far_off(result: Plan) -> str:
    found = _against(result)
    if found is None:
        return "no published run beside it"
    error, runs, moe = found
    memory = f"memory of {MEMORY.runs} by {percent(MEMORY.median_error)}"
    kind = "with experts, evenly loaded," if moe else "of dense models"
    return f"{runs} published runs {kind} were off by {percent(error)}, {memory} (medians)"


def _fits(kept: Memory) -> str:
    if kept.fits is None or kept.capacity_bytes is None:
        return ""
    close = abs(kept.bytes / kept.capacity_bytes - 1) <= MEMORY.median_error
    off = f", by less than such figures were off ({percent(MEMORY.median_error)})" if close else ""
    if not kept.fits:
        return f": DOES NOT FIT{off}"
    return f": fits{off}" if close else ""


def _measured(result: Plan) -> list[str]:
    lines, job, anchor = [], result.job, result.anchor
    if job.measured_step_s is not None and result.measured_error is not None:
        off = percent(result.measured_error, sign="+")
        planned = "" if anchor is None else f" at {format_time(anchor.before_s)}"
        lines.append(f"measured {format_time(job.measured_step_s)}: the plan{planned} is off by {off}")
    if anchor is not None and result.setup.stack is not None:
        says = f"{anchor.factor:.4g} times as long as stack {result.setup.stack.name} says"
        lines.append(f"fitted to the measured step: compute takes {says}")
        lines.append(f"for another layout or fabric at that speed: write slower: {anchor.factor:.6g} instead of measured.step")
        if not anchor.believable:
            beyond = "stacks are off by less: look for another reason in the layout, the device, or the measurement"
            lines.append(f"{anchor.factor:.3g} is beyond {BELIEVED[0]:g} to {BELIEVED[1]:g}: {beyond}")
    if job.measured_memory_bytes is not None and result.memory_error is not None:
        measured = format_bytes(job.measured_memory_bytes, 3)
        lines.append(f"measured memory {measured}: the plan is off by {percent(result.memory_error, sign='+')}")
    return lines


def _run(result: Plan) -> list[str]:
    lines, small, steps = [], result.compression, result.job.steps
    if result.energy_J is not None:
        lines.append(f"energy of communication: {format_energy(result.energy_J)} a step")
    if small is not None:
        lines += _compression(small)
    if steps is not None and result.run_s is not None:
        run = f"{steps:,} steps take {format_duration(result.run_s)}"
        if small is not None:
            more = f"with {percent(small.given.extra_steps)} more steps counted"
            run += f" {more}, {format_duration(small.plain_run_s(steps))} without compression"
        lines.append(run)
    return lines


def _compression(small: GradientCompression) -> list[str]:
    given = small.given
    blocks = f" in blocks of {given.block}" if given.block else ""
    change = percent(small.step_s / small.plain_step_s - 1, sign="+") if small.plain_step_s else "0%"
    sooner = "is reached sooner" if small.gains else "is not reached sooner"
    return [
        f"{given.scheme}{blocks} on {given.on}: {small.times_fewer:.4g} times fewer bytes sent "
        f"({small.ratio:.4g} against 4-byte elements)",
        f"a call takes {format_time(small.each_s)} instead of {format_time(small.plain_each_s)}: an overhead of "
        f"{format_time(given.overhead_s)} {'pays' if small.pays else 'does not pay'}; it pays below "
        f"{format_time(small.largest_overhead_s)}",
        f"a step takes {format_time(small.step_s)} instead of {format_time(small.plain_step_s)} ({change}): with "
        f"{percent(given.extra_steps)} more steps the same accuracy {sooner}; break-even is at "
        f"{percent(small.break_even_extra_steps)} more steps",
    ]
