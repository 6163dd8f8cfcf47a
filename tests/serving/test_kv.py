"""KV caches between prefill and decode: bytes, messages and distances by hand."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.lookup import find_library

LLAMA = 80 * 2 * 8 * 128 * 2 * 4096
"""Bytes of 4,096 tokens of llama3-70b: 80 layers, 8 KV heads of 128 values, keys and values."""


def kv(job: str = "llama3-70b", fabric: str = "dgx-h100", **asked: Any) -> Any:
    found = colltool.serve(job, fabric, **({"tp": 8, "batch": 64, "prefill_tp": 8} | asked)).kv
    assert found is not None
    return found


@swept(
    ("prefill_tp", "tp", "pairs", "copies"),
    [(8, 8, 8, 1), (4, 8, 4, 1), (8, 4, 4, 1), (16, 16, 16, 2), (8, 16, 8, 2)],
)
def test_more_ranks_than_kv_heads_hold_copies(
    prefill_tp: int, tp: int, pairs: int, copies: int
) -> None:
    found = kv(tp=tp, prefill_tp=prefill_tp)
    assert found.bytes == LLAMA
    assert found.moved_bytes == LLAMA * copies
    assert found.pairs == pairs


def test_a_latent_cache_goes_whole_to_every_rank() -> None:
    found = kv("deepseek-v3", "dgx-h100:nodes=4", tp=16, ep=16)
    assert found.bytes == 61 * (512 + 64) * 2 * 4096
    assert found.moved_bytes == 16 * found.bytes


@swept(
    ("asked", "messages"),
    [
        # 80 layers, keys and values, 256 pages of 16 tokens
        ({}, 80 * 2 * 256),
        ({"kv_page": 64}, 80 * 2 * 64),
        # a rank of decode reads from two of prefill: half of the heads each
        ({"tp": 4}, 80 * 2 * 256 * 2),
        ({"tp": 4, "kv_layout": "tokens"}, 80 * 2 * 256 * 2 * 16),
        ({"kv_layout": "tokens"}, 80 * 2 * 256),
        ({"kv_layout": "pages"}, 256),
        # half of the layers on each of two stages, whose ranks share the 8 of prefill
        ({"pp": 2}, 80 * 256 * 2),
    ],
)
def test_messages_of_a_pair(asked: dict[str, Any], messages: int) -> None:
    assert kv(**asked).messages == messages


def test_another_site_is_as_far_as_light_takes_and_its_trunk_is_shared() -> None:
    here = kv(fabric="two-sites")
    there = kv(fabric="two-sites", prefill_tier="wan")
    assert (here.tier, there.tier) == ("ib", "wan")
    # 500 km of fibre at 5 us each
    assert there.total_s - here.total_s == pytest.approx(2.5e-3, rel=0.02)
    assert there.interval.high_s / there.total_s > here.interval.high_s / here.total_s
    thin = colltool.load_fabric("two-sites", ["wan.trunk=80Gbps"])
    # 1.34 GB by 10 GB/s
    assert kv(fabric=thin, prefill_tier="wan").total_s == pytest.approx(LLAMA / 10e9, rel=0.03)


def test_hosts_with_the_nics_of_h100_take_its_numbers_with_a_wider_interval() -> None:
    h100, b200, a100 = (kv(fabric=name) for name in ("dgx-h100", "dgx-b200", "dgx-a100"))
    assert b200.total_s == h100.total_s
    assert b200.interval.high_s > h100.interval.high_s
    assert "b200 was not measured: the numbers of h100 are used" in b200.notes
    # eight NICs of 200 Gb/s carry more than Mooncake's 137 GB/s, four do not
    assert a100.total_s == h100.total_s
    assert kv(fabric="dgx-a100", prefill_tp=4).total_s > kv(prefill_tp=4).total_s


def test_mori_io_against_its_published_writes() -> None:
    """Thor 2, 400 Gb/s: microseconds of batches, from docs/MORI-IO-BENCHMARK.md."""
    (kernel,) = find_library("mori-io").kernels
    off = []
    for size, batch, us in (
        (4096, 128, 42.09),
        (16384, 128, 74.02),
        (65536, 128, 202.7),
        (1048576, 128, 2777.76),
        (1024, 128, 42.87),
        (1024, 1024, 192.99),
        (1024, 32768, 4617.83),
    ):
        call = KernelCall(1, size * batch, nic_Bps=50e9, messages=batch)
        times = FORMULAS[kernel.formula].of(kernel.parameters, call)
        off.append(abs(times.total_s * 1e6 / us - 1))
    assert sorted(off)[len(off) // 2] < 0.1
    assert max(off) < 0.35


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"prefill_tier": "lan"}, "--prefill-over: dgx-h100 has no tier 'lan'"),
        ({"kv_layout": "rows"}, "--kv-layout: 'rows' is no layout"),
    ],
)
def test_unknown_tiers_and_layouts_are_refused(asked: dict[str, str], words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        kv(**asked)
    assert caught.value.spelled("shell").startswith(words)
