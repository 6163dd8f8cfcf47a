"""What a rank of a stage sends in a step: the calls of its layers, gradients and weights, pipeline borders."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from colltool.base.primitives import AG, AR, P2P, RS
from colltool.training.calls import Call, CallBuilder, Hiding, Per, Phase, layer_calls
from colltool.training.layout import RankGroup, cut
from colltool.training.parallel_config import (
    ParallelConfig,
    PipelineStage,
    RankParameters,
    ends_parameters,
    layer_parameters_of,
    stage_parameters,
)

NORM = "Megatron-LM: clip_grad_norm sums the squares of all gradients"
NARAYANAN = "Narayanan 2021, arXiv:2104.04473, sections 2.2 and 3.2"
TIED = "Megatron-LM: the embedding's gradient is summed over the first and the last stage"


def buckets(size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Bytes in buckets: (bytes, count) of the full ones and of the rest.

    >>> buckets(70e6, 25e6)
    ((25000000.0, 2), (20000000.0, 1))
    """
    full = int(size // bucket)
    rest = size - full * bucket
    found = ((bucket, full), (rest, 1))
    return tuple((each, count) for each, count in found if count and each > 0.5)


def tensor_buckets(tensors: int, size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Equal tensors in buckets; a bucket goes out before the next tensor would overflow it.

    >>> tensor_buckets(1000, 1e6, 25e6), tensor_buckets(1000, 1e6, 25 * 2**20)
    (((25000000.0, 40),), ((26000000.0, 38), (12000000.0, 1)))
    """
    together = max(1, int(bucket // size))
    full, rest = divmod(tensors, together)
    return tuple((held * size, count) for held, count in ((together, full), (rest, 1)) if held and count)


def gradient_calls(send: CallBuilder) -> Iterator[Call]:
    """Dense gradients are summed over D c ranks, those of experts over the replicas of an expert."""
    config = send.config
    if config.model is None:
        return
    layout = config.layout
    held = stage_parameters(config, send.stage)
    parts = (("dp", layout.group("cp", "dp"), held.dense), ("expert dp", layout.group("dp", experts=True), held.experts))
    if config.shard.layers:
        yield from _layered(send)
        return
    for name, group, parameters in parts:
        if group.ranks > 1 and parameters:
            yield from _bucketed(send, name, group, parameters)


def norm_calls(send: CallBuilder) -> Iterator[Call]:
    ranks = send.config.layout.ranks
    if ranks > 1 and send.config.model is not None:
        everybody = RankGroup(((ranks, 1),))
        yield send.call("norm", AR, everybody, 4.0, per="step", phase="update", source=NORM)


def _bucketed(send: CallBuilder, name: str, group: RankGroup, parameters: float) -> Iterator[Call]:
    """DDP all-reduces gradients in buckets; ZeRO-1 and 2 reduce-scatter them and all-gather the weights."""
    config = send.config
    grads, weights = config.shard.grad_bytes, config.precision.param_bytes
    bucket = config.bucket_bytes(grads, group.ranks)
    under: Hiding = "last backward" if config.overlap.dp else "nothing"
    reduced, source = RS if config.shard.row.optimizer else AR, config.shard.row.source
    for size, count in buckets(parameters * grads, bucket):
        yield send.call(name, reduced, group, size, per="step", phase="backward", each=count, hides=under, source=source)
    if not config.shard.row.optimizer:
        return
    under = "first forward" if config.overlap.dp else "nothing"
    for size, count in buckets(parameters * weights, bucket * weights / grads):
        yield send.call(name, AG, group, size, per="step", phase="forward", each=count, hides=under, source=source)


def _layered(send: CallBuilder) -> Iterator[Call]:
    """FSDP gathers a layer for each pass and reduce-scatters its gradient; without resharding it gathers once a step.

    HSDP then all-reduces the shards across replicas in the last backward pass, a call a layer as soon as its reduce-scatter
    is done (PyTorch's ``_post_backward_hook``).
    """
    config = send.config
    hides: Hiding = "last backward" if config.overlap.dp else "nothing"
    source = config.shard.row.source
    for per, layers, held in _units(send):
        for name, shards, replicas, parameters in _shard_groups(send, held):
            if shards.ranks > 1:
                yield from _unit(send, per, layers, name, group=shards, parameters=parameters)
            if replicas.ranks > 1:
                size = parameters / shards.ranks * config.shard.grad_bytes
                yield send.call(name, AR, replicas, size, per="step", phase="backward", each=layers, hides=hides, source=source)


def _units(send: CallBuilder) -> Iterator[tuple[Per, int, RankParameters]]:
    config, stage = send.config, send.stage
    if stage.dense_layers:
        yield "dense_layer", stage.dense_layers, layer_parameters_of(config, experts=False)
    if stage.moe_layers:
        yield "moe_layer", stage.moe_layers, layer_parameters_of(config, experts=True)
    if (ends := ends_parameters(config, stage)).total:
        yield "micro_batch", 1, ends


def _shard_groups(send: CallBuilder, held: RankParameters) -> Iterator[tuple[str, RankGroup, RankGroup, float]]:
    layout, shard = send.config.layout, send.config.shard
    for name, group, parameters in (
        ("dp", layout.group("cp", "dp"), held.dense),
        ("expert dp", layout.group("dp", experts=True), held.experts),
    ):
        if group.ranks > 1 and parameters:
            inner, outer = cut(group, shard.group) if shard.row.grouped else (group, RankGroup(()))
            yield name, inner, outer, parameters


def _unit(send: CallBuilder, per: Per, layers: int, name: str, *, group: RankGroup, parameters: float) -> Iterator[Call]:
    """Gathers and scatter of one FSDP unit: every micro-batch, or once a step where it stays gathered."""
    config = send.config
    shard = config.shard
    often: Per = per if shard.reshard else "step"
    count = 1 if shard.reshard else layers
    hides: Hiding = "neighbour layer" if config.overlap.dp else "nothing"
    weights, grads = parameters * config.precision.param_bytes, parameters * shard.grad_bytes
    passes: tuple[Phase, ...] = ("forward", "backward") if shard.gathers == 2 else ("forward",)
    for phase in passes:
        yield send.call(name, AG, group, weights, per=often, phase=phase, each=count, hides=hides, source=config.shard.row.source)
    yield send.call(name, RS, group, grads, per=often, phase="backward", each=count, hides=hides, source=config.shard.row.source)


def pipeline_calls(send: CallBuilder) -> Iterator[Call]:
    """b s h w / c over each border each way, a t-th of it with sequence parallelism; the slowest pair sets the time."""
    config = send.config
    model, layout = config.model, config.layout
    if layout.pp == 1 or model is None or model.shape is None:
        return
    size = config.tokens_outside * model.shape.hidden * config.precision.activation_bytes
    hides: Hiding = "steady pipeline" if config.overlap.pp else "nothing"
    group, closed = layout.group("pp"), layout.virtual > 1 and not config.folded  # last stage to the first one's next chunk
    for phase in ("forward", "backward"):
        yield send.call("pp", P2P, group, size, per="border", phase=phase, hides=hides, source=NARAYANAN, closed=closed)


def tied_calls(send: CallBuilder) -> Iterator[Call]:
    """A tied embedding's gradient: an all-reduce of V h / t between the first and the last stage."""
    config = send.config
    model, layout = config.model, config.layout
    if layout.pp == 1 or model is None or model.shape is None or not model.shape.tied:
        return
    if send.stage.embedding == send.stage.head:  # a stage between, or both on one
        return
    pipeline = layout.group("pp")
    ends = RankGroup(((2, (layout.pp - 1) * pipeline.stride),))
    size = model.shape.vocab * model.shape.hidden / layout.tp * config.shard.grad_bytes
    yield send.call("embedding", AR, ends, size, per="step", phase="update", source=TIED)


Rows = tuple[Callable[[CallBuilder], Iterator[Call]], ...]

OFTEN: Rows = (layer_calls,)  # every micro-batch
BORDERS: Rows = (pipeline_calls,)
GRADIENTS: Rows = (gradient_calls,)  # every micro-batch or once a step, by sharding
ONCE: Rows = (tied_calls, norm_calls)
ROWS: Rows = OFTEN + BORDERS + GRADIENTS + ONCE


def stage_calls(config: ParallelConfig, stage: PipelineStage, rows: Rows = ROWS) -> tuple[Call, ...]:
    """The collectives of one rank of a stage; equal calls are merged, empty ones dropped."""
    send = CallBuilder(config, stage)
    found: dict[tuple[object, ...], Call] = {}
    for one in (call for row in rows for call in row(send) if call.calls and call.bytes > 0.5):
        key = (one.dimension, one.primitive, one.group, one.bytes, one.per, one.phase, one.hides)
        before = found.get(key)
        found[key] = one._replace(each=one.each + before.each, calls=one.calls + before.calls) if before else one
    return tuple(found.values())
