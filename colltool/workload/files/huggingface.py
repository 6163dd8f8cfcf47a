"""A model's ``config.json`` as Hugging Face's transformers write it: the keys that say its shape, everything else passed over."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from colltool.fabric.accepted import Accepted
from colltool.fabric.values import Flag, Part
from colltool.workload.files.values import Dimension

_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True), Accepted("a whole number")]
NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size",),
}
"""What a shape needs, by the names that configs give it."""


class ConfigFile(Part):
    """The keys of a ``config.json`` that a shape is made of; configs hold many more."""

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
    head_dim: Dimension | None = None
    intermediate_size: Dimension | None = None
    n_inner: Dimension | None = None
    vocab_size: Dimension | None = None
    tie_word_embeddings: Flag | None = None
    n_positions: _Count | None = None
    num_local_experts: Dimension | None = None
    num_experts: Dimension | None = None
    n_routed_experts: Dimension | None = None
    num_experts_per_tok: Dimension | None = None
    moe_intermediate_size: Dimension | None = None
    n_shared_experts: _Count | None = None
    shared_expert_intermediate_size: _Count | None = None
    first_k_dense_replace: _Count | None = None
    q_lora_rank: Dimension | None = None
    kv_lora_rank: Dimension | None = None
    qk_nope_head_dim: Dimension | None = None
    qk_rope_head_dim: Dimension | None = None
    v_head_dim: Dimension | None = None


_OLD = ("gpt2", "gpt_neo", "gptj", "opt", "mpt", "bloom", "falcon", "gpt_bigcode")  # two matrices, GeLU


def shape_of(config: ConfigFile, name: str) -> dict[str, Any]:
    """The mapping of a model that a config means, as ``model:`` of a job would give it; what it does not say is left out."""
    first = {key: _first(config, names) for key, names in NAMES.items()}
    hidden, old = first["hidden"], str(config.model_type) in _OLD
    shape: dict[str, Any] = {
        "name": name,
        **first,
        "kv_heads": config.num_key_value_heads if config.kv_lora_rank is None else None,
        "head_dim": config.head_dim if config.kv_lora_rank is None else None,
        "ffn": config.intermediate_size or config.n_inner or (4 * hidden if hidden and old else None),
        "gated": not old,
        "bias": old,
        "tied": config.tie_word_embeddings if config.tie_word_embeddings is not None else old,
        "positions": config.n_positions if old else None,
        "moe": _moe(config),
        "mla": _mla(config),
    }
    if shape["ffn"] is None and shape["moe"]:
        shape["ffn"] = shape["moe"]["ffn"]
    return {key: value for key, value in shape.items() if value is not None}


def _first(config: ConfigFile, names: tuple[str, ...]) -> int | None:
    return next((getattr(config, name) for name in names if getattr(config, name) is not None), None)


def _moe(config: ConfigFile) -> dict[str, Any] | None:
    experts = config.n_routed_experts or config.num_local_experts or config.num_experts
    if experts is None or config.num_experts_per_tok is None:
        return None
    width = config.moe_intermediate_size or config.intermediate_size
    shared = config.shared_expert_intermediate_size or (config.n_shared_experts or 0) * (width or 0)
    return {
        "experts": experts,
        "top_k": config.num_experts_per_tok,
        "ffn": width,
        "shared_ffn": shared,
        "dense_layers": config.first_k_dense_replace or 0,
    }


def _mla(config: ConfigFile) -> dict[str, Any] | None:
    if config.kv_lora_rank is None or config.q_lora_rank is None:
        return None
    return {
        "q_rank": config.q_lora_rank,
        "kv_rank": config.kv_lora_rank,
        "nope": config.qk_nope_head_dim,
        "rope": config.qk_rope_head_dim,
        "value": config.v_head_dim,
    }
