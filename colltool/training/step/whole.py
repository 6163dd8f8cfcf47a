"""The whole step: pipeline, exposed gradients, optimizer, what is fixed, jitter; and the same with a free network."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

from colltool.training.job import PlainCall
from colltool.training.pipelines import pipeline_s
from colltool.training.results import DIMENSIONS
from colltool.training.setup import Setup, Stage, stages_of
from colltool.training.step.beside import Sent
from colltool.training.step.fare import Fares
from colltool.training.step.stage import StageStep, stage_step, views

JITTER_FROM = 8  # devices: weak-scaling series were taken from one node upwards


class StepPart(NamedTuple):
    """A part of a step: seconds that hide under compute, and those that the step takes longer for it."""

    name: str
    hidden_s: float
    exposed_s: float


class Step(NamedTuple):
    """A step: ``slowest`` sets the pipeline's pace, ``last`` has most to do after it. Exposed parts sum to ``step_s``.

    ``paced`` are the calls of which those parts consist.
    """

    step_s: float
    control_s: float
    parts: tuple[StepPart, ...]
    stages: tuple[StageStep, ...]
    slowest: StageStep
    last: StageStep
    paced: tuple[Sent, ...]


class Timed(NamedTuple):
    """How long a step takes and why, before anybody sorts it by parts: ``jitter`` is a share of it."""

    step_s: float
    control_s: float
    stages: tuple[StageStep, ...]
    slowest: StageStep
    last: StageStep
    pipeline_s: float
    fixed_s: float
    jitter: float


def timed(setup: Setup, fares: Fares, plain: tuple[PlainCall, ...] = ()) -> Timed:
    """How long a step of a job takes on a fabric.

    Raises:
        ColltoolError: a group that does not fit the fabric.
    """
    where = stages_of(setup) if setup.model is not None else (Stage(0, 0, 0, embedding=True, head=True),)
    seen = views(setup)
    by_kind = {stage.kind: stage_step(setup, seen, stage, fares, plain) for stage in {one.kind: one for one in where}.values()}
    stages = tuple(by_kind[stage.kind] for stage in where)
    slowest = max(stages, key=lambda one: one.passed.total_s)
    last = max(stages, key=lambda one: one.tail_s)
    pipeline = _pipeline(setup, [one.passed for one in stages])
    borders = max(one.borders_s for one in stages)
    fixed = setup.stack.fixed_s if setup.stack is not None else 0.0
    still = pipeline + borders + last.tail_s + fixed
    share = jitter_share(setup)
    free = _pipeline(setup, [one.bare for one in stages]) + max(one.optimizer_s for one in stages) + fixed
    return Timed(
        step_s=(1 + share) * still,
        control_s=(1 + share) * free,
        stages=stages,
        slowest=slowest,
        last=last,
        pipeline_s=pipeline,
        fixed_s=fixed,
        jitter=share / (1 + share),
    )


def step_of(setup: Setup, fares: Fares, plain: tuple[PlainCall, ...] = ()) -> Step:
    """A step of a job on a fabric with its parts.

    Raises:
        ColltoolError: a group that does not fit the fabric.
    """
    step_s, control_s, stages, slowest, last, pipeline, fixed, jitter = timed(setup, fares, plain)
    bubble = pipeline - setup.micro_batches * slowest.passed.total_s
    paced = _paced(slowest, last, stages)
    parts = [
        StepPart("compute", 0.0, setup.micro_batches * slowest.compute_s),
        *_dimensions(paced),
        StepPart("bubble", 0.0, bubble),
        StepPart("optimizer", 0.0, last.optimizer_s),
        StepPart("overlap slows compute", 0.0, last.slowed_s),
        StepPart("fixed", 0.0, fixed),
        StepPart("jitter", 0.0, jitter * step_s),
    ]
    kept = tuple(part for part in parts if part.name == "compute" or abs(part.exposed_s) > 1e-15 or part.hidden_s)
    return Step(
        step_s=step_s,
        control_s=control_s,
        parts=kept,
        stages=stages,
        slowest=slowest,
        last=last,
        paced=paced,
    )


def jitter_share(setup: Setup) -> float:
    """What waiting for the slowest rank adds: so much a doubling of devices beyond a node."""
    if setup.stack is None:
        return 0.0
    return setup.stack.jitter * max(0.0, log2(max(1, setup.layout.ranks) / JITTER_FROM))


def _pipeline(setup: Setup, passes: Sequence[object]) -> float:
    return pipeline_s(setup.schedule, passes, setup.micro_batches, setup.layout.virtual)  # type: ignore[arg-type]


def _paced(slowest: StageStep, last: StageStep, stages: Sequence[StageStep]) -> tuple[Sent, ...]:
    """What a micro-batch sends on the slowest stage, the borders of the worst, what the last has to do once."""
    between = max(stages, key=lambda one: one.borders_s)
    taken = [one for one in slowest.sent if one.call.per not in ("step", "border")]
    taken += [one for one in (between if between.borders_s else slowest).sent if one.call.per == "border"]
    return (*taken, *(one for one in last.sent if one.call.per == "step"))


def _dimensions(taken: Sequence[Sent]) -> list[StepPart]:
    """Each dimension of these calls."""
    names = sorted({one.call.dimension for one in taken}, key=lambda name: DIMENSIONS.index(name) if name in DIMENSIONS else 99)
    return [
        StepPart(
            name,
            sum(one.hidden_s for one in taken if one.call.dimension == name),
            sum(one.exposed_s for one in taken if one.call.dimension == name),
        )
        for name in names
    ]
