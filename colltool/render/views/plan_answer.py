"""The answer of ``plan`` in sentences: whether the job fits, how long a step takes and how far off that
may be, what of it is communication, and what would help most.

:func:`answer` is the headline of the view and a line of reports; the helpers stand below it. ``memory`` is that of
a GPU on the stage that needs most; without a device its ``fits``, ``share`` and ``capacity_bytes`` are None. A call's
``exposed_s`` is what the step waits for it; ``critical_calls`` are those of the stage that sets the pace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from colltool.base.errors import either, localize
from colltool.base.formatting import format_bytes, format_time, percent, whole_percent
from colltool.estimate.placement import tiers_spanned
from colltool.render.dispatch import on_fabric
from colltool.render.views.job_words import to_type
from colltool.training.job import Job
from colltool.training.layout_constraints import CHOICE_OF_KEY
from colltool.training.memory import Memory
from colltool.training.plan import Plan

_MOST_PAIRS = 4
"""KEY=VALUE pairs shown of a change, of which each protocol of a tier may need one; JSON has all."""


def plan_title(result: Plan) -> str:
    """``llama3-70b on 64 ranks of dgx-h100``, with what was set of the job and of the fabric."""
    job = on_fabric(result.job.name, titled_overrides(result.job))
    fabric = on_fabric(result.fabric, result.fabric_overrides)
    return f"{job} on {result.ranks} ranks of {fabric}"


def titled_overrides(job: Job) -> tuple[tuple[str, str], ...]:
    """The overrides of a job to name in its title: not those that the line of its layout repeats."""
    return tuple(pair for pair in job.overrides if pair[0] not in CHOICE_OF_KEY)


def answer(result: Plan) -> str:
    """The title of a plan, and what follows of it in sentences."""
    title = plan_title(result)
    sentences = ". ".join(_sentences(result))
    return f"{title} {sentences}."


def _sentences(result: Plan) -> Iterator[str]:
    """The answer without its title, which the first sentence goes on from."""
    step = format_time(result.step_s)
    memory = result.memory
    # a step that does not fit has no time worth showing first
    if memory is not None and memory.fits is False and memory.capacity_bytes is not None:
        needs = format_bytes(memory.bytes, 3)
        capacity = format_bytes(memory.capacity_bytes, 3)
        yield (
            f"does not fit: stage {memory.worst_stage} needs {needs} of {capacity} per GPU;"
            f" try {_cure(result)}"
        )
        yield f"If it did fit, a step would take {step}"
        return
    takes = f"takes {step} per step"
    error = _error_text(result)
    if error:
        takes += f" ({error})"
    if memory is not None and memory.tight:
        yield f"{tight_text(memory)}; for room try {_cure(result)}"
        yield f"It {takes}"
    else:
        yield takes
    if result.collectives and result.step_s:
        exposed = percent(result.exposed_s / result.step_s)
        yield f"Exposed communication is {exposed} of it{_mostly(result)}"
    goodput = result.goodput
    if goodput is not None:
        share = percent(goodput.share)
        yield (
            f"With failures it makes {goodput.steps_per_day:,.0f} steps per day"
            f" ({share} of the time)"
        )
    # the best gain stands first; what a tight job needs for room may cost time
    best = result.changes[0] if result.changes else None
    if best is not None and best.gain > 0:
        gain = percent(best.gain)
        typed = typed_change(best.set, best.where)
        yield f"Gains most: {best.change} ({gain}), {typed}"
    elif result.collectives:
        yield "None of the changes that were tried makes it faster"


def _cure(result: Plan) -> str:
    """Name the best change of the job that makes the step fit with room to spare (changes stand best first), or
    where to look for a layout that does."""
    for change in result.changes:
        if change.fits and not change.tight and change.where == "job":
            return (
                f"{typed_change(change.set, change.where)} ({format_time(change.step_s)} per step)"
            )
    return f"more ranks, or {localize(either(shell='plan --search', python='search_layouts()'))}"


def _mostly(result: Plan) -> str:
    """``, mostly dp (120 ms); ib is the bottleneck``: the dimension that most exposed communication is
    for, and the tier it waits for. Empty where nothing is exposed."""
    exposed_s: defaultdict[str, float] = defaultdict(float)
    for call in result.critical_calls:
        exposed_s[call.call.dimension] += call.exposed_s
    dimension = max(exposed_s, key=exposed_s.__getitem__, default="")
    if not dimension or not exposed_s[dimension]:
        return ""
    text = f", mostly {dimension} ({format_time(exposed_s[dimension])})"
    tier = slow_tier(result)
    if tier:
        return f"{text}; {tier} is the bottleneck"
    return text


def slow_tier(result: Plan) -> str | None:
    """The tier that most exposed communication waits for; None if unsure.

    The calls of an algorithm that keeps several tiers busy at once count as unsure: the slower may
    be so by a hair.
    """
    exposed_s: defaultdict[str, float] = defaultdict(float)
    unsure_s = 0.0
    for call in result.critical_calls:
        # ``busy`` has seconds of each tier in turn: fewer of them than tiers means that some are busy at once
        if tiers_spanned(call.cost.per_domain) > len(call.cost.busy):
            unsure_s += call.exposed_s
        else:
            exposed_s[call.cost.busiest_tier] += call.exposed_s
    if not exposed_s:
        return None
    slowest = max(exposed_s, key=exposed_s.__getitem__)
    slowest_s = exposed_s.pop(slowest)
    second_s = max(exposed_s.values(), default=0.0)
    # in the worst case all that is unsure is time of the second tier
    if slowest and slowest_s > second_s + unsure_s:
        return slowest
    return None


def memory_text(memory: Memory) -> str:
    """``memory: 71.2 GB of 80 GB per GPU: fits``, or tight: closer to the limit than such figures are
    exact. A plan without a device has no limit."""
    size = format_bytes(memory.bytes, 3)
    if memory.capacity_bytes is None:
        return f"memory: {size} per GPU on the worst stage, {memory.worst_stage}"
    text = f"memory: {size} of {format_bytes(memory.capacity_bytes, 3)} per GPU"
    if memory.fits is False:
        return f"{text} on stage {memory.worst_stage}: DOES NOT FIT"
    if memory.tight:
        return f"{text}: {tight_text(memory)}"
    return f"{text}: fits"


def tight_text(memory: Memory) -> str:
    """``fits, tight: 97% +-4% of the memory of stage 0``."""
    assert memory.share is not None  # nothing is tight without a device
    share = f"{whole_percent(memory.share)} +-{whole_percent(memory.within)}"
    return f"fits, tight: {share} of the memory on stage {memory.worst_stage}"


def _error_text(result: Plan) -> str:
    """Say how far off the step may be: ``+4% against the measured step``, else by published runs like it
    ``20-25 s, 90% interval``. Empty where the job states its compute time, or it follows from no stack."""
    if result.measured_error is not None and result.job.measured_step_s is not None:
        error = percent(result.measured_error, sign="+")
        if result.anchor is None:
            return f"{error} against the measured step"
        return f"as measured; the model alone gives {error}"
    if result.setup.stack is None or result.setup.compute is not None:
        return ""
    if result.error is None:
        return "no published run to compare with"
    low_s, high_s = result.error.spread(result.step_s)
    high = format_time(high_s, 2)
    low, unit = format_time(low_s, 2).split()
    # the unit once: 20-25 s
    if not high.endswith(f" {unit}"):
        low += f" {unit}"
    return f"{low}-{high}, 90% interval"


def typed_change(values: tuple[tuple[str, str], ...], where: str) -> str:
    """What to type for a change: ``--job-set overlap.tp=true``. Empty without values.

    ``where``: ``fabric``, or ``job``.
    """
    if not values:
        return ""
    if where == "fabric":
        text = to_type(values[:_MOST_PAIRS], "--set", "overrides")
    else:
        text = to_type(values[:_MOST_PAIRS], "--job-set", "job overrides")
    more = len(values) - _MOST_PAIRS
    if more > 0:
        return f"{text} and {more} more"
    return text
