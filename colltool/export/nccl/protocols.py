"""NCCL's protocols: their names, and what NCCL's own model publishes of them, for fabrics that list none."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from colltool.pricing.costed import Curve
from colltool.primitives import AR, BC, REDUCE, Primitive

PROTOCOLS = ("ll", "ll128", "simple")
"""From least latency to most bandwidth."""

BY_POSITION = {"low-latency": "ll", "mid": "ll128", "high-bandwidth": "simple"}
"""What ``calibrate`` calls protocols that a log does not name: which of NCCL's they are is a guess by their order."""


class Call(NamedTuple):
    """What NCCL's model looks at besides the links."""

    primitive: Primitive
    ranks: int
    nodes: int


class Published(NamedTuple):
    """One algorithm under one protocol: its latency, its share of the algorithm's bandwidth, the most it moves of M."""

    latency_s: float
    share: float = 1.0
    most_Bps: float = inf

    def bound(self, own: Curve) -> Curve:
        """A fabric's own curve under this protocol: slow links are felt, and NCCL is never faster than it says itself."""
        return own._replace(a=max(own.a, self.latency_s), b=max(own.b / self.share, 1 / self.most_Bps))


class _Steps(NamedTuple):
    """Microseconds of a call, of a hop by NVLink and of a hop over the network."""

    base: float
    node: float
    network: float


# NCCL 2.30, src/graph/tuning.cc, ncclTopoTuneModel and its tables baseLatencies, hwLatencies and llMaxBws. Left out are its
# corrections by size (treeCorrectionFactor, the ring's plateau) and its caps by channel.
_RING = {"ll": _Steps(6.6, 0.6, 2.7), "ll128": _Steps(14, 1.9, 4), "simple": _Steps(8.4, 3.4, 14)}
_TREE = {"ll": _Steps(6.8, 0.6, 5), "ll128": _Steps(14, 1.25, 8.5), "simple": _Steps(8.4, 4, 14)}
_RING_SHARES = {"ll": 0.5, "ll128": 0.92, "simple": 1.0}
_TREE_SHARES = {"ll": 1 / 3.8, "ll128": 120 / 128, "simple": 1.0}
_TREE_LL128_SHARE_ON_A_NODE = 7 / 9
_TREE_BANDWIDTH, _TREE_BANDWIDTH_ACROSS = 0.92, 0.85  # of all trees; and once more of those across nodes (its pattern TREE)
_NET_OVERHEAD_US = {"ll": 1.0, "ll128": 1.0, "simple": 3.0}  # of every step of a ring across nodes, hosts with Intel CPUs
_LL_MOST_Bps = (141e9, 39e9, 20.4e9)  # of bus bandwidth: Hopper on 1 node; by NCCL's CPU, Intel, on 2 and on more


def named(protocol: str) -> str | None:
    """NCCL's name of a fabric's protocol; None where it is none of NCCL's."""
    name = protocol.lower()
    return name if name in PROTOCOLS else guessed(name)


def guessed(protocol: str) -> str | None:
    """What a calibrated protocol may be in NCCL, by its position; its name may start with the tier's (``ib-low-latency``)."""
    name = protocol.lower()
    return next((theirs for ours, theirs in BY_POSITION.items() if name == ours or name.endswith(f"-{ours}")), None)


def runs_under(algorithm: str, protocol: str) -> bool:
    """Only rings and trees have LL and LL128."""
    return protocol == "simple" or algorithm in ("ring", "tree")


def published(algorithm: str, call: Call) -> dict[str, Published]:
    """What NCCL says of each protocol that an algorithm has."""
    if algorithm in _SIMPLE_ONLY:
        return {"simple": Published(_SIMPLE_ONLY[algorithm](call) * 1e-6)}
    return _ring(call) if algorithm == "ring" else _tree(call)


def _ring(call: Call) -> dict[str, Published]:
    latency = _rooted_latency if call.primitive in (BC, REDUCE) else _ring_latency
    found = {name: Published(latency(call, name) * 1e-6, share) for name, share in _RING_SHARES.items()}
    most = _ll_most(call) * call.ranks / _ring_steps(call)
    return found | {"ll": found["ll"]._replace(most_Bps=most)}


def _tree(call: Call) -> dict[str, Published]:
    one_node = call.nodes == 1
    shares = _TREE_SHARES | ({"ll128": _TREE_LL128_SHARE_ON_A_NODE} if one_node else {})
    across = 1.0 if one_node else _TREE_BANDWIDTH_ACROSS
    bandwidth = _TREE_BANDWIDTH * across
    found = {name: Published(_tree_latency(call, name) * 1e-6, share * bandwidth) for name, share in shares.items()}
    return found | {"ll": found["ll"]._replace(most_Bps=_ll_most(call) * across / 2)}


def _ring_steps(call: Call) -> int:
    if call.primitive in (BC, REDUCE):
        return call.ranks
    return (call.ranks - 1) * (2 if call.primitive is AR else 1)


def _ring_latency(call: Call, protocol: str) -> float:
    """Hops inside nodes and between them, one after the other; a rank alone on its node hides nothing and pays a tree's hop."""
    steps = _RING[protocol]
    between = (call.nodes - 1) * (2 if call.primitive is AR else 1)
    inside = steps.node if call.nodes == 1 else max(steps.node, _NET_OVERHEAD_US[protocol])
    network = (_TREE if _local(call) == 1 else _RING)[protocol].network
    return steps.base + (_ring_steps(call) - between) * inside + between * network


def _rooted_latency(call: Call, protocol: str) -> float:
    """A broadcast streams: one hop where all rings visit the GPUs in one order (NCCL's sameChannels), which it finds on one node
    and for ranks alone on theirs; with a NIC for each of several GPUs the orders differ, and it counts every hop, a tree's
    under Simple."""
    steps = _RING[protocol]
    if 1 in (call.nodes, _local(call)):
        return steps.base + (steps.node if call.nodes == 1 else steps.network)
    return steps.base + _ring_steps(call) * (_TREE if protocol == "simple" else _RING)[protocol].network


def _tree_latency(call: Call, protocol: str) -> float:
    """Up and down: the chain of a node's GPUs, then the levels of the tree of nodes."""
    steps = _TREE[protocol]
    return steps.base + 2 * ((_local(call) - 1) * steps.node + _log2(call.nodes) * steps.network)


def _nvls(call: Call) -> float:
    return 25 if call.nodes == 1 else 25 + 18


def _nvls_tree(call: Call) -> float:
    return 25 + 2 * _log2(call.nodes) * 20.9


def _collnet_direct(call: Call) -> float:
    others = _local(call) - 1
    return 2 * (min(1, others) * 3.7 + others * 0.4) + 31


def _collnet_chain(call: Call) -> float:
    others = _local(call) - 1
    return 2 * others * 2.8 + (30 if others else _TREE["simple"].network)


def _pat(call: Call) -> float:
    return 8 + _log2(call.nodes) * 14 / 3.5 + call.ranks * 2.8


_SIMPLE_ONLY: dict[str, Callable[[Call], float]] = {
    "nvls": _nvls,
    "nvls_tree": _nvls_tree,
    "collnet_direct": _collnet_direct,
    "collnet_chain": _collnet_chain,
    "pat": _pat,
}
"""Latencies in microseconds of what has neither LL nor LL128."""


def _ll_most(call: Call) -> float:
    return _LL_MOST_Bps[min(call.nodes, len(_LL_MOST_Bps)) - 1]


def _local(call: Call) -> int:
    return call.ranks // call.nodes


def _log2(nodes: int) -> int:
    """Rounded down, as NCCL does."""
    return nodes.bit_length() - 1
