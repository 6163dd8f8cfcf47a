"""What may ail a node: its topology file with one thing made worse, as a log's run may have had it.

The likeliest come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import NamedTuple

from colltool.base.xml_tree import Element
from colltool.libraries.nccl.topology.changes import slots_with
from colltool.libraries.nccl.topology.graphs import NodeGraphs
from colltool.libraries.nccl.topology.rates import number, port_MBps, slot_MBps
from colltool.libraries.nccl.topology.system import bus_number

Edit = Callable[[Element], None]
# what is left of a slot's or a port's rate
_PARTS = (2, 4, 8)
# ways to choose the NICs that NCCL sees
_MOST_SUBSETS = 60


class Damage(NamedTuple):
    """A change for the worse.

    Args:
        kind: nic-missing, nics-few, gdr, nvlinks, nvlink-pair, gpu-slot, nic-slot, switch-slot, port,
            slots-unknown, nic-far, nic-apart, flat, one-cpu, or setting.
        names: of what it is of: GPUs by rank, NICs by name, switches by bus id, or settings.
        now, was: links, or MB/s.
        edit: makes the change in a file's elements.
        settings: NCCL's, with the change.
        all: it is of all parts of the kind.
        together: several that are there at once; ``kind`` is that of the first.
    """

    kind: str
    names: tuple[str, ...]
    edit: Edit
    now: int = 0
    was: int = 0
    settings: Mapping[str, str] = MappingProxyType({})
    all: bool = False
    together: tuple[Damage, ...] = ()


def together(damages: Sequence[Damage]) -> Damage:
    """Several damages at once."""
    if len(damages) == 1:
        return damages[0]

    def edit(root: Element) -> None:
        for damage in damages:
            damage.edit(root)

    return damages[0]._replace(edit=edit, together=tuple(damages))


class _Slot(NamedTuple):
    """A slot with a GPU, a NIC or a switch: what users call it, and the bus id of the switch
    ``above``, empty below a CPU."""

    name: str
    busid: str
    MBps: int
    above: str


class Parts:
    """The parts of a node, as damages name them."""

    def __init__(self, root: Element, before: NodeGraphs) -> None:
        self.root = root
        self.before = before
        self.gpus: list[_Slot] = []
        self.nics: list[_Slot] = []
        self.switches: list[_Slot] = []
        self.ports: dict[str, int] = {}
        self.links: dict[str, int] = {}
        # NVLinks between two GPUs, by their bus ids
        self.joined: dict[tuple[str, str], int] = {}
        for slot in slots_with(root, "gpu"):
            ranks = [gpu.get("rank") for gpu in slot.each("gpu")]
            self.links[slot.get("busid")] = _links(slot)
            for link in slot.each("nvlink"):
                if link.get("tclass").startswith("0x03"):
                    one_end, other_end = sorted((slot.get("busid"), link.get("target")))
                    self.joined[one_end, other_end] = number(link.get("count"))
            self.gpus.append(_slot("/".join(ranks), slot))
        known = {net.name for net in before.system.nets}
        for slot in slots_with(root, "nic"):
            names = [net.get("name") for net in slot.each("net")]
            if known.intersection(names):
                self.nics.append(_slot("/".join(names), slot))
        for slot in slots_with(root, "pci"):
            self.switches.append(_slot(slot.get("busid"), slot))
        for net in root.each("net"):
            if net.get("name") in known:
                self.ports[net.get("name")] = port_MBps(net.get("speed"))

    def related(self, names: Sequence[str]) -> set[str]:
        """Parts of these names, and those in slots beside theirs, with the switch above."""
        found = set(names)
        for slots in self._by_switch().values():
            if slots & found:
                found |= slots
        return found

    def _by_switch(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for slot in (*self.gpus, *self.nics):
            if slot.above:
                found.setdefault(slot.above, {slot.above}).add(slot.name)
        return found


def _slot(name: str, slot: Element) -> _Slot:
    MBps = slot_MBps(slot.get("link_speed"), slot.get("link_width"))
    above = slot.parent.get("busid") if slot.parent else ""
    return _Slot(name, slot.get("busid"), MBps, above)


def damages_of(parts: Parts, nics: int | None = None) -> Iterator[Damage]:
    """The damages that a node may have.

    ``nics``: that NCCL's channels use; None if that is not known. Where they use all, none is
    missing.
    """
    across = parts.before.across
    if across:
        if nics is None or nics < len(parts.ports):
            yield from _missing_nics(parts, nics)
        yield from _without_gdr(parts)
    yield from _missing_links(parts)
    yield from _lost_places(parts)
    for part in _PARTS:
        if part == _PARTS[1]:
            yield from _some_links(parts)
        if across:
            yield from _slow_slots("nic-slot", parts.nics, part)
            yield from _slow_ports(parts, part)
        if across or not any(parts.links.values()):
            yield from _slow_slots("gpu-slot", parts.gpus, part)
            yield from _slow_slots("switch-slot", parts.switches, part)
    if across:
        yield from _far_nics(parts)
    settings = ["NCCL_P2P_DISABLE=1"]
    if across:
        settings += ["NCCL_CROSS_NIC=0", "NCCL_CROSS_NIC=1", "NCCL_PXN_DISABLE=1"]
    for setting in settings:
        name, _, value = setting.partition("=")
        yield Damage("setting", (setting,), _unchanged, settings={name: value})


def _unchanged(_root: Element) -> None:
    pass


# --- NICs


def without_nics(names: Sequence[str]) -> Damage:
    """NICs that NCCL does not see."""

    def edit(root: Element) -> None:
        for net in list(root.each("net")):
            if net.get("name") in names and net.parent is not None:
                net.parent.children.remove(net)

    return Damage("nic-missing", tuple(names), edit)


def _missing_nics(parts: Parts, seen: int | None) -> Iterator[Damage]:
    """A NIC that is missing, or all but as many as channels use."""
    names = list(parts.ports)
    if len(names) > 1 and seen in (None, len(names) - 1):
        for slot in parts.nics:
            yield without_nics(slot.name.split("/"))
    if seen is None or not 0 < seen < len(names) - 1:
        return
    subsets: Iterator[tuple[str, ...]] = combinations(names, seen)
    if comb(len(names), seen) > _MOST_SUBSETS:
        # the NICs of a half, or every other one
        step = len(names) // seen
        subsets = iter((tuple(names[:seen]), tuple(names[-seen:]), tuple(names[::step][:seen])))
    for subset in subsets:
        missing = [name for name in names if name not in subset]
        damage = without_nics(missing)
        if len(missing) > len(subset):
            damage = damage._replace(kind="nics-few", names=subset)
        yield damage


def _without_gdr(parts: Parts) -> Iterator[Damage]:
    """GPUDirect RDMA off: everywhere, then at each NIC and GPU."""
    system = parts.before.system
    if not any(net.has_gdr for net in system.nets) or not any(gpu.has_gdr for gpu in system.gpus):
        return

    def off(names: Sequence[str], tag: str) -> Edit:
        def edit(root: Element) -> None:
            for element in root.each(tag):
                called = element.get("name") if tag == "net" else element.get("rank")
                if not names or called in names:
                    element.attributes["gdr"] = "0"

        return edit

    yield Damage("gdr", (), off((), "net"), all=True)
    if len(parts.ports) > 1:
        for slot in parts.nics:
            yield Damage("gdr-nic", (slot.name,), off(slot.name.split("/"), "net"))
    if len(parts.gpus) > 1:
        for slot in parts.gpus:
            yield Damage("gdr-gpu", (slot.name,), off(slot.name.split("/"), "gpu"))


def slower_port(names: Sequence[str], MBps: int, was: int, *, all: bool = False) -> Damage:
    """Ports at a lower rate."""

    def edit(root: Element) -> None:
        for net in root.each("net"):
            if net.get("name") in names:
                net.attributes["speed"] = str(MBps * 8)

    return Damage("port", tuple(names), edit, MBps, was, all=all)


def _slow_ports(parts: Parts, part: int) -> Iterator[Damage]:
    rates = set(parts.ports.values())
    if len(rates) == 1:
        rate = rates.pop()
        yield slower_port(list(parts.ports), rate // part, rate, all=True)
    if len(parts.ports) > 1:
        for slot in parts.nics:
            names = slot.name.split("/")
            rate = parts.ports.get(names[0], 0)
            yield slower_port(names, rate // part, rate)


def placed(
    kind: str, name: str, busid: str, where: Callable[[Element, Element], Element | None]
) -> Damage:
    """A slot that hangs elsewhere: ``where`` finds it, of the file's root and the slot."""

    def edit(root: Element) -> None:
        slot = _find(root, busid)
        target = where(root, slot) if slot is not None else None
        if slot is None or target is None or slot.parent is None:
            return
        slot.parent.children.remove(slot)
        slot.parent = target
        target.children.append(slot)

    return Damage(kind, (name,), edit)


def _far_nics(parts: Parts) -> Iterator[Damage]:
    """NICs behind the other socket, or on their own socket and no GPU's switch."""

    def other(root: Element, slot: Element) -> Element | None:
        own = slot.inside("cpu")
        cpus = [cpu for cpu in root.each("cpu") if cpu is not own]
        return cpus[-1] if cpus else None

    def own(_root: Element, slot: Element) -> Element | None:
        return slot.inside("cpu")

    if len(parts.before.system.cpus) > 1:
        for slot in parts.nics:
            yield placed("nic-far", slot.name, slot.busid, other)
    apart = [placed("nic-apart", slot.name, slot.busid, own) for slot in parts.nics]
    if parts.switches and apart:
        yield together(apart)._replace(names=(), all=True, together=())
        yield from apart


# --- NVLinks


def _links(slot: Element) -> int:
    total = 0
    for link in slot.each("nvlink"):
        total += number(link.get("count"))
    return total


def fewer_links(
    names: Sequence[str], busids: Sequence[str], now: int, was: int, *, all: bool = False
) -> Damage:
    """GPUs with so many NVLinks in all."""

    def edit(root: Element) -> None:
        for busid in busids:
            slot = _find(root, busid)
            left = now
            for link in list(slot.each("nvlink")) if slot is not None else ():
                kept = min(number(link.get("count")), left)
                left -= kept
                link.attributes["count"] = str(kept)
                if not kept and link.parent is not None:
                    link.parent.children.remove(link)

    return Damage("nvlinks", tuple(names), edit, now, was, all=all)


def _missing_links(parts: Parts) -> Iterator[Damage]:
    """No NVLinks at all; none, or one less, between two GPUs."""
    most = max(parts.links.values(), default=0)
    if not most:
        return
    names = [gpu.name for gpu in parts.gpus]
    busids = [gpu.busid for gpu in parts.gpus]
    yield fewer_links(names, busids, 0, most, all=True)
    for ends, was in parts.joined.items():
        yield _unlinked(parts, ends, 0, was)
    for ends, was in parts.joined.items():
        if was > 1:
            yield _unlinked(parts, ends, was - 1, was)


def _some_links(parts: Parts) -> Iterator[Damage]:
    """Fewer NVLinks between two GPUs, or to NVSwitches, of one GPU or of all: by halves first, then
    each number."""
    for ends, was in parts.joined.items():
        for count in range(was - 2, 0, -1):
            yield _unlinked(parts, ends, count, was)
    if parts.before.system.nvswitch is None:
        return
    counts = [parts.links[gpu.busid] for gpu in parts.gpus]
    names = [gpu.name for gpu in parts.gpus]
    busids = [gpu.busid for gpu in parts.gpus]
    most = max(counts, default=0)
    order = [most // 2, most * 3 // 4, most // 4, *range(most - 1, 0, -1)]
    for count in dict.fromkeys(order):
        if not 0 < count < most:
            continue
        if len(names) > 1:
            for name, busid, was in zip(names, busids, counts, strict=True):
                if was > count:
                    yield fewer_links([name], [busid], count, was)
        yield fewer_links(names, busids, count, most, all=True)


def _unlinked(parts: Parts, ends: tuple[str, str], left: int, was: int) -> Damage:
    """Two GPUs with so many NVLinks between them."""
    names = []
    for gpu in parts.gpus:
        if bus_number(gpu.busid) in map(bus_number, ends):
            names.append(gpu.name)

    def edit(root: Element) -> None:
        for busid, target in (ends, ends[::-1]):
            slot = _find(root, busid)
            for link in list(slot.each("nvlink")) if slot is not None else ():
                if bus_number(link.get("target")) != bus_number(target):
                    continue
                link.attributes["count"] = str(left)
                if not left and link.parent is not None:
                    link.parent.children.remove(link)

    return Damage("nvlink-pair", tuple(names), edit, left, was)


# --- slots and places


def slower_slots(kind: str, slots: Sequence[_Slot], part: int, *, all: bool = False) -> Damage:
    """Slots at a part of their rate."""

    def edit(root: Element) -> None:
        for slot in slots:
            element = _find(root, slot.busid)
            if element is not None:
                width = max(number(element.get("link_width")), 0) or 16
                element.attributes["link_width"] = str(max(width // part, 1))

    names = tuple(slot.name for slot in slots)
    was = slots[0].MBps
    return Damage(kind, names, edit, was // part, was, all=all)


def _slow_slots(kind: str, slots: Sequence[_Slot], part: int) -> Iterator[Damage]:
    if len(slots) > 1:
        yield slower_slots(kind, slots, part, all=True)
    for slot in slots:
        yield slower_slots(kind, [slot], part)


def _lost_places(parts: Parts) -> Iterator[Damage]:
    """What a container without /sys and a virtual machine hide: speeds, switches and sockets."""

    def unknown(root: Element) -> None:
        for slot in root.each("pci"):
            slot.attributes["link_speed"] = ""
            slot.attributes["link_width"] = ""

    def flat(root: Element) -> None:
        for cpu in root.each("cpu"):
            found = [slot for slot in cpu.each("pci") if not _is_switch(slot)]
            others = [child for child in cpu.children if child.tag != "pci"]
            cpu.children[:] = [*found, *others]
            for slot in found:
                slot.parent = cpu

    def one_cpu(root: Element) -> None:
        cpus = list(root.each("cpu"))
        for cpu in cpus[1:]:
            for child in cpu.children:
                child.parent = cpus[0]
            cpus[0].children += cpu.children
            root.children.remove(cpu)

    def flat_unknown(root: Element) -> None:
        flat(root)
        unknown(root)

    def all_lost(root: Element) -> None:
        one_cpu(root)
        flat_unknown(root)

    yield Damage("slots-unknown", (), unknown, all=True)
    yield Damage("flat", (), flat_unknown, all=True)
    yield Damage("flat", (), flat, all=True)
    if len(parts.before.system.cpus) > 1 and len(parts.before.system.hosts) == 1:
        yield Damage("flat", (), all_lost, all=True)
        yield Damage("one-cpu", (), one_cpu, all=True)


def _is_switch(slot: Element) -> bool:
    return any(child.tag == "pci" for child in slot.children)


def _find(root: Element, busid: str) -> Element | None:
    """A slot by bus id."""
    return next((slot for slot in root.each("pci") if slot.get("busid") == busid), None)
