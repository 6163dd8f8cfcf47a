"""Activations that wait for the backward pass: bytes of a layer, how many micro-batches are kept, and the logits.

Korthikanti 2022 (arXiv:2205.05198) counts a GPT layer in 16 bits: s b h (34 + 5 a s / h), of which attention keeps 11 s b h and
its scores 5 a s^2 b, the FFN 19 s b h, the two norms 4 s b h. Here the same terms follow from the shape: kv heads, width, a gate,
dropout, experts.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.training.model import Shape
from colltool.training.parallel_config import ParallelConfig, PipelineStage
from colltool.training.pipelines import InFlight

LOSS_BYTES = 4  # of a logit in fp32, beside the 16 bits that the head wrote, where no stack says otherwise


class Layer(NamedTuple):
    """Bytes of one layer and micro-batch on a rank: kept until its backward pass, and at most while it computes."""

    stored: float
    working: float


def layer_activations(config: ParallelConfig, shape: Shape, *, experts: bool) -> Layer:
    """One layer of a kind under the setup's recomputation.

    Full recomputation keeps a layer's input alone, 2 s b h (a t-th of it with sequence parallelism); selective, and a fused
    attention, keep all but the scores.
    """
    flash = config.stack is None or config.stack.flash
    whole = _outside_regions(config, shape) + _inside_regions(config, shape, experts=experts)
    scores = 0.0 if flash else 5.0 * shape.heads * config.sequence / config.layout.tp * config.tokens
    if config.again.layers:
        return Layer(config.precision.activation_bytes * config.tokens_outside * shape.hidden, whole + scores)
    return Layer(whole + (0.0 if config.again.core else scores), whole + scores)


def _outside_regions(config: ParallelConfig, shape: Shape) -> float:
    """What stands outside tensor parallel regions: inputs of norms and of regions, masks of dropout; 10 s b h of a GPT."""
    w, masks = config.precision.activation_bytes, 2 if shape.dropout else 0
    return config.tokens_outside * shape.hidden * (4 * w + masks)


def _inside_regions(config: ParallelConfig, shape: Shape, *, experts: bool) -> float:
    """What tensor parallelism splits: q, k, v and attention's output; what the FFN writes; 24 s b h / t of a GPT."""
    w, tp = config.precision.activation_bytes, config.layout.tp
    attention = config.tokens * w * _attention_size(shape, tp)
    moe = shape.moe if experts else None
    if moe is None:
        return attention + config.tokens * w * _ffn_size(shape, shape.ffn) / tp
    routed = config.expert_tokens * moe.top_k * moe.imbalance * w * (2 * shape.hidden + _ffn_size(shape, moe.ffn))
    return attention + routed + config.tokens * w * _ffn_size(shape, moe.shared_ffn) / tp


def _attention_size(shape: Shape, tp: int) -> float:
    """Elements of a token: q, k, v, the output; of latent attention its bottlenecks too, which every rank keeps."""
    if shape.mla is not None:
        mla, a = shape.mla, shape.heads / tp
        return mla.q_rank + mla.kv_rank + mla.rope + a * (2 * (mla.nope + mla.rope) + 2 * mla.value)
    return shape.head_dim * (2 * shape.heads / tp + 2 * max(shape.kv_heads / tp, 1.0))


def _ffn_size(shape: Shape, width: int) -> float:
    """Elements of a token in an FFN: what goes into the activation and what comes out, and the gate."""
    return float(shape.matrices * width)


def micro_batches_kept(config: ParallelConfig, stage: PipelineStage) -> float:
    """Micro-batches whose activations of a whole stage are kept at once, at the most."""
    m, p = config.micro_batches, config.layout.pp
    return 1.0 if p == 1 else float(config.pipeline.in_flight(InFlight(m, p, config.layout.virtual, p - stage.number)))


def loss_bytes(config: ParallelConfig, shape: Shape) -> float:
    """Logits of one micro-batch: as the head wrote them, and what the loss keeps, in fp32 at least: s b V / t (w + 4)."""
    kept = config.stack.loss_bytes if config.stack is not None else LOSS_BYTES
    return config.tokens * shape.vocab / config.layout.tp * (config.precision.activation_bytes + kept)
