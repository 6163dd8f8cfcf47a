"""Rings along the cables of a dragonfly: every rank once, no link twice, twice as fast where the
usual order is not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import dragonfly, fabric, graph
from swept import swept

import colltool
from colltool.network.dragonfly import gateway_order
from colltool.network.links import TierRanks
from colltool.network.routed_links import RoutedLinks
from colltool.network.wires import DragonflyWires


def wires(
    hosts: int, switches: int, groups: int, cables: int = 1, ranks: int = 0
) -> DragonflyWires:
    ranks = ranks or hosts * switches * groups
    return DragonflyWires(ranks, hosts, switches, groups, 0, 1.0, 0.0, 1.0, 0.0, cables, "minimal")


@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 9))
def test_no_link_carries_more_than_one_message_of_the_ring(
    hosts: int, switches: int, groups: int
) -> None:
    """With one cable between two groups, wherever these end."""
    made = wires(hosts, switches, groups)
    ring = np.array(gateway_order(made))
    assert sorted(ring) == list(range(made.endpoints))
    assert ring[0] == 0
    links = RoutedLinks(made, TierRanks(made.endpoints))
    assert max(load.max() for load in links.loads(ring, np.roll(ring, -1), np.ones(len(ring)))) == 1


@swept("ranks", [5, 13, 24, 29])
def test_groups_that_are_met_in_part_are_passed_all_the_same(ranks: int) -> None:
    order = gateway_order(wires(2, 3, 5, ranks=ranks)) if ranks > 6 else ()
    assert sorted(order) == list(range(ranks if ranks > 6 else 0))
    where = fabric(dragonfly(2, 3, 5))
    found = colltool.price(where, "ag", size="1GB", ranks=ranks, library="all")
    names = {row.algorithm for row in found.results}
    assert ("gateway-ring" in names) == (ranks > 6)
    if ranks <= 6:
        assert "one group" in next(
            one.reason for one in found.infeasible if one.algorithm == "gateway-ring"
        )
        return
    (proved,) = colltool.verify(where, "ag", ranks=ranks, algorithms="gateway-ring").results
    assert proved.verdict == "proved"


def test_twice_as_fast_where_the_usual_order_loads_a_link_twice() -> None:
    where = fabric(dragonfly(2, 3, 7))
    for primitive, usual in (
        ("ar", "ring"),
        ("ag", "ring"),
        ("rs", "ring"),
        ("bc", "chain"),
        ("reduce", "chain"),
    ):
        rows = {
            row.algorithm: row
            for row in colltool.price(where, primitive, size="1GB", library="all").results
        }
        assert rows[usual].bandwidth_s == pytest.approx(2 * rows[f"gateway-{usual}"].bandwidth_s)
        assert rows[f"gateway-{usual}"].status == "reference"
        (proved,) = colltool.verify(where, primitive, algorithms=f"gateway-{usual}").results
        assert proved.verdict == "proved"


def test_a_group_is_entered_and_left_where_its_cables_end() -> None:
    """3 switches, 4 groups: cable d of a group ends at switch d - 1."""
    order = gateway_order(wires(1, 3, 4))
    crossings = [(a, b) for a, b in pairwise((*order, order[0])) if a // 3 != b // 3]
    assert crossings == [(0, 5), (3, 8), (6, 11), (9, 2)]


def test_other_networks_and_strided_ranks_have_none() -> None:
    found = colltool.price(fabric(graph((0, 1), (1, 2), (2, 0))), "ag", size="1MB", library="all")
    assert "dragonfly" in next(
        one.reason for one in found.infeasible if one.algorithm == "gateway-ring"
    )
    valiant = colltool.price(
        fabric(dragonfly(2, 3, 4, routing="valiant")), "ag", size="1MB", library="all"
    )
    assert "minimal routing" in next(
        one.reason for one in valiant.infeasible if one.algorithm == "gateway-ring"
    )
    strided = colltool.price(
        fabric(dragonfly(2, 3, 4)), "ag", size="1MB", ranks=12, stride=2, library="all"
    )
    assert "consecutive" in next(
        one.reason for one in strided.infeasible if one.algorithm == "gateway-ring"
    )
