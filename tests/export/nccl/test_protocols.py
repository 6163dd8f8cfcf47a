"""NCCL's own model, by hand from its tables."""

from __future__ import annotations

import pytest

from colltool.export.nccl.protocols import Call, Published, published, runs_under
from colltool.library.ways import WAYS
from colltool.pricing.costed import Curve
from colltool.primitives import AG, AR, BC, REDUCE, Primitive


def _us(algorithm: str, primitive: Primitive, ranks: int, nodes: int) -> dict[str, float]:
    return {name: round(one.latency_s * 1e6, 6) for name, one in published(algorithm, Call(primitive, ranks, nodes)).items()}


@pytest.mark.parametrize(
    ("algorithm", "primitive", "ranks", "nodes", "expected"),
    [
        ("ring", AR, 8, 1, {"ll": 6.6 + 14 * 0.6, "ll128": 14 + 14 * 1.9, "simple": 8.4 + 14 * 3.4}),
        # 28 hops in nodes, each at least the network's overhead of 1 us, and 2 between
        ("ring", AR, 16, 2, {"ll": 6.6 + 28 * 1.0 + 2 * 2.7, "ll128": 14 + 28 * 1.9 + 2 * 4, "simple": 8.4 + 28 * 3.4 + 2 * 14}),
        # alone on a node: a tree's hops
        ("ring", AG, 4, 4, {"ll": 6.6 + 3 * 5, "ll128": 14 + 3 * 8.5, "simple": 8.4 + 3 * 14}),
        # one hop in a node, every hop over the network across
        ("ring", BC, 8, 1, {"ll": 6.6 + 0.6, "ll128": 14 + 1.9, "simple": 8.4 + 3.4}),
        ("ring", REDUCE, 16, 2, {"ll": 6.6 + 16 * 2.7, "ll128": 14 + 16 * 4, "simple": 8.4 + 16 * 14}),
        ("ring", BC, 4, 4, {"ll": 6.6 + 2.7, "ll128": 14 + 4, "simple": 8.4 + 14}),
        # chains of 8 and two levels of a tree of 6 nodes, down and up
        ("tree", AR, 48, 6, {"ll": 6.8 + 14 * 0.6 + 4 * 5, "ll128": 14 + 14 * 1.25 + 4 * 8.5, "simple": 8.4 + 14 * 4 + 4 * 14}),
        ("nvls", AR, 8, 1, {"simple": 25}),
        ("nvls", AR, 16, 2, {"simple": 43}),
        ("nvls_tree", AR, 64, 8, {"simple": 25 + 6 * 20.9}),
        ("collnet_direct", AR, 64, 8, {"simple": 2 * (3.7 + 7 * 0.4) + 31}),
        ("collnet_chain", AR, 64, 8, {"simple": 14 * 2.8 + 30}),
        ("collnet_chain", AR, 8, 8, {"simple": 14}),
        ("pat", AG, 16, 16, {"simple": 8 + 4 * 4 + 16 * 2.8}),
    ],
)
def test_published_latencies_are_nccls(
    algorithm: str, primitive: Primitive, ranks: int, nodes: int, expected: dict[str, float]
) -> None:
    assert _us(algorithm, primitive, ranks, nodes) == pytest.approx(expected)


def test_ll_is_no_faster_than_nccl_has_it() -> None:
    """141 GB/s of bus bandwidth on a node, which a ring all-reduce of 8 moves 14/8 of M with, a tree 2 M."""
    call = Call(AR, 8, 1)
    assert published("ring", call)["ll"].most_Bps == pytest.approx(141e9 * 8 / 14)
    assert published("tree", call)["ll"].most_Bps == pytest.approx(141e9 / 2)
    assert published("ring", Call(AG, 64, 8))["ll"].most_Bps == pytest.approx(20.4e9 * 64 / 63)
    assert published("tree", Call(AR, 16, 2))["ll"].most_Bps == pytest.approx(39e9 * 0.85 / 2)


def test_the_larger_latency_and_the_slower_bandwidth_hold() -> None:
    assert Published(10.0, 0.5, 1.0).bound(Curve(3.0, 2.0)) == Curve(10.0, 4.0)
    assert Published(10.0, 0.5, 0.1).bound(Curve(30.0, 2.0)) == Curve(30.0, 10.0)


def test_only_rings_and_trees_run_under_ll() -> None:
    for way in WAYS:
        assert runs_under(way.algorithm, "ll") == (way.algorithm in ("ring", "tree"))
        assert set(published(way.algorithm, Call(AR, 16, 2))) == {
            name for name in ("ll", "ll128", "simple") if runs_under(way.algorithm, name)
        }
