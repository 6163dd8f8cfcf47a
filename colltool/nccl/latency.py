"""What NCCL takes for the latency of an algorithm under a protocol, in microseconds.

P ranks on N nodes, p = P/N on each; hop and net are the latencies of a hop inside a node and between nodes.
Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel).
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.primitives import AR, BC, REDUCE, Primitive
from colltool.nccl.hardware import Hardware


class LatencyTerm(NamedTuple):
    """So many times a latency of that kind."""

    name: str
    times: float
    us: float


def latency_us(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The latency of one call, before the ring's plateau: the sum of its terms."""
    return sum(term.times * term.us for term in latency_terms(on, primitive, algorithm, protocol))


def latency_terms(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> list[LatencyTerm]:
    """What the latency of one call is made of.

    - ring: base + (steps - between)·max(hop, host) + between·net; steps 2(P-1) of an all-reduce, P-1 of the others, between
      2(N-1) or N-1, host what the CPU adds to a step across nodes. A broadcast or reduce streams: one hop where all rings visit
      the GPUs in one order; else every hop, under Simple a tree's.
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
    """Messages of a ring, one after the other, as NCCL counts them: 2(P-1), P-1, and P of a broadcast or reduce."""
    if primitive in (BC, REDUCE):
        return on.ranks
    return (on.ranks - 1) * (2 if primitive is AR else 1)


def _net(on: Hardware, algorithm: str, protocol: str) -> float:
    """A hop between nodes; of a rank alone on its node a tree's, for it hides nothing."""
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
