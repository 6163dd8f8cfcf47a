"""What a job computes on: the device that it says, else the one at the ends of its fabric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from colltool.base.errors import ColltoolError, given
from colltool.fabric.model import Fabric
from colltool.training.job import Job
from colltool.training.machine import Device, Stack, device_of, stack_of
from colltool.training.misfits import Misfit
from colltool.training.shipped import read_device, read_stack, shipped

MAPPING = "device: {generation: ..., peak: {bf16: ...}, memory: ..., bandwidth: ...} in the job"


def on_fabric(job: Job, fabric: Fabric) -> Job:
    """The job on the device that a fabric names, unless it says one itself; as it is where neither follows from the fabric.

    Raises:
        ManyErrors: it says another device than the fabric has, one without a figure here, or a stack that does not know it.
        ColltoolError: as :func:`computing`.
    """
    if job.draft.model is None or fabric.device is None:
        return computing(job, fabric)
    own, theirs = job.draft.device, _known(fabric.device)
    if job.device_from == "job":
        assert own is not None
        if not _same_chip(own, fabric.device, theirs):
            job.refuse([_clash(own, fabric)])
        return job
    if job.draft.compute is not None and own is None:  # times that are given need no device
        return job
    if theirs is None:
        what = f"{fabric.name} is of {fabric.device}, and nothing is known of what that computes"
        job.refuse([Misfit(("device",), what, MAPPING)])
    assert theirs is not None
    found = replace(job, draft=job.draft._replace(device=theirs), device_from="fabric")
    if wrong := _stack_without(found, theirs):
        job.refuse([wrong])
    return found


def computing(job: Job, fabric: Fabric | None = None) -> Job:
    """A job of which it is known how fast it computes.

    Raises:
        ColltoolError: it has a model, and neither a device nor times.
    """
    draft = job.draft
    if draft.model is None or draft.device is not None or draft.compute is not None:
        return job
    where = "" if fabric is None else f", and {fabric.name} names none either"
    fix = f"device: h100 in the job{'' if fabric is None else ' or the fabric'}, or compute: {{...}}"
    raise ColltoolError(f"nothing says how fast {job.name} computes: no 'device'{where}", where=job.where(()), fix=fix)


def _known(name: str) -> Device | None:
    return device_of(read_device(name, Path()), name) if name in shipped("devices") else None


def _same_chip(own: Device, name: str, theirs: Device | None) -> bool:
    """Whether a device is the fabric's, or the same chip with other memory, as H200 is H100; of one that a file of the job's
    own describes the generation says it.
    """  # fmt: skip
    if theirs is None or own.name == name:
        return own.name == name or own.name not in shipped("devices")
    equal = own.name not in shipped("devices") or own.peak_flops("bf16") == theirs.peak_flops("bf16")
    return own.generation == theirs.generation and equal


def _clash(own: Device, fabric: Fabric) -> Misfit:
    there = own.name if own.name in shipped("devices") else "null"
    fix = (
        f"device: {fabric.device}, or leave it out; {given('overrides', [f'device={there}'])} where the fabric has other devices"
    )
    return Misfit(("device",), f"the job computes on {own.name}, and {fabric.name} is of {fabric.device}", fix)


def _stack_without(job: Job, device: Device) -> Misfit | None:
    """What is wrong where the stack says nothing of a device that the job did not choose."""
    stack, precision = job.draft.stack, job.draft.precision.compute
    if stack is None or job.draft.compute is not None or _speaks_of(stack, device, precision):
        return None
    every = [stack_of(read_stack(name, Path()), name) for name in shipped("stacks")]
    others = [given("job_overrides", [f"stack={one.name}"]) for one in every if _speaks_of(one, device, precision)]
    what = f"stack {stack.name} says nothing of {precision} on {device.name}, the device of the fabric"
    return Misfit(("stack",), what, " or ".join([*others, "the stack as a mapping"]))


def _speaks_of(stack: Stack, device: Device, precision: str) -> bool:
    """Whether a stack has efficiencies for a device."""
    try:
        return min(stack.gemm_share(precision, device.generation), stack.attention_share(device.generation)) > 0
    except ColltoolError:
        return False
