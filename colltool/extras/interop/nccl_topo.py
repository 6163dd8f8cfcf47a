"""A fabric's node as the XML that NCCL reads through NCCL_TOPO_FILE: CPUs, PCI switches, GPUs with their
NVLinks, and NICs (:func:`nccl_topo`).

A fabric states GPUs, links and NICs, and not which slot holds what: that is taken from the usual host
of such GPUs (``fabric/data/usual_hosts.csv``), and said in comments at the head of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.xml_tree import Element, comment_text
from colltool.extras.interop.infragraph_links import LinkBundle, link_bundles, switch_count
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
from colltool.fabric.dumps.rates import nvlink_Bps, rate_text
from colltool.fabric.library_numbers import has_gpudirect, media_of
from colltool.fabric.media import NETWORKS, PER_HOST
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.libraries.nccl.topology.system import MAX_GPUS

ANY_NVSWITCH = "fffffff:ff:ff.0"
# PCI classes of what NVLinks lead to, of a switch, and of a GPU
_NVSWITCH_CLASS = "0x068000"
_SWITCH_CLASS = "0x060400"
_GPU_CLASS = "0x030200"
# GPUs of a file that names a generation and no device
_BY_GENERATION = {"volta": "V100", "ampere": "A100", "hopper": "H100", "blackwell": "B200"}
# arch, vendor, familyid and modelid of the hosts' CPUs; Intel's model is that of the GPU's time
_CPUS = {
    "intel": ("x86_64", "GenuineIntel", 6),
    "amd": ("x86_64", "AuthenticAMD", 143),
    "arm": ("arm64", "ARM", 8),
}
_MODELS = {"amd": 49, "arm": 3393}
_INTEL_MODELS = ((100, 207), (90, 143), (0, 106))
# GT/s of a lane, slowest first
_GENERATIONS = (8, 16, 32, 64)
_NO_SLOT_GENERATION = 32
_FIRST_MULTICAST_SM = 90

# of a GPU: the one that its links lead to, None for NVSwitches, and their number
GpuLinks = list[tuple[int | None, int]]


class NodeParts(NamedTuple):
    """What a node has, as its fabric states it.

    Args:
        model: of the GPUs; ``usual``: what such hosts have.
        gpus: of the node, ``per_host`` on a host.
        links: of each GPU.
        nics: of the node, for a medium, each of so many bytes/s one way.
        cpu: intel, amd or arm.
    """

    model: str
    usual: UsualHost
    gpus: int
    per_host: int
    links: list[GpuLinks]
    nics: int
    medium: str
    nic_Bps: float
    gpudirect: bool
    cpu: str
    notes: tuple[str, ...]

    @property
    def hosts(self) -> int:
        return ceil(self.gpus / self.per_host)


def nccl_topo(fabric: Fabric, gpus: int | None = None) -> tuple[str, tuple[str, ...]]:
    """The XML, and what was assumed for it in sentences.

    Args:
        gpus: of the node that are in the file, the first ones; default: all.

    Raises:
        ColltoolError: a node that is not of NVIDIA GPUs, or of which colltool does not know the
            slots.
    """
    node = node_parts(fabric, gpus)
    root = Element("system", {"version": "1"}, 0, 0)
    for host in range(node.hosts):
        _add_host(root, node, host)
    title = f"colltool export nccl-topo: {counted(node.gpus, 'GPU')} of {fabric.name}"
    comments = "".join(map(comment_text, (title, *node.notes)))
    return comments + root.text(), node.notes


def node_parts(fabric: Fabric, gpus: int | None = None) -> NodeParts:
    """What the file states of the node, checked and completed."""
    check_even(fabric)
    model = _model(fabric)
    usual = usual_host(model)
    if usual.sm is None or usual.per_switch is None:
        what = f"colltool does not know the slots of hosts of {model}"
        fix = "dump a node's own: NCCL_TOPO_DUMP_FILE=node.xml"
        raise ColltoolError(what, argument="fabric", fix=fix)
    inner = fabric.tiers[0]
    medium = media_of(fabric)[0]
    networked = medium is not None and medium.name in NETWORKS
    whole = 1 if networked or capabilities_of(inner).joins == "hosts" else inner.endpoints
    links: list[GpuLinks] = [[] for _ in range(whole)]
    if whole > 1 and not _in_slots(fabric):
        links = _links(fabric, inner, model)
    most = min(whole, MAX_GPUS)
    count = whole if gpus is None else gpus
    if not 1 <= count <= most:
        what = f"NCCL's file of a node of {fabric.name} has at most {counted(most, 'GPU')}, not {count}"
        raise ColltoolError(what, argument="ranks", fix=f"such as {argument_text('ranks', most)}")
    outer = fabric.tiers[1:] if whole > 1 else fabric.tiers
    nics = 0
    rate_Bps = 0.0
    nic_medium = ""
    if outer:
        nics = _nic_count(fabric, outer[0], count)
        rate_Bps = outer[0].bandwidth
        position = len(fabric.tiers) - len(outer)
        found = media_of(fabric)[position]
        nic_medium = found.name if found is not None else "roce"
    facts = fabric.library_facts
    cpu = facts.cpu if facts is not None else None
    per_host = min(PER_HOST.get(fabric.device or "", whole), whole)
    node = NodeParts(
        model=model,
        usual=usual,
        gpus=count,
        per_host=per_host,
        links=links[:count],
        nics=nics,
        medium=nic_medium,
        nic_Bps=rate_Bps,
        gpudirect=has_gpudirect(fabric),
        cpu=cpu or ("arm" if usual.c2c else "intel"),
        notes=(),
    )
    switched = capabilities_of(inner).joined_by == "switches"
    return node._replace(notes=tuple(_notes(node, switched=switched, stated_cpu=cpu is not None)))


def _model(fabric: Fabric) -> str:
    """``NVIDIA H100``, as dumps have it."""
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
    # A100-80GB; RTX-PRO-6000
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


def _links(fabric: Fabric, tier: Tier, model: str) -> list[GpuLinks]:
    """The NVLinks of each GPU: to NVSwitches, or to the others."""
    each_Bps = nvlink_Bps(model)
    kind = capabilities_of(tier)
    found: list[GpuLinks] = [[] for _ in range(tier.endpoints)]
    if kind.joined_by == "switches":
        count = _link_count(tier, tier.bandwidth * tier.ports, each_Bps)
        if not _stands_for_pairs(tier, model, count):
            for links in found:
                links.append((None, count))
            return found
        every = range(tier.endpoints)
        pair_Bps = count * each_Bps / (tier.endpoints - 1)
        bundles = iter((LinkBundle(every, every, pair_Bps, 0.0, all_pairs=True),))
    elif kind.axes or switch_count(tier):
        what = f"NVLink joins no GPUs as '{tier.name}' of {fabric.name} does, a {kind.label}"
        raise ColltoolError(what, argument="fabric", fix="name a fabric whose nodes are a star")
    else:
        bundles = link_bundles(tier)
    for bundle in bundles:
        for link in bundle.each():
            a, b = link.near.start, link.far.start
            count = _link_count(tier, link.Bps, each_Bps)
            found[a].append((b, count))
            found[b].append((a, count))
    return found


def _stands_for_pairs(tier: Tier, model: str, count: int) -> bool:
    """Whether a star is one in the file alone: NVSwitches of Hopper and later multicast."""
    if {"reduce", "multicast"} <= capabilities_of(tier).operations:
        return False
    sm = usual_host(model).sm or 0
    return sm >= _FIRST_MULTICAST_SM and count % (tier.endpoints - 1) == 0


def _link_count(tier: Tier, rate_Bps: float, each_Bps: float) -> int:
    """How many NVLinks have a rate together."""
    count = round(rate_Bps / each_Bps)
    if count < 1 or abs(count * each_Bps - rate_Bps) > 1e-6 * rate_Bps:
        what = f"'{tier.name}' has {rate_text(rate_Bps)}: no number of NVLinks of {rate_text(each_Bps)}"
        fix = f"such as {argument_text('overrides', [f'{tier.name}.bandwidth={rate_text(18 * each_Bps)}'])}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    return count


def _nic_count(fabric: Fabric, tier: Tier, gpus: int) -> int:
    """NICs of so many GPUs of a node: as prices count them."""
    sizing = capabilities_of(tier).sizing
    count = gpus * tier.ports
    if sizing is not None:
        count = min(count, sizing.rails * sizing.nics_per_rail)
    facts = fabric.library_facts
    if facts is not None and facts.nics is not None:
        whole = fabric.tiers[0].endpoints
        count = max(1, facts.nics * gpus // whole)
    return count


def _notes(node: NodeParts, *, switched: bool, stated_cpu: bool) -> Iterator[str]:
    """What the fabric does not say."""
    yield (
        "bus ids are made up: NCCL finds GPUs and NICs by them, so put in those that nvidia-smi and"
        " lspci print on the machine"
    )
    usual = node.usual
    if usual.per_switch:
        on = (
            "each GPU with its NIC"
            if usual.per_switch == 1
            else f"{usual.per_switch} GPUs with their NICs"
        )
        place = f"a PCI switch for {on}"
    else:
        place = "GPUs and NICs in slots of the CPUs"
    yield f"slots are taken as in usual hosts of {node.model}: {place}"
    first = node.links[0]
    if switched and first and first[0][0] is not None:
        count = first[0][1]
        yield f"the star of NVLinks has no multicast: it is taken for {count} between every two GPUs"
    if node.medium == "tcpx":
        yield "NCCL's file does not tell TCPX from TCP sockets: fabric import reads sockets"
    if not stated_cpu:
        yield f"the hosts' CPUs are taken to be {node.cpu.title()}'s: library.cpu states them"
    if node.hosts > 1:
        yield (
            f"{node.hosts} hosts of one NVLink domain, as NCCL joins them itself: NCCL_TOPO_FILE takes"
            f" one host, which {node.per_host} ranks give"
        )


# --- elements


def _add_host(root: Element, node: NodeParts, host: int) -> None:
    """Add the CPUs of a host and all below them."""
    first = host * node.per_host
    present = min(node.per_host, node.gpus - first)
    per_cpu = node.usual.per_cpu or ceil(node.per_host / 2)
    arch, vendor, family = _CPUS[node.cpu]
    sm = node.usual.sm or 0
    intel = next(number for least, number in _INTEL_MODELS if sm >= least)
    for numa in range(ceil(present / per_cpu)):
        cpu = root.add(
            "cpu",
            numaid=numa,
            arch=arch,
            vendor=vendor,
            familyid=family,
            modelid=_MODELS.get(node.cpu, intel),
        )
        if node.hosts > 1:
            cpu.attributes["host_hash"] = hex(host + 1)
        gpus = range(numa * per_cpu, min(present, (numa + 1) * per_cpu))
        per_switch = node.usual.per_switch or len(gpus)
        for start in range(gpus.start, gpus.stop, per_switch):
            below = cpu
            if node.usual.per_switch:
                busid = f"0000:{1 + start // per_switch:02x}:00.0"
                below = _add_slot(cpu, busid, _SWITCH_CLASS, "", _gpu_lane(node))
            for gpu in range(start, min(start + per_switch, gpus.stop)):
                _add_gpu(below, node, first, gpu)
            for gpu in range(start, min(start + per_switch, gpus.stop)):
                _add_nics(below, node, first, gpu)


def _gpu_busid(number: int) -> str:
    return f"0001:{number + 1:02x}:00.0"


def _gpu_lane(node: NodeParts) -> int:
    """GT/s of a lane of a GPU's slot."""
    if node.usual.slot_Bps is None:
        return _NO_SLOT_GENERATION
    return round(node.usual.slot_Bps / SLOT_LANES / LANE_BPS)


def _add_slot(parent: Element, busid: str, pci_class: str, device: str, lane: int) -> Element:
    slot = parent.add("pci", busid=busid)
    slot.attributes["class"] = pci_class
    if device:
        slot.attributes["vendor"], slot.attributes["device"] = device.split(":")[:2]
    slot.attributes["link_speed"] = f"{lane:.1f} GT/s PCIe"
    slot.attributes["link_width"] = str(SLOT_LANES)
    return slot


def _add_gpu(parent: Element, node: NodeParts, first: int, number: int) -> None:
    """Add a GPU, by its number on its host, whose first GPU has rank ``first``."""
    slot = _add_slot(
        parent, _gpu_busid(number), _GPU_CLASS, accelerator_id(node.model), _gpu_lane(node)
    )
    gpu = slot.add(
        "gpu", dev=number, sm=node.usual.sm, rank=first + number, gdr=int(node.gpudirect)
    )
    for other, count in node.links[first + number]:
        if other is not None and other >= node.gpus:
            continue
        target = ANY_NVSWITCH
        leads_to = _NVSWITCH_CLASS
        if other is not None:
            target = _gpu_busid(other)
            leads_to = _GPU_CLASS
        gpu.add("nvlink", target=target, count=count, tclass=leads_to)
    if node.usual.c2c:
        links, MBps = node.usual.c2c.split("x")
        gpu.add("c2c", bw=MBps, count=links)


def _add_nics(parent: Element, node: NodeParts, first: int, gpu: int) -> None:
    """Add the NICs of a GPU: an even share of the node's."""
    lane = _gpu_lane(node)
    # a slot carries its NIC
    for known in _GENERATIONS:
        if known >= lane:
            lane = known
            if known * SLOT_LANES * LANE_BPS >= node.nic_Bps:
                break
    pci_class = f"{INFINIBAND}00" if node.medium == "ib" else f"{NETWORK}0000"
    name = "eth" if node.medium in ("socket", "tcpx") else "mlx5_"
    # NICs are counted on each host
    before = first * node.nics // node.gpus
    for nic in range(node.nics):
        if nic * node.gpus // node.nics != first + gpu:
            continue
        number = nic - before
        slot = _add_slot(
            parent,
            f"0002:{number + 1:02x}:00.0",
            pci_class,
            nic_id("socket" if node.medium == "tcpx" else node.medium, node.nic_Bps),
            lane,
        )
        slot.add("nic").add(
            "net",
            name=f"{name}{number}",
            dev=number,
            speed=round(node.nic_Bps * 8e-6),
            port=1,
            guid=hex(0x100 + nic),
            gdr=int(node.gpudirect),
        )
