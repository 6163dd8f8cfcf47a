"""The mean bytes per weight of a quantized checkpoint, part by part: :func:`checkpoint_weights`.

A checkpoint quantizes linear layers only: embedding, head, norms and routers stay in 16 bits, and so
do the modules that its list leaves out. :mod:`colltool.serving.quantization_config` reads the format
and the list; here names of modules are compared with the list, layer by layer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from colltool.base.files import read_text
from colltool.definitions.reader import sourced
from colltool.serving.quantization import BF16, WeightFormat
from colltool.serving.quantization_config import (
    Quantization,
    QuantizationScheme,
    method_of,
    quantization_of,
    scheme_of,
    unquantized_modules,
)
from colltool.training.mixers import Mixer
from colltool.training.model import (
    TransformerModel,
    expert_parameters,
    ffn_parameters,
    layer_parameters,
)

# names of parts of a layer
ATTENTION = "attention"
SHARED = "shared experts"
EXPERTS = "experts"
DENSE = "dense FFNs"


def checkpoint_weights(path: str, model: TransformerModel) -> WeightFormat | None:
    """Return the format of the weights of a config.json's checkpoint.

    None where the config quantizes no weights, or where the shape of the model is not known.

    Raises:
        ColltoolError: a method of quantization that is not known.
    """
    # the model was read from the same file, which is therefore in memory
    document, *_ = sourced(read_text(path, "config", path), path)
    quantization = quantization_of(document.data)
    if quantization is None or model.shape is None:
        return None
    scheme = scheme_of(quantization)
    if scheme is None:
        return None
    return _format(model, scheme, quantization)


class _MeanWidth:
    """The mean bytes per weight of what was added."""

    def __init__(self) -> None:
        self.bytes = 0.0
        self.weights = 0.0

    def add(self, weights: float, width: float) -> None:
        """Add so many weights of ``width`` bytes each."""
        self.bytes += weights * width
        self.weights += weights

    def width(self, default: float) -> float:
        """The mean, or the default if nothing was added."""
        return self.bytes / self.weights if self.weights else default


def _format(
    model: TransformerModel, scheme: QuantizationScheme, quantization: Quantization
) -> WeightFormat:
    """The mean bytes per weight of each part, over all layers.

    Args:
        scheme: the format of what is quantized.
        quantization: the config's own entry on it, with the list of modules that are not.
    """
    dense = _MeanWidth()
    experts = _MeanWidth()
    replicated = _MeanWidth()
    unquantized_layers: dict[str, float] = {}  # by part: how many layers have it in 16 bits
    parts_of_layers = [_parts(model, layer) for layer in range(model.layers)]
    unquantized_shares = _unquantized_shares(parts_of_layers, unquantized_modules(quantization))
    for layer, parts in enumerate(parts_of_layers):
        # norms and routers stay in 16 bits; bottlenecks, the replicated weights of the parts below, need
        # not
        bottlenecks = sum(part.share * part.replicated for part in parts)
        replicated.add(_replicated(model, layer) - bottlenecks, BF16)
        for part in parts:
            unquantized = unquantized_shares[part.name, layer]
            width = unquantized * BF16 + (1 - unquantized) * scheme.width
            mean = experts if part.name == EXPERTS else dense
            mean.add(part.share * part.parameters, width)
            replicated.add(part.share * part.replicated, width)
            if unquantized and part.parameters:
                layers = 1.0
                # a part that only some layers have is unquantized alike in all: the sum is of the layers
                # that are named
                if part.share < 1:
                    layers = unquantized * part.share
                unquantized_layers[part.name] = unquantized_layers.get(part.name, 0.0) + layers
    head = BF16
    if quantization.get("lm_head") is True:
        head = scheme.width
    return WeightFormat(
        name=scheme.name,
        dense=dense.width(scheme.width),
        experts=experts.width(scheme.width),
        # embedding and head are as large as each other
        ends=(BF16 + head) / 2,
        whole=replicated.width(BF16),
        computes=scheme.computes,
        sends=scheme.sends,
        method=method_of(quantization),
        kept=tuple(
            _layers_label(name, layers, model.layers) for name, layers in unquantized_layers.items()
        ),
    )


def _replicated(model: TransformerModel, layer: int) -> float:
    """Weights of a layer that every rank keeps: norms, routers and bottlenecks of attention."""
    return layer_parameters(model.known_shape, experts=model.has_experts(layer)).replicated


def _layers_label(part: str, layers: float, model_layers: int) -> str:
    """``dense FFNs of 3 of 61 layers``; the part alone where it is all layers."""
    whole_layers = round(layers)
    if whole_layers == model_layers:
        return part
    return f"{part} of {whole_layers} of {model_layers} layers"


class _LayerPart(NamedTuple):
    """Weights of a layer that a list of modules may leave out.

    Args:
        modules: names of its matrices, such as ``layers.0.self_attn.q_proj``; a list for each way in
            which families of models name them.
        parameters: weights of matrices that tensor parallelism divides, or of all experts.
        replicated: weights of matrices that every rank keeps.
        share: how many of this part a layer has, in the mean over layers: 0.25 where every fourth
            layer has one.
    """

    name: str
    modules: tuple[tuple[str, ...], ...]
    parameters: float
    replicated: float = 0.0
    share: float = 1.0


def _parts(model: TransformerModel, layer: int) -> list[_LayerPart]:
    """What has matrices in a layer: attention and the like, then an FFN, or shared and routed
    experts."""
    shape = model.known_shape
    root = f"layers.{layer}"
    parts = []
    for mixer in shape.parts:
        # some mixers have their matrices in the layer itself
        under = f"{root}.{mixer.description.under}".rstrip(".")
        names = tuple(f"{under}.{module}" for module in mixer.description.modules)
        parts.append(
            _LayerPart(
                mixer_name(mixer),
                (names,),
                parameters=mixer.split_parameters(),
                replicated=mixer.replicated_parameters(),
                share=mixer.share,
            )
        )
    moe = shape.moe
    if moe is None or not model.has_experts(layer):
        ffn = ffn_parameters(shape, shape.ffn)
        return [*parts, _LayerPart(DENSE, _ffn_names(root, ("",)), ffn, share=shape.fed)]
    shared = 0.0
    if moe.shared_ffn:
        shared = ffn_parameters(shape, moe.shared_ffn)
    shared_names = _ffn_names(root, (".shared_experts", ".shared_expert"))
    # a list names all experts or none: the first stands for them
    routed = (*_ffn_names(root, (".experts.0",)), (f"{root}.block_sparse_moe.experts.0.w1",))
    experts = moe.experts * expert_parameters(shape, moe)
    return [
        *parts,
        _LayerPart(SHARED, shared_names, shared),
        _LayerPart(EXPERTS, routed, experts),
    ]


def mixer_name(mixer: Mixer) -> str:
    """What people call an operation that mixes tokens: ``attention`` of every kind, else its own
    name."""
    return ATTENTION if mixer.description.attends else mixer.description.what


# what families call an FFN, or the experts in its place
_FFN_ROOTS = ("mlp", "feed_forward", "mixer", "block_sparse_moe")


def _ffn_names(root: str, inside: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The three matrices of an FFN by every name that families give it.

    Args:
        root: the layer, ``layers.0``.
        inside: where in the FFN's module they are: nowhere deeper (empty), or ``.experts.0``.
    """
    names = []
    for place in inside:
        for ffn in _FFN_ROOTS:
            under = f"{root}.{ffn}{place}"
            names.append(tuple(f"{under}.{name}" for name in ("gate_proj", "up_proj", "down_proj")))
    return tuple(names)


def _unquantized_shares(
    parts_of_layers: list[list[_LayerPart]], patterns: list[str]
) -> dict[tuple[str, int], float]:
    """The share of each part's modules that patterns leave out, by part and layer.

    Which layers have a part that only some have is not known: such a part is taken to be in all, as
    large as it is in the mean. Its share is then how many of the layers that have it are named.
    """
    matchers = [matcher for matcher in map(_matcher, patterns) if matcher is not None]
    shares: dict[tuple[str, int], float] = {}
    for layer, parts in enumerate(parts_of_layers):
        for part in parts:
            shares[part.name, layer] = _unquantized_share(part, matchers)
    layers = len(parts_of_layers)
    for part in parts_of_layers[0]:
        if 0 < part.share < 1:
            named = sum(shares.get((part.name, layer), 0.0) for layer in range(layers))
            for layer in range(layers):
                shares[part.name, layer] = min(1.0, named / (part.share * layers))
    return shares


def _unquantized_share(part: _LayerPart, matchers: list[re.Pattern[str]]) -> float:
    """The share of a part's modules that match, by the names of the family of which most do.

    Experts are left out together: of them one match counts for all.
    """
    most = 0.0
    for modules in part.modules:
        matches = 0
        for module in modules:
            # a regular expression may begin with the model
            full = f"model.{module}"
            if any(matcher.search(module) or matcher.search(full) for matcher in matchers):
                matches += 1
        most = max(most, matches / len(modules))
    if part.name in (EXPERTS, SHARED):
        return float(most > 0)
    return most


# model.layers.0 of a model of text, model.language_model.layers.0 of one of several parts
_PREFIX = re.compile(r"^(?:model\.|language_model\.)+")


def _matcher(pattern: str) -> re.Pattern[str] | None:
    """What finds the modules of a pattern; None for a regular expression that cannot be read.

    A pattern is whole parts of a name, with ``*`` for any text: ``model.layers.0.mlp``, ``lm_head``,
    ``*.self_attn``; or a regular expression after ``re:``, such as ``re:.*router``.
    """
    if pattern.startswith("re:"):
        try:
            return re.compile(pattern[3:])
        except re.error:
            return None
    plain = re.escape(_PREFIX.sub("", pattern)).replace(r"\*", ".*")
    return re.compile(rf"(?:^|\.){plain}(?:$|\.)")
