"""Formats of a served model's weights: one for all of them, or the checkpoint's own, as the
``quantization_config`` of a Hugging Face config.json says.

A checkpoint quantizes linear layers only: embedding, head, norms and routers stay in 16 bits, and so
do the modules that its list leaves out. :func:`checkpoint_weights` finds the bytes of each part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.files import read_text
from colltool.definitions.reader import sourced
from colltool.engines.tokens import WIDTHS
from colltool.training.mixers import Mixer
from colltool.training.model import (
    TransformerModel,
    expert_parameters,
    ffn_parameters,
    layer_parameters,
)

BF16 = 2.0
FORMATS = {**WIDTHS, "mxfp4": 0.5 + 1 / 32, "int4": 0.5 + 2.5 / 128}
"""Bytes of a weight with its scales: mxfp4 has one of 8 bits for 32 weights, int4 one of 16 bits and
a zero point of 4 for 128."""
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
"""Values of ``quant_method`` that are known."""
# of a device without the format of the weights, the next that it may compute in
_PEAKS = {"nvfp4": "fp4"}


class WeightFormat(NamedTuple):
    """How a model's weights are kept, in bytes per weight.

    Args:
        name: the format of the quantized weights.
        dense: mean over attention, dense FFNs and shared experts.
        experts: of routed experts.
        ends: of embedding and head.
        whole: of what every rank keeps whole: norms, routers and the like.
        computes: format of the fastest products of such weights: sets the peak of the device.
        sends: format in which tokens go to their experts.
        method: how a checkpoint calls it; empty where the user chose the format.
        kept: parts that the checkpoint keeps in bf16, for people.
    """

    name: str
    dense: float
    experts: float
    ends: float
    whole: float
    computes: str
    sends: str
    method: str = ""
    kept: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``weights: fp8 as in the checkpoint``."""
        return f"weights: {self.name}{' as in the checkpoint' if self.method else ''}"

    def peak(self, peaks: Mapping[str, float]) -> float:
        """FLOP/s of a device in this format, or in bf16 where it has no such products."""
        rate = peaks.get(_PEAKS.get(self.computes, self.computes))
        return rate or peaks.get("bf16") or next(iter(peaks.values()))


def uniform(name: str) -> WeightFormat:
    """All weights in one format.

    Raises:
        ColltoolError: a format that is not known.
    """
    if name not in FORMATS:
        fix = f"{nearest(name, list(FORMATS))} one of {', '.join(FORMATS)}".strip()
        raise ColltoolError(f"'{clipped(name)}' is not known", argument="weights", fix=fix)
    width = FORMATS[name]
    # weights of 4 bits are expanded for products of 16 bits, or of 8 where the GPU has such kernels
    computes = {"mxfp4": "fp8", "int4": "bf16"}.get(name, name)
    sends = "fp8" if name in ("fp8", "int8", "nvfp4") else "bf16"
    return WeightFormat(
        name=name,
        dense=width,
        experts=width,
        ends=width,
        whole=width,
        computes=computes,
        sends=sends,
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
    if not isinstance(data, Mapping):
        return None
    text = data.get("text_config")
    for part in (data, text if isinstance(text, Mapping) else {}):
        for key in ("quantization_config", "compression_config"):
            found = part.get(key)
            if isinstance(found, Mapping) and found:
                return found
    return None


def _scheme(method: str, found: Mapping[str, Any]) -> _Scheme | None:
    match method:
        case "fp8":
            block = found.get("weight_block_size")
            return _fp8(_product(block) if isinstance(block, list) else 0)
        case "fbgemm-fp8":
            return _fp8(0)
        case "mxfp4":
            return _Scheme("mxfp4", FORMATS["mxfp4"], "fp8", "bf16")
        case "awq" | "gptq":
            return _integers(found.get("bits", 4), found.get("group_size", 128), method)
        case "compressed-tensors":
            return _compressed(found, method)
        case "modelopt" | "modelopt-fp4":
            return _modelopt(found)
        case "bitsandbytes":
            bits = 4 if found.get("load_in_4bit") else 8
            return _integers(bits, 64 if bits == 4 else 0, method)
    typed = clipped(str(found.get("quant_method", "")))
    what = f"quantization_config has the quant_method '{typed}', which is not known"
    if not typed:
        what = "quantization_config has no quant_method"
    near = nearest(typed, list(METHODS))
    fix = f"{near} known: {', '.join(METHODS)}; or say {argument_text('weights', 'fp8')}".strip()
    raise ColltoolError(what, argument="job", fix=fix)


def _product(block: Iterable[Any]) -> int:
    values = 1
    for size in block:
        values *= size if isinstance(size, int) and size > 0 else 1
    return values


def _fp8(block: int) -> _Scheme:
    """Eight bits, and a scale of 32 for each block; scales of rows or tensors count for nothing."""
    return _Scheme("fp8", 1 + (4 / block if block else 0), "fp8", "fp8")


def _integers(bits: Any, group: Any, method: str) -> _Scheme:
    """Integers with a scale of 16 bits and a zero point for each group; products are in bf16."""
    if bits not in (2, 3, 4, 8):
        raise ColltoolError(
            f"quantization_config of {method} has {clipped(str(bits))} bits",
            argument="job",
            fix=f"2, 3, 4 or 8; or say {argument_text('weights', 'int4')}",
        )
    width = bits / 8
    if isinstance(group, int) and group > 0:
        width += (2 + bits / 8) / group
    return _Scheme(f"int{bits}", width, "bf16", "bf16")


def _compressed(found: Mapping[str, Any], method: str) -> _Scheme | None:
    """The weights of the first group of compressed-tensors: floats or integers of 4 or 8 bits."""
    groups = found.get("config_groups")
    rows = list(groups.values()) if isinstance(groups, Mapping) else []
    row = rows[0] if rows and isinstance(rows[0], Mapping) else {}
    weights = row.get("weights")
    # sparse or cache-only checkpoints quantize no weights
    if not isinstance(weights, Mapping):
        return None
    bits = weights.get("num_bits", 8)
    group = weights.get("group_size")
    activations = isinstance(row.get("input_activations"), Mapping)
    if weights.get("type", "int") == "float":
        if bits == 4:
            return _fp4(group)
        block = weights.get("block_structure")
        scheme = _fp8(_product(block) if isinstance(block, list) else 0)
        return scheme if activations else scheme._replace(computes="bf16", sends="bf16")
    scheme = _integers(bits, group, method)
    if activations and bits == 8:
        return scheme._replace(computes="int8", sends="fp8")
    return scheme


def _fp4(group: Any) -> _Scheme:
    """Four bits as floats: nvfp4 in groups of 16, mxfp4 in groups of 32."""
    if group == 32:
        return _Scheme("mxfp4", FORMATS["mxfp4"], "fp8", "bf16")
    return _Scheme("nvfp4", WIDTHS["nvfp4"], "nvfp4", "fp8")


def _modelopt(found: Mapping[str, Any]) -> _Scheme | None:
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
    ``re:``. None for one that cannot be read."""
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
        return self.bytes / self.weights if self.weights else default


class _LayerPart(NamedTuple):
    """Weights of a layer that a list of modules may leave out.

    Args:
        modules: names of its matrices; several lists where families call them differently.
        replicated: weights of matrices that every rank keeps.
        share: how many a layer has, in the mean over layers.
    """

    said: str
    modules: tuple[tuple[str, ...], ...]
    parameters: float
    replicated: float = 0.0
    share: float = 1.0


def _parts(model: TransformerModel, layer: int) -> list[_LayerPart]:
    """The linear modules of a layer by the names that checkpoints give them."""
    shape = model.shape
    assert shape is not None
    root = f"layers.{layer}"
    parts = []
    for mixer in shape.parts:
        under = f"{root}.{mixer.description.under}".rstrip(".")
        names = tuple(f"{under}.{module}" for module in mixer.description.modules)
        matrices = mixer.split_parameters(), mixer.replicated_parameters()
        parts.append(_LayerPart(mixer_name(mixer), (names,), *matrices, share=mixer.share))
    moe = shape.moe if model.has_experts(layer) else None
    if moe is None:
        ffn = ffn_parameters(shape, shape.ffn)
        names_of_ffn = _ffn_names(root, ("",))
        return [*parts, _LayerPart("dense FFNs", names_of_ffn, ffn, share=shape.fed)]
    shared = ffn_parameters(shape, moe.shared_ffn) if moe.shared_ffn else 0.0
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
    left_out: dict[str, float] = {}
    parts_of_layers = [_parts(model, layer) for layer in range(model.layers)]
    kept = _kept_shares(parts_of_layers, matchers)
    for layer, parts in enumerate(parts_of_layers):
        bottlenecks = sum(part.share * part.replicated for part in parts)
        replicated.add(_replicated(model, layer) - bottlenecks, BF16)
        for part in parts:
            share = kept[part.said, layer]
            width = share * BF16 + (1 - share) * scheme.width
            mean = experts if part.said == EXPERTS else dense
            mean.add(part.share * part.parameters, width)
            replicated.add(part.share * part.replicated, width)
            if share and part.parameters:
                # of a part that some layers have, as many as the list names
                layers = 1.0
                if part.share < 1:
                    layers = share * part.share
                left_out[part.said] = left_out.get(part.said, 0.0) + layers
    head = scheme.width if found.get("lm_head") is True else BF16
    return WeightFormat(
        name=scheme.name,
        dense=dense.width(scheme.width),
        experts=experts.width(scheme.width),
        ends=(BF16 + head) / 2,
        whole=replicated.width(BF16),
        computes=scheme.computes,
        sends=scheme.sends,
        method=method,
        kept=tuple(_kept_words(said, layers, model.layers) for said, layers in left_out.items()),
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
            kept[part.said, layer] = _kept_share(part, matchers)
    layers = len(parts_of_layers)
    for part in parts_of_layers[0]:
        if 0 < part.share < 1:
            named = sum(kept.get((part.said, layer), 0.0) for layer in range(layers))
            for layer in range(layers):
                kept[part.said, layer] = min(1.0, named / (part.share * layers))
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
    if part.said in (EXPERTS, SHARED):
        return 1.0 if most else 0.0
    return most


def _replicated(model: TransformerModel, layer: int) -> float:
    """Weights of a layer that every rank keeps: norms, routers and bottlenecks of attention."""
    assert model.shape is not None
    return layer_parameters(model.shape, experts=model.has_experts(layer)).replicated


def _kept_words(said: str, layers: float, of: int) -> str:
    named = round(layers)
    if named == of:
        return said
    return f"{said} of {named} of {of} layers"
