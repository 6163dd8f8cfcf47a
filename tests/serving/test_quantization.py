"""The format of a checkpoint's weights, from the quantization_config of published config.json
files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.serving.checkpoint_weights import checkpoint_weights
from colltool.serving.deployment import Deployment, weight_bytes
from colltool.serving.quantization import BF16, WeightFormat, uniform
from colltool.serving.quantization_config import METHODS
from colltool.training.files.presets import read_model
from colltool.training.job import load_job
from colltool.training.model import TransformerModel, layer_parameters, transformer_of

CONFIGS = Path(__file__).parents[1] / "data" / "configs"


def model_of(path: Path) -> TransformerModel:
    model = load_job(str(path)).draft.model
    assert model is not None
    return model


def format_of(name: str) -> WeightFormat:
    path = CONFIGS / f"{name}.json"
    found = checkpoint_weights(str(path), model_of(path))
    assert found is not None
    return found


def stored(name: str) -> float:
    """Bytes of the whole checkpoint."""
    path = CONFIGS / f"{name}.json"
    return weight_bytes(model_of(path), Deployment(), 1, format_of(name)).weights


@swept(
    ("name", "size"),
    [
        # 671e9 weights in 8 bits; embedding and head, 0.93e9 each, in 16
        ("deepseek-v3-fp8", 671e9 + 1.85e9),
        # 60.8 GiB by OpenAI's model card (arXiv:2508.10925, table 1)
        ("gpt-oss-120b", 60.8 * 2**30),
        # 68.45e9 weights of linear layers; embedding and head, 1.05e9 each, in 16 bits
        ("llama3-70b-awq", 68.45e9 * (0.5 + 2.5 / 128) + 4.2e9),
        ("llama3-70b-gptq", 68.45e9 * (0.5 + 2.5 / 128) + 4.2e9),
        ("llama3-70b-w4a16", 68.45e9 * (0.5 + 2.5 / 128) + 4.2e9),
        ("llama3-70b-fp8-dynamic", 68.45e9 + 4.2e9),
    ],
)
def test_a_checkpoint_is_as_large_as_published(name: str, size: float) -> None:
    assert stored(name) == pytest.approx(size, rel=0.01)


@swept(
    ("name", "said", "computes", "sends"),
    [
        ("deepseek-v3-fp8", "fp8", "fp8", "fp8"),
        ("deepseek-r1-fp4", "nvfp4", "nvfp4", "fp8"),
        ("gpt-oss-120b", "mxfp4", "fp8", "bf16"),
        ("llama3-70b-awq", "int4", "bf16", "bf16"),
        ("llama3-70b-gptq", "int4", "bf16", "bf16"),
        ("llama3-70b-w4a16", "int4", "bf16", "bf16"),
        ("llama3-70b-fp8-dynamic", "fp8", "fp8", "fp8"),
        ("llama3-405b-fp8", "fp8", "fp8", "fp8"),
    ],
)
def test_a_format_by_each_method(name: str, said: str, computes: str, sends: str) -> None:
    found = format_of(name)
    assert (found.name, found.computes, found.sends) == (said, computes, sends)
    assert found.label == f"weights: {said} as in the checkpoint"


def test_what_a_list_leaves_out_stays_in_16_bits() -> None:
    """NVIDIA's DeepSeek-R1-FP4 keeps attention, gpt-oss all but experts, Llama's FBGEMM fp8
    attention and the FFNs of the first and last layer."""
    nvidia = format_of("deepseek-r1-fp4")
    assert nvidia.kept == ("attention",)
    assert nvidia.experts == 0.5 + 1 / 16
    assert nvidia.experts < nvidia.dense < 2
    oss = format_of("gpt-oss-120b")
    assert (oss.dense, oss.experts) == (2.0, 0.5 + 1 / 32)
    llama = format_of("llama3-405b-fp8")
    assert llama.kept == ("attention", "dense FFNs of 2 of 126 layers")
    assert format_of("deepseek-v3-fp8").kept == ()


def test_deepseek_in_fp8_fits_one_machine() -> None:
    path = str(CONFIGS / "deepseek-v3-fp8.json")
    served = colltool.serve(path, "hgx-h200", tp=8)
    assert served.fits
    assert served.deployment.dtype == "fp8"
    assert "weights: fp8 as in the checkpoint" in served.summary()
    # of 671e9 weights an eighth, in eight bits, and bottlenecks, ends and cache
    assert 671e9 / 8 < served.memory_bytes < 90e9


def test_weights_that_are_asked_for_win() -> None:
    path = str(CONFIGS / "deepseek-v3-fp8.json")
    served = colltool.serve(path, "hgx-h200", tp=8, weights="bf16")
    assert served.fits is False
    assert served.weights == uniform("bf16")
    assert "checkpoint" not in served.summary()
    assert served.summary().startswith("It does not fit: it needs ")


def test_a_job_that_names_a_config_has_its_weights() -> None:
    path = str(CONFIGS / "llama3-70b-awq.json")
    job = load_job(path)
    assert colltool.serve(job, "hgx-h200", tp=8).weights.name == "int4"


def test_weights_are_sent_as_the_checkpoint_has_them() -> None:
    path = str(CONFIGS / "deepseek-v3-fp8.json")
    asked = {"receivers": 64, "senders": 64, "replica": 8}
    sent = colltool.reshard(path, "dgx-h100", **asked)
    assert sent.bytes == pytest.approx(stored("deepseek-v3-fp8"))
    assert "(weights: fp8 as in the checkpoint)" in sent.summary()
    assert colltool.reshard(path, "dgx-h100", weights="bf16", **asked).bytes == pytest.approx(
        2 * model_of(Path(path)).parameters
    )


def config(tmp_path: Path, quantization: Any, **keys: Any) -> str:
    data = json.loads((CONFIGS / "llama3-70b-awq.json").read_text(encoding="utf-8"))
    data["quantization_config"] = quantization
    path = tmp_path / "model.json"
    path.write_text(json.dumps(data | keys), encoding="utf-8")
    return str(path)


@swept("quantization", [None, {}, "none"])
def test_without_quantization_weights_are_in_bf16(tmp_path: Path, quantization: Any) -> None:
    served = colltool.serve(config(tmp_path, quantization), "hgx-h200", tp=8)
    assert served.weights == uniform("bf16")


@swept(
    ("quantization", "what", "fix"),
    [
        ({"quant_method": "hqq"}, "'hqq'", ", ".join(METHODS)),
        ({"quant_method": "gtpq"}, "'gtpq'", "did you mean 'gptq'?"),
        ({"bits": 4}, "no quant_method", "awq"),
        ({"quant_method": "awq", "bits": 5}, "has 5 bits", "2, 3, 4 or 8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED"}, "'MIXED'", "NVFP4, FP8"),
    ],
)
def test_an_unknown_method_is_an_error_that_names_the_known(
    tmp_path: Path, quantization: Any, what: str, fix: str
) -> None:
    path = config(tmp_path, quantization)
    with pytest.raises(ColltoolError) as caught:
        colltool.serve(path, "hgx-h200", tp=8)
    assert what in caught.value.what
    assert fix in (caught.value.fix or "")
    # the format may still be said
    assert colltool.serve(path, "hgx-h200", tp=8, weights="int4").weights.name == "int4"


@swept(
    "quantization",
    [
        {"quant_method": 5},
        {"quant_method": "awq", "bits": "four"},
        {"quant_method": "awq", "bits": []},
        {"quant_method": "fp8", "weight_block_size": ["a", -1]},
        {"quant_method": "compressed-tensors", "config_groups": [1]},
        {"quant_method": "compressed-tensors", "config_groups": {"a": 1}, "ignore": 5},
        {"quant_method": "gptq", "dynamic": {"-:(": {}}, "ignore": [1, "re:("]},
    ],
)
def test_odd_values_end_in_an_answer_or_an_error(tmp_path: Path, quantization: Any) -> None:
    path = config(tmp_path, quantization)
    needed = 1.0
    # any other error ends the test
    with suppress(ColltoolError):
        needed = colltool.serve(path, "hgx-h200", tp=8).memory_bytes
    assert needed > 0


def _hybrid_weights(folder: Path, **quantization: Any) -> tuple[WeightFormat, TransformerModel]:
    """The weights of Qwen3-Next-80B-A3B, quantized."""
    line = next(
        line
        for line in (CONFIGS / "published.jsonl").read_text().splitlines()
        if "Qwen3-Next" in line
    )
    config = json.loads(line)["config"] | {"quantization_config": quantization}
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    model = transformer_of(read_model(str(path), Path()), "hybrid")
    found = checkpoint_weights(str(path), model)
    assert found is not None
    return found, model


def test_modules_of_layers_that_only_some_layers_are(tmp_path: Path) -> None:
    """A list names the 36 layers of a recurrence, or one of the 12 with attention."""
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    whole, model = _hybrid_weights(tmp_path, **fp8)
    assert (whole.kept, whole.experts) == ((), 1 + 4 / 128**2)
    recurrent = [f"model.layers.{layer}.linear_attn" for layer in range(48) if layer % 4 != 3]
    kept, _ = _hybrid_weights(tmp_path, **fp8, modules_to_not_convert=recurrent)
    assert kept.kept == ("gated delta rule of 36 of 48 layers",)
    one, _ = _hybrid_weights(tmp_path, **fp8, modules_to_not_convert=["model.layers.3.self_attn"])
    assert one.kept == ("attention of 1 of 48 layers",)
    assert model.shape is not None
    gated, delta = model.shape.parts[1], model.shape.parts[0]
    weights = layer_parameters(model.shape, experts=True).split * 48
    extra = (BF16 - whole.experts) * gated.split_parameters() / weights
    assert one.dense - whole.dense == pytest.approx(extra)
    extra = (BF16 - whole.experts) * 36 * delta.split_parameters() / weights
    assert kept.dense - whole.dense == pytest.approx(extra)


@swept(
    ("quantization", "name"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*self_attn*"]}, "nvfp4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
    ],
)
def test_every_method_reads_a_hybrid(quantization: Any, name: str, tmp_path: Path) -> None:
    found, _ = _hybrid_weights(tmp_path, **quantization)
    assert found.name == name
    assert found.experts < 1 < found.ends


def test_a_shipped_model_is_served_as_it_was_published() -> None:
    """DeepSeek published its weights in fp8; --weights still overrides."""
    served = colltool.serve("deepseek-v3", "hgx-h200", tp=8)
    assert served.weights.name == "fp8"
    assert served.fits
    wide = colltool.serve("deepseek-v3", "hgx-h200", tp=8, weights="bf16")
    assert (wide.weights.name, wide.fits) == ("bf16", False)
    assert colltool.serve("llama3-70b", "hgx-h200", tp=8).weights.name == "bf16"
