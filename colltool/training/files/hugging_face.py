"""Models from a Hugging Face ``config.json``.

Keys that change the size or work of a model are either used or refused by name
(:func:`unmodelled`); :func:`shape_of` makes the model of a job from the used ones.
``data/families.toml`` has the types of models that are known, and those that are refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, assert_never

from pydantic import ConfigDict, Field

from colltool.base.errors import ColltoolError, ManyErrors, nearest, printable, problems_of
from colltool.base.files import read_text
from colltool.base.primitives import ceil_div
from colltool.definitions.field_types import FieldHint, Flag, Part
from colltool.definitions.reader import read
from colltool.training.files import Dimension, ModelFile

# fixes of errors
KNOWN_TIMES = (
    "parameters and layers of the model as a mapping, with the times of compute:"
    " {forward_per_layer: 7ms, ...}"
)
SHAPE = (
    "give the model as a mapping: layers, hidden, heads, ffn, vocab ...; or parameters and layers,"
    " with the times of compute"
)
# keys that change a model, with the values at which they do not
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "decoder_sparse_step": (None, 0, 1),
    "moe_layer_freq": (None, 1),
    "mlp_only_layers": (None, []),
    "word_embed_proj_dim": (),  # the hidden size, which ``unmodelled`` fills in
    "is_encoder_decoder": (None, False),
    "add_cross_attention": (None, False),
    "attention_chunk_size": (None,),
    "chunk_size_feed_forward": (None, 0),
    "use_mup": (None, False),
}
ATTENTION = ("full_attention", "sliding_attention")  # kinds of layers in ``layer_types``
# kinds of attention in ``attn_config``
ATTENTION_TYPES = ("multihead_attention", "multiquery_attention", "grouped_query_attention")


class Family(NamedTuple):
    """Facts about a type of model that its configs do not have; ``data/families.toml`` explains
    each."""

    gated: bool = True
    bias: bool = False
    tied: bool = False
    positions: str = ""
    wide: int = 0
    slides: Literal["every", "alternate", "upper", "pattern"] = "every"
    pattern: int = 6


_TABLE = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "families.toml").read_text(encoding="utf-8")
)
# keys that change neither size nor work
HARMLESS = frozenset(_TABLE["harmless"])
FAMILIES = {kind: Family(**values) for kind, values in _TABLE["families"].items()}
# why types of models are refused
REASONS = {kind: why for why, kinds in _TABLE["refused"].items() for kind in kinds}
# parts of keys that sound like a size
_SIZED = re.compile("|".join(_TABLE["sized"]))


def unmodelled(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is not modelled of a config, as (key, what, fix): its type, or keys that change its
    size or work."""
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        yield _unknown_type(data, kind)
        return
    listed = data.get("layer_types")
    if isinstance(listed, list):
        others = [layer for layer in listed if layer not in ATTENTION]
        if others:
            what = (
                f"layer_types has {len(others)} of {len(listed)} layers of {_short_text(others[0])},"
                " which is not modelled"
            )
            yield "layer_types", what, SHAPE
    attention = _attention(data.get("attn_config")).get("attn_type", ATTENTION_TYPES[0])
    if attention not in ATTENTION_TYPES:
        yield "attn_config", f"attn_type {_short_text(attention)} is not modelled", SHAPE
    for key, value in data.items():
        if key in USED or key in HARMLESS:
            continue
        if key in NEUTRAL:
            neutral = NEUTRAL[key]
            if key == "word_embed_proj_dim":
                neutral = (data.get("hidden_size"),)
            if value not in neutral:
                yield key, f"{key} is {_short_text(value)}, which is not modelled", SHAPE
        # an unknown key that sounds like a size is refused unless it is switched off
        elif _SIZED.search(key.lower()) and value not in (None, False, 0, "", [], {}):
            what = (
                f"{key} is {_short_text(value)}: nothing is known of this key of {kind}, and it may"
                " change the model"
            )
            yield key, what, SHAPE


def _attention(config: Any) -> Mapping[str, Any]:
    return config if isinstance(config, Mapping) else {}


def _unknown_type(data: Mapping[str, Any], kind: Any) -> tuple[str, str, str]:
    """Return (key, what, fix) for a type of model that is not known."""
    parts = []
    for key, value in data.items():
        if key.endswith("_config") and isinstance(value, Mapping) and "hidden_size" in str(value):
            parts.append(key)
    if parts:
        what = f"{kind} is not modelled: a model of several parts ({', '.join(parts)})"
        fix = "the text alone: its text_config as a config.json of its own, with its model_type"
        return parts[0], what, fix
    if kind is None:
        fix = f'"model_type": "llama"; or {SHAPE}'
        return "model_type", "no model_type: nothing says how its layers are made", fix
    typed = printable(str(kind))[:60]
    what = f"model_type '{typed}' is not modelled"
    if isinstance(kind, str) and kind in REASONS:
        return "model_type", f"{what}: {REASONS[kind]}", KNOWN_TIMES
    known = ", ".join(sorted(FAMILIES))
    fix = f"{nearest(typed, list(FAMILIES))} {SHAPE}; modelled: {known}".strip()
    return "model_type", what, fix


def _short_text(value: Any) -> str:
    """Return a value as text for an error, at most 60 characters."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return printable(str(value))[:60]


_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True), FieldHint("a whole number")]
_Types = Annotated[
    tuple[str, ...], Field(max_length=100_000), FieldHint("a list with the type of each layer")
]
# keys of a shape that families spell differently
NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size",),
}


class ConfigFile(Part):
    """The keys that make a shape; :func:`unmodelled` judges the others."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)

    model_type: Any = None
    hidden_size: Dimension | None = None
    n_embd: Dimension | None = None
    d_model: Dimension | None = None
    num_hidden_layers: Dimension | None = None
    n_layer: Dimension | None = None
    n_layers: Dimension | None = None
    num_attention_heads: Dimension | None = None
    n_head: Dimension | None = None
    n_heads: Dimension | None = None
    num_key_value_heads: Dimension | None = None
    num_kv_heads: Dimension | None = None
    n_head_kv: Dimension | None = None
    multi_query: Flag | None = None
    new_decoder_architecture: Flag | None = None
    attn_config: Any = None
    head_dim: Dimension | None = None
    intermediate_size: Dimension | None = None
    n_inner: Dimension | None = None
    ffn_dim: Dimension | None = None
    ffn_hidden_size: Dimension | None = None
    expansion_ratio: Dimension | None = None
    vocab_size: Dimension | None = None
    tie_word_embeddings: Flag | None = None
    n_positions: _Count | None = None
    max_position_embeddings: Any = None
    sliding_window: _Count | None = None
    use_sliding_window: Flag | None = None
    max_window_layers: _Count | None = None
    sliding_window_pattern: Dimension | None = None
    layer_types: _Types | None = None
    num_local_experts: Dimension | None = None
    num_experts: Dimension | None = None
    n_routed_experts: Dimension | None = None
    num_experts_per_tok: Dimension | None = None
    experts_per_token: Dimension | None = None
    moe_intermediate_size: Dimension | None = None
    n_shared_experts: _Count | None = None
    shared_expert_intermediate_size: _Count | None = None
    first_k_dense_replace: _Count | None = None
    n_group: Dimension | None = None
    topk_group: Dimension | None = None
    num_nextn_predict_layers: _Count | None = None
    q_lora_rank: Dimension | None = None
    kv_lora_rank: Dimension | None = None
    qk_nope_head_dim: Dimension | None = None
    qk_rope_head_dim: Dimension | None = None
    v_head_dim: Dimension | None = None


USED = frozenset(ConfigFile.model_fields)


def shape_of(config: ConfigFile, name: str) -> dict[str, Any]:
    """Return the ``model:`` mapping of a job for a config, without keys that it does not give."""
    family, values = FAMILIES[config.model_type], dict(config)
    sizes = {}
    for key, spellings in NAMES.items():
        sizes[key] = next((values[key] for key in spellings if values[key] is not None), None)
    moe, mla = _moe(config), _mla(config)
    ffn = config.intermediate_size or config.n_inner or config.ffn_dim or config.ffn_hidden_size
    expansion, hidden = config.expansion_ratio or family.wide, sizes["hidden"]
    if not ffn and hidden and expansion:
        ffn = expansion * hidden
    if not ffn and moe is not None:
        ffn = moe.get("ffn")
    return _without_none(
        name=name,
        **sizes,
        kv_heads=None if mla else _kv_heads(config),
        head_dim=None if mla else config.head_dim,
        ffn=ffn,
        gated=family.gated,
        bias=family.bias,
        tied=family.tied if config.tie_word_embeddings is None else config.tie_word_embeddings,
        positions=values[family.positions] if family.positions else None,
        **_windows(config, family, sizes["layers"] or 0),
        moe=moe,
        mla=mla,
        left_out=_left_out(config.num_nextn_predict_layers or 0),
    )


def _without_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _left_out(ahead: int) -> list[str] | None:
    """Return what is not counted of a model: layers of multi-token prediction."""
    if not ahead:
        return None
    layers = "a layer that predicts" if ahead == 1 else f"{ahead} layers that predict"
    return [f"{layers} further tokens (num_nextn_predict_layers)"]


def _mla(config: ConfigFile) -> dict[str, Any] | None:
    """Return latent attention; None where keys and values have no bottleneck."""
    if config.kv_lora_rank is None:
        return None
    return _without_none(
        q_rank=config.q_lora_rank or 0,
        kv_rank=config.kv_lora_rank,
        nope=config.qk_nope_head_dim,
        rope=config.qk_rope_head_dim,
        value=config.v_head_dim,
    )


def _kv_heads(config: ConfigFile) -> int | None:
    """Return the heads of keys and values; None for as many as of queries.

    Falcon reads ``num_kv_heads`` only in its new architecture; multi-query attention has one.
    """
    attention = _attention(config.attn_config)
    if config.model_type in ("falcon", "gpt_bigcode") and not config.new_decoder_architecture:
        return None if config.multi_query is False else 1
    if attention.get("attn_type") == "multiquery_attention":
        return 1
    heads = config.num_key_value_heads or config.num_kv_heads or config.n_head_kv
    return heads or attention.get("kv_n_heads")


def _windows(config: ConfigFile, family: Family, layers: int) -> dict[str, Any]:
    """Return the window of attention and its number of layers; empty without a window."""
    if not config.sliding_window or config.use_sliding_window is False:
        return {}
    windowed = _windowed_layers(config, family, layers)
    if windowed <= 0:
        return {}
    return {"window": config.sliding_window, "windowed_layers": windowed}


def _windowed_layers(config: ConfigFile, family: Family, layers: int) -> int:
    """Return the number of layers with a window."""
    if config.layer_types is not None:
        return config.layer_types.count("sliding_attention")
    match family.slides:
        case "every":
            return layers
        case "alternate":
            return ceil_div(layers, 2)
        case "pattern":
            return layers - layers // (config.sliding_window_pattern or family.pattern)
        case "upper":  # off unless switched on
            return layers - (config.max_window_layers or 0) if config.use_sliding_window else 0
        case _:
            assert_never(family.slides)


def _moe(config: ConfigFile) -> dict[str, Any] | None:
    """Return the experts of a model; None where it has none."""
    experts = config.n_routed_experts or config.num_local_experts or config.num_experts
    if experts is None:
        return None
    width = config.moe_intermediate_size or config.intermediate_size
    shared = config.shared_expert_intermediate_size or (config.n_shared_experts or 0) * (width or 0)
    found = _without_none(
        experts=experts,
        top_k=config.num_experts_per_tok or config.experts_per_token,
        ffn=width,
        shared_ffn=shared,
        dense_layers=config.first_k_dense_replace or 0,
    )
    if (config.n_group or 1) > 1:
        found |= _without_none(groups=config.n_group, top_groups=config.topk_group)
    return found


def read_config(path: str) -> ModelFile:
    """Read the model of a config.json.

    Raises:
        ManyErrors: all that is not modelled.
    """
    reading = read(ConfigFile, read_text(path, "config", path), path)
    for key, what, fix in unmodelled(reading.data):
        reading.refuse((key,), what, fix, about_key=True)
    config = reading.result()
    name = Path(path).parent.name if Path(path).name == "config.json" else Path(path).stem
    try:
        return read(ModelFile, shape_of(config, name[:100])).result()
    except ManyErrors as error:
        where = f"{printable(path)}:1:1"
        fix = "give the model as a mapping: layers, hidden, heads, ffn, vocab ..."
        errors = [
            ColltoolError(problem.what, where=where, fix=problem.fix or fix)
            for problem in problems_of(error)
        ]
        raise ManyErrors(errors) from error
