"""What a layout costs, held against hand counts, an independent walk of lattice links, and
prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, RS, Primitive
from colltool.congestion.contention import Contention
from colltool.congestion.loads import link_models
from colltool.congestion.traffic import Members, message_estimate
from colltool.congestion.traffic_by_formula import row_by_formula, traffic
from colltool.fabric.load import load_fabric, read_fabric
from colltool.network.group import Axis
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import SwitchedLinks
from colltool.network.routed_links import RoutedLinks
from tests import small
from tests.wiring import LatticeNetwork, link_name, on


def test_all_to_all_on_a_4x4_torus_puts_8_chunks_on_every_link() -> None:
    result = on("torus512", "torus.shape=[4,4]", primitive="a2a", per_link=True)
    assert len(result.links) == 64  # 16 ranks, two axes, two directions
    assert {link.load * 16 for link in result.links} == {8.0}
    assert result.slowdown == 1.0


def test_rings_on_whole_lines_of_one_axis_share_nothing() -> None:
    """The textbooks' eight replicas of TP=8: lines of one axis are disjoint, whichever of the 64
    they are."""
    for count in (8, 64):
        result = on("torus512", kind="axis", axis=1, group=8, count=count)
        assert (result.slowdown, result.shared, result.loaded) == (1.0, 0, 8 * count)
        assert {group.eta_alpha for group in result.groups} == {1.0}
        assert any("no link carries two groups" in note for note in result.notes)


def test_replicas_that_interleave_on_a_line_share_all_of_it() -> None:
    result = on("torus512", kind="axis", axis=1, group=4, stride=2)
    assert (result.slowdown, result.shared, result.loaded) == (2.0, 512, 512)
    assert {(group.eta_beta, group.eta_alpha, group.extra_hops) for group in result.groups} == {
        (0.5, 2.0, 1)
    }
    assert not any("no link carries two groups" in note for note in result.notes)


def test_a_group_spread_over_two_axes_pays_hops() -> None:
    """4x2 in plain order: six neighbours, and two turns of 3 hops back and 1 across."""
    result = on("torus512", kind="box", shape=(4, 2))
    assert {(group.eta_alpha, group.extra_hops) for group in result.groups} == {
        ((6 * 1 + 2 * 4) / 8, 3)
    }
    assert result.shared == 0


def test_groups_of_six_on_an_axis_of_eight_run_into_each_other() -> None:
    result = on("torus512", kind="block", group=6)
    assert result.slowdown == 2.0
    assert result.shared > 0


def test_an_off_prefix_group_leaves_its_line() -> None:
    straight, off = on("torus512", group=8, count=1), on("torus512", group=8, count=1, start=4)
    assert (straight.groups[0].eta_alpha, straight.groups[0].extra_hops) == (1.0, 0)
    assert (off.groups[0].eta_alpha, off.groups[0].extra_hops) == ((6 * 1 + 2 * 2) / 8, 1)


def test_random_groups_are_the_same_for_a_seed() -> None:
    one, same, other = (on("torus512", kind="random", group=8, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.hottest != other.hottest
    assert one.slowdown > 2


CLOS = """
name: clos
tiers:
  - name: net
    topology: clos
    size: 64
    bandwidth: 50GB/s
    levels:
      - {name: leaf, group: 8, alpha: 2us}
      - {name: spine, group: 64, alpha: 8us, oversubscription: 4}
"""


def clos(layout: dict[str, Any], **options: Any) -> Contention:
    return colltool.contention(read_fabric(CLOS, "clos.yaml"), layout, **options)


def test_packed_against_scattered_on_an_oversubscribed_clos() -> None:
    packed, scattered = (
        clos({"kind": kind, "group": 8}, primitive="a2a") for kind in ("block", "cyclic")
    )
    assert (packed.slowdown, packed.groups[0].eta_alpha, packed.groups[0].extra_hops) == (
        1.0,
        1.0,
        0,
    )
    # every member under a leaf of its own: 8 ranks a leaf send 7/8 M each through uplinks of 8/4
    # ports
    assert scattered.slowdown == 4.0
    assert scattered.hottest[0].link == "net leaf 0 uplinks"
    assert scattered.hottest[0].load == 7.0
    assert (scattered.groups[0].eta_alpha, scattered.groups[0].extra_hops) == (4.0, 2)


def test_a_group_alone_may_not_feel_the_oversubscription() -> None:
    """One flow out of every leaf finds two ports' worth of uplinks; eight groups at once do not."""
    assert clos({"kind": "cyclic", "group": 8, "count": 1}).slowdown == 1.0
    assert clos({"kind": "cyclic", "group": 8, "count": 8}).slowdown == 4.0


def test_the_packed_ideal_pays_what_the_wiring_costs_anybody() -> None:
    """An all-to-all over the whole Clos is bound by its uplinks however it is laid out."""
    result = clos({}, primitive="a2a")
    assert result.hottest[0].load == 8 * 56 / 64
    assert result.slowdown == 1.0
    assert result.etas[0].beta == 1.0


def test_a_map_that_rotates_gpus_breaks_the_rails() -> None:
    rails = {"kind": "cyclic", "group": 32, "stride": 8}
    four = load_fabric("dgx-h100", ["ib.levels.spine.oversubscription=4"])
    aligned, broken = (
        colltool.contention(four, rails, placed=placed) for placed in ("identity", "rotate")
    )
    assert (aligned.slowdown, aligned.groups[0].extra_hops) == (1.0, 0)
    assert (broken.slowdown, broken.groups[0].extra_hops) == (4.0, 2)
    # every hop 8 us instead of 2
    assert broken.groups[0].eta_alpha == pytest.approx(8 / 2 * aligned.groups[0].eta_alpha)
    assert any(note.startswith("rails:") for note in broken.notes)


def test_a_packed_ring_over_nodes_stays_on_its_rails() -> None:
    """The last GPU of a node hands over to the first one's rail inside the node."""
    assert on("dgx-h100", group=64).groups[0].eta_alpha == 1.0


def test_several_collectives_at_once_add_up() -> None:
    from colltool.congestion.layout import read_layout

    text = """
    overlap: true
    groups:
      - {name: tp, ranks: [0, 1, 2, 3, 4, 5, 6, 7], primitive: ar}
      - {name: ep, ranks: [0, 1, 2, 3, 4, 5, 6, 7], primitive: a2a}
    """
    fabric = load_fabric("torus512")
    result = colltool.contention(fabric, read_layout(text, "l.yaml", fabric), per_link=True)
    tp, ep = result.groups
    # both on the way up, the all-to-all alone down
    assert {link.load for link in result.links} == {14 / 8 + 1, 1.0}
    assert tp.slowdown == pytest.approx(2.75 / 1.75)
    assert ep.slowdown == pytest.approx(2.75)
    assert result.shared == 8


def test_sizes_for_some_groups_only_are_refused() -> None:
    from colltool.congestion.layout import read_layout

    fabric = load_fabric("star512")
    layout = read_layout(
        "groups:\n - {name: a, ranks: [0, 1], size: 1MB}\n - {name: b, ranks: [2, 3]}\n",
        "l.yaml",
        fabric,
    )
    with pytest.raises(ColltoolError, match=r"l\.yaml:3:4: group 'b' has no size"):
        colltool.contention(fabric, layout)
    assert colltool.contention(fabric, layout, size="1MB").groups[1].bytes == 1e6


@swept("kind", ["torus", "mesh"])
@swept("shape", [(4, 4), (2, 3, 5), (8,), (1, 6, 2), (7, 2)])
def test_links_are_those_of_the_lattice_that_schedules_run_on(
    kind: str, shape: tuple[int, ...]
) -> None:
    name = {"torus": "torus512", "mesh": "mesh512"}[kind]
    fabric = load_fabric(name, [f"{kind}.shape={list(shape)}"])
    (links,) = link_models(fabric)
    rng = np.random.default_rng(7)
    src, dst = rng.integers(0, fabric.ranks, (2, 200))
    size = rng.random(200)
    counted = np.zeros((len(shape), 2, fabric.ranks))
    for use in links.uses(src, dst):
        axis, way = divmod(use.number, 2)
        counted[axis, way] += np.bincount(use.resource, size[use.message] * use.share, fabric.ranks)
        assert links.classes[use.number].exists[use.resource].all()
    lattice = LatticeNetwork([Axis(d, kind == "torus") for d in shape])
    np.testing.assert_allclose(counted.ravel(), lattice.loads(src, dst, size), atol=1e-12)
    assert links.latency(src, dst)[1].max() == lattice.distance(src, dst)
    assert f"axis 1, {links.name(0, 0).partition(' ')[2]}" == link_name(lattice, 0)


def test_lattices_in_copies_keep_their_links_apart() -> None:
    text = """
name: pods
tiers:
  - {name: ring, topology: torus, shape: [4], alpha: 1us, bandwidth: 100GB/s}
  - {name: net, topology: star, size: 3, alpha: 5us, bandwidth: 10GB/s}
"""
    fabric = read_fabric(text, "pods.yaml")
    inner, outer = link_models(fabric)
    assert isinstance(inner, LatticeLinks)
    assert isinstance(outer, SwitchedLinks)
    up, *_ = inner.uses(np.array([4, 8]), np.array([5, 9]))
    assert [inner.name(0, int(link)) for link in up.resource] == [
        "ring 1 (0) -> (1)",
        "ring 2 (0) -> (1)",
    ]
    result = colltool.contention(fabric, {"kind": "cyclic", "group": 3})
    assert {link.link.split()[0] for link in result.hottest} == {"net"}


@swept(
    ("primitive", "algorithm", "bytes_out"),
    [
        (AR, "ring", 14 / 8),
        (RS, "ring", 7 / 8),
        (AG, "recursive-doubling", 7 / 8),
        (RS, "recursive-halving", 7 / 8),
        (AR, "rabenseifner", 14 / 8),
        (AR, "recursive-doubling", 3),
        (AR, "one-shot", 7),
        (AR, "two-shot", 14 / 8),
        (A2A, "pairwise", 7 / 8),
        (A2A, "bruck", 3 / 2),
        (AG, "direct", 7 / 8),
    ],
)
def test_traffic_is_the_formula_s_n_beta(
    primitive: Primitive, algorithm: str, bytes_out: float
) -> None:
    from colltool.algorithms.registry import find
    from colltool.base.primitives import totals
    from colltool.network.group import Group

    one = traffic(primitive, algorithm, Members(8))
    out, into = (np.bincount(ends, one.size, 8) for ends in (one.src, one.dst))
    assert out == pytest.approx([bytes_out] * 8)
    assert into == pytest.approx([bytes_out] * 8)
    assert totals(find(primitive, algorithm).schedule(Group(8, "star")))[1] == pytest.approx(
        bytes_out
    )
    assert len(one.src) <= message_estimate(row_by_formula(primitive, algorithm), 8)


def test_dim_ring_loads_each_axis_with_its_share() -> None:
    result = on("torus512", group=512, algorithm="dim-ring", per_link=True)
    assert result.slowdown == 1.0
    # the reduce-scatter upwards, the all-gather downwards
    assert [line.busiest for line in result.lines] == [
        share for share in (7 / 8, 7 / 64, 7 / 512) for _ in range(2)
    ]
    with pytest.raises(ColltoolError, match="sub-lattice"):
        on("torus512", group=6, count=2, algorithm="dim-ring")


def test_a_chain_has_no_way_back() -> None:
    assert len(traffic(BC, "chain", Members(5)).src) == 4


def test_what_has_no_schedule_is_refused_in_words() -> None:
    with pytest.raises(ColltoolError, match="not modelled"):
        on("dgx-h100", group=64, algorithm="outer-ring")
    with pytest.raises(ColltoolError, match="no algorithm"):
        on("star512", group=8, algorithm="rings")


def test_too_many_pairs_are_refused_before_they_are_listed() -> None:
    with pytest.raises(ColltoolError, match="followed one by one"):
        on("tpu-v5p", primitive="a2a")


@pytest.mark.parametrize(
    "layout", [{"kind": "axis", "group": 4, "stride": 2}, {"kind": "random", "group": 8, "seed": 3}]
)
def test_as_eta_makes_a_price_that_of_the_layout(layout: dict[str, Any]) -> None:
    """The ring of a packed group, priced with the eta, takes as long as the busiest link does
    here."""
    result = colltool.contention("torus512", layout, size="16MB")
    (eta,) = result.etas
    fabric = load_fabric(
        "torus512", [f"torus.eta.alpha={eta.alpha!r}", f"torus.eta.beta={eta.beta!r}"]
    )
    price = colltool.price(
        fabric, "ar", ranks=layout["group"], size="16MB", algorithms="ring"
    ).results[0]
    assert float(price.bandwidth_s) == pytest.approx(
        max(group.together_s or 0 for group in result.groups)
    )
    ideal = colltool.price(
        fabric, "ar", ranks=layout["group"], size="16MB", algorithms="ring", ideal=True
    ).results[0]
    assert float(price.alpha_s / ideal.alpha_s) == pytest.approx(
        max(group.eta_alpha for group in result.groups)
    )


def test_a_full_mesh_has_a_link_for_every_pair() -> None:
    ring, all_pairs = on("mi300x", per_link=True), on("mi300x", primitive="a2a", per_link=True)
    assert (len(ring.links), len(all_pairs.links)) == (8, 56)
    assert {link.load for link in all_pairs.links} == {1 / 8}


@swept(
    "layout",
    [{"group": 8}, {"kind": "random", "group": 16, "seed": 5}, {"kind": "cyclic", "group": 6}],
)
@swept("primitive", ["ar", "a2a", "bc"])
@swept("fabric", ["torus512", "kd-mesh", "star512", "clos-4to1", "nvl72"])
def test_bounds(fabric: str, primitive: str, layout: dict[str, Any]) -> None:
    result = colltool.contention(fabric, {"count": 8} | layout, primitive=primitive)
    for group in result.groups:
        assert group.interference >= 1 - 1e-9, "nobody is faster for having neighbours"
        assert group.slowdown > 0
        assert group.eta_alpha >= 1
        assert group.extra_hops >= 0
        assert group.tail_over_mean >= 1 - 1e-12
        assert group.eta_beta == pytest.approx(min(1, 1 / group.slowdown))
    assert result.slowdown == max(group.slowdown for group in result.groups)
    loads = [link.load / link.capacity_Bps for link in result.hottest]
    assert loads == pytest.approx(sorted(loads, reverse=True))


def test_neighbours_apart_from_placement() -> None:
    """Two interleaved 2x2x2 boxes: better placed than a line of 8, and each twice as slow for the
    other."""
    boxes = {"A": [0, 2, 8, 10, 64, 66, 72, 74], "B": [1, 3, 9, 11, 65, 67, 73, 75]}
    groups = "".join(
        f"  - {{name: {name}, ranks: {ranks}, primitive: a2a}}\n" for name, ranks in boxes.items()
    )
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder, "boxes.yaml")
        file.write_text(f"schema: colltool.layout/1\ngroups:\n{groups}")
        both = colltool.contention("torus512", file)
    assert [group.slowdown for group in both.groups] == [1, 1]
    assert [group.interference for group in both.groups] == [2, 2]


@swept(
    "tier",
    [
        small.hyperx(3, 4),
        small.dragonfly(2, 3, 4, cables=2),
        small.dragonfly(2, 3, 4, spines=2),
        small.dragonfly(2, 3, 4, routing="valiant"),
        small.graph((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)),
    ],
)
def test_a_link_on_the_routes_of_many_messages_counts_once_with_all_their_bytes(
    tier: dict[str, Any],
) -> None:
    """Routers yield several uses of a class: one a cable, an order of axes, a step."""
    fabric = small.fabric(tier)
    ranks = fabric.ranks
    (links,) = link_models(fabric)
    assert isinstance(links, RoutedLinks)
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    node_of = links.router.node_of
    expected = np.concatenate(links.router.loads(node_of(src), node_of(dst), np.ones(len(src))))
    result = colltool.contention(fabric, {"group": ranks}, primitive="a2a", per_link=True)
    names = {link.link for link in result.links}
    assert len(names) == len(result.links) == result.loaded
    on_links = [link.load * ranks for link in result.links if "port" not in link.line]
    assert sorted(on_links) == pytest.approx(sorted(expected[expected > 0]))
