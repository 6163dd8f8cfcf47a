"""Types of models: each is read by a table, to within a hundredth of what its authors publish and of
what transformers counts, whatever names its keys have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.files import ModelFile
from colltool.training.files.families import FAMILIES, family_of
from colltool.training.files.hugging_face import read_config
from colltool.training.files.presets import read_model
from colltool.training.flops import forward_flops
from colltool.training.job import load_job
from colltool.training.job_text import job_text
from colltool.training.mixers import KINDS, terms_of, value_of
from colltool.training.model import (
    TransformerModel,
    active_parameters,
    dense_before,
    layer_parameters,
    transformer_of,
)
from colltool.training.pipeline_stages import pipeline_stages, stage_parameters

Config = dict[str, Any]
_DATA = Path(__file__).parents[1] / "data" / "configs"


def rows(name: str) -> list[Config]:
    return [json.loads(line) for line in (_DATA / name).read_text().splitlines()]


# what authors publish, with config.json as it stands beside their weights
PUBLISHED = {row["name"]: row for row in rows("published.jsonl")}
# the parameters of transformers 5.24 for the default config of a type, counted on its meta device
COUNTED = {row["type"]: row for row in rows("counted.jsonl")}


def model_of(folder: Path, config: Config) -> TransformerModel:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return transformer_of(read_config(str(path)), "some-model")


def refusal_of(folder: Path, config: Config) -> str:
    with pytest.raises(ColltoolError) as caught:
        model_of(folder, config)
    return caught.value.spelled("shell")


@swept("name", PUBLISHED)
def test_published_parameters(name: str, tmp_path: Path) -> None:
    row = PUBLISHED[name]
    model = model_of(tmp_path, row["config"])
    assert model.parameters == pytest.approx(row["total"], rel=0.01)
    if row["active"] is None:
        return
    # some count the embedding as active and some do not, or neither it nor the head
    assert model.shape is not None
    table = model.shape.vocab * model.shape.hidden
    counts = [active_parameters(model) - tables * table for tables in range(3)]
    nearest = min(counts, key=lambda count: abs(count - row["active"]))
    # "3B" is anything that rounds to it
    rounding = 0.5e9 if row["active"] % 1e9 == 0 else 0.05e9
    assert abs(nearest - row["active"]) <= max(0.01 * row["active"], rounding)


@swept("kind", COUNTED)
def test_parameters_as_transformers_counts_them(kind: str, tmp_path: Path) -> None:
    row = COUNTED[kind]
    model = model_of(tmp_path, row["config"])
    assert model.parameters == pytest.approx(row["parameters"], rel=0.006)


# --- the same model by other names

# spellings that versions of transformers turn into each other
_RENAMED = (
    ("n_routed_experts", "num_local_experts", "num_experts"),
    ("num_experts_per_tok", "num_experts_per_token", "moe_topk"),
    ("n_shared_experts", "num_shared_experts"),
    ("sliding_window", "sliding_window_size"),
    ("linear_num_heads", "linear_num_key_heads"),
    ("n_group", "num_expert_group"),
)
_ABSENT = ("head_dim", "q_lora_rank", "moe_latent_size", "sliding_window", "n_shared_experts")
_RULES = {
    "qwen3_next": ("full_attention_interval", 4),
    "gemma3_text": ("sliding_window_pattern", 6),
}


def renamed(config: Config, picks: list[int]) -> Config:
    """The config with other spellings of the keys that no entry of its type spells itself."""
    own = family_of(config["model_type"]).get("sizes", {})
    spelled = {key for names in own.values() for key in names}
    found = dict(config)
    for spellings, pick in zip(_RENAMED, picks, strict=True):
        for key in spellings:
            if key in found and key not in spelled:
                found[spellings[pick % len(spellings)]] = found.pop(key)
                break
    return found


@given(
    kind=st.sampled_from(
        [kind for kind in COUNTED if "text_config" not in COUNTED[kind]["config"]]
    ),
    picks=st.lists(st.integers(0, 2), min_size=len(_RENAMED), max_size=len(_RENAMED)),
    nulls=st.sets(st.sampled_from(_ABSENT)),
    nested=st.sampled_from(["", "text_config", "llm_config", "language_config"]),
    head_dim=st.sampled_from(["as it is", "said", "left out"]),
    per_layer=st.booleans(),
    shuffle=st.randoms(),
)
@settings(max_examples=examples(150), deadline=None)
def test_a_model_is_the_same_by_other_names(
    kind: str,
    picks: list[int],
    nulls: set[str],
    nested: str,
    head_dim: str,
    per_layer: bool,
    shuffle: Any,
    tmp_path_factory: Any,
) -> None:
    folder = tmp_path_factory.mktemp("config")
    base = COUNTED[kind]["config"]
    expected = model_of(folder, base)
    config = renamed(base, picks)
    heads = config.get("num_attention_heads")
    if heads and config["hidden_size"] % heads == 0 and "kv_lora_rank" not in config:
        usual = config["hidden_size"] // heads
        if head_dim == "left out" and config.get("head_dim") == usual:
            del config["head_dim"]
        if head_dim == "said" and "head_dim" not in config and kind not in ("jetmoe", "zaya"):
            known = {"kv_channels", "attention_head_dim"}.isdisjoint(config)
            if known and "head_dim" not in str(family_of(kind).get("sizes", {})):
                config["head_dim"] = usual
    if per_layer and isinstance(config.get("intermediate_size"), int):
        config["intermediate_size"] = [config["intermediate_size"]] * 3
    # as a key that no class has is written; transformers fills in what is left out, not null
    config |= {key: None for key in nulls if key not in base and key not in config}
    keys = list(config)
    shuffle.shuffle(keys)
    config = {key: config[key] for key in keys}
    if nested:
        tied = config.pop("tie_word_embeddings", None)
        config = {"model_type": "a_whole_of_its_own", nested: config}
        config |= {"vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}}
        config |= {} if tied is None else {"tie_word_embeddings": tied}
    found = model_of(folder, config)
    assert found.parameters == pytest.approx(expected.parameters, rel=1e-9)
    assert active_parameters(found) == pytest.approx(active_parameters(expected), rel=1e-9)
    assert forward_flops(found, 1, 4096) == pytest.approx(
        forward_flops(expected, 1, 4096), rel=1e-9
    )
    if nested:
        assert "what is no text (vision_config)" in found.left_out


@pytest.mark.parametrize("kind", _RULES)
def test_a_list_of_layers_and_the_rule_that_it_follows(kind: str, tmp_path: Path) -> None:
    config = dict(COUNTED[kind]["config"])
    listed = model_of(tmp_path, config)
    del config["layer_types"]
    key, interval = _RULES[kind]
    assert model_of(tmp_path, config | {key: interval}) == listed
    other = model_of(tmp_path, config | {key: 2})
    assert forward_flops(other, 1, 8192) != forward_flops(listed, 1, 8192)


@swept(
    ("keys", "dense", "spread"),
    [
        ({"first_k_dense_replace": 3}, 3, False),
        ({"decoder_sparse_step": 2}, 4, True),
        ({"mlp_only_layers": [0, 1]}, 2, False),
        ({"mlp_only_layers": [5]}, 1, True),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1]}, 5, True),
        ({"moe_layer_freq": [0, 0, 1, 1, 1, 1, 1, 1]}, 2, False),
        ({"moe_layer_freq": 1}, 0, False),
        ({"moe_layer_freq": 2}, 4, True),
        ({"mlp_layer_types": ["dense"] + ["sparse"] * 7}, 1, False),
        ({"moe_layers": [1, 3, 5, 7]}, 4, True),
        ({"moe_layers_enum": "4,5,6,7"}, 4, False),
        ({"interleave_moe_layer_step": 2}, 4, True),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, 4, True),
        ({"moe_layer_start_index": 2, "moe_layer_end_index": 6, "moe_layer_interval": 1}, 3, True),
        ({"is_moe_layer": [False, True, True, True, True, True, True, True]}, 1, False),
        ({}, 0, False),
    ],
)
def test_which_layers_have_experts(keys: Config, dense: int, spread: bool, tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3_moe",
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "moe_intermediate_size": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 1000,
    }
    model = model_of(tmp_path, config | keys)
    assert (model.dense_layers, model.moe_layers) == (dense, 8 - dense)
    assert model.spread == spread
    assert sum(not model.has_experts(layer) for layer in range(8)) == dense


def test_every_other_layer_has_experts_where_a_model_has_them() -> None:
    """Llama 4 Maverick: the layers with odd numbers."""
    positions = [dense_before(layer, 48, 24, spread=True) for layer in range(49)]
    assert positions[:5] == [0, 1, 1, 2, 2]
    assert positions[-1] == 24
    assert [dense_before(layer, 61, 3, spread=False) for layer in (0, 2, 3, 9)] == [0, 2, 3, 3]


# --- what is wrong with a config

_KEYS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "num_experts", "num_experts_per_tok", "sliding_window",
    "moe_intermediate_size", "linear_num_key_heads", "linear_conv_kernel_dim", "layer_types",
    "decoder_sparse_step", "mlp_only_layers", "tie_word_embeddings", "kv_lora_rank",
    "first_k_dense_replace", "max_window_layers", "linear_attn_config", "ffn_config", "attn_config",
    "n_group", "mamba_dt_rank", "moe_layer_freq", "hybrid_override_pattern", "text_config",
    "num_nextn_predict_layers", "quantization_config", "model_type", "full_attention_interval",
)  # fmt: skip
_WRONG = (
    "wide", 1.5, True, {}, {"a": 1}, [1, "a"], [[1]], -1, 10**12, [], [1, 2], "", [None], {"a": [1]},
)  # fmt: skip


@given(
    kind=st.sampled_from(sorted(COUNTED)),
    key=st.sampled_from(_KEYS),
    value=st.sampled_from(_WRONG),
    inside=st.booleans(),
)
@settings(max_examples=examples(400), deadline=None)
def test_a_wrong_value_at_any_key_is_read_or_refused(
    kind: str, key: str, value: Any, inside: bool, tmp_path_factory: Any
) -> None:
    """Never another exception; an error stands at the config."""
    folder = tmp_path_factory.mktemp("config")
    config = COUNTED[kind]["config"] | {key: value}
    if inside:
        config = {"model_type": "whole", "text_config": config}
    said = "config.json:1"
    try:
        assert model_of(folder, config).parameters > 0
    except ColltoolError as error:
        said = str(error)
    assert "config.json:1" in said


@swept(
    ("key", "value"),
    [
        ("hidden_size", "wide"),
        ("num_hidden_layers", 1.5),
        ("num_attention_heads", True),
        ("vocab_size", {"a": 1}),
        ("num_experts", -1),
        ("moe_intermediate_size", [1, 2]),
        ("layer_types", 7),
        ("mlp_only_layers", {"a": 1}),
        ("tie_word_embeddings", "yes"),
        ("linear_conv_kernel_dim", 10**12),
    ],
)
def test_a_wrong_type_names_its_key(key: str, value: Any, tmp_path: Path) -> None:
    config = PUBLISHED["Qwen3-Next-80B-A3B"]["config"] | {key: value}
    assert f" {key}: " in refusal_of(tmp_path, config)
    nested = {"model_type": "whole", "text_config": config}
    assert f" text_config.{key}: " in refusal_of(tmp_path, nested)


@swept(
    ("kind", "key"),
    [
        ("qwen3_next", "linear_num_value_heads"),
        ("qwen3_next", "num_experts_per_tok"),
        ("deepseek_v3", "qk_nope_head_dim"),
        ("nemotron_h", "ssm_state_size"),
        ("llama", "intermediate_size"),
        ("llama", "num_hidden_layers"),
    ],
)
def test_a_size_that_is_missing_is_named_as_the_config_names_it(
    kind: str, key: str, tmp_path: Path
) -> None:
    config = {name: value for name, value in COUNTED[kind]["config"].items() if name != key}
    known = key if kind != "nemotron_h" else "mamba_d_state"
    assert f"{known} is missing, which a {kind} needs" in refusal_of(tmp_path, config)


def test_an_unknown_type_says_what_is_not_known_and_what_to_type(tmp_path: Path) -> None:
    config = {"model_type": "entirely_new", "hidden_size": 64, "frobnicated_layers": 3}
    said = refusal_of(tmp_path, config)
    assert "model_type 'entirely_new' is not modelled" in said
    assert "no known type has frobnicated_layers" in said
    assert "--model-file model.yaml" in said
    said = refusal_of(tmp_path, {"model_type": "whole", "text_config": config})
    assert "text_config.model_type: model_type 'entirely_new'" in said


def test_a_word_that_no_layer_is_known_by(tmp_path: Path) -> None:
    config = COUNTED["qwen3_next"]["config"]
    listed = ["hyper_attention", *config["layer_types"][1:]]
    said = refusal_of(tmp_path, config | {"layer_types": listed})
    assert "layer_types has 1 of 48 layers of hyper_attention, which is not modelled" in said


def test_a_switch_that_is_not_known_is_named_and_not_refused(tmp_path: Path) -> None:
    config = COUNTED["llama"]["config"] | {"some_new_moe_switch": True, "layer_layout": "odd"}
    assert model_of(tmp_path, config).left_out == (
        "what these keys say: some_new_moe_switch, layer_layout",
    )


# --- the tables themselves


@swept("kind", KINDS)
def test_an_operation_is_whole(kind: str) -> None:
    """Every size that it is made of is one that it must be given, or the model's own."""
    row = KINDS[kind]
    names = set()
    for matrix in (*row.split, *row.replicated):
        for terms in (matrix.inputs, *matrix.outputs):
            names |= {name for _, product in terms for name in product}
    for terms in (row.small, row.q, row.k, row.v, row.out, row.cache, row.state, row.work):
        names |= {name for _, product in terms for name in product}
    own = {"hidden", "kv_heads", "head_dim", "value_dim", "query_inputs", "heads", "q_rank"}
    assert names <= own | set(row.needs)
    assert row.source
    assert row.modules


def test_sums_of_products() -> None:
    sizes = {"a": 3, "b": 5}
    assert value_of(terms_of("2*a*b + 7 + 0.5*a"), sizes) == 38.5
    assert value_of(terms_of(""), sizes) == 0


@swept("kind", FAMILIES)
def test_an_entry_of_a_type_can_be_read(kind: str) -> None:
    entry = family_of(kind)
    for word in entry.get("words", {}).values():
        operation = word.removesuffix(" in a window").removesuffix(" in chunks")
        assert operation in (*KINDS, "dense", "experts", "")
    assert set(entry.get("also", ())) <= KINDS.keys()


# --- models in files of their own

_HYBRID: Config = {
    "schema": "colltool.model/1",
    "name": "mine",
    "layers": 8,
    "hidden": 1024,
    "heads": 8,
    "kv_heads": 2,
    "head_dim": 128,
    "ffn": 4096,
    "vocab": 32000,
    "operations": [
        {"operation": "gated attention", "layers": 2},
        {"operation": "attention", "layers": 2, "window": 512},
        {
            "operation": "gated delta",
            "layers": 4,
            "sizes": {"key_heads": 8, "key_dim": 64, "value_heads": 8, "value_dim": 64, "conv": 4},
        },
    ],
}


def hybrid(**changed: Any) -> TransformerModel:
    return transformer_of(ModelFile.model_validate(_HYBRID | changed))


def test_parameters_of_operations_by_hand() -> None:
    model = hybrid()
    assert model.shape is not None
    gated = 1024 * (2 * 1024 + 2 * 256) + 1024 * 1024
    plain = 1024 * (1024 + 2 * 256) + 1024 * 1024
    delta = 1024 * (4 * 512 + 16) + 512 * 1024
    layer = layer_parameters(model.shape, experts=False)
    assert layer.split == 0.25 * gated + 0.25 * plain + 0.5 * delta + 3 * 1024 * 4096


def test_flops_of_operations() -> None:
    """Windows and recurrences save work where the sequence is long; with every layer attention it
    is that of a model that lists none."""
    every = [{"operation": "attention", "layers": 8}]
    plain = hybrid(operations=[])
    assert forward_flops(hybrid(operations=every), 1, 4096) == forward_flops(plain, 1, 4096)
    assert hybrid(operations=every).parameters == plain.parameters
    more = [forward_flops(hybrid(), 1, sequence) for sequence in (1024, 8192)]
    most = [forward_flops(plain, 1, sequence) for sequence in (1024, 8192)]
    # a quarter of the layers sees all keys
    assert more[1] - more[0] < 0.3 * (most[1] - most[0])


def test_a_piece_of_a_sequence_is_half_seen() -> None:
    pieces = [{"operation": "attention", "layers": 8, "window": 1024, "chunked": True}]
    model = hybrid(operations=pieces)
    assert model.shape is not None
    assert model.shape.parts[0].keys(8192) == 512
    assert model.shape.parts[0].keys(512) == 256


@swept(
    ("changed", "says"),
    [
        ({"operations": [{"operation": "delta", "layers": 8}]}, "operation 'delta' is not known"),
        (
            {"operations": [{"operation": "gated delta", "layers": 8}]},
            "gated delta lacks key_heads and key_dim and value_heads and conv",
        ),
        ({"operations": [{"operation": "attention"}]}, "layers"),
        (
            {"operations": [{"operation": "attention", "layers": 8, "sizes": {"heads": "x"}}]},
            "operations.0.sizes.heads",
        ),
        ({"operations": {"attention": 8}}, "operations"),
    ],
)
def test_a_wrong_list_of_operations(changed: Config, says: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        load_job({"model": _HYBRID | changed, "sequence": 4096, "batch": {"global": 8}})
    assert says in str(caught.value)


def test_what_is_modelled_of_attention_alone() -> None:
    job = {
        "model": _HYBRID,
        "sequence": 4096,
        "batch": {"global": 64},
        "stack": "megatron",
        "device": "h100",
    }
    with pytest.raises(ColltoolError, match="context parallelism of gated delta rule"):
        load_job(job | {"layout": {"cp": 2}})
    with pytest.raises(ColltoolError, match="adapters of gated delta rule"):
        load_job(job | {"lora": {"rank": 16}})


@swept("name", PUBLISHED)
def test_every_type_can_be_planned_and_served(name: str, tmp_path: Path) -> None:
    """Stages hold the whole model, and what is written out of a config is the same model."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PUBLISHED[name]["config"]))
    job = load_job(str(path))
    model = job.draft.model
    assert model is not None
    if model.layers >= 4:
        staged = load_job(str(path), ["layout.pp=4", "batch.global=64"])
        setup = staged.setup(4)
        held = sum(stage_parameters(setup, stage).total for stage in pipeline_stages(setup))
        assert held >= model.parameters * 0.999
    served = colltool.serve(str(path), "gb300-nvl72:nodes=2")
    assert served.memory_bytes > model.parameters
    again = load_job(json.loads(json.dumps(_yaml(job_text(job)))))
    assert again.draft.model is not None
    assert again.draft.model.parameters == pytest.approx(model.parameters, rel=1e-9)
    assert again.draft.model.shape == model.shape


def _yaml(text: str) -> Any:
    from colltool.definitions.reader import sourced

    return sourced(text, "job.yaml")[0].data


def test_a_model_file_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(json.dumps(_HYBRID))
    read = transformer_of(read_model("mine.yaml", tmp_path))
    job = load_job("mine.yaml")
    assert job.draft.model == read
    assert job.drafted
    text = "layers: 4\nhidden: 512\nheads: 8\nffn: 2048\nvocab: 1000\n"
    Path("plain.yaml").write_text(text)
    assert load_job("plain.yaml").model_name == "plain"


def test_a_model_file_in_place_of_the_model_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(json.dumps(_HYBRID))
    Path("config.json").write_text('{"model_type": "entirely_new", "hidden_size": 64}')
    Path("job.yaml").write_text(
        "model: llama3-8b\nsequence: 2048\nbatch: {global: 64}\nstack: megatron\nlayout: {tp: 2}\n"
    )
    for job in ("config.json", "mine.yaml", "llama3-8b", "job.yaml"):
        loaded = load_job(job, model_file="mine.yaml")
        assert loaded.model_name == "mine"
    assert load_job("job.yaml", model_file="mine.yaml").draft.sequence == 2048
    served = colltool.serve("config.json", "hgx-h200", tp=2, model_file="mine.yaml")
    assert served.job == "mine"
    with pytest.raises(ColltoolError, match=r"nothing\.yaml"):
        load_job("config.json", model_file="nothing.yaml")
