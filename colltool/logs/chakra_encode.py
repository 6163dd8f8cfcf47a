"""Chakra execution traces written as bytes: :func:`encode_trace`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

from colltool.logs.chakra_format import (
    ATTRIBUTE_NAME,
    ATTRIBUTES,
    BOOL,
    CTRL_DEPS,
    DATA_DEPS,
    DOUBLE,
    DURATION,
    ID,
    INPUT_VALUES,
    INPUTS,
    INT32,
    INT64,
    METADATA_FIELD,
    NODE_NAME,
    NODE_TYPES,
    START,
    STRING,
    TYPE,
    VERSION,
    VERSION_FIELD,
    ChakraNode,
    Value,
)
from colltool.logs.protobuf_wire import (
    FIXED64_KIND,
    MOST_REMEMBERED,
    encode_key,
    encode_number,
    encode_sized,
    encode_text,
    encode_varint,
)

# Attributes whose numbers are written as int32, all others as int64: Chakra's first feeder looks at
# one kind of integer for each name.
_INT32_NAMES = ("comm_src", "comm_dst", "comm_tag", "comm_priority")


def encode_trace(nodes: Iterable[ChakraNode], metadata: Mapping[str, Value] | None = None) -> bytes:
    """The bytes of a file of one rank; ``metadata`` by name of the attribute, none by default."""
    head = encode_text(VERSION_FIELD, VERSION)
    for name, value in (metadata or {}).items():
        head += encode_sized(METADATA_FIELD, _encode_attribute(name, value))
    out = bytearray(encode_varint(len(head)) + head)
    for node in nodes:
        message = _encode_node(node)
        out += encode_varint(len(message)) + message
    return bytes(out)


def _encode_node(node: ChakraNode) -> bytes:
    """A node's message. Zeros and empty lists are left out, as protobuf does."""
    numbers = (
        (ID, node.id),
        (TYPE, NODE_TYPES.index(node.type)),
        (START, node.start_us),
        (DURATION, node.duration_us),
    )
    out = bytearray()
    for field, value in numbers:
        if value:
            out += encode_number(field, value)
    out += encode_text(NODE_NAME, node.name)
    for field, ids in ((CTRL_DEPS, node.ctrl_deps), (DATA_DEPS, node.data_deps)):
        if ids:
            out += encode_sized(field, b"".join(map(encode_varint, ids)))
    if node.inputs:
        out += encode_sized(INPUTS, encode_text(INPUT_VALUES, node.inputs))
    for name, attribute in node.attributes.items():
        out += encode_sized(ATTRIBUTES, _encode_attribute(name, attribute))
    return bytes(out)


# typed, because True and 1 are equal but written differently
@lru_cache(MOST_REMEMBERED, typed=True)
def _encode_attribute(name: str, value: Value) -> bytes:
    """An attribute's message; numbers are not negative."""
    head = encode_text(ATTRIBUTE_NAME, name)
    match value:
        case bool():
            return head + encode_number(BOOL, int(value))
        case int():
            field = INT32 if name in _INT32_NAMES else INT64
            return head + encode_number(field, value)
        case float():
            return head + encode_key(DOUBLE, FIXED64_KIND) + struct.pack("<d", value)
        case str():
            return head + encode_text(STRING, value)
