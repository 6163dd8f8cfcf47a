"""Damages that NCCL's own print of a node tells of: its tree of parts and rates beside a file's
(:func:`damage_in_tree`). Parts are named as NCCL prints them, ``("GPU", 0x1b000)``: a type, and the
bus id or number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.base.xml_tree import Element
from colltool.libraries.nccl.topology.damages import (
    Damage,
    Parts,
    PartSlot,
    fewer_links,
    placed,
    slower_port,
    slower_slots,
    together,
    without_nics,
)
from colltool.libraries.nccl.topology.rates import number
from colltool.libraries.nccl.topology.system import SystemNode, bus_number
from colltool.logs.nccl_graph_lines import LoggedLink

# the type of a GPU's slot as NCCL prints it from 2.29 on, and before
_OLD_TYPES = {"DEV": "GPU"}
# what a rate may differ by as it is printed, in GB/s with one decimal: half of that, and rounding
_DIGIT_MBps = 60


def damage_in_tree(parts: Parts, tree: Sequence[LoggedLink]) -> Iterator[Damage]:
    """What is worse in a log's tree than in a file, all of it together; nothing where they agree."""
    stated = _StatedTree(tree)
    damages = [
        *_slow_slots(parts, stated),
        *_missing_links(parts, stated),
        *_nic_damages(parts, stated),
    ]
    if damages:
        yield together(damages)


class _StatedTree:
    """The links of a log's tree by what is below them."""

    def __init__(self, tree: Sequence[LoggedLink]) -> None:
        self.up: dict[tuple[str, int], LoggedLink] = {}  # the PCIe link above a part
        self.nvlinks_MBps: dict[int, int] = {}  # of all links of a GPU, by its bus id
        self.ports_MBps: dict[int, int] = {}  # of a NIC, by its bus id
        for link in tree:
            # a NIC's port hangs below the NIC, an NVLink below its GPU
            kind, number = link.below
            if link.kind == "PCI":
                self.up[_OLD_TYPES.get(kind, kind), number] = link
            elif link.kind == "NET":
                self.ports_MBps[link.above[1]] = link.MBps
            elif link.kind == "NVL":
                gpu = link.above[1]
                self.nvlinks_MBps[gpu] = self.nvlinks_MBps.get(gpu, 0) + link.MBps

    def times_slower(self, kind: str, slot: PartSlot) -> int:
        """How many times slower a slot is than in the file: 1, 2, 4; 1 of what is not printed.
        ``kind``: the type of part in it, as NCCL prints it."""
        link = self.up.get((kind, bus_number(slot.busid)))
        if link is None or link.MBps >= slot.MBps - _DIGIT_MBps:
            return 1
        return slot.MBps // max(link.MBps, 1)


def _slow_slots(parts: Parts, stated: _StatedTree) -> Iterator[Damage]:
    """Slots at a part of their rate, together where it is the same."""
    kinds = (
        ("gpu-slot", "GPU", parts.gpus),
        ("nic-slot", "NIC", parts.nics),
        ("switch-slot", "PCI", parts.switches),
    )
    for kind, printed_type, slots in kinds:
        by_divisor: dict[int, list[PartSlot]] = {}
        for slot in slots:
            by_divisor.setdefault(stated.times_slower(printed_type, slot), []).append(slot)
        by_divisor.pop(1, None)
        for divisor, slower in by_divisor.items():
            yield slower_slots(kind, slower, divisor, all=len(slower) == len(slots))


def _missing_links(parts: Parts, stated: _StatedTree) -> Iterator[Damage]:
    """GPUs with fewer NVLinks; only where the tree has GPUs at all."""
    for gpu in parts.before.system.gpus:
        busid = bus_number(gpu.name)
        was_MBps = gpu.device.total_MBps("NVL")
        if ("GPU", busid) not in stated.up or not was_MBps:
            continue
        now_MBps = stated.nvlinks_MBps.get(busid, 0)
        was_links = parts.links[gpu.name]
        now_links = round(was_links * now_MBps / was_MBps)
        if now_links < was_links:
            yield fewer_links([str(gpu.rank)], [gpu.name], now_links, was_links)


def _nic_damages(parts: Parts, stated: _StatedTree) -> Iterator[Damage]:
    """NICs that the tree lacks, or has at another place or rate."""
    if not stated.ports_MBps:
        return
    expected = {bus_number(nic.name): nic for nic in parts.before.system.nics}
    for slot in parts.nics:
        busid = bus_number(slot.busid)
        if busid not in stated.ports_MBps:
            yield without_nics(slot.names)
            continue
        was_MBps = parts.ports.get(slot.names[0], 0)
        now_MBps = stated.ports_MBps[busid]
        if now_MBps < was_MBps - _DIGIT_MBps:
            yield slower_port(slot.names, now_MBps, was_MBps)
        link = stated.up.get(("NIC", busid))
        node = expected.get(busid)
        if link is not None and node is not None and link.above != _place(node.parent):
            yield _moved(slot.name, slot.busid, link.above, node)


def _place(node: SystemNode | None) -> tuple[str, int]:
    """A part of the file as the tree names it; an empty one for none."""
    if node is None:
        return "", 0
    if node.type == "CPU":
        return "CPU", number(node.name)
    return node.type, bus_number(node.name)


def _moved(name: str, busid: str, above: tuple[str, int], node: SystemNode) -> Damage:
    """A NIC that hangs at another part, ``above``; ``node``: the NIC in the file."""

    def find_above(root: Element, _slot: Element) -> Element | None:
        for element in (*root.each("cpu"), *root.each("pci")):
            printed = ("PCI", bus_number(element.get("busid")))
            if element.tag == "cpu":
                printed = ("CPU", number(element.get("numaid")))
            if printed == above:
                return element
        return None

    cpu = node.parent
    while cpu is not None and cpu.type != "CPU":
        cpu = cpu.parent
    kind = "nic-apart"
    if above[0] == "CPU" and _place(cpu) != above:
        kind = "nic-far"
    return placed(kind, name, busid, find_above)
