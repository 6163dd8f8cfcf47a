"""Time and calls of the modules that a job recomputes by name: what each repeats, and no more."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import pytest
from planning import two_tiers
from swept import swept

import colltool
from colltool.training.calls import stage_calls
from colltool.training.compute_times import LayerTimes, layer_times, routing_times
from colltool.training.files import Module
from colltool.training.flops import hardware_flops, model_flops
from colltool.training.job import load_job
from colltool.training.operations import cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.roofline import Roofline, gemm_s

MODULES: tuple[str, ...] = get_args(Module)
# operations of a layer whose GEMMs a module repeats
GEMMS = {
    "attention": {"attention"},
    "mlp": {"ffn"},
    "moe": {"router", "shared expert"},
    "shared_experts": {"shared expert"},
}


def setup(recompute: Any) -> ParallelConfig:
    job = {
        "model": "deepseek-v3",
        "sequence": 4096,
        "batch": {"global": 512},
        "layout": {"ep": 32, "pp": 4},
        "recompute": recompute,
        "device": "h100",
        "stack": "megatron",
    }
    return load_job(job).setup(128)


def layers(recompute: Any) -> tuple[LayerTimes, LayerTimes]:
    config = setup(recompute)
    return layer_times(config, experts=False), layer_times(config, experts=True)


@swept("module", MODULES)
def test_a_module_runs_again_where_a_layer_has_it(module: str) -> None:
    """Forward and backward stay as they are, and no part runs again for longer than it took."""
    in_dense, in_moe = {
        "mlp": (True, False),
        "moe": (False, True),
        "moe_act": (False, True),
        "shared_experts": (False, True),
    }.get(module, (True, True))
    once, again = layers("none"), layers({"modules": [module]})
    for before, after, has in zip(once, again, (in_dense, in_moe), strict=True):
        assert before.all.again_s == 0
        assert (after.all.again_s > 0) is has
        for part, same in zip(after, before, strict=True):
            assert part._replace(again_s=0.0) == same
            assert part.again_s <= part.forward_s * (1 + 1e-12)


@swept("module", MODULES)
def test_flops_of_a_module_are_those_of_its_operations(module: str) -> None:
    config = setup({"modules": [module]})
    shape, model = config.shape, config.model
    assert shape is not None
    assert model is not None
    even = shape._replace(moe=shape.moe._replace(imbalance=1.0)) if shape.moe else shape
    counted = 0.0
    cut = cut_of(config)._replace(ep=1, tokens=float(512 * 4096), tp=1)
    for experts, count in ((False, model.dense_layers), (True, model.moe_layers)):
        for operation in layer_operations(even, cut, experts=experts):
            repeated = ()
            if operation.name in GEMMS.get(module, set()):
                repeated = operation.gemms
            elif module == "mla_up_proj":
                repeated = operation.up_gemms
            elif module == "moe" and operation.name == "experts":
                repeated = operation.gemms
            counted += count * sum(gemm.flops for gemm in repeated)
            if module in ("core_attn", "attention"):
                counted += count * operation.causal_flops
    assert hardware_flops(config) - model_flops(config) == pytest.approx(counted, rel=1e-6)


def test_more_modules_never_take_less_and_all_of_them_no_more_than_whole_layers() -> None:
    whole = layers("full")
    for first, second in combinations(MODULES, 2):
        pair = layers({"modules": [first, second]})
        for alone in (first, second):
            for both, one in zip(pair, layers({"modules": [alone]}), strict=True):
                assert both.all.again_s >= one.all.again_s
    for every, full in zip(layers({"modules": list(MODULES)}), whole, strict=True):
        assert every.all.again_s <= full.all.again_s * (1 + 1e-12)


@swept("module", MODULES)
def test_tokens_are_sent_again_only_where_experts_run_again(module: str) -> None:
    config = setup({"modules": [module]})
    calls = [
        call
        for stage in pipeline_stages(config)
        for call in stage_calls(config, stage)
        if call.dimension == "ep" and call.phase == "again"
    ]
    assert bool(calls) is (module == "moe")


def test_a_step_with_recomputed_modules_lies_between_none_and_full() -> None:
    job = {
        "model": "deepseek-v3",
        "sequence": 4096,
        "batch": {"global": 64},
        "layout": {"ep": 32},
        "device": "h100",
        "stack": "megatron",
    }
    steps = [
        colltool.plan(job | {"recompute": recompute}, two_tiers(), 64).step_s
        for recompute in ("none", {"modules": ["mla_up_proj", "mlp", "moe_act"]}, "full")
    ]
    assert steps == sorted(steps)
    assert len(set(steps)) == 3


@pytest.mark.parametrize("recompute", ["full", {"modules": ["mlp"]}])
def test_a_compiler_leaves_out_the_last_gemm_of_a_feed_forward_part(recompute: Any) -> None:
    """Its output goes to the next layer alone, whose input is kept: no gradient needs it again. An
    expert's output is needed, for the gradient of its gate."""
    job = {
        "model": "deepseek-v3",
        "sequence": 4096,
        "batch": {"global": 512},
        "recompute": recompute,
        "shard": {"mode": "fsdp"},
        "device": "tpu-v5p",
        "stack": "jax",
    }
    left_out = load_job(job).setup(128)
    assert left_out.stack is not None
    whole = left_out._replace(stack=left_out.stack._replace(last_gemm_again=True))
    for experts, part in ((False, "ffn"), (True, "shared expert")):
        less, more = (layer_times(config, experts=experts) for config in (left_out, whole))
        operations = layer_operations(left_out.shape, cut_of(left_out), experts=experts)
        last = next(one for one in operations if one.name == part).gemms[-1]
        assert left_out.device is not None
        machine = Roofline(left_out.device, left_out.stack, "bf16")
        repeated = recompute == "full" or not experts
        expected = gemm_s(last, machine) if repeated else 0.0
        assert more.gemms.again_s - less.gemms.again_s == pytest.approx(expected)
        assert less.experts == more.experts
        assert less.core == more.core
        assert less.gemms[:2] == more.gemms[:2]


def test_each_expert_of_a_rank_waits_for_launches_of_its_own() -> None:
    """Forward once and backward twice: of 256 experts, ranks of ep 32 hold 8."""
    config = setup("none")
    assert config.stack is not None
    assert config.device is not None
    assert config.shape is not None
    for ep, local in ((32, 8), (16, 16)):
        cut = cut_of(config._replace(layout=config.layout._replace(ep=ep)))
        operations = layer_operations(config.shape, cut, experts=True)
        machine = Roofline(config.device, config.stack, "bf16")
        free = machine._replace(stack=config.stack._replace(routing_expert_s=0.0))
        with_them, without = (routing_times(operations, 2.0, one) for one in (machine, free))
        more = local * config.stack.routing_expert_s
        assert with_them.forward_s - without.forward_s == pytest.approx(more)
        assert with_them.backward_s - without.backward_s == pytest.approx(2 * more)
