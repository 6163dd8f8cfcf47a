"""``trace`` on Chakra execution traces: binary, gzipped and as JSON, with and without start times;
hostile files."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.extras.interop.chakra import chakra
from colltool.logs import chakra as chakra_traces
from colltool.logs import chakra_json
from colltool.logs.chakra import is_chakra
from colltool.logs.chakra_encode import encode_trace
from colltool.logs.chakra_format import ChakraNode
from tests.chakra_proto import read_all

GROUPS = [{"pg_name": "0", "ranks": list(range(8))}, {"pg_name": "1", "ranks": [0, 1]}]
GPU = {"is_cpu_op": False}


def comm(
    number: int,
    kind: int,
    size: int,
    *deps: int,
    lasts: int = 100,
    group: str = "0",
    start: int = 0,
) -> ChakraNode:
    of = {**GPU, "comm_type": kind, "comm_size": size, "pg_name": group}
    return ChakraNode(
        number,
        f"ncclDevKernel {number}",
        "COMM_COLL_NODE",
        data_deps=deps,
        start_us=start,
        duration_us=lasts,
        attributes=of,
    )


def gemm(number: int, lasts: int, *deps: int, start: int = 0, **of: Any) -> ChakraNode:
    return ChakraNode(
        number,
        "gemm",
        "COMP_NODE",
        data_deps=deps,
        start_us=start,
        duration_us=lasts,
        attributes=of or GPU,
    )


def write(path: Path, *nodes: ChakraNode, **metadata: Any) -> Path:
    head = {"rank": 0, "world_size": 8, "process_groups": json.dumps(GROUPS)} | metadata
    path.write_bytes(encode_trace(nodes, head))
    return path


def calls(path: Path) -> list[tuple[str, int, int, float]]:
    found = colltool.trace("dgx-h100", [path]).calls
    return [
        (str(one.primitive), one.bytes, one.group_size, round(one.measured_s * 1e6))
        for one in found
    ]


STEP = (
    gemm(1, 1000),
    comm(2, 0, 2**20, 1),
    comm(3, 2, 2**17, 2, lasts=70),
    comm(4, 7, 2**20, 3),
    comm(5, 6, 2**20, 4, group="1"),
)
READ = [
    ("all_reduce", 2**20, 8, 100),
    ("all_gather", 2**20, 8, 70),
    ("reduce_scatter", 2**20, 8, 100),
    ("all_to_all", 2**20, 2, 100),
]


def test_sizes_kinds_and_groups_are_read(tmp_path: Path) -> None:
    """An all-gather's comm_size is a rank's part; M is the whole."""
    assert calls(write(tmp_path / "a.0.et", *STEP)) == READ


def test_a_gzipped_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.0.et", *STEP)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert calls(path) == READ


def test_a_large_gzipped_file_is_known_by_its_start(tmp_path: Path) -> None:
    """The tables of what is packed come before its first byte."""
    named = (gemm(number, 10)._replace(name=f"gemm {number**7}") for number in range(1000, 1400))
    path = write(tmp_path / "a.0.et", *STEP, *named)
    assert len(gzip.compress(path.read_bytes())) > 4096
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert calls(path) == READ


def test_what_the_jsonizer_makes_is_read(tmp_path: Path) -> None:
    """One object after another, with nothing between, as MessageToJson prints them."""
    head, nodes = read_all(write(tmp_path / "a.0.et", *STEP).read_bytes())
    path = tmp_path / "a.0.json"
    path.write_text("".join(map(MessageToJson, (head, *nodes))))
    assert calls(path) == READ


def test_without_start_times_the_dependencies_are_walked(tmp_path: Path) -> None:
    """A collective beside 60 us of compute that does not wait for it, and one that waits for
    nothing but the stream."""
    nodes = (
        gemm(1, 1000),
        comm(2, 0, 2**20, 1),
        gemm(3, 60, 1),
        comm(4, 0, 2**20, lasts=50),
        gemm(5, 500, 2, 3),
    )
    found = colltool.trace("dgx-h100", [write(tmp_path / "a.0.et", *nodes)])
    assert found.window_s == pytest.approx(1600e-6)
    assert {round(one.exposed_s * 1e6) for one in found.calls} == {0, 40}  # 4 runs first, under 1


def test_recorded_times_are_taken(tmp_path: Path) -> None:
    nodes = gemm(1, 1000, start=10_000), comm(2, 0, 2**20, start=10_950)
    (call,) = colltool.trace("dgx-h100", [write(tmp_path / "a.0.et", *nodes)]).calls
    assert call.exposed_s == pytest.approx(50e-6)


def test_the_cpu_hides_nothing(tmp_path: Path) -> None:
    nodes = comm(1, 0, 2**20), gemm(2, 1000, is_cpu_op=True)
    (call,) = colltool.trace("dgx-h100", [write(tmp_path / "a.0.et", *nodes)]).calls
    assert call.exposed_s == pytest.approx(100e-6)


def test_groups_stand_in_pytorchs_node_too(tmp_path: Path) -> None:
    listed = json.dumps(GROUPS).replace('"', '\\"')
    init = ChakraNode(9, "## process_group:init ##", "METADATA_NODE", inputs=f"['{listed}']")
    path = tmp_path / "a.3.et"
    path.write_bytes(encode_trace([init, *STEP]))
    found = colltool.trace("dgx-h100", [path])
    assert [one.group_size for one in found.calls] == [8, 8, 8, 2]
    assert found.files[0].rank == 3  # by the file's name


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    nodes = *STEP, comm(7, 9, 1), comm(8, 0, 2**20, group="77"), comm(9, 0, 2**20, lasts=0)
    left = {
        str(one.reason): one.kernels
        for one in colltool.trace("dgx-h100", [write(tmp_path / "a.0.et", *nodes)]).left_out
    }
    assert left == {
        "'barrier' is not a primitive that colltool models": 1,
        "of the process group '77', whose ranks the file does not list": 1,
        "kernels without a time or a duration": 1,
    }


@cache
def exported() -> dict[str, bytes]:
    model = {"hidden": 1024, "layers": 4, "heads": 16, "ffn": 4096, "vocab": 32000}
    layout, batch = {"tp": 4, "dp": "auto"}, {"global": 8, "micro": 1}
    job: dict[str, Any] = {
        "name": "small",
        "model": model,
        "device": "h100",
        "stack": "megatron",
        "sequence": 2048,
    }
    job |= {"layout": layout, "batch": batch}
    return chakra(colltool.plan(job, "dgx-h100", 16))


def test_a_plan_that_was_exported_takes_its_own_prices(tmp_path: Path) -> None:
    files = [tmp_path / name for name in exported() if name.endswith(".et")]
    for path in files:
        path.write_bytes(exported()[path.name])
    found = colltool.trace("dgx-h100", files)
    assert (found.world, found.left_out) == (16, ())
    assert {one.group_size for one in found.calls} == {4, 16}
    for one in found.calls:
        assert one.expected_s == pytest.approx(one.measured_s, abs=1e-6)  # whole microseconds
    assert "layout: {dp: 16}" in found.job  # and it is a job again


@swept(
    ("nodes", "message"),
    [
        ((comm(1, 0, 8, 2), comm(2, 0, 8, 1)), "dependencies that go round in a circle"),
        ((comm(1, 0, 8), comm(1, 0, 8)), "two nodes of one number"),
        ((gemm(1, 5),), "holds no communication node"),
    ],
)
def test_graphs_that_cannot_be_walked(
    tmp_path: Path, nodes: tuple[ChakraNode, ...], message: str
) -> None:
    with pytest.raises(ColltoolError, match=message):
        calls(write(tmp_path / "a.0.et", *nodes))


JSON = '{"version": "0.0.4"}{"id": "1", "type": "COMM_COLL_NODE"}'


@swept(
    ("content", "message"),
    [
        (JSON.replace('"1"', '"x"'), "node 1 is not one of Chakra's: a whole number is due"),
        (JSON.replace("COMM_COLL_NODE", "NODE"), "node 1 is not one of Chakra's: its type"),
        (JSON + "[", "node 2 is not one of Chakra's"),
        (JSON + "[1]", "an object is due"),
        ('{"version": ' + "[" * 100_000, "is not JSON of Chakra"),
        (gzip.compress(encode_trace(STEP) * 3)[:-20], "ends within what was packed"),
        (encode_trace(STEP)[:-3], "ends within node 5"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "bad.0.et"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ColltoolError, match=message):
        calls(path)


def test_json_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.0.json"
    path.write_text(JSON * 2)
    monkeypatch.setattr(chakra_json, "MOST_NODES", 1)
    with pytest.raises(ColltoolError, match="has more than 1 nodes"):
        calls(path)
    monkeypatch.setattr(chakra_json, "MOST_JSON", 8)
    with pytest.raises(ColltoolError, match="MiB of JSON"):
        calls(path)


@swept(
    ("head", "is_one"),
    [
        (b"\x07\n\x050.0.4\x10", True),
        (b"\x00\x06\x08\x01\x18\x07", True),
        (b"\x00", True),
        (b'{\n  "version": "0.0.4"\n}{', True),
        (b"{}{", True),
        (b"", False),
        (b"a\nb", False),
        (b"\x00{\x00", False),
        (b'{"traceEvents": []}', False),
        (b'{"schemaVersion": 1}', False),
        (b"[{", False),
        (b"\xff\xfe{\x00", False),
    ],
)
def test_chakra_is_told_from_other_files(head: bytes, is_one: bool) -> None:
    assert is_chakra(head) is is_one


def test_the_graph_is_walked_with_prices(tmp_path: Path) -> None:
    """Compute as recorded; a collective that the next compute waits for, and one beside it; one
    without a price stays."""
    nodes = (
        gemm(1, 1000),
        comm(2, 0, 2**20, 1, lasts=0),
        gemm(3, 500, 2),
        comm(4, 0, 2**20, 2),
        comm(5, 9, 1, 3, lasts=70),
    )
    found = colltool.trace("dgx-h100", [write(tmp_path / "a.0.et", *nodes)])
    (one,) = found.replayed
    (call,) = found.calls
    assert call.expected_s is not None
    assert one.recorded_s == pytest.approx(1570e-6)
    assert one.priced_s == pytest.approx(
        1000e-6 + call.expected_s + max(500e-6, call.expected_s) + 70e-6
    )
    assert (one.priced, [(str(reason), calls) for reason, calls in one.kept]) == (
        2,
        [("'barrier' is not a primitive that colltool models", 1)],
    )
    assert "With these prices the graph of rank 0 takes" in found.summary()


def test_a_trace_without_durations_has_a_priced_step(tmp_path: Path) -> None:
    """As generators of symbolic traces leave it."""
    nodes = gemm(1, 1000), comm(2, 0, 2**26, 1, lasts=0), gemm(3, 500, 2)
    slow, fast = (
        colltool.trace(on, [write(tmp_path / "a.0.et", *nodes)]).replayed[0]
        for on in ("dgx-a100", "dgx-h100")
    )
    assert slow.recorded_s == fast.recorded_s == pytest.approx(1500e-6)
    assert slow.priced_s > fast.priced_s > 1600e-6


def test_an_exported_plan_walks_back_to_its_own_time(tmp_path: Path) -> None:
    path = tmp_path / "workload.3.et"
    path.write_bytes(exported()[path.name])
    (one,) = colltool.trace("dgx-h100", [path]).replayed
    assert one.rank == 3
    assert not one.kept
    assert one.priced_s == pytest.approx(one.recorded_s, abs=one.priced * 1e-6)


def test_a_few_bytes_cannot_name_a_job_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ChakraNode(
        1,
        "all",
        "COMM_COLL_NODE",
        duration_us=9,
        attributes={**GPU, "comm_type": 0, "comm_size": 2**20},
    )
    found = colltool.trace(
        "dgx-h100", [write(tmp_path / "a.0.et", whole, world_size=10**17, process_groups="")]
    )
    assert not found.calls
    assert [str(one.reason)[:29] for one in found.left_out] == ["metadata without a group size"]
    uneven = json.dumps([{"pg_name": "0", "ranks": [0, 1, 3]}])
    monkeypatch.setattr(chakra_traces, "MOST_LISTED", 5)
    with pytest.raises(ColltoolError, match="unevenly spaced groups name 6 ranks, more than 5"):
        calls(write(tmp_path / "a.0.et", comm(1, 0, 8), comm(2, 0, 8), process_groups=uneven))
