"""The forms in which Chakra traces are published, each made of the same graph: protobuf of three
schemas, JSON of the jsonizer, of the feeder and of PyTorch's observer."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from google.protobuf.json_format import MessageToJson
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.commands.plan import trace_files
from colltool.logs.chakra import is_chakra
from colltool.logs.chakra_encode import encode_trace
from colltool.logs.chakra_format import COLLECTIVES, ChakraNode
from tests.chakra_proto import read_all

COLLECTIVES_2023 = ("ALL_REDUCE", "ALL_TO_ALL", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST")
TYPES = {"COMP_NODE": 4, "COMM_COLL_NODE": 7}


# --- the wire format of protobuf, written a second time


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def sized(number: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def message(content: bytes) -> bytes:
    return varint(len(content)) + content


# a node: number, name, kind, duration, nodes before it, collective, bytes
Node = tuple[int, str, str, int, tuple[int, ...], str, int]
GRAPH: tuple[Node, ...] = (
    (0, "gemm", "COMP_NODE", 500, (), "", 0),
    (1, "reduce", "COMM_COLL_NODE", 100, (0,), "ALL_REDUCE", 2**20),
    (2, "gather", "COMM_COLL_NODE", 70, (1,), "ALL_GATHER", 2**17),
    (3, "scatter", "COMM_COLL_NODE", 90, (2,), "REDUCE_SCATTER", 2**20),
    (4, "exchange", "COMM_COLL_NODE", 80, (3,), "ALL_TO_ALL", 2**20),
    (5, "gemm", "COMP_NODE", 200, (4,), "", 0),
)
READ = [
    ("all_reduce", 2**20, 8, 100),
    ("all_gather", 2**20, 8, 70),
    ("reduce_scatter", 2**20, 8, 90),
    ("all_to_all", 2**20, 8, 80),
]


def of_2023(head: bytes | None) -> bytes:
    """The schema of 2023: parents one a field, attributes with a type, mostly no metadata."""
    out = b"" if head is None else message(head)
    for number, name, kind, lasts, before, collective, size in GRAPH:
        content = whole(1, number) + sized(2, name) + whole(3, TYPES[kind])
        content += b"".join(whole(4, other) for other in before) + sized(5, "[]")
        content += sized(11, sized(1, "runtime") + whole(2, 3) + whole(7, lasts))
        if collective:
            kind_number = COLLECTIVES_2023.index(collective)
            content += sized(11, sized(1, "comm_type") + whole(2, 3) + whole(7, kind_number))
            content += sized(11, sized(1, "comm_size") + whole(2, 2) + whole(6, size))
            dims = whole(9, 1) * 2
            content += sized(11, sized(1, "involved_dim") + whole(2, 5) + dims)
        out += message(content)
    return out


def of_today(head: bytes, packed: bool, said: bool, whole_field: int) -> bytes:
    """Today's schema: dependencies packed or not, ``is_cpu_op`` said or not, numbers of any kind."""
    out = message(head)
    for number, name, kind, lasts, before, collective, size in GRAPH:
        content = whole(1, number) if number else b""
        content += sized(2, name) + whole(3, TYPES[kind])
        if packed:
            content += sized(5, b"".join(map(varint, before))) if before else b""
        else:
            content += b"".join(whole(5, other) for other in before)
        content += whole(7, lasts)
        if said:
            content += sized(10, sized(1, "is_cpu_op") + whole(27, 0))
        if collective:
            number_of = COLLECTIVES.index(collective)
            content += sized(10, sized(1, "comm_type") + whole(9, number_of))
            if whole_field == 21:
                raw = varint(21 << 3 | 1) + struct.pack("<Q", size)
            else:
                raw = whole(whole_field, size)
            content += sized(10, sized(1, "comm_size") + raw)
            content += sized(10, sized(1, "involved_dim") + sized(28, sized(1, b"\1\1")))
        out += message(content)
    return out


HEADS = (
    b"",
    sized(1, "0.0.4"),
    # until 0.0.3 attributes had the field 1, with PyTorch's schema first
    sized(1, sized(1, "schema") + sized(29, "1.0.2-chakra.0.0.4")) + sized(1, sized(1, "pid") + whole(13, 7)),
    sized(2, sized(1, "schema") + sized(29, "1.0.2-chakra.1.0.0")),
    sized(1, "0.0.4") + sized(2, sized(1, "input_file") + sized(29, "MICRO\n1\n")),
)  # fmt: skip
TODAY = [
    of_today(head, packed, said, field)
    for head in HEADS
    for packed in (True, False)
    for said in (True, False)
    for field in (7, 9, 11, 13, 21)
]
OLDER = [of_2023(None), of_2023(sized(1, sized(1, "schema") + whole(2, 4) + sized(8, "1.0.1")))]


def calls(found: Any) -> list[tuple[str, int, int, int]]:
    return [
        (str(call.primitive), call.bytes, call.group_size, round(call.measured_s * 1e6))
        for call in found.calls
    ]


@swept("number", range(len(TODAY) + len(OLDER)), most=40)
def test_every_schema_is_read(number: int, tmp_path: Path) -> None:
    """Eight files that name no group: the files are the group, as ASTRA-sim takes all ranks."""
    content = (*TODAY, *OLDER)[number]
    assert is_chakra(content[:4096])
    files = []
    for rank in range(8):
        path = tmp_path / f"graph.{rank}.et"
        path.write_bytes(gzip.compress(content) if rank % 2 else content)
        files.append(path)
    found = colltool.trace("dgx-h100", files)
    assert calls(found) == READ * (len(found.calls) // 4)
    assert found.world == 8
    assert found.window_s == pytest.approx(8 * 1040e-6)
    assert [why.code for why in found.assumed] == ["group-by-files"]


def test_the_format_of_2022_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "old.0.eg"
    node = whole(1, 1) + sized(2, "all") + whole(3, 6) + whole(13, 1) + whole(18, 1024)
    path.write_bytes(message(node))
    with pytest.raises(ColltoolError, match=r"eg_def\.proto \(2022\), whose times have no unit"):
        colltool.trace("dgx-h100", path)


# --- JSON


def jsonized() -> str:
    nodes = []
    for number, name, kind, lasts, before, collective, size in GRAPH:
        attributes: dict[str, Any] = {"is_cpu_op": False}
        if collective:
            attributes |= {"comm_type": COLLECTIVES.index(collective), "comm_size": size}
        of: Any = kind
        nodes.append(ChakraNode(number, name, of, (), before, 0, lasts, attributes))
    head, messages = read_all(encode_trace(nodes, {"world_size": 8}))
    return "".join(map(MessageToJson, (head, *messages)))


def feeder(upper: bool, text: bool) -> str:
    """The form of Chakra's feeder, in either spelling of its keys."""
    listed = []
    for number, name, kind, lasts, before, collective, size in GRAPH:
        node = {
            "Id" if upper else "id": number,
            "Name" if upper else "name": name,
            "NodeType" if upper else "type": kind if text else TYPES[kind],
            "ctrlDeps" if upper else "ctrl_deps": [number + 1],
            "data_deps": list(before),
            "runtime": float(lasts) if text else lasts,
            "is_cpu_op": False,
        }
        if collective:
            number_of = COLLECTIVES.index(collective)
            node |= {"comm_type": collective if text else number_of, "comm_size": size}
        listed.append(node)
    return json.dumps({"workload_name": "step", "ngpus": 8, "workload_graph": listed})


NAMES = {
    "ALL_REDUCE": "allreduce",
    "ALL_GATHER": "_allgather_base",
    "REDUCE_SCATTER": "_reduce_scatter_base",
    "ALL_TO_ALL": "all_to_all",
}


def linked(schema: str) -> str:
    """PyTorch's execution trace with the kernels that chakra_trace_link adds."""
    listed: list[dict[str, Any]] = [{"id": 1, "name": "[pytorch|profiler|execution_trace|thread]"}]
    at = 1000.5
    for number, _, _, lasts, _, collective, size in GRAPH:
        operator = 10 + 10 * number
        inputs: dict[str, Any] = {"values": [], "shapes": [], "types": []}
        host = {
            "id": operator,
            "name": "aten::mm",
            "ctrl_deps": 1,
            "inputs": inputs,
            "outputs": inputs,
        }
        if collective:
            parts = size * 8 if collective == "ALL_GATHER" else size
            labels = {
                "collective_name": NAMES[collective],
                "dtype": "Byte",
                "in_msg_nelems": size,
                "out_msg_nelems": parts,
                "pg_name": "0",
                "pg_desc": "default_pg",
                "pg_size": 8,
                "global_rank_start": 0,
                "global_rank_stride": 1,
            }
            host |= {"name": "record_param_comms", "attrs": attrs(labels)}
        kernel = {
            "id": operator + 1,
            "name": "ncclDevKernel_x(args)" if collective else "gemm",
            "ctrl_deps": operator,
            "cat": "kernel",
            "ts": at,
            "exclusive_dur": lasts,
            "inclusive_dur": lasts + 1,
            "stream": 7,
        }
        at += lasts
        listed += [host, kernel]
    return json.dumps({"schema": schema, "pid": 3, "time": "", "start_ts": 1, "nodes": listed})


def attrs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": "string", "value": value} for name, value in values.items()]


TEXTS = {
    "jsonizer": jsonized(),
    "feeder": feeder(upper=True, text=False),
    "feeder, other keys": feeder(upper=False, text=True),
    "linked 1.0.2": linked("1.0.2-chakra.0.0.4"),
    "linked 1.1.1": linked("1.1.1-chakra.0.0.4"),
}


@swept("form", TEXTS)
@swept("packed", [False, True])
def test_every_json_is_read(form: str, packed: bool, tmp_path: Path) -> None:
    content = TEXTS[form].encode()
    path = tmp_path / "graph.0.json"
    path.write_bytes(gzip.compress(content) if packed else content)
    found = colltool.trace("dgx-h100", path)
    assert calls(found) == READ
    assert (found.world, found.assumed) == (8, ())


HOST_GROUP = json.dumps([{"pg_name": "3", "ranks": list(range(4))}])
TENSOR = [5, 6, 0, 2**18, 4, "cuda:0"]


def host_trace(schema: str, described: bool) -> dict[str, Any]:
    """An execution trace of the host alone, labels as attributes or, until 1.0.2, as inputs."""
    init = {"id": 2, "name": "## process_group:init ##", "ctrl_deps": 1}
    values: list[Any] = [[TENSOR], [7, False], ["3", "dp"], 0, "allreduce", [], [], 0, 1, 4]
    types = [
        "GenericList[Tensor(float)]", "Tuple[Int,Bool]", "Tuple[String,String]", "Int", "String",
        "GenericList[]", "GenericList[]", "Int", "Int", "Int",
    ]  # fmt: skip
    call: dict[str, Any] = {"id": 4, "name": "record_param_comms", "ctrl_deps": 3}
    call["inputs"] = {"values": values, "shapes": [], "types": types}
    if schema == "1.0.1":  # flat
        call |= {"inputs": values, "input_types": types, "parent": 3}
        init["inputs"] = [HOST_GROUP]  # type: ignore[assignment]
    else:
        init["inputs"] = {"values": [HOST_GROUP], "shapes": [[]], "types": ["String"]}  # type: ignore[assignment]
    if described:
        labels = {"collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 2**18}
        labels |= {"out_msg_nelems": 2**18, "pg_name": "3", "pg_size": 4}
        call["attrs"] = attrs(labels)
    barrier = {
        "id": 6,
        "name": "record_param_comms",
        "ctrl_deps": 5,
        "attrs": attrs({"collective_name": "wait"}),
    }
    nodes = [init, {"id": 3, "name": "aten::mul", "ctrl_deps": 1}, call, barrier]
    return {"schema": schema, "pid": 3, "time": "", "start_ts": 1, "nodes": nodes, "finish_ts": 2}


@swept(
    ("schema", "described"),
    [("1.0.1", False), ("1.0.2-chakra.0.0.4", False), ("1.0.3-chakra.0.0.4", True), ("1.1.1-chakra.0.0.4", True)],
)  # fmt: skip
def test_a_trace_of_the_host_has_prices_alone(schema: str, described: bool, tmp_path: Path) -> None:
    path = tmp_path / "rank-0.json"
    path.write_text(json.dumps(host_trace(schema, described)))
    found = colltool.trace("dgx-h100", path)
    assert not found.calls
    (graph,) = found.replayed
    (call,) = graph.calls
    assert (str(call.primitive), call.bytes, call.ranks, call.calls) == ("all_reduce", 2**20, 4, 1)
    said = found.summary()
    assert said.startswith("Prices on dgx-h100: all-reduce of 1 MiB on 4 ranks ")
    assert "No call of 1 trace of 4 ranks has a recorded time" in said
    assert "inf" not in found._repr_html_()


def test_a_trace_of_the_host_without_communication_says_so(tmp_path: Path) -> None:
    trace = host_trace("1.1.1-chakra.0.0.4", described=True)
    trace["nodes"] = trace["nodes"][:2]
    path = tmp_path / "rank-0.json"
    path.write_text(json.dumps(trace))
    with pytest.raises(ColltoolError, match="holds no communication node"):
        colltool.trace("dgx-h100", path)


# --- order, groups and what is missing

GPU = {"is_cpu_op": False}
ALL = {**GPU, "comm_type": 0, "comm_size": 2**20}


def et(path: Path, *nodes: ChakraNode, **metadata: Any) -> Path:
    path.write_bytes(encode_trace(nodes, metadata))
    return path


def test_callers_end_after_what_they_call(tmp_path: Path) -> None:
    """``ctrl_deps`` name the caller: order is ``data_deps`` alone."""
    nodes = (
        ChakraNode(1, "step", "COMP_NODE", (), (3,), 0, 500, {"is_cpu_op": True}),
        ChakraNode(2, "aten::mm", "COMP_NODE", (1,), (), 0, 50, {"is_cpu_op": True}),
        ChakraNode(3, "gemm", "COMP_NODE", (2,), (2,), 0, 200, GPU),
        ChakraNode(4, "nccl", "COMM_COLL_NODE", (1,), (3,), 0, 90, ALL),
    )
    found = colltool.trace("dgx-h100", et(tmp_path / "a.0.et", *nodes, world_size=8))
    assert calls(found) == [("all_reduce", 2**20, 8, 90)]
    assert found.replayed[0].recorded_s == pytest.approx(750e-6)


def test_one_file_that_names_no_group_is_of_the_fabric_and_not_judged(tmp_path: Path) -> None:
    path = et(tmp_path / "a.0.et", ChakraNode(1, "nccl", "COMM_COLL_NODE", (), (), 0, 90, ALL))
    found = colltool.trace("dgx-h100", path)
    assert calls(found) == [("all_reduce", 2**20, 256, 90)]
    assert found.summary().splitlines()[2].startswith("Not judged: the file names no group")
    assert "No tier is slow" not in found._repr_html_()


def test_a_file_among_many_is_of_the_highest_rank(tmp_path: Path) -> None:
    """Files 6 and 7 of eight: the group reaches to the last rank."""
    node = ChakraNode(1, "nccl", "COMM_COLL_NODE", (), (), 0, 90, ALL)
    files = [et(tmp_path / f"a.{rank}.et", node) for rank in (6, 7)]
    assert colltool.trace("dgx-h100", files).world == 8


def test_some_dimensions_of_a_network_are_no_group(tmp_path: Path) -> None:
    node = ChakraNode(1, "nccl", "COMM_COLL_NODE", (), (), 0, 90, {**ALL, "involved_dim": "10"})
    found = colltool.trace("dgx-h100", et(tmp_path / "a.0.et", node, world_size=8))
    assert not found.calls
    assert "involved_dim" in str(found.left_out[0].reason)


def test_launches_on_the_cpu_are_no_calls(tmp_path: Path) -> None:
    nodes = (
        ChakraNode(1, "c10d::broadcast_", "COMM_COLL_NODE", (), (), 0, 85, {"is_cpu_op": True}),
        ChakraNode(2, "ncclKernel_Broadcast_RING_LL", "COMM_COLL_NODE", (), (1,), 0, 28, GPU),
    )
    found = colltool.trace("dgx-h100", et(tmp_path / "a.0.et", *nodes, world_size=8))
    (kernel,) = found.unpriced
    assert (kernel.calls, round(kernel.total_s * 1e6)) == (1, 28)
    assert found.summary().startswith("No call of 1 trace of 8 ranks has a price on dgx-h100: ")


def test_logs_that_are_graphs_say_so(tmp_path: Path) -> None:
    binary = et(tmp_path / "a.0.et", ChakraNode(1, "nccl", "COMM_COLL_NODE", (), (), 0, 0, ALL))
    texts = tmp_path / "a.0.json"
    texts.write_text(TEXTS["feeder"])
    for path in (binary, texts):
        with pytest.raises(ColltoolError, match="is a Chakra execution trace, not a log") as caught:
            colltool.doctor(path)
        assert f"colltool trace {path}" in caught.value.fix


def test_plan_takes_graphs_in_json(tmp_path: Path) -> None:
    """As it takes .et: known by what they hold, for models are JSON too."""
    paths = [tmp_path / "a.0.json", tmp_path / "rank-1.json.gz"]
    paths[0].write_text(TEXTS["feeder"])
    paths[1].write_bytes(gzip.compress(TEXTS["linked 1.1.1"].encode()))
    model = tmp_path / "config.json"
    model.write_text('{"model_type": "llama"}')
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    assert trace_files([*paths, model, empty]) == [str(path) for path in paths]
    assert colltool.plan_traces(paths, "dgx-h100").world == 8


def test_messages_have_prices(tmp_path: Path) -> None:
    """As in ASTRA-sim's collectives of sends and receives."""
    ends = {**GPU, "comm_src": 0, "comm_dst": 1, "comm_size": 2**20}
    nodes = (
        ChakraNode(1, "send", "COMM_SEND_NODE", (), (), 0, 0, ends),
        ChakraNode(2, "recv", "COMM_RECV_NODE", (), (), 0, 0, ends),
    )
    found = colltool.trace("dgx-h100", et(tmp_path / "ring.0.et", *nodes))
    (call,) = found.replayed[0].calls
    assert (str(call.primitive), call.bytes, call.ranks, call.calls) == ("p2p", 2**20, 2, 2)
    assert found.summary().startswith("Prices on dgx-h100: 2 x p2p of 1 MiB on 2 ranks ")


# --- hostile hands

WRONG: list[Any] = [True, 1.5, "x", [], [1], {}, {"a": []}, -7, 10**30, [[]], None, 2**70]


def is_read_or_refused(path: Path) -> None:
    """A trace is read, or refused with its place."""
    try:
        colltool.trace("dgx-h100", path)
    except ColltoolError as error:
        refused = error
    else:
        return
    assert refused.argument or str(path) in str(refused.where)


@settings(deadline=None, max_examples=examples(200))
@given(data=st.data())
def test_a_wrong_type_at_any_key_is_no_bug(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Refused with the place, or read as what is left."""
    whole_texts = (TEXTS["feeder"], TEXTS["linked 1.1.1"], json.dumps(host_trace("1.0.1", False)))
    trace: Any = json.loads(data.draw(st.sampled_from(whole_texts)))
    inner = trace
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        deeper = inner[key]
        if not isinstance(deeper, dict | list) or not deeper or data.draw(st.booleans()):
            break
        inner = deeper
    inner[key] = data.draw(st.sampled_from(WRONG))
    path = tmp_path_factory.mktemp("wrong") / "a.0.json"
    path.write_text(json.dumps(trace))
    is_read_or_refused(path)


@settings(deadline=None, max_examples=examples(300))
@given(data=st.data())
def test_damaged_bytes_are_no_bug(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(data.draw(st.sampled_from((*TODAY, *OLDER))))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "a.0.et"
    path.write_bytes(content)
    is_read_or_refused(path)
