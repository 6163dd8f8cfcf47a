"""A model as it is served: how its ranks are cut, what a step reads and computes, and the bytes of
its KV cache."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.engines.formulas import WIDTHS
from colltool.training.model import Accelerator, Shape, TransformerModel, ends_of, layer_parameters

CHUNK = 8192  # tokens of a chunked prefill, vLLM's and SGLang's usual one


class Deployment(NamedTuple):
    """How a model is served.

    Args:
        tp, pp: tensor and pipeline parallelism; dp: replicas of attention, each of tp ranks
            (data-parallel attention).
        ep: ranks that the experts of a layer are on; 1 where it has none, or where tensor
            parallelism cuts them too.
        batch: sequences in flight of the whole deployment. ``input``, ``output``: tokens of a
            sequence.
        dtype: of weights; activations are reduced in bf16. ``kv_dtype``: of the cache.
        chunk: tokens of a step of prefill.
    """

    tp: int = 1
    ep: int = 1
    pp: int = 1
    dp: int = 1
    batch: int = 1
    input: int = 4096
    output: int = 1024
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    chunk: int = CHUNK

    @property
    def ranks(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def tokens(self) -> int:
        """Sequences of one replica in one pipeline stage at a time: the tokens of its step."""
        return max(1, ceil(self.batch / (self.dp * self.pp)))

    @property
    def exchanges(self) -> bool:
        """Whether tokens go to experts on other ranks, rather than every rank of tp holding a part
        of every expert's work."""
        return self.ep > self.tp

    @property
    def spoken(self) -> str:
        more = (("ep", self.ep), ("pp", self.pp), ("dp", self.dp))
        return ", ".join(
            [f"tp {self.tp}", *(f"{name} {value}" for name, value in more if value > 1)]
        )


def shape_of(model: TransformerModel) -> Shape:
    if model.shape is None:
        what = f"of {model.name} only layers and parameters are known"
        raise ColltoolError(what, argument="job", fix="give its shape, or a config.json")
    return model.shape


def deployment_of(model: TransformerModel, given_: Deployment, dp: int | None) -> Deployment:
    """A deployment with what follows from the rest: dp attention fills the ranks of the experts.

    Raises:
        ColltoolError: sizes that do not divide the model or each other.
    """
    shape, own = shape_of(model), given_
    moe = shape.moe
    if own.ep > 1 and moe is None:
        raise ColltoolError(f"{model.name} has no experts", argument="ep", fix="leave it out")
    if moe is not None and own.ep > 1 and moe.experts % own.ep:
        raise ColltoolError(
            f"{moe.experts} experts do not fill {own.ep} ranks evenly",
            argument="ep",
            fix="a divisor of them",
        )
    if own.ep > own.tp and own.ep % own.tp:
        raise ColltoolError(
            f"ep {own.ep} is no multiple of tp {own.tp}",
            argument="ep",
            fix=f"write {given('ep', own.tp * 2)}",
        )
    own = own._replace(dp=dp if dp is not None else max(1, own.ep // own.tp))
    if own.exchanges and own.ep != own.tp * own.dp:
        what = (
            f"experts on {own.ep} ranks, attention on tp {own.tp} x dp {own.dp} = {own.tp * own.dp}"
        )
        raise ColltoolError(what, argument="dp", fix=f"write {given('dp', own.ep // own.tp)}")
    if shape.heads % own.tp:
        raise ColltoolError(
            f"{shape.heads} heads do not fill tp {own.tp}",
            argument="tp",
            fix="a divisor of the heads",
        )
    if own.pp > model.layers:
        raise ColltoolError(
            f"{model.layers} layers do not fill pp {own.pp}",
            argument="pp",
            fix=f"at most {model.layers}",
        )
    if own.batch < own.dp * own.pp:
        what = f"{own.batch} sequences leave some of {own.dp * own.pp} replicas and stages idle"
        raise ColltoolError(
            what, argument="batch", fix=f"write {given('batch', own.dp * own.pp)} or more"
        )
    return own


def kv_bytes(model: TransformerModel, dtype: str) -> float:
    """Bytes of KV cache that a token takes in all layers: 2 kv_heads d w each, of latent attention
    (c_kv + d_rope) w."""
    shape = shape_of(model)
    a_layer = (
        shape.mla.kv_rank + shape.mla.rope if shape.mla else 2 * shape.kv_heads * shape.head_dim
    )
    return model.layers * a_layer * WIDTHS[dtype]


class Floor(NamedTuple):
    """The least a step takes a rank: weights and KV from memory, and FLOPs at the dense peak; no
    kernel reaches either."""

    memory_s: float
    compute_s: float

    @property
    def total_s(self) -> float:
        return max(self.memory_s, self.compute_s)


class WeightBytes(NamedTuple):
    """Bytes of a rank: its weights, and those of them that a step with so many tokens reads."""

    weights: float
    read: float


def held(model: TransformerModel, own: Deployment, tokens: int) -> WeightBytes:
    """Of the busiest stage; of experts a step reads those that some token of all replicas chose."""
    shape, width = shape_of(model), WIDTHS[own.dtype]
    dense, moe = (layer_parameters(shape, experts=kind) for kind in (False, True))
    spread = own.ep if own.exchanges else own.tp
    experts = moe.experts / spread
    touched = 1.0
    if shape.moe is not None:
        all_tokens = tokens * (own.dp if own.exchanges else 1)
        touched = 1 - (1 - shape.moe.top_k / shape.moe.experts) ** all_tokens
    rest = sum(
        count * (one.split / own.tp + one.whole)
        for count, one in ((model.dense_layers, dense), (model.moe_layers, moe))
    )
    ends = ends_of(shape, own.tp)
    whole = (rest + model.moe_layers * experts) / own.pp + ends
    read = (rest + model.moe_layers * experts * touched) / own.pp + ends / 2
    return WeightBytes(whole * width, read * width)


def active_flops(model: TransformerModel, own: Deployment, tokens: float) -> float:
    """FLOPs of a rank for so many tokens of a replica in one stage: two a parameter that a token
    passes."""
    shape = shape_of(model)
    dense, moe = (layer_parameters(shape, experts=kind) for kind in (False, True))
    visited = moe.experts * (shape.moe.top_k / shape.moe.experts) if shape.moe else 0.0
    passed = model.dense_layers * (dense.split + dense.whole) + model.moe_layers * (
        moe.split + moe.whole + visited
    )
    return 2 * tokens * (passed / own.pp + ends_of(shape, 1, embedding=False)) / own.tp


def floor_of(
    model: TransformerModel,
    own: Deployment,
    device: Accelerator | None,
    tokens: int,
    context: float,
) -> Floor | None:
    """The floor of a step with so many tokens a replica over a context; None where the device is
    not known."""
    if device is None:
        return None
    shape = shape_of(model)
    share = 1 if shape.mla else min(own.tp, shape.kv_heads)
    kv = kv_bytes(model, own.kv_dtype) / own.pp / share * context
    peak = dict(device.peak)
    rate = peak.get(own.dtype) or peak.get("bf16") or next(iter(peak.values()))
    return Floor(
        (held(model, own, tokens).read + kv) / device.bandwidth_Bps,
        active_flops(model, own, tokens) / rate,
    )
