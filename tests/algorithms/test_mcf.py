"""All-to-all split over all links of a graph: against a linear programme, and no link over what it carries."""

from __future__ import annotations

from collections import defaultdict

import lp
import pytest
from effort import examples
from hypothesis import given, settings
from small import fabric, graph

import colltool
from colltool.algorithms.mcf import flows_of
from tests.algorithms.test_forest import Links, networks, wires_of


@given(networks())
@settings(max_examples=examples(100), deadline=None)
def test_a_split_is_within_a_hundredth_of_the_best_and_fits(network: tuple[Links, int]) -> None:
    links, ranks = network
    found = flows_of(wires_of(links, ranks))
    arcs = {way: float(count) for (a, b), count in links.items() for way in ((a, b), (b, a))}
    best = lp.all_to_all_s(arcs, ranks) / 25e9
    assert best * (1 - 1e-6) <= 1 / (ranks * found.rate) <= best * 1.01
    carried, sent = defaultdict[tuple[int, int], float](float), defaultdict[tuple[int, int], float](float)
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
    rows = {row.algorithm: row for row in colltool.price(where, "a2a", size="1GB", library="all").results}
    best = lp.all_to_all_s(lp.both_ways(links), 7) / 100
    assert rows["mcf"].bandwidth_s == pytest.approx(best, rel=0.01)
    assert rows["mcf"].bandwidth_s < 0.9 * rows["direct"].bandwidth_s
    assert rows["mcf"].status == "reference"
    assert colltool.verify(where, "a2a", algorithms="mcf").results[0].verdict == "proved"


def test_more_ranks_than_a_search_takes_are_refused() -> None:
    ring = fabric(graph(*((rank, (rank + 1) % 25) for rank in range(25))))
    found = colltool.price(ring, "a2a", size="1MB", library="all")
    assert "24 ranks at most" in next(one.reason for one in found.infeasible if one.algorithm == "mcf")
