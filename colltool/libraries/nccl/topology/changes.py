"""What would change the channels: the search run again on the file with one thing changed.

Each change mends what is unlike the rest of the node: NVLinks that a GPU lacks, slots slower than
others of their kind, GPUDirect that is off, NICs on no GPU's switch, and GPUs without a NIC. An
editor (``_with_...``) changes the elements of the file and says what it changed; :func:`changes_of`
searches the changed file and tells the changes that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from colltool.base.xml_tree import Element
from colltool.libraries.nccl.topology.graphs import NodeGraphs, graphs_of_xml
from colltool.libraries.nccl.topology.kinds import LOC, PXB
from colltool.libraries.nccl.topology.rates import number, port_MBps, slot_MBps
from colltool.libraries.nccl.topology.system import NicPort, RankedGpu

# Searches of more visits than this are not run again.
MAX_VISITS = 1_000_000
# tclass of an nvlink element begins so if it leads to an NVSwitch (0x068000), or to the CPU of a Power host
# (0x068001)
_NVLINK_TO_BRIDGE = "0x068"
# link_speed of a GPU's slot, by the least compute capability that has it
_SPEEDS = ((100, "64.0 GT/s PCIe"), (90, "32.0 GT/s PCIe"), (80, "16.0 GT/s PCIe"))
_OLDEST_SPEED = "8.0 GT/s PCIe"


class NodeChange(NamedTuple):
    """A change, and what the search finds with it.

    Args:
        kind: nvlinks, gdr, slots, unknown-slots, nics, or new-nics.
        names: bus ids of the slots that are changed or moved; but of gdr the names of NICs and the bus
            ids of GPUs, and of new-nics the ranks of their GPUs.
        to: what they are changed to: of nvlinks a number of links, of gdr "1", of slots and unknown-slots
            speed and width ("32.0 GT/s PCIe x16") of the last one; empty of nics and new-nics.
        after: the graphs with it.
    """

    kind: str
    names: tuple[str, ...]
    to: str
    after: NodeGraphs


class _Edit(NamedTuple):
    """What an editor changed in a file: the fields of :class:`NodeChange` that say so."""

    kind: str
    names: tuple[str, ...]
    to: str


def changes_of(read: Callable[[], Element], name: str, before: NodeGraphs) -> Iterator[NodeChange]:
    """The changes that move a graph; none where the search is too long to be run again.

    ``read`` reads the file anew: each change edits elements of its own.
    """
    if sum(domain.visits for domain in before.domains) > MAX_VISITS:
        return
    editors = (
        _with_nvlinks,
        _with_gdr,
        _with_slots,
        _with_known_slots,
        _with_near_nics,
        _with_new_nics,
    )
    for editor in editors:
        root = read()
        edit = editor(root, before)
        if edit is None:
            continue
        after = graphs_of_xml(root, name, before.nodes, before.system.version)
        if figures(after) != figures(before):
            yield NodeChange(edit.kind, edit.names, edit.to, after)


def figures(node: NodeGraphs) -> list[tuple[object, ...]]:
    """What a change may move, a row for each graph of each domain: its name (ring, tree ...), the number of
    its channels, and their rates between GPUs and to NICs in MB/s."""
    rows: list[tuple[object, ...]] = []
    for domain in node.domains:
        for graph, result in domain.graphs.items():
            rows.append((graph, result.best.channel_count, result.inside_MBps, result.across_MBps))
    return rows


def slots_with(root: Element, inner: str) -> list[Element]:
    """The PCI slots that hold elements of a tag: ``gpu``, ``nic``, or ``pci`` of switches."""
    return [slot for slot in root.each("pci") if any(child.tag == inner for child in slot.children)]


def busid_of(element: Element | None) -> str:
    """The bus id of the slot that an element is in; empty where it is in none."""
    slot = element.inside("pci") if element is not None else None
    return "" if slot is None else slot.get("busid")


def _edit_of(kind: str, names: Sequence[str], to: str) -> _Edit | None:
    """The edit of the parts with these names; None if there are none."""
    if not names:
        return None
    return _Edit(kind, tuple(names), to)


def _rate_MBps(slot: Element) -> int:
    """MB/s of a slot as NCCL counts them."""
    return slot_MBps(slot.get("link_speed"), slot.get("link_width"))


def _with_nvlinks(root: Element, _before: NodeGraphs) -> _Edit | None:
    """Give each GPU as many links to NVSwitches as the one with the most has."""
    counts: dict[str, int] = {}
    slots = slots_with(root, "gpu")
    for slot in slots:
        links = [link for link in slot.each("nvlink") if _leads_to_bridge(link)]
        counts[slot.get("busid")] = sum(number(link.get("count")) for link in links)
    most = max(counts.values(), default=0)
    short = [slot for slot in slots if counts[slot.get("busid")] < most]
    if not short:
        return None
    # a GPU has more than another: there is one
    like = next(link for link in root.each("nvlink") if _leads_to_bridge(link))
    for slot in short:
        for gpu in slot.each("gpu"):
            missing = most - counts[slot.get("busid")]
            attributes = like.attributes | {"count": str(missing)}
            gpu.children.append(Element("nvlink", attributes, gpu.line, gpu.column, gpu))
    return _edit_of("nvlinks", [slot.get("busid") for slot in short], str(most))


def _leads_to_bridge(link: Element) -> bool:
    """Whether an ``nvlink`` element leads to NVSwitches, or to the CPU."""
    return link.get("tclass").startswith(_NVLINK_TO_BRIDGE)


def _with_gdr(root: Element, _before: NodeGraphs) -> _Edit | None:
    """Switch GPUDirect RDMA on where it is off."""
    names = []
    for tag in ("gpu", "net"):
        for element in root.each(tag):
            if number(element.get("gdr")) != 1:
                element.attributes["gdr"] = "1"
                names.append(element.get("name") or busid_of(element))
    return _edit_of("gdr", names, "1")


def _with_slots(root: Element, _before: NodeGraphs) -> _Edit | None:
    """Give the slots of GPUs the rate of the fastest of them, and those of NICs likewise. ``to`` of the edit
    is what the last slot got; the slots of GPUs and of NICs may get different rates."""
    names = []
    to = ""
    for inner in ("gpu", "nic"):
        slots = slots_with(root, inner)
        if not slots:
            continue
        best = max(slots, key=_rate_MBps)
        speed = best.get("link_speed")
        width = best.get("link_width")
        # a card that its slot holds back gets the full width, whatever the others have
        if inner == "nic" and _is_held_back(best):
            width = "16"
        for slot in slots:
            if _rate_MBps(slot) < slot_MBps(speed, width):
                slot.attributes["link_speed"] = speed
                slot.attributes["link_width"] = width
                names.append(slot.get("busid"))
                to = f"{speed} x{width}"
    return _edit_of("slots", names, to)


def _is_held_back(slot: Element) -> bool:
    """Whether a NIC's ports are faster than its slot."""
    ports = sum(port_MBps(net.get("speed")) for net in slot.each("net"))
    return ports > _rate_MBps(slot)


def _with_known_slots(root: Element, before: NodeGraphs) -> _Edit | None:
    """Give slots whose speed NCCL cannot read, as in a VM, that of the GPUs' generation; a newer speed that
    lacks but a word for NCCL keeps its number. ``to`` of the edit is what the last slot got."""
    usual_speed = _OLDEST_SPEED
    # from the oldest on, so that the newest that fits comes last
    for least_sm, speed in reversed(_SPEEDS):
        if before.system.least_sm >= least_sm:
            usual_speed = speed
    names = []
    given_speed = usual_speed
    for slot in root.each("pci"):
        text = slot.get("link_speed")
        # what NCCL cannot read counts as Gen3, 8 GT/s
        if slot_MBps(text, "16") == slot_MBps("", "16") and not text.startswith("8"):
            given_speed = usual_speed
            # newer rates NCCL reads only with the word behind them: "32.0 GT/s PCIe"
            if text.endswith("GT/s"):
                given_speed = f"{text} PCIe"
            slot.attributes["link_speed"] = given_speed
            slot.attributes["link_width"] = "16"
            names.append(slot.get("busid"))
    return _edit_of("unknown-slots", names, f"{given_speed} x16")


def _far_nets(before: NodeGraphs) -> list[NicPort]:
    """NICs that are on no GPU's switch. Types of paths are numbers, larger for farther; PXB is the farthest
    that passes PCI switches alone."""
    system = before.system
    far_nets = []
    for net in system.nets:
        if min(before.paths.get(net, gpu).kind for gpu in system.gpus) > PXB:
            far_nets.append(net)
    return far_nets


def _lonely_gpus(before: NodeGraphs) -> list[RankedGpu]:
    """GPUs without a NIC on their switch; none of a node without NICs."""
    system = before.system
    lonely = []
    for gpu in system.gpus:
        if min((before.paths.get(gpu, net).kind for net in system.nets), default=LOC) > PXB:
            lonely.append(gpu)
    return lonely


def _with_near_nics(root: Element, before: NodeGraphs) -> _Edit | None:
    """Move the NICs that are on no GPU's switch beside the GPUs that have none, one to each; those that
    the file holds in no slot stay."""
    far_nets = _far_nets(before)
    lonely = _lonely_gpus(before)
    slots = {slot.get("busid"): slot for slot in slots_with(root, "nic")}
    targets = {slot.get("busid"): slot for slot in slots_with(root, "gpu")}
    moved = []
    for net, gpu in zip(far_nets, lonely, strict=False):
        slot = slots.get(busid_of(net.element))
        beside = targets.get(gpu.name)
        if slot is None or beside is None or slot.parent is None or beside.parent is None:
            continue
        slot.parent.children.remove(slot)
        _put_beside(slot, beside)
        moved.append(slot.get("busid"))
    return _edit_of("nics", moved, "")


def _put_beside(slot: Element, beside: Element) -> None:
    """Hang a slot on the switch of another; where that is in none, on a new one with both."""
    switch = beside.parent
    if switch is None or switch.tag != "pci":
        switch = _new_switch(beside)
    slot.parent = switch
    switch.children.append(slot)


def _with_new_nics(root: Element, before: NodeGraphs) -> _Edit | None:
    """Add a NIC like the fastest beside each GPU that has none, but for as many of the first GPUs as there
    are far NICs: these are for :func:`_with_near_nics`, whether it can move them or not."""
    system = before.system
    lonely = _lonely_gpus(before)[len(_far_nets(before)) :]
    if not before.across or not lonely:
        return None
    cards = [slot for slot in slots_with(root, "nic") if any(slot.each("net"))]
    targets = {slot.get("busid"): slot for slot in slots_with(root, "gpu")}
    if not cards:
        return None
    card = max(cards, key=_fastest_MBps)
    next_dev = 1 + max(net.dev for net in system.nets)
    names: list[str] = []
    for gpu in lonely:
        beside = targets.get(gpu.name)
        if beside is None:
            continue
        slot = _copy_with_one_port(card, None)
        # bus ids, names and guids that no real part has
        slot.attributes["busid"] = f"{gpu.name}-nic"
        for net in slot.each("net"):
            dev = next_dev + len(names)
            net.attributes |= {"dev": str(dev), "name": f"new{dev}", "guid": f"0xffff{dev:04x}"}
        _put_beside(slot, beside)
        names.append(str(gpu.rank))
    return _edit_of("new-nics", names, "")


def _fastest_MBps(slot: Element) -> int:
    """The rate of the fastest port in a slot, which has one at least."""
    return max(port_MBps(net.get("speed")) for net in slot.each("net"))


def _copy_with_one_port(element: Element, parent: Element | None) -> Element:
    """An element and what is below it, of the ports (``net``) in each element the first alone: a card with
    one ``nic`` becomes one of a single port."""
    copy = Element(element.tag, dict(element.attributes), element.line, element.column, parent)
    ports = 0
    for child in element.children:
        ports += child.tag == "net"
        if child.tag != "net" or ports == 1:
            copy.children.append(_copy_with_one_port(child, copy))
    return copy


def _new_switch(slot: Element) -> Element:
    """A switch between a GPU's slot and the CPU that it is on."""
    cpu = slot.parent
    assert cpu is not None, "a slot is in a CPU"
    attributes = {
        "busid": f"{slot.get('busid')}-switch",
        "class": "0x060400",
        "link_speed": slot.get("link_speed"),
        "link_width": slot.get("link_width"),
    }
    switch = Element("pci", attributes, slot.line, slot.column, cpu, [slot])
    cpu.children[cpu.children.index(slot)] = switch
    slot.parent = switch
    return switch
