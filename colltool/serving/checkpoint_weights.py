"""The format of a checkpoint's weights, as the ``quantization_config`` of a Hugging Face config.json
says: :func:`checkpoint_weights`.

A checkpoint quantizes linear layers only: embedding, head, norms and routers stay in 16 bits, and so
do the modules that its list leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.files import read_text
from colltool.definitions.reader import sourced
from colltool.serving.quantization import BF16, FORMATS, WeightFormat
from colltool.training.mixers import Mixer
from colltool.training.model import (
    TransformerModel,
    expert_parameters,
    ffn_parameters,
    layer_parameters,
)

# values of ``quant_method`` that are known
METHODS = (
    "fp8",
    "fbgemm_fp8",
    "mxfp4",
    "awq",
    "gptq",
    "compressed-tensors",
    "modelopt",
    "bitsandbytes",
)


class _Scheme(NamedTuple):
    """The format of quantized weights: bytes per weight with scales, and of products."""

    name: str
    width: float
    computes: str
    sends: str


def checkpoint_weights(path: str, model: TransformerModel) -> WeightFormat | None:
    """Return the format of the weights of a config.json's checkpoint; None where it says none.

    Raises:
        ColltoolError: a method of quantization that is not known.
    """
    # by the reader of configs, which has read this one before
    found = _quantization(sourced(read_text(path, "config", path), path)[0].data)
    if found is None or model.shape is None:
        return None
    method = str(found.get("quant_method", "")).lower().replace("_", "-")
    scheme = _scheme(method, found)
    if scheme is None:
        return None
    ignored = _patterns(found)
    if method == "mxfp4":
        # transformers quantizes nothing but experts
        ignored = [*ignored, "self_attn", "mlp.shared_expert", "mlp.shared_experts"]
    return _format(model, scheme, method, ignored, found)


def _quantization(data: Any) -> Mapping[str, Any] | None:
    """The quantization of a config: its own, or that of the text of a model of several parts."""
    config = _mapping(data)
    for part in (config, _mapping(config.get("text_config"))):
        for key in ("quantization_config", "compression_config"):
            found = _mapping(part.get(key))
            if found:
                return found
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    """A value of a config if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _scheme(method: str, found: Mapping[str, Any]) -> _Scheme | None:
    """The scheme of a method of quantization; None where it leaves the weights as they are."""
    match method:
        case "fp8":
            return _fp8(found.get("weight_block_size"))
        case "fbgemm-fp8":
            return _fp8()
        case "mxfp4":
            return _fp4(32)
        case "awq" | "gptq":
            return _integers(found.get("bits", 4), found.get("group_size", 128), method)
        case "compressed-tensors":
            return _compressed(found, method)
        case "modelopt" | "modelopt-fp4":
            return _modelopt(found)
        case "bitsandbytes":
            if found.get("load_in_4bit"):
                return _integers(4, 64, method)
            return _integers(8, 0, method)
    typed = clipped(str(found.get("quant_method", "")))
    what = f"quantization_config has the quant_method '{typed}', which is not known"
    if not typed:
        what = "quantization_config has no quant_method"
    near = nearest(typed, list(METHODS))
    raise ColltoolError(
        what,
        argument="job",
        fix=f"{near} known: {', '.join(METHODS)}; or say {argument_text('weights', 'fp8')}".strip(),
    )


def _fp8(block: Any = None) -> _Scheme:
    """Eight bits, and a scale of 32 for each block, such as [128, 128]; scales of rows or tensors
    count for nothing."""
    width: float = 1
    if isinstance(block, list):
        width += 4 / prod(size for size in block if isinstance(size, int) and size > 0)
    return _Scheme("fp8", width, "fp8", "fp8")


def _integers(bits: Any, group_size: Any, method: str) -> _Scheme:
    """Integers with a scale of 16 bits and a zero point for each group; products are in bf16."""
    if bits not in (2, 3, 4, 8):
        raise ColltoolError(
            f"quantization_config of {method} has {clipped(str(bits))} bits",
            argument="job",
            fix=f"2, 3, 4 or 8; or say {argument_text('weights', 'int4')}",
        )
    width = bits / 8
    if isinstance(group_size, int) and group_size > 0:
        width += (2 + bits / 8) / group_size
    return _Scheme(f"int{bits}", width, "bf16", "bf16")


def _compressed(found: Mapping[str, Any], method: str) -> _Scheme | None:
    """The weights of the first group of compressed-tensors: floats or integers of 4 or 8 bits."""
    groups = _mapping(found.get("config_groups"))
    first_group = _mapping(next(iter(groups.values()), None))
    weights = first_group.get("weights")
    # sparse or cache-only checkpoints quantize no weights
    if not isinstance(weights, Mapping):
        return None
    bits = weights.get("num_bits", 8)
    group_size = weights.get("group_size")
    quantizes_activations = isinstance(first_group.get("input_activations"), Mapping)
    if weights.get("type", "int") == "float":
        if bits == 4:
            return _fp4(group_size)
        scheme = _fp8(weights.get("block_structure"))
        if not quantizes_activations:
            scheme = scheme._replace(computes="bf16", sends="bf16")
        return scheme
    scheme = _integers(bits, group_size, method)
    if quantizes_activations and bits == 8:
        scheme = scheme._replace(computes="int8", sends="fp8")
    return scheme


def _fp4(group_size: Any) -> _Scheme:
    """Four bits as floats: nvfp4 in groups of 16, mxfp4 in groups of 32."""
    if group_size == 32:
        return _Scheme("mxfp4", FORMATS["mxfp4"], "fp8", "bf16")
    return _Scheme("nvfp4", FORMATS["nvfp4"], "nvfp4", "fp8")


def _modelopt(found: Mapping[str, Any]) -> _Scheme | None:
    """The weights by NVIDIA's ModelOpt, by the name of its algorithm or in groups as above."""
    algorithm = str(found.get("quant_algo") or "").upper()
    if not algorithm and "config_groups" in found:
        return _compressed(found, "modelopt")
    if algorithm in ("NVFP4", "NVFP4_AWQ"):
        return _fp4(16)
    if algorithm.startswith("FP8"):
        return _fp8(0)
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ", "INT4_AWQ"):
        return _integers(4, 128, "modelopt")
    what = f"quantization_config of modelopt has the quant_algo '{clipped(algorithm)}'"
    raise ColltoolError(
        f"{what}, which is not known",
        argument="job",
        fix=f"known: NVFP4, FP8, W4A16_AWQ; or say {argument_text('weights', 'nvfp4')}",
    )


def _patterns(found: Mapping[str, Any]) -> list[str]:
    """Names of modules that stay in 16 bits, as every method calls its list."""
    patterns: list[str] = []
    for key in ("modules_to_not_convert", "ignore", "exclude_modules", "llm_int8_skip_modules"):
        listed = found.get(key)
        if isinstance(listed, list):
            patterns += [str(entry) for entry in listed]
    # GPTQModel writes what it leaves out as "-:PATTERN" keys
    dynamic = found.get("dynamic")
    if isinstance(dynamic, Mapping):
        patterns += [f"re:{key[2:]}" for key in dynamic if str(key).startswith("-:")]
    return patterns


# prefixes of names that models of text and of several parts differ in
_PREFIX = re.compile(r"^(?:model\.|language_model\.)+")


def _matcher(pattern: str) -> re.Pattern[str] | None:
    """A pattern of a module list: a whole part of a name, with ``*``; or a regular expression after
    ``re:``. None for one that cannot be read.

    Such as ``model.layers.0.mlp``, ``lm_head``, ``*.self_attn`` or ``re:.*router``.
    """
    if pattern.startswith("re:"):
        try:
            return re.compile(pattern[3:])
        except re.error:
            return None
    plain = re.escape(_PREFIX.sub("", pattern)).replace(r"\*", ".*")
    return re.compile(rf"(?:^|\.){plain}(?:$|\.)")


ATTENTION = "attention"
SHARED = "shared experts"
EXPERTS = "experts"


class _Mean:
    """A mean of bytes per weight."""

    def __init__(self) -> None:
        self.bytes = 0.0
        self.weights = 0.0

    def add(self, weights: float, width: float) -> None:
        self.bytes += weights * width
        self.weights += weights

    def width(self, default: float) -> float:
        if not self.weights:
            return default
        return self.bytes / self.weights


class _LayerPart(NamedTuple):
    """Weights of a layer that a list of modules may leave out.

    Args:
        modules: names of its matrices; several lists where families call them differently.
        replicated: weights of matrices that every rank keeps.
        share: how many a layer has, in the mean over layers.
    """

    name: str
    modules: tuple[tuple[str, ...], ...]
    parameters: float
    replicated: float = 0.0
    share: float = 1.0


def _parts(model: TransformerModel, layer: int) -> list[_LayerPart]:
    """The linear modules of a layer, such as ``layers.0.self_attn.q_proj``, by the names that
    checkpoints give them."""
    shape = model.known_shape
    root = f"layers.{layer}"
    parts = []
    for mixer in shape.parts:
        under = f"{root}.{mixer.description.under}".rstrip(".")
        names = tuple(f"{under}.{module}" for module in mixer.description.modules)
        matrices = mixer.split_parameters(), mixer.replicated_parameters()
        parts.append(_LayerPart(mixer_name(mixer), (names,), *matrices, share=mixer.share))
    moe = shape.moe
    if moe is None or not model.has_experts(layer):
        ffn = ffn_parameters(shape, shape.ffn)
        names_of_ffn = _ffn_names(root, ("",))
        return [*parts, _LayerPart("dense FFNs", names_of_ffn, ffn, share=shape.fed)]
    shared = 0.0
    if moe.shared_ffn:
        shared = ffn_parameters(shape, moe.shared_ffn)
    shared_names = _ffn_names(root, (".shared_experts", ".shared_expert"))
    routed = (*_ffn_names(root, (".experts.0",)), (f"{root}.block_sparse_moe.experts.0.w1",))
    experts = moe.experts * expert_parameters(shape, moe)
    return [
        *parts,
        _LayerPart(SHARED, shared_names, shared),
        _LayerPart(EXPERTS, routed, experts),
    ]


def mixer_name(mixer: Mixer) -> str:
    """What people call the operation whose matrices are kept."""
    return ATTENTION if mixer.description.attends else mixer.description.what


# what families call an FFN, or the experts in its place
_FFN_ROOTS = ("mlp", "feed_forward", "mixer", "block_sparse_moe")


def _ffn_names(root: str, inside: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    found = []
    for place in inside:
        for ffn in _FFN_ROOTS:
            under = f"{root}.{ffn}{place}"
            found.append(tuple(f"{under}.{name}" for name in ("gate_proj", "up_proj", "down_proj")))
    return tuple(found)


def _format(
    model: TransformerModel,
    scheme: _Scheme,
    method: str,
    ignored: Iterable[str],
    found: Mapping[str, Any],
) -> WeightFormat:
    """The mean bytes per weight of each part, over all layers."""
    matchers = [matcher for matcher in map(_matcher, ignored) if matcher is not None]
    dense = _Mean()
    experts = _Mean()
    replicated = _Mean()
    layers_kept: dict[str, float] = {}  # by part
    parts_of_layers = [_parts(model, layer) for layer in range(model.layers)]
    kept = _kept_shares(parts_of_layers, matchers)
    for layer, parts in enumerate(parts_of_layers):
        bottlenecks = sum(part.share * part.replicated for part in parts)
        replicated.add(_replicated(model, layer) - bottlenecks, BF16)
        for part in parts:
            share = kept[part.name, layer]
            width = share * BF16 + (1 - share) * scheme.width
            mean = experts if part.name == EXPERTS else dense
            mean.add(part.share * part.parameters, width)
            replicated.add(part.share * part.replicated, width)
            if share and part.parameters:
                # of a part that some layers have, as many as the list names
                layers = 1.0
                if part.share < 1:
                    layers = share * part.share
                layers_kept[part.name] = layers_kept.get(part.name, 0.0) + layers
    head = BF16
    if found.get("lm_head") is True:
        head = scheme.width
    return WeightFormat(
        name=scheme.name,
        dense=dense.width(scheme.width),
        experts=experts.width(scheme.width),
        ends=(BF16 + head) / 2,
        whole=replicated.width(BF16),
        computes=scheme.computes,
        sends=scheme.sends,
        method=method,
        kept=tuple(_kept_words(name, layers, model.layers) for name, layers in layers_kept.items()),
    )


def _kept_shares(
    parts_of_layers: list[list[_LayerPart]], matchers: list[re.Pattern[str]]
) -> dict[tuple[str, int], float]:
    """The share of each part that a list leaves out, by part and layer.

    A part that only some layers have is taken to be in all, as large as it is in the mean: the
    share is then that of the layers that a list names.
    """
    kept: dict[tuple[str, int], float] = {}
    for layer, parts in enumerate(parts_of_layers):
        for part in parts:
            kept[part.name, layer] = _kept_share(part, matchers)
    layers = len(parts_of_layers)
    for part in parts_of_layers[0]:
        if 0 < part.share < 1:
            named = sum(kept.get((part.name, layer), 0.0) for layer in range(layers))
            for layer in range(layers):
                kept[part.name, layer] = min(1.0, named / (part.share * layers))
    return kept


def _kept_share(part: _LayerPart, matchers: list[re.Pattern[str]]) -> float:
    """The share of a part's modules that a list leaves out.

    Families name experts differently: one name that matches counts for all.
    """
    most = 0.0
    for modules in part.modules:
        hits = 0
        for module in modules:
            full = f"model.{module}"
            if any(matcher.search(module) or matcher.search(full) for matcher in matchers):
                hits += 1
        most = max(most, hits / len(modules))
    if part.name in (EXPERTS, SHARED):
        return float(most > 0)
    return most


def _replicated(model: TransformerModel, layer: int) -> float:
    """Weights of a layer that every rank keeps: norms, routers and bottlenecks of attention."""
    return layer_parameters(model.known_shape, experts=model.has_experts(layer)).replicated


def _kept_words(name: str, layers: float, of: int) -> str:
    """Such as ``dense FFNs of 3 of 61 layers``."""
    named = round(layers)
    if named == of:
        return name
    return f"{name} of {named} of {of} layers"
