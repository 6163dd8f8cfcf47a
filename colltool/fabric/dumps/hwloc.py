"""The XML of hwloc: ``lstopo --of xml``, or ``lstopo node.xml``.

Format: hwloc 1.11 to 2.x, ``hwloc.dtd`` and ``hwloc2.dtd`` of its manual. An ``object`` has a
``type``: Machine, Package (Socket), NUMANode, Group, Bridge, PCIDev, OSDev ... A bridge of
``bridge_type="0-1"`` is a host bridge: what is in it is at one CPU. A PCI device has ``pci_busid``,
``pci_type="0302 [10de:2330] [10de:16c1] a1"`` (class, vendor and device, subsystem, revision) and
``pci_link_speed`` in GB/s, 0 where unknown. ``osdev_type``: 2 network, 3 OpenFabrics (verbs). It states
neither NVLinks, but as bandwidths of ``distances2hetero``, nor the rates of NICs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from statistics import median_low
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.files import AnyPath
from colltool.base.xml_tree import Element, XmlFormat, read_xml
from colltool.fabric.dumps import pci
from colltool.fabric.dumps.nics import NicDistance, PlacedNic, serving
from colltool.fabric.dumps.node import NodeDump

TOOL = "lstopo"
MAX_DEVICES = 1024  # a dump of more is of no node
_FIX = "write one: lstopo --of xml > node.xml"
FORMAT = XmlFormat("topology", "hwloc", _FIX, has_document_type=True)

# 0302 [10de:2330] [10de:16c1] a1
_PCI_TYPE = re.compile(
    r"([0-9a-fA-F]{4}) \[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\](?: \[[0-9a-fA-F]{4}:([0-9a-fA-F]{4})\])?"
)
# Vendors of accelerators: other displays are for a monitor.
_VENDORS = ("10de", "1002")
# Values of ``bridge_type`` and ``osdev_type``.
_HOST_BRIDGE = "0-1"
_VERBS = "3"
# hwloc counts what is left of a slot after encoding: 128 of 130 bits from PCIe 3.0 on.
_ENCODING = 130 / 128


def read_hwloc(path: AnyPath) -> NodeDump:
    """Return a node from a file of hwloc.

    Raises:
        ColltoolError: not hwloc's XML, cut off, beyond the limits, without accelerators or with
            several kinds of them.
    """
    name = os.fsdecode(path)
    topology = read_xml(path, FORMAT)
    gpus: list[Element] = []
    cards: list[Element] = []
    for device in topology.each("object"):
        ids = _ids(device)
        if ids.vendor[2:] in _VENDORS and ids.device_class.startswith(pci.ACCELERATORS):
            gpus.append(device)
        elif ids.device_class.startswith(pci.NETWORK):
            cards.append(device)
    if not gpus:
        raise ColltoolError(
            "has no accelerators", where=name, fix="let lstopo show PCI devices: --whole-io"
        )
    if len(gpus) > MAX_DEVICES or len(cards) > MAX_DEVICES:
        what = f"has more than {MAX_DEVICES} accelerators or NICs: no node is so large"
        raise ColltoolError(what, where=name, fix=_FIX)
    grace = _info(topology, "Architecture") == "aarch64"
    model = _model(name, gpus, grace=grace)
    slots_Bps = [slot_Bps for slot_Bps in map(_slot_Bps, gpus) if slot_Bps is not None]
    no_links = "does not state NVLinks"
    if pci.is_card(model):
        no_links = ""
    served = serving([_placed_nic(card, gpus) for card in cards], linked=True)
    return NodeDump(
        file=name,
        tool=TOOL,
        accelerators=tuple(gpu.get("pci_busid") for gpu in gpus),
        model=model,
        pairs={},
        no_links=no_links,
        pcie_Bps=median_low(slots_Bps) if slots_Bps else None,
        has_slots=not grace,
        nics=served.nics,
        cpu="arm" if grace else "",
        notes=served.notes,
    )


def _model(name: str, gpus: list[Element], *, grace: bool) -> str:
    """The model of the accelerators; an error if they differ."""
    models = set()
    for gpu in gpus:
        ids = _ids(gpu)
        models.add(pci.model_of(f"{ids.vendor}:{ids.device}", grace=grace).name)
    return pci.one_model(models, name)


class _PciIds(NamedTuple):
    """The ids of a PCI device as Linux writes them, ``0x10de``; empty for other objects."""

    device_class: str = ""
    vendor: str = ""
    device: str = ""
    subsystem: str = ""


def _ids(device: Element) -> _PciIds:
    """The ids of an object; all empty if it is no PCI device."""
    pci_type = None
    if device.get("type") == "PCIDev":
        pci_type = _PCI_TYPE.match(device.get("pci_type"))
    if pci_type is None:
        return _PciIds()
    device_class, vendor, number, subsystem = pci_type.groups(default="")
    return _PciIds(
        device_class=f"0x{device_class}00",
        vendor=f"0x{vendor}".lower(),
        device=f"0x{number}".lower(),
        subsystem=f"0x{subsystem}",
    )


def _info(topology: Element, name: str) -> str:
    """The first info of a name in the file; empty if there is none."""
    for info in topology.each("info"):
        if info.get("name") == name:
            return info.get("value")
    return ""


def _slot_Bps(device: Element) -> float | None:
    """Bytes/s of a slot, one way, encoding not subtracted (as ``pci.slot_Bps`` counts it); None if the file
    does not know."""
    text = device.get("pci_link_speed")
    if not re.fullmatch(r"\d{1,4}(?:\.\d{1,9})?", text):
        return None
    # hwloc's 15.754 GB/s of 16 lanes of PCIe 3.0 is 16
    GBps = round(float(text) * _ENCODING)
    return GBps * 1e9 or None


def _placed_nic(card: Element, gpus: list[Element]) -> PlacedNic:
    """A NIC of the dump (``card``: its PCI device), named by its verbs device if it has one, with its slot
    and its distance to each accelerator."""
    parts = [part for part in card.each("object") if part.get("type") == "OSDev"]
    verbs = [part for part in parts if part.get("osdev_type") == _VERBS]
    named = (verbs or parts or [card])[0]
    slot_Bps = _slot_Bps(card)
    busid = card.get("pci_busid")
    nic = pci.nic_of(*_ids(card))._replace(
        name=clipped(named.get("name") or busid),
        slot_Bps=slot_Bps,
        card=busid.partition(".")[0],
        card_Bps=slot_Bps,
    )
    # a port without a verbs device carries sockets at most
    if parts and not verbs:
        nic = nic._replace(medium="socket")
    near = list(_bridges(card))
    return PlacedNic(nic, tuple(_distance(near, gpu) for gpu in gpus))


def _bridges(device: Element) -> Iterator[Element]:
    """The objects that a device is in up to its CPU or NUMA node, innermost first."""
    for outer in device.around():
        if outer.get("type") in ("Machine", "System") or outer.tag == "topology":
            return
        yield outer


def _distance(near: list[Element], gpu: Element) -> NicDistance:
    """How far an accelerator is from a NIC; ``near``: the objects that the NIC is in, up to its CPU."""
    for outer in _bridges(gpu):
        # the innermost that both are in
        if outer in near:
            if outer.get("type") == "Bridge" and outer.get("bridge_type") != _HOST_BRIDGE:
                return NicDistance.SWITCH
            return NicDistance.CPU
    # machines of one CPU have their host bridges in the machine itself
    if any(_is_cpu(outer) for outer in near):
        return NicDistance.FAR
    return NicDistance.CPU


def _is_cpu(element: Element) -> bool:
    """Whether an object is a CPU or a part of one with its memory."""
    return element.get("type") in ("Package", "Socket", "NUMANode", "Group", "Die")
