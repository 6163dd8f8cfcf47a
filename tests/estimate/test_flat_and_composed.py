"""A flat schedule and a composition of the same messages have one price."""

from __future__ import annotations

import pytest
from small import Tier, clos, fabric, full_mesh, mesh, star, switch, torus
from swept import swept

import colltool

ETA = {"alpha": 1.3, "beta": 0.7}
TWO = {
    "stars": [star(8, 0.5, 400.0, eta=ETA), star(4, 3.0, 50.0)],
    "slow inside": [star(8, 5.0, 20.0), star(4, 0.3, 200.0, eta=ETA)],
    "meshes": [full_mesh(4, 1.0, 50.0), full_mesh(8, 2.0, 40.0)],
    "leaves of one": [star(4, 0.5, 300.0), clos(8, (1, 1.0), (8, 4.0, 3.0), eta=ETA)],
    "leaves of four": [star(4, 0.5, 300.0), clos(16, (4, 1.0), (16, 4.0, 12.0))],
    "leaves inside": [clos(8, (2, 1.0), (8, 2.0, 2.0), bw=100.0), star(4, 6.0, 30.0)],
    "three": [star(2, 0.5, 300.0), full_mesh(4, 1.0, 60.0), clos(8, (2, 2.0), (8, 4.0, 3.0))],
}
SAME = {
    # the near partners first, and the payload doubles: inner tiers gather before outer ones
    "ag": ("recursive-doubling", "hierarchical", "recursive-doubling", {"order": "inner-first"}),
    # the far partners first, and it halves
    "rs": ("recursive-halving", "hierarchical", "recursive-halving", {"order": "outer-first"}),
    # to the farthest first: one leader of each domain, then inside
    "bc": ("binomial", "hierarchical", "binomial", {"phases": "sequential"}),
    "reduce": ("binomial", "hierarchical", "binomial", {"phases": "sequential"}),
}


@swept("size", [1.0, 1e6, 1e9])
@swept("primitive", SAME)
@swept("tiers", TWO.values())
def test_powers_of_two(tiers: list[Tier], primitive: str, size: float) -> None:
    flat, composition, part, readings = SAME[primitive]
    where = fabric(*tiers)
    whole = colltool.price(where, primitive, size=size, algorithms=[flat]).best
    name = f"{composition}:{'/'.join([part] * len(tiers))}"
    parts = colltool.price(where, primitive, size=size, algorithms=[name], **readings).best
    assert parts.alpha_s == pytest.approx(float(whole.alpha_s))
    assert parts.bandwidth_s == pytest.approx(float(whole.bandwidth_s))


def seconds(tiers: list[Tier], primitive: str) -> dict[str, float]:
    """Of every row its latency and bytes, under names of their own."""
    rows = colltool.price(fabric(*tiers), primitive, size=1e7).results
    return {
        f"{row.title} {part}": float(getattr(row, part))
        for row in rows
        for part in ("alpha_s", "bandwidth_s")
    }


ONES = [
    [star(8, in_network=switch())],
    [clos(16, (4, 1.0), (16, 4.0, 3.0))],
    [torus(4, 2)],
    [mesh(3, 3), star(4)],
    [star(8), clos(4, alpha=2.0)],
]


@swept("primitive", ["ar", "ag", "rs", "a2a", "bc", "reduce", "p2p"])
@swept("tiers", ONES)
def test_a_tier_of_one_is_no_tier(tiers: list[Tier], primitive: str) -> None:
    """Whoever adds a tier that joins a single domain changes no price, of flat schedules or of
    composed ones."""
    plain = seconds(tiers, primitive)
    for at in range(1, len(tiers) + 1):
        with_one = [*tiers[:at], star(1, 9.0, 1.0), *tiers[at:]]
        assert seconds(with_one, primitive) == pytest.approx(plain), at
