"""A layer as a list of operations, and the compute that follows from them.

:func:`layer_operations` makes the list. FLOPs (:func:`model_flops`), times of a layer and of a
stage (:func:`stage_times`), activations (in :mod:`memory`) and collectives (in :mod:`calls`) all
follow from it.

Letters: T tokens of a rank in a micro-batch, h hidden, a heads, g kv heads, d head dim, f width, n_m
matrices of an FFN, t tensor parallelism. A multiply and an add are two operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, assert_never

from colltool.training.files import BYTES
from colltool.training.mixers import Mixer, MixerSizes, Sizes, Weights, value_of
from colltool.training.model import Moe, Shape, TransformerModel
from colltool.training.parallel_config import GivenTimes, ParallelConfig
from colltool.training.pipeline_stages import (
    PipelineStage,
    RankParameters,
    ends_parameters,
    layer_parameters_of,
    pipeline_stages,
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
    power_limited,
)
from colltool.training.strategies import Recomputation

# bytes kept of a score without flash: softmax and dropout in 16 bits, the mask in 8 (arXiv:2205.05198)
SCORE_BYTES = 5.0
# times flash attention's forward operations (arXiv:2205.14135: scores are computed again)
FLASH_BACKWARD = 2.5
# share of a layer's elementwise moves that recomputing a module repeats: activation functions are in
# tensor parallel regions, norms and residuals outside
ELEMENTWISE_OF = {
    "attention": 0.2,
    "mlp": 0.4,
    "moe": 0.4,
    "moe_act": 0.3,
    "shared_experts": 0.2,
    "layernorm": 0.3,
}
# the operation without which a layer does not have a module; all layers have the others
MODULE_IS_IN = {
    "mlp": "ffn",
    "moe": "experts",
    "moe_act": "experts",
    "shared_experts": "shared expert",
}
# reads and writes of a score forward, without flash: scale, mask, softmax, dropout and its mask
SCORE_MOVES = 5


class LayerCut(NamedTuple):
    """How a layer is split over ranks, with its tokens and the width of activations."""

    tokens: float  # T, before tensor parallelism splits them
    sequence: int
    tp: int = 1
    sp: bool = False
    ep: int = 1
    etp: int = 1
    width: float = 2.0  # bytes of an activation
    kept: float = 2.0  # bytes of an activation that only GEMMs read again
    copies: bool = False  # whether each elementwise kernel keeps inputs of its own

    @property
    def outside(self) -> float:
        """Tokens of a rank outside tensor parallel regions: T / t with sequence parallelism."""
        return self.tokens / self.tp if self.sp else self.tokens


def cut_of(config: ParallelConfig) -> LayerCut:
    """Return what a layer's operations depend on of a configuration."""
    layout = config.layout
    width = kept = config.precision.activation_bytes
    if config.stack is not None and config.stack.quantized_inputs:
        kept = min(width, BYTES[config.precision.compute])
    return LayerCut(
        config.tokens,
        config.sequence,
        layout.tp,
        layout.sp,
        layout.ep,
        layout.etp,
        width=width,
        kept=kept,
        copies=config.stack is not None and config.stack.eager_copies,
    )


class Heads(NamedTuple):
    """Elements of queries, keys, values and outputs per token on a rank."""

    q: float
    k: float
    v: float
    out: float


def heads_of(shape: Shape, tp: int) -> Heads:
    """Return the elements of attention's heads on a rank; with tp above the kv heads, ranks hold
    copies."""
    return _heads_on(shape.attention.on(tp))


def _heads_on(rank: MixerSizes) -> Heads:
    kind = rank.kind
    return Heads(*(rank.value(terms) for terms in (kind.q, kind.k, kind.v, kind.out)))


class Operation(NamedTuple):
    """A part of a layer, for one micro-batch on a rank."""

    name: Literal["norms", "attention", "router", "ffn", "shared expert", "experts"]
    gemms: tuple[Gemm, ...] = ()  # through weights
    core: float = 0.0  # FLOPs of attention scores and their sum over values
    causal: float = 0.0  # the same under a causal mask, less in windows
    scores: float = 0.0  # number of attention scores
    keys: float = 1.0  # keys that a query is multiplied with
    permuted: float = 0.0  # elements of tokens, once for each of their experts
    stored: float = 0.0  # bytes kept for the backward pass, without scores
    region: bool = False  # whether it ends a tensor parallel region, with a sum over ranks
    routed: float = 0.0  # elements of tokens sent to the experts' ranks
    share: float = 1.0  # how many a layer has, in the mean over layers
    widths: tuple[float, ...] = ()  # of the matrices that the first GEMM is
    up: tuple[Gemm, ...] = ()  # GEMMs out of the bottlenecks of latent attention
    up_stored: float = 0.0  # bytes kept of what they make

    @property
    def activated(self) -> float:
        """Elements that the activation function of an FFN makes; half without a gate, which halves
        what it reads."""
        if self.name not in ("ffn", "shared expert", "experts"):
            return 0.0
        first = self.gemms[0]
        return first.m * first.n * first.copies / 2

    @property
    def flops(self) -> float:
        """Forward, with the causal half of attention."""
        return self.share * (sum(gemm.flops for gemm in self.gemms) + self.causal)


@lru_cache(maxsize=4096)
def layer_operations(
    shape: Shape, cut: LayerCut, *, experts: bool = False
) -> tuple[Operation, ...]:
    """Return the operations of a dense layer, or of one with experts.

    Sizes are the terms of Korthikanti 2022 (arXiv:2205.05198), worked out from the shape.
    In 16 bits attention keeps 11 s b h and its scores 5 a s^2 b, the FFN 19 s b h, the two norms 4
    s b h.
    """
    # inputs of norms and of regions, masks of dropout: 10 s b h of a GPT
    kept_bytes = 2 * (cut.width + cut.kept) + (2 if shape.dropout else 0)
    norms = Operation("norms", stored=cut.outside * shape.hidden * kept_bytes)
    mixers = tuple(_mixed(mixer, cut) for mixer in shape.parts)
    moe = shape.moe if experts else None
    if moe is None:
        ffn = _ffn(shape, cut, "ffn", shape.ffn)._replace(share=shape.fed)
        return norms, *mixers, ffn
    router = Operation("router", (Gemm(cut.outside, moe.experts, shape.hidden),))
    if moe.latent:
        ways = (
            Gemm(cut.outside, moe.latent, shape.hidden),
            Gemm(cut.outside, shape.hidden, moe.latent),
        )
        router = router._replace(gemms=router.gemms + ways)
    routed = _routed(shape, moe, cut)
    if not moe.shared_ffn:
        return norms, *mixers, router, routed
    return norms, *mixers, router, _ffn(shape, cut, "shared expert", moe.shared_ffn), routed


def _routed(shape: Shape, moe: Moe, cut: LayerCut) -> Operation:
    """Return the operation of a rank's experts, with the tokens of the busiest rank."""
    local = max(1, moe.experts // cut.ep)
    width = moe.ffn / cut.etp
    inputs = shape.matrices - 1
    busiest = cut.tokens / cut.tp * moe.top_k * cut.etp * moe.imbalance / local
    token = moe.latent or shape.hidden
    kept = token * (cut.width + cut.kept) + moe.ffn * (inputs * cut.width + cut.kept)
    if cut.copies:
        # tokens in the order of their experts, and the gate behind its activation function
        kept += cut.width * (token + (inputs - 1) * moe.ffn)
    return Operation(
        "experts",
        (
            Gemm(busiest, inputs * width, token, local, grouped=True),
            Gemm(busiest, token, width, local, grouped=True),
        ),
        permuted=cut.outside * moe.top_k * token,
        stored=cut.outside * moe.top_k * moe.imbalance * kept,
        # with sequence parallelism their tokens are apart already
        region=not cut.sp and not moe.shared_ffn,
        routed=cut.outside * token,
    )


def _mixed(mixer: Mixer, cut: LayerCut) -> Operation:
    """Return attention, or what stands in its place: FLOPs of qkv 2Th(a+2g)d/t, of the output
    2Tadh/t, of scores and their sum over values 4Tsad/t; latent attention goes through its
    bottlenecks."""
    rank = mixer.on(cut.tp)
    tokens = cut.tokens
    gemms = []
    for matrix in mixer.description.replicated:
        gemms.append(_gemm_of(matrix, tokens, rank.undivided))
    for matrix in mixer.description.split:
        gemms.append(_gemm_of(matrix, tokens, rank.sizes))
    operation = Operation("attention", tuple(gemms), region=True, share=mixer.share)
    if not mixer.description.attends:
        return _recurrent(operation, rank, cut)
    heads = _heads_on(rank)
    flops_per_key = 2.0 * tokens * (heads.q + heads.out)
    # an indexer meets every key before it, in a window or not
    indexed = tokens * rank.value(mixer.description.indexed) * cut.sequence
    # bytes of an element that the output projection keeps besides attention's own copy
    quantized_copy = cut.kept if cut.kept < cut.width else 0.0
    kept_bytes = cut.width * (rank.latent + heads.q + heads.k + heads.v + heads.out)
    if cut.copies:
        # keys and values once for each query head, and the output in the order of its projection
        kept_bytes += cut.width * (heads.q - heads.k + 2 * heads.out - heads.v)
    if mixer.description.replicated:
        operation = operation._replace(
            up=operation.gemms[len(mixer.description.replicated) : -1],
            up_stored=tokens * cut.width * (heads.q + heads.k + heads.v),
        )
    else:
        operation = operation._replace(widths=tuple(mixer.description.split[0].widths(rank.sizes)))
    return operation._replace(
        core=flops_per_key * cut.sequence + indexed,
        causal=flops_per_key * mixer.keys(cut.sequence) + 0.5 * indexed,
        scores=tokens * cut.sequence * rank.sizes["heads"],
        keys=cut.sequence,
        stored=tokens * (kept_bytes + quantized_copy * heads.out),
    )


def _gemm_of(matrix: Weights, tokens: float, sizes: Sizes) -> Gemm:
    return Gemm(tokens, matrix.width(sizes), value_of(matrix.inputs, sizes))


def _recurrent(operation: Operation, rank: MixerSizes, cut: LayerCut) -> Operation:
    """Return an operation without scores: its work is the same for every token, and it keeps what
    its matrices make."""
    work = cut.tokens * rank.value(rank.kind.work)
    made = sum(gemm.n for gemm in operation.gemms[:-1])
    return operation._replace(
        core=work,
        causal=work,
        # its state is cut as attention's heads are
        scores=cut.tokens * rank.sizes["heads"],
        stored=cut.tokens * cut.width * made,
    )


def _ffn(
    shape: Shape, cut: LayerCut, name: Literal["ffn", "shared expert"], whole: int
) -> Operation:
    """Return an FFN of 2T n_m h f / t FLOPs, which keeps the gate and the input and output of the
    activation function."""
    width = whole / cut.tp
    inputs = shape.matrices - 1
    gemms = (
        Gemm(cut.tokens, inputs * width, shape.hidden),
        Gemm(cut.tokens, shape.hidden, width),
    )
    stored = cut.tokens * width * (inputs * cut.width + cut.kept)
    if cut.copies:
        # the gate behind its activation function
        stored += cut.tokens * width * (inputs - 1) * cut.width
    return Operation(name, gemms, stored=stored, region=True, widths=(width,) * inputs)


def head_flops(shape: Shape, tokens: float) -> float:
    """Forward FLOPs of the head."""
    return 2.0 * tokens * shape.hidden * shape.vocab


def evenly_loaded(shape: Shape) -> Shape:
    """A shape with experts loaded evenly."""
    return shape._replace(moe=shape.moe._replace(imbalance=1.0)) if shape.moe else shape


def _operations_by_kind(
    model: TransformerModel, tokens: float, sequence: int
) -> Iterator[tuple[int, tuple[Operation, ...]]]:
    """Yield the number of layers of each kind, with the operations of a layer on a single rank
    whose experts are loaded evenly."""
    assert model.shape is not None
    shape, cut = evenly_loaded(model.shape), LayerCut(tokens, sequence)
    for layers, experts in ((model.dense_layers, False), (model.moe_layers, True)):
        if layers:
            yield layers, layer_operations(shape, cut, experts=experts)


def forward_flops(
    model: TransformerModel, tokens: float, sequence: int, *, halved: bool = True
) -> float:
    """Forward FLOPs of the whole model, with experts loaded evenly."""
    assert model.shape is not None
    total = head_flops(model.shape, tokens)
    for layers, operations in _operations_by_kind(model, tokens, sequence):
        flops = 0.0
        for operation in operations:
            masked = 0.0 if halved else operation.core - operation.causal
            flops += operation.flops + operation.share * masked
        total += layers * flops
    return total


def model_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """FLOPs that a step needs over all ranks: forward and twice that backward, nothing recomputed;
    backward as many as forward where weights are frozen.

    Korthikanti 2022 (arXiv:2205.05198, eq 7) counts all of attention: 72 B s L h^2 (1 + s/6h +
    V/12Lh), ``halved=False``.
    """
    assert config.model is not None
    tokens = float(config.global_batch * config.sequence)
    forward = forward_flops(config.model, tokens, config.sequence, halved=halved)
    return (2.0 if config.lora else 3.0) * forward


def ideal_step_s(config: ParallelConfig) -> float:
    """Seconds at an MFU of 1: the model's FLOPs at the dense peak of all devices in the precision
    of their GEMMs."""
    assert config.device is not None
    peak = config.device.peak_flops(config.precision.compute) * config.layout.ranks
    return model_flops(config) / peak


def hardware_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """FLOPs of a step with recomputation: of layers (Narayanan 2021, arXiv:2104.04473, 96 B s L h^2
    ...), of attention's core, or of modules.

    The head is never recomputed: 96 B s L h^2 (1 + s/6h + V/16Lh) has 3 of its forward passes.
    """
    model, shape, recompute = config.model, config.shape, config.recomputation
    assert model is not None
    assert shape is not None
    tokens = float(config.global_batch * config.sequence)
    needed = model_flops(config, halved=halved)
    if recompute.layers:
        stages = pipeline_stages(config)
        share = sum(stage.layers * recompute.share(stage.layers) for stage in stages) / model.layers
        forward = forward_flops(model, tokens, config.sequence, halved=halved)
        return needed + share * (forward - head_flops(shape, tokens))
    again = 0.0
    for layers, operations in _operations_by_kind(model, tokens, config.sequence):
        for operation in operations:
            flops = 0.0
            if recompute.core:
                flops += operation.causal if halved else operation.core
            if recompute.operation(operation.name):
                flops += sum(gemm.flops for gemm in operation.gemms)
            elif "mla_up_proj" in recompute.modules:
                flops += sum(gemm.flops for gemm in operation.up)
            again += layers * operation.share * flops
    return needed + again


# "again" is the forward pass that recomputation repeats
Phase = Literal["forward", "backward", "again", "update"]


class Times(NamedTuple):
    """Seconds of compute of one micro-batch, by phase."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    again_s: float = 0.0  # recomputation
    weight_s: float = 0.0  # weight gradients: the part of backward that no other stage waits for

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s + self.again_s

    def of(self, phase: Phase) -> float:
        """Seconds of a phase."""
        match phase:
            case "forward":
                return self.forward_s
            case "backward":
                return self.backward_s
            case "again":
                return self.again_s
            case "update":
                raise ValueError("an update is not part of a micro-batch")
            case _:
                assert_never(phase)

    def plus(self, other: Times) -> Times:
        """Return the sum with other times."""
        return Times(
            self.forward_s + other.forward_s,
            self.backward_s + other.backward_s,
            self.again_s + other.again_s,
            self.weight_s + other.weight_s,
        )

    def times(self, factor: float) -> Times:
        return Times(*(factor * seconds for seconds in self))


class LayerTimes(NamedTuple):
    """Compute of one layer for one micro-batch, by kind of kernel."""

    gemms: Times  # through weights, except of experts
    core: Times  # attention scores and their sum over values
    elementwise: Times
    experts: Times = Times()

    @property
    def all(self) -> Times:
        return self.gemms.plus(self.core).plus(self.elementwise).plus(self.experts)

    @property
    def gemms_s(self) -> float:
        """Seconds of GEMMs, those of experts too."""
        return self.gemms.total_s + self.experts.total_s

    def times(self, factor: float) -> LayerTimes:
        return LayerTimes(*(part.times(factor) for part in self))

    def again(self, share: float) -> LayerTimes:
        """The mean layer, where a share of the layers is computed again."""
        if share == 1:
            return self
        return LayerTimes(*(part._replace(again_s=share * part.again_s) for part in self))


class StageTimes(NamedTuple):
    """Compute of one stage for one micro-batch; times given for a whole step have no layers."""

    stage: PipelineStage
    dense: LayerTimes | None  # of one layer; None where the stage has none
    moe: LayerTimes | None
    ends: Times  # embedding and head
    all: Times
    host: Times = Times()  # of all: the device waits for the host to launch kernels


def stage_times(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    """A stage's compute in a micro-batch: given times, else those of its layers and ends."""
    given = config.compute
    if given is None:
        times = _stage_from_layers(config, stage)
    else:
        times = _stage_from_given_times(config, stage, given)
    slower = config.slower
    if slower == 1:
        return times
    return StageTimes(
        stage,
        times.dense and times.dense.times(slower),
        times.moe and times.moe.times(slower),
        times.ends.times(slower),
        times.all.times(slower),
        times.host.times(slower),
    )


def _stage_from_layers(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    """Return a stage with the modelled times of its layers and ends."""
    share = config.recomputation.share(stage.layers)
    ends = total = _end_times(config, stage)
    dense = moe = None
    if stage.dense_layers:
        dense = layer_times(config, experts=False).again(share)
        total = total.plus(dense.all.times(stage.dense_layers))
    if stage.moe_layers:
        moe = layer_times(config, experts=True).again(share)
        total = total.plus(moe.all.times(stage.moe_layers))
    host = _host_waits(config, stage, total)
    return StageTimes(stage, dense, moe, ends, total.plus(host), host)


def _stage_from_given_times(
    config: ParallelConfig, stage: PipelineStage, given: GivenTimes
) -> StageTimes:
    """Return a stage with the times that the job gives: of a layer, the same with and without
    experts, or of a whole step, without layers."""
    given_once = Times(given.forward_s, given.backward_s, weight_s=given.backward_s / 2)
    if not given.per_layer:
        return StageTimes(stage, None, None, Times(), given_once.times(1 / config.micro_batches))
    if config.recomputation.layers:
        share = config.recomputation.share(stage.layers)
        given_once = given_once.plus(Times(again_s=share * given.forward_s))
    layer = LayerTimes(given_once, Times(), Times())
    moe = layer if stage.moe_layers else None
    return StageTimes(stage, layer, moe, Times(), layer.all.times(stage.layers))


def layer_times(config: ParallelConfig, *, experts: bool) -> LayerTimes:
    """A layer's compute in a micro-batch."""
    assert config.shape is not None
    roofline = _roofline_of(config)
    times = _layer_times(
        config.shape, cut_of(config), roofline, config.recomputation, experts, config.lora
    )
    casts = _casts(config, layer_parameters_of(config, experts=experts), roofline)
    if casts.total_s:
        times = times._replace(elementwise=times.elementwise.plus(casts))
    return times


# of the host's time for a layer, forward; measured on one H100 SXM, torch 2.11, 2026-11
HOST_FORWARD = 0.45


def _host_waits(config: ParallelConfig, stage: PipelineStage, kernels: Times) -> Times:
    """Seconds of a micro-batch in which a device waits for its host to launch kernels.

    The host runs ahead of the device, so only what a whole pass takes longer on the host counts.
    """
    if config.stack is None:
        return Times()
    host_s = config.stack.host_s * stage.dense_layers + config.stack.host_moe_s * stage.moe_layers
    if config.recomputation.layers:
        host_s *= 1 + HOST_FORWARD * config.recomputation.share(stage.layers)
    waits_s = max(0.0, host_s - kernels.total_s)
    return Times(HOST_FORWARD * waits_s, (1 - HOST_FORWARD) * waits_s)


def _casts(config: ParallelConfig, parameters: RankParameters, roofline: Roofline) -> Times:
    """Seconds of the casts of weights in 32 bits, and of gradients back, in a micro-batch.

    Half of the bytes are moved each way; recomputation casts again, and where gradients accumulate
    over micro-batches they are read and written once more.
    """
    moved = roofline.stack.cast_bytes
    if not moved or (not config.shard.shards_weights and config.precision.params != "fp32"):
        return Times()
    # FSDP casts the shard that a rank sends and gets
    own = parameters.total / (
        (config.shard.group or config.layout.dp) if config.shard.shards_weights else 1
    )
    way_s = moved_s(moved / 2 * own, roofline)
    accumulated_s = 2 * way_s if config.micro_batches > 1 else 0.0
    repeated_s = way_s if config.recomputation.layers else 0.0
    return Times(way_s, way_s + accumulated_s, repeated_s)


def _roofline_of(config: ParallelConfig) -> Roofline:
    assert config.device is not None
    assert config.stack is not None
    return Roofline(config.device, config.stack, config.precision.compute)


@lru_cache(maxsize=4096)
def _layer_times(
    shape: Shape,
    cut: LayerCut,
    roofline: Roofline,
    again: Recomputation,
    experts: bool,
    lora: int = 0,
) -> LayerTimes:
    """Model the times of a layer by the roofline of its operations."""
    layer, slower = _computed_once(shape, cut, roofline, experts, lora)
    operations = layer_operations(shape, cut, experts=experts)
    return _with_recomputation(layer, operations, roofline, again, slower)


@lru_cache(maxsize=4096)
def _computed_once(
    shape: Shape, cut: LayerCut, roofline: Roofline, experts: bool, lora: int
) -> tuple[LayerTimes, float]:
    """Return the times of a layer without recomputation, and how many times as long its GEMMs take
    as alone."""
    operations, stack = layer_operations(shape, cut, experts=experts), roofline.stack
    gemms = core = experts_times = Times()
    # kappa T h w, of which tensor parallelism splits what is in its regions, and sequence
    # parallelism the rest
    tokens = stack.inside * cut.tokens / cut.tp + (1 - stack.inside) * cut.outside
    elements = stack.elementwise * tokens * shape.hidden
    for operation in operations:
        elements += stack.elementwise_ffn * operation.share * operation.activated
        if operation.name == "experts":
            experts_times = _gemm_times(operation.gemms, roofline)
            continue
        gemms = gemms.plus(_gemm_times(operation.gemms, roofline).times(operation.share))
        if operation.core:
            times = _core_times(operation, cut.width, roofline)
            core = core.plus(times.times(operation.share))
    if lora:
        adapter_times = _gemm_times(adapters(operations, lora), roofline)
        gemms = _without_weight_gradients(gemms).plus(adapter_times)
        experts_times = _without_weight_gradients(experts_times)
    moved = moved_s(elements * cut.width, roofline)
    elementwise = Times(moved, stack.backward_elementwise * moved)
    routing = routing_times(operations, cut.width, roofline)
    others_s = core.total_s + elementwise.total_s + routing.total_s
    slower = power_limited(gemms.total_s + experts_times.total_s, others_s, roofline)
    if slower != 1:
        gemms, experts_times = gemms.times(slower), experts_times.times(slower)
    return LayerTimes(gemms, core, elementwise, experts_times.plus(routing)), slower


def routing_times(operations: Sequence[Operation], width: float, roofline: Roofline) -> Times:
    """Times of sorting tokens by expert and back, and of what routing takes beside its kernels."""
    stack, routing = roofline.stack, Times()
    for operation in operations:
        if operation.name == "experts":
            permuted_s = moved_s(stack.permute * operation.permuted * width, roofline)
            # each of the rank's experts has launches of its own
            local = operation.gemms[0].copies
            beside_s = stack.routing_s + stack.routing_expert_s * local
            backward_s = stack.backward_elementwise * permuted_s + 2 * beside_s
            routing = Times(permuted_s + beside_s, backward_s)
    return routing


def _with_recomputation(
    times: LayerTimes,
    operations: Sequence[Operation],
    roofline: Roofline,
    again: Recomputation,
    slower: float,
) -> LayerTimes:
    """Return a layer with the seconds of its recomputation, whose GEMMs take ``slower`` times as
    long as alone."""
    if again.layers:
        whole = LayerTimes(*(part._replace(again_s=part.forward_s) for part in times))
        if roofline.stack.last_gemm_again:
            return whole
        left_out_s = 0.0
        for operation in operations:
            for gemm in operation.gemms[len(_needed_again(operation, roofline)) :]:
                left_out_s += slower * gemm_s(gemm, roofline)
        return whole._replace(gemms=whole.gemms._replace(again_s=whole.gemms.again_s - left_out_s))
    repeated_s = 0.0
    for operation in operations:
        repeated: tuple[Gemm, ...] = ()
        if again.operation(operation.name):
            repeated = _needed_again(operation, roofline) if operation.name != "experts" else ()
        elif "mla_up_proj" in again.modules:
            repeated = operation.up
        alone_s = sum(gemm_s(gemm, roofline) for gemm in repeated)
        repeated_s += slower * operation.share * alone_s
    share = 0.0
    names = [operation.name for operation in operations]
    for module in again.modules:
        if MODULE_IS_IN.get(module, "norms") in names:
            share += ELEMENTWISE_OF.get(module, 0.0)
    gemms, core, elementwise, experts = times
    if again.core:
        core = core._replace(again_s=core.forward_s)
    if again.operation("experts"):
        experts = experts._replace(again_s=experts.forward_s)
    return LayerTimes(
        gemms._replace(again_s=repeated_s),
        core,
        elementwise._replace(again_s=min(1.0, share) * elementwise.forward_s),
        experts,
    )


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
    forward = inputs = weights = 0.0
    moved = roofline.stack.quantize if roofline.precision in EIGHT_BITS else 0.0
    for gemm in gemms:
        of_input, of_weight = gemm.backward
        forward += gemm_s(gemm, roofline)
        inputs += gemm_s(of_input, roofline)
        weights += gemm_s(of_weight, roofline)
        if moved:
            forward += moved_s(moved * gemm.copies * gemm.m * gemm.k, roofline)
            inputs += moved_s(moved * gemm.copies * gemm.m * gemm.n, roofline)
    return Times(forward, inputs + weights, weight_s=weights)


def _without_weight_gradients(times: Times) -> Times:
    """Times without weight gradients."""
    return times._replace(backward_s=times.backward_s - times.weight_s, weight_s=0.0)


def adapters(operations: Sequence[Operation], rank: int) -> list[Gemm]:
    """Return LoRA's GEMMs, down to the adapter's rank and up again, for each matrix but those of
    routers and routed experts."""
    found: list[Gemm] = []
    for operation in operations:
        if not operation.gemms or operation.name in ("router", "experts"):
            continue
        # the first GEMM is several matrices at once
        first, *others = operation.gemms
        widths = operation.widths or (first.n,)
        for gemm in (*(first._replace(n=width) for width in widths), *others):
            found += [Gemm(gemm.m, rank, gemm.k), Gemm(gemm.m, gemm.n, rank)]
    return found


def _core_times(attention: Operation, width: float, roofline: Roofline) -> Times:
    """Times of attention's scores and their sum over values, or of a recurrence.

    A fused kernel computes only the causal half; without one all scores are written out and read by
    elementwise kernels.
    """
    if roofline.stack.flash or attention.keys == 1:
        blocks = attention.scores / attention.keys / BLOCK
        forward_s = attention_core_s(attention.causal, blocks, roofline)
        backward = FLASH_BACKWARD * attention.causal
        return Times(forward_s, attention_core_s(backward, blocks, roofline, backward=True))
    blocks = attention.scores / TILE  # GEMMs over all keys
    forward_s = attention_core_s(attention.core, blocks, roofline)
    scores_s = moved_s(SCORE_MOVES * attention.scores * width, roofline)
    backward_s = 2 * forward_s + roofline.stack.backward_elementwise * scores_s
    return Times(forward_s + scores_s, backward_s)


def _end_times(config: ParallelConfig, stage: PipelineStage) -> Times:
    """Times of the head, the loss and casts; the embedding is a copy, covered by the fixed part of
    a step."""
    if config.shape is None:
        return Times()
    head, loss = head_times(config) if stage.head else (Times(), Times())
    assert config.stack is not None
    if not config.stack.cast_bytes:
        return head.plus(loss)
    parameters = RankParameters(ends_parameters(config, stage))
    casts = _casts(config, parameters, _roofline_of(config))._replace(again_s=0.0)
    return head.plus(loss).plus(casts)


def head_times(config: ParallelConfig) -> tuple[Times, Times]:
    """Times of the head's GEMMs and of the loss over its logits."""
    assert config.shape is not None
    roofline = _roofline_of(config)
    if roofline.precision in EIGHT_BITS:
        roofline = roofline._replace(precision="bf16")  # the head stays in 16 bits
    vocab = config.shape.vocab / config.layout.tp
    head = _gemm_times([Gemm(config.tokens, vocab, config.shape.hidden)], roofline)
    if config.lora:
        head = _without_weight_gradients(head)
    loss_s = moved_s(roofline.stack.loss_moves * config.tokens * vocab, roofline)
    head = head.times(power_limited(head.total_s, 2 * loss_s, roofline))
    return head, Times(loss_s, loss_s)
