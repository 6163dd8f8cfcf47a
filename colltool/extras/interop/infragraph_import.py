"""Reads a machine from InfraGraph 3, the format that ASTRA-sim 3 takes as its network: devices of
components, their instances, and the edges between them. :func:`read_infragraph` is the entry.

:mod:`colltool.extras.interop.infragraph_file` reads the file; here its accelerators become a node,
and its switches a Clos between nodes.
"""

from __future__ import annotations

import os
import re
from math import isclose
from typing import Any, NamedTuple

from colltool.base.errors import clipped, quote
from colltool.base.files import AnyPath
from colltool.extras.interop.infragraph_file import (
    MAX_EDGES,
    Data,
    DeviceKind,
    InfraGraph,
    Node,
    link_Bps,
)
from colltool.fabric.bundled_for import bundled_for
from colltool.fabric.dumps.clos import ClosNetwork, Wiring, clos_of
from colltool.fabric.dumps.node import Link, NodeDump, Pair

TOOL = "InfraGraph"
MOST_PARTS = 18  # parallel links that the slowest edge may stand for
_BY_HAND = "describe it by hand"
_GUIDE = "colltool guide fabrics"
# In a link's name and description: "pcie_gen5", and "xgmi" or "AMD Infinity Fabric".
_NOT_SCALE_UP = re.compile(r"pci", re.IGNORECASE)
_XGMI = re.compile(r"xgmi|infinity", re.IGNORECASE)


def read_infragraph(path: AnyPath) -> tuple[NodeDump, ClosNetwork | None]:
    """A node with accelerators (components of choice ``xpu``), and the Clos between its instances,
    where edges join them.

    Raises:
        ColltoolError: not InfraGraph, a name that is not there, no node or several kinds of them,
            beyond the limits, no Clos.
    """
    graph = InfraGraph(os.fsdecode(path))
    hosts = {
        instance: kind for instance, (kind, _) in graph.instances.items() if kind.names_of("xpu")
    }
    device_names = sorted({device.name for device in hosts.values()})
    if len(device_names) != 1:
        listed = ", ".join(device_names) or "none"
        raise graph.error(
            f"expected instances of one device with components of choice xpu, found {listed}"
        )
    node = _node_dump(graph, next(iter(hosts.values())))
    host_count = sum(count for host, (_, count) in graph.instances.items() if host in hosts)
    if graph.edges or host_count > 1:
        return node, _network(graph, set(hosts))
    return node, None


class _NodeLinks:
    """What the edges of a device join to its accelerators.

    The words about a link, its name and description, tell its kind.

    Args:
        to_switch: links to switches that each accelerator has.
        at_switch: accelerators linked to each switch.
        pairs: accelerators that are linked directly; the words about their link.
        rates_Bps: of the links about which a file has these words; None where it has no rate.
        xgmi: whether any is xGMI.
    """

    def __init__(self, accelerators: int) -> None:
        self.to_switch = [0] * accelerators
        self.at_switch: dict[Node, set[int]] = {}
        self.pairs: dict[Pair, str] = {}
        self.rates_Bps: dict[str, float | None] = {}
        self.xgmi = False


def _node_dump(graph: InfraGraph, device: DeviceKind) -> NodeDump:
    """A device with accelerators as a node: its links between them and to switches."""
    xpu, *_ = device.names_of("xpu")
    accelerators = device.components[xpu].copies
    links = _node_links(graph, device, xpu)
    _check_star(graph, device, links)
    counts, one_link_Bps = _parallel_links(graph, links)
    # links of one kind: also those to switches, which are not among the pairs
    if len(links.rates_Bps) == 1:
        (one_link_Bps,) = links.rates_Bps.values()
    port_Bps = None
    if one_link_Bps is not None:
        # of a link between two, or of all links to switches
        port_Bps = one_link_Bps * max(1, *links.to_switch)
    parts = graph.by_name(device.data, "components")
    # dgx_h100, with accelerators described as "NVIDIA H100 / H200 SXM5"
    described = str(parts[xpu].get("description") or "")
    names = [clipped(device.name.replace("_", " ").upper()), clipped(described)]
    link_kind: Link = "xgmi" if links.xgmi else "nvlink"
    return NodeDump(
        file=graph.file,
        tool=TOOL,
        has_link_counts=False,  # they are inferred from rates
        accelerators=tuple(f"{xpu}[{index}]" for index in range(accelerators)),
        model=next((name for name in names if bundled_for(name)), names[0]),
        link=link_kind,
        to_switch=tuple(links.to_switch),
        pairs=counts,
        link_Bps=port_Bps,
    )


def _node_links(graph: InfraGraph, device: DeviceKind, xpu: str) -> _NodeLinks:
    """The scale-up links of the accelerators, which are the component ``xpu``; PCIe is not."""
    links = _NodeLinks(device.components[xpu].copies)
    by_name = graph.by_name(device.data, "links")
    for edge in graph.mappings(device.data, "edges"):
        link = by_name.get(graph.word(edge, "link"), {})
        words = f"{link.get('name')} {link.get('description')}"
        near = graph.components(device, graph.word(edge.get("ep1"), "component"))
        far = graph.components(device, graph.word(edge.get("ep2"), "component"))
        # All nodes of an end are of one component: the first tells which.
        joins_xpu = any(end and end[0].component == xpu for end in (near, far))
        if _NOT_SCALE_UP.search(words) or not joins_xpu:
            continue
        for a, b in graph.paired(edge, near, far):
            links.rates_Bps[words] = link_Bps(link)
            accelerator, other = (a, b) if a.component == xpu else (b, a)
            if other.component == xpu:
                links.pairs[min(a.number, b.number), max(a.number, b.number)] = words
            elif device.components[other.component].choice == "switch":
                links.to_switch[accelerator.number] += 1
                links.at_switch.setdefault(other, set()).add(accelerator.number)
        if _XGMI.search(words):
            links.xgmi = True
    return links


def _check_star(graph: InfraGraph, device: DeviceKind, links: _NodeLinks) -> None:
    """Raise ColltoolError where switches join accelerators otherwise than in a star."""
    linked = sum(map(bool, links.to_switch))  # accelerators with a link to any switch
    if not links.at_switch:
        return
    if links.pairs:
        what = "some links join accelerators directly, without a switch"
    elif all(len(ranks) < linked for ranks in links.at_switch.values()):
        what = "no switch joins all accelerators"
    else:
        return
    fix = f"{_BY_HAND} as a graph: {_GUIDE}"
    raise graph.error(f"is no star: {what} of {device.name}", fix)


def _parallel_links(graph: InfraGraph, links: _NodeLinks) -> tuple[dict[Pair, int], float | None]:
    """Number of parallel links between each two accelerators, and the rate of one link.

    InfraGraph has one edge between two. Edges of 100 and 150 GB/s are 2 and 3 links of 50 GB/s, the
    largest rate that divides both. Where a rate is missing: 1 link each, and None.
    """
    pairs = links.pairs
    rates_Bps = {words: links.rates_Bps[words] or 0.0 for words in pairs.values()}
    least_Bps = min(rates_Bps.values(), default=0.0)
    if not least_Bps:
        return dict.fromkeys(pairs, 1), None
    for parts in range(1, MOST_PARTS + 1):
        counts = {words: Bps * parts / least_Bps for words, Bps in rates_Bps.items()}
        if all(isclose(count, round(count), rel_tol=1e-6) for count in counts.values()):
            return {pair: round(counts[words]) for pair, words in pairs.items()}, least_Bps / parts
    some = ", ".join(f"{Bps / 1e9:g}" for Bps in sorted(set(rates_Bps.values()))[:3])
    what = f"its accelerators have links of {some} GB/s, which are not multiples of one link's rate"
    raise graph.error(what, f"{_BY_HAND} as a graph, with a bandwidth for each edge: {_GUIDE}")


class _End(NamedTuple):
    """What an end of an edge between instances names.

    Args:
        instance: a host or switch, such as ``leaf.3``.
        component: of it.
        number: among all that the edge names in the instance: it may name one component twice.
    """

    instance: str
    component: Node
    number: int


def _network(graph: InfraGraph, hosts: set[str]) -> ClosNetwork:
    """The Clos of all instances that are no hosts. An instance with its number is called
    ``leaf.3``."""
    ports: dict[str, int] = {}  # of each switch
    for instance, (device, count) in graph.instances.items():
        if instance not in hosts:
            port_count = sum(device.components[port].copies for port in device.names_of("port"))
            ports |= {f"{instance}.{index}": port_count for index in range(count)}
    # (switch at the other end, bytes/s) of each cable of a host
    cabled: dict[str, list[tuple[str, float]]] = {}
    cables: list[tuple[str, str, float]] = []  # (switch, switch, bytes/s)
    for edge in graph.edges:
        rate_Bps = _edge_rate_Bps(graph, edge)
        near = _ends(graph, edge.get("ep1"))
        far = _ends(graph, edge.get("ep2"))
        for near_end, far_end in graph.paired(edge, near, far):
            a = near_end.instance
            b = far_end.instance
            if a in ports and b in ports:
                cables.append((a, b, rate_Bps))
            elif a in ports:
                cabled.setdefault(b, []).append((a, rate_Bps))
            elif b in ports:
                cabled.setdefault(a, []).append((b, rate_Bps))
            else:
                what = f"is not a Clos: an edge joins {a} and {b} without a switch"
                raise graph.error(what, _BY_HAND)
        if len(cables) > MAX_EDGES:
            raise graph.too_many_edges()
    return clos_of(Wiring(file=graph.file, tool=TOOL, ports=ports, hosts=cabled, cables=cables))


def _edge_rate_Bps(graph: InfraGraph, edge: Data) -> float:
    """The rate of an edge's link; ColltoolError where it has none."""
    name = graph.word(edge, "link")
    Bps = link_Bps(graph.links.get(name, {}))
    if Bps is None:
        what = f"the link {quote(name)} has no bandwidth in bits or bytes"
        raise graph.error(what, "give it physical.bandwidth")
    return Bps


def _ends(graph: InfraGraph, end: Any) -> list[_End]:
    """All that an end of an edge names."""
    text = graph.word(end, "instance")
    name = text.partition("[")[0]
    if name not in graph.instances:
        raise graph.error(f"no instance is called {quote(name)}")
    device, count = graph.instances[name]
    nodes = graph.components(device, graph.word(end, "component"))
    indices = graph.indices(text, count)
    if len(nodes) * len(indices) > MAX_EDGES:
        raise graph.too_many_edges()
    ends = []
    for index in indices:
        instance = f"{name}.{index}"
        ends += [_End(instance, node, number) for number, node in enumerate(nodes)]
    return ends
