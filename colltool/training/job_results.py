"""A job on a device, its own or the fabric's; and results of the questions about job files."""

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
from colltool.training.constraint_violations import Violation
from colltool.training.files import written
from colltool.training.files.presets import preset_names, read_device, read_stack
from colltool.training.job import Job, PlainCall, find_job, load_job
from colltool.training.memory import Memory, cures, memory
from colltool.training.model import Accelerator, accelerator_of, stack_of
from colltool.training.offload import with_offload
from colltool.training.operations import StageTimes, model_flops, stage_times
from colltool.training.parallel_config import ParallelConfig, pipeline_stages
from colltool.training.sentences import WARNING_REASONS, Remark, remark, sentence

MAPPING = "device: {generation: ..., peak: {bf16: ...}, memory: ..., bandwidth: ...} in the job"
# tensor cores work on tiles of 64 and 128: a side that is no multiple costs 30 to 50% of published
# GEMM rates
TILE = 64


@result
class JobList(Result):
    subject: ClassVar[str] = "job"
    jobs: tuple[Job, ...]


class SentBy(NamedTuple):
    stages: tuple[int, ...]
    call: Call


@result
class JobShown(Result):
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
        return WARNING_REASONS[self.remark.code]


class CheckedJob(NamedTuple):
    file: str
    job: Job
    warnings: tuple[JobWarning, ...]


@result
class JobsChecked(Result):
    subject: ClassVar[str] = "job"
    checks: tuple[CheckedJob, ...]


def show_job(job: Job, ranks: int | None = None) -> JobShown:
    """What a rank of a job computes, sends and keeps."""
    config = computing(job).setup(ranks)
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
    cure = next(cures(config), None)
    shown_cure = None
    if cure is not None:
        values = tuple((key, written(value)) for key, value in cure.values.items())
        shown_cure = values, cure.memory.bytes
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
    """Read a job file, with what it has that is allowed and odd."""
    job = load_job(name)
    # without dp the groups of calls are not known
    if job.draft.layout.dp:
        job.plain_calls(job.setup())
    return CheckedJob(find_job(name)[1], job, tuple(job_warnings(job)))


def job_warnings(job: Job) -> Iterator[JobWarning]:
    """Yield what of a job is allowed, and costs time or is missing from the figures."""
    config, layout = job.draft, job.draft.layout
    model = job.where(("model",))
    for part in config.model.left_out if config.model else ():
        yield JobWarning(model, remark("not_counted", part=part))
    for name, size in _sides(config).items():
        if size % TILE:
            yield JobWarning(model, remark("partial_tiles", side=name, size=size, tile=TILE))
    if layout.dp and layout.pp > 1 and config.micro_batches < layout.pp:
        few = remark("few_micro_batches", micro_batches=config.micro_batches, stages=layout.pp)
        yield JobWarning(job.where(("batch",)), few)


def _sides(config: ParallelConfig) -> dict[str, int]:
    """Sides of a model's matrices."""
    shape, layout = config.shape, config.layout
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
    """The job on the fabric's device unless it names its own; ManyErrors where they clash or the
    stack does not know it."""
    check_even(fabric)
    draft = job.draft
    if draft.model is None or fabric.device is None:
        return computing(job, fabric)
    theirs = None
    if fabric.device in preset_names("devices"):
        theirs = accelerator_of(read_device(fabric.device, Path()), fabric.device)
    if job.device_from == "job":
        _refuse_other_device(job, fabric, theirs)
        return job
    if draft.compute is not None and draft.device is None:  # given times need no device
        return job
    if theirs is None:
        what = f"{fabric.name} has {fabric.device}, which has no compute figures here"
        job.refuse([Violation(("device",), what, MAPPING)])
    assert theirs is not None
    found = replace(job, draft=draft._replace(device=theirs), device_from="fabric")
    stack, precision = draft.stack, draft.precision.compute
    if stack is not None and draft.compute is None and not stack.knows(theirs, precision):
        what = (
            f"stack {stack.name} has no efficiency for {precision} on {theirs.name}, the fabric's"
            " device"
        )
        fix = " or ".join([*_other_stacks(theirs, precision), "the stack as a mapping"])
        found.refuse([Violation(("stack",), what, fix)])
    return found


def _refuse_other_device(job: Job, fabric: Fabric, theirs: Accelerator | None) -> None:
    """Refuse a job that asks for another device than the fabric has.

    The same chip may have other memory, as H200 is H100; a device of the job's own counts by its
    generation.
    """
    own, shipped = job.draft.device, preset_names("devices")
    assert own is not None
    if own.name == fabric.device:
        return
    known = own.name in shipped
    if theirs is None:
        same = not known
    else:
        same = own.generation == theirs.generation and (
            not known or own.peak_flops("bf16") == theirs.peak_flops("bf16")
        )
    if same:
        return
    other = argument_text("overrides", [f"device={own.name if known else 'null'}"])
    fix = f"device: {fabric.device}, or leave it out; {other} where the fabric has other devices"
    what = f"the job asks for {own.name}, but {fabric.name} has {fabric.device}"
    job.refuse([Violation(("device",), what, fix)])


def _other_stacks(device: Accelerator, precision: str) -> Iterator[str]:
    """Yield the shipped stacks that know a device, as options."""
    for name in preset_names("stacks"):
        stack = stack_of(read_stack(name, Path()), name)
        if stack.knows(device, precision):
            yield argument_text("job_overrides", [f"stack={stack.name}"])


def computing(job: Job, fabric: Fabric | None = None) -> Job:
    """The job as it is; ColltoolError where it has a model, and neither a device nor times say how
    fast it computes."""
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
    """Refuses a step above the peak of its devices, at what the job itself says of its speed."""
    if mfu is None or mfu <= 1:
        return
    draft = job.draft
    path: KeyPath = ("device",)
    check = "the peak of the device, the stack, and the precision"
    if draft.compute is not None:
        path = ("compute",)
        check = (
            "compute: forward and backward are of a whole step over all micro-batches, or of one"
            " layer and one"
        )
    elif job.measured_step_s is not None and job.file.slower is None:
        path = ("measured", "step")
        check = "the measured time, the batch, the ranks and the device"
    elif draft.slower < 1:
        path = ("slower",)
        check = "slower: a number below 1 computes faster than the stack says"
    device = draft.device.name if draft.device is not None else "device"
    what = (
        f"a step of {format_time(step_s)} would be {percent(mfu)} of the peak of {device} in"
        f" {draft.precision.compute}: more than it can compute"
    )
    job.refuse([Violation(path, what, f"check {check}")])
