"""A job on a device, its own or the fabric's; and results of the questions about job files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import format_time, percent
from colltool.base.result import Result
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.training.calls import DIMENSIONS, Call, stage_calls
from colltool.training.constraint_violations import Violation
from colltool.training.files import written
from colltool.training.files.presets import preset_names, read_device, read_stack
from colltool.training.job import Job, PlainCall, find_job, load_job
from colltool.training.memory import Memory, cures, memory
from colltool.training.model import accelerator_of, stack_of
from colltool.training.offload import with_offload
from colltool.training.operations import StageTimes, model_flops, stage_times
from colltool.training.parallel_config import ParallelConfig, pipeline_stages

MAPPING = "device: {generation: ..., peak: {bf16: ...}, memory: ..., bandwidth: ...} in the job"
# tensor cores work on tiles of 64 and 128: a side that is no multiple costs 30 to 50% of published
# GEMM rates
TILE = 64


@dataclass(frozen=True, eq=False, repr=False)
class JobList(Result):
    subject: ClassVar[str] = "job"
    jobs: tuple[Job, ...]


class SentBy(NamedTuple):
    stages: tuple[int, ...]
    call: Call


@dataclass(frozen=True, eq=False, repr=False)
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
    where: str
    what: str
    why: str


class CheckedJob(NamedTuple):
    file: str
    job: Job
    warnings: tuple[JobWarning, ...]


@dataclass(frozen=True, eq=False, repr=False)
class JobsChecked(Result):
    subject: ClassVar[str] = "job"
    checks: tuple[CheckedJob, ...]


def show_job(job: Job, ranks: int | None = None) -> JobShown:
    config = computing(job).setup(ranks)
    plain = job.plain_calls(config)
    if config.model is None:
        return JobShown(job, config, (), plain, (), None, cure=None, flops=None)
    stages, found = pipeline_stages(config), dict[Call, list[int]]()
    for stage in stages:
        for call in stage_calls(config, stage):
            found.setdefault(call, []).append(stage.number)
    sent = (SentBy(tuple(numbers), call) for call, numbers in found.items())
    change = next(cures(config), None)
    return JobShown(
        job=job,
        setup=config,
        sent=tuple(sorted(sent, key=lambda one: DIMENSIONS.index(one.call.dimension))),
        plain=plain,
        times=tuple(with_offload(config, stage_times(config, stage)) for stage in stages),
        memory=memory(config),
        cure=change
        and (
            tuple((key, written(value)) for key, value in change.values.items()),
            change.memory.bytes,
        ),
        flops=model_flops(config) if config.shape else None,
    )


def check_job(name: str) -> CheckedJob:
    job = load_job(name)
    if job.draft.layout.dp:
        job.plain_calls(job.setup())
    return CheckedJob(find_job(name)[1], job, job_warnings(job))


def job_warnings(job: Job) -> tuple[JobWarning, ...]:
    config, layout, shape, moe, found = (
        job.draft,
        job.draft.layout,
        job.draft.shape,
        job.draft.moe,
        list[JobWarning](),
    )
    model, batch = job.where(("model",)), job.where(("batch",))
    for left in config.model.left_out if config.model else ():
        found.append(
            JobWarning(
                model, f"not counted: {left}", "its work and memory are missing from every figure"
            )
        )
    if shape is not None:
        sides = {
            "hidden": shape.hidden,
            "head_dim": shape.head_dim if shape.mla is None else TILE,
            "ffn / tp": shape.ffn // layout.tp,
            "expert width / etp": moe.ffn // layout.etp if moe else TILE,
        }
        why = "partly filled matrix tiles cost published runs 30 to 50%"
        uneven = (
            f"{name} is {size}, no multiple of {TILE}"
            for name, size in sides.items()
            if size % TILE
        )
        found += [JobWarning(model, what, why) for what in uneven]
    if layout.dp and layout.pp > 1 and config.micro_batches < layout.pp:
        what = f"{config.micro_batches} micro-batches for {layout.pp} pipeline stages"
        found.append(JobWarning(batch, what, "most of the step is pipeline bubble"))
    return tuple(found)


def on_fabric(job: Job, fabric: Fabric) -> Job:
    """The job on the fabric's device unless it names its own; ManyErrors where they clash or the
    stack does not know it."""
    check_even(fabric)
    if job.draft.model is None or fabric.device is None:
        return computing(job, fabric)
    own, name, shipped = job.draft.device, fabric.device, preset_names("devices")
    theirs = accelerator_of(read_device(name, Path()), name) if name in shipped else None
    if job.device_from == "job":
        assert own is not None
        # the same chip, maybe with other memory, as H200 is H100; a device of the job's own counts
        # by its generation
        unknown, same = own.name not in shipped, own.name == name
        if not same and theirs is not None and own.generation == theirs.generation:
            same = unknown or own.peak_flops("bf16") == theirs.peak_flops("bf16")
        if not (same or (unknown and theirs is None)):
            there = given("overrides", [f"device={own.name if own.name in shipped else 'null'}"])
            fix = f"device: {name}, or leave it out; {there} where the fabric has other devices"
            job.refuse(
                [
                    Violation(
                        ("device",),
                        f"the job asks for {own.name}, but {fabric.name} has {name}",
                        fix,
                    )
                ]
            )
        return job
    if job.draft.compute is not None and own is None:  # times that are given need no device
        return job
    if theirs is None:
        what = f"{fabric.name} has {name}, which has no compute figures here"
        job.refuse([Violation(("device",), what, MAPPING)])
    assert theirs is not None
    found = replace(job, draft=job.draft._replace(device=theirs), device_from="fabric")
    stack, precision = job.draft.stack, job.draft.precision.compute
    if stack is not None and job.draft.compute is None and not stack.knows(theirs, precision):
        every = [stack_of(read_stack(name, Path()), name) for name in preset_names("stacks")]
        others = [
            given("job_overrides", [f"stack={one.name}"])
            for one in every
            if one.knows(theirs, precision)
        ]
        what = (
            f"stack {stack.name} has no efficiency for {precision} on {theirs.name}, the fabric's"
            " device"
        )
        found.refuse(
            [Violation(("stack",), what, " or ".join([*others, "the stack as a mapping"]))]
        )
    return found


def computing(job: Job, fabric: Fabric | None = None) -> Job:
    """The job as it is; ColltoolError where it has a model, and neither a device nor times say how
    fast it computes."""
    draft = job.draft
    if draft.model is None or draft.device is not None or draft.compute is not None:
        return job
    where = "" if fabric is None else f", and {fabric.name} names none either"
    fix = (
        f"device: h100 in the job{'' if fabric is None else ' or the fabric'}, or compute: {{...}}"
    )
    raise ColltoolError(
        f"nothing says how fast {job.name} computes: no 'device'{where}",
        where=job.where(()),
        fix=fix,
    )


def refuse_impossible_step(job: Job, step_s: float, mfu: float | None) -> None:
    """Refuses a step above the peak of its devices, at what the job itself says of its speed."""
    if mfu is None or mfu <= 1:
        return
    path: KeyPath = ("device",)
    check, draft = "the peak of the device, the stack, and the precision", job.draft
    if draft.compute is not None:
        path = ("compute",)
        check = (
            "compute: forward and backward are of a whole step over all micro-batches, or of one"
            " layer and one"
        )
    elif job.measured_step_s is not None and job.file.slower is None:
        path, check = ("measured", "step"), "the measured time, the batch, the ranks and the device"
    elif draft.slower < 1:
        path, check = ("slower",), "slower: a number below 1 computes faster than the stack says"
    device = draft.device.name if draft.device is not None else "device"
    what = (
        f"a step of {format_time(step_s)} would be {percent(mfu)} of the peak of {device} in"
        f" {draft.precision.compute}"
    )
    job.refuse([Violation(path, f"{what}: more than it can compute", f"check {check}")])
