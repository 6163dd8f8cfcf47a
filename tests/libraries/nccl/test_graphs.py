"""The rules for channels against the graphs that NCCL's search gives."""

from __future__ import annotations

import pytest
from swept import swept

from colltool.libraries.nccl.graphs import communicator_channels, nvls_graph, ring_graph, tree_graph
from colltool.libraries.nccl.hardware import GpuNodes, Graph, constants

# What the search of NCCL 2.30.7 gives on H100 and B200 nodes with NVSwitch and a NIC for each GPU:
# ring, tree, NVLS as (channels, GB/s inside, across), channels of a communicator. No NVLS with one
# GPU a node.
KNOWN = {
    GpuNodes("hopper", 1, 8, 0): ((12, 30, 30), (12, 30, 30), (8, 40, 60), 24),
    GpuNodes("hopper", 16, 8, 50): ((8, 48, 48), (8, 48, 48), (8, 40, 48), 16),
    GpuNodes("hopper", 16, 8, 25): ((8, 24, 24), (8, 48, 24), (8, 24, 24), 16),
    GpuNodes("hopper", 16, 1, 50): ((2, 24, 24), (2, 48, 24), None, 4),
    GpuNodes("blackwell", 1, 8, 0): ((16, 45, 45), (16, 45, 45), (8, 80, 90), 32),
    GpuNodes("blackwell", 16, 8, 50): ((8, 48, 48), (8, 96, 48), (8, 48, 48), 16),
}
# Not known from a machine; what the search must give by its arithmetic alone: 240 GB/s of an A100's
# NVLink filled by channels of 40 that are split in two, HDR NICs at 24.
DERIVED = {
    GpuNodes("ampere", 1, 8, 0): ((12, 20, 20), None, 24),
    GpuNodes("ampere", 16, 8, 25): ((8, 24, 24), None, 16),
}


def graph(numbers: tuple[float, float, float] | None) -> Graph | None:
    return Graph(int(numbers[0]), *numbers[1:]) if numbers else None


@swept("machine", KNOWN)
def test_the_channels_are_those_that_nccl_finds(machine: GpuNodes) -> None:
    numbers, (ring, tree, nvls, total) = constants("2.30"), KNOWN[machine]
    assert ring_graph(numbers, machine) == graph(ring)
    assert tree_graph(numbers, machine) == graph(tree)
    assert nvls_graph(numbers, machine) == graph(nvls)
    assert communicator_channels(numbers, machine, ring_graph(numbers, machine)) == total


@pytest.mark.parametrize("machine", DERIVED, ids=lambda one: "-".join(map(str, one)))
def test_an_a100(machine: GpuNodes) -> None:
    numbers, (ring, nvls, total) = constants("2.30"), DERIVED[machine]
    assert ring_graph(numbers, machine) == graph(ring)
    assert nvls_graph(numbers, machine) is nvls
    assert communicator_channels(numbers, machine, ring_graph(numbers, machine)) == total


@swept("gpus", range(2, 9))
def test_a_smaller_group_of_a_node_has_the_same_rings_and_an_nvls_channel_for_each_gpu(
    gpus: int,
) -> None:
    numbers, machine = constants("2.30"), GpuNodes("hopper", 1, gpus, 0)
    assert ring_graph(numbers, machine) == Graph(12, 30, 30)
    nvls = nvls_graph(numbers, machine)
    assert nvls is not None
    assert nvls.channels == gpus
    assert (gpus + 1) * nvls.inside_GBps <= 370.8


# What the search of NCCL 2.30.7 gives between two nodes whose NICs do not reach the GPUs' memory:
# ring and tree
STAGED = {
    GpuNodes("hopper", 2, 8, 50, staged=True, cpu="intel"): ((8, 20, 20), (8, 40, 20)),
    GpuNodes("ampere", 2, 8, 25, staged=True, cpu="amd"): ((4, 24, 24), (4, 48, 24)),
}


@pytest.mark.parametrize("machine", STAGED, ids=lambda one: "-".join(map(str, one)))
def test_without_gpudirect_a_slot_carries_what_comes_in_and_what_goes_out(
    machine: GpuNodes,
) -> None:
    numbers, (ring, tree) = constants("2.30"), STAGED[machine]
    assert ring_graph(numbers, machine) == graph(ring)
    assert tree_graph(numbers, machine) == graph(tree)
