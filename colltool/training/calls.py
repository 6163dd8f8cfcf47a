"""The collectives that a rank of a pipeline stage sends in a step.

:func:`stage_calls` is the entry: it runs a generator each for the calls of layers, gradients and
weights, pipeline borders, and the update, and counts how often a step has each :class:`Call`. Sizes
follow from the model's shape, with the letters of :mod:`operations`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple, assert_never

from colltool.base.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.training.dispatchers import DISPATCHERS, copies, dispatcher_of
from colltool.training.files import BYTES
from colltool.training.model import Shape
from colltool.training.operations import Operation, Phase, cut_of, heads_of, layer_operations
from colltool.training.parallel_config import ParallelConfig, RankGroup, split_group
from colltool.training.pipeline_stages import (
    PipelineStage,
    RankParameters,
    ends_parameters,
    layer_parameters_of,
)
from colltool.training.updates import trained_layer_parameters, trained_parameters

# sources of calls
SHOEYBI = "Shoeybi 2019, arXiv:1909.08053, section 3"
KORTHIKANTI = "Korthikanti 2022, arXiv:2205.05198, section 4.2"
RING = "Ring attention, Liu 2023, arXiv:2310.01889"
GATHER = "The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2"
ULYSSES = "DeepSpeed Ulysses, Jacobs 2023, arXiv:2309.14509"
MOONLIGHT = "Liu 2025, Muon is scalable, arXiv:2502.16982, section 2.3: whole matrices are gathered"
NORM = "Megatron-LM: clip_grad_norm sums the squares of all gradients"
NARAYANAN = "Narayanan 2021, arXiv:2104.04473, sections 2.2 and 3.2"
TIED = "Megatron-LM: the embedding's gradient is summed over the first and the last stage"

MEGATRON_BUCKET = 40e6  # parameters; Megatron-Core's DistributedDataParallel: max(40e6, 1e6 x dp)
DDP_BUCKET = 25e6  # bytes; PyTorch's DistributedDataParallel has bucket_cap_mb 25
LEAST_BYTES = 0.5  # of a call; smaller parts are what rounding left
# of calls, in the order of tables
DIMENSIONS = ("tp", "vocab", "cp", "ep", "etp", "pp", "dp", "expert dp", "embedding", "norm")
# what a call belongs to: a layer of a kind in a micro-batch, a micro-batch, a border, or the step
Per = Literal["layer", "dense_layer", "moe_layer", "micro_batch", "border", "step"]
# what a call hides under
Hiding = Literal[
    "nothing",  # all is exposed
    # of the last micro-batch; exposed: the last bucket, and what exceeds that backward
    "last backward",
    # of the first micro-batch; exposed: the first bucket, and what exceeds that forward
    "first forward",
    # before or after, one prefetched; exposed: the first gather, the last scatter, max(0, t -
    # compute)
    "neighbour layer",
    "weight gradient",  # the GEMM of the weight's gradient; exposed: max(0, t - that GEMM)
    # the GEMM that it feeds, in pieces; exposed: of an all-gather about 0, of a reduce-scatter a
    # quarter
    "split gemm",
    # attention of the block before; exposed: max(0, t - block) a step of the ring
    "attention block",
    "steady pipeline",  # other micro-batches of steady 1F1B; exposed: warm-up and drain
    "other batch",  # compute of the other batch; exposed: max(0, t - that compute)
    "shared expert",  # the GEMMs of the shared expert; exposed: max(0, t - those GEMMs)
]


class Call(NamedTuple):
    """A collective on one rank of a stage.

    ``bytes`` by nccl-tests' convention: of an all-reduce the vector, of an all-gather and a
    reduce-scatter the total, of an all-to-all the send buffer with the rank's own part, of a
    point-to-point its message.
    """

    dimension: str
    primitive: Primitive
    group: RankGroup  # of a point-to-point the whole pipeline or ring, whose neighbours exchange
    bytes: float
    per: Per
    phase: Phase
    source: str
    each: float = 1  # calls every ``per``
    hides: Hiding = "nothing"
    skew: float = 1.0  # the busiest rank's load of an all-to-all over the mean
    closed: bool = False  # the last one's next is the first
    calls: float = 0.0  # in a step


Calls = Iterator[Call]


def _phases(config: ParallelConfig, operation: str, *, core: bool = False) -> tuple[Phase, ...]:
    """The phases in which an operation runs; ``core``: it also runs again where only attention's
    core is recomputed."""
    if config.recomputation.operation(operation) or (core and config.recomputation.core):
        return "forward", "again", "backward"
    return "forward", "backward"


def layer_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Yield the calls of every micro-batch: attention's in all layers, others by kind of layer,
    and those of the vocabulary."""
    shape = config.shape
    layout = config.layout
    if shape is None:
        return
    cut = cut_of(config)
    operations: list[tuple[Per, Operation]] = []
    for operation in layer_operations(shape, cut):
        operations.append(("layer" if operation.name == "attention" else "dense_layer", operation))
    if shape.moe is not None:
        for operation in layer_operations(shape, cut, experts=True):
            if operation.name != "attention":
                operations.append(("moe_layer", operation))
    if layout.tp > 1:
        for per, operation in operations:
            if operation.ends_region:
                for call in _tensor_calls(config, shape, per, operation.name):
                    yield call._replace(each=operation.share * call.each)
        yield from _vocabulary_calls(config, shape, stage)
    if layout.cp > 1:
        yield from _context_calls(config, shape)
    for _, operation in operations:
        if operation.sent_elements:
            yield from _expert_calls(config, operation.sent_elements)


def _tokens_bytes(config: ParallelConfig, shape: Shape) -> float:
    """T h w: bytes of a micro-batch's tokens on a rank."""
    return config.tokens * shape.hidden * config.precision.activation_bytes


def _tensor_calls(config: ParallelConfig, shape: Shape, per: Per, operation: str) -> Calls:
    """Yield the calls of a tensor parallel region, of T h w each.

    Without sequence parallelism an all-reduce each way. With it an all-gather and a reduce-scatter
    each way, and another all-gather backward, which hides under the weight's gradient. In bulk the
    sum of an input's gradient hides under the weight's gradient too (Megatron-Core,
    tensor_parallel/layers.py).
    """
    sp = config.layout.sp
    mode = config.overlap.tp
    call = partial(
        Call,
        "tp",
        group=config.layout.group("tp"),
        bytes=_tokens_bytes(config, shape),
        per=per,
        source=KORTHIKANTI if sp else SHOEYBI,
    )
    gather_hides: Hiding = "split gemm" if mode == "split" else "nothing"
    for phase in _phases(config, operation):
        sum_hides = gather_hides
        if mode == "bulk" and phase == "backward":
            sum_hides = "weight gradient"
        if not sp:
            yield call(AR, phase=phase, hides=sum_hides)
        else:
            yield call(AG, phase=phase, hides=gather_hides)
            yield call(RS, phase=phase, hides=sum_hides)
    if sp:
        yield call(AG, phase="backward", hides="weight gradient")


def _vocabulary_calls(config: ParallelConfig, shape: Shape, stage: PipelineStage) -> Calls:
    """Yield the embedding's sum on the first stage; on the last the head's gradient and three
    all-reduces for the loss.

    With sequence parallelism a sum is a reduce-scatter, with an all-gather where the tokens come
    together again.
    """
    sp = config.layout.sp
    size = _tokens_bytes(config, shape)
    call = partial(
        Call,
        "vocab",
        group=config.layout.group("tp"),
        per="micro_batch",
        source=KORTHIKANTI if sp else SHOEYBI,
    )
    primitive = RS if sp else AR
    if stage.embedding:
        yield call(primitive, bytes=size, phase="forward")
        if sp:
            yield call(AG, bytes=size, phase="backward")
    if stage.head:
        if sp:
            yield call(AG, bytes=size, phase="forward")
        # the largest logit, the sum of exponentials, the target's logit: 4 bytes a token each
        yield call(AR, bytes=config.tokens * 4, phase="forward", source=SHOEYBI, each=3)
        yield call(primitive, bytes=size, phase="backward")


def _context_calls(config: ParallelConfig, shape: Shape) -> Calls:
    """Yield the calls of context parallelism, with which all queries see all keys and values.

    Ring: c-1 messages of a block's keys and values, twice that backward (they and their gradients).
    All-gather: keys and values are gathered, their gradients reduce-scattered backward. Ulysses:
    four all-to-alls each way, of q, k, v and the output.
    """
    layout = config.layout
    heads = heads_of(shape, config.layout.tp)
    token = config.tokens * config.precision.activation_bytes
    block = (heads.k + heads.v) * token
    call = partial(Call, "cp", group=layout.group("cp"), per="layer")
    hides: Hiding = "attention block" if config.overlap.cp else "nothing"
    for phase in _phases(config, "attention", core=True):
        backward = phase == "backward"
        match layout.cp_mode:
            case "ulysses":
                widths = Counter((heads.q, heads.k, heads.v, heads.out))
                for width, count in widths.items():
                    yield call(A2A, bytes=width * token, phase=phase, source=ULYSSES, each=count)
            case "ring":
                each = (2 if backward else 1) * (layout.cp - 1)
                yield call(
                    P2P,
                    bytes=block,
                    phase=phase,
                    source=RING,
                    each=each,
                    hides=hides,
                    closed=True,
                )
            case "all-gather":
                yield call(
                    RS if backward else AG, bytes=block * layout.cp, phase=phase, source=GATHER
                )
            case _:
                assert_never(layout.cp_mode)


# what the all-to-alls of experts hide under, by the value of ``overlap.ep``
HIDES_EXPERTS: dict[str, Hiding] = {
    "": "nothing",
    "batch": "other batch",
    "shared": "shared expert",
}


def _expert_calls(config: ParallelConfig, routed: float) -> Calls:
    """Yield dispatch and combine of T' k h w each way; T' = T/t with sequence parallelism.

    The ranks that share an expert gather its tokens after the dispatch, and sum before the combine.
    An all-gather brings all tokens to all ranks, and a reduce-scatter their sums back.
    ``routed``: elements of a rank's tokens, T' h.
    """
    layout = config.layout
    moe = config.known_moe
    dispatcher = dispatcher_of(layout)
    elements = routed * copies(layout, moe)
    dispatch = A2A
    combine = A2A
    skew = moe.imbalance
    if dispatcher is not None and dispatcher.copies == "all":
        dispatch = AG
        combine = RS
        skew = 1.0
    combined_bytes = config.precision.activation_bytes
    exchange = partial(
        Call,
        "ep",
        group=layout.group("ep", experts=True),
        per="moe_layer",
        source=(dispatcher or DISPATCHERS["deepep"]).source,
        hides=HIDES_EXPERTS[config.overlap.ep],
        skew=skew,
    )
    expert_group = partial(
        Call,
        "etp",
        group=layout.group("tp", experts=True),
        per="moe_layer",
        source=DISPATCHERS["alltoall"].source,
    )
    for phase in _phases(config, "experts"):
        # gradients travel in full
        dispatched_bytes = (
            combined_bytes if phase == "backward" else BYTES[config.precision.dispatch]
        )
        if layout.ep > 1:
            yield exchange(dispatch, bytes=elements * dispatched_bytes, phase=phase)
            yield exchange(combine, bytes=elements * combined_bytes, phase=phase)
        if layout.etp > 1 and layout.sp:
            gathered = elements * layout.etp
            yield expert_group(AG, bytes=gathered * dispatched_bytes, phase=phase)
            yield expert_group(RS, bytes=gathered * combined_bytes, phase=phase)


def buckets(size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Return (bytes, count) of the full buckets of so many bytes, and of the last one.

    >>> buckets(70e6, 25e6)
    ((25000000.0, 2), (20000000.0, 1))
    """
    full = int(size // bucket)
    parts = ((bucket, full), (size - full * bucket, 1))
    return tuple((each, count) for each, count in parts if count and each > LEAST_BYTES)


def tensor_buckets(tensors: int, size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Return (bytes, count) of the buckets of equal tensors.

    A bucket is sent before the next tensor would overflow it.

    >>> tensor_buckets(1000, 1e6, 25e6), tensor_buckets(1000, 1e6, 25 * 2**20)
    (((25000000.0, 40),), ((26000000.0, 38), (12000000.0, 1)))
    """
    per_bucket = max(1, int(bucket // size))
    full, rest = divmod(tensors, per_bucket)
    parts = ((per_bucket, full), (rest, 1))
    return tuple(
        (tensors_in_bucket * size, count)
        for tensors_in_bucket, count in parts
        if tensors_in_bucket and count
    )


def gradient_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Yield the calls of gradients and weights, by sharding.

    DDP all-reduces gradients in buckets, ZeRO-1 and 2 reduce-scatter them and all-gather weights,
    FSDP does so by layer.
    """
    if config.model is None:
        return
    if config.shard.shards_weights:
        yield from _fully_sharded_calls(config, stage)
        return
    shard = config.shard
    sharding = config.shard.strategy
    grads = config.shard.grad_bytes
    for name, group, parameters in _by_replicas(config, trained_parameters(config, stage)):
        bucket = shard.bucket
        if bucket is None:
            bucket = DDP_BUCKET
            if sharding.optimizer:
                bucket = max(MEGATRON_BUCKET, 1e6 * group.ranks) * grads
        inner, outer = _split_replicas(config, group)
        for primitive, ranks, phase, width, share in _gradient_steps(config, inner, outer):
            hides: Hiding = "nothing"
            if config.overlap.dp:
                hides = "first forward" if phase == "forward" else "last backward"
            for size, count in buckets(parameters * width, bucket * width / grads):
                yield Call(
                    name,
                    primitive,
                    ranks,
                    size / share,
                    "step",
                    phase,
                    source=sharding.source,
                    each=count,
                    hides=hides,
                )


def _gradient_steps(
    config: ParallelConfig, inner: RankGroup, outer: RankGroup
) -> Iterator[tuple[Primitive, RankGroup, Phase, float, int]]:
    """Yield the collectives that sum gradients and return weights.

    Each with its ranks, its phase, the bytes of a parameter, and the parts of a bucket of which it
    sends one. Where part of the replicas share states (``inner``), the sums of their shards go
    across the others (``outer``).
    """
    grads = config.shard.grad_bytes
    weights = config.precision.param_bytes
    if not config.shard.strategy.optimizer:
        yield AR, inner, "backward", grads, 1
        return
    if inner.ranks > 1:
        yield RS, inner, "backward", grads, 1
    if outer.ranks > 1:
        yield AR, outer, "backward", grads, inner.ranks
    if inner.ranks > 1:
        yield AG, inner, "forward", weights, 1


def _split_replicas(config: ParallelConfig, group: RankGroup) -> tuple[RankGroup, RankGroup]:
    """Split replicas in those that share states and those that copy them; none copy where all
    share."""
    return split_group(group, config.shard.group) if config.shard.group else (group, RankGroup(()))


def _by_replicas(
    config: ParallelConfig, parameters: RankParameters
) -> Iterator[tuple[str, RankGroup, float]]:
    """Yield dimension, ranks and number of dense parameters and of experts' ones.

    Dense gradients are summed over D c ranks, those of experts over the replicas of an expert.
    """
    dense = config.layout.group("cp", "dp")
    experts = config.layout.group("dp", experts=True)
    if dense.ranks > 1 and parameters.dense:
        yield "dp", dense, parameters.dense
    if experts.ranks > 1 and parameters.experts:
        yield "expert dp", experts, parameters.experts


def _fully_sharded_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Yield FSDP's calls: a layer is gathered for each pass and its gradient reduce-scattered;
    without resharding it is gathered once a step.

    HSDP then all-reduces the shards across replicas in the last backward pass, a call a layer as
    soon as its reduce-scatter is done (PyTorch's ``_post_backward_hook``).
    """
    for experts, layers in stage.layers_by_kind:
        gathered = layer_parameters_of(config, experts=experts)
        trained = trained_layer_parameters(config, experts=experts)
        yield from _unit_calls(
            config, "moe_layer" if experts else "dense_layer", layers, gathered, trained
        )
    ends = RankParameters(ends_parameters(config, stage))
    trained = RankParameters(0.0) if config.lora else ends
    yield from _unit_calls(config, "micro_batch", 1, ends, trained)


def _unit_calls(
    config: ParallelConfig, per: Per, layers: int, gathered: RankParameters, trained: RankParameters
) -> Calls:
    """Yield the gathers of one layer's parameters, or of the ends', and the scatters of those that
    are trained."""
    shard = config.shard
    source = config.shard.strategy.source
    passes: tuple[Phase, ...] = ("forward", "backward")
    if shard.gathers == 1:
        passes = ("forward",)
    hides: Hiding = "nothing"
    summed_hides: Hiding = "nothing"
    if config.overlap.dp:
        hides = "neighbour layer"
        summed_hides = "last backward"
    frequency = per
    each = 1
    # without resharding the layers are gathered one after the other, once a step
    if not shard.reshard:
        frequency = "step"
        each = layers
    summed = {name: shard.grad_bytes * size for name, _, size in _by_replicas(config, trained)}
    for name, group, parameters in _by_replicas(config, gathered):
        inner, outer = _split_replicas(config, group)
        gradients = summed.get(name, 0.0)
        if inner.ranks > 1:
            call = partial(
                Call, name, group=inner, per=frequency, source=source, each=each, hides=hides
            )
            for phase in passes:
                yield call(AG, bytes=parameters * config.precision.param_bytes, phase=phase)
            yield call(RS, bytes=gradients, phase="backward")
        if outer.ranks > 1:
            yield Call(
                name,
                AR,
                outer,
                gradients / inner.ranks,
                "step",
                "backward",
                source=source,
                each=layers,
                hides=summed_hides,
            )


def pipeline_calls(config: ParallelConfig, _: PipelineStage) -> Calls:
    """Yield the messages over a border each way: b s h w / c, with sequence parallelism a t-th of
    it; the slowest pair sets the time."""
    shape = config.shape
    layout = config.layout
    if layout.pp == 1 or shape is None:
        return
    call = partial(
        Call,
        "pp",
        P2P,
        layout.group("pp"),
        cut_of(config).tokens_outside * shape.hidden * config.precision.activation_bytes,
        "border",
        source=NARAYANAN,
        hides="steady pipeline" if config.overlap.pp else "nothing",
        closed=layout.virtual > 1 and not config.folded,  # the last stage to the next chunk
    )
    yield call(phase="forward")
    yield call(phase="backward")


def update_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Yield the calls of an update: a tied embedding's gradient, Muon's gather, and the norm.

    The first is an all-reduce of V h / t between the first and the last stage.
    """
    shape = config.shape
    layout = config.layout
    call = partial(Call, per="step", phase="update")
    # a stage in the middle, or one with both ends, sends none
    if layout.pp > 1 and shape is not None and shape.tied and stage.embedding != stage.head:
        ends = RankGroup(((2, (layout.pp - 1) * layout.group("pp").stride),))
        size = shape.vocab * shape.hidden / layout.tp * config.shard.grad_bytes
        yield call("embedding", AR, ends, size, source=TIED)
    if config.optimizer_row.orthogonal and config.shard.strategy.optimizer and shape is not None:
        for name, group, parameters in _by_replicas(config, trained_parameters(config, stage)):
            inner, _ = _split_replicas(config, group)
            yield call(name, AG, inner, 2.0 * parameters, source=MOONLIGHT)
    if layout.ranks > 1 and config.model is not None:
        yield call("norm", AR, RankGroup(((layout.ranks, 1),)), 4.0, source=NORM)


Rows = tuple[Callable[[ParallelConfig, PipelineStage], Calls], ...]

OFTEN: Rows = (layer_calls,)  # every micro-batch
BORDERS: Rows = (pipeline_calls,)  # every micro-batch and chunk
GRADIENTS: Rows = (gradient_calls,)  # every micro-batch or once a step, by sharding
ONCE: Rows = (update_calls,)  # once a step
ROWS = OFTEN + BORDERS + GRADIENTS + ONCE


def stage_calls(
    config: ParallelConfig, stage: PipelineStage, rows: Rows = ROWS
) -> tuple[Call, ...]:
    """Return the collectives of one rank of a stage with their calls in a step; equal ones are
    merged, empty ones dropped."""
    m = config.micro_batches
    times_per_step: dict[Per, int] = {
        "layer": stage.layers * m,
        "dense_layer": stage.dense_layers * m,
        "moe_layer": stage.moe_layers * m,
        "micro_batch": m,
        "border": config.chunks * m,
        "step": 1,
    }
    recomputed_share = config.recomputation.share(stage.layers)
    found: dict[tuple[object, ...], Call] = {}
    for call in chain.from_iterable(row(config, stage) for row in rows):
        share = recomputed_share if call.phase == "again" else 1.0
        calls = call.each * times_per_step[call.per] * share
        if not calls or call.bytes <= LEAST_BYTES:
            continue
        key = (
            call.dimension,
            call.primitive,
            call.group,
            call.bytes,
            call.per,
            call.phase,
            call.hides,
        )
        before = found.get(key)
        each = call.each
        if before is not None:
            each += before.each
            calls += before.calls
        found[key] = call._replace(each=each, calls=calls)
    return tuple(found.values())
