"""``job show`` and ``job check``: what a rank of a job computes, sends and keeps (:func:`show_job`), and
what of a file is allowed and doubtful (:func:`check_job`), with the results of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from colltool.base.result import Result, result
from colltool.training.calls import DIMENSIONS, Call, stage_calls
from colltool.training.compute_times import StageTimes, stage_times
from colltool.training.flops import model_flops
from colltool.training.job import Job, PlainCall, load_job
from colltool.training.job_device import require_speed
from colltool.training.job_sources import find_job
from colltool.training.memory import Memory, memory
from colltool.training.offload import with_offload
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.proposals import cures
from colltool.training.sentences import Remark, remark, sentence

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
    sent: tuple[SentBy, ...]  # by dimension, in the order of DIMENSIONS
    plain: tuple[PlainCall, ...]
    times: tuple[StageTimes, ...]  # by stage, of one micro-batch
    memory: Memory | None  # None without a model
    # settings that make it fit, and the bytes of its worst stage then; None where it needs none, or
    # none is known
    cure: tuple[tuple[tuple[str, str], ...], float] | None
    # model FLOPs of a step over all ranks, with the causal half of attention; None without a shape
    flops: float | None


class JobWarning(NamedTuple):
    """Something of a job file that is allowed and doubtful, with its place in the file."""

    where: str  # file, line and column
    remark: Remark  # what, and what it costs

    @property
    def what(self) -> str:
        """What is doubtful, in words."""
        return sentence(self.remark)

    @property
    def why(self) -> str:
        """What it costs."""
        return self.remark.cost


class CheckedJob(NamedTuple):
    """A valid job file with its warnings."""

    file: str  # as errors call it
    job: Job
    warnings: tuple[JobWarning, ...]


@result
class JobsChecked(Result):
    """Checked job files."""

    subject: ClassVar[str] = "job"
    checks: tuple[CheckedJob, ...]


def show_job(job: Job, ranks: int | None = None) -> JobShown:
    """Return what a rank of a job computes, sends and keeps, on ``ranks`` or those of its layout.

    Raises:
        ColltoolError: nothing says how fast the job computes.
        ManyErrors: its layout does not fit the ranks.
    """
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
    first_cure = None
    for change, after in cures(job, config):
        first_cure = tuple(change.values.items()), after.bytes
        break
    return JobShown(
        job=job,
        setup=config,
        sent=tuple(sent),
        plain=plain,
        times=tuple(with_offload(config, stage_times(config, stage)) for stage in stages),
        memory=memory(config),
        cure=first_cure,
        flops=model_flops(config) if config.shape else None,
    )


def check_job(name: str) -> CheckedJob:
    """Read a job file, and return it with its warnings; ManyErrors where it is not valid."""
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
