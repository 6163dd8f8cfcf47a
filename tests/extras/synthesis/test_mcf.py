"""All-to-all split over all links of a graph or dragonfly: against linear programmes, and no link
over what it carries."""

from __future__ import annotations

from collections import defaultdict

import lp
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from small import dragonfly, fabric, graph

import colltool
from colltool.extras.synthesis.flow_split import flows_of
from colltool.fabric.topology import capabilities_of
from colltool.network.links import TierRanks
from colltool.network.routed_links import RoutedLinks
from tests.extras.synthesis.test_forest import Links, networks, wires_of


@given(networks())
@settings(max_examples=examples(100), deadline=None)
def test_a_split_is_within_a_hundredth_of_the_best_and_fits(network: tuple[Links, int]) -> None:
    links, ranks = network
    found = flows_of(wires_of(links, ranks))
    arcs = {way: float(count) for (a, b), count in links.items() for way in ((a, b), (b, a))}
    best = lp.all_to_all_s(arcs, ranks) / 25e9
    assert best * (1 - 1e-6) <= 1 / (ranks * found.rate) <= best * 1.01
    carried, sent = (
        defaultdict[tuple[int, int], float](float),
        defaultdict[tuple[int, int], float](float),
    )
    for way in found.trees:
        passed = [way.root, *(b for _, b in way.links)]
        assert [a for a, _ in way.links] == passed[:-1]
        assert len(set(passed)) == len(passed)
        sent[way.root, passed[-1]] += float(way.share)
        for link in way.links:
            carried[link] += float(way.share) * found.rate
    assert set(sent) == {(a, b) for a in range(ranks) for b in range(ranks) if a != b}
    assert list(sent.values()) == pytest.approx([1.0] * len(sent))
    assert all(rate <= arcs[link] * 25e9 * (1 + 1e-9) for link, rate in carried.items())


def test_links_that_shortest_ways_leave_idle_are_used() -> None:
    """Two triangles joined by a short bridge and a long one, by a seventh rank."""
    links = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 6), (6, 4)]
    where = fabric(graph(*links))
    rows = {
        row.algorithm: row
        for row in colltool.price(where, "a2a", size="1GB", library="all").results
    }
    best = lp.all_to_all_s(lp.both_ways(links), 7) / 100
    assert rows["mcf"].bandwidth_s == pytest.approx(best, rel=0.01)
    assert rows["mcf"].bandwidth_s < 0.9 * rows["direct"].bandwidth_s
    assert rows["mcf"].status == "reference"
    assert colltool.verify(where, "a2a", algorithms="mcf").results[0].verdict == "proved"


@pytest.mark.parametrize("sizes", [(2, 2, 3, 2), (2, 2, 4, 2), (2, 3, 3, 2), (3, 2, 3, 1)], ids=str)
def test_on_a_dragonfly_it_is_the_best_of_ranks_that_forward(
    sizes: tuple[int, int, int, int],
) -> None:
    """Hops by the routes that every message takes there, whose loads are the executor's."""
    hosts, switches, groups, cables = sizes
    where = fabric(dragonfly(hosts, switches, groups, cables=cables, local=80.0, far=120.0))
    wires = capabilities_of(where.tiers[0]).wires(where.ranks)
    assert wires is not None
    links = RoutedLinks(wires.scaled(1e-9), TierRanks(where.ranks, capacity_Bps=100.0))
    takes = np.array(
        [[one_byte(links, a, b) for b in range(where.ranks)] for a in range(where.ranks)]
    )
    rows = {
        row.algorithm: row
        for row in colltool.price(where, "a2a", size="1GB", ideal=True, library="all").results
    }
    assert rows["mcf"].bandwidth_s == pytest.approx(lp.relayed_all_to_all_s(takes), rel=0.01)
    assert rows["mcf"].bandwidth_s < 0.92 * rows["direct"].bandwidth_s
    assert colltool.verify(where, "a2a", algorithms="mcf").results[0].verdict == "proved"


def one_byte(links: RoutedLinks, a: int, b: int) -> np.ndarray:
    loads = links.loads(np.array([a]), np.array([b]), np.array([float(a != b)]))
    return np.concatenate(
        [load / one.capacity_Bps for load, one in zip(loads, links.classes, strict=True)]
    )


@pytest.mark.parametrize("routing", ["valiant", "adaptive"])
def test_other_routes_are_refused(routing: str) -> None:
    found = colltool.price(
        fabric(dragonfly(2, 2, 3, routing=routing)), "a2a", size="1MB", library="all"
    )
    assert "needs minimal routing" in next(
        one.reason for one in found.infeasible if one.algorithm == "mcf"
    )


def test_more_ranks_than_a_search_takes_are_refused() -> None:
    ring = fabric(graph(*((rank, (rank + 1) % 25) for rank in range(25))))
    found = colltool.price(ring, "a2a", size="1MB", library="all")
    assert "24 ranks at most" in next(
        one.reason for one in found.infeasible if one.algorithm == "mcf"
    )
