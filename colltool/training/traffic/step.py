"""All that a rank of a stage sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from colltool.training.parallel_config import ParallelConfig, PipelineStage, pipeline_stages
from colltool.training.traffic.call import Call, CallBuilder
from colltool.training.traffic.context import context_calls
from colltool.training.traffic.experts import expert_calls
from colltool.training.traffic.gradients import gradient_calls, norm_calls
from colltool.training.traffic.pipeline import pipeline_calls, tied_calls
from colltool.training.traffic.tensor import tensor_calls, vocabulary_calls

Rows = tuple[Callable[[CallBuilder], Iterator[Call]], ...]

OFTEN: Rows = (tensor_calls, vocabulary_calls, context_calls, expert_calls)
BORDERS: Rows = (pipeline_calls,)
GRADIENTS: Rows = (gradient_calls,)
ONCE: Rows = (tied_calls, norm_calls)
ROWS: Rows = OFTEN + BORDERS + GRADIENTS + ONCE
"""The rows of the table of traffic, each a function of one stage: sent every micro-batch, over the borders of the pipeline, by
data parallelism every micro-batch or once a step as it is sharded, and once a step."""


def stage_calls(config: ParallelConfig, stage: PipelineStage, rows: Rows = ROWS) -> tuple[Call, ...]:
    """The collectives of a rank of a stage, in the order of the table, without those that never happen or send no byte.

    Calls that differ in nothing are one record with their numbers summed.
    """
    send = CallBuilder(config, stage)
    found: dict[tuple[object, ...], Call] = {}
    for one in (call for row in rows for call in row(send) if call.calls and call.bytes > 0.5):
        key = (one.dimension, one.primitive, one.group, one.bytes, one.per, one.phase, one.hides)
        before = found.get(key)
        found[key] = one._replace(each=one.each + before.each, calls=one.calls + before.calls) if before else one
    return tuple(found.values())


def step_calls(config: ParallelConfig) -> tuple[tuple[PipelineStage, tuple[Call, ...]], ...]:
    """Those of every stage; stages of one kind share theirs."""
    stages = pipeline_stages(config)
    by_kind = {stage.kind: stage_calls(config, stage) for stage in {stage.kind: stage for stage in stages}.values()}
    return tuple((stage, by_kind[stage.kind]) for stage in stages)
