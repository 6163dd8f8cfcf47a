"""Scattered placement: who shares a leaf with whom when ranks are dealt out over all of a Clos,
counted one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from swept import swept

import colltool
from colltool.fabric.model import Fabric
from tests import small

LEAF, POD, SPINE = 1e-6, 4e-6, 16e-6
OVER = 3.0
M = 1e9


def clos_of_16() -> Fabric:
    """Leaves of 4, pods of 8, uplinks of the leaves thinned out."""
    return small.fabric(
        small.clos(16, (4, LEAF * 1e6), (8, POD * 1e6, OVER), (16, SPINE * 1e6), bw=50.0)
    )


def nodes_on_clos() -> Fabric:
    """Nodes of 4 ranks, leaves of 2 nodes, 6 nodes."""
    return small.fabric(
        small.star(4, alpha=0.5, bw=400.0),
        small.clos(6, (2, LEAF * 1e6), (6, SPINE * 1e6, OVER), bw=50.0),
    )


def dealt(units: int, leaves: int, leaves_a_pod: int = 1) -> tuple[int, int, int]:
    """Peers of unit 0 in its leaf, in its pod beyond, and beyond that: dealt to the pods in turn,
    and in a pod to its leaves."""
    pods = leaves // leaves_a_pod
    where = [(one % pods, one // pods % leaves_a_pod) for one in range(units)]
    same = Counter((pod == where[0][0], (pod, leaf) == where[0]) for pod, leaf in where[1:])
    return same[True, True], same[True, False], same[False, False]


@swept(
    ("ranks", "near", "middle", "far"),
    [
        (2, 0, 0, 1),
        (3, 0, 1, 1),
        (4, 0, 1, 2),
        (5, 1, 1, 2),
        (6, 1, 1, 3),
        (7, 1, 2, 3),
        (8, 1, 2, 4),
        (9, 2, 2, 4),
        (16, 3, 4, 8),
    ],
)
def test_peers_of_a_rank_in_the_fullest_leaf(ranks: int, near: int, middle: int, far: int) -> None:
    assert dealt(ranks, 4, 2) == (near, middle, far)
    row = colltool.price(
        clos_of_16(),
        "a2a",
        ranks=ranks,
        size=M,
        algorithms="pairwise",
        placement="scattered",
        ideal=True,
    ).results[0]
    assert float(row.alpha_s) == pytest.approx(near * LEAF + middle * POD + far * SPINE)
    # every message of another leaf goes through uplinks that all of its leaf share
    assert float(row.bandwidth_s) == pytest.approx(
        M / ranks * (near + OVER * (middle + far)) / 50e9
    )


@swept(("nodes", "near", "far"), [(2, 0, 1), (3, 0, 2), (4, 1, 2), (5, 1, 3), (6, 1, 4)])
def test_nodes_stay_whole_and_are_dealt_out_themselves(nodes: int, near: int, far: int) -> None:
    assert dealt(nodes, 3)[::2] == (near, far)
    row = colltool.price(
        nodes_on_clos(),
        "a2a",
        ranks=4 * nodes,
        size=M,
        algorithms="pairwise",
        placement="scattered",
        ideal=True,
    ).results[0]
    assert float(row.alpha_s) == pytest.approx(3 * 0.5e-6 + 4 * near * LEAF + 4 * far * SPINE)
    assert float(row.bandwidth_s) == pytest.approx(
        M / (4 * nodes) * (3 / 400e9 + 4 * near / 50e9 + 4 * far * OVER / 50e9)
    )
