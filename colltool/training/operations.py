"""A layer as a list of operations, from which its compute, memory and collectives follow.

:func:`layer_operations` makes the list for a :class:`LayerCut`. FLOPs (:mod:`flops`), times
(:mod:`compute_times`), activations (:mod:`memory`) and collectives (:mod:`calls`) all follow from it.

Letters: T tokens of a rank in a micro-batch, h hidden, a heads, g kv heads, d head dim, f width, n_m
matrices of an FFN, t tensor parallelism. A multiply and an add are two operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from colltool.training.files import BYTES
from colltool.training.mixers import Mixer, MixerSizes, SizesByName, Weights, value_of
from colltool.training.model import Moe, Shape
from colltool.training.parallel_config import ParallelConfig
from colltool.training.roofline import Gemm

# bytes kept of a score without flash: softmax and dropout in 16 bits, the mask in 8 (arXiv:2205.05198)
SCORE_BYTES = 5.0
# "again" is the forward pass that recomputation repeats
Phase = Literal["forward", "backward", "again", "update"]


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
    """Return attention, or what stands in its place."""
    rank = mixer.on(cut.tp)
    gemms = []
    for matrix in mixer.description.replicated:
        gemms.append(_gemm_of(matrix, cut.tokens, rank.undivided))
    for matrix in mixer.description.split:
        gemms.append(_gemm_of(matrix, cut.tokens, rank.sizes))
    operation = Operation("attention", tuple(gemms), region=True, share=mixer.share)
    if mixer.description.attends:
        return _attention(operation, mixer, rank, cut)
    return _recurrent(operation, rank, cut)


def _attention(operation: Operation, mixer: Mixer, rank: MixerSizes, cut: LayerCut) -> Operation:
    """Return attention with its scores: FLOPs of qkv 2Th(a+2g)d/t, of the output 2Tadh/t, of scores
    and their sum over values 4Tsad/t; latent attention goes through its bottlenecks."""
    heads = _heads_on(rank)
    tokens = cut.tokens
    matrices = mixer.description
    flops_per_key = 2.0 * tokens * (heads.q + heads.out)
    # an indexer meets every key before it, in a window or not
    indexed = tokens * rank.value(matrices.indexed) * cut.sequence
    kept_bytes = cut.width * (rank.latent + heads.q + heads.k + heads.v + heads.out)
    if cut.copies:
        # keys and values once for each query head, and the output in the order of its projection
        kept_bytes += cut.width * (heads.q - heads.k + 2 * heads.out - heads.v)
    # the output projection keeps a copy of its own where it is quantized
    if cut.kept < cut.width:
        kept_bytes += cut.kept * heads.out
    if matrices.replicated:
        operation = operation._replace(
            up=operation.gemms[len(matrices.replicated) : -1],
            up_stored=tokens * cut.width * (heads.q + heads.k + heads.v),
        )
    else:
        operation = operation._replace(widths=tuple(matrices.split[0].widths(rank.sizes)))
    return operation._replace(
        core=flops_per_key * cut.sequence + indexed,
        causal=flops_per_key * mixer.keys(cut.sequence) + 0.5 * indexed,
        scores=tokens * cut.sequence * rank.sizes["heads"],
        keys=cut.sequence,
        stored=tokens * kept_bytes,
    )


def _gemm_of(matrix: Weights, tokens: float, sizes: SizesByName) -> Gemm:
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
    shape: Shape, cut: LayerCut, name: Literal["ffn", "shared expert"], width: int
) -> Operation:
    """Return an FFN of 2T n_m h f / t FLOPs, which keeps the gate and the input and output of the
    activation function."""
    on_rank = width / cut.tp
    inputs = shape.matrices - 1
    gemms = (
        Gemm(cut.tokens, inputs * on_rank, shape.hidden),
        Gemm(cut.tokens, shape.hidden, on_rank),
    )
    stored = cut.tokens * on_rank * (inputs * cut.width + cut.kept)
    if cut.copies:
        # the gate behind its activation function
        stored += cut.tokens * on_rank * (inputs - 1) * cut.width
    return Operation(name, gemms, stored=stored, region=True, widths=(on_rank,) * inputs)


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
