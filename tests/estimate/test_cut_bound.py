"""No price below its cut bound; and the bound itself against numbers worked out by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

import gated
import pytest
from effort import some
from small import Tier, clos, fabric, full_mesh, mesh, shipped, star, switch, torus
from swept import swept

import colltool
from colltool.algorithms.libraries import LibraryName
from colltool.base.primitives import Primitive, parse_primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import place
from colltool.estimate.placement import AnyGroup, GroupSpec, whole_groups
from colltool.estimate.price import price
from colltool.fabric.library_numbers import under_library
from colltool.fabric.load import shipped_fabrics
from colltool.fabric.model import Fabric

GB = 1e9


def per_GB(where: Fabric, primitive: str, group: AnyGroup = None, **readings: Any) -> float:
    """Milliseconds that a GB takes at least."""
    asked = ModelOptions(**readings)
    return (
        float(cut_bound_of(place(where, group), parse_primitive(primitive), asked).seconds(GB))
        * 1e3
    )


@swept(
    ("tiers", "primitive", "wanted"),
    [
        # one port of 100 GB/s a rank
        ([star(8)], "ar", 2 * 7 / 8 * 10),
        ([star(8)], "ag", 7 / 8 * 10),
        ([star(8)], "rs", 7 / 8 * 10),
        ([star(8)], "a2a", 7 / 8 * 10),
        ([star(8)], "bc", 10),
        ([star(8)], "p2p", 10),
        ([star(8, ports=2)], "ar", 7 / 8 * 10),
        # switches that add up: M out of a rank, M into it
        ([star(8, in_network=switch())], "ar", 10),
        ([star(8, in_network=switch())], "rs", 7 / 8 * 10),
        ([star(8, in_network=switch(reduce=False, multicast=False))], "ar", 2 * 7 / 8 * 10),
        # seven links of 100 GB/s a rank
        ([full_mesh(8)], "a2a", 10 / 8),
        ([full_mesh(8)], "ar", 2 * 10 / 8),
        ([full_mesh(8)], "bc", 10 / 7),
        # d/8 and d/4 of M over a link; a corner of an open line has one
        ([torus(8, 4)], "a2a", 10),
        ([mesh(8, 4)], "a2a", 20),
        ([torus(4, 4)], "ar", 2 * 15 / 16 / 4 * 10),
        ([torus(2, 2, 2)], "a2a", 5),
        ([mesh(8)], "ag", 7 / 8 * 10),
        # four behind an uplink that is a quarter of their ports: 28/32 M each, over a quarter of a
        # port
        ([clos(32, (4, 1.0), (32, 2.0, 4.0), bw=100.0)], "a2a", 28 / 32 * 4 * 10),
        ([clos(32, (4, 1.0), (32, 2.0, 4.0), bw=100.0)], "ar", 2 * 31 / 32 * 10),
        ([clos(32, (4, 1.0), (32, 2.0, 16.0), bw=100.0)], "ar", 2 * 7 / 8 * 16 / 4 * 10),
        # the domains of the inner tier: eight ports of 50 GB/s lead out, and every rank has one
        # inside too
        ([star(8), star(4, bw=50.0)], "ar", 2 * 31 / 32 * GB / 150e9 * 1e3),
        ([star(8), star(4, bw=5.0)], "ar", 2 * 3 / 4 / 8 * GB / 5e9 * 1e3),
        ([star(8), star(4, bw=50.0)], "a2a", 24 / 32 * 20),
        ([full_mesh(4, bw=50.0), full_mesh(4, bw=50.0)], "a2a", 12 / 16 / 3 * 20),
        # halves of a lattice inside: its links across, and the ports of a half's eight ranks
        # outside
        ([torus(16), star(2, bw=1.0)], "bc", GB / (8 * 1e9 * 2) * 1e3),
    ],
)
def test_by_hand(tiers: list[Tier], primitive: str, wanted: float) -> None:
    assert per_GB(fabric(*tiers), primitive) == pytest.approx(wanted, rel=1e-12)


def test_strides_and_siblings() -> None:
    """One rank of each node of eight: its own port, an eighth of the leaf's uplinks, all of them
    where its siblings are idle."""
    where = fabric(star(8), clos(8, (2, 1.0), (8, 2.0, 16.0), bw=100.0))
    at_work = per_GB(where, "a2a", GroupSpec(8, 8))
    assert at_work == pytest.approx(6 / 8 * 16 * 10)
    assert per_GB(where, "a2a", GroupSpec(8, 8, alone=True)) == pytest.approx(at_work / 8)
    assert per_GB(where, "a2a", GroupSpec(8, 8), placement="scattered") == pytest.approx(7 / 8 * 10)


def test_a_leaf_that_is_part_empty() -> None:
    """Nine endpoints under leaves of eight: the last has the uplinks of eight, and one port."""
    where = fabric(clos(9, (8, 1.0), (16, 2.0, 16.0), bw=100.0))
    assert per_GB(where, "bc") == pytest.approx(GB / 50e9 * 1e3)
    assert per_GB(where, "ag") == pytest.approx(8 / 9 * GB / 50e9 * 1e3)


def test_of_several_protocols_the_fastest_wires_count() -> None:
    listed = [{"name": "LL", "bandwidth": "40GB/s"}, {"name": "Simple", "bandwidth": "90GB/s"}]
    assert per_GB(fabric(star(2, protocols=listed)), "bc") == pytest.approx(GB / 90e9 * 1e3)
    rows = colltool.price(fabric(star(2, protocols=listed)), "bc", size=1e3).results
    assert [row.lower_bound_s for row in rows] == [pytest.approx(1e3 / 90e9)] * len(rows)


def below(
    where: Fabric, primitive: Primitive, size: float, group: AnyGroup, readings: ModelOptions
) -> list[str]:
    """The rows that undercut the bound; none may."""
    rows = price(where, primitive, size, group, readings).results
    return [
        f"{row.title}: {row.total_s / row.lower_bound_s} of {primitive}, {size:g} B on"
        f" {where.name}, {group}, {readings}"
        for row in rows
        if row.lower_bound_s is not None and row.total_s < row.lower_bound_s * (1 - 1e-9)
    ]


@swept("name", shipped_fabrics(), most=4)
def test_no_price_of_a_shipped_fabric_is_below(name: str) -> None:
    where = shipped(name)
    counts = whole_groups(where)
    for count in sorted({counts[0], counts[len(counts) // 2], counts[-1]}):
        for primitive in Primitive:
            for library in get_args(LibraryName):
                assert (
                    below(
                        under_library(where, library),
                        primitive,
                        1e9,
                        count,
                        ModelOptions(ideal=library == "all"),
                    )
                    == []
                )
            assert below(where, primitive, 8.0, count, ModelOptions()) == []


@pytest.mark.parametrize("start", range(0, 30, 10))
def test_no_price_of_a_generated_fabric_is_below(start: int) -> None:
    for _, where, who, primitive, size, readings in gated.cases(some(range(start, start + 10), 3)):
        assert below(where, primitive, size, who, readings) == []


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_no_price_of_a_routed_fabric_is_below(start: int) -> None:
    for seed in some(range(start, start + 10), 3):
        where = gated.made_routed(seed)
        for primitive in list(Primitive)[seed % 2 :: 2]:
            assert (
                below(where, primitive, 10.0 ** (seed % 9 + 1), None, gated.READINGS[seed % 2])
                == []
            )


def test_what_runs_on_other_wires_has_none() -> None:
    """The exceptions: an inner fabric stretched over all ranks, machines beside them; two ports
    where one is given."""
    where = fabric(star(8), star(4, bw=5.0))
    rows = {row.algorithm: row for row in colltool.price(where, "ar", size=1e9).results}
    assert [name for name, row in rows.items() if row.lower_bound_s is None] == ["inner-ring"]
    served = colltool.price(fabric(star(8)), "ar", size=1e9, algorithms=["parameter-server:8"])
    assert served.results[0].lower_bound_s is None
    assert per_GB(fabric(star(8)), "ar", tree_beta=1.0) == pytest.approx(7 / 8 * 10)


NESTED = [
    [full_mesh(4, bw=50.0), full_mesh(4, bw=50.0)],
    [star(8, bw=400.0), full_mesh(4, bw=50.0)],
    [full_mesh(3), full_mesh(2), full_mesh(3), full_mesh(2)],
    [full_mesh(4), clos(6, (2, 1.0), (6, 2.0, 4.0), bw=20.0)],
]


@swept("tiers", NESTED)
@swept("primitive", ["ar", "ag", "rs", "a2a"])
def test_all_peers_at_once_over_several_tiers(tiers: list[Tier], primitive: str) -> None:
    """A link between domains carries a message for every rank behind it: loads as counted, message
    by message."""
    where = fabric(*tiers)
    rows = {
        row.algorithm: row for row in colltool.price(where, primitive, size=1e9, ideal=True).results
    }
    n = where.ranks
    for name in {"one-shot", "two-shot", "direct"} & set(rows):
        share, times = (1.0, 1) if name == "one-shot" else (1 / n, 2 if name == "two-shot" else 1)
        assert rows[name].bandwidth_s == pytest.approx(times * share * _slowest(where) * 1e9), name


def _slowest(where: Fabric) -> float:
    """Seconds on the busiest port, link or uplink for a byte from every rank to every other one."""
    busiest, inside = 0.0, 1
    for tier in where.tiers:
        rate = tier.bandwidth
        if tier.topology == "full_mesh":
            busiest = max(busiest, inside / rate)  # from me to each rank of one other domain
        else:
            busiest = max(busiest, inside * (tier.endpoints - 1) / rate)
            levels = getattr(tier, "levels", None) or ()
            for low, high in pairwise(levels):
                behind = low.group * inside
                leaving = behind * (tier.endpoints - low.group) * inside
                busiest = max(busiest, leaving * high.oversubscription / (behind * rate))
        inside *= tier.endpoints
    return busiest


def test_a_tier_larger_than_its_size_counts_the_ranks_that_it_has() -> None:
    """A Clos whose last level could join more endpoints than it has, inside another tier."""
    tiers = [clos(6, (2, 1.0), (12, 2.0, 3.0), bw=100.0), star(4, bw=10.0)]
    whole = [clos(6, (2, 1.0), (6, 2.0, 3.0), bw=100.0), star(4, bw=10.0)]
    for name in ("direct", "pairwise"):
        one, other = (
            colltool.price(fabric(*some), "a2a", size=1e9, algorithms=[name]).best
            for some in (tiers, whole)
        )
        assert one.total_s == pytest.approx(other.total_s)


def test_a_lattice_outside_carries_what_passes_between_all_of_it() -> None:
    where = fabric(star(2), torus(16, bw=10.0))
    rows = {
        row.algorithm: row for row in colltool.price(where, "a2a", size=1e9, ideal=True).results
    }
    assert rows["outer-pairwise"].bandwidth_s == pytest.approx(31 / 32 * (16 / 8) * 16 / 15 * 0.1)
