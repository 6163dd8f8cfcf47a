"""What NCCL's cost model knows of a group: its shape, GPUs and hosts, enabled features, and the channels of each graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from colltool.algorithms.libraries import FROM_HOPPER
from colltool.nccl.constants import ChannelSearch, Constants, Cpu, Gpu, Link, constants


@dataclass(frozen=True)
class Graph:
    """The channels that NCCL's search found for a pattern; rates are per channel, within a node and between nodes."""

    channels: int
    inside_GBps: float
    across_GBps: float


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A group as NCCL sees it.

    Args:
        cpu: vendor; matters only across nodes.
        nodes: NVLink domains, or hosts.
        nics: per node; 0 on one node.
        link: between the GPUs of a node.
        nvls: NVLink SHARP is available and enabled.
        collnet: CollNet is enabled and its plugin loaded (NCCL_COLLNET_ENABLE=1; off by default).
        channels: of a communicator.
        simple_tree: a node had to use the pattern TREE, with all traffic of a NIC through one GPU.
        same_channels: all rings visit the GPUs in the same order.
    """

    version: str
    gpu: Gpu
    cpu: Cpu
    nodes: int
    ranks_per_node: int
    nics: int
    link: Link
    nvswitch: bool
    nvls: bool
    collnet: bool
    ring: Graph
    tree: Graph
    nvls_graph: Graph | None
    collnet_graph: Graph | None
    channels: int
    simple_tree: bool
    same_channels: bool

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def constants(self) -> Constants:
        return constants(self.version)

    @property
    def tree_levels(self) -> int:
        """floor(log2(nodes)), as NCCL counts them."""
        return self.nodes.bit_length() - 1

    @property
    def from_hopper(self) -> bool:
        return self.gpu in FROM_HOPPER

    @property
    def column(self) -> int:
        """Index into tables by nodes: 1, 2, or more."""
        return min(self.nodes, 3) - 1


_FULL = 1 + 1e-9
_LEAST_TRIED = 0.49  # of the rate that was found first: the search goes no lower


class GpuNodes(NamedTuple):
    """Input of the channel search: GPU generation, nodes, GPUs per node, rate of a NIC in GB/s (0 on one node)."""

    gpu: Gpu
    nodes: int
    gpus: int
    nic_GBps: float

    @property
    def from_hopper(self) -> bool:
        return self.gpu in FROM_HOPPER


def ring_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    return _split(numbers, machine, _whole(numbers.search[machine.gpu], machine))


def tree_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    search, graph = numbers.search[machine.gpu], ring_graph(numbers, machine)
    if machine.nodes == 1:
        return graph
    out = graph.channels * (machine.gpus - 1) / machine.gpus
    most = search.link_GBps / out if out else float("inf")
    return Graph(graph.channels, _climbed(search.across, graph.inside_GBps, 2 * graph.across_GBps, most), graph.across_GBps)


def nvls_graph(numbers: Constants, machine: GpuNodes) -> Graph | None:
    """None before Hopper, or if a node has more GPUs than can pull from the switch."""
    search, gpus = numbers.search[machine.gpu], machine.gpus
    if not machine.from_hopper or not 2 <= gpus <= numbers.nvls["most_heads"]:
        return None
    rates, nic = (search.inside, float("inf")) if machine.nodes == 1 else (search.across, _nic(search, machine))
    fitting = [rate for rate in rates if (gpus + 1) * rate <= search.link_GBps * _FULL and rate <= nic]
    return Graph(gpus, fitting[0], _climbed(rates, fitting[0], 2 * fitting[0], nic)) if fitting else None


def collnet_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    return _whole(numbers.search[machine.gpu], machine)


def communicator_channels(numbers: Constants, machine: GpuNodes, ring: Graph) -> int:
    """Twice the ring's channels, doubled again across nodes from Hopper on if few and fast."""
    limits, doubled = numbers.channels, 2 * ring.channels
    if (
        machine.from_hopper
        and machine.nodes > 1
        and ring.inside_GBps > limits["twice_more_above_GBps"]
        and doubled < limits["twice_more_below"]
    ):
        doubled *= 2
    return int(min(doubled, limits["most"]))


def _whole(search: ChannelSearch, machine: GpuNodes) -> Graph:
    if machine.nodes > 1:
        rate = _nic(search, machine)
        return Graph(machine.gpus, rate, rate)
    tried = [rate for rate in search.inside if rate > _LEAST_TRIED * search.inside[0]]
    filled = [(int(search.link_GBps * _FULL // rate), rate) for rate in tried]
    channels, rate = max(filled, key=lambda one: (one[0] * one[1], one[1]))
    return Graph(channels, rate, rate)


def _nic(search: ChannelSearch, machine: GpuNodes) -> float:
    """The highest listed rate that a NIC reaches through PCIe; below the list, what it reaches."""
    reached = min(machine.nic_GBps, search.nic_GBps)
    return next((rate for rate in search.across if rate <= reached * _FULL), reached)


def _split(numbers: Constants, machine: GpuNodes, graph: Graph) -> Graph:
    limits, rate = numbers.channels, graph.inside_GBps
    whole = rate < limits["hopper_whole_below_GBps"] and graph.channels > limits["hopper_whole_above"]
    if rate < limits["split_from_GBps"] or (machine.from_hopper and whole):
        return graph
    return Graph(2 * graph.channels, rate / 2, rate / 2)


def _climbed(rates: tuple[float, ...], rate: float, enough: float, most: float) -> float:
    for higher in sorted(one for one in rates if one > rate):
        if rate >= enough or higher > most * _FULL:
            break
        rate = higher
    return rate
