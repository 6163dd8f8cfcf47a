"""Compute seconds of a pipeline stage: forward, backward and recomputation, without communication."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from colltool.training.calls import Phase
from colltool.training.model import Shape
from colltool.training.operations import LayerCut, Operation, cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig, PipelineStage, stage_parameters
from colltool.training.roofline import Gemm, Roofline, core_s, gemm_s, moved_s
from colltool.training.strategies import Recomputation

FLASH_BACKWARD = 2.5  # of flash attention's forward operations (arXiv:2205.14135: scores are computed again)
LOGIT_MOVES = 12  # bytes of a logit that the loss moves each way: fp32 read, shifted, summed
SCORE_MOVES = 5  # reads and writes of a score forward, without flash: scale, mask, softmax, dropout and its mask


class Times(NamedTuple):
    """Seconds of one micro-batch."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    again_s: float = 0.0  # recomputation
    weight_s: float = 0.0  # weight gradients: the part of backward that no other stage waits for

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s + self.again_s

    def of(self, phase: Phase) -> float:
        return {"forward": self.forward_s, "backward": self.backward_s, "again": self.again_s}[phase]

    def plus(self, other: Times) -> Times:
        return Times(*(mine + its for mine, its in zip(self, other, strict=True)))

    def times(self, factor: float) -> Times:
        return Times(*(factor * mine for mine in self))


class LayerTimes(NamedTuple):
    """One layer and micro-batch."""

    gemms: Times  # through weights, except of experts
    core: Times  # attention scores and their sum over values
    elementwise: Times
    experts: Times = Times()

    @property
    def all(self) -> Times:
        return self.gemms.plus(self.core).plus(self.elementwise).plus(self.experts)

    def times(self, factor: float) -> LayerTimes:
        return LayerTimes(*(part.times(factor) for part in self))


class StageTimes(NamedTuple):
    """One stage and micro-batch; times given for a whole step have no layers."""

    stage: PipelineStage
    dense: LayerTimes | None  # of one layer; None where the stage has none
    moe: LayerTimes | None
    ends: Times  # embedding and head
    all: Times

    def times(self, factor: float) -> StageTimes:
        dense, moe = (layer and layer.times(factor) for layer in (self.dense, self.moe))
        return StageTimes(self.stage, dense, moe, self.ends.times(factor), self.all.times(factor))


def stage_times(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    found = _stage_times(config, stage)
    return found if config.slower == 1 else found.times(config.slower)


def _stage_times(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    if config.compute is not None:
        given = config.compute
        once = Times(given.forward_s, given.backward_s, weight_s=given.backward_s / 2)
        if not given.per_layer:
            return StageTimes(stage, None, None, Times(), once.times(1 / config.micro_batches))
        again = Times(again_s=given.forward_s) if config.again.layers else Times()
        layer = LayerTimes(once.plus(again), Times(), Times())
        return StageTimes(stage, layer, layer if stage.moe_layers else None, Times(), layer.all.times(stage.layers))
    dense = layer_times(config, experts=False) if stage.dense_layers else None
    moe = layer_times(config, experts=True) if stage.moe_layers else None
    ends = total = _ends(config, stage)
    for one, layers in ((dense, stage.dense_layers), (moe, stage.moe_layers)):
        total = total.plus(one.all.times(layers)) if one else total
    return StageTimes(stage, dense, moe, ends, total)


def layer_times(config: ParallelConfig, *, experts: bool) -> LayerTimes:
    assert config.model is not None
    assert config.model.shape is not None
    return _layer(config.model.shape, cut_of(config), roofline_of(config), config.again, experts)


def roofline_of(config: ParallelConfig) -> Roofline:
    assert config.device is not None
    assert config.stack is not None
    return Roofline(config.device, config.stack, config.precision.compute)


def optimizer_s(config: ParallelConfig, stage: PipelineStage) -> float:
    """Every byte of a rank's share of the states goes through memory once."""
    if config.device is None or config.stack is None:
        return 0.0
    held = stage_parameters(config, stage)
    row = config.shard.row
    of_dense, of_experts = (config.gradient_ranks, config.layout.expert_dp) if row.optimizer else (1, 1)
    if row.grouped:
        of_dense = of_experts = config.shard.group
    updated = held.dense / of_dense + held.experts / of_experts
    moved = config.stack.optimizer_bytes * updated
    return config.slower * moved / (config.stack.memory_optimizer * config.device.bandwidth_Bps)


@lru_cache(maxsize=4096)
def _layer(shape: Shape, cut: LayerCut, roofline: Roofline, again: Recomputation, experts: bool) -> LayerTimes:
    read, stack = layer_operations(shape, cut, experts=experts), roofline.stack
    gemms = _through([gemm for one in read if one.name != "experts" for gemm in one.gemms], roofline)
    core = next(_core(one, cut.width, roofline) for one in read if one.scores)
    # kappa T h w, of which tensor parallelism splits what stands in its regions, and sequence parallelism the rest
    tokens = stack.inside * cut.tokens / cut.tp + (1 - stack.inside) * cut.outside
    moved = moved_s(stack.elementwise * tokens * shape.hidden * cut.width, roofline)
    parts = [gemms, core, Times(moved, stack.backward_elementwise * moved), Times()]
    for one in (one for one in read if one.name == "experts"):
        permuted = moved_s(one.moved * cut.width, roofline)
        parts[3] = _through(one.gemms, roofline).plus(Times(permuted, stack.backward_elementwise * permuted))
    if again.layers:
        parts = [part._replace(again_s=part.forward_s) for part in parts]
    elif again.core:
        parts[1] = core._replace(again_s=core.forward_s)
    return LayerTimes(*parts)


def _through(gemms: Sequence[Gemm], roofline: Roofline) -> Times:
    forward = sum(gemm_s(one, roofline) for one in gemms)
    inputs, weights = (sum(gemm_s(one.backward[side], roofline) for one in gemms) for side in (0, 1))
    return Times(forward, inputs + weights, weight_s=weights)


def _core(attention: Operation, width: float, roofline: Roofline) -> Times:
    """Fused, only the causal half; else all scores, written out and passed over by elementwise kernels."""
    if roofline.stack.flash:
        return Times(core_s(attention.causal, roofline), core_s(FLASH_BACKWARD * attention.causal, roofline))
    forward, scores = core_s(attention.core, roofline), moved_s(SCORE_MOVES * attention.scores * width, roofline)
    return Times(forward + scores, 2 * forward + roofline.stack.backward_elementwise * scores)


def _ends(config: ParallelConfig, stage: PipelineStage) -> Times:
    """The head and its loss; the embedding is a copy, covered by the fixed part of a step."""
    model = config.model
    if not stage.head or model is None or model.shape is None:
        return Times()
    shape, roofline = model.shape, roofline_of(config)
    if roofline.precision in ("fp8", "int8", "fp4"):
        roofline = roofline._replace(precision="bf16")  # the head stays in 16 bits
    head = _through([Gemm(config.tokens, shape.vocab / config.layout.tp, shape.hidden)], roofline)
    loss = moved_s(LOGIT_MOVES * config.tokens * shape.vocab / config.layout.tp, roofline)
    return head.plus(Times(loss, loss))
