"""Damages that NCCL's own print of a node tells of: its tree of parts and rates beside a file's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.base.xml_tree import Element
from colltool.libraries.nccl.topology.damages import (
    Damage,
    Parts,
    fewer_links,
    placed,
    slower_port,
    slower_slots,
    together,
    without_nics,
)
from colltool.libraries.nccl.topology.system import SystemNode, bus_number
from colltool.logs.nccl_graph_lines import LoggedLink

# rates are printed with one digit, GB/s
_DIGIT_MBps = 60


def damage_in_tree(parts: Parts, tree: Sequence[LoggedLink]) -> Iterator[Damage]:
    """What is worse in a log's tree than in a file, all of it together; nothing where they agree."""
    stated = _Tree(tree)
    found = [
        *_slots(parts, stated),
        *_links(parts, stated),
        *_nics(parts, stated),
    ]
    if found:
        yield together(found)


class _Tree:
    """The links of a log's tree by what is below them; a GPU is a DEV from 2.29 on."""

    def __init__(self, tree: Sequence[LoggedLink]) -> None:
        self.up: dict[tuple[str, int], LoggedLink] = {}
        self.nvlinks_MBps: dict[int, int] = {}
        self.ports: dict[int, int] = {}
        for link in tree:
            kind, number = link.below
            if link.kind == "PCI":
                self.up["GPU" if kind == "DEV" else kind, number] = link
            elif link.kind == "NET":
                self.ports[link.above[1]] = link.MBps
            elif link.kind == "NVL":
                own = link.above[1]
                self.nvlinks_MBps[own] = self.nvlinks_MBps.get(own, 0) + link.MBps

    def slot_MBps(self, kind: str, busid: str) -> int | None:
        link = self.up.get((kind, bus_number(busid)))
        return None if link is None else link.MBps


def _slots(parts: Parts, stated: _Tree) -> Iterator[Damage]:
    kinds = (
        ("gpu-slot", "GPU", parts.gpus),
        ("nic-slot", "NIC", parts.nics),
        ("switch-slot", "PCI", parts.switches),
    )
    for kind, type_, slots in kinds:
        alike: dict[tuple[int, int], list[int]] = {}
        for place, slot in enumerate(slots):
            MBps = stated.slot_MBps(type_, slot.busid)
            if MBps is not None and MBps < slot.MBps - _DIGIT_MBps:
                alike.setdefault((slot.MBps, slot.MBps // max(MBps, 1)), []).append(place)
        for (_, part), places in alike.items():
            slower = [slots[place] for place in places]
            yield slower_slots(kind, slower, part, all=len(places) == len(slots))


def _links(parts: Parts, stated: _Tree) -> Iterator[Damage]:
    """GPUs with fewer NVLinks; only where the tree has GPUs at all."""
    for gpu in parts.before.system.gpus:
        busid = bus_number(gpu.name)
        was_MBps = gpu.device.total_MBps("NVL")
        if ("GPU", busid) not in stated.up or not was_MBps:
            continue
        now_MBps = stated.nvlinks_MBps.get(busid, 0)
        was = parts.links[gpu.name]
        now = round(was * now_MBps / was_MBps)
        if now < was:
            yield fewer_links([str(gpu.rank)], [gpu.name], now, was)


def _nics(parts: Parts, stated: _Tree) -> Iterator[Damage]:
    """NICs that the tree lacks, or has at another place or rate."""
    if not stated.ports:
        return
    expected = {bus_number(nic.name): nic for nic in parts.before.system.nics}
    for slot in parts.nics:
        busid = bus_number(slot.busid)
        names = slot.name.split("/")
        if busid not in stated.ports:
            yield without_nics(names)
            continue
        was = parts.ports.get(names[0], 0)
        now = stated.ports[busid]
        if now < was - _DIGIT_MBps:
            yield slower_port(names, now, was)
        link = stated.up.get(("NIC", busid))
        node = expected.get(busid)
        if link is not None and node is not None and link.above != _place(node.parent):
            yield _moved(slot.name, slot.busid, link.above, node)


def _place(node: SystemNode | None) -> tuple[str, int]:
    """A part as the tree names it."""
    if node is None:
        return "", 0
    if node.type == "CPU":
        return "CPU", int(node.name) if node.name.isdigit() else 0
    return node.type, bus_number(node.name)


def _moved(name: str, busid: str, above: tuple[str, int], node: SystemNode) -> Damage:
    """A NIC that hangs at another part."""
    kind, number = above

    def where(root: Element, _slot: Element) -> Element | None:
        tag = "cpu" if kind == "CPU" else "pci"
        for element in root.each(tag):
            own = (
                int(element.get("numaid") or 0)
                if tag == "cpu"
                else bus_number(element.get("busid"))
            )
            if own == number:
                return element
        return None

    cpu = node.parent
    while cpu is not None and cpu.type != "CPU":
        cpu = cpu.parent
    far = kind == "CPU" and cpu is not None and _place(cpu) != above
    return placed("nic-far" if far else "nic-apart", name, busid, where)
