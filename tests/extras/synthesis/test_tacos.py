"""Links matched with pieces: nobody sends what it has not got, no link carries two, all are done at
the optimum's pace."""

from __future__ import annotations

from collections import Counter

import lp
import pytest
from effort import examples
from hypothesis import given, settings
from small import fabric, graph, hyperx, mesh, torus
from swept import swept

import colltool
from colltool.extras.synthesis.tacos import pieces_of, step_count, steps
from colltool.network.wires import Edge, GraphWires
from tests.extras.synthesis.test_forest import Links, networks, wires_of


@given(networks())
@settings(max_examples=examples(60), deadline=None)
def test_every_step_can_be_taken_and_all_have_everything_in_the_end(
    network: tuple[Links, int],
) -> None:
    links, ranks = network
    wires, pieces = wires_of(links, ranks), pieces_of(ranks)
    held = [set(range(rank * pieces, (rank + 1) * pieces)) for rank in range(ranks)]
    slowest, count = min(links.values()), 0
    unit = next(
        slowest / parts
        for parts in (1, 2, 3)
        if all(many * parts % slowest == 0 for many in links.values())
    )
    for moved in steps(wires):
        assert all(piece in held[a] and piece not in held[b] for a, b, piece in moved)
        assert len({(b, piece) for _, b, piece in moved}) == len(moved)
        used = Counter((a, b) for a, b, _ in moved)
        assert all(many * unit <= links[min(ends), max(ends)] for ends, many in used.items())
        for _, b, piece in moved:
            held[b].add(piece)
        count += 1
    assert all(len(one) == ranks * pieces for one in held)
    arcs = {way: many / unit for (a, b), many in links.items() for way in ((a, b), (b, a))}
    best = lp.all_gather_s(arcs, ranks)
    assert best * (1 - 1e-6) <= count / (ranks * pieces) <= best * 1.03
    assert count == step_count(wires)


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("tier", "shape", "wrap"),
    [
        (mesh(8, 8), (8, 8), False),
        (mesh(5, 6), (5, 6), False),
        (torus(8, 4), (8, 4), True),
        (torus(5, 7), (5, 7), True),
        (mesh(2, 2, 8), (2, 2, 8), False),
    ],
    ids=["mesh", "mesh of unequal axes", "torus", "torus of odd axes", "thin mesh"],
)
def test_more_ranks_than_trees_are_packed_for_are_within_a_hundredth_of_the_optimum(
    tier, shape, wrap
) -> None:
    where = fabric(tier)
    best = lp.all_gather_s(lp.lattice(shape, wrap=wrap), where.ranks) / 100
    for primitive, times in (("ag", 1), ("rs", 1), ("ar", 2)):
        rows = {
            row.algorithm: row
            for row in colltool.price(
                where, primitive, size="1GB", ideal=True, library="all"
            ).results
        }
        assert times * best * (1 - 1e-6) <= float(rows["tacos"].bandwidth_s) <= times * best * 1.01
        assert rows["tacos"].status == "reference"
        (proved,) = colltool.verify(where, primitive, algorithms="tacos").results
        assert proved.verdict == "proved"


def test_the_same_network_has_the_same_schedule_however_its_links_are_listed() -> None:
    edges = [Edge(a, b, 1.0, 0.0) for a in range(4) for b in ((a + 1) % 4, (a - 1) % 4)]
    assert list(steps(GraphWires(4, 4, tuple(edges)))) == list(
        steps(GraphWires(4, 4, tuple(reversed(edges))))
    )


@swept(
    ("tier", "why"),
    [
        (graph((0, 1), {"between": [1, 2], "bandwidth": "143GB/s"}, (0, 2)), "links of one rate"),
        (torus(4, 4), "multi-ring keeps every link busy"),
        (mesh(30, 20), "512 ranks at most"),
        (hyperx(2, 2, hosts=2), "between the ranks themselves"),
    ],
)
def test_what_is_not_matched_is_said(tier, why: str) -> None:
    found = colltool.price(fabric(tier), "ag", size="1MB", library="all")
    assert why in next(one.reason for one in found.infeasible if one.algorithm == "tacos")
