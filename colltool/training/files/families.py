"""The model types of Hugging Face's transformers whose layers are modelled, and why others are not.

A row says what a type's code does where its ``config.json`` says nothing (transformers, ``models/*/modeling_*.py`` and
``configuration_*.py``).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Slides = Literal["every", "alternate", "upper", "pattern"]


class Family(NamedTuple):
    """How the layers of a model type are made.

    ``gated``: three matrices of the FFN. ``bias``: of all linear layers and norms. ``tied``: the head is the embedding unless the
    config says otherwise. ``positions``: the key with the number of learned positions. ``wide``: times hidden is the FFN where no
    key says it. ``slides``: the layers that ``sliding_window`` is of, where no list says it: every layer, every other one, those
    from ``max_window_layers`` on, all but each ``sliding_window_pattern``-th.
    """

    gated: bool = True
    bias: bool = False
    tied: bool = False
    positions: str = ""
    wide: int = 0
    slides: Slides = "every"
    pattern: int = 6


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
"""What is modelled, by ``model_type``."""

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
"""What some types have that is not modelled."""
