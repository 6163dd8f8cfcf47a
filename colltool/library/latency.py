"""What NCCL takes for the latency of an algorithm under a protocol, in microseconds.

P ranks on N nodes, p = P/N on each; hop and net are the latencies of a hop inside a node and between nodes.
Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel).
"""

from __future__ import annotations

from colltool.library.hardware import Hardware
from colltool.primitives import AR, BC, REDUCE, Primitive


def latency_us(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The latency of one call, before the ring's plateau.

    - ring: base + (steps - between)·max(hop, host) + between·net; steps 2(P-1) of an all-reduce, P-1 of the others, between
      2(N-1) or N-1, host what the CPU adds to a step across nodes. A broadcast or reduce: :func:`_rooted`.
    - tree: base + 2·((p-1)·hop + log2(N)·net), the logarithm rounded down: a chain in the node, a tree of nodes.
    - collnet_direct: 2·(min(1, p-1)·hop + 0.4·(p-1)) + net; collnet_chain: 2·(p-1)·hop + net.
    - nvls: hop, and net across nodes; nvls_tree: hop + 2·log2(N)·net.
    - pat: base + log2(N)·net/3.5 + 2.8·P.
    """
    numbers = on.constants
    base, hop = numbers.base_us(algorithm, protocol), numbers.hop_us(on.link, algorithm, protocol)
    net = _net(on, algorithm, protocol)
    peers = on.ranks_per_node - 1
    match algorithm:
        case "ring":
            return base + _ring(on, primitive, protocol, hop, net)
        case "tree":
            return base + 2 * (peers * hop + on.tree_levels * net)
        case "collnet_direct":
            return base + 2 * (min(1, peers) * hop + peers * numbers.latency["collnet_direct_peer_us"]) + net
        case "collnet_chain":
            return base + 2 * peers * hop + net
        case "nvls":
            return hop + (net if on.nodes > 1 else 0.0)
        case "nvls_tree":
            return base + hop + 2 * on.tree_levels * net
        case "pat":
            return base + on.tree_levels * net / numbers.latency["pat_hop_share"] + on.ranks * numbers.latency["pat_rank_us"]
    raise AssertionError(algorithm)


def ring_steps(on: Hardware, primitive: Primitive) -> int:
    """Messages of a ring, one after the other, as NCCL counts them: 2(P-1), P-1, and P of a broadcast or reduce."""
    if primitive in (BC, REDUCE):
        return on.ranks
    return (on.ranks - 1) * (2 if primitive is AR else 1)


def _net(on: Hardware, algorithm: str, protocol: str) -> float:
    """A hop between nodes; of a rank alone on its node a tree's, for it hides nothing."""
    return on.constants.hop_us("net", "tree" if on.ranks_per_node == 1 else algorithm, protocol)


def _ring(on: Hardware, primitive: Primitive, protocol: str, hop: float, net: float) -> float:
    if primitive in (BC, REDUCE):
        return _rooted(on, protocol)
    if on.nodes == 1:
        return ring_steps(on, primitive) * hop
    between = (on.nodes - 1) * (2 if primitive is AR else 1)
    simple = on.constants.latency["simple_net_overhead"] if protocol == "simple" else 1.0
    host = on.constants.cpu[on.cpu].net_overhead_us * simple
    return (ring_steps(on, primitive) - between) * max(hop, host) + between * net


def _rooted(on: Hardware, protocol: str) -> float:
    """A broadcast streams: one hop where all rings visit the GPUs in one order; else every hop, under Simple a tree's."""
    wires = on.link if on.nodes == 1 else "net"
    if on.same_channels:
        return on.constants.hop_us(wires, "ring", protocol)
    return on.ranks * on.constants.hop_us(wires, "tree" if protocol == "simple" else "ring", protocol)
