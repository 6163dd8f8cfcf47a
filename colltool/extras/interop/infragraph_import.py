"""Reads a machine from InfraGraph 3, the format that ASTRA-sim 3 takes as its network: devices of
components, their instances, and the edges between them.

Schema and the meaning of slices and schemes: infragraph 3.1.0 on PyPI, docs/openapi.yaml and
infragraph_service.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import isclose
from typing import Any, NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, ManyErrors, clipped, quote
from colltool.base.files import BOUNDS, AnyPath, read_text
from colltool.definitions.source import scan
from colltool.fabric.bundled_for import bundled_for
from colltool.fabric.dumps.clos import ClosNetwork, Wiring, clos_of
from colltool.fabric.dumps.node import Link, NodeDump, Pair

TOOL = "InfraGraph"
MAX_EDGES = 1_000_000
MAX_COMPONENTS = 100_000
MOST_PARTS = 18
"""Parallel links that the slowest edge may stand for."""
_SERIALIZE_FIX = (
    "write one: infrastructure.serialize('yaml') or ('json') in Python, of infragraph 3"
)
_BY_HAND = "describe it by hand"
_GUIDE = "colltool guide fabrics"
_SLICE = re.compile(r"[^\[\]]{1,128}(?:\[(?P<slice>[-\d:]{0,32})\])?")
_NOT_SCALE_UP = re.compile(r"pci", re.IGNORECASE)
_XGMI = re.compile(r"xgmi|infinity", re.IGNORECASE)
_RATES = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9}

Data = Mapping[str, Any]
"""A mapping of the file, not checked yet."""
End = TypeVar("End")


class Node(NamedTuple):
    """One of a device's components of a name."""

    component: str
    number: int


class _Component(NamedTuple):
    """How many components of a name a device has; ``choice``: cpu, xpu, nic, switch, port ..."""

    copies: int
    choice: str


class _DeviceKind(NamedTuple):
    """A device of the file, with its components by name."""

    name: str
    data: Data
    components: dict[str, _Component]

    def of(self, choice: str) -> list[str]:
        """The components of a choice that the device has."""
        found = []
        for name, component in self.components.items():
            if component.choice == choice and component.copies:
                found.append(name)
        return found


class _InfraGraphReader:
    """Values of a file; each method raises a ColltoolError where one is not of the expected kind."""

    def __init__(self, file: str) -> None:
        self.file = file

    def refuse(self, what: str, fix: str = _SERIALIZE_FIX) -> ColltoolError:
        return ColltoolError(what, where=self.file, fix=fix)

    def too_many_edges(self) -> ColltoolError:
        return self.refuse(f"more than {MAX_EDGES} edges: no machine is so large")

    def mappings(self, data: Data, key: str) -> list[Data]:
        found = data.get(key) or []
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise self.refuse(f"expected a list of mappings as {key}, got {quote(found)}")
        return found

    def word(self, data: Any, key: str) -> str:
        found = data.get(key) if isinstance(data, dict) else None
        if not isinstance(found, str) or not found:
            raise self.refuse(f"expected a text as {key}, got {quote(found)}")
        return found

    def count(self, data: Data) -> int:
        found = data.get("count")
        # True and False are whole numbers in Python, but no counts.
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_COMPONENTS:
            return found
        raise self.refuse(f"expected a count of at most {MAX_COMPONENTS}, got {quote(found)}")

    def by_name(self, data: Data, key: str) -> dict[str, Data]:
        return {self.word(item, "name"): item for item in self.mappings(data, key)}

    def content(self) -> Data:
        """The file's data: JSON, or YAML within the limits of a definition."""
        text = read_text(self.file, "topology")
        try:
            data = json.loads(text) if text.lstrip().startswith("{") else self._yaml(text)
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"is not JSON, or cut off: {error}") from None
        if not isinstance(data, dict) or not {"devices", "instances"} <= data.keys():
            raise self.refuse("has no devices and instances: not InfraGraph")
        return data

    def _yaml(self, text: str) -> Any:
        limit = BOUNDS["definition"].limit
        if len(text) > limit:
            fix = "write it as JSON: infrastructure.serialize('json')"
            raise self.refuse(f"is YAML of more than {limit // 2**20} MiB", fix)
        source, problems = scan(text, self.file)
        if problems:
            raise ManyErrors([problem.error for problem in problems])
        return source.data


class _InfraGraph(_InfraGraphReader):
    """A file's devices, instances, links and edges."""

    def __init__(self, file: str) -> None:
        """Read devices, instances, links and edges; ColltoolError where a name is not there."""
        super().__init__(file)
        data = self.content()
        self.devices: dict[str, _DeviceKind] = {}
        for item in self.mappings(data, "devices"):
            device = self._device(item)
            self.devices[device.name] = device
        self.edges = self.mappings(data, "edges")
        self.instances: dict[str, tuple[_DeviceKind, int]] = {}
        for item in self.mappings(data, "instances"):
            kind = self.devices.get(self.word(item, "device"))
            if kind is None:
                raise self.refuse(f"no device is called {quote(item.get('device'))}")
            count = self.count(item)
            self.instances[self.word(item, "name")] = kind, count
        self.links = self.by_name(data, "links")

    def _device(self, data: Data) -> _DeviceKind:
        parts = self.mappings(data, "components")
        name = self.word(data, "name")
        components = {}
        for part in parts:
            component_name = self.word(part, "name")
            components[component_name] = _Component(self.count(part), str(part.get("choice")))
        return _DeviceKind(name, data, components)

    def indices(self, text: str, count: int) -> range:
        """The indices that ``nic``, ``nic[3]`` or ``nic[0:8:2]`` names, by the rules of Python
        slices."""
        found = _SLICE.fullmatch(text)
        parts = (found["slice"] or ":").split(":") if found else []
        try:
            numbers = [int(part) if part else None for part in parts]
            if len(numbers) == 1 and numbers[0] is not None:
                return _single(numbers[0], count)
            if 2 <= len(numbers) <= 3:
                return range(count)[slice(*numbers)]
        except ValueError:
            # A number such as 1-2, or a step of 0: refused below.
            pass
        raise self.refuse(f"{quote(text)} is no slice of {count}")

    def components(self, device: _DeviceKind, text: str) -> list[Node]:
        """``cx7[0:2].port[0]`` of composed devices as nodes of the outermost component, one for
        each of all that is named."""
        first, *inner = text.split(".")
        name = first.partition("[")[0]
        if name not in device.components:
            raise self.refuse(f"{device.name} has no component {quote(name)}")
        nodes = [Node(name, at) for at in self.indices(first, device.components[name].copies)]
        if not inner:
            return nodes
        below = self.devices.get(name)
        if below is None:
            raise self.refuse(f"{quote(text)}: no device is called {quote(name)}")
        each = len(self.components(below, ".".join(inner)))
        repeated = []
        for node in nodes:
            repeated += [node] * each
        return repeated

    def paired(self, edge: Data, near: Sequence[End], far: Sequence[End]) -> list[tuple[End, End]]:
        """What an edge joins, by its scheme; nothing is joined to itself."""
        pairs: Iterable[tuple[End, End]]
        scheme = edge.get("scheme")
        if scheme == "one2one":
            pairs = zip(near, far, strict=False)
        elif scheme == "many2many":
            if len(near) * len(far) > MAX_EDGES:
                raise self.too_many_edges()
            pairs = product(near, far)
        else:
            fix = "write one2one or many2many"
            raise self.refuse(f"the scheme {quote(scheme)} is not read", fix)
        return [(a, b) for a, b in pairs if a != b]


def _single(index: int, count: int) -> range:
    if index >= 0:
        return range(count)[index:][:1]
    return range(count + index, count + index + 1)


def _rate_Bps(link: Data) -> float | None:
    """Bandwidth of a link; None if it is missing, or counts transfers."""
    physical = link.get("physical")
    bandwidth = physical.get("bandwidth") if isinstance(physical, dict) else None
    if not isinstance(bandwidth, dict):
        return None
    for unit, factor in _RATES.items():
        value = bandwidth.get(unit)
        if isinstance(value, int | float) and 0 < value < 1e9:
            return float(value) * factor
    return None


def read_infragraph(path: AnyPath) -> tuple[NodeDump, ClosNetwork | None]:
    """A node with accelerators (components of choice ``xpu``), and the Clos between its instances,
    where edges join them.

    Raises:
        ColltoolError: not InfraGraph, a name that is not there, no node or several kinds of them,
            beyond the limits, no Clos.
    """
    graph = _InfraGraph(os.fsdecode(path))
    hosts = {instance: kind for instance, (kind, _) in graph.instances.items() if kind.of("xpu")}
    devices = sorted({device.name for device in hosts.values()})
    if len(devices) != 1:
        found = ", ".join(devices) or "none"
        raise graph.refuse(
            f"expected instances of one device with components of choice xpu, found {found}"
        )
    node = _node(graph, next(iter(hosts.values())))
    count = sum(count for host, (_, count) in graph.instances.items() if host in hosts)
    if graph.edges or count > 1:
        return node, _network(graph, set(hosts))
    return node, None


class _NodeLinks:
    """What the edges of a device join to its accelerators: how many links each accelerator has to
    switches, which accelerators are at each switch, and which are linked directly."""

    def __init__(self, accelerators: int) -> None:
        self.to_switch = [0] * accelerators
        self.at_switch: dict[Node, set[int]] = {}
        # The words about a link tell its kind: they are its key in ``rates``.
        self.pairs: dict[Pair, str] = {}
        self.rates: dict[str, float | None] = {}
        self.xgmi = False


def _node(graph: _InfraGraph, device: _DeviceKind) -> NodeDump:
    """A device with accelerators as a node: its links between them and to switches."""
    xpu, *_ = device.of("xpu")
    count = device.components[xpu].copies
    links = _node_links(graph, device, xpu)
    _check_star(graph, device, links)
    counts, each_Bps = _parallel(graph, links)
    if len(links.rates) == 1:
        (each_Bps,) = links.rates.values()
    port_Bps = None
    if each_Bps is not None:
        # of a link between two, or of all links to switches
        port_Bps = each_Bps * max(1, *links.to_switch)
    parts = graph.by_name(device.data, "components")
    # dgx_h100, with accelerators described as "NVIDIA H100 / H200 SXM5"
    described = str(parts[xpu].get("description") or "")
    names = [clipped(device.name.replace("_", " ").upper()), clipped(described)]
    kind: Link = "xgmi" if links.xgmi else "nvlink"
    return NodeDump(
        file=graph.file,
        tool=TOOL,
        has_link_counts=False,
        accelerators=tuple(f"{xpu}[{index}]" for index in range(count)),
        model=next((name for name in names if bundled_for(name)), names[0]),
        link=kind,
        to_switch=tuple(links.to_switch),
        pairs=counts,
        link_Bps=port_Bps,
    )


def _node_links(graph: _InfraGraph, device: _DeviceKind, xpu: str) -> _NodeLinks:
    """The scale-up links of the accelerators, which are the component ``xpu``; PCIe is not."""
    found = _NodeLinks(device.components[xpu].copies)
    links = graph.by_name(device.data, "links")
    for edge in graph.mappings(device.data, "edges"):
        link = links.get(graph.word(edge, "link"), {})
        words = f"{link.get('name')} {link.get('description')}"
        near = graph.components(device, graph.word(edge.get("ep1"), "component"))
        far = graph.components(device, graph.word(edge.get("ep2"), "component"))
        # All nodes of an end are of one component: the first tells which.
        joins_xpu = any(end and end[0].component == xpu for end in (near, far))
        if _NOT_SCALE_UP.search(words) or not joins_xpu:
            continue
        for a, b in graph.paired(edge, near, far):
            found.rates[words] = _rate_Bps(link)
            accelerator, other = (a, b) if a.component == xpu else (b, a)
            if other.component == xpu:
                found.pairs[min(a.number, b.number), max(a.number, b.number)] = words
            elif device.components[other.component].choice == "switch":
                found.to_switch[accelerator.number] += 1
                found.at_switch.setdefault(other, set()).add(accelerator.number)
        if _XGMI.search(words):
            found.xgmi = True
    return found


def _check_star(graph: _InfraGraph, device: _DeviceKind, links: _NodeLinks) -> None:
    """Switches make a star of the accelerators, or the file is refused."""
    linked = sum(map(bool, links.to_switch))
    if not links.at_switch:
        return
    if links.pairs:
        what = "some links join accelerators directly, without a switch"
    elif all(len(ranks) < linked for ranks in links.at_switch.values()):
        what = "no switch joins all accelerators"
    else:
        return
    fix = f"{_BY_HAND} as a graph: {_GUIDE}"
    raise graph.refuse(f"is no star: {what} of {device.name}", fix)


def _parallel(graph: _InfraGraph, links: _NodeLinks) -> tuple[dict[Pair, int], float | None]:
    """Number of links of each pair, as InfraGraph has one edge between two, and the rate of one:
    the largest that divides all.

    1 each and None where a rate is missing.
    """
    pairs = links.pairs
    rates = {words: links.rates[words] or 0.0 for words in pairs.values()}
    least = min(rates.values(), default=0.0)
    if not least:
        return dict.fromkeys(pairs, 1), None
    for parts in range(1, MOST_PARTS + 1):
        counts = {words: rate * parts / least for words, rate in rates.items()}
        if all(isclose(count, round(count), rel_tol=1e-6) for count in counts.values()):
            return {pair: round(counts[words]) for pair, words in pairs.items()}, least / parts
    some = ", ".join(f"{rate / 1e9:g}" for rate in sorted(set(rates.values()))[:3])
    what = f"its accelerators have links of {some} GB/s, which are not multiples of one link's rate"
    raise graph.refuse(what, f"{_BY_HAND} as a graph, with a bandwidth for each edge: {_GUIDE}")


def _network(graph: _InfraGraph, hosts: set[str]) -> ClosNetwork:
    """The Clos of all instances that are no hosts."""
    ports: dict[str, int] = {}
    for instance, (device, count) in graph.instances.items():
        if instance not in hosts:
            port_count = sum(device.components[port].copies for port in device.of("port"))
            ports |= {f"{instance}.{index}": port_count for index in range(count)}
    cabled: dict[str, list[tuple[str, float]]] = {}
    cables: list[tuple[str, str, float]] = []
    for edge in graph.edges:
        rate = _edge_rate_Bps(graph, edge)
        near = _ends(graph, edge.get("ep1"))
        far = _ends(graph, edge.get("ep2"))
        for (near_node, *_), (far_node, *_) in graph.paired(edge, near, far):
            if near_node in ports and far_node in ports:
                cables.append((near_node, far_node, rate))
            elif near_node in ports:
                cabled.setdefault(far_node, []).append((near_node, rate))
            elif far_node in ports:
                cabled.setdefault(near_node, []).append((far_node, rate))
            else:
                what = f"is not a Clos: an edge joins {near_node} and {far_node} without a switch"
                raise graph.refuse(what, _BY_HAND)
        if len(cables) > MAX_EDGES:
            raise graph.too_many_edges()
    return clos_of(Wiring(file=graph.file, tool=TOOL, ports=ports, hosts=cabled, cables=cables))


def _edge_rate_Bps(graph: _InfraGraph, edge: Data) -> float:
    name = graph.word(edge, "link")
    rate = _rate_Bps(graph.links.get(name, {}))
    if rate is None:
        what = f"the link {quote(name)} has no bandwidth in bits or bytes"
        raise graph.refuse(what, "give it physical.bandwidth")
    return rate


def _ends(graph: _InfraGraph, end: Any) -> list[tuple[str, Node, int]]:
    """Instance, component and a number of its own for each of all that an endpoint names."""
    text = graph.word(end, "instance")
    name = text.partition("[")[0]
    if name not in graph.instances:
        raise graph.refuse(f"no instance is called {quote(name)}")
    device, count = graph.instances[name]
    nodes = graph.components(device, graph.word(end, "component"))
    indices = graph.indices(text, count)
    if len(nodes) * len(indices) > MAX_EDGES:
        raise graph.too_many_edges()
    found = []
    for index in indices:
        found += [(f"{name}.{index}", node, number) for number, node in enumerate(nodes)]
    return found
