"""What would make a price smaller: each gain is what the same change by ``--set`` gives."""

from __future__ import annotations

import json

import pytest
from swept import swept

import colltool
from colltool.render.dispatch import rendered
from colltool.render.text import Screen

CASES = [
    ("nvl72", "ar", 72, "16MB"),
    ("dgx-h100", "ar", 64, "1GB"),
    ("dgx-h100", "a2a", 64, "1MB"),
    ("torus512", "ag", None, "16MB"),
    ("clos-4to1", "ar", None, "64KB"),
]


@pytest.mark.parametrize(("fabric", "primitive", "ranks", "size"), CASES)
def test_a_gain_is_what_set_gives(
    fabric: str, primitive: str, ranks: int | None, size: str
) -> None:
    found = colltool.breakdown(fabric, primitive, ranks=ranks, size=size)
    row = found.price.results[0]
    assert found.gains
    for gain in found.gains:
        changed = colltool.load_fabric(fabric, list(gain.set))
        again = colltool.breakdown(changed, primitive, ranks=ranks, size=size, algorithm=row.spec)
        assert again.price.results[0].total_s == pytest.approx(gain.total_s, rel=1e-9)
        assert gain.total_s < row.total_s


def test_the_largest_gain_comes_first_and_none_is_larger_than_its_part() -> None:
    found = colltool.breakdown("dgx-h100", "ar", ranks=64, size="1GB")
    row = found.price.results[0]
    totals = [gain.total_s for gain in found.gains]
    assert totals == sorted(totals)
    assert (found.gains[0].kind, found.gains[0].tier) == ("bandwidth", "ib")
    # half of a part can save no more than half of all
    assert all(row.total_s / 2 <= total_s < row.total_s for total_s in totals)


def test_the_answer_names_what_would_save_time() -> None:
    found = colltool.breakdown("dgx-h100", "ar", ranks=64, size="1GB")
    first = " ".join(rendered(found, "table", Screen(80)).split())
    assert "Twice the bandwidth of ib would save 34%." in first
    everything = rendered(found, "table", Screen(200), everything=True)
    assert "ib.bandwidth=100GB/s" in everything


def test_a_price_with_set_values_says_what_the_file_gives() -> None:
    as_filed = colltool.price("dgx-h100", "ar", ranks=64, size="1GB")
    assert as_filed.as_filed_s is None
    wider = colltool.load_fabric("dgx-h100", ["ib.bandwidth=800Gbps"])
    changed = colltool.price(wider, "ar", ranks=64, size="1GB")
    assert changed.as_filed_s == as_filed.best.total_s
    assert "1.518x faster than with the file's own values, 5.945 ms" in " ".join(
        rendered(changed, "table", Screen(80)).split()
    )
    assert json.loads(rendered(changed, "json"))["as_filed_s"] == changed.as_filed_s


@swept("setting", ["ib.size=16", "library.version=2.31", "ib.bandwidth=400Gbps"])
def test_other_than_numbers_ask_another_question(setting: str) -> None:
    changed = colltool.load_fabric("dgx-h100", [setting])
    assert colltool.price(changed, "ar", ranks=64, size="1GB").as_filed_s is None


def test_latency_that_no_link_shortens_is_said() -> None:
    """NVLS on a rack takes NCCL's own time per step; a torus only its links'."""
    fixed = "NCCL's own time per step, which no link shortens"
    rack = colltool.breakdown("nvl72", "ar", ranks=72, size="16MB")
    assert fixed in " ".join(rendered(rack, "table", Screen(80)).split())
    torus = colltool.breakdown("torus512", "ar", size="16KB")
    assert "no link shortens" not in " ".join(rendered(torus, "table", Screen(80)).split())
