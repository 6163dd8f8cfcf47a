"""Which shipped stack a job runs on: by its name, its words and its device."""

from __future__ import annotations

import pytest
from planning import dense, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ManyErrors
from colltool.training.stack_words import FAMILIES, chosen_stack, family_of, idle_word


@swept(
    ("keys", "stack"),
    [
        ({"stack": "megatron"}, "megatron-eager"),
        ({"stack": "megatron", "device": "gb200"}, "megatron-graphs"),
        ({"stack": "megatron", "cuda_graphs": True}, "megatron-graphs"),
        ({"stack": "megatron", "cuda_graphs": False, "device": "gb200"}, "megatron-eager"),
        ({"stack": "megatron-graphs"}, "megatron-graphs"),
        ({"stack": "megatron-graphs", "cuda_graphs": True}, "megatron-graphs"),
        ({"stack": "fsdp"}, "fsdp"),
        ({"stack": "fsdp", "compile": True}, "fsdp-compiled"),
        ({"stack": "fsdp", "compile": False}, "fsdp-eager"),
        ({"stack": "megatron", "cuda_graphs": True, "device": "a100-80gb"}, "megatron-graphs"),
    ],
)
def test_words_choose(keys: dict[str, object], stack: str) -> None:
    config = colltool.load_job(dense(**{"device": "h100"} | keys)).setup(64)
    assert config.stack is not None
    assert config.stack.name == stack


@swept(
    ("stack", "word"),
    [
        ("megatron-eager", "cuda_graphs"),
        ("jax", "cuda_graphs"),
        ("megatron-2021", "compile"),
        ("fsdp-eager", "compile"),
    ],
)
def test_a_word_that_does_not_go_with_the_stack_is_refused(stack: str, word: str) -> None:
    with pytest.raises(ManyErrors, match=f"{word} chooses among"):
        colltool.load_job(dense(stack=stack, device="h100", **{word: True}))


def test_a_family_has_a_name_that_leaves_it_open() -> None:
    for name, family in FAMILIES.items():
        assert family_of(family.on) == family_of(family.off) == family_of(name) == name
        assert chosen_stack(name, {}) == name
        assert idle_word(name, {family.word: True}) is None


def test_the_choice_is_said_and_others_stand_beside_it() -> None:
    """8 tokens a rank and GEMM: launches bind, and graphs are faster."""
    job = dense(sequence=128)
    eager = colltool.plan(job, two_tiers(), 64)
    graphs = colltool.plan(job | {"cuda_graphs": True}, two_tiers(), 64)
    assert any("megatron-eager" in line and "assumed" in line for line in eager.grounds)
    assert any("cuda graphs on, as the job says" in line for line in graphs.grounds)
    assert any("the host launches kernels" in line for line in eager.grounds)
    assert graphs.step_s < 0.9 * eager.step_s
    assert {other.name: other.step_s for other in eager.stacks} == {
        "megatron-graphs": pytest.approx(graphs.step_s)
    }
    assert [other.name for other in graphs.stacks] == ["megatron-eager"]
