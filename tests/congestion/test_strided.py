"""A strided group is one group wherever it is counted: its price, its executed schedule, and its
loads link by link."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from small import Tier, clos, fabric, full_mesh, mesh, star, torus
from swept import swept

import colltool
from colltool.congestion.contention import Contention
from colltool.congestion.layout import pattern_layout
from colltool.congestion.patterns import Pattern
from colltool.estimate.groups import place
from colltool.estimate.placement import every_stride, fits
from colltool.estimate.results import Price
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

GB = 1e9


def leaves(s: float, *, size: int = 16, bw: float = 50) -> Tier:
    return clos(size, (4, 2.0), (size, 8.0, s), bw=bw)


FABRICS = {
    "nodes under leaves at 4:1": fabric(star(4, bw=400), leaves(4.0)),
    "nodes under leaves at 2:1": fabric(star(8, bw=400), leaves(2.0)),
    "endpoints under leaves at 8:1": fabric(leaves(8.0)),
    "three levels": fabric(
        star(2, bw=400), clos(16, (2, 1.0), (8, 2.0, 2.0), (16, 4.0, 5.0), bw=50)
    ),
    "strides beyond a leaf, between leaves": fabric(
        star(2, bw=400), clos(24, (4, 1.0), (24, 2.0, 4.0), bw=50)
    ),
    "full meshes under leaves": fabric(full_mesh(4, bw=90), leaves(3.0)),
    "tori under leaves": fabric(torus(4, 2, bw=90), leaves(5.0)),
    "a torus": fabric(torus(4, 3, 2)),
    "rings": fabric(torus(3, 8)),
    "a mesh": fabric(mesh(3, 4)),
}
SWITCHED = [name for name, where in FABRICS.items() if where.tiers[-1].topology == "clos"]


def groups(where: Fabric) -> list[tuple[int, int]]:
    """Every (ranks, stride) that fits, stride 1 but for the smallest."""
    found = [
        (n, k)
        for k in every_stride(where)
        for n in range(2, where.ranks // k + 1)
        if fits(where, n, k)
    ]
    return [(n, k) for n, k in found if k > 1] + found[:3]


def on_switches(where: Fabric) -> list[tuple[int, int]]:
    """Those without a lattice: the neighbours of a flat ring there are a matter of its
    embedding."""
    return [
        (n, k)
        for n, k in groups(where)
        if not any(capabilities_of(span.tier).axes for span in place(where, n, k).spans)
    ]


def together(
    where: Fabric, ranks: int, stride: int, algorithm: str, primitive: str, *, alone: bool
) -> Contention:
    count = 1 if alone else stride
    pattern = {"kind": "cyclic", "group": ranks, "stride": stride, "count": count}
    return colltool.contention(
        where, pattern, primitive=primitive, algorithm=algorithm, size=GB, per_link=True
    )


def alike(
    where: Fabric, ranks: int, stride: int, algorithm: str, primitive: str = "ar", *, alone: bool
) -> Price:
    return colltool.price(
        where,
        primitive,
        size=GB,
        ranks=ranks,
        stride=stride,
        alone=alone,
        algorithms=algorithm,
        ideal=True,
        ring_alpha="worst",
    )


@pytest.mark.alike(2)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("where", SWITCHED)
def test_a_ring_has_one_price_however_it_is_counted(where: str, alone: bool) -> None:
    """The formula with what oversubscription leaves; messages on ports and uplinks; the busiest
    link of all siblings."""
    of, shares = FABRICS[where], []
    for ranks, stride in on_switches(of):
        (row,) = alike(of, ranks, stride, "ring", alone=alone).results
        shares.append(min(phase.share for phase in row.phases))
        loads = together(of, ranks, stride, "ring", "ar", alone=alone)
        for one in loads.groups:
            assert one.together_s == pytest.approx(float(row.bandwidth_s), rel=1e-9), (
                ranks,
                stride,
            )
        (proved,) = colltool.verify(
            of, "ar", ranks=ranks, stride=stride, alone=alone, algorithms="ring", size=GB
        ).results
        assert proved.verdict == "proved"
        assert proved.time_s is not None
        assert proved.time_s[1] == pytest.approx(proved.time_s[0], rel=1e-9), (ranks, stride)
        if len(place(of, ranks, stride).spans) == 1:
            assert proved.time_s[0] == pytest.approx(float(row.total_s), rel=1e-9), (ranks, stride)
    assert len(shares) > 8
    assert alone or min(shares) < 1  # some feel their siblings


@pytest.mark.parametrize("rails", [4, 2])
def test_rails_that_idle_siblings_have_are_no_help_to_a_group_on_another(rails: int) -> None:
    sizing = {"rails": rails, "nics_per_rail": 4 // rails, "radix": 64}
    of, shares = fabric(star(4, bw=400), leaves(8.0) | {"sizing": sizing}), set()
    for ranks, stride in groups(of):
        if stride % 4:
            continue
        for alone in (False, True):
            (row,) = alike(of, ranks, stride, "ring", alone=alone).results
            loads = together(of, ranks, stride, "ring", "ar", alone=alone)
            assert loads.groups[0].together_s == pytest.approx(float(row.bandwidth_s), rel=1e-9), (
                ranks,
                stride,
                alone,
            )
            shares.add((alone, row.phases[0].share))
    # one member a leaf of 4 nodes at 8:1: its eighth of a port; alone 4 nodes' NICs of its rail, as
    # many as share it
    assert (False, 0.125) in shares
    assert (True, 0.5 * 4 / rails) in shares


@pytest.mark.parametrize("algorithm", ["pairwise", "bruck", "direct"])
@pytest.mark.parametrize(
    "where", [FABRICS["endpoints under leaves at 8:1"], FABRICS["nodes under leaves at 4:1"]]
)
def test_no_link_is_busier_than_the_price_says(where: Fabric, algorithm: str) -> None:
    """Loads add up steps that a price lays end to end: never more than it, and the same where all
    pairs are alike."""
    alike_pairs = 0
    for ranks, stride in groups(where):
        if len(place(where, ranks, stride).spans) > 1:
            continue
        for alone in (False, True):
            (row,) = alike(where, ranks, stride, algorithm, "a2a", alone=alone).results
            loads = together(where, ranks, stride, algorithm, "a2a", alone=alone)
            slowest = max(one.together_s or 0.0 for one in loads.groups)
            assert slowest <= float(row.bandwidth_s) * (1 + 1e-9), (ranks, stride)
            levels = {phase.level for phase in row.phases}
            if algorithm == "pairwise" and len(levels) == 1:
                alike_pairs += 1
                assert slowest == pytest.approx(float(row.bandwidth_s), rel=1e-9)
    assert alike_pairs > 2 or algorithm != "pairwise"


@swept("primitive", ["ar", "a2a"])
@swept("where", FABRICS.values())
def test_the_loads_of_siblings_add_up_to_those_of_all_together(
    where: Fabric, primitive: str
) -> None:
    algorithm = {"ar": "ring", "a2a": "pairwise"}[primitive]
    for ranks, stride in Random(0).sample(groups(where), 4):
        whole = together(where, ranks, stride, algorithm, primitive, alone=False)
        parts: Counter[str] = Counter()
        for offset in range(stride):
            pattern = {
                "kind": "cyclic",
                "group": ranks,
                "stride": stride,
                "start": offset,
                "count": 1,
            }
            # the pattern leaves a stretch, not the ranks of one group
            if offset + ranks * stride > where.ranks:
                members = [offset + k * stride for k in range(ranks)]
                layout = {
                    "schema": "colltool.layout/1",
                    "groups": [{"name": "g", "ranks": members}],
                }
            else:
                layout = pattern
            one = colltool.contention(
                where, layout, primitive=primitive, algorithm=algorithm, size=GB, per_link=True
            )
            parts.update({link.link: link.load for link in one.links})
        assert {link.link: link.load for link in whole.links} == pytest.approx(parts, rel=1e-9)


@swept(
    ("where", "inner", "one_ring"),
    [
        ("a torus", 4, False),
        ("a torus", 12, True),
        ("rings", 3, True),
        ("a mesh", 3, False),
        ("tori under leaves", 4, True),
    ],
)
def test_sub_lattices_share_no_link(where: str, inner: int, one_ring: bool) -> None:
    """A stride of whole inner axes: each sibling has lines of its own, and the price that it has
    alone."""
    of = FABRICS[where]
    ranks = of.tiers[0].endpoints // inner
    siblings, alone = (
        alike(of, ranks, inner, "dim-ring", "rs", alone=one).results[0] for one in (False, True)
    )
    assert float(siblings.total_s) == float(alone.total_s)
    loads = together(of, ranks, inner, "dim-ring", "rs", alone=False)
    assert {one.interference for one in loads.groups} == {1.0}
    carried = loads.groups[0].together_s or 0.0
    # axis after axis, and an open line loads its middle most
    assert carried <= float(siblings.bandwidth_s) * (1 + 1e-9)
    assert carried == pytest.approx(float(siblings.bandwidth_s), rel=1e-9) or not one_ring


@swept("where", SWITCHED)
def test_a_cyclic_pattern_lays_out_the_group_and_its_siblings(where: str) -> None:
    """The members of every group of the pattern sit in domains as the walk says of the strided
    group."""
    of = FABRICS[where]
    for ranks, stride in groups(of):
        per_domain, inside = place(of, ranks, stride).placement.per_domain, 1
        laid = pattern_layout(Pattern("cyclic", ranks, stride, stride=stride), of)
        members = [group.endpoints for group in laid.groups]
        assert sorted(end for ends in members for end in ends) == list(range(ranks * stride))
        for tier, expected in zip(of.tiers, per_domain, strict=True):
            inside *= tier.endpoints
            for ends in members:
                below = {end // (inside // tier.endpoints) for end in ends}
                within = Counter(one // tier.endpoints for one in below)
                assert set(within.values()) == {expected}
