"""Execution traces of PyTorch's ExecutionTraceObserver as nodes of Chakra.

Such a file is one object with ``schema`` ("1.0.1" to "1.1.1-chakra.0.0.4") and a list ``nodes``:
operators of the host without times. The labels of a collective are attributes of its
``record_param_comms`` from 1.0.3 on, before that they stand in its inputs. chakra_trace_link adds
to it the kernels of a profile: nodes with ``cat``, ``ts`` and durations, below the operator that
launched them.

:func:`observer_node` reads one node, :func:`calls_and_kernels` makes of all of them the nodes that
take time. :mod:`colltool.logs.chakra_json` calls both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colltool.logs.call_metadata import COMMS, as_count, as_text
from colltool.logs.chakra_format import ChakraNode, NodeType, Value
from colltool.logs.chakra_values import node_ids, whole_number, whole_us
from colltool.logs.json_values import as_list, as_mapping
from colltool.logs.kernel_names import is_collective

INIT = "process_group:init"
"""Part of the name of PyTorch's node whose inputs list the process groups."""
COLLECTIVE = "collective_name"
"""The attribute of PyTorch's nodes that says which collective a call is."""
# what it says of calls that send nothing
_NO_CALLS = ("", "init", "wait", "startcoalesced", "endcoalesced")
# nodes between a kernel and its record_param_comms, such as nccl:all_reduce, that are looked through
_MOST_BETWEEN = 3


def observer_node(value: Mapping[str, Any]) -> ChakraNode:
    """An operator of the host, or a kernel that chakra_trace_link put below it; ValueError for what
    is none. Operators that are no call have the type INVALID_NODE and no attributes: there are
    hundreds of thousands of them."""
    name = as_text(value.get("name"))
    attributes = _attributes(value)
    node_type: NodeType = "INVALID_NODE"
    inputs = ""
    if name == COMMS:
        if COLLECTIVE not in attributes:
            attributes |= _call_in_inputs(value)
        if _called(attributes) not in _NO_CALLS:
            node_type = "COMM_COLL_NODE"
        attributes["is_cpu_op"] = True
    elif value.get("cat") is not None:
        if as_text(value.get("cat")).lower() == "kernel":
            node_type = "COMM_COLL_NODE" if is_collective(name) else "COMP_NODE"
        attributes["is_cpu_op"] = False
    elif INIT in name:
        node_type = "METADATA_NODE"
        inputs = as_text(_values(value, "inputs"))
    if node_type == "INVALID_NODE":
        attributes = {}
    duration = value.get("dur", value.get("exclusive_dur", value.get("inclusive_dur")))
    # an id, or a list of ids
    parents = value.get("ctrl_deps", value.get("parent"))
    if not isinstance(parents, list):
        parents = [parents]
    return ChakraNode(
        id=whole_number(value.get("id")),
        name=name,
        type=node_type,
        ctrl_deps=node_ids(parents),
        start_us=whole_us(value.get("ts")),
        duration_us=whole_us(duration),
        attributes=attributes,
        inputs=inputs,
    )


def _attributes(value: Mapping[str, Any]) -> dict[str, Value]:
    """A node's attributes by name, those with a plain value."""
    attributes: dict[str, Value] = {}
    for attribute in map(as_mapping, as_list(value.get("attrs"))):
        content = attribute.get("value")
        if isinstance(content, bool | int | float | str):
            attributes[as_text(attribute.get("name"))] = content
    return attributes


def _called(attributes: Mapping[str, Value]) -> str:
    """The name of the collective that a call's attributes tell, in lower case; empty without."""
    return as_text(attributes.get(COLLECTIVE)).lower()


def calls_and_kernels(nodes: list[ChakraNode]) -> list[ChakraNode]:
    """The nodes of a file that take time, behind those that list process groups: kernels, each
    collective with the attributes of the call above it. A trace of the host alone, without kernels,
    gives its calls, which have no times."""
    by_id = {node.id: node for node in nodes}
    kernels: list[ChakraNode] = []
    calls: list[ChakraNode] = []
    groups: list[ChakraNode] = []
    for node in nodes:
        if node.type == "METADATA_NODE":
            groups.append(node)
        elif node.type == "INVALID_NODE":
            continue
        elif node.attributes.get("is_cpu_op"):
            calls.append(_on_device(node, node)._replace(start_us=0, duration_us=0))
        elif node.type == "COMM_COLL_NODE":
            kernels.append(_on_device(node, _call_above(node, by_id)))
        else:
            kernels.append(node._replace(ctrl_deps=()))
    return groups + (kernels or calls)


def _call_above(node: ChakraNode, by_id: Mapping[int, ChakraNode]) -> ChakraNode:
    """The ``record_param_comms`` that launched a kernel, else the kernel itself."""
    above = node
    for _ in range(_MOST_BETWEEN + 1):
        parent = next(map(by_id.get, above.ctrl_deps), None)
        if parent is None:
            break
        if parent.name == COMMS:
            return parent
        above = parent
    return node


def _on_device(node: ChakraNode, call: ChakraNode) -> ChakraNode:
    """A node with the attributes of its call, as work of the GPU."""
    called = _called(call.attributes)
    node_type: NodeType = "COMM_COLL_NODE"
    if called == "send":
        node_type = "COMM_SEND_NODE"
    elif called == "recv":
        node_type = "COMM_RECV_NODE"
    return node._replace(
        type=node_type, ctrl_deps=(), attributes={**call.attributes, "is_cpu_op": False}
    )


def _call_in_inputs(value: Mapping[str, Any]) -> dict[str, Value]:
    """The attributes of a call before schema 1.0.3, from its inputs: the tensors first, the last
    text is the collective's name, the last number the size of the group. Empty without a name."""
    values = as_list(_values(value, "inputs"))
    types = as_list(as_mapping(value.get("inputs")).get("types", value.get("input_types")))
    if not values or len(values) != len(types):
        return {}
    attributes: dict[str, Value] = {}
    for content, type_name in zip(values, types, strict=True):
        if type_name == "String" and isinstance(content, str):
            attributes[COLLECTIVE] = content
        elif type_name == "Int" and isinstance(content, int):
            attributes["pg_size"] = content
    if COLLECTIVE not in attributes:
        return {}
    # the type of elements is not told: sizes are in bytes
    attributes["dtype"] = "Byte"
    attributes["in_msg_nelems"] = _tensor_bytes(values[0])
    attributes["out_msg_nelems"] = _tensor_bytes(_values(value, "outputs"))
    return attributes


def _values(value: Mapping[str, Any], side: str) -> Any:
    """The values of a node's ``inputs`` or ``outputs``, which were the list itself until 1.0.2."""
    content = value.get(side)
    if isinstance(content, dict):
        return content.get("values")
    return content


def _tensor_bytes(value: Any) -> int:
    """Bytes of a tensor, or of a list of them; 0 for what is none."""
    if not isinstance(value, list):
        return 0
    # [id, storage, offset, elements, bytes of one, device]
    if len(value) == 6 and isinstance(value[5], str):
        elements = as_count(value[3]) or 0
        element_bytes = as_count(value[4]) or 0
        return elements * element_bytes
    return sum(map(_tensor_bytes, value))
