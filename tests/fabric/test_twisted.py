"""The twisted torus as a file says it: what is refused, which slices are twisted, what is counted
and cut."""

from __future__ import annotations

from itertools import combinations

import pytest
from lp import lattice
from small import fabric, torus
from swept import swept

import colltool
from colltool.analysis.basis import basis_of
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import A2A, AG, AR, BC, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import place
from colltool.estimate.nccl_hardware import check_switched
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.extras.interop.astra_sim import astra_sim
from colltool.extras.pictures.drawing.lattice import axis_text
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

ON = "tpu-v4-twisted"


def twisted(*shape: int, **more: object) -> Fabric:
    return fabric(torus(*shape, twist=True, **more))


@swept(
    ("tier", "what", "fix"),
    [
        (torus(4, 4, 4), "no twist is defined for 4x4x4", "k x 2k, k x k x 2k or k x 2k x 2k"),
        (torus(4, 16), "no twist is defined for 4x16", "or leave out twist"),
        (torus(4, 8, wrap=[True, True]), "closed along every axis", "leave out wrap"),
        (torus(6, 12, cube=4), "6x12 is not whole cubes of 4", "multiples of 4"),
        (
            {**torus(4, 8), "topology": "mesh"},
            "a mesh has no wraparound to twist",
            "write topology: torus",
        ),
    ],
)
def test_what_cannot_be_twisted_is_refused_where_it_stands(
    tier: dict[str, object], what: str, fix: str
) -> None:
    with pytest.raises(ManyErrors) as refused:
        fabric({**tier, "twist": True})
    (slip,) = refused.value.problems
    assert what in slip.what
    assert fix in slip.fix
    assert fabric({**tier, "twist": False})


def test_slices_of_whole_cubes_are_twisted_where_they_can_be() -> None:
    large = colltool.load_fabric(ON, ["ici.shape=[8,16,16]"])
    twists = {
        shape: [
            bool(axis.twist)
            for axis in capabilities_of(place(large, GroupSpec(shape=shape)).spans[0].tier).axes
        ]
        for shape in ((4, 4, 8), (4, 8, 8), (4, 4, 4), (4, 4, 16), (2, 4, 4))
    }
    assert twists == {
        (4, 4, 8): [True, True, False],
        (4, 8, 8): [True, False, False],
        (4, 4, 4): [False] * 3,
        (4, 4, 16): [False] * 3,
        (2, 4, 4): [False] * 3,
    }
    asked, own = (
        colltool.price(one, "a2a", size=1e9, shape=(4, 4, 8)).best.total_s for one in (large, ON)
    )
    assert asked == own


def test_a_part_without_cubes_is_open_where_the_twist_was() -> None:
    tier = capabilities_of(twisted(4, 8).tiers[0])
    assert [(axis.size, axis.wrap, axis.twist) for axis in tier.part(16) or ()] == [
        (4, False, ()),
        (4, False, ()),
    ]
    assert [(axis.size, axis.wrap, axis.twist) for axis in tier.part(8, 4) or ()] == [
        (1, False, ()),
        (8, True, ()),
    ]
    assert colltool.price(twisted(4, 8), "ar", size=1e6, ranks=8, stride=4).best.total_s > 0


@swept("shape", [(2, 4), (3, 6), (2, 2, 4)])
def test_cables_and_bisection_are_those_of_the_graph(shape: tuple[int, ...]) -> None:
    """Every half of the ranks is cut off: none is joined to the rest by fewer links."""
    tier, k = capabilities_of(twisted(*shape, bw=1.0).tiers[0]), min(shape)
    arcs = lattice(
        shape,
        twist={
            axis: [k * (size > k) for size in shape] for axis, size in enumerate(shape) if size == k
        },
    )
    assert tier.links(1) == len(arcs) / 2 == tier.tier.endpoints * tier.neighbours / 2
    rest = range(1, tier.tier.endpoints)
    least = min(
        sum(1 for a, b in arcs if a in half and b not in half)
        for half in ({0, *others} for others in combinations(rest, len(rest) // 2))
    )
    assert tier.bisection_Bps == least * 1e9


def test_the_twist_doubles_the_bisection() -> None:
    for shape, gain in ((4, 4, 8), 2), ((4, 8, 8), 2), ((4, 8), 2):
        plain, other = (
            capabilities_of(fabric(torus(*shape, twist=twist)).tiers[0]).bisection_Bps
            for twist in (False, True)
        )
        assert other / plain == gain


@swept("shape", [(2, 4), (4, 8), (2, 2, 4), (4, 4, 8), (4, 8, 8), (8, 16, 16)])
@swept("primitive", [A2A, AR, AG, BC])
def test_no_price_below_its_cut_bound(shape: tuple[int, ...], primitive: Primitive) -> None:
    for readings in (ModelOptions(ideal=True), ModelOptions(ideal=True, ports="one")):
        rows = price(twisted(*shape), primitive, 1e9, None, readings).results
        assert rows
        assert all(
            row.lower_bound_s is None or row.total_s >= row.lower_bound_s * (1 - 1e-9)
            for row in rows
        )


def test_the_bound_of_halves_counts_the_twists() -> None:
    """4 x 4 x 8 in halves: 64 of 128 ranks, M/128 for each of 64 others, over 64 links of 100
    GB/s."""
    bound = cut_bound_of(place(twisted(4, 4, 8), None), A2A, ModelOptions())
    assert bound.seconds(1e9) == pytest.approx(64 * 64 / 128 * 1e9 / 64 / 100e9)


def test_over_slices_joined_by_a_network() -> None:
    """A twisted slice as the inner tier of several: compositions are priced and proved on it."""
    where = fabric(
        torus(2, 4, twist=True),
        {"topology": "star", "size": 2, "alpha": "5us", "bandwidth": "10GB/s"},
    )
    found = colltool.verify(where, "ar", algorithms="hierarchical:multi-ring/ring")
    assert [row.verdict for row in found.results] == ["proved"]


def test_astra_sim_has_no_twisted_torus() -> None:
    with pytest.raises(ColltoolError, match="twisted torus") as refused:
        astra_sim(colltool.load_fabric(ON))
    assert "twist=false" in refused.value.fix
    assert (
        "Ring, Ring, Ring"
        in astra_sim(colltool.load_fabric(ON, ["ici.twist=false"]))["network.yml"]
    )


def test_it_is_called_what_it_is() -> None:
    axes = capabilities_of(colltool.load_fabric(ON).tiers[0]).axes
    assert axis_text(1, axes) == "axis 1: lines of 4, closed half way round axis 3 (dashed)"
    assert axis_text(3, axes) == "axis 3: rings of 8"
    assert basis_of(colltool.load_fabric(ON), A2A, GroupSpec()).slice == "4x4x8 twisted"


def test_it_is_called_twisted_wherever_a_topology_is_told() -> None:
    told = {one.reason for one in colltool.price(ON, "ar", size=1e6).infeasible}
    assert any("this is a twisted torus" in reason for reason in told)
    assert not any("this is a torus" in reason for reason in told)
    with pytest.raises(ColltoolError, match="'ici' is a twisted torus"):
        check_switched(colltool.load_fabric(ON))
