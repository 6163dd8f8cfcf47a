"""One slow rank: by hand, against a walk of its own through every schedule's messages, and as
bounds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small import clos, fabric, full_mesh, mesh, star, torus
from swept import swept

import colltool
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import Algorithm, find, usual_algorithms
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, BC, REDUCE, totals
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.network.group import Axis, Group
from colltool.verification import slow_rank
from tests.wiring import LatticeNetwork

SIZE = 64e6
CAN = {"reduce": True, "multicast": True, "alpha_switch": "1us"}
NODES = fabric(star(4, bw=400, in_network=CAN), clos(8, (2, 2.0), (8, 8.0, 4.0)))
FABRICS = {
    "star": fabric(star(8, in_network=CAN)),
    "full mesh": fabric(full_mesh(6)),
    "torus": fabric(torus(4, 3)),
    "mesh": fabric(mesh(3, 4)),
    "nodes": NODES,
    "three tiers": fabric(full_mesh(3, bw=90), star(2, bw=60), star(4, bw=40)),
    "tori": fabric(torus(3, 3, bw=90), star(4, bw=40)),
}


def rows(
    where: Any, primitive: str = "ar", share: float = 0.8, **more: Any
) -> dict[str, AlgorithmEstimate]:
    found = colltool.price(where, primitive, size=SIZE, slow_rank=share, **more)
    return {row.spec: row for row in found.results}


def slow_of(row: AlgorithmEstimate) -> float:
    assert row.slow is not None
    assert row.slow.total_s is not None
    return row.slow.total_s


def test_a_ring_at_four_fifths_moves_its_bytes_a_quarter_slower() -> None:
    ring = rows(FABRICS["star"])["ring"]
    assert slow_of(ring) == pytest.approx(14 * 1e-6 + 2 * 7 / 8 * SIZE / 80e9)
    assert ring.slow is not None
    assert ring.slow.slowdown == pytest.approx(slow_of(ring) / float(ring.total_s))
    assert ring.slow.rank is None


@pytest.mark.parametrize("name", ["direct", "pairwise"])
def test_uplinks_hide_a_slow_port_until_it_is_slower_than_they_are(name: str) -> None:
    where = fabric(clos(8, (2, 2.0), (8, 8.0, 4.0)))  # what crosses has a quarter of a port
    half, tenth = (rows(where, "a2a", share)[name] for share in (0.5, 0.1))
    crossing = 6 / 8 * SIZE / (50e9 / 4)
    inside = 1 / 8 * SIZE / 50e9
    alpha = float(half.alpha_s)
    whole = {
        "direct": (crossing, 7 / 8 * SIZE / 5e9),
        "pairwise": (inside / 0.5 + crossing, 7 / 8 * SIZE / 5e9),
    }[name]
    assert (slow_of(half) - alpha, slow_of(tenth) - alpha) == pytest.approx(whole)


def walked(row: Algorithm, group: Group, share: float, *, streamed: bool) -> list[float]:
    """The same by single messages: each rank's port out and in, a step at a time; ranks one after
    the other as the slow one."""
    make = program_maker(row.primitive, row.name)
    assert make is not None
    program = make(group, slow_rank.SEGMENTS)
    steps: list[dict[tuple[int, str], float]] = []
    for batch in program.batches:
        loads: dict[tuple[int, str], float] = defaultdict(float)
        for one in batch:
            for src, dst, chunk in zip(one.src, one.dst, one.chunk, strict=True):
                loads[int(src), "out"] += float(program.chunk_bytes[chunk])
                loads[int(dst), "in"] += float(program.chunk_bytes[chunk])
        steps.append({port: load for port, load in loads.items() if port[0] < group.ranks})
    if streamed or program.streamed:
        whole: dict[tuple[int, str], float] = defaultdict(float)
        for step in steps:
            for port, load in step.items():
                whole[port] += load
        steps = [whole]
    healthy = sum(max(step.values()) for step in steps)

    def with_slow(rank: int) -> float:
        return sum(
            max(load / (share if port == rank else 1) for (port, _), load in step.items())
            for step in steps
        )

    return [with_slow(rank) / healthy for rank in range(group.ranks)]


ON_PORTS = [
    row
    for row in usual_algorithms()
    if program_maker(row.primitive, row.name)
    and row.why_not(Group(8, "star", switch=frozenset(CAN))) is None
]


@swept("ranks", [2, 5, 8])
@swept("row", ON_PORTS)
def test_a_walk_through_all_messages_finds_the_same(row: Algorithm, ranks: int) -> None:
    group = Group(ranks, "star", switch=frozenset(CAN))
    if row.why_not(group):
        return
    terms = row.schedule(group)
    streamed = any(one.fill is not None for one in terms)
    found = slow_rank._port_factors(row, group, 0.6, streamed=streamed)
    assert list(found) == pytest.approx(walked(row, group, 0.6, streamed=streamed))
    if all(isinstance(one.route, slow_rank._UNIFORM) for one in terms) and totals(terms)[1]:
        assert max(found) == pytest.approx(1 / 0.6)  # priced so without an execution


def test_a_leaf_of_a_tree_slows_less_than_its_root() -> None:
    """Of 8 ranks the root of a binomial broadcast sends in all three rounds, the last ones that it
    reaches take part in one."""
    found = slow_rank._port_factors(find(BC, "binomial"), Group(8, "star"), 0.5, streamed=False)
    assert found[0] == 2
    assert min(found) == pytest.approx(1 + 1 / 3)


@swept(
    "axes",
    [
        (Axis(4, True), Axis(3, True)),
        (Axis(3, False), Axis(4, False)),
        (Axis(2, True), Axis(5, True)),
    ],
)
def test_the_links_of_a_rank(axes: tuple[Axis, ...]) -> None:
    """Every link by one message over it alone: it belongs to its two ends."""
    net = LatticeNetwork(axes)
    for rank in range(net.ranks):
        for axis, stride in zip(axes, net.strides, strict=True):
            place = rank // stride % axis.size
            there = rank + stride * ((place + 1) % axis.size - place)
            if place + 1 == axis.size and not axis.is_ring:
                continue
            for src, dst in ((rank, there), (there, rank)):
                loads = net.loads(np.array([src]), np.array([dst]), np.array([3.0]))
                touched = net.busiest_of_ranks(loads)
                assert np.flatnonzero(touched).tolist() == sorted((src, dst))


@pytest.mark.parametrize("name", FABRICS)
@settings(max_examples=examples(15), deadline=None)
@given(
    primitive=st.sampled_from(["ar", "ag", "rs", "a2a", "bc", "reduce"]),
    shares=st.tuples(*[st.floats(0.05, 1)] * 2),
)
def test_slower_by_no_more_than_the_share_and_never_faster(
    name: str, primitive: str, shares: tuple[float, float]
) -> None:
    less, more = sorted(shares)
    slow, slower = rows(FABRICS[name], primitive, more), rows(FABRICS[name], primitive, less)
    for spec, row in slow.items():
        assert row.slow is not None
        if row.slow.total_s is None:
            assert row.slow.reason
            continue
        most = float(row.alpha_s) + float(row.overhead_s) + float(row.bandwidth_s) / more
        assert float(row.total_s) * (1 - 1e-9) <= slow_of(row) <= most * (1 + 1e-9)
        assert slow_of(row) <= slow_of(slower[spec]) * (1 + 1e-9)


@swept("name", FABRICS)
def test_a_rank_with_all_its_bandwidth_costs_nothing(name: str) -> None:
    for row in rows(FABRICS[name], share=1.0).values():
        assert row.slow is not None
        assert row.slow.reason or row.slow.slowdown == pytest.approx(1, rel=1e-9)


def test_a_leader_costs_most_where_leaders_carry_all() -> None:
    row = rows(NODES, algorithms=["leader:binomial/ring"])["leader:binomial/ring"]
    assert row.slow is not None
    assert row.slow.rank == 0
    phases = {(one.tier, one.primitive): float(one.bandwidth_s) for one in row.phases}
    assert set(phases) == {("t1", REDUCE), ("t2", AR), ("t1", BC)}
    assert slow_of(row) - float(row.alpha_s) == pytest.approx(sum(phases.values()) / 0.8)


def test_phases_that_stream_wait_for_their_busiest_tier() -> None:
    """Slower inside by a quarter is not felt while the outer tier takes longer."""
    where = fabric(star(4, bw=4000, in_network=CAN), star(4, bw=10, in_network=CAN))
    row = rows(where, algorithms=["hierarchical:in-network/in-network"])[
        "hierarchical:in-network/in-network"
    ]
    outer = next(float(one.bandwidth_s) for one in row.phases if one.tier == "t2")
    assert slow_of(row) - float(row.alpha_s) - float(row.overhead_s) == pytest.approx(outer / 0.8)


def test_members_are_ranks_of_the_fabric() -> None:
    row = rows(NODES, "bc", ranks=8, stride=4, algorithms=["binomial"])["binomial"]
    assert row.slow is not None
    assert row.slow.rank == 0
    plain = rows(FABRICS["star"], "bc", algorithms=["binomial"])["binomial"]
    assert plain.slow is not None
    assert plain.slow.rank == 0


@swept("shipped", ["dgx-h100", "nvl72", "tpu-v4-512"])
def test_shipped_fabrics_with_protocols_and_libraries(shipped: str) -> None:
    for row in rows(shipped, ranks=16 if "tpu" not in shipped else 64).values():
        assert row.slow is not None
        assert row.slow.reason or 1 <= (row.slow.slowdown or 0) <= 1.25 + 1e-9


@swept("share", [0, -1, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ColltoolError, match="slow_rank"):
        colltool.price(NODES, "ar", size=SIZE, slow_rank=share)


def test_many_sizes_in_one_array_are_refused() -> None:
    with pytest.raises(ColltoolError, match="single sizes"):
        colltool.price(NODES, "ar", size=np.array([1e6, 2e6]), slow_rank=0.8)
