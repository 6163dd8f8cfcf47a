"""Which of NCCL's algorithms and protocols are switched on, and why the others are not.

Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel), src/init.cc.
"""

from __future__ import annotations

from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.nccl.hardware import Hardware

HAS = {
    AR: ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree"),
    AG: ("ring", "collnet_direct", "nvls", "pat"),
    RS: ("ring", "collnet_direct", "nvls", "pat"),
    BC: ("ring",),
    REDUCE: ("ring",),
}
"""What NCCL has for each collective that it chooses for; for the other primitives it has one way."""

TUNED = tuple(HAS)


def why_not(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> str:
    """Why NCCL cannot run an algorithm under a protocol here; empty where it can."""
    if algorithm not in HAS[primitive]:
        return f"NCCL has no {algorithm} for {primitive.spoken}"
    if protocol == "simple" or algorithm in ("ring", "tree"):
        return _wires(on, protocol) or _switched_off(on, primitive, algorithm)
    return "runs under Simple alone"


def _wires(on: Hardware, protocol: str) -> str:
    if protocol == "ll128" and on.link == "pci" and on.ranks_per_node > 1:
        return "LL128 needs NVLink between the GPUs of a node"
    return ""


def _switched_off(on: Hardware, primitive: Primitive, algorithm: str) -> str:
    match algorithm:
        case "nvls":
            return _nvls(on) or (_sharp(on, primitive) if on.nodes > 1 else "") or _gather_ranks(on, primitive)
        case "nvls_tree":
            return "needs more than one node" if on.nodes == 1 else _nvls(on)
        case "collnet_direct":
            return _collnet(on, primitive) or ("" if on.nvswitch else "needs NVSwitch")
        case "collnet_chain":
            return _collnet(on, primitive)
        case "pat":
            return "" if on.ranks_per_node == 1 else "needs one rank a node"
    return ""


def _nvls(on: Hardware) -> str:
    if on.ranks_per_node < 2:
        return "needs two GPUs of a node"
    if not on.nvls:
        return "needs NVSwitch with multicast (Hopper or newer), and NCCL_NVLS_ENABLE"
    least = on.constants.nvls["least_channels"]
    return "" if on.nvls_graph and on.nvls_graph.channels >= least else f"needs {least} channels or more"


def _gather_ranks(on: Hardware, primitive: Primitive) -> str:
    most = on.constants.nvls["most_ranks_gather"]
    return f"needs at most {most} ranks a node" if primitive is not AR and on.ranks_per_node > most else ""


def _collnet(on: Hardware, primitive: Primitive) -> str:
    limits = on.constants.collnet
    if on.nodes < limits["least_nodes"]:
        return f"needs {limits['least_nodes']} nodes or more"
    if on.collnet and on.ranks_per_node > limits["most_ranks_per_node"]:
        return f"needs at most {limits['most_ranks_per_node']} ranks a node"
    return _sharp(on, primitive)


def _sharp(on: Hardware, primitive: Primitive) -> str:
    """CollNet, that is SHARP, between nodes; an all-gather and a reduce-scatter with a NIC for each GPU."""
    if not on.collnet or on.collnet_graph is None:
        return "needs SHARP: NCCL_COLLNET_ENABLE=1 and a CollNet plugin"
    return "needs a NIC for each GPU" if primitive is not AR and on.nics < on.ranks_per_node else ""
