"""The XML that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE, and clouds' files for NCCL_TOPO_FILE.

Elements and attributes, of NCCL 2.30 (src/graph/xml.cc, topo.cc) and RCCL:

* ``cpu`` (``arch``, ``vendor``, ``host_hash``): a NUMA domain; dumps of a whole NVLink domain hold
  those of several hosts.
* ``pci`` (``busid``, ``class``, ``vendor``, ``device``, ``subsystem_device``, ``link_speed``,
  ``link_width``) in a ``cpu`` or in another ``pci``: a switch, or the slot of a GPU or NIC.
* ``gpu`` (``dev``, ``sm``, ``gcn``, ``gdr``) in a ``pci``; several in one are ranks that share it.
* ``nvlink``, ``xgmi`` (``target``, ``count``, ``tclass``) in a ``gpu``: links to a GPU, to an NVSwitch
  or, on Power, to the CPU. ``c2c`` in a ``gpu``: NVLink-C2C to Grace.
* ``net`` (``name``, ``dev``, ``speed`` in Mb/s, ``port``, ``guid``, ``gdr``) in a ``nic``, which is in
  a ``pci``, or in a ``cpu`` for what has no slot: sockets and virtual NICs. One without ``dev``, or
  with ``net="0"``, is not for collectives.

Clouds' files have ``pci`` alone: their GPUs and NICs are known by class, and no links.

:func:`read_nccl_topo` is the entry. ``Element.get`` of an attribute that is not there is an empty text;
``inside`` and ``around`` lead outwards, ``each`` inwards. An accelerator is known by its position among
those of the file, a NIC with what holds it is a ``_HeldNic``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median_low
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.base.files import AnyPath
from colltool.base.xml_tree import Element, read_xml
from colltool.fabric.dumps import pci
from colltool.fabric.dumps.nics import (
    Nic,
    NicDistance,
    PlacedNic,
    Serving,
    is_interface,
    is_loopback,
    left_out,
    serving,
)
from colltool.fabric.dumps.node import Link, NodeDump, NodeSearch, Pair
from colltool.fabric.dumps.searched import search_node
from colltool.fabric.dumps.sentences import sentence_of
from colltool.libraries.nccl.topology.rates import number
from colltool.libraries.nccl.topology.system_reader import FIX, FORMAT

TOOL = "NCCL_TOPO_DUMP_FILE"
# Limits that no node reaches.
MAX_ACCELERATORS = 1024
MAX_NICS = 1024

_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
# PCI classes of what a link leads to (``tclass``), as the starts of its text.
_GPU_CLASS = "0x03"
_CPU_CLASS = "0x068001"
_LINKS = ("nvlink", "xgmi")
# The distance between a NIC and an accelerator by the tag of the innermost element that has both; any
# other element is as good as another node.
_DISTANCE_WITHIN = {"pci": NicDistance.SWITCH, "cpu": NicDistance.CPU}


class _LinkGroup(NamedTuple):
    """Parallel links of an accelerator. ``other``: the position of the accelerator that they lead to, None
    if they lead to switches."""

    links: int
    other: int | None


class _Gpu(NamedTuple):
    """An accelerator: its PCI slot (the ``gpu`` element itself where none is around it), and its ``gpu``
    element, which clouds' files lack."""

    slot: Element
    gpu: Element | None

    @property
    def name(self) -> str:
        """Its bus id, else its number."""
        return self.slot.get("busid") or f"gpu{self.gpu.get('dev') if self.gpu else ''}"

    def is_in(self, ranks: Collection[int]) -> bool:
        """Whether its rank is one of these; False if the file gives it none."""
        rank = self.gpu.get("rank") if self.gpu else ""
        return bool(rank) and number(rank) in ranks


def read_nccl_topo(path: AnyPath, nic_Bps: float | None = None) -> NodeDump:
    """Return a node from a file that NCCL dumped. If NCCL's search makes several nodes of its accelerators,
    those of the first. ``nic_Bps``: the rate of each NIC, one way, instead of what the file says.

    Raises:
        ColltoolError: not XML, another program's, cut off, with a document type, beyond the limits,
            without accelerators or with several kinds of them.
    """
    name = os.fsdecode(path)
    system = read_xml(path, FORMAT)
    # in the tree itself, so that NCCL's search and the NICs below see the same
    for net in system.each("net"):
        if is_loopback(net.get("name")):
            net.attributes["net"] = "0"
        if nic_Bps is not None:
            net.attributes["speed"] = str(round(nic_Bps * 8 / 1e6))
    gpus = _gpus(system)
    if not gpus:
        raise ColltoolError("has no accelerators", where=name, fix=FIX)
    nics = _nics(system, name)
    if len(gpus) > MAX_ACCELERATORS or len(nics) > MAX_NICS:
        what = (
            f"has more than {MAX_ACCELERATORS} accelerators or {MAX_NICS} NICs: no node is so large"
        )
        raise ColltoolError(what, where=name, fix=FIX)
    model, assumed = _model(name, gpus, grace=_cpu(list(system.each("cpu"))) == "arm")
    search = search_node(system, name, model)
    if search is not None:
        assumed += search.assumed
        gpus = [gpu for gpu in gpus if gpu.is_in(search.ranks)]
    node = _node(system, name, gpus, nics, search)
    return replace(node, model=model, assumed=tuple(assumed), no_links=_why_no_links(gpus, model))


def _gpus(system: Element) -> list[_Gpu]:
    """The accelerators of a file in its order; of several ranks that share one, the first stands for
    all."""
    by_slot: dict[int, _Gpu] = {}
    for gpu in system.each("gpu"):
        slot = gpu.inside("pci") or gpu
        by_slot.setdefault(id(slot), _Gpu(slot, gpu))
    if by_slot:
        return list(by_slot.values())
    # clouds' files have slots alone
    slots = [slot for slot in system.each("pci") if slot.get("class").startswith(pci.ACCELERATORS)]
    return [_Gpu(slot, gpu=None) for slot in slots]


def _node(
    system: Element,
    name: str,
    gpus: list[_Gpu],
    nics: Sequence[_HeldNic],
    search: NodeSearch | None,
) -> NodeDump:
    """The node of a file, but for the model of its accelerators. What NCCL's search found decides where
    it was run; else the distances in the tree do.

    Args:
        name: of the file.
        gpus: those of the node; ``nics``: all of the file.
        search: None where NCCL's search was not run.
    """
    cpus = list(system.each("cpu"))
    # by host, too: those of one NVLink domain may name their devices alike
    positions = {(_host(gpu.slot), gpu.name): position for position, gpu in enumerate(gpus)}
    links = [list(_links(gpu, positions, name)) for gpu in gpus]
    to_switch = []
    for groups in links:
        to_switch.append(sum(group.links for group in groups if group.other is None))
    pairs = _pairs(links)
    link: Link = "nvlink"
    if next(system.each("xgmi"), None):
        link = "xgmi"
    slots_Bps = [_slot_Bps(gpu.slot) for gpu in gpus]
    pcie_Bps = None
    if any(slots_Bps):
        pcie_Bps = median_low(filter(None, slots_Bps))
    hosts = {element.get("host_hash") for element in cpus} - {""}
    notes: list[str] = []
    if search is not None:
        cpu = search.cpu
        served = _serving_channels(nics, search)
        gpudirect = search.gpudirect
        notes += search.notes
    else:
        cpu = _cpu(cpus)
        served = serving(_with_distances(nics, gpus), linked=bool(pairs) or any(to_switch))
        gpudirect = _has_gpudirect(gpus, served.nics)
    notes += [*served.notes, *_odd_slots(gpus, slots_Bps, pcie_Bps)]
    if not gpudirect:
        notes.append(sentence_of("no-gpudirect"))
    return NodeDump(
        file=name,
        tool=TOOL,
        accelerators=tuple(gpu.name for gpu in gpus),
        link=link,
        to_switch=tuple(to_switch),
        pairs=pairs,
        pcie_Bps=pcie_Bps,
        has_slots=next(system.each("c2c"), None) is None,
        nics=served.nics,
        gpudirect=gpudirect,
        cpu=cpu,
        hosts=max(1, len(hosts)),
        notes=tuple(notes),
        search=search,
    )


def _serving_channels(nics: Sequence[_HeldNic], search: NodeSearch) -> Serving:
    """The NICs that NCCL's channels use, and a note on the others."""
    used = []
    others = []
    for held in nics:
        if search.nics.intersection(held.nets):
            used.append(held.nic)
        else:
            others.append(held.nic.name)
    return Serving(tuple(used), tuple(left_out(others, "no channel of NCCL's uses them")))


def _odd_slots(
    gpus: list[_Gpu], slots_Bps: list[float | None], usual_Bps: float | None
) -> Iterator[str]:
    """Notes on accelerators whose slots have another rate than the usual one, where both are known."""
    for gpu, slot_Bps in zip(gpus, slots_Bps, strict=True):
        if slot_Bps is not None and usual_Bps is not None and slot_Bps != usual_Bps:
            rate = f"{slot_Bps / 1e9:g} GB/s"
            usual = f"{usual_Bps / 1e9:g} GB/s"
            yield sentence_of("odd-slot", name=gpu.name, rate=rate, usual=usual)


def _why_no_links(gpus: list[_Gpu], model: str) -> str:
    """Why the file does not state which links join the accelerators, to follow the file's name. Empty if
    it does, or if they are cards without any."""
    if any(gpu.gpu for gpu in gpus) or pci.is_card(model):
        return ""
    return (
        "has no <gpu> elements, as files for NCCL_TOPO_FILE: it does not say which links join them"
    )


def _cpu(cpus: list[Element]) -> str:
    """``arm`` if any processor is one, else ``intel`` or ``amd`` by the first that names its vendor. Empty
    if none does."""
    if any(element.get("arch") == "arm64" for element in cpus):
        return "arm"
    vendors = (_VENDORS.get(element.get("vendor")) for element in cpus)
    return next(filter(None, vendors), "")


def _model(name: str, gpus: list[_Gpu], *, grace: bool) -> tuple[str, list[str]]:
    """The model of the accelerators, and what was assumed for it: a sentence where the model is known by
    its generation alone, which others share. ``grace``: whether the processors are."""
    names = set()
    by_generation = ""
    for gpu in gpus:
        device = f"{gpu.slot.get('vendor')}:{gpu.slot.get('device')}"
        generations: tuple[str, ...] = ()
        if gpu.gpu is not None:
            generations = (gpu.gpu.get("sm"), gpu.gpu.get("gcn"))
        of_gpu = pci.model_of(device, generations, grace=grace)
        names.add(of_gpu.name)
        by_generation = by_generation or of_gpu.by_generation
    model = pci.one_model(names, name)
    if not by_generation:
        return model, []
    word = "compute capability"
    if by_generation.startswith("gfx"):
        word = "architecture"
    assumed = sentence_of("model-shared", model=model, word=word, value=by_generation)
    return model, [assumed]


# --- links


def _links(gpu: _Gpu, positions: Mapping[tuple[str, str], int], name: str) -> Iterator[_LinkGroup]:
    """The links of an accelerator to switches and to other accelerators of the file.

    Args:
        positions: of the accelerators by host and name, as their links have them (``target``).
        name: of the file, for errors.
    """
    if gpu.gpu is None:
        return
    host = _host(gpu.slot)
    for link in gpu.gpu.children:
        if link.tag not in _LINKS:
            continue
        text = link.get("count")
        if not re.fullmatch(r"\d{1,4}", text):
            what = f"expected a count of links of {gpu.name}, got {quote(text)}"
            raise ColltoolError(what, where=f"{name}:{link.line}:{link.column}", fix=FIX)
        count = int(text)
        other = positions.get((host, link.get("target")))
        leads_to = link.get("tclass")
        if other is not None:
            # a link to itself joins nothing, nor does a count of 0
            if other != positions[host, gpu.name] and count:
                yield _LinkGroup(count, other)
        # a GPU that is not in the file, and the CPU of Power, are no switch
        elif link.tag == "nvlink" and not leads_to.startswith((_GPU_CLASS, _CPU_CLASS)):
            yield _LinkGroup(count, other=None)


def _host(element: Element) -> str:
    """The hash of the host that an element is in; empty where files are of one host."""
    cpu = element.inside("cpu")
    if not cpu:
        return ""
    return cpu.get("host_hash")


def _pairs(links: list[list[_LinkGroup]]) -> dict[Pair, int]:
    """The number of links between two accelerators, by their positions, lower first; ``links``: the groups
    of each accelerator."""
    pairs: dict[Pair, int] = {}
    for index, groups in enumerate(links):
        for group in groups:
            if group.other is None:
                continue
            low, high = sorted((index, group.other))
            # both ends list the same links; where they differ the larger number is taken
            known = pairs.get((low, high), 0)
            pairs[low, high] = max(known, group.links)
    return pairs


# --- slots and NICs


class _HeldNic(NamedTuple):
    """A NIC, the element that holds it (its slot, the CPU, or of neither the root), and the ``id()`` of
    each of its ``net`` elements, by which a search names those that it uses."""

    nic: Nic
    holder: Element
    nets: tuple[int, ...] = ()


def _slot_Bps(slot: Element) -> float | None:
    """Bytes/s of a slot, one way; None if unknown."""
    return pci.slot_Bps(slot.get("link_speed"), slot.get("link_width"))


def _nics(system: Element, name: str) -> list[_HeldNic]:
    """The NICs of a file that are for collectives, each port once; by the classes of slots where the file
    has no ``net``."""
    ports: dict[tuple[object, ...], _HeldNic] = {}
    nets = list(system.each("net"))
    for index, net in enumerate(nets):
        if not net.get("dev") or net.get("net") == "0":
            continue
        holder = net.inside("pci") or net.inside("cpu") or system
        # two devices of one port share its GUID; sockets have none, and are a port each
        guid = net.get("guid")
        if guid in ("", "0x0"):
            guid = f"net {index}"
        port = (id(holder), guid, net.get("port"))
        held = ports.get(port) or _HeldNic(_nic_of_net(net, holder, name), holder)
        ports[port] = held._replace(nets=(*held.nets, id(net)))
    if nets:
        return list(ports.values())
    slots = [slot for slot in system.each("pci") if slot.get("class").startswith(pci.NETWORK)]
    return [_HeldNic(_nic_of_slot(slot), slot) for slot in slots]


def _nic_of_net(net: Element, holder: Element, name: str) -> Nic:
    """A NIC by its ``net`` element, in the slot or CPU that holds it; ``name``: of the file, for errors."""
    speed = net.get("speed") or "-1"
    if not re.fullmatch(r"-?\d{1,9}", speed):
        what = f"expected a speed in Mb/s, got {quote(speed)}"
        raise ColltoolError(what, where=f"{name}:{net.line}:{net.column}", fix=FIX)
    nic = _nic_of_slot(holder)._replace(name=clipped(net.get("name") or "net"))
    if int(speed) > 0:
        # the file's own rate; NCCL writes -1 where the driver knows none
        nic = nic._replace(rate_Bps=int(speed) * 1e6 / 8, by_model=False)
    if is_interface(nic.name):
        return nic._replace(medium="socket")
    return nic._replace(gpudirect=net.get("gdr") != "0")


def _nic_of_slot(slot: Element) -> Nic:
    """A NIC by the PCI ids and the width of its slot; a CPU or the root tells nothing of it."""
    if slot.tag != "pci":
        return Nic(slot.get("busid"))
    nic = pci.nic_of(
        slot.get("class"),
        slot.get("vendor"),
        slot.get("device"),
        slot.get("subsystem_device"),
    )
    slot_Bps = _slot_Bps(slot)
    # a card of two ports is two devices in one slot: 0000:12:00.0 and 0000:12:00.1
    card = f"{_host(slot)} {slot.get('busid').partition('.')[0]}"
    name = slot.get("busid")
    return nic._replace(name=name, slot_Bps=slot_Bps, card=card, card_Bps=slot_Bps)


def _with_distances(nics: Sequence[_HeldNic], gpus: list[_Gpu]) -> list[PlacedNic]:
    """The NICs with their distance to each accelerator, and as :func:`_on_shared_way` has them."""
    # the positions of the accelerators in each element, by the element's id()
    below: dict[int, set[int]] = {}
    for position, gpu in enumerate(gpus):
        for outer in gpu.slot.around():
            below.setdefault(id(outer), set()).add(position)
    placed = []
    for held in nics:
        distances = [NicDistance.FAR] * len(gpus)
        # outermost first, so that the nearest is what stays
        for outer in reversed([held.holder, *held.holder.around()]):
            distance = _DISTANCE_WITHIN.get(outer.tag, NicDistance.FAR)
            for position in below.get(id(outer), ()):
                distances[position] = distance
        nic = _on_shared_way(held, below.keys())
        placed.append(PlacedNic(nic, tuple(distances)))
    return placed


def _on_shared_way(held: _HeldNic, with_gpus: Collection[int]) -> Nic:
    """A NIC whose ``card``, the bottleneck that it shares with other NICs, is the topmost PCI switch above
    it that has no accelerator; unchanged where there is none. ``with_gpus``: the id() of each element
    that has accelerators."""
    nic = held.nic
    for outer in held.holder.around():
        if outer.tag != "pci" or id(outer) in with_gpus:
            break
        rate_Bps = _slot_Bps(outer)
        nic = nic._replace(card=f"{_host(outer)} {outer.get('busid')}", card_Bps=rate_Bps)
    return nic


def _has_gpudirect(gpus: list[_Gpu], nics: Sequence[Nic]) -> bool:
    """Whether any NIC with RDMA reaches the memory of the accelerators; True without such NICs, as nothing
    is slowed by it then."""
    verbs = [nic for nic in nics if nic.medium != "socket"]
    if not verbs:
        return True
    if not any(nic.gpudirect for nic in verbs):
        return False
    # clouds' files do not say
    return any(gpu.gpu is None or gpu.gpu.get("gdr") != "0" for gpu in gpus)
