"""What NCCL's cost model knows of a group: its shape, its GPUs and hosts, what is switched on, and the channels of each graph."""

from __future__ import annotations

from dataclasses import dataclass

from colltool.nccl.constants import Constants, Cpu, Gpu, Link, constants


@dataclass(frozen=True)
class Graph:
    """The channels that NCCL's search found for a pattern.

    Args:
        channels: how many.
        inside_GBps: of one, inside a node.
        across_GBps: of one, between nodes.
    """

    channels: int
    inside_GBps: float
    across_GBps: float


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A group as NCCL sees it.

    Args:
        version: of NCCL, as the data file is called.
        gpu: generation.
        cpu: vendor of the hosts; it counts across nodes only.
        nodes: NCCL's nodes: domains of NVLink, or hosts.
        ranks_per_node: the same on each.
        nics: network cards of a node, 0 on one node.
        link: what joins the GPUs of a node.
        nvswitch: whether a switch does.
        nvls: whether NVLink SHARP is there and on.
        collnet: whether CollNet is on and its plugin loaded (NCCL_COLLNET_ENABLE=1; NCCL's default is off).
        ring, tree: graphs.
        nvls_graph, collnet_graph: None where there is none.
        channels: of a communicator.
        simple_tree: whether a node had to use the pattern TREE: all traffic of a NIC through one GPU.
        same_channels: whether all rings visit the GPUs in one order.
    """

    version: str
    gpu: Gpu
    cpu: Cpu
    nodes: int
    ranks_per_node: int
    nics: int
    link: Link
    nvswitch: bool
    nvls: bool
    collnet: bool
    ring: Graph
    tree: Graph
    nvls_graph: Graph | None
    collnet_graph: Graph | None
    channels: int
    simple_tree: bool
    same_channels: bool

    @property
    def ranks(self) -> int:
        """All of the group."""
        return self.nodes * self.ranks_per_node

    @property
    def constants(self) -> Constants:
        """The numbers of its version of NCCL."""
        return constants(self.version)

    @property
    def tree_levels(self) -> int:
        """log2 of the nodes, rounded down, as NCCL counts the levels of its trees."""
        return self.nodes.bit_length() - 1

    @property
    def from_hopper(self) -> bool:
        """Whether the GPUs are Hopper or newer."""
        return self.gpu in ("hopper", "blackwell")

    @property
    def column(self) -> int:
        """Which number of a table by nodes holds: for 1, 2 or more."""
        return min(self.nodes, 3) - 1
