"""``trunk`` of a tier: what all ranks of an endpoint share on their way out, such as the line
between two data centres."""

from __future__ import annotations

import numpy as np
import pytest
from small import Tier, clos, fabric, star
from swept import swept

import colltool
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive, parse_primitive
from colltool.congestion.loads import link_models
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import place
from colltool.fabric.failures import failures_of
from colltool.fabric.lint import lint
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.values import with_values
from colltool.fabric.variants import bandwidth_values, scaled_bandwidth, with_tiers
from colltool.network.links import SwitchedLinks

GB = 1e9


def sites(trunk: str = "100GB/s", size: int = 2, **more: object) -> Tier:
    """Of ranks with ports of 50 GB/s."""
    return {
        "topology": "clos",
        "size": size,
        "alpha": "1ms",
        "bandwidth": "50GB/s",
        "trunk": trunk,
        **more,
    }


def two_sites(trunk: str = "100GB/s", **more: object) -> Fabric:
    """Four nodes of eight a site: 1,600 GB/s of ports, 16:1."""
    return fabric(star(8, bw=450.0), clos(4, (4, 5.0), bw=50.0), sites(trunk, **more))


def best(where: Fabric, primitive: str, **how: object) -> float:
    return float(colltool.price(where, primitive, size=GB, **how).best.bandwidth_s)  # type: ignore[arg-type]


def test_the_ratio_of_a_published_trial() -> None:
    """China Telecom: 102.4 Tb/s of ports on a side, 3.2 Tb/s between the sites, "a bandwidth
    convergence ratio of 32:1"."""
    trial = fabric(
        star(8, bw=450.0), star(64, bw=25.0), sites("3.2Tbps") | {"bandwidth": "200Gbps"}
    )
    assert trial.ranks * 200e9 / 2 == 102.4e12
    assert [one.oversubscription for one in capabilities_of(trial.tiers[2]).classes] == [1, 32]


@swept("primitive", list(Primitive))
@swept("group", [{}, {"ranks": 8, "stride": 8}, {"ranks": 2, "stride": 32, "alone": True}])
def test_it_is_the_uplink_of_a_level_of_single_endpoints(
    primitive: Primitive, group: dict[str, int]
) -> None:
    shape_as_list = fabric(
        star(8, bw=450.0),
        clos(4, (4, 5.0), bw=50.0),
        clos(2, (1, 1000.0), (2, 1000.0, 16.0), bw=50.0),
    )
    told, same = (
        colltool.price(one, primitive, size=GB, **group).results
        for one in (two_sites(), shape_as_list)
    )  # type: ignore[arg-type]
    assert [(one.spec, one.total_s) for one in told] == [(one.spec, one.total_s) for one in same]


def test_by_hand() -> None:
    where = two_sites()
    assert best(where, "p2p") == pytest.approx(GB / 50e9)  # alone, a rank has its port
    assert best(where, "a2a") == pytest.approx(32 * GB / 2 / 100e9)  # half of what 32 ranks send
    assert best(where, "bc") == pytest.approx(GB / 100e9)  # once over the trunk, by several ports
    assert best(two_sites("1GB/s"), "ar") == pytest.approx(GB / 1e9)  # M goes each way once


@swept("primitive", list(Primitive))
@swept("trunk", ["1GB/s", "100GB/s", "10TB/s"])
def test_no_price_is_below_the_bound(primitive: Primitive, trunk: str) -> None:
    slow = [{"name": "Simple", "bandwidth": "10GB/s"}]
    for where in (two_sites(trunk), two_sites(trunk, protocols=slow), two_sites(trunk, size=3)):
        bound = float(cut_bound_of(place(where), primitive, ModelOptions()).seconds(GB))
        for result in colltool.price(where, primitive, size=GB).leading:
            assert result.total_s >= bound * (1 - 1e-12), result.spec


def test_the_bound_counts_the_trunk_under_any_protocol() -> None:
    """Half of what the ranks of a site send, over the trunk, whatever a protocol makes of a
    port."""
    for protocols in (None, [{"name": "LL", "bandwidth": "10GB/s"}]):
        where = two_sites(**({"protocols": protocols} if protocols else {}))
        assert float(
            cut_bound_of(place(where), parse_primitive("a2a"), ModelOptions()).seconds(GB)
        ) == pytest.approx(0.16)


def test_schedules_hold_when_executed() -> None:
    where = fabric(star(4, bw=450.0), clos(2, (2, 5.0), bw=50.0), sites("25GB/s"))
    found = colltool.verify(where, size=GB).results
    assert len(found) > 25
    assert {one.verdict for one in found} == {"proved", "idealised"}
    across = next(
        one
        for one in found
        if one.algorithm == "hierarchical (ring / ring / ring)" and one.primitive == "all_reduce"
    )
    assert across.verdict == "proved"


def test_only_the_trunk_of_a_site_is_shared() -> None:
    model = link_models(two_sites())[2]
    assert isinstance(model, SwitchedLinks)
    assert [(one.endpoints, one.uplink_Bps) for one in model.boundaries] == [(1, 100e9)]


def test_its_share_follows_the_ranks_inside() -> None:
    """Of an override, a smaller copy, and many fabrics at once."""
    ratio = lambda where: capabilities_of(where.tiers[-1]).classes[1].oversubscription  # noqa: E731
    where = load_fabric("two-sites")
    assert ratio(where) == 32
    assert ratio(load_fabric("two-sites", ["ib.size=8"])) == 8
    assert ratio(load_fabric("two-sites", ["wan.trunk=6.4Tbps"])) == 16
    assert ratio(with_tiers(where, lambda tier: tier.model_copy(update={"size": 4}), [0])) == 16
    many = with_values(where, {("tiers", 2, "trunk"): np.array([400e9, 800e9, 1e15])})
    assert ratio(many) == pytest.approx([32, 16, 1])
    assert ratio(with_tiers(where, lambda tier: scaled_bandwidth(tier, 2.0), [2])) == 32
    assert bandwidth_values(where.tiers[2], 2.0) == {
        "wan.bandwidth": "100GB/s",
        "wan.trunk": "800GB/s",
    }


def test_sweeps_and_ranges_reach_it() -> None:
    cells = colltool.sweep("two-sites", "a2a", sizes=GB, vary=["wan.trunk=3.2Tbps,6.4Tbps"]).cells
    assert cells[0].total_s > 1.9 * cells[1].total_s
    found = colltool.sensitivity("two-sites", "a2a", size=GB, vary=["wan.trunk=2x"], samples=20)
    assert found.rows[0].p95_s > 1.5 * found.rows[0].p5_s


def test_what_its_loss_cuts_off() -> None:
    lost = failures_of(two_sites())[-1]
    assert (lost.tier, lost.part, lost.count, lost.cut_off) == ("t3", "trunk", 1, 64)
    three = failures_of(two_sites(size=3))[-1]
    assert (three.part, three.count, three.cut_off) == ("trunk", 3, 32)


def warned(*tiers: Tier) -> list[str]:
    return [one.what for one in lint(fabric(*tiers), {})]


def test_the_trap_is_told() -> None:
    inside = [star(8, bw=450.0), star(4, bw=50.0)]
    far = {"topology": "clos", "size": 2, "alpha": "20us", "bandwidth": "50GB/s", "cable": "100km"}
    assert any(
        "each of 32 ranks sends 50 GB/s as far as 100 km" in one for one in warned(*inside, far)
    )
    assert not any("ranks" in one for one in warned(*inside, far | {"trunk": "1.6Tbps"}))
    assert any(
        "10 TB/s is above the 1.6 TB/s of all 32 ranks" in one
        for one in warned(*inside, far | {"trunk": "10TB/s"})
    )


@pytest.mark.parametrize("key", ["levels", "sizing"])
def test_it_stands_alone(key: str) -> None:
    more = {
        "levels": [{"name": "a", "group": 2, "alpha": "1us"}],
        "sizing": {"rails": 1, "nics_per_rail": 1, "radix": 64},
    }
    with pytest.raises((ColltoolError, ManyErrors), match="a trunk joins its endpoints directly"):
        fabric(star(8), sites(**{key: more[key]}))


def test_groups_of_some_ranks_share_it_with_their_siblings() -> None:
    """Eight of 32 ranks of a site: a quarter of the trunk, or all of it where the others idle."""
    where = two_sites()
    at_work, alone = (
        best(where, "a2a", ranks=16, stride=4, alone=alone) for alone in (False, True)
    )
    assert at_work == pytest.approx(8 * GB / 2 / 25e9)
    assert alone == pytest.approx(8 * GB / 2 / 100e9)


def test_between_node_and_site_nothing_reduces_without_sharp() -> None:
    """NVLS ends at the node: NVLSTree would need SHARP in the middle; and what NCCL picks for two
    tiers fits no three."""
    off, on = (load_fabric("two-sites", [f"library.collnet={word}"]) for word in ("false", "true"))
    assert (
        colltool.price(off, "ar", size=GB).best.title
        == "hierarchical (ring / ring / double-binary-tree)"
    )
    assert (
        colltool.price(on, "ar", size=GB).best.title
        == "hierarchical (in-network / in-network / double-binary-tree)"
    )
    assert (
        colltool.breakdown(off, "ar", size=GB).price.best.title
        == "hierarchical (ring / ring / double-binary-tree)"
    )
