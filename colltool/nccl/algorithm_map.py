"""NCCL's algorithms and protocols: our schedule for each, their names in fabrics, and why one is unavailable.

Source of availability: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel), src/init.cc.
"""

from __future__ import annotations

from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.nccl.hardware import Hardware


def spec_of(algorithm: str, primitive: Primitive, on: Hardware) -> str:
    """The schedule, as ``--algorithm`` takes it, that prices an NCCL algorithm; empty if there is none.

    Over all NICs, with a tree between nodes only. None for NCCL's tree on one node (a chain up and down), and for an all-gather
    across nodes by NVLS or CollNet.
    """
    return _SPECS.get((algorithm, _shape(on.ranks, on.nodes), primitive), "")


def _shape(ranks: int, nodes: int) -> str:
    return "node" if nodes == 1 else "alone" if nodes == ranks else "across"


def name_of(spec: str, primitive: Primitive, ranks: int, nodes: int) -> str:
    """The NCCL algorithm, as spelled in its documentation and logs, that a schedule of ours is; empty if none."""
    shape = _shape(ranks, nodes)
    return next((name for key, name in SPELLED.items() if _SPECS.get((key, shape, primitive)) == spec), "")


SPELLED = {
    "ring": "Ring",
    "tree": "Tree",
    "collnet_direct": "CollNetDirect",
    "collnet_chain": "CollNetChain",
    "nvls": "NVLS",
    "nvls_tree": "NVLSTree",
    "pat": "PAT",
}


def algorithms_of(spec: str, primitive: Primitive) -> frozenset[str]:
    return frozenset(algorithm for (algorithm, _, own), name in _SPECS.items() if (own, name) == (primitive, spec))


# Inside a node NCCL's trees and CollNetChain are a chain of its GPUs, with a share of the vector on each NIC: a ring there costs
# the same. CollNetDirect reads all peers at once. NVLS between nodes is NVLS inside with SHARP outside, NCCL's "CollNet+NVLS":
# it, and not one of the two CollNet algorithms, is what in-network / in-network prices.
_SPECS = {
    **{("ring", shape, primitive): "ring" for shape in ("node", "alone") for primitive in (AR, AG, RS)},
    **{("ring", "across", primitive): "multi-rail-ring" for primitive in (AR, AG, RS)},
    **{("ring", shape, primitive): "chain" for shape in ("node", "alone") for primitive in (BC, REDUCE)},
    **{("ring", "across", primitive): "multi-rail-chain" for primitive in (BC, REDUCE)},
    ("tree", "alone", AR): "double-binary-tree",
    ("tree", "across", AR): "hierarchical:ring/double-binary-tree",
    **{("nvls", "node", primitive): "in-network" for primitive in (AR, AG, RS)},
    ("nvls", "across", AR): "hierarchical:in-network/in-network",
    ("nvls_tree", "across", AR): "hierarchical:in-network/double-binary-tree",
    ("collnet_direct", "across", AR): "hierarchical:direct/in-network",
    ("collnet_chain", "across", AR): "hierarchical:ring/in-network",
    ("collnet_chain", "alone", AR): "in-network",
    **{("pat", "alone", primitive): "pat" for primitive in (AG, RS)},
}


SPOKEN = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
"""NCCL_PROTO's spelling by tuner-file name, from lowest latency to highest bandwidth."""

SHORT = ("short-", "shorter-", "shortest-")
"""Prefixes in fabrics for segments of one protocol: fewer channels at smaller sizes."""

SEGMENT = "segment-"
"""Prefix of calibrated segments whose protocol is not known."""


def protocol_of(name: str) -> str:
    """NCCL's protocol (as in its tuner file) behind a fabric's protocol name, in any case; empty if unknown."""
    bare = name.lower()
    for before in SHORT:
        bare = bare.removeprefix(before)
    return bare if bare in SPOKEN else ""


def why_not(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> str:
    """Why NCCL cannot run an algorithm under a protocol here; empty if it can."""
    if algorithm not in on.constants.algorithms[primitive]:
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
            return _without_nvls(on) or (_without_sharp(on, primitive) if on.nodes > 1 else "") or _gather_ranks(on, primitive)
        case "nvls_tree":
            return "needs more than one node" if on.nodes == 1 else _without_nvls(on)
        case "collnet_direct":
            return _without_collnet(on, primitive) or ("" if on.nvswitch else "needs NVSwitch")
        case "collnet_chain":
            return _without_collnet(on, primitive)
        case "pat":
            return "" if on.ranks_per_node == 1 else "needs one rank a node"
    return ""


def _without_nvls(on: Hardware) -> str:
    if on.ranks_per_node < 2:
        return "needs two GPUs of a node"
    if not on.nvls:
        return "needs NVSwitch with multicast (Hopper or newer), and NCCL_NVLS_ENABLE"
    least = on.constants.nvls["least_channels"]
    return "" if on.nvls_graph and on.nvls_graph.channels >= least else f"needs {least} channels or more"


def _gather_ranks(on: Hardware, primitive: Primitive) -> str:
    most = on.constants.nvls["most_ranks_gather"]
    return f"needs at most {most} ranks a node" if primitive is not AR and on.ranks_per_node > most else ""


def _without_collnet(on: Hardware, primitive: Primitive) -> str:
    limits = on.constants.collnet
    if on.nodes < limits["least_nodes"]:
        return f"needs {limits['least_nodes']} nodes or more"
    if on.collnet and on.ranks_per_node > limits["most_ranks_per_node"]:
        return f"needs at most {limits['most_ranks_per_node']} ranks a node"
    return _without_sharp(on, primitive)


def _without_sharp(on: Hardware, primitive: Primitive) -> str:
    """SHARP between nodes; all-gather and reduce-scatter also need a NIC for each GPU."""
    if not on.collnet or on.collnet_graph is None:
        return "needs SHARP: NCCL_COLLNET_ENABLE=1 and a CollNet plugin"
    return "needs a NIC for each GPU" if primitive is not AR and on.nics < on.ranks_per_node else ""
