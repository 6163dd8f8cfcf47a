"""A file of InfraGraph 3, for :mod:`colltool.extras.interop.infragraph_import`: its devices,
instances, links and edges, and what the words of an edge's ends name.

Schema and the meaning of slices and schemes: infragraph 3.1.0 on PyPI, docs/openapi.yaml and
infragraph_service.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, ManyErrors, quote
from colltool.base.files import BOUNDS, read_text
from colltool.definitions.source import scan

# pairs that one edge of the file stands for, and cables between switches that all of them do
MAX_EDGES = 1_000_000
MAX_COMPONENTS = 100_000  # of one name in a device, and instances of one name
_SERIALIZE_FIX = (
    "write one: infrastructure.serialize('yaml') or ('json') in Python, of infragraph 3"
)
# xpu, xpu[3] or xpu[0:8:2]
_SLICE = re.compile(r"[^\[\]]{1,128}(?:\[(?P<slice>[-\d:]{0,32})\])?")
_RATES_Bps = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9}

Data = Mapping[str, Any]  # a mapping of the file, not checked yet
End = TypeVar("End")  # what an end of an edge names: a Node of a device, or a port of an instance


class Node(NamedTuple):
    """A component of a device: ``Node("xpu", 3)`` is xpu[3]."""

    component: str
    number: int


class _Components(NamedTuple):
    """The components of one name in a device.

    Args:
        copies: how many there are.
        choice: InfraGraph's word for their kind: cpu, xpu, nic, switch, port ...
    """

    copies: int
    choice: str


class DeviceKind(NamedTuple):
    """A device of the file.

    Args:
        name: by which instances call it.
        data: its mapping in the file.
        components: by name.
    """

    name: str
    data: Data
    components: dict[str, _Components]

    def names_of(self, choice: str) -> list[str]:
        """The names of its components of a choice, such as xpu."""
        names = []
        for name, components in self.components.items():
            if components.choice == choice and components.copies:
                names.append(name)
        return names


class _InfraGraphReader:
    """Reads values of a file; each method that returns a value raises a ColltoolError where it is not of
    the expected kind."""

    def __init__(self, file: str) -> None:
        self.file = file

    def error(self, what: str, fix: str = _SERIALIZE_FIX) -> ColltoolError:
        """Return an error about the file, for the caller to raise."""
        return ColltoolError(what, where=self.file, fix=fix)

    def too_many_edges(self) -> ColltoolError:
        """Return the error of a file with too many edges, for the caller to raise."""
        return self.error(f"more than {MAX_EDGES} edges: no machine is so large")

    def mappings(self, data: Data, key: str) -> list[Data]:
        """Return the list of mappings at a key; empty where it is not there."""
        items = data.get(key) or []
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.error(f"expected a list of mappings as {key}, got {quote(items)}")
        return items

    def word(self, data: Any, key: str) -> str:
        """Return the text at a key, which must not be empty; ``data`` may be anything."""
        text = data.get(key) if isinstance(data, dict) else None
        if not isinstance(text, str) or not text:
            raise self.error(f"expected a text as {key}, got {quote(text)}")
        return text

    def count(self, data: Data) -> int:
        """Return the whole number at the key ``count``, 0 allowed."""
        count = data.get("count")
        # True and False are whole numbers in Python, but no counts.
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_COMPONENTS:
            return count
        raise self.error(f"expected a count of at most {MAX_COMPONENTS}, got {quote(count)}")

    def by_name(self, data: Data, key: str) -> dict[str, Data]:
        """Return the mappings of a list by their names; of equal names the last."""
        return {self.word(item, "name"): item for item in self.mappings(data, key)}

    def content(self) -> Data:
        """Return the file's data: JSON, or YAML no longer than a definition may be."""
        text = read_text(self.file, "topology")
        try:
            data = json.loads(text) if text.lstrip().startswith("{") else self._yaml(text)
        except (ValueError, RecursionError) as error:
            raise self.error(f"is not JSON, or cut off: {error}") from None
        if not isinstance(data, dict) or not {"devices", "instances"} <= data.keys():
            raise self.error("has no devices and instances: not InfraGraph")
        return data

    def _yaml(self, text: str) -> Any:
        """Return the data of a text in YAML."""
        limit = BOUNDS["definition"].limit
        if len(text) > limit:
            fix = "write it as JSON: infrastructure.serialize('json')"
            raise self.error(f"is YAML of more than {limit // 2**20} MiB", fix)
        source, problems = scan(text, self.file)
        if problems:
            raise ManyErrors([problem.error for problem in problems])
        return source.data


class InfraGraph(_InfraGraphReader):
    """A file's devices, instances, links and edges, with the reader's methods for what they hold.

    Attributes:
        devices: by name.
        instances: by name, their device and how many there are.
        edges: between instances; those inside a device are in its ``data``.
        links: of these edges, by name.
    """

    def __init__(self, file: str) -> None:
        """Read devices, instances, links and edges; ColltoolError where an instance is of a device that is
        not there."""
        super().__init__(file)
        data = self.content()
        self.devices: dict[str, DeviceKind] = {}
        for item in self.mappings(data, "devices"):
            device = self._device(item)
            self.devices[device.name] = device
        self.edges = self.mappings(data, "edges")
        self.instances: dict[str, tuple[DeviceKind, int]] = {}
        for item in self.mappings(data, "instances"):
            kind = self.devices.get(self.word(item, "device"))
            if kind is None:
                raise self.error(f"no device is called {quote(item.get('device'))}")
            count = self.count(item)
            self.instances[self.word(item, "name")] = kind, count
        self.links = self.by_name(data, "links")

    def _device(self, data: Data) -> DeviceKind:
        """Read a device."""
        parts = self.mappings(data, "components")
        name = self.word(data, "name")
        components = {}
        for part in parts:
            component_name = self.word(part, "name")
            components[component_name] = _Components(self.count(part), str(part.get("choice")))
        return DeviceKind(name, data, components)

    def indices(self, text: str, count: int) -> range:
        """Return which of ``count`` indices ``nic``, ``nic[3]`` or ``nic[0:8:2]`` names, by the rules of
        Python slices: beyond the count there are none. ColltoolError for anything else in brackets."""
        match = _SLICE.fullmatch(text)
        parts: list[str] = []  # refused below
        if match:
            parts = (match["slice"] or ":").split(":")
        try:
            numbers = [int(part) if part else None for part in parts]
            if len(numbers) == 1 and numbers[0] is not None:
                return _single(numbers[0], count)
            if 2 <= len(numbers) <= 3:
                return range(count)[slice(*numbers)]
        except ValueError:
            # A number such as 1-2, or a step of 0: refused below.
            pass
        raise self.error(f"{quote(text)} is no slice of {count}")

    def components(self, device: DeviceKind, text: str) -> list[Node]:
        """The components that ``xpu[0:2]`` names: xpu[0] and xpu[1].

        ``cx7[0:2].port[0:2]``, where cx7 is itself a device of the file, names four ports, each
        given as the cx7 that it is in: cx7[0], cx7[0], cx7[1] and cx7[1].
        """
        first, *inner = text.split(".")
        name = first.partition("[")[0]
        if name not in device.components:
            raise self.error(f"{device.name} has no component {quote(name)}")
        copies = device.components[name].copies
        nodes = [Node(name, number) for number in self.indices(first, copies)]
        if not inner:
            return nodes
        inner_device = self.devices.get(name)
        if inner_device is None:
            raise self.error(f"{quote(text)}: no device is called {quote(name)}")
        named_in_each = len(self.components(inner_device, ".".join(inner)))
        repeated = []
        for node in nodes:
            repeated += [node] * named_in_each
        return repeated

    def paired(self, edge: Data, near: Sequence[End], far: Sequence[End]) -> list[tuple[End, End]]:
        """Return what an edge joins, by its scheme; nothing is joined to itself.

        ``one2one`` joins each to its counterpart, and what the longer end has beyond the shorter one to
        nothing; ``many2many`` joins each to each.
        """
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
            raise self.error(f"the scheme {quote(scheme)} is not read", fix)
        return [(a, b) for a, b in pairs if a != b]


def _single(index: int, count: int) -> range:
    """Return an index as a range: of a count of 8, 3 is ``range(3, 4)``, -1 ``range(7, 8)`` and 9 empty.
    A negative index beyond the count is not checked: -9 is ``range(-1, 0)``."""
    if index >= 0:
        return range(count)[index:][:1]
    return range(count + index, count + index + 1)


def link_Bps(link: Data) -> float | None:
    """Return the bandwidth of a link in bytes/s; None where it is missing, out of range, or in a unit that
    is no rate of bits or bytes."""
    physical = link.get("physical")
    bandwidth = physical.get("bandwidth") if isinstance(physical, dict) else None
    if not isinstance(bandwidth, dict):
        return None
    for unit, factor in _RATES_Bps.items():
        value = bandwidth.get(unit)
        if isinstance(value, int | float) and 0 < value < 1e9:
            return float(value) * factor
    return None
