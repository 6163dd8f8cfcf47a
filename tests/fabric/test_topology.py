"""What tiers answer, against graphs built cable by cable and groups placed rank by rank."""

from __future__ import annotations

from collections import deque
from itertools import combinations, pairwise, product
from math import inf, prod
from typing import get_args

import pytest
from small import TOPOLOGIES
from swept import swept

from colltool.definitions.field_types import Alpha
from colltool.fabric import templates, tier_line, uneven
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.group import SEVERAL_TIERS, Axis, Topology, joined_by

Node = tuple[object, ...]
Graph = dict[frozenset[Node], float]


def tier(topology: str, **more: object) -> Tier:
    data = {"name": "t", "topology": topology, "bandwidth": 1e9, **more}
    if "levels" not in data:
        data["alpha"] = "1us"
    return Fabric.model_validate({"name": "f", "tiers": [data]}).tiers[0]


def clos(size: int, groups: tuple[int, ...], ratios: tuple[float, ...]) -> Tier:
    levels = [
        {"name": f"l{i}", "group": g, "alpha": f"{i + 1}us", "oversubscription": s}
        for i, (g, s) in enumerate(zip(groups, (1.0, *ratios), strict=True))
    ]
    return tier("clos", size=size, levels=levels)


def clos_graph(size: int, groups: tuple[int, ...], ratios: tuple[float, ...]) -> Graph:
    """A cable from every endpoint to its leaf, and from every domain to the one around it cables
    worth g/s ports."""
    cables: Graph = {frozenset({("end", e), (0, e // groups[0])}): 1.0 for e in range(size)}
    for level, ((below, above), ratio) in enumerate(zip(pairwise(groups), ratios, strict=True)):
        for domain in range(size // below):
            cables[frozenset({(level, domain), (level + 1, domain * below // above)})] = (
                below / ratio
            )
    return cables


def mesh_graph(size: int) -> Graph:
    return {frozenset({("end", a), ("end", b)}): 1.0 for a, b in combinations(range(size), 2)}


def diameter(cables: Graph, size: int) -> int:
    """Cables between the two endpoints that are farthest apart, by walking outwards from each."""
    farthest = 0
    for start in range(size):
        apart: dict[Node, int] = {("end", start): 0}
        waiting = deque(apart)
        while waiting:
            here = waiting.popleft()
            for cable in cables:
                if here in cable:
                    (there,) = cable - {here}
                    if there not in apart:
                        apart[there] = apart[here] + 1
                        waiting.append(there)
        farthest = max(farthest, *(apart["end", end] for end in range(size)))
    return farthest


def bisection(cables: Graph, size: int) -> float:
    """The least that two halves of the endpoints are joined by, whichever endpoints and wherever
    the switches stand."""
    switches = sorted({node for cable in cables for node in cable if node[0] != "end"}, key=str)
    least = inf
    for half in combinations(range(size), size // 2):
        for sides in product((True, False), repeat=len(switches)):
            here = {("end", end) for end in half} | {
                one for one, side in zip(switches, sides, strict=True) if side
            }
            least = min(
                least, sum(rate for cable, rate in cables.items() if len(cable & here) == 1)
            )
    return least


@swept(
    ("size", "groups", "ratios"),
    [
        (4, (2, 4), (1.0,)),
        (6, (2, 6), (2.0,)),
        (8, (2, 4, 8), (1.0, 2.0)),
        (8, (2, 4, 8), (4.0, 1.0)),
        (8, (4, 8), (3.0,)),
    ],
)
def test_a_clos_is_its_cables(
    size: int, groups: tuple[int, ...], ratios: tuple[float, ...]
) -> None:
    kind, cables = capabilities_of(clos(size, groups, ratios)), clos_graph(size, groups, ratios)
    assert kind.diameter_links == diameter(cables, size)
    if size % (2 * groups[-2]) == 0:  # halves of whole domains
        assert kind.bisection_Bps == pytest.approx(1e9 * bisection(cables, size))
    if all(size / ratio == size // ratio for ratio in ratios):
        assert kind.links(3) == 3 * sum(cables.values())
    assert kind.switches(2) is None


@swept("size", [2, 3, 5, 6])
def test_a_full_mesh_and_a_star_are_their_cables(size: int) -> None:
    kind, cables = capabilities_of(tier("full_mesh", size=size)), mesh_graph(size)
    assert (kind.diameter_links, kind.bisection_Bps) == (
        diameter(cables, size),
        1e9 * bisection(cables, size),
    )
    assert (kind.links(2), kind.neighbours, kind.switches(2)) == (2 * len(cables), size - 1, 0)
    star, cables = capabilities_of(tier("star", size=size)), clos_graph(size, (size,), ())
    assert (star.diameter_links, star.bisection_Bps) == (
        diameter(cables, size),
        1e9 * bisection(cables, size),
    )
    assert (star.links(2), star.neighbours, star.switches(2)) == (2 * len(cables), 1, 1)


@swept("topology", ["torus", "mesh"])
@swept("shape", [(4,), (4, 3), (2, 3, 2), (1, 4, 2)])
def test_a_part_of_a_lattice_is_a_box_of_its_first_ranks(
    topology: str, shape: tuple[int, ...]
) -> None:
    kind = capabilities_of(tier(topology, shape=list(shape)))
    # the first axis fastest
    nodes = [place[::-1] for place in product(*(range(size) for size in reversed(shape)))]
    for count in range(1, prod(shape) + 1):
        extents = [len({node[axis] for node in nodes[:count]}) for axis in range(len(shape))]
        is_box = prod(extents) == count
        whole = [
            Axis(extent, wrap=topology == "torus" and extent == size)
            for extent, size in zip(extents, shape, strict=True)
        ]
        assert kind.part(count) == (tuple(whole) if is_box else None), count


def every_kind() -> list[TierCapabilities[Tier]]:
    shapes: dict[str, dict[str, object]] = {word: {"shape": [4, 2]} for word in ("torus", "mesh")}
    shapes["hyperx"] = {"shape": [4, 2], "hosts": 2}
    shapes["graph"] = {"edges": [[0, 1], [1, 2], [2, 3], [3, 0], [0, "s"], [2, "s"]]}
    link = {"bandwidth": 1e9, "alpha": "1us"}
    groups = {"hosts": 2, "switches": 2, "groups": 2, "local": link, "global": link}
    shapes |= {"dragonfly": groups, "dragonfly_plus": {**groups, "spines": 2}}
    return [capabilities_of(tier(word, **shapes.get(word, {"size": 8}))) for word in TOPOLOGIES] + [
        capabilities_of(clos(8, (2, 8), (2.0,)))
    ]


@swept("kind", every_kind())
def test_every_kind_agrees_with_itself(kind: TierCapabilities[Tier]) -> None:
    groups = [one.group for one in kind.classes]
    assert groups == sorted(set(groups))
    assert groups[-1] >= kind.tier.endpoints
    assert kind.classes[0].oversubscription == 1
    assert kind.part(kind.tier.endpoints) == kind.axes
    later = capabilities_of(kind.tier.model_copy(update=dict(kind.at_alpha(5e-6))))
    assert later.classes[0].alpha_s == 5e-6
    added = [
        [one.alpha_s - classes[0].alpha_s for one in classes]
        for classes in (kind.classes, later.classes)
    ]
    assert added[1] == pytest.approx(added[0])
    assert set(kind.at_alpha(1e-6)) <= set(type(kind.tier).model_fields)


@swept("kind", every_kind())
def test_a_latency_of_its_own_is_in_what_it_states(kind: TierCapabilities[Tier]) -> None:
    """Other keys of a tier that are times as its alpha is: protocols and fits set the whole of it."""
    like = TOPOLOGIES["star"].model_fields["alpha"].metadata
    for name, field in type(kind.tier).model_fields.items():
        times = field.metadata == like or Alpha in get_args(field.annotation)
        if times and name != "alpha":
            longer = capabilities_of(kind.tier.model_copy(update={name: 3e-6}))
            assert longer.nearest_alpha_s == pytest.approx(longer.classes[0].alpha_s), name
            later = capabilities_of(longer.tier.model_copy(update=dict(longer.at_alpha(5e-6))))
            assert later.classes[0].alpha_s == pytest.approx(5e-6), name


@swept("kind", every_kind())
def test_what_joins_a_tier_is_what_its_links_are(kind: TierCapabilities[Tier]) -> None:
    joined = joined_by(kind.tier.topology)
    if joined == "switches":
        assert kind.axes == ()
        assert kind.diameter_links % 2 == 0, "up to a switch and down again"
        assert kind.switches(1) != 0, "a bill would leave them out; None: the radix decides"
    elif joined == "pair_links":
        assert (kind.axes, kind.diameter_links) == ((), 1)
        assert kind.neighbours == kind.tier.endpoints - 1
    elif joined == "routes":
        wires = kind.wires(kind.tier.endpoints)
        assert wires is not None
        assert wires.endpoints == kind.tier.endpoints
        assert kind.diameter_links >= 1
    else:
        assert prod(axis.size for axis in kind.axes) == kind.tier.endpoints
        assert kind.diameter_links == sum(axis.diameter for axis in kind.axes)
        assert kind.neighbours == sum(min(axis.size - 1, 2) for axis in kind.axes)
        assert kind.slice(2) is not None
        assert kind.slice(2).endpoints == 2


def test_the_words_of_the_registry_are_those_of_the_file() -> None:
    assert set(get_args(Topology)) - SEVERAL_TIERS == set(TOPOLOGIES)
    assert {joined_by(topology) for topology in SEVERAL_TIERS} == {"tiers"}


def test_tables_by_topology_have_words_that_exist() -> None:
    """Which take domains of different sizes, and which a line can describe; of any other the error
    names these."""
    for table in (uneven.INSIDE, uneven.OUTSIDE, tier_line.ETAS):
        assert set(table) <= set(TOPOLOGIES)


def test_the_comment_beside_a_topology_names_them_all() -> None:
    *others, last = TOPOLOGIES
    assert templates.COMMENTS["tiers.topology"] == f"{', '.join(others)} or {last}"


def test_other_in_network_hardware_goes_only_where_there_is_some() -> None:
    switch = {"reduce": True, "multicast": True, "alpha_switch": "0.2us"}
    for word in ("star", "clos"):
        able = tier(word, size=8, in_network=switch)
        assert (
            capabilities_of(
                able.model_copy(update=dict(capabilities_of(able).with_switch(None)))
            ).in_network
            is None
        )
    for bare in (tier("star", size=8), tier("full_mesh", size=8), tier("torus", shape=[4])):
        assert capabilities_of(bare).with_switch(None) == {}


def test_what_switches_compute_is_what_the_file_says() -> None:
    for flags in product((True, False), repeat=3):
        listed = dict(zip(("reduce", "multicast", "all_to_all"), flags, strict=True))
        kind = capabilities_of(tier("star", size=8, in_network={**listed, "alpha_switch": "0.2us"}))
        assert kind.operations == {name for name, can in listed.items() if can}
