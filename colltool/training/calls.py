"""The collectives that a rank of a pipeline stage sends in a step.

:func:`stage_calls` is the entry: it runs a generator each for the calls of layers, gradients and
weights, pipeline borders, and the update, and counts how often a step has each :class:`Call`.

Letters of sizes: T tokens of a rank in a micro-batch, h hidden size, V vocabulary, k experts a token
visits, w bytes of an activation; t, c, e, p, v, D, b and s as in :mod:`parallel_config`.
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
LEAST_BYTES = 0.5  # of a call; what has no more is left from rounding
LOSS_SUMS = 3  # a token: the largest logit, the sum of exponentials, the target's logit
BYTES_OF_SUM = 4  # each in fp32
# what ``Call.dimension`` may be, in the order of tables; a job that lists calls may have others
DIMENSIONS = ("tp", "vocab", "cp", "ep", "etp", "pp", "dp", "expert dp", "embedding", "norm")
# What sends a call: any layer, or one of a kind, in a micro-batch; a micro-batch; a border between
# two chunks of the model, in a micro-batch; or the step.
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

    dimension: str  # one of DIMENSIONS, such as "tp"
    primitive: Primitive
    group: RankGroup  # of a point-to-point the whole pipeline or ring, whose neighbours exchange
    bytes: float
    per: Per  # the unit that ``calls_per_unit`` counts in
    phase: Phase
    source: str  # paper or code that describes it
    calls_per_unit: float = 1  # a mean over layers where layers differ
    hides: Hiding = "nothing"
    skew: float = 1.0  # the busiest rank's load of an all-to-all over the mean
    closed: bool = False  # of a point-to-point: the last rank also sends to the first
    calls: float = 0.0  # in a step; 0 until :func:`stage_calls` counts them


Calls = Iterator[Call]


def _phases(config: ParallelConfig, operation: str, *, core: bool = False) -> tuple[Phase, ...]:
    """The phases in which an operation runs; ``core``: it also runs again where only attention's
    core is recomputed."""
    if config.recomputation.reruns(operation) or (core and config.recomputation.core):
        return "forward", "again", "backward"
    return "forward", "backward"


def layer_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Yield the calls of every micro-batch: attention's once for all layers (per "layer"), others by
    kind of layer, and those of the vocabulary. None of a model without a shape."""
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
                # an operation with a share runs in some layers only
                for call in _tensor_calls(config, shape, per, operation.name):
                    yield call._replace(calls_per_unit=operation.share * call.calls_per_unit)
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
    each way, and another all-gather backward, which hides under the weight's gradient. Where
    ``overlap.tp`` is bulk, the sum of an input's gradient hides under the weight's gradient too
    (Megatron-Core, tensor_parallel/layers.py).
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
    """Yield the sum of the embedding's output on the stage that has it; on that of the head the sum
    of its input's gradient, and three all-reduces for the loss.

    With sequence parallelism a sum is a reduce-scatter, and the other way an all-gather brings the
    tokens together again.
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
        yield call(
            AR,
            bytes=config.tokens * BYTES_OF_SUM,
            phase="forward",
            source=SHOEYBI,
            calls_per_unit=LOSS_SUMS,
        )
        yield call(primitive, bytes=size, phase="backward")


def _context_calls(config: ParallelConfig, shape: Shape) -> Calls:
    """Yield the calls of context parallelism, with which all queries see all keys and values.

    Ring: c-1 messages of a block's keys and values, twice that backward (they and their gradients).
    All-gather: keys and values are gathered, their gradients reduce-scattered backward. Ulysses:
    four all-to-alls each way, of q, k, v and the output.
    """
    layout = config.layout
    heads = heads_of(shape, config.layout.tp)
    element_bytes = config.tokens * config.precision.activation_bytes  # one element of each token
    block_bytes = (heads.k + heads.v) * element_bytes
    call = partial(Call, "cp", group=layout.group("cp"), per="layer")
    hides: Hiding = "attention block" if config.overlap.cp else "nothing"
    for phase in _phases(config, "attention", core=True):
        backward = phase == "backward"
        match layout.cp_mode:
            case "ulysses":
                # one call of each width, so that equal ones are counted
                widths = Counter((heads.q, heads.k, heads.v, heads.out))
                for width, count in widths.items():
                    yield call(
                        A2A,
                        bytes=width * element_bytes,
                        phase=phase,
                        source=ULYSSES,
                        calls_per_unit=count,
                    )
            case "ring":
                messages = layout.cp - 1
                if backward:
                    messages *= 2
                yield call(
                    P2P,
                    bytes=block_bytes,
                    phase=phase,
                    source=RING,
                    calls_per_unit=messages,
                    hides=hides,
                    closed=True,
                )
            case "all-gather":
                yield call(
                    RS if backward else AG,
                    bytes=block_bytes * layout.cp,
                    phase=phase,
                    source=GATHER,
                )
            case _:
                assert_never(layout.cp_mode)


# what the all-to-alls of experts hide under, by the value of ``overlap.ep``
HIDES_EXPERTS: dict[str, Hiding] = {
    "": "nothing",
    "batch": "other batch",
    "shared": "shared expert",
}


def _expert_calls(config: ParallelConfig, token_elements: float) -> Calls:
    """Yield dispatch and combine of experts in each pass, T' k h w each; T' is T, with sequence
    parallelism T/t.

    The ranks that share an expert gather its tokens after the dispatch, and sum before the combine.
    A dispatcher that copies all tokens to all ranks runs an all-gather and a reduce-scatter, others
    all-to-alls. One that deduplicates sends fewer than k copies. ``token_elements`` is T' h, before
    any is copied.
    """
    layout = config.layout
    moe = config.known_moe
    dispatcher = dispatcher_of(layout)
    elements = token_elements * copies(layout, moe)
    dispatch = A2A
    combine = A2A
    skew = moe.imbalance
    if dispatcher is not None and dispatcher.copies == "all":
        dispatch = AG
        combine = RS
        skew = 1.0  # every rank has all tokens, however they are routed
    combined_bytes = config.precision.activation_bytes
    exchange = partial(
        Call,
        "ep",
        group=layout.group("ep", experts=True),
        per="moe_layer",
        # without a name, tokens are deduplicated as DeepEP does
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
        dispatched_bytes = BYTES[config.precision.dispatch]
        if phase == "backward":
            dispatched_bytes = combined_bytes  # gradients travel in full
        if layout.ep > 1:
            yield exchange(dispatch, bytes=elements * dispatched_bytes, phase=phase)
            yield exchange(combine, bytes=elements * combined_bytes, phase=phase)
        if layout.etp > 1 and layout.sp:
            gathered = elements * layout.etp
            yield expert_group(AG, bytes=gathered * dispatched_bytes, phase=phase)
            yield expert_group(RS, bytes=gathered * combined_bytes, phase=phase)


def buckets(total_bytes: float, bucket_bytes: float) -> tuple[tuple[float, int], ...]:
    """Return (bytes, count) of the full buckets that a total makes, and of the smaller last one; those
    that there are none of are left out.

    >>> buckets(70e6, 25e6)
    ((25000000.0, 2), (20000000.0, 1))
    """
    full = int(total_bytes // bucket_bytes)
    parts = ((bucket_bytes, full), (total_bytes - full * bucket_bytes, 1))
    return tuple((part, count) for part, count in parts if count and part > LEAST_BYTES)


def tensor_buckets(
    tensors: int, tensor_bytes: float, bucket_bytes: float
) -> tuple[tuple[float, int], ...]:
    """Return (bytes, count) of the buckets of equal tensors, each with whole tensors.

    A bucket is sent before the next tensor would overflow it.

    >>> tensor_buckets(1000, 1e6, 25e6), tensor_buckets(1000, 1e6, 25 * 2**20)
    (((25000000.0, 40),), ((26000000.0, 38), (12000000.0, 1)))
    """
    per_bucket = max(1, int(bucket_bytes // tensor_bytes))
    full_buckets, left_over_tensors = divmod(tensors, per_bucket)
    parts = ((per_bucket, full_buckets), (left_over_tensors, 1))
    return tuple(
        (tensors_in_bucket * tensor_bytes, count)
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
    for name, group, parameters in _by_replicas(config, trained_parameters(config, stage)):
        bucket_bytes = shard.bucket
        if bucket_bytes is None:
            bucket_bytes = DDP_BUCKET
            if sharding.optimizer:
                bucket_bytes = max(MEGATRON_BUCKET, 1e6 * group.ranks) * shard.grad_bytes
        # ranks that share states, and those across which shards are copied
        inner, outer = _split_replicas(config, group)
        for step in _gradient_steps(config, inner, outer):
            hides: Hiding = "nothing"
            if config.overlap.dp:
                hides = "first forward" if step.phase == "forward" else "last backward"
            # A bucket is given in bytes of gradients. On the way back it has the same parameters, in
            # the bytes of weights.
            width = step.bytes_per_parameter
            for size, count in buckets(parameters * width, bucket_bytes * width / shard.grad_bytes):
                yield Call(
                    name,
                    step.primitive,
                    step.group,
                    size / step.shards,
                    "step",
                    step.phase,
                    source=sharding.source,
                    calls_per_unit=count,
                    hides=hides,
                )


class _GradientStep(NamedTuple):
    """A collective of each bucket of gradients or weights."""

    primitive: Primitive
    group: RankGroup  # on which it runs
    phase: Phase
    bytes_per_parameter: float  # of what is sent: gradients, or weights on their way back
    shards: int = 1  # equal parts of a bucket, of which a rank sends one


def _gradient_steps(
    config: ParallelConfig, inner: RankGroup, outer: RankGroup
) -> Iterator[_GradientStep]:
    """Yield the collectives that sum gradients and return weights, in the order in which they run.

    Where part of the replicas share states (``inner``), the sums of their shards go across the
    others (``outer``).
    """
    grads = config.shard.grad_bytes
    if not config.shard.strategy.optimizer:
        yield _GradientStep(AR, inner, "backward", grads)
        return
    if inner.ranks > 1:
        yield _GradientStep(RS, inner, "backward", grads)
    if outer.ranks > 1:
        yield _GradientStep(AR, outer, "backward", grads, shards=inner.ranks)
    if inner.ranks > 1:
        yield _GradientStep(AG, inner, "forward", config.precision.param_bytes)


def _split_replicas(config: ParallelConfig, group: RankGroup) -> tuple[RankGroup, RankGroup]:
    """Return the ranks that share states, and those across which shards are copied; where all share,
    the second group is empty and has one rank."""
    return split_group(group, config.shard.group) if config.shard.group else (group, RankGroup(()))


def _by_replicas(
    config: ParallelConfig, parameters: RankParameters
) -> Iterator[tuple[str, RankGroup, float]]:
    """Yield (dimension, group, parameters) of the dense parameters and of those of experts; neither
    where a single rank has them.

    Dense gradients are summed over D c ranks, those of experts over the replicas of an expert.
    """
    dense = config.layout.group("cp", "dp")
    experts = config.layout.group("dp", experts=True)
    if dense.ranks > 1 and parameters.dense:
        yield "dp", dense, parameters.dense
    if experts.ranks > 1 and parameters.experts:
        yield "expert dp", experts, parameters.experts


def _fully_sharded_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Yield FSDP's calls: a layer is gathered for one or both passes (``gathers``) and its gradient
    reduce-scattered; without resharding each once a step.

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
    """Yield the gathers of a unit of FSDP, and the scatters and sums of its gradients.

    A unit is one of ``layers`` equal layers, or the embedding and head together (``layers`` 1).
    ``gathered`` are its parameters, ``trained`` those with a gradient.
    """
    shard = config.shard
    source = shard.strategy.source
    passes: tuple[Phase, ...] = ("forward", "backward")
    if shard.gathers == 1:
        passes = ("forward",)
    hides: Hiding = "nothing"
    summed_hides: Hiding = "nothing"
    if config.overlap.dp:
        hides = "neighbour layer"
        summed_hides = "last backward"
    gathered_per = per
    calls_per_unit = 1
    # without resharding the layers are gathered one after the other, once a step
    if not shard.reshard:
        gathered_per = "step"
        calls_per_unit = layers
    gradient_bytes = {
        name: shard.grad_bytes * parameters for name, _, parameters in _by_replicas(config, trained)
    }
    for name, group, parameters in _by_replicas(config, gathered):
        inner, outer = _split_replicas(config, group)
        summed_bytes = gradient_bytes.get(name, 0.0)
        if inner.ranks > 1:
            call = partial(
                Call,
                name,
                group=inner,
                per=gathered_per,
                source=source,
                calls_per_unit=calls_per_unit,
                hides=hides,
            )
            for phase in passes:
                yield call(AG, bytes=parameters * config.precision.param_bytes, phase=phase)
            yield call(RS, bytes=summed_bytes, phase="backward")
        if outer.ranks > 1:
            yield Call(
                name,
                AR,
                outer,
                summed_bytes / inner.ranks,
                "step",
                "backward",
                source=source,
                calls_per_unit=layers,
                hides=summed_hides,
            )


def pipeline_calls(config: ParallelConfig, _: PipelineStage) -> Calls:
    """Yield the messages over a border each way: b s h w / c, with sequence parallelism a t-th of
    it. All borders of the pipeline are one call: the slowest pair sets its time."""
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

    The first is an all-reduce of V h / t between the first and the last stage. Muon's updates are
    gathered in 16 bits, and the norm is one number in fp32.
    """
    shape = config.shape
    layout = config.layout
    call = partial(Call, per="step", phase="update")
    # a stage in the middle, or one with both the embedding and the head, sends none
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


# Functions that yield calls of a stage, each counted in its unit (``Call.per``). A caller that needs
# some calls only names parts of ALL_CALLS.
Generators = tuple[Callable[[ParallelConfig, PipelineStage], Calls], ...]

MICRO_BATCH_CALLS: Generators = (layer_calls,)  # every micro-batch
BORDER_CALLS: Generators = (pipeline_calls,)  # every micro-batch and chunk
GRADIENT_CALLS: Generators = (gradient_calls,)  # every micro-batch or once a step, by sharding
UPDATE_CALLS: Generators = (update_calls,)  # once a step
ALL_CALLS = MICRO_BATCH_CALLS + BORDER_CALLS + GRADIENT_CALLS + UPDATE_CALLS


def stage_calls(
    config: ParallelConfig, stage: PipelineStage, generators: Generators = ALL_CALLS
) -> tuple[Call, ...]:
    """Return the collectives of one rank of a stage with their calls in a step, in the order of the
    generators.

    Calls that differ in their number alone are merged into one; those without bytes, or of layers
    that the stage does not have, are dropped. Of a layer that only a share of the layers recomputes
    the calls of "again" count as that share.
    """
    m = config.micro_batches
    units: dict[Per, int] = {  # in a step
        "layer": stage.layers * m,
        "dense_layer": stage.dense_layers * m,
        "moe_layer": stage.moe_layers * m,
        "micro_batch": m,
        "border": config.chunks * m,
        "step": 1,
    }
    recomputed_share = config.recomputation.share(stage.layers)
    merged: dict[Call, Call] = {}  # by a call without its number
    for call in chain.from_iterable(generate(config, stage) for generate in generators):
        share = recomputed_share if call.phase == "again" else 1.0
        calls = call.calls_per_unit * units[call.per] * share
        if not calls or call.bytes <= LEAST_BYTES:
            continue
        key = call._replace(calls_per_unit=0)
        same = merged.get(key)
        calls_per_unit = call.calls_per_unit
        if same is not None:
            calls_per_unit += same.calls_per_unit
            calls += same.calls
        merged[key] = call._replace(calls_per_unit=calls_per_unit, calls=calls)
    return tuple(merged.values())
