"""What a rank of a stage sends in a step: the calls of its layers, gradients and weights, pipeline
borders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple, assert_never

from colltool.base.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.training.files import BYTES
from colltool.training.model import Shape
from colltool.training.operations import Operation, Phase, cut_of, heads_of, layer_operations
from colltool.training.parallel_config import (
    ParallelConfig,
    PipelineStage,
    RankGroup,
    RankParameters,
    cut,
    ends_parameters,
    layer_parameters_of,
)
from colltool.training.updates import trained, trained_layer

SHOEYBI = "Shoeybi 2019, arXiv:1909.08053, section 3"
KORTHIKANTI = "Korthikanti 2022, arXiv:2205.05198, section 4.2"
RING = "Ring attention, Liu 2023, arXiv:2310.01889"
GATHER = "The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2"
ULYSSES = "DeepSpeed Ulysses, Jacobs 2023, arXiv:2309.14509"
GSHARD = "GShard, Lepikhin 2020, arXiv:2006.16668, section 3; Megatron-Core's token dispatcher"
DEEPEP = "DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.2.2"
MOONLIGHT = "Liu 2025, Muon is scalable, arXiv:2502.16982, section 2.3: whole matrices are gathered"
NORM = "Megatron-LM: clip_grad_norm sums the squares of all gradients"
NARAYANAN = "Narayanan 2021, arXiv:2104.04473, sections 2.2 and 3.2"
TIED = "Megatron-LM: the embedding's gradient is summed over the first and the last stage"

MEGATRON_BUCKET = 40e6  # parameters; Megatron-Core's DistributedDataParallel: max(40e6, 1e6 x dp)
DDP_BUCKET = 25e6  # bytes; PyTorch's DistributedDataParallel has bucket_cap_mb 25
LEAST_BYTES = 0.5  # a smaller part is what rounding left
# in reading order
DIMENSIONS = ("tp", "vocab", "cp", "ep", "etp", "pp", "dp", "expert dp", "embedding", "norm")
Per = Literal["layer", "dense_layer", "moe_layer", "micro_batch", "border", "step"]
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


def _passes(config: ParallelConfig, operation: str, *, core: bool = False) -> tuple[Phase, ...]:
    """The passes that run an operation; ``core``: also again where attention's core is
    recomputed."""
    if config.again.operation(operation) or (core and config.again.core):
        return "forward", "again", "backward"
    return "forward", "backward"


def layer_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """Attention's calls in all layers, the rest by kind of layer, and the vocabulary's; all of them
    every micro-batch."""
    shape, layout = config.shape, config.layout
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
            if operation.region:
                yield from _region(config, shape, per, operation.name)
        yield from _vocabulary(config, shape, stage)
    if layout.cp > 1:
        yield from _context(config, shape)
    for _, operation in operations:
        if operation.routed:
            yield from _experts(config, operation.routed)


def _tokens_bytes(config: ParallelConfig, shape: Shape) -> float:
    """T h w: bytes of a micro-batch's tokens on a rank."""
    return config.tokens * shape.hidden * config.precision.activation_bytes


def _region(config: ParallelConfig, shape: Shape, per: Per, operation: str) -> Calls:
    """T h w of a tensor parallel region: without sequence parallelism an all-reduce each way.

    With it an all-gather and a reduce-scatter each way, and another all-gather backward, under the
    weight's gradient. In bulk the sum of an input's gradient runs under the weight's gradient too
    (Megatron-Core, tensor_parallel/layers.py).
    """
    sp, how = config.layout.sp, config.overlap.tp
    call = partial(
        Call,
        "tp",
        group=config.layout.group("tp"),
        bytes=_tokens_bytes(config, shape),
        per=per,
        source=KORTHIKANTI if sp else SHOEYBI,
    )
    gathered: Hiding = "split gemm" if how == "split" else "nothing"
    for phase in _passes(config, operation):
        summed = gathered
        if how == "bulk" and phase == "backward":
            summed = "weight gradient"
        if not sp:
            yield call(AR, phase=phase, hides=summed)
        else:
            yield call(AG, phase=phase, hides=gathered)
            yield call(RS, phase=phase, hides=summed)
    if sp:
        yield call(AG, phase="backward", hides="weight gradient")


def _vocabulary(config: ParallelConfig, shape: Shape, stage: PipelineStage) -> Calls:
    """The embedding's sum on the first stage; on the last the head's gradient and three all-reduces
    for the loss.

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
    summed = RS if sp else AR
    if stage.embedding:
        yield call(summed, bytes=size, phase="forward")
        if sp:
            yield call(AG, bytes=size, phase="backward")
    if stage.head:
        if sp:
            yield call(AG, bytes=size, phase="forward")
        # the largest logit, the sum of exponentials, the target's logit: 4 bytes a token each
        yield call(AR, bytes=config.tokens * 4, phase="forward", source=SHOEYBI, each=3)
        yield call(summed, bytes=size, phase="backward")


def _context(config: ParallelConfig, shape: Shape) -> Calls:
    """Every rank's queries meet all keys and values.

    Ring: c-1 messages of a block's keys and values, twice that backward (they and their gradients).
    All-gather of both, and their gradients' reduce-scatter backward. Ulysses: four all-to-alls each
    way: q, k, v in, the output back.
    """
    layout, heads = config.layout, heads_of(shape, config.layout.tp)
    token = config.tokens * config.precision.activation_bytes
    block = (heads.k + heads.v) * token
    call = partial(Call, "cp", group=layout.group("cp"), per="layer")
    hides: Hiding = "attention block" if config.overlap.cp else "nothing"
    for phase in _passes(config, "attention", core=True):
        back = phase == "backward"
        match layout.cp_mode:
            case "ulysses":
                widths = Counter((heads.q, heads.k, heads.v, heads.out))
                for width, count in widths.items():
                    yield call(A2A, bytes=width * token, phase=phase, source=ULYSSES, each=count)
            case "ring":
                each = (2 if back else 1) * (layout.cp - 1)
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
                yield call(RS if back else AG, bytes=block * layout.cp, phase=phase, source=GATHER)
            case _:
                assert_never(layout.cp_mode)


def copies(ep: int, top_k: int, *, deduplicated: bool, reached: float = 1.0) -> float:
    """How often a token is in a rank's send buffer: k, or once for each rank that has any of its
    experts.

    Of them (e-1)/e leave the rank. Deduplicated e (1 - (1 - 1/e)^k), for experts chosen evenly;
    ``reached``: the share of the ranks that they may be on where routing is limited to groups.

    >>> copies(8, 2, deduplicated=False), copies(8, 2, deduplicated=True)
    (2.0, 1.875)
    """
    if not deduplicated:
        return float(top_k)
    on = max(1.0, reached * ep)
    return on * (1 - (1 - 1 / on) ** top_k)


def once_a_node(config: ParallelConfig, per_domain: tuple[int, ...]) -> float:
    """Share of a deduplicated all-to-all's bytes on the outer wires: a token crosses once a node,
    not a rank (DeepEP)."""
    moe, ranks = config.moe, config.layout.ep
    inner = max(1, per_domain[0]) if per_domain else 1
    if moe is None or inner in (1, ranks):
        return 1.0
    to_nodes = copies(ranks // inner, moe.top_k, deduplicated=True, reached=moe.reached)
    return to_nodes / copies(ranks, moe.top_k, deduplicated=True, reached=moe.reached)


HIDES_EXPERTS: dict[str, Hiding] = {
    "": "nothing",
    "batch": "other batch",
    "shared": "shared expert",
}


def _experts(config: ParallelConfig, routed: float) -> Calls:
    """Dispatch and combine of T' k h w, forward and backward; T' = T/t with sequence parallelism.

    Experts cut in width gather their ranks' tokens after the dispatch, and sum before the combine.
    """
    layout, moe = config.layout, config.moe
    assert moe is not None
    sent = routed * copies(
        layout.ep, moe.top_k, deduplicated=layout.deduplicate, reached=moe.reached
    )
    back = config.precision.activation_bytes
    between = partial(
        Call,
        "ep",
        A2A,
        layout.group("ep", experts=True),
        per="moe_layer",
        source=DEEPEP if layout.deduplicate else GSHARD,
        hides=HIDES_EXPERTS[config.overlap.ep],
        skew=moe.imbalance,
    )
    within = partial(
        Call, "etp", group=layout.group("tp", experts=True), per="moe_layer", source=GSHARD
    )
    for phase in _passes(config, "experts"):
        # gradients travel in full
        there = back if phase == "backward" else BYTES[config.precision.dispatch]
        if layout.ep > 1:
            yield between(bytes=sent * there, phase=phase)
            yield between(bytes=sent * back, phase=phase)
        if layout.etp > 1 and layout.sp:
            whole = sent * layout.etp
            yield within(AG, bytes=whole * there, phase=phase)
            yield within(RS, bytes=whole * back, phase=phase)


def buckets(size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Bytes in buckets: (bytes, count) of the full ones and of the rest.

    >>> buckets(70e6, 25e6)
    ((25000000.0, 2), (20000000.0, 1))
    """
    full = int(size // bucket)
    parts = ((bucket, full), (size - full * bucket, 1))
    return tuple((each, count) for each, count in parts if count and each > LEAST_BYTES)


def tensor_buckets(tensors: int, size: float, bucket: float) -> tuple[tuple[float, int], ...]:
    """Equal tensors in buckets; a bucket goes out before the next tensor would overflow it.

    >>> tensor_buckets(1000, 1e6, 25e6), tensor_buckets(1000, 1e6, 25 * 2**20)
    (((25000000.0, 40),), ((26000000.0, 38), (12000000.0, 1)))
    """
    together = max(1, int(bucket // size))
    full, rest = divmod(tensors, together)
    parts = ((together, full), (rest, 1))
    return tuple((held * size, count) for held, count in parts if held and count)


def gradient_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """DDP all-reduces gradients in buckets; ZeRO-1 and 2 reduce-scatter them and all-gather the
    weights."""
    if config.model is None:
        return
    if config.shard.layers:
        yield from _layered(config, stage)
        return
    shard, row, grads = config.shard, config.shard.row, config.shard.grad_bytes
    for name, group, parameters in _replicated(config, trained(config, stage)):
        bucket = shard.bucket
        if bucket is None:
            bucket = DDP_BUCKET
            if row.optimizer:
                bucket = max(MEGATRON_BUCKET, 1e6 * group.ranks) * grads
        inner, outer = _shared(config, group)
        for primitive, who, phase, width, share in _summed(config, inner, outer):
            hides: Hiding = "nothing"
            if config.overlap.dp:
                hides = "first forward" if phase == "forward" else "last backward"
            for size, count in buckets(parameters * width, bucket * width / grads):
                yield Call(
                    name,
                    primitive,
                    who,
                    size / share,
                    "step",
                    phase,
                    source=row.source,
                    each=count,
                    hides=hides,
                )


def _summed(
    config: ParallelConfig, inner: RankGroup, outer: RankGroup
) -> Iterator[tuple[Primitive, RankGroup, Phase, float, int]]:
    """How gradients are summed and weights come back: bytes a parameter, and the parts that each
    call has of them.

    Where states are shared by part of the replicas, the sums of their shards go across the others.
    """
    grads, weights = config.shard.grad_bytes, config.precision.param_bytes
    if not config.shard.row.optimizer:
        yield AR, inner, "backward", grads, 1
        return
    if inner.ranks > 1:
        yield RS, inner, "backward", grads, 1
    if outer.ranks > 1:
        yield AR, outer, "backward", grads, inner.ranks
    if inner.ranks > 1:
        yield AG, inner, "forward", weights, 1


def _shared(config: ParallelConfig, group: RankGroup) -> tuple[RankGroup, RankGroup]:
    """The replicas that share states, and those that copy them: none, where all share."""
    return cut(group, config.shard.group) if config.shard.group else (group, RankGroup(()))


def _replicated(
    config: ParallelConfig, held: RankParameters
) -> Iterator[tuple[str, RankGroup, float]]:
    """Dense gradients are summed over D c ranks, those of experts over the replicas of an
    expert."""
    dense, experts = config.layout.group("cp", "dp"), config.layout.group("dp", experts=True)
    if dense.ranks > 1 and held.dense:
        yield "dp", dense, held.dense
    if experts.ranks > 1 and held.experts:
        yield "expert dp", experts, held.experts


def _layered(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """FSDP gathers a layer for each pass and reduce-scatters its gradient; without resharding it
    gathers once a step.

    HSDP then all-reduces the shards across replicas in the last backward pass, a call a layer as
    soon as its reduce-scatter is done (PyTorch's ``_post_backward_hook``).
    """
    for experts, layers in stage.layers_by_kind:
        held = layer_parameters_of(config, experts=experts)
        own = trained_layer(config, experts=experts)
        yield from _unit(config, "moe_layer" if experts else "dense_layer", layers, held, own)
    ends = RankParameters(ends_parameters(config, stage))
    own = RankParameters(0.0) if config.lora else ends
    yield from _unit(config, "micro_batch", 1, ends, own)


def _unit(
    config: ParallelConfig, per: Per, layers: int, held: RankParameters, own: RankParameters
) -> Calls:
    """Gathers of what FSDP keeps of layers, or of the ends, and scatters of what is trained."""
    shard, source = config.shard, config.shard.row.source
    passes: tuple[Phase, ...] = ("forward", "backward")
    if shard.gathers == 1:
        passes = ("forward",)
    under: Hiding = "nothing"
    behind: Hiding = "nothing"
    if config.overlap.dp:
        under = "neighbour layer"
        behind = "last backward"
    often, each = per, 1
    # without resharding the layers are gathered one after the other, once a step
    if not shard.reshard:
        often, each = "step", layers
    summed = {name: shard.grad_bytes * size for name, _, size in _replicated(config, own)}
    for name, group, parameters in _replicated(config, held):
        inner, outer = _shared(config, group)
        gradients = summed.get(name, 0.0)
        if inner.ranks > 1:
            call = partial(
                Call, name, group=inner, per=often, source=source, each=each, hides=under
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
                hides=behind,
            )


def pipeline_calls(config: ParallelConfig, _: PipelineStage) -> Calls:
    """b s h w / c over each border each way, a t-th of it with sequence parallelism; the slowest
    pair sets the time."""
    shape, layout = config.shape, config.layout
    if layout.pp == 1 or shape is None:
        return
    call = partial(
        Call,
        "pp",
        P2P,
        layout.group("pp"),
        cut_of(config).outside * shape.hidden * config.precision.activation_bytes,
        "border",
        source=NARAYANAN,
        hides="steady pipeline" if config.overlap.pp else "nothing",
        closed=layout.virtual > 1 and not config.folded,  # the last stage to the next chunk
    )
    yield call(phase="forward")
    yield call(phase="backward")


def update_calls(config: ParallelConfig, stage: PipelineStage) -> Calls:
    """A tied embedding's gradient: an all-reduce of V h / t between the first and the last stage;
    Muon's gather; the norm."""
    shape, layout = config.shape, config.layout
    call = partial(Call, per="step", phase="update")
    # a stage in the middle, or one with both ends, sends none
    if layout.pp > 1 and shape is not None and shape.tied and stage.embedding != stage.head:
        ends = RankGroup(((2, (layout.pp - 1) * layout.group("pp").stride),))
        size = shape.vocab * shape.hidden / layout.tp * config.shard.grad_bytes
        yield call("embedding", AR, ends, size, source=TIED)
    if config.update.orthogonal and config.shard.row.optimizer and shape is not None:
        for name, group, parameters in _replicated(config, trained(config, stage)):
            inner, _ = _shared(config, group)
            yield call(name, AG, inner, 2.0 * parameters, source=MOONLIGHT)
    if layout.ranks > 1 and config.model is not None:
        yield call("norm", AR, RankGroup(((layout.ranks, 1),)), 4.0, source=NORM)


Rows = tuple[Callable[[ParallelConfig, PipelineStage], Calls], ...]

OFTEN: Rows = (layer_calls,)  # every micro-batch
BORDERS: Rows = (pipeline_calls,)
GRADIENTS: Rows = (gradient_calls,)  # every micro-batch or once a step, by sharding
ONCE: Rows = (update_calls,)
ROWS = OFTEN + BORDERS + GRADIENTS + ONCE


def stage_calls(
    config: ParallelConfig, stage: PipelineStage, rows: Rows = ROWS
) -> tuple[Call, ...]:
    """The collectives of one rank of a stage; equal calls are merged, empty ones dropped."""
    m = config.micro_batches
    every: dict[Per, int] = {
        "layer": stage.layers * m,
        "dense_layer": stage.dense_layers * m,
        "moe_layer": stage.moe_layers * m,
        "micro_batch": m,
        "border": config.chunks * m,
        "step": 1,
    }
    again = config.again.share(stage.layers)
    found: dict[tuple[object, ...], Call] = {}
    for call in chain.from_iterable(row(config, stage) for row in rows):
        share = again if call.phase == "again" else 1.0
        calls = call.each * every[call.per] * share
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
