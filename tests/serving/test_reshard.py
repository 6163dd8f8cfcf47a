"""Weights between meshes: bytes by hand, the lower bound, and the wire that limits."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"receivers": 8}, "from ranks or from a store"),
        ({"receivers": 8, "senders": 8, "storage": "1GB/s"}, "from ranks or from a store"),
        ({"receivers": 12, "senders": 8, "replica": 8}, "no whole replicas of 8"),
        ({"receivers": 512, "senders": 8}, "do not fit"),
        ({"receivers": 8, "storage": "20GB"}, "rate"),
    ],
)
def test_what_does_not_fit_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.reshard("llama3-8b", "dgx-h100", **asked)
