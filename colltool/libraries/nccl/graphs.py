"""The channels of NCCL's graphs (ring, tree, NVLS, CollNet) on a group of GPUs, as its search finds
them.

Source: NCCL 2.30, src/graph/search.cc and topo.cc; the numbers are in the version's data file.
"""

from __future__ import annotations

from math import inf

from colltool.libraries.nccl.hardware import ChannelSearch, Constants, GpuNodes, Graph, Hardware

# rates may fill a link but for rounding
_FULL = 1 + 1e-9
# INTEL_P2P_OVERHEAD: 6/5. Source: NCCL 2.30, src/graph/topo.h
_INTEL_STAGED = 1.2
# share of the rate that was found first: the search goes no lower
_LEAST_TRIED = 0.49
# to one peer across nodes, on its NIC. Source: NCCL 2.30, src/graph/paths.cc, ncclTopoGetNchannels
_MESSAGE_CHANNELS = 2


def ring_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    """The channels of a ring: those of CollNet, or twice as many at half the rate."""
    graph = collnet_graph(numbers, machine)
    limits = numbers.channels
    rate = graph.inside_GBps
    slow = rate < limits["hopper_whole_below_GBps"]
    whole = machine.from_hopper and slow and graph.channels > limits["hopper_whole_above"]
    if whole or rate < limits["split_from_GBps"]:
        return graph
    return Graph(2 * graph.channels, rate / 2, rate / 2)


def tree_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    """The ring's channels, inside a node as fast as a tree can use."""
    search = numbers.search[machine.gpu]
    graph = ring_graph(numbers, machine)
    if machine.nodes == 1:
        return graph
    out = graph.channels * (machine.gpus - 1) / machine.gpus
    most = search.link_GBps / out if out else inf
    inside = _climbed(search.across, graph.inside_GBps, 2 * graph.across_GBps, most)
    return Graph(graph.channels, inside, graph.across_GBps)


def nvls_graph(numbers: Constants, machine: GpuNodes) -> Graph | None:
    """None before Hopper, or if a node has more GPUs than can pull from the switch."""
    search = numbers.search[machine.gpu]
    gpus = machine.gpus
    if not machine.from_hopper or not 2 <= gpus <= numbers.nvls["most_heads"]:
        return None
    rates = search.inside
    nic = inf
    if machine.nodes > 1:
        rates = search.across
        nic = _nic(search, machine)
    for rate in rates:
        # a head's own stream and those that it reduces for all others
        if (gpus + 1) * rate <= search.link_GBps * _FULL and rate <= nic:
            return Graph(gpus, rate, _climbed(rates, rate, 2 * rate, nic))
    return None


def collnet_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    """The channels that use the most of a GPU's links, or of its NIC."""
    search = numbers.search[machine.gpu]
    if machine.nodes > 1:
        rate = _nic(search, machine)
        channels = machine.gpus
        # on other hosts than Intel's the search rather takes half of the NICs than halves the rate
        if machine.staged and machine.cpu != "intel" and machine.nic_GBps > search.nic_GBps / 2:
            channels = max(machine.gpus // 2, 1)
        return Graph(channels, rate, rate)
    filled = []
    for rate in search.inside:
        if rate > _LEAST_TRIED * search.inside[0]:
            channels = int(search.link_GBps * _FULL // rate)
            filled.append((channels * rate, rate, channels))
    _, rate, channels = max(filled)
    return Graph(channels, rate, rate)


def communicator_channels(numbers: Constants, machine: GpuNodes, ring: Graph) -> int:
    """Twice the ring's channels, doubled again across nodes from Hopper on if few and fast."""
    limits = numbers.channels
    doubled = 2 * ring.channels
    fast = ring.inside_GBps > limits["twice_more_above_GBps"]
    if machine.from_hopper and machine.nodes > 1 and fast and doubled < limits["twice_more_below"]:
        doubled *= 2
    return int(min(doubled, limits["most"]))


def sent_channels(on: Hardware, *, to_all: bool) -> int:
    """Channels of messages: all that a communicator has, its number rounded up to a power of two, and
    of a single message across nodes two.

    Source: NCCL 2.30, src/graph/paths.cc, ncclTopoComputeP2pChannels.
    """
    if on.nodes > 1 and not to_all:
        return min(_MESSAGE_CHANNELS, on.channels)
    channels = 1
    while channels < on.channels:
        channels *= 2
    return channels


def _nic(search: ChannelSearch, machine: GpuNodes) -> float:
    """The highest listed rate that a NIC reaches through PCIe; below the list, what it reaches.

    Through the hosts' memory a GPU's slot carries what comes in and what goes out, on Intel's hosts
    at 5/6 of the rate: there every GPU's NIC has half. Source: NCCL 2.30, src/graph/topo.cc and
    src/graph/search.cc.
    """
    slot = search.nic_GBps
    if machine.staged and machine.cpu == "intel":
        slot /= 2 * _INTEL_STAGED
    reached = min(machine.nic_GBps, slot)
    return next((rate for rate in search.across if rate <= reached * _FULL), reached)


def _climbed(rates: tuple[float, ...], rate: float, enough: float, most: float) -> float:
    """The next higher rates in turn until one is enough, or the next more than fits."""
    for higher in sorted(rates):
        if higher <= rate:
            continue
        if rate >= enough or higher > most * _FULL:
            break
        rate = higher
    return rate
