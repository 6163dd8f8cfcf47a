"""Groups of every so many-th rank: where they sit, what their siblings leave them, and who is
refused."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import pytest
from small import clos, fabric, full_mesh, mesh, star, switch, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import candidates_for
from colltool.estimate.groups import flat_group, place
from colltool.estimate.placement import GroupSpec, every_stride, fits
from colltool.estimate.results import Price
from colltool.fabric.model import Fabric
from colltool.network.group import Axis

COLLECTIVES = [primitive for primitive in Primitive if primitive.name != "P2P"]
THREE = fabric(star(8), full_mesh(4), clos(16, (4, 2.0), (16, 8.0)))
THINNED = fabric(star(8, bw=400), clos(16, (4, 2.0), (16, 8.0, 4.0), bw=50))
GB = 1e9


def rows(price: Price) -> list[tuple[str, float]]:
    return [(row.title, float(row.total_s)) for row in price.results]


def test_a_data_parallel_group_is_one_rank_a_node_and_not_eight_full_nodes() -> None:
    """64 nodes of 8, NVLink 450 GB/s, NICs 50 GB/s of which 0.8 arrive; 4.4 GB of gradients,
    textbook latencies of 0."""
    nodes = fabric(
        star(8, alpha=0.001, bw=450),
        clos(64, alpha=0.001, bw=50, eta={"alpha": 1.0, "beta": 0.8}),
        launch_overhead="0us",
    )
    moved = 2 * 63 / 64 * 4.4e9
    (wrong,) = colltool.price(
        nodes, "ar", size=4.4e9, ranks=64, algorithms="multi-rail-ring"
    ).results
    # the 8 NICs of full nodes
    assert float(wrong.total_s) == pytest.approx(moved / (8 * 40e9), rel=1e-5)
    assert float(wrong.total_s) == pytest.approx(27e-3, rel=5e-3)
    (right,) = colltool.price(
        nodes, "ar", size=4.4e9, ranks=64, stride=8, algorithms="ring"
    ).results
    # a NIC of its own, and only that
    assert float(right.total_s) == pytest.approx(moved / 40e9, rel=1e-5)
    assert float(right.total_s) == pytest.approx(217e-3, rel=5e-3)


# --- the walk
# ---------------------------------------------------------------------------------------------------------


@swept(
    ("ranks", "stride", "per_domain"),
    [
        (None, 1, (8, 4, 16)),
        (64, 1, (8, 4, 2)),
        (4, 2, (4, 1, 1)),
        (2, 2, (2, 1, 1)),
        (None, 2, (4, 4, 16)),
        (16, 2, (4, 4, 1)),
        (8, 4, (2, 4, 1)),
        (64, 8, (1, 4, 16)),
        (4, 8, (1, 4, 1)),
        (32, 16, (1, 2, 16)),
        (16, 32, (1, 1, 16)),
        (5, 32, (1, 1, 5)),
        (8, 64, (1, 1, 8)),
        (2, 256, (1, 1, 2)),
    ],
)
def test_the_stride_is_used_up_from_the_inside_and_whole_domains_follow(
    ranks: int | None, stride: int, per_domain: tuple[int, ...]
) -> None:
    placed = place(THREE, ranks, stride)
    assert placed.placement.per_domain == per_domain
    assert placed.ranks == prod(per_domain)
    assert placed.sizes == tuple(m for m in per_domain if m > 1)


def members_by_hand(where: Fabric, ranks: int, stride: int) -> list[set[int]]:
    """How many members each domain of each tier holds, by listing them: those that hold any."""
    out, inside = [], 1
    ends = range(0, ranks * stride, stride)
    for tier in where.tiers:
        here = {end // inside for end in ends}
        inside *= tier.endpoints
        domains = {end // inside for end in ends}
        out.append({sum(one // tier.endpoints == domain for one in here) for domain in domains})
    return out


@swept(
    "where",
    [THREE, THINNED, fabric(star(6), clos(10, alpha=1.0))],
)
def test_every_domain_holds_as_many_members_as_the_walk_says(where: Fabric) -> None:
    found = 0
    for stride in every_stride(where):
        for ranks in range(2, where.ranks // stride + 1):
            if fits(where, ranks, stride):
                found += 1
                assert members_by_hand(where, ranks, stride) == [
                    {m} for m in place(where, ranks, stride).placement.per_domain
                ]
    assert found > 20


@swept(
    ("stride", "axes"),
    [
        (1, ((4, True), (3, True), (2, True))),
        (4, ((1, False), (3, True), (2, True))),
        (12, ((1, False), (1, False), (2, True))),
    ],
)
def test_a_product_of_inner_axes_leaves_the_other_axes(
    stride: int, axes: tuple[tuple[int, bool], ...]
) -> None:
    group, _ = flat_group(place(fabric(torus(4, 3, 2)), None, stride), ModelOptions())
    assert group.axes == tuple(Axis(*axis) for axis in axes)


@swept(("inner", "outer"), [((4,), (3, 2)), ((4, 3), (2,)), ((2,), (2, 3))])
@swept("make", [torus, mesh])
@swept("primitive", COLLECTIVES, most=3)
def test_a_sub_lattice_costs_what_a_lattice_of_its_shape_costs(
    make, inner, outer, primitive
) -> None:  # type: ignore[no-untyped-def]
    whole, part = fabric(make(*inner, *outer)), fabric(make(*outer))
    strided = colltool.price(whole, primitive, size=GB, stride=prod(inner))
    assert rows(strided) == rows(colltool.price(part, primitive, size=GB))
    verified = colltool.verify(whole, primitive, stride=prod(inner))
    assert verified.holds
    assert {one.ranks for one in verified.results} == {prod(outer)}


@swept("size", [1e3, 1e6, GB])
@swept("primitive", COLLECTIVES)
def test_one_rank_a_node_costs_what_a_fabric_without_the_nodes_costs(
    primitive: Primitive, size: float
) -> None:
    outer = clos(16, (4, 2.0), (16, 8.0, 4.0), bw=50, in_network=switch(0.5))
    strided = colltool.price(fabric(star(8), outer), primitive, size=size, ranks=8, stride=8)
    assert rows(strided) == rows(colltool.price(fabric(outer), primitive, size=size, ranks=8))
    assert [row.phases[0].tier for row in strided.results] == ["t2"] * len(strided.results)


@swept("primitive", COLLECTIVES)
def test_every_second_rank_costs_what_nodes_of_half_the_size_cost(primitive: Primitive) -> None:
    outer = clos(16, (4, 2.0), (16, 8.0, 4.0), bw=50)
    strided = colltool.price(fabric(star(8), outer), primitive, size=GB, ranks=32, stride=2)
    assert rows(strided) == rows(
        colltool.price(fabric(star(4), outer), primitive, size=GB, ranks=32)
    )


@swept("primitive", COLLECTIVES)
def test_every_second_endpoint_of_a_clos_costs_what_leaves_of_half_the_size_cost(
    primitive: Primitive,
) -> None:
    """Its sibling takes the other half of every leaf's uplinks."""
    whole = fabric(clos(16, (4, 2.0), (16, 8.0, 4.0), bw=50))
    half = fabric(clos(8, (2, 2.0), (8, 8.0, 4.0), bw=50))
    strided = colltool.price(whole, primitive, size=GB, stride=2)
    assert rows(strided) == rows(colltool.price(half, primitive, size=GB))


@swept("primitive", COLLECTIVES)
def test_a_stride_of_one_is_no_stride(primitive: Primitive) -> None:
    for ranks in (4, 8, 16, 64):
        plain = colltool.price(THINNED, primitive, size=GB, ranks=ranks)
        assert rows(colltool.price(THINNED, primitive, size=GB, ranks=ranks, stride=1)) == rows(
            plain
        )
        assert rows(colltool.price(THINNED, primitive, size=GB, ranks=ranks, alone=True)) == rows(
            plain
        )


# --- siblings
# ---------------------------------------------------------------------------------------------------------


def test_a_ring_whose_members_sit_one_to_a_leaf_feels_its_siblings_in_full() -> None:
    """Leaves of 4 endpoints at 4:1: 16 ranks apart there are 2 nodes between members, 32 apart one
    member a leaf."""

    def share(stride: int, *, alone: bool = False) -> float:
        (row,) = colltool.price(
            THINNED, "ar", size=GB, ranks=4, stride=stride, alone=alone, algorithms="ring"
        ).results
        return min(phase.share for phase in row.phases)

    # a leaf of g = 4 members sends one flow, of 2 one of 2, of 1 the only one: min(1, g/(s f)) =
    # g/4
    assert [share(8), share(16), share(32)] == [1.0, 0.5, 0.25]
    # alone, its 32, 16 or 8 idle neighbours' ports carry it
    assert [share(8, alone=True), share(16, alone=True), share(32, alone=True)] == [1.0, 1.0, 1.0]


def any_fabric(random: Random) -> Fabric:
    nodes = random.choice([star(8, bw=400), star(4), full_mesh(4), torus(4, 2), mesh(2, 3)])
    s, leaf, leaves = random.choice([1.0, 2.0, 5.0]), random.choice([2, 4]), random.choice([2, 4])
    size = leaf * leaves
    return fabric(
        nodes,
        clos(size, (leaf, 1.0), (size, 3.0, s), bw=random.choice([25, 50])),
        clos(2, alpha=9.0),
    )


@pytest.mark.thorough
@swept("seed", range(40), most=15)
def test_without_its_siblings_a_group_is_never_slower(seed: int) -> None:
    random = Random(seed)
    where = any_fabric(random)
    stride = random.choice(every_stride(where))
    ranks = random.choice(
        [n for n in range(2, where.ranks // stride + 1) if fits(where, n, stride)]
    )
    readings = ModelOptions(placement=random.choice(["packed", "packed", "scattered"]))
    for primitive, size in product(COLLECTIVES, (1e4, GB)):
        both, alone = (
            dict(
                rows(
                    colltool.price(
                        where,
                        primitive,
                        size=size,
                        ranks=ranks,
                        stride=stride,
                        alone=one,
                        readings=readings,
                    )
                )
            )
            for one in (False, True)
        )
        for title in both.keys() & alone.keys():
            assert alone[title] <= both[title] * (1 + 1e-12), title


def test_idle_siblings_on_other_rails_are_of_no_use() -> None:
    rails = {"rails": 8, "nics_per_rail": 1, "radix": 64}
    leaves = clos(16, (4, 2.0), (16, 8.0, 4.0), bw=50)

    def share(**more: object) -> float:
        where = fabric(star(8), leaves | more)
        (row,) = colltool.price(
            where, "ar", size=GB, ranks=4, stride=32, alone=True, algorithms="ring"
        ).results
        return row.phases[0].share

    # 4 endpoints of a leaf at 4:1 are one port's worth of a rail
    assert (share(), share(sizing=rails)) == (1.0, 1.0)
    assert (share(levels=_thinned(8.0)), share(levels=_thinned(8.0), sizing=rails)) == (1.0, 0.5)


def _thinned(ratio: float) -> object:
    return clos(16, (4, 2.0), (16, 8.0, ratio))["levels"]


# --- one group is not another
# -----------------------------------------------------------------------------------------


def test_groups_of_one_size_are_kept_apart() -> None:
    groups = [GroupSpec(4), GroupSpec(4, 8), GroupSpec(4, 32), GroupSpec(4, 32, alone=True)]
    kept = [candidates_for(THINNED, group, AR, ModelOptions()) for group in groups]
    assert len(set(map(id, kept))) == len(groups)
    assert [id(candidates_for(THINNED, group, AR, ModelOptions())) for group in groups] == list(
        map(id, kept)
    )


# --- refused
# ----------------------------------------------------------------------------------------------------------


def refused(where: Fabric, **group: object) -> tuple[str, str, str]:
    with pytest.raises(ColltoolError) as caught:
        colltool.price(where, "ar", size=1e6, **group)  # type: ignore[arg-type]
    return caught.value.argument, caught.value.what, caught.value.fix


@swept("stride", [0, -1, 512, 10**6, 10**15])
def test_a_stride_that_leaves_no_two_ranks_is_refused(stride: int) -> None:
    argument, what, fix = refused(THREE, stride=stride)
    assert argument == "stride"
    assert f"got {stride}" in what
    assert fix == "take 1 (consecutive ranks) to 256"


def test_a_stride_that_no_tier_divides_names_the_nearest_that_fit() -> None:
    argument, what, fix = refused(THREE, ranks=8, stride=6)
    assert (argument, fix) == ("stride", "the nearest that fit are 4 and 8")
    assert what == "every 6 ranks leaves domains uneven on small (t1 8, t2 4, t3 16)"
    assert refused(THREE, ranks=64, stride=6)[2] == "the nearest that fit are 4 and 8"
    assert refused(THREE, ranks=128, stride=12)[2] == "the nearest that fits is 4"


def test_a_stride_that_leaves_leaves_uneven_is_refused() -> None:
    """4 does divide 24 endpoints, but puts two members into one leaf of 6 and one into the next; 8
    never puts two into one."""
    leaves = fabric(clos(24, (6, 1.0), (24, 2.0)))
    assert refused(leaves, stride=4)[2] == "the nearest that fit are 3 and 6"
    assert place(leaves, 3, 8).sizes == (3,)


def test_half_of_an_axis_is_no_sub_lattice() -> None:
    assert refused(fabric(torus(4, 4)), stride=2)[2] == "the nearest that fit are 1 and 4"
    assert (
        refused(fabric(torus(4, 4), clos(4, alpha=1.0)), stride=8)[2]
        == "the nearest that fit are 4 and 16"
    )


def test_a_group_that_reaches_beyond_the_fabric_says_how_far_it_may() -> None:
    argument, what, fix = refused(THREE, ranks=128, stride=8)
    assert (argument, what) == ("stride", "128 ranks, every 8th, do not fit: small has 512")
    assert fix == "take at most 64 ranks, every 8th, or 128 ranks, every 4th"


def test_ranks_that_leave_a_domain_half_full_name_the_nearest_at_that_stride() -> None:
    argument, what, fix = refused(THREE, ranks=6, stride=8)
    assert (argument, fix) == ("ranks", "the nearest sizes that fill whole domains are 4 and 8")
    assert what.startswith("6 ranks, every 8th, leave a domain half full on small")


@swept(
    ("group", "argument"),
    [({"stride": 1.5}, "stride"), ({"stride": "8"}, "stride"), ({"alone": 1}, "alone")],
)
def test_what_is_no_stride_names_its_argument(group: dict[str, object], argument: str) -> None:
    assert refused(THREE, **group)[0] == argument
