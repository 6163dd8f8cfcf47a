"""What an algorithm spends, read off the engine's prices: n_α and n_β of the formulas, and the
other tiers' part."""

from __future__ import annotations

import pytest
from small import clos, fabric, star, switch
from swept import swept

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.calibration.algorithm_costs import AlgorithmCosts, algorithm_costs
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.price import price
from colltool.libraries.numbers import ProtocolNumbers

STAR = fabric(star(8, 3.0, 100.0, in_network=switch(2.0, eta_beta=0.5)), launch_overhead="7us")
TWO = fabric(star(4, 1.0, 400.0), clos(4, alpha=3.0, bw=50.0))


def on_star(primitive: Primitive, algorithm: str, ranks: int = 8) -> AlgorithmCosts | None:
    return algorithm_costs(place(STAR, ranks), "t1", primitive, algorithm, {})


FORMULAS = [
    (AR, "ring", 14, 1.75, 1 / 8),
    (AR, "double-binary-tree", 6, 2.0, 1 / 8),
    (AG, "ring", 7, 0.875, 1 / 8),
    (RS, "ring", 7, 0.875, 1 / 8),
    (A2A, "direct", 1, 0.875, 1 / 8),
    (A2A, "pairwise", 7, 0.875, 1 / 8),
    (BC, "chain", 7, 1.0, 0.0),
    (REDUCE, "chain", 7, 1.0, 0.0),
    (P2P, "send", 1, 1.0, 0.0),
]


@swept(("primitive", "algorithm", "n_alpha", "n_beta", "own"), FORMULAS)
def test_one_tier(
    primitive: Primitive, algorithm: str, n_alpha: float, n_beta: float, own: float
) -> None:
    one = on_star(primitive, algorithm)
    assert one is not None
    assert one[:4] == (algorithm, pytest.approx(n_alpha), pytest.approx(n_beta), own)
    assert (one.base_s, one.base_s_per_byte, one.switched) == (
        pytest.approx(0, abs=1e-15),
        0.0,
        False,
    )


def test_steps_grow_with_ranks() -> None:
    found = [on_star(AR, "ring", ranks) for ranks in (2, 4, 8)]
    assert [one and round(one.n_alpha, 9) for one in found] == [2, 6, 14]


def test_inside_the_switch_no_alpha_of_the_tier_counts() -> None:
    one = on_star(AR, "in-network")
    assert one is not None
    assert one.switched
    assert one.n_alpha == pytest.approx(0)
    # the switch's own eta does not count either: it is what a fit is after
    assert one.n_beta == pytest.approx(1.0)


@swept(
    ("primitive", "algorithm"), [(AG, "double-binary-tree"), (AR, "nonsense"), (AR, "hierarchical")]
)
def test_what_cannot_run_has_no_costs(primitive: Primitive, algorithm: str) -> None:
    assert on_star(primitive, algorithm) is None


def test_a_power_of_two_is_needed() -> None:
    assert on_star(AR, "recursive-doubling", 6) is None
    assert on_star(AR, "recursive-doubling", 8) is not None


COMPOSED = [
    (AR, "multi-rail-ring"),
    (AR, "hierarchical:ring/ring"),
    (AG, "multi-rail-ring"),
    (P2P, "send"),
]


@swept(("primitive", "algorithm"), COMPOSED)
@swept("size", [1e3, 1e9])
def test_the_parts_of_two_tiers_add_up_to_the_price(
    primitive: Primitive, algorithm: str, size: float
) -> None:
    one = algorithm_costs(place(TWO, 16), "t2", primitive, algorithm, {})
    assert one is not None
    (row,) = price(TWO, primitive, size, 16, ModelOptions(), [algorithm]).results
    seconds = one.base_s + one.n_alpha * 3e-6 + size * (one.base_s_per_byte + one.n_beta / 50e9)
    assert seconds == pytest.approx(float(row.total_s), rel=1e-6)


def test_a_protocol_of_the_inner_tier_pays_its_part() -> None:
    placed = place(TWO, 16)
    slow = ProtocolNumbers("ll", step_s=4e-6, line=20e9 / placed.spans[0].tier.bandwidth)
    plain, under = (
        algorithm_costs(placed, "t2", AR, "hierarchical:ring/ring", inner)
        for inner in ({}, {"t1": slow})
    )
    assert plain is not None
    assert under is not None
    # six steps inside, three of reduce-scatter and three of all-gather, each of which carries a
    # quarter of M
    assert plain.base_s == pytest.approx(6 * 1e-6)
    assert under.base_s == pytest.approx(6 * 5e-6)
    assert under.base_s_per_byte == pytest.approx(20 * plain.base_s_per_byte, rel=1e-6)
    assert (under.n_alpha, under.n_beta) == (
        pytest.approx(plain.n_alpha),
        pytest.approx(plain.n_beta),
    )


def test_a_copy_inside_is_no_longer_to_be_found() -> None:
    copied = ProtocolNumbers("simple", copy_Bps=200e9)
    plain, under = (
        algorithm_costs(place(TWO, 16), "t2", AG, "multi-rail-ring", inner)
        for inner in ({}, {"t1": copied})
    )
    assert plain is not None
    assert under is not None
    assert (plain.own_share, under.own_share) == (1 / 16, 0.0)
    assert under.base_s_per_byte - plain.base_s_per_byte == pytest.approx(1 / 16 / 200e9)
