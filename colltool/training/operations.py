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
    """How a layer is split over ranks, with its tokens and the bytes of its activations."""

    tokens: float  # T, before tensor parallelism splits them
    sequence: int  # s, tokens
    tp: int = 1  # t, ranks that its matrices are split over
    sp: bool = False  # whether tensor parallelism splits tokens outside its regions too
    ep: int = 1  # ranks that the experts of a layer are dealt to
    etp: int = 1  # ranks that an expert is split over
    activation_bytes: float = 2.0  # of one activation
    gemm_input_bytes: float = 2.0  # of an activation that only GEMMs read again
    eager_copies: bool = False  # whether each elementwise kernel keeps inputs of its own

    @property
    def tokens_outside(self) -> float:
        """Tokens of a rank outside tensor parallel regions: T / t with sequence parallelism."""
        return self.tokens / self.tp if self.sp else self.tokens


def cut_of(config: ParallelConfig) -> LayerCut:
    """Return what a layer's operations depend on of a configuration."""
    layout = config.layout
    activation_bytes = gemm_input_bytes = config.precision.activation_bytes
    if config.stack is not None and config.stack.quantized_inputs:
        gemm_input_bytes = min(activation_bytes, BYTES[config.precision.compute])
    return LayerCut(
        config.tokens,
        config.sequence,
        layout.tp,
        layout.sp,
        layout.ep,
        layout.etp,
        activation_bytes=activation_bytes,
        gemm_input_bytes=gemm_input_bytes,
        eager_copies=config.stack is not None and config.stack.eager_copies,
    )


class Heads(NamedTuple):
    """Elements of queries, keys, values and outputs per token on a rank, of all its heads."""

    q: float
    k: float
    v: float
    out: float


def heads_of(shape: Shape, tp: int) -> Heads:
    """Return the elements of attention's heads on a rank; with tp above the kv heads, ranks hold
    copies."""
    return _heads_on(shape.attention.on(tp))


def _heads_on(rank: MixerSizes) -> Heads:
    """Return the elements of the heads of a rank."""
    kind = rank.kind
    return Heads(*(rank.value(terms) for terms in (kind.q, kind.k, kind.v, kind.out)))


class Operation(NamedTuple):
    """A part of a layer, for one micro-batch on a rank: its numbers are forward, those of backward
    follow from them.

    Fields that a kind of operation has not keep their defaults. Whatever mixes tokens has the name
    "attention", a recurrence too; of layers with several such operations each has its ``share``.
    """

    name: Literal["norms", "attention", "router", "ffn", "shared expert", "experts"]
    gemms: tuple[Gemm, ...] = ()  # through weights
    stored_bytes: float = 0.0  # kept for the backward pass, without attention scores (SCORE_BYTES)
    ends_region: bool = False  # whether a sum over the ranks of tensor parallelism follows
    share: float = 1.0  # how many a layer has, in the mean over layers
    columns: tuple[float, ...] = ()  # of each matrix, where the first GEMM is several at once

    # of attention, and of what stands in its place
    core_flops: float = 0.0  # of scores and their sum over values, or of a recurrence
    causal_flops: float = 0.0  # the same under a causal mask, less in windows
    # queries of all the rank's heads times keys; of a recurrence, which has no scores, tokens times heads
    scores: float = 0.0
    keys: float = 1.0  # keys that a query is multiplied with; 1 for a recurrence

    # of latent attention
    up_gemms: tuple[Gemm, ...] = ()  # those of ``gemms`` that lead out of its bottlenecks
    up_stored_bytes: float = 0.0  # those of ``stored_bytes`` that they make

    # of experts
    sent_elements: float = 0.0  # elements of tokens that go to the experts' ranks
    sorted_elements: float = 0.0  # the same once for each of a token's experts

    @property
    def activated(self) -> float:
        """Elements that the activation function of a gated FFN makes; without a gate half of them,
        as it reads half as much. 0 of other operations."""
        if self.name not in ("ffn", "shared expert", "experts"):
            return 0.0
        first = self.gemms[0]
        return first.m * first.n * first.copies / 2

    @property
    def flops(self) -> float:
        """FLOPs forward in the mean layer, with the causal half of attention."""
        return self.share * (sum(gemm.flops for gemm in self.gemms) + self.causal_flops)


@lru_cache(maxsize=4096)
def layer_operations(
    shape: Shape, cut: LayerCut, *, experts: bool = False
) -> tuple[Operation, ...]:
    """Return the operations of a dense layer, or of one with experts.

    Bytes kept are the terms of Korthikanti 2022 (arXiv:2205.05198), worked out from the shape: of a GPT in
    16 bits, 11 s b h for attention, 19 for the FFN and 4 for the two norms, 34 in all, and 5 a s^2 b for
    scores. Here the norms have 10 of the 34: from attention and FFN each the input (2) and the mask of
    dropout (1). Attention has 8 (:func:`_attention`), the FFN 16 (:func:`_ffn`).
    """
    # of each of two norms its input and its output, which a region reads; and two masks of dropout,
    # of a byte each
    kept_bytes = 2 * (cut.activation_bytes + cut.gemm_input_bytes)
    if shape.dropout:
        kept_bytes += 2
    norms = Operation("norms", stored_bytes=cut.tokens_outside * shape.hidden * kept_bytes)
    mixers = tuple(_token_mixing(mixer, cut) for mixer in shape.parts)
    moe = shape.moe if experts else None
    if moe is None:
        # in hybrid models some layers have no FFN: shape.fed is the share of those with one
        ffn = _ffn(shape, cut, "ffn", shape.ffn)._replace(share=shape.fed)
        return norms, *mixers, ffn
    router = Operation("router", (Gemm(cut.tokens_outside, moe.experts, shape.hidden),))
    if moe.latent:
        down_and_up = (
            Gemm(cut.tokens_outside, moe.latent, shape.hidden),
            Gemm(cut.tokens_outside, shape.hidden, moe.latent),
        )
        router = router._replace(gemms=router.gemms + down_and_up)
    routed = _routed_experts(shape, moe, cut)
    if not moe.shared_ffn:
        return norms, *mixers, router, routed
    return norms, *mixers, router, _ffn(shape, cut, "shared expert", moe.shared_ffn), routed


def _routed_experts(shape: Shape, moe: Moe, cut: LayerCut) -> Operation:
    """Return the operation of the experts of the busiest rank.

    Of 4096 tokens, tp 2, top 8 and 4 experts on each rank, an expert gets 4096/2 * 8/4 = 4096 in the
    mean: every rank sends its own T/t tokens, and as many as ranks send come to a rank. With etp 2
    it gets those of both ranks that hold a half of it; ``moe.imbalance`` is how many times as many the
    busiest rank gets.
    """
    local_experts = max(1, moe.experts // cut.ep)
    expert_columns = moe.ffn / cut.etp
    inputs = shape.matrices - 1  # matrices before the activation function: 2 with a gate
    # T/t without sequence parallelism too: etp is t then
    tokens_of_experts = cut.tokens / cut.tp * moe.top_k * cut.etp * moe.imbalance
    tokens_per_expert = tokens_of_experts / local_experts
    token_elements = moe.latent or shape.hidden
    kept_bytes = token_elements * (cut.activation_bytes + cut.gemm_input_bytes)
    # undivided: etp times as many tokens have ffn / etp columns each
    kept_bytes += moe.ffn * (inputs * cut.activation_bytes + cut.gemm_input_bytes)
    if cut.eager_copies:
        # tokens in the order of their experts, and the gate, if any, behind its activation function
        kept_bytes += cut.activation_bytes * (token_elements + (inputs - 1) * moe.ffn)
    up = Gemm(
        tokens_per_expert, inputs * expert_columns, token_elements, local_experts, grouped=True
    )
    down = Gemm(tokens_per_expert, token_elements, expert_columns, local_experts, grouped=True)
    return Operation(
        "experts",
        (up, down),
        stored_bytes=cut.tokens_outside * moe.top_k * moe.imbalance * kept_bytes,
        # with sequence parallelism their tokens are apart already
        ends_region=not cut.sp and not moe.shared_ffn,
        sent_elements=cut.tokens_outside * token_elements,
        sorted_elements=cut.tokens_outside * moe.top_k * token_elements,
    )


def _token_mixing(mixer: Mixer, cut: LayerCut) -> Operation:
    """Return the operation that mixes tokens: attention, or what stands in its place. Its GEMMs are in the
    order of ``data/operations.toml``: those of replicated matrices, then those of split ones."""
    rank = mixer.on(cut.tp)
    matrices = mixer.description
    gemms = [_gemm_of(matrix, cut.tokens, rank.undivided) for matrix in matrices.replicated]
    gemms += [_gemm_of(matrix, cut.tokens, rank.sizes) for matrix in matrices.split]
    if matrices.attends:
        return _attention(mixer, rank, cut, tuple(gemms))
    return _recurrence(mixer, rank, cut, tuple(gemms))


def _attention(mixer: Mixer, rank: MixerSizes, cut: LayerCut, gemms: tuple[Gemm, ...]) -> Operation:
    """Return attention with its scores; latent attention goes through its bottlenecks.

    FLOPs of qkv are 2Th(a+2g)d/t, of the output 2Tadh/t, of scores and their sum over values
    4Tsad/t; ``heads.q`` is ad/t, ``heads.k`` gd/t.
    GPT-3 (a 96, d 128), T = s = 2048, t = 8: heads.q is 1536, ``core_flops`` 4 * 2048 * 2048 * 1536
    = 25.8e9, half of it causal.
    """
    heads = _heads_on(rank)
    tokens = cut.tokens
    matrices = mixer.description
    flops_per_key = 2.0 * tokens * (heads.q + heads.out)
    # an indexer meets every key before it, in a window or not
    indexer_flops = tokens * rank.value(matrices.indexed) * cut.sequence
    kept_elements = rank.latent + heads.q + heads.k + heads.v + heads.out
    kept_bytes = cut.activation_bytes * kept_elements
    if cut.eager_copies:
        # keys and values once for each query head, and the output in the order of its projection
        copied_elements = heads.q - heads.k + 2 * heads.out - heads.v
        kept_bytes += cut.activation_bytes * copied_elements
    # the output projection keeps a copy of its own where it is quantized
    if cut.gemm_input_bytes < cut.activation_bytes:
        kept_bytes += cut.gemm_input_bytes * heads.out
    columns: tuple[float, ...] = ()
    up_gemms: tuple[Gemm, ...] = ()
    up_stored_bytes = 0.0
    if matrices.replicated:
        # between the replicated ones, which lead into the bottlenecks, and the last, which makes the output
        up_gemms = gemms[len(matrices.replicated) : -1]
        up_stored_bytes = tokens * cut.activation_bytes * (heads.q + heads.k + heads.v)
    else:
        # queries, keys and values are one GEMM, the first in the file
        columns = tuple(matrices.split[0].widths(rank.sizes))
    return Operation(
        "attention",
        gemms,
        stored_bytes=tokens * kept_bytes,
        ends_region=True,
        share=mixer.share,
        columns=columns,
        core_flops=flops_per_key * cut.sequence + indexer_flops,
        # a query has half of the sequence before it, in the mean
        causal_flops=flops_per_key * mixer.keys(cut.sequence) + 0.5 * indexer_flops,
        scores=tokens * cut.sequence * rank.sizes["heads"],
        keys=cut.sequence,
        up_gemms=up_gemms,
        up_stored_bytes=up_stored_bytes,
    )


def _gemm_of(matrix: Weights, tokens: float, sizes: SizesByName) -> Gemm:
    """Return the GEMM of tokens through matrices of these sizes."""
    return Gemm(tokens, matrix.width(sizes), value_of(matrix.inputs, sizes))


def _recurrence(
    mixer: Mixer, rank: MixerSizes, cut: LayerCut, gemms: tuple[Gemm, ...]
) -> Operation:
    """Return a recurrence: its work is the same for every token, and it keeps what its matrices make.

    In the place of scores is the number of its states' updates, one for each token and head, with a single
    key each, so that ``scores`` / ``keys`` is as many queries of heads as attention has.
    """
    work_flops = cut.tokens * rank.value(rank.kind.work)
    # the last GEMM counts as the output's, which is not kept
    made_elements = sum(gemm.n for gemm in gemms[:-1])
    return Operation(
        "attention",
        gemms,
        stored_bytes=cut.tokens * cut.activation_bytes * made_elements,
        ends_region=True,
        share=mixer.share,
        core_flops=work_flops,
        causal_flops=work_flops,
        scores=cut.tokens * rank.sizes["heads"],
    )


def _ffn(
    shape: Shape, cut: LayerCut, name: Literal["ffn", "shared expert"], width: int
) -> Operation:
    """Return an FFN of 2T n_m h f / t FLOPs, which keeps the gate and the input and output of the
    activation function; f is its ``width``.

    Gated, of width 11008, T = 4096, t = 2, in 16 bits: 5504 columns on a rank, of which it keeps
    (2 * 2 + 2) bytes a token, 135 MB.
    """
    columns_on_rank = width / cut.tp
    inputs = shape.matrices - 1  # matrices before the activation function: 2 with a gate
    gemms = (
        Gemm(cut.tokens, inputs * columns_on_rank, shape.hidden),
        Gemm(cut.tokens, shape.hidden, columns_on_rank),
    )
    column_bytes = inputs * cut.activation_bytes + cut.gemm_input_bytes
    if cut.eager_copies:
        # the gate, if there is one, behind its activation function
        column_bytes += (inputs - 1) * cut.activation_bytes
    return Operation(
        name,
        gemms,
        stored_bytes=cut.tokens * columns_on_rank * column_bytes,
        ends_region=True,
        columns=(columns_on_rank,) * inputs,
    )


def adapters(operations: Sequence[Operation], rank: int) -> list[Gemm]:
    """Return LoRA's GEMMs, down to the adapter's rank and up again, for each matrix but those of
    routers and routed experts; norms have none."""
    pairs: list[Gemm] = []
    for operation in operations:
        if not operation.gemms or operation.name in ("router", "experts"):
            continue
        first, *others = operation.gemms
        columns = operation.columns or (first.n,)
        # a first GEMM of several matrices has an adapter for each
        for gemm in (*(first._replace(n=number) for number in columns), *others):
            pairs += [Gemm(gemm.m, rank, gemm.k), Gemm(gemm.m, gemm.n, rank)]
    return pairs
