"""The input of NCCL's cost model from the graphs that its search found: :func:`hardware_of` makes the
:class:`~colltool.libraries.nccl.hardware.Hardware` of a communicator, rates in GB/s."""

from __future__ import annotations

from colltool.libraries.nccl.hardware import Cpu, Gpu, Graph, Hardware, Link
from colltool.libraries.nccl.topology.connect import Communicator, Joined
from colltool.libraries.nccl.topology.graphs import NodeGraphs
from colltool.libraries.nccl.topology.kinds import NVL, TREE, keeps_order
from colltool.libraries.nccl.topology.system import System

# Volta. Source: NCCL 2.30, src/graph/tuning.cc, ncclTopoTuneModel
_LL128_LEAST_SM = 70


def hardware_of(node: NodeGraphs, communicator: Communicator, version: str) -> Hardware:
    """A communicator as the cost model takes it.

    Args:
        node: whose graphs the communicator joins.
        version: one with data, of :func:`colltool.libraries.nccl.hardware.versions`.
    """
    system = node.system
    graphs = {}
    for name, joined in communicator.graphs.items():
        graphs[name] = _graph(joined, system)
    fewest_ranks = min(len(domain.ranks) for domain in node.domains)
    return Hardware(
        version=version,
        gpu=generation(system.least_sm),
        cpu=cpu_of(system),
        nodes=communicator.nodes,
        # of domains of different sizes the mean, rounded down
        ranks_per_node=communicator.ranks // communicator.nodes,
        all_ranks=communicator.ranks,
        nics=len(system.nets),
        link=_link(communicator.graphs["ring"]),
        nvswitch=system.nvswitch is not None,
        nvls="nvls" in graphs and fewest_ranks > 1,
        collnet="collnet_chain" in graphs,
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
    """The row of the cost model's tables for a compute capability, such as 90 of Hopper. Older GPUs
    than Volta have Volta's."""
    if sm >= 100:
        return "blackwell"
    if sm >= 90:
        return "hopper"
    if sm >= 80:
        return "ampere"
    return "volta"


def cpu_of(system: System) -> Cpu:
    """The host's row of the cost model's tables, by its first CPU, as NCCL asks. Power and others have
    Arm's, which is the same."""
    first = system.cpus[0]
    if first.is_amd:
        return "amd"
    if first.arch == "x86_64":
        return "intel"
    return "arm"


def _graph(joined: Joined, system: System) -> Graph:
    """A graph as the cost model takes it, with MB/s turned into GB/s."""
    return Graph(
        joined.channels,
        joined.inside_MBps / 1000,
        joined.across_MBps / 1000,
        latency_us=joined.latency_us,
        link=_link(joined),
        runs_ll128=_runs_ll128(joined, system),
    )


def _link(joined: Joined) -> Link:
    """What joins the GPUs of a node in a graph, by the farthest of its paths between them."""
    return "nvlink" if joined.inside == NVL else "pci"


def _runs_ll128(joined: Joined, system: System) -> bool:
    """Whether NCCL runs LL128 on a graph: on paths that keep the order of bytes, from Volta on, and
    before Hopper on GPUs of one compute capability only."""
    least_sm = system.least_sm
    from_hopper = least_sm >= 90
    alike = from_hopper or all(device.sm == least_sm for device in system.devices)
    in_order = keeps_order(joined.inside, joined.across, from_hopper=from_hopper)
    return in_order and alike and least_sm >= _LL128_LEAST_SM
