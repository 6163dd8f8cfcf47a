"""Shipped jobs, models, devices and stacks, and the files that a job names.

A Hugging Face ``config.json`` gives a model's shape; its keys that change size or work are either
known or refused by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict, Field

from colltool.base.errors import ColltoolError, ManyErrors, nearest, printable, problems_of
from colltool.base.files import read_text
from colltool.definitions.field_types import Accepted, Flag, Part
from colltool.definitions.reader import read, sourced
from colltool.fabric.load import SUFFIX, exists
from colltool.training.files import DeviceFile, Dimension, ModelFile, StackFile

KNOWN_TIMES = (
    "parameters and layers of the model as a mapping, with the times of compute:"
    " {forward_per_layer: 7ms, ...}"
)
SHAPE = (
    "give the model as a mapping: layers, hidden, heads, ffn, vocab ...; or parameters and layers,"
    " with the times of compute"
)
_HARMLESS = (
    "_remove_final_layer_norm apply_residual_connection_post_layernorm compression_config"
    " do_layer_norm_before ep_size ffn_bias init_config layer_norm_bias"
    " layer_norm_elementwise_affine layer_norm_eps layer_norm_epsilon layer_norm_rms_epsilon"
    " layerdrop layernorm_epsilon mlp_bias no_rope_layer_interval no_rope_layers"
    " output_hidden_states output_router_logits pruned_heads qk_layernorm quantization_config"
    " rope_local_base_freq rotary_dim router_aux_loss_coef router_bias_update_rate"
    " router_jitter_noise router_z_loss_coef scale_attn_by_inverse_layer_idx use_mamba_kernels"
    " use_pad_tok_in_ffn vocab_size_pad "
)
HARMLESS = frozenset(_HARMLESS.split())
# Keys that sound like a size or a structure, but change neither size nor work by a hundredth.

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "decoder_sparse_step": (None, 0, 1),
    "moe_layer_freq": (None, 1),
    "mlp_only_layers": (None, []),
    "word_embed_proj_dim": (),  # the hidden size, see below
    "is_encoder_decoder": (None, False),
    "add_cross_attention": (None, False),
    "attention_chunk_size": (None,),
    "chunk_size_feed_forward": (None, 0),
    "use_mup": (None, False),
}
# Keys that change a model, with the values at which they do not.

ATTENTION = ("full_attention", "sliding_attention")  # that ``layer_types`` may name
_SIZED = re.compile(
    r"layer|expert|head|dim|size|rank|width|window|chunk|mamba|ssm|conv|linear|state|recurren|vision|visual|audio|image|video|speech|"
    r"config$|mtp|nextn|lora|kernel|memory|local|sparse|moe|mlp|ffn|ff_|inner|hybrid|block|group|step|cross|index|lightning|"
    r"delta|mixer|share|router|period|offset|gate|latent|compress|altup|laurel"
)
# An unknown key with one of these in its name is taken to be a size or a structure.


Slides = Literal["every", "alternate", "upper", "pattern"]


class Family(NamedTuple):
    gated: bool = True  # three FFN matrices instead of two
    bias: bool = False  # of all linear layers and norms
    tied: bool = False  # unless the config says otherwise
    positions: str = ""  # the key with the number of learned positions
    wide: int = 0  # FFN width over hidden where no key gives it
    # layers with a window where none are listed; "upper": from max_window_layers on
    slides: Slides = "every"
    pattern: int = 6  # with "pattern", all layers but each pattern-th


_GPT = Family(gated=False, bias=True, tied=True, wide=4)
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(
        ("llama", "mistral", "mixtral", "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe"),
        Family(),
    ),
    **dict.fromkeys(
        ("olmo", "olmo2", "olmoe", "granite", "granitemoe", "stablelm", "phi3", "internlm2"),
        Family(),
    ),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), Family(slides="upper")),
    **dict.fromkeys(("gemma", "cohere", "smollm3"), Family(tied=True)),
    "gemma2": Family(tied=True, slides="alternate"),
    "gemma3_text": Family(tied=True, slides="pattern"),
    "cohere2": Family(tied=True, slides="pattern", pattern=4),
    "gpt_oss": Family(slides="alternate"),
    "nemotron": Family(gated=False),  # squared ReLU
    "starcoder2": Family(gated=False, bias=True, tied=True),
    **dict.fromkeys(("phi", "gpt_neox"), Family(gated=False, bias=True)),
    "gptj": Family(gated=False, bias=True, wide=4),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _GPT._replace(positions="n_positions")),
    "bloom": _GPT,
    "opt": _GPT._replace(positions="max_position_embeddings"),
    **dict.fromkeys(("falcon", "mpt"), Family(gated=False, tied=True, wide=4)),
}

_LACKING = {
    "Mamba layers": (
        "jamba bamba zamba zamba2 nemotron_h falcon_h1 granitemoehybrid mamba mamba2 falcon_mamba"
    ),
    "layers of linear attention": (
        "qwen3_next minimax minimax_text_01 kimi_linear rwkv rwkv5 bailing_moe_linear"
    ),
    "recurrent layers": "recurrent_gemma retnet xlstm",
    "several parts, images or sound beside the text": (
        "gemma3 gemma3n llama4 mllama llava llava_next mistral3 pixtral qwen2_vl qwen2_5_vl"
        " qwen3_vl qwen3_vl_moe qwen2_5_omni paligemma idefics3 internvl_chat deepseek_vl_v2"
    ),
    "an encoder": "bert roberta deberta-v2 modernbert t5 mt5 bart whisper",
    "attention in chunks, and experts in every other layer": "llama4_text",
    "local attention in every other layer": "gpt_neo",
    "sparse attention": "deepseek_v32",
    "layers of different shapes": "nemotron-nas",
    "keys of its own (ffn_config, attn_config)": "dbrx",
}
REASONS = {kind: why for why, kinds in _LACKING.items() for kind in kinds.split()}


def unmodelled(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What of a config is not modelled, as (key, what, fix): its type, or keys that change its size
    or work."""
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        yield _unknown_type(data, kind)
        return
    listed = data.get("layer_types")
    if others := (
        [one for one in listed if one not in ATTENTION] if isinstance(listed, list) else []
    ):
        what = (
            f"layer_types has {len(others)} of {len(listed or ())} layers of {_told(others[0])},"
            " which is not modelled"
        )
        yield "layer_types", what, SHAPE
    own = data.get("attn_config")
    attention = (
        own.get("attn_type", "multihead_attention")
        if isinstance(own, Mapping)
        else "multihead_attention"
    )
    if attention not in ("multihead_attention", "multiquery_attention", "grouped_query_attention"):
        yield "attn_config", f"attn_type {_told(attention)} is not modelled", SHAPE
    for key, value in data.items():
        if key in USED or key in HARMLESS:
            continue
        if key in NEUTRAL:
            if (
                value != data.get("hidden_size")
                if key == "word_embed_proj_dim"
                else value not in NEUTRAL[key]
            ):
                yield key, f"{key} is {_told(value)}, which is not modelled", SHAPE
        elif _SIZED.search(key.lower()) and value not in (None, False, 0, "", [], {}):
            yield (
                key,
                (
                    f"{key} is {_told(value)}: nothing is known of this key of {kind}, and it may"
                    " change the model"
                ),
                SHAPE,
            )


def _unknown_type(data: Mapping[str, Any], kind: Any) -> tuple[str, str, str]:
    parts = [
        key
        for key in data
        if key.endswith("_config")
        and isinstance(data[key], Mapping)
        and "hidden_size" in str(data[key])
    ]
    if parts:
        what = f"{kind} is not modelled: a model of several parts ({', '.join(parts)})"
        return (
            parts[0],
            what,
            "the text alone: its text_config as a config.json of its own, with its model_type",
        )
    if kind is None:
        fix = f'"model_type": "llama"; or {SHAPE}'
        return "model_type", "no model_type: nothing says how its layers are made", fix
    said = printable(str(kind))[:60]
    what = f"model_type '{said}' is not modelled"
    if isinstance(kind, str) and kind in REASONS:
        return "model_type", f"{what}: {REASONS[kind]}", KNOWN_TIMES
    return (
        "model_type",
        what,
        f"{nearest(said, list(FAMILIES))} {SHAPE}; modelled: {', '.join(sorted(FAMILIES))}".strip(),
    )


def _told(value: Any) -> str:
    text = (
        "a mapping"
        if isinstance(value, Mapping)
        else "a list"
        if isinstance(value, list)
        else printable(str(value))
    )
    return text[:60]


_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True), Accepted("a whole number")]
_Types = Annotated[
    tuple[str, ...], Field(max_length=100_000), Accepted("a list with the type of each layer")
]
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
    """The ``model:`` mapping of a job for a config; keys that it does not say are left out."""
    family, given = FAMILIES[config.model_type], dict(config)
    first = {
        key: next((given[name] for name in names if given[name] is not None), None)
        for key, names in NAMES.items()
    }
    wide, hidden = config.expansion_ratio or family.wide, first["hidden"]
    width = config.intermediate_size or config.n_inner or config.ffn_dim or config.ffn_hidden_size
    latent, moe, ahead = (
        config.kv_lora_rank is not None,
        _moe(config),
        config.num_nextn_predict_layers or 0,
    )
    bottlenecks = {"q_rank": config.q_lora_rank or 0, "kv_rank": config.kv_lora_rank}
    heads = {
        "nope": config.qk_nope_head_dim,
        "rope": config.qk_rope_head_dim,
        "value": config.v_head_dim,
    }
    mla = _said(**bottlenecks, **heads) if latent else None
    more = "a layer that predicts" if ahead == 1 else f"{ahead} layers that predict"
    return _said(
        name=name,
        **first,
        kv_heads=None if latent else _kv_heads(config),
        head_dim=None if latent else config.head_dim,
        ffn=width or (wide * hidden if hidden and wide else None) or (moe or {}).get("ffn"),
        gated=family.gated,
        bias=family.bias,
        tied=config.tie_word_embeddings if config.tie_word_embeddings is not None else family.tied,
        positions=getattr(config, family.positions) if family.positions else None,
        **_windows(config, family, first["layers"] or 0),
        moe=moe,
        mla=mla,
        left_out=[f"{more} further tokens (num_nextn_predict_layers)"] if ahead else None,
    )


def _said(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _kv_heads(config: ConfigFile) -> int | None:
    """Falcon reads ``num_kv_heads`` only in its new architecture; multi-query attention has one."""
    own = config.attn_config if isinstance(config.attn_config, dict) else {}
    if config.model_type in ("falcon", "gpt_bigcode") and not config.new_decoder_architecture:
        return 1 if config.multi_query is not False else None
    if own.get("attn_type") == "multiquery_attention":
        return 1
    named = config.num_key_value_heads or config.num_kv_heads or config.n_head_kv
    return named if named is not None else own.get("kv_n_heads")


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


def _moe(config: ConfigFile) -> dict[str, Any] | None:
    experts = config.n_routed_experts or config.num_local_experts or config.num_experts
    if experts is None:
        return None
    width = config.moe_intermediate_size or config.intermediate_size
    shared = config.shared_expert_intermediate_size or (config.n_shared_experts or 0) * (width or 0)
    top_k, dense = (
        config.num_experts_per_tok or config.experts_per_token,
        config.first_k_dense_replace or 0,
    )
    limited = (
        {"groups": config.n_group, "top_groups": config.topk_group}
        if (config.n_group or 1) > 1
        else {}
    )
    return _said(
        experts=experts, top_k=top_k, ffn=width, shared_ffn=shared, dense_layers=dense, **limited
    )


M = TypeVar("M", bound=Part)
Kind = Literal["jobs", "models", "devices", "stacks"]
PARTS: tuple[Kind, ...] = ("models", "devices", "stacks")  # that a job file names


def preset_folder(kind: Kind) -> Path:
    return Path(__file__).parents[1] / "data" / kind


@cache
def _names(kind: Kind) -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in preset_folder(kind).glob(f"*{SUFFIX}")))


def preset_names(kind: Kind) -> list[str]:
    return list(_names(kind))


@cache
def _preset(kind: Kind, model: type[M], stem: str) -> M:
    file = f"{stem}{SUFFIX}"
    return read(
        model, read_text(str(preset_folder(kind) / file), "definition", file), file
    ).result()


def _read(kind: Kind, model: type[M], name: str, folder: Path) -> M:
    """A shipped file, else one beside the job, else a path."""
    if (stem := name.removesuffix(SUFFIX)) in _names(kind):
        found: M = _preset(kind, model, stem)
        return found
    path = _found(kind, name, folder)
    return read(model, read_text(path, "definition", path), path).result()


def _found(kind: Kind, name: str, folder: Path) -> str:
    if exists(beside := str(folder / name)):
        return beside
    known, typed = preset_names(kind), printable(name)
    fix = f"{nearest(typed, known)} shipped: {', '.join(known)}; or a mapping".strip()
    raise ColltoolError(
        f"no file and no shipped {kind.removesuffix('s')} is called '{typed}'", fix=fix
    )


def read_model(name: str, folder: Path) -> ModelFile:
    if not name.endswith(".json") or name.removesuffix(SUFFIX) in _names("models"):
        return _read("models", ModelFile, name, folder)
    path = _found("models", name, folder)
    reading = read(ConfigFile, read_text(path, "config", path), path)
    for key, what, fix in unmodelled(reading.data):
        reading.refuse((key,), what, fix, about_key=True)
    config = reading.result()
    title = Path(path).parent.name if Path(path).name == "config.json" else Path(path).stem
    try:
        return read(ModelFile, shape_of(config, title[:100])).result()
    except ManyErrors as error:
        fix, where = (
            "give the model as a mapping: layers, hidden, heads, ffn, vocab ...",
            f"{printable(path)}:1:1",
        )
        wrong = [
            ColltoolError(one.what, where=where, fix=one.fix or fix) for one in problems_of(error)
        ]
        raise ManyErrors(wrong) from error


def mapping_of(part: str, name: str, folder: Path) -> dict[str, Any]:
    """What a named model, device or stack holds, as a job may write it out."""
    if (
        part == "model"
        and name.endswith(".json")
        and name.removesuffix(SUFFIX) not in _names("models")
    ):
        return read_model(name, folder).model_dump(
            by_alias=True, exclude_defaults=True, mode="json"
        )
    kind: Kind = {"model": "models", "device": "devices", "stack": "stacks"}[part]  # type: ignore[assignment]
    stem = name.removesuffix(SUFFIX)
    path = (
        str(preset_folder(kind) / f"{stem}{SUFFIX}")
        if stem in _names(kind)
        else _found(kind, name, folder)
    )
    found: dict[str, Any] = sourced(read_text(path, "definition", path), path)[0].data
    return {key: value for key, value in found.items() if key not in ("source", "notes")}


def longest_sequence(model: str) -> int | None:
    """The positions that a config.json gives; None where it gives none, or for a shipped model."""
    if not model.endswith(".json"):
        return None
    data = sourced(read_text(model, "config", model), model)[0].data
    given = (
        data.get("max_position_embeddings", data.get("n_positions"))
        if isinstance(data, dict)
        else None
    )
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None


read_device = partial(_read, "devices", DeviceFile)
read_stack = partial(_read, "stacks", StackFile)


def stem_of(name: str) -> str:
    return os.path.basename(name).removesuffix(SUFFIX)
