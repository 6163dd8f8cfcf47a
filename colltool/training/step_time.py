"""The time of a whole training step, and of the same step with a free network.

:func:`step_time` is the entry. Each kind of stage is priced in :mod:`stage_step`: micro-batches with
the calls of their layers, messages over borders, and what is sent once a step. The pipeline schedule
makes a time of the micro-batches; the optimizer, a stack's fixed time and jitter come on top.
:mod:`step_calibration` fits a stack's speed to a measured step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import log2
from typing import NamedTuple

from colltool.training.calls import BORDER_CALLS, DIMENSIONS
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import PlainCall
from colltool.training.overlap import ROUNDING, PricedCall
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import (
    PipelineStage,
    bubble_divisor,
    once_a_kind,
    pipeline_stages,
)
from colltool.training.stage_step import StageStep, compute_pass, priced_calls, stage_step, views
from colltool.training.strategies import Pass, pipeline_s

JITTER_FROM = 8  # most devices without jitter: published weak-scaling series start at one node


class StepPart(NamedTuple):
    """Seconds of a step that go to compute, to a dimension's calls, or to something else."""

    name: str  # a dimension, "compute", "bubble", "optimizer" ...
    hidden_s: float  # seconds of calls under compute
    exposed_s: float  # seconds added to the step


class TrainingStep(NamedTuple):
    """A priced step with its stages."""

    config: ParallelConfig
    step_s: float  # all of it, jitter included
    control_s: float  # the step with a free network
    stages: tuple[StageStep, ...]  # one for each of the pipeline; stages of a kind share a record
    slowest: StageStep  # with the longest micro-batch, on which the others wait
    longest_tail: StageStep  # the stage that ends last: with the most ``tail_s``
    pipeline_s: float  # all micro-batches and the bubble, without borders and tail
    fixed_s: float
    jitter: float  # share of ``step_s``; that of a stack is one of the step without jitter

    @property
    def sent(self) -> list[PricedCall]:
        """Calls of all stages."""
        return list(chain.from_iterable(stage.sent for stage in self.stages))

    @property
    def critical_calls(self) -> tuple[PricedCall, ...]:
        """Calls whose seconds are in the parts of the step.

        Those of micro-batches on the slowest stage, of borders on the stage that waits longest for
        them, and what the stage with the longest tail sends once a step.
        """
        waiting = max(self.stages, key=lambda stage: stage.borders_s)
        # where no stage waits for borders, those of the slowest one say how many seconds hide
        if not waiting.borders_s:
            waiting = self.slowest
        return (
            *(call for call in self.slowest.sent if call.call.per not in ("step", "border")),
            *(call for call in waiting.sent if call.call.per == "border"),
            *(call for call in self.longest_tail.sent if call.call.per == "step"),
        )

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """Seconds of the step by what they go to; the exposed ones sum to ``step_s``. Compute is
        always there, other parts only where they take time."""
        m = self.config.micro_batches
        parts = (
            StepPart("compute", 0.0, m * self.slowest.compute.all.total_s),
            *_by_dimension(self.critical_calls),
            StepPart("bubble", 0.0, self.pipeline_s - m * self.slowest.passed.total_s),
            StepPart("optimizer", 0.0, self.longest_tail.optimizer_s),
            StepPart("overlap slows compute", 0.0, self.longest_tail.slowed_s),
            StepPart("fixed", 0.0, self.fixed_s),
            StepPart("jitter", 0.0, self.jitter * self.step_s),
        )
        rounding_s = ROUNDING * self.step_s
        return tuple(
            part
            for part in parts
            if part.name == "compute" or abs(part.exposed_s) > rounding_s or part.hidden_s
        )


def _by_dimension(calls: Iterable[PricedCall]) -> Iterator[StepPart]:
    """Yield a part for each dimension, in the order of DIMENSIONS; then those of plain calls, by
    name."""
    by_name: dict[str, list[PricedCall]] = {}
    for call in calls:
        by_name.setdefault(call.call.dimension, []).append(call)
    known = [name for name in DIMENSIONS if name in by_name]
    for name in (*known, *sorted(set(by_name) - set(DIMENSIONS))):
        hidden_s = sum(call.hidden_s for call in by_name[name])
        yield StepPart(name, hidden_s, sum(call.exposed_s for call in by_name[name]))


def step_time(
    config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...] = ()
) -> TrainingStep:
    """Price one step of a job whose dp is known.

    Args:
        config: the job as it runs.
        costs: prices of collectives on the fabric, shared by all layouts of a search.
        plain: the calls that the job lists itself, each sent once a step.

    Raises:
        ColltoolError: a group cannot be placed on the fabric.
    """
    # without a model all ranks are one stage without layers
    pipeline: tuple[PipelineStage, ...] = (PipelineStage(0, 0, 0, embedding=True, head=True),)
    if config.model is not None:
        pipeline = pipeline_stages(config)
    view = views(config)
    messages: list[PricedCall] = []
    if config.overlap.pp and config.layout.pp > 1:
        # the same on every stage
        messages = costs.shared(
            ("borders", view.borders),
            lambda: priced_calls(view.borders, pipeline[0], costs, BORDER_CALLS),
        )
    # stages of one kind take the same time, so one of each kind is priced
    stages = once_a_kind(
        pipeline, lambda stage: stage_step(config, view, stage, costs, plain, messages)
    )
    longest_tail = max(stages, key=lambda stage: stage.tail_s)
    passes_s = pipeline_s(
        config.schedule,
        [stage.passed for stage in stages],
        config.micro_batches,
        bubble_divisor(config),
    )
    fixed_s, jitter = fixed_and_jitter(config)  # jitter: share of the step without it
    # borders and what is sent once come on top of the pipeline
    without_jitter_s = (
        passes_s + max(stage.borders_s for stage in stages) + longest_tail.tail_s + fixed_s
    )
    return TrainingStep(
        config,
        step_s=(1 + jitter) * without_jitter_s,
        control_s=passed_step_s(
            config,
            [compute_pass(stage.compute) for stage in stages],
            max(stage.optimizer_s for stage in stages),
        ),
        stages=tuple(stages),
        slowest=max(stages, key=lambda stage: stage.passed.total_s),
        longest_tail=longest_tail,
        pipeline_s=passes_s,
        fixed_s=fixed_s,
        jitter=jitter / (1 + jitter),  # share of the step with it
    )


def passed_step_s(config: ParallelConfig, passes: Sequence[Pass], after_s: float = 0.0) -> float:
    """Seconds of a step without borders and calls that are sent once: its stages take these passes
    for a micro-batch, and ``after_s`` after the pipeline."""
    passes_s = pipeline_s(config.schedule, passes, config.micro_batches, bubble_divisor(config))
    fixed_s, jitter = fixed_and_jitter(config)
    return (1 + jitter) * (passes_s + after_s + fixed_s)


def fixed_and_jitter(config: ParallelConfig) -> tuple[float, float]:
    """A stack's fixed seconds of a step, and its jitter as a share of the step without jitter.

    Jitter is waiting for the slowest rank: a share for each doubling of devices beyond a node.
    """
    if config.stack is None:
        return 0.0, 0.0
    doublings = max(0.0, log2(max(1, config.layout.ranks) / JITTER_FROM))
    return config.stack.fixed_s, config.stack.jitter * doublings
