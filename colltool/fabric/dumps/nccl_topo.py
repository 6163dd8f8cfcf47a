"""The XML that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE, and clouds' files for NCCL_TOPO_FILE.

Elements and attributes: NCCL 2.30, src/graph/xml.cc. A document type is refused, and with it every
entity: NCCL writes none.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.base.files import AnyPath, read_text
from colltool.fabric.dumps.node import Nic, NodeDump, Pair

TOOL = "NCCL_TOPO_DUMP_FILE"
# Limits that no node reaches.
MAX_DEPTH = 64
MAX_ELEMENTS = 1_000_000
MAX_ACCELERATORS = 1024
MAX_NICS = 4096
_FIX = (
    "write one: NCCL_TOPO_DUMP_FILE=node.xml ./build/all_reduce_perf -g 8 (or any job of a whole"
    " node)"
)

# Classes of PCI devices. Accelerators are 3D controllers, displays and processing accelerators.
_ACCELERATORS = ("0x0302", "0x0300", "0x1200", "0x0380")
_NVSWITCH = "0x0680"
_INFINIBAND = "0x0207"
# any network controller, InfiniBand among them
_NETWORK = "0x02"

# The names of the same GPUs with a Grace CPU.
_ON_GRACE = {
    "NVIDIA H100": "NVIDIA GH200",
    "NVIDIA B200": "NVIDIA GB200",
    "NVIDIA B300": "NVIDIA GB300",
}
_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
# Bytes/s per GT/s: one bit per transfer; encoding is left to eta, as in the shipped fabrics.
_PCI_LANE = 1e9 / 8


class _LinkGroup(NamedTuple):
    """Parallel links of an accelerator to one target."""

    target: str
    links: int
    to_switch: bool


class _Gpu(NamedTuple):
    """An accelerator: the attributes of its PCI slot and of its ``gpu`` element, and its links."""

    busid: str
    slot: Mapping[str, str]
    gpu: Mapping[str, str]
    links: list[_LinkGroup]


class _TopologyXml:
    """Collects accelerators, NICs and processors from the elements of a file as expat reports them.

    ``path``: the elements around the present one, outermost first.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.parser = expat.ParserCreate()
        self.path: list[tuple[str, dict[str, str]]] = []
        self.elements = 0
        self.gpus: list[_Gpu] = []
        self.has_xgmi = False
        self.nics: list[Nic] = []
        self.cpus: list[dict[str, str]] = []
        # Clouds' files have no gpu and net elements: their devices are known by PCI class alone.
        self.accelerator_slots: list[dict[str, str]] = []
        self.nic_slots: list[dict[str, str]] = []
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.document_type

    def refuse(self, what: str) -> ColltoolError:
        line, column = self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1
        return ColltoolError(what, where=f"{self.name}:{line}:{column}", fix=_FIX)

    def document_type(self, name: str, *_: object) -> None:
        raise self.refuse(
            f"has a document type ({clipped(name)}), which NCCL never writes: entities in it are"
            " not read"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.check_limits(tag)
        self.path.append((tag, attributes))
        match tag:
            case "cpu":
                self.cpus.append(attributes)
            case "gpu":
                self.on_gpu(attributes)
            case "nvlink" | "xgmi":
                self.on_links(tag, attributes)
            case "pci":
                kind = attributes.get("class", "")
                if kind.startswith(_ACCELERATORS):
                    self.accelerator_slots.append(attributes)
                elif kind.startswith(_NETWORK):
                    self.nic_slots.append(attributes)
            case "net":
                self.on_net(attributes)
        if len(self.gpus) > MAX_ACCELERATORS or len(self.nics) > MAX_NICS:
            raise self.refuse(
                f"has more than {MAX_ACCELERATORS} accelerators or {MAX_NICS} NICs: no node is so"
                " large"
            )

    def check_limits(self, tag: str) -> None:
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

    def end(self, _: str) -> None:
        self.path.pop()

    def slot(self) -> dict[str, str]:
        """Return the attributes of the PCI device that the present element is in."""
        slots = (attributes for tag, attributes in reversed(self.path) if tag == "pci")
        return next(slots, {})

    def on_gpu(self, attributes: dict[str, str]) -> None:
        slot = self.slot()
        busid = slot.get("busid") or f"gpu{len(self.gpus)}"
        self.gpus.append(_Gpu(busid, slot, attributes, []))

    def on_links(self, tag: str, attributes: dict[str, str]) -> None:
        if not self.gpus or all(parent != "gpu" for parent, _ in self.path):
            return
        gpu = self.gpus[-1]
        count = attributes.get("count", "")
        if not re.fullmatch(r"\d{1,4}", count):
            what = f"expected a count of links of {gpu.busid}, got {quote(count)}"
            raise ColltoolError(what, where=self.name, fix=_FIX)
        switch = tag == "nvlink" and attributes.get("tclass", "").startswith(_NVSWITCH)
        self.has_xgmi = self.has_xgmi or tag == "xgmi"
        gpu.links.append(_LinkGroup(attributes.get("target", ""), int(count), switch))

    def on_net(self, attributes: dict[str, str]) -> None:
        speed = attributes.get("speed", "")
        if not re.fullmatch(r"-?\d{1,9}", speed):
            raise self.refuse(f"expected a speed in Mb/s, got {quote(speed)}")
        # NCCL writes -1 where the driver does not know
        rate_Bps = int(speed) * 1e6 / 8 if int(speed) > 0 else None
        self.nics.append(Nic(attributes.get("name", "net"), rate_Bps, _is_infiniband(self.slot())))


def read_nccl_topo(path: AnyPath) -> NodeDump:
    """Return a node from a file that NCCL dumped.

    Raises:
        ColltoolError: not XML, another program's, cut off, with a document type, beyond the limits,
            or without accelerators.
    """
    text = read_text(path, "topology")
    name = os.fsdecode(path)
    topology = _TopologyXml(name)
    try:
        topology.parser.Parse(text.lstrip(), True)
    except expat.ExpatError as error:
        raise ColltoolError(
            f"is not the XML of NCCL, or cut off: {expat.errors.messages[error.code]}",
            where=f"{name}:{error.lineno}:{error.offset + 1}",
            fix=_FIX,
        ) from None
    gpus = topology.gpus
    if not gpus:
        gpus = [_Gpu(slot.get("busid", ""), slot, {}, []) for slot in topology.accelerator_slots]
    if not gpus:
        raise ColltoolError("has no accelerators", where=name, fix=_FIX)
    nics = topology.nics
    if not nics:
        nics = [
            Nic(slot.get("busid", ""), None, _is_infiniband(slot)) for slot in topology.nic_slots
        ]
    return _node(topology, gpus, nics)


def _is_infiniband(slot: Mapping[str, str]) -> bool:
    return slot.get("class", "").startswith(_INFINIBAND)


def _node(topology: _TopologyXml, gpus: list[_Gpu], nics: list[Nic]) -> NodeDump:
    """The node of a file; an error if its accelerators differ."""
    cpu = _cpu(topology.cpus)
    models = {_model(gpu, cpu) for gpu in gpus}
    if len(models) > 1:
        raise ColltoolError(
            f"has different accelerators: {', '.join(sorted(models))}",
            where=topology.name,
            fix="dump a node of one kind",
        )
    hosts = {attributes["host_hash"] for attributes in topology.cpus if "host_hash" in attributes}
    slot_rates = [rate_Bps for gpu in gpus if (rate_Bps := _slot_Bps(gpu.slot)) is not None]
    return NodeDump(
        file=topology.name,
        tool=TOOL,
        accelerators=tuple(gpu.busid for gpu in gpus),
        model=models.pop(),
        link="xgmi" if topology.has_xgmi else "nvlink",
        to_switch=tuple(map(_links_to_switches, gpus)),
        pairs=_pairs(gpus),
        has_links=any(gpu.gpu for gpu in gpus),
        pcie_Bps=min(slot_rates, default=None),
        nics=tuple(nics),
        cpu=cpu,
        hosts=max(1, len(hosts)),
    )


def _cpu(cpus: list[dict[str, str]]) -> str:
    """Vendor of the first processor that names one, ``arm`` for Grace; empty if unknown."""
    if any(attributes.get("arch") == "arm64" for attributes in cpus):
        return "arm"
    vendors = (_VENDORS.get(attributes.get("vendor", "")) for attributes in cpus)
    return next(filter(None, vendors), "")


def _links_to_switches(gpu: _Gpu) -> int:
    return sum(group.links for group in gpu.links if group.to_switch)


def _pairs(gpus: list[_Gpu]) -> dict[Pair, int]:
    """Links between two accelerators, by their positions, lower first."""
    position = {gpu.busid: index for index, gpu in enumerate(gpus)}
    pairs: dict[Pair, int] = {}
    for index, gpu in enumerate(gpus):
        for group in gpu.links:
            other = position.get(group.target, index)
            if group.to_switch or other == index or not group.links:
                continue
            pair = (min(index, other), max(index, other))
            # both ends list the same links
            pairs[pair] = max(pairs.get(pair, 0), group.links)
    return pairs


def _model(gpu: _Gpu, cpu: str) -> str:
    models = _models()
    device = f"{gpu.slot.get('vendor')}:{gpu.slot.get('device')}"
    generations = (gpu.gpu.get("sm", ""), gpu.gpu.get("gcn", ""))
    model = next((models[key] for key in (device, *generations) if key in models), "")
    return _ON_GRACE.get(model, model) if cpu == "arm" else model


@cache
def _models() -> dict[str, str]:
    """Models by PCI device, compute capability and architecture."""
    text = (Path(__file__).parent.parent / "data" / "accelerators.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["id"]: row["model"] for row in rows}


def _slot_Bps(slot: Mapping[str, str]) -> float | None:
    """Bytes/s of ``link_speed="16.0 GT/s PCIe" link_width="16"``; None in a virtual machine that
    does not know."""
    speed = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", slot.get("link_speed", ""))
    width = re.fullmatch(r"\d{1,2}", slot.get("link_width", ""))
    if speed is None or width is None or int(width[0]) == 0:
        return None
    return float(speed[1]) * int(width[0]) * _PCI_LANE
