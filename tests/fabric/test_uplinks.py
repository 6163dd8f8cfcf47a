"""Oversubscription of a Clos of one level: of its endpoints' uplinks, as 003 has it (exercises 3
and 4)."""

from __future__ import annotations

from typing import Any

import pytest
from small import clos, fabric, star
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric

INSIDE = {"name": "inside", **star(8, alpha=1.0, bw=600.0)}
WRITTEN_OUT = clos(8, (1, 5.0), (8, 5.0, 3.0), bw=50.0)
ONE_ALPHA = {"topology": "clos", "size": 8, "alpha": "5us", "bandwidth": "50GB/s"}
ONE_LEVEL = {
    "topology": "clos",
    "size": 8,
    "bandwidth": "50GB/s",
    "levels": [{"name": "leaf", "group": 8, "alpha": "5us"}],
}


def nodes(outer: dict[str, Any], *overrides: str) -> Any:
    return load_fabric({"name": "nodes", "tiers": [INSIDE, {"name": "ib", **outer}]}, overrides)


SAME = [
    nodes(ONE_ALPHA | {"oversubscription": 3}),
    nodes(ONE_ALPHA, "ib.oversubscription=3"),
    nodes(ONE_LEVEL | {"oversubscription": 3}),
    nodes(ONE_LEVEL, "ib.levels.leaf.oversubscription=3"),
    nodes(ONE_LEVEL, "ib.levels.leaf.oversubscription={uplinks: 3}"),
]


@swept("where", SAME)
@swept("primitive", ["ar", "ag", "a2a", "bc"])
def test_a_single_level_feels_its_uplinks(where: Any, primitive: str) -> None:
    """As a leaf of one endpoint each below a spine, written out."""
    written_out = fabric(star(8, alpha=1.0, bw=600.0), WRITTEN_OUT)
    for size in (1e3, 1e7, 1e10):
        for row in colltool.price(written_out, primitive, size=size).results:
            (mine,) = colltool.price(where, primitive, size=size, algorithms=row.spec).results
            assert mine.total_s == pytest.approx(row.total_s)


def test_the_worked_case() -> None:
    """003, exercise 4: the part between nodes takes three times 43.9 ms, 131.7 ms more or less;
    160.5 ms in all."""
    times = [
        colltool.breakdown(
            where, "ar", size="10GB", algorithm="hierarchical:ring/ring", ideal=True
        ).price.best
        for where in (nodes(ONE_ALPHA), SAME[0])
    ]
    outer = [row.phases[1] for row in times]
    assert outer[1].bandwidth_s == pytest.approx(3 * outer[0].bandwidth_s)
    assert outer[0].total_s == pytest.approx(43.9e-3, rel=0.01)
    assert times[1].total_s == pytest.approx(160.5e-3, rel=1e-3)


def test_no_oversubscription_changes_nothing() -> None:
    for outer in (ONE_ALPHA, ONE_LEVEL):
        for size in (1e3, 1e9):
            one, other = (
                colltool.price(where, "ar", size=size).best
                for where in (nodes(outer), nodes(outer | {"oversubscription": 1}))
            )
            assert (one.spec, one.total_s) == (other.spec, pytest.approx(other.total_s))


def test_what_is_written_out_loads_again() -> None:
    dumped = SAME[0].model_dump(by_alias=True, exclude_none=True)
    assert "oversubscription" not in dumped["tiers"][1]
    assert [level.name for level in SAME[0].tiers[1].levels] == ["leaf", "spine"]
    assert [level.name for level in SAME[2].tiers[1].levels] == ["endpoint", "leaf"]


@swept(
    ("outer", "words"),
    [
        (WRITTEN_OUT | {"oversubscription": 3}, "is that of a single level"),
        (
            {
                "topology": "clos",
                "size": 8,
                "alpha": "5us",
                "bandwidth": "50GB/s",
                "trunk": "100GB/s",
                "oversubscription": 3,
            },
            "a trunk is an uplink itself",
        ),
        (ONE_ALPHA | {"oversubscription": 0.5}, "expected a number from 1 to 1000"),
    ],
)
def test_where_it_has_no_meaning_it_is_refused(outer: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        nodes(outer)
