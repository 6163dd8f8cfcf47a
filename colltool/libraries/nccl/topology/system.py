"""A node as NCCL's search sees it: CPUs, PCI switches, GPUs, NICs and NVSwitches, and one-way links.

Read from the XML of NCCL_TOPO_DUMP_FILE (:func:`system_of`). A physical GPU is a DEV; a rank on it a
GPU. Links end at DEVs. Nodes are numbered in the order of the file, which decides between equals.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from colltool.base.errors import ColltoolError
from colltool.base.xml_tree import Element, XmlFormat
from colltool.libraries.nccl.topology.kinds import UNLIMITED_MBps
from colltool.libraries.nccl.topology.rates import (
    between_cpus_MBps,
    number,
    nvlink_MBps,
    port_MBps,
    slot_MBps,
)
from colltool.libraries.nccl.topology.versions import Version

FIX = (
    "write one: NCCL_TOPO_DUMP_FILE=node.xml ./build/all_reduce_perf -g 8 (or any job of a whole"
    " node)"
)
FORMAT = XmlFormat("system", "NCCL", FIX)

# An NVLink domain of Blackwell has 72 GPUs; no node is larger.
MAX_GPUS = 72
MAX_NICS = 144
MAX_SWITCHES = 512
# without NVSwitches the search looks through orders of the GPUs
MAX_UNSWITCHED_GPUS = 32

_SWITCH_CLASSES = ("0x060400", "0x080100")
_NVLINK_TO_GPU = "0x03"
_NVLINK_TO_CPU = "0x068001"
_NVLINK_TO_NVSWITCH = "0x068000"
_NIC_CLASS = "0x02"
# Broadcom's Gen4 switches, and the two levels of Gen5's, without the last 12 bits of their 64
_GEN4_SWITCH = 0x1000C0101000A000
_GEN5_UPPER_SWITCH = 0x1000C03010000000
_FLATTENED = {_GEN4_SWITCH: _GEN4_SWITCH, _GEN5_UPPER_SWITCH: 0x1000C03010001000}
_LAST_BITS = 0xFFF
_SUBSYSTEM_BITS = 0xFFFF


@dataclass(eq=False)
class NodeLink:
    """A one-way link; ``kind`` is what it is made of: LOC, NVL, C2C, PCI, SYS or NET.

    ``number``: its place among all links of the system; ``back``: the link the other way, None of a
    one-way NVLink.
    """

    owner: SystemNode
    to: SystemNode
    kind: str
    MBps: int
    number: int = -1
    back: NodeLink | None = None


@dataclass(eq=False)
class SystemNode:
    """A part of a system; ``type`` is CPU, PCI, DEV, GPU, NIC, NET or NVS, ``name`` what it is called
    in the file, ``parent`` the switch or CPU whose slot it is in."""

    type: str
    name: str
    element: Element | None = None
    host: int = 0
    number: int = -1
    parent: SystemNode | None = None
    links: list[NodeLink] = field(default_factory=list)

    def total_MBps(self, kind: str) -> int:
        """The rate of all its links of a kind."""
        total = 0
        for link in self.links:
            if link.kind == kind:
                total += link.MBps
        return total


@dataclass(eq=False)
class Cpu(SystemNode):
    """A NUMA domain."""

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
    """A physical GPU, of a compute capability."""

    sm: int = 0


@dataclass(eq=False)
class RankedGpu(SystemNode):
    """A rank on a device; ``dev``: the device's number of the driver."""

    rank: int = 0
    dev: int = 0
    has_gdr: bool = False
    device: GpuDevice = field(default_factory=lambda: GpuDevice("DEV", ""))


@dataclass(eq=False)
class NicPort(SystemNode):
    """A NIC's port as the network plugin counts them."""

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
        ranks: of the communicator on this node, also after GPUs were trimmed.
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
        return min(device.sm for device in self.devices)

    @property
    def is_amd(self) -> bool:
        """Whether NCCL takes it for a host of AMD: it asks the first CPU alone."""
        return self.cpus[0].is_amd


def system_of(
    root: Element, name: str, version: Version, ranks: Collection[int] | None = None
) -> System:
    """The system of a file's ``system`` element; ``name``: the file's, for errors; ``ranks``: of the
    communicator, all by default.

    Raises:
        ColltoolError: without CPUs or ranks, or larger than a node is.
    """
    reader = _SystemReader(System(version), name, ranks)
    for element in root.children:
        if element.tag == "cpu":
            reader.add_cpu(element)
    system = reader.system
    reader.check()
    reader.add_nvlinks()
    reader.add_c2c()
    reader.add_pci_links(root)
    flatten_switches(system)
    join_cpus(system)
    for cpu in system.cpus:
        sort_links(cpu)
    number_parts(system)
    return system


def add_link(owner: SystemNode, to: SystemNode, kind: str, MBps: int) -> None:
    """Add a rate between two nodes, keeping the owner's links by falling rate, equals in order."""
    links = owner.links
    link = None
    for known in links:
        if known.to is to and known.kind == kind:
            link = known
    if link is None:
        link = NodeLink(owner, to, kind, 0)
        links.append(link)
    link.MBps += MBps
    at = links.index(link)
    while at > 0 and links[at - 1].MBps < link.MBps:
        links[at] = links[at - 1]
        at -= 1
    links[at] = link


def join(node: SystemNode, other: SystemNode, kind: str, MBps: int) -> None:
    """Add links both ways, the first node's first."""
    add_link(node, other, kind, MBps)
    add_link(other, node, kind, MBps)


def hang(node: SystemNode, parent: SystemNode, MBps: int) -> None:
    """Put a node into a slot of its parent."""
    node.parent = parent
    join(node, parent, "PCI", MBps)


class _SystemReader:
    """Builds a system from elements; ``places``: DEVs by host and bus id."""

    def __init__(self, system: System, name: str, ranks: Collection[int] | None) -> None:
        self.system = system
        self.name = name
        self.ranks = ranks
        self.places: dict[tuple[int, int], SystemNode] = {}
        self.gpu_elements: list[tuple[RankedGpu, Element]] = []
        # NICs without a slot, one a host
        self.bare_nics: dict[int, SystemNode] = {}
        self.at_cpu: dict[int, Cpu] = {}

    def add_cpu(self, element: Element) -> None:
        host_name = element.get("host_hash") or "0x0"
        hosts = self.system.hosts
        if host_name not in hosts:
            hosts.append(host_name)
        arch = element.get("arch") or "x86_64"
        vendor = element.get("vendor")
        family = number(element.get("familyid"))
        cpu = Cpu(
            "CPU",
            element.get("numaid"),
            element,
            hosts.index(host_name),
            arch=arch,
            vendor=vendor,
            MBps=between_cpus_MBps(arch, vendor, family, number(element.get("modelid"))),
        )
        self.system.cpus.append(cpu)
        for child in element.children:
            if child.tag == "pci":
                self.add_pci(child, cpu, cpu)
            elif child.tag == "nic":
                self.add_bare_nic(child, cpu)

    def add_pci(self, element: Element, parent: SystemNode, cpu: Cpu) -> None:
        """A slot with a GPU or a NIC, or a switch and what is below it."""
        tags = [child.tag for child in element.children]
        MBps = slot_MBps(element.get("link_speed"), element.get("link_width"))
        busid = bus_number(element.get("busid"))
        if "gpu" in tags:
            self.add_device(element, parent, cpu, MBps)
        elif "nic" in tags:
            nic = SystemNode("NIC", element.get("busid"), element, cpu.host)
            self.places[cpu.host, busid] = nic
            self.system.nics.append(nic)
            for child in element.children:
                if child.tag == "nic":
                    self.add_nets(child, nic)
            hang(nic, parent, MBps)
        elif is_switch(element.get("class")):
            words = ("vendor", "device", "subsystem_vendor", "subsystem_device")
            model = 0
            for word in words:
                model = (model << 16) + (number(element.get(word)) & _SUBSYSTEM_BITS)
            switch = PciSwitch("PCI", element.get("busid"), element, cpu.host, model=model)
            self.places[cpu.host, busid] = switch
            self.system.switches.append(switch)
            for child in element.children:
                if child.tag == "pci":
                    self.add_pci(child, switch, cpu)
            hang(switch, parent, MBps)

    def add_device(self, element: Element, parent: SystemNode, cpu: Cpu, MBps: int) -> None:
        """A GPU's slot; one without ranks is not there for NCCL."""
        in_use = []
        for child in element.children:
            if child.tag != "gpu" or not child.get("rank"):
                continue
            if self.ranks is None or number(child.get("rank")) in self.ranks:
                in_use.append(child)
        if not in_use:
            return
        device = GpuDevice("DEV", element.get("busid"), element, cpu.host)
        device.sm = number(in_use[0].get("sm"))
        self.system.devices.append(device)
        self.places[cpu.host, bus_number(element.get("busid"))] = device
        self.at_cpu[id(device)] = cpu
        hang(device, parent, MBps)
        for child in in_use:
            gpu = RankedGpu(
                "GPU",
                element.get("busid"),
                child,
                cpu.host,
                rank=number(child.get("rank")),
                dev=number(child.get("dev")),
                has_gdr=number(child.get("gdr")) == 1 and not child.get("mlopart"),
                device=device,
            )
            self.system.gpus.append(gpu)
            self.gpu_elements.append((gpu, child))
            join(device, gpu, "LOC", UNLIMITED_MBps)

    def add_bare_nic(self, element: Element, cpu: Cpu) -> None:
        """A NIC without a slot; a host has one for all of them, at the first CPU that has any."""
        nic = self.bare_nics.get(cpu.host)
        if nic is None:
            nic = SystemNode("NIC", "no slot", element, cpu.host)
            self.bare_nics[cpu.host] = nic
            self.system.nics.append(nic)
            self.add_nets(element, nic)
            join(nic, cpu, "PCI", UNLIMITED_MBps)
        else:
            self.add_nets(element, nic)

    def add_nets(self, element: Element, nic: SystemNode) -> None:
        for child in element.children:
            if child.tag != "net" or not child.get("dev") or child.get("net") == "0":
                continue
            net = NicPort(
                "NET",
                child.get("name") or f"net {child.get('dev')}",
                child,
                nic.host,
                dev=number(child.get("dev")),
                guid=number(child.get("guid")),
                port=number(child.get("port")),
                latency_us=_decimal(child.get("latency")),
                MBps=port_MBps(child.get("speed")),
                has_gdr=number(child.get("gdr")) == 1,
                has_collnet=number(child.get("coll")) != 0,
                rail=child.get("rail"),
                plane=child.get("plane"),
            )
            self.system.nets.append(net)
            join(nic, net, "NET", net.MBps)

    def check(self) -> None:
        system = self.system
        if not system.cpus:
            what = "has no <cpu> elements below <system>: a topology file of NCCL has them"
            raise ColltoolError(what, where=self.name, fix=FIX)
        if not system.gpus:
            what = "has no <gpu> with a rank: a file for NCCL_TOPO_FILE, which NCCL completes when it runs"
            fix = "run any job with it and NCCL_TOPO_DUMP_FILE=node.xml, and take that file"
            raise ColltoolError(what, where=self.name, fix=fix)
        counts = (
            ("GPUs", len(system.gpus), MAX_GPUS),
            ("NICs", len(system.nets), MAX_NICS),
            ("PCI switches", len(system.switches), MAX_SWITCHES),
            ("CPUs", len(system.cpus), MAX_GPUS),
        )
        for word, count, most in counts:
            if count > most:
                what = f"has {count} {word}, more than {most}: no node or NVLink domain is so large"
                raise ColltoolError(what, where=self.name, fix=FIX)
        ranks = {gpu.rank for gpu in system.gpus}
        if len(ranks) < len(system.gpus):
            what = "has two <gpu> elements of one rank"
            raise ColltoolError(what, where=self.name, fix="dump the file of one communicator")
        system.ranks = len(ranks)

    def add_nvlinks(self) -> None:
        for gpu, element in self.gpu_elements:
            device = gpu.device
            for child in element.each("nvlink"):
                count = max(number(child.get("count")), 0)
                MBps = count * nvlink_MBps(device.sm, self.system.version)
                leads_to = child.get("tclass")
                if leads_to.startswith(_NVLINK_TO_GPU):
                    target = self.places.get((gpu.host, bus_number(child.get("target"))))
                    if isinstance(target, GpuDevice):
                        add_link(device, target, "NVL", MBps)
                elif leads_to.startswith(_NVLINK_TO_CPU):
                    join(device, self.at_cpu[id(device)], "NVL", MBps)
                else:
                    if self.system.nvswitch is None:
                        self.system.nvswitch = SystemNode("NVS", "NVSwitch")
                    join(device, self.system.nvswitch, "NVL", MBps)

    def add_c2c(self) -> None:
        for gpu, element in self.gpu_elements:
            for child in element.each("c2c"):
                MBps = max(number(child.get("count")) * number(child.get("bw")), 0)
                join(gpu.device, self.at_cpu[id(gpu.device)], "C2C", MBps)

    def add_pci_links(self, root: Element) -> None:
        for element in root.each("pcilink"):
            outer = element.inside("pci")
            cpu = element.inside("cpu")
            if outer is None or cpu is None:
                continue
            host = self.system.hosts.index(cpu.get("host_hash") or "0x0")
            switch = self.places.get((host, bus_number(outer.get("busid"))))
            other = self.places.get((host, bus_number(element.get("target"))))
            if isinstance(switch, PciSwitch) and isinstance(other, PciSwitch):
                join(switch, other, "LOC", UNLIMITED_MBps)


def bus_number(busid: str) -> int:
    """A bus id as a number.

    >>> hex(bus_number("0000:12:00.0"))
    '0x12000'
    """
    digits = busid.replace(":", "").replace(".", "")
    try:
        return int(digits[:16] or "0", 16)
    except ValueError:
        return 0


def is_switch(pci_class: str) -> bool:
    """Whether a PCI class without a GPU or NIC below it is a switch to NCCL: also any unknown one."""
    if pci_class.startswith(_SWITCH_CLASSES):
        return True
    others = (_NVLINK_TO_NVSWITCH, _NVLINK_TO_CPU, _NVLINK_TO_GPU, _NIC_CLASS)
    return not pci_class.startswith(others)


def flatten_switches(system: System) -> None:
    """Give the ports of Broadcom's inner switches to the outer one: they are one switch."""
    again = True
    while again:
        again = False
        for switch in system.switches:
            inner_model = _FLATTENED.get(switch.model & ~_LAST_BITS)
            if inner_model is None:
                continue
            for inner in _inner_switches(switch, inner_model):
                _swallow(system, switch, inner)
                again = True
            if again:
                switch.model |= _SUBSYSTEM_BITS
                break


def _inner_switches(switch: PciSwitch, model: int) -> list[PciSwitch]:
    found = []
    for link in switch.links:
        inner = link.to
        if not isinstance(inner, PciSwitch) or inner.parent is not switch:
            continue
        if inner.model & ~_LAST_BITS == model:
            found.append(inner)
    return found


def _swallow(system: System, switch: PciSwitch, inner: PciSwitch) -> None:
    switch.links = [link for link in switch.links if link.to is not inner]
    for link in inner.links:
        if link.to is switch:
            continue
        switch.links.append(NodeLink(switch, link.to, link.kind, link.MBps))
        if link.to.parent is inner:
            link.to.parent = switch
        for back in link.to.links:
            if back.to is inner:
                back.to = switch
    system.switches.remove(inner)


def join_cpus(system: System) -> None:
    """Join the CPUs of each host, each at its own rate."""
    for cpu in system.cpus:
        for other in system.cpus:
            if cpu is not other and cpu.host == other.host:
                add_link(cpu, other, "SYS", cpu.MBps)


def sort_links(node: SystemNode) -> None:
    """Move the link up to the end of each list, from a CPU down along PCI."""
    upward: list[NodeLink] = []
    others: list[NodeLink] = []
    for link in node.links:
        up = link.kind == "PCI" and link.to is node.parent
        (upward if up else others).append(link)
    node.links = others + upward
    for link in others:
        if link.kind == "PCI" and link.to.parent is node:
            sort_links(link.to)


def number_parts(system: System) -> None:
    """Number nodes and links: GPUs first, each list in its order."""
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
    found = {(id(link.owner), id(link.to), link.kind): link for link in system.links}
    for link in system.links:
        link.back = found.get((id(link.to), id(link.owner), link.kind))


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
