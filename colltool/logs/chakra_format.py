"""Chakra execution traces, to and from bytes: a stream of protobuf messages, each behind its
length, the metadata first.

Field numbers are those of mlcommons/chakra, schema/protobuf/et_def.proto; the wire format is that
of protobuf's encoding guide. It is read by hand because every length here is bounded before
anything is made of it: no message, list or graph grows past the limits below. :func:`encoded` and
:func:`decoded` are the entries; below each stand its parts, named ``_encode`` and ``_decode``.

Three schemas stand in files of the wild. That of today (proto3, since the end of 2023) has a
version in its metadata from 0.0.4 on, before that only attributes there, whose field is 1 instead
of 2. That of 2023 (proto2) mostly has no metadata: the first message is a node, with its parents in
field 4, attributes in field 11 and their types as numbers; ``runtime`` is an attribute. That of
2022 (eg_def.proto) has a field for each property, and times without a unit: it is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import BinaryIO, Literal, NamedTuple, get_args

from colltool.base.errors import ColltoolError, quote

PROCESS_GROUPS = "process_groups"  # the key of the metadata that lists the groups of ranks
VERSION = "0.0.4"  # of the metadata, as Chakra's own generator writes it
MOST_MESSAGE = 2**24  # bytes of one node
MOST_NODES = 1_000_000  # of a file: about 1 GB in memory
MOST_ATTRIBUTES = 256  # of a node
MOST_DEPENDENCIES = 65_536  # of a node

NodeType = Literal[
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
]
NODE_TYPES: tuple[NodeType, ...] = get_args(NodeType)
COLLECTIVES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
# The collectives of 2023, by number.
_COLLECTIVES_2023 = ("ALL_REDUCE", "ALL_TO_ALL", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST")
# Kinds of a field on the wire.
_VARINT_KIND = 0
_FIXED64_KIND = 1
_BYTES_KIND = 2
_FIXED32_KIND = 5
# Fields of a node; in 2023 field 4 has its parents, 5 to 10 texts of tensors, 11 its attributes.
_ID = 1
_NODE_NAME = 2
_TYPE = 3
_CTRL_DEPS = 4
_DATA_DEPS = 5
_START = 6
_DURATION = 7
_INPUTS = 8
_ATTRIBUTES = 10
_ATTRIBUTES_2023 = 11
# Fields of an attribute: its name, then one for each type of its value.
_ATTRIBUTE_NAME = 1
_DOUBLE = 3
_FLOAT = 5
_INT32 = 7
_INT64 = 9
_SINT = (15, 17)
_FIXED = {19: False, 21: False, 23: True, 25: True}  # whether it has a sign
_BOOL = 27
_BOOLS = 28
_STRING = 29
# The same in 2023: the type, then a field for each.
_TYPE_2023 = 2
_BOOL_2023 = 4
_FLOAT_2023 = 5
_WHOLE_2023 = (6, 7)
_STRING_2023 = 8
_FLAGS_2023 = (9, 12)  # involved_dim: booleans, in some files numbers
_ATTRIBUTE_START = b"\x0a"  # the key of its name, with which an attribute begins
# Names whose numbers are written as int32, all others as int64: Chakra's first feeder looks at one
# kind of integer for each name.
_INT32_NAMES = ("comm_src", "comm_dst", "comm_tag", "comm_priority")
_KEPT = 2**16  # encoded values that are remembered, as most attributes repeat
_FIX = (
    "give a .et file of Chakra's converter, as it is or gzipped, or what chakra_jsonizer made of it"
)
_CUT_OFF = "write the trace again: this file is cut off"

Value = bool | int | float | str


class ChakraNode(NamedTuple):
    """A node of a trace; times in whole microseconds, as the format has them."""

    id: int
    name: str
    type: NodeType
    ctrl_deps: tuple[int, ...] = ()  # name the caller, which ends after what it calls
    data_deps: tuple[int, ...] = ()  # the order, as Chakra's feeder takes it
    start_us: int = 0
    duration_us: int = 0
    attributes: Mapping[str, Value] = MappingProxyType({})
    inputs: str = ""  # the values of its inputs as text


class Malformed(Exception):
    """Bytes that are not such a message."""


def encoded(nodes: Iterable[ChakraNode], metadata: Mapping[str, Value] | None = None) -> bytes:
    """The bytes of a file of one rank."""
    head = _encode_text(1, VERSION)
    for attribute, value in (metadata or {}).items():
        head += _encode_sized(2, _encode_attribute(attribute, value))
    out = bytearray(_encode_varint(len(head)) + head)
    for node in nodes:
        message = _encode_node(node)
        out += _encode_varint(len(message)) + message
    return bytes(out)


# The nodes of a trace repeat each other: bytes of what was written before are kept.
@lru_cache(_KEPT)
def _encode_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last with the highest bit: 300 is AC 02."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache
def _encode_key(number: int, kind: int) -> bytes:
    return _encode_varint(number << 3 | kind)


def _encode_number(number: int, value: int) -> bytes:
    return _encode_key(number, _VARINT_KIND) + _encode_varint(value)


def _encode_sized(number: int, content: bytes) -> bytes:
    return _encode_key(number, _BYTES_KIND) + _encode_varint(len(content)) + content


@lru_cache(_KEPT)
def _encode_text(number: int, text: str) -> bytes:
    return _encode_sized(number, text.encode())


# Typed, because True and 1 are equal but written differently.
@lru_cache(_KEPT, typed=True)
def _encode_attribute(name: str, value: Value) -> bytes:
    head = _encode_text(_ATTRIBUTE_NAME, name)
    match value:
        case bool():
            return head + _encode_number(_BOOL, int(value))
        case int():
            kind = _INT32 if name in _INT32_NAMES else _INT64
            return head + _encode_number(kind, value)
        case float():
            return head + _encode_key(_DOUBLE, _FIXED64_KIND) + struct.pack("<d", value)
        case str():
            return head + _encode_text(_STRING, value)


def _encode_node(node: ChakraNode) -> bytes:
    """A node as protobuf writes it."""
    numbers = (
        (_ID, node.id),
        (_TYPE, NODE_TYPES.index(node.type)),
        (_START, node.start_us),
        (_DURATION, node.duration_us),
    )
    out = bytearray()
    # Zeros and empty lists are left out, as protobuf does.
    for number, value in numbers:
        if value:
            out += _encode_number(number, value)
    out += _encode_text(_NODE_NAME, node.name)
    for number, ids in ((_CTRL_DEPS, node.ctrl_deps), (_DATA_DEPS, node.data_deps)):
        if ids:
            out += _encode_sized(number, b"".join(map(_encode_varint, ids)))
    if node.inputs:
        out += _encode_sized(_INPUTS, _encode_text(1, node.inputs))
    for name, attribute in node.attributes.items():
        out += _encode_sized(_ATTRIBUTES, _encode_attribute(name, attribute))
    return bytes(out)


class Decoded(NamedTuple):
    """A file of one rank; its nodes are read one at a time, with the same errors."""

    metadata: dict[str, Value]
    nodes: Iterator[ChakraNode]


def decoded(stream: BinaryIO, where: str) -> Decoded:
    """Read a file of one rank. ColltoolError where it is no such file, is cut off, or exceeds a
    limit."""
    message = _next_message(stream, where, "its metadata")
    if message is None:
        raise ColltoolError("is empty, not a Chakra trace", where=where, fix=_FIX)
    try:
        metadata = _decode_metadata(message)
    except (Malformed, UnicodeDecodeError) as error:
        raise ColltoolError(
            f"is not a Chakra trace: its metadata: {error}", where=where, fix=_FIX
        ) from error
    if metadata is None:
        return Decoded({}, _decode_nodes(stream, where, message))
    return Decoded(metadata, _decode_nodes(stream, where, _next_message(stream, where, "node 1")))


def _decode_metadata(data: bytes) -> dict[str, Value] | None:
    """The attributes of a file's first message; None where that is a node."""
    attributes: list[int | bytes] = []
    for number, value in _decode_fields(data):
        if isinstance(value, int):
            return None
        if value.startswith(_ATTRIBUTE_START):
            attributes.append(value)
        elif number != 1:
            raise Malformed(f"its field {number} is no attribute")
    return _decode_attributes(attributes)


def _decode_nodes(stream: BinaryIO, where: str, message: bytes | None) -> Iterator[ChakraNode]:
    """The nodes of a file, one at a time, beginning with a ``message``."""
    number = 0
    while message is not None:
        number += 1
        if number > MOST_NODES:
            raise ColltoolError(
                f"has more than {MOST_NODES:,} nodes", where=where, fix="trace fewer steps"
            )
        try:
            yield _decode_node(message)
        except (Malformed, UnicodeDecodeError) as error:
            raise ColltoolError(
                f"node {number} is not one of Chakra's: {error}", where=where, fix=_FIX
            ) from error
        message = _next_message(stream, where, f"node {number + 1}")


def _next_message(stream: BinaryIO, where: str, what: str) -> bytes | None:
    """The next message; None at the end."""
    size = _message_size(stream, where, what)
    if size is None:
        return None
    if size > MOST_MESSAGE:
        raise ColltoolError(
            f"{what} has {size:,} bytes, more than {MOST_MESSAGE:,}", where=where, fix=_FIX
        )
    content = stream.read(size)
    if len(content) < size:
        raise ColltoolError(f"ends within {what}", where=where, fix=_CUT_OFF)
    return content


def _message_size(stream: BinaryIO, where: str, what: str) -> int | None:
    """The length before a message; None at the end of the file."""
    size = 0
    for shift in range(0, 35, 7):
        byte = stream.read(1)
        if not byte:
            if shift == 0:
                return None
            raise ColltoolError(f"ends within {what}", where=where, fix=_CUT_OFF)
        size |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return size
    # A length has at most 32 bits, which is five bytes.
    raise ColltoolError("is not a Chakra trace", where=where, fix=_FIX)


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint, as :func:`_encode_varint` writes it, and where it ends."""
    value = 0
    for length in range(10):
        if at + length >= len(data):
            raise Malformed("a number is cut off")
        byte = data[at + length]
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return value & (2**64 - 1), at + length + 1
    raise Malformed("a number has more than 64 bits")


def _decode_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields: whole numbers of varints, the bytes as they stand
    of all others, also of those of fixed size."""
    at = 0
    while at < len(data):
        key, at = _decode_varint(data, at)
        kind = key & 7
        if kind == _VARINT_KIND:
            value, at = _decode_varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES_KIND:
            size, at = _decode_varint(data, at)
        elif kind in (_FIXED64_KIND, _FIXED32_KIND):
            size = 8 if kind == _FIXED64_KIND else 4
        else:
            raise Malformed(f"a field of kind {kind}")
        if at + size > len(data):
            raise Malformed("a field is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _decode_node(data: bytes) -> ChakraNode:
    """A node by the field numbers of Chakra's et_def.proto."""
    numbers: dict[int, int] = {}
    name = ""
    inputs = b""
    attributes: list[int | bytes] = []
    attributes_2023: list[int | bytes] = []
    deps: dict[int, list[int | bytes]] = {_CTRL_DEPS: [], _DATA_DEPS: []}
    for number, value in _decode_fields(data):
        if number in deps:
            deps[number].append(value)
            if len(deps[number]) > MOST_DEPENDENCIES:
                raise Malformed(f"it has more than {MOST_DEPENDENCIES:,} dependencies")
        elif isinstance(value, int):
            numbers[number] = value
        elif number == _NODE_NAME:
            name = value.decode()
        elif number == _INPUTS:
            inputs = value
        elif number == _ATTRIBUTES:
            attributes.append(value)
        elif number == _ATTRIBUTES_2023 and value.startswith(_ATTRIBUTE_START):
            attributes_2023.append(value)
    # Today's nodes and those of 2023 have no number in a field above the duration's; those of 2022
    # have one for each property.
    if any(number > _DURATION for number in numbers):
        raise Malformed("it is of eg_def.proto (2022), whose times have no unit")
    if attributes_2023:
        return _decode_node_2023(
            numbers, name, _decode_ids(deps[_CTRL_DEPS]), _decode_attributes(attributes_2023)
        )
    return ChakraNode(
        id=numbers.get(_ID, 0),
        name=name,
        type=_node_type(numbers),
        ctrl_deps=_decode_ids(deps[_CTRL_DEPS]),
        data_deps=_decode_ids(deps[_DATA_DEPS]),
        start_us=numbers.get(_START, 0),
        duration_us=numbers.get(_DURATION, 0),
        attributes=_decode_attributes(attributes),
        inputs=_decode_first_text(inputs),
    )


def _decode_node_2023(
    numbers: Mapping[int, int], name: str, parents: tuple[int, ...], attributes: dict[str, Value]
) -> ChakraNode:
    """A node of the schema of 2023, with today's number of its collective."""
    collective = attributes.get("comm_type")
    if isinstance(collective, int) and 0 <= collective < len(_COLLECTIVES_2023):
        attributes["comm_type"] = COLLECTIVES.index(_COLLECTIVES_2023[collective])
    runtime = attributes.get("runtime")
    return ChakraNode(
        id=numbers.get(_ID, 0),
        name=name,
        type=_node_type(numbers),
        data_deps=parents,
        duration_us=runtime if isinstance(runtime, int) and runtime > 0 else 0,
        attributes=attributes,
    )


def _node_type(numbers: Mapping[int, int]) -> NodeType:
    kind = numbers.get(_TYPE, 0)
    if kind >= len(NODE_TYPES):
        raise Malformed(f"there is no node type {quote(kind)}")
    return NODE_TYPES[kind]


def _decode_ids(fields: Iterable[int | bytes]) -> tuple[int, ...]:
    """Numbers of nodes, one a field or packed."""
    found: list[int] = []
    for field in fields:
        if isinstance(field, int):
            found.append(field)
        else:
            found += _decode_packed(field)
        if len(found) > MOST_DEPENDENCIES:
            raise Malformed(f"it has more than {MOST_DEPENDENCIES:,} dependencies")
    return tuple(found)


def _decode_first_text(data: bytes) -> str:
    """The first field of a message, if it is a text."""
    for number, value in _decode_fields(data):
        if number == 1 and isinstance(value, bytes):
            return value.decode()
    return ""


def _decode_attributes(fields: Iterable[int | bytes]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for field in fields:
        if not isinstance(field, bytes):
            raise Malformed("an attribute that is a number")
        name, value = _decode_attribute(field)
        if value is not None:
            found[name] = value
        if len(found) > MOST_ATTRIBUTES:
            raise Malformed(f"it has more than {MOST_ATTRIBUTES} attributes")
    return found


def _decode_packed(data: bytes) -> list[int]:
    """A list of varints, read up to just past the limit."""
    found: list[int] = []
    at = 0
    while at < len(data) and len(found) <= MOST_DEPENDENCIES:
        value, at = _decode_varint(data, at)
        found.append(value)
    return found


def _decode_attribute(data: bytes) -> tuple[str, Value | None]:
    """The name and the value of an attribute. A list of booleans is a text of 0 and 1; None for
    bytes and other lists, which nothing here reads."""
    name: str = ""
    value: Value | None = None
    fields = _decode_fields(data)
    for number, raw in fields:
        if number == _ATTRIBUTE_NAME and isinstance(raw, bytes):
            name = raw.decode()
        elif number == _TYPE_2023 and isinstance(raw, int):
            # The rest of the fields is read there.
            return name, _decode_value_2023(fields)
        elif isinstance(raw, int):
            value = _decode_whole_number(number, raw)
        elif number == _STRING:
            value = raw.decode()
        elif number == _BOOLS:
            value = _flags_text(_decode_ids(flag for _, flag in _decode_fields(raw)))
        elif number in (_DOUBLE, _FLOAT):
            if len(raw) not in (4, 8):
                raise Malformed("a number of another size than 4 or 8 bytes")
            (value,) = struct.unpack("<d" if len(raw) == 8 else "<f", raw)
        elif number in _FIXED:
            value = int.from_bytes(raw, "little", signed=_FIXED[number])
    return name, value


def _decode_value_2023(fields: Iterator[tuple[int, int | bytes]]) -> Value | None:
    """The value of an attribute of 2023, behind its name and type."""
    value: Value | None = None
    flags: list[int] = []
    for number, raw in fields:
        if isinstance(raw, int):
            if number == _BOOL_2023:
                value = bool(raw)
            elif number in _WHOLE_2023:
                value = raw if raw < 2**63 else raw - 2**64
            elif number in _FLAGS_2023 and len(flags) < MOST_ATTRIBUTES:
                flags.append(raw)
        elif number == _STRING_2023:
            value = raw.decode()
        elif number == _FLOAT_2023 and len(raw) == 4:
            (value,) = struct.unpack("<f", raw)
    return _flags_text(flags) if flags else value


def _flags_text(values: Iterable[int]) -> str:
    return "".join("1" if value else "0" for value in values)


def _decode_whole_number(number: int, raw: int) -> bool | int:
    """The value of a varint, by the type of its field."""
    if number == _BOOL:
        return bool(raw)
    if number in _SINT:
        # Zigzag: 0, -1, 1, -2, ...
        return raw >> 1 ^ -(raw & 1)
    if number in (_INT32, _INT64) and raw >= 2**63:
        return raw - 2**64
    return raw
