"""NCCL's protocols by their published numbers, for fabrics that list none: the model itself has no protocols."""

from typing import NamedTuple

from colltool.engine.plan import Curve
from colltool.primitives import AR, Primitive, log2_ceil

PROTOCOLS = ("ll", "ll128", "simple")
"""From least latency to most bandwidth."""

BY_POSITION = {"low-latency": "ll", "mid": "ll128", "high-bandwidth": "simple"}
"""What ``calibrate`` calls protocols that a log does not name: which of NCCL's they are is a guess by their order."""


class Published(NamedTuple):
    """One protocol of one algorithm in NCCL's own model: seconds per call and per hop, and its share of the bandwidth."""

    base_s: float
    node_hop_s: float
    network_hop_s: float
    share: float


PUBLISHED = {
    "ring": {
        "ll": Published(6.6e-6, 0.6e-6, 2.7e-6, 0.5),
        "ll128": Published(14e-6, 1.9e-6, 4e-6, 0.92),
        "simple": Published(8.4e-6, 3.4e-6, 14e-6, 1.0),
    },
    "tree": {
        "ll": Published(6.8e-6, 0.6e-6, 5e-6, 1 / 3.8),
        "ll128": Published(14e-6, 1.25e-6, 8.5e-6, 120 / 128),
        "simple": Published(8.4e-6, 4e-6, 14e-6, 1.0),
    },
}
"""NCCL 2.30, src/graph/tuning.cc (baseLat, hwLat, bandwidth factors), for NVLink inside a node. What is missing here runs under
Simple only."""


def named(protocol: str) -> str | None:
    """NCCL's name of a fabric's protocol; None where it is none of NCCL's."""
    name = protocol.lower()
    return name if name in PROTOCOLS else guessed(name)


def guessed(protocol: str) -> str | None:
    """What a calibrated protocol may be in NCCL, by its position; its name may start with the tier's (``ib-low-latency``)."""
    name = protocol.lower()
    return next((theirs for ours, theirs in BY_POSITION.items() if name == ours or name.endswith(f"-{ours}")), None)


def published_curves(algorithm: str, primitive: Primitive, ranks: int, nodes: int, slope: float) -> dict[str, Curve]:
    """The time under each protocol that an algorithm has: NCCL's latencies, and ``slope`` seconds per byte under Simple."""
    node, network = _hops(algorithm, primitive, ranks, nodes)
    return {
        name: Curve(one.base_s + node * one.node_hop_s + network * one.network_hop_s, slope / one.share)
        for name, one in PUBLISHED.get(algorithm, {}).items()
    }


def _hops(algorithm: str, primitive: Primitive, ranks: int, nodes: int) -> tuple[int, int]:
    """Hops inside nodes and over the network, one after the other, as NCCL counts them."""
    passes = 2 if primitive is AR else 1
    if algorithm == "tree":
        return passes * (ranks // nodes - 1), passes * log2_ceil(nodes)
    network = nodes - 1
    return passes * (ranks - 1 - network), passes * network
