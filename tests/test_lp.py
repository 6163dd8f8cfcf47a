"""The programmes that prices are held against give what can be worked out by hand."""

import pytest
from lp import all_gather_s, all_to_all_s, both_ways, broadcast_s, lattice, turned_round


def test_a_pair_a_ring_and_a_star() -> None:
    assert all_to_all_s(both_ways([(0, 1)]), 2) == pytest.approx(1 / 2)
    ring = lattice([8])
    assert all_to_all_s(ring, 8) == pytest.approx(1.0)  # d/8
    assert all_gather_s(ring, 8) == pytest.approx(7 / 8 / 2)  # two links take in 7/8 of a byte
    assert broadcast_s(ring, 8) == pytest.approx(1 / 2)
    star = both_ways((rank, 4) for rank in range(4))  # node 4 is the switch
    assert all_to_all_s(star, 4) == all_gather_s(star, 4) == pytest.approx(3 / 4)
    assert broadcast_s(star, 4) == pytest.approx(1.0)


def test_bottlenecks_are_seen() -> None:
    dumbbell = both_ways([(0, 1), (2, 3), (1, 2)])
    assert all_to_all_s(dumbbell, 4) == pytest.approx(1.0)  # 2 x 2 pairs of 1/4 over one cable
    assert all_gather_s(dumbbell, 4) == pytest.approx(3 / 4)  # rank 0 has one cable
    one_way = {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 0.25}
    assert broadcast_s(one_way, 3) == pytest.approx(1.0)
    assert broadcast_s(turned_round(one_way), 3) == pytest.approx(4.0)


def test_a_twist_shortens_the_long_axis() -> None:
    plain, twisted = (all_to_all_s(lattice([2, 4], twist=by), 8) for by in ({}, {0: [0, 2]}))
    assert twisted < plain
