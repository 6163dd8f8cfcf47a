"""The documents' worked numbers as a job gives them, through ``plan`` and ``job show``: traffic,
and times of known compute."""

from __future__ import annotations

from typing import Any

import pytest
from planning import part, star
from swept import swept

import colltool
from colltool.training.job_results import show_job

RTOL = 0.02  # the documents' own rounding
EIGHT = star(8, "10us", "100GB/s", algorithms={"all_reduce": ["ring"]})


def bare(layers: int, **keys: Any) -> dict[str, Any]:
    return {
        "model": {"parameters": 7e9, "layers": layers},
        "sequence": 1,
        "batch": {"global": 8},
        "layout": {"dp": 8},
        "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
    } | keys


def sent(job: dict[str, Any], fabric: Any = EIGHT) -> list[Any]:
    return [
        one.sent
        for one in colltool.plan(job, fabric, 8).collectives
        if one.sent.call.dimension == "dp"
    ]


def test_bytes_of_a_model() -> None:
    """P1: the gradient of 70B in BF16 140 GB; a layer of 7B in FP32 875 MB, 880 as the document
    rounds."""
    whole = bare(
        80,
        model={"parameters": 70e9, "layers": 80},
        shard={"mode": "ddp", "grad_bytes": 2, "bucket": "1TB"},
    )
    assert [one.call.bytes for one in sent(whole)] == pytest.approx([140e9])
    layer = bare(32, shard={"mode": "fsdp", "grad_bytes": 4}, precision={"params": "fp32"})
    assert {one.call.bytes for one in sent(layer)} == {875e6}
    assert sent(layer)[0].call.bytes == pytest.approx(880e6, rel=RTOL)


@pytest.mark.parametrize(("gathers", "calls", "volume"), [(1, 64, 1.0), (2, 96, 1.5)])
def test_collectives_of_fsdp(gathers: int, calls: int, volume: float) -> None:
    """P3: AG and RS of 32 layers are 64 calls and one all-reduce of volume; gathered again for the
    backward pass 96 and 1.5."""
    job = bare(32, shard={"mode": "fsdp", "gathers": gathers, "grad_bytes": 2})
    found = sent(job)
    assert sum(one.call.calls for one in found) == calls
    listed = show_job(colltool.load_job(job), 8).sent
    assert sum(one.call.calls for one in listed if one.call.dimension == "dp") == calls
    all_reduce = colltool.price(EIGHT, "ar", size=14e9, ranks=8).best.bandwidth_s
    assert sum(one.cost.bandwidth_s * one.call.calls for one in found) == pytest.approx(
        volume * all_reduce
    )


@pytest.mark.parametrize(("launch", "expect"), [("25us", 5e-3), ("50us", 10e-3)])
def test_launches_of_a_hundred_layers(launch: str, expect: float) -> None:
    """Two calls a layer, at 25 to 50 us each: 5 to 10 ms."""
    job = bare(100, shard={"mode": "fsdp", "gathers": 1})
    free, dear = (
        sum(one.total_s for one in sent(job, EIGHT | {"launch_overhead": each}))
        for each in ("0us", launch)
    )
    assert dear - free == pytest.approx(expect)


PEERS = [("star", "pairwise", 57.70), ("full_mesh", "direct", 8.243), ("star", "direct", 39.70)]


@swept(("topology", "algorithm", "expect_us"), PEERS)
def test_tokens_to_seven_peers(topology: str, algorithm: str, expect_us: float) -> None:
    """P5: 256 KB to each of 7 peers in turn, at once over a link each, and at once through one
    port."""
    fabric = star(8, "3us", "50GB/s", topology=topology, algorithms={"all_to_all": [algorithm]})
    job = {"layout": {"dp": 8}, "calls": [{"primitive": "a2a", "size": 2097152}]}
    assert colltool.plan(job, fabric).step_s == pytest.approx(expect_us * 1e-6, rel=1e-3)
    one = {"layout": {"dp": 8}, "calls": [{"primitive": "p2p", "size": 262144}]}
    assert colltool.plan(one, fabric).step_s == pytest.approx(8.243e-6, rel=1e-3)


@pytest.mark.parametrize("skew", [3.0, 1.25])
def test_a_hot_expert(skew: float) -> None:
    """The busiest rank's tokens set the time: three times as many take three times as long; 1.25
    where a capacity caps them."""
    experts = {"experts": 64, "top_k": 1, "ffn": 1024}
    shape = {"layers": 1, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32000}
    job = {
        "sequence": 512,
        "batch": {"global": 8},
        "layout": {"ep": 8},
        "device": "h100",
        "stack": "megatron",
    }
    fabric = star(8, "1ns", "50GB/s", algorithms={"all_to_all": ["pairwise"]})
    even, hot = (
        next(
            one.sent
            for one in colltool.plan(
                job | {"model": shape | {"moe": experts | {"imbalance": each}}}, fabric
            ).collectives
            if one.sent.call.dimension == "ep"
        )
        for each in (1.0, skew)
    )
    assert even.call.bytes == hot.call.bytes == 2097152
    assert hot.each_s / even.each_s == pytest.approx(skew, rel=1e-3)


def pipelined(stages: int, micro_batches: int) -> float:
    """The share of a step that is bubble, its stages equal and its network next to free."""
    job = {
        "model": {"layers": stages, "hidden": 64, "heads": 1, "ffn": 64, "vocab": 64},
        "sequence": 64,
        "batch": {"global": micro_batches},
        "layout": {"pp": stages, "dp": 1},
        "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
    }
    found = colltool.plan(job, star(stages, "1ns", "900GB/s"))
    return float(part(found, "bubble").exposed_s / found.control_step_s)


def test_bubble_of_a_pipeline() -> None:
    """P6: (p-1)/(m+p-1): 17.95% of 8 stages with 32 micro-batches, 20% with 28, and 29 are the
    fewest below."""
    assert pipelined(8, 32) == pytest.approx(0.1795, abs=5e-5)
    assert pipelined(8, 28) == pytest.approx(0.2, abs=5e-5)
    assert min(m for m in range(20, 40) if pipelined(8, m) < 0.2 - 1e-9) == 29


@swept(("layers", "share"), [(2, 0.5), (3, 2 / 3), (10, 0.9), (20, 0.95)])
def test_share_that_hides_where_each_collective_fits(layers: int, share: float) -> None:
    """P8: all but the last; 50 to 60% of two or three layers, 90 to 95% of dozens."""
    job = {
        "layout": {"dp": 8},
        "compute": {"forward": "0us", "backward": f"{15 * layers}ms"},
        "calls": [
            {"primitive": "ar", "group": "dp", "size": "1GB", "count": layers, "time": "10ms"}
        ],
    }
    found = part(colltool.plan(job, EIGHT), "dp")
    assert found.hidden_s / (found.hidden_s + found.exposed_s) == pytest.approx(share)
