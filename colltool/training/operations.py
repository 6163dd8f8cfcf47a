"""A layer as a list of operations, from which its FLOPs, time, activations and collectives all
follow; and a stage's compute.

T tokens of a rank in a micro-batch, h hidden, a heads, g kv heads, d head dim, f width, n_m
matrices, t tensor parallelism; a multiply and an add are two operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from colltool.training.files import BYTES
from colltool.training.model import (
    BLOCK,
    EIGHT_BITS,
    TILE,
    Gemm,
    Roofline,
    Shape,
    TransformerModel,
    core_s,
    gemm_s,
    moved_s,
)
from colltool.training.parallel_config import ParallelConfig, PipelineStage, pipeline_stages
from colltool.training.strategies import Recomputation

# of a token and expert: sorted in, sorted out, weighted and summed, each read and written
PERMUTE_MOVES = 6
# kept of a score without flash: softmax and dropout in 16 bits, the mask in 8 (arXiv:2205.05198)
SCORE_BYTES = 5.0
# of flash attention's forward operations (arXiv:2205.14135: scores are computed again)
FLASH_BACKWARD = 2.5
LOGIT_MOVES = 12  # bytes of a logit that the loss moves each way: fp32 read, shifted, summed
ELEMENTWISE_OF = {
    "attention": 0.2,
    "mlp": 0.4,
    "moe": 0.4,
    "moe_act": 0.3,
    "shared_experts": 0.2,
    "layernorm": 0.3,
}
# of the elementwise moves of a layer, a module's: activation functions stand in regions, norms and
# residuals outside reads and writes of a score forward, without flash: scale, mask, softmax,
# dropout and its mask
SCORE_MOVES = 5


class LayerCut(NamedTuple):
    tokens: float
    sequence: int
    tp: int = 1
    sp: bool = False
    ep: int = 1
    etp: int = 1
    width: float = 2.0  # bytes of an activation
    kept: float = 2.0  # of one that only GEMMs read again

    @property
    def outside(self) -> float:
        """Tokens of a rank outside tensor parallel regions: T / t with sequence parallelism."""
        return self.tokens / self.tp if self.sp else self.tokens


def cut_of(config: ParallelConfig) -> LayerCut:
    layout, width = config.layout, config.precision.activation_bytes
    own = config.stack is not None and config.stack.quantized_inputs
    kept = min(width, BYTES[config.precision.compute]) if own else width
    return LayerCut(
        config.tokens,
        config.sequence,
        layout.tp,
        layout.sp,
        layout.ep,
        layout.etp,
        width=width,
        kept=kept,
    )


class Heads(NamedTuple):
    """Elements per token on a rank; ``latent`` ones are on every rank."""

    q: float
    k: float
    v: float
    out: float
    latent: int = 0


def heads_of(shape: Shape, tp: int) -> Heads:
    """With tp above the kv heads, ranks hold copies of them. Latent attention: arXiv:2405.04434."""
    a = shape.heads / tp
    if (mla := shape.mla) is not None:
        qk, value = a * (mla.nope + mla.rope), a * mla.value
        return Heads(qk, qk, value, value, mla.q_rank + mla.kv_rank + mla.rope)
    kv = max(shape.kv_heads / tp, 1.0) * shape.head_dim
    return Heads(a * shape.head_dim, kv, kv, a * shape.head_dim)


class Operation(NamedTuple):
    """One step of a layer and micro-batch on a rank."""

    name: Literal["norms", "attention", "router", "ffn", "shared expert", "experts"]
    gemms: tuple[Gemm, ...] = ()  # through weights
    core: float = 0.0  # FLOPs of attention scores and their sum over values
    causal: float = 0.0  # the same under a causal mask, less in windows
    scores: float = 0.0  # how many
    keys: float = 1.0  # that a query meets
    moved: float = 0.0  # elements moved by elementwise kernels, besides those of norms
    stored: float = 0.0  # bytes kept for the backward pass, without scores
    region: bool = False  # of tensor parallelism: summed where it ends
    routed: float = 0.0  # elements for the experts' ranks

    @property
    def flops(self) -> float:
        """Forward, with the causal half of attention."""
        return sum(gemm.flops for gemm in self.gemms) + self.causal


@lru_cache(maxsize=4096)
def layer_operations(
    shape: Shape, cut: LayerCut, *, experts: bool = False
) -> tuple[Operation, ...]:
    """Terms of Korthikanti 2022 (arXiv:2205.05198), from the shape.

    In 16 bits attention keeps 11 s b h and its scores 5 a s^2 b, the FFN 19 s b h, the two norms 4
    s b h.
    """
    # inputs of norms and of regions, masks of dropout: 10 s b h of a GPT
    norms = Operation(
        "norms",
        stored=cut.outside
        * shape.hidden
        * (2 * (cut.width + cut.kept) + (2 if shape.dropout else 0)),
    )
    attention, moe = _attention(shape, cut), shape.moe if experts else None
    if moe is None:
        return norms, attention, _ffn(shape, cut, "ffn", shape.ffn)
    local, width = max(1, moe.experts // cut.ep), moe.ffn / cut.etp
    # the busiest rank's tokens
    busiest = cut.tokens / cut.tp * moe.top_k * cut.etp * moe.imbalance / local
    routed = Operation(
        "experts",
        (
            Gemm(busiest, (shape.matrices - 1) * width, shape.hidden, local, grouped=True),
            Gemm(busiest, shape.hidden, width, local, grouped=True),
        ),
        moved=PERMUTE_MOVES * cut.outside * moe.top_k * shape.hidden,
        stored=cut.outside
        * moe.top_k
        * moe.imbalance
        * (
            shape.hidden * (cut.width + cut.kept)
            + moe.ffn * ((shape.matrices - 1) * cut.width + cut.kept)
        ),
        # with sequence parallelism their tokens are apart already
        region=not cut.sp and not moe.shared_ffn,
        routed=cut.outside * shape.hidden,
    )
    router = Operation("router", (Gemm(cut.outside, moe.experts, shape.hidden),))
    shared = (_ffn(shape, cut, "shared expert", moe.shared_ffn),) if moe.shared_ffn else ()
    return norms, attention, router, *shared, routed


def _attention(shape: Shape, cut: LayerCut) -> Operation:
    """qkv 2Th(a+2g)d/t, output 2Tadh/t, latent attention through its bottlenecks; scores and sum
    over values 4Tsad/t."""
    tokens, h, at = cut.tokens, shape.hidden, heads_of(shape, cut.tp)
    gemms: tuple[Gemm, ...] = (Gemm(tokens, at.q + at.k + at.v, h), Gemm(tokens, h, at.out))
    if (mla := shape.mla) is not None:
        up = shape.heads / cut.tp * (mla.nope + mla.value)
        queries, keys = Gemm(tokens, at.q, mla.q_rank or h), Gemm(tokens, up, mla.kv_rank)
        gemms = (Gemm(tokens, at.latent, h), queries, keys, Gemm(tokens, h, at.out))
    each = 2.0 * tokens * (at.q + at.out)
    # what the output projection keeps beside attention's own copy
    again = cut.kept if cut.kept < cut.width else 0.0
    return Operation(
        "attention",
        gemms,
        core=each * cut.sequence,
        causal=each * shape.keys(cut.sequence),
        scores=tokens * cut.sequence * shape.heads / cut.tp,
        keys=cut.sequence,
        stored=tokens * (cut.width * (at.latent + at.q + at.k + at.v + at.out) + again * at.out),
        region=True,
    )


def _ffn(shape: Shape, cut: LayerCut, name: Literal["ffn", "shared expert"], of: int) -> Operation:
    """2T n_m h f / t; it keeps the input and output of the activation, and the gate."""
    width = of / cut.tp
    gemms = (
        Gemm(cut.tokens, (shape.matrices - 1) * width, shape.hidden),
        Gemm(cut.tokens, shape.hidden, width),
    )
    stored = cut.tokens * width * ((shape.matrices - 1) * cut.width + cut.kept)
    return Operation(name, gemms, stored=stored, region=True)


def head_flops(shape: Shape, tokens: float) -> float:
    return 2.0 * tokens * shape.hidden * shape.vocab


def even(shape: Shape) -> Shape:
    """With experts loaded evenly."""
    return shape._replace(moe=shape.moe._replace(imbalance=1.0)) if shape.moe else shape


def forward_flops(
    model: TransformerModel, tokens: float, sequence: int, *, halved: bool = True
) -> float:
    """Forward FLOPs of the whole model, with experts loaded evenly."""
    shape = model.shape
    assert shape is not None
    total = head_flops(shape, tokens)
    for layers, experts in ((model.dense_layers, False), (model.moe_layers, True)):
        read = (
            layer_operations(even(shape), LayerCut(tokens, sequence), experts=experts)
            if layers
            else ()
        )
        total += layers * sum(
            one.flops + (0.0 if halved else one.core - one.causal) for one in read
        )
    return total


def model_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """FLOPs that a step needs over all ranks: forward and twice that backward, nothing recomputed;
    once where weights are frozen.

    Korthikanti 2022 (arXiv:2205.05198, eq 7) counts all of attention: 72 B s L h^2 (1 + s/6h +
    V/12Lh), ``halved=False``.
    """
    assert config.model is not None
    return (2.0 if config.lora else 3.0) * forward_flops(
        config.model, float(config.global_batch * config.sequence), config.sequence, halved=halved
    )


def ideal_step_s(config: ParallelConfig) -> float:
    """Seconds at an MFU of 1: the model's FLOPs at the dense peak of all devices in the precision
    of their GEMMs."""
    assert config.device is not None
    return model_flops(config) / (
        config.device.peak_flops(config.precision.compute) * config.layout.ranks
    )


def hardware_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """With recomputation: of layers (Narayanan 2021, arXiv:2104.04473, 96 B s L h^2 ...), of
    attention's core, or of modules.

    The head is never recomputed: 96 B s L h^2 (1 + s/6h + V/16Lh) has 3 of its forward passes.
    """
    model, shape = config.model, config.shape
    assert model is not None
    assert shape is not None
    tokens, again = float(config.global_batch * config.sequence), 0.0
    if config.again.layers:
        stages = pipeline_stages(config)
        share = (
            sum(stage.layers * config.again.share(stage.layers) for stage in stages) / model.layers
        )
        again = share * (
            forward_flops(model, tokens, config.sequence, halved=halved) - head_flops(shape, tokens)
        )
        return model_flops(config, halved=halved) + again
    for layers, experts in ((model.dense_layers, False), (model.moe_layers, True)):
        read = (
            layer_operations(even(shape), LayerCut(tokens, config.sequence), experts=experts)
            if layers
            else ()
        )
        for one in read:
            core = (one.causal if halved else one.core) if config.again.core else 0.0
            again += layers * (
                core
                + (
                    sum(gemm.flops for gemm in one.gemms)
                    if config.again.operation(one.name)
                    else 0.0
                )
            )
    return model_flops(config, halved=halved) + again


# "again" is the forward pass that recomputation repeats
Phase = Literal["forward", "backward", "again", "update"]


class Times(NamedTuple):
    """Seconds of one micro-batch."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    again_s: float = 0.0  # recomputation
    weight_s: float = 0.0  # weight gradients: the part of backward that no other stage waits for

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s + self.again_s

    def of(self, phase: Phase) -> float:
        return {"forward": self.forward_s, "backward": self.backward_s, "again": self.again_s}[
            phase
        ]

    def plus(self, other: Times) -> Times:
        return Times(*(mine + its for mine, its in zip(self, other, strict=True)))

    def times(self, factor: float) -> Times:
        return Times(*(factor * mine for mine in self))


class LayerTimes(NamedTuple):
    """One layer and micro-batch."""

    gemms: Times  # through weights, except of experts
    core: Times  # attention scores and their sum over values
    elementwise: Times
    experts: Times = Times()

    @property
    def all(self) -> Times:
        return self.gemms.plus(self.core).plus(self.elementwise).plus(self.experts)

    def times(self, factor: float) -> LayerTimes:
        return LayerTimes(*(part.times(factor) for part in self))

    def again(self, share: float) -> LayerTimes:
        """The mean layer, where a share of the layers is computed again."""
        return (
            self
            if share == 1
            else LayerTimes(*(part._replace(again_s=share * part.again_s) for part in self))
        )


class StageTimes(NamedTuple):
    """One stage and micro-batch; times given for a whole step have no layers."""

    stage: PipelineStage
    dense: LayerTimes | None  # of one layer; None where the stage has none
    moe: LayerTimes | None
    ends: Times  # embedding and head
    all: Times


def stage_times(config: ParallelConfig, stage: PipelineStage) -> StageTimes:
    dense = moe = None
    share = config.again.share(stage.layers)
    if (given := config.compute) is not None:
        once = Times(given.forward_s, given.backward_s, weight_s=given.backward_s / 2)
        if given.per_layer:
            again = Times(again_s=share * given.forward_s) if config.again.layers else Times()
            dense = LayerTimes(once.plus(again), Times(), Times())
            moe = dense if stage.moe_layers else None
        ends, total = (
            Times(),
            dense.all.times(stage.layers) if dense else once.times(1 / config.micro_batches),
        )
    else:
        dense = layer_times(config, experts=False).again(share) if stage.dense_layers else None
        moe = layer_times(config, experts=True).again(share) if stage.moe_layers else None
        ends = total = _ends(config, stage)
        for one, layers in ((dense, stage.dense_layers), (moe, stage.moe_layers)):
            total = total.plus(one.all.times(layers)) if one else total
    if (slower := config.slower) == 1:
        return StageTimes(stage, dense, moe, ends, total)
    dense, moe = dense and dense.times(slower), moe and moe.times(slower)
    return StageTimes(stage, dense, moe, ends.times(slower), total.times(slower))


def layer_times(config: ParallelConfig, *, experts: bool) -> LayerTimes:
    assert config.shape is not None
    return _layer(
        config.shape, cut_of(config), _roofline_of(config), config.again, experts, config.lora
    )


def _roofline_of(config: ParallelConfig) -> Roofline:
    assert config.device is not None
    assert config.stack is not None
    return Roofline(config.device, config.stack, config.precision.compute)


@lru_cache(maxsize=4096)
def _layer(
    shape: Shape,
    cut: LayerCut,
    roofline: Roofline,
    again: Recomputation,
    experts: bool,
    lora: int = 0,
) -> LayerTimes:
    read, stack = layer_operations(shape, cut, experts=experts), roofline.stack
    gemms = _through(
        [gemm for one in read if one.name != "experts" for gemm in one.gemms], roofline
    )
    if lora:
        gemms = _frozen(gemms).plus(_through(adapters(shape, cut, read, lora), roofline))
    core = next(_core(one, cut.width, roofline) for one in read if one.scores)
    # kappa T h w, of which tensor parallelism splits what stands in its regions, and sequence
    # parallelism the rest
    tokens = stack.inside * cut.tokens / cut.tp + (1 - stack.inside) * cut.outside
    moved = moved_s(stack.elementwise * tokens * shape.hidden * cut.width, roofline)
    parts = [gemms, core, Times(moved, stack.backward_elementwise * moved), Times()]
    for one in (one for one in read if one.name == "experts"):
        permuted = moved_s(one.moved * cut.width, roofline)
        waited = Times(
            permuted + stack.routing_s, stack.backward_elementwise * permuted + 2 * stack.routing_s
        )
        through = _through(one.gemms, roofline)
        parts[3] = (_frozen(through) if lora else through).plus(waited)
    return LayerTimes(*_with_again(parts, read, roofline, again))


def _with_again(
    parts: list[Times], read: Sequence[Operation], roofline: Roofline, again: Recomputation
) -> list[Times]:
    """GEMMs, core, elementwise and experts with what the backward pass computes again."""
    if again.layers:
        return [part._replace(again_s=part.forward_s) for part in parts]
    gemms, core, moved, experts = parts
    named = [
        gemm
        for one in read
        if one.name != "experts" and again.operation(one.name)
        for gemm in one.gemms
    ]
    if "mla_up_proj" in again.modules and not again.operation("attention"):
        named += next(one.gemms for one in read if one.scores)[1:3]
    share = sum(ELEMENTWISE_OF.get(module, 0.0) for module in again.modules)
    return [
        gemms._replace(again_s=sum(gemm_s(gemm, roofline) for gemm in named)),
        core._replace(again_s=core.forward_s if again.core else 0.0),
        moved._replace(again_s=min(1.0, share) * moved.forward_s),
        experts._replace(again_s=experts.forward_s if again.operation("experts") else 0.0),
    ]


def _through(gemms: Sequence[Gemm], roofline: Roofline) -> Times:
    forward = sum(gemm_s(one, roofline) for one in gemms)
    inputs, weights = (
        sum(gemm_s(one.backward[side], roofline) for one in gemms) for side in (0, 1)
    )
    return Times(forward, inputs + weights, weight_s=weights)


def _frozen(times: Times) -> Times:
    """Without weight gradients."""
    return times._replace(backward_s=times.backward_s - times.weight_s, weight_s=0.0)


def adapters(shape: Shape, cut: LayerCut, read: Sequence[Operation], rank: int) -> list[Gemm]:
    """LoRA's two GEMMs, down to the rank and up again, beside each matrix but those of routers and
    routed experts."""
    at, found = heads_of(shape, cut.tp), list[Gemm]()
    for one in (one for one in read if one.gemms and one.name not in ("router", "experts")):
        first, *others = one.gemms
        if one.name != "attention":
            split = [first.n / (shape.matrices - 1)] * (shape.matrices - 1)
        else:
            split = [at.q, at.k, at.v] if shape.mla is None else [first.n]
        for gemm in (*(first._replace(n=n) for n in split), *others):
            found += [Gemm(gemm.m, rank, gemm.k), Gemm(gemm.m, gemm.n, rank)]
    return found


def _core(attention: Operation, width: float, roofline: Roofline) -> Times:
    """Fused, only the causal half; else all scores, written out and passed over by elementwise
    kernels."""
    if roofline.stack.flash:
        blocks = attention.scores / attention.keys / BLOCK
        return Times(
            *(core_s(times * attention.causal, blocks, roofline) for times in (1.0, FLASH_BACKWARD))
        )
    blocks = attention.scores / TILE  # GEMMs over all keys
    forward, scores = (
        core_s(attention.core, blocks, roofline),
        moved_s(SCORE_MOVES * attention.scores * width, roofline),
    )
    return Times(forward + scores, 2 * forward + roofline.stack.backward_elementwise * scores)


def _ends(config: ParallelConfig, stage: PipelineStage) -> Times:
    """The head and its loss; the embedding is a copy, covered by the fixed part of a step."""
    if not stage.head or (shape := config.shape) is None:
        return Times()
    roofline = _roofline_of(config)
    if roofline.precision in EIGHT_BITS:
        roofline = roofline._replace(precision="bf16")  # the head stays in 16 bits
    head = _through([Gemm(config.tokens, shape.vocab / config.layout.tp, shape.hidden)], roofline)
    head = _frozen(head) if config.lora else head
    loss = moved_s(LOGIT_MOVES * config.tokens * shape.vocab / config.layout.tp, roofline)
    return head.plus(Times(loss, loss))
