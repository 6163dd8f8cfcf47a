"""The compute of a stage: seconds of its layers, forward, backward and again, without anything sent."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from colltool.training.flops import attention_core
from colltool.training.model import Shape
from colltool.training.modes import Recomputation
from colltool.training.parallel_config import ParallelConfig, PipelineStage
from colltool.training.rank_parameters import stage_parameters
from colltool.training.roofline import Gemm, Roofline, core_s, gemm_s, moved_s
from colltool.training.traffic.call import Phase

FLASH_BACKWARD = 2.5  # of flash attention's forward operations (arXiv:2205.14135: scores are computed again)
SCORE_MOVES = 5  # reads and writes of a score forward, without flash: scale, mask, softmax, dropout and its mask
PERMUTE_MOVES = 6  # of a token and expert: sorted in, sorted out, weighted and summed, each read and written


class Times(NamedTuple):
    """Seconds of a micro-batch: forward, backward, computed again; ``weight_s`` is the part of backward that waits for nobody."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    again_s: float = 0.0
    weight_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.forward_s + self.backward_s + self.again_s

    def of(self, phase: Phase) -> float:
        """Of one pass of a layer.

        Raises:
            KeyError: the update is none.
        """
        return {"forward": self.forward_s, "backward": self.backward_s, "again": self.again_s}[phase]

    def plus(self, other: Times) -> Times:
        """Both, one after the other."""
        return Times(*(mine + its for mine, its in zip(self, other, strict=True)))

    def times(self, factor: float) -> Times:
        """So many of it."""
        return Times(*(factor * mine for mine in self))


class LayerTimes(NamedTuple):
    """One layer and micro-batch: GEMMs through weights, attention's core, elementwise kernels, experts."""

    gemms: Times
    core: Times
    elementwise: Times
    experts: Times = Times()

    @property
    def all(self) -> Times:
        """The layer."""
        return self.gemms.plus(self.core).plus(self.elementwise).plus(self.experts)

    def times(self, factor: float) -> LayerTimes:
        """A layer that takes so many times as long."""
        return LayerTimes(*(part.times(factor) for part in self))


class StageTimes(NamedTuple):
    """One stage and micro-batch. ``dense`` and ``moe`` are one layer of a kind, None where the stage has none.

    ``ends`` is what the embedding and the head take. Of times that were given for a whole step there are no layers.
    """

    stage: PipelineStage
    dense: LayerTimes | None
    moe: LayerTimes | None
    ends: Times
    all: Times

    def times(self, factor: float) -> StageTimes:
        """A stage that takes so many times as long."""
        dense, moe = (layer and layer.times(factor) for layer in (self.dense, self.moe))
        return StageTimes(self.stage, dense, moe, self.ends.times(factor), self.all.times(factor))


def stage_times(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    """What one micro-batch takes on a stage, its communication left out."""
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
    """One layer of a kind, from the kernels of the stack."""
    layout, model = config.layout, config.model
    assert model is not None
    assert model.shape is not None
    cut = _Cut(
        tokens=config.tokens,
        sequence=config.sequence,
        tp=layout.tp,
        sp=layout.sp,
        ep=layout.ep,
        etp=layout.etp,
        width=config.precision.activation_bytes,
    )
    return _layer(model.shape, cut, roofline_of(config), config.again, experts)


def roofline_of(config: ParallelConfig) -> Roofline:
    """The device under the stack."""
    assert config.device is not None
    assert config.stack is not None
    return Roofline(config.device, config.stack, config.precision.compute)


def optimizer_s(config: ParallelConfig, stage: PipelineStage) -> float:
    """The update of a rank's share of the weights: every byte of its states once through memory."""
    if config.device is None or config.stack is None:
        return 0.0
    held = stage_parameters(config, stage)
    row = config.shard.row
    of_dense, of_experts = (config.gradient_ranks, config.layout.expert_dp) if row.optimizer else (1, 1)
    if row.grouped:
        of_dense, of_experts = config.shard.group, config.shard.group
    updated = held.dense / of_dense + held.experts / of_experts
    moved = config.stack.optimizer_bytes * updated
    return config.slower * moved / (config.stack.memory_optimizer * config.device.bandwidth_Bps)


class _Cut(NamedTuple):
    """How a layer is cut: what its times follow from beside the model and the machine."""

    tokens: float
    sequence: int
    tp: int
    sp: bool
    ep: int
    etp: int
    width: float


@lru_cache(maxsize=4096)
def _layer(shape: Shape, cut: _Cut, machine: Roofline, again: Recomputation, experts: bool) -> LayerTimes:
    gemms = _through(_dense_gemms(shape, cut, experts), machine)
    core = _core(shape, cut, machine)
    elementwise = _elementwise(shape, cut, machine)
    routed = Times()
    if experts and shape.moe is not None:
        routed = _through(_expert_gemms(shape, cut), machine)
        permuted = moved_s(PERMUTE_MOVES * _outside(cut) * shape.moe.top_k * shape.hidden * cut.width, machine)
        routed = routed.plus(Times(permuted, machine.stack.backward_elementwise * permuted))
    parts = [gemms, core, elementwise, routed]
    if again.layers:
        parts = [part._replace(again_s=part.forward_s) for part in parts]
    elif again.core:
        parts[1] = core._replace(again_s=core.forward_s)
    return LayerTimes(*parts)


def _outside(cut: _Cut) -> float:
    """Tokens of a rank outside tensor parallel regions."""
    return cut.tokens / cut.tp if cut.sp else cut.tokens


def _dense_gemms(shape: Shape, cut: _Cut, experts: bool) -> list[Gemm]:
    """The GEMMs that every token passes: attention's, and the FFN's or the router's and the shared expert's."""
    found = _attention_gemms(shape, cut)
    moe = shape.moe if experts else None
    if moe is not None:
        found.append(Gemm(_outside(cut), moe.experts, shape.hidden))
    width = (moe.shared_ffn if moe else shape.ffn) / cut.tp
    if width:
        found.append(Gemm(cut.tokens, (shape.matrices - 1) * width, shape.hidden))
        found.append(Gemm(cut.tokens, shape.hidden, width))
    return found


def _attention_gemms(shape: Shape, cut: _Cut) -> list[Gemm]:
    tokens, h, heads = cut.tokens, shape.hidden, shape.heads / cut.tp
    if shape.mla is not None:
        mla = shape.mla
        return [
            Gemm(tokens, mla.q_rank + mla.kv_rank + mla.rope, h),
            Gemm(tokens, heads * (mla.nope + mla.rope), mla.q_rank or h),
            Gemm(tokens, heads * (mla.nope + mla.value), mla.kv_rank),
            Gemm(tokens, h, heads * mla.value),
        ]
    kv = max(shape.kv_heads / cut.tp, 1.0)
    return [
        Gemm(tokens, (heads + 2 * kv) * shape.head_dim, h),
        Gemm(tokens, h, heads * shape.head_dim),
    ]


def _expert_gemms(shape: Shape, cut: _Cut) -> list[Gemm]:
    """The experts of a rank, the busiest rank's tokens shared among them."""
    moe = shape.moe
    assert moe is not None
    local = max(1, moe.experts // cut.ep)
    each = cut.tokens / cut.tp * moe.top_k * cut.etp * moe.imbalance / local
    width = moe.ffn / cut.etp
    return [
        Gemm(each, (shape.matrices - 1) * width, shape.hidden, local, grouped=True),
        Gemm(each, shape.hidden, width, local, grouped=True),
    ]


def _through(gemms: list[Gemm], machine: Roofline) -> Times:
    """GEMMs forward and backward."""
    forward = sum(gemm_s(one, machine) for one in gemms)
    inputs, weights = (sum(gemm_s(one.backward[side], machine) for one in gemms) for side in (0, 1))
    return Times(forward, inputs + weights, weight_s=weights)


def _core(shape: Shape, cut: _Cut, machine: Roofline) -> Times:
    """Attention's core: fused, the causal half alone; else all scores, written out and passed over by elementwise kernels."""
    flash = machine.stack.flash
    flops = attention_core(shape, cut.tokens, cut.sequence, cut.tp, halved=flash)
    forward = core_s(flops, machine)
    if flash:
        return Times(forward, core_s(FLASH_BACKWARD * flops, machine))
    scores = moved_s(SCORE_MOVES * cut.tokens * cut.sequence * shape.heads / cut.tp * cut.width, machine)
    return Times(forward + scores, 2 * forward + machine.stack.backward_elementwise * scores)


def _elementwise(shape: Shape, cut: _Cut, machine: Roofline) -> Times:
    """kappa T h w, of which tensor parallelism splits what stands in its regions, and sequence parallelism the rest."""
    inside = machine.stack.inside
    tokens = inside * cut.tokens / cut.tp + (1 - inside) * _outside(cut)
    forward = moved_s(machine.stack.elementwise * tokens * shape.hidden * cut.width, machine)
    return Times(forward, machine.stack.backward_elementwise * forward)


def _ends(config: ParallelConfig, stage: PipelineStage) -> Times:
    """The head and its loss on the stage that has it; the embedding is a copy, which the fixed part of a step covers."""
    model = config.model
    if not stage.head or model is None or model.shape is None:
        return Times()
    shape, machine = model.shape, roofline_of(config)
    if machine.precision in ("fp8", "int8", "fp4"):
        machine = machine._replace(precision="bf16")  # the head stays in 16 bits
    head = _through([Gemm(config.tokens, shape.vocab / config.layout.tp, shape.hidden)], machine)
    loss = moved_s(LOGIT_MOVES * config.tokens * shape.vocab / config.layout.tp, machine)
    return head.plus(Times(loss, loss))


LOGIT_MOVES = 12  # bytes of a logit that the loss moves each way: fp32 read, shifted, summed
