"""Shapes and parameters of models: the published totals, per-rank counts by hand, Hugging Face
configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.files.presets import preset_names, read_model
from colltool.training.job import load_job
from colltool.training.model import (
    Shape,
    TransformerModel,
    active_parameters,
    layer_parameters,
    parameters,
    transformer_of,
)
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import (
    RankParameters,
    layer_parameters_of,
    pipeline_stages,
    stage_parameters,
)


def shape(**changed: Any) -> Shape:
    """8 heads of 64, an FFN of four widths: every product below is easily done by hand."""
    return Shape(
        hidden=512, heads=8, kv_heads=8, head_dim=64, ffn=2048, matrices=2, vocab=1000
    )._replace(**changed)


def loaded(name: str) -> TransformerModel:
    return transformer_of(read_model(name, Path()), name)


TOTALS = [
    ("llama3-8b", 8.03e9, 0.001),
    ("llama3-70b", 70.6e9, 0.001),
    ("llama3-405b", 405.9e9, 0.001),
    ("gpt3-175b", 175e9, 0.005),
    ("mixtral-8x7b", 46.7e9, 0.001),
    ("deepseek-v3", 671e9, 0.001),
]


@swept(("name", "published", "rtol"), TOTALS)
def test_published_totals(name: str, published: float, rtol: float) -> None:
    assert loaded(name).parameters == pytest.approx(published, rel=rtol)


def test_every_shipped_model_is_held_to_its_total() -> None:
    assert {name for name, *_ in TOTALS} >= set(preset_names("models"))


@pytest.mark.parametrize(("name", "published"), [("mixtral-8x7b", 12.9e9), ("deepseek-v3", 37e9)])
def test_published_active_parameters(name: str, published: float) -> None:
    assert active_parameters(loaded(name)) == pytest.approx(published, rel=0.02)


def test_a_gpt_layer_has_twelve_squares_of_its_hidden_size() -> None:
    layer = layer_parameters(shape(), experts=False)
    assert layer.split == 12 * 512**2
    assert layer.replicated == 2 * 512  # two norms
    biased = layer_parameters(shape(bias=True), experts=False)
    assert sum(biased) == 12 * 512**2 + 13 * 512  # 12 h^2 + 13 h of Narayanan 2021


def test_llama_8b_layer_by_hand() -> None:
    of = loaded("llama3-8b").shape
    assert of is not None
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    assert layer_parameters(of, experts=False).split == attention + 3 * 4096 * 14336


def test_latent_attention_by_hand() -> None:
    of = loaded("deepseek-v3").shape
    assert of is not None
    layer = layer_parameters(of, experts=True)
    down = 7168 * 1536 + 7168 * (512 + 64) + 1536 + 512
    up = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    assert layer.split == up + 3 * 7168 * 2048  # and the shared expert
    assert layer.replicated == down + 2 * 7168 + 7168 * 256  # norms, and the router
    assert layer.experts == 256 * 3 * 7168 * 2048


def test_parameters_of_a_rank_under_tensor_and_pipeline_parallelism() -> None:
    setup = load_job("llama3-70b").setup(512)  # tp 8, pp 4
    layer = (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) / 8 + 2 * 8192
    table = 128256 * 8192 / 8
    stages = pipeline_stages(setup)
    assert stage_parameters(setup, stages[0]).total == 20 * layer + table
    assert stage_parameters(setup, stages[1]).total == 20 * layer
    # the head, and the norm before it
    assert stage_parameters(setup, stages[3]).total == 20 * layer + table + 8192


def test_parameters_of_a_rank_under_expert_parallelism() -> None:
    setup = load_job("mixtral-8x7b").setup(128)  # pp 4, ep 8
    held = layer_parameters_of(setup, experts=True)
    assert held.experts == 3 * 4096 * 14336  # one of eight
    assert held.dense == 2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8 + 2 * 4096


def test_what_all_ranks_hold_is_the_model() -> None:
    """Split parts add up; what is on every rank is counted once."""
    setup = load_job("llama3-70b").setup(512)
    whole = 2 * 8192 * 80 + 8192
    total = (
        sum(8 * stage_parameters(setup, stage).total for stage in pipeline_stages(setup))
        - 7 * whole
    )
    assert setup.model is not None
    assert total == setup.model.parameters


def test_a_tied_head_is_counted_once_and_held_twice_by_a_pipeline() -> None:
    tied = TransformerModel("tied", 4, shape(tied=True))
    assert parameters(tied) == 4 * (12 * 512**2 + 2 * 512) + 1000 * 512 + 512
    setup = load_job("gpt3-175b").setup(512)
    first, *_, last = (stage_parameters(setup, stage).total for stage in pipeline_stages(setup))
    # learned positions on the first, the norm with its bias on the last
    assert first - last == 2048 * 12288 - 2 * 12288


def test_a_bare_model_is_spread_evenly() -> None:
    job = load_job(
        {
            "model": {"parameters": 7.0e9, "layers": 32},
            "sequence": 1,
            "batch": {"global": 8},
            "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
        }
    )
    assert layer_parameters_of(job.setup(8), experts=False) == RankParameters(7e9 / 32)


# --- Hugging Face
# -----------------------------------------------------------------------------------------------------

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "tie_word_embeddings": False,
    "rope_scaling": {"factor": 40, "type": "yarn"},
    "n_group": 8,
    "topk_group": 4,
}
QWEN_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}


def config(tmp_path: Path, content: dict[str, Any]) -> str:
    folder = tmp_path / "some-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(content, indent=2))
    return str(folder / "config.json")


@pytest.mark.parametrize(
    ("content", "same"),
    [(LLAMA, "llama3-70b"), (MIXTRAL, "mixtral-8x7b"), (DEEPSEEK, "deepseek-v3")],
)
def test_a_config_is_the_shipped_shape(content: dict[str, Any], same: str, tmp_path: Path) -> None:
    found = transformer_of(read_model(config(tmp_path, content), Path()))
    assert found.name == "some-model"
    expected = loaded(same)
    assert found.layers == expected.layers
    assert found.shape is not None
    assert expected.shape is not None
    assert found.shape._replace(head_dim=0) == expected.shape._replace(head_dim=0)
    assert found.parameters == expected.parameters


def test_a_qwen_like_config(tmp_path: Path) -> None:
    found = transformer_of(read_model(config(tmp_path, QWEN_MOE), Path()))
    # Qwen3-30B-A3B: 30.5e9, 3.3e9 active
    assert found.parameters == pytest.approx(30.5e9, rel=0.01)
    assert active_parameters(found) == pytest.approx(3.3e9, rel=0.02)


def test_a_gpt2_config(tmp_path: Path) -> None:
    gpt2 = {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    }
    assert transformer_of(read_model(config(tmp_path, gpt2), Path())).parameters == pytest.approx(
        124.4e6, rel=0.001
    )


@swept(
    ("content", "says"),
    [
        ("{", "not valid YAML"),
        ('{"hidden_size": 4096, "model_type": "llama"}', "num_hidden_layers is missing"),
        (
            '{"hidden_size": "wide", "num_hidden_layers": 2}',
            "1:17: hidden_size: expected a whole number",
        ),
        ("[]", "expected keys and values"),
        ("x" * (2**20 + 1), "is larger than 1 MiB"),
    ],
)
def test_a_config_that_is_none(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ColltoolError) as caught:
        read_model(str(path), Path())
    assert says in str(caught.value)
    assert "config.json" in str(caught.value)


def test_a_config_beside_the_job(tmp_path: Path) -> None:
    config(tmp_path, LLAMA)
    text = (
        "model: some-model/config.json\nsequence: 8192\nbatch: {global: 64}\ndevice: h100\nstack:"
        " megatron\nlayout: {tp: 8}\n"
    )
    (tmp_path / "job.yaml").write_text(text)
    job = colltool.load_job(tmp_path / "job.yaml")
    assert job.setup(64).model is not None
    assert job.model_name == "some-model"


def test_a_fifo_or_a_folder_is_no_endless_read(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ColltoolError, match="is a directory"):
        read_model("folder.json", tmp_path)
    with pytest.raises(ColltoolError, match="is a device"):
        read_model("/dev/zero", tmp_path)


def test_an_empty_setup_has_no_ranks_to_share() -> None:
    assert ParallelConfig(load_job("llama3-70b").setup(32).layout).micro_batches == 1
