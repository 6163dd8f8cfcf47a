"""A layer as a list of operations, from which its FLOPs, time, activations and collectives all follow.

T tokens of a rank in a micro-batch, h hidden, a heads, g kv heads, d head dim, f width, n_m matrices, t tensor parallelism; a
multiply and an add are two operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig
from colltool.training.roofline import Gemm

PERMUTE_MOVES = 6  # of a token and expert: sorted in, sorted out, weighted and summed, each read and written
SCORE_BYTES = 5.0  # kept of a score without flash: softmax and dropout in 16 bits, the mask in 8 (arXiv:2205.05198)


class LayerCut(NamedTuple):
    tokens: float
    sequence: int
    tp: int = 1
    sp: bool = False
    ep: int = 1
    etp: int = 1
    width: float = 2.0  # bytes of an activation

    @property
    def outside(self) -> float:
        """Tokens of a rank outside tensor parallel regions."""
        return self.tokens / self.tp if self.sp else self.tokens


class Heads(NamedTuple):
    """Elements per token on a rank; ``latent`` ones are on every rank."""

    q: float
    k: float
    v: float
    out: float
    latent: int = 0


class Operation(NamedTuple):
    """One step of a layer and micro-batch on a rank."""

    name: Literal["norms", "attention", "router", "ffn", "shared expert", "experts"]
    gemms: tuple[Gemm, ...] = ()  # through weights
    core: float = 0.0  # FLOPs of attention scores and their sum over values
    causal: float = 0.0  # the same under a causal mask, less in windows
    scores: float = 0.0  # how many
    moved: float = 0.0  # elements moved by elementwise kernels, besides those of norms
    stored: float = 0.0  # bytes kept for the backward pass, without scores
    region: bool = False  # of tensor parallelism: summed where it ends
    routed: float = 0.0  # elements for the experts' ranks

    @property
    def flops(self) -> float:
        """Forward, with the causal half of attention."""
        return sum(gemm.flops for gemm in self.gemms) + self.causal


def heads_of(shape: Shape, tp: int) -> Heads:
    """With tp above the kv heads, ranks hold copies of them. Latent attention: arXiv:2405.04434."""
    a = shape.heads / tp
    if shape.mla is not None:
        mla = shape.mla
        qk, value = a * (mla.nope + mla.rope), a * mla.value
        return Heads(qk, qk, value, value, mla.q_rank + mla.kv_rank + mla.rope)
    kv = max(shape.kv_heads / tp, 1.0) * shape.head_dim
    return Heads(a * shape.head_dim, kv, kv, a * shape.head_dim)


def cut_of(config: ParallelConfig) -> LayerCut:
    layout = config.layout
    return LayerCut(
        tokens=config.tokens,
        sequence=config.sequence,
        tp=layout.tp,
        sp=layout.sp,
        ep=layout.ep,
        etp=layout.etp,
        width=config.precision.activation_bytes,
    )


@lru_cache(maxsize=4096)
def layer_operations(shape: Shape, cut: LayerCut, *, experts: bool = False) -> tuple[Operation, ...]:
    """Terms of Korthikanti 2022 (arXiv:2205.05198), from the shape.

    In 16 bits attention keeps 11 s b h and its scores 5 a s^2 b, the FFN 19 s b h, the two norms 4 s b h.
    """
    return tuple(_operations(shape, cut, experts=experts))


def _operations(shape: Shape, cut: LayerCut, *, experts: bool) -> Iterator[Operation]:
    moe = shape.moe if experts else None
    # inputs of norms and of regions, masks of dropout: 10 s b h of a GPT
    yield Operation("norms", stored=cut.outside * shape.hidden * (4 * cut.width + (2 if shape.dropout else 0)))
    yield _attention(shape, cut)
    if moe is None:
        yield _ffn(shape, cut, "ffn", shape.ffn)
        return
    yield Operation("router", (Gemm(cut.outside, moe.experts, shape.hidden),))
    if moe.shared_ffn:
        yield _ffn(shape, cut, "shared expert", moe.shared_ffn)
    local, width = max(1, moe.experts // cut.ep), moe.ffn / cut.etp
    busiest = cut.tokens / cut.tp * moe.top_k * cut.etp * moe.imbalance / local  # the busiest rank's tokens
    yield Operation(
        "experts",
        (
            Gemm(busiest, (shape.matrices - 1) * width, shape.hidden, local, grouped=True),
            Gemm(busiest, shape.hidden, width, local, grouped=True),
        ),
        moved=PERMUTE_MOVES * cut.outside * moe.top_k * shape.hidden,
        stored=cut.outside * moe.top_k * moe.imbalance * cut.width * (2 * shape.hidden + float(shape.matrices * moe.ffn)),
        region=not cut.sp and not moe.shared_ffn,  # with sequence parallelism their tokens are apart already
        routed=cut.outside * shape.hidden,
    )


def _attention(shape: Shape, cut: LayerCut) -> Operation:
    """qkv 2Th(a+2g)d/t, output 2Tadh/t, latent attention through its bottlenecks; scores and sum over values 4Tsad/t."""
    tokens, h, mla = cut.tokens, shape.hidden, shape.mla
    at = heads_of(shape, cut.tp)
    gemms: tuple[Gemm, ...] = (Gemm(tokens, at.q + at.k + at.v, h), Gemm(tokens, h, at.out))
    if mla is not None:
        up = shape.heads / cut.tp * (mla.nope + mla.value)
        queries, keys = Gemm(tokens, at.q, mla.q_rank or h), Gemm(tokens, up, mla.kv_rank)
        gemms = (Gemm(tokens, at.latent, h), queries, keys, Gemm(tokens, h, at.out))
    each = 2.0 * tokens * (at.q + at.out)
    return Operation(
        "attention",
        gemms,
        core=each * cut.sequence,
        causal=each * shape.keys(cut.sequence),
        scores=tokens * cut.sequence * shape.heads / cut.tp,
        stored=tokens * cut.width * (at.latent + at.q + at.k + at.v + at.out),
        region=True,
    )


def _ffn(shape: Shape, cut: LayerCut, name: Literal["ffn", "shared expert"], of: int) -> Operation:
    """2T n_m h f / t; it keeps the input and output of the activation, and the gate."""
    width = of / cut.tp
    gemms = (Gemm(cut.tokens, (shape.matrices - 1) * width, shape.hidden), Gemm(cut.tokens, shape.hidden, width))
    return Operation(name, gemms, stored=cut.tokens * cut.width * float(shape.matrices * of) / cut.tp, region=True)


def head_flops(shape: Shape, tokens: float) -> float:
    return 2.0 * tokens * shape.hidden * shape.vocab


def forward_flops(model: TransformerModel, tokens: float, sequence: int, *, halved: bool = True) -> float:
    """Forward FLOPs of the whole model, with experts loaded evenly."""
    shape = model.shape
    assert shape is not None
    even = shape._replace(moe=shape.moe._replace(imbalance=1.0)) if shape.moe else shape
    total = head_flops(shape, tokens)
    for layers, experts in ((model.dense_layers, False), (model.moe_layers, True)):
        read = layer_operations(even, LayerCut(tokens, sequence), experts=experts) if layers else ()
        total += layers * sum(one.flops + (0.0 if halved else one.core - one.causal) for one in read)
    return total


def model_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """FLOPs that a step needs over all ranks: forward and twice that backward, nothing recomputed.

    Korthikanti 2022 (arXiv:2205.05198, eq 7) counts all of attention: 72 B s L h^2 (1 + s/6h + V/12Lh), ``halved=False``.
    """
    assert config.model is not None
    tokens = float(config.global_batch * config.sequence)
    return 3.0 * forward_flops(config.model, tokens, config.sequence, halved=halved)


def hardware_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """With recomputation: of all layers (Narayanan 2021, arXiv:2104.04473, 96 B s L h^2 ...), or of attention's core.

    The head is never recomputed: 96 B s L h^2 (1 + s/6h + V/16Lh) has 3 of its forward passes.
    """
    assert config.model is not None
    model, shape = config.model, config.model.shape
    assert shape is not None
    tokens, again = float(config.global_batch * config.sequence), 0.0
    if config.again.layers:
        again = forward_flops(model, tokens, config.sequence, halved=halved) - head_flops(shape, tokens)
    elif config.again.core:
        core = _attention(shape, LayerCut(tokens, config.sequence))
        again = model.layers * (core.causal if halved else core.core)
    return model_flops(config, halved=halved) + again
