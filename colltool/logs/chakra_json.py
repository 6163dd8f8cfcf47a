"""Chakra execution traces as JSON, in the three forms that are published.

- chakra_jsonizer prints the protobuf messages one after another, the metadata first, 64-bit numbers
  as text, names in camel case;
- Chakra's feeder reads one object with a list ``workload_graph`` (mlcommons/chakra,
  src/feeder/json_node.cpp): ``Id``, ``Name``, ``NodeType``, ``data_deps``, ``runtime`` in us,
  ``is_cpu_op``, ``comm_type``, ``comm_size``;
- PyTorch's ExecutionTraceObserver writes one object with ``schema`` ("1.0.1" to
  "1.1.1-chakra.0.0.4") and a list ``nodes``: operators of the host without times. The labels of a
  collective are attributes of its ``record_param_comms`` from 1.0.3 on, before that they stand in
  its inputs. chakra_trace_link adds to it the kernels of a profile: nodes with ``cat``, ``ts`` and
  durations, below the operator that launched them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from json import JSONDecoder
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.logs.call_metadata import COMMS, count, text
from colltool.logs.chakra_format import (
    COLLECTIVES,
    MOST_NODES,
    NODE_TYPES,
    ChakraNode,
    NodeType,
    Value,
)
from colltool.logs.json_stream import Reader
from colltool.logs.json_values import listed, mapping
from colltool.logs.kernel_names import is_collective

MOST_JSON = 2**28  # bytes: JSON is read as a whole
FEEDER = "workload_graph"
NODES = "nodes"
INIT = "process_group:init"
# attributes of PyTorch's nodes that say what a call is
COLLECTIVE = "collective_name"
_NO_CALLS = ("", "init", "wait", "startcoalesced", "endcoalesced")
_GIVE_ET = "give the .et file itself, or the JSON as it was written"


class JsonTrace(NamedTuple):
    """What a file holds: metadata by name, and nodes."""

    metadata: Mapping[str, Value]
    nodes: list[ChakraNode]


def is_streamed(keys: Sequence[str]) -> bool:
    """Whether the keys of a file's first object are those of one object that lists all nodes."""
    return FEEDER in keys or (keys[:1] == ["schema"] and not {NODES, "pid"}.isdisjoint(keys))


def from_stream(stream: BufferedReader, where: str) -> JsonTrace:
    """Read one object that lists all nodes. ColltoolError, which names the node, where it is none,
    is cut off or exceeds a limit."""
    nodes = _Nodes(where)
    metadata: dict[str, Value] = {}
    reader = Reader(stream, lists=(FEEDER, NODES))
    try:
        for key, value in reader.members():
            if key in (FEEDER, NODES):
                if not reader.listed:
                    raise ValueError(f"{key} is no list")
                nodes.add(value, _feeder_node if key == FEEDER else _pytorch_node)
            elif key == "ngpus":
                metadata["world_size"] = count(value) or 0
        if reader.broken:
            raise ValueError("it ends too early, or is damaged")
    except (ValueError, RecursionError) as error:
        raise nodes.error(error) from error
    if NODES in reader.keys:
        return JsonTrace(metadata, _calls_and_kernels(nodes.found))
    return JsonTrace(metadata, nodes.found)


def from_json(content: bytes, where: str) -> JsonTrace:
    """Read what chakra_jsonizer wrote. ColltoolError as :func:`from_stream`."""
    if len(content) > MOST_JSON:
        raise ColltoolError(
            f"is larger than {MOST_JSON // 2**20} MiB of JSON", where=where, fix=_GIVE_ET
        )
    nodes = _Nodes(where)
    metadata: dict[str, Value] | None = None
    try:
        for value in _objects(content.decode("utf-8-sig")):
            if metadata is None:
                metadata = _attributes(value.get("attr"))
            else:
                nodes.add(value, _node)
    except (ValueError, RecursionError) as error:
        if metadata is None:
            raise ColltoolError(
                f"is not JSON of Chakra: {error}", where=where, fix=_GIVE_ET
            ) from error
        raise nodes.error(error) from error
    return JsonTrace(metadata or {}, nodes.found)


class _Nodes:
    """The nodes of a file as they are read."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.found: list[ChakraNode] = []

    def add(self, value: Any, read: Callable[[dict[str, Any]], ChakraNode]) -> None:
        if len(self.found) >= MOST_NODES:
            raise ColltoolError(
                f"has more than {MOST_NODES:,} nodes", where=self._where, fix="trace fewer steps"
            )
        if not isinstance(value, dict):
            raise ValueError("an object is due")
        self.found.append(read(value))

    def error(self, why: Exception) -> ColltoolError:
        """The error for the node behind those that were found."""
        return ColltoolError(
            f"node {len(self.found) + 1} is not one of Chakra's: {why}",
            where=self._where,
            fix=_GIVE_ET,
        )


def _objects(content: str) -> Iterator[dict[str, Any]]:
    """JSON objects that follow each other."""
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


def _node(value: Mapping[str, Any]) -> ChakraNode:
    """A node of protobuf's JSON; ValueError for what is none."""
    return ChakraNode(
        id=_whole(value.get("id")),
        name=text(value.get("name")),
        type=_type(value.get("type", NODE_TYPES[0])),
        ctrl_deps=_numbers(value.get("ctrlDeps", [])),
        data_deps=_numbers(value.get("dataDeps", [])),
        start_us=_whole(value.get("startTimeMicros")),
        duration_us=_whole(value.get("durationMicros")),
        attributes=_attributes(value.get("attr")),
        inputs=text(mapping(value.get("inputs")).get("values")),
    )


def _attributes(values: Any) -> dict[str, Value]:
    """Attributes by name; whole numbers may be written as text."""
    found: dict[str, Value] = {}
    for attribute in map(mapping, listed(values)):
        name = text(attribute.get("name"))
        for kind, content in attribute.items():
            if kind == "boolList":
                found[name] = _flags(mapping(content).get("values"))
            if not kind.endswith("Val") or not isinstance(content, bool | int | float | str):
                continue
            found[name] = content
            if isinstance(content, str) and ("int" in kind.lower() or "fixed" in kind):
                found[name] = int(content)
    return found


def _flags(values: Any) -> str:
    """A list of booleans as a text of 0 and 1."""
    return "".join(str(int(bool(value))) for value in listed(values))


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
    """A node of a ``workload_graph``, whose keys are of several spellings."""
    folded = {key.replace("_", "").lower(): content for key, content in value.items()}
    attributes: dict[str, Value] = {}
    for attribute in _FEEDER_ATTRIBUTES:
        content = folded.get(attribute.replace("_", ""))
        if isinstance(content, bool | int | float | str):
            attributes[attribute] = content
    collective = attributes.get("comm_type")
    if isinstance(collective, str) and collective.upper() in COLLECTIVES:
        attributes["comm_type"] = COLLECTIVES.index(collective.upper())
    if isinstance(attributes.get("is_cpu_op"), int):
        attributes["is_cpu_op"] = bool(attributes["is_cpu_op"])
    return ChakraNode(
        id=_whole(folded.get("id")),
        name=text(folded.get("name")),
        type=_type(folded.get("nodetype", folded.get("type", NODE_TYPES[0]))),
        ctrl_deps=_numbers(folded.get("ctrldeps", [])),
        data_deps=_numbers(folded.get("datadeps", [])),
        duration_us=_rounded(folded.get("runtime", folded.get("durationmicros"))),
        attributes=attributes,
    )


# --- as PyTorch's observer writes them


def _pytorch_node(value: Mapping[str, Any]) -> ChakraNode:
    """An operator of the host, or a kernel that chakra_trace_link put below it."""
    attributes: dict[str, Value] = {}
    for attribute in map(mapping, listed(value.get("attrs"))):
        content = attribute.get("value")
        if isinstance(content, bool | int | float | str):
            attributes[text(attribute.get("name"))] = content
    name = text(value.get("name"))
    kind: NodeType = "INVALID_NODE"
    if name == COMMS:
        if COLLECTIVE not in attributes:
            attributes |= _call_in_inputs(value)
        called = text(attributes.get(COLLECTIVE)).lower()
        if called not in _NO_CALLS:
            kind = "COMM_COLL_NODE"
        attributes["is_cpu_op"] = True
    elif value.get("cat") is not None:
        attributes["is_cpu_op"] = False
        if text(value.get("cat")).lower() == "kernel":
            kind = "COMP_NODE"
            if is_collective(name):
                kind = "COMM_COLL_NODE"
    elif INIT in name:
        kind = "METADATA_NODE"
    if kind == "INVALID_NODE":
        attributes = {}  # there are hundreds of thousands of operators
    lasts = value.get("dur", value.get("exclusive_dur", value.get("inclusive_dur")))
    parent = value.get("ctrl_deps", value.get("parent"))
    parents = listed(parent)
    if not isinstance(parent, list):
        parents = [parent]
    inputs = ""
    if kind == "METADATA_NODE":
        inputs = text(_values(value, "inputs"))
    return ChakraNode(
        id=_whole(value.get("id")),
        name=name,
        type=kind,
        ctrl_deps=_numbers(parents),
        start_us=_rounded(value.get("ts")),
        duration_us=_rounded(lasts),
        attributes=attributes,
        inputs=inputs,
    )


def _calls_and_kernels(nodes: list[ChakraNode]) -> list[ChakraNode]:
    """The nodes that take time: kernels, each collective with the labels of the call above it. A
    trace of the host alone gives its calls, which have no times."""
    by_id = {node.id: node for node in nodes}
    kernels: list[ChakraNode] = []
    calls: list[ChakraNode] = []
    kept: list[ChakraNode] = []
    for node in nodes:
        on_host = node.attributes.get("is_cpu_op")
        if node.type == "METADATA_NODE":
            kept.append(node)
        elif node.type == "INVALID_NODE":
            continue
        elif on_host:
            calls.append(_on_device(node, node)._replace(start_us=0, duration_us=0))
        elif node.type == "COMM_COLL_NODE":
            kernels.append(_on_device(node, _call_above(node, by_id)))
        else:
            kernels.append(node._replace(ctrl_deps=()))
    return kept + (kernels or calls)


def _call_above(node: ChakraNode, by_id: Mapping[int, ChakraNode]) -> ChakraNode:
    """The ``record_param_comms`` that launched a kernel, else the kernel itself."""
    above = node
    for _ in range(4):  # nccl:all_reduce may stand between them
        parent = next(map(by_id.get, above.ctrl_deps), None)
        if parent is None:
            break
        if parent.name == COMMS:
            return parent
        above = parent
    return node


def _on_device(node: ChakraNode, call: ChakraNode) -> ChakraNode:
    """A node with the labels of its call, as work of the GPU."""
    called = text(call.attributes.get(COLLECTIVE)).lower()
    kind: NodeType = "COMM_COLL_NODE"
    if called == "send":
        kind = "COMM_SEND_NODE"
    elif called == "recv":
        kind = "COMM_RECV_NODE"
    return node._replace(
        type=kind, ctrl_deps=(), attributes={**call.attributes, "is_cpu_op": False}
    )


def _call_in_inputs(value: Mapping[str, Any]) -> dict[str, Value]:
    """The labels of a call before schema 1.0.3, from its inputs: the tensors first, the last text
    is the collective's name, the last number the size of the group."""
    values = listed(_values(value, "inputs"))
    types = listed(mapping(value.get("inputs")).get("types", value.get("input_types")))
    if not values or len(values) != len(types):
        return {}
    found: dict[str, Value] = {}
    for content, kind in zip(values, types, strict=True):
        if kind == "String" and isinstance(content, str):
            found[COLLECTIVE] = content
        elif kind == "Int" and isinstance(content, int):
            found["pg_size"] = content
    if COLLECTIVE not in found:
        return {}
    found["dtype"] = "Byte"
    found["in_msg_nelems"] = _tensor_bytes(values[0])
    found["out_msg_nelems"] = _tensor_bytes(_values(value, "outputs"))
    return found


def _values(value: Mapping[str, Any], side: str) -> Any:
    """The values of a node's ``inputs`` or ``outputs``, which were the list itself until 1.0.2."""
    content = value.get(side)
    if isinstance(content, dict):
        return content.get("values")
    return content


def _tensor_bytes(value: Any) -> int:
    """Bytes of a tensor ``[id, storage, offset, elements, bytes of one, device]``, or of a list of
    them."""
    if not isinstance(value, list):
        return 0
    if len(value) == 6 and isinstance(value[5], str):
        return (count(value[3]) or 0) * (count(value[4]) or 0)
    return sum(map(_tensor_bytes, value))


# --- values of the type that is due


def _type(kind: Any) -> NodeType:
    """A node's type by name or number."""
    if type(kind) is int and 0 <= kind < len(NODE_TYPES):
        return NODE_TYPES[kind]
    if kind not in NODE_TYPES:
        raise ValueError("its type or dependencies")
    known: NodeType = kind
    return known


def _numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError("its type or dependencies")
    return tuple(map(_whole, value))


def _whole(value: Any) -> int:
    if value is None:
        return 0
    found = count(value)
    if found is None:
        raise ValueError("a whole number is due")
    return found


def _rounded(value: Any) -> int:
    """Whole microseconds of a time, which may have a fraction; 0 for none."""
    if not isinstance(value, float):
        return _whole(value)
    # NaN is neither
    if 0 <= value < 1e18:
        return round(value)
    return 0
