"""Any small fabric, any layout: a result whose loads add up to the bytes sent, or a refusal in
words; and what cannot matter does not."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import P2P, Primitive
from colltool.congestion.contention import Contention
from colltool.congestion.jobs import JobDefaults, jobs_of
from colltool.congestion.layout_groups import GroupLayout, Layout
from colltool.congestion.skew import Skew
from colltool.congestion.traffic_by_formula import modelled
from colltool.fabric.model import Fabric
from colltool.fabric.tiers import LatticeTier
from tests import small

SEEDS = range(100)
Options = dict[str, Any]


def any_tier(random: Random) -> small.Tier:
    alpha, bw, ports = (
        random.choice([0.5, 1, 3]),
        random.choice([10, 50, 100, 900]),
        random.choice([1, 1, 2]),
    )
    kind = random.choice(["star", "full_mesh", "torus", "mesh", "clos", "clos", "clos"])
    if kind in ("torus", "mesh"):
        make = small.torus if kind == "torus" else small.mesh
        shape = [random.choice([1, 2, 3, 4]) for _ in range(random.randint(1, 3))]
        return make(*shape, alpha=alpha, bw=bw, ports=ports)
    if kind != "clos":
        make = small.star if kind == "star" else small.full_mesh
        return make(random.randint(1, 8), alpha=alpha, bw=bw, ports=ports)
    groups = [random.choice([1, 2, 3])]
    for _ in range(random.randint(0, 2)):
        groups.append(groups[-1] * random.choice([2, 3]))
    levels = [
        (group, alpha * (k + 1), random.choice([1, 1.5, 4])) if k else (group, alpha)
        for k, group in enumerate(groups)
    ]
    return small.clos(groups[-1], *levels, bw=bw, ports=ports)


def any_fabric(random: Random) -> Fabric:
    return small.fabric(*(any_tier(random) for _ in range(random.randint(1, 3))))


def any_layout(random: Random, fabric: Fabric, *, overlap: bool = True) -> Layout:
    """Groups of any members, each with a run of its own here and there."""
    groups, ends = [], list(range(fabric.ranks))
    random.shuffle(ends)
    for number in range(random.randint(1, 5)):
        if overlap and random.random() < 0.2:
            ends = random.sample(range(fabric.ranks), fabric.ranks)
        take = random.randint(2, 9)
        mine, ends = tuple(ends[:take]), ends[take:]
        if len(mine) < 2:
            break
        primitive = random.choice(
            [None, *(one for one in Primitive if one is not P2P or take == 2)]
        )
        algorithm = (
            random.choice([None, None, random.choice(modelled(primitive))]) if primitive else None
        )
        groups.append(GroupLayout(f"group {number}|=\n", mine, mine, primitive, algorithm))
    return Layout("any", groups)


def any_options(random: Random) -> Options:
    return random.choice(
        [{}] * 4
        + [
            {"size": 1e6},
            {"size": "1GB"},
            {"zipf": random.choice([0, 0.5, 1.0, 100])},
            {"hot": random.choice([1, 1.5, 2])},
        ]
        + [{"hot": 1.0, "hot_members": (1, 0)}, {"matrix": any_matrix(random)}]
    )


def any_matrix(random: Random) -> list[list[float]]:
    n = random.randint(2, 6)
    return [[random.choice([0, 0, 0, 1, 1e-300, 7.5e9]) for _ in range(n)] for _ in range(n)]


def any_case(seed: int) -> tuple[Fabric, Layout, Options]:
    random = Random(seed)
    while True:
        fabric = any_fabric(random)
        layout = any_layout(random, fabric) if fabric.ranks > 1 else Layout("none", ())
        if layout.groups:
            return fabric, layout, any_options(random)


def result_of(fabric: Fabric, layout: Layout, options: Options) -> Contention | None:
    try:
        return colltool.contention(fabric, layout, per_link=True, **options)
    except ColltoolError:
        return None


def works(seed: int) -> tuple[Fabric, Layout, Options, Contention]:
    """The case of a seed, or of the next that is not refused."""
    while True:
        fabric, layout, options = any_case(seed)
        if (result := result_of(fabric, layout, options)) is not None:
            return fabric, layout, options, result
        seed += 1000


def messages(fabric: Fabric, layout: Layout, options: Options) -> list[tuple[int, int, float]]:
    size = options.get("size")
    skew = Skew(
        options.get("matrix"),
        options.get("hot"),
        options.get("hot_members", (0,)),
        options.get("zipf"),
    )
    asked = JobDefaults(
        None, None, None if size is None else colltool.base.formatting.parse_size(size), skew
    )
    return [
        (int(ends[a]), int(ends[b]), float(bytes_) * batch.job.scale)
        for batch in jobs_of(fabric, layout, asked)
        for ends in batch.ends
        for a, b, bytes_ in zip(
            batch.traffic.src, batch.traffic.dst, batch.traffic.size, strict=True
        )
    ]


def links_on(tier: Any, a: int, b: int) -> int:
    """How many links, or pairs of ports, a message between two endpoints of a tier loads: counted
    place by place."""
    if not isinstance(tier, LatticeTier):
        return 1
    hops = 0
    for size in tier.shape:
        apart = abs(a % size - b % size)
        hops += min(apart, size - apart) if tier.topology == "torus" else apart
        a, b = a // size, b // size
    return hops


def test_the_cases_are_of_every_kind() -> None:
    results = [result_of(*any_case(seed)) for seed in SEEDS]
    kept = [result for result in results if result is not None]
    assert len(SEEDS) / 2 < len(kept) < len(SEEDS)
    lines = [line.line for result in kept for line in result.lines]
    assert all(
        any(line.endswith(word) for line in lines)
        for word in ("ports in", "uplinks", " links", "-")
    )
    assert any(result.slowdown < 1 for result in kept)
    assert any(result.slowdown > 4 for result in kept)


@swept("seed", SEEDS)
def test_a_result_adds_up_or_is_refused(seed: int) -> None:
    fabric, layout, options = any_case(seed)
    result = result_of(fabric, layout, options)
    if result is None:
        return
    for group in result.groups:
        numbers = (
            group.slowdown,
            group.interference,
            group.eta_alpha,
            group.eta_beta,
            group.tail_over_mean,
        )
        assert all(math.isfinite(number) and number > 0 for number in numbers)
        assert group.interference >= 1
        assert group.tail_over_mean >= 1
    assert [group.name for group in result.groups] == [group.name for group in layout.groups]
    expected: dict[tuple[str, str], float] = {}
    for a, b, size in messages(fabric, layout, options):
        inside = 1
        for tier in fabric.tiers:
            if a // (inside * tier.endpoints) == b // (inside * tier.endpoints):
                hops = links_on(tier, a // inside % tier.endpoints, b // inside % tier.endpoints)
                for way in ("out", "in") if tier.topology in ("star", "clos") else ("links",):
                    expected[tier.name, way] = expected.get((tier.name, way), 0) + size * hops
                break
            inside *= tier.endpoints
    found: dict[tuple[str, str], float] = {}
    for link in result.links:
        tier_name, kind = link.line.split(" ", 1)
        if not kind.endswith(("uplinks", "downlinks")):
            way = kind.removeprefix("ports ") if kind.startswith("ports") else "links"
            found[tier_name, way] = found.get((tier_name, way), 0) + link.load
    assert found == pytest.approx({key: load for key, load in expected.items() if load > 0})


@swept("seed", SEEDS[:25])
def test_names_of_tiers_and_groups_change_nothing_else(seed: int) -> None:
    fabric, layout, options, before = works(seed)
    named = fabric.model_copy(
        update={
            "tiers": tuple(
                tier.model_copy(update={"name": f"other{k}"}) for k, tier in enumerate(fabric.tiers)
            )
        }
    )
    groups = [group._replace(name=f"\u202e{number}") for number, group in enumerate(layout.groups)]
    after = colltool.contention(named, Layout("else", groups), per_link=True, **options)
    for one, other in zip(before.groups, after.groups, strict=True):
        assert one._replace(name="", busiest="") == other._replace(name="", busiest="")
    assert [link._replace(link="", line="") for link in before.links] == [
        link._replace(link="", line="") for link in after.links
    ]
    assert [(eta.alpha, eta.beta) for eta in before.etas] == [
        (eta.alpha, eta.beta) for eta in after.etas
    ]


@swept("seed", SEEDS[:25])
def test_the_order_of_groups_changes_nothing(seed: int) -> None:
    fabric, layout, options, before = works(seed)
    after = colltool.contention(
        fabric, layout._replace(groups=layout.groups[::-1]), per_link=True, **options
    )
    for one, other in zip(before.groups, after.groups[::-1], strict=True):
        assert one.name == other.name
        assert one.slowdown == pytest.approx(other.slowdown)
        assert (one.extra_hops, one.eta_alpha) == (other.extra_hops, other.eta_alpha)
    assert [link.link for link in before.links] == [link.link for link in after.links]
    assert [link.load for link in before.links] == pytest.approx(
        [link.load for link in after.links]
    )
    assert [link.over_ideal for link in before.links] == pytest.approx(
        [link.over_ideal for link in after.links]
    )


@swept("seed", SEEDS[:25])
def test_twice_the_bandwidth_is_half_the_time_and_the_same_slowdown(seed: int) -> None:
    fabric, layout, options, _ = works(seed)
    options = options if "matrix" in options else {**options, "size": 1e6}
    before = colltool.contention(fabric, layout, **options)
    fast = tuple(tier.model_copy(update={"bandwidth": 2 * tier.bandwidth}) for tier in fabric.tiers)
    after = colltool.contention(fabric.model_copy(update={"tiers": fast}), layout, **options)
    for one, other in zip(before.groups, after.groups, strict=True):
        assert one.together_s == 2 * (other.together_s or 0)
        assert one.ideal_s == 2 * (other.ideal_s or 0)
        assert one._replace(ideal_s=None, together_s=None) == other._replace(
            ideal_s=None, together_s=None
        )


@swept("seed", SEEDS[:25])
def test_another_group_never_lowers_a_load(seed: int) -> None:
    fabric, layout, options, after = works(seed)
    if len(layout.groups) < 2:
        return
    before = result_of(fabric, layout._replace(groups=layout.groups[:-1]), options)
    if before is None:  # the last one was the only all-to-all of a skew
        return
    loads = {link.link: link.load for link in after.links}
    assert all(loads[link.link] >= link.load for link in before.links)
    for one, other in zip(before.groups, after.groups, strict=False):
        assert other.slowdown >= one.slowdown
        assert other.interference >= one.interference
        assert (other.extra_hops, other.eta_alpha) == (one.extra_hops, one.eta_alpha)


@swept("seed", SEEDS[:40])
def test_a_packed_group_alone_is_its_own_ideal(seed: int) -> None:
    random = Random(seed)
    fabric = any_fabric(random)
    ranks = min(fabric.ranks, random.randint(2, 24))
    if ranks < 2:
        return
    lattices = any(isinstance(tier, LatticeTier) for tier in fabric.tiers)
    # ring neighbours in the order of ranks need not be neighbours of a lattice
    primitive = "a2a" if lattices else random.choice(["a2a", "ar", "bc"])
    (group,) = colltool.contention(fabric, {"group": ranks, "count": 1}, primitive=primitive).groups
    assert (
        group.slowdown,
        group.interference,
        group.eta_alpha,
        group.extra_hops,
        group.eta_beta,
    ) == (1, 1, 1, 0, 1)


@swept("primitive", ["ar", "a2a", "bc"])
@swept("kind", ["block", "cyclic"])
@swept(
    "fabric",
    [
        small.fabric(small.star(4), small.clos(6, (2, 2.0), (6, 4.0, 3))),
        small.fabric(small.torus(4, 2), small.star(3)),
        small.fabric(small.full_mesh(8), small.full_mesh(2)),
    ],
)
def test_groups_that_stand_alike_are_slowed_alike(
    fabric: Fabric, kind: str, primitive: str
) -> None:
    """Half of an innermost domain each: what one domain meets, all do."""
    half = fabric.tiers[0].endpoints // 2
    pattern = {"kind": kind, "group": half, **({"stride": 2} if kind == "cyclic" else {})}
    groups = colltool.contention(fabric, pattern, primitive=primitive).groups
    assert len({group.slowdown for group in groups}) == 1
    assert len({group.eta_alpha for group in groups}) == 1
    assert np.ptp([group.extra_hops for group in groups]) == 0
