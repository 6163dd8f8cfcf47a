"""What a step costs the host's CPU under each protocol, on Intel and on AMD hosts."""

from __future__ import annotations

import pytest
from libraries.nccl.test_estimates import table
from nccl_machines import machine

from colltool.base.primitives import AR


def test_simple_pays_the_hosts_overhead_three_times() -> None:
    """8 nodes of 8: 112 steps inside a node. A step takes at least the host's overhead, 1 us on
    Intel and 2 us on AMD, and under Simple three times that (ncclTopoTuneModel: "if (p ==
    NCCL_PROTO_SIMPLE) netOverhead *= 3"). Against the hop over NVLink, 3.4 us, 3 us do not show
    and 6 us do."""
    intel, amd = (table(machine(8, cpu=cpu), AR)["ring"][2] for cpu in ("intel", "amd"))
    assert amd[0] - intel[0] == pytest.approx(112 * (3 * 2 - 3.4))


def test_one_node_has_no_network_to_wait_for() -> None:
    intel, amd = (table(machine(1, cpu=cpu), AR)["ring"][2] for cpu in ("intel", "amd"))
    assert amd[0] == intel[0]
