"""Dragonflies: loads by hand, the published limits of minimal and Valiant routing, executions, and
the cut bound."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import M, below_the_cut, seconds
from small import Tier, dragonfly, fabric, full_mesh, hyperx, star
from swept import swept

import colltool
from colltool.base.primitives import Primitive
from colltool.estimate import routed_cost
from colltool.estimate.groups import place
from colltool.estimate.wired import link_network, ports_at_nodes
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.links import TierRanks
from colltool.network.routed_links import RoutedLinks
from colltool.network.wires import DragonflyWires

US = 1e-6


def test_all_to_all_by_hand() -> None:
    """12 ranks in 3 groups of 2 switches: a cable has 4 x 4 messages, a local link 4 of its group,
    8 that leave, 8 that came."""
    latency = (1 + 2 * 0.25 + 0.5) * US
    assert seconds(fabric(dragonfly(2, 2, 3)), "a2a", "direct") == pytest.approx(
        latency + 20 * M / 12 / 100e9
    )
    assert seconds(fabric(dragonfly(2, 2, 3, local=300.0)), "a2a", "direct") == pytest.approx(
        latency + 16 * M / 12 / 100e9
    )


def test_inside_a_group_and_at_a_switch() -> None:
    of = fabric(dragonfly(4, 3, 4, local=40.0))
    assert seconds(of, "a2a", "direct", ranks=4) == pytest.approx(1 * US + 3 / 4 * M / 100e9)
    assert seconds(of, "a2a", "direct", ranks=8) == pytest.approx(1.25 * US + 4 * 4 * M / 8 / 40e9)


@swept(("routing", "wanted"), [("minimal", 8.0), ("valiant", 2.0), ("adaptive", 2.0)])
def test_the_worst_case_of_the_paper(routing: str, wanted: float) -> None:
    """All of a group send to the next: minimal reaches 1/(a h) of injection, Valiant about 1/2 (Kim
    et al., ISCA 2008, §4.1).

    Balanced: p = h = 2 hosts and cables a switch, a = 4 switches, g = a h + 1 = 9 groups.
    """
    wires = capabilities_of(fabric(dragonfly(2, 4, 9, routing=routing)).tiers[0]).wires(72)
    assert isinstance(wires, DragonflyWires)
    links = RoutedLinks(wires, TierRanks(72, capacity_Bps=100e9))
    rank = np.arange(72)
    loads = links.loads(rank, (rank + 8) % 72, np.ones(72))
    busiest = max(float(load.max()) for load in loads)
    assert busiest == pytest.approx(wanted, rel=0.15)


def test_adaptive_is_the_better_of_the_two() -> None:
    """Up to the latency of a detour, which it does not pay."""
    for primitive, algorithm in (
        ("a2a", "direct"),
        ("ar", "ring"),
        ("ag", "recursive-doubling-fold"),
        ("bc", "chain"),
    ):
        each = {
            routing: seconds(
                fabric(dragonfly(2, 3, 4, routing=routing, alpha=0.05)), primitive, algorithm
            )
            for routing in ("minimal", "valiant", "adaptive")
        }
        assert each["adaptive"] <= min(each["minimal"], each["valiant"]) * (1 + 1e-9), algorithm


@st.composite
def dragonflies(draw: st.DrawFn) -> Tier:
    hosts, switches, groups = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
    )
    spines = draw(st.sampled_from([0, 0, 1, 2]))
    rates = st.sampled_from([20.0, 50.0, 100.0, 300.0])
    cables, routing = (
        draw(st.integers(1, 3)),
        draw(st.sampled_from(["minimal", "valiant", "adaptive"])),
    )
    groups += hosts * switches * groups == 1
    return dragonfly(
        hosts,
        switches,
        groups,
        spines,
        local=draw(rates),
        far=draw(rates),
        cables=cables,
        routing=routing,
    )


@given(
    dragonflies(),
    st.sampled_from([(), (star(2, bw=400.0),), (full_mesh(3, bw=300.0),)]),
    st.sampled_from(list(Primitive)),
)
@settings(max_examples=examples(60), deadline=None)
def test_no_price_is_below_the_cut(
    tier: Tier, inside: tuple[Tier, ...], primitive: Primitive
) -> None:
    assert below_the_cut(fabric(*inside, tier), primitives=[primitive]) == []


@pytest.mark.parametrize(
    "of",
    [
        fabric(dragonfly(2, 3, 4)),
        fabric(dragonfly(2, 2, 3, routing="valiant", cables=2)),
        fabric(dragonfly(2, 2, 3, 2, routing="adaptive")),
        fabric(star(2, bw=300.0), dragonfly(1, 2, 3, cables=2)),
    ],
    ids=["minimal", "valiant", "dragonfly+", "nodes"],
)
def test_executed_schedules_take_what_they_are_priced_at(of: Fabric) -> None:
    done = colltool.verify(of, size=M)
    assert done.holds
    assert sum(one.verdict == "proved" for one in done.results) > len(done.results) / 2


def test_counts_of_a_machine() -> None:
    """Frontier as published: 74 groups of 32 switches of 16 nodes' ports, all switches of a group
    joined."""
    kind = capabilities_of(fabric(dragonfly(16, 32, 74, cables=4)).tiers[0])
    assert kind.switches(1) == 74 * 32
    assert kind.links(1) == 74 * 32 * 16 + 74 * 32 * 31 // 2 + 74 * 73 // 2 * 4
    assert kind.diameter_links == 5


@swept(
    "where",
    [
        fabric(dragonfly(2, 3, 5)),
        fabric(dragonfly(2, 3, 5, cables=2, routing="valiant")),
        fabric(
            star(4, energy="5pJ/bit"), dragonfly(2, 3, 5, routing="adaptive", energy="20pJ/bit")
        ),
        fabric(dragonfly(3, 4, 3, spines=2)),
        fabric(star(4), hyperx(3, 4, hosts=2)),
        fabric(hyperx(3, 4, hosts=2)),
        fabric(full_mesh(3), dragonfly(2, 4, 5, local=50, far=25)),
    ],
)
def test_an_exchange_summed_by_switches_is_the_one_message_by_message(where: Fabric) -> None:
    # of a HyperX the first rank has no longest way then
    beyond_a_row = [8] if len(where.tiers) == 1 else []
    for ranks in (where.ranks, where.ranks // 2, *beyond_a_row):
        followed = link_network(
            tuple(span.position for span in place(where, ranks).spans), ranks, True
        )
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        one_by_one = routed_cost._load(followed, routed_cost.Sends(src, dst, np.ones(len(src))))
        assert ports_at_nodes(followed.positions)
        summed = routed_cost._to_peers_at_once(followed)
        assert (summed.longest_s, summed.tier) == (one_by_one.longest_s, one_by_one.tier)
        assert summed.per_byte_s == pytest.approx(one_by_one.per_byte_s)
        assert summed.energy == pytest.approx(one_by_one.energy)


def test_all_to_all_of_thousands_of_ranks_by_hand() -> None:
    """5,120 ranks: 128 * 128 / 5120 of M over each cable between two groups, and by valiant routes
    twice that."""
    large = {"local": 25.0, "far": 25.0, "bw": 25.0}
    minimal, valiant = (
        fabric(dragonfly(8, 16, 40, routing=routing, **large)) for routing in ("minimal", "valiant")
    )
    took = [
        float(
            colltool.price(one, "a2a", size="1GB", ideal=True, algorithms="direct").best.bandwidth_s
        )
        for one in (minimal, valiant)
    ]
    assert took[0] == pytest.approx(128 * 128 / 5120 * 1e9 / 25e9)
    assert took[1] == pytest.approx(2 * took[0], rel=0.03)


def test_more_switches_than_are_followed_are_refused() -> None:
    where = fabric(dragonfly(1, 50, 51))
    found = colltool.price(where, "a2a", size="1GB", library="all")
    assert "2400 switches" in next(
        one.reason for one in found.infeasible if one.algorithm == "direct"
    )


def test_a_chain_waits_for_each_of_its_hops() -> None:
    """Two groups of four switches: a link inside takes 1.2 us with its ports, the cable and the
    links to it 11.4 us at most."""
    where = fabric(
        dragonfly(1, 4, 2, alpha=1.0)
        | {
            "global": {"bandwidth": "25GB/s", "alpha": "10us"},
            "local": {"bandwidth": "25GB/s", "alpha": "0.2us"},
        }
    )
    chain = colltool.price(where, "bc", size="1KB", algorithms="chain", ideal=True).best
    assert float(chain.alpha_s) == pytest.approx((6 * 1.2 + 11.4) * 1e-6)


def test_rings_over_rails_cross_a_full_mesh_over_links_of_their_own() -> None:
    """Two domains of four: each of four rings has a NIC of 25 GB/s outside, and inside links of 50
    GB/s for itself."""
    where = fabric(full_mesh(4, bw=50.0), dragonfly(2, 2, 2, bw=25.0))
    assert seconds(where, "ar", "multi-rail-ring", ranks=8) == pytest.approx(
        14 * US + 2 * 7 / 8 * M / (4 * 25e9)
    )
