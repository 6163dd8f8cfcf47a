"""Bytes, FLOPs and layouts of a deployment, each against a calculation by hand."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.serving.deployment import (
    Deployment,
    active_flops,
    checked_deployment,
    kv_bytes,
    kv_bytes_of_rank,
    step_floor,
    step_work,
    weight_bytes,
)
from colltool.serving.results import Served
from colltool.serving.search import search
from colltool.training.job import load_job
from colltool.training.stack import Accelerator

# Llama 3 70B
LAYERS, HIDDEN, VOCAB, KV_HEADS = 80, 8192, 128256, 8
# DeepSeek-V3
EXPERTS, TOP_K, EXPERT_PARAMETERS, EXPERT_LAYERS = 256, 8, 3 * 7168 * 2048, 58


def model(name: str) -> Any:
    return load_job(name).draft.model


def by_name(phase: Any) -> dict[str, Any]:
    return {operation.operation: operation for operation in phase.operations}


def device(peak: tuple[tuple[str, float], ...]) -> Accelerator:
    return Accelerator("made", "hopper", peak, memory_bytes=80e9, bandwidth_Bps=2e12)


@swept(("tp", "pp", "parts"), [(1, 1, 1), (4, 1, 4), (8, 1, 8), (16, 1, 8), (8, 2, 16)])
def test_tp_splits_a_cache_into_its_heads_at_most(tp: int, pp: int, parts: int) -> None:
    llama = model("llama3-70b")
    whole = LAYERS * 2 * KV_HEADS * 128 * 2
    assert kv_bytes_of_rank(llama, Deployment(tp=tp, pp=pp)) == whole / parts


def test_a_latent_cache_is_whole_on_every_rank_of_tp() -> None:
    deepseek = model("deepseek-v3")
    assert kv_bytes_of_rank(deepseek, Deployment(tp=8)) == 61 * (512 + 64) * 2
    assert kv_bytes_of_rank(deepseek, Deployment(tp=8, pp=2)) == 61 * (512 + 64)


def test_a_cache_in_8_bits_has_a_scale_for_128_values() -> None:
    llama = model("llama3-70b")
    assert kv_bytes(llama, "fp8") == LAYERS * 2 * KV_HEADS * (128 + 4)
    assert kv_bytes_of_rank(llama, Deployment(kv_dtype="fp8")) == kv_bytes(llama, "fp8")


@swept(
    ("own", "ranks", "all_tokens"),
    [
        # eight replicas of two tokens: 16 choose their experts, which are on 64 ranks
        (Deployment(tp=8, ep=64, dp=8), 64, 16),
        # split by tp, the experts serve a replica alone
        (Deployment(tp=8, ep=8, dp=1), 8, 2),
        (Deployment(tp=8, ep=1, dp=8), 8, 2),
    ],
)
def test_a_step_reads_the_experts_that_its_tokens_chose(
    own: Deployment, ranks: int, all_tokens: int
) -> None:
    held = weight_bytes(model("deepseek-v3"), own, tokens=2)
    experts = EXPERT_LAYERS * EXPERTS * EXPERT_PARAMETERS * 2 / ranks
    chosen = 1 - (1 - TOP_K / EXPERTS) ** all_tokens
    embedding = 129280 * 7168 * 2 / 8
    assert held.weights - held.read == pytest.approx(experts * (1 - chosen) + embedding, rel=1e-3)


def test_flops_are_two_for_each_parameter_that_a_token_passes() -> None:
    """Llama 3 70B without its embedding; DeepSeek-V3 has 37e9 active ones, with the embedding."""
    passed = model("llama3-70b").parameters - VOCAB * HIDDEN
    assert active_flops(model("llama3-70b"), Deployment(), 10) == pytest.approx(20 * passed)
    cut = active_flops(model("llama3-70b"), Deployment(tp=4), 10)
    assert cut == pytest.approx(20 * passed / 4)
    # two stages halve the layers; the last has the head, which a half of nothing shares
    head = VOCAB * HIDDEN
    staged = active_flops(model("llama3-70b"), Deployment(pp=2), 10)
    assert staged == pytest.approx(20 * ((passed - head) / 2 + head), rel=1e-6)
    active = active_flops(model("deepseek-v3"), Deployment(), 1) / 2 + 129280 * 7168
    assert active == pytest.approx(37.6e9, rel=0.01)


def test_a_floor_is_by_memory_or_by_flops() -> None:
    """70.6e9 parameters in bf16 take 70 ms from 2 TB/s; 512 tokens take 70 ms at 1 PFLOP/s."""
    llama = model("llama3-70b")
    own = Deployment()
    made = device((("bf16", 1e15), ("fp8", 2e15)))
    read = weight_bytes(llama, own, 1).read
    for tokens, by_memory in ((64, True), (4096, False)):
        floor = step_floor(step_work(llama, own, made, tokens, 1000), made)
        assert floor.memory_s == pytest.approx((read + 1000 * kv_bytes(llama, "bf16")) / 2e12)
        assert floor.compute_s == pytest.approx(active_flops(llama, own, tokens) / 1e15)
        assert (floor.memory_s > floor.compute_s) == by_memory
        assert floor.total_s == max(floor.memory_s, floor.compute_s)


@swept(
    ("dtype", "peak", "rate"),
    [
        ("fp8", (("bf16", 1e15), ("fp8", 2e15)), 2e15),
        ("nvfp4", (("fp8", 2e15), ("bf16", 1e15)), 1e15),
        ("nvfp4", (("fp16", 3e15), ("fp8", 2e15)), 3e15),
    ],
)
def test_a_device_without_the_format_computes_in_bf16(
    dtype: str, peak: tuple[tuple[str, float], ...], rate: float
) -> None:
    llama = model("llama3-70b")
    own = Deployment(dtype=dtype)
    made = device(peak)
    floor = step_floor(step_work(llama, own, made, 1, 0), made)
    assert floor.compute_s == pytest.approx(active_flops(llama, own, 1) / rate)


@swept(("batch", "tokens"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_step_has_the_sequences_of_a_replica_in_a_stage(batch: int, tokens: int) -> None:
    assert Deployment(dp=2, pp=2, batch=batch).tokens == tokens


@swept(
    ("own", "dp", "replicas"),
    [
        (Deployment(tp=8, ep=64, batch=8), None, 8),
        (Deployment(tp=8, ep=4, batch=8), None, 1),
        (Deployment(tp=8, batch=8), 4, 4),
    ],
)
def test_replicas_fill_the_ranks_of_the_experts(
    own: Deployment, dp: int | None, replicas: int
) -> None:
    assert checked_deployment(model("deepseek-v3"), own, dp).dp == replicas


@swept(
    ("own", "dp", "words"),
    [
        (Deployment(tp=3, ep=4), None, "ep 4 is no multiple of tp 3"),
        (Deployment(tp=8, ep=64, batch=64), 4, "experts on 64 ranks, attention on tp 8 x dp 4"),
        (Deployment(pp=62, batch=64), None, "61 layers are too few for pp 62"),
        (Deployment(pp=2, batch=3), 2, "3 sequences leave some of 4 replicas and stages idle"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(own: Deployment, dp: int | None, words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        checked_deployment(model("deepseek-v3"), own, dp)
    # what just fits is not
    checked_deployment(model("deepseek-v3"), Deployment(pp=61, batch=61), None)


def tried(ranks: int, base: Deployment) -> list[str]:
    """The layouts that a search tries."""
    deployments: list[Deployment] = []

    def run(deployment: Deployment) -> Served:
        deployments.append(deployment)
        raise ColltoolError("not here")

    with pytest.raises(ColltoolError, match=f"no layout of {ranks} ranks can be served"):
        search(ranks, base, run)
    return [deployment.label for deployment in deployments]


def test_a_search_tries_powers_of_two() -> None:
    assert tried(4, Deployment()) == [
        "tp 1, dp 4",
        "tp 1, pp 2, dp 2",
        "tp 1, pp 4",
        "tp 2, dp 2",
        "tp 2, pp 2",
        "tp 4",
    ]
    # 12 = 4 x 3: replicas take what powers of two leave
    assert "tp 4, dp 3" in tried(12, Deployment())
    assert "tp 8, dp 1" not in tried(12, Deployment())


def test_a_search_also_puts_experts_on_all_ranks_of_a_stage() -> None:
    layouts = tried(4, Deployment(ep=0))
    experts = [layout for layout in layouts if "ep" in layout]
    assert experts == ["tp 1, ep 4, dp 4", "tp 1, ep 2, pp 2, dp 2", "tp 2, ep 4, dp 2"]
    assert len(layouts) == 6 + 3


@pytest.mark.parametrize(("weights", "width"), [("bf16", 2.0), ("fp8", 1 + 4 / 128)])
def test_tokens_are_dispatched_in_the_weights_format_and_combined_in_bf16(
    weights: str, width: float
) -> None:
    """Sixteen tokens a replica, two for each of its eight ranks; 7168 values each.

    By NCCL all eight copies of a token are sent.
    """
    served = colltool.serve(
        "deepseek-v3",
        "dgx-h100",
        tp=8,
        ep=64,
        batch=128,
        weights=weights,
        experts_library="nccl",
    )
    found = by_name(served.decode)
    assert found["dispatch"].bytes == 2 * 8 * 7168 * width
    assert found["combine"].bytes == 2 * 8 * 7168 * 2


def test_logits_of_a_prompt_are_those_of_the_sequences() -> None:
    """A chunk of 8192 tokens ends in the words of 64 sequences."""
    served = colltool.serve("llama3-70b", "hgx-h200", tp=8, batch=64, isl=8192)
    assert by_name(served.prefill)["all-gather"].bytes == 64 * VOCAB * 2
    assert by_name(served.prefill)["all-reduce"].bytes == 8192 * HIDDEN * 2


def test_a_cache_of_other_pairs_than_measured_says_so() -> None:
    """Two pairs at 0.935 of 50 GB/s each; eight are limited by the software's 137.3 GB/s."""
    two, eight = (
        colltool.serve("llama3-70b", "hgx-h200", tp=8, batch=64, prefill_tp=pairs).kv
        for pairs in (2, 8)
    )
    assert two is not None
    assert eight is not None
    assert two.layer_s == pytest.approx(two.bytes / 80 / (2 * 0.935 * 50e9))
    assert eight.layer_s == pytest.approx(eight.bytes / 80 / 137.3e9)
    assert "measured on 8 pairs, not on 2" in two.notes
    assert not any("pairs" in note for note in eight.notes)
    assert two.interval is not None
    assert eight.interval is not None
    assert (two.interval.basis, eight.interval.basis) == ("extrapolated", "measured")


def test_a_wire_twice_as_fast_is_that_fabric() -> None:
    served = colltool.serve("llama3-70b", "star512", tp=8, batch=512)
    changes = {change.change: change for change in served.changes}
    rate_Bps = colltool.load_fabric("star512").tiers[-1].bandwidth
    faster = colltool.load_fabric("star512", [f"star.bandwidth={rate_Bps * 2 / 1e9}GB/s"])
    again = colltool.serve("llama3-70b", faster, tp=8, batch=512)
    change = changes["twice the bandwidth of star"]
    assert change.network_s == pytest.approx(again.decode.network_s)
    assert change.factor == pytest.approx(again.decode.network_s / served.decode.network_s)


def test_changes_are_those_of_more_than_a_hundredth_in_order() -> None:
    """Seven eighths of a token of 16 ranks are NVLink's: twice the network's rate changes little."""
    served = colltool.serve("llama3-70b", "dgx-h100", tp=16, batch=512)
    factors = [change.factor for change in served.changes]
    assert factors == sorted(factors)
    assert all(abs(factor - 1) > 0.01 for factor in factors)
    assert "twice the bandwidth of ib" not in {change.change for change in served.changes}


def test_a_chunk_of_a_prompt_reads_on_average_half_of_its_cache() -> None:
    """512 chunks of 16 tokens, each by memory: H200 reads 4.8 TB/s."""
    llama = model("llama3-70b")
    served = colltool.serve("llama3-70b", "hgx-h200", tp=8, batch=64, isl=8192, chunk=16)
    read = weight_bytes(llama, Deployment(tp=8), 16).read
    cache = 8192 / 2 * kv_bytes(llama, "bf16") / 8
    assert served.prefill.floor_s == pytest.approx(512 * (read + cache) / 4.8e12)
    assert served.prefill.floor_by == "memory"
