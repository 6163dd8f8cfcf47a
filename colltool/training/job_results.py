"""Results of the questions about job files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.definitions.source import KeyPath
from colltool.training.calls import Call
from colltool.training.compute import StageTimes, stage_times
from colltool.training.files.schema import written
from colltool.training.job import Job, PlainCall, find_job, load_job
from colltool.training.job_placement import computing
from colltool.training.memory import Memory, memory, smallest_change
from colltool.training.operations import model_flops
from colltool.training.parallel_config import ParallelConfig, PipelineStage, pipeline_stages
from colltool.training.traffic import stage_calls

DIMENSIONS = ("tp", "vocab", "cp", "ep", "etp", "pp", "dp", "expert dp", "embedding", "norm")  # in reading order


@dataclass(frozen=True, eq=False, repr=False)
class JobList(Result):
    subject: ClassVar[str] = "job"
    jobs: tuple[Job, ...]


class SentBy(NamedTuple):
    """A collective and the pipeline stages that send it."""

    stages: tuple[int, ...]
    call: Call


@dataclass(frozen=True, eq=False, repr=False)
class JobShown(Result):
    """What a job computes, sends and keeps on some ranks."""

    subject: ClassVar[str] = "job"
    job: Job
    setup: ParallelConfig
    sent: tuple[SentBy, ...]
    plain: tuple[PlainCall, ...]
    times: tuple[StageTimes, ...]  # by stage, of one micro-batch
    memory: Memory | None
    cure: tuple[tuple[tuple[str, str], ...], float] | None  # settings that make it fit, and the bytes of its worst stage then
    flops: float | None  # model FLOPs of a step over all ranks, with the causal half of attention


class CheckedJob(NamedTuple):
    file: str
    job: Job
    warnings: tuple[JobWarning, ...]


@dataclass(frozen=True, eq=False, repr=False)
class JobsChecked(Result):
    subject: ClassVar[str] = "job_check"
    checks: tuple[CheckedJob, ...]


def show_job(job: Job, ranks: int | None = None) -> JobShown:
    config = computing(job).setup(ranks)
    plain = job.plain_calls(config)
    if config.model is None:
        return JobShown(job, config, (), plain, (), None, cure=None, flops=None)
    stages = pipeline_stages(config)
    kept, change = memory(config), smallest_change(config)
    cure = None
    if change is not None:
        cure = tuple((key, written(value)) for key, value in change.values.items()), change.memory.bytes
    return JobShown(
        job,
        config,
        merged(config, stages),
        plain,
        tuple(stage_times(config, stage) for stage in stages),
        kept,
        cure=cure,
        flops=model_flops(config) if config.model.shape else None,
    )


def merged(config: ParallelConfig, stages: tuple[PipelineStage, ...]) -> tuple[SentBy, ...]:
    """The distinct calls of all stages."""
    found: dict[Call, list[int]] = {}
    for stage in stages:
        for call in stage_calls(config, stage):
            found.setdefault(call, []).append(stage.number)
    sent = [SentBy(tuple(numbers), call) for call, numbers in found.items()]
    return tuple(sorted(sent, key=lambda one: DIMENSIONS.index(one.call.dimension)))


def check_job(name: str) -> CheckedJob:
    job = load_job(name)
    if job.draft.layout.dp:
        job.plain_calls(job.setup())
    return CheckedJob(find_job(name)[1], job, job_warnings(job))


TILE = 64  # tensor cores work on tiles of 64 and 128: a side that is no multiple costs 30 to 50% of published GEMM rates
_SLOW = "partly filled matrix tiles cost published runs 30 to 50%"


class JobWarning(NamedTuple):
    """Something allowed that is probably not meant."""

    where: str
    what: str
    why: str


def job_warnings(job: Job) -> tuple[JobWarning, ...]:
    left, why_left = job.draft.model.left_out if job.draft.model else (), "its work and memory are missing from every figure"
    uncounted: list[tuple[KeyPath, str, str]] = [(("model",), f"not counted: {one}", why_left) for one in left]
    return tuple(
        JobWarning(job.where(path), what, why) for path, what, why in (*uncounted, *_sizes(job.draft), *_batch(job.draft))
    )


def _sizes(config: ParallelConfig) -> list[tuple[KeyPath, str, str]]:
    shape = config.model.shape if config.model else None
    if shape is None:
        return []
    tp = config.layout.tp
    sides = {
        "hidden": shape.hidden,
        "head_dim": shape.head_dim if shape.mla is None else TILE,
        "ffn / tp": shape.ffn // tp,
        "expert width / etp": shape.moe.ffn // config.layout.etp if shape.moe else TILE,
    }
    return [(("model",), f"{name} is {size}, no multiple of {TILE}", _SLOW) for name, size in sides.items() if size % TILE]


def _batch(config: ParallelConfig) -> list[tuple[KeyPath, str, str]]:
    layout = config.layout
    if not layout.dp or layout.pp == 1 or config.micro_batches >= layout.pp:
        return []
    what = f"{config.micro_batches} micro-batches for {layout.pp} pipeline stages"
    return [(("batch",), what, "most of the step is pipeline bubble")]
