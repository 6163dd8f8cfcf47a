"""Trees over all links of a graph: cuts by brute force, no link over its capacity, every rank
reached."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import chain, combinations

import lp
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small import fabric, mesh, torus
from swept import swept

import colltool
from colltool.algorithms.registry import find
from colltool.base.primitives import AG
from colltool.extras.synthesis.forest import lattice_wires, ring_wires
from colltool.extras.synthesis.packing import forest_of
from colltool.network.group import Axis, Group
from colltool.network.max_flow import max_flow
from colltool.network.twisted import twisted_axes
from colltool.network.wires import Edge, GraphWires

Links = dict[tuple[int, int], int]


def wires_of(links: Links, ranks: int) -> GraphWires:
    edges = (
        Edge(*ends, count * 25e9, 1e-6)
        for (a, b), count in links.items()
        for ends in ((a, b), (b, a))
    )
    return GraphWires(ranks, ranks, tuple(edges))


def least_cut(links: Links, ranks: int, roots: tuple[int, ...]) -> Fraction:
    """Of every set of ranks: links out of it for each root in it."""
    sets = chain.from_iterable(combinations(range(ranks), size) for size in range(1, ranks))
    return min(
        Fraction(
            sum(count for ends, count in links.items() if len(set(ends) & set(some)) == 1),
            len(set(some) & set(roots)),
        )
        for some in sets
        if set(some) & set(roots)
    )


@st.composite
def networks(draw: st.DrawFn) -> tuple[Links, int]:
    """Connected, with up to four links between two ranks."""
    ranks = draw(st.integers(2, 7))
    links = {
        (draw(st.integers(0, rank - 1)), rank): draw(st.integers(1, 4)) for rank in range(1, ranks)
    }
    for ends in draw(st.lists(st.sampled_from(list(combinations(range(ranks), 2))), max_size=10)):
        links.setdefault(ends, draw(st.integers(1, 4)))
    return links, ranks


@given(networks(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_a_forest_is_as_fast_as_the_least_cut_and_fits(
    network: tuple[Links, int], broadcast: bool
) -> None:
    links, ranks = network
    roots = (0,) if broadcast else tuple(range(ranks))
    found = forest_of(wires_of(links, ranks), roots)
    assert found.rate == pytest.approx(float(least_cut(links, ranks, roots)) * 25e9)
    carried: dict[tuple[int, int], float] = {}
    for tree in found.trees:
        assert set(tree.depths) == set(range(ranks))
        assert len(tree.links) == ranks - 1
        for ends in tree.links:
            carried[ends] = carried.get(ends, 0.0) + float(tree.share) * found.rate
    for (a, b), rate in carried.items():
        assert rate <= links[min(a, b), max(a, b)] * 25e9 * (1 + 1e-9)
    for root in roots:
        assert sum(tree.share for tree in found.trees if tree.root == root) == 1


def test_rates_like_three_to_four_are_no_roundings() -> None:
    links = {(0, 1): 3, (0, 2): 4, (1, 2): 4}
    assert forest_of(wires_of(links, 3), (0, 1, 2)).rate == pytest.approx(
        float(least_cut(links, 3, (0, 1, 2))) * 25e9, rel=1e-12
    )


def test_parallel_links_count_together() -> None:
    """Two of 1.5 are one of 3, whatever unit the others have."""
    apart = {(0, 1): (1.5, 1.5), (0, 2): (1.5, 1.5), (1, 2): (1.0,)}
    edges = (
        Edge(*way, rate, 1e-6)
        for (a, b), rates in apart.items()
        for way in ((a, b), (b, a))
        for rate in rates
    )
    whole = {ends: int(sum(rates)) for ends, rates in apart.items()}
    assert forest_of(GraphWires(3, 3, tuple(edges)), (0,)).rate == pytest.approx(
        float(least_cut(whole, 3, (0,)))
    )


def test_most_flow_of_a_textbook_network() -> None:
    """Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, figure 26.1: 23."""
    network = {0: {1: 16, 2: 13}, 1: {3: 12}, 2: {1: 4, 4: 14}, 3: {2: 9, 5: 20}, 4: {3: 7, 5: 4}}
    moved, side = max_flow(network, 0, 5)
    assert (moved, side) == (23, {0, 1, 2, 4})


@swept("shape", [(5,), (4, 2), (3, 5), (2, 3, 4)])
@swept("wrap", [False, True])
def test_a_lattice_has_its_links(shape: tuple[int, ...], wrap: bool) -> None:
    found = lattice_wires(tuple(Axis(size, wrap) for size in shape))
    assert Counter((edge.src, edge.dst) for edge in found.edges) == lp.lattice(shape, wrap=wrap)


def test_a_twisted_torus_has_its_links() -> None:
    axes = twisted_axes((2, 2, 4))
    assert axes is not None
    arcs = Counter((edge.src, edge.dst) for edge in lattice_wires(axes).edges)
    assert arcs == lp.lattice((2, 2, 4), twist=dict.fromkeys((0, 1), (0, 0, 2)))


def test_from_one_root_more_ranks_are_reached_than_from_all() -> None:
    """A corner of an 8 x 8 torus that is open along one axis has three links, and all ranks are
    reached over three trees."""
    wide = fabric(torus(8, 8, wrap=[True, False]))
    rows = {
        row.algorithm: row for row in colltool.price(wide, "bc", size="1GB", ideal=True).results
    }
    assert rows["forest"].bandwidth_s == pytest.approx(1e9 / 3 / 100e9)
    assert rows["forest"].bandwidth_s < 0.7 * rows["multi-chain"].bandwidth_s
    assert colltool.verify(wide, "bc", algorithms="forest").results[0].verdict == "proved"
    reasons = {
        one.algorithm: one.reason for one in colltool.price(wide, "ag", size="1GB").infeasible
    }
    assert reasons["forest"] == "trees are packed for 24 ranks at most"
    larger = {
        one.algorithm: one.reason
        for one in colltool.price(fabric(mesh(12, 12)), "bc", size="1GB").infeasible
    }
    assert larger["forest"] == "trees from one rank are packed over 480 links at most"


def test_nobody_runs_it_on_a_lattice_and_on_a_graph_nccl_does() -> None:
    row = find(AG, "forest")
    ring = Group(4, "torus", (Axis(4, wrap=True),))
    assert row.status_on(ring) == "reference"
    assert row.status_on(Group(4, "graph", wires=ring_wires(4))) == "shipped"
    assert (
        row.why_not(Group(25, "torus", (Axis(5, wrap=True), Axis(5, wrap=True))))
        == "trees are packed for 24 ranks at most"
    )
