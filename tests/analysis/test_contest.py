"""How often one fabric beats another: each sample is a price on both, and what they share is drawn
once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import colltool
from colltool.analysis.outcomes import SAME
from colltool.analysis.what_if import draws
from colltool.base.errors import ColltoolError
from colltool.fabric.values import with_values
from colltool.render.dispatch import document
from colltool.render.views.contest import contest_verdict as verdict

TIER = {
    "name": "t",
    "topology": "star",
    "size": 8,
    "alpha": "1us",
    "bandwidth": "100GB/s",
    "eta": {"beta": 0.8},
}


def mine(name: str, tier: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "schema": "colltool.fabric/1",
        "name": name,
        "tiers": [TIER | (tier or {})],
        "launch_overhead": "4us",
        **more,
    }


def test_every_sample_is_a_price_on_both() -> None:
    names = ["dgx-h100", "hgx-h200"]
    found = colltool.compare_sensitivity(names, "ar", size="32MB", ranks=64, samples=20, seed=3)
    times = []
    for name, side in zip(names, found.sides, strict=True):
        fabric, drawn = colltool.load_fabric(name), draws(side.numbers, 20, 3)
        each = [
            with_values(fabric, {place: float(values[at]) for place, values in drawn.items()})
            for at in range(20)
        ]
        times.append(np.array([float(_fastest(one).total_s) for one in each]))
        assert (side.nominal_s, side.algorithm) == _nominal(fabric)
        assert [side.p5_s, side.p50_s, side.p95_s] == pytest.approx(
            list(np.quantile(times[-1], (0.05, 0.5, 0.95)))
        )
    ratio = times[1] / times[0]
    (one,) = found.beats
    assert (one.faster, one.slower) == pytest.approx(
        ((ratio < 1 - SAME).mean(), (ratio > 1 + SAME).mean())
    )
    assert one.faster + one.same + one.slower == pytest.approx(1)
    assert [one.ratio_p5, one.ratio_p50, one.ratio_p95] == pytest.approx(
        list(np.quantile(ratio, (0.05, 0.5, 0.95)))
    )
    assert "nvlink.alpha" in one.shared
    assert not any(key.startswith(("ib.", "roce.")) for key in one.shared)


def _fastest(fabric: Any) -> Any:
    return min(
        colltool.price(fabric, "ar", size="32MB", ranks=64).leading,
        key=lambda row: float(row.total_s),
    )


def _nominal(fabric: Any) -> tuple[float, str]:
    best = _fastest(fabric)
    return pytest.approx(best.total_s), best.title


def test_what_both_have_is_off_alike() -> None:
    """A tenth slower in every sample, however far the bandwidth is off: it is off on both."""
    found = colltool.compare_sensitivity(
        [mine("a"), mine("b", {"bandwidth": "90GB/s"})],
        "ar",
        size="1GB",
        vary="bandwidth=50%",
        samples=500,
    )
    assert found.beats[0].shared == ("t.bandwidth",)
    assert (found.beats[0].slower, found.beats[0].ratio_p5) == (
        1.0,
        pytest.approx(10 / 9, rel=1e-3),
    )
    other = mine("b", {"bandwidth": "90GB/s", "name": "u"})
    apart = colltool.compare_sensitivity(
        [mine("a"), other], "ar", size="1GB", vary="bandwidth=50%", samples=2000
    )
    assert apart.beats[0].shared == ()
    # of two independent draws, one of them a tenth lower
    assert 0.55 < apart.beats[0].slower < 0.65


def test_equals_are_neither_faster_nor_slower() -> None:
    (one,) = colltool.compare_sensitivity(
        [mine("a"), mine("b")], "ar", size="1MB", samples=200
    ).beats
    assert (one.faster, one.same, one.slower, one.ratio_p50) == (0.0, 1.0, 0.0, 1.0)


def test_unequal_ground_is_not_compared() -> None:
    bare = mine("bare")
    del bare["launch_overhead"]
    found = colltool.compare_sensitivity([mine("a"), bare], "ar", size="1KB", samples=200)
    (one,) = found.beats
    assert (one.compared, one.faster, one.ratio_p50) == (False, None, None)
    assert "not comparable" in verdict(found)[0]
    assert [uneven.code for uneven in found.ground] == ["launch"]
    assert (
        colltool.compare_sensitivity([mine("a"), bare], "ar", size="10GB", samples=200)
        .beats[0]
        .compared
    )


def test_a_key_that_only_one_has() -> None:
    names = ["dgx-h100", "hgx-h200"]
    found = colltool.compare_sensitivity(
        names, "ar", size="1GB", ranks=64, vary=["ib.bandwidth=10%"], samples=100
    )
    assert [[one.key for one in side.numbers] for side in found.sides] == [["ib.bandwidth"], []]
    assert found.sides[1].p5_s == found.sides[1].p95_s == pytest.approx(found.sides[1].nominal_s)
    with pytest.raises(ColltoolError, match="names no number"):
        colltool.compare_sensitivity(names, "ar", size="1GB", ranks=64, vary=["ib.bandwith=10%"])
    with pytest.raises(ColltoolError, match="nothing to be compared with"):
        colltool.compare_sensitivity("dgx-h100", "ar", size="1GB")


def test_the_same_seed_gives_the_same_and_json_has_it_all() -> None:
    asked = {"size": "32MB", "ranks": 64, "samples": 500}
    names = ["dgx-h100", "hgx-h200"]
    first, second, other = (
        document(colltool.compare_sensitivity(names, "ar", seed=seed, **asked))
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first["rows"] != other["rows"]
    assert {
        "name",
        "faster",
        "same",
        "slower",
        "ratio_p50",
        "shared",
        "compared",
        "ranges",
    } <= first["rows"][1].keys()
