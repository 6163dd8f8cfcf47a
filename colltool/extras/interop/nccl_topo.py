"""A fabric's node as the XML that NCCL reads through NCCL_TOPO_FILE: CPUs, PCI switches, GPUs with their
NVLinks, and NICs (:func:`nccl_topo`).

A fabric states GPUs, links and NICs, and not which slot holds what: that is taken from the usual host
of such GPUs (``fabric/data/usual_hosts.csv``), and said in comments at the head of the file.

:func:`node_parts` reads the fabric; the functions below "Elements" write what it found. Of its ``UsualHost``,
``sm`` is the compute capability without its point (90 is 9.0), ``per_switch`` the GPUs of a PCI switch (0: GPUs
are in slots of the CPU), ``per_cpu`` those of a NUMA domain (None: half of a host's), ``slot_Bps`` the rate of a
GPU's slot (None: it is in none), and ``c2c`` its NVLink-C2C to the CPU (``5x44712``; empty: none).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.xml_tree import Element, comment_text
from colltool.extras.interop.infragraph_links import LinkBundle, link_bundles, switch_count
from colltool.fabric.dumps.link_rates import nvlink_Bps
from colltool.fabric.dumps.pci import (
    INFINIBAND,
    LANE_BPS,
    NETWORK,
    SLOT_LANES,
    UsualHost,
    accelerator_id,
    nic_id,
    usual_host,
)
from colltool.fabric.dumps.rates import rate_text
from colltool.fabric.media import NETWORKS, PER_HOST
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_media import has_gpudirect, media_of
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.libraries.nccl.topology.system_reader import MAX_GPUS

ANY_NVSWITCH = "fffffff:ff:ff.0"  # the bus id that NCCL writes for all NVSwitches
# PCI classes, six hex digits: of a bridge such as an NVSwitch, a PCI switch, a GPU, and NICs.
_NVSWITCH_CLASS = "0x068000"
_SWITCH_CLASS = "0x060400"
_GPU_CLASS = "0x030200"
_INFINIBAND_CLASS = f"{INFINIBAND}00"
_ETHERNET_CLASS = f"{NETWORK}0000"
# GPUs of a file that names a generation and no device
_BY_GENERATION = {"volta": "V100", "ampere": "A100", "hopper": "H100", "blackwell": "B200"}
# GT/s of a lane, of PCIe 3, 4, 5 and 6; a lane of n GT/s carries n / 8 GB/s
_PCIE_GTPS = (8, 16, 32, 64)
# GT/s of a GPU that is in no slot
_NO_SLOT_GTPS = 32
_FIRST_MULTICAST_SM = 90  # compute capability of Hopper, whose NVSwitches have multicast


class CpuModel(NamedTuple):
    """A CPU as NCCL's file names it, by the attributes of its element."""

    arch: str
    vendor: str
    familyid: int
    modelid: int


_CPUS = {
    "intel": CpuModel("x86_64", "GenuineIntel", 6, 106),
    "amd": CpuModel("x86_64", "AuthenticAMD", 143, 49),
    "arm": CpuModel("arm64", "ARM", 8, 3393),
}
# Intel's model beside GPUs of a compute capability and later, the latest first; 106 before
_INTEL_MODELS = {100: 207, 90: 143}


@dataclass(frozen=True)
class NvLinks:
    """NVLinks of a GPU that lead to the same GPU, or to NVSwitches."""

    to: int | None  # a GPU by its number in the node, over all hosts; None: NVSwitches
    count: int


@dataclass(frozen=True)
class Nics:
    """The NICs of a node; none where the whole fabric is one node."""

    count: int = 0
    medium: str = ""  # ib, roce, efa, socket ...
    Bps: float = 0.0  # of each, one way


class NodeParts(NamedTuple):
    """What a node has, as its fabric states it.

    Args:
        model: of the GPUs.
        usual: what hosts of such GPUs have.
        gpus: how many the file has.
        per_host: how many GPUs of the whole node are on a host.
        links: of each GPU of the file; those to GPUs beyond it included.
        nics: of all these GPUs together.
        gpudirect: whether NICs read and write GPUs.
        cpu: intel, amd or arm.
    """

    model: str
    usual: UsualHost
    gpus: int
    per_host: int
    links: list[list[NvLinks]]
    nics: Nics
    gpudirect: bool
    cpu: str

    @property
    def hosts(self) -> int:
        """How many hosts these GPUs are on; the last may have fewer."""
        return ceil(self.gpus / self.per_host)


def nccl_topo(fabric: Fabric, gpus: int | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the XML, and what was assumed for it in sentences, which also stand at its head.

    Args:
        gpus: how many of the node are in the file, the first ones; None: all.

    Raises:
        ColltoolError: a node that is not of NVIDIA GPUs, whose slots colltool does not know, whose tier
            is no number of NVLinks, or that has fewer GPUs than are asked for.
    """
    node = node_parts(fabric, gpus)
    root = Element("system", {"version": "1"}, 0, 0)
    for host in range(node.hosts):
        _add_host(root, node, host)
    title = f"colltool export nccl-topo: {counted(node.gpus, 'GPU')} of {fabric.name}"
    notes = tuple(_notes(node, fabric))
    comments = "".join(map(comment_text, (title, *notes)))
    return comments + root.text(), notes


def node_parts(fabric: Fabric, gpus: int | None = None) -> NodeParts:
    """What the fabric states of its node, checked and completed; ColltoolError as
    :func:`nccl_topo`."""
    check_even(fabric)
    model = _model(fabric)
    usual = usual_host(model)
    if usual.sm is None or usual.per_switch is None:
        what = f"colltool does not know the slots of hosts of {model}"
        fix = "dump a node's own: NCCL_TOPO_DUMP_FILE=node.xml"
        raise ColltoolError(what, argument="fabric", fix=fix)
    gpus_of_node = _gpus_of_whole_node(fabric)
    links: list[list[NvLinks]] = [[] for _ in range(gpus_of_node)]
    if gpus_of_node > 1 and not _in_slots(fabric):
        links = _links(fabric, model, usual.sm)
    wanted = gpus_of_node if gpus is None else gpus
    most_gpus = min(gpus_of_node, MAX_GPUS)
    if not 1 <= wanted <= most_gpus:
        what = f"NCCL's file of a node of {fabric.name} has at most {counted(most_gpus, 'GPU')}, not {wanted}"
        raise ColltoolError(
            what, argument="ranks", fix=f"such as {argument_text('ranks', most_gpus)}"
        )
    return NodeParts(
        model=model,
        usual=usual,
        gpus=wanted,
        per_host=min(PER_HOST.get(fabric.device or "", gpus_of_node), gpus_of_node),
        links=links[:wanted],
        nics=_nics(fabric, wanted, network=1 if gpus_of_node > 1 else 0),
        gpudirect=has_gpudirect(fabric),
        cpu=_stated_cpu(fabric) or ("arm" if usual.c2c else "intel"),
    )


def _gpus_of_whole_node(fabric: Fabric) -> int:
    """GPUs that the innermost tier joins; 1 where that is a network already."""
    medium = media_of(fabric)[0]
    is_network = medium is not None and medium.name in NETWORKS
    inner = fabric.tiers[0]
    return 1 if is_network or capabilities_of(inner).joins == "hosts" else inner.endpoints


def _stated_cpu(fabric: Fabric) -> str | None:
    """The maker of the hosts' CPUs, intel, amd or arm; None where the fabric does not say."""
    facts = fabric.library_facts
    return facts.cpu if facts is not None else None


def _nics(fabric: Fabric, gpus: int, network: int) -> Nics:
    """The NICs of so many GPUs of a node, as prices count them: as many as the library's facts say; else
    the ports of these GPUs on the network, and no more than its sizing has for a node.

    Args:
        network: the index of the tier that joins nodes; past the last tier where none does, and the node
            has no NICs then.
    """
    if network == len(fabric.tiers):
        return Nics()
    tier = fabric.tiers[network]
    nics = gpus * tier.ports
    sizing = capabilities_of(tier).sizing
    if sizing is not None:
        # NICs of a whole node, by the fabric's own plan of its leaves
        nics = min(nics, sizing.rails * sizing.nics_per_rail)
    facts = fabric.library_facts
    if facts is not None and facts.nics is not None:
        nics = max(1, facts.nics * gpus // fabric.tiers[0].endpoints)
    medium = media_of(fabric)[network]
    return Nics(nics, "roce" if medium is None else medium.name, tier.bandwidth)


def _model(fabric: Fabric) -> str:
    """The name of the GPUs as dumps have it, such as ``NVIDIA H100``; ColltoolError where they are
    not NVIDIA's, or nothing says."""
    device = (fabric.device or "").upper()
    facts = fabric.library_facts
    if not device and facts is not None and facts.gpu is not None:
        device = _BY_GENERATION[facts.gpu]
    if not device:
        what = f"{fabric.name} does not say which GPUs it has"
        raise ColltoolError(
            what,
            argument="fabric",
            fix="write device: h100 into the file, or library: {name: nccl, gpu: volta}",
        )
    # A100-80GB: A100; RTX-PRO-6000: RTX PRO 6000
    words = re.sub(r"-\d+GB$", "", device).replace("-", " ")
    model = f"NVIDIA {words}"
    if _in_slots(fabric) and accelerator_id(f"{model} PCIe"):
        model += " PCIe"
    if accelerator_id(model):
        return model
    what = f"NCCL runs on NVIDIA GPUs, and {fabric.name} has {device}"
    if fabric.library_name == "nccl":
        what = f"the compute capability of {device} is not known, and NCCL's file states it"
    raise ColltoolError(what, argument="fabric", fix="name a fabric of such GPUs as dgx-h100 has")


def _in_slots(fabric: Fabric) -> bool:
    """Whether the GPUs are cards that PCIe alone joins."""
    medium = media_of(fabric)[0]
    return medium is not None and medium.name.startswith("pcie")


def _links(fabric: Fabric, model: str, sm: int) -> list[list[NvLinks]]:
    """The NVLinks of each GPU of the innermost tier: to NVSwitches, or to the others; ColltoolError where
    NVLink joins no GPUs like that.

    Args:
        sm: compute capability of the GPUs, as 90.
    """
    tier = fabric.tiers[0]
    link_Bps = nvlink_Bps(model)
    tier_kind = capabilities_of(tier)
    if tier_kind.joined_by == "switches":
        links_of_gpu = _link_count(tier, tier.bandwidth * tier.ports, link_Bps)
        if not _stands_for_pairs(tier, sm, links_of_gpu):
            return [[NvLinks(None, links_of_gpu)] for _ in range(tier.endpoints)]
        every = range(tier.endpoints)
        pair_Bps = links_of_gpu * link_Bps / (tier.endpoints - 1)
        # links have no latency in NCCL's file
        all_pairs = LinkBundle(every, every, pair_Bps, alpha_s=0.0, all_pairs=True)
        return _links_between_gpus(tier, (all_pairs,), link_Bps)
    if tier_kind.axes or switch_count(tier):
        what = f"NVLink joins no GPUs as '{tier.name}' of {fabric.name} does, a {tier_kind.label}"
        raise ColltoolError(what, argument="fabric", fix="name a fabric whose nodes are a star")
    return _links_between_gpus(tier, link_bundles(tier), link_Bps)


def _links_between_gpus(
    tier: Tier, bundles: Iterable[LinkBundle], link_Bps: float
) -> list[list[NvLinks]]:
    """The NVLinks of each GPU of a tier whose links all lead from GPU to GPU."""
    by_gpu: list[list[NvLinks]] = [[] for _ in range(tier.endpoints)]
    for bundle in bundles:
        for link in bundle.each():
            # of a single link both ranges have one number
            gpu = link.near.start
            other = link.far.start
            links_of_pair = _link_count(tier, link.Bps, link_Bps)
            by_gpu[gpu].append(NvLinks(other, links_of_pair))
            by_gpu[other].append(NvLinks(gpu, links_of_pair))
    return by_gpu


def _stands_for_pairs(tier: Tier, sm: int, links_of_gpu: int) -> bool:
    """Whether a star stands for links between every two GPUs, as a file may describe these.

    So it is where it has no multicast, though NVSwitches of Hopper and later have it, and where the links of
    a GPU can be dealt evenly to all others: 18 of 4 GPUs are 6 to each.
    """
    if {"reduce", "multicast"} <= capabilities_of(tier).operations:
        return False
    return sm >= _FIRST_MULTICAST_SM and links_of_gpu % (tier.endpoints - 1) == 0


def _link_count(tier: Tier, rate_Bps: float, link_Bps: float) -> int:
    """How many NVLinks have a rate together; ColltoolError where no whole number does."""
    count = round(rate_Bps / link_Bps)
    if count < 1 or abs(count * link_Bps - rate_Bps) > 1e-6 * rate_Bps:
        what = f"'{tier.name}' has {rate_text(rate_Bps)}: no number of NVLinks of {rate_text(link_Bps)}"
        # Hopper's and Blackwell's GPUs have 18
        fix = f"such as {argument_text('overrides', [f'{tier.name}.bandwidth={rate_text(18 * link_Bps)}'])}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    return count


def _notes(node: NodeParts, fabric: Fabric) -> Iterator[str]:
    """What the fabric does not say, and what the file has instead."""
    yield (
        "bus ids are made up: NCCL finds GPUs and NICs by them, so put in those that nvidia-smi and"
        " lspci print on the machine"
    )
    place = "GPUs and NICs in slots of the CPUs"
    if node.usual.per_switch == 1:
        place = "a PCI switch for each GPU with its NIC"
    elif node.usual.per_switch:
        place = f"a PCI switch for {node.usual.per_switch} GPUs with their NICs"
    yield f"slots are taken as in usual hosts of {node.model}: {place}"
    links = node.links[0]
    switched = capabilities_of(fabric.tiers[0]).joined_by == "switches"
    if switched and links and links[0].to is not None:
        count = links[0].count
        yield f"the star of NVLinks has no multicast: it is taken for {count} between every two GPUs"
    if node.nics.medium == "tcpx":
        yield "NCCL's file does not tell TCPX from TCP sockets: fabric import reads sockets"
    if _stated_cpu(fabric) is None:
        yield f"the hosts' CPUs are taken to be {node.cpu.title()}'s: library.cpu states them"
    if node.hosts > 1:
        yield (
            f"{node.hosts} hosts of one NVLink domain, as NCCL joins them itself: NCCL_TOPO_FILE takes"
            f" one host, which {node.per_host} ranks give"
        )


# Elements. GPUs have numbers on their host, here ``number`` or ``gpu``, and are the ranks from the
# host's ``first_rank`` on. Bus ids are made up: 0000:01:00.0 and on are PCI switches of a host, 0001:... its
# GPUs, and 0002:... its NICs.


def _add_host(root: Element, node: NodeParts, host: int) -> None:
    """Add the CPUs of a host, one for each NUMA domain, and all below them."""
    first_rank = host * node.per_host
    gpus_of_host = min(node.per_host, node.gpus - first_rank)
    per_cpu = node.usual.per_cpu or ceil(node.per_host / 2)
    for numaid in range(ceil(gpus_of_host / per_cpu)):
        cpu = root.add("cpu", numaid=numaid, **_cpu_of(node)._asdict())
        if node.hosts > 1:
            # tells the hosts of one file apart
            cpu.attributes["host_hash"] = hex(host + 1)
        gpus = range(gpus_of_host)[numaid * per_cpu : (numaid + 1) * per_cpu]
        # without switches all GPUs of a CPU are in its own slots
        per_switch = node.usual.per_switch or per_cpu
        for first_gpu in gpus[::per_switch]:
            gpus_of_switch = range(first_gpu, min(first_gpu + per_switch, gpus.stop))
            _add_gpus_with_nics(cpu, node, first_rank, gpus_of_switch)


def _add_gpus_with_nics(cpu: Element, node: NodeParts, first_rank: int, gpus: range) -> None:
    """Add GPUs and then their NICs below a PCI switch of their own, or below the CPU where the usual host
    has no switches."""
    parent = cpu
    per_switch = node.usual.per_switch
    if per_switch:
        busid = f"0000:{1 + gpus.start // per_switch:02x}:00.0"
        parent = _add_slot(cpu, busid, _SWITCH_CLASS, "", _gpu_GTps(node))
    for gpu in gpus:
        _add_gpu(parent, node, first_rank, gpu)
    for gpu in gpus:
        _add_nics(parent, node, first_rank, gpu)


def _cpu_of(node: NodeParts) -> CpuModel:
    """The CPUs of the hosts; Intel's model is that of the GPUs' time."""
    cpu = _CPUS[node.cpu]
    if node.cpu == "intel":
        for first_sm, modelid in _INTEL_MODELS.items():
            # node_parts refuses hosts whose sm is not known
            if (node.usual.sm or 0) >= first_sm:
                return cpu._replace(modelid=modelid)
    return cpu


def _gpu_busid(number: int) -> str:
    """The bus id that is made up for a GPU, by its number on its host."""
    return f"0001:{number + 1:02x}:00.0"


def _gpu_GTps(node: NodeParts) -> int:
    """GT/s of a lane of a GPU's slot."""
    if node.usual.slot_Bps is None:
        return _NO_SLOT_GTPS
    return round(node.usual.slot_Bps / SLOT_LANES / LANE_BPS)


def _nic_GTps(node: NodeParts) -> int:
    """GT/s of a lane of a NIC's slot: those of the GPU, or as many more as carry the NIC."""
    for lane in _PCIE_GTPS:
        if lane >= _gpu_GTps(node) and lane * SLOT_LANES * LANE_BPS >= node.nics.Bps:
            return lane
    return _PCIE_GTPS[-1]


def _add_slot(parent: Element, busid: str, pci_class: str, device: str, lane_GTps: int) -> Element:
    """Add a PCI slot and return it; ``device``: vendor and device id, such as "0x10de:0x2330", or
    empty."""
    slot = parent.add("pci", busid=busid)
    slot.attributes["class"] = pci_class
    if device:
        slot.attributes["vendor"], slot.attributes["device"] = device.split(":")[:2]
    slot.attributes["link_speed"] = f"{lane_GTps:.1f} GT/s PCIe"
    slot.attributes["link_width"] = str(SLOT_LANES)
    return slot


def _add_gpu(parent: Element, node: NodeParts, first_rank: int, number: int) -> None:
    """Add a GPU, by its number on its host."""
    rank = first_rank + number
    slot = _add_slot(
        parent, _gpu_busid(number), _GPU_CLASS, accelerator_id(node.model), _gpu_GTps(node)
    )
    gpu = slot.add("gpu", dev=number, sm=node.usual.sm, rank=rank, gdr=int(node.gpudirect))
    for links in node.links[rank]:
        if links.to is None:
            gpu.add("nvlink", target=ANY_NVSWITCH, count=links.count, tclass=_NVSWITCH_CLASS)
        elif links.to < node.gpus:
            # the number in the node is that on the host: nodes of several hosts have NVSwitches instead
            target = _gpu_busid(links.to)
            gpu.add("nvlink", target=target, count=links.count, tclass=_GPU_CLASS)
    if node.usual.c2c:
        # "5x44712": links, and MB/s of one
        count, MBps = node.usual.c2c.split("x")
        gpu.add("c2c", bw=MBps, count=count)


def _nics_of_gpu(node: NodeParts, rank: int) -> list[int]:
    """The node's NICs beside a GPU: all are dealt evenly to all. Of 4 NICs and 8 GPUs, NIC 1 is
    beside GPU 2, and none beside GPU 3."""
    nics = node.nics.count
    return [nic for nic in range(nics) if nic * node.gpus // nics == rank]


def _add_nics(parent: Element, node: NodeParts, first_rank: int, gpu: int) -> None:
    """Add the NICs beside a GPU, by its number on its host."""
    nics = node.nics
    pci_class = _INFINIBAND_CLASS if nics.medium == "ib" else _ETHERNET_CLASS
    device = nic_id("socket" if nics.medium == "tcpx" else nics.medium, nics.Bps)
    name = "eth" if nics.medium in ("socket", "tcpx") else "mlx5_"
    # NICs are counted on each host
    on_earlier_hosts = first_rank * nics.count // node.gpus
    for nic in _nics_of_gpu(node, first_rank + gpu):
        number = nic - on_earlier_hosts
        slot = _add_slot(parent, f"0002:{number + 1:02x}:00.0", pci_class, device, _nic_GTps(node))
        slot.add("nic").add(
            "net",
            name=f"{name}{number}",
            dev=number,
            speed=round(nics.Bps * 8e-6),
            port=1,
            guid=hex(0x100 + nic),
            gdr=int(node.gpudirect),
        )
