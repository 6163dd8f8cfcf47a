"""Energy of shifted rounds: what leaves a domain pays the network's joules."""

from __future__ import annotations

import pytest
from small import clos, fabric, star

import colltool


def test_a_shift_pays_the_network_for_the_messages_that_leave_a_domain() -> None:
    """Bruck on three domains of 4: rounds of distance 1, 2, 4 and 8, which send the blocks whose
    number has that bit: 6, 6, 4 and 4 of 12. A quarter of the ranks is next to the end of its
    domain, so a quarter of the first round's messages leaves it, half of the second's and all of
    the others'."""
    inside, network = 10e-12, 100e-12
    both = fabric(star(4, energy="10pJ/bit"), clos(3, alpha=2.0, energy="100pJ/bit"))
    row = colltool.price(both, "a2a", size=12e6, algorithms="bruck", ideal=True).best
    rounds = {1: 6, 2: 6, 4: 4, 8: 4}
    expected = 0.0
    for distance, blocks in rounds.items():
        leaving = min(1.0, distance / 4)
        joule_per_bit = leaving * network + (1 - leaving) * inside
        expected += 12 * blocks * 1e6 * 8 * joule_per_bit
    assert row.energy_J == pytest.approx(expected)
