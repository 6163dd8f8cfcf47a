"""Fabrics compared by the kernels that an engine picks on each."""

from __future__ import annotations

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError

SIZES = ["64KiB", "1MiB", "16MiB"]


def test_each_column_has_the_engine_s_pick_and_its_price() -> None:
    fabrics = ["dgx-h100", "dgx-b200"]
    found = colltool.compare(fabrics, "ar", ranks=8, sizes=SIZES, library="vllm@0.24.0")
    assert found.libraries == ("vllm@0.24.0", "vllm@0.24.0")
    assert [line.bytes for line in found.lines] == [2**16, 2**20, 2**24]
    for line in found.lines:
        for fabric, cell in zip(fabrics, line.cells, strict=True):
            price = colltool.price(
                fabric, "ar", size=line.bytes, ranks=8, library="vllm@0.24.0"
            ).best
            assert (cell.algorithm, cell.total_s) == (price.kernel, price.total_s)
            assert cell.interval == price.interval


def test_the_verdict_is_that_of_the_measured_rows() -> None:
    """Measured, vLLM 0.24, 8 GPUs: 64 KiB takes 6.4 us on H100 and 8.6 us on B200, 64 MiB 344 and
    223 us."""
    found = colltool.compare(
        ["dgx-h100", "dgx-b200"], "ar", ranks=8, sizes=["64KiB", "64MiB"], library="vllm@0.24.0"
    )
    small, large = found.lines
    assert (small.winner(), large.winner()) == (0, 1)
    (verdict,) = found.verdicts
    assert [band.winner for band in verdict.claims] == ["dgx-h100", "dgx-b200"]


def test_the_same_gpus_are_too_close_to_call() -> None:
    """H200 has H100's numbers, with the error of that."""
    found = colltool.compare(["dgx-h100", "hgx-h200"], "ar", ranks=8, sizes=SIZES, library="vllm")
    assert {line.verdict().kind for line in found.lines} == {"same"}


def test_without_ranks_it_is_the_most_that_all_can_run() -> None:
    found = colltool.compare(
        ["dgx-h100:nodes=1", "l40s-pcie:library.p2p=true"], "ar", sizes=SIZES, library="vllm"
    )
    assert {line.ranks for line in found.lines} == {8}


@swept(
    ("asked", "words"),
    [
        ({"algorithms": "ring"}, "vllm@0.27.0 picks its own kernels"),
        ({"primitives": "ag"}, "vllm@0.27.0 has no kernel for all-gather"),
        ({"fabrics": ["dgx-h100", "mi300x"]}, "no kernel of vllm@0.27.0 was measured on mi300x"),
        ({"library": "openmpi"}, "openmpi is a library of kernels, not of algorithms"),
    ],
)
def test_what_it_cannot_compare_is_refused(asked: dict[str, object], words: str) -> None:
    question: dict[str, object] = {
        "fabrics": ["dgx-h100", "dgx-b200"],
        "primitives": "ar",
        "library": "vllm",
    }
    with pytest.raises(ColltoolError, match=words):
        colltool.compare(**(question | {"ranks": 8, "sizes": SIZES} | asked))  # type: ignore[arg-type]
