"""Worked numbers of the documents above the single collective, those that need no network, with
their own rounding."""

from __future__ import annotations

from typing import Any

import pytest
from closed_forms import (
    behind_backward,
    behind_layers,
    best_bucket,
    bubble_share,
    hidden_share,
    least_micro_batches,
    logp_step,
)
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.training.calls import stage_calls, tensor_buckets
from colltool.training.compression import (
    EXTRA_STEPS,
    break_even_extra_steps,
    compressed_times,
    ratio_of,
    time_to_accuracy,
)
from colltool.training.job import load_job
from colltool.training.overlap import logp
from colltool.training.parallel_config import Compression
from colltool.training.pass_buckets import behind_pass, queued
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.strategies import Pass, pipeline_s

RTOL = 0.02  # the documents' own rounding


def bare(parameters: float, layers: int, ranks: int = 8, **keys: Any) -> Any:
    content = {
        "model": {"parameters": parameters, "layers": layers},
        "sequence": 1,
        "batch": {"global": ranks},
        "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
    } | keys
    run = load_job(content).setup(ranks)
    return run, stage_calls(run, pipeline_stages(run)[0])


def test_bytes_of_a_model() -> None:
    """M = parameters x bytes of an element (P1): 70B in BF16 140 GB; 7B in FP32, a layer of 32, 880
    MB (exactly 875)."""
    _, calls = bare(70e9, 80, shard={"mode": "ddp", "grad_bytes": 2, "bucket": "1TB"})
    assert calls[0].bytes == pytest.approx(140e9, rel=RTOL)
    _, calls = bare(7e9, 32, shard={"mode": "fsdp", "grad_bytes": 4}, precision={"params": "fp32"})
    assert calls[0].bytes == pytest.approx(875e6)
    assert calls[0].bytes == pytest.approx(880e6, rel=RTOL)


def test_number_of_buckets() -> None:
    """1000 tensors of 1 MB: 40 buckets of 25 MB, 39 of 25 MiB, which hold 26."""
    for bucket, expect in (("25MB", [(25e6, 40)]), ("25MiB", [(26e6, 38), (12e6, 1)])):
        job = load_job(
            {
                "layout": {"dp": 8},
                "calls": [
                    {
                        "primitive": "ar",
                        "group": "dp",
                        "size": "1MB",
                        "count": 1000,
                        "bucket": bucket,
                    }
                ],
            }
        )
        assert [(one.bytes, one.calls) for one in job.plain_calls(job.setup())] == expect
    assert tensor_buckets(3, 50e6, 25e6) == ((50e6, 3),), "a tensor above the bucket goes alone"


def test_collectives_of_fsdp() -> None:
    """P3: 64 of 32 layers with one gather, 96 with two; volumes of one and of one and a half
    all-reduces."""
    number, volume = {}, {}
    for gathers in (1, 2):
        _, calls = bare(7e9, 32, shard={"mode": "fsdp", "gathers": gathers, "grad_bytes": 2})
        sharded = [call for call in calls if call.dimension == "dp"]
        number[gathers] = sum(call.calls for call in sharded)
        # an all-reduce is both halves
        volume[gathers] = sum(call.bytes * call.calls for call in sharded) / (2 * 14e9)
    assert number == {1: 64, 2: 96}
    assert volume == pytest.approx({1: 1.0, 2: 1.5})


def test_launches_of_a_hundred_layers() -> None:
    _, calls = bare(7e9, 100, shard={"mode": "fsdp", "gathers": 1})
    launches = sum(call.calls for call in calls if call.dimension == "dp")
    assert [launches * each for each in (25e-6, 50e-6)] == pytest.approx([5e-3, 10e-3])


def test_tokens_of_a_mixture_of_experts() -> None:
    """P5: 512 tokens of 2048 in 16 bits, to one expert of 64 over 8 ranks: 4 KB each, 256 KB a
    peer, 2 MiB with one's own."""
    job = load_job(
        {
            "model": {
                "layers": 1,
                "hidden": 2048,
                "heads": 16,
                "ffn": 8192,
                "vocab": 32000,
                "moe": {"experts": 64, "top_k": 1, "ffn": 1024},
            },
            "sequence": 512,
            "batch": {"global": 8},
            "layout": {"ep": 8},
            "device": "h100",
            "stack": "megatron",
        }
    )
    run = job.setup(8)
    dispatch = next(
        call for call in stage_calls(run, pipeline_stages(run)[0]) if call.dimension == "ep"
    )
    assert dispatch.bytes == 2097152
    assert dispatch.bytes / 8 == 262144
    assert dispatch.bytes * 7 / 8 == 1835008
    assert dispatch.bytes / 512 == 4096
    assert dispatch.group.ranks == 8


@pytest.mark.parametrize(("stages", "micro_batches", "expect"), [(8, 32, 0.1795), (8, 28, 0.2)])
def test_pipeline_bubble(stages: int, micro_batches: int, expect: float) -> None:
    assert bubble_share(stages, micro_batches) == pytest.approx(expect, abs=5e-5)
    one = Pass(1.0, 2.0)
    total = pipeline_s("1f1b", [one] * stages, micro_batches)
    assert 1 - micro_batches * 3 / total == pytest.approx(expect, abs=5e-5), (
        "the schedule's own idle share"
    )


def test_fewest_micro_batches_below_a_bubble() -> None:
    assert least_micro_batches(8, 0.20) == 29


@swept(
    ("schedule", "virtual", "bubble"),
    [
        ("1f1b", 1, 7 * 3.0),
        ("gpipe", 1, 7 * 3.0),
        ("interleaved", 4, 7 * 3.0 / 4),
        ("zb1p", 1, 7.0),
        ("zbv", 1, 0.0),
    ],
)
def test_bubble_of_each_schedule(schedule: str, virtual: int, bubble: float) -> None:
    stages = [Pass(1.0, 2.0, 1.0)] * 8
    assert pipeline_s(schedule, stages, 16, virtual) == pytest.approx(16 * 3 + bubble)


def test_bubble_of_dualpipe() -> None:
    """(p/2 - 1)(F&B + B - 3W) with F 1, B 2, W 1: 3 x (3 + 2 - 3)."""
    assert pipeline_s("dualpipe", [Pass(1.0, 2.0, 1.0)] * 8, 16) == pytest.approx(16 * 3 + 3 * 2)


def test_the_slowest_stage_sets_the_pace() -> None:
    stages = [Pass(1, 2), Pass(1, 2), Pass(2, 4)]
    assert pipeline_s("1f1b", stages, 10) == 9 * 6 + 12
    assert pipeline_s("interleaved", stages, 10, 2) == 10 * 6 + 3
    assert pipeline_s("1f1b", stages[:1], 10) == 30


def test_logp() -> None:
    """T = 2o + max(T_c, L) (P7). The second self-check of the document contradicts its equation,
    which gives 60 us."""
    assert logp_step(500e-6, 100e-6, 50e-6) == pytest.approx(600e-6)
    assert logp(500e-6, 100e-6, 50e-6) == pytest.approx(100e-6)
    assert logp_step(100e-6, 50e-6, 30e-6) == pytest.approx(160e-6)
    assert logp(100e-6, 50e-6, 30e-6) == pytest.approx(60e-6)
    assert logp(1.0, 3.0, 0.0) == pytest.approx(2.0)


def test_layers_behind_each_other() -> None:
    """P8: 32 layers of 15 ms, 26.4 ms each: 859.8 ms where one after the other takes 1324.8."""
    overlapped, in_turn = behind_layers(32, 15e-3, 26.4e-3), 32 * (15e-3 + 26.4e-3)
    assert overlapped == pytest.approx(859.8e-3)
    assert in_turn == pytest.approx(1324.8e-3)
    assert 1 - overlapped / in_turn == pytest.approx(0.351, abs=5e-4)
    for collective, exposed in ((26.4e-3, 11.4e-3), (25e-3, 10e-3)):
        per_layer = (
            behind_layers(32, 15e-3, collective) - behind_layers(31, 15e-3, collective) - 15e-3
        )
        assert per_layer == pytest.approx(exposed)


def test_share_of_layers_that_hides() -> None:
    assert [hidden_share(layers) for layers in (2, 3, 10, 20)] == pytest.approx(
        [0.5, 2 / 3, 0.9, 0.95]
    )


def test_buckets_behind_a_backward_pass_are_its_layers() -> None:
    """Ready evenly and one at a time, 32 buckets behind 32 layers are P8 itself."""
    found = behind_backward(32 * 15e-3, [26.4e-3] * 32)
    assert 32 * 15e-3 + found == pytest.approx(859.8e-3)
    assert behind_backward(1.0, [0.01] * 10) == pytest.approx(0.01), "the last is never hidden"
    assert behind_backward(1.0, [0.01] * 10, overhead_s=0.001) == pytest.approx(0.01 + 0.02)
    assert behind_backward(1.0, []) == 0


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.floats(0, 10), min_size=1, max_size=40), st.floats(0, 100), st.floats(0, 1))
def test_the_corners_of_a_row_of_buckets_are_its_recursion(
    takes: list[float], pass_s: float, overhead: float
) -> None:
    """P8 bucket by bucket: end_k = max(ready_k, end_(k-1)) + t_k."""
    end, whole = 0.0, pass_s + 2 * overhead * len(takes)
    for index, one in enumerate(takes, 1):
        end = max(whole * index / len(takes), end) + one
    assert behind_pass(pass_s, queued(takes), overhead) == pytest.approx(end - pass_s)


def test_equal_buckets_have_two_corners_however_many_they_are() -> None:
    assert len(queued([0.25] * 1024).corners) == 2


def test_the_best_bucket_is_the_least_of_what_it_costs() -> None:
    """Of T(B) = M/B fixed + T_b B/M, whose minimum a search finds too."""
    size, fixed, backward = 1e9, 100e-6, 0.5
    best = best_bucket(size, n_alpha=14, alpha_s=5e-6, overhead_s=15e-6, backward_s=backward)

    def cost(bucket: float) -> float:
        return size / bucket * fixed + backward * bucket / size

    assert cost(best) == pytest.approx(min(cost(size / n) for n in range(1, 1000)), rel=1e-3)


@swept(
    ("scheme", "keys", "expect"),
    [
        ("fp16", {}, 2),
        ("int8", {}, 4),
        ("int8", {"block": 128}, 3.88),
        ("int8", {"block": 64}, 3.7647),
        ("1bit", {}, 32),
        ("topk", {"keep": 0.001}, 500),
        ("topk", {"keep": 0.01}, 50),
        ("1bit-adam", {"warmup": 0.15}, 5.66),
        ("1bit-adam", {"warmup": 0.20}, 4.44),
    ],
)
def test_compression_ratio(scheme: str, keys: dict[str, Any], expect: float) -> None:
    """P9, against 4-byte elements."""
    of_format = ratio_of(Compression("dp", scheme, **keys))
    assert of_format == pytest.approx(expect, rel=0.002)
    job = load_job("llama3-70b", {"compression": {"scheme": scheme, **keys}, "layout.dp": 16})
    assert job.draft.compression is not None
    assert ratio_of(job.draft.compression) == of_format


def test_top_k_without_its_indices() -> None:
    assert pytest.approx(1.4e9) == 140e9 * 0.01
    assert 2 * ratio_of(Compression("dp", "topk", keep=0.001)) == pytest.approx(1000)


def test_compression_pays() -> None:
    """P10: 40 ms, a ratio of 8 and 2 ms of overhead: 7 ms, 5.7 times; 1 ms: 2.125 ms, and never."""
    (long_s, pays_s), (short_s, never_s) = (compressed_times(t, 8, 2e-3) for t in (40e-3, 1e-3))
    assert long_s == pytest.approx(7e-3)
    assert 40e-3 / long_s == pytest.approx(5.7, rel=RTOL)
    assert pays_s == pytest.approx(35e-3)
    assert short_s == pytest.approx(2.125e-3)
    assert never_s == pytest.approx(0.875e-3), "below the overhead of 2 ms"
    assert compressed_times(40e-3, 8, 0.0, fixed_s=20e-3)[0] == pytest.approx(22.5e-3), (
        "latency does not shrink"
    )


@pytest.mark.parametrize(
    ("comm", "before", "after", "break_even"),
    [(0.2, 50000, 38500, 0.4286), (0.03, 33000, 33825, 0.0732)],
)
def test_time_to_accuracy(comm: float, before: float, after: float, break_even: float) -> None:
    """P11: 100,000 steps of 300 ms, a ratio of 4, 10% more steps."""
    assert time_to_accuracy(100000, 0.3, comm) == pytest.approx(before)
    assert time_to_accuracy(100000, 0.3, comm / 4, 0.10) == pytest.approx(after)
    assert break_even_extra_steps(0.3, comm, comm / 4) == pytest.approx(break_even, abs=5e-5)
    at_it = time_to_accuracy(1, 0.3, comm / 4, break_even_extra_steps(0.3, comm, comm / 4))
    assert at_it == pytest.approx(time_to_accuracy(1, 0.3, comm))


def test_extra_steps_of_each_scheme() -> None:
    assert EXTRA_STEPS == {
        "fp16": (0, 0),
        "int8": (0.05, 0.10),
        "topk": (0.10, 0.20),
        "1bit": (0.20, 0.30),
    }
