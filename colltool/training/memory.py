"""Memory of a rank by stage and part, what binds, and the changes with which a job fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.constraint_violations import constraint_violations
from colltool.training.files.schema import BYTES
from colltool.training.model import Shape, TransformerModel
from colltool.training.operations import SCORE_BYTES, cut_of, layer_operations
from colltool.training.parallel_config import (
    ParallelConfig,
    PipelineStage,
    ends_parameters,
    layer_parameters_of,
    pipeline_stages,
    stage_parameters,
)
from colltool.training.strategies import InFlight, default_schedule

OPTIMIZER_BYTES = 12  # a parameter: fp32 master weight and Adam's two moments (Rajbhandari 2020, arXiv:1910.02054, section 3.1)
ACTIVATIONS = "activations"
LOSS_BYTES = 4  # of a logit in fp32, beside the 16 bits that the head wrote, where no stack says otherwise
GATHERED_LAYERS = 2  # of FSDP: the one that computes, and the one that is fetched


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


def memory(config: ParallelConfig) -> Memory:
    if config.model is None:
        raise ColltoolError("the job has no model, and nothing is known of its memory", fix="give a model")
    model = config.model
    stages = pipeline_stages(config)
    by_kind = {stage.kind: tuple(stage_parts(config, stage, model)) for stage in {stage.kind: stage for stage in stages}.values()}
    parts = tuple(_on(config, stage, part) for stage in stages for part in by_kind[stage.kind])
    totals: dict[int, float] = {}
    for part in parts:
        totals[part.stage] = totals.get(part.stage, 0.0) + part.bytes
    worst = max(totals, key=lambda stage: totals[stage])
    largest = max((part for part in parts if part.stage == worst), key=lambda part: part.bytes)
    capacity = config.device.memory_bytes if config.device else None
    return Memory(parts, worst, totals[worst], capacity, largest.part)


def worst_stage(config: ParallelConfig, model: TransformerModel) -> tuple[int, float]:
    """The stage and its bytes, as :func:`memory` finds them: the first stage of a kind keeps most micro-batches."""
    first: dict[tuple[int, int, bool, bool], PipelineStage] = {}
    for stage in pipeline_stages(config):
        first.setdefault(stage.kind, stage)
    totals = {}
    for stage in first.values():
        kept = micro_batches_kept(config, stage)
        parts = stage_parts(config, stage, model)
        totals[stage.number] = sum(part.bytes * kept if part.part == ACTIVATIONS else part.bytes for part in parts)
    worst = max(totals, key=lambda stage: totals[stage])
    return worst, totals[worst]


def _on(config: ParallelConfig, stage: PipelineStage, part: MemoryPart) -> MemoryPart:
    """Stages of a kind have the same parts, but keep as many micro-batches as their place demands."""
    kept = micro_batches_kept(config, stage) if part.part == ACTIVATIONS else 1.0
    return MemoryPart(stage.number, part.part, part.bytes * kept)


def stage_parts(config: ParallelConfig, stage: PipelineStage, model: TransformerModel) -> Iterator[MemoryPart]:
    """Activations are of one micro-batch."""
    yield from _states(config, stage)
    shape = model.shape
    if shape is not None:
        counts = ((False, stage.dense_layers), (True, stage.moe_layers))
        each = [(count, layer_activations(config, shape, experts=kind)) for kind, count in counts if count]
        yield MemoryPart(stage.number, ACTIVATIONS, sum(count * layer.stored for count, layer in each))
        if config.again.layers and each:
            yield MemoryPart(stage.number, "layer computed again", max(layer.working for _, layer in each))
        if stage.head:
            yield MemoryPart(stage.number, "logits", loss_bytes(config, shape))
    if config.stack is not None:
        yield MemoryPart(stage.number, "runtime", config.stack.runtime_bytes)


class LayerActivations(NamedTuple):
    """Bytes of one layer and micro-batch: kept for its backward pass, and at most while it computes."""

    stored: float
    working: float


def layer_activations(config: ParallelConfig, shape: Shape, *, experts: bool) -> LayerActivations:
    """Full recomputation keeps only a layer's input, 2 s b h, a t-th of it with sequence parallelism.

    Selective recomputation and fused attention keep all but the scores.
    """
    read, flash = layer_operations(shape, cut_of(config), experts=experts), config.stack is None or config.stack.flash
    whole = sum(one.stored for one in read)
    scores = 0.0 if flash else SCORE_BYTES * sum(one.scores for one in read)
    if config.again.layers:
        return LayerActivations(config.precision.activation_bytes * config.tokens_outside * shape.hidden, whole + scores)
    return LayerActivations(whole + (0.0 if config.again.core else scores), whole + scores)


def micro_batches_kept(config: ParallelConfig, stage: PipelineStage) -> float:
    """Most micro-batches whose activations a stage keeps at once."""
    m, p = config.micro_batches, config.layout.pp
    return 1.0 if p == 1 else float(config.pipeline.in_flight(InFlight(m, p, config.layout.virtual, p - stage.number)))


def loss_bytes(config: ParallelConfig, shape: Shape) -> float:
    """Logits of one micro-batch as the head wrote them, and what the loss keeps: s b V / t (w + 4)."""
    kept = config.stack.loss_bytes if config.stack is not None else LOSS_BYTES
    return config.tokens * shape.vocab / config.layout.tp * (config.precision.activation_bytes + kept)


def state_bytes(config: ParallelConfig, replicas: int, group: int) -> tuple[float, float, float]:
    """Bytes per parameter of weights, gradients and optimizer states on a rank.

    In bf16 with fp32 gradients DDP 2 + 4 + 12, ZeRO-1 6 + 12/D, ZeRO-2 2 + 16/D; FSDP 16/N, its fp32 weight is the master weight.
    """
    weight, row = BYTES[config.precision.params], config.shard.row
    grads = float(config.shard.grad_bytes)
    optimizer = float(OPTIMIZER_BYTES - (4 if weight == 4 else 0))
    parts = group if row.grouped else replicas
    if row.weights:
        return 4 / parts, grads / parts, 8 / parts
    return weight, grads / (parts if row.gradients else 1), optimizer / (parts if row.optimizer else 1)


def _states(config: ParallelConfig, stage: PipelineStage) -> Iterator[MemoryPart]:
    held = stage_parameters(config, stage)
    copies = config.pipeline.weight_copies if config.layout.pp > 1 else 1
    dense = state_bytes(config, config.gradient_ranks, config.shard.group)
    experts = state_bytes(config, config.layout.expert_dp, config.shard.group)
    for name, mine, its, times in zip(("weights", "gradients", "optimizer"), dense, experts, (copies, copies, 1), strict=True):
        yield MemoryPart(stage.number, name, times * (held.dense * mine + held.experts * its))
    if config.shard.layers:
        yield MemoryPart(stage.number, "gathered layers", gathered_bytes(config, stage))


def gathered_bytes(config: ParallelConfig, stage: PipelineStage) -> float:
    """FSDP keeps two units whole beside the shards, and the gradients of one; all of them where they are not resharded.

    A unit is a layer, or the embedding and the head: the largest two count. What is gathered once a step sums gradients whole.
    """
    kinds = [kind for kind, there in ((False, stage.dense_layers), (True, stage.moe_layers)) if there]
    if not kinds:
        return 0.0
    layer, ends = max(layer_parameters_of(config, experts=kind).total for kind in kinds), ends_parameters(config, stage).total
    if not config.shard.reshard:
        return (layer * stage.layers + ends) * (config.precision.param_bytes + config.shard.grad_bytes)
    whole = layer * (GATHERED_LAYERS - 1) + max(layer, ends)
    return whole * config.precision.param_bytes + max(layer, ends) * config.shard.grad_bytes


class Cure(NamedTuple):
    """Values with which a job fits, as ``--set`` takes them."""

    values: dict[str, object]
    memory: Memory
    setup: ParallelConfig


def smallest_change(config: ParallelConfig) -> Cure | None:
    return next(cures(config), None)


def cures(config: ParallelConfig) -> Iterator[Cure]:
    """Changes with which a job that does not fit would, the cheapest in time first."""
    if memory(config).fits is not False:
        return
    for changes, changed in candidates(config):
        if not constraint_violations(changed):
            then = memory(changed)
            if then.fits:
                yield Cure(changes, then, changed)


def candidates(config: ParallelConfig) -> Iterator[tuple[dict[str, object], ParallelConfig]]:
    """Changes that save memory, the cheapest in time first."""
    layout, shard = config.layout, config.shard
    spread = config._replace(layout=layout._replace(sp=True))
    plain = layout.tp > 1 and not layout.sp
    scores = not config.again.core and config.stack is not None and not config.stack.flash
    if not shard.row.optimizer:
        yield {"shard.mode": "zero1"}, config._replace(shard=shard._replace(mode="zero1"))
    if config.micro_batch > 1:
        yield {"batch.micro": 1}, config._replace(micro_batch=1)
    apart = _tokens_apart(config)
    if plain:
        yield apart, spread
    if scores:
        yield {"recompute": "selective"}, config._replace(recompute="selective")
    if plain and scores:
        yield apart | {"recompute": "selective"}, spread._replace(recompute="selective")
    if not config.again.layers:
        yield {"recompute": "full"}, config._replace(recompute="full")
    if not shard.layers:
        once = layout.pp > 1
        sharded = shard._replace(mode="fsdp", reshard=not once, gathers=1 if once else 2)
        yield {"shard.mode": "fsdp"}, config._replace(shard=sharded)
    yield from _wider(config)
    if not config.again.layers:
        again = config._replace(recompute="full")
        if not shard.layers:
            yield {"shard.mode": "fsdp", "recompute": "full"}, again._replace(shard=sharded)
        yield from ((made | {"recompute": "full"}, changed) for made, changed in _wider(again))


def _tokens_apart(config: ParallelConfig) -> dict[str, object]:
    shape = config.model.shape if config.model is not None else None
    return {"layout.sp": True} | ({"layout.etp": config.layout.etp} if shape is not None and shape.moe is not None else {})


def _wider(config: ParallelConfig) -> Iterator[tuple[dict[str, object], ParallelConfig]]:
    layout = config.layout
    for factor in (2, 4, 8):
        if layout.dp % factor:
            continue
        fewer = layout.dp // factor
        wider = layout._replace(tp=layout.tp * factor, sp=True, dp=fewer)
        yield {"layout.tp": wider.tp} | _tokens_apart(config), config._replace(layout=wider)
        schedule = default_schedule(1) if config.pipeline.from_layout else config.schedule
        deeper = layout._replace(pp=layout.pp * factor, dp=fewer, virtual=1, stages=())
        made: dict[str, object] = {"layout.pp": deeper.pp, "layout.virtual": 1, "schedule": schedule}
        yield made, config._replace(layout=deeper, schedule=schedule)
