"""Every published worked number, through the public functions."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
import yaml
from small import clos, fabric, mesh, rail_pods, star, switch, torus
from swept import swept

import colltool
from colltool.base.primitives import busbw_factor, parse_primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.fabric.model import Fabric
from colltool.fabric.properties import tier_facts
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.fat_tree import fat_tree

ANCHORS = yaml.safe_load(
    (Path(__file__).parent / "data" / "anchors.yaml").read_text(encoding="utf-8")
)
RTOL = ANCHORS["rtol"]

STAR512 = fabric(
    star(512, 0.5, 900.0, eta={"alpha": 1.0, "beta": 0.8}, in_network=switch(0.5, eta_beta=0.52))
)
TORUS512 = fabric(torus(8, 8, 8, alpha=0.5, bw=900.0, eta={"alpha": 1.2, "beta": 0.6}))
OWN = {"star512": STAR512, "torus512": TORUS512}


def close(published: float) -> Any:
    return pytest.approx(published, rel=RTOL)


def row_of(
    where: Fabric | str,
    primitive: str,
    size: float | str,
    algorithm: str,
    *,
    ideal: bool = True,
    **more: Any,
) -> AlgorithmEstimate:
    (row,) = colltool.price(
        where, primitive, size=size, algorithms=algorithm, ideal=ideal, **more
    ).results
    return row


def microseconds(seconds: Any) -> float:
    return float(seconds) * 1e6


LADDER = [(primitive, row) for row in ANCHORS["ladder"]["rows"] for primitive in row["primitives"]]


@swept("source", ["own", "shipped"])
@swept(("primitive", "expected"), LADDER)
def test_ladder_of_512_ranks(source: str, primitive: str, expected: dict[str, Any]) -> None:
    where = OWN[expected["fabric"]] if source == "own" else colltool.load_fabric(expected["fabric"])
    ideal = row_of(where, primitive, ANCHORS["ladder"]["size"], expected["algorithm"])
    assert ideal.n_alpha == expected["n_alpha"]
    assert microseconds(ideal.alpha_s) == close(expected["alpha"])
    assert microseconds(ideal.bandwidth_s) == close(expected["bw"])
    assert microseconds(ideal.total_s) == close(expected["total"])
    if "real" in expected:
        real = row_of(
            where, primitive, ANCHORS["ladder"]["size"], expected["algorithm"], ideal=False
        )
        assert microseconds(real.total_s) == close(expected["real"])


@swept("expected", ANCHORS["in_network_against_tree"]["rows"])
def test_in_network_against_the_double_tree(expected: dict[str, Any]) -> None:
    for algorithm in ("double-binary-tree", "in-network"):
        assert microseconds(row_of(STAR512, "ar", expected["size"], algorithm).total_s) == close(
            expected[algorithm]
        )


@pytest.mark.parametrize("algorithm", ANCHORS["hardware_all_to_all"]["rows"])
def test_hardware_all_to_all(algorithm: str) -> None:
    anchor = ANCHORS["hardware_all_to_all"]
    numbers = anchor["fabric"]
    where = fabric(
        star(
            numbers["ranks"],
            numbers["alpha"],
            numbers["bw"],
            in_network=switch(numbers["alpha_switch"]),
        )
    )
    assert microseconds(row_of(where, "a2a", anchor["size"], algorithm).total_s) == close(
        anchor["rows"][algorithm]
    )


@swept("expected", ANCHORS["crossovers"])
def test_crossovers(expected: dict[str, Any]) -> None:
    where = fabric(star(expected["ranks"], expected["alpha"], expected["bw"]))
    if "approximation" in expected:
        (pair,) = colltool.crossover(where, "ar", algorithms=expected["pair"], ideal=True).pairs
        assert pair.approximations["N*alpha*BW/log2N"] == close(expected["approximation"])
        return
    beta = expected.get("tree_beta", 2)
    (pair,) = colltool.crossover(
        where, "ar", algorithms=expected["pair"], ideal=True, tree_beta=beta
    ).pairs
    (crossing,) = pair.crossings
    assert crossing.bytes == close(expected["bytes"])
    assert crossing.faster_above == ("ring" if beta == 2 else "double-binary-tree")


def test_ring_against_tree_at_one_size() -> None:
    anchor = ANCHORS["ring_against_tree"]
    where = fabric(star(anchor["ranks"], anchor["alpha"], anchor["bw"]))
    for algorithm in ("ring", "tree"):
        assert microseconds(row_of(where, "ar", anchor["size"], algorithm).total_s) == close(
            anchor[algorithm]
        )


def pods(alpha: float) -> Fabric:
    return fabric(star(72, 0.5, 900.0), clos(2, alpha=alpha, bw=50.0))


def test_two_pods_ring_on_ring() -> None:
    anchor = ANCHORS["two_pods"]["all_reduce"]
    row = row_of(pods(2.0), "ar", ANCHORS["two_pods"]["size"], "hierarchical:ring/ring")
    assert len(row.phases) == len(anchor["phases"])
    for phase, (alpha, bandwidth) in zip(row.phases, anchor["phases"], strict=True):
        assert microseconds(phase.alpha_s) == close(alpha)
        assert microseconds(phase.bandwidth_s) == close(bandwidth)
    assert microseconds(row.total_s) == close(anchor["total"])


@pytest.mark.parametrize(
    ("algorithm", "alpha", "key"),
    [("inner-ring", 2.0, "inner_ring"), ("outer-ring", 8.0, "outer_ring_through_spine_of_8us")],
)
def test_two_pods_flat_rings(algorithm: str, alpha: float, key: str) -> None:
    expected = ANCHORS["two_pods"]["all_reduce"][key]
    row = row_of(pods(alpha), "ar", ANCHORS["two_pods"]["size"], algorithm)
    assert microseconds(row.alpha_s) == close(expected["alpha"])
    assert microseconds(row.bandwidth_s) == close(expected["bw"])
    assert microseconds(row.total_s) == close(expected["total"])


@pytest.mark.parametrize(
    ("alpha", "key"), [(2.0, "pairwise_leaf_2us"), (8.0, "pairwise_spine_8us")]
)
def test_two_pods_pairwise_all_to_all(alpha: float, key: str) -> None:
    expected = ANCHORS["two_pods"]["all_to_all"][key]
    row = row_of(pods(alpha), "a2a", ANCHORS["two_pods"]["size"], "pairwise")
    assert microseconds(row.alpha_s) == close(expected["alpha"])
    assert microseconds(row.bandwidth_s) == close(expected["bw"])
    assert microseconds(row.total_s) == close(expected["total"])


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("inner-pairwise", "inner_pairwise"),
        ("outer-pairwise", "outer_pairwise_through_spine_of_8us"),
    ],
)
def test_two_pods_flat_all_to_all(algorithm: str, key: str) -> None:
    row = row_of(pods(8.0), "a2a", ANCHORS["two_pods"]["size"], algorithm)
    assert microseconds(row.total_s) == close(ANCHORS["two_pods"]["all_to_all"][key])


@swept("anchor", ANCHORS["nodes"])
def test_nodes_ring_on_ring(anchor: dict[str, Any]) -> None:
    (n_1, alpha_1, bw_1), (n_2, alpha_2, bw_2) = anchor["inner"], anchor["outer"]
    where = fabric(star(n_1, alpha_1, bw_1), clos(n_2, alpha=alpha_2, bw=bw_2))
    milliseconds = row_of(where, "ar", anchor["size"], "hierarchical:ring/ring").total_s * 1e3
    assert milliseconds == close(anchor["total_ms"])
    if "outer_ring_ms" in anchor:
        assert row_of(where, "ar", anchor["size"], "outer-ring").total_s * 1e3 == close(
            anchor["outer_ring_ms"]
        )
    if "at_oversubscription_3_ms" in anchor:
        # A leaf of one node: every hop of the ring between nodes crosses, so one flow of one feels
        # all of s.
        thin = fabric(
            star(n_1, alpha_1, bw_1), clos(n_2, (1, alpha_2), (n_2, alpha_2, 3.0), bw=bw_2)
        )
        row = row_of(thin, "ar", anchor["size"], "hierarchical:ring/ring")
        assert row.total_s * 1e3 == close(anchor["at_oversubscription_3_ms"])


def of_kind(text: str) -> Fabric:
    kind, shape = text.split()
    return fabric({"torus": torus, "mesh": mesh}[kind](*map(int, shape.split("x"))))


@swept(("shape", "steps"), ANCHORS["lattices"]["all_reduce_n_alpha"].items())
def test_sequential_hops_of_a_torus_all_reduce(shape: str, steps: int) -> None:
    assert row_of(of_kind(f"torus {shape}"), "ar", "1MB", "dim-ring").n_alpha == steps


@swept(("lattice", "load"), ANCHORS["lattices"]["all_to_all_n_beta"].items())
def test_busiest_link_of_an_all_to_all(lattice: str, load: float) -> None:
    assert row_of(of_kind(lattice), "a2a", "1MB", "shortest-path").n_beta == pytest.approx(load)


@swept(("lattice", "hops"), ANCHORS["lattices"]["diameter"].items())
def test_diameter(lattice: str, hops: int) -> None:
    where = of_kind(lattice)
    assert capabilities_of(where.tiers[0]).diameter_links == hops
    assert row_of(where, "a2a", "1MB", "shortest-path").n_alpha == hops
    assert row_of(where, "p2p", "1MB", "send").n_alpha == hops


@swept(("shape", "count"), ANCHORS["lattices"]["neighbours"].items())
def test_neighbours(shape: str, count: int) -> None:
    assert capabilities_of(of_kind(f"torus {shape}").tiers[0]).neighbours == count


@swept(("k", "expected"), ANCHORS["fat_tree"]["by_radix"].items())
def test_fat_tree(k: int, expected: dict[str, int]) -> None:
    tree = fat_tree(k)
    assert (tree.endpoints, tree.switches, tree.core) == (
        expected["endpoints"],
        expected["switches"],
        expected["core"],
    )


def test_superpod() -> None:
    anchor, where = ANCHORS["superpod"], colltool.load_fabric("nvl72")
    assert where.ranks == anchor["gpus"] == prod(tier.endpoints for tier in where.tiers)
    assert tier_facts(where.tiers[1], planes=72).switches == anchor["switches"]
    pods = rail_pods(pods=32, rails=anchor["rails"], nics_per_rail=18, radix=144)
    sized = (pods.leaves, pods.spines, pods.cables_per_pair, pods.switches)
    assert sized == tuple(
        anchor[key] for key in ("leaves_per_rail", "spines_per_rail", "cables_per_pair", "switches")
    )


def test_busbw() -> None:
    anchor = ANCHORS["busbw"]
    assert busbw_factor(parse_primitive("ar"), anchor["ranks"]) * anchor["algbw"] == close(
        anchor["busbw"]
    )
    row = row_of(fabric(star(anchor["ranks"])), "ar", "1GB", "ring")
    assert row.busbw_Bps / row.algbw_Bps == close(anchor["busbw"] / anchor["algbw"])
