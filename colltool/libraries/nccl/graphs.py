"""The channels of NCCL's graphs (ring, tree, NVLS, CollNet) on a group of like GPUs and NICs, where no
topology file says how they are wired. What NCCL's search comes to there is written as formulas.

Each function takes the numbers of a version and the machine; :class:`~colltool.libraries.nccl.rules.Rules`
lists them by version. :func:`collnet_graph` is the base of :func:`ring_graph`, and that of
:func:`tree_graph`.

Source: NCCL 2.30, src/graph/search.cc and topo.cc; the numbers are in the version's data file.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from colltool.libraries.nccl.hardware import ChannelSearch, Constants, GpuNodes, Graph, Hardware

# rates may fill a link but for rounding
_FULL = 1 + 1e-9
# INTEL_P2P_OVERHEAD: 6/5. Source: NCCL 2.30, src/graph/topo.h
_INTEL_STAGED = 1.2
# share of the rate that was found first: the search goes no lower
_LEAST_TRIED = 0.49
SAME_ORDER_STEPS = 256
"""GPUs that a trial of the search may visit for channels of one order."""
# to one peer across nodes, on its NIC. Source: NCCL 2.30, src/graph/paths.cc, ncclTopoGetNchannels
_MESSAGE_CHANNELS = 2


def ring_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    """The channels of a ring: those of CollNet, or twice as many at half the rate."""
    graph = collnet_graph(numbers, machine)
    limits = numbers.channels
    rate_GBps = graph.inside_GBps
    is_slow = rate_GBps < limits["hopper_whole_below_GBps"]
    stays_whole = machine.from_hopper and is_slow and graph.channels > limits["hopper_whole_above"]
    if stays_whole or rate_GBps < limits["split_from_GBps"]:
        return graph
    return Graph(2 * graph.channels, rate_GBps / 2, rate_GBps / 2)


def tree_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    """The ring's channels, inside a node as fast as a tree can use."""
    search = machine.search(numbers)
    graph = ring_graph(numbers, machine)
    # of more GPUs on a node the search runs out of steps before it finds faster ones
    if machine.nodes == 1 and machine.gpus > 2:
        return graph
    rates_GBps = search.across if machine.nodes > 1 else search.inside
    # a GPU is the last of its chain, and sends nothing on, in one of as many channels as there are GPUs
    sending = graph.channels * (machine.gpus - 1) / machine.gpus
    most_GBps = search.link_GBps / sending if sending else inf
    inside_GBps = _climb(rates_GBps, graph.inside_GBps, 2 * graph.across_GBps, most_GBps)
    across_GBps = inside_GBps
    if machine.nodes > 1:
        across_GBps = graph.across_GBps
    return Graph(graph.channels, inside_GBps, across_GBps)


def nvls_graph(numbers: Constants, machine: GpuNodes) -> Graph | None:
    """The channels of NVLS, one for each GPU that pulls from the switch (a head); None before Hopper, for
    a GPU alone, and where no rate fits."""
    search = machine.search(numbers)
    heads: int = min(machine.gpus, numbers.nvls["most_heads"])
    if not machine.from_hopper or heads < 2:
        return None
    rates_GBps = search.inside
    nic_GBps = inf
    if machine.nodes > 1:
        rates_GBps = search.across
        nic_GBps = _nic_GBps(search, machine)
    for rate_GBps in rates_GBps:
        # a head's own stream and those that it reduces for all others
        if (heads + 1) * rate_GBps <= search.link_GBps * _FULL and rate_GBps <= nic_GBps:
            across_GBps = _climb(rates_GBps, rate_GBps, 2 * rate_GBps, nic_GBps)
            return Graph(heads, rate_GBps, across_GBps)
    return None


def collnet_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    """The channels that use the most of a GPU's links, or of its NIC."""
    search = machine.search(numbers)
    if machine.nodes == 1:
        return _filling_links(search, search.inside)
    rate_GBps = _nic_GBps(search, machine)
    channels = machine.gpus
    # on other hosts than Intel's the search rather takes half of the NICs than halves the rate
    fills_slot = machine.nic_GBps > search.nic_GBps / 2
    if machine.staged and machine.cpu != "intel" and fills_slot:
        channels = max(machine.gpus // 2, 1)
    # a ring by each NIC: the GPU that it leaves by sends nothing over its links
    most_GBps = search.link_GBps * _FULL / max(machine.gpus - 1, 1)
    # the rates that NICs reach, falling
    reached_GBps = [rate_GBps]
    for listed_GBps in search.across:
        if listed_GBps <= rate_GBps:
            reached_GBps.append(listed_GBps)
    # the fastest of them that the links carry as well, else the slowest
    by_nic_GBps = reached_GBps[-1]
    for GBps in reached_GBps:
        if GBps <= most_GBps:
            by_nic_GBps = GBps
            break
    by_link = _filling_links(search, reached_GBps)
    by_link_GBps = by_link.channels * by_link.inside_GBps
    # better fewer channels that fill the links than one for each NIC
    if by_link.channels < machine.gpus and by_link_GBps > channels * by_nic_GBps:
        return by_link
    return Graph(channels, by_nic_GBps, by_nic_GBps)


def _filling_links(search: ChannelSearch, rates_GBps: Sequence[float]) -> Graph:
    """The channels that use the most of a GPU's links, the fastest of equals, of the rates that are tried,
    falling."""
    best = Graph(0, 0, 0)
    for rate_GBps in rates_GBps:
        if rate_GBps <= _LEAST_TRIED * best.inside_GBps:
            break
        channels = int(search.link_GBps * _FULL // rate_GBps)
        if channels * rate_GBps > best.channels * best.inside_GBps * _FULL:
            best = Graph(channels, rate_GBps, rate_GBps)
    return best


def communicator_channels(numbers: Constants, machine: GpuNodes, ring: Graph) -> int:
    """Channels of a communicator's kernels: twice the ring's, doubled again across nodes from Hopper on
    if few and fast."""
    limits = numbers.channels
    doubled = 2 * ring.channels
    is_fast = ring.inside_GBps > limits["twice_more_above_GBps"]
    if (
        machine.from_hopper
        and machine.nodes > 1
        and is_fast
        and doubled < limits["twice_more_below"]
    ):
        doubled *= 2
    return int(min(doubled, limits["most"]))


def has_one_order(ring: Graph, gpus: int) -> bool:
    """Whether the rings of a node visit its GPUs in one order: their search, before it doubled them,
    ends within its steps."""
    return ring.channels // 2 * gpus <= SAME_ORDER_STEPS


def sent_channels(hardware: Hardware, *, to_all: bool) -> int:
    """Channels of messages (ncclSend): all that a communicator has, rounded up to a power of two, and of
    a single message across nodes two.

    ``to_all``: messages go to all peers, as in an all-to-all.

    Source: NCCL 2.30, src/graph/paths.cc, ncclTopoComputeP2pChannels.
    """
    if hardware.nodes > 1 and not to_all:
        return min(_MESSAGE_CHANNELS, hardware.channels)
    channels = 1
    while channels < hardware.channels:
        channels *= 2
    return channels


def _nic_GBps(search: ChannelSearch, machine: GpuNodes) -> float:
    """The highest listed rate that a NIC reaches through PCIe; below the list, what it reaches.

    Through the hosts' memory a GPU's slot carries what comes in and what goes out, on Intel's hosts
    at 5/6 of the rate: there every GPU's NIC has half. Source: NCCL 2.30, src/graph/topo.cc and
    src/graph/search.cc.
    """
    slot_GBps = search.nic_GBps
    if machine.staged and machine.cpu == "intel":
        slot_GBps /= 2 * _INTEL_STAGED
    reached = min(machine.nic_GBps, slot_GBps)
    return next((rate_GBps for rate_GBps in search.across if rate_GBps <= reached * _FULL), reached)


def _climb(
    rates_GBps: tuple[float, ...], rate_GBps: float, enough_GBps: float, most_GBps: float
) -> float:
    """The rate that a second pass of the search ends at: the next higher ones in turn until one is
    enough, or the next is more than fits. From 20 GB/s over 24 to 30 where 30 are enough."""
    for higher_GBps in sorted(rates_GBps):
        if higher_GBps <= rate_GBps:
            continue
        if rate_GBps >= enough_GBps or higher_GBps > most_GBps * _FULL:
            break
        rate_GBps = higher_GBps
    return rate_GBps
