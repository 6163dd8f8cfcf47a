"""Chakra's bytes: the protobuf library reads what we write, and we read what it writes; hostile
bytes are refused."""

from __future__ import annotations

from io import BytesIO

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.logs import chakra_decode, chakra_format
from colltool.logs.chakra_decode import decode_trace
from colltool.logs.chakra_encode import encode_trace
from colltool.logs.chakra_format import ChakraNode
from tests.chakra_proto import AttributeProto, Node, read_all, value_of, write_all

NODES = [
    ChakraNode(
        0,
        "forward",
        "COMP_NODE",
        start_us=5,
        duration_us=1_234_567,
        attributes={"is_cpu_op": False, "num_ops": 2**40},
    ),
    ChakraNode(
        1,
        "grädients",
        "COMM_COLL_NODE",
        (0,),
        (0, 300),
        attributes={
            "comm_type": 0,
            "comm_size": 2**33,
            "pg_name": "7",
            "share": 0.25,
            "comm_tag": 9,
        },
    ),
    ChakraNode(2**40, "", "COMM_SEND_NODE"),
]


def test_the_library_reads_what_we_write() -> None:
    head, nodes = read_all(encode_trace(NODES, {"world": 8}))
    assert (head.version, head.attr[0].int64_val) == ("0.0.4", 8)
    for theirs, ours in zip(nodes, NODES, strict=True):
        assert (theirs.id, theirs.name, chakra_format.NODE_TYPES[theirs.type]) == (
            ours.id,
            ours.name,
            ours.type,
        )
        assert (tuple(theirs.ctrl_deps), tuple(theirs.data_deps)) == (
            ours.ctrl_deps,
            ours.data_deps,
        )
        assert (theirs.start_time_micros, theirs.duration_micros) == (
            ours.start_us,
            ours.duration_us,
        )
        assert {one.name: value_of(theirs, one.name) for one in theirs.attr} == ours.attributes
    kinds = {one.name: one.WhichOneof("value") for one in nodes[1].attr}
    # where Chakra's first feeder looks
    assert kinds["comm_type"] == kinds["comm_size"] == "int64_val"
    assert kinds["comm_tag"] == "int32_val"


def test_we_read_what_the_library_writes() -> None:
    kinds = {
        "double_val": 0.1,
        "float_val": 0.5,
        "int32_val": -3,
        "int64_val": -(2**40),
        "uint32_val": 7,
        "uint64_val": 2**63,
        "sint32_val": -5,
        "sint64_val": -(2**50),
        "bool_val": True,
        "string_val": "x",
    }
    attributes = [
        AttributeProto(name=kind, doc_string="said", **{kind: value})
        for kind, value in kinds.items()
    ]
    node = Node(id=3, name="all", type=4, ctrl_deps=[1, 2**60], duration_micros=8, attr=attributes)
    (found,) = decode_trace(BytesIO(write_all([node])), "x.et").nodes
    assert found.attributes == kinds
    assert (found.id, found.type, found.ctrl_deps, found.duration_us) == (
        3,
        "COMP_NODE",
        (1, 2**60),
        8,
    )


def test_what_we_write_we_read() -> None:
    assert list(decode_trace(BytesIO(encode_trace(NODES)), "x.et").nodes) == NODES


@swept(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\xff" * 9, "is not a Chakra trace"),
        (b"\xff\xff\xff\x7f", "has 268,435,455 bytes, more than"),
        (b"\x05ab", "ends within its metadata"),
        (b"\x00\x80", "ends within node 1"),
        (b"\x00\x03\x0a\x7fx", "node 1 is not one of Chakra's: a field is cut off"),
        (b"\x00\x01\x80", "a number is cut off"),
        (b"\x00\x0b\x08" + b"\xff" * 10, "a number has more than 64 bits"),
        (b"\x00\x02\x18\x63", "there is no node type 99"),
        (b"\x00\x02\x0b\x00", "a field of kind 3"),
        (b"\x00\x03\x12\x01\xff", "codec can't decode"),
    ],
)
def test_bad_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ColltoolError, match=message) as caught:
        list(decode_trace(BytesIO(data), "x.et").nodes)
    assert caught.value.where == "x.et"


def test_every_cut_is_refused_or_read() -> None:
    whole = encode_trace(NODES)
    for end in range(1, len(whole)):
        try:
            assert len(list(decode_trace(BytesIO(whole[:end]), "x.et").nodes)) < len(NODES)
        except ColltoolError:
            continue


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("MOST_NODES", "more than 1 nodes"),
        ("MOST_ATTRIBUTES", "more than 1 attributes"),
        ("MOST_DEPENDENCIES", "more than 1 depend"),
    ],
)
def test_limits_hold(monkeypatch: pytest.MonkeyPatch, limit: str, message: str) -> None:
    monkeypatch.setattr(chakra_decode, limit, 1)
    with pytest.raises(ColltoolError, match=message):
        list(decode_trace(BytesIO(encode_trace(NODES)), "x.et").nodes)
