"""Broadcom's PCI switches of two levels, which NCCL takes for one switch."""

from __future__ import annotations

from colltool.libraries.nccl.topology.system import NodeLink, PciSwitch, System

# Models of Broadcom's switches without the last 12 of their 64 bits: of an outer one that of its
# inner ones. Gen4's are of one model.
_GEN4_SWITCH = 0x1000C0101000A000
_GEN5_UPPER_SWITCH = 0x1000C03010000000
_GEN5_LOWER_SWITCH = 0x1000C03010001000
_INNER_MODELS = {_GEN4_SWITCH: _GEN4_SWITCH, _GEN5_UPPER_SWITCH: _GEN5_LOWER_SWITCH}
_LAST_BITS = 0xFFF
# A flattened switch gets this subsystem's device: it is of none of these models any more.
_FLATTENED = 0xFFFF


def flatten_switches(system: System) -> None:
    """Give the ports of Broadcom's inner switches to the outer one: they are one switch."""
    while _flatten_one(system):
        pass


def _flatten_one(system: System) -> bool:
    """Flatten the first switch that has inner ones. Returns whether there was one."""
    for switch in system.switches:
        inner_switches = _inner_switches(switch)
        for inner in inner_switches:
            _merge_into(system, switch, inner)
        if inner_switches:
            switch.model |= _FLATTENED
            return True
    return False


def _inner_switches(switch: PciSwitch) -> list[PciSwitch]:
    """The switches below one that are its inner level; none of a switch of another model."""
    inner_model = _INNER_MODELS.get(switch.model & ~_LAST_BITS)
    inner_switches = []
    for link in switch.links:
        inner = link.to
        if not isinstance(inner, PciSwitch) or inner.parent is not switch:
            continue
        if inner.model & ~_LAST_BITS == inner_model:
            inner_switches.append(inner)
    return inner_switches


def _merge_into(system: System, switch: PciSwitch, inner: PciSwitch) -> None:
    """Take an inner switch out of the system, and give what it joins to the outer one."""
    switch.links = [link for link in switch.links if link.to is not inner]
    for link in inner.links:
        if link.to is switch:
            continue
        switch.links.append(NodeLink(switch, link.to, link.kind, link.MBps))
        if link.to.parent is inner:
            link.to.parent = switch
        for back in link.to.links:
            if back.to is inner:
                back.to = switch
    system.switches.remove(inner)
