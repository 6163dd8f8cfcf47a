"""Comparisons: every time is a price, every sentence follows from prices."""

from __future__ import annotations

import numpy as np
import pytest

import colltool
from colltool.analysis.outcomes import SAME
from colltool.base.errors import ColltoolError
from colltool.render.fitted_words import offer_sentence
from colltool.render.views.compare import verdict
from colltool.render.views.compare_conclusions import conclusions

pytestmark = pytest.mark.usefixtures("datasheet")

THIN = {"overrides": ["ib.levels.leaf.group=4"], "vary": "ib.levels.spine.oversubscription=1,4"}


def test_every_time_is_a_price() -> None:
    found = colltool.compare(
        ["dgx-h100", "nvl72"], ["ar", "a2a"], ranks=[8, 64], sizes=["64KB", "1GB"]
    )
    assert [one.name for one in found.columns] == ["dgx-h100", "nvl72"]
    assert len(found.lines) == 8
    for line in found.lines:
        prices = [
            colltool.price(name, line.primitive, size=line.bytes, ranks=line.ranks).best
            for name in ("dgx-h100", "nvl72")
        ]
        assert [cell.total_s for cell in line.cells] == pytest.approx(
            [one.total_s for one in prices]
        )
        assert [cell.algorithm for cell in line.cells] == [one.title for one in prices]
        if line.ratio(1) is not None:  # nvl72 has no launch overhead
            assert line.ratio(1) == pytest.approx(prices[1].total_s / prices[0].total_s)


def test_a_thin_spine_in_sentences() -> None:
    found = colltool.compare(
        "dgx-h100", ["ar", "a2a"], ranks=[64, 256], sizes=["1MB", "1GB"], **THIN
    )
    said = verdict(found)
    assert said[0] == "All-reduce, 64 ranks: no measurable difference"
    assert conclusions(found)[0].startswith(
        "oversubscription=4 makes no difference to all-reduce on 64 ranks: too few messages of "
    )
    assert said[1].startswith("All-reduce, 256 ranks: oversubscription=1 is ")
    flat, thin = (
        colltool.load_fabric(
            "dgx-h100", [*THIN["overrides"], f"ib.levels.spine.oversubscription={s}"]
        )
        for s in (1, 4)
    )
    points = [(size, ranks) for size in (1e6, 1e9) for ranks in (64, 256)]
    times = [
        [colltool.price(one, "a2a", size=size, ranks=ranks).best.total_s for one in (thin, flat)]
        for size, ranks in points
    ]
    worst = max(slow / fast for slow, fast in times)
    assert f"to {worst:.3g}x faster than oversubscription=4" in " ".join(said[2:])


def test_runs_of_sizes_are_what_prices_say() -> None:
    found = colltool.compare("dgx-h100", "ar", ranks=32, vary="library.collnet=false,true")
    (one,) = found.findings
    assert {run.outcome for run in one.runs} > {"same", "faster"}
    off, on = (
        colltool.load_fabric("dgx-h100", [f"library.collnet={word}"]) for word in ("false", "true")
    )
    for run in one.runs:
        for size in np.geomspace(run.from_bytes, run.to_bytes, 9):
            ratio = (
                colltool.price(on, "ar", size=size, ranks=32).best.total_s
                / colltool.price(off, "ar", size=size, ranks=32).best.total_s
            )
            assert run.outcome == (
                "faster" if ratio < 1 - SAME else "slower" if ratio > 1 + SAME else "same"
            )
            assert abs(ratio - 1) <= abs(run.ratio - 1) * (1 + 1e-3)


def test_what_one_fabric_cannot_run() -> None:
    found = colltool.compare(["mi300x", "dgx-h100"], "ar", ranks=[8, 64], sizes=["1MB", "1GB"])
    assert found.lines[-1].ratio(1) is None
    assert "8" in found.lines[-1].cells[0].reason
    assert verdict(found)[-1] == "All-reduce, 64 ranks: only dgx-h100 can run it"
    (offer,) = found.offers
    assert offer_sentence(offer) == "64 ranks do not fit on mi300x; compare at ranks=8"


def test_all_ranks_are_those_of_the_smallest() -> None:
    found = colltool.compare(["star512", "dgx-h100"], "ar", sizes=["1MB"])
    assert {line.ranks for line in found.lines} == {256}


def test_one_column_is_no_comparison() -> None:
    with pytest.raises(ColltoolError, match="nothing to be compared with"):
        colltool.compare("dgx-h100", "ar")
    with pytest.raises(ColltoolError, match="is an option of the model"):
        colltool.compare("dgx-h100", "ar", vary="ideal=true,false")
