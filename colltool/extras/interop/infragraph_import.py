"""InfraGraph 3: devices of components, their instances, and the edges between them, which ASTRA-sim
3 takes as its network.

Schema and the meaning of slices and schemes: infragraph 3.1.0 on PyPI, docs/openapi.yaml and
infragraph_service.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import isclose
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, ManyErrors, clipped, shown
from colltool.base.files import BOUNDS, AnyPath, read_text
from colltool.definitions.source import scan
from colltool.fabric.by_device import known
from colltool.fabric.dumps.clos import ClosNetwork, Wiring, clos_of
from colltool.fabric.dumps.node import Link, NodeDump, Pair

TOOL = "InfraGraph"
MAX_EDGES = 1_000_000
MAX_COMPONENTS = 100_000
MOST_PARTS = 18
"""Parallel links that the slowest edge may stand for."""
_FIX = "write one: infrastructure.serialize('yaml') or ('json') in Python, of infragraph 3"
_SLICE = re.compile(r"([^\[\]]{1,128})(?:\[([-\d:]{0,32})\])?")
_NOT_SCALE_UP = re.compile(r"pci", re.IGNORECASE)
_RATES = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9}

Data = Mapping[str, Any]
Node = tuple[str, int]
"""A component and its index."""


class _DeviceKind(NamedTuple):
    """``components``: how many of each, and its choice: cpu, xpu, nic, switch, port ..."""

    name: str
    data: Data
    components: dict[str, tuple[int, str]]

    def of(self, choice: str) -> list[str]:
        return [name for name, (count, own) in self.components.items() if own == choice and count]


class _InfraGraph(NamedTuple):
    file: str
    devices: dict[str, _DeviceKind]
    instances: dict[str, tuple[_DeviceKind, int]]
    links: dict[str, Data]
    edges: list[Data]

    def refuse(self, what: str, fix: str = _FIX) -> ColltoolError:
        return ColltoolError(what, where=self.file, fix=fix)


def read_infragraph(path: AnyPath) -> tuple[NodeDump, ClosNetwork | None]:
    """A node with accelerators (components of choice ``xpu``), and the Clos between its instances,
    where edges join them.

    Raises:
        ColltoolError: not InfraGraph, a name that is not there, no node or several kinds of them,
            beyond the limits, no Clos.
    """
    graph = _graph(os.fsdecode(path))
    kinds = {name: device for name, (device, _) in graph.instances.items() if device.of("xpu")}
    if len({device.name for device in kinds.values()}) != 1:
        found = ", ".join(sorted({device.name for device in kinds.values()})) or "none"
        raise graph.refuse(
            f"expected instances of one device with components of choice xpu, found {found}"
        )
    node = _node(graph, next(iter(kinds.values())))
    count = sum(graph.instances[name][1] for name in kinds)
    return node, _network(graph, set(kinds)) if graph.edges or count > 1 else None


def _graph(name: str) -> _InfraGraph:
    data = _content(name)
    devices = {
        one.name: one for one in (_device(item, name) for item in _list(data, "devices", name))
    }
    graph = _InfraGraph(name, devices, {}, {}, _list(data, "edges", name))
    for one in _list(data, "instances", name):
        device = devices.get(_word(one, "device", name))
        if device is None:
            raise graph.refuse(f"no device is called {shown(one.get('device'))}")
        graph.instances[_word(one, "name", name)] = device, _count(one, name)
    graph.links.update({_word(one, "name", name): one for one in _list(data, "links", name)})
    return graph


def _content(name: str) -> Data:
    """The file's data: JSON, or YAML within the limits of a definition."""
    text = read_text(name, "topology")
    try:
        if text.lstrip().startswith("{"):
            data = json.loads(text)
        elif len(text) > (limit := BOUNDS["definition"].limit):
            fix = "write it as JSON: infrastructure.serialize('json')"
            raise ColltoolError(f"is YAML of more than {limit // 2**20} MiB", where=name, fix=fix)
        else:
            source, problems = scan(text, name)
            if problems:
                raise ManyErrors([problem.error for problem in problems])
            data = source.data
    except (ValueError, RecursionError) as error:
        raise ColltoolError(f"is not JSON, or cut off: {error}", where=name, fix=_FIX) from None
    if not isinstance(data, dict) or not {"devices", "instances"} <= data.keys():
        raise ColltoolError("has no devices and instances: not InfraGraph", where=name, fix=_FIX)
    return data


def _list(data: Data, key: str, name: str) -> list[Data]:
    found = data.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ColltoolError(
            f"expected a list of mappings as {key}, got {shown(found)}", where=name, fix=_FIX
        )
    return found


def _word(data: Any, key: str, name: str) -> str:
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, str) or not found:
        raise ColltoolError(f"expected a text as {key}, got {shown(found)}", where=name, fix=_FIX)
    return found


def _count(data: Data, name: str) -> int:
    found = data.get("count")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MAX_COMPONENTS:
        raise ColltoolError(
            f"expected a count of at most {MAX_COMPONENTS}, got {shown(found)}",
            where=name,
            fix=_FIX,
        )
    return found


def _device(data: Data, name: str) -> _DeviceKind:
    parts = _list(data, "components", name)
    return _DeviceKind(
        _word(data, "name", name),
        data,
        {_word(one, "name", name): (_count(one, name), str(one.get("choice"))) for one in parts},
    )


def _indices(graph: _InfraGraph, text: str, count: int) -> range:
    """Of ``nic``, ``nic[3]``, ``nic[0:8:2]``: as Python slices."""
    found = _SLICE.fullmatch(text)
    parts = (found[2] or ":").split(":") if found else []
    try:
        numbers = [int(part) if part else None for part in parts]
        if len(numbers) == 1 and numbers[0] is not None:
            return (
                range(count)[numbers[0] :][:1]
                if numbers[0] >= 0
                else range(count + numbers[0], count + numbers[0] + 1)
            )
        if 2 <= len(numbers) <= 3:
            return range(count)[slice(*numbers)]
    except ValueError:
        pass
    raise graph.refuse(f"{shown(text)} is no slice of {count}")


def _components(graph: _InfraGraph, device: _DeviceKind, text: str) -> list[Node]:
    """``cx7[0:2].port[0]`` of composed devices as nodes of the outermost component, one for each of
    all that is named."""
    first, *inner = text.split(".")
    name = first.partition("[")[0]
    if name not in device.components:
        raise graph.refuse(f"{device.name} has no component {shown(name)}")
    found = [(name, index) for index in _indices(graph, first, device.components[name][0])]
    if not inner:
        return found
    below = graph.devices.get(name)
    if below is None:
        raise graph.refuse(f"{shown(text)}: no device is called {shown(name)}")
    each = len(_components(graph, below, ".".join(inner)))
    return [node for node in found for _ in range(each)]


def _paired(
    graph: _InfraGraph, edge: Data, ones: list[Any], others: list[Any]
) -> Iterator[tuple[Any, Any]]:
    scheme = edge.get("scheme")
    if scheme not in ("one2one", "many2many"):
        raise graph.refuse(f"the scheme {shown(scheme)} is not read", "write one2one or many2many")
    if len(ones) * len(others) > MAX_EDGES and scheme == "many2many":
        raise graph.refuse(f"more than {MAX_EDGES} edges: no machine is so large")
    pairs = product(ones, others) if scheme == "many2many" else zip(ones, others, strict=False)
    return ((one, other) for one, other in pairs if one != other)


def _rate(link: Data) -> float | None:
    """Bytes/s of a link; None where it does not tell, or counts transfers."""
    physical = link.get("physical")
    told = physical.get("bandwidth") if isinstance(physical, dict) else None
    for unit, factor in _RATES.items():
        if (
            isinstance(told, dict)
            and isinstance(value := told.get(unit), int | float)
            and 0 < value < 1e9
        ):
            return float(value) * factor
    return None


def _node(graph: _InfraGraph, device: _DeviceKind) -> NodeDump:
    (xpu,) = device.of("xpu")[:1]
    count = device.components[xpu][0]
    links = {_word(one, "name", graph.file): one for one in _list(device.data, "links", graph.file)}
    to_switch, pairs, rates = [0] * count, dict[Pair, str](), dict[str, float | None]()
    at_switch: dict[Node, set[int]] = {}
    xgmi = False
    for edge in _list(device.data, "edges", graph.file):
        link = links.get(_word(edge, "link", graph.file), {})
        words = f"{link.get('name')} {link.get('description')}"
        ends = [
            _components(graph, device, _word(edge.get(end), "component", graph.file))
            for end in ("ep1", "ep2")
        ]
        if _NOT_SCALE_UP.search(words) or not any(
            node[0] == xpu for part in ends for node in part[:1]
        ):
            continue
        for one, other in _paired(graph, edge, *ends):
            both = [node for node in (one, other) if node[0] == xpu]
            if len(both) == 2:
                pairs[min(one[1], other[1]), max(one[1], other[1])] = words
            elif device.components[(switch := other if one[0] == xpu else one)[0]][1] == "switch":
                to_switch[both[0][1]] += 1
                at_switch.setdefault(switch, set()).add(both[0][1])
            rates[words] = _rate(link)
        xgmi |= re.search(r"xgmi|infinity", words, re.IGNORECASE) is not None
    _check_star(graph, device, at_switch, to_switch, pairs)
    counts, each_Bps = _parallel(graph, pairs, rates)
    told = next(iter(rates.values())) if len(rates) == 1 else each_Bps
    # of a link between two, or of all links to switches
    port_Bps = told and told * max(1, *to_switch)
    kind: Link = "xgmi" if xgmi else "nvlink"
    described = next(
        str(one.get("description") or "")
        for one in device.data["components"]
        if one.get("name") == xpu
    )
    # dgx_h100, of "NVIDIA H100 / H200 SXM5"
    names = [clipped(device.name.replace("_", " ").upper()), clipped(described)]
    return NodeDump(
        file=graph.file,
        tool=TOOL,
        counts_told=False,
        accelerators=tuple(f"{xpu}[{index}]" for index in range(count)),
        model=next((one for one in names if known(one)), names[0]),
        link=kind,
        to_switch=tuple(to_switch),
        pairs=counts,
        link_Bps=port_Bps,
    )


def _check_star(
    graph: _InfraGraph,
    device: _DeviceKind,
    at_switch: Mapping[Node, set[int]],
    to_switch: list[int],
    pairs: Mapping[Pair, str],
) -> None:
    """Switches make a star of the accelerators, or the file is refused."""
    linked = sum(map(bool, to_switch))
    if at_switch and (pairs or all(len(ranks) < linked for ranks in at_switch.values())):
        what = (
            "links join accelerators beside its switches"
            if pairs
            else "no switch joins all accelerators"
        )
        raise graph.refuse(
            f"is no star: {what} of {device.name}",
            "describe it by hand as a graph: colltool guide fabrics",
        )


def _parallel(
    graph: _InfraGraph, pairs: Mapping[Pair, str], rates: Mapping[str, float | None]
) -> tuple[dict[Pair, int], float | None]:
    """Links of each pair, InfraGraph having one edge between two, and the rate of one: the largest
    that divides all.

    1 each and None where a rate is not told.
    """
    told = {words: rates[words] or 0.0 for words in pairs.values()}
    least = min(told.values(), default=0.0)
    if not least:
        return dict.fromkeys(pairs, 1), None
    for parts in range(1, MOST_PARTS + 1):
        counts = {words: rate * parts / least for words, rate in told.items()}
        if all(isclose(count, round(count), rel_tol=1e-6) for count in counts.values()):
            return {pair: round(counts[words]) for pair, words in pairs.items()}, least / parts
    shown_rates = ", ".join(f"{rate / 1e9:g}" for rate in sorted(set(told.values()))[:3])
    what = f"its accelerators have links of {shown_rates} GB/s, which are not so many of one link"
    raise graph.refuse(
        what,
        "describe it by hand as a graph, with a bandwidth for each edge: colltool guide fabrics",
    )


def _network(graph: _InfraGraph, hosts: set[str]) -> ClosNetwork:
    ports = {
        f"{name}.{index}": sum(device.components[port][0] for port in device.of("port"))
        for name, (device, count) in graph.instances.items()
        if name not in hosts
        for index in range(count)
    }
    cabled: dict[str, list[tuple[str, float]]] = {}
    cables: list[tuple[str, str, float]] = []
    for edge in graph.edges:
        name = _word(edge, "link", graph.file)
        rate = _rate(graph.links.get(name, {}))
        if rate is None:
            raise graph.refuse(
                f"the link {shown(name)} has no bandwidth in bits or bytes",
                "give it physical.bandwidth",
            )
        for one, other in _paired(
            graph, edge, *(_ends(graph, edge.get(end)) for end in ("ep1", "ep2"))
        ):
            here, there = one[0], other[0]
            if here in ports and there in ports:
                cables.append((here, there, rate))
            elif here in ports or there in ports:
                host, switch = (there, here) if here in ports else (here, there)
                cabled.setdefault(host, []).append((switch, rate))
            else:
                raise graph.refuse(
                    f"is not a Clos: an edge joins {here} and {there} without a switch",
                    "describe it by hand",
                )
        if len(cables) > MAX_EDGES:
            raise graph.refuse(f"more than {MAX_EDGES} edges: no machine is so large")
    return clos_of(Wiring(file=graph.file, tool=TOOL, ports=ports, hosts=cabled, cables=cables))


def _ends(graph: _InfraGraph, end: Any) -> list[tuple[str, Node, int]]:
    """Instance, component and a number of its own for each of all that an endpoint names."""
    text = _word(end, "instance", graph.file)
    name = text.partition("[")[0]
    if name not in graph.instances:
        raise graph.refuse(f"no instance is called {shown(name)}")
    device, count = graph.instances[name]
    nodes = _components(graph, device, _word(end, "component", graph.file))
    indices = _indices(graph, text, count)
    if len(nodes) * len(indices) > MAX_EDGES:
        raise graph.refuse(f"more than {MAX_EDGES} edges: no machine is so large")
    return [(f"{name}.{index}", node, at) for index in indices for at, node in enumerate(nodes)]
