"""What NCCL's cost model takes from the graphs of a communicator (:func:`hardware_of`)."""

from __future__ import annotations

from colltool.libraries.nccl.hardware import Cpu, Gpu, Graph, Hardware, Link
from colltool.libraries.nccl.topology.connect import Communicator, Joined
from colltool.libraries.nccl.topology.graphs import NodeGraphs
from colltool.libraries.nccl.topology.kinds import NVL, TREE, keeps_order
from colltool.libraries.nccl.topology.system import System

_LL128_LEAST_SM = 70


def hardware_of(node: NodeGraphs, communicator: Communicator, version: str) -> Hardware:
    """A communicator as the cost model of a version with data takes it."""
    system = node.system
    graphs = {}
    for name, joined in communicator.graphs.items():
        graphs[name] = _graph(joined, system)
    least = min(len(domain.ranks) for domain in node.domains)
    link: Link = graphs["ring"].link or "pci"
    collnet = "collnet_chain" in graphs
    return Hardware(
        version=version,
        gpu=generation(system.least_sm),
        cpu=cpu_of(system),
        nodes=communicator.nodes,
        ranks_per_node=communicator.ranks // communicator.nodes,
        all_ranks=communicator.ranks,
        nics=len(system.nets),
        link=link,
        nvswitch=system.nvswitch is not None,
        nvls="nvls" in graphs and least > 1,
        collnet=collnet,
        ring=graphs["ring"],
        tree=graphs["tree"],
        nvls_graph=graphs.get("nvls"),
        collnet_graph=graphs.get("collnet_chain"),
        collnet_direct_graph=graphs.get("collnet_direct"),
        channels=communicator.channels,
        simple_tree=communicator.graphs["tree"].pattern == TREE,
        same_channels=communicator.graphs["ring"].same,
    )


def generation(sm: int) -> Gpu:
    """The row of the cost model's tables for a compute capability."""
    if sm >= 100:
        return "blackwell"
    if sm >= 90:
        return "hopper"
    if sm >= 80:
        return "ampere"
    return "volta"


def cpu_of(system: System) -> Cpu:
    """The row for the host: that of the first CPU; of Power and others that of Arm, which is the
    same."""
    first = system.cpus[0]
    if first.is_amd:
        return "amd"
    if first.arch == "x86_64":
        return "intel"
    return "arm"


def _graph(joined: Joined, system: System) -> Graph:
    return Graph(
        joined.channels,
        joined.inside_MBps / 1000,
        joined.across_MBps / 1000,
        latency_us=joined.latency_us,
        link="nvlink" if joined.inside == NVL else "pci",
        runs_ll128=_runs_ll128(joined, system),
    )


def _runs_ll128(joined: Joined, system: System) -> bool:
    """Whether paths keep the order that LL128 needs, between GPUs of one kind."""
    kinds = {device.sm for device in system.devices}
    least = min(kinds)
    alike = len(kinds) == 1 or least >= 90
    near = keeps_order(joined.inside, joined.across, from_hopper=least >= 90)
    return near and alike and least >= _LL128_LEAST_SM
