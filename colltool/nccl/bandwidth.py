"""What NCCL takes for the bandwidth of an algorithm under a protocol: bytes of the call over its time, in GB/s.

Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel).
"""

from __future__ import annotations

from colltool.base.primitives import AR, Primitive
from colltool.nccl.hardware import Graph, Hardware
from colltool.nccl.latency import ring_steps


def bandwidth_GBps(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The bandwidth of a call before corrections by size, of a way that is enabled.

    The channels' bandwidth, less what the protocol, limits a channel and the pattern take; then what the schedule makes of it:
    P/steps of rings and NVLS, half of trees and CollNet; all of it for an all-gather or reduce-scatter by another than a ring.
    """
    bus = bus_GBps(on, primitive, algorithm, protocol)
    if algorithm == "ring":
        return bus * on.ranks / ring_steps(on, primitive)
    if primitive is not AR:
        return bus
    return bus * on.ranks / ring_steps(on, primitive) if algorithm.startswith("nvls") else bus * 0.5


def bus_GBps(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The bandwidth of the channels, less what the protocol, limits of a channel and the pattern take."""
    match algorithm:
        case "ring":
            return _ring(on, protocol)
        case "tree":
            return _tree(on, protocol)
        case "nvls" | "nvls_tree":
            return _nvls(on, primitive, algorithm)
        case "collnet_direct":
            return _collnet_direct(on, primitive)
        case "collnet_chain":
            graph = _known(on.collnet_graph)
            return graph.channels * graph.inside_GBps
        case "pat":
            return _channels(on, on.tree) * on.constants.share["pat"]
    raise AssertionError(algorithm)


def _channels(on: Hardware, graph: Graph) -> float:
    """All channels; up to two nodes at their rate inside."""
    return graph.channels * (graph.inside_GBps if on.nodes <= 2 else graph.across_GBps)


def _ll_most(on: Hardware) -> float:
    numbers = on.constants
    return numbers.ll_most_GBps[on.gpu if on.nodes == 1 else numbers.cpu[on.cpu].ll_row][on.column]


def _ring(on: Hardware, protocol: str) -> float:
    numbers, bus = on.constants, _channels(on, on.ring)
    if protocol == "ll":
        return min(_ll_most(on), bus * numbers.share["ring_ll"])
    if protocol == "ll128":
        most = on.ring.channels * numbers.ring_ll128_channel_GBps[on.gpu][on.column]
        return min(bus * numbers.share["ring_ll128"], most)
    return bus


def _tree(on: Hardware, protocol: str) -> float:
    numbers, channels = on.constants, on.tree.channels
    bus = min(_channels(on, on.tree) * numbers.share["tree"], channels * numbers.tree_channel_GBps[on.gpu][on.column])
    if protocol == "ll":
        bus = min(bus * numbers.share["tree_ll"], _ll_most(on))
    elif protocol == "ll128":
        share = numbers.share["tree_ll128_one_node" if on.nodes == 1 else "tree_ll128"]
        bus = min(bus * share, channels * numbers.tree_ll128_channel_GBps[on.gpu][on.column])
    return bus * numbers.share["tree_simple_pattern"] if on.simple_tree else bus


def _nvls(on: Hardware, primitive: Primitive, algorithm: str) -> float:
    numbers, graph = on.constants, _known(on.nvls_graph)
    way = 2.0 if primitive is AR else (on.ranks_per_node - 1) / on.ranks_per_node
    efficiency: float = numbers.nvls["efficiency"][on.gpu]
    rate = graph.inside_GBps * efficiency * (graph.channels - 1) / graph.channels * way
    if algorithm == "nvls_tree":
        rate = min(rate, numbers.nvls_tree_channel_GBps[on.gpu][on.column])
    return graph.channels * min(rate, graph.across_GBps * (2 if algorithm == "nvls_tree" and on.nodes <= 2 else 1))


def _collnet_direct(on: Hardware, primitive: Primitive) -> float:
    numbers, graph = on.constants, _known(on.collnet_graph)
    if primitive is not AR:
        across = numbers.share["collnet_direct_gather_across"] * graph.across_GBps
        return on.ranks_per_node * min(graph.inside_GBps, across)
    ratio = on.ranks_per_node / graph.channels
    share = numbers.share["collnet_direct_from_hopper"] if on.from_hopper else 1.0
    return graph.channels * graph.inside_GBps / (ratio - (ratio - 1) / 2) * share


def _known(graph: Graph | None) -> Graph:
    assert graph is not None  # enabled.why_not said so
    return graph
