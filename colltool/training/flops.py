"""Floating-point operations of a layer, and of a whole step: a multiply and an add are two.

T tokens of a rank in a micro-batch, h hidden, a heads, g kv heads, d head dim, f width, n_m matrices, t tensor parallelism.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig


class LayerFlops(NamedTuple):
    """Forward operations of one layer and micro-batch on one rank, by part."""

    projections: float
    core: float
    ffn: float = 0.0
    experts: float = 0.0
    router: float = 0.0

    @property
    def gemms(self) -> float:
        """All but attention's core: what passes through a weight."""
        return self.projections + self.ffn + self.experts + self.router

    @property
    def total(self) -> float:
        """All of them."""
        return self.gemms + self.core


def attention_projections(shape: Shape, tokens: float, tp: int = 1) -> float:
    """qkv 2Th(a+2g)d/t and out 2Tadh/t; of latent attention (arXiv:2405.04434) its bottlenecks, kept on every rank.

    >>> gpt = Shape(hidden=4, heads=2, kv_heads=2, head_dim=2, ffn=16, matrices=2, vocab=10)
    >>> attention_projections(gpt, tokens=1)  # 4 matrices of 4 x 4: 2 x 64
    128.0
    """
    h, a = shape.hidden, shape.heads
    if shape.mla is not None:
        mla = shape.mla
        down = h * (mla.q_rank + mla.kv_rank + mla.rope)
        up = a * ((mla.q_rank or h) * (mla.nope + mla.rope) + mla.kv_rank * (mla.nope + mla.value) + mla.value * h)
        return 2.0 * tokens * (down + up / tp)
    kv = max(shape.kv_heads / tp, 1.0)  # a kv head is on several ranks where tp is more than there are
    return 2.0 * tokens * h * shape.head_dim * (2 * a / tp + 2 * kv)


def attention_core(shape: Shape, tokens: float, sequence: int, tp: int = 1, *, halved: bool = True) -> float:
    """Scores and their sum over values, 4Tsad/t; half of it where the causal half is left out, less where layers have windows.

    >>> gpt = Shape(hidden=4, heads=2, kv_heads=2, head_dim=2, ffn=16, matrices=2, vocab=10)
    >>> attention_core(gpt, tokens=8, sequence=8, halved=False)
    1024.0
    """
    of_head = 2 * shape.head_dim if shape.mla is None else shape.mla.nope + shape.mla.rope + shape.mla.value
    return 2.0 * tokens * (shape.keys(sequence) if halved else sequence) * shape.heads * of_head / tp


def ffn(shape: Shape, tokens: float, width: int, tp: int = 1) -> float:
    """2T n_m h f / t."""
    return 2.0 * tokens * shape.matrices * shape.hidden * width / tp


def layer_flops(shape: Shape, tokens: float, sequence: int, tp: int = 1, *, experts: bool = False,
                halved: bool = True) -> LayerFlops:  # fmt: skip
    """Forward operations of a layer: with experts, T k of their tokens and the shared part in place of the FFN.

    Experts' tokens are spread evenly: each rank of a tensor group takes its share, whether of tokens or of widths.
    """
    projections = attention_projections(shape, tokens, tp)
    core = attention_core(shape, tokens, sequence, tp, halved=halved)
    if not experts or shape.moe is None:
        return LayerFlops(projections, core, ffn(shape, tokens, shape.ffn, tp))
    moe = shape.moe
    return LayerFlops(
        projections,
        core,
        ffn=ffn(shape, tokens, moe.shared_ffn, tp),
        experts=ffn(shape, tokens * moe.top_k, moe.ffn, tp),
        router=2.0 * tokens / tp * shape.hidden * moe.experts,
    )


def head_flops(shape: Shape, tokens: float, tp: int = 1) -> float:
    """2ThV/t."""
    return 2.0 * tokens * shape.hidden * shape.vocab / tp


def forward_flops(model: TransformerModel, tokens: float, sequence: int, *, halved: bool = True) -> float:
    """Forward operations of the whole model on so many tokens."""
    shape = model.shape
    assert shape is not None
    dense = layer_flops(shape, tokens, sequence, halved=halved).total
    moe = layer_flops(shape, tokens, sequence, experts=True, halved=halved).total
    return model.dense_layers * dense + model.moe_layers * moe + head_flops(shape, tokens)


def model_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """Operations of a step over all ranks that the model itself needs: forward and twice that backward, nothing recomputed.

    Korthikanti 2022 (arXiv:2205.05198, eq 7) counts all of attention: 72 B s L h^2 (1 + s/6h + V/12Lh), ``halved=False``.
    """
    assert config.model is not None
    tokens = float(config.global_batch * config.sequence)
    return 3.0 * forward_flops(config.model, tokens, config.sequence, halved=halved)


def hardware_flops(config: ParallelConfig, *, halved: bool = True) -> float:
    """With what is computed again: all layers (Narayanan 2021, arXiv:2104.04473, 96 B s L h^2 ...), or attention's core.

    The head is never computed again: 96 B s L h^2 (1 + s/6h + V/16Lh) has 3 of its forward passes.
    """
    assert config.model is not None
    model, shape = config.model, config.model.shape
    assert shape is not None
    tokens = float(config.global_batch * config.sequence)
    again = 0.0
    if config.again.layers:
        again = forward_flops(model, tokens, config.sequence, halved=halved) - head_flops(shape, tokens)
    elif config.again.core:
        again = model.layers * attention_core(shape, tokens, config.sequence, halved=halved)
    return model_flops(config, halved=halved) + again


def utilisation(config: ParallelConfig, step_s: float, *, halved: bool = True, peak: str | None = None) -> float:
    """Model FLOPs utilisation of a step: of the dense peak in ``peak``, the precision of the GEMMs when None."""
    assert config.device is not None
    rate = config.device.peak_flops(peak or config.precision.compute)
    return model_flops(config, halved=halved) / (step_s * config.layout.ranks * rate)
