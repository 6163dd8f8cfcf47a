"""Derived facts against published numbers and against lattices built link by link."""

from __future__ import annotations

from collections import deque
from itertools import product
from math import prod
from pathlib import Path

import pytest
import yaml
from small import rail_pods
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import fabric_facts, tier_facts
from colltool.fabric.tiers import ClosTier, FullMeshTier, LatticeTier, StarTier
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.fat_tree import fat_tree, fat_tree_for

FABRICS = Path(__file__).parents[2] / "fabrics"

Link = frozenset[tuple[int, ...]]


def lattice(kind: str, shape: tuple[int, ...], **more: object) -> LatticeTier:
    return LatticeTier.model_validate(
        {"name": "t", "topology": kind, "shape": shape, "alpha": "1us", "bandwidth": 1e9, **more}
    )


def star(size: int, **more: object) -> StarTier:
    return StarTier.model_validate(
        {"name": "t", "topology": "star", "size": size, "alpha": "1us", "bandwidth": 1e9, **more}
    )


def full_mesh(size: int, **more: object) -> FullMeshTier:
    return FullMeshTier.model_validate(
        {
            "name": "t",
            "topology": "full_mesh",
            "size": size,
            "alpha": "1us",
            "bandwidth": 1e9,
            **more,
        }
    )


def clos(
    size: int, groups: list[int], ratios: list[float] | None = None, **more: object
) -> ClosTier:
    """A Clos; ``ratios`` are the oversubscriptions of the levels above the first."""
    levels: list[dict[str, object]] = [
        {"name": f"l{i}", "group": group, "alpha": f"{i + 1}us"} for i, group in enumerate(groups)
    ]
    for level, ratio in zip(levels[1:], ratios or [1.0] * len(levels[1:]), strict=True):
        level["oversubscription"] = ratio
    return ClosTier.model_validate(
        {"name": "t", "topology": "clos", "size": size, "bandwidth": 1e9, "levels": levels, **more}
    )


def shipped(name: str, **over: object) -> Fabric:
    document = yaml.safe_load((FABRICS / f"{name}.yaml").read_text(encoding="utf-8"))
    document["tiers"][-1].update(over)
    return Fabric.model_validate(document)


def links_of(kind: str, shape: tuple[int, ...]) -> set[Link]:
    """Every link of a lattice, from each node to the next one along each axis; a pair has one link
    at most."""
    links = set()
    for node in product(*map(range, shape)):
        for axis, d in enumerate(shape):
            step = node[axis] + 1
            if step == d and kind == "mesh":
                continue
            other = (*node[:axis], step % d, *node[axis + 1 :])
            if other != node:
                links.add(frozenset((node, other)))
    return links


def farthest(links: set[Link], start: tuple[int, ...]) -> int:
    distance, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for link in links:
            if node in link:
                (other,) = link - {node}
                if other not in distance:
                    distance[other] = distance[node] + 1
                    queue.append(other)
    return max(distance.values())


SMALL = [
    (1,),
    (2,),
    (3,),
    (5,),
    (8,),
    (2, 2),
    (3, 2),
    (3, 3),
    (4, 2),
    (5, 4),
    (4, 4),
    (2, 2, 2),
    (3, 3, 3),
    (4, 3, 2),
    (4, 1, 4),
]


@swept("kind", ["torus", "mesh"])
@swept("shape", SMALL)
def test_a_lattice_agrees_with_the_graph_built_link_by_link(
    kind: str, shape: tuple[int, ...]
) -> None:
    tier, links = lattice(kind, shape), links_of(kind, shape)
    nodes = list(product(*map(range, shape)))
    degrees = [sum(node in link for link in links) for node in nodes]
    assert capabilities_of(tier).neighbours == max(degrees)
    by_count = ", ".join(
        f"{degrees.count(met)} with {met}" for met in sorted(set(degrees), reverse=True)
    )
    assert tier_facts(tier).notes == ((f"neighbours: {by_count}",) if len(set(degrees)) > 1 else ())
    assert tier_facts(tier).links == len(links)
    assert capabilities_of(tier).diameter_links == max(farthest(links, node) for node in nodes)
    cuts = [
        sum(len({node[axis] < d // 2 for node in link}) == 2 for link in links)
        for axis, d in enumerate(shape)
        if d > 1
    ]
    assert capabilities_of(tier).bisection_Bps == min(cuts, default=0) * 1e9


def test_the_rim_of_a_mesh_has_fewer_neighbours() -> None:
    """6 inside, 5 on a face, 4 on an edge, 3 in a corner."""
    assert tier_facts(lattice("mesh", (8, 8, 8))).notes == (
        "neighbours: 216 with 6, 216 with 5, 72 with 4, 8 with 3",
    )
    assert tier_facts(lattice("torus", (8, 8, 8))).notes == ()


def test_the_cut_of_a_cube_is_the_least_of_all_balanced_cuts() -> None:
    """Every way of splitting a 2x2x2 and a 4x2 lattice into halves, not only those along an
    axis."""
    for kind, shape in [
        ("torus", (2, 2, 2)),
        ("mesh", (2, 2, 2)),
        ("torus", (4, 2)),
        ("mesh", (4, 2)),
        ("torus", (3, 2)),
    ]:
        nodes, links = list(product(*map(range, shape))), links_of(kind, shape)
        least = min(
            sum(len({node in half for node in link}) == 2 for link in links)
            for bits in range(2 ** len(nodes))
            if bits.bit_count() == len(nodes) // 2
            for half in [{node for i, node in enumerate(nodes) if bits >> i & 1}]
        )
        assert capabilities_of(lattice(kind, shape)).bisection_Bps == least * 1e9


# Collectives Explainer Series part 02 §1.2 (neighbours), appendix B (diameters).
@swept(
    ("shape", "expected"),
    [((3, 3, 3), 6), ((3, 3, 4), 6), ((4, 4, 2), 5), ((2, 2, 2), 3), ((8, 1, 1), 2)],
)
def test_neighbours_of_the_published_tori(shape: tuple[int, ...], expected: int) -> None:
    assert capabilities_of(lattice("torus", shape)).neighbours == expected


@swept(
    ("kind", "shape", "expected"),
    [
        ("torus", (3, 3), 2),
        ("mesh", (3, 3), 4),
        ("torus", (512,), 256),
        ("torus", (32, 16), 24),
        ("torus", (8, 8, 8), 12),
        ("torus", (8, 4, 4, 4), 10),
        ("mesh", (32, 16), 46),
        ("mesh", (8, 8, 8), 21),
        ("mesh", (8, 4, 4, 4), 16),
    ],
)
def test_diameters_of_the_published_lattices(
    kind: str, shape: tuple[int, ...], expected: int
) -> None:
    assert capabilities_of(lattice(kind, shape)).diameter_links == expected


# Collectives Explainer Series part 02 §3.6, §4.2: 2N/d_max links across a torus, half of it across
# a mesh.
@swept("shape", [(4, 4), (8, 8, 8), (32, 16), (16, 16, 16)])
def test_bisection_of_even_lattices(shape: tuple[int, ...]) -> None:
    torus = capabilities_of(lattice("torus", shape)).bisection_Bps
    assert torus == 2 * prod(shape) / max(shape) * 1e9
    assert capabilities_of(lattice("mesh", shape)).bisection_Bps == torus / 2


# Collectives Explainer Series part 02 appendix B: star 2, full mesh 1, two-level Clos 4,
# three-level 6.
def test_diameters_of_switched_fabrics() -> None:
    assert capabilities_of(star(8)).diameter_links == 2
    assert capabilities_of(full_mesh(8)).diameter_links == 1
    assert capabilities_of(clos(16, [4, 16])).diameter_links == 4
    assert capabilities_of(clos(64, [4, 16, 64])).diameter_links == 6


def test_a_level_that_no_pair_needs_is_not_counted() -> None:
    inside = clos(4, [4, 16], [4.0])
    assert capabilities_of(inside).diameter_links == 2
    assert capabilities_of(inside).bisection_Bps == 2e9
    assert tier_facts(inside).links == 4


def test_a_single_endpoint_has_no_links_to_cross() -> None:
    for tier in (star(1), full_mesh(1), clos(1, [4, 16]), lattice("torus", (1, 1))):
        assert capabilities_of(tier).diameter_links == 0
        assert capabilities_of(tier).bisection_Bps == 0


def test_bisection_of_switched_fabrics() -> None:
    assert capabilities_of(star(72)).bisection_Bps == 36e9
    assert capabilities_of(star(7)).bisection_Bps == 3e9
    assert capabilities_of(full_mesh(8)).bisection_Bps == 16e9
    assert capabilities_of(full_mesh(5)).bisection_Bps == 6e9
    assert capabilities_of(clos(64, [4, 64])).bisection_Bps == 32e9
    assert capabilities_of(clos(64, [4, 64], [4.0])).bisection_Bps == 8e9
    assert capabilities_of(clos(64, [4, 16, 64], [2.0, 4.0])).bisection_Bps == 8e9
    assert capabilities_of(clos(64, [4, 16, 64], [4.0, 1.0])).bisection_Bps == 8e9


def test_parallel_ports_multiply_bisection_and_links_and_leave_the_rest() -> None:
    pairs: list[tuple[Tier, Tier]] = [
        (star(8), star(8, ports=3)),
        (full_mesh(8), full_mesh(8, ports=3)),
        (lattice("torus", (4, 4)), lattice("torus", (4, 4), ports=3)),
        (clos(16, [4, 16]), clos(16, [4, 16], ports=3)),
    ]
    for one, three in pairs:
        a, b = tier_facts(one), tier_facts(three)
        assert (b.bisection_Bps, b.links) == (3 * a.bisection_Bps, 3 * a.links)
        assert (b.neighbours, b.diameter_links, b.switches) == (
            a.neighbours,
            a.diameter_links,
            a.switches,
        )


# Al-Fares et al. 2008 §3; Collectives Explainer Series part 03 appendix B.
@swept(
    ("k", "endpoints", "switches", "core"),
    [(4, 16, 20, 4), (48, 27648, 2880, 576), (64, 65536, 5120, 1024)],
)
def test_the_published_fat_trees(k: int, endpoints: int, switches: int, core: int) -> None:
    tree = fat_tree(k)
    assert (tree.endpoints, tree.switches, tree.core) == (endpoints, switches, core)


@swept("k", [2, 4, 6, 24, 64])
def test_every_port_of_a_fat_tree_is_used(k: int) -> None:
    tree = fat_tree(k)
    assert tree.switches == tree.edge + tree.aggregation + tree.core
    assert tree.switches * k == 2 * tree.links - tree.endpoints


@swept("k", [-2, 0, 1, 3, 47])
def test_an_odd_or_tiny_fat_tree_is_refused(k: int) -> None:
    with pytest.raises(ColltoolError, match="even"):
        fat_tree(k)


def test_the_smallest_fat_tree_that_holds() -> None:
    assert fat_tree_for(1).k == 2
    assert fat_tree_for(16).k == 4
    assert fat_tree_for(17).k == 6
    assert fat_tree_for(65536).k == 64
    for endpoints in range(1, 400):
        k = fat_tree_for(endpoints).k
        assert k == 2 or fat_tree(k - 2).endpoints < endpoints <= fat_tree(k).endpoints
    with pytest.raises(ColltoolError, match="at least 1"):
        fat_tree_for(0)


def test_the_published_superpod() -> None:
    """Collectives Explainer Series part 03 appendix A: 32 NVL72 pods, 4 rails, 144-port
    switches."""
    pods = rail_pods(pods=32, rails=4, nics_per_rail=18, radix=144)
    assert (pods.down_ports, pods.up_ports) == (72, 72)
    assert (pods.leaves, pods.spines, pods.cables_per_pair, pods.switches) == (8, 4, 18, 48)
    assert pods.cables == 2304
    assert pods.notes == ()


# NVIDIA DGX SuperPOD reference architecture, component table: scalable units, leaves, spines,
# leaf-spine cables.
@pytest.mark.parametrize(
    ("units", "leaves", "spines", "cables"), [(2, 16, 8, 512), (4, 32, 16, 1024)]
)
def test_the_switch_counts_of_dgx_superpods(
    units: int, leaves: int, spines: int, cables: int
) -> None:
    pods = rail_pods(pods=32 * units, rails=8, nics_per_rail=1, radix=64)
    assert (8 * pods.leaves, 8 * pods.spines, pods.cables) == (leaves, spines, cables)


def test_ports_split_in_the_ratio_asked_for() -> None:
    three_to_one = rail_pods(pods=48, rails=1, nics_per_rail=1, radix=64, oversubscription=3)
    assert (three_to_one.down_ports, three_to_one.up_ports) == (48, 16)
    four_to_one = rail_pods(pods=32, rails=4, nics_per_rail=18, radix=144, oversubscription=4)
    assert (
        four_to_one.down_ports,
        four_to_one.up_ports,
        four_to_one.leaves,
        four_to_one.spines,
    ) == (96, 24, 6, 1)
    whole = rail_pods(pods=25, rails=4, nics_per_rail=18, radix=144)
    assert (whole.down_ports, whole.leaves, whole.spines) == (
        72,
        7,
        4,
    ), "of equally many switches those without a split pod"


@swept("pods", range(1, 129))
@swept(("nics", "radix", "ratio"), [(1, 4, 1), (18, 144, 1), (1, 64, 3), (5, 48, 2)])
def test_what_was_bought_can_be_wired(pods: int, nics: int, radix: int, ratio: int) -> None:
    if pods * nics > radix * (radix * ratio // (1 + ratio)):
        with pytest.raises(ColltoolError, match="do not fit"):
            rail_pods(pods, 2, nics, radix, ratio)
        return
    bought = rail_pods(pods, 2, nics, radix, ratio)
    assert bought.down_ports + bought.up_ports <= radix
    assert bought.down_ports <= ratio * bought.up_ports
    assert (
        bought.leaves * bought.down_ports >= pods * nics > (bought.leaves - 1) * bought.down_ports
    )
    if bought.leaves > 1:
        assert bought.spines * bought.cables_per_pair == bought.up_ports
        assert bought.leaves * bought.cables_per_pair <= radix
    assert bought.switches == 2 * (bought.leaves + bought.spines)
    rounded = (
        pods * nics % bought.down_ports or bought.leaves * bought.up_ports != bought.spines * radix
    )
    assert bool(bought.notes) >= bool(rounded)


@swept(
    "bad",
    [
        {"pods": 0},
        {"rails": 0},
        {"nics_per_rail": -1},
        {"radix": 0},
        {"radix": 1},
        {"oversubscription": 0.5},
    ],
)
def test_impossible_rails_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ColltoolError):
        rail_pods(**{"pods": 4, "rails": 1, "nics_per_rail": 1, "radix": 4, **bad})  # type: ignore[arg-type]


def test_a_ratio_that_is_no_number_is_refused() -> None:
    with pytest.raises(ColltoolError, match="below 1"):
        rail_pods(4, 1, 1, 4, float("nan"))


def test_facts_of_the_shipped_superpod() -> None:
    facts = fabric_facts(shipped("nvl72"))
    nvlink, ib = facts.tiers
    assert facts.ranks == 2304
    assert (nvlink.ranks, nvlink.domains, ib.ranks, ib.domains, ib.planes) == (72, 32, 2304, 1, 72)
    assert nvlink.bisection_Bps == 36 * 900e9
    assert ib.bisection_Bps == 2304 * 50e9 / 2
    assert ib.sizing is not None
    assert ib.sizing.switches == 48
    assert ib.links == 2304 + 2304
    assert facts.links == 32 * 72 + ib.links
    assert facts.switches == 32 + 48


def test_facts_of_a_clos_without_sizing() -> None:
    """1024 NICs, as many links from leaf to spine, a quarter as many to the core; the radix is not
    given."""
    fabric = fabric_facts(shipped("clos-4to1"))
    assert fabric.switches is None
    facts = fabric.tiers[1]
    assert (facts.links, facts.switches, facts.diameter_links) == (1024 + 1024 + 256, None, 6)
    assert facts.bisection_Bps == 1024 * 50e9 / 2 / 4
    assert facts.fat_tree is not None
    assert facts.fat_tree.k == 16


def test_sizing_that_does_not_fit_is_a_note() -> None:
    split = shipped(
        "nvl72",
        levels=[
            {"name": "leaf", "group": 4, "alpha": "2us"},
            {"name": "spine", "group": 32, "alpha": "8us", "oversubscription": 4},
        ],
    )
    ib = fabric_facts(split).tiers[1]
    assert ib.sizing is not None
    assert (ib.sizing.leaves, ib.sizing.down_ports, ib.sizing.up_ports) == (8, 72, 18)
    assert ib.misfits == ("a leaf of 144 ports has room for 6 endpoints, the level 'leaf' has 4",)
    assert ib.sizing.notes == ("leaf: a switch leaves 54 of its 144 ports unused",)
    other = fabric_facts(
        shipped("nvl72", sizing={"rails": 4, "nics_per_rail": 9, "radix": 144})
    ).tiers[1]
    assert other.sizing is None
    assert "36 NICs" in " ".join(other.notes)
    leaf = fabric_facts(
        shipped("nvl72", sizing={"rails": 4, "nics_per_rail": 18, "radix": 72})
    ).tiers[1]
    assert leaf.sizing is None
    assert "sizing: a leaf of 72 ports down needs 72 up" in " ".join(leaf.notes)


def test_the_scalable_unit_needs_no_spine() -> None:
    ib = fabric_facts(shipped("dgx-h100")).tiers[1]
    assert ib.sizing is not None
    assert (ib.sizing.leaves, ib.sizing.spines, ib.diameter_links) == (1, 0, 2)
    four = fabric_facts(shipped("dgx-h100", size=128)).tiers[1]
    assert four.sizing is not None
    assert (four.sizing.switches, four.diameter_links) == (48, 4)


def test_sigma_is_injection_over_bisection() -> None:
    full = load_fabric("dgx-h100", ["ib.size=64"])
    thin = load_fabric("dgx-h100", ["ib.size=64", "ib.levels.spine.oversubscription=4"])
    assert [capabilities_of(tier).sigma_of(1) for tier in full.tiers] == [1, 1]
    assert [capabilities_of(tier).sigma_of(1) for tier in thin.tiers] == [1, 4]
    torus = load_fabric("torus512").tiers[0]  # 8x8x8: 6 links each, 128 of them across the middle
    assert capabilities_of(torus).sigma_of(1) == 512 / 2 * 6 / 128


def test_nics_that_fill_a_leaf_have_one_for_each_rack() -> None:
    """000/03 §1.1, layout 1: all 72 NICs of a rack on one switch of 144 ports, 72 down and 72 up,
    32 of them for 32 racks."""
    block = {"rails": 1, "nics_per_rail": 72, "radix": 144}
    shared = fabric_facts(shipped("superpod-textbook", sizing=block)).tiers[1]
    assert shared.sizing is not None
    assert (shared.sizing.leaves, shared.sizing.down_ports, shared.sizing.up_ports) == (32, 72, 72)
    assert shared.fat_tree is None
    assert shared.misfits == (
        (
            "a leaf of 144 ports has room for 1 endpoint, the level 'leaf' has 4: counted with a"
            " leaf for each; levels.leaf.group=1 prices it so too"
        ),
    )
    levels = [
        {"name": "leaf", "group": 1, "alpha": "2us"},
        {"name": "spine", "group": 32, "alpha": "8us"},
    ]
    alone = fabric_facts(shipped("superpod-textbook", sizing=block, levels=levels)).tiers[1]
    assert alone.sizing == shared.sizing
    assert not alone.misfits
