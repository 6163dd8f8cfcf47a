"""NCCL's bandwidth (bytes of the call over its time, GB/s) and latency (us) for an algorithm under a protocol.

P ranks on N nodes, p = P/N on each; hop and net are the latencies of a hop inside a node and between nodes. Source: NCCL 2.30.7,
src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime).
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.primitives import AR, BC, REDUCE, Primitive
from colltool.nccl.hardware import Graph, Hardware


def bandwidth_GBps(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The bandwidth of a call before corrections by size.

    From that of the channels: P/steps for rings and NVLS all-reduce, half for tree and CollNet all-reduce, all of it for an
    all-gather or reduce-scatter by anything but a ring.
    """
    bus = bus_GBps(on, primitive, algorithm, protocol)
    if algorithm == "ring":
        return bus * on.ranks / ring_steps(on, primitive)
    if primitive is not AR:
        return bus
    return bus * on.ranks / ring_steps(on, primitive) if algorithm.startswith("nvls") else bus * 0.5


def bus_GBps(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The bandwidth of the channels, less what the protocol, per-channel limits and the pattern cost."""
    match algorithm:
        case "ring":
            return _ring_GBps(on, protocol)
        case "tree":
            return _tree_GBps(on, protocol)
        case "nvls" | "nvls_tree":
            return _nvls_GBps(on, primitive, algorithm)
        case "collnet_direct":
            return _collnet_direct_GBps(on, primitive)
        case "collnet_chain":
            graph = _known(on.collnet_graph)
            return graph.channels * graph.inside_GBps
        case "pat":
            return _channels_GBps(on, on.tree) * on.constants.share["pat"]
    raise AssertionError(algorithm)


def _channels_GBps(on: Hardware, graph: Graph) -> float:
    """All channels; at their inside rate on up to two nodes."""
    return graph.channels * (graph.inside_GBps if on.nodes <= 2 else graph.across_GBps)


def _ll_most(on: Hardware) -> float:
    numbers = on.constants
    return numbers.ll_most_GBps[on.gpu if on.nodes == 1 else numbers.cpu[on.cpu].ll_row][on.column]


def _ring_GBps(on: Hardware, protocol: str) -> float:
    numbers, bus = on.constants, _channels_GBps(on, on.ring)
    if protocol == "ll":
        return min(_ll_most(on), bus * numbers.share["ring_ll"])
    if protocol == "ll128":
        most = on.ring.channels * numbers.ring_ll128_channel_GBps[on.gpu][on.column]
        return min(bus * numbers.share["ring_ll128"], most)
    return bus


def _tree_GBps(on: Hardware, protocol: str) -> float:
    numbers, channels = on.constants, on.tree.channels
    bus = min(_channels_GBps(on, on.tree) * numbers.share["tree"], channels * numbers.tree_channel_GBps[on.gpu][on.column])
    if protocol == "ll":
        bus = min(bus * numbers.share["tree_ll"], _ll_most(on))
    elif protocol == "ll128":
        share = numbers.share["tree_ll128_one_node" if on.nodes == 1 else "tree_ll128"]
        bus = min(bus * share, channels * numbers.tree_ll128_channel_GBps[on.gpu][on.column])
    return bus * numbers.share["tree_simple_pattern"] if on.simple_tree else bus


def _nvls_GBps(on: Hardware, primitive: Primitive, algorithm: str) -> float:
    numbers, graph = on.constants, _known(on.nvls_graph)
    way = 2.0 if primitive is AR else (on.ranks_per_node - 1) / on.ranks_per_node
    efficiency: float = numbers.nvls["efficiency"][on.gpu]
    rate = graph.inside_GBps * efficiency * (graph.channels - 1) / graph.channels * way
    if algorithm == "nvls_tree":
        rate = min(rate, numbers.nvls_tree_channel_GBps[on.gpu][on.column])
    return graph.channels * min(rate, graph.across_GBps * (2 if algorithm == "nvls_tree" and on.nodes <= 2 else 1))


def _collnet_direct_GBps(on: Hardware, primitive: Primitive) -> float:
    numbers, graph = on.constants, _known(on.collnet_graph)
    if primitive is not AR:
        across = numbers.share["collnet_direct_gather_across"] * graph.across_GBps
        return on.ranks_per_node * min(graph.inside_GBps, across)
    ratio = on.ranks_per_node / graph.channels
    share = numbers.share["collnet_direct_from_hopper"] if on.from_hopper else 1.0
    return graph.channels * graph.inside_GBps / (ratio - (ratio - 1) / 2) * share


def _known(graph: Graph | None) -> Graph:
    assert graph is not None  # why_not said so
    return graph


class LatencyTerm(NamedTuple):
    name: str
    times: float
    us: float


def latency_terms(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> list[LatencyTerm]:
    """The terms of one call's latency, before the ring's plateau.

    - ring: base + (steps - between)·max(hop, host) + between·net; steps 2(P-1) for an all-reduce, else P-1; between 2(N-1) or
      N-1; host: what the CPU adds to a step across nodes. A broadcast or reduce streams: one hop if all rings visit the GPUs in
      the same order, else every hop (under Simple a tree's).
    - tree: base + 2·((p-1)·hop + log2(N)·net), the logarithm rounded down: a chain in the node, a tree of nodes.
    - collnet_direct: 2·(min(1, p-1)·hop + 0.4·(p-1)) + net; collnet_chain: 2·(p-1)·hop + net.
    - nvls: hop, and net across nodes; nvls_tree: hop + 2·log2(N)·net.
    - pat: base + log2(N)·net/3.5 + 2.8·P.
    """
    own, numbers = _hops(on, algorithm, protocol), on.constants
    peers = on.ranks_per_node - 1
    match algorithm:
        case "ring":
            return [own.base, *_ring(on, primitive, protocol, own)]
        case "tree":
            return [own.base, own.inside(2 * peers), own.between(2 * on.tree_levels)]
        case "collnet_direct":
            peer = LatencyTerm("GPUs read directly", 2 * peers, numbers.latency["collnet_direct_peer_us"])
            return [own.inside(2 * min(1, peers)), peer, own.between(1)]
        case "collnet_chain":
            return [own.inside(2 * peers), own.between(1)]
        case "nvls":
            return [own.inside(1), own.between(1 if on.nodes > 1 else 0)]
        case "nvls_tree":
            return [own.base, own.inside(1), own.between(2 * on.tree_levels)]
        case "pat":
            rank = LatencyTerm("ranks", on.ranks, numbers.latency["pat_rank_us"])
            return [own.base, own.between(on.tree_levels / numbers.latency["pat_hop_share"]), rank]
    raise AssertionError(algorithm)


class _Hops(NamedTuple):
    base: LatencyTerm
    hop_us: float
    net_us: float

    def inside(self, times: float) -> LatencyTerm:
        return LatencyTerm("hops inside a node", times, self.hop_us)

    def between(self, times: float) -> LatencyTerm:
        return LatencyTerm("hops between nodes", times, self.net_us)


def _hops(on: Hardware, algorithm: str, protocol: str) -> _Hops:
    numbers = on.constants
    base = LatencyTerm("base", 1, numbers.base_us(algorithm, protocol))
    return _Hops(base, numbers.hop_us(on.link, algorithm, protocol), _net(on, algorithm, protocol))


def ring_steps(on: Hardware, primitive: Primitive) -> int:
    """Consecutive messages of a ring as NCCL counts them: 2(P-1), P-1, and P for a broadcast or reduce."""
    if primitive in (BC, REDUCE):
        return on.ranks
    return (on.ranks - 1) * (2 if primitive is AR else 1)


def _net(on: Hardware, algorithm: str, protocol: str) -> float:
    """A hop between nodes; with one rank per node a tree's, which hides nothing."""
    return on.constants.hop_us("net", "tree" if on.ranks_per_node == 1 else algorithm, protocol)


def _ring(on: Hardware, primitive: Primitive, protocol: str, own: _Hops) -> list[LatencyTerm]:
    if primitive in (BC, REDUCE):
        return [_rooted(on, protocol)]
    if on.nodes == 1:
        return [own.inside(ring_steps(on, primitive))]
    between = (on.nodes - 1) * (2 if primitive is AR else 1)
    simple = on.constants.latency["simple_net_overhead"] if protocol == "simple" else 1.0
    host = on.constants.cpu[on.cpu].net_overhead_us * simple
    inside = own.inside(ring_steps(on, primitive) - between)
    return [inside._replace(us=max(inside.us, host)), own.between(between)]


def _rooted(on: Hardware, protocol: str) -> LatencyTerm:
    wires = on.link if on.nodes == 1 else "net"
    if on.same_channels:
        return LatencyTerm("hops of a stream", 1, on.constants.hop_us(wires, "ring", protocol))
    us = on.constants.hop_us(wires, "tree" if protocol == "simple" else "ring", protocol)
    return LatencyTerm("hops from rank to rank", on.ranks, us)


def corrections(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> dict[float, float]:
    """Bandwidth factors by size, for all-reduce by trees, and by NVLSTree on Blackwell with x86 hosts."""
    table = on.constants.size_correction
    nvls_too = algorithm == "nvls_tree" and on.gpu == "blackwell" and on.constants.cpu[on.cpu].x86
    if primitive is not AR or not (algorithm == "tree" or nvls_too):
        return {}
    steps = table["tree_steps" if algorithm == "tree" else "nvls_tree_steps"]
    first = float(table["first_bytes"])
    return {first * 2**step: share for step, share in enumerate(table[protocol][:steps])} | {first * 2**steps: 1.0}


def plateau(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> dict[float, float]:
    """Latency factors by size, for a ring all-reduce under Simple across nodes."""
    if (primitive, algorithm, protocol) != (AR, "ring", "simple") or on.nodes == 1:
        return {}
    limit = on.constants.plateau
    return {float(limit["bytes"] * on.channels * on.ranks): limit["factor"][on.gpu]}
