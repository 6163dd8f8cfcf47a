"""The device that a job computes on, its own or the fabric's, and the slice of a lattice that it takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import Shape, format_time, percent
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.training.constraint_violations import Violation
from colltool.training.job import Job
from colltool.training.layout import RankGroup
from colltool.training.presets import preset_names, read_device, read_stack
from colltool.training.roofline import Accelerator, Stack, accelerator_of, stack_of

MAPPING = "device: {generation: ..., peak: {bf16: ...}, memory: ..., bandwidth: ...} in the job"


def on_fabric(job: Job, fabric: Fabric) -> Job:
    """The job on the fabric's device unless it names its own; ManyErrors where they clash or the stack does not know it."""
    if job.draft.model is None or fabric.device is None:
        return computing(job, fabric)
    own, name = job.draft.device, fabric.device
    theirs = accelerator_of(read_device(name, Path()), name) if name in preset_names("devices") else None
    if job.device_from == "job":
        assert own is not None
        if not _same_chip(own, name, theirs):
            job.refuse([_clash(own, fabric)])
        return job
    if job.draft.compute is not None and own is None:  # times that are given need no device
        return job
    if theirs is None:
        what = f"{fabric.name} has {name}, which has no compute figures here"
        job.refuse([Violation(("device",), what, MAPPING)])
    assert theirs is not None
    found = replace(job, draft=job.draft._replace(device=theirs), device_from="fabric")
    if wrong := _stack_without(found, theirs):
        job.refuse([wrong])
    return found


def computing(job: Job, fabric: Fabric | None = None) -> Job:
    """The job as it is; ColltoolError where it has a model, and neither a device nor times say how fast it computes."""
    draft = job.draft
    if draft.model is None or draft.device is not None or draft.compute is not None:
        return job
    where = "" if fabric is None else f", and {fabric.name} names none either"
    fix = f"device: h100 in the job{'' if fabric is None else ' or the fabric'}, or compute: {{...}}"
    raise ColltoolError(f"nothing says how fast {job.name} computes: no 'device'{where}", where=job.where(()), fix=fix)


def _same_chip(own: Accelerator, name: str, theirs: Accelerator | None) -> bool:
    """The same chip, maybe with other memory, as H200 is H100; a device of the job's own counts by its generation."""
    if theirs is None or own.name == name:
        return own.name == name or own.name not in preset_names("devices")
    equal = own.name not in preset_names("devices") or own.peak_flops("bf16") == theirs.peak_flops("bf16")
    return own.generation == theirs.generation and equal


def _clash(own: Accelerator, fabric: Fabric) -> Violation:
    there = own.name if own.name in preset_names("devices") else "null"
    fix = (
        f"device: {fabric.device}, or leave it out; {given('overrides', [f'device={there}'])} where the fabric has other devices"
    )
    return Violation(("device",), f"the job asks for {own.name}, but {fabric.name} has {fabric.device}", fix)


def _stack_without(job: Job, device: Accelerator) -> Violation | None:
    stack, precision = job.draft.stack, job.draft.precision.compute
    if stack is None or job.draft.compute is not None or _speaks_of(stack, device, precision):
        return None
    every = [stack_of(read_stack(name, Path()), name) for name in preset_names("stacks")]
    others = [given("job_overrides", [f"stack={one.name}"]) for one in every if _speaks_of(one, device, precision)]
    what = f"stack {stack.name} has no efficiency for {precision} on {device.name}, the fabric's device"
    return Violation(("stack",), what, " or ".join([*others, "the stack as a mapping"]))


def _speaks_of(stack: Stack, device: Accelerator, precision: str) -> bool:
    try:
        return min(stack.gemm_share(precision, device.generation), stack.attention_share(device.generation)) > 0
    except ColltoolError:
        return False


def job_slice(fabric: Fabric, ranks: int) -> Fabric:
    """The fabric with the lattice that the ranks end on cut to their slice; itself where they take all of it or none fits.

    Every group of the job lies in that slice: 256 chips are 4x8x8, where tensor groups are no lines of 16.
    """
    at, inside = _last(fabric, ranks)
    if at is None:
        return fabric
    tier = fabric.tiers[at]
    if ranks == inside * tier.endpoints or ranks % inside:
        return fabric
    part = capabilities_of(tier).slice(ranks // inside)
    if part is None:
        return fabric
    return fabric.model_copy(update={"tiers": (*fabric.tiers[:at], part, *fabric.tiers[at + 1 :])})


def slice_of(fabric: Fabric, cut: Fabric) -> tuple[Tier, Shape] | None:
    """The lattice that was cut, as the file has it, and the shape of its slice; None where none was."""
    for tier, part in zip(fabric.tiers, cut.tiers, strict=True):
        if tier != part:
            return tier, tuple(axis.size for axis in capabilities_of(part).axes)
    return None


def turned_axes(fabric: Fabric, group: RankGroup) -> str:
    """The lattice with its axes turned so that a group is a box, as ``--set`` takes it; empty where there is none.

    Every 8th of 4x8x8 is no box, of 8x8x4 it is.
    """
    tier = fabric.tiers[0]
    if len(fabric.tiers) > 1 or len(group.axes) > 1:
        return ""
    (size, stride), shape = group.axes[0], [axis.size for axis in capabilities_of(tier).axes]
    for other in sorted(set(permutations(shape)), reverse=True):
        kind = capabilities_of(tier.model_copy(update={"shape": other, "wrap": None}))
        if kind.takes_stride(stride) and kind.part(size, stride) is not None:
            return f"{tier.name}.shape=[{','.join(map(str, other))}]"
    return ""


def _last(fabric: Fabric, ranks: int) -> tuple[int | None, int]:
    """The first tier that holds so many ranks, where it is a lattice, and the ranks of an endpoint of it."""
    inside = 1
    for at, tier in enumerate(fabric.tiers):
        if inside * tier.endpoints >= ranks:
            return (at if capabilities_of(tier).axes else None), inside
        inside *= tier.endpoints
    return None, inside


def refuse_impossible_step(job: Job, step_s: float, mfu: float | None) -> None:
    """Refuses a step above the peak of its devices, at what the job itself says of its speed."""
    if mfu is None or mfu <= 1:
        return
    device = job.draft.device.name if job.draft.device is not None else "device"
    path, check = _suspect(job)
    what = f"a step of {format_time(step_s)} would be {percent(mfu)} of the peak of {device} in {job.draft.precision.compute}"
    job.refuse([Violation(path, f"{what}: more than it can compute", f"check {check}")])


def _suspect(job: Job) -> tuple[KeyPath, str]:
    if job.draft.compute is not None:
        return ("compute",), "compute: forward and backward are of a whole step over all micro-batches, or of one layer and one"
    if job.measured_step_s is not None and job.file.slower is None:
        return ("measured", "step"), "the measured time, the batch, the ranks and the device"
    if job.draft.slower < 1:
        return ("slower",), "slower: a number below 1 computes faster than the stack says"
    return ("device",), "the peak of the device, the stack, and the precision"
