"""A whole step: pipeline, exposed communication, optimizer, fixed time, jitter; and the same with a free network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from typing import NamedTuple

from colltool.base.formatting import format_time
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.constraint_violations import Violation
from colltool.training.job import Job, PlainCall
from colltool.training.job_results import DIMENSIONS
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import ParallelConfig, PipelineStage, pipeline_stages
from colltool.training.stage_time import StageStep, stage_step, views
from colltool.training.strategies import Pass, pipeline_s

JITTER_FROM = 8  # devices: weak-scaling series were taken from one node upwards


class StepPart(NamedTuple):
    name: str
    hidden_s: float
    exposed_s: float  # seconds added to the step


class TrainingStep(NamedTuple):
    step_s: float
    control_s: float
    parts: tuple[StepPart, ...]  # their exposed seconds sum to ``step_s``
    stages: tuple[StageStep, ...]
    slowest: StageStep  # sets the pipeline's pace
    last: StageStep  # has most to do after it
    paced: tuple[PricedCall, ...]  # the calls in the parts


class StepTime(NamedTuple):
    """A step before it is sorted into parts."""

    step_s: float
    control_s: float
    stages: tuple[StageStep, ...]
    slowest: StageStep
    last: StageStep
    pipeline_s: float
    fixed_s: float
    jitter: float  # share of the step


def step_time(config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...] = ()) -> StepTime:
    where = pipeline_stages(config) if config.model is not None else (PipelineStage(0, 0, 0, embedding=True, head=True),)
    seen = views(config)
    by_kind = {stage.kind: stage_step(config, seen, stage, costs, plain) for stage in {one.kind: one for one in where}.values()}
    stages = tuple(by_kind[stage.kind] for stage in where)
    slowest = max(stages, key=lambda one: one.passed.total_s)
    last = max(stages, key=lambda one: one.tail_s)
    pipeline = _pipeline(config, [one.passed for one in stages])
    borders = max(one.borders_s for one in stages)
    fixed = config.stack.fixed_s if config.stack is not None else 0.0
    still = pipeline + borders + last.tail_s + fixed
    share = jitter_share(config)
    free = _pipeline(config, [one.bare for one in stages]) + max(one.optimizer_s for one in stages) + fixed
    return StepTime(
        step_s=(1 + share) * still,
        control_s=(1 + share) * free,
        stages=stages,
        slowest=slowest,
        last=last,
        pipeline_s=pipeline,
        fixed_s=fixed,
        jitter=share / (1 + share),
    )


def step_of(config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...] = ()) -> TrainingStep:
    step_s, control_s, stages, slowest, last, pipeline, fixed, jitter = step_time(config, costs, plain)
    bubble = pipeline - config.micro_batches * slowest.passed.total_s
    paced = _paced(slowest, last, stages)
    parts = [
        StepPart("compute", 0.0, config.micro_batches * slowest.compute_s),
        *_dimensions(paced),
        StepPart("bubble", 0.0, bubble),
        StepPart("optimizer", 0.0, last.optimizer_s),
        StepPart("overlap slows compute", 0.0, last.slowed_s),
        StepPart("fixed", 0.0, fixed),
        StepPart("jitter", 0.0, jitter * step_s),
    ]
    kept = tuple(part for part in parts if part.name == "compute" or abs(part.exposed_s) > 1e-15 or part.hidden_s)
    return TrainingStep(step_s=step_s, control_s=control_s, parts=kept, stages=stages, slowest=slowest, last=last, paced=paced)


def jitter_share(config: ParallelConfig) -> float:
    """Waiting for the slowest rank: a share for each doubling of devices beyond a node."""
    if config.stack is None:
        return 0.0
    return config.stack.jitter * max(0.0, log2(max(1, config.layout.ranks) / JITTER_FROM))


def _pipeline(config: ParallelConfig, passes: Sequence[Pass]) -> float:
    return pipeline_s(config.schedule, passes, config.micro_batches, config.layout.virtual)


def _paced(slowest: StageStep, last: StageStep, stages: Sequence[StageStep]) -> tuple[PricedCall, ...]:
    """A micro-batch's calls on the slowest stage, the borders of the worst, and what the last sends once."""
    between = max(stages, key=lambda one: one.borders_s)
    taken = [one for one in slowest.sent if one.call.per not in ("step", "border")]
    taken += [one for one in (between if between.borders_s else slowest).sent if one.call.per == "border"]
    return (*taken, *(one for one in last.sent if one.call.per == "step"))


def _dimensions(taken: Sequence[PricedCall]) -> list[StepPart]:
    names = sorted({one.call.dimension for one in taken}, key=lambda name: DIMENSIONS.index(name) if name in DIMENSIONS else 99)
    return [
        StepPart(
            name,
            sum(one.hidden_s for one in taken if one.call.dimension == name),
            sum(one.exposed_s for one in taken if one.call.dimension == name),
        )
        for name in names
    ]


BELIEVED = (0.5, 2.0)  # stacks of one device differ by 20 to 40% in published runs, one stack over its releases by up to 38%
_CLOSE = 1e-12
_MOST_TRIES = 200


class StepCalibration(NamedTuple):
    factor: float  # times as long as the stack says
    before_s: float  # the step without it

    @property
    def believable(self) -> bool:
        """Whether a stack can be this far off; else something other than its speed is wrong."""
        return BELIEVED[0] <= self.factor <= BELIEVED[1]


def calibrated(
    job: Job, config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...], now: TrainingStep
) -> StepCalibration | None:
    """What makes the step the measured one; None where nothing was measured, or the speed is given."""
    measured_s = job.measured_step_s
    if measured_s is None or config.stack is None or config.compute is not None or job.file.slower is not None:
        return None

    def off(factor: float) -> float:
        return step_of(config._replace(slower=factor), costs, plain).step_s - measured_s

    if off(0.0) >= 0:
        alone = f"network and fixed time alone take {format_time(off(0.0) + measured_s)}"
        fix = "no stack reaches it: check the measured time (of one step, on these ranks), the layout, and the fabric"
        job.refuse([Violation(("measured", "step"), f"a step of {format_time(measured_s)}, and {alone}", fix)])
    return StepCalibration(_root(off, measured_s / now.step_s, _CLOSE * measured_s), now.step_s)


def _root(off: Callable[[float], float], guess: float, close: float) -> float:
    """Zero of a rising function by regula falsi, halving an end that stays (Illinois)."""
    low, below, high = 0.0, off(0.0), max(guess, 1.0)
    while (above := off(high)) < 0:
        low, below, high = high, above, 2 * high
    stayed = 0
    for _ in range(_MOST_TRIES):
        at = (low * above - high * below) / (above - below)
        value = off(at)
        if abs(value) <= close:
            break
        if value < 0:
            low, below, above, stayed = at, value, above / 2 if stayed > 0 else above, 1
        else:
            high, above, below, stayed = at, value, below / 2 if stayed < 0 else below, -1
    return at
