"""The channels of NCCL's graphs on a group of GPUs, by its own search or as its logs give them."""

from __future__ import annotations

from colltool.nccl.hardware import ChannelSearch, Constants, GpuNodes, Graph

_FULL = 1 + 1e-9
_INTEL_STAGED = 1.2  # INTEL_P2P_OVERHEAD: 6/5. Source: NCCL 2.30, src/graph/topo.h
_LEAST_TRIED = 0.49  # of the rate that was found first: the search goes no lower


def ring_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    graph, limits = collnet_graph(numbers, machine), numbers.channels
    rate = graph.inside_GBps
    whole = (
        rate < limits["hopper_whole_below_GBps"] and graph.channels > limits["hopper_whole_above"]
    )
    if rate < limits["split_from_GBps"] or (machine.from_hopper and whole):
        return graph
    return Graph(2 * graph.channels, rate / 2, rate / 2)


def tree_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    search, graph = numbers.search[machine.gpu], ring_graph(numbers, machine)
    if machine.nodes == 1:
        return graph
    out = graph.channels * (machine.gpus - 1) / machine.gpus
    most = search.link_GBps / out if out else float("inf")
    return Graph(
        graph.channels,
        _climbed(search.across, graph.inside_GBps, 2 * graph.across_GBps, most),
        graph.across_GBps,
    )


def nvls_graph(numbers: Constants, machine: GpuNodes) -> Graph | None:
    """None before Hopper, or if a node has more GPUs than can pull from the switch."""
    search, gpus = numbers.search[machine.gpu], machine.gpus
    if not machine.from_hopper or not 2 <= gpus <= numbers.nvls["most_heads"]:
        return None
    rates, nic = (
        (search.inside, float("inf"))
        if machine.nodes == 1
        else (search.across, _nic(search, machine))
    )
    fitting = [
        rate for rate in rates if (gpus + 1) * rate <= search.link_GBps * _FULL and rate <= nic
    ]
    return (
        Graph(gpus, fitting[0], _climbed(rates, fitting[0], 2 * fitting[0], nic))
        if fitting
        else None
    )


def collnet_graph(numbers: Constants, machine: GpuNodes) -> Graph:
    search = numbers.search[machine.gpu]
    if machine.nodes > 1:
        rate = _nic(search, machine)
        # on other hosts than Intel's the search rather takes half of the NICs than halves the rate
        shared = (
            machine.staged and machine.cpu != "intel" and machine.nic_GBps > search.nic_GBps / 2
        )
        return Graph(max(machine.gpus // 2, 1) if shared else machine.gpus, rate, rate)
    tried = [rate for rate in search.inside if rate > _LEAST_TRIED * search.inside[0]]
    filled = [(int(search.link_GBps * _FULL // rate), rate) for rate in tried]
    channels, rate = max(filled, key=lambda one: (one[0] * one[1], one[1]))
    return Graph(channels, rate, rate)


def communicator_channels(numbers: Constants, machine: GpuNodes, ring: Graph) -> int:
    """Twice the ring's channels, doubled again across nodes from Hopper on if few and fast."""
    limits, doubled = numbers.channels, 2 * ring.channels
    fast = ring.inside_GBps > limits["twice_more_above_GBps"]
    if machine.from_hopper and machine.nodes > 1 and fast and doubled < limits["twice_more_below"]:
        doubled *= 2
    return int(min(doubled, limits["most"]))


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
    for higher in sorted(one for one in rates if one > rate):
        if rate >= enough or higher > most * _FULL:
            break
        rate = higher
    return rate
