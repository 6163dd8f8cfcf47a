"""A job on the device that computes it: :func:`on_fabric` puts it on the fabric's, or refuses another.

:func:`require_speed` refuses a job that nothing says the speed of, :func:`refuse_impossible_step` a
step that no device is fast enough for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import format_time, percent
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.training.files.presets import preset_names
from colltool.training.job import Job
from colltool.training.job_configuration import stack_of_job
from colltool.training.stack import Accelerator, shipped_device, shipped_stack
from colltool.training.violation import Violation

DEVICE_MAPPING = (
    "device: {generation: ..., peak: {bf16: ...}, memory: ..., bandwidth: ...} in the job"
)


def on_fabric(job: Job, fabric: Fabric) -> Job:
    """Return the job on the fabric's device, with the stack that its name means there, unless the
    job names a device of its own.

    Raises:
        ColltoolError: neither names a device, and no times of compute are given.
        ManyErrors: the two differ, or the stack has no efficiency for the device.
    """
    check_even(fabric)
    draft = job.draft
    if draft.model is None or fabric.device is None:
        return require_speed(job, fabric)
    fabric_device = None
    if fabric.device in preset_names("devices"):
        fabric_device = shipped_device(fabric.device)
    if job.device_from == "job":
        _refuse_other_device(job, fabric, fabric_device)
        return job
    if draft.compute is not None and draft.device is None:  # given times need no device
        return job
    if fabric_device is None:
        job.refuse(
            [
                Violation(
                    ("device",),
                    f"{fabric.name} has {fabric.device}, which has no compute figures here",
                    DEVICE_MAPPING,
                )
            ]
        )
    assert fabric_device is not None
    stack = draft.stack
    precision = draft.precision.compute
    if stack is not None and isinstance(job.file.stack, str):
        stack_name = stack_of_job(job.file, fabric_device)
        if stack_name != stack.name:
            # a user's measured GEMMs stay
            stack = shipped_stack(stack_name)._replace(measured=stack.measured)
    draft = draft._replace(device=fabric_device, stack=stack)
    changed = replace(job, draft=draft, device_from="fabric")
    if stack is not None and draft.compute is None and not stack.knows(fabric_device, precision):
        changed.refuse(
            [
                Violation(
                    ("stack",),
                    f"stack {stack.name} has no efficiency for {precision} on {fabric_device.name}, the fabric's"
                    " device",
                    " or ".join(
                        [*_other_stacks(fabric_device, precision), "the stack as a mapping"]
                    ),
                )
            ]
        )
    return changed


def _refuse_other_device(job: Job, fabric: Fabric, fabric_device: Accelerator | None) -> None:
    """Refuse a job that asks for another device than the fabric has.

    The same chip may have other memory, as H200 is H100; a device of the job's own counts by its
    generation. ``fabric_device`` None: the fabric names one that colltool does not ship.
    """
    device = job.draft.device
    assert device is not None
    if device.name == fabric.device:
        return
    is_shipped = device.name in preset_names("devices")
    if fabric_device is None:
        is_same_chip = not is_shipped  # nothing is known of either
    else:
        is_same_chip = device.generation == fabric_device.generation and (
            not is_shipped or device.peak_flops("bf16") == fabric_device.peak_flops("bf16")
        )
    if is_same_chip:
        return
    device_name = device.name if is_shipped else "null"
    override = argument_text("overrides", [f"device={device_name}"])
    job.refuse(
        [
            Violation(
                ("device",),
                f"the job asks for {device.name}, but {fabric.name} has {fabric.device}",
                f"device: {fabric.device}, or leave it out; {override} where the fabric has other devices",
            )
        ]
    )


def _other_stacks(device: Accelerator, precision: str) -> Iterator[str]:
    """Yield the shipped stacks that know a device, as options."""
    for name in preset_names("stacks"):
        if shipped_stack(name).knows(device, precision):
            yield argument_text("job_overrides", [f"stack={name}"])


def require_speed(job: Job, fabric: Fabric | None = None) -> Job:
    """Return the job as it is; ``fabric``: what might have named its device, for errors.

    Raises:
        ColltoolError: it has a model, but neither a device nor times of its compute.
    """
    draft = job.draft
    if draft.model is None or draft.device is not None or draft.compute is not None:
        return job
    what = f"nothing says how fast {job.name} computes: no 'device'"
    files = "the job"
    if fabric is not None:
        what += f", and {fabric.name} names none either"
        files += " or the fabric"
    raise ColltoolError(
        what, where=job.where(()), fix=f"device: h100 in {files}, or compute: {{...}}"
    )


def refuse_impossible_step(job: Job, step_s: float, mfu: float | None) -> None:
    """Refuse a step faster than the peak of its devices, an ``mfu`` above 1, at the key of the job
    that sets its speed; ManyErrors then."""
    if mfu is None or mfu <= 1:
        return
    draft = job.draft
    key: KeyPath = ("device",)
    suspects = "the peak of the device, the stack, and the precision"
    if draft.compute is not None:
        key = ("compute",)
        suspects = (
            "compute: forward and backward are of a whole step over all micro-batches, or of one"
            " layer and one"
        )
    elif job.measured_step_s is not None and job.file.slower is None:
        key = ("measured", "step")
        suspects = "the measured time, the batch, the ranks and the device"
    elif draft.slower < 1:
        key = ("slower",)
        suspects = "slower: a number below 1 computes faster than the stack says"
    device = draft.device.name if draft.device is not None else "device"
    job.refuse(
        [
            Violation(
                key,
                f"a step of {format_time(step_s)} would be {percent(mfu)} of the peak of {device} in"
                f" {draft.precision.compute}: more than it can compute",
                f"check {suspects}",
            )
        ]
    )
