"""Keys of a Hugging Face ``config.json``: those that change a model's size or work are either known or refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from colltool.base.errors import nearest, printable

KNOWN_TIMES = "parameters and layers of the model as a mapping, with the times of compute: {forward_per_layer: 7ms, ...}"
SHAPE = "give the model as a mapping: layers, hidden, heads, ffn, vocab ...; or parameters and layers, with the times of compute"
_HARMLESS = (
    "_remove_final_layer_norm apply_residual_connection_post_layernorm compression_config do_layer_norm_before ep_size "
    "ffn_bias init_config layer_norm_bias layer_norm_elementwise_affine layer_norm_eps layer_norm_epsilon "
    "layer_norm_rms_epsilon layerdrop layernorm_epsilon mlp_bias n_group no_rope_layer_interval no_rope_layers "
    "output_hidden_states output_router_logits pruned_heads qk_layernorm quantization_config rope_local_base_freq "
    "rotary_dim router_aux_loss_coef router_bias_update_rate router_jitter_noise router_z_loss_coef "
    "scale_attn_by_inverse_layer_idx topk_group use_mamba_kernels use_pad_tok_in_ffn vocab_size_pad "
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

PARTS = ("text_config", "vision_config", "audio_config", "thinker_config", "talker_config", "llm_config", "language_config")
ATTENTION = ("full_attention", "sliding_attention")  # that ``layer_types`` may name
_SIZED = re.compile(
    r"layer|expert|head|dim|size|rank|width|window|chunk|mamba|ssm|conv|linear|state|recurren|vision|visual|audio|image|video|speech|"
    r"config$|mtp|nextn|lora|kernel|memory|local|sparse|moe|mlp|ffn|ff_|inner|hybrid|block|group|step|cross|index|lightning|"
    r"delta|mixer|share|router|period|offset|gate|latent|compress|altup|laurel"
)
# An unknown key with one of these in its name is taken to be a size or a structure.


class Unmodelled(NamedTuple):
    key: str
    what: str
    fix: str


def unmodelled(data: Mapping[str, Any], used: frozenset[str]) -> Iterator[Unmodelled]:
    """What of a config is not modelled: its type, or keys that change its size or work; ``used`` make the shape."""
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        yield _type(data, kind)
        return
    yield from _kinds_of_layers(data)
    for key, value in data.items():
        if key in used or key in HARMLESS:
            continue
        if key in NEUTRAL:
            if not _is_neutral(key, value, data):
                yield Unmodelled(key, f"{key} is {_told(value)}, which is not modelled", SHAPE)
        elif _SIZED.search(key.lower()) and value not in (None, False, 0, "", [], {}):
            yield Unmodelled(
                key, f"{key} is {_told(value)}: nothing is known of this key of {kind}, and it may change the model", SHAPE
            )


def _type(data: Mapping[str, Any], kind: Any) -> Unmodelled:
    parts = [
        key for key in data if key.endswith("_config") and isinstance(data[key], Mapping) and "hidden_size" in str(data[key])
    ]
    if parts:
        what = f"{kind} is not modelled: a model of several parts ({', '.join(parts)})"
        return Unmodelled(parts[0], what, "the text alone: its text_config as a config.json of its own, with its model_type")
    if kind is None:
        return Unmodelled(
            "model_type", "no model_type: nothing says how its layers are made", f'"model_type": "llama"; or {SHAPE}'
        )
    said = printable(str(kind))[:60]
    what = f"model_type '{said}' is not modelled"
    if isinstance(kind, str) and kind in REASONS:
        return Unmodelled("model_type", f"{what}: {REASONS[kind]}", KNOWN_TIMES)
    fix = f"{nearest(said, list(FAMILIES))} {SHAPE}; modelled: {', '.join(sorted(FAMILIES))}".strip()
    return Unmodelled("model_type", what, fix)


def _kinds_of_layers(data: Mapping[str, Any]) -> Iterator[Unmodelled]:
    listed = data.get("layer_types")
    others = [one for one in listed if one not in ATTENTION] if isinstance(listed, list) else []
    if others:
        what = f"layer_types has {len(others)} of {len(listed or ())} layers of {_told(others[0])}, which is not modelled"
        yield Unmodelled("layer_types", what, SHAPE)
    own = data.get("attn_config")
    kind = own.get("attn_type", "multihead_attention") if isinstance(own, Mapping) else "multihead_attention"
    if kind not in ("multihead_attention", "multiquery_attention", "grouped_query_attention"):
        yield Unmodelled("attn_config", f"attn_type {_told(kind)} is not modelled", SHAPE)


def _is_neutral(key: str, value: Any, data: Mapping[str, Any]) -> bool:
    if key == "word_embed_proj_dim":
        return bool(value == data.get("hidden_size"))
    return value in NEUTRAL[key]


def _told(value: Any) -> str:
    text = "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else printable(str(value))
    return text[:60]


Slides = Literal["every", "alternate", "upper", "pattern"]


class Family(NamedTuple):
    gated: bool = True  # three FFN matrices instead of two
    bias: bool = False  # of all linear layers and norms
    tied: bool = False  # unless the config says otherwise
    positions: str = ""  # the key with the number of learned positions
    wide: int = 0  # FFN width over hidden where no key gives it
    slides: Slides = "every"  # layers with a window where none are listed; "upper": from max_window_layers on
    pattern: int = 6  # with "pattern", all layers but each pattern-th


_GPT = Family(gated=False, bias=True, tied=True, wide=4)
FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(),
    "qwen2": Family(slides="upper"),
    "qwen2_moe": Family(slides="upper"),
    "qwen3": Family(slides="upper"),
    "qwen3_moe": Family(slides="upper"),
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, slides="alternate"),
    "gemma3_text": Family(tied=True, slides="pattern"),
    "deepseek_v2": Family(),
    "deepseek_v3": Family(),
    "kimi_k2": Family(),
    "gpt_oss": Family(slides="alternate"),
    "glm4_moe": Family(),
    "olmo": Family(),
    "olmo2": Family(),
    "olmoe": Family(),
    "granite": Family(),
    "granitemoe": Family(),
    "cohere": Family(tied=True),
    "cohere2": Family(tied=True, slides="pattern", pattern=4),
    "stablelm": Family(),
    "phi3": Family(),
    "internlm2": Family(),
    "smollm3": Family(tied=True),
    "nemotron": Family(gated=False),  # squared ReLU
    "starcoder2": Family(gated=False, bias=True, tied=True),
    "phi": Family(gated=False, bias=True),
    "gpt_neox": Family(gated=False, bias=True),
    "gptj": Family(gated=False, bias=True, wide=4),
    "gpt2": _GPT._replace(positions="n_positions"),
    "gpt_bigcode": _GPT._replace(positions="n_positions"),
    "bloom": _GPT,
    "opt": _GPT._replace(positions="max_position_embeddings"),
    "falcon": Family(gated=False, tied=True, wide=4),
    "mpt": Family(gated=False, tied=True, wide=4),
}

_LACKING = {
    "Mamba layers": "jamba bamba zamba zamba2 nemotron_h falcon_h1 granitemoehybrid mamba mamba2 falcon_mamba",
    "layers of linear attention": "qwen3_next minimax minimax_text_01 kimi_linear rwkv rwkv5 bailing_moe_linear",
    "recurrent layers": "recurrent_gemma retnet xlstm",
    "several parts, images or sound beside the text": "gemma3 gemma3n llama4 mllama llava llava_next mistral3 pixtral qwen2_vl "
    "qwen2_5_vl qwen3_vl qwen3_vl_moe qwen2_5_omni paligemma idefics3 internvl_chat deepseek_vl_v2",
    "an encoder": "bert roberta deberta-v2 modernbert t5 mt5 bart whisper",
    "attention in chunks, and experts in every other layer": "llama4_text",
    "local attention in every other layer": "gpt_neo",
    "sparse attention": "deepseek_v32",
    "layers of different shapes": "nemotron-nas",
    "keys of its own (ffn_config, attn_config)": "dbrx",
}
REASONS = {kind: why for why, kinds in _LACKING.items() for kind in kinds.split()}
