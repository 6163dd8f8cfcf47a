"""Compositions and trees link by link: the loads of each tier held to the price's phases, to hand
counts and to other orders."""

from __future__ import annotations

from collections import defaultdict

import pytest
from small import clos, fabric, full_mesh, star, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric

SIZE = 64e6
THREE = fabric(star(4, bw=400), full_mesh(2, bw=100), clos(4, alpha=3.0))
TORI = fabric(torus(4, 4, bw=90), star(4, bw=50))
NODES = fabric(star(8, bw=400), clos(16, (4, 2.0), (16, 8.0, 4.0)))


def busiest(
    where: Fabric, layout: dict[str, object], algorithm: str, primitive: str = "ar"
) -> dict[str, float]:
    """Bytes on the busiest port or link of each tier, uplinks left out."""
    found = colltool.contention(
        where, layout, primitive=primitive, algorithm=algorithm, size=SIZE, per_link=True
    )
    loads: dict[str, float] = defaultdict(float)
    for link in found.links:
        if "uplinks" not in link.line and "downlinks" not in link.line:
            loads[link.line.split()[0]] = max(loads[link.line.split()[0]], link.load)
    return dict(loads)


@swept(
    ("where", "primitive", "algorithm"),
    [
        (NODES, "ar", "hierarchical:ring/ring"),
        (NODES, "ar", "hierarchical:direct/rabenseifner"),
        (NODES, "ag", "hierarchical:ring/recursive-doubling"),
        (NODES, "rs", "hierarchical:recursive-halving/ring"),
        (NODES, "a2a", "two-level:pairwise/bruck"),
        (THREE, "ar", "hierarchical:ring/ring/ring"),
        (TORI, "ar", "hierarchical:multi-ring/ring"),
    ],
)
def test_loads_are_the_price_s_phases(where: Fabric, primitive: str, algorithm: str) -> None:
    row = colltool.price(
        where, primitive, size=SIZE, algorithms=[algorithm], ideal=True, phases="sequential"
    ).results[0]
    wanted: dict[str, float] = defaultdict(float)
    for phase in row.phases:
        wanted[phase.tier] += float(phase.n_beta) * float(phase.bytes)
    assert busiest(where, {"group": where.ranks}, algorithm, primitive) == pytest.approx(
        dict(wanted)
    )


def test_a_hierarchical_ring_s_edges_by_hand() -> None:
    """8 x 16 ranks: twice 7/8 M inside, then twice 15/16 of an eighth of it on every port, 8 flows
    over a leaf's border."""
    found = colltool.contention(
        NODES, {"group": 128}, algorithm="hierarchical:ring/ring", size=SIZE, per_link=True
    )
    loads = {link.line: link.load for link in found.links}
    inside, outside = 2 * 7 / 8 * SIZE, 2 * 15 / 16 * SIZE / 8
    assert loads == pytest.approx(
        {
            "t1 ports out": inside,
            "t1 ports in": inside,
            "t2 ports out": outside,
            "t2 ports in": outside,
            "t2 l1 uplinks": 8 * outside,
            "t2 l1 downlinks": 8 * outside,
        }
    )
    assert len(found.links) == 4 * 128 + 2 * 4


def test_leaders_alone_go_outside() -> None:
    """Three rounds of M into the leader inside, its all-reduce outside, three rounds of M out of
    it."""
    found = colltool.contention(
        NODES, {"group": 128}, algorithm="leader:binomial/ring", size=SIZE, per_link=True
    )
    outside = [link for link in found.links if link.line == "t2 ports out"]
    assert [link.load for link in outside] == pytest.approx([2 * 15 / 16 * SIZE] * 16)
    for way in ("in", "out"):
        assert max(
            link.load for link in found.links if link.line == f"t1 ports {way}"
        ) == pytest.approx(3 * SIZE)


def test_it_is_the_same_in_whatever_order_the_group_lists_its_members() -> None:
    plain = {"groups": [{"name": "g", "ranks": list(range(32))}]}
    mixed = {"groups": [{"name": "g", "ranks": [rank * 13 % 32 for rank in range(32)]}]}
    one, other = (
        colltool.contention(
            NODES, layout, algorithm="hierarchical:ring/ring", size=SIZE, per_link=True
        )
        for layout in (plain, mixed)
    )
    assert one.links == other.links
    assert one.slowdown == other.slowdown == 1


def test_a_spread_group_is_seen_as_it_lies() -> None:
    """Every second rank of four nodes: four inside, four outside."""
    layout = {"kind": "cyclic", "group": 16, "stride": 2, "count": 1}
    assert busiest(NODES, layout, "hierarchical:ring/ring") == pytest.approx(
        {"t1": 2 * 3 / 4 * SIZE, "t2": 2 * 3 / 4 * SIZE / 4}
    )


def test_contention_and_plan_have_one_busiest_link() -> None:
    call = {
        "primitive": "ar",
        "group": "all",
        "size": "64MB",
        "algorithm": "hierarchical:ring/ring",
    }
    both = fabric(
        star(8, bw=400), star(4, bw=50, algorithms={"all_reduce": ["hierarchical:ring/ring"]})
    )
    call.pop("algorithm")
    planned = colltool.plan({"calls": [call], "layout": {}}, both, links=True, ideal=True)
    assert planned.links is not None
    in_plan = {one.tier: one.bytes for one in planned.links.links}
    assert busiest(both, {"group": 32}, "hierarchical:ring/ring") == pytest.approx(in_plan)


@swept(
    ("name", "load"),
    [("double-binary-tree", 2.0), ("in-network", 1.0), ("recursive-doubling-fold", 4.0)],
)
def test_flat_algorithms_by_their_schedules(name: str, load: float) -> None:
    can = {"reduce": True, "multicast": True, "alpha_switch": "1us"}
    where = fabric(star(9 if "fold" in name else 8, in_network=can))
    assert busiest(where, {"group": where.ranks}, name)["t1"] == pytest.approx(load * SIZE)


@swept(
    ("layout", "algorithm", "why"),
    [
        ({"group": 8}, "hierarchical:ring/ring", "over several tiers; its 8 ranks lie on one"),
        (
            {"group": 64, "count": 1},
            "hierarchical:ring",
            "names 1 algorithm, the group spans 2 tiers",
        ),
        ({"group": 24, "count": 1}, "hierarchical:ring/rabenseifner", "power-of-two"),
        (
            {"group": 60, "count": 1, "kind": "random", "seed": 1},
            "hierarchical:ring/ring",
            "hold . to . members",
        ),
        ({"group": 64, "count": 1}, "hierarchical:rung/ring", "no algorithm 'rung'"),
    ],
)
def test_what_cannot_run_is_refused_by_name(
    layout: dict[str, object], algorithm: str, why: str
) -> None:
    with pytest.raises(ColltoolError, match=why):
        colltool.contention(NODES, layout, algorithm=algorithm)


def test_part_of_an_axis_is_refused() -> None:
    with pytest.raises(ColltoolError, match="do not fill whole axes"):
        colltool.contention(
            TORI,
            {"groups": [{"name": "g", "ranks": [0, 1, 5, 6]}]},
            algorithm="dim-ring-bidirectional",
        )
