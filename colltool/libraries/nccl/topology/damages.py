"""What may ail a node: its topology file with one thing made worse, as a log's run may have had it.

A :class:`Damage` is a name for the change, what it leaves of a part, and the edit that makes it in a
file's elements. :func:`damages_of` yields the likeliest first, from the :class:`Parts` of the healthy
node; the functions that make a single damage are there for callers who know what is missing.

Elements are those of NCCL's topology file: ``pci`` slots, which hold a ``gpu``, a ``nic`` with a ``net``
for each of its ports, or as a switch further slots; ``nvlink`` in a GPU's slot; all below their ``cpu``. A
missing attribute reads as "".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import NamedTuple

from colltool.base.xml_tree import Element
from colltool.libraries.nccl.topology.changes import slots_with
from colltool.libraries.nccl.topology.graphs import NodeGraphs
from colltool.libraries.nccl.topology.rates import number, port_MBps, slot_MBps
from colltool.libraries.nccl.topology.system_reader import NVLINK_TO_GPU

Edit = Callable[[Element], None]
# a slot's or a port's rate is divided by one of these, the likeliest first
_DIVISORS = (2, 4, 8)
# Up to so many ways to choose the NICs that NCCL sees are all tried, of more only three.
_MOST_SUBSETS = 60


class Damage(NamedTuple):
    """A change for the worse.

    Args:
        kind: one of these, or "" of no damage.

            - nic-missing, nics-few: NICs that NCCL does not see; nics-few names those that it does.
            - gdr, gdr-nic, gdr-gpu: no GPUDirect RDMA at all, at a NIC, at a GPU.
            - nvlinks, nvlink-pair: fewer NVLinks of GPUs in all, between two GPUs.
            - gpu-slot, nic-slot, switch-slot: fewer PCIe lanes. port: a NIC's port at a lower rate.
            - nic-far, nic-apart: a NIC behind another CPU, or on no GPU's switch.
            - slots-unknown, flat, one-cpu: speeds, switches or sockets that NCCL is not shown.
            - setting: an environment variable.
        names: what is damaged: GPUs by rank, NICs by name, switches by bus id, or a setting; of nics-few
            the NICs that are left; empty where it is the whole node.
        edit: makes the change in a file's elements, in place.
        now, was: how many links, or MB/s, there are with it and without; 0 where nothing is counted.
        settings: NCCL's settings with it, by variable.
        all: all parts of the kind are damaged.
        together: the damages, where several are there at once; the other fields but ``edit`` and
            ``settings`` are then those of the first.
    """

    kind: str
    names: tuple[str, ...]
    edit: Edit
    now: int = 0
    was: int = 0
    settings: Mapping[str, str] = MappingProxyType({})
    all: bool = False
    together: tuple[Damage, ...] = ()


def _unchanged(_root: Element) -> None:
    pass


WHOLE = Damage("", (), _unchanged)
"""No damage at all."""


def together(damages: Sequence[Damage]) -> Damage:
    """Several damages at once, made in this order; one alone comes back as it is. Never of none."""
    if len(damages) == 1:
        return damages[0]

    def edit(root: Element) -> None:
        for damage in damages:
            damage.edit(root)

    settings: dict[str, str] = {}
    for damage in damages:
        settings |= damage.settings
    return damages[0]._replace(edit=edit, settings=settings, together=tuple(damages))


class PartSlot(NamedTuple):
    """A slot of a node.

    Args:
        names: ranks of the GPUs in it, names of the NIC's ports, or the switch's bus id.
        busid: of the slot.
        above: the bus id of the switch above; empty below a CPU.
    """

    names: tuple[str, ...]
    busid: str
    MBps: int
    above: str

    @property
    def name(self) -> str:
        return "/".join(self.names)


class Parts:
    """The parts of a healthy node, as damages name them.

    Args:
        root: the topology file.
        before: what NCCL finds on the node as it is.

    Attributes:
        gpus, nics, switches: their slots, in the order of the file; NICs only with ports that NCCL uses.
        gpu_names, gpu_busids: of ``gpus``.
        ports: rate of each NIC's port in MB/s, by name.
        links: NVLinks of each GPU in all, by bus id.
        joined: NVLinks between two GPUs, by their bus ids in order; none where they lead to NVSwitches.
    """

    def __init__(self, root: Element, before: NodeGraphs) -> None:
        self.root = root
        self.before = before
        self.gpus: list[PartSlot] = []
        self.nics: list[PartSlot] = []
        self.switches: list[PartSlot] = []
        self.ports: dict[str, int] = {}
        self.links: dict[str, int] = {}
        self.joined: dict[tuple[str, str], int] = {}
        for slot in slots_with(root, "gpu"):
            self.gpus.append(_slot(slot, "gpu", "rank"))
            self._count_links(slot)
        self.gpu_names = [gpu.name for gpu in self.gpus]
        self.gpu_busids = [gpu.busid for gpu in self.gpus]
        known = {net.name for net in before.system.nets}
        for slot in slots_with(root, "nic"):
            card = _slot(slot, "net", "name")
            if known.intersection(card.names):
                self.nics.append(card)
        for slot in slots_with(root, "pci"):
            switch = _slot(slot, "pci", "busid")
            self.switches.append(switch._replace(names=(switch.busid,)))
        for net in _ports_or_gpus(root, "net", tuple(known)):
            self.ports[net.get("name")] = port_MBps(net.get("speed"))

    def _count_links(self, slot: Element) -> None:
        """Add a GPU's NVLinks to ``links``, and to ``joined`` those that lead to another GPU."""
        busid = slot.get("busid")
        self.links[busid] = 0
        for link in slot.each("nvlink"):
            count = number(link.get("count"))
            self.links[busid] += count
            if link.get("tclass").startswith(NVLINK_TO_GPU):
                one_end, other_end = sorted((busid, link.get("target")))
                self.joined[one_end, other_end] = count

    def related(self, names: Sequence[str]) -> set[str]:
        """The names themselves, and of each PCI switch that one of them is or hangs on all that hangs on
        it, with its bus id."""
        related = set(names)
        for switch_and_slots in self._by_switch().values():
            if switch_and_slots & related:
                related |= switch_and_slots
        return related

    def _by_switch(self) -> dict[str, set[str]]:
        """Each switch's bus id, with it and the names of the slots below it."""
        by_switch: dict[str, set[str]] = {}
        for slot in (*self.gpus, *self.nics):
            if slot.above:
                by_switch.setdefault(slot.above, {slot.above}).add(slot.name)
        return by_switch


def _slot(element: Element, tag: str, key: str) -> PartSlot:
    """Read a slot; its names are the attributes ``key`` of all elements of a tag in it."""
    names = tuple(inside.get(key) for inside in element.each(tag))
    MBps = slot_MBps(element.get("link_speed"), element.get("link_width"))
    above = element.parent.get("busid") if element.parent else ""
    return PartSlot(names, element.get("busid"), MBps, above)


def damages_of(parts: Parts, nics: int | None) -> Iterator[Damage]:
    """The damages that a node may have, the likeliest first.

    ``nics``: how many NCCL's channels use; None if that is not known. Where they use all, none is
    missing. Slots of GPUs and switches count only where traffic takes them: to NICs, or without NVLink.
    """
    across = parts.before.across
    if across:
        if nics is None or nics < len(parts.ports):
            yield from _missing_nics(parts, nics)
        yield from _without_gdr(parts)
    yield from _missing_links(parts)
    for divisor in _DIVISORS:
        # likelier than a quarter of a rate, less likely than a half
        if divisor == 4:
            yield from _hidden_parts(parts)
            yield from _some_links(parts)
        if across:
            yield from _slow_slots("nic-slot", parts.nics, divisor)
            yield from _slow_ports(parts, divisor)
        if across or not any(parts.links.values()):
            yield from _slow_slots("gpu-slot", parts.gpus, divisor)
            yield from _slow_slots("switch-slot", parts.switches, divisor)
    if across:
        yield from _far_nics(parts)
    settings = ["NCCL_P2P_DISABLE=1"]
    if across:
        settings += ["NCCL_CROSS_NIC=0", "NCCL_CROSS_NIC=1", "NCCL_PXN_DISABLE=1"]
    for setting in settings:
        name, _, value = setting.partition("=")
        yield WHOLE._replace(kind="setting", names=(setting,), settings={name: value})


# --- NICs


def without_nics(names: Sequence[str]) -> Damage:
    """NICs that NCCL does not see."""

    def edit(root: Element) -> None:
        for net in _ports_or_gpus(root, "net", names):
            _remove(net)

    return Damage("nic-missing", tuple(names), edit)


def _missing_nics(parts: Parts, nics_in_use: int | None) -> Iterator[Damage]:
    """One NIC missing, then all but as many ports as channels use, in the likely choices."""
    names = list(parts.ports)
    if len(names) > 1:
        for slot in parts.nics:
            yield without_nics(slot.names)
    # of all but one in use the single NICs above are all there is
    if nics_in_use is None or not 0 < nics_in_use < len(names) - 1:
        return
    subsets: Iterable[Sequence[str]] = combinations(names, nics_in_use)
    if comb(len(names), nics_in_use) > _MOST_SUBSETS:
        # the first, the last, or every second, third ...
        step = len(names) // nics_in_use
        subsets = (names[:nics_in_use], names[-nics_in_use:], names[::step][:nics_in_use])
    for in_use in subsets:
        missing = [name for name in names if name not in in_use]
        damage = without_nics(missing)
        # fewer names to read: those that are left
        if len(missing) > len(in_use):
            damage = damage._replace(kind="nics-few", names=tuple(in_use))
        yield damage


def _without_gdr(parts: Parts) -> Iterator[Damage]:
    """GPUDirect RDMA off: everywhere, then at each NIC and at each GPU; none where no pair has it."""
    system = parts.before.system
    if not any(net.has_gdr for net in system.nets):
        return
    if not any(gpu.has_gdr for gpu in system.gpus):
        return
    ports = tuple(parts.ports)
    yield Damage("gdr", (), _gdr_off("net", ports), all=True)
    if len(ports) > 1:
        for slot in parts.nics:
            yield Damage("gdr-nic", (slot.name,), _gdr_off("net", slot.names))
    if len(parts.gpus) > 1:
        for slot in parts.gpus:
            yield Damage("gdr-gpu", (slot.name,), _gdr_off("gpu", slot.names))


def _gdr_off(tag: str, names: Sequence[str]) -> Edit:
    """The edit that switches GPUDirect off at NICs (``net``) or GPUs (``gpu``)."""

    def edit(root: Element) -> None:
        for element in _ports_or_gpus(root, tag, names):
            element.attributes["gdr"] = "0"

    return edit


def slower_port(names: Sequence[str], MBps: int, was: int, *, all: bool = False) -> Damage:
    """NICs' ports, by name, at a rate of ``MBps`` after one of ``was``."""

    def edit(root: Element) -> None:
        for net in _ports_or_gpus(root, "net", names):
            net.attributes["speed"] = str(MBps * 8)  # Mb/s

    return Damage("port", tuple(names), edit, now=MBps, was=was, all=all)


def _slow_ports(parts: Parts, divisor: int) -> Iterator[Damage]:
    """All ports at a part of their rate, if they have the same, then the ports of each NIC."""
    rates = set(parts.ports.values())
    if len(rates) == 1:
        rate = rates.pop()
        yield slower_port(list(parts.ports), rate // divisor, rate, all=True)
    if len(parts.ports) > 1:
        for slot in parts.nics:
            rate = parts.ports.get(slot.names[0], 0)
            yield slower_port(slot.names, rate // divisor, rate)


def placed(
    kind: str, name: str, busid: str, where: Callable[[Element, Element], Element | None]
) -> Damage:
    """A slot that hangs elsewhere in the file.

    ``where(root, slot)`` returns the element to hang it on; None leaves it in its place.
    """

    def edit(root: Element) -> None:
        for slot in _slots_at(root, [busid]):
            target = where(root, slot)
            if target is not None:
                _remove(slot)
                slot.parent = target
                target.children.append(slot)

    return Damage(kind, (name,), edit)


def _far_nics(parts: Parts) -> Iterator[Damage]:
    """Each NIC behind another CPU; then all, and each, below their own CPU and no PCI switch."""

    def other_cpu(root: Element, slot: Element) -> Element | None:
        cpu_of_slot = slot.inside("cpu")
        cpus = [cpu for cpu in root.each("cpu") if cpu is not cpu_of_slot]
        return cpus[-1] if cpus else None

    def own_cpu(_root: Element, slot: Element) -> Element | None:
        return slot.inside("cpu")

    if len(parts.before.system.cpus) > 1:
        for slot in parts.nics:
            yield placed("nic-far", slot.name, slot.busid, other_cpu)
    off_switches = [placed("nic-apart", slot.name, slot.busid, own_cpu) for slot in parts.nics]
    if parts.switches and off_switches:
        # one damage of the whole node, not several
        yield together(off_switches)._replace(names=(), all=True, together=())
        yield from off_switches


# --- NVLinks


def fewer_links(
    names: Sequence[str], busids: Sequence[str], now: int, was: int, *, all: bool = False
) -> Damage:
    """GPUs, by rank and bus id, that keep the first ``now`` of their ``was`` NVLinks."""

    def edit(root: Element) -> None:
        for slot in _slots_at(root, busids):
            to_keep = now
            for link in list(slot.each("nvlink")):
                count = min(number(link.get("count")), to_keep)
                to_keep -= count
                _set_count(link, count)

    return Damage("nvlinks", tuple(names), edit, now=now, was=was, all=all)


def _missing_links(parts: Parts) -> Iterator[Damage]:
    """No NVLinks at all; then between each two GPUs none, and one less."""
    most = max(parts.links.values(), default=0)
    if not most:
        return
    yield fewer_links(parts.gpu_names, parts.gpu_busids, 0, most, all=True)
    for ends, was in parts.joined.items():
        yield _fewer_between(parts, ends, 0, was)
    for ends, was in parts.joined.items():
        if was > 1:
            yield _fewer_between(parts, ends, was - 1, was)


def _some_links(parts: Parts) -> Iterator[Damage]:
    """Fewer NVLinks than :func:`_missing_links` has: between two GPUs by two and more, and to
    NVSwitches, of each GPU and of all, each number from 1 to one less."""
    for ends, was in parts.joined.items():
        for count in range(was - 2, 0, -1):
            yield _fewer_between(parts, ends, count, was)
    if parts.before.system.nvswitch is None:
        return
    names = parts.gpu_names
    busids = parts.gpu_busids
    counts = [parts.links[busid] for busid in busids]
    most = max(counts, default=0)
    # halves and quarters are likelier
    order = [most // 2, most * 3 // 4, most // 4, *range(most - 1, 0, -1)]
    for count in dict.fromkeys(order):
        if not 0 < count < most:
            continue
        if len(names) > 1:
            for name, busid, was in zip(names, busids, counts, strict=True):
                if was > count:
                    yield fewer_links([name], [busid], count, was)
        yield fewer_links(names, busids, count, most, all=True)


def _fewer_between(parts: Parts, ends: tuple[str, str], now: int, was: int) -> Damage:
    """Two GPUs, by bus id, with ``now`` NVLinks between them."""
    names = []
    for gpu in parts.gpus:
        if gpu.busid in ends:
            names.append(gpu.name)

    def edit(root: Element) -> None:
        for slot in _slots_at(root, ends):
            for link in list(slot.each("nvlink")):
                if link.get("target") in ends:
                    _set_count(link, now)

    return Damage("nvlink-pair", tuple(names), edit, now, was)


# --- slots and places


def slower_slots(
    kind: str, slots: Sequence[PartSlot], divisor: int, *, all: bool = False
) -> Damage:
    """Slots with one in ``divisor`` of their lanes. Of several slots, ``was`` and ``now`` are the rates of
    the first."""

    def edit(root: Element) -> None:
        for element in _slots_at(root, [slot.busid for slot in slots]):
            # an unknown width counts as 16 lanes
            width = max(number(element.get("link_width")), 0) or 16
            element.attributes["link_width"] = str(max(width // divisor, 1))

    names = tuple(slot.name for slot in slots)
    was = slots[0].MBps
    return Damage(kind, names, edit, was // divisor, was, all=all)


def _slow_slots(kind: str, slots: Sequence[PartSlot], divisor: int) -> Iterator[Damage]:
    """All slots with a part of their lanes, then each of them."""
    if len(slots) > 1:
        yield slower_slots(kind, slots, divisor, all=True)
    for slot in slots:
        yield slower_slots(kind, [slot], divisor)


def _hidden_parts(parts: Parts) -> Iterator[Damage]:
    """What a container without /sys and a virtual machine hide: speeds, then switches too, then
    switches alone, then sockets.

    Sockets count as hidden on a node of one host only, whose CPUs may be taken for one.
    """

    def unknown(root: Element) -> None:
        for slot in root.each("pci"):
            slot.attributes["link_speed"] = ""
            slot.attributes["link_width"] = ""

    def flat(root: Element) -> None:
        # every card directly below its CPU, before what else is there
        for cpu in root.each("cpu"):
            cards = [slot for slot in cpu.each("pci") if not _is_switch(slot)]
            others = [child for child in cpu.children if child.tag != "pci"]
            cpu.children[:] = [*cards, *others]
            for slot in cards:
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
    """Whether other slots hang on a slot."""
    return any(child.tag == "pci" for child in slot.children)


# --- elements


def _slots_at(root: Element, busids: Sequence[str]) -> Iterator[Element]:
    """The slots with these bus ids, in the order of the file; from a list, so that they may be moved."""
    for slot in list(root.each("pci")):
        if slot.get("busid") in busids:
            yield slot


def _ports_or_gpus(root: Element, tag: str, names: Sequence[str]) -> Iterator[Element]:
    """NICs' ports with these names (``net``), or GPUs with these ranks (``gpu``); from a list, so that they
    may be removed."""
    key = "rank" if tag == "gpu" else "name"
    for element in list(root.each(tag)):
        if element.get(key) in names:
            yield element


def _remove(element: Element) -> None:
    """Take an element out of its parent; a root stays."""
    if element.parent is not None:
        element.parent.children.remove(element)


def _set_count(link: Element, count: int) -> None:
    """Set how many NVLinks an element stands for; at 0 it is removed."""
    link.attributes["count"] = str(count)
    if not count:
        _remove(link)
