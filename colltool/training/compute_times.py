"""Seconds of compute of a micro-batch: :func:`stage_times` of a pipeline stage, from those of its
layers (:func:`layer_times`) and of its embedding and head.

The operations of a layer take what a roofline says (:mod:`roofline`), and what is recomputed runs
again; or the job gives the times itself. :mod:`step_time` and :mod:`overlap` put calls under them.

A layer has up to four kinds of kernels, the fields of :class:`LayerTimes`; each has times forward,
backward and again. An :class:`operations.Operation` is a part of a layer, such as attention; its
``share`` is how many of it the mean layer has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import add
from typing import NamedTuple

from colltool.training.model import Shape
from colltool.training.operations import (
    LayerCut,
    Operation,
    Phase,
    adapters,
    cut_of,
    layer_operations,
)
from colltool.training.parallel_config import GivenTimes, ParallelConfig
from colltool.training.pipeline_stages import (
    PipelineStage,
    RankParameters,
    ends_parameters,
    layer_parameters_of,
)
from colltool.training.roofline import (
    BLOCK,
    EIGHT_BITS,
    TILE,
    Gemm,
    Roofline,
    attention_core_s,
    gemm_s,
    moved_s,
    power_limit_factor,
)
from colltool.training.stack import Stack
from colltool.training.strategies import Recomputation

# times flash attention's forward operations (arXiv:2205.14135: scores are computed again)
FLASH_BACKWARD = 2.5
# share of a layer's elementwise moves that recomputing a module repeats: activation functions are in
# tensor parallel regions, norms and residuals outside; modules that are not here repeat none
ELEMENTWISE_SHARE = {
    "attention": 0.2,
    "mlp": 0.4,
    "moe": 0.4,
    "moe_act": 0.3,
    "shared_experts": 0.2,
    "layernorm": 0.3,
}
# the operation of a layer that has a module; modules that are not here are in all layers
OPERATION_OF_MODULE = {
    "mlp": "ffn",
    "moe": "experts",
    "moe_act": "experts",
    "shared_experts": "shared expert",
}
# share of the host's time for a layer that is forward; measured on one H100 SXM, torch 2.11, 2026-11
HOST_FORWARD = 0.45
# reads and writes of a score forward, without flash: scale, mask, softmax, dropout and its mask
SCORE_MOVES = 5


class Times(NamedTuple):
    """Seconds of compute of one micro-batch, by phase."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    again_s: float = 0.0  # recomputation
    weight_s: float = 0.0  # weight gradients: the part of backward that no other stage waits for

    @property
    def total_s(self) -> float:
        """Seconds of all phases; weight gradients are part of backward."""
        return self.forward_s + self.backward_s + self.again_s

    def of(self, phase: Phase) -> float:
        """Seconds of a phase; KeyError for an update, which is not part of a micro-batch."""
        seconds = {"forward": self.forward_s, "backward": self.backward_s, "again": self.again_s}
        return seconds[phase]

    def plus(self, other: Times) -> Times:
        """Return the sum with other times."""
        return Times(*map(add, self, other))

    def scaled(self, factor: float) -> Times:
        """Return ``factor`` times the seconds of each phase."""
        return Times(*(factor * seconds for seconds in self))


class LayerTimes(NamedTuple):
    """Compute of one layer for one micro-batch, by kind of kernel."""

    gemms: Times  # through weights, except of experts
    core: Times  # attention scores and their sum over values
    elementwise: Times
    experts: Times = Times()  # their GEMMs, and sorting tokens by expert

    @property
    def all(self) -> Times:
        """The sum of all kinds."""
        return self.gemms.plus(self.core).plus(self.elementwise).plus(self.experts)

    @property
    def gemms_s(self) -> float:
        """Seconds of GEMMs, those of experts too."""
        return self.gemms.total_s + self.experts.total_s

    def scaled(self, factor: float) -> LayerTimes:
        """Return ``factor`` times the seconds of each kind and phase."""
        return LayerTimes(*(part.scaled(factor) for part in self))

    def mean_with_recomputed(self, share: float) -> LayerTimes:
        """Return the mean of a stage's layers, of which a share is computed again as this one is and
        the others are not."""
        if share == 1:
            return self
        return LayerTimes(*(part._replace(again_s=share * part.again_s) for part in self))


class StageTimes(NamedTuple):
    """Compute of one stage for one micro-batch; times given for a whole step have no layers."""

    stage: PipelineStage
    dense: LayerTimes | None  # of one dense layer; None where the stage has none
    moe: LayerTimes | None  # of one layer with experts; None where the stage has none
    ends: Times  # embedding and head
    all: Times  # layers, ends and host
    host: Times = Times()  # of ``all``: the device waits for the host to launch kernels


def stage_times(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    """A stage's compute in a micro-batch: the job's own times, else those of its layers and ends;
    all ``config.slower`` times as long."""
    given = config.compute
    if given is None:
        times = _stage_from_layers(config, stage)
    else:
        times = _stage_from_given_times(config, stage, given)
    slower = config.slower
    if slower == 1:
        return times
    # a kind of layer that is None stays None
    return StageTimes(
        stage,
        times.dense and times.dense.scaled(slower),
        times.moe and times.moe.scaled(slower),
        times.ends.scaled(slower),
        times.all.scaled(slower),
        times.host.scaled(slower),
    )


def _stage_from_layers(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    """Return a stage with the modelled times of its layers and ends."""
    share = config.recomputation.share(stage.layers)
    ends = total = _end_times(config, stage)
    dense = moe = None
    if stage.dense_layers:
        dense = layer_times(config, experts=False).mean_with_recomputed(share)
        total = total.plus(dense.all.scaled(stage.dense_layers))
    if stage.moe_layers:
        moe = layer_times(config, experts=True).mean_with_recomputed(share)
        total = total.plus(moe.all.scaled(stage.moe_layers))
    host = _host_waits(config, stage, total)
    return StageTimes(stage, dense, moe, ends, total.plus(host), host)


def _stage_from_given_times(
    config: ParallelConfig, stage: PipelineStage, given: GivenTimes
) -> StageTimes:
    """Return a stage with the times that the job gives: of a layer, the same with and without
    experts, or of a whole step, without layers."""
    # half of backward is taken as weight gradients: those of inputs are GEMMs of the same size
    given_once = Times(given.forward_s, given.backward_s, weight_s=given.backward_s / 2)
    if not given.per_layer:
        # without layers and ends
        return StageTimes(stage, None, None, Times(), given_once.scaled(1 / config.micro_batches))
    if config.recomputation.layers:
        share = config.recomputation.share(stage.layers)
        given_once = given_once.plus(Times(again_s=share * given.forward_s))
    layer = LayerTimes(given_once, Times(), Times())  # as if all were GEMMs
    moe = layer if stage.moe_layers else None
    return StageTimes(stage, layer, moe, Times(), layer.all.scaled(stage.layers))


def layer_times(config: ParallelConfig, *, experts: bool) -> LayerTimes:
    """A layer's compute in a micro-batch by the roofline, with the casts of its weights; of a job
    with a device, a stack and a shape."""
    roofline = config.roofline
    times = _layer_times(
        config.known_shape, cut_of(config), roofline, config.recomputation, experts, config.lora
    )
    casts = _casts(config, layer_parameters_of(config, experts=experts), roofline)
    if casts.total_s:
        times = times._replace(elementwise=times.elementwise.plus(casts))
    return times


def _host_waits(config: ParallelConfig, stage: PipelineStage, kernels: Times) -> Times:
    """Seconds of a micro-batch in which a device waits for its host to launch kernels.

    The host runs ahead of the device, so only what a whole micro-batch takes longer on the host
    counts, not each kernel's wait.
    """
    if config.stack is None:
        return Times()
    host_s = config.stack.host_s * stage.dense_layers + config.stack.host_moe_s * stage.moe_layers
    if config.recomputation.layers:
        host_s *= 1 + HOST_FORWARD * config.recomputation.share(stage.layers)
    waits_s = max(0.0, host_s - kernels.total_s)
    return Times(HOST_FORWARD * waits_s, (1 - HOST_FORWARD) * waits_s)


def _casts(config: ParallelConfig, parameters: RankParameters, roofline: Roofline) -> Times:
    """Times of the casts of weights from 32 bits, and of gradients back, in a micro-batch; none where
    weights are not kept in 32 bits.

    Half of the bytes are moved each way; recomputation casts again, and where gradients accumulate
    over micro-batches they are read and written once more.
    """
    cast_bytes = roofline.stack.cast_bytes
    shard = config.shard
    if not cast_bytes or (not shard.shards_weights and config.precision.params != "fp32"):
        return Times()
    cast_parameters = parameters.total
    # FSDP casts the shard that a rank sends and gets
    if shard.shards_weights:
        cast_parameters /= shard.group or config.layout.dp
    way_s = moved_s(cast_bytes / 2 * cast_parameters, roofline)
    accumulated_s = 2 * way_s if config.micro_batches > 1 else 0.0
    repeated_s = way_s if config.recomputation.layers else 0.0
    return Times(way_s, way_s + accumulated_s, repeated_s)


@lru_cache(maxsize=4096)
def _layer_times(
    shape: Shape,
    cut: LayerCut,
    roofline: Roofline,
    recompute: Recomputation,
    experts: bool,
    lora: int,
) -> LayerTimes:
    """Return the times of a layer by the roofline of its operations, with what is recomputed; without
    casts."""
    layer, power_factor = _without_recomputation(shape, cut, roofline, experts, lora)
    operations = layer_operations(shape, cut, experts=experts)
    if recompute.layers:
        return _with_layer_again(layer, operations, roofline, power_factor)
    return _with_modules_again(layer, operations, roofline, recompute, power_factor)


@lru_cache(maxsize=4096)
def _without_recomputation(
    shape: Shape, cut: LayerCut, roofline: Roofline, experts: bool, lora: int
) -> tuple[LayerTimes, float]:
    """Return the times of a layer without recomputation, and how many times as long its GEMMs take
    in it as they would alone, by the device's power limit.

    ``lora`` is the rank of adapters, with which the other matrices are frozen; 0 without.
    """
    operations = layer_operations(shape, cut, experts=experts)
    stack = roofline.stack
    gemms = core = experts_times = Times()
    for operation in operations:
        if operation.name == "experts":
            experts_times = _gemm_times(operation.gemms, roofline)
            continue
        gemms = gemms.plus(_gemm_times(operation.gemms, roofline).scaled(operation.share))
        if operation.core_flops:
            core_times = _core_times(operation, cut.activation_bytes, roofline)
            core = core.plus(core_times.scaled(operation.share))
    if lora:
        adapter_times = _gemm_times(adapters(operations, lora), roofline)
        gemms = _without_weight_gradients(gemms).plus(adapter_times)
        experts_times = _without_weight_gradients(experts_times)
    forward_s = moved_s(
        _elements_moved(shape, cut, operations, stack) * cut.activation_bytes, roofline
    )
    elementwise = Times(forward_s, stack.backward_elementwise * forward_s)
    routing = routing_times(operations, cut.activation_bytes, roofline)
    others_s = core.total_s + elementwise.total_s + routing.total_s
    power_factor = power_limit_factor(gemms.total_s + experts_times.total_s, others_s, roofline)
    if power_factor != 1:
        gemms = gemms.scaled(power_factor)
        experts_times = experts_times.scaled(power_factor)
    return LayerTimes(gemms, core, elementwise, experts_times.plus(routing)), power_factor


def _elements_moved(
    shape: Shape, cut: LayerCut, operations: Sequence[Operation], stack: Stack
) -> float:
    """Elements that the elementwise kernels of a layer move forward: kappa T h.

    kappa is the stack's, of its kernels' moves a token. Tensor parallelism splits what is in its
    regions, and sequence parallelism the rest.
    """
    inside = stack.inside * cut.tokens / cut.tp
    outside = (1 - stack.inside) * cut.tokens_outside
    elements = stack.elementwise * (inside + outside) * shape.hidden
    for operation in operations:
        elements += stack.elementwise_ffn * operation.share * operation.activated
    return elements


def routing_times(
    operations: Sequence[Operation], activation_bytes: float, roofline: Roofline
) -> Times:
    """Times of sorting tokens by expert and back, and of what routing takes beside its kernels; no
    seconds for a layer without experts."""
    stack = roofline.stack
    routing = Times()
    for operation in operations:
        if operation.name == "experts":
            permuted_bytes = stack.permute * operation.sorted_elements * activation_bytes
            permuted_s = moved_s(permuted_bytes, roofline)
            # each of the rank's experts has launches of its own
            local_experts = operation.gemms[0].copies
            beside_s = stack.routing_s + stack.routing_expert_s * local_experts
            backward_s = stack.backward_elementwise * permuted_s + 2 * beside_s
            routing = Times(permuted_s + beside_s, backward_s)
    return routing


def _with_layer_again(
    times: LayerTimes, operations: Sequence[Operation], roofline: Roofline, power_factor: float
) -> LayerTimes:
    """Return a layer that is computed again as a whole, but for the GEMMs that a compiler leaves
    out; GEMMs take ``power_factor`` times as long as alone."""
    again = LayerTimes(*(part._replace(again_s=part.forward_s) for part in times))
    if roofline.stack.last_gemm_again:
        return again
    left_out_s = 0.0
    for operation in operations:
        for gemm in operation.gemms[len(_needed_again(operation, roofline)) :]:
            left_out_s += power_factor * gemm_s(gemm, roofline)
    return again._replace(gemms=again.gemms._replace(again_s=again.gemms.again_s - left_out_s))


def _with_modules_again(
    times: LayerTimes,
    operations: Sequence[Operation],
    roofline: Roofline,
    recompute: Recomputation,
    power_factor: float,
) -> LayerTimes:
    """Return a layer of which attention's core or some modules are computed again; GEMMs take
    ``power_factor`` times as long as alone."""
    gemms_s = power_factor * _gemms_again_s(operations, roofline, recompute)
    share = _elementwise_share_again(operations, recompute)
    gemms, core, elementwise, experts = times
    if recompute.core:
        core = core._replace(again_s=core.forward_s)
    if recompute.reruns("experts"):
        experts = experts._replace(again_s=experts.forward_s)
    return LayerTimes(
        gemms._replace(again_s=gemms_s),
        core,
        elementwise._replace(again_s=share * elementwise.forward_s),
        experts,
    )


def _gemms_again_s(
    operations: Sequence[Operation], roofline: Roofline, recompute: Recomputation
) -> float:
    """Seconds of the GEMMs that recomputed modules repeat, alone; without those of experts."""
    gemms_s = 0.0
    for operation in operations:
        repeated: tuple[Gemm, ...] = ()
        if operation.name == "experts":
            pass  # their time is apart, in ``LayerTimes.experts``
        elif recompute.reruns(operation.name):
            repeated = _needed_again(operation, roofline)
        elif "mla_up_proj" in recompute.modules:
            repeated = operation.up_gemms
        gemms_s += operation.share * sum(gemm_s(gemm, roofline) for gemm in repeated)
    return gemms_s


def _elementwise_share_again(operations: Sequence[Operation], recompute: Recomputation) -> float:
    """Share of a layer's elementwise moves that recomputed modules repeat."""
    share = 0.0
    names = [operation.name for operation in operations]
    for module in recompute.modules:
        # every layer has the operation "norms"
        if OPERATION_OF_MODULE.get(module, "norms") in names:
            share += ELEMENTWISE_SHARE.get(module, 0.0)
    return min(1.0, share)


def _needed_again(operation: Operation, roofline: Roofline) -> tuple[Gemm, ...]:
    """Return the GEMMs of an operation that recomputation repeats: a compiler leaves out the last
    one of a feed-forward part, whose output no gradient needs."""
    if operation.activated and operation.name != "experts" and not roofline.stack.last_gemm_again:
        return operation.gemms[:-1]
    return operation.gemms


def _gemm_times(gemms: Sequence[Gemm], roofline: Roofline) -> Times:
    """Times of GEMMs: forward, and the gradients of their inputs and weights.

    In 8 bits inputs and gradients of outputs are cast before.
    """
    forward_s = inputs_s = weights_s = 0.0
    cast_bytes = 0.0  # of an element
    if roofline.precision in EIGHT_BITS:
        cast_bytes = roofline.stack.quantize
    for gemm in gemms:
        of_input, of_weight = gemm.backward
        forward_s += gemm_s(gemm, roofline)
        inputs_s += gemm_s(of_input, roofline)
        weights_s += gemm_s(of_weight, roofline)
        if cast_bytes:
            forward_s += moved_s(cast_bytes * gemm.copies * gemm.m * gemm.k, roofline)
            inputs_s += moved_s(cast_bytes * gemm.copies * gemm.m * gemm.n, roofline)
    return Times(forward_s, inputs_s + weights_s, weight_s=weights_s)


def _without_weight_gradients(times: Times) -> Times:
    """Times without weight gradients, as of frozen matrices beside LoRA's adapters."""
    return times._replace(backward_s=times.backward_s - times.weight_s, weight_s=0.0)


def _core_times(attention: Operation, activation_bytes: float, roofline: Roofline) -> Times:
    """Times of attention's scores and their sum over values, or of a recurrence.

    A fused kernel computes only the causal half; without one all scores are written out and read by
    elementwise kernels.
    """
    # a recurrence has one key, the token itself, and is a fused kernel too
    if roofline.stack.flash or attention.keys == 1:
        queries = attention.scores / attention.keys  # of all heads
        blocks = queries / BLOCK
        forward_s = attention_core_s(attention.causal_flops, blocks, roofline)
        backward_flops = FLASH_BACKWARD * attention.causal_flops
        return Times(forward_s, attention_core_s(backward_flops, blocks, roofline, backward=True))
    blocks = attention.scores / TILE  # GEMMs over all keys
    forward_s = attention_core_s(attention.core_flops, blocks, roofline)
    scores_s = moved_s(SCORE_MOVES * attention.scores * activation_bytes, roofline)
    backward_s = 2 * forward_s + roofline.stack.backward_elementwise * scores_s
    return Times(forward_s + scores_s, backward_s)


def _end_times(config: ParallelConfig, stage: PipelineStage) -> Times:
    """Times of the head, the loss and casts; the embedding is a copy, covered by the fixed part of
    a step."""
    if config.shape is None:
        return Times()
    times = Times()
    if stage.head:
        head, loss = head_times(config)
        times = head.plus(loss)
    roofline = config.roofline
    if not roofline.stack.cast_bytes:
        return times
    parameters = RankParameters(ends_parameters(config, stage))
    casts = _casts(config, parameters, roofline)
    # only layers are recomputed
    return times.plus(casts._replace(again_s=0.0))


def head_times(config: ParallelConfig) -> tuple[Times, Times]:
    """Times of the head's GEMMs, and of the loss over its logits, apart."""
    shape = config.known_shape
    roofline = config.roofline
    if roofline.precision in EIGHT_BITS:
        roofline = roofline._replace(precision="bf16")  # the head stays in 16 bits
    vocab = shape.vocab / config.layout.tp
    head = _gemm_times([Gemm(config.tokens, vocab, shape.hidden)], roofline)
    if config.lora:
        head = _without_weight_gradients(head)
    loss_s = moved_s(roofline.stack.loss_moves * config.tokens * vocab, roofline)
    head = head.scaled(power_limit_factor(head.total_s, 2 * loss_s, roofline))
    return head, Times(loss_s, loss_s)
