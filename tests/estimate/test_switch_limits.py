"""What switches that compute refuse: more groups than they have room for is a reason; the rest is
told beside prices."""

from __future__ import annotations

from typing import Any

import pytest
from small import clos, fabric, star, switch
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.fabric.results import FabricShown
from colltool.render.dispatch import rendered

LIMITS = {
    "operations": ["sum", "min", "max"],
    "types": ["bf16", "fp32"],
    "alignment": "128B",
    "groups": 2,
}


def nodes(inner: dict[str, Any] | None = None, outer: dict[str, Any] | None = None) -> Fabric:
    """Four nodes of 8."""
    tiers = [
        star(8, in_network=switch() | ({"limits": inner} if inner else {})),
        star(4, in_network=switch() | ({"limits": outer} if outer else {})),
    ]
    return fabric(*tiers)


def refused(where: Fabric, **group: Any) -> str:
    found = colltool.price(where, "ar", size="1MB", **group)
    return next((one.reason for one in found.infeasible if one.algorithm == "in-network"), "")


@swept(
    ("group", "at_once"),
    [
        ({"ranks": 8}, 1),
        ({"ranks": 2, "stride": 4}, 4),
        ({"ranks": 4, "stride": 2}, 2),
        ({"ranks": 2, "stride": 4, "alone": True}, 1),
    ],
)
def test_groups_beside_this_one_take_places_in_a_node(group: dict[str, Any], at_once: int) -> None:
    reason = f"the switches have room for 2 groups, and {at_once} run at once (limits.groups)"
    assert refused(nodes(inner=LIMITS), **group) == (reason if at_once > 2 else "")
    assert refused(nodes(), **group) == ""


def test_between_nodes_every_rank_of_a_node_is_in_a_group() -> None:
    assert "room for 4 groups, and 8 run at once" in refused(
        nodes(outer={"groups": 4}), ranks=4, stride=8
    )
    assert refused(nodes(outer={"groups": 8}), ranks=4, stride=8) == ""
    assert refused(nodes(outer={"groups": 1}), ranks=4, stride=8, alone=True) == ""


def compositions(where: Fabric, name: str) -> bool:
    """Whether a composition runs with switches that compute outside."""
    try:
        colltool.price(where, "ar", size="1MB", algorithms=name)
    except ColltoolError:
        return False
    return True


@swept("room", [1, 7, 8])
def test_a_hierarchy_has_a_group_for_each_rank_of_a_node_and_one_of_leaders(room: int) -> None:
    where = nodes(outer={"groups": room})
    assert compositions(where, "hierarchical:ring/in-network") == (room == 8)
    assert compositions(where, "leader:binomial/in-network")


def test_rails_are_switches_of_their_own() -> None:
    sizing = {"rails": 8, "nics_per_rail": 1, "radix": 64}
    outer = clos(
        4, (2, 2.0), (4, 8.0), in_network=switch() | {"limits": {"groups": 1}}, sizing=sizing
    )
    assert compositions(fabric(star(8), outer), "hierarchical:ring/in-network")
    assert not compositions(
        fabric(star(8), {key: one for key, one in outer.items() if key != "sizing"}),
        "hierarchical:ring/in-network",
    )


def test_what_is_reduced_is_told_and_shown() -> None:
    (row,) = colltool.price(
        nodes(inner=LIMITS), "ar", ranks=8, size="1MB", algorithms="in-network"
    ).results
    assert "the switches reduce only sum, min, max of bf16, fp32" in row.notes
    assert "data not aligned to 128 B is reduced in software" in row.notes
    (ring,) = colltool.price(
        nodes(inner=LIMITS), "ar", ranks=8, size="1MB", algorithms="ring"
    ).results
    assert not any("switches reduce" in note for note in ring.notes)
    where = nodes(inner=LIMITS)
    shown = rendered(FabricShown(where, fabric_facts(where)), "table", everything=True)
    assert "sum, min, max of bf16, fp32; aligned to 128 B; 2 groups at a time" in " ".join(
        shown.replace("|", " ").split()
    )


@swept(
    ("limits", "words"),
    [
        ({"groups": 0}, "groups"),
        ({"operations": []}, "operations"),
        ({"align": "128B"}, "alignment"),
    ],
)
def test_limits_that_are_none(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        nodes(inner=limits)
