"""Machines of NCCL's kind: H100 and B200 nodes, by the fabrics that a user would write."""

from __future__ import annotations

from typing import Any

from colltool.estimate.nccl_hardware import hardware_on
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Hardware

SWITCH = {"reduce": True, "multicast": True, "alpha_switch": "0.2us"}


def cluster(nodes: int, gpus: int = 8, nic: str = "50GB/s", **library: Any) -> Fabric:
    """Nodes with a NIC for each GPU; one GPU a node has no tier of its own."""
    node = {
        "name": "nvlink",
        "topology": "star",
        "size": gpus,
        "alpha": "1us",
        "bandwidth": "450GB/s",
        "in_network": SWITCH,
    }
    network = {"name": "ib", "topology": "clos", "size": nodes, "alpha": "2us", "bandwidth": nic}
    facts = {"name": "nccl", "version": "2.30", "gpu": "hopper", "cpu": "intel"} | library
    return load_fabric(
        {"name": "cluster", "tiers": ([node] if gpus > 1 else []) + [network], "library": facts}
    )


def machine(nodes: int, gpus: int = 8, nic: str = "50GB/s", **library: Any) -> Hardware:
    """The whole cluster, or one node of one."""
    return hardware_on(cluster(max(nodes, 2), gpus, nic, **library), nodes * gpus)
