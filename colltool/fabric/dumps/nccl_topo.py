"""The XML that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE, and the topology files that clouds hand
to NCCL_TOPO_FILE.

Elements and attributes: NCCL 2.30, src/graph/xml.cc. A document type is refused, and with it every
entity: NCCL writes none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.parsers import expat

from colltool.base.errors import ColltoolError, clipped, shown
from colltool.base.files import AnyPath, read_text
from colltool.fabric.dumps.node import Link, Nic, NodeDump, Pair

TOOL = "NCCL_TOPO_DUMP_FILE"
MAX_DEPTH = 64
MAX_ELEMENTS = 1_000_000
MAX_ACCELERATORS = 1024
MAX_NICS = 4096
_FIX = (
    "write one: NCCL_TOPO_DUMP_FILE=node.xml ./build/all_reduce_perf -g 8 (or any job of a whole"
    " node)"
)

# Classes of PCI devices: accelerators (3D, display, processing), NVSwitch, InfiniBand, any network.
_ACCELERATORS, _NVSWITCH, _INFINIBAND, _NETWORK = (
    ("0x0302", "0x0300", "0x1200", "0x0380"),
    "0x0680",
    "0x0207",
    "0x02",
)

MODELS = {  # (vendor, device) of PCI
    # NVIDIA, open-gpu-kernel-modules
    **dict.fromkeys(("0x10de:0x20b0", "0x10de:0x20b2"), "NVIDIA A100"),
    **dict.fromkeys(("0x10de:0x20b5", "0x10de:0x20f1"), "NVIDIA A100 PCIe"),
    "0x10de:0x2330": "NVIDIA H100",
    "0x10de:0x2331": "NVIDIA H100 PCIe",
    "0x10de:0x2321": "NVIDIA H100 NVL",
    "0x10de:0x2324": "NVIDIA H800",
    "0x10de:0x2329": "NVIDIA H20",
    "0x10de:0x2335": "NVIDIA H200",
    # AMD, ROCm documentation, system acceptance
    **dict.fromkeys(("0x1002:0x74a1", "0x1002:0x74b5"), "AMD MI300X"),
    "0x1002:0x74a5": "AMD MI325X",
    "0x1002:0x75a3": "AMD MI355X",
}
GENERATIONS = {
    "70": "NVIDIA V100",
    "80": "NVIDIA A100",
    "90": "NVIDIA H100",
    "100": "NVIDIA B200",
    "103": "NVIDIA B300",
    "gfx942": "AMD MI300X",
    "gfx950": "AMD MI355X",
}
"""By compute capability (the attribute sm) or gcn, where the PCI device is another."""
_ON_GRACE = {
    "NVIDIA H100": "NVIDIA GH200",
    "NVIDIA B200": "NVIDIA GB200",
    "NVIDIA B300": "NVIDIA GB300",
}
_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
# bytes/s of a GT/s: one bit a transfer, encoding left to eta as in the shipped fabrics
_PCI_LANE = 1e9 / 8


class _Gpu(NamedTuple):
    busid: str
    slot: Mapping[str, str]
    gpu: Mapping[str, str]
    links: list[tuple[str, Mapping[str, str]]]


class _TopologyXml:
    """The elements of a file as they go by, with the way down to each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parser = expat.ParserCreate()
        self.path: list[tuple[str, dict[str, str]]] = []
        self.elements = 0
        self.found: list[_Gpu] = []
        # of accelerators by class alone, in a file without gpu elements
        self.slots: list[dict[str, str]] = []
        self.nics: list[Nic] = []
        self.ports: list[dict[str, str]] = []  # NICs by class alone
        self.cpus: list[dict[str, str]] = []
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.document_type

    def where(self) -> str:
        return f"{self.name}:{self.parser.CurrentLineNumber}:{self.parser.CurrentColumnNumber + 1}"

    def refuse(self, what: str, fix: str = _FIX) -> ColltoolError:
        return ColltoolError(what, where=self.where(), fix=fix)

    def document_type(self, name: str, *_: object) -> None:
        raise self.refuse(
            f"has a document type ({clipped(name)}), which NCCL never writes: entities in it are"
            " not read"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if not self.path and tag != "system":
            raise self.refuse(
                f"is XML of another program: its root is <{clipped(tag)}>, NCCL's is <system>"
            )
        if len(self.path) >= MAX_DEPTH or self.elements > MAX_ELEMENTS:
            raise self.refuse(
                f"nested deeper than {MAX_DEPTH}, or more than {MAX_ELEMENTS} elements: no node is"
                " so large"
            )
        self.path.append((tag, attributes))
        match tag:
            case "cpu":
                self.cpus.append(attributes)
            case "gpu":
                slot = self.nearest("pci") or {}
                self.found.append(
                    _Gpu(slot.get("busid") or f"gpu{len(self.found)}", slot, attributes, [])
                )
            case "nvlink" | "xgmi" if self.found and any(one == "gpu" for one, _ in self.path):
                self.found[-1].links.append((tag, attributes))
            case "pci" if attributes.get("class", "").startswith(_ACCELERATORS):
                self.slots.append(attributes)
            case "pci" if attributes.get("class", "").startswith(_NETWORK):
                self.ports.append(attributes)
            case "net":
                self.net(attributes)
        if len(self.found) > MAX_ACCELERATORS or len(self.nics) > MAX_NICS:
            raise self.refuse(
                f"has more than {MAX_ACCELERATORS} accelerators or {MAX_NICS} NICs: no node is so"
                " large"
            )

    def end(self, _: str) -> None:
        self.path.pop()

    def nearest(self, tag: str) -> dict[str, str] | None:
        return next((attributes for one, attributes in reversed(self.path) if one == tag), None)

    def net(self, attributes: dict[str, str]) -> None:
        speed = attributes.get("speed", "")
        if not re.fullmatch(r"-?\d{1,9}", speed):
            raise self.refuse(f"expected a speed in Mb/s, got {shown(speed)}")
        slot = self.nearest("pci") or {}
        rate = int(speed) * 1e6 / 8 if int(speed) > 0 else None
        self.nics.append(
            Nic(attributes.get("name", "net"), rate, slot.get("class", "").startswith(_INFINIBAND))
        )


def read_nccl_topo(path: AnyPath) -> NodeDump:
    """A node from a file that NCCL dumped.

    Raises:
        ColltoolError: not XML, another program's, cut off, with a document type, beyond the limits,
            or without accelerators.
    """
    text = read_text(path, "topology")
    name = os.fsdecode(path)
    reading = _TopologyXml(name)
    try:
        reading.parser.Parse(text.lstrip(), True)
    except expat.ExpatError as error:
        at = f"{name}:{error.lineno}:{error.offset + 1}"
        raise ColltoolError(
            f"is not the XML of NCCL, or cut off: {expat.errors.messages[error.code]}",
            where=at,
            fix=_FIX,
        ) from None
    if not reading.found:
        reading.found = [_Gpu(slot.get("busid", ""), slot, {}, []) for slot in reading.slots]
    if not reading.found:
        raise ColltoolError("has no accelerators", where=name, fix=_FIX)
    nics = reading.nics or [
        Nic(slot.get("busid", ""), None, slot["class"].startswith(_INFINIBAND))
        for slot in reading.ports
    ]
    return _node(reading, tuple(nics))


def _node(reading: _TopologyXml, nics: tuple[Nic, ...]) -> NodeDump:
    every = reading.found
    arm = any(cpu.get("arch") == "arm64" for cpu in reading.cpus)
    models = {_model(one, arm) for one in every}
    hosts = {cpu["host_hash"] for cpu in reading.cpus if "host_hash" in cpu}
    links: Link = (
        "xgmi" if any(kind == "xgmi" for one in every for kind, _ in one.links) else "nvlink"
    )
    told = [slot for one in every if (slot := _slot_Bps(one.slot)) is not None]
    vendors = [
        _VENDORS[vendor] for cpu in reading.cpus if (vendor := cpu.get("vendor", "")) in _VENDORS
    ]
    if len(models) > 1:
        kinds = ", ".join(sorted(models))
        raise ColltoolError(
            f"has different accelerators: {kinds}",
            where=reading.name,
            fix="dump a node of one kind",
        )
    return NodeDump(
        file=reading.name,
        tool=TOOL,
        accelerators=tuple(one.busid for one in every),
        model=models.pop(),
        link=links,
        to_switch=tuple(
            sum(count for _, count, switch in _links(one, reading.name) if switch) for one in every
        ),
        pairs=_pairs(every, reading.name),
        links_told=any(one.gpu for one in every),
        pcie_Bps=min(told) if told else None,
        nics=nics,
        cpu="arm" if arm else vendors[0] if vendors else "",
        hosts=max(1, len(hosts)),
    )


def _links(one: _Gpu, name: str) -> Iterator[tuple[str, int, bool]]:
    """Target, count and whether it is a switch, of each group of links."""
    for kind, attributes in one.links:
        count = attributes.get("count", "")
        if not re.fullmatch(r"\d{1,4}", count):
            raise ColltoolError(
                f"expected a count of links of {one.busid}, got {shown(count)}",
                where=name,
                fix=_FIX,
            )
        yield (
            attributes.get("target", ""),
            int(count),
            kind == "nvlink" and attributes.get("tclass", "").startswith(_NVSWITCH),
        )


def _pairs(every: list[_Gpu], name: str) -> dict[Pair, int]:
    at = {one.busid: index for index, one in enumerate(every)}
    found: dict[Pair, int] = {}
    for index, one in enumerate(every):
        for target, count, switch in _links(one, name):
            if not switch and (other := at.get(target, index)) != index and count:
                pair = (min(index, other), max(index, other))
                found[pair] = max(found.get(pair, 0), count)  # both ends list it
    return found


def _model(one: _Gpu, arm: bool) -> str:
    named = MODELS.get(f"{one.slot.get('vendor')}:{one.slot.get('device')}")
    model = (
        named
        or GENERATIONS.get(one.gpu.get("sm", ""))
        or GENERATIONS.get(one.gpu.get("gcn", ""), "")
    )
    return _ON_GRACE.get(model, model) if arm else model


def _slot_Bps(slot: Mapping[str, str]) -> float | None:
    """``link_speed="16.0 GT/s PCIe" link_width="16"``; None in a virtual machine that does not
    know."""
    speed, width = (
        re.match(r"(\d{1,3}(?:\.\d)?) GT/s", slot.get("link_speed", "")),
        slot.get("link_width", ""),
    )
    lanes = int(width) if re.fullmatch(r"\d{1,2}", width) else 0
    return float(speed[1]) * lanes * _PCI_LANE if speed and lanes else None
