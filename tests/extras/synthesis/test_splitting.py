"""Schedules through the switches of a graph: against linear programmes, executed, and no link over
what it carries."""

from __future__ import annotations

from collections import Counter
from random import Random

import lp
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small import fabric, graph, star
from swept import swept

import colltool
from colltool.algorithms.registry import find
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.extras.synthesis.packing import Forest, forest_of
from colltool.fabric.topology import capabilities_of
from colltool.network.group import Group
from colltool.network.wires import Edge, GraphWires
from colltool.verification.executed import execute_flat, formula_counts


@st.composite
def networks(draw: st.DrawFn) -> GraphWires:
    """Connected, ranks first, one to three switches anywhere, up to three links between two
    nodes."""
    ranks, switches = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    order = draw(st.permutations(range(ranks + switches)))
    links = {
        (order[draw(st.integers(0, at - 1))], order[at]): draw(st.integers(1, 3))
        for at in range(1, len(order))
    }
    for a, b in draw(st.lists(st.tuples(*(st.integers(0, ranks + switches - 1),) * 2), max_size=8)):
        if a != b and (b, a) not in links:
            links.setdefault((a, b), draw(st.integers(1, 3)))
    edges = (
        Edge(*way, float(count), 1e-6)
        for (a, b), count in links.items()
        for way in ((a, b), (b, a))
    )
    return GraphWires(ranks, ranks + switches, tuple(edges))


@given(networks(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_trees_are_the_best_that_cuts_let_through(wires: GraphWires, broadcast: bool) -> None:
    ranks, arcs = wires.endpoints, {(edge.src, edge.dst): edge.Bps for edge in wires.edges}
    found = forest_of(wires, (0,) if broadcast else tuple(range(ranks)))
    best = lp.broadcast_s(arcs, ranks) if broadcast else lp.all_gather_s(arcs, ranks)
    assert 1 / found.rate == pytest.approx(best if broadcast else best * ranks)
    stands, carried = [*range(ranks), *found.switches], dict.fromkeys(arcs, 0.0)
    for tree in found.trees:
        assert set(range(ranks)) <= set(tree.depths)
        assert len({b for _, b in tree.links}) == len(tree.links)  # every node is reached once
        for a, b in tree.links:
            carried[stands[a], stands[b]] += float(tree.share) * found.rate
    assert all(rate <= arcs[link] * (1 + 1e-9) for link, rate in carried.items())


def shapes(forest: Forest) -> Counter[tuple[float, int]]:
    return Counter((float(tree.share), max(tree.depths.values())) for tree in forest.trees)


@given(networks(), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60), deadline=None)
def test_trees_do_not_depend_on_names_or_the_order_of_edges(
    wires: GraphWires, broadcast: bool, random: Random
) -> None:
    """A broadcast's root keeps its number, all others are renamed."""
    ranks = wires.endpoints
    names = list(range(1, ranks))
    switches = list(range(ranks, wires.nodes))
    random.shuffle(names)
    random.shuffle(switches)
    if broadcast:
        name_of = [0, *names, *switches]
    else:
        name_of = [*names, 0, *switches]
    edges = [edge._replace(src=name_of[edge.src], dst=name_of[edge.dst]) for edge in wires.edges]
    random.shuffle(edges)
    renamed = wires._replace(edges=tuple(edges))
    roots = (0,) if broadcast else tuple(range(ranks))
    found = forest_of(wires, roots)
    again = forest_of(renamed, roots)
    assert (again.rate, again.depth, again.fill) == (found.rate, found.depth, found.fill)
    assert shapes(again) == shapes(found)


@given(networks(), st.sampled_from([AG, RS, AR, BC, REDUCE, A2A]))
@settings(max_examples=examples(60), deadline=None)
def test_schedules_do_what_they_should_in_the_time_of_the_formula(
    wires: GraphWires, primitive: Primitive
) -> None:
    row, group = (
        find(primitive, "mcf" if primitive is A2A else "forest"),
        Group(wires.endpoints, "graph", wires=wires),
    )
    segments = 24  # more than any way is long
    execution, expected = execute_flat(row, group, segments), formula_counts(row, group, segments)
    assert execution.outcome.holds, execution.outcome.problem
    assert execution.counts == pytest.approx(expected)


def test_two_bridges_behind_a_switch_beat_either_alone() -> None:
    """NVLink between two and two of four GPUs, all at a PCIe switch: the all-gather takes both."""
    links = [{"between": [0, 1], "links": 4}, {"between": [2, 3], "links": 4}]
    where = fabric(graph(*links, *([rank, "switch"] for rank in range(4)), bw=25.0))
    rows = {
        row.algorithm: row
        for row in colltool.price(where, "ag", size="1GB", ideal=True, library="all").results
    }
    # half of the others' come by each one's own port
    assert rows["forest"].bandwidth_s == pytest.approx(1e9 / 4 / 25e9)
    assert rows["forest"].bandwidth_s < 0.6 * min(
        row.bandwidth_s for name, row in rows.items() if name != "forest"
    )
    assert rows["forest"].status == "reference"
    assert colltool.verify(where, "ag", algorithms="forest").results[0].verdict == "proved"


def test_who_runs_it_and_with_how_many_is_said_of_the_group() -> None:
    """NCCL's rings are as fast on links alone; nobody packs trees through switches. Rank 0 has a
    link to 1 and to the switch."""
    mixed = fabric(graph((0, 1), (2, 3), *([rank, "s"] for rank in range(4))))
    row = next(
        one
        for one in colltool.price(mixed, "ag", size="1GB", library="all").results
        if one.algorithm == "forest"
    )
    assert (row.status, row.shipped_by) == ("reference", ())
    said = colltool.explain("forest", "ag", fabric=mixed, size="1GB").entries[0]
    assert (said.status, said.shipped_by, said.partners) == ("reference", (), 2)
    assert said.note == "no library is known to pack trees through switches"
    links = colltool.explain("forest", "ag", fabric="dgx-1v", size="1GB").entries[0]
    assert (links.status, links.shipped_by[0], links.partners) == ("shipped", "NCCL", 4)


def test_a_bisection_goes_between_switches() -> None:
    """Two ranks at each of two switches, which a thin cable joins."""
    ends = [[0, "a"], [1, "a"], [2, "b"], [3, "b"], {"between": ["a", "b"], "bandwidth": "10GB/s"}]
    where = fabric(graph(*ends, bw=25.0))
    assert capabilities_of(where.tiers[0]).bisection_Bps == pytest.approx(10e9)
    assert colltool.price(where, "a2a", size="1GB", ideal=True).best.lower_bound_s == pytest.approx(
        2 * 2 / 4 * 1e9 / 10e9
    )


@swept("primitive", ["ar", "a2a", "p2p"])
def test_nccl_is_priced_where_its_pick_is_not_known(primitive: str) -> None:
    found = colltool.price(
        fabric(graph((0, 1), (0, 2), (1, 2))), primitive, size="1MB", library="nccl"
    )
    assert found.leading
    assert found.library is not None
    assert found.library.reason


@pytest.mark.parametrize(("ranks", "switches"), [(17, 1), (4, 17)])
def test_more_than_takes_seconds_is_refused(ranks: int, switches: int) -> None:
    where = fabric(
        graph(*([rank, f"s{number}"] for rank in range(ranks) for number in range(switches)))
    )
    reasons = {
        one.algorithm: one.reason
        for one in colltool.price(where, "ag", size="1MB", library="all").infeasible
    }
    assert "16 ranks and 16 switches at most" in reasons["forest"]
    split = {
        one.algorithm: one.reason
        for one in colltool.price(where, "a2a", size="1MB", library="all").infeasible
    }
    assert ("mcf" in split) == (switches > 16)


@pytest.mark.parametrize(("primitive", "algorithm"), [("ag", "forest"), ("a2a", "mcf")])
def test_what_a_layout_loads_is_not_told_of_ways_of_their_own(
    primitive: str, algorithm: str
) -> None:
    where = fabric(graph((0, 1), (2, 3), *([rank, "s"] for rank in range(4))), star(2))
    with pytest.raises(ColltoolError, match="through the switches by ways of its own"):
        colltool.contention(where, {"group": 4}, primitive=primitive, algorithm=algorithm)
