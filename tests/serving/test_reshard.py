"""Weights between meshes: bytes by hand, the lower bound, and the wire that limits."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError


def ways(**asked: Any) -> dict[str, Any]:
    return {one.way: one for one in colltool.reshard("llama3-8b", "dgx-h100", **asked).ways}


def test_bytes_by_hand() -> None:
    """16.06 GB in bf16 from 16 senders to 4 replicas of 8: each sends 4/16 of it to pairs, each
    receives an eighth."""
    found = ways(senders=16, receivers=32, replica=8)
    weights = colltool.reshard("llama3-8b", "dgx-h100", senders=16, receivers=32, replica=8).bytes
    assert weights == pytest.approx(2 * 8.03e9, rel=0.01)
    assert found["pairs"].out_bytes == pytest.approx(weights * 4 / 16)
    assert found["pairs"].in_bytes == found["tree"].in_bytes == pytest.approx(weights / 8)
    assert found["one root"].out_bytes == pytest.approx(weights)


def test_many_replicas_want_a_tree_and_one_wants_pairs() -> None:
    assert (
        colltool.reshard("llama3-8b", "dgx-h100", senders=8, receivers=128, replica=8).best.way
        == "tree"
    )
    assert (
        colltool.reshard("llama3-8b", "dgx-h100", senders=64, receivers=8, replica=8).best.way
        == "pairs"
    )


@given(st.sampled_from([1, 8, 16, 64]), st.sampled_from([8, 32, 64]), st.sampled_from([1, 4, 8]))
@settings(max_examples=examples(20), deadline=None)
def test_no_way_is_faster_than_the_wires(senders: int, receivers: int, replica: int) -> None:
    found = colltool.reshard(
        "llama3-8b", "dgx-h100", senders=senders, receivers=receivers, replica=replica
    )
    assert all(one.total_s >= found.least_s * (1 - 1e-9) for one in found.ways)


def test_an_oversubscribed_network_limits_pairs() -> None:
    fabric = colltool.load_fabric("clos-4to1", ["fabric.levels.spine.oversubscription=8"])
    found = colltool.reshard("llama3-8b", fabric, senders=32, receivers=256, replica=8)
    assert next(one for one in found.ways if one.way == "pairs").wire == "fabric spine"


def test_a_checkpoint_from_a_store() -> None:
    found = colltool.reshard("llama3-8b", "dgx-h100", receivers=64, replica=8, storage="20GB/s")
    assert (found.best.wire, found.best.way) == (
        "storage",
        "one replica reads, the others are fed by a tree",
    )
    assert found.best.total_s > found.bytes / 20e9


@swept(
    ("asked", "words"),
    [
        ({"receivers": 8}, "from ranks or from a store"),
        ({"receivers": 8, "senders": 8, "storage": "1GB/s"}, "from ranks or from a store"),
        ({"receivers": 12, "senders": 8, "replica": 8}, "do not make whole replicas of 8 ranks"),
        ({"receivers": 512, "senders": 8}, "512 receivers needs 520 ranks"),
        ({"receivers": 8, "storage": "20GB"}, "rate"),
    ],
)
def test_what_does_not_fit_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.reshard("llama3-8b", "dgx-h100", **asked)


def way(name: str, **asked: Any) -> Any:
    return ways(**asked)[name]


@swept(("copies", "seconds"), [(1, 1.0), (2, 1.0), (4, 1.0)])
def test_a_store_is_read_once_by_a_tree_and_by_every_replica_else(
    copies: int, seconds: float
) -> None:
    """16.06 GB at as many bytes a second take one second; so many replicas as often."""
    weights = colltool.reshard("llama3-8b", "dgx-h100", receivers=8, storage="1GB/s").bytes
    found = ways(receivers=8 * copies, replica=8, storage=f"{weights / 1e9}GB/s")
    every = found["every replica reads the store"]
    assert every.total_s == pytest.approx(copies * seconds)
    assert (every.out_bytes, every.wire) == (0, "storage")
    tree = found["one replica reads, the others are fed by a tree"]
    assert tree.total_s - seconds == pytest.approx(every.total_s - copies * seconds, abs=0.01)


def test_a_tree_adds_a_chunk_for_each_level() -> None:
    """Below the root two replicas have one level, four have two, eight have three."""
    trees = {
        copies: way("tree", senders=8, replica=8, receivers=8 * copies) for copies in (1, 2, 4, 8)
    }
    chunk_s = trees[2].wire_s - trees[1].wire_s
    # 64 MiB at 92% of 50 GB/s, and some latency
    assert chunk_s == pytest.approx(64 * 2**20 / (0.92 * 50e9), rel=0.01)
    assert trees[4].total_s - trees[2].total_s == pytest.approx(chunk_s)
    assert trees[8].total_s - trees[4].total_s == pytest.approx(chunk_s)


def test_a_replica_of_a_tree_sends_what_it_received() -> None:
    """Of 64 senders each sends W/64; a replica of 8 that feeds another one sends W/8."""
    weights = colltool.reshard("llama3-8b", "dgx-h100", senders=64, receivers=8, replica=8).bytes
    alone = way("tree", senders=64, receivers=8, replica=8)
    assert alone.out_bytes == pytest.approx(weights / 64)
    feeding = way("tree", senders=64, receivers=16, replica=8)
    assert feeding.out_bytes == pytest.approx(weights / 8)


def test_the_least_time_is_of_the_narrowest_place() -> None:
    """50 GB/s a rank: out of one of 8 senders, or into the one rank of a replica."""
    few = colltool.reshard("llama3-8b", "dgx-h100", senders=8, receivers=64, replica=64)
    assert few.least_s == pytest.approx(few.bytes / 8 / 50e9)
    one = colltool.reshard("llama3-8b", "dgx-h100", senders=64, receivers=8, replica=1)
    assert one.least_s == pytest.approx(one.bytes / 50e9)


def test_meshes_may_fill_the_fabric() -> None:
    """256 ranks: half send and half receive; one more does not fit."""
    assert colltool.reshard("llama3-8b", "dgx-h100", senders=128, receivers=128).ways
    with pytest.raises(
        ColltoolError, match="129 senders and 128 receivers needs 257 ranks, dgx-h100 has 256"
    ):
        colltool.reshard("llama3-8b", "dgx-h100", senders=129, receivers=128)


@swept(
    ("fabric", "senders", "receivers"),
    [("dgx-h100", 2, 30), ("dgx-h100", 8, 24), ("dgx-h100", 24, 8), ("nvl72", 256, 256)],
)
def test_any_counts_are_priced(fabric: str, senders: int, receivers: int) -> None:
    """As the next distance that divides the fabric, on which latency alone depends: 16.06 GB out of
    a root at 50 GB/s, and 64 MiB for each level below it."""
    found = colltool.reshard("llama3-8b", fabric, senders=senders, receivers=receivers)
    assert {one.way for one in found.ways} == {"pairs", "tree", "one root"}
    for one in (*found.ways, *found.others):
        assert one.wire_s + one.start_s + one.tensors_s + one.load_s == pytest.approx(one.total_s)
    root = next(one for one in found.ways if one.way == "one root")
    levels = ceil(log2(receivers + 1)) - 1
    least_s = (found.bytes + levels * 64 * 2**20) / 50e9
    assert least_s < root.wire_s < least_s / 0.88


def test_meshes_in_one_rack_stay_in_it() -> None:
    """32 ranks of an NVL72 sync over NVLink, 80 over InfiniBand."""
    inside = colltool.reshard("llama3-8b", "nvl72", senders=16, receivers=16, way="pairs")
    across = colltool.reshard("llama3-8b", "nvl72", senders=40, receivers=40, way="pairs")
    assert inside.best.wire.startswith("nvlink")
    assert across.best.wire.startswith("ib")


def test_a_trunk_between_sites_is_shared_by_all_senders() -> None:
    """3.2 Tb/s between two sites: 32 replicas of 16.06 GB need 1.28 s of it, and few senders have
    no smaller part of it."""
    many = colltool.reshard(
        "llama3-8b", "two-sites", senders=256, receivers=256, replica=8, way="pairs"
    )
    assert many.best.wire == "wan trunk"
    assert many.best.wire_s == pytest.approx(32 * many.bytes / 400e9, rel=1e-3)
    few = colltool.reshard(
        "llama3-8b", "two-sites", senders=64, receivers=256, replica=8, way="pairs"
    )
    assert few.best.wire_s == pytest.approx(many.best.wire_s, rel=1e-3)


def test_tensors_decide_where_experts_are_many() -> None:
    """58 x 256 experts at 130 us each, and 400 more in fp8; 3 layers without at 3 ms."""
    meshes = {"senders": 64, "receivers": 32, "replica": 16, "way": "pairs"}
    bf16 = colltool.reshard("deepseek-v3", "dgx-h100", weights="bf16", **meshes).best
    fp8 = colltool.reshard("deepseek-v3", "dgx-h100", weights="fp8", **meshes).best
    assert bf16.tensors_s == pytest.approx(58 * 256 * 130e-6 + 3 * 3e-3)
    assert fp8.tensors_s - bf16.tensors_s == pytest.approx(58 * 256 * 400e-6)
    assert fp8.wire_s < bf16.wire_s
    assert fp8.decided_by == "tensors"


def test_checkpoint_engine_needs_its_receivers_only() -> None:
    """Every rank of a node takes an eighth of what its node lacks: 15/16 of 692 GB by 8 NICs."""
    found = colltool.reshard(
        "deepseek-v3",
        "dgx-h100",
        senders=128,
        receivers=256,
        replica=16,
        way="checkpoint-engine",
    )
    assert found.best.in_bytes == pytest.approx(found.bytes * (1 - 1 / 32) / 8)
    assert found.best.decided_by == "load"
    assert not found.others


def test_each_way_is_priced_alone_as_among_all() -> None:
    meshes = {"senders": 16, "receivers": 32, "replica": 8}
    found = colltool.reshard("llama3-8b", "dgx-h100", **meshes)
    totals = [one.total_s for one in found.others]
    assert totals == sorted(totals)
    for one in (*found.ways, *found.others):
        assert colltool.reshard("llama3-8b", "dgx-h100", way=one.way, **meshes).best == one


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"way": "nixle", "senders": 8}, "--way: no way is called 'nixle'\n  did you mean 'nixl'?"),
        ({"way": "nixl", "storage": "1GB/s"}, "--way: ways are of weights from ranks"),
    ],
)
def test_ways_that_cannot_be_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        colltool.reshard("llama3-8b", "dgx-h100", receivers=8, **asked)
    assert caught.value.spelled("shell").startswith(words)
