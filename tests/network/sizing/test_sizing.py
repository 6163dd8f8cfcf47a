"""A Clos in whole switches against fat-trees, the formulas by ports, and the wiring itself."""

from __future__ import annotations

from math import ceil, prod

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric
from colltool.fabric.properties import fabric_facts
from colltool.network.sizing.fat_tree import fat_tree, fat_tree_plan
from colltool.network.sizing.size_clos import ClosPlan, clos_plan, tree_levels
from colltool.network.sizing.wiring import best_wiring


def switches(plan: ClosPlan) -> list[int]:
    return [one.switches for one in plan.levels]


@pytest.mark.parametrize(("k", "paths", "planes"), [(4, 4, 2), (64, 1024, 32)])
def test_equal_paths_of_a_fat_tree(k: int, paths: int, planes: int) -> None:
    """Collectives Explainer Series part 03 appendix B.4: (k/2)² paths in k/2 planes."""
    tree, plan = fat_tree(k), fat_tree_plan(k)
    assert (tree.paths, tree.planes) == (plan.paths, plan.planes) == (paths, planes)


@swept("k", range(2, 66, 2))
def test_a_clos_of_the_same_endpoints_is_the_fat_tree(k: int) -> None:
    tree, plan = fat_tree(k), fat_tree_plan(k)
    assert switches(plan) == [tree.edge, tree.aggregation, tree.core]
    assert [one.cables for one in plan.levels] == [tree.endpoints] * 3
    assert (plan.pods, plan.switches, plan.spare_ports, plan.notes) == (k, tree.switches, 0, ())


@swept(
    ("endpoints", "radix", "hops", "expected"),
    [
        (2048, 64, (1.0,), [64, 32]),
        (1536, 64, (3.0,), [32, 8]),
        (8192, 64, (1.0, 1.0), [256, 256, 128]),
        (12288, 64, (1.0, 3.0), [384, 256, 64]),
        (6144, 64, (3.0, 1.0), [128, 64, 32]),
        (3072, 48, (1.0, 2.0), [128, 96, 32]),
    ],
)
def test_switches_by_ports_where_they_come_out_even(
    endpoints: int, radix: int, hops: tuple[float, ...], expected: list[int]
) -> None:
    plan = clos_plan(endpoints, 1, radix, levels=len(hops) + 1, hops=hops)
    down = [radix * s / (1 + s) for s in hops]
    up = [radix / (1 + s) for s in hops]
    by_ports = [ceil(endpoints / down[0])]
    for index in range(len(hops)):
        by_ports.append(
            ceil(by_ports[-1] * up[index] / (down[index + 1] if index + 1 < len(hops) else radix))
        )
    assert [one.least for one in plan.levels] == by_ports
    assert switches(plan) == expected
    assert plan.oversubscription == prod(hops)


def cable_ends(plan: ClosPlan) -> None:
    """Every switch has as many ports as cables, every uplink a port above it, all spread evenly."""
    below = None
    for index, one in enumerate(plan.levels):
        assert one.down_ports + one.up_ports <= plan.radix
        assert one.per_rail >= one.least
        if below is not None:
            rising = below.per_rail * below.up_ports
            assert one.cables == rising * plan.rails
            assert rising <= one.per_rail * one.down_ports
            assert below.up_ports % one.parallel == 0, "uplinks spread evenly"
            reached = below.up_ports // one.parallel
            groups = one.per_rail // reached
            assert groups * reached == one.per_rail
            assert (
                ceil(below.per_rail / groups) * one.parallel <= one.down_ports
                or index < len(plan.levels) - 1
            )
        below = one


@swept("hops", [(), (1.5,), (2.0,), (4.0, 1.0), (2.0, 1.5), (1.0, 3.0)])
@swept("radix", [36, 64, 144])
@swept("endpoints", [1, 63, 65, 500, 1000, 1793, 5000, 9999])
def test_what_is_sized_can_be_wired(endpoints: int, radix: int, hops: tuple[float, ...]) -> None:
    plan = clos_plan(endpoints, 1, radix, hops=hops)
    cable_ends(plan)
    assert plan.levels[0].switches * plan.levels[0].down_ports == endpoints + plan.spare_ports
    asked = prod(hops)
    if len(plan.levels) == len(hops) + 1:
        assert 0.8 * asked < plan.oversubscription <= asked + 1e-9


def test_levels_are_the_fewest_that_fit() -> None:
    assert [len(clos_plan(n, 1, 64).levels) for n in (64, 65, 2048, 2049, 65536)] == [1, 2, 2, 3, 3]
    assert [tree_levels(n, 64) for n in (1, 64, 65, 4096, 4097)] == [1, 1, 2, 2, 3]
    with pytest.raises(
        ColltoolError, match=r"65537 ports on one rail do not fit: 3 levels .* at most 65536"
    ):
        clos_plan(65537, 1, 64)
    with pytest.raises(ColltoolError, match="2 levels of 64-port switches join at most 2048"):
        clos_plan(2049, 1, 64, levels=2)


@swept(("group", "height"), [(32, 1), (64, 2), (1024, 2), (1025, 3), (4096, 3)])
def test_one_number_of_levels(group: int, height: int) -> None:
    """Of what is bought, of what is shown and of what an in-network all-reduce climbs: 2k of its
    alpha (k = ceil(log_64 N) at least, with no port left for an uplink; a file may say so)."""
    tier = {
        "name": "ib",
        "topology": "clos",
        "size": 4096,
        "alpha": "2us",
        "bandwidth": "50GB/s",
        "in_network": {"reduce": True, "multicast": True, "alpha_switch": "0.5us"},
        "sizing": {"rails": 1, "nics_per_rail": 1, "radix": 64},
    }
    sharp = load_fabric({"name": "sharp", "tiers": [tier]})
    plan = fabric_facts(sharp).tiers[0].sizing
    assert plan is not None
    assert plan == colltool.size_fabric(4096, 64).plan
    assert (len(plan.levels), plan.tree_levels, plan.least_levels) == (3, 3, 2)
    assert fabric_facts(sharp).tiers[0].diameter_links == 6

    def climbed(**levels: int) -> float:
        own = tier | {"in_network": tier["in_network"] | levels}  # type: ignore[operator]
        priced = colltool.price(
            load_fabric({"name": "sharp", "tiers": [own]}),
            "ar",
            size="1MB",
            ranks=group,
            algorithms=["in-network"],
        )
        return float(priced.best.n_alpha or 0)

    assert (climbed(), climbed(levels=2)) == (2 * height, 4)
    assert plan.levels_over(group) == height


def test_rails_divide_the_ports() -> None:
    plan = clos_plan(32, 72, 144, rails=4)
    assert (plan.ports, plan.leaves, plan.spines, plan.cables_per_pair, plan.switches) == (
        2304,
        8,
        4,
        18,
        48,
    )


def test_a_split_that_is_not_whole_is_no_more_oversubscribed_than_asked() -> None:
    plan = clos_plan(1024, 1, 64, hops=(2.0,))
    assert (plan.leaves, plan.spines, plan.down_ports, plan.up_ports) == (26, 10, 40, 20)
    assert plan.notes == (
        "leaf: a switch leaves 4 of its 64 ports unused",
        "1024 ports only partly fill 26 leaves of 40 down-ports",
        "spine: 10 switches to spread uplinks evenly; by ports alone 9 would do",
        "spine: a switch leaves 12 of its 64 ports unused",
    )


def test_ports_and_rates_in_the_place_of_a_ratio() -> None:
    """s = (48 x 400G)/(8 x 800G) = 3."""
    plan = colltool.size_fabric(960, 64, oversubscription="48x400Gbps:8x800Gbps").plan
    assert (plan.oversubscription, plan.leaves, plan.down_ports, plan.up_ports) == (3.0, 20, 48, 8)
    assert plan.levels[1].least == ceil(20 * 8 / 64)
    assert colltool.size_fabric(960, 64, oversubscription=["3:1"]).plan.switches == 27, (
        "46 down, 18 up: fewer"
    )


@swept(
    ("arguments", "words"),
    [
        ({}, "nothing says what to size"),
        ({"fat_tree": 5}, "an even number of ports"),
        ({"fat_tree": 4, "radix": 4}, "radix: does not apply to a fat-tree"),
        (
            {"endpoints": 64, "radix": 64, "oversubscription": 0.5, "levels": 2},
            "1 .non-blocking. to 1000, got 0.5",
        ),
        (
            {"endpoints": 64, "radix": 64, "oversubscription": 10**400},
            "oversubscription: .* to 1000, got a number of more",
        ),
        (
            {"endpoints": 64, "radix": 64, "oversubscription": [2.0, 10**5000]},
            "oversubscription: .* to 1000",
        ),
        (
            {"endpoints": 64, "radix": 64, "oversubscription": float("inf")},
            "oversubscription: .* to 1000, got inf",
        ),
        (
            {"endpoints": 64, "radix": 64, "oversubscription": float("nan")},
            "oversubscription: .* to 1000, got nan",
        ),
        ({"endpoints": 64, "radix": 64, "oversubscription": b"2"}, "expected a ratio, got a bytes"),
        (
            {"endpoints": 64, "radix": 64, "rails": 65},
            "rails: 65 rails are more than the 64 endpoint ports",
        ),
        ({"endpoints": 64, "radix": 64, "oversubscription": "x"}, "'x' is not an oversubscription"),
        (
            {"endpoints": 64, "radix": 64, "oversubscription": "60x400Gbps:8x400Gbps"},
            "needs 68 ports",
        ),
        ({"endpoints": 64, "radix": 64, "levels": 2, "oversubscription": "2,2"}, "1 ratio"),
        ({"endpoints": 64, "radix": 64, "levels": 4}, "1 to 3 levels"),
        ({"endpoints": 64, "radix": 1}, "2 to 1024 ports"),
        ({"endpoints": 0, "radix": 64}, "at least 1"),
        ({"endpoints": 64, "radix": 64, "prices": {"switch": 3}}, "'currency' is missing"),
        ({"endpoints": 64, "radix": 64, "prices": "nvl72"}, "without prices"),
        ({"endpoints": 64, "radix": 64, "prices": 3}, "expected prices, got a int"),
    ],
)
def test_what_cannot_be_sized(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.size_fabric(**arguments)  # type: ignore[arg-type]


def test_a_fabric_of_one_level_has_no_uplinks() -> None:
    """64 nodes, all that one switch of a rail has ports for: eight switches, not a leaf that lacks
    64 uplinks."""
    leaf = [{"name": "leaf", "group": 64, "alpha": "2us"}]
    facts = fabric_facts(
        load_fabric("dgx-h100", {"ib.size": 64, "ib.levels": leaf, "ib.in_network.levels": 1})
    ).tiers[1]
    assert facts.sizing is not None
    assert (facts.switches, facts.diameter_links, facts.misfits) == (8, 2, ())


def test_three_levels_of_a_fabric_are_sized_as_it_says() -> None:
    """The wiring in the notes of clos-4to1: 32 leaves, four pods of 8 spines with 32 links down and
    8 up, four cores."""
    fabric = load_fabric(
        "clos-4to1", {"fabric.sizing": {"rails": 1, "nics_per_rail": 8, "radix": 64}}
    )
    facts = fabric_facts(fabric)
    plan = facts.tiers[1].sizing
    assert plan is not None
    assert [(one.switches, one.down_ports, one.up_ports) for one in plan.levels] == [
        (32, 32, 32),
        (32, 32, 8),
        (4, 64, 0),
    ]
    assert (facts.tiers[1].links, facts.tiers[1].switches) == (1024 + 1024 + 256, 68)
    assert plan.notes == ("spine: a switch leaves 24 of its 64 ports unused",)
    cable_ends(plan)


def test_of_equal_wirings_the_one_with_most_planes() -> None:
    """34 ports on 8-port switches: 27 switches, 72 cables between them and 3 pods, in 3 planes or
    in 2."""
    rail = best_wiring(34, 8, (1.0, 1.0))
    assert rail is not None
    assert (rail.switches, rail.pods, rail.planes) == ((12, 9, 6), 3, 3)
    assert [(split.down, split.up) for split in rail.splits] == [(3, 3), (4, 4)]


def test_rails_that_nothing_joins_save_what_joins_them() -> None:
    """1024 nodes of 8 NICs: a leaf and half a spine for each 32 ports, against the core of one Clos
    besides."""
    apart, joined = (
        colltool.size_fabric(1024, 64, ports_per_endpoint=8, rails=rails).plan for rails in (8, 1)
    )
    assert (apart.switches, joined.switches) == (256 + 128, 256 + 256 + 128)
    assert (apart.ports + apart.cables, joined.ports + joined.cables) == (2 * 8192, 3 * 8192)
