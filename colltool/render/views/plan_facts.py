"""Lines on a planned step that ``--all`` shows: its time, how far off that is, what was measured, its
energy, compression and failures.

:func:`step_facts` has them in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.formatting import (
    format_bytes,
    format_duration,
    format_energy,
    format_time,
    percent,
)
from colltool.render.dispatch import signed_percent
from colltool.training.compression import GradientCompression
from colltool.training.goodput import Goodput
from colltool.training.plan import Plan
from colltool.training.published import PublishedError, memory_error, published_error
from colltool.training.sentences import MFU_CONVENTION
from colltool.training.step_time import BELIEVED


def step_facts(result: Plan) -> Iterator[str]:
    """The lines on a step, from its time to its failures."""
    took = format_time(result.step_s)
    free = format_time(result.control_step_s)
    share = percent(result.network_share)
    yield f"{took} per step, {free} with a free network: the network takes {share} of it"
    if result.collectives:
        exposed = format_time(result.exposed_s)
        hidden = format_time(result.hidden_s)
        yield f"communication: {exposed} exposed, {hidden} hidden"
    if result.mfu is not None:
        yield f"MFU {percent(result.mfu)} counts {MFU_CONVENTION}"
    stack = result.setup.stack
    if stack is not None:
        yield f"compute: kernel efficiencies of stack {stack.name}; {_stack_error(result)}"
    if result.stacks:
        others = []
        for other in result.stacks:
            took = format_time(other.step_s)
            others.append(f"{took} under {other.name} ({other.asked_by})")
        yield f"by stack: {', '.join(others)}"
    yield from result.grounds
    yield from _measured(result)
    yield from _run(result)


def _stack_error(result: Plan) -> str:
    """How far off plans by kernel efficiencies were on published runs."""
    found = result.error
    if found is None:
        return "no published run to compare with"
    memory = memory_error()
    median = percent(found.median)
    free = percent(found.control)
    of_memory = percent(memory.median)
    text = (
        f"median error on {found.runs} held-out published runs {median}"
        f" ({free} with a free network), of memory on {memory.runs} runs {of_memory}"
    )
    stack = result.setup.stack
    model = result.setup.model
    if stack is None or not stack.measured:
        return text
    wide = published_error(stack.name, moe=bool(model and model.moe_layers))
    if wide is None:
        return text
    share = percent(result.gemm_share)
    before = _interval_text(wide)
    after = _interval_text(found)
    return f"{text}; your GEMM times, {share} of the step, narrow the interval from {before} to {after}"


def _interval_text(error: PublishedError) -> str:
    """``-12% to +15%``."""
    low = signed_percent(error.low - 1)
    high = signed_percent(error.high - 1)
    return f"{low} to {high}"


def _measured(result: Plan) -> Iterator[str]:
    """How far the plan is off from what the job measured, and what fitting to it did."""
    job = result.job
    anchor = result.anchor
    if job.measured_step_s is not None and result.measured_error is not None:
        planned = "" if anchor is None else f" at {format_time(anchor.before_s)}"
        off = signed_percent(result.measured_error)
        yield f"measured {format_time(job.measured_step_s)}: the plan{planned} is off by {off}"
    if anchor is not None and result.setup.stack is not None:
        stack = result.setup.stack.name
        yield (
            f"fitted to the measured step: compute takes {anchor.factor:.4g} times as long as with"
            f" stack {stack}"
        )
        yield (
            f"to plan another layout or fabric at that speed, write slower: {anchor.factor:.6g} in"
            " place of measured.step"
        )
        if not anchor.believable:
            low, high = BELIEVED
            yield (
                f"{anchor.factor:.3g} is outside {low:g} to {high:g}, the error of stacks; look for"
                " another reason: the layout, the device, or the measurement"
            )
    if job.measured_memory_bytes is not None and result.memory_error is not None:
        off = signed_percent(result.memory_error)
        size = format_bytes(job.measured_memory_bytes, 3)
        yield f"measured memory {size}: the plan is off by {off}"


def _run(result: Plan) -> Iterator[str]:
    """Energy, compression, failures, and the time of all steps of a job."""
    small = result.compression
    if result.energy_J is not None:
        yield f"communication takes {format_energy(result.energy_J)} per step"
    if small is not None:
        yield from _compressed(small)
    if result.goodput is not None:
        yield from _failures(result.goodput)
    steps = result.job.steps
    if steps is not None and result.run_s is not None:
        text = f"{steps:,} steps take {format_duration(result.run_s)}"
        if small is not None:
            more = f"{percent(small.given.extra_steps)} more steps counted"
            plainly = format_duration(small.plain_run_s(steps))
            text += f" with {more}, {plainly} without compression"
        yield text


def _compressed(small: GradientCompression) -> Iterator[str]:
    """Whether compressing gradients pays: for a call, for a step, and for the accuracy reached."""
    given = small.given
    scheme = given.scheme
    if given.block:
        scheme += f" in blocks of {given.block}"
    yield (
        f"{scheme} on {given.on}: {small.times_fewer:.4g} times fewer bytes sent"
        f" ({small.ratio:.4g} against 4-byte elements)"
    )
    each = format_time(small.each_s)
    plain_each = format_time(small.plain_each_s)
    overhead = format_time(given.overhead_s)
    pays = "pays" if small.pays else "does not pay"
    largest = format_time(small.largest_overhead_s)
    yield (
        f"one call takes {each} instead of {plain_each}: an overhead of {overhead} {pays} (it pays"
        f" below {largest})"
    )
    step = f"{format_time(small.step_s)} instead of {format_time(small.plain_step_s)}"
    change = "0%"
    if small.plain_step_s:
        change = signed_percent(small.step_s / small.plain_step_s - 1)
    more = f"with {percent(given.extra_steps)} more steps"
    reached = "reached" if small.gains else "not reached"
    break_even = percent(small.break_even_extra_steps)
    yield (
        f"one step takes {step} ({change}); {more} the same accuracy is {reached} sooner (break-even"
        f" at {break_even} more steps)"
    )


def _failures(rate: Goodput) -> Iterator[str]:
    """How often a job of this size fails, and how often to write a checkpoint."""
    size = format_bytes(rate.checkpoint_bytes, 3)
    write = format_duration(rate.write_s)
    failures = format_duration(rate.job_mtbf_s)
    yield f"the job fails every {failures}; a checkpoint of {size} takes {write} to write"
    text = (
        f"with a checkpoint every {format_duration(rate.interval_s)} it makes"
        f" {rate.steps_per_day:,.0f} steps per day ({percent(rate.share)} of the time)"
    )
    if rate.interval_s == rate.best_interval_s:
        yield f"{text}; that is the best interval (Daly 2006)"
    else:
        best = f"the best interval is {format_duration(rate.best_interval_s)}"
        yield f"{text}; {best}, with {rate.best_steps_per_day:,.0f} steps per day"
