"""A node as NCCL's search sees it: CPUs, PCI switches, GPUs, NICs and NVSwitches, and one-way links.

A physical GPU is a DEV; a rank on it a GPU. Links end at DEVs. Nodes are numbered in the order of the
file, which decides between equals.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from colltool.base.xml_tree import Element
from colltool.libraries.nccl.topology.versions import Version


@dataclass(eq=False)
class NodeLink:
    """A one-way link.

    Args:
        kind: what it is made of: LOC (a rank and its own GPU, which costs nothing), NVL, C2C, PCI, SYS
            (between CPUs) or NET (a NIC and its port).
        MBps: one way; several links between the same ends are one, at the sum of their rates.
        number: its place among all links of the system.
        back: the link the other way; None of a one-way NVLink.
    """

    owner: SystemNode
    to: SystemNode
    kind: str
    MBps: int
    number: int = -1
    back: NodeLink | None = None


@dataclass(eq=False)
class SystemNode:
    """A part of a system.

    Args:
        type: CPU, PCI (a switch), DEV (a physical GPU), GPU (a rank on one), NIC, NET (a port of one)
            or NVS (all NVSwitches).
        name: what it is called in the file: a bus id, a NIC's name, a CPU's NUMA number.
        element: of the file that it was read from; None of NVSwitches.
        host: its place among the system's hosts.
        number: its place among the system's nodes.
        parent: the switch or CPU whose slot it is in.
    """

    type: str
    name: str
    element: Element | None = None
    host: int = 0
    number: int = -1
    parent: SystemNode | None = None
    links: list[NodeLink] = field(default_factory=list)

    def total_MBps(self, kind: str) -> int:
        """The rate of all its links of a kind."""
        return sum(link.MBps for link in self.links if link.kind == kind)


@dataclass(eq=False)
class Cpu(SystemNode):
    """A NUMA domain; ``MBps``: to the host's other CPUs."""

    arch: str = ""
    vendor: str = ""
    MBps: int = 0

    @property
    def is_intel(self) -> bool:
        return self.arch == "x86_64" and self.vendor == "GenuineIntel"

    @property
    def is_amd(self) -> bool:
        return self.arch == "x86_64" and self.vendor == "AuthenticAMD"

    @property
    def is_power(self) -> bool:
        return self.arch.startswith("ppc64")


@dataclass(eq=False)
class PciSwitch(SystemNode):
    """A PCI switch; ``model``: its 64-bit id."""

    model: int = 0


@dataclass(eq=False)
class GpuDevice(SystemNode):
    """A physical GPU; ``sm``: its compute capability, such as 90 of Hopper."""

    sm: int = 0


@dataclass(eq=False)
class RankedGpu(SystemNode):
    """A rank on a device; ``dev``: the device's number by the driver; ``has_gdr``: GPUDirect RDMA."""

    rank: int = 0
    dev: int = 0
    has_gdr: bool = False
    device: GpuDevice = field(default_factory=lambda: GpuDevice("DEV", ""))


@dataclass(eq=False)
class NicPort(SystemNode):
    """A NIC's port as the network plugin counts them.

    Args:
        dev: its number by the plugin.
        guid, port: those of the device; NICs with the same two share their rate. A guid of 0 is none.
        has_gdr, has_collnet: GPUDirect RDMA; a CollNet plugin.
        rail, plane: of the network that it is in; empty if unknown.
    """

    dev: int = 0
    guid: int = 0
    port: int = 0
    latency_us: float = 0.0
    MBps: int = 0
    has_gdr: bool = False
    has_collnet: bool = False
    rail: str = ""
    plane: str = ""

    @property
    def id(self) -> int:
        """NCCL's number of it: the host above 56 bits, and the device."""
        return (self.host << 56) + self.dev


@dataclass(eq=False)
class System:
    """A node, or the nodes of an NVLink domain. Lists are in the order of the file.

    Args:
        nvswitch: one for all NVSwitches; None without.
        ranks: how many the communicator has on this node, also after GPUs were trimmed.
        hosts: their hashes, in the order of the file.
        nodes, links: all of them, by their numbers.
    """

    version: Version
    cpus: list[Cpu] = field(default_factory=list)
    switches: list[PciSwitch] = field(default_factory=list)
    devices: list[GpuDevice] = field(default_factory=list)
    gpus: list[RankedGpu] = field(default_factory=list)
    nics: list[SystemNode] = field(default_factory=list)
    nets: list[NicPort] = field(default_factory=list)
    nvswitch: SystemNode | None = None
    ranks: int = 0
    hosts: list[str] = field(default_factory=list)
    nodes: list[SystemNode] = field(default_factory=list)
    links: list[NodeLink] = field(default_factory=list)

    @property
    def least_sm(self) -> int:
        """The least compute capability of its GPUs."""
        return min(device.sm for device in self.devices)

    @property
    def is_amd(self) -> bool:
        """Whether NCCL takes it for a host of AMD: it asks the first CPU alone."""
        return self.cpus[0].is_amd


def add_link(owner: SystemNode, to: SystemNode, kind: str, MBps: int) -> None:
    """Add a rate to the one-way link of a kind between two nodes, which is made if it is not there. The
    owner's links stay by falling rate; of equal ones the earlier goes first."""
    links = owner.links
    link = _link_to(owner, to, kind)
    if link is None:
        link = NodeLink(owner, to, kind, 0)
        links.append(link)
    link.MBps += MBps
    place = links.index(link)
    while place > 0 and links[place - 1].MBps < link.MBps:
        links[place] = links[place - 1]
        place -= 1
    links[place] = link


def _link_to(owner: SystemNode, to: SystemNode, kind: str) -> NodeLink | None:
    """The link of a kind from one node to another; None without."""
    return next((link for link in owner.links if link.to is to and link.kind == kind), None)


def join(node: SystemNode, other: SystemNode, kind: str, MBps: int) -> None:
    """Add links both ways, the first node's first."""
    add_link(node, other, kind, MBps)
    add_link(other, node, kind, MBps)


def hang(node: SystemNode, parent: SystemNode, MBps: int) -> None:
    """Put a node into a slot of its parent, with PCI links both ways."""
    node.parent = parent
    join(node, parent, "PCI", MBps)


def number_parts(system: System) -> None:
    """Number nodes and links anew, GPUs first and each list in its order, and pair each link with the one
    the other way. Nodes that are in no list are dropped."""
    system.nodes = [
        *system.gpus,
        *system.nets,
        *system.devices,
        *system.cpus,
        *system.switches,
        *system.nics,
    ]
    if system.nvswitch is not None:
        system.nodes.append(system.nvswitch)
    system.links = []
    for place, node in enumerate(system.nodes):
        node.number = place
        for link in node.links:
            link.number = len(system.links)
            system.links.append(link)
    by_ends = {(id(link.owner), id(link.to), link.kind): link for link in system.links}
    for link in system.links:
        link.back = by_ends.get((id(link.to), id(link.owner), link.kind))


def bus_number(busid: str) -> int:
    """A bus id as a number; 0 of what is none.

    >>> hex(bus_number("0000:12:00.0"))
    '0x12000'
    """
    digits = busid.replace(":", "").replace(".", "")
    try:
        return int(digits[:16] or "0", 16)
    except ValueError:
        return 0
