"""Formulas of kernels and intervals of their prices, each against a calculation by hand."""

from __future__ import annotations

from math import log

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.engines.formulas import FORMULAS, FormulaName, KernelCall
from colltool.engines.intervals import kernel_interval, log_factors
from colltool.engines.tokens import Tokens, bytes_sent, copies_sent, width

ALL_REDUCE = {"base_us": 4, "per_rank_us": 0.5, "GBps": 100}


@swept(
    ("formula", "parameters", "latency_us", "bandwidth_us"),
    [
        # three peers: 4 + 3/2 us; (4 - 1) 1 MB at 100 GB/s
        ("one-shot", ALL_REDUCE, 5.5, 30),
        # 2 (4 - 1) / 4 MB
        ("two-shot", ALL_REDUCE, 5.5, 15),
        # 1 MB, of which 100 KiB hide
        ("switch", {**ALL_REDUCE, "free_KiB": 100}, 5.5, 8.976),
        ("switch", {**ALL_REDUCE, "free_KiB": 1000}, 5.5, 0),
        # 3/4 MB out and 1 MB back; or four ranks of 10 us each
        ("mnnvl-two-shot", {"base_us": 4, "GBps": 100, "rank_MB_us": 1}, 4, 17.5),
        ("mnnvl-two-shot", {"base_us": 4, "GBps": 100, "rank_MB_us": 10}, 4, 40),
        # all four ranks and 32 experts: 4 + 2 + 0.32 us
        ("exchange", {**ALL_REDUCE, "per_expert_us": 0.01}, 6.32, 10),
        # 8 tokens for one of 32 blocks of an expert each, as long as the bytes
        ("exchange", {**ALL_REDUCE, "per_expert_us": 0, "block_us": 80}, 6, 20),
        # three links of 20 GB/s, which are less than 100 GB/s
        ("exchange", {**ALL_REDUCE, "per_expert_us": 0, "link_GBps": 20}, 6, 1000 / 60),
        # 1 MB at 100 GB/s, then half of it, 250,000 values of 2 bytes, at 50 GB/s
        ("exchange-copy", {"base_us": 4, "GBps": 100, "own_GBps": 50}, 4, 20),
        # 8 tokens on 2 SMs, each 1 us and half one for each of 3 copies; 20 GB/s of 2 SMs or 100
        (
            "exchange-sm",
            {"base_us": 4, "token_us": 1, "copy_us": 0.5, "GBps_per_sm": 10, "GBps": 100},
            4,
            60,
        ),
        (
            "exchange-sm",
            {"base_us": 4, "token_us": 0, "copy_us": 0, "GBps_per_sm": 90, "GBps": 100},
            4,
            10,
        ),
        # and 2 us for each 1000 of the 31,250 values of a token
        (
            "exchange-sm",
            {
                "base_us": 4,
                "hidden_us": 2,
                "token_us": 0,
                "copy_us": 0,
                "GBps_per_sm": 90,
                "GBps": 100,
            },
            66.5,
            10,
        ),
        # 0.8 of 50 GB/s, or two SMs at 10
        ("exchange-nic-sm", {"base_us": 4, "GBps_per_sm": 40, "eta": 0.8}, 4, 25),
        ("exchange-nic-sm", {"base_us": 4, "GBps_per_sm": 10, "eta": 0.8}, 4, 50),
        # 1 MB and the half that stays in the node
        ("exchange-nic-copy", {"base_us": 4, "eta": 0.6}, 4, 50),
        # the host, or 4 + 8 us and the bytes
        ("exchange-host", {"floor_us": 50, "base_us": 4, "token_us": 1, "GBps": 100}, 40, 10),
        ("exchange-host", {"floor_us": 20, "base_us": 4, "token_us": 1, "GBps": 100}, 12, 10),
        ("counts", {"base_us": 4, "per_rank_us": 0.5, "token_us": 2}, 6, 16),
        # 0.8 of 50 GB/s
        (
            "exchange-nic",
            {"base_us": 4, "per_rank_us": 0.5, "per_expert_us": 0.01, "eta": 0.8},
            6.32,
            25,
        ),
        # four NICs at 0.8 of 50 GB/s are faster than the software's 100 GB/s, or slower than 200
        ("transfer", {"base_us": 4, "eta": 0.8, "GBps": 100}, 4, 10),
        ("transfer", {"base_us": 4, "eta": 0.8, "GBps": 200}, 4, 6.25),
    ],
)
def test_a_formula_by_hand(
    formula: FormulaName, parameters: dict[str, float], latency_us: float, bandwidth_us: float
) -> None:
    call = KernelCall(
        ranks=4,
        bytes=1e6,
        experts=32,
        nic_Bps=50e9,
        token_bytes=0.5e6,
        values=250_000,
        tokens=8,
        copies=3,
        sms=2,
    )
    times = FORMULAS[formula].of(parameters, call)
    assert times.latency_s == pytest.approx(latency_us * 1e-6)
    assert times.bandwidth_s == pytest.approx(bandwidth_us * 1e-6)


def test_copies_to_ranks_and_nodes_of_limited_routing() -> None:
    """64 ranks on 8 nodes, routing to 4 of them: two draws from 32 ranks, or from 4 nodes."""
    assert copies_sent("ranks", 2, 64, 8, 4) == pytest.approx(32 * (1 - (31 / 32) ** 2) * 7 / 8)
    assert copies_sent("nodes", 2, 64, 8, 4) == pytest.approx(4 * (1 - (3 / 4) ** 2) * 7 / 8)
    assert copies_sent("ranks", 2, 64, 8) == pytest.approx(64 * (1 - (63 / 64) ** 2) * 7 / 8)


def test_a_limit_of_more_nodes_than_there_are_changes_nothing() -> None:
    assert copies_sent("nodes", 2, 64, 8, 16) == copies_sent("nodes", 2, 64, 8)


def test_within_a_node_the_ranks_are_what_a_token_goes_to() -> None:
    """Two draws from four ranks, of which three are others; no node limits them."""
    by_hand = 4 * (1 - (3 / 4) ** 2) * 3 / 4
    for copies in ("ranks", "nodes"):
        assert copies_sent(copies, 2, 4, 1) == pytest.approx(by_hand)
        assert copies_sent(copies, 2, 4, 1, 1) == pytest.approx(by_hand)
    assert copies_sent("experts", 2, 4, 1) == 2 * 3 / 4


def test_bytes_of_tokens() -> None:
    """10 tokens of 256 values in 4 bits with a scale of a byte for 16: 144 bytes each."""
    call = Tokens(10, 3, 256, 8, "nvfp4")
    assert call.token_bytes == 1440
    assert call.copied_bytes == 3 * 1440
    assert bytes_sent("experts", call, 8, 1) == 1440 * 3 * 7 / 8
    with pytest.raises(ColltoolError, match="'fp6' is not known"):
        width("fp6")


def test_an_interval_is_as_wide_as_student_s_t_of_4() -> None:
    """A median error of 5% is 0.741 of a deviation; nine of ten are within 2.132 of them."""
    interval = kernel_interval(2.0, log_factors(0.05), "rows", measured_here=True)
    half_width = log(1.05) * 2.132 / 0.741
    assert log(interval.high_s / 2) == pytest.approx(half_width)
    assert log(interval.low_s / 2) == pytest.approx(-half_width)
    assert (interval.basis, interval.nearest) == ("measured", "rows")
    off = kernel_interval(2.0, log_factors(0.05), "", measured_here=False)
    assert (off.basis, off.nearest) == ("extrapolated", None)
