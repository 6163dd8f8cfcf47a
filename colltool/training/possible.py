"""Steps that cannot be: refused with what to check."""

from __future__ import annotations

from colltool.base.formatting import format_time, percent
from colltool.definitions.source_map import KeyPath
from colltool.training.job import Job
from colltool.training.misfits import Misfit


def refuse_impossible(job: Job, step_s: float, mfu: float | None) -> None:
    """Refuses a step that computes more than its devices can.

    Args:
        job: whose step; what it gives itself of its speed is named.
        step_s: of the step.
        mfu: model FLOPs of the step over those at the dense peak; None where nothing is known of it.

    Raises:
        ManyErrors: ``mfu`` is above 1.
    """
    if mfu is None or mfu <= 1:
        return
    device = job.draft.device.name if job.draft.device is not None else "device"
    path, check = _suspect(job)
    what = f"a step of {format_time(step_s)} would be {percent(mfu)} of the peak of {device} in {job.draft.precision.compute}"
    job.refuse([Misfit(path, f"{what}: more than it can compute", f"check {check}")])


def _suspect(job: Job) -> tuple[KeyPath, str]:
    """What a job says itself of how fast it computes: where, and what to check."""
    if job.draft.compute is not None:
        return ("compute",), "compute: forward and backward are of a whole step over all micro-batches, or of one layer and one"
    if job.measured_step_s is not None and job.file.slower is None:
        return ("measured", "step"), "the measured time, the batch, the ranks and the device"
    if job.draft.slower < 1:
        return ("slower",), "slower: a number below 1 computes faster than the stack says"
    return ("device",), "the peak of the device, the stack, and the precision"
