"""``cable`` and ``energy`` of a tier: read with units, a part of every alpha, and joules beside a
price."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small import Tier, clos, fabric, full_mesh, gb, mesh, star, switch, torus
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, energy_J
from colltool.calibration.serialise import without_cables
from colltool.congestion.loads import link_models
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.explain import explain
from colltool.estimate.price import price
from colltool.fabric.capabilities import cable_s
from colltool.fabric.load import fabric_data, load_fabric, shipped_fabrics
from colltool.fabric.topology import capabilities_of

IDEAL = ModelOptions(ideal=True)


def alpha_s(tier: Tier, primitive: Any = P2P, ranks: int | None = None, name: str = "") -> float:
    found = price(fabric(tier), primitive, 1e3, ranks, IDEAL, [name] if name else [])
    return float(found.results[0].alpha_s)


@swept(("cable", "adds"), [("100m", 500e-9), ("1km", 5e-6), ("1000 m", 5e-6), ("100ft", 152.4e-9)])
@swept("make", [star, full_mesh])
def test_a_cable_adds_its_length_over_200_m_a_us(make: Any, cable: str, adds: float) -> None:
    assert alpha_s(make(4, cable=cable)) - alpha_s(make(4)) == pytest.approx(adds)


def test_the_delay_of_a_metre() -> None:
    assert (cable_s(100), cable_s(1000)) == pytest.approx((500e-9, 5e-6))


def test_a_link_of_a_lattice_has_its_cable() -> None:
    """A ring of 8 on a line of links pays 14 of them."""
    for make in (torus, mesh):
        apart = alpha_s(make(8, cable="100m"), AR, name="ring") - alpha_s(make(8), AR, name="ring")
        assert apart == pytest.approx(14 * 500e-9)


def test_a_level_of_a_clos_has_the_tiers_cable_or_its_own() -> None:
    tier = clos(8, (4, 2.0), (8, 5.0), cable="100m")
    tier["levels"][0]["cable"] = "5m"
    assert alpha_s(tier, ranks=4) == pytest.approx(2e-6 + 25e-9)
    assert alpha_s(tier) == pytest.approx(5e-6 + 500e-9)
    assert [one.cable_m for one in capabilities_of(fabric(tier).tiers[0]).classes] == [5, 100]


def test_the_way_through_a_switch_is_one_cable_long() -> None:
    for levels in (1, 2):
        with_it, without = (
            star(8, in_network=switch(levels=levels), **more) for more in ({"cable": "100m"}, {})
        )
        apart = alpha_s(with_it, AR, name="in-network") - alpha_s(without, AR, name="in-network")
        assert apart == pytest.approx(500e-9)


def test_a_cable_is_before_contention_and_beside_a_protocols_alpha() -> None:
    own = star(
        4, cable="100m", eta={"alpha": 2.0, "beta": 1.0}, protocols=[{"name": "LL", "alpha": "3us"}]
    )
    assert float(price(fabric(own), P2P, 1e3).best.steps_s) == pytest.approx(2 * 3.5e-6)


def test_the_wires_have_the_same_alpha() -> None:
    for tier in (
        full_mesh(4, cable="100m"),
        torus(4, cable="100m"),
        star(4, cable="100m"),
        clos(4, (2, 1.0), (4, 1.0), cable="1km"),
    ):
        small = fabric(tier)
        alpha, _ = link_models(small)[0].latency(np.array([0]), np.array([1]))
        assert alpha[0] == pytest.approx(capabilities_of(small.tiers[0]).classes[0].alpha_s)


@swept(
    ("key", "value", "words"),
    [
        ("cable", "0m", "expected a length from 0.01 m to 20000 km, such as 100m, got '0m'"),
        ("cable", "-5m", "a length cannot be negative, got -5m"),
        ("cable", "1e9m", "expected a length from 0.01 m to 20000 km, such as 100m, got '1e9m'"),
        ("cable", "5miles", "'miles' is not a unit of length in '5miles'"),
        ("cable", "100", "got 100\n  is the unit missing? write 100m"),
        (
            "energy",
            "0pJ/bit",
            "expected an energy from 0.001 pJ/bit to 10000 pJ/bit, such as 30pJ/bit, got '0pJ/bit'",
        ),
        ("energy", "-1pJ/bit", "a bit energy cannot be negative, got -1pJ/bit"),
        ("energy", "30pJ", "'pJ' is not a unit of bit energy in '30pJ'"),
        ("energy", "1000nJ/bit", "expected an energy from 0.001 pJ/bit to 10000 pJ/bit"),
        ("energy", "30", "got 30\n  is the unit missing? write 30pJ/bit"),
    ],
)
def test_what_is_no_cable_and_no_energy(key: str, value: str, words: str) -> None:
    with pytest.raises(ColltoolError, match=rf'overrides=\["ib\.{key}=') as caught:
        load_fabric("nvl72", [f"ib.{key}={value}"])
    assert words in str(caught.value)


def test_a_mistake_in_a_file_has_its_place() -> None:
    with pytest.raises(
        ColltoolError, match=r"^small\.yaml:\d+:\d+: tiers\.0\.cable: a length cannot be negative"
    ):
        fabric(star(4, cable="-1m"))


def test_no_shipped_fabric_has_either() -> None:
    """Its numbers are measured or of data sheets, cables and all; but for the way between two
    sites."""
    for name in set(shipped_fabrics()) - {"two-sites"}:
        for tier in load_fabric(name).tiers:
            assert tier.cable is tier.energy is None


def test_explain_says_what_of_alpha_is_cable() -> None:
    found = explain("ring", AR, load_fabric("nvl72", ["ib.cable=100m"]), 16e6, 144)
    assert [(one.tier, one.metres) for one in found.cables] == [("ib", 100)]
    assert found.cables[0].adds_s == pytest.approx(500e-9)
    assert not explain("ring", AR, load_fabric("nvl72", ["ib.cable=100m"]), 16e6, 72).cables, (
        "a rack crosses none"
    )


def test_a_calibration_has_the_cables_in_its_alphas() -> None:
    """They were measured with them: nothing is added twice."""
    for name, sets in (
        ("nvl72", ["ib.cable=100m", "nvlink.cable=2m"]),
        ("torus512", ["torus.cable=10m"]),
    ):
        data = fabric_data(name, sets)
        before = load_fabric(data)
        without_cables(data)
        after = load_fabric(data)
        for one, other in zip(before.tiers, after.tiers, strict=True):
            assert other.cable is None
            for near, far in zip(
                capabilities_of(one).classes, capabilities_of(other).classes, strict=True
            ):
                assert far.alpha_s == pytest.approx(near.alpha_s, rel=1e-3)
        paid = [float(price(one, AR, 1e6, None, IDEAL).best.total_s) for one in (before, after)]
        assert paid[0] == pytest.approx(paid[1], rel=1e-3)


def test_energy_of_the_document() -> None:
    """10,000 ranks, 1 GB twice, 30 pJ a bit: 4.8 kJ."""
    assert energy_J(10_000, 2, 1e9, 30e-12) == pytest.approx(4800)
    one = price(fabric(star(10_000, energy="30pJ/bit")), AR, 1e9, None, IDEAL, ["ring"]).best
    assert one.energy_J == pytest.approx(4800, rel=1e-3)
    assert price(fabric(star(10_000)), AR, 1e9, None, IDEAL, ["ring"]).best.energy_J is None


def two_tiers(inner: str | None, outer: str | None) -> Any:
    tiers = [star(8, energy=inner), clos(4, alpha=2.0, energy=outer)]
    return fabric(
        *({key: value for key, value in tier.items() if value is not None} for tier in tiers)
    )


def test_energy_is_the_sum_over_the_tiers() -> None:
    """Rings on 8 and on 4: 7/8 of M twice inside, 3/4 of M/8 twice outside, by each of 32 ranks."""
    inside, outside = (
        32 * n_beta * 1e9 * 8 * joule
        for n_beta, joule in ((2 * 7 / 8, 10e-12), (2 * 3 / 4 / 8, 100e-12))
    )
    for inner, outer, total in (
        ("10pJ/bit", "100pJ/bit", inside + outside),
        (None, "100pJ/bit", outside),
        ("10pJ/bit", None, inside),
    ):
        row = price(two_tiers(inner, outer), AR, 1e9, None, IDEAL, ["hierarchical:ring/ring"]).best
        assert row.energy_J == pytest.approx(total)
        assert sum(phase.energy_J or 0 for phase in row.phases) == pytest.approx(total)


def test_a_flat_schedule_pays_each_tier_for_what_goes_over_it() -> None:
    """A ring of 32 leaves a domain with one hop of eight; of 31 peers 24 are outside; two ranks of
    one domain stay inside."""
    both = two_tiers("10pJ/bit", "100pJ/bit")

    def spent(primitive: Any, name: str, ranks: int | None = None) -> float:
        joule = price(both, primitive, 1e9, ranks, IDEAL, [name]).best.energy_J
        assert joule is not None
        return float(joule)

    assert spent(AR, "ring") == pytest.approx(
        32 * 2 * 31 / 32 * 8e9 * (28 * 10e-12 + 4 * 100e-12) / 32
    )
    for name in ("direct", "pairwise"):
        assert spent(A2A, name) == pytest.approx(32 * 8e9 * (7 * 10e-12 + 24 * 100e-12) / 32)
    assert spent(AG, "ring", 8) == pytest.approx(8 * 7 / 8 * 8e9 * 10e-12)
    # rounds of Bruck: 1, 2, 4 leave a domain of 8 with 1, 2, 4 of its messages, 8 and 16 with all
    outside = sum(min(1, stride / 8) for stride in (1, 2, 4, 8, 16))
    assert spent(A2A, "bruck") == pytest.approx(
        32 * 0.5 * 8e9 * (outside * 100e-12 + (5 - outside) * 10e-12)
    )


def test_one_leader_of_each_domain_sends_for_all() -> None:
    row = price(two_tiers(None, "100pJ/bit"), AR, 1e9, None, IDEAL, ["leader:binomial/ring"]).best
    assert row.energy_J == pytest.approx(4 * 2 * 3 / 4 * 8e9 * 100e-12)


def test_of_trees_and_messages_those_send_that_send() -> None:
    """One message of two ranks; a binomial tree of 8: 4, 2 and 1 messages, of 8 ranks."""
    net = fabric(star(8, energy="30pJ/bit"))
    assert price(net, P2P, 1e9, 2, IDEAL).best.energy_J == pytest.approx(8e9 * 30e-12)
    assert price(net, BC, 1e9, None, IDEAL, ["binomial"]).best.energy_J == pytest.approx(
        7 * 8e9 * 30e-12
    )


def test_energy_of_many_sizes_is_that_of_each() -> None:
    sizes = np.array([1e3, 1e6, 1e9])
    protocols = [
        {"name": "LL", "alpha": "1us", "bandwidth": gb(10)},
        {"name": "Simple", "alpha": "5us", "bandwidth": gb(100)},
    ]
    small = fabric(star(8, energy="30pJ/bit", protocols=protocols))
    rows = price(small, AR, sizes, None, IDEAL, ["ring"]).results
    each = [price(small, AR, float(size), None, IDEAL, ["ring"]).best.energy_J for size in sizes]
    assert np.asarray(rows[0].energy_J) == pytest.approx(each)
