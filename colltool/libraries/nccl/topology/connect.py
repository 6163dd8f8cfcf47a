"""A communicator made of the graphs of its nodes: what its ranks agree on (:func:`communicator_of`),
and its rings over all ranks (:func:`rings_over`).

Source of the numbers: NCCL 2.30, src/graph/connect.cc and src/transport/nvls.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from colltool.libraries.nccl.topology.graphs import DomainGraphs, NodeGraphs
from colltool.libraries.nccl.topology.requests import CROSS_NIC
from colltool.libraries.nccl.topology.search import Searched

_MAX_CHANNELS = 64
# from Hopper on few and fast rings get twice the channels again across nodes
_FAST_RING_MBps = 45_000
_FEW_CHANNELS = 16
# channels of NVLS, by the GPUs and what they reach
_HOPPER_NVLS = 16
_BLACKWELL_NVLS = 24
_BLACKWELL_NVLS_ACROSS = 32
_FAST_NIC_MBps = 96_000
_USUAL_NIC_MBps = 48_000
_SMALL_NODE_RANKS = 8


class Joined(NamedTuple):
    """A graph as all ranks agree on it: of their own graphs the least channels and rates, the farthest
    types of path.

    Args:
        inside_MBps, across_MBps: of each channel, between GPUs and to NICs.
        inside, across: types of path, as numbers of :mod:`~colltool.libraries.nccl.topology.kinds`.
        pattern, cross_nic: the greatest of the ranks'.
        same: all channels visit the GPUs in one order, on every node.
        latency_us: of the first node's NICs.
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

    Args:
        nodes: domains of all hosts.
        channels: of its kernels, more than its graphs' for rings and trees.
        nvls_channels: of NVLS's kernels; 0 without NVLS.
        least_nic_MBps: what a GPU reaches its own NIC at, the least of them; 0 without NICs.
        graphs: by pattern, as in :class:`DomainGraphs`; those that every domain has.
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
            graphs[name] = _agreed_graph([domain.graphs[name] for domain in domains])
    # Rings and trees share the kernels' channels: as many of the one as of the other.
    graph_channels = min(graphs["ring"].channels, graphs["tree"].channels)
    for name in ("ring", "tree"):
        graphs[name] = graphs[name]._replace(channels=graph_channels)
    ranks = hosts * node.system.ranks
    total_nodes = hosts * len(domains)
    sm = node.system.least_sm
    channels = _kernel_channels(graphs, sm, total_nodes, ranks)
    nic_MBps = least_nic_MBps(domains)
    nvls_count = 0
    if "nvls" in graphs:
        fewest_ranks = min(len(domain.ranks) for domain in domains)
        nvls_count = nvls_channels(sm, total_nodes, fewest_ranks, nic_MBps)
    if node.system.version.nvls_channels_grow:
        channels = max(channels, nvls_count)
    return Communicator(total_nodes, ranks, channels, nvls_count, nic_MBps, graphs)


def _kernel_channels(graphs: dict[str, Joined], sm: int, nodes: int, ranks: int) -> int:
    """Channels of a communicator's kernels: twice the ring's; half as many again for CollNet's chain if
    it is faster inside nodes of several ranks; doubled again across nodes from Hopper on if few and
    fast."""
    ring = graphs["ring"]
    channels = min(2 * ring.channels, _MAX_CHANNELS)
    chain = graphs.get("collnet_chain")
    if chain is not None and chain.inside_MBps > chain.across_MBps and ranks > nodes:
        channels = min(channels + channels // 2, _MAX_CHANNELS)
    is_fast = ring.inside_MBps > _FAST_RING_MBps
    if sm >= 90 and nodes > 1 and is_fast and channels < _FEW_CHANNELS:
        channels *= 2
    return channels


def _agreed_graph(results: Sequence[Searched]) -> Joined:
    """The graph that the ranks of all domains agree on, of those that each found for a pattern."""
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
    """Channels of NVLS's kernels; ``nic_MBps``: what a GPU reaches its own NIC at, 0 on one node."""
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
    """The least rate at which a GPU reaches a NIC of its own; 0 without NICs."""
    rates = []
    for domain in domains:
        for gpu in domain.paths.system.gpus:
            for net in domain.paths.preferred_nets(gpu):
                rates.append(domain.paths.get(gpu, net).MBps)
    return min(rates, default=0)


def rings_over(node: NodeGraphs) -> list[list[int]]:
    """The ring of each channel over all ranks, from the least rank on; the ranks of a host follow those of
    the one before."""
    domain_rings = [domain.graphs["ring"].best for domain in node.domains]
    count = min(ring.channel_count for ring in domain_rings)
    has_pairs = count % 2 == 0
    crossing = has_pairs and max(ring.request.cross_nic for ring in domain_rings) == CROSS_NIC
    # every domain of every host, with the number of its host's first rank
    nodes = list(product(range(0, node.nodes * node.system.ranks, node.system.ranks), node.domains))
    rings = []
    for channel in range(count):
        ring: list[int] = []
        for place, (first_rank, domain) in enumerate(nodes):
            # Channels of a pair leave by each other's NICs. On every other node the two change
            # places, so that a NIC meets the same one of the next node.
            swapped = crossing and place % 2 == 1
            there = channel ^ 1 if swapped else channel
            gpus = domain.graphs["ring"].best.channels[there].gpus
            ring += [first_rank + domain.ranks[gpu] for gpu in gpus]
        start = ring.index(min(ring))
        rings.append(ring[start:] + ring[:start])
    return rings
