"""Failed ranks and links: what is left, and what that costs."""

from __future__ import annotations

import pytest
import yaml
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric, read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.templates import fabric_start
from colltool.fabric.topology import capabilities_of
from colltool.network.wires import GraphWires

TORUS, MESH = "ici:torus:4x4:100GB/s:1us", "xgmi:full_mesh:8:50GB/s:1us"


def left(tiers: str, *failed: str) -> Fabric:
    return read_fabric(fabric_start(tiers=tiers, failed=failed), "broken.yaml")


def edges(of: Fabric) -> set[tuple[int, ...]]:
    wires = capabilities_of(of.tiers[0]).wires(of.ranks)
    assert isinstance(wires, GraphWires)
    return {(edge.src, edge.dst) for edge in wires.edges if edge.src < edge.dst}


def seconds(of: Fabric, primitive: str, algorithm: str) -> float:
    found = colltool.price(of, primitive, size="64MB", algorithms=algorithm)
    return float(found.best.total_s)


def test_a_failed_link_of_a_full_mesh_is_a_way_round() -> None:
    broken = left(MESH, "0-1")
    assert broken.ranks == 8
    assert edges(broken) == {(a, b) for b in range(8) for a in range(b)} - {(0, 1)}
    whole = load_fabric(yaml.safe_load(fabric_start(tiers=MESH)))
    # the message from 0 to 1 goes over six others, a sixth each; launch 5 us, eta.beta 0.8
    assert seconds(broken, "a2a", "direct") == pytest.approx(
        5e-6 + 2e-6 + (1 + 1 / 6) * 64e6 / 8 / 40e9
    )
    assert seconds(whole, "a2a", "direct") == pytest.approx(5e-6 + 1e-6 + 64e6 / 8 / 40e9)


def test_a_failed_rank_leaves_the_others_numbered_in_a_row() -> None:
    broken = left(TORUS, "5")
    assert broken.ranks == 15
    assert len(edges(broken)) == 32 - 4
    assert (4, 5) in edges(broken) or (5, 6) in edges(broken)
    done = colltool.verify(broken, size="1MB")
    assert done.holds


def test_nothing_failed_costs_what_it_did() -> None:
    whole = load_fabric(yaml.safe_load(fabric_start(tiers=TORUS)))
    cut = left(TORUS, "0-1")
    assert seconds(cut, "ag", "forest") > float(
        colltool.price(whole, "ag", size="64MB", algorithms="multi-ring").best.total_s
    )


@swept(
    ("tiers", "failed", "says"),
    [
        (TORUS, "16", "ranks are 0 to 15"),
        (TORUS, "0-2", "there is no link 0-2\n  rank 0 has links to 1, 3, 4, 12"),
        ("x:full_mesh:2:50GB/s:1us", "1", "1 of 2 ranks would be left"),
        (TORUS, "x", "write a rank, 3, or a link, 0-1"),
        ("nvlink:star:8:450GB/s:1us", "3", "a rank less is"),
        (f"{MESH},ib:clos:4:50GB/s:5us", "0-1", "start from a fabric of that tier alone"),
        ("ici:mesh:4:45GB/s:1us", "1", "rank 0 is left without any link"),
        ("ici:mesh:4:45GB/s:1us", "1-2", "join it by a link"),
    ],
)
def test_what_cannot_be_said_tells_what_to_type(tiers: str, failed: str, says: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        left(tiers, failed)
    assert says in caught.value.spelled("shell")
