"""Memory of a rank by stage and part, what binds, and the changes with which a job fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.constraint_violations import constraint_violations
from colltool.training.model import Shape
from colltool.training.operations import SCORE_BYTES, Operation, cut_of, heads_of, layer_operations
from colltool.training.parallel_config import (
    ParallelConfig,
    PipelineStage,
    Shard,
    ends_parameters,
    layer_parameters_of,
    pipeline_stages,
    stage_parameters,
)
from colltool.training.strategies import InFlight, default_schedule
from colltool.training.updates import more_states, trained

MASTER = 4  # bytes of a master weight in fp32 (Rajbhandari 2020, arXiv:1910.02054, section 3.1)
# of a logit in fp32, beside the 16 bits that the head wrote, where no stack says otherwise
LOSS_BYTES = 4


class MemoryPart(NamedTuple):
    stage: int
    part: str
    bytes: float


class Memory(NamedTuple):
    parts: tuple[MemoryPart, ...]
    worst_stage: int
    bytes: float  # of the worst stage
    capacity_bytes: float | None  # None without a device
    binds: str  # the largest part of the worst stage

    @property
    def fits(self) -> bool | None:
        return None if self.capacity_bytes is None else self.bytes <= self.capacity_bytes


def memory(config: ParallelConfig, *, every_stage: bool = True) -> Memory:
    """Of all stages, or of the first of each kind, which keeps most micro-batches: the worst stage
    is the same."""
    if config.model is None:
        raise ColltoolError(
            "the job has no model, and nothing is known of its memory", fix="give a model"
        )
    stages = pipeline_stages(config)
    if not every_stage:
        stages = tuple(sorted({stage.kind: stage for stage in reversed(stages)}.values()))
    parts = tuple(part for stage in stages for part in stage_parts(config, stage))
    totals: dict[int, float] = {}
    for part in parts:
        totals[part.stage] = totals.get(part.stage, 0.0) + part.bytes
    worst = max(totals, key=lambda stage: totals[stage])
    largest = max((part for part in parts if part.stage == worst), key=lambda part: part.bytes)
    return Memory(
        parts,
        worst,
        totals[worst],
        config.device.memory_bytes if config.device else None,
        largest.part,
    )


COMES_AND_GOES = ("gathered layers", "activations", "layer computed again", "logits")


def stage_parts(config: ParallelConfig, stage: PipelineStage) -> Iterator[MemoryPart]:
    found = list(_tensors(config, stage))
    yield from found
    if config.stack is not None:
        if lost := config.stack.allocator * sum(
            one.bytes for one in found if one.part in COMES_AND_GOES
        ):
            yield MemoryPart(stage.number, "allocator", lost)
        yield MemoryPart(stage.number, "runtime", config.stack.runtime_bytes)


def _tensors(config: ParallelConfig, stage: PipelineStage) -> Iterator[MemoryPart]:
    held, own, shape = stage_parameters(config, stage), trained(config, stage), config.shape
    group = config.shard.group
    copies = config.pipeline.weight_copies if config.layout.pp > 1 else 1
    dense, experts = (
        state_bytes(config, replicas, group)
        for replicas in (config.gradient_ranks, config.layout.expert_dp)
    )
    yield MemoryPart(
        stage.number,
        "weights",
        copies * (held.dense * dense.weight + held.experts * experts.weight),
    )
    yield MemoryPart(
        stage.number,
        "gradients",
        copies * (own.dense * dense.gradient + own.experts * experts.gradient),
    )
    ends = more_states(config, stage) / (
        (group or config.gradient_ranks) if config.shard.row.optimizer else 1
    )
    states = own.dense * dense.optimizer + own.experts * experts.optimizer + ends
    yield MemoryPart(stage.number, "optimizer", (1 - config.offload.optimizer) * states)
    if config.shard.layers:
        yield MemoryPart(stage.number, "gathered layers", gathered_bytes(config, stage))
    if shape is not None:
        counts = ((False, stage.dense_layers), (True, stage.moe_layers))
        share = config.again.share(stage.layers)
        each = [
            (count, *layer_activations(config, shape, experts=kind, share=share))
            for kind, count in counts
            if count
        ]
        kept, away = micro_batches_kept(config, stage), config.offload.activations
        here = (1 - away) * kept * sum(count * stored for count, stored, _ in each)
        on_its_way = away * max((stored for _, stored, _ in each), default=0.0)
        yield MemoryPart(stage.number, "activations", here + on_its_way)
        if config.again.layers and each:
            yield MemoryPart(
                stage.number, "layer computed again", max(working for *_, working in each)
            )
        if stage.head:
            yield MemoryPart(stage.number, "logits", loss_bytes(config, shape))


def layer_activations(
    config: ParallelConfig, shape: Shape, *, experts: bool, share: float = 1.0
) -> tuple[float, float]:
    """Bytes of one layer and micro-batch: kept for its backward pass, and at most while it
    computes.

    Full recomputation keeps only a layer's input, 2 s b h, a t-th of it with sequence parallelism;
    of a ``share`` of the layers.
    Selective recomputation and fused attention keep all but the scores, modules all but what they
    keep themselves.
    """
    cut, flash = cut_of(config), config.stack is None or config.stack.flash
    read = layer_operations(shape, cut, experts=experts)
    whole = sum(one.stored for one in read)
    scores = 0.0 if flash else SCORE_BYTES * sum(one.scores for one in read)
    if config.again.layers:
        return (
            share * cut.width * cut.outside * shape.hidden + (1 - share) * (whole + scores),
            whole + scores,
        )
    whole -= spared(config, shape, read)
    return whole + (0.0 if config.again.core else scores), whole + scores


def spared(config: ParallelConfig, shape: Shape, read: Sequence[Operation]) -> float:
    """Bytes that modules do not keep as they run again.

    A norm keeps two of its four parts, its output is computed again; an activation function one of
    the parts of its FFN; what comes out of latent attention's bottlenecks is computed from them.
    """
    modules, found = config.again.modules, 0.0
    for one in read:
        if config.again.operation(one.name):
            found += one.stored
        elif one.name == "norms" and "layernorm" in modules:
            found += one.stored / 2
        elif one.name in ("experts", "shared expert") and "moe_act" in modules:
            found += one.stored / (
                shape.matrices
                + (2 * shape.hidden / shape.moe.ffn if one.name == "experts" and shape.moe else 0)
            )
        elif one.name == "attention" and "mla_up_proj" in modules and shape.mla is not None:
            cut = cut_of(config)
            at = heads_of(shape, cut.tp)
            found += cut.tokens * cut.width * (at.q + at.k + at.v)
    return found


def micro_batches_kept(config: ParallelConfig, stage: PipelineStage) -> float:
    m, p = config.micro_batches, config.layout.pp
    return (
        1.0
        if p == 1
        else float(
            config.pipeline.in_flight(InFlight(m, p, config.layout.virtual, p - stage.number))
        )
    )


def loss_bytes(config: ParallelConfig, shape: Shape) -> float:
    """Logits of one micro-batch as the head wrote them, and what the loss keeps: s b V / t (w +
    4)."""
    kept = config.stack.loss_bytes if config.stack is not None else LOSS_BYTES
    return (
        config.tokens * shape.vocab / config.layout.tp * (config.precision.activation_bytes + kept)
    )


class StateBytes(NamedTuple):
    weight: float
    gradient: float
    optimizer: float


def state_bytes(config: ParallelConfig, replicas: int, group: int) -> StateBytes:
    """Bytes per parameter of weights, gradients and optimizer states on a rank.

    In bf16 with fp32 gradients DDP 2 + 4 + 12, ZeRO-1 6 + 12/D, ZeRO-2 2 + 16/D; FSDP 16/N, its
    fp32 weight is the master weight.
    """
    weight, row, grads = (
        config.precision.param_bytes,
        config.shard.row,
        float(config.shard.grad_bytes),
    )
    states, parts = config.update.states, group or replicas
    if row.weights:
        return StateBytes(
            (weight if config.lora else MASTER) / parts, grads / parts, states / parts
        )
    master = 0 if weight == MASTER else MASTER
    return StateBytes(
        weight,
        grads / (parts if row.gradients else 1),
        (master + states) / (parts if row.optimizer else 1),
    )


def gathered_bytes(config: ParallelConfig, stage: PipelineStage) -> float:
    """FSDP keeps two units whole beside the shards, and the gradients of one; all of them where
    they are not resharded.

    A unit is a layer, or the embedding and the head: the largest two count. What is gathered once a
    step sums gradients whole.
    """
    kinds = [
        kind for kind, there in ((False, stage.dense_layers), (True, stage.moe_layers)) if there
    ]
    if not kinds:
        return 0.0
    layer, ends = (
        max(layer_parameters_of(config, experts=kind).total for kind in kinds),
        ends_parameters(config, stage),
    )
    weights, grads = config.precision.param_bytes, 0 if config.lora else config.shard.grad_bytes
    if not config.shard.reshard:
        return (layer * stage.layers + ends) * (weights + grads)
    return (layer + max(layer, ends)) * weights + max(layer, ends) * grads


class Cure(NamedTuple):
    values: dict[str, object]
    memory: Memory
    setup: ParallelConfig


def cures(config: ParallelConfig) -> Iterator[Cure]:
    """Changes with which a job that does not fit would, the cheapest in time first."""
    if memory(config).fits is False:
        for values, changed in candidates(config):
            if not constraint_violations(changed) and (then := memory(changed)).fits:
                yield Cure(values, then, changed)


Changed = Iterator[tuple[dict[str, object], ParallelConfig]]


def candidates(config: ParallelConfig) -> Changed:
    layout, shard = config.layout, config.shard
    spread, apart = (
        config._replace(layout=layout._replace(sp=True)),
        {"layout.sp": True} | expert_width(config, layout.etp),
    )
    plain = layout.tp > 1 and not layout.sp
    scores = not config.again.core and config.stack is not None and not config.stack.flash
    if not shard.row.optimizer:
        yield {"shard.mode": "zero1"}, config._replace(shard=shard._replace(mode="zero1"))
    if config.micro_batch > 1:
        yield {"batch.micro": 1}, config._replace(micro_batch=1)
    if plain:
        yield apart, spread
    if scores:
        yield {"recompute": "selective"}, config._replace(recompute="selective")
    if plain and scores:
        yield apart | {"recompute": "selective"}, spread._replace(recompute="selective")
    again, sharded = config._replace(recompute="full"), config._replace(shard=fully_sharded(config))
    if not config.again.layers:
        yield {"recompute": "full"}, again
    if not shard.layers:
        yield {"shard.mode": "fsdp"}, sharded
    yield from _wider(config)
    if not config.again.layers:
        if not shard.layers:
            yield {"shard.mode": "fsdp", "recompute": "full"}, sharded._replace(recompute="full")
        yield from ((values | {"recompute": "full"}, changed) for values, changed in _wider(again))


def fully_sharded(config: ParallelConfig) -> Shard:
    """FSDP as a job file has it unless it says more: under pipelines weights are gathered once."""
    once = config.layout.pp > 1
    return config.shard._replace(mode="fsdp", reshard=not once, gathers=1 if once else 2)


def expert_width(config: ParallelConfig, etp: int) -> dict[str, object]:
    """Says etp of a model with experts, which otherwise follows from tp and sp."""
    return {"layout.etp": etp} if config.moe is not None else {}


def _wider(config: ParallelConfig) -> Changed:
    layout = config.layout
    for factor in (factor for factor in (2, 4, 8) if layout.dp % factor == 0):
        fewer = layout.dp // factor
        wider = layout._replace(tp=layout.tp * factor, sp=True, dp=fewer)
        yield (
            {"layout.tp": wider.tp, "layout.sp": True} | expert_width(config, layout.etp),
            config._replace(layout=wider),
        )
        schedule = default_schedule(1) if config.pipeline.from_layout else config.schedule
        deeper = layout._replace(pp=layout.pp * factor, dp=fewer, virtual=1, stages=())
        values: dict[str, object] = {
            "layout.pp": deeper.pp,
            "layout.virtual": 1,
            "schedule": schedule,
        }
        yield values, config._replace(layout=deeper, schedule=schedule)
