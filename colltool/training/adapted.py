"""A shipped job, or one drafted from a model, where its layout does not fit a fabric: the nearest
that does, and the changes.

What a user wrote is meant as it is, and refused where it does not fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.training.files.presets import preset_names, read_device, read_stack
from colltool.training.job import Job
from colltool.training.job_results import on_fabric
from colltool.training.layout_search import search
from colltool.training.memory import memory
from colltool.training.model import Accelerator, accelerator_of, stack_of
from colltool.training.search_space import NAMES

# in the order they are tried for a device that a job's stack does not know
STACKS = ("megatron", "jax", "fsdp")
# keys with which a user says how a job is cut
ITS_OWN = ("layout", "schedule", "shard", "batch", "recompute")


class Adapted(NamedTuple):
    fabric: Fabric
    job: Job
    ranks: int | None
    said: tuple[str, ...]  # what differs from the file


def adapted(
    job: Job, fabric: Fabric, ranks: int | None, readings: Readings | None = None
) -> Adapted:
    """The job as it runs on ``ranks`` of a fabric; unchanged where it fits, or is a user's own.

    Raises:
        ColltoolError: no layout fits the ranks and the memory, and why.
    """
    check_even(fabric)
    if not job.yields or job.draft.model is None or job.draft.compute is not None:
        return Adapted(fabric, job, ranks, ())
    job, told = _computing(job, fabric)
    fabric, more = _whole_domains(fabric)
    told += more
    cut = [key for key, _ in job.overrides if key.split(".")[0] in ITS_OWN]
    if job.drafted:
        return _searched(
            job, fabric, ranks, readings, told, f"its layout is the fastest that fits {job.name}"
        )
    if cut or _fits(job, fabric, ranks or fabric.ranks):
        return Adapted(fabric, job, ranks, told)
    inside = job.draft.layout.tp * job.draft.layout.cp * job.draft.layout.pp
    fewer = [inside * dp for dp in range(fabric.ranks // inside, 0, -1)] if ranks is None else []
    if found := next((count for count in fewer if _fits(job, fabric, count)), None):
        what = (
            f"on {found} of the {fabric.ranks} ranks: its layout and batch do not fill"
            f" {fabric.ranks}"
        )
        return Adapted(fabric, job, found, (*told, what))
    count = ranks or fabric.ranks
    try:
        return _searched(
            job,
            fabric,
            ranks,
            readings,
            told,
            f"its own layout does not fit {count} ranks here, the nearest that does",
        )
    except ColltoolError:
        if ranks is None or not _sits(job, fabric, ranks):
            raise
        # too large for its devices in any layout: the plan says so
        return Adapted(fabric, job, ranks, told)


def _whole_domains(fabric: Fabric) -> tuple[Fabric, tuple[str, ...]]:
    """Of domains that no power of two fills, such as racks of 72, jobs use the largest power of
    two: 64."""
    tier = fabric.tiers[0]
    used = 1 << (tier.endpoints.bit_length() - 1)
    if (
        used == tier.endpoints
        or used < 8
        or capabilities_of(tier).axes
        or len(fabric.tiers) == 1
        or capabilities_of(tier).levels
    ):
        return fabric, ()
    part = fabric.model_copy(
        update={"tiers": (tier.model_copy(update={"size": used}), *fabric.tiers[1:])}
    )
    return part, (
        (
            f"{used} of the {tier.endpoints} ranks of each {tier.name} domain, as layouts of powers"
            " of two use them"
        ),
    )


def _sits(job: Job, fabric: Fabric, ranks: int) -> bool:
    try:
        on_fabric(job, fabric).setup(ranks)
    except ColltoolError:
        return False
    return ranks <= fabric.ranks


def _fits(job: Job, fabric: Fabric, ranks: int) -> bool:
    return (
        _sits(job, fabric, ranks) and memory(on_fabric(job, fabric).setup(ranks)).fits is not False
    )


def _searched(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: Readings | None,
    told: tuple[str, ...],
    why: str,
) -> Adapted:
    """The fastest layout that keeps what was said of it, with micro-batches of the job's own size
    where it says so."""
    asked = {
        key.split(".")[-1]: value for key, value in job.overrides if key.split(".")[0] in ITS_OWN
    }
    keep = {key: value for key, value in asked.items() if key in NAMES}
    count = ranks or 1 << (fabric.ranks.bit_length() - 1)
    try:
        found = search(job, fabric, count, {"shard": "zero1"} | keep, top=1, readings=readings)
    except ColltoolError:  # weights and gradients that do not fit whole
        found = search(job, fabric, count, keep, top=1, readings=readings)
    changed = job.with_values(dict(found.values))
    return Adapted(fabric, changed, count, (*told, f"{why}: {found.best.choice.spoken}"))


def _computing(job: Job, fabric: Fabric) -> tuple[Job, tuple[str, ...]]:
    """On a stack and in a precision that the fabric's device has."""
    stack, precision = job.draft.stack, job.draft.precision.compute
    named = [key.split(".")[0] for key, _ in job.overrides]
    if fabric.device not in preset_names("devices") or stack is None:
        return job, ()
    assert fabric.device is not None
    device = accelerator_of(read_device(fabric.device, Path()), fabric.device)
    if stack.knows(device, precision) and precision in dict(device.peak):
        return job, ()
    for kind in dict.fromkeys((precision, "bf16")):
        if "precision" in named and kind != precision:
            continue
        if (other := _stack(stack.name, device, kind, "stack" in named)) is not None:
            values = {} if other == stack.name else {"stack": other}
            values |= (
                {}
                if kind == precision
                else {"precision.compute": kind, "precision.dispatch": "bf16"}
            )
            told = ", ".join(
                f"{key.split('.')[0]} {value}"
                for key, value in values.items()
                if key != "precision.dispatch"
            )
            return job.with_values(values), (f"{told}: what {device.name} runs",)
    return job, ()


def _stack(own: str, device: Accelerator, precision: str, fixed: bool) -> str | None:
    for name in (own,) if fixed else dict.fromkeys((own, *STACKS)):
        if name not in preset_names("stacks") or precision not in dict(device.peak):
            continue
        if stack_of(read_stack(name, Path()), name).knows(device, precision):
            return name
    return None
