"""Data parallelism: gradients summed over the replicas, weights gathered where they are sharded."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.primitives import AG, AR, RS
from colltool.training.layout import RankGroup, cut
from colltool.training.rank_parameters import RankParameters, ends_parameters, layer_parameters_of, stage_parameters
from colltool.training.traffic.call import Call, CallBuilder, Hiding, Per, Phase

NORM = "Megatron-LM: clip_grad_norm sums the squares of all gradients"


def buckets(size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Bytes in buckets: (bytes, count) of the full ones, and of what is left.

    >>> buckets(70e6, 25e6)
    ((25000000.0, 2), (20000000.0, 1))
    """
    full = int(size // bucket)
    rest = size - full * bucket
    found = ((bucket, full), (rest, 1))
    return tuple((each, count) for each, count in found if count and each > 0.5)


def tensor_buckets(tensors: int, size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """So many tensors of one size in buckets, as :func:`buckets`: one goes out before the next tensor would overflow it.

    >>> tensor_buckets(1000, 1e6, 25e6), tensor_buckets(1000, 1e6, 25 * 2**20)
    (((25000000.0, 40),), ((26000000.0, 38), (12000000.0, 1)))
    """
    together = max(1, int(bucket // size))
    full, rest = divmod(tensors, together)
    return tuple((held * size, count) for held, count in ((together, full), (rest, 1)) if held and count)


def gradient_calls(send: CallBuilder) -> Iterator[Call]:
    """Those of the dense weights over D c ranks, and those of experts over their own replicas."""
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
    """The norm of all gradients: 4 bytes over all ranks."""
    ranks = send.config.layout.ranks
    if ranks > 1 and send.config.model is not None:
        everybody = RankGroup(((ranks, 1),))
        yield send.call("norm", AR, everybody, 4.0, per="step", phase="update", source=NORM)


def _bucketed(send: CallBuilder, name: str, group: RankGroup, parameters: float) -> Iterator[Call]:
    """DDP: an all-reduce of P_l in buckets. ZeRO-1 and 2: a reduce-scatter of the gradients, an all-gather of the weights."""
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
    """FSDP: a layer is gathered for each pass, and its gradient scattered; what is not resharded is gathered once a step.

    HSDP: what a rank keeps of a layer's gradient is then summed over the shard groups, in the last backward pass of a step:
    a call a layer, as soon as its reduce-scatter is done (PyTorch's ``_post_backward_hook``).
    """
    config = send.config
    for per, layers, held in _units(send):
        for name, shards, replicas, parameters in _shard_groups(send, held):
            if shards.ranks > 1:
                yield from _unit(send, per, layers, name, group=shards, parameters=parameters)
            if replicas.ranks > 1:
                size = parameters / shards.ranks * config.shard.grad_bytes
                hides: Hiding = "last backward" if config.overlap.dp else "nothing"
                yield send.call(
                    name,
                    AR,
                    replicas,
                    size,
                    per="step",
                    phase="backward",
                    each=layers,
                    hides=hides,
                    source=config.shard.row.source,
                )


def _units(send: CallBuilder) -> Iterator[tuple[Per, int, RankParameters]]:
    """What is gathered together, how many of each a stage has: layers of a kind, the embedding with the head."""
    config, stage = send.config, send.stage
    if stage.dense_layers:
        yield "dense_layer", stage.dense_layers, layer_parameters_of(config, experts=False)
    if stage.moe_layers:
        yield "moe_layer", stage.moe_layers, layer_parameters_of(config, experts=True)
    if (ends := ends_parameters(config, stage)).total:
        yield "micro_batch", 1, ends


def _shard_groups(send: CallBuilder, held: RankParameters) -> Iterator[tuple[str, RankGroup, RankGroup, float]]:
    """The groups that shard a unit's weights, and those that hold the same shard, with the parameters that a group has."""
    layout, shard = send.config.layout, send.config.shard
    for name, group, parameters in (
        ("dp", layout.group("cp", "dp"), held.dense),
        ("expert dp", layout.group("dp", experts=True), held.experts),
    ):
        if group.ranks > 1 and parameters:
            inner, outer = cut(group, shard.group) if shard.row.grouped else (group, RankGroup(()))
            yield name, inner, outer, parameters


def _unit(send: CallBuilder, per: Per, layers: int, name: str, *, group: RankGroup, parameters: float) -> Iterator[Call]:
    """One unit's gathers and scatter, each micro-batch; once a step where it stays gathered."""
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
