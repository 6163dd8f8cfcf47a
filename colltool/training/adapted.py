"""A shipped job, or one drafted from a model, where its layout does not fit a fabric: the nearest
that does, and the changes.

What a user wrote is meant as it is, and refused where it does not fit.
"""

from __future__ import annotations

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
from colltool.training.layout_search import FastestLayout, fastest_layout
from colltool.training.memory import memory
from colltool.training.model import Accelerator, accelerator_of, stack_of
from colltool.training.search_space import NAMES
from colltool.training.sentences import Remark, sentence

# in the order they are tried for a device that a job's stack does not know
STACKS = ("megatron", "jax", "fsdp")
# keys with which a user says how a job is cut
ITS_OWN = ("layout", "schedule", "shard", "batch", "recompute")


class FittedJob(NamedTuple):
    fabric: Fabric
    job: Job
    ranks: int | None
    said: tuple[str, ...]  # what differs from the file


def fit_to_fabric(
    job: Job, fabric: Fabric, ranks: int | None, readings: ModelOptions | None = None
) -> FittedJob:
    """The job as it runs on ``ranks`` of a fabric; unchanged where it fits, or is a user's own.

    Raises:
        ColltoolError: no layout fits the ranks and the memory, and why.
    """
    check_even(fabric)
    if not job.yields or job.draft.model is None or job.draft.compute is not None:
        return FittedJob(fabric, job, ranks, ())
    job, changed = _on_known_stack(job, fabric)
    fabric, cut = _whole_domains(fabric)
    return _fit_layout(job, fabric, ranks, readings, [*changed, *cut])


def _fit_layout(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions | None,
    remarks: list[Remark],
) -> FittedJob:
    """The job in its own layout where that fits, on fewer ranks, or in another layout."""
    told = tuple(map(sentence, remarks))
    if job.drafted:
        job_now, count, found = _searched(job, fabric, ranks, readings)
        remark = Remark("fastest_layout", {"job": job.name, "layout": found.choice.label})
        return FittedJob(fabric, job_now, count, (*told, sentence(remark)))
    own_layout = any(key.split(".")[0] in ITS_OWN for key, _ in job.overrides)
    if own_layout or _fits(job, fabric, ranks or fabric.ranks):
        return FittedJob(fabric, job, ranks, told)
    used = _fewer_ranks(job, fabric) if ranks is None else None
    if used is not None:
        remark = Remark("fewer_ranks", {"used": used, "ranks": fabric.ranks})
        return FittedJob(fabric, job, used, (*told, sentence(remark)))
    try:
        job_now, count, found = _searched(job, fabric, ranks, readings)
    except ColltoolError:
        if ranks is None or not _sits(job, fabric, ranks):
            raise
        # too large for its devices in any layout: the plan says so
        return FittedJob(fabric, job, ranks, told)
    fields = {"ranks": ranks or fabric.ranks, "layout": found.choice.label}
    return FittedJob(fabric, job_now, count, (*told, sentence(Remark("nearest_layout", fields))))


def _fewer_ranks(job: Job, fabric: Fabric) -> int | None:
    """The most ranks that the job fits in its own layout."""
    inside = job.draft.layout.tp * job.draft.layout.cp * job.draft.layout.pp
    for dp in range(fabric.ranks // inside, 0, -1):
        if _fits(job, fabric, inside * dp):
            return inside * dp
    return None


def _whole_domains(fabric: Fabric) -> tuple[Fabric, list[Remark]]:
    """Jobs use the largest power of two of a domain that none fills: 64 of a rack of 72."""
    tier = fabric.tiers[0]
    kind = capabilities_of(tier)
    used = _power_below(tier.endpoints)
    if used in (tier.endpoints, 1, 2, 4) or kind.axes or kind.levels or len(fabric.tiers) == 1:
        return fabric, []
    part = tier.model_copy(update={"size": used})
    remark = Remark("whole_domains", {"used": used, "ranks": tier.endpoints, "tier": tier.name})
    return fabric.model_copy(update={"tiers": (part, *fabric.tiers[1:])}), [remark]


def _power_below(count: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << (count.bit_length() - 1)


def _sits(job: Job, fabric: Fabric, ranks: int) -> bool:
    try:
        on_fabric(job, fabric).setup(ranks)
    except ColltoolError:
        return False
    return ranks <= fabric.ranks


def _fits(job: Job, fabric: Fabric, ranks: int) -> bool:
    if not _sits(job, fabric, ranks):
        return False
    return memory(on_fabric(job, fabric).setup(ranks)).fits is not False


def _searched(
    job: Job, fabric: Fabric, ranks: int | None, readings: ModelOptions | None
) -> tuple[Job, int, FastestLayout]:
    """The job in its fastest layout that keeps what was said of it, with micro-batches of the
    job's own size where it says so."""
    keep = {}
    for key, value in job.overrides:
        name = key.split(".")[-1]
        if key.split(".")[0] in ITS_OWN and name in NAMES:
            keep[name] = value
    count = ranks or _power_below(fabric.ranks)
    try:
        found = fastest_layout(job, fabric, count, {"shard": "zero1"} | keep, readings=readings)
    except ColltoolError:  # weights and gradients that do not fit whole
        found = fastest_layout(job, fabric, count, keep, readings=readings)
    return job.with_values(dict(found.values)), count, found


def _on_known_stack(job: Job, fabric: Fabric) -> tuple[Job, list[Remark]]:
    """The job on a stack and in a precision that the fabric's device has."""
    stack, precision = job.draft.stack, job.draft.precision.compute
    if stack is None or fabric.device is None or fabric.device not in preset_names("devices"):
        return job, []
    device = accelerator_of(read_device(fabric.device, Path()), fabric.device)
    if stack.knows(device, precision) and precision in dict(device.peak):
        return job, []
    named = [key.split(".")[0] for key, _ in job.overrides]
    stacks = [stack.name] if "stack" in named else [stack.name, *STACKS]
    precisions = [precision] if "precision" in named else [precision, "bf16"]
    for kind in precisions:
        other = _stack_for(device, kind, stacks)
        if other is None:
            continue
        values = {}
        words = []
        if other != stack.name:
            values["stack"] = other
            words.append(f"stack {other}")
        if kind != precision:
            values |= {"precision.compute": kind, "precision.dispatch": "bf16"}
            words.append(f"precision {kind}")
        remark = Remark("device_runs", {"values": ", ".join(words), "device": device.name})
        return job.with_values(values), [remark]
    return job, []


def _stack_for(device: Accelerator, precision: str, names: list[str]) -> str | None:
    """The first stack that knows a device in a precision."""
    if precision not in dict(device.peak):
        return None
    for name in names:
        if name not in preset_names("stacks"):
            continue
        if stack_of(read_stack(name, Path()), name).knows(device, precision):
            return name
    return None
