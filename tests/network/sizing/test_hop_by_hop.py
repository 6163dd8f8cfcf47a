"""Oversubscription of the switches below (``{uplinks: 2}``) beside that of all endpoints below
(``2``)."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.fabric.topology import capabilities_of

SPINE, CORE = "fabric.levels.spine.oversubscription", "fabric.levels.core.oversubscription"


def clos(spine: Any, core: Any) -> Fabric:
    return colltool.load_fabric("clos-4to1", {SPINE: spine, CORE: core})


@swept(
    ("spine", "core", "totals"),
    [
        (2, 4, [1, 2, 4]),
        ({"uplinks": 2}, {"uplinks": 2}, [1, 2, 4]),
        (2, {"uplinks": 2}, [1, 2, 4]),
        ({"uplinks": 2}, 4, [1, 2, 4]),
        ({"uplinks": 1.5}, {"uplinks": 1}, [1, 1.5, 1.5]),
    ],
)
def test_hops_multiply_to_the_total(spine: Any, core: Any, totals: list[float]) -> None:
    fabric = clos(spine, core)
    assert [one.oversubscription for one in capabilities_of(fabric.tiers[1]).classes] == totals
    told = fabric_facts(fabric).tiers[1].levels
    assert [one.oversubscription for one in told] == totals
    assert [one.uplinks for one in told] == [1, totals[1], totals[2] / totals[1]]


@swept("primitive", ["ar", "a2a", "ag"])
def test_both_ways_of_writing_it_have_one_price(primitive: str) -> None:
    total, hops = (
        colltool.price(one, primitive, size="64MB")
        for one in (clos(2, 6), clos({"uplinks": 2}, {"uplinks": 3}))
    )
    assert [row.total_s for row in total.leading] == [row.total_s for row in hops.leading]


def test_hops_are_varied_like_numbers() -> None:
    several = colltool.sweep(
        "clos-4to1",
        "a2a",
        sizes=["1GB"],
        vary=f"{CORE}.uplinks=1,2,4",
        overrides=[f"{CORE}={{uplinks: 2}}"],
    )
    plain = colltool.sweep("clos-4to1", "a2a", sizes=["1GB"], vary=f"{CORE}=1,2,4")
    times = [several.to_columns()["total_s"], plain.to_columns()["total_s"]]
    assert times[0] == times[1]
    assert times[0][0] < times[0][1] < times[0][2]


def test_a_hop_may_be_uncertain() -> None:
    found = colltool.sensitivity(
        clos(1, {"uplinks": 4}), "a2a", size="1GB", vary="uplinks=2x", samples=200
    )
    assert {one.key for one in found.numbers} == {f"{CORE}.uplinks"}


@swept(
    ("spine", "core", "words"),
    [
        ({"uplinks": 0.5}, 1, "expected a number from 1 to 1000"),
        ({"uplink": 2}, 1, "did you mean 'uplinks'"),
        ({}, 1, "'uplinks' is missing"),
        ([2], 1, r"or hop by hop, such as \{uplinks: 2\}"),
        ({"uplinks": 100}, {"uplinks": 100}, "oversubscribed 10000:1 against the endpoints"),
    ],
)
def test_what_is_refused(spine: Any, core: Any, words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        clos(spine, core)
