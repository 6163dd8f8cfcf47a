"""Chakra execution traces read from bytes: :func:`decode_trace`.

Three schemas stand in files of the wild. That of today (proto3, since the end of 2023) has a
version in its metadata from 0.0.4 on, before that only attributes there, whose field is 1 instead
of 2. That of 2023 (proto2) mostly has no metadata: the first message is a node, with its parents in
field 4, attributes in field 11 and their types as numbers; ``runtime`` is an attribute. That of
2022 (eg_def.proto) has a field for each property, and times without a unit: it is refused.

No message, list or graph grows past the limits below.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from colltool.base.errors import ColltoolError, quote
from colltool.logs.chakra_format import (
    ATTRIBUTE_NAME,
    ATTRIBUTES,
    BOOL,
    BOOLS,
    COLLECTIVES,
    CTRL_DEPS,
    DATA_DEPS,
    DOUBLE,
    DURATION,
    FIXED,
    FLOAT,
    ID,
    INPUT_VALUES,
    INPUTS,
    INT32,
    INT64,
    MOST_NODES,
    NODE_NAME,
    NODE_TYPES,
    SIGNED_FIXED,
    START,
    STRING,
    TYPE,
    VERSION_FIELD,
    ZIGZAG,
    ChakraNode,
    NodeType,
    Value,
)
from colltool.logs.protobuf_wire import Malformed, decode_fields, decode_packed

MOST_MESSAGE = 2**24  # bytes of one node
MOST_ATTRIBUTES = 256  # of a node
MOST_DEPENDENCIES = 65_536  # of a node

# The collectives of 2023, by number.
_COLLECTIVES_2023 = ("ALL_REDUCE", "ALL_TO_ALL", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST")
# A node of 2023: field 4 has its parents, 5 to 10 texts of tensors, 11 its attributes.
_ATTRIBUTES_2023 = 11
# An attribute of 2023: its name, the number of its type, then a field for each type.
_TYPE_2023 = 2
_BOOL_2023 = 4
_FLOAT_2023 = 5
_WHOLE_2023 = (6, 7)
_STRING_2023 = 8
_FLAGS_2023 = (9, 12)  # involved_dim: booleans, in some files numbers

_ATTRIBUTE_START = b"\x0a"  # the key of its name, with which an attribute begins
_LENGTH_BITS = 35  # a length has at most 32 bits, which is five bytes of seven
_FIX = (
    "give a .et file of Chakra's converter, as it is or gzipped, or what chakra_jsonizer made of it"
)
_CUT_OFF = "write the trace again: this file is cut off"


class DecodedTrace(NamedTuple):
    """A file of one rank.

    Args:
        metadata: attributes by name; empty where the file has none.
        nodes: in the order of the file, read one at a time; raises as :func:`decode_trace`.
    """

    metadata: dict[str, Value]
    nodes: Iterator[ChakraNode]


def decode_trace(stream: BinaryIO, where: str) -> DecodedTrace:
    """Read a file of one rank, which ``where`` names in errors.

    Raises:
        ColltoolError: it is no such file, is cut off, or exceeds a limit.
    """
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
        # the first message is a node
        return DecodedTrace({}, _decode_nodes(stream, where, message))
    first_node = _next_message(stream, where, "node 1")
    return DecodedTrace(metadata, _decode_nodes(stream, where, first_node))


# --- messages of the file


def _next_message(stream: BinaryIO, where: str, what: str) -> bytes | None:
    """The next message, which ``what`` names in errors; None at the end of the file."""
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
    """The length before a message, a varint; None at the end of the file."""
    size = 0
    for shift in range(0, _LENGTH_BITS, 7):
        byte = stream.read(1)
        if not byte:
            if shift == 0:
                return None
            raise ColltoolError(f"ends within {what}", where=where, fix=_CUT_OFF)
        size |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return size
    raise ColltoolError("is not a Chakra trace", where=where, fix=_FIX)


def _decode_metadata(data: bytes) -> dict[str, Value] | None:
    """The attributes of a file's first message; None where that is a node."""
    attributes: list[int | bytes] = []
    for number, value in decode_fields(data):
        if isinstance(value, int):
            return None
        if value.startswith(_ATTRIBUTE_START):
            attributes.append(value)
        elif number != VERSION_FIELD:
            raise Malformed(f"its field {number} is no attribute")
    return _decode_attributes(attributes)


def _decode_nodes(stream: BinaryIO, where: str, message: bytes | None) -> Iterator[ChakraNode]:
    """The nodes of a file, one at a time, beginning with that of a ``message``."""
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


# --- nodes


def _decode_node(data: bytes) -> ChakraNode:
    """A node of today's schema or that of 2023; Malformed for one of 2022."""
    numbers: dict[int, int] = {}
    name = ""
    inputs = b""
    attributes: list[int | bytes] = []
    attributes_2023: list[int | bytes] = []
    deps: dict[int, list[int | bytes]] = {CTRL_DEPS: [], DATA_DEPS: []}
    for number, value in decode_fields(data):
        if number in deps:
            deps[number].append(value)
            _check_dependencies(len(deps[number]))
        elif isinstance(value, int):
            numbers[number] = value
        elif number == NODE_NAME:
            name = value.decode()
        elif number == INPUTS:
            inputs = value
        elif number == ATTRIBUTES:
            attributes.append(value)
        elif number == _ATTRIBUTES_2023 and value.startswith(_ATTRIBUTE_START):
            attributes_2023.append(value)
    # Today's nodes and those of 2023 have no number in a field above the duration's; those of 2022
    # have one for each property.
    if any(number > DURATION for number in numbers):
        raise Malformed("it is of eg_def.proto (2022), whose times have no unit")
    if attributes_2023:
        parents = _decode_ids(deps[CTRL_DEPS])
        return _node_of_2023(numbers, name, parents, _decode_attributes(attributes_2023))
    return ChakraNode(
        id=numbers.get(ID, 0),
        name=name,
        type=_node_type(numbers),
        ctrl_deps=_decode_ids(deps[CTRL_DEPS]),
        data_deps=_decode_ids(deps[DATA_DEPS]),
        start_us=numbers.get(START, 0),
        duration_us=numbers.get(DURATION, 0),
        attributes=_decode_attributes(attributes),
        inputs=_decode_inputs(inputs),
    )


def _node_of_2023(
    numbers: Mapping[int, int], name: str, parents: tuple[int, ...], attributes: dict[str, Value]
) -> ChakraNode:
    """A node of the schema of 2023, with today's number of its collective.

    Args:
        numbers: fields that are numbers, by the field's.
        parents: ids of the nodes that it depends on.
        attributes: by name; changed in place.
    """
    collective = attributes.get("comm_type")
    if isinstance(collective, int) and 0 <= collective < len(_COLLECTIVES_2023):
        attributes["comm_type"] = COLLECTIVES.index(_COLLECTIVES_2023[collective])
    runtime = attributes.get("runtime")  # us
    return ChakraNode(
        id=numbers.get(ID, 0),
        name=name,
        type=_node_type(numbers),
        data_deps=parents,
        duration_us=runtime if isinstance(runtime, int) and runtime > 0 else 0,
        attributes=attributes,
    )


def _node_type(numbers: Mapping[int, int]) -> NodeType:
    """A node's type by its number; left out, it is 0."""
    type_number = numbers.get(TYPE, 0)
    if type_number >= len(NODE_TYPES):
        raise Malformed(f"there is no node type {quote(type_number)}")
    return NODE_TYPES[type_number]


def _decode_ids(values: Iterable[int | bytes]) -> tuple[int, ...]:
    """Ids of nodes from the values of a repeated field: an id each, or a packed list of them."""
    ids: list[int] = []
    for value in values:
        if isinstance(value, int):
            ids.append(value)
        else:
            ids += decode_packed(value, MOST_DEPENDENCIES)
        _check_dependencies(len(ids))
    return tuple(ids)


def _check_dependencies(count: int) -> None:
    if count > MOST_DEPENDENCIES:
        raise Malformed(f"it has more than {MOST_DEPENDENCIES:,} dependencies")


def _decode_inputs(data: bytes) -> str:
    """The values of a node's inputs as text; empty without."""
    for number, value in decode_fields(data):
        if number == INPUT_VALUES and isinstance(value, bytes):
            return value.decode()
    return ""


# --- attributes


def _decode_attributes(messages: Iterable[int | bytes]) -> dict[str, Value]:
    """Attributes by name, without those whose value nothing here reads."""
    attributes: dict[str, Value] = {}
    for message in messages:
        if not isinstance(message, bytes):
            raise Malformed("an attribute that is a number")
        name, value = _decode_attribute(message)
        if value is not None:
            attributes[name] = value
        if len(attributes) > MOST_ATTRIBUTES:
            raise Malformed(f"it has more than {MOST_ATTRIBUTES} attributes")
    return attributes


def _decode_attribute(data: bytes) -> tuple[str, Value | None]:
    """The name and the value of an attribute. A list of booleans is a text of 0 and 1; None for
    bytes and other lists, which nothing here reads."""
    name: str = ""
    value: Value | None = None
    fields = decode_fields(data)
    for number, raw in fields:
        if number == ATTRIBUTE_NAME and isinstance(raw, bytes):
            name = raw.decode()
        elif number == _TYPE_2023 and isinstance(raw, int):
            # the other fields are read there
            return name, _decode_value_2023(fields)
        elif isinstance(raw, int):
            value = _decode_whole_number(number, raw)
        elif number == STRING:
            value = raw.decode()
        elif number == BOOLS:
            value = _flags_text(_decode_ids(flag for _, flag in decode_fields(raw)))
        elif number in (DOUBLE, FLOAT):
            if len(raw) not in (4, 8):
                raise Malformed("a number of another size than 4 or 8 bytes")
            (value,) = struct.unpack("<d" if len(raw) == 8 else "<f", raw)
        elif number in FIXED:
            value = int.from_bytes(raw, "little", signed=number in SIGNED_FIXED)
    return name, value


def _decode_value_2023(fields: Iterator[tuple[int, int | bytes]]) -> Value | None:
    """The value of an attribute of 2023, from the fields behind its name and type."""
    value: Value | None = None
    flags: list[int] = []
    for number, raw in fields:
        if isinstance(raw, int):
            if number == _BOOL_2023:
                value = bool(raw)
            elif number in _WHOLE_2023:
                value = _signed(raw)
            elif number in _FLAGS_2023 and len(flags) < MOST_ATTRIBUTES:
                flags.append(raw)
        elif number == _STRING_2023:
            value = raw.decode()
        elif number == _FLOAT_2023 and len(raw) == 4:
            (value,) = struct.unpack("<f", raw)
    return _flags_text(flags) if flags else value


def _flags_text(flags: Iterable[int]) -> str:
    """Booleans as a text of 0 and 1."""
    return "".join("1" if flag else "0" for flag in flags)


def _decode_whole_number(number: int, raw: int) -> bool | int:
    """The value of a varint, by the type of its field."""
    if number == BOOL:
        return bool(raw)
    if number in ZIGZAG:
        # 0, 1, 2, 3, ... stand for 0, -1, 1, -2, ...
        return raw >> 1 ^ -(raw & 1)
    if number in (INT32, INT64):
        return _signed(raw)
    return raw


def _signed(raw: int) -> int:
    """A number of 64 bits in two's complement."""
    return raw if raw < 2**63 else raw - 2**64
