"""Hugging Face's config.json: published sizes within a hundredth, or refused by the name of what is
not modelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import dense, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.files.config_problems import NEUTRAL
from colltool.training.files.families import FAMILIES, HARMLESS, REASONS
from colltool.training.files.presets import read_model
from colltool.training.job_results import check_job
from colltool.training.model import Shape, TransformerModel, transformer_of

Config = dict[str, Any]

# What every config says beside its shape.
_WORDS: Config = {
    "architectures": ["ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "rope_theta": 500000.0,
    "use_cache": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.42.3",
    "_name_or_path": "x",
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def like(
    kind: str,
    layers: int,
    hidden: int,
    heads: int,
    kv: int | None,
    ffn: int | None,
    vocab: int,
    **keys: Any,
) -> Config:
    own = {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "vocab_size": vocab,
    }
    own |= {} if kv is None else {"num_key_value_heads": kv}
    own |= {} if ffn is None else {"intermediate_size": ffn}
    return _WORDS | own | keys


_UNTIED = {"tie_word_embeddings": False}
_LATENT = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_group": 8,
    "topk_group": 4,
    "moe_layer_freq": 1,
    "scoring_func": "sigmoid",
    "ep_size": 1,
    "seq_aux": True,
    "norm_topk_prob": True,
}
_HALF = ["sliding_attention", "full_attention"]

PUBLISHED: dict[str, tuple[float, Config]] = {
    "llama-3-8b": (8.03e9, like("llama", 32, 4096, 32, 8, 14336, 128256, **_UNTIED)),
    "llama-3-70b": (70.55e9, like("llama", 80, 8192, 64, 8, 28672, 128256, **_UNTIED)),
    "llama-3.1-405b": (405.85e9, like("llama", 126, 16384, 128, 8, 53248, 128256)),
    "llama-3.2-1b": (
        1.236e9,
        like("llama", 16, 2048, 32, 8, 8192, 128256, tie_word_embeddings=True, head_dim=64),
    ),
    "mistral-7b-v0.1": (
        7.24e9,
        like("mistral", 32, 4096, 32, 8, 14336, 32000, sliding_window=4096),
    ),
    "mixtral-8x7b": (
        46.7e9,
        like(
            "mixtral",
            32,
            4096,
            32,
            8,
            14336,
            32000,
            num_local_experts=8,
            num_experts_per_tok=2,
            sliding_window=None,
        ),
    ),
    "qwen2.5-72b": (
        72.7e9,
        like(
            "qwen2",
            80,
            8192,
            64,
            8,
            29568,
            152064,
            use_sliding_window=False,
            sliding_window=131072,
            max_window_layers=70,
        ),
    ),
    "qwen3-235b-a22b": (
        235.1e9,
        like(
            "qwen3_moe",
            94,
            4096,
            64,
            4,
            12288,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
            decoder_sparse_step=1,
            mlp_only_layers=[],
        ),
    ),
    "qwen2-57b-a14b": (
        57.4e9,
        like(
            "qwen2_moe",
            28,
            3584,
            28,
            4,
            18944,
            151936,
            num_experts=64,
            num_experts_per_tok=8,
            moe_intermediate_size=2560,
            shared_expert_intermediate_size=20480,
        ),
    ),
    "deepseek-v3": (
        671e9,
        like(
            "deepseek_v3",
            61,
            7168,
            128,
            128,
            18432,
            129280,
            q_lora_rank=1536,
            n_routed_experts=256,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=2048,
            first_k_dense_replace=3,
            num_nextn_predict_layers=1,
            topk_method="noaux_tc",
            routed_scaling_factor=2.5,
            **_LATENT,
        ),
    ),
    "deepseek-v2-lite": (
        15.7e9,
        like(
            "deepseek_v2",
            27,
            2048,
            16,
            16,
            10944,
            102400,
            q_lora_rank=None,
            n_routed_experts=64,
            n_shared_experts=2,
            num_experts_per_tok=6,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
            aux_loss_alpha=0.001,
            **_LATENT,
        ),
    ),
    "kimi-k2": (
        1.026e12,
        like(
            "kimi_k2",
            61,
            7168,
            64,
            64,
            18432,
            163840,
            q_lora_rank=1536,
            n_routed_experts=384,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=2048,
            first_k_dense_replace=1,
            num_nextn_predict_layers=0,
            **_LATENT,
        ),
    ),
    "gpt-neox-20b": (
        20.55e9,
        like(
            "gpt_neox",
            44,
            6144,
            64,
            None,
            24576,
            50432,
            rotary_pct=0.25,
            rotary_emb_base=10000,
            layer_norm_eps=1e-05,
            use_parallel_residual=True,
            **_UNTIED,
        ),
    ),
    "falcon-180b": (
        180e9,
        like(
            "falcon",
            80,
            14848,
            232,
            None,
            None,
            65024,
            num_kv_heads=8,
            new_decoder_architecture=True,
            multi_query=True,
            parallel_attn=True,
            bias=False,
            alibi=False,
            layer_norm_epsilon=1e-05,
        ),
    ),
    "falcon-7b": (
        6.92e9,
        like(
            "falcon",
            32,
            4544,
            71,
            None,
            None,
            65024,
            num_kv_heads=71,
            new_decoder_architecture=False,
            multi_query=True,
            parallel_attn=True,
            bias=False,
            apply_residual_connection_post_layernorm=False,
        ),
    ),
    "nemotron-4-15b": (
        15.6e9,
        like(
            "nemotron",
            32,
            6144,
            48,
            8,
            24576,
            256000,
            hidden_act="relu2",
            norm_eps=1e-05,
            partial_rotary_factor=0.5,
            **_UNTIED,
        ),
    ),
    "gemma-7b": (8.54e9, like("gemma", 28, 3072, 16, 16, 24576, 256000, head_dim=256)),
    "gemma-2-27b": (
        27.2e9,
        like(
            "gemma2",
            46,
            4608,
            32,
            16,
            36864,
            256000,
            head_dim=128,
            sliding_window=4096,
            attn_logit_softcapping=50.0,
            query_pre_attn_scalar=144,
        ),
    ),
    "gpt-oss-120b": (
        116.8e9,
        like(
            "gpt_oss",
            36,
            2880,
            64,
            8,
            2880,
            201088,
            head_dim=64,
            num_local_experts=128,
            num_experts_per_tok=4,
            experts_per_token=4,
            sliding_window=128,
            layer_types=_HALF * 18,
            initial_context_length=4096,
            swiglu_limit=7.0,
            **_UNTIED,
        ),
    ),
    "phi-3-mini": (
        3.82e9,
        like("phi3", 32, 3072, 32, 32, 8192, 32064, sliding_window=2047, **_UNTIED),
    ),
    "olmoe-1b-7b": (
        6.92e9,
        like(
            "olmoe", 16, 2048, 16, 16, 1024, 50304, num_experts=64, num_experts_per_tok=8, **_UNTIED
        ),
    ),
    "command-r": (
        35e9,
        like("cohere", 40, 8192, 64, 64, 22528, 256000, logit_scale=0.0625, layer_norm_eps=1e-05),
    ),
    "glm-4.5": (
        355e9,
        like(
            "glm4_moe",
            92,
            5120,
            96,
            8,
            12288,
            151552,
            head_dim=128,
            n_routed_experts=160,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
            first_k_dense_replace=3,
            use_qk_norm=True,
            num_nextn_predict_layers=1,
            n_group=1,
            topk_group=1,
            **_UNTIED,
        ),
    ),
    "bloom": (
        176.2e9,
        {
            "model_type": "bloom",
            "n_layer": 70,
            "n_head": 112,
            "hidden_size": 14336,
            "vocab_size": 250880,
            "layer_norm_epsilon": 1e-05,
            "slow_but_exact": False,
            "pretraining_tp": 4,
            "offset_alibi": 0,
        },
    ),
    "opt-66b": (
        65.7e9,
        like(
            "opt",
            64,
            9216,
            72,
            None,
            None,
            50272,
            ffn_dim=36864,
            max_position_embeddings=2048,
            word_embed_proj_dim=9216,
            do_layer_norm_before=True,
            layerdrop=0.0,
        ),
    ),
    "mpt-30b": (
        29.96e9,
        {
            "model_type": "mpt",
            "d_model": 7168,
            "n_heads": 64,
            "n_layers": 48,
            "vocab_size": 50432,
            "expansion_ratio": 4,
            "no_bias": True,
            "attn_config": {"attn_type": "multihead_attention", "alibi": True},
        },
    ),
    "gpt-j-6b": (
        6.05e9,
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_head": 16,
            "n_layer": 28,
            "n_inner": None,
            "vocab_size": 50400,
            "rotary_dim": 64,
            "tie_word_embeddings": False,
            "n_positions": 2048,
        },
    ),
}
"""Parameters as their authors or the weights say, and what their configs say."""


def written(tmp_path: Path, content: Config) -> str:
    path = tmp_path / "some-model" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2))
    return str(path)


def read(tmp_path: Path, content: Config) -> TransformerModel:
    return transformer_of(read_model(written(tmp_path, content), Path()))


def shape(model: TransformerModel) -> Shape:
    assert model.shape is not None
    return model.shape


@swept("name", PUBLISHED)
def test_the_published_size_holds_within_a_hundredth(name: str, tmp_path: Path) -> None:
    published, content = PUBLISHED[name]
    assert read(tmp_path, content).parameters == pytest.approx(published, rel=0.01)


REFUSED: dict[str, tuple[Config, str]] = {
    "zamba2": (
        like("zamba2", 54, 2560, 32, 32, 10240, 32000, mamba_d_state=64),
        "model_type 'zamba2' is not modelled: layers that share their weights",
    ),
    "jetmoe": (like("jetmoe", 12, 2048, 32, 16, 5632, 32000), "experts of attention"),
    "rwkv": (like("rwkv", 32, 4096, 64, None, None, 50277), "recurrent layers of its own"),
    "a text with cross attention": (
        {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}},
        "text_config.model_type: model_type 'mllama_text_model' is not modelled: cross attention",
    ),
    "a text without sizes": (
        {"model_type": "llava", "text_config": {"model_type": "phi3"}},
        "hidden_size is missing in text_config, which a phi3 needs",
    ),
    "a type that nobody knows": (
        like("lamma", 32, 4096, 32, 8, 14336, 32000),
        "did you mean 'llama'?",
    ),
    "no type": ({"hidden_size": 4096}, "no model_type"),
    "a type that is no text": (
        like("llama", 32, 4096, 32, 8, 14336, 32000) | {"model_type": ["llama"]},
        "is not modelled",
    ),
    "mamba in a llama": (
        like("llama", 32, 4096, 32, 8, 14336, 32000, mamba_d_state=16),
        "mamba_d_state is 16: nothing is known",
    ),
    "attention in chunks": (
        like("llama", 32, 4096, 32, 8, 14336, 32000, attention_chunk_size=8192),
        "attention_chunk_size is 8192",
    ),
    "chunks by layer": (
        like(
            "llama",
            2,
            4096,
            32,
            8,
            14336,
            32000,
            layer_types=["full_attention", "chunked_attention"],
        ),
        "layer_types has 1 of 2 layers of chunked_attention",
    ),
    "experts without a number of them": (
        like("mixtral", 32, 4096, 32, 8, 14336, 32000, num_local_experts=8),
        "num_experts_per_tok is missing, which a mixtral needs",
    ),
    "a narrower embedding": (
        like("opt", 24, 1024, 16, None, None, 50272, ffn_dim=4096, word_embed_proj_dim=512),
        "word_embed_proj_dim is 512",
    ),
    "an encoder": (like("t5", 24, 1024, 16, None, 4096, 32128), "an encoder"),
}


@swept("name", REFUSED)
def test_what_is_not_modelled_is_refused_by_name(name: str, tmp_path: Path) -> None:
    content, says = REFUSED[name]
    with pytest.raises(ColltoolError) as caught:
        read_model(written(tmp_path, content), Path())
    said = caught.value.spelled("shell")
    assert says in said
    assert "config.json:" in said
    job = tmp_path / "job.yaml"
    job.write_text(
        "model: some-model/config.json\nsequence: 4096\nbatch: {global: 64}\nstack: megatron\n"
    )
    with pytest.raises(ColltoolError, match=r"config\.json"):
        check_job(str(job))


def test_a_table_names_a_key_once() -> None:
    assert not HARMLESS & NEUTRAL.keys()
    assert not FAMILIES.keys() & REASONS.keys()


@given(
    key=st.sampled_from(
        ["{}_layers", "{}_size", "mamba_{}", "num_{}_experts", "{}_dim", "{}_window", "{}_rank"]
    ),
    word=st.text("abcdefgh", min_size=1, max_size=8),
    value=st.integers(2, 10_000),
)
@settings(max_examples=examples(30), deadline=None)
def test_a_size_that_nobody_knows_is_never_passed_over(
    key: str, word: str, value: int, tmp_path_factory: Any
) -> None:
    content = like("llama", 32, 4096, 32, 8, 14336, 32000, **{key.format(word): value})
    with pytest.raises(ColltoolError, match="it may change the model"):
        read_model(written(tmp_path_factory.mktemp("config"), content), Path())


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    """Prediction of further tokens is no part of the published size; a step without it is said to
    be one."""
    model = read(tmp_path, PUBLISHED["deepseek-v3"][1])
    assert model.left_out == ("a layer that predicts further tokens (num_nextn_predict_layers)",)
    job = dense(
        model=str(tmp_path / "some-model" / "config.json"), layout={"tp": 8, "sp": True, "ep": 8}
    )
    assert f"not counted: {model.left_out[0]}" in colltool.plan(job, two_tiers(), 64).grounds
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    assert any(
        model.left_out[0] in one.what for one in check_job(str(tmp_path / "job.yaml")).warnings
    )


# --- windows
# ----------------------------------------------------------------------------------------------------------


@swept(
    ("name", "window", "share"),
    [
        ("mistral-7b-v0.1", 4096, 1.0),
        ("gpt-oss-120b", 128, 0.5),
        ("gemma-2-27b", 4096, 0.5),
        ("qwen2.5-72b", 0, 0.0),  # use_sliding_window: false
        ("mixtral-8x7b", 0, 0.0),
    ],
)
def test_the_layers_that_slide(name: str, window: int, share: float, tmp_path: Path) -> None:
    found = shape(read(tmp_path, PUBLISHED[name][1]))
    assert (found.window, found.windowed) == (window, share)


def test_a_pattern_of_layers_that_slide(tmp_path: Path) -> None:
    text = like(
        "gemma3_text",
        34,
        2560,
        8,
        4,
        10240,
        262208,
        head_dim=256,
        sliding_window=1024,
        sliding_window_pattern=6,
    )
    assert shape(read(tmp_path, text)).windowed == pytest.approx(29 / 34)
    upper = PUBLISHED["qwen2.5-72b"][1] | {"use_sliding_window": True}
    assert shape(read(tmp_path, upper)).windowed == pytest.approx(10 / 80)


@given(
    sequence=st.integers(1, 400),
    window=st.integers(1, 500),
    windowed=st.sampled_from([0.0, 0.25, 1.0]),
)
@settings(max_examples=examples(60), deadline=None)
def test_keys_of_a_query_against_counting_them(sequence: int, window: int, windowed: float) -> None:
    """Counted one by one a query meets itself too: half a key more than the continuous mean."""
    one = Shape(
        hidden=4,
        heads=2,
        kv_heads=2,
        head_dim=2,
        ffn=16,
        matrices=2,
        vocab=10,
        window=window,
        windowed=windowed,
    )
    slid = sum(min(query, window) for query in range(1, sequence + 1)) / sequence
    full = (sequence + 1) / 2
    counted = windowed * slid + (1 - windowed) * full
    assert counted - 0.5 - 1e-9 <= one.keys(sequence) <= counted + 1e-9


def test_a_window_saves_work_and_no_size() -> None:
    """Of a long sequence; of one inside the window nothing."""
    model = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 32000}

    def planned(sequence: int, **keys: Any) -> Any:
        return colltool.plan(
            dense(model=model | keys, sequence=sequence, layout={"tp": 8, "sp": True}),
            two_tiers(),
            64,
        )

    whole, slid, half = (
        planned(32768),
        planned(32768, window=4096),
        planned(32768, window=4096, windowed_layers=16),
    )
    assert slid.control_step_s < half.control_step_s < whole.control_step_s
    assert half.control_step_s == pytest.approx(
        (slid.control_step_s + whole.control_step_s) / 2, rel=0.02
    )
    assert slid.memory_bytes == whole.memory_bytes
    assert slid.setup.model.parameters == whole.setup.model.parameters
    assert planned(4096, window=4096).step_s == planned(4096).step_s
    with pytest.raises(ColltoolError, match="with windows of 4096 is not modelled"):
        colltool.plan(
            dense(model=model | {"window": 4096}, sequence=32768, layout={"cp": 2}), two_tiers(), 64
        )
    with pytest.raises(ColltoolError, match="33 windowed layers of 32"):
        colltool.load_job(dense(model=model | {"window": 4096, "windowed_layers": 33}))


def test_queries_without_a_bottleneck(tmp_path: Path) -> None:
    """DeepSeek-V2-Lite: its query projection is one matrix, a bottleneck as wide as the model less
    its own matrix."""
    lite = read(tmp_path, PUBLISHED["deepseek-v2-lite"][1])
    own = shape(lite)
    assert own.mla is not None
    assert own.mla.q_rank == 0
    wide = lite._replace(shape=own._replace(mla=own.mla._replace(q_rank=own.hidden)))
    assert wide.parameters - lite.parameters == 27 * (own.hidden**2 + own.hidden)
