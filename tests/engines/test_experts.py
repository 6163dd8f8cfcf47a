"""Kernels of experts: errors and intervals on measured rows, formats, SMs, modes, siblings of GPUs and
what is refused. ``tests/data/inference/experts.csv``: aiconfigurator (Apache-2.0)."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.engines.lookup import find_library, read_library
from colltool.engines.tokens import copies_sent

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
CALL: dict[str, Any] = {"tokens": 128, "top_k": 8, "hidden": 7168, "experts": 256}
MANY = {**CALL, "tokens": 4096}


def row(fabric: str, operation: str, kernel: str, **asked: Any) -> Any:
    found = colltool.price(fabric, operation, **{**CALL, **asked})
    return next(estimate for estimate in found.results if estimate.kernel == kernel)


def test_measured_rows_are_within_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """12% in the median for kernels alone, 20% as engines call them; 85 to 98% of the rows inside the
    printed interval."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench = __import__("bench_experts")
    by_mode: dict[str, list[Any]] = defaultdict(list)
    for measured in bench.rows(bench.ROWS):
        mode = bench.KERNELS[measured["kernel"]][2]
        by_mode[mode].append(bench.found(measured))
    for mode, bar in (("graph", 0.09), ("eager", 0.08)):
        several = by_mode[mode]
        assert len(several) > 100
        assert median(abs(one.ratio - 1) for one in several) < bar
        inside = [one.inside for one in several]
        assert None not in inside
        assert 0.85 < sum(inside) / len(inside) <= 0.98
    sys.modules.pop("bench_experts")


def test_sms_set_the_time_of_a_normal_dispatch() -> None:
    """By hand for H100: 26.6 us, 4096 tokens on s SMs at 0.366 us and 0.051 for each copy, then the
    bytes of 4.64 copies at 20.9 GB/s an SM or 389."""
    copies = copies_sent("ranks", 8, 8, 1, experts=256)
    sent = 4096 * 7168 * (1 + 4 / 128) * copies
    for sms in (4, 8, 16, 24):
        normal = row(
            "dgx-h100",
            "dispatch",
            "normal",
            ranks=8,
            library="deepep@1",
            sms=sms,
            **{"tokens": 4096},
        )
        by_hand_us = 26.6 + 4096 / sms * (0.3661 + 0.05066 * copies)
        by_hand_us += sent / 1e3 / min(20.86 * sms, 388.6)
        assert normal.total_s == pytest.approx(by_hand_us * 1e-6, rel=1e-3)
        assert normal.bytes == pytest.approx(sent)
    default = row("dgx-h100", "dispatch", "normal", ranks=8, library="deepep@1", tokens=4096)
    assert "on 20 SMs, its default" in default.notes
    off = row("dgx-h100", "dispatch", "normal", ranks=8, library="deepep@1", tokens=4096, sms=64)
    assert "measured on 4 to 24 SMs, not on 64" in off.notes
    assert not off.measured_here


def test_two_nodes_of_deepep_are_as_measured() -> None:
    """748.9 us on 24 SMs, 1,021 on 16 and 2,007 on 8."""
    for sms, us in ((24, 748.9), (16, 1021), (8, 2007)):
        normal = row(
            "dgx-h100", "dispatch", "normal", ranks=16, library="deepep@1", tokens=4096, sms=sms
        )
        assert normal.total_s == pytest.approx(us * 1e-6, rel=0.05)
        assert normal.interval.low_s < us * 1e-6 < normal.interval.high_s
    default = row("dgx-h100", "dispatch", "normal", ranks=16, library="deepep@1", tokens=4096)
    assert default.interval.low_s < 748.9e-6 < default.interval.high_s
    # and a report of H200: 1,585 us
    assert default.interval.high_s > 1585e-6


@swept(
    ("fabric", "like"),
    [("dgx-b300", "b200"), ("gb300-nvl72", "gb200"), ("hgx-h200", "h100")],
)
def test_a_sibling_is_priced_by_its_like_and_said(fabric: str, like: str) -> None:
    ranks = 4 if "nvl72" in fabric else 8
    name = "normal"
    sibling = row(fabric, "dispatch", name, ranks=ranks, library="deepep@1", **{"tokens": 4096})
    measured = {"b200": "dgx-b200", "gb200": "nvl72", "h100": "dgx-h100"}[like]
    own = row(measured, "dispatch", name, ranks=ranks, library="deepep@1", **{"tokens": 4096})
    assert sibling.total_s == pytest.approx(own.total_s)
    assert any(f"the numbers of {like} are used" in note for note in sibling.notes)
    assert sibling.interval.high_s > own.interval.high_s
    assert sibling.interval.low_s < own.interval.low_s


def test_h800_has_rows_of_its_own() -> None:
    """DeepEP's README: 77 us of dispatch and 114 of combine on 8 ranks; 153 GB/s of its NVLink."""
    for operation, us in (("dispatch", 77), ("combine", 114)):
        low = row("hgx-h800", operation, "low-latency", ranks=8, library="deepep@1")
        assert low.total_s == pytest.approx(us * 1e-6, rel=0.02)
        assert not any("not measured" in note for note in low.notes)
    normal = row("hgx-h800", "dispatch", "normal", ranks=8, library="deepep@1", tokens=4096, sms=24)
    received = 4096 * 7168 * (1 + 4 / 128) * 8 / 7 * copies_sent("ranks", 8, 8, 1, experts=256)
    assert received / normal.total_s == pytest.approx(153e9, rel=0.03)


def test_efa_is_priced_where_it_was_measured() -> None:
    """UCCL-EP's README: 1,196 us of dispatch on 16 ranks of p5en, 2,022 on 32; DeepEP has no rows."""
    for ranks, us in ((16, 1196), (32, 2022)):
        found = row(
            "aws-p5en", "dispatch", "normal", ranks=ranks, library="uccl-ep", tokens=4096, groups=4
        )
        assert found.interval.low_s < us * 1e-6 < found.interval.high_s
    with pytest.raises(ColltoolError, match="was not measured on EFA"):
        colltool.price("aws-p5en", "dispatch", ranks=16, library="deepep@1", **CALL)
    with pytest.raises(ColltoolError, match="was not measured on ConnectX-7"):
        colltool.price("hgx-h200", "dispatch", ranks=16, library="uccl-ep", **CALL)


def test_what_an_engine_s_host_adds_is_told_apart() -> None:
    """vLLM's rows are eager: a launch and waits of the host that no graph has."""
    call = {**CALL, "tokens": 16, "dtype": "bf16"}
    eager = colltool.price("dgx-h100", "dispatch", ranks=8, library="vllm@0.24.0", **call)
    alone = colltool.price("dgx-h100", "dispatch", ranks=8, library="deepep@1", **call)
    assert {one.mode for one in eager.results} == {"eager"}
    assert {one.mode for one in alone.results} == {"graph"}
    normal = next(one for one in eager.results if one.kernel == "DeepEP normal")
    # the host's part: about 280 us
    assert normal.total_s == pytest.approx(280e-6, rel=0.02)
    assert "as the host calls it" in eager.summary()
    assert "the kernel alone" in alone.summary()
    with pytest.raises(ColltoolError, match="only as its host calls it"):
        colltool.price("dgx-h100", "dispatch", ranks=8, library="vllm@0.24.0", mode="graph", **call)
    with pytest.raises(ColltoolError, match="only alone, as in a CUDA graph"):
        colltool.price("dgx-h100", "dispatch", ranks=8, library="deepep@1", mode="eager", **call)


def test_the_format_that_is_sent_is_said() -> None:
    """Combine sends bf16 whatever was dispatched, but in low precision; dispatch what is asked."""
    asked = {"ranks": 8, "library": "trtllm"}
    combine = colltool.price("nvl72", "combine", dtype="nvfp4", **asked, **CALL)
    sends = {one.kernel: one.sends for one in combine.results}
    assert sends == {
        "NVLinkTwoSided low-precision": "nvfp4",
        "NVLinkTwoSided": "bf16",
        "NVLinkOneSided": "bf16",
    }
    assert combine.best.kernel == "NVLinkTwoSided low-precision"
    assert "sent per rank in nvfp4" in combine.summary()
    whole = colltool.price("nvl72", "combine", **asked, **CALL)
    assert {one.sends for one in whole.results} == {"bf16"}
    dispatch = row("dgx-h100", "dispatch", "normal", ranks=8, library="deepep@1", dtype="bf16")
    assert dispatch.sends == "bf16"
    assert any("measured in fp8, not in bf16" in note for note in dispatch.notes)


def test_a_version_that_was_not_measured_is_said_first() -> None:
    found = colltool.price("dgx-h100", "dispatch", ranks=8, library="vllm@0.99", **CALL)
    assert "0.99" in found.summary().split(". ")[0]
    assert not found.summary().startswith("vllm@0.99 DeepEP")
    measured = colltool.price("dgx-h100", "dispatch", ranks=8, library="vllm@0.24.0", **CALL)
    assert measured.summary().startswith("vllm@0.24.0 DeepEP")


def test_prepare_tells_counts_and_sends_no_values() -> None:
    found = colltool.price("nvl72", "prepare", ranks=8, library="trtllm", **MANY)
    assert found.best.bytes == 0
    assert found.best.total_s == pytest.approx((12.7 + 0.047 * 8 + 0.00655 * 4096) * 1e-6)


def test_one_sided_does_not_grow_with_ranks() -> None:
    """Measured: 21.2 us on 32 ranks with 16 tokens."""
    found = row(
        "nvl72", "dispatch", "NVLinkOneSided", ranks=32, library="trtllm", tokens=16, dtype="nvfp4"
    )
    assert found.interval.low_s < 21.2e-6 < found.interval.high_s
    assert found.measured_here


def test_every_price_of_experts_has_an_interval() -> None:
    for library in (
        "deepep@1",
        "deepep@2",
        "hybridep",
        "uccl-ep",
        "mori",
        "trtllm",
        "vllm@0.24.0",
    ):
        for kernel in find_library(library).kernels:
            if kernel.operation in ("prepare", "dispatch", "combine"):
                assert kernel.nine_in_ten or kernel.error


@swept(
    ("asked", "words"),
    [
        ({"library": "trtllm", "sms": 24}, "was measured by its SMs there"),
        ({"library": "deepep@1", "dtype": "fp7"}, "'fp7' is not known"),
        ({"library": "deepep@1", "sms": 0}, "sms"),
        ({"library": "deepep@1", "mode": "lazy"}, "'lazy' is no mode"),
    ],
)
def test_what_no_kernel_takes_is_refused(asked: dict[str, Any], words: str) -> None:
    fabric = "nvl72" if asked["library"] == "trtllm" else "dgx-h100"
    with pytest.raises(ColltoolError, match=words):
        colltool.price(fabric, "dispatch", ranks=8, **{**CALL, **asked})


def test_a_file_says_what_is_wrong_with_its_kernel_of_experts() -> None:
    text = """
schema = "colltool.library/1"
name = "mine"
version = "1.0"
spoken = "mine"

[[kernels]]
name = "normal"
operation = "dispatch"
formula = "exchange-sm"
parameters = { base_us = 20, token_us = 0.4, copy_us = 0.1, GBps_per_sm = 20, GBps = 390 }
gpus = ["h100"]
ranks = [8, 8]
sends = ["fp9"]
nine_in_ten = [1.2, 0.9]
"""
    with pytest.raises(ColltoolError) as caught:
        read_library(text, "mine.toml")
    said = str(caught.value)
    assert "'fp9' is not known" in said
    assert "the least comes first" in said
    assert "needs the SMs that the library takes" in said
