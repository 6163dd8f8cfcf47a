"""Every proposal of the registry is shown by a command, and there is no other list of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import dense, thin

import colltool.training
from colltool.training import adapted, proposals, registry, search_space, targets
from colltool.training.layout_results import LayoutChoice

MEMBERS = (adapted, proposals, search_space, targets)  # imported: they register
SHAPE = {"layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 11008, "vocab": 32000}
EXPERTS = SHAPE | {"moe": {"experts": 64, "top_k": 8, "ffn": 2048}}
LLAMA = {"model": "llama3-8b", "sequence": 8192, "device": "h100", "stack": "megatron"}
JOBS: dict[str, dict[str, Any]] = {
    "again": dense(recompute="full"),
    "open": dense(
        overlap={"dp": False, "pp": False, "cp": False},
        layout={"tp": 2, "sp": True, "cp": 2, "pp": 2},
    ),
    "copies": dense(layout={}, shard={"mode": "ddp"}, batch={"global": 64}),
    "sharded": dense(layout={}, shard={"mode": "fsdp"}),
    "experts": dense(model=EXPERTS, layout={"ep": 32}, batch={"global": 256, "micro": 2}),
    "long_experts": dense(
        model=EXPERTS, sequence=8192, layout={}, batch={"global": 16}, stack="megatron-2021"
    )
    | {"device": "a100-80gb"},
    "wide": dense(model=EXPERTS, layout={"tp": 16, "ep": 2}, batch={"global": 64}),
    "long": dense(
        model=SHAPE, layout={"tp": 2, "sp": True, "pp": 4}, batch={"global": 64, "micro": 2}
    ),
    "full": LLAMA
    | {"batch": {"global": 512, "micro": 4}, "shard": {"mode": "zero1"}}
    | {"layout": {"tp": 2, "sp": True}},
    "large": {
        "model": "gpt3-175b",
        "sequence": 2048,
        "batch": {"global": 64, "micro": 2},
        "device": "h100",
        "stack": "megatron",
        "layout": {"tp": 8, "pp": 4, "dp": 2},
    },
    "scores": LLAMA
    | {"batch": {"global": 256, "micro": 1}, "layout": {"tp": 2}, "stack": "megatron-2021"}
    | {"device": "a100-80gb", "shard": {"mode": "zero1"}},
    "calls": {
        "layout": {"dp": 64},
        "calls": [{"primitive": "ar", "group": "dp", "size": "1MB", "count": 1000}],
    },
}
THIN = "-f thin.yaml -n 64 --all"
SEARCH = "plan long_experts.yaml -f thin.yaml -n 8 --search --top 300 --all"
# by the code of a proposal: a command, and what it says of it
SHOWN: dict[str, tuple[str, str]] = {
    "sharded_states": (f"plan copies.yaml {THIN}", "shard optimizer states (ZeRO-1)"),
    "single_sequences": ("job show full.yaml -n 64", "batch.micro=1"),
    "sequence_parallelism": (f"plan wide.yaml {THIN}", "| sequence parallelism"),
    "less_recomputation": (f"plan again.yaml {THIN}", "| recompute none"),
    "more_recomputation": ("job show scores.yaml -n 64", "recompute=selective"),
    "sharded_weights": (f"plan copies.yaml {THIN}", "shard weights (FSDP)"),
    "shards_inside_a_tier": (f"plan sharded.yaml {THIN}", "HSDP: shard inside nvlink"),
    "hidden_calls": (f"plan open.yaml {THIN}", "overlap pipeline sends with compute"),
    "other_buckets": (f"plan copies.yaml {THIN}", "gradient buckets"),
    "gradients_in_16_bits": (f"plan copies.yaml {THIN}", "16-bit gradients"),
    "compressed_gradients": (f"plan copies.yaml {THIN}", "int8 gradients"),
    "tensor_groups_inside_a_domain": (f"plan wide.yaml {THIN}", "keep TP inside nvlink"),
    "worst_dimension_further_in": (f"plan wide.yaml {THIN}", "place ep further in"),
    "experts_inside_a_domain": (f"plan experts.yaml {THIN}", "keep EP inside nvlink"),
    "other_dispatchers": (f"plan experts.yaml {THIN}", "dispatch tokens with DeepEP"),
    "other_context_parallelism": (f"plan open.yaml {THIN}", "context parallelism by"),
    "more_chunks": (f"plan again.yaml {THIN}", "interleave: 2 chunks per stage"),
    "weight_gradients_in_the_bubble": (f"plan long.yaml {THIN}", "zero-bubble schedule (ZB1P)"),
    "larger_replicas": ("job show large.yaml -n 64", "layout.tp=16"),
    "other_layouts": (f"plan experts.yaml {THIN}", "| EP 16"),
    "other_micro_batch": (f"plan long.yaml {THIN}", "| smaller micro-batches"),
    "other_call_buckets": ("plan calls.yaml -f dgx-h100", "fuse 1,000 all-reduce calls into 1"),
    "tier_bandwidth": (f"plan again.yaml {THIN} --target step=5%", "slowest ib"),
    "oversubscription": (f"plan again.yaml {THIN} --target step=5%", "thinnest spine of ib"),
    "domain_size": (f"plan again.yaml {THIN} --target step=5%", "smallest nvlink domain"),
    "known_stack": ("plan llama3-70b -f tpu-v5p --all", "the job runs with stack jax"),
    "whole_domains": ("plan mixtral-8x7b -f nvl72 --all", "ranks of each nvlink domain"),
    "fewer_ranks": ("plan mixtral-8x7b -f nvl72 --all", "ranks: its layout and batch do not fill"),
    "searched_layout": ("plan llama3-70b -f dgx-h100 -n 16 --all", "its own layout does not fit"),
    "tensor_groups": (SEARCH, "tp"),
    "parts_of_a_sequence": (SEARCH, "cp"),
    "pipelines": (SEARCH, "pp"),
    "replicas": (SEARCH, "dp"),
    "expert_groups": (SEARCH, "ep"),
    "micro_batches": (SEARCH, "micro"),
    "chunks": (SEARCH, "virtual"),
    "shardings": (SEARCH, "shard"),
    "recomputations": (SEARCH, "recompute"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jobs above, and a fabric, as files."""
    place = tmp_path_factory.mktemp("proposals")
    for name, job in JOBS.items():
        text = yaml.safe_dump({"schema": "colltool.job/1", "name": name} | job)
        (place / f"{name}.yaml").write_text(text)
    slow = thin(4)
    slow["tiers"][1]["bandwidth"] = "10GB/s"
    (place / "thin.yaml").write_text(yaml.safe_dump(slow))
    return place


@pytest.mark.alike(8)
@pytest.mark.parametrize("code", registry.codes())
def test_a_proposal_is_shown_by_a_command(
    code: str, folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stands in no row above is not: give it a sentence, a command and what it prints."""
    assert code in SHOWN
    monkeypatch.chdir(folder)
    command, says = SHOWN[code]
    if command != SEARCH:
        done = run(*command.split())
        assert done.code == 0, done.err
        assert says in " ".join(done.out.split())


def test_a_search_shows_several_values_of_each_choice(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    layouts = run(*SEARCH.replace("--all", "--format json").split()).json["layouts"]
    choices = [choice for command, choice in SHOWN.values() if command == SEARCH]
    assert [name for name in choices if len({str(row[name]) for row in layouts}) == 1] == []


def test_each_row_is_of_a_proposal() -> None:
    assert set(SHOWN) == set(registry.codes())


def test_a_search_chooses_what_the_registry_tries() -> None:
    """sp, etp and the schedule follow from the other choices."""
    tried = {member.choice for member in registry.members("search", "job")}
    assert tried == set(LayoutChoice._fields) - {"sp", "etp", "schedule"}


def calls_of(name: str) -> Iterator[tuple[str, ast.AST]]:
    """Functions and methods of training rooms that call a function of this name, by module."""
    for path in sorted(Path(colltool.training.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            if any(ast.unparse(func).endswith(name) for func in called):
                yield path.stem, function


@pytest.mark.parametrize("made", ["current.change", "Knob", "current.changed"])
def test_nothing_is_proposed_beside_the_registry(made: str) -> None:
    """What makes a change is a proposal, or a helper in the same file."""
    found = [
        (module, function) for module, function in calls_of(made) if module != "collective_cost"
    ]
    assert found
    for module, function in found:
        assert isinstance(function, ast.FunctionDef)
        decorated = [ast.unparse(mark).split("(")[0] for mark in function.decorator_list]
        assert "proposal" in decorated or function.name.startswith("_"), (module, function.name)


def test_changes_of_a_setup_or_of_tiers_stand_in_proposals_alone() -> None:
    """Neither memory, targets nor a search has values of its own to try."""
    homes = {module for name in ("with_values", "with_tiers") for module, _ in calls_of(name)}
    assert homes == {"proposals", "job_changes", "fabric_changes", "adapted", "job_text"}
