"""Lines on a planned step that ``--all`` shows: its time, how far off that is, what was measured, its
energy, compression and failures.

:func:`step_facts` has them in their order. Errors are shares. ``anchor`` is how compute was fitted to a measured
step, and ``compression`` what compressed gradients gain; both None where there is none.
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
from colltool.training.step_calibration import BELIEVED


def step_facts(result: Plan) -> Iterator[str]:
    """The lines on a step, from its time to its failures."""
    step = format_time(result.step_s)
    free = format_time(result.control_step_s)
    share = percent(result.network_share)
    yield f"{step} per step, {free} with a free network: the network takes {share} of it"
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
        steps = []
        for other in result.stacks:
            steps.append(f"{format_time(other.step_s)} under {other.name} ({other.asked_by})")
        yield f"by stack: {', '.join(steps)}"
    yield from result.grounds
    yield from _measured_lines(result)
    yield from _run_lines(result)


def _stack_error(result: Plan) -> str:
    """How far off plans by kernel efficiencies were on published runs, and by how much the user's own
    GEMM times narrow that."""
    error = result.error
    if error is None:
        return "no published run to compare with"
    memory = memory_error()
    median = percent(error.median)
    free = percent(error.control)
    of_memory = percent(memory.median)
    text = (
        f"median error on {error.runs} held-out published runs {median}"
        f" ({free} with a free network), of memory on {memory.runs} runs {of_memory}"
    )
    stack = result.setup.stack
    model = result.setup.model
    if stack is None or not stack.measured:
        return text
    without_times = published_error(stack.name, moe=bool(model and model.moe_layers))
    if without_times is None:
        return text
    share = percent(result.gemm_share)
    before = _interval_text(without_times)
    after = _interval_text(error)
    return f"{text}; your GEMM times, {share} of the step, narrow the interval from {before} to {after}"


def _interval_text(error: PublishedError) -> str:
    """``-12% to +15%``."""
    low = signed_percent(error.low - 1)
    high = signed_percent(error.high - 1)
    return f"{low} to {high}"


def _measured_lines(result: Plan) -> Iterator[str]:
    """How far the plan is off from what the job measured, and what fitting to it did."""
    job = result.job
    anchor = result.anchor
    if job.measured_step_s is not None and result.measured_error is not None:
        planned = "" if anchor is None else f" at {format_time(anchor.before_s)}"
        error = signed_percent(result.measured_error)
        yield f"measured {format_time(job.measured_step_s)}: the plan{planned} is off by {error}"
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
        error = signed_percent(result.memory_error)
        size = format_bytes(job.measured_memory_bytes, 3)
        yield f"measured memory {size}: the plan is off by {error}"


def _run_lines(result: Plan) -> Iterator[str]:
    """Energy, compression, failures, and the time of all steps of a job."""
    compression = result.compression
    if result.energy_J is not None:
        yield f"communication takes {format_energy(result.energy_J)} per step"
    if compression is not None:
        yield from _compression_lines(compression)
    if result.goodput is not None:
        yield from _failure_lines(result.goodput)
    steps = result.job.steps
    if steps is not None and result.run_s is not None:
        text = f"{steps:,} steps take {format_duration(result.run_s)}"
        if compression is not None:
            more = f"{percent(compression.given.extra_steps)} more steps counted"
            plain_run = format_duration(compression.plain_run_s(steps))
            text += f" with {more}, {plain_run} without compression"
        yield text


def _compression_lines(compression: GradientCompression) -> Iterator[str]:
    """Whether compressing gradients pays: for a call, for a step, and for the accuracy reached.
    ``plain``: without compression."""
    given = compression.given
    scheme = given.scheme
    if given.block:
        scheme += f" in blocks of {given.block}"
    yield (
        f"{scheme} on {given.on}: {compression.times_fewer:.4g} times fewer bytes sent"
        f" ({compression.ratio:.4g} against 4-byte elements)"
    )
    each = format_time(compression.each_s)
    plain_each = format_time(compression.plain_each_s)
    overhead = format_time(given.overhead_s)
    pays = "pays" if compression.pays else "does not pay"
    largest = format_time(compression.largest_overhead_s)
    yield (
        f"one call takes {each} instead of {plain_each}: an overhead of {overhead} {pays} (it pays"
        f" below {largest})"
    )
    step = f"{format_time(compression.step_s)} instead of {format_time(compression.plain_step_s)}"
    change = "0%"
    if compression.plain_step_s:
        change = signed_percent(compression.step_s / compression.plain_step_s - 1)
    more = f"with {percent(given.extra_steps)} more steps"
    reached = "reached" if compression.gains else "not reached"
    break_even = percent(compression.break_even_extra_steps)
    yield (
        f"one step takes {step} ({change}); {more} the same accuracy is {reached} sooner (break-even"
        f" at {break_even} more steps)"
    )


def _failure_lines(goodput: Goodput) -> Iterator[str]:
    """How often a job of this size fails, and how often to write a checkpoint."""
    size = format_bytes(goodput.checkpoint_bytes, 3)
    write = format_duration(goodput.write_s)
    failures = format_duration(goodput.job_mtbf_s)
    yield f"the job fails every {failures}; a checkpoint of {size} takes {write} to write"
    text = (
        f"with a checkpoint every {format_duration(goodput.interval_s)} it makes"
        f" {goodput.steps_per_day:,.0f} steps per day ({percent(goodput.share)} of the time)"
    )
    if goodput.interval_s == goodput.best_interval_s:
        yield f"{text}; that is the best interval (Daly 2006)"
    else:
        best = f"the best interval is {format_duration(goodput.best_interval_s)}"
        yield f"{text}; {best}, with {goodput.best_steps_per_day:,.0f} steps per day"
