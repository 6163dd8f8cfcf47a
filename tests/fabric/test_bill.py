"""The bill of a fabric: parts counted by hand, what they cost and draw."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.bill import bill_of, cost_of
from colltool.fabric.properties import fabric_facts
from colltool.render.views.fabric_diagram import diagrams
from tests.commands.conftest import run

PRICES = {
    "currency": "USD",
    "switch": {"price": 30000, "draws": "2kW"},
    "cable": 200,
    "optic": {"price": 600, "draws": "12W"},
    "nic": 1500,
}


def counts(name: str, **prices: Any) -> dict[tuple[str, str], int | None]:
    fabric = colltool.load_fabric(name, {"prices": PRICES | prices})
    return {(line.level, line.part): line.count for line in bill_of(fabric).lines}


def test_the_parts_of_the_published_superpod() -> None:
    """32 NVL72: 2304 NICs, as many cables to 32 leaves and on to 16 spines, an optic at both ends
    of each."""
    assert counts("nvl72") == {
        ("leaf", "nic"): 2304,
        ("leaf", "cable"): 2304,
        ("leaf", "optic"): 4608,
        ("leaf", "switch"): 32,
        ("spine", "cable"): 2304,
        ("spine", "optic"): 4608,
        ("spine", "switch"): 16,
    }
    assert ("leaf", "optic") not in counts("nvl72", copper=["leaf"])
    assert counts("nvl72", tiers=["nvlink"]) == {
        ("nvlink", "nic"): 2304,
        ("nvlink", "cable"): 2304,
        ("nvlink", "optic"): 4608,
        ("nvlink", "switch"): 32,
    }


def test_its_cost() -> None:
    fabric = colltool.load_fabric(
        "nvl72", {"prices": PRICES | {"copper": ["leaf"], "power": "0.10/kWh", "years": 4}}
    )
    cost = cost_of(fabric)
    assert cost is not None
    assert cost.currency == "USD"
    assert cost.parts == 48 * 30000 + 4608 * 200 + 4608 * 600 + 2304 * 1500
    assert cost.power_W == 48 * 2000 + 4608 * 12
    assert cost.energy_per_year == pytest.approx(cost.power_W / 1000 * 8766 * 0.10)
    assert cost.total == pytest.approx(cost.parts + 4 * cost.energy_per_year)


def test_without_years_the_total_is_that_of_the_parts() -> None:
    cost = cost_of(colltool.load_fabric("dgx-h100", {"prices": PRICES | {"power": "80/MWh"}}))
    assert cost is not None
    assert cost.energy_per_year == pytest.approx(cost.power_W / 1000 * 8766 * 0.08)
    assert cost.total == cost.parts == 8 * 30000 + 256 * (200 + 2 * 600 + 1500)


def test_no_prices_no_cost() -> None:
    assert cost_of(colltool.load_fabric("nvl72")) is None
    assert bill_of(colltool.load_fabric("nvl72")).cost is None


def test_a_currency_alone_costs_nothing_that_is_known() -> None:
    fabric = colltool.load_fabric("nvl72", {"prices": {"currency": "USD", "power": "0.10/kWh"}})
    assert cost_of(fabric) is None
    assert bill_of(fabric).notes == (
        "prices has none of the parts that are counted: switch, cable, optic, nic",
    )


def test_what_nothing_counts_has_no_cost() -> None:
    """Without its radix nobody knows the switches; cables and NICs alone can be priced."""
    fabric = colltool.load_fabric("clos-4to1", {"prices": PRICES})
    assert cost_of(fabric) is None
    assert "not counted without their radix" in bill_of(fabric).notes[0]
    cables = cost_of(
        colltool.load_fabric("clos-4to1", {"prices": {"currency": "EUR", "cable": 100}})
    )
    assert cables is not None
    assert cables.total == 100 * (1024 + 1024 + 256)


def test_a_lattice_has_cables_and_no_switch() -> None:
    assert counts("torus512") == {("torus", "cable"): 1536, ("torus", "optic"): 3072}


@swept("name", ["nvl72", "clos-4to1", "torus512"])
def test_prices_change_no_time(name: str) -> None:
    fabrics = (colltool.load_fabric(name), colltool.load_fabric(name, {"prices": PRICES}))
    assert fabrics[0] != fabrics[1]
    times = [
        [row.total_s for row in colltool.price(one, "ar", size="16MB").leading] for one in fabrics
    ]
    assert times[0] == times[1]


@swept(
    ("change", "words"),
    [
        ({"currency": None}, "currency by its three letters"),
        ({"currency": "$"}, "currency by its three letters, such as USD"),
        ({"switch": "30000 USD"}, "a price such as 600"),
        ({"switch": -1}, "a price such as 600"),
        ({"switch": {"price": 1, "draws": 1700}}, "write 1700W"),
        ({"power": 0.1}, "write 0.1/kWh"),
        ({"copper": ["laef"]}, "did you mean 'leaf'"),
        ({"tiers": ["ethernet"]}, "there is no 'ethernet'"),
        ({"years": 0}, "a number of years"),
    ],
)
def test_what_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.load_fabric("nvl72", {"prices": PRICES | change})


def test_prices_without_a_currency() -> None:
    with pytest.raises(ColltoolError, match="key 'currency' is missing"):
        colltool.load_fabric("nvl72", {"prices": {"switch": 30000}})


def test_the_bill_of_a_sized_clos() -> None:
    sized = colltool.size_fabric(2048, 64, prices=PRICES, overrides={"switch": 40000})
    assert sized.bill.cost is not None
    assert sized.bill.cost.parts == 96 * 40000 + 4096 * 200 + 8192 * 600 + 2048 * 1500
    assert sized.bill.cost.power_W == 96 * 2000 + 8192 * 12, (
        "what the file says of a switch's power stands"
    )
    dearer = PRICES | {"switch": {"price": 40000, "draws": "2kW"}}
    assert colltool.size_fabric(2048, 64, prices={"prices": dearer}).bill == sized.bill
    assert colltool.size_fabric(2048, 64, prices=dearer | {"tiers": ["ib"]}).bill == sized.bill


@given(
    st.permutations(
        [
            "switch=30000",
            "switch.draws=1.7kW",
            "optic={draws: 12W}",
            "optic.price=600",
            "currency=USD",
        ]
    ),
    st.data(),
)
@settings(max_examples=examples(30), deadline=None)
def test_keys_of_a_part_add_up_in_any_order(typed: list[str], data: Any) -> None:
    """Nested and flat, whatever the file says of them: the same prices."""
    of_file = data.draw(
        st.sampled_from([None, {"switch": 1}, {"switch": {"draws": "1W"}, "optic": {"price": 1}}])
    )
    sized = colltool.size_fabric(2048, 64, prices=of_file, overrides=typed)
    assert sized.bill.cost is not None
    assert sized.bill.cost.parts == 96 * 30000 + 8192 * 600
    assert sized.bill.cost.power_W == 96 * 1700 + 8192 * 12


def test_a_later_value_of_the_same_key_wins() -> None:
    typed = [
        "currency=USD",
        "switch=1",
        "switch={price: 2, draws: 1kW}",
        "switch=3",
        "switch.draws=2kW",
    ]
    cost = colltool.size_fabric(2048, 64, overrides=typed).bill.cost
    assert cost is not None
    assert (cost.parts, cost.power_W) == (96 * 3, 96 * 2000)


def test_no_watts_are_not_0_watts() -> None:
    bill = colltool.size_fabric(
        2048, 64, overrides=["currency=USD", "switch=30000", "power=0.1/kWh", "years=4"]
    ).bill
    assert bill.cost is not None
    assert (bill.cost.power_W, bill.cost.energy_per_year, bill.cost.total) == (
        None,
        None,
        bill.cost.parts,
    )
    assert {line.power_W for line in bill.lines} == {None}
    passive = colltool.size_fabric(
        2048, 64, overrides=["currency=USD", "cable={price: 200, draws: 0W}"]
    ).bill.cost
    assert passive is not None
    assert passive.power_W == 0, "unless the file says so"


def test_watts_without_a_price_are_no_free_switch() -> None:
    cost = colltool.size_fabric(
        2048, 64, overrides=["currency=USD", "switch.draws=1kW", "power=0.1/kWh", "years=1"]
    ).bill.cost
    assert cost is not None
    assert (cost.parts, cost.power_W, cost.total) == (None, 96e3, pytest.approx(96 * 8766 * 0.1))


@given(
    st.integers(1, 16),
    st.integers(2, 6),
    st.integers(2, 4),
    st.sampled_from([1, 1.5, 2, 4]),
    st.integers(0, 3),
)
@settings(max_examples=examples(30), deadline=None)
def test_drawing_bill_and_sizing_count_the_same_groups(
    group: int, leaves: int, pods: int, ratio: float, missing: int
) -> None:
    """A leaf of the file is a leaf of the drawing, of the bill and of the sizing, on each of eight
    rails; a pod likewise."""
    tiers = {
        "ib.size": max(1, group * leaves * pods - missing),
        "ib.levels": [
            {"name": "leaf", "group": group, "alpha": "1us"},
            {
                "name": "spine",
                "group": group * leaves,
                "alpha": "2us",
                "oversubscription": {"uplinks": ratio},
            },
            {"name": "core", "group": group * leaves * pods, "alpha": "3us"},
        ],
    }
    fabric = colltool.load_fabric("dgx-h100", tiers)
    (_, facts), (_, diagram) = fabric_facts(fabric).tiers, diagrams(fabric)
    plan = facts.sizing
    assert plan is not None
    bought = {line.level: line.count for line in bill_of(fabric).lines if line.part == "switch"}
    assert plan.leaves == diagram.levels[0].groups == ceil(fabric.tiers[1].endpoints / group)
    assert bought["leaf"] == diagram.levels[0].switches == 8 * plan.leaves
    assert bought == {one.name: one.switches for one in plan.levels}
    assert sum(bought.values()) == facts.switches
    if len(plan.levels) > 1:
        assert plan.pods == diagram.levels[1].groups
    cables = sum(line.count or 0 for line in bill_of(fabric).lines if line.part == "cable")
    assert cables == facts.links
    assert all(one.oversubscription <= ratio + 1e-9 for one in plan.levels[:1])


@given(
    st.integers(1, 3000),
    st.sampled_from([8, 36, 64]),
    st.integers(1, 8),
    st.sampled_from([1.0, 2.0, 3.3]),
)
@settings(max_examples=examples(25), deadline=None)
def test_sums_of_a_bill_add_up(endpoints: int, radix: int, rails: int, ratio: float) -> None:
    """Against the counts of the levels: cables between two levels have two ends, those to endpoints
    a NIC each."""
    try:
        sized = colltool.size_fabric(
            endpoints, radix, rails=min(rails, endpoints), oversubscription=ratio, prices=PRICES
        )
    except ColltoolError as error:
        if "do not fit" not in error.what:
            raise
        return
    plan, cost = sized.plan, sized.bill.cost
    rising = sum(one.switches * one.up_ports for one in plan.levels[:-1])
    cables, switches = endpoints + rising, sum(one.switches for one in plan.levels)
    assert cost is not None
    assert cost.parts == pytest.approx(
        switches * 30000 + cables * (200 + 2 * 600) + endpoints * 1500
    )
    assert cost.power_W == pytest.approx(switches * 2000 + 2 * cables * 12)
    assert sum(line.cost or 0 for line in sized.bill.lines) == pytest.approx(cost.parts)


def test_a_group_that_no_leaf_has_ports_for_is_said() -> None:
    fabric = colltool.load_fabric(
        "dgx-h100", {"ib.levels.leaf.group": 40, "ib.levels.spine.group": 160, "ib.size": 80}
    )
    notes = " ".join(fabric_facts(fabric).tiers[1].notes)
    assert "a leaf of 40 ports down needs 40 up at 1:1, more than the 64 of the switch" in notes
    assert {line.count for line in bill_of(fabric).lines if line.part == "switch"} == {None}


def test_what_is_set_is_not_what_the_file_describes() -> None:
    """A file's own words, of 32 nodes, say that they are the file's where 64 are set."""
    fabric = colltool.load_fabric("dgx-h100", ["ib.size=64", "ib.levels.leaf.group=4"])
    svg = colltool.draw_fabric(fabric).svg
    assert ">16 groups of 4<" in svg
    assert ">in its file: DGX H100 SuperPOD scalable unit, 32 nodes<" in svg
    assert "in its file" not in colltool.draw_fabric("dgx-h100").svg
    assert fabric_facts(fabric).tiers[1].switches == 8 * (16 + 1)


def test_costs_of_unlike_parts_are_said_to_be() -> None:
    """Beside each other in one table stand only sums of the same parts, or a note."""
    some = {"currency": "USD", "switch": 30000, "cable": 100}
    fabrics = [
        colltool.load_fabric("dgx-h100", {"prices": one})
        for one in (some, some | {"optic": 600, "nic": 1500})
    ]
    said = [
        line
        for line in colltool.compare_plans("llama3-70b", fabrics, 64).summary().splitlines()
        if "do not cover the same" in line
    ]
    assert len(said) == 1
    assert "USD, without optics, NICs; " in said[0]
    alike = colltool.compare_plans("llama3-70b", fabrics[:1] * 2, 64)
    assert "do not cover the same" not in alike.summary()


ONE_RAIL = "ib.sizing={rails: 1, nics_per_rail: 8, radix: 64}"


@swept(
    ("name", "said"),
    [
        ("dgx-h100", "what joins the rails, 4 switches for 256 uplinks"),
        ("rail-only", ""),
        ("nvl72", ""),
    ],
)
def test_a_spine_that_is_in_no_rail_is_said(name: str, said: str) -> None:
    """Leaves of 32 NICs each send up as much as comes from below; a SuperPOD of 32 nodes has 4
    spines over 8 leaves."""
    shown = run("fabric", "show", name, "--all")
    assert shown.code == 0
    assert [
        line.rpartition(": ")[2] for line in shown.out.splitlines() if "not counted" in line
    ] == [said] * bool(said)


def test_one_rail_joins_no_others() -> None:
    shown = run(
        "fabric",
        "show",
        "dgx-h100",
        "--set",
        ONE_RAIL,
        "--set",
        "ib.size=4",
        "--set",
        "ib.levels.leaf.group=4",
        "--all",
    )
    assert "32 up on a leaf switch" in shown.out
    assert "not counted" not in shown.out
