"""A network of any size is priced or refused in seconds, and in memory that a laptop has."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError

LOCAL = {"bandwidth": "25GB/s", "alpha": "1us"}
HUGE = {
    "star": {"topology": "star", "size": 10_000_000},
    "clos": {"topology": "clos", "size": 10_000_000},
    "full mesh": {"topology": "full_mesh", "size": 10_000_000},
    "ring": {"topology": "torus", "shape": [10_000_000]},
    "torus": {"topology": "torus", "shape": [200, 200, 250]},
    "mesh": {"topology": "mesh", "shape": [3000, 3000]},
    "hyperx": {"topology": "hyperx", "shape": [100, 100, 100]},
    "hyperx of one axis": {"topology": "hyperx", "shape": [4_000_000]},
    "hyperx with hosts": {"topology": "hyperx", "shape": [100, 100, 100], "hosts": 10},
    "dragonfly": {
        "topology": "dragonfly",
        "groups": 1000,
        "switches": 100,
        "hosts": 100,
        "local": LOCAL,
        "global": LOCAL,
    },
}


@swept("kind", HUGE)
@swept("primitive", ["ar", "a2a", "bc"])
def test_a_huge_network_is_priced_or_refused_at_once(kind: str, primitive: str) -> None:
    tier = {"name": "x", "alpha": "1us", "bandwidth": "50GB/s"} | HUGE[kind]
    tracemalloc.start()
    start = time.process_time()
    refused = ""
    try:
        colltool.price({"name": "huge", "tiers": [tier]}, primitive, size="1MB")
    except ColltoolError as error:
        refused = str(error)
    assert ("follow" in refused) == kind.startswith(("hyperx", "dragonfly"))
    taken_s = time.process_time() - start
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken_s < 5
    assert most < 100 * 2**20


@pytest.mark.ci
def test_a_large_hyperx_does_not_list_its_links() -> None:
    """Of two million links an object each would be half a GB, only to say that they are too many
    for trees."""
    tier = {"topology": "hyperx", "shape": [29, 29, 29], "alpha": "1us", "bandwidth": "50GB/s"}
    tracemalloc.start()
    found = colltool.price({"name": "large", "tiers": [tier | {"name": "x"}]}, "ag", size="1MB")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.results
    assert most < 300 * 2**20
