"""Results of ``job show`` and ``job check``, and the checks of a job against a fabric's device.

:func:`show_job` tells what a rank computes, sends and keeps, :func:`check_job` what of a file is
allowed and doubtful. :func:`on_fabric` puts a job on the device of a fabric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import format_time, percent
from colltool.base.result import Result, result
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.training.calls import DIMENSIONS, Call, stage_calls
from colltool.training.compute_times import StageTimes, stage_times
from colltool.training.files.presets import preset_names, read_device, read_stack
from colltool.training.flops import model_flops
from colltool.training.job import Job, PlainCall, load_job
from colltool.training.job_configuration import stack_of_job
from colltool.training.job_sources import find_job
from colltool.training.memory import Memory, memory
from colltool.training.offload import with_offload
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.proposals import cures
from colltool.training.sentences import Remark, remark, sentence
from colltool.training.stack import Accelerator, accelerator_of, stack_of
from colltool.training.violation import Violation

DEVICE_MAPPING = (
    "device: {generation: ..., peak: {bf16: ...}, memory: ..., bandwidth: ...} in the job"
)
# multiple that sides of matrices should be: tensor cores work on tiles of 64 and 128, and other sides
# cost 30 to 50% of published GEMM rates
TILE_SIDE = 64


@result
class JobList(Result):
    """Shipped jobs."""

    subject: ClassVar[str] = "job"
    jobs: tuple[Job, ...]


class SentBy(NamedTuple):
    """A call with the stages that send it."""

    stages: tuple[int, ...]
    call: Call


@result
class JobShown(Result):
    """What a rank of a job computes, sends and keeps."""

    subject: ClassVar[str] = "job"
    job: Job
    setup: ParallelConfig
    sent: tuple[SentBy, ...]
    plain: tuple[PlainCall, ...]
    times: tuple[StageTimes, ...]  # by stage, of one micro-batch
    memory: Memory | None
    # settings that make it fit, and the bytes of its worst stage then
    cure: tuple[tuple[tuple[str, str], ...], float] | None
    flops: float | None  # model FLOPs of a step over all ranks, with the causal half of attention


class JobWarning(NamedTuple):
    """Something of a job file that is allowed and doubtful, with its place in the file."""

    where: str
    remark: Remark

    @property
    def what(self) -> str:
        return sentence(self.remark)

    @property
    def why(self) -> str:
        """What it costs."""
        return self.remark.cost


class CheckedJob(NamedTuple):
    """A valid job file with its warnings."""

    file: str
    job: Job
    warnings: tuple[JobWarning, ...]


@result
class JobsChecked(Result):
    """Checked job files."""

    subject: ClassVar[str] = "job"
    checks: tuple[CheckedJob, ...]


def show_job(job: Job, ranks: int | None = None) -> JobShown:
    """Return what a rank of a job computes, sends and keeps."""
    config = require_speed(job).setup(ranks)
    plain = job.plain_calls(config)
    if config.model is None:
        return JobShown(job, config, (), plain, (), None, cure=None, flops=None)
    stages = pipeline_stages(config)
    senders: dict[Call, list[int]] = {}
    for stage in stages:
        for call in stage_calls(config, stage):
            senders.setdefault(call, []).append(stage.number)
    sent = [SentBy(tuple(numbers), call) for call, numbers in senders.items()]
    sent.sort(key=lambda row: DIMENSIONS.index(row.call.dimension))
    shown_cure = None
    for change, after in cures(job, config):
        shown_cure = tuple(change.values.items()), after.bytes
        break
    return JobShown(
        job=job,
        setup=config,
        sent=tuple(sent),
        plain=plain,
        times=tuple(with_offload(config, stage_times(config, stage)) for stage in stages),
        memory=memory(config),
        cure=shown_cure,
        flops=model_flops(config) if config.shape else None,
    )


def check_job(name: str) -> CheckedJob:
    """Read a job file, and return it with its warnings."""
    job = load_job(name)
    # without dp the groups of calls are not known
    if job.draft.layout.dp:
        job.plain_calls(job.setup())
    return CheckedJob(find_job(name)[1], job, tuple(job_warnings(job)))


def job_warnings(job: Job) -> Iterator[JobWarning]:
    """Yield what is allowed in a job, but costs time or is missing from the figures."""
    config = job.draft
    layout = job.draft.layout
    model = job.where(("model",))
    for part in config.model.left_out if config.model else ():
        yield JobWarning(model, remark("not_counted", part=part))
    for name, size in _matrix_sides(config).items():
        if size % TILE_SIDE:
            yield JobWarning(model, remark("partial_tiles", side=name, size=size, tile=TILE_SIDE))
    if layout.dp and layout.pp > 1 and config.micro_batches < layout.pp:
        yield JobWarning(
            job.where(("batch",)),
            remark("few_micro_batches", micro_batches=config.micro_batches, stages=layout.pp),
        )


def _matrix_sides(config: ParallelConfig) -> dict[str, int]:
    """Sides of a model's matrices on a rank, by name."""
    shape = config.shape
    layout = config.layout
    if shape is None:
        return {}
    sides = {"hidden": shape.hidden}
    if shape.mla is None:
        sides["head_dim"] = shape.head_dim
    sides["ffn / tp"] = shape.ffn // layout.tp
    if shape.moe is not None:
        sides["expert width / etp"] = shape.moe.ffn // layout.etp
    return sides


def on_fabric(job: Job, fabric: Fabric) -> Job:
    """Return the job on the fabric's device, unless it names its own.

    Raises:
        ManyErrors: the two differ, or the stack has no efficiency for the device.
    """
    check_even(fabric)
    draft = job.draft
    if draft.model is None or fabric.device is None:
        return require_speed(job, fabric)
    fabric_device = None
    if fabric.device in preset_names("devices"):
        fabric_device = accelerator_of(read_device(fabric.device, Path()), fabric.device)
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
        meant = stack_of_job(job.file, fabric_device)
        if meant != stack.name:
            stack = stack_of(read_stack(meant, Path()), meant)._replace(measured=stack.measured)
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
    generation.
    """
    device = job.draft.device
    shipped = preset_names("devices")
    assert device is not None
    if device.name == fabric.device:
        return
    is_shipped = device.name in shipped
    if fabric_device is None:
        same_chip = not is_shipped
    else:
        same_chip = device.generation == fabric_device.generation and (
            not is_shipped or device.peak_flops("bf16") == fabric_device.peak_flops("bf16")
        )
    if same_chip:
        return
    other = argument_text("overrides", [f"device={device.name if is_shipped else 'null'}"])
    job.refuse(
        [
            Violation(
                ("device",),
                f"the job asks for {device.name}, but {fabric.name} has {fabric.device}",
                f"device: {fabric.device}, or leave it out; {other} where the fabric has other devices",
            )
        ]
    )


def _other_stacks(device: Accelerator, precision: str) -> Iterator[str]:
    """Yield the shipped stacks that know a device, as options."""
    for name in preset_names("stacks"):
        stack = stack_of(read_stack(name, Path()), name)
        if stack.knows(device, precision):
            yield argument_text("job_overrides", [f"stack={stack.name}"])


def require_speed(job: Job, fabric: Fabric | None = None) -> Job:
    """Return the job as it is.

    Raises:
        ColltoolError: it has a model, but neither a device nor times of its compute.
    """
    draft = job.draft
    if draft.model is None or draft.device is not None or draft.compute is not None:
        return job
    what = f"nothing says how fast {job.name} computes: no 'device'"
    place = "the job"
    if fabric is not None:
        what += f", and {fabric.name} names none either"
        place += " or the fabric"
    raise ColltoolError(
        what, where=job.where(()), fix=f"device: h100 in {place}, or compute: {{...}}"
    )


def refuse_impossible_step(job: Job, step_s: float, mfu: float | None) -> None:
    """Refuse a step faster than the peak of its devices, at the key of the job that sets its
    speed."""
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
