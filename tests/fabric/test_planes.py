"""``planes`` of a tier: what is left with one failed, what a hashed flow gets, and the switches and
losses of all planes."""

from __future__ import annotations

import pytest
from small import clos, fabric, star
from swept import swept

import colltool
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import place
from colltool.fabric.bill import bill_of
from colltool.fabric.failures import failures_of
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.network.sizing.fat_tree import fat_tree

GB = 1e9


def network(bw: float = 80.0, **planes: object) -> Fabric:
    """Four nodes of eight behind 2:1, with 80 GB/s a NIC."""
    outer = clos(4, (2, 5.0), (4, 8.0, 2.0), bw=bw)
    return fabric(star(8, bw=450.0), outer | ({"planes": planes} if planes else {}))


def best(where: Fabric, primitive: str, *, algorithm: str = "", **how: object) -> float:
    found = colltool.price(where, primitive, size=GB, algorithms=algorithm or (), **how)  # type: ignore[arg-type]
    return float(found.best.bandwidth_s)


@swept("primitive", list(Primitive))
def test_sprayed_it_is_a_port_of_what_works(primitive: Primitive) -> None:
    for planes, bw in (
        ({"count": 8}, 80.0),
        ({"count": 8, "failed": 1}, 70.0),
        ({"count": 2, "failed": 1}, 40.0),
    ):
        told, same = (
            colltool.price(one, primitive, size=GB).results
            for one in (network(**planes), network(bw))
        )
        assert [(one.spec, one.total_s) for one in told] == [
            (one.spec, pytest.approx(one.total_s)) for one in same
        ]


def test_a_hashed_flow_has_one_plane() -> None:
    pair = {"ranks": 2, "stride": 8}
    assert best(network(count=8, spread="ecmp"), "p2p", **pair) == pytest.approx(GB / 10e9)
    assert best(network(count=8, failed=1, spread="ecmp"), "p2p", **pair) == pytest.approx(
        GB / 10e9
    )
    assert best(network(count=8, spread="ecmp", flows=4), "p2p", **pair) == pytest.approx(GB / 40e9)
    # two share one
    assert best(network(count=8, failed=1, spread="ecmp", flows=8), "p2p", **pair) == pytest.approx(
        GB / 40e9
    )


def test_messages_to_many_peers_fill_all_planes() -> None:
    """Of 32 ranks on one switch each sends 31 messages: the fullest of eight planes has four of
    them."""
    flat = {
        "topology": "star",
        "size": 32,
        "alpha": "1us",
        "bandwidth": "80GB/s",
        "planes": {"count": 8, "spread": "ecmp"},
    }
    assert best(fabric(flat), "a2a", algorithm="direct") == pytest.approx(4 * GB / 32 / 10e9)
    assert best(fabric(flat), "a2a", algorithm="pairwise") == pytest.approx(31 * GB / 32 / 10e9)


@swept("primitive", list(Primitive))
def test_no_price_is_below_the_bound(primitive: Primitive) -> None:
    for planes in (
        {"count": 8},
        {"count": 8, "failed": 3},
        {"count": 8, "failed": 1, "spread": "ecmp", "flows": 3},
    ):
        where = network(**planes)
        bound = float(cut_bound_of(place(where), primitive, ModelOptions()).seconds(GB))
        assert all(
            one.total_s >= bound * (1 - 1e-12)
            for one in colltool.price(where, primitive, size=GB).leading
        )


def test_schedules_hold_when_executed_and_hashing_is_not_guessed() -> None:
    found = colltool.verify(network(count=8, failed=1), size=GB).results
    assert {one.verdict for one in found} == {"proved", "idealised"}
    hashed = colltool.verify(network(count=8, spread="ecmp"), size=GB).results
    assert "counts only" in {one.verdict for one in hashed} <= {"counts only", "idealised"}


def test_prices_say_it_by_name() -> None:
    notes = [
        note
        for planes in ({"count": 8, "failed": 1}, {"count": 8, "spread": "ecmp"})
        for note in colltool.price(network(**planes), "p2p", size=GB).best.notes
    ]
    assert any("1 of 8 planes of t2 failed: 87.5% is left" in note for note in notes)
    assert any("a message is one flow: 12.5% of the bandwidth of t2" in note for note in notes)


def test_the_published_network_in_switches() -> None:
    """131,072 NICs in two tiers, 8 planes of 512 T0 and 256 T1; against three tiers of 64 ports of
    800G, 3/5 of the switches and 2/3 of the optics a NIC (arXiv 2605.04333).
    """
    facts = fabric_facts(load_fabric("mrc-8plane")).tiers[1]
    plan, tree = facts.sizing, fat_tree(64)
    assert plan is not None
    assert facts.ranks == 131_072
    assert [one.switches for one in plan.levels] == [8 * 512, 8 * 256]
    assert plan.switches / facts.ranks == pytest.approx(3 / 5 * tree.switches / tree.endpoints)
    assert facts.links / 8 / facts.ranks == pytest.approx(2 / 3 * tree.links / tree.endpoints)
    bill = bill_of(load_fabric("mrc-8plane"))
    assert [one.count for one in bill.lines if one.part == "nic"] == [131_072]


def test_what_a_port_a_nic_and_a_plane_take_down() -> None:
    lost = {
        (one.part, one.level): one
        for one in failures_of(load_fabric("mrc-8plane"))
        if one.tier == "roce"
    }
    assert (lost["port", "t0"].share, lost["NIC", "t0"].share) == pytest.approx((1 / 512, 1 / 64))
    plane = lost["plane", "t1"]
    assert (plane.count, plane.ranks, plane.share, plane.cut_off) == (8, 131_072, 1 / 8, 0)
    again = failures_of(load_fabric("mrc-8plane", ["roce.planes.failed=1"]))[-1]
    assert (again.part, again.count, again.share) == ("plane", 7, pytest.approx(1 / 7))
    assert failures_of(network(count=2, failed=1))[-2].cut_off == 32
    left = {
        one.part: one.share
        for one in failures_of(load_fabric("mrc-8plane", ["roce.planes.failed=1"]))
        if one.tier == "roce"
    }
    # 7 of the ports that work are its own, as 8 of all were
    assert left["NIC"] == pytest.approx(1 / 64)


SWAP = {"name": "swap", "primitive": "ar", "ranks": 2, "chunks": 1, "steps": ["0>1:0+ 1>0:0+"]}


@swept("flows", [1, 2, 3])
def test_flows_of_a_schedule_of_ones_own_keep_to_planes(flows: int) -> None:
    where = fabric(star(2, planes={"count": 4, "failed": 1, "spread": "ecmp", "flows": flows}))
    rows = colltool.price(
        where, "ar", size=GB, algorithm_files=SWAP, algorithms="recursive-doubling"
    ).results
    swap, same = sorted(rows, key=lambda one: one.status)
    assert (swap.status, swap.total_s) == ("own", pytest.approx(same.total_s))
    assert set(same.notes) <= set(swap.notes)


def test_a_schedule_of_ones_own_with_more_peers_fills_more_planes() -> None:
    """A rank that sends to three others at once, as direct does: three flows on four planes."""
    pairs = " ".join(f"{src}>{dst}:{src}" for src in range(4) for dst in range(4) if src != dst)
    own = {"name": "mine", "primitive": "ag", "ranks": 4, "chunks": 4, "steps": [pairs]}
    where = fabric(star(4, planes={"count": 4, "spread": "ecmp"}))
    rows = colltool.price(where, "ag", size=GB, algorithm_files=own, algorithms="direct").results
    mine, direct = sorted(rows, key=lambda one: one.status)
    assert (mine.status, mine.bandwidth_s) == ("own", pytest.approx(direct.bandwidth_s))


def test_a_schedule_of_ones_own_counts_in_what_works() -> None:
    """Its bytes and bandwidth are told as the same shipped schedule's."""
    where, own = fabric(star(2, planes={"count": 4, "failed": 1})), SWAP
    rows = colltool.price(
        where, "ar", size=GB, algorithm_files=own, algorithms="recursive-doubling"
    ).results
    swap, same = (one.phases[0] for one in sorted(rows, key=lambda one: one.status))
    assert (swap.algorithm, swap.bandwidth_Bps, swap.n_beta) == ("swap", 75e9, pytest.approx(1.0))
    assert (swap.bandwidth_Bps, swap.bandwidth_s) == (
        same.bandwidth_Bps,
        pytest.approx(same.bandwidth_s),
    )
