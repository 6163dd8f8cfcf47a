"""One job on several fabrics, and its step where numbers may be off: each figure is a plan's."""

from __future__ import annotations

import pytest

import colltool
from colltool.analysis.what_if import draws
from colltool.base.errors import ColltoolError
from colltool.fabric.values import with_values
from colltool.render.views.plan_compare import verdict

pytestmark = pytest.mark.usefixtures("datasheet")


def test_each_column_is_a_plan() -> None:
    thin = colltool.load_fabric("dgx-h100", ["nvlink.bandwidth=225GB/s"])
    found = colltool.compare_plans("llama3-70b", ["dgx-h100", thin], 128)
    alone = [colltool.plan("llama3-70b", fabric, 128) for fabric in ("dgx-h100", thin)]
    assert [one.step_s for one in found.plans] == [one.step_s for one in alone]
    assert found.ratio(1) == alone[1].step_s / alone[0].step_s
    (said,) = verdict(found)
    assert said.startswith(
        f"dgx-h100 with nvlink.bandwidth=225GB/s: {found.ratio(1) - 1:.1%} slower, most of it tp (+"
    )


def test_ranks_are_those_of_the_smallest() -> None:
    found = colltool.compare_plans("mixtral-8x7b", ["dgx-h100", "hgx-h200"])
    assert {one.ranks for one in found.plans} == {256}


@pytest.mark.ci
def test_every_step_of_a_spread_is_a_plan() -> None:
    fabric = colltool.load_fabric("dgx-h100")
    found = colltool.plan_sensitivity(
        "llama3-70b", fabric, 128, vary=["nvlink.eta.beta=0.6:0.9", "ib.bandwidth=20%"], samples=8
    )
    assert [one.number.key for one in found.moved] == ["nvlink.eta.beta", "ib.bandwidth"]
    for one in found.moved:
        for value, step in ((one.number.low, one.low_s), (one.number.high, one.high_s)):
            assert step == pytest.approx(
                colltool.plan(
                    "llama3-70b", with_values(fabric, {one.number.place: value}), 128
                ).step_s
            )
    drawn = draws(
        [one.number for one in sorted(found.moved, key=lambda one: one.number.key, reverse=True)],
        8,
        1,
    )
    one_by_one = [
        {place: float(several[sample]) for place, several in drawn.items()} for sample in range(8)
    ]
    steps = [
        colltool.plan("llama3-70b", with_values(fabric, values), 128).step_s
        for values in one_by_one
    ]
    assert min(steps) <= found.p5_s <= found.p50_s <= found.p95_s <= max(steps)


def test_what_cannot_be() -> None:
    with pytest.raises(ColltoolError, match="names no number"):
        colltool.plan_sensitivity("llama3-70b", "dgx-h100", 128, vary="alfa=2x")
    with pytest.raises(ColltoolError, match="mi300x has 8"):
        colltool.compare_plans("llama3-70b", ["dgx-h100", "mi300x"], 128)
