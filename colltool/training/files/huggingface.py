"""The shape of a model from its ``config.json``, as Hugging Face's transformers write it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from colltool.definitions.field_types import Accepted, Flag, Part
from colltool.training.files.config_keys import FAMILIES, Family
from colltool.training.files.schema import Dimension

_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True), Accepted("a whole number")]
_Types = Annotated[tuple[str, ...], Field(max_length=100_000), Accepted("a list with the type of each layer")]
NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size",),
}


class ConfigFile(Part):
    """The keys that make a shape; :mod:`colltool.training.files.config_keys` judges the others."""

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
    num_nextn_predict_layers: _Count | None = None
    q_lora_rank: Dimension | None = None
    kv_lora_rank: Dimension | None = None
    qk_nope_head_dim: Dimension | None = None
    qk_rope_head_dim: Dimension | None = None
    v_head_dim: Dimension | None = None


USED = frozenset(ConfigFile.model_fields)


def shape_of(config: ConfigFile, name: str) -> dict[str, Any]:
    """The ``model:`` mapping of a job for a config; keys that it does not say are left out."""
    family = FAMILIES[config.model_type]
    given = dict(config)
    first = {key: next((given[name] for name in names if given[name] is not None), None) for key, names in NAMES.items()}
    latent = config.kv_lora_rank is not None
    shape: dict[str, Any] = {
        "name": name,
        **first,
        "kv_heads": None if latent else _kv_heads(config),
        "head_dim": None if latent else config.head_dim,
        "ffn": _width(config, family, first["hidden"]),
        "gated": family.gated,
        "bias": family.bias,
        "tied": config.tie_word_embeddings if config.tie_word_embeddings is not None else family.tied,
        "positions": getattr(config, family.positions) if family.positions else None,
        **_windows(config, family, first["layers"] or 0),
        "moe": _moe(config),
        "mla": _mla(config) if latent else None,
        "left_out": _left_out(config),
    }
    if shape["ffn"] is None and shape["moe"]:
        shape["ffn"] = shape["moe"].get("ffn")
    return {key: value for key, value in shape.items() if value is not None}


def _kv_heads(config: ConfigFile) -> int | None:
    """Falcon reads ``num_kv_heads`` only in its new architecture; multi-query attention has one."""
    own = config.attn_config if isinstance(config.attn_config, dict) else {}
    if config.model_type in ("falcon", "gpt_bigcode") and not config.new_decoder_architecture:
        return 1 if config.multi_query is not False else None
    if own.get("attn_type") == "multiquery_attention":
        return 1
    named = config.num_key_value_heads or config.num_kv_heads or config.n_head_kv
    return named if named is not None else own.get("kv_n_heads")


def _width(config: ConfigFile, family: Family, hidden: int | None) -> int | None:
    named = config.intermediate_size or config.n_inner or config.ffn_dim or config.ffn_hidden_size
    wide = config.expansion_ratio or family.wide
    return named or (wide * hidden if hidden and wide else None)


def _windows(config: ConfigFile, family: Family, layers: int) -> dict[str, Any]:
    if not config.sliding_window or config.use_sliding_window is False:
        return {}
    if config.layer_types is not None:
        windowed = config.layer_types.count("sliding_attention")
    elif family.slides == "pattern":
        windowed = layers - layers // (config.sliding_window_pattern or family.pattern)
    elif family.slides == "upper":  # off unless switched on
        windowed = layers - (config.max_window_layers or 0) if config.use_sliding_window else 0
    else:
        windowed = layers if family.slides == "every" else -(-layers // 2)
    return {"window": config.sliding_window, "windowed_layers": windowed} if windowed > 0 else {}


def _left_out(config: ConfigFile) -> list[str] | None:
    ahead = config.num_nextn_predict_layers or 0
    more = "a layer that predicts" if ahead == 1 else f"{ahead} layers that predict"
    return [f"{more} further tokens (num_nextn_predict_layers)"] if ahead else None


def _moe(config: ConfigFile) -> dict[str, Any] | None:
    experts = config.n_routed_experts or config.num_local_experts or config.num_experts
    if experts is None:
        return None
    width = config.moe_intermediate_size or config.intermediate_size
    found = {
        "experts": experts,
        "top_k": config.num_experts_per_tok or config.experts_per_token,
        "ffn": width,
        "shared_ffn": config.shared_expert_intermediate_size or (config.n_shared_experts or 0) * (width or 0),
        "dense_layers": config.first_k_dense_replace or 0,
    }
    return {key: value for key, value in found.items() if value is not None}


def _mla(config: ConfigFile) -> dict[str, Any]:
    found = {
        "q_rank": config.q_lora_rank or 0,
        "kv_rank": config.kv_lora_rank,
        "nope": config.qk_nope_head_dim,
        "rope": config.qk_rope_head_dim,
        "value": config.v_head_dim,
    }
    return {key: value for key, value in found.items() if value is not None}
