"""Chakra's messages by the protobuf library, of the fields of et_def.proto that are used: what our
bytes are held against."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32  # type: ignore[import-untyped]

_KINDS = {
    "string": 9,
    "uint64": 4,
    "double": 1,
    "float": 2,
    "int32": 5,
    "int64": 3,
    "uint32": 13,
    "sint32": 17,
    "sint64": 18,
    "bool": 8,
}
_NODE_TYPES = [
    "INVALID",
    "METADATA",
    "MEM_LOAD",
    "MEM_STORE",
    "COMP",
    "COMM_SEND",
    "COMM_RECV",
    "COMM_COLL",
]
_ATTRIBUTE = {
    "name": (1, "string"),
    "doc_string": (2, "string"),
    "double_val": (3, "double"),
    "float_val": (5, "float"),
    "int32_val": (7, "int32"),
    "int64_val": (9, "int64"),
    "uint32_val": (11, "uint32"),
    "uint64_val": (13, "uint64"),
    "sint32_val": (15, "sint32"),
    "sint64_val": (17, "sint64"),
    "bool_val": (27, "bool"),
    "string_val": (29, "string"),
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="et_def.proto", package="ChakraProtoMsg", syntax="proto3"
    )
    kinds = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_NODE_TYPES):
        kinds.value.add(name=f"{name}_NODE", number=number)

    def message(name: str, fields: dict[str, tuple[int, str]], oneof: str = "") -> None:
        made = file.message_type.add(name=name)
        if oneof:
            made.oneof_decl.add(name=oneof)
        for key, (number, kind) in fields.items():
            repeated = kind.startswith("repeated ")
            kind = kind.removeprefix("repeated ")
            field = made.field.add(name=key, number=number, label=3 if repeated else 1)
            if kind in _KINDS:
                field.type = _KINDS[kind]
            else:
                field.type, field.type_name = (
                    (14 if kind == "NodeType" else 11),
                    f".ChakraProtoMsg.{kind}",
                )
            if oneof and key.endswith("_val"):
                field.oneof_index = 0

    message("AttributeProto", _ATTRIBUTE, "value")
    message("GlobalMetadata", {"version": (1, "string"), "attr": (2, "repeated AttributeProto")})
    message(
        "Node",
        {
            "id": (1, "uint64"),
            "name": (2, "string"),
            "type": (3, "NodeType"),
            "ctrl_deps": (4, "repeated uint64"),
            "data_deps": (5, "repeated uint64"),
            "start_time_micros": (6, "uint64"),
            "duration_micros": (7, "uint64"),
            "attr": (10, "repeated AttributeProto"),
        },
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [one.name for one in file.message_type]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in names
    }


MESSAGES = _messages()
Node, GlobalMetadata, AttributeProto = (
    MESSAGES[name] for name in ("Node", "GlobalMetadata", "AttributeProto")
)


def read_all(data: bytes) -> tuple[Any, list[Any]]:
    """The metadata and the nodes of a file."""
    found, at = [], 0
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        found.append(data[at : at + size])
        at += size
    return GlobalMetadata.FromString(found[0]), [Node.FromString(one) for one in found[1:]]


def value_of(node: Any, name: str) -> Any:
    """An attribute's value."""
    (attribute,) = (one for one in node.attr if one.name == name)
    return getattr(attribute, attribute.WhichOneof("value"))


def write_all(nodes: list[Any]) -> bytes:
    """As Chakra's encodeMessage writes them."""
    out = b""
    for one in [GlobalMetadata(version="0.0.4"), *nodes]:
        data, size = one.SerializeToString(), b""
        left = len(data)
        while left > 0x7F:
            size, left = size + bytes([left & 0x7F | 0x80]), left >> 7
        out += size + bytes([left]) + data
    return out
