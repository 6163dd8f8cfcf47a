"""The channels that NCCL finds, as a few rules, on machines whose GPUs are alike, join one switch and bring a NIC each.

The search tries rates from a list, takes the most bandwidth and then raises what is not yet at its limit. On such machines that
comes to the following (source: NCCL 2.30.7, src/graph/search.cc and src/graph/connect.cc). The rules are ours: they give the
graphs of six machines of H100 and B200 that NCCL's search is known to give, which tests/library/test_graphs.py holds; for other
counts of GPUs and rates of NICs they are what follows from the search, not what was seen.

- ring, one node: the rate that fills a GPU's link best, the highest of equals; as many channels as fit.
- ring, across: a channel for each NIC, at the highest rate that the NIC reaches.
- channels of enough bandwidth are split in two, except, from Hopper on, more than 4 channels of less than 50 GB/s.
- tree: as the ring; across nodes its rate inside then climbs until it is twice the rate across or the GPU's link is full
  (a chain of g GPUs leaves one of g channels out of each).
- NVLS: a channel for each GPU. A GPU sends once for each channel and twice for its own, (g+1) rates on its link. Then the rate
  across climbs in the same way, up to the NIC's; on one node nothing stops it but the list.
- CollNet: as the ring before splitting. Known for H100 with 400G alone.

Anything else (other numbers of NICs, faster NICs on Blackwell, NVL72's NVLS) is not derived: ``library.channels`` gives it.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.nccl.constants import Constants, Gpu, Search
from colltool.nccl.hardware import Graph

_FULL = 1 + 1e-9
_LEAST_TRIED = 0.49  # of the rate that was found first: the search goes no lower


class Machine(NamedTuple):
    """What the search looks at: GPU generation, nodes, GPUs of each, rate of a NIC in GB/s (0 on one node)."""

    gpu: Gpu
    nodes: int
    gpus: int
    nic_GBps: float

    @property
    def from_hopper(self) -> bool:
        """Whether the GPUs are Hopper or newer."""
        return self.gpu in ("hopper", "blackwell")


def ring_graph(numbers: Constants, machine: Machine) -> Graph:
    """The channels of rings."""
    return _split(numbers, machine, _whole(numbers.search[machine.gpu], machine))


def tree_graph(numbers: Constants, machine: Machine) -> Graph:
    """The channels of trees."""
    search, graph = numbers.search[machine.gpu], ring_graph(numbers, machine)
    if machine.nodes == 1:
        return graph
    out = graph.channels * (machine.gpus - 1) / machine.gpus
    most = search.link_GBps / out if out else float("inf")
    return Graph(graph.channels, _climbed(search.across, graph.inside_GBps, 2 * graph.across_GBps, most), graph.across_GBps)


def nvls_graph(numbers: Constants, machine: Machine) -> Graph | None:
    """The channels of NVLS: None before Hopper, and for more GPUs of a node than can pull from the switch."""
    search, gpus = numbers.search[machine.gpu], machine.gpus
    if not machine.from_hopper or not 2 <= gpus <= numbers.nvls["most_heads"]:
        return None
    rates, nic = (search.inside, float("inf")) if machine.nodes == 1 else (search.across, _nic(search, machine))
    fitting = [rate for rate in rates if (gpus + 1) * rate <= search.link_GBps * _FULL and rate <= nic]
    return Graph(gpus, fitting[0], _climbed(rates, fitting[0], 2 * fitting[0], nic)) if fitting else None


def collnet_graph(numbers: Constants, machine: Machine) -> Graph:
    """The channels of CollNet, one for each NIC."""
    return _whole(numbers.search[machine.gpu], machine)


def communicator_channels(numbers: Constants, machine: Machine, ring: Graph) -> int:
    """Channels of a communicator: twice the ring's, and twice once more where few of them are fast."""
    limits, doubled = numbers.channels, 2 * ring.channels
    if (
        machine.from_hopper
        and machine.nodes > 1
        and ring.inside_GBps > limits["twice_more_above_GBps"]
        and doubled < limits["twice_more_below"]
    ):
        doubled *= 2
    return int(min(doubled, limits["most"]))


def _whole(search: Search, machine: Machine) -> Graph:
    """Channels before they are split."""
    if machine.nodes > 1:
        rate = _nic(search, machine)
        return Graph(machine.gpus, rate, rate)
    tried = [rate for rate in search.inside if rate > _LEAST_TRIED * search.inside[0]]
    filled = [(int(search.link_GBps * _FULL // rate), rate) for rate in tried]
    channels, rate = max(filled, key=lambda one: (one[0] * one[1], one[1]))
    return Graph(channels, rate, rate)


def _nic(search: Search, machine: Machine) -> float:
    """The highest rate of the list that a NIC reaches, PCIe considered; the list ends far below any NIC of today."""
    reached = min(machine.nic_GBps, search.nic_GBps)
    return next((rate for rate in search.across if rate <= reached * _FULL), reached)


def _split(numbers: Constants, machine: Machine, graph: Graph) -> Graph:
    limits, rate = numbers.channels, graph.inside_GBps
    whole = rate < limits["hopper_whole_below_GBps"] and graph.channels > limits["hopper_whole_above"]
    if rate < limits["split_from_GBps"] or (machine.from_hopper and whole):
        return graph
    return Graph(2 * graph.channels, rate / 2, rate / 2)


def _climbed(rates: tuple[float, ...], rate: float, enough: float, most: float) -> float:
    """The rate raised along the list while it is below ``enough`` and the next is not above ``most``."""
    for higher in sorted(one for one in rates if one > rate):
        if rate >= enough or higher > most * _FULL:
            break
        rate = higher
    return rate
