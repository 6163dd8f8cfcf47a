"""One collective of a step: who sends what, how often, when, and what it may hide under."""

from __future__ import annotations

from typing import Literal, NamedTuple

from colltool.base.primitives import Primitive
from colltool.training.layout import RankGroup
from colltool.training.parallel_config import ParallelConfig, PipelineStage

Phase = Literal["forward", "backward", "again", "update"]
Per = Literal["layer", "dense_layer", "moe_layer", "micro_batch", "border", "step"]
Hiding = Literal[
    "nothing", "last backward", "first forward", "neighbour layer", "weight gradient", "split gemm", "attention block",
    "steady pipeline", "other batch", "shared expert",
]  # fmt: skip


class Call(NamedTuple):
    """A collective on one rank of a stage.

    ``bytes`` by nccl-tests' convention: of an all-reduce the vector, of an all-gather and a reduce-scatter the total, of an
    all-to-all the send buffer with the rank's own part, of a point-to-point its message. ``each`` calls every ``per``;
    ``calls`` of them a step. ``phase``: where in the step; ``again`` is the forward pass that recomputation repeats. The
    group of a point-to-point is the whole pipeline or ring, whose neighbours exchange; ``closed`` where the last one's next is
    the first. ``skew`` is the busiest rank's load of an all-to-all over the mean. ``source``: who describes it.
    """

    dimension: str
    primitive: Primitive
    group: RankGroup
    bytes: float
    each: float
    per: Per
    phase: Phase
    hides: Hiding
    calls: float
    source: str
    skew: float = 1.0
    closed: bool = False

    @property
    def bytes_a_step(self) -> float:
        """Over all of its calls."""
        return self.bytes * self.calls


class OverlapRule(NamedTuple):
    """What a communication may hide under, and what of it stays exposed."""

    under: str
    exposed: str


OVERLAP_RULES: dict[Hiding, OverlapRule] = {
    "nothing": OverlapRule("", "all"),
    "last backward": OverlapRule("backward of the last micro-batch", "the last bucket, and what exceeds that backward"),
    "first forward": OverlapRule("forward of the first micro-batch", "the first bucket, and what exceeds that forward"),
    "neighbour layer": OverlapRule(
        "the layer before or after, one prefetched", "the first gather, the last scatter, max(0, t - compute)"
    ),
    "weight gradient": OverlapRule("the GEMM of the weight's gradient", "max(0, t - that GEMM)"),
    "split gemm": OverlapRule("the GEMM that it feeds, in pieces", "of an all-gather about 0, of a reduce-scatter a quarter"),
    "attention block": OverlapRule("attention of the block before", "max(0, t - block) a step of the ring"),
    "steady pipeline": OverlapRule("other micro-batches of steady 1F1B", "warm-up and drain"),
    "other batch": OverlapRule("compute of the other batch", "max(0, t - that compute)"),
    "shared expert": OverlapRule("the GEMMs of the shared expert", "max(0, t - those GEMMs)"),
}
"""The rules of overlap, by name."""


class CallBuilder:
    """Makes the calls of one stage; ``every`` is how often a step has one of each kind there."""

    def __init__(self, config: ParallelConfig, stage: PipelineStage) -> None:
        self.config, self.stage = config, stage
        m = config.micro_batches
        self.every: dict[Per, int] = {
            "layer": stage.layers * m,
            "dense_layer": stage.dense_layers * m,
            "moe_layer": stage.moe_layers * m,
            "micro_batch": m,
            "border": config.chunks * m,
            "step": 1,
        }

    def call(self, dimension: str, primitive: Primitive, group: RankGroup, size: float, *, per: Per, phase: Phase, source: str,
             each: float = 1, hides: Hiding = "nothing", skew: float = 1.0, closed: bool = False) -> Call:  # fmt: skip
        """A call, its number a step filled in."""
        return Call(
            dimension=dimension,
            primitive=primitive,
            group=group,
            bytes=size,
            each=each,
            per=per,
            phase=phase,
            hides=hides,
            calls=each * self.every[per],
            source=source,
            skew=skew,
            closed=closed,
        )

    def phases(self, *, core: bool = False) -> tuple[Phase, ...]:
        """The passes that send what the forward pass sends; ``core``: also where attention's core alone is computed again."""
        again = self.config.again.layers or (core and self.config.again.core)
        return ("forward", "again") if again else ("forward",)
