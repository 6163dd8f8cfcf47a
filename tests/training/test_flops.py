"""Operations and kernel times: the published totals of Narayanan 2021 and Korthikanti 2022, and
sums by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from closed_forms import utilisation

from colltool.training.compute_times import LayerTimes, Times, layer_times, stage_times
from colltool.training.files import StackFile
from colltool.training.files.presets import read_device, read_stack
from colltool.training.flops import forward_flops, hardware_flops, model_flops
from colltool.training.job import load_job
from colltool.training.model import Mla, Moe, Shape, TransformerModel
from colltool.training.operations import LayerCut, Operation, layer_operations
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.roofline import Gemm, Roofline, attention_core_s, gemm_s, moved_s
from colltool.training.stack import Accelerator, accelerator_of, stack_of
from colltool.training.updates import optimizer_s

GPT3 = Shape(hidden=12288, heads=96, kv_heads=96, head_dim=128, ffn=49152, matrices=2, vocab=51200)


def setup(**changed: Any) -> ParallelConfig:
    job = load_job("gpt3-175b")
    model = TransformerModel("gpt3", 96, GPT3)
    return job.setup(512)._replace(model=model)._replace(**changed)


def test_hardware_flops_of_narayanan() -> None:
    """96 B s L h^2 (1 + s/6h + V/16Lh), everything computed again (arXiv:2104.04473, section 3 and
    appendix); of attention's scores, s/6h, we count the causal half."""
    b, s, layers, h, v = 1536, 2048, 96, 12288, 51200
    published = 96 * b * s * layers * h**2 * (1 + s / (12 * h) + v / (16 * layers * h))
    assert hardware_flops(setup(recompute="full")) == pytest.approx(published, rel=1e-12)


def test_model_flops_of_korthikanti() -> None:
    """72 B s L h^2 (1 + s/6h + V/12Lh) (arXiv:2205.05198, eq 7 and 8); of attention's scores,
    s/6h, we count the causal half."""
    b, s, layers, h, v = 1536, 2048, 96, 12288, 51200
    published = 72 * b * s * layers * h**2 * (1 + s / (12 * h) + v / (12 * layers * h))
    assert model_flops(setup(recompute="full")) == pytest.approx(published, rel=1e-12)
    core = 2 * b * s * s * h * layers
    assert hardware_flops(setup(recompute="selective")) == pytest.approx(
        published + core, rel=1e-12
    )
    assert hardware_flops(setup(recompute="none")) == model_flops(setup())


def test_utilisation_of_a_published_run() -> None:
    """Korthikanti 2022, table 5: 175B, 64 A100, batch 64, 13.75 s a step with selective
    recomputation: 51.4% of 312 TFLOP/s."""
    run = setup(global_batch=64, layout=load_job("gpt3-175b").setup(64).layout)
    b, s, layers, h = 64, 2048, 96, 12288
    other_half = 6 * b * s * s * h * layers / (13.75 * 64 * 312e12)
    assert utilisation(run, 13.75) + other_half == pytest.approx(0.514, rel=0.01)


def test_six_operations_a_parameter_and_token() -> None:
    job = load_job("llama3-70b")
    done = model_flops(job.setup(32))
    tokens, params = 1024 * 8192, 70.55e9 - 128256 * 8192  # the embedding multiplies nothing
    core = 3 * 80 * 4 * tokens * 8192 * 8192 / 2
    assert done == pytest.approx(6 * params * tokens + core, rel=1e-4)


def test_experts_count_those_that_a_token_visits() -> None:
    job = load_job("mixtral-8x7b")
    assert job.draft.model is not None
    per_token = forward_flops(job.draft.model, 1, 0)
    active = 12.88e9 - 32000 * 4096
    assert per_token == pytest.approx(2 * active, rel=1e-3)


def operation(
    shape: Shape, cut: LayerCut, name: str = "attention", *, experts: bool = False
) -> Operation:
    return next(one for one in layer_operations(shape, cut, experts=experts) if one.name == name)


def projections(shape: Shape, tokens: float, tp: int = 1) -> float:
    return sum(gemm.flops for gemm in operation(shape, LayerCut(tokens, 1, tp)).gemms)


def test_grouped_queries_shrink_keys_and_values_alone() -> None:
    grouped = GPT3._replace(kv_heads=12)
    h, d = 12288, 128
    assert projections(GPT3, 1) - projections(grouped, 1) == 2 * h * d * 2 * (96 - 12)
    whole = operation(GPT3, LayerCut(1, 2048)).causal_flops
    assert whole == operation(grouped, LayerCut(1, 2048)).causal_flops
    assert whole == 2 * operation(GPT3, LayerCut(1, 2048, tp=2)).causal_flops


def test_tensor_parallelism_beyond_the_kv_heads_repeats_them() -> None:
    grouped = GPT3._replace(kv_heads=8)
    assert projections(grouped, 1, 16) == 2 * 12288 * 128 * (2 * 6 + 2 * 1)


def test_latent_attention_by_hand() -> None:
    mla = Shape(7168, 128, 128, 56, 18432, 3, 129280, mla=Mla(1536, 512, 128, 64, 128))
    down = 7168 * (1536 + 512 + 64)
    up = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    assert projections(mla, 10, 4) == 2 * 10 * (down + up / 4)
    found = operation(mla, LayerCut(10, 4096, tp=4))
    assert (
        found.causal_flops == found.core_flops / 2 == 2 * 10 * 4096 * 128 * (128 + 64 + 128) / 4 / 2
    )


def test_one_head_over_one_head_is_four_matrices() -> None:
    tiny = Shape(hidden=4, heads=2, kv_heads=2, head_dim=2, ffn=16, matrices=2, vocab=10)
    assert projections(tiny, 1) == 128
    assert operation(tiny, LayerCut(8, 8)).core_flops == 1024


def test_a_layer_with_experts_by_hand() -> None:
    moe, cut = (
        GPT3._replace(moe=Moe(8, 2, 1024, shared_ffn=512), matrices=3),
        LayerCut(100, 2048, tp=2, sp=True),
    )
    flops = {one.name: one.flops for one in layer_operations(moe, cut, experts=True)}
    assert flops["experts"] == 2 * 100 * 2 * 3 * 12288 * 1024 / 2
    assert flops["shared expert"] == 2 * 100 * 3 * 12288 * 512 / 2
    assert flops["router"] == 2 * 50 * 12288 * 8
    assert [one.name for one in layer_operations(moe, cut)] == ["norms", "attention", "ffn"]


def test_what_a_layer_sends_is_read_off_its_operations() -> None:
    """Routed experts end no region where their tokens are apart, or where a shared expert beside
    them does."""
    shared, alone = (GPT3._replace(moe=Moe(8, 2, 1024, shared_ffn=width)) for width in (512, 0))

    def regions(shape: Shape, *, sp: bool) -> list[str]:
        return [
            one.name
            for one in layer_operations(shape, LayerCut(100, 2048, tp=2, sp=sp), experts=True)
            if one.ends_region
        ]

    assert regions(shared, sp=True) == regions(shared, sp=False) == ["attention", "shared expert"]
    assert regions(alone, sp=True) == ["attention"]
    assert regions(alone, sp=False) == ["attention", "experts"]


# --- kernels
# ----------------------------------------------------------------------------------------------------------


def machine(precision: str = "bf16", device: str = "h100", stack: str = "megatron") -> Roofline:
    """Kernels that reach one share of the peak in any shape; what the shape does is in
    test_gemms.py."""
    flat = stack_of(read_stack(stack, Path()), stack)._replace(
        half=0, half_wave=0, attention_half_wave=0
    )
    return Roofline(accelerator_of(read_device(device, Path()), device), flat, precision)


def test_a_large_gemm_is_bound_by_its_share_of_the_peak() -> None:
    found = gemm_s(Gemm(8192, 8192, 8192), machine())
    assert found == pytest.approx(3.9e-6 + 2 * 8192**3 / (0.773 * 989.4e12))


def test_a_thin_gemm_is_bound_by_memory() -> None:
    found = gemm_s(Gemm(8, 8192, 8192), machine())
    moved = 2 * (8 * 8192 + 8192 * 8192 + 8 * 8192)
    assert found == pytest.approx(3.9e-6 + moved / (0.83 * 3.35e12))


def test_eight_bits_lose_short_sums() -> None:
    tiles = 16384**2 / (128 * 256)
    full = tiles / (tiles + 0.17 * 132)
    long, short = (gemm_s(Gemm(16384, 16384, k), machine("fp8")) for k in (16384, 512))
    assert long == pytest.approx(2.5e-6 + 2 * 16384**3 / (0.722 * 16384 / 16758 * full * 1978.9e12))
    assert short == pytest.approx(
        2.5e-6 + 2 * 16384**2 * 512 / (0.722 * 512 / 886 * full * 1978.9e12), rel=0.2
    )


def test_eight_bits_are_never_twice_as_fast() -> None:
    """GEMMs alone: 1.9 times; casts, attention and the rest make it 1.3 to 1.6 on dense layers."""
    times = [gemm_s(Gemm(8192, 8192, 8192), machine(one)) for one in ("bf16", "fp8")]
    assert 1.3 < times[0] / times[1] < 2


def test_experts_are_one_launch_and_their_tokens_fill_tiles() -> None:
    few, tile = (gemm_s(Gemm(m, 2048, 64, copies=32, grouped=True), machine()) for m in (4, 64))
    assert 16e-6 < few <= tile < 32 * 4e-6
    part, next_tile = (
        gemm_s(Gemm(m, 8192, 8192, copies=2, grouped=True), machine()) for m in (1030, 1088)
    )
    assert part == pytest.approx(next_tile), "1030 tokens take what 17 x 64 do"
    assert gemm_s(Gemm(0, 2048, 64), machine()) == 0


def test_few_tokens_do_not_fill_the_tiles_of_an_expert() -> None:
    """DeepGEMM, grouped on H800, N 4096, K 7168: 256 tokens an expert reach 0.72 of the rate of
    8192, 1024 reach 0.95."""
    rate = {}
    for tokens in (256, 1024, 8192):
        gemm = Gemm(tokens, 4096, 7168, copies=4, grouped=True)
        rate[tokens] = gemm.flops / gemm_s(gemm, machine("fp8"))
    assert rate[256] / rate[8192] == pytest.approx(932 / 1297, rel=0.12)
    assert rate[1024] / rate[8192] == pytest.approx(1233 / 1297, rel=0.08)


def test_a_single_expert_is_a_gemm_like_any_other() -> None:
    alone = Gemm(512, 4096, 7168, copies=1, grouped=True)
    assert gemm_s(alone, machine()) == gemm_s(alone._replace(grouped=False), machine())
    assert gemm_s(alone._replace(copies=2), machine()) > 2 * gemm_s(alone, machine())


def test_backward_is_the_same_operations_twice() -> None:
    one = Gemm(100, 200, 300)
    assert one.backward == (Gemm(100, 300, 200), Gemm(200, 300, 100, summed=True))
    assert sum(gemm.flops for gemm in one.backward) == 2 * one.flops


def test_attention_reaches_half_of_the_peak_in_sixteen_bits() -> None:
    assert attention_core_s(1e15, 1, machine()) == pytest.approx(3.9e-6 + 1e15 / (0.47 * 989.4e12))
    back_s = attention_core_s(1e15, 1, machine(), backward=True)
    assert back_s == pytest.approx(3.9e-6 + 1e15 / (0.42 * 989.4e12))
    assert attention_core_s(1e15, 1, machine("fp8")) == attention_core_s(1e15, 1, machine()), (
        "attention stays in 16 bits"
    )
    assert attention_core_s(0, 1, machine()) == 0
    assert moved_s(1e9, machine()) == pytest.approx(1e9 / (0.8 * 3.35e12))


# --- stages
# -----------------------------------------------------------------------------------------------------------

PLAIN = stack_of(
    StackFile.model_validate(
        {
            "gemm": {"bf16": {"x": 0.5}},
            "attention": {"efficiency": {"x": 0.5}, "half_wave": 0},
            "elementwise": 10,
            "launch": {"bf16": "0s"},
            "memory_gemm": 1,
            "memory_elementwise": 1,
            "memory_optimizer": 0.5,
            "fixed": "0s",
            "jitter": 0,
            "runtime": "1GB",
            "half": 0,
            "half_wave": 0,
            "weight_gradient": 1,
        }
    )
)
FAST_MEMORY = Accelerator("d", "x", (("bf16", 1e14),), 80e9, 1e15)
TINY = Shape(hidden=1024, heads=8, kv_heads=8, head_dim=128, ffn=4096, matrices=2, vocab=1024)


def tiny(**changed: Any) -> ParallelConfig:
    job = load_job("llama3-70b", {"layout": {"pp": 2}, "schedule": "1f1b", "batch": {"global": 8}})
    base = job.setup(2)._replace(
        model=TransformerModel("tiny", 4, TINY), sequence=1024, device=FAST_MEMORY, stack=PLAIN
    )
    return base._replace(**changed)


def test_a_stage_by_hand() -> None:
    """Memory so fast that GEMMs and attention alone count: 24 T h^2 + 2 T s h of a layer at half of
    1e14."""
    run = tiny()
    gemms, core = 24 * 1024 * 1024**2 / 0.5e14, 2 * 1024 * 1024 * 1024 / 0.5e14
    moved = 10 * 1024 * 1024 * 2 / 1e15
    layer = layer_times(run, experts=False)
    assert layer.gemms.forward_s == pytest.approx(gemms)
    assert layer.gemms.backward_s == pytest.approx(2 * gemms)
    assert layer.gemms.weight_s == pytest.approx(gemms)
    assert (layer.core.forward_s, layer.core.backward_s) == pytest.approx((core, 2.5 * core))
    assert (layer.elementwise.forward_s, layer.elementwise.backward_s) == pytest.approx(
        (moved, 2 * moved)
    )
    first, last = (stage_times(run, stage) for stage in pipeline_stages(run))
    assert first.all.forward_s == pytest.approx(2 * (gemms + core + moved))
    head = 2 * 1024 * 1024 * 1024 / 0.5e14
    assert last.all.forward_s - first.all.forward_s == pytest.approx(head, rel=0.01)
    assert last.all.backward_s - first.all.backward_s == pytest.approx(2 * head, rel=0.01)


def test_what_is_computed_again() -> None:
    none, selective, full = (
        layer_times(tiny(recompute=how), experts=False).all for how in ("none", "selective", "full")
    )
    assert none.again_s == 0
    assert full.again_s == pytest.approx(none.forward_s)
    assert selective.again_s == pytest.approx(layer_times(tiny(), experts=False).core.forward_s)
    assert (none.forward_s, none.backward_s) == (full.forward_s, full.backward_s)


def test_tensor_parallelism_splits_gemms_and_with_sp_the_rest() -> None:
    one = layer_times(tiny(), experts=False)
    layout = tiny().layout
    split = layer_times(tiny(layout=layout._replace(tp=4)), experts=False)
    spread = layer_times(tiny(layout=layout._replace(tp=4, sp=True)), experts=False)
    assert split.gemms.forward_s == pytest.approx(one.gemms.forward_s / 4)
    inside = 0.4  # of the 20 h stand in the regions that are split: GELU's 8 h
    assert split.elementwise.forward_s == pytest.approx(
        one.elementwise.forward_s * (1 - inside + inside / 4)
    )
    assert spread.elementwise.forward_s == pytest.approx(one.elementwise.forward_s / 4)


def test_without_flash_all_scores_are_computed_and_written() -> None:
    flash = layer_times(tiny(), experts=False).core
    plain = layer_times(tiny(stack=PLAIN._replace(flash=False)), experts=False).core
    scores = 5 * 1024 * 1024 * 8 * 2 / 1e15
    assert plain.forward_s == pytest.approx(2 * flash.forward_s + scores)
    assert plain.backward_s == pytest.approx(4 * flash.forward_s + 2 * scores)


def test_imbalance_slows_experts() -> None:
    even, skewed = (
        TransformerModel("moe", 4, TINY._replace(moe=Moe(8, 2, 1024, imbalance=x)))
        for x in (1.0, 1.5)
    )
    a, b = (layer_times(tiny(model=model), experts=True) for model in (even, skewed))
    assert 1.3 < b.experts.forward_s / a.experts.forward_s < 1.5, "fuller tiles make up for a part"
    assert b.gemms == a.gemms


def test_given_times() -> None:
    job = load_job(
        {
            "model": {"parameters": 7.0e9, "layers": 32},
            "sequence": 1,
            "batch": {"global": 16},
            "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
        }
    )
    run = job.setup(8)
    (stage,) = pipeline_stages(run)
    assert stage_times(run, stage).all == pytest.approx(
        Times(32 * 7e-3, 32 * 15e-3, 0, 32 * 7.5e-3)
    )
    assert isinstance(stage_times(run, stage).dense, LayerTimes)
    whole = load_job(
        {
            "model": {"parameters": 7.0e9, "layers": 32},
            "sequence": 1,
            "batch": {"global": 16},
            "compute": {"forward": "1s", "backward": "2s"},
        }
    ).setup(8)
    assert whole.micro_batches == 2
    assert stage_times(whole, stage).all.total_s == pytest.approx(1.5)


def test_the_update_reads_what_a_rank_keeps() -> None:
    run = load_job("llama3-70b").setup(512)  # zero1: a 16th of its weights
    first = pipeline_stages(run)[0]
    layer = (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) / 8 + 2 * 8192
    held = 20 * layer + 128256 * 8192 / 8
    assert optimizer_s(run, first) == pytest.approx(28 * held / 16 / (0.76 * 3.35e12))
    everybody = run._replace(shard=run.shard._replace(mode="ddp"))
    assert optimizer_s(everybody, first) == pytest.approx(28 * held / (0.76 * 3.35e12))
