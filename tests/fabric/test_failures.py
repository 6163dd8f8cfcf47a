"""What one failed part takes down, against the same Clos built cable by cable with that part cut
out."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import NamedTuple

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.failures import Failure, failures_of, failures_of_plan
from colltool.fabric.properties import fabric_facts
from colltool.network.sizing.size_clos import ClosPlan, clos_plan

Node = tuple[str, int, int]  # level, rail, number
Cables = Counter[tuple[Node, Node]]


class Built(NamedTuple):
    """Cables by their ends, the lower one first; and which pod a leaf or spine of a rail is in."""

    cables: Cables
    pods: dict[Node, int]


def built(plan: ClosPlan, endpoints: int, ports: int) -> Built:
    """Endpoints fill leaves in their order; every leaf reaches every spine of its pod, every spine
    each switch of its plane."""
    cables: Cables = Counter()
    pods: dict[Node, int] = {}
    leaf = plan.levels[0]
    for rail in range(plan.rails):
        owners = [
            one
            for one in range(endpoints)
            for _ in range(max(1, ports // plan.rails))
            if ports > 1 or one % plan.rails == rail
        ]
        for port, owner in enumerate(owners):
            cables[("endpoint", 0, owner), ("leaf", rail, port // leaf.down_ports)] += 1
        if len(plan.levels) == 1:
            continue
        in_pod, spines = -(-plan.leaves // plan.pods), leaf.up_ports // plan.levels[1].parallel
        for one, spine in product(range(plan.leaves), range(spines)):
            pods["leaf", rail, one], number = one // in_pod, one // in_pod * spines + spine
            pods["spine", rail, number] = one // in_pod
            cables[("leaf", rail, one), ("spine", rail, number)] += plan.levels[1].parallel
        if len(plan.levels) == 3:
            in_plane = plan.levels[2].per_rail // plan.planes
            for one, top in product(range(spines * plan.pods), range(in_plane)):
                switch = one % spines % plan.planes * in_plane + top
                cables[("spine", rail, one), ("core", rail, switch)] += plan.levels[2].parallel
    return Built(cables, pods)


def outside(net: Built, level: str) -> dict[int, Counter[Node]]:
    """Of each endpoint, its cables up from a level by the group they leave: its own, those of its
    leaf or of its pod."""
    mine: dict[int, Counter[Node]] = {}
    rising: Counter[Node] = Counter()
    for (low, _), count in net.cables.items():
        if low[0] == level:
            rising[("pod", low[1], net.pods[low]) if level == "spine" else low] += count
    for low, high in net.cables:
        if low[0] == "endpoint":
            group = {"endpoint": low, "leaf": high}.get(level) or ("pod", high[1], net.pods[high])
            mine.setdefault(low[2], Counter())[group] = rising[group]
    return mine


def worst(net: Built, gone: list[Cables], level: str) -> tuple[int, float]:
    """Endpoints that lose cables up from a level, and the largest share that one of them loses,
    over every part of a kind."""
    before, found = outside(net, level), []
    for cut in gone:
        after = outside(
            net._replace(
                cables=+Counter({ends: count - cut[ends] for ends, count in net.cables.items()})
            ),
            level,
        )
        lost = []
        for endpoint, groups in before.items():
            left = after.get(endpoint, Counter())
            shares = [1 - left[group] / count for group, count in groups.items()]
            lost.append(sum(shares) / len(shares))
        found.append((sum(one > 0 for one in lost), max(lost)))
    return max(hit for hit, _ in found), max(share for _, share in found)


def parts(net: Built, plan: ClosPlan, one: Failure) -> list[Cables]:
    """The cables that go with each part of a kind."""
    level = {
        stage.name: name
        for stage, name in zip(plan.levels, ("leaf", "spine", "core"), strict=False)
    }[one.level]
    into = [ends for ends in net.cables if ends[1][0] == level]
    if one.part != "switch":
        return [Counter({ends: 1}) for ends in into]
    switches = {high for _, high in into}
    return [
        Counter({ends: count for ends, count in net.cables.items() if switch in ends})
        for switch in sorted(switches)
    ]


@given(
    st.integers(1, 12),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([4, 6, 8]),
    st.sampled_from([1, 2]),
    st.booleans(),
)
@settings(max_examples=examples(25), deadline=None)
def test_against_every_part_cut_out(
    half: int, ports: int, radix: int, rails: int, thin: bool
) -> None:
    endpoints = 2 * half
    try:
        plan = clos_plan(endpoints, ports, radix, rails=rails, hops=(1.0 + thin,))
    except ColltoolError as error:
        if "do not fit" not in error.what:
            raise
        return
    net = built(plan, endpoints, ports)
    below = {"": "endpoint", "leaf": "leaf", "spine": "spine"}
    unit = max(1, ports // rails)
    for one in failures_of_plan(plan, endpoints, ports):
        gone = parts(net, plan, one)
        hit, share = worst(net, gone, below[one.beyond])
        if plan.down_ports % unit:  # endpoints straddle leaves
            assert (hit, share) <= (one.endpoints, one.share + 1e-9)
            continue
        assert hit == one.endpoints
        assert share == pytest.approx(one.share)
        if one.part == "switch":
            assert len(gone) == one.count


def test_one_switch_a_pod_against_one_for_each_rail() -> None:
    """Collectives Explainer Series part 03 §1.1: 72 NICs on one switch share one failure domain; on
    four rails a quarter goes."""
    alone, rails = (
        colltool.size_fabric(4, 144, ports_per_endpoint=72, rails=count).failures[1]
        for count in (1, 4)
    )
    assert (alone.part, alone.level, alone.nics, alone.endpoints, alone.share, alone.cut_off) == (
        "switch",
        "leaf",
        72,
        1,
        1,
        1,
    )
    assert (rails.part, rails.level, rails.nics, rails.endpoints, rails.share, rails.cut_off) == (
        "switch",
        "leaf",
        72,
        4,
        0.25,
        0,
    )


def test_of_a_fabric_in_ranks() -> None:
    lost = {
        (one.tier, one.part, one.level): one for one in failures_of(colltool.load_fabric("nvl72"))
    }
    assert [
        lost["nvlink", "port", "nvlink"].cut_off,
        lost["nvlink", "switches", "nvlink"].cut_off,
    ] == [1, 72]
    leaf, spine = lost["ib", "switch", "leaf"], lost["ib", "switch", "spine"]
    assert (leaf.count, leaf.ranks, leaf.share, leaf.cut_off) == (32, 288, 0.25, 0)
    assert (spine.count, spine.ranks, spine.share, spine.beyond) == (16, 2304, 1 / 16, "leaf")
    (link,) = failures_of(colltool.load_fabric("torus512"))
    assert (link.part, link.count, link.ranks, link.share) == (
        "link",
        1536,
        2,
        pytest.approx(1 / 6),
    )
    unsized = failures_of(colltool.load_fabric("clos-4to1"))
    assert [one.part for one in unsized if one.tier == "fabric"] == ["NIC"], (
        "nobody knows its switches"
    )


@given(
    st.sampled_from(["torus", "mesh", "full_mesh"]),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 2),
)
@settings(max_examples=examples(30), deadline=None)
def test_a_link_between_endpoints_cut_out(topology: str, shape: list[int], ports: int) -> None:
    """Of a lattice or a full mesh, drawn link by link."""
    places = list(product(*map(range, shape)))
    extent = {"size": len(places)} if topology == "full_mesh" else {"shape": shape}
    tier = {
        "name": "net",
        "topology": topology,
        "alpha": "1us",
        "bandwidth": "1GB/s",
        "ports": ports,
        **extent,
    }
    links = {
        frozenset((one, other))
        for one, other in product(places, repeat=2)
        if one != other and joined(topology, shape, one, other)
    }
    met = Counter(place for link in links for place in link)
    found = failures_of(colltool.load_fabric({"name": "small", "tiers": [tier]}))
    if not links:
        assert found == ()
        return
    (one,) = found
    cut_off = max(sum(met[place] * ports == 1 for place in link) for link in links)
    assert (one.part, one.count, one.share, one.cut_off) == (
        "link",
        len(links) * ports,
        1 / (min(met.values()) * ports),
        cut_off,
    )


def joined(topology: str, shape: list[int], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    apart = [(abs(a - b), size) for a, b, size in zip(one, other, shape, strict=True) if a != b]
    near = len(apart) == 1 and (
        apart[0][0] == 1 or (topology == "torus" and apart[0][0] == apart[0][1] - 1)
    )
    return topology == "full_mesh" or near


def test_a_cube_of_a_lattice_is_lost_as_a_whole() -> None:
    """8 x 8 x 8 is eight cubes of 64 chips, and a pod of 4,096 has 56 more; 16 x 16 x 16 is all of
    a TPU v4 pod."""
    for overrides, cubes, room in (
        ([], 8, "room for 56 more"),
        (["ici.shape=[16,16,16]"], 64, "no room for any other"),
    ):
        where = colltool.load_fabric("tpu-v4-512", overrides)
        link, cube = failures_of(where)
        assert (link.part, link.endpoints, link.share) == ("link", 2, 1 / 6)
        assert (cube.part, cube.count, cube.ranks, cube.cut_off, cube.share) == (
            "cube",
            cubes,
            64,
            64,
            1.0,
        )
        (note,) = (one for one in fabric_facts(where).tiers[0].notes if "optical" in one)
        assert note.startswith(f"{cubes} cubes of 64")
        assert room in note
    assert [one.part for one in failures_of(colltool.load_fabric("torus512"))] == ["link"]
    assert [
        one.part for one in failures_of(colltool.load_fabric("tpu-v4-512", ["ici.shape=[2,4,4]"]))
    ] == ["link"]
