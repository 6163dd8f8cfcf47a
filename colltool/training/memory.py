"""Memory of a rank by pipeline stage and part.

:func:`memory` sums weights, gradients and optimizer states (:func:`state_bytes`), activations
(:func:`layer_activations`), FSDP's gathered layers, the loss, and what a stack's allocator and
runtime take. :func:`memory_bytes` is the same total for a search, in less time.

A stage takes the most at one of a few moments of its backward passes: what is there at which is in
:func:`_moments_of_stage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import inf
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.model import Shape
from colltool.training.operations import SCORE_BYTES, LayerCut, Operation, cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import (
    PipelineStage,
    each_kind,
    ends_parameters,
    layer_parameters_of,
    pipeline_stages,
    stage_parameters,
)
from colltool.training.published import memory_error
from colltool.training.strategies import PipelinePlace, Recomputation
from colltool.training.updates import extra_state_bytes, trained_parameters

MASTER = 4  # bytes of a master weight in fp32 (Rajbhandari 2020, arXiv:1910.02054, section 3.1)
# bytes of a logit that the loss keeps in fp32, besides the 16 bits that the head wrote; a stack may
# say otherwise
LOSS_BYTES = 4


class MemoryPart(NamedTuple):
    """Bytes of one kind on a rank of a stage."""

    stage: int  # its number in the pipeline
    part: str  # such as "weights"; the keys of :func:`bytes_of_stages`
    bytes: float


class Memory(NamedTuple):
    """Memory of all stages, against that of a device."""

    parts: tuple[MemoryPart, ...]  # of all stages, stage by stage
    worst_stage: int  # number of the one that takes the most
    bytes: float  # of the worst stage
    capacity_bytes: float | None  # None without a device
    binds: str  # the largest part of the worst stage

    @property
    def within(self) -> float:
        """The error of such memory: how far off nine published runs in ten were at most, as a
        share."""
        published = memory_error()
        return max(1 - published.low, published.high - 1)

    @property
    def share(self) -> float | None:
        """The memory as a share of the device's; None without a device."""
        return None if self.capacity_bytes is None else self.bytes / self.capacity_bytes

    @property
    def fits(self) -> bool | None:
        """Whether it fits its device: False only where it is above by more than the error; None
        without a device."""
        return None if self.share is None else self.share <= 1 + self.within

    @property
    def tight(self) -> bool:
        """Whether it fits or not within the error: it may be either way."""
        return self.share is not None and abs(self.share - 1) <= self.within


def memory(config: ParallelConfig) -> Memory:
    """Return the memory of every stage.

    Raises:
        ColltoolError: the job has no model.
    """
    if config.model is None:
        raise ColltoolError(
            "the job has no model, and nothing is known of its memory", fix="give a model"
        )
    stages = pipeline_stages(config)
    by_stage = list(bytes_of_stages(config, stages))
    totals = [sum(parts.values()) for parts in by_stage]
    worst = totals.index(max(totals))
    parts_of_all = []
    for number, parts in enumerate(by_stage):
        for part, size in parts.items():
            parts_of_all.append(MemoryPart(number, part, size))
    return Memory(
        tuple(parts_of_all),
        worst,
        totals[worst],
        config.device.memory_bytes if config.device else None,
        binds=max(by_stage[worst], key=by_stage[worst].__getitem__),
    )


def memory_bytes(config: ParallelConfig, enough: float = inf) -> float:
    """Return the bytes of the worst stage, from one stage of each kind; or of the first stage found
    that takes more than ``enough``."""
    # of a kind the first stage counts: it keeps the most micro-batches; ``each_kind`` takes the last
    stages = each_kind(reversed(pipeline_stages(config)))
    worst = 0.0
    for parts in bytes_of_stages(config, reversed(stages)):
        worst = max(worst, sum(parts.values()))
        if worst > enough:
            break
    return worst


# parts that are allocated and freed within a step, which fragments memory; the others are "weights",
# "gradients", "optimizer", and "allocator" and "runtime" of the stack
TRANSIENT = ("gathered layers", "cast weights", "activations", "layer computed again", "logits")


def bytes_of_stages(
    config: ParallelConfig, stages: Iterable[PipelineStage]
) -> Iterator[dict[str, float]]:
    """Yield the bytes of each part of every stage, at the moment of the step that takes the most.

    A part that is not there at that moment is left out, or stands with what is left of it.
    """
    for stage in stages:
        moments = [_with_runtime(config, parts) for parts in _moments_of_stage(config, stage)]
        yield max(moments, key=lambda parts: sum(parts.values()))


def _moments_of_stage(config: ParallelConfig, stage: PipelineStage) -> Iterator[dict[str, float]]:
    """Yield the bytes of a stage's parts at each moment that may be the worst: when its backward
    passes begin, while a layer is recomputed, and when they end.

    All activations are there before any gradient is, and all gradients once the activations are
    gone, unless gradients wait for those of further micro-batches or have buffers of their own.
    """
    with_gradients = _states(config, stage)
    before_gradients = {part: size for part, size in with_gradients.items() if part != "gradients"}
    stay = gradients_stay(config)  # so the moment when they are all there is the beginning
    transient: dict[str, float] = {}  # at every moment
    if config.shard.shards_weights:
        transient["gathered layers"] = gathered_bytes(config, stage)
    elif casts := cast_bytes(config, stage):
        transient["cast weights"] = casts
    if config.shape is None:
        # what its layers keep is not known
        yield with_gradients | transient
        return
    kept, layer = _activations(config, config.shape, stage)
    recomputed: dict[str, float] = {}
    if config.recomputation.layers and stage.layers:
        recomputed["layer computed again"] = layer
    states = with_gradients if stay else before_gradients
    begin = states | transient | {"activations": kept}
    if stage.head:
        yield begin | {"logits": loss_bytes(config, config.shape)}
    if recomputed or not stage.head:
        yield begin | recomputed
    if not stay:
        last_layer = recomputed or {"activations": layer}
        yield with_gradients | transient | last_layer


def gradients_stay(config: ParallelConfig) -> bool:
    """Whether gradients stand beside all activations: where micro-batches add to them, or where
    they have buffers from the start, as in DDP."""
    if config.micro_batches > 1:
        return True
    if config.stack is not None and config.stack.gradient_buffers:
        return True
    return config.shard.mode == "ddp" and config.gradient_ranks > 1


def _with_runtime(config: ParallelConfig, parts: dict[str, float]) -> dict[str, float]:
    """Return the parts with what the stack's allocator and runtime take, added in place."""
    stack = config.stack
    if stack is None:
        return parts
    transient = sum(size for part, size in parts.items() if part in TRANSIENT)
    if transient and stack.allocator:
        parts["allocator"] = stack.allocator * transient
    parts["runtime"] = stack.runtime_bytes + stack.group_bytes * groups_of(config)
    return parts


def groups_of(config: ParallelConfig) -> int:
    """Groups that a rank communicates in, each with buffers of its own."""
    layout = config.layout
    sizes = (layout.tp, layout.cp, layout.ep, layout.pp, layout.dp)
    return sum(size > 1 for size in sizes)


def cast_bytes(config: ParallelConfig, stage: PipelineStage) -> float:
    """Bytes of the weights in the precision of GEMMs that autocast keeps beside fp32 weights until
    the backward pass; the embedding is only looked up."""
    compute = config.precision.activation_bytes
    if config.lora or config.precision.param_bytes <= compute:
        return 0.0
    return compute * stage_parameters(config, stage._replace(embedding=False)).total


def _states(config: ParallelConfig, stage: PipelineStage) -> dict[str, float]:
    """Bytes of the weights, gradients and optimizer states of a stage on a rank, by part."""
    dense = state_bytes(config, config.gradient_ranks)
    experts = state_bytes(config, config.layout.expert_dp)
    parameters = stage_parameters(config, stage)
    trained = trained_parameters(config, stage)
    copies = 1
    if config.layout.pp > 1:
        copies = config.pipeline.weight_copies
    states = trained.dense * dense.optimizer + trained.experts * experts.optimizer
    extra = extra_state_bytes(config, stage)
    if config.shard.strategy.optimizer:
        extra /= config.shard.group or config.gradient_ranks
    states += extra
    return {
        "weights": copies * (parameters.dense * dense.weight + parameters.experts * experts.weight),
        "gradients": copies * (trained.dense * dense.gradient + trained.experts * experts.gradient),
        "optimizer": (1 - config.offload.optimizer) * states,
    }


def _activations(config: ParallelConfig, shape: Shape, stage: PipelineStage) -> tuple[float, float]:
    """Bytes that a stage keeps for its backward passes, and at most of one layer while it
    computes."""
    share = config.recomputation.share(stage.layers)
    stored = largest_layer = working = 0.0
    for experts, layers in stage.layers_by_kind:
        kept, while_computing = layer_activations(config, shape, experts=experts, share=share)
        stored += layers * kept
        largest_layer = max(largest_layer, kept)
        working = max(working, while_computing)
    offloaded = config.offload.activations  # a share; the layer that is under way is on the device
    on_device = (1 - offloaded) * micro_batches_kept(config, stage) * stored
    return on_device + offloaded * largest_layer, working


def least_layer_bytes(config: ParallelConfig) -> tuple[float, float]:
    """Bytes that a stage takes at least for a layer without and with experts, and a micro-batch
    that it keeps for its backward pass."""
    shape = config.known_shape
    factor = 1 - config.offload.activations
    if config.stack is not None:
        factor *= 1 + config.stack.allocator
    dense, _ = layer_activations(config, shape, experts=False)
    if config.moe is None:
        return factor * dense, 0.0
    experts, _ = layer_activations(config, shape, experts=True)
    return factor * dense, factor * experts


def layer_activations(
    config: ParallelConfig, shape: Shape, *, experts: bool, share: float = 1.0
) -> tuple[float, float]:
    """Bytes of one layer for one micro-batch: kept for its backward pass, and at most while it
    computes.

    Full recomputation, of a ``share`` of the layers, keeps only a layer's input: 2 s b h, with
    sequence parallelism a t-th of it. Selective recomputation and fused attention keep all but the
    scores, recomputed modules all but what they store themselves.
    """
    cut = cut_of(config)
    flash = config.stack is None or config.stack.flash
    kept, working = _layer_bytes(shape, cut, config.recomputation, flash, experts)
    if config.recomputation.layers:
        input_bytes = cut.activation_bytes * cut.tokens_outside * shape.hidden
        kept = share * input_bytes + (1 - share) * working
    return kept, working


# cached, as layouts of a search differ in little that a layer depends on
@lru_cache(maxsize=4096)
def _layer_bytes(
    shape: Shape, cut: LayerCut, recompute: Recomputation, flash: bool, experts: bool
) -> tuple[float, float]:
    """Bytes of one layer for one micro-batch: kept for its backward pass where the layer is not
    recomputed as a whole, and at most while it computes."""
    operations = layer_operations(shape, cut, experts=experts)
    kept = sum(operation.share * operation.stored_bytes for operation in operations)
    scores = 0.0
    if not flash:
        for operation in operations:
            # a recurrence has none
            if operation.keys > 1:
                scores += SCORE_BYTES * operation.share * operation.scores
    working = kept + scores
    for operation in operations:
        kept -= operation.share * _bytes_not_kept(operation, shape, recompute)
    if not recompute.core:
        kept += scores
    return kept, working


def _bytes_not_kept(operation: Operation, shape: Shape, recompute: Recomputation) -> float:
    """Bytes of an operation that are not kept because a module is recomputed.

    Of the two norms their outputs, half of what they store; of an activation function its output, one
    of as many parts as an FFN has matrices and inputs; of latent attention what is computed from its
    bottlenecks.
    """
    if recompute.reruns(operation.name):
        return operation.stored_bytes
    if operation.name == "norms" and "layernorm" in recompute.modules:
        return operation.stored_bytes / 2
    if operation.name in ("experts", "shared expert") and "moe_act" in recompute.modules:
        # experts also store their tokens twice: parts in units of their width
        inputs = 0.0
        if operation.name == "experts" and shape.moe is not None:
            inputs = 2 * (shape.moe.latent or shape.hidden) / shape.moe.ffn
        return operation.stored_bytes / (shape.matrices + inputs)
    return operation.up_stored_bytes if "mla_up_proj" in recompute.modules else 0.0


def micro_batches_kept(config: ParallelConfig, stage: PipelineStage) -> float:
    """Micro-batches whose activations a stage keeps at once, at most; not whole where chunks of one
    are kept."""
    layout = config.layout
    if layout.pp == 1:
        return 1.0
    place = PipelinePlace(config.micro_batches, layout.pp, layout.virtual, layout.pp - stage.number)
    return float(config.pipeline.in_flight(place))


def loss_bytes(config: ParallelConfig, shape: Shape) -> float:
    """Bytes of one micro-batch's logits as the head wrote them, and of what the loss keeps of them:
    T V / t (w + 4), where the stack does not say otherwise than 4."""
    kept: float = LOSS_BYTES
    if config.stack is not None:
        kept = config.stack.loss_bytes
    logits = config.tokens * shape.vocab / config.layout.tp
    return logits * (config.precision.activation_bytes + kept)


class StateBytes(NamedTuple):
    """Bytes a parameter on a rank: of its shard where the part is sharded."""

    weight: float
    gradient: float  # in the precision in which it is summed
    optimizer: float  # states, and the master weight where it is not the weight itself


def state_bytes(config: ParallelConfig, replicas: int) -> StateBytes:
    """Bytes a parameter of weights, gradients and optimizer states on a rank.

    ``replicas``: ranks with the same parameter, which share it unless the job has shard groups. In
    bf16 with fp32 gradients DDP 2 + 4 + 12, ZeRO-1 6 + 12/D, ZeRO-2 2 + 16/D; FSDP 16/N, its
    fp32 weight is the master weight. Without master weights the optimizer updates those in bf16.
    """
    shard = config.shard
    weight = config.precision.param_bytes
    states = config.optimizer_row.states
    gradient = float(shard.grad_bytes)
    parts = shard.group or replicas
    has_master = config.precision.master != "none"
    if shard.strategy.weights:
        kept = MASTER if has_master and not config.lora else weight
        return StateBytes(kept / parts, gradient / parts, states / parts)
    if has_master and weight != MASTER:
        states += MASTER
    if shard.strategy.gradients:
        gradient /= parts
    if shard.strategy.optimizer:
        states /= parts
    return StateBytes(weight, gradient, states)


def gathered_bytes(config: ParallelConfig, stage: PipelineStage) -> float:
    """Bytes of the weights that FSDP has gathered at once, and of their gradients.

    Two units are whole besides the shards, and the gradients of one. A unit is a layer, or the
    embedding and the head; the largest two count. Without resharding all units are whole, with
    their gradients.
    """
    if not stage.layers:
        return 0.0
    layer = max(
        layer_parameters_of(config, experts=experts).total for experts, _ in stage.layers_by_kind
    )
    ends = ends_parameters(config, stage)
    weights = config.precision.param_bytes
    grads = 0 if config.lora else config.shard.grad_bytes
    if not config.shard.reshard:
        return (layer * stage.layers + ends) * (weights + grads)
    return (layer + max(layer, ends)) * weights + max(layer, ends) * grads
