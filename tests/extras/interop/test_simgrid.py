"""``verify --with simgrid``: what SimGrid is told, and where it is installed what it finds."""

from __future__ import annotations

import json
from typing import Any

import pytest

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import parse_primitive
from colltool.extras.interop import simgrid
from colltool.extras.interop import simgrid_input as told
from colltool.fabric.model import Fabric
from colltool.verification.schedule import scheduled
from tests.small import clos, dragonfly, fabric, full_mesh, star, switch, torus


def _installed() -> bool:
    try:
        return bool(simgrid.find_python())
    except ColltoolError:
        return False


installed = pytest.mark.skipif(not _installed(), reason="SimGrid is not installed here")
NODES = fabric(star(8, 1, 450), clos(4, alpha=5, bw=50))


def given(where: Fabric, primitive: str, name: str, size: float = 8e6) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        told.simgrid_input(scheduled(where, parse_primitive(primitive), name, ideal=True), size)
    )
    return found


def test_a_ring_under_a_switch_has_two_ports_a_rank() -> None:
    found = given(fabric(star(4, 1, 50)), "ar", "ring")
    assert found["links"] == [50e9] * 8
    ways = {(src, dst): links for src, dst, _, links in found["routes"]}
    assert sorted(ways) == [(k, (k + 1) % 4) for k in range(4)]
    assert sorted(link for links in ways.values() for link in links) == list(range(8))
    assert {latency for _, _, latency, _ in found["routes"]} == {1e-6}
    assert [len(step) for step in found["steps"]] == [4] * 6
    assert {size for step in found["steps"] for _, _, size in step} == {2_000_000}


def test_a_message_has_the_links_and_the_latency_of_the_tier_that_it_crosses() -> None:
    found = given(NODES, "ag", "direct")
    rates = {
        (src, dst): {found["links"][link] for link in links}
        for src, dst, _, links in found["routes"]
    }
    waits = {(src, dst): latency for src, dst, latency, _ in found["routes"]}
    assert (rates[0, 1], waits[0, 1]) == ({450e9}, 1e-6)
    assert rates[0, 8] == {50e9}
    assert waits[0, 8] >= 5e-6


def test_what_simgrid_cannot_be_told_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ColltoolError, match="one route for a pair"):
        given(fabric(torus(4, 4)), "a2a", "shortest-path")
    with pytest.raises(ColltoolError, match="works in switches"):
        given(fabric(star(4, in_network=switch())), "ar", "in-network")
    monkeypatch.setattr(told, "MOST_SIMULATED", 20)
    with pytest.raises(ColltoolError, match="more than 20 messages"):
        given(fabric(star(4)), "ar", "ring")


@pytest.mark.ci
@installed
@pytest.mark.alike(5)
@pytest.mark.parametrize(
    ("where", "primitive", "names"),
    [
        (
            fabric(star(8, 1, 50)),
            "ar",
            "ring,tree,recursive-doubling,rabenseifner,one-shot,two-shot",
        ),
        (fabric(full_mesh(6, 1, 50)), "a2a", "direct,pairwise"),
        (fabric(torus(4, 4)), "ar", "dim-ring"),
        (NODES, "ar", "ring,two-shot,hierarchical:ring/ring"),
        (NODES, "a2a", "two-level:pairwise/pairwise,direct"),
        (fabric(star(4), clos(2, alpha=5, bw=25)), "bc", "binomial"),
        (colltool.load_fabric("dgx-1v"), "ar", "tacos"),
        (fabric(dragonfly(2, 3, 5, far=50)), "ag", "gateway-ring,ring"),
    ],
    ids=[
        "star",
        "mesh",
        "torus",
        "nodes",
        "nodes a2a",
        "broadcast",
        "links of two rates",
        "dragonfly",
    ],
)
def test_simgrid_finds_the_executed_time(where: Fabric, primitive: str, names: str) -> None:
    found = colltool.verify(
        where, primitive, algorithms=names.split(","), size=8e6, simulator="simgrid"
    )
    assert len(found.results) == len(names.split(","))
    for one in found.results:
        assert one.time_s is not None, one.spec
        assert one.simulated_s == pytest.approx(one.time_s[1], rel=1e-6), one.spec


@installed
def test_ranks_that_are_done_early_get_in_the_way_of_the_others() -> None:
    """Steps of pairwise cross both tiers: a price takes them one after the other, SimGrid lets each
    rank go on."""
    (one,) = colltool.verify(
        NODES, "a2a", algorithms="pairwise", size=8e6, simulator="simgrid"
    ).results
    assert one.time_s is not None
    assert one.simulated_s is not None
    assert 1.02 < one.simulated_s / one.time_s[1] < 1.5
