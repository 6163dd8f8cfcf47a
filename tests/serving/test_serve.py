"""A token's network: its collectives by hand, the floor, KV transfer, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.serving.deployment import Deployment, kv_bytes
from colltool.training.job import load_job

LLAMA: dict[str, Any] = {"tp": 8, "batch": 64, "engine": "vllm@0.24.0"}
LAYERS, HIDDEN, VOCAB = 80, 8192, 128256  # Llama 3 70B


def model(name: str) -> Any:
    return load_job(name).draft.model


def by_name(phase: Any) -> dict[str, Any]:
    return {one.operation: one for one in phase.operations}


def test_eager_calls_take_the_host_s_launches() -> None:
    """41 us at least for each of the 160 all-reduces of symm_mem; in prefill they take longer anyway."""
    captured: Any = colltool.serve("llama3-70b", "hgx-h200", **LLAMA)
    eager: Any = colltool.serve("llama3-70b", "hgx-h200", mode="eager", **LLAMA)
    call = by_name(eager.decode)["all-reduce"]
    assert call.each_s == pytest.approx(41e-6)
    assert call.each_s > by_name(captured.decode)["all-reduce"].each_s
    assert eager.prefill.network_s == captured.prefill.network_s
    assert ", eager." in eager.summary()
    with pytest.raises(ColltoolError, match="only an engine says"):
        colltool.serve("llama3-70b", "hgx-h200", tp=8, mode="eager")
    with pytest.raises(ColltoolError, match="'fast' is no mode"):
        colltool.serve("llama3-70b", "hgx-h200", mode="fast", **LLAMA)


def test_fewer_sms_exchange_tokens_slower() -> None:
    asked: dict[str, Any] = {"ep": 32, "batch": 1024, "experts_library": "deepep@1"}
    own: Any = colltool.serve("deepseek-v3", "dgx-h100", **asked)
    few: Any = colltool.serve("deepseek-v3", "dgx-h100", sms=8, **asked)
    assert by_name(few.prefill)["dispatch"].each_s > by_name(own.prefill)["dispatch"].each_s
    with pytest.raises(ColltoolError, match="only dispatch and combine take SMs"):
        colltool.serve("llama3-70b", "hgx-h200", sms=8, **LLAMA)


def test_a_token_of_a_dense_model_by_hand() -> None:
    """Two all-reduces of B h 2 bytes a layer, and one all-gather of B V 2 bytes of logits
    (bf16)."""
    served = colltool.serve("llama3-70b", "hgx-h200", **LLAMA)
    found = by_name(served.decode)
    assert set(found) == {"all-reduce", "all-gather"}
    assert (found["all-reduce"].calls, found["all-reduce"].bytes) == (2 * LAYERS, 64 * HIDDEN * 2)
    assert (found["all-gather"].calls, found["all-gather"].bytes) == (1, 64 * VOCAB * 2)
    alone = colltool.price(
        "hgx-h200", "ar", size=64 * HIDDEN * 2, ranks=8, library="vllm@0.24.0"
    ).best
    assert found["all-reduce"].each_s == alone.total_s
    assert served.decode.network_s == pytest.approx(
        sum(one.each_s * one.calls for one in served.decode.operations)
    )
    assert sum(one.share for one in served.decode.operations) == pytest.approx(1)


def test_a_prompt_is_its_chunks() -> None:
    one, four = (
        colltool.serve("llama3-70b", "hgx-h200", isl=32768, chunk=chunk, **LLAMA).prefill
        for chunk in (32768, 8192)
    )
    assert by_name(four)["all-reduce"].calls == 4 * by_name(one)["all-reduce"].calls == 8 * LAYERS
    assert by_name(four)["all-reduce"].bytes * 4 == by_name(one)["all-reduce"].bytes


def test_experts_take_the_place_of_one_all_reduce_a_layer() -> None:
    """DeepSeek-V3: 61 layers, 58 with experts; tp 8, experts on 64, so eight replicas of attention
    with two sequences each."""
    served = colltool.serve(
        "deepseek-v3", "dgx-h100", tp=8, ep=64, batch=16, weights="fp8", experts_library="deepep"
    )
    found = by_name(served.decode)
    assert served.deployment.dp == 8
    assert found["all-reduce"].calls == 2 * 61 - 58
    assert found["dispatch"].calls == found["combine"].calls == 58
    price = colltool.price(
        "dgx-h100",
        "dispatch",
        ranks=64,
        library="deepep",
        tokens=1,
        top_k=8,
        hidden=7168,
        experts=256,
        groups=4,
    )
    assert found["dispatch"].each_s == pytest.approx(price.best.total_s)


def test_experts_cut_by_tp_exchange_nothing() -> None:
    served = colltool.serve("deepseek-v3", "dgx-h100", tp=8, ep=8, batch=16)
    assert set(by_name(served.decode)) == {"all-reduce", "all-gather"}
    assert by_name(served.decode)["all-reduce"].calls == 2 * 61


def test_stages_pass_tokens_on() -> None:
    served = colltool.serve("llama3-70b", "hgx-h200", tp=8, pp=2, batch=64)
    found = by_name(served.decode)
    assert (found["p2p"].calls, found["p2p"].group) == (1, "2, every 8")
    assert served.deployment.tokens == 32


def test_the_bytes_of_a_cache() -> None:
    """Llama 3 70B: 80 layers of 8 KV heads of 128, twice, in bf16; DeepSeek-V3: 61 of 512 + 64."""
    assert kv_bytes(model("llama3-70b"), "bf16") == 80 * 2 * 8 * 128 * 2
    assert kv_bytes(model("deepseek-v3"), "bf16") == 61 * (512 + 64) * 2


def test_the_floor_is_weights_and_cache_over_memory_bandwidth() -> None:
    """Weights of 70.6e9 parameters in bf16 on 8 ranks, half of the embeddings unread, and 64 caches
    of 4,608 tokens."""
    served = colltool.serve("llama3-70b", "hgx-h200", **LLAMA)
    # embedding and head; a step reads the head and next to nothing of the embedding
    ends = VOCAB * HIDDEN * 2 / 8
    weights = (model("llama3-70b").parameters / 8 - ends / 2) * 2
    cache = 64 * (4096 + 512) * 80 * 2 * 8 * 128 * 2 / 8
    assert served.decode.floor_s == pytest.approx((weights + cache) / 4.8e12, rel=0.01)
    assert served.fits
    assert not colltool.serve("llama3-70b", "dgx-h100", tp=1).fits


def test_the_share_of_a_given_time() -> None:
    served = colltool.serve("llama3-70b", "hgx-h200", tpot="18ms", **LLAMA)
    assert served.share == pytest.approx(served.decode.network_s / 0.018)
    assert "of 18 ms" in served.summary()


@swept(("tokens", "measured_us"), [(128, 610.0 * 38 / 38), (4096, 8840.0), (16384, 31650.0)])
def test_a_cache_moves_as_measured(tokens: int, measured_us: float) -> None:
    """Mooncake between 8 and 8 H800 (vLLM docs): 1.13 GB in 8.84 ms and 4.5 GB in 31.65 ms; here by
    bytes alone."""
    sizes = {128: 38e6, 4096: 1130e6, 16384: 4500e6}
    from colltool.engines.formulas import FORMULAS, KernelCall
    from colltool.engines.lookup import find_library

    kernel = find_library("mooncake").kernels[0]
    times = FORMULAS[kernel.formula].of(kernel.parameters, KernelCall(8, sizes[tokens], 0, 50e9))
    assert times.total_s * 1e6 == pytest.approx(measured_us, rel=0.15)


def test_a_cache_hides_behind_prefill_or_not() -> None:
    plain = colltool.serve("llama3-70b", "hgx-h200", prefill_tp=8, **LLAMA).kv
    assert plain is not None
    assert plain.bytes == 4096 * kv_bytes(model("llama3-70b"), "bf16")
    assert plain.hidden
    assert plain.prefill_layer_s is not None
    assert plain.layer_s <= plain.prefill_layer_s
    assert plain.exposed_s < plain.total_s
    assert plain.hiding_nic_Bps == pytest.approx(
        plain.bytes / 80 / plain.prefill_layer_s / 8 / 0.935
    )


def test_a_search_puts_the_best_first_and_fills_the_ranks() -> None:
    found = colltool.serve("llama3-70b", "hgx-h200", search=True, ranks=16, batch=64)
    times = [one.decode.network_s + one.decode.floor_s for one in found.served]
    assert times == sorted(times)
    assert all(one.deployment.ranks == 16 and one.fits for one in found.served)


@pytest.mark.parametrize(
    ("job", "ranks", "batch"),
    [("llama3-70b", 16, 64), ("llama3-70b", 8, None), ("deepseek-v3", 64, 512)],
)
def test_no_layout_promises_more_than_its_limits_allow(
    job: str, ranks: int, batch: int | None
) -> None:
    """Most tokens/s are those of network and memory or compute together; the order is that of the
    estimate below them, and what the first screen says is the first row's."""
    found = colltool.serve(
        job, "dgx-h100", search=True, ranks=ranks, batch=batch, weights="fp8", isl=1024
    )
    rates = []
    for one in found.served:
        decode = one.decode
        assert one.deployment.batch == (batch or ranks)
        assert one.tokens_per_s is not None
        assert one.tokens_per_s * (decode.network_s + decode.floor_s) == pytest.approx(
            one.deployment.batch
        )
        assert one.tokens_per_s <= one.deployment.batch / decode.floor_s
        assert decode.network_s == 0 or one.tokens_per_s < one.bound_tokens_s
        assert one.estimated_tokens_per_s == pytest.approx(one.deployment.batch / decode.estimate_s)
        assert one.estimated_tokens_per_s < one.tokens_per_s
        rates.append(one.estimated_tokens_per_s)
    assert rates == sorted(rates, reverse=True)
    assert found.feasible + len(found.refused) == found.tried
    layouts = f"{found.feasible} feasible layouts ({found.tried} tried)"
    assert found.summary().startswith(f"Best of {layouts}: {found.names[0]}, about ")
    assert f"{rates[0]:,.0f} tokens/s" in found.summary()


def ends(decode: Any) -> tuple[float, float]:
    """The longest and the shortest of nine in ten steps."""
    interval = decode.estimate_interval
    return interval.high_s, interval.low_s


def test_the_first_sentence_says_what_bounds_it_and_what_would_help() -> None:
    served = colltool.serve("llama3-70b", "hgx-h200", **LLAMA)
    text = served.summary()
    least_s = served.decode.network_s + served.decode.floor_s
    decode = served.decode
    about = [f"{64 / seconds:,.0f}" for seconds in (decode.estimate_s, *ends(decode), least_s)]
    assert text.startswith("About {} tokens/s ({} to {}: ".format(*about))
    assert f"; at most {about[-1]}), with 14.59 ms per token" in text
    parts = (
        "Kernels take 12.18 ms of it (memory alone at least 6.137 ms), the network 17%: 2.411 ms (-"
    )
    assert parts in text
    best = served.changes[0]
    assert best.gain == max(change.gain for change in served.changes) > 1
    assert f"Most would be gained by {best.change}: " in text
    small = colltool.serve("llama3-70b", "hgx-h200", tp=16, batch=1)
    assert small.decode.limited_by == "network"
    share = small.decode.network_s / small.decode.estimate_s
    assert f"the network {100 * share:.0f}%: " in small.summary()


def test_the_error_of_the_network_is_that_of_its_operations() -> None:
    decode = colltool.serve("llama3-70b", "hgx-h200", **LLAMA).decode
    interval = decode.network_interval
    assert interval is not None
    low = sum(one.calls * one.interval.low_s for one in decode.operations)
    assert interval.low_s == pytest.approx(low)
    assert interval.low_s < decode.network_s < interval.high_s
    assert interval.reason == by_name(decode)["all-reduce"].interval.reason


def test_without_a_device_no_tokens_are_promised() -> None:
    served = colltool.serve("llama3-70b", "star512", tp=8, batch=8)
    assert served.tokens_per_s is None
    assert served.estimated_tokens_per_s is None
    assert "tokens/s (" not in served.summary()
    assert "Tokens/s are not given: star512 names no device" in served.summary()
    known = colltool.serve("llama3-70b", "star512", tp=8, batch=8, overrides=["device=h100"])
    assert known.tokens_per_s is not None


def test_a_time_below_the_limit_is_said() -> None:
    served = colltool.serve("llama3-70b", "hgx-h200", tpot="3ms", **LLAMA)
    assert "The 3 ms per token that were given are below its lower limit, 8.548 ms." in (
        served.summary()
    )


def test_a_change_that_does_not_fit_is_not_offered() -> None:
    """A cache of 33,792 tokens is 1.384 GB per rank: 64 fit beside 17.6 GB of weights, 128 do
    not."""
    half, full = (
        colltool.serve("llama3-70b", "hgx-h200", tp=8, batch=batch, isl=32768, osl=1024)
        for batch in (32, 64)
    )
    assert half.fits
    assert full.fits
    assert "batch 64" in {change.change for change in half.changes}
    assert "batch 128" not in {change.change for change in full.changes}


def test_values_and_fabrics_stand_side_by_side() -> None:
    varied = colltool.serve(
        "llama3-70b", "hgx-h200", tp=16, batch=64, vary="roce.bandwidth=25GB/s,50GB/s"
    )
    assert varied.served[0].decode.network_s > varied.served[1].decode.network_s
    assert colltool.serve("llama3-70b", ["hgx-h200", "dgx-b200"], tp=8, batch=8).names == (
        "hgx-h200",
        "dgx-b200",
    )


def test_a_comparison_has_a_winner_or_says_why_not() -> None:
    def compared(*fabrics: str) -> str:
        return str(colltool.serve("llama3-70b", list(fabrics), tp=8, batch=64).summary())

    # HGX H200 under another name, within the error, and beyond it
    assert compared("hgx-h200", "aws-p5en").startswith(
        "hgx-h200 and aws-p5en serve the same, about 3,963 tokens/s."
    )
    close = compared("hgx-h200", "dgx-b200")
    assert close.startswith("Too close to call: dgx-b200 serves about 4,069 tokens/s, hgx-h200")
    assert "the network's error is larger than the difference" in close
    assert compared("hgx-h200", "dgx-a100").startswith("hgx-h200 serves most, ")


def test_changes_are_what_they_say() -> None:
    served = colltool.serve("llama3-70b", "hgx-h200", **LLAMA)
    change = next(one for one in served.changes if one.change == "tp 4, pp 2")
    again = colltool.serve("llama3-70b", "hgx-h200", tp=4, pp=2, batch=64, engine="vllm@0.24.0")
    assert change.network_s == pytest.approx(again.decode.network_s)


@swept(
    ("job", "fabric", "asked", "words"),
    [
        ("llama3-70b", "hgx-h200", {"tp": 7}, "64 heads do not fill tp 7"),
        ("llama3-70b", "hgx-h200", {"ep": 8}, "has no experts"),
        ("deepseek-v3", "dgx-h100", {"ep": 48}, "do not fill 48 ranks evenly"),
        ("llama3-70b", "hgx-h200", {"tp": 8, "batch": 1, "dp": 2}, "leave some of 2 replicas"),
        ("llama3-70b", "mi300x", {"tp": 16}, "needs 16 ranks, mi300x has 8"),
        ("deepseek-v3", "hgx-h20", {"ep": 64}, "was measured on h20"),
        ("deepseek-v3", "aws-p5", {"ep": 64}, "EFA"),
        ("llama3-70b", "star512", {"tp": 8, "engine": "vllm"}, "does not say which GPU"),
        ("llama3-70b", "hgx-h200", {"engine": "vlm"}, "no library 'vlm'"),
        ("llama3-70b", "hgx-h200", {"weights": "fp7"}, "'fp7' is not known"),
        ("llama3-70b", "hgx-h200", {"ranks": 9, "tp": 2}, "tp 2 x pp 1 does not fill 9 ranks"),
        ("llama3-70b", "hgx-h200", {"kv_library": "vllm"}, "moves no KV caches"),
        ("llama3-70b", "hgx-h200", {"tpot": "-1ms"}, "time"),
    ],
)
def test_what_cannot_be_served_is_refused(
    job: str, fabric: str, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.serve(job, fabric, **asked)


def test_experts_by_nccl_where_nothing_was_measured() -> None:
    served = colltool.serve("deepseek-v3", "aws-p5", ep=64, batch=128, experts_library="nccl")
    assert (
        "two-level" in by_name(served.decode)["dispatch"].kernel
        or "direct" in by_name(served.decode)["dispatch"].kernel
    )


def test_an_engine_as_people_write_it() -> None:
    one, other = (
        colltool.serve("llama3-70b", "hgx-h200", tp=8, engine=engine)
        for engine in ("vllm 0.24", "vllm@0.24.0")
    )
    assert one == other
    assert Deployment(tp=8, ep=64, dp=8).label == "tp 8, ep 64, dp 8"


@pytest.mark.thorough  # of whole calls: the next test has one of kernels
def test_a_spread_has_the_time_within_it_and_names_what_moves_it() -> None:
    found = colltool.serve(
        "llama3-70b", "hgx-h200", tp=16, batch=64, vary=["roce.alpha=2x", "nvlink.bandwidth=10%"]
    )
    assert found.p5_s <= found.p50_s <= found.p95_s
    assert found.p5_s <= found.served.decode.network_s * 1.2
    assert "nvlink.bandwidth" in {one.number.key for one in found.moved}
    assert found.moved[0].number.key.startswith("roce.")
    assert [one.span_s for one in found.moved] == sorted(
        (one.span_s for one in found.moved), reverse=True
    )


def test_kernels_are_off_by_their_own_error() -> None:
    """Nothing of the fabric enters vLLM's kernels: what is left is the 5% of the law and the
    all-gather."""
    found = colltool.serve(
        "llama3-70b", "dgx-h100", tp=8, batch=64, engine="vllm", vary="ib.alpha=2x"
    )
    assert found.moved[0].span_s == 0
    assert 0.75 < found.p5_s / found.served.decode.network_s < 0.97
    assert 1.03 < found.p95_s / found.served.decode.network_s < 1.3


def test_values_and_ranges_are_two_questions() -> None:
    with pytest.raises(ColltoolError, match="two questions"):
        colltool.serve(
            "llama3-70b", "hgx-h200", tp=8, vary=["roce.alpha=2x", "roce.bandwidth=25GB/s,50GB/s"]
        )


def test_ranks_of_a_layout_become_replicas() -> None:
    served = colltool.serve("llama3-70b", "hgx-h200", tp=2, ranks=8)
    assert (served.deployment.dp, served.deployment.ranks) == (4, 8)
    with pytest.raises(ColltoolError, match="tp 2 x pp 1 x dp 2 does not fill 8 ranks"):
        colltool.serve("llama3-70b", "hgx-h200", tp=2, dp=2, ranks=8)


def test_idle_ranks_of_a_resized_machine_are_said() -> None:
    two = colltool.load_fabric("hgx-h200", ["roce.size=2"])
    idle = colltool.serve("llama3-70b", two, tp=8)
    assert "8 of 16 ranks serve" in idle.notes[0]
    assert not any(
        "ranks serve" in note for note in colltool.serve("llama3-70b", two, tp=8, ranks=16).notes
    )


@pytest.mark.parametrize("layout", [{"tp": 8}, {"tp": 4, "dp": 2}, {"tp": 4, "pp": 2}])
def test_the_largest_batch_fits_and_no_larger(layout: dict[str, int]) -> None:
    small = colltool.serve("llama3-70b", "hgx-h200", **layout)
    most = small.most_batch
    assert most is not None
    assert most > small.deployment.batch
    assert f"up to batch {most:,}" in small.summary()
    assert colltool.serve("llama3-70b", "hgx-h200", batch=most, **layout).fits
    step = small.deployment.dp * small.deployment.pp
    larger = colltool.serve("llama3-70b", "hgx-h200", batch=most + step, **layout)
    assert larger.fits is False
    assert f"batch {most:,} or less" in larger.summary()


def test_the_smallest_batch_is_said_with_its_tokens() -> None:
    assert "tokens/s at batch 1 (" in colltool.serve("llama3-70b", "hgx-h200", tp=8).summary()
    stated = colltool.serve("llama3-70b", "hgx-h200", tp=8, batch=64).summary()
    assert "tokens/s (" in stated


def test_two_batches_hide_the_exchange_of_one_half_behind_the_kernels_of_the_other() -> None:
    """Never less than the longer of the two; half batches read the weights twice, so that few tokens
    lose by it."""
    asked: dict[str, Any] = {"ep": 64, "weights": "fp8"}
    gained = colltool.serve("deepseek-v3", "dgx-h100", batch=8192, two_batch_overlap=True, **asked)
    alone = colltool.serve("deepseek-v3", "dgx-h100", batch=8192, **asked)
    assert gained.whole is not None
    assert gained.whole[1].estimate_s == pytest.approx(alone.decode.estimate_s)
    decode = gained.decode
    assert decode.kernels_s is not None
    assert decode.estimate_s is not None
    assert decode.estimate_s >= max(decode.network_s, decode.kernels_s)
    assert decode.estimate_s == decode.network_s + decode.kernels_s - decode.hidden_s
    assert decode.beside == pytest.approx(58 / 61)
    # 64 tokens a rank in two calls of 58 layers, in place of 128 in one
    assert by_name(decode)["dispatch"].calls == 2 * 58
    assert by_name(decode)["dispatch"].bytes * 2 == by_name(alone.decode)["dispatch"].bytes
    assert decode.estimate_s < alone.decode.estimate_s
    assert "Two-batch overlap gains 16% per token" in gained.summary()
    lost = colltool.serve("deepseek-v3", "dgx-h100", batch=256, two_batch_overlap=True, **asked)
    assert "Two-batch overlap loses" in lost.summary()
    low = decode.estimate_interval
    assert low is not None
    assert low.low_s < decode.estimate_s < low.high_s


@swept(
    ("asked", "words"),
    [
        ({"ep": 64, "batch": 64, "weights": "fp8"}, "has no halves"),
        ({"tp": 8, "ep": 8, "batch": 64}, "sends no tokens to experts"),
    ],
)
def test_two_batches_need_an_exchange_and_two_halves(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.serve("deepseek-v3", "dgx-h100", two_batch_overlap=True, **asked)


def test_decode_takes_kernels_that_a_graph_can_run() -> None:
    """DeepEP's normal kernels wait for the host: prefill may take them, steps in CUDA graphs not."""
    served = colltool.serve("deepseek-v3", "dgx-h100", ep=64, batch=8192, weights="fp8")
    assert by_name(served.decode)["dispatch"].kernel == "deepep@1 low-latency"
    assert by_name(served.prefill)["dispatch"].kernel == "deepep@1 normal"
