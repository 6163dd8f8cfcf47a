"""What questions about job files return: frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.training.compute import StageTimes, stage_times
from colltool.training.device import computing
from colltool.training.files.values import written
from colltool.training.flops import model_flops
from colltool.training.job import Job, PlainCall
from colltool.training.memory import Memory, memory, smallest_change
from colltool.training.setup import Setup, Stage, stages_of
from colltool.training.traffic.call import Call
from colltool.training.traffic.step import stage_calls
from colltool.training.unusual import Odd, odd

DIMENSIONS = ("tp", "vocab", "cp", "ep", "etp", "pp", "dp", "expert dp", "embedding", "norm")
"""In the order in which people read them."""


@dataclass(frozen=True, eq=False, repr=False)
class JobList(Result):
    """Jobs beside each other, such as the shipped ones."""

    subject: ClassVar[str] = "job"
    jobs: tuple[Job, ...]


class SentBy(NamedTuple):
    """A collective, and the pipeline stages that send it as it is."""

    stages: tuple[int, ...]
    call: Call


@dataclass(frozen=True, eq=False, repr=False)
class JobShown(Result):
    """One job on so many ranks: what it computes, sends and keeps. ``times`` of the stages, in seconds of a micro-batch.

    ``flops`` are those that the model needs in a step over all ranks, the causal half of attention alone. ``cure``: values by
    key with which a job that does not fit would, and the bytes of its worst stage then.
    """

    subject: ClassVar[str] = "job"
    job: Job
    setup: Setup
    sent: tuple[SentBy, ...]
    plain: tuple[PlainCall, ...]
    times: tuple[StageTimes, ...]
    memory: Memory | None
    cure: tuple[tuple[tuple[str, str], ...], float] | None
    flops: float | None


class Checked(NamedTuple):
    """A job file that holds, and what is odd about it."""

    file: str
    job: Job
    warnings: tuple[Odd, ...]


@dataclass(frozen=True, eq=False, repr=False)
class JobsChecked(Result):
    """The files that hold, and what is odd about them."""

    subject: ClassVar[str] = "job_check"
    checks: tuple[Checked, ...]


def show_job(job: Job, ranks: int | None = None) -> JobShown:
    """A job on so many ranks.

    Raises:
        ColltoolError: as :meth:`colltool.training.job.Job.setup`.
    """
    setup = computing(job).setup(ranks)
    plain = job.plain_calls(setup)
    if setup.model is None:
        return JobShown(job, setup, (), plain, (), None, cure=None, flops=None)
    stages = stages_of(setup)
    kept, change = memory(setup), smallest_change(setup)
    cure = None
    if change is not None:
        cure = tuple((key, written(value)) for key, value in change.values.items()), change.memory.bytes
    return JobShown(
        job,
        setup,
        merged(setup, stages),
        plain,
        tuple(stage_times(setup, stage) for stage in stages),
        kept,
        cure=cure,
        flops=model_flops(setup) if setup.model.shape else None,
    )


def merged(setup: Setup, stages: tuple[Stage, ...]) -> tuple[SentBy, ...]:
    """The calls of all stages, each once with the stages that send it."""
    found: dict[Call, list[int]] = {}
    for stage in stages:
        for call in stage_calls(setup, stage):
            found.setdefault(call, []).append(stage.number)
    sent = [SentBy(tuple(numbers), call) for call, numbers in found.items()]
    return tuple(sorted(sent, key=lambda one: DIMENSIONS.index(one.call.dimension)))


def check_job(name: str) -> Checked:
    """A job file as it was read, and what is odd about it.

    Raises:
        ColltoolError: what is wrong with it.
    """
    from colltool.training.job import find_job, load_job

    job = load_job(name)
    if job.draft.layout.dp:
        job.plain_calls(job.setup())
    return Checked(find_job(name)[1], job, odd(job))
