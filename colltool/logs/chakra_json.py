"""Chakra execution traces as JSON, in the three forms that are published.

- chakra_jsonizer prints the protobuf messages one after another, the metadata first, 64-bit numbers
  as text, names in camel case: :func:`read_jsonizer`;
- Chakra's feeder reads one object with a list ``workload_graph`` (mlcommons/chakra,
  src/feeder/json_node.cpp): ``Id``, ``Name``, ``NodeType``, ``data_deps``, ``runtime`` in us,
  ``is_cpu_op``, ``comm_type``, ``comm_size``: :func:`read_one_object`;
- PyTorch's ExecutionTraceObserver writes one object with a list ``nodes``: also
  :func:`read_one_object`, by :mod:`colltool.logs.chakra_observer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from json import JSONDecoder
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.logs.call_metadata import as_count, as_text
from colltool.logs.chakra_format import (
    COLLECTIVES,
    MOST_NODES,
    NODE_TYPES,
    ChakraNode,
    Value,
)
from colltool.logs.chakra_observer import calls_and_kernels, observer_node
from colltool.logs.chakra_values import node_ids, node_type, whole_number, whole_us
from colltool.logs.json_stream import Reader
from colltool.logs.json_values import as_list, as_mapping

MOST_JSON = 2**28  # bytes of chakra_jsonizer's form, which is read as a whole
_FEEDER_LIST = "workload_graph"
_OBSERVER_LIST = "nodes"
_GIVE_ET = "give the .et file itself, or the JSON as it was written"


class JsonTrace(NamedTuple):
    """What a file holds: metadata by name of the attribute, and nodes in the file's order."""

    metadata: Mapping[str, Value]
    nodes: list[ChakraNode]


def is_one_object(keys: Sequence[str]) -> bool:
    """Whether a file's first object, by its first keys, is one that lists all nodes."""
    if _FEEDER_LIST in keys:
        return True
    # the observer's, in this order: schema, pid, ..., nodes
    return keys[:1] == ["schema"] and not {_OBSERVER_LIST, "pid"}.isdisjoint(keys)


def read_one_object(stream: BufferedReader, where: str) -> JsonTrace:
    """Read one object that lists all nodes, of Chakra's feeder or PyTorch's observer.

    Raises:
        ColltoolError: it is no such object, is cut off or exceeds a limit; the error names the node.
    """
    nodes = _Nodes(where)
    metadata: dict[str, Value] = {}
    reader = Reader(stream, lists=(_FEEDER_LIST, _OBSERVER_LIST))
    try:
        for key, value in reader.members():
            if key in (_FEEDER_LIST, _OBSERVER_LIST):
                if not reader.listed:
                    raise ValueError(f"{key} is no list")
                nodes.add(value, _feeder_node if key == _FEEDER_LIST else observer_node)
            elif key == "ngpus":
                metadata["world_size"] = as_count(value) or 0
        if reader.broken:
            raise ValueError("it ends too early, or is damaged")
    except (ValueError, RecursionError) as error:
        raise nodes.error(error) from error
    if _OBSERVER_LIST in reader.keys:
        return JsonTrace(metadata, calls_and_kernels(nodes.read))
    return JsonTrace(metadata, nodes.read)


def read_jsonizer(content: bytes, where: str) -> JsonTrace:
    """Read what chakra_jsonizer wrote.

    Raises:
        ColltoolError: as :func:`read_one_object`.
    """
    if len(content) > MOST_JSON:
        raise ColltoolError(
            f"is larger than {MOST_JSON // 2**20} MiB of JSON", where=where, fix=_GIVE_ET
        )
    nodes = _Nodes(where)
    metadata: dict[str, Value] | None = None
    try:
        for value in _objects(content.decode("utf-8-sig")):
            # the first object
            if metadata is None:
                metadata = _attributes(value.get("attr"))
            else:
                nodes.add(value, _jsonizer_node)
    except (ValueError, RecursionError) as error:
        if metadata is None:
            raise ColltoolError(
                f"is not JSON of Chakra: {error}", where=where, fix=_GIVE_ET
            ) from error
        raise nodes.error(error) from error
    return JsonTrace(metadata or {}, nodes.read)


class _Nodes:
    """The nodes of a file that were ``read`` so far."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.read: list[ChakraNode] = []

    def add(self, value: Any, read_node: Callable[[dict[str, Any]], ChakraNode]) -> None:
        """Read one more node from its JSON; ValueError for what is none."""
        if len(self.read) >= MOST_NODES:
            raise ColltoolError(
                f"has more than {MOST_NODES:,} nodes", where=self._where, fix="trace fewer steps"
            )
        if not isinstance(value, dict):
            raise ValueError("an object is due")
        self.read.append(read_node(value))

    def error(self, why: Exception) -> ColltoolError:
        """The error for the node behind those that were read; ``why`` says what is wrong."""
        return ColltoolError(
            f"node {len(self.read) + 1} is not one of Chakra's: {why}",
            where=self._where,
            fix=_GIVE_ET,
        )


def _objects(content: str) -> Iterator[dict[str, Any]]:
    """JSON objects that follow each other, with blanks or commas between them; ValueError for
    anything else."""
    decoder = JSONDecoder(strict=False)
    start = 0
    while start < len(content):
        if content[start].isspace() or content[start] == ",":
            start += 1
            continue
        value, start = decoder.raw_decode(content, start)
        if not isinstance(value, dict):
            raise ValueError("an object is due")
        yield value


# --- as chakra_jsonizer prints them


def _jsonizer_node(value: Mapping[str, Any]) -> ChakraNode:
    """A node of protobuf's JSON; ValueError for what is none."""
    return ChakraNode(
        id=whole_number(value.get("id")),
        name=as_text(value.get("name")),
        type=node_type(value.get("type", NODE_TYPES[0])),
        ctrl_deps=node_ids(value.get("ctrlDeps", [])),
        data_deps=node_ids(value.get("dataDeps", [])),
        start_us=whole_number(value.get("startTimeMicros")),
        duration_us=whole_number(value.get("durationMicros")),
        attributes=_attributes(value.get("attr")),
        inputs=as_text(as_mapping(value.get("inputs")).get("values")),
    )


def _attributes(values: Any) -> dict[str, Value]:
    """Attributes by name, from ``{"name": "comm_size", "int64Val": "1048576"}``: the second key is
    the type, of which whole numbers may be written as text."""
    attributes: dict[str, Value] = {}
    for attribute in map(as_mapping, as_list(values)):
        name = as_text(attribute.get("name"))
        for key, content in attribute.items():
            if key == "boolList":
                attributes[name] = _flags_text(as_mapping(content).get("values"))
            if not key.endswith("Val") or not isinstance(content, bool | int | float | str):
                continue
            attributes[name] = content
            # int64Val, uint32Val, fixed64Val
            if isinstance(content, str) and ("int" in key.lower() or "fixed" in key):
                attributes[name] = int(content)
    return attributes


def _flags_text(values: Any) -> str:
    """A list of booleans as a text of 0 and 1, as protobuf's form has it."""
    return "".join(str(int(bool(value))) for value in as_list(values))


# --- as Chakra's feeder takes them

_FEEDER_ATTRIBUTES = (
    "is_cpu_op",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "pg_name",
)


def _feeder_node(value: Mapping[str, Any]) -> ChakraNode:
    """A node of a ``workload_graph``; ValueError for what is none. Keys are of several spellings:
    ``NodeType``, ``node_type``."""
    fields = {key.replace("_", "").lower(): content for key, content in value.items()}
    attributes: dict[str, Value] = {}
    for attribute in _FEEDER_ATTRIBUTES:
        content = fields.get(attribute.replace("_", ""))
        if isinstance(content, bool | int | float | str):
            attributes[attribute] = content
    collective = attributes.get("comm_type")
    if isinstance(collective, str) and collective.upper() in COLLECTIVES:
        attributes["comm_type"] = COLLECTIVES.index(collective.upper())
    if isinstance(attributes.get("is_cpu_op"), int):
        attributes["is_cpu_op"] = bool(attributes["is_cpu_op"])
    return ChakraNode(
        id=whole_number(fields.get("id")),
        name=as_text(fields.get("name")),
        type=node_type(fields.get("nodetype", fields.get("type", NODE_TYPES[0]))),
        ctrl_deps=node_ids(fields.get("ctrldeps", [])),
        data_deps=node_ids(fields.get("datadeps", [])),
        duration_us=whole_us(fields.get("runtime", fields.get("durationmicros"))),
        attributes=attributes,
    )
