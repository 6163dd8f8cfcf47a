"""The ``quantization_config`` of a Hugging Face config.json: in which format its method keeps
quantized weights (:func:`scheme_of`), and which modules it leaves out (:func:`unquantized_modules`).

:mod:`colltool.serving.checkpoint_weights` applies both to the layers of a model. Keys and names of
methods are those that transformers, compressed-tensors, AutoAWQ, GPTQModel and ModelOpt write.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.serving.quantization import FORMATS

# Values of ``quant_method`` that are known, as files write them; :func:`method_of` has dashes
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
# A ``quantization_config``, as JSON holds it
Quantization = Mapping[str, Any]


class QuantizationScheme(NamedTuple):
    """The format of quantized weights.

    Args:
        name: of the format, such as ``fp8`` or ``int4``.
        width: bytes per weight, its share of scales and zero points included.
        computes: format of the products with such weights.
        sends: format in which tokens go to experts with such weights.
    """

    name: str
    width: float
    computes: str
    sends: str


def quantization_of(config: Any) -> Quantization | None:
    """Return the quantization of a config; of a model of several parts that of its text. None where
    nothing is quantized."""
    whole = _mapping(config)
    for part in (whole, _mapping(whole.get("text_config"))):
        for key in ("quantization_config", "compression_config"):
            quantization = _mapping(part.get(key))
            if quantization:
                return quantization
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    """A value of a config if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def method_of(quantization: Quantization) -> str:
    """Return the method of a quantization, in lower case and with dashes: ``fbgemm-fp8``."""
    return str(quantization.get("quant_method", "")).lower().replace("_", "-")


def scheme_of(quantization: Quantization) -> QuantizationScheme | None:
    """Return the format of the quantized weights; None where the weights stay as they are.

    Raises:
        ColltoolError: a method, an algorithm or a number of bits that is not known.
    """
    method = method_of(quantization)
    match method:
        case "fp8":
            return _fp8(quantization.get("weight_block_size"))
        case "fbgemm-fp8":
            return _fp8()
        case "mxfp4":
            return _fp4(32)
        case "awq" | "gptq":
            # the defaults of both
            bits = quantization.get("bits", 4)
            return _integers(bits, quantization.get("group_size", 128), method)
        case "compressed-tensors":
            return _compressed(quantization, method)
        case "modelopt" | "modelopt-fp4":
            return _modelopt(quantization)
        case "bitsandbytes":
            if quantization.get("load_in_4bit"):
                return _integers(4, 64, method)
            return _integers(8, None, method)
    raise _unknown_method(clipped(str(quantization.get("quant_method", ""))))


def _unknown_method(typed: str) -> ColltoolError:
    """The error for a ``quant_method`` as the file has it, maybe empty."""
    what = f"quantization_config has the quant_method '{typed}', which is not known"
    if not typed:
        what = "quantization_config has no quant_method"
    near = nearest(typed, list(METHODS))
    return ColltoolError(
        what,
        argument="job",
        fix=f"{near} known: {', '.join(METHODS)}; or say {argument_text('weights', 'fp8')}".strip(),
    )


def _fp8(block: Any = None) -> QuantizationScheme:
    """Floats of 8 bits, with a scale of 32 bits for each block, such as [128, 128] weights.

    Without blocks a scale is of a row or a tensor, and counts for nothing.
    """
    width: float = 1
    # of a list that is no such block only its numbers count
    if isinstance(block, list):
        width += 4 / prod(size for size in block if isinstance(size, int) and size > 0)
    return QuantizationScheme("fp8", width, "fp8", "fp8")


def _fp4(group_size: Any) -> QuantizationScheme:
    """Floats of 4 bits: mxfp4 where 32 weights share a scale, else nvfp4 (16 do)."""
    if group_size == 32:
        return QuantizationScheme("mxfp4", FORMATS["mxfp4"], "fp8", "bf16")
    return QuantizationScheme("nvfp4", FORMATS["nvfp4"], "nvfp4", "fp8")


def _integers(bits: Any, group_size: Any, method: str) -> QuantizationScheme:
    """Integers, with a scale of 16 bits and a zero point of ``bits`` for each group; products are
    in bf16.

    Args:
        group_size: weights that share a scale; None, or -1 for a whole row: scales count for
            nothing.
        method: as an error names it.
    """
    if bits not in (2, 3, 4, 8):
        raise ColltoolError(
            f"quantization_config of {method} has {clipped(str(bits))} bits",
            argument="job",
            fix=f"2, 3, 4 or 8; or say {argument_text('weights', 'int4')}",
        )
    width = bits / 8
    if isinstance(group_size, int) and group_size > 0:
        width += (2 + bits / 8) / group_size
    return QuantizationScheme(f"int{bits}", width, "bf16", "bf16")


def _compressed(quantization: Quantization, method: str) -> QuantizationScheme | None:
    """The format by compressed-tensors: floats or integers of the first of its ``config_groups``.

    None for a sparse checkpoint, or one that quantizes its KV cache only.
    """
    groups = _mapping(quantization.get("config_groups"))
    first_group = _mapping(next(iter(groups.values()), None))
    weights = first_group.get("weights")
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
        # W8A8 multiplies integers; tokens still go to experts in fp8
        scheme = scheme._replace(computes="int8", sends="fp8")
    return scheme


def _modelopt(quantization: Quantization) -> QuantizationScheme | None:
    """The format by NVIDIA's ModelOpt: by the name of its algorithm, or without one in groups as
    compressed-tensors writes them."""
    algorithm = str(quantization.get("quant_algo") or "").upper()
    if not algorithm and "config_groups" in quantization:
        return _compressed(quantization, "modelopt")
    if algorithm in ("NVFP4", "NVFP4_AWQ"):
        return _fp4(16)
    if algorithm.startswith("FP8"):
        return _fp8()
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ", "INT4_AWQ"):
        return _integers(4, 128, "modelopt")
    what = f"quantization_config of modelopt has the quant_algo '{clipped(algorithm)}'"
    raise ColltoolError(
        f"{what}, which is not known",
        argument="job",
        fix=f"known: NVFP4, FP8, W4A16_AWQ; or say {argument_text('weights', 'nvfp4')}",
    )


def unquantized_modules(quantization: Quantization) -> list[str]:
    """Return patterns of the modules that stay in 16 bits: names, with ``*`` for any text, or
    regular expressions after ``re:``."""
    patterns: list[str] = []
    # every method has a key of its own for the list
    for key in ("modules_to_not_convert", "ignore", "exclude_modules", "llm_int8_skip_modules"):
        listed = quantization.get(key)
        if isinstance(listed, list):
            patterns += [str(entry) for entry in listed]
    # GPTQModel writes what it leaves out as "-:PATTERN" keys
    dynamic = quantization.get("dynamic")
    if isinstance(dynamic, Mapping):
        patterns += [f"re:{key[2:]}" for key in dynamic if str(key).startswith("-:")]
    if method_of(quantization) == "mxfp4":
        # transformers quantizes nothing but experts
        patterns += ["self_attn", "mlp.shared_expert", "mlp.shared_experts"]
    return patterns
