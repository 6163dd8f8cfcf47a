"""A communicator made of the graphs of its nodes: its channels, and its rings over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.libraries.nccl.topology.graphs import DomainGraphs, NodeGraphs
from colltool.libraries.nccl.topology.search import Searched

_MAX_CHANNELS = 64
# from Hopper on few and fast rings get twice the channels again across nodes
_FAST_RING_MBps = 45_000
_FEW_CHANNELS = 16
# of NVLS
_HOPPER_NVLS = 16
_BLACKWELL_NVLS = 24
_BLACKWELL_NVLS_ACROSS = 32
_FAST_NIC_MBps = 96_000
_USUAL_NIC_MBps = 48_000
_SMALL_NODE_RANKS = 8


class Joined(NamedTuple):
    """A graph as all ranks agree on it: the least channels and rates, the farthest types.

    ``pattern``, ``cross_nic``: the greatest.
    """

    channels: int
    inside_MBps: float
    across_MBps: float
    inside: int
    across: int
    pattern: int
    cross_nic: int
    same: bool
    latency_us: float


class Communicator(NamedTuple):
    """A communicator over nodes, or domains, as NCCL counts them.

    ``channels``: of its kernels, more than its graphs' for rings and trees; ``nvls_channels``: of
    NVLS's; ``least_nic_MBps``: what a GPU reaches its own NIC at, 0 without NICs.
    """

    nodes: int
    ranks: int
    channels: int
    nvls_channels: int
    least_nic_MBps: int
    graphs: dict[str, Joined]


def communicator_of(
    node: NodeGraphs, nodes: int | None = None, *, collnet: bool = False
) -> Communicator:
    """The communicator over ``nodes`` hosts or NVLink domains, by default as many as the graphs were
    found for; graphs across nodes are the same for all numbers of them.

    ``collnet``: NCCL_COLLNET_ENABLE is set.
    """
    hosts = node.nodes if nodes is None else nodes
    domains = node.domains
    graphs = {}
    for name in domains[0].graphs:
        if name.startswith("collnet") and not collnet:
            continue
        if all(name in domain.graphs for domain in domains):
            graphs[name] = _joined([domain.graphs[name] for domain in domains])
    count = min(graphs["ring"].channels, graphs["tree"].channels)
    for name in ("ring", "tree"):
        graphs[name] = graphs[name]._replace(channels=count)
    ranks = hosts * node.system.ranks
    total = hosts * len(domains)
    sm = node.system.least_sm
    channels = min(2 * count, _MAX_CHANNELS)
    chain = graphs.get("collnet_chain")
    if chain is not None and chain.inside_MBps > chain.across_MBps and ranks > total:
        channels = min(channels + channels // 2, _MAX_CHANNELS)
    fast = graphs["ring"].inside_MBps > _FAST_RING_MBps
    if sm >= 90 and total > 1 and fast and channels < _FEW_CHANNELS:
        channels *= 2
    least_nic = least_nic_MBps(domains)
    nvls = 0
    if "nvls" in graphs:
        least_ranks = min(len(domain.ranks) for domain in domains)
        nvls = nvls_channels(sm, total, least_ranks, least_nic)
    if node.system.version.nvls_channels_grow:
        channels = max(channels, nvls)
    return Communicator(total, ranks, channels, nvls, least_nic, graphs)


def _joined(results: Sequence[Searched]) -> Joined:
    requests = [result.best.request for result in results]
    return Joined(
        channels=min(result.best.channel_count for result in results),
        inside_MBps=min(result.inside_MBps for result in results),
        across_MBps=min(result.across_MBps for result in results),
        inside=max(result.inside for result in results),
        across=max(result.across for result in results),
        pattern=max(request.pattern for request in requests),
        cross_nic=max(request.cross_nic for request in requests),
        same=all(request.same for request in requests),
        latency_us=results[0].best.latency_us,
    )


def nvls_channels(sm: int, nodes: int, ranks_of_node: int, nic_MBps: int) -> int:
    """Channels of NVLS's kernels."""
    if sm < 100:
        return _HOPPER_NVLS
    if nodes == 1:
        return _BLACKWELL_NVLS
    if nic_MBps > _FAST_NIC_MBps and ranks_of_node <= _SMALL_NODE_RANKS:
        return _BLACKWELL_NVLS
    if nodes > 2 and _USUAL_NIC_MBps <= nic_MBps <= _FAST_NIC_MBps:
        return _BLACKWELL_NVLS
    return _BLACKWELL_NVLS_ACROSS


def least_nic_MBps(domains: Sequence[DomainGraphs]) -> int:
    """The least rate at which a GPU reaches a NIC of its own."""
    rates = []
    for domain in domains:
        for gpu in domain.paths.system.gpus:
            for net in domain.paths.preferred_nets(gpu):
                rates.append(domain.paths.get(gpu, net).MBps)
    return min(rates, default=0)


def rings_over(node: NodeGraphs) -> list[list[int]]:
    """The ring of each channel over all ranks, from the least rank on; the ranks of a host follow those of
    the one before."""
    parts = []
    for host in range(node.nodes):
        for domain in node.domains:
            parts.append((host * node.system.ranks, domain))
    found_rings = [domain.graphs["ring"].best for _, domain in parts]
    count = min(found.channel_count for found in found_rings)
    crossing = max(found.request.cross_nic for found in found_rings) == 2 and count % 2 == 0
    rings = []
    for channel in range(count):
        ring: list[int] = []
        for place, (first, domain) in enumerate(parts):
            # a NIC of a pair meets the same one of the next node
            own = channel ^ 1 if crossing and place % 2 else channel
            channels = domain.graphs["ring"].best.channels
            ring += [first + domain.ranks[gpu] for gpu in channels[own].gpus]
        least = ring.index(min(ring))
        rings.append(ring[least:] + ring[:least])
    return rings
