"""Shipped and drafted jobs, fitted to a fabric where their layout does not fit.

:func:`fit_to_fabric` takes another stack or precision for the fabric's device, whole powers of two
of its innermost domains, fewer ranks, or the fastest layout of a search, and says what it changed.
A user's own job is not changed, and refused where it does not fit. :func:`search_on_fabric` searches
on the same fabric with the same job, so that both find the same layout.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.training.files.presets import preset_names, read_device, read_stack
from colltool.training.job import Job
from colltool.training.job_results import on_fabric
from colltool.training.layout_search import LayoutSearch, Progress, fastest_layout, search
from colltool.training.memory import memory
from colltool.training.model import Accelerator, accelerator_of, stack_of
from colltool.training.search_space import Keep, is_pinned
from colltool.training.sentences import Remark, remark, sentence

# stacks to try, in this order, for a device that a job's stack has no efficiency for
STACKS = ("megatron", "jax", "fsdp")
# keys of a job that decide its layout: one that a user sets is kept
LAYOUT_KEYS = ("layout", "schedule", "shard", "batch", "recompute")


class FittedJob(NamedTuple):
    """A job that fits a fabric, with the ranks that it runs on."""

    fabric: Fabric
    job: Job
    ranks: int | None
    changes: tuple[Remark, ...]  # what differs from the file
    # where the layout was searched: the keys and values that pin it, and its text
    searched: tuple[tuple[str, str], ...] = ()
    layout: str = ""


def fit_to_fabric(
    job: Job, fabric: Fabric, ranks: int | None, readings: ModelOptions | None = None
) -> FittedJob:
    """Return the job as it runs on ``ranks`` of a fabric; unchanged where it fits, or is a user's.

    Raises:
        ColltoolError: no layout fits the ranks and the memory, and why.
    """
    job, fabric, changes = _on_device(job, fabric, ranks)
    if not _is_fitted(job):
        return FittedJob(fabric, job, ranks, ())
    return _fit_layout(job, fabric, ranks, readings, changes)


def search_on_fabric(
    job: Job,
    fabric: Fabric,
    ranks: int | None = None,
    keep: Keep | None = None,
    *,
    top: int | None = None,
    readings: ModelOptions | None = None,
    watch: Progress | None = None,
    headroom: float | None = None,
) -> LayoutSearch:
    """Search the layouts of a job as it runs on a fabric; see :func:`search`."""
    job, fabric, changes = _on_device(job, fabric, ranks)
    if job.drafted and ranks is None:
        ranks = _power_below(fabric.ranks)
    found = search(
        job, fabric, ranks, keep, top=top, readings=readings, watch=watch, headroom=headroom
    )
    return replace(found, grounds=tuple(map(sentence, changes)))


def _is_fitted(job: Job) -> bool:
    """Whether a job may be changed to fit a fabric; a user's own is meant as it is."""
    return job.adaptable and job.draft.model is not None and job.draft.compute is None


def _on_device(
    job: Job, fabric: Fabric, ranks: int | None
) -> tuple[Job, Fabric, tuple[Remark, ...]]:
    """Return the job on a stack that knows the fabric's device, the part of the fabric that layouts
    use, and what was changed; all as they are for a user's own job."""
    check_even(fabric)
    if not _is_fitted(job):
        return job, fabric, ()
    job, of_job = _on_known_stack(job, fabric)
    fabric, of_fabric = _whole_domains(fabric, ranks)
    return job, fabric, (*of_job, *of_fabric)


def _fit_layout(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions | None,
    changes: tuple[Remark, ...],
) -> FittedJob:
    """Return the job in its own layout where that fits, else on fewer ranks, else in another
    layout."""
    if job.drafted:
        if is_pinned(job):
            return FittedJob(fabric, job, ranks, changes)
        fitted = _searched(job, fabric, ranks, readings, changes)
        return fitted._replace(changes=(*changes, _fastest(fitted)))
    user_layout = any(key.split(".")[0] in LAYOUT_KEYS for key, _ in job.overrides)
    if user_layout or _fits(job, fabric, ranks or fabric.ranks):
        return FittedJob(fabric, job, ranks, changes)
    used = _fewer_ranks(job, fabric) if ranks is None else None
    if used is not None:
        fewer = remark("fewer_ranks", used=used, ranks=fabric.ranks)
        return FittedJob(fabric, job, used, (*changes, fewer))
    try:
        fitted = _searched(job, fabric, ranks, readings, changes)
    except ColltoolError:
        if ranks is None or not _can_run(job, fabric, ranks):
            raise
        # too large for its devices in any layout: the plan says so
        return FittedJob(fabric, job, ranks, changes)
    return fitted._replace(changes=(*changes, _fastest(fitted, "nearest_layout")))


def _fastest(fitted: FittedJob, code: str = "fastest_layout") -> Remark:
    """Return the remark on a job whose layout was searched."""
    return remark(code, job=fitted.job.name, ranks=fitted.ranks, layout=fitted.layout)


def _fewer_ranks(job: Job, fabric: Fabric) -> int | None:
    """Return the most ranks on which the job fits in its own layout; None where it fits on none."""
    replica_ranks = job.draft.layout.tp * job.draft.layout.cp * job.draft.layout.pp
    for dp in range(fabric.ranks // replica_ranks, 0, -1):
        if _fits(job, fabric, replica_ranks * dp):
            return replica_ranks * dp
    return None


def _whole_domains(fabric: Fabric, ranks: int | None) -> tuple[Fabric, list[Remark]]:
    """Return the fabric with its innermost domains cut to a power of two, such as racks of 72 used
    as 64, and the change; as it is where the ranks need them whole."""
    tier = fabric.tiers[0]
    kind = capabilities_of(tier)
    used = _power_below(tier.endpoints)
    if used in (tier.endpoints, 1, 2, 4) or kind.axes or kind.levels or len(fabric.tiers) == 1:
        return fabric, []
    if ranks is not None and ranks > fabric.ranks // tier.endpoints * used:
        return fabric, []
    part = tier.model_copy(update={"size": used})
    change = remark("whole_domains", used=used, ranks=tier.endpoints, tier=tier.name)
    return fabric.model_copy(update={"tiers": (part, *fabric.tiers[1:])}), [change]


def _power_below(count: int) -> int:
    """Return the largest power of two that is not above a number."""
    return 1 << (count.bit_length() - 1)


def _can_run(job: Job, fabric: Fabric, ranks: int) -> bool:
    """Whether the job in its own layout can be placed on so many ranks of a fabric."""
    try:
        on_fabric(job, fabric).setup(ranks)
    except ColltoolError:
        return False
    return ranks <= fabric.ranks


def _fits(job: Job, fabric: Fabric, ranks: int) -> bool:
    """Whether the job can run on so many ranks and fits their memory, as far as that is known."""
    if not _can_run(job, fabric, ranks):
        return False
    return memory(on_fabric(job, fabric).setup(ranks)).fits is not False


def _searched(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions | None,
    changes: tuple[Remark, ...],
) -> FittedJob:
    """Return the job in its fastest layout that keeps what the user set."""
    count = ranks or _power_below(fabric.ranks)
    found = fastest_layout(job, fabric, count, readings=readings)
    fitted = job.with_values(dict(found.values))
    return FittedJob(fabric, fitted, count, changes, found.values, found.choice.text)


def _on_known_stack(job: Job, fabric: Fabric) -> tuple[Job, list[Remark]]:
    """Return the job on a stack and in a precision that work on the fabric's device, and the
    change."""
    stack, precision = job.draft.stack, job.draft.precision.compute
    if stack is None or fabric.device is None or fabric.device not in preset_names("devices"):
        return job, []
    device = accelerator_of(read_device(fabric.device, Path()), fabric.device)
    if stack.knows(device, precision) and precision in dict(device.peak):
        return job, []
    set_by_user = [key.split(".")[0] for key, _ in job.overrides]
    stacks = [stack.name] if "stack" in set_by_user else [stack.name, *STACKS]
    precisions = [precision] if "precision" in set_by_user else [precision, "bf16"]
    for other_precision in precisions:
        other_stack = _stack_for(device, other_precision, stacks)
        if other_stack is None:
            continue
        values = {}
        texts = []
        if other_stack != stack.name:
            values["stack"] = other_stack
            texts.append(f"stack {other_stack}")
        if other_precision != precision:
            values |= {"precision.compute": other_precision, "precision.dispatch": "bf16"}
            texts.append(f"precision {other_precision}")
        change = remark("device_runs", values=", ".join(texts), device=device.name)
        return job.with_values(values), [change]
    return job, []


def _stack_for(device: Accelerator, precision: str, names: list[str]) -> str | None:
    """Return the first stack with efficiencies for a device in a precision; None where none has
    them."""
    if precision not in dict(device.peak):
        return None
    for name in names:
        if name not in preset_names("stacks"):
            continue
        if stack_of(read_stack(name, Path()), name).knows(device, precision):
            return name
    return None
