"""Reads a node from the XML of NCCL_TOPO_DUMP_FILE, as NCCL does: :func:`system_of`.

Source: NCCL 2.30, src/graph/topo.cc, ncclTopoGetSystemFromXml.
"""

from __future__ import annotations

from collections.abc import Collection

from colltool.base.errors import ColltoolError
from colltool.base.xml_tree import Element, XmlFormat
from colltool.libraries.nccl.topology.flattening import flatten_switches
from colltool.libraries.nccl.topology.kinds import UNLIMITED_MBps
from colltool.libraries.nccl.topology.rates import (
    between_cpus_MBps,
    number,
    nvlink_MBps,
    port_MBps,
    slot_MBps,
)
from colltool.libraries.nccl.topology.system import (
    Cpu,
    GpuDevice,
    NicPort,
    NodeLink,
    PciSwitch,
    RankedGpu,
    System,
    SystemNode,
    add_link,
    bus_number,
    hang,
    join,
    number_parts,
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

# PCI classes that are switches, and those that are not
_SWITCH_CLASSES = ("0x060400", "0x080100")
# tclass of an nvlink element, or how it begins, by where the link leads
NVLINK_TO_GPU = "0x03"
_NVLINK_TO_CPU = "0x068001"
_NVLINK_TO_NVSWITCH = "0x068000"
_NIC_CLASS = "0x02"
# A PCI switch's model is four numbers of so many bits: vendor and device, and those of the subsystem.
_MODEL_PART_BITS = 16
_MODEL_PART = 0xFFFF


def system_of(
    root: Element, name: str, version: Version, ranks: Collection[int] | None = None
) -> System:
    """The system of a file's ``system`` element; ``name``: the file's, for errors; ``ranks``: of the
    communicator, all by default.

    Raises:
        ColltoolError: without CPUs or ranks, with two GPUs of one rank, or larger than a node is.
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


class _SystemReader:
    """Builds a system from elements: first the CPUs with what hangs below them, then the links across.

    A missing attribute reads as "". Methods add nodes to ``system`` in the order of the file, which is
    NCCL's; links that lead across need all nodes first.

    Attributes:
        by_busid: what is in the slots, by the place of the host and the number of the bus id.
        gpu_elements: each rank with its element.
        bare_nics: NICs without a slot, one a host, by the host's place.
        cpus: the CPU of each device, by the device's id().
    """

    def __init__(self, system: System, name: str, ranks: Collection[int] | None) -> None:
        self.system = system
        self.name = name
        self.ranks = ranks
        self.by_busid: dict[tuple[int, int], SystemNode] = {}
        self.gpu_elements: list[tuple[RankedGpu, Element]] = []
        self.bare_nics: dict[int, SystemNode] = {}
        self.cpus: dict[int, Cpu] = {}

    def add_cpu(self, element: Element) -> None:
        """Add a CPU, its host if that is new, and what hangs below it."""
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
        """Add a slot with a GPU or a NIC, or a switch and what is below it; other slots are left out."""
        tags = [child.tag for child in element.children]
        MBps = slot_MBps(element.get("link_speed"), element.get("link_width"))
        busid = bus_number(element.get("busid"))
        if "gpu" in tags:
            self.add_device(element, parent, cpu, MBps)
        elif "nic" in tags:
            nic = SystemNode("NIC", element.get("busid"), element, cpu.host)
            self.by_busid[cpu.host, busid] = nic
            self.system.nics.append(nic)
            for child in element.children:
                if child.tag == "nic":
                    self.add_nets(child, nic)
            hang(nic, parent, MBps)
        elif is_switch(element.get("class")):
            model = 0
            for word in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
                part = number(element.get(word)) & _MODEL_PART
                model = (model << _MODEL_PART_BITS) + part
            switch = PciSwitch("PCI", element.get("busid"), element, cpu.host, model=model)
            self.by_busid[cpu.host, busid] = switch
            self.system.switches.append(switch)
            for child in element.children:
                if child.tag == "pci":
                    self.add_pci(child, switch, cpu)
            hang(switch, parent, MBps)

    def add_device(self, element: Element, parent: SystemNode, cpu: Cpu, MBps: int) -> None:
        """Add a GPU and its ranks, those of ``self.ranks`` where that is given; a GPU without any is not
        there for NCCL."""
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
        self.by_busid[cpu.host, bus_number(element.get("busid"))] = device
        self.cpus[id(device)] = cpu
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
        """Add the ports of a NIC without a slot; all such NICs of a host are one, at the first CPU that has
        any."""
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
        """Add the ports of a NIC that NCCL uses: those with a ``dev``, unless ``net`` is 0. A port without a
        name is called "net" and its number."""
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
        """Check what was read so far, and count the ranks.

        Raises:
            ColltoolError: as :func:`system_of`.
        """
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
        """Add the NVLinks of every GPU: to another, to its CPU, else to the NVSwitches, all of which are one
        node. Between two GPUs each has an element of its own."""
        for gpu, element in self.gpu_elements:
            device = gpu.device
            for child in element.each("nvlink"):
                count = max(number(child.get("count")), 0)
                MBps = count * nvlink_MBps(device.sm, self.system.version)
                leads_to = child.get("tclass")
                if leads_to.startswith(NVLINK_TO_GPU):
                    target = self.by_busid.get((gpu.host, bus_number(child.get("target"))))
                    if isinstance(target, GpuDevice):
                        add_link(device, target, "NVL", MBps)
                elif leads_to.startswith(_NVLINK_TO_CPU):
                    join(device, self.cpus[id(device)], "NVL", MBps)
                else:
                    if self.system.nvswitch is None:
                        self.system.nvswitch = SystemNode("NVS", "NVSwitch")
                    join(device, self.system.nvswitch, "NVL", MBps)

    def add_c2c(self) -> None:
        """Add the NVLink-C2C of every GPU to its CPU; ``bw`` is MB/s of a link."""
        for gpu, element in self.gpu_elements:
            for child in element.each("c2c"):
                MBps = max(number(child.get("count")) * number(child.get("bw")), 0)
                join(gpu.device, self.cpus[id(gpu.device)], "C2C", MBps)

    def add_pci_links(self, root: Element) -> None:
        """Add links between PCI switches beside the tree, which count as without limit."""
        for element in root.each("pcilink"):
            outer = element.inside("pci")
            cpu = element.inside("cpu")
            if outer is None or cpu is None:
                continue
            host = self.system.hosts.index(cpu.get("host_hash") or "0x0")
            switch = self.by_busid.get((host, bus_number(outer.get("busid"))))
            other = self.by_busid.get((host, bus_number(element.get("target"))))
            if isinstance(switch, PciSwitch) and isinstance(other, PciSwitch):
                join(switch, other, "LOC", UNLIMITED_MBps)


def is_switch(pci_class: str) -> bool:
    """Whether a PCI class without a GPU or NIC below it is a switch to NCCL: also any unknown one."""
    if pci_class.startswith(_SWITCH_CLASSES):
        return True
    other_parts = (_NVLINK_TO_NVSWITCH, _NVLINK_TO_CPU, NVLINK_TO_GPU, _NIC_CLASS)
    return not pci_class.startswith(other_parts)


def join_cpus(system: System) -> None:
    """Join the CPUs of each host, each at its own rate."""
    for cpu in system.cpus:
        for other in system.cpus:
            if cpu is not other and cpu.host == other.host:
                add_link(cpu, other, "SYS", cpu.MBps)


def sort_links(node: SystemNode) -> None:
    """Move the link to the parent to the end of each list of links, from a CPU down along PCI."""

    def is_upward(link: NodeLink) -> bool:
        return link.kind == "PCI" and link.to is node.parent

    # stable: other links keep their order
    node.links.sort(key=is_upward)
    for link in node.links:
        if link.kind == "PCI" and link.to.parent is node:
            sort_links(link.to)


def _decimal(text: str) -> float:
    """A number; 0 of what is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0
