"""A transformer and its parameter counts.

:class:`TransformerModel` has the :class:`Shape` of its layers, and is made from a file by
:func:`transformer_of`. :func:`parameters` counts all of its parameters, :func:`layer_parameters` those
of a layer, :func:`ends_of` those of the embedding and head.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from colltool.training.files import ModelFile, MoeFile, OperationFile, values_of
from colltool.training.mixers import Mixer


class Moe(NamedTuple):
    """The experts of a model's layers."""

    experts: int
    top_k: int  # experts that a token visits
    ffn: int  # width of one expert
    shared_ffn: int = 0  # width of the part that every token passes
    dense_layers: int = 0  # layers of the model without experts
    imbalance: float = 1.0  # the busiest rank's load over the mean
    groups: int = 1  # of experts, where routing is limited to some of them
    top_groups: int = 1  # groups that a token's experts are in, at most
    imbalance_given: bool = True  # else it is DEFAULT_IMBALANCE
    spread: bool = False  # dense layers are between those with experts, not before them
    latent: int = 0  # elements of a token that experts take; 0: those of the hidden size

    @property
    def reached(self) -> float:
        """Share of the groups that a token's experts may be in."""
        return self.top_groups / self.groups


# the busiest rank's load over the mean where a job does not say: expert by expert 1.04
# (bias-controlled) to 1.7 (auxiliary loss) in arXiv:2408.15664, table 2; a rank holds several,
# whose loads even out
DEFAULT_IMBALANCE = 1.1


class Mla(NamedTuple):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of its bottlenecks and
    sizes of a head."""

    q_rank: int  # 0: queries are not compressed, as in DeepSeek-V2-Lite
    kv_rank: int
    nope: int  # elements of a head's queries and keys without position
    rope: int  # with position; those of keys are shared by all heads
    value: int


class Shape(NamedTuple):
    """Sizes of a transformer's layers, embedding and head."""

    hidden: int  # elements of a token
    heads: int
    kv_heads: int
    head_dim: int  # elements of a head
    ffn: int  # width of a dense one; 0: no layer has one
    matrices: int  # of the FFN; 3 where it is gated, else 2
    vocab: int
    tied: bool = False  # whether the head is the embedding
    bias: bool = False  # whether linear layers and norms have one
    dropout: bool = False  # whether it is trained with it
    positions: int = 0  # learned position embeddings
    moe: Moe | None = None
    mla: Mla | None = None  # None: keys and values have no bottleneck
    window: int = 0  # keys that a query sees; 0: all before it
    windowed: float = 0.0  # share of layers with the window
    mixers: tuple[Mixer, ...] = ()  # where its layers have other operations than attention
    fed: float = 1.0  # share of the layers without experts that have an FFN

    @property
    def norm(self) -> int:
        """Parameters of a norm."""
        if self.bias:
            return 2 * self.hidden
        return self.hidden

    @property
    def attention(self) -> Mixer:
        """Attention of its heads, as if in every layer; latent where it has MLA."""
        sizes = {"hidden": self.hidden, "heads": self.heads, "kv_heads": self.kv_heads}
        kind = "attention"
        if self.mla is None:
            sizes |= {"head_dim": self.head_dim, "value_dim": self.head_dim}
        else:
            kind = "latent attention"
            sizes |= self.mla._asdict()
            sizes["query_inputs"] = self.mla.q_rank or self.hidden
        return Mixer(kind, tuple(sizes.items()), window=self.window, windowed=self.windowed)

    @property
    def parts(self) -> tuple[Mixer, ...]:
        """What mixes the tokens in its layers."""
        return self.mixers or (self.attention,)

    def keys(self, sequence: int) -> float:
        """Keys that a query of attention in every layer sees, averaged over queries and layers."""
        return self.attention.keys(sequence)


class TransformerModel(NamedTuple):
    """A model: its layers with their shape, or only their number and all parameters."""

    name: str
    layers: int
    shape: Shape | None  # None: only layers and parameters are known
    given_parameters: float | None = None  # None: they follow from the shape
    left_out: tuple[str, ...] = ()  # parts of the model that are not counted
    weights: str = "bf16"  # format of the published checkpoint

    @property
    def known_shape(self) -> Shape:
        """The shape of a model that has one, as everything needs that is asked of layers."""
        assert self.shape is not None
        return self.shape

    @property
    def parameters(self) -> float:
        """Parameters of the whole model, all experts counted."""
        if self.given_parameters is not None:
            return self.given_parameters
        return float(parameters(self))

    @property
    def dense_layers(self) -> int:
        """Layers without experts."""
        if self.shape is None or self.shape.moe is None:
            return self.layers
        return self.shape.moe.dense_layers

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers

    @property
    def spread(self) -> bool:
        """Whether dense layers are between those with experts."""
        return self.shape is not None and self.shape.moe is not None and self.shape.moe.spread

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        before = dense_before(layer, self.layers, self.dense_layers, spread=self.spread)
        after = dense_before(layer + 1, self.layers, self.dense_layers, spread=self.spread)
        return before == after


def dense_before(position: int, layers: int, dense: int, *, spread: bool) -> int:
    """Return how many of the first ``position`` layers have no experts: the first ``dense`` of all
    ``layers``, or with ``spread`` as even a part of them as can be.

    >>> [dense_before(position, 6, 2, spread=True) for position in range(7)]
    [0, 1, 1, 1, 2, 2, 2]
    """
    if not spread:
        return min(position, dense)
    with_experts = position * (layers - dense) // layers
    return position - with_experts


class LayerParameters(NamedTuple):
    """Parameters of one layer by how tensor parallelism holds them."""

    split: float  # in t parts
    replicated: float  # on every rank
    experts: float = 0.0
    looked_up: float = 0.0  # in t parts, of which a token reads a row

    def dense_on(self, tp: int) -> float:
        """Parameters of a rank, without those of experts."""
        return (self.split + self.looked_up) / tp + self.replicated


def ffn_parameters(shape: Shape, width: int, hidden: int = 0) -> float:
    """Parameters of an FFN of a width, on ``hidden`` elements of a token; 0: on the hidden size."""
    parameters = shape.matrices * (hidden or shape.hidden) * width
    if shape.bias:
        parameters += width
    return float(parameters)


def expert_parameters(shape: Shape, moe: Moe) -> float:
    """Parameters of one expert."""
    return ffn_parameters(shape, moe.ffn, moe.latent)


@lru_cache(maxsize=64)
def layer_parameters(shape: Shape, *, experts: bool) -> LayerParameters:
    """Parameters of a dense layer, or of one with experts."""
    # norms before attention and before the FFN
    replicated = 2.0 * shape.norm
    split = looked_up = 0.0
    for mixer in shape.parts:
        mixed = _mixer_parameters(shape, mixer)
        split += mixer.share * mixed.split
        replicated += mixer.share * mixed.replicated
        looked_up += mixer.share * mixed.looked_up
    # of the last matrix of the FFN
    if shape.bias:
        replicated += shape.hidden
    if not experts or shape.moe is None:
        split += shape.fed * ffn_parameters(shape, shape.ffn)
        return LayerParameters(split, replicated, looked_up=looked_up)
    moe = shape.moe
    if moe.shared_ffn:
        split += ffn_parameters(shape, moe.shared_ffn)
    # the router, and the way into a narrower space and back
    replicated += shape.hidden * (moe.experts + 2 * moe.latent)
    experts_of_layer = moe.experts * expert_parameters(shape, moe)
    return LayerParameters(split, replicated, experts_of_layer, looked_up)


def _mixer_parameters(shape: Shape, mixer: Mixer) -> LayerParameters:
    """Parameters of attention, or of what a layer has in its place."""
    rank = mixer.on()
    matrices = mixer.description
    split = mixer.split_parameters()
    replicated = mixer.replicated_parameters() + rank.value(matrices.small)
    # of queries, keys and values, which are the first matrices, and of the output; models with
    # bottlenecks have none
    if shape.bias and matrices.attends and not matrices.replicated:
        split += matrices.split[0].width(rank.sizes)
        replicated += shape.hidden
    return LayerParameters(split, replicated, looked_up=rank.value(matrices.looked_up))


def ends_of(shape: Shape, tp: int = 1, *, embedding: bool = True, head: bool = True) -> float:
    """Parameters of the embedding and of the head with the norm before it, or of one of them, on a
    rank of ``tp``.

    A tied head is the embedding itself, unless that is on another stage of a pipeline: then the
    head is a copy.
    """
    vocabulary = shape.vocab * shape.hidden / tp
    total = 0.0
    if embedding:
        total += vocabulary + shape.positions * shape.hidden
    if head:
        if not (shape.tied and embedding):
            total += vocabulary
        total += shape.norm
    return total


def parameters(model: TransformerModel) -> float:
    """Parameters of a whole model."""
    shape = model.known_shape
    total = ends_of(shape)
    total += model.dense_layers * sum(layer_parameters(shape, experts=False))
    return total + model.moe_layers * sum(layer_parameters(shape, experts=True))


def active_parameters(model: TransformerModel) -> float:
    """Parameters that one token passes: of the experts, ``top_k``."""
    shape = model.shape
    if shape is None or shape.moe is None:
        return model.parameters
    # experts that a token does not visit
    idle = (shape.moe.experts - shape.moe.top_k) * expert_parameters(shape, shape.moe)
    return model.parameters - model.moe_layers * idle


def transformer_of(file: ModelFile, name: str = "") -> TransformerModel:
    """A model from its file; ``name`` where the file has none."""
    model_name = file.name or name or "model"
    return TransformerModel(
        model_name,
        file.layers,
        _shape(file),
        file.parameters,
        file.left_out,
        file.weights,
    )


def _shape(file: ModelFile) -> Shape | None:
    """The shape of a model; None where only its size is known."""
    if file.hidden is None or file.heads is None or file.ffn is None or file.vocab is None:
        return None
    windowed = 0.0
    if file.window:
        layers = file.layers if file.windowed_layers is None else file.windowed_layers
        windowed = layers / file.layers
    same_attention = Shape(
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
        moe=_moe_of(file.moe) if file.moe else None,
        mla=Mla(**values_of(file.mla, Mla._fields)) if file.mla else None,
        window=file.window or 0,
        windowed=windowed,
        fed=_share_with_ffn(file),
    )
    attention = same_attention.attention
    return same_attention._replace(
        mixers=tuple(_mixer_of(operation, attention, file.layers) for operation in file.operations)
    )


def _share_with_ffn(file: ModelFile) -> float:
    """Share of the layers without experts that have an FFN."""
    if file.ffn_layers is None:
        return 1.0 if file.ffn else 0.0
    dense = file.layers
    if file.moe is not None:
        dense = file.moe.dense_layers
    if not dense:
        return 1.0
    return file.ffn_layers / dense


def _mixer_of(file: OperationFile, attention: Mixer, layers: int) -> Mixer:
    """An operation with its sizes; those of attention are the model's unless given. ``layers``: of
    the whole model."""
    sizes = dict(attention.sizes) | file.sizes
    if "head_dim" in file.sizes:
        sizes["value_dim"] = file.sizes.get("value_dim", file.sizes["head_dim"])
    return Mixer(
        file.operation,
        tuple(sizes.items()),
        share=file.layers / layers,
        window=file.window or 0,
        chunked=file.chunked,
    )


def _moe_of(file: MoeFile) -> Moe:
    """The experts of a file, with defaults that the file leaves open."""
    derived: dict[str, Any] = {
        "imbalance": DEFAULT_IMBALANCE if file.imbalance is None else file.imbalance,
        "imbalance_given": file.imbalance is not None,
        "top_groups": file.top_groups or file.groups,
    }
    as_given = [name for name in Moe._fields if name not in derived]
    return Moe(**values_of(file, as_given), **derived)
