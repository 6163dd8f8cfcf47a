"""A model's shape and its parameter counts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from colltool.training.files.schema import ModelFile


class Moe(NamedTuple):
    experts: int
    top_k: int  # experts that a token visits
    ffn: int  # width of one expert
    shared_ffn: int = 0  # width of the part that every token passes
    dense_layers: int = 0  # first layers, without experts
    imbalance: float = 1.0  # the busiest rank's load over the mean


class Mla(NamedTuple):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of its bottlenecks and sizes of a head."""

    q_rank: int  # 0: queries are not compressed, as in DeepSeek-V2-Lite
    kv_rank: int
    nope: int
    rope: int
    value: int


class Shape(NamedTuple):
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    matrices: int  # of the FFN; 3 where it is gated
    vocab: int
    tied: bool = False
    bias: bool = False
    dropout: bool = False
    positions: int = 0  # learned position embeddings
    moe: Moe | None = None
    mla: Mla | None = None
    window: int = 0  # keys that a query sees; 0: all before it
    windowed: float = 0.0  # share of layers with the window

    def keys(self, sequence: int) -> float:
        """Keys that a query of a causal model sees, averaged over queries and layers: s/2; in a window w - w^2/2s."""
        whole = 0.5 * sequence
        if not self.window or self.window >= sequence:
            return whole
        return (1 - self.windowed) * whole + self.windowed * (self.window - 0.5 * self.window**2 / sequence)


class TransformerModel(NamedTuple):
    name: str
    layers: int
    shape: Shape | None  # None: only layers and parameters are known
    given_parameters: float | None = None
    left_out: tuple[str, ...] = ()  # parts of the model that are not counted

    @property
    def parameters(self) -> float:
        if self.given_parameters is not None:
            return self.given_parameters
        return float(parameters(self))

    @property
    def dense_layers(self) -> int:
        moe = self.shape.moe if self.shape else None
        return self.layers if moe is None else moe.dense_layers

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers


class LayerParameters(NamedTuple):
    """Parameters of one layer by how tensor parallelism holds them."""

    split: float  # in t parts
    whole: float  # on every rank
    experts: float = 0.0

    def on(self, tp: int = 1, ep: int = 1, etp: int = 1) -> tuple[float, float]:
        """Dense and expert parameters of one rank."""
        return self.split / tp + self.whole, self.experts / (ep * etp)


def attention_parameters(shape: Shape) -> LayerParameters:
    """With the norm before it; the bottlenecks of latent attention are on every rank."""
    h, a = shape.hidden, shape.heads
    norm = h * (2 if shape.bias else 1)
    if shape.mla is not None:
        mla = shape.mla
        down = h * (mla.q_rank + mla.kv_rank + mla.rope) + mla.q_rank + mla.kv_rank
        up = a * ((mla.q_rank or h) * (mla.nope + mla.rope) + mla.kv_rank * (mla.nope + mla.value) + h * mla.value)
        return LayerParameters(up, down + norm)
    qkv = (a + 2 * shape.kv_heads) * shape.head_dim
    biases = qkv if shape.bias else 0
    return LayerParameters(h * qkv + h * a * shape.head_dim + biases, norm + (h if shape.bias else 0))


def ffn_parameters(shape: Shape, width: int) -> float:
    return float(shape.matrices * shape.hidden * width + (width if shape.bias else 0))


@lru_cache(maxsize=64)
def layer_parameters(shape: Shape, *, experts: bool) -> LayerParameters:
    attention = attention_parameters(shape)
    whole = attention.whole + shape.hidden * (2 if shape.bias else 1) + (shape.hidden if shape.bias else 0)
    if not experts or shape.moe is None:
        return LayerParameters(attention.split + ffn_parameters(shape, shape.ffn), whole)
    moe = shape.moe
    router = shape.hidden * moe.experts
    shared = ffn_parameters(shape, moe.shared_ffn) if moe.shared_ffn else 0.0
    return LayerParameters(attention.split + shared, whole + router, moe.experts * ffn_parameters(shape, moe.ffn))


def embedding_parameters(shape: Shape) -> LayerParameters:
    return LayerParameters(float(shape.vocab * shape.hidden), float(shape.positions * shape.hidden))


def head_parameters(shape: Shape) -> LayerParameters:
    """With the norm before it; a tied head is counted with the embedding."""
    norm = shape.hidden * (2 if shape.bias else 1)
    return LayerParameters(0.0 if shape.tied else float(shape.vocab * shape.hidden), float(norm))


def parameters(model: TransformerModel) -> float:
    shape = model.shape
    assert shape is not None
    total = sum(embedding_parameters(shape)) + sum(head_parameters(shape))
    total += model.dense_layers * sum(layer_parameters(shape, experts=False))
    return total + model.moe_layers * sum(layer_parameters(shape, experts=True))


def active_parameters(model: TransformerModel) -> float:
    """Parameters that one token passes: of the experts, ``top_k``."""
    shape = model.shape
    if shape is None or shape.moe is None:
        return model.parameters
    idle = (shape.moe.experts - shape.moe.top_k) * ffn_parameters(shape, shape.moe.ffn)
    return model.parameters - model.moe_layers * idle


def transformer_of(file: ModelFile, name: str = "") -> TransformerModel:
    called = file.name or name or "model"
    if file.hidden is None or file.heads is None or file.ffn is None or file.vocab is None:
        return TransformerModel(called, file.layers, None, file.parameters, file.left_out)
    shape = Shape(
        hidden=file.hidden,
        heads=file.heads,
        kv_heads=file.kv_heads or file.heads,
        head_dim=file.head_dim or max(1, file.hidden // file.heads),
        ffn=file.ffn,
        matrices=3 if file.gated else 2,
        vocab=file.vocab,
        tied=file.tied,
        bias=file.bias,
        dropout=file.bias if file.dropout is None else file.dropout,
        positions=file.positions,
        moe=Moe(*(getattr(file.moe, name) for name in Moe._fields)) if file.moe else None,
        mla=Mla(*(getattr(file.mla, name) for name in Mla._fields)) if file.mla else None,
        window=file.window or 0,
        windowed=(file.layers if file.windowed_layers is None else file.windowed_layers) / file.layers if file.window else 0.0,
    )
    return TransformerModel(called, file.layers, shape, file.parameters, file.left_out)
